// SPDX-License-Identifier: Apache-2.0
/* Formats of values and the conversions between them on small hand-built models (docs/method.md §4.3): who decides, what is shared, what
 * is saved, and which recipes are refused. */
#include "kit/schedule.h"

#define BATCH 4

typedef struct model {
    qs_graph *graph;
    qs_recipe recipe[32]; /* by node; no name: none */
    qs_job job;
} model;

static int add(model *one, const char *name, const char *op, int inputs, const int *input, int outputs) {
    const bool conv = strcmp(op, "conv2d") == 0;
    const qs_attributes attributes = {.kernel = {conv ? 3 : 0, conv ? 3 : 0}, .padding = {conv, conv}};
    int node = -1;
    assert_ok(qs_graph_add(one->graph, name, op, &attributes, inputs, input, outputs, false, &node));
    return node;
}

static int after(model *one, const char *name, const char *op, int input, int outputs) {
    return add(one, name, op, 1, &input, outputs);
}

static model start(void) {
    model one = {.job = stub_job(BATCH)};
    assert_ok(qs_graph_of_images("small", 3, 8, 8, &one.graph));
    return one;
}

static void finish(model *one, int at) {
    at = after(one, "pool", "global_average_pool", at, 0);
    at = after(one, "flatten", "flatten", at, 0);
    assert_ok(qs_graph_finish(one->graph, after(one, "fc", "linear", at, 10), NULL));
}

static void set(model *one, const char *name, const char *recipe) {
    one->recipe[qs_graph_find(one->graph, name)] = recipe_of(recipe);
}

static qs_recipe *recipe_at(model *one, const char *name) {
    return &one->recipe[qs_graph_find(one->graph, name)];
}

static qs_status lower_model(const model *one, const char *half, qs_schedule **out) {
    const qs_recipe *list[32];
    for (int n = 0; n < 32; n++)
        list[n] = one->recipe[n].name[0] ? &one->recipe[n] : NULL;
    qs_lowering lowering = lowering_of(one->graph, &one->job, QS_MODE_TRAIN, list);
    lowering.half = qs_format_of(half);
    return qs_schedule_lower(&lowering, out);
}

static qs_schedule *lowered(const model *one, const char *half) {
    qs_schedule *schedule = NULL;
    assert_ok(lower_model(one, half, &schedule));
    return schedule;
}

static void end(model *one) {
    qs_graph_release(one->graph);
}

static void value_is(const model *one, const qs_schedule *schedule, const char *node, const char *format) {
    assert_string_equal(schedule->value_format[qs_graph_find(one->graph, node)]->name, format);
}

/* Number of kernel steps of an operator that serve a node, in a phase. */
static int steps_of(const model *one, const qs_schedule *schedule, const char *node, const char *op, qs_phase phase) {
    int count = 0;
    for (int s = 0; s < schedule->steps; s++) {
        const qs_step *step = &schedule->step[s];
        count += step->kind == QS_STEP_KERNEL && step->phase == phase && step->node == qs_graph_find(one->graph, node) &&
                 strcmp(step->case_.op->name, op) == 0;
    }
    return count;
}

static const qs_buffer *buffer_named(const qs_schedule *schedule, const char *name) {
    for (int b = 0; b < schedule->buffers; b++)
        if (strcmp(schedule->buffer[b].name, name) == 0) return &schedule->buffer[b];
    return NULL;
}

/* a -> bn -> relu -> b -> pool -> flatten -> fc */
static model chain(const char *a, const char *b, const char *fc) {
    model one = start();
    int at = after(&one, "a", "conv2d", 0, 8);
    at = after(&one, "bn", "batch_norm", at, 0);
    at = after(&one, "relu", "relu", at, 0);
    finish(&one, after(&one, "b", "conv2d", at, 8));
    set(&one, "a", a);
    set(&one, "b", b);
    set(&one, "fc", fc);
    return one;
}

static void chain_is(const char *a, const char *b, const char *fc, const char *half, const char *of_a, const char *of_b,
                     const char *of_fc) {
    model one = chain(a, b, fc);
    qs_schedule *schedule = lowered(&one, half);
    const char *const dependent[] = {"bn", "relu"}, *const behind[] = {"pool", "flatten"};
    value_is(&one, schedule, "a", of_a);
    for (int i = 0; i < 2; i++)
        value_is(&one, schedule, dependent[i], of_a);
    value_is(&one, schedule, "b", of_b);
    for (int i = 0; i < 2; i++)
        value_is(&one, schedule, behind[i], of_b);
    value_is(&one, schedule, "fc", of_fc);
    qs_schedule_release(schedule);
    end(&one);
}

