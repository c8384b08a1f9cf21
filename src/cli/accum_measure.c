// SPDX-License-Identifier: Apache-2.0
/* qsync accum --simulate: what adders retain of the variance, measured, and the width that each of them needs, beside the formula. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "accum.h"

enum { ROUND = 4 }; /* widths measured at a time */

/* ---- Measuring ------------------------------------------------------------------------------------------------------------- */

static bool is_chunked(const qs_accumulation *sum) {
    return sum->chunk < sum->length;
}

static measured exponent_of(double length, measured ratio) {
    return (measured){length * (1 - ratio.value), length * ratio.interval};
}

/* As in the formula each stage counts on its own: the first is measured as a sum of one chunk's length, and the second retains what the
 * whole does over what the first does. */
static measured chunked_exponent(const qs_accumulation *sum, measured first, measured whole) {
    const measured second = {whole.value / first.value, (whole.interval + whole.value / first.value * first.interval) / first.value};
    const measured one = exponent_of(sum->nonzero * (double)sum->chunk, first);
    const measured two = exponent_of(ceil((double)sum->length / (double)sum->chunk), second);
    return one.value > two.value ? one : two;
}

static measured ratio_of(const qs_retention *one) {
    return (measured){one->ratio, one->interval};
}

/* Which widths of which adders a round measures. */
typedef struct measuring {
    const accum_measurement *what;
    qs_addends addends;
    int adders;
    accum_adder *one;
    int cases;
    accum_point **point; /* [cases] */
    qs_simulated *simulated;
    qs_retention *normal, *chunked, *chunk;
} measuring;

static qs_status cases_run(measuring *all, int64_t length, int64_t chunk, qs_retention *out) {
    const accum_measurement *what = all->what;
    const qs_simulation question = {all->addends, what->sum.product_bits, length,
                                    what->trials, (uint64_t)what->seed,   1 - what->sum.nonzero};
    for (int c = 0; c < all->cases; c++)
        all->simulated[c].chunk = chunk;
    return qs_accumulation_simulate(&question, all->cases, all->simulated, out);
}

static qs_status round_run(measuring *all) {
    const qs_accumulation *sum = &all->what->sum;
    const bool chunked = is_chunked(sum);
    QS_TRY(cases_run(all, sum->length, 0, all->normal));
    if (chunked) QS_TRY(cases_run(all, sum->length, sum->chunk, all->chunked));
    if (chunked) QS_TRY(cases_run(all, sum->chunk, 0, all->chunk));
    for (int c = 0; c < all->cases; c++) {
        accum_point *point = all->point[c];
        const qs_retention *whole = chunked ? &all->chunked[c] : &all->normal[c];
        const measured normal = exponent_of(sum->nonzero * (double)sum->length, ratio_of(&all->normal[c]));
        *point = (accum_point){true, {all->normal[c], *whole}, {normal, normal}};
        if (chunked) point->exponent[ORDER_CHUNKED] = chunked_exponent(sum, ratio_of(&all->chunk[c]), ratio_of(whole));
    }
    return QS_OK;
}

/* An adder is done with at the widths that are enough beyond doubt, and not before the formula's. */
static bool is_done(const accum_adder *one, int at, int formula) {
    return at > formula && accum_width(one, ORDER_NORMAL, 1) && accum_width(one, ORDER_CHUNKED, 1);
}

static void cases_choose(measuring *all, int first, int formula) {
    all->cases = 0;
    for (int a = 0; a < all->adders; a++)
        for (int b = first; !is_done(&all->one[a], first, formula) && b < first + ROUND && b <= QS_WIDEST_ADDER; b++) {
            all->point[all->cases] = &all->one[a].point[b];
            all->simulated[all->cases++] = (qs_simulated){all->one[a].adder, b, 0};
        }
}

static qs_status measure(measuring *all, int formula) {
    const size_t most = (size_t)all->adders * ROUND;
    qs_status status;
    QS_GOTO(qs_allocate(most, sizeof *all->point, &all->point));
    QS_GOTO(qs_allocate(most, sizeof *all->simulated, &all->simulated));
    QS_GOTO(qs_allocate(3 * most, sizeof *all->normal, &all->normal));
    all->chunked = all->normal + most;
    all->chunk = all->chunked + most;
    for (int b = all->what->least; b <= QS_WIDEST_ADDER; b += ROUND) {
        cases_choose(all, b, formula);
        if (all->cases == 0) break;
        QS_GOTO(round_run(all));
    }
done:
    free(all->point);
    free(all->simulated);
    free(all->normal);
    return status;
}

