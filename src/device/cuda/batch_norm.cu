// SPDX-License-Identifier: Apache-2.0
/* Batch norms of every kind. Forward reads src twice: sums of each channel, by slabs of rows and then all together, in double; then every
 * value once more. Backward the same of src and diff_dst. Sums go through memory backwards, values forwards: sums begin with what the kernel
 * before them wrote last, values with what the sums read last, as far as the cache still has it. Norms of groups (group_norm.cu) have the
 * same kernels, by sample, for all but totals.
 *
 * Moments of floats are one pass: a thread counts 64 values from their own first one, in fp32, and adds what they come to in double, where
 * the difference of mean square and squared mean loses nothing that matters. Its first value is one of those whose spread is sought: their
 * squares are at least as large as its distance from the mean, so what fp32 rounds off is little beside the spread, whatever the mean.
 * Sums over codes are whole numbers, or whole 2^-8, below 2^24 in 64 values, hence exact. */
#include "cuda/norm.cuh"

/* ---- Sums of slabs ----------------------------------------------------------------------------------------------------------------- */

/* What a thread has of the values of its channels: 64 rows of them at a time. */
template <int KIND, int WIDTH, int STAGE> QS_CUDA_DEVICE void slab_forward(const qs__batch_sums_job &job) {
    constexpr int TOGETHER = vectors_ahead<KIND>;
    const column_place place = column_place_of(job.cut);
    const qs__cuda_values src = of_kind<KIND>(job.src);
    auto [left, at, step] = walk_back(job.cut, place);
    column_sum *const total = column_sums_of_block(), *const squares = total + WIDTH;
    float centre[WIDTH] = {};
    column_sums_clear(total);
    if (STAGE == QS__BATCH_DISTANCES && left > 0) vector_floats<WIDTH>(job.centre, place.vector, centre);
    while (left > 0) {
        const int rows = (int)least<int64_t>(left, QS__COLUMN_CHUNK);
        float sum[WIDTH] = {}, square[WIDTH] = {};
        const auto take = [&](const float x[WIDTH]) {
            QS_CUDA_UNROLL
            for (int k = 0; k < WIDTH; k++) {
                const float distance = x[k] - centre[k];
                sum[k] += STAGE == QS__BATCH_DISTANCES ? fabsf(distance) : distance;
                if (STAGE == QS__BATCH_MOMENTS) square[k] = __fmaf_rn(distance, distance, square[k]);
            }
        };
        for (int row = 0; row < rows; row += TOGETHER) {
            float x[TOGETHER][WIDTH];
            QS_CUDA_UNROLL
            for (int r = 0; r < TOGETHER; r++) /* the last row instead of those behind it */
                load_each<WIDTH>(src, at + least(row + r, rows - 1) * step, x[r]);
            if (STAGE == QS__BATCH_MOMENTS && row == 0) {
                QS_CUDA_UNROLL
                for (int k = 0; k < WIDTH; k++)
                    centre[k] = x[0][k];
            }
            QS_CUDA_UNROLL
            for (int r = 0; r < TOGETHER; r++)
                if (row + r < rows) take(x[r]);
        }
        QS_CUDA_UNROLL
        for (int k = 0; k < WIDTH; k++) {
            const double first = (double)centre[k], of_rows = (double)sum[k];
            column_sum_add(total[k], STAGE == QS__BATCH_MOMENTS ? of_rows + first * rows : of_rows);
            if (STAGE == QS__BATCH_MOMENTS) column_sum_add(squares[k], (double)square[k] + first * (2 * of_rows + first * rows));
        }
        left -= rows;
        at += rows * step;
    }
    double *to = pointer<double>(job.sums);
    slab_sums<WIDTH>(job.cut, place, total, to);
    if (STAGE == QS__BATCH_MOMENTS) slab_sums<WIDTH>(job.cut, place, squares, to + job.cut.slabs * job.cut.channels);
}

QS_CUDA_RESIDENT(batch_norm_moments, qs__batch_sums_job, QS__COLUMN_THREADS, QS__COLUMN_BLOCKS) {
    if (job.cut.width == 1) return slab_forward<ANY_KIND, 1, QS__BATCH_MOMENTS>(job);
    with_common_kind(job.src.format.kind, [&](auto kind) { slab_forward<decltype(kind)::value, 8, QS__BATCH_MOMENTS>(job); });
}

