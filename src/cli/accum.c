// SPDX-License-Identifier: Apache-2.0
/* qsync accum: how wide accumulators must be, of one sum or of every GEMM of a model; by the formula, or measured (accum_measure.c). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "accum.h"

typedef struct accum {
    qs_accumulation sum; /* chunk: of the chunked width */
    int64_t batch;
    const char *profile_file, *svg, *input;
    qs_graph *graph;
    qs_profile profile;
    const qs_adder *adder; /* of a model: whose widths; NULL: the formula's */
    bool json, simulate;
    accum_measurement measurement;
    accum_planning planning;
} accum;

typedef struct widths {
    int normal, chunked;
} widths;

static qs_status widths_of(qs_accumulation sum, widths *out) {
    QS_TRY(qs_accumulation_bits(&sum, &out->chunked));
    sum.chunk = 0;
    return qs_accumulation_bits(&sum, &out->normal);
}

/* What is derived for an adder. */
static qs_status adder_widths_of(const qs_adder *adder, qs_accumulation sum, widths *out) {
    QS_TRY(qs_adder_bits(adder, QS_ADDENDS_PRODUCTS, &sum, &out->chunked));
    sum.chunk = 0;
    return qs_adder_bits(adder, QS_ADDENDS_PRODUCTS, &sum, &out->normal);
}

/* ---- One sum ------------------------------------------------------------------------------------------------------------ */

static qs_status exponents_print(const accum *one, const widths *bits) {
    qs_accumulation plain = one->sum;
    plain.chunk = 0;
    printf("\n%5s %16s %16s\n", "bits", "n (1 - VRR)", "chunked");
    for (int b = one->sum.product_bits; b <= bits->normal + 2; b++) {
        double normal, chunked;
        QS_TRY(qs_accumulation_exponent(&plain, b, &normal));
        QS_TRY(qs_accumulation_exponent(&one->sum, b, &chunked));
        printf("%5d %16.4g %16.4g\n", b, normal, chunked);
    }
    return QS_OK;
}

/* Calls for each adder that was asked for. */
static qs_status adders_each(const accum *one, qs_status (*visit)(const accum *one, const qs_adder *adder, json_t *rows), json_t *rows) {
    const qs_adder *only = NULL;
    if (strcmp(one->measurement.adder, "all") != 0) QS_TRY(qs_adder_find(one->measurement.adder, &only));
    for (size_t a = 0; a < qs_adder_count(); a++)
        if (!only || qs_adder_at(a) == only) QS_TRY(visit(one, qs_adder_at(a), rows));
    return QS_OK;
}

static qs_status adder_out(const accum *one, const qs_adder *adder, json_t *rows) {
    widths bits;
    QS_TRY(adder_widths_of(adder, one->sum, &bits));
    if (rows)
        json_object_set_new(rows, qs_adder_name(adder), json_pack("{s:i,s:i}", "normal", bits.normal, "chunked", bits.chunked));
    else
        printf("  %-16s %2d, %2d in chunks\n", qs_adder_name(adder), bits.normal, bits.chunked);
    return QS_OK;
}

static qs_status sum_json(const accum *one, const widths *bits) {
    json_t *adders = json_object();
    const qs_status status = adders_each(one, adder_out, adders);
    if (status == QS_OK)
        return json_print(json_pack("{s:i,s:I,s:I,s:f,s:i,s:i,s:o}", "product_bits", one->sum.product_bits, "length",
                                    (json_int_t)one->sum.length, "chunk", (json_int_t)one->sum.chunk, "nonzero", one->sum.nonzero, "normal",
                                    bits->normal, "chunked", bits->chunked, "adders", adders));
    json_decref(adders);
    return status;
}

static qs_status sum_out(const accum *one) {
    widths bits;
    QS_TRY(widths_of(one->sum, &bits));
    if (one->svg) QS_TRY(accum_curve_write(one->svg, &one->sum, bits.normal));
    if (one->json) return sum_json(one, &bits);
    printf("%lld products of %d mantissa bits, %s of them not zero: the accumulator needs %d mantissa bits, %d in chunks of %lld\n"
           "a width is enough while n (1 - VRR) is below ln 50 = %.3f\n",
           (long long)one->sum.length, one->sum.product_bits, percent_text(one->sum.nonzero), bits.normal, bits.chunked,
           (long long)one->sum.chunk, QS_ACCUMULATION_EXPONENT);
    QS_TRY(exponents_print(one, &bits));
    printf("\nmantissa bits by what is derived for each adder:\n");
    return adders_each(one, adder_out, NULL);
}

/* ---- A model --------------------------------------------------------------------------------------------------------------- */

