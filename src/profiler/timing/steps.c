// SPDX-License-Identifier: Apache-2.0
/* Kernels timed inside whole training steps, in the caches that real neighbours leave behind.
 *
 * All plans are visited in turn, round after round: a machine that is slower for a second or drifts over a minute touches all of them
 * alike. A visit is a few timed steps; with several ranks it lasts an agreed time, so that all of them compute all the while, as in
 * training. A plan so small that caches hold much of the one before begins with a step that is not timed; a large one throws that out
 * itself within a few kernels. Rounds go on until kernels are known well enough. A step in which a thread had to wait for its core does not
 * count. A round in which the whole machine was slower than in the others is left out and made up for; so is, in the end, a step that was
 * slower than its plan's others.
 *
 * All-reduces go to a communicator of one rank here: waiting for others is not a kernel's time. Checks are the exception: plans that are
 * timed beside the profile's own and give it nothing but what its predictions are worth. All ranks run them together, all-reduces and
 * waiting included, as training would. */
#include "timing/campaign.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PER_VISIT = 8, CHECK_STEPS = 50, ALONE_VISITS = 2 };
enum { LEAST_EVEN = QS__LEAST_STEPS / QS__STEPS_PER_VISIT, PART_OF_PLANS = 4 };
enum { NO_ROUND = -2 };
static const double wanted_confidence = 0.01; /* of kernels' times in a step: half the 95 % interval */
/* What takes so many times its median was disturbed: neighbours of a shared machine slow a core down for tenths of a second. */
static const double disturbed = 1.05;
/* Part of a step that a thread may be kept from its core: daemons take less, another process takes a slice of milliseconds. */
static const double most_waited = 0.01;

/* ---- One plan ---------------------------------------------------------------------------------------------------------------------- */

static void run_release(qs__plan_run *run) {
    qs_executor_release(run->executor);
    qs_schedule_release(run->schedule);
    qs_timeline_release(&run->timeline);
    free(run->step);
    free(run->whole);
    free(run->data);
    free(run->waited);
    free(run->busy);
    free(run->round);
}

static qs_status plan_start(const qs__campaign *all, const qs__mix *mix, int capacity, qs__plan_run *run) {
    run->capacity = capacity;
    QS_TRY(qs__mix_lower(all->setting, all->cases, mix->choice, QS_MODE_TRAIN, all->setting->job->batch, &run->schedule));
    QS_TRY(qs_executor_create(run->schedule, all->setting->device, all->setting->self, all->memory, &run->executor));
    QS_TRY(qs_allocate((size_t)capacity * (size_t)run->schedule->steps, sizeof *run->step, &run->step));
    QS_TRY(qs_allocate((size_t)capacity, sizeof *run->whole, &run->whole));
    QS_TRY(qs_allocate((size_t)capacity, sizeof *run->data, &run->data));
    QS_TRY(qs_allocate((size_t)capacity, sizeof *run->waited, &run->waited));
    QS_TRY(qs_allocate((size_t)capacity, sizeof *run->round, &run->round));
    QS_TRY(qs_timeline_create(run->schedule, &run->timeline));
    qs_executor_time(run->executor, &run->timeline);
    return QS_OK;
}

/* What the steps of the schedule took, or what all kernels did, of the run that has ended: all of it, where nothing else is known. */
static void steps_note(qs__plan_run *run) {
    const int steps = run->schedule->steps;
    if (run->busy) run->busy[run->timed] = run->unclocked ? run->whole[run->timed] : 0;
    for (int s = 0; s < steps && !run->unclocked; s++) {
        const double us = 1e6 * qs_timeline_seconds(&run->timeline, s);
        if (run->step) run->step[(size_t)run->timed * (size_t)steps + (size_t)s] = us;
        if (run->busy && run->schedule->step[s].kind == QS_STEP_KERNEL) run->busy[run->timed] += us - 1e6 * run->timeline.polled[s];
    }
}

