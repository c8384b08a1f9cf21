// SPDX-License-Identifier: Apache-2.0
/* The training loop: epochs of steps, what happens when an epoch ends, and the figures of the whole run. */
#include "train_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Figures --------------------------------------------------------------------------------------------------------------- */

/* Over full-size steps, warm-up left out. seconds: slowest rank's. */
static double median_seconds(double *seconds, int64_t steps) {
    int64_t full = 0;
    for (int64_t i = 0; i < steps; i++) {
        if (seconds[i] >= 0) seconds[full++] = seconds[i];
    }
    const int64_t skip = qs__warm_up(full);
    return qs__median(seconds + skip, full - skip);
}

/* Partial steps are marked by a minus sign, on all ranks alike. */
static qs_status durations_fill(qs__trainer *trainer, qs_train_result *out) {
    for (int64_t i = 0; i < trainer->steps; i++)
        out->seconds += fabs(trainer->seconds[i]);
    QS_TRY(qs_comm_max(trainer->comm, trainer->seconds, trainer->steps));
    const double median = median_seconds(trainer->seconds + trainer->plan_step, trainer->steps - trainer->plan_step);
    out->median_step_us = median * 1e6;
    out->images_per_second = median > 0 ? (double)trainer->global_batch / median : 0;
    return QS_OK;
}

static int64_t predicted_bytes(const qs__trainer *trainer, int rank) {
    const qs_class_plan *one = qs__class_plan_of(trainer, rank);
    return one && one->predicted.arena_bytes > 0 ? one->predicted.arena_bytes : -1;
}

/* Every rank puts its own figure in its place; the others hold 0. Doubles are exact up to 2^53. */
static qs_status memory_gather(const qs__trainer *trainer, qs_train_result *out) {
    const size_t ranks = (size_t)trainer->ranks;
    double *bytes = NULL;
    QS_TRY(qs_allocate(ranks, sizeof *bytes, &bytes));
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate(ranks, sizeof *out->reserved_bytes, &out->reserved_bytes));
    QS_GOTO(qs_allocate(ranks, sizeof *out->predicted_bytes, &out->predicted_bytes));
    bytes[trainer->rank] = (double)trainer->arena.bytes;
    QS_GOTO(qs_comm_sum(trainer->comm, bytes, trainer->ranks));
    for (int rank = 0; rank < trainer->ranks; rank++) {
        out->reserved_bytes[rank] = (int64_t)bytes[rank];
        out->predicted_bytes[rank] = predicted_bytes(trainer, rank);
    }
done:
    free(bytes);
    return status;
}

/* ---- Epochs ------------------------------------------------------------------------------------------------------------------ */

static qs_status epoch_evaluate(qs__trainer *trainer, int64_t epoch, qs_evaluation *out) {
    QS_TRY(qs__weights_agree(trainer));
    QS_TRY(qs__statistics_average(trainer));
    *out = (qs_evaluation){.loss = NAN, .accuracy = NAN};
    if (!qs__evaluates(trainer)) return QS_OK;
    qs__failure failure = {.step = trainer->step - 1, .reason = QS__TEST_LOSS};
    qs_status status = qs__evaluation_run(&trainer->evaluation, trainer->graph, &trainer->test, &trainer->test_sharding, trainer->comm,
                                          &failure.culprit, out);
    /* Evaluation worked over the gradients, and no step writes the gaps that alignment leaves between them. */
    if (status == QS_OK) status = qs_executor_clear(trainer->main.executor, trainer->main.schedule->gradients);
    if (status != QS_OK || isfinite(out->loss)) return status;
    if (failure.culprit.tensor[0]) trainer->failure = failure;
    return qs__failure_tell(trainer, epoch, QS__TEST_LOSS);
}

static qs_status epoch_end(qs__trainer *trainer, int64_t epoch, qs_train_result *out) {
    const qs_train_options *options = trainer->options;
    const qs__sums training = trainer->epoch;
    qs_evaluation test;
    QS_TRY(epoch_evaluate(trainer, epoch, &test));
    QS_TRY(qs_comm_agree(trainer->comm, qs__metrics_rounding(trainer, epoch)));
    QS_TRY(qs_comm_agree(trainer->comm, qs__metrics_epoch(trainer, epoch, &training, &test)));
    out->training_loss = training.loss / training.samples;
    out->test_loss = test.loss;
    out->test_accuracy = test.accuracy;
    trainer->epoch = (qs__sums){0};
    QS_TRY(qs__state_save(trainer, epoch));
    if (options->epoch_done && trainer->rank == 0) {
        options->epoch_done(options->progress_context, (int)epoch, out->training_loss, test.loss, test.accuracy);
    }
    return QS_OK;
}

