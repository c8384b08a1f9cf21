// SPDX-License-Identifier: Apache-2.0
// labels: medium
/* What planner `qsync` certifies on models of the size that it is for: the cells of experiments/allocation with made-up costs, two unlike
 * ranks of one host that slow each other down, memory ample and midway between what bf16 and int8 throughout need; and larger models,
 * whose ranks do or do not. */
#include "scene.h"

enum { BATCH = 64 };

static void start(scene *one, const char *model, int64_t batch, bool slow) {
    qs_graph *graph = NULL;
    assert_ok(qs_model_build(model, NULL, &graph));
    *one = (scene){.graph = graph, .job = stub_job(batch), .classes = 2};
    one->device[0] = (synthetic_device)SYNTHETIC_STRONG;
    one->device[1] = (synthetic_device)SYNTHETIC_WEAK;
    for (int d = 0; d < 2; d++) {
        one->device[d].fp32 = d ? 48e3 : 60e3;
        one->device[d].half = 90e3;
        one->device[d].int8 = 150e3;
        one->device[d].bytes = d ? 8e3 : 10e3;
    }
    one->cluster = synthetic_cluster(2, one->device);
    one->profile = synthetic_profile(graph, &one->cluster, one->device, &one->job);
    if (slow) scene_slowdown(one);
    qs_plan_options_default(&one->options);
    scene_draft(one);
}

static int64_t arena(scene *one, int recipe) {
    double omega;
    qs_prediction prediction;
    scene_ask_uniform(one, recipe, &omega, &prediction);
    const int64_t bytes = (int64_t)prediction.class_[SCENE_WEAK].arena_bytes;
    qs_prediction_release(&prediction);
    return bytes;
}

static void certified_of(const char *model, int64_t batch, bool slow, bool tight, double most) {
    scene one;
    start(&one, model, batch, slow);
    if (tight) one.cluster.class_[SCENE_WEAK].memory_limit = (arena(&one, 1) + arena(&one, 2)) / 2;
    qs_plan plan = scene_plan(&one, "qsync");
    const double omega = plan.class_[SCENE_WEAK].predicted.sum_omega, bound = plan.class_[SCENE_WEAK].predicted.lower_bound;
    print_message("%s, memory %s%s: gap %.2f %%\n", model, tight ? "tight" : "ample", slow ? ", one host" : "", 100 * (1 - bound / omega));
    assert_true(omega > 0 && bound > 0 && bound <= omega && 1 - bound / omega <= most);
    qs_plan_release(&plan);
    scene_end(&one);
}

static void certified(const char *model, bool tight, double most) {
    certified_of(model, BATCH, true, tight, most);
}

TEST(memory_ample) {
    certified("resnet20", false, 0.05);
    certified("vgg11", false, 0.05);
    certified("vgg11_bn", false, 0.05);
}

TEST(memory_tight) {
    certified("resnet20", true, 0.05);
    certified("vgg11_bn", true, 0.05);
}

TEST(larger_models) {
    certified_of("resnet50", 32, false, false, 0.05);
    certified_of("bert:base", 8, false, false, 0.05);
    certified_of("mobilenet_v2", BATCH, false, false, 0.05);
    certified_of("mobilenet_v2", BATCH, false, true, 0.05);
    certified_of("resnet50", 32, true, false, 0.05);
    certified_of("mobilenet_v2", BATCH, true, false, 0.05);
    certified_of("mobilenet_v2", BATCH, true, true, 0.05);
}

/* Said, not held to a limit. */
TEST(far_from_the_bound) {
    certified("vgg11", true, 1);
    certified_of("resnet50", 32, false, true, 1);
    certified_of("resnet50", 32, true, true, 1);
    certified_of("bert:base", 8, false, true, 1);
    certified_of("bert:base", 8, true, false, 1);
    certified_of("bert:base", 8, true, true, 1);
}

TEST_MAIN(memory_ample, memory_tight, larger_models, far_from_the_bound)
