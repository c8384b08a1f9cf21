// SPDX-License-Identifier: Apache-2.0
/* Layouts as plain values, whichever library reads them. */
#include <string.h>

#include "library.h"

qs__layout qs__layout_of(int axes, const int64_t *extent, qs__type type, const int64_t *stride) {
    qs__layout layout = {.axes = axes, .type = type, .free = !stride};
    memcpy(layout.extent, extent, (size_t)axes * sizeof *extent);
    if (stride) memcpy(layout.stride, stride, (size_t)axes * sizeof *stride);
    return layout;
}
