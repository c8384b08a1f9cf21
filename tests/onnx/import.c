// SPDX-License-Identifier: Apache-2.0
// labels: medium
// links: train checkpoint
/* Models of ONNX files give what ONNX Runtime gives for them (tests/golden/make_onnx.py), to 1e-4 of the largest number: small ones that
 * PyTorch exported (tests/golden/make_exports.py), and those at hand from elsewhere. What they became is said; what cannot be is refused.
 * QSYNC_ONNX_GOLDEN names another list of golden outputs, and QSYNC_ONNX_ROOT the folder of its models. */
#include "kit/outputs.h"

#include "imported.h"

#include <stdlib.h>

static const double bound = 1e-4; /* sums of fp32 in another order: far less; an operator that is another one: far more */

static int model_compare(const char *root, const json_t *row) {
    char text[2048];
    qs_graph *graph = NULL;
    int64_t count = 0;
    const char *model = json_string_value(json_object_get(row, "model"));
    snprintf(text, sizeof text, "%s/%s", root, model);
    if (qs_model_open(text, NULL, &graph) != QS_OK) {
        print_error("%s: %s\n", model, qs_message());
        return 1;
    }
    float *values = outputs_of(graph, text, "cpu", &count);
    const double distance = outputs_distance(row, count, values);
    print_message("%s: %d nodes, %.3g\n", model, graph->nodes, distance);
    if (!(distance < bound)) print_error("%s differs by %.3g\n", model, distance);
    free(values);
    qs_graph_release(graph);
    return !(distance < bound);
}

static void list_compare(const char *list, const char *root) {
    int failures = 0;
    json_error_t error;
    json_t *rows = json_load_file(list, 0, &error);
    if (!rows) fail_msg("%s: %s", list, error.text);
    for (size_t i = 0; i < json_array_size(rows); i++)
        failures += model_compare(root, json_array_get(rows, i));
    json_decref(rows);
    assert_int_equal(failures, 0);
}

TEST(exports_of_pytorch) {
    char list[1024], root[1024];
    snprintf(list, sizeof list, "%s/tests/golden/onnx/exports.json", getenv("QS_SOURCE"));
    snprintf(root, sizeof root, "%s/tests/golden", getenv("QS_SOURCE"));
    list_compare(list, root);
}

/* The folder of models from elsewhere; a test without it is skipped. */
static const char *models(void) {
    static char root[1024];
    const char *shared = getenv("QS_TEST_SHARED");
    snprintf(root, sizeof root, "%s/data/onnx/models", shared ? shared : ".");
    FILE *there = fopen(root, "r");
    if (!there) skip();
    fclose(there);
    return root;
}

TEST(models_at_hand) {
    char list[1024];
    snprintf(list, sizeof list, "%s/tests/golden/onnx/models.json", getenv("QS_SOURCE"));
    list_compare(list, models());
}

TEST(another_list) {
    if (!getenv("QSYNC_ONNX_GOLDEN")) skip();
    list_compare(getenv("QSYNC_ONNX_GOLDEN"), getenv("QSYNC_ONNX_ROOT"));
}

/* Attention with its masks, normalisations and activations that exporters wrote as many nodes; nothing is moved in memory. */
TEST(what_nodes_became) {
    qs_onnx_imported bert = imported("bert-tokens.onnx:length=8"), gpt2 = imported("gpt2-tokens.onnx:length=8"), vit = imported("vit.onnx");
    assert_int_equal(operators_of(&bert, "attention"), 2);
    assert_int_equal(operators_of(&bert, "gelu"), 3);
    assert_int_equal(operators_of(&bert, "layer_norm"), 6);
    assert_int_equal(operators_of(&bert, "permute"), 0);
    assert_int_equal(bert.graph.inputs, 3);
    assert_string_equal(bert.graph.input[0].name, "input_ids"); /* in the order of data sets: ids, types, which positions count */
    assert_string_equal(bert.graph.input[2].name, "attention_mask");
    assert_true(has_tensor(&bert, "model.bert.encoder.layer.0.attention.self.query.bias"));
    assert_int_equal(operators_of(&gpt2, "attention"), 2);
    assert_int_equal(operators_of(&gpt2, "gelu"), 2);
    assert_int_equal(operators_of(&gpt2, "embedding"), 1);
    int tied = 0, causal = 0, kept = 0;
    for (int i = 0; i < gpt2.graph.operators; i++) {
        const qs_graph_operator *row = &gpt2.graph.operator_[i];
        tied += row->weights_of[0] != '\0';
        for (int k = 0; k < row->settings; k++)
            causal += strcmp(row->setting[k].name, "causal") == 0;
        kept += strcmp(row->op, "attention") == 0 && row->inputs == 4;
    }
    assert_int_equal(tied, 1);
    assert_int_equal(causal, 2);
    assert_int_equal(kept, 2);
    assert_int_equal(gpt2.graph.target.kind, QS_TARGET_CLASS_PER_POSITION);
    assert_int_equal(operators_of(&vit, "class_token"), 1);
    assert_int_equal(operators_of(&vit, "attention"), 2); /* whose exporter put the batch behind the positions */
    assert_int_equal(vit.graph.input[0].type, QS_INPUT_U8);
    qs_onnx_imported_release(&bert);
    qs_onnx_imported_release(&gpt2);
    qs_onnx_imported_release(&vit);
}

