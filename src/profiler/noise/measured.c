// SPDX-License-Identifier: Apache-2.0
/* The noise behind indicator `measured` (docs/method.md §3.10): one operator alone in one recipe, in few runs, each compared with the fp32
 * gradient of the same samples. A run goes where the order of two candidates is least certain. Run k of every candidate has the same
 * samples: what is particular about them shows at all candidates alike and is told apart from the candidates' own noise. */
#include "noise/measured.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "noise/probe.h"
#include "qsync/indicator.h"

enum { MOST_RUNS = 16, LEAST_RUNS = 2, DRAWS = 3, GROUPS = 4 };
/* Runs of one candidate are taken to spread by a fifth until there are some; that counts as much as so many of them. */
static const double usual_spread2 = 0.04, usual_weight = 4;
/* Less than that part of all pairs in the wrong order is order enough. */
static const double confusion_allowed = 0.002;
static const double most_reference_bytes = 512.0 * (1 << 20);

typedef struct candidate {
    int node, recipe; /* of the setting */
    int runs;
    double error2[MOST_RUNS]; /* ‖g - g_fp32‖² of each run */
} candidate;

/* Several operators in one recipe together. */
typedef struct group {
    int operators;      /* 0: not measured */
    double error2, sum; /* of run 0; what its operators' noise alone comes to with its samples */
} group;

typedef struct measurement {
    const qs__setting *setting;
    qs__probe probe;
    int64_t elements, last_batch; /* batches are taken from the end of the training's order, which no warm-up reaches */
    int runs, most_runs;          /* of all candidates and the references; of one candidate */
    int references;
    float *reference;       /* (most_runs × elements) fp32 gradients, with the loss scale */
    double norm2;           /* Σ over references of their squared norms, without it */
    double pace[MOST_RUNS]; /* how large errors are with these samples, against the mean over samples */
    int candidates;
    candidate *candidate;
    qs_noise_candidate *belief; /* (candidates) */
    double *worth;              /* (candidates) */
    int *order;                 /* (candidates) most worth first */
    group group[QS__MOST_RECIPES][GROUPS];
} measurement;

/* ---- Runs ---------------------------------------------------------------------------------------------------------------------------- */

static qs_status gradient_take(measurement *one, int run, const float **out) {
    one->runs++;
    return qs__probe_gradient(&one->probe, qs_random_key(one->probe.job.seed, (uint64_t)run, 0, DRAWS), one->last_batch - run, out);
}

static qs_status references_take(measurement *one, int wanted) {
    if (one->references >= wanted) return QS_OK;
    QS_TRY(qs__probe_program(&one->probe));
    for (; one->references < wanted; one->references++) {
        const float *gradient;
        double norm2 = 0;
        QS_TRY(gradient_take(one, one->references, &gradient));
        memcpy(one->reference + one->references * one->elements, gradient, (size_t)one->elements * sizeof *gradient);
        for (int64_t i = 0; i < one->elements; i++)
            norm2 += (double)gradient[i] * (double)gradient[i];
        one->norm2 += norm2 / (one->probe.job.loss_scale * one->probe.job.loss_scale);
    }
    if (isfinite(one->norm2)) return QS_OK;
    return qs_fail(QS_NUMERIC, "the fp32 gradient is not finite: lower the learning rate (%g)", one->probe.job.rate.base);
}

/* error2 of a run of the program at hand. A loss or gradient out of a format's range is an answer: infinite. */
static qs_status run_take(measurement *one, int run, double *out) {
    const float *gradient, *reference = one->reference + run * one->elements;
    double error2 = 0;
    const qs_status status = gradient_take(one, run, &gradient);
    if (status != QS_OK && status != QS_NUMERIC) return status;
    for (int64_t i = 0; status == QS_OK && i < one->elements; i++) {
        const double error = (double)gradient[i] - (double)reference[i];
        error2 += error * error;
    }
    error2 /= one->probe.job.loss_scale * one->probe.job.loss_scale;
    *out = status == QS_OK && isfinite(error2) ? error2 : INFINITY;
    return QS_OK;
}

