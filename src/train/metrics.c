// SPDX-License-Identifier: Apache-2.0
/* The run folder: what was run, what came of it, and how long it took, in files of their own so that metrics can be compared byte by byte.
 */
#include "train_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_writer(const qs__trainer *trainer) {
    return trainer->rank == 0 && trainer->options->run_folder;
}

static qs_status text_write(const qs__trainer *trainer, const char *name, const char *text) {
    char *path = NULL;
    QS_TRY(qs_path_join(trainer->options->run_folder, name, &path));
    qs_status status = qs_file_write(path, text, strlen(text));
    free(path);
    return status;
}

/* ---- config.json -------------------------------------------------------------------------------------------------------------- */

static qs_status settings_text(const qs__trainer *trainer, char **json) {
    qs_device_info info;
    char signature[32];
    qs_line *line = NULL;
    qs_device_describe(trainer->device, &info);
    QS_TRY(qs_line_create(&line));
    qs_line_text(line, "model", trainer->graph->name);
    qs_line_text(line, "graph", qs_graph_signature(trainer->graph, signature));
    qs_line_integer(line, "ranks", trainer->ranks);
    qs_line_integer(line, "global_batch", trainer->global_batch);
    qs_line_integer(line, "training_samples", trainer->training.count);
    qs_line_integer(line, "test_samples", trainer->test.count);
    qs_line_integer(line, "steps", trainer->steps);
    qs_line_text(line, "communicator", qs_comm_name(trainer->comm));
    qs_line_text(line, "cpu", info.cpu);
    qs_line_text(line, "isa", info.isa);
    qs_line_text(line, "library", info.library);
    qs_line_integer(line, "threads", info.threads);
    if (trainer->options->start_weights) qs_line_text(line, "start_weights", trainer->options->start_weights);
    if (trainer->options->resume) {
        qs_line_text(line, "resume", trainer->options->resume);
        qs_line_integer(line, "resumed_after_step", trainer->first_step);
    }
    if (trainer->options->watch_plan) qs_line_text(line, "watch_plan", trainer->options->watch_plan);
    if (trainer->plan_switches > 0) qs_line_integer(line, "plan_from_step", trainer->plan_step + 1);
    return qs_line_finish(line, json);
}

static qs_status config_write(const qs__trainer *trainer) {
    char *settings = NULL, *job = NULL, *cluster = NULL, *all = NULL;
    qs_status status = QS_OK;
    QS_GOTO(settings_text(trainer, &settings));
    QS_GOTO(qs_job_text(trainer->job, &job));
    QS_GOTO(qs_cluster_text(trainer->options->cluster, &cluster));
    QS_GOTO(qs_format_text(&all, "{\"schema\":\"qsync/run/1\",\n\"settings\":%s,\n\"job\":%s,\n\"cluster\":%s}\n", settings, job, cluster));
    QS_GOTO(text_write(trainer, "config.json", all));
done:
    free(settings);
    free(job);
    free(cluster);
    free(all);
    return status;
}

/* ---- plan.json ---------------------------------------------------------------------------------------------------------------- */

static qs_status fp32_class_fill(const qs__trainer *trainer, const qs_class *one, qs_class_plan *out) {
    const qs_graph *graph = trainer->graph;
    memcpy(out->class_name, one->name, sizeof out->class_name);
    out->batch = trainer->job->batch;
    QS_TRY(qs_allocate((size_t)graph->nodes, sizeof *out->operator_, &out->operator_));
    for (int n = 1; n < graph->nodes; n++) {
        if (graph->node[n].op->kind != QS_ADJUSTABLE) continue;
        qs_operator_choice *choice = &out->operator_[out->operators++];
        snprintf(choice->name, sizeof choice->name, "%s", graph->node[n].name);
        snprintf(choice->recipe, sizeof choice->recipe, "fp32");
    }
    return QS_OK;
}

/* What training without a plan does, as a plan. */
static qs_status fp32_plan_fill(const qs__trainer *trainer, qs_plan *out) {
    const qs_cluster *cluster = trainer->options->cluster;
    snprintf(out->planner, sizeof out->planner, "fp32");
    qs_graph_signature(trainer->graph, out->graph);
    qs_cluster_signature(cluster, out->cluster);
    out->job = *trainer->job;
    QS_TRY(qs_allocate(1, sizeof *out->recipe, &out->recipe));
    out->recipes = 1;
    QS_TRY(qs_recipe_builtin("fp32", out->recipe));
    QS_TRY(qs_allocate((size_t)cluster->classes, sizeof *out->class_, &out->class_));
    out->classes = cluster->classes;
    for (int i = 0; i < cluster->classes; i++)
        QS_TRY(fp32_class_fill(trainer, &cluster->class_[i], &out->class_[i]));
    return QS_OK;
}

