// SPDX-License-Identifier: Apache-2.0
/* qsync-bench shiftmm: products of 4 and 6 bits in shift groups beside int8, bf16 and fp32: by themselves, operands quantized and
 * packed before; and the whole way from bf16 activations and fp32 weights. */
#include "bench.h"
#include "qsync/single_product.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FP32, BF16, TAKEN, INT8, INT4, INT6, HADAMARD, OWN8, OWN4, OWN6, OWN_HADAMARD, OWN_SHIFT8, GROUPED, GROUPED8, KINDS };

static const char *const kinds[KINDS] = {"fp32",         "bf16",
                                         "taken bf16",   "int8",
                                         "int4",         "int6",
                                         "hadamard",     "own int8",
                                         "own int4",     "own int6",
                                         "own hadamard", "own int8:shift4",
                                         "grouped int4", "grouped int8:shift4"};
static const double least_time = 0.002; /* of a measurement */

static const struct {
    const char *name;
    qs_single_product_shape shape;
} shapes[] = {
    {"linear 256x256", {256, 256, 256, 1, 1, 1, 1}},     {"linear 512x512", {256, 512, 512, 1, 1, 1, 1}},
    {"linear 1024x1024", {256, 1024, 1024, 1, 1, 1, 1}}, {"linear 2048x2048", {256, 2048, 2048, 1, 1, 1, 1}},
    {"linear 4096x4096", {256, 4096, 4096, 1, 1, 1, 1}}, {"vit_b 768x3072", {394, 768, 3072, 1, 1, 1, 1}},
    {"vit_b 3072x768", {394, 3072, 768, 1, 1, 1, 1}},    {"vit_b patches 16x16", {4, 3, 768, 224, 224, 16, 16}},
    {"resnet20 16x32x32", {128, 16, 16, 32, 32, 3, 1}},  {"resnet20 32x16x16", {128, 32, 32, 16, 16, 3, 1}},
    {"resnet20 64x8x8", {128, 64, 64, 8, 8, 3, 1}},      {"resnet18 64x56x56", {4, 64, 64, 56, 56, 3, 1}},
    {"resnet18 128x28x28", {8, 128, 128, 28, 28, 3, 1}}, {"resnet18 256x14x14", {16, 256, 256, 14, 14, 3, 1}},
    {"resnet18 512x7x7", {32, 512, 512, 7, 7, 3, 1}},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

typedef struct figures {
    double product[KINDS], whole[KINDS], groups[KINDS], quantize[KINDS]; /* seconds; 0: the device has no such product */
    double gather[KINDS];
} figures;

static double multiply_adds(const qs_single_product_shape *s) {
    const double height = (double)(s->height / s->stride), width = (double)(s->width / s->stride);
    return (double)(s->batch * s->channels * s->outputs) * height * width * (double)(s->kernel * s->kernel);
}

/* Of the one thread that the device has here: on a busy machine the time that others are given does not count. */
static double processor_time(void) {
    return (double)clock() / CLOCKS_PER_SEC;
}

static qs_status time_once(qs_single_product *product, int stages, double *out) {
    const double start = processor_time();
    double now = start;
    int runs = 0;
    while (now - start < least_time) {
        QS_TRY(qs_single_product_run(product, stages));
        runs++;
        now = processor_time();
    }
    *out = (now - start) / runs;
    return QS_OK;
}

/* Medians over rounds, in each of which every kind has its turn: what else the machine does meets all alike. */
static qs_status stages_time(qs_single_product *const *products, int stages, int rounds, double *out) {
    double *seconds = NULL; /* (kinds × rounds) */
    qs_status status = QS_OK;
    QS_TRY(qs_allocate((size_t)KINDS * (size_t)rounds, sizeof *seconds, &seconds));
    for (int round = 0; round < rounds; round++)
        for (int k = 0; k < KINDS; k++)
            if (products[k]) QS_GOTO(time_once(products[k], stages, &seconds[k * rounds + round]));
    for (int k = 0; k < KINDS; k++)
        out[k] = median(&seconds[k * rounds], rounds);
done:
    free(seconds);
    return status;
}

/* The rearranging alone; of the others nothing is done then, and nothing is timed. */
static qs_status gather_time(qs_single_product *const *products, int rounds, figures *out) {
    qs_single_product *const alone[KINDS] = {[GROUPED] = products[GROUPED]};
    return stages_time(alone, QS_SINGLE_GATHER, rounds, out->gather);
}

/* What follows is not measured with a product for each group. */
static void gathered_close(qs_single_product **products) {
    for (int k = GROUPED; k <= GROUPED8; k++) {
        qs_single_product_close(products[k]);
        products[k] = NULL;
    }
}

static qs_status shape_time(qs_device *device, const qs_single_product_shape *shape, int rounds, figures *out) {
    qs_single_product *products[KINDS] = {NULL};
    qs_status status = QS_OK;
    for (int k = 0; k < KINDS && status == QS_OK; k++) {
        status = qs_single_product_open(device, shape, kinds[k], &products[k]);
        if (status == QS_UNSUPPORTED && k != FP32) status = QS_OK;
    }
    if (status == QS_OK) status = stages_time(products, QS_SINGLE_PRODUCT, rounds, out->product);
    if (status == QS_OK) status = gather_time(products, rounds, out);
    gathered_close(products);
    if (status == QS_OK) status = stages_time(products, QS_SINGLE_ALL, rounds, out->whole);
    if (status == QS_OK) status = stages_time(products, QS_SINGLE_GROUPS, rounds, out->groups);
    if (status == QS_OK) status = stages_time(products, QS_SINGLE_QUANTIZE, rounds, out->quantize);
    for (int k = 0; k < KINDS; k++)
        qs_single_product_close(products[k]);
    return status;
}

/* Of the library's product and ours the faster one: of 8 bits that is the upper bound. */
static double best_of(const double *time, int kind) {
    const double own = time[kind - INT8 + OWN8];
    return own > 0 && own < time[kind] ? own : time[kind];
}

static json_t *number(double value) {
    return isfinite(value) && value > 0 ? json_real(value) : json_null();
}

/* The faster of the library's kernel and the one that the device takes, which packs its weights in every run. */
static double half_of(const double *time) {
    return time[TAKEN] > 0 && time[TAKEN] < time[BF16] ? time[TAKEN] : time[BF16];
}

/* Products in shift groups, as the figures name them; 8 bits are our own kernels' alone. */
enum { WIDTHS = 3 };
static const struct {
    const char *name;
    int kind, reference; /* reference: one step for all, by the same kernels */
} widths[WIDTHS] = {{"int4", INT4, INT8}, {"int6", INT6, INT8}, {"int8:shift4", OWN_SHIFT8, OWN8}};

static double time_of(const double *time, int kind) {
    return kind == OWN_SHIFT8 ? time[kind] : best_of(time, kind);
}

/* {"int4": over / time of int4, ...} */
static json_t *speed(double over, const double *time) {
    json_t *out = json_object();
    for (int w = 0; w < WIDTHS; w++)
        json_object_set_new(out, widths[w].name, number(over / time_of(time, widths[w].kind)));
    return out;
}

/* The whole way, also with a transform in place of groups. */
static json_t *speed_whole(double over, const figures *f) {
    json_t *out = speed(over, f->whole);
    json_object_set_new(out, "hadamard", number(over / best_of(f->whole, HADAMARD)));
    return out;
}

/* What finding groups, and shifting the codes, takes beyond one step for the whole tensor, of the whole way; where the library has the
 * product, by the library's. */
static json_t *shares(const double *stage, const double *whole) {
    json_t *out = json_object();
    for (int w = 0; w < WIDTHS; w++) {
        const int kind = widths[w].kind;
        const double beyond = fmax(stage[kind] - stage[widths[w].reference], 1e-12);
        json_object_set_new(out, widths[w].name, number(beyond / whole[kind]));
    }
    return out;
}

/* Time with a product for each group over the time of one product for all: our own kernels in both, in 4 and in 8 bits, and over the
 * fastest in 4 bits. */
static json_t *gemm_over(const figures *f) {
    const double gathered = f->product[GROUPED];
    return json_pack("{s:o,s:o,s:o}", "own", number(gathered / f->product[OWN4]), "taken", number(gathered / best_of(f->product, INT4)),
                     "int8:shift4", number(f->product[GROUPED8] / f->product[OWN_SHIFT8]));
}

static json_t *row_of(size_t i, const figures *f, double peak) {
    const double work = multiply_adds(&shapes[i].shape);
    json_t *rates = json_object();
    for (int k = 0; k < KINDS; k++)
        json_object_set_new(rates, kinds[k], number(2e-9 * work / f->product[k]));
    return json_pack("{s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "shape", shapes[i].name, "gop_per_s", rates, "ratio_to_int8",
                     speed(best_of(f->product, INT8), f->product), "speedup_over_bf16", speed(f->product[BF16], f->product),
                     "taken_speedup", speed(half_of(f->product), f->product), "speedup_end_to_end", speed_whole(f->whole[BF16], f),
                     "taken_speedup_end_to_end", speed_whole(half_of(f->whole), f), "share_grouping", shares(f->groups, f->whole),
                     "share_shifting", shares(f->quantize, f->whole), "fraction_of_peak", speed(work / peak, f->product),
                     "gemm_over_shiftmm", gemm_over(f), "share_gathering", number(f->gather[GROUPED] / f->product[GROUPED]));
}

/* A figure of a row; kind NULL: it has no kinds. */
static double in(const json_t *row, const char *figure, const char *kind) {
    const json_t *value = json_object_get(row, figure);
    return json_number_value(kind ? json_object_get(value, kind) : value);
}

/* Geometric mean of a figure over the rows. */
static double mean_of(const json_t *rows, const char *figure, const char *kind) {
    double sum = 0;
    for (size_t i = 0; i < json_array_size(rows); i++)
        sum += log(in(json_array_get(rows, i), figure, kind));
    return exp(sum / (double)json_array_size(rows));
}

/* Means of a figure over the rows, of all the kinds that it has. */
static json_t *means(const json_t *rows, const char *figure) {
    json_t *out = json_object(), *first = json_object_get(json_array_get(rows, 0), figure), *value;
    const char *kind;
    json_object_foreach(first, kind, value) json_object_set_new(out, kind, number(mean_of(rows, figure, kind)));
    return out;
}

/* The product behind a transform is that of int4 without groups: the table leaves it out. */
static bool is_column(int kind) {
    return kind != HADAMARD && kind != OWN_HADAMARD;
}

static int width_of(int kind) {
    return (int)strlen(kinds[kind]) > 8 ? (int)strlen(kinds[kind]) : 8;
}

static void head_print(void) {
    printf("%-20s", "GOP/s");
    for (int k = 0; k < KINDS; k++)
        if (is_column(k)) printf(" %*s", width_of(k), kinds[k]);
    printf(" %9s %9s %9s %10s %9s %9s %9s %9s %9s\n", "int4/int8", "int6/int8", "int4/bf16", "over taken", "whole", "hadamard", "of peak",
           "gemm/own4", "gathering");
}

static void row_print(const json_t *row) {
    printf("%-20s", json_string_value(json_object_get(row, "shape")));
    for (int k = 0; k < KINDS; k++)
        if (is_column(k)) printf(" %*.0f", width_of(k), in(row, "gop_per_s", kinds[k]));
    printf(" %9.3f %9.3f %9.2f %10.2f %9.2f %9.2f %9.2f %9.2f %9.2f\n", in(row, "ratio_to_int8", "int4"), in(row, "ratio_to_int8", "int6"),
           in(row, "speedup_over_bf16", "int4"), in(row, "taken_speedup", "int4"), in(row, "speedup_end_to_end", "int4"),
           in(row, "speedup_end_to_end", "hadamard"), in(row, "fraction_of_peak", "int4"), in(row, "gemm_over_shiftmm", "own"),
           in(row, "share_gathering", NULL));
    fflush(stdout);
}

static void means_print(const json_t *rows) {
    static const char *const figure[] = {"ratio_to_int8",      "speedup_over_bf16",        "taken_speedup",
                                         "speedup_end_to_end", "taken_speedup_end_to_end", "gemm_over_shiftmm"};
    printf("geometric means\n");
    for (size_t i = 0; i < sizeof figure / sizeof *figure; i++) {
        json_t *row = means(rows, figure[i]), *value;
        const char *kind;
        printf("%-26s", figure[i]);
        json_object_foreach(row, kind, value) printf(" %s %.3f", kind, json_number_value(value));
        printf("\n");
        json_decref(row);
    }
    printf("%-26s %.3f\n", "share_gathering", mean_of(rows, "share_gathering", NULL));
}

static json_t *summary(json_t *rows, double peak) {
    return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "ratio_to_int8", means(rows, "ratio_to_int8"), "speedup_over_bf16",
                     means(rows, "speedup_over_bf16"), "taken_speedup", means(rows, "taken_speedup"), "speedup_end_to_end",
                     means(rows, "speedup_end_to_end"), "taken_speedup_end_to_end", means(rows, "taken_speedup_end_to_end"),
                     "gemm_over_shiftmm", means(rows, "gemm_over_shiftmm"), "share_gathering",
                     number(mean_of(rows, "share_gathering", NULL)), "peak_gop_per_s", number(2e-9 * peak), "shapes", rows);
}

