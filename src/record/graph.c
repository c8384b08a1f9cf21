// SPDX-License-Identifier: Apache-2.0
/* graph.json: a model as a list of operators, with its inputs, its target and its parameters. What operators there are, and which shapes
 * follow, is the room graph's to say (qs_graph_read). */
#include <string.h>

#include "table.h"

/* Bounds that only catch slips of the pen. */
enum { MOST_OPERATORS = 1 << 14, MOST_EXTENT = 1 << 30, MOST_WINDOW = 1 << 20 };

/* ---- Shapes ----------------------------------------------------------------------------------------------------------------- */

static const char *symbol_name(int64_t extent) {
    return extent == QS_GRAPH_BATCH ? "batch" : extent == QS_GRAPH_LENGTH ? "length" : NULL;
}

/* Every row begins with its shape. */
static qs_status shape_read(const qs__place *place, void *object) {
    qs_shape *shape = object;
    if (!place->value) return QS_OK;
    if (!json_is_array(place->value)) return qs__refuse_type(place, "an array");
    const size_t axes = json_array_size(place->value);
    if (axes < 1 || axes > QS_MAX_AXES) return qs__refuse_value(place, "has %zu extents, must have 1 to %d", axes, QS_MAX_AXES);
    for (size_t i = 0; i < axes; i++) {
        const qs__place extent = qs__element(place, i);
        const char *text = json_string_value(extent.value);
        if (text && strcmp(text, "batch") == 0)
            shape->dim[i] = QS_GRAPH_BATCH;
        else if (text && strcmp(text, "length") == 0)
            shape->dim[i] = QS_GRAPH_LENGTH;
        else if (!json_is_integer(extent.value))
            return qs__refuse_type(&extent, "an integer, \"batch\" or \"length\"");
        else if (json_integer_value(extent.value) < 1 || json_integer_value(extent.value) > MOST_EXTENT)
            return qs__refuse_value(&extent, "%lld is outside 1 .. %d", (long long)json_integer_value(extent.value), MOST_EXTENT);
        else
            shape->dim[i] = json_integer_value(extent.value);
    }
    shape->axes = (int)axes;
    return QS_OK;
}

static void shape_write(qs__writer *writer, const char *name, const void *object) {
    const qs_shape *shape = object;
    qs__open(writer, name, "[]", QS__ONE_LINE);
    for (int i = 0; i < shape->axes; i++)
        if (symbol_name(shape->dim[i]))
            qs__put_text(writer, NULL, symbol_name(shape->dim[i]));
        else
            qs__put_integer(writer, NULL, shape->dim[i]);
    qs__close(writer);
}

static bool shape_is_absent(const void *object) {
    return ((const qs_shape *)object)->axes == 0;
}

static const qs__hook shape_hook = {shape_read, shape_write, shape_is_absent, NULL};
#define SHAPE(type) offsetof(type, shape), sizeof(qs_shape), .hook = &shape_hook

/* ---- Inputs and target ------------------------------------------------------------------------------------------------------- */

static const char *const types[] = {"u8", "i32", "f32", NULL};

static const qs__field input_fields[] = {
    {"name", QS__NAME, QS__REQUIRED, QS__AT(qs_graph_input, name), .text = "by which operators read it"},
    {"type", QS__CHOICE, QS__REQUIRED, QS__AT(qs_graph_input, type), .names = types,
     .text = "`u8` of three extents are images, which models take as normalised fp32"},
    {"extents", QS__OBJECT, QS__REQUIRED, SHAPE(qs_graph_input), .values = "1 to 3 integers, or `\"length\"` first",
     .text = "of one sample, channels last: height, width, channels of images"},
    {"length", QS__INTEGER, QS__LEFT_OUT, QS__AT(qs_graph_input, length), .high = MOST_EXTENT, .absent = "nothing varies",
     .text = "what `\"length\"` is bound to: samples have up to so many values along the first extent"},
    {"bound", QS__INTEGER, QS__LEFT_OUT, QS__AT(qs_graph_input, bound), .high = INT32_MAX, .absent = "what its readers have rows for",
     .text = "of `i32`: values are below it"},
    {"padding", QS__INTEGER, QS__LEFT_OUT, QS__AT(qs_graph_input, padding), .low = INT32_MIN, .high = INT32_MAX,
     .text = "of `i32`: the value behind the end of a shorter sample"},
};