static qs_status plan_write_to(const qs__trainer *trainer, const char *path) {
    if (trainer->plan) {
        qs_plan effective = *trainer->plan;
        effective.job = *trainer->job;
        effective.without_job = false;
        return qs_plan_write(path, &effective);
    }
    qs_plan plan = {0};
    qs_status status = fp32_plan_fill(trainer, &plan);
    if (status == QS_OK) status = qs_plan_write(path, &plan);
    qs_plan_release(&plan);
    return status;
}

static qs_status plan_write(const qs__trainer *trainer) {
    char *path = NULL;
    QS_TRY(qs_path_join(trainer->options->run_folder, "plan.json", &path));
    qs_status status = plan_write_to(trainer, path);
    free(path);
    return status;
}

/* ---- metrics.jsonl -------------------------------------------------------------------------------------------------------------- */

static qs_status metrics_create(qs__trainer *trainer) {
    char *path = NULL;
    QS_TRY(qs_path_join(trainer->options->run_folder, "metrics.jsonl", &path));
    trainer->metrics = fopen(path, "we");
    qs_status status = trainer->metrics ? QS_OK : qs_fail(QS_FAILED, "%s: cannot be written: %s", path, strerror(errno));
    free(path);
    return status;
}

/* What an earlier run in this folder ended with must not be taken for the end of this one. */
static qs_status earlier_remove(const qs__trainer *trainer, const char *name) {
    char *path = NULL;
    QS_TRY(qs_path_join(trainer->options->run_folder, name, &path));
    const int error = remove(path) == 0 ? 0 : errno;
    free(path);
    if (error == 0 || error == ENOENT) return QS_OK;
    return qs_fail(QS_FAILED, "%s/%s: cannot be removed: %s", trainer->options->run_folder, name, strerror(error));
}

qs_status qs__metrics_open(qs__trainer *trainer) {
    if (!is_writer(trainer)) return QS_OK;
    QS_TRY(qs_folder_make(trainer->options->run_folder));
    QS_TRY(earlier_remove(trainer, "result.json"));
    QS_TRY(earlier_remove(trainer, "timing.json"));
    QS_TRY(earlier_remove(trainer, "audit.json"));
    QS_TRY(earlier_remove(trainer, "trace.json"));
    QS_TRY(config_write(trainer));
    QS_TRY(plan_write(trainer));
    return metrics_create(trainer);
}

/* Lines reach the file as they are made, so that a run can be watched. */
static qs_status line_append(qs__trainer *trainer, qs_line *line) {
    char *json = NULL;
    QS_TRY(qs_line_finish(line, &json));
    bool written = fprintf(trainer->metrics, "%s\n", json) > 0 && fflush(trainer->metrics) == 0;
    free(json);
    if (written) return QS_OK;
    return qs_fail(QS_FAILED, "%s/metrics.jsonl: cannot be written: %s", trainer->options->run_folder, strerror(errno));
}

qs_status qs__metrics_interval(qs__trainer *trainer, int64_t epoch, const qs__sums *sums) {
    qs_line *line = NULL;
    if (!is_writer(trainer)) return QS_OK;
    QS_TRY(qs_line_create(&line));
    qs_line_text(line, "type", "step");
    qs_line_integer(line, "epoch", epoch + 1);
    qs_line_integer(line, "step", trainer->step + 1);
    qs_line_integer(line, "samples", (int64_t)sums->samples);
    qs_line_number(line, "loss", sums->loss / sums->samples);
    qs_line_number(line, "accuracy", sums->correct / sums->samples);
    qs_line_number(line, "learning_rate", qs_learning_rate(trainer->job, trainer->step, trainer->steps_per_epoch));
    qs_line_number(line, "loss_scale", trainer->scale.value);
    return line_append(trainer, line);
}

qs_status qs__metrics_epoch(qs__trainer *trainer, int64_t epoch, const qs__sums *training, const qs_evaluation *test) {
    char hash[32];
    qs_line *line = NULL;
    if (!is_writer(trainer)) return QS_OK;
    QS_TRY(qs_line_create(&line));
    qs_line_text(line, "type", "epoch");
    qs_line_integer(line, "epoch", epoch + 1);
    qs_line_integer(line, "steps", trainer->step);
    qs_line_number(line, "training_loss", training->loss / training->samples);
    qs_line_number(line, "training_accuracy", training->correct / training->samples);
    if (qs__evaluates(trainer)) {
        qs_line_number(line, "test_loss", test->loss);
        qs_line_number(line, "test_accuracy", test->accuracy);
    }
    if (trainer->scale.dynamic) qs_line_integer(line, "skipped_steps", trainer->skipped);
    snprintf(hash, sizeof hash, "xxh64:%016llx", (unsigned long long)qs__weights_hash(trainer));
    qs_line_text(line, "weights", hash);
    return line_append(trainer, line);
}

