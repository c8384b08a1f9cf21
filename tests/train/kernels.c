// SPDX-License-Identifier: Apache-2.0
// labels: short
/* A plan's kernels are the ones that run, whatever the device prefers by then; a smaller last step and evaluation take the first ones. */
#include "plan_support.h"

enum { MOST = 256 };

typedef struct choices {
    int count;
    qs_kernel_choice choice[MOST];
} choices;

/* The last candidate of every case of a plan that has several. */
static void others_fill(qs_device *device, const qs_class_plan *plan, choices *out) {
    out->count = 0;
    for (int k = 0; k < plan->kernels; k++) {
        qs_kernel_fact all[QS_MOST_CANDIDATES];
        qs_case one;
        int count = 0;
        assert_ok(qs_case_parse(plan->kernel[k].case_text, &one));
        assert_ok(qs_device_candidates(device, &one, all, &count));
        if (count < 2) continue;
        assert_true(out->count < MOST);
        qs_kernel_choice *choice = &out->choice[out->count++];
        assert_ok(qs_format_text(&choice->case_text, "%s", plan->kernel[k].case_text));
        memcpy(choice->kernel, all[count - 1].kernel, sizeof choice->kernel);
    }
}

static void others_release(choices *one) {
    for (int i = 0; i < one->count; i++)
        free(one->choice[i].case_text);
}

static uint64_t weights_of(bench *here, const qs_plan *plan) {
    qs_train_result result;
    char path[128], *data = NULL;
    size_t bytes = 0;
    here->options.plan = plan;
    assert_ok(qs_train(&here->options, here->device, here->comm, &result));
    result_release(&result);
    snprintf(path, sizeof path, "%s/weights.safetensors", here->folder);
    assert_ok(qs_file_read(path, 1 << 28, &data, &bytes));
    const uint64_t hash = qs_hash(data, bytes, 0);
    free(data);
    return hash;
}

/* Plans for the usual kernels and for others differ in their schedules; each runs on a device that prefers the other's, since training
 * refuses a schedule that is not the plan's, and gives the same bits as on one that agrees with it. */
TEST(plans_decide) {
    bench here;
    qs_plan usual, tuned;
    choices others;
    if (!backend_exists("cpu")) skip();
    bench_open(&here, "cpu", "self", "lenet5", 24); /* 256 samples: the last step is smaller */
    here.options.run_folder = here.folder;
    plan_fill(&here, "fp32", &usual);
    others_fill(here.device, usual.class_, &others);
    assert_true(others.count > 0);
    const uint64_t agreed = weights_of(&here, &usual);
    assert_ok(qs_device_prefer(here.device, others.count, others.choice));
    plan_fill(&here, "fp32", &tuned);
    assert_string_not_equal(usual.class_->schedule, tuned.class_->schedule);
    assert_true(weights_of(&here, &usual) == agreed);
    const uint64_t other = weights_of(&here, &tuned);
    assert_ok(qs_device_prefer(here.device, 0, NULL));
    assert_true(weights_of(&here, &tuned) == other);
    others_release(&others);
    qs_plan_release(&usual);
    qs_plan_release(&tuned);
    bench_close(&here);
}

TEST_MAIN(plans_decide)
