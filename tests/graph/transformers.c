// SPDX-License-Identifier: Apache-2.0
// labels: short
// covers: bert roberta minilm gpt2 llama vit
/* The built-in transformers: parameter counts against published figures, what samples they take and learn, names of their parameters,
 * options, files, and refusals. */
#include <stdlib.h>

#include "convolutional.h"

typedef struct published {
    const char *name;
    qs_model_input input; /* of images; channels 0: the model's own standard samples */
    int64_t parameters;
} published;

/* Sources: Devlin et al. 2019 and its repository (BERT base 109 482 240 with pooler, tiny 4 385 920, mini 11 170 560, small 28 763 648),
 * here with a classifier of two classes; the model card of MiniLM-L6-H384 (22 713 216 with pooler); GPT-2 small 124 439 808 and medium
 * 354 823 168 with a tied output layer; stories260K: 264 128 values in its file, of which 4 096 are cosines and sines; vit of timm: tiny
 * 5 717 416, small 22 050 664, base 86 567 656. */
static const published figures[] = {
    {"bert", {0}, 109482240 + 2 * 769},
    {"bert:base", {0}, 109482240 + 2 * 769},
    {"bert:tiny", {0}, 4385920 + 2 * 129},
    {"bert:mini", {0}, 11170560 + 2 * 257},
    {"bert:small", {0}, 28763648 + 2 * 513},
    {"minilm", {0}, 22713216 + 2 * 385},
    {"gpt2", {0}, 124439808},
    {"gpt2:medium", {0}, 354823168},
    {"llama", {0}, 264128 - 4096},
    {"vit:tiny", {3, 224, 224, 1000}, 5717416},
    {"vit:small", {3, 224, 224, 1000}, 22050664},
    {"vit:base", {3, 224, 224, 1000}, 86567656},
};

static qs_graph *built(const char *name, const qs_model_input *input) {
    qs_graph *graph = NULL;
    assert_ok(qs_model_build(name, input, &graph));
    return graph;
}

static int64_t trained(const qs_graph *graph) {
    int64_t count = 0;
    for (int i = 0; i < graph->parameters; i++)
        count += qs_shape_count(&graph->parameter[i].shape);
    return count;
}

TEST(parameters_are_as_published) {
    for (size_t i = 0; i < COUNT_OF(figures); i++) {
        const published *one = &figures[i];
        qs_graph *graph = built(one->name, one->input.channels ? &one->input : NULL);
        if (trained(graph) != one->parameters)
            fail_msg("%s has %lld parameters, %lld are published", one->name, (long long)trained(graph), (long long)one->parameters);
        qs_graph_release(graph);
    }
}

static void has(const char *model, const char *parameter, int axes, int64_t rows, int64_t columns) {
    qs_graph *graph = built(model, NULL);
    const qs_parameter *found = NULL;
    for (int i = 0; i < graph->parameters; i++)
        if (strcmp(graph->parameter[i].name, parameter) == 0) found = &graph->parameter[i];
    if (!found) fail_msg("%s has no %s", model, parameter);
    assert_int_equal(found->shape.axes, axes);
    assert_int_equal(found->shape.dim[0], rows);
    if (axes > 1) assert_int_equal(found->shape.dim[1], columns);
    qs_graph_release(graph);
}

TEST(parameters_have_the_names_of_published_weights) {
    has("minilm", "embeddings.word_embeddings.weights", 2, 30522, 384);
    has("minilm", "embeddings.position_embeddings.weights", 2, 512, 384);
    has("minilm", "embeddings.token_type_embeddings.weights", 2, 2, 384);
    has("minilm", "embeddings.LayerNorm.scale", 1, 384, 0);
    has("minilm", "encoder.layer.5.attention.self.query.weights", 2, 384, 384);
    has("minilm", "encoder.layer.0.attention.output.LayerNorm.shift", 1, 384, 0);
    has("minilm", "encoder.layer.0.intermediate.dense.bias", 1, 1536, 0);
    has("minilm", "pooler.dense.weights", 2, 384, 384);
    has("gpt2", "wpe.weights", 2, 1024, 768);
    has("gpt2", "h.11.mlp.c_fc.weights", 2, 3072, 768);
    has("llama", "model.layers.4.self_attn.k_proj.weights", 2, 32, 64);
    has("llama", "model.layers.0.mlp.gate_proj.weights", 2, 172, 64);
    has("llama", "model.norm.scale", 1, 64, 0);
    has("vit", "encoder.layer.0.layernorm_before.scale", 1, 192, 0);
}

