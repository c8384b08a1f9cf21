// SPDX-License-Identifier: Apache-2.0
#ifndef QSYNC_CLI_ACCUM_H
#define QSYNC_CLI_ACCUM_H

#include <math.h>
#include <string.h>

#include "qsync/accumulator.h"
#include "cli.h"

/* accum_picture.c: the exponent n (1 - VRR) over the width, plain and in chunks, as a self-contained SVG file. */
qs_status accum_curve_write(const char *path, const qs_accumulation *sum, int normal_bits);

/* The sums of a model on the curves of all widths over the length. */
typedef struct accum_model {
    const qs_graph *graph;
    int64_t batch;
    qs_accumulation sum;             /* chunk: of the chunked sums; length: not used */
    const qs_statistics *statistics; /* NULL: zeros as sum.nonzero says */
    const qs_adder *adder;           /* NULL: the formula */
} accum_model;
qs_status accum_model_curve_write(const char *path, const accum_model *what);

/* What --simulate asks. */
typedef struct accum_measurement {
    qs_accumulation sum; /* chunk: of the chunked sums */
    int64_t trials, seed;
    int least; /* bits: the first width measured; 0: the products' */
    int threads;
    const char *adder, *addends, *svg; /* adder: a name or "all"; addends: "products" or "normal" */
    bool json;
} accum_measurement;

/* An estimate that 95 % of repetitions have within ± interval of the true value. */
typedef struct measured {
    double value, interval;
} measured;

enum { ORDER_NORMAL, ORDER_CHUNKED, ORDERS };
/* One adder and width: n (1 - VRR), in chunks that of the stage which loses more. */
typedef struct accum_point {
    bool known;
    qs_retention retention[ORDERS];
    measured exponent[ORDERS];
} accum_point;

typedef struct accum_adder {
    const qs_adder *adder;
    accum_point point[QS_WIDEST_ADDER + 1]; /* [bits] */
} accum_adder;

/* The first width whose exponent, moved by `sides` times its interval, is below the limit; 0: none of those measured. */
static inline int accum_width(const accum_adder *one, int order, double sides) {
    for (int b = 1; b <= QS_WIDEST_ADDER; b++) {
        const measured exponent = one->point[b].exponent[order];
        if (one->point[b].known && exponent.value + sides * exponent.interval < QS_ACCUMULATION_EXPONENT) return b;
    }
    return 0;
}

/* n (1 - VRR) as derived for an adder (qs_adder_exponent); NAN where nothing is. */
static inline double accum_derived_exponent(const accum_measurement *what, const qs_adder *adder, int order, int bits) {
    const qs_addends addends = strcmp(what->addends, "normal") == 0 ? QS_ADDENDS_NORMAL : QS_ADDENDS_PRODUCTS;
    qs_accumulation sum = what->sum;
    double exponent;
    if (order == ORDER_NORMAL) sum.chunk = 0;
    return qs_adder_exponent(adder, addends, &sum, bits, &exponent) == QS_OK ? exponent : NAN;
}

/* accum_measure.c: measures adders until each has the width that it needs, and prints or draws that beside the formula. */
qs_status accum_measure(const accum_measurement *what);
/* accum_picture.c: measured exponents of `adders` over the width, with intervals, beside the formula's. */
qs_status accum_measured_write(const char *path, const accum_measurement *what, int adders, const accum_adder *one);

/* accum_plan.c: reads a plan, gives its operators accumulators, writes and prints it. */
typedef struct accum_planning {
    const char *plan_file, *out;
    accumulate_options accumulate;
    const qs_graph *graph;
    int64_t batch;
    const qs_statistics *statistics;
    bool json;
} accum_planning;
qs_status accum_plan(const accum_planning *what);

#endif