/* The one row of RoBERTa's table of token types stands at all positions, and stays the parameter that the file has. */
TEST(a_table_of_one_row) {
    qs_onnx_imported roberta = imported("roberta-class.onnx:length=8");
    const qs_named_tensor *types = tensor_that(&roberta, "token_type_embeddings.weight");
    const qs_shape one_row = qs_shape_of(2, (int64_t)1, (int64_t)16);
    assert_true(qs_shape_equal(&types->tensor.shape, &one_row));
    qs_onnx_imported_release(&roberta);
}

/* A factor of each position of an image, which has as many positions as channels, is none of channels. */
TEST(gates_of_positions) {
    const int64_t one = 1, both[] = {2, 3};
    bytes graph = {0}, nodes[4] = {node_of("ReduceMean", "x", "mean"), node_of("Sigmoid", "mean", "factor"),
                                   node_of("Mul", "x,factor", "gated"), node_of("ReduceMean", "gated", "y")};
    put_message(&nodes[0], 5, attribute_ints("axes", 1, &one));
    put_message(&nodes[3], 5, attribute_ints("axes", 2, both));
    for (int i = 0; i < 4; i++)
        put_message(&graph, 1, nodes[i]);
    put_text(&graph, 2, "graph");
    put_message(&graph, 11, value_of("x", QS_ONNX_FLOAT, 4, (const int64_t[]){-1, 4, 2, 2}));
    put_message(&graph, 12, value_of("y", QS_ONNX_FLOAT, 4, (const int64_t[]){-1, 4, 1, 1}));
    qs_onnx_imported out;
    assert_ok(imported_bytes(model_of(graph, 8, 13), &out));
    const qs_shape positions = qs_shape_of(4, (int64_t)QS_GRAPH_BATCH, (int64_t)1, (int64_t)2, (int64_t)2);
    int gates = 0;
    for (int i = 0; i < out.graph.operators; i++)
        for (int k = 0; strcmp(out.graph.operator_[i].op, "gate") == 0 && k < i; k++)
            if (strcmp(out.graph.operator_[k].name, out.graph.operator_[i].input[1]) == 0)
                gates += qs_shape_equal(&out.graph.operator_[k].shape, &positions);
    assert_int_equal(gates, 1);
    qs_onnx_imported_release(&out);
}

/* Numbers of a file whose products no integer holds. */
TEST(numbers_at_their_ends) {
    static const float weights[4 * 4 * 3 * 3] = {0};
    const int64_t few[] = {-1, 4, 8, 8}, many[] = {-1, 4, (int64_t)1 << 31, (int64_t)1 << 31}, extent[] = {4, 4, 3, 3};
    for (int huge = 0; huge < 2; huge++) {
        bytes graph = {0}, node = node_of(huge ? "Conv" : "ConvTranspose", "x,w", "y");
        if (!huge) put_message(&node, 5, attribute_int("group", (int64_t)1 << 62));
        put_message(&graph, 1, node);
        put_text(&graph, 2, "graph");
        put_message(&graph, 5, tensor_of("w", QS_ONNX_FLOAT, 4, extent, weights, sizeof weights));
        put_message(&graph, 11, value_of("x", QS_ONNX_FLOAT, 4, huge ? many : few));
        put_message(&graph, 12, value_of("y", QS_ONNX_FLOAT, 0, NULL));
        qs_onnx_imported out;
        assert_refused(imported_bytes(model_of(graph, 8, 13), &out), QS_UNSUPPORTED,
                       huge ? "elements a sample: at most 2^40" : "weights of 4 in 4611686018427387904 groups");
        qs_onnx_imported_release(&out);
    }
    /* A few bytes that say 2^30 numbers. */
    const int64_t filled[] = {1 << 15, 1 << 15};
    bytes graph = {0};
    put_message(&graph, 1, node_of("ConstantOfShape", "extents", "filled"));
    put_message(&graph, 1, node_of("Div", "x,filled", "y"));
    put_text(&graph, 2, "graph");
    put_message(&graph, 5, integers_of("extents", 2, filled));
    put_message(&graph, 11, value_of("x", QS_ONNX_FLOAT, 3, (const int64_t[]){-1, 1, 1}));
    put_message(&graph, 12, value_of("y", QS_ONNX_FLOAT, 0, NULL));
    qs_onnx_imported out;
    assert_refused(imported_bytes(model_of(graph, 8, 13), &out), QS_UNSUPPORTED, "filled with 1073741824 equal numbers: at most 2^28");
    qs_onnx_imported_release(&out);
}

