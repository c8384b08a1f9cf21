// SPDX-License-Identifier: Apache-2.0
/* Cases: making, binding and comparing them, their cost in operations and bytes, their random counters, and running the reference. */
#include "internal.h"

#include <assert.h>
#include <string.h>

qs_case qs_case_start(const qs_op *op, const qs_pass *pass, const qs_attributes *attributes) {
    qs_case one = {.op = op, .pass = pass};
    if (attributes) one.attributes = *attributes;
    qs_attributes_complete(one.op, &one.attributes);
    one.operands = one.pass->operands;
    for (int i = 0; i < one.operands; i++) {
        one.operand[i].role = one.pass->operand[i].role;
    }
    return one;
}

qs_case qs_case_make(const char *op, const char *pass, const qs_attributes *attributes) {
    const qs_op *known = qs_op_of(op);
    const qs_pass *found = qs_op_pass(known, pass);
    assert(found && "unknown pass");
    return qs_case_start(known, found, attributes);
}

static bool attributes_equal(const qs_attributes *a, const qs_attributes *b) {
    for (int i = 0; i < 2; i++)
        if (a->kernel[i] != b->kernel[i] || a->stride[i] != b->stride[i] || a->padding[i] != b->padding[i]) return false;
    return a->groups == b->groups && a->offset == b->offset && a->axis == b->axis && a->shifts == b->shifts && a->hadamard == b->hadamard &&
           a->epsilon == b->epsilon && a->momentum == b->momentum && a->probability == b->probability && a->ceiling == b->ceiling &&
           a->beta1 == b->beta1 && a->beta2 == b->beta2 && a->weight_decay == b->weight_decay && a->rounding == b->rounding &&
           a->overflow == b->overflow && a->to == b->to && a->batched == b->batched && a->relu == b->relu &&
           a->per_channel == b->per_channel && qs_narrow_equal(&a->accumulator, &b->accumulator);
}

bool qs_case_equal(const qs_case *a, const qs_case *b) {
    if (a->op != b->op || a->pass != b->pass || !attributes_equal(&a->attributes, &b->attributes)) return false;
    for (int i = 0; i < a->operands; i++) {
        const qs_operand *left = &a->operand[i], *right = &b->operand[i];
        if (left->format != right->format) return false;
        if (left->format && !qs_shape_equal(&left->shape, &right->shape)) return false;
    }
    return true;
}

/* One round of a multiplicative hash: the product spreads a word upwards, the shift brings it back down. */
static uint64_t fold(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 32;
}

uint64_t qs_case_hash(const qs_case *one) {
    const qs_attributes *with = &one->attributes;
    const qs_narrow *narrow = &with->accumulator;
    const int integer[] = {with->kernel[0],
                           with->kernel[1],
                           with->stride[0],
                           with->stride[1],
                           with->padding[0],
                           with->padding[1],
                           with->groups,
                           with->offset,
                           with->axis,
                           with->shifts,
                           with->hadamard,
                           (int)with->rounding,
                           (int)with->overflow,
                           with->relu,
                           with->batched,
                           with->per_channel,
                           0};
    const double number[] = {with->epsilon, with->momentum, with->probability, with->ceiling, with->beta1, with->beta2, with->weight_decay};
    uint64_t hash = fold((uint64_t)(uintptr_t)one->pass, (uint64_t)(uintptr_t)one->op);
    for (size_t i = 0; i + 1 < sizeof integer / sizeof *integer; i += 2)
        hash = fold(hash, (uint64_t)(uint32_t)integer[i] << 32 | (uint32_t)integer[i + 1]);
    for (size_t i = 0; i < sizeof number / sizeof *number; i++) {
        const double positive = number[i] + 0.0; /* no negative zero */
        uint64_t word;
        memcpy(&word, &positive, sizeof word);
        hash = fold(hash, word);
    }
    hash = fold(hash, (uint64_t)(uintptr_t)with->to);
    if (narrow->adder) {
        hash = fold(hash, (uint64_t)(uintptr_t)narrow->adder ^ (uint64_t)narrow->chunk);
        hash = fold(hash, (uint64_t)narrow->exponent_bits << 32 | (uint64_t)narrow->mantissa_bits << 16 | (uint64_t)narrow->product_bits);
    }
    for (int i = 0; i < one->operands; i++) {
        const qs_operand *operand = &one->operand[i];
        if (!operand->format) continue;
        hash = fold(hash, (uint64_t)(uintptr_t)operand->format + (uint64_t)i);
        for (int axis = 0; axis < operand->shape.axes; axis++)
            hash = fold(hash, (uint64_t)operand->shape.dim[axis]);
    }
    return hash;
}

int qs_case_position(const qs_case *one, qs_role role) {
    for (int i = 0; i < one->operands; i++) {
        if (one->operand[i].role == role) return i;
    }
    return -1;
}

void qs_case_bind(qs_case *one, qs_role role, qs_shape shape, const qs_format *format) {
    int position = qs_case_position(one, role);
    assert(position >= 0 && "the pass has no such operand");
    one->operand[position].shape = shape;
    one->operand[position].format = format;
}

double qs_case_flops(const qs_case *one) {
    return one->pass->flops ? one->pass->flops(one) : (double)qs_shape_count(&one->operand[0].shape);
}

double qs_case_bytes(const qs_case *one) {
    double bytes = 0;
    for (int i = 0; i < one->operands; i++) {
        const qs_operand *operand = &one->operand[i];
        const bool updated = one->op->optimizer && qs_pass_writes(one->pass, i);
        if (operand->format) bytes += (updated ? 2 : 1) * (double)qs_tensor_bytes(&operand->shape, operand->format);
    }
    return bytes;
}

qs_random_rows qs_op_random_rows(const qs_case *one, const qs_run *run) {
    const qs_shape *shape = &one->operand[0].shape;
    qs_random_rows rows = {.rows = 1, .per_row = qs_shape_count(shape)};
    rows.key = qs_random_key(run->seed, run->step, run->operator_id, run->stream);
    const bool by_row = (one->attributes.per_channel || one->attributes.hadamard > 0) && one->attributes.axis == 0;
    if (one->attributes.batched || by_row) {
        rows.rows = shape->dim[0];
        rows.per_row /= rows.rows;
    }
    const bool rounds = one->op->kind == QS_AUXILIARY; /* dropout does not */
    rows.stride = (uint64_t)rows.per_row + (rounds ? (uint64_t)rows.per_row & 1u : 0u);
    if (one->attributes.batched) rows.first = (uint64_t)run->first_sample * rows.stride;
    return rows;
}

qs_status qs_case_reference(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    return one->pass->reference(one, operands, run);
}
