// SPDX-License-Identifier: Apache-2.0
/* relu, add, multiply, dropout, and other functions of two values: the reference's results bit for bit, but for slopes of quotients. A
 * thread takes eight elements, which are whole bytes in every format and one byte of a mask. */
#include "cuda/elementwise_jobs.h"

#include "cuda/beside.cuh"
#include "cuda/stream.cuh"

/* A thread's eights of elements. */
#define EACH_EIGHT(i, total) for (int64_t i = 8 * thread_number(); i < (total); i += 8 * thread_count())

/* A NaN is neither below 0 nor above a ceiling; where there is none, nothing is above. */
QS_CUDA_GLOBAL(qs__relu, qs__elementwise_job) {
    const float ceiling = relu_limit(job.ceiling);
    uint32_t seen = 0;
    EACH_EIGHT(i, job.src.count) {
        float x[8];
        uint32_t inside = 0;
        value_load8(job.src, i, x);
        QS_CUDA_UNROLL
        for (int k = 0; k < 8; k++) {
            const bool below = x[k] <= 0, above = x[k] >= ceiling;
            x[k] = below ? 0 : above ? ceiling : x[k];
            inside |= below || above ? 0 : 1u << k;
        }
        absmax_see8(job.absmax, seen, x);
        value_store8(job.dst, i, x);
        if (job.mask) pointer<uint8_t>(job.mask)[i / 8] = (uint8_t)inside; /* 0 behind the last element: so it was read */
    }
    absmax_deliver(job.absmax, job.dst.format, seen);
}

QS_CUDA_GLOBAL(qs__relu_gradient, qs__elementwise_job) {
    uint32_t seen = 0;
    EACH_EIGHT(i, job.diff.count) {
        float x[8];
        const uint32_t inside = pointer<const uint8_t>(job.mask)[i / 8];
        value_load8(job.diff, i, x);
        QS_CUDA_UNROLL
        for (int k = 0; k < 8; k++)
            x[k] = inside >> k & 1 ? x[k] : 0;
        absmax_see8(job.absmax, seen, x);
        value_store8(job.dst, i, x);
    }
    absmax_deliver(job.absmax, job.dst.format, seen);
}

/* Of a gradient in two parts, whose sum is rounded: what the mask lets pass keeps its code. */
QS_CUDA_RESIDENT(qs__relu_gradient_of_two, qs__elementwise_job, STREAM_THREADS, STREAM_BLOCKS) {
    const qs__cuda_values *const from[2] = {&job.diff, &job.diff2};
    const auto mask = [&](int64_t i) { return (uint32_t)pointer<const uint8_t>(job.mask)[i / 8]; };
    const auto sum = [&](float x[8], const float y[8], uint32_t inside) {
        QS_CUDA_UNROLL
        for (int k = 0; k < 8; k++)
            x[k] = inside >> k & 1 ? x[k] + y[k] : 0;
    };
    uint32_t seen = 0;
    int64_t taken = 0;
    with_half_kind(stream_kind(from, job.dst), [&](auto kind) {
        constexpr int KIND = decltype(kind)::value;
        taken = stream_beside<KIND, KIND, 2>(from, job.dst, mask, [&](int64_t, float(&x)[2][8], uint32_t *code, uint32_t inside) {
            sum(x[0], x[1], inside);
            absmax_see8(job.absmax, seen, x[0]);
            stream_codes<KIND>(job.dst.format, x[0], code);
        });
    });
    for (int64_t i = taken + 8 * thread_number(); i < job.dst.count; i += 8 * thread_count()) {
        float x[8], y[8];
        value_load8(job.diff, i, x);
        value_load8(job.diff2, i, y);
        sum(x, y, mask(i));
        absmax_see8(job.absmax, seen, x);
        value_store8(job.dst, i, x);
    }
    absmax_deliver(job.absmax, job.dst.format, seen);
}

template <typename Two> QS_CUDA_DEVICE void join(const qs__elementwise_job &job, Two two) {
    join_eights(
        job.src, [&](int64_t i, float y[8]) { value_load8(job.src2, i, y); }, job.dst, job.absmax, two);
}

QS_CUDA_GLOBAL(qs__add, qs__elementwise_job) {
    join(job, [](float x, float y) { return x + y; });
}

/* The relu is of the rounded sum. Behind the last element zeros are read, whose sum is none that passes. */
QS_CUDA_RESIDENT(qs__add_relu, qs__elementwise_job, STREAM_THREADS, STREAM_BLOCKS) {
    const qs__cuda_values *const from[2] = {&job.src, &job.src2};
    const float limit = relu_limit(job.ceiling);
    const uint32_t cap = code_of(job.dst.format, job.ceiling);
    uint32_t seen = 0;
    int64_t taken = 0;
    const auto relu = [&](int64_t i, float rounded[8], uint32_t code[8]) {
        const uint32_t inside = relu_behind8(limit, cap, rounded, code);
        absmax_see8(job.absmax, seen, rounded);
        if (job.mask) pointer<uint8_t>(job.mask)[i / 8] = (uint8_t)inside;
    };
    with_half_kind(stream_kind(from, job.dst), [&](auto kind) {
        constexpr int KIND = decltype(kind)::value;
        taken = stream_of<KIND, KIND, 2>(from, job.dst, [&](int64_t i, float(&x)[2][8], uint32_t *code) {
            QS_CUDA_UNROLL
            for (int k = 0; k < 8; k++)
                x[0][k] += x[1][k];
            stream_codes<KIND>(job.dst.format, x[0], code);
            values_of8_kind<KIND>(job.dst.format, code, x[0]);
            relu(i, x[0], code);
        });
    });
    for (int64_t i = taken + 8 * thread_number(); i < job.dst.count; i += 8 * thread_count()) {
        float x[8], y[8];
        uint32_t code[8];
        value_load8(job.src, i, x);
        value_load8(job.src2, i, y);
        QS_CUDA_UNROLL
        for (int k = 0; k < 8; k++)
            x[k] += y[k];
        codes_of8(job.dst.format, x, code);
        values_of8(job.dst.format, code, x);
        relu(i, x, code);
        code_store8(job.dst, i, code);
    }
    absmax_deliver(job.absmax, job.dst.format, seen);
}

