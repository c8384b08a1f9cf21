// SPDX-License-Identifier: Apache-2.0
/* From timed steps of plans to samples of cases: what a kernel took at each of its places, how well that is known, and which plan's next
 * visit is worth most by that. */
#include "timing/campaign.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- What is known ------------------------------------------------------------------------------------------------------------------- */

static int by_entry(const void *left, const void *right) {
    const qs__share *a = left, *b = right;
    return (a->entry > b->entry) - (a->entry < b->entry);
}

/* Conversions are priced by fits, so steps tell their times to nobody. */
static qs_status plan_cases(const qs__campaign *all, qs__plan_run *run, qs__known *known, qs__rivals *rivals) {
    const qs_schedule *schedule = run->schedule;
    QS_TRY(qs_allocate((size_t)schedule->steps, sizeof *run->share, &run->share));
    QS_TRY(qs_allocate((size_t)schedule->steps, sizeof *known->share, &known->share));
    for (int s = 0; s < schedule->steps; s++) {
        const qs_step *step = &schedule->step[s];
        if (step->kind != QS_STEP_KERNEL || step->conversion) continue;
        const int entry = qs__cases_find(all->cases, step->case_text);
        known->share[known->shares++] = (qs__share){.entry = entry};
        if (step->node >= 0) QS_TRY(qs__rivals_add(rivals, step, entry));
    }
    qsort(known->share, (size_t)known->shares, sizeof *known->share, by_entry);
    int kept = 0;
    for (int i = 0; i < known->shares; i++)
        if (kept == 0 || known->share[kept - 1].entry != known->share[i].entry) known->share[kept++] = known->share[i];
    known->shares = kept;
    for (int s = 0; s < schedule->steps; s++) {
        const qs_step *step = &schedule->step[s];
        run->share[s] = -1;
        if (step->kind != QS_STEP_KERNEL || step->conversion) continue;
        const qs__share key = {.entry = qs__cases_find(all->cases, step->case_text)};
        const qs__share *found = bsearch(&key, known->share, (size_t)known->shares, sizeof key, by_entry);
        run->share[s] = (int)(found - known->share);
        known->share[run->share[s]].places++;
    }
    return QS_OK;
}

qs_status qs__places_start(qs__campaign *all) {
    QS_TRY(qs_allocate((size_t)all->plans, sizeof *all->known, &all->known));
    for (int p = 0; p < all->plans; p++)
        QS_TRY(plan_cases(all, &all->plan[p], &all->known[p], &all->rivals));
    qs__rivals_sort(&all->rivals);
    QS_TRY(qs_allocate((size_t)all->cases->count, sizeof *all->case_known, &all->case_known));
    QS_TRY(qs_allocate((size_t)all->plans, sizeof *all->worth, &all->worth));
    QS_TRY(qs_allocate((size_t)all->plans, sizeof *all->order, &all->order));
    for (int p = 0; p < all->plans; p++)
        all->order[p] = p;
    return QS_OK;
}

void qs__places_end(qs__campaign *all) {
    for (int p = 0; p < all->plans; p++) {
        if (all->known) free(all->known[p].share);
        free(all->plan[p].share);
    }
    free(all->known);
    free(all->rivals.rival);
    free(all->case_known);
    free(all->worth);
    free(all->order);
}

/* What each plan's cases take and how well that is known, by the steps that are there. */
static void places_update(qs__campaign *all) {
    double *value = all->scratch->value;
    for (int p = 0; p < all->plans; p++) {
        const qs__plan_run *run = &all->plan[p];
        const size_t steps = (size_t)run->schedule->steps;
        qs__known *known = &all->known[p];
        for (int i = 0; i < known->shares; i++)
            known->share[i].us = known->share[i].half_us = 0;
        for (size_t s = 0; s < steps; s++) {
            if (run->share[s] < 0) continue;
            qs__share *share = &known->share[run->share[s]];
            int count = 0;
            for (int i = 0; i < run->timed; i++)
                if (run->round[i] != QS__ALONE_ROUND) value[count++] = run->step[(size_t)i * steps + s];
            share->half_us += qs__half_width_of(count, value);
            share->us += qs__quartiles_of(count, value).median;
            known->timed = count;
        }
    }
}