static qs_status candidate_run(measurement *one, candidate *of) {
    one->probe.recipe[of->node] = &one->setting->recipe[of->recipe];
    qs_status status = qs__probe_program(&one->probe);
    if (status == QS_OK) status = run_take(one, of->runs, &of->error2[of->runs]);
    if (status == QS_OK) of->runs++;
    one->probe.recipe[of->node] = &one->probe.fp32;
    return qs_fail_within(status, "operator %s alone in %s", one->probe.graph->node[of->node].name, one->setting->recipe[of->recipe].name);
}

/* ---- What they say ----------------------------------------------------------------------------------------------------------------- */

static bool has_run(const candidate *of, int run) {
    return run < of->runs && of->error2[run] > 0 && isfinite(of->error2[run]);
}

/* Noise of a candidate, paces given: error2 is pace times noise in the mean. */
static double noise_of(const measurement *one, const candidate *of) {
    double errors = 0, paces = 0;
    for (int k = 0; k < of->runs; k++) {
        errors += of->error2[k];
        paces += one->pace[k];
    }
    return errors / paces;
}

/* Paces from the noise of all candidates and back, until both agree; their mean is 1. */
static void paces_find(measurement *one) {
    for (int k = 0; k < MOST_RUNS; k++)
        one->pace[k] = 1;
    for (int round = 0; round < 20; round++) {
        double pace[MOST_RUNS], mean = 0;
        for (int k = 0; k < one->references; k++) {
            double sum = 1, of = 1; /* as if one candidate had said that these samples are as all others */
            for (int i = 0; i < one->candidates; i++) {
                if (!has_run(&one->candidate[i], k)) continue;
                sum += one->candidate[i].error2[k] / noise_of(one, &one->candidate[i]);
                of++;
            }
            pace[k] = sum / of;
            mean += pace[k] / one->references;
        }
        for (int k = 0; k < one->references; k++)
            one->pace[k] = pace[k] / mean;
    }
}

/* Σ over a candidate's runs of (error2 / expected - 1)². */
static double spread2_of(const measurement *one, const candidate *of) {
    const double noise = noise_of(one, of);
    double sum = 0;
    for (int k = 0; k < of->runs && noise > 0 && isfinite(noise); k++) {
        const double beyond = of->error2[k] / (noise * one->pace[k]) - 1;
        sum += beyond * beyond;
    }
    return sum;
}

/* Few runs say little of how far they spread: a candidate's own spread is averaged with that of all in its recipe, and that with a usual
 * one. */
static void beliefs_form(measurement *one) {
    double spread2[QS__MOST_RECIPES], weight[QS__MOST_RECIPES];
    paces_find(one);
    for (int r = 0; r < QS__MOST_RECIPES; r++) {
        spread2[r] = usual_weight * usual_spread2;
        weight[r] = usual_weight;
    }
    for (int i = 0; i < one->candidates; i++) {
        const candidate *of = &one->candidate[i];
        if (of->runs < 2) continue;
        spread2[of->recipe] += spread2_of(one, of);
        weight[of->recipe] += of->runs - 1;
    }
    for (int i = 0; i < one->candidates; i++) {
        const candidate *of = &one->candidate[i];
        qs_noise_candidate *belief = &one->belief[i];
        belief->runs = of->runs;
        if (of->runs == 0) continue;
        const double usual = spread2[of->recipe] / weight[of->recipe];
        const double own = (usual_weight * usual + spread2_of(one, of)) / (usual_weight + of->runs - 1);
        belief->error2 = noise_of(one, of);
        belief->standard_error = isfinite(belief->error2) ? belief->error2 * sqrt(own / of->runs) : 0;
    }
    qs_noise_shrink(one->candidates, one->belief);
}

/* ---- Spending ---------------------------------------------------------------------------------------------------------------------- */

/* Whatever the formula thinks, nobody is left out: one without runs is worth more than any other. */
static bool unmeasured_lift(measurement *one) {
    bool any = false;
    for (int i = 0; i < one->candidates; i++) {
        if (one->candidate[i].runs > 0) continue;
        one->worth[i] += one->candidates;
        any = true;
    }
    return any;
}

