// SPDX-License-Identifier: Apache-2.0
// labels: medium
// ranks: 2
/* Two ranks: what one of them lacks both measure again; what both have is taken over to the bit; other options take nothing. */
#include "profiler_support.h"

#include <unistd.h>

static const char cluster[] = "{\"schema\":\"qsync/cluster/2\",\"classes\":{"
                              "\"big\":{\"role\":\"training\",\"backend\":\"ref\",\"count\":1,\"formats\":[\"fp32\"]},"
                              "\"weak\":{\"role\":\"inference\",\"backend\":\"ref\",\"count\":1,\"formats\":[\"fp32\",\"int8\"],"
                              "\"storage\":[\"fp32\",\"int8\"]}}}";
static char partial[64], said[512];
static bench opened;

static void hear(void *context, qs_log_level level, const char *line) {
    (void)context;
    if (level > QS_LOG_DEBUG && (strstr(line, "resumed") || strstr(line, "left aside"))) snprintf(said, sizeof said, "%s", line);
}

static void measure(bench *b) {
    said[0] = 0;
    qs_profile_release(&b->profile);
    assert_ok(qs_profile_measure(&b->options, b->device, b->comm, &b->profile));
}

static void all_is_taken_over(void **state) {
    bench *b = *state;
    measure(b); /* the file stays: it is the caller's to remove */
    assert_int_equal(access(partial, F_OK), 0);
    qs_profile before = b->profile;
    b->profile = (qs_profile){0};
    measure(b);
    if (qs_comm_rank(b->comm) > 0) return;
    assert_non_null(strstr(said, "resumed"));
    assert_int_equal(b->profile.classes, 2);
    for (int c = 0; c < 2; c++) {
        const qs_class_profile *old = &before.class_[c], *new = &b->profile.class_[c];
        assert_int_equal(new->conversions, old->conversions);
        assert_int_equal(new->kernels, old->kernels);
        for (int i = 0; i < old->kernels; i++)
            assert_true(new->kernel[i].us == old->kernel[i].us &&new->kernel[i].samples == old->kernel[i].samples);
        for (int i = 0; i < old->conversions; i++)
            assert_true(new->conversion[i].piece[0].us_per_element == old->conversion[i].piece[0].us_per_element);
    }
    assert_int_equal(b->profile.collectives, before.collectives);
    assert_true(b->profile.statistics.operator_[0].src.norm2[0] == before.statistics.operator_[0].src.norm2[0]);
    qs_profile_release(&before);
}

static void what_one_rank_lacks_is_measured(void **state) {
    bench *b = *state;
    if (qs_comm_rank(b->comm) == 1) assert_int_equal(unlink(partial), 0);
    measure(b);
    if (qs_comm_rank(b->comm) > 0) return;
    assert_string_equal(said, "");
    assert_int_equal(b->profile.classes, 2);
    assert_true(b->profile.class_[1].conversions > 5 && b->profile.collectives > 0 && b->profile.statistics.iterations == 2);
}

static void other_options_take_nothing(void **state) {
    bench *b = *state;
    b->options.repetitions = 3;
    measure(b);
    if (qs_comm_rank(b->comm) == 0) assert_non_null(strstr(said, "other options"));
    b->options.fresh = true;
    measure(b);
    assert_string_equal(said, "");
    qs_profile_partial_remove(&b->options);
    assert_int_not_equal(access(partial, F_OK), 0);
}

static int open_bench(void **state) {
    bench_open(&opened, cluster, NULL, "mlp:width=0.125", 8);
    double process = getpid();
    assert_ok(qs_comm_broadcast(opened.comm, &process, sizeof process, 0));
    snprintf(partial, sizeof partial, "profiler-resume-%.0f.partial.%d", process, qs_comm_rank(opened.comm));
    opened.options.partial = partial;
    qs_log_set(hear, NULL);
    *state = &opened;
    return 0;
}

static int close_bench(void **state) {
    (void)state;
    (void)unlink(partial);
    bench_close(&opened);
    return 0;
}

TEST_MAIN_WITH(open_bench, close_bench, all_is_taken_over, what_one_rank_lacks_is_measured, other_options_take_nothing)
