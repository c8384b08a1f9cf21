// SPDX-License-Identifier: Apache-2.0
/* The formula's speed. How many terms it sums one by one, and how many panels it integrates, depends on the width: so all widths are timed,
 * and the slowest counts. */
#include "bench_accum.h"

#include <stdlib.h>

#include "qsync/accumulator.h"

enum { ROUNDS = 9 };

static const qs_accumulation sum = {.product_bits = 5, .length = 1000000000, .nonzero = 1};

typedef struct figures {
    double worst_ms, search_ms;
    int worst_width, bits; /* bits: what the search finds */
} figures;

static int number_compare(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Rounds have an outlier or two, whatever else the machine does. */
static double median_of(double *ms) {
    qsort(ms, ROUNDS, sizeof *ms, number_compare);
    return ms[ROUNDS / 2];
}

static qs_status width_time(int width, figures *out) {
    double ms[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) {
        double loss;
        const double start = qs_clock();
        QS_TRY(qs_accumulation_loss(&sum, width, &loss));
        ms[r] = (qs_clock() - start) * 1e3;
    }
    const double median = median_of(ms);
    if (median <= out->worst_ms) return QS_OK;
    out->worst_ms = median;
    out->worst_width = width;
    return QS_OK;
}

static qs_status search_time(figures *out) {
    double ms[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) {
        const double start = qs_clock();
        QS_TRY(qs_accumulation_bits(&sum, &out->bits));
        ms[r] = (qs_clock() - start) * 1e3;
    }
    out->search_ms = median_of(ms);
    return QS_OK;
}

qs_status bench_accum(bool json) {
    figures all = {0};
    for (int width = sum.product_bits; width <= QS_MOST_ACCUMULATOR_BITS; width++)
        QS_TRY(width_time(width, &all));
    QS_TRY(search_time(&all));
    if (json)
        return json_print(json_pack("{s:I,s:i,s:f,s:i,s:f,s:i}", "length", (json_int_t)sum.length, "product_bits", sum.product_bits,
                                    "vrr_ms", all.worst_ms, "worst_width", all.worst_width, "bits_ms", all.search_ms, "bits", all.bits));
    printf("%lld products of %d mantissa bits: one VRR takes %s at worst (%d bits)", (long long)sum.length, sum.product_bits,
           time_text(all.worst_ms * 1e3), all.worst_width);
    printf(", finding that %d bits are enough %s\n", all.bits, time_text(all.search_ms * 1e3));
    return QS_OK;
}
