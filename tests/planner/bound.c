// SPDX-License-Identifier: Apache-2.0
/* The lower bound: below the full prediction of any plan at any price of any constraint, below the true optimum of small models, also with
 * caches, noise and quicker neighbours, with two weak classes and with pins; and close to it for one class. */
#include "kit/kit.h"
#include "../../src/planner/bound/bound.h"
#include "scene.h"

enum { MIXES = 12, SCENES = 10, LARGEST = 5 };

/* ---- Every constraint ---------------------------------------------------------------------------------------------------------- */

typedef struct tightness {
    double sum, least;
    int count;
} tightness;

/* With the recipes of one plan and a price on one constraint alone, the relaxation's minimum less Ω is what it knows of that constraint. */
static double known_use(qs__bound *bound, double omega, double *price, double unit) {
    double least;
    *price = 1 / unit;
    assert_ok(qs__relax_minimize(bound->minimum, &bound->price, &least, NULL, NULL));
    *price = 0;
    assert_true(isfinite(least));
    return (least - omega) * unit;
}

static void below(double known, double full, tightness *out) {
    assert_true(known <= full * (1 + 1e-9));
    out->sum += known / full;
    out->least = fmin(out->least, known / full);
    out->count++;
}

static void mix_check(scene *one, qs__bound *bound, int mix, tightness *time, tightness *memory) {
    qs_prediction prediction;
    double omega, most_us, most_bytes = 0;
    if (!scene_ask(one, mix, &omega, &prediction)) return;
    for (int i = 0; i < one->nodes; i++)
        bound->relaxation.allowed[one->node[i]] = 1u << one->weak->choice[one->node[i]];
    const double iteration = prediction.iteration_us, arena = (double)prediction.class_[SCENE_WEAK].arena_bytes;
    qs__relax_room room; /* what is known of them for iterations that are no longer than the plan's */
    assert_ok(qs__relax_rooms(&bound->relaxation, iteration, &room));
    most_us = known_use(bound, omega, &bound->price.total, iteration) / room.total_us * iteration;
    for (int b = 0; b < bound->relaxation.buckets; b++)
        most_us = fmax(most_us, known_use(bound, omega, &bound->price.bucket[b], iteration) / room.limit_us * iteration);
    for (int n = one->graph->samples.inputs; n < one->graph->nodes; n++)
        most_bytes = fmax(most_bytes, known_use(bound, omega, &bound->price.moment[n], arena));
    below(most_us, iteration, time);
    below(most_bytes, arena, memory);
    qs_prediction_release(&prediction);
}

static void every_constraint(unsigned kind, double time_wanted, double memory_wanted) {
    tightness time = {.least = 1}, memory = {.least = 1};
    uint64_t number = 100;
    for (int s = 0; s < SCENES; s++) {
        scene one;
        qs__bound *bound = NULL;
        scene_next(&one, &number, 2, 12, kind);
        assert_ok(qs__bound_create(&one.candidate, SCENE_WEAK, one.limit_us, &bound));
        for (int i = 0; i < MIXES; i++)
            mix_check(&one, bound, (int)(qs_random_bits(number, (uint64_t)i) % (uint32_t)scene_mixes(&one)), &time, &memory);
        qs__bound_release(bound);
        scene_end(&one);
    }
    print_message("known of time: %.4f on average, %.4f at least; of memory: %.4f, %.4f\n", time.sum / time.count, time.least,
                  memory.sum / memory.count, memory.least);
    assert_true(time.sum / time.count > time_wanted && memory.sum / memory.count > memory_wanted);
}

TEST(constraints) {
    every_constraint(0, 0.85, 0.75);
}

TEST(constraints_in_trouble) {
    every_constraint(SCENE_TROUBLE, 0.75, 0.75);
}

/* Of joined passes the bound leaves out what relus do in their backward parts. */
TEST(constraints_of_joined_passes) {
    every_constraint(SCENE_JOINS, 0.85, 0.75);
}

