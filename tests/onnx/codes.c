// SPDX-License-Identifier: Apache-2.0
// labels: short
// links: train checkpoint
/* Files with QuantizeLinear and DequantizeLinear: values lose the pair, and keep a relu that it stood for; weights are what their codes
 * stand for, under the name of what was put into codes; what computes on codes, or finds steps at run time, is refused by its name. That
 * whole files in codes give what they should, test_onnx_import (of ONNX Runtime's quantizer) and test_export_codes (of our own export)
 * say. */
#include "imported.h"

/* x, a product with 4 x 4 weights that are stored in codes with a step for each column and zero points. */
static const int8_t weights[16] = {0, 1, 2, 3, -1, -2, -3, -4, 127, -128, 5, 6, 7, 8, 9, -10};
static const float steps[4] = {0.1f, 0.013f, 1e-3f, 7.0f};
static const int8_t zeros[4] = {0, 3, -128, 127};

static bytes graph_in_codes(void) {
    const int64_t extent[] = {4, 4}, four = 4;
    bytes graph = graph_begin(), up = node_of("DequantizeLinear", "fc_quantized,steps,zeros", "fc_DequantizeLinear_Output");
    put_message(&up, 5, attribute_int("axis", 1));
    put_message(&graph, 5, tensor_of("fc_quantized", QS_ONNX_INT8, 2, extent, weights, sizeof weights));
    put_message(&graph, 5, floats_of("steps", 4, steps));
    put_message(&graph, 5, tensor_of("zeros", QS_ONNX_INT8, 1, &four, zeros, sizeof zeros));
    put_message(&graph, 1, up);
    put_message(&graph, 1, node_of("MatMul", "x,fc_DequantizeLinear_Output", "product"));
    return graph;
}

/* A pair of a value, with one step and one zero point each. */
static void put_pair(bytes *graph, const char *in, const char *out, float step, int type, uint8_t zero, float step_up) {
    char name[64], other[64], read[200];
    snprintf(name, sizeof name, "%s.zero", out);
    put_message(graph, 5, tensor_of(name, type, 0, NULL, &zero, 1));
    snprintf(name, sizeof name, "%s.step", out);
    put_message(graph, 5, tensor_of(name, QS_ONNX_FLOAT, 0, NULL, &step, sizeof step));
    snprintf(other, sizeof other, "%s.up", out);
    put_message(graph, 5, tensor_of(other, QS_ONNX_FLOAT, 0, NULL, &step_up, sizeof step_up));
    snprintf(read, sizeof read, "%s,%s.step,%s.zero", in, out, out);
    snprintf(name, sizeof name, "%s.codes", out);
    put_message(graph, 1, node_of("QuantizeLinear", read, name));
    snprintf(read, sizeof read, "%s.codes,%s.up,%s.zero", out, out, out);
    put_message(graph, 1, node_of("DequantizeLinear", read, out));
}

static double setting_of(const qs_onnx_imported *one, const char *op, const char *name) {
    for (int i = 0; i < one->graph.operators; i++)
        for (int k = 0; strcmp(one->graph.operator_[i].op, op) == 0 && k < one->graph.operator_[i].settings; k++)
            if (strcmp(one->graph.operator_[i].setting[k].name, name) == 0) return one->graph.operator_[i].setting[k].value;
    return 0;
}

TEST(weights_are_what_codes_stand_for) {
    bytes graph = graph_in_codes();
    put_pair(&graph, "product", "y", 0.25f, QS_ONNX_INT8, 0, 0.25f);
    qs_onnx_imported out;
    assert_ok(imported_bytes(model_of(graph, 8, 13), &out));
    const qs_named_tensor *fc = tensor_that(&out, "fc");
    assert_string_equal(fc->name, "fc");
    assert_string_equal(fc->tensor.format->name, "fp32");
    for (int i = 0; i < 16; i++) {
        const float expected = (float)(weights[i] - zeros[i % 4]) * steps[i % 4];
        assert_memory_equal(&((const float *)fc->tensor.data)[i], &expected, sizeof expected);
    }
    assert_int_equal(out.graph.operators, 1);
    assert_false(out.graph.operator_[0].origin[0].constant); /* it trains */
    assert_true(has_note(&out, "1 tensors are stored in codes"));
    assert_true(has_note(&out, "1 pairs of QuantizeLinear and DequantizeLinear are left out"));
    qs_onnx_imported_release(&out);
}