static qs_status input_check(const qs__place *place, void *object, void *root) {
    (void)root;
    const qs_graph_input *input = object;
    const qs__place extents = qs__member(place, "extents"), length = qs__member(place, "length");
    for (int i = 0; i < input->shape.axes; i++)
        if (symbol_name(input->shape.dim[i]) && (i > 0 || input->shape.dim[i] == QS_GRAPH_BATCH))
            return qs__refuse_value(&extents, "\"%s\" cannot stand at place %d: \"length\" may be the first extent",
                                    symbol_name(input->shape.dim[i]), i + 1);
    if ((input->shape.dim[0] == QS_GRAPH_LENGTH) != (input->length > 0))
        return qs__refuse_value(length.value ? &length : &extents, "input \"%s\": a bound \"length\" and the extent \"length\" go together",
                                input->name);
    return QS_OK;
}

static const qs__record input_record = {QS__FIELDS(input_fields), .title = "An input: `inputs[]`", .layout = QS__ONE_LINE,
                                        .check = input_check};

/* ---- Operators --------------------------------------------------------------------------------------------------------------- */

static bool no_kernel(const void *object) {
    return ((const qs_graph_operator *)object)->kernel[0] == 0 && ((const qs_graph_operator *)object)->kernel[1] == 0;
}

static bool unit_stride(const void *object) {
    const int *stride = ((const qs_graph_operator *)object)->stride;
    return stride[0] <= 1 && stride[1] <= 1;
}

static bool unit_dilation(const void *object) {
    const int *dilation = ((const qs_graph_operator *)object)->dilation;
    return dilation[0] <= 1 && dilation[1] <= 1;
}

static bool no_more(const void *object) {
    const int *more = ((const qs_graph_operator *)object)->padding_more;
    return more[0] == 0 && more[1] == 0;
}

static bool no_padding(const void *object) {
    return ((const qs_graph_operator *)object)->padding[0] == 0 && ((const qs_graph_operator *)object)->padding[1] == 0;
}

static const qs__field setting_fields[] = {
    {"value", QS__NUMBER, QS__REQUIRED, QS__AT(qs_graph_setting, value), .low = -INFINITY, .values = NULL, .text = NULL},
};
static const qs__record setting_record = {QS__FIELDS(setting_fields), .key = QS_NAME, .form = QS__ONLY_SHORT};

static const qs__field origin_fields[] = {
    {"file", QS__TEXT, QS__LEFT_OUT, QS__AT(qs_graph_origin, file), .absent = "by operator and parameter",
     .text = "name of its tensor in weights files; standing alone where nothing else is said"},
    {"transposed", QS__FLAG, QS__LEFT_OUT, QS__AT(qs_graph_origin, transposed), .text = "files hold the matrix as in × out"},
    {"constant", QS__FLAG, QS__LEFT_OUT, QS__AT(qs_graph_origin, constant), .text = "it is never trained"},
    {"extents", QS__INTEGER, QS__LEFT_OUT, QS__IN(qs_graph_origin, extent, axes), .least = 1, .most = QS_MAX_AXES, .low = 1,
     .high = MOST_EXTENT, .absent = "its own", .text = "of its tensor in weights files, which holds as many values"},
};
static const qs__record origin_record = {QS__FIELDS(origin_fields), .title = "Where a parameter comes from: `operators[].parameters.*`",
                                         .key = sizeof(((qs_graph_origin *)0)->parameter), .form = QS__SHORT, .layout = QS__ONE_LINE};

