// SPDX-License-Identifier: Apache-2.0
/* Why a plan is as it is: a summary, and a table of its operators; as text and as JSON. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan_output.h"

enum { DEAREST = 3 };
static const char *const constraints[] = {"throughput", "neighbours", "memory", "profile", "planner", "pinned"};
enum { CONSTRAINTS = sizeof constraints / sizeof *constraints };

/* ---- Figures ------------------------------------------------------------------------------------------------------------------- */

static int stopped_count(const qs_class_plan *one, const char *constraint) {
    int count = 0;
    for (int i = 0; i < one->reasons; i++)
        count += strcmp(one->reason[i].stopped_by, constraint) == 0;
    return count;
}

/* What stopped most operators; NULL: all have the highest recipe. */
static const char *binding(const qs_class_plan *one) {
    int best = -1;
    for (int k = 0; k < CONSTRAINTS; k++)
        if (stopped_count(one, constraints[k]) > (best < 0 ? 0 : stopped_count(one, constraints[best]))) best = k;
    return best < 0 ? NULL : constraints[best];
}

/* By time, then by memory. */
static int compare_dearness(const void *a, const void *b) {
    const qs_operator_reason *left = *(const qs_operator_reason *const *)a, *right = *(const qs_operator_reason *const *)b;
    if (left->time_us != right->time_us) return left->time_us < right->time_us ? 1 : -1;
    return (left->bytes < right->bytes) - (left->bytes > right->bytes);
}

/* The operators that cost most to raise, dearest first; returns how many. */
static int dearest_find(const qs_class_plan *one, const qs_operator_reason *out[DEAREST]) {
    const qs_operator_reason **sorted = NULL;
    int count = 0;
    if (qs_allocate((size_t)one->reasons, sizeof *sorted, &sorted) != QS_OK) return 0;
    for (int i = 0; i < one->reasons; i++)
        if (one->reason[i].next[0] && (one->reason[i].time_us > 0 || one->reason[i].bytes > 0)) sorted[count++] = &one->reason[i];
    qsort(sorted, (size_t)count, sizeof *sorted, compare_dearness);
    if (count > DEAREST) count = DEAREST;
    for (int i = 0; i < count; i++)
        out[i] = sorted[i];
    free(sorted);
    return count;
}

static int64_t limit_of(const qs_cluster *cluster, const char *class_name) {
    for (int c = 0; c < cluster->classes; c++)
        if (strcmp(cluster->class_[c].name, class_name) == 0) return cluster->class_[c].memory_limit;
    return 0;
}

/* ---- Text ---------------------------------------------------------------------------------------------------------------------- */

static void omega_print(const qs_class_plan *one) {
    const double gap = plan_gap(one);
    printf("    sum of omega %.4g", one->predicted.sum_omega);
    if (isnan(gap))
        printf(", lower bound not known\n");
    else if (one->predicted.sum_omega == 0)
        printf(": nothing to gain\n");
    else
        printf(", no plan that fits is below %.4g: gap at most %s\n", one->predicted.lower_bound, percent_text(gap));
}

static void binding_print(const qs_class_plan *one) {
    const char *most = binding(one), *separator = "";
    if (!most) {
        printf("    every operator has its highest recipe\n");
        return;
    }
    printf("    held back by %s (", most);
    for (int k = 0; k < CONSTRAINTS; k++) {
        const int count = stopped_count(one, constraints[k]);
        if (count > 0) printf("%s%s: %d", separator, constraints[k], count);
        if (count > 0) separator = ", ";
    }
    printf(" of %d operators)\n", one->reasons);
    if (stopped_count(one, "neighbours") > 0)
        printf("    neighbours: it would be in time itself, but the other ranks of its host compute more slowly beside it and would be "
               "late\n");
}

