// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Steps of which part is frozen, and updates at rates of their own: what learns has the gradients of a step in which all learn, bit for
 * bit; what is frozen keeps its weights, and has neither gradient nor state; rates and decay are those of each parameter. */
#include "program_support.h"

#define MODEL "resnet8:width=0.25"
enum { BATCH = 4 };

static const qs_run step_run = {.seed = 1, .samples = BATCH, .global_samples = BATCH, .loss_scale = 1, .learning_rate = 0.1};

typedef struct outcome {
    float *start, *weights, *gradients;
    size_t arena;
} outcome;

static void outcome_free(outcome *one) {
    free(one->start);
    free(one->weights);
    free(one->gradients);
}

/* Schedule and executor anew for the job and graph as they are, and one step from the start. */
static outcome step_take(program *here) {
    outcome out = {0};
    qs_executor_release(here->executor);
    qs_schedule_release(here->schedule);
    qs_memory_release(here->memory);
    here->schedule = program_lowered(here, QS_MODE_TRAIN);
    assert_ok(qs_memory_reserve(here->bench.device, here->schedule->arena_bytes, &here->memory));
    assert_ok(qs_executor_create(here->schedule, here->bench.device, here->bench.comm, here->memory, &here->executor));
    weights_start(here);
    inputs_fill(here);
    out.start = buffer_read(here->executor, here->schedule, here->schedule->masters);
    assert_ok(qs_executor_run(here->executor, &step_run));
    out.weights = buffer_read(here->executor, here->schedule, here->schedule->masters);
    out.gradients = buffer_read(here->executor, here->schedule, here->schedule->gradients);
    out.arena = here->schedule->arena_bytes;
    return out;
}

/* Products of frozen operators that nothing wants are not there. */
static int steps_of(const program *here, const char *node, const char *pass) {
    int count = 0;
    for (int s = 0; s < here->schedule->steps; s++) {
        const qs_step *step = &here->schedule->step[s];
        if (step->kind == QS_STEP_KERNEL && step->node == qs_graph_find(here->graph, node) && !strcmp(step->case_.pass->name, pass))
            count++;
    }
    return count;
}

static void compare(const qs_graph *graph, const qs_parameter *plain, const outcome *all, const outcome *part) {
    for (int i = 0; i < graph->parameters; i++) {
        const qs_parameter *one = &graph->parameter[i];
        const size_t bytes = (size_t)qs_shape_count(&one->shape) * sizeof(float);
        if (one->gradient == QS_ROLE_COUNT) continue;
        assert_memory_equal(part->start + one->offset, all->start + plain[i].offset, bytes);
        if (one->frozen) {
            assert_memory_equal(part->weights + one->offset, part->start + one->offset, bytes);
            continue;
        }
        assert_memory_equal(part->gradients + one->offset, all->gradients + plain[i].offset, bytes);
        assert_memory_equal(part->weights + one->offset, all->weights + plain[i].offset, bytes);
        assert_true(memcmp(part->weights + one->offset, part->start + one->offset, bytes) != 0);
    }
}

/* The middle of a model, through which gradients flow; its end with the loss; its start, where no backward pass is left; biases and scales
 * alone. */
static void what_learns_is_the_same(void **state) {
    static const char *const patterns[] = {"stage2.*", "fc.*", "stem.*,stage1.*", "*.bias,*.scale", "*.weights"};
    program *here = *state;
    outcome all = step_take(here);
    qs_parameter *plain = malloc((size_t)here->graph->parameters * sizeof *plain);
    assert_non_null(plain);
    memcpy(plain, here->graph->parameter, (size_t)here->graph->parameters * sizeof *plain);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        assert_ok(qs_graph_freeze(here->graph, patterns[i]));
        outcome part = step_take(here);
        compare(here->graph, plain, &all, &part);
        assert_true(part.arena <= all.arena);
        const size_t bytes = (size_t)here->graph->trained_elements * sizeof(float);
        assert_true(here->schedule->buffer[here->schedule->gradients].bytes == bytes);
        assert_true(here->schedule->buffer[here->schedule->state[0]].bytes == bytes);
        assert_int_equal(steps_of(here, "stage1.block0.conv1", "weight_gradient"), i != 2 && i != 4);
        assert_int_equal(steps_of(here, "stage1.block0.conv1", "input_gradient"), i != 2);
        assert_int_equal(steps_of(here, "fc", "weight_gradient"), i != 1);
        outcome_free(&part);
    }
    assert_ok(qs_graph_freeze(here->graph, ""));
    free(plain);
    outcome_free(&all);
}

static void updated(const program *here, const qs_parameter *one, const outcome *moved, double rate, double decay) {
    for (int64_t i = 0; i < qs_shape_count(&one->shape); i++) {
        const double start = moved->start[one->offset + i], gradient = moved->gradients[one->offset + i];
        const double expected = start - rate * (gradient + decay * start), least = fabs(start) + fabs(rate * gradient);
        if (!(fabs(moved->weights[one->offset + i] - expected) <= 0x1p-21 * least)) fail_msg("%s of %s", one->name, here->graph->name);
    }
}

/* Each layer at the rate of the one behind it times the factor; vectors without weight decay; all in several steps a bucket, which cover
 * its range once. */
static void rates_are_their_own(void **state) {
    program *here = *state;
    int layer[128], updates = 0;
    int64_t elements = 0;
    assert_true(here->graph->nodes <= 128);
    assert_ok(qs_graph_layers(here->graph, layer));
    here->bench.job.rate.layer_decay = 0.5;
    here->bench.job.decay_matrices = true;
    outcome one = step_take(here);
    const double decay = *qs_job_setting(&here->bench.job, "weight_decay");
    assert_true(decay > 0);
    for (int i = 0; i < here->graph->parameters; i++) {
        const qs_parameter *parameter = &here->graph->parameter[i];
        if (parameter->gradient == QS_ROLE_COUNT) continue;
        updated(here, parameter, &one, 0.1 * ldexp(1, -layer[parameter->node]), parameter->shape.axes > 1 ? decay : 0);
    }
    for (int s = 0; s < here->schedule->steps; s++) {
        const qs_step *step = &here->schedule->step[s];
        if (step->kind != QS_STEP_KERNEL || !step->case_.op->optimizer) continue;
        updates++;
        elements += step->case_.operand[0].shape.dim[0];
    }
    assert_true(updates > here->schedule->buckets);
    assert_int_equal(elements, here->graph->trained_elements);
    outcome_free(&one);
    here->bench.job.rate.layer_decay = 1;
    here->bench.job.decay_matrices = false;
}

static int set_up(void **state) {
    return program_open(state, MODEL, BATCH);
}

/* Weights that are converted lie in the place of their gradient, where they have one. */
static int set_up_bf16(void **state) {
    static qs_recipe recipe;
    return qs_recipe_builtin("bf16", &recipe) == QS_OK ? program_open_as(state, "ref", MODEL, &recipe, BATCH) : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_learns_is_the_same, set_up, program_close),
        {"what_learns_is_the_same, bf16", what_learns_is_the_same, set_up_bf16, program_close, NULL},
        cmocka_unit_test_setup_teardown(rates_are_their_own, set_up, program_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