static const qs__field operator_fields[] = {
    {"name", QS__NAME, QS__REQUIRED, QS__AT(qs_graph_operator, name), .text = "unique; parameters and plans go by it"},
    {"op", QS__NAME, QS__REQUIRED, QS__AT(qs_graph_operator, op), .text = "`conv2d`, `batch_norm`, `relu`, ..."},
    {"inputs", QS__NAME, QS__REQUIRED, QS__IN(qs_graph_operator, input, inputs), .least = 1, .most = QS_GRAPH_MOST_INPUTS, .unit = "names",
     .text = "of inputs, and of operators before this one"},
    {"outputs", QS__INTEGER, QS__LEFT_OUT, QS__AT(qs_graph_operator, outputs), .high = MOST_EXTENT,
     .text = "channels or features it makes, where it may choose"},
    {"bias", QS__FLAG, QS__LEFT_OUT, QS__AT(qs_graph_operator, bias), .text = "whether it has one, where that is optional"},
    {"kernel", QS__COUNT, QS__LEFT_OUT, QS__PAIR(qs_graph_operator, kernel), .least = 2, .most = 2, .low = 1, .high = MOST_WINDOW,
     .values = "height, width", .left_out = no_kernel, .absent = "none", .text = "window of convolutions and pools"},
    {"stride", QS__COUNT, QS__LEFT_OUT, QS__PAIR(qs_graph_operator, stride), .least = 2, .most = 2, .low = 1, .high = MOST_WINDOW,
     .values = "height, width", .left_out = unit_stride, .absent = "1, 1", .text = "between windows"},
    {"dilation", QS__COUNT, QS__LEFT_OUT, QS__PAIR(qs_graph_operator, dilation), .least = 2, .most = 2, .low = 1, .high = MOST_WINDOW,
     .values = "height, width", .left_out = unit_dilation, .absent = "1, 1", .text = "places from one tap of a window to the next"},
    {"padding", QS__COUNT, QS__LEFT_OUT, QS__PAIR(qs_graph_operator, padding), .least = 2, .most = 2, .high = MOST_WINDOW,
     .values = "height, width", .left_out = no_padding, .absent = "0, 0", .text = "zeros at each side"},
    {"padding_more", QS__COUNT, QS__LEFT_OUT, QS__PAIR(qs_graph_operator, padding_more), .least = 2, .most = 2, .low = -MOST_WINDOW,
     .high = MOST_WINDOW, .values = "height, width", .left_out = no_more, .absent = "0, 0",
     .text = "so many more zeros below and to the right, fewer where negative: padding that is not alike, pools that round up"},
    {"count_padding", QS__FLAG, QS__LEFT_OUT, QS__AT(qs_graph_operator, count_padding),
     .text = "of `average_pool`: zeros of the padding count in its means"},
    {"groups", QS__COUNT, QS__LEFT_OUT, QS__AT(qs_graph_operator, groups), .low = 1, .high = MOST_EXTENT, .standard = 1,
     .text = "of channels, which do not see each other"},
    {"offset", QS__COUNT, QS__LEFT_OUT, QS__AT(qs_graph_operator, offset), .high = MOST_EXTENT,
     .text = "of slices: the first channel or position; of learned positions: the first row of the table"},
    {"batched", QS__FLAG, QS__LEFT_OUT, QS__AT(qs_graph_operator, batched),
     .text = "random draws follow the global sample, not the place in the local batch"},
    {"weights_of", QS__NAME, QS__LEFT_OUT, QS__AT(qs_graph_operator, weights_of), .absent = "its own",
     .text = "an operator before this one whose weights it reads as its own: a tied output layer"},
    {"settings", QS__OBJECT, QS__LEFT_OUT, QS__TABLE(qs_graph_operator, setting, settings), .of = &setting_record,
     .values = "object: name → number", .absent = "the operator's standards",
     .text = "the operator's own numbers, by the names that it declares"},
    {"parameters", QS__OBJECT, QS__LEFT_OUT, QS__TABLE(qs_graph_operator, origin, origins), .of = &origin_record,
     .values = "object: parameter → where it comes from", .absent = "named after the operator, and trained",
     .text = "of imported models: names in the user's own file, and constants"},
    {"shape", QS__OBJECT, QS__LEFT_OUT, SHAPE(qs_graph_operator), .values = "up to 4 integers, `\"batch\"`, `\"length\"`",
     .absent = "not said", .text = "of the output, channels behind the batch; compared with what follows from the inputs"},
};
static const qs__record operator_record = {QS__FIELDS(operator_fields), .title = "An operator: `operators[]`", .layout = QS__ONE_LINE};

/* ---- Parameters ---------------------------------------------------------------------------------------------------------------- */

