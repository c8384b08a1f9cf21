// SPDX-License-Identifier: Apache-2.0
/* The run folder: what was run, what came of it, and how long it took, in files of their own so that metrics can be compared byte by byte.
 */
#include "train_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static qs_status text_write(const qs__setting *setting, const char *name, const char *text) {
    char *path = NULL;
    QS_TRY(qs_path_join(setting->options->run_folder, name, &path));
    qs_status status = qs_file_write(path, text, strlen(text));
    free(path);
    return status;
}

/* ---- config.json -------------------------------------------------------------------------------------------------------------- */

static qs_status settings_text(const qs__setting *setting, const qs__plans *plans, char **json) {
    qs_device_info info;
    char signature[32], hash[32];
    qs_line *line = NULL;
    qs_device_describe(setting->device, &info);
    QS_TRY(qs_line_create(&line));
    qs_line_text(line, "model", setting->graph->name);
    qs_line_text(line, "graph", qs_graph_signature(setting->graph, signature));
    qs_line_integer(line, "ranks", setting->ranks);
    qs_line_integer(line, "global_batch", setting->global_batch);
    qs_line_integer(line, "training_samples", setting->training.count);
    qs_line_integer(line, "test_samples", setting->test.count);
    qs_line_integer(line, "steps", setting->steps);
    qs_line_text(line, "communicator", qs_comm_name(setting->comm));
    qs_line_text(line, "backend", info.backend);
    qs_line_text(line, "device", info.cpu);
    qs_line_text(line, "isa", info.isa);
    qs_line_text(line, "library", info.library);
    qs_line_integer(line, "threads", info.threads);
    if (setting->start_weights) {
        const qs_weights_choice *choice = &setting->options->start_choice;
        snprintf(hash, sizeof hash, "xxh64:%016llx", (unsigned long long)setting->start_hash);
        qs_line_text(line, "start_weights", setting->start_weights);
        qs_line_text(line, "start_weights_hash", hash);
        if (choice->fresh) qs_line_text(line, "start_new", choice->fresh);
        if (choice->unused) qs_line_text(line, "start_unused", choice->unused);
    }
    if (setting->options->resume) {
        qs_line_text(line, "resume", setting->options->resume);
        qs_line_integer(line, "resumed_after_step", setting->resumed);
    }
    if (setting->options->watch_plan) qs_line_text(line, "watch_plan", setting->options->watch_plan);
    if (setting->options->adaptation) qs_line_integer(line, "adapt_every", setting->options->adaptation->every);
    if (plans->count > 0) qs_line_integer(line, "plan_from_step", plans->present.first_step + 1);
    return qs_line_finish(line, json);
}

static qs_status config_write(const qs__setting *setting, const qs__plans *plans) {
    char *settings = NULL, *job = NULL, *cluster = NULL, *all = NULL;
    qs_status status = QS_OK;
    QS_GOTO(settings_text(setting, plans, &settings));
    QS_GOTO(qs_job_text(setting->job, &job));
    QS_GOTO(qs_cluster_text(setting->options->cluster, &cluster));
    QS_GOTO(qs_format_text(&all, "{\"schema\":\"" QS_SCHEMA("run") "\",\n\"settings\":%s,\n\"job\":%s,\n\"cluster\":%s}\n", settings, job,
                           cluster));
    QS_GOTO(text_write(setting, "config.json", all));
done:
    free(settings);
    free(job);
    free(cluster);
    free(all);
    return status;
}

/* ---- graph.json --------------------------------------------------------------------------------------------------------------- */

static qs_status graph_write(const qs__setting *setting) {
    char *text = NULL;
    QS_TRY(qs_graph_text(setting->graph, &text));
    const qs_status status = text_write(setting, "graph.json", text);
    free(text);
    return status;
}

/* ---- plan.json ---------------------------------------------------------------------------------------------------------------- */

