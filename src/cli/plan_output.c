// SPDX-License-Identifier: Apache-2.0
/* Plans as people read them. */
#include <stdlib.h>
#include <string.h>

#include "plan_output.h"

/* "conv 7 bf16, 2 fp32": operators per recipe of a class plan. */
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

void plan_print(const qs_plan *plan, const qs_cluster *cluster) {
    if (plan->classes > 0)
        printf("plan by %s for %s, batch %lld a rank: predicted iteration %s\n", plan->planner, plan->job.model, (long long)plan->job.batch,
               time_text(plan->class_[0].predicted.iteration_us));
    for (int c = 0; c < plan->classes; c++) {
        const qs_class_plan *one = &plan->class_[c];
        char counts[256];
        int class_index = 0;
        recipe_counts_text(plan, one, counts, sizeof counts);
        printf("  %-10s %s\n             compute %s, waiting %s, memory %s", one->class_name, counts, time_text(one->predicted.compute_us),
               time_text(one->predicted.waiting_us), bytes_text((double)one->predicted.arena_bytes));
        if (qs_cluster_find(cluster, one->class_name, &class_index) == QS_OK && cluster->class_[class_index].memory_limit > 0)
            printf(" of %s", bytes_text((double)cluster->class_[class_index].memory_limit));
        printf(", sum of omega %.4g\n", one->predicted.sum_omega);
    }
}

void plan_explain(const qs_plan *plan) {
    for (int c = 0; c < plan->classes; c++) {
        const qs_class_plan *one = &plan->class_[c];
        printf("\n%s\n  %-26s %-12s %12s  %-12s %-12s %12s %12s\n", one->class_name, "operator", "recipe", "omega", "stopped by", "next",
               "time", "memory");
        for (int i = 0; i < one->reasons; i++) {
            const qs_operator_reason *why = &one->reason[i];
            printf("  %-26s %-12s %12.4g  %-12s %-12s %12s %12s\n", why->name, qs_class_plan_recipe(one, why->name), why->omega,
                   why->stopped_by, why->next[0] ? why->next : "-", why->next[0] ? time_text(why->time_us) : "-",
                   why->next[0] ? bytes_text((double)why->bytes) : "-");
        }
    }
}
