// SPDX-License-Identifier: Apache-2.0
/* Our own embedding. Forward, threads take positions; backward they take columns of the table, a cache line of them, and each goes through
 * all positions in order: no two write one place, and the order of every sum is that of the positions, whatever the threads. */
#include "cpu/staging.h"

#include <string.h>

enum { COLUMNS = 16, PIECE = 256 };

typedef struct job {
    const int32_t *ids;
    int64_t positions, features;
    qs__in table, gradient;
    qs__out dst;
    float *sums;
} job;

static const qs_format *format_of(qs__type type) {
    return qs_format_of(type == QS__BF16 ? "bf16" : "fp32");
}

static void positions_take(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    float piece[PIECE];
    for (int64_t i = begin; i < end; i++) {
        const qs__in row = qs__in_at(j->table, j->ids[i] * j->features);
        const qs__out to = qs__out_at(j->dst, i * j->features);
        if (row.type == to.type) {
            memcpy(to.at, row.at, (size_t)j->features * (row.type == QS__FP32 ? sizeof(float) : sizeof(uint16_t)));
            continue;
        }
        for (int64_t first = 0; first < j->features; first += PIECE) {
            const int64_t count = j->features - first < PIECE ? j->features - first : PIECE;
            qs_convert_to_fp32(format_of(row.type), count, qs__in_at(row, first).at, piece);
            qs_convert_from_fp32(format_of(to.type), QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, (qs_random_stream){0}, count, piece,
                                 qs__out_at(to, first).at);
        }
    }
}

static void sums_clear(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    memset(j->sums + begin, 0, (size_t)(end - begin) * sizeof *j->sums);
}

static void columns_add(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const qs_format *format = format_of(j->gradient.type);
    for (int64_t first = begin * COLUMNS; first < j->features && first < end * COLUMNS; first += COLUMNS) {
        const int64_t count = j->features - first < COLUMNS ? j->features - first : COLUMNS;
        for (int64_t i = 0; i < j->positions; i++) {
            float *sum = j->sums + j->ids[i] * j->features + first, values[COLUMNS];
            qs_convert_to_fp32(format, count, qs__in_at(j->gradient, i * j->features + first).at, values);
            for (int64_t d = 0; d < count; d++)
                sum[d] += values[d];
        }
    }
}

static qs_status run(const qs__chain *chain, const qs_run *of) {
    (void)of;
    const qs_case *one = &chain->one;
    const bool forward = qs_case_position(one, QS_DST) >= 0;
    const qs_shape *table = &qs__case_operand(one, forward ? QS_WEIGHTS : QS_DIFF_WEIGHTS)->shape;
    job j = {.ids = qs__cpu_data(chain, QS_IDS), .positions = qs__case_count(one, QS_IDS), .features = table->dim[1]};
    QS_TRY(qs_ids_check(one, j.ids));
    if (forward) {
        j.table = qs__staged_in(chain, QS_WEIGHTS);
        j.dst = qs__staged_out(chain, QS_DST);
        qs_parallel(j.positions, 1 + QS__GRAIN / j.features, positions_take, &j);
        return QS_OK;
    }
    j.gradient = qs__staged_in(chain, QS_DIFF_DST);
    j.sums = qs__cpu_data(chain, QS_DIFF_WEIGHTS);
    if (!one->attributes.accumulate) qs_parallel(qs_shape_count(table), QS__GRAIN, sums_clear, &j);
    qs_parallel((j.features + COLUMNS - 1) / COLUMNS, 1, columns_add, &j);
    return QS_OK;
}

qs_status qs__build_embedding(qs__chain *chain) {
    return qs__staged_build(chain, "embedding", run);
}
