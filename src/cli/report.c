// SPDX-License-Identifier: Apache-2.0
/* qsync report: finished runs side by side: what was planned, predicted and measured. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit.h"
#include "plan_output.h"

#define MOST_RUNS 32

typedef struct run_record {
    const char *folder;
    const char *name; /* the planner; the folder where several runs have the same one */
    qs_plan plan;
    json_t *result;
    json_t *audit; /* NULL: the run has none */
} run_record;

static qs_status file_in(const char *folder, const char *name, char **text) {
    char *path = NULL;
    size_t bytes = 0;
    QS_TRY(qs_path_join(folder, name, &path));
    const qs_status status = qs_file_read(path, (size_t)64 << 20, text, &bytes);
    free(path);
    return qs_fail_within(status, "%s is no finished run", folder);
}

/* Everything below relies on these fields; what training could not know is null or left out. */
static qs_status result_check(const char *folder, json_t *result) {
    json_error_t error;
    json_t *ranks = NULL, *row;
    double number;
    const char *name;
    json_int_t bytes;
    size_t rank;
    if (json_unpack_ex(result, &error, 0, "{s:F,s:F,s:s,s:o}", "iteration_us", &number, "samples_per_second", &number, "unit", &name,
                       "ranks", &ranks) != 0)
        return qs_fail(QS_BAD_FILE, "%s/result.json: %s", folder, error.text);
    if (json_array_size(ranks) == 0) return qs_fail(QS_BAD_FILE, "%s/result.json: ranks: must be a list, and not empty", folder);
    json_array_foreach(ranks, rank, row) {
        if (json_unpack_ex(row, &error, 0, "{s:s,s:I}", "class", &name, "reserved_bytes", &bytes) != 0)
            return qs_fail(QS_BAD_FILE, "%s/result.json: ranks[%zu]: %s", folder, rank, error.text);
    }
    return QS_OK;
}

static qs_status result_read(const char *folder, json_t **out) {
    char *text = NULL;
    json_error_t error;
    QS_TRY(file_in(folder, "result.json", &text));
    *out = json_loads(text, 0, &error);
    free(text);
    if (!*out) return qs_fail(QS_BAD_FILE, "%s/result.json:%d:%d: %s", folder, error.line, error.column, error.text);
    return result_check(folder, *out);
}

/* Runs of older versions have no audit. */
static qs_status audit_read(const char *folder, json_t **out) {
    char *path = NULL, *text = NULL;
    QS_TRY(qs_path_join(folder, "audit.json", &path));
    const bool there = access(path, F_OK) == 0;
    free(path);
    if (!there) return QS_OK;
    QS_TRY(file_in(folder, "audit.json", &text));
    const qs_status status = qs_fail_within(audit_parse(text, "audit.json", out), "%s", folder);
    free(text);
    return status;
}

static qs_status run_read(const char *folder, run_record *out) {
    char *text = NULL;
    out->folder = folder;
    QS_TRY(result_read(folder, &out->result));
    QS_TRY(audit_read(folder, &out->audit));
    QS_TRY(file_in(folder, "plan.json", &text));
    const qs_status status = qs_plan_parse(text, folder, &out->plan);
    free(text);
    return status;
}

