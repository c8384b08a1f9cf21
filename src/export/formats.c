// SPDX-License-Identifier: Apache-2.0
/* Factors of products in the formats of a plan's class: see formats.h. */
#include "formats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "qsync/blocks.h"

/* ---- What formats become ------------------------------------------------------------------------------------------------------------ */

/* Float formats that ONNX has as types. */
static const struct {
    const char *format;
    qs_onnx_type type;
    int opset;
} float_types[] = {
    {"bf16", QS_ONNX_BFLOAT16, 13}, {"fp16", QS_ONNX_FLOAT16, 13}, {"e4m3fn", QS_ONNX_FLOAT8E4M3FN, 19}, {"e5m2", QS_ONNX_FLOAT8E5M2, 19}};
enum { FLOAT_TYPES = sizeof float_types / sizeof *float_types, INT4_OPSET = 21, INT4_BITS = 4 };

/* Its row; -1: ONNX has no such type. */
static int float_type(const qs_format *format) {
    for (int i = 0; i < FLOAT_TYPES; i++)
        if (format == qs_format_of(float_types[i].format)) return i;
    return -1;
}

static bool is_plain(const qs_format *format) {
    return format == qs_format_of("fp32") || format == qs_format_of("tf32");
}

static int opset_of_format(const qs_format *format, bool stored) {
    if (format->kind == QS_KIND_INTEGER) return stored && format->bits <= INT4_BITS ? INT4_OPSET : QS_EXPORT_LEAST_OPSET;
    const int row = float_type(format);
    return row >= 0 && float_types[row].opset > QS_EXPORT_LEAST_OPSET ? float_types[row].opset : QS_EXPORT_LEAST_OPSET;
}

static bool is_transformed(const qs_recipe *recipe) {
    return recipe->forward.src.granularity == QS_HADAMARD || recipe->forward.weights.granularity == QS_HADAMARD;
}

int qs__opset_of(const qs_recipe *recipe) {
    if (is_transformed(recipe)) return QS_EXPORT_LEAST_OPSET;
    const int src = opset_of_format(recipe->forward.src.format, false), weights = opset_of_format(recipe->forward.weights.format, true);
    return src > weights ? src : weights;
}

bool qs__is_transformed(const qs__writer *w) {
    const qs_recipe *recipe = w->recipe ? w->recipe[w->at] : NULL;
    return recipe && is_transformed(recipe);
}

/* Of a node, where its forward part is written in other formats than fp32. */
static const qs_recipe *reduced_at(const qs__writer *w, int node) {
    const qs_recipe *recipe = w->recipe ? w->recipe[node] : NULL;
    if (!recipe || is_transformed(recipe) || w->graph->node[node].op->inner) return NULL; /* LSTM and its like take floats */
    return is_plain(recipe->forward.src.format) && is_plain(recipe->forward.weights.format) ? NULL : recipe;
}

qs_status qs__recipe_check(const qs__writer *w, int node) {
    const qs_recipe *recipe = w->recipe ? w->recipe[node] : NULL;
    if (!recipe || (!reduced_at(w, node) && !recipe->forward.src.blocks && !recipe->forward.weights.blocks)) return QS_OK;
    const qs_quantizer *const forward[] = {&recipe->forward.src, &recipe->forward.weights};
    for (int i = 0; i < 2; i++) {
        const char *what = i == 0 ? "src" : "weights", *name = w->graph->node[node].name;
        if (forward[i]->blocks)
            return qs_fail(QS_UNSUPPORTED,
                           "operator %s: forward %s is in blocks that share scales (%s), which a file has no steps for: export another "
                           "recipe, or --fp32",
                           name, what, forward[i]->blocks->name);
        if (forward[i]->least_squares)
            return qs_fail(
                QS_UNSUPPORTED,
                "operator %s: forward %s has steps of least squared error (mse), which follow each batch, and a file's come from "
                "largest magnitudes and stand still: export another recipe, or --fp32",
                name, what);
        if (forward[i]->format->is_logarithmic)
            return qs_fail(
                QS_UNSUPPORTED,
                "operator %s: forward %s has powers of two (%s), and a file's codes are uniform: export another recipe, or --fp32", name,
                what, forward[i]->format->name);
    }
    return QS_OK;
}

