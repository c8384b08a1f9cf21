// SPDX-License-Identifier: Apache-2.0
/* A run that keeps pace: every so many steps the ranks compare what their kernels took with what the profile expects, and where a change
 * lasts rank 0 plans again. Measured is what the clock beside the steps (watch.c) sees anyway; a pace trace stands for it, and makes it
 * true by rests. */
#include "train_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double first_cost_us = 200e3; /* of planning and switching, before it is known; with a trace for good */
static const double foreign_share = 0.05;  /* of its time that a thread waits for a core where others are to blame */

/* ---- What is expected ---------------------------------------------------------------------------------------------------------------- */

static qs_status expected_fill(const qs__setting *setting, const qs_schedule *schedule, qs__pace_sums *out) {
    const qs_adaptation *adaptation = setting->options->adaptation;
    double *us = NULL;
    *out = (qs__pace_sums){0};
    QS_TRY(qs_allocate((size_t)schedule->steps, sizeof *us, &us));
    const qs_status status = adaptation->expect(adaptation->context, schedule, us);
    for (int s = 0; s < schedule->steps && status == QS_OK; s++)
        if (schedule->step[s].kind == QS_STEP_KERNEL)
            *(schedule->step[s].case_.op->kind == QS_ADJUSTABLE ? &out->compute_us : &out->memory_us) += us[s];
    free(us);
    return status;
}

/* Kernels run on zeros: what the arena holds from another plan might be anything. */
static qs_status probe_start(const qs__setting *setting, const qs__program *main, qs__probe *out) {
    const qs_adaptation *adaptation = setting->options->adaptation;
    const qs_schedule *schedule = main->schedule;
    out->step = -1;
    QS_TRY(qs_allocate((size_t)schedule->steps, sizeof *out->expected_us, &out->expected_us));
    for (int b = 0; b < schedule->buffers; b++)
        if (!schedule->buffer[b].persistent) QS_TRY(qs_executor_clear(main->executor, b));
    return adaptation->expect(adaptation->context, schedule, out->expected_us);
}

qs_status qs__adapt_follow(const qs__setting *setting, const qs__present *present, qs__adapting *adapting) {
    adapting->noted = 0;
    adapting->all_reduce_us = 0;
    adapting->all_reduce_pace = adapting->changes.planned[0].all_reduce;
    free(adapting->probe.expected_us);
    adapting->probe = (qs__probe){0};
    memset(adapting->expected, 0, sizeof adapting->expected);
    if (setting->options->pace_trace) return QS_OK;
    if (present->batch[setting->rank] == 0) return probe_start(setting, qs__main(present), &adapting->probe);
    for (int k = 0; k < present->lengths; k++)
        QS_TRY(expected_fill(setting, present->at[k].main.schedule, &adapting->expected[k]));
    return QS_OK;
}

qs_status qs__adapt_create(const qs__setting *setting, const qs__plans *plans, qs__adapting *out) {
    const qs_train_options *options = setting->options;
    *out = (qs__adapting){.cost_us = first_cost_us};
    if (options->pace_trace && !qs_memory_host(plans->memory))
        return qs_fail(QS_UNSUPPORTED, "a pace trace slows kernels down by rests of the host, which those of class %s do not wait for",
                       setting->class_->name);
    if (!options->adaptation) return QS_OK;
    if (options->adaptation->every < 1)
        return qs_fail(QS_USAGE, "looks at the pace every %lld steps: at least 1", (long long)options->adaptation->every);
    if (!plans->present.plan) return qs_fail(QS_USAGE, "without a plan there is nothing to adapt: give the one to begin with");
    (void)qs_waited(&out->waits);
    out->clock = qs_clock();
    QS_TRY(qs__pace_create(options->cluster->classes, options->adaptation->every, &out->changes));
    QS_TRY(qs_allocate((size_t)options->cluster->classes, sizeof *out->waited, &out->waited));
    return qs__adapt_follow(setting, &plans->present, out);
}

void qs__adapt_release(qs__adapting *adapting) {
    qs__pace_release(&adapting->changes);
    free(adapting->waited);
    free(adapting->probe.expected_us);
    *adapting = (qs__adapting){0};
}

