// SPDX-License-Identifier: Apache-2.0
/* Families of elementwise operators: relu, add, multiply, other functions of two values, dropout (elementwise.cu), functions of one number
 * (activation.cu). */
#include "cuda/elementwise_jobs.h"

#include "cuda/operands.h"

#include <math.h>

enum { THREADS = 256 };

enum { STREAMS }; /* of kernel->plan: how many operands a stream of values of 16 bits reads (stream.cuh); 0: it is none */

/* Elements that a thread of a stream takes at a time, by the number of operands that it reads. */
static int stream_each(const qs__cuda_values *dst, int sources) {
    return dst->format.bits == 16 ? 32 / sources : 8;
}

static qs_status launch(qs__cuda_kernel *kernel, qs__elementwise_job *job) {
    const int sources = (int)kernel->plan[STREAMS], each = sources > 0 ? stream_each(&job->dst, sources) : 8;
    QS_TRY(qs__cuda_absmax_clear(kernel, &job->absmax));
    return qs__cuda_launch(kernel, 0, qs__cuda_blocks(kernel->cuda, job->dst.count, THREADS, each), THREADS, 0, job);
}

/* ---- relu ---- */

static qs_status run_relu(qs__cuda_kernel *kernel, const qs_run *run) {
    (void)run;
    qs__elementwise_job job = {.mask = qs__cuda_at(kernel, QS_MASK), .ceiling = (float)kernel->one.attributes.ceiling};
    if (qs__cuda_is_forward(kernel)) {
        job.src = qs__cuda_values_of(kernel, QS_SRC);
        job.dst = qs__cuda_values_of(kernel, QS_DST);
    } else {
        job.diff = qs__cuda_values_of(kernel, QS_DIFF_DST);
        job.diff2 = qs__cuda_values_of(kernel, QS_DIFF_DST2);
        job.dst = qs__cuda_values_of(kernel, QS_DIFF_SRC);
    }
    return launch(kernel, &job);
}

qs_status qs__cuda_build_relu(qs__cuda_kernel *kernel) {
    const bool forward = qs__cuda_is_forward(kernel), two = !forward && qs__case_has(&kernel->one, QS_DIFF_DST2);
    kernel->plan[STREAMS] = two ? 2 : 0;
    kernel->run = run_relu;
    return qs__cuda_own(kernel, forward ? "qs__relu" : two ? "qs__relu_gradient_of_two" : "qs__relu_gradient");
}

/* ---- add, with a relu behind or none, multiply, other functions of two values ---- */

static qs_status run_two(qs__cuda_kernel *kernel, const qs_run *run) {
    (void)run;
    qs__elementwise_job job = {.src = qs__cuda_values_of(kernel, QS_SRC), .src2 = qs__cuda_values_of(kernel, QS_SRC2)};
    if (qs__cuda_is_forward(kernel)) {
        job.dst = qs__cuda_values_of(kernel, QS_DST);
    } else {
        job.diff = qs__cuda_values_of(kernel, QS_DIFF_DST);
        job.dst = qs__cuda_values_of(kernel, QS_DIFF_SRC);
        job.dst2 = qs__cuda_values_of(kernel, QS_DIFF_SRC2);
    }
    return launch(kernel, &job);
}

static qs_status run_add(qs__cuda_kernel *kernel, const qs_run *run) {
    (void)run;
    qs__elementwise_job job = {.src = qs__cuda_values_of(kernel, QS_SRC),
                               .src2 = qs__cuda_values_of(kernel, QS_SRC2),
                               .dst = qs__cuda_values_of(kernel, QS_DST),
                               .mask = qs__cuda_at(kernel, QS_MASK),
                               .ceiling = (float)kernel->one.attributes.ceiling};
    return launch(kernel, &job);
}

qs_status qs__cuda_build_add(qs__cuda_kernel *kernel) {
    const bool relu = kernel->one.attributes.relu;
    kernel->plan[STREAMS] = relu ? 2 : 0;
    kernel->run = run_add;
    return qs__cuda_own(kernel, relu ? "qs__add_relu" : "qs__add");
}

