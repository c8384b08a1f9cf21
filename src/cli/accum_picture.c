// SPDX-License-Identifier: Apache-2.0
/* The pictures of accum: n (1 - VRR), logarithmic. Of a sum over the width of its accumulator, by the formula or as measured; of a model
 * over the length, a curve a width, with a point for every GEMM. */
#include <math.h>
#include <stdlib.h>

#include "accum.h"
#include "plot.h"

enum { TITLE = 256, NOTE = 200, PART = 64, COLORS = 6, MOST_LENGTH = 40, STEPS_PER_OCTAVE = 2 };
static const char limit_color[] = "#c00000", limit_text[] = "ln 50: below is enough";
static const char *const colors[COLORS] = {"#1f5fa8", "#b35900", "#2f8f2f", "#7b3fa0", "#8a6d00", "#007f8a"};

/* A panel without series; its y axis is logarithmic from `low` to `high`, with a line below which a width is enough. */
static qs_status panel_start(plot_panel *out, const char *title, const char *label, double low, double high, const char *limit) {
    *out = (plot_panel){.title = title,
                        .x = {.label = label, .low = NAN, .high = NAN},
                        .y = {.label = "n (1 - VRR)", .low = low, .high = high, .logarithmic = true}};
    return plot_mark_add(out, (plot_mark){.at = QS_ACCUMULATION_EXPONENT, .to = NAN, .color = limit_color, .text = limit});
}

static qs_accumulation in_order(qs_accumulation sum, int order) {
    if (order == ORDER_NORMAL) sum.chunk = 0;
    return sum;
}

static void order_name(const qs_accumulation *sum, int order, char *out, size_t size) {
    if (order == ORDER_NORMAL)
        snprintf(out, size, "one after the other");
    else
        snprintf(out, size, "in chunks of %lld", (long long)sum->chunk);
}

/* ---- A sum by the formula ---- */

qs_status accum_curve_write(const char *path, const qs_accumulation *sum, int normal_bits) {
    char title[TITLE], name[ORDERS][PART], key[ORDERS][PART];
    plot_panel panel = {0};
    plot_picture picture = {.title = title, .width = 660, .height = 440, .columns = 1, .panels = 1, .panel = &panel};
    qs_status status = QS_OK;
    snprintf(title, sizeof title, "n (1 - VRR) of %lld products with %d mantissa bits, %.3g %% not zero", (long long)sum->length,
             sum->product_bits, 100 * sum->nonzero);
    QS_GOTO(panel_start(&panel, NULL, "mantissa bits of the accumulator", 1e-4, fmax(100, 2 * (double)sum->length), limit_text));
    for (int order = 0; order < ORDERS; order++) {
        const qs_accumulation one = in_order(*sum, order);
        plot_series *line, *knee;
        int bits;
        double exponent;
        QS_GOTO(qs_accumulation_bits(&one, &bits));
        order_name(sum, order, name[order], PART);
        snprintf(key[order], sizeof key[order], "%.40s: %d bits", name[order], bits);
        QS_GOTO(plot_series_add(&panel, (plot_series){.title = key[order], .color = colors[order], .draw = PLOT_LINE, .width = 2}, &line));
        for (int b = sum->product_bits; b <= normal_bits + 4; b++) {
            QS_GOTO(qs_accumulation_exponent(&one, b, &exponent));
            QS_GOTO(plot_point_add(line, (plot_point){.x = b, .y = fmax(exponent, 1e-4), .low = NAN, .high = NAN}));
        }
        QS_GOTO(plot_series_add(&panel, (plot_series){.color = colors[order], .draw = PLOT_POINTS}, &knee));
        QS_GOTO(qs_accumulation_exponent(&one, bits, &exponent));
        QS_GOTO(plot_point_add(knee, (plot_point){.x = bits, .y = fmax(exponent, 1e-4), .low = NAN, .high = NAN}));
    }
    status = plot_write(path, &picture);
done:
    plot_panel_release(&panel);
    return status;
}

