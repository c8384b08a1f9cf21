// SPDX-License-Identifier: Apache-2.0
/* Norms of every position by itself: layer norms of every kind, and RMS norms, which have no mean and no shift.
 *
 * Where a row is short and its channels come in eights, lanes of a warp, backward of several, hold it in registers: it is read once. Spreads are
 * those of distances from the mean, which is known by then: nothing cancels. Other rows are a block's: it finds what belongs to a row, and
 * then every value is taken once more in memory order, where eight values fill whole bytes of a mask or of any format.
 *
 * Gradients of parameters are sums over rows: each lane adds up to 64 rows in fp32, blocks are added in double, in order. */
#include "cuda/norm.cuh"
#include "cuda/rows.cuh"

/* ---- A row in registers -------------------------------------------------------------------------------------------------------------------- */

struct row_statistics {
    float mean, spread, inverse;
};

QS_CUDA_DEVICE float row_inverse(const qs__norm_rule &rule, float spread) {
    const float more = spread + (float)rule.epsilon;
    return rule.variance ? 1.0f / sqrtf(more) : 1.0f / more;
}

template <int VECTORS>
QS_CUDA_DEVICE row_statistics statistics_of(const row_lanes &on, const qs__norm_rule &rule, const float x[VECTORS][8]) {
    const float channels = (float)on.channels;
    row_statistics out = {};
    float sum = 0, spread = 0;
    if (rule.centred) {
        QS_CUDA_UNROLL
        for (int v = 0; v < VECTORS; v++)
            QS_CUDA_UNROLL
        for (int k = 0; k < 8; k++)
            sum += x[v][k];
        out.mean = on.sum(sum) / channels;
    }
    QS_CUDA_UNROLL
    for (int v = 0; v < VECTORS; v++) {
        if (on.channel(v) >= on.channels) continue;
        QS_CUDA_UNROLL
        for (int k = 0; k < 8; k++) {
            const float distance = x[v][k] - out.mean;
            spread += rule.absolute ? fabsf(distance) : distance * distance;
        }
    }
    out.spread = on.sum(spread) / channels;
    out.inverse = row_inverse(rule, out.spread);
    return out;
}

template <int KIND, int VECTORS, bool RELU> QS_CUDA_DEVICE void rows_forward(const qs__layer_job &job) {
    const qs__cuda_values src = of_kind<KIND>(job.src);
    result_writer<KIND, RELU> out = writer_of<KIND, RELU>(job.dst, job.behind);
    const row_lanes on = row_lanes_of(job.lanes, job.channels);
    const int64_t rows = thread_count() / job.lanes, of_warp = WARP / job.lanes;
    for (int64_t first = thread_number() / WARP * of_warp; first < job.rows; first += rows) {
        const int64_t row = first + (int)threadIdx.x % WARP / job.lanes;
        const bool there = row < job.rows;
        float x[VECTORS][8];
        row_read<VECTORS>(on, src, row * job.channels, there, x);
        const row_statistics of = statistics_of<VECTORS>(on, job.rule, x);
        if (!there) continue;
        if (job.mean && on.lane == 0) {
            pointer<float>(job.mean)[row] = of.mean;
            pointer<float>(job.spread)[row] = of.spread;
        }
        QS_CUDA_UNROLL
        for (int v = 0; v < VECTORS; v++) {
            float scale[8], shift[8] = {}; /* from the cache: registers are for more rows on their way */
            if (on.channel(v) >= job.channels) continue;
            floats8(job.scale, on.channel(v), scale);
            if (job.shift) floats8(job.shift, on.channel(v), shift);
            QS_CUDA_UNROLL
            for (int k = 0; k < 8; k++)
                x[v][k] = __fmaf_rn((x[v][k] - of.mean) * of.inverse, scale[k], shift[k]);
            out.put(row * job.channels + on.channel(v), x[v]);
        }
    }
    out.finish();
}