/* The candidates that another run tells most about, a quarter of them at most; by worth, those in front first. */
static int worthiest_find(measurement *one) {
    const int most = one->candidates / 4 + 1;
    int found = 0;
    for (int i = 0; i < one->candidates; i++) {
        if (!(one->worth[i] > 0) || one->candidate[i].runs == one->most_runs) continue;
        int at = found < most ? found++ : most;
        if (at == most && one->worth[one->order[--at]] >= one->worth[i]) continue;
        for (; at > 0 && one->worth[one->order[at - 1]] < one->worth[i]; at--)
            one->order[at] = one->order[at - 1];
        one->order[at] = i;
    }
    return found;
}

static qs_status runs_spend(measurement *one, int budget) {
    QS_TRY(references_take(one, LEAST_RUNS));
    while (one->runs < budget) {
        beliefs_form(one);
        const double confusion = qs_noise_confusion(one->candidates, one->belief, one->worth);
        const bool missing = unmeasured_lift(one);
        const int found = worthiest_find(one);
        if ((confusion < confusion_allowed && !missing) || found == 0) break;
        qs__progress(one->setting, 0.97 + 0.02 * one->runs / budget, "gradient noise");
        for (int i = 0; i < found && one->runs < budget; i++) {
            candidate *of = &one->candidate[one->order[i]];
            if (of->runs == one->references) QS_TRY(references_take(one, of->runs + 1));
            if (one->runs < budget) QS_TRY(candidate_run(one, of));
        }
    }
    beliefs_form(one);
    return QS_OK;
}

/* ---- Together ------------------------------------------------------------------------------------------------------------------------ */

/* Rows of a Hadamard matrix: all operators, and halves of them each of which meets each other half in a quarter. */
static bool is_member(int row, int operator_) {
    int odd = 0;
    for (int both = row & operator_; both > 0; both &= both - 1)
        odd ^= 1;
    return odd == 0;
}

/* In run 0 every operator has the draws that it had alone. Only groups all of whose operators have noise within range say something. */
static qs_status group_run(measurement *one, int recipe, int index) {
    group *out = &one->group[recipe][index];
    qs_status status = QS_OK;
    int operator_ = 0, members = 0;
    double sum = 0;
    for (int i = 0; i < one->candidates; i++) {
        const candidate *of = &one->candidate[i];
        if (of->recipe != recipe || !is_member(index, operator_++)) continue;
        sum += one->belief[i].formula * exp(one->belief[i].correction) * one->pace[0];
        if (of->runs > 0 && !isfinite(one->belief[i].error2)) sum = INFINITY;
        one->probe.recipe[of->node] = &one->setting->recipe[recipe];
        members++;
    }
    if (members > 1 && isfinite(sum)) {
        status = qs__probe_program(&one->probe);
        if (status == QS_OK) status = run_take(one, 0, &out->error2);
        if (status == QS_OK && isfinite(out->error2)) {
            out->operators = members;
            out->sum = sum;
        }
    }
    for (int i = 0; i < one->candidates; i++)
        one->probe.recipe[one->candidate[i].node] = &one->probe.fp32;
    return qs_fail_within(status, "%d operators together in %s", members, one->setting->recipe[recipe].name);
}

static qs_status groups_run(measurement *one) {
    for (int r = 0; r < QS__MOST_RECIPES; r++)
        for (int g = 0; g < GROUPS; g++)
            QS_TRY(group_run(one, r, g));
    return QS_OK;
}

/* How many runs they take: none where that would leave operators unmeasured. */
static int group_runs(const measurement *one, int budget) {
    bool there[QS__MOST_RECIPES] = {0};
    int runs = 0;
    for (int i = 0; i < one->candidates; i++) {
        if (!there[one->candidate[i].recipe]) runs += GROUPS;
        there[one->candidate[i].recipe] = true;
    }
    return budget >= LEAST_RUNS + one->candidates + runs ? runs : 0;
}

