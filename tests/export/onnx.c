// SPDX-License-Identifier: Apache-2.0
// labels: short
// links: schedule
/* Files of ONNX: fields as onnx.proto has them, initializers under the names and with the values of weights files, a batch of any size;
 * equal runs give equal bytes; what cannot be written is refused with all its names, and no half file is left. */
#include "export_folder.h"
#include "export_models.h"

#include "qsync/onnx.h"

/* ---- A file, read field by field ---- */

typedef struct bytes {
    const char *at, *end;
} bytes;

static uint64_t varint(bytes *from) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        assert_true(from->at < from->end && shift < 64);
        const unsigned char byte = (unsigned char)*from->at++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return value;
    }
}

/* The next field; *value or *part. False at the end. */
static bool field(bytes *from, int *number, uint64_t *value, bytes *part) {
    if (from->at == from->end) return false;
    const uint64_t tag = varint(from);
    *number = (int)(tag >> 3);
    *part = (bytes){0};
    *value = 0;
    if ((tag & 7) == 0) {
        *value = varint(from);
    } else {
        const uint64_t length = (tag & 7) == 5 ? 4 : varint(from);
        assert_true((tag & 7) == 5 || (tag & 7) == 2);
        assert_true(length <= (uint64_t)(from->end - from->at));
        *part = (bytes){from->at, from->at + length};
        from->at += length;
    }
    return true;
}

/* The number-th field `wanted` of a message. */
static bool find(bytes from, int wanted, int number, uint64_t *value, bytes *part) {
    int at;
    while (field(&from, &at, value, part))
        if (at == wanted && number-- == 0) return true;
    return false;
}

static bytes part_of(bytes from, int wanted, int number) {
    uint64_t value;
    bytes part;
    return find(from, wanted, number, &value, &part) ? part : (bytes){0};
}

static uint64_t number_of(bytes from, int wanted) {
    uint64_t value = 0;
    bytes part;
    assert_true(find(from, wanted, 0, &value, &part));
    return value;
}

static bool is_text(bytes part, const char *text) {
    return (size_t)(part.end - part.at) == strlen(text) && memcmp(part.at, text, strlen(text)) == 0;
}

enum {
    IR = 1,
    GRAPH = 7,
    OPSET = 8,
    VERSION = 2,
    NODE = 1,
    INITIALIZER = 5,
    INPUT = 11,
    OUTPUT = 12,
    OP = 4,
    ATTRIBUTE = 5,
    NODE_INPUT = 1
};
enum { DIMS = 1, NAME = 8, RAW = 9, EXTERNAL = 13, LOCATION = 14 };

static bytes initializer(bytes graph, const char *name) {
    for (int i = 0;; i++) {
        const bytes one = part_of(graph, INITIALIZER, i);
        if (!one.at || is_text(part_of(one, NAME, 0), name)) return one;
    }
}

static int nodes_of(bytes graph, const char *op) {
    int count = 0;
    for (int i = 0; part_of(graph, NODE, i).at; i++)
        count += is_text(part_of(part_of(graph, NODE, i), OP, 0), op);
    return count;
}

/* Writes and reads; the caller frees *file. */
static bytes exported(const exported_model *one, qs_export_options options, char **file, qs_export_summary *summary) {
    char *path = folder_path(test_folder, "model.onnx");
    size_t size;
    assert_ok(qs_export_onnx(one->graph, one->trained, one->statistics, &options, path, summary));
    assert_ok(qs_file_read(path, (size_t)1 << 30, file, &size));
    free(path);
    return (bytes){*file, *file + size};
}

/* ---- Tests ---- */

TEST(weights_keep_names_and_values) {
    exported_model one = exported_model_make("lenet5");
    qs_export_summary summary;
    qs_tensor_set set;
    char *file;
    const bytes model = exported(&one, (qs_export_options){0}, &file, &summary), graph = part_of(model, GRAPH, 0);
    assert_int_equal(number_of(model, IR), 8);
    assert_int_equal(number_of(part_of(model, OPSET, 0), VERSION), 17);
    assert_int_equal(summary.bytes, model.end - model.at);
    assert_ok(qs_weights_tensors(one.graph, one.trained, one.statistics, &set));
    for (size_t i = 0; i < set.count; i++) {
        const bytes tensor = initializer(graph, set.tensors[i].name), raw = part_of(tensor, RAW, 0);
        const size_t size = qs_tensor_bytes(&set.tensors[i].tensor.shape, set.tensors[i].tensor.format);
        assert_non_null(tensor.at);
        assert_int_equal(raw.end - raw.at, size);
        assert_memory_equal(raw.at, set.tensors[i].tensor.data, size);
    }
    qs_tensor_set_release(&set);
    free(file);
    exported_model_release(&one);
}

