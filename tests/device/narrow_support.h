// SPDX-License-Identifier: Apache-2.0
/* Kernels of narrow accumulators beside the scalar reference. */
#ifndef QSYNC_TESTS_NARROW_SUPPORT_H
#define QSYNC_TESTS_NARROW_SUPPORT_H

#include "device_support.h"

/* Runs the device's kernel on the operands of `expected`, whose results are the reference's: the bits must be those. */
static inline void check_bits(qs_device *device, bound *expected, const char *text) {
    bound got;
    bound_kernel kernel;
    bound_copy(&got, &expected->one, expected);
    kernel_make(&kernel, device, &got);
    if (strncmp(kernel.fact.kernel, "own:narrow", 10) != 0 || kernel.fact.allocates) fail_msg("%s is run by %s", text, kernel.fact.kernel);
    assert_ok(kernel_run(&kernel, &got.run));
    for (int i = 0; i < got.one.operands; i++) {
        if (!got.one.operand[i].format) continue;
        if (!memcmp(got.operands[i].data, expected->operands[i].data, tensor_bytes(&got.operands[i]))) continue;
        float *a = tensor_values(&got.operands[i]), *b = tensor_values(&expected->operands[i]);
        for (int64_t k = 0; k < qs_shape_count(&got.operands[i].shape); k++)
            if (memcmp(&a[k], &b[k], sizeof *a))
                fail_msg("%s, %s: %s[%d] is %.9g, expected %.9g", text, kernel.fact.kernel, qs_role_name(got.one.operand[i].role), (int)k,
                         (double)a[k], (double)b[k]);
        free(a);
        free(b);
        fail_msg("%s: %s differs", text, qs_role_name(got.one.operand[i].role));
    }
    kernel_release(&kernel);
    bound_release(&got);
}

#endif
