// SPDX-License-Identifier: Apache-2.0
/* Protobuf messages in conformance: going through the fields of one, and putting another together. Of files that were read before, and so
 * are well formed; what is not ends a message. */
#ifndef QSYNC_BENCH_CONFORMANCE_WIRE_H
#define QSYNC_BENCH_CONFORMANCE_WIRE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct wire {
    const uint8_t *at;
    size_t left;
} wire;
typedef struct wire_field {
    uint32_t number;
    uint64_t integer; /* of a varint */
    wire bytes;       /* of a field with a length; else empty */
} wire_field;

static inline bool wire_integer(wire *one, uint64_t *out) {
    *out = 0;
    for (int shift = 0; one->left > 0 && shift < 64; shift += 7) {
        const uint8_t byte = *one->at++;
        one->left--;
        *out |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return true;
    }
    return false;
}

static inline bool wire_next(wire *one, wire_field *out) {
    uint64_t key, count = 0;
    *out = (wire_field){.number = 0};
    if (one->left == 0 || !wire_integer(one, &key)) return false;
    out->number = (uint32_t)(key >> 3);
    switch (key & 7) {
    case 0:
        return wire_integer(one, &out->integer);
    case 1:
        count = 8;
        break;
    case 2:
        if (!wire_integer(one, &count)) return false;
        break;
    case 5:
        count = 4;
        break;
    default:
        return false;
    }
    if (count > one->left) return false;
    if ((key & 7) == 2) out->bytes = (wire){one->at, (size_t)count};
    one->at += count;
    one->left -= (size_t)count;
    return true;
}

/* A message that grows; data is freed by the caller. Without memory the process ends: a benchmark's. */
typedef struct message {
    uint8_t *data;
    size_t size, room;
} message;

static inline void put(message *to, const void *bytes, size_t size) {
    if (to->size + size > to->room) {
        to->room = 2 * (to->size + size);
        to->data = realloc(to->data, to->room);
        if (!to->data) abort();
    }
    if (size > 0) memcpy(to->data + to->size, bytes, size);
    to->size += size;
}

static inline void put_varint(message *to, uint64_t value) {
    for (; value > 127; value >>= 7)
        put(to, &(uint8_t){(uint8_t)(value | 128)}, 1);
    put(to, &(uint8_t){(uint8_t)value}, 1);
}

static inline void put_integer(message *to, uint32_t number, int64_t value) {
    put_varint(to, (uint64_t)number << 3);
    put_varint(to, (uint64_t)value);
}

static inline void put_bytes(message *to, uint32_t number, const void *bytes, size_t size) {
    put_varint(to, (uint64_t)number << 3 | 2);
    put_varint(to, size);
    put(to, bytes, size);
}

static inline void put_text(message *to, uint32_t number, const char *text) {
    put_bytes(to, number, text, strlen(text));
}

/* Takes the part's memory back. */
static inline void put_message(message *to, uint32_t number, message *part) {
    put_bytes(to, number, part->data, part->size);
    free(part->data);
    *part = (message){.size = 0};
}

#endif
