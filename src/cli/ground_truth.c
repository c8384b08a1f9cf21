// SPDX-License-Identifier: Apache-2.0
/* qsync indicator --ground-truth: the noise of the gradient as it is, operator by operator, and how well every indicator ranks it. */
#include "ground_truth.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RECIPES = QS_MAX_FORMATS + 1, MOST_INDICATORS = 24 };

/* An indicator under one convention. */
typedef struct opinion {
    const char *indicator, *convention; /* convention "" where the indicator has none */
    double *omega;                      /* (rows) in the order of the truth's */
    double spearman[MOST_RECIPES];      /* per recipe of the truth, over operators */
    double pooled, steps;               /* over all rows; over what each operator gains by one recipe more */
} opinion;
/* The truth's own noise is the opinion of one half of its seeds about the other half. */

typedef struct comparison {
    const ground_truth_options *options;
    const qs_profile *profile;
    qs_cluster cluster;
    const qs_class *class_;
    qs_device *device;
    worker here;                    /* without a cluster file */
    qs_recipe recipe[MOST_RECIPES]; /* fp32, then those of the truth from the highest to the lowest */
    int recipes;
    qs_graph *graph;
    qs_truth truth;
    opinion opinion[MOST_INDICATORS], half;
    int opinions;
} comparison;

/* ---- Options --------------------------------------------------------------------------------------------------------- */

static const option_row option_rows[] = {
    {OPTION(ground_truth_options, class_name, "class", "NAME", "device class of --cluster to measure on"), .needs = "ground-truth"},
    {OPTION(ground_truth_options, seeds, "seeds", "N", "runs of every recipe that draws"), .standard = "16", .minimum = 2,
     .needs = "ground-truth"},
    {OPTION(ground_truth_options, batches, "batches", "N", "of samples, to which the runs are dealt"), .standard = "1", .minimum = 1,
     .needs = "ground-truth"},
    {OPTION(ground_truth_options, warm_up, "warm-up", "N", "fp32 training iterations before it"), .standard = "20",
     .needs = "ground-truth"},
    {OPTION(ground_truth_options, stochastic_floats, "stochastic-floats", NULL,
            "round to float formats stochastically too, not to nearest"),
     .needs = "ground-truth"},
    {OPTION(ground_truth_options, out, "out", "FILE", "keep measured noise and indicators as CSV"), .needs = "ground-truth"},
};

void ground_truth_options_add(ground_truth_options *o, option_table *table) {
    job_options_start(&o->job);
    job_options_add(&o->job, table, JOB_STEP | JOB_SET | JOB_FOLDER | JOB_PROFILED);
    worker_options_add(&o->where, "indicator", &o->job.job, table);
    OPTIONS_ADD(table, option_rows, o);
}

qs_status ground_truth_options_refuse(const option_table *table) {
    static const char *const of_runs[] = {"model", "dataset", "batch", "data", "cluster", "backend", "threads"};
    return options_refuse(table, (int)(sizeof of_runs / sizeof *of_runs), of_runs, "--ground-truth: the profile says it otherwise");
}

/* ---- Device and recipes ---------------------------------------------------------------------------------------------- */

static qs_status class_find(comparison *one) {
    const char *name = one->options->class_name;
    int index = 0;
    QS_TRY(qs_cluster_read(one->options->where.cluster, &one->cluster));
    if (!name && one->cluster.classes > 1)
        return qs_fail(QS_USAGE, "%s has %d classes: say which one with --class", one->options->where.cluster, one->cluster.classes);
    if (name) QS_TRY(qs_cluster_find(&one->cluster, name, &index));
    one->class_ = &one->cluster.class_[index];
    return QS_OK;
}

static qs_status device_open(comparison *one) {
    if (!one->options->where.cluster) {
        if (one->options->class_name) return qs_fail(QS_USAGE, "--class %s: it is a class of --cluster FILE", one->options->class_name);
        QS_TRY(worker_open(&one->options->where, QS_OK, &one->here));
        one->class_ = &one->here.cluster.class_[one->here.class_index];
        one->device = one->here.device;
        return QS_OK;
    }
    QS_TRY(class_find(one));
    QS_TRY(class_device_open(one->class_, false, 0, &one->device));
    return tuned_take(one->device);
}

