// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Less precision never takes more memory (int8 <= bf16 <= fp32, uniform plans), for every built-in model, with the kernels and the scratch
 * of the real device: lowering only, nothing runs. */
#include "kit/processor.h"
#include "qsync/train.h"

static bool computes(const qs_device *device, const char *format) {
    qs_device_info info;
    qs_device_describe(device, &info);
    for (int i = 0; i < 8 && info.formats[i]; i++)
        if (strcmp(info.formats[i], format) == 0) return true;
    return false;
}

static size_t arena_of(const qs_graph *graph, qs_device *device, int64_t batch, const char *name, const char *half) {
    qs_job job;
    qs_recipe recipe;
    qs_schedule *schedule = NULL;
    const qs_recipe **bound = calloc((size_t)graph->nodes, sizeof *bound);
    assert_non_null(bound);
    qs_job_default(&job);
    job.batch = batch;
    assert_ok(qs_recipe_builtin(name, &recipe));
    for (int n = graph->samples.inputs; n < graph->nodes; n++)
        if (graph->node[n].op->kind == QS_ADJUSTABLE) bound[n] = &recipe;
    const qs_lowering lowering = {.graph = graph,
                                  .batch = batch,
                                  .mode = QS_MODE_TRAIN,
                                  .job = &job,
                                  .recipe = bound,
                                  .half = qs_format_of(half),
                                  .lookup = qs_lookup_device,
                                  .context = device};
    if (qs_schedule_lower(&lowering, &schedule) != QS_OK) fail_msg("%s under %s: %s", graph->name, name, qs_message());
    const size_t bytes = schedule->arena_bytes;
    qs_schedule_release(schedule);
    free(bound);
    return bytes;
}

/* Where there are tile registers, the kernel library copies a block of the weights of bf16 and int8 into their order, which in fp32 it
 * reads as they lie: that is some tens of KiB, and only models whose activations are as small show it. */
static void not_more(const char *model, int64_t batch, size_t lower, size_t higher) {
    const size_t copies = processor_here().tiles ? 64 << 10 : 0;
    if (lower > higher + copies)
        fail_msg("%s, batch %lld: the lower precision takes %zu bytes, the higher %zu", model, (long long)batch, lower, higher);
}

static void precision_pays_in_memory(void **state) {
    static const int64_t batches[] = {4, 32, 128};
    const qs_device_options options = {.backend = "cpu", .threads = 1, .speed = 1};
    qs_device *device = NULL;
    (void)state;
    if (qs_device_open(&options, &device) != QS_OK || !computes(device, "bf16") || !computes(device, "int8")) {
        qs_device_close(device);
        skip();
    }
    for (size_t m = 0; qs_model_name_at(m); m++) {
        qs_graph *graph = NULL;
        assert_ok(qs_model_build(qs_model_name_at(m), NULL, &graph));
        for (size_t b = 0; b < COUNT_OF(batches); b++) {
            const size_t half = arena_of(graph, device, batches[b], "bf16", "bf16");
            not_more(graph->name, batches[b], half, arena_of(graph, device, batches[b], "fp32", "bf16"));
            not_more(graph->name, batches[b], arena_of(graph, device, batches[b], "int8/bf16", "bf16"), half);
        }
        qs_graph_release(graph);
    }
    qs_device_close(device);
}

TEST_MAIN(precision_pays_in_memory)
