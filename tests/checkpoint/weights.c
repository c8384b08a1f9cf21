// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Weights files: what is written comes back bit for bit and lies as PyTorch has it; files of another model, with a tensor too few, too many
 * or of another shape are refused by name and leave the buffers alone; files of other programs are read by names, prefix and layout. */
#include "kit/folder.h"

#include "qsync/checkpoint.h"

typedef struct fixture {
    char folder[FOLDER_PATH], path[FOLDER_PATH + 32];
    qs_graph *graph;
    float *trained, *statistics;
} fixture;

static int set_up(void **state) {
    fixture *here = calloc(1, sizeof *here);
    folder_make(here->folder);
    snprintf(here->path, sizeof here->path, "%s/weights.safetensors", here->folder);
    const qs_model_input input = {3, 16, 16, 10};
    assert_ok(qs_model_build("resnet8:width=0.5", &input, &here->graph));
    here->trained = calloc((size_t)here->graph->trained_elements, sizeof(float));
    here->statistics = calloc((size_t)here->graph->statistics_elements, sizeof(float));
    qs_graph_initialize(here->graph, 7, here->trained, here->statistics);
    *state = here;
    return 0;
}

static int tear_down(void **state) {
    fixture *here = *state;
    folder_remove(here->folder);
    qs_graph_release(here->graph);
    free(here->trained);
    free(here->statistics);
    free(here);
    return 0;
}

static void round_trip(void **state) {
    fixture *here = *state;
    const size_t trained_bytes = (size_t)here->graph->trained_elements * sizeof(float);
    const size_t statistics_bytes = (size_t)here->graph->statistics_elements * sizeof(float);
    here->statistics[3] = 0.125f;
    assert_ok(qs_weights_write(here->path, here->graph, here->trained, here->statistics));
    float *trained = calloc(1, trained_bytes), *statistics = calloc(1, statistics_bytes);
    assert_ok(qs_weights_read(here->path, here->graph, trained, statistics));
    assert_memory_equal(trained, here->trained, trained_bytes);
    assert_memory_equal(statistics, here->statistics, statistics_bytes);
    char name[QS_MODEL_NAME];
    assert_ok(qs_weights_model(here->path, name));
    assert_string_equal(name, here->graph->name);
    free(trained);
    free(statistics);
}

/* Reads for `graph` what was written for the fixture's; nothing may be touched. */
static void refuse(fixture *here, const qs_graph *graph, const char *why) {
    float *trained = calloc((size_t)graph->trained_elements, sizeof(float));
    float *statistics = calloc((size_t)graph->statistics_elements, sizeof(float));
    assert_refused(qs_weights_read(here->path, graph, trained, statistics), QS_MISMATCH, why);
    for (int64_t i = 0; i < graph->trained_elements; i++)
        assert_true(trained[i] == 0);
    free(trained);
    free(statistics);
}

static void other_models(void **state) {
    fixture *here = *state;
    assert_ok(qs_weights_write(here->path, here->graph, here->trained, here->statistics));
    qs_graph *other = NULL;
    const qs_model_input input = {3, 16, 16, 10}, classes = {3, 16, 16, 11};
    assert_ok(qs_model_build("resnet8", &input, &other));
    refuse(here, other, "weights of model \"resnet8:width=0.5\", not of \"resnet8\"");
    qs_graph_release(other);
    assert_ok(qs_model_build("resnet8:width=0.5", &classes, &other));
    refuse(here, other, "tensor fc.weight has shape [10,32], the model's is [11,32]");
    qs_graph_release(other);
}

/* What the fixture's file has, read, with room for one tensor more. */
static qs_tensor_set file_read(fixture *here) {
    qs_tensor_set set;
    assert_ok(qs_weights_write(here->path, here->graph, here->trained, here->statistics));
    assert_ok(qs_tensor_set_read(here->path, &set));
    set.tensors = realloc(set.tensors, (set.count + 1) * sizeof *set.tensors);
    assert_non_null(set.tensors);
    return set;
}