/* ---- Candidates -------------------------------------------------------------------------------------------------------------------- */

/* Whether the recipe is this rank's to measure: that of a class before this one is measured there. */
static qs_status is_own(const qs__setting *setting, const qs_recipe *recipe, bool *out) {
    const qs_cluster *cluster = setting->options->cluster;
    *out = strcmp(recipe->name, "fp32") != 0;
    for (int c = 0; &cluster->class_[c] != setting->class_ && *out; c++) {
        qs_recipe theirs[QS_MAX_FORMATS];
        int count;
        QS_TRY(qs_class_recipes(&cluster->class_[c], QS_MAX_FORMATS, theirs, &count));
        for (int r = 0; r < count; r++)
            *out = *out && strcmp(theirs[r].name, recipe->name) != 0;
    }
    return QS_OK;
}

/* Of the class's own recipes, which planners choose from; others were asked for by name and have no formula, maybe. */
static qs_status candidates_list(measurement *one, const double *formula, int recipes) {
    const qs_graph *graph = one->setting->graph;
    for (int r = 0; r < recipes; r++) {
        bool own;
        QS_TRY(is_own(one->setting, &one->setting->recipe[r], &own));
        for (int n = graph->samples.inputs; own && n < graph->nodes; n++) {
            const double value = formula[n * recipes + r];
            if (graph->node[n].op->kind != QS_ADJUSTABLE || !(value > 0) || !isfinite(value)) continue;
            one->candidate[one->candidates] = (candidate){.node = n, .recipe = r};
            one->belief[one->candidates++] = (qs_noise_candidate){.recipe = r, .formula = value};
        }
    }
    return QS_OK;
}

static qs_status formulas_take(measurement *one, const qs_statistics *statistics) {
    const qs_graph *graph = one->setting->graph;
    const qs_profile profile = {.statistics = *statistics};
    qs_recipe recipe[QS_MAX_FORMATS];
    const int64_t batch = qs__probe_batch(one->setting->job->batch);
    double *formula = NULL;
    int recipes;
    QS_TRY(qs_class_recipes(one->setting->class_, QS_MAX_FORMATS, recipe, &recipes));
    const size_t most = (size_t)graph->nodes * (size_t)recipes;
    QS_TRY(qs_allocate(most, sizeof *one->candidate, &one->candidate));
    QS_TRY(qs_allocate(most, sizeof *one->belief, &one->belief));
    QS_TRY(qs_allocate(most, sizeof *one->worth, &one->worth));
    QS_TRY(qs_allocate(most, sizeof *one->order, &one->order));
    QS_TRY(qs_allocate(most, sizeof *formula, &formula));
    qs_status status = qs_indicator_evaluate("qsync", QS_CONVENTION_DEFAULT, graph, &profile, batch, batch, recipes, recipe,
                                             one->setting->job->seed, formula);
    if (status == QS_OK) status = candidates_list(one, formula, recipes);
    free(formula);
    return status;
}

static qs_status own_measure(measurement *one, const qs_statistics *statistics, const qs__noise_order *order) {
    const qs__setting *setting = one->setting;
    QS_TRY(formulas_take(one, statistics));
    if (one->candidates == 0 || order->runs == 0) return QS_OK;
    QS_TRY(qs__probe_start(setting->job, setting->graph, qs_class_half(setting->class_), setting->options->data_folder, order->iterations,
                           order->weights, setting->device, &one->probe));
    one->elements = one->probe.graph->trained_elements;
    one->most_runs = (int)fmax(LEAST_RUNS, fmin(MOST_RUNS, most_reference_bytes / (double)(one->elements * (int64_t)sizeof(float))));
    one->last_batch = one->probe.training.count / one->probe.batch - 1;
    if (one->last_batch < one->most_runs) one->last_batch = one->most_runs;
    QS_TRY(qs_allocate((size_t)(one->most_runs * one->elements), sizeof *one->reference, &one->reference));
    const int budget = order->runs >= 0 ? order->runs : 3 * one->candidates, together = group_runs(one, budget);
    QS_TRY(runs_spend(one, budget - together));
    return together > 0 ? groups_run(one) : QS_OK;
}