QS_CUDA_GLOBAL(batch_norm_values, qs__batch_sums_job) {
    if (job.cut.width == 1) return slab_forward<ANY_KIND, 1, QS__BATCH_VALUES>(job);
    return slab_forward<ANY_KIND, 8, QS__BATCH_VALUES>(job);
}

QS_CUDA_GLOBAL(batch_norm_distances, qs__batch_sums_job) {
    if (job.cut.width == 1) return slab_forward<ANY_KIND, 1, QS__BATCH_DISTANCES>(job);
    return slab_forward<ANY_KIND, 8, QS__BATCH_DISTANCES>(job);
}

template <int KIND, int WIDTH> struct gradient_row {
    float x[WIDTH], dy[WIDTH];
    QS_CUDA_DEVICE_MEMBER void load(const qs__cuda_values &src, const qs__cuda_values &diff, uint64_t mask, int64_t at) {
        load_each<WIDTH>(src, at, x);
        load_each<WIDTH>(diff, at, dy);
        if (!mask) return;
        const uint32_t bits = pointer<const uint8_t>(mask)[at >> 3] >> (at & 7);
        QS_CUDA_UNROLL
        for (int k = 0; k < WIDTH; k++)
            dy[k] = bits >> k & 1 ? dy[k] : 0;
    }
};

template <int KIND, int WIDTH, bool ABSOLUTE> QS_CUDA_DEVICE void slab_gradient(const qs__batch_sums_job &job) {
    constexpr int TOGETHER = pairs_ahead<KIND>;
    const column_place place = column_place_of(job.cut);
    const qs__cuda_values src = of_kind<KIND>(job.src), diff = of_kind<KIND>(job.diff_dst);
    auto [left, at, step] = walk_back(job.cut, place);
    column_sum *const total = column_sums_of_block(), *const products = total + WIDTH;
    float centre[WIDTH] = {}, sign[WIDTH] = {}; /* whole numbers: exact */
    column_sums_clear(total);
    if (left > 0) vector_floats<WIDTH>(job.centre, place.vector, centre);
    if (job.rule.quantized) {
        const double unit = step_of(job.rule);
        QS_CUDA_UNROLL
        for (int k = 0; k < WIDTH; k++)
            centre[k] = centre_of(job.rule, unit, centre[k]);
    }
    while (left > 0) {
        const int rows = (int)least<int64_t>(left, QS__COLUMN_CHUNK);
        float sum[WIDTH] = {}, product[WIDTH] = {};
        const auto take = [&](const gradient_row<KIND, WIDTH> &of) {
            QS_CUDA_UNROLL
            for (int k = 0; k < WIDTH; k++) {
                const float distance = of.x[k] - centre[k];
                sum[k] += of.dy[k];
                product[k] = __fmaf_rn(of.dy[k], distance, product[k]);
                if (ABSOLUTE) sign[k] += direction_of(true, distance);
            }
        };
        for (int row = 0; row < rows; row += TOGETHER) {
            gradient_row<KIND, WIDTH> of[TOGETHER];
            QS_CUDA_UNROLL
            for (int r = 0; r < TOGETHER; r++)
                of[r].load(src, diff, job.mask, at + least(row + r, rows - 1) * step);
            QS_CUDA_UNROLL
            for (int r = 0; r < TOGETHER; r++)
                if (row + r < rows) take(of[r]);
        }
        QS_CUDA_UNROLL
        for (int k = 0; k < WIDTH; k++) {
            column_sum_add(total[k], (double)sum[k]);
            column_sum_add(products[k], (double)product[k]);
        }
        left -= rows;
        at += rows * step;
    }
    double *to = pointer<double>(job.sums);
    const int64_t each = job.cut.slabs * job.cut.channels;
    slab_sums<WIDTH>(job.cut, place, total, to);
    slab_sums<WIDTH>(job.cut, place, products, to + each);
    if (!ABSOLUTE) return;
    __syncthreads();
    QS_CUDA_UNROLL
    for (int k = 0; k < WIDTH; k++)
        total[k][threadIdx.x] = (double)sign[k];
    slab_sums<WIDTH>(job.cut, place, total, to + 2 * each);
}

