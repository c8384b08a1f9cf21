// SPDX-License-Identifier: Apache-2.0
/* Programs: a schedule lowered with a live device's kernels, and its executor. */
#include "train_internal.h"

#include <stdlib.h>
#include <string.h>

static qs_kernel_row row_of(const qs_kernel_fact *fact) {
    qs_kernel_row row = {.scratch_bytes = fact->scratch_bytes, .allocates = fact->allocates, .tuned = fact->tuned};
    memcpy(row.kernel, fact->kernel, sizeof row.kernel);
    return row;
}

qs_status qs_lookup_device(void *device, const qs_case *one, const char *case_text, qs_kernel_row *out) {
    (void)case_text;
    qs_kernel_fact fact;
    QS_TRY(qs_device_fact(device, one, &fact));
    *out = row_of(&fact);
    return QS_OK;
}

/* The kernel that the plan names. A plan that names kernels at all decides alone: for other cases (a smaller last step, evaluation) the
 * device's first candidate is taken, whatever it prefers. */
static qs_status lookup_planned(void *context, const qs_case *one, const char *case_text, qs_kernel_row *out) {
    const qs__kernels *kernels = context;
    const qs_plan_kernel *planned = qs__plan_kernel(kernels->plan, case_text);
    qs_kernel_fact fact[QS_MOST_CANDIDATES];
    int count = 1;
    if (!kernels->plan || kernels->plan->kernels == 0) return qs_lookup_device(kernels->device, one, case_text, out);
    const qs_status status =
        planned ? qs_device_fact_of(kernels->device, one, planned->kernel, fact) : qs_device_candidates(kernels->device, one, fact, &count);
    if (status == QS_MISMATCH)
        return qs_fail_within(status, "class %s: this device does not run what was planned; plan again for what is at hand",
                              kernels->plan->class_name);
    QS_TRY(status);
    *out = row_of(fact);
    return QS_OK;
}

qs_status qs__program_lower(const qs_graph *graph, const qs_job *job, const qs__formats *formats, qs_mode mode, int64_t batch,
                            const qs__kernels *kernels, qs__program *out) {
    qs__kernels pass = *kernels;
    const qs_lowering lowering = {.graph = graph,
                                  .batch = batch,
                                  .mode = mode,
                                  .job = job,
                                  .recipe = formats->recipe,
                                  .half = formats->half,
                                  .tensors = formats->tensors,
                                  .lookup = lookup_planned,
                                  .context = &pass};
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

qs_status qs__weights_load(const qs__program *program, const qs_graph *graph, const char *path) {
    const qs_schedule *schedule = program->schedule;
    float *trained = NULL, *statistics = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs__executor_copy(program->executor, schedule->masters, &trained));
    QS_GOTO(qs__executor_copy(program->executor, schedule->running, &statistics));
    QS_GOTO(qs_weights_read(path, graph, trained, statistics));
    QS_GOTO(qs_executor_write(program->executor, schedule->masters, 0, schedule->buffer[schedule->masters].bytes, trained));
    QS_GOTO(qs_executor_write(program->executor, schedule->running, 0, schedule->buffer[schedule->running].bytes, statistics));
done:
    free(trained);
    free(statistics);
    return status;
}

static bool same_place(const qs_schedule *a, int left, const qs_schedule *b, int right) {
    return left >= 0 && right >= 0 && a->buffer[left].offset == b->buffer[right].offset && a->buffer[left].bytes == b->buffer[right].bytes;
}

static bool same_states(const qs_schedule *a, const qs_schedule *b) {
    bool same = a->states == b->states;
    for (int i = 0; same && i < a->states; i++)
        same = same_place(a, a->state[i], b, b->state[i]);
    return same;
}

qs_status qs__persistent_compare(const qs_schedule *a, const qs_schedule *b) {
    if (same_place(a, a->masters, b, b->masters) && same_states(a, b) && same_place(a, a->running, b, b->running) &&
        ((a->residuals < 0 && b->residuals < 0) || same_place(a, a->residuals, b, b->residuals)) &&
        (b->gradients < 0 || (same_place(a, a->gradients, b, b->gradients) && a->persistent_bytes == b->persistent_bytes))) {
        return QS_OK;
    }
    return qs_fail(QS_FAILED, "schedules of batch %lld and %lld place the persistent memory differently: they cannot share an arena",
                   (long long)a->batch, (long long)b->batch);
}
