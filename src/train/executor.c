// SPDX-License-Identifier: Apache-2.0
/* The executor: a schedule whose kernels are bound to memory of a device, and the loop that puts them into the device's queue.
 *
 * All-reduces start where the schedule says that a bucket is complete. Most MPI libraries move data only inside their own calls, so the
 * oldest one under way is asked between kernels: that is what overlaps communication with the rest of the backward pass.
 *
 * Where the host sees the device's memory, kernels have run when they were put into the queue, and an all-reduce takes the gradients where
 * they lie. Elsewhere a bucket is staged: a copy brings it to the host behind the kernels that complete it, it is summed there, and a copy
 * takes the sums back, which the queue of kernels follows. The host is ahead of the queue then and never stops it: buckets are started in
 * the order of the schedule, which is the same on all ranks, as their copies arrive.
 *
 * Devices that add up by themselves do so in the queue of copies, behind the kernels, which follow the sums; the gradients of one rank
 * alone stay as they are. The host never has them then: who asks whether they are finite has the device look. */
#include "train_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double pause_seconds = 20e-6; /* between two looks at what the device and the other ranks do */

/* A bucket on its way. */
typedef struct reduction {
    qs_request *request;              /* NULL when not under way */
    bool summed;                      /* seen to be complete; staged: its copy back is queued */
    qs_event *ready, *arrived, *back; /* staged: its gradients are complete, are with the host, and their sums back; NULL: not staged */
    bool finite;                      /* looked at by the device: what it found, behind `arrived` */
} reduction;

struct qs_executor {
    const qs_schedule *schedule;
    qs_comm *comm;
    bool alone;      /* one rank: sums are what it has */
    bool by_devices; /* sums are made where gradients lie, in the queue of copies */
    bool staged;     /* gradients go through the host's staging */
    qs_memory *memory;
    qs_queue *kernels, *copies;
    char *host;                          /* the memory, where this process sees it; NULL elsewhere */
    qs_arena staging;                    /* where it does not: inputs, target, gradients and residuals */
    char *input[QS_SAMPLES_MOST_INPUTS]; /* where the host has them: in the memory, or their staging */
    char *target, *gradients, *residuals;
    qs_kernel **kernel;        /* (steps) NULL for communication */
    qs__recorded *recorded;    /* the same as recordings; NULL: the device makes none */
    bool recording;            /* in this run they may be taken */
    reduction *reduction;      /* (buckets) */
    int *started;              /* (buckets) in order of their start in this run */
    int starts, begun, polled; /* started[begun] is the oldest one that still arrives, started[polled] that may still be moving */
    float unit;                /* loss scale of the run */
    bool *finite;              /* where to note that gradients are not; NULL: they are not looked at */
    bool all_finite;           /* what the device of one rank alone found; it may write this as long as the executor is there */
    qs_event **mark;           /* (1 + steps) before the first step, behind each one */
    double pace[2];            /* of the device's speed, of kernels that move data and of those of adjustable operators; 0: 1 */
    qs_step_observer observer;
    void *observer_context;
    qs_timeline *timeline; /* NULL: nobody asks */
};

static qs_location location_of(const qs_executor *executor, int buffer, size_t offset) {
    return buffer < 0 ? (qs_location){0} : qs_location_of(executor->memory, executor->schedule->buffer[buffer].offset + offset);
}

void qs_executor_observe(qs_executor *executor, qs_step_observer observer, void *context) {
    executor->observer = observer;
    executor->observer_context = context;
}

void qs_executor_time(qs_executor *executor, qs_timeline *timeline) {
    executor->timeline = timeline;
}

qs_recorded qs_executor_recorded(const qs_executor *executor) {
    return qs__recorded_found(executor->recorded);
}

/* ---- Binding --------------------------------------------------------------------------------------------------------------- */

static qs_status kernel_bind(qs_executor *executor, qs_device *device, int index) {
    const qs_step *step = &executor->schedule->step[index];
    if (step->kind != QS_STEP_KERNEL) return QS_OK;
    qs_location operand[QS_MAX_OPERANDS] = {0};
    for (int i = 0; i < step->case_.operands; i++)
        if (step->case_.operand[i].format) operand[i] = location_of(executor, step->place[i].buffer, step->place[i].offset);
    qs_status status = qs_device_prepare(device, &step->case_, step->kernel, operand,
                                         location_of(executor, step->scratch.buffer, step->scratch.offset), &executor->kernel[index]);
    return qs_fail_within(status, "step %d (%s)", index, step->case_text);
}