/* ids -> table -> gelu -> flatten -> fc */
static void table_is(const char *fc, const char *format) {
    model one = {.job = stub_job(BATCH)};
    const qs_input ids = {.name = "ids", .type = QS_INPUT_I32, .rank = 1, .extent = {6}};
    const qs_attributes rows = {.vocabulary = 50};
    int at = 0;
    assert_ok(qs_graph_create("looked up", "tokens", 1, &ids, &one.graph));
    assert_ok(qs_graph_add(one.graph, "table", "embedding", &rows, 1, &at, 8, false, &at));
    at = after(&one, "flatten", "flatten", after(&one, "gelu", "gelu", at, 0), 0);
    assert_ok(qs_graph_finish(one.graph, after(&one, "fc", "linear", at, 10), NULL));
    set(&one, "fc", fc);
    qs_schedule *schedule = lowered(&one, "bf16");
    value_is(&one, schedule, "ids", "fp32");
    value_is(&one, schedule, "table", format);
    value_is(&one, schedule, "gelu", format);
    assert_int_equal(steps_of(&one, schedule, "ids", "cast", QS_FORWARD), 0);
    qs_schedule_release(schedule);
    end(&one);
}

TEST(a_table_writes_what_its_readers_need) {
    table_is("fp32", "fp32");
    table_is("bf16", "bf16");
    table_is("int8/bf16", "bf16");
    table_is("int8/fp32", "bf16");
}

TEST(readers_decide_fixed_point_outputs) {
    chain_is("int8/bf16", "fp32", "fp32", "bf16", "fp32", "fp32", "fp32");
    chain_is("int8/bf16", "bf16", "fp32", "bf16", "bf16", "bf16", "fp32");
    chain_is("int8/bf16", "int8/bf16", "int8/bf16", "bf16", "bf16", "bf16", "fp32");
    chain_is("int8/bf16", "int8/bf16", "fp32", "fp16", "fp16", "fp32", "fp32");
    chain_is("int8/fp32", "int8/fp32", "int8/fp32", "fp32", "fp32", "fp32", "fp32");
    chain_is("int8/fp32", "int8/fp32", "int8/fp32", "bf16", "bf16", "bf16", "fp32");
    chain_is("bf16", "fp32", "bf16", "bf16", "bf16", "fp32", "bf16");
}

/* A recipe may name the format of its output. And the fc in front of the loss: a float recipe writes its own format, which is cast before
 * the fixed fp32 loss; there and back. */
TEST(outputs_have_their_own_formats) {
    model one = chain("int8/bf16", "int8/bf16", "fp32");
    recipe_at(&one, "a")->forward.dst = qs_format_of("fp32");
    qs_schedule *schedule = lowered(&one, "bf16");
    value_is(&one, schedule, "a", "fp32");
    value_is(&one, schedule, "relu", "fp32");
    qs_schedule_release(schedule);
    end(&one);
    one = chain("fp32", "fp32", "bf16");
    schedule = lowered(&one, "bf16");
    assert_int_equal(steps_of(&one, schedule, "fc", "cast", QS_FORWARD), 2); /* its weights, its output */
    assert_non_null(buffer_named(schedule, "fc:value:fp32"));
    assert_non_null(buffer_named(schedule, "fc:diff:bf16"));
    qs_schedule_release(schedule);
    end(&one);
}

/* p and q read the same value; their sum feeds c. */
static model fork(const char *a, const char *p, const char *q, const char *c) {
    model one = start();
    int at = after(&one, "a", "conv2d", 0, 8);
    at = after(&one, "relu", "relu", at, 0);
    const int pair[2] = {after(&one, "p", "conv2d", at, 8), after(&one, "q", "conv2d", at, 8)};
    at = add(&one, "sum", "add", 2, pair, 0);
    finish(&one, after(&one, "c", "conv2d", at, 8));
    set(&one, "a", a);
    set(&one, "p", p);
    set(&one, "q", q);
    set(&one, "c", c);
    return one;
}

TEST(unlike_inputs_meet_in_the_widest) {
    model one = fork("bf16", "bf16", "fp32", "bf16");
    qs_schedule *schedule = lowered(&one, "bf16");
    value_is(&one, schedule, "sum", "fp32");
    assert_non_null(buffer_named(schedule, "p:value:fp32"));
    assert_null(buffer_named(schedule, "q:value:bf16"));
    /* Backward: the gradient of the sum is fp32; p's is cast to bf16, q's is handed on as it is. */
    assert_non_null(buffer_named(schedule, "p:diff:bf16"));
    assert_null(buffer_named(schedule, "q:diff:fp32"));
    qs_schedule_release(schedule);
    end(&one);
}

