// SPDX-License-Identifier: Apache-2.0
/* The roof: known wherever there are vector instructions for a format, in the order that these have, and no product passes it. */
// labels: short
#include "device_support.h"
#include "kit/processor.h"
#include "qsync/single_product.h"

#include <time.h>

static bool lists(const qs_device *device, const char *format) {
    qs_device_info info;
    qs_device_describe(device, &info);
    for (int i = 0; i < 8 && info.formats[i]; i++)
        if (!strcmp(info.formats[i], format)) return true;
    return false;
}

static bool tiles_allowed(void) {
    return processor_here().tiles && (!strcmp(test_ceiling, "all") || !strcmp(test_ceiling, "avx512_core_amx"));
}

/* Units that multiply bytes do at least half as many again at once as those of fp32; most do four times as many. Those of bf16 do twice as
 * many or, where tile registers are beside them (Intel's), about half as many. */
static void narrower_is_faster(void **state) {
    qs_device *device = open_device("cpu", test_ceiling, 1, 1);
    const double fp32 = qs_device_peak(device, qs_format_of("fp32"));
    (void)state;
    if (fp32 > 0) {
        if (lists(device, "bf16"))
            assert_true(qs_device_peak(device, qs_format_of("bf16")) > (processor_here().tiles && !tiles_allowed() ? 0.4 : 1.5) * fp32);
        if (lists(device, "int8")) assert_true(qs_device_peak(device, qs_format_of("int8")) > 1.5 * fp32);
    }
    if (!lists(device, "bf16")) assert_true(qs_device_peak(device, qs_format_of("bf16")) == 0);
    assert_true(qs_device_peak(device, qs_format_of("fp16")) == 0);
    qs_device_close(device);
}

/* Multiply-adds a second of processor time, the best of some runs. */
static double product_rate(qs_device *device, const qs_single_product_shape *shape) {
    qs_single_product *product = NULL;
    double best = 0;
    assert_ok(qs_single_product_open(device, shape, "fp32", &product));
    for (int i = 0; i < 10; i++) {
        const clock_t start = clock();
        assert_ok(qs_single_product_run(product, QS_SINGLE_PRODUCT));
        const double rate = (double)(shape->batch * shape->channels * shape->outputs) * CLOCKS_PER_SEC / (double)(clock() - start + 1);
        if (rate > best) best = rate;
    }
    qs_single_product_close(product);
    return best;
}

/* A tenth for the steps of the clock and a processor that changes its own. */
static void no_product_passes_it(void **state) {
    qs_device *device = open_device("cpu", test_ceiling, 1, 1);
    qs_device_info info;
    const double peak = qs_device_peak(device, qs_format_of("fp32"));
    (void)state;
    qs_device_describe(device, &info);
    if (peak > 0 && strcmp(info.library, "own kernels"))
        assert_true(product_rate(device, &(qs_single_product_shape){256, 256, 256, 1, 1, 1, 1}) < 1.1 * peak);
    qs_device_close(device);
}

static void unknown_is_zero(void **state) {
    qs_device *device = open_device("ref", test_ceiling, 1, 1);
    (void)state;
    assert_true(qs_device_peak(device, qs_format_of("fp32")) == 0);
    qs_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(narrower_is_faster), cmocka_unit_test(no_product_passes_it),
                                       cmocka_unit_test(unknown_is_zero)};
    static const char *const with_tiles[] = {"avx512_core_amx"}; /* the newest ceiling by its name: devices open under it anywhere */
    if (!backend_exists("cpu")) return 77;
    return run_per_ceiling(tests, COUNT_OF(tests)) + run_under(with_tiles, 1, tests, COUNT_OF(tests));
}