template <int VECTORS, bool RELU> QS_CUDA_DEVICE void rows_forward_known(const qs__layer_job &job) {
    switch (job.src.format.kind) {
    case QS__CUDA_FP32:
        return rows_forward<QS__CUDA_FP32, VECTORS, RELU>(job);
    case QS__CUDA_BF16:
        return rows_forward<QS__CUDA_BF16, VECTORS, RELU>(job);
    default:
        return rows_forward<QS__CUDA_FP16, VECTORS, RELU>(job);
    }
}

#define ROWS_FORWARD(vectors)                                       \
    QS_CUDA_GLOBAL(layer_norm_rows_##vectors, qs__layer_job) {      \
        rows_forward_known<vectors, false>(job);                    \
    }                                                               \
    QS_CUDA_GLOBAL(layer_norm_rows_relu_##vectors, qs__layer_job) { \
        rows_forward_known<vectors, true>(job);                     \
    }
ROWS_FORWARD(1)
ROWS_FORWARD(2)
ROWS_FORWARD(3)
ROWS_FORWARD(4)

/* ---- Gradients of rows in registers: by several warps where a row is longer than one of them holds at eight channels a lane ----------- */

enum { ROW_WARPS = 8, ROW_SUMS = 3 }; /* of a block; of a row */

/* Shared memory of a block, the same for all formats. */
struct row_shared {
    float part[2][ROW_SUMS][ROW_WARPS]; /* sums of rows, by warps */
    float all[ROW_WARPS * WARP * 8];    /* what each row brought to each channel */
};

QS_CUDA_DEVICE row_shared &row_shared_of() {
    __shared__ row_shared shared;
    return shared;
}

/* Sums of a row over its warps: each leaves its own, in two places in turn, so that one barrier is enough. */
struct row_sums {
    float (*part)[ROW_SUMS][ROW_WARPS]; /* [2] */
    int first, warps;                   /* of the row */
    int turn;
    template <int COUNT> QS_CUDA_DEVICE_MEMBER void add_up(float x[COUNT]) {
        QS_CUDA_UNROLL
        for (int i = 0; i < COUNT; i++) {
            x[i] = warp_sum(x[i]);
            if (threadIdx.x % WARP == 0) part[turn][i][threadIdx.x / WARP] = x[i];
        }
        __syncthreads();
        QS_CUDA_UNROLL
        for (int i = 0; i < COUNT; i++) {
            x[i] = 0;
            for (int w = 0; w < warps; w++)
                x[i] += part[turn][i][first + w];
        }
        turn ^= 1;
    }
};

/* What the block's rows brought to each channel, added in order and written at [block][channel] of `to`. */
QS_CUDA_DEVICE void parameter_sums(float *all, int64_t channels, int group, int groups, int64_t channel, const float sum[8], float *to) {
    __syncthreads();
    if (channel < channels) {
        QS_CUDA_UNROLL
        for (int k = 0; k < 8; k++)
            all[group * channels + channel + k] = sum[k];
    }
    __syncthreads();
    for (int64_t c = threadIdx.x; c < channels; c += blockDim.x) {
        float total = 0;
        for (int g = 0; g < groups; g++)
            total += all[g * channels + c];
        to[(int64_t)blockIdx.x * channels + c] = total;
    }
}

/* What a thread reads of a row, as it lies in memory: so the next row is on its way while one is summed. */
template <int KIND> struct row_words {
    static constexpr int WORDS = 8 * bytes_of_kind<KIND> / 4;
    uint32_t x[WORDS] = {}, dy[WORDS] = {}, mask = 0xFF;
    float mean = 0, spread = 0;
    QS_CUDA_DEVICE_MEMBER void load(const qs__layer_gradient_job &job, int64_t row, int64_t channel) {
        const int64_t at = row * job.cut.channels + channel;
        if (row >= job.cut.rows || channel >= job.cut.channels) return;
        words_load<WORDS>(pointer<const uint8_t>(job.src.at) + at * bytes_of_kind<KIND>, x);
        words_load<WORDS>(pointer<const uint8_t>(job.diff_dst.at) + at * bytes_of_kind<KIND>, dy);
        if (job.mask) mask = pointer<const uint8_t>(job.mask)[at >> 3];
        if (!job.mean) return;
        mean = pointer<const float>(job.mean)[row];
        spread = pointer<const float>(job.spread)[row];
    }
};

