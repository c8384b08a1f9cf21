// SPDX-License-Identifier: Apache-2.0
/* Families cast and round: own kernels for every pair of float formats, every rounding and every overflow. */
#include "cuda/convert_jobs.h"
#include "cuda/own.h"

#include <string.h>

static qs_status cast_run(qs__cuda_kernel *kernel, const qs_run *run) {
    const qs_attributes *with = &kernel->one.attributes;
    const qs__cuda_cast_job job = {.src = qs__cuda_values_of(kernel, QS_SRC),
                                   .dst = qs__cuda_values_of(kernel, QS_DST),
                                   .draws = qs__cuda_draws_of(&kernel->one, run),
                                   .rounding = (int)with->rounding,
                                   .overflow = (int)with->overflow};
    const int each = job.dst.format.kind == QS__CUDA_FP32 && job.src.format.bits == 16 ? 16 : 8; /* of a stream, a thread has several */
    return qs__cuda_launch(kernel, 0, qs__cuda_blocks(kernel->cuda, job.src.count, QS__CUDA_THREADS, each), QS__CUDA_THREADS, 0, &job);
}

qs_status qs__cuda_build_cast(qs__cuda_kernel *kernel) {
    const qs_attributes *with = &kernel->one.attributes;
    const bool plain = with->overflow == QS_OVERFLOW_DEFAULT;
    const char *name = plain && with->rounding == QS_NEAREST_EVEN ? "cast_nearest"
                       : plain && with->rounding == QS_STOCHASTIC ? "cast_stochastic"
                                                                  : "cast_any";
    int index;
    strcpy(kernel->name, "own:cast");
    kernel->run = cast_run;
    return qs__cuda_function(kernel, name, &index);
}

static qs_status round_run(qs__cuda_kernel *kernel, const qs_run *run) {
    const qs_attributes *with = &kernel->one.attributes;
    const qs__cuda_round_job job = {.src = qs__cuda_values_of(kernel, QS_SRC),
                                    .dst = qs__cuda_values_of(kernel, QS_DST),
                                    .packed = qs__cuda_values_of(kernel, QS_PACKED),
                                    .to = qs__cuda_format_of(with->to),
                                    .draws = qs__cuda_draws_of(&kernel->one, run),
                                    .rounding = (int)with->rounding,
                                    .overflow = (int)with->overflow,
                                    .counts = qs__cuda_at(kernel, QS_COUNTS)};
    if (job.counts) QS_TRY(qs__cuda_clear(kernel, job.counts, 2 * sizeof(int64_t)));
    return qs__cuda_launch(kernel, 0, qs__cuda_blocks(kernel->cuda, job.src.count, QS__CUDA_THREADS, 8), QS__CUDA_THREADS, 0, &job);
}

qs_status qs__cuda_build_round(qs__cuda_kernel *kernel) {
    int index;
    strcpy(kernel->name, "own:round");
    kernel->run = round_run;
    return qs__cuda_function(kernel, "round_values", &index);
}