static qs_status step_run(qs__campaign *all, qs__plan_run *run, bool timed) {
    const bool noted = timed && !all->again && run->timed < run->capacity;
    if (noted) (void)qs_waited(&all->waits);
    const double begin = qs_clock();
    QS_TRY(qs__training_step(all->setting, run->executor, all->steps++));
    if (!noted) return QS_OK;
    run->data[run->timed] = (run->timeline.begin - begin) * 1e6;
    run->whole[run->timed] = (qs_clock() - begin) * 1e6;
    run->waited[run->timed] = 1e6 * qs_waited(&all->waits) / run->whole[run->timed];
    steps_note(run);
    run->round[run->timed++] = all->round;
    return QS_OK;
}

/* Caches that hold half of a step do. */
static bool remembers_another(const qs__plan_run *run) {
    return (int64_t)run->schedule->arena_bytes < 2 * qs__cache_bytes[QS__CACHES - 1];
}

/* With neighbours, steps go on until the agreed time is over, recorded or not: the others are still at work. */
static qs_status visit(qs__campaign *all, qs__plan_run *run) {
    const double begin = qs_clock();
    if (remembers_another(run)) QS_TRY(step_run(all, run, false));
    for (int i = 0; i < QS__STEPS_PER_VISIT || (all->quantum > 0 && qs_clock() - begin < all->quantum); i++)
        QS_TRY(step_run(all, run, i < MOST_PER_VISIT));
    return QS_OK;
}

/* ---- Checks ------------------------------------------------------------------------------------------------------------------------ */

static qs_status checks_lower(qs__campaign *all, size_t *arena_bytes) {
    const qs_profile_options *options = all->setting->options;
    QS_TRY(qs_allocate((size_t)options->checks, sizeof *all->check, &all->check));
    for (; all->checks < options->checks; all->checks++) {
        qs_schedule **schedule = &all->check[all->checks].schedule;
        QS_TRY(qs_fail_within(qs__check_lower(all->setting, &options->check[all->checks], schedule), "check %s",
                              options->check_name[all->checks]));
        if ((*schedule)->arena_bytes > *arena_bytes) *arena_bytes = (*schedule)->arena_bytes;
    }
    return QS_OK;
}

static int steps_of_check(const qs__campaign *all) {
    const int asked = all->setting->options->check_steps;
    return asked > 0 ? asked : CHECK_STEPS;
}

/* Long visits are few: at least two of each plan, spread over the rounds. */
static int most_steps(const qs__campaign *all) {
    return (all->most_rounds / all->check_every + 1) * steps_of_check(all);
}

static qs_status checks_bind(qs__campaign *all) {
    const qs__setting *setting = all->setting;
    const int capacity = most_steps(all);
    qs_comm *comm = all->together ? all->together : setting->self;
    for (int c = 0; c < all->checks; c++) {
        qs__plan_run *run = &all->check[c];
        run->capacity = capacity;
        QS_TRY(qs_executor_create(run->schedule, setting->device, comm, all->memory, &run->executor));
        QS_TRY(qs_allocate((size_t)capacity, sizeof *run->whole, &run->whole));
        QS_TRY(qs_allocate((size_t)capacity, sizeof *run->data, &run->data));
        QS_TRY(qs_allocate((size_t)capacity, sizeof *run->waited, &run->waited));
        QS_TRY(qs_allocate((size_t)capacity, sizeof *run->busy, &run->busy));
        QS_TRY(qs_allocate((size_t)capacity, sizeof *run->round, &run->round));
        QS_TRY(qs_timeline_create(run->schedule, &run->timeline));
    }
    return QS_OK;
}

/* Ranks wait for each other in a step, so whatever stops one before it is agreed upon first. */
static qs_status check_run(qs__campaign *all, qs__plan_run *run, int timed) {
    QS_TRY(qs_comm_barrier(all->setting->comm));
    qs_status status = step_run(all, run, false);
    for (int i = 0; i < timed && status == QS_OK; i++)
        status = step_run(all, run, true);
    return qs_comm_agree(all->setting->comm, status);
}

