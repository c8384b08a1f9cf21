// SPDX-License-Identifier: Apache-2.0
/* What the planners share that give tensors formats of their own: operators compute in fp32, and every tensor of a gradient computation is
 * rounded to a high or a low format behind the operator that made it (docs/method.md §7.1 to §7.4). */
#ifndef QSYNC_PLANNER_ASSIGN_H
#define QSYNC_PLANNER_ASSIGN_H

#include "planner_internal.h"

enum { QS__VALUE = 1, QS__GRADIENT = 2, QS__BOTH = QS__VALUE | QS__GRADIENT };

typedef struct qs__assignment {
    qs_candidate *candidate;
    qs_groups groups;
    unsigned char *low; /* (tensors) what of a tensor is in low precision; all planners start from nothing */
    int *output;        /* (nodes) tensor of the node's output, of its input where it moves no data; -1: the loss */
    double promote_at;  /* what the options leave open */
} qs__assignment;

/* Sets all operators to fp32. QS_MISMATCH names a format that a class does not store, QS_USAGE a pinned operator of another recipe. Release
 * with qs__assignment_release. */
qs_status qs__assignment_create(qs_candidate *candidate, double promote_at, qs__assignment *out);
void qs__assignment_release(qs__assignment *one);
void qs__lower_output(qs__assignment *one, int node, unsigned side);
void qs__lower_parameters(qs__assignment *one, int node);
void qs__lower_group(qs__assignment *one, int group);
/* Elements in low precision over all elements. */
double qs__ratio_low(const qs__assignment *one);
/* Gives a class the formats as they are marked now, and what they come to in elements and counted bytes. */
qs_status qs__assignment_put(qs__assignment *one, int class_index);
/* The same for all classes. */
qs_status qs__assignment_put_all(qs__assignment *one);
/* Fills for every class what all tensors in high precision, and all groups in low, would come to. The classes have some of these formats
 * then: put others. */
qs_status qs__assignment_extremes(qs__assignment *one);
/* Whole plan of a planner that marks the same tensors for all classes: `mark` sets them, the rest is in high precision. */
qs_status qs__assign(qs_candidate *candidate, void (*mark)(qs__assignment *one));

#endif
