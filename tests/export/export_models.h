// SPDX-License-Identifier: Apache-2.0
/* Models to export, with weights, a batch of inputs, and the logits that the reference kernels give for it. */
#ifndef QSYNC_TESTS_EXPORT_MODELS
#define QSYNC_TESTS_EXPORT_MODELS

#include "kit/folder.h"
#include "kit/schedule.h"

#include "qsync/checkpoint.h"
#include "qsync/export.h"

/* In small images where they allow that; every normalisation once. */
static const char *const image_models[] = {"mlp",
                                           "lenet5",
                                           "resnet8",
                                           "resnet20",
                                           "resnet32",
                                           "resnet18_cifar",
                                           "resnet18",
                                           "resnet50",
                                           "vgg11",
                                           "vgg11_bn",
                                           "vgg16",
                                           "vgg16_bn",
                                           "alexnet",
                                           "mobilenet_v2",
                                           "squeezenet",
                                           "shufflenet_v2",
                                           "vit:tiny,layers=2",
                                           "resnet8:norm=l1bn",
                                           "resnet8:norm=ln",
                                           "resnet8:norm=l1ln",
                                           "resnet8:norm=rms"};
static const char *const sequence_models[] = {"bert:tiny,length=32,vocab=500", "minilm:layers=2,length=32,vocab=500",
                                              "roberta:layers=2,length=24,hidden=96,vocab=500",
                                              "gpt2:layers=2,hidden=96,length=24,vocab=500", "llama:layers=2,length=24"};

/* What models of the list lack: windows that are dilated, padded unlike or transposed, other norms, padding and resizing. */
#define IMAGE(name)                                                                                                 \
    "{\"schema\": \"qsync/graph/2\", \"name\": \"" name "\", \"inputs\": [{\"name\": \"input\", \"type\": \"u8\", " \
    "\"extents\": [9, 8, 3]}], \"target\": {\"kind\": \"class\", \"classes\": 10}, \"operators\": ["
#define STEP(name, op, from, more) "{\"name\": \"" name "\", \"op\": \"" op "\", \"inputs\": [\"" from "\"]" more "}, "
#define WITH(settings) ", \"settings\": {" settings "}"
#define CLASSES(from)                                                                  \
    STEP("flat", "flatten", from, "")                                                  \
    "{\"name\": \"fc\", \"op\": \"linear\", \"inputs\": [\"flat\"], \"outputs\": 10, " \
    "\"bias\": true}], \"output\": \"fc\"}"
static const char *const window_models[] = {
    IMAGE("windows") STEP("conv", "conv2d", "input",
                          ", \"outputs\": 8, \"kernel\": [3, 3], \"dilation\": [2, 1], \"padding\": [1, 1], "
                          "\"padding_more\": [1, -1]") STEP("groups", "group_norm", "conv", ", \"groups\": 2")
        STEP("up", "conv_transpose", "groups",
             ", \"outputs\": 16, \"kernel\": [3, 3], \"stride\": [2, 2], \"padding\": [1, 1], "
             "\"padding_more\": [-2, -1], \"groups\": 2") STEP("instances", "instance_norm", "up", "")
            STEP("wide", "conv_transpose", "instances",
                 ", \"outputs\": 6, \"kernel\": [2, 3], \"dilation\": [2, 1], \"padding\": [0, 1], "
                 "\"padding_more\": [1, 0]")
                STEP("neighbours", "local_response_norm", "wide", WITH("\"size\": 3, \"alpha\": 0.5, \"beta\": 0.6, \"bias\": 2"))
                    STEP("largest", "max_pool", "neighbours",
                         ", \"kernel\": [3, 2], \"stride\": [2, 2], \"dilation\": [1, 2], \"padding_more\": [1, 1]")
                        STEP("means", "average_pool", "largest",
                             ", \"kernel\": [3, 3], \"stride\": [2, 2], \"padding\": [1, 1], \"count_padding\": true") CLASSES("means"),
    IMAGE("extents") STEP("around", "pad", "input", ", \"padding\": [2, 1], \"padding_more\": [-1, 1]" WITH("\"value\": 0.5"))
        STEP("mirror", "pad", "around", ", \"padding\": [3, 0], \"padding_more\": [-2, 2]" WITH("\"mode\": 1"))
            STEP("edge", "pad", "mirror", ", \"padding\": [0, 2], \"padding_more\": [1, -4]" WITH("\"mode\": 2"))
                STEP("conv", "conv2d", "edge", ", \"outputs\": 4, \"kernel\": [3, 3]")
                    STEP("twice", "resize", "conv", WITH("\"mode\": 1, \"scale_height\": 2, \"scale_width\": 1.5"))
                        STEP("corners", "resize", "twice", WITH("\"mode\": 1, \"height\": 11, \"width\": 9, \"coordinates\": 2"))
                            STEP("torch", "resize", "corners", WITH("\"mode\": 1, \"height\": 7, \"scale_width\": 1.6, \"coordinates\": 3"))
                                STEP("less", "resize", "torch", WITH("\"mode\": 1, \"scale_height\": 0.7, \"coordinates\": 1"))
                                    STEP("near", "resize", "less", WITH("\"scale_height\": 2.6, \"scale_width\": 0.7"))
                                        STEP("nearer", "resize", "near", WITH("\"height\": 5, \"width\": 13, \"nearest\": 1"))
                                            STEP("floor", "resize", "nearer",
                                                 WITH("\"height\": 8, \"scale_width\": 0.6, \"coordinates\": 1, \"nearest\": 2"))
                                                STEP("ceiling", "resize", "floor", WITH("\"width\": 10, \"nearest\": 3"))
                                                    STEP("cubic", "resize", "ceiling",
                                                         WITH("\"mode\": 2, \"scale_height\": 1.25, \"coefficient\": -0.5"))
                                                        STEP("inside", "resize", "cubic", WITH("\"mode\": 5, \"height\": 7, \"width\": 6"))
                                                            CLASSES("inside")};