static qs_samples tokens(int64_t length, int64_t bound, qs_target_kind kind, int64_t classes) {
    qs_samples out = {.unit = "sentences", .inputs = 3};
    for (int i = 0; i < 3; i++)
        out.input[i] = (qs_input){.type = QS_INPUT_I32, .rank = 1, .extent = {length}, .bound = i ? 2 : bound};
    snprintf(out.input[0].name, 32, "ids"), snprintf(out.input[1].name, 32, "types"), snprintf(out.input[2].name, 32, "keep");
    out.target = (qs_target){.kind = kind, .classes = classes, .extent = kind == QS_TARGET_CLASS ? 1 : length};
    if (kind == QS_TARGET_CLASS_PER_POSITION) out.target.ignored = -1;
    return out;
}

/* Samples of several sequences: the encoder reads each, the head gives each one number (BertForMultipleChoice). */
TEST(choices) {
    qs_samples samples = tokens(48, 9000, QS_TARGET_CLASS, 4);
    qs_graph *graph = NULL;
    for (int i = 0; i < 3; i++)
        samples.input[i].rank = 2, samples.input[i].extent[0] = 4, samples.input[i].extent[1] = 48;
    static const char *const encoders[] = {"bert:tiny", "minilm:layers=1", "roberta:mini"};
    for (size_t i = 0; i < COUNT_OF(encoders); i++) {
        assert_ok(qs_model_open(encoders[i], &samples, &graph));
        assert_ok(qs_samples_fit("the set", &samples, &graph->samples));
        const qs_node *loss = &graph->node[graph->nodes - 1];
        assert_true(qs_shape_equal(&graph->node[loss->input[0]].shape, &(qs_shape){2, {1, 4}}));
        const qs_parameter *classifier = qs_graph_parameter(graph, qs_graph_find(graph, "classifier"), QS_WEIGHTS);
        assert_string_equal(classifier->name, "classifier.weights");
        assert_int_equal(classifier->shape.dim[0], 1);
        assert_true(qs_graph_find(graph, "pooler.dense") > 0);
        char *text = NULL;
        qs_graph *again = NULL;
        char first[32], second[32];
        assert_ok(qs_graph_text(graph, &text));
        assert_ok(qs_graph_parse(text, "here", &again));
        assert_string_equal(qs_graph_signature(graph, first), qs_graph_signature(again, second));
        free(text);
        qs_graph_release(again);
        qs_graph_release(graph);
    }
    assert_refused(qs_model_open("gpt2:mini", &samples, &graph), QS_MISMATCH, "reads one sequence a sample, the samples are 4");
    samples.target.classes = 3;
    assert_refused(qs_model_open("bert:tiny", &samples, &graph), QS_MISMATCH, "as many as there are classes");
    samples.target.classes = 4;
    assert_refused(qs_model_open("bert:tiny,positions=32", &samples, &graph), QS_MISMATCH, "has 32 positions, the samples 48");
    assert_ok(qs_model_build("bert:tiny,choices=2", NULL, &graph));
    assert_refused(qs_samples_fit("the set", &samples, &graph->samples), QS_MISMATCH, "");
    qs_graph_release(graph);
    assert_ok(qs_model_build("bert:tiny,choices=2,positions=64", NULL, &graph)); /* fewer than the standard samples are long */
    assert_int_equal(graph->samples.input[0].extent[1], 64);
    qs_graph_release(graph);
}

/* Numbers of more than six digits stay what they are, in names and in what is built. */
TEST(long_numbers_come_back) {
    static const char name[] =
        "llama:layers=1,hidden=8,heads=2,kv=2,inner=8,vocab=1234567,positions=1048576,dropout=0.12345678,base=1234567.5";
    qs_graph *graph = NULL;
    int64_t positions = 0;
    assert_ok(qs_model_build(name, NULL, &graph));
    assert_string_equal(graph->name, name);
    assert_int_equal(graph->samples.target.classes, 1234567);
    assert_true(graph->node[qs_graph_find(graph, "model.layers.0.self_attn.k_proj.rotary")].attributes.base == 1234567.5);
    assert_ok(qs_model_positions(name, &positions));
    assert_int_equal(positions, 1048576);
    qs_graph_release(graph);
}

