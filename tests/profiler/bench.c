// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Figures of `qsync bench` hang together, and what cannot be run is refused. */
#include "profiler_support.h"

static qs_device *device_open(void) {
    qs_device *device;
    assert_ok(qs_device_open(&(qs_device_options){.backend = "ref", .threads = 1, .speed = 1}, &device));
    return device;
}

static void figures_hang_together(void **state) {
    static const char *const recipes[] = {"fp32", "bf16", "int8/bf16", "int8:tensor", "int4:shift4", "int4:hadamard"};
    qs_device *device = device_open();
    double flops = 0;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(recipes); i++) {
        qs_bench_figure one;
        const qs_bench_question question = {.model = "mlp", .recipe = recipes[i], .batch = 4, .steps = 3};
        assert_ok(qs_bench_step(&question, device, &one));
        assert_true(isfinite(one.step_us) && one.step_us > 0);
        assert_true(fabs(one.samples_per_second * one.step_us - 4e6) < 1e-6 * 4e6);
        if (i) assert_true(one.flops_per_step == flops); /* conversions do not count */
        flops = one.flops_per_step;
    }
    /* Forward, and both gradients but that of the pixels: products of 784×256, 256×128, 128×10, two operations each; little beside them. */
    const double products = 2.0 * 4 * (3 * (784 * 256 + 256 * 128 + 128 * 10) - 784 * 256);
    assert_true(flops >= products && flops < 1.6 * products);
    qs_device_close(device);
}

/* Rows of one operator and pass add up to the step's work. */
static const qs_bench_part *row_of(const qs_bench_figure *figure, const char *name) {
    for (int i = 0; i < figure->parts; i++)
        if (strcmp(figure->part[i].name, name) == 0) return &figure->part[i];
    return NULL;
}

static void kernels_add_up(void **state) {
    qs_device *device = device_open();
    qs_bench_question question = {.model = "lenet5", .recipe = "fp32", .batch = 2, .steps = 2, .parts = true, .dequantize = true};
    qs_bench_figure one;
    double flops = 0;
    (void)state;
    assert_ok(qs_bench_step(&question, device, &one));
    for (int i = 0; i < one.parts; i++) {
        assert_true(one.part[i].us > 0 && one.part[i].bytes > 0 && one.part[i].count > 0);
        assert_false(one.part[i].conversion);
        if (i) assert_true(one.part[i].us <= one.part[i - 1].us);
        flops += one.part[i].flops;
    }
    assert_true(fabs(flops - one.flops_per_step) <= 1e-9 * flops);
    /* Two convolutions; the images want no gradient. */
    assert_int_equal(row_of(&one, "conv2d/forward")->count, 2);
    assert_int_equal(row_of(&one, "conv2d/weight_gradient")->count, 2);
    assert_int_equal(row_of(&one, "conv2d/input_gradient")->count, 1);
    assert_true(one.roof_us == 0 && one.dequantize_us == 0); /* ref knows no peak; no product is integer */
    qs_bench_figure_release(&one);
    question.recipe = "int8/bf16";
    assert_ok(qs_bench_step(&question, device, &one));
    assert_true(row_of(&one, "quantize/forward")->conversion && row_of(&one, "absmax/forward")->conversion);
    /* Weights find theirs, and the two values between linear layers come with their maxima, which a relu found. */
    assert_int_equal(row_of(&one, "quantize/forward")->count, 2 * (row_of(&one, "absmax/forward")->count + 2));
    assert_true(one.dequantize_us > 0);
    qs_bench_figure_release(&one);
    qs_device_close(device);
}

/* Half as high and wide: convolutions, nearly all of the work, have a quarter of the pixels. */
static void another_input(void **state) {
    const qs_samples half = {
        .inputs = 1, .input = {{.name = "image", .rank = 3, .extent = {16, 16, 3}}}, .target = {.classes = 10, .extent = 1}};
    qs_bench_question question = {.model = "resnet8", .recipe = "fp32", .batch = 1, .steps = 1};
    qs_device *device = device_open();
    qs_bench_figure own, quarter;
    (void)state;
    assert_ok(qs_bench_step(&question, device, &own));
    question.samples = &half;
    assert_ok(qs_bench_step(&question, device, &quarter));
    assert_true(quarter.flops_per_step > 0.24 * own.flops_per_step && quarter.flops_per_step < 0.27 * own.flops_per_step);
    qs_device_close(device);
}

/* More work in the same cases. */
static void blocks_again(void **state) {
    qs_bench_question question = {.model = "lenet5", .recipe = "fp32", .batch = 2, .steps = 1, .recompute = "no"};
    qs_device *device = device_open();
    qs_bench_figure kept, again;
    (void)state;
    assert_ok(qs_bench_step(&question, device, &kept));
    question.recompute = "all";
    assert_ok(qs_bench_step(&question, device, &again));
    assert_true(again.flops_per_step > kept.flops_per_step && again.cases == kept.cases);
    qs_device_close(device);
}

static void wrong_questions_are_refused(void **state) {
    qs_device *device = device_open();
    qs_bench_figure one;
    (void)state;
    static const qs_samples same = {
        .inputs = 1, .input = {{.name = "image", .rank = 3, .extent = {32, 32, 3}}}, .target = {.classes = 1, .extent = 1}};
    static const struct {
        qs_bench_question question;
        const char *why;
    } wrong[] = {{{.model = "mlp", .recipe = "int3", .batch = 4, .steps = 3}, "int3"},
                 {{.model = "perceptron", .recipe = "fp32", .batch = 4, .steps = 3}, "perceptron"},
                 {{.model = "mlp", .recipe = "fp32", .batch = 0, .steps = 3}, "batch 0"},
                 {{.model = "mlp", .recipe = "fp32", .batch = 4, .steps = 0}, "steps 0"},
                 {{.model = "mlp", .recipe = "fp32", .recompute = "fc9", .batch = 4, .steps = 3}, "fc9"},
                 {{.model = "resnet20", .samples = &same, .recipe = "fp32", .batch = 4, .steps = 3}, "1 classes"}};
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        assert_refused(qs_bench_step(&wrong[i].question, device, &one), QS_USAGE, wrong[i].why);
    qs_device_close(device);
}

TEST_MAIN(figures_hang_together, kernels_add_up, another_input, blocks_again, wrong_questions_are_refused)