/* Until every rank knows how it starts such steps: checks are timed as training runs them. */
static qs_status check_warm_up(qs__campaign *all, qs__plan_run *run) {
    for (double trying = 1; trying > 0;) {
        QS_TRY(check_run(all, run, 0));
        const qs_recorded_state state = qs_executor_recorded(run->executor).state;
        if (state == QS_RECORDED_NO) qs_executor_time(run->executor, &run->timeline);
        run->unclocked = state == QS_RECORDED_YES;
        trying = state == QS_RECORDED_TRYING;
        QS_TRY(qs_comm_max(all->setting->comm, &trying, 1));
    }
    return QS_OK;
}

/* ---- Medians of checks ---- */

/* A step is disturbed when the kernels of any rank took longer than they usually do there, or a thread waited for its core: on a machine
 * that others use, one rank or the other often is. What is predicted on top of kernels, waiting for ranks and all-reduces, does not decide
 * about it. flag[i] becomes 0 or 1. */
static qs_status disturbed_find(const qs__campaign *all, const qs__plan_run *run, double *flag) {
    memcpy(flag, run->busy, (size_t)run->timed * sizeof *flag);
    const double most = disturbed * qs__quartiles_of(run->timed, flag).median;
    for (int i = 0; i < run->timed; i++)
        flag[i] = run->busy[i] > most || run->waited[i] > most_waited;
    return qs_comm_max(all->setting->comm, flag, run->timed);
}

/* The times of undisturbed steps, of all where none is. Returns how many. */
static int undisturbed_list(const qs__plan_run *run, const double *flag, const double *us, double *out) {
    int count = 0;
    for (int i = 0; i < run->timed; i++)
        if (flag[i] == 0) out[count++] = us[i];
    if (count == 0) memcpy(out, us, (size_t)run->timed * sizeof *out);
    return count;
}

/* Every rank has timed the same steps. scratch[timed] */
static void figures_take(const qs__campaign *all, const qs__plan_run *run, const double *flag, double *scratch, double *figure) {
    const int class_index = qs_cluster_class_of(all->setting->options->cluster, all->setting->rank);
    figure[0] = run->timed;
    memcpy(scratch, run->whole, (size_t)run->timed * sizeof *scratch);
    figure[1] = qs__quartiles_of(run->timed, scratch).median;
    const int undisturbed = undisturbed_list(run, flag, run->whole, scratch), counted = undisturbed > 0 ? undisturbed : run->timed;
    figure[2] = undisturbed;
    figure[3] = qs__quartiles_of(counted, scratch).median;
    figure[4] = undisturbed > 0 ? fmin(qs__confidence_of(undisturbed, scratch), 1) : 1;
    undisturbed_list(run, flag, run->busy, scratch);
    for (int c = 0; c < all->setting->options->cluster->classes; c++)
        figure[QS__CHECK_FIGURES + c] = c == class_index && !run->unclocked ? qs__quartiles_of(counted, scratch).median : 0;
}

/* The slowest rank's; every rank learns them. */
static qs_status checks_keep(qs__campaign *all) {
    qs__samples *kept = &all->out->checked;
    const int figures = QS__CHECK_FIGURES + all->setting->options->cluster->classes, most = most_steps(all);
    double *value = NULL; /* flags, and scratch behind them */
    qs_status status = qs_allocate(2 * (size_t)most, sizeof *value, &value);
    if (status == QS_OK) status = qs_grow(&kept->value, &kept->capacity, (size_t)figures * (size_t)all->checks, sizeof *kept->value);
    QS_GOTO(qs_comm_agree(all->setting->comm, status));
    for (int c = 0; c < all->checks; c++, kept->count += figures) {
        QS_GOTO(disturbed_find(all, &all->check[c], value));
        figures_take(all, &all->check[c], value, value + most, kept->value + kept->count);
    }
    QS_GOTO(qs_comm_max(all->setting->comm, kept->value, kept->count));
done:
    free(value);
    return status;
}

/* ---- Rounds -------------------------------------------------------------------------------------------------------------------------- */

/* A round of all plans, in their order; the others are of those whose visits are worth most. */
static bool is_even(const qs__campaign *all) {
    return all->round < all->even_rounds;
}

/* Collective: agreement is where ranks meet. One with fewer plans than another visits its own again, to keep the host as busy as it is in
 * training; what counts is the first visit, so that no round is more than one of many. */