/* Functions of one value, some a model so that each still moves the logits; two values, one of them repeated; other extents. */
#define CONV(name, outputs) STEP(name, "conv2d", "input", ", \"outputs\": " outputs ", \"kernel\": [3, 3], \"bias\": true")
#define AND "\", \""
static const char *const function_models[] = {
    IMAGE("curves") CONV("conv", "8") STEP("a", "hard_swish", "conv", "") STEP("b", "leaky_relu", "a", WITH("\"alpha\": 0.2"))
        STEP("c", "elu", "b", WITH("\"alpha\": 0.5")) STEP("d", "softsign", "c", "")
            STEP("e", "affine", "d", WITH("\"factor\": 4, \"term\": 0.5")) STEP("f", "mish", "e", "") STEP("g", "abs", "f", "")
                STEP("h", "sqrt", "g", "") CLASSES("h"),
    IMAGE("powers") CONV("conv", "8") STEP("a", "sigmoid", "conv", "") STEP("b", "log", "a", "") STEP("c", "exp", "b", "")
        STEP("d", "reciprocal", "c", "") STEP("e", "power", "d", WITH("\"exponent\": 1.5")) CLASSES("e"),
    IMAGE("bends") CONV("conv", "8") STEP("a", "celu", "conv", WITH("\"alpha\": 0.7")) STEP("b", "selu", "a", "")
        STEP("c", "softplus", "b", "") STEP("d", "hard_sigmoid", "c", WITH("\"alpha\": 0.3, \"beta\": 0.1"))
            STEP("e", "affine", "d", WITH("\"term\": -0.4")) STEP("f", "erf", "e", "")
                STEP("g", "clip", "f", WITH("\"least\": -0.1, \"most\": 0.3")) CLASSES("g"),
    IMAGE("pairs") CONV("one", "8") CONV("two", "8") STEP("a", "subtract", "one" AND "two", "") STEP("b", "maximum", "a" AND "one", "")
        STEP("c", "minimum", "b" AND "two", "") STEP("d", "exp", "two", "") STEP("e", "divide", "c" AND "d", "")
            STEP("mean", "global_average_pool", "one", "") STEP("s", "sigmoid", "mean", "") STEP("f", "gate", "e" AND "s", "")
                STEP("g", "reduce_mean", "two", WITH("\"over\": 1")) STEP("h", "gate", "f" AND "g", "") STEP("i", "gain", "h", "")
                    STEP("j", "offset", "i", WITH("\"over\": 1")) STEP("k", "gain", "j", WITH("\"over\": 3"))
                        STEP("l", "offset", "k", WITH("\"over\": 2")) STEP("m", "prelu", "l", "") STEP("n", "reduce_max", "one", "")
                            STEP("o", "expand", "n", WITH("\"height\": 7, \"width\": 6")) STEP("p", "add", "m" AND "o", "") CLASSES("p"),
    IMAGE("views") CONV("conv", "8") STEP("a", "reshape", "conv", WITH("\"height\": 14, \"channels\": 24"))
        STEP("b", "offset", "a", WITH("\"over\": 3")) STEP("c", "gain", "b", WITH("\"over\": 1"))
            STEP("d", "permute", "c", WITH("\"extent1\": 14, \"extent2\": 3, \"extent3\": 8, \"order\": 213"))
                STEP("e", "reduce_sum", "d", WITH("\"over\": 1")) STEP("f", "gate", "d" AND "e", "")
                    STEP("g", "gain", "f", WITH("\"over\": 1")) CLASSES("g"),
    /* features of two images of unlike extents, 8 x 7 x 6 and 6 x 8 x 7, meet by memory's order */
    IMAGE("features") CONV("one", "8") STEP("two", "conv2d", "input", ", \"outputs\": 6, \"kernel\": [2, 2]")
        STEP("a", "flatten", "one", "") STEP("b", "flatten", "two", "") STEP("c", "add", "a" AND "b",
                                                                             "") STEP("d", "gain", "c", "") STEP("e", "layer_norm", "d", "")
            STEP("f", "gate", "e" AND "b",
                 "") "{\"name\": \"fc\", \"op\": \"linear\", \"inputs\": [\"f\"], \"outputs\": 10, \"bias\": true}], \"output\": \"fc\"}"};