QS_CUDA_RESIDENT(batch_norm_gradient_sums, qs__batch_sums_job, QS__COLUMN_THREADS, QS__COLUMN_BLOCKS) {
    if (job.cut.width == 1) return slab_gradient<ANY_KIND, 1, false>(job);
    with_common_kind(common_kind(job.src.format, job.diff_dst.format),
                     [&](auto kind) { slab_gradient<decltype(kind)::value, 8, false>(job); });
}

QS_CUDA_GLOBAL(batch_norm_gradient_sums_absolute, qs__batch_sums_job) {
    if (job.cut.width == 1) return slab_gradient<ANY_KIND, 1, true>(job);
    return slab_gradient<ANY_KIND, 8, true>(job);
}

/* ---- Statistics and terms of channels ----------------------------------------------------------------------------------------------- */

struct channel_statistics {
    double exact, spread;   /* mean in units, spread: not rounded */
    double centre, rounded; /* as they are used */
};

/* What training keeps of a channel, and the terms that its values are normalised by. */
QS_CUDA_DEVICE void channel_finish(const qs__batch_finish_job &job, int64_t c, const channel_statistics &of, double scale, double shift) {
    const double step = step_of(job.rule), rows = (double)job.cut.rows, unbias = job.rule.variance ? rows / (rows - 1) : 1;
    if (job.stage != QS__BATCH_RUNNING) {
        float *mean = pointer<float>(job.running_mean) + c, *spread = pointer<float>(job.running_spread) + c;
        *mean = (float)((1 - job.momentum) * (double)*mean + job.momentum * of.exact * step);
        *spread = (float)((1 - job.momentum) * (double)*spread + job.momentum * of.spread * unbias);
        pointer<float>(job.mean)[c] = (float)(of.centre * step);
        pointer<float>(job.spread)[c] = (float)of.rounded;
    }
    pointer<float>(job.centre)[c] = (float)of.centre;
    pointer<float>(job.factor)[c] = (float)(scale * (step * inverse_of(job.rule, of.rounded)));
    pointer<float>(job.offset)[c] = (float)shift;
}

/* Adds slabs up. What is not quantized is finished here; the others need all channels first (batch_norm_round). */
QS_CUDA_GLOBAL(batch_norm_finish, qs__batch_finish_job) {
    const int lane = (int)threadIdx.x / QS__TOTAL_CHANNELS;
    const int64_t channels = job.cut.channels, c = (int64_t)blockIdx.x * QS__TOTAL_CHANNELS + threadIdx.x % QS__TOTAL_CHANNELS;
    const double rows = (double)job.cut.rows, step = step_of(job.rule);
    const double *sums = pointer<const double>(job.sums);
    const double total = slabs_total(job.cut, c, lane, sums);
    const double squares = job.stage == QS__BATCH_MOMENTS ? slabs_total(job.cut, c, lane, sums + job.cut.slabs * channels) : 0;
    if (job.absmax && blockIdx.x == 0 && threadIdx.x == 0) *pointer<float>(job.absmax) = 0;
    if (lane > 0 || c >= channels) return;
    double *exact = pointer<double>(job.exact);
    channel_statistics of = {};
    if (job.stage == QS__BATCH_DISTANCES) {
        of.exact = exact[c];
        of.spread = total / rows * step;
    } else {
        const double variance = job.stage == QS__BATCH_MOMENTS ? (rows * squares - total * total) / (rows * rows) * step * step : 0;
        of.exact = total / rows;
        of.spread = variance < 0 ? 0 : variance;
        if (!job.rule.variance) of.spread = sqrt(of.spread);
    }
    exact[c] = of.exact;
    exact[channels + c] = of.spread;
    if (job.rule.quantized) return;
    of.centre = of.exact;
    of.rounded = of.spread;
    if (job.stage == QS__BATCH_VALUES)
        pointer<float>(job.centre)[c] = (float)of.exact;
    else
        channel_finish(job, c, of, (double)pointer<const float>(job.scale)[c], (double)pointer<const float>(job.shift)[c]);
}