static qs_status gemm_out(const accum *one, int node, qs_gemm gemm, json_t *row) {
    qs_accumulation sum = one->sum;
    widths bits, adder;
    sum.length = qs_gemm_length(one->graph, node, gemm, one->batch);
    if (sum.length == 0) {
        if (!one->json) printf("  %9s %5s %8s", "-", "-", "-");
        return QS_OK;
    }
    if (one->profile_file) sum.nonzero = qs_gemm_nonzero(&one->profile.statistics, one->graph->node[node].name, gemm);
    QS_TRY(widths_of(sum, &bits));
    if (one->adder) QS_TRY(adder_widths_of(one->adder, sum, &adder));
    const widths *shown = one->adder ? &adder : &bits;
    if (!one->json) printf("  %9lld %5.2f (%2d, %2d)", (long long)sum.length, sum.nonzero, shown->normal, shown->chunked);
    json_t *said = json_pack("{s:I,s:f,s:i,s:i}", "length", (json_int_t)sum.length, "nonzero", sum.nonzero, "normal", bits.normal,
                             "chunked", bits.chunked);
    if (one->adder)
        json_object_set_new(said, qs_adder_name(one->adder), json_pack("{s:i,s:i}", "normal", adder.normal, "chunked", adder.chunked));
    json_object_set_new(row, qs_gemm_name(gemm), said);
    return QS_OK;
}

static qs_status node_out(const accum *one, int node, int columns, json_t *rows) {
    json_t *row = json_pack("{s:s}", "operator", one->graph->node[node].name);
    qs_status status = row && json_array_append(rows, row) == 0 ? QS_OK : qs_fail(QS_OUT_OF_MEMORY, "JSON of operator %d", node);
    if (!one->json) printf("%-*s", columns, one->graph->node[node].name);
    for (qs_gemm gemm = 0; gemm < QS_GEMMS && status == QS_OK; gemm++)
        status = gemm_out(one, node, gemm, row);
    if (!one->json) printf("\n");
    json_decref(row);
    return status;
}

static qs_status model_out(const accum *one) {
    const accum_model drawn = {one->graph, one->batch, one->sum, one->profile_file ? &one->profile.statistics : NULL, one->adder};
    if (one->svg) QS_TRY(accum_model_curve_write(one->svg, &drawn));
    json_t *rows = json_array();
    qs_status status = QS_OK;
    const int columns = node_columns(one->graph);
    if (!one->json)
        printf("%s, batch %lld, products of %d mantissa bits: length, share not zero, mantissa bits (normal, chunks of %lld) by %s\n"
               "%-*s  %-24s  %-24s  %-24s\n",
               one->graph->name, (long long)one->batch, one->sum.product_bits, (long long)one->sum.chunk,
               one->adder ? qs_adder_name(one->adder) : "the formula", columns, "operator", "forward", "input gradient", "weight gradient");
    for (int n = one->graph->samples.inputs; n < one->graph->nodes && status == QS_OK; n++)
        if (qs_op_multiplies(one->graph->node[n].op)) status = node_out(one, n, columns, rows);
    if (status == QS_OK && one->json)
        return json_print(json_pack("{s:s,s:I,s:i,s:I,s:o}", "model", one->graph->name, "batch", (json_int_t)one->batch, "product_bits",
                                    one->sum.product_bits, "chunk", (json_int_t)one->sum.chunk, "operators", rows));
    json_decref(rows);
    return status;
}

/* --length is of a model what its option `length` is; files have a length of their own. */
static qs_status model_name(const accum *one, const char *name, char *model) {
    int written = snprintf(model, QS_MODEL, "%s", name);
    if (one->sum.length > 0)
        written = snprintf(model, QS_MODEL, "%s%clength=%lld", name, strchr(name, ':') ? ',' : ':', (long long)one->sum.length);
    return written < QS_MODEL ? QS_OK : qs_fail(QS_USAGE, "the model's name has %d characters, at most %d", written, QS_MODEL - 1);
}

static qs_status model_open(accum *one, const char *name) {
    char model[QS_MODEL];
    qs_samples input;
    QS_TRY(model_name(one, name, model));
    if (strcmp(one->measurement.adder, "all") != 0) QS_TRY(qs_adder_find(one->measurement.adder, &one->adder));
    QS_TRY(model_samples_parse(one->input, 0, model, &input));
    QS_TRY(qs_model_open(model, &input, &one->graph));
    if (!one->profile_file) return QS_OK;
    char signature[32];
    QS_TRY(qs_profile_read(one->profile_file, &one->profile));
    if (strcmp(one->profile.graph, qs_graph_signature(one->graph, signature)) == 0) return QS_OK;
    return qs_fail(QS_MISMATCH, "--profile %s: it is of model %s (%s), the question is about %s (%s)", one->profile_file,
                   one->profile.model, one->profile.graph, one->graph->name, signature);
}

/* What only some of the three questions take. */
static qs_status question_check(const option_table *table, const accum *one, bool model) {
    static const char *const of_model[] = {"batch", "input", "profile"}, *const of_sum[] = {"simulate"};
    static const char *const of_widths[] = {"m-p", "chunk", "nzr", "svg"};
    const accum_planning *planning = &one->planning;
    if (!model) QS_TRY(options_refuse(table, 3, of_model, "a model: qsync accum MODEL --batch N"));
    if (model) QS_TRY(options_refuse(table, 1, of_sum, "one sum: leave out the model"));
    if (!model && !option_given(table, "length")) return qs_fail(QS_USAGE, "accum needs --length or a model; see qsync accum --help");
    if (!planning->plan_file && !planning->accumulate.rule) return QS_OK;
    if (!model) return qs_fail(QS_USAGE, "--plan and --accumulate belong to a model: qsync accum MODEL --plan FILE --accumulate RULE");
    if (!planning->plan_file) return qs_fail(QS_USAGE, "--accumulate needs --plan FILE beside it");
    return options_refuse(table, 4, of_widths, "widths without a plan: a plan's recipes and rule say it");
}

