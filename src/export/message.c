// SPDX-License-Identifier: Apache-2.0
/* Writing protobuf's wire format: see message.h. */
#include "message.h"

#include <stdlib.h>
#include <string.h>

enum { VARINT = 0, LENGTH = 2, FIXED32 = 5, MOST_VARINT = 10 }; /* wire types; bytes of the longest varint */

void qs__message_release(qs__message *message) {
    free(message->data);
    *message = (qs__message){0};
}

static void put(qs__message *message, size_t bytes, const void *data) {
    if (message->status != QS_OK || bytes == 0) return;
    message->status = qs_grow(&message->data, &message->capacity, message->bytes + bytes, 1);
    if (message->status != QS_OK) return;
    memcpy(message->data + message->bytes, data, bytes);
    message->bytes += bytes;
}

/* Seven bits a byte, the lowest first; the top bit says that more follow. */
static void put_varint(qs__message *message, uint64_t value) {
    unsigned char code[MOST_VARINT];
    size_t bytes = 0;
    for (; value >= 0x80; value >>= 7)
        code[bytes++] = (unsigned char)(value | 0x80);
    code[bytes++] = (unsigned char)value;
    put(message, bytes, code);
}

static void put_tag(qs__message *message, int field, int wire) {
    put_varint(message, (uint64_t)field << 3 | (uint64_t)wire);
}

void qs__message_integer(qs__message *message, int field, int64_t value) {
    put_tag(message, field, VARINT);
    put_varint(message, (uint64_t)value);
}

void qs__message_float(qs__message *message, int field, float value) {
    uint32_t bits;
    unsigned char code[4];
    memcpy(&bits, &value, sizeof bits);
    for (int i = 0; i < 4; i++)
        code[i] = (unsigned char)(bits >> 8 * i);
    put_tag(message, field, FIXED32);
    put(message, sizeof code, code);
}

void qs__message_bytes(qs__message *message, int field, size_t bytes, const void *data) {
    put_tag(message, field, LENGTH);
    put_varint(message, bytes);
    put(message, bytes, data);
}

void qs__message_text(qs__message *message, int field, const char *text) {
    qs__message_bytes(message, field, strlen(text), text);
}

void qs__message_nest(qs__message *message, int field, qs__message *part) {
    if (message->status == QS_OK) message->status = part->status;
    qs__message_bytes(message, field, part->bytes, part->data);
    qs__message_release(part);
}

void qs__message_append(qs__message *message, const qs__message *fields) {
    if (message->status == QS_OK) message->status = fields->status;
    put(message, fields->bytes, fields->data);
}
