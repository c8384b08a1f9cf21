// SPDX-License-Identifier: Apache-2.0
/* Functions of one number and their derivatives, in fp32, within few last places: gelu, silu and tanh with one exponential and at most two
 * reciprocals an element, so that memory stays what they wait for, the others by CUDA's own functions. */
#include "cuda/elementwise_jobs.h"

#include "cuda/beside.cuh"
#include "cuda/logistic.cuh"
#include "cuda/stream.cuh"

#include <math.h>

/* Φ(x), Φ the distribution function of the standard normal distribution; `density` is e^(-x²/2). Φ(-a) e^(a²/2) is a polynomial in 1 / (1 +
 * 11/32 a), a >= 0, within 0.95 2^-24: the minimax fit of the device cpu. */
QS_CUDA_DEVICE float normal_below(float x, float density) {
    const float t = reciprocal(fmaf(fabsf(x), 0.34375f, 1.0f));
    float p = fmaf(t, -2.78546885e-2f, 1.44057766e-1f);
    p = fmaf(p, t, -2.72119910e-1f);
    p = fmaf(p, t, 1.91356003e-1f);
    p = fmaf(p, t, -3.95871550e-2f);
    p = fmaf(p, t, 1.12768434e-1f);
    p = fmaf(p, t, 1.16714455e-1f);
    p = fmaf(p, t, 1.37545601e-1f);
    p = fmaf(p, t, 1.37119502e-1f);
    const float tail = p * t * density;
    return x < 0 ? tail : 1.0f - tail;
}

struct gelu {
    static QS_CUDA_DEVICE_MEMBER float value(float x, const float *) {
        return x * normal_below(x, exponential(x * x * -0.5f));
    }
    static QS_CUDA_DEVICE_MEMBER float slope(float x, const float *) {
        const float e = exponential(x * x * -0.5f);
        return fmaf(x, e * 0.398942280f, normal_below(x, e)); /* 1 / sqrt(2π) */
    }
};

/* x s(2u), u = sqrt(2/π) (x + 0.044715 x³). Beyond 16 the sigmoid is 0 or 1 in fp32, and the cube of what is far beyond no number. */
struct gelu_by_tanh {
    static QS_CUDA_DEVICE_MEMBER float value(float x, const float *) {
        const float kept = fminf(fmaxf(x, -16.0f), 16.0f);
        return x * sigmoid(kept * fmaf(kept * kept, 0.0713548163f, 1.59576912f)).rising;
    }
    static QS_CUDA_DEVICE_MEMBER float slope(float x, const float *) {
        const float kept = fminf(fmaxf(x, -16.0f), 16.0f), square = kept * kept * 0.0713548163f;
        const sigmoid_pair s = sigmoid(kept * (square + 1.59576912f));
        return fmaf(x * (s.rising * s.falling), fmaf(square, 3.0f, 1.59576912f), s.rising);
    }
};

struct silu {
    static QS_CUDA_DEVICE_MEMBER float value(float x, const float *) {
        return x * sigmoid(x).rising;
    }
    static QS_CUDA_DEVICE_MEMBER float slope(float x, const float *) {
        const sigmoid_pair s = sigmoid(x);
        return fmaf(x, s.rising * s.falling, s.rising);
    }
};

/* Its derivative, 1 - tanh², is 4 s(2x) s(-2x). */
struct hyperbolic_tangent {
    static QS_CUDA_DEVICE_MEMBER float value(float x, const float *) {
        return tanhf(x);
    }
    static QS_CUDA_DEVICE_MEMBER float slope(float x, const float *) {
        const sigmoid_pair s = sigmoid(x * 2);
        return s.rising * s.falling * 4;
    }
};

/* The others, `c` their constants. */
#define CURVE(name, of_value, of_slope)                                     \
    struct name {                                                           \
        static QS_CUDA_DEVICE_MEMBER float value(float x, const float *c) { \
            (void)c;                                                        \
            return of_value;                                                \
        }                                                                   \
        static QS_CUDA_DEVICE_MEMBER float slope(float x, const float *c) { \
            (void)c, (void)x;                                               \
            return of_slope;                                                \
        }                                                                   \
    };