/* ---- Telling ----------------------------------------------------------------------------------------------------------------- */

/* The formula's exponent; NAN for widths below the products', of which it says nothing. */
static double formula_exponent(const accum_measurement *what, int order, int bits) {
    qs_accumulation sum = what->sum;
    double exponent;
    if (order == ORDER_NORMAL) sum.chunk = 0;
    return bits >= sum.product_bits && qs_accumulation_exponent(&sum, bits, &exponent) == QS_OK ? exponent : NAN;
}

/* The width that is derived for an adder (qs_adder_bits); 0: nothing is. */
static int accum_derived_width(const accum_measurement *what, const qs_adder *adder, int order) {
    const qs_addends addends = strcmp(what->addends, "normal") == 0 ? QS_ADDENDS_NORMAL : QS_ADDENDS_PRODUCTS;
    qs_accumulation sum = what->sum;
    int bits;
    if (order == ORDER_NORMAL) sum.chunk = 0;
    return qs_adder_bits(adder, addends, &sum, &bits) == QS_OK ? bits : 0;
}

static void exponent_print(double exponent) {
    if (isnan(exponent))
        printf("%10s", "-");
    else
        printf("%10.3g", exponent);
}

static void adder_print(const accum_measurement *what, const accum_adder *one) {
    printf("\n%s\n%5s %9s %9s %9s %25s %9s %9s %25s %9s %9s\n", qs_adder_name(one->adder), "bits", "VRR", "+-", "error", "n (1 - VRR)",
           "derived", "formula", "chunked", "derived", "formula");
    for (int b = 1; b <= QS_WIDEST_ADDER; b++) {
        const accum_point *point = &one->point[b];
        if (!point->known) continue;
        printf("%5d %9.4f %9.4f %9.2g", b, point->retention[0].ratio, point->retention[0].interval, point->retention[0].error);
        for (int o = 0; o < ORDERS; o++) {
            printf(" %12.4g +- %9.2g", point->exponent[o].value, point->exponent[o].interval);
            exponent_print(accum_derived_exponent(what, one->adder, o, b));
            exponent_print(formula_exponent(what, o, b));
        }
        printf("\n");
    }
}

static void widths_print(const accum_measurement *what, const int *formula, int adders, const accum_adder *one) {
    printf("\nmantissa bits needed, measured (lowest .. highest by the interval):\n%-16s %14s   chunks of %-5lld  derived for the adder\n"
           "%-16s %14d   %d\n",
           "", "one by one", (long long)what->sum.chunk, "formula", formula[ORDER_NORMAL], formula[ORDER_CHUNKED]);
    for (int a = 0; a < adders; a++) {
        printf("%-16s", qs_adder_name(one[a].adder));
        for (int o = 0; o < ORDERS; o++) {
            const int bits = accum_width(&one[a], o, 0);
            char range[32];
            snprintf(range, sizeof range, "%d (%d .. %d)", bits, accum_width(&one[a], o, -1), accum_width(&one[a], o, 1));
            printf(o ? "   %-14s" : " %14s", bits ? range : "none measured");
        }
        printf("  %d, %d\n", accum_derived_width(what, one[a].adder, ORDER_NORMAL), accum_derived_width(what, one[a].adder, ORDER_CHUNKED));
    }
}

static json_t *order_json(const accum_measurement *what, const accum_adder *one, int order) {
    json_t *widths = json_array();
    for (int b = 1; b <= QS_WIDEST_ADDER; b++) {
        const accum_point *point = &one->point[b];
        const qs_retention *retention = &point->retention[order];
        if (!point->known) continue;
        json_array_append_new(widths, json_pack("{s:i,s:f,s:f,s:f,s:f,s:f,s:o,s:o}", "width", b, "vrr", retention->ratio, "interval",
                                                retention->interval, "error", retention->error, "exponent", point->exponent[order].value,
                                                "exponent_interval", point->exponent[order].interval, "formula_exponent",
                                                json_number(formula_exponent(what, order, b)), "derived_exponent",
                                                json_number(accum_derived_exponent(what, one->adder, order, b))));
    }
    return json_pack("{s:i,s:i,s:i,s:i,s:o}", "derived_bits", accum_derived_width(what, one->adder, order), "bits",
                     accum_width(one, order, 0), "lowest", accum_width(one, order, -1), "highest", accum_width(one, order, 1), "widths",
                     widths);
}

