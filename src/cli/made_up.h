// SPDX-License-Identifier: Apache-2.0
/* Costs that nobody measured, for benchmarks of the DECIDE side where only the time of deciding counts: a roofline per class, every case
 * that random mixes of recipes meet, statistics drawn at random. The same numbers on every machine. */
#ifndef QSYNC_CLI_MADE_UP_H
#define QSYNC_CLI_MADE_UP_H

#include "qsync/costmodel.h"

typedef struct made_up_device {
    const char *name;
    bool inference;
    int count;
    const char *format[4];   /* fp32 among them; NULL behind the last */
    double fp32, half, int8; /* operations a microsecond */
    double bytes;            /* a microsecond */
} made_up_device;

/* A class profile under construction: the context of made_up_lookup. */
typedef struct made_up_costs {
    const made_up_device *device;
    qs_class_profile profile;
    size_t kernels, conversions; /* capacities */
} made_up_costs;

/* A qs_kernel_lookup that prices every case it is asked for; a draft asks for each once. */
qs_status made_up_lookup(void *costs, const qs_case *one, const char *case_text, qs_kernel_row *out);
void made_up_release(made_up_costs *costs);

qs_status made_up_cluster(int classes, const made_up_device *device, qs_cluster *out);
/* With every case that so many random changes among a class's recipes meet. */
qs_status made_up_profile(const qs_graph *graph, const qs_cluster *cluster, const made_up_device *device, const qs_job *job, int changes,
                          qs_profile *out);

#endif
