// SPDX-License-Identifier: Apache-2.0
// labels: short
/* A calibration evaluates: in fp32 it finds what evaluation finds, and the largest magnitudes that it sees are those of the values; in the
 * formats of a plan it finds nearly that. */
#include "kit/run.h"
#include "qsync/train.h"

typedef struct fixture {
    qs_job job;
    qs_graph *graph;
    float *trained, *statistics;
    qs_magnitudes found;
    qs_device *device;
} fixture;

static int set_up(void **state) {
    const qs_device_options options = {.backend = "ref", .threads = 1, .speed = 1};
    const qs_model_input input = {3, 32, 32, 10};
    fixture *here = calloc(1, sizeof *here);
    job_fill(&here->job, "lenet5", 16);
    assert_ok(qs_model_build("resnet8:width=0.5", &input, &here->graph));
    assert_ok(qs_device_open(&options, &here->device));
    here->trained = calloc((size_t)here->graph->trained_elements, sizeof(float));
    here->statistics = calloc((size_t)here->graph->statistics_elements, sizeof(float));
    here->found.largest = calloc((size_t)here->graph->nodes, sizeof(float *));
    here->found.typical = calloc((size_t)here->graph->nodes, sizeof(float *));
    for (int n = 0; n < here->graph->nodes - 1; n++) {
        here->found.largest[n] = calloc((size_t)here->graph->node[n].shape.dim[1], sizeof(float));
        here->found.typical[n] = calloc((size_t)here->graph->node[n].shape.dim[1], sizeof(float));
    }
    qs_graph_initialize(here->graph, 7, here->trained, here->statistics);
    *state = here;
    return 0;
}

static int tear_down(void **state) {
    fixture *here = *state;
    for (int n = 0; n < here->graph->nodes; n++) {
        free(here->found.largest[n]);
        free(here->found.typical[n]);
    }
    free(here->found.largest);
    free(here->found.typical);
    free(here->trained);
    free(here->statistics);
    qs_device_close(here->device);
    qs_graph_release(here->graph);
    free(here);
    return 0;
}

static qs_calibration_options options_of(const fixture *here) {
    return (qs_calibration_options){.graph = here->graph,
                                    .trained = here->trained,
                                    .statistics = here->statistics,
                                    .job = &here->job,
                                    .part = QS_PART_TEST,
                                    .samples = 40};
}

/* 40 samples are two batches of 16 and a half one. */
static void ranges_are_those_of_values(void **state) {
    fixture *here = *state;
    const qs_calibration_options options = options_of(here);
    qs_evaluation seen;
    assert_ok(qs_calibrate(&options, here->device, &here->found, &seen));
    assert_int_equal(seen.samples, 40);
    assert_true(seen.loss > 0 && seen.accuracy >= 0);
    for (int n = 0; n < here->graph->nodes - 1; n++) {
        const qs_node *node = &here->graph->node[n];
        float largest = 0;
        for (int64_t c = 0; c < node->shape.dim[1]; c++) {
            largest = fmaxf(largest, here->found.largest[n][c]);
            if (node->op) /* the mean of three batches, one of which has the largest */
                assert_true(here->found.typical[n][c] <= here->found.largest[n][c] * (1 + 1e-6f) &&
                            here->found.typical[n][c] >= here->found.largest[n][c] / 3 * (1 - 1e-6f));
            if (node->op && node->op == qs_op_of("flatten")) /* it moves nothing */
                assert_true(here->found.largest[n][c] ==
                            here->found.largest[node->input[0]][c % here->graph->node[node->input[0]].shape.dim[1]]);
        }
        assert_true(largest > 0 && isfinite(largest));
        if (node->op == qs_op_of("relu")) /* what is cut off was no larger */
            for (int64_t c = 0; c < node->shape.dim[1]; c++)
                assert_true(here->found.largest[n][c] <= here->found.largest[node->input[0]][c]);
    }
}

/* 8 bits move a loss of about 2.3 by some hundredths: half a step of each factor is 0.4 % of its largest value, in nine layers. */
static void formats_of_a_plan_are_near(void **state) {
    fixture *here = *state;
    qs_calibration_options options = options_of(here);
    qs_evaluation plain, reduced;
    qs_recipe recipe;
    const qs_recipe **list = calloc((size_t)here->graph->nodes, sizeof *list);
    assert_ok(qs_recipe_builtin("int8/fp32", &recipe));
    for (int n = 1; n < here->graph->nodes; n++)
        if (here->graph->node[n].op->kind == QS_ADJUSTABLE) list[n] = &recipe;
    assert_ok(qs_calibrate(&options, here->device, NULL, &plain));
    options.recipe = list;
    assert_ok(qs_calibrate(&options, here->device, NULL, &reduced));
    assert_true(reduced.loss != plain.loss);
    assert_near(reduced.loss, plain.loss, 0.1);
    free(list);
}

/* Constants of imported models lie behind what is trained: they are weights of an evaluation like all others. */
static void constants_count(void **state) {
    fixture *here = *state;
    const qs_calibration_options options = options_of(here);
    const qs_parameter_origin constant = {.constant = true};
    const int64_t weights = here->graph->trained_elements;
    qs_evaluation trained, frozen;
    assert_ok(qs_calibrate(&options, here->device, NULL, &trained));
    for (int i = 0; i < here->graph->parameters; i++)
        if (here->graph->parameter[i].gradient != QS_ROLE_COUNT && i % 2 == 0) assert_ok(qs_graph_origin_set(here->graph, i, &constant));
    assert_true(here->graph->frozen_elements > 0);
    assert_int_equal(here->graph->trained_elements + here->graph->frozen_elements, weights);
    qs_graph_initialize(here->graph, 7, here->trained, here->statistics);
    assert_ok(qs_calibrate(&options, here->device, NULL, &frozen));
    assert_true(frozen.loss == trained.loss && frozen.accuracy == trained.accuracy);
}

TEST_MAIN_WITH(set_up, tear_down, ranges_are_those_of_values, formats_of_a_plan_are_near, constants_count)
