// SPDX-License-Identifier: Apache-2.0
/* Memory, queues and events of a GPU. Memory is a range of addresses as large as all there is, of which as much is mapped as was reserved:
 * it grows and shrinks where it is, so that kernels stay bound. */
#include "cuda/absmax.h"

#include <stdlib.h>
#include <string.h>

static const char gone[] = "work of the GPU";

qs_status qs__cuda_check(const qs__cuda *cuda, CUresult result, const char *what) {
    return qs__driver_check(cuda->driver, result, what);
}

/* ---- Memory ---------------------------------------------------------------------------------------------------------------- */

typedef struct cuda_memory {
    qs__cuda *cuda;
    CUdeviceptr address;
    size_t range;       /* of addresses */
    size_t granularity; /* pieces are multiples of it */
    size_t bytes;       /* asked for */
    size_t mapped;      /* sum of pieces */
    int pieces, capacity;
    struct piece {
        CUmemGenericAllocationHandle handle;
        size_t bytes;
    } * piece; /* one behind the other; each growth adds one */
} cuda_memory;

static CUmemAllocationProp kind_of(const qs__cuda *cuda) {
    CUmemAllocationProp kind = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    kind.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    kind.location.id = cuda->device;
    return kind;
}

static qs_status no_room(const qs__cuda *cuda, size_t bytes, size_t more) {
    size_t available = 0, total = 0;
    if (cuda->driver->memory_info(&available, &total) != CUDA_SUCCESS) available = 0;
    const size_t left = cuda->capacity > cuda->reserved ? cuda->capacity - cuda->reserved : 0;
    if (left < available) available = left;
    return qs_fail(QS_OUT_OF_MEMORY,
                   "the GPU %s has %zu bytes left, not the %zu more that a memory of %zu takes: use a smaller batch, narrower formats, or "
                   "end what else runs on it",
                   cuda->name, available, more, bytes);
}

static void piece_drop(cuda_memory *memory) {
    const struct piece last = memory->piece[--memory->pieces];
    const qs__driver *driver = memory->cuda->driver;
    memory->mapped -= last.bytes;
    memory->cuda->reserved -= last.bytes;
    driver->memory_unmap(memory->address + memory->mapped, last.bytes);
    driver->memory_release(last.handle);
}

static qs_status piece_add(cuda_memory *memory, size_t bytes, size_t more) {
    qs__cuda *cuda = memory->cuda;
    const qs__driver *driver = cuda->driver;
    const CUmemAllocationProp kind = kind_of(cuda);
    const CUmemAccessDesc access = {.location = kind.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    if (memory->pieces == memory->capacity) {
        struct piece *larger = realloc(memory->piece, (size_t)(2 * memory->capacity + 4) * sizeof *larger);
        if (!larger) return qs_fail(QS_OUT_OF_MEMORY, "no memory for the list of a GPU's memory");
        memory->piece = larger;
        memory->capacity = 2 * memory->capacity + 4;
    }
    if (cuda->reserved + more > cuda->capacity) return no_room(cuda, bytes, more);
    const CUresult result = driver->memory_create(&handle, more, &kind, 0);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) return no_room(cuda, bytes, more);
    QS_TRY(qs__cuda_check(cuda, result, "memory of the GPU"));
    const qs_status status =
        qs__cuda_check(cuda, driver->memory_map(memory->address + memory->mapped, more, 0, handle, 0), "mapping memory");
    if (status != QS_OK) {
        driver->memory_release(handle);
        return status;
    }
    memory->piece[memory->pieces++] = (struct piece){handle, more};
    memory->mapped += more;
    cuda->reserved += more;
    return qs__cuda_check(cuda, driver->memory_access(memory->address + memory->mapped - more, more, &access, 1), "access to memory");
}