/* Quantizers leave out a relu, or a clip at 6, before codes that begin at 0. */
TEST(codes_that_begin_at_zero) {
    static const struct {
        float step;
        int type;
        uint8_t zero;
        int relus;
        double ceiling;
    } list[] = {{0.02f, QS_ONNX_UINT8, 0, 1, 0},
                {0.02f, QS_ONNX_UINT8, 1, 0, 0},
                {0.02f, QS_ONNX_INT8, 0x80, 1, 0},
                {0.02f, QS_ONNX_INT8, 0, 0, 0},
                {6.0f / 255, QS_ONNX_UINT8, 0, 1, 6}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        bytes graph = graph_in_codes();
        put_pair(&graph, "product", "y", list[i].step, list[i].type, list[i].zero, list[i].step);
        qs_onnx_imported out;
        assert_ok(imported_bytes(model_of(graph, 8, 13), &out));
        assert_int_equal(operators_of(&out, "relu"), list[i].relus);
        assert_float_equal(setting_of(&out, "relu", "ceiling"), list[i].ceiling, 0);
        qs_onnx_imported_release(&out);
    }
    bytes graph = graph_in_codes(); /* a sigmoid has no need of one, nor has what only moves it */
    put_message(&graph, 1, node_of("Sigmoid", "product", "gate"));
    put_pair(&graph, "gate", "rounded", 0.004f, QS_ONNX_UINT8, 0, 0.004f);
    put_pair(&graph, "rounded", "y", 0.004f, QS_ONNX_UINT8, 0, 0.004f);
    qs_onnx_imported out;
    assert_ok(imported_bytes(model_of(graph, 8, 13), &out));
    assert_int_equal(operators_of(&out, "relu"), 0);
    assert_int_equal(out.graph.operators, 2);
    qs_onnx_imported_release(&out);
}

/* Nodes that move codes stand between; what a pair separates is joined as without it. */
TEST(codes_that_are_moved) {
    const float step = 0.02f;
    const uint8_t zero = 3;
    bytes graph = graph_in_codes();
    put_message(&graph, 5, tensor_of("step", QS_ONNX_FLOAT, 0, NULL, &step, sizeof step));
    put_message(&graph, 5, tensor_of("zero", QS_ONNX_UINT8, 0, NULL, &zero, 1));
    put_message(&graph, 5, integers_of("flat", 2, (const int64_t[]){-1, 4}));
    put_message(&graph, 5, floats_of("bias", 4, steps));
    put_message(&graph, 1, node_of("QuantizeLinear", "product,step,zero", "codes"));
    put_message(&graph, 1, node_of("Reshape", "codes,flat", "moved"));
    put_message(&graph, 1, node_of("DequantizeLinear", "moved,step,zero", "rounded"));
    put_message(&graph, 1, node_of("Add", "rounded,bias", "y"));
    qs_onnx_imported out;
    assert_ok(imported_bytes(model_of(graph, 8, 13), &out));
    assert_int_equal(out.graph.operators, 1);
    assert_true(out.graph.operator_[0].bias);
    qs_onnx_imported_release(&out);
}