QS_CUDA_GLOBAL(qs__multiply, qs__elementwise_job) {
    join(job, [](float x, float y) { return x * y; });
}

QS_CUDA_GLOBAL(qs__multiply_gradient, qs__elementwise_job) {
    EACH_EIGHT(i, job.src.count) {
        float x[8], y[8], diff[8];
        value_load8(job.src, i, x);
        value_load8(job.src2, i, y);
        value_load8(job.diff, i, diff);
        QS_CUDA_UNROLL
        for (int k = 0; k < 8; k++) {
            x[k] *= diff[k];
            y[k] *= diff[k];
        }
        value_store8(job.dst, i, y);
        value_store8(job.dst2, i, x);
    }
}

/* Functions of two numbers and their slopes. */
struct difference {
    static QS_CUDA_DEVICE_MEMBER float value(float a, float b) {
        return a - b;
    }
    static QS_CUDA_DEVICE_MEMBER void slopes(float, float, float *by_a, float *by_b) {
        *by_a = 1, *by_b = -1;
    }
};

struct quotient {
    static QS_CUDA_DEVICE_MEMBER float value(float a, float b) {
        return a / b;
    }
    static QS_CUDA_DEVICE_MEMBER void slopes(float a, float b, float *by_a, float *by_b) {
        *by_a = 1 / b, *by_b = -a / (b * b);
    }
};

struct smaller {
    static QS_CUDA_DEVICE_MEMBER float value(float a, float b) {
        return a < b || a != a ? a : b;
    }
    static QS_CUDA_DEVICE_MEMBER void slopes(float a, float b, float *by_a, float *by_b) {
        *by_a = a < b ? 1 : a == b ? 0.5f : 0, *by_b = a > b ? 1 : a == b ? 0.5f : 0;
    }
};

struct larger {
    static QS_CUDA_DEVICE_MEMBER float value(float a, float b) {
        return a > b || a != a ? a : b;
    }
    static QS_CUDA_DEVICE_MEMBER void slopes(float a, float b, float *by_a, float *by_b) {
        smaller::slopes(-a, -b, by_a, by_b);
    }
};

template <typename pair> QS_CUDA_DEVICE void pair_backward(const qs__elementwise_job &job) {
    EACH_EIGHT(i, job.src.count) {
        float x[8], y[8], diff[8];
        value_load8(job.src, i, x);
        value_load8(job.src2, i, y);
        value_load8(job.diff, i, diff);
        QS_CUDA_UNROLL
        for (int k = 0; k < 8; k++) {
            float by_a, by_b;
            pair::slopes(x[k], y[k], &by_a, &by_b);
            x[k] = diff[k] * by_a;
            y[k] = diff[k] * by_b;
        }
        value_store8(job.dst, i, x);
        value_store8(job.dst2, i, y);
    }
}

#define PAIR(name, pair)                                               \
    QS_CUDA_GLOBAL(name, qs__elementwise_job) {                        \
        join(job, [](float a, float b) { return pair::value(a, b); }); \
    }                                                                  \
    QS_CUDA_GLOBAL(name##_gradient, qs__elementwise_job) {             \
        pair_backward<pair>(job);                                      \
    }

PAIR(qs__subtract, difference)
PAIR(qs__divide, quotient)
PAIR(qs__minimum, smaller)
PAIR(qs__maximum, larger)

/* A scale that fp32 holds needs no double: the product of two floats is exact there and rounded once either way. */
QS_CUDA_DEVICE float scaled(float x, double scale) {
    const float single = (float)scale;
    return (double)single == scale ? x * single : (float)((double)x * scale);
}

QS_CUDA_DEVICE void drop8(const qs__dropout_job &job, int64_t i, float x[8]) {
    const uint64_t counter = job.first + (uint64_t)i, key = random_key_for(job.key, counter);
    const bool one_key = (uint32_t)counter <= UINT32_MAX - 7;
    QS_CUDA_UNROLL
    for (int k = 0; k < 8; k++) {
        const uint64_t mine = one_key ? key : random_key_for(job.key, counter + (uint64_t)k);
        const uint32_t draw = random_hash((uint32_t)mine, (uint32_t)(mine >> 32), (uint32_t)counter + (uint32_t)k);
        x[k] = draw >= job.least ? scaled(x[k], job.scale) : 0;
    }
}

QS_CUDA_RESIDENT(qs__dropout, qs__dropout_job, STREAM_THREADS, STREAM_BLOCKS) {
    int64_t taken = 0;
    with_half_kind(job.src.format.kind == job.dst.format.kind ? job.src.format.kind : QS__CUDA_FLOAT, [&](auto kind) {
        constexpr int KIND = decltype(kind)::value;
        taken = stream<KIND, KIND>(job.src, job.dst, [&](int64_t i, float *x, uint32_t *code) {
            drop8(job, i, x);
            stream_codes<KIND>(job.dst.format, x, code);
        });
    });
    for (int64_t i = taken + 8 * thread_number(); i < job.src.count; i += 8 * thread_count()) {
        float x[8];
        value_load8(job.src, i, x);
        drop8(job, i, x);
        value_store8(job.dst, i, x);
    }
}