/* The batch three times, of one element: each of the three extents of what is filled is it, and 1 where one sample is computed. */
TEST(a_repeated_extent) {
    const int64_t zero = 0, one = 1, three = 3;
    bytes graph = {0}, fill = node_of("ConstantOfShape", "extents", "filled"), mean = node_of("ReduceMean", "filled", "number");
    const float number = 7;
    bytes value = {0};
    put_text(&value, 1, "value");
    put_message(&value, 5, floats_of("", 1, &number));
    put_int(&value, 20, QS_ONNX_ATTRIBUTE_TENSOR);
    put_message(&fill, 5, value);
    put_message(&mean, 5, attribute_int("keepdims", 0));
    put_message(&graph, 1, node_of("Shape", "x", "shape"));
    put_message(&graph, 1, node_of("Slice", "shape,zero,one", "batch"));
    put_message(&graph, 1, node_of("Expand", "batch,three", "extents"));
    put_message(&graph, 1, fill);
    put_message(&graph, 1, mean);
    put_message(&graph, 1, node_of("Add", "x,number", "y"));
    put_text(&graph, 2, "graph");
    put_message(&graph, 5, integers_of("zero", 1, &zero));
    put_message(&graph, 5, integers_of("one", 1, &one));
    put_message(&graph, 5, integers_of("three", 1, &three));
    put_message(&graph, 11, value_of("x", QS_ONNX_FLOAT, 2, (const int64_t[]){-1, 4}));
    put_message(&graph, 12, value_of("y", QS_ONNX_FLOAT, 2, (const int64_t[]){-1, 4}));
    qs_onnx_imported out;
    assert_ok(imported_bytes(model_of(graph, 8, 13), &out));
    assert_int_equal(operators_of(&out, "affine"), 1);
    assert_string_equal(out.graph.operator_[0].setting[0].name, "term");
    assert_float_equal(out.graph.operator_[0].setting[0].value, 7, 0);
    qs_onnx_imported_release(&out);
}

/* Shares times a mask are the shares where the mask says what is seen; where it says what is hidden nothing is left of them. */
TEST(masks_of_shares) {
    const int64_t one = 1, none = 0;
    const float low = -1e30F;
    for (int turned = 0; turned < 2; turned++) {
        bytes graph = {0}, nodes[] = {node_of("Transpose", "x", "keys"),
                                      node_of("MatMul", "x,keys", "scores"),
                                      node_of("Unsqueeze", "counts,one", "rows"),
                                      node_of("Equal", turned ? "rows,none" : "rows,one", "mask"),
                                      node_of("Where", turned ? "mask,low,scores" : "mask,scores,low", "hidden"),
                                      node_of("Softmax", "hidden", "shares"),
                                      node_of("Cast", "mask", "factors"),
                                      node_of("Mul", "shares,factors", "seen"),
                                      node_of("MatMul", "seen,x", "y")};
        put_message(&nodes[0], 5, attribute_ints("perm", 3, (const int64_t[]){0, 2, 1}));
        put_message(&nodes[6], 5, attribute_int("to", QS_ONNX_FLOAT));
        for (int i = 0; i < 9; i++)
            put_message(&graph, 1, nodes[i]);
        put_text(&graph, 2, "graph");
        put_message(&graph, 5, integers_of("one", 1, &one));
        put_message(&graph, 5, integers_of("none", 1, &none));
        put_message(&graph, 5, floats_of("low", 1, &low));
        put_message(&graph, 11, value_of("x", QS_ONNX_FLOAT, 3, (const int64_t[]){-1, 4, 8}));
        put_message(&graph, 11, value_of("counts", QS_ONNX_INT64, 2, (const int64_t[]){-1, 4}));
        put_message(&graph, 12, value_of("y", QS_ONNX_FLOAT, 3, (const int64_t[]){-1, 4, 8}));
        qs_onnx_imported out;
        const qs_status status = imported_bytes(model_of(graph, 8, 13), &out);
        if (turned)
            assert_refused(status, QS_UNSUPPORTED, "Mul");
        else
            assert_ok(status);
        qs_onnx_imported_release(&out);
    }
}

