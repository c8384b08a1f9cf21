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

static void *memory_at(const qs_executor *executor, int buffer, size_t offset) {
    return buffer < 0 ? NULL : executor->memory + executor->schedule->buffer[buffer].offset + offset;
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
        data[i] = step->case_.operand[i].format ? memory_at(executor, step->place[i].buffer, step->place[i].offset) : NULL;
    }
    qs_status status = qs_device_prepare(device, &step->case_, step->kernel, data,
                                         memory_at(executor, step->scratch.buffer, step->scratch.offset), &executor->kernel[index]);
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

/* ---- Timelines -------------------------------------------------------------------------------------------------------------- */

qs_status qs_timeline_create(const qs_schedule *schedule, qs_timeline *out) {
    qs_timeline timeline = {.steps = schedule->steps, .buckets = schedule->buckets};
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)schedule->steps, sizeof *timeline.end, &timeline.end));
    QS_GOTO(qs_allocate((size_t)schedule->steps, sizeof *timeline.polled, &timeline.polled));
    QS_GOTO(qs_allocate((size_t)schedule->buckets, sizeof *timeline.complete, &timeline.complete));
    *out = timeline;
    return QS_OK;
done:
    qs_timeline_release(&timeline);
    return status;
}

void qs_timeline_release(qs_timeline *timeline) {
    free(timeline->end);
    free(timeline->polled);
    free(timeline->complete);
    *timeline = (qs_timeline){0};
}

double qs__timeline_start_of(const qs_timeline *timeline, int step) {
    return step > 0 ? timeline->end[step - 1] : timeline->begin;
}

static const char *const phase_names[QS_PHASE_TIMES] = {"forward", "backward", "cast", "communication", "waiting", "optimizer", "data"};

const char *qs_phase_times_name(int index) {
    return phase_names[index];
}

double qs_phase_times_at(const qs_phase_times *times, int index) {
    const double all[QS_PHASE_TIMES] = {times->forward_us, times->backward_us,  times->cast_us, times->communication_us,
                                        times->waiting_us, times->optimizer_us, times->data_us};
    return all[index];
}

void qs_timeline_phases(const qs_timeline *timeline, const qs_schedule *schedule, qs_phase_times *sum) {
    for (int s = 0; s < timeline->steps; s++) {
        const qs_step *step = &schedule->step[s];
        const double us = 1e6 * (timeline->end[s] - qs__timeline_start_of(timeline, s) - timeline->polled[s]);
        sum->communication_us += 1e6 * timeline->polled[s];
        if (step->kind == QS_STEP_REDUCE_START)
            sum->communication_us += us;
        else if (step->kind == QS_STEP_REDUCE_WAIT)
            sum->waiting_us += us;
        else if (step->conversion)
            sum->cast_us += us;
        else if (step->phase == QS_FORWARD)
            sum->forward_us += us;
        else if (step->phase == QS_BACKWARD)
            sum->backward_us += us;
        else
            sum->optimizer_us += us;
    }
}

/* ---- Memory ---------------------------------------------------------------------------------------------------------------- */

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
    memcpy(to, memory_at(executor, buffer, offset), bytes);
    return QS_OK;
}

qs_status qs_executor_write(qs_executor *executor, int buffer, size_t offset, size_t bytes, const void *from) {
    QS_TRY(range_check(executor, buffer, offset, bytes));
    memcpy(memory_at(executor, buffer, offset), from, bytes);
    return QS_OK;
}

qs_status qs_executor_clear(qs_executor *executor, int buffer) {
    QS_TRY(range_check(executor, buffer, 0, 0));
    memset(memory_at(executor, buffer, 0), 0, executor->schedule->buffer[buffer].bytes);
    return QS_OK;
}

qs_status qs_executor_initialize(qs_executor *executor, const qs_graph *graph, uint64_t seed) {
    const qs_schedule *schedule = executor->schedule;
    qs_graph_initialize(graph, seed, memory_at(executor, schedule->masters, 0), memory_at(executor, schedule->running, 0));
    return QS_OK;
}

/* Inputs that are left from before could be a NaN or a label out of range. */
qs_status qs_executor_load(qs_executor *executor, const qs_graph *graph, const qs_dataset *dataset, const qs_augmentation *augmentation,
                           const int64_t *indices, int64_t count) {
    const qs_schedule *schedule = executor->schedule;
    const qs_shape *input = &graph->node[0].shape;
    const size_t image_bytes = schedule->buffer[schedule->images].bytes / (size_t)schedule->batch;
    float *images = memory_at(executor, schedule->images, 0);
    int32_t *labels = memory_at(executor, schedule->labels, 0);
    if (count > schedule->batch)
        return qs_fail(QS_USAGE, "%lld samples for a schedule of batch %lld", (long long)count, (long long)schedule->batch);
    const qs_batch batch = {.input = {images}, .extent = {{input->dim[2], input->dim[3]}}, .target = labels};
    QS_TRY(qs_batch_fill(dataset, augmentation, indices, count, &batch));
    const size_t left = (size_t)(schedule->batch - count);
    memset((char *)images + (size_t)count * image_bytes, 0, left * image_bytes);
    memset(labels + count, 0, left * sizeof *labels);
    return QS_OK;
}

