// SPDX-License-Identifier: Apache-2.0
/* The initial plan: fits whenever a uniform plan does, and without a limit is no slower than the fastest of these; a block of few operators
 * gets the fastest of all its mixes, one of many none that a single change makes faster; copies of a block get the same. */
#include "kit/kit.h"
#include "../../src/planner/search/allocate.h"
#include "scene.h"

enum { SCENES = 12 };

static qs_prediction predicted(scene *one) {
    qs_prediction prediction;
    assert_ok(qs__candidate_predict(&one->candidate, &prediction));
    return prediction;
}

/* Compute time of the weak class under the fastest uniform plan and under the initial one, which fits and which the candidate has until
 * allocation_end. */
static void times(scene *one, double *uniform, double *initial, qs__allocation *allocation) {
    double limit_us;
    assert_ok(qs__uniform_choose(&one->candidate, false, &limit_us));
    assert_ok(qs__allocation_start(&one->candidate, limit_us, allocation));
    qs_prediction prediction = predicted(one);
    *uniform = prediction.class_[SCENE_WEAK].compute_us;
    qs_prediction_release(&prediction);
    assert_ok(qs__initial_choose(allocation));
    prediction = predicted(one);
    assert_true(prediction.fits);
    *initial = prediction.class_[SCENE_WEAK].compute_us;
    qs_prediction_release(&prediction);
}

TEST(random_models) {
    uint64_t number = 300;
    int quicker = 0;
    for (int s = 0; s < SCENES; s++) {
        scene one;
        qs__allocation allocation;
        double uniform, initial;
        scene_next(&one, &number, 4, 14, false);
        times(&one, &uniform, &initial, &allocation);
        assert_ok(qs__allocation_end(&allocation));
        assert_true(initial <= uniform * (1 + 1e-9)); /* without a limit every block may keep what it had */
        quicker += initial < uniform * (1 - 1e-6);
        scene_limit(&one, 0.1 + 0.8 * scene_dice(number, 4));
        times(&one, &uniform, &initial, &allocation);
        assert_ok(qs__allocation_end(&allocation));
        scene_end(&one);
    }
    assert_true(quicker > 0);
}

/* The least compute time over all mixes of operators from `at` on, beside the present choices of all others. */
static double fastest_mix(scene *one, qs__search *search, const int *node, int at, int operators) {
    double best = INFINITY;
    if (at == operators) return qs__search_compute_us(search, SCENE_WEAK);
    for (int r = 0; r < one->weak->recipes; r++)
        if (qs__search_set(search, SCENE_WEAK, node[at], r) == QS_OK) best = fmin(best, fastest_mix(one, search, node, at + 1, operators));
    return best;
}

/* Two ways of convolutions from one value to the sum of their logits: the last block, whole. */
static qs_graph *two_ways(uint64_t number) {
    dice rolls = {qs_random_key(number, 6, 0, 0), 0};
    qs_graph *graph = NULL;
    int way[2];
    assert_ok(qs_graph_of_images("ways", 3, 8, 8, &graph));
    const int first = random_conv(graph, &rolls, 0, 1);
    for (int w = 0; w < 2; w++) {
        int at = random_conv(graph, &rolls, first, 1);
        if (dice_roll(&rolls, 2)) at = random_conv(graph, &rolls, at, 1);
        at = random_add(graph, "global_average_pool", NULL, 1, &at, 0, false);
        at = random_add(graph, "flatten", NULL, 1, &at, 0, false);
        way[w] = random_add(graph, "linear", NULL, 1, &at, 10, true);
    }
    assert_ok(qs_graph_finish(graph, random_add(graph, "add", NULL, 2, way, 0, false), NULL));
    return graph;
}

/* The block that is decided last stands beside the final choices of all others. */
TEST(the_fastest_mix_of_a_block) {
    for (uint64_t number = 0; number < SCENES; number++) {
        scene one;
        qs__allocation allocation;
        qs_blocks blocks;
        double uniform, initial;
        int node[SCENE_MOST], operators = 0;
        scene_start(&one, two_ways(number), number, 0);
        times(&one, &uniform, &initial, &allocation);
        assert_ok(qs_graph_blocks(one.graph, &blocks));
        const qs_block *last = &blocks.block[blocks.blocks - 1];
        assert_int_equal(last->kind, blocks.kinds - 1);
        assert_in_range(last->adjustable, 4, 6);
        for (int i = 0; i < last->end - last->first; i++)
            if (qs__is_adjustable(&one.candidate, last->node[i])) node[operators++] = last->node[i];
        const double chosen = qs__search_compute_us(allocation.search, SCENE_WEAK);
        assert_true(chosen <= fastest_mix(&one, allocation.search, node, 0, operators) * (1 + 1e-12));
        qs_blocks_release(&blocks);
        assert_ok(qs__allocation_end(&allocation));
        scene_end(&one);
    }
}