/* ---- A sum as measured ---- */

enum { MOST_ADDERS = 16 };
static const double lowest_measured = 0.1; /* what is below stands on the edge */

typedef struct measured_texts {
    char title[ORDERS][PART], key[ORDERS][MOST_ADDERS][PART];
} measured_texts;

/* The line that is derived for an adder, and points, measured, with their intervals. */
static qs_status adder_add(plot_panel *panel, const accum_measurement *what, int order, const accum_adder *adder, int last,
                           const char *color, const char *key) {
    plot_series *line, *points;
    QS_TRY(plot_series_add(panel, (plot_series){.color = color, .draw = PLOT_LINE}, &line));
    for (int b = what->least; b <= last; b++) {
        const double exponent = accum_derived_exponent(what, adder->adder, order, b);
        if (!isnan(exponent))
            QS_TRY(plot_point_add(line, (plot_point){.x = b, .y = fmax(exponent, lowest_measured), .low = NAN, .high = NAN}));
    }
    QS_TRY(plot_series_add(panel, (plot_series){.title = key, .color = color, .draw = PLOT_POINTS}, &points));
    for (int b = what->least; b <= last; b++) {
        const measured exponent = adder->point[b].exponent[order];
        if (adder->point[b].known)
            QS_TRY(plot_point_add(points, (plot_point){.x = b,
                                                       .y = fmax(exponent.value, lowest_measured),
                                                       .low = fmax(exponent.value - exponent.interval, lowest_measured),
                                                       .high = fmax(exponent.value + exponent.interval, lowest_measured)}));
    }
    return QS_OK;
}

static qs_status formula_add(plot_panel *panel, const accum_measurement *what, int order, int last) {
    const qs_accumulation sum = in_order(what->sum, order);
    plot_series *line;
    QS_TRY(plot_series_add(panel, (plot_series){.title = "the formula", .color = "#000000", .draw = PLOT_LINE, .dash = true, .width = 2},
                           &line));
    for (int b = what->least > sum.product_bits ? what->least : sum.product_bits; b <= last; b++) {
        double exponent;
        QS_TRY(qs_accumulation_exponent(&sum, b, &exponent));
        QS_TRY(plot_point_add(line, (plot_point){.x = b, .y = fmax(exponent, lowest_measured), .low = NAN, .high = NAN}));
    }
    return QS_OK;
}

qs_status accum_measured_write(const char *path, const accum_measurement *what, int adders, const accum_adder *one) {
    char title[TITLE], note[NOTE];
    measured_texts *texts = NULL;
    plot_panel panel[ORDERS] = {{0}};
    plot_picture picture = {.title = title, .note = note, .width = 860, .height = 470, .columns = 2, .panels = ORDERS, .panel = panel};
    int last = what->least + 1;
    qs_status status = QS_OK;
    if (adders > MOST_ADDERS) adders = MOST_ADDERS;
    for (int a = 0; a < adders; a++)
        for (int b = last; b <= QS_WIDEST_ADDER; b++)
            if (one[a].point[b].known) last = b;
    snprintf(title, sizeof title, "n (1 - VRR) measured: %lld products with %d mantissa bits (%s)", (long long)what->sum.length,
             what->sum.product_bits, what->addends);
    snprintf(note, sizeof note, "points: of %lld trials, 95 %%; lines: derived for the adder; on the edge: %g or below",
             (long long)what->trials, lowest_measured);
    QS_TRY(qs_allocate(1, sizeof *texts, &texts));
    for (int order = 0; order < ORDERS; order++) {
        order_name(&what->sum, order, texts->title[order], PART);
        QS_GOTO(panel_start(&panel[order], texts->title[order], "mantissa bits of the accumulator", lowest_measured,
                            1.3 * (double)what->sum.length, limit_text));
        QS_GOTO(formula_add(&panel[order], what, order, last));
        for (int a = 0; a < adders; a++) {
            char *key = texts->key[order][a];
            const int width = accum_width(&one[a], order, 0);
            snprintf(key, PART, width ? "%s: %d bits" : "%s", qs_adder_name(one[a].adder), width);
            QS_GOTO(adder_add(&panel[order], what, order, &one[a], last, colors[a % COLORS], key));
        }
    }
    status = plot_write(path, &picture);
done:
    for (int order = 0; order < ORDERS; order++)
        plot_panel_release(&panel[order]);
    free(texts);
    return status;
}

