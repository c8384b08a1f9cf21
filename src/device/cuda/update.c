// SPDX-License-Identifier: Apache-2.0
/* Families update (every optimiser that has a kernel of its name) and clip_norm. */
#include "cuda/update_jobs.h"
#include "cuda/own.h"

#include <string.h>

_Static_assert(QS__CUDA_TERMS >= QS_UPDATE_TERMS && QS__CUDA_STATES >= QS_MOST_STATES, "jobs hold what optimisers have");

static qs_status update_run(qs__cuda_kernel *kernel, const qs_run *run) {
    const qs_case *one = &kernel->one;
    qs__cuda_update_job job = {.gradient = qs__cuda_at(kernel, QS_SRC),
                               .weights = qs__cuda_at(kernel, QS_WEIGHTS),
                               .flag = qs__cuda_at(kernel, QS_FLAG),
                               .count = qs__case_count(one, QS_SRC)};
    for (int i = 0; i < one->op->optimizer->states; i++)
        job.state[i] = qs__cuda_at(kernel, qs_optimizer_state(one->op, i));
    one->op->optimizer->terms(&one->attributes, run, job.term);
    return qs__cuda_launch(kernel, 0, qs__cuda_blocks(kernel->cuda, job.count, QS__CUDA_THREADS, 4), QS__CUDA_THREADS, 0, &job);
}

qs_status qs__cuda_build_update(qs__cuda_kernel *kernel) {
    const char *name = kernel->one.op->name;
    int index;
    snprintf(kernel->name, sizeof kernel->name, "own:%s", name);
    kernel->run = update_run;
    return qs__cuda_function(kernel, name, &index);
}

/* ---- Clipping ------------------------------------------------------------------------------------------------------------------- */

/* Functions in the order of their runs; where in the scratch sums of pieces lie, and the sum of all. */
enum { SQUARES, SLOTS, SCALE };
enum { PIECES, TOTAL };

static qs_status clip_run(qs__cuda_kernel *kernel, const qs_run *run) {
    const int64_t count = qs__case_count(&kernel->one, QS_SRC);
    const CUdeviceptr sums = kernel->scratch + (CUdeviceptr)kernel->plan[PIECES],
                      total = kernel->scratch + (CUdeviceptr)kernel->plan[TOTAL];
    const qs__cuda_pieces_job pieces = {
        .src = qs__cuda_values_of(kernel, QS_SRC), .rows = 1, .per_row = count, .pieces = qs__cuda_pieces(count), .sums = sums};
    const qs__cuda_slots_job slots = {.pieces = pieces.pieces, .sums = sums, .out = total};
    const qs__cuda_clip_job clip = {.values = pieces.src.at,
                                    .flag = qs__cuda_at(kernel, QS_FLAG),
                                    .count = count,
                                    .bound = kernel->one.attributes.clip_norm,
                                    .loss_scale = run->loss_scale,
                                    .squares = total};
    QS_TRY(qs__cuda_pieces_run(kernel, SQUARES, &pieces));
    QS_TRY(qs__cuda_launch(kernel, SLOTS, 1, QS__CUDA_SLOTS, 0, &slots));
    return qs__cuda_launch(kernel, SCALE, qs__cuda_blocks(kernel->cuda, count, QS__CUDA_THREADS, 4), QS__CUDA_THREADS, 0, &clip);
}

qs_status qs__cuda_build_clip_norm(qs__cuda_kernel *kernel) {
    int index;
    strcpy(kernel->name, "own:clip_norm");
    kernel->run = clip_run;
    kernel->plan[PIECES] =
        (int64_t)qs__cuda_scratch(kernel, (size_t)qs__cuda_pieces(qs__case_count(&kernel->one, QS_SRC)) * sizeof(double));
    kernel->plan[TOTAL] = (int64_t)qs__cuda_scratch(kernel, sizeof(double));
    QS_TRY(qs__cuda_function(kernel, "sums_squares", &index));
    QS_TRY(qs__cuda_function(kernel, "sums_slots", &index));
    return qs__cuda_function(kernel, "clip_scale", &index);
}
