// SPDX-License-Identifier: Apache-2.0
/* The cost mapper: after any sequence of changes and undos its costs, sums and live bytes are those of lowering and pricing from scratch,
 * and a change whose cost is missing leaves all as it was. Where the profile knows times in recordings of the device, costs are those of
 * the way that is taken. */
#include "kit/kit.h"

#include <float.h>

#include "kit/random_graph.h"
#include "kit/synthetic.h"

#define GRAPHS 30
#define MOVES 16

static const synthetic_device device = SYNTHETIC_WEAK;
static int ways[2]; /* in which steps were started */

/* ---- Sequences ---- */

/* A change of one operator, or (node 0) the last change taken back. */
typedef struct move {
    int node;
    qs_recipe recipe;
} move;

typedef struct sequence {
    const qs_graph *graph;
    const qs_job *job;
    qs_recipe *own;           /* (nodes) recipes at the start */
    qs_tensor_table *tensors; /* of every other model: what is computed again */
    const qs_recipe **list;
    move move[MOVES];
    const qs_recipe *past[MOVES]; /* what the changes that were not taken back replaced */
    int past_node[MOVES], changes;
} sequence;

static sequence sequence_make(const qs_graph *graph, const qs_job *job, uint64_t number) {
    sequence one = {.graph = graph, .job = job};
    dice random = {qs_random_key(number, 4, 0, 0), 0};
    one.list = random_recipes(graph, number, &one.own);
    one.tensors = number % 2 ? random_recompute(graph, number) : NULL;
    for (int i = 0, changes = 0; i < MOVES; i++) {
        if (changes > 0 && dice_roll(&random, 3) == 0) {
            changes--;
            continue;
        }
        do
            one.move[i].node = 1 + dice_roll(&random, graph->nodes - 1);
        while (graph->node[one.move[i].node].op->kind != QS_ADJUSTABLE);
        random_recipe(&random, &one.move[i].recipe);
        changes++;
    }
    return one;
}

static void sequence_release(sequence *one) {
    random_recompute_release(one->tensors);
    free(one->list);
    free(one->own);
}

static void sequence_rewind(sequence *one) {
    for (int n = one->graph->samples.inputs; n < one->graph->nodes; n++)
        one->list[n] = &one->own[n];
    one->changes = 0;
}

/* Keeps the list of recipes up with a move. */
static void sequence_follow(sequence *one, const move *next) {
    if (next->node == 0) {
        one->changes--;
        one->list[one->past_node[one->changes]] = one->past[one->changes];
        return;
    }
    one->past_node[one->changes] = next->node;
    one->past[one->changes++] = one->list[next->node];
    one->list[next->node] = &next->recipe;
}

static qs_lowering sequence_lowering(const sequence *one, const qs_class_profile *profile) {
    qs_lowering lowering = lowering_of(one->graph, one->job, QS_MODE_TRAIN, one->list);
    lowering.tensors = one->tensors;
    lowering.lookup = qs_lookup_profile;
    lowering.context = (void *)(uintptr_t)profile;
    return lowering;
}

/* A profile that holds every case of the sequence, from full lowerings. */
static qs_class_profile sequence_profile(sequence *one) {
    qs_class_profile profile = {.class_name = "weak", .step_overhead_us = 0.5};
    const qs_class weak = synthetic_class(&device);
    synthetic_costs costs = {.device = &device, .profile = &profile};
    sequence_rewind(one);
    synthetic_mix(&costs, one->graph, &weak, one->job, one->list);
    for (int i = 0; i < MOVES; i++) {
        sequence_follow(one, &one->move[i]);
        synthetic_mix(&costs, one->graph, &weak, one->job, one->list);
    }
    qs_class_profile_sort(&profile);
    sequence_rewind(one);
    return profile;
}

/* ---- A mapper beside what it should be ---- */

/* Sums of the same numbers in another order: each addition errs by half a unit in the last place of the sum. */
static void sum_near(double sum, double expected, int steps, const char *what) {
    if (!(fabs(sum - expected) <= steps * DBL_EPSILON * expected)) fail_msg("%s: %.17g us, expected %.17g", what, sum, expected);
}

static void sums_check(const qs_cost_mapper *mapper, const qs_schedule *full, const double *us) {
    double sum = 0, phase[QS_PHASE_COUNT] = {0}, *ready = calloc((size_t)full->buckets + 1, sizeof *ready);
    qs_cost_mapper_ready(mapper, ready);
    for (int s = 0; s < full->steps; s++) {
        if (full->step[s].kind == QS_STEP_REDUCE_START) sum_near(ready[full->step[s].bucket], sum, full->steps, "ready");
        sum += us[s];
        phase[full->step[s].phase] += us[s];
    }
    sum_near(qs_cost_mapper_us(mapper), sum, full->steps, "total");
    for (int p = 0; p < QS_PHASE_COUNT; p++)
        sum_near(qs_cost_mapper_phase_us(mapper, (qs_phase)p), phase[p], full->steps, qs_phase_name((qs_phase)p));
    free(ready);
}

