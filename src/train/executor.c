// SPDX-License-Identifier: Apache-2.0
/* The executor: a schedule whose kernels are bound to memory, and the loop that runs it.
 *
 * All-reduces start where the schedule says that a bucket is complete. Most MPI libraries move data only inside their own calls, so the
 * oldest one under way is asked between kernels: that is what overlaps communication with the rest of the backward pass. */
#include "train_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MEMORY_ALIGNMENT = 64 };

struct qs_executor {
    const qs_schedule *schedule;
    qs_comm *comm;
    char *memory;
    qs_kernel **kernel;   /* (steps) NULL for communication */
    qs_request **request; /* (buckets) NULL when not under way */
    int *started;         /* (buckets) in order of their start in this run */
    int starts, polled;   /* started[polled] is the oldest one that may still be moving */
    bool *finite;         /* where to note that gradients are not; NULL: they are not looked at */
    qs_step_observer observer;
    void *observer_context;
    qs_timeline *timeline; /* NULL: nobody asks */
};

static void *place_memory(const qs_executor *executor, qs_place place) {
    if (place.buffer < 0) return NULL;
    return executor->memory + executor->schedule->buffer[place.buffer].offset + place.offset;
}

void qs_executor_observe(qs_executor *executor, qs_step_observer observer, void *context) {
    executor->observer = observer;
    executor->observer_context = context;
}

void qs_executor_time(qs_executor *executor, qs_timeline *timeline) {
    executor->timeline = timeline;
}

/* ---- Binding --------------------------------------------------------------------------------------------------------------- */

static qs_status kernel_bind(qs_executor *executor, qs_device *device, int index) {
    const qs_step *step = &executor->schedule->step[index];
    if (step->kind != QS_STEP_KERNEL) return QS_OK;
    void *data[QS_MAX_OPERANDS] = {0};
    for (int i = 0; i < step->case_.operands; i++) {
        data[i] = step->case_.operand[i].format ? place_memory(executor, step->place[i]) : NULL;
    }
    qs_status status =
        qs_device_prepare(device, &step->case_, step->kernel, data, place_memory(executor, step->scratch), &executor->kernel[index]);
    return qs_fail_within(status, "step %d (%s)", index, step->case_text);
}

static qs_status executor_fill(qs_executor *executor, qs_device *device) {
    const qs_schedule *schedule = executor->schedule;
    QS_TRY(qs_allocate((size_t)schedule->steps, sizeof(qs_kernel *), &executor->kernel));
    QS_TRY(qs_allocate((size_t)schedule->buckets, sizeof(qs_request *), &executor->request));
    QS_TRY(qs_allocate((size_t)schedule->buckets, sizeof *executor->started, &executor->started));
    for (int s = 0; s < schedule->steps; s++)
        QS_TRY(kernel_bind(executor, device, s));
    return QS_OK;
}

qs_status qs_executor_create(const qs_schedule *schedule, qs_device *device, qs_comm *comm, void *memory, qs_executor **out) {
    if ((uintptr_t)memory % MEMORY_ALIGNMENT != 0) {
        return qs_fail(QS_USAGE, "the memory of a schedule starts at %p, must be a multiple of %d bytes", memory, MEMORY_ALIGNMENT);
    }
    qs_executor *executor = NULL;
    QS_TRY(qs_allocate(1, sizeof *executor, &executor));
    executor->schedule = schedule;
    executor->comm = comm;
    executor->memory = memory;
    qs_status status = executor_fill(executor, device);
    if (status != QS_OK) {
        qs_executor_release(executor);
        return status;
    }
    *out = executor;
    return QS_OK;
}

void qs_executor_release(qs_executor *executor) {
    if (!executor) return;
    for (int s = 0; executor->kernel && s < executor->schedule->steps; s++) {
        if (executor->kernel[s]) qs_kernel_release(executor->kernel[s]);
    }
    free(executor->kernel);
    free(executor->request);
    free(executor->started);
    free(executor);
}

/* ---- Memory ---------------------------------------------------------------------------------------------------------------- */

static char *buffer_memory(const qs_executor *executor, int buffer) {
    return place_memory(executor, (qs_place){buffer, 0});
}

static qs_status range_check(const qs_executor *executor, int buffer, size_t offset, size_t bytes) {
    const qs_schedule *schedule = executor->schedule;
    if (buffer < 0 || buffer >= schedule->buffers)
        return qs_fail(QS_USAGE, "buffer %d: the schedule has buffers 0 to %d", buffer, schedule->buffers - 1);
    const qs_buffer *one = &schedule->buffer[buffer];
    if (offset <= one->bytes && bytes <= one->bytes - offset) return QS_OK;
    return qs_fail(QS_USAGE, "buffer %s has %zu bytes, not %zu from byte %zu on", one->name, one->bytes, bytes, offset);
}

qs_status qs_executor_read(const qs_executor *executor, int buffer, size_t offset, size_t bytes, void *to) {
    QS_TRY(range_check(executor, buffer, offset, bytes));
    memcpy(to, buffer_memory(executor, buffer) + offset, bytes);
    return QS_OK;
}

