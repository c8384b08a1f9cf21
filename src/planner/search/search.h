// SPDX-License-Identifier: Apache-2.0
/* What a search asks thousands of times: a candidate whose choices change one operator at a time, with the answers that the cost mapper
 * gives at once, and the full prediction that decides in the end.
 *
 * A search changes the candidate's choices: they are its state. Quick answers are calibrated by the last full prediction
 * (qs__search_predict), so that they are exact there but for rounding; away from it they miss what depends on the packed arena (caches,
 * fragmentation) and on noise, and know host slowdown by whole classes (qs_host_slowdown). Only live bytes are a certain bound, of packed
 * memory, from below. */
#ifndef QSYNC_PLANNER_SEARCH_H
#define QSYNC_PLANNER_SEARCH_H

#include "../planner_internal.h"

typedef struct qs__search qs__search;

/* From the candidate's present choices. The candidate outlives the search, and nobody else changes its choices meanwhile. Release with
 * qs__search_release. QS_MISMATCH names a cost that the profile lacks. */
qs_status qs__search_create(qs_candidate *candidate, qs__search **out);
void qs__search_release(qs__search *search);

/* ---- Changing ---- */

/* Gives an operator another recipe. A missing cost is QS_MISMATCH; all is then as before. */
qs_status qs__search_set(qs__search *search, int class_index, int node, int recipe);
/* How many changes can be taken back; and taking back all beyond that many. */
int qs__search_mark(const qs__search *search);
qs_status qs__search_back(qs__search *search, int mark);
/* Takes back the last change. */
qs_status qs__search_undo(qs__search *search);
/* Changes made so far stay. */
void qs__search_keep(qs__search *search);
/* Present choices into choice[classes × nodes]; and to other choices at once, which keeps them. A missing cost of the choices as they
 * stand is QS_MISMATCH, and all is as before; mixes on the way may lack what they like. */
void qs__search_choices(const qs__search *search, int *choice);
qs_status qs__search_go(qs__search *search, const int *choice);

/* ---- Asking ---- */

double qs__search_iteration_us(qs__search *search);
/* Whether the work and the update of one class alone take longer than that, which is soon told: the iteration then does. */
bool qs__search_is_late(qs__search *search, double limit_us);
/* When each class has done its work before the update, into end_us[classes]; and iteration time if the others ended then, whatever this
 * class does to them on a host that they share. */
void qs__search_ends(qs__search *search, double *end_us);
double qs__search_beside_us(qs__search *search, int class_index, const double *end_us);
/* Iteration time if this class alone set the pace. */
double qs__search_alone_us(qs__search *search, int class_index);
/* Busy time of a rank: data, overhead and steps. */
double qs__search_compute_us(const qs__search *search, int class_index);
/* A certain lower bound of the class's packed bytes. */
int64_t qs__search_live_bytes(const qs__search *search, int class_index);
/* Expected packed bytes: live bytes and what packing added at the last full prediction. */
int64_t qs__search_arena_bytes(const qs__search *search, int class_index);
/* Whether that is within the memory limit, as qs_prediction_class.fits counts. */
bool qs__search_fits(const qs__search *search, int class_index);
/* ΣΩ over all devices. */
double qs__search_omega(const qs__search *search);
/* Changes made and taken back so far: what a search counts to stay within bounds. */
int64_t qs__search_changes(const qs__search *search);

/* ---- The full prediction ---- */

typedef struct qs__full_answer {
    bool known; /* the profile has all costs */
    bool fits;  /* every class its memory */
    double iteration_us;
} qs__full_answer;
/* The full prediction of the present choices: packing, caches, event by event. Calibrates the quick answers. */
qs_status qs__search_predict(qs__search *search, qs__full_answer *out);

#endif