/* Every cell, in both orders of gates, every direction, with a linear that goes into it and without one. */
static const char *const recurrent_models[] = {
    IMAGE("lstms") STEP("a", "sequence", "input", "") STEP("b", "linear", "a", ", \"outputs\": 24, \"bias\": true")
        STEP("c", "recurrence", "b", ", \"bias\": true" WITH("\"cell\": 2, \"order\": 1")) STEP("d", "linear", "c", ", \"outputs\": 48")
            STEP("e", "recurrence", "d", ", \"bias\": true" WITH("\"cell\": 2, \"direction\": 2, \"biases\": 2"))
                STEP("f", "recurrence", "e", WITH("\"cell\": 2, \"direction\": 1, \"order\": 1")) CLASSES("f"),
    IMAGE("grus") STEP("a", "sequence", "input", "") STEP("b", "linear", "a", ", \"outputs\": 36, \"bias\": true")
        STEP("c", "recurrence", "b", WITH("\"cell\": 3, \"direction\": 2, \"order\": 1")) STEP("d", "tanh", "c", "")
            STEP("e", "recurrence", "d", ", \"bias\": true" WITH("\"cell\": 4, \"biases\": 2, \"order\": 1"))
                STEP("f", "linear", "e", ", \"outputs\": 15, \"bias\": true")
                    STEP("g", "recurrence", "f", ", \"bias\": true" WITH("\"cell\": 4")) CLASSES("g"),
    IMAGE("plain") STEP("a", "sequence", "input", "") STEP("b", "linear", "a", ", \"outputs\": 8, \"bias\": true")
        STEP("c", "recurrence", "b", ", \"bias\": true") STEP("d", "recurrence", "c", WITH("\"cell\": 1, \"direction\": 2")) CLASSES("d")};

typedef struct exported_model {
    qs_graph *graph;
    float *trained, *statistics;
    qs_schedule *schedule;
    char *memory;
    float *logits; /* of the batch, as the loss reads them: channels last */
    qs_shape shape;
    float **channel; /* (nodes) the largest magnitude of each channel of its output in that batch */
} exported_model;

static const int64_t exported_batch = 2;

/* Weights as they start, biases, scales and statistics as some training might have left them. */
static inline void exported_weights_draw(exported_model *one) {
    qs_graph_initialize(one->graph, 3, one->trained, one->statistics);
    for (int i = 0; i < one->graph->parameters; i++) {
        const qs_parameter *parameter = &one->graph->parameter[i];
        const bool trained = parameter->gradient != QS_ROLE_COUNT;
        float *values = (trained ? one->trained : one->statistics) + parameter->offset;
        const uint64_t key = qs_random_key(11, (uint64_t)i, 0, 0);
        if (parameter->fan_in > 0) continue;
        for (int64_t k = 0; k < qs_shape_count(&parameter->shape); k++)
            values[k] += trained || parameter->role == QS_RUNNING_MEAN ? 0.1f * qs_random_normal(key, (uint64_t)k)
                                                                       : qs_random_uniform(key, (uint64_t)k) - 0.3f;
    }
}

