// SPDX-License-Identifier: Apache-2.0
/* Optimisers, and clipping before them. Every operation is fp32 and rounded, as the files of op have it: the same bits. */
#include "cuda/update_jobs.h"
#include "cuda/values.cuh"

struct values4 {
    float x[4];
};

/* Four of an array of `count` from i on, a multiple of 4; zeros behind its end, which are not stored. */
QS_CUDA_DEVICE values4 load4(uint64_t at, int64_t i, int64_t count) {
    const float *from = pointer<const float>(at) + i;
    values4 out;
    if (i + 4 <= count) {
        const packet<4> in = packet_load<4>(from);
        memcpy(&out, &in, sizeof out);
        return out;
    }
    QS_CUDA_UNROLL
    for (int j = 0; j < 4; j++)
        out.x[j] = i + j < count ? from[j] : 0.0f;
    return out;
}

QS_CUDA_DEVICE void store4(uint64_t at, int64_t i, int64_t count, const values4 &in) {
    float *to = pointer<float>(at) + i;
    if (i + 4 <= count) {
        packet<4> out;
        memcpy(&out, &in, sizeof out);
        packet_store(to, out);
        return;
    }
    QS_CUDA_UNROLL
    for (int j = 0; j < 4; j++)
        if (i + j < count) to[j] = in.x[j];
}

QS_CUDA_DEVICE bool is_off(uint64_t flag) {
    return flag && *pointer<const float>(flag) == 0.0f;
}

/* rule(term, gradient, weight, states): one element. */
template <int states, typename Rule> QS_CUDA_DEVICE void update_all(const qs__cuda_update_job &job, Rule rule) {
    if (is_off(job.flag)) return;
    for (int64_t i = 4 * thread_number(); i < job.count; i += 4 * thread_count()) {
        const values4 gradient = load4(job.gradient, i, job.count);
        values4 weights = load4(job.weights, i, job.count), state[states];
        QS_CUDA_UNROLL
        for (int s = 0; s < states; s++)
            state[s] = load4(job.state[s], i, job.count);
        QS_CUDA_UNROLL
        for (int j = 0; j < 4; j++) {
            float of_one[states];
            QS_CUDA_UNROLL
            for (int s = 0; s < states; s++)
                of_one[s] = state[s].x[j];
            rule(job.term, gradient.x[j], weights.x[j], of_one);
            QS_CUDA_UNROLL
            for (int s = 0; s < states; s++)
                state[s].x[j] = of_one[s];
        }
        store4(job.weights, i, job.count, weights);
        QS_CUDA_UNROLL
        for (int s = 0; s < states; s++)
            store4(job.state[s], i, job.count, state[s]);
    }
}

QS_CUDA_GLOBAL(sgd, qs__cuda_update_job) {
    enum { UNSCALE, MOMENTUM, DECAY, RATE };
    update_all<1>(job, [](const float *term, float gradient, float &weight, float *velocity) {
        const float step = gradient * term[UNSCALE] + term[DECAY] * weight;
        velocity[0] = term[MOMENTUM] * velocity[0] + step;
        weight = weight - term[RATE] * velocity[0];
    });
}

QS_CUDA_GLOBAL(nesterov, qs__cuda_update_job) {
    enum { UNSCALE, MOMENTUM, DECAY, RATE };
    update_all<1>(job, [](const float *term, float gradient, float &weight, float *velocity) {
        const float step = gradient * term[UNSCALE] + term[DECAY] * weight;
        velocity[0] = term[MOMENTUM] * velocity[0] + step;
        weight = weight - term[RATE] * (step + term[MOMENTUM] * velocity[0]);
    });
}

QS_CUDA_GLOBAL(adagrad, qs__cuda_update_job) {
    enum { UNSCALE, EPSILON, DECAY, RATE };
    update_all<1>(job, [](const float *term, float gradient, float &weight, float *squares) {
        const float step = gradient * term[UNSCALE] + term[DECAY] * weight;
        squares[0] = squares[0] + step * step;
        weight = weight - term[RATE] * (step / (sqrtf(squares[0]) + term[EPSILON]));
    });
}

QS_CUDA_DEVICE float normal(float x) {
    return fabsf(x) < 0x1p-126f ? 0.0f : x;
}

enum { UNSCALE, BETA1, REST1, BETA2, REST2, ROOT, EPSILON, STEP, DECAY };

/* adam_step of op/adam.h. */
QS_CUDA_DEVICE float adam_step(const float *term, float g, float *moment) {
    moment[0] = normal(term[BETA1] * moment[0] + term[REST1] * g);
    moment[1] = normal(term[BETA2] * moment[1] + term[REST2] * g * g);
    return term[STEP] * (moment[0] / (sqrtf(moment[1]) * term[ROOT] + term[EPSILON]));
}

QS_CUDA_GLOBAL(adam, qs__cuda_update_job) {
    update_all<2>(job, [](const float *term, float gradient, float &weight, float *moment) {
        weight = weight - (adam_step(term, gradient * term[UNSCALE], moment) + term[DECAY] * weight);
    });
}

QS_CUDA_GLOBAL(adam_l2, qs__cuda_update_job) {
    update_all<2>(job, [](const float *term, float gradient, float &weight, float *moment) {
        weight = weight - adam_step(term, gradient * term[UNSCALE] + term[DECAY] * weight, moment);
    });
}

/* qs_clip_norm_factor. */
QS_CUDA_DEVICE float clip_factor(double bound, double squares, double loss_scale) {
    const double norm = sqrt(squares) / loss_scale;
    return norm - norm == 0.0 && norm > bound ? (float)(bound / norm) : 1.0f;
}

QS_CUDA_GLOBAL(clip_scale, qs__cuda_clip_job) {
    if (is_off(job.flag)) return;
    const float factor = clip_factor(job.bound, *pointer<const double>(job.squares), job.loss_scale);
    if (!(factor < 1.0f)) return;
    for (int64_t i = 4 * thread_number(); i < job.count; i += 4 * thread_count()) {
        values4 x = load4(job.values, i, job.count);
        QS_CUDA_UNROLL
        for (int j = 0; j < 4; j++)
            x.x[j] *= factor;
        store4(job.values, i, job.count, x);
    }
}
