// SPDX-License-Identifier: Apache-2.0
/* Runs of kernels as CUDA graphs. What the kernels of a recording put into the queue of kernels is captured once, in order: launches of our
 * own kernels, copies, fills, calls of libraries.
 *
 * Of all that only the jobs of our own kernels depend on the run (seeds, step numbers, rates, scales); libraries are called with addresses
 * and factors of the case alone. So a recording is run again by going through the kernels once more without putting anything into the
 * queue: what each would put is compared with what was recorded of it, a job whose bytes differ is set in the graph, and the graph is
 * launched. Whatever else differs is nothing that a graph repeats: then the kernels run one by one. */
#include "cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

/* Something that was put into the queue. */
typedef struct entry {
    CUgraphNode node; /* of a kernel of ours; NULL: anything else */
    qs__start start;
    size_t at, bytes; /* of its job, or of what it was called with, in `values` */
} entry;

typedef struct qs__recording {
    qs__cuda *cuda;
    int kernels;
    qs__cuda_kernel **kernel; /* (kernels) */
    CUgraph graph;            /* NULL: not captured */
    CUgraphExec ready;        /* the same, to be launched; NULL: not there */
    int entries, room;
    entry *entry;
    size_t used, capacity;
    unsigned char *values;
    bool made;        /* it is complete, and compared with */
    int next;         /* entry that is compared next */
    bool differs;     /* from what was recorded */
    qs_status status; /* of making it */
} recording;

/* ---- Making --------------------------------------------------------------------------------------------------------------------- */

static qs_status room_make(recording *one, size_t bytes) {
    if (one->entries == one->room) {
        entry *larger = realloc(one->entry, (size_t)(2 * one->room + 64) * sizeof *larger);
        if (!larger) return qs_fail(QS_OUT_OF_MEMORY, "no memory for a recording of %d pieces of work", one->entries);
        one->entry = larger;
        one->room = 2 * one->room + 64;
    }
    if (one->capacity - one->used < bytes) {
        const size_t wanted = 2 * one->capacity + bytes;
        unsigned char *larger = realloc(one->values, wanted);
        if (!larger) return qs_fail(QS_OUT_OF_MEMORY, "no memory for a recording of %zu bytes", wanted);
        one->values = larger;
        one->capacity = wanted;
    }
    return QS_OK;
}

static qs_status entry_add(recording *one, CUgraphNode node, const qs__start *start, const void *values, size_t bytes) {
    QS_TRY(room_make(one, bytes));
    one->entry[one->entries++] = (entry){.node = node, .start = *start, .at = one->used, .bytes = bytes};
    memcpy(one->values + one->used, values, bytes);
    one->used += bytes;
    return QS_OK;
}

/* The node that was captured last: what would be captured next depends on it, and on nothing else. */
static qs_status kernel_note(recording *one, const qs__start *start) {
    const qs__driver *driver = one->cuda->driver;
    const CUgraphNode *node = NULL;
    const CUgraphEdgeData *edge = NULL;
    CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id;
    CUgraph graph;
    size_t nodes = 0, offset, bytes;
    QS_TRY(qs__cuda_check(one->cuda, driver->capture_info(one->cuda->stream[QS_QUEUE_KERNELS], &state, &id, &graph, &node, &edge, &nodes),
                          "a recording"));
    if (state != CU_STREAM_CAPTURE_STATUS_ACTIVE || nodes != 1) return qs_fail(QS_UNSUPPORTED, "a kernel that is no node of its graph");
    QS_TRY(qs__cuda_check(one->cuda, driver->parameter(start->function, 0, &offset, &bytes), "the size of a kernel's job"));
    return entry_add(one, *node, start, start->job, bytes);
}

void qs__recording_note(const qs__cuda *cuda, const qs__start *start) {
    recording *one = cuda->recording;
    if (one && !one->made && one->status == QS_OK) one->status = kernel_note(one, start);
}

/* ---- Comparing -------------------------------------------------------------------------------------------------------------------- */

static bool is_started_alike(const qs__start *a, const qs__start *b) {
    return a->blocks == b->blocks && a->threads == b->threads && a->shared == b->shared;
}

/* The graph's next launches have the job at hand; those that are queued keep theirs. */
static CUresult job_set(recording *one, const entry *was, const qs__start *start) {
    void *parameters[] = {(void *)(uintptr_t)start->job};
    const CUDA_KERNEL_NODE_PARAMS now = {.func = start->function,
                                         .gridDimX = (unsigned)start->blocks,
                                         .gridDimY = 1,
                                         .gridDimZ = 1,
                                         .blockDimX = (unsigned)start->threads,
                                         .blockDimY = 1,
                                         .blockDimZ = 1,
                                         .sharedMemBytes = (unsigned)start->shared,
                                         .kernelParams = parameters};
    return one->cuda->driver->graph_kernel_set(one->ready, was->node, &now);
}