void qs__pace_apply(const qs__setting *setting, int64_t step, qs_executor *executor) {
    if (!setting->options->pace_trace) return;
    const int own = qs_cluster_class_of(setting->options->cluster, setting->rank);
    const qs_pace pace = qs_pace_trace_at(setting->options->pace_trace, own, step);
    qs__executor_slow(executor, pace.compute, pace.memory);
}

/* ---- What is measured ---------------------------------------------------------------------------------------------------------------- */

void qs__adapt_note(qs__adapting *adapting, int length, const qs_schedule *schedule, const qs_timeline *timeline) {
    qs__pace_sums took = {0};
    double free_from = 0;
    for (int s = 0; s < schedule->steps; s++) {
        const qs_step *step = &schedule->step[s];
        const double begin = qs__timeline_start_of(timeline, s), end = timeline->end[s];
        if (step->kind == QS_STEP_KERNEL)
            *(step->case_.op->kind == QS_ADJUSTABLE ? &took.compute_us : &took.memory_us) += 1e6 * (end - begin - timeline->polled[s]);
        if (step->kind != QS_STEP_REDUCE_START) continue;
        /* One after the other: it begins where the one before is complete. */
        const double complete = timeline->complete[step->bucket];
        took.all_reduce_us += 1e6 * fmax(complete - fmax(begin, free_from), 0);
        free_from = fmax(free_from, complete);
    }
    const qs__pace_sums *expected = &adapting->expected[length];
    const int64_t place = adapting->noted++ % QS__PACED;
    adapting->slowness[0][place] = expected->compute_us > 0 ? took.compute_us / expected->compute_us : 1;
    adapting->slowness[1][place] = expected->memory_us > 0 ? took.memory_us / expected->memory_us : 1;
    adapting->slowness[2][place] = took.all_reduce_us;
}

/* Forward kernels change nothing that lasts, but for running statistics. */
static bool is_probed(const qs_schedule *schedule, int index) {
    const qs_step *step = &schedule->step[index];
    if (step->kind != QS_STEP_KERNEL || step->phase != QS_FORWARD) return false;
    for (int i = 0; i < QS_MAX_OPERANDS; i++)
        if (step->place[i].buffer >= 0 && step->place[i].buffer == schedule->running) return false;
    return true;
}

qs_status qs__adapt_probe(qs__adapting *adapting, const qs__program *main, const qs_run *run) {
    qs__probe *probe = &adapting->probe;
    const qs_schedule *schedule = main->schedule;
    qs_run here = *run;
    float read;
    if (!probe->expected_us) return QS_OK;
    do
        probe->step = (probe->step + 1) % schedule->steps;
    while (!is_probed(schedule, probe->step));
    here.samples = schedule->batch;
    const double begin = qs_clock();
    QS_TRY(qs__executor_step(main->executor, probe->step, &here));
    QS_TRY(qs_executor_read(main->executor, schedule->masters, 0, sizeof read, &read)); /* the device is done with it */
    const bool product = schedule->step[probe->step].case_.op->kind == QS_ADJUSTABLE;
    *(product ? &probe->took.compute_us : &probe->took.memory_us) += 1e6 * (qs_clock() - begin);
    *(product ? &probe->expected.compute_us : &probe->expected.memory_us) += probe->expected_us[probe->step];
    return QS_OK;
}

/* Behind a trace: what the steps of the window took, as if each were as long. */
static void traced_pace(const qs__setting *setting, int64_t step, qs_pace *seen) {
    const int64_t every = setting->options->adaptation->every;
    for (int c = 0; c < setting->options->cluster->classes; c++) {
        double compute = 0, memory = 0;
        for (int64_t s = step - every; s < step; s++) {
            const qs_pace one = qs_pace_trace_at(setting->options->pace_trace, c, s);
            compute += 1 / one.compute;
            memory += 1 / one.memory;
        }
        seen[c] = (qs_pace){(double)every / compute, (double)every / memory, 1};
    }
}

