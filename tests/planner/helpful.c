// SPDX-License-Identifier: Apache-2.0
/* Which classes help: throughput without each of them, classes that hold the others up, taking them out, and what stays as it is. */
#include "kit/kit.h"
#include "qsync/planner.h"
#include "kit/synthetic.h"

#define BATCH 16
#define MOST 3

typedef struct scene {
    qs_graph *graph;
    synthetic_device device[MOST];
    qs_cluster cluster;
    qs_job job;
    qs_profile profile;
    qs_plan_options options;
    qs_plan_question ask;
} scene;

/* So slow that the others wait for it many times over. */
static synthetic_device slow_device(const char *name, double slower) {
    return (synthetic_device){.name = name,
                              .count = 1,
                              .formats = {"fp32"},
                              .fp32 = 200e3 / slower,
                              .half = 200e3 / slower,
                              .int8 = 200e3 / slower,
                              .bytes = 40e3 / slower};
}

static scene *scene_make(int classes, const synthetic_device *device) {
    scene *one = calloc(1, sizeof *one);
    assert_non_null(one);
    memcpy(one->device, device, (size_t)classes * sizeof *device);
    one->job = stub_job(BATCH);
    assert_ok(qs_model_build("lenet5", NULL, &one->graph));
    one->cluster = synthetic_cluster(classes, one->device);
    one->profile = synthetic_profile(one->graph, &one->cluster, one->device, &one->job);
    qs_plan_options_default(&one->options);
    one->ask = (qs_plan_question){"uniform", one->graph, &one->cluster, &one->profile, &one->job, &one->options};
    return one;
}

static void scene_end(scene *one) {
    qs_profile_release(&one->profile);
    qs_cluster_release(&one->cluster);
    qs_graph_release(one->graph);
    free(one);
}

static qs_plan planned(const qs_plan_question *ask) {
    qs_plan plan;
    assert_ok(qs_plan_make(ask->planner, ask->graph, ask->cluster, ask->profile, ask->job, ask->options, &plan));
    assert_ok(qs_plan_weigh_classes(ask, &plan));
    return plan;
}

/* Images per second are samples of all ranks over the iteration. */
static void pace_check(const qs_plan *plan, int ranks) {
    const double expected = ranks * BATCH / plan->class_[0].predicted.iteration_us * 1e6;
    assert_true(fabs(plan->samples_per_second - expected) <= 1e-12 * expected);
}

/* Every row is the pace of the plan that the others get alone. */
TEST(rows) {
    scene *one = scene_make(2, (const synthetic_device[]){SYNTHETIC_STRONG, SYNTHETIC_WEAK});
    qs_plan plan = planned(&one->ask);
    assert_int_equal(plan.withouts, 2);
    pace_check(&plan, 2);
    for (int c = 0; c < 2; c++) {
        qs_plan_question rest = one->ask;
        qs_cluster cluster;
        assert_ok(qs_cluster_without(&one->cluster, c, &cluster));
        rest.cluster = &cluster;
        qs_plan other = planned(&rest);
        assert_string_equal(plan.without[c].class_name, one->cluster.class_[c].name);
        assert_true(plan.without[c].samples_per_second == other.samples_per_second);
        assert_int_equal(other.withouts, 0);
        pace_check(&other, 1);
        qs_plan_release(&other);
        qs_cluster_release(&cluster);
    }
    qs_plan_release(&plan);
    scene_end(one);
}

/* Two like devices do better than one: nothing is taken out. */
TEST(all_help) {
    scene *one = scene_make(2, (const synthetic_device[]){SYNTHETIC_STRONG, slow_device("like", 1)});
    qs_plan plan = planned(&one->ask);
    qs_cluster rest;
    assert_int_equal(qs_plan_unhelpful(&plan), -1);
    assert_ok(qs_plan_drop_unhelpful(&one->ask, &rest, &plan));
    assert_int_equal(rest.classes, 2);
    assert_int_equal(plan.left_outs, 0);
    assert_int_equal(plan.classes, 2);
    qs_plan_release(&plan);
    qs_cluster_release(&rest);
    scene_end(one);
}

