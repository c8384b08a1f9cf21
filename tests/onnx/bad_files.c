// SPDX-License-Identifier: Apache-2.0
// labels: medium
/* Files that are no models, or models that cannot be: each is refused with one line that says what, which value and which rule. */
#include "kit/kit.h"
#include "kit/folder.h"
#include "qsync/onnx.h"

#include <sys/resource.h>

#include "onnx/bytes.h"

/* The model of a graph, which it takes, is refused with these words. */
static void refused(bytes graph, qs_status status, const char *words) {
    qs_onnx_model model;
    bytes file = model_of(graph, 8, 13);
    const qs_status got = qs_onnx_open_bytes("bad.onnx", file.data, file.count, &model);
    if (got == QS_OK) print_error("it opens, but should say \"%s\"\n", words);
    assert_int_equal(got, status);
    assert_message(words);
    assert_null(strchr(qs_message(), '\n'));
    assert_int_equal(strncmp(qs_message(), "bad.onnx", 8), 0);
    free(file.data);
}

/* A graph with this initializer, which it takes. */
static bytes with_initializer(bytes tensor) {
    bytes graph = graph_begin();
    put_message(&graph, 5, tensor);
    put_message(&graph, 1, node_of("Relu", "x", "y"));
    return graph;
}

TEST(what_is_no_model) {
    static const struct {
        const char *data;
        size_t bytes;
        const char *words;
    } files[] = {
        {"", 0, "the file is empty"},
        {"PK\3\4", 4, "it does not begin like one"},
        {"{\"a\":1}", 7, "it does not begin like one"},
        {"\x08\x08\x3a\xff\xff\xff\xff\x0f", 8, "a field of 4294967295 bytes, but only 0 are left"},
        {"\x08\x08\x3a\x80", 4, "the data end inside a number"},
        {"\x08\x08\x3a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 14, "a number of more than 10 bytes"},
        {"\x08\x08", 2, "0 graphs: a model has one"},
        {"\x08\x08\x38\x01", 4, "is an integer, must be a text or message"},
    };
    qs_onnx_model model;
    for (size_t i = 0; i < COUNT_OF(files); i++)
        assert_refused(qs_onnx_open_bytes("bad.onnx", files[i].data, files[i].bytes, &model), QS_BAD_FILE, files[i].words);
    assert_refused(qs_onnx_open("/nowhere/model.onnx", &model), QS_BAD_FILE, "cannot open");
    assert_refused(qs_onnx_open("/", &model), QS_BAD_FILE, "not a file");
    bytes file = model_of(graph_begin(), 2, 13);
    assert_refused(qs_onnx_open_bytes("bad.onnx", file.data, file.count, &model), QS_UNSUPPORTED, "IR version 2: 3 to 13 are read");
    free(file.data);
    file = model_of(graph_begin(), 14, 13);
    assert_refused(qs_onnx_open_bytes("bad.onnx", file.data, file.count, &model), QS_UNSUPPORTED, "IR version 14: 3 to 13 are read");
    free(file.data);
}

/* Whatever a file is cut to, it is refused, or opens as a smaller model. */
TEST(every_cut_is_told) {
    bytes graph = with_initializer(floats_of("w", 4, (const float[]){1, 2, 3, 4}));
    bytes file = model_of(graph, 8, 13);
    for (size_t count = 0; count < file.count; count++) {
        qs_onnx_model model;
        unsigned char *copy = malloc(count + 1); /* of its own, so that a sanitizer sees the end */
        assert_non_null(copy);
        memcpy(copy, file.data, count);
        if (qs_onnx_open_bytes("bad.onnx", copy, count, &model) == QS_OK) qs_onnx_release(&model);
        free(copy);
    }
    free(file.data);
}

TEST(tensors_that_cannot_be) {
    const float four[4] = {1, 2, 3, 4};
    const int64_t minus[] = {-1}, huge[] = {INT64_C(1) << 41}, product[] = {INT64_C(1) << 21, INT64_C(1) << 21}, five[] = {5};
    const int64_t many[] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    refused(with_initializer(tensor_of("w", 1, 1, minus, four, 16)), QS_BAD_FILE, "tensor \"w\": float [-1]: an extent is negative");
    refused(with_initializer(tensor_of("w", 1, 1, huge, four, 16)), QS_BAD_FILE, "more than 2^40 elements");
    refused(with_initializer(tensor_of("w", 1, 2, product, four, 16)), QS_BAD_FILE, "more than 2^40 elements");
    refused(with_initializer(tensor_of("w", 1, 1, five, four, 16)), QS_BAD_FILE,
            "tensor \"w\": float [5]: 16 bytes of raw data, 20 expected");
    refused(with_initializer(tensor_of("w", 1, 9, many, four, 4)), QS_UNSUPPORTED, "9 extents: at most 8");
    refused(with_initializer(tensor_of("w", 77, 1, five, four, 16)), QS_UNSUPPORTED, "data_type 77: 1 to 23 are known");
    refused(with_initializer(tensor_of("", 1, 0, NULL, four, 4)), QS_BAD_FILE, "an initializer has no name");
    bytes twice = with_initializer(tensor_of("w", 1, 0, NULL, four, 4));
    put_message(&twice, 5, tensor_of("w", 1, 0, NULL, four, 4));
    refused(twice, QS_BAD_FILE, "two initializers \"w\"");
    /* Lists instead of raw bytes. */
    bytes list = {0};
    put_int(&list, 1, 3);
    put_int(&list, 2, QS_ONNX_INT8);
    put_text(&list, 8, "w");
    put_int(&list, 5, 1);
    put_int(&list, 5, 300);
    bytes copy = {0};
    bytes_put(&copy, list.data, list.count);
    refused(with_initializer(copy), QS_BAD_FILE, "2 integers in its data, 3 expected");
    put_int(&list, 5, -3);
    refused(with_initializer(list), QS_BAD_FILE, "300 in its data is no int8");
    bytes text = {0};
    put_int(&text, 2, QS_ONNX_FLOAT);
    put_text(&text, 8, "w");
    put_text(&text, 4, "no"); /* float_data of two bytes */
    refused(with_initializer(text), QS_BAD_FILE, "a tensor's data of 2 bytes: no multiple of 4");
    bytes words = {0};
    put_text(&words, 2, "float");
    refused(with_initializer(words), QS_BAD_FILE, "a tensor's data_type is a text or message, must be an integer");
    bytes segment = tensor_of("w", 1, 0, NULL, four, 4);
    put_text(&segment, 3, "");
    refused(with_initializer(segment), QS_UNSUPPORTED, "only whole tensors are read");
}

TEST(sparse_tensors) {
    for (int bad = 0; bad < 2; bad++) {
        const int64_t places[] = {1, bad ? 4 : 3};
        bytes sparse = {0}, graph = graph_begin();
        put_message(&sparse, 1, floats_of("w", 2, (const float[]){5, 7}));
        put_message(&sparse, 2, integers_of("", 2, places));
        put_int(&sparse, 3, 4);
        put_message(&graph, 15, sparse);
        put_message(&graph, 1, node_of("Add", "x,w", "y"));
        if (bad) {
            refused(graph, QS_BAD_FILE, "sparse tensor: index 4 must be 0 to 3");
            continue;
        }
        qs_onnx_model model;
        float values[4];
        bytes file = model_of(graph, 8, 13);
        assert_ok(qs_onnx_open_bytes("good.onnx", file.data, file.count, &model));
        assert_ok(qs_onnx_tensor_floats(model.graph.value[model.graph.node[0].input[1]].constant, 0, 4, values));
        assert_true(values[0] == 0 && values[1] == 5 && values[2] == 0 && values[3] == 7);
        qs_onnx_release(&model);
        free(file.data);
    }
}

TEST(graphs_that_cannot_be) {
    bytes graph = graph_begin();
    put_message(&graph, 1, node_of("Add", "x,b", "a"));
    put_message(&graph, 1, node_of("Relu", "a", "b"));
    put_message(&graph, 1, node_of("Relu", "b", "y"));
    refused(graph, QS_BAD_FILE, "node that writes \"a\" (Add) is part of a cycle");
    graph = graph_begin();
    put_message(&graph, 1, node_of("Add", "x,w", "y"));
    refused(graph, QS_BAD_FILE, "node \"\" (Add) reads \"w\", which nothing gives");
    graph = graph_begin();
    put_message(&graph, 1, node_of("Relu", "x", "z"));
    refused(graph, QS_BAD_FILE, "output \"y\" of the graph is given by nothing");
    graph = graph_begin();
    put_message(&graph, 1, node_of("Relu", "x", "y"));
    put_message(&graph, 1, node_of("Tanh", "x", "y"));
    refused(graph, QS_BAD_FILE, "(Tanh) writes \"y\", which is there already");
    graph = graph_begin();
    put_message(&graph, 1, node_of("", "x", "y"));
    refused(graph, QS_BAD_FILE, "has no operator");
    graph = graph_begin();
    char *name = malloc(1 << 20);
    assert_non_null(name);
    memset(name, 'n', (1 << 20) - 1);
    name[(1 << 20) - 1] = '\0';
    put_message(&graph, 1, node_of("Relu", "x", name));
    refused(graph, QS_BAD_FILE, "a value's name of 1048575 bytes: at most 1024");
    free(name);
    graph = graph_begin();
    bytes zero = {0};
    put_data(&zero, 1, "x\0y", 3);
    put_message(&graph, 1, zero);
    refused(graph, QS_BAD_FILE, "a value's name holds a zero byte");
    graph = graph_begin();
    bytes node = node_of("Relu", "x", "y"), attribute = {0};
    put_text(&attribute, 1, "alpha");
    put_text(&attribute, 2, "0.5"); /* a text where a float belongs */
    put_int(&attribute, 20, QS_ONNX_ATTRIBUTE_FLOAT);
    put_message(&node, 5, attribute);
    put_message(&graph, 1, node);
    refused(graph, QS_BAD_FILE, "attribute \"alpha\": bad.onnx: offset");
}

/* A file in another order than its nodes need is put in order. */
TEST(nodes_are_put_in_order) {
    qs_onnx_model model;
    bytes graph = graph_begin();
    put_message(&graph, 1, node_of("Neg", "b", "y"));
    put_message(&graph, 1, node_of("Relu", "a", "b"));
    put_message(&graph, 1, node_of("Tanh", "x", "a"));
    bytes file = model_of(graph, 8, 13);
    assert_ok(qs_onnx_open_bytes("good.onnx", file.data, file.count, &model));
    assert_string_equal(model.graph.node[0].op, "Tanh");
    assert_string_equal(model.graph.node[2].op, "Neg");
    qs_onnx_release(&model);
    free(file.data);
}

TEST(sub_graphs_are_64_deep_at_most) {
    for (int depth = 60; depth <= 1000; depth = depth == 60 ? 65 : 1000) {
        const int64_t nothing = 0;
        bytes inner = {0};
        put_message(&inner, 1, node_of("Relu", "x", "r"));
        put_message(&inner, 12, value_of("r", QS_ONNX_FLOAT, 0, &nothing));
        for (int i = 0; i < depth; i++) {
            bytes node = node_of("If", "c", "r"), outer = {0};
            put_message(&node, 5, attribute_graph("then_branch", inner));
            if (i + 1 == depth) outer = graph_begin();
            put_message(&outer, 1, node);
            if (i + 1 < depth) put_message(&outer, 12, value_of("r", QS_ONNX_FLOAT, 0, &nothing));
            inner = outer;
        }
        const char no = 0;
        put_message(&inner, 5, tensor_of("c", QS_ONNX_BOOL, 0, NULL, &no, 1));
        put_message(&inner, 1, node_of("Relu", "r", "y"));
        if (depth > 64)
            refused(inner, QS_UNSUPPORTED, "sub-graphs more than 64 deep");
        else {
            qs_onnx_model model;
            bytes file = model_of(inner, 8, 13);
            assert_ok(qs_onnx_open_bytes("deep.onnx", file.data, file.count, &model));
            assert_refused(qs_onnx_fold(&model, NULL), QS_BAD_FILE, "its branch must be a graph"); /* there is no else */
            qs_onnx_release(&model);
            free(file.data);
        }
        if (depth == 1000) break;
    }
}

TEST(a_million_nodes_at_most) {
    bytes graph = graph_begin(), node = node_of("Relu", "x", "");
    for (int i = 0; i <= QS_ONNX_MAX_NODES; i++)
        put_data(&graph, 1, node.data, node.count);
    free(node.data);
    put_message(&graph, 1, node_of("Relu", "x", "y"));
    refused(graph, QS_UNSUPPORTED, "more than 1000000 nodes");
}

/* ---- Functions ---- */

/* A model with functions, which it takes, and a graph that calls them; a function: name, body. */
static bytes function_of(const char *name, const char *inputs, const char *output) {
    bytes out = {0}, version = {0};
    put_text(&out, 1, name);
    for (const char *at = inputs;; at++) {
        const size_t length = strcspn(at, ",");
        put_data(&out, 4, at, length);
        at += length;
        if (!*at) break;
    }
    put_text(&out, 5, output);
    put_text(&version, 1, "");
    put_int(&version, 2, 13);
    put_message(&out, 9, version);
    put_text(&out, 10, "local");
    return out;
}

static bytes call_of(const char *name, const char *inputs, const char *output) {
    bytes node = node_of(name, inputs, output);
    put_text(&node, 7, "local");
    return node;
}

TEST(functions_are_put_in_place_of_their_calls) {
    qs_onnx_model model;
    bytes graph = graph_begin(), scaled = function_of("Scaled", "v", "out"), twice = function_of("Twice", "v", "out");
    bytes leaky = node_of("LeakyRelu", "v", "t"), reference = {0};
    put_text(&reference, 1, "alpha");
    put_text(&reference, 21, "slope");
    put_int(&reference, 20, QS_ONNX_ATTRIBUTE_FLOAT);
    put_message(&leaky, 5, reference);
    put_text(&scaled, 6, "slope");
    put_message(&scaled, 7, leaky);
    put_message(&scaled, 7, node_of("Neg", "t", "out"));
    for (int i = 0; i < 2; i++) {
        bytes call = call_of("Scaled", i ? "m" : "v", i ? "out" : "m");
        if (i == 0) {
            bytes slope = {0};
            put_text(&slope, 1, "slope");
            put_float(&slope, 2, 0.25f);
            put_int(&slope, 20, QS_ONNX_ATTRIBUTE_FLOAT);
            put_message(&call, 5, slope);
        }
        put_message(&twice, 7, call);
    }
    put_message(&graph, 1, call_of("Twice", "x", "y"));
    bytes file = model_of(graph, 8, 13);
    put_message(&file, 25, scaled);
    put_message(&file, 25, twice);
    assert_ok(qs_onnx_open_bytes("good.onnx", file.data, file.count, &model));
    assert_int_equal(model.graph.nodes, 4);
    float alpha;
    assert_ok(qs_onnx_attribute_float(&model.graph.node[0], "alpha", 0.5f, &alpha));
    assert_true(alpha == 0.25f);
    assert_null(qs_onnx_attribute_find(&model.graph.node[2], "alpha")); /* nobody gave it */
    assert_string_equal(model.graph.value[model.graph.output[0]].name, "y");
    assert_int_equal(model.graph.value[model.graph.output[0]].producer, 3);
    assert_string_equal(model.graph.value[model.graph.node[0].output[0]].name, "Scaled/t");
    assert_ok(qs_onnx_fold(&model, NULL));
    qs_onnx_release(&model);
    free(file.data);
}

TEST(functions_that_cannot_be) {
    for (int i = 0; i < 2; i++) {
        qs_onnx_model model;
        bytes graph = graph_begin(), itself = function_of("F", "v", "out");
        put_message(&itself, 7, call_of("F", "v", "out"));
        put_message(&graph, 1, call_of("F", i ? "x,x" : "x", "y"));
        bytes file = model_of(graph, 8, 13);
        put_message(&file, 25, itself);
        assert_refused(qs_onnx_open_bytes("bad.onnx", file.data, file.count, &model), QS_BAD_FILE,
                       i ? "2 inputs and 1 outputs, but function \"F\" has 1 and 1" : "function \"F\" calls itself");
        free(file.data);
    }
    /* Each calls the next one twice: 2^40 nodes, of which not all are made. */
    qs_onnx_model model;
    bytes graph = graph_begin();
    put_message(&graph, 1, call_of("F0", "x", "y"));
    bytes file = model_of(graph, 8, 13);
    for (int i = 0; i < 40; i++) {
        char name[8], next[8];
        snprintf(name, sizeof name, "F%d", i);
        snprintf(next, sizeof next, "F%d", i + 1);
        bytes function = function_of(name, "v", "out");
        put_message(&function, 7, i < 39 ? call_of(next, "v", "m") : node_of("Relu", "v", "m"));
        put_message(&function, 7, i < 39 ? call_of(next, "m", "out") : node_of("Relu", "m", "out"));
        put_message(&file, 25, function);
    }
    assert_int_equal(qs_onnx_open_bytes("bad.onnx", file.data, file.count, &model), QS_UNSUPPORTED);
    free(file.data);
    /* Few bytes a call, but each call has a table of all that the function's text names. */
    bytes names = {0};
    graph = graph_begin();
    for (int i = 0; i < 1000; i++) {
        char name[16];
        bytes_put(&names, name, (size_t)snprintf(name, sizeof name, i ? ",v%d" : "v%d", i));
    }
    bytes_put(&names, "", 1);
    for (int i = 0; i < 4000; i++) {
        char result[16];
        snprintf(result, sizeof result, i ? "y%d" : "y", i);
        put_message(&graph, 1, call_of("F", "x", result));
    }
    file = model_of(graph, 8, 13);
    bytes wide = function_of("F", (const char *)names.data, "out");
    put_message(&wide, 7, node_of("Relu", "v0", "out"));
    put_message(&file, 25, wide);
    assert_refused(qs_onnx_open_bytes("bad.onnx", file.data, file.count, &model), QS_UNSUPPORTED,
                   "calls of functions with more than 4000000 inputs and outputs in all");
    free(names.data);
    free(file.data);
}

/* ---- External data ---- */

/* TensorProto whose data lie elsewhere. */
static bytes external_of(const char *location, const char *offset, const char *length) {
    bytes out = {0};
    const char *const entries[][2] = {{"location", location}, {"offset", offset}, {"length", length}};
    put_int(&out, 1, 4);
    put_int(&out, 2, QS_ONNX_FLOAT);
    put_text(&out, 8, "w");
    put_int(&out, 14, 1);
    for (int i = 0; i < 3; i++) {
        bytes entry = {0};
        if (!entries[i][1]) continue;
        put_text(&entry, 1, entries[i][0]);
        put_text(&entry, 2, entries[i][1]);
        put_message(&out, 13, entry);
    }
    return out;
}

TEST(data_outside_of_the_file) {
    char folder[FOLDER_PATH];
    const float values[6] = {9, 1, 2, 3, 4, 9};
    folder_make(folder);
    char *inside = folder_path(folder, "model"), *data = folder_path(inside, "weights.bin"), *path = folder_path(inside, "model.onnx");
    char *secret = folder_path(folder, "secret.bin"), *link = folder_path(inside, "link.bin");
    assert_ok(qs_folder_make(inside));
    assert_ok(qs_file_write(data, values, sizeof values));
    assert_ok(qs_file_write(secret, values, sizeof values));
    assert_int_equal(symlink(secret, link), 0);
    static const struct {
        const char *location, *offset, *length, *words;
    } cases[] = {
        {"weights.bin", "4", "16", NULL},
        {"./weights.bin", "4", NULL, NULL},
        {"weights.bin", "12", "16", "external data of 16 bytes from offset 12 of weights.bin, which has 24 bytes"},
        {"weights.bin", "100", "16", "external data from offset 100 of weights.bin"},
        {"weights.bin", "-4", "16", "offset \"-4\" is no number"},
        {"weights.bin", "4", "12", "external data of 12 bytes, 16 expected"},
        {"weights.bin", "99999999999999999999", "16", "is no number"},
        {"nothing.bin", "0", "16", "there is no such file"},
        {"../secret.bin", "0", "16", "\"..\" leaves the model's folder"},
        {"a/../../secret.bin", "0", "16", "\"..\" leaves the model's folder"},
        {"/etc/passwd", "0", "16", "must be a path below the model's folder"},
        {"link.bin", "0", "16", "where its links lead is not below the model's folder"},
        {"", "0", "16", "external data without a location"},
        {".", "0", "16", "is not below the model's folder"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        qs_onnx_model model;
        bytes graph = graph_begin();
        put_message(&graph, 5, external_of(cases[i].location, cases[i].offset, cases[i].length));
        put_message(&graph, 1, node_of("Add", "x,w", "y"));
        bytes file = model_of(graph, 8, 13);
        assert_ok(qs_file_write(path, file.data, file.count));
        if (cases[i].words)
            assert_refused(qs_onnx_open(path, &model), QS_BAD_FILE, cases[i].words);
        else {
            float read[4];
            assert_ok(qs_onnx_open(path, &model));
            assert_ok(qs_onnx_tensor_floats(model.graph.value[model.graph.node[0].input[1]].constant, 0, 4, read));
            assert_memory_equal(read, values + 1, sizeof read);
            qs_onnx_release(&model);
        }
        assert_true(qs_onnx_open_bytes("bytes", file.data, file.count, &model) != QS_OK); /* bytes have no folder */
        free(file.data);
    }
    free(inside);
    free(data);
    free(path);
    free(secret);
    free(link);
    folder_remove(folder);
}

/* ---- Small files that ask for much ---- */

/* Constants of 2^40 elements, and sums of them: nothing is made, and the nodes stay. */
TEST(a_small_file_gets_no_gigabytes) {
    const int64_t large[] = {INT64_C(1) << 20, INT64_C(1) << 20};
    qs_onnx_model model;
    struct rusage before, behind;
    bytes graph = graph_begin();
    put_message(&graph, 5, integers_of("large", 2, large));
    put_message(&graph, 1, node_of("ConstantOfShape", "large", "a"));
    put_message(&graph, 1, node_of("Exp", "a", "b"));
    put_message(&graph, 1, node_of("Add", "b,a", "c"));
    put_message(&graph, 1, node_of("Expand", "c,large", "d"));
    put_message(&graph, 1, node_of("ReduceSum", "d", "s"));
    put_message(&graph, 1, node_of("Add", "x,s", "y"));
    bytes file = model_of(graph, 8, 13);
    getrusage(RUSAGE_SELF, &before);
    assert_ok(qs_onnx_open_bytes("large", file.data, file.count, &model));
    assert_ok(qs_onnx_fold(&model, NULL));
    getrusage(RUSAGE_SELF, &behind);
    assert_true(behind.ru_maxrss - before.ru_maxrss < 64 << 10); /* KiB */
    assert_int_equal(model.graph.nodes, 4);
    qs_onnx_release(&model);
    free(file.data);
}

/* Settings at the ends of their types, and empty tensors of long shapes: refused, or left where they are. */
TEST(numbers_at_their_ends) {
    qs_onnx_model model;
    bytes graph = graph_begin();
    const int64_t long_shape[] = {INT64_C(1) << 40, 0};
    put_message(&graph, 5, tensor_of("long", QS_ONNX_FLOAT, 2, long_shape, "", 0));
    put_message(&graph, 5, tensor_of("also", QS_ONNX_FLOAT, 2, long_shape, "", 0));
    bytes concat = node_of("Concat", "long,also", "joined");
    put_message(&concat, 5, attribute_int("axis", 1));
    put_message(&graph, 1, concat);
    put_message(&graph, 1, node_of("ReduceSum", "joined", "sum"));
    put_message(&graph, 1, node_of("Add", "x,sum", "y"));
    bytes file = model_of(graph, 8, 13);
    assert_ok(qs_onnx_open_bytes("long", file.data, file.count, &model));
    assert_ok(qs_onnx_fold(&model, &(qs_onnx_fold_options){.parameters = true}));
    assert_int_equal(model.graph.nodes, 1);
    qs_onnx_release(&model);
    free(file.data);
    for (int i = 0; i < 3; i++) {
        bytes bad = graph_begin(), node;
        if (i == 0) { /* opset 18: parts are said, and their number is 0 */
            put_message(&bad, 5, integers_of("parts", 2, (const int64_t[]){1, 3}));
            node = node_of("Split", "x,parts", "y,z");
            put_message(&node, 5, attribute_int("axis", 1));
            put_message(&node, 5, attribute_int("num_outputs", 0));
        } else if (i == 1) {
            put_message(&bad, 5, integers_of("pads", 4, (const int64_t[]){0, INT64_MIN, 0, INT64_MAX}));
            node = node_of("Pad", "x,pads", "y");
        } else { /* of one step no axis is asked */
            put_message(&bad, 5, tensor_of("codes", QS_ONNX_INT8, 1, (const int64_t[]){4}, "\1\2\3\4", 4));
            put_message(&bad, 5, tensor_of("step", QS_ONNX_FLOAT, 0, NULL, &(const float){0.5f}, 4));
            node = node_of("DequantizeLinear", "codes,step", "y");
            put_message(&node, 5, attribute_int("axis", INT64_C(1) << 40));
        }
        put_message(&bad, 1, node);
        file = model_of(bad, 8, 18);
        assert_ok(qs_onnx_open_bytes("ends", file.data, file.count, &model));
        if (i != 1)
            assert_ok(qs_onnx_fold(&model, NULL));
        else
            assert_refused(qs_onnx_fold(&model, NULL), QS_BAD_FILE, "a padding of -9223372036854775808");
        qs_onnx_release(&model);
        free(file.data);
    }
}

TEST_MAIN(what_is_no_model, every_cut_is_told, tensors_that_cannot_be, sparse_tensors, graphs_that_cannot_be, nodes_are_put_in_order,
          sub_graphs_are_64_deep_at_most, a_million_nodes_at_most, functions_are_put_in_place_of_their_calls, functions_that_cannot_be,
          data_outside_of_the_file, a_small_file_gets_no_gigabytes, numbers_at_their_ends)
