// SPDX-License-Identifier: Apache-2.0
/* Eqs. (4.6) and (4.7) of docs/method.md alone: all-reduces one after the other, each when all devices are
 * ready, as long as the slowest. */
#include "qsync/replayer.h"

static double larger(double a, double b) {
    return a > b ? a : b;
}

void qs_replay_buckets(int devices, const qs_replay_device *device, int buckets, double *start, double *end, double *iteration) {
    double previous = 0;
    for (int n = 0; n < buckets; n++) {
        double duration = 0;
        start[n] = previous;
        for (int i = 0; i < devices; i++) {
            start[n] = larger(start[n], device[i].ready[n]);
            duration = larger(duration, device[i].duration[n]);
        }
        previous = end[n] = start[n] + duration;
    }
    *iteration = 0;
    for (int i = 0; i < devices; i++) {
        double now = device[i].compute_end;
        for (int n = 0; n < buckets; n++)
            now = larger(now, end[n]) + device[i].optimizer[n];
        *iteration = larger(*iteration, now);
    }
}
