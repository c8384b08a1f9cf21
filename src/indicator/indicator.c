// SPDX-License-Identifier: Apache-2.0
/* Indicators by name, the trace over iterations, and rank correlation. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "indicator_internal.h"

typedef struct entry {
    const char *name;
    qs_indicator evaluate;
} entry;
static const entry entries[] = {
#define QS_INDICATOR(name) {#name, qs__indicator_##name},
#include "indicators.def"
#undef QS_INDICATOR
};
#define ENTRIES (sizeof entries / sizeof *entries)

const char *qs_indicator_name_at(size_t index) {
    return index < ENTRIES ? entries[index].name : NULL;
}

const char *qs_indicator_default(const qs_profile *profile) {
    return profile->statistics.noise.rows > 0 ? "measured" : "qsync";
}

static qs_status evaluate(const char *name, const qs_question *question, double *omega) {
    memset(omega, 0, (size_t)question->graph->nodes * (size_t)question->recipes * sizeof *omega);
    for (size_t i = 0; i < ENTRIES; i++)
        if (strcmp(entries[i].name, name) == 0) return entries[i].evaluate(question, omega);
    return qs_fail(QS_USAGE, "unknown indicator %s: there are %s", name, qs_names_join(ENTRIES, qs_indicator_name_at));
}

qs_status qs_indicator_evaluate(const char *name, qs_convention convention, const qs_graph *graph, const qs_profile *profile, int64_t batch,
                                int64_t global_batch, int recipes, const qs_recipe *recipe, uint64_t seed, double *omega) {
    const qs_question question = {convention, graph, profile, batch, global_batch, recipes, recipe, seed, false};
    return evaluate(name, &question, omega);
}

qs_status qs_indicator_evaluate_each(const char *name, qs_convention convention, const qs_graph *graph, const qs_profile *profile,
                                     int64_t batch, int64_t global_batch, int recipes, const qs_recipe *recipe, uint64_t seed,
                                     double *omega) {
    const qs_question question = {convention, graph, profile, batch, global_batch, recipes, recipe, seed, true};
    return evaluate(name, &question, omega);
}

qs_status qs_indicator_trace(qs_convention convention, const qs_graph *graph, const qs_profile *profile, int64_t batch,
                             int64_t global_batch, const qs_recipe *recipe, double *trace) {
    const qs_question question = {convention, graph, profile, batch, global_batch, 1, recipe, 0, false};
    int *depth = NULL;
    qs_status status = QS_OK;
    QS_TRY(qs_allocate((size_t)graph->nodes, sizeof *depth, &depth));
    qs_graph_depths(graph, depth);
    memset(trace, 0, (size_t)profile->statistics.iterations * (size_t)graph->nodes * sizeof *trace);
    for (int i = 0; i < profile->statistics.iterations; i++)
        for (int n = graph->samples.inputs; n < graph->nodes; n++) {
            qs_sensitivity one;
            if (graph->node[n].op->kind != QS_ADJUSTABLE) continue;
            QS_GOTO(qs__sensitivity(&question, n, i, depth, &one));
            QS_GOTO(qs_omega(&one, recipe, convention, &trace[i * graph->nodes + n]));
        }
done:
    free(depth);
    return status;
}

/* Rank of values[i], ties sharing the average of their ranks. */
static double rank_of(int count, const double *values, int i) {
    double below = 0, equal = 0;
    for (int j = 0; j < count; j++) {
        if (values[j] < values[i]) below++;
        if (values[j] == values[i]) equal++;
    }
    return below + (equal - 1) / 2;
}

double qs_spearman(int count, const double *a, const double *b) {
    const double mean = (count - 1) / 2.0;
    double ab = 0, aa = 0, bb = 0;
    for (int i = 0; i < count; i++) {
        const double x = rank_of(count, a, i) - mean, y = rank_of(count, b, i) - mean;
        ab += x * y;
        aa += x * x;
        bb += y * y;
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
}
