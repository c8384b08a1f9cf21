// SPDX-License-Identifier: Apache-2.0
/* Products by themselves: what "taken bf16" times is the kernel that the device takes for the case, and codes that fill their bytes are no
 * product of the kernel library's. */
// labels: short
#include "device_support.h"
#include "qsync/single_product.h"

static const struct {
    qs_single_product_shape shape;
    const char *text;
} cases[] = {
    {{32, 48, 64, 1, 1, 1, 1}, "linear/forward src=bf16[32,48] weights=bf16[64,48] dst=bf16[32,64]"},
    {{2, 16, 16, 32, 32, 3, 1}, "conv2d/forward src=bf16[2,16,32,32] weights=bf16[16,16,3,3] dst=bf16[2,16,32,32] kernel=3x3 padding=1x1"},
    {{2, 16, 32, 9, 9, 3, 2},
     "conv2d/forward src=bf16[2,16,9,9] weights=bf16[32,16,3,3] dst=bf16[2,32,5,5] kernel=3x3 stride=2x2 padding=1x1"},
    {{1, 3, 24, 32, 32, 16, 16},
     "conv2d/forward src=bf16[1,3,32,32] weights=bf16[24,3,16,16] dst=bf16[1,24,2,2] kernel=16x16 stride=16x16"},
};

TEST(taken_is_taken) {
    qs_device *device = open_device("cpu", "all", 1, 1);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        qs_single_product *product = NULL;
        qs_case one;
        qs_kernel_fact fact;
        const qs_status status = qs_single_product_open(device, &cases[i].shape, "taken bf16", &product);
        if (status == QS_UNSUPPORTED) break; /* no bf16 on this processor */
        assert_ok(status);
        assert_ok(qs_case_parse(cases[i].text, &one));
        assert_ok(qs_device_fact(device, &one, &fact));
        assert_string_equal(qs_single_product_kernel(product), fact.kernel);
        assert_ok(qs_single_product_run(product, QS_SINGLE_ALL));
        qs_single_product_close(product);
    }
    qs_device_close(device);
}

TEST(eight_bits_have_no_room) {
    qs_device *device = open_device("cpu", "all", 1, 1);
    qs_single_product *product = NULL;
    assert_int_equal(qs_single_product_open(device, &cases[1].shape, "int8:shift4", &product), QS_UNSUPPORTED);
    const qs_status status = qs_single_product_open(device, &cases[1].shape, "own int8:shift4", &product);
    if (status != QS_UNSUPPORTED) { /* else no exact products on this processor */
        assert_ok(status);
        assert_ok(qs_single_product_run(product, QS_SINGLE_ALL));
        qs_single_product_close(product);
    }
    qs_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(taken_is_taken), cmocka_unit_test(eight_bits_have_no_room)};
    return backend_exists("cpu") ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
