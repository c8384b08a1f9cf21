// SPDX-License-Identifier: Apache-2.0
/* qsync indicator: Ω of every operator and recipe, and how stable the ranking is over the profiled iterations where it follows them: random
 * and hess are the same in each. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ground_truth.h"

#define MOST_RECIPES 8

typedef struct table_work {
    qs_convention convention;
    qs_profile profile;
    qs_graph *graph;
    qs_recipe recipe[MOST_RECIPES];
    int recipes;
    double *omega;     /* (nodes × recipes) */
    double *trace;     /* (iterations × nodes) of the lowest recipe; NULL, as stability is: the indicator does not vary over iterations */
    double *stability; /* (iterations) Spearman with the mean, lowest recipe */
    bool measured;     /* the indicator is of measured noise */
} table_work;

static qs_status recipe_add(void *context, const char *name) {
    table_work *work = context;
    if (work->recipes == MOST_RECIPES) return qs_fail(QS_USAGE, "--recipes: at most %d names", MOST_RECIPES);
    return qs_recipe_builtin(name, &work->recipe[work->recipes++]);
}

static qs_status stability_compute(table_work *work, int64_t global_batch) {
    const int nodes = work->graph->nodes, iterations = work->profile.statistics.iterations;
    const qs_recipe *lowest = &work->recipe[work->recipes - 1];
    double *mean = NULL, *now = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)iterations, sizeof *work->stability, &work->stability));
    QS_GOTO(qs_allocate((size_t)iterations * (size_t)nodes, sizeof *work->trace, &work->trace));
    QS_GOTO(qs_allocate((size_t)nodes, sizeof *mean, &mean));
    QS_GOTO(qs_allocate((size_t)nodes, sizeof *now, &now));
    QS_GOTO(qs_indicator_trace(work->convention, work->graph, &work->profile, work->profile.batch, global_batch, lowest, work->trace));
    for (int i = 0; i < iterations; i++) {
        int count = 0;
        for (int n = work->graph->samples.inputs; n < nodes; n++) {
            if (work->graph->node[n].op->kind != QS_ADJUSTABLE) continue;
            mean[count] = work->omega[n * work->recipes + work->recipes - 1];
            now[count++] = work->trace[i * nodes + n];
        }
        work->stability[i] = qs_spearman(count, now, mean);
    }
done:
    free(mean);
    free(now);
    return status;
}

static void stability_print(const table_work *work) {
    const int iterations = work->profile.statistics.iterations;
    double sum = 0, lowest = 1;
    if (!work->stability) return;
    for (int i = 0; i < iterations; i++) {
        sum += work->stability[i] / iterations;
        lowest = fmin(lowest, work->stability[i]);
    }
    printf("\nrank stability over %d iterations (Spearman with the mean, %s): mean %.3f, lowest %.3f\n", iterations,
           work->recipe[work->recipes - 1].name, sum, lowest);
}

/* Whether noise adds up over operators: of what was measured, beside the rows of the indicator that is made of it. */
static void groups_print(const table_work *work) {
    const qs_noise *noise = &work->profile.statistics.noise;
    if (!work->measured || noise->groups == 0) return;
    printf("\nnoise of operators together, over the sum of theirs alone:");
    for (int g = 0; g < noise->groups; g++) {
        const qs_noise_group *one = &noise->group[g];
        const bool begins = g == 0 || strcmp(one->recipe, one[-1].recipe) != 0;
        printf(begins ? "%s %s" : "%s", g == 0 ? "" : begins ? ";" : ",", one->recipe);
        printf(" %.2f of %d", one->error2 / one->sum, one->operators);
    }
    printf("\n");
}

static void table_print(const table_work *work) {
    const int columns = node_columns(work->graph);
    printf("%-*s", columns, "operator");
    for (int r = 0; r < work->recipes; r++)
        printf(" %14s", work->recipe[r].name);
    printf("\n");
    for (int n = work->graph->samples.inputs; n < work->graph->nodes; n++) {
        if (work->graph->node[n].op->kind != QS_ADJUSTABLE) continue;
        printf("%-*s", columns, work->graph->node[n].name);
        for (int r = 0; r < work->recipes; r++)
            printf(" %14.5g", work->omega[n * work->recipes + r]);
        printf("\n");
    }
    stability_print(work);
    groups_print(work);
}

static json_t *omega_json(double value) {
    return isfinite(value) ? json_real(value) : json_string("inf");
}

static json_t *trace_json(const table_work *work) {
    json_t *operators = json_object();
    for (int n = work->graph->samples.inputs; n < work->graph->nodes; n++) {
        if (work->graph->node[n].op->kind != QS_ADJUSTABLE) continue;
        json_t *row = json_array();
        for (int i = 0; i < work->profile.statistics.iterations; i++)
            json_array_append_new(row, omega_json(work->trace[i * work->graph->nodes + n]));
        json_object_set_new(operators, work->graph->node[n].name, row);
    }
    return json_pack("{s:s,s:o}", "recipe", work->recipe[work->recipes - 1].name, "omega", operators);
}

static json_t *groups_json(const qs_noise *noise) {
    json_t *rows = json_array();
    for (int g = 0; g < noise->groups; g++) {
        const qs_noise_group *one = &noise->group[g];
        json_array_append_new(rows, json_pack("{s:s,s:i,s:f}", "recipe", one->recipe, "operators", one->operators, "of_sum",
                                              one->sum > 0 ? one->error2 / one->sum : 0));
    }
    return rows;
}

