// SPDX-License-Identifier: Apache-2.0
/* The device ref and the front that all devices share: options, registry, rests. */
// labels: short
#include "device_support.h"

TEST(test_registry) {
    bool found = false;
    for (size_t i = 0; qs_device_backend_at(i); i++) {
        found |= !strcmp(qs_device_backend_at(i), "ref");
    }
    assert_true(found);
}

TEST(test_options) {
    qs_device *device = NULL;
    qs_device_options options = {.backend = "gpu", .threads = 1, .speed = 1};
    assert_refused(qs_device_open(&options, &device), QS_USAGE, "gpu");
    assert_message("ref");
    options = (qs_device_options){.backend = "ref", .threads = 1, .speed = 1.5};
    assert_int_equal(qs_device_open(&options, &device), QS_USAGE);
    options.speed = 0;
    assert_int_equal(qs_device_open(&options, &device), QS_USAGE);
    options = (qs_device_options){.backend = "ref", .threads = 0, .speed = 1};
    assert_int_equal(qs_device_open(&options, &device), QS_USAGE);
    assert_null(device);
}

TEST(test_describe) {
    qs_device_info info;
    qs_device *device = open_device("ref", NULL, 2, 0.5);
    qs_device_describe(device, &info);
    assert_string_equal(info.backend, device_options("ref", NULL, 2, 0.5).backend);
    assert_string_equal(info.formats[0], "fp32");
    assert_int_equal(info.threads, 2);
    assert_true(info.speed == 0.5);
    assert_true(info.cpu[0] && info.isa[0] && info.library[0]);
    qs_device_close(device);
}

/* ref runs the very reference kernels. */
TEST(test_runs) {
    qs_device *device = open_device("ref", NULL, 1, 1);
    qs_kernel_fact fact;
    bound b;
    bound_parse(&b, "linear/forward src=bf16[8,64] weights=bf16[10,64] bias=fp32[10] dst=bf16[8,10]", 3);
    assert_ok(qs_device_fact(device, &b.one, &fact));
    assert_string_equal(fact.kernel, "reference");
    check_dst(device, &b);
    bound_release(&b);
    qs_device_close(device);
}

/* Vector kernels count on lines of 64 bytes: other locations are refused before anything is bound to them. */
TEST(test_alignment) {
    qs_device *device = open_device("ref", NULL, 1, 1);
    qs_location operand[QS_MAX_OPERANDS] = {0};
    qs_memory *memory = NULL;
    qs_case one;
    qs_kernel *kernel = NULL;
    assert_ok(qs_memory_reserve(device, 512, &memory));
    assert_ok(qs_case_parse("relu/forward src=fp32[2,8] dst=fp32[2,8]", &one));
    qs_location *src = &operand[qs_case_position(&one, QS_SRC)], *dst = &operand[qs_case_position(&one, QS_DST)];
    const qs_location nothing = {0};
    *src = qs_location_of(memory, 0), *dst = qs_location_of(memory, 256);
    assert_ok(qs_device_prepare(device, &one, NULL, operand, nothing, &kernel));
    qs_kernel_release(kernel);
    kernel = NULL;
    *dst = qs_location_of(memory, 256 + 32);
    assert_refused(qs_device_prepare(device, &one, NULL, operand, nothing, &kernel), QS_USAGE, "dst of relu begins at byte 288");
    *dst = qs_location_of(memory, 576);
    assert_refused(qs_device_prepare(device, &one, NULL, operand, nothing, &kernel), QS_USAGE, "of a memory of 512");
    *dst = nothing;
    assert_refused(qs_device_prepare(device, &one, NULL, operand, nothing, &kernel), QS_USAGE, "dst of relu has no memory");
    *dst = qs_location_of(memory, 256);
    assert_refused(qs_device_prepare(device, &one, NULL, operand, qs_location_of(memory, 132), &kernel), QS_USAGE,
                   "scratch of relu begins at byte 132");
    qs_memory_release(memory);
    assert_null(kernel);
    qs_device_close(device);
}

static double seconds_of(double speed, const qs_speeds *products, bound *b) {
    qs_device_options options = device_options("ref", NULL, 1, speed);
    qs_device *device = NULL;
    options.products = *products;
    assert_ok(qs_device_open(&options, &device));
    bound_kernel kernel;
    kernel_make(&kernel, device, b);
    double best = INFINITY;
    kernel_write(&kernel);
    for (int i = 0; i < 5; i++) {
        double seconds;
        assert_ok(qs_kernel_time(kernel.kernel, &b->run, &seconds));
        best = fmin(best, seconds);
    }
    kernel_release(&kernel);
    qs_device_close(device);
    return best;
}

/* At speed 1/4 a kernel takes 4 times as long. The fastest of five runs at each speed is compared, and half of the rest allowed to be
 * missing, because the kernel's own time varies on a busy machine; no rest at all would give a ratio near 1. */
TEST(test_rests) {
    bound b;
    bound_parse(&b, "linear/forward src=fp32[64,256] weights=fp32[64,256] dst=fp32[64,64]", 3);
    const qs_speeds none = {0}, slow = {1, {qs_format_of("fp32")}, {0.25}};
    const double full = seconds_of(1, &none, &b), quarter = seconds_of(0.25, &none, &b), product = seconds_of(1, &slow, &b);
    assert_true(quarter > 2.5 * full && product > 2.5 * full);
    bound_release(&b);
}

/* Products rest by their format, and nothing else does: without a rest a run is as fast as on a device that knows none. Half of the rest
 * may be missing here as well. */
TEST(test_rests_of_products) {
    bound b;
    bound_parse(&b, "relu/forward src=fp32[64,4096] dst=fp32[64,4096]", 3);
    const qs_speeds none = {0}, slow = {1, {qs_format_of("fp32")}, {0.1}};
    assert_true(seconds_of(1, &slow, &b) < 5 * seconds_of(1, &none, &b));
    bound_release(&b);
    const qs_device_options wrong = {.backend = "ref", .threads = 1, .speed = 1, .products = {1, {qs_format_of("fp32")}, {0}}};
    qs_device *device = NULL;
    assert_refused(qs_device_open(&wrong, &device), QS_USAGE, "device speed 0 in fp32");
}

TEST_MAIN(test_registry, test_options, test_describe, test_runs, test_rests, test_rests_of_products, test_alignment)
