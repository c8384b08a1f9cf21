// SPDX-License-Identifier: Apache-2.0
/* The table of published devices. */
#include <string.h>

#include "qsync/costmodel.h"

static const qs_published_device devices[] = {
#define QS_PUBLISHED(identifier, product, fp32, tf32, fp16, bf16, int8, fp8, memory, link, capacity) \
    {#identifier, product, fp32, tf32, fp16, bf16, int8, fp8, memory, link, capacity},
#include "published.def"
#undef QS_PUBLISHED
};
#define DEVICES (sizeof devices / sizeof *devices)

const char *qs_published_name_at(size_t index) {
    return index < DEVICES ? devices[index].name : NULL;
}

qs_status qs_published_find(const char *name, const qs_published_device **out) {
    for (size_t i = 0; i < DEVICES; i++) {
        if (strcmp(devices[i].name, name) != 0) continue;
        *out = &devices[i];
        return QS_OK;
    }
    return qs_fail(QS_USAGE, "no published figures of a device \"%s\": there are %s", name, qs_names_join(DEVICES, qs_published_name_at));
}

double qs_published_rate(const qs_published_device *device, const qs_format *format) {
    if (format->kind == QS_KIND_INTEGER) return format->bits == 8 ? device->int8 : 0;
    const struct {
        const char *name;
        double rate;
    } rows[] = {{"fp32", device->fp32}, {"tf32", device->tf32},  {"fp16", device->fp16},
                {"bf16", device->bf16}, {"e4m3fn", device->fp8}, {"e5m2", device->fp8}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(format->name, rows[i].name) == 0) return rows[i].rate;
    return 0;
}
