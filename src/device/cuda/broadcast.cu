// SPDX-License-Identifier: Apache-2.0
/* gate, gain, offset, prelu, expand, and the gradients of reductions: the reference's results bit for bit. A thread takes eight elements of
 * the value in memory order; what goes with them is eight neighbours, one element, or found one by one. */
#include "cuda/broadcast.cuh"

#include "cuda/beside.cuh"

/* y[k] of the part for the value's elements i ... i + 7. */
QS_CUDA_DEVICE void part_load8(const qs__broadcast_job &job, int64_t i, float y[8]) {
    const int last = job.view.axes - 1;
    const int64_t run = job.view.extent[last], step = job.view.step[last], row = i / run, c = i - row * run;
    if (job.beside == QS__BESIDE_EIGHT) {
        value_load8(job.part, part_of_row(job.view, last, row) + c, y);
    } else if (job.beside == QS__BESIDE_ONE) {
        const float one = value_load(job.part, part_of_row(job.view, last, row));
        QS_CUDA_UNROLL
        for (int k = 0; k < 8; k++)
            y[k] = one;
    } else {
        int64_t on = c, in = row, first = part_of_row(job.view, last, row), at[8];
        QS_CUDA_UNROLL
        for (int k = 0; k < 8; k++) {
            at[k] = i + k < job.dst.count ? first + on * step : -1;
            y[k] = 0;
            if (++on < run) continue;
            on = 0;
            first = part_of_row(job.view, last, ++in);
        }
        value_gather8(job.part, at, y);
    }
}

template <typename Two> QS_CUDA_DEVICE void join(const qs__broadcast_job &job, Two two) {
    join_eights(job.src, [&](int64_t i, float y[8]) { part_load8(job, i, y); }, job.dst, job.absmax, two);
}

QS_CUDA_GLOBAL(qs__gate, qs__broadcast_job) {
    join(job, [](float x, float y) { return x * y; });
}

QS_CUDA_GLOBAL(qs__offset, qs__broadcast_job) {
    join(job, [](float x, float y) { return x + y; });
}

QS_CUDA_GLOBAL(qs__prelu, qs__broadcast_job) {
    join(job, [](float x, float slope) { return x > 0 ? x : slope * x; });
}

/* A divisor that fp32 holds needs no double: a quotient of two floats lies nowhere so near the middle between two others that rounding it
 * to double first would matter. */
QS_CUDA_GLOBAL(qs__repeat, qs__broadcast_job) {
    const float single = (float)job.divisor;
    const bool short_one = (double)single == job.divisor;
    for (int64_t i = 8 * thread_number(); i < job.dst.count; i += 8 * thread_count()) {
        float y[8];
        part_load8(job, i, y);
        if (job.divisor != 1) {
            QS_CUDA_UNROLL
            for (int k = 0; k < 8; k++)
                y[k] = short_one ? y[k] / single : (float)((double)y[k] / job.divisor);
        }
        value_store8(job.dst, i, y);
    }
}

/* dst is the part's element where the value has its largest one, else 0. */
QS_CUDA_GLOBAL(qs__largest_gradient, qs__broadcast_job) {
    const uint32_t *const places = pointer<const uint32_t>(job.place);
    for (int64_t i = 8 * thread_number(); i < job.dst.count; i += 8 * thread_count()) {
        const int64_t row = i / job.inside;
        int64_t c = i - row * job.inside, batch = row / job.repeated, r = row - batch * job.repeated;
        uint32_t place[8];
        int64_t from[8];
        float y[8];
        if (job.beside == QS__BESIDE_EIGHT) {
            const packet<4> low = packet_load<4>(places + batch * job.inside + c),
                            high = packet_load<4>(places + batch * job.inside + c + 4);
            memcpy(place, &low, sizeof low);
            memcpy(place + 4, &high, sizeof high);
        }
        QS_CUDA_UNROLL
        for (int k = 0; k < 8; k++) {
            const int64_t at = batch * job.inside + c;
            if (job.beside != QS__BESIDE_EIGHT)
                place[k] = i + k < job.dst.count ? places[at] : ~(uint32_t)r; /* none behind the last element */
            from[k] = place[k] == (uint32_t)r ? at : -1;
            y[k] = 0;
            if (++c < job.inside) continue;
            c = 0;
            if (++r < job.repeated) continue;
            r = 0;
            batch++;
        }
        value_gather8(job.part, from, y);
        value_store8(job.dst, i, y);
    }
}
