// SPDX-License-Identifier: Apache-2.0
/* Which change of pace lasts, and whether another plan is worth what it costs: rules on numbers alone, the same on all ranks. */
#include "pace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A pace is another one beyond these factors. What all-reduces take depends on when ranks look at them: it says less. */
static const double kernels_band = 1.1, all_reduce_band = 1.5;

/* Looks that must agree: at first, and at most. With every switch they double, for a pace that comes and goes is not worth following; CALM
 * looks in a row at the known pace make that good. */
enum { FIRST_LOOKS = 2, MOST_LOOKS = 16, CALM = 8 };

/* A change is expected to last so many times as long as it was seen for. */
static const int64_t lasting = 4;

/* Of an iteration, of ΣΩ, and of the time at hand: less is not worth moving for. longest: what more precision may take. */
static const double least_saved = 0.02, least_precision = 0.02, most_cost = 0.02, longest = 1.01;

qs_status qs__pace_create(int classes, int64_t every, qs__pace_changes *out) {
    *out = (qs__pace_changes){.classes = classes, .every = every, .wanted = FIRST_LOOKS};
    QS_TRY(qs_allocate(2 * (size_t)classes, sizeof *out->planned, &out->planned));
    out->changed = out->planned + classes;
    for (int c = 0; c < 2 * classes; c++)
        out->planned[c] = (qs_pace){1, 1, 1};
    return QS_OK;
}

void qs__pace_release(qs__pace_changes *changes) {
    free(changes->planned);
    *changes = (qs__pace_changes){0};
}

/* How far a pace is from another in bands, up or down: 1 is a change. */
static double distance(double from, double to, double band) {
    return fabs(log(to / from)) / log(band);
}

/* The largest distance over classes and kinds; what: of which. */
static double furthest(const qs__pace_changes *changes, const qs_pace *from, const qs_pace *to, qs__paced *what) {
    double most = 0;
    for (int c = 0; c < changes->classes; c++) {
        const double pair[][3] = {{from[c].compute, to[c].compute, kernels_band},
                                  {from[c].memory, to[c].memory, kernels_band},
                                  {from[c].all_reduce, to[c].all_reduce, all_reduce_band}};
        for (int k = 0; k < 3; k++) {
            const double here = distance(pair[k][0], pair[k][1], pair[k][2]);
            if (here <= most) continue;
            most = here;
            *what = (qs__paced){c, (qs__pace_kind)k, pair[k][0], pair[k][1]};
        }
    }
    return most;
}

/* The mean of the looks that agree, this one with them. */
static void changed_add(qs__pace_changes *changes, const qs_pace *seen) {
    const double weight = 1.0 / ++changes->looks;
    for (int c = 0; c < changes->classes; c++) {
        qs_pace *mean = &changes->changed[c];
        mean->compute += weight * (seen[c].compute - mean->compute);
        mean->memory += weight * (seen[c].memory - mean->memory);
        mean->all_reduce += weight * (seen[c].all_reduce - mean->all_reduce);
    }
}

qs__change qs__pace_look(qs__pace_changes *changes, const qs_pace *seen, int64_t step) {
    const bool watched = changes->looks > 0;
    qs__paced unused;
    if (furthest(changes, changes->planned, seen, &changes->what) < 1) {
        changes->looks = 0;
        if (++changes->calm >= CALM) changes->wanted = FIRST_LOOKS;
        return watched ? QS__PASSED : QS__STEADY;
    }
    changes->calm = 0;
    const bool again = watched && furthest(changes, changes->changed, seen, &unused) < 1;
    if (!again) {
        changes->looks = 0;
        changes->since = step - changes->every;
    }
    changed_add(changes, seen);
    (void)furthest(changes, changes->planned, changes->changed, &changes->what);
    return changes->looks >= changes->wanted ? QS__LASTS : again ? QS__AGAIN : QS__NEW;
}

int64_t qs__pace_expected(const qs__pace_changes *changes, int64_t step, int64_t steps) {
    const int64_t expected = lasting * (step - changes->since), left = steps - step;
    return expected < left ? expected : left;
}

void qs__pace_settle(qs__pace_changes *changes, bool switched) {
    memcpy(changes->planned, changes->changed, (size_t)changes->classes * sizeof *changes->planned);
    changes->looks = 0;
    if (switched) changes->wanted = 2 * changes->wanted < MOST_LOOKS ? 2 * changes->wanted : MOST_LOOKS;
}

/* ---- Is it worth it? --------------------------------------------------------------------------------------------------------------- */

qs__verdict qs__plan_weigh(const qs__bargain *one) {
    const double saved_us = one->present_us - one->next_us, steps = (double)one->steps;
    if (one->same) return (qs__verdict){false, "the plan would be the same"};
    if (saved_us >= least_saved * one->present_us) {
        if (saved_us * steps > one->cost_us) return (qs__verdict){true, "saves time"};
        return (qs__verdict){false, "saves less time than the switch costs"};
    }
    if (!(one->next_omega <= (1 - least_precision) * one->present_omega) || one->present_omega <= 0 ||
        one->next_us > longest * one->present_us)
        return (qs__verdict){false, "gains too little"};
    if (one->cost_us <= most_cost * steps * one->present_us) return (qs__verdict){true, "recovers precision"};
    return (qs__verdict){false, "recovers precision for too few steps"};
}

double qs__plan_omega(const qs_plan *plan, const qs_cluster *cluster) {
    double sum = 0;
    for (int c = 0; c < cluster->classes; c++) {
        const qs_class_plan *one = qs_plan_class(plan, cluster->class_[c].name);
        if (one) sum += cluster->class_[c].count * one->predicted.sum_omega;
    }
    return sum;
}