/* Ids that read rows of a table, and pick positions of a value as well. */
TEST(ids_of_a_value) {
    static const float table[8] = {0};
    const int64_t extent[] = {4, 2};
    bytes graph = {0}, picks = node_of("Gather", "rows,ids", "y");
    put_message(&picks, 5, attribute_int("axis", 1));
    put_message(&graph, 1, node_of("Gather", "table,ids", "rows"));
    put_message(&graph, 1, picks);
    put_text(&graph, 2, "graph");
    put_message(&graph, 5, tensor_of("table", QS_ONNX_FLOAT, 2, extent, table, sizeof table));
    put_message(&graph, 11, value_of("ids", QS_ONNX_INT64, 2, (const int64_t[]){-1, 4}));
    put_message(&graph, 12, value_of("y", QS_ONNX_FLOAT, 4, (const int64_t[]){-1, -1, 4, 2}));
    qs_onnx_imported out;
    assert_refused(imported_bytes(model_of(graph, 8, 13), &out), QS_UNSUPPORTED, "by ids that are not numbers of the file");
    qs_onnx_imported_release(&out);
}

/* An LSTM of three hidden values over [N,4,2], batch first, with an attribute (NULL: none) of that number. */
static qs_status imported_lstm(const char *inputs, const char *outputs, const char *attribute, int64_t number, qs_onnx_imported *out) {
    static const float zeros[12 * 3] = {0}, ones[3] = {1, 1, 1};
    bytes graph = {0}, lstm = node_of("LSTM", inputs, outputs);
    put_message(&lstm, 5, attribute_int("layout", 1));
    if (attribute) put_message(&lstm, 5, attribute_int(attribute, number));
    put_message(&graph, 1, lstm);
    put_text(&graph, 2, "graph");
    put_message(&graph, 5, tensor_of("w", QS_ONNX_FLOAT, 3, (const int64_t[]){1, 12, 2}, zeros, 24 * sizeof *zeros));
    put_message(&graph, 5, tensor_of("r", QS_ONNX_FLOAT, 3, (const int64_t[]){1, 12, 3}, zeros, 36 * sizeof *zeros));
    put_message(&graph, 5, tensor_of("b", QS_ONNX_FLOAT, 2, (const int64_t[]){1, 24}, zeros, 24 * sizeof *zeros));
    put_message(&graph, 5, tensor_of("none", QS_ONNX_FLOAT, 3, (const int64_t[]){1, 1, 3}, zeros, 3 * sizeof *zeros));
    put_message(&graph, 5, tensor_of("ones", QS_ONNX_FLOAT, 3, (const int64_t[]){1, 1, 3}, ones, sizeof ones));
    put_message(&graph, 5, tensor_of("peepholes", QS_ONNX_FLOAT, 2, (const int64_t[]){1, 9}, zeros, 9 * sizeof *zeros));
    put_message(&graph, 5, tensor_of("whole", QS_ONNX_INT32, 1, (const int64_t[]){1}, (const int32_t[]){4}, 4));
    put_message(&graph, 5, tensor_of("short", QS_ONNX_INT32, 1, (const int64_t[]){1}, (const int32_t[]){3}, 4));
    put_message(&graph, 11, value_of("x", QS_ONNX_FLOAT, 3, (const int64_t[]){-1, 4, 2}));
    put_message(&graph, 12, value_of("y", QS_ONNX_FLOAT, 0, NULL));
    return imported_bytes(model_of(graph, 8, 14), out);
}