TEST(copies_are_shared) {
    model one = fork("fp32", "bf16", "bf16", "fp32");
    qs_schedule *schedule = lowered(&one, "bf16");
    assert_int_equal(steps_of(&one, schedule, "relu", "cast", QS_FORWARD), 1);
    qs_schedule_release(schedule);
    end(&one);
    one = fork("bf16", "int8/bf16", "int8/bf16", "fp32");
    schedule = lowered(&one, "bf16");
    assert_int_equal(steps_of(&one, schedule, "relu", "quantize", QS_FORWARD), 1);
    assert_int_equal(steps_of(&one, schedule, "relu", "absmax", QS_FORWARD), 0); /* relu delivers it */
    /* Both readers' weights have steps of their own. */
    assert_int_equal(steps_of(&one, schedule, "p", "quantize", QS_FORWARD) + steps_of(&one, schedule, "q", "quantize", QS_FORWARD), 2);
    qs_schedule_release(schedule);
    /* Another rounding is another value. */
    recipe_at(&one, "q")->forward.src.rounding = QS_NEAREST_EVEN;
    schedule = lowered(&one, "bf16");
    assert_int_equal(steps_of(&one, schedule, "relu", "quantize", QS_FORWARD), 2);
    qs_schedule_release(schedule);
    end(&one);
}

/* Of a conv-bn-relu unit in front of an int8 convolution: the codes, one byte an element; what batch norm needs, in the half format; the
 * mask, one bit. The value itself, which batch norm writes as relu would, is not kept. */
TEST(int8_saves_one_byte) {
    model one = chain("int8/bf16", "int8/bf16", "int8/bf16");
    qs_schedule *schedule = lowered(&one, "bf16");
    const size_t elements = BATCH * 8 * 8 * 8;
    const qs_buffer *codes = buffer_named(schedule, "relu:value:int8"), *norm = buffer_named(schedule, "a:dst");
    const qs_buffer *mask = buffer_named(schedule, "bn:mask"), *value = buffer_named(schedule, "bn:dst"),
                    *images = buffer_named(schedule, "images");
    assert_true(codes && norm && mask && value && images);
    assert_int_equal(codes->category, QS_SAVED_ACTIVATIONS);
    assert_int_equal(codes->bytes, elements);
    assert_int_equal(norm->category, QS_SAVED_ACTIVATIONS);
    assert_int_equal(norm->bytes, 2 * elements);
    assert_int_equal(mask->category, QS_SAVED_ACTIVATIONS);
    assert_int_equal(mask->bytes, elements / 8);
    assert_int_equal(value->category, QS_TRANSIENT_ACTIVATIONS);
    assert_int_equal(schedule->step[images->last].phase, QS_FORWARD); /* its int8 copy is saved instead */
    qs_schedule_release(schedule);
    end(&one);
}

/* Weights that are only rounded are converted once for both directions; random draws are never used twice. */
TEST(weights_are_converted_once) {
    model one = chain("bf16", "bf16", "bf16");
    one.job.batch = 1; /* small inputs: the copy stays in the place of the gradient */
    qs_schedule *schedule = lowered(&one, "bf16");
    assert_int_equal(steps_of(&one, schedule, "b", "cast", QS_FORWARD), 1);
    assert_int_equal(steps_of(&one, schedule, "fc", "cast", QS_BACKWARD), 1); /* fc writes bf16, its gradient comes in fp32 */
    assert_int_equal(steps_of(&one, schedule, "b", "cast", QS_BACKWARD), 0);
    assert_null(buffer_named(schedule, "b:weights:bf16"));
    qs_schedule_release(schedule);
    recipe_at(&one, "b")->forward.weights.rounding = recipe_at(&one, "b")->input_gradient.weights.rounding = QS_STOCHASTIC;
    schedule = lowered(&one, "bf16");
    assert_int_equal(steps_of(&one, schedule, "b", "cast", QS_BACKWARD), 1);
    qs_schedule_release(schedule);
    end(&one);
}

