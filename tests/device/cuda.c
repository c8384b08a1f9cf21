// SPDX-License-Identifier: Apache-2.0
// labels: short
/* The device `cuda`: opened, or refused with a reason. */
#include "kit/device.h"

static void open_or_reason(void **state) {
    (void)state;
    const qs_device_options options = {.backend = "cuda", .threads = 1, .speed = 1};
    qs_device *device = NULL;
    if (!backend_exists("cuda")) skip();
    const qs_status status = qs_device_open(&options, &device);
    assert_true(status == QS_OK || status == QS_UNSUPPORTED);
    if (status == QS_UNSUPPORTED) assert_non_null(strstr(qs_message(), "libcuda.so.1"));
    qs_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(open_or_reason)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
