// SPDX-License-Identifier: Apache-2.0
/* The device `ref`: every case by its reference kernel, one thread, no speed intended. It is the floor under all other devices. */
#include "backend.h"

#include <stdlib.h>
#include <string.h>

typedef struct ref_kernel {
    qs_case one;
    qs_tensor operand[QS_MAX_OPERANDS];
} ref_kernel;

static int ref_state; /* the device has none; its address marks an open one */

static qs_status ref_open(const qs_device_options *options, void **state) {
    if (options->family) return qs_fail(QS_USAGE, "kernel family '%s': the device ref has no families, leave it out", options->family);
    if (options->isa) QS_TRY(qs_number_isa_set(options->isa));
    *state = &ref_state;
    return QS_OK;
}

static void ref_close(void *state) {
    (void)state;
}

static void ref_describe(const void *state, qs_device_info *out) {
    (void)state;
    snprintf(out->isa, sizeof out->isa, "%s", qs_number_isa());
    snprintf(out->library, sizeof out->library, "reference");
    const char *formats[] = {"fp32", "bf16", "fp16", "int8"};
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        out->formats[i] = formats[i];
    }
}

static const char only_kernel[] = "reference";

static qs_status name_check(const char *name) {
    if (!name || strcmp(name, only_kernel) == 0) return QS_OK;
    return qs_fail(QS_MISMATCH, "the device ref has no kernel %s: all of its kernels are called %s", name, only_kernel);
}

static qs_status ref_fact(void *state, const qs_case *one, const char *name, qs_kernel_fact *out) {
    (void)state;
    (void)one;
    QS_TRY(name_check(name));
    snprintf(out->kernel, sizeof out->kernel, "%s", only_kernel);
    out->allocates = true;
    return QS_OK;
}

static qs_status ref_prepare(void *state, const qs_case *one, const char *name, const qs_location *operand, qs_location scratch,
                             void **kernel) {
    ref_kernel *made = NULL;
    (void)state;
    (void)scratch;
    QS_TRY(name_check(name));
    QS_TRY(qs_allocate(1, sizeof *made, &made));
    made->one = *one;
    for (int i = 0; i < one->operands; i++)
        made->operand[i] = (qs_tensor){.shape = one->operand[i].shape,
                                       .format = one->operand[i].format,
                                       .data = one->operand[i].format ? qs__location_host(operand[i]) : NULL};
    *kernel = made;
    return QS_OK;
}

static qs_status ref_run(void *kernel, const qs_run *run) {
    const ref_kernel *self = kernel;
    return qs_case_reference(&self->one, self->operand, run);
}

const qs__backend qs__device_ref = {
    .name = "ref",
    .open = ref_open,
    .close = ref_close,
    .describe = ref_describe,
    .fact = ref_fact,
    .prepare = ref_prepare,
    .run = ref_run,
    .release = free,
};