/* ---- The sums of a model ---- */

static const double lowest = 1e-3, highest = 1e3;

typedef struct model_sum {
    qs_gemm gemm;
    qs_accumulation sum;
    char tip[80];
} model_sum;

/* Every GEMM that runs. */
static qs_status sums_list(const accum_model *what, int order, model_sum **out, int *count) {
    *count = 0;
    QS_TRY(qs_allocate((size_t)what->graph->nodes * QS_GEMMS, sizeof **out, out));
    for (int n = what->graph->samples.inputs; n < what->graph->nodes; n++)
        for (qs_gemm gemm = 0; what->graph->node[n].op->kind == QS_ADJUSTABLE && gemm < QS_GEMMS; gemm++) {
            qs_accumulation sum = in_order(what->sum, order);
            sum.length = qs_gemm_length(what->graph, n, gemm, what->batch);
            if (what->statistics) sum.nonzero = qs_gemm_nonzero(what->statistics, what->graph->node[n].name, gemm);
            if (sum.length > 0) (*out)[(*count)++] = (model_sum){.gemm = gemm, .sum = sum};
        }
    return QS_OK;
}

/* By the adder that was asked for, else by the formula. */
static qs_status exponent_of(const accum_model *what, const qs_accumulation *sum, int bits, double *out) {
    if (!what->adder) return qs_accumulation_exponent(sum, bits, out);
    QS_TRY(qs_adder_exponent(what->adder, QS_ADDENDS_PRODUCTS, sum, bits, out));
    *out = fabs(*out);
    return QS_OK;
}

static qs_status bits_of(const accum_model *what, const qs_accumulation *sum, int *out) {
    return what->adder ? qs_adder_bits(what->adder, QS_ADDENDS_PRODUCTS, sum, out) : qs_accumulation_bits(sum, out);
}

/* The curve of a width over the length, up to the first point past the top; its knee, where it passes the limit, is named by `text`. */
static qs_status width_add(plot_panel *panel, plot_series *knees, const accum_model *what, int order, int bits, int last_power,
                           const char *text) {
    plot_series *line;
    double before = 0, exponent = 0;
    bool passed = false;
    QS_TRY(plot_series_add(panel, (plot_series){.color = "#999999", .draw = PLOT_LINE, .width = 1}, &line));
    for (int i = 0; i <= last_power * STEPS_PER_OCTAVE && before < highest; i++, before = exponent) {
        const double power = (double)i / STEPS_PER_OCTAVE;
        qs_accumulation sum = in_order(what->sum, order);
        sum.length = (int64_t)llround(exp2(power));
        QS_TRY(exponent_of(what, &sum, bits, &exponent));
        QS_TRY(plot_point_add(line, (plot_point){.x = exp2(power), .y = fmax(exponent, lowest), .low = NAN, .high = NAN}));
        if (passed || i == 0 || exponent < QS_ACCUMULATION_EXPONENT) continue;
        const double from = log(fmax(before, lowest)), share = (log(QS_ACCUMULATION_EXPONENT) - from) / fmax(log(exponent) - from, 1e-9);
        const double knee = exp2(power - (1 - share) / STEPS_PER_OCTAVE);
        passed = true;
        QS_TRY(plot_point_add(knees, (plot_point){.x = knee, .y = QS_ACCUMULATION_EXPONENT, .low = NAN, .high = NAN, .text = text}));
    }
    return QS_OK;
}

