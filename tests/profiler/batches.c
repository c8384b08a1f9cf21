// SPDX-License-Identifier: Apache-2.0
// labels: short
// links: replayer
/* A profile of several batches: at every one of them, whatever the recipes, what is predicted is what the device lowers; times between
 * measured batches lie on straight lines. */
#include "profiler_support.h"

#include "qsync/replayer.h"

enum { MIXES = 20, BATCH = 8, LEAST = 4, MOST = 12 };

static qs_status profile(bench *b, int batches, const int64_t *batch) {
    b->options.batches = batches;
    memcpy(b->options.batch, batch, (size_t)batches * sizeof *batch);
    return qs_profile_measure(&b->options, b->device, b->comm, &b->profile);
}

static qs_schedule *lowered(bench *b, const qs_recipe *const *recipe, int64_t batch, bool from_profile) {
    qs_schedule *schedule = NULL;
    const qs_lowering lowering = {.graph = b->graph,
                                  .batch = batch,
                                  .mode = QS_MODE_TRAIN,
                                  .job = &b->job,
                                  .recipe = recipe,
                                  .half = qs_class_half(&b->cluster.class_[0]),
                                  .lookup = from_profile ? qs_lookup_profile : qs_lookup_device,
                                  .context = from_profile ? (void *)b->profile.class_ : (void *)b->device};
    assert_ok(qs_schedule_lower(&lowering, &schedule));
    return schedule;
}

/* Of a mix at a batch: the arena, the kernels and the hash are the device's. */
static void prediction_check(bench *b, qs_predictor *predictor, const qs_recipe *const *recipe, int64_t batch) {
    qs_prediction prediction;
    char hash[32];
    const qs_recipe *const *const by_class[] = {recipe};
    qs_schedule *live = lowered(b, recipe, batch, false);
    assert_ok(qs_predictor_batches(predictor, &batch));
    assert_ok(qs_predictor_ask(predictor, by_class, NULL, &prediction));
    assert_string_equal(prediction.class_[0].schedule, qs_schedule_hash(live, hash));
    assert_int_equal(prediction.class_[0].arena_bytes, live->arena_bytes);
    assert_true(prediction.iteration_us > 0 && isfinite(prediction.iteration_us));
    qs_prediction_release(&prediction);
    qs_schedule_release(live);
}

/* The kernel of the same node and pass in the same formats. */
static const qs_kernel_cost *row_like(bench *b, const qs_schedule *in, const qs_step *step) {
    for (int s = 0; s < in->steps; s++) {
        const qs_step *one = &in->step[s];
        if (one->kind == QS_STEP_KERNEL && !one->conversion && one->node == step->node && one->case_.op == step->case_.op &&
            one->case_.pass == step->case_.pass)
            return qs_class_profile_kernel(b->profile.class_, one->case_text);
    }
    fail_msg("%s has no counterpart", step->case_text);
    return NULL;
}

/* On the line between two measured batches, for every kernel of a plan. */
static void line_check(bench *b, const qs_recipe *const *recipe, int64_t low, int64_t high) {
    qs_schedule *a = lowered(b, recipe, low, true), *z = lowered(b, recipe, high, true);
    for (int64_t batch = low; batch <= high; batch++) {
        qs_schedule *at = lowered(b, recipe, batch, true);
        const double share = (double)(batch - low) / (double)(high - low);
        for (int s = 0; s < at->steps; s++) {
            if (at->step[s].kind != QS_STEP_KERNEL || at->step[s].conversion) continue;
            const qs_kernel_cost *below = row_like(b, a, &at->step[s]), *above = row_like(b, z, &at->step[s]);
            const qs_kernel_cost *row = qs_class_profile_kernel(b->profile.class_, at->step[s].case_text);
            const double expected = below->us + (above->us - below->us) * share;
            assert_true(below->us > 0 && above->us > 0 && fabs(row->us - expected) <= 1e-12 * expected);
            if (share > 0 && share < 1 && below != above) assert_int_equal(row->samples, 0);
        }
        qs_schedule_release(at);
    }
    qs_schedule_release(a);
    qs_schedule_release(z);
}

TEST(every_batch_is_the_devices) {
    bench b;
    qs_recipe recipe[QS_MAX_FORMATS];
    qs_predictor *predictor = NULL;
    int recipes;
    bench_open(&b, NULL, "ref", "mlp:width=0.125", BATCH);
    assert_ok(profile(&b, 2, (const int64_t[]){MOST, LEAST}));
    assert_int_equal(b.profile.batches, MOST - LEAST + 1);
    for (int i = 0; i < b.profile.batches; i++) {
        const qs_profile_batch *row = &b.profile.batch_row[i];
        assert_int_equal(row->samples, LEAST + i);
        assert_int_equal(row->measured, row->samples == LEAST || row->samples == BATCH || row->samples == MOST);
    }
    const qs_recipe **choice = calloc((size_t)b.graph->nodes, sizeof *choice);
    assert_ok(qs_class_recipes(&b.cluster.class_[0], QS_MAX_FORMATS, recipe, &recipes));
    assert_ok(qs_predictor_create(b.graph, &b.cluster, &b.profile, &b.job, NULL, &predictor));
    for (int mix = 0; mix < MIXES; mix++) {
        for (int n = b.graph->samples.inputs; n < b.graph->nodes; n++)
            if (b.graph->node[n].op->kind == QS_ADJUSTABLE)
                choice[n] = &recipe[qs_random_bits(qs_random_key(78, (uint64_t)mix, 5, 0), (uint64_t)n) % (unsigned)recipes];
        for (int64_t batch = LEAST; batch <= MOST; batch++)
            prediction_check(&b, predictor, choice, batch);
        if (mix > 2) continue;
        line_check(&b, choice, LEAST, BATCH);
        line_check(&b, choice, BATCH, MOST);
    }
    qs_predictor_release(predictor);
    free(choice);
    bench_close(&b);
}

TEST(impossible_batches_are_refused) {
    bench b;
    bench_open(&b, NULL, "ref", "mlp:width=0.125", BATCH);
    assert_refused(profile(&b, 1, (const int64_t[]){0}), QS_USAGE, "batch 0: must be at least 1");
    assert_refused(profile(&b, 2, (const int64_t[]){4, 4}), QS_USAGE, "batch 4 stands twice");
    assert_refused(profile(&b, 1, (const int64_t[]){BATCH}), QS_USAGE, "batch 8 is the job's own");
    bench_close(&b);
}

TEST_MAIN(every_batch_is_the_devices, impossible_batches_are_refused)