static void dearest_print(const qs_class_plan *one) {
    const qs_operator_reason *dearest[DEAREST];
    const int count = dearest_find(one, dearest);
    for (int i = 0; i < count; i++)
        printf("%s%s to %s (%s, %s)%s", i ? ", " : "    dearest to raise: ", dearest[i]->name, dearest[i]->next,
               time_text(dearest[i]->time_us), bytes_text((double)dearest[i]->bytes), i + 1 < count ? "" : "\n");
}

/* Of a planner that was asked to recompute. */
static void recompute_print(const qs_class_plan *one) {
    static const struct {
        const char *why, *text;
    } reasons[] = {{"asked", "as asked"},
                   {"memory", "the plan is better so than without, or fits only so"},
                   {"pace", "memory binds, but plans with recomputed blocks are no better"},
                   {"fits", "the highest precision fits"}};
    const char *text = one->recompute_why;
    if (!*text) return;
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (strcmp(reasons[i].why, one->recompute_why) == 0) text = reasons[i].text;
    if (one->recomputes == 0) {
        printf("    nothing is recomputed: %s\n", text);
        return;
    }
    printf("    %d %s recomputed (%s): %s an iteration, memory %s, all kept %s\n      ", one->recomputes,
           one->recomputes == 1 ? "block" : "blocks", text, time_text(one->predicted.recompute_us),
           bytes_text((double)one->predicted.arena_bytes), bytes_text((double)one->predicted.kept_bytes));
    for (int i = 0; i < one->recomputes; i++)
        printf("%s%s", one->recompute[i], i + 1 < one->recomputes ? ", " : "\n");
}

/* What T_min was asked of. */
static void guard_print(const qs_plan *plan) {
    const char *separator = ": steps may take longer by ";
    if (plan->confidence == 0) {
        printf("  T_min by expected times: nothing is known of their errors, or they were to be believed\n");
        return;
    }
    printf("  T_min with %s confidence: at most %s of %s", percent_text(plan->confidence), time_text(plan->upper_us),
           time_text(plan->longest_us));
    for (int c = 0; c < plan->classes; c++) {
        if (plan->class_[c].predicted.doubt == 0) continue;
        printf("%s%s (%s)", separator, percent_text(plan->class_[c].predicted.doubt), plan->class_[c].class_name);
        separator = ", ";
    }
    printf("\n");
}

/* Ranks of one box share its memory; those of several do not. */
static void hosts_print(const qs_plan *plan, const qs_cluster *cluster, const qs_prediction *prediction) {
    int *host = NULL, hosts = 0;
    const int ranks = qs_cluster_ranks(cluster);
    if (ranks < 2 || qs_allocate((size_t)ranks, sizeof *host, &host) != QS_OK) return;
    qs_cluster_hosts(cluster, host, &hosts);
    free(host);
    if (hosts == ranks) {
        printf("  every rank has a host of its own: none slows another down but by waiting\n");
        return;
    }
    printf("  %d ranks on %d host%s", ranks, hosts, hosts == 1 ? "" : "s");
    for (int c = 0; c < plan->classes; c++)
        if (prediction->class_[c].alone < 1)
            printf("; while its neighbours wait %s takes %s of its time beside them", plan->class_[c].class_name,
                   percent_text(prediction->class_[c].alone));
    printf("\n");
}

/* What the wires that were compared come to. */
static void wires_print(const qs_plan *plan) {
    static const struct {
        const char *why, *text;
    } reasons[] = {{"taken", "taken"},
                   {"slower", "slower"},
                   {"tolerance", "saves no more than the tolerance"},
                   {"memory", "no plan fits the memory with its residuals"},
                   {"profile", "the profile cannot price it on this cluster"}};
    if (plan->wires == 0) return;
    printf("  %-12s %12s %24s %12s\n", "wire", "iteration", "of it for all-reduces", "residuals");
    for (int i = 0; i < plan->wires; i++) {
        const qs_wire_plan *one = &plan->wire[i];
        const char *text = one->why;
        for (size_t r = 0; r < sizeof reasons / sizeof *reasons; r++)
            if (strcmp(reasons[r].why, one->why) == 0) text = reasons[r].text;
        printf("  %-12s %12s", one->wire, one->iteration_us > 0 ? time_text(one->iteration_us) : "-");
        printf(" %24s", one->iteration_us > 0 ? time_text(one->exposed_us) : "-");
        printf(" %12s  %s\n", bytes_text((double)one->residual_bytes), text);
    }
}

