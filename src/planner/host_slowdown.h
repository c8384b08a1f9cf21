// SPDX-License-Identifier: Apache-2.0
/* Ranks of one host slow each other down while they compute. One that has ended its steps waits, and the others go on faster: so a class
 * that is not the late one has its say in the pace, and the less of it the earlier it ends. The replayer knows this step by step; here
 * whole classes have one speed beside busy ranks and one while the others wait. */
#ifndef QSYNC_PLANNER_HOST_SLOWDOWN_H
#define QSYNC_PLANNER_HOST_SLOWDOWN_H

#include "qsync/record.h"

typedef struct qs__host_slowdown {
    int classes, hosts;
    int *count;   /* (hosts × classes) ranks; hosts that have the same are one */
    double *left; /* (classes) scratch */
} qs__host_slowdown;

/* Release with qs__host_slowdown_release, also after a failure. */
qs_status qs__host_slowdown_make(const qs_cluster *cluster, qs__host_slowdown *out);
void qs__host_slowdown_release(qs__host_slowdown *one);

/* When a rank of each class has done its work: work_us[classes] is what it takes beside busy ranks, alone[classes] which share of that
 * while the others wait (qs_prediction_class.alone). end_us[classes]: on the host where it is slowest; its work where it has no ranks. */
void qs__host_slowdown_ends(const qs__host_slowdown *one, const double *work_us, const double *alone, double *end_us);

#endif
