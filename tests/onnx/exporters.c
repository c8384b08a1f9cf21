// SPDX-License-Identifier: Apache-2.0
// labels: short
// links: train checkpoint
/* What exporters write in their own ways: parameters under their names, whole, however the file reads them, and what cannot train said. */
#include "imported.h"

#include <math.h>

#include "qsync/graph.h"

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

/* By today's exporter of PyTorch (tests/golden/make_dynamo.py): what a mask is gathered to by sample and position says which positions
 * count; matrices that it turned and gave numbers have their names and shapes again; the row of token types that all positions read is a
 * row of the table; keys of several heads are repeated. That they compute what they should, test_onnx_import says. */
TEST(files_of_the_new_exporter) {
    qs_onnx_imported bert = imported("dynamo-bert.onnx:length=8"), gpt2 = imported("dynamo-gpt2.onnx:length=8"),
                     llama = imported("dynamo-llama.onnx:length=8"), vit = imported("dynamo-vit.onnx"),
                     fixed = imported("dynamo-vit-fixed.onnx");
    const qs_shape inner = qs_shape_of(2, (int64_t)24, (int64_t)16), types = qs_shape_of(2, (int64_t)2, (int64_t)16);
    assert_true(qs_shape_equal(&tensor_that(&bert, ".encoder.layer.0.intermediate.dense.weight")->tensor.shape, &inner));
    assert_true(qs_shape_equal(&tensor_that(&bert, ".token_type_embeddings.weight")->tensor.shape, &types));
    assert_true(has_tensor(&llama, "model.model.layers.0.self_attn.q_proj.weight"));
    assert_true(has_tensor(&fixed, "encoder.layers.encoder_layer_0.self_attention.in_proj_weight"));
    const qs_onnx_imported *all[] = {&bert, &gpt2, &llama, &vit, &fixed};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_int_equal(operators_of(all[i], "attention"), 1);
        for (size_t t = 0; t < all[i]->weights.count; t++)
            assert_true(strncmp(all[i]->weights.tensors[t].name, "val_", 4) != 0);
    }
    assert_int_equal(operators_of(&llama, "rms_norm"), 3);
    assert_int_equal(operators_of(&llama, "rotary"), 2);
    assert_int_equal(operators_of(&llama, "expand"), 0);
    qs_onnx_imported_release(&bert);
    qs_onnx_imported_release(&gpt2);
    qs_onnx_imported_release(&llama);
    qs_onnx_imported_release(&vit);
    qs_onnx_imported_release(&fixed);
}

/* By the old exporter, which turned all matrices: each has the name beside its bias again, in the order [O,I] of the module. */
TEST(files_of_the_old_exporter) {
    static const char *const files[] = {"bert-span.onnx:length=8", "bert-tokens.onnx:length=8", "distilbert-class.onnx:length=8",
                                        "vit.onnx"};
    static const char *const inner[] = {
        "model.bert.encoder.layer.1.intermediate.dense.weight", "model.bert.encoder.layer.0.intermediate.dense.weight",
        "model.distilbert.transformer.layer.1.ffn.lin1.weight", "encoder.layers.encoder_layer_1.mlp.0.weight"};
    const qs_shape shape = qs_shape_of(2, (int64_t)24, (int64_t)16);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        qs_onnx_imported out = imported(files[i]);
        assert_true(qs_shape_equal(&tensor_that(&out, inner[i])->tensor.shape, &shape));
        for (size_t t = 0; t < out.weights.count; t++)
            assert_true(strncmp(out.weights.tensors[t].name, "onnx::", 6) != 0);
        qs_onnx_imported_release(&out);
    }
}

/* A turned matrix without a bias is called after its modules, a child of a Sequential says its parent again; a name that another tensor has
 * is not given twice, and a node outside of modules gives none. */