/* Draws of one node never share a stream: a dropout's own mask, its value's conversions, its weights in both directions. */
TEST(streams_differ) {
    model one = start();
    int at = after(&one, "a", "conv2d", 0, 8), node = -1;
    assert_ok(qs_graph_add(one.graph, "drop", "dropout", &(qs_attributes){.probability = 0.5}, 1, &at, 0, false, &node));
    finish(&one, after(&one, "b", "conv2d", node, 8));
    set(&one, "a", "int8/bf16");
    set(&one, "b", "int8/bf16");
    recipe_at(&one, "b")->input_gradient.weights.rounding = QS_STOCHASTIC;
    qs_schedule *schedule = lowered(&one, "bf16");
    for (int i = 0; i < schedule->steps; i++)
        for (int j = 0; j < i; j++) {
            const qs_step *a = &schedule->step[i], *b = &schedule->step[j];
            if (a->kind != QS_STEP_KERNEL || b->kind != QS_STEP_KERNEL || a->node < 0 || a->node != b->node || a->stream != b->stream)
                continue;
            const bool draws = a->case_.attributes.rounding == QS_STOCHASTIC || strcmp(a->case_.op->name, "dropout") == 0;
            const bool both = draws && (b->case_.attributes.rounding == QS_STOCHASTIC || strcmp(b->case_.op->name, "dropout") == 0);
            if (both && strcmp(a->case_.op->name, b->case_.op->name) != 0)
                fail_msg("%s and %s draw the same numbers", a->case_text, b->case_text);
            if (both && strcmp(a->case_.op->name, "dropout") != 0) fail_msg("%s and %s draw the same numbers", a->case_text, b->case_text);
        }
    qs_schedule_release(schedule);
    end(&one);
}

static void refused(model *one, qs_status expected, const char *word) {
    qs_schedule *schedule = NULL;
    assert_int_equal(lower_model(one, "bf16", &schedule), expected);
    assert_null(schedule);
    assert_message(word);
    end(one);
}

TEST(impossible_recipes_are_refused) {
    model one = chain("int8/bf16", "int8/bf16", "fp32");
    recipe_at(&one, "b")->forward.src.granularity = QS_PER_CHANNEL;
    refused(&one, QS_UNSUPPORTED, "step per channel");
    one = chain("int8/bf16", "int8/bf16", "fp32");
    recipe_at(&one, "b")->forward.weights.channel_is_input = true;
    refused(&one, QS_UNSUPPORTED, "input channel");
    one = chain("int8/bf16", "int8/bf16", "fp32");
    recipe_at(&one, "b")->forward.weights = recipe_at(&one, "b")->input_gradient.weights;
    refused(&one, QS_USAGE, "operator b");
}

/* ---- All three products in integers ---- */

static const qs_step *step_of(const model *one, const qs_schedule *schedule, const char *node, const char *op, const char *pass) {
    for (int s = 0; s < schedule->steps; s++) {
        const qs_step *step = &schedule->step[s];
        if (step->kind == QS_STEP_KERNEL && step->node == qs_graph_find(one->graph, node) && strcmp(step->case_.op->name, op) == 0 &&
            strcmp(step->case_.pass->name, pass) == 0)
            return step;
    }
    fail_msg("no step %s/%s of %s", op, pass, node);
    return NULL;
}

static void case_says(const qs_step *step, const char *text) {
    if (!strstr(step->case_text, text)) fail_msg("\"%s\" is not in %s", text, step->case_text);
}

static qs_place place_of(const qs_step *step, qs_role role) {
    return step->place[qs_case_position(&step->case_, role)];
}

static int quantize_steps(const model *one, const qs_schedule *schedule, const char *format, const qs_step *found[2]) {
    char dst[32];
    int count = 0;
    snprintf(dst, sizeof dst, " dst=%s[4,8,8,8]", format);
    for (int s = 0; s < schedule->steps; s++) {
        const qs_step *step = &schedule->step[s];
        if (step->kind == QS_STEP_KERNEL && step->node == qs_graph_find(one->graph, "b") && strstr(step->case_text, dst) && count < 2)
            found[count++] = step;
    }
    return count;
}

/* Both gradient products share codes, unless the second asks for draws of its own; forward clips where it says so, and gradients do not. */
static void draws_and_ranges_of_their_own(void) {
    const qs_step *of[2];
    model one = chain("int4:shift4:mse/log4/log4", "int4:shift4:mse/log4/log4", "fp32");
    qs_schedule *schedule = lowered(&one, "bf16");
    assert_int_equal(quantize_steps(&one, schedule, "log4", of), 1);
    assert_non_null(strstr(of[0]->case_text, "rounding=stochastic"));
    assert_null(strstr(of[0]->case_text, "mse"));
    case_says(step_of(&one, schedule, "b", "conv2d", "input_gradient"), "diff_dst=log4[4,8,8,8] diff_dst_step=fp32[1]");
    case_says(step_of(&one, schedule, "b", "conv2d", "weight_gradient"),
              "src=uint4[4,8,8,8] src_step=fp32[1] src_group=int8[8] diff_dst=log4");
    int clipped = 0;
    for (int s = 0; s < schedule->steps; s++)
        clipped += schedule->step[s].kind == QS_STEP_KERNEL && strstr(schedule->step[s].case_text, " mse") != NULL;
    assert_int_equal(clipped, 5); /* two inputs, weights of two forward products and of one input gradient: the images need none */
    qs_schedule_release(schedule);
    end(&one);
    one = chain("int4:shift4:mse/log4/log4:draw2", "int4:shift4:mse/log4/log4:draw2", "fp32");
    schedule = lowered(&one, "bf16");
    assert_int_equal(quantize_steps(&one, schedule, "log4", of), 2);
    assert_true(of[0]->stream != of[1]->stream);
    assert_string_equal(of[0]->case_text, of[1]->case_text);
    qs_schedule_release(schedule);
    end(&one);
}

