// SPDX-License-Identifier: Apache-2.0
/* Which GPUs there are, which of them a device takes, and why one cannot be used. */
#include "cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_CAPABILITY = 75, TURING = 75, AMPERE = 80, ADA = 89 };

/* "GPU-" and the hexadecimal digits in their groups, as the driver's tools write it. */
static void uuid_text(const CUuuid *uuid, char *text, size_t bytes) {
    size_t used = (size_t)snprintf(text, bytes, "GPU");
    for (int i = 0; i < 16 && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%02x", i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                                 (unsigned)(unsigned char)uuid->bytes[i]);
}

static qs_status gpus_count(const qs__driver *driver, int *count) {
    QS_TRY(qs__driver_check(driver, driver->device_count(count), "counting GPUs"));
    return *count > 0 ? QS_OK : qs_fail(QS_UNSUPPORTED, "there is a CUDA driver here, but no GPU");
}

/* ---- Which one a device takes ------------------------------------------------------------------------------------------------------ */

static qs_status gpu_by_uuid(const qs__driver *driver, int count, const char *wanted, CUdevice *out) {
    for (int i = 0; i < count; i++) {
        CUuuid uuid;
        char text[64];
        if (driver->device_get(out, i) != CUDA_SUCCESS || driver->device_uuid(&uuid, *out) != CUDA_SUCCESS) continue;
        uuid_text(&uuid, text, sizeof text);
        if (!strcmp(text, wanted)) return QS_OK;
    }
    return qs_fail(QS_USAGE, "no GPU here has the UUID %s; there are %d, numbered from 0", wanted, count);
}

qs_status qs__cuda_gpu_find(const qs__driver *driver, const qs_cuda_options *options, CUdevice *out) {
    const char *wanted = options->device;
    int count = 0;
    char *end = NULL;
    QS_TRY(gpus_count(driver, &count));
    if (!wanted || !*wanted) return qs__driver_check(driver, driver->device_get(out, options->turn % count), "a GPU");
    if (!strncmp(wanted, "GPU-", 4)) return gpu_by_uuid(driver, count, wanted, out);
    const long index = strtol(wanted, &end, 10);
    if (end == wanted || *end || index < 0 || index >= count)
        return qs_fail(QS_USAGE, "GPU '%s': give a number from 0 to %d, or a UUID (GPU-...)", wanted, count - 1);
    return qs__driver_check(driver, driver->device_get(out, (int)index), "a GPU");
}

/* ---- What it can do ------------------------------------------------------------------------------------------------------------------ */

static int attribute_of(const qs__driver *driver, CUdevice device, CUdevice_attribute attribute) {
    int value = 0;
    return driver->device_attribute(&value, attribute, device) == CUDA_SUCCESS ? value : 0;
}

int qs__cuda_capability(const qs__driver *driver, CUdevice device) {
    return 10 * attribute_of(driver, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
           attribute_of(driver, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
}

/* Those that its tensor cores multiply, and fp32. */
void qs__cuda_formats(int capability, const char **formats) {
    static const struct {
        const char *name;
        int since;
    } rows[] = {{"fp32", 0}, {"tf32", AMPERE}, {"bf16", AMPERE}, {"fp16", TURING}, {"e4m3fn", ADA}, {"e5m2", ADA}, {"int8", TURING}};
    int count = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (capability >= rows[i].since) formats[count++] = rows[i].name;
    formats[count] = NULL;
}

/* Code for x.y runs on x.z from z = y on; code for "90a" on 9.0 alone. */
static bool is_compiled_for(int capability) {
    for (const char *at = qs__cuda_architectures; *at; at += *at == ' ') {
        char *end = NULL;
        const int architecture = (int)strtol(at, &end, 10);
        const bool exact = *end == 'a';
        at = end + exact;
        if (architecture == capability || (!exact && architecture / 10 == capability / 10 && architecture < capability)) return true;
    }
    return false;
}

qs_status qs__cuda_gpu_check(const qs__driver *driver, CUdevice device) {
    const int capability = qs__cuda_capability(driver, device), needed = CUDA_VERSION / 1000;
    int version = 0;
    QS_TRY(qs__driver_check(driver, driver->driver_version(&version), "the driver's version"));
    if (version / 1000 < needed)
        return qs_fail(QS_UNSUPPORTED, "the CUDA driver is too old: it speaks CUDA %d.%d, this build needs %d.0", version / 1000,
                       version % 1000 / 10, needed);
    if (capability < LEAST_CAPABILITY)
        return qs_fail(QS_UNSUPPORTED, "compute capability %d.%d: 7.5 is the least", capability / 10, capability % 10);
    if (!is_compiled_for(capability))
        return qs_fail(QS_UNSUPPORTED, "compute capability %d.%d: this build has kernels for %s alone (QS_CUDA_ARCHITECTURES)",
                       capability / 10, capability % 10, qs__cuda_architectures);
    if (!attribute_of(driver, device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED))
        return qs_fail(QS_UNSUPPORTED, "it cannot map memory by address: a newer driver is needed");
    return QS_OK;
}

/* ---- The list ------------------------------------------------------------------------------------------------------------------------ */

/* Free memory is told to who has a context there alone, which takes some of it. */
static qs_status memory_ask(const qs__driver *driver, CUdevice device, int64_t *available) {
    size_t some = 0, total = 0;
    CUcontext context;
    CUresult result = driver->context_retain(&context, device);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) return qs_fail(QS_OUT_OF_MEMORY, "its memory is taken by others");
    QS_TRY(qs__driver_check(driver, result, "opening it"));
    result = driver->context_set(context);
    if (result == CUDA_SUCCESS) result = driver->memory_info(&some, &total);
    (void)driver->context_set(NULL);
    (void)driver->context_release(device);
    *available = (int64_t)some;
    return qs__driver_check(driver, result, "asking for free memory");
}

static qs_status gpu_describe(const qs__driver *driver, CUdevice device, qs_device_listing *out) {
    CUuuid uuid;
    size_t total = 0;
    QS_TRY(qs__driver_check(driver, driver->device_name(out->name, sizeof out->name, device), "its name"));
    QS_TRY(qs__driver_check(driver, driver->device_uuid(&uuid, device), "its UUID"));
    QS_TRY(qs__driver_check(driver, driver->device_bytes(&total, device), "its memory"));
    uuid_text(&uuid, out->uuid, sizeof out->uuid);
    const int capability = qs__cuda_capability(driver, device);
    snprintf(out->capability, sizeof out->capability, "%d.%d", capability / 10, capability % 10);
    qs__cuda_formats(capability, out->formats);
    out->memory_bytes = (int64_t)total;
    out->multiprocessors = attribute_of(driver, device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    CUdevResource whole;
    if (driver->resource_of(device, &whole, CU_DEV_RESOURCE_TYPE_SM) == CUDA_SUCCESS) {
        out->part_least = (int)whole.sm.minSmPartitionSize;
        out->part_step = (int)whole.sm.smCoscheduledAlignment;
    }
    QS_TRY(qs__cuda_gpu_check(driver, device));
    return memory_ask(driver, device, &out->free_bytes);
}

qs_status qs__cuda_list(int capacity, qs_device_listing *out, int *count) {
    const qs__driver *driver;
    int there = 0;
    *count = 0;
    QS_TRY(qs__driver_open(&driver));
    QS_TRY(gpus_count(driver, &there));
    for (int i = 0; i < there && i < capacity; i++) {
        CUdevice device;
        out[i] = (qs_device_listing){.index = i};
        qs_status status = qs__driver_check(driver, driver->device_get(&device, i), "a GPU");
        if (status == QS_OK) status = gpu_describe(driver, device, &out[i]);
        if (status != QS_OK) snprintf(out[i].unusable, sizeof out[i].unusable, "%s", qs_message());
    }
    *count = there < capacity ? there : capacity;
    return QS_OK;
}
