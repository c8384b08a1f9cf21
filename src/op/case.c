// SPDX-License-Identifier: Apache-2.0
/* Cases: making and binding them, their cost in operations and bytes, their random counters, and running the reference. */
#include "internal.h"

#include <assert.h>
#include <string.h>

qs_case qs_case_make(const char *op, const char *pass, const qs_attributes *attributes) {
    qs_case one = {.op = qs_op_of(op)};
    one.pass = qs_op_pass(one.op, pass);
    assert(one.pass && "unknown pass");
    if (attributes) one.attributes = *attributes;
    qs_attributes_complete(one.op, &one.attributes);
    one.operands = one.pass->roles;
    for (int i = 0; i < one.operands; i++) {
        one.operand[i].role = one.pass->role[i];
    }
    return one;
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
        if (operand->format) bytes += (double)qs_tensor_bytes(&operand->shape, operand->format);
    }
    return bytes;
}

qs_random_rows qs_op_random_rows(const qs_case *one, const qs_run *run) {
    const qs_shape *shape = &one->operand[0].shape;
    qs_random_rows rows = {.rows = 1, .per_row = qs_shape_count(shape)};
    rows.key = qs_random_key(run->seed, run->step, run->operator_id, run->stream);
    if (one->attributes.batched || one->attributes.per_channel) {
        rows.rows = shape->dim[0];
        rows.per_row /= rows.rows;
    }
    bool rounds = strcmp(one->op->name, "dropout") != 0;
    rows.stride = (uint64_t)rows.per_row + (rounds ? (uint64_t)rows.per_row & 1u : 0u);
    if (one->attributes.batched) rows.first = (uint64_t)run->first_sample * rows.stride;
    return rows;
}

qs_status qs_case_reference(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    return one->pass->reference(one, operands, run);
}
