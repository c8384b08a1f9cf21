// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Shift groups beside groups that are optimal for the ranges at hand, on the activations and output gradients of a training step: what
 * stochastic rounding in their steps adds. */
#include "kit/job_model.h"
#include "plan_support.h"

enum { BATCH = 16, STEPS = 12, GROUPS = 4, MOST_CHANNELS = 64 };

/* Whose steps: one for all, shift groups, optimal groups of as many, one for each channel. */
enum { COARSE, SHIFT, OPTIMAL, FINE, KINDS };
static const char *const kinds[KINDS] = {"one step", "shift groups", "optimal groups", "a step for each channel"};

typedef struct witness {
    const qs_executor *executor;
    double variance[KINDS]; /* of an element, in squared steps of COARSE, summed over tensors: each counts alike */
    int tensors;
} witness;

/* Channels of zeros add nothing, whatever their step is. */
static float step_of(const qs_format *format, float range, float coarse) {
    return range > 0 ? qs_step_of_absmax(format, range) : coarse * 0x1p-20f;
}

static void steps_fill(const qs_format *format, int64_t channels, const float *range, float step[KINDS][MOST_CHANNELS]) {
    uint8_t group[MOST_CHANNELS];
    float threshold[GROUPS];
    const float shift = qs_shift_groups(format, false, GROUPS, channels, range, group);
    for (int64_t c = 0; c < channels; c++) {
        step[COARSE][c] = shift;
        step[SHIFT][c] = ldexpf(shift, -group[c]);
        step[FINE][c] = step_of(format, range[c], shift);
    }
    assert_ok(qs_optimal_groups(QS_SQUARED_RANGES, GROUPS, channels, range, group, threshold));
    for (int64_t c = 0; c < channels; c++)
        step[OPTIMAL][c] = step_of(format, threshold[group[c]], shift);
}

/* Thresholds of shift groups are at least the largest range in them, so they are one of the partitions that the optimum is over; steps are
 * rounded to fp32, 2^-24 of each, and a quotient more of those that are not shifts. */
static void bounds_check(int64_t channels, float step[KINDS][MOST_CHANNELS]) {
    double bound[KINDS] = {0};
    for (int k = 0; k < KINDS; k++)
        for (int64_t c = 0; c < channels; c++)
            bound[k] += (double)step[k][c] * (double)step[k][c];
    for (int k = 1; k < KINDS; k++)
        if (bound[k] > bound[k - 1] * (1 + 8 * 0x1p-24)) fail_msg("%s: %g, %s: %g", kinds[k], bound[k], kinds[k - 1], bound[k - 1]);
}

static void tensor_add(witness *here, const qs_format *format, int64_t rows, int64_t channels, const float *values) {
    const qs_channel_layout layout = {rows, channels, 1};
    float range[MOST_CHANNELS], step[KINDS][MOST_CHANNELS];
    assert_true(channels <= MOST_CHANNELS);
    qs_channel_ranges(format, layout, values, range, NULL);
    assert_true(qs_absmax_array(channels, range) > 0);
    steps_fill(format, channels, range, step);
    bounds_check(channels, step);
    for (int k = 0; k < KINDS; k++)
        here->variance[k] += qs_channel_variance(format, layout, step[k], NULL, values) /
                             ((double)(rows * channels) * (double)step[COARSE][0] * (double)step[COARSE][0]);
    here->tensors++;
}

static void step_seen(void *context, const qs_schedule *schedule, int index, double seconds) {
    witness *here = context;
    const qs_step *step = &schedule->step[index];
    (void)seconds;
    if (step->kind != QS_STEP_KERNEL || strcmp(step->case_.op->name, "quantize") != 0 || step->case_.attributes.shifts != GROUPS) return;
    const int position = qs_case_position(&step->case_, QS_SRC);
    const qs_operand *src = &step->case_.operand[position], *dst = &step->case_.operand[qs_case_position(&step->case_, QS_DST)];
    const int64_t count = qs_shape_count(&src->shape), channels = src->shape.dim[1];
    void *data = operand_read(here->executor, step, QS_SRC);
    float *values = malloc((size_t)count * sizeof *values);
    assert_non_null(values);
    qs_convert_to_fp32(src->format, count, data, values);
    tensor_add(here, dst->format, count / channels, channels, values);
    free(values);
    free(data);
}

