// SPDX-License-Identifier: Apache-2.0
/* Indicator `measured` (docs/method.md §3.10): the formula of `qsync`, corrected by what paired runs measured. Measurements correct the
 * formula rather than stand for it, so that they hold at other batches, and say something of operators and recipes without one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "indicator_internal.h"

/* The formula is wrong by a factor of about e at an operator where nobody has looked; that counts as much as so many measured operators. */
static const double usual_variance = 1, usual_weight = 2, least_variance = 1e-4;

/* ---- Shrinkage ----------------------------------------------------------------------------------------------------------------------- */

static bool says(double value) {
    return value > 0 && isfinite(value);
}

static bool compares(const qs_noise_candidate *one) {
    return one->runs > 0 && says(one->error2) && says(one->formula);
}

/* ln of measured over formula, and the variance of that. */
static double correction_of(const qs_noise_candidate *one, double *variance) {
    const double relative = one->standard_error / one->error2;
    *variance = relative * relative;
    return log(one->error2 / one->formula);
}

/* What the formula is wrong by over the candidates of one recipe (-1: of all). */
typedef struct prior {
    double mean, variance; /* of ln(noise / formula) */
    int candidates;        /* behind it */
} prior;

/* Expectation and maximisation in turn: what each candidate's own correction is likely to be, then mean and variance of those. */
static prior prior_find(int count, const qs_noise_candidate *candidate, int recipe) {
    prior out = {.variance = usual_variance};
    for (int round = 0; round < 50; round++) {
        double weight = 0, sum = 0, beyond2 = usual_weight * usual_variance;
        out.candidates = 0;
        for (int pass = 0; pass < 2; pass++) {
            for (int i = 0; i < count; i++) {
                double variance;
                if ((recipe >= 0 && candidate[i].recipe != recipe) || !compares(&candidate[i])) continue;
                const double measured = correction_of(&candidate[i], &variance), share = out.variance / (out.variance + variance);
                if (pass == 0) {
                    weight += share;
                    sum += share * measured;
                    out.candidates++;
                } else {
                    beyond2 += share * share * (measured - out.mean) * (measured - out.mean) + share * variance;
                }
            }
            if (out.candidates == 0) return out;
            out.mean = sum / weight;
        }
        out.variance = fmax(beyond2 / (usual_weight + out.candidates), least_variance);
    }
    return out;
}

static void shrink(qs_noise_candidate *one, const prior *before) {
    double variance = 0;
    one->correction = before->mean;
    one->variance = before->variance;
    if (!compares(one)) return;
    const double measured = correction_of(one, &variance), share = before->variance / (before->variance + variance);
    one->correction = before->mean + share * (measured - before->mean);
    one->variance = share * variance;
}

void qs_noise_shrink(int count, qs_noise_candidate *candidate) {
    const prior all = prior_find(count, candidate, -1);
    int recipes = 0;
    for (int i = 0; i < count; i++)
        if (candidate[i].recipe >= recipes) recipes = candidate[i].recipe + 1;
    for (int r = 0; r < recipes; r++) {
        const prior own = prior_find(count, candidate, r);
        for (int i = 0; i < count; i++)
            if (candidate[i].recipe == r) shrink(&candidate[i], own.candidates > 0 ? &own : &all);
    }
}

double qs_noise_confusion(int count, const qs_noise_candidate *candidate, double *worth) {
    double sum = 0, pairs = 0;
    memset(worth, 0, (size_t)count * sizeof *worth);
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++) {
            const qs_noise_candidate *a = &candidate[i], *b = &candidate[j];
            const double both = a->variance + b->variance;
            if (!says(a->formula) || !says(b->formula)) continue;
            const double apart = fabs(log(a->formula / b->formula) + a->correction - b->correction);
            const double exchanged = both > 0 ? erfc(apart / sqrt(2 * both)) / 2 : 0;
            pairs++;
            sum += exchanged;
            if (both > 0) worth[i] += exchanged * a->variance / both;
            if (both > 0) worth[j] += exchanged * b->variance / both;
        }
    return pairs > 0 ? sum / pairs : 0;
}

/* ---- The indicator ----------------------------------------------------------------------------------------------------------------- */

typedef struct corrections {
    const qs_noise *noise;
    int adjustable, recipes;              /* of the measured ones */
    qs_recipe recipe[QS_MAX_FORMATS * 2]; /* of their names */
    double *formula;                      /* (nodes × recipes) where they were measured */
    qs_noise_candidate *candidate;        /* (nodes × recipes) */
} corrections;

