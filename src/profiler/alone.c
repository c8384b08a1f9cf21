// SPDX-License-Identifier: Apache-2.0
/* Kernels timed by themselves: those that no plan reached, with their operands out of cache; and, to show what that is worth, all of them,
 * out of cache or in a hot loop. */
#include "profiler_internal.h"

#include <stdlib.h>

enum { RUNS = 5 };
static const size_t flush_bytes = (size_t)48 << 20; /* beyond the last-level cache's share of a core */

static qs_status runs_time(qs__profiler *profiler, qs__entry *entry, qs_kernel *kernel, char *flush) {
    const qs_run run = {.samples = profiler->job->batch, .global_samples = profiler->ranks * profiler->job->batch, .loss_scale = 1};
    QS_TRY(qs_kernel_run(kernel, &run));
    for (int i = 0; i < RUNS; i++) {
        if (profiler->options->context != QS_CONTEXT_HOT) qs__cache_flush(flush, flush_bytes);
        const double begin = qs_clock();
        QS_TRY(qs_kernel_run(kernel, &run));
        QS_TRY(qs__samples_add(&entry->kernel_us, (qs_clock() - begin) * 1e6));
    }
    return QS_OK;
}

static qs_status entry_time(qs__profiler *profiler, qs__entry *entry) {
    const qs_case *one = &entry->case_;
    const size_t bytes = qs__operands_place(one, entry->row.scratch_bytes, NULL, NULL, NULL);
    qs_arena arena = {0};
    void *data[QS_MAX_OPERANDS] = {0}, *scratch = NULL;
    qs_kernel *kernel = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs_arena_reserve(bytes + flush_bytes, &arena));
    qs__operands_place(one, entry->row.scratch_bytes, arena.memory, data, &scratch);
    qs__operands_fill(one, data);
    QS_GOTO(qs_device_prepare(profiler->device, one, entry->row.kernel, data, scratch, &kernel));
    status = runs_time(profiler, entry, kernel, (char *)arena.memory + bytes);
done:
    qs_kernel_release(kernel);
    qs_arena_release(&arena);
    return status;
}

/* What steps showed of kernels is forgotten, where that was asked for. */
static void contexts_forget(qs__profiler *profiler) {
    for (int i = 0; i < profiler->cases.count && profiler->options->context != QS_CONTEXT_STEPS; i++) {
        qs__entry *entry = &profiler->cases.entry[i];
        entry->kernel_us.count = 0;
        for (int c = 0; c < QS__CACHES; c++)
            entry->cold[c].count = 0;
    }
}

qs_status qs__alone_measure(qs__profiler *profiler) {
    qs_status status = QS_OK;
    int left = 0;
    contexts_forget(profiler);
    for (int i = 0; i < profiler->cases.count; i++)
        left += profiler->cases.entry[i].as_kernel && profiler->cases.entry[i].kernel_us.count == 0;
    if (left > 0) qs__progress(profiler, 0.45, "kernels by themselves");
    for (int i = 0; i < profiler->cases.count && status == QS_OK; i++) {
        qs__entry *entry = &profiler->cases.entry[i];
        if (entry->as_kernel && entry->kernel_us.count == 0) status = entry_time(profiler, entry);
    }
    return qs_comm_agree(profiler->comm, status);
}