/* b reads what a ReLU made: unsigned codes; a reads the images: signed ones. Forward and weight gradient take the same codes. */
TEST(integers_in_all_passes) {
    model one = chain("int4:shift4", "int4:shift4", "int6:shift2");
    qs_schedule *schedule = lowered(&one, "bf16");
    const qs_step *forward = step_of(&one, schedule, "b", "conv2d", "forward");
    const qs_step *input = step_of(&one, schedule, "b", "conv2d", "input_gradient");
    const qs_step *weights = step_of(&one, schedule, "b", "conv2d", "weight_gradient");
    case_says(step_of(&one, schedule, "a", "conv2d", "forward"), "src=int4[4,3,8,8] src_step=fp32[1] src_group=int8[3] weights=int4");
    case_says(forward, "src=uint4[4,8,8,8] src_step=fp32[1] src_group=int8[8] weights=int4[8,8,3,3] weights_step=fp32[8]");
    case_says(forward, "dst=bf16[4,8,8,8] kernel=3x3 padding=1x1 shifts=4");
    case_says(input, "weights_step=fp32[8] diff_dst=int4[4,8,8,8] diff_dst_step=fp32[1] diff_dst_group=int8[8] diff_src=bf16");
    case_says(input, "shifts=4");
    case_says(weights, "src=uint4[4,8,8,8] src_step=fp32[1] src_group=int8[8] diff_dst=int4[4,8,8,8]");
    assert_null(strstr(weights->case_text, "shifts"));
    case_says(step_of(&one, schedule, "fc", "linear", "forward"), "src=int6[4,8] src_step=fp32[1] src_group=int8[8]");
    case_says(step_of(&one, schedule, "fc", "linear", "forward"), "shifts=2");
    const qs_role saved[] = {QS_SRC, QS_SRC_STEP, QS_SRC_GROUP}, gradient[] = {QS_DIFF_DST, QS_DIFF_DST_STEP, QS_DIFF_DST_GROUP};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(place_of(forward, saved[i]).buffer, place_of(weights, saved[i]).buffer);
        assert_int_equal(place_of(input, gradient[i]).buffer, place_of(weights, gradient[i]).buffer);
    }
    assert_int_equal(steps_of(&one, schedule, "b", "dequantize", QS_BACKWARD), 0);
    qs_schedule_release(schedule);
    end(&one);
    draws_and_ranges_of_their_own();
}

/* Integers forward alone keep signed codes, and what forward saved in groups is dequantized by them. */
TEST(saved_groups_become_floats) {
    model one = chain("int8/bf16", "int6:shift4/bf16", "bf16");
    qs_schedule *schedule = lowered(&one, "bf16");
    case_says(step_of(&one, schedule, "b", "conv2d", "forward"), "src=int6[4,8,8,8] src_step=fp32[1] src_group=int8[8]");
    case_says(step_of(&one, schedule, "b", "dequantize", "forward"), "src_group=int8[8] dst=bf16");
    case_says(step_of(&one, schedule, "b", "conv2d", "weight_gradient"), "src=bf16[4,8,8,8] diff_dst=bf16");
    qs_schedule_release(schedule);
    end(&one);
}

/* Steps that serve a node with this in their text. */
static int steps_saying(const model *one, const qs_schedule *schedule, const char *node, const char *text) {
    int count = 0;
    for (int s = 0; s < schedule->steps; s++)
        count += schedule->step[s].kind == QS_STEP_KERNEL && schedule->step[s].node == qs_graph_find(one->graph, node) &&
                 strstr(schedule->step[s].case_text, text) != NULL;
    return count;
}

/* b mixes 8 input channels forward, 8 output channels in the input gradient, 4 samples in the weight gradient. Codes are signed, though a
 * ReLU made b's input, and the weight gradient has its own, which forward made. The images' 3 channels cannot be mixed: their codes are
 * those of int4:tensor. fc's 10 output channels are mixed in pairs. */
