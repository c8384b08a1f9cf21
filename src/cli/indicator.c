// SPDX-License-Identifier: Apache-2.0
/* qsync indicator: Ω of every operator and recipe, and how stable the ranking is over the profiled iterations. */
#include <math.h>
#include <stdlib.h>

#include "cli.h"

#define MOST_RECIPES 8

typedef struct table_work {
    qs_profile profile;
    qs_graph *graph;
    qs_recipe recipe[MOST_RECIPES];
    int recipes, adjustable;
    double *omega;     /* (nodes × recipes) */
    double *stability; /* (iterations) Spearman with the mean, lowest recipe */
} table_work;

static qs_status recipe_add(void *context, const char *name) {
    table_work *work = context;
    if (work->recipes == MOST_RECIPES) return qs_fail(QS_USAGE, "--recipes: at most %d names", MOST_RECIPES);
    return qs_recipe_builtin(name, &work->recipe[work->recipes++]);
}

static qs_status stability_compute(table_work *work, int64_t global_batch) {
    const int nodes = work->graph->nodes, iterations = work->profile.statistics.iterations;
    const qs_recipe *lowest = &work->recipe[work->recipes - 1];
    double *trace = NULL, *mean = NULL, *now = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)iterations, sizeof *work->stability, &work->stability));
    QS_GOTO(qs_allocate((size_t)iterations * (size_t)nodes, sizeof *trace, &trace));
    QS_GOTO(qs_allocate((size_t)nodes, sizeof *mean, &mean));
    QS_GOTO(qs_allocate((size_t)nodes, sizeof *now, &now));
    QS_GOTO(qs_indicator_trace(QS_CONVENTION_DEFAULT, work->graph, &work->profile, work->profile.batch, global_batch, lowest, trace));
    for (int i = 0; i < iterations; i++) {
        int count = 0;
        for (int n = 1; n < nodes; n++) {
            if (work->graph->node[n].op->kind != QS_ADJUSTABLE) continue;
            mean[count] = work->omega[n * work->recipes + work->recipes - 1];
            now[count++] = trace[i * nodes + n];
        }
        work->adjustable = count;
        work->stability[i] = qs_spearman(count, now, mean);
    }
done:
    free(trace);
    free(mean);
    free(now);
    return status;
}

static void table_print(const table_work *work) {
    printf("%-26s", "operator");
    for (int r = 0; r < work->recipes; r++)
        printf(" %14s", work->recipe[r].name);
    printf("\n");
    for (int n = 1; n < work->graph->nodes; n++) {
        if (work->graph->node[n].op->kind != QS_ADJUSTABLE) continue;
        printf("%-26s", work->graph->node[n].name);
        for (int r = 0; r < work->recipes; r++)
            printf(" %14.5g", work->omega[n * work->recipes + r]);
        printf("\n");
    }
    double sum = 0, lowest = 1;
    for (int i = 0; i < work->profile.statistics.iterations; i++) {
        sum += work->stability[i] / work->profile.statistics.iterations;
        lowest = fmin(lowest, work->stability[i]);
    }
    printf("\nrank stability over %d iterations (Spearman with the mean, %s): mean %.3f, lowest %.3f\n",
           work->profile.statistics.iterations, work->recipe[work->recipes - 1].name, sum, lowest);
}

static qs_status table_json(const table_work *work) {
    json_t *operators = json_object(), *stability = json_array();
    for (int n = 1; n < work->graph->nodes; n++) {
        if (work->graph->node[n].op->kind != QS_ADJUSTABLE) continue;
        json_t *row = json_object();
        for (int r = 0; r < work->recipes; r++) {
            const double value = work->omega[n * work->recipes + r];
            json_object_set_new(row, work->recipe[r].name, isfinite(value) ? json_real(value) : json_string("inf"));
        }
        json_object_set_new(operators, work->graph->node[n].name, row);
    }
    for (int i = 0; i < work->profile.statistics.iterations; i++)
        json_array_append_new(stability, json_number(work->stability[i]));
    return json_print(json_pack("{s:o,s:o}", "omega", operators, "rank_stability", stability));
}

qs_status verb_indicator(int argc, char **argv) {
    const verb_usage usage = {
        "indicator", "",
        "The gradient noise (omega) that each recipe adds at each operator, from the statistics in a profile; and how stable the\n"
        "ranking of operators was over the profiled iterations.",
        "  qsync indicator --profile profile.json --recipes fp32,bf16,int8/bf16\n"};
    const char *profile = NULL, *recipes = "fp32,bf16,int8/bf16", *name = "qsync";
    int64_t global_batch = 0, seed = 1;
    bool json = false, done = false;
    int first = 0;
    table_work work = {0};
    option_table table = {0};
    qs_status status = QS_OK;
    options_add(&table, (option_row){"profile", OPTION_TEXT, &profile, "FILE", "what qsync profile measured (required)", 0});
    options_add(&table, (option_row){"recipes", OPTION_TEXT, &recipes, "LIST", "comma-separated, highest first (fp32,bf16,int8/bf16)", 0});
    options_add(&table, (option_row){"indicator", OPTION_TEXT, &name, "NAME", "qsync or random (qsync)", 0});
    options_add(&table, (option_row){"global-batch", OPTION_INTEGER, &global_batch, "N",
                                     "samples of a step over all ranks (profiled batch × ranks)", 1});
    options_add(&table, (option_row){"seed", OPTION_INTEGER, &seed, "N", "of the random indicator (1)", 0});
    options_add(&table, (option_row){"json", OPTION_FLAG, &json, NULL, "print JSON", 0});
    QS_TRY(options_parse(&table, &usage, argc, argv, &first, &done));
    if (done) return QS_OK;
    QS_TRY(arguments_check(&usage, argc, argv, first, 0));
    if (!profile) return qs_fail(QS_USAGE, "indicator needs --profile; see qsync indicator --help");
    QS_TRY(names_each(recipes, recipe_add, &work));
    QS_GOTO(qs_profile_read(profile, &work.profile));
    if (global_batch == 0) global_batch = work.profile.batch * work.profile.statistics.ranks;
    const qs_model_input input = {work.profile.channels, work.profile.height, work.profile.width, work.profile.model_classes};
    QS_GOTO(qs_model_build(work.profile.model, &input, &work.graph));
    QS_GOTO(qs_allocate((size_t)work.graph->nodes * (size_t)work.recipes, sizeof *work.omega, &work.omega));
    QS_GOTO(qs_indicator_evaluate(name, QS_CONVENTION_DEFAULT, work.graph, &work.profile, work.profile.batch, global_batch, work.recipes,
                                  work.recipe, (uint64_t)seed, work.omega));
    QS_GOTO(stability_compute(&work, global_batch));
    if (json)
        QS_GOTO(table_json(&work));
    else
        table_print(&work);
done:
    free(work.omega);
    free(work.stability);
    qs_graph_release(work.graph);
    qs_profile_release(&work.profile);
    return status;
}
