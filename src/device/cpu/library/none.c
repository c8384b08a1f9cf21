// SPDX-License-Identifier: Apache-2.0
/* Builds without a kernel library: nothing is ever planned, and the device runs on its own kernels and the reference. */
#include "cpu/library/library.h"

#include "qsync/number.h"

#include <string.h>

static const char absent[] = "this build has no kernel library: build with QS_WITH_ONEDNN=ON for float products at speed";

qs_status qs__library_isa_set(const char *name) {
    (void)name;
    return QS_OK;
}

/* All that is asked for here is our own products of codes: as far as the ceiling, which number knows, and the processor go. */
bool qs__library_has(const char *name) {
#if defined(__x86_64__)
    if (!strcmp(name, "avx512_core_vnni")) return !strcmp(qs_number_isa(), "avx512") && __builtin_cpu_supports("avx512vnni");
    if (!strcmp(name, "avx2_vnni")) return strcmp(qs_number_isa(), "portable") && __builtin_cpu_supports("avxvnni");
#endif
    (void)name;
    return false;
}

const char *qs__library_version(char *buffer, size_t size) {
    snprintf(buffer, size, "own kernels");
    return buffer;
}

void qs__library_forget(void) {
}

qs_status qs__library_open(int threads, qs__library **out) {
    (void)threads;
    *out = NULL;
    return QS_OK;
}

void qs__library_close(qs__library *library) {
    (void)library;
}

bool qs__layout_equal(const qs__layout *a, const qs__layout *b) {
    bool equal = a->axes == b->axes && a->type == b->type && a->free == b->free;
    for (int i = 0; i < a->axes && equal; i++)
        equal = a->extent[i] == b->extent[i] && a->stride[i] == b->stride[i];
    return equal;
}

size_t qs__layout_bytes(const qs__layout *layout) {
    size_t bytes = layout->axes ? qs__type_bytes(layout->type) : 0;
    for (int i = 0; i < layout->axes; i++)
        bytes *= (size_t)layout->extent[i];
    return bytes;
}

qs_status qs__work_plan(const qs__library *library, const qs__work_request *request, qs__work **out) {
    (void)library, (void)request, (void)out;
    return qs_fail(QS_UNSUPPORTED, "%s", absent);
}

qs_status qs__work_plan_reorder(const qs__library *library, const qs__layout *from, const qs__layout *to, qs__work **out) {
    (void)library, (void)from, (void)to, (void)out;
    return qs_fail(QS_UNSUPPORTED, "%s", absent);
}

const char *qs__work_name(const qs__work *work) {
    (void)work;
    return "";
}

qs__layout qs__work_layout(const qs__work *work, qs__argument argument) {
    (void)work, (void)argument;
    return (qs__layout){.axes = 0};
}

qs_status qs__work_prepare(qs__work *work, const qs__work_memory memory[QS__ARGUMENT_COUNT]) {
    (void)work, (void)memory;
    return qs_fail(QS_UNSUPPORTED, "%s", absent);
}

qs_status qs__work_run(const qs__library *library, const qs__work *work) {
    (void)library, (void)work;
    return qs_fail(QS_UNSUPPORTED, "%s", absent);
}

void qs__work_release(qs__work *work) {
    (void)work;
}