uint64_t qs__executor_hash(const qs_executor *executor, int buffer, uint64_t seed) {
    return qs_hash(memory_at(executor, buffer, 0), executor->schedule->buffer[buffer].bytes, seed);
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

static qs_status reduce_wait(qs_executor *executor, int bucket) {
    qs_request *request = executor->request[bucket];
    executor->request[bucket] = NULL;
    if (!request) return QS_OK;
    QS_TRY(qs_comm_wait(executor->comm, request));
    qs_timeline *timeline = executor->timeline;
    if (timeline && timeline->complete[bucket] == 0) timeline->complete[bucket] = qs_clock();
    return QS_OK;
}

/* Lets the oldest all-reduce under way make progress; the library moves the later ones with it. With a timeline it notes how long that
 * took: it is communication's time, not the kernel's that ended before. */
static qs_status poll(qs_executor *executor, int index) {
    qs_timeline *timeline = executor->timeline;
    const int seen = executor->polled;
    if (seen == executor->starts) return QS_OK;
    const double begin = timeline ? qs_clock() : 0;
    for (bool done = true; done && executor->polled < executor->starts; executor->polled += done) {
        qs_request *request = executor->request[executor->started[executor->polled]];
        if (request) QS_TRY(qs_comm_test(executor->comm, request, &done));
    }
    if (!timeline) return QS_OK;
    const double end = qs_clock();
    timeline->polled[index] = end - begin;
    for (int i = seen; i < executor->polled; i++)
        if (timeline->complete[executor->started[i]] == 0) timeline->complete[executor->started[i]] = end;
    return QS_OK;
}

qs_status qs__executor_step(qs_executor *executor, int index, const qs_run *run) {
    const qs_schedule *schedule = executor->schedule;
    const qs_step *step = &schedule->step[index];
    if (step->kind == QS_STEP_REDUCE_WAIT) return reduce_wait(executor, step->bucket);
    if (step->kind == QS_STEP_REDUCE_START) {
        const qs_bucket *one = &schedule->bucket[step->bucket];
        float *gradients = (float *)memory_at(executor, schedule->gradients, 0) + one->first;
        float *residuals = memory_at(executor, schedule->residuals, (size_t)one->first * sizeof *residuals);
        if (executor->finite && *executor->finite) *executor->finite = isfinite(qs_absmax_array(one->count, gradients));
        executor->started[executor->starts++] = step->bucket;
        return qs_comm_all_reduce_wire_start(executor->comm, schedule->wire, gradients, residuals, (float)run->loss_scale, one->count,
                                             &executor->request[step->bucket]);
    }
    qs_run here = *run;
    here.operator_id = step->node >= 0 ? (uint64_t)step->node : (uint64_t)schedule->nodes;
    here.stream = step->stream;
    const qs_status status = qs_kernel_run(executor->kernel[index], &here);
    if (status != QS_OK) return qs_fail_within(status, "step %d (%s)", index, step->case_text);
    return poll(executor, index);
}

int qs__phase_end(const qs_schedule *schedule, qs_phase phase) {
    int steps = 0;
    while (steps < schedule->steps && schedule->step[steps].phase <= phase)
        steps++;
    return steps;
}

qs_status qs__executor_phase(qs_executor *executor, qs_phase phase, const qs_run *run, bool *finite) {
    const qs_schedule *schedule = executor->schedule;
    qs_timeline *timeline = executor->timeline;
    qs_status status = QS_OK;
    if (phase == QS_FORWARD) {
        const float flag = 1;
        executor->starts = executor->polled = 0;
        if (timeline) {
            memset(timeline->polled, 0, (size_t)timeline->steps * sizeof *timeline->polled);
            memset(timeline->complete, 0, (size_t)timeline->buckets * sizeof *timeline->complete);
            timeline->begin = qs_clock();
        }
        if (schedule->counts >= 0) QS_TRY(qs_executor_clear(executor, schedule->counts));
        if (schedule->flag >= 0) QS_TRY(qs_executor_write(executor, schedule->flag, 0, sizeof flag, &flag));
        if (run->samples == 0 && schedule->mode != QS_MODE_EVALUATION) QS_TRY(qs_executor_clear(executor, schedule->gradients));
    }
    if (finite) *finite = true;
    executor->finite = finite;
    for (int s = 0; s < schedule->steps && status == QS_OK; s++) {
        const qs_step *step = &schedule->step[s];
        if (step->phase != phase) continue;
        /* Without samples there is nothing to compute, but the others count on this rank's part of the sums: zero. */
        if (run->samples > 0 || step->kind != QS_STEP_KERNEL || phase == QS_UPDATE) {
            const double begin = executor->observer ? qs_clock() : 0;
            status = qs__executor_step(executor, s, run);
            if (executor->observer && status == QS_OK) executor->observer(executor->observer_context, schedule, s, qs_clock() - begin);
        }
        if (timeline) timeline->end[s] = qs_clock();
    }
    executor->finite = NULL;
    return status;
}

qs_status qs__executor_complete(qs_executor *executor) {
    for (int i = executor->polled; i < executor->starts; i++)
        QS_TRY(reduce_wait(executor, executor->started[i]));
    return QS_OK;
}

qs_status qs_executor_run(qs_executor *executor, const qs_run *run) {
    for (qs_phase phase = QS_FORWARD; phase <= QS_UPDATE; phase++)
        QS_TRY(qs__executor_phase(executor, phase, run, NULL));
    return QS_OK;
}