static qs_status planning_run(accum *one) {
    one->planning.graph = one->graph;
    one->planning.batch = one->batch;
    one->planning.statistics = one->profile_file ? &one->profile.statistics : NULL;
    one->planning.json = one->json;
    return accum_plan(&one->planning);
}

static qs_status measurement_run(accum *one) {
    one->measurement.sum = one->sum;
    one->measurement.svg = one->svg;
    one->measurement.json = one->json;
    return accum_measure(&one->measurement);
}

static const option_row option_rows[] = {
    {OPTION(accum, sum.product_bits, "m-p", "BITS", "mantissa bits of the products"), .standard = "5", .minimum = 1},
    {OPTION(accum, sum.length, "length", "N", "products in the sum, up to 2^40; of a model that reads text: positions of a sample"),
     .minimum = 1},
    {OPTION(accum, sum.chunk, "chunk", "N", "products in a chunk"), .standard = "64", .minimum = 2},
    {OPTION(accum, sum.nonzero, "nzr", "X", "share of the products that is not zero"), .standard = "1", .excludes = "profile"},
    {OPTION(accum, batch, "batch", "N", "of a model: local batch"), .standard = "128", .minimum = 1},
    {OPTION(accum, input, "input", "CxHxW", "of a model: input shape"), .usual = "the model's own"},
    {OPTION(accum, profile_file, "profile", "FILE", "of a model: measured shares of zeros")},
    {OPTION(accum, svg, "svg", "FILE", "draw n (1 - VRR): of a sum over the width, of a model over the length")},
    {OPTION(accum, measurement.adder, "adder", "NAME",
            "align-truncate, nearest-even, toward-zero, stochastic: of a sum that one alone, of a model its widths too"),
     .standard = "all"},
    {OPTION(accum, simulate, "simulate", NULL, "of a sum: measure what adders retain, beside it")},
    {OPTION(accum, measurement.addends, "addends", "KIND", "products of two normals, or single ones: normal"), .standard = "products",
     .needs = "simulate"},
    {OPTION(accum, measurement.trials, "trials", "N", "sums for each figure"), .standard = "10000", .minimum = 2, .needs = "simulate"},
    {OPTION(accum, measurement.seed, "seed", "N", "of the random products"), .standard = "1", .needs = "simulate"},
    {OPTION(accum, measurement.least, "least", "BITS", "the first width"), .usual = "the products'", .minimum = 1, .needs = "simulate"},
    {OPTION(accum, measurement.threads, "threads", "N", "for the same figures"), .standard = "1", .minimum = 1, .needs = "simulate"},
    {OPTION(accum, planning.plan_file, "plan", "FILE", "of a model: the plan whose GEMMs it is about"), .needs = "accumulate"},
    {OPTION(accum, planning.out, "out", "FILE", "write that plan here"), .needs = "plan"},
    {OPTION_JSON(accum)},
};

qs_status verb_accum(int argc, char **argv) {
    const verb_usage usage = {
        .verb = "accum",
        .arguments = "[MODEL]",
        .purpose = "Mantissa bits that an accumulator needs so that the variance of its sums is retained (VRR): of one sum of --length\n"
                   "products, or of every GEMM of a model, added one after the other and in chunks. Products of two formats with k\n"
                   "mantissa bits have 2k + 1: 5 for e5m2, 7 for e4m3, 15 for bf16.",
        .examples =
            "  qsync accum --m-p 5 --length 131072 --chunk 64 --svg curve.svg\n  qsync accum --m-p 5 --length 1024 --simulate --adder "
            "all\n  "
            "qsync accum resnet20 --batch 128 --profile profile.json\n"
            "  qsync accum bert:base --batch 32 --length 128\n"
            "  qsync accum resnet20 --batch 128 --plan plan.json --accumulate \"fp(8,auto)/chunk64/align-truncate\" --out narrow.json\n",
        .most = 1};
    accum one = {0};
    bool done = false;
    int first = 0;
    option_table table = {0};
    qs_status status = QS_OK;
    OPTIONS_ADD(&table, option_rows, &one);
    accumulate_options_add(&one.planning.accumulate, &table);
    QS_TRY(options_parse(&table, &usage, argc, argv, &first, &done));
    if (done) return QS_OK;
    QS_TRY(question_check(&table, &one, first < argc));
    if (first == argc) return one.simulate ? measurement_run(&one) : sum_out(&one);
    QS_GOTO(model_open(&one, argv[first]));
    QS_GOTO(one.planning.plan_file ? planning_run(&one) : model_out(&one));
done:
    qs_profile_release(&one.profile);
    qs_graph_release(one.graph);
    return status;
}