/* One message: of each class how slow its slowest rank is and how long that waited for a core, and of all-reduces what they take the rank
 * that waits for no other. Where no step was timed a class keeps the pace that it was known to have. */
static qs_status measured_pace(const qs__setting *setting, qs__adapting *adapting, qs_pace *seen) {
    const int classes = setting->options->cluster->classes, own = qs_cluster_class_of(setting->options->cluster, setting->rank);
    const int64_t count = adapting->noted < QS__PACED ? adapting->noted : QS__PACED;
    const double now = qs_clock(), seconds = fmax(now - adapting->clock, 1e-9);
    const double waited = qs_waited(&adapting->waits);
    double *all = NULL, *reduce; /* (classes × 3), and one */
    QS_TRY(qs_comm_agree(setting->comm, qs_allocate(3 * (size_t)classes + 1, sizeof *all, &all)));
    reduce = all + 3 * classes;
    *reduce = -INFINITY;
    double *mine = all + 3 * own;
    qs__probe *probe = &adapting->probe;
    if (count > 0) {
        mine[0] = qs__median(adapting->slowness[0], count);
        mine[1] = qs__median(adapting->slowness[1], count);
        mine[2] = waited / seconds;
        *reduce = -qs__median(adapting->slowness[2], count);
    }
    if (probe->expected_us) { /* of a kind that was not probed nothing new is known */
        mine[0] = probe->expected.compute_us > 0 ? probe->took.compute_us / probe->expected.compute_us : 0;
        mine[1] = probe->expected.memory_us > 0 ? probe->took.memory_us / probe->expected.memory_us : 0;
        probe->took = probe->expected = (qs__pace_sums){0};
    }
    const qs_status status = qs_comm_max(setting->comm, all, 3 * classes + 1);
    adapting->noted = 0;
    adapting->clock = now;
    const double took = -*reduce;
    if (adapting->all_reduce_us == 0 && took > 0 && isfinite(took)) adapting->all_reduce_us = took;
    for (int c = 0; c < classes && status == QS_OK; c++) {
        const double *of = all + 3 * c;
        const qs_pace known = adapting->changes.planned[c];
        seen[c] = (qs_pace){of[0] > 0 ? 1 / of[0] : known.compute, of[1] > 0 ? 1 / of[1] : known.memory, known.all_reduce};
        if (took > 0 && isfinite(took)) seen[c].all_reduce = adapting->all_reduce_pace * adapting->all_reduce_us / took;
        adapting->waited[c] = of[2];
    }
    free(all);
    return status;
}

/* ---- Decisions ----------------------------------------------------------------------------------------------------------------------- */

/* Rank 0: the plan for the changed paces, and whether it is worth taking. A pace that nothing can be planned for leaves the plan as it
 * is. */
static void offer_weigh(const qs__setting *setting, const qs_plan *present, const qs__adapting *adapting, int64_t step, qs__decision *out,
                        char **text) {
    const qs_adaptation *adaptation = setting->options->adaptation;
    qs_plan next = {0};
    qs_offer offer = {0};
    qs_status status = adaptation->plan(adaptation->context, adapting->changes.changed, present, &offer);
    if (status == QS_OK) status = qs_plan_parse(offer.plan, "plan at another pace", &next);
    if (status != QS_OK) {
        snprintf(out->reason, sizeof out->reason, "%s", qs_message());
        out->what = "stay";
        free(offer.plan);
        return;
    }
    out->bargain = (qs__bargain){.present_us = offer.present_us,
                                 .next_us = offer.next_us,
                                 .present_omega = qs__plan_omega(present, setting->options->cluster),
                                 .next_omega = qs__plan_omega(&next, setting->options->cluster),
                                 .cost_us = adapting->cost_us,
                                 .steps = qs__pace_expected(&adapting->changes, step, setting->steps),
                                 .same = qs_plans_alike(present, &next)};
    const qs__verdict verdict = qs__plan_weigh(&out->bargain);
    snprintf(out->reason, sizeof out->reason, "%s", verdict.reason);
    out->what = verdict.take ? "switch" : "stay";
    if (verdict.take)
        *text = offer.plan;
    else
        free(offer.plan);
    qs_plan_release(&next);
}