/* fp32 stands first for the indicators and is not measured. */
static qs_status recipes_take(comparison *one, int recipes, const qs_recipe *recipe) {
    qs_recipe own[QS_MAX_FORMATS];
    if (recipes == 0) {
        QS_TRY(qs_class_recipes(one->class_, QS_MAX_FORMATS, own, &recipes));
        recipe = own;
    }
    QS_TRY(qs_recipe_builtin("fp32", &one->recipe[one->recipes++]));
    for (int r = 0; r < recipes; r++)
        if (strcmp(recipe[r].name, "fp32") != 0) one->recipe[one->recipes++] = recipe[r];
    for (int r = 1; one->options->stochastic_floats && r < one->recipes; r++)
        qs_recipe_floats_stochastic(&one->recipe[r]);
    if (one->recipes > 1) return QS_OK;
    return qs_fail(QS_USAGE, "--recipes: fp32 is what the others are measured against; name one below it");
}

/* ---- Truth and opinions ---------------------------------------------------------------------------------------------- */

static void progress(void *context, const char *what, double fraction) {
    (void)context;
    progress_show(fraction, "ground truth: %s", what);
}

static qs_status ground_truth_measure(comparison *one) {
    const qs_truth_options options = {.job = &one->options->job.job,
                                      .class_ = one->class_,
                                      .data_folder = one->options->job.data_folder,
                                      .warm_up = one->options->warm_up,
                                      .seeds = one->options->seeds,
                                      .batches = one->options->batches,
                                      .recipes = one->recipes - 1,
                                      .recipe = one->recipe + 1,
                                      .progress = progress};
    char signature[32];
    QS_TRY(job_model_open(&one->options->job.job, &one->graph));
    if (strcmp(qs_graph_signature(one->graph, signature), one->profile->graph) != 0)
        return qs_fail(QS_MISMATCH, "the profile is of %s as another data set shapes it: profile %s on %s", one->profile->model,
                       one->graph->name, one->options->job.job.dataset);
    const qs_status status = qs_truth_measure(&options, one->device, &one->truth);
    progress_end();
    return status;
}

/* What each operator's noise falls by, per recipe up: the last one is fp32 with none. */
static void steps_form(const comparison *one, const double *values, double *steps) {
    const int kept = one->recipes - 1;
    for (int i = 0; i < one->truth.rows; i++) {
        const double higher = i % kept == 0 ? 0 : values[i - 1];
        steps[i] = isfinite(values[i]) ? values[i] - higher : INFINITY;
    }
}

/* work[0]: the truth that it is compared with. */
static void correlate(const comparison *one, double *work[3], opinion *out) {
    const int kept = one->recipes - 1, rows = one->truth.rows, operators = rows / kept;
    double *truth = work[0], *a = work[1], *b = work[2];
    out->pooled = qs_spearman(rows, out->omega, truth);
    steps_form(one, out->omega, a);
    steps_form(one, truth, b);
    out->steps = qs_spearman(rows, a, b);
    for (int r = 0; r < kept; r++) {
        for (int i = 0; i < operators; i++) {
            a[i] = out->omega[i * kept + r];
            b[i] = truth[i * kept + r];
        }
        out->spearman[r] = qs_spearman(operators, a, b);
    }
}

static qs_status opinion_add(comparison *one, const char *indicator, const char *convention_name, double *all, double *work[3]) {
    qs_convention convention = QS_CONVENTION_DEFAULT;
    if (one->opinions == MOST_INDICATORS) return qs_fail(QS_FAILED, "more than %d indicators and conventions", MOST_INDICATORS);
    opinion *out = &one->opinion[one->opinions];
    if (*convention_name) QS_TRY(qs_convention_parse(convention_name, &convention));
    QS_TRY(qs_allocate((size_t)one->truth.rows, sizeof *out->omega, &out->omega));
    const qs_status status = qs_indicator_evaluate(indicator, convention, one->graph, one->profile, one->truth.batch, one->truth.batch,
                                                   one->recipes, one->recipe, one->options->job.job.seed, all);
    if (status == QS_MISMATCH) {
        qs_log(QS_LOG_WARNING, "indicator %s is left out: %s", indicator, qs_message());
        free(out->omega);
        out->omega = NULL;
        return QS_OK;
    }
    for (int i = 0; i < one->truth.rows; i++)
        out->omega[i] = all[one->truth.row[i].node * one->recipes + 1 + i % (one->recipes - 1)];
    out->indicator = indicator;
    out->convention = convention_name;
    for (int i = 0; i < one->truth.rows; i++)
        work[0][i] = one->truth.row[i].error2;
    correlate(one, work, out);
    one->opinions++;
    return status;
}

static qs_status halves_compare(comparison *one, double *work[3]) {
    QS_TRY(qs_allocate((size_t)one->truth.rows, sizeof *one->half.omega, &one->half.omega));
    for (int i = 0; i < one->truth.rows; i++) {
        one->half.omega[i] = one->truth.row[i].half[0];
        work[0][i] = one->truth.row[i].half[1];
    }
    correlate(one, work, &one->half);
    return QS_OK;
}