/* What training without a plan does, as a plan. */
static qs_status fp32_plan_fill(const qs__setting *setting, qs_plan *out) {
    const qs_cluster *cluster = setting->options->cluster;
    const qs_graph *graph = setting->graph;
    snprintf(out->planner, sizeof out->planner, "fp32");
    qs_graph_signature(graph, out->graph);
    qs_cluster_signature(cluster, out->cluster);
    out->job = *setting->job;
    QS_TRY(qs_allocate(1, sizeof *out->recipe, &out->recipe));
    out->recipes = 1;
    QS_TRY(qs_recipe_builtin("fp32", out->recipe));
    QS_TRY(qs_allocate((size_t)cluster->classes, sizeof *out->class_, &out->class_));
    out->classes = cluster->classes;
    for (int i = 0; i < cluster->classes; i++) {
        qs_class_plan *one = &out->class_[i];
        memcpy(one->class_name, cluster->class_[i].name, sizeof one->class_name);
        one->batch = setting->job->batch;
        QS_TRY(qs_allocate((size_t)graph->nodes, sizeof *one->operator_, &one->operator_));
        for (int n = graph->samples.inputs; n < graph->nodes; n++) {
            if (graph->node[n].op->kind != QS_ADJUSTABLE) continue;
            qs_operator_choice *choice = &one->operator_[one->operators++];
            snprintf(choice->name, sizeof choice->name, "%s", graph->node[n].name);
            snprintf(choice->recipe, sizeof choice->recipe, "fp32");
        }
    }
    return QS_OK;
}

static qs_status plan_write(const qs__setting *setting, const qs_plan *plan) {
    char *path = NULL;
    qs_plan fp32 = {0};
    qs_status status = QS_OK;
    QS_GOTO(qs_path_join(setting->options->run_folder, "plan.json", &path));
    if (plan) {
        qs_plan effective = *plan;
        effective.job = *setting->job;
        effective.without_job = false;
        status = qs_plan_write(path, &effective);
    } else {
        QS_GOTO(fp32_plan_fill(setting, &fp32));
        status = qs_plan_write(path, &fp32);
    }
done:
    qs_plan_release(&fp32);
    free(path);
    return status;
}

/* ---- metrics.jsonl -------------------------------------------------------------------------------------------------------------- */

/* What an earlier run in this folder ended with must not be taken for the end of this one. */
static qs_status earlier_remove(const char *folder) {
    static const char *const names[] = {"result.json", "timing.json", "audit.json", "trace.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = NULL;
        QS_TRY(qs_path_join(folder, names[i], &path));
        const int error = remove(path) == 0 ? 0 : errno;
        free(path);
        if (error != 0 && error != ENOENT) return qs_fail(QS_FAILED, "%s/%s: cannot be removed: %s", folder, names[i], strerror(error));
    }
    return QS_OK;
}

qs_status qs__folder_open(qs__setting *setting, const qs__plans *plans) {
    const char *folder = setting->options->run_folder;
    char *path = NULL;
    if (setting->rank != 0 || !folder) return QS_OK;
    QS_TRY(qs_folder_make(folder));
    QS_TRY(earlier_remove(folder));
    QS_TRY(config_write(setting, plans));
    QS_TRY(graph_write(setting));
    QS_TRY(plan_write(setting, plans->present.plan));
    QS_TRY(qs_path_join(folder, "metrics.jsonl", &path));
    setting->metrics = fopen(path, "we");
    const qs_status status = setting->metrics ? QS_OK : qs_fail(QS_FAILED, "%s: cannot be written: %s", path, strerror(errno));
    free(path);
    return status;
}

qs_status qs__folder_plan(const qs__setting *setting, const qs__plans *plans) {
    if (!setting->metrics) return QS_OK;
    QS_TRY(plan_write(setting, plans->present.plan));
    return config_write(setting, plans);
}

static qs_status line_start(const char *type, int64_t epoch, const char *steps, int64_t step, qs_line **out) {
    QS_TRY(qs_line_create(out));
    qs_line_text(*out, "type", type);
    qs_line_integer(*out, "epoch", epoch + 1);
    if (steps) qs_line_integer(*out, steps, step);
    return QS_OK;
}

/* Lines reach the file as they are made, so that a run can be watched. */
static qs_status line_append(const qs__setting *setting, qs_line *line) {
    char *json = NULL;
    QS_TRY(qs_line_finish(line, &json));
    bool written = fprintf(setting->metrics, "%s\n", json) > 0 && fflush(setting->metrics) == 0;
    free(json);
    if (written) return QS_OK;
    return qs_fail(QS_FAILED, "%s/metrics.jsonl: cannot be written: %s", setting->options->run_folder, strerror(errno));
}

qs_status qs__metrics_interval(const qs__setting *setting, int64_t epoch, const qs__counters *counters, const qs__sums *sums) {
    qs_line *line = NULL;
    if (!setting->metrics) return QS_OK;
    QS_TRY(line_start("step", epoch, "step", counters->step + 1, &line));
    qs_line_integer(line, "samples", (int64_t)sums->samples);
    qs_line_number(line, "loss", qs__mean(sums->loss, sums));
    qs_line_number(line, "accuracy", qs__mean(sums->correct, sums));
    qs_line_number(line, "learning_rate", qs_learning_rate(setting->job, counters->step, setting->steps_per_epoch));
    qs_line_number(line, "loss_scale", counters->scale.value);
    return line_append(setting, line);
}