static const option_row option_rows[] = {
    {OPTION_ROUNDS(bench_request, 9, "turns of each kind")},
    {OPTION_ISA(bench_request)},
    {OPTION_JSON(bench_request)},
};

qs_status bench_shiftmm(int argc, char **argv) {
    const verb_usage usage = {
        .verb = "shiftmm",
        .arguments = "",
        .purpose =
            "Linear layers of 256 to 4096 and convolutions of resnets and a vision transformer, on one thread: all kinds of one shape in\n"
            "turn, medians of the processor time."};
    bench_request asked = {0};
    bool done = false;
    option_table table = {0};
    qs_device *device = NULL;
    OPTIONS_ADD(&table, option_rows, &asked);
    QS_TRY(bench_options(&table, &usage, argc, argv, &done));
    if (done) return QS_OK;
    QS_TRY(device_start("cpu", 1, asked.isa, &device));
    const double peak = qs_device_peak(device, qs_format_of("int8"));
    json_t *rows = json_array();
    qs_status status = QS_OK;
    if (!asked.json) head_print();
    for (size_t i = 0; i < SHAPES && status == QS_OK; i++) {
        figures f = {.product = {0}};
        status = shape_time(device, &shapes[i].shape, asked.rounds, &f);
        if (status != QS_OK) break;
        json_array_append_new(rows, row_of(i, &f, peak));
        if (!asked.json) row_print(json_array_get(rows, i));
    }
    qs_device_close(device);
    if (status == QS_OK && asked.json) return json_print(summary(rows, peak));
    if (status == QS_OK) means_print(rows);
    json_decref(rows);
    return status;
}
