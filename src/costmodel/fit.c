// SPDX-License-Identifier: Apache-2.0
/* Piecewise linear fits of conversion times (docs/method.md §4.4): least squares on relative errors, so that small and large sizes count
 * alike; a negative intercept or slope is refused and fitted again without it. More pieces must pay for their parameters (Bayesian
 * criterion). */
#include <float.h>
#include <math.h>

#include "qsync/costmodel.h"

#define PIECE_POINTS 3
#define NOISE 1e-3 /* relative; no timer tells more, so smaller residuals earn a fit nothing */

typedef struct line {
    double slope, intercept;
    double error; /* sum of squared relative residuals */
} line;

static line line_fit(int points, const double *x, const double *y) {
    double w0 = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
    for (int i = 0; i < points; i++) {
        const double weight = 1.0 / (y[i] * y[i]);
        w0 += weight;
        wx += weight * x[i];
        wy += weight * y[i];
        wxx += weight * x[i] * x[i];
        wxy += weight * x[i] * y[i];
    }
    const double determinant = w0 * wxx - wx * wx;
    line fit = {0};
    if (determinant > 0) {
        fit.slope = (w0 * wxy - wx * wy) / determinant;
        fit.intercept = (wy - fit.slope * wx) / w0;
    }
    if (determinant <= 0 || fit.slope < 0) {
        fit.slope = 0;
        fit.intercept = wy / w0;
    } else if (fit.intercept < 0) {
        fit.intercept = 0;
        fit.slope = wxy / wxx;
    }
    for (int i = 0; i < points; i++) {
        const double residual = (fit.slope * x[i] + fit.intercept - y[i]) / y[i];
        fit.error += residual * residual;
    }
    return fit;
}

static void piece_fill(int points, const double *x, const double *y, const line *fit, qs_fit_piece *piece) {
    double mean = 0, total = 0, left = 0, worst = 0, residuals = 0;
    for (int i = 0; i < points; i++)
        mean += y[i] / points;
    for (int i = 0; i < points; i++) {
        const double residual = fit->slope * x[i] + fit->intercept - y[i];
        total += (y[i] - mean) * (y[i] - mean);
        left += residual * residual;
        worst = fmax(worst, fabs(residual) / y[i]);
        residuals += fabs(residual) / y[i] / points;
    }
    *piece = (qs_fit_piece){.to_elements = (int64_t)x[points - 1],
                            .us_per_element = fit->slope,
                            .us = fit->intercept,
                            .worst_residual = worst,
                            .mean_residual = residuals};
    piece->r2 = total > 0 ? 1 - left / total : 1;
}

static double criterion(int points, int pieces, double error) {
    return points * log(fmax(error / points, NOISE * NOISE)) + (3 * pieces - 1) * log(points);
}

typedef struct cut {
    int pieces;
    int end[3]; /* points up to which each piece reaches */
    double score;
} cut;

static void cut_try(int points, const double *x, const double *y, int pieces, const int *end, cut *best) {
    double error = 0;
    for (int p = 0; p < pieces; p++) {
        const int begin = p ? end[p - 1] : 0;
        error += line_fit(end[p] - begin, x + begin, y + begin).error;
    }
    const double score = criterion(points, pieces, error);
    if (score >= best->score) return;
    best->pieces = pieces;
    for (int p = 0; p < pieces; p++)
        best->end[p] = end[p];
    best->score = score;
}

static cut cut_best(int points, const double *x, const double *y) {
    cut best = {.score = DBL_MAX};
    cut_try(points, x, y, 1, (int[]){points}, &best);
    for (int a = PIECE_POINTS; a + PIECE_POINTS <= points; a++) {
        cut_try(points, x, y, 2, (int[]){a, points}, &best);
        for (int b = a + PIECE_POINTS; b + PIECE_POINTS <= points; b++)
            cut_try(points, x, y, 3, (int[]){a, b, points}, &best);
    }
    return best;
}

static qs_status points_check(int points, int least, const double *elements, const double *us) {
    if (points < least) return qs_fail(QS_USAGE, "fit over %d points: needs at least %d", points, least);
    for (int i = 0; i < points; i++) {
        if (!(us[i] > 0) || !isfinite(us[i]))
            return qs_fail(QS_USAGE, "fit: time %g at %g elements must be positive and finite", us[i], elements[i]);
        if (i && elements[i] <= elements[i - 1])
            return qs_fail(QS_USAGE, "fit: sizes must ascend (%g after %g)", elements[i], elements[i - 1]);
    }
    return QS_OK;
}

qs_status qs_fit_line(int points, const double *x, const double *us, qs_fit_piece *out) {
    QS_TRY(points_check(points, 2, x, us));
    const line fit = line_fit(points, x, us);
    piece_fill(points, x, us, &fit, out);
    return QS_OK;
}

/* Between the last size of a piece and the first of the next nothing was measured: they change where they cross, or in the middle. */
static double border_of(const qs_fit_piece *left, const qs_fit_piece *right, double from, double to) {
    const double slopes = left->us_per_element - right->us_per_element, cross = slopes == 0 ? 0 : (right->us - left->us) / slopes;
    return cross >= from && cross < to ? cross : sqrt(from * to);
}

qs_status qs_fit_make(int points, const double *elements, const double *us, qs_fit *out) {
    QS_TRY(points_check(points, PIECE_POINTS, elements, us));
    const cut best = cut_best(points, elements, us);
    *out = (qs_fit){.pieces = best.pieces};
    for (int p = 0; p < best.pieces; p++) {
        const int begin = p ? best.end[p - 1] : 0, count = best.end[p] - begin;
        const line fit = line_fit(count, elements + begin, us + begin);
        piece_fill(count, elements + begin, us + begin, &fit, &out->piece[p]);
        if (p == 0) continue;
        out->piece[p - 1].to_elements = (int64_t)border_of(&out->piece[p - 1], &out->piece[p], elements[begin - 1], elements[begin]);
    }
    return QS_OK;
}

double qs_fit_value(int pieces, const qs_fit_piece *piece, double elements) {
    int p = 0;
    while (p + 1 < pieces && elements > (double)piece[p].to_elements)
        p++;
    return piece[p].us_per_element * elements + piece[p].us;
}