/* What qs_cost_schedule_recorded makes of the steps' costs, started in the faster way or in either. */
static void steps_check(const qs_cost_mapper *mapper, const qs_schedule *full, const qs_class_profile *profile, double *us) {
    const qs_cost_options always = {.start = QS_START_RECORDED};
    double *own = calloc((size_t)full->steps, sizeof *own), *recorded = calloc((size_t)full->steps, sizeof *recorded);
    assert_true(own && recorded);
    memcpy(recorded, us, (size_t)full->steps * sizeof *us);
    assert_int_equal(qs_cost_schedule_recorded(profile, full, &always, recorded), profile->recorded > 0);
    for (int way = 0; way < 1 + (profile->recorded > 0); way++) {
        const double *wanted = way ? recorded : us;
        qs_cost_mapper_steps(mapper, way, own);
        for (int s = 0; s < full->steps; s++)
            if (wanted[s] != own[s]) fail_msg("step %d (%s): %g us, expected %g", s, full->step[s].case_text, own[s], wanted[s]);
    }
    const bool taken = qs_cost_schedule_recorded(profile, full, NULL, us);
    assert_int_equal(qs_cost_mapper_recorded(mapper), taken);
    ways[taken]++;
    free(own);
    free(recorded);
}

static void mapper_check(const qs_cost_mapper *mapper, const sequence *one, const qs_class_profile *profile, bool no_casts) {
    const qs_lowering lowering = sequence_lowering(one, profile);
    qs_schedule *full = lower(&lowering), *mapped = NULL;
    assert_ok(qs_schedule_finish(qs_cost_mapper_draft(mapper), &mapped, NULL));
    assert_ok(qs_schedule_compare(full, mapped));
    assert_true(full->arena_bytes == mapped->arena_bytes);
    assert_true(qs_schedule_draft_live_bytes(qs_cost_mapper_draft(mapper)) == full->live_bytes);
    assert_int_equal(qs_cost_mapper_steps(mapper, false, NULL), full->steps);
    double *us = calloc((size_t)full->steps, sizeof *us);
    for (int s = 0; s < full->steps; s++) {
        assert_ok(qs_cost_step(profile, &full->step[s], &us[s]));
        if (no_casts && full->step[s].conversion) us[s] = 0;
    }
    steps_check(mapper, full, profile, us);
    sums_check(mapper, full, us);
    free(us);
    qs_schedule_release(full);
    qs_schedule_release(mapped);
}

/* ---- Properties ---- */

static void sequence_run(sequence *one, const qs_class_profile *profile, bool no_casts) {
    const qs_cost_options options = {.no_casts = no_casts};
    const qs_lowering lowering = sequence_lowering(one, profile);
    qs_cost_mapper *mapper = NULL;
    sequence_rewind(one);
    assert_ok(qs_cost_mapper_create(&lowering, profile, &options, &mapper));
    const double start = qs_cost_mapper_us(mapper);
    mapper_check(mapper, one, profile, no_casts);
    for (int i = 0; i < MOVES; i++) {
        const move *next = &one->move[i];
        qs_draft_change change;
        sequence_follow(one, next);
        if (next->node)
            assert_ok(qs_cost_mapper_change(mapper, next->node, &next->recipe, &change));
        else
            assert_ok(qs_cost_mapper_undo(mapper, &change));
        assert_true((change.segments > 0) == (change.removed + change.added > 0));
        mapper_check(mapper, one, profile, no_casts);
    }
    while (one->changes > 0) {
        one->changes--;
        assert_ok(qs_cost_mapper_undo(mapper, NULL));
    }
    assert_true(qs_cost_mapper_us(mapper) == start); /* to the last bit: sums depend on the present steps alone */
    assert_int_equal(qs_cost_mapper_undo(mapper, NULL), QS_USAGE);
    qs_cost_mapper_release(mapper);
}

TEST(sequences_are_followed) {
    for (uint64_t number = 0; number < GRAPHS; number++) {
        qs_graph *graph = random_graph(number + 500);
        qs_job job = stub_job(2 + (int64_t)(number % 3));
        job.bucket_bytes = (int64_t)(number % 4) * 2000 + 1;
        job.dynamic_loss_scaling = number % 3 == 0;
        sequence one = sequence_make(graph, &job, number);
        qs_class_profile profile = sequence_profile(&one);
        if (number % 3) synthetic_records(0.5, 1.5, number, &profile);
        sequence_run(&one, &profile, number % 5 == 0);
        synthetic_class_release(&profile);
        sequence_release(&one);
        qs_graph_release(graph);
    }
    assert_true(ways[0] > 100 && ways[1] > 100);
}