/* Of running statistics, and of quantized norms, whose vectors are rounded with a step that all channels share: one block. */
QS_CUDA_GLOBAL(batch_norm_round, qs__batch_finish_job) {
    const int64_t channels = job.cut.channels;
    const qs__norm_rule &rule = job.rule;
    const bool running = job.stage == QS__BATCH_RUNNING;
    const double step = step_of(rule);
    const auto exact = [&](int64_t c) {
        return running ? (double)pointer<const float>(job.running_mean)[c] / step : pointer<const double>(job.exact)[c];
    };
    const auto spread = [&](int64_t c) {
        return running ? (double)pointer<const float>(job.running_spread)[c] : pointer<const double>(job.exact)[channels + c];
    };
    double most_mean = 0, most_spread = 0;
    for (int64_t c = threadIdx.x; c < channels; c += blockDim.x) {
        most_mean = largest(most_mean, fabs(exact(c)));
        most_spread = largest(most_spread, fabs(spread(c)));
    }
    const int shift = means_shift(block_max(most_mean));
    const float spread_step = vector_step(block_max(most_spread));
    const float scale_step = vector_step_of(rule, job.scale, channels), shift_step = vector_step_of(rule, job.shift, channels);
    for (int64_t c = threadIdx.x; c < channels; c += blockDim.x) {
        channel_statistics of = {exact(c), spread(c), exact(c), spread(c)};
        if (rule.quantized) {
            of.centre = mean_rounded(shift, of.exact);
            of.rounded = vector_rounded(spread_step, of.spread);
        }
        if (job.stage == QS__BATCH_VALUES)
            pointer<float>(job.centre)[c] = (float)of.centre;
        else
            channel_finish(job, c, of, vector_at(rule, job.scale, c, scale_step), vector_at(rule, job.shift, c, shift_step));
    }
}

/* With i = 1/σ, in units i step: diff_src = scale i (dy - Σdy/R - (x - mean) i² Σ(dy (x - mean))/R), where absolute norms have
 * sign(x - mean) less its mean for (x - mean) i; diff_scale = i Σ(dy (x - mean)), diff_shift = Σdy. */
QS_CUDA_GLOBAL(batch_norm_gradient_finish, qs__batch_gradient_finish_job) {
    const int lane = (int)threadIdx.x / QS__TOTAL_CHANNELS;
    const int64_t channels = job.cut.channels, c = (int64_t)blockIdx.x * QS__TOTAL_CHANNELS + threadIdx.x % QS__TOTAL_CHANNELS;
    const double rows = (double)job.cut.rows, step = step_of(job.rule);
    const double *sums = pointer<const double>(job.sums);
    const int64_t each = job.cut.slabs * channels;
    const double sum = slabs_total(job.cut, c, lane, sums), distances = slabs_total(job.cut, c, lane, sums + each);
    const double signs = job.rule.absolute ? slabs_total(job.cut, c, lane, sums + 2 * each) : 0;
    const float scale_step = vector_step_of(job.rule, job.scale, channels);
    if (job.absmax && blockIdx.x == 0 && threadIdx.x == 0) *pointer<float>(job.absmax) = 0;
    if (lane > 0 || c >= channels) return;
    const double inverse = inverse_of(job.rule, (double)pointer<const float>(job.spread)[c]), unit = inverse * step;
    const double product = distances * unit, scale = vector_at(job.rule, job.scale, c, scale_step);
    pointer<float>(job.diff_scale)[c] = (float)product;
    pointer<float>(job.diff_shift)[c] = (float)sum;
    pointer<float>(job.centre)[c] = centre_of(job.rule, step, pointer<const float>(job.mean)[c]);
    pointer<float>(job.factor)[c] = (float)(scale * inverse);
    pointer<float>(job.slope)[c] = (float)(scale * inverse * (job.rule.absolute ? product / rows : product * unit / rows));
    pointer<float>(job.offset)[c] = (float)(scale * inverse * (job.rule.absolute ? (sum - product * (signs / rows)) / rows : sum / rows));
}

/* ---- Every value once more --------------------------------------------------------------------------------------------------------------- */