static qs_status round_run(qs__campaign *all) {
    const bool even = is_even(all);
    const int visits = even ? all->visits : (all->visits + PART_OF_PLANS - 1) / PART_OF_PLANS;
    qs_status status = QS_OK;
    if (!even) qs__plans_order(all);
    for (int i = 0; i < visits; i++) {
        QS_TRY(qs_comm_agree(all->setting->comm, status));
        all->again = i >= all->plans;
        status = visit(all, &all->plan[all->order[i % all->plans]]);
    }
    QS_TRY(qs_comm_agree(all->setting->comm, status));
    all->again = false;
    if (!even) return QS_OK;
    for (int c = all->round % all->check_every; c < all->checks; c += all->check_every)
        QS_TRY(check_run(all, &all->check[c], steps_of_check(all)));
    return QS_OK;
}

/* Every kernel once, unrecorded: code and tables are made. With several ranks a second step tells how long a visit takes. */
static qs_status plan_warm_up(qs__campaign *all, qs__plan_run *run, double *longest) {
    QS_TRY(step_run(all, run, false));
    if (all->setting->ranks == 1) return QS_OK;
    const double begin = qs_clock();
    QS_TRY(step_run(all, run, false));
    *longest = fmax(*longest, (QS__STEPS_PER_VISIT + remembers_another(run)) * (qs_clock() - begin));
    return QS_OK;
}

/* The longest visit of all ranks is how long each has to be. */
static qs_status warm_up(qs__campaign *all) {
    const qs__setting *setting = all->setting;
    qs_status status = QS_OK;
    all->quantum = 0;
    const qs__plan_run *first = all->plans > 0 ? all->plan : all->check;
    QS_TRY(qs_executor_initialize(first->executor, setting->graph, setting->job->seed));
    for (int i = 0; i < all->plans && status == QS_OK; i++)
        status = plan_warm_up(all, &all->plan[i], &all->quantum);
    QS_TRY(qs_comm_agree(setting->comm, status));
    for (int c = 0; c < all->checks; c++)
        QS_TRY(check_warm_up(all, &all->check[c]));
    return qs_comm_max(setting->comm, &all->quantum, 1);
}

/* ---- How well is it known? ---------------------------------------------------------------------------------------------------------- */

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
        run->median_us = qs__quartiles_of(run->timed, all->scratch->value).median;
        run->confidence = qs__half_width_of(run->timed, all->scratch->value) / run->median_us;
    }
}

/* Takes out what was timed in a round, took longer than most_us, or waited for a core for more than that part of it. Returns how many. */
static int steps_drop(qs__plan_run *run, int round, double most_us, double most_wait) {
    const int before = run->timed;
    int kept = 0;
    const size_t steps = (size_t)run->schedule->steps;
    for (int i = 0; i < before; i++) {
        if (run->round[i] == round || run->whole[i] > most_us || run->waited[i] > most_wait) continue;
        if (run->step) memmove(run->step + (size_t)kept * steps, run->step + (size_t)i * steps, steps * sizeof *run->step);
        if (run->busy) run->busy[kept] = run->busy[i];
        run->whole[kept] = run->whole[i];
        run->data[kept] = run->data[i];
        run->waited[kept] = run->waited[i];
        run->round[kept++] = run->round[i];
    }
    run->timed = kept;
    return before - kept;
}

/* Steps of another round. */
static bool has_others(const qs__plan_run *run, int round) {
    for (int i = 0; i < run->timed; i++)
        if (run->round[i] != round) return true;
    return false;
}

/* Steps that waited for a core, unless most of a plan's did: on a core that is never free, the usual step is one that waits. Behind the
 * rounds: which of them were slower is asked of all steps, and a plan keeps half of those that are left. */
static void waiting_steps_drop(qs__campaign *all) {
    for (int p = 0; p < all->plans; p++) {
        qs__plan_run *run = &all->plan[p];
        int waiting = 0;
        for (int i = 0; i < run->timed; i++)
            waiting += run->waited[i] > most_waited;
        if (2 * waiting <= run->timed) all->left_out += steps_drop(run, NO_ROUND, INFINITY, most_waited);
    }
}