/* An axis is not asked of codes of one step, and counts as no work: nodes that read the same codes are computed each. */
TEST(codes_that_two_read) {
    static const int8_t many[2 * 16384];
    const int64_t extent[] = {2, 16384}, far = INT64_C(1) << 40;
    const float step = 0.5f;
    bytes graph = graph_in_codes();
    put_message(&graph, 5, tensor_of("many", QS_ONNX_INT8, 2, extent, many, sizeof many));
    put_message(&graph, 5, tensor_of("step", QS_ONNX_FLOAT, 0, NULL, &step, sizeof step));
    put_message(&graph, 1, node_of("DequantizeLinear", "many,step", "once")); /* along axis 1, which is long */
    put_message(&graph, 1, node_of("DequantizeLinear", "many,step", "again"));
    bytes up = node_of("DequantizeLinear", "many,step", "further");
    put_message(&up, 5, attribute_int("axis", far));
    put_message(&graph, 1, up);
    put_message(&graph, 1, node_of("Identity", "product", "y"));
    bytes file = model_of(graph, 8, 13);
    qs_onnx_model model;
    assert_ok(qs_onnx_open_bytes("twice", file.data, file.count, &model));
    assert_ok(qs_onnx_fold(&model, NULL));
    int found = 0;
    for (int v = 0; v < model.graph.values; v++) {
        const qs_onnx_value *value = &model.graph.value[v];
        if (strcmp(value->name, "once") != 0 && strcmp(value->name, "again") != 0 && strcmp(value->name, "further") != 0) continue;
        assert_non_null(value->constant);
        assert_int_equal(value->constant->count, 2 * 16384);
        found++;
    }
    assert_int_equal(found, 3);
    qs_onnx_release(&model);
    free(file.data);
}

/* Weights have one name whether folding computes a pair of theirs or, where the file has too much to compute, the import does. */
TEST(names_do_not_depend_on_who_computes) {
    for (int large = 0; large < 2; large++) {
        const float values[16] = {1, -2, 3}, step = 0.5f, ends[] = {0, 1 << 24, 1};
        const int8_t zero = 0;
        bytes graph = graph_begin();
        for (int i = 0; i < 3 && large; i++)
            put_message(&graph, 5, tensor_of(i == 0 ? "first" : i == 1 ? "end" : "by", QS_ONNX_FLOAT, 0, NULL, &ends[i], sizeof *ends));
        if (large) {
            put_message(&graph, 1, node_of("Range", "first,end,by", "many"));
            put_message(&graph, 1, node_of("Neg", "many", "negative"));
            put_message(&graph, 1, node_of("Neg", "negative", "positive"));
        }
        put_message(&graph, 5, tensor_of("w", QS_ONNX_FLOAT, 2, (const int64_t[]){4, 4}, values, sizeof values));
        put_message(&graph, 5, tensor_of("step", QS_ONNX_FLOAT, 0, NULL, &step, sizeof step));
        put_message(&graph, 5, tensor_of("zero", QS_ONNX_INT8, 0, NULL, &zero, 1));
        put_message(&graph, 1, node_of("QuantizeLinear", "w,step,zero", "w_QuantizeLinear_Output"));
        put_message(&graph, 1, node_of("DequantizeLinear", "w_QuantizeLinear_Output,step,zero", "w_DequantizeLinear_Output"));
        put_message(&graph, 1, node_of("MatMul", "x,w_DequantizeLinear_Output", "y"));
        qs_onnx_imported out;
        assert_ok(imported_bytes(model_of(graph, 8, 13), &out));
        assert_int_equal(out.weights.count, 1);
        assert_string_equal(out.weights.tensors[0].name, "w");
        assert_false(out.graph.operator_[0].origin[0].constant);
        qs_onnx_imported_release(&out);
    }
}

/* ONNX Runtime's own QuantizeLinear and DequantizeLinear mean the same; operators of others that are called so may mean anything. */
TEST(domains) {
    static const char *const domains[] = {"com.microsoft", "org.example"};
    for (int i = 0; i < 2; i++) {
        const float step = 0.5f;
        const int8_t zero = 0;
        bytes graph = graph_in_codes(), down = node_of("QuantizeLinear", "product,step,zero", "codes"),
              up = node_of("DequantizeLinear", "codes,step,zero", "y");
        put_message(&graph, 5, tensor_of("step", QS_ONNX_FLOAT, 0, NULL, &step, sizeof step));
        put_message(&graph, 5, tensor_of("zero", QS_ONNX_INT8, 0, NULL, &zero, 1));
        put_text(&down, 7, domains[i]);
        put_text(&up, 7, domains[i]);
        put_message(&graph, 1, down);
        put_message(&graph, 1, up);
        qs_onnx_imported out;
        bytes file = model_of(graph, 8, 13), version = {0};
        put_text(&version, 1, domains[i]);
        put_int(&version, 2, 1);
        put_message(&file, 8, version);
        if (i == 0) {
            assert_ok(imported_bytes(file, &out));
            assert_true(has_note(&out, "1 pairs of QuantizeLinear and DequantizeLinear are left out"));
        } else
            assert_refused(imported_bytes(file, &out), QS_UNSUPPORTED, "no such operator of org.example");
        qs_onnx_imported_release(&out);
    }
}