/* A row belongs to job.lanes threads, of a warp or of several. */
template <int KIND, bool ABSOLUTE, bool WIDE> QS_CUDA_DEVICE void rows_gradient(const qs__layer_gradient_job &job) {
    row_shared &shared = row_shared_of();
    const int64_t rows = job.cut.rows, channels = job.cut.channels;
    const int groups = (int)blockDim.x / job.lanes, group = (int)threadIdx.x / job.lanes;
    const row_lanes on = row_lanes_of(job.lanes, channels);
    const int64_t channel = on.channel(0);
    const auto add_up = [&](row_sums *wide, float *x, auto count) {
        if constexpr (WIDE) {
            wide->add_up<decltype(count)::value>(x);
        } else {
            QS_CUDA_UNROLL
            for (int i = 0; i < decltype(count)::value; i++)
                x[i] = on.sum(x[i]);
        }
    };
    row_sums wide = {shared.part, (int)threadIdx.x / job.lanes * (job.lanes / WARP), job.lanes / WARP, 0};
    result_writer<KIND, false> out = gradient_writer<KIND>(job.diff_src, job.absmax);
    const int64_t step = (int64_t)gridDim.x * groups;
    constexpr bool EARLY = KIND != QS__CUDA_FP32; /* which has as many bytes on their way without */
    float scales[8] = {}, shifts[8] = {};
    row_words<KIND> next;
    if (EARLY) next.load(job, (int64_t)blockIdx.x * groups + group, channel);
    for (int64_t first = (int64_t)blockIdx.x * groups; first < rows; first += step) {
        const int64_t row = first + group;
        const bool there = row < rows && channel < channels;
        float x[8], dy[8], scale[8] = {}, of[ROW_SUMS] = {}, inverse = 0;
        row_words<KIND> now;
        if (EARLY) {
            now = next;
            next = row_words<KIND>();
            next.load(job, row + step, channel);
        } else {
            now.load(job, row, channel);
        }
        if (channel < channels) floats8(job.scale, channel, scale);
        stream_values<KIND, 8>(job.src.format, now.x, x);
        stream_values<KIND, 8>(job.diff_dst.format, now.dy, dy);
        QS_CUDA_UNROLL
        for (int k = 0; k < 8; k++)
            dy[k] = now.mask >> k & 1 ? dy[k] : 0;
        if (!job.mean) {
            QS_CUDA_UNROLL
            for (int k = 0; k < 8; k++)
                of[0] = __fmaf_rn(x[k], x[k], of[0]);
            add_up(&wide, of, constant<1>());
            inverse = row_inverse(job.rule, of[0] / (float)channels);
            of[0] = 0;
        } else if (there) {
            inverse = row_inverse(job.rule, now.spread);
        }
        QS_CUDA_UNROLL
        for (int k = 0; k < 8; k++) {
            const float n = there ? (x[k] - now.mean) * inverse : 0, g = dy[k] * scale[k];
            scales[k] = __fmaf_rn(dy[k], n, scales[k]);
            shifts[k] += dy[k];
            of[0] += g;
            of[1] = __fmaf_rn(g, n, of[1]);
            if (ABSOLUTE) of[2] += direction_of(true, n);
            x[k] = n;
            dy[k] = g;
        }
        add_up(&wide, of, constant<(ABSOLUTE ? ROW_SUMS : 2)>());
        if (!there) continue;
        const float sum = job.rule.centred ? of[0] / (float)channels : 0, product = of[1] / (float)channels;
        const float signs = ABSOLUTE ? of[2] / (float)channels : 0;
        QS_CUDA_UNROLL
        for (int k = 0; k < 8; k++)
            dy[k] = inverse * __fmaf_rn(signs - direction_of(ABSOLUTE, x[k]), product, dy[k] - sum);
        out.put(row * channels + channel, dy);
    }
    float *to = pointer<float>(job.sums);
    parameter_sums(shared.all, channels, group, groups, channel, scales, to);
    if (job.diff_shift) parameter_sums(shared.all, channels, group, groups, channel, shifts, to + gridDim.x * channels);
    out.finish();
}

