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
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
        qs_bench_figure one;
        assert_ok(qs_bench_step("mlp", recipes[i], 4, 3, device, &one));
        assert_true(isfinite(one.step_us) && one.step_us > 0);
        assert_true(fabs(one.images_per_second * one.step_us - 4e6) < 1e-6 * 4e6);
        if (i) assert_true(one.flops_per_step == flops); /* conversions do not count */
        flops = one.flops_per_step;
    }
    /* Forward, and both gradients but that of the pixels: products of 784×256, 256×128, 128×10, two operations each; little beside them. */
    const double products = 2.0 * 4 * (3 * (784 * 256 + 256 * 128 + 128 * 10) - 784 * 256);
    assert_true(flops >= products && flops < 1.6 * products);
    qs_device_close(device);
}

static void wrong_questions_are_refused(void **state) {
    qs_device *device = device_open();
    qs_bench_figure one;
    (void)state;
    assert_refused(qs_bench_step("mlp", "int3", 4, 3, device, &one), QS_USAGE, "int3");
    assert_refused(qs_bench_step("perceptron", "fp32", 4, 3, device, &one), QS_USAGE, "perceptron");
    assert_refused(qs_bench_step("mlp", "fp32", 0, 3, device, &one), QS_USAGE, "batch 0");
    assert_refused(qs_bench_step("mlp", "fp32", 4, 0, device, &one), QS_USAGE, "steps 0");
    qs_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(figures_hang_together), cmocka_unit_test(wrong_questions_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
