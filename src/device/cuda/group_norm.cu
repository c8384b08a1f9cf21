// SPDX-License-Identifier: Apache-2.0
/* Norms of groups of channels, and of single channels, of each sample: batch norms whose rows are cut by sample (batch_norm.cu), but for what
 * is here: totals of a sample's slabs, and what follows from them, since a group's channels share its statistics. All of it is in double, and
 * small beside the values: two numbers for each channel of each sample. */
#include "cuda/norm.cuh"
#include "cuda/rows.cuh"

/* A block for each 16 channels of a sample. */
QS_CUDA_GLOBAL(group_norm_totals, qs__group_totals_job) {
    const int64_t channels = job.cut.channels, tiles = (channels + QS__TOTAL_CHANNELS - 1) / QS__TOTAL_CHANNELS;
    const int64_t part = blockIdx.x / tiles, parts = job.cut.slabs / job.cut.part_slabs;
    const int64_t c = blockIdx.x % tiles * QS__TOTAL_CHANNELS + threadIdx.x % QS__TOTAL_CHANNELS;
    const int lane = (int)threadIdx.x / QS__TOTAL_CHANNELS;
    qs__columns of_part = job.cut;
    of_part.slabs = job.cut.part_slabs;
    QS_CUDA_UNROLL
    for (int i = 0; i < 2; i++) {
        const double *sums = pointer<const double>(job.sums) + (i * job.cut.slabs + part * job.cut.part_slabs) * channels;
        const double total = slabs_total(of_part, c, lane, sums);
        if (lane == 0 && c < channels) pointer<double>(job.totals)[(i * parts + part) * channels + c] = total;
    }
}

/* Calls use(first, on, there) for every group: where its channels begin in vectors, and the lanes that have one after the other of them.
 * Whole warps come, where there are no groups left too. */
template <typename Use> QS_CUDA_DEVICE void each_group(const qs__group_finish_job &job, const Use &use) {
    const row_lanes on = row_lanes_of(job.lanes, job.members);
    const int64_t of_warp = WARP / job.lanes;
    for (int64_t first = thread_number() / WARP * of_warp; first < job.groups; first += thread_count() / WARP * of_warp) {
        const int64_t group = first + (int)threadIdx.x % WARP / job.lanes;
        use(group * job.members, on, group < job.groups);
    }
}

QS_CUDA_GLOBAL(group_norm_finish, qs__group_finish_job) {
    const double *values = pointer<const double>(job.totals), *squares = values + job.groups * job.members;
    const double count = (double)(job.members * job.cut.part_rows);
    each_group(job, [&](int64_t first, const row_lanes &on, bool there) {
        double total = 0, square = 0;
        for (int64_t c = first + on.lane; there && c < first + job.members; c += on.lanes) {
            total += values[c];
            square += squares[c];
        }
        total = on.sum(total);
        square = on.sum(square);
        const double mean = total / count, variance = (count * square - total * total) / (count * count);
        const double inverse = 1 / sqrt((variance < 0 ? 0 : variance) + job.epsilon);
        for (int64_t c = first + on.lane; there && c < first + job.members; c += on.lanes) {
            const int64_t channel = c % job.cut.channels;
            pointer<float>(job.centre)[c] = (float)mean;
            pointer<float>(job.inverse)[c] = (float)inverse;
            if (!job.shift) continue;
            pointer<float>(job.factor)[c] = (float)((double)pointer<const float>(job.scale)[channel] * inverse);
            pointer<float>(job.offset)[c] = pointer<const float>(job.shift)[channel];
        }
    });
}

/* With i = 1/σ, d = x - mean and means over the group: diff_src = i scale dy - d i³ mean(scale dy d) - i mean(scale dy). */
QS_CUDA_GLOBAL(group_norm_gradient_finish, qs__group_finish_job) {
    const double *sums = pointer<const double>(job.totals), count = (double)(job.members * job.cut.part_rows);
    double *products = pointer<double>(job.totals) + job.groups * job.members;
    const float *scale = pointer<const float>(job.scale);
    each_group(job, [&](int64_t first, const row_lanes &on, bool there) {
        const double inverse = there ? (double)pointer<const float>(job.inverse)[first] : 0;
        double sum = 0, product = 0;
        for (int64_t c = first + on.lane; there && c < first + job.members; c += on.lanes) {
            const double s = (double)scale[c % job.cut.channels];
            sum += s * sums[c];
            product += s * products[c];
        }
        sum = on.sum(sum);
        product = on.sum(product);
        for (int64_t c = first + on.lane; there && c < first + job.members; c += on.lanes) {
            pointer<float>(job.factor)[c] = (float)((double)scale[c % job.cut.channels] * inverse);
            pointer<float>(job.offset)[c] = (float)(inverse * sum / count);
            pointer<float>(job.slope)[c] = (float)(inverse * inverse * inverse * product / count);
            products[c] *= inverse;
        }
    });
}
