// SPDX-License-Identifier: Apache-2.0
/* The options of a job: what its record says of them, the settings that optimisers declare, and a plan's job in their place. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

/* ---- Optimisers: the list of operators says which there are and which settings they have ---- */

/* A setting, of one optimiser or of several. */
typedef struct setting_option {
    const char *setting; /* "weight_decay" */
    char option[32];     /* "weight-decay" */
    char owners[160];    /* "of sgd (0.0005), adam (0.01)" */
    char help[512];      /* what it is for each of them: "sgd (0.9), nesterov (0.9): part of ...; adam (0.01): ..." */
    const char *text;    /* of those whose names stand last in it, behind which it is still to stand */
} setting_option;

static setting_option known[MOST_SETTINGS];
static int settings;
static option_row rows[1 + MOST_SETTINGS];
static char names_help[64];

static void append(char *text, size_t size, const char *format, ...) QS_PRINTF(3, 4);
static void append(char *text, size_t size, const char *format, ...) {
    va_list list;
    const size_t used = strlen(text);
    va_start(list, format);
    vsnprintf(text + used, size - used, format, list);
    va_end(list);
}

static setting_option *option_of(const char *setting) {
    for (int i = 0; i < settings; i++)
        if (strcmp(known[i].setting, setting) == 0) return &known[i];
    if (settings == MOST_SETTINGS) return NULL;
    setting_option *one = &known[settings++];
    one->setting = setting;
    snprintf(one->option, sizeof one->option, "%s", setting);
    for (char *at = one->option; *at; at++)
        if (*at == '_') *at = '-';
    append(one->owners, sizeof one->owners, "of");
    return one;
}

static void optimizer_read(const qs_op *op) {
    append(names_help, sizeof names_help, "%s%s", names_help[0] ? ", " : "", op->name);
    for (int i = 0; i < qs_op_settings(op); i++) {
        const qs_setting *one = &op->setting[i];
        setting_option *option = option_of(one->name);
        if (!option) continue;
        const bool alike = option->text && strcmp(option->text, one->text) == 0;
        if (option->text && !alike) append(option->help, sizeof option->help, ": %s", option->text);
        append(option->owners, sizeof option->owners, "%s %s (%g)", option->text ? "," : "", op->name, one->standard);
        append(option->help, sizeof option->help, "%s%s (%g)", alike ? ", " : option->text ? "; " : "", op->name, one->standard);
        option->text = one->text;
    }
}

static void list_read(void) {
    const char *name;
    if (settings > 0) return;
    for (size_t i = 0; (name = qs_optimizer_name_at(i)) != NULL; i++)
        optimizer_read(qs_op_of(name));
    for (int i = 0; i < settings; i++)
        append(known[i].help, sizeof known[i].help, ": %s", known[i].text);
}

const char *optimizer_names(void) {
    list_read();
    return names_help;
}

static void optimizer_options_start(job_options *options) {
    options->optimizer = "sgd";
    options->rate = NAN;
    for (int i = 0; i < MOST_SETTINGS; i++)
        options->setting[i] = NAN;
}

static void optimizer_options_add(job_options *o, option_table *table) {
    list_read();
    rows[0] = (option_row){OPTION(job_options, optimizer, "optimizer", "NAME", names_help), .standard = "sgd"};
    for (int i = 0; i < settings; i++) {
        rows[1 + i] = (option_row){OPTION(job_options, setting[0], known[i].option, "X", known[i].help)};
        rows[1 + i].at += (size_t)i * sizeof *o->setting;
    }
    options_add(table, 1 + settings, rows, o);
}

/* ---- Options of a job: what the record of a job says of them ---- */

