// SPDX-License-Identifier: Apache-2.0
/* Simulated formats: the array functions of number, which round, pack and count in one pass and deal long arrays to threads themselves.
 * Only draws that follow samples need rows of their own; short ones are dealt to threads here. */
#include "cpu/staging.h"

#include <stdatomic.h>
#include <string.h>

enum { ROW_LIMIT = 65536 }; /* elements from which number splits an array */

typedef struct job {
    const qs_case *one;
    qs_random_rows rows;
    const float *src;
    float *dst;
    char *packed; /* NULL: not wanted */
    atomic_llong overflows, underflows;
} job;

static void rows_round(void *context, int64_t begin, int64_t end) {
    job *j = context;
    const qs_attributes *with = &j->one->attributes;
    const int64_t per_row = j->rows.per_row;
    for (int64_t row = begin; row < end; row++) {
        const qs_random_stream stream = {j->rows.key, j->rows.first + (uint64_t)row * j->rows.stride};
        const float *src = j->src + row * per_row;
        float *dst = j->dst + row * per_row;
        const qs_rounding_counts counts = j->packed ? qs_round_pack_array(with->to, with->rounding, with->overflow, stream, per_row, src,
                                                                          dst, j->packed + qs_format_bytes(with->to, row * per_row))
                                                    : qs_round_array(with->to, with->rounding, with->overflow, stream, per_row, src, dst);
        atomic_fetch_add_explicit(&j->overflows, counts.overflows, memory_order_relaxed);
        atomic_fetch_add_explicit(&j->underflows, counts.underflows, memory_order_relaxed);
    }
}

static qs_status run_round(const qs__chain *chain, const qs_run *run) {
    const qs_case *one = &chain->one;
    const bool packs = qs_case_position(one, QS_PACKED) >= 0;
    job j = {.one = one,
             .rows = qs_op_random_rows(one, run),
             .src = qs__cpu_data(chain, QS_SRC),
             .dst = qs__cpu_data(chain, QS_DST),
             .packed = packs ? qs__cpu_data(chain, QS_PACKED) : NULL};
    atomic_init(&j.overflows, 0);
    atomic_init(&j.underflows, 0);
    if (j.rows.rows == 1 || j.rows.per_row >= ROW_LIMIT)
        rows_round(&j, 0, j.rows.rows);
    else
        qs_parallel(j.rows.rows, ROW_LIMIT / j.rows.per_row / 4 + 1, rows_round, &j);
    const qs_rounding_counts counts = {atomic_load(&j.overflows), atomic_load(&j.underflows)};
    if (qs__cpu_has(one, QS_COUNTS)) memcpy(qs__cpu_data(chain, QS_COUNTS), &counts, sizeof counts);
    return QS_OK;
}

/* Own name: qs__own_build would widen the packed operand. */
qs_status qs__build_round(qs__chain *chain) {
    qs__chain_call(chain, run_round);
    snprintf(chain->name, sizeof chain->name, "own:round:%s", chain->cpu->kernels->name);
    return QS_OK;
}