const qs_recipe *qs__reduced(const qs__writer *w) {
    return reduced_at(w, w->at);
}

/* The format that its weights are assigned to where ONNX has its type; else NULL. */
static const qs_format *assigned(const qs__writer *w) {
    const qs_parameter *parameter = w->options->parameter ? qs__parameter(w, QS_WEIGHTS) : NULL;
    const qs_tensor_choice *choice = parameter ? w->options->parameter[parameter - w->graph->parameter] : NULL;
    return choice && choice->value.format && float_type(choice->value.format) >= 0 ? choice->value.format : NULL;
}

/* The row of the format that its output is assigned to; -1: to none, or to one that ONNX has no type for. */
static int assigned_output(const qs__writer *w) {
    const qs_tensor_choice *choice = w->options->value ? w->options->value[w->at] : NULL;
    return choice && choice->value.format ? float_type(choice->value.format) : -1;
}

bool qs__tensors_assigned(const qs__writer *w) {
    return assigned(w) || assigned_output(w) >= 0;
}

bool qs__weights_narrow(const qs__writer *w) {
    return qs__reduced(w) || assigned(w);
}

int qs__opset_of_tensor(const qs_tensor_choice *tensor) {
    return tensor && tensor->value.format ? opset_of_format(tensor->value.format, true) : QS_EXPORT_LEAST_OPSET;
}

/* A parameter that shares a tensor with others is a piece of it. */
void qs__parameters_round(qs__writer *w) {
    for (int i = 0; w->options->parameter && i < w->graph->parameters; i++) {
        const qs_tensor_choice *choice = w->options->parameter[i];
        if (!choice || !choice->value.format) continue;
        const qs_shape *shape = &w->graph->parameter[i].shape;
        const qs_weights_place place = qs__place(w, &w->graph->parameter[i]);
        const int64_t rows = shape->axes > 0 ? shape->dim[0] : 1, columns = qs_shape_count(shape) / rows, all = rows * place.parts;
        float *values = qs__values(w, &place)->data;
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < columns; c++) {
                float *x = values + (place.transposed ? c * all + place.part * rows + r : (place.part * rows + r) * columns + c);
                *x = qs_round_value(choice->value.format, QS_NEAREST_EVEN, choice->value.overflow, *x, 0, NULL);
            }
    }
}

void qs__output_round(qs__writer *w) {
    const int row = assigned_output(w);
    if (row >= 0) w->value[w->at].name = qs__onnx_cast(w, qs__onnx_cast(w, w->value[w->at].name, float_types[row].type), QS_ONNX_FLOAT);
}

/* ---- Values ----------------------------------------------------------------------------------------------------------------------- */

static bool never_negative(const qs_graph *graph, int index) {
    const qs_node *node = &graph->node[index];
    if (!node->op || node->op->sign == QS_SIGN_ANY) return false;
    if (node->op->sign == QS_SIGN_NEVER_NEGATIVE) return true;
    for (int i = 0; i < node->inputs; i++)
        if (!never_negative(graph, node->input[i])) return false;
    return true;
}

/* Where all three products are in integers, values that are never negative take unsigned codes, but for 8 bits (record.h). */
static const qs_format *codes_of(const qs_recipe *recipe, const qs_quantizer *quantizer, bool positive) {
    char name[16];
    const bool all =
        recipe->input_gradient.diff_dst.format->kind == QS_KIND_INTEGER && recipe->weight_gradient.diff_dst.format->kind == QS_KIND_INTEGER;
    if (!positive || !all || quantizer->format->bits >= 8) return quantizer->format;
    snprintf(name, sizeof name, "uint%d", quantizer->format->bits);
    return qs_format_of(name);
}

/* Codes of values that are never negative stand in uint8, so that a relu before them says nothing new and is left out by those who run
 * the file; with the step of their format, so codes are the plan's, and what is beyond the calibration has room. */
