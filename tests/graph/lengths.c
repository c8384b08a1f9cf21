// SPDX-License-Identifier: Apache-2.0
// labels: short
/* A model at another length of its samples: what it would be if it were built so, with the weights of the first. */
#include <stdlib.h>

#include "convolutional.h"

static const char *const models[] = {"bert:tiny", "roberta:layers=2,hidden=32,heads=2,inner=64,vocab=100",
                                     "gpt2:layers=1,hidden=32,heads=2", "llama"};

/* ids, types and keep, each up to `length`. */
static qs_samples samples_of(int64_t length, qs_target_kind kind) {
    static const char *const names[] = {"ids", "types", "keep"};
    qs_samples out = {.unit = "sentences", .inputs = 3};
    for (int i = 0; i < 3; i++) {
        out.input[i] = (qs_input){.type = QS_INPUT_I32, .rank = 1, .extent = {length}, .varies = true, .bound = i ? 2 : 90};
        snprintf(out.input[i].name, sizeof out.input[i].name, "%s", names[i]);
    }
    out.target = (qs_target){.kind = kind, .classes = kind == QS_TARGET_SPAN ? 0 : 2, .extent = kind == QS_TARGET_CLASS ? 1 : length};
    if (kind == QS_TARGET_CLASS_PER_POSITION) out.target.ignored = -1;
    return out;
}

TEST(as_if_it_were_built_so) {
    for (size_t i = 0; i < COUNT_OF(models); i++)
        for (int kind = QS_TARGET_CLASS; kind <= QS_TARGET_SPAN; kind++) {
            const qs_samples whole = samples_of(64, (qs_target_kind)kind), part = samples_of(24, (qs_target_kind)kind);
            qs_graph *graph = NULL, *shorter = NULL, *built = NULL;
            char is[32], wanted[32], other[32];
            if (i > 1 && kind == QS_TARGET_SPAN) continue;
            assert_ok(qs_model_open(models[i], &whole, &graph));
            assert_ok(qs_model_open(models[i], &part, &built));
            assert_ok(qs_graph_of_length(graph, 24, &shorter));
            assert_string_equal(qs_graph_signature(shorter, is), qs_graph_signature(built, wanted));
            assert_string_not_equal(qs_graph_signature(graph, other), is);
            assert_string_equal(shorter->name, graph->name);
            assert_int_equal(shorter->samples.target.extent, part.target.extent);
            assert_int_equal(shorter->parameters, graph->parameters);
            assert_memory_equal(shorter->parameter, graph->parameter, (size_t)graph->parameters * sizeof *graph->parameter);
            qs_graph_release(graph);
            qs_graph_release(built);
            qs_graph_release(shorter);
        }
}

/* What is frozen stays so, and lies where it lay. */
TEST(frozen_parameters_keep_their_places) {
    const qs_samples whole = samples_of(64, QS_TARGET_CLASS);
    qs_graph *graph = NULL, *shorter = NULL;
    assert_ok(qs_model_open_frozen("bert:tiny", "embeddings.*", &whole, &graph));
    assert_ok(qs_graph_of_length(graph, 8, &shorter));
    assert_true(graph->frozen_elements > 0 && shorter->frozen_elements == graph->frozen_elements);
    assert_memory_equal(shorter->parameter, graph->parameter, (size_t)graph->parameters * sizeof *graph->parameter);
    qs_graph_release(graph);
    qs_graph_release(shorter);
}

TEST(lengths_of_a_job) {
    const qs_samples whole = samples_of(64, QS_TARGET_CLASS);
    qs_graph *graph = NULL, *images = NULL;
    qs_graph_lengths at = {0};
    assert_ok(qs_model_open("bert:tiny", &whole, &graph));
    assert_ok(qs_graph_lengths_make(graph, &(qs_lengths){0}, &at));
    assert_true(at.count == 1 && at.graph[0] == graph);
    qs_graph_lengths_release(&at);
    assert_ok(qs_graph_lengths_make(graph, &(qs_lengths){3, {8, 32, 64}}, &at));
    assert_true(at.count == 3 && at.graph[2] == graph && at.graph[0]->samples.input[2].extent[0] == 8);
    qs_graph_lengths_release(&at);
    assert_refused(qs_graph_lengths_make(graph, &(qs_lengths){2, {8, 32}}, &at), QS_USAGE,
                   "lengths 8,32: the longest must be the length of the samples, 64");
    assert_refused(qs_graph_lengths_make(graph, &(qs_lengths){2, {64, 32}}, &at), QS_USAGE, "length 32 stands behind 64");
    assert_ok(qs_model_build("lenet5", NULL, &images));
    assert_refused(qs_graph_lengths_make(images, &(qs_lengths){1, {32}}, &at), QS_USAGE, "takes no samples of a length that varies");
    qs_graph_release(graph);
    qs_graph_release(images);
}

