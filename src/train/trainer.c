// SPDX-License-Identifier: Apache-2.0
/* A training run from its options to its end: what stands before the first step, epochs of steps, what happens when an epoch ends, and the
 * figures of the whole run. Before the first step each rank works alone, then all agree, so that whatever one of them lacks stops all with
 * its message. */
#include "train_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Before the first step ---- */

static qs_status model_choose(qs__setting *setting, qs__present *present, qs__rounding *rounding) {
    const qs_train_options *options = setting->options;
    const int wanted = qs_cluster_ranks(options->cluster);
    if (wanted != setting->ranks)
        return qs_fail(QS_USAGE, "the cluster has %d ranks but %d were started; start %d, or change the counts of its classes", wanted,
                       setting->ranks, wanted);
    setting->graph = options->graph ? options->graph : setting->opened;
    QS_TRY(qs_graph_lengths_make(setting->graph, &setting->job->lengths, &setting->lengths));
    if (options->norm_gap_every != 0) QS_TRY(qs__norm_gap_check(setting->graph));
    setting->class_ = qs__class_of(options->cluster, setting->rank);
    present->plan = options->plan;
    QS_TRY(qs__rounding_create(setting->graph, rounding));
    QS_TRY(qs__thresholds_set(setting, present));
    QS_TRY(qs__promotions_resume(setting, present, rounding));
    QS_TRY(qs__plan_choose(setting, present));
    qs__rounding_follow(rounding, setting->graph, present->class_plan);
    return QS_OK;
}

static qs_status part_load(const qs__setting *setting, qs_part part, int64_t limit, qs_dataset *out) {
    const qs_train_options *options = setting->options;
    const qs_dataset *own = part == QS_PART_TRAINING ? options->training : options->test;
    return own ? qs_samples_lend(own, setting->graph, limit, out)
               : qs_job_samples(setting->job, setting->graph, options->data_folder, part, limit, out);
}

static qs_status sets_load(qs__setting *setting, qs__plans *plans) {
    const qs_train_options *options = setting->options;
    const int64_t *batch;
    const uint64_t seed = setting->job->seed;
    QS_TRY(part_load(setting, QS_PART_TRAINING, options->training_limit, &setting->training));
    QS_TRY(qs__plan_deal(setting, &plans->present, &setting->global_batch));
    batch = plans->present.batch;
    QS_TRY(qs_sharding_create(setting->training.count, setting->ranks, batch, seed, true, &plans->sharding));
    QS_TRY(qs_sharding_lengths(&plans->sharding, &setting->job->lengths, setting->training.length));
    setting->steps_per_epoch = qs_sharding_steps(&plans->sharding);
    setting->steps = setting->steps_per_epoch * setting->job->epochs;
    if (options->max_steps > 0 && options->max_steps < setting->steps) setting->steps = options->max_steps;
    if (options->test_limit < 0) return QS_OK;
    QS_TRY(part_load(setting, QS_PART_TEST, options->test_limit, &setting->test));
    QS_TRY(qs_sharding_create(setting->test.count, setting->ranks, batch, seed, false, &plans->test_sharding));
    return qs_sharding_lengths(&plans->test_sharding, &setting->job->lengths, setting->test.length);
}

/* A new head starts anew, whatever else the file's choice leaves out. */
static qs_status weights_load(qs__setting *setting, const qs__program *main) {
    const int head = qs_model_has_new_head(setting->job->model) ? qs_graph_head(setting->graph) : -1;
    qs_weights_choice choice = setting->options->start_choice;
    char *fresh = NULL;
    if (head >= 0) {
        const qs_node *node = &setting->graph->node[head];
        if (setting->rank == 0)
            qs_log(QS_LOG_INFO, "%s is new, of %lld outputs: its parameters start anew", node->name, (long long)node->outputs);
        QS_TRY(qs_format_text(&fresh, "%s.*%s%s", node->name, choice.fresh ? "," : "", choice.fresh ? choice.fresh : ""));
        for (char *at = fresh; at < fresh + strlen(node->name); at++)
            if (strchr("*[]\\,", *at)) *at = '?'; /* no pattern of its own */
        choice.fresh = fresh;
    }
    const qs_status status = qs__weights_load(main, setting->graph, setting->start_weights, &choice, &setting->start_hash);
    free(fresh);
    return status;
}

