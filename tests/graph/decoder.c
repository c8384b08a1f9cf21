// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Graphs that decode: what of a model they keep, what its operators become, and which models are none; no such graph trains. */
#include <stdlib.h>

#include "kit/kit.h"

#include "qsync/graph.h"

static qs_graph *opened(const char *model) {
    qs_graph *graph = NULL;
    assert_ok(qs_model_open(model, NULL, &graph));
    return graph;
}

static qs_graph *decoder_of(const char *model, int64_t positions, int64_t context) {
    qs_graph *graph = opened(model), *decoder = NULL;
    assert_ok(qs_graph_decoder(graph, positions, context, &decoder));
    qs_graph_release(graph);
    return decoder;
}

/* Weights have the model's names, order and offsets, and nothing trains; caches are what else there is. */
TEST(weights_stay) {
    static const char *const models[] = {"gpt2:layers=2,hidden=32,heads=4,vocab=50,positions=20,length=8", "llama:layers=2,kv=2,length=8",
                                         "gpt2:layers=1,hidden=32,heads=2,vocab=50,positions=20,length=8,tied=0,norm=l1ln"};
    for (size_t m = 0; m < COUNT_OF(models); m++) {
        qs_graph *model = opened(models[m]), *decoder = decoder_of(models[m], 3, 16);
        int of_model = 0;
        for (int i = 0; i < decoder->parameters; i++) {
            const qs_parameter *one = &decoder->parameter[i], *same = &model->parameter[of_model];
            if (one->gradient == QS_ROLE_COUNT) {
                assert_int_equal(one->shape.dim[0], 16);
                continue;
            }
            assert_string_equal(one->name, same->name);
            assert_true(qs_shape_equal(&one->shape, &same->shape));
            assert_int_equal(one->offset, same->offset);
            assert_true(one->frozen && !qs_parameter_learns(one));
            of_model++;
        }
        assert_int_equal(of_model, model->parameters);
        assert_int_equal(decoder->frozen_elements, model->trained_elements);
        assert_int_equal(decoder->trained_elements, 0);
        qs_graph_release(decoder); /* what is frozen lies behind what is trained */
        assert_ok(qs_graph_freeze(model, m == 1 ? "model.embed_tokens.*" : "wte.*,wpe.*"));
        assert_ok(qs_graph_decoder(model, 3, 16, &decoder));
        for (int i = 0, k = 0; i < decoder->parameters; i++)
            if (decoder->parameter[i].gradient != QS_ROLE_COUNT)
                assert_int_equal(decoder->parameter[i].offset, model->parameter[k++].offset);
        qs_graph_release(model);
        qs_graph_release(decoder);
    }
}

TEST(operators_become) {
    qs_graph *gpt2 = decoder_of("gpt2:layers=1,hidden=32,heads=4,vocab=50,positions=20,length=8", 1, 12);
    const qs_node *attention = &gpt2->node[qs_graph_find(gpt2, "h.0.attn")], *table = &gpt2->node[qs_graph_find(gpt2, "wpe")];
    assert_int_equal(gpt2->samples.inputs, 2);
    assert_int_equal(gpt2->samples.input[0].extent[0], 1);
    assert_string_equal(gpt2->samples.input[1].name, "place");
    assert_int_equal(qs_graph_integers(gpt2, 1), QS_PLACE);
    assert_ptr_equal(attention->op, qs_op_of("cached_attention"));
    assert_int_equal(attention->inputs, 4);
    assert_int_equal(attention->input[3], 1);
    assert_true(attention->attributes.context == 12 && attention->attributes.heads == 4);
    assert_true(table->inputs == 2 && table->attributes.vocabulary == 20); /* all of its rows, for one position */
    assert_true(gpt2->node[qs_graph_find(gpt2, "lm_head")].table > 0);
    qs_graph_release(gpt2);
    qs_graph *llama = decoder_of("llama:layers=1", 2, 9);
    const qs_node *rotary = &llama->node[qs_graph_find(llama, "model.layers.0.self_attn.q_proj.rotary")];
    assert_true(rotary->inputs == 2 && rotary->input[1] == 1);
    qs_graph_release(llama);
}

