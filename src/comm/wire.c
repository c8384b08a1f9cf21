// SPDX-License-Identifier: Apache-2.0
/* Compressed wires: how values are packed for their way to other ranks, what a rank keeps of what that leaves out, and sums of packed
 * values (comm.h says what is promised). Blocks are packed and added up while they are in the first cache. */
#include "comm_internal.h"

#include <math.h>
#include <string.h>

/* ---- bf16 ------------------------------------------------------------------------------------------------------------------- */

static int64_t bf16_bytes(int64_t count) {
    return count * (int64_t)sizeof(uint16_t);
}

static void bf16_encode(const qs_format *format, const float *values, int64_t count, void *packed) {
    qs_convert_from_fp32(format, QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, (qs_random_stream){0}, count, values, packed);
}

static void bf16_decode(const qs_format *format, const void *packed, int64_t count, float *values) {
    qs_convert_to_fp32(format, count, packed, values);
}

/* ---- int8: the step of a block, then its codes ---------------------------------------------------------------------------------- */

static int64_t int8_bytes(int64_t count) {
    const int64_t blocks = (count + QS__WIRE_BLOCK - 1) / QS__WIRE_BLOCK;
    return count + blocks * (int64_t)sizeof(float);
}

/* A step that is no number makes none of every code. */
static void int8_encode(const qs_format *format, const float *values, int64_t count, void *packed) {
    const float absmax = qs_absmax_array(count, values), step = isfinite(absmax) ? qs_step_of_absmax(format, absmax) : NAN;
    int8_t *codes = (int8_t *)packed + sizeof step;
    memcpy(packed, &step, sizeof step);
    if (isfinite(absmax))
        qs_quantize_array(format, QS_NEAREST_EVEN, (qs_random_stream){0}, step, count, values, codes);
    else
        memset(codes, 0, (size_t)count);
}

static void int8_decode(const qs_format *format, const void *packed, int64_t count, float *values) {
    float step;
    (void)format;
    memcpy(&step, packed, sizeof step);
    qs_dequantize_array(step, count, (const int8_t *)packed + sizeof step, values);
}

/* ---- By name -------------------------------------------------------------------------------------------------------------------- */

static const qs__wire wires[] = {
    {"fp32", NULL, NULL, NULL}, {"bf16", bf16_bytes, bf16_encode, bf16_decode}, {"int8", int8_bytes, int8_encode, int8_decode}};
enum { WIRES = sizeof wires / sizeof *wires };

const char *qs_comm_wire_at(size_t index) {
    return index < WIRES ? wires[index].name : NULL;
}

const qs__wire *qs__wire_named(const char *name) {
    for (size_t i = 0; i < WIRES; i++) {
        if (strcmp(wires[i].name, name) == 0) return wires[i].bytes ? &wires[i] : NULL;
    }
    return NULL;
}

bool qs__wire_gathers(const qs__wire *wire, int ranks) {
    const int64_t compressed = wire->bytes(QS__WIRE_BLOCK), plain = QS__WIRE_BLOCK * (int64_t)sizeof(float);
    return ranks * compressed <= compressed + plain;
}

int64_t qs_comm_wire_memory(const char *name, int ranks, int64_t count) {
    const qs__wire *wire = qs__wire_named(name);
    if (!wire || ranks < 2) return 0;
    if (qs__wire_gathers(wire, ranks)) return ranks * wire->bytes(count);
    return wire->bytes(count) + wire->bytes(count + ranks * (int64_t)QS__WIRE_BLOCK); /* parts are whole blocks */
}

int64_t qs__wire_blocks(int64_t most) {
    return most < QS__WIRE_BLOCK ? QS__WIRE_BLOCK : most / QS__WIRE_BLOCK * QS__WIRE_BLOCK;
}

/* ---- Sending and adding up -------------------------------------------------------------------------------------------------------- */

static int64_t block_of(int64_t left) {
    return left < QS__WIRE_BLOCK ? left : QS__WIRE_BLOCK;
}

/* Where nothing finite was sent, nothing is known of what was left out. The usual loop has no branch: vector code. */
static void residual_keep(int64_t count, const float *wanted, const float *sent, float inverse, float *restrict residual) {
    if (isfinite(qs_absmax_array(count, sent))) {
        for (int64_t i = 0; i < count; i++)
            residual[i] = (wanted[i] - sent[i]) * inverse;
        return;
    }
    for (int64_t i = 0; i < count; i++)
        if (isfinite(sent[i])) residual[i] = (wanted[i] - sent[i]) * inverse;
}

void qs__wire_pack(const qs__wire *wire, const float *values, float *residual, float unit, int64_t count, void *packed) {
    const qs_format *format = qs_format_of(wire->name);
    float wanted[QS__WIRE_BLOCK], sent[QS__WIRE_BLOCK];
    for (int64_t at = 0; at < count; at += QS__WIRE_BLOCK) {
        const int64_t length = block_of(count - at);
        char *to = (char *)packed + wire->bytes(at);
        for (int64_t i = 0; i < length; i++)
            wanted[i] = values[at + i] + residual[at + i] * unit;
        wire->encode(format, wanted, length, to);
        wire->decode(format, to, length, sent);
        residual_keep(length, wanted, sent, 1 / unit, residual + at);
    }
}

static void term_read(const qs__wire *wire, const qs_format *format, const qs__wire_term *term, int64_t at, int64_t length, float *values) {
    if (term->plain)
        memcpy(values, (const float *)term->data + at, (size_t)length * sizeof *values);
    else
        wire->decode(format, (const char *)term->data + wire->bytes(at), length, values);
}

void qs__wire_add(const qs__wire *wire, int terms, const qs__wire_term *term, int64_t count, float *into) {
    const qs_format *format = qs_format_of(wire->name);
    float sum[QS__WIRE_BLOCK], next[QS__WIRE_BLOCK];
    for (int64_t at = 0; at < count; at += QS__WIRE_BLOCK) {
        const int64_t length = block_of(count - at);
        term_read(wire, format, &term[0], at, length, sum);
        for (int t = 1; t < terms; t++) {
            term_read(wire, format, &term[t], at, length, next);
            for (int64_t i = 0; i < length; i++)
                sum[i] += next[i];
        }
        memcpy(into + at, sum, (size_t)length * sizeof *sum);
    }
}
