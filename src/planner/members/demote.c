// SPDX-License-Identifier: Apache-2.0
/* Planner `demote` (docs/method.md §7.4): everything in high precision at first; then groups of tensors are demoted in an order, the
 * largest first unless told otherwise, until the wanted share of elements is in low precision. Where memory or the longest iteration are
 * still exceeded, classes go on one group at a time: those that do not fit, else the one that sets the pace. So every class has the
 * smallest ratio of its order that keeps all limits. */
#include "../assign.h"

#include <stdlib.h>
#include <string.h>

static const double usual_promotion = 0.01; /* docs/method.md §7.5 */

typedef struct demotion {
    qs__assignment assignment;
    int *order;   /* (groups) */
    int *demoted; /* (classes) groups of the order, from its start */
} demotion;

/* ---- Order --------------------------------------------------------------------------------------------------------------------------- */

static bool comes_first(const qs_groups *groups, int a, int b, int sign) {
    const int64_t difference = groups->group[a].elements - groups->group[b].elements;
    return difference * sign > 0; /* equal ones: as they stand, which is the order of the model */
}

static void sort(const qs_groups *groups, int sign, int *order) {
    for (int i = 1; i < groups->groups; i++) {
        const int group = order[i];
        int at = i;
        for (; at > 0 && comes_first(groups, group, order[at - 1], sign); at--)
            order[at] = order[at - 1];
        order[at] = group;
    }
}

static void shuffle(uint64_t seed, int count, int *order) {
    const uint64_t key = qs_random_key(seed, 0, 0, 0);
    for (int i = count - 1; i > 0; i--) {
        const int other = (int)((uint64_t)qs_random_bits(key, (uint64_t)i) * (uint64_t)(i + 1) >> 32), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}

static qs_status order_make(demotion *one) {
    const qs_groups *groups = &one->assignment.groups;
    const char *name = one->assignment.candidate->options->assignment.order;
    QS_TRY(qs_allocate((size_t)groups->groups, sizeof *one->order, &one->order));
    for (int g = 0; g < groups->groups; g++)
        one->order[g] = g;
    if (strcmp(name, "decreasing") == 0)
        sort(groups, 1, one->order);
    else if (strcmp(name, "increasing") == 0)
        sort(groups, -1, one->order);
    else if (strcmp(name, "random") == 0)
        shuffle(one->assignment.candidate->job->seed, groups->groups, one->order);
    else
        return qs_fail(QS_USAGE, "order %s: groups are demoted in decreasing or increasing size, or in random order", name);
    return QS_OK;
}

/* ---- Demotion ------------------------------------------------------------------------------------------------------------------------ */

/* The class's tensors with the first `count` groups of the order demoted. */
static qs_status class_demote(demotion *one, int c, int count) {
    qs__assignment *assignment = &one->assignment;
    one->demoted[c] = count;
    memset(assignment->low, 0, (size_t)assignment->groups.tensors);
    for (int i = 0; i < count; i++)
        qs__lower_group(assignment, one->order[i]);
    return qs__assignment_put(assignment, c);
}

/* The fewest groups whose demotion reaches the ratio; gradients of parameters stay high, so near 1 it is all of them. */
static int groups_wanted(demotion *one, double ratio) {
    qs__assignment *assignment = &one->assignment;
    int count = 0;
    memset(assignment->low, 0, (size_t)assignment->groups.tensors);
    while (count < assignment->groups.groups && qs__ratio_low(assignment) < ratio)
        qs__lower_group(assignment, one->order[count++]);
    return count;
}

/* ---- Limits ------------------------------------------------------------------------------------------------------------------------ */

/* The class to demote further; -1: the limits are kept. */
static int class_pressed(const demotion *one, const qs_prediction *prediction) {
    const double longest_us = one->assignment.candidate->options->assignment.longest_us;
    int slowest = 0;
    for (int c = 0; c < prediction->classes; c++) {
        if (!prediction->class_[c].fits) return c;
        if (prediction->class_[c].compute_us > prediction->class_[slowest].compute_us) slowest = c;
    }
    return longest_us > 0 && prediction->iteration_us > longest_us ? slowest : -1;
}

static qs_status limit_missed(const demotion *one, int c, const qs_prediction *prediction) {
    const qs_class *class_ = &one->assignment.candidate->cluster->class_[c];
    if (!prediction->class_[c].fits)
        return qs_fail(
            QS_INFEASIBLE,
            "class %s: with all groups demoted the plan needs %.1f MiB but the limit is %.1f MiB; lower the batch or raise the limit",
            class_->name, (double)prediction->class_[c].arena_bytes / 1048576.0, (double)class_->memory_limit / 1048576.0);
    return qs_fail(QS_INFEASIBLE, "class %s: with all groups demoted an iteration takes %.2f ms, at most %.2f ms are wanted", class_->name,
                   prediction->iteration_us * 1e-3, one->assignment.candidate->options->assignment.longest_us * 1e-3);
}

static qs_status limits_keep(demotion *one) {
    for (int c = 0; c >= 0;) {
        qs_prediction prediction;
        QS_TRY(qs__candidate_predict(one->assignment.candidate, &prediction));
        c = class_pressed(one, &prediction);
        qs_status status = QS_OK;
        if (c >= 0)
            status = one->demoted[c] < one->assignment.groups.groups ? class_demote(one, c, one->demoted[c] + 1)
                                                                     : limit_missed(one, c, &prediction);
        qs_prediction_release(&prediction);
        QS_TRY(status);
    }
    return QS_OK;
}

qs_status qs__planner_demote(qs_candidate *candidate) {
    const double ratio = candidate->options->assignment.ratio;
    demotion one = {0};
    qs_status status = QS_OK;
    if (!(ratio >= 0 && ratio <= 1)) return qs_fail(QS_USAGE, "ratio %g: the share of elements in low precision lies in [0, 1]", ratio);
    QS_GOTO(qs__assignment_create(candidate, usual_promotion, &one.assignment));
    QS_GOTO(qs_allocate((size_t)candidate->cluster->classes, sizeof *one.demoted, &one.demoted));
    QS_GOTO(order_make(&one));
    QS_GOTO(qs__assignment_extremes(&one.assignment));
    const int wanted = groups_wanted(&one, ratio);
    for (int c = 0; c < candidate->cluster->classes; c++)
        QS_GOTO(class_demote(&one, c, wanted));
    QS_GOTO(limits_keep(&one));
done:
    qs__assignment_release(&one.assignment);
    free(one.order);
    free(one.demoted);
    return status;
}
