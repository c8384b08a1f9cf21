// SPDX-License-Identifier: Apache-2.0
/* Statuses and the per-thread message of the last failure.
 *
 * A message is one line of at most MESSAGE_BYTES - 1 bytes: line breaks become spaces and a longer text is cut, so that whoever
 * prints it needs no care. The buffer lives in the thread: recording a failure cannot itself fail. */
#include "qsync/base.h"

#include <string.h>

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