TEST(turned_matrices_without_bias) {
    static const char *const nodes[] = {"/net/net.1/fc/MatMul", "/net/net.1/MatMul_2", "/MatMul", "/taken/MatMul", "MatMul_7"};
    static const char *const names[] = {"net.1.fc.weight", "net.1.weight", "onnx::MatMul_9", "onnx::MatMul_9", "onnx::MatMul_9"};
    static const float matrix[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    const int64_t extent[] = {4, 2};
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        bytes graph = graph_begin(), node = node_of("MatMul", "a,onnx::MatMul_9", "y");
        put_text(&node, 3, nodes[i]);
        put_message(&graph, 5, tensor_of("onnx::MatMul_9", QS_ONNX_FLOAT, 2, extent, matrix, sizeof matrix));
        put_message(&graph, 5, floats_of("taken.weight", 4, matrix));
        put_message(&graph, 1, node_of("Mul", "x,taken.weight", "a"));
        put_message(&graph, 1, node);
        qs_onnx_imported out;
        assert_ok(imported_bytes(model_of(graph, 8, 13), &out));
        const qs_named_tensor *weights = tensor_that(&out, names[i]);
        assert_float_equal(((const float *)weights->tensor.data)[1], i < 2 ? 2 : 1, 0);
        qs_onnx_imported_release(&out);
    }
}

static double setting_of(const qs_graph_operator *row, const char *name) {
    for (int i = 0; i < row->settings; i++)
        if (strcmp(row->setting[i].name, name) == 0) return row->setting[i].value;
    return 0;
}

/* Llama with grouped keys, by both exporters: the operators of the built-in model, as many of each, with its heads and its waves. */
TEST(llamas_are_the_built_in_one) {
    static const char *const ops[] = {"embedding", "rms_norm", "linear", "rotary", "attention", "add", "silu", "multiply"};
    qs_onnx_imported files[] = {imported("llama-new.onnx:length=8"), imported("llama-old.onnx:length=8")};
    qs_graph *built = NULL;
    assert_ok(qs_model_build("llama:layers=2,hidden=24,heads=6,kv=2,inner=20,vocab=29,length=8", NULL, &built));
    for (size_t f = 0; f < COUNT_OF(files); f++) {
        int all = 0;
        for (size_t i = 0; i < COUNT_OF(ops); i++) {
            int expected = 0;
            for (int n = 0; n < built->nodes; n++)
                expected += built->node[n].op == qs_op_of(ops[i]);
            assert_int_equal(operators_of(&files[f], ops[i]), expected);
            all += expected;
        }
        assert_int_equal(files[f].graph.operators, all);
        for (int i = 0; i < files[f].graph.operators; i++) {
            const qs_graph_operator *row = &files[f].graph.operator_[i];
            if (strcmp(row->op, "rotary") == 0) assert_float_equal(setting_of(row, "base"), 50000, 0);
            if (strcmp(row->op, "attention") != 0) continue;
            assert_float_equal(setting_of(row, "heads"), 6, 0);
            assert_float_equal(setting_of(row, "key_heads"), 2, 0);
            assert_float_equal(setting_of(row, "causal"), 1, 0);
            assert_int_equal(row->inputs, f == 0 ? 3 : 4);
        }
        qs_onnx_imported_release(&files[f]);
    }
    qs_graph_release(built);
}

static bytes attribute_word(const char *name, const char *word) {
    bytes out = {0};
    put_text(&out, 1, name);
    put_text(&out, 4, word);
    put_int(&out, 20, QS_ONNX_ATTRIBUTE_STRING);
    return out;
}

/* An image that is resized. */
static qs_status imported_resized(const char *mode, int wide, int inside, float coefficient, qs_onnx_imported *out) {
    bytes graph = {0}, resize = node_of("Resize", "x,,scales", "y"), slope = {0};
    put_message(&graph, 11, value_of("x", QS_ONNX_FLOAT, 4, (const int64_t[]){-1, 3, 8, 8}));
    put_message(&graph, 12, value_of("y", QS_ONNX_FLOAT, 4, (const int64_t[]){-1, 3, 12, 4}));
    put_message(&graph, 5, floats_of("scales", 4, (const float[]){1, 1, 1.5f, 0.5f}));
    put_message(&resize, 5, attribute_word("mode", mode));
    put_message(&resize, 5, attribute_int("antialias", wide));
    put_message(&resize, 5, attribute_int("exclude_outside", inside));
    put_text(&slope, 1, "cubic_coeff_a");
    put_float(&slope, 2, coefficient);
    put_int(&slope, 20, QS_ONNX_ATTRIBUTE_FLOAT);
    put_message(&resize, 5, slope);
    put_message(&graph, 1, resize);
    return imported_bytes(model_of(graph, 8, 18), out);
}