static const qs__field start_fields[] = {
    {"initial", QS__NUMBER, QS__OPTIONAL, QS__AT(qs_graph_parameter_row, initial), .low = -INFINITY,
     .text = "of every element, where `fan_in` is 0"},
    {"fan_in", QS__INTEGER, QS__OPTIONAL, QS__AT(qs_graph_parameter_row, fan_in), .text = "terms of a sum that the parameter stands in"},
    {"gain", QS__NUMBER, QS__OPTIONAL, QS__AT(qs_graph_parameter_row, gain), .high = 1e6, .standard = 2,
     .text = "normal draws of variance gain / `fan_in`; 2 before a relu, 1 of a last layer"},
};
static const qs__record start_record = {QS__FIELDS(start_fields), .layout = QS__ONE_LINE};

static const qs__field tensor_fields[] = {
    {"name", QS__TEXT, QS__REQUIRED, QS__AT(qs_graph_parameter_row, name), .text = "operator and parameter: `conv1.weights`"},
    {"role", QS__NAME, QS__REQUIRED, QS__AT(qs_graph_parameter_row, role), .text = "`weights`, `bias`, `scale`, `running_mean`, ..."},
    {"trained", QS__FLAG, QS__OPTIONAL, QS__AT(qs_graph_parameter_row, trained), .standard = 1, .text = "running statistics are not"},
    {"shape", QS__OBJECT, QS__REQUIRED, SHAPE(qs_graph_parameter_row), .values = "1 to 4 integers",
     .text = "compared with what the operator has"},
    {"start", QS__OBJECT, QS__REQUIRED, QS__OWN, .of = &start_record, .text = "values before the first step; not part of the signature"},
};
static const qs__record tensor_record = {QS__FIELDS(tensor_fields), .title = "A parameter: `tensors[]`", .layout = QS__ONE_LINE};

/* ---- The graph ------------------------------------------------------------------------------------------------------------------ */

static const qs__field graph_fields[] = {
    {"name", QS__NAME, QS__REQUIRED, QS__AT(qs_graph_record, name),
     .text = "what the model is called; of built-in ones with their options"},
    {"unit", QS__NAME, QS__OPTIONAL, QS__AT(qs_graph_record, unit), .standard_text = "samples",
     .text = "what samples are called in texts: `images`"},
    {"inputs", QS__OBJECT, QS__REQUIRED, QS__ARRAY(qs_graph_record, input, inputs), .least = 1, .most = QS_SAMPLES_MOST_INPUTS,
     .of = &input_record, .values = "list", .text = "what a sample consists of"},
    {"target", QS__OBJECT, QS__REQUIRED, QS__AT(qs_graph_record, target), .of = &qs__target_record,
     .text = "what the model learns; it decides the loss"},
    {"operators", QS__OBJECT, QS__REQUIRED, QS__ARRAY(qs_graph_record, operator_, operators), .least = 1, .most = MOST_OPERATORS,
     .of = &operator_record, .values = "list", .text = "in an order in which they can run, without the loss"},
    {"output", QS__NAME, QS__REQUIRED, QS__AT(qs_graph_record, output), .text = "the operator that the loss reads"},
    {"tensors", QS__OBJECT, QS__LEFT_OUT, QS__ARRAY(qs_graph_record, tensor, tensors), .most = 4 * MOST_OPERATORS, .of = &tensor_record,
     .values = "list", .absent = "as the operators have them", .text = "all parameters, in the order of their operators"},
    {"signature", QS__TEXT, QS__LEFT_OUT, QS__AT(qs_graph_record, signature), .absent = "not said",
     .text = "over names, operators, attributes and shapes, batch excluded; one that is not the graph's is refused"},
};
const qs__record qs__graph_record = {QS__FIELDS(graph_fields), .kind = "graph", .size = sizeof(qs_graph_record)};

qs_status qs_graph_record_read(const char *path, qs_graph_record *out) {
    return qs__record_read(&qs__graph_record, path, out);
}

qs_status qs_graph_record_parse(const char *json, const char *source, qs_graph_record *out) {
    return qs__record_parse(&qs__graph_record, json, strlen(json), source, out);
}

qs_status qs_graph_record_text(const qs_graph_record *graph, char **json) {
    return qs__record_text(&qs__graph_record, graph, json);
}

void qs_graph_record_release(qs_graph_record *graph) {
    qs__record_release(&qs__graph_record, graph);
}