static qs_status epochs_run(qs__trainer *trainer, qs_train_result *out) {
    for (int64_t epoch = trainer->step / trainer->steps_per_epoch; trainer->step < trainer->steps; epoch++) {
        for (int64_t step = trainer->step % trainer->steps_per_epoch; step < trainer->steps_per_epoch && trainer->step < trainer->steps;
             step++) {
            if (trainer->plan_offered) QS_TRY(qs__replan(trainer, epoch));
            QS_TRY(qs__promote(trainer, epoch));
            QS_TRY(qs__trainer_step(trainer, epoch, step));
        }
        QS_TRY(epoch_end(trainer, epoch, out));
    }
    return QS_OK;
}

static qs_status finish(qs__trainer *trainer, const qs_train_result *result, bool failed) {
    char *trace = NULL;
    if (trainer->options->trace && !failed) QS_TRY(qs__trace_text(trainer, &trace));
    const qs_status status = qs_comm_agree(trainer->comm, qs__metrics_finish(trainer, result, trace, failed));
    free(trace);
    return status;
}

/* Of all tensors' counted bytes in high precision. */
static qs_status promotion_share(const qs__trainer *trainer, double *out) {
    qs_groups groups = {0};
    const qs_status status = qs_graph_groups(trainer->graph, trainer->batch[trainer->rank], &groups);
    if (status == QS_OK) *out = trainer->rounding.added / (double)qs_format_bytes(qs_format_of("fp(6,9,0)"), groups.elements);
    qs_groups_release(&groups);
    return status;
}

/* Growth of the arena since the first promotion, and of counted bytes, each on the rank where it is largest. */
static qs_status promotions_fill(const qs__trainer *trainer, qs_train_result *out) {
    const qs__rounding *rounding = &trainer->rounding;
    double grown = rounding->first_arena > 0 ? (double)trainer->arena.bytes - (double)rounding->first_arena : 0;
    QS_TRY(qs_comm_max(trainer->comm, &grown, 1));
    if (rounding->promotions > 0) {
        QS_TRY(qs_comm_agree(trainer->comm, promotion_share(trainer, &out->promotion_share)));
        QS_TRY(qs_comm_max(trainer->comm, &out->promotion_share, 1));
    }
    out->promotions = rounding->promotions;
    out->promotions_refused = rounding->refusals;
    out->promotion_bytes = (int64_t)grown;
    return QS_OK;
}

static qs_status figures_fill(qs__trainer *trainer, qs_train_result *out) {
    trainer->resident_bytes = qs_resident_bytes();
    out->steps = trainer->step;
    out->replans = (int64_t)trainer->plan_switches - trainer->promotion_switches;
    out->weights_hash = qs__weights_hash(trainer);
    QS_TRY(promotions_fill(trainer, out));
    QS_TRY(durations_fill(trainer, out));
    QS_TRY(memory_gather(trainer, out));
    return qs__audit_make(trainer, out, &out->audit);
}

/* A numeric failure is agreed upon by all: the records of the run are completed as far as it got, and the failure stays. */
static qs_status failure_finish(qs__trainer *trainer, qs_train_result *out, qs_status failure) {
    char text[512];
    snprintf(text, sizeof text, "%s", qs_message());
    trainer->steps = trainer->step;
    qs_status status = figures_fill(trainer, out);
    if (status == QS_OK) status = finish(trainer, out, true);
    return status == QS_OK ? qs_fail(failure, "%s", text) : status;
}

static qs_status run(qs__trainer *trainer, qs_train_result *out) {
    out->ranks = trainer->ranks;
    out->test_accuracy = out->test_loss = out->training_loss = NAN;
    const qs_status status = epochs_run(trainer, out);
    if (status == QS_NUMERIC) return failure_finish(trainer, out, status);
    QS_TRY(status);
    QS_TRY(figures_fill(trainer, out));
    return finish(trainer, out, false);
}

void qs_train_result_release(qs_train_result *result) {
    free(result->reserved_bytes);
    free(result->predicted_bytes);
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
