// SPDX-License-Identifier: Apache-2.0
/* Folding: shapes with the batch and a length in them, constants, and the nodes that stay. */
#include "kit/kit.h"
#include "qsync/onnx.h"

#include "onnx/bytes.h"

/* ---- Small models, written here ---- */

static bytes kept_bytes; /* of the model that is open */

/* Opens a model of this graph, which it takes, and folds it. */
static void fold_graph(bytes graph, int opset, const qs_onnx_fold_options *options, qs_onnx_model *model) {
    free(kept_bytes.data);
    kept_bytes = model_of(graph, 8, opset);
    assert_ok(qs_onnx_open_bytes("small", kept_bytes.data, kept_bytes.count, model));
    assert_ok(qs_onnx_fold(model, options));
}

static const qs_onnx_value *output_of(const qs_onnx_model *model) {
    return &model->graph.value[model->graph.output[0]];
}

/* "N,3,L" of a value. */
static const char *shape_text(const qs_onnx_value *value) {
    static char text[400];
    char extent[QS_ONNX_EXTENT_TEXT];
    size_t used = 0;
    snprintf(text, sizeof text, "%s", value->rank < 0 ? "unknown" : "");
    for (int i = 0; i < value->rank; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? "," : "", qs_onnx_extent_text(&value->extent[i], extent));
    return text;
}

static int count_of(const qs_onnx_graph *graph, const char *op) {
    int count = 0;
    for (int i = 0; i < graph->nodes; i++)
        count += strcmp(graph->node[i].op, op) == 0;
    return count;
}

TEST(a_shape_that_is_computed_from_the_batch_resolves) {
    qs_onnx_model model;
    bytes graph = graph_begin();
    put_message(&graph, 5, integers_of("zero", 1, (const int64_t[]){0}));
    put_message(&graph, 5, integers_of("two", 2, (const int64_t[]){2, -1}));
    put_message(&graph, 1, node_of("Shape", "x", "shape"));
    bytes gather = node_of("Gather", "shape,zero", "batch");
    put_message(&gather, 5, attribute_int("axis", 0));
    put_message(&graph, 1, gather);
    bytes concat = node_of("Concat", "batch,two", "target");
    put_message(&concat, 5, attribute_int("axis", 0));
    put_message(&graph, 1, concat);
    put_message(&graph, 1, node_of("Reshape", "x,target", "y"));
    fold_graph(graph, 13, NULL, &model);
    assert_int_equal(model.graph.nodes, 1);
    assert_string_equal(shape_text(output_of(&model)), "N,2,2");
    const qs_onnx_value *target = &model.graph.value[model.graph.node[0].input[1]];
    assert_non_null(target->extents);
    assert_int_equal(target->producer, -1);
    qs_onnx_release(&model);
}

/* Flattened by shapes of one sample, as files say them whose batch was fixed: [1,-1] of [1,2,2]. */
TEST(a_fixed_batch_is_the_batch) {
    for (int fixed = 0; fixed < 2; fixed++) {
        qs_onnx_model model;
        bytes graph = {0};
        put_message(&graph, 11, value_of("x", QS_ONNX_FLOAT, 3, (const int64_t[]){1, 2, 2}));
        put_message(&graph, 12, value_of("y", QS_ONNX_FLOAT, 2, (const int64_t[]){1, 4}));
        put_message(&graph, 5, integers_of("flat", 2, (const int64_t[]){1, -1}));
        put_message(&graph, 1, node_of("Reshape", "x,flat", "y"));
        fold_graph(graph, 13, &(qs_onnx_fold_options){.fixed_batch = fixed}, &model);
        assert_string_equal(shape_text(output_of(&model)), fixed ? "1,4" : "N,4");
        qs_onnx_release(&model);
    }
}

/* Samples that stand behind positions stay there, whatever a shape of one sample says: [3,1,4] seen as 3 times 2 heads of 2, as matrices of
 * positions, and back. Where the elements of samples stand first, they do so in what is left. */
