// SPDX-License-Identifier: Apache-2.0
/* Every built-in model, in every mode and uniform recipe, keeps what a schedule must keep; lower precision never needs more memory. */
#include "schedule_check.h"

static const char *const recipes[] = {"fp32",
                                      "bf16",
                                      "int8/bf16",
                                      "int8/fp32",
                                      "int4:shift4",
                                      "int4:hadamard",
                                      "int4:shift4:mse/int8/log4:draw2",
                                      "bf16/int4:shift4",
                                      "mxfp8",
                                      "nvfp4/mxfp4/bf16"};
#define RECIPES ((int)(COUNT_OF(recipes)))
#define BATCH 32

static qs_graph *model(size_t index) {
    qs_graph *graph = NULL;
    assert_ok(qs_model_build(qs_model_name_at(index), NULL, &graph));
    return graph;
}

/* The persistent part is the same in all modes, but for the gradients, which come last and which evaluation lacks: it runs over the memory
 * of training and works where they were. */
static void persistent_same(const qs_schedule *a, const qs_schedule *b) {
    const bool evaluation = b->mode == QS_MODE_EVALUATION;
    const int left[] = {a->masters, a->running, a->state[0], a->gradients}, right[] = {b->masters, b->running, b->state[0], b->gradients};
    for (int i = 0; i < (evaluation ? 3 : 4); i++) {
        assert_int_equal(a->buffer[left[i]].offset, b->buffer[right[i]].offset);
        assert_int_equal(a->buffer[left[i]].bytes, b->buffer[right[i]].bytes);
    }
    if (!evaluation) assert_int_equal(a->persistent_bytes, b->persistent_bytes);
    assert_int_equal(b->persistent_bytes, evaluation ? a->buffer[a->gradients].offset : a->persistent_bytes);
}

TEST(invariants) {
    for (size_t m = 0; qs_model_name_at(m); m++) {
        qs_graph *graph = model(m);
        qs_job job = stub_job(BATCH);
        job.dynamic_loss_scaling = m % 2 == 0;
        for (int r = 0; r < RECIPES; r++) {
            qs_schedule *mode[3];
            for (int k = 0; k < 3; k++) {
                mode[k] = lower_uniform(graph, &job, (qs_mode)k, recipes[r]);
                schedule_check(mode[k], graph, &job);
                persistent_same(mode[0], mode[k]);
            }
            for (int k = 0; k < 3; k++)
                qs_schedule_release(mode[k]);
        }
        qs_graph_release(graph);
    }
}

/* Packing by interval is a bin-packing problem, so the largest live sum is not always reached; beyond a tenth above it would be waste. */
TEST(packing_is_tight) {
    for (size_t m = 0; qs_model_name_at(m); m++) {
        qs_graph *graph = model(m);
        const qs_job job = stub_job(BATCH);
        for (int r = 0; r < RECIPES; r++) {
            qs_schedule *schedule = lower_uniform(graph, &job, QS_MODE_TRAIN, recipes[r]);
            const double ratio = (double)schedule->arena_bytes / (double)schedule->live_bytes;
            if (!(ratio <= 1.1))
                fail_msg("%s in %s: arena of %zu bytes for %zu live ones", graph->name, recipes[r], schedule->arena_bytes,
                         schedule->live_bytes);
            qs_schedule_release(schedule);
        }
        qs_graph_release(graph);
    }
}

/* int8 ≤ bf16 ≤ fp32 in memory (docs/method.md §4.3). */
static bool memory_falls(const qs_graph *graph, int64_t batch) {
    const qs_job job = stub_job(batch);
    const size_t fp32 = arena_bytes_of(graph, &job, "fp32", "bf16"), bf16 = arena_bytes_of(graph, &job, "bf16", "bf16");
    const size_t mixed = arena_bytes_of(graph, &job, "int8/bf16", "bf16"), stored = arena_bytes_of(graph, &job, "int8/fp32", "bf16");
    const size_t wide = arena_bytes_of(graph, &job, "int8/fp32", "fp32");
    if (mixed <= bf16 && bf16 <= fp32 && stored <= fp32 && wide <= fp32) return true;
    print_error("%s, batch %d: int8/bf16 %zu, bf16 %zu, fp32 %zu, int8/fp32 %zu (stored in bf16), %zu (in fp32)\n", graph->name, (int)batch,
                mixed, bf16, fp32, stored, wide);
    return false;
}

static int rises(const char *name) {
    const int64_t batches[] = {1, 32, 128};
    qs_graph *graph = NULL;
    int wrong = 0;
    assert_ok(qs_model_build(name, NULL, &graph));
    for (int b = 0; b < 3; b++)
        wrong += !memory_falls(graph, batches[b]);
    qs_graph_release(graph);
    return wrong;
}

/* At any width as well, unless the images outweigh all else (mlp, alexnet): what reads them in another format keeps a copy beside them. */
TEST(lower_precision_needs_no_more_memory) {
    static const char *const narrow[] = {"squeezenet", "shufflenet_v2", "mobilenet_v2", "resnet18_cifar"};
    static const char *const widths[] = {"0.5", "0.25", "0.1"};
    int wrong = 0;
    for (size_t m = 0; qs_model_name_at(m); m++)
        wrong += rises(qs_model_name_at(m));
    for (int i = 0; i < 4 * 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s:width=%s", narrow[i / 3], widths[i % 3]);
        wrong += rises(name);
    }
    assert_int_equal(wrong, 0);
}

TEST_MAIN(invariants, packing_is_tight, lower_precision_needs_no_more_memory)