/* Conventions are those of `qsync`; `measured` corrects the default one. */
static qs_status indicator_add(comparison *one, const char *indicator, double *all, double *work[3]) {
    if (strcmp(indicator, "qsync") != 0) return opinion_add(one, indicator, "", all, work);
    for (size_t i = 0; qs_convention_name_at(i); i++)
        QS_TRY(opinion_add(one, indicator, qs_convention_name_at(i), all, work));
    return QS_OK;
}

static qs_status opinions_form(comparison *one) {
    double *all = NULL, *work[3] = {0};
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)one->graph->nodes * (size_t)one->recipes, sizeof *all, &all));
    for (int i = 0; i < 3; i++)
        QS_GOTO(qs_allocate((size_t)one->truth.rows, sizeof **work, &work[i]));
    for (size_t i = 0; qs_indicator_name_at(i); i++)
        QS_GOTO(indicator_add(one, qs_indicator_name_at(i), all, work));
    QS_GOTO(halves_compare(one, work));
done:
    free(all);
    for (int i = 0; i < 3; i++)
        free(work[i]);
    return status;
}

/* ---- Output ---------------------------------------------------------------------------------------------------------- */

static double percent_of(double part, double whole) {
    return whole > 0 && isfinite(whole) ? 100 * part / whole : 0;
}

static void opinion_print(const opinion *it, int recipes) {
    printf("%-9s %-22s", it->indicator, it->convention);
    for (int r = 0; r < recipes; r++)
        printf(" %12.3f", it->spearman[r]);
    printf(" %12.3f %12.3f\n", it->pooled, it->steps);
}

static void ground_truth_print(const comparison *one) {
    const qs_truth *truth = &one->truth;
    const int kept = one->recipes - 1, columns = node_columns(one->graph);
    printf(
        "ground truth of %s: squared error of the gradient, per operator alone in a recipe, relative to the gradient's squared norm %.4g\n"
        "%d batch%s of %lld after %d fp32 iterations, %d seeds; in brackets standard error and share of the bias, per cent\n\n%-*s",
        one->graph->name, truth->gradient_norm2, truth->batches, truth->batches == 1 ? "" : "es", (long long)truth->batch, truth->warm_up,
        one->options->seeds, columns, "operator");
    for (int r = 1; r < one->recipes; r++)
        printf(" %24s", one->recipe[r].name);
    for (int i = 0; i < truth->rows; i++) {
        const qs_truth_row *row = &truth->row[i];
        char brackets[32];
        snprintf(brackets, sizeof brackets, "(%.1f, %.0f)", percent_of(row->standard_error, row->error2),
                 percent_of(row->bias2, row->error2));
        if (i % kept == 0) printf("\n%-*s", columns, row->name);
        printf(" %11.4g %12s", row->error2 / truth->gradient_norm2, brackets);
    }
    printf("\n\nSpearman's rank correlation with the ground truth\n%-9s %-22s", "indicator", "convention");
    for (int r = 1; r < one->recipes; r++)
        printf(" %12s", one->recipe[r].name);
    printf(" %12s %12s\n", "pooled", "steps");
    for (int i = 0; i < one->opinions; i++)
        opinion_print(&one->opinion[i], kept);
    opinion_print(&one->half, kept);
}

static json_t *figure(double value) {
    return isfinite(value) ? json_real(value) : json_string("inf");
}

static json_t *row_json(const qs_truth_row *row) {
    return json_pack("{s:s,s:s,s:i,s:o,s:o,s:o,s:o,s:o,s:[o,o]}", "operator", row->name, "recipe", row->recipe, "seeds", row->seeds,
                     "error2", figure(row->error2), "standard_error", figure(row->standard_error), "variance", figure(row->variance),
                     "bias2", figure(row->bias2), "bias2_raw", figure(row->bias2_raw), "halves", figure(row->half[0]),
                     figure(row->half[1]));
}

static json_t *opinion_json(const comparison *one, const opinion *it) {
    json_t *value = json_object(), *recipes = json_object();
    if (it != &one->half) json_object_set_new(value, "indicator", json_string(it->indicator));
    if (it != &one->half && *it->convention) json_object_set_new(value, "convention", json_string(it->convention));
    for (int r = 1; r < one->recipes; r++)
        json_object_set_new(recipes, one->recipe[r].name, json_number(it->spearman[r - 1]));
    json_object_set_new(value, "recipes", recipes);
    json_object_set_new(value, "pooled", json_number(it->pooled));
    json_object_set_new(value, "steps", json_number(it->steps));
    return value;
}