static const char *quantized(qs__writer *w, const char *x, int axis, const char *step, int64_t steps, bool positive) {
    const int64_t dim = steps;
    uint8_t *zeros = NULL;
    qs_protobuf down = {0}, up = {0};
    if (w->model.status == QS_OK) w->model.status = qs_allocate((size_t)(steps > 0 ? steps : 1), 1, &zeros);
    if (w->model.status != QS_OK) return "";
    const char *zero = qs__model_constant(&w->model, "zeros", positive ? QS_ONNX_UINT8 : QS_ONNX_INT8, steps > 0, &dim,
                                          (size_t)(steps > 0 ? steps : 1), zeros);
    free(zeros);
    if (steps > 0) {
        qs__attribute_integer(&down, "axis", axis);
        qs__attribute_integer(&up, "axis", axis);
    }
    return QS__NODE(w, "DequantizeLinear", &up, QS__NODE(w, "QuantizeLinear", &down, x, step, zero), step, zero);
}

/* The place among the channels in memory of channel `c` of a value as it is laid out. */
static int64_t place_in_memory(const qs__writer *w, int node, qs__layout layout, int64_t c) {
    const qs__value *value = &w->value[node];
    if (layout == QS__CHANNELS_LAST || w->graph->node[node].shape.axes != 2 || value->positions == 0) return c;
    return c % value->positions * value->channels + c / value->positions;
}

/* Codes that stand in more bits than their format has: what is beyond their range is not cut off, and the step of a usual batch is the
 * better one. */
static float **ranges_of(const qs__writer *w, const qs_quantizer *quantizer, bool positive) {
    const qs_export_ranges *ranges = w->options->ranges;
    return ranges->typical && (positive || quantizer->format->bits < 8) ? ranges->typical : ranges->largest;
}

/* In shift groups: each channel has the step s_0 2^-group. Where every output reads one channel the weights take that power of two, and
 * codes have one step; else they have one for each channel. Weights of a transposed convolution have steps for the outputs of a group,
 * which all groups share: they can take none. */
static void factor_in_groups(qs__writer *w, int node, qs__layout layout, const qs_format *codes, int groups, const float *range,
                             bool positive, qs__factor *out) {
    const qs_parameter *weights = qs__parameter(w, QS_WEIGHTS);
    const int64_t channels = w->graph->node[node].shape.dim[1], axes = w->graph->node[node].shape.axes;
    const bool depthwise = weights && weights->shape.axes == 4 && weights->shape.dim[1] == 1 && !qs__node_at(w)->op->mirror;
    float *each = NULL;
    qs_status status;
    QS_GOTO(qs_allocate((size_t)channels, 1, &out->group));
    QS_GOTO(qs_allocate((size_t)channels, sizeof *each, &each));
    for (int64_t c = 0; c < channels; c++)
        each[c] = range[place_in_memory(w, node, layout, c)];
    const float first = qs_shift_groups(codes, false, groups, channels, each, out->group);
    for (int64_t c = 0; c < channels; c++)
        each[c] = ldexpf(depthwise ? 1 : first, depthwise ? out->group[c] : -out->group[c]);
    w->summary->shift_groups += !depthwise;
    if (depthwise) {
        const int64_t dim[] = {channels, 1, 1};
        out->step = (double)first;
        out->name = quantized(w, QS__NODE(w, "Mul", NULL, out->name, qs__onnx_numbers(w, 3, dim, each)), 0, qs__onnx_number(w, out->step),
                              0, positive);
    } else {
        free(out->group);
        out->group = NULL;
        const int axis = layout == QS__CHANNELS_FIRST ? 1 : (int)axes - 1;
        out->name = quantized(w, out->name, axis, qs__onnx_numbers(w, 1, &channels, each), channels, positive);
    }
done:
    if (status != QS_OK) w->model.status = status;
    free(each);
}

