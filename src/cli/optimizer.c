// SPDX-License-Identifier: Apache-2.0
/* Options of the optimisers: the list of operators says which there are and which settings they have. */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "cli.h"

/* A setting, of one optimiser or of several. */
typedef struct setting_option {
    const char *setting; /* "weight_decay" */
    char option[32];     /* "weight-decay" */
    char owners[96];     /* "of sgd (0.0005), adam (0.01)" */
    char help[256];      /* what it is for each of them */
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
    append(names_help, sizeof names_help, "%s%s", names_help[0] ? " or " : "", op->name);
    for (int i = 0; i < qs_op_settings(op); i++) {
        const qs_setting *one = &op->setting[i];
        setting_option *option = option_of(one->name);
        if (!option) continue;
        append(option->owners, sizeof option->owners, "%s %s (%g)", option->help[0] ? "," : "", op->name, one->standard);
        append(option->help, sizeof option->help, "%s%s: %s (%g)", option->help[0] ? "; " : "", op->name, one->text, one->standard);
    }
}

static void list_read(void) {
    const char *name;
    if (settings > 0) return;
    for (size_t i = 0; (name = qs_optimizer_name_at(i)) != NULL; i++)
        optimizer_read(qs_op_of(name));
}

const char *optimizer_names(void) {
    list_read();
    return names_help;
}

void optimizer_options_start(job_options *options) {
    options->optimizer = "sgd";
    options->rate = NAN;
    for (int i = 0; i < MOST_SETTINGS; i++)
        options->setting[i] = NAN;
}

void optimizer_options_add(job_options *o, option_table *table) {
    list_read();
    rows[0] = (option_row){OPTION(job_options, optimizer, "optimizer", "NAME", names_help), .standard = "sgd"};
    for (int i = 0; i < settings; i++) {
        rows[1 + i] = (option_row){OPTION(job_options, setting[0], known[i].option, "X", known[i].help)};
        rows[1 + i].at += (size_t)i * sizeof *o->setting;
    }
    options_add(table, 1 + settings, rows, o);
}

static qs_status setting_put(const job_options *o, int index, qs_job *job) {
    const char *option = known[index].option;
    double *value = qs_job_setting(job, known[index].setting);
    if (isnan(o->setting[index])) return QS_OK;
    if (!value) return qs_fail(QS_USAGE, "--%s is %s: %s has no such setting", option, known[index].owners, job->optimizer.name);
    *value = o->setting[index];
    return QS_OK;
}

qs_status optimizer_options_finish(job_options *o) {
    if (qs_job_optimizer_set(&o->job, o->optimizer) != QS_OK) return qs_fail(QS_USAGE, "--optimizer %s", qs_message());
    for (int i = 0; i < settings; i++)
        QS_TRY(setting_put(o, i, &o->job));
    if (!isnan(o->rate)) o->job.rate.base = o->rate;
    return qs_job_check(&o->job) == QS_OK ? QS_OK : qs_fail(QS_USAGE, "--%s", qs_message());
}

void optimizer_from_plan(const qs_job *planned, const option_table *table, qs_job *job) {
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
