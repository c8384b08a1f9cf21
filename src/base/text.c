// SPDX-License-Identifier: Apache-2.0
/* Text on the heap, paths and the joined lists of names that error messages show. */
#include "qsync/base.h"

#include <stdlib.h>
#include <string.h>

enum { NAMES_BYTES = 4096 };

static _Thread_local char names[NAMES_BYTES];

qs_status qs_format_text(char **out, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = NULL;
    int written = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (written < 0) return qs_fail(QS_OUT_OF_MEMORY, "cannot allocate the text of \"%s\"", format);
    *out = text;
    return QS_OK;
}

qs_status qs_path_join(const char *folder, const char *name, char **out) {
    size_t length = strlen(folder);
    bool separated = length == 0 || folder[length - 1] == '/';
    return qs_format_text(out, "%s%s%s", folder, separated ? "" : "/", name);
}

const char *qs_names_join(size_t count, const char *(*name)(size_t index)) {
    static const char ellipsis[] = ", ...";
    size_t used = 0;
    names[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        const char *next = name(i);
        size_t length = strlen(next) + (i ? 2 : 0);
        if (used + length + sizeof ellipsis > sizeof names) {
            memcpy(names + used, ellipsis, sizeof ellipsis);
            break;
        }
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", next);
    }
    return names;
}