/* y of x by some nodes: refused, naming what. */
static void refused(const char *expected, int nodes, const char *const (*node)[3]) {
    bytes graph = graph_in_codes();
    const float step[] = {0.5f, 0.25f};
    const uint8_t zero = 0;
    put_message(&graph, 5, tensor_of("half", QS_ONNX_FLOAT, 0, NULL, &step[0], sizeof *step));
    put_message(&graph, 5, tensor_of("quarter", QS_ONNX_FLOAT, 0, NULL, &step[1], sizeof *step));
    put_message(&graph, 5, tensor_of("zero", QS_ONNX_UINT8, 0, NULL, &zero, 1));
    for (int n = 0; n < nodes; n++)
        put_message(&graph, 1, node_of(node[n][0], node[n][1], node[n][2]));
    qs_onnx_imported out;
    assert_refused(imported_bytes(model_of(graph, 8, 13), &out), QS_UNSUPPORTED, expected);
    qs_onnx_imported_release(&out);
}
#define REFUSED(expected, ...)                              \
    do {                                                    \
        static const char *const list[][3] = {__VA_ARGS__}; \
        refused(expected, COUNT_OF(list), list);            \
    } while (0)

TEST(refusals) {
    REFUSED("DequantizeLinear: it reads codes with other steps", {"QuantizeLinear", "product,half,zero", "codes"},
            {"DequantizeLinear", "codes,quarter,zero", "y"});
    REFUSED("Add: it computes on codes", {"QuantizeLinear", "product,half,zero", "codes"}, {"Add", "codes,codes", "sum"},
            {"DequantizeLinear", "sum,half,zero", "y"});
    REFUSED("Transpose: it computes on codes", {"QuantizeLinear", "product,steps,zeros", "codes"}, {"Transpose", "codes", "moved"},
            {"DequantizeLinear", "moved,steps,zeros", "y"}); /* of several steps, which go along an axis */
    REFUSED("its output y are codes", {"QuantizeLinear", "product,half,zero", "y"});
    REFUSED("quant_format=QDQ", {"DynamicQuantizeLinear", "product", "codes,step,point"},
            {"MatMulInteger", "codes,fc_quantized,point", "whole"}, {"Identity", "whole", "y"});
    REFUSED("QuantizeLinear: its steps are no numbers of the file", {"ReduceMax", "product", "most"},
            {"QuantizeLinear", "product,most,zero", "codes"}, {"DequantizeLinear", "codes,most,zero", "y"});
    REFUSED("QLinearMatMul: it computes on codes", {"QuantizeLinear", "product,half,zero", "codes"},
            {"QLinearMatMul", "codes,half,zero,fc_quantized,steps,zeros,quarter,zero", "again"},
            {"DequantizeLinear", "again,quarter,zero", "y"});
    bytes graph = graph_in_codes(); /* more steps than a value has channels */
    const float half = 0.5f;
    const int64_t many = 1 << 20;
    put_message(&graph, 5, tensor_of("half", QS_ONNX_FLOAT, 0, NULL, &half, sizeof half));
    put_message(&graph, 5, integers_of("many", 1, &many));
    put_message(&graph, 1, node_of("Expand", "half,many", "equal"));
    put_message(&graph, 1, node_of("QuantizeLinear", "product,equal", "codes"));
    put_message(&graph, 1, node_of("DequantizeLinear", "codes,equal", "y"));
    qs_onnx_imported out;
    assert_refused(imported_bytes(model_of(graph, 8, 13), &out), QS_UNSUPPORTED, "or more than 65536");
    qs_onnx_imported_release(&out);
}

TEST_MAIN(weights_are_what_codes_stand_for, codes_that_begin_at_zero, codes_that_are_moved, codes_that_two_read,
          names_do_not_depend_on_who_computes, domains, refusals)