static qs_named_tensor *named(qs_tensor_set *set, const char *name) {
    for (size_t i = 0; i < set->count; i++)
        if (strcmp(set->tensors[i].name, name) == 0) return &set->tensors[i];
    fail_msg("the file has no %s", name);
    return NULL;
}

static void missing_and_superfluous(void **state) {
    fixture *here = *state;
    qs_tensor_set set = file_read(here);
    const size_t count = set.count;
    set.count = count - 1;
    char missing[160];
    snprintf(missing, sizeof missing, "tensor %s is missing", set.tensors[count - 1].name);
    assert_ok(qs_tensor_set_write(here->path, &set));
    refuse(here, here->graph, missing);
    set.count = count + 1;
    set.tensors[count] = set.tensors[0];
    strcpy(set.tensors[count].name, "stranger");
    assert_ok(qs_tensor_set_write(here->path, &set));
    refuse(here, here->graph, "tensor stranger is superfluous");
    strcpy(set.tensors[count].name, "stem.bn.num_batches_tracked");
    assert_ok(qs_tensor_set_write(here->path, &set));
    assert_ok(qs_weights_read(here->path, here->graph, here->trained, here->statistics));
    set.count = count;
    named(&set, "fc.bias")->tensor.format = qs_format_of("int8");
    assert_ok(qs_tensor_set_write(here->path, &set));
    refuse(here, here->graph, "tensor fc.bias is I8");
    qs_tensor_set_release(&set);
}