template <bool ABSOLUTE, bool WIDE> QS_CUDA_DEVICE void rows_gradient_known(const qs__layer_gradient_job &job) {
    switch (job.src.format.kind) {
    case QS__CUDA_FP32:
        return rows_gradient<QS__CUDA_FP32, ABSOLUTE, WIDE>(job);
    case QS__CUDA_BF16:
        return rows_gradient<QS__CUDA_BF16, ABSOLUTE, WIDE>(job);
    default:
        return rows_gradient<QS__CUDA_FP16, ABSOLUTE, WIDE>(job);
    }
}

QS_CUDA_RESIDENT(layer_norm_gradient_rows, qs__layer_gradient_job, 256, 3) {
    if (job.lanes > WARP) return rows_gradient_known<false, true>(job);
    rows_gradient_known<false, false>(job);
}

QS_CUDA_GLOBAL(layer_norm_gradient_rows_absolute, qs__layer_gradient_job) {
    if (job.lanes > WARP) return rows_gradient_known<true, true>(job);
    rows_gradient_known<true, false>(job);
}

/* ---- A row by a block ------------------------------------------------------------------------------------------------------------------------- */

/* The exact mean of a row, and of what `term` makes of its values, for all threads; threads add in fp32, the block in double. */
template <typename Term> QS_CUDA_DEVICE double row_mean(const qs__cuda_values &src, int64_t first, int64_t channels, const Term &term) {
    float sum = 0;
    row_values(src, first, channels, [&](int64_t c, float x) { sum += term(c, x); });
    return block_sum((double)sum) / (double)channels;
}

struct row_of_block {
    float centre;
    double inverse, spread;
};

/* By its own values. The vectors of quantized norms are rounded as the fp32 numbers that they are, in units. */
QS_CUDA_DEVICE row_of_block row_find(const qs__norm_rule &rule, const qs__cuda_values &src, int64_t first, int64_t channels) {
    row_of_block out = {};
    if (rule.centred) out.centre = (float)row_mean(src, first, channels, [](int64_t, float x) { return x; });
    if (rule.quantized) out.centre = each_rounded(out.centre);
    const double units = row_mean(src, first, channels, [&](int64_t, float x) {
        const float distance = x - out.centre;
        return rule.absolute ? fabsf(distance) : distance * distance;
    });
    out.spread = rule.quantized ? (double)deviation_rounded((float)units) * step_of(rule) : units;
    out.inverse = inverse_of(rule, out.spread);
    return out;
}

QS_CUDA_GLOBAL(layer_norm_statistics, qs__layer_job) {
    if (job.behind.absmax && thread_number() == 0) *pointer<float>(job.behind.absmax) = 0;
    for (int64_t row = blockIdx.x; row < job.rows; row += gridDim.x) {
        const row_of_block of = row_find(job.rule, job.src, row * job.channels, job.channels);
        if (threadIdx.x > 0) continue;
        pointer<float>(job.centre)[row] = of.centre;
        pointer<float>(job.inverse)[row] = (float)(of.inverse * step_of(job.rule));
        if (!job.mean) continue;
        pointer<float>(job.mean)[row] = (float)((double)of.centre * step_of(job.rule));
        pointer<float>(job.spread)[row] = (float)of.spread;
    }
}