static void class_summarize(const qs_plan *plan, const qs_class_plan *one, const qs_cluster *cluster) {
    char counts[256];
    const int64_t limit = limit_of(cluster, one->class_name), bytes = one->predicted.arena_bytes;
    recipe_counts_text(plan, one, counts, sizeof counts);
    printf("  %s: %s; memory %s", one->class_name, counts, bytes_text((double)bytes));
    if (limit > 0) printf(" of %s (%s)", bytes_text((double)limit), percent_text((double)bytes / (double)limit));
    printf("\n");
    omega_print(one);
    binding_print(one);
    dearest_print(one);
    recompute_print(one);
}

static void operators_print(const qs_class_plan *one) {
    int columns = 28;
    if (!binding(one)) return;
    for (int i = 0; i < one->reasons; i++)
        columns = name_columns(columns, one->reason[i].name);
    printf("\n%s\n  %-*s %-12s %12s  %-12s %-12s %12s %12s\n", one->class_name, columns, "operator", "recipe", "omega", "stopped by",
           "next", "time", "memory");
    for (int i = 0; i < one->reasons; i++) {
        const qs_operator_reason *why = &one->reason[i];
        printf("  %-*s %-12s %12.4g  %-12s %-12s %12s %12s\n", columns, why->name, qs_class_plan_recipe(one, why->name), why->omega,
               why->stopped_by, why->next[0] ? why->next : "-", why->next[0] ? time_text(why->time_us) : "-",
               why->next[0] ? bytes_text((double)why->bytes) : "-");
    }
}

void plan_explain_print(const qs_plan *plan, const qs_cluster *cluster, const qs_prediction *prediction) {
    printf("\nsummary: iteration %s, %.1f %s/s of %d ranks\n", time_text(prediction->iteration_us), prediction->samples_per_second,
           prediction->unit, qs_cluster_ranks(cluster));
    guard_print(plan);
    hosts_print(plan, cluster, prediction);
    wires_print(plan);
    for (int c = 0; c < plan->classes; c++)
        class_summarize(plan, &plan->class_[c], cluster);
    lengths_print(cluster, prediction);
    waits_print(cluster, prediction);
    for (int c = 0; c < plan->classes; c++)
        operators_print(&plan->class_[c]);
}

/* ---- JSON ---------------------------------------------------------------------------------------------------------------------- */

static json_t *counts_json(const qs_plan *plan, const qs_class_plan *one) {
    json_t *object = json_object();
    for (int r = 0; object && r < plan->recipes; r++) {
        int count = 0;
        for (int i = 0; i < one->operators; i++)
            count += strcmp(one->operator_[i].recipe, plan->recipe[r].name) == 0;
        if (count > 0) json_object_set_new(object, plan->recipe[r].name, json_integer(count));
    }
    return object;
}

static json_t *reason_json(const qs_class_plan *one, const qs_operator_reason *why) {
    json_t *row = json_pack("{s:s,s:s,s:f,s:s}", "operator", why->name, "recipe", qs_class_plan_recipe(one, why->name), "omega", why->omega,
                            "stopped_by", why->stopped_by);
    if (row && why->next[0])
        json_object_update_new(row,
                               json_pack("{s:s,s:f,s:I}", "next", why->next, "time_us", why->time_us, "bytes", (json_int_t)why->bytes));
    return row;
}

