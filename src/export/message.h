// SPDX-License-Identifier: Apache-2.0
/* Messages in protobuf's wire format (https://protobuf.dev/programming-guides/encoding), as ONNX files consist of them: fields one behind
 * the other, each a number with a wire type, and its value. A message under construction is a block of bytes that grows. The first failure
 * sticks: what is added later is dropped, and whoever takes the message asks once. */
#ifndef QSYNC_EXPORT_MESSAGE_H
#define QSYNC_EXPORT_MESSAGE_H

#include "qsync/base.h"

typedef struct qs__message {
    char *data;
    size_t bytes, capacity;
    qs_status status;
} qs__message;

void qs__message_release(qs__message *message);
/* A number: int32, int64, bool, enum. Negative ones take ten bytes. */
void qs__message_integer(qs__message *message, int field, int64_t value);
void qs__message_float(qs__message *message, int field, float value);
void qs__message_text(qs__message *message, int field, const char *text);
void qs__message_bytes(qs__message *message, int field, size_t bytes, const void *data);
/* A message in a message, which is released. */
void qs__message_nest(qs__message *message, int field, qs__message *part);
/* A copy of fields that were written elsewhere, one behind the other. */
void qs__message_append(qs__message *message, const qs__message *fields);

#endif
