// SPDX-License-Identifier: Apache-2.0
/* Monte-Carlo ground truth (docs/method.md §3.8): one operator alone in a recipe, many seeds, and what that does to the whole gradient.
 * Sums run along with the seeds (Welford), so that one mean error is all that is kept beside the fp32 gradient of each batch. */
#include "noise/probe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { EQUAL_SEEDS = 2 }; /* of recipes that draw nothing: the second run shows it */

typedef struct measurement {
    const qs_truth_options *options;
    qs__probe probe;
    qs_recipe *recipe;
    int recipes, adjustable;
    int64_t elements;
    float *reference; /* (batches × elements) fp32 gradients, with the loss scale */
    double *mean;     /* (elements) of g - g_fp32 over seeds */
    qs_truth *out;
} measurement;

/* ---- One operator in one recipe ------------------------------------------------------------------------------------------------------ */

typedef struct sums {
    int seeds;
    double deviation2;              /* Σ over elements of the sum of squared deviations from the mean error */
    double error2_sum, error2_sum2; /* of ‖g - g_fp32‖² over seeds */
    double half_sum[2];             /* of those in the first half of all seeds, and in the second */
} sums;

static void gradient_add(const measurement *one, const float *gradient, const float *reference, int half, sums *into) {
    const double unscale = 1 / one->probe.job.loss_scale, share = 1.0 / ++into->seeds;
    double deviation2 = 0, error2 = 0;
    for (int64_t i = 0; i < one->elements; i++) {
        const double error = ((double)gradient[i] - (double)reference[i]) * unscale, before = error - one->mean[i];
        one->mean[i] += before * share;
        deviation2 += before * (error - one->mean[i]);
        error2 += error * error;
    }
    into->deviation2 += deviation2;
    into->error2_sum += error2;
    into->error2_sum2 += error2 * error2;
    into->half_sum[half] += error2;
}

static double mean_error2(const measurement *one) {
    double sum = 0;
    for (int64_t i = 0; i < one->elements; i++)
        sum += one->mean[i] * one->mean[i];
    return sum;
}

static void row_fill(const measurement *one, const sums *from, qs_truth_row *out) {
    const int seeds = from->seeds;
    out->seeds = seeds;
    out->error2 = from->error2_sum / seeds;
    out->variance = from->deviation2 / (seeds - 1);
    out->bias2_raw = mean_error2(one) - out->variance / seeds;
    out->bias2 = fmax(out->bias2_raw, 0);
    out->standard_error = sqrt(fmax(from->error2_sum2 / seeds - out->error2 * out->error2, 0) / (seeds - 1));
    for (int half = 0; half < 2; half++)
        out->half[half] = isfinite(out->error2) ? from->half_sum[half] / (half == 0 ? seeds / 2 : seeds - seeds / 2) : INFINITY;
    if (!isfinite(out->error2)) out->error2 = out->variance = out->bias2 = out->bias2_raw = out->standard_error = INFINITY;
}

static bool draws(const qs_recipe *recipe) {
    const qs_quantizer *all[] = {
        &recipe->forward.src,         &recipe->forward.weights,         &recipe->input_gradient.diff_dst, &recipe->input_gradient.weights,
        &recipe->weight_gradient.src, &recipe->weight_gradient.diff_dst};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->rounding == QS_STOCHASTIC) return true;
    return false;
}

/* A loss or gradient that leaves the format's range is an answer, not a failure. */
static qs_status seeds_run(measurement *one, const qs_recipe *recipe, qs_truth_row *row) {
    sums all = {0};
    const int batches = one->options->batches;
    const int seeds = draws(recipe) ? one->options->seeds : batches > 1 ? batches : EQUAL_SEEDS;
    memset(one->mean, 0, (size_t)one->elements * sizeof *one->mean);
    for (int s = 0; s < seeds; s++) {
        const float *gradient;
        const int batch = s * batches / seeds;
        const qs_status status =
            qs__probe_gradient(&one->probe, qs_random_key(one->probe.job.seed, (uint64_t)s, 0, 1), one->probe.at + batch, &gradient);
        if (status == QS_NUMERIC) {
            all = (sums){.seeds = seeds, .error2_sum = INFINITY};
            break;
        }
        QS_TRY(status);
        gradient_add(one, gradient, one->reference + batch * one->elements, s >= seeds / 2, &all);
    }
    row_fill(one, &all, row);
    return QS_OK;
}

static qs_status row_measure(measurement *one, int node, const qs_recipe *recipe) {
    const qs_graph *graph = one->probe.graph;
    qs_truth_row *row = &one->out->row[one->out->rows];
    snprintf(row->name, sizeof row->name, "%s", graph->node[node].name);
    snprintf(row->recipe, sizeof row->recipe, "%s", recipe->name);
    row->node = node;
    one->probe.recipe[node] = recipe;
    qs_status status = qs__probe_program(&one->probe);
    if (status == QS_OK) status = seeds_run(one, recipe, row);
    one->probe.recipe[node] = &one->probe.fp32;
    if (status == QS_OK) one->out->rows++;
    return qs_fail_within(status, "operator %s alone in %s", row->name, row->recipe);
}

/* ---- All of them ----------------------------------------------------------------------------------------------------- */

static void progress_tell(const measurement *one, double fraction, const char *what) {
    if (one->options->progress) one->options->progress(one->options->progress_context, what, fraction);
}