/* First weights of the options' file, which every rank has, or of the model's own, which rank 0 has and sends, as it sent the graph. */
static qs_status weights_start(qs__setting *setting, const qs__program *main) {
    const qs_train_options *options = setting->options;
    const char *model = setting->job->model;
    const bool own = !options->resume && !options->start_weights && qs_model_has_weights(model);
    QS_TRY(qs_comm_compare(setting->comm, "source of first weights", own));
    if (!options->resume) setting->start_weights = options->start_weights;
    if (own) {
        snprintf(setting->own_weights, sizeof setting->own_weights, "%.*s", (int)(qs_model_changes(model) - model), model);
        setting->start_weights = setting->own_weights;
    }
    const bool here = setting->start_weights && (!own || setting->rank == 0);
    QS_TRY(qs_comm_agree(setting->comm, here ? weights_load(setting, main) : QS_OK));
    return own ? qs__weights_send(main, setting->comm) : QS_OK;
}

static qs_status create_alone(qs__trainer *trainer) {
    qs__setting *setting = &trainer->setting;
    const qs_train_options *options = setting->options;
    qs__plans *plans = &trainer->plans;
    qs__counters *counters = &trainer->counters;
    QS_TRY(model_choose(setting, &plans->present, &trainer->rounding));
    const int64_t before = qs_resident_bytes();
    QS_TRY(sets_load(setting, plans));
    qs_heap_trim();
    const int64_t grown = qs_resident_bytes() - before;
    setting->data_bytes = grown > 0 ? grown : 0;
    QS_TRY(qs__plans_start(setting, plans));
    const qs__program *main = qs__main(&plans->present);
    QS_TRY(qs_executor_initialize(main->executor, setting->graph, setting->job->seed));
    counters->scale = qs_loss_scale_start(setting->job);
    counters->scale.growth_steps = options->scale_growth > 0 ? options->scale_growth : setting->steps_per_epoch;
    trainer->failure.step = -1;
    if (options->resume) {
        QS_TRY(qs__state_load(setting, &plans->present, counters, &trainer->rounding));
        setting->resumed = plans->present.first_step = counters->step;
    }
    QS_TRY(qs__plans_watch(setting, plans, counters->step));
    QS_TRY(qs__adapt_create(setting, plans, &trainer->adapting));
    QS_TRY(qs_allocate((size_t)setting->steps, sizeof *trainer->length, &trainer->length));
    return qs_allocate((size_t)setting->steps, sizeof *trainer->seconds, &trainer->seconds);
}

static qs_status algorithm_set(const qs_job *job, qs_comm *comm) {
    QS_TRY(qs_comm_wire_check(job->wire, job->algorithm));
    return qs_comm_algorithm_set(comm, job->algorithm);
}

qs_status qs__trainer_create(const qs_train_options *options, qs_device *device, qs_comm *comm, qs__trainer *out) {
    *out = (qs__trainer){.setting = {.options = options,
                                     .job = options->job,
                                     .device = device,
                                     .comm = comm,
                                     .rank = qs_comm_rank(comm),
                                     .ranks = qs_comm_size(comm)}};
    if (!options->graph) QS_TRY(qs_model_share(options->job, options->training, comm, &out->setting.opened));
    QS_TRY(qs_comm_agree(comm, algorithm_set(options->job, comm)));
    QS_TRY(qs_devices_join(device, comm));
    QS_TRY(qs_comm_agree(comm, create_alone(out)));
    QS_TRY(weights_start(&out->setting, qs__main(&out->plans.present)));
    QS_TRY(qs__inputs_agree(&out->setting, &out->plans.present, &out->counters, &out->rounding));
    QS_TRY(qs_comm_agree(comm, qs__folder_open(&out->setting, &out->plans)));
    qs_heap_trim();
    return QS_OK;
}