static const option_row asked_rows[] = {
    {OPTION(job_options, model, "model", "NAME", NULL), .field = "model", .standard = "resnet8"},
    {OPTION(job_options, all_reduce, "all-reduce", "NAME", NULL), .field = "buckets.algorithm", .standard = "shared"},
    {OPTION(job_options, wire, "wire", "NAME", NULL), .field = "buckets.wire", .standard = "fp32"},
};
static const option_row profiled_rows[] = {
    {OPTION(job_options, model, "model", "NAME", NULL), .field = "model", .usual = "the profile's"},
    {OPTION(job_options, all_reduce, "all-reduce", "NAME", NULL), .field = "buckets.algorithm", .usual = "the profile's"},
    {OPTION(job_options, wire, "wire", "NAME", NULL), .field = "buckets.wire", .usual = "the profile's"},
};
static const option_row step_rows[] = {
    {OPTION(job_options, seed, "seed", "N", NULL), .field = "seed"},
    {OPTION(job_options, loss_scaling, "loss-scaling", "WHAT", NULL), .field = "loss_scaling", .standard = "off"},
    {OPTION(job_options, job.clip_norm, "clip-norm", "X", NULL), .field = "clip_norm"},
    {OPTION(job_options, job.label_smoothing, "label-smoothing", "X", NULL), .field = "label_smoothing"},
    {OPTION(job_options, job.rate.layer_decay, "layer-decay", "X", NULL), .field = "rate.layer_decay"},
    {OPTION(job_options, decay, "decay", "WHAT", NULL), .field = "decay", .standard = "all"},
    {OPTION(job_options, freeze, "freeze", "PATTERNS", NULL), .field = "freeze"},
    {OPTION(job_options, head, "head", "N", "replace the model's last linear layer by a new one of N outputs"), .usual = "the model's own",
     .minimum = 1},
    {OPTION(job_options, loss, "loss", "NAME", "cross-entropy, token (a class a position), span or mse"),
     .usual = "as the model's target says"},
    {OPTION(job_options, dropout, "dropout", "P", "dropout in front of the last linear layer; P@PATTERNS: behind operators of such names"),
     .usual = "as the model has it"},
    {OPTION(job_options, job.bucket_bytes, "bucket-bytes", "N", NULL), .field = "buckets.bytes", .minimum = 1},
};
static const option_row dataset_rows[] = {
    {OPTION(job_options, dataset, "dataset", "NAME", "mnist, cifar10, shapes, sst2, text:FILE, folder:PATH, npz:FILE ...: docs/data.md"),
     .standard = "shapes"},
    {OPTION(job_options, mean, "mean", "LIST", NULL), .field = "normalization.mean", .usual = "the data set's"},
    {OPTION(job_options, deviation, "deviation", "LIST", NULL), .field = "normalization.deviation", .usual = "the data set's"},
    {OPTION(job_options, job.normalization.scale, "scale", "X", NULL), .field = "normalization.scale", .usual = "255, of floats 1"},
};
static const option_row batch_rows[] = {
    {OPTION(job_options, job.batch, "batch", "N", NULL), .field = "batch", .standard = "128", .minimum = 1},
};
static const option_row profiled_batch_rows[] = {
    {OPTION(job_options, job.batch, "batch", "N", NULL), .field = "batch", .usual = "the profile's", .minimum = 1},
};
static const option_row lengths_rows[] = {
    {OPTION(job_options, lengths, "lengths", "LIST", NULL), .field = "lengths"},
};
static const option_row profiled_lengths_rows[] = {
    {OPTION(job_options, lengths, "lengths", "LIST", NULL), .field = "lengths", .usual = "the profile's"},
};
static const option_row folder_rows[] = {
    {OPTION(job_options, data_folder, "data", "FOLDER", "where the data sets are"), .usual = "$QSYNC_DATA"},
};
static const option_row epochs_rows[] = {
    {OPTION(job_options, job.epochs, "epochs", "N", NULL), .field = "epochs", .standard = "5"},
    {OPTION(job_options, rate, "rate", "X", NULL), .field = "rate.base"},
    {OPTION(job_options, job.rate.warmup_epochs, "warmup-epochs", "X", NULL), .field = "rate.warmup_epochs"},
    {OPTION(job_options, job.rate.warmup_steps, "warmup-steps", "N", NULL), .field = "rate.warmup_steps"},
    {OPTION(job_options, schedule, "schedule", "NAME", NULL), .field = "rate.schedule", .standard = "cosine"},
    {OPTION(job_options, no_augmentation, "no-augmentation", NULL, "no random crops and flips")},
};