/* At most half of a plan's steps: medians stay in the middle of what is left. */
static void disturbed_steps_drop(qs__campaign *all) {
    int kept = 0;
    waiting_steps_drop(all);
    medians_update(all);
    for (int p = 0; p < all->plans; p++) {
        all->left_out += steps_drop(&all->plan[p], NO_ROUND, disturbed * all->plan[p].median_us, INFINITY);
        kept += all->plan[p].timed;
    }
    all->disturbed = (double)all->left_out / (all->left_out + kept);
    medians_update(all);
}

/* Whether a plan of this rank has been timed in no other round: then there would be nothing left of it. */
static bool is_all_of_a_plan(const qs__campaign *all, int round) {
    for (int p = 0; p < all->plans; p++)
        if (all->plan[p].timed > 0 && !has_others(&all->plan[p], round)) return true;
    return false;
}

qs_status qs__disturbed_rounds_drop(qs__campaign *all) {
    all->drift = 0;
    all->good_rounds = 0;
    for (int round = 0; round < all->round; round++) {
        double pace_and_needed[2] = {round_pace(all, round), is_all_of_a_plan(all, round)};
        QS_TRY(qs_comm_max(all->setting->comm, pace_and_needed, 2));
        const double pace = pace_and_needed[0];
        if (pace == 0) continue;
        if (pace > disturbed && pace_and_needed[1] == 0 && 2 * (all->dropped_rounds + 1) <= all->round) {
            all->dropped_rounds++;
            qs_log(QS_LOG_INFO, "profile: round %d was %.0f %% slower than the others: left out", round + 1, (pace - 1) * 100);
            for (int p = 0; p < all->plans; p++)
                steps_drop(&all->plan[p], round, INFINITY, INFINITY);
            for (int c = 0; c < all->checks; c++)
                if (has_others(&all->check[c], round)) steps_drop(&all->check[c], round, INFINITY, INFINITY);
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
    if (all->plans == 0) return QS_OK;
    for (int p = 0; p < all->plans; p++) {
        const double one = fmin(all->plan[p].confidence, 1);
        worst_and_pooled[0] = fmax(worst_and_pooled[0], one);
        worst_and_pooled[1] += one * one / all->plans;
    }
    worst_and_pooled[1] = sqrt(worst_and_pooled[1] / (all->plans < QS__WANTED_PLANS ? all->plans : QS__WANTED_PLANS));
    QS_TRY(qs_comm_max(all->setting->comm, worst_and_pooled, 2));
    all->confidence = worst_and_pooled[0];
    all->pooled = worst_and_pooled[1];
    return QS_OK;
}

static int least_rounds(const qs__setting *setting) {
    return (setting->options->repetitions + QS__STEPS_PER_VISIT - 1) / QS__STEPS_PER_VISIT;
}

/* By a plan of the highest precision, which takes longest, on the slowest rank. */
static qs_status time_deal(qs__campaign *all) {
    double step_s = all->plan[0].median_us * 1e-6, until;
    QS_TRY(qs_comm_max(all->setting->comm, &step_s, 1));
    all->budget_s = qs__budget_seconds(all->setting, all->visits, step_s);
    until = qs__plans_until(all->setting, all->visits, step_s);
    all->seconds_left = until - qs_clock();
    all->until = until;
    return QS_OK;
}

/* Ranks' clocks are their own: one that has no more time stops all. */
static qs_status rounds_done(const qs__campaign *all, bool *done) {
    const bool known = all->pooled <= wanted_confidence;
    if (!all->budgeted) {
        *done = all->good_rounds >= least_rounds(all->setting) && known;
        return QS_OK;
    }
    double over = qs_clock() >= all->until;
    QS_TRY(qs_comm_max(all->setting->comm, &over, 1));
    *done = all->round >= all->even_rounds && (over > 0 || (known && all->good_rounds >= LEAST_EVEN));
    return QS_OK;
}

static double rounds_share(const qs__campaign *all) {
    const double by_count = (double)all->round / all->most_rounds;
    if (!all->budgeted || !(all->seconds_left > 0)) return by_count;
    return fmin(fmax(1 - (all->until - qs_clock()) / all->seconds_left, by_count), 1);
}

static qs_status rounds_run(qs__campaign *all) {
    QS_TRY(warm_up(all));
    bool done = false;
    for (all->round = 0; !done && all->round < all->most_rounds;) {
        const double share = rounds_share(all);
        if (all->plans > 0)
            qs__progress(all->setting, 0.05 + 0.35 * share, "kernels in training steps");
        else
            qs__progress(all->setting, share, "plans in turn");
        QS_TRY(round_run(all));
        all->round++;
        medians_update(all);
        if (all->budgeted && all->round == 1) QS_TRY(time_deal(all));
        QS_TRY(qs__disturbed_rounds_drop(all));
        medians_update(all);
        QS_TRY(confidences_update(all));
        QS_TRY(rounds_done(all, &done));
    }
    if (all->plans == 0) return QS_OK;
    disturbed_steps_drop(all);
    qs_log(QS_LOG_INFO, "profile: %d rounds, %lld steps: kernels' part of a step is known to %.1f %%%s", all->round, (long long)all->steps,
           all->pooled * 100, all->pooled > wanted_confidence ? " only" : "");
    return QS_OK;
}

/* ---- Recordings ---------------------------------------------------------------------------------------------------------------------- */

static qs_status recordings_run(qs__campaign *all) {
    for (int p = 0; p < all->plans; p++) {
        qs__plan_run *run = &all->plan[p];
        double us, loop_us;
        QS_TRY(qs__recordings_time(all->setting, run->executor, &run->timeline, &all->steps, &us, &loop_us));
        QS_TRY(qs__samples_add(&all->out->recorded_us, us));
        if (loop_us > 0) QS_TRY(qs__samples_add(&all->out->recorded_loop_us, loop_us));
    }
    return QS_OK;
}

/* ---- Alone --------------------------------------------------------------------------------------------------------------------------- */

/* Ranks of a host take turns: what a kernel takes when the others wait for an all-reduce. The first plans are enough, for what differs is
 * how much memory traffic a kernel has. */
static qs_status turns_run(qs__campaign *all) {
    const qs_comm *comm = all->setting->comm;
    const int plans = all->plans < all->setting->recipes + 3 ? all->plans : all->setting->recipes + 3;
    double turns = qs_comm_local_size(comm);
    QS_TRY(qs_comm_max(all->setting->comm, &turns, 1));
    if (turns < 2 || all->visits == 0) return QS_OK;
    all->quantum = 0;
    all->again = false;
    for (int turn = 0; turn < (int)turns; turn++) {
        qs_status status = QS_OK;
        qs__progress(all->setting, 0.40 + 0.05 * turn / turns, "kernels while the others wait");
        for (int i = 0; i < ALONE_VISITS * plans && turn == qs_comm_local_rank(comm) && status == QS_OK; i++) {
            qs__plan_run *run = &all->plan[i % plans];
            all->round = QS__ALONE_ROUND;
            status = visit(all, run);
        }
        QS_TRY(qs_comm_agree(all->setting->comm, status));
    }
    return QS_OK;
}

/* ---- All of it ----------------------------------------------------------------------------------------------------------------------- */

static qs_status campaign_start(qs__campaign *all, const int *chosen, int count) {
    const qs__setting *setting = all->setting;
    const int per_visit = setting->ranks > 1 ? MOST_PER_VISIT : QS__STEPS_PER_VISIT;
    size_t bytes = 0;
    QS_TRY(checks_lower(all, &bytes));
    for (int i = 0; i < count; i++)
        if (all->mixes->mix[chosen[i]].arena_bytes > bytes) bytes = all->mixes->mix[chosen[i]].arena_bytes;
    QS_TRY(qs_fail_within(qs_memory_reserve(setting->device, bytes, &all->memory), "class %s: profiling runs every precision",
                          setting->class_->name));
    QS_TRY(qs_allocate((size_t)count, sizeof *all->plan, &all->plan));
    all->budgeted = setting->options->minutes != 0 && count > 0;
    all->even_rounds = all->most_rounds = setting->options->repetitions;
    if (all->budgeted) {
        all->even_rounds = setting->options->checks > 0 && least_rounds(setting) > LEAST_EVEN ? least_rounds(setting) : LEAST_EVEN;
        all->most_rounds = all->even_rounds + PART_OF_PLANS * setting->options->repetitions;
    }
    const int capacity = all->most_rounds * per_visit + ALONE_VISITS * QS__STEPS_PER_VISIT;
    QS_TRY(qs_grow(&all->scratch->value, &all->scratch->capacity, (size_t)capacity * (size_t)count, sizeof *all->scratch->value));
    for (; all->plans < count; all->plans++)
        QS_TRY(plan_start(all, &all->mixes->mix[chosen[all->plans]], capacity, &all->plan[all->plans]));
    all->check_every = count > 0 && least_rounds(setting) > 1 ? least_rounds(setting) / 2 : 1;
    QS_TRY(qs__places_start(all));
    return checks_bind(all);
}

static void campaign_end(qs__campaign *all, int count) {
    qs__places_end(all);
    for (int p = 0; all->plan && p < count; p++)
        run_release(&all->plan[p]);
    free(all->plan);
    for (int c = 0; all->check && c < all->setting->options->checks; c++)
        run_release(&all->check[c]);
    free(all->check);
    qs_comm_close(all->together);
    free(all->scratch->value);
    qs_memory_release(all->memory);
}

static qs_status campaign_run(qs__campaign *all) {
    double visits = all->plans;
    qs_status status = QS_OK;
    QS_TRY(qs_comm_max(all->setting->comm, &visits, 1));
    all->visits = (int)visits;
    QS_TRY(rounds_run(all));
    QS_TRY(qs_comm_agree(all->setting->comm, recordings_run(all)));
    QS_TRY(turns_run(all));
    status = qs__places_keep(all);
    all->out->quality = (qs_quality){.known = true,
                                     .plans = all->plans,
                                     .steps = 2 * (all->good_rounds < all->even_rounds ? all->good_rounds : all->even_rounds),
                                     .budget_s = all->budget_s,
                                     .confidence = all->confidence,
                                     .kernels = all->pooled,
                                     .drift = all->drift,
                                     .disturbed = all->disturbed};
    QS_TRY(qs_comm_agree(all->setting->comm, status));
    return checks_keep(all);
}

qs_status qs__steps_measure(const qs__setting *setting, const qs__mixes *mixes, qs__cases *cases, qs__step_figures *out) {
    const int most = mixes ? 4 * setting->recipes + 4 : 0;
    int *chosen = NULL, count = 0;
    qs__samples scratch = {0};
    qs__campaign all = {.setting = setting, .mixes = mixes, .cases = cases, .out = out, .scratch = &scratch};
    qs_status status = QS_OK;
    if (setting->options->checks > 0 && setting->ranks > 1) {
        QS_GOTO(qs_comm_split(setting->comm, 0, &all.together));
        QS_GOTO(qs_comm_algorithm_set(all.together, setting->job->algorithm));
        QS_GOTO(qs_devices_join(setting->device, all.together));
    }
    status = qs_allocate((size_t)most, sizeof *chosen, &chosen);
    if (status == QS_OK && mixes) status = qs__mixes_cover(setting, cases, mixes, most, chosen, &count);
    if (status == QS_OK) status = campaign_start(&all, chosen, count);
    QS_GOTO(qs_comm_agree(setting->comm, status));
    QS_GOTO(campaign_run(&all));
    out->measured = chosen;
    chosen = NULL;
done:
    campaign_end(&all, count);
    free(chosen);
    return status;
}

void qs__step_figures_release(qs__step_figures *figures) {
    free(figures->measured);
    free(figures->whole_us.value);
    free(figures->overhead_us.value);
    free(figures->data_us.value);
    free(figures->jitter.value);
    free(figures->recorded_us.value);
    free(figures->recorded_loop_us.value);
    free(figures->checked.value);
    *figures = (qs__step_figures){0};
}