qs_status qs__cuda_build_multiply(qs__cuda_kernel *kernel) {
    kernel->run = run_two;
    return qs__cuda_own(kernel, qs__cuda_is_forward(kernel) ? "qs__multiply" : "qs__multiply_gradient");
}

/* Kernels are called after the operator. */
static qs_status own_of_operator(qs__cuda_kernel *kernel, const char *more) {
    char function[48];
    snprintf(function, sizeof function, "qs__%s%s%s", kernel->one.op->name, more, qs__cuda_is_forward(kernel) ? "" : "_gradient");
    return qs__cuda_own(kernel, function);
}

qs_status qs__cuda_build_pair(qs__cuda_kernel *kernel) {
    kernel->run = run_two;
    return own_of_operator(kernel, "");
}

/* ---- dropout ---- */

/* A draw is uniform in its upper 24 bits: these are compared, not the number below 1 that they make. */
static qs_status run_dropout(qs__cuda_kernel *kernel, const qs_run *run) {
    const bool forward = qs__cuda_is_forward(kernel);
    const double probability = kernel->one.attributes.probability;
    const qs_random_rows rows = qs_op_random_rows(&kernel->one, run);
    const qs__dropout_job job = {.src = qs__cuda_values_of(kernel, forward ? QS_SRC : QS_DIFF_DST),
                                 .dst = qs__cuda_values_of(kernel, forward ? QS_DST : QS_DIFF_SRC),
                                 .key = rows.key,
                                 .first = rows.first,
                                 .scale = 1 / (1 - probability),
                                 .least = (uint32_t)ceil((double)(float)probability * 0x1p24) << 8};
    const int64_t blocks = qs__cuda_blocks(kernel->cuda, job.dst.count, THREADS, stream_each(&job.dst, 1));
    return qs__cuda_launch(kernel, 0, blocks, THREADS, 0, &job);
}

qs_status qs__cuda_build_dropout(qs__cuda_kernel *kernel) {
    kernel->run = run_dropout;
    return qs__cuda_own(kernel, "qs__dropout");
}

/* ---- Functions of one number ---- */

static qs_status run_activation(qs__cuda_kernel *kernel, const qs_run *run) {
    (void)run;
    const double *constant = kernel->one.attributes.constant;
    qs__elementwise_job job = {.src = qs__cuda_values_of(kernel, QS_SRC), .constant = {(float)constant[0], (float)constant[1]}};
    if (qs__cuda_is_forward(kernel)) {
        job.dst = qs__cuda_values_of(kernel, QS_DST);
    } else {
        job.diff = qs__cuda_values_of(kernel, QS_DIFF_DST);
        job.dst = qs__cuda_values_of(kernel, QS_DIFF_SRC);
    }
    return launch(kernel, &job);
}

qs_status qs__cuda_build_activation(qs__cuda_kernel *kernel) {
    const bool streams = kernel->one.op == qs_op_of("gelu") || kernel->one.op == qs_op_of("silu");
    kernel->plan[STREAMS] = !streams ? 0 : qs__cuda_is_forward(kernel) ? 1 : 2;
    kernel->run = run_activation;
    return own_of_operator(kernel, kernel->one.attributes.approximate > 0 ? "_by_tanh" : "");
}

/* Backward is forward of the gradient, without the term. */
static qs_status run_affine(qs__cuda_kernel *kernel, const qs_run *run) {
    (void)run;
    const bool forward = qs__cuda_is_forward(kernel);
    const double *constant = kernel->one.attributes.constant;
    qs__elementwise_job job = {.src = qs__cuda_values_of(kernel, forward ? QS_SRC : QS_DIFF_DST),
                               .dst = qs__cuda_values_of(kernel, forward ? QS_DST : QS_DIFF_SRC),
                               .constant = {(float)constant[0], forward ? (float)constant[1] : 0}};
    return launch(kernel, &job);
}

qs_status qs__cuda_build_affine(qs__cuda_kernel *kernel) {
    kernel->run = run_affine;
    return qs__cuda_own(kernel, "qs__affine");
}
