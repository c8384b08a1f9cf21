// SPDX-License-Identifier: Apache-2.0
/* Plans as people read them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan_output.h"

/* "7 bf16, 2 fp32": operators per recipe of a class plan. */
void recipe_counts_text(const qs_plan *plan, const qs_class_plan *one, char *text, size_t size) {
    size_t used = 0;
    text[0] = 0;
    for (int r = 0; r < plan->recipes; r++) {
        int count = 0;
        for (int i = 0; i < one->operators; i++)
            count += strcmp(one->operator_[i].recipe, plan->recipe[r].name) == 0;
        if (count == 0) continue;
        const int written = snprintf(text + used, size - used, "%s%d %s", used ? ", " : "", count, plan->recipe[r].name);
        if (written < 0 || (size_t)written >= size - used) return;
        used += (size_t)written;
    }
}

const char *recomputed_text(const qs_class_plan *one) {
    static char text[48];
    snprintf(text, sizeof text, ", %d %s recomputed", one->recomputes, one->recomputes == 1 ? "block" : "blocks");
    return one->recomputes > 0 ? text : "";
}

double plan_gap(const qs_class_plan *one) {
    if (one->predicted.sum_omega == 0) return 0;
    if (one->predicted.lower_bound == 0) return NAN;
    return fmax(1 - one->predicted.lower_bound / one->predicted.sum_omega, 0);
}

static bool is_highest(const qs_class_plan *one) {
    for (int i = 0; i < one->reasons; i++)
        if (strcmp(one->reason[i].stopped_by, "highest") != 0) return false;
    return true;
}

static void gap_print(const qs_class_plan *one) {
    const double gap = plan_gap(one);
    if (is_highest(one)) return;
    if (isnan(gap))
        printf(" (bound not known)");
    else
        printf(" (gap at most %s)", percent_text(gap));
}

static void class_print(const qs_plan *plan, const qs_class_plan *one, const qs_cluster *cluster) {
    char counts[256];
    int class_index = 0;
    recipe_counts_text(plan, one, counts, sizeof counts);
    printf("  %-10s %s%s\n             compute %s, waiting %s, memory %s", one->class_name, counts, recomputed_text(one),
           time_text(one->predicted.compute_us), time_text(one->predicted.waiting_us), bytes_text((double)one->predicted.arena_bytes));
    if (qs_cluster_find(cluster, one->class_name, &class_index) == QS_OK && cluster->class_[class_index].memory_limit > 0)
        printf(" of %s", bytes_text((double)cluster->class_[class_index].memory_limit));
    printf(", sum of omega %.4g", one->predicted.sum_omega);
    gap_print(one);
    if (one->idle) printf(", idle");
    if (!one->idle && one->batch != plan->job.batch) printf(", batch %lld", (long long)one->batch);
    printf("\n");
    assignment_print(one);
}

static void helpful_print(const qs_plan *plan) {
    const int worst = qs_plan_unhelpful(plan);
    for (int i = 0; i < plan->left_outs; i++)
        printf("  left out: %s; with it %.1f %s/s\n", plan->left_out[i].class_name, plan->left_out[i].samples_per_second, plan->unit);
    for (int i = 0; i < plan->withouts; i++)
        if (plan->without[i].samples_per_second > 0)
            printf("  without %s: %.1f %s/s%s\n", plan->without[i].class_name, plan->without[i].samples_per_second, plan->unit,
                   i == worst ? ": leave it out (--drop-unhelpful)" : "");
        else
            printf("  without %s: no plan\n", plan->without[i].class_name);
}

static void estimated_print(const qs_plan *plan, const qs_profile *profile) {
    for (int c = 0; c < plan->classes; c++) {
        const qs_class_profile *one = qs_profile_class(profile, plan->class_[c].class_name);
        if (one && one->estimated)
            printf("  times of %s are ESTIMATED from published figures of %s, not measured\n", one->class_name, one->device);
    }
}

/* Where the planner had a choice. */
static void wires_print(const qs_plan *plan) {
    if (plan->wires == 0) return;
    printf("  gradients travel in %s", plan->job.wire);
    for (int i = 0; i < plan->wires; i++) {
        const qs_wire_plan *one = &plan->wire[i];
        if (strcmp(one->why, "taken") == 0) continue;
        if (one->iteration_us > 0)
            printf("; in %s an iteration would take %s", one->wire, time_text(one->iteration_us));
        else
            printf("; in %s there is no plan", one->wire);
    }
    printf("\n");
}

void plan_print(const qs_plan *plan, const qs_cluster *cluster, const qs_profile *profile) {
    if (plan->classes > 0)
        printf("plan by %s for %s, batch %lld a rank: predicted iteration %s, %.1f %s/s\n", plan->planner, plan->job.model,
               (long long)plan->job.batch, time_text(plan->class_[0].predicted.iteration_us), plan->samples_per_second, plan->unit);
    for (int c = 0; c < plan->classes; c++)
        class_print(plan, &plan->class_[c], cluster);
    wires_print(plan);
    helpful_print(plan);
    estimated_print(plan, profile);
}

json_t *paces_json(int count, const qs_class_pace *pace) {
    json_t *object = json_object();
    for (int i = 0; object && i < count; i++)
        json_object_set_new(object, pace[i].class_name, json_real(pace[i].samples_per_second));
    return object;
}