/* ---- All ranks --------------------------------------------------------------------------------------------------------------------- */

enum {
    FIGURES = 4,       /* of a row: runs, error2, its standard error, overflow */
    GROUP_FIGURES = 3, /* of a group: operators, error2, sum */
    ALL_FIGURES = 3    /* of all: runs, references, Σ ‖g_fp32‖² */
};

/* Rows of every node in every recipe of every class, of which a rank has those that it measured; behind them groups, and what is of all. */
static qs_status figures_gather(const measurement *one, int classes, double *figures) {
    const size_t nodes = (size_t)one->setting->graph->nodes, rows = (size_t)classes * QS__MOST_RECIPES * nodes;
    const size_t at_class = (size_t)(one->setting->class_ - one->setting->options->cluster->class_) * QS__MOST_RECIPES;
    for (int i = 0; i < one->candidates; i++) {
        const candidate *of = &one->candidate[i];
        double *row = &figures[((at_class + (size_t)of->recipe) * nodes + (size_t)of->node) * FIGURES];
        const bool overflow = of->runs > 0 && !isfinite(one->belief[i].error2);
        row[0] = of->runs;
        row[1] = overflow ? 0 : one->belief[i].error2;
        row[2] = overflow ? 0 : one->belief[i].standard_error;
        row[3] = overflow;
    }
    double *groups = &figures[rows * FIGURES], *all = groups + (size_t)classes * QS__MOST_RECIPES * GROUPS * GROUP_FIGURES;
    for (int g = 0; g < QS__MOST_RECIPES * GROUPS; g++) {
        const group *of = &one->group[g / GROUPS][g % GROUPS];
        double *row = &groups[(at_class * GROUPS + (size_t)g) * GROUP_FIGURES];
        row[0] = of->operators;
        row[1] = of->operators > 0 ? of->error2 : 0;
        row[2] = of->sum;
    }
    all[0] = one->runs;
    all[1] = one->references;
    all[2] = one->norm2;
    return qs_comm_sum(one->setting->comm, figures, all + ALL_FIGURES - figures);
}

static qs_status rows_keep(const qs__setting *setting, const double *figures, qs_noise *out) {
    const qs_cluster *cluster = setting->options->cluster;
    const qs_graph *graph = setting->graph;
    const double *groups = &figures[cluster->classes * QS__MOST_RECIPES * graph->nodes * FIGURES];
    const double *all = groups + cluster->classes * QS__MOST_RECIPES * GROUPS * GROUP_FIGURES;
    for (int c = 0; c < cluster->classes; c++) {
        qs_recipe recipe[QS_MAX_FORMATS];
        int recipes;
        QS_TRY(qs_class_recipes(&cluster->class_[c], QS_MAX_FORMATS, recipe, &recipes));
        for (int i = 0; i < recipes * graph->nodes; i++) {
            const double *row = &figures[(c * QS__MOST_RECIPES * graph->nodes + i) * FIGURES];
            if (row[0] == 0) continue;
            qs_noise_row *to = &out->row[out->rows++];
            *to = (qs_noise_row){.runs = (int)row[0], .error2 = row[1], .standard_error = row[2], .overflow = row[3] > 0};
            snprintf(to->name, sizeof to->name, "%s", graph->node[i % graph->nodes].name);
            snprintf(to->recipe, sizeof to->recipe, "%s", recipe[i / graph->nodes].name);
        }
        for (int g = 0; g < recipes * GROUPS; g++) {
            const double *row = &groups[(c * QS__MOST_RECIPES * GROUPS + g) * GROUP_FIGURES];
            if (row[0] == 0) continue;
            qs_noise_group *to = &out->group[out->groups++];
            *to = (qs_noise_group){.operators = (int)row[0], .error2 = row[1], .sum = row[2]};
            snprintf(to->recipe, sizeof to->recipe, "%s", recipe[g / GROUPS].name);
        }
    }
    out->batch = qs__probe_batch(setting->job->batch);
    out->runs = (int)all[0];
    out->gradient_norm2 = all[2] / fmax(all[1], 1);
    return QS_OK;
}