size_t qs__staging_bytes(const qs_schedule *schedule) {
    const int other[] = {schedule->target, schedule->gradients, schedule->residuals};
    size_t bytes = 0;
    for (int i = 0; i < 3; i++)
        if (other[i] >= 0) bytes += schedule->buffer[other[i]].bytes;
    for (int i = 0; i < schedule->inputs; i++)
        if (schedule->input[i] >= 0) bytes += schedule->buffer[schedule->input[i]].bytes;
    return bytes;
}

/* Where the host makes samples and sums gradients: in the memory itself, or in staging that is reserved here, once. */
static qs_status staging_make(qs_executor *executor, qs_device *device) {
    const qs_schedule *schedule = executor->schedule;
    enum { OTHERS = 3 };
    int buffer[OTHERS + QS_SAMPLES_MOST_INPUTS] = {schedule->target, schedule->gradients, schedule->residuals};
    char **place[OTHERS + QS_SAMPLES_MOST_INPUTS] = {&executor->target, &executor->gradients, &executor->residuals};
    const int buffers = OTHERS + schedule->inputs;
    for (int i = 0; i < schedule->inputs; i++) {
        buffer[OTHERS + i] = schedule->input[i];
        place[OTHERS + i] = &executor->input[i];
    }
    if (!executor->host) QS_TRY(qs_arena_reserve(qs__staging_bytes(schedule), &executor->staging));
    char *at = executor->staging.memory;
    for (int i = 0; i < buffers; i++) {
        if (buffer[i] < 0) continue;
        *place[i] = executor->host ? executor->host + schedule->buffer[buffer[i]].offset : at;
        if (!executor->host) at += schedule->buffer[buffer[i]].bytes;
    }
    for (int b = 0; b < schedule->buckets && !executor->host; b++) {
        QS_TRY(qs_event_create(device, &executor->reduction[b].ready));
        QS_TRY(qs_event_create(device, &executor->reduction[b].arrived));
        QS_TRY(qs_event_create(device, &executor->reduction[b].back));
    }
    return QS_OK;
}

static qs_status executor_fill(qs_executor *executor, qs_device *device) {
    const qs_schedule *schedule = executor->schedule;
    QS_TRY(qs_allocate((size_t)schedule->steps, sizeof(qs_kernel *), &executor->kernel));
    QS_TRY(qs_allocate((size_t)schedule->steps + 1, sizeof(qs_event *), &executor->mark));
    QS_TRY(qs_allocate((size_t)schedule->buckets, sizeof *executor->reduction, &executor->reduction));
    QS_TRY(qs_allocate((size_t)schedule->buckets, sizeof *executor->started, &executor->started));
    QS_TRY(staging_make(executor, device));
    for (int s = 0; s <= schedule->steps; s++)
        QS_TRY(qs_event_create(device, &executor->mark[s]));
    for (int s = 0; s < schedule->steps; s++)
        QS_TRY(kernel_bind(executor, device, s));
    return qs__recorded_create(schedule, device, executor->kernel, &executor->recorded);
}