static int recipe_find(const corrections *of, const char *name) {
    int r = 0;
    while (r < of->recipes && strcmp(of->recipe[r].name, name) != 0)
        r++;
    return r;
}

static qs_status recipes_list(corrections *out) {
    const int room = (int)(sizeof out->recipe / sizeof *out->recipe);
    for (int i = 0; i < out->noise->rows; i++) {
        const char *name = out->noise->row[i].recipe;
        if (recipe_find(out, name) < out->recipes) continue;
        if (out->recipes == room) return qs_fail(QS_MISMATCH, "measured noise of more than %d recipes", room);
        QS_TRY(qs_recipe_builtin(name, &out->recipe[out->recipes++]));
    }
    return QS_OK;
}

static qs_status rows_take(const qs_graph *graph, corrections *out) {
    const int recipes = out->recipes;
    for (int i = 0; i < graph->nodes * recipes; i++)
        out->candidate[i] = (qs_noise_candidate){.recipe = i % recipes, .formula = out->formula[i]};
    for (int i = 0; i < out->noise->rows; i++) {
        const qs_noise_row *row = &out->noise->row[i];
        const int node = qs_graph_find(graph, row->name);
        if (node < 0) return qs_fail(QS_MISMATCH, "noise was measured of operator %s, which the model lacks", row->name);
        qs_noise_candidate *one = &out->candidate[node * recipes + recipe_find(out, row->recipe)];
        one->runs = row->runs;
        one->error2 = row->overflow ? INFINITY : row->error2;
        one->standard_error = row->standard_error;
    }
    qs_noise_shrink(graph->nodes * recipes, out->candidate);
    return QS_OK;
}

/* At the batch and, one process being the whole job, with the loss that runs had. */
static qs_status corrections_find(const qs_question *question, corrections *out) {
    const qs_graph *graph = question->graph;
    const size_t most = (size_t)graph->nodes * (sizeof out->recipe / sizeof *out->recipe);
    QS_TRY(recipes_list(out));
    QS_TRY(qs_allocate(most, sizeof *out->formula, &out->formula));
    QS_TRY(qs_allocate(most, sizeof *out->candidate, &out->candidate));
    qs_question there = *question;
    there.batch = there.global_batch = out->noise->batch;
    there.recipes = out->recipes;
    there.recipe = out->recipe;
    there.each = false;
    QS_TRY(qs__indicator_qsync(&there, out->formula));
    return rows_take(graph, out);
}

/* Of a recipe that nobody measured: the mean over those of the same operator that somebody did. */
static double correction_mean(const corrections *of, int node) {
    double sum = 0;
    for (int r = 0; r < of->recipes; r++)
        sum += of->candidate[node * of->recipes + r].correction / of->recipes;
    return sum;
}

static double corrected(const corrections *of, int node, const char *recipe, double formula) {
    const int r = recipe_find(of, recipe);
    if (r == of->recipes) return formula * exp(correction_mean(of, node));
    const qs_noise_candidate *one = &of->candidate[node * of->recipes + r];
    if (one->runs > 0 && (!isfinite(one->error2) || one->error2 == 0)) return one->error2; /* out of range; or no noise at all */
    return formula * exp(one->correction);
}

qs_status qs__indicator_measured(const qs_question *question, double *omega) {
    const qs_graph *graph = question->graph;
    corrections found = {.noise = &question->profile->statistics.noise};
    qs_status status = QS_OK;
    QS_TRY(qs__statistics_check(question));
    if (found.noise->rows == 0)
        return qs_fail(QS_MISMATCH,
                       "the profile holds no measured noise: profile again with --noise-runs, or put it in by qsync profile --noise-only");
    QS_GOTO(corrections_find(question, &found));
    QS_GOTO(qs__indicator_qsync(question, omega));
    for (int n = graph->samples.inputs; n < graph->nodes; n++) {
        if (graph->node[n].op->kind != QS_ADJUSTABLE) continue;
        for (int r = 0; r < question->recipes; r++)
            omega[n * question->recipes + r] = corrected(&found, n, qs__recipe_of(question, n, r)->name, omega[n * question->recipes + r]);
    }
done:
    free(found.formula);
    free(found.candidate);
    return status;
}
