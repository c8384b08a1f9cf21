// SPDX-License-Identifier: Apache-2.0
/* qsync-bench narrow: the speed of narrow accumulators, beside two fp32 kernels: the first that forms the same products, and the one
 * that the device takes: Winograd's convolutions form fewer, which sums in a stated order cannot. Kernels of a shape run in turn, so
 * that what else the machine does meets all; of each the least time counts. Batches are small: a run takes a millisecond or a few. */
#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct layer {
    const char *name;
    int64_t batch, inputs, outputs, extent; /* extent 0: a linear layer */
    int kernel, stride;
    bool first; /* of its network: no gradient of the input */
} layer;

static const layer shapes[] = {
    {"resnet20 stem", 4, 3, 16, 32, 3, 1, true},
    {"resnet20 stage1", 4, 16, 16, 32, 3, 1, false},
    {"resnet20 stage2 first", 4, 16, 32, 32, 3, 2, false},
    {"resnet20 stage2", 4, 32, 32, 16, 3, 1, false},
    {"resnet20 stage3", 4, 64, 64, 8, 3, 1, false},
    {"resnet18 stage1", 1, 64, 64, 56, 3, 1, false},
    {"resnet18 stage2 first", 1, 64, 128, 56, 3, 2, false},
    {"resnet18 stage2 shortcut", 1, 64, 128, 56, 1, 2, false},
    {"resnet18 stage3", 1, 256, 256, 14, 3, 1, false},
    {"linear 512 to 1000", 32, 512, 1000, 0, 1, 1, false},
    {"linear 768 to 768", 64, 768, 768, 0, 1, 1, false},
};
static const char *const passes[] = {"forward", "input_gradient", "weight_gradient"};

typedef struct mode {
    const char *name, *operands, *accumulator;
} mode;

static const mode modes[] = {
    {"align-truncate", "e5m2", "fp(6,9)/align-truncate"},
    {"align-truncate/chunk64", "e5m2", "fp(6,9)/chunk64/align-truncate"},
    {"nearest-even", "e5m2", "fp(6,9)/nearest-even"},
    {"nearest-even/chunk64", "e5m2", "fp(6,9)/chunk64/nearest-even"},
    {"toward-zero", "e5m2", "fp(6,9)/toward-zero"},
    {"toward-zero/chunk64", "e5m2", "fp(6,9)/chunk64/toward-zero"},
    {"stochastic", "e5m2", "fp(6,9)/stochastic"},
    {"stochastic/chunk64", "e5m2", "fp(6,9)/chunk64/stochastic"},
    {"fp32 operands, align-truncate", "fp32", "fp(6,9)/align-truncate"},
    {"fp32 operands, nearest-even", "fp32", "fp(6,9)/nearest-even"},
    {"fp32 operands, product(5), nearest-even", "fp32", "fp(6,9)/product(5)/nearest-even"},
    {"fp32 operands, toward-zero", "fp32", "fp(6,9)/toward-zero"},
    {"fp32 operands, stochastic", "fp32", "fp(6,9)/stochastic"},
};
enum {
    SHAPES = sizeof shapes / sizeof *shapes,
    LINEAR = SHAPES - 2, /* from here on */
    PASSES = sizeof passes / sizeof *passes,
    MODES = sizeof modes / sizeof *modes,
    FP32 = MODES, /* without a narrow accumulator: the device's choice */
    PRODUCTS,     /* one that forms all products */
    KERNELS,
    BASELINES = KERNELS - FP32
};

typedef struct bound_kernel {
    qs_kernel *kernel;
    qs_memory *memory; /* scratch, then operands */
    double least_s;
} bound_kernel;

typedef struct bench {
    qs_device *device;
    int rounds;
    bound_kernel kernel[KERNELS];               /* of the shape and pass at hand */
    double log_ratio[BASELINES][SHAPES][MODES]; /* sums over a shape's passes */
    int count[SHAPES];                          /* of passes */
    double gigaproducts[SHAPES][MODES];         /* multiply-adds a second, sums over a shape's passes */
} bench;

/* ---- Cases ---- */

static bool is_linear(const layer *shape) {
    return shape->extent == 0;
}

static int64_t extent_out(const layer *shape) {
    return (shape->extent - 1) / shape->stride + 1;
}

static qs_case case_start(const layer *shape, const char *pass) {
    const qs_attributes with = {.kernel = {shape->kernel, shape->kernel},
                                .stride = {shape->stride, shape->stride},
                                .padding = {shape->kernel / 2, shape->kernel / 2}};
    return is_linear(shape) ? qs_case_make("linear", pass, NULL) : qs_case_make("conv2d", pass, &with);
}