bool qs__recording_has(const qs__cuda *cuda, const qs__start *start) {
    recording *one = cuda->recording;
    if (!one || !one->made) return false;
    entry *was = one->next < one->entries ? &one->entry[one->next++] : NULL;
    if (one->differs || !was || !was->node || was->start.function != start->function) {
        one->differs = true;
        return true;
    }
    unsigned char *job = one->values + was->at;
    if (is_started_alike(&was->start, start) && memcmp(job, start->job, was->bytes) == 0) return true;
    if (job_set(one, was, start) != CUDA_SUCCESS) {
        one->differs = true;
        return true;
    }
    was->start = *start;
    memcpy(job, start->job, was->bytes);
    return true;
}

bool qs__recording_repeats(const qs__cuda *cuda, const void *what, size_t bytes) {
    recording *one = cuda->recording;
    if (!one) return false;
    if (!one->made) {
        if (one->status == QS_OK) one->status = entry_add(one, NULL, &(qs__start){0}, what, bytes);
        return false;
    }
    const entry *was = one->next < one->entries ? &one->entry[one->next++] : NULL;
    if (!was || was->node || was->bytes != bytes || memcmp(one->values + was->at, what, bytes) != 0) one->differs = true;
    return true;
}

/* ---- The table -------------------------------------------------------------------------------------------------------------------- */

static qs_records recordings_wanted(const void *state) {
    return ((const qs__cuda *)state)->records;
}

static qs_status kernels_run(const recording *one, const qs_run *run) {
    char text[QS_CASE_TEXT];
    for (int i = 0; i < one->kernels; i++) {
        const qs_status status = qs__cuda_run(one->kernel[i], &run[i]);
        if (status != QS_OK) return qs_fail_within(status, "%s", qs_case_text(&one->kernel[i]->one, text));
    }
    return QS_OK;
}

/* One thread drives a device, so nothing that another thread does, nor what libraries make ready on the way, is to be kept apart from the
 * capture: relaxed. */
static qs_status capture(recording *one, const qs_run *run) {
    qs__cuda *cuda = one->cuda;
    const CUstream stream = cuda->stream[QS_QUEUE_KERNELS];
    QS_TRY(qs__cuda_check(cuda, cuda->driver->capture_begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "beginning to record"));
    cuda->recording = one;
    qs_status status = kernels_run(one, run);
    cuda->recording = NULL;
    const CUresult ended = cuda->driver->capture_end(stream, &one->graph);
    if (status == QS_OK) status = one->status;
    if (status == QS_OK) status = qs__cuda_check(cuda, ended, "ending to record");
    return status;
}

static void recording_release(void *state) {
    recording *one = state;
    if (one->ready) one->cuda->driver->graph_forget(one->ready);
    if (one->graph) one->cuda->driver->graph_destroy(one->graph);
    free(one->kernel);
    free(one->entry);
    free(one->values);
    free(one);
}

static qs_status recording_make(void *state, int kernels, void *const *kernel, const qs_run *run, void **out) {
    recording *one = NULL;
    qs_status status;
    QS_TRY(qs_allocate(1, sizeof *one, &one));
    one->cuda = state;
    QS_GOTO(qs_allocate((size_t)kernels, sizeof *one->kernel, &one->kernel));
    for (; one->kernels < kernels; one->kernels++)
        one->kernel[one->kernels] = kernel[one->kernels];
    QS_GOTO(capture(one, run));
    QS_GOTO(qs__cuda_check(one->cuda, one->cuda->driver->graph_instantiate(&one->ready, one->graph, 0), "a graph of kernels"));
    one->made = true;
    *out = one;
    return QS_OK;
done:
    recording_release(one);
    return qs_fail_within(QS_UNSUPPORTED, "%d kernels are not recorded", kernels);
}

static qs_status recording_run(void *state, const qs_run *run) {
    recording *one = state;
    qs__cuda *cuda = one->cuda;
    one->next = 0;
    one->differs = false;
    cuda->recording = one;
    const qs_status status = kernels_run(one, run);
    cuda->recording = NULL;
    QS_TRY(status);
    if (one->differs || one->next < one->entries) return kernels_run(one, run);
    return qs__cuda_check(cuda, cuda->driver->graph_launch(one->ready, cuda->stream[QS_QUEUE_KERNELS]), "starting recorded kernels");
}

const qs__recorder qs__cuda_recorder = {
    .records = recordings_wanted, .make = recording_make, .run = recording_run, .release = recording_release};