static qs_status all_json(const accum_measurement *what, const int *formula, int adders, const accum_adder *one) {
    json_t *rows = json_object();
    for (int a = 0; a < adders; a++)
        json_object_set_new(
            rows, qs_adder_name(one[a].adder),
            json_pack("{s:o,s:o}", "normal", order_json(what, &one[a], ORDER_NORMAL), "chunked", order_json(what, &one[a], ORDER_CHUNKED)));
    return json_print(json_pack("{s:i,s:I,s:I,s:f,s:s,s:I,s:I,s:{s:i,s:i},s:o}", "product_bits", what->sum.product_bits, "length",
                                (json_int_t)what->sum.length, "chunk", (json_int_t)what->sum.chunk, "nonzero", what->sum.nonzero, "addends",
                                what->addends, "trials", (json_int_t)what->trials, "seed", (json_int_t)what->seed, "formula", "normal",
                                formula[ORDER_NORMAL], "chunked", formula[ORDER_CHUNKED], "adders", rows));
}

static void all_print(const accum_measurement *what, const int *formula, int adders, const accum_adder *one) {
    printf("%lld products of %d mantissa bits (%s), %s of them not zero, %lld trials, seed %lld; intervals of 95 %%\n"
           "a width is enough while n (1 - VRR) is below ln 50 = %.3f; error: mean square, in variances of the exact sum\n",
           (long long)what->sum.length, what->sum.product_bits, strcmp(what->addends, "normal") == 0 ? "single normals" : "of two normals",
           percent_text(what->sum.nonzero), (long long)what->trials, (long long)what->seed, QS_ACCUMULATION_EXPONENT);
    for (int a = 0; a < adders; a++)
        adder_print(what, &one[a]);
    widths_print(what, formula, adders, one);
}

/* ---- The question ----------------------------------------------------------------------------------------------------------------- */

static qs_status adders_choose(const char *name, accum_adder *one, int *adders) {
    if (strcmp(name, "all") == 0) {
        for (*adders = 0; qs_adder_at((size_t)*adders); ++*adders)
            one[*adders].adder = qs_adder_at((size_t)*adders);
        return QS_OK;
    }
    *adders = 1;
    return qs_adder_find(name, &one[0].adder);
}

static qs_status addends_parse(const char *name, qs_addends *out) {
    *out = strcmp(name, "normal") == 0 ? QS_ADDENDS_NORMAL : QS_ADDENDS_PRODUCTS;
    if (*out == QS_ADDENDS_NORMAL || strcmp(name, "products") == 0) return QS_OK;
    return qs_fail(QS_USAGE, "--addends %s: products or normal", name);
}

static qs_status question_check(const accum_measurement *what) {
    if (what->sum.product_bits > QS_WIDEST_ADDER)
        return qs_fail(QS_USAGE, "--m-p %d: adders are measured up to %d bits", what->sum.product_bits, QS_WIDEST_ADDER);
    if (what->least > QS_WIDEST_ADDER)
        return qs_fail(QS_USAGE, "--least %d: adders are measured up to %d bits", what->least, QS_WIDEST_ADDER);
    return what->svg ? output_check(what->svg) : QS_OK;
}

static qs_status formula_read(const accum_measurement *what, int *formula) {
    qs_accumulation sum = what->sum;
    QS_TRY(qs_accumulation_bits(&sum, &formula[ORDER_CHUNKED]));
    sum.chunk = 0;
    return qs_accumulation_bits(&sum, &formula[ORDER_NORMAL]);
}

qs_status accum_measure(const accum_measurement *asked) {
    accum_measurement what = *asked;
    measuring all = {.what = &what};
    int formula[ORDERS];
    qs_status status;
    if (what.least == 0) what.least = what.sum.product_bits;
    QS_TRY(question_check(&what));
    QS_TRY(formula_read(&what, formula));
    QS_TRY(addends_parse(what.addends, &all.addends));
    QS_TRY(qs_threads_set(what.threads));
    QS_GOTO(qs_allocate(qs_adder_count(), sizeof *all.one, &all.one));
    QS_GOTO(adders_choose(what.adder, all.one, &all.adders));
    QS_GOTO(measure(&all, formula[ORDER_NORMAL]));
    if (what.svg) QS_GOTO(accum_measured_write(what.svg, &what, all.adders, all.one));
    if (what.json)
        status = all_json(&what, formula, all.adders, all.one);
    else
        all_print(&what, formula, all.adders, all.one);
done:
    free(all.one);
    return status;
}