/* SUM: something is added, before the one rounding. */
template <int KIND, bool RELU, bool SUM> QS_CUDA_DEVICE void normalize_columns(const qs__batch_apply_job &job) {
    constexpr int TOGETHER = SUM ? pairs_ahead<KIND> : vectors_ahead<KIND>;
    const column_place place = column_place_of(job.cut);
    const qs__cuda_values src = of_kind<KIND>(job.src), src2 = of_kind<KIND>(job.src2);
    result_writer<KIND, RELU> out = writer_of<KIND, RELU>(job.dst, job.behind);
    auto [left, at, step] = walk_forth(job.cut, place);
    float centre[8] = {}, factor[8] = {}, offset[8] = {};
    if (left > 0) {
        floats8(job.centre, place.vector, centre);
        floats8(job.factor, place.vector, factor);
        floats8(job.offset, place.vector, offset);
    }
    const auto put = [&](const float x[8], const float more[8], int64_t to) {
        float y[8];
        QS_CUDA_UNROLL
        for (int k = 0; k < 8; k++) {
            y[k] = __fmaf_rn(x[k] - centre[k], factor[k], offset[k]);
            if constexpr (SUM) y[k] += more[k];
        }
        out.put(to, y);
    };
    for (; left > 0; left -= TOGETHER, at += TOGETHER * step) {
        float x[TOGETHER][8], more[TOGETHER][8];
        QS_CUDA_UNROLL
        for (int r = 0; r < TOGETHER; r++) {
            const int64_t from = at + least<int64_t>(r, left - 1) * step;
            value_load8(src, from, x[r]);
            if constexpr (SUM) value_load8(src2, from, more[r]);
        }
        QS_CUDA_UNROLL
        for (int r = 0; r < TOGETHER; r++)
            if (r < left) put(x[r], more[r], at + r * step);
    }
    out.finish();
}

template <bool RELU> QS_CUDA_DEVICE void normalize_known(const qs__batch_apply_job &job) {
    with_common_kind(common_kind(job.src.format, job.dst.format),
                     [&](auto kind) { normalize_columns<decltype(kind)::value, RELU, false>(job); });
}

template <bool RELU> QS_CUDA_DEVICE void normalize_sum(const qs__batch_apply_job &job) {
    with_common_kind(common_kind(job.src.format, job.src2.format, job.dst.format),
                     [&](auto kind) { normalize_columns<decltype(kind)::value, RELU, true>(job); });
}

QS_CUDA_RESIDENT(batch_norm_normalize, qs__batch_apply_job, QS__COLUMN_THREADS, QS__COLUMN_BLOCKS) {
    normalize_known<false>(job);
}

QS_CUDA_RESIDENT(batch_norm_normalize_relu, qs__batch_apply_job, QS__COLUMN_THREADS, QS__COLUMN_BLOCKS) {
    normalize_known<true>(job);
}

QS_CUDA_RESIDENT(batch_norm_normalize_sum, qs__batch_apply_job, QS__COLUMN_THREADS, QS__COLUMN_BLOCKS) {
    normalize_sum<false>(job);
}

QS_CUDA_RESIDENT(batch_norm_normalize_sum_relu, qs__batch_apply_job, QS__COLUMN_THREADS, QS__COLUMN_BLOCKS) {
    normalize_sum<true>(job);
}

template <int KIND, bool ABSOLUTE> QS_CUDA_DEVICE void gradient_columns(const qs__batch_apply_job &job) {
    constexpr int TOGETHER = pairs_ahead<KIND>;
    const column_place place = column_place_of(job.cut);
    const qs__cuda_values src = of_kind<KIND>(job.src), diff = of_kind<KIND>(job.diff_dst);
    result_writer<KIND, false> out = gradient_writer<KIND>(job.dst, job.behind.absmax);
    auto [left, at, step] = walk_forth(job.cut, place);
    float centre[8] = {}, factor[8] = {}, offset[8] = {}, slope[8] = {};
    if (left > 0) {
        floats8(job.centre, place.vector, centre);
        floats8(job.factor, place.vector, factor);
        floats8(job.offset, place.vector, offset);
        floats8(job.slope, place.vector, slope);
    }
    const auto put = [&](const gradient_row<KIND, 8> &of, int64_t to) {
        float y[8];
        QS_CUDA_UNROLL
        for (int k = 0; k < 8; k++)
            y[k] = __fmaf_rn(factor[k], of.dy[k], __fmaf_rn(-direction_of(ABSOLUTE, of.x[k] - centre[k]), slope[k], -offset[k]));
        out.put(to, y);
    };
    for (; left > 0; left -= TOGETHER, at += TOGETHER * step) {
        gradient_row<KIND, 8> of[TOGETHER];
        QS_CUDA_UNROLL
        for (int r = 0; r < TOGETHER; r++)
            of[r].load(src, diff, job.behind.mask, at + least<int64_t>(r, left - 1) * step);
        QS_CUDA_UNROLL
        for (int r = 0; r < TOGETHER; r++)
            if (r < left) put(of[r], at + r * step);
    }
    out.finish();
}

