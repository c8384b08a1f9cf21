// SPDX-License-Identifier: Apache-2.0
/* Kernels timed inside whole training steps, in the caches that real neighbours leave behind.
 *
 * All plans are visited in turn, round after round: a machine that is slower for a second or drifts over a minute touches all of them
 * alike. A visit is a few timed steps; with several ranks it lasts an agreed time, so that all of them compute all the while, as in
 * training. A plan so small that caches hold much of the one before begins with a step that is not timed; a large one throws that out
 * itself within a few kernels. Rounds go on until kernels are known well enough. A round in which the whole machine was slower than in the
 * others is left out and made up for; so is, in the end, a step that was slower than its plan's others.
 *
 * All-reduces go to a communicator of one rank here: waiting for others is not a kernel's time. */
#include "plans.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_PER_VISIT = 2, MOST_PER_VISIT = 8, NO_ROUND = -2 };
static const double wanted_confidence = 0.01; /* of kernels' times in a step: half the 95 % interval */

static void observe(void *context, const qs_schedule *schedule, int step, double seconds) {
    qs__plan_run *run = context;
    if (run->recording) run->step[(size_t)run->timed * (size_t)schedule->steps + (size_t)step] = seconds * 1e6;
}

/* ---- One plan ---------------------------------------------------------------------------------------------------------------------- */

void qs__plan_run_release(qs__plan_run *run) {
    qs_executor_release(run->executor);
    qs_schedule_release(run->schedule);
    free(run->step);
    free(run->whole);
    free(run->data);
    free(run->busy);
    free(run->round);
}

static qs_status plan_start(qs__profiler *profiler, const qs__mix *mix, int capacity, qs__plan_run *run) {
    run->capacity = capacity;
    QS_TRY(qs__mix_lower(profiler, mix->choice, QS_MODE_TRAIN, profiler->job->batch, &run->schedule));
    QS_TRY(qs_executor_create(run->schedule, profiler->device, profiler->self, profiler->arena.memory, &run->executor));
    QS_TRY(qs_allocate((size_t)capacity * (size_t)run->schedule->steps, sizeof *run->step, &run->step));
    QS_TRY(qs_allocate((size_t)capacity, sizeof *run->whole, &run->whole));
    QS_TRY(qs_allocate((size_t)capacity, sizeof *run->data, &run->data));
    QS_TRY(qs_allocate((size_t)capacity, sizeof *run->round, &run->round));
    qs_executor_observe(run->executor, observe, run);
    return QS_OK;
}

/* A training step with learning rate 0: weights stay ordinary however often it runs, and all plans may share them. */
qs_status qs__step_run(qs__campaign *all, qs__plan_run *run, bool timed) {
    qs__profiler *profiler = all->profiler;
    const qs_run one = {.seed = profiler->job->seed,
                        .step = (uint64_t)all->steps,
                        .samples = profiler->job->batch,
                        .first_sample = profiler->rank * profiler->job->batch,
                        .global_samples = profiler->ranks * profiler->job->batch,
                        .loss_scale = qs_loss_scale_start(profiler->job).value};
    run->recording = timed && !all->again && run->timed < run->capacity;
    run->busy_us = 0;
    const double begin = qs_clock();
    QS_TRY(qs__profile_batch(profiler, run->executor, all->steps++, profiler->job->batch));
    const double loaded = qs_clock();
    QS_TRY(qs_executor_run(run->executor, &one));
    if (!run->recording) return QS_OK;
    run->data[run->timed] = (loaded - begin) * 1e6;
    run->whole[run->timed] = (qs_clock() - begin) * 1e6;
    if (run->busy) run->busy[run->timed] = run->busy_us;
    run->round[run->timed++] = all->round;
    return QS_OK;
}

/* Caches that hold half of a step do. */
static bool remembers_another(const qs__plan_run *run) {
    return (int64_t)run->schedule->arena_bytes < 2 * qs__cache_bytes[QS__CACHES - 1];
}

static int visit_steps(const qs__plan_run *run) {
    return STEPS_PER_VISIT + remembers_another(run);
}

