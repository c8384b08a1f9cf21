// SPDX-License-Identifier: Apache-2.0
/* Losses over classes, and squared loss. A row of logits is a block's, and read once for its largest and for the sum of powers: a thread
 * scales down what it has when it meets a larger one. Sums of a thread are fp32, all others double, in a fixed order. Gradients are taken in
 * memory order behind that. */
#include "cuda/loss_jobs.h"
#include "cuda/rows.cuh"

#include <math.h>

/* Σ exp(x - maximum), and which one is the first largest. */
struct powers {
    float maximum, sum;
    int64_t best;
    QS_CUDA_DEVICE_MEMBER void take(int64_t c, float x) {
        if (x == maximum) { /* a distance of infinities would be no number */
            sum += 1;
            return;
        }
        const float power = expf(-fabsf(x - maximum));
        if (x > maximum) {
            sum = sum * power + 1;
            maximum = x;
            best = c;
        } else {
            sum += power;
        }
    }
};

/* Calls take(c, x) for every class of the row, each by one thread. */
template <typename Take> QS_CUDA_DEVICE void classes_of(const qs__loss_job &job, int64_t row, const Take &take) {
    const int64_t sample = row / job.rows_of_sample,
                  first = sample * job.rows_of_sample * job.classes + row % job.rows_of_sample * job.next_row;
    if (job.next_class == 1) {
        row_values(job.src, first, job.classes, take);
        return;
    }
    for (int64_t c = threadIdx.x; c < job.classes; c += blockDim.x)
        take(c, value_load(job.src, first + c * job.next_class));
}

struct row_powers {
    float maximum;
    double sum;
    int64_t best;
};

/* For all threads. Where the largest is infinite distances from it are no numbers, and neither is the sum. */
QS_CUDA_DEVICE row_powers powers_of(const qs__loss_job &job, int64_t row) {
    powers own = {-INFINITY, 0, 0};
    row_powers out;
    classes_of(job, row, [&](int64_t c, float x) { own.take(c, x); });
    out.maximum = block_max(own.maximum);
    const double part = own.maximum == out.maximum ? (double)own.sum : (double)own.sum * exp((double)own.maximum - (double)out.maximum);
    out.sum = block_sum(part);
    out.best = block_min(own.maximum == out.maximum && own.sum > 0 ? own.best : INT64_MAX);
    if (isinf(out.maximum)) out.sum = NAN;
    return out;
}

/* The label of a row that counts, or -1; what is no class is complained of. All threads of the block have the same. */
QS_CUDA_DEVICE int label_of(const qs__loss_job &job, int64_t row) {
    if (row >= job.counted) return -1;
    const int label = pointer<const int32_t>(job.labels)[row];
    if (label < job.classes && (label >= 0 || job.ignores)) return label;
    if (threadIdx.x == 0) complain(job.complaint, job.number, label, row);
    return -1;
}

QS_CUDA_GLOBAL(cross_entropy_rows, qs__loss_job) {
    for (int64_t row = blockIdx.x; row < job.rows; row += gridDim.x) {
        const int label = label_of(job, row);
        double loss = 0;
        bool right = false;
        if (label >= 0) {
            const row_powers of = powers_of(job, row);
            float own = 0, part = 0;
            double total = 0;
            classes_of(job, row, [&](int64_t c, float x) {
                if (c == label) own = x;
                if (job.smoothing > 0) part += x - of.maximum;
            });
            const double distance = block_sum((double)own) - (double)of.maximum;
            if (job.smoothing > 0) total = block_sum((double)part) / (double)job.classes;
            loss = log(of.sum) - (job.smoothing > 0 ? (1 - job.smoothing) * distance + job.smoothing * total : distance);
            right = of.best == label;
        }
        if (threadIdx.x > 0) continue;
        pointer<double>(job.losses)[row] = loss * job.weight;
        pointer<double>(job.right)[row] = right;
    }
}

