// SPDX-License-Identifier: Apache-2.0
/* qsync bench --tune: the fastest kernel of every case that a device has several for, into the user's cache. */
#ifndef QSYNC_CLI_BENCH_TUNE_H
#define QSYNC_CLI_BENCH_TUNE_H

#include "cli.h"

typedef struct tune_request {
    const char *models;  /* comma-separated */
    const char *recipes; /* comma-separated; NULL: all that a class like this one offers */
    const char *dataset; /* "": input and classes say it */
    const char *input;   /* "3x32x32"; NULL: each model's own */
    int classes;         /* 0: each model's own */
    const char *backend, *isa;
    int64_t batch;
    int threads, rounds;
    bool json;
} tune_request;
qs_status bench_tune(qs_device *device, const tune_request *request);

#endif