/* With neighbours, steps go on until the agreed time is over, recorded or not: the others are still at work. */
static qs_status visit(qs__campaign *all, qs__plan_run *run) {
    const double begin = qs_clock();
    if (remembers_another(run)) QS_TRY(qs__step_run(all, run, false));
    for (int i = 0; i < STEPS_PER_VISIT || (all->quantum > 0 && qs_clock() - begin < all->quantum); i++)
        QS_TRY(qs__step_run(all, run, i < MOST_PER_VISIT));
    return QS_OK;
}

/* ---- Rounds -------------------------------------------------------------------------------------------------------------------------- */

/* Collective: agreement is where ranks meet. One with fewer plans than another visits its own again, to keep the host as busy as it is in
 * training; what counts is the first visit, so that no round is more than one of many. */
static qs_status round_run(qs__campaign *all) {
    qs_status status = QS_OK;
    for (int i = 0; i < all->visits; i++) {
        QS_TRY(qs_comm_agree(all->profiler->comm, status));
        all->again = i >= all->plans;
        status = visit(all, &all->plan[i % all->plans]);
    }
    QS_TRY(qs_comm_agree(all->profiler->comm, status));
    all->again = false;
    return qs__checks_visit(all);
}

/* Every kernel once, unrecorded: code and tables are made. With several ranks a second step tells how long a visit takes. */
static qs_status plan_warm_up(qs__campaign *all, qs__plan_run *run, double *longest) {
    QS_TRY(qs__step_run(all, run, false));
    if (all->profiler->ranks == 1) return QS_OK;
    const double begin = qs_clock();
    QS_TRY(qs__step_run(all, run, false));
    *longest = fmax(*longest, visit_steps(run) * (qs_clock() - begin));
    return QS_OK;
}

/* The longest visit of all ranks is how long each has to be. */
static qs_status warm_up(qs__campaign *all) {
    qs__profiler *profiler = all->profiler;
    qs_status status = QS_OK;
    all->quantum = 0;
    QS_TRY(qs_executor_initialize(all->plan[0].executor, profiler->graph, profiler->job->seed));
    for (int i = 0; i < all->plans && status == QS_OK; i++)
        status = plan_warm_up(all, &all->plan[i], &all->quantum);
    QS_TRY(qs_comm_agree(profiler->comm, status));
    QS_TRY(qs__checks_warm_up(all));
    return qs_comm_max(profiler->comm, &all->quantum, 1);
}

/* ---- How well is it known? ---------------------------------------------------------------------------------------------------------- */

/* Ranks n/2 ± 0.98 sqrt(n). */
double qs__confidence_of(int count, double *value) {
    const double median = qs__quartiles_of(count, value).median;
    const int reach = (int)ceil(0.98 * sqrt(count));
    const int low = (count - 1) / 2 - reach, high = count / 2 + reach;
    if (low < 0 || high >= count) return INFINITY;
    return (value[high] - value[low]) / 2 / median;
}

/* The pace of a round: over all plans, the median of (a step of this round) / (the plan's median step). */
static double round_pace(const qs__campaign *all, int round) {
    qs__samples *scratch = all->scratch;
    scratch->count = 0;
    for (int p = 0; p < all->plans; p++) {
        const qs__plan_run *run = &all->plan[p];
        for (int i = 0; i < run->timed; i++)
            if (run->round[i] == round) scratch->value[scratch->count++] = run->whole[i] / run->median_us;
    }
    return qs__quartiles_of(scratch->count, scratch->value).median;
}

static void medians_update(const qs__campaign *all) {
    for (int p = 0; p < all->plans; p++) {
        qs__plan_run *run = &all->plan[p];
        memcpy(all->scratch->value, run->whole, (size_t)run->timed * sizeof *run->whole);
        run->confidence = qs__confidence_of(run->timed, all->scratch->value);
        run->median_us = qs__quartiles_of(run->timed, all->scratch->value).median;
    }
}

/* Takes out what was timed in a round, or took longer than most_us. */
static void steps_drop(qs__plan_run *run, int round, double most_us) {
    int kept = 0;
    const size_t steps = (size_t)run->schedule->steps;
    for (int i = 0; i < run->timed; i++) {
        if (run->round[i] == round || run->whole[i] > most_us) continue;
        if (run->step) memmove(run->step + (size_t)kept * steps, run->step + (size_t)i * steps, steps * sizeof *run->step);
        if (run->busy) run->busy[kept] = run->busy[i];
        run->whole[kept] = run->whole[i];
        run->data[kept] = run->data[i];
        run->round[kept++] = run->round[i];
    }
    run->timed = kept;
}