/* ValueInfo: name, type; Type: tensor; Tensor: element, shape; Shape: dims, each a number (1) or a symbol (2). */
TEST(a_batch_of_any_size_goes_in) {
    exported_model one = exported_model_make("bert:tiny,length=32");
    qs_export_summary summary;
    char *file;
    const bytes graph = part_of(exported(&one, (qs_export_options){0}, &file, &summary), GRAPH, 0);
    for (int i = 0; i < 4; i++) {
        const bytes value = i < 3 ? part_of(graph, INPUT, i) : part_of(graph, OUTPUT, 0);
        const bytes tensor = part_of(part_of(value, 2, 0), 1, 0), shape = part_of(tensor, 2, 0);
        assert_true(is_text(part_of(part_of(shape, 1, 0), 2, 0), "batch"));
        assert_int_equal(number_of(part_of(shape, 1, 1), 1), i < 3 ? 32 : 2);
        assert_int_equal(number_of(tensor, 1), i < 3 ? 7 : 1);
    }
    assert_true(is_text(part_of(part_of(graph, OUTPUT, 0), 1, 0), "logits"));
    free(file);
    exported_model_release(&one);
}

TEST(forms_differ_in_norms_and_dropout) {
    exported_model one = exported_model_make("resnet8:width=0.5"), other = exported_model_make("bert:tiny,length=32,dropout=0.1");
    qs_export_summary summary;
    char *file;
    bytes graph = part_of(exported(&one, (qs_export_options){0}, &file, &summary), GRAPH, 0);
    const int norms = nodes_of(graph, "BatchNormalization");
    assert_true(norms > 6);
    free(file);
    graph = part_of(exported(&one, (qs_export_options){.fold = true}, &file, &summary), GRAPH, 0);
    assert_int_equal(nodes_of(graph, "BatchNormalization"), 0);
    assert_null(initializer(graph, "bn1.running_mean").at);
    free(file);
    graph = part_of(exported(&one, (qs_export_options){.form = QS_EXPORT_TRAINING}, &file, &summary), GRAPH, 0);
    assert_int_equal(nodes_of(graph, "BatchNormalization"), norms);
    free(file);
    graph = part_of(exported(&other, (qs_export_options){0}, &file, &summary), GRAPH, 0);
    assert_int_equal(nodes_of(graph, "Dropout"), 0);
    free(file);
    graph = part_of(exported(&other, (qs_export_options){.form = QS_EXPORT_TRAINING}, &file, &summary), GRAPH, 0);
    assert_true(nodes_of(graph, "Dropout") > 4);
    free(file);
    exported_model_release(&one);
    exported_model_release(&other);
}

TEST(values_may_lie_beside) {
    exported_model one = exported_model_make("lenet5");
    qs_export_summary summary;
    char *file, *beside = folder_path(test_folder, "model.onnx.data"), *values;
    size_t size;
    const bytes graph = part_of(exported(&one, (qs_export_options){.external = true}, &file, &summary), GRAPH, 0);
    const bytes tensor = initializer(graph, "fc1.weight");
    assert_null(part_of(tensor, RAW, 0).at);
    assert_int_equal(number_of(tensor, LOCATION), 1);
    assert_true(is_text(part_of(part_of(tensor, EXTERNAL, 0), 2, 0), "model.onnx.data"));
    const long offset = strtol(part_of(part_of(tensor, EXTERNAL, 1), 2, 0).at, NULL, 10);
    assert_ok(qs_file_read(beside, (size_t)1 << 30, &values, &size));
    assert_int_equal(offset % 64, 0);
    qs_tensor_set set;
    assert_ok(qs_weights_tensors(one.graph, one.trained, one.statistics, &set));
    const qs_tensor *weights = qs_tensor_set_find(&set, "fc1.weight");
    assert_memory_equal(values + offset, weights->data, qs_tensor_bytes(&weights->shape, weights->format));
    assert_non_null(part_of(initializer(graph, "conv1.bias"), RAW, 0).at); /* small ones stay */
    qs_tensor_set_release(&set);
    free(values);
    free(file);
    assert_int_equal(remove(beside), 0);
    free(beside);
    exported_model_release(&one);
}