qs_status qs__metrics_epoch(const qs__setting *setting, int64_t epoch, const qs__counters *counters, const qs__sums *training,
                            const qs_evaluation *test, uint64_t weights) {
    char hash[32];
    qs_line *line = NULL;
    if (!setting->metrics) return QS_OK;
    QS_TRY(line_start("epoch", epoch, "steps", counters->step, &line));
    qs_line_number(line, "training_loss", qs__mean(training->loss, training));
    qs_line_number(line, "training_accuracy", qs__mean(training->correct, training));
    if (test) {
        qs_line_number(line, "test_loss", test->loss);
        qs_line_number(line, "test_accuracy", test->accuracy);
        for (int i = 0; i < test->measures; i++) {
            char key[32];
            snprintf(key, sizeof key, "test_%s", test->measure[i].name);
            qs_line_number(line, key, test->measure[i].value);
        }
    }
    if (counters->scale.dynamic) qs_line_integer(line, "skipped_steps", counters->skipped);
    snprintf(hash, sizeof hash, "xxh64:%016llx", (unsigned long long)weights);
    qs_line_text(line, "weights", hash);
    return line_append(setting, line);
}

qs_status qs__metrics_planned(const qs__setting *setting, const qs__counters *counters, const qs_evaluation *planned) {
    qs_line *line = NULL;
    if (!setting->metrics || isnan(planned->accuracy)) return QS_OK;
    QS_TRY(line_start("planned", (counters->step - 1) / setting->steps_per_epoch, "steps", counters->step, &line));
    qs_line_number(line, "test_loss", planned->loss);
    qs_line_number(line, "test_accuracy", planned->accuracy);
    return line_append(setting, line);
}

qs_status qs__metrics_gradient(const qs__setting *setting, int64_t epoch, int64_t step, int node, double variance) {
    qs_line *line = NULL;
    if (!setting->metrics) return QS_OK;
    QS_TRY(line_start("gradient", epoch, "step", step + 1, &line));
    qs_line_text(line, "operator", setting->graph->node[node].name);
    qs_line_number(line, "variance", variance);
    return line_append(setting, line);
}

qs_status qs__metrics_norm_gap(const qs__setting *setting, int64_t epoch, int64_t step, const qs__norm_gap_summary *summary) {
    qs_line *line = NULL;
    if (!setting->metrics) return QS_OK;
    QS_TRY(line_start("norm-gap", epoch, "step", step + 1, &line));
    qs_line_number(line, "gap", summary->mean);
    qs_line_number(line, "statistics_gap", summary->statistics_mean);
    qs_line_number(line, "worst_gap", summary->worst);
    qs_line_text(line, "worst", setting->graph->node[summary->worst_node].name);
    return line_append(setting, line);
}

static void figures_put(qs_line *line, int ranks, const qs__replan_figures *figures) {
    char key[48];
    for (int rank = 0; rank < ranks; rank++) {
        snprintf(key, sizeof key, "schedule_before.%d", rank);
        qs_line_text(line, key, figures[rank].schedule_before);
        snprintf(key, sizeof key, "schedule.%d", rank);
        qs_line_text(line, key, figures[rank].schedule);
        snprintf(key, sizeof key, "arena_bytes_before.%d", rank);
        qs_line_integer(line, key, figures[rank].arena_before);
        snprintf(key, sizeof key, "arena_bytes.%d", rank);
        qs_line_integer(line, key, figures[rank].arena);
    }
}

qs_status qs__metrics_replan(const qs__setting *setting, int64_t epoch, int64_t step, const qs_plan *plan,
                             const qs__replan_figures *figures) {
    char key[QS_NAME + 32];
    qs_line *line = NULL;
    if (!setting->metrics) return QS_OK;
    QS_TRY(line_start("replan", epoch, "step", step + 1, &line));
    qs_line_text(line, "planner", plan->planner);
    for (int c = 0; c < plan->classes; c++) {
        const qs_class_plan *one = &plan->class_[c];
        snprintf(key, sizeof key, "batch.%s", one->class_name);
        qs_line_integer(line, key, one->idle ? 0 : one->batch > 0 ? one->batch : setting->job->batch);
    }
    figures_put(line, setting->ranks, figures);
    return line_append(setting, line);
}