/* Steps of another round. */
static bool has_others(const qs__plan_run *run, int round) {
    for (int i = 0; i < run->timed; i++)
        if (run->round[i] != round) return true;
    return false;
}

/* At most half of a plan's steps: medians stay in the middle of what is left. */
static void disturbed_steps_drop(qs__campaign *all) {
    int before = 0, after = 0;
    for (int p = 0; p < all->plans; p++) {
        before += all->plan[p].timed;
        steps_drop(&all->plan[p], NO_ROUND, qs__disturbed * all->plan[p].median_us);
        after += all->plan[p].timed;
    }
    all->disturbed = 1 - (double)after / before;
    medians_update(all);
}

/* All ranks leave out the same rounds, at most every second one: of a machine that is never quiet, its usual pace is what counts. */
static qs_status disturbed_rounds_drop(qs__campaign *all) {
    all->drift = 0;
    all->good_rounds = 0;
    for (int round = 0; round < all->round; round++) {
        double pace = round_pace(all, round);
        QS_TRY(qs_comm_max(all->profiler->comm, &pace, 1));
        if (pace == 0) continue;
        if (pace > qs__disturbed && 2 * (all->dropped_rounds + 1) <= all->round) {
            all->dropped_rounds++;
            qs_log(QS_LOG_INFO, "profile: round %d was %.0f %% slower than the others: left out", round + 1, (pace - 1) * 100);
            for (int p = 0; p < all->plans; p++)
                steps_drop(&all->plan[p], round, INFINITY);
            for (int c = 0; c < all->checks; c++)
                if (has_others(&all->check[c], round)) steps_drop(&all->check[c], round, INFINITY);
            continue;
        }
        all->good_rounds++;
        all->drift = fmax(all->drift, fabs(pace - 1));
    }
    return QS_OK;
}

/* A kernel has its time from all plans that hold it, QS__WANTED_PLANS at least, whose errors are their own. */
static qs_status confidences_update(qs__campaign *all) {
    double worst_and_pooled[2] = {0};
    for (int p = 0; p < all->plans; p++) {
        const double one = fmin(all->plan[p].confidence, 1);
        worst_and_pooled[0] = fmax(worst_and_pooled[0], one);
        worst_and_pooled[1] += one * one / all->plans;
    }
    worst_and_pooled[1] = sqrt(worst_and_pooled[1] / (all->plans < QS__WANTED_PLANS ? all->plans : QS__WANTED_PLANS));
    QS_TRY(qs_comm_max(all->profiler->comm, worst_and_pooled, 2));
    all->confidence = worst_and_pooled[0];
    all->pooled = worst_and_pooled[1];
    return QS_OK;
}

static int least_rounds(const qs__profiler *profiler) {
    return (profiler->options->repetitions + STEPS_PER_VISIT - 1) / STEPS_PER_VISIT;
}

static qs_status enough(qs__campaign *all, bool *done) {
    medians_update(all);
    QS_TRY(disturbed_rounds_drop(all));
    medians_update(all);
    QS_TRY(confidences_update(all));
    *done = all->good_rounds >= least_rounds(all->profiler) && all->pooled <= wanted_confidence;
    return QS_OK;
}

static qs_status rounds_run(qs__campaign *all) {
    QS_TRY(warm_up(all));
    bool done = false;
    for (all->round = 0; !done && all->round < all->most_rounds;) {
        qs__progress(all->profiler, 0.05 + 0.35 * all->round / all->most_rounds, "kernels in training steps");
        QS_TRY(round_run(all));
        all->round++;
        QS_TRY(enough(all, &done));
    }
    disturbed_steps_drop(all);
    qs_log(QS_LOG_INFO, "profile: %d rounds, %lld steps: kernels' part of a step is known to %.1f %%%s", all->round, (long long)all->steps,
           all->pooled * 100, all->pooled > wanted_confidence ? " only" : "");
    return QS_OK;
}

/* ---- Alone --------------------------------------------------------------------------------------------------------------------------- */

/* Ranks of a host take turns: what a kernel takes when the others wait for an all-reduce. The first plans are enough, for what differs is
 * how much memory traffic a kernel has. */
