// SPDX-License-Identifier: Apache-2.0
/* Statuses and the message of the last failure; text on the heap, paths and joined lists of names, which error messages show; schemas of
 * files; the log. */
#include "qsync/base.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- Failures ----
 *
 * A message is one line of at most MESSAGE_BYTES - 1 bytes: line breaks become spaces and a longer text is cut, so that whoever prints it
 * needs no care. The buffer lives in the thread: recording a failure cannot itself fail. */

enum { MESSAGE_BYTES = 2048 };

static _Thread_local char message[MESSAGE_BYTES];

static const struct {
    const char *text;
    int exit_code;
} statuses[QS_STATUS_COUNT] = {
#define STATUS_ENTRY(name, text, exit_code) [name] = {text, exit_code},
    QS_STATUS_LIST(STATUS_ENTRY)
#undef STATUS_ENTRY
};

static bool is_known(qs_status status) {
    return (unsigned)status < QS_STATUS_COUNT;
}

const char *qs_status_text(qs_status status) {
    return is_known(status) ? statuses[status].text : "unknown status";
}

int qs_status_exit_code(qs_status status) {
    return is_known(status) ? statuses[status].exit_code : 1;
}

static void keep_one_line(char *text) {
    for (; *text; text++) {
        if (*text == '\n' || *text == '\r') *text = ' ';
    }
}

qs_status qs_fail(qs_status status, const char *format, ...) {
    char text[MESSAGE_BYTES]; /* the arguments may point into the message at hand */
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    keep_one_line(text);
    memcpy(message, text, strlen(text) + 1);
    return status;
}

qs_status qs_fail_within(qs_status status, const char *format, ...) {
    if (status == QS_OK) return status;
    char text[MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int written = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    keep_one_line(text);
    /* The old message moves up behind the prefix and loses its end if need be. */
    size_t prefix = written < 0 ? 0 : strlen(text);
    if (prefix + 2 < sizeof message) {
        size_t room = sizeof message - 1 - (prefix + 2);
        size_t length = strnlen(message, room);
        memmove(message + prefix + 2, message, length);
        message[prefix + 2 + length] = '\0';
        memcpy(text + prefix, ": ", 2);
        memcpy(message, text, prefix + 2);
    } else {
        memcpy(message, text, prefix + 1);
    }
    return status;
}

const char *qs_message(void) {
    return message;
}

/* ---- Texts ---- */

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

/* ---- Schemas ---- */

qs_status qs_schema_check(const char *source, const char *text, const char *kind) {
    char wanted[64], older[64];
    snprintf(wanted, sizeof wanted, QS_SCHEMA("%s"), kind);
    snprintf(older, sizeof older, "qsync/%s/1", kind);
    if (strcmp(text, wanted) == 0) return QS_OK;
    if (strcmp(text, older) != 0) return qs_fail(QS_BAD_FILE, "%s: schema: must be \"%s\", is \"%.80s\"", source, wanted, text);
    return qs_fail(QS_BAD_FILE,
                   "%s: schema: \"%s\" is of an older qsync, in which names and fields were others: convert the file by "
                   "tools/convert-records.py, or make it anew",
                   source, text);
}

/* ---- The log: lines handed to one sink, one at a time. The library itself writes nowhere. ---- */

enum { LINE_BYTES = 2048 };

static qs_log_sink log_sink;
static void *log_context;
static pthread_mutex_t log_mutex = PTHREAD_MUTEX_INITIALIZER;

void qs_log_set(qs_log_sink sink, void *context) {
    log_sink = sink;
    log_context = context;
}

void qs_log(qs_log_level level, const char *format, ...) {
    if (!log_sink) return;
    char line[LINE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    pthread_mutex_lock(&log_mutex);
    log_sink(log_context, level, line);
    pthread_mutex_unlock(&log_mutex);
}
