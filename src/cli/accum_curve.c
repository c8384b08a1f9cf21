// SPDX-License-Identifier: Apache-2.0
/* The curve of accum as a picture: n (1 - VRR), logarithmic, over the mantissa bits of the accumulator. */
#include <math.h>
#include <stdio.h>

#include "accum.h"

enum { WIDTH = 640, HEIGHT = 400, LEFT = 70, RIGHT = 20, TOP = 50, BOTTOM = 50 };

typedef struct plot {
    FILE *file;
    int first, last;        /* bits */
    double lowest, highest; /* powers of ten */
} plot;

static double x_of(const plot *one, double bits) {
    return LEFT + (bits - one->first) / (one->last - one->first) * (WIDTH - LEFT - RIGHT);
}

static double y_of(const plot *one, double exponent) {
    const double power = fmin(fmax(log10(fmax(exponent, 1e-300)), one->lowest), one->highest);
    return HEIGHT - BOTTOM - (power - one->lowest) / (one->highest - one->lowest) * (HEIGHT - TOP - BOTTOM);
}

static void axes_draw(const plot *one) {
    for (int b = one->first; b <= one->last; b++)
        fprintf(one->file, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d</text>\n", x_of(one, b), HEIGHT - BOTTOM + 18, b);
    for (double p = one->lowest; p <= one->highest; p += 2) {
        const double y = y_of(one, pow(10, p));
        fprintf(one->file, "<path d=\"M%d %.1f H%d\" stroke=\"#ddd\"/>\n<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">1e%g</text>\n", LEFT,
                y, WIDTH - RIGHT, LEFT - 6, y + 4, p);
    }
    fprintf(one->file,
            "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">mantissa bits of the accumulator</text>\n"
            "<path d=\"M%d %.1f H%d\" stroke=\"#c00\" stroke-dasharray=\"6 4\"/>\n<text x=\"%d\" y=\"%.1f\" fill=\"#c00\" "
            "text-anchor=\"end\">ln 50: below is enough</text>\n",
            (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, LEFT, y_of(one, QS_ACCUMULATION_EXPONENT), WIDTH - RIGHT, WIDTH - RIGHT - 4,
            y_of(one, QS_ACCUMULATION_EXPONENT) - 6);
}

/* A line with its knee, the first width that is enough. */
static qs_status line_draw(const plot *one, const qs_accumulation *sum, const char *colour, const char *label, int row) {
    int knee;
    double exponent;
    QS_TRY(qs_accumulation_bits(sum, &knee));
    fprintf(one->file, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"2\" d=\"", colour);
    for (int b = one->first; b <= one->last; b++) {
        QS_TRY(qs_accumulation_exponent(sum, b, &exponent));
        fprintf(one->file, "%c%.1f %.1f ", b == one->first ? 'M' : 'L', x_of(one, b), y_of(one, exponent));
    }
    QS_TRY(qs_accumulation_exponent(sum, knee, &exponent));
    fprintf(one->file, "\"/>\n<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\" fill=\"%s\"/>\n", x_of(one, knee), y_of(one, exponent), colour);
    fprintf(one->file, "<text x=\"%d\" y=\"%d\" fill=\"%s\" text-anchor=\"end\">%s: %d bits</text>\n", WIDTH - RIGHT, TOP + 18 * row,
            colour, label, knee);
    return QS_OK;
}

/* What is drawn of which sum. */
typedef struct curve {
    const qs_accumulation *sum;
    int normal_bits;
} curve;

static qs_status curve_draw(FILE *file, const void *context) {
    const curve *what = context;
    const double highest = fmax(2, ceil(log10((double)what->sum->length)));
    const plot one = {file, what->sum->product_bits, what->normal_bits + 4, -4, highest + fmod(highest, 2)};
    qs_accumulation plain = *what->sum;
    char label[64];
    plain.chunk = 0;
    fprintf(file, "<text x=\"%d\" y=\"24\" font-size=\"14\">n (1 - VRR) of %lld products with %d mantissa bits, %.3g %% not zero</text>\n",
            LEFT, (long long)plain.length, plain.product_bits, 100 * plain.nonzero);
    axes_draw(&one);
    snprintf(label, sizeof label, "chunks of %lld", (long long)what->sum->chunk);
    QS_TRY(line_draw(&one, &plain, "#1f5fa8", "one after the other", 1));
    return line_draw(&one, what->sum, "#b35900", label, 2);
}

qs_status accum_curve_write(const char *path, const qs_accumulation *sum, int normal_bits) {
    return accum_picture_write(path, WIDTH, HEIGHT, curve_draw, &(curve){sum, normal_bits});
}