static qs_status all_measure(measurement *one, const qs_statistics *statistics, const qs__noise_order *order, qs_noise *out) {
    const qs__setting *setting = one->setting;
    const qs_cluster *cluster = setting->options->cluster;
    const size_t recipes = (size_t)cluster->classes * QS__MOST_RECIPES, rows = recipes * (size_t)setting->graph->nodes;
    const size_t count = rows * FIGURES + recipes * GROUPS * GROUP_FIGURES + ALL_FIGURES;
    const bool first = setting->rank == 0 || setting->class_ != &cluster->class_[qs_cluster_class_of(cluster, setting->rank - 1)];
    double *figures = NULL;
    qs_status status = qs_allocate(count, sizeof *figures, &figures);
    if (status == QS_OK) status = qs_allocate(rows, sizeof *out->row, &out->row);
    if (status == QS_OK) status = qs_allocate(recipes * GROUPS, sizeof *out->group, &out->group);
    if (status == QS_OK && first) status = own_measure(one, statistics, order);
    status = qs_comm_agree(setting->comm, status);
    if (status == QS_OK) status = figures_gather(one, cluster->classes, figures);
    if (status == QS_OK) status = rows_keep(setting, figures, out);
    free(figures);
    return status;
}

qs_status qs__noise_measure(const qs__setting *setting, const qs_statistics *statistics, const qs__noise_order *order, qs_noise *out) {
    measurement one = {.setting = setting};
    const qs_status status = all_measure(&one, statistics, order, out);
    qs__probe_release(&one.probe);
    free(one.reference);
    free(one.candidate);
    free(one.belief);
    free(one.worth);
    free(one.order);
    return status;
}

/* ---- Into a profile that is there -------------------------------------------------------------------------------------------------- */

static qs_status weights_read(const qs__setting *setting, const char *file, float **out) {
    const qs_graph *graph = setting->graph;
    float *statistics = NULL;
    if (!file) return QS_OK;
    if (graph->frozen_elements > 0)
        return qs_fail(QS_USAGE, "noise is measured of the whole model: leave out what freezes %lld elements of it",
                       (long long)graph->frozen_elements);
    QS_TRY(qs_allocate((size_t)graph->trained_elements, sizeof **out, out));
    QS_TRY(qs_allocate((size_t)graph->statistics_elements, sizeof *statistics, &statistics));
    const qs_status status = qs_weights_read(file, graph, *out, statistics);
    free(statistics);
    return status;
}

static qs_status renew(qs__setting *setting, const char *weights_file, const qs_statistics *statistics, qs_noise *out) {
    const qs_profile_options *options = setting->options;
    float *weights = NULL;
    QS_TRY(qs_model_share(options->job, NULL, setting->comm, &setting->opened));
    qs_status status = qs__setting_open(setting);
    if (status == QS_OK) status = weights_read(setting, weights_file, &weights);
    status = qs_comm_agree(setting->comm, status);
    if (status == QS_OK) {
        const qs__noise_order order = {weights, options->statistics_iterations, options->noise_runs};
        out->iteration = options->statistics_iterations;
        status = qs__noise_measure(setting, statistics, &order, out);
    }
    free(weights);
    return status;
}

qs_status qs_profile_noise(const qs_profile_options *options, const char *weights_file, qs_device *device, qs_comm *comm,
                           qs_profile *profile) {
    qs__setting setting = {.options = options, .device = device, .comm = comm};
    qs_profile measured = {0};
    const qs_status status = renew(&setting, weights_file, &profile->statistics, &measured.statistics.noise);
    if (status == QS_OK) {
        const qs_noise before = profile->statistics.noise;
        profile->statistics.noise = measured.statistics.noise;
        measured.statistics.noise = before;
    }
    qs_profile_release(&measured);
    qs__setting_release(&setting);
    return status;
}
