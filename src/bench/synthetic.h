// SPDX-License-Identifier: Apache-2.0
/* Synthetic clusters and profiles, for benchmarks where only the time of deciding counts, and for tests (tests/kit/synthetic.h): each
 * class's kernels by a roofline (the larger of operations over speed and bytes over bandwidth), for every case that plans can contain,
 * conversions by the line they follow, and statistics drawn at random. The same numbers on every machine. */
#ifndef QSYNC_BENCH_SYNTHETIC_H
#define QSYNC_BENCH_SYNTHETIC_H

#include "qsync/costmodel.h"

typedef struct synthetic_device {
    const char *name;
    bool inference;
    int count;
    const char *formats[4];  /* fp32 among them; NULL behind the last */
    double fp32, half, int8; /* operations a microsecond */
    double bytes;            /* a microsecond */
    int64_t memory_limit;    /* 0: none */
    bool joins;              /* as qs_device_joins */
} synthetic_device;

/* A class profile under construction; `profile` outlives it. */
typedef struct synthetic_costs {
    const synthetic_device *device;
    qs_class_profile *profile;
    size_t kernels, conversions; /* capacities */
} synthetic_costs;

double synthetic_us(const synthetic_device *device, const qs_case *one);
/* A qs_kernel_lookup, its context a synthetic_costs: prices every case it is asked for; one that the profile has keeps its row. */
qs_status synthetic_lookup(void *costs, const qs_case *one, const char *case_text, qs_kernel_row *out);
/* The line of conversions of this kind, unless the profile has it. */
qs_status synthetic_conversion(synthetic_costs *costs, const qs_case *one);
/* Every case that plans over a class's recipes can contain; then the profile is sorted. */
qs_status synthetic_cases(synthetic_costs *costs, const qs_graph *graph, const qs_class *class_, const qs_job *job);
/* Of a class profile that is part of no qs_profile. */
void synthetic_class_release(qs_class_profile *profile);

qs_class synthetic_class(const synthetic_device *device);
qs_status synthetic_cluster_make(int classes, const synthetic_device *device, qs_cluster *out);

/* Operators matter differently: variances differ by a factor of up to a hundred. Norms differ from one iteration to another by up to the
 * share `wobble`. */
qs_status synthetic_statistics_make(const qs_graph *graph, int64_t batch, int ranks, uint64_t seed, double wobble, qs_statistics *out);

extern const qs_collective_cost synthetic_ring;
/* Without statistics; all-reduces cost what `reduce` says. */
qs_status synthetic_profile_make(const qs_graph *graph, const qs_cluster *cluster, const synthetic_device *device, const qs_job *job,
                                 const qs_collective_cost *reduce, qs_profile *out);

#endif
