// SPDX-License-Identifier: Apache-2.0
// labels: medium
/* Large models, of which searches look at less, and whose copies of blocks share the tables of the bound: plans keep what is promised of
 * all plans, planning again gives the same one, and no constraint of the relaxation asks for more than the full prediction has. */
#include "kit/kit.h"
#include "../../src/planner/bound/bound.h"
#include "scene.h"
#include "setting.h"

enum { BLOCKS = 102, MIXES = 5 };

static int add(qs_graph *graph, const char *op, int first, int second, int64_t outputs) {
    const qs_attributes conv = {.kernel = {3, 3}, .padding = {1, 1}};
    const int input[2] = {first, second};
    char name[32];
    int at = -1;
    snprintf(name, sizeof name, "n%d", graph->nodes);
    assert_ok(qs_graph_add(graph, name, op, strcmp(op, "conv2d") == 0 ? &conv : NULL, second < 0 ? 1 : 2, input, outputs, false, &at));
    return at;
}

/* Residual blocks of ten operators, two of them adjustable. */
static qs_graph *residual_graph(void) {
    qs_graph *graph = NULL;
    assert_ok(qs_graph_of_images("large", 3, 6, 6, &graph));
    int at = add(graph, "conv2d", 0, -1, 8);
    for (int b = 0; b < BLOCKS; b++) {
        const int input = at;
        for (int i = 0; i < 2; i++) {
            at = add(graph, "batch_norm", add(graph, "conv2d", at, -1, 8), -1, 0);
            at = add(graph, "tanh", add(graph, "relu", at, -1, 0), -1, 0);
        }
        at = add(graph, "relu", add(graph, "add", at, input, 0), -1, 0);
    }
    at = add(graph, "flatten", add(graph, "global_average_pool", at, -1, 0), -1, 0);
    assert_ok(qs_graph_finish(graph, add(graph, "linear", at, -1, 10), NULL));
    return graph;
}

static void start(scene *one, unsigned kind) {
    scene_start(one, residual_graph(), 2, kind);
    assert_true(qs__is_large(one->graph));
}

/* With the recipes of one plan and a price on one constraint alone the relaxation's minimum less Ω is what it knows of that constraint. */
static double known_use(qs__bound *bound, double omega, double *price, double unit) {
    double least;
    *price = 1 / unit;
    assert_ok(qs__relax_minimize(bound->minimum, &bound->price, &least, NULL, NULL));
    *price = 0;
    return (least - omega) * unit;
}

static void constraints_check(unsigned kind) {
    scene one;
    qs__bound *bound = NULL;
    double closest = 0;
    start(&one, kind);
    assert_ok(qs__bound_create(&one.candidate, SCENE_WEAK, one.limit_us, &bound));
    for (int mix = 0; mix < MIXES; mix++) {
        qs_prediction prediction;
        qs__relax_room room;
        for (int i = 0; i < one.nodes; i++) { /* the first three are uniform */
            one.weak->choice[one.node[i]] = mix < 3 ? mix : (int)(scene_dice((uint64_t)mix, (uint64_t)i) * one.weak->recipes);
            bound->relaxation.allowed[one.node[i]] = 1u << one.weak->choice[one.node[i]];
        }
        const double omega = qs__candidate_sum_omega(&one.candidate, SCENE_WEAK);
        assert_ok(qs__candidate_predict(&one.candidate, &prediction));
        const double iteration = prediction.iteration_us, arena = (double)prediction.class_[SCENE_WEAK].arena_bytes;
        assert_ok(qs__relax_rooms(&bound->relaxation, iteration, &room));
        const double total = known_use(bound, omega, &bound->price.total, iteration) / room.total_us;
        assert_true(total <= 1 + 1e-9);
        closest = fmax(closest, total);
        for (int b = 0; b < bound->relaxation.buckets; b += 17)
            assert_true(known_use(bound, omega, &bound->price.bucket[b], iteration) <= room.limit_us * (1 + 1e-9));
        for (int n = 0; n < one.graph->nodes; n += 101)
            assert_true(known_use(bound, omega, &bound->price.moment[n], arena) <= arena * (1 + 1e-9));
        qs_prediction_release(&prediction);
    }
    assert_true(closest > (kind ? 0.8 : 0.99)); /* shared tables are no empty ones */
    qs__bound_release(bound);
    scene_end(&one);
}

TEST(constraints_lie_below_the_prediction) {
    constraints_check(0);
    constraints_check(SCENE_TROUBLE);
}

static void plan_check(const scene *one, const qs_plan *plan) {
    const qs_class_plan *weak = &plan->class_[SCENE_WEAK];
    const int64_t limit = one->cluster.class_[SCENE_WEAK].memory_limit;
    assert_true(weak->predicted.iteration_us <= one->limit_us * (1 + 1e-9));
    assert_true(limit == 0 || weak->predicted.arena_bytes <= limit);
    assert_true(weak->predicted.lower_bound > 0 && weak->predicted.lower_bound <= weak->predicted.sum_omega);
}

TEST(plans_keep_their_promises) {
    for (int tight = 0; tight < 2; tight++) {
        scene one;
        qs_plan_session *session = NULL;
        double uniform = 0;
        start(&one, 0);
        if (tight) scene_limit(&one, 0.5);
        uniform = qs__candidate_sum_omega(&one.candidate, SCENE_WEAK);
        qs_plan plan = scene_plan(&one, "qsync"), again, back;
        plan_check(&one, &plan);
        assert_true(plan.class_[SCENE_WEAK].predicted.sum_omega <= uniform);
        assert_ok(qs_plan_session_create(one.graph, &one.profile, &one.job, &session));
        assert_ok(qs_plan_session_make(session, &one.cluster, "qsync", &one.options, &again));
        plans_equal_check(&plan, &again);
        assert_ok(qs_plan_session_make(session, &one.cluster, "qsync", &one.options, &back));
        plans_equal_check(&plan, &back);
        qs_plan_session_release(session);
        qs_plan_release(&plan);
        qs_plan_release(&again);
        qs_plan_release(&back);
        scene_end(&one);
    }
}

TEST_MAIN(constraints_lie_below_the_prediction, plans_keep_their_promises)