template <bool RELU> QS_CUDA_DEVICE void normalize_in_order(const qs__layer_job &job) {
    result_writer<ANY_KIND, RELU> out = writer_of<ANY_KIND, RELU>(job.dst, job.behind);
    const float *scale = pointer<const float>(job.scale), *shift = pointer<const float>(job.shift);
    for (int64_t at = 8 * thread_number(); at < job.dst.count; at += 8 * thread_count()) {
        row_walk walk = walk_from(at, job.channels);
        float y[8];
        value_load8(job.src, at, y);
        for (int k = 0; k < 8 && at + k < job.dst.count; k++) {
            y[k] = (y[k] - pointer<const float>(job.centre)[walk.row]) * pointer<const float>(job.inverse)[walk.row] * scale[walk.c];
            if (shift) y[k] += shift[walk.c];
            walk_on(&walk, job.channels);
        }
        out.put(at, y);
    }
    out.finish();
}

QS_CUDA_GLOBAL(layer_norm_normalize, qs__layer_job) {
    if (job.behind.relu) return normalize_in_order<true>(job);
    normalize_in_order<false>(job);
}

/* What the gradients of a row's values share. */
QS_CUDA_GLOBAL(layer_norm_gradient_statistics, qs__layer_gradient_job) {
    const int64_t channels = job.cut.channels;
    const double step = step_of(job.rule);
    if (job.absmax && thread_number() == 0) *pointer<float>(job.absmax) = 0;
    for (int64_t row = blockIdx.x; row < job.cut.rows; row += gridDim.x) {
        const int64_t first = row * channels;
        row_of_block of = {};
        if (job.mean) {
            of.centre = centre_of(job.rule, step, pointer<const float>(job.mean)[row]);
            of.inverse = inverse_of(job.rule, (double)pointer<const float>(job.spread)[row]);
        } else {
            of = row_find(job.rule, job.src, first, channels);
        }
        const float unit = (float)(of.inverse * step);
        const auto g = [&](int64_t c) {
            return through_mask(job.mask, first + c, value_load(job.diff_dst, first + c)) * pointer<const float>(job.scale)[c];
        };
        const double sum = job.rule.centred ? row_mean(job.src, first, channels, [&](int64_t c, float) { return g(c); }) : 0;
        const double product = row_mean(job.src, first, channels, [&](int64_t c, float x) { return g(c) * ((x - of.centre) * unit); });
        const double signs =
            job.rule.absolute ? row_mean(job.src, first, channels, [&](int64_t, float x) { return direction_of(true, x - of.centre); }) : 0;
        if (threadIdx.x > 0) continue;
        pointer<float>(job.centre)[row] = of.centre;
        pointer<float>(job.inverse)[row] = (float)of.inverse;
        pointer<float>(job.gradients)[row] = (float)sum;
        pointer<float>(job.products)[row] = (float)product;
        pointer<float>(job.signs)[row] = (float)signs;
    }
}

QS_CUDA_GLOBAL(layer_norm_gradient, qs__layer_gradient_job) {
    const int64_t channels = job.cut.channels;
    const float step = (float)step_of(job.rule);
    result_writer<ANY_KIND, false> out = gradient_writer<ANY_KIND>(job.diff_src, job.absmax);
    for (int64_t at = 8 * thread_number(); at < job.diff_src.count; at += 8 * thread_count()) {
        row_walk walk = walk_from(at, channels);
        float x[8], y[8];
        value_load8(job.src, at, x);
        value_load8(job.diff_dst, at, y);
        for (int k = 0; k < 8 && at + k < job.diff_src.count; k++) {
            const float g = through_mask(job.mask, at + k, y[k]) * pointer<const float>(job.scale)[walk.c];
            const float distance = x[k] - pointer<const float>(job.centre)[walk.row], inverse = pointer<const float>(job.inverse)[walk.row];
            const float direction =
                job.rule.absolute ? direction_of(true, distance) - pointer<const float>(job.signs)[walk.row] : distance * (inverse * step);
            y[k] = inverse * (g - pointer<const float>(job.gradients)[walk.row] - direction * pointer<const float>(job.products)[walk.row]);
            walk_on(&walk, channels);
        }
        out.put(at, y);
    }
    out.finish();
}

