// SPDX-License-Identifier: Apache-2.0
/* Predictions as people read them, and as JSON: phases, who waits for whom, memory, what is extrapolated. */
#include <stdlib.h>
#include <string.h>

#include "plan_output.h"

/* "weak", or "weak (rank 3) x2" where not all of a class are alike: the lowest rank, and how many times slower it is made. */
static const char *group_text(const qs_cluster *cluster, const qs_prediction *prediction, int index, char *text, size_t size) {
    const qs_prediction_group *group = &prediction->group[index];
    const qs_class *class_ = &cluster->class_[group->class_index];
    int used = snprintf(text, size, "%s", class_->name);
    if (group->ranks < class_->count && used >= 0 && (size_t)used < size)
        used += snprintf(text + used, size - (size_t)used, group->ranks > 1 ? " (rank %d, ...)" : " (rank %d)", group->first);
    if (group->slow != 1 && used >= 0 && (size_t)used < size) snprintf(text + used, size - (size_t)used, " x%g", group->slow);
    return text;
}

static void phases_print(const qs_cluster *cluster, const qs_prediction *prediction) {
    char text[128];
    printf("\n  %-24s %6s %6s", "time of a rank", "ranks", "batch");
    for (int i = 0; i < QS_PHASE_TIMES; i++)
        printf(" %13s", qs_phase_times_name(i));
    printf("\n");
    for (int g = 0; g < prediction->groups; g++) {
        const qs_prediction_group *group = &prediction->group[g];
        printf("  %-24s %6d %6lld", group_text(cluster, prediction, g, text, sizeof text), group->ranks,
               (long long)prediction->class_[group->class_index].batch);
        for (int i = 0; i < QS_PHASE_TIMES; i++)
            printf(" %13s", time_text(qs_phase_times_at(&group->phases, i)));
        printf("\n");
    }
}

void waits_print(const qs_cluster *cluster, const qs_prediction *prediction) {
    char text[128];
    if (qs_cluster_ranks(cluster) < 2) return;
    printf("\n  who waits\n");
    for (int g = 0; g < prediction->groups; g++) {
        const qs_prediction_group *group = &prediction->group[g];
        printf("  %-24s %s: %s for all-reduces", group_text(cluster, prediction, g, text, sizeof text), time_text(group->waiting_us),
               time_text(group->reducing_us));
        for (int other = 0; other < prediction->groups; other++) {
            const double us = prediction->late_us[g * prediction->groups + other];
            if (us <= 0.05) continue;
            if (other == g)
                printf(", %s by chance", time_text(us));
            else
                printf(", %s for %s", time_text(us), group_text(cluster, prediction, other, text, sizeof text));
        }
        printf("\n");
    }
}

/* Of several lengths: a step of each, and every class's part in it. */
void lengths_print(const qs_cluster *cluster, const qs_prediction *prediction) {
    if (prediction->lengths == 0) return;
    printf("\n  %-24s %8s %12s  compute, waiting, memory of a rank\n", "steps by length", "share", "iteration");
    for (int k = 0; k < prediction->lengths; k++) {
        const qs_prediction_length *one = &prediction->length[k];
        printf("  %-24lld %8s %12s ", (long long)one->length, percent_text(one->share), time_text(one->iteration_us));
        for (int c = 0; c < prediction->classes; c++)
            printf(" %s%s: %s, %s, %s", c ? "; " : "", cluster->class_[c].name, time_text(one->class_[c].compute_us),
                   time_text(one->class_[c].waiting_us), bytes_text((double)one->class_[c].arena_bytes));
        printf("\n");
    }
}

static void memory_print(const qs_class *class_, const qs_prediction_class *one) {
    printf("  %-24s %s", class_->name, bytes_text((double)one->arena_bytes));
    if (class_->memory_limit > 0) printf(" of %s", bytes_text((double)class_->memory_limit));
    printf("%s\n", one->fits ? "" : ", does NOT fit");
    for (int k = 0; k < QS_CATEGORY_COUNT; k++)
        if (one->category_bytes[k] > 0)
            printf("    %-24s %s\n", qs_category_name((qs_category)k), bytes_text((double)one->category_bytes[k]));
}

void prediction_print(const qs_cluster *cluster, const qs_prediction *prediction) {
    printf("iteration %s, %.1f %s/s%s\n", time_text(prediction->iteration_us), prediction->samples_per_second, prediction->unit,
           prediction->fits ? "" : ", does NOT fit the memory");
    phases_print(cluster, prediction);
    lengths_print(cluster, prediction);
    waits_print(cluster, prediction);
    printf("\n  memory of a rank\n");
    for (int c = 0; c < prediction->classes; c++)
        memory_print(&cluster->class_[c], &prediction->class_[c]);
    for (int i = 0; i < prediction->notes; i++)
        printf("%snote: %s\n", i ? "" : "\n", prediction->note[i]);
}