qs_status qs__metrics_decision(const qs__setting *setting, int64_t epoch, int64_t step, const qs__decision *one) {
    static const char *const kinds[] = {"compute", "memory", "all-reduce"};
    const qs_cluster *cluster = setting->options->cluster;
    const qs__bargain *bargain = &one->bargain;
    char key[QS_NAME + 32];
    qs_line *line = NULL;
    if (!setting->metrics) return QS_OK;
    QS_TRY(line_start("adapt", epoch, "step", step + 1, &line));
    qs_line_text(line, "decision", one->what);
    qs_line_text(line, "reason", one->reason);
    qs_line_text(line, "class", cluster->class_[one->paced.class_index].name);
    qs_line_text(line, "kind", kinds[one->paced.kind]);
    qs_line_number(line, "pace_before", one->paced.from);
    qs_line_number(line, "pace", one->paced.to);
    if (one->waited) qs_line_text(line, "cause", one->foreign ? "foreign load" : "own");
    for (int c = 0; c < cluster->classes; c++) {
        snprintf(key, sizeof key, "compute.%s", cluster->class_[c].name);
        qs_line_number(line, key, one->seen[c].compute);
        snprintf(key, sizeof key, "memory.%s", cluster->class_[c].name);
        qs_line_number(line, key, one->seen[c].memory);
        snprintf(key, sizeof key, "waited.%s", cluster->class_[c].name);
        if (one->waited) qs_line_number(line, key, one->waited[c]);
    }
    qs_line_number(line, "all_reduce", one->seen[0].all_reduce);
    if (bargain->steps > 0) {
        qs_line_number(line, "iteration_us", bargain->present_us);
        qs_line_number(line, "iteration_us_replanned", bargain->next_us);
        qs_line_number(line, "omega", bargain->present_omega);
        qs_line_number(line, "omega_replanned", bargain->next_omega);
        qs_line_number(line, "switch_us", bargain->cost_us);
        qs_line_integer(line, "expected_steps", bargain->steps);
    }
    return line_append(setting, line);
}

qs_status qs__metrics_promotion(const qs__setting *setting, int64_t epoch, int64_t step, const qs__promotion *one,
                                const qs__replan_figures *figures, const char *refusal) {
    qs_line *line = NULL;
    if (!setting->metrics) return QS_OK;
    QS_TRY(line_start(refusal ? "promotion-refused" : "promotion", epoch, "step", step + 1, &line));
    qs_line_text(line, "tensor", one->tensor);
    qs_line_text(line, "from", one->from);
    qs_line_text(line, "to", one->to);
    qs_line_number(line, "overflow_ratio", one->rise.overflow_ratio);
    qs_line_number(line, "underflow_ratio", one->rise.underflow_ratio);
    qs_line_integer(line, "rank", one->rise.rank);
    qs_line_number(line, one->overflowed ? "rank_overflow_ratio" : "rank_underflow_ratio", one->rise.rank_ratio);
    if (refusal)
        qs_line_text(line, "reason", refusal);
    else
        figures_put(line, setting->ranks, figures);
    return line_append(setting, line);
}

/* What the plan's first class that rounds the tensor at a place says of it; NULL: none does. */
static const qs_tensor_choice *rounded_tensor(const qs_plan *plan, const char *name, bool gradient) {
    for (int c = 0; plan && c < plan->classes; c++) {
        const qs_tensor_choice *tensor = qs_class_plan_tensor(&plan->class_[c], name);
        if (tensor && (gradient ? tensor->gradient.format : tensor->value.format)) return tensor;
    }
    return NULL;
}

qs_status qs__metrics_rounding(const qs__setting *setting, int64_t epoch, const qs_plan *plan, const qs__rounding *rounding) {
    for (int place = 0; setting->metrics && place < rounding->places; place++) {
        const qs__rounding_sums *sums = &rounding->epoch[place];
        const bool gradient = place >= rounding->values;
        const qs_tensor_choice *tensor = rounded_tensor(plan, qs__rounding_name(setting->graph, place), gradient);
        char text[64];
        qs_line *line = NULL;
        if (sums->overflows + sums->underflows == 0 || !tensor) continue;
        QS_TRY(line_start("rounding", epoch, NULL, 0, &line));
        qs_line_text(line, "tensor", tensor->name);
        qs_line_text(line, "part", gradient ? "gradient" : "value");
        qs_line_text(line, "format", qs_quantizer_text(gradient ? &tensor->gradient : &tensor->value, text));
        qs_line_number(line, "overflow_ratio", qs__rounding_share(sums->overflows, sums->elements));
        qs_line_number(line, "underflow_ratio", qs__rounding_share(sums->underflows, sums->elements));
        qs_line_number(line, "worst_overflow_ratio", rounding->worst[place]);
        QS_TRY(line_append(setting, line));
    }
    return QS_OK;
}