void job_options_start(job_options *options) {
    *options = (job_options){0};
    qs_job_default(&options->job);
    options->seed = (int64_t)options->job.seed;
    optimizer_options_start(options);
    OPTIONS_START(asked_rows, options);
    OPTIONS_START(step_rows, options);
    OPTIONS_START(dataset_rows, options);
    OPTIONS_START(batch_rows, options);
    OPTIONS_START(epochs_rows, options);
}

void job_options_add(job_options *o, option_table *table, unsigned groups) {
    const bool profiled = groups & JOB_PROFILED;
    if (groups & JOB_STEP && profiled) OPTIONS_ADD(table, profiled_rows, o);
    if (groups & JOB_STEP && !profiled) OPTIONS_ADD(table, asked_rows, o);
    if (groups & JOB_STEP) OPTIONS_ADD(table, step_rows, o);
    if (groups & JOB_STEP) optimizer_options_add(o, table);
    if (groups & JOB_SET) OPTIONS_ADD(table, dataset_rows, o);
    if (groups & JOB_SET && profiled) OPTIONS_ADD(table, profiled_batch_rows, o);
    if (groups & JOB_SET && !profiled) OPTIONS_ADD(table, batch_rows, o);
    if (groups & JOB_LENGTHS && profiled) OPTIONS_ADD(table, profiled_lengths_rows, o);
    if (groups & JOB_LENGTHS && !profiled) OPTIONS_ADD(table, lengths_rows, o);
    if (groups & JOB_FOLDER) OPTIONS_ADD(table, folder_rows, o);
    if (groups & JOB_EPOCHS) OPTIONS_ADD(table, epochs_rows, o);
}

/* ---- What the options say ---- */

static qs_status setting_put(const job_options *o, int index, qs_job *job) {
    const char *option = known[index].option;
    double *value = qs_job_setting(job, known[index].setting);
    if (isnan(o->setting[index])) return QS_OK;
    if (!value) return qs_fail(QS_USAGE, "--%s is %s: %s has no such setting", option, known[index].owners, job->optimizer.name);
    *value = o->setting[index];
    return QS_OK;
}

static qs_status optimizer_options_finish(job_options *o) {
    if (qs_job_optimizer_set(&o->job, o->optimizer) != QS_OK) return qs_fail(QS_USAGE, "--optimizer %s", qs_message());
    for (int i = 0; i < settings; i++)
        QS_TRY(setting_put(o, i, &o->job));
    if (!isnan(o->rate)) o->job.rate.base = o->rate;
    return qs_job_check(&o->job) == QS_OK ? QS_OK : qs_fail(QS_USAGE, "--%s", qs_message());
}

static qs_status schedule_set(job_options *o) {
    static const char *const names[] = {
        [QS_RATE_CONSTANT] = "constant", [QS_RATE_STEP] = "step", [QS_RATE_COSINE] = "cosine", [QS_RATE_LINEAR] = "linear"};
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++) {
        if (strcmp(o->schedule, names[i]) != 0) continue;
        o->job.rate.schedule = (qs_rate_schedule)i;
        return QS_OK;
    }
    return qs_fail(QS_USAGE, "--schedule %s: there are constant, step, cosine, linear", o->schedule);
}

static qs_status loss_scaling_set(job_options *o) {
    char *end = NULL;
    if (strcmp(o->loss_scaling, "off") == 0) return QS_OK;
    if (strcmp(o->loss_scaling, "dynamic") == 0) {
        o->job.dynamic_loss_scaling = true;
        o->job.loss_scale = 65536;
        return QS_OK;
    }
    o->job.loss_scale = strtod(o->loss_scaling, &end);
    if (end == o->loss_scaling || *end || !(o->job.loss_scale >= 1e-30) || o->job.loss_scale > 1e30)
        return qs_fail(QS_USAGE, "--loss-scaling %s: off, dynamic or a factor of 1e-30 to 1e30", o->loss_scaling);
    return QS_OK;
}