/* A class that says how its steps are started has them so. */
TEST(classes_are_obeyed) {
    qs_graph *graph = random_graph(500);
    qs_job job = stub_job(2);
    sequence one = sequence_make(graph, &job, 1);
    qs_class_profile profile = sequence_profile(&one);
    const qs_lowering lowering = sequence_lowering(&one, &profile);
    double us[2];
    synthetic_records(0.5, 0.5, 1, &profile);
    for (int record = 0; record < 3; record++) { /* faster, no, always */
        const qs_cost_options options = qs_cost_options_of(NULL, &(qs_class){.cuda_record = record});
        qs_cost_mapper *mapper = NULL;
        assert_ok(qs_cost_mapper_create(&lowering, &profile, &options, &mapper));
        us[qs_cost_mapper_recorded(mapper)] = qs_cost_mapper_us(mapper);
        assert_int_equal(qs_cost_mapper_recorded(mapper), record != 1);
        qs_cost_mapper_release(mapper);
    }
    assert_true(us[1] == us[0] / 2);
    synthetic_class_release(&profile);
    sequence_release(&one);
    qs_graph_release(graph);
}

/* ---- Missing costs ---- */

/* A model without sums, in fp32: no conversion is needed until something changes. */
typedef struct plain {
    qs_graph *graph;
    qs_job job;
    sequence one;
    qs_class_profile profile;
} plain;

static void plain_make(plain *out) {
    const qs_recipe fp32 = recipe_of("fp32");
    *out = (plain){.job = stub_job(4)};
    assert_ok(qs_model_build("mlp", NULL, &out->graph));
    out->one = sequence_make(out->graph, &out->job, 1);
    for (int n = out->graph->samples.inputs; n < out->graph->nodes; n++)
        out->one.own[n] = fp32;
    for (int i = 0; i < MOVES; i++)
        out->one.move[i].recipe = recipe_of(i % 2 ? "bf16" : "int8/bf16");
    out->profile = sequence_profile(&out->one);
}

static void plain_release(plain *one) {
    synthetic_class_release(&one->profile);
    sequence_release(&one->one);
    qs_graph_release(one->graph);
}

static int first_change(const sequence *one) {
    int i = 0;
    while (one->move[i].node == 0)
        i++;
    return i;
}

/* Kernel rows are all there, fits are not: the draft changes, pricing fails, the draft goes back. */
TEST(missing_fits_change_nothing) {
    plain all;
    plain_make(&all);
    const move *next = &all.one.move[first_change(&all.one)];
    qs_class_profile poor = all.profile;
    poor.conversions = 0;
    const qs_lowering lowering = sequence_lowering(&all.one, &poor);
    qs_cost_mapper *mapper = NULL;
    assert_ok(qs_cost_mapper_create(&lowering, &poor, NULL, &mapper));
    for (int again = 0; again < 2; again++) {
        assert_refused(qs_cost_mapper_change(mapper, next->node, &next->recipe, NULL), QS_MISMATCH, "no fit for the conversion");
        assert_message("weak");
        mapper_check(mapper, &all.one, &poor, false);
    }
    assert_int_equal(qs_cost_mapper_undo(mapper, NULL), QS_USAGE);
    qs_cost_mapper_release(mapper);
    plain_release(&all);
}

/* Every single row of a change is left out in turn. */
TEST(missing_rows_change_nothing) {
    plain all;
    plain_make(&all);
    const move *next = &all.one.move[first_change(&all.one)];
    qs_class_profile poor = all.profile;
    int failures = 0;
    poor.kernel = calloc((size_t)all.profile.kernels, sizeof *poor.kernel);
    poor.kernels--;
    for (int left_out = 0; left_out < all.profile.kernels; left_out++) {
        for (int i = 0; i < poor.kernels; i++)
            poor.kernel[i] = all.profile.kernel[i + (i >= left_out)];
        const qs_lowering lowering = sequence_lowering(&all.one, &poor);
        qs_cost_mapper *mapper = NULL;
        if (qs_cost_mapper_create(&lowering, &poor, NULL, &mapper) != QS_OK) continue; /* the plain model needs it */
        if (qs_cost_mapper_change(mapper, next->node, &next->recipe, NULL) != QS_OK) {
            assert_message(all.profile.kernel[left_out].case_text);
            assert_message("operator");
            mapper_check(mapper, &all.one, &poor, false);
            failures++;
        }
        qs_cost_mapper_release(mapper);
    }
    assert_true(failures >= 5); /* casts or quantizations, and the three products */
    free(poor.kernel);
    plain_release(&all);
}

TEST_MAIN(sequences_are_followed, classes_are_obeyed, missing_fits_change_nothing, missing_rows_change_nothing)
