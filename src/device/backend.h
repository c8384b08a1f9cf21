// SPDX-License-Identifier: Apache-2.0
/* What a device is inside this room: a table of functions. device.c checks arguments and cases before it calls them, measures and rests. */
#ifndef QSYNC_DEVICE_BACKEND_H
#define QSYNC_DEVICE_BACKEND_H

#include "qsync/device.h"

typedef struct qs__backend {
    const char *name;
    /* Opens with checked options; *state is what the other functions receive. */
    qs_status (*open)(const qs_device_options *options, void **state);
    void (*close)(void *state);
    /* Fills isa, library, kernels and formats. */
    void (*describe)(const void *state, qs_device_info *out);
    /* name: of a candidate, QS_MISMATCH when it is none; NULL: what the device takes by itself. */
    qs_status (*fact)(void *state, const qs_case *one, const char *name, qs_kernel_fact *out);
    /* Up to QS_MOST_CANDIDATES, at least one on success; NULL: there is never more than one. */
    qs_status (*candidates)(void *state, const qs_case *one, qs_kernel_fact *out, int *count);
    /* data[i] belongs to operand i; *kernel is what run and release receive. */
    qs_status (*prepare)(void *state, const qs_case *one, const char *name, void *const *data, void *scratch, void **kernel);
    qs_status (*run)(void *kernel, const qs_run *run);
    void (*release)(void *kernel);
    void (*trim)(void *state);                            /* NULL: nothing is kept of released kernels */
    double (*peak)(void *state, const qs_format *format); /* NULL: not known */
} qs__backend;

#define QS_DEVICE(name) extern const qs__backend qs__device_##name;
#include "devices.def"
#undef QS_DEVICE

/* What `open` of this backend gave for the device; NULL: the device is another backend's. */
void *qs__device_state(qs_device *device, const qs__backend *backend);

/* "AMD EPYC ..." of this machine, or "unknown", into a buffer of `bytes`. */
void qs__cpu_name(char *text, size_t bytes);

#endif
