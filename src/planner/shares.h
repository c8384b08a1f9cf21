// SPDX-License-Identifier: Apache-2.0
/* Shares of the global batch: which local batch every class takes. What planners `dbs` and `joint` have in common.
 *
 * A class can take any local batch that the profile knows, and where the options let it none at all; the batches of all ranks sum to the
 * job's batch × ranks, always. */
#ifndef QSYNC_PLANNER_SHARES_H
#define QSYNC_PLANNER_SHARES_H

#include "planner_internal.h"

/* A class at a batch. */
typedef struct qs__share {
    bool fits; /* in some recipe that may be chosen; the rest is of the fastest of these, uniform over operators */
    int recipe;
    double compute_us; /* of a rank's iteration, waiting left out */
} qs__share;

typedef struct qs__shares {
    qs_candidate *candidate;
    int batches;
    int64_t *batch;   /* (batches) ascending; the profile's, and 0 before them where classes may be idle */
    qs__share *share; /* (classes × batches) */
    int *place;       /* (classes) index of the present batch */
} qs__shares;

/* Asks the predictor for every class at every batch; lowered classes in all their recipes where `precisions`, else in the highest alone.
 * QS_MISMATCH when the profile knows one batch only. Release also after a failure. */
qs_status qs__shares_create(qs_candidate *candidate, bool precisions, qs__shares *out);
void qs__shares_release(qs__shares *shares);

/* Place of a local batch; -1: the profile does not know it. */
int qs__shares_place(const qs__shares *shares, int64_t samples);
/* Gives the candidate the batches of places (classes), and the share's recipe to all free operators. */
qs_status qs__shares_set(qs__shares *shares, const int *place);
/* The same, and how long the iteration takes; INFINITY where a class does not fit. */
qs_status qs__shares_try(qs__shares *shares, const int *place, double *iteration_us);
/* The places that fit and whose slowest class takes least, by compute time alone: exact over all sums. QS_INFEASIBLE, with what every class
 * can hold, when none fit. */
qs_status qs__shares_balance(const qs__shares *shares, int *place);
/* Class `from` gives samples to class `to`, as few as the grid and the counts of both allow; false when it cannot. */
bool qs__shares_exchange(const qs__shares *shares, int from, int to, int *place);
/* The fastest shares: from the balanced ones, or from equal ones if these are faster, by exchanges until none gains. The candidate has them
 * then. */
qs_status qs__shares_fastest(qs__shares *shares, double *iteration_us);

#endif