void qs__trainer_release(qs__trainer *trainer) {
    qs__setting *setting = &trainer->setting;
    const qs_train_options *options = setting->options;
    if (!options) return; /* it was refused before anything was set up */
    qs__plans_release(&trainer->plans);
    if (!options->test) qs_dataset_release(&setting->test);
    if (!options->training) qs_dataset_release(&setting->training);
    qs_graph_lengths_release(&setting->lengths);
    qs_graph_release(setting->opened);
    free(trainer->length);
    free(trainer->seconds);
    qs__rounding_release(&trainer->rounding);
    qs__adapt_release(&trainer->adapting);
    if (setting->metrics) fclose(setting->metrics);
    *trainer = (qs__trainer){0};
}

/* ---- Epochs ---- */

/* Another plan, from the watched file or for another pace; what was known of promotions was known of the plan before. */
static qs_status plan_follow(qs__trainer *trainer, int64_t epoch, const qs__replan_figures *mine) {
    const qs__setting *setting = &trainer->setting;
    const qs__present *present = &trainer->plans.present;
    const int64_t step = trainer->counters.step;
    qs__replan_figures *all = NULL;
    qs__rounding_follow(&trainer->rounding, setting->graph, present->class_plan);
    qs__promotions_forget(&trainer->rounding);
    QS_TRY(qs__replan_gather(setting, mine, &all));
    qs_status status = qs__folder_plan(setting, &trainer->plans);
    if (status == QS_OK) status = qs__metrics_replan(setting, epoch, step, present->plan, all);
    free(all);
    return qs_comm_agree(setting->comm, status);
}

static qs_status replan(qs__trainer *trainer, int64_t epoch) {
    const qs__setting *setting = &trainer->setting;
    const int64_t step = trainer->counters.step;
    qs__replan_figures mine;
    bool taken = false;
    if (trainer->plans.offered) QS_TRY(qs__replan(setting, &trainer->plans, step, &taken, &mine));
    if (taken) QS_TRY(plan_follow(trainer, epoch, &mine));
    if (!qs__adapt_is_due(setting, step)) return QS_OK;
    QS_TRY(qs__adapt(setting, &trainer->plans, &trainer->adapting, epoch, step, &taken, &mine));
    return taken ? plan_follow(trainer, epoch, &mine) : QS_OK;
}

static qs_status epoch_evaluate(qs__trainer *trainer, int64_t epoch, qs_evaluation *out) {
    const qs__setting *setting = &trainer->setting;
    const qs__present *present = &trainer->plans.present;
    *out = (qs_evaluation){.loss = NAN, .accuracy = NAN};
    if (setting->options->test_limit < 0) return QS_OK;
    qs__failure failure = {.step = trainer->counters.step - 1, .reason = QS__TEST_LOSS};
    qs_status status = qs__evaluation_run(present->at, &setting->test, &trainer->plans.test_sharding, setting->comm, &failure.culprit, out);
    /* Evaluation worked over the gradients, and no step writes the gaps that alignment leaves between them. */
    if (status == QS_OK) status = qs_executor_clear(qs__main(present)->executor, qs__main(present)->schedule->gradients);
    if (status != QS_OK || isfinite(out->loss)) return status;
    if (failure.culprit.tensor[0]) trainer->failure = failure;
    return qs__failure_tell(setting, qs__main(present), &trainer->failure, epoch, trainer->counters.step, QS__TEST_LOSS);
}

