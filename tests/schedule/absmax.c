// SPDX-License-Identifier: Apache-2.0
/* Largest magnitudes that writers deliver: which quantizers need no absmax step, which still do, and that each finds what such a step would
 * have found. */
#include "kit/schedule.h"

static qs_place place_of(const qs_step *step, qs_role role) {
    const int position = qs_case_position(&step->case_, role);
    return position >= 0 && step->case_.operand[position].format ? step->place[position] : (qs_place){.buffer = -1};
}

static bool is_same(qs_place a, qs_place b) {
    return a.buffer == b.buffer && a.offset == b.offset;
}

static bool is_step_of(const qs_step *step, const char *op) {
    return step->kind == QS_STEP_KERNEL && strcmp(step->case_.op->name, op) == 0;
}

/* The last step before `step` that writes to a place; NULL: none does. */
static const qs_step *writer_of(const qs_schedule *schedule, int step, qs_place place) {
    while (--step >= 0) {
        const qs_step *one = &schedule->step[step];
        for (int i = 0; one->kind == QS_STEP_KERNEL && i < one->case_.operands; i++)
            if (qs_pass_writes(one->case_.pass, i) && one->case_.operand[i].format && is_same(one->place[i], place)) return one;
    }
    return NULL;
}

/* An operator of the model that can deliver. Sums of gradients are conversions: they cannot. */
static bool is_able(const qs_step *writer) {
    static const char *const able[] = {"batch_norm", "l1_batch_norm", "layer_norm", "relu", "add"};
    for (size_t i = 0; writer && !writer->conversion && i < COUNT_OF(able); i++)
        if (is_step_of(writer, able[i])) return true;
    return false;
}

typedef struct found {
    int delivered, searched, columns, idle;
} found;

/* Quantizers whose absmax the writer of their source delivered, quantizers behind an absmax step, quantizers of columns whose maxima fell
 * off where the rows were quantized, and what is delivered to nobody. */
static found look(const qs_schedule *schedule) {
    found all = {0, 0, 0, 0};
    int pending = 0;
    for (int s = 0; s < schedule->steps; s++) {
        const qs_step *step = &schedule->step[s];
        if (is_able(step) && place_of(step, QS_ABSMAX).buffer >= 0) pending++;
        if (place_of(step, QS_COLUMN_ABSMAX).buffer >= 0) pending++;
        if (!is_step_of(step, "quantize") || (step->case_.attributes.per_channel && step->case_.attributes.axis == 0)) continue;
        const qs_step *maximum = writer_of(schedule, s, place_of(step, QS_ABSMAX)),
                      *writer = writer_of(schedule, s, place_of(step, QS_SRC));
        assert_non_null(maximum);
        const bool one_step = !step->case_.attributes.per_channel && step->case_.attributes.hadamard == 0;
        if (is_step_of(maximum, "absmax")) {
            assert_true(is_same(place_of(maximum, QS_SRC), place_of(step, QS_SRC)));
            if (one_step && is_able(writer)) fail_msg("%s reads what %s could have delivered", maximum->case_text, writer->case_text);
            all.searched++;
        } else if (is_step_of(maximum, "quantize")) {
            assert_true(is_same(place_of(maximum, QS_COLUMN_ABSMAX), place_of(step, QS_ABSMAX)));
            assert_true(is_same(place_of(maximum, QS_SRC), place_of(step, QS_SRC)) && step->case_.attributes.axis == 1);
            all.columns++;
        } else {
            assert_true(one_step && is_able(maximum));
            assert_ptr_equal(maximum, writer);
            all.delivered++;
        }
    }
    all.idle = pending - all.delivered - all.columns;
    return all;
}

/* Every value and gradient of resnet20 that a convolution quantizes is written by a batch norm, a relu or a pooling layer. */
TEST(models_search_only_where_they_must) {
    static const char *const models[] = {"resnet20", "vgg11_bn", "vgg11", "mobilenet_v2", "resnet8:norm=ln", "squeezenet", "lenet5"};
    static const char *const recipes[] = {"int8:tensor", "int8/bf16", "int8:hadamard", "int4:shift4"};
    for (size_t m = 0; m < COUNT_OF(models); m++) {
        qs_graph *graph = NULL;
        assert_ok(qs_model_build(models[m], NULL, &graph));
        for (size_t r = 0; r < COUNT_OF(recipes); r++) {
            const qs_job job = stub_job(16);
            qs_schedule *schedule = lower_uniform(graph, &job, QS_MODE_TRAIN, recipes[r]);
            const found all = look(schedule);
            assert_int_equal(all.idle, 0);
            assert_true(all.searched > 0); /* images */
            assert_true((all.columns > 0) == (r == 0 || r == 3));
            if (r < 2) assert_true(all.delivered > 0);
            qs_schedule_release(schedule);
        }
        qs_graph_release(graph);
    }
}

