// SPDX-License-Identifier: Apache-2.0
/* A model's sums on the curves of variance retention: n (1 - VRR), logarithmic, over the length, a curve a width. Where a curve rises
 * through ln 50 is its knee; each GEMM is a dot on the curve of the first width whose knee lies beyond its length. */
#include <math.h>
#include <stdio.h>

#include "accum.h"

enum { PANEL = 440, HEIGHT = 460, LEFT = 60, RIGHT = 20, TOP = 60, BOTTOM = 90, STEPS_PER_OCTAVE = 2 };
static const double lowest = -3, highest = 3; /* powers of ten of the exponent */
static const char *const gemm_colours[] = {"#1f5fa8", "#b35900", "#2f8f2f"};

typedef struct panel {
    FILE *file;
    const accum_model *what;
    int order;
    double last; /* power of two of the longest length drawn */
} panel;

static double x_of(const panel *one, double length) {
    return one->order * PANEL + LEFT + log2(length) / one->last * (PANEL - LEFT - RIGHT);
}

static double y_of(double exponent) {
    const double power = fmin(fmax(log10(fmax(exponent, 1e-300)), lowest), highest);
    return HEIGHT - BOTTOM - (power - lowest) / (highest - lowest) * (HEIGHT - TOP - BOTTOM);
}

static qs_accumulation sum_of(const panel *one, int64_t length) {
    qs_accumulation sum = one->what->sum;
    sum.length = length;
    if (one->order == ORDER_NORMAL) sum.chunk = 0;
    return sum;
}

/* By the adder that was asked for, else by the formula. */
static qs_status exponent_of(const panel *one, const qs_accumulation *sum, int bits, double *out) {
    if (!one->what->adder) return qs_accumulation_exponent(sum, bits, out);
    QS_TRY(qs_adder_exponent(one->what->adder, QS_ADDENDS_PRODUCTS, sum, bits, out));
    *out = fabs(*out);
    return QS_OK;
}

static qs_status bits_of(const panel *one, const qs_accumulation *sum, int *out) {
    return one->what->adder ? qs_adder_bits(one->what->adder, QS_ADDENDS_PRODUCTS, sum, out) : qs_accumulation_bits(sum, out);
}

