// SPDX-License-Identifier: Apache-2.0
/* What both ends of the socket of `far` agree on: plain structs of one build, each followed by `payload` bytes. */
#ifndef QSYNC_DEVICE_FAR_WIRE_H
#define QSYNC_DEVICE_FAR_WIRE_H

#include "qsync/device.h"

enum { QS__FAR_PROTOCOL = 3, QS__FAR_NAME = 64, QS__FAR_FORMATS = 8 };

typedef enum qs__far_kind {
    /* Answered, in the queue of kernels. */
    QS__FAR_OPEN,       /* payload: qs__far_setting; answer: qs__far_facts */
    QS__FAR_FACT,       /* payload: case text, name ("": the device's own choice); answer: qs_kernel_fact */
    QS__FAR_CANDIDATES, /* payload: case text; answer: qs_kernel_fact, so many */
    QS__FAR_PREPARE,    /* object: kernel; payload: qs__far_binding, case text, name */
    QS__FAR_PEAK,       /* payload: a format's name; answer: double */
    QS__FAR_RESERVE,    /* object: memory; bytes */
    QS__FAR_RESIZE,     /* object: memory; bytes */
    QS__FAR_PIN,        /* payload: cores, int */
    QS__FAR_WAIT,       /* in any queue; a failure of what was queued there is the answer, and forgotten */
    /* Not answered. */
    QS__FAR_RELEASE_MEMORY, /* object */
    QS__FAR_RELEASE_KERNEL, /* object */
    QS__FAR_TRIM,
    QS__FAR_RUN,    /* object: kernel; payload: qs_run */
    QS__FAR_WRITE,  /* object: memory, offset; payload: what */
    QS__FAR_READ,   /* object: memory, offset, bytes; other: the number that the data come back under */
    QS__FAR_FINITE, /* the same, of fp32 values: a bool comes back */
    QS__FAR_COPY,   /* object, offset: from; other, other_offset: to; bytes */
    QS__FAR_FILL,   /* object, offset, bytes; value */
    QS__FAR_TOUCH,  /* object, offset, bytes; value: changes */
    QS__FAR_RECORD, /* object: event; serial */
    QS__FAR_FOLLOW  /* object: event; serial */
} qs__far_kind;

typedef struct qs__far_command {
    uint32_t kind, queue;
    uint64_t object, other;
    uint64_t offset, other_offset, bytes;
    uint64_t serial; /* of an event: how often it was recorded */
    int64_t value;
    uint64_t payload;
} qs__far_command;

typedef struct qs__far_setting {
    uint32_t protocol, command_bytes;
    int32_t threads;
    int64_t memory_bytes; /* 0: no limit of its own */
    double speed, bytes_per_second, latency_us;
    char runs[QS__FAR_NAME], isa[QS__FAR_NAME], family[QS__FAR_NAME]; /* "": none */
    int32_t products;                                                 /* of qs_speeds */
    char product[QS_MOST_SPEEDS][QS__FAR_NAME];
    double part[QS_MOST_SPEEDS];
} qs__far_setting;

typedef struct qs__far_facts {
    char isa[QS__FAR_NAME], library[QS__FAR_NAME], kernels[QS__FAR_NAME], formats[QS__FAR_FORMATS][16];
} qs__far_facts;

/* memory 0: nothing. */
typedef struct qs__far_binding {
    uint64_t memory[QS_MAX_OPERANDS + 1], offset[QS_MAX_OPERANDS + 1]; /* the last one: scratch */
} qs__far_binding;

typedef enum qs__far_answer { QS__FAR_ANSWER, QS__FAR_EVENT, QS__FAR_DATA } qs__far_answer;

typedef struct qs__far_reply {
    uint32_t kind;
    int32_t status;  /* answer: payload is the message where it is not QS_OK; event, data: what was queued before failed */
    uint64_t object; /* event; number of the data */
    uint64_t serial;
    double seconds; /* of the child's clock when the event was reached */
    uint64_t payload;
} qs__far_reply;

/* All of it; false when the other end is gone. */
bool qs__far_send(int socket, const void *data, size_t bytes);
bool qs__far_receive(int socket, void *data, size_t bytes);

#endif