QS_CUDA_DEVICE float between(float x, float least, float most) {
    return x < least ? least : x > most ? most : x;
}

QS_CUDA_DEVICE float exact_sigmoid(float x) {
    return 1.0f / (1.0f + expf(-x));
}

/* tanh(log(1 + e^x)) by e = e^-|x|, and one less its square. */
QS_CUDA_DEVICE float mish_gate(float x, bool slope) {
    const float e = expf(-fabsf(x)), least = x > 0 ? 2 * e * e : 2.0f, most = x > 0 ? 1 + 2 * e : e * e + 2 * e;
    return slope ? least / (most + least) * ((most + most + least) / (most + least)) : most / (most + least);
}

CURVE(logistic, exact_sigmoid(x), exact_sigmoid(x) * exact_sigmoid(-x))
CURVE(hard_sigmoid, between(c[0] * x + c[1], 0, 1), (c[0] * x + c[1] > 0 && c[0] * x + c[1] < 1 ? c[0] : 0))
CURVE(hard_swish, (x <= -3 ? 0 : x >= 3 ? x : x * ((x + 3) / 6)), (x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 0.5f))
CURVE(leaky_relu, (x > 0 ? x : c[0] * x), (x > 0 ? 1 : c[0]))
CURVE(elu, (x > 0 ? x : c[0] * expm1f(x)), (x > 0 ? 1 : c[0] * expf(x)))
CURVE(celu, (x > 0 ? x : c[0] * expm1f(x / c[0])), (x > 0 ? 1 : expf(x / c[0])))
CURVE(selu, c[1] * (x > 0 ? x : c[0] * expm1f(x)), c[1] * (x > 0 ? 1 : c[0] * expf(x)))
CURVE(softplus, (x > 0 ? x : 0) + log1pf(expf(-fabsf(x))), exact_sigmoid(x))
CURVE(softsign, x / (1 + fabsf(x)), 1 / ((1 + fabsf(x)) * (1 + fabsf(x))))
CURVE(mish, x *mish_gate(x, false), mish_gate(x, false) + x * exact_sigmoid(x) * mish_gate(x, true))
CURVE(exponential_of, expf(x), expf(x))
CURVE(logarithm, logf(x), 1 / x)
CURVE(square_root, sqrtf(x), 0.5f / sqrtf(x))
CURVE(magnitude, fabsf(x), (float)((x > 0) - (x < 0)))
CURVE(error_function, erff(x), 1.12837917f * expf(-x * x)) /* 2 / sqrt(π) */
CURVE(inverse, 1 / x, -1 / (x * x))
CURVE(power_of, powf(x, c[0]), c[0] * powf(x, c[0] - 1))
CURVE(clipped, between(x, c[0], c[1]), (x > c[0] && x < c[1] ? 1.0f : 0.0f))

/* Behind the last element zeros are read, and are to stay zeros: what a function makes of them must not be seen. */
template <typename curve> QS_CUDA_DEVICE void forward(const qs__elementwise_job &job, int64_t taken = 0, uint32_t seen = 0) {
    for (int64_t i = taken + 8 * thread_number(); i < job.src.count; i += 8 * thread_count()) {
        float x[8];
        value_load8(job.src, i, x);
        QS_CUDA_UNROLL
        for (int k = 0; k < 8; k++)
            x[k] = i + k < job.src.count ? curve::value(x[k], job.constant) : 0;
        absmax_see8(job.absmax, seen, x);
        value_store8(job.dst, i, x);
    }
    absmax_deliver(job.absmax, job.dst.format, seen);
}

template <typename curve> QS_CUDA_DEVICE void backward(const qs__elementwise_job &job, int64_t taken = 0, uint32_t seen = 0) {
    for (int64_t i = taken + 8 * thread_number(); i < job.src.count; i += 8 * thread_count()) {
        float x[8], diff[8];
        value_load8(job.src, i, x);
        value_load8(job.diff, i, diff);
        QS_CUDA_UNROLL
        for (int k = 0; k < 8; k++)
            x[k] = i + k < job.src.count ? diff[k] * curve::slope(x[k], job.constant) : 0;
        absmax_see8(job.absmax, seen, x);
        value_store8(job.dst, i, x);
    }
    absmax_deliver(job.absmax, job.dst.format, seen);
}