/* The one step of a node's codes. */
static double step_of(const qs__writer *w, int node, const qs_format *codes, const float *range) {
    float absmax = 0;
    for (int64_t c = 0; c < w->graph->node[node].shape.dim[1]; c++)
        absmax = fmaxf(absmax, range[c]);
    return (double)qs_step_of_absmax(codes, absmax);
}

qs__factor qs__factor_of(qs__writer *w, int input, qs__layout layout, const char *x, bool second) {
    const qs_recipe *recipe = qs__reduced(w);
    qs__factor out = {.name = x};
    if (!recipe || w->model.status != QS_OK) return out;
    const qs_quantizer *quantizer = second ? &recipe->forward.weights : &recipe->forward.src;
    const int node = qs__node_at(w)->input[input];
    if (quantizer->format->kind == QS_KIND_FLOAT) {
        const int row = float_type(quantizer->format);
        if (row >= 0) out.name = qs__onnx_cast(w, qs__onnx_cast(w, x, float_types[row].type), QS_ONNX_FLOAT);
        return out;
    }
    if (!w->options->ranges || !w->options->ranges->largest[node]) {
        w->model.status = qs_fail(QS_MISMATCH, "operator %s reads %s in %s, whose largest magnitude is not known: calibrate with samples",
                                  qs__node_at(w)->name, w->graph->node[node].name, quantizer->format->name);
        return out;
    }
    const bool positive = never_negative(w->graph, node);
    const qs_format *codes = codes_of(recipe, quantizer, positive);
    const float *range = ranges_of(w, quantizer, positive)[node];
    if (quantizer->granularity == QS_SHIFT_GROUPS) {
        factor_in_groups(w, node, layout, codes, quantizer->shift_groups, range, positive, &out);
        return out;
    }
    out.step = step_of(w, node, codes, range);
    out.name = quantized(w, x, 0, qs__onnx_number(w, out.step), 0, positive);
    return out;
}

/* Whether all who read a node, also through pools of largest values and what is there in training only, put it into codes of one step. */
static bool readers_step(const qs__writer *w, int node, double *step, bool *positive) {
    const qs_graph *graph = w->graph;
    int readers = 0;
    for (int n = node + 1; n < graph->nodes; n++) {
        const qs_node *reader = &graph->node[n];
        for (int i = 0; i < reader->inputs; i++) {
            if (reader->input[i] != node) continue;
            readers++;
            if (reader->op == qs_op_of("max_pool") || (reader->op->training_only && w->options->form == QS_EXPORT_INFERENCE)) {
                if (!readers_step(w, n, step, positive)) return false;
                continue;
            }
            const qs_recipe *recipe = reader->op->kind == QS_ADJUSTABLE && reader->parameters > 0 ? reduced_at(w, n) : NULL;
            const qs_quantizer *quantizer = recipe ? &recipe->forward.src : NULL;
            if (!quantizer || quantizer->format->kind != QS_KIND_INTEGER || quantizer->granularity == QS_SHIFT_GROUPS) return false;
            if (!w->options->ranges || !w->options->ranges->largest[node]) return false;
            const bool never = never_negative(graph, node);
            const double one = step_of(w, node, codes_of(recipe, quantizer, never), ranges_of(w, quantizer, never)[node]);
            if (*step != 0 && (*step != one || *positive != never)) return false;
            *step = one;
            *positive = never;
        }
    }
    return readers > 0;
}

const char *qs__as_read(qs__writer *w, const char *x) {
    double step = 0;
    bool positive = false;
    if (!readers_step(w, w->at, &step, &positive) || w->model.status != QS_OK) return x;
    return quantized(w, x, 0, qs__onnx_number(w, step), 0, positive);
}

/* ---- Weights ---------------------------------------------------------------------------------------------------------------------- */

/* Places of a window; products of an output. */
static int64_t taps_of(const qs__weights *one) {
    return one->axes == 4 ? one->dim[2] * one->dim[3] : 1;
}

static int64_t inner_of(const qs__weights *one) {
    return one->dim[1] * taps_of(one);
}