qs_status qs_executor_create(const qs_schedule *schedule, qs_device *device, qs_comm *comm, qs_memory *memory, qs_executor **out) {
    if (qs_memory_bytes(memory) < schedule->arena_bytes)
        return qs_fail(QS_USAGE, "a schedule of %zu bytes in a memory of %zu: reserve as many", schedule->arena_bytes,
                       qs_memory_bytes(memory));
    qs_executor *executor = NULL;
    QS_TRY(qs_allocate(1, sizeof *executor, &executor));
    executor->schedule = schedule;
    executor->comm = comm;
    executor->alone = qs_comm_size(comm) == 1;
    executor->by_devices = !executor->alone && qs_comm_by_devices(qs_comm_algorithm(comm));
    if (executor->by_devices && qs_device_joined(device) != qs_comm_size(comm)) {
        free(executor);
        return qs_fail(QS_USAGE, "all-reduce %s: %d devices of %d joined", qs_comm_algorithm(comm), qs_device_joined(device),
                       qs_comm_size(comm));
    }
    executor->memory = memory;
    executor->host = qs_memory_host(memory);
    executor->staged = !executor->host && !executor->alone && !executor->by_devices;
    executor->kernels = qs_device_queue(device, QS_QUEUE_KERNELS);
    executor->copies = qs_device_queue(device, QS_QUEUE_COPIES);
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
    qs__recorded_release(executor->recorded);
    for (int s = 0; executor->kernel && s < executor->schedule->steps; s++) {
        if (executor->kernel[s]) qs_kernel_release(executor->kernel[s]);
    }
    for (int s = 0; executor->mark && s <= executor->schedule->steps; s++)
        qs_event_release(executor->mark[s]);
    for (int b = 0; executor->reduction && b < executor->schedule->buckets; b++) {
        qs_event_release(executor->reduction[b].ready);
        qs_event_release(executor->reduction[b].arrived);
        qs_event_release(executor->reduction[b].back);
    }
    /* A run that failed may have left copies on their way to the staging. */
    qs_queue_drain(executor->kernels);
    qs_queue_drain(executor->copies);
    qs_arena_release(&executor->staging);
    free(executor->kernel);
    free(executor->mark);
    free(executor->reduction);
    free(executor->started);
    free(executor);
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
    QS_TRY(qs_memory_read(executor->kernels, location_of(executor, buffer, offset), to, bytes));
    return qs_queue_wait(executor->kernels);
}

qs_status qs_executor_write(qs_executor *executor, int buffer, size_t offset, size_t bytes, const void *from) {
    QS_TRY(range_check(executor, buffer, offset, bytes));
    return qs_memory_write(executor->kernels, location_of(executor, buffer, offset), from, bytes);
}

qs_status qs_executor_clear(qs_executor *executor, int buffer) {
    QS_TRY(range_check(executor, buffer, 0, 0));
    return qs_memory_fill(executor->kernels, location_of(executor, buffer, 0), 0, executor->schedule->buffer[buffer].bytes);
}

qs_status qs_executor_initialize(qs_executor *executor, const qs_graph *graph, uint64_t seed) {
    const qs_schedule *schedule = executor->schedule;
    const int masters = schedule->masters, running = schedule->running;
    float *trained = NULL, *statistics = NULL;
    qs_status status = QS_OK;
    if (executor->host) {
        qs_graph_initialize(graph, seed, (float *)(void *)(executor->host + schedule->buffer[masters].offset),
                            running < 0 ? NULL : (float *)(void *)(executor->host + schedule->buffer[running].offset));
        return QS_OK;
    }
    QS_GOTO(qs__executor_copy(executor, masters, &trained));
    QS_GOTO(qs__executor_copy(executor, running, &statistics));
    qs_graph_initialize(graph, seed, trained, statistics);
    QS_GOTO(qs_executor_write(executor, masters, 0, schedule->buffer[masters].bytes, trained));
    if (running >= 0) QS_GOTO(qs_executor_write(executor, running, 0, schedule->buffer[running].bytes, statistics));
done:
    free(trained);
    free(statistics);
    return status;
}

/* Samples that are left from before, behind the first `count`, could hold a NaN or no class: they become 0. The buffer then goes to the
 * device. */
static qs_status batch_finish(qs_executor *executor, int buffer, char *at, int64_t count) {
    const size_t bytes = executor->schedule->buffer[buffer].bytes, filled = bytes / (size_t)executor->schedule->batch * (size_t)count;
    memset(at + filled, 0, bytes - filled);
    return executor->host ? QS_OK : qs_executor_write(executor, buffer, 0, bytes, at);
}