/* Of the whole source, or of each of its channels, which are its fast axis. */
static void maxima_check(runner *one, const qs_step *step) {
    const qs_operand *src = &step->case_.operand[qs_case_position(&step->case_, QS_SRC)];
    const int64_t count = qs_shape_count(&src->shape),
                  maxima = qs_shape_count(&step->case_.operand[qs_case_position(&step->case_, QS_ABSMAX)].shape);
    const float *given = runner_place(one, place_of(step, QS_ABSMAX));
    float *values = malloc((size_t)count * sizeof *values);
    assert_non_null(values);
    qs_convert_to_fp32(src->format, count, runner_place(one, place_of(step, QS_SRC)), values);
    for (int64_t m = 0; m < maxima; m++) {
        float expected = 0;
        for (int64_t i = m; i < count; i += maxima)
            expected = fmaxf(expected, fabsf(values[i]));
        assert_true(given[m] == expected);
    }
    free(values);
}

/* On the reference kernels, each quantizer finds the bits that an absmax of its source gives. */
TEST(quantizers_find_the_absmax) {
    qs_graph *graph = NULL;
    assert_ok(qs_model_build("resnet8:width=0.25", NULL, &graph));
    const qs_job job = stub_job(2);
    qs_schedule *schedule = lower_uniform(graph, &job, QS_MODE_TRAIN, "int8:tensor");
    runner one = runner_make(schedule, graph);
    runner_fill(&one, 10);
    for (int s = 0; s < schedule->steps; s++) {
        const qs_step *step = &schedule->step[s];
        if (step->kind != QS_STEP_KERNEL) continue;
        if (is_step_of(step, "quantize") && place_of(step, QS_ABSMAX).buffer >= 0) maxima_check(&one, step);
        step_run(&one, step);
    }
    free(one.memory);
    qs_schedule_release(schedule);
    qs_graph_release(graph);
}

/* conv -> relu -> conv, in fp32 storage. */
static qs_graph *plain_chain(void) {
    const qs_attributes conv = {.kernel = {3, 3}, .padding = {1, 1}};
    qs_graph *graph = NULL;
    int at = 0;
    assert_ok(qs_graph_of_images("plain", 3, 8, 8, &graph));
    assert_ok(qs_graph_add(graph, "a", "conv2d", &conv, 1, &at, 8, false, &at));
    assert_ok(qs_graph_add(graph, "relu", "relu", NULL, 1, &at, 0, false, &at));
    assert_ok(qs_graph_add(graph, "b", "conv2d", &conv, 1, &at, 8, false, &at));
    assert_ok(qs_graph_add(graph, "pool", "global_average_pool", NULL, 1, &at, 0, false, &at));
    assert_ok(qs_graph_add(graph, "flatten", "flatten", NULL, 1, &at, 0, false, &at));
    assert_ok(qs_graph_add(graph, "fc", "linear", NULL, 1, &at, 10, false, &at));
    assert_ok(qs_graph_finish(graph, at, NULL));
    return graph;
}

/* Between a relu and its reader a step may round the value: the relu's maximum is of what was there before. */
TEST(rounded_values_are_searched) {
    qs_graph *graph = plain_chain();
    const qs_recipe recipe = recipe_of("int8:tensor");
    const qs_recipe **list = recipes_uniform(graph, &recipe);
    const qs_job job = stub_job(4);
    qs_lowering lowering = lowering_of(graph, &job, QS_MODE_TRAIN, list);
    lowering.half = qs_format_of("fp32");
    qs_schedule *schedule = lower(&lowering);
    const found before = look(schedule);
    assert_int_equal(before.delivered, 2); /* relu's output, and the gradient of a's */
    qs_schedule_release(schedule);
    const qs_tensor_choice choice = {.name = "relu", .value = {.format = qs_format_of("bf16"), .rounding = QS_NEAREST_EVEN}};
    const qs_tensor_choice **value = calloc((size_t)graph->nodes, sizeof *value), **parameter = calloc(32, sizeof *parameter);
    assert_true(value && parameter);
    value[qs_graph_find(graph, "relu")] = &choice;
    const qs_tensor_table table = {.value = value, .parameter = parameter};
    lowering.tensors = &table;
    schedule = lower(&lowering);
    for (int s = 0; s < schedule->steps; s++)
        if (is_step_of(&schedule->step[s], "relu") && strcmp(schedule->step[s].case_.pass->name, "forward") == 0)
            assert_int_equal(place_of(&schedule->step[s], QS_ABSMAX).buffer, -1);
    const found after = look(schedule);
    assert_int_equal(after.delivered, before.delivered - 1);
    assert_int_equal(after.searched, before.searched + 1);
    qs_schedule_release(schedule);
    free(value);
    free(parameter);
    free(list);
    qs_graph_release(graph);
}

TEST_MAIN(models_search_only_where_they_must, quantizers_find_the_absmax, rounded_values_are_searched)
