// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Schedules of models with every normalisation: they keep what schedules must keep, lower precision needs no more memory, quantized ones
 * save codes, and a relu behind one is no step. */
#include "schedule_check.h"

static const char *const models[] = {"resnet8", "vgg11_bn", "mobilenet_v2", "shufflenet_v2"};
enum { MODELS = COUNT_OF(models) };

static qs_graph *model(const char *name, size_t norm) {
    char text[64];
    qs_graph *graph = NULL;
    snprintf(text, sizeof text, "%s:norm=%s", name, qs_norm_name_at(norm));
    assert_ok(qs_model_build(text, NULL, &graph));
    return graph;
}

TEST(invariants) {
    for (size_t norm = 0; qs_norm_name_at(norm); norm++)
        for (int m = 0; m < MODELS; m++) {
            qs_graph *graph = model(models[m], norm);
            const qs_job job = stub_job(32);
            for (int mode = 0; mode < 3; mode++) {
                qs_schedule *schedule = lower_uniform(graph, &job, (qs_mode)mode, mode == 1 ? "bf16" : "int8/bf16");
                schedule_check(schedule, graph, &job);
                qs_schedule_release(schedule);
            }
            qs_graph_release(graph);
        }
}

/* Fixed-point normalisations keep a quarter or half of what float ones do. */
TEST(memory_falls) {
    const qs_job job = stub_job(128);
    for (int m = 0; m < MODELS; m++) {
        size_t usual = 0;
        for (size_t norm = 0; qs_norm_name_at(norm); norm++) {
            qs_graph *graph = model(models[m], norm);
            const size_t fp32 = arena_bytes_of(graph, &job, "fp32", "bf16"), bf16 = arena_bytes_of(graph, &job, "bf16", "bf16"),
                         int8 = arena_bytes_of(graph, &job, "int8/bf16", "bf16");
            if (int8 > bf16 || bf16 > fp32) fail_msg("%s: fp32 %zu, bf16 %zu, int8/bf16 %zu bytes", graph->name, fp32, bf16, int8);
            if (norm == 0) usual = fp32;
            if (strstr(graph->name, "bnq")) assert_true(fp32 < usual);
            qs_graph_release(graph);
        }
    }
}

static const qs_buffer *buffer_named(const qs_schedule *schedule, const char *name) {
    for (int b = 0; b < schedule->buffers; b++)
        if (strcmp(schedule->buffer[b].name, name) == 0) return &schedule->buffer[b];
    fail_msg("no buffer %s", name);
    return NULL;
}

TEST(codes_are_saved) {
    qs_graph *graph = NULL;
    assert_ok(qs_model_build("resnet8:norm=l1bnq", NULL, &graph));
    const qs_job job = stub_job(16);
    qs_schedule *schedule = lower_uniform(graph, &job, QS_MODE_TRAIN, "fp32");
    const qs_buffer *codes = buffer_named(schedule, "stem.conv:value:int8"), *output = buffer_named(schedule, "stem.conv:dst");
    assert_int_equal(codes->bytes, 16 * 16 * 32 * 32);
    assert_int_equal(codes->category, QS_SAVED_ACTIVATIONS);
    assert_int_equal(output->category, QS_TRANSIENT_ACTIVATIONS);
    assert_int_equal(buffer_named(schedule, "stem.bn:deviation")->category, QS_SAVED_ACTIVATIONS);
    qs_schedule_release(schedule);
    qs_graph_release(graph);
}

/* Steps of a node in a phase. */
static int steps_of(const qs_schedule *schedule, const qs_graph *graph, const char *name, qs_phase phase) {
    int count = 0;
    for (int s = 0; s < schedule->steps; s++)
        count += schedule->step[s].node == qs_graph_find(graph, name) && schedule->step[s].phase == phase && !schedule->step[s].conversion;
    return count;
}

TEST(relus_are_done) {
    qs_graph *graph = NULL;
    assert_ok(qs_model_build("mobilenet_v2", NULL, &graph));
    const qs_job job = stub_job(16);
    for (int mode = 0; mode < 2; mode++) {
        qs_schedule *schedule = lower_uniform(graph, &job, (qs_mode)mode, "bf16");
        assert_int_equal(steps_of(schedule, graph, "head.relu", QS_FORWARD), 0);
        assert_int_equal(steps_of(schedule, graph, "head.relu", QS_BACKWARD), 0);
        for (int s = 0; s < schedule->steps; s++) {
            const qs_step *step = &schedule->step[s];
            if (step->node != qs_graph_find(graph, "head.bn")) continue;
            assert_non_null(strstr(step->case_text, " ceiling=6 relu"));
            assert_true((strstr(step->case_text, "mask=int8[") != NULL) == (mode == 0));
        }
        qs_schedule_release(schedule);
    }
    qs_graph_release(graph);
}

/* A whole step by the reference kernels: the quantized normalisation's loss stays near that of the exact one. */
static double loss_of(const char *name) {
    qs_graph *graph = NULL;
    assert_ok(qs_model_build(name, &(qs_model_input){3, 16, 16, 10}, &graph));
    const qs_job job = stub_job(8);
    qs_schedule *schedule = lower_uniform(graph, &job, QS_MODE_TRAIN, "fp32");
    runner one = runner_make(schedule, graph);
    const double loss = runner_run(&one, 10, QS_BACKWARD);
    const float *gradients = runner_buffer(&one, schedule->gradients);
    for (int64_t i = 0; i < graph->trained_elements; i++)
        assert_true(isfinite(gradients[i]));
    free(one.memory);
    qs_schedule_release(schedule);
    qs_graph_release(graph);
    return loss;
}

TEST(steps_run) {
    const double exact = loss_of("resnet8:norm=l1bn"), rounded = loss_of("resnet8:norm=l1bnq");
    assert_true(fabs(exact - rounded) < 0.1 * exact && exact != rounded);
    assert_true(isfinite(loss_of("resnet8:norm=l2bnq-std")));
}

TEST_MAIN(invariants, memory_falls, codes_are_saved, relus_are_done, steps_run)