qs_status qs_executor_load(qs_executor *executor, const qs_graph *graph, const qs_dataset *dataset, const qs_augmentation *augmentation,
                           const int64_t *indices, int64_t count) {
    const qs_schedule *schedule = executor->schedule;
    const qs_samples *model = &graph->samples;
    if (count > schedule->batch)
        return qs_fail(QS_USAGE, "%lld samples for a schedule of batch %lld", (long long)count, (long long)schedule->batch);
    qs_batch batch = {.target = executor->target, .positions = model->target.extent, .ignored = model->target.ignored};
    for (int i = 0; i < model->inputs; i++) {
        batch.input[i] = executor->input[i];
        memcpy(batch.extent[i], model->input[i].extent, sizeof batch.extent[i]);
    }
    QS_TRY(qs_batch_fill(dataset, augmentation, indices, count, &batch));
    for (int i = 0; i < schedule->inputs; i++)
        QS_TRY(batch_finish(executor, schedule->input[i], executor->input[i], count));
    return batch_finish(executor, schedule->target, executor->target, count);
}

qs_status qs__executor_hash(const qs_executor *executor, int buffer, uint64_t *hash) {
    const qs_buffer *one = &executor->schedule->buffer[buffer];
    void *copy = NULL;
    if (!executor->host) QS_TRY(qs__executor_copy(executor, buffer, &copy));
    *hash = qs_hash(copy ? copy : executor->host + one->offset, one->bytes, *hash);
    free(copy);
    return QS_OK;
}

qs_status qs__executor_copy(const qs_executor *executor, int buffer, void *out) {
    void **copy = out;
    *copy = NULL;
    if (buffer < 0) return QS_OK;
    const size_t bytes = executor->schedule->buffer[buffer].bytes;
    QS_TRY(qs_allocate(bytes, 1, copy));
    const qs_status status = qs_executor_read(executor, buffer, 0, bytes, *copy);
    if (status == QS_OK) return QS_OK;
    free(*copy);
    *copy = NULL;
    return status;
}

qs_status qs__executor_operand(const qs_executor *executor, const qs_step *step, int operand, void *out) {
    const qs_operand *one = &step->case_.operand[operand];
    const size_t bytes = qs_format_bytes(one->format, qs_shape_count(&one->shape));
    void **copy = out;
    QS_TRY(qs_allocate(bytes, 1, copy));
    return qs_executor_read(executor, step->place[operand].buffer, step->place[operand].offset, bytes, *copy);
}

/* ---- Running --------------------------------------------------------------------------------------------------------------- */

/* Gradients of a bucket that the host has, to the other ranks. */
static qs_status reduce_begin(qs_executor *executor, int bucket) {
    const qs_schedule *schedule = executor->schedule;
    const qs_bucket *one = &schedule->bucket[bucket];
    float *gradients = (float *)(void *)executor->gradients + one->first;
    float *residuals = executor->residuals ? (float *)(void *)executor->residuals + one->first : NULL;
    if (executor->finite && *executor->finite) *executor->finite = isfinite(qs_absmax_array(one->count, gradients));
    return qs_comm_all_reduce_wire_start(executor->comm, schedule->wire, gradients, residuals, executor->unit, one->count,
                                         &executor->reduction[bucket].request);
}

/* A bucket, to or from its staging, in the queue of copies. */
static qs_status bucket_copy(qs_executor *executor, int bucket, bool to_host) {
    const qs_schedule *schedule = executor->schedule;
    const qs_bucket *one = &schedule->bucket[bucket];
    const int buffer[] = {schedule->gradients, schedule->residuals};
    char *const staging[] = {executor->gradients, executor->residuals};
    const size_t first = (size_t)one->first * sizeof(float), bytes = (size_t)one->count * sizeof(float);
    for (int i = 0; i < 2; i++) {
        if (buffer[i] < 0) continue;
        const qs_location at = location_of(executor, buffer[i], first);
        QS_TRY(to_host ? qs_memory_read(executor->copies, at, staging[i] + first, bytes)
                       : qs_memory_write(executor->copies, at, staging[i] + first, bytes));
    }
    return QS_OK;
}

/* Where devices add up by themselves: behind the kernels that complete the bucket, and behind the look at it. */
static qs_status devices_sum(qs_executor *executor, int bucket) {
    const qs_bucket *one = &executor->schedule->bucket[bucket];
    reduction *own = &executor->reduction[bucket];
    const qs_location at = location_of(executor, executor->schedule->gradients, (size_t)one->first * sizeof(float));
    executor->started[executor->starts++] = bucket;
    executor->begun = executor->polled = executor->starts; /* the host has no part in it */
    QS_TRY(qs_event_record(own->ready, executor->kernels));
    QS_TRY(qs_queue_follow(executor->copies, own->ready));
    if (executor->finite) {
        QS_TRY(qs_memory_finite(executor->copies, at, one->count, &own->finite));
        QS_TRY(qs_event_record(own->arrived, executor->copies));
    }
    QS_TRY(qs_memory_sum(executor->copies, at, one->count));
    return qs_event_record(own->back, executor->copies);
}

