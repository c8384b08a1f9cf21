// SPDX-License-Identifier: Apache-2.0
/* Programs: a schedule lowered with a live device's kernels, and its executor. */
#include "train_internal.h"

#include <string.h>

qs_status qs_lookup_device(void *device, const qs_case *one, const char *case_text, qs_kernel_row *out) {
    (void)case_text;
    qs_kernel_fact fact;
    QS_TRY(qs_device_fact(device, one, &fact));
    qs_kernel_row row = {.scratch_bytes = fact.scratch_bytes, .allocates = fact.allocates};
    memcpy(row.kernel, fact.kernel, sizeof row.kernel);
    *out = row;
    return QS_OK;
}

qs_status qs__program_lower(const qs_graph *graph, const qs_job *job, const qs__formats *formats, qs_mode mode, int64_t batch,
                            qs_device *device, qs__program *out) {
    const qs_lowering lowering = {.graph = graph,
                                  .batch = batch,
                                  .mode = mode,
                                  .job = job,
                                  .recipe = formats->recipe,
                                  .half = formats->half,
                                  .tensors = formats->tensors,
                                  .lookup = qs_lookup_device,
                                  .context = device};
    return qs_schedule_lower(&lowering, &out->schedule);
}

qs_status qs__program_bind(qs__program *program, qs_device *device, qs_comm *comm, void *memory) {
    return qs_executor_create(program->schedule, device, comm, memory, &program->executor);
}

void qs__program_release(qs__program *program) {
    qs_executor_release(program->executor);
    qs_schedule_release(program->schedule);
    *program = (qs__program){0};
}

static bool same_place(const qs_schedule *a, int left, const qs_schedule *b, int right) {
    return left >= 0 && right >= 0 && a->buffer[left].offset == b->buffer[right].offset && a->buffer[left].bytes == b->buffer[right].bytes;
}

qs_status qs__persistent_compare(const qs_schedule *a, const qs_schedule *b) {
    if (same_place(a, a->masters, b, b->masters) && same_place(a, a->momentum, b, b->momentum) &&
        same_place(a, a->running, b, b->running) &&
        (b->gradients < 0 || (same_place(a, a->gradients, b, b->gradients) && a->persistent_bytes == b->persistent_bytes))) {
        return QS_OK;
    }
    return qs_fail(QS_FAILED, "schedules of batch %lld and %lld place the persistent memory differently: they cannot share an arena",
                   (long long)a->batch, (long long)b->batch);
}
