// SPDX-License-Identifier: Apache-2.0
/* The protobuf wire format (protobuf.dev/programming-guides/encoding): a message is a row of fields, each a number and a kind, then a
 * varint, 4 or 8 bytes, or a length and as many bytes. Nothing is copied, no length is believed before it is compared with what is left. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx_internal.h"

enum { VARINT = 0, EIGHT = 1, BYTES = 2, FOUR = 5 }; /* kinds of fields */
enum { MOST_VARINT = 10 };                           /* bytes of the longest varint */

/* ---- Reading ------------------------------------------------------------------------------------------------------------- */

static qs_status bad(const qs_wire *from, const uint8_t *at, const char *format, ...) QS_PRINTF(3, 4);
static qs_status bad(const qs_wire *from, const uint8_t *at, const char *format, ...) {
    char text[256];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return qs_fail(QS_BAD_FILE, "%s: offset %zu: %s", from->file, (size_t)(at - from->start), text);
}

static qs_status varint(qs_wire *from, uint64_t *out) {
    const uint8_t *start = from->at;
    uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (from->at == from->end) return bad(from, start, "the data end inside a number");
        const uint8_t byte = *from->at++;
        if (shift < 64) value |= (uint64_t)(byte & 127) << shift;
        if (!(byte & 128)) {
            *out = value;
            return QS_OK;
        }
    }
    return bad(from, start, "a number of more than 10 bytes");
}