static qs_status name_set(const char *option, const char *value, char *out, size_t size) {
    if (strlen(value) >= size) return qs_fail(QS_USAGE, "--%s %s: longer than %zu characters", option, value, size - 1);
    snprintf(out, size, "%s", value);
    return QS_OK;
}

static qs_status decay_set(job_options *o) {
    o->job.decay_matrices = strcmp(o->decay, "matrices") == 0;
    if (o->job.decay_matrices || strcmp(o->decay, "all") == 0) return QS_OK;
    return qs_fail(QS_USAGE, "--decay %s: there are all, matrices", o->decay);
}

static qs_status all_reduce_set(job_options *o) {
    size_t count = 0;
    bool found = false;
    for (; qs_comm_algorithm_at(count); count++)
        found = found || strcmp(qs_comm_algorithm_at(count), o->all_reduce) == 0;
    if (!found) return qs_fail(QS_USAGE, "--all-reduce %s: there are %s", o->all_reduce, qs_names_join(count, qs_comm_algorithm_at));
    snprintf(o->job.algorithm, sizeof o->job.algorithm, "%s", o->all_reduce);
    return QS_OK;
}

static qs_status wire_set(job_options *o) {
    const qs_status status = qs_comm_wire_check(o->wire, o->job.algorithm);
    if (status != QS_OK) return qs_fail(QS_USAGE, "--%s", qs_message());
    snprintf(o->job.wire, sizeof o->job.wire, "%s", o->wire);
    return QS_OK;
}

/* The changes of the model that it opens with, behind its text. */
static qs_status changes_set(job_options *o) {
    char head[24], changed[QS_MODEL];
    snprintf(head, sizeof head, "%lld", (long long)o->head);
    const struct {
        const char *what, *value;
    } changes[] = {{"head", o->head > 0 ? head : NULL}, {"loss", o->loss}, {"dropout", o->dropout}};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        if (!changes[i].value) continue;
        QS_TRY(qs_fail_within(qs_model_change(o->job.model, changes[i].what, changes[i].value, sizeof changed, changed), "--%s",
                              changes[i].what));
        memcpy(o->job.model, changed, sizeof changed);
    }
    return QS_OK;
}

/* "0.485,0.456,0.406", one number or one a channel. */
static qs_status numbers_set(const char *option, const char *text, int *count, double *out) {
    if (!text) return QS_OK;
    *count = 0;
    for (const char *at = text;; at++) {
        char *end = NULL;
        const double number = strtod(at, &end);
        if (end == at || (*end != ',' && *end != 0) || !isfinite(number) || *count == QS_DATA_MOST_CHANNELS)
            return qs_fail(QS_USAGE, "--%s %s: must be one number, or one for each of at most %d channels with commas between", option,
                           text, QS_DATA_MOST_CHANNELS);
        out[(*count)++] = number;
        at = end;
        if (*at == 0) return QS_OK;
    }
}

/* "32,64,128" */
static qs_status lengths_set(job_options *o) {
    qs_lengths *out = &o->job.lengths;
    if (!o->lengths) return QS_OK;
    out->count = 0;
    for (const char *at = o->lengths;; at++) {
        char *end = NULL;
        const long long length = strtoll(at, &end, 10);
        if (end == at || (*end != ',' && *end != 0) || length < 1 || length > INT32_MAX)
            return qs_fail(QS_USAGE, "--lengths %s: must be positive numbers with commas, ascending, like 32,64,128", o->lengths);
        if (out->count == QS_MOST_LENGTHS) return qs_fail(QS_USAGE, "--lengths %s: at most %d", o->lengths, QS_MOST_LENGTHS);
        out->at[out->count++] = length;
        at = end;
        if (*at == 0) break;
    }
    return qs_fail_within(qs_lengths_check(out), "--lengths %s", o->lengths);
}

/* The ranges of the job record: what is trained can be written down and read again. */
static qs_status ranges_check(const qs_job *job) {
    if (job->batch > INT32_MAX) return qs_fail(QS_USAGE, "--batch %lld: must be at most %d", (long long)job->batch, INT32_MAX);
    return QS_OK;
}