TEST(equal_runs_give_equal_bytes) {
    exported_model one = exported_model_make("resnet8");
    qs_export_summary summary;
    char *first, *second;
    const bytes a = exported(&one, (qs_export_options){0}, &first, &summary), b = exported(&one, (qs_export_options){0}, &second, &summary);
    assert_int_equal(a.end - a.at, b.end - b.at);
    assert_memory_equal(a.at, b.at, a.end - a.at);
    free(first);
    free(second);
    exported_model_release(&one);
}

TEST(every_model_is_written) {
    const char *const *const lists[] = {image_models, sequence_models, window_models, function_models, recurrent_models};
    const size_t counts[] = {COUNT_OF(image_models), COUNT_OF(sequence_models), COUNT_OF(window_models), COUNT_OF(function_models),
                             COUNT_OF(recurrent_models)};
    for (size_t list = 0; list < 5; list++)
        for (size_t i = 0; i < counts[list]; i++) {
            exported_model one = exported_model_make(lists[list][i]);
            qs_export_summary summary;
            char *file;
            if (one.graph->trained_elements > 1500000) { /* smaller ones have the same operators */
                exported_model_release(&one);
                continue;
            }
            const bytes graph = part_of(exported(&one, (qs_export_options){.fold = list == 0}, &file, &summary), GRAPH, 0);
            qs_onnx_model read; /* so does the reader of models of other programs */
            char *path = folder_path(test_folder, "model.onnx");
            assert_ok(qs_onnx_open(path, &read));
            qs_onnx_release(&read);
            free(path);
            for (int n = 0; part_of(graph, NODE, n).at; n++) /* an optional input that is absent stands last, and is left out */
                for (int k = 0; part_of(part_of(graph, NODE, n), NODE_INPUT, k).at; k++)
                    assert_false(is_text(part_of(part_of(graph, NODE, n), NODE_INPUT, k), ""));
            free(file);
            exported_model_release(&one);
        }
}

/* The initializer's numbers as fp32; a single one. */
static float float_at(bytes graph, bytes name, int64_t index) {
    char text[128];
    float value;
    snprintf(text, sizeof text, "%.*s", (int)(name.end - name.at), name.at);
    memcpy(&value, part_of(initializer(graph, text), RAW, 0).at + index * (int64_t)sizeof value, sizeof value);
    return value;
}

static bytes node_writing(bytes graph, bytes value) {
    for (int i = 0; part_of(graph, NODE, i).at; i++) {
        const bytes one = part_of(graph, NODE, i), output = part_of(one, 2, 0);
        if (output.end - output.at == value.end - value.at && memcmp(output.at, value.at, (size_t)(value.end - value.at)) == 0) return one;
    }
    return (bytes){0};
}

/* Conv and Gemm read what DequantizeLinear gives: of values with one step, of weights with one for each output, of a bias in int32 with the
 * product of the two to the last bit. */
TEST(integers_stand_as_onnx_runtime_wants_them) {
    exported_model one = exported_model_make("lenet5");
    const qs_recipe recipe = recipe_of("int8/bf16");
    const qs_recipe **recipes = recipes_uniform(one.graph, &recipe);
    const qs_export_ranges ranges = {one.graph->nodes, one.channel, NULL};
    qs_export_summary summary;
    char *file;
    const bytes graph = part_of(exported(&one, (qs_export_options){.recipe = recipes, .ranges = &ranges}, &file, &summary), GRAPH, 0);
    int products = 0;
    assert_int_equal(summary.integer, 5);
    for (int i = 0; part_of(graph, NODE, i).at; i++) {
        const bytes node = part_of(graph, NODE, i);
        if (!is_text(part_of(node, OP, 0), "Conv") && !is_text(part_of(node, OP, 0), "Gemm")) continue;
        bytes factor[3];
        for (int k = 0; k < 3; k++) {
            factor[k] = node_writing(graph, part_of(node, NODE_INPUT, k));
            assert_true(is_text(part_of(factor[k], OP, 0), "DequantizeLinear"));
        }
        const float x = float_at(graph, part_of(factor[0], NODE_INPUT, 1), 0);
        const bytes scale = part_of(factor[2], NODE_INPUT, 1);
        char text[128];
        snprintf(text, sizeof text, "%.*s", (int)(scale.end - scale.at), scale.at);
        const uint64_t outputs = number_of(initializer(graph, text), DIMS);
        for (uint64_t o = 0; o < outputs; o++) {
            const float w = float_at(graph, part_of(factor[1], NODE_INPUT, 1), (int64_t)o), product = x * w;
            assert_true(float_at(graph, scale, (int64_t)o) == product);
        }
        products++;
    }
    assert_int_equal(products, 5);
    assert_null(initializer(graph, "conv1.weight").at);
    assert_int_equal(number_of(initializer(graph, "conv1.weight_quantized"), 2), QS_ONNX_INT8);
    assert_int_equal(number_of(initializer(graph, "conv1.bias_quantized"), 2), QS_ONNX_INT32);
    free(recipes);
    free(file);
    exported_model_release(&one);
}