/* ---- A training run in int4:shift4 ----------------------------------------------------------------------------------------------- */

static qs_schedule *lowered(bench *here, const qs_graph *graph, const qs_recipe *recipe) {
    qs_schedule *schedule = NULL;
    const qs_recipe **each = NULL;
    assert_ok(qs_allocate((size_t)graph->nodes, sizeof *each, &each));
    for (int n = graph->samples.inputs; n < graph->nodes; n++)
        if (graph->node[n].op->kind == QS_ADJUSTABLE) each[n] = recipe;
    const qs_lowering lowering = {.graph = graph,
                                  .batch = BATCH,
                                  .mode = QS_MODE_TRAIN,
                                  .job = &here->job,
                                  .recipe = each,
                                  .half = qs_class_half(&here->cluster.class_[0]),
                                  .lookup = qs_lookup_device,
                                  .context = here->device};
    assert_ok(qs_schedule_lower(&lowering, &schedule));
    free(each);
    return schedule;
}

static void steps_run(bench *here, const qs_graph *graph, qs_executor *executor, witness *seen) {
    int64_t batch = BATCH;
    qs_dataset set;
    qs_sharding sharding;
    assert_ok(qs_dataset_load(here->job.dataset, NULL, QS_PART_TRAINING, STEPS * BATCH, &set));
    assert_ok(qs_sharding_create(set.count, 1, &batch, here->job.seed, true, &sharding));
    for (int s = 0; s < STEPS; s++) {
        const int64_t *indices;
        int64_t count, first, global;
        assert_ok(qs_sharding_step(&sharding, 0, s, 0, &indices, &count, &first, &global));
        assert_ok(qs_executor_load(executor, graph, &set, NULL, indices, count));
        if (s == STEPS - 1) qs_executor_observe(executor, step_seen, seen);
        const qs_run run = {.seed = here->job.seed,
                            .step = (uint64_t)s,
                            .samples = count,
                            .global_samples = global,
                            .loss_scale = 1,
                            .learning_rate = here->job.rate.base,
                            .updates = s};
        assert_ok(qs_executor_run(executor, &run));
    }
    qs_sharding_release(&sharding);
    qs_dataset_release(&set);
}

static void shift_groups_beside_optimal_ones(void **state) {
    bench here;
    qs_recipe recipe;
    qs_graph *graph = NULL;
    qs_memory *memory = NULL;
    qs_executor *executor = NULL;
    witness seen = {0};
    (void)state;
    bench_open(&here, backend_exists("cpu") ? "cpu" : "ref", "self", "resnet8", BATCH);
    assert_ok(job_model(&here.job, &graph));
    assert_ok(qs_recipe_builtin("int4:shift4", &recipe));
    qs_schedule *schedule = lowered(&here, graph, &recipe);
    assert_ok(qs_memory_reserve(here.device, schedule->arena_bytes, &memory));
    assert_ok(qs_executor_create(schedule, here.device, here.comm, memory, &executor));
    assert_ok(qs_executor_initialize(executor, graph, here.job.seed));
    assert_ok(qs_executor_clear(executor, schedule->state[0]));
    seen.executor = executor;
    steps_run(&here, graph, executor, &seen);
    /* What each of ten operators reads, two shortcuts the same as the convolution beside them; and the gradient of what it writes. */
    assert_int_equal(seen.tensors, 10 - 2 + 10);
    for (int k = 0; k < KINDS; k++)
        print_message("%-24s adds %.3f of what one step adds\n", kinds[k], seen.variance[k] / seen.variance[COARSE]);
    assert_true(seen.variance[SHIFT] < seen.variance[COARSE]);
    qs_executor_release(executor);
    qs_memory_release(memory);
    qs_schedule_release(schedule);
    qs_graph_release(graph);
    bench_close(&here);
}

TEST_MAIN(shift_groups_beside_optimal_ones)
