// SPDX-License-Identifier: Apache-2.0
/* What copies cost between the host and memory of a device that it does not see: one, and a byte of it, each way. By the host's clock,
 * until the host knows that the copy is done: that is what a training step waits for. */
#include "timing/timing.h"

#include <stdlib.h>

enum { SMALL = 64, LARGE = 4 << 20, RUNS = 15 };

typedef struct link {
    qs_queue *queue;
    qs_memory *memory;
    void *data; /* (LARGE bytes) the host's */
} link;

static qs_status copy_time(const link *on, bool out, size_t bytes, double *us) {
    const qs_location at = qs_location_of(on->memory, 0);
    double all[RUNS];
    for (int run = -1; run < RUNS; run++) { /* the first one warms up */
        const double begin = qs_clock();
        QS_TRY(out ? qs_memory_read(on->queue, at, on->data, bytes) : qs_memory_write(on->queue, at, on->data, bytes));
        QS_TRY(qs_queue_wait(on->queue));
        if (run >= 0) all[run] = (qs_clock() - begin) * 1e6;
    }
    *us = qs__quartiles_of(RUNS, all).median;
    return QS_OK;
}

/* A straight line through both sizes. */
static qs_status line_find(const link *on, bool out, double *us, double *us_per_byte) {
    double small, large;
    QS_TRY(copy_time(on, out, SMALL, &small));
    QS_TRY(copy_time(on, out, LARGE, &large));
    *us_per_byte = large > small ? (large - small) / (LARGE - SMALL) : 0;
    *us = small > *us_per_byte * SMALL ? small - *us_per_byte * SMALL : 0;
    return QS_OK;
}

qs_status qs__copies_measure(const qs__setting *setting, qs_copy_cost *out) {
    link on = {.queue = qs_device_queue(setting->device, QS_QUEUE_COPIES)};
    qs_copy_cost found = {.known = true};
    qs_status status = QS_OK;
    *out = (qs_copy_cost){0};
    QS_TRY(qs_memory_reserve(setting->device, LARGE, &on.memory));
    if (qs_memory_host(on.memory)) goto done;
    QS_GOTO(qs_allocate(LARGE, 1, &on.data));
    QS_GOTO(line_find(&on, false, &found.in_us, &found.in_us_per_byte));
    QS_GOTO(line_find(&on, true, &found.out_us, &found.out_us_per_byte));
    *out = found;
done:
    free(on.data);
    qs_memory_release(on.memory);
    return status;
}