static inline void *exported_place(const exported_model *one, qs_place place) {
    return place.buffer < 0 ? NULL : one->memory + one->schedule->buffer[place.buffer].offset + place.offset;
}

/* Images are normal; of ids any; the second sample keeps two thirds of its positions. */
static inline void exported_inputs_draw(const exported_model *one) {
    for (int i = 0; i < one->schedule->inputs; i++) {
        const qs_input *input = &one->graph->samples.input[i];
        const int64_t count = qs_shape_count(&one->graph->node[i].shape);
        const uint64_t key = qs_random_key(5, (uint64_t)i, 0, 0);
        char *values = exported_place(one, (qs_place){one->schedule->input[i], 0});
        for (int64_t k = 0; k < exported_batch * count; k++) {
            const bool keep = qs_graph_integers(one->graph, i) == QS_KEEP;
            const float real = qs_random_normal(key, (uint64_t)k);
            const int32_t id = keep ? k % count < (k < count ? count : count * 2 / 3)
                                    : (int32_t)(qs_random_bits(key, (uint64_t)k) % (uint64_t)(input->bound > 0 ? input->bound : 2));
            memcpy(values + 4 * k, input->type == QS_INPUT_I32 ? (const void *)&id : (const void *)&real, 4);
        }
    }
}

static inline void exported_range_add(exported_model *one, int node, const float *values) {
    const qs_shape shape = qs_graph_shape(one->graph, node, exported_batch);
    for (int64_t i = 0; i < qs_shape_count(&shape); i++)
        one->channel[node][i % shape.dim[1]] = fmaxf(one->channel[node][i % shape.dim[1]], fabsf(values[i]));
}

/* Runs the evaluation of a batch by the reference kernels; keeps what the loss reads. */
static inline void exported_logits_find(exported_model *one) {
    const qs_run run = {.samples = exported_batch, .global_samples = exported_batch, .loss_scale = 1};
    const int inputs = one->schedule->inputs;
    for (int i = 0; i < inputs; i++)
        if (one->graph->samples.input[i].type != QS_INPUT_I32)
            exported_range_add(one, i, exported_place(one, (qs_place){one->schedule->input[i], 0}));
    for (int s = 0; s < one->schedule->steps; s++) {
        const qs_step *step = &one->schedule->step[s];
        qs_tensor operands[QS_MAX_OPERANDS] = {0};
        if (step->kind != QS_STEP_KERNEL) continue;
        for (int i = 0; i < step->case_.operands; i++) {
            const qs_operand *operand = &step->case_.operand[i];
            operands[i] = (qs_tensor){operand->shape, operand->format, operand->format ? exported_place(one, step->place[i]) : NULL};
        }
        if (step->node == one->graph->nodes - 1) {
            const int src = qs_case_position(&step->case_, QS_SRC);
            one->shape = step->case_.operand[src].shape;
            one->logits = malloc(qs_tensor_bytes(&one->shape, qs_format_of("fp32")));
            memcpy(one->logits, operands[src].data, qs_tensor_bytes(&one->shape, qs_format_of("fp32")));
            return;
        }
        assert_ok(qs_case_reference(&step->case_, operands, &run));
        exported_range_add(one, step->node, operands[qs_case_position(&step->case_, QS_DST)].data);
        for (int n = step->node + 1; n < one->graph->nodes && one->graph->node[n].input[0] == step->node; n++) /* what moves no data */
            if (qs_graph_is_name(one->graph, n)) exported_range_add(one, n, operands[qs_case_position(&step->case_, QS_DST)].data);
    }
    fail_msg("no step reads logits");
}

static inline void exported_room_make(exported_model *one) {
    one->trained = calloc((size_t)(one->graph->trained_elements + one->graph->frozen_elements), sizeof(float));
    one->statistics = calloc((size_t)one->graph->statistics_elements + 1, sizeof(float));
}

