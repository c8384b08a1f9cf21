// SPDX-License-Identifier: Apache-2.0
/* Values of which a thread takes eight where rows are made of eights, else one (qs__cuda_each). */
#ifndef QSYNC_DEVICE_CUDA_EACH_CUH
#define QSYNC_DEVICE_CUDA_EACH_CUH

#include "cuda/values.cuh"

/* Calls `use` with the kind of a format that is common, else with constant<ANY_KIND>: loops of several loads that are to be on their way at
 * once have no branches between them. */
constexpr int ANY_KIND = -1;
template <typename Use> QS_CUDA_DEVICE void with_common_kind(int kind, Use use) {
    switch (kind) {
    case QS__CUDA_FP32:
        return use(constant<QS__CUDA_FP32>());
    case QS__CUDA_BF16:
        return use(constant<QS__CUDA_BF16>());
    case QS__CUDA_FP16:
        return use(constant<QS__CUDA_FP16>());
    default:
        return use(constant<ANY_KIND>());
    }
}

/* The kind of two formats, or of three, that have one; ANY_KIND where they differ. */
QS_CUDA_DEVICE int common_kind(const qs__cuda_format &a, const qs__cuda_format &b) {
    return a.kind == b.kind ? a.kind : ANY_KIND;
}

QS_CUDA_DEVICE int common_kind(const qs__cuda_format &a, const qs__cuda_format &b, const qs__cuda_format &c) {
    return b.kind == c.kind ? common_kind(a, b) : ANY_KIND;
}

/* Where rows are made of eights there are no others: i and v.count are multiples of `each`. */
template <int each, int kind> QS_CUDA_DEVICE void load_kind(const qs__cuda_values &v, int64_t i, float x[each]) {
    if constexpr (each == 8 && kind != ANY_KIND) {
        uint32_t code[8];
        whole_load8<kind>(v, i, code);
        values_of8_kind<kind>(v.format, code, x);
    } else if constexpr (each == 8) {
        value_load8(v, i, x);
    } else {
        x[0] = value_load(v, i);
    }
}

/* i is a multiple of `each`. */
template <int each> QS_CUDA_DEVICE void load_each(const qs__cuda_values &v, int64_t i, float x[each]) {
    if constexpr (each == 8)
        value_load8(v, i, x);
    else
        x[0] = value_load(v, i);
}

template <int each> QS_CUDA_DEVICE void store_each(const qs__cuda_values &v, int64_t i, const float x[each]) {
    if constexpr (each == 8)
        value_store8(v, i, x);
    else
        value_store(v, i, x[0]);
}

/* The same of fp32 that is no operand, whole eights always. */
template <int each> QS_CUDA_DEVICE void load_floats(uint64_t at, int64_t i, float x[each]) {
    const float *const from = pointer<const float>(at) + i;
    if constexpr (each == 8) {
        const packet<4> low = packet_load<4>(from), high = packet_load<4>(from + 4);
        memcpy(x, &low, sizeof low);
        memcpy(x + 4, &high, sizeof high);
    } else {
        x[0] = from[0];
    }
}

template <int each> QS_CUDA_DEVICE void store_floats(uint64_t at, int64_t i, const float x[each]) {
    float *const to = pointer<float>(at) + i;
    if constexpr (each == 8) {
        packet<4> low, high;
        memcpy(&low, x, sizeof low);
        memcpy(&high, x + 4, sizeof high);
        packet_store(to, low);
        packet_store(to + 4, high);
    } else {
        to[0] = x[0];
    }
}

/* And of bytes. */
template <int each> QS_CUDA_DEVICE void load_bytes(uint64_t at, int64_t i, uint8_t x[each]) {
    if constexpr (each == 8) {
        const packet<2> in = packet_load<2>(pointer<const uint8_t>(at) + i);
        memcpy(x, &in, sizeof in);
    } else {
        x[0] = pointer<const uint8_t>(at)[i];
    }
}

template <int each> QS_CUDA_DEVICE void store_bytes(uint64_t at, int64_t i, const uint8_t x[each]) {
    if constexpr (each == 8) {
        packet<2> out;
        memcpy(&out, x, sizeof out);
        packet_store(pointer<uint8_t>(at) + i, out);
    } else {
        pointer<uint8_t>(at)[i] = x[0];
    }
}

#endif
