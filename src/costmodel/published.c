// SPDX-License-Identifier: Apache-2.0
/* The table of published devices. */
#include <string.h>

#include "qsync/costmodel.h"

static const qs_published_device devices[] = {
#define QS_PUBLISHED(identifier, product, fp32, fp16, bf16, int8, memory, link, capacity) \
    {#identifier, product, fp32, fp16, bf16, int8, memory, link, capacity},
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
    if (strcmp(format->name, "fp32") == 0) return device->fp32;
    if (strcmp(format->name, "fp16") == 0) return device->fp16;
    return strcmp(format->name, "bf16") == 0 ? device->bf16 : 0;
}