qs_status qs__metrics_gradient(qs__trainer *trainer, int64_t epoch, int node, double variance) {
    qs_line *line = NULL;
    if (!is_writer(trainer)) return QS_OK;
    QS_TRY(qs_line_create(&line));
    qs_line_text(line, "type", "gradient");
    qs_line_integer(line, "epoch", epoch + 1);
    qs_line_integer(line, "step", trainer->step + 1);
    qs_line_text(line, "operator", trainer->graph->node[node].name);
    qs_line_number(line, "variance", variance);
    return line_append(trainer, line);
}

qs_status qs__metrics_norm_gap(qs__trainer *trainer, int64_t epoch, const qs__norm_gap_summary *summary) {
    qs_line *line = NULL;
    if (!is_writer(trainer)) return QS_OK;
    QS_TRY(qs_line_create(&line));
    qs_line_text(line, "type", "norm-gap");
    qs_line_integer(line, "epoch", epoch + 1);
    qs_line_integer(line, "step", trainer->step + 1);
    qs_line_number(line, "gap", summary->mean);
    qs_line_number(line, "statistics_gap", summary->statistics_mean);
    qs_line_number(line, "worst_gap", summary->worst);
    qs_line_text(line, "worst", trainer->graph->node[summary->worst_node].name);
    return line_append(trainer, line);
}

static void replan_rank_put(qs_line *line, int rank, const qs__replan_figures *figures) {
    char key[48];
    snprintf(key, sizeof key, "schedule_before.%d", rank);
    qs_line_text(line, key, figures->schedule_before);
    snprintf(key, sizeof key, "schedule.%d", rank);
    qs_line_text(line, key, figures->schedule);
    snprintf(key, sizeof key, "arena_bytes_before.%d", rank);
    qs_line_integer(line, key, figures->arena_before);
    snprintf(key, sizeof key, "arena_bytes.%d", rank);
    qs_line_integer(line, key, figures->arena);
}

qs_status qs__metrics_replan(qs__trainer *trainer, int64_t epoch, const qs__replan_figures *figures) {
    qs_line *line = NULL;
    if (!is_writer(trainer)) return QS_OK;
    QS_TRY(plan_write(trainer));
    QS_TRY(config_write(trainer));
    QS_TRY(qs_line_create(&line));
    qs_line_text(line, "type", "replan");
    qs_line_integer(line, "epoch", epoch + 1);
    qs_line_integer(line, "step", trainer->step + 1);
    qs_line_text(line, "planner", trainer->plan->planner);
    for (int rank = 0; rank < trainer->ranks; rank++)
        replan_rank_put(line, rank, &figures[rank]);
    return line_append(trainer, line);
}

qs_status qs__metrics_promotion(qs__trainer *trainer, int64_t epoch, const qs__promotion *one, const qs__replan_figures *figures,
                                const char *refusal) {
    qs_line *line = NULL;
    if (!is_writer(trainer)) return QS_OK;
    if (!refusal) QS_TRY(plan_write(trainer));
    if (!refusal) QS_TRY(config_write(trainer));
    QS_TRY(qs_line_create(&line));
    qs_line_text(line, "type", refusal ? "promotion-refused" : "promotion");
    qs_line_integer(line, "epoch", epoch + 1);
    qs_line_integer(line, "step", trainer->step + 1);
    qs_line_text(line, "tensor", one->tensor);
    qs_line_text(line, "from", one->from);
    qs_line_text(line, "to", one->to);
    qs_line_number(line, "overflow_ratio", one->rise.overflow_ratio);
    qs_line_number(line, "underflow_ratio", one->rise.underflow_ratio);
    qs_line_integer(line, "rank", one->rise.rank);
    qs_line_number(line, one->overflowed ? "rank_overflow_ratio" : "rank_underflow_ratio", one->rise.rank_ratio);
    if (refusal) qs_line_text(line, "reason", refusal);
    for (int rank = 0; !refusal && rank < trainer->ranks; rank++)
        replan_rank_put(line, rank, &figures[rank]);
    return line_append(trainer, line);
}