/* Eight convolutions and a way past them: too many mixes for brute force. */
static qs_graph *long_block(void) {
    dice rolls = {qs_random_key(5, 0, 0, 0), 0};
    qs_graph *graph = NULL;
    assert_ok(qs_graph_of_images("long", 3, 8, 8, &graph));
    const int first = random_conv(graph, &rolls, 0, 1);
    int at = first;
    for (int i = 0; i < 8; i++)
        at = random_conv(graph, &rolls, at, 1);
    at = random_add(graph, "add", NULL, 2, (int[]){first, at}, 0, false);
    at = random_add(graph, "global_average_pool", NULL, 1, &at, 0, false);
    at = random_add(graph, "flatten", NULL, 1, &at, 0, false);
    at = random_add(graph, "linear", NULL, 1, &at, 10, true);
    assert_ok(qs_graph_finish(graph, at, NULL));
    return graph;
}

TEST(a_long_block_is_improved_one_by_one) {
    int quicker = 0;
    for (uint64_t number = 0; number < SCENES; number++) {
        scene one;
        qs__allocation allocation;
        qs_blocks blocks;
        double uniform, initial;
        int most = 0;
        scene_start(&one, long_block(), number, 0);
        assert_ok(qs_graph_blocks(one.graph, &blocks));
        for (int b = 0; b < blocks.blocks; b++)
            most = blocks.block[b].adjustable > most ? blocks.block[b].adjustable : most;
        assert_true(most > 6);
        qs_blocks_release(&blocks);
        times(&one, &uniform, &initial, &allocation);
        assert_true(initial <= uniform * (1 + 1e-12));
        quicker += initial < uniform * (1 - 1e-6);
        for (int i = 0; i < one.nodes; i++) {
            const int before = one.weak->choice[one.node[i]];
            const double us = qs__search_compute_us(allocation.search, SCENE_WEAK);
            assert_true(us <= fastest_mix(&one, allocation.search, &one.node[i], 0, 1) * (1 + 1e-12));
            assert_ok(qs__search_set(allocation.search, SCENE_WEAK, one.node[i], before));
        }
        assert_ok(qs__allocation_end(&allocation));
        scene_end(&one);
    }
    assert_true(quicker > 0);
}

TEST(copies) {
    scene one;
    qs_graph *graph = NULL;
    qs_blocks blocks;
    qs__allocation allocation;
    double uniform, initial;
    assert_ok(qs_model_build("resnet20:width=0.5", NULL, &graph));
    scene_start(&one, graph, 4, false);
    scene_limit(&one, 0.5);
    times(&one, &uniform, &initial, &allocation);
    assert_ok(qs_graph_blocks(graph, &blocks));
    for (int b = 0; b < blocks.blocks; b++) {
        const qs_block *block = &blocks.block[b], *first = &blocks.block[blocks.representative[block->kind]];
        for (int i = 0; i < block->end - block->first; i++)
            assert_int_equal(one.weak->choice[block->node[i]], one.weak->choice[first->node[i]]);
    }
    qs_blocks_release(&blocks);
    assert_ok(qs__allocation_end(&allocation));
    scene_end(&one);
}

/* The tolerance is a share of throughput: half of it given up is twice the time, not half as much again. */
TEST(tolerance_is_of_throughput) {
    scene one;
    uint64_t number = 40;
    double best_us, limit_us;
    scene_next(&one, &number, 3, 8, false);
    one.options.tolerance = 0;
    assert_ok(qs__uniform_choose(&one.candidate, false, &best_us));
    one.options.tolerance = 0.5;
    assert_ok(qs__uniform_choose(&one.candidate, false, &limit_us));
    assert_true(fabs(limit_us - 2 * best_us) <= 1e-12 * limit_us);
    scene_end(&one);
}

TEST_MAIN(random_models, the_fastest_mix_of_a_block, a_long_block_is_improved_one_by_one, copies, tolerance_is_of_throughput)
