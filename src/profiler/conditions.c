// SPDX-License-Identifier: Apache-2.0
/* How quiet the machine was: what Linux counts about this process and about all cores, at the beginning and at the end. */
#include "conditions.h"

#include <math.h>
#include <stdlib.h>
#include <sys/resource.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

/* Seconds that this thread was ready but waited for a core. */
static double waited_seconds(void) {
    double running = 0, waiting = 0;
    FILE *file = fopen("/proc/thread-self/schedstat", "r");
    if (!file) return 0;
    if (fscanf(file, "%lf %lf", &running, &waiting) != 2) waiting = 0;
    fclose(file);
    return waiting * 1e-9;
}

/* Ticks of all cores since the machine started, and those that its host took: user nice system idle iowait irq softirq steal. */
static void ticks_read(double *all, double *stolen) {
    double tick[8] = {0};
    FILE *file = fopen("/proc/stat", "r");
    *all = *stolen = 0;
    if (!file) return;
    const int got =
        fscanf(file, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &tick[0], &tick[1], &tick[2], &tick[3], &tick[4], &tick[5], &tick[6], &tick[7]);
    fclose(file);
    for (int i = 0; i < got; i++)
        *all += tick[i];
    *stolen = tick[7];
}

static long preemptions_count(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_nivcsw : 0;
}

void qs__conditions_begin(qs__conditions_start *out) {
    double load = 0;
    *out = (qs__conditions_start){.clock = qs_clock(), .waited = waited_seconds(), .preemptions = preemptions_count()};
    ticks_read(&out->ticks, &out->stolen);
    if (getloadavg(&load, 1) == 1) out->load = load;
}

static double part_of(double some, double all) {
    return all > 0 ? fmin(fmax(some / all, 0), 1) : 0;
}

void qs__conditions_end(const qs__conditions_start *start, bool pinned, const char *communicator, qs_conditions *out) {
    const double seconds = qs_clock() - start->clock;
    double ticks, stolen;
    ticks_read(&ticks, &stolen);
    *out = (qs_conditions){.known = true,
                           .pinned = pinned,
                           .load_average = start->load,
                           .preemptions = fmax((double)(preemptions_count() - start->preemptions), 0) / fmax(seconds, 1e-3),
                           .waited = part_of(waited_seconds() - start->waited, seconds),
                           .stolen = part_of(stolen - start->stolen, ticks - start->ticks)};
    snprintf(out->communicator, sizeof out->communicator, "%s", communicator);
#ifdef __GLIBC__
    snprintf(out->libc, sizeof out->libc, "glibc %s", gnu_get_libc_version());
#endif
}