qs_status job_model_open(const qs_job *job, qs_graph **out) {
    qs_data_description set;
    QS_TRY(qs_dataset_describe(job->dataset, NULL, &set));
    return qs_model_open_frozen(job->model, job->freeze, &set.samples, out);
}

int name_columns(int least, const char *name) {
    const int wanted = (int)strlen(name);
    return wanted > least ? wanted : least;
}

int node_columns(const qs_graph *graph) {
    int columns = 26;
    for (int n = 0; n < graph->nodes; n++)
        columns = name_columns(columns, graph->node[n].name);
    return columns;
}

qs_status job_model_beside(const char *file, char *model) {
    const char *slash = strrchr(file, '/');
    char path[QS_MODEL];
    const int folder = slash ? (int)(slash - file) + 1 : 0;
    if (snprintf(path, sizeof path, "%.*sgraph.json", folder, file) >= (int)sizeof path)
        return qs_fail(QS_USAGE, "%s: its folder's graph.json has a path longer than %d characters", file, QS_MODEL - 1);
    if (access(path, R_OK) == 0) memcpy(model, path, sizeof path);
    return QS_OK;
}

bool run_plan_beside(const char *file, const char *model, char *path, qs_plan *out) {
    const char *slash = strrchr(file, '/');
    const int folder = slash ? (int)(slash - file) + 1 : 0;
    char graph[QS_MODEL] = "";
    if (snprintf(path, QS_MODEL, "%.*splan.json", folder, file) >= QS_MODEL || access(path, R_OK) != 0) return false;
    if (qs_plan_read(path, out) != QS_OK) {
        qs_log(QS_LOG_WARNING, "what the run was is not known: %s", qs_message());
        return false;
    }
    const bool in_run = job_model_beside(file, graph) == QS_OK && graph[0];
    if (!out->without_job && (in_run || strcmp(out->job.model, model) == 0)) return true;
    qs_plan_release(out);
    return false;
}

qs_status job_options_finish(job_options *o) {
    qs_graph *graph = NULL;
    QS_TRY(ranges_check(&o->job));
    QS_TRY(name_set("model", o->model, o->job.model, sizeof o->job.model));
    QS_TRY(name_set("dataset", o->dataset, o->job.dataset, sizeof o->job.dataset));
    QS_TRY(changes_set(o));
    QS_TRY(numbers_set("mean", o->mean, &o->job.normalization.means, o->job.normalization.mean));
    QS_TRY(numbers_set("deviation", o->deviation, &o->job.normalization.deviations, o->job.normalization.deviation));
    if (o->freeze) QS_TRY(name_set("freeze", o->freeze, o->job.freeze, sizeof o->job.freeze));
    QS_TRY(lengths_set(o));
    QS_TRY(decay_set(o));
    QS_TRY(optimizer_options_finish(o));
    QS_TRY(schedule_set(o));
    QS_TRY(loss_scaling_set(o));
    QS_TRY(all_reduce_set(o));
    QS_TRY(wire_set(o));
    o->job.seed = (uint64_t)o->seed;
    o->job.augmentation = !o->no_augmentation;
    /* Models take size and classes from the set; those of "folder:PATH" are found where the sets are. */
    if (o->data_folder && setenv("QSYNC_DATA", o->data_folder, 1) != 0) return qs_fail(QS_OUT_OF_MEMORY, "no memory for --data");
    if (qs_model_is_file(o->job.model)) return QS_OK; /* of several ranks only the first needs the file */
    qs_job whole = o->job;                            /* what is frozen may be of a plan's model */
    whole.freeze[0] = '\0';
    QS_TRY(job_model_open(&whole, &graph));
    qs_graph_release(graph);
    return QS_OK;
}

/* ---- A plan's job ---- */

/* What was not said is the plan's; a plan for another optimiser than was said changes nothing. */
static void optimizer_from_plan(const qs_job *planned, const option_table *table, qs_job *job) {
    qs_job next = *planned;
    if (option_given(table, "optimizer") && strcmp(job->optimizer.name, planned->optimizer.name) != 0) return;
    for (int i = 0; i < settings; i++) {
        double *value = qs_job_setting(&next, known[i].setting);
        if (!option_given(table, known[i].option)) continue;
        if (!value) return;
        *value = *qs_job_setting(job, known[i].setting);
    }
    job->optimizer = next.optimizer;
}