static uint64_t fixed(const uint8_t *at, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

qs_status qs_wire_next(qs_wire *from, qs_wire_field *out, bool *more) {
    *more = from->at < from->end;
    if (!*more) return QS_OK;
    const uint8_t *start = from->at;
    uint64_t tag, length;
    QS_TRY(varint(from, &tag));
    *out = (qs_wire_field){.number = (uint32_t)(tag >> 3), .kind = (int)(tag & 7), .bytes = *from};
    if (tag >> 3 == 0 || tag >> 3 > 536870911) return bad(from, start, "field %" PRIu64 ": no such field number", tag >> 3);
    if (out->kind == VARINT) return varint(from, &out->value);
    if (out->kind == EIGHT || out->kind == FOUR) {
        const int bytes = out->kind == EIGHT ? 8 : 4;
        if (from->end - from->at < bytes) return bad(from, start, "the data end inside a number of %d bytes", bytes);
        out->value = fixed(from->at, bytes);
        from->at += bytes;
        return QS_OK;
    }
    if (out->kind != BYTES) return bad(from, start, "field %" PRIu32 " of the unknown kind %d", out->number, out->kind);
    QS_TRY(varint(from, &length));
    if (length > (uint64_t)(from->end - from->at))
        return bad(from, start, "a field of %" PRIu64 " bytes, but only %zu are left", length, (size_t)(from->end - from->at));
    out->bytes.at = from->at;
    out->bytes.end = from->at + length;
    from->at += length;
    return QS_OK;
}

qs_status qs__wire_count(qs_wire from, size_t *counts, uint32_t limit) {
    memset(counts, 0, limit * sizeof *counts);
    for (;;) {
        qs_wire_field field;
        bool more;
        QS_TRY(qs_wire_next(&from, &field, &more));
        if (!more) return QS_OK;
        if (field.number < limit) counts[field.number]++;
    }
}

static const char *kind_name(int kind) {
    return kind == VARINT  ? "an integer"
           : kind == BYTES ? "a text or message"
           : kind == FOUR  ? "a number of 4 bytes"
                           : "a number of 8 bytes";
}

static qs_status wrong(const qs_wire_field *field, const char *what, int kind) {
    return bad(&field->bytes, field->bytes.at, "%s is %s, must be %s", what, kind_name(field->kind), kind_name(kind));
}

qs_status qs__field_int(const qs_wire_field *field, const char *what, int64_t *out) {
    if (field->kind != VARINT) return wrong(field, what, VARINT);
    *out = (int64_t)field->value;
    return QS_OK;
}

qs_status qs__field_float(const qs_wire_field *field, const char *what, float *out) {
    if (field->kind != FOUR) return wrong(field, what, FOUR);
    const uint32_t bits = (uint32_t)field->value;
    memcpy(out, &bits, sizeof bits);
    return QS_OK;
}

qs_status qs__field_message(const qs_wire_field *field, const char *what, qs_wire *out) {
    if (field->kind != BYTES) return wrong(field, what, BYTES);
    *out = field->bytes;
    return QS_OK;
}

qs_status qs__field_name(const qs_wire_field *field, const char *what, qs_onnx_memory *memory, const char **out) {
    if (field->kind != BYTES) return wrong(field, what, BYTES);
    const size_t bytes = (size_t)(field->bytes.end - field->bytes.at);
    if (bytes > QS_ONNX_MAX_NAME) return bad(&field->bytes, field->bytes.at, "%s of %zu bytes: at most %d", what, bytes, QS_ONNX_MAX_NAME);
    if (bytes > 0 && memchr(field->bytes.at, 0, bytes)) return bad(&field->bytes, field->bytes.at, "%s holds a zero byte", what);
    return qs__onnx_copy_text(memory, field->bytes.at, bytes, out);
}

qs_status qs__field_varints(const qs_wire_field *field, const char *what, int64_t *out, size_t room, size_t *count) {
    if (field->kind == VARINT) {
        if (out && *count < room) out[*count] = (int64_t)field->value;
        ++*count;
        return QS_OK;
    }
    if (field->kind != BYTES) return wrong(field, what, VARINT);
    for (qs_wire from = field->bytes; from.at < from.end;) {
        uint64_t value;
        QS_TRY(varint(&from, &value));
        if (out && *count < room) out[*count] = (int64_t)value;
        ++*count;
    }
    return QS_OK;
}

qs_status qs__field_fixed(const qs_wire_field *field, const char *what, size_t size, void *out, size_t room, size_t *count) {
    const int kind = size == 4 ? FOUR : EIGHT;
    if (field->kind == kind) {
        for (size_t i = 0; out && *count < room && i < size; i++)
            ((uint8_t *)out)[*count * size + i] = (uint8_t)(field->value >> (8 * i));
        ++*count;
        return QS_OK;
    }
    if (field->kind != BYTES) return wrong(field, what, kind);
    const size_t bytes = (size_t)(field->bytes.end - field->bytes.at);
    if (bytes % size != 0) return bad(&field->bytes, field->bytes.at, "%s of %zu bytes: no multiple of %zu", what, bytes, size);
    const size_t copied = !out || *count >= room ? 0 : bytes / size < room - *count ? bytes / size : room - *count;
    if (copied > 0) memcpy((uint8_t *)out + *count * size, field->bytes.at, copied * size);
    *count += bytes / size;
    return QS_OK;
}

/* ---- Writing ------------------------------------------------------------------------------------------------------------- */

void qs_protobuf_release(qs_protobuf *message) {
    free(message->data);
    *message = (qs_protobuf){0};
}

static void put(qs_protobuf *message, size_t count, const void *data) {
    if (message->status != QS_OK || count == 0) return;
    message->status = qs_grow(&message->data, &message->capacity, message->count + count, 1);
    if (message->status != QS_OK) return;
    memcpy(message->data + message->count, data, count);
    message->count += count;
}

/* Seven bits a byte, the lowest first; the top bit says that more follow. */
static void put_varint(qs_protobuf *message, uint64_t value) {
    unsigned char code[MOST_VARINT];
    size_t bytes = 0;
    for (; value >= 0x80; value >>= 7)
        code[bytes++] = (unsigned char)(value | 0x80);
    code[bytes++] = (unsigned char)value;
    put(message, bytes, code);
}

static void put_tag(qs_protobuf *message, int field, int wire) {
    put_varint(message, (uint64_t)field << 3 | (uint64_t)wire);
}

void qs_protobuf_integer(qs_protobuf *message, int field, int64_t value) {
    put_tag(message, field, VARINT);
    put_varint(message, (uint64_t)value);
}

void qs_protobuf_float(qs_protobuf *message, int field, float value) {
    uint32_t bits;
    unsigned char code[4];
    memcpy(&bits, &value, sizeof bits);
    for (int i = 0; i < 4; i++)
        code[i] = (unsigned char)(bits >> 8 * i);
    put_tag(message, field, FOUR);
    put(message, sizeof code, code);
}

void qs_protobuf_bytes(qs_protobuf *message, int field, size_t count, const void *data) {
    put_tag(message, field, BYTES);
    put_varint(message, count);
    put(message, count, data);
}

void qs_protobuf_text(qs_protobuf *message, int field, const char *text) {
    qs_protobuf_bytes(message, field, strlen(text), text);
}

void qs_protobuf_nest(qs_protobuf *message, int field, qs_protobuf *part) {
    if (message->status == QS_OK) message->status = part->status;
    qs_protobuf_bytes(message, field, part->count, part->data);
    qs_protobuf_release(part);
}

void qs_protobuf_append(qs_protobuf *message, const qs_protobuf *fields) {
    if (message->status == QS_OK) message->status = fields->status;
    put(message, fields->count, fields->data);
}