/* What PyTorch writes of interpolate by cubics and against aliasing; and what other frameworks do, which leave out what lies outside. */
TEST(modes_of_resizing) {
    static const struct {
        const char *mode;
        int wide, inside, setting;
    } all[] = {{"linear", 0, 1, 1}, {"cubic", 0, 0, 2},  {"linear", 1, 0, 3}, {"cubic", 1, 0, 4},
               {"cubic", 0, 1, 5},  {"linear", 1, 1, 6}, {"cubic", 1, 1, 7}};
    qs_onnx_imported out;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const bool cubic = strcmp(all[i].mode, "cubic") == 0;
        bool said = false, slope = false;
        assert_ok(imported_resized(all[i].mode, all[i].wide, all[i].inside, -0.5f, &out));
        const qs_graph_operator *row = &out.graph.operator_[0];
        assert_string_equal(row->op, "resize");
        for (int k = 0; k < row->settings; k++) {
            said = said || (strcmp(row->setting[k].name, "mode") == 0 && row->setting[k].value == all[i].setting);
            slope = slope || (strcmp(row->setting[k].name, "coefficient") == 0 && row->setting[k].value == -0.5);
        }
        assert_true(said && slope == cubic);
        qs_onnx_imported_release(&out);
    }
    assert_refused(imported_resized("cubic", 0, 0, 0, &out), QS_UNSUPPORTED, "a cubic of the coefficient 0: -4 to less than 0");
    qs_onnx_imported_release(&out);
    assert_refused(imported_resized("cubic", 0, 0, (float)NAN, &out), QS_UNSUPPORTED, "a cubic of the coefficient");
    qs_onnx_imported_release(&out);
}

/* x [N,2,4] turned by an input of positions times two wave lengths. */
static qs_status imported_rotation(const float waves[2], qs_onnx_imported *out) {
    bytes graph = {0}, cast = node_of("Cast", "position_ids", "real"), joined = node_of("Concat", "angle,angle", "angles"),
          turned = node_of("Concat", "negative,first", "turned");
    put_message(&cast, 5, attribute_int("to", QS_ONNX_FLOAT));
    put_message(&joined, 5, attribute_int("axis", -1));
    put_message(&turned, 5, attribute_int("axis", -1));
    put_text(&graph, 2, "graph");
    put_message(&graph, 5, floats_of("waves", 2, waves));
    for (int64_t i = 0; i < 3; i++)
        put_message(&graph, 5, integers_of((const char *const[]){"zero", "two", "four"}[i], 1, (const int64_t[]){2 * i}));
    put_message(&graph, 1, cast);
    put_message(&graph, 1, node_of("Unsqueeze", "real,two", "column"));
    put_message(&graph, 1, node_of("Mul", "column,waves", "angle"));
    put_message(&graph, 1, joined);
    put_message(&graph, 1, node_of("Cos", "angles", "cosine"));
    put_message(&graph, 1, node_of("Sin", "angles", "sine"));
    put_message(&graph, 1, node_of("Slice", "x,zero,two,two", "first"));
    put_message(&graph, 1, node_of("Slice", "x,two,four,two", "second"));
    put_message(&graph, 1, node_of("Neg", "second", "negative"));
    put_message(&graph, 1, turned);
    put_message(&graph, 1, node_of("Mul", "x,cosine", "a"));
    put_message(&graph, 1, node_of("Mul", "sine,turned", "b"));
    put_message(&graph, 1, node_of("Add", "b,a", "y"));
    put_message(&graph, 11, value_of("x", QS_ONNX_FLOAT, 3, (const int64_t[]){-1, 2, 4}));
    put_message(&graph, 11, value_of("position_ids", QS_ONNX_INT64, 2, (const int64_t[]){-1, 2}));
    put_message(&graph, 12, value_of("y", QS_ONNX_FLOAT, 3, (const int64_t[]){-1, 2, 4}));
    return imported_bytes(model_of(graph, 8, 18), out);
}