static qs_status rows_measure(measurement *one) {
    const qs_graph *graph = one->probe.graph;
    const int all = one->adjustable * one->recipes;
    for (int n = graph->samples.inputs; n < graph->nodes; n++) {
        if (graph->node[n].op->kind != QS_ADJUSTABLE) continue;
        for (int r = 0; r < one->recipes; r++) {
            progress_tell(one, (double)one->out->rows / all, graph->node[n].name);
            QS_TRY(row_measure(one, n, &one->recipe[r]));
        }
    }
    progress_tell(one, 1, "done");
    return QS_OK;
}

static qs_status references_take(measurement *one) {
    const int batches = one->options->batches;
    QS_TRY(qs__probe_program(&one->probe));
    for (int b = 0; b < batches; b++) {
        const float *gradient;
        double norm2 = 0;
        QS_TRY(qs__probe_gradient(&one->probe, one->probe.job.seed, one->probe.at + b, &gradient));
        memcpy(one->reference + b * one->elements, gradient, (size_t)one->elements * sizeof *gradient);
        for (int64_t i = 0; i < one->elements; i++)
            norm2 += (double)gradient[i] * (double)gradient[i];
        one->out->gradient_norm2 += norm2 / (one->probe.job.loss_scale * one->probe.job.loss_scale) / batches;
    }
    if (isfinite(one->out->gradient_norm2)) return QS_OK;
    return qs_fail(QS_NUMERIC, "the fp32 gradient is not finite: lower the learning rate (%g)", one->probe.job.rate.base);
}

static void rounding_set(qs_quantizer *quantizer) {
    if (quantizer->format->kind == QS_KIND_FLOAT && quantizer->format->bits < 32) quantizer->rounding = QS_STOCHASTIC;
}

void qs_recipe_floats_stochastic(qs_recipe *recipe) {
    rounding_set(&recipe->forward.src);
    rounding_set(&recipe->forward.weights);
    rounding_set(&recipe->input_gradient.diff_dst);
    rounding_set(&recipe->input_gradient.weights);
    rounding_set(&recipe->weight_gradient.src);
    rounding_set(&recipe->weight_gradient.diff_dst);
}

/* Those asked for, or the class's below fp32, which comes first. */
static qs_status recipes_take(measurement *one) {
    const qs_truth_options *options = one->options;
    qs_recipe own[QS_MAX_FORMATS];
    int count = 0;
    if (options->recipes == 0) QS_TRY(qs_class_recipes(options->class_, QS_MAX_FORMATS, own, &count));
    const qs_recipe *from = options->recipes > 0 ? options->recipe : own + 1;
    one->recipes = options->recipes > 0 ? options->recipes : count - 1;
    if (one->recipes < 1) return qs_fail(QS_USAGE, "class %s computes in fp32 only: there is nothing to measure", options->class_->name);
    QS_TRY(qs_allocate((size_t)one->recipes, sizeof *one->recipe, &one->recipe));
    memcpy(one->recipe, from, (size_t)one->recipes * sizeof *from);
    for (int r = 0; options->stochastic_floats && r < one->recipes; r++)
        qs_recipe_floats_stochastic(&one->recipe[r]);
    return QS_OK;
}

static qs_status measure(measurement *one, qs_device *device) {
    const qs_truth_options *options = one->options;
    if (options->seeds < 2) return qs_fail(QS_USAGE, "seeds %d: a variance needs at least 2", options->seeds);
    if (options->batches < 1 || options->batches > options->seeds)
        return qs_fail(QS_USAGE, "batches %d: from 1 to the number of seeds (%d), which are dealt to them", options->batches,
                       options->seeds);
    QS_TRY(recipes_take(one));
    progress_tell(one, 0, "warm-up");
    QS_TRY(qs__probe_start(options->job, NULL, qs_class_half(options->class_), options->data_folder, options->warm_up, NULL, device,
                           &one->probe));
    const qs_graph *graph = one->probe.graph;
    for (int n = graph->samples.inputs; n < graph->nodes; n++)
        one->adjustable += graph->node[n].op->kind == QS_ADJUSTABLE;
    one->elements = graph->trained_elements;
    one->out->batch = one->probe.batch;
    one->out->batches = options->batches;
    one->out->warm_up = options->warm_up;
    QS_TRY(qs_allocate((size_t)(one->elements * options->batches), sizeof *one->reference, &one->reference));
    QS_TRY(qs_allocate((size_t)one->elements, sizeof *one->mean, &one->mean));
    QS_TRY(qs_allocate((size_t)(one->adjustable * one->recipes), sizeof *one->out->row, &one->out->row));
    QS_TRY(references_take(one));
    return rows_measure(one);
}

void qs_truth_options_default(qs_truth_options *out) {
    *out = (qs_truth_options){.warm_up = 20, .seeds = 16, .batches = 1};
}

qs_status qs_truth_measure(const qs_truth_options *options, qs_device *device, qs_truth *out) {
    qs_truth result = {0};
    measurement one = {.options = options, .out = &result};
    const qs_status status = measure(&one, device);
    qs__probe_release(&one.probe);
    free(one.recipe);
    free(one.reference);
    free(one.mean);
    if (status == QS_OK)
        *out = result;
    else
        qs_truth_release(&result);
    return status;
}

void qs_truth_release(qs_truth *truth) {
    free(truth->row);
    *truth = (qs_truth){0};
}