static qs_status ground_truth_json(const comparison *one) {
    json_t *rows = json_array(), *opinions = json_array();
    for (int i = 0; i < one->truth.rows; i++)
        json_array_append_new(rows, row_json(&one->truth.row[i]));
    for (int i = 0; i < one->opinions; i++)
        json_array_append_new(opinions, opinion_json(one, &one->opinion[i]));
    return json_print(json_pack("{s:s,s:s,s:I,s:i,s:i,s:f,s:o,s:o,s:o}", "model", one->graph->name, "dataset",
                                one->options->job.job.dataset, "batch", (json_int_t)one->truth.batch, "batches", one->truth.batches,
                                "warm_up", one->truth.warm_up, "gradient_norm2", one->truth.gradient_norm2, "truth", rows, "spearman",
                                opinions, "halves", opinion_json(one, &one->half)));
}

/* A text as a field of CSV (RFC 4180): in quotes where a comma, a quote or a line's end is in it. */
static void field_put(FILE *file, const char *text) {
    const bool quoted = text[strcspn(text, ",\"\r\n")] != '\0';
    if (quoted) fputc('"', file);
    for (; *text; text++) {
        if (*text == '"') fputc('"', file);
        fputc(*text, file);
    }
    if (quoted) fputc('"', file);
}

static void rows_put(FILE *file, const comparison *one) {
    const qs_truth *truth = &one->truth;
    fprintf(file, "model,dataset,batch,warm_up,gradient_norm2,operator,recipe,seeds,error2,standard_error,variance,bias2,bias2_raw");
    for (int o = 0; o < one->opinions; o++)
        fprintf(file, ",%s%s%s", one->opinion[o].indicator, *one->opinion[o].convention ? "." : "", one->opinion[o].convention);
    fputc('\n', file);
    for (int i = 0; i < truth->rows; i++) {
        const qs_truth_row *row = &truth->row[i];
        field_put(file, one->graph->name);
        fputc(',', file);
        field_put(file, one->options->job.job.dataset);
        fprintf(file, ",%lld,%d,%.9g,", (long long)truth->batch, truth->warm_up, truth->gradient_norm2);
        field_put(file, row->name);
        fputc(',', file);
        field_put(file, row->recipe);
        fprintf(file, ",%d,%.9g,%.9g,%.9g,%.9g,%.9g", row->seeds, row->error2, row->standard_error, row->variance, row->bias2,
                row->bias2_raw);
        for (int o = 0; o < one->opinions; o++)
            fprintf(file, ",%.9g", one->opinion[o].omega[i]);
        fputc('\n', file);
    }
}

static qs_status csv_write(const comparison *one, const char *path) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    if (!file) return qs_fail(QS_OUT_OF_MEMORY, "%s: no memory for its text", path);
    rows_put(file, one);
    const bool whole = ferror(file) == 0, closed = fclose(file) == 0;
    const qs_status status =
        whole && closed ? qs_file_write(path, text, bytes) : qs_fail(QS_OUT_OF_MEMORY, "%s: no memory for its text", path);
    free(text);
    return status;
}

/* ---- All of it ------------------------------------------------------------------------------------------------------- */

static void comparison_release(comparison *one) {
    for (int i = 0; i < MOST_INDICATORS; i++)
        free(one->opinion[i].omega);
    free(one->half.omega);
    qs_truth_release(&one->truth);
    qs_graph_release(one->graph);
    if (!one->here.comm) qs_device_close(one->device);
    qs_cluster_release(&one->cluster);
}

static qs_status compare(comparison *one, int recipes, const qs_recipe *recipe, bool json) {
    const char *out = one->options->out;
    QS_TRY(device_open(one));
    QS_TRY(recipes_take(one, recipes, recipe));
    QS_TRY(ground_truth_measure(one));
    QS_TRY(opinions_form(one));
    if (out) QS_TRY(csv_write(one, out));
    if (json) return ground_truth_json(one);
    ground_truth_print(one);
    if (out) printf("\nwritten to %s\n", out);
    return QS_OK;
}

qs_status ground_truth_run(ground_truth_options *options, const option_table *table, const qs_profile *profile, int recipes,
                           const qs_recipe *recipe, bool json) {
    comparison one = {.options = options, .profile = profile, .half = {.indicator = "truth", .convention = "one half by the other"}};
    if (!option_given(table, "dataset")) return qs_fail(QS_USAGE, "--ground-truth needs --dataset: the profile does not say what was seen");
    if (!option_given(table, "model")) options->job.model = profile->model;
    if (!option_given(table, "batch")) options->job.job.batch = profile->batch;
    QS_TRY(job_options_finish(&options->job));
    if (options->out) QS_TRY(output_check(options->out));
    qs_status status = compare(&one, recipes, recipe, json);
    comparison_release(&one);
    return one.here.comm ? worker_end(&one.here, status) : status;
}