static qs_status epoch_end(qs__trainer *trainer, int64_t epoch, qs_train_result *out) {
    const qs__setting *setting = &trainer->setting;
    const qs__present *present = &trainer->plans.present;
    const qs_train_options *options = setting->options;
    const qs__counters *counters = &trainer->counters;
    const qs__sums training = trainer->losses.epoch;
    qs_evaluation test;
    QS_TRY(qs__weights_agree(present, setting->comm, counters->step));
    QS_TRY(qs__statistics_average(setting, present));
    QS_TRY(epoch_evaluate(trainer, epoch, &test));
    QS_TRY(qs_comm_agree(setting->comm, qs__metrics_rounding(setting, epoch, present->plan, &trainer->rounding)));
    qs__rounding_epoch_end(&trainer->rounding);
    uint64_t hash = 0;
    qs_status status = qs__weights_hash(present, &hash);
    if (status == QS_OK) status = qs__metrics_epoch(setting, epoch, counters, &training, options->test_limit >= 0 ? &test : NULL, hash);
    QS_TRY(qs_comm_agree(setting->comm, status));
    out->training_loss = qs__mean(training.loss, &training);
    out->test_loss = test.loss;
    out->test_accuracy = test.accuracy;
    out->test = test;
    trainer->losses.epoch = (qs__sums){0};
    const int64_t every = options->checkpoint_every;
    if (every > 0 && options->run_folder && ((epoch + 1) % every == 0 || counters->step == setting->steps)) {
        QS_TRY(qs__promotions_judge(setting, present->plan, &trainer->rounding));
        QS_TRY(qs__state_save(setting, present, counters, &trainer->rounding));
    }
    if (options->epoch_done && setting->rank == 0) options->epoch_done(options->progress_context, (int)epoch, out->training_loss, &test);
    return QS_OK;
}

static qs_status epochs_run(qs__trainer *trainer, qs_train_result *out) {
    const qs__setting *setting = &trainer->setting;
    const int64_t gaps = setting->options->norm_gap_every, *done = &trainer->counters.step;
    for (int64_t epoch = *done / setting->steps_per_epoch; *done < setting->steps; epoch++) {
        for (int64_t step = *done % setting->steps_per_epoch; step < setting->steps_per_epoch && *done < setting->steps; step++) {
            QS_TRY(replan(trainer, epoch));
            QS_TRY(qs__promote(setting, &trainer->plans, &trainer->rounding, epoch, *done));
            if (gaps > 0 && (*done + 1) % gaps == 0) QS_TRY(qs__norm_gap_report(setting, &trainer->plans, &trainer->counters, epoch, step));
            QS_TRY(qs__trainer_step(trainer, epoch, step));
        }
        QS_TRY(epoch_end(trainer, epoch, out));
    }
    return QS_OK;
}

/* ---- Figures ---- */

/* Full-size steps of one length under the last plan: the median of their seconds, warm-up left out. scratch: (steps) */
static void length_measure(const qs__trainer *trainer, int length, double *scratch, qs_length_time *out) {
    const qs__present *present = &trainer->plans.present;
    const qs_length_plan *planned = present->class_plan ? qs__length_plan(present->class_plan, length) : NULL;
    const qs_lengths *lengths = &trainer->setting.job->lengths;
    int64_t full = 0;
    for (int64_t i = present->first_step; i < trainer->counters.step; i++)
        if (trainer->seconds[i] >= 0 && trainer->length[i] == length) scratch[full++] = trainer->seconds[i];
    const int64_t skip = qs__warm_up(full);
    *out = (qs_length_time){.length = lengths->count > 0 ? lengths->at[length] : 0,
                            .steps = full,
                            .measured_us = 1e6 * qs__median(scratch + skip, full - skip)};
    if (planned) out->predicted_us = planned->iteration_us;
    if (!planned && present->lengths == 1 && present->class_plan) out->predicted_us = present->class_plan->predicted.iteration_us;
}