TEST(transforms_follow_the_sums) {
    model one = chain("int4:hadamard", "int4:hadamard", "int6:hadamard4");
    qs_schedule *schedule = lowered(&one, "bf16");
    const qs_step *forward = step_of(&one, schedule, "b", "conv2d", "forward");
    const qs_step *input = step_of(&one, schedule, "b", "conv2d", "input_gradient");
    const qs_step *weights = step_of(&one, schedule, "b", "conv2d", "weight_gradient");
    case_says(forward, "src=int4[4,8,8,8] src_step=fp32[1] weights=int4[8,8,3,3] weights_step=fp32[1] dst=bf16");
    case_says(input, "weights=int4[8,8,3,3] weights_step=fp32[1] diff_dst=int4[4,8,8,8] diff_dst_step=fp32[1] diff_src=bf16");
    case_says(weights, "src=int4[4,8,8,8] src_step=fp32[1] diff_dst=int4[4,8,8,8] diff_dst_step=fp32[1] diff_weights=fp32");
    assert_int_not_equal(place_of(forward, QS_SRC).buffer, place_of(weights, QS_SRC).buffer);
    assert_int_not_equal(place_of(input, QS_DIFF_DST).buffer, place_of(weights, QS_DIFF_DST).buffer);
    assert_int_equal(steps_saying(&one, schedule, "relu", "dst=int4[4,8,8,8] dst_step=fp32[1] axis=1 hadamard=8 rounding"), 1);
    assert_int_equal(steps_saying(&one, schedule, "b", "dst=int4[4,8,8,8] dst_step=fp32[1] hadamard=4 rounding"), 2); /* src, diff_dst */
    assert_int_equal(steps_saying(&one, schedule, "b", "dst=int4[4,8,8,8] dst_step=fp32[1] axis=1 hadamard=8 rounding"), 1); /* diff_dst */
    assert_int_equal(steps_saying(&one, schedule, "b", "dst=int4[8,8,3,3] dst_step=fp32[1] axis=1 hadamard=8"), 1);
    assert_int_equal(steps_saying(&one, schedule, "b", "dst=int4[8,8,3,3] dst_step=fp32[1] hadamard=8"), 1);
    assert_int_equal(steps_saying(&one, schedule, "b", "absmax/forward"), 5);
    assert_int_equal(steps_saying(&one, schedule, "a", "dst=int4[8,3,3,3] dst_step=fp32[1] rounding"), 1);
    assert_int_equal(steps_saying(&one, schedule, "a", "dst=int4[4,3,8,8] dst_step=fp32[1] hadamard=4"), 1);
    assert_int_equal(steps_saying(&one, schedule, "fc", "dst=int6[4,10] dst_step=fp32[1] axis=1 hadamard=2"), 1);
    assert_int_equal(steps_saying(&one, schedule, "fc", "dst=int6[10,8] dst_step=fp32[1] axis=1 hadamard=4"), 1);
    qs_schedule_release(schedule);
    one.job.batch = 3; /* no samples to be mixed: forward, which mixes no channels either, shares its codes with the weight gradient */
    schedule = lowered(&one, "bf16");
    assert_int_equal(place_of(step_of(&one, schedule, "a", "conv2d", "forward"), QS_SRC).buffer,
                     place_of(step_of(&one, schedule, "a", "conv2d", "weight_gradient"), QS_SRC).buffer);
    case_says(step_of(&one, schedule, "b", "conv2d", "weight_gradient"), "src=uint4[3,8,8,8]");
    qs_schedule_release(schedule);
    end(&one);
}

/* Two readers share forward's codes; of a forward transform alone, the weight gradient reads the value as it is stored; evaluation saves
 * nothing; a gradient of the bias has to know of the transform. */
