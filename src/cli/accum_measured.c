// SPDX-License-Identifier: Apache-2.0
/* What was measured as a picture: n (1 - VRR), logarithmic, over the width; an adder is
 * points with intervals, on the line that is derived for it; the formula is a dashed line. */
#include <math.h>
#include <stdio.h>

#include "accum.h"

enum { PANEL = 400, HEIGHT = 440, LEFT = 60, RIGHT = 15, TOP = 60, BOTTOM = 120 };

typedef struct panel {
    FILE *file;
    const accum_simulation *what;
    int order, first, last; /* bits */
    double highest;         /* power of ten; the lowest is 10^-1 */
} panel;

static const char *const colours[] = {"#1f5fa8", "#b35900", "#2f8f2f", "#7b3fa0", "#8a6d00", "#007f8a"};

static double x_of(const panel *one, double bits) {
    return one->order * PANEL + LEFT + (bits - one->first) / (one->last - one->first) * (PANEL - LEFT - RIGHT);
}

static double y_of(const panel *one, double exponent) {
    const double power = fmin(log10(fmax(exponent, 0.1)), one->highest);
    return HEIGHT - BOTTOM - (power + 1) / (one->highest + 1) * (HEIGHT - TOP - BOTTOM);
}

static void axes_draw(const panel *one) {
    const double left = x_of(one, one->first), right = x_of(one, one->last), limit = y_of(one, QS_ACCUMULATION_EXPONENT);
    char title[64] = "one after the other";
    if (one->order == ORDER_CHUNKED) snprintf(title, sizeof title, "in chunks of %lld", (long long)one->what->sum.chunk);
    fprintf(one->file, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", (left + right) / 2, TOP - 10, title);
    for (int b = one->first; b <= one->last; b++)
        fprintf(one->file, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d</text>\n", x_of(one, b), HEIGHT - BOTTOM + 18, b);
    for (double p = -1; p <= one->highest; p++) {
        const double y = y_of(one, pow(10, p));
        fprintf(one->file, "<path d=\"M%.1f %.1f H%.1f\" stroke=\"#ddd\"/>\n<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
                left, y, right, left - 6, y + 4, pow(10, p));
    }
    fprintf(one->file, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">mantissa bits of the accumulator</text>\n", (left + right) / 2,
            HEIGHT - BOTTOM + 38);
    fprintf(one->file,
            "<path d=\"M%.1f %.1f H%.1f\" stroke=\"#c00\" stroke-dasharray=\"2 3\"/>\n"
            "<text x=\"%.1f\" y=\"%.1f\" fill=\"#c00\" text-anchor=\"end\">ln 50: below is enough</text>\n",
            left, limit, right, right, limit - 6);
}

/* The line that is derived for an adder; points, measured, with their intervals. */
static void adder_draw(const panel *one, const accum_adder *adder, const char *colour) {
    char step = 'M';
    fprintf(one->file, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" d=\"", colour);
    for (int b = one->first; b <= one->last; b++) {
        const double exponent = accum_derived_exponent(one->what, adder->adder, one->order, b);
        if (isnan(exponent)) continue;
        fprintf(one->file, "%c%.1f %.1f ", step, x_of(one, b), y_of(one, exponent));
        step = 'L';
    }
    fprintf(one->file, "\"/>\n");
    for (int b = one->first; b <= one->last; b++) {
        const measured exponent = adder->point[b].exponent[one->order];
        if (!adder->point[b].known) continue;
        fprintf(one->file, "<path stroke=\"%s\" d=\"M%.1f %.1f V%.1f\"/>\n<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", colour,
                x_of(one, b), y_of(one, exponent.value - exponent.interval), y_of(one, exponent.value + exponent.interval), x_of(one, b),
                y_of(one, exponent.value), colour);
    }
}

static qs_status formula_draw(const panel *one) {
    qs_accumulation sum = one->what->sum;
    char step = 'M';
    if (one->order == ORDER_NORMAL) sum.chunk = 0;
    fprintf(one->file, "<path fill=\"none\" stroke=\"black\" stroke-width=\"2\" stroke-dasharray=\"7 4\" d=\"");
    for (int b = one->first; b <= one->last; b++) {
        double exponent;
        if (b < sum.product_bits) continue;
        QS_TRY(qs_accumulation_exponent(&sum, b, &exponent));
        fprintf(one->file, "%c%.1f %.1f ", step, x_of(one, b), y_of(one, exponent));
        step = 'L';
    }
    fprintf(one->file, "\"/>\n");
    return QS_OK;
}

static qs_status panel_draw(const panel *one, int adders, const accum_adder *adder) {
    axes_draw(one);
    QS_TRY(formula_draw(one));
    for (int a = 0; a < adders; a++)
        adder_draw(one, &adder[a], colours[(size_t)a % (sizeof colours / sizeof *colours)]);
    return QS_OK;
}

/* Names and widths below the panels, in three columns. */
static void key_draw(FILE *file, const accum_simulation *what, int adders, const accum_adder *one) {
    for (int a = 0; a < adders; a++) {
        const int x = LEFT + a % 3 * 255, y = HEIGHT - BOTTOM + 68 + a / 3 * 20;
        char bits[ORDERS][8];
        for (int o = 0; o < ORDERS; o++) {
            const int width = accum_width(&one[a], o, 0);
            snprintf(bits[o], sizeof bits[o], width ? "%d" : "?", width);
        }
        fprintf(file, "<text x=\"%d\" y=\"%d\" fill=\"%s\">%s: %s bits, chunked %s</text>\n", x, y,
                colours[(size_t)a % (sizeof colours / sizeof *colours)], qs_adder_name(one[a].adder), bits[ORDER_NORMAL],
                bits[ORDER_CHUNKED]);
    }
    fprintf(
        file,
        "<text x=\"%d\" y=\"%d\">points: of %lld trials, 95 %%; lines: derived for the adder; dashed: the formula; on the edge: below 0.1"
        "</text>\n",
        LEFT, HEIGHT - 8, (long long)what->trials);
}

/* What was measured. */
typedef struct measurements {
    const accum_simulation *what;
    int adders;
    const accum_adder *one;
} measurements;

static qs_status measured_draw(FILE *file, const void *context) {
    const measurements *all = context;
    const accum_simulation *what = all->what;
    panel each = {file, what, 0, what->least, what->least + 1, ceil(log10((double)what->sum.length))};
    for (int a = 0; a < all->adders; a++)
        for (int b = each.last; b <= QS_WIDEST_ADDER; b++)
            if (all->one[a].point[b].known) each.last = b;
    fprintf(file, "<text x=\"%d\" y=\"24\" font-size=\"14\">n (1 - VRR) measured: %lld products with %d mantissa bits (%s)</text>\n", LEFT,
            (long long)what->sum.length, what->sum.product_bits, what->addends);
    for (; each.order < ORDERS; each.order++)
        QS_TRY(panel_draw(&each, all->adders, all->one));
    key_draw(file, what, all->adders, all->one);
    return QS_OK;
}

qs_status accum_measured_write(const char *path, const accum_simulation *what, int adders, const accum_adder *one) {
    return accum_picture_write(path, ORDERS * PANEL, HEIGHT, measured_draw, &(measurements){what, adders, one});
}