/* Of two classes that hold the rest up both go, the slower one first; what remains is planned as if they had never been there. */
TEST(slow_ones_go) {
    const synthetic_device devices[] = {slow_device("slow", 50), SYNTHETIC_STRONG, slow_device("slower", 400)};
    scene *one = scene_make(3, devices);
    qs_plan pins = {.classes = 1, .class_ = calloc(1, sizeof(qs_class_plan))};
    snprintf(pins.class_[0].class_name, QS_NAME, "slower");
    one->options.pins = &pins;
    qs_plan plan = planned(&one->ask);
    const double whole = plan.samples_per_second, better = plan.without[2].samples_per_second;
    qs_cluster rest;
    char signature[32];
    assert_int_equal(qs_plan_unhelpful(&plan), 2);
    assert_ok(qs_plan_drop_unhelpful(&one->ask, &rest, &plan));
    assert_int_equal(rest.classes, 1);
    assert_string_equal(rest.class_[0].name, "strong");
    assert_int_equal(plan.left_outs, 2);
    assert_string_equal(plan.left_out[0].class_name, "slower");
    assert_string_equal(plan.left_out[1].class_name, "slow");
    assert_true(plan.left_out[0].samples_per_second == whole && plan.left_out[1].samples_per_second == better);
    assert_true(plan.samples_per_second > better && better > whole);
    assert_string_equal(plan.cluster, qs_cluster_signature(&rest, signature));
    assert_int_equal(plan.classes, 1);
    qs_plan_release(&plan);
    qs_cluster_release(&rest);
    qs_plan_release(&pins);
    scene_end(one);
}

/* A rest without a plan is an answer, not a failure: the class that is left has no memory for it. */
TEST(no_plan) {
    scene *one = scene_make(2, (const synthetic_device[]){SYNTHETIC_STRONG, SYNTHETIC_WEAK});
    qs_plan plan = planned(&one->ask);
    one->cluster.class_[0].memory_limit = 1000;
    assert_ok(qs_plan_weigh_classes(&one->ask, &plan));
    assert_true(plan.without[1].samples_per_second == 0);
    assert_true(plan.without[0].samples_per_second > 0);
    plan.samples_per_second = 0;
    assert_int_equal(qs_plan_unhelpful(&plan), 0);
    qs_plan_release(&plan);
    scene_end(one);
}

/* Links to the class go with it. */
TEST(links) {
    qs_cluster cluster, rest;
    assert_ok(
        qs_cluster_parse("{\"schema\":\"qsync/cluster/2\",\"classes\":{"
                         "\"a\":{\"role\":\"training\",\"backend\":\"cpu\",\"formats\":[\"fp32\"]},"
                         "\"b\":{\"role\":\"training\",\"backend\":\"cpu\",\"formats\":[\"fp32\"]},"
                         "\"c\":{\"role\":\"inference\",\"backend\":\"cpu\",\"formats\":[\"fp32\"]}},"
                         "\"links\":[{\"between\":[\"a\",\"b\"],\"kind\":\"network\"},{\"between\":[\"b\",\"c\"],\"kind\":\"network\"},"
                         "{\"between\":[\"a\",\"c\"],\"kind\":\"shared-memory\"}]}",
                         "links", &cluster));
    assert_ok(qs_cluster_without(&cluster, 1, &rest));
    assert_int_equal(rest.classes, 2);
    assert_string_equal(rest.class_[1].name, "c");
    assert_int_equal(rest.links, 1);
    assert_string_equal(rest.link[0].between[1], "c");
    qs_cluster_release(&rest);
    assert_int_equal(qs_cluster_without(&cluster, 3, &rest), QS_USAGE);
    cluster.classes = 1;
    assert_refused(qs_cluster_without(&cluster, 0, &rest), QS_USAGE, "class a is the only one");
    cluster.classes = 3;
    qs_cluster_release(&cluster);
}

TEST_MAIN(rows, all_help, slow_ones_go, no_plan, links)