static double number_of(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* Relative error of the predicted iteration time in per cent; NAN for runs without a prediction. */
static double prediction_error(const run_record *run) {
    return 100 * (number_of(run->result, "predicted_iteration_us") / number_of(run->result, "iteration_us") - 1);
}

static qs_status names_set(run_record *run, int runs) {
    for (int i = 0; i < runs; i++) {
        bool alone = run[i].plan.planner[0] != 0;
        for (int k = 0; k < runs; k++) {
            if (k != i && strcmp(run[k].folder, run[i].folder) == 0) return qs_fail(QS_USAGE, "%s is named twice", run[i].folder);
            alone = alone && (k == i || strcmp(run[k].plan.planner, run[i].plan.planner) != 0);
        }
        run[i].name = alone ? run[i].plan.planner : run[i].folder;
    }
    return QS_OK;
}

static int widest_name(const run_record *run, int runs) {
    size_t width = 10;
    for (int i = 0; i < runs; i++)
        if (strlen(run[i].name) > width) width = strlen(run[i].name);
    return width < 60 ? (int)width : 60;
}

static void run_print(const run_record *run, int width) {
    const double error = prediction_error(run);
    char predicted[48] = "-";
    if (isfinite(error))
        snprintf(predicted, sizeof predicted, "%s (%+.1f %%)", time_text(number_of(run->result, "predicted_iteration_us")), error);
    printf("%-*s %11s %12s %22s %10.0f %s/s\n", width, run->name, percent_text(number_of(run->result, "test_accuracy")),
           time_text(number_of(run->result, "iteration_us")), predicted, number_of(run->result, "samples_per_second"),
           json_string_value(json_object_get(run->result, "unit")));
}

/* "7 bf16, 2 fp32, 1 block recomputed" */
static void counts_text(const qs_plan *plan, const qs_class_plan *one, char *text, size_t size) {
    recipe_counts_text(plan, one, text, size);
    const size_t used = strlen(text);
    snprintf(text + used, size - used, "%s", recomputed_text(one));
}

static void memory_print(const run_record *run, int width) {
    size_t rank;
    json_t *row;
    json_array_foreach(json_object_get(run->result, "ranks"), rank, row) {
        const char *name = json_string_value(json_object_get(row, "class"));
        const qs_class_plan *one = qs_plan_class(&run->plan, name);
        char counts[256] = "fp32";
        if (one) counts_text(&run->plan, one, counts, sizeof counts);
        printf("%-*s rank %zu %-8s %-34s %12s %12s\n", width, run->name, rank, name, counts, bytes_text(number_of(row, "predicted_bytes")),
               bytes_text(number_of(row, "reserved_bytes")));
    }
}

static void runs_print(const run_record *run, int runs) {
    const int width = widest_name(run, runs);
    printf("%-*s %11s %12s %22s %10s\n", width, "plan", "accuracy", "iteration", "predicted", "speed");
    for (int i = 0; i < runs; i++)
        run_print(&run[i], width);
    printf("\n%-*s %-15s %-34s %12s\n", width, "plan", "device", "operators", "memory:");
    printf("%-*s %-15s %-34s %12s %12s\n", width, "", "", "", "predicted", "reserved");
    for (int i = 0; i < runs; i++)
        memory_print(&run[i], width);
    for (int i = 0; i < runs; i++) {
        if (!run[i].audit) continue;
        printf("\n%s\n", run[i].name);
        audit_print(run[i].audit);
    }
}

static void classes_json(const run_record *run, json_t *memory, json_t *operators) {
    size_t rank;
    json_t *row;
    json_array_foreach(json_object_get(run->result, "ranks"), rank, row) {
        const char *name = json_string_value(json_object_get(row, "class"));
        const qs_class_plan *one = qs_plan_class(&run->plan, name);
        char counts[256] = "fp32";
        if (one) counts_text(&run->plan, one, counts, sizeof counts);
        json_object_set_new(operators, name, json_string(counts));
        json_t *cell = json_pack("{s:O}", "reserved", json_object_get(row, "reserved_bytes"));
        if (json_object_get(row, "predicted_bytes")) json_object_set(cell, "predicted", json_object_get(row, "predicted_bytes"));
        json_object_set_new(memory, name, cell);
    }
}

/* JSON texts are UTF-8; a folder's name need not be. */
static qs_status names_are_utf8(const run_record *run, int runs) {
    for (int i = 0; i < runs; i++) {
        json_t *text = json_string(run[i].name);
        if (!text) return qs_fail(QS_USAGE, "%s: a name that is not UTF-8 cannot stand in JSON", run[i].name);
        json_decref(text);
    }
    return QS_OK;
}

static qs_status runs_json(const run_record *run, int runs) {
    QS_TRY(names_are_utf8(run, runs));
    json_t *accuracy = json_object(), *error = json_object(), *iteration = json_object(), *memory = json_object(),
           *operators = json_object(), *audits = json_object();
    for (int i = 0; i < runs; i++) {
        const char *name = run[i].name;
        json_t *classes = json_object(), *recipes = json_object();
        json_object_set(accuracy, name, json_object_get(run[i].result, "test_accuracy"));
        json_object_set(iteration, name, json_object_get(run[i].result, "iteration_us"));
        if (isfinite(prediction_error(&run[i]))) json_object_set_new(error, name, json_real(fabs(prediction_error(&run[i]))));
        classes_json(&run[i], classes, recipes);
        json_object_set_new(memory, name, classes);
        json_object_set_new(operators, name, recipes);
        if (run[i].audit) json_object_set(audits, name, run[i].audit);
    }
    return json_print(json_pack("{s:o,s:o,s:o,s:o,s:o,s:o}", "accuracy", accuracy, "prediction_error", error, "iteration_us", iteration,
                                "memory", memory, "operators", operators, "audit", audits));
}

typedef struct request {
    bool json;
} request;

static const option_row option_rows[] = {{OPTION_JSON(request)}};

qs_status verb_report(int argc, char **argv) {
    const verb_usage usage = {
        .verb = "report",
        .arguments = "RUN ...",
        .purpose = "Finished runs (folders written by qsync train --out) side by side: accuracy, measured and predicted iteration time,\n"
                   "operators per precision, predicted and reserved memory, and the audit of each: phases and memory of every rank. In "
                   "JSON errors "
                   "are per cent, accuracies fractions.",
        .examples = "  qsync report run/fp32 run/uniform run/qsync\n",
        .least = 1,
        .most = MOST_RUNS};
    run_record run[MOST_RUNS] = {0};
    request asked = {0};
    bool done = false;
    int first = 0, runs = 0;
    option_table table = {0};
    qs_status status = QS_OK;
    OPTIONS_ADD(&table, option_rows, &asked);
    QS_TRY(options_parse(&table, &usage, argc, argv, &first, &done));
    if (done) return QS_OK;
    for (; first < argc; first++)
        QS_GOTO(run_read(argv[first], &run[runs++]));
    QS_GOTO(names_set(run, runs));
    if (asked.json)
        QS_GOTO(runs_json(run, runs));
    else
        runs_print(run, runs);
done:
    for (int i = 0; i < runs; i++) {
        qs_plan_release(&run[i].plan);
        json_decref(run[i].result);
        json_decref(run[i].audit);
    }
    return status;
}
