// SPDX-License-Identifier: Apache-2.0
/* The log: lines handed to one sink, one at a time. The library itself writes nowhere. */
#include "qsync/base.h"

#include <pthread.h>

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