/* What the device finds in gradients that stay with it: of one rank alone all at once, else bucket by bucket before they are summed. */
static qs_status looks_take(qs_executor *executor, bool *finite) {
    const qs_schedule *schedule = executor->schedule;
    if (executor->alone) {
        const int64_t count = (int64_t)(schedule->buffer[schedule->gradients].bytes / sizeof(float));
        QS_TRY(qs_memory_finite(executor->kernels, location_of(executor, schedule->gradients, 0), count, &executor->all_finite));
        QS_TRY(qs_queue_wait(executor->kernels));
        *finite = executor->all_finite;
        return QS_OK;
    }
    if (executor->starts > 0) QS_TRY(qs_event_wait(executor->reduction[executor->started[executor->starts - 1]].arrived));
    for (int i = 0; i < executor->starts; i++)
        *finite = *finite && executor->reduction[executor->started[i]].finite;
    return QS_OK;
}

static qs_status reduce_start(qs_executor *executor, int bucket) {
    reduction *one = &executor->reduction[bucket];
    one->summed = false;
    if (executor->by_devices) return devices_sum(executor, bucket);
    if (executor->alone && !executor->host) return QS_OK; /* its gradients are the sums */
    executor->started[executor->starts++] = bucket;
    if (executor->host) {
        executor->begun = executor->starts;
        return reduce_begin(executor, bucket);
    }
    QS_TRY(qs_event_record(one->ready, executor->kernels));
    QS_TRY(qs_queue_follow(executor->copies, one->ready));
    QS_TRY(bucket_copy(executor, bucket, true));
    return qs_event_record(one->arrived, executor->copies);
}

/* Starts the all-reduces whose gradients have arrived, in their order. */
static qs_status arrivals_take(qs_executor *executor) {
    while (executor->begun < executor->starts) {
        const int bucket = executor->started[executor->begun];
        bool arrived;
        QS_TRY(qs_event_done(executor->reduction[bucket].arrived, &arrived));
        if (!arrived) return QS_OK;
        executor->begun++;
        QS_TRY(reduce_begin(executor, bucket));
    }
    return QS_OK;
}

/* An all-reduce is complete: what was staged goes back. */
static qs_status reduce_end(qs_executor *executor, int bucket) {
    reduction *one = &executor->reduction[bucket];
    if (one->summed) return QS_OK;
    one->summed = true;
    if (executor->timeline) executor->timeline->complete[bucket] = qs_clock();
    if (!executor->staged) return QS_OK;
    QS_TRY(bucket_copy(executor, bucket, false));
    return qs_event_record(one->back, executor->copies);
}

/* Lets the oldest all-reduce under way make progress; the library moves the later ones with it. */
static qs_status reductions_move(qs_executor *executor) {
    QS_TRY(arrivals_take(executor));
    while (executor->polled < executor->begun) {
        const int bucket = executor->started[executor->polled];
        qs_request *request = executor->reduction[bucket].request; /* NULL: it was waited for */
        bool done = true;
        if (request) QS_TRY(qs_comm_test(executor->comm, request, &done));
        if (!done) return QS_OK;
        QS_TRY(reduce_end(executor, bucket));
        executor->polled++;
    }
    return QS_OK;
}

/* Until so many all-reduces are begun. Where none is under way the device is waited for; else it is looked at, so that they keep moving. */
static qs_status arrivals_wait(qs_executor *executor, int begun) {
    while (executor->begun < begun) {
        QS_TRY(reductions_move(executor));
        if (executor->begun >= begun) return QS_OK;
        if (executor->polled < executor->begun)
            qs_wait_until(qs_clock() + pause_seconds);
        else
            QS_TRY(qs_event_wait(executor->reduction[executor->started[executor->begun]].arrived));
    }
    return QS_OK;
}

