// SPDX-License-Identifier: Apache-2.0
/* qsync-bench accum: how long the formula of variance retention takes. How many terms it sums one by one, and how many panels it
 * integrates, depends on the width: so all widths are timed, and the slowest counts. */
#include "bench.h"

#include "qsync/accumulator.h"

enum { ROUNDS = 9 };

static const qs_accumulation sum = {.product_bits = 5, .length = 1000000000, .nonzero = 1};

typedef struct figures {
    double worst_ms, search_ms;
    int worst_width, bits; /* bits: what the search finds */
} figures;

static qs_status width_time(int width, figures *out) {
    double ms[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) {
        double loss;
        const double start = qs_clock();
        QS_TRY(qs_accumulation_loss(&sum, width, &loss));
        ms[r] = (qs_clock() - start) * 1e3;
    }
    const double usual_ms = median(ms, ROUNDS); /* rounds have an outlier or two, whatever else the machine does */
    if (usual_ms <= out->worst_ms) return QS_OK;
    out->worst_ms = usual_ms;
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
    out->search_ms = median(ms, ROUNDS);
    return QS_OK;
}

static const option_row option_rows[] = {
    {OPTION_JSON(bench_request)},
};

qs_status bench_accum(int argc, char **argv) {
    const verb_usage usage = {
        .verb = "accum",
        .arguments = "",
        .purpose = "How long the formula of variance retention takes for a sum of 10^9 products of 5 mantissa bits: one evaluation at the\n"
                   "width where it takes longest, and the search for the width that is enough."};
    bench_request asked = {0};
    bool done = false;
    option_table table = {0};
    figures all = {0};
    OPTIONS_ADD(&table, option_rows, &asked);
    QS_TRY(bench_options(&table, &usage, argc, argv, &done));
    if (done) return QS_OK;
    for (int width = sum.product_bits; width <= QS_MOST_ACCUMULATOR_BITS; width++)
        QS_TRY(width_time(width, &all));
    QS_TRY(search_time(&all));
    if (asked.json)
        return json_print(json_pack("{s:I,s:i,s:f,s:i,s:f,s:i}", "length", (json_int_t)sum.length, "product_bits", sum.product_bits,
                                    "vrr_ms", all.worst_ms, "worst_width", all.worst_width, "bits_ms", all.search_ms, "bits", all.bits));
    printf("%lld products of %d mantissa bits: one VRR takes %s at worst (%d bits)", (long long)sum.length, sum.product_bits,
           time_text(all.worst_ms * 1e3), all.worst_width);
    printf(", finding that %d bits are enough %s\n", all.bits, time_text(all.search_ms * 1e3));
    return QS_OK;
}
