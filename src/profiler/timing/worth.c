// SPDX-License-Identifier: Apache-2.0
/* Which plans are worth more steps. A later plan has every operator in one recipe, so it may be off by what single cases are not known by:
 * long ones, and those that stand in it often, most of all. And what it is made of is decided by differences between the cases that one
 * pass of an operator may be, in other formats: where two of them lie closer than they are known, the order is open. So an hour is spent
 * best where it takes most off the sum of these errors, those with open orders counting more (docs/prediction.md). */
#include "timing/worth.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Half of a 95 % interval over the standard deviation. */
static const double interval = 1.96;

/* Medians of a plan's places are of the same seconds, so their errors add up; plans were visited in other seconds. */
static void cases_sum(int plans, const qs__known *plan, int cases, qs__case_known *out) {
    memset(out, 0, (size_t)cases * sizeof *out);
    for (int p = 0; p < plans; p++)
        for (int i = 0; i < plan[p].shares; i++) {
            const qs__share *share = &plan[p].share[i];
            qs__case_known *one = &out[share->entry];
            one->plans++;
            one->places += share->places;
            one->us += share->us;
            one->half_us += share->half_us * share->half_us;
        }
    for (int c = 0; c < cases; c++) {
        if (out[c].places == 0) continue;
        out[c].us /= out[c].places;
        out[c].half_us = sqrt(out[c].half_us) / out[c].places;
    }
}

/* The chance that the one which seems faster is not, of normal errors: 1/2 where nothing tells them apart. */
static double wrong_order(const qs__case_known *a, const qs__case_known *b) {
    const double deviation = hypot(a->half_us, b->half_us) / interval;
    if (deviation == 0) return a->us == b->us ? 0.5 : 0;
    return erfc(fabs(a->us - b->us) / deviation * M_SQRT1_2) / 2;
}

static bool same_pass(const qs__rival *a, const qs__rival *b) {
    return a->node == b->node && a->pass == b->pass;
}

static void orders_open(const qs__rivals *rivals, qs__case_known *known) {
    for (int i = 0; i < rivals->count; i++)
        for (int k = i + 1; k < rivals->count && same_pass(&rivals->rival[i], &rivals->rival[k]); k++) {
            qs__case_known *a = &known[rivals->rival[i].entry], *b = &known[rivals->rival[k].entry];
            const double open = wrong_order(a, b);
            a->open = fmax(a->open, open);
            b->open = fmax(b->open, open);
        }
}

/* By how much a case is known better once a plan's part of its error has become so many times smaller. */
static double gained(const qs__case_known *one, const qs__share *share, double factor) {
    const double all = one->half_us * one->places;
    const double left = fmax(all * all - share->half_us * share->half_us * (1 - factor * factor), 0);
    return one->half_us - sqrt(left) / one->places;
}

void qs__worth_find(int plans, const qs__known *plan, const qs__rivals *rivals, int cases, qs__case_known *known, double *worth) {
    cases_sum(plans, plan, cases, known);
    orders_open(rivals, known);
    for (int p = 0; p < plans; p++) {
        const double factor = sqrt(plan[p].timed / (plan[p].timed + plan[p].more));
        worth[p] = 0;
        for (int i = 0; i < plan[p].shares; i++) {
            const qs__share *share = &plan[p].share[i];
            const qs__case_known *one = &known[share->entry];
            const double usual_places = (double)one->places / one->plans;
            worth[p] += usual_places * (1 + 2 * one->open) * gained(one, share, factor);
        }
        worth[p] /= plan[p].visit_us;
    }
}

/* ---- Which cases may take each other's place ---- */

static int by_pass(const void *left, const void *right) {
    const qs__rival *a = left, *b = right;
    if (a->node != b->node) return a->node < b->node ? -1 : 1;
    if (a->pass != b->pass) return a->pass < b->pass ? -1 : 1;
    return (a->entry > b->entry) - (a->entry < b->entry);
}

qs_status qs__rivals_add(qs__rivals *rivals, const qs_step *step, int entry) {
    QS_TRY(qs_grow(&rivals->rival, &rivals->capacity, (size_t)rivals->count + 1, sizeof *rivals->rival));
    rivals->rival[rivals->count++] = (qs__rival){.node = step->node, .pass = step->case_.pass, .entry = entry};
    return QS_OK;
}

void qs__rivals_sort(qs__rivals *rivals) {
    int kept = 0;
    if (rivals->count > 0) qsort(rivals->rival, (size_t)rivals->count, sizeof *rivals->rival, by_pass);
    for (int i = 0; i < rivals->count; i++)
        if (kept == 0 || by_pass(&rivals->rival[kept - 1], &rivals->rival[i]) != 0) rivals->rival[kept++] = rivals->rival[i];
    rivals->count = kept;
}
