// SPDX-License-Identifier: Apache-2.0
/* Steps of recurrences, all but their products: a thread has one hidden value of a direction of a sample. */
#include "cuda/recurrence_jobs.h"

#include "cuda/arithmetic.cuh"
#include "cuda/logistic.cuh"
#include "qsync/recurrence.h"

/* A thread's value, and what it reads of its step. */
struct hidden_value {
    const qs__recurrence_job &job;
    int64_t direction, sample, k;

    QS_CUDA_DEVICE_MEMBER float &of(const qs__recurrence_rows &rows) const {
        return pointer<float>(rows.at)[direction * rows.direction + sample * job.hidden + k];
    }
    QS_CUDA_DEVICE_MEMBER float &gate(int which) const {
        return pointer<float>(job.gates_of.at)[direction * job.gates_of.direction + sample * width() + column(which)];
    }
    /* Where it stands in src, and in dst. */
    QS_CUDA_DEVICE_MEMBER int64_t input(int which) const {
        return (position() * job.directions + direction) * width() + column(which);
    }
    QS_CUDA_DEVICE_MEMBER int64_t output() const {
        return (position() * job.directions + direction) * job.hidden + k;
    }
    QS_CUDA_DEVICE_MEMBER float input_of(int which) const {
        const float x = value_load(job.src, input(which));
        return job.bias && job.biases == 2 ? x + bias_of(which, 0) : x;
    }
    QS_CUDA_DEVICE_MEMBER float product_of(int which) const {
        return job.bias ? gate(which) + bias_of(which, job.biases - 1) : gate(which);
    }
    QS_CUDA_DEVICE_MEMBER float sum_of(int which) const {
        return input_of(which) + product_of(which);
    }

  private:
    QS_CUDA_DEVICE_MEMBER int64_t width() const {
        return job.gates * job.hidden;
    }
    QS_CUDA_DEVICE_MEMBER int64_t column(int which) const {
        return job.at[which] * job.hidden + k;
    }
    QS_CUDA_DEVICE_MEMBER int64_t position() const {
        return sample * job.positions + job.place[direction];
    }
    QS_CUDA_DEVICE_MEMBER float bias_of(int which, int number) const {
        return pointer<const float>(job.bias)[(direction * job.biases + number) * width() + column(which)];
    }
};

template <typename Use> QS_CUDA_DEVICE void each_value(const qs__recurrence_job &job, const Use &use) {
    for (int64_t i = thread_number(); i < job.directions * job.samples * job.hidden; i += thread_count()) {
        const int64_t row = i / job.hidden;
        const hidden_value here = {job, row / job.samples, row % job.samples, i % job.hidden};
        use(here);
    }
}

QS_CUDA_DEVICE float logistic(float x) {
    return sigmoid(x).rising;
}

/* ---- Forward ---- */

QS_CUDA_DEVICE void state_put(const hidden_value &here, float state) {
    here.of(here.job.after) = state;
    if (here.job.dst.at) value_store(here.job.dst, here.output(), state);
}

QS_CUDA_DEVICE void plain_forward(const hidden_value &here) {
    const float sum = here.sum_of(0), state = here.job.cell == QS_CELL_TANH ? tanhf(sum) : sum > 0 ? sum : 0;
    if (here.job.keeps) here.gate(0) = state;
    state_put(here, state);
}

QS_CUDA_DEVICE void lstm_forward(const hidden_value &here) {
    const float i = logistic(here.sum_of(QS_GATE_I)), o = logistic(here.sum_of(QS_GATE_O)), f = logistic(here.sum_of(QS_GATE_F)),
                c = tanhf(here.sum_of(QS_GATE_C)), cell = f * here.of(here.job.other) + i * c;
    here.of(here.job.next) = cell;
    if (here.job.keeps) {
        here.gate(QS_GATE_I) = i;
        here.gate(QS_GATE_O) = o;
        here.gate(QS_GATE_F) = f;
        here.gate(QS_GATE_C) = c;
    }
    state_put(here, o * tanhf(cell));
}

QS_CUDA_DEVICE void late_forward(const hidden_value &here) {
    const float z = logistic(here.sum_of(QS_GATE_Z)), r = logistic(here.sum_of(QS_GATE_R)), product = here.product_of(QS_GATE_N);
    const float n = tanhf(here.input_of(QS_GATE_N) + r * product);
    if (here.job.keeps) {
        here.gate(QS_GATE_Z) = z;
        here.gate(QS_GATE_R) = r;
        here.gate(QS_GATE_N) = n;
        here.of(here.job.other) = product;
    }
    state_put(here, n + z * (here.of(here.job.before) - n));
}

