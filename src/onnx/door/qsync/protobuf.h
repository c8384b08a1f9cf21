// SPDX-License-Identifier: Apache-2.0
/* protobuf: messages in protobuf's wire format (https://protobuf.dev/programming-guides/encoding), as ONNX files consist of them: fields
 * one behind the other, each a number with a kind, and its value. Which fields a message has, its readers and writers know. */
#ifndef QSYNC_PROTOBUF_H
#define QSYNC_PROTOBUF_H

#include "qsync/base.h"

/* ---- Reading ---- */

/* Bytes of a message that is being read, and where they stand in the file, for messages to people. */
typedef struct qs_wire {
    const char *file;     /* its name */
    const uint8_t *start; /* of the file */
    const uint8_t *at, *end;
} qs_wire;

typedef struct qs_wire_field {
    uint32_t number;
    int kind;       /* 0: varint; 1: 8 bytes; 2: bytes; 5: 4 bytes */
    uint64_t value; /* of kinds 0, 1 and 5 */
    qs_wire bytes;  /* of kind 2: a text, or a message */
} qs_wire_field;

/* The next field, or *more false at the end. Nothing is copied, and no length is believed before it is compared with what is left.
 * QS_BAD_FILE names file, offset and rule. */
QS_API qs_status qs_wire_next(qs_wire *from, qs_wire_field *out, bool *more);

/* ---- Writing ---- */

/* A message under construction: a block of bytes that grows; zeroed it is empty. The first failure sticks: what is added later is dropped,
 * and whoever takes the message asks `status` once. */
typedef struct qs_protobuf {
    unsigned char *data;
    size_t count, capacity; /* bytes */
    qs_status status;
} qs_protobuf;

QS_API void qs_protobuf_release(qs_protobuf *message);
/* A number: int32, int64, bool, enum. Negative ones take ten bytes. */
QS_API void qs_protobuf_integer(qs_protobuf *message, int field, int64_t value);
QS_API void qs_protobuf_float(qs_protobuf *message, int field, float value);
QS_API void qs_protobuf_text(qs_protobuf *message, int field, const char *text);
QS_API void qs_protobuf_bytes(qs_protobuf *message, int field, size_t count, const void *data);
/* A message in a message, which is released. */
QS_API void qs_protobuf_nest(qs_protobuf *message, int field, qs_protobuf *part);
/* A copy of fields that were written elsewhere, one behind the other. */
QS_API void qs_protobuf_append(qs_protobuf *message, const qs_protobuf *fields);

#endif
