// SPDX-License-Identifier: Apache-2.0
/* The initial plan: fits whenever a uniform plan does, is no slower than the fastest uniform one by more than its shares of memory cost,
 * and gives copies of a block the same recipes. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

#include "../../src/planner/allocate.h"
#include "scene.h"

enum { SCENES = 12 };

static qs_prediction predicted(scene *one) {
    qs_prediction prediction;
    assert_ok(qs__draft_predict(&one->draft, &prediction));
    return prediction;
}

/* Compute time of the weak class under the fastest uniform plan and under the initial one, which the draft has until allocation_end. */
static void times(scene *one, double *uniform, double *initial, qs__allocation *allocation) {
    double limit_us;
    assert_ok(qs__uniform_choose(&one->draft, false, &limit_us));
    assert_ok(qs__allocation_start(&one->draft, limit_us, allocation));
    qs_prediction prediction = predicted(one);
    *uniform = prediction.class_[SCENE_WEAK].compute_us;
    qs_prediction_release(&prediction);
    assert_ok(qs__initial_choose(allocation));
    prediction = predicted(one);
    assert_true(prediction.fits);
    *initial = prediction.class_[SCENE_WEAK].compute_us;
    qs_prediction_release(&prediction);
}

static void random_models(void **state) {
    (void)state;
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

static void copies(void **state) {
    (void)state;
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
static void tolerance_is_of_throughput(void **state) {
    (void)state;
    scene one;
    uint64_t number = 40;
    double best_us, limit_us;
    scene_next(&one, &number, 3, 8, false);
    one.options.tolerance = 0;
    assert_ok(qs__uniform_choose(&one.draft, false, &best_us));
    one.options.tolerance = 0.5;
    assert_ok(qs__uniform_choose(&one.draft, false, &limit_us));
    assert_true(fabs(limit_us - 2 * best_us) <= 1e-12 * limit_us);
    scene_end(&one);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_models), cmocka_unit_test(copies),
                                       cmocka_unit_test(tolerance_is_of_throughput)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