/* Steps as they followed one another, where the pace is looked at or replayed. */
static qs_status windows_fill(const qs__trainer *trainer, qs_train_result *out) {
    const qs_train_options *options = trainer->setting.options;
    const int64_t first = trainer->setting.resumed, steps = trainer->counters.step,
                  every = options->adaptation ? options->adaptation->every : 50;
    if (!options->adaptation && !options->pace_trace) return QS_OK;
    out->window_steps = every;
    QS_TRY(qs_allocate((size_t)((steps - first) / every + 1), sizeof *out->window_us, &out->window_us));
    for (int64_t begin = first; begin < steps; begin += every) {
        const int64_t end = begin + every < steps ? begin + every : steps;
        double sum = 0;
        for (int64_t i = begin; i < end; i++)
            sum += fabs(trainer->seconds[i]);
        out->window_us[out->windows++] = 1e6 * sum / (double)(end - begin);
    }
    return QS_OK;
}

/* Of the slowest rank, length by length. Partial steps are marked by a minus sign, on all ranks alike. */
static qs_status durations_fill(const qs__trainer *trainer, qs_train_result *out) {
    const int64_t steps = trainer->counters.step;
    double *seconds = trainer->seconds, *scratch = NULL;
    for (int64_t i = 0; i < steps; i++)
        out->seconds += fabs(seconds[i]);
    QS_TRY(qs_comm_max(trainer->setting.comm, seconds, steps));
    QS_TRY(qs_comm_agree(trainer->setting.comm, qs_allocate((size_t)steps, sizeof *scratch, &scratch)));
    out->lengths = trainer->plans.present.lengths;
    for (int k = 0; k < out->lengths; k++)
        length_measure(trainer, k, scratch, &out->length[k]);
    free(scratch);
    QS_TRY(qs_comm_agree(trainer->setting.comm, windows_fill(trainer, out)));
    for (int k = 0; k < out->lengths; k++)
        out->median_step_us += qs__length_share(out->length, out->lengths, k) * out->length[k].measured_us;
    out->samples_per_second = out->median_step_us > 0 ? (double)trainer->setting.global_batch / out->median_step_us * 1e6 : 0;
    snprintf(out->unit, sizeof out->unit, "%s", trainer->setting.training.description.samples.unit);
    return QS_OK;
}

/* Every rank puts its own figure in its place; the others hold 0. Doubles are exact up to 2^53. */
static qs_status memory_gather(const qs__setting *setting, const qs__plans *plans, qs_train_result *out) {
    const size_t ranks = (size_t)setting->ranks;
    double *bytes = NULL;
    QS_TRY(qs_allocate(ranks, sizeof *bytes, &bytes));
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate(ranks, sizeof *out->reserved_bytes, &out->reserved_bytes));
    QS_GOTO(qs_allocate(ranks, sizeof *out->predicted_bytes, &out->predicted_bytes));
    bytes[setting->rank] = (double)qs_memory_bytes(plans->memory);
    QS_GOTO(qs_comm_sum(setting->comm, bytes, setting->ranks));
    for (int rank = 0; rank < setting->ranks; rank++) {
        const qs_class_plan *one = qs__class_plan_of(setting, &plans->present, rank);
        out->reserved_bytes[rank] = (int64_t)bytes[rank];
        out->predicted_bytes[rank] = one && one->predicted.arena_bytes > 0 ? one->predicted.arena_bytes : -1;
    }
done:
    free(bytes);
    return status;
}

/* Of all tensors' counted bytes in high precision. */
static qs_status promotion_share(const qs__trainer *trainer, double *out) {
    qs_groups groups = {0};
    const qs_status status = qs_graph_groups(trainer->setting.graph, trainer->plans.present.batch[trainer->setting.rank], &groups);
    if (status == QS_OK) *out = trainer->rounding.added / (double)qs_format_bytes(qs_format_of("fp(6,9,0)"), groups.elements);
    qs_groups_release(&groups);
    return status;
}