qs_status qs_executor_write(qs_executor *executor, int buffer, size_t offset, size_t bytes, const void *from) {
    QS_TRY(range_check(executor, buffer, offset, bytes));
    memcpy(buffer_memory(executor, buffer) + offset, from, bytes);
    return QS_OK;
}

qs_status qs_executor_clear(qs_executor *executor, int buffer) {
    QS_TRY(range_check(executor, buffer, 0, 0));
    memset(buffer_memory(executor, buffer), 0, executor->schedule->buffer[buffer].bytes);
    return QS_OK;
}

qs_status qs_executor_initialize(qs_executor *executor, const qs_graph *graph, uint64_t seed) {
    const qs_schedule *schedule = executor->schedule;
    qs_graph_initialize(graph, seed, (float *)(void *)buffer_memory(executor, schedule->masters),
                        (float *)(void *)buffer_memory(executor, schedule->running));
    return QS_OK;
}

/* Inputs that are left from before could be a NaN or a label out of range. */
qs_status qs_executor_load(qs_executor *executor, const qs_graph *graph, const qs_dataset *dataset, const qs_augmentation *augmentation,
                           const int64_t *indices, int64_t count) {
    const qs_schedule *schedule = executor->schedule;
    const qs_shape *input = &graph->node[0].shape;
    const size_t image_bytes = schedule->buffer[schedule->images].bytes / (size_t)schedule->batch;
    char *images = buffer_memory(executor, schedule->images), *labels = buffer_memory(executor, schedule->labels);
    if (count > schedule->batch)
        return qs_fail(QS_USAGE, "%lld samples for a schedule of batch %lld", (long long)count, (long long)schedule->batch);
    qs_batch_fill(dataset, augmentation, indices, count, (int)input->dim[2], (int)input->dim[3], (float *)(void *)images,
                  (int32_t *)(void *)labels);
    const size_t left = (size_t)(schedule->batch - count);
    memset(images + (size_t)count * image_bytes, 0, left * image_bytes);
    memset(labels + (size_t)count * sizeof(int32_t), 0, left * sizeof(int32_t));
    return QS_OK;
}

uint64_t qs__executor_hash(const qs_executor *executor, int buffer, uint64_t seed) {
    return qs_hash(buffer_memory(executor, buffer), executor->schedule->buffer[buffer].bytes, seed);
}

qs_status qs__executor_copy(const qs_executor *executor, int buffer, void *out) {
    void **copy = out;
    *copy = NULL;
    if (buffer < 0) return QS_OK;
    const size_t bytes = executor->schedule->buffer[buffer].bytes;
    QS_TRY(qs_allocate(bytes, 1, copy));
    return qs_executor_read(executor, buffer, 0, bytes, *copy);
}

qs_status qs__executor_operand(const qs_executor *executor, const qs_step *step, int operand, void *out) {
    const qs_operand *one = &step->case_.operand[operand];
    const size_t bytes = qs_format_bytes(one->format, qs_shape_count(&one->shape));
    void **copy = out;
    QS_TRY(qs_allocate(bytes, 1, copy));
    return qs_executor_read(executor, step->place[operand].buffer, step->place[operand].offset, bytes, *copy);
}

/* ---- Running --------------------------------------------------------------------------------------------------------------- */

static qs_status reduce_start(qs_executor *executor, int bucket, const qs_run *run) {
    const qs_schedule *schedule = executor->schedule;
    const qs_bucket *one = &schedule->bucket[bucket];
    float *gradients = place_memory(executor, (qs_place){schedule->gradients, 0});
    float *residuals = place_memory(executor, (qs_place){schedule->residuals, 0});
    if (executor->finite && *executor->finite) *executor->finite = isfinite(qs_absmax_array(one->count, gradients + one->first));
    executor->started[executor->starts++] = bucket;
    return qs_comm_all_reduce_wire_start(executor->comm, schedule->wire, gradients + one->first, residuals ? residuals + one->first : NULL,
                                         (float)run->loss_scale, one->count, &executor->request[bucket]);
}

static qs_status reduce_wait(qs_executor *executor, int bucket) {
    qs_request *request = executor->request[bucket];
    executor->request[bucket] = NULL;
    if (!request) return QS_OK;
    QS_TRY(qs_comm_wait(executor->comm, request));
    qs_timeline *timeline = executor->timeline;
    if (timeline && timeline->complete[bucket] == 0) timeline->complete[bucket] = qs_clock();
    return QS_OK;
}

/* Lets the oldest all-reduce under way make progress; the library moves the later ones with it. */
static qs_status poll(qs_executor *executor) {
    while (executor->polled < executor->starts) {
        qs_request *request = executor->request[executor->started[executor->polled]];
        bool done = true;
        if (request) QS_TRY(qs_comm_test(executor->comm, request, &done));
        if (!done) return QS_OK;
        executor->polled++;
    }
    return QS_OK;
}