static json_t *stopped_json(const qs_class_plan *one) {
    json_t *object = json_object();
    for (int k = 0; object && k < CONSTRAINTS; k++)
        if (stopped_count(one, constraints[k]) > 0)
            json_object_set_new(object, constraints[k], json_integer(stopped_count(one, constraints[k])));
    return object;
}

static json_t *class_json(const qs_plan *plan, const qs_class_plan *one, const qs_cluster *cluster) {
    const qs_operator_reason *dearest[DEAREST];
    const int count = dearest_find(one, dearest);
    const int64_t limit = limit_of(cluster, one->class_name);
    json_t *names = json_array(), *operators = json_array(), *blocks = json_array();
    for (int i = 0; i < one->recomputes; i++)
        json_array_append_new(blocks, json_string(one->recompute[i]));
    for (int i = 0; i < count; i++)
        json_array_append_new(names, json_string(dearest[i]->name));
    for (int i = 0; i < one->reasons; i++)
        json_array_append_new(operators, reason_json(one, &one->reason[i]));
    const double bound = one->predicted.lower_bound;
    return json_pack("{s:s,s:o,s:f,s:f,s:f,s:I,s:o,s:f,s:o,s:o,s:o,s:o,s:o,s:o,s:{s:o,s:s,s:f,s:I}}", "class", one->class_name, "recipes",
                     counts_json(plan, one), "compute_us", one->predicted.compute_us, "waiting_us", one->predicted.waiting_us, "doubt",
                     one->predicted.doubt, "arena_bytes", (json_int_t)one->predicted.arena_bytes, "limit_bytes",
                     limit > 0 ? json_integer(limit) : json_null(), "sum_omega", one->predicted.sum_omega, "lower_bound",
                     bound != 0 ? json_real(bound) : json_null(), "gap_percent", json_number(100 * plan_gap(one)), "stopped_by",
                     stopped_json(one), "binds", binding(one) ? json_string(binding(one)) : json_null(), "dearest", names, "operators",
                     operators, "recompute", "blocks", blocks, "why", one->recompute_why, "time_us", one->predicted.recompute_us,
                     "kept_bytes", (json_int_t)one->predicted.kept_bytes);
}

static json_t *wires_json(const qs_plan *plan) {
    json_t *rows = json_array();
    for (int i = 0; rows && i < plan->wires; i++) {
        const qs_wire_plan *one = &plan->wire[i];
        const bool there = one->iteration_us > 0;
        json_array_append_new(rows, json_pack("{s:s,s:o,s:o,s:I,s:s}", "wire", one->wire, "iteration_us",
                                              there ? json_real(one->iteration_us) : json_null(), "exposed_us",
                                              there ? json_real(one->exposed_us) : json_null(), "residual_bytes",
                                              (json_int_t)one->residual_bytes, "why", one->why));
    }
    return rows;
}

json_t *plan_explain_json(const qs_plan *plan, const qs_cluster *cluster, const qs_prediction *prediction) {
    json_t *classes = json_array();
    for (int c = 0; c < plan->classes; c++)
        json_array_append_new(classes, class_json(plan, &plan->class_[c], cluster));
    json_t *guard = plan->confidence > 0 ? json_pack("{s:f,s:f,s:f}", "confidence", plan->confidence, "upper_us", plan->upper_us,
                                                     "longest_us", plan->longest_us)
                                         : json_null();
    return json_pack("{s:s,s:f,s:f,s:s,s:i,s:o,s:s,s:o,s:o*,s:o,s:o,s:o}", "planner", plan->planner, "iteration_us",
                     prediction->iteration_us, "samples_per_second", prediction->samples_per_second, "unit", prediction->unit, "ranks",
                     qs_cluster_ranks(cluster), "guard", guard, "wire", plan->job.wire, "wires", wires_json(plan), "lengths",
                     lengths_json(cluster, prediction), "classes", classes, "without", paces_json(plan->withouts, plan->without),
                     "left_out", paces_json(plan->left_outs, plan->left_out));
}