static size_t rounded_up(size_t bytes, size_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

/* What is added is zeroed, and all there when the call returns. */
static qs_status memory_grow(cuda_memory *memory, size_t bytes) {
    qs__cuda *cuda = memory->cuda;
    const size_t wanted = rounded_up(bytes, memory->granularity);
    if (wanted > memory->range) return no_room(cuda, bytes, wanted - memory->mapped);
    if (wanted > memory->mapped) {
        const int pieces = memory->pieces;
        const qs_status status = piece_add(memory, bytes, wanted - memory->mapped);
        if (status != QS_OK) {
            if (memory->pieces > pieces) piece_drop(memory);
            return status;
        }
    }
    const CUstream stream = cuda->stream[QS_QUEUE_KERNELS];
    if (bytes > memory->bytes)
        QS_TRY(
            qs__cuda_check(cuda, cuda->driver->fill(memory->address + memory->bytes, 0, bytes - memory->bytes, stream), "zeroing memory"));
    QS_TRY(qs__cuda_check(cuda, cuda->driver->stream_wait(stream), "zeroing memory"));
    memory->bytes = bytes;
    return QS_OK;
}

static void queues_settle(qs__cuda *cuda) {
    for (int queue = 0; queue < QS_QUEUES; queue++)
        qs__cuda_stage.drain(cuda, queue);
}

/* Pieces that lie behind the new end go back to the system; one that the end lies in stays whole. */
static qs_status memory_resize(void *state, size_t bytes) {
    cuda_memory *memory = state;
    queues_settle(memory->cuda);
    if (bytes > memory->bytes) return memory_grow(memory, bytes);
    while (memory->pieces > 0 && memory->mapped - memory->piece[memory->pieces - 1].bytes >= bytes)
        piece_drop(memory);
    memory->bytes = bytes;
    return QS_OK;
}

static void memory_free(cuda_memory *memory) {
    while (memory->pieces > 0)
        piece_drop(memory);
    if (memory->address) memory->cuda->driver->address_free(memory->address, memory->range);
    free(memory->piece);
    free(memory);
}

static void memory_release(void *state) {
    cuda_memory *memory = state;
    queues_settle(memory->cuda);
    memory_free(memory);
}

static qs_status memory_reserve(void *state, size_t bytes, void **out) {
    qs__cuda *cuda = state;
    const CUmemAllocationProp kind = kind_of(cuda);
    cuda_memory *memory = NULL;
    qs_status status;
    QS_TRY(qs_allocate(1, sizeof *memory, &memory));
    memory->cuda = cuda;
    QS_GOTO(qs__cuda_check(cuda, cuda->driver->granularity(&memory->granularity, &kind, CU_MEM_ALLOC_GRANULARITY_MINIMUM), gone));
    memory->range = rounded_up(cuda->capacity, memory->granularity);
    QS_GOTO(qs__cuda_check(cuda, cuda->driver->address_reserve(&memory->address, memory->range, 0, 0, 0), "a range of addresses"));
    QS_GOTO(memory_grow(memory, bytes));
    *out = memory;
    return QS_OK;
done:
    memory_free(memory);
    return status;
}

static CUdeviceptr address_of(const void *memory, size_t offset) {
    return ((const cuda_memory *)memory)->address + offset;
}

CUdeviceptr qs__cuda_address(qs_location place) {
    return address_of(place.memory->state, place.offset);
}

/* ---- Copies ---------------------------------------------------------------------------------------------------------------- */

static qs_status stage_write(void *state, int queue, void *memory, size_t offset, const void *from, size_t bytes) {
    return qs__transfers_write(state, queue, address_of(memory, offset), from, bytes);
}

static qs_status stage_read(void *state, int queue, void *memory, size_t offset, void *to, size_t bytes) {
    return qs__transfers_read(state, queue, address_of(memory, offset), to, bytes);
}

static qs_status stage_copy(void *state, int queue, const qs_location *from, const qs_location *to, size_t bytes) {
    qs__cuda *cuda = state;
    if (bytes == 0) return QS_OK;
    return qs__cuda_check(cuda,
                          cuda->driver->copy_within(address_of(to->memory->state, to->offset),
                                                    address_of(from->memory->state, from->offset), bytes, cuda->stream[queue]),
                          "a copy within the device");
}

static qs_status stage_fill(void *state, int queue, void *memory, size_t offset, int value, size_t bytes) {
    qs__cuda *cuda = state;
    if (bytes == 0) return QS_OK;
    return qs__cuda_check(cuda, cuda->driver->fill(address_of(memory, offset), (unsigned char)value, bytes, cuda->stream[queue]),
                          "filling memory");
}

static qs_status stage_touch(void *state, int queue, void *memory, size_t offset, size_t bytes, bool change) {
    qs__cuda *cuda = state;
    const qs__cuda_touch_job job = {.at = address_of(memory, offset), .bytes = (int64_t)bytes, .change = change};
    CUfunction function;
    enum { THREADS = 256 };
    QS_TRY(qs__cuda_function_find(cuda, "touch", &function));
    return qs__cuda_put(cuda, cuda->stream[queue], function, qs__cuda_blocks(cuda, job.bytes / 32, THREADS, 1), THREADS, 0, &job);
}

/* The kernel lowers the answer in pinned memory: no memory of the device is taken for it. */
static qs_status stage_finite(void *state, int queue, void *memory, size_t offset, int64_t count, bool *finite) {
    qs__cuda *cuda = state;
    CUfunction function;
    CUdeviceptr answer;
    QS_TRY(qs__cuda_function_find(cuda, "finite_check", &function));
    QS_TRY(qs__transfers_look(cuda, queue, finite, &answer));
    const qs__cuda_finite_job job = {
        .src = {.at = address_of(memory, offset), .count = count, .format = qs__cuda_format_of(qs_format_of("fp32"))}, .flag = answer};
    return qs__cuda_put(cuda, cuda->stream[queue], function, qs__cuda_blocks(cuda, count, QS__CUDA_THREADS, 8 * QS__CUDA_EIGHTS),
                        QS__CUDA_THREADS, 0, &job);
}

/* ---- Queues and events ------------------------------------------------------------------------------------------------------- */

static qs_status stage_wait(void *state, int queue) {
    qs__cuda *cuda = state;
    QS_TRY(qs__cuda_check(cuda, cuda->driver->stream_wait(cuda->stream[queue]), gone));
    qs__transfers_finish(cuda, queue, UINT64_MAX);
    return qs__cuda_complaints_take(cuda);
}

static void stage_drain(void *state, int queue) {
    qs__cuda *cuda = state;
    (void)cuda->driver->stream_wait(cuda->stream[queue]);
    qs__transfers_finish(cuda, queue, UINT64_MAX);
    memset(cuda->complaint, 0, sizeof *cuda->complaint);
}

typedef struct cuda_event {
    qs__cuda *cuda;
    CUevent event;
    int queue;     /* where it was recorded last */
    uint64_t read; /* the last read before it */
    bool recorded;
} cuda_event;

static qs_status event_create(void *state, void **out) {
    cuda_event *event = NULL;
    qs__cuda *cuda = state;
    QS_TRY(qs_allocate(1, sizeof *event, &event));
    event->cuda = cuda;
    const qs_status status = qs__cuda_check(cuda, cuda->driver->event_create(&event->event, CU_EVENT_DEFAULT), "an event");
    if (status != QS_OK) {
        free(event);
        return status;
    }
    *out = event;
    return QS_OK;
}

static void event_release(void *state) {
    cuda_event *event = state;
    event->cuda->driver->event_destroy(event->event);
    free(event);
}

static qs_status event_record(void *state, int queue) {
    cuda_event *event = state;
    event->queue = queue;
    event->read = qs__transfers_last(event->cuda, queue);
    event->recorded = true;
    return qs__cuda_check(event->cuda, event->cuda->driver->event_record(event->event, event->cuda->stream[queue]), "an event");
}

static qs_status event_follow(void *state, int queue) {
    const cuda_event *event = state;
    if (!event->recorded) return QS_OK;
    return qs__cuda_check(event->cuda, event->cuda->driver->stream_follow(event->cuda->stream[queue], event->event, 0), "an event");
}

static qs_status event_reached(cuda_event *event) {
    qs__transfers_finish(event->cuda, event->queue, event->read);
    return qs__cuda_complaints_take(event->cuda);
}

static qs_status event_wait(void *state) {
    cuda_event *event = state;
    if (!event->recorded) return QS_OK;
    QS_TRY(qs__cuda_check(event->cuda, event->cuda->driver->event_wait(event->event), gone));
    return event_reached(event);
}

static qs_status event_done(void *state, bool *done) {
    cuda_event *event = state;
    if (!event->recorded) return QS_OK;
    const CUresult result = event->cuda->driver->event_query(event->event);
    *done = result != CUDA_ERROR_NOT_READY;
    if (!*done) return QS_OK;
    QS_TRY(qs__cuda_check(event->cuda, result, gone));
    return event_reached(event);
}

static double event_elapsed(const void *from, const void *to) {
    const cuda_event *begin = from, *end = to;
    float milliseconds = 0;
    if (!begin->recorded || !end->recorded) return 0;
    if (end->cuda->driver->event_elapsed(&milliseconds, begin->event, end->event) != CUDA_SUCCESS) return 0;
    return 1e-3 * (double)milliseconds;
}

/* The threads of this process, which prepare data. */
static qs_status stage_pin(void *state, int threads, const int *core) {
    (void)state;
    return qs_threads_pin(threads, core);
}

const qs__stage qs__cuda_stage = {
    .reserve = memory_reserve,
    .resize = memory_resize,
    .release = memory_release,
    .write = stage_write,
    .read = stage_read,
    .copy = stage_copy,
    .fill = stage_fill,
    .touch = stage_touch,
    .finite = stage_finite,
    .wait = stage_wait,
    .drain = stage_drain,
    .event_create = event_create,
    .event_release = event_release,
    .record = event_record,
    .follow = event_follow,
    .event_wait = event_wait,
    .event_done = event_done,
    .pin = stage_pin,
    .elapsed = event_elapsed,
};
