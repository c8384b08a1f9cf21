// SPDX-License-Identifier: Apache-2.0
/* Copies between host and device, through memory of the host that the device reaches by itself (pinned): what is written is taken before
 * the call returns, what is read goes to its place once it has arrived, and neither stops the host or a queue. */
#include "cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS = 8, SLOT_BYTES = 4 << 20, LOOKS = 1024 };

/* A piece of a copy. Slots are used in turn. */
typedef struct slot {
    char *memory;
    CUevent done; /* of its copy */
    bool used;
    uint64_t number; /* of the read that it is part of; 0: it is part of a write */
    void *to;
    size_t bytes;
} slot;

/* A look, whose answer a kernel writes. */
typedef struct look {
    uint64_t number; /* among the reads */
    bool *to;
} look;

typedef struct lane {
    slot slot[SLOTS];
    look look[LOOKS];
    float *answer; /* (LOOKS) pinned */
    CUdeviceptr answer_address;
    uint64_t reads;                  /* numbers of reads and looks: 1 ... reads */
    uint64_t next, oldest;           /* slots oldest ... next - 1 (modulo SLOTS) may be in use */
    uint64_t next_look, oldest_look; /* looks, in the same way */
} lane;

struct qs__transfers {
    lane lane[QS_QUEUES];
};

qs_status qs__transfers_open(qs__cuda *cuda) {
    const qs__driver *driver = cuda->driver;
    QS_TRY(qs_allocate(1, sizeof *cuda->transfers, &cuda->transfers));
    for (int queue = 0; queue < QS_QUEUES; queue++) {
        lane *here = &cuda->transfers->lane[queue];
        void *memory = NULL;
        QS_TRY(qs__cuda_check(cuda, driver->host_allocate(&memory, LOOKS * sizeof *here->answer, CU_MEMHOSTALLOC_DEVICEMAP),
                              "pinned memory for answers"));
        here->answer = memory;
        QS_TRY(qs__cuda_check(cuda, driver->host_address(&here->answer_address, memory, 0), "pinned memory for answers"));
        for (int i = 0; i < SLOTS; i++) {
            slot *one = &here->slot[i];
            QS_TRY(qs__cuda_check(cuda, driver->host_allocate(&memory, SLOT_BYTES, 0), "pinned memory for copies"));
            one->memory = memory;
            QS_TRY(qs__cuda_check(cuda, driver->event_create(&one->done, CU_EVENT_DISABLE_TIMING), "an event for copies"));
        }
    }
    return QS_OK;
}

void qs__transfers_close(qs__cuda *cuda) {
    const qs__driver *driver = cuda->driver;
    for (int queue = 0; cuda->transfers && queue < QS_QUEUES; queue++) {
        const lane *here = &cuda->transfers->lane[queue];
        if (here->answer) driver->host_free(here->answer);
        for (int i = 0; i < SLOTS; i++) {
            const slot *one = &here->slot[i];
            if (one->done) driver->event_destroy(one->done);
            if (one->memory) driver->host_free(one->memory);
        }
    }
    free(cuda->transfers);
    cuda->transfers = NULL;
}

/* Waits for the oldest slot's copy, and brings what was read to its place. */
static qs_status oldest_finish(qs__cuda *cuda, lane *one) {
    slot *oldest = &one->slot[one->oldest++ % SLOTS];
    const CUresult result = cuda->driver->event_wait(oldest->done);
    if (result == CUDA_SUCCESS && oldest->number) memcpy(oldest->to, oldest->memory, oldest->bytes);
    oldest->used = false;
    return qs__cuda_check(cuda, result, "a copy between host and device");
}

static qs_status slot_take(qs__cuda *cuda, lane *one, slot **out) {
    if (one->next - one->oldest == SLOTS) QS_TRY(oldest_finish(cuda, one));
    *out = &one->slot[one->next++ % SLOTS];
    (*out)->used = true;
    return QS_OK;
}

/* Slots serve others when a recording is run again. */
static qs_status plain_check(const qs__cuda *cuda) {
    return cuda->recording ? qs_fail(QS_UNSUPPORTED, "copies between host and device are not recorded") : QS_OK;
}

qs_status qs__transfers_write(qs__cuda *cuda, int queue, CUdeviceptr to, const void *from, size_t bytes) {
    const qs__driver *driver = cuda->driver;
    QS_TRY(plain_check(cuda));
    for (size_t at = 0; at < bytes; at += SLOT_BYTES) {
        const size_t piece = bytes - at < SLOT_BYTES ? bytes - at : SLOT_BYTES;
        slot *one;
        QS_TRY(slot_take(cuda, &cuda->transfers->lane[queue], &one));
        one->number = 0;
        memcpy(one->memory, (const char *)from + at, piece);
        QS_TRY(qs__cuda_check(cuda, driver->copy_in(to + at, one->memory, piece, cuda->stream[queue]), "a copy to the device"));
        QS_TRY(qs__cuda_check(cuda, driver->event_record(one->done, cuda->stream[queue]), "a copy to the device"));
    }
    return QS_OK;
}

qs_status qs__transfers_read(qs__cuda *cuda, int queue, CUdeviceptr from, void *to, size_t bytes) {
    const qs__driver *driver = cuda->driver;
    lane *here = &cuda->transfers->lane[queue];
    QS_TRY(plain_check(cuda));
    here->reads++;
    for (size_t at = 0; at < bytes; at += SLOT_BYTES) {
        const size_t piece = bytes - at < SLOT_BYTES ? bytes - at : SLOT_BYTES;
        slot *one;
        QS_TRY(slot_take(cuda, here, &one));
        one->number = here->reads;
        one->to = (char *)to + at;
        one->bytes = piece;
        QS_TRY(qs__cuda_check(cuda, driver->copy_out(one->memory, from + at, piece, cuda->stream[queue]), "a copy from the device"));
        QS_TRY(qs__cuda_check(cuda, driver->event_record(one->done, cuda->stream[queue]), "a copy from the device"));
    }
    return QS_OK;
}

/* More looks on their way than there is room for are waited for. */
qs_status qs__transfers_look(qs__cuda *cuda, int queue, bool *to, CUdeviceptr *answer) {
    lane *here = &cuda->transfers->lane[queue];
    if (here->next_look - here->oldest_look == LOOKS) {
        QS_TRY(qs__cuda_check(cuda, cuda->driver->stream_wait(cuda->stream[queue]), "a look at values"));
        qs__transfers_finish(cuda, queue, UINT64_MAX);
    }
    const uint64_t at = here->next_look++ % LOOKS;
    here->look[at] = (look){++here->reads, to};
    here->answer[at] = 1;
    *answer = here->answer_address + at * sizeof *here->answer;
    return QS_OK;
}

uint64_t qs__transfers_last(const qs__cuda *cuda, int queue) {
    return cuda->transfers->lane[queue].reads;
}

/* Writes in between are done as well, since a queue is in order. */
void qs__transfers_finish(qs__cuda *cuda, int queue, uint64_t last) {
    lane *here = &cuda->transfers->lane[queue];
    uint64_t end = here->oldest;
    for (uint64_t i = here->oldest; i < here->next; i++) {
        const slot *one = &here->slot[i % SLOTS];
        if (one->number > 0 && one->number <= last) end = i + 1;
    }
    while (here->oldest < end)
        (void)oldest_finish(cuda, here); /* a failure is told by the wait that this is part of */
    for (; here->oldest_look < here->next_look && here->look[here->oldest_look % LOOKS].number <= last; here->oldest_look++)
        *here->look[here->oldest_look % LOOKS].to = here->answer[here->oldest_look % LOOKS] != 0;
}
