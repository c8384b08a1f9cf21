// SPDX-License-Identifier: Apache-2.0
/* What a device is inside this room: a table of functions. device.c checks arguments and cases before it calls
 * them, measures and rests; memory.c does so for memory, queues and events, and has those of devices that work in the host's memory. */
#ifndef QSYNC_DEVICE_BACKEND_H
#define QSYNC_DEVICE_BACKEND_H

#include "qsync/device.h"

/* Memory, queues and events of a device that has its own. Arguments are checked; `queue` is a qs_queue_kind. */
typedef struct qs__stage {
    qs_status (*reserve)(void *state, size_t bytes, void **memory);
    qs_status (*resize)(void *memory, size_t bytes);
    void (*release)(void *memory);
    qs_status (*write)(void *state, int queue, void *memory, size_t offset, const void *from, size_t bytes);
    qs_status (*read)(void *state, int queue, void *memory, size_t offset, void *to, size_t bytes);
    qs_status (*copy)(void *state, int queue, const qs_location *from, const qs_location *to, size_t bytes);
    qs_status (*fill)(void *state, int queue, void *memory, size_t offset, int value, size_t bytes);
    qs_status (*touch)(void *state, int queue, void *memory, size_t offset, size_t bytes, bool change);
    qs_status (*finite)(void *state, int queue, void *memory, size_t offset, int64_t count, bool *finite);
    qs_status (*wait)(void *state, int queue);
    void (*drain)(void *state, int queue); /* leaves the message at hand as it is, as releases do */
    qs_status (*event_create)(void *state, void **event);
    void (*event_release)(void *event);
    qs_status (*record)(void *event, int queue);
    qs_status (*follow)(void *event, int queue);
    qs_status (*event_wait)(void *event);
    qs_status (*event_done)(void *event, bool *done);
    qs_status (*pin)(void *state, int threads, const int *core);
    double (*elapsed)(const void *from, const void *to); /* seconds by the device's clock between two events that are reached */
} qs__stage;

/* Sums of several devices, each in a process of its own. Arguments are checked. */
typedef struct qs__group {
    qs_status (*key)(void *state, void *key); /* NULL: could there be one? */
    qs_status (*join)(void *state, const void *key, int rank, int ranks);
    qs_status (*sum)(void *state, int queue, const qs_location *at, int64_t count);
} qs__group;

/* Runs of kernels as one. Arguments are checked; `kernel` is what prepare gave, `run` one of each. */
typedef struct qs__recorder {
    qs_records (*records)(const void *state);
    qs_status (*make)(void *state, int kernels, void *const *kernel, const qs_run *run, void **recording);
    qs_status (*run)(void *recording, const qs_run *run);
    void (*release)(void *recording);
} qs__recorder;

typedef struct qs__backend {
    const char *name;
    /* Opens with checked options; *state is what the other functions receive. */
    qs_status (*open)(const qs_device_options *options, void **state);
    void (*close)(void *state);
    /* Fills isa, library, kernels and formats. */
    void (*describe)(const void *state, qs_device_info *out);
    /* name: of a candidate, QS_MISMATCH when it is none; NULL: what the device takes by itself. */
    qs_status (*fact)(void *state, const qs_case *one, const char *name, qs_kernel_fact *out);
    /* Up to QS_MOST_CANDIDATES, at least one on success; NULL: there is never more than one. */
    qs_status (*candidates)(void *state, const qs_case *one, qs_kernel_fact *out, int *count);
    /* operand[i] belongs to operand i; *kernel is what run and release receive. */
    qs_status (*prepare)(void *state, const qs_case *one, const char *name, const qs_location *operand, qs_location scratch, void **kernel);
    /* Where memory is the host's the kernel has run, without a rest, when it returns; elsewhere it is queued. */
    qs_status (*run)(void *kernel, const qs_run *run);
    void (*release)(void *kernel);
    void (*trim)(void *state);                            /* NULL: nothing is kept of released kernels */
    double (*peak)(void *state, const qs_format *format); /* NULL: not known */
    /* NULL: the backend is one device, which is there. */
    qs_status (*list)(int capacity, qs_device_listing *out, int *count);
    bool joins;                   /* qs_device_joins */
    const qs__stage *stage;       /* NULL: memory of the host, and everything is done when a call returns */
    const qs__group *group;       /* NULL: what lies in several devices is added up by the host */
    const qs__recorder *recorder; /* NULL: kernels are run one by one */
} qs__backend;

/* memory.c: an open device, and a piece of its memory */
struct qs_queue {
    qs_device *device;
    int kind;
};

struct qs_device {
    const qs__backend *backend;
    void *state;
    int threads;
    double speed;
    qs_speeds products;
    int choices;
    qs_kernel_choice *choice; /* (choices) preferred kernels, sorted by case */
    qs_queue queue[QS_QUEUES];
    int joined;            /* ranks of the group that it adds up with */
    qs_event *begin, *end; /* of qs_kernel_time; NULL: not asked for yet */
};

struct qs_memory {
    qs_device *device;
    size_t bytes;
    qs_arena arena; /* the host's */
    void *state;    /* what the stage's functions receive; NULL: it lies in the arena */
};

/* The first byte of a place in host memory; NULL where there is nothing. */
void *qs__location_host(qs_location place);
/* The same for every operand of a case. */
void qs__locations_host(const qs_case *one, const qs_location *place, void **data);

#define QS_DEVICE(name) extern const qs__backend qs__device_##name;
#include "devices.def"
#undef QS_DEVICE

/* What `open` of this backend gave for the device; NULL: the device is another backend's. */
void *qs__device_state(qs_device *device, const qs__backend *backend);

/* "AMD EPYC ..." of this machine, or "unknown", into a buffer of `bytes`. */
void qs__cpu_name(char *text, size_t bytes);

#endif