TEST(transformed_copies) {
    model one = fork("bf16", "int4:hadamard", "int4:hadamard", "int8:hadamard/bf16");
    qs_schedule *schedule = lowered(&one, "bf16");
    assert_int_equal(steps_of(&one, schedule, "relu", "quantize", QS_FORWARD), 1);
    case_says(step_of(&one, schedule, "c", "conv2d", "forward"), "src=int8[4,8,8,8] src_step=fp32[1] weights=int8");
    case_says(step_of(&one, schedule, "c", "conv2d", "weight_gradient"), "src=bf16[4,8,8,8] diff_dst=bf16");
    assert_int_equal(steps_of(&one, schedule, "c", "dequantize", QS_BACKWARD), 0);
    assert_int_equal(steps_of(&one, schedule, "p", "quantize", QS_FORWARD), 2); /* weights, saved */
    qs_schedule_release(schedule);
    const qs_recipe recipe = recipe_of("int4:hadamard"), **list = recipes_uniform(one.graph, &recipe);
    const qs_lowering lowering = lowering_of(one.graph, &one.job, QS_MODE_EVALUATION, list);
    schedule = lower(&lowering);
    assert_int_equal(steps_of(&one, schedule, "p", "quantize", QS_FORWARD), 1);
    free(list);
    qs_schedule_release(schedule);
    end(&one);
    one = start();
    int at = after(&one, "flat", "flatten", 0, 0);
    assert_ok(qs_graph_add(one.graph, "fc", "linear", &(qs_attributes){0}, 1, &at, 10, true, &at));
    assert_ok(qs_graph_finish(one.graph, at, NULL));
    set(&one, "fc", "int4:hadamard");
    schedule = lowered(&one, "bf16");
    case_says(step_of(&one, schedule, "fc", "linear", "weight_gradient"), "diff_bias=fp32[10] hadamard=4");
    qs_schedule_release(schedule);
    end(&one);
}

TEST(transforms_are_of_both_factors) {
    model one = chain("int4:hadamard", "int4:hadamard", "fp32");
    recipe_at(&one, "b")->forward.weights = recipe_of("int4:shift4").forward.weights;
    refused(&one, QS_UNSUPPORTED, "int4:hadamard16(in):stochastic and int4:channel(out):stochastic: both take the same hadamardB(in)");
    one = chain("int4:hadamard", "int4:hadamard", "fp32");
    recipe_at(&one, "b")->forward.weights.hadamard = 8;
    refused(&one, QS_UNSUPPORTED, "factors of the forward");
    one = chain("int4:hadamard", "int4:hadamard", "fp32");
    recipe_at(&one, "b")->input_gradient.weights = recipe_at(&one, "b")->forward.weights;
    refused(&one, QS_UNSUPPORTED, "hadamardB(out)");
    one = chain("int4:hadamard", "int4:hadamard", "fp32");
    recipe_at(&one, "b")->weight_gradient.src = recipe_at(&one, "b")->forward.src;
    refused(&one, QS_UNSUPPORTED, "hadamardB(samples)");
}

/* Blocks that share scales lie along what a product sums over: channels forward and in the input gradient, samples and positions in the
 * weight gradient, whose input is rounded in the forward pass, from the value. A value that stands in the container is rounded all the
 * same. */
TEST(blocks_follow_the_sums) {
    model one = chain("mxfp8", "mxfp8", "nvfp4");
    qs_schedule *schedule = lowered(&one, "bf16");
    case_says(step_of(&one, schedule, "b", "conv2d", "forward"), "src=bf16[4,8,8,8] weights=bf16[8,8,3,3] dst=bf16");
    case_says(step_of(&one, schedule, "b", "conv2d", "weight_gradient"), "src=bf16[4,8,8,8] diff_dst=bf16[4,8,8,8] diff_weights=fp32");
    case_says(step_of(&one, schedule, "fc", "linear", "forward"), "src=fp32[4,8] weights=fp32[10,8]");
    assert_int_equal(
        steps_saying(&one, schedule, "relu", "block_round/forward src=bf16[4,8,8,8] dst=bf16[4,8,8,8] axis=1 blocks=mxfp8 batched"), 1);
    assert_int_equal(steps_saying(&one, schedule, "b", "dst=bf16[4,8,8,8] blocks=mxfp8 batched"), 2);        /* src, diff_dst */
    assert_int_equal(steps_saying(&one, schedule, "b", "dst=bf16[4,8,8,8] axis=1 blocks=mxfp8 batched"), 1); /* diff_dst */
    assert_int_equal(steps_saying(&one, schedule, "b", "dst=bf16[8,8,3,3] axis=1 blocks=mxfp8"), 1);
    assert_int_equal(steps_saying(&one, schedule, "b", "dst=bf16[8,8,3,3] blocks=mxfp8"), 1);
    assert_int_equal(steps_saying(&one, schedule, "fc", "dst=fp32[10,8] axis=1 blocks=nvfp4"), 1);
    qs_schedule_release(schedule);
    recipe_at(&one, "b")->weight_gradient.src.over_samples = false;
    refused(&one, QS_UNSUPPORTED, "blocks lie along(samples) there");
    one = chain("mxfp8", "mxfp8", "fp32");
    recipe_at(&one, "b")->forward.weights.channel_is_input = false;
    refused(&one, QS_UNSUPPORTED, "mxfp8:along(out):nearest-even for the forward: blocks lie along(in) there");
}