void qs__plans_order(qs__campaign *all) {
    places_update(all);
    for (int p = 0; p < all->plans; p++) {
        all->order[p] = p;
        all->known[p].more = QS__STEPS_PER_VISIT;
        all->known[p].visit_us = fmax(all->plan[p].median_us, 1e-3);
    }
    qs__worth_find(all->plans, all->known, &all->rivals, all->cases->count, all->case_known, all->worth);
    for (int i = 1; i < all->plans; i++) {
        const int one = all->order[i];
        int at = i;
        for (; at > 0 && all->worth[all->order[at - 1]] < all->worth[one]; at--)
            all->order[at] = all->order[at - 1];
        all->order[at] = one;
    }
}

/* ---- Samples ------------------------------------------------------------------------------------------------------------------------- */

/* Median over the plan's samples of one array, with or without the neighbours at work; 0 when there are none. */
static double place_median(const qs__plan_run *run, qs__samples *scratch, const double *value, size_t stride, bool alone) {
    scratch->count = 0;
    for (int i = 0; i < run->timed; i++)
        if ((run->round[i] == QS__ALONE_ROUND) == alone) scratch->value[scratch->count++] = value[(size_t)i * stride];
    return qs__quartiles_of(scratch->count, scratch->value).median;
}

/* Robust standard deviation of single steps, from neighbours in time: slow drift is not a step's noise. For normal differences the median
 * of |x - y| is 0.6745 √2 σ. */
static double jitter_of(const qs__plan_run *run, qs__samples *scratch) {
    scratch->count = 0;
    for (int i = 1; i < run->timed; i++)
        if (run->round[i] == run->round[i - 1]) scratch->value[scratch->count++] = fabs(run->whole[i] - run->whole[i - 1]);
    return fmin(qs__quartiles_of(scratch->count, scratch->value).median / (0.6745 * sqrt(2)) / run->median_us, 1);
}

static qs_status plan_places_keep(const qs__campaign *all, const qs__plan_run *run, const int64_t *cold, double stretch) {
    const size_t steps = (size_t)run->schedule->steps;
    for (size_t s = 0; s < steps; s++) {
        const double us = place_median(run, all->scratch, run->step + s, steps, false);
        const double alone_us = place_median(run, all->scratch, run->step + s, steps, true);
        if (run->schedule->step[s].kind == QS_STEP_KERNEL)
            QS_TRY(qs__place_keep(all->cases, &run->schedule->step[s], cold + s * QS__CACHES, stretch * us, stretch * alone_us));
    }
    return QS_OK;
}

static qs_status plan_keep(const qs__campaign *all, int plan) {
    const qs__plan_run *run = &all->plan[plan];
    const qs__known *known = &all->known[plan];
    int beside = 0; /* steps with the neighbours at work; those while they waited come last */
    while (beside < run->timed && run->round[beside] != QS__ALONE_ROUND)
        beside++;
    const qs__split split = qs__split_of(beside, run->schedule->steps, run->whole, run->data, run->step, all->scratch->value);
    int64_t *cold = NULL;
    QS_TRY(qs_allocate((size_t)run->schedule->steps * QS__CACHES, sizeof *cold, &cold));
    qs_status status = qs__cold_bytes(run->schedule, cold);
    if (status == QS_OK) status = plan_places_keep(all, run, cold, split.stretch);
    free(cold);
    QS_TRY(status);
    for (int i = 0; i < known->shares; i++) {
        const qs__share *share = &known->share[i];
        QS_TRY(qs__samples_add(&all->cases->entry[share->entry].half_us, split.stretch * share->half_us));
    }
    QS_TRY(qs__samples_add(&all->out->data_us, split.before));
    QS_TRY(qs__samples_add(&all->out->whole_us, split.whole));
    QS_TRY(qs__samples_add(&all->out->jitter, jitter_of(run, all->scratch)));
    return qs__samples_add(&all->out->overhead_us, split.loop);
}

qs_status qs__places_keep(qs__campaign *all) {
    places_update(all);
    for (int p = 0; p < all->plans; p++)
        QS_TRY(plan_keep(all, p));
    return QS_OK;
}
