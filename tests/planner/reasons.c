// SPDX-License-Identifier: Apache-2.0
/* What a plan says of its operators is what the full prediction finds when it is asked for the plan with that operator raised: time, bytes,
 * and what stopped it. On profiles without caches, host slowdown and noise, where quick answers are exact but for packing; with host
 * slowdown where neighbours stop it. */
#include "kit/kit.h"
#include "../../src/planner/search/search.h"
#include "scene.h"

enum { SCENES = 14, SHARED = 4, LEAST = 4, LARGEST = 9 };
static const char *const planners[] = {"uniform", "qsync", "qsync-heap", "random", "hess", "exact"};
enum { PLANNERS = COUNT_OF(planners) };

/* Sums of some hundreds of steps in two orders: each rounding is 2^-53 of a partial sum. */
static const double rounding = 1e-11;

typedef struct tally {
    int raises, packed_alike, memory, throughput, left; /* left: raises that the full prediction would accept */
} tally;

/* A plan's choices in the candidate, and quick answers about them. */
typedef struct asked {
    scene *scene;
    qs__search *search;
    double iteration_us;
    int64_t live_bytes, packing_bytes; /* what packing adds */
} asked;

static int recipe_index(const qs_candidate_class *class_, const char *name) {
    int recipe = 0;
    while (strcmp(class_->recipe[recipe].name, name) != 0)
        recipe++;
    return recipe;
}

static qs_prediction predicted(asked *one) {
    qs_prediction prediction;
    assert_ok(qs__candidate_predict(&one->scene->candidate, &prediction));
    return prediction;
}

static void ask(scene *at, const qs_class_plan *weak, asked *out) {
    *out = (asked){.scene = at};
    for (int i = 0; i < weak->operators; i++)
        at->weak->choice[at->node[i]] = recipe_index(at->weak, weak->operator_[i].recipe);
    assert_ok(qs__search_create(&at->candidate, &out->search));
    qs_prediction now = predicted(out);
    out->iteration_us = now.iteration_us;
    out->live_bytes = qs__search_live_bytes(out->search, SCENE_WEAK);
    out->packing_bytes = (int64_t)now.class_[SCENE_WEAK].arena_bytes - out->live_bytes;
    qs_prediction_release(&now);
}

static const char *verdict(const scene *at, const qs_prediction *raised) {
    if (!raised->fits) return "memory";
    return raised->iteration_us > at->limit_us ? "throughput" : "planner";
}

static void verdict_check(const asked *one, const qs_operator_reason *why, const char *full, tally *sum) {
    if (strcmp(why->stopped_by, full) != 0)
        fail_msg("model %d, %s: stopped by %s, says the plan, but by %s", (int)one->scene->number, why->name, why->stopped_by, full);
    sum->memory += strcmp(full, "memory") == 0;
    sum->throughput += strcmp(full, "throughput") == 0;
}

static void raise_check(asked *one, int node, const qs_operator_reason *why, tally *sum) {
    const int mark = qs__search_mark(one->search);
    assert_ok(qs__search_set(one->search, SCENE_WEAK, node, recipe_index(one->scene->weak, why->next)));
    qs_prediction raised = predicted(one);
    const int64_t live = qs__search_live_bytes(one->search, SCENE_WEAK), arena = (int64_t)raised.class_[SCENE_WEAK].arena_bytes;
    assert_true(fabs(why->time_us - (raised.iteration_us - one->iteration_us)) <= rounding * raised.iteration_us);
    assert_int_equal(why->bytes, live - one->live_bytes);
    sum->raises++;
    if (fabs(raised.iteration_us - one->scene->limit_us) > rounding * raised.iteration_us) {
        const char *full = verdict(one->scene, &raised);
        const bool alike = arena - live == one->packing_bytes;
        sum->left += strcmp(full, "planner") == 0;
        sum->packed_alike += alike;
        if (alike) verdict_check(one, why, full, sum);
    }
    qs_prediction_release(&raised);
    assert_ok(qs__search_back(one->search, mark));
}

static void plan_check(scene *at, const qs_plan *plan, tally *sum) {
    const qs_class_plan *weak = &plan->class_[SCENE_WEAK];
    asked one;
    ask(at, weak, &one);
    assert_int_equal(weak->reasons, at->nodes);
    for (int i = 0; i < weak->reasons; i++) {
        const qs_operator_reason *why = &weak->reason[i];
        const int node = at->node[i], recipes = at->weak->recipes;
        assert_int_equal(why->next[0] == 0, strcmp(why->stopped_by, "highest") == 0);
        if (why->next[0]) {
            assert_true(at->weak->omega[node * recipes + recipe_index(at->weak, why->next)] < why->omega);
            raise_check(&one, node, why, sum);
        } else {
            assert_true(why->time_us == 0 && why->bytes == 0);
        }
    }
    qs__search_release(one.search);
}