void job_names_from_plan(const qs_plan *plan, const option_table *table, job_options *o) {
    if (plan->without_job) return;
    if (!option_given(table, "model") && plan->job.model[0]) o->model = plan->job.model;
    if (!option_given(table, "dataset") && plan->job.dataset[0]) o->dataset = plan->job.dataset;
}

void job_from_plan(const qs_plan *plan, const option_table *table, qs_job *job) {
    const qs_job *from = &plan->job;
    if (plan->without_job) return;
    const bool changed = option_given(table, "head") || option_given(table, "loss") || option_given(table, "dropout");
    if (!option_given(table, "model") && !changed && from->model[0]) memcpy(job->model, from->model, sizeof job->model);
    if (!option_given(table, "mean") && !option_given(table, "deviation") && !option_given(table, "scale"))
        job->normalization = from->normalization;
    if (!option_given(table, "dataset") && from->dataset[0]) memcpy(job->dataset, from->dataset, sizeof job->dataset);
    if (!option_given(table, "batch")) job->batch = from->batch;
    if (!option_given(table, "lengths")) job->lengths = from->lengths;
    optimizer_from_plan(from, table, job);
    if (!option_given(table, "bucket-bytes")) job->bucket_bytes = from->bucket_bytes;
    if (!option_given(table, "loss-scaling")) {
        job->dynamic_loss_scaling = from->dynamic_loss_scaling;
        job->loss_scale = from->loss_scale;
    }
    if (!option_given(table, "epochs")) job->epochs = from->epochs;
    if (!option_given(table, "seed")) job->seed = from->seed;
    if (!option_given(table, "rate")) job->rate.base = from->rate.base;
    if (!option_given(table, "warmup-epochs")) job->rate.warmup_epochs = from->rate.warmup_epochs;
    if (!option_given(table, "warmup-steps")) job->rate.warmup_steps = from->rate.warmup_steps;
    if (!option_given(table, "schedule")) job->rate.schedule = from->rate.schedule;
    if (!option_given(table, "no-augmentation")) job->augmentation = from->augmentation;
    if (!option_given(table, "clip-norm")) job->clip_norm = from->clip_norm;
    if (!option_given(table, "label-smoothing")) job->label_smoothing = from->label_smoothing;
    if (!option_given(table, "layer-decay")) job->rate.layer_decay = from->rate.layer_decay;
    if (!option_given(table, "decay")) job->decay_matrices = from->decay_matrices;
    if (!option_given(table, "freeze")) memcpy(job->freeze, from->freeze, sizeof job->freeze);
    if (!option_given(table, "wire")) memcpy(job->wire, from->wire, sizeof job->wire);
    if (!option_given(table, "all-reduce")) memcpy(job->algorithm, from->algorithm, sizeof job->algorithm);
}

bool plan_class_is_reduced(const qs_plan *plan, const qs_class_plan *one) {
    for (int i = 0; i < one->operators; i++)
        if (strcmp(one->operator_[i].recipe, "fp32") != 0 && qs_plan_recipe(plan, one->operator_[i].recipe)) return true;
    return one->tensors > 0;
}

qs_status plan_class_choose(const qs_plan *plan, const char *file, const char *name, const qs_class_plan **out) {
    int reduced = 0;
    *out = name ? qs_plan_class(plan, name) : NULL;
    if (name && !*out) return qs_fail(QS_USAGE, "--class %s: the plan %s has no such class", name, file);
    for (int i = 0; i < plan->classes && !name; i++) {
        if (!plan_class_is_reduced(plan, &plan->class_[i])) continue;
        *out = &plan->class_[i];
        reduced++;
    }
    if (reduced <= 1) return QS_OK;
    return qs_fail(QS_USAGE, "%d classes of the plan %s have other formats than fp32, \"%s\" is one: --class says which is meant", reduced,
                   file, (*out)->class_name);
}
