// SPDX-License-Identifier: Apache-2.0
/* Which device classes help: a class whose ranks hold the others up, or burden their all-reduces, by more than it computes is better left
 * out. Every cluster that lacks one class gets a plan of its own, by the same planner. */
#include <stdlib.h>
#include <string.h>

#include "planner_internal.h"

qs_status qs_cluster_without(const qs_cluster *cluster, int class_index, qs_cluster *out) {
    if (class_index < 0 || class_index >= cluster->classes)
        return qs_fail(QS_USAGE, "the cluster has classes 0 to %d, not %d", cluster->classes - 1, class_index);
    const char *gone = cluster->class_[class_index].name;
    if (cluster->classes == 1) return qs_fail(QS_USAGE, "class %s is the only one: nothing is left without it", gone);
    QS_TRY(qs_cluster_copy(cluster, out));
    out->classes = out->links = 0;
    for (int c = 0; c < cluster->classes; c++)
        if (c != class_index) out->class_[out->classes++] = cluster->class_[c];
    for (int i = 0; i < cluster->links; i++) {
        const qs_link *link = &cluster->link[i];
        if (strcmp(link->between[0], gone) != 0 && strcmp(link->between[1], gone) != 0) out->link[out->links++] = *link;
    }
    return QS_OK;
}

/* The plan of a cluster that lacks the class. Of the pins those of the classes that are there count; what their copy points to stays the
 * original's, but for the list of classes. */
static qs_status rest_plan(const qs_plan_question *ask, int class_index, qs_cluster *rest, qs_plan *out) {
    qs_plan_options options = *ask->options;
    qs_plan pins = {0};
    QS_TRY(qs_cluster_without(ask->cluster, class_index, rest));
    if (options.pins) {
        pins = *options.pins;
        pins.classes = 0;
        QS_TRY(qs_allocate((size_t)options.pins->classes, sizeof *pins.class_, &pins.class_));
        for (int i = 0; i < options.pins->classes; i++) {
            const qs_class_plan *pinned = &options.pins->class_[i];
            int c = 0;
            while (c < rest->classes && strcmp(rest->class_[c].name, pinned->class_name) != 0)
                c++;
            if (c < rest->classes) pins.class_[pins.classes++] = *pinned;
        }
        options.pins = &pins;
    }
    const qs_status status = qs_plan_make(ask->planner, ask->graph, rest, ask->profile, ask->job, &options, out);
    free(pins.class_);
    return status;
}

/* That the rest has no plan, or none that the profile can price, is an answer. */
static qs_status pace_without(const qs_plan_question *ask, int class_index, qs_class_pace *out) {
    qs_cluster rest = {0};
    qs_plan plan = {0};
    qs_status status = rest_plan(ask, class_index, &rest, &plan);
    snprintf(out->class_name, sizeof out->class_name, "%s", ask->cluster->class_[class_index].name);
    out->samples_per_second = status == QS_OK ? plan.samples_per_second : 0;
    if (status == QS_INFEASIBLE || status == QS_MISMATCH || status == QS_UNSUPPORTED) {
        qs_log(QS_LOG_INFO, "no plan without class %s: %s", out->class_name, qs_message());
        status = QS_OK;
    }
    qs_plan_release(&plan);
    qs_cluster_release(&rest);
    return status;
}

qs_status qs_plan_weigh_classes(const qs_plan_question *ask, qs_plan *plan) {
    const int classes = ask->cluster->classes;
    free(plan->without);
    plan->without = NULL;
    plan->withouts = 0;
    if (classes < 2) return QS_OK;
    QS_TRY(qs_allocate((size_t)classes, sizeof *plan->without, &plan->without));
    for (int c = 0; c < classes; c++) {
        QS_TRY(pace_without(ask, c, &plan->without[c]));
        plan->withouts = c + 1;
    }
    return QS_OK;
}

int qs_plan_unhelpful(const qs_plan *plan) {
    int best = -1;
    for (int i = 0; i < plan->withouts; i++) {
        const double pace = plan->without[i].samples_per_second;
        if (pace > 0 && pace >= plan->samples_per_second && (best < 0 || pace > plan->without[best].samples_per_second)) best = i;
    }
    return best;
}

/* `next` remembers what `plan` left out, and the class that goes now. */
static qs_status left_out_add(const qs_plan *plan, const char *class_name, qs_plan *next) {
    QS_TRY(qs_allocate((size_t)plan->left_outs + 1, sizeof *next->left_out, &next->left_out));
    for (int i = 0; i < plan->left_outs; i++)
        next->left_out[i] = plan->left_out[i];
    qs_class_pace *last = &next->left_out[plan->left_outs];
    snprintf(last->class_name, sizeof last->class_name, "%s", class_name);
    last->samples_per_second = plan->samples_per_second;
    next->left_outs = plan->left_outs + 1;
    return QS_OK;
}

static qs_status class_drop(const qs_plan_question *ask, int class_index, qs_cluster *cluster, qs_plan *plan) {
    qs_cluster rest = {0};
    qs_plan next = {0};
    qs_plan_question now = *ask;
    qs_status status = QS_OK;
    now.cluster = cluster;
    QS_GOTO(rest_plan(&now, class_index, &rest, &next));
    QS_GOTO(left_out_add(plan, cluster->class_[class_index].name, &next));
    now.cluster = &rest;
    QS_GOTO(qs_plan_weigh_classes(&now, &next));
    qs_plan_release(plan);
    qs_cluster_release(cluster);
    *plan = next;
    *cluster = rest;
    return QS_OK;
done:
    qs_plan_release(&next);
    qs_cluster_release(&rest);
    return status;
}

qs_status qs_plan_drop_unhelpful(const qs_plan_question *ask, qs_cluster *rest, qs_plan *plan) {
    qs_cluster cluster = {0};
    qs_status status = QS_OK;
    QS_TRY(qs_cluster_copy(ask->cluster, &cluster));
    while (status == QS_OK && qs_plan_unhelpful(plan) >= 0)
        status = class_drop(ask, qs_plan_unhelpful(plan), &cluster, plan);
    if (status != QS_OK) {
        qs_cluster_release(&cluster);
        return status;
    }
    *rest = cluster;
    return QS_OK;
}
