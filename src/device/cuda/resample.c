// SPDX-License-Identifier: Apache-2.0
/* The family of pad and resize (resample.cu). Tables are made once, when the kernel is prepared, and written into its scratch, which other
 * kernels use in between, at every run: some bytes for each line and each column. */
#include "cuda/operands.h"
#include "cuda/resample_jobs.h"
#include "resample.h"

#include <stdlib.h>

typedef struct plan {
    qs__resample_job job;
    size_t bytes; /* of both tables */
    char *tables; /* as they lie in scratch */
} plan;

/* Arrays of both axes one behind the other, in memory at `base`, when that is there; how many bytes they are. */
static size_t tables_lay(const qs_case *one, char *base, qs__resample_table table[2]) {
    size_t bytes = 0;
    for (int axis = 0; axis < 2; axis++) {
        qs__resample_table *t = &table[axis];
        *t = qs__resample_table_of(one, axis);
        const size_t begins = (size_t)(t->written + 1) * sizeof *t->begin, places = (size_t)t->entries * sizeof *t->place;
        if (base) {
            t->begin = (int32_t *)(void *)(base + bytes);
            t->place = (int32_t *)(void *)(base + bytes + begins);
            t->weight = (float *)(void *)(base + bytes + begins + places);
        }
        bytes += begins + places + (size_t)t->entries * sizeof *t->weight;
    }
    return bytes;
}

static qs_status prepare(qs__cuda_kernel *kernel) {
    const qs_case *one = &kernel->one;
    const bool forward = qs__cuda_is_forward(kernel);
    qs__resample_table table[2];
    plan *p;
    QS_TRY(qs_allocate(1, sizeof *p, &p));
    kernel->own = p;
    p->bytes = tables_lay(one, NULL, table);
    QS_TRY(qs_allocate(p->bytes, 1, &p->tables));
    tables_lay(one, p->tables, table);
    p->job = (qs__resample_job){.from = qs__cuda_values_of(kernel, forward ? QS_SRC : QS_DIFF_DST),
                                .to = qs__cuda_values_of(kernel, forward ? QS_DST : QS_DIFF_SRC),
                                .channels = one->operand[0].shape.dim[1],
                                .value = forward ? (float)one->attributes.value : 0};
    QS_TRY(qs__cuda_each(kernel, p->job.channels, &p->job.each));
    for (int axis = 0; axis < 2; axis++) {
        const qs__resample_table *t = &table[axis];
        qs__resample_table_fill(one, axis, &table[axis]);
        p->job.axis[axis] = (qs__resample_axis){.begin = kernel->scratch + (uint64_t)((char *)t->begin - p->tables),
                                                .place = kernel->scratch + (uint64_t)((char *)t->place - p->tables),
                                                .weight = kernel->scratch + (uint64_t)((char *)t->weight - p->tables),
                                                .written = (int)t->written,
                                                .read = (int)t->read};
    }
    return QS_OK;
}

static void release(qs__cuda_kernel *kernel) {
    plan *p = kernel->own;
    if (p) free(p->tables);
    free(p);
    kernel->own = NULL;
}

static qs_status run(qs__cuda_kernel *kernel, const qs_run *step) {
    (void)step;
    const plan *p = kernel->own;
    QS_TRY(qs__transfers_write(kernel->cuda, QS_QUEUE_KERNELS, kernel->scratch, p->tables, p->bytes));
    const int64_t blocks = qs__cuda_blocks(kernel->cuda, p->job.to.count, QS__RESAMPLE_THREADS, p->job.each);
    return qs__cuda_launch(kernel, 0, blocks, QS__RESAMPLE_THREADS, 0, &p->job);
}

qs_status qs__cuda_build_resample(qs__cuda_kernel *kernel) {
    qs__resample_table table[2];
    int each;
    QS_TRY(qs__cuda_each(kernel, kernel->one.operand[0].shape.dim[1], &each));
    (void)qs__cuda_scratch(kernel, tables_lay(&kernel->one, NULL, table)); /* the first, at 0 */
    kernel->prepare = prepare;
    kernel->run = run;
    kernel->release = release;
    return qs__cuda_own(kernel, "resample");
}