/* The first part of a GRU that resets before the product; the other one is behind that product. */
QS_CUDA_DEVICE void early_forward(const hidden_value &here) {
    const float r = logistic(here.sum_of(QS_GATE_R));
    here.gate(QS_GATE_Z) = logistic(here.sum_of(QS_GATE_Z));
    here.gate(QS_GATE_R) = r;
    here.of(here.job.other) = r * here.of(here.job.before);
}

QS_CUDA_GLOBAL(recurrence_forward, qs__recurrence_job) {
    each_value(job, [&](const hidden_value &here) {
        switch (job.cell) {
        case QS_CELL_LSTM:
            return lstm_forward(here);
        case QS_CELL_GRU:
            return early_forward(here);
        case QS_CELL_GRU_LATE:
            return late_forward(here);
        default:
            return plain_forward(here);
        }
    });
}

QS_CUDA_GLOBAL(recurrence_forward_reset, qs__recurrence_job) {
    each_value(job, [&](const hidden_value &here) {
        const float z = here.gate(QS_GATE_Z), n = tanhf(here.sum_of(QS_GATE_N));
        if (job.keeps) here.gate(QS_GATE_N) = n;
        state_put(here, n + z * (here.of(job.before) - n));
    });
}

/* ---- Backward: gates become gradients of their sums; those of x are written ---- */

/* Gradient of the state behind the step; `held` is what came to it through no product. */
QS_CUDA_DEVICE float state_gradient(const hidden_value &here, float held) {
    const float dy = value_load(here.job.diff, here.output());
    return here.job.first ? dy : held + here.of(here.job.product) + dy;
}

QS_CUDA_DEVICE void gate_put(const hidden_value &here, int which, float gradient) {
    here.gate(which) = gradient;
    value_store(here.job.dst, here.input(which), gradient);
}

QS_CUDA_DEVICE void plain_backward(const hidden_value &here) {
    const float g = here.gate(0), dh = state_gradient(here, 0);
    gate_put(here, 0, dh * (here.job.cell == QS_CELL_TANH ? 1 - g * g : g > 0 ? 1.0f : 0.0f));
}

QS_CUDA_DEVICE void lstm_backward(const hidden_value &here) {
    const float i = here.gate(QS_GATE_I), o = here.gate(QS_GATE_O), f = here.gate(QS_GATE_F), c = here.gate(QS_GATE_C);
    const float dh = state_gradient(here, 0), t = tanhf(here.of(here.job.next));
    const float of_cell = (here.job.first ? 0 : here.of(here.job.of_cell)) + dh * o * (1 - t * t);
    here.of(here.job.of_cell) = of_cell * f;
    gate_put(here, QS_GATE_I, of_cell * c * i * (1 - i));
    gate_put(here, QS_GATE_O, dh * t * o * (1 - o));
    gate_put(here, QS_GATE_F, of_cell * here.of(here.job.other) * f * (1 - f));
    gate_put(here, QS_GATE_C, of_cell * i * (1 - c * c));
}

/* Of a late GRU all of it; an early one's reset gate waits for the product behind it. */
QS_CUDA_DEVICE void gru_backward(const hidden_value &here) {
    const float z = here.gate(QS_GATE_Z), r = here.gate(QS_GATE_R), n = here.gate(QS_GATE_N);
    const float dh = state_gradient(here, here.job.first ? 0 : here.of(here.job.of_state)), of_new = dh * (1 - z) * (1 - n * n);
    here.of(here.job.of_state) = dh * z;
    gate_put(here, QS_GATE_Z, dh * (here.of(here.job.before) - n) * z * (1 - z));
    gate_put(here, QS_GATE_N, of_new);
    if (here.job.cell == QS_CELL_GRU) return;
    gate_put(here, QS_GATE_R, of_new * here.of(here.job.other) * r * (1 - r));
    here.gate(QS_GATE_N) = of_new * r;
    here.of(here.job.other) = of_new;
}

QS_CUDA_GLOBAL(recurrence_backward, qs__recurrence_job) {
    each_value(job, [&](const hidden_value &here) {
        switch (job.cell) {
        case QS_CELL_LSTM:
            return lstm_backward(here);
        case QS_CELL_GRU:
        case QS_CELL_GRU_LATE:
            return gru_backward(here);
        default:
            return plain_backward(here);
        }
    });
}