static qs_status reduce_wait(qs_executor *executor, int bucket) {
    reduction *one = &executor->reduction[bucket];
    int begun = 0; /* with it */
    if (executor->by_devices) return qs_queue_follow(executor->kernels, one->back);
    while (begun < executor->starts && executor->started[begun++] != bucket)
        ;
    QS_TRY(arrivals_wait(executor, begun));
    qs_request *request = one->request;
    one->request = NULL;
    if (!request) return QS_OK;
    QS_TRY(qs_comm_wait(executor->comm, request));
    QS_TRY(reduce_end(executor, bucket));
    return executor->staged ? qs_queue_follow(executor->kernels, one->back) : QS_OK;
}

/* Between kernels. With a timeline it notes how long that took where the same thread computes: it is communication's time, not the
 * kernel's that ended before. */
static qs_status poll(qs_executor *executor, int index) {
    qs_timeline *timeline = executor->timeline;
    if (executor->polled == executor->starts) return QS_OK;
    const double begin = timeline ? qs_clock() : 0;
    QS_TRY(reductions_move(executor));
    if (timeline && executor->host) timeline->polled[index] = qs_clock() - begin;
    return QS_OK;
}

qs_status qs__executor_step(qs_executor *executor, int index, const qs_run *run) {
    const qs_schedule *schedule = executor->schedule;
    const qs_step *step = &schedule->step[index];
    if (step->kind == QS_STEP_REDUCE_WAIT) return reduce_wait(executor, step->bucket);
    if (step->kind == QS_STEP_REDUCE_START) {
        executor->unit = (float)run->loss_scale;
        return reduce_start(executor, step->bucket);
    }
    const qs_run here = qs__step_run(schedule, index, run);
    const double pace = executor->pace[step->case_.op->kind == QS_ADJUSTABLE], begin = pace > 0 && pace < 1 ? qs_clock() : 0;
    const qs_status status = qs_kernel_run(executor->kernel[index], &here);
    if (begin > 0) {
        const double end = qs_clock();
        qs_wait_until(end + (end - begin) * (1 / pace - 1));
    }
    if (status != QS_OK) return qs_fail_within(status, "step %d (%s)", index, step->case_text);
    return poll(executor, index);
}

void qs__executor_slow(qs_executor *executor, double compute, double memory) {
    executor->pace[0] = memory;
    executor->pace[1] = compute;
}

int qs__phase_end(const qs_schedule *schedule, qs_phase phase) {
    int steps = 0;
    while (steps < schedule->steps && schedule->step[steps].phase <= phase)
        steps++;
    return steps;
}

/* Everything that a run starts from. */
static qs_status run_begin(qs_executor *executor, const qs_run *run) {
    const qs_schedule *schedule = executor->schedule;
    qs_timeline *timeline = executor->timeline;
    const float flag = 1;
    executor->starts = executor->begun = executor->polled = 0;
    if (timeline) {
        memset(timeline->polled, 0, (size_t)timeline->steps * sizeof *timeline->polled);
        memset(timeline->complete, 0, (size_t)timeline->buckets * sizeof *timeline->complete);
    }
    if (schedule->counts >= 0) QS_TRY(qs_executor_clear(executor, schedule->counts));
    if (schedule->flag >= 0) QS_TRY(qs_executor_write(executor, schedule->flag, 0, sizeof flag, &flag));
    if (run->samples == 0 && schedule->mode != QS_MODE_EVALUATION) QS_TRY(qs_executor_clear(executor, schedule->gradients));
    executor->recording = executor->recorded && !timeline && !executor->observer && run->samples > 0;
    if (executor->recording) QS_TRY(qs__recorded_begin(executor->recorded, executor->kernels));
    return timeline ? qs_event_record(executor->mark[0], executor->kernels) : QS_OK;
}