void qs__weights_own(qs__writer *w, qs__weights *one) {
    const int64_t outputs = one->dim[0], inner = inner_of(one), all = outputs * one->place->parts, taps = taps_of(one);
    const bool inputs_first = one->place->transposed || (one->axes == 4 && one->turned);
    const qs_parameter *bias = qs__parameter(w, QS_BIAS);
    qs_status status = w->model.status;
    if (one->values || status != QS_OK) return;
    QS_GOTO(qs_allocate((size_t)(outputs * inner), sizeof *one->values, &one->values));
    const float *from = qs__values(w, one->place)->data;
    for (int64_t o = 0; o < outputs; o++) {
        const int64_t row = one->place->part * outputs + o;
        for (int64_t i = 0; i < inner; i++)
            one->values[o * inner + i] = inputs_first ? from[(i / taps * all + row) * taps + i % taps] : from[row * inner + i];
    }
    if (!bias) goto done;
    const qs_weights_place place = qs__place(w, bias);
    QS_GOTO(qs_allocate((size_t)outputs, sizeof *one->bias, &one->bias));
    memcpy(one->bias, (const float *)qs__values(w, &place)->data + place.part * outputs, (size_t)outputs * sizeof *one->bias);
done:
    w->model.status = status;
}

/* A name of this node's own where the tensor of the file holds others too; else that of the tensor, with an end that says how it is stored
 * otherwise, and whether a matrix lies the other way round: import cuts it off. A bias that folding made is called after the weights. */
static const char *name_of(qs__writer *w, const qs__weights *one, bool is_bias, const char *end) {
    char name[192];
    const qs_parameter *bias = is_bias ? qs__parameter(w, QS_BIAS) : NULL;
    const size_t length = strlen(one->place->name);
    const bool turned = !is_bias && one->axes == 2 && one->turned != one->place->transposed; /* it lies otherwise than in the file */
    const char *way = turned ? QS_ONNX_STORED_TURNED : "";
    if (one->place->parts > 1) {
        snprintf(name, sizeof name, "%s.%s%s%s", qs__node_at(w)->name, is_bias ? "bias" : "weight", way, end);
    } else if (bias) {
        const qs_weights_place place = qs__place(w, bias);
        snprintf(name, sizeof name, "%s%s", place.name, end);
    } else {
        const bool ends = is_bias && length > 7 && strcmp(one->place->name + length - 7, ".weight") == 0;
        snprintf(name, sizeof name, "%.*s%s%s%s", (int)(ends ? length - 7 : length), one->place->name, is_bias ? ".bias" : "", way, end);
    }
    return qs__model_constant_find(&w->model, name) ? qs__name_unused(&w->model, name) : qs__name_of(&w->model, name);
}

/* [outputs, inputs, ...] to [inputs, outputs, ...], elements of `size` bytes, in place. */
static qs_status turn(const qs__weights *one, void *values, size_t size) {
    const int64_t outputs = one->dim[0], inputs = one->dim[1];
    const size_t run = (size_t)taps_of(one) * size;
    char *copy = NULL;
    QS_TRY(qs_allocate((size_t)(outputs * inputs), run, &copy));
    memcpy(copy, values, (size_t)(outputs * inputs) * run);
    for (int64_t o = 0; o < outputs; o++)
        for (int64_t i = 0; i < inputs; i++)
            memcpy((char *)values + (size_t)(i * outputs + o) * run, copy + (size_t)(o * inputs + i) * run, run);
    free(copy);
    return QS_OK;
}

/* The initializer of stored weights as the product wants them. */
static const char *stored(qs__writer *w, const qs__weights *one, const char *name, qs_onnx_type type, size_t bytes, void *data) {
    int64_t dim[4];
    for (int i = 0; i < one->axes; i++)
        dim[i] = one->dim[one->turned && i < 2 ? 1 - i : i];
    return qs__model_weights(&w->model, name, type, one->axes, dim, bytes, data, true);
}

/* Two codes of 4 bits a byte. */
static size_t pack(int64_t count, int8_t *codes) {
    for (int64_t i = 0; i < count; i += 2)
        codes[i / 2] = (int8_t)((codes[i] & 15) | (i + 1 < count ? codes[i + 1] & 15 : 0) << 4);
    return (size_t)(count + 1) / 2;
}