/* What meets in a Concat that codes of one step are made of stands in these codes before, so that runtimes see a quantizer behind what
 * computes it; a pool between them changes none. */
TEST(codes_stand_before_concats) {
    exported_model one = exported_model_make("squeezenet");
    const qs_recipe recipe = recipe_of("int8/bf16");
    const qs_recipe **recipes = recipes_uniform(one.graph, &recipe);
    const qs_export_ranges ranges = {one.graph->nodes, one.channel, NULL};
    qs_export_summary summary;
    char *file;
    const bytes graph = part_of(exported(&one, (qs_export_options){.recipe = recipes, .ranges = &ranges}, &file, &summary), GRAPH, 0);
    int coded = 0;
    for (int n = 0; part_of(graph, NODE, n).at; n++) {
        const bytes concat = part_of(graph, NODE, n);
        if (!is_text(part_of(concat, OP, 0), "Concat")) continue;
        for (int i = 0; i < 2; i++)
            for (int m = 0; m < n; m++) {
                const bytes maker = part_of(graph, NODE, m), made = part_of(maker, 2, 0), read = part_of(concat, NODE_INPUT, i);
                if (made.end - made.at != read.end - read.at || memcmp(made.at, read.at, (size_t)(read.end - read.at)) != 0) continue;
                coded += is_text(part_of(maker, OP, 0), "DequantizeLinear");
            }
    }
    assert_int_equal(nodes_of(graph, "Concat"), 8);
    assert_int_equal(coded, 14); /* the last one is averaged */
    free(recipes);
    free(file);
    exported_model_release(&one);
}

/* Weights [I, O/groups, kh, kw] of a transposed convolution keep that order; each output channel of a group has a step, along axis 1. */
TEST(transposed_convolutions_have_formats) {
    exported_model one = exported_model_make(window_models[0]);
    const qs_recipe recipe = recipe_of("int8/bf16");
    const qs_recipe **recipes = recipes_uniform(one.graph, &recipe);
    const qs_export_ranges ranges = {one.graph->nodes, one.channel, NULL};
    qs_export_summary summary;
    char *file;
    const bytes graph = part_of(exported(&one, (qs_export_options){.recipe = recipes, .ranges = &ranges}, &file, &summary), GRAPH, 0);
    const bytes tensor = initializer(graph, "up.weight_quantized"), codes = part_of(tensor, RAW, 0);
    const int node = qs_graph_find(one.graph, "up");
    const qs_parameter *weights = qs_graph_parameter(one.graph, node, QS_WEIGHTS);
    const int64_t inputs = weights->shape.dim[0], outputs = weights->shape.dim[1], taps = 9;
    qs_tensor_set set;
    assert_int_equal(codes.end - codes.at, inputs * outputs * taps);
    assert_ok(qs_weights_tensors(one.graph, one.trained, one.statistics, &set));
    const float *values = qs_tensor_set_find(&set, "up.weight")->data;
    for (int64_t o = 0; o < outputs; o++) {
        double largest = 0;
        for (int64_t k = 0; k < inputs * taps; k++)
            largest = fmax(largest, fabs((double)values[(k / taps * outputs + o) * taps + k % taps]));
        for (int64_t k = 0; k < inputs * taps; k++) { /* half a step, and what rounds it to fp32 */
            const int64_t at = (k / taps * outputs + o) * taps + k % taps;
            assert_true(fabs((signed char)codes.at[at] * largest / 127 - (double)values[at]) <= largest / 127 * (0.5 + 1e-4));
        }
    }
    assert_int_equal(nodes_of(graph, "ConvTranspose"), 2);
    assert_null(initializer(graph, "up.weight").at);
    qs_tensor_set_release(&set);
    free(recipes);
    free(file);
    exported_model_release(&one);
}