static qs_case case_of(const layer *shape, const char *pass, const mode *how) {
    const qs_format *fp32 = qs_format_of("fp32"), *operands = how ? qs_format_of(how->operands) : fp32;
    const int axes = is_linear(shape) ? 2 : 4;
    qs_case one = case_start(shape, pass);
    const qs_shape src = qs_shape_of(axes, shape->batch, shape->inputs, shape->extent, shape->extent);
    const qs_shape dst = qs_shape_of(axes, shape->batch, shape->outputs, extent_out(shape), extent_out(shape));
    const qs_shape weights = qs_shape_of(axes, shape->outputs, shape->inputs, (int64_t)shape->kernel, (int64_t)shape->kernel);
    const qs_operand bound[] = {{QS_SRC, src, operands},      {QS_WEIGHTS, weights, operands}, {QS_DST, dst, fp32},
                                {QS_DIFF_DST, dst, operands}, {QS_DIFF_SRC, src, fp32},        {QS_DIFF_WEIGHTS, weights, fp32}};
    for (size_t i = 0; i < sizeof bound / sizeof *bound; i++)
        if (qs_case_position(&one, bound[i].role) >= 0) qs_case_bind(&one, bound[i].role, bound[i].shape, bound[i].format);
    return one;
}

/* Normal values; e5m2 rounds them. */
static qs_status operand_write(qs_queue *queue, const qs_operand *operand, qs_location to) {
    const int64_t count = qs_shape_count(&operand->shape);
    const size_t bytes = qs_tensor_bytes(&operand->shape, operand->format);
    float *values = NULL;
    void *stored = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)count, sizeof *values, &values));
    QS_GOTO(qs_allocate(bytes, 1, &stored));
    for (int64_t i = 0; i < count; i++)
        values[i] = qs_random_normal((uint64_t)operand->role, (uint64_t)i);
    qs_convert_from_fp32(operand->format, QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, (qs_random_stream){0}, count, values, stored);
    status = qs_memory_write(queue, to, stored, bytes);
done:
    free(values);
    free(stored);
    return status;
}