/* A mask of each query is an input of integers of the extents (queries, keys). */
TEST(masks) {
    const qs_input input[] = {{.name = "x", .type = QS_INPUT_F32, .rank = 2, .extent = {5, 8}},
                              {.name = "mask", .type = QS_INPUT_I32, .rank = 2, .extent = {5, 5}}};
    const qs_attributes heads = {.heads = 2};
    qs_graph *graph = NULL;
    int node = 0;
    assert_ok(qs_graph_create("masked", "rows", 2, input, &graph));
    assert_ok(qs_graph_add(graph, "self", "attention", &heads, 4, (int[]){0, 0, 0, 1}, 0, false, &node));
    assert_int_equal(qs_graph_integers(graph, 1), QS_KEEP);
    assert_int_equal(graph->samples.input[1].bound, 2);
    assert_ok(qs_graph_add(graph, "picked", "position", NULL, 1, &node, 0, false, &node));
    assert_ok(qs_graph_finish(graph, node, NULL));
    qs_graph_release(graph);
}

/* The head follows from what is learnt; the length from the samples; the vocabulary is the model's. */
TEST(heads_follow_the_target) {
    static const struct {
        const char *model;
        qs_target_kind kind;
        int64_t classes;
        qs_shape logits;
    } cases[] = {{"bert:tiny", QS_TARGET_CLASS, 77, {2, {1, 77}}},
                 {"bert:tiny", QS_TARGET_CLASS_PER_POSITION, 13, {3, {1, 13, 48}}},
                 {"bert:tiny", QS_TARGET_SPAN, 0, {3, {1, 2, 48}}},
                 {"roberta:mini", QS_TARGET_CLASS, 2, {2, {1, 2}}},
                 {"gpt2:mini", QS_TARGET_CLASS_PER_POSITION, 5000, {3, {1, 50257, 48}}},
                 {"gpt2:mini", QS_TARGET_CLASS, 4, {2, {1, 4}}},
                 {"llama:vocab=9000", QS_TARGET_CLASS_PER_POSITION, 9000, {3, {1, 9000, 48}}}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const qs_samples samples = tokens(48, 9000, cases[i].kind, cases[i].classes);
        qs_graph *graph = NULL;
        assert_ok(qs_model_open(cases[i].model, &samples, &graph));
        assert_ok(qs_samples_fit("the set", &samples, &graph->samples));
        const qs_node *loss = &graph->node[graph->nodes - 1];
        assert_true(qs_shape_equal(&graph->node[loss->input[0]].shape, &cases[i].logits));
        assert_int_equal(graph->samples.input[0].extent[0], 48);
        qs_graph_release(graph);
    }
}

TEST(images_are_cut_into_patches) {
    static const struct {
        qs_model_input input;
        int64_t positions;
    } cases[] = {{{3, 32, 32, 10}, 65}, {{3, 64, 64, 10}, 65}, {{3, 224, 224, 10}, 197}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        qs_graph *graph = built("vit:layers=1", &cases[i].input);
        assert_int_equal(graph->node[qs_graph_find(graph, "layernorm")].shape.dim[2], cases[i].positions);
        qs_graph_release(graph);
    }
    qs_graph *graph = built("vit:layers=1,patch=16", &(qs_model_input){3, 64, 64, 10});
    assert_int_equal(graph->node[qs_graph_find(graph, "layernorm")].shape.dim[2], 17);
    assert_string_equal(graph->name, "vit:layers=1,patch=16");
    qs_graph_release(graph);
}

/* A file brings back names, shared weights and start values; the name builds the same model. */
TEST(files_and_names_come_back) {
    static const char *const names[] = {"bert:tiny,dropout=0.25,layers=1,norm=l1ln", "gpt2:mini,layers=2,kv=2", "gpt2:mini,layers=1,tied=0",
                                        "llama:layers=2,length=64", "vit:tiny,heads=6,hidden=96"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        char *text = NULL, signature[32], other[32];
        qs_graph *graph = built(names[i], NULL), *named = built(graph->name, NULL), *again = NULL;
        assert_ok(qs_graph_text(graph, &text));
        assert_ok(qs_graph_parse(text, "here", &again));
        assert_string_equal(qs_graph_signature(graph, signature), qs_graph_signature(again, other));
        assert_string_equal(signature, qs_graph_signature(named, other));
        for (int k = 0; k < graph->parameters; k++)
            assert_true(graph->parameter[k].gain == again->parameter[k].gain);
        free(text);
        qs_graph_release(graph);
        qs_graph_release(named);
        qs_graph_release(again);
    }
    qs_graph *graph = built("bert:layers=12,mini,heads=4", NULL);
    assert_string_equal(graph->name, "bert:mini");
    qs_graph_release(graph);
}