/* ---- JSON ------------------------------------------------------------------------------------------------------------------------ */

static json_t *phases_json(const qs_phase_times *times) {
    json_t *object = json_object();
    char key[32];
    for (int i = 0; object && i < QS_PHASE_TIMES; i++) {
        snprintf(key, sizeof key, "%s_us", qs_phase_times_name(i));
        json_object_set_new(object, key, json_real(qs_phase_times_at(times, i)));
    }
    return object;
}

static json_t *class_json(const qs_class *class_, const qs_prediction_class *one) {
    json_t *categories = json_object();
    for (int k = 0; categories && k < QS_CATEGORY_COUNT; k++)
        json_object_set_new(categories, qs_category_name((qs_category)k), json_integer((json_int_t)one->category_bytes[k]));
    return json_pack("{s:s,s:i,s:I,s:f,s:f,s:o,s:I,s:I,s:I,s:I,s:I,s:b,s:s,s:o}", "class", class_->name, "ranks", class_->count, "batch",
                     (json_int_t)one->batch, "compute_us", one->compute_us, "waiting_us", one->waiting_us, "phases",
                     phases_json(&one->phases), "arena_bytes", (json_int_t)one->arena_bytes, "memory_limit",
                     (json_int_t)class_->memory_limit, "communication_bytes", (json_int_t)one->communication_bytes, "base_bytes",
                     (json_int_t)one->base_bytes, "program_bytes", (json_int_t)one->program_bytes, "fits", (int)one->fits, "schedule",
                     one->schedule, "categories_at_peak", categories);
}

static json_t *group_json(const qs_cluster *cluster, const qs_prediction *prediction, int index) {
    const qs_prediction_group *group = &prediction->group[index];
    json_t *late = json_array();
    for (int other = 0; late && other < prediction->groups; other++)
        json_array_append_new(late, json_real(prediction->late_us[index * prediction->groups + other]));
    return json_pack("{s:s,s:i,s:i,s:f,s:f,s:f,s:f,s:o,s:o}", "class", cluster->class_[group->class_index].name, "first_rank", group->first,
                     "ranks", group->ranks, "slow", group->slow, "compute_us", group->compute_us, "waiting_us", group->waiting_us,
                     "all_reduce_us", group->reducing_us, "late_us", late, "phases", phases_json(&group->phases));
}

/* NULL of one length. */
json_t *lengths_json(const qs_cluster *cluster, const qs_prediction *prediction) {
    json_t *rows = prediction->lengths > 0 ? json_array() : NULL;
    for (int k = 0; k < prediction->lengths; k++) {
        const qs_prediction_length *one = &prediction->length[k];
        json_t *classes = json_array();
        for (int c = 0; c < prediction->classes; c++)
            json_array_append_new(classes, json_pack("{s:s,s:f,s:f,s:o,s:I,s:s}", "class", cluster->class_[c].name, "compute_us",
                                                     one->class_[c].compute_us, "waiting_us", one->class_[c].waiting_us, "phases",
                                                     phases_json(&one->class_[c].phases), "arena_bytes",
                                                     (json_int_t)one->class_[c].arena_bytes, "schedule", one->class_[c].schedule));
        json_array_append_new(rows, json_pack("{s:I,s:f,s:f,s:o}", "length", (json_int_t)one->length, "share", one->share, "iteration_us",
                                              one->iteration_us, "classes", classes));
    }
    return rows;
}

json_t *prediction_json(const qs_cluster *cluster, const qs_prediction *prediction) {
    json_t *classes = json_array(), *groups = json_array(), *notes = json_array();
    for (int c = 0; classes && c < prediction->classes; c++)
        json_array_append_new(classes, class_json(&cluster->class_[c], &prediction->class_[c]));
    for (int g = 0; groups && g < prediction->groups; g++)
        json_array_append_new(groups, group_json(cluster, prediction, g));
    for (int i = 0; notes && i < prediction->notes; i++)
        json_array_append_new(notes, json_string(prediction->note[i]));
    return json_pack("{s:f,s:f,s:s,s:i,s:b,s:o*,s:o,s:o,s:o}", "iteration_us", prediction->iteration_us, "samples_per_second",
                     prediction->samples_per_second, "unit", prediction->unit, "ranks", qs_cluster_ranks(cluster), "fits",
                     (int)prediction->fits, "lengths", lengths_json(cluster, prediction), "classes", classes, "groups", groups, "notes",
                     notes);
}
