// SPDX-License-Identifier: Apache-2.0
// labels: short
// links: train checkpoint
/* What exporters write in their own ways: parameters under their names, whole, however the file reads them, and what cannot train said. */
#include "imported.h"

/* The position of RoBERTa's first token is row 2 of its table, all rows of which stay the parameter that the file has. */
TEST(positions_behind_the_first_rows) {
    qs_onnx_imported roberta = imported("roberta-class.onnx:length=8");
    const qs_shape rows = qs_shape_of(2, (int64_t)14, (int64_t)16);
    assert_true(qs_shape_equal(&tensor_that(&roberta, "position_embeddings.weight")->tensor.shape, &rows));
    for (int i = 0; i < roberta.graph.operators; i++)
        if (strcmp(roberta.graph.operator_[i].op, "positions") == 0) assert_int_equal(roberta.graph.operator_[i].offset, 2);
    assert_int_equal(operators_of(&roberta, "positions"), 1);
    qs_onnx_imported_release(&roberta);
}

/* A matrix that two products read trains as two: the table says of which, and by how many it is read. */
TEST(a_parameter_of_two_operators) {
    static const float matrix[16] = {0};
    const int64_t extent[] = {4, 4};
    bytes graph = graph_begin();
    put_message(&graph, 5, tensor_of("shared.weight", QS_ONNX_FLOAT, 2, extent, matrix, sizeof matrix));
    put_message(&graph, 1, node_of("MatMul", "x,shared.weight", "a"));
    put_message(&graph, 1, node_of("Relu", "a", "b"));
    put_message(&graph, 1, node_of("MatMul", "b,shared.weight", "y"));
    qs_onnx_imported out;
    assert_ok(imported_bytes(model_of(graph, 8, 13), &out));
    assert_true(has_note(&out, "shared.weight is read by 2 operators"));
    assert_int_equal(out.weights.count, 2);
    qs_onnx_imported_release(&out);
}

/* A factor that is one number is a setting, which is said; a slope that is one is learned. */
TEST(parameters_of_one_number) {
    bytes graph = graph_begin();
    put_message(&graph, 5, floats_of("factor", 1, (const float[]){0.5f}));
    put_message(&graph, 5, floats_of("bend.slope", 1, (const float[]){0.25f}));
    put_message(&graph, 1, node_of("Mul", "x,factor", "a"));
    put_message(&graph, 1, node_of("PRelu", "a,bend.slope", "y"));
    qs_onnx_imported out;
    assert_ok(imported_bytes(model_of(graph, 8, 16), &out));
    assert_true(has_note(&out, "factor is one number: it is a setting of what Mul became, and is not trained"));
    assert_int_equal(operators_of(&out, "prelu"), 1);
    assert_string_equal(tensor_that(&out, "bend.slope")->name, "bend.slope");
    qs_onnx_imported_release(&out);
}

TEST(quotients_of_zero) {
    for (int64_t count = 1; count <= 4; count += 3) {
        bytes graph = graph_begin();
        put_message(&graph, 5, floats_of("by", count, (const float[]){0, 1, 2, 3}));
        put_message(&graph, 1, node_of("Div", "x,by", "y"));
        qs_onnx_imported out;
        assert_refused(imported_bytes(model_of(graph, 8, 13), &out), QS_UNSUPPORTED, "it divides by");
        qs_onnx_imported_release(&out);
    }
}

TEST_MAIN(positions_behind_the_first_rows, a_parameter_of_two_operators, parameters_of_one_number, quotients_of_zero)