/* Steps of the rows. The int32 codes of a bias have the step factor->step · step[o]: a channel of small weights takes a larger one, so that
 * its bias fits. A channel's power of two, by which its values were multiplied, is taken back here. */
static void steps_of(const qs__weights *one, const qs_quantizer *quantizer, const qs__factor *factor, float *step) {
    const int64_t outputs = one->dim[0], inner = inner_of(one);
    const double most = (double)(1 << 30);
    float largest = 0;
    for (int64_t o = 0; o < outputs; o++) {
        float absmax = 0;
        for (int64_t i = 0; i < inner; i++)
            absmax = fmaxf(absmax, fabsf(one->values[o * inner + i]));
        largest = fmaxf(largest, absmax);
        step[o] = qs_step_of_absmax(quantizer->format, absmax);
    }
    for (int64_t o = 0; o < outputs; o++) {
        if (quantizer->granularity == QS_PER_TENSOR) step[o] = qs_step_of_absmax(quantizer->format, largest);
        if (one->bias && !one->bare && factor->step > 0)
            step[o] = fmaxf(step[o], (float)(fabs((double)one->bias[o]) / (factor->step * most)));
    }
}

/* The bias as int32 codes, or NULL where it stays as it is. */
static const char *bias_codes(qs__writer *w, const qs__weights *one, const qs__factor *factor, const float *step) {
    const int64_t outputs = one->dim[0];
    int32_t *codes = NULL;
    float *product = NULL;
    const char *name = "";
    qs_status status;
    qs_protobuf with = {0};
    QS_GOTO(qs_allocate((size_t)outputs, sizeof *codes, &codes));
    QS_GOTO(qs_allocate((size_t)outputs, sizeof *product, &product));
    const char *zeros = qs__model_constant(&w->model, "zeros", QS_ONNX_INT32, 1, &outputs, (size_t)outputs * sizeof *codes, codes);
    for (int64_t o = 0; o < outputs; o++) {
        product[o] = (float)factor->step * step[o]; /* as who runs the file multiplies them, in fp32 */
        codes[o] = (int32_t)rint((double)one->bias[o] / (double)product[o]);
    }
    qs__attribute_integer(&with, "axis", 0);
    const char *stored_codes = qs__model_weights(&w->model, name_of(w, one, true, QS_ONNX_STORED_CODES), QS_ONNX_INT32, 1, &outputs,
                                                 (size_t)outputs * sizeof *codes, codes, true);
    codes = NULL;
    name = QS__NODE(w, "DequantizeLinear", &with, stored_codes, qs__onnx_numbers(w, 1, &outputs, product), zeros);
done:
    if (status != QS_OK) w->model.status = status;
    free(codes);
    free(product);
    return name;
}

static const char *weights_in_codes(qs__writer *w, qs__weights *one, const qs_quantizer *quantizer, const qs__factor *factor,
                                    const char **bias) {
    const int64_t outputs = one->dim[0], inner = inner_of(one), count = outputs * inner;
    const bool narrow = quantizer->format->bits <= INT4_BITS;
    const qs_random_stream none = {0};
    int8_t *codes = NULL, *zeros = NULL;
    float *step = NULL;
    const char *name = "";
    qs_status status;
    QS_GOTO(qs_allocate((size_t)count, 1, &codes));
    QS_GOTO(qs_allocate((size_t)outputs, 1, &zeros));
    QS_GOTO(qs_allocate((size_t)outputs, sizeof *step, &step));
    steps_of(one, quantizer, factor, step);
    for (int64_t o = 0; o < outputs; o++) {
        qs_quantize_array(quantizer->format, QS_NEAREST_EVEN, none, step[o], inner, one->values + o * inner, codes + o * inner);
        if (factor->group) step[o] = ldexpf(step[o], -factor->group[o / (outputs / w->graph->node[qs__node_at(w)->input[0]].shape.dim[1])]);
    }
    if (one->turned) QS_GOTO(turn(one, codes, 1));
    const size_t bytes = narrow ? pack(count, codes) : (size_t)count;
    const char *data = stored(w, one, name_of(w, one, false, QS_ONNX_STORED_CODES), narrow ? QS_ONNX_INT4 : QS_ONNX_INT8, bytes, codes);
    codes = NULL;
    const char *zero = qs__model_constant(&w->model, "zeros", narrow ? QS_ONNX_INT4 : QS_ONNX_INT8, 1, &outputs,
                                          narrow ? (size_t)(outputs + 1) / 2 : (size_t)outputs, zeros);
    qs_protobuf with = {0};
    qs__attribute_integer(&with, "axis", one->turned ? 1 : 0);
    if (one->bias && !one->bare && factor->step > 0) *bias = bias_codes(w, one, factor, step);
    name = QS__NODE(w, "DequantizeLinear", &with, data, qs__onnx_numbers(w, 1, &outputs, step), zero);
    w->summary->integer++;
    w->summary->int4 += narrow;
done:
    if (status != QS_OK) w->model.status = status;
    free(codes);
    free(zeros);
    free(step);
    return name;
}