static size_t aligned(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

/* The kernel that a device prefers, or prefers among those that form all products. */
static qs_status kernel_choose(qs_device *device, const qs_case *one, bool all_products, qs_kernel_fact *out) {
    qs_kernel_fact candidates[QS_MOST_CANDIDATES];
    int count;
    if (!all_products) return qs_device_fact(device, one, out);
    QS_TRY(qs_device_candidates(device, one, candidates, &count));
    for (int i = 0; i < count; i++)
        if (!strstr(candidates[i].kernel, "winograd")) {
            *out = candidates[i];
            return QS_OK;
        }
    return qs_fail(QS_UNSUPPORTED, "no fp32 kernel forms all products");
}

static qs_status kernel_make(bench *all, const layer *shape, const char *pass, int index) {
    bound_kernel *to = &all->kernel[index];
    const mode *how = index < MODES ? &modes[index] : NULL;
    qs_case one = case_of(shape, pass, how);
    qs_kernel_fact fact;
    *to = (bound_kernel){.least_s = INFINITY};
    if (how) QS_TRY(qs_narrow_find(how->accumulator, &one.attributes.accumulator));
    QS_TRY(kernel_choose(all->device, &one, index == PRODUCTS, &fact));
    size_t bytes = aligned(fact.scratch_bytes), at = bytes;
    for (int i = 0; i < one.operands; i++)
        bytes += one.operand[i].format ? aligned(qs_tensor_bytes(&one.operand[i].shape, one.operand[i].format)) : 0;
    QS_TRY(qs_memory_reserve(all->device, bytes, &to->memory));
    qs_location operand[QS_MAX_OPERANDS] = {0};
    for (int i = 0; i < one.operands; i++) {
        if (!one.operand[i].format) continue;
        operand[i] = qs_location_of(to->memory, at);
        QS_TRY(operand_write(qs_device_queue(all->device, QS_QUEUE_KERNELS), &one.operand[i], operand[i]));
        at += aligned(qs_tensor_bytes(&one.operand[i].shape, one.operand[i].format));
    }
    return qs_device_prepare(all->device, &one, fact.kernel, operand, qs_location_of(to->memory, 0), &to->kernel);
}

static void kernels_release(bench *all) {
    for (int k = 0; k < KERNELS; k++) {
        if (all->kernel[k].kernel) qs_kernel_release(all->kernel[k].kernel);
        qs_memory_release(all->kernel[k].memory);
    }
    memset(all->kernel, 0, sizeof all->kernel);
}

/* ---- Times ---- */

static qs_status kernel_time(bound_kernel *one) {
    const qs_run run = {.seed = 1, .samples = 1, .global_samples = 1, .loss_scale = 1};
    double seconds;
    QS_TRY(qs_kernel_time(one->kernel, &run, &seconds));
    one->least_s = fmin(one->least_s, seconds);
    return QS_OK;
}

/* Before each narrow kernel the fp32 ones run: they are as warm, and have as many chances, as the fastest of them. */
static qs_status pass_measure(bench *all, int shape, const char *pass) {
    for (int k = 0; k < KERNELS; k++)
        QS_TRY(kernel_make(all, &shapes[shape], pass, k));
    for (int round = 0; round < all->rounds; round++)
        for (int k = 0; k < MODES; k++) {
            QS_TRY(kernel_time(&all->kernel[FP32]));
            QS_TRY(kernel_time(&all->kernel[PRODUCTS]));
            QS_TRY(kernel_time(&all->kernel[k]));
        }
    const qs_case one = case_of(&shapes[shape], pass, NULL);
    for (int k = 0; k < MODES; k++) {
        for (int b = 0; b < BASELINES; b++)
            all->log_ratio[b][shape][k] += log(all->kernel[FP32 + b].least_s / all->kernel[k].least_s);
        all->gigaproducts[shape][k] += qs_case_flops(&one) / 2e9 / all->kernel[k].least_s;
    }
    all->count[shape]++;
    return QS_OK;
}

static qs_status measure(bench *all) {
    for (int s = 0; s < SHAPES; s++)
        for (int p = 0; p < PASSES; p++) {
            if (shapes[s].first && strcmp(passes[p], "input_gradient") == 0) continue;
            const qs_status status = pass_measure(all, s, passes[p]);
            kernels_release(all);
            QS_TRY(status);
        }
    return QS_OK;
}

/* ---- Output ---- */

/* Over the shapes from `first` to before `end`. */
static double ratio_of(const bench *all, int baseline, int m, int first, int end) {
    double sum = 0;
    int count = 0;
    for (int s = first; s < end; s++)
        sum += all->log_ratio[baseline - FP32][s][m], count += all->count[s];
    return exp(sum / count);
}

static double shape_ratio(const bench *all, int baseline, int shape, int m) {
    return exp(all->log_ratio[baseline - FP32][shape][m] / all->count[shape]);
}

static qs_status print_figures(const bench *all, int threads) {
    json_t *ratios = json_object(), *taken = json_object(), *linear = json_object(), *by_shape = json_object();
    for (int m = 0; m < MODES; m++) {
        json_object_set_new(ratios, modes[m].name, json_real(ratio_of(all, PRODUCTS, m, 0, LINEAR)));
        json_object_set_new(taken, modes[m].name, json_real(ratio_of(all, FP32, m, 0, LINEAR)));
        json_object_set_new(linear, modes[m].name, json_real(ratio_of(all, FP32, m, LINEAR, SHAPES)));
    }
    for (int s = 0; s < SHAPES; s++) {
        json_t *row = json_object();
        for (int m = 0; m < MODES; m++)
            json_object_set_new(row, modes[m].name,
                                json_pack("{s:f,s:f,s:f}", "ratio", shape_ratio(all, PRODUCTS, s, m), "taken_ratio",
                                          shape_ratio(all, FP32, s, m), "gigaproducts_per_s", all->gigaproducts[s][m] / all->count[s]));
        json_object_set_new(by_shape, shapes[s].name, row);
    }
    return json_print(json_pack("{s:i,s:o,s:o,s:o,s:o}", "threads", threads, "kernel_ratio", ratios, "taken_ratio", taken, "linear_ratio",
                                linear, "shapes", by_shape));
}

static void print_table(const bench *all) {
    printf("Speed of narrow accumulators, fp(6,9), over fp32's: geometric means over the passes of a shape, and over all convolutions\n\n"
           "%-42s %15s %15s\n",
           "", "all products", "kernel it takes");
    for (int m = 0; m < MODES; m++) {
        printf("\n%-42s %15.3f %15.3f\n", modes[m].name, ratio_of(all, PRODUCTS, m, 0, LINEAR), ratio_of(all, FP32, m, 0, LINEAR));
        for (int s = 0; s < SHAPES; s++)
            printf("  %-40s %15.3f %15.3f %8.1f G products/s\n", shapes[s].name, shape_ratio(all, PRODUCTS, s, m),
                   shape_ratio(all, FP32, s, m), all->gigaproducts[s][m] / all->count[s]);
    }
}

static const option_row option_rows[] = {
    {OPTION_ROUNDS(bench_request, 12, "runs of each kernel, in turn")},
    {OPTION_THREADS(bench_request)},
    {OPTION_ISA(bench_request)},
    {OPTION_JSON(bench_request)},
};

qs_status bench_narrow(int argc, char **argv) {
    const verb_usage usage = {.verb = "narrow",
                              .arguments = "",
                              .purpose = "Convolutions of resnet20 and resnet18, and two linear layers, in all three passes, by every "
                                         "adder, in chunks and not, from FP8\n"
                                         "(e5m2) and from fp32 operands: the time of the device's fp32 kernel over that of the narrow one, "
                                         "each the least of all rounds.",
                              .examples = "  qsync-bench narrow --rounds 20 --isa avx2\n"};
    bench_request asked = {0};
    bool done = false;
    option_table table = {0};
    bench all = {0};
    OPTIONS_ADD(&table, option_rows, &asked);
    QS_TRY(bench_options(&table, &usage, argc, argv, &done));
    if (done) return QS_OK;
    all.rounds = asked.rounds;
    threads_pin(asked.threads);
    QS_TRY(qs_device_open(&(qs_device_options){.backend = "cpu", .threads = asked.threads, .isa = asked.isa, .speed = 1}, &all.device));
    const qs_status status = measure(&all);
    qs_device_close(all.device);
    QS_TRY(status);
    if (asked.json) return print_figures(&all, asked.threads);
    print_table(&all);
    return QS_OK;
}