/* Both as streams, where all operands are of one kind of 16 bits: of what a transformer has between each two of its products. */
template <typename curve> QS_CUDA_DEVICE void forward_stream(const qs__elementwise_job &job) {
    uint32_t seen = 0;
    int64_t taken = 0;
    with_half_kind(job.src.format.kind == job.dst.format.kind ? job.src.format.kind : QS__CUDA_FLOAT, [&](auto kind) {
        constexpr int KIND = decltype(kind)::value;
        taken = stream<KIND, KIND>(job.src, job.dst, [&](int64_t, float *x, uint32_t *code) {
            QS_CUDA_UNROLL
            for (int k = 0; k < 8; k++)
                x[k] = curve::value(x[k], job.constant);
            absmax_see8(job.absmax, seen, x);
            stream_codes<KIND>(job.dst.format, x, code);
        });
    });
    forward<curve>(job, taken, seen);
}

template <typename curve> QS_CUDA_DEVICE void backward_stream(const qs__elementwise_job &job) {
    const qs__cuda_values *const from[2] = {&job.src, &job.diff};
    uint32_t seen = 0;
    int64_t taken = 0;
    with_half_kind(stream_kind(from, job.dst), [&](auto kind) {
        constexpr int KIND = decltype(kind)::value;
        taken = stream_of<KIND, KIND, 2>(from, job.dst, [&](int64_t, float(&x)[2][8], uint32_t *code) {
            QS_CUDA_UNROLL
            for (int k = 0; k < 8; k++)
                x[0][k] = x[1][k] * curve::slope(x[0][k], job.constant);
            absmax_see8(job.absmax, seen, x[0]);
            stream_codes<KIND>(job.dst.format, x[0], code);
        });
    });
    backward<curve>(job, taken, seen);
}

#define ACTIVATION_STREAM(name, curve)                                                      \
    QS_CUDA_RESIDENT(name, qs__elementwise_job, STREAM_THREADS, STREAM_BLOCKS) {            \
        forward_stream<curve>(job);                                                         \
    }                                                                                       \
    QS_CUDA_RESIDENT(name##_gradient, qs__elementwise_job, STREAM_THREADS, STREAM_BLOCKS) { \
        backward_stream<curve>(job);                                                        \
    }

#define ACTIVATION(name, curve)                            \
    QS_CUDA_GLOBAL(name, qs__elementwise_job) {            \
        forward<curve>(job);                               \
    }                                                      \
    QS_CUDA_GLOBAL(name##_gradient, qs__elementwise_job) { \
        backward<curve>(job);                              \
    }

ACTIVATION_STREAM(qs__gelu, gelu)
ACTIVATION_STREAM(qs__gelu_by_tanh, gelu_by_tanh)
ACTIVATION_STREAM(qs__silu, silu)
ACTIVATION(qs__tanh, hyperbolic_tangent)
ACTIVATION(qs__sigmoid, logistic)
ACTIVATION(qs__hard_sigmoid, hard_sigmoid)
ACTIVATION(qs__hard_swish, hard_swish)
ACTIVATION(qs__leaky_relu, leaky_relu)
ACTIVATION(qs__elu, elu)
ACTIVATION(qs__celu, celu)
ACTIVATION(qs__selu, selu)
ACTIVATION(qs__softplus, softplus)
ACTIVATION(qs__softsign, softsign)
ACTIVATION(qs__mish, mish)
ACTIVATION(qs__exp, exponential_of)
ACTIVATION(qs__log, logarithm)
ACTIVATION(qs__sqrt, square_root)
ACTIVATION(qs__abs, magnitude)
ACTIVATION(qs__erf, error_function)
ACTIVATION(qs__reciprocal, inverse)
ACTIVATION(qs__power, power_of)
ACTIVATION(qs__clip, clipped)

struct line {
    static QS_CUDA_DEVICE_MEMBER float value(float x, const float *c) {
        return c[0] * x + c[1];
    }
};

QS_CUDA_GLOBAL(qs__affine, qs__elementwise_job) {
    forward<line>(job);
}