static qs_status model_panel_fill(plot_panel *panel, const accum_model *what, int order, int sums, model_sum *sum) {
    static char text[64][12]; /* of widths: the picture outlives this call */
    plot_series *points[QS_GEMMS], knees = {.color = limit_color, .draw = PLOT_POINTS, .title = "knees at ln 50, with their mantissa bits"},
                                   *placed;
    int most = what->sum.product_bits, last_power = 8;
    qs_status status = QS_OK;
    for (int i = 0; i < sums; i++) {
        int bits;
        QS_TRY(bits_of(what, &sum[i].sum, &bits));
        if (bits > most) most = bits;
        while (last_power < MOST_LENGTH && sum[i].sum.length > (int64_t)1 << last_power)
            last_power++;
    }
    panel->x.logarithmic = true;
    panel->x.low = 1, panel->x.high = exp2(++last_power);
    for (int bits = what->sum.product_bits; bits <= most && bits < 64; bits++) {
        snprintf(text[bits], sizeof text[bits], "%d", bits);
        QS_GOTO(width_add(panel, &knees, what, order, bits, last_power, text[bits]));
    }
    for (qs_gemm gemm = 0; gemm < QS_GEMMS; gemm++)
        QS_GOTO(plot_series_add(panel, (plot_series){.title = qs_gemm_name(gemm), .color = colors[gemm], .draw = PLOT_POINTS}, &placed));
    for (qs_gemm gemm = 0; gemm < QS_GEMMS; gemm++)
        points[gemm] = &panel->one[panel->series - QS_GEMMS + (int)gemm];
    for (int i = 0; i < sums; i++) {
        int bits;
        double exponent;
        QS_GOTO(bits_of(what, &sum[i].sum, &bits));
        QS_GOTO(exponent_of(what, &sum[i].sum, bits, &exponent));
        snprintf(sum[i].tip, sizeof sum[i].tip, "%s, %lld products: %d bits", qs_gemm_name(sum[i].gemm), (long long)sum[i].sum.length,
                 bits);
        QS_GOTO(plot_point_add(
            points[sum[i].gemm],
            (plot_point){
                .tip = sum[i].tip, .x = (double)sum[i].sum.length, .y = fmin(fmax(exponent, lowest), highest), .low = NAN, .high = NAN}));
    }
    QS_GOTO(plot_series_add(panel, knees, &placed));
    return QS_OK;
done:
    free(knees.point);
    return status;
}

qs_status accum_model_curve_write(const char *path, const accum_model *what) {
    char title[TITLE], name[ORDERS][PART];
    plot_panel panel[ORDERS] = {{0}};
    plot_picture picture = {.title = title, .width = 940, .height = 480, .columns = 2, .panels = ORDERS, .panel = panel};
    model_sum *sums[ORDERS] = {NULL};
    qs_status status = QS_OK;
    snprintf(title, sizeof title, "n (1 - VRR) of %s, batch %lld, products of %d mantissa bits, by %s", what->graph->name,
             (long long)what->batch, what->sum.product_bits, what->adder ? qs_adder_name(what->adder) : "the formula");
    picture.note = what->statistics ? "a curve a width; products that are zero move points below the curves of full sums"
                                    : "a curve a width; points on the edge lie at 0.001 or below";
    for (int order = 0; order < ORDERS; order++) {
        int count;
        order_name(&what->sum, order, name[order], PART);
        QS_GOTO(panel_start(&panel[order], name[order], "products in the sum", lowest, highest, NULL));
        QS_GOTO(sums_list(what, order, &sums[order], &count));
        QS_GOTO(model_panel_fill(&panel[order], what, order, count, sums[order]));
    }
    status = plot_write(path, &picture);
done:
    for (int order = 0; order < ORDERS; order++) {
        plot_panel_release(&panel[order]);
        free(sums[order]);
    }
    return status;
}