TEST(impossible_integers_are_refused) {
    model one = chain("int4:shift4", "int4:shift4", "fp32");
    recipe_at(&one, "b")->weight_gradient.src.rounding = QS_NEAREST_EVEN;
    refused(&one, QS_UNSUPPORTED, "forward saves its input as uint4:shift4(in):stochastic");
    one = chain("int4:shift4", "int4:shift4", "fp32");
    recipe_at(&one, "b")->input_gradient.diff_dst.channel_is_input = true;
    refused(&one, QS_UNSUPPORTED, "diff_dst takes shift4(out)");
    one = chain("int4:shift4", "int4:shift4", "fp32");
    recipe_at(&one, "b")->forward.weights = recipe_at(&one, "b")->forward.src;
    refused(&one, QS_UNSUPPORTED, "weights take channel(out)");
    one = chain("int4:shift4", "int4:shift4", "fp32");
    recipe_at(&one, "b")->input_gradient.weights.channel_is_input = false;
    refused(&one, QS_UNSUPPORTED, "use channel(in)");
    one = chain("int4:shift4", "int4:shift4", "fp32");
    recipe_at(&one, "b")->input_gradient.weights = recipe_of("fp32").forward.weights;
    refused(&one, QS_USAGE, "both be integer");
}

/* A tanh cell between a linear and the classes, over the positions of an image. */
static model recurrent(const char *gates, const char *cell) {
    model one = start();
    int at = after(&one, "gates", "linear", after(&one, "sequence", "sequence", 0, 0), 12);
    at = after(&one, "cell", "recurrence", at, 0);
    at = after(&one, "pool", "global_average_pool", at, 0);
    assert_ok(qs_graph_finish(one.graph, after(&one, "fc", "linear", after(&one, "flatten", "flatten", at, 0), 10), NULL));
    set(&one, "gates", gates);
    set(&one, "cell", cell);
    set(&one, "fc", "fp32");
    return one;
}

/* What it reads has the format of what it writes, and its products the codes of its own recipe. */
TEST(products_inside_of_passes) {
    static const struct {
        const char *gates, *cell, *read, *written, *forward, *backward;
    } rows[] = {{"fp32", "fp32", "fp32", "fp32", "dst=fp32[4,12,64]", "diff_weights=fp32[12,12]"},
                {"bf16", "bf16", "bf16", "bf16", "dst=bf16[4,12,64]", "diff_weights=fp32[12,12]"},
                {"int8:tensor", "bf16", "bf16", "bf16", "dst=bf16[4,12,64]", "diff_weights=fp32[12,12]"},
                {"fp32", "int8/bf16", "fp32", "fp32", " rounding=stochastic to=int8", " rounding=stochastic to=int8"},
                {"bf16", "int8:tensor", "bf16", "fp32", " to=int8", " to=int8 gradients=int8"},
                {"int8:tensor", "int4:shift4", "fp32", "fp32", " to=int4", " to=int4 gradients=int4"}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        model one = recurrent(rows[i].gates, rows[i].cell);
        qs_schedule *schedule = lowered(&one, "bf16");
        value_is(&one, schedule, "gates", rows[i].read);
        value_is(&one, schedule, "cell", rows[i].written);
        case_says(step_of(&one, schedule, "cell", "recurrence", "forward"), rows[i].forward);
        assert_null(strstr(step_of(&one, schedule, "cell", "recurrence", "forward")->case_text, "gradients="));
        case_says(step_of(&one, schedule, "cell", "recurrence", "backward"), rows[i].backward);
        qs_schedule_release(schedule);
        end(&one);
    }
    model unlike = recurrent("fp32", "int8:tensor"), late = recurrent("fp32", "int8:tensor");
    recipe_at(&unlike, "cell")->forward.weights.format = qs_format_of("int4");
    refused(&unlike, QS_UNSUPPORTED, "products inside a recurrence");
    recipe_at(&late, "cell")->forward = recipe_of("fp32").forward;
    refused(&late, QS_UNSUPPORTED, "products inside a recurrence");
}

TEST_MAIN(a_table_writes_what_its_readers_need, readers_decide_fixed_point_outputs, outputs_have_their_own_formats,
          unlike_inputs_meet_in_the_widest, copies_are_shared, int8_saves_one_byte, weights_are_converted_once, streams_differ,
          impossible_recipes_are_refused, integers_in_all_passes, saved_groups_become_floats, transforms_follow_the_sums,
          transformed_copies, transforms_are_of_both_factors, blocks_follow_the_sums, impossible_integers_are_refused,
          products_inside_of_passes)