static qs_status turns_run(qs__campaign *all) {
    const qs_comm *comm = all->profiler->comm;
    const int plans = all->plans < all->profiler->recipes + 3 ? all->plans : all->profiler->recipes + 3;
    double turns = qs_comm_local_size(comm);
    QS_TRY(qs_comm_max(all->profiler->comm, &turns, 1));
    if (turns < 2) return QS_OK;
    all->quantum = 0;
    all->again = false;
    for (int turn = 0; turn < (int)turns; turn++) {
        qs_status status = QS_OK;
        qs__progress(all->profiler, 0.40 + 0.05 * turn / turns, "kernels while the others wait");
        for (int i = 0; i < ALONE_VISITS * plans && turn == qs_comm_local_rank(comm) && status == QS_OK; i++) {
            qs__plan_run *run = &all->plan[i % plans];
            all->round = QS__ALONE_ROUND;
            status = visit(all, run);
        }
        QS_TRY(qs_comm_agree(all->profiler->comm, status));
    }
    return QS_OK;
}

/* ---- All of it ----------------------------------------------------------------------------------------------------------------------- */

static qs_status arena_reserve(qs__campaign *all, const int *chosen, int count) {
    qs__profiler *profiler = all->profiler;
    size_t bytes = 0;
    QS_TRY(qs__checks_lower(all, &bytes));
    for (int i = 0; i < count; i++)
        if (profiler->mixes.mix[chosen[i]].arena_bytes > bytes) bytes = profiler->mixes.mix[chosen[i]].arena_bytes;
    return qs_fail_within(qs_arena_reserve(bytes, &profiler->arena), "class %s: profiling runs every precision", profiler->class_->name);
}

static qs_status campaign_start(qs__campaign *all, const int *chosen, int count) {
    qs__profiler *profiler = all->profiler;
    const int per_visit = profiler->ranks > 1 ? MOST_PER_VISIT : STEPS_PER_VISIT;
    QS_TRY(arena_reserve(all, chosen, count));
    QS_TRY(qs_allocate((size_t)count, sizeof *all->plan, &all->plan));
    all->most_rounds = profiler->options->repetitions;
    const int capacity = all->most_rounds * per_visit + ALONE_VISITS * STEPS_PER_VISIT;
    QS_TRY(qs_grow(&all->scratch->value, &all->scratch->capacity, (size_t)capacity * (size_t)count, sizeof *all->scratch->value));
    for (; all->plans < count; all->plans++)
        QS_TRY(plan_start(profiler, &profiler->mixes.mix[chosen[all->plans]], capacity, &all->plan[all->plans]));
    all->check_every = least_rounds(profiler) > 1 ? least_rounds(profiler) / 2 : 1;
    return qs__checks_bind(all);
}

static void campaign_end(qs__campaign *all, int count) {
    for (int p = 0; all->plan && p < count; p++)
        qs__plan_run_release(&all->plan[p]);
    free(all->plan);
    qs__checks_release(all);
    free(all->scratch->value);
    qs_arena_release(&all->profiler->arena);
}

static qs_status campaign_run(qs__campaign *all) {
    double visits = all->plans;
    QS_TRY(qs_comm_max(all->profiler->comm, &visits, 1));
    all->visits = (int)visits;
    QS_TRY(rounds_run(all));
    QS_TRY(turns_run(all));
    QS_TRY(qs_comm_agree(all->profiler->comm, qs__samples_keep(all)));
    return qs__checks_keep(all);
}

qs_status qs__plans_measure(qs__profiler *profiler) {
    const int most = 4 * profiler->recipes + 4;
    int *chosen = NULL, count = 0;
    qs__samples scratch = {0};
    qs__campaign all = {.profiler = profiler, .scratch = &scratch};
    qs_status status = QS_OK;
    QS_GOTO(qs__checks_connect(&all));
    status = qs_allocate((size_t)most, sizeof *chosen, &chosen);
    if (status == QS_OK) status = qs__mixes_cover(profiler, most, chosen, &count);
    if (status == QS_OK) status = campaign_start(&all, chosen, count);
    QS_GOTO(qs_comm_agree(profiler->comm, status));
    QS_GOTO(campaign_run(&all));
    profiler->measured = chosen;
    chosen = NULL;
done:
    campaign_end(&all, count);
    free(chosen);
    return status;
}