qs_status qs__metrics_failure(const qs__setting *setting, int64_t epoch, const qs__failure *failure) {
    static const char *const reasons[] = {"loss", "gradient", "skipping", "divergence", "test-loss"};
    qs_line *line = NULL;
    if (!setting->metrics) return QS_OK;
    QS_TRY(line_start("failure", epoch, "step", failure->step + 1, &line));
    qs_line_text(line, "reason", reasons[failure->reason]);
    if (failure->culprit.tensor[0]) {
        if (failure->rank >= 0) qs_line_integer(line, "rank", failure->rank);
        qs_line_text(line, "operator", failure->culprit.operator_name);
        qs_line_text(line, "tensor", failure->culprit.tensor);
    }
    return line_append(setting, line);
}

/* ---- The end ---------------------------------------------------------------------------------------------------------------------- */

static qs_status timing_write(const qs__setting *setting, const qs__plans *plans, const qs_train_result *result) {
    char key[48], *json = NULL, *text = NULL;
    qs_line *line = NULL;
    QS_TRY(qs_line_create(&line));
    qs_line_integer(line, "steps", result->steps);
    qs_line_number(line, "seconds", result->seconds);
    qs_line_number(line, "median_step_us", result->median_step_us);
    qs_line_number(line, "samples_per_second", result->samples_per_second);
    qs_line_text(line, "unit", result->unit);
    for (int k = 0; k < result->lengths && result->length[k].length > 0; k++) {
        snprintf(key, sizeof key, "steps.length%lld", (long long)result->length[k].length);
        qs_line_integer(line, key, result->length[k].steps);
        snprintf(key, sizeof key, "median_step_us.length%lld", (long long)result->length[k].length);
        qs_line_number(line, key, result->length[k].measured_us);
    }
    for (int rank = 0; rank < result->ranks; rank++) {
        snprintf(key, sizeof key, "reserved_bytes.%d", rank);
        qs_line_integer(line, key, result->reserved_bytes[rank]);
        snprintf(key, sizeof key, "resident_bytes.%d", rank);
        qs_line_integer(line, key, result->audit.rank[rank].measured_rss);
    }
    for (size_t i = 0; i < plans->count; i++) {
        snprintf(key, sizeof key, "replan_us.%lld", (long long)plans->taken[i].step + 1);
        qs_line_number(line, key, plans->taken[i].us);
    }
    for (int64_t w = 0; w < result->windows; w++) {
        const int64_t end = setting->resumed + (w + 1) * result->window_steps;
        snprintf(key, sizeof key, "window_us.%lld", (long long)(end < result->steps ? end : result->steps));
        qs_line_number(line, key, result->window_us[w]);
    }
    if (setting->options->adaptation) qs_line_number(line, "adapting_seconds", result->adapting_seconds);
    QS_TRY(qs_line_finish(line, &json));
    qs_status status = qs_format_text(&text, "%s\n", json);
    if (status == QS_OK) status = text_write(setting, "timing.json", text);
    free(json);
    free(text);
    return status;
}

static qs_status weights_write(const qs__setting *setting, const qs__program *program) {
    char *path = NULL;
    float *trained = NULL, *statistics = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs__executor_copy(program->executor, program->schedule->masters, &trained));
    QS_GOTO(qs__executor_copy(program->executor, program->schedule->running, &statistics));
    QS_GOTO(qs_path_join(setting->options->run_folder, "weights.safetensors", &path));
    status = qs_weights_write(path, setting->graph, trained, statistics);
done:
    free(trained);
    free(statistics);
    free(path);
    return status;
}

qs_status qs__folder_finish(const qs__setting *setting, const qs__plans *plans, const qs_train_result *result, const char *trace,
                            const qs__program *weights) {
    char *audit = NULL;
    if (!setting->metrics) return QS_OK;
    QS_TRY(timing_write(setting, plans, result));
    QS_TRY(qs_audit_text(&result->audit, &audit));
    const qs_status status = text_write(setting, "audit.json", audit);
    free(audit);
    QS_TRY(status);
    if (trace) QS_TRY(text_write(setting, "trace.json", trace));
    return weights ? weights_write(setting, weights) : QS_OK;
}