/* Angles of any base are one operator; others are not taken for it, and their lengths train no more than those of a base. */
TEST(rotations_by_an_input_of_positions) {
    for (int other = 0; other < 2; other++) {
        qs_onnx_imported out;
        assert_ok(imported_rotation((const float[]){other ? 0.5F : 1, 0.1F}, &out));
        assert_int_equal(operators_of(&out, "rotary"), !other);
        assert_true(has_note(&out, "input position_ids says where positions stand"));
        assert_int_equal(out.graph.inputs, 1);
        for (int i = 0; i < out.graph.operators; i++) {
            const qs_graph_operator *row = &out.graph.operator_[i];
            if (strcmp(row->op, "rotary") == 0) assert_float_equal(setting_of(row, "base"), 100, 0);
            for (int k = 0; k < row->origins; k++)
                assert_true(row->origin[k].constant);
        }
        qs_onnx_imported_release(&out);
    }
}

/* 0, 1, ... of the samples: y gathers from x [N,4] in one row what stands `step` elements behind the sample before, or adds the number. */
static qs_status imported_samples(int64_t step, qs_onnx_imported *out) {
    const int64_t extent[] = {1, 4}, columns[] = {0, 1, 2, 3};
    bytes graph = graph_begin(), shape = node_of("Shape", "x", "shape");
    put_message(&shape, 5, attribute_int("end", 1));
    put_message(&graph, 5, tensor_of("zero", QS_ONNX_INT64, 0, NULL, &(int64_t){0}, 8));
    put_message(&graph, 5, tensor_of("one", QS_ONNX_INT64, 0, NULL, &(int64_t){1}, 8));
    put_message(&graph, 5, tensor_of("step", QS_ONNX_INT64, 0, NULL, &step, 8));
    put_message(&graph, 5, integers_of("last", 1, (const int64_t[]){1}));
    put_message(&graph, 5, integers_of("flat", 1, (const int64_t[]){-1}));
    put_message(&graph, 5, tensor_of("columns", QS_ONNX_INT64, 2, extent, columns, sizeof columns));
    put_message(&graph, 1, shape);
    put_message(&graph, 1, node_of("Squeeze", "shape", "count"));
    put_message(&graph, 1, node_of("Range", "zero,count,one", "samples"));
    put_message(&graph, 1, node_of("Mul", "samples,step", "starts"));
    put_message(&graph, 1, node_of("Unsqueeze", "starts,last", "column"));
    if (step > 0) {
        put_message(&graph, 1, node_of("Add", "column,columns", "places"));
        put_message(&graph, 1, node_of("Reshape", "x,flat", "row"));
        put_message(&graph, 1, node_of("Gather", "row,places", "y"));
    } else {
        bytes as_float = node_of("Cast", "column", "real");
        put_message(&as_float, 5, attribute_int("to", QS_ONNX_FLOAT));
        put_message(&graph, 1, as_float);
        put_message(&graph, 1, node_of("Add", "x,real", "y"));
    }
    return imported_bytes(model_of(graph, 8, 18), out);
}

/* Strides that change nothing, as the exporter writes them behind means over images, are gone; others, and sums, are not guessed. */
TEST(numbers_of_samples) {
    qs_onnx_imported out;
    assert_ok(imported_samples(4, &out));
    assert_int_equal(out.graph.operators, 1); /* a model has one at least: x as it is */
    assert_string_equal(out.graph.operator_[0].op, "affine");
    qs_onnx_imported_release(&out);
    assert_refused(imported_samples(2, &out), QS_UNSUPPORTED, "Gather: by numbers that depend on the batch");
    qs_onnx_imported_release(&out);
    assert_refused(imported_samples(-1, &out), QS_UNSUPPORTED, "Add: of a value and numbers that depend on the batch");
    qs_onnx_imported_release(&out);
}

TEST_MAIN(modes_of_resizing, files_of_the_new_exporter, files_of_the_old_exporter, llamas_are_the_built_in_one,
          rotations_by_an_input_of_positions, turned_matrices_without_bias, numbers_of_samples, positions_behind_the_first_rows,
          a_parameter_of_two_operators, parameters_of_one_number, quotients_of_zero)