static const char *weights_in_floats(qs__writer *w, qs__weights *one, const qs_format *format) {
    const int row = float_type(format);
    const int64_t outputs = one->dim[0], inner = inner_of(one), count = outputs * inner;
    const qs_random_stream none = {0};
    void *data = NULL;
    qs_status status;
    if (one->turned) QS_GOTO(turn(one, one->values, sizeof *one->values));
    if (row < 0) {
        qs_round_array(format, QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, none, count, one->values, one->values);
        data = one->values;
        one->values = NULL;
        return stored(w, one, name_of(w, one, false, ""), QS_ONNX_FLOAT, (size_t)count * sizeof(float), data);
    }
    const size_t bytes = qs_format_bytes(format, count);
    const bool narrow = format->bits == 8;
    QS_GOTO(qs_allocate(bytes, 1, &data));
    qs_convert_from_fp32(format, QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, none, count, one->values, data);
    const char *name =
        stored(w, one, name_of(w, one, false, narrow ? QS_ONNX_STORED_FLOAT8 : QS_ONNX_STORED_HALF), float_types[row].type, bytes, data);
    w->summary->float8 += narrow;
    w->summary->half += !narrow;
    return narrow ? QS__NODE(w, "DequantizeLinear", NULL, name, qs__onnx_number(w, 1)) : qs__onnx_cast(w, name, QS_ONNX_FLOAT);
done:
    w->model.status = status;
    return "";
}

const char *qs__weights_write(qs__writer *w, qs__weights *one, qs__factor *factor, const char **bias) {
    const qs_recipe *recipe = qs__reduced(w);
    const qs_format *format = recipe ? recipe->forward.weights.format : assigned(w);
    const char *name = "";
    const int64_t outputs = one->dim[0];
    if (format) qs__weights_own(w, one);
    *bias = NULL;
    if (w->model.status != QS_OK) goto done;
    if (!one->values) {
        name = qs__initializer_shaped(w, qs__parameter(w, QS_WEIGHTS));
        if (one->turned && one->axes == 2 && !one->place->transposed) name = QS__TRANSPOSE(w, name, 1, 0);
    } else if (format && format->kind == QS_KIND_INTEGER) {
        name = weights_in_codes(w, one, &recipe->forward.weights, factor, bias);
    } else {
        name = weights_in_floats(w, one, format ? format : qs_format_of("fp32"));
    }
    if (*bias || w->model.status != QS_OK) goto done;
    if (one->bias) {
        *bias = qs__model_weights(&w->model, name_of(w, one, true, ""), QS_ONNX_FLOAT, 1, &outputs, (size_t)outputs * sizeof *one->bias,
                                  one->bias, true);
        one->bias = NULL;
    } else {
        *bias = qs__initializer(w, QS_BIAS);
    }
done:
    free(one->values);
    free(one->bias);
    free(factor->group);
    one->values = one->bias = NULL;
    factor->group = NULL;
    return name;
}