static void hessian_fill(qs_statistics *statistics) {
    for (int i = 0; i < statistics->operators; i++)
        statistics->operator_[i].hessian_top = 1 + scene_dice(9, (uint64_t)i);
}

TEST(reasons_are_true) {
    uint64_t number = 700;
    tally sum[PLANNERS] = {{0}};
    for (int s = 0; s < SCENES; s++) {
        scene one;
        scene_next(&one, &number, LEAST, LARGEST, 0);
        hessian_fill(&one.profile.statistics);
        if (s % 2) scene_limit(&one, 0.1 + 0.8 * scene_dice(number, 4));
        for (int p = 0; p < PLANNERS; p++) {
            qs_plan plan = scene_plan(&one, planners[p]);
            plan_check(&one, &plan, &sum[p]);
            qs_plan_release(&plan);
        }
        scene_end(&one);
    }
    for (int p = 0; p < PLANNERS; p++) {
        const tally *one = &sum[p];
        print_message("%s: %d raises, %d of them packed alike: memory %d, throughput %d; left: %d\n", planners[p], one->raises,
                      one->packed_alike, one->memory, one->throughput, one->left);
        assert_true(one->memory > 0 && one->throughput > 0 && 2 * one->packed_alike > one->raises);
        assert_true(strcmp(planners[p], "uniform") == 0 ? one->left > 0 : one->left == 0);
    }
}

/* ---- Neighbours ---------------------------------------------------------------------------------------------------------------- */

/* Each raise that neighbours are said to stop: by the full prediction they compute longer beside it and are the late ones, while the class
 * itself still waits. */
static void neighbours_check(asked *one, int node, const qs_operator_reason *why) {
    const int mark = qs__search_mark(one->search);
    qs_prediction before = predicted(one);
    assert_ok(qs__search_set(one->search, SCENE_WEAK, node, recipe_index(one->scene->weak, why->next)));
    qs_prediction raised = predicted(one);
    assert_true(raised.class_[0].compute_us > before.class_[0].compute_us);
    assert_true(raised.iteration_us > one->scene->limit_us && raised.class_[SCENE_WEAK].waiting_us > raised.class_[0].waiting_us);
    qs_prediction_release(&before);
    qs_prediction_release(&raised);
    assert_ok(qs__search_back(one->search, mark));
}

static int neighbours_count(scene *at) {
    qs_plan plan = scene_plan(at, "qsync");
    const qs_class_plan *weak = &plan.class_[SCENE_WEAK];
    int count = 0;
    asked one;
    ask(at, weak, &one);
    for (int i = 0; i < weak->reasons; i++) {
        if (strcmp(weak->reason[i].stopped_by, "neighbours") != 0) continue;
        neighbours_check(&one, at->node[i], &weak->reason[i]);
        count++;
    }
    qs__search_release(one.search);
    qs_plan_release(&plan);
    return count;
}

/* A network between the classes is between two boxes: there a rank slows nobody down. */
static void separate(scene *one) {
    one->cluster.link = calloc(1, sizeof *one->cluster.link);
    assert_non_null(one->cluster.link);
    one->cluster.links = 1;
    one->cluster.link[0] = (qs_link){.kind = "network", .bytes_per_second = 1e10};
    for (int i = 0; i < 2; i++)
        snprintf(one->cluster.link[0].between[i], sizeof one->cluster.link[0].between[i], "%s", one->cluster.class_[i].name);
    one->profile.collective[0].hosts = 2;
    snprintf(one->profile.collective[0].link, sizeof one->profile.collective[0].link, "network");
    qs__candidate_release(&one->candidate);
    scene_draft(one);
}

TEST(neighbours_are_of_one_box) {
    uint64_t number = 700;
    int together = 0, apart = 0;
    for (int s = 0; s < SHARED; s++) {
        scene one;
        scene_next(&one, &number, LEAST, LARGEST, SCENE_LATE);
        together += neighbours_count(&one);
        separate(&one);
        apart += neighbours_count(&one);
        scene_end(&one);
    }
    print_message("stopped by neighbours: %d on one box, %d on two\n", together, apart);
    assert_true(together > 0 && apart == 0);
}

TEST_MAIN(reasons_are_true, neighbours_are_of_one_box)