static void decision_log(const qs__setting *setting, const qs__decision *one, int64_t step) {
    static const char *const kind[] = {"computes", "moves data", "sums"};
    if (!one->bargain.steps) return;
    qs_log(QS_LOG_INFO,
           "class %s %s at %.2f of its profiled pace, before at %.2f; step %lld: %s (%s); an iteration takes %.1f ms, "
           "%.1f ms replanned",
           setting->options->cluster->class_[one->paced.class_index].name, kind[one->paced.kind], one->paced.to, one->paced.from,
           (long long)step + 1, one->what, one->reason, 1e-3 * one->bargain.present_us, 1e-3 * one->bargain.next_us);
}

/* What a change of pace comes to. *taken: the plan is another one, with `figures`. */
static qs_status change_answer(const qs__setting *setting, qs__plans *plans, qs__adapting *adapting, int64_t step, qs__decision *out,
                               bool *taken, qs__replan_figures *figures) {
    const double begin = qs_clock();
    char *text = NULL;
    if (setting->rank == 0) offer_weigh(setting, plans->present.plan, adapting, step, out, &text);
    const bool offered = text != NULL;
    QS_TRY(qs__plan_offered_take(setting, plans, step, text, taken, figures));
    if (offered && !*taken) {
        out->what = "refused";
        snprintf(out->reason, sizeof out->reason, "%s", qs_message());
    }
    qs__pace_settle(&adapting->changes, *taken);
    if (!*taken) return QS_OK;
    double took_us = 1e6 * (qs_clock() - begin);
    QS_TRY(qs_comm_max(setting->comm, &took_us, 1));
    if (!setting->options->pace_trace) adapting->cost_us = took_us;
    return qs_comm_agree(setting->comm, qs__adapt_follow(setting, &plans->present, adapting));
}

bool qs__adapt_is_due(const qs__setting *setting, int64_t step) {
    const qs_adaptation *adaptation = setting->options->adaptation;
    return adaptation && step > setting->resumed && step % adaptation->every == 0;
}

qs_status qs__adapt(const qs__setting *setting, qs__plans *plans, qs__adapting *adapting, int64_t epoch, int64_t step, bool *taken,
                    qs__replan_figures *figures) {
    static const char *const whats[] = {[QS__NEW] = "wait", [QS__AGAIN] = "wait", [QS__PASSED] = "stay"};
    static const char *const reasons[] = {[QS__NEW] = "new", [QS__AGAIN] = "not yet sure that it lasts", [QS__PASSED] = "it passed"};
    const double begin = qs_clock();
    const int classes = setting->options->cluster->classes;
    qs_pace *seen = NULL;
    qs__decision decision = {0};
    *taken = false;
    QS_TRY(qs_comm_agree(setting->comm, qs_allocate((size_t)classes, sizeof *seen, &seen)));
    qs_status status = QS_OK;
    if (setting->options->pace_trace)
        traced_pace(setting, step, seen);
    else
        status = measured_pace(setting, adapting, seen);
    if (status == QS_OK) {
        const qs__change change = qs__pace_look(&adapting->changes, seen, step);
        decision.seen = seen;
        decision.paced = adapting->changes.what;
        if (!setting->options->pace_trace) decision.waited = adapting->waited;
        if (change == QS__LASTS) {
            status = change_answer(setting, plans, adapting, step, &decision, taken, figures);
        } else if (change != QS__STEADY) {
            decision.what = whats[change];
            snprintf(decision.reason, sizeof decision.reason, "%s", reasons[change]);
        }
    }
    if (status == QS_OK && setting->rank == 0 && decision.what) {
        decision.foreign = decision.waited && decision.waited[decision.paced.class_index] > foreign_share;
        decision_log(setting, &decision, step);
        status = qs__metrics_decision(setting, epoch, step, &decision);
    }
    adapting->seconds += qs_clock() - begin;
    free(seen);
    return status == QS_PEER_LOST ? status : qs_comm_agree(setting->comm, status);
}
