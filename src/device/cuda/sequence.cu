// SPDX-License-Identifier: Apache-2.0
/* Positions of sequences: learned ones, which are added, and rotary ones. */
#include "cuda/sequence_jobs.h"

#include "cuda/each.cuh"

#include <math.h>

QS_CUDA_GLOBAL(qs__positions, qs__positions_job) {
    const int place = job.place ? *pointer<const int>(job.place) : 0;
    if (place < 0 || place > job.last) {
        if (thread_number() == 0) complain(job.complaint, job.number, place, 0);
        return;
    }
    const int64_t before = place * job.channels;
    for (int64_t i = 8 * thread_number(); i < job.src.count; i += 8 * thread_count()) {
        float x[8], y[8];
        value_load8(job.src, i, x);
        if (job.channels % 8 == 0) {
            value_load8(job.table, before + i % job.sequence, y);
        } else {
            for (int k = 0; k < 8; k++)
                y[k] = value_load(job.table, before + (i + k) % job.sequence);
        }
        QS_CUDA_UNROLL
        for (int k = 0; k < 8; k++)
            x[k] += y[k];
        value_store8(job.dst, i, x);
    }
}

/* A thread takes a pair and QS__ROTARY_BLOCK positions. In double: an angle of thousands has few digits left in fp32. */
QS_CUDA_GLOBAL(qs__rotary_angles, qs__rotary_job) {
    const int64_t blocks = (job.positions + QS__ROTARY_BLOCK - 1) / QS__ROTARY_BLOCK;
    const int place = job.place ? *pointer<const int>(job.place) : 0;
    for (int64_t i = thread_number(); i < blocks * job.half; i += thread_count()) {
        const int64_t pair = i % job.half, first = i / job.half * QS__ROTARY_BLOCK, end = least(first + QS__ROTARY_BLOCK, job.positions);
        const double angle = pow(job.base, -(double)pair / (double)job.half), turn_x = cos(angle), turn_y = sin(angle);
        double x = cos((double)(place + first) * angle), y = sin((double)(place + first) * angle);
        for (int64_t l = first; l < end; l++) {
            const double next = x * turn_x - y * turn_y;
            pointer<float>(job.cosine)[l * job.half + pair] = (float)x;
            pointer<float>(job.sine)[l * job.half + pair] = (float)(job.sign * y);
            y = x * turn_y + y * turn_x;
            x = next;
        }
    }
}

template <int each> QS_CUDA_DEVICE void rotate(const qs__rotary_job &job) {
    const int64_t pieces = job.half / each;
    for (int64_t i = thread_number(); i < job.rows * job.heads * pieces; i += thread_count()) {
        const int64_t head = i / pieces, pair = i % pieces * each, row = head / job.heads; /* head: of all rows */
        const int64_t first = head * 2 * job.half + pair, second = first + job.half, angle = row % job.positions * job.half + pair;
        float x[each], y[each], cosine[each], sine[each];
        load_floats<each>(job.cosine, angle, cosine);
        load_floats<each>(job.sine, angle, sine);
        load_each<each>(job.from, first, x);
        load_each<each>(job.from, second, y);
        QS_CUDA_UNROLL
        for (int k = 0; k < each; k++) {
            const float turned = x[k] * cosine[k] - y[k] * sine[k];
            y[k] = y[k] * cosine[k] + x[k] * sine[k];
            x[k] = turned;
        }
        store_each<each>(job.to, first, x);
        store_each<each>(job.to, second, y);
    }
}

QS_CUDA_GLOBAL(qs__rotary, qs__rotary_job) {
    if (job.each == 8)
        rotate<8>(job);
    else
        rotate<1>(job);
}
