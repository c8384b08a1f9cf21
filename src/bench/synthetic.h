// SPDX-License-Identifier: Apache-2.0
/* Synthetic profiles, for benchmarks where only the time of deciding counts: each class's kernels by a roofline, for every case that plans
 * can contain, and statistics drawn at random. The same numbers on every machine. */
#ifndef QSYNC_BENCH_SYNTHETIC_H
#define QSYNC_BENCH_SYNTHETIC_H

#include "qsync/costmodel.h"

typedef struct synthetic_device {
    const char *name;
    bool inference;
    int count;
    const char *format[4];   /* fp32 among them; NULL behind the last */
    double fp32, half, int8; /* operations a microsecond */
    double bytes;            /* a microsecond */
} synthetic_device;

/* A class profile under construction: the context of synthetic_lookup. */
typedef struct synthetic_costs {
    const synthetic_device *device;
    qs_class_profile profile;
    size_t kernels, conversions; /* capacities */
} synthetic_costs;

/* A qs_kernel_lookup that prices every case it is asked for; a draft asks for each once. */
qs_status synthetic_lookup(void *costs, const qs_case *one, const char *case_text, qs_kernel_row *out);
void synthetic_release(synthetic_costs *costs);

qs_status synthetic_cluster(int classes, const synthetic_device *device, qs_cluster *out);
/* With every case that plans over a class's recipes can contain. */
qs_status synthetic_profile(const qs_graph *graph, const qs_cluster *cluster, const synthetic_device *device, const qs_job *job,
                            qs_profile *out);

#endif