/* Between a convolution and its norm stand tensors that a plan rounds: they do not fold then, and weights are rounded once. */
TEST(assigned_tensors_do_not_fold) {
    exported_model one = exported_model_make("resnet8:width=0.5");
    const int conv = qs_graph_find(one.graph, "stem.conv");
    const qs_tensor_choice choice = {.value = {.format = qs_format_of("bf16")}};
    const qs_tensor_choice **value = calloc((size_t)one.graph->nodes, sizeof *value);
    qs_export_summary summary;
    char *file;
    assert_true(value && conv > 0);
    value[conv] = &choice;
    bytes graph = part_of(exported(&one, (qs_export_options){.fold = true, .value = value}, &file, &summary), GRAPH, 0);
    assert_int_equal(nodes_of(graph, "BatchNormalization"), 1);
    assert_non_null(initializer(graph, "stem.conv.weight").at);
    free(file);
    free(value);
    exported_model_release(&one);
}

/* A float8 format of ONNX is stored as it is; with values whose magnitude nobody knows integers are refused. */
TEST(narrow_formats_raise_the_opset) {
    exported_model one = exported_model_make("lenet5");
    qs_recipe recipe = recipe_of("bf16");
    recipe.forward.src.format = recipe.forward.weights.format = qs_format_of("e4m3fn");
    const qs_recipe **recipes = recipes_uniform(one.graph, &recipe);
    qs_export_options options = {.recipe = recipes};
    qs_export_summary summary;
    char *file, *path = folder_path(test_folder, "refused.onnx");
    const bytes model = exported(&one, options, &file, &summary), graph = part_of(model, GRAPH, 0);
    assert_int_equal(summary.float8, 5);
    assert_int_equal(number_of(part_of(model, OPSET, 0), VERSION), 19);
    assert_int_equal(number_of(model, IR), 9);
    assert_int_equal(number_of(initializer(graph, "conv1.weight_float8"), 2), QS_ONNX_FLOAT8E4M3FN);
    free(file);
    recipe = recipe_of("int8/bf16");
    assert_refused(qs_export_onnx(one.graph, one.trained, one.statistics, &options, path, &summary), QS_MISMATCH,
                   "operator conv1 reads input in int8, whose largest magnitude is not known");
    recipe = recipe_of("int4:shift4");
    options.opset = 20;
    assert_refused(qs_export_onnx(one.graph, one.trained, one.statistics, &options, path, &summary), QS_USAGE, "opset 21 does");
    assert_int_not_equal(access(path, F_OK), 0);
    free(path);
    free(recipes);
    exported_model_release(&one);
}

TEST(refusals) {
    exported_model one = exported_model_make("gpt2:layers=1,hidden=48,length=8,vocab=64");
    qs_graph *decoder = NULL;
    qs_export_summary summary;
    char *path = folder_path(test_folder, "refused.onnx"), *nowhere = folder_path(test_folder, "none/refused.onnx");
    qs_export_options options = {.fold = true, .form = QS_EXPORT_TRAINING};
    assert_refused(qs_export_onnx(one.graph, one.trained, one.statistics, &options, path, &summary), QS_USAGE,
                   "fold in the inference form only");
    options = (qs_export_options){.opset = 24};
    assert_refused(qs_export_onnx(one.graph, one.trained, one.statistics, &options, path, &summary), QS_USAGE, "opset 24: 17 to 23");
    options = (qs_export_options){0};
    assert_refused(qs_export_onnx(one.graph, one.trained, one.statistics, &options, nowhere, &summary), QS_BAD_FILE, "none/refused.onnx");
    assert_ok(qs_graph_decoder(one.graph, 1, 8, &decoder));
    assert_refused(qs_export_onnx(decoder, one.trained, one.statistics, &options, path, &summary), QS_UNSUPPORTED,
                   "no ONNX nodes are known for cached_attention (");
    assert_int_not_equal(access(path, F_OK), 0);
    qs_graph_release(decoder);
    free(path);
    free(nowhere);
    exported_model_release(&one);
}

TEST_MAIN_WITH(set_up, tear_down, weights_keep_names_and_values, a_batch_of_any_size_goes_in, forms_differ_in_norms_and_dropout,
               values_may_lie_beside, equal_runs_give_equal_bytes, every_model_is_written, integers_stand_as_onnx_runtime_wants_them,
               codes_stand_before_concats, transposed_convolutions_have_formats, assigned_tensors_do_not_fold,
               narrow_formats_raise_the_opset, refusals)