/* Growth of the arena since the first promotion, and of counted bytes, each on the rank where it is largest. */
static qs_status promotions_fill(const qs__trainer *trainer, qs_train_result *out) {
    const qs__rounding *rounding = &trainer->rounding;
    qs_comm *comm = trainer->setting.comm;
    double grown = rounding->first_arena > 0 ? (double)qs_memory_bytes(trainer->plans.memory) - (double)rounding->first_arena : 0;
    QS_TRY(qs_comm_max(comm, &grown, 1));
    if (rounding->promotions > 0) {
        QS_TRY(qs_comm_agree(comm, promotion_share(trainer, &out->promotion_share)));
        QS_TRY(qs_comm_max(comm, &out->promotion_share, 1));
    }
    out->promotions = rounding->promotions;
    out->promotions_refused = rounding->refusals;
    out->promotion_bytes = (int64_t)grown;
    return QS_OK;
}

/* The result, and what the run folder ends with. */
static qs_status finish(qs__trainer *trainer, bool failed, qs_train_result *out) {
    const qs__setting *setting = &trainer->setting;
    const qs__plans *plans = &trainer->plans;
    const int64_t resident_bytes = qs_resident_bytes();
    char *trace = NULL;
    out->steps = trainer->counters.step;
    out->replans = (int64_t)plans->count - trainer->rounding.switches;
    out->adapting_seconds = trainer->adapting.seconds;
    QS_TRY(qs_comm_max(setting->comm, &out->adapting_seconds, 1));
    QS_TRY(qs_comm_agree(setting->comm, qs__weights_hash(&plans->present, &out->weights_hash)));
    QS_TRY(promotions_fill(trainer, out));
    QS_TRY(durations_fill(trainer, out));
    QS_TRY(memory_gather(setting, plans, out));
    double recorded = qs_executor_recorded(qs__main(&plans->present)->executor).state == QS_RECORDED_YES;
    QS_TRY(qs_comm_sum(setting->comm, &recorded, 1));
    out->recorded_ranks = (int)recorded;
    QS_TRY(qs__audit_make(setting, plans, out, resident_bytes, &out->audit));
    if (!failed) QS_TRY(qs__planned_evaluation(setting, &trainer->plans, &out->planned));
    QS_TRY(qs_comm_agree(setting->comm, qs__metrics_planned(setting, &trainer->counters, &out->planned)));
    if (setting->options->trace && !failed)
        QS_TRY(qs__trace_text(&plans->watch[plans->present.lengths - 1], setting->comm, setting->class_->name, setting->graph, &trace));
    const qs_status status =
        qs_comm_agree(setting->comm, qs__folder_finish(setting, plans, out, trace, failed ? NULL : qs__main(&plans->present)));
    free(trace);
    return status;
}

/* A numeric failure is agreed upon by all: the records of the run are completed as far as it got, and the failure stays. */
static qs_status run(qs__trainer *trainer, qs_train_result *out) {
    out->ranks = trainer->setting.ranks;
    out->test_accuracy = out->test_loss = out->training_loss = NAN;
    out->test = out->planned = (qs_evaluation){.loss = NAN, .accuracy = NAN};
    const qs_status status = epochs_run(trainer, out);
    if (status == QS_OK) return finish(trainer, false, out);
    if (status != QS_NUMERIC) return status;
    char text[512];
    snprintf(text, sizeof text, "%s", qs_message());
    QS_TRY(finish(trainer, true, out));
    return qs_fail(status, "%s", text);
}

void qs_train_result_release(qs_train_result *result) {
    free(result->reserved_bytes);
    free(result->predicted_bytes);
    free(result->window_us);
    qs_audit_release(&result->audit);
    *result = (qs_train_result){0};
}

qs_status qs_train(const qs_train_options *options, qs_device *device, qs_comm *comm, qs_train_result *out) {
    qs__trainer trainer;
    qs_train_result result = {0};
    qs_status status = qs__trainer_create(options, device, comm, &trainer);
    if (status == QS_OK) status = run(&trainer, &result);
    qs__trainer_release(&trainer);
    if (status == QS_OK)
        *out = result;
    else
        qs_train_result_release(&result);
    return status;
}