/* Masks and ids have no format, and what is looked up by ids has the one that its readers need. */
TEST(constraints_of_a_transformer) {
    tightness time = {.least = 1}, memory = {.least = 1};
    qs_graph *graph = NULL;
    scene one;
    qs__bound *bound = NULL;
    assert_ok(qs_model_build("bert:tiny", NULL, &graph));
    scene_start(&one, graph, 2, 0);
    assert_ok(qs__bound_create(&one.candidate, SCENE_WEAK, one.limit_us, &bound));
    for (int i = 0; i < 6 * MIXES; i++)
        mix_check(&one, bound, (int)(qs_random_bits(7, (uint64_t)i) % (uint32_t)scene_mixes(&one)), &time, &memory);
    print_message("known of time: %.4f on average, %.4f at least; of memory: %.4f, %.4f\n", time.sum / time.count, time.least,
                  memory.sum / memory.count, memory.least);
    assert_true(time.sum / time.count > 0.95 && memory.sum / memory.count > 0.8);
    qs__bound_release(bound);
    scene_end(&one);
}

/* ---- The optimum ------------------------------------------------------------------------------------------------------------------ */

static void below_the_optimum(unsigned kind, bool limited, double least_reached) {
    uint64_t number = 500;
    double sum = 0, worst = 0;
    int reached = 0;
    for (int s = 0; s < SCENES; s++) {
        scene one;
        double bound;
        scene_next(&one, &number, 3, LARGEST, kind);
        if (limited) scene_limit(&one, 0.1 + 0.8 * scene_dice(number, 4));
        assert_ok(qs__bound_of_class(&one.candidate, SCENE_WEAK, one.limit_us, &bound));
        const double optimum = scene_optimum(&one), gap = (optimum - bound) / optimum;
        assert_true(isfinite(optimum));
        if (!(bound <= optimum && bound > 0)) fail_msg("model %d: bound %g, optimum %g", (int)one.number, bound, optimum);
        sum += gap;
        worst = fmax(worst, gap);
        reached += gap < 1e-3;
        scene_end(&one);
    }
    print_message("the bound lies below the optimum by %.2f %% on average, %.2f %% at worst, in %d of %d by less than 0.1 %%\n",
                  100 * sum / SCENES, 100 * worst, reached, SCENES);
    assert_true(reached >= least_reached * SCENES);
}

TEST(optimum) {
    below_the_optimum(0, false, 0.75);
    below_the_optimum(0, true, 0.6);
}

TEST(optimum_in_trouble) {
    below_the_optimum(SCENE_TROUBLE, false, 0.2);
    below_the_optimum(SCENE_TROUBLE, true, 0.2);
}

TEST(optimum_of_joined_passes) {
    below_the_optimum(SCENE_JOINS, false, 0.5);
    below_the_optimum(SCENE_JOINS, true, 0.5);
}

/* Each class's bound holds alone, so their sum over devices does. */
TEST(optimum_over_two_classes) {
    uint64_t number = 600;
    for (int s = 0; s < SCENES; s++) {
        scene one;
        double sum = 0;
        scene_next(&one, &number, 2, 3, SCENE_TWO | (s % 4 == 3 ? SCENE_TROUBLE : 0));
        if (s % 2) scene_limit(&one, 0.1 + 0.8 * scene_dice(number, 4));
        for (int c = SCENE_WEAK; c < one.classes; c++) {
            double bound;
            assert_ok(qs__bound_of_class(&one.candidate, c, one.limit_us, &bound));
            assert_true(bound > 0);
            sum += one.cluster.class_[c].count * bound;
        }
        const double optimum = scene_optimum(&one);
        if (!(sum <= optimum)) fail_msg("model %d: bound %g, optimum %g", (int)one.number, sum, optimum);
        scene_end(&one);
    }
}

TEST(optimum_beside_pins) {
    uint64_t number = 650;
    int higher = 0;
    for (int s = 0; s < SCENES; s++) {
        scene one;
        double free, pinned;
        scene_next(&one, &number, 3, LARGEST, 0);
        assert_ok(qs__bound_of_class(&one.candidate, SCENE_WEAK, one.limit_us, &free));
        scene_pin(&one, s % one.nodes, one.weak->recipes - 1);
        assert_ok(qs__bound_of_class(&one.candidate, SCENE_WEAK, one.limit_us, &pinned));
        const double optimum = scene_optimum(&one);
        if (!(pinned <= optimum && pinned > 0)) fail_msg("model %d: bound %g, optimum %g", (int)one.number, pinned, optimum);
        higher += pinned > free;
        scene_end(&one);
    }
    assert_true(higher > SCENES / 2); /* what is pinned low counts */
}

TEST_MAIN(constraints, constraints_in_trouble, constraints_of_joined_passes, constraints_of_a_transformer, optimum, optimum_in_trouble,
          optimum_of_joined_passes, optimum_over_two_classes, optimum_beside_pins)