/* One block. */
QS_CUDA_GLOBAL(cross_entropy_total, qs__loss_job) {
    const int64_t together = job.all ? job.rows_of_sample : 1;
    double sum = 0, correct = 0;
    for (int64_t first = threadIdx.x * together; first < job.counted; first += blockDim.x * together) {
        double right = 0;
        for (int64_t row = first; row < first + together; row++) {
            sum += pointer<const double>(job.losses)[row];
            right += pointer<const double>(job.right)[row];
        }
        correct += right == (double)together;
    }
    sum = block_sum(sum);
    correct = block_sum(correct);
    if (threadIdx.x > 0) return;
    pointer<float>(job.loss)[0] = (float)sum;
    pointer<float>(job.loss)[1] = (float)correct;
}

QS_CUDA_GLOBAL(cross_entropy_powers, qs__loss_job) {
    for (int64_t row = blockIdx.x; row < job.rows; row += gridDim.x) {
        row_powers of = {};
        if (label_of(job, row) >= 0) {
            of = powers_of(job, row);
            of.sum = 1 / of.sum;
        }
        if (threadIdx.x > 0) continue;
        pointer<float>(job.maxima)[row] = of.maximum;
        pointer<float>(job.inverses)[row] = (float)of.sum;
    }
}

QS_CUDA_GLOBAL(cross_entropy_gradient, qs__loss_job) {
    const float alike = (float)(job.smoothing / (double)job.classes), own = (float)(1 - job.smoothing);
    const int64_t of_sample = job.rows_of_sample * job.classes;
    for (int64_t at = 8 * thread_number(); at < job.dst.count; at += 8 * thread_count()) {
        float x[8];
        value_load8(job.src, at, x);
        for (int k = 0; k < 8 && at + k < job.dst.count; k++) {
            const int64_t i = (at + k) % of_sample;
            const int64_t r = job.next_class == 1 ? i / job.classes : i % job.next_class;
            const int64_t c = job.next_class == 1 ? i % job.classes : i / job.next_class,
                          row = (at + k) / of_sample * job.rows_of_sample + r;
            const float inverse = pointer<const float>(job.inverses)[row];
            const float target = (c == pointer<const int32_t>(job.labels)[row] ? own : 0) + alike;
            x[k] = inverse == 0 ? 0 : (expf(x[k] - pointer<const float>(job.maxima)[row]) * inverse - target) * job.factor;
        }
        value_store8(job.dst, at, x);
    }
}

/* ---- Squared loss ---- */

QS_CUDA_GLOBAL(squared_loss_parts, qs__squared_loss_job) {
    double sum = 0;
    for (int64_t i = thread_number(); i < job.counted; i += thread_count()) {
        const double distance = (double)value_load(job.src, i) - (double)pointer<const float>(job.target)[i];
        sum += distance * distance;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) pointer<double>(job.parts)[blockIdx.x] = sum;
}

/* One block. No answer is right or wrong. */
QS_CUDA_GLOBAL(squared_loss_total, qs__squared_loss_job) {
    double sum = 0;
    for (int i = (int)threadIdx.x; i < job.blocks; i += (int)blockDim.x)
        sum += pointer<const double>(job.parts)[i];
    sum = block_sum(sum);
    if (threadIdx.x > 0) return;
    pointer<float>(job.loss)[0] = (float)(sum * job.factor);
    pointer<float>(job.loss)[1] = 0;
}

QS_CUDA_GLOBAL(squared_loss_gradient, qs__squared_loss_job) {
    for (int64_t at = 8 * thread_number(); at < job.dst.count; at += 8 * thread_count()) {
        float x[8];
        value_load8(job.src, at, x);
        for (int k = 0; k < 8; k++)
            x[k] = at + k < job.counted ? (float)(((double)x[k] - (double)pointer<const float>(job.target)[at + k]) * job.factor) : 0;
        value_store8(job.dst, at, x);
    }
}