static qs_status rounding_append(qs__trainer *trainer, int64_t epoch, int place) {
    const qs__rounding_sums *sums = &trainer->rounding.epoch[place];
    const qs_tensor_choice *tensor;
    bool gradient;
    char text[64];
    qs_line *line = NULL;
    if (sums->overflows + sums->underflows == 0 || !qs__rounding_tensor(trainer, place, &tensor, &gradient)) return QS_OK;
    QS_TRY(qs_line_create(&line));
    qs_line_text(line, "type", "rounding");
    qs_line_integer(line, "epoch", epoch + 1);
    qs_line_text(line, "tensor", tensor->name);
    qs_line_text(line, "part", gradient ? "gradient" : "value");
    qs_line_text(line, "format", qs_quantizer_text(gradient ? &tensor->gradient : &tensor->value, text));
    qs_line_number(line, "overflow_ratio", qs__rounding_share(sums->overflows, sums->elements));
    qs_line_number(line, "underflow_ratio", qs__rounding_share(sums->underflows, sums->elements));
    qs_line_number(line, "worst_overflow_ratio", trainer->rounding.worst[place]);
    return line_append(trainer, line);
}

qs_status qs__metrics_rounding(qs__trainer *trainer, int64_t epoch) {
    qs__rounding *all = &trainer->rounding;
    for (int place = 0; is_writer(trainer) && place < all->places; place++)
        QS_TRY(rounding_append(trainer, epoch, place));
    memset(all->epoch, 0, (size_t)all->places * sizeof *all->epoch);
    memset(all->worst, 0, (size_t)all->places * sizeof *all->worst);
    return QS_OK;
}

qs_status qs__metrics_failure(qs__trainer *trainer, int64_t epoch, const qs__failure *failure) {
    qs_line *line = NULL;
    if (!is_writer(trainer)) return QS_OK;
    QS_TRY(qs_line_create(&line));
    qs_line_text(line, "type", "failure");
    qs_line_integer(line, "epoch", epoch + 1);
    qs_line_integer(line, "step", failure->step + 1);
    qs_line_text(line, "reason", qs__reason_name(failure->reason));
    if (failure->culprit.tensor[0]) {
        if (failure->rank >= 0) qs_line_integer(line, "rank", failure->rank);
        qs_line_text(line, "operator", failure->culprit.operator_name);
        qs_line_text(line, "tensor", failure->culprit.tensor);
    }
    return line_append(trainer, line);
}

/* ---- The end ---------------------------------------------------------------------------------------------------------------------- */

static qs_status timing_write(const qs__trainer *trainer, const qs_train_result *result) {
    char key[48], *json = NULL, *text = NULL;
    qs_line *line = NULL;
    QS_TRY(qs_line_create(&line));
    qs_line_integer(line, "steps", result->steps);
    qs_line_number(line, "seconds", result->seconds);
    qs_line_number(line, "median_step_us", result->median_step_us);
    qs_line_number(line, "images_per_second", result->images_per_second);
    for (int rank = 0; rank < result->ranks; rank++) {
        snprintf(key, sizeof key, "reserved_bytes.%d", rank);
        qs_line_integer(line, key, result->reserved_bytes[rank]);
        snprintf(key, sizeof key, "resident_bytes.%d", rank);
        qs_line_integer(line, key, result->audit.rank[rank].measured_rss);
    }
    for (size_t i = 0; i < trainer->plan_switches; i++) {
        snprintf(key, sizeof key, "replan_us.%lld", (long long)trainer->plan_switch[i].step + 1);
        qs_line_number(line, key, trainer->plan_switch[i].us);
    }
    QS_TRY(qs_line_finish(line, &json));
    qs_status status = qs_format_text(&text, "%s\n", json);
    if (status == QS_OK) status = text_write(trainer, "timing.json", text);
    free(json);
    free(text);
    return status;
}

static qs_status weights_write(const qs__trainer *trainer) {
    const qs__program *program = &trainer->main;
    char *path = NULL;
    float *trained = NULL, *statistics = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs__executor_copy(program->executor, program->schedule->masters, &trained));
    QS_GOTO(qs__executor_copy(program->executor, program->schedule->running, &statistics));
    QS_GOTO(qs_path_join(trainer->options->run_folder, "weights.qsync", &path));
    status = qs_weights_write(path, trainer->graph, trained, statistics);
done:
    free(trained);
    free(statistics);
    free(path);
    return status;
}

static qs_status audit_write(const qs__trainer *trainer, const qs_audit *audit) {
    char *json = NULL;
    QS_TRY(qs_audit_text(audit, &json));
    qs_status status = text_write(trainer, "audit.json", json);
    free(json);
    return status;
}

qs_status qs__metrics_finish(qs__trainer *trainer, const qs_train_result *result, const char *trace, bool failed) {
    if (!is_writer(trainer)) return QS_OK;
    QS_TRY(timing_write(trainer, result));
    QS_TRY(audit_write(trainer, &result->audit));
    if (trace) QS_TRY(text_write(trainer, "trace.json", trace));
    return failed ? QS_OK : weights_write(trainer);
}
