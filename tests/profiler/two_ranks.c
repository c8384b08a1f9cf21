// SPDX-License-Identifier: Apache-2.0
// labels: medium
// links: replayer
// ranks: 2
/* Two ranks of two classes: rank 0 receives both, with the all-reduce between them, and statistics of both ranks' samples. */
#include "profiler_support.h"

#include "qsync/replayer.h"

static const char cluster[] = "{\"schema\":\"qsync/cluster/2\",\"classes\":{"
                              "\"big\":{\"role\":\"training\",\"backend\":\"ref\",\"count\":1,\"formats\":[\"fp32\"]},"
                              "\"weak\":{\"role\":\"inference\",\"backend\":\"ref\",\"count\":1,\"formats\":[\"fp32\",\"int8\"],"
                              "\"storage\":[\"fp32\",\"bf16\",\"int8\"]}}}";

static void both_classes_are_there(const bench *b) {
    const qs_profile *profile = &b->profile;
    assert_int_equal(profile->classes, 2);
    assert_string_equal(profile->class_[0].class_name, "big");
    assert_string_equal(profile->class_[1].class_name, "weak");
    assert_true(profile->class_[1].kernels > profile->class_[0].kernels);
    assert_int_equal(profile->class_[0].conversions, 1); /* sums of gradients */
    assert_true(profile->class_[1].conversions > 10);
}

static void all_reduce_is_there(const qs_profile *profile) {
    double short_us, long_us, share;
    /* The job's algorithm first, then the others, unless the machine is so busy that one took long already. */
    const int own = profile->collectives - 2;
    assert_true(own == 4 || own == 1);
    assert_int_equal(profile->collective[0].ranks, 2);
    assert_string_equal(profile->collective[0].algorithm, "shared");
    /* Through memory that both share: nobody moves anything but the ranks themselves, and nothing is allocated for a message. */
    assert_true(profile->collective[0].cpu_share == 1 && profile->collective[0].temporary_per_byte == 0);
    assert_true(profile->collective[0].window_bytes == qs_comm_window_bytes(2));
    /* The other wires behind them, in the job's algorithm. */
    for (int i = 0; i < profile->collectives; i++) {
        assert_string_equal(profile->collective[i].wire, i < own ? "" : i == own ? "int8" : "bf16");
        if (i >= own) assert_string_equal(profile->collective[i].algorithm, "shared");
    }
    assert_string_equal(qs_cost_wire_at(profile, "shared", 0), "fp32");
    assert_string_equal(qs_cost_wire_at(profile, "shared", 1), "bf16");
    assert_string_equal(qs_cost_wire_at(profile, "shared", 2), "int8");
    assert_null(qs_cost_wire_at(profile, "shared", 3));
    assert_null(qs_cost_wire_at(profile, "devices", 0));
    assert_ok(qs_cost_all_reduce(profile, 2, 1024, &short_us, &share));
    assert_ok(qs_cost_all_reduce(profile, 2, (int64_t)8 << 20, &long_us, &share));
    assert_true(short_us > 0 && long_us > short_us && share >= 0 && share <= 1);
}

static void both_can_be_planned(const bench *b) {
    qs_recipe recipe[QS_MAX_FORMATS];
    int recipes;
    const qs_recipe **big = calloc((size_t)b->graph->nodes, sizeof *big), **weak = calloc((size_t)b->graph->nodes, sizeof *weak);
    const qs_recipe *const *by_class[] = {big, weak};
    assert_ok(qs_class_recipes(&b->cluster.class_[1], QS_MAX_FORMATS, recipe, &recipes));
    for (uint64_t mix = 0; mix < 50; mix++) {
        qs_prediction prediction;
        for (int n = b->graph->samples.inputs; n < b->graph->nodes; n++)
            if (b->graph->node[n].op->kind == QS_ADJUSTABLE) weak[n] = &recipe[qs_random_bits(mix, (uint64_t)n) % (unsigned)recipes];
        assert_ok(qs_predict(b->graph, &b->cluster, &b->profile, &b->job, by_class, NULL, &prediction));
        qs_prediction_release(&prediction);
    }
    free(big);
    free(weak);
}

/* Weights are the same on both ranks: their mean is what each has. */
static void statistics_are_of_both(const bench *b) {
    const qs_statistics *statistics = &b->profile.statistics;
    float *trained = calloc((size_t)b->graph->trained_elements, sizeof *trained);
    float *running = calloc((size_t)b->graph->statistics_elements + 1, sizeof *running);
    qs_graph_initialize(b->graph, b->job.seed, trained, running);
    assert_int_equal(statistics->ranks, 2);
    assert_int_equal(statistics->batch, 4);
    for (int i = 0; i < statistics->operators; i++) {
        const int node = qs_graph_find(b->graph, statistics->operator_[i].name);
        const qs_parameter *weights = qs_graph_parameter(b->graph, node, QS_WEIGHTS);
        const double norm2 = qs_norm2_array(qs_shape_count(&weights->shape), trained + weights->offset);
        /* the same sum, halved and doubled again */
        assert_true(fabs(statistics->operator_[i].weights.norm2[0] - norm2) <= 1e-12 * norm2);
    }
    free(trained);
    free(running);
}

static void two_classes(void **state) {
    bench *b = *state;
    b->options.statistics_iterations = 2;
    b->options.wires = 2;
    b->options.wire[0] = "int8";
    b->options.wire[1] = "bf16";
    assert_ok(qs_profile_measure(&b->options, b->device, b->comm, &b->profile));
    if (qs_comm_rank(b->comm) > 0) {
        assert_int_equal(b->profile.classes, 0);
        return;
    }
    both_classes_are_there(b);
    all_reduce_is_there(&b->profile);
    both_can_be_planned(b);
    statistics_are_of_both(b);
}

/* One class has more plans than the other, and each rank has a clock of its own: rounds of chosen plans end together all the same, because
 * time is over or because they are done. */
static void both_stop_together(void **state) {
    static const double minutes[] = {1e-6, 5};
    bench *b = *state;
    b->options.statistics_iterations = 0;
    for (int i = 0; i < 2; i++) {
        b->options.minutes = minutes[i];
        qs_profile_release(&b->profile);
        assert_ok(qs_profile_measure(&b->options, b->device, b->comm, &b->profile));
        for (int c = 0; c < b->profile.classes; c++) {
            const qs_quality *quality = &b->profile.class_[c].quality;
            assert_true(quality->budget_s == 60 * minutes[i] && quality->steps <= 6 && quality->kernels > 0);
        }
    }
    b->options.minutes = 0;
}

/* What one rank lacks stops both, with its message. */
static void failure_of_one_stops_both(void **state) {
    bench *b = *state;
    qs_profile unused;
    const int wanted = b->options.repetitions;
    if (qs_comm_rank(b->comm) == 1) b->options.repetitions = 0;
    assert_refused(qs_profile_measure(&b->options, b->device, b->comm, &unused), QS_USAGE, "rank 1: repetitions 0");
    b->options.repetitions = wanted;
}

static bench opened;

static int open_bench(void **state) {
    bench_open(&opened, cluster, NULL, "mlp:width=0.125", 8);
    *state = &opened;
    return 0;
}

static int close_bench(void **state) {
    (void)state;
    bench_close(&opened);
    return 0;
}

TEST_MAIN_WITH(open_bench, close_bench, two_classes, both_stop_together, failure_of_one_stops_both)