TEST(a_fixed_batch_stays_where_its_elements_are) {
    static const struct {
        int64_t order[3], shape[4];
        const char *gives;
    } cases[] = {{{1, 0, 2}, {3, 2, 2}, "3,2 N,2"},    {{1, 0, 2}, {3, -1, 2}, "3,2 N,2"}, {{1, 0, 2}, {3, 4}, "3 N,4"},
                 {{1, 0, 2}, {3, 1, 2, 2}, "3,N,2,2"}, {{0, 1, 2}, {3, 4}, "3 N,4"},       {{0, 1, 2}, {3, 2, 2}, "3 N,2,2"},
                 {{0, 1, 2}, {1, 3, -1, 2}, "N,3,2,2"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qs_onnx_model model;
        bytes graph = {0}, moved = node_of("Transpose", "x", "moved");
        int count = 0;
        while (count < 4 && cases[i].shape[count] != 0)
            count++;
        put_message(&graph, 11, value_of("x", QS_ONNX_FLOAT, 3, (const int64_t[]){1, 3, 4}));
        put_message(&graph, 12, value_of("y", QS_ONNX_FLOAT, 0, NULL));
        put_message(&graph, 5, integers_of("shape", count, cases[i].shape));
        put_message(&moved, 5, attribute_ints("perm", 3, cases[i].order));
        put_message(&graph, 1, moved);
        put_message(&graph, 1, node_of("Reshape", "moved,shape", "y"));
        fold_graph(graph, 13, NULL, &model);
        assert_string_equal(shape_text(output_of(&model)), cases[i].gives);
        qs_onnx_release(&model);
    }
}

/* Beside N only the number that the file has in its place can stand. */
TEST(what_stands_beside_a_fixed_batch) {
    for (int64_t rows = 2; rows <= 3; rows++) {
        const float token[3] = {1, 2, 3};
        const int64_t extent[] = {rows, 1}, open[] = {2, 4};
        qs_onnx_model model;
        bytes graph = {0}, joined = node_of("Concat", "x,token", "y");
        put_message(&graph, 11, value_of("x", QS_ONNX_FLOAT, 2, open));
        put_message(&graph, 12, value_of("y", QS_ONNX_FLOAT, 0, NULL));
        put_message(&graph, 5, tensor_of("token", QS_ONNX_FLOAT, 2, extent, token, (size_t)rows * sizeof *token));
        put_message(&joined, 5, attribute_int("axis", 1));
        put_message(&graph, 1, joined);
        bytes all = model_of(graph, 8, 13);
        assert_ok(qs_onnx_open_bytes("small", all.data, all.count, &model));
        if (rows == 2) {
            assert_ok(qs_onnx_fold(&model, NULL));
            assert_string_equal(shape_text(output_of(&model)), "N,5");
        } else
            assert_refused(qs_onnx_fold(&model, NULL), QS_BAD_FILE, "of axis 0 differ");
        qs_onnx_release(&model);
        free(all.data);
    }
}

/* x + w through two Identities of one initializer, and w itself: three parameters, so that they can learn apart. */
TEST(values_that_an_exporter_merged_are_told_apart) {
    qs_onnx_model model;
    bytes graph = graph_begin();
    put_message(&graph, 5, floats_of("w", 4, (const float[]){1, 2, 3, 4}));
    put_message(&graph, 1, node_of("Identity", "w", "w1"));
    put_message(&graph, 1, node_of("Identity", "w", "w2"));
    put_message(&graph, 1, node_of("Add", "x,w1", "a"));
    put_message(&graph, 1, node_of("Add", "a,w2", "b"));
    put_message(&graph, 1, node_of("Mul", "b,w", "y"));
    fold_graph(graph, 13, NULL, &model);
    assert_int_equal(model.graph.nodes, 3);
    const char *const names[] = {"w1", "w2", "w"};
    for (int i = 0; i < 3; i++) {
        const qs_onnx_value *value = &model.graph.value[model.graph.node[i].input[1]];
        assert_string_equal(value->name, names[i]);
        assert_true(value->is_parameter && value->constant && value->uses == 1);
    }
    qs_onnx_release(&model);
}

TEST(what_does_nothing_is_gone) {
    for (int keep = 0; keep < 2; keep++) {
        qs_onnx_model model;
        bytes graph = graph_begin();
        put_message(&graph, 1, node_of("Identity", "x", "a"));
        bytes cast = node_of("Cast", "a", "b");
        put_message(&cast, 5, attribute_int("to", QS_ONNX_FLOAT));
        put_message(&graph, 1, cast);
        put_message(&graph, 1, node_of("Dropout", "b", "c"));
        put_message(&graph, 1, node_of("Relu", "x", "nobody"));
        put_message(&graph, 1, node_of("Relu", "c", "y"));
        fold_graph(graph, 13, &(qs_onnx_fold_options){.keep_dropout = keep}, &model);
        assert_int_equal(model.graph.nodes, 1 + keep);
        assert_int_equal(count_of(&model.graph, "Dropout"), keep);
        qs_onnx_release(&model);
    }
}

/* The branch of a constant condition reads what is around it; nested branches too. */
TEST(a_constant_condition_chooses) {
    for (int yes = 0; yes < 2; yes++) {
        qs_onnx_model model;
        const int64_t one = yes, nothing = 0;
        bytes graph = graph_begin(), inner = {0}, then_branch = {0}, else_branch = {0};
        put_message(&inner, 1, node_of("Sigmoid", "a", "s"));
        put_message(&inner, 12, value_of("s", QS_ONNX_FLOAT, 0, &nothing));
        bytes nested = node_of("If", "yes", "t");
        put_message(&then_branch, 1, node_of("Relu", "x", "a"));
        put_message(&nested, 5, attribute_graph("then_branch", inner));
        put_message(&then_branch, 1, nested);
        put_message(&then_branch, 12, value_of("t", QS_ONNX_FLOAT, 0, &nothing));
        put_message(&else_branch, 1, node_of("Tanh", "x", "t2"));
        put_message(&else_branch, 12, value_of("t2", QS_ONNX_FLOAT, 0, &nothing));
        put_message(&graph, 5, tensor_of("yes", QS_ONNX_BOOL, 0, NULL, &one, 1));
        bytes choice = node_of("If", "yes", "chosen");
        put_message(&choice, 5, attribute_graph("then_branch", then_branch));
        put_message(&choice, 5, attribute_graph("else_branch", else_branch));
        put_message(&graph, 1, choice);
        put_message(&graph, 1, node_of("Neg", "chosen", "y"));
        fold_graph(graph, 13, NULL, &model);
        assert_int_equal(count_of(&model.graph, "If"), 0);
        assert_int_equal(count_of(&model.graph, "Relu") + count_of(&model.graph, "Sigmoid"), yes ? 2 : 0);
        assert_int_equal(count_of(&model.graph, "Tanh"), !yes);
        assert_string_equal(shape_text(output_of(&model)), "N,4");
        qs_onnx_release(&model);
    }
}

/* Ones of the batch's shape, less a list: the same for every sample. */
TEST(what_is_the_same_for_every_sample_is_a_constant) {
    qs_onnx_model model;
    bytes graph = graph_begin();
    put_message(&graph, 1, node_of("Shape", "x", "shape"));
    bytes fill = node_of("ConstantOfShape", "shape", "zeros");
    put_message(&graph, 1, fill);
    put_message(&graph, 1, node_of("Cos", "zeros", "ones"));
    bytes cast = node_of("Cast", "list", "reals");
    put_message(&cast, 5, attribute_int("to", QS_ONNX_FLOAT));
    put_message(&graph, 5, integers_of("list", 4, (const int64_t[]){1, 2, 3, 4}));
    put_message(&graph, 1, cast);
    put_message(&graph, 1, node_of("Sub", "ones,reals", "mask"));
    put_message(&graph, 1, node_of("Add", "x,mask", "y"));
    fold_graph(graph, 13, NULL, &model);
    assert_int_equal(model.graph.nodes, 1);
    const qs_onnx_value *mask = &model.graph.value[model.graph.node[0].input[1]];
    float values[4];
    assert_true(mask->repeats && mask->constant && !mask->is_parameter);
    assert_string_equal(shape_text(mask), "N,4");
    assert_int_equal(mask->constant->dim[0], 1);
    assert_ok(qs_onnx_tensor_floats(mask->constant, 0, 4, values));
    for (int i = 0; i < 4; i++)
        assert_true(values[i] == (float)-i);
    qs_onnx_release(&model);
}

/* Elements of a shape of which one is the batch: what a sum along the batch is, nobody knows before it runs. */
TEST(what_depends_on_the_batch_stays) {
    qs_onnx_model model;
    bytes graph = graph_begin();
    put_message(&graph, 1, node_of("Shape", "x", "shape"));
    put_message(&graph, 1, node_of("ConstantOfShape", "shape", "zeros"));
    bytes sum = node_of("CumSum", "zeros,axis", "sums");
    put_message(&graph, 5, integers_of("axis", 1, (const int64_t[]){0}));
    put_message(&graph, 1, sum);
    put_message(&graph, 1, node_of("Add", "x,sums", "y"));
    fold_graph(graph, 13, NULL, &model);
    assert_int_equal(count_of(&model.graph, "CumSum"), 1);
    qs_onnx_release(&model);
}

/* Ones for every sample times the batch, and the batch for every sample: N samples are no sample N times over. */
TEST(the_batch_as_a_number_stays) {
    static const char *const ops[] = {"Mul", "Expand"};
    for (size_t i = 0; i < COUNT_OF(ops); i++) {
        qs_onnx_model model;
        bytes graph = graph_begin();
        put_message(&graph, 5, integers_of("zero", 1, (const int64_t[]){0}));
        put_message(&graph, 1, node_of("Shape", "x", "shape"));
        put_message(&graph, 1, node_of("Gather", "shape,zero", "batch"));
        bytes fill = node_of("ConstantOfShape", "shape", "ones"), one = {0};
        put_text(&one, 1, "value");
        put_message(&one, 5, integers_of("", 1, (const int64_t[]){1}));
        put_int(&one, 20, QS_ONNX_ATTRIBUTE_TENSOR);
        put_message(&fill, 5, one);
        put_message(&graph, 1, fill);
        put_message(&graph, 1, node_of(ops[i], i == 0 ? "ones,batch" : "batch,shape", "number"));
        bytes cast = node_of("Cast", "number", "real");
        put_message(&cast, 5, attribute_int("to", QS_ONNX_FLOAT));
        put_message(&graph, 1, cast);
        put_message(&graph, 1, node_of("Mul", "x,real", "y"));
        fold_graph(graph, 13, NULL, &model);
        assert_int_equal(model.graph.nodes, 3);
        assert_string_equal(model.graph.node[0].op, ops[i]);
        assert_string_equal(shape_text(output_of(&model)), "N,4");
        qs_onnx_release(&model);
    }
}

TEST(an_extent_of_no_tensor_is_refused) {
    static const int64_t times[] = {-1, INT64_C(1) << 60};
    for (size_t i = 0; i < COUNT_OF(times); i++) {
        qs_onnx_model model;
        bytes graph = graph_begin();
        put_message(&graph, 5, integers_of("times", 2, (const int64_t[]){1, times[i]}));
        put_message(&graph, 1, node_of("Tile", "x,times", "a"));
        put_message(&graph, 1, node_of("Split", "a", "y,z"));
        bytes model_bytes = model_of(graph, 8, 11);
        assert_ok(qs_onnx_open_bytes("small", model_bytes.data, model_bytes.count, &model));
        assert_refused(qs_onnx_fold(&model, NULL), QS_BAD_FILE,
                       "node that writes \"a\" (Tile): axis 1 of its result would have the extent");
        qs_onnx_release(&model);
        free(model_bytes.data);
    }
}

/* A small file that asks for much: sums over the same 2^25 elements, of which each is computed as often as work is allowed. */
TEST(work_is_bounded_however_few_bytes_ask_for_it) {
    qs_onnx_model model;
    bytes graph = graph_begin();
    char sum[16], next[16];
    put_message(&graph, 5, integers_of("extent", 1, (const int64_t[]){1 << 25}));
    put_message(&graph, 5, integers_of("one", 1, (const int64_t[]){1}));
    put_message(&graph, 1, node_of("Expand", "one,extent", "many"));
    snprintf(sum, sizeof sum, "x");
    for (int i = 0; i < 200; i++) {
        char total[16], real[16], pair[40];
        snprintf(total, sizeof total, "t%d", i);
        snprintf(real, sizeof real, "r%d", i);
        snprintf(next, sizeof next, i < 199 ? "s%d" : "y", i);
        put_message(&graph, 1, node_of("ReduceSum", "many", total));
        bytes cast = node_of("Cast", total, real);
        put_message(&cast, 5, attribute_int("to", QS_ONNX_FLOAT));
        put_message(&graph, 1, cast);
        snprintf(pair, sizeof pair, "%s,%s", sum, real);
        put_message(&graph, 1, node_of("Add", pair, next));
        memcpy(sum, next, sizeof sum);
    }
    fold_graph(graph, 13, NULL, &model);
    assert_true(count_of(&model.graph, "ReduceSum") >= 190 && count_of(&model.graph, "ReduceSum") < 200);
    qs_onnx_release(&model);
    /* The largest of 2^13, all of them, are as many comparisons as are allowed: the next selections stay. */
    enum { COUNT = 8192 };
    const int64_t count = COUNT;
    float *values = calloc(COUNT, sizeof *values);
    assert_non_null(values);
    for (int i = 0; i < COUNT; i++)
        values[i] = (float)(COUNT - i);
    graph = graph_begin();
    put_message(&graph, 5, floats_of("values", COUNT, values));
    put_message(&graph, 5, integers_of("all", 1, &count));
    put_message(&graph, 1, node_of("TopK", "values,all", "a,i"));
    put_message(&graph, 1, node_of("TopK", "a,all", "b,j"));
    put_message(&graph, 1, node_of("TopK", "b,all", "c,k"));
    put_message(&graph, 1, node_of("ReduceMax", "c", "most"));
    put_message(&graph, 1, node_of("Add", "x,most", "y"));
    fold_graph(graph, 13, &(qs_onnx_fold_options){.parameters = true}, &model);
    assert_in_range(count_of(&model.graph, "TopK"), 1, 2);
    qs_onnx_release(&model);
    free(values);
}

TEST(open_extents_are_bound_by_name) {
    qs_onnx_model model;
    const int64_t dims[] = {-1, 3, -1, -1};
    bytes graph = {0};
    put_message(&graph, 11, value_of("x", QS_ONNX_FLOAT, 4, dims));
    put_message(&graph, 12, value_of("y", QS_ONNX_FLOAT, 4, dims));
    bytes pool = node_of("MaxPool", "x", "y");
    put_message(&pool, 5, attribute_ints("kernel_shape", 2, (const int64_t[]){2, 2}));
    put_message(&pool, 5, attribute_ints("strides", 2, (const int64_t[]){2, 2}));
    put_message(&graph, 1, pool);
    bytes model_bytes = model_of(graph, 8, 13);
    assert_ok(qs_onnx_open_bytes("small", model_bytes.data, model_bytes.count, &model));
    assert_refused(qs_onnx_fold(&model, NULL), QS_USAGE, "2 extents of its inputs are open: \"x:2\", \"x:3\"");
    qs_onnx_release(&model);
    assert_ok(qs_onnx_open_bytes("small", model_bytes.data, model_bytes.count, &model));
    const qs_onnx_binding bindings[] = {{"x:2", 32}, {"x:3", 17}};
    assert_ok(qs_onnx_fold(&model, &(qs_onnx_fold_options){.bindings = 2, .binding = bindings}));
    assert_string_equal(shape_text(output_of(&model)), "N,3,16,8");
    qs_onnx_release(&model);
    free(model_bytes.data);
}

TEST(a_node_that_cannot_be_is_named) {
    qs_onnx_model model;
    bytes graph = graph_begin();
    put_message(&graph, 5, floats_of("w", 3, (const float[]){1, 2, 3}));
    put_message(&graph, 1, node_of("Add", "x,w", "y"));
    bytes model_bytes = model_of(graph, 8, 13);
    assert_ok(qs_onnx_open_bytes("small", model_bytes.data, model_bytes.count, &model));
    assert_refused(qs_onnx_fold(&model, NULL), QS_BAD_FILE,
                   "small: node that writes \"y\" (Add): extents 4 and 3 cannot be broadcast to each other");
    qs_onnx_release(&model);
    free(model_bytes.data);
    /* A shape of reals is the file's mistake, not the user's. */
    graph = graph_begin();
    put_message(&graph, 5, floats_of("shape", 2, (const float[]){2, 2}));
    put_message(&graph, 1, node_of("Reshape", "x,shape", "y"));
    model_bytes = model_of(graph, 8, 13);
    assert_ok(qs_onnx_open_bytes("small", model_bytes.data, model_bytes.count, &model));
    assert_refused(qs_onnx_fold(&model, NULL), QS_BAD_FILE, "input 1 must be integers, it is float");
    qs_onnx_release(&model);
    free(model_bytes.data);
}

/* Only what is used must be known: an opset above all known ones is refused at the first operator. */
TEST(an_opset_is_refused_by_the_operator) {
    qs_onnx_model model;
    bytes graph = graph_begin();
    put_message(&graph, 1, node_of("Relu", "x", "y"));
    bytes model_bytes = model_of(graph, 8, 77);
    assert_ok(qs_onnx_open_bytes("small", model_bytes.data, model_bytes.count, &model));
    assert_refused(qs_onnx_fold(&model, NULL), QS_UNSUPPORTED, "opset 77: Relu is known from opset 6 to 28");
    qs_onnx_release(&model);
    free(model_bytes.data);
}

/* ---- The models at hand ---- */

static const struct at_hand {
    const char *name;
    int nodes; /* that stay */
    const char *output;
    size_t bindings;
    qs_onnx_binding binding[2];
} models[] = {
    {"bert-dummy-2layer-opset12.onnx", 87, "N,L,16", 0, {{0}}},
    {"bert-large-topology-tiny-qa-opset11.onnx", 1660, "N,7", 0, {{0}}},
    {"mnist-onnxmlir-opset13.onnx", 6, "N,10", 0, {{0}}},
    {"ppocr-mobile-v2-cls-mobilenetv3-opset14.onnx", 161, "N,2", 2, {{"x:2", 48}, {"x:3", 192}}},
    {"resnet50-first-block.onnx", 15, "N,256,56,56", 0, {{0}}},
    {"silero-vad-16k-opset15.onnx", 59, "N,1", 1, {{"input:1", 576}}},
    {"squeezenet1.0-fp16-opset7.onnx", 65, "N,1000,1,1", 0, {{0}}},
    {"t5-encoder-random-opset12.onnx", 45, "N,L,8", 0, {{0}}},
    {"ultraface-RFB-320-opset9.onnx", 163, "N,4420,2", 0, {{0}}},
    {"light/light_bvlc_alexnet.onnx", 22, "N,1000", 0, {{0}}},
    {"light/light_inception_v1.onnx", 143, "N,1000", 0, {{0}}},
    {"light/light_resnet50.onnx", 176, "N,1000", 0, {{0}}},
    {"light/light_squeezenet.onnx", 65, "N,1000,1,1", 0, {{0}}},
    {"light/light_vgg19.onnx", 44, "N,1000", 0, {{0}}},
    {"mnist-cntk-opset8/mnist.onnx", 12, "N,10", 0, {{0}}},
};

TEST(every_model_folds) {
    bool any = false;
    for (size_t i = 0; i < COUNT_OF(models); i++) {
        char path[600];
        qs_onnx_model model;
        snprintf(path, sizeof path, "%s/data/onnx/models/%s", getenv("QS_TEST_SHARED"), models[i].name);
        FILE *file = fopen(path, "rb");
        if (!file) continue;
        fclose(file);
        any = true;
        assert_ok(qs_onnx_open(path, &model));
        const qs_onnx_fold_options options = {.bindings = models[i].bindings, .binding = models[i].binding};
        assert_ok(qs_onnx_fold(&model, &options));
        if (model.graph.nodes != models[i].nodes)
            print_error("%s: %d nodes, expected %d\n", models[i].name, model.graph.nodes, models[i].nodes);
        assert_int_equal(model.graph.nodes, models[i].nodes);
        assert_string_equal(shape_text(output_of(&model)), models[i].output);
        for (int n = 0; n < model.graph.nodes; n++)
            for (int k = 0; k < model.graph.node[n].outputs; k++) {
                const int value = model.graph.node[n].output[k];
                if (value < 0 || model.graph.value[value].uses == 0) continue;
                if (model.graph.value[value].rank < 0) print_error("%s: no shape of %s\n", models[i].name, model.graph.value[value].name);
                assert_true(model.graph.value[value].rank >= 0 && model.graph.value[value].producer == n);
            }
        assert_int_equal(count_of(&model.graph, "If"), 0);
        qs_onnx_release(&model);
    }
    if (!any) skip();
}

static int finish(void **state) {
    (void)state;
    free(kept_bytes.data);
    return 0;
}

TEST_MAIN_WITH(NULL, finish, a_shape_that_is_computed_from_the_batch_resolves, a_fixed_batch_is_the_batch,
               a_fixed_batch_stays_where_its_elements_are, what_stands_beside_a_fixed_batch, values_that_an_exporter_merged_are_told_apart,
               what_does_nothing_is_gone, a_constant_condition_chooses, what_is_the_same_for_every_sample_is_a_constant,
               what_depends_on_the_batch_stays, the_batch_as_a_number_stays, an_extent_of_no_tensor_is_refused,
               work_is_bounded_however_few_bytes_ask_for_it, open_extents_are_bound_by_name, a_node_that_cannot_be_is_named,
               an_opset_is_refused_by_the_operator, every_model_folds)