QS_CUDA_RESIDENT(batch_norm_gradient, qs__batch_apply_job, QS__COLUMN_THREADS, QS__COLUMN_BLOCKS) {
    with_common_kind(common_kind(job.src.format, job.diff_dst.format, job.dst.format),
                     [&](auto kind) { gradient_columns<decltype(kind)::value, false>(job); });
}

QS_CUDA_GLOBAL(batch_norm_gradient_absolute, qs__batch_apply_job) {
    gradient_columns<ANY_KIND, true>(job);
}

/* ---- The same where channels come in no eights: eight values in memory order are of any channels -------------------------------------------- */

/* Vectors are those of the value's part. */
template <typename Term, typename Writer> QS_CUDA_DEVICE void apply_in_order(const qs__batch_apply_job &job, const Term &term, Writer out) {
    const int64_t channels = job.cut.channels;
    for (int64_t at = 8 * thread_number(); at < job.dst.count; at += 8 * thread_count()) {
        float x[8], y[8] = {};
        const int64_t row = at / channels, part = row / job.cut.part_rows;
        int64_t c = at % channels, rows_left = job.cut.part_rows - row % job.cut.part_rows, first = part * channels;
        value_load8(job.src, at, x);
        term.begin(at, y);
        for (int k = 0; k < 8 && at + k < job.dst.count; k++) {
            y[k] = term.of(at + k, first + c, x[k], y[k]);
            if (++c < channels) continue;
            c = 0;
            if (--rows_left > 0) continue;
            rows_left = job.cut.part_rows;
            first += channels;
        }
        out.put(at, y);
    }
    out.finish();
}

struct forward_term {
    const qs__batch_apply_job &job;
    QS_CUDA_DEVICE_MEMBER void begin(int64_t at, float *more) const {
        if (job.src2.at) value_load8(job.src2, at, more);
    }
    QS_CUDA_DEVICE_MEMBER float of(int64_t, int64_t c, float x, float more) const {
        const float y =
            (x - pointer<const float>(job.centre)[c]) * pointer<const float>(job.factor)[c] + pointer<const float>(job.offset)[c];
        return job.src2.at ? y + more : y; /* 0 would change the sign of one */
    }
};

struct gradient_term {
    const qs__batch_apply_job &job;
    QS_CUDA_DEVICE_MEMBER void begin(int64_t at, float *dy) const {
        value_load8(job.diff_dst, at, dy);
    }
    QS_CUDA_DEVICE_MEMBER float of(int64_t at, int64_t c, float x, float dy) const {
        const float d = direction_of(job.absolute != 0, x - pointer<const float>(job.centre)[c]);
        const float rest = __fmaf_rn(-d, pointer<const float>(job.slope)[c], -pointer<const float>(job.offset)[c]);
        return __fmaf_rn(pointer<const float>(job.factor)[c], through_mask(job.behind.mask, at, dy), rest);
    }
};

QS_CUDA_GLOBAL(batch_norm_normalize_in_order, qs__batch_apply_job) {
    const forward_term term = {job};
    if (job.behind.relu)
        apply_in_order(job, term, writer_of<ANY_KIND, true>(job.dst, job.behind));
    else
        apply_in_order(job, term, writer_of<ANY_KIND, false>(job.dst, job.behind));
}

QS_CUDA_GLOBAL(batch_norm_gradient_in_order, qs__batch_apply_job) {
    const gradient_term term = {job};
    apply_in_order(job, term, gradient_writer<ANY_KIND>(job.dst, job.behind.absmax));
}