/* A run is over when the device is done with it. Its clock is not this process's: the last mark, waited for, stands for now. */
static qs_status run_end(qs_executor *executor) {
    qs_timeline *timeline = executor->timeline;
    if (executor->recording) QS_TRY(qs__recorded_end(executor->recorded, executor->kernels));
    executor->recording = false;
    QS_TRY(qs_queue_wait(executor->kernels));
    if (!timeline) return QS_OK;
    const int steps = timeline->steps;
    qs_event *last = executor->mark[steps];
    const double now = qs_clock();
    QS_TRY(qs_event_wait(last));
    timeline->begin = now - qs_event_elapsed(executor->mark[0], last);
    for (int s = 0; s < steps; s++)
        timeline->end[s] = now - qs_event_elapsed(executor->mark[s + 1], last);
    for (int b = 0; b < timeline->buckets; b++) { /* one rank alone has nothing to wait for */
        if (executor->by_devices) timeline->complete[b] = now - qs_event_elapsed(executor->reduction[b].back, last);
        if (timeline->complete[b] == 0) timeline->complete[b] = timeline->end[executor->schedule->bucket[b].ready_step];
    }
    return QS_OK;
}

static qs_status step_observed(qs_executor *executor, int index, const qs_run *run) {
    qs_event *begin = executor->mark[index], *end = executor->mark[index + 1];
    if (executor->observer && !executor->timeline) QS_TRY(qs_event_record(begin, executor->kernels));
    QS_TRY(qs__executor_step(executor, index, run));
    if (!executor->observer) return QS_OK;
    QS_TRY(qs_event_record(end, executor->kernels));
    QS_TRY(qs_event_wait(end));
    executor->observer(executor->observer_context, executor->schedule, index, qs_event_elapsed(begin, end));
    return QS_OK;
}

/* Behind the kernels that follow one another from this one on, in its phase. One rank alone has nothing to do where gradients that stay
 * with the device are complete. */
static int stretch_end(const qs_executor *executor, int index) {
    const qs_schedule *schedule = executor->schedule;
    const bool idle = executor->alone && !executor->host;
    int end = index;
    while (end < schedule->steps && schedule->step[end].phase == schedule->step[index].phase &&
           (idle || schedule->step[end].kind == QS_STEP_KERNEL))
        end++;
    return end;
}

/* Starts with a step: by itself, or as a recording with those behind it. *next: the step to go on with. */
static qs_status steps_start(qs_executor *executor, int index, const qs_run *run, int *next) {
    *next = index + 1;
    if (executor->recording && qs__recorded_runs(executor->recorded) && executor->kernel[index]) {
        const int end = stretch_end(executor, index);
        bool done;
        QS_TRY(qs_fail_within(qs__recorded_run(executor->recorded, index, end, run, &done), "steps %d to %d", index, end - 1));
        if (done) *next = end;
        if (done) return poll(executor, index);
    }
    return step_observed(executor, index, run);
}

qs_status qs__executor_phase(qs_executor *executor, qs_phase phase, const qs_run *run, bool *finite) {
    const qs_schedule *schedule = executor->schedule;
    qs_status status = QS_OK;
    if (phase == QS_FORWARD) QS_TRY(run_begin(executor, run));
    if (finite) *finite = true;
    executor->finite = finite;
    for (int s = 0, next; s < schedule->steps && status == QS_OK; s = next) {
        const qs_step *step = &schedule->step[s];
        next = s + 1;
        if (step->phase != phase) continue;
        /* Without samples there is nothing to compute, but the others count on this rank's part of the sums: zero. */
        if (run->samples > 0 || step->kind != QS_STEP_KERNEL || phase == QS_UPDATE) status = steps_start(executor, s, run, &next);
        if (executor->timeline && status == QS_OK) status = qs_event_record(executor->mark[s + 1], executor->kernels);
    }
    /* Whether they are finite is seen where they arrive, or told by the device. */
    if (finite && status == QS_OK && !executor->host)
        status = executor->staged ? arrivals_wait(executor, executor->starts) : looks_take(executor, finite);
    executor->finite = NULL;
    return phase == QS_UPDATE && status == QS_OK ? run_end(executor) : status;
}

qs_status qs__executor_complete(qs_executor *executor) {
    for (int i = 0; i < executor->starts; i++) /* those that are summed, too: the queue of kernels has to follow their way back */
        QS_TRY(reduce_wait(executor, executor->started[i]));
    return QS_OK;
}

qs_status qs_executor_run(qs_executor *executor, const qs_run *run) {
    for (qs_phase phase = QS_FORWARD; phase <= QS_UPDATE; phase++)
        QS_TRY(qs__executor_phase(executor, phase, run, NULL));
    return QS_OK;
}