/* Samples may say which positions count: a decoder's all do. */
TEST(padding_is_left_out) {
    const qs_samples samples = {.unit = "sequences",
                                .inputs = 3,
                                .input = {{.name = "ids", .type = QS_INPUT_I32, .rank = 1, .extent = {8}, .bound = 50},
                                          {.name = "types", .type = QS_INPUT_I32, .rank = 1, .extent = {8}, .bound = 2},
                                          {.name = "keep", .type = QS_INPUT_I32, .rank = 1, .extent = {8}, .bound = 2}},
                                .target = {.kind = QS_TARGET_CLASS_PER_POSITION, .classes = 50, .extent = 8, .ignored = -1}};
    qs_graph *model = NULL, *decoder = NULL;
    assert_ok(qs_model_open("gpt2:layers=1,hidden=32,heads=4,vocab=50,positions=20", &samples, &model));
    assert_int_equal(model->node[qs_graph_find(model, "h.0.attn")].inputs, 4);
    assert_ok(qs_graph_decoder(model, 1, 12, &decoder));
    qs_graph_release(model);
    qs_graph_release(decoder);
}

static void refuse_graph(qs_graph *graph, const char *why) {
    qs_graph *decoder = NULL;
    assert_refused(qs_graph_decoder(graph, 1, 4, &decoder), QS_UNSUPPORTED, "is no decoder");
    assert_message(why);
    qs_graph_release(graph);
}