/* A linear layer over all positions at once, and positions that are not there. */
TEST(models_that_depend_on_the_length) {
    const qs_input input = {.name = "numbers", .type = QS_INPUT_F32, .rank = 2, .extent = {6, 4}, .varies = true};
    qs_graph *graph = NULL, *shorter = NULL;
    int at = 0;
    assert_ok(qs_graph_create("fixed", "rows", 1, &input, &graph));
    assert_ok(qs_graph_add(graph, "flat", "flatten", NULL, 1, &at, 0, false, &at));
    assert_ok(qs_graph_add(graph, "last", "linear", NULL, 1, &at, 3, true, &at));
    assert_ok(qs_graph_finish(graph, at, NULL));
    assert_refused(qs_graph_of_length(graph, 3, &shorter), QS_USAGE, "node \"last\": its weights are [3,24]");
    assert_refused(qs_graph_of_length(graph, 7, &shorter), QS_USAGE, "length 7: samples have 1 to 6 values");
    qs_graph_release(graph);
    at = 0;
    assert_ok(qs_graph_create("place", "rows", 1, &input, &graph));
    assert_ok(qs_graph_add(graph, "fifth", "position", &(qs_attributes){.position = 4}, 1, &at, 0, false, &at));
    assert_ok(qs_graph_finish(graph, at, NULL));
    assert_refused(qs_graph_of_length(graph, 3, &shorter), QS_USAGE, "node \"fifth\": position: input");
    qs_graph_release(graph);
    /* Positions that an input names are checked against the shorter sequence. */
    const qs_input both[] = {input, {.name = "which", .type = QS_INPUT_I32, .rank = 1, .extent = {2}, .bound = 6}};
    assert_ok(qs_graph_create("named", "rows", 2, both, &graph));
    assert_ok(qs_graph_add(graph, "picked", "gather", NULL, 2, (const int[]){0, 1}, 0, false, &at));
    assert_ok(qs_graph_add(graph, "flat", "flatten", NULL, 1, &at, 0, false, &at));
    assert_ok(qs_graph_finish(graph, at, NULL));
    assert_refused(qs_graph_of_length(graph, 3, &shorter), QS_USAGE, "gather has 3 rows, and the integers of \"which\" are 0 to 5");
    qs_graph_release(graph);
}

/* Positions that are taken apart and put in another order: the extent that the settings leave open follows. */
static qs_graph *reordered(int64_t length) {
    const qs_input input = {.name = "numbers", .type = QS_INPUT_F32, .rank = 2, .extent = {length, 4}, .varies = true};
    const qs_attributes heads = {.extent = {-1, 2, 2}, .order = 213}, back = {.extent = {2, -1, 2}, .order = 213};
    qs_graph *graph = NULL;
    int at = 0;
    assert_ok(qs_graph_create("reordered", "rows", 1, &input, &graph));
    assert_ok(qs_graph_add(graph, "heads", "permute", &heads, 1, &at, 0, false, &at));
    assert_true(qs_shape_equal(&graph->node[at].shape, &(qs_shape){4, {1, 2, 2, length}}));
    assert_ok(qs_graph_add(graph, "gains", "gain", NULL, 1, &at, 0, false, &at));
    assert_ok(qs_graph_add(graph, "back", "permute", &back, 1, &at, 0, false, &at));
    assert_ok(qs_graph_add(graph, "rows", "reshape", &(qs_attributes){.extent = {-1, 0, 4}}, 1, &at, 0, false, &at));
    assert_ok(qs_graph_add(graph, "mean", "reduce_mean", NULL, 1, &at, 0, false, &at));
    assert_ok(qs_graph_add(graph, "vector", "reshape", &(qs_attributes){.extent = {0, 0, -1}}, 1, &at, 0, false, &at));
    assert_ok(qs_graph_add(graph, "last", "linear", NULL, 1, &at, 3, true, &at));
    assert_ok(qs_graph_finish(graph, at, NULL));
    return graph;
}

TEST(extents_that_follow) {
    qs_graph *graph = reordered(6), *built = reordered(5), *shorter = NULL;
    char is[32], wanted[32];
    assert_ok(qs_graph_of_length(graph, 5, &shorter));
    assert_string_equal(qs_graph_signature(shorter, is), qs_graph_signature(built, wanted));
    assert_int_equal(shorter->node[qs_graph_find(shorter, "rows")].shape.dim[2], 5);
    qs_graph_release(graph);
    qs_graph_release(built);
    qs_graph_release(shorter);
}

TEST_MAIN(extents_that_follow, as_if_it_were_built_so, frozen_parameters_keep_their_places, lengths_of_a_job,
          models_that_depend_on_the_length)
