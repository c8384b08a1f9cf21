// SPDX-License-Identifier: Apache-2.0
/* gelu in fp32, by the C library's erfcf and expf, element by element: the same bits for any threads and instruction set. */
#include "cpu/staging.h"

#include <math.h>

enum { PIECE = 256 };

typedef struct job {
    qs__in src, diff; /* diff: backward only */
    qs__out dst;
    bool backward;
} job;

static void piece_read(qs__in from, int64_t first, int64_t count, float *to) {
    const qs__in at = qs__in_at(from, first);
    qs_convert_to_fp32(qs_format_of(from.type == QS__BF16 ? "bf16" : "fp32"), count, at.at, to);
}

static void range(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const float root_half = 0.70710678f, density_scale = 0.39894228f; /* 1/sqrt(2), 1/sqrt(2 pi) */
    for (int64_t first = begin; first < end; first += PIECE) {
        const int64_t count = end - first < PIECE ? end - first : PIECE;
        float x[PIECE], diff[PIECE];
        piece_read(j->src, first, count, x);
        if (j->backward) piece_read(j->diff, first, count, diff);
        for (int64_t i = 0; i < count; i++) {
            const float below = erfcf(-x[i] * root_half) / 2;
            x[i] = j->backward ? diff[i] * (below + x[i] * density_scale * expf(-x[i] * x[i] / 2)) : x[i] * below;
        }
        qs_convert_from_fp32(qs_format_of(j->dst.type == QS__BF16 ? "bf16" : "fp32"), QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT,
                             (qs_random_stream){0}, count, x, qs__out_at(j->dst, first).at);
    }
}

static qs_status run(const qs__chain *chain, const qs_run *of) {
    (void)of;
    const bool backward = qs_case_position(&chain->one, QS_DIFF_DST) >= 0;
    job j = {.src = qs__staged_in(chain, QS_SRC), .dst = qs__staged_out(chain, backward ? QS_DIFF_SRC : QS_DST), .backward = backward};
    if (backward) j.diff = qs__staged_in(chain, QS_DIFF_DST);
    qs_parallel(qs__cpu_count(&chain->one, QS_SRC), QS__GRAIN / 8, range, &j);
    return QS_OK;
}

qs_status qs__build_gelu(qs__chain *chain) {
    return qs__staged_build(chain, "gelu", run);
}