TEST(recurrent_networks) {
    static const struct {
        const char *inputs, *outputs, *attribute;
        int64_t number;
        const char *why;
    } refused[] = {{"x,w,r,b,short", "y", NULL, 0, "lengths by sample"},
                   {"x,w,r,b,,ones", "y", NULL, 0, "first state that is not 0"},
                   {"x,w,r,b,,none,ones", "y", NULL, 0, "first state that is not 0"},
                   {"x,w,r,b,,,,peepholes", "y", NULL, 0, "peepholes"},
                   {"x,w,r,b", "y", "input_forget", 1, "coupled"},
                   {"x,w,r,b", "z,,y", NULL, 0, "last cell state"},
                   {"x,w,w,b", "y", NULL, 0, "of other extents"},
                   {"x,w,r,r", "y", NULL, 0, "of other extents"}};
    qs_onnx_imported out;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_refused(imported_lstm(refused[i].inputs, refused[i].outputs, refused[i].attribute, refused[i].number, &out), QS_UNSUPPORTED,
                       refused[i].why);
        qs_onnx_imported_release(&out);
    }
    assert_ok(imported_lstm("x,w,r,b,whole,none,none", "z,y", NULL, 0, &out)); /* the last state alone */
    assert_int_equal(operators_of(&out, "recurrence"), 1);
    assert_int_equal(operators_of(&out, "position"), 1);
    assert_int_equal(operators_of(&out, "permute"), 0);
    assert_int_equal(out.graph.target.classes, 3);
    assert_true(has_tensor(&out, "w") && has_tensor(&out, "r") && has_tensor(&out, "b"));
    qs_onnx_imported_release(&out);
    qs_onnx_imported lstm = imported("lstm.onnx:length=8"); /* of two layers and directions, from 285 nodes */
    assert_int_equal(operators_of(&lstm, "recurrence"), 4);
    assert_int_equal(operators_of(&lstm, "permute"), 0);
    assert_int_equal(lstm.weights.count, 19);
    assert_true(has_tensor(&lstm, "model.net.weight_hh_l1_reverse") && has_tensor(&lstm, "model.net.bias_ih_l0"));
    qs_onnx_imported_release(&lstm);
}

TEST(a_span_of_two_outputs) {
    qs_onnx_imported span = imported("bert-span.onnx:length=8");
    assert_int_equal(span.graph.target.kind, QS_TARGET_SPAN);
    assert_int_equal(span.graph.target.extent, 8);
    qs_onnx_imported_release(&span);
}

/* A file that leaves the length open is one model at every length: that of 12 positions, cut to 7, is the one that is imported at 7. */
TEST(lengths_stay_open) {
    static const char *const names[] = {"bert-span", "bert-tokens", "roberta-class", "distilbert-class", "gpt2-tokens", "lstm",
                                        "gru",       "rnn",         "lstm-folded",   "llama-new",        "llama-old"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[1024], text[1100], cut_signature[32], short_signature[32];
        qs_graph *graph = NULL, *cut = NULL, *shorter = NULL, *of_set = NULL;
        snprintf(path, sizeof path, "%s/tests/golden/onnx/%s.onnx", getenv("QS_SOURCE"), names[i]);
        snprintf(text, sizeof text, "%s:length=12", path); /* of RoBERTa's 14 rows the first two are no positions */
        assert_ok(qs_model_open(text, NULL, &graph));
        snprintf(text, sizeof text, "%s:length=7", path);
        assert_int_equal(qs_samples_length(&graph->samples), 12);
        assert_ok(qs_model_open(text, NULL, &shorter));
        assert_int_equal(qs_samples_length(&shorter->samples), 7);
        if (qs_graph_of_length(graph, 7, &cut) != QS_OK) fail_msg("%s: %s", names[i], qs_message());
        assert_string_equal(qs_graph_signature(cut, cut_signature), qs_graph_signature(shorter, short_signature));
        assert_ok(qs_model_open(path, &shorter->samples, &of_set)); /* samples say the length where the text does not */
        assert_string_equal(qs_graph_signature(of_set, cut_signature), short_signature);
        qs_graph_release(graph);
        qs_graph_release(cut);
        qs_graph_release(shorter);
        qs_graph_release(of_set);
    }
}