/* Every value at the place where PyTorch has it: names, shapes, O,I,H,W. */
static void as_pytorch_has_it(void **state) {
    fixture *here = *state;
    const int conv = qs_graph_find(here->graph, "stem.conv");
    const qs_parameter *parameter = qs_graph_parameter(here->graph, conv, QS_WEIGHTS);
    const int64_t *dim = parameter->shape.dim;
    qs_tensor_set set = file_read(here);
    const qs_tensor *weight = qs_tensor_set_find(&set, "stem.conv.weight");
    assert_non_null(weight);
    assert_true(qs_shape_equal(&weight->shape, &parameter->shape));
    const float *mine = here->trained + parameter->offset, *file = weight->data;
    for (int64_t o = 0; o < dim[0]; o++)
        for (int64_t i = 0; i < dim[1]; i++)
            for (int64_t p = 0; p < dim[2] * dim[3]; p++)
                assert_true(file[(o * dim[1] + i) * dim[2] * dim[3] + p] == mine[(o * dim[2] * dim[3] + p) * dim[1] + i]);
    static const char *const names[] = {"stem.bn.weight",      "stem.bn.bias", "stem.bn.running_mean",
                                        "stem.bn.running_var", "fc.weight",    "fc.bias"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        (void)named(&set, names[i]);
    assert_int_equal(set.count, here->graph->parameters);
    qs_tensor_set_release(&set);
}

/* A linear layer behind a flattened image: its columns are C,H,W in files and H,W,C in memory, dropout and relu between them or not. */
static void behind_a_flatten(void **state) {
    fixture *here = *state;
    enum { C = 3, H = 2, W = 2, F = C * H * W, O = 2 };
    qs_graph *graph;
    int flat, dropped, last;
    assert_ok(qs_graph_of_images("flat", C, H, W, &graph));
    assert_ok(qs_graph_add(graph, "flatten", "flatten", NULL, 1, (int[]){0}, 0, false, &flat));
    assert_ok(qs_graph_add(graph, "relu", "relu", NULL, 1, &flat, 0, false, &dropped));
    assert_ok(qs_graph_add(graph, "fc", "linear", NULL, 1, &dropped, O, true, &last));
    assert_ok(qs_graph_finish(graph, last, NULL));
    float trained[64], back[64] = {0};
    assert_true(graph->trained_elements <= 64);
    for (int i = 0; i < 64; i++)
        trained[i] = (float)i;
    assert_ok(qs_weights_write(here->path, graph, trained, NULL));
    qs_tensor_set set;
    assert_ok(qs_tensor_set_read(here->path, &set));
    const float *file = qs_tensor_set_find(&set, "fc.weight")->data;
    const int64_t at = qs_graph_parameter(graph, last, QS_WEIGHTS)->offset;
    for (int o = 0; o < O; o++)
        for (int c = 0; c < C; c++)
            for (int p = 0; p < H * W; p++)
                assert_true(file[o * F + c * H * W + p] == trained[at + o * F + p * C + c]);
    qs_tensor_set_release(&set);
    assert_ok(qs_weights_read(here->path, graph, back, NULL));
    for (int i = 0; i < O * F; i++)
        assert_true(back[at + i] == trained[at + i]);
    qs_graph_release(graph);
}

/* What a file has of a gain and the linear layer behind it, which stand behind an image seen as one vector: flatten has the features in the
 * order C,H,W there, reshape as they lie in memory. */
static void check_vector(fixture *here, const char *op, bool by_channel) {
    enum { C = 3, P = 4, F = C * P, O = 2 };
    qs_graph *graph;
    int at = 0, gain, last;
    float trained[64];
    qs_tensor_set set;
    assert_ok(qs_graph_of_images("vector", C, 2, 2, &graph));
    assert_ok(qs_graph_add(graph, "vector", op, &(qs_attributes){.extent = {0, 0, -1}}, 1, &at, 0, false, &at));
    assert_ok(qs_graph_add(graph, "gain", "gain", NULL, 1, &at, 0, false, &gain));
    assert_ok(qs_graph_add(graph, "fc", "linear", NULL, 1, &gain, O, true, &last));
    assert_ok(qs_graph_finish(graph, last, NULL));
    assert_true(graph->trained_elements <= 64);
    for (int i = 0; i < 64; i++)
        trained[i] = (float)i;
    assert_ok(qs_weights_write(here->path, graph, trained, NULL));
    assert_ok(qs_tensor_set_read(here->path, &set));
    const float *weights = qs_tensor_set_find(&set, "fc.weight")->data, *gains = qs_tensor_set_find(&set, "gain.weight")->data;
    for (int i = 0; i < F; i++) {
        const int place = by_channel ? i % C * P + i / C : i;
        assert_true(gains[place] == trained[qs_graph_parameter(graph, gain, QS_SCALE)->offset + i]);
        for (int o = 0; o < O; o++)
            assert_true(weights[o * F + place] == trained[qs_graph_parameter(graph, last, QS_WEIGHTS)->offset + o * F + i]);
    }
    qs_tensor_set_release(&set);
    qs_graph_release(graph);
}

static void images_as_vectors(void **state) {
    check_vector(*state, "flatten", true);
    check_vector(*state, "reshape", false);
}

/* ---- Models of other programs ---- */

enum { D = 3, FF = 4 };

/* Linear layers under these names, one behind the other, on vectors of D features, with a layer norm first. */
static qs_graph *chain(int count, const char *const *name, const int *outputs, bool last_bias) {
    qs_graph *graph;
    int node;
    assert_ok(qs_graph_of_images("chain", D, 0, 0, &graph));
    assert_ok(qs_graph_add(graph, "ln", "layer_norm", NULL, 1, (int[]){0}, 0, false, &node));
    for (int i = 0; i < count; i++)
        assert_ok(qs_graph_add(graph, name[i], "linear", NULL, 1, &node, outputs[i], i < count - 1 || last_bias, &node));
    assert_ok(qs_graph_finish(graph, node, NULL));
    return graph;
}

static const char *const gpt2_names[] = {"h.0.attn.q", "h.0.attn.k", "h.0.attn.v", "h.0.attn.c_proj", "h.0.mlp.c_fc", "h.0.mlp.c_proj"};
static const int gpt2_outputs[] = {D, D, D, D, FF, D};

static const float *parameter_of(const qs_graph *graph, const float *trained, const char *node, qs_role role) {
    return trained + qs_graph_parameter(graph, qs_graph_find(graph, node), role)->offset;
}

/* c_attn is [in, 3 out] and holds queries, keys and values side by side; the other matrices are transposed, too; biases are not. */
static void gpt2_layout(void **state) {
    fixture *here = *state;
    qs_graph *graph = chain(6, gpt2_names, gpt2_outputs, true);
    const int64_t elements = graph->trained_elements;
    float *trained = calloc((size_t)elements, sizeof *trained), *back = calloc((size_t)elements, sizeof *back);
    qs_graph_initialize(graph, 3, trained, NULL);
    for (int i = 0; i < graph->parameters; i++)
        for (int64_t k = 0; k < qs_shape_count(&graph->parameter[i].shape); k++)
            trained[graph->parameter[i].offset + k] += (float)i;
    assert_ok(qs_weights_write(here->path, graph, trained, NULL));
    qs_tensor_set set;
    assert_ok(qs_tensor_set_read(here->path, &set));
    assert_int_equal(set.count, 2 + 8);
    const qs_tensor *packed = qs_tensor_set_find(&set, "transformer.h.0.attn.c_attn.weight"),
                    *bias = qs_tensor_set_find(&set, "transformer.h.0.attn.c_attn.bias"),
                    *wide = qs_tensor_set_find(&set, "transformer.h.0.mlp.c_fc.weight");
    const qs_shape packed_shape = qs_shape_of(2, D, 3 * D), bias_shape = qs_shape_of(1, 3 * D), wide_shape = qs_shape_of(2, D, FF);
    assert_true(packed && qs_shape_equal(&packed->shape, &packed_shape));
    assert_true(bias && qs_shape_equal(&bias->shape, &bias_shape));
    assert_true(wide && qs_shape_equal(&wide->shape, &wide_shape));
    for (int part = 0; part < 3; part++)
        for (int o = 0; o < D; o++) {
            for (int i = 0; i < D; i++)
                assert_true(((const float *)packed->data)[i * 3 * D + part * D + o] ==
                            parameter_of(graph, trained, gpt2_names[part], QS_WEIGHTS)[o * D + i]);
            assert_true(((const float *)bias->data)[part * D + o] == parameter_of(graph, trained, gpt2_names[part], QS_BIAS)[o]);
        }
    for (int o = 0; o < FF; o++)
        for (int i = 0; i < D; i++)
            assert_true(((const float *)wide->data)[i * FF + o] == parameter_of(graph, trained, "h.0.mlp.c_fc", QS_WEIGHTS)[o * D + i]);
    /* minGPT's file is the same with matrices as linear layers have them, here without the prefix. */
    float plain[3 * D * D], c_fc[FF * D], c_proj[2][FF * D];
    for (int i = 0; i < 3 * D * D; i++)
        plain[i] = ((const float *)packed->data)[i % D * 3 * D + i / D];
    named(&set, "transformer.h.0.attn.c_attn.weight")->tensor = (qs_tensor){qs_shape_of(2, 3 * D, D), qs_format_of("fp32"), plain};
    memcpy(c_fc, parameter_of(graph, trained, "h.0.mlp.c_fc", QS_WEIGHTS), sizeof c_fc);
    named(&set, "transformer.h.0.mlp.c_fc.weight")->tensor = (qs_tensor){qs_shape_of(2, FF, D), qs_format_of("fp32"), c_fc};
    memcpy(c_proj[0], parameter_of(graph, trained, "h.0.attn.c_proj", QS_WEIGHTS), D * D * sizeof(float));
    named(&set, "transformer.h.0.attn.c_proj.weight")->tensor.data = c_proj[0];
    memcpy(c_proj[1], parameter_of(graph, trained, "h.0.mlp.c_proj", QS_WEIGHTS), FF * D * sizeof(float));
    named(&set, "transformer.h.0.mlp.c_proj.weight")->tensor = (qs_tensor){qs_shape_of(2, D, FF), qs_format_of("fp32"), c_proj[1]};
    assert_ok(qs_weights_read(here->path, graph, back, NULL));
    assert_memory_equal(back, trained, (size_t)elements * sizeof(float));
    for (size_t i = 0; i < set.count; i++)
        memmove(set.tensors[i].name, set.tensors[i].name + 12, sizeof set.tensors[i].name - 12);
    assert_string_equal(set.tensors[0].name, "ln.weight");
    assert_ok(qs_tensor_set_write(here->path, &set));
    memset(back, 0, (size_t)elements * sizeof(float));
    assert_ok(qs_weights_read(here->path, graph, back, NULL));
    assert_memory_equal(back, trained, (size_t)elements * sizeof(float));
    qs_tensor_set_release(&set);
    /* A tensor for each is as good. */
    qs_tensor_set apart = {0};
    qs_named_tensor tensors[14];
    for (int i = 0; i < graph->parameters; i++) {
        static const char *const kinds[2] = {"weight", "bias"};
        const qs_parameter *one = &graph->parameter[i];
        tensors[apart.count] = (qs_named_tensor){.tensor = {one->shape, qs_format_of("fp32"), trained + one->offset}};
        snprintf(tensors[apart.count++].name, 96, "%s.%s", graph->node[one->node].name, kinds[i % 2]);
    }
    apart.tensors = tensors;
    assert_ok(qs_tensor_set_write(here->path, &apart));
    memset(back, 0, (size_t)elements * sizeof(float));
    assert_ok(qs_weights_read(here->path, graph, back, NULL));
    assert_memory_equal(back, trained, (size_t)elements * sizeof(float));
    qs_graph_release(graph);
    free(trained);
    free(back);
}

/* Prefixes as Hugging Face's classes with heads have them; a vision transformer's class token and positions. */
static void families(void **state) {
    fixture *here = *state;
    static const char *const bert[] = {"encoder.layer.0.attention.self.query", "classifier"};
    static const char *const vit[] = {"encoder.layer.0.attention.attention.query", "embeddings.cls_token"};
    static const struct {
        int count;
        const char *const *name;
        int outputs[3];
        int tensors;
        const char *in_file[3];
    } families[] = {
        {2, bert, {D, 2}, 6, {"bert.encoder.layer.0.attention.self.query.weight", "classifier.weight", "bert.ln.bias"}},
        {2, vit, {D, D}, 5, {"vit.encoder.layer.0.attention.attention.query.bias", "vit.embeddings.cls_token", "vit.ln.weight"}},
    };
    for (int i = 0; i < 2; i++) {
        qs_tensor_set set;
        qs_graph *graph = chain(families[i].count, families[i].name, families[i].outputs, i == 0);
        const size_t bytes = (size_t)graph->trained_elements * sizeof(float);
        float *trained = calloc(1, bytes), *back = calloc(1, bytes);
        qs_graph_initialize(graph, 3, trained, NULL);
        assert_ok(qs_weights_write(here->path, graph, trained, NULL));
        assert_ok(qs_tensor_set_read(here->path, &set));
        assert_int_equal(set.count, families[i].tensors);
        for (int k = 0; k < 3; k++)
            (void)named(&set, families[i].in_file[k]);
        if (i == 1) assert_int_equal(named(&set, "vit.embeddings.cls_token")->tensor.shape.axes, 3);
        assert_ok(qs_weights_read(here->path, graph, back, NULL));
        assert_memory_equal(back, trained, bytes);
        qs_tensor_set_release(&set);
        qs_graph_release(graph);
        free(trained);
        free(back);
    }
}

static const char *const head_names[] = {"bert.encoder.dense", "classifier"};
static const int head_outputs[] = {FF, 2};

/* Half types widen; a prefix is put before names or taken away; old names of norms; what starts fresh keeps its values. */
static void choices(void **state) {
    fixture *here = *state;
    qs_graph *graph = chain(2, head_names, head_outputs, true);
    uint16_t dense[FF * D], half[FF];
    float scale[D] = {1, 2, 3}, trained[128], classifier[2 * 5] = {0};
    for (int i = 0; i < FF * D; i++)
        dense[i] = (uint16_t)qs_encode_value(qs_format_of("bf16"), (float)i);
    for (int i = 0; i < FF; i++)
        half[i] = (uint16_t)qs_encode_value(qs_format_of("fp16"), (float)i / 4);
    qs_named_tensor tensors[] = {{"encoder.dense.weight", {qs_shape_of(2, FF, D), qs_format_of("bf16"), dense}, ""},
                                 {"encoder.dense.bias", {qs_shape_of(1, FF), qs_format_of("fp16"), half}, ""},
                                 {"ln.gamma", {qs_shape_of(1, D), qs_format_of("fp32"), scale}, ""},
                                 {"ln.beta", {qs_shape_of(1, D), qs_format_of("fp32"), scale}, ""},
                                 {"classifier.weight", {qs_shape_of(2, 5, 2), qs_format_of("fp32"), classifier}, ""},
                                 {"pooler.bias", {qs_shape_of(1, D), qs_format_of("fp32"), scale}, ""}};
    qs_tensor_set set = {.count = 6, .tensors = tensors};
    assert_true(graph->trained_elements <= 128);
    assert_ok(qs_tensor_set_write(here->path, &set));
    refuse(here, graph, "tensor classifier.weight has shape [5,2], the model's is [2,4]");
    const struct {
        qs_weights_choice choice;
        qs_status status;
        const char *says;
    } refused[] = {
        {{"classifier.*", NULL}, QS_MISMATCH, "tensor pooler.bias is superfluous"},
        {{NULL, "pooler.*"}, QS_MISMATCH, "tensor classifier.weight has shape"},
        {{"classifer.*", "pooler.*"}, QS_USAGE, "\"classifer.*\" fits no parameter"},
        {{"classifier.*", "pooler.*,poler.*"}, QS_USAGE, "\"poler.*\" fits no tensor"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_refused(qs_weights_start(here->path, graph, &refused[i].choice, trained, NULL, NULL), refused[i].status, refused[i].says);
    for (int i = 0; i < 128; i++)
        trained[i] = -7;
    uint64_t hash = 0;
    const qs_weights_choice choice = {"classifier.weights,classifier.b*", "pooler.*"};
    assert_ok(qs_weights_start(here->path, graph, &choice, trained, NULL, &hash));
    assert_true(hash != 0);
    for (int i = 0; i < FF * D; i++)
        assert_true(parameter_of(graph, trained, "bert.encoder.dense", QS_WEIGHTS)[i] == (float)i);
    for (int i = 0; i < FF; i++)
        assert_true(parameter_of(graph, trained, "bert.encoder.dense", QS_BIAS)[i] == (float)i / 4);
    assert_memory_equal(parameter_of(graph, trained, "ln", QS_SHIFT), scale, sizeof scale);
    for (int i = 0; i < 2 * FF; i++)
        assert_true(parameter_of(graph, trained, "classifier", QS_WEIGHTS)[i] == -7);
    char name[QS_MODEL_NAME];
    assert_ok(qs_tensor_set_write(here->path, &set));
    assert_refused(qs_weights_model(here->path, name), QS_MISMATCH, "does not say of which model");
    qs_graph_release(graph);
}

/* The table of an output layer that is tied is there once; a second copy may be, if it is one. */
static void tied_tables(void **state) {
    fixture *here = *state;
    enum { IDS = 5, LENGTH = 4 };
    const qs_input ids = {.name = "ids", .type = QS_INPUT_I32, .rank = 1, .extent = {LENGTH}};
    const qs_attributes rows = {.vocabulary = IDS};
    const qs_target next = {.kind = QS_TARGET_CLASS_PER_POSITION, .classes = IDS, .extent = LENGTH, .ignored = -1};
    float trained[64] = {1, 2, 3}, back[64] = {0};
    qs_graph *graph;
    int table, output;
    assert_ok(qs_graph_create("tied", "tokens", 1, &ids, &graph));
    assert_ok(qs_graph_add(graph, "wte", "embedding", &rows, 1, (int[]){0}, D, false, &table));
    assert_ok(qs_graph_add_tied(graph, "lm_head", "linear", NULL, 1, &table, IDS, false, table, &output));
    assert_ok(qs_graph_finish(graph, output, &next));
    assert_ok(qs_weights_write(here->path, graph, trained, NULL));
    qs_tensor_set set;
    assert_ok(qs_tensor_set_read(here->path, &set));
    assert_int_equal(set.count, 1);
    set.tensors = realloc(set.tensors, 2 * sizeof *set.tensors);
    assert_non_null(set.tensors);
    set.count = 2;
    set.tensors[1] = set.tensors[0];
    strcpy(set.tensors[1].name, "lm_head.weight");
    assert_ok(qs_tensor_set_write(here->path, &set));
    assert_ok(qs_weights_read(here->path, graph, back, NULL));
    assert_memory_equal(back, trained, sizeof trained);
    set.tensors[1].tensor.data = back + 1;
    assert_ok(qs_tensor_set_write(here->path, &set));
    refuse(here, graph, "tensor lm_head.weight is not wte.weight, which the model has in its place: they are tied");
    qs_tensor_set_release(&set);
    qs_graph_release(graph);
}

static void no_file(void **state) {
    fixture *here = *state;
    char name[QS_MODEL_NAME];
    assert_int_not_equal(qs_weights_read(here->path, here->graph, here->trained, here->statistics), QS_OK);
    assert_int_not_equal(qs_weights_model(here->path, name), QS_OK);
}

/* Parameters of an imported model lie under the names, in the extents and as transposed as in the user's own file. */
static void names_of_the_user(void **state) {
    fixture *here = *state;
    qs_tensor_set set;
    const qs_parameter *fc = qs_graph_parameter(here->graph, qs_graph_find(here->graph, "fc"), QS_WEIGHTS);
    const qs_parameter *bias = qs_graph_parameter(here->graph, qs_graph_find(here->graph, "fc"), QS_BIAS);
    const qs_parameter_origin weights_origin = {.file = "onnx::MatMul_7", .transposed = true},
                              bias_origin = {.file = "bias", .shape = qs_shape_of(3, 1, 1, 10)};
    assert_ok(qs_graph_origin_set(here->graph, (int)(fc - here->graph->parameter), &weights_origin));
    assert_ok(qs_graph_origin_set(here->graph, (int)(bias - here->graph->parameter), &bias_origin));
    round_trip(state);
    assert_ok(qs_tensor_set_read(here->path, &set));
    const qs_named_tensor *weights = named(&set, "onnx::MatMul_7");
    assert_true(qs_shape_equal(&weights->tensor.shape, &(qs_shape){2, {32, 10}}));
    assert_true(qs_shape_equal(&named(&set, "bias")->tensor.shape, &bias_origin.shape));
    for (int64_t o = 0; o < 10; o++)
        for (int64_t i = 0; i < 32; i++)
            assert_true(((const float *)weights->tensor.data)[i * 10 + o] == here->trained[fc->offset + o * 32 + i]);
    qs_tensor_set_release(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(round_trip, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_models, set_up, tear_down),
        cmocka_unit_test_setup_teardown(missing_and_superfluous, set_up, tear_down),
        cmocka_unit_test_setup_teardown(as_pytorch_has_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(behind_a_flatten, set_up, tear_down),
        cmocka_unit_test_setup_teardown(images_as_vectors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_of_the_user, set_up, tear_down),
        cmocka_unit_test_setup_teardown(gpt2_layout, set_up, tear_down),
        cmocka_unit_test_setup_teardown(families, set_up, tear_down),
        cmocka_unit_test_setup_teardown(choices, set_up, tear_down),
        cmocka_unit_test_setup_teardown(tied_tables, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_file, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