static void axes_draw(const panel *one) {
    const double left = x_of(one, 1), right = x_of(one, exp2(one->last)), limit = y_of(QS_ACCUMULATION_EXPONENT);
    char title[64] = "one after the other";
    if (one->order == ORDER_CHUNKED) snprintf(title, sizeof title, "in chunks of %lld", (long long)one->what->sum.chunk);
    fprintf(one->file, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", (left + right) / 2, TOP - 14, title);
    for (double p = 0; p <= one->last; p += 4)
        fprintf(one->file, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.0f</text>\n", x_of(one, exp2(p)), HEIGHT - BOTTOM + 18,
                exp2(p));
    for (double p = lowest; p <= highest; p++)
        fprintf(one->file, "<path d=\"M%.1f %.1f H%.1f\" stroke=\"#ddd\"/>\n<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
                left, y_of(pow(10, p)), right, left - 6, y_of(pow(10, p)) + 4, pow(10, p));
    fprintf(one->file,
            "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">products in the sum</text>\n"
            "<path d=\"M%.1f %.1f H%.1f\" stroke=\"#c00\" stroke-dasharray=\"2 3\"/>\n"
            "<text x=\"%.1f\" y=\"%.1f\" fill=\"#c00\">ln 50</text>\n",
            (left + right) / 2, HEIGHT - BOTTOM + 36, left, limit, right, left + 4, limit - 5);
}

/* From the last length at the bottom edge to the first at the top edge, with the width where it passes the limit. */
static qs_status width_draw(const panel *one, int bits) {
    const int steps = (int)(one->last * STEPS_PER_OCTAVE);
    double before = 0, exponent = 0, before_y = 0;
    fprintf(one->file, "<path fill=\"none\" stroke=\"#888\" d=\"");
    char move = 'M';
    double knee = 0;
    for (int i = 0; i <= steps && before < pow(10, highest); i++, before = exponent) {
        const double length = exp2((double)i / STEPS_PER_OCTAVE);
        const qs_accumulation sum = sum_of(one, (int64_t)llround(length));
        QS_TRY(exponent_of(one, &sum, bits, &exponent));
        const double y = y_of(exponent), limit = y_of(QS_ACCUMULATION_EXPONENT);
        fprintf(one->file, "%c%.1f %.1f ", move, x_of(one, length), y);
        if (knee == 0 && i > 0 && y < limit)
            knee = x_of(one, length) - (limit - y) / fmax(before_y - y, 1e-9) * (x_of(one, 2) - x_of(one, 1)) / STEPS_PER_OCTAVE;
        before_y = y;
        move = 'L';
    }
    fprintf(one->file, "\"/>\n");
    if (knee > 0)
        fprintf(one->file,
                "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"#c00\"/>\n<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%d</text>\n",
                knee, y_of(QS_ACCUMULATION_EXPONENT), knee - 4, y_of(QS_ACCUMULATION_EXPONENT) - 5 - bits % 2 * 12, bits);
    return QS_OK;
}

/* Calls for every GEMM that runs. */
static qs_status sums_each(const panel *one, qs_status (*visit)(const panel *one, const qs_accumulation *sum, qs_gemm gemm, int *most),
                           int *most) {
    const accum_model *what = one->what;
    for (int n = 1; n < what->graph->nodes; n++)
        for (qs_gemm gemm = 0; what->graph->node[n].op->kind == QS_ADJUSTABLE && gemm < QS_GEMMS; gemm++) {
            qs_accumulation sum = sum_of(one, qs_gemm_length(what->graph, n, gemm, what->batch));
            if (what->statistics) sum.nonzero = qs_gemm_nonzero(what->statistics, what->graph->node[n].name, gemm);
            if (sum.length > 0) QS_TRY(visit(one, &sum, gemm, most));
        }
    return QS_OK;
}

static qs_status longest(const panel *one, const qs_accumulation *sum, qs_gemm gemm, int *most) {
    (void)one;
    (void)gemm;
    while (*most < 40 && sum->length > (int64_t)1 << *most)
        ++*most;
    return QS_OK;
}

static qs_status most_bits(const panel *one, const qs_accumulation *sum, qs_gemm gemm, int *most) {
    int bits;
    (void)gemm;
    QS_TRY(bits_of(one, sum, &bits));
    if (bits > *most) *most = bits;
    return QS_OK;
}

static qs_status sum_draw(const panel *one, const qs_accumulation *sum, qs_gemm gemm, int *most) {
    int bits;
    double exponent;
    (void)most;
    QS_TRY(bits_of(one, sum, &bits));
    QS_TRY(exponent_of(one, sum, bits, &exponent));
    fprintf(one->file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\"><title>%s, %lld products: %d bits</title></circle>\n",
            x_of(one, (double)sum->length), y_of(exponent), gemm_colours[gemm], qs_gemm_name(gemm), (long long)sum->length, bits);
    return QS_OK;
}

static qs_status panel_draw(const panel *one) {
    int most = one->what->sum.product_bits;
    QS_TRY(sums_each(one, most_bits, &most));
    axes_draw(one);
    for (int bits = one->what->sum.product_bits; bits <= most; bits++)
        QS_TRY(width_draw(one, bits));
    return sums_each(one, sum_draw, NULL);
}

static void key_draw(FILE *file, const accum_model *what) {
    for (qs_gemm gemm = 0; gemm < QS_GEMMS; gemm++)
        fprintf(file, "<circle cx=\"%d\" cy=\"%d\" r=\"4\" fill=\"%s\"/>\n<text x=\"%d\" y=\"%d\">%s</text>\n", LEFT + 130 * (int)gemm,
                HEIGHT - 32, gemm_colours[gemm], LEFT + 130 * (int)gemm + 10, HEIGHT - 28, qs_gemm_name(gemm));
    fprintf(file, "<text x=\"%d\" y=\"%d\">grey: mantissa bits of the accumulator, red their knees. %s</text>\n", LEFT, HEIGHT - 8,
            what->statistics ? "Products that are zero move dots below the curves of full sums."
                             : "Dots on the edge lie at 0.001 or below.");
}

static qs_status model_draw(FILE *file, const void *context) {
    const accum_model *what = context;
    panel one = {file, what, 0, 0};
    int last = 8;
    QS_TRY(sums_each(&one, longest, &last));
    one.last = last + 1;
    fprintf(file, "<text x=\"%d\" y=\"24\" font-size=\"14\">n (1 - VRR) of %s, batch %lld, products of %d mantissa bits, by %s</text>\n",
            LEFT, what->graph->name, (long long)what->batch, what->sum.product_bits,
            what->adder ? qs_adder_name(what->adder) : "the formula");
    for (; one.order < ORDERS; one.order++)
        QS_TRY(panel_draw(&one));
    key_draw(file, what);
    return QS_OK;
}

qs_status accum_model_curve_write(const char *path, const accum_model *what) {
    return accum_picture_write(path, ORDERS * PANEL, HEIGHT, model_draw, what);
}