/* Draws have a deviation of 0.02 whatever the layer; scales begin at 1. */
TEST(start_values) {
    qs_graph *graph = built("bert:tiny,vocab=1000", NULL);
    float *values = malloc((size_t)graph->trained_elements * sizeof *values);
    qs_graph_initialize(graph, 5, values, NULL);
    for (int i = 0; i < graph->parameters; i++) {
        const qs_parameter *one = &graph->parameter[i];
        const int64_t count = qs_shape_count(&one->shape);
        double squares = 0;
        for (int64_t k = 0; k < count; k++)
            squares += (double)values[one->offset + k] * (double)values[one->offset + k];
        const double spread = sqrt(squares / (double)count), error = 5 * 0.02 / sqrt(2.0 * (double)count);
        if (one->fan_in > 0 && !(fabs(spread - 0.02) < error)) fail_msg("%s: deviation %g", one->name, spread);
        if (one->role == QS_SCALE) assert_true(spread == 1);
        if (one->role == QS_BIAS || one->role == QS_SHIFT) assert_true(spread == 0);
    }
    free(values);
    qs_graph_release(graph);
}

static void refused(const char *name, const char *part) {
    qs_graph *graph = NULL;
    assert_refused(qs_model_build(name, NULL, &graph), QS_USAGE, part);
    assert_null(graph);
}

static void misfit(const char *name, qs_samples samples, const char *part) {
    qs_graph *graph = NULL;
    assert_refused(qs_model_open(name, &samples, &graph), QS_MISMATCH, part);
    assert_null(graph);
}

TEST(refusals) {
    refused("bert:huge", "and the sizes tiny, mini, small, medium, base, large");
    refused("bert:layers=0", "must be a whole number from 1 to 1024");
    refused("bert:layers=2.5", "must be a whole number");
    refused("bert:positions=1048577", "must be a whole number from 1 to 1048576");
    refused("bert:dropout=1", "must be a number from 0 to 0.99");
    refused("bert:heads=5", "hidden 768 does not divide among 5 heads");
    refused("gpt2:kv=5", "12 heads do not divide among kv=5");
    refused("llama:hidden=24", "heads of 3 channels: rotary positions turn pairs");
    refused("bert:width=0.5", "unknown option \"width=0.5\"");
    refused("bert:norm=none", "no normalisation");
    refused("bert:mini,vocab=1000000,positions=100000,length=99999,inner=12345,heads=8,layers=100,hidden=1024,kv=4,"
            "dropout=0.123457,patch=100,norm=l1lnq",
            "longer than 127 characters");
    refused("resnet8:layers=3", "there are width=FACTOR and norm=NAME");
    misfit("bert:tiny", tokens(48, 40000, QS_TARGET_CLASS, 2), "vocab=40000 makes it larger");
    misfit("bert:tiny", tokens(600, 1000, QS_TARGET_CLASS, 2), "512 positions, the samples 600");
    qs_samples other = tokens(48, 1000, QS_TARGET_CLASS, 2);
    other.input[0].name[0] = 'x';
    misfit("bert:tiny", other, "reads an input called \"ids\"");
    other = tokens(48, 1000, QS_TARGET_CLASS, 2);
    other.input[1].type = QS_INPUT_F32;
    misfit("bert:tiny", other, "takes tokens, the input \"types\"");
    qs_graph *graph = NULL;
    assert_refused(qs_model_build("gpt2", &(qs_model_input){3, 32, 32, 10}, &graph), QS_USAGE, "takes tokens, not images");
    const qs_model_input small = {3, 8, 8, 10};
    assert_refused(qs_model_build("vit:patch=16", &small, &graph), QS_USAGE, "images of 8x8 are too small");
}

TEST_MAIN(parameters_are_as_published, parameters_have_the_names_of_published_weights, choices, masks, heads_follow_the_target,
          images_are_cut_into_patches, files_and_names_come_back, start_values, long_numbers_come_back, refusals)