TEST(what_is_no_decoder) {
    qs_graph *graph = NULL;
    refuse_graph(opened("bert:tiny"), "which id comes next");
    refuse_graph(opened("vit:tiny"), "no sequence of ids");
    refuse_graph(opened("lenet5"), "no sequence of ids");
    refuse_graph(opened("gpt2:layers=1,hidden=32,heads=4,vocab=50,norm=l1lnq"), "\"h.0.ln_1\" (l1_layer_norm_int8) takes all positions");
    qs_samples samples = {.unit = "sequences",
                          .inputs = 1,
                          .input = {{.name = "ids", .type = QS_INPUT_I32, .rank = 1, .extent = {8}, .bound = 50}},
                          .target = {.kind = QS_TARGET_CLASS, .classes = 50, .extent = 1}};
    assert_ok(qs_model_open("gpt2:layers=1,hidden=32,heads=4,vocab=50", &samples, &graph));
    refuse_graph(graph, "which id comes next"); /* one class of a sequence */
    /* Attention to all positions, as encoders have it, whatever it learns. */
    const qs_target next = {.kind = QS_TARGET_CLASS_PER_POSITION, .classes = 50, .extent = 8, .ignored = -1};
    int at = 0, seen = 0;
    assert_ok(qs_graph_create("own", "sequences", 1, samples.input, &graph));
    assert_ok(qs_graph_add(graph, "table", "embedding", &(qs_attributes){.vocabulary = 50}, 1, (int[]){0}, 6, false, &at));
    assert_ok(qs_graph_add(graph, "seen", "attention", &(qs_attributes){.heads = 2}, 3, (int[]){at, at, at}, 0, false, &seen));
    assert_ok(qs_graph_add(graph, "head", "linear", NULL, 1, &seen, 50, false, &at));
    assert_ok(qs_graph_finish(graph, at, &next));
    refuse_graph(graph, "\"seen\" (attention) looks at positions that come later");
    /* Attention that is causal within each half of a sample alone. */
    assert_ok(qs_graph_create("own", "sequences", 1, samples.input, &graph));
    assert_ok(qs_graph_add(graph, "table", "embedding", &(qs_attributes){.vocabulary = 50}, 1, (int[]){0}, 6, false, &at));
    assert_ok(qs_graph_add(graph, "halves", "attention", &(qs_attributes){.heads = 2, .causal = 1, .sequences = 2}, 3, (int[]){at, at, at},
                           0, false, &seen));
    assert_ok(qs_graph_add(graph, "head", "linear", NULL, 1, &seen, 50, false, &at));
    assert_ok(qs_graph_finish(graph, at, &next));
    refuse_graph(graph, "\"halves\" (attention) takes all positions");
    /* Numbers that each position has by itself; one for all of them is no hindrance, nor is what is done to each alone. */
    for (int over = 1; over >= 0; over--) {
        qs_graph *decoder = NULL;
        assert_ok(qs_graph_create("own", "sequences", 1, samples.input, &graph));
        assert_ok(qs_graph_add(graph, "table", "embedding", &(qs_attributes){.vocabulary = 50}, 1, (int[]){0}, 6, false, &at));
        assert_ok(qs_graph_add(graph, "shift", "offset", &(qs_attributes){.over = over}, 1, &at, 0, false, &at));
        assert_ok(qs_graph_add(graph, "bent", "elu", NULL, 1, &at, 0, false, &at));
        assert_ok(qs_graph_add(graph, "head", "linear", NULL, 1, &at, 50, false, &at));
        assert_ok(qs_graph_finish(graph, at, &next));
        if (over == 1) {
            refuse_graph(graph, "\"shift\" (offset) takes all positions");
            continue;
        }
        assert_ok(qs_graph_decoder(graph, 1, 4, &decoder));
        qs_graph_release(graph);
        qs_graph_release(decoder);
    }
    /* What each position sees besides is the sample's own affair. */
    samples.inputs = 2;
    samples.input[1] = (qs_input){.name = "keep", .type = QS_INPUT_I32, .rank = 1, .extent = {8 * 8}, .bound = 2};
    assert_ok(qs_graph_create("own", "sequences", 2, samples.input, &graph));
    assert_ok(qs_graph_add(graph, "table", "embedding", &(qs_attributes){.vocabulary = 50}, 1, (int[]){0}, 6, false, &at));
    assert_ok(
        qs_graph_add(graph, "masked", "attention", &(qs_attributes){.heads = 2, .causal = 1}, 4, (int[]){at, at, at, 1}, 0, false, &seen));
    assert_ok(qs_graph_add(graph, "head", "linear", NULL, 1, &seen, 50, false, &at));
    assert_ok(qs_graph_finish(graph, at, &next));
    refuse_graph(graph, "\"masked\" (attention) has a mask for each position");
}

TEST(contexts) {
    qs_graph *graph = opened("gpt2:layers=1,hidden=32,heads=4,vocab=50,positions=20,length=8"), *decoder = NULL;
    assert_refused(qs_graph_decoder(graph, 1, 21, &decoder), QS_USAGE, "\"wpe\" has rows for 20");
    assert_refused(qs_graph_decoder(graph, 5, 4, &decoder), QS_USAGE, "5 positions of a context of 4");
    assert_refused(qs_graph_decoder(graph, 0, 4, &decoder), QS_USAGE, "0 positions");
    int64_t positions = 0;
    assert_ok(qs_model_positions("gpt2:mini,positions=77", &positions));
    assert_int_equal(positions, 77);
    assert_ok(qs_model_positions("llama:length=300", &positions));
    assert_int_equal(positions, 300);
    qs_graph_release(graph);
    graph = opened("llama:positions=33"); /* samples are no longer than that, where nothing says how long they are */
    assert_int_equal(graph->samples.input[0].extent[0], 33);
    assert_refused(qs_model_positions("resnet8", &positions), QS_USAGE, "takes images");
    qs_graph_release(graph);
}

TEST_MAIN(weights_stay, operators_become, padding_is_left_out, what_is_no_decoder, contexts)
