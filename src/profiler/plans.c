// SPDX-License-Identifier: Apache-2.0
/* Kernels timed inside whole training steps. All ranks run a plan of their own at the same time and meet before each step; a class with
 * fewer plans than another runs its plans again, so that nobody is measured next to an idle neighbour. All-reduces go to a communicator of
 * one rank here: waiting for others is not a kernel's time. */
#include "profiler_internal.h"

#include <math.h>
#include <stdlib.h>

/* All plans are measured, then all again: a shared machine is faster in one second than in the next, and a profile is of neither. */
enum { ATTEMPTS = 3, PASSES = 3 };
/* Whole steps of a quiet machine agree between the first and the second half of a plan's repetitions. */
static const double most_drift = 0.10;

typedef struct plan_run {
    qs__profiler *profiler;
    qs_schedule *schedule;
    qs_executor *executor;
    int repetitions, repetition; /* repetition < 0: warm-up */
    double *step;                /* (repetitions × steps) microseconds */
    double *whole, *data;        /* (repetitions) */
} plan_run;

static void observe(void *context, const qs_schedule *schedule, int step, double seconds) {
    plan_run *run = context;
    if (run->repetition >= 0) run->step[(size_t)run->repetition * (size_t)schedule->steps + (size_t)step] = seconds * 1e6;
}

static void plan_release(plan_run *run) {
    qs_executor_release(run->executor);
    qs_schedule_release(run->schedule);
    free(run->step);
    free(run->whole);
    free(run->data);
}

static qs_status plan_start(qs__profiler *profiler, const qs__mix *mix, plan_run *run) {
    const size_t repetitions = (size_t)profiler->options->repetitions;
    run->profiler = profiler;
    run->repetitions = (int)repetitions;
    QS_TRY(qs__mix_lower(profiler, mix->choice, QS_MODE_TRAIN, profiler->job->batch, &run->schedule));
    QS_TRY(qs_executor_create(run->schedule, profiler->device, profiler->self, profiler->arena.memory, &run->executor));
    QS_TRY(qs_allocate(repetitions * (size_t)run->schedule->steps, sizeof *run->step, &run->step));
    QS_TRY(qs_allocate(repetitions, sizeof *run->whole, &run->whole));
    QS_TRY(qs_allocate(repetitions, sizeof *run->data, &run->data));
    qs_executor_observe(run->executor, observe, run);
    qs_graph_initialize(profiler->graph, profiler->job->seed, qs_executor_buffer(run->executor, run->schedule->masters),
                        qs_executor_buffer(run->executor, run->schedule->running));
    return QS_OK;
}

/* A training step with learning rate 0: weights stay ordinary however often it runs. */
static qs_status step_run(plan_run *run) {
    qs__profiler *profiler = run->profiler;
    const qs_run one = {.seed = profiler->job->seed,
                        .step = (uint64_t)(run->repetition + QS__WARM_UP),
                        .samples = profiler->job->batch,
                        .first_sample = profiler->rank * profiler->job->batch,
                        .global_samples = profiler->ranks * profiler->job->batch,
                        .loss_scale = qs_loss_scale_start(profiler->job).value};
    const double begin = qs_clock();
    qs__profile_batch(profiler, run->executor, run->schedule, run->repetition + QS__WARM_UP, profiler->job->batch);
    const double loaded = qs_clock();
    QS_TRY(qs_executor_run(run->executor, &one));
    if (run->repetition < 0) return QS_OK;
    run->data[run->repetition] = (loaded - begin) * 1e6;
    run->whole[run->repetition] = (qs_clock() - begin) * 1e6;
    return QS_OK;
}

/* Collective; agreement is the meeting point. */
static qs_status steps_run(plan_run *run) {
    qs_status status = QS_OK;
    for (run->repetition = -QS__WARM_UP; run->repetition < run->repetitions; run->repetition++) {
        QS_TRY(qs_comm_agree(run->profiler->comm, status));
        status = step_run(run);
    }
    return qs_comm_agree(run->profiler->comm, status);
}

static double median_of(qs__samples *scratch, const double *value, int count, int stride) {
    scratch->count = 0;
    for (int i = 0; i < count; i++)
        scratch->value[scratch->count++] = value[(size_t)i * (size_t)stride];
    return qs__quartiles_of(scratch->count, scratch->value).median;
}