/* The same with its time taken: it is communication's, not the kernel's that ended before. */
static qs_status poll_timed(qs_executor *executor, int index) {
    qs_timeline *timeline = executor->timeline;
    const int seen = executor->polled;
    if (!timeline || seen == executor->starts) return poll(executor);
    const double begin = qs_clock();
    QS_TRY(poll(executor));
    const double end = qs_clock();
    timeline->polled[index] = end - begin;
    for (int i = seen; i < executor->polled; i++)
        if (timeline->complete[executor->started[i]] == 0) timeline->complete[executor->started[i]] = end;
    return QS_OK;
}

static qs_status kernel_run(qs_executor *executor, int index, const qs_run *run) {
    const qs_step *step = &executor->schedule->step[index];
    qs_run here = *run;
    here.operator_id = step->node >= 0 ? (uint64_t)step->node : (uint64_t)executor->schedule->nodes;
    here.stream = step->stream;
    qs_status status = qs_kernel_run(executor->kernel[index], &here);
    if (status != QS_OK) return qs_fail_within(status, "step %d (%s)", index, step->case_text);
    return poll_timed(executor, index);
}

static qs_status step_run(qs_executor *executor, int index, const qs_run *run) {
    const qs_step *step = &executor->schedule->step[index];
    switch (step->kind) {
    case QS_STEP_REDUCE_START:
        return reduce_start(executor, step->bucket, run);
    case QS_STEP_REDUCE_WAIT:
        return reduce_wait(executor, step->bucket);
    default:
        return kernel_run(executor, index, run);
    }
}

/* Without samples there is nothing to compute, but the others count on this rank's part of the sums: zero. */
static bool is_needed(const qs_step *step, const qs_run *run) {
    return run->samples > 0 || step->kind != QS_STEP_KERNEL || step->phase == QS_UPDATE;
}

int qs__phase_end(const qs_schedule *schedule, qs_phase phase) {
    int steps = 0;
    while (steps < schedule->steps && schedule->step[steps].phase <= phase)
        steps++;
    return steps;
}

static qs_status marks_reset(qs_executor *executor, const qs_run *run) {
    const qs_schedule *schedule = executor->schedule;
    const float finite = 1;
    if (schedule->counts >= 0) QS_TRY(qs_executor_clear(executor, schedule->counts));
    if (schedule->flag >= 0) QS_TRY(qs_executor_write(executor, schedule->flag, 0, sizeof finite, &finite));
    return run->samples == 0 && schedule->mode != QS_MODE_EVALUATION ? qs_executor_clear(executor, schedule->gradients) : QS_OK;
}

static qs_status observed_run(qs_executor *executor, int index, const qs_run *run) {
    if (!executor->observer) return step_run(executor, index, run);
    const double begin = qs_clock();
    QS_TRY(step_run(executor, index, run));
    executor->observer(executor->observer_context, executor->schedule, index, qs_clock() - begin);
    return QS_OK;
}

static qs_status steps_run(qs_executor *executor, int first, int end, const qs_run *run) {
    const qs_schedule *schedule = executor->schedule;
    qs_timeline *timeline = executor->timeline;
    for (int s = first; s < end; s++) {
        if (is_needed(&schedule->step[s], run)) QS_TRY(observed_run(executor, s, run));
        if (timeline) timeline->end[s] = qs_clock();
    }
    return QS_OK;
}

qs_status qs__executor_forward(qs_executor *executor, const qs_run *run) {
    executor->starts = executor->polled = 0;
    if (executor->timeline) qs__timeline_start(executor->timeline);
    QS_TRY(marks_reset(executor, run));
    return steps_run(executor, 0, qs__phase_end(executor->schedule, QS_FORWARD), run);
}

qs_status qs__executor_backward(qs_executor *executor, const qs_run *run, bool *finite) {
    const qs_schedule *schedule = executor->schedule;
    if (finite) *finite = true;
    executor->finite = finite;
    const qs_status status = steps_run(executor, qs__phase_end(schedule, QS_FORWARD), qs__phase_end(schedule, QS_BACKWARD), run);
    executor->finite = NULL;
    return status;
}

qs_status qs__executor_update(qs_executor *executor, const qs_run *run) {
    return steps_run(executor, qs__phase_end(executor->schedule, QS_BACKWARD), executor->schedule->steps, run);
}

qs_status qs__executor_settle(qs_executor *executor) {
    for (int i = executor->polled; i < executor->starts; i++)
        QS_TRY(reduce_wait(executor, executor->started[i]));
    return QS_OK;
}

qs_status qs__executor_step(qs_executor *executor, int index, const qs_run *run) {
    return step_run(executor, index, run);
}

qs_status qs_executor_run(qs_executor *executor, const qs_run *run) {
    QS_TRY(qs__executor_forward(executor, run));
    QS_TRY(qs__executor_backward(executor, run, NULL));
    return qs__executor_update(executor, run);
}