/* The batch through graph and weights. */
static inline void exported_model_run(exported_model *one) {
    const qs_graph *graph = one->graph;
    const int64_t weights = graph->trained_elements + graph->frozen_elements;
    const qs_job job = stub_job(exported_batch);
    one->schedule = lower_uniform(graph, &job, QS_MODE_EVALUATION, "fp32");
    one->memory = calloc(1, one->schedule->arena_bytes);
    memcpy(exported_place(one, (qs_place){one->schedule->masters, 0}), one->trained, (size_t)weights * sizeof(float));
    if (one->schedule->running >= 0)
        memcpy(exported_place(one, (qs_place){one->schedule->running, 0}), one->statistics,
               (size_t)graph->statistics_elements * sizeof(float));
    exported_inputs_draw(one);
    one->channel = calloc((size_t)graph->nodes, sizeof *one->channel);
    for (int n = 0; n < graph->nodes - 1; n++)
        one->channel[n] = calloc((size_t)graph->node[n].shape.dim[1], sizeof **one->channel);
    exported_logits_find(one);
    exported_inputs_draw(one); /* later steps may have written where they lie */
}

/* By its name, or by the text of its graph.json. */
static inline exported_model exported_model_make(const char *name) {
    exported_model one = {0};
    qs_model_input input;
    if (name[0] == '{') {
        assert_ok(qs_graph_parse(name, "text", &one.graph));
    } else if (qs_model_input_of(name, &input) == QS_OK && input.height > 64) {
        const qs_model_input smaller = {input.channels, 64, 64, 10};
        assert_ok(qs_model_build(name, &smaller, &one.graph));
    } else {
        assert_ok(qs_model_build(name, NULL, &one.graph));
    }
    exported_room_make(&one);
    exported_weights_draw(&one);
    exported_model_run(&one);
    return one;
}

/* Of an ONNX file, with its weights; `trained`: each of those that train is moved by up to a tenth of itself, as training might have. */
static inline exported_model exported_model_read(const char *path, bool trained) {
    exported_model one = {0};
    assert_ok(qs_model_open(path, NULL, &one.graph));
    exported_room_make(&one);
    assert_ok(qs_weights_read(path, one.graph, one.trained, one.statistics));
    for (int64_t i = 0; i < one.graph->trained_elements && trained; i++)
        one.trained[i] *= 0.9f + 0.2f * qs_random_uniform(qs_random_key(7, 0, 0, 0), (uint64_t)i);
    exported_model_run(&one);
    return one;
}

/* For tests/export/onnxruntime.py: the inputs that are read, then the logits; of each its name ("": logits), type, axes, extents and
 * values, images as [N,C,H,W]. */
static inline void exported_tensor_write(FILE *file, const char *name, bool integers, const qs_shape *shape, const void *data) {
    const int64_t count = qs_shape_count(shape), channels = shape->dim[1], positions = count / shape->dim[0] / channels;
    int32_t head[3] = {(int32_t)strlen(name), integers, shape->axes};
    fwrite(head, sizeof *head, 3, file);
    fwrite(name, 1, (size_t)head[0], file);
    int64_t dim[4] = {shape->dim[0], shape->dim[1], shape->dim[2], shape->dim[3]};
    if (shape->axes == 3) dim[1] = shape->dim[2], dim[2] = shape->dim[1];
    fwrite(dim, sizeof *dim, (size_t)shape->axes, file);
    for (int64_t i = 0; i < count; i++) {
        const int64_t sample = i / (channels * positions), c = i / positions % channels, p = i % positions;
        fwrite((const char *)data + 4 * (shape->axes == 4 ? (sample * positions + p) * channels + c : i), 4, 1, file);
    }
}

static inline void exported_model_write(exported_model *one, const char *path) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (int i = 0; i < one->schedule->inputs; i++) {
        qs_shape shape = qs_graph_shape(one->graph, i, exported_batch);
        if (one->graph->node[i].consumers == 0) continue;
        exported_tensor_write(file, one->graph->node[i].name, one->graph->samples.input[i].type == QS_INPUT_I32, &shape,
                              exported_place(one, (qs_place){one->schedule->input[i], 0}));
    }
    exported_tensor_write(file, "", false, &one->shape, one->logits);
    assert_int_equal(fclose(file), 0);
}

static inline void exported_model_release(exported_model *one) {
    qs_schedule_release(one->schedule);
    for (int n = 0; n < one->graph->nodes; n++)
        free(one->channel[n]);
    free(one->channel);
    qs_graph_release(one->graph);
    free(one->trained);
    free(one->statistics);
    free(one->memory);
    free(one->logits);
}

#endif
