// SPDX-License-Identifier: Apache-2.0
/* The monotonic clock, and waiting that ends within a microsecond or so of its deadline: a sleep overshoots by up to the timer slack
 * (about 60 µs), so the last 100 µs are spun. */
#include "qsync/base.h"

#include <sched.h>
#include <time.h>

static const double spin_seconds = 100e-6;
/* Longest single sleep: keeps the conversion to timespec in range for any deadline. */
static const double nap_seconds = 3600.0;

double qs_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void qs_wait_until(double deadline) {
    for (;;) {
        double left = deadline - qs_clock() - spin_seconds;
        if (!(left > 0)) break;
        if (left > nap_seconds) left = nap_seconds;
        struct timespec nap = {.tv_sec = (time_t)left};
        nap.tv_nsec = (long)((left - (double)nap.tv_sec) * 1e9);
        nanosleep(&nap, NULL); /* a signal only wakes us early: the loop sleeps the rest */
    }
    while (qs_clock() < deadline) {
        sched_yield();
    }
}
