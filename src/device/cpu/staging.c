// SPDX-License-Identifier: Apache-2.0
/* Operands of our own kernels, see staging.h. */
#include "cpu/staging.h"

#include <string.h>

static bool is_native(const qs_format *format) {
    qs__type type = qs__cpu_type(format);
    return format->kind == QS_KIND_INTEGER || type == QS__FP32 || type == QS__BF16;
}

static bool is_written(const qs_case *one, int position) {
    return qs_pass_writes(one->pass, position);
}

static qs_status widen(const qs__chain *chain, const qs_run *run) {
    (void)run;
    const qs_case *one = &chain->one;
    for (int i = 0; i < one->operands; i++) {
        const qs_operand *operand = &one->operand[i];
        if (!operand->format || is_native(operand->format) || is_written(one, i)) continue;
        qs_convert_to_fp32(operand->format, qs_shape_count(&operand->shape), chain->data[i], (float *)(chain->scratch + chain->wide[i]));
    }
    return QS_OK;
}

static qs_status round_back(const qs__chain *chain, const qs_run *run) {
    (void)run;
    const qs_case *one = &chain->one;
    for (int i = 0; i < one->operands; i++) {
        const qs_operand *operand = &one->operand[i];
        if (!operand->format || is_native(operand->format) || !is_written(one, i)) continue;
        qs_convert_from_fp32(operand->format, QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, (qs_random_stream){0}, qs_shape_count(&operand->shape),
                             (const float *)(chain->scratch + chain->wide[i]), chain->data[i]);
    }
    return QS_OK;
}

/* ---- The largest magnitude of what was written ---- */

static bool has_absmax(const qs_case *one) {
    return qs_case_position(one, QS_ABSMAX) >= 0 && qs__case_has(one, QS_ABSMAX);
}

float *qs__staged_absmax(const qs__chain *chain, qs_role written) {
    if (!has_absmax(&chain->one) || !is_native(qs__case_format(&chain->one, written))) return NULL;
    float *absmax = qs__cpu_data(chain, QS_ABSMAX);
    *absmax = 0;
    return absmax;
}

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

void qs__staged_absmax_raise(float *absmax, uint32_t largest) {
    float found, known;
    if (!absmax) return;
    memcpy(&found, &largest, sizeof found);
    __atomic_load(absmax, &known, __ATOMIC_RELAXED);
    while (largest > bits_of(known) && !__atomic_compare_exchange(absmax, &known, &found, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

/* Behind round_back: its fp32 scratch takes the rounded values. */
static qs_status absmax_of_rounded(const qs__chain *chain, const qs_run *run) {
    (void)run;
    const qs_case *one = &chain->one;
    float *absmax = qs__cpu_data(chain, QS_ABSMAX);
    for (int i = 0; i < one->operands; i++) {
        const qs_operand *operand = &one->operand[i];
        if (!operand->format || is_native(operand->format) || !is_written(one, i)) continue;
        const int64_t count = qs_shape_count(&operand->shape);
        float *wide = (float *)(chain->scratch + chain->wide[i]);
        qs_convert_to_fp32(operand->format, count, chain->data[i], wide);
        *absmax = qs_absmax_array(count, wide);
    }
    return QS_OK;
}

qs_status qs__staged_build(qs__chain *chain, const char *family, qs__call call) {
    const qs_case *one = &chain->one;
    bool reads = false, writes = false;
    for (int i = 0; i < one->operands; i++) {
        const qs_operand *operand = &one->operand[i];
        if (!operand->format || is_native(operand->format)) continue;
        chain->wide[i] = qs__chain_reserve(chain, (size_t)qs_shape_count(&operand->shape) * sizeof(float));
        *(is_written(one, i) ? &writes : &reads) = true;
    }
    if (reads) qs__chain_call(chain, widen);
    qs__chain_call(chain, call);
    if (writes) qs__chain_call(chain, round_back);
    if (writes && has_absmax(one)) qs__chain_call(chain, absmax_of_rounded);
    snprintf(chain->name, sizeof chain->name, "own:%s:%s", family, chain->cpu->kernels->name);
    return QS_OK;
}

qs_status qs__moving_build(qs__chain *chain, qs__call call) {
    const qs_format *format = chain->one.operand[0].format;
    if (format->bits != 8 && format->bits != 16 && format->bits != 32)
        return qs_fail(QS_UNSUPPORTED, "values of %d bits are not moved one by one", format->bits);
    qs__chain_call(chain, call);
    snprintf(chain->name, sizeof chain->name, "own:%s", chain->one.op->name);
    return QS_OK;
}

static void *data_of(const qs__chain *chain, qs_role role, qs__type *type) {
    int position = qs_case_position(&chain->one, role);
    const qs_format *format = chain->one.operand[position].format;
    *type = format->kind == QS_KIND_INTEGER ? QS__INT8 : qs__cpu_type(format) == QS__BF16 ? QS__BF16 : QS__FP32;
    return is_native(format) ? chain->data[position] : chain->scratch + chain->wide[position];
}

qs__in qs__staged_in(const qs__chain *chain, qs_role role) {
    qs__in in;
    in.at = data_of(chain, role, &in.type);
    return in;
}

qs__out qs__staged_out(const qs__chain *chain, qs_role role) {
    qs__out out;
    out.at = data_of(chain, role, &out.type);
    return out;
}

qs__in qs__in_at(qs__in array, int64_t elements) {
    array.at = (const char *)array.at + elements * (int64_t)qs__type_bytes(array.type);
    return array;
}

qs__out qs__out_at(qs__out array, int64_t elements) {
    array.at = (char *)array.at + elements * (int64_t)qs__type_bytes(array.type);
    return array;
}

const float *qs__staged_row(const qs__cpu_kernels *kernels, qs__in from, int64_t count, float *room) {
    if (from.type == QS__FP32) return from.at;
    kernels->matmul_read(count, from, room);
    return room;
}

void qs__staged_row_write(int64_t count, const float *values, qs__out to) {
    if (to.type != QS__FP32)
        qs_convert_from_fp32(qs_format_of("bf16"), QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, (qs_random_stream){0}, count, values, to.at);
    else if (to.at != values)
        memcpy(to.at, values, (size_t)count * sizeof *values);
}

qs__rows qs__rows_of(const qs_case *one, qs_role role) {
    const qs_shape *shape = &qs__case_operand(one, role)->shape;
    return (qs__rows){.rows = qs_shape_count(shape) / shape->dim[1], .channels = shape->dim[1]};
}
