// SPDX-License-Identifier: Apache-2.0
/* How well the cases of measured plans are known, and which plans are worth more steps. */
#ifndef QSYNC_PROFILER_WORTH_H
#define QSYNC_PROFILER_WORTH_H

#include "qsync/schedule.h"

/* A case as one plan has it. */
typedef struct qs__share {
    int entry, places;  /* of the cases; where it stands in the plan */
    double us, half_us; /* sums over these places: of medians, and of half their 95 % intervals */
} qs__share;
typedef struct qs__known {
    int shares;
    qs__share *share;   /* every case of the plan once */
    double timed, more; /* steps behind that; those of one more visit */
    double visit_us;    /* which takes so long */
} qs__known;

/* A case over all plans. */
typedef struct qs__case_known {
    int plans, places;
    double us, half_us; /* of the mean over places, and half its 95 % interval */
    double open;        /* the chance, 1/2 at most, that it is not in that order with one that may take its place */
} qs__case_known;

/* What each pass of each operator may be. Passes are told apart by their description. */
typedef struct qs__rival {
    int node;
    const void *pass;
    int entry;
} qs__rival;
typedef struct qs__rivals {
    qs__rival *rival; /* once qs__rivals_sort was called, those that may take each other's place lie together */
    int count;
    size_t capacity;
} qs__rivals;
qs_status qs__rivals_add(qs__rivals *rivals, const qs_step *step, int entry);
void qs__rivals_sort(qs__rivals *rivals);

/* known[cases] is filled; worth[plans]: microseconds by which a later plan is known better, for each microsecond of one more visit. */
void qs__worth_find(int plans, const qs__known *plan, const qs__rivals *rivals, int cases, qs__case_known *known, double *worth);

#endif