/* Relative change of the median step between the two halves; the largest of all ranks, so that all repeat or none. */
static qs_status drift_of(const plan_run *run, qs__samples *scratch, double *drift) {
    const int half = run->repetitions / 2;
    *drift = 0;
    if (half > 0) {
        const double first = median_of(scratch, run->whole, half, 1),
                     second = median_of(scratch, run->whole + run->repetitions - half, half, 1);
        *drift = fabs(second - first) / fmin(first, second);
    }
    return qs_comm_max(run->profiler->comm, drift, 1);
}

static qs_status times_keep(const plan_run *run, qs__samples *scratch) {
    qs__profiler *profiler = run->profiler;
    const int steps = run->schedule->steps;
    const double whole = median_of(scratch, run->whole, run->repetitions, 1), data = median_of(scratch, run->data, run->repetitions, 1);
    double sum = data;
    for (int s = 0; s < steps; s++) {
        const qs_step *step = &run->schedule->step[s];
        sum += median_of(scratch, run->step + s, run->repetitions, steps);
        if (step->kind != QS_STEP_KERNEL) continue;
        qs__entry *entry = &profiler->cases.entry[qs__cases_find(&profiler->cases, step->case_text)];
        for (int i = 0; i < run->repetitions; i++)
            QS_TRY(qs__samples_add(step->conversion ? &entry->conversion_us : &entry->kernel_us,
                                   run->step[(size_t)i * (size_t)steps + (size_t)s]));
    }
    QS_TRY(qs__samples_add(&profiler->data_us, data));
    return qs__samples_add(&profiler->overhead_us, whole - sum);
}

static qs_status attempts_run(plan_run *run, qs__samples *scratch) {
    double drift = 0;
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        QS_TRY(steps_run(run));
        QS_TRY(drift_of(run, scratch, &drift));
        if (drift <= most_drift) return QS_OK;
        qs_log(QS_LOG_INFO, "profile: steps drifted by %.0f %% within a plan, attempt %d of %d", drift * 100, attempt + 1, ATTEMPTS);
    }
    return QS_OK;
}

static qs_status plan_measure(qs__profiler *profiler, const qs__mix *mix) {
    plan_run run = {0};
    qs__samples scratch = {0};
    qs_status status = QS_OK;
    QS_GOTO(qs_comm_agree(profiler->comm, plan_start(profiler, mix, &run)));
    QS_GOTO(qs_comm_agree(profiler->comm, qs_grow(&scratch.value, &scratch.capacity, (size_t)run.repetitions, sizeof *scratch.value)));
    QS_GOTO(attempts_run(&run, &scratch));
    status = qs_comm_agree(profiler->comm, times_keep(&run, &scratch));
done:
    plan_release(&run);
    free(scratch.value);
    return status;
}

static qs_status arena_reserve(qs__profiler *profiler, const int *chosen, int count) {
    size_t bytes = 0;
    for (int i = 0; i < count; i++)
        if (profiler->mixes.mix[chosen[i]].arena_bytes > bytes) bytes = profiler->mixes.mix[chosen[i]].arena_bytes;
    return qs_fail_within(qs_arena_reserve(bytes, &profiler->arena), "class %s: profiling runs every precision", profiler->class_->name);
}

qs_status qs__plans_measure(qs__profiler *profiler) {
    int *chosen = NULL, count = 0;
    const int most = 4 * profiler->recipes + 4;
    qs_status status = QS_OK;
    QS_GOTO(qs_comm_agree(profiler->comm, qs_allocate((size_t)most, sizeof *chosen, &chosen)));
    status = qs__mixes_cover(profiler, most, chosen, &count);
    if (status == QS_OK) status = arena_reserve(profiler, chosen, count);
    QS_GOTO(qs_comm_agree(profiler->comm, status));
    double rounds = count;
    QS_GOTO(qs_comm_max(profiler->comm, &rounds, 1));
    for (int i = 0; i < PASSES * (int)rounds; i++) {
        qs__progress(profiler, 0.05 + 0.40 * i / (PASSES * rounds), "kernels in training steps");
        QS_GOTO(plan_measure(profiler, &profiler->mixes.mix[chosen[i % (int)rounds % count]]));
        /* Kernels stay in the library's cache: at the end all of them are there, as those of training and evaluation are in a run. */
        profiler->base_bytes = fmax(qs__resident_bytes() - (double)profiler->arena.bytes, profiler->base_bytes);
    }
done:
    free(chosen);
    qs_arena_release(&profiler->arena);
    return status;
}