QS_CUDA_GLOBAL(recurrence_backward_reset, qs__recurrence_job) {
    each_value(job, [&](const hidden_value &here) {
        const float r = here.gate(QS_GATE_R), gradient = here.of(job.product);
        here.of(job.of_state) += gradient * r;
        gate_put(here, QS_GATE_R, gradient * here.of(job.before) * r * (1 - r));
    });
}

/* ---- Codes, as the values that they stand for (op/recurrence.c) ---- */

/* A row of a job. */
struct codes_row {
    int64_t direction, step, sample, number; /* number: among the rows of its direction */

    QS_CUDA_DEVICE_MEMBER codes_row(const qs__recurrence_codes_job &job, int64_t row)
        : direction(row / (job.steps * job.samples)), step(row / job.samples % job.steps), sample(row % job.samples),
          number(row % (job.steps * job.samples)) {
    }
    QS_CUDA_DEVICE_MEMBER float *in(const qs__recurrence_codes_job &job, const qs__recurrence_rows &rows) const {
        return pointer<float>(rows.at) + direction * rows.direction + number * job.row;
    }
    QS_CUDA_DEVICE_MEMBER uint64_t counter(const qs__recurrence_codes_job &job) const {
        return job.first[direction] + (uint64_t)(step * job.by_step[direction] + sample * job.by_sample);
    }
};

QS_CUDA_DEVICE uint32_t largest_of_row(const qs__recurrence_codes_job &job, const float *from) {
    uint32_t high = 0;
    for (int64_t k = threadIdx.x; k < job.columns; k += blockDim.x)
        high = largest(high, bits_of(from[k]) & MAGNITUDE_BITS);
    return block_max(high);
}

QS_CUDA_DEVICE float code_value(const qs__recurrence_codes_job &job, float x, float step, uint64_t counter) {
    const uint32_t half = job.rounding == QS_STOCHASTIC ? random_half(job.key, counter) : 0;
    const float y = x * (1.0f / step * (job.rounding == QS_STOCHASTIC ? 65536.0f : 1.0f));
    return with_rounding(job.rounding, [&](auto rounding) {
        return (float)quantize_scaled<decltype(rounding)::value>(fixed_range_of(job.format), y, half) * step;
    });
}

/* The largest magnitude of each direction, a row a block. */
QS_CUDA_GLOBAL(recurrence_largest, qs__recurrence_codes_job) {
    for (int64_t row = blockIdx.x; row < job.directions * job.steps * job.samples; row += gridDim.x) {
        const codes_row here(job, row);
        const uint32_t high = largest_of_row(job, here.in(job, job.from));
        if (threadIdx.x == 0) atomicMax(pointer<unsigned>(job.largest) + here.direction, high);
    }
}

/* A row a block. */
QS_CUDA_GLOBAL(recurrence_codes, qs__recurrence_codes_job) {
    for (int64_t row = blockIdx.x; row < job.directions * job.steps * job.samples; row += gridDim.x) {
        const codes_row here(job, row);
        const float *from = here.in(job, job.from);
        float *to = here.in(job, job.to), step = job.step;
        if (job.largest)
            step = step_of_absmax(job.format, float_of(pointer<const uint32_t>(job.largest)[here.direction]));
        else if (step == 0)
            step = step_of_absmax(job.format, float_of(largest_of_row(job, from)));
        for (int64_t k = threadIdx.x; k < job.columns; k += blockDim.x)
            to[k] = code_value(job, from[k], step, here.counter(job) + (uint64_t)k);
    }
}

/* A column of a direction a thread. */
QS_CUDA_GLOBAL(recurrence_columns, qs__recurrence_codes_job) {
    for (int64_t i = thread_number(); i < job.directions * job.columns; i += thread_count()) {
        const int64_t direction = i / job.columns, k = i % job.columns;
        const float *from = pointer<const float>(job.from.at) + direction * job.from.direction + k;
        float *to = pointer<float>(job.to.at) + direction * job.to.direction + k;
        uint32_t high = 0;
        for (int64_t row = 0; row < job.samples; row++)
            high = largest(high, bits_of(from[row * job.row]) & MAGNITUDE_BITS);
        const float step = step_of_absmax(job.format, float_of(high));
        for (int64_t row = 0; row < job.samples; row++)
            to[row * job.row] = code_value(job, from[row * job.row], step, job.first[direction] + (uint64_t)(row * job.by_sample + k));
    }
}