static qs_status table_json(const table_work *work) {
    json_t *operators = json_object();
    for (int n = work->graph->samples.inputs; n < work->graph->nodes; n++) {
        if (work->graph->node[n].op->kind != QS_ADJUSTABLE) continue;
        json_t *row = json_object();
        for (int r = 0; r < work->recipes; r++)
            json_object_set_new(row, work->recipe[r].name, omega_json(work->omega[n * work->recipes + r]));
        json_object_set_new(operators, work->graph->node[n].name, row);
    }
    if (work->measured)
        return json_print(json_pack("{s:o,s:o}", "omega", operators, "together", groups_json(&work->profile.statistics.noise)));
    if (!work->stability) return json_print(json_pack("{s:o}", "omega", operators));
    json_t *stability = json_array();
    for (int i = 0; i < work->profile.statistics.iterations; i++)
        json_array_append_new(stability, json_number(work->stability[i]));
    return json_print(json_pack("{s:o,s:o,s:o}", "omega", operators, "rank_stability", stability, "trace", trace_json(work)));
}

static qs_status table_make(table_work *work, const char *name, int64_t global_batch, uint64_t seed) {
    const qs_profile *profile = &work->profile;
    if (global_batch == 0) global_batch = profile->batch * profile->statistics.ranks;
    QS_TRY(qs_model_open(profile->model, &profile->samples, &work->graph));
    QS_TRY(qs_allocate((size_t)work->graph->nodes * (size_t)work->recipes, sizeof *work->omega, &work->omega));
    QS_TRY(qs_indicator_evaluate(name, work->convention, work->graph, profile, profile->batch, global_batch, work->recipes, work->recipe,
                                 seed, work->omega));
    work->measured = strcmp(name, "measured") == 0;
    return strcmp(name, "qsync") == 0 ? stability_compute(work, global_batch) : QS_OK;
}

typedef struct indicator_options {
    const char *profile, *recipes, *name, *convention;
    int64_t global_batch;
    bool ground_truth, json;
    ground_truth_options truth;
    option_table table;
} indicator_options;

static const option_row option_rows[] = {
    {OPTION(indicator_options, profile, "profile", "FILE", "what qsync profile measured"), .usual = "required"},
    {OPTION(indicator_options, recipes, "recipes", "LIST", "comma-separated, highest first"), .standard = "fp32,bf16,int8/bf16"},
    {OPTION(indicator_options, name, "indicator", "NAME", "qsync, measured, random or hess"), .standard = "qsync"},
    {OPTION(indicator_options, convention, "convention", "NAME", "how qsync and measured form omega"), .usual = "the best one measured"},
    {OPTION(indicator_options, global_batch, "global-batch", "N", "samples of a step over all ranks"), .usual = "profiled batch × ranks",
     .minimum = 1},
    {OPTION(indicator_options, json, "json", NULL, "print JSON, also with omega of every iteration")},
    {OPTION(indicator_options, ground_truth, "ground-truth", NULL,
            "measure the noise and compare all indicators with it; what follows is for it")},
};

static qs_status options_read(indicator_options *o, int argc, char **argv, bool *done) {
    const verb_usage usage = {
        .verb = "indicator",
        .arguments = "",
        .purpose =
            "The gradient noise (omega) that each recipe adds at each operator, from the statistics in a profile; and, of qsync, how\n"
            "stable the ranking of operators was over the profiled iterations. With --ground-truth the noise is measured instead: each\n"
            "operator alone in each recipe, many seeds; and every indicator is compared with it.",
        .examples = "  qsync indicator --profile profile.json --recipes fp32,bf16,int8/bf16\n"
                    "  qsync indicator --ground-truth --profile profile.json --dataset cifar10 --seeds 16 --out truth.csv\n"};
    int first = 0;
    OPTIONS_ADD(&o->table, option_rows, o);
    ground_truth_options_add(&o->truth, &o->table);
    QS_TRY(options_parse(&o->table, &usage, argc, argv, &first, done));
    if (*done) return QS_OK;
    QS_TRY(options_require(&o->table, &usage, 1, (const char *const[]){"profile"}));
    return o->ground_truth ? QS_OK : ground_truth_options_refuse(&o->table);
}

qs_status verb_indicator(int argc, char **argv) {
    indicator_options options = {0};
    bool done = false;
    table_work work = {.convention = QS_CONVENTION_DEFAULT};
    qs_status status = QS_OK;
    QS_TRY(options_read(&options, argc, argv, &done));
    if (done) return QS_OK;
    const bool listed = !options.ground_truth || option_given(&options.table, "recipes");
    if (options.convention) QS_TRY(qs_convention_parse(options.convention, &work.convention));
    if (listed) QS_TRY(names_each(options.recipes, recipe_add, &work));
    QS_GOTO(qs_profile_read(options.profile, &work.profile));
    if (options.ground_truth) {
        QS_GOTO(ground_truth_run(&options.truth, &options.table, &work.profile, work.recipes, work.recipe, options.json));
        goto done;
    }
    QS_GOTO(table_make(&work, options.name, options.global_batch, (uint64_t)options.truth.job.seed));
    if (options.json)
        QS_GOTO(table_json(&work));
    else
        table_print(&work);
done:
    free(work.omega);
    free(work.stability);
    free(work.trace);
    qs_graph_release(work.graph);
    qs_profile_release(&work.profile);
    return status;
}