/* Numbers that positions have by themselves tie a model to one length, and the import says so. */
TEST(lengths_that_are_tied) {
    static const float table[8] = {0};
    const int64_t extent[] = {4, 2}, one = 1;
    bytes graph = {0}, nodes[4] = {node_of("Gather", "table,ids", "rows"), node_of("Flatten", "rows", "flat"),
                                   node_of("ReduceSum", "flat", "sum"), node_of("Concat", "flat,sum", "y")};
    put_message(&nodes[2], 5, attribute_ints("axes", 1, &one));
    put_message(&nodes[3], 5, attribute_int("axis", 1));
    for (int i = 0; i < 4; i++)
        put_message(&graph, 1, nodes[i]);
    put_text(&graph, 2, "graph");
    put_message(&graph, 5, tensor_of("table", QS_ONNX_FLOAT, 2, extent, table, sizeof table));
    put_message(&graph, 11, value_of("ids", QS_ONNX_INT64, 2, (const int64_t[]){-1, -1}));
    put_message(&graph, 12, value_of("y", QS_ONNX_FLOAT, 2, (const int64_t[]){-1, -1}));
    qs_onnx_imported out;
    assert_ok(imported_bytes(model_of(graph, 8, 11), &out));
    bool said = false;
    for (int i = 0; i < out.notes; i++)
        said = said || strstr(out.note[i], "at no other length it is the same model: how much is learned depends on it");
    if (!said)
        for (int i = 0; i < out.notes; i++)
            print_error("%s\n", out.note[i]);
    assert_true(said && out.graph.input[0].length == 0 && out.graph.input[0].shape.dim[0] == 128);
    qs_onnx_imported_release(&out);
}

TEST(refusals) {
    char path[1024], text[2048];
    qs_onnx_imported out;
    snprintf(path, sizeof path, "%s/tests/golden/onnx/vit.onnx", getenv("QS_SOURCE"));
    snprintf(text, sizeof text, "%s:output=nothing", path);
    assert_refused(qs_onnx_import(text, 0, false, &out), QS_USAGE, "the model's outputs are");
    qs_onnx_imported_release(&out);
    snprintf(text, sizeof text, "%s:length=0", path);
    assert_refused(qs_onnx_import(text, 0, false, &out), QS_USAGE, "a whole number from 1 on");
    qs_onnx_imported_release(&out);
    assert_refused(qs_onnx_import("no-such.onnx", 0, false, &out), QS_BAD_FILE, "no-such.onnx");
    qs_onnx_imported_release(&out);
    snprintf(text, sizeof text, "%s/bert-dummy-2layer-opset12.onnx:length=8", models());
    assert_refused(qs_onnx_import(text, 0, false, &out), QS_UNSUPPORTED, "MatMul: it sums over samples"); /* attention along the batch */
    qs_onnx_imported_release(&out);
}

/* Whatever a byte of a file becomes, or wherever it ends: a model, or one line that says why not. */
TEST(damaged_files) {
    static const char *const names[] = {"gated.onnx",         "gpt2-tokens.onnx:length=8", "swin.onnx",
                                        "lstm.onnx:length=8", "llama-old.onnx:length=8",   "quantized.onnx"};
    enum { CHANGES = 400 };
    for (size_t m = 0; m < sizeof names / sizeof *names; m++) {
        char path[1024], text[1100], changed[] = "damaged-XXXXXX.onnx", *data;
        const int file_length = (int)strcspn(names[m], ":");
        size_t size;
        snprintf(path, sizeof path, "%s/tests/golden/onnx/%.*s", getenv("QS_SOURCE"), file_length, names[m]);
        assert_ok(qs_file_read(path, 1 << 24, &data, &size));
        const int file = mkstemps(changed, 5);
        assert_true(file >= 0 && close(file) == 0);
        snprintf(text, sizeof text, "%s%s", changed, names[m] + file_length);
        for (int i = 0; i < CHANGES; i++) {
            qs_onnx_imported out;
            const uint64_t key = qs_random_key(22, m, (uint64_t)i, 0);
            /* Half of them in the last quarter, where the names of inputs and outputs stand. */
            const size_t at = (size_t)(key % size) / (i % 2 ? 4 : 1) + (i % 2 ? size - size / 4 : 0);
            const char was = data[at % size];
            data[at % size] = (char)(key >> 40);
            const size_t length = i % 8 == 7 ? at % size : size;
            FILE *to = fopen(changed, "wb");
            assert_non_null(to);
            assert_int_equal(fwrite(data, 1, length, to), length);
            assert_int_equal(fclose(to), 0);
            if (qs_onnx_import(text, 0, true, &out) != QS_OK) assert_true(qs_message()[0] && !strchr(qs_message(), '\n'));
            qs_onnx_imported_release(&out);
            data[at % size] = was;
        }
        unlink(changed);
        free(data);
    }
}

TEST_MAIN(exports_of_pytorch, models_at_hand, another_list, what_nodes_became, a_table_of_one_row, gates_of_positions, a_repeated_extent,
          masks_of_shares, numbers_at_their_ends, ids_of_a_value, recurrent_networks, a_span_of_two_outputs, lengths_stay_open,
          lengths_that_are_tied, refusals, damaged_files)