template <int WIDTH> QS_CUDA_DEVICE void slab_parameters(const qs__layer_gradient_job &job) {
    const column_place place = column_place_of(job.cut);
    const float step = (float)step_of(job.rule);
    column_sum *const scales = column_sums_of_block(), *const shifts = scales + WIDTH;
    int64_t row = place.row;
    column_sums_clear(scales);
    for (int64_t left = place.count; left > 0; left -= QS__COLUMN_CHUNK) {
        float scale[WIDTH] = {}, shift[WIDTH] = {};
        for (int r = 0; r < QS__COLUMN_CHUNK && r < left; r++, row += place.step) {
            const float centre = pointer<const float>(job.centre)[row], unit = pointer<const float>(job.inverse)[row] * step;
            const int64_t at = row * job.cut.channels + place.channel;
            float x[WIDTH], dy[WIDTH];
            load_each<WIDTH>(job.src, at, x);
            load_each<WIDTH>(job.diff_dst, at, dy);
            QS_CUDA_UNROLL
            for (int k = 0; k < WIDTH; k++) {
                const float passed = through_mask(job.mask, at + k, dy[k]);
                scale[k] += passed * ((x[k] - centre) * unit);
                shift[k] += passed;
            }
        }
        QS_CUDA_UNROLL
        for (int k = 0; k < WIDTH; k++) {
            column_sum_add(scales[k], (double)scale[k]);
            column_sum_add(shifts[k], (double)shift[k]);
        }
    }
    double *to = pointer<double>(job.sums);
    slab_sums<WIDTH>(job.cut, place, scales, to);
    if (job.diff_shift) slab_sums<WIDTH>(job.cut, place, shifts, to + job.cut.slabs * job.cut.channels);
}

QS_CUDA_GLOBAL(layer_norm_parameter_sums, qs__layer_gradient_job) {
    if (job.cut.width == 1) return slab_parameters<1>(job);
    slab_parameters<8>(job);
}

/* ---- Gradients of parameters --------------------------------------------------------------------------------------------------------------------- */

template <typename T> QS_CUDA_DEVICE void parameters_finish(const qs__layer_gradient_job &job) {
    const int lane = (int)threadIdx.x / QS__TOTAL_CHANNELS;
    const int64_t channels = job.cut.channels, c = (int64_t)blockIdx.x * QS__TOTAL_CHANNELS + threadIdx.x % QS__TOTAL_CHANNELS;
    const T *sums = pointer<const T>(job.sums);
    const double scale = slabs_total(job.cut, c, lane, sums);
    const double shift = job.diff_shift ? slabs_total(job.cut, c, lane, sums + job.cut.slabs * channels) : 0;
    if (lane > 0 || c >= channels) return;
    pointer<float>(job.diff_scale)[c] = (float)scale;
    if (job.diff_shift) pointer<float>(job.diff_shift)[c] = (float)shift;
}

QS_CUDA_GLOBAL(layer_norm_parameters, qs__layer_gradient_job) {
    if (job.warps) return parameters_finish<float>(job);
    parameters_finish<double>(job);
}

/* A parameter of a quantized norm: one block. */
QS_CUDA_GLOBAL(layer_norm_round, qs__norm_round_job) {
    const qs__norm_rule rule = {0, 0, 1, 0, 0, 0};
    const float step = vector_step_of(rule, job.from, job.channels);
    for (int64_t c = threadIdx.x; c < job.channels; c += blockDim.x)
        pointer<float>(job.to)[c] = (float)vector_at(rule, job.from, c, step);
}
