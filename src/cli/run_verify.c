// SPDX-License-Identifier: Apache-2.0
/* Verification: a planner picks the plan that its own errors favour, so the winner is timed in turn with the uniform plan, both by the same
 * ranks in the same minutes. Where it is slower than it may be, each class's times in the profile are multiplied by what its kernels took
 * in that plan over what they were predicted to take, the errors that are left become checks of the profile, which guard the next plan, and
 * it is planned again. */
#include "run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PLAN, UNIFORM, TIMED };
/* What a class's kernels took over what was predicted, within this: further off, something else than the prediction is wrong. */
static const double most_factor = 2;

/* ---- Plans ----------------------------------------------------------------------------------------------------------------------- */

static qs_status plan_make(const run_work *work, const char *planner, qs_plan *out) {
    return qs_plan_make(planner, work->graph, &work->here->cluster, &work->profile, &work->job.job, &work->options, out);
}

qs_status run_plan_share(qs_comm *comm, const qs_plan *mine, qs_plan *out) {
    char *text = NULL;
    qs_status status = qs_comm_rank(comm) == 0 ? qs_plan_text(mine, &text) : QS_OK;
    QS_GOTO(qs_comm_agree(comm, status));
    QS_GOTO(qs_comm_broadcast_text(comm, &text, 0));
    status = qs_comm_agree(comm, qs_plan_parse(text, "the plan to be verified", out));
done:
    free(text);
    return status;
}

/* ---- Corrections -------------------------------------------------------------------------------------------------------------------- */

static qs_status plan_predict(const run_work *work, const qs_plan *plan, qs_prediction *out) {
    return qs_plan_predict(plan, work->graph, &work->here->cluster, &work->profile, NULL, NULL, out);
}

/* The factors that the classes' kernels showed in the plan go into the profile, and into factor[classes]. */
static qs_status profile_correct(run_work *work, const qs_plan *plan, const double *kernels_us, double *factor) {
    qs_prediction prediction = {0};
    qs_profile slowed = {0};
    qs_pace *pace = NULL;
    qs_status status = QS_OK;
    QS_GOTO(plan_predict(work, plan, &prediction));
    QS_GOTO(qs_allocate((size_t)prediction.classes, sizeof *pace, &pace));
    for (int c = 0; c < prediction.classes; c++) {
        const qs_phase_times *phases = &prediction.class_[c].phases;
        const double predicted = phases->forward_us + phases->backward_us + phases->cast_us + phases->optimizer_us;
        const double found = kernels_us[c] > 0 && predicted > 0 ? fmin(fmax(kernels_us[c] / predicted, 1 / most_factor), most_factor) : 1;
        pace[c] = (qs_pace){.compute = 1 / found, .memory = 1 / found, .all_reduce = 1};
        factor[c] *= found;
    }
    QS_GOTO(qs_profile_at_pace(&work->profile, &work->here->cluster, pace, &slowed));
    for (int i = 0; i < work->profile.classes; i++) { /* all else is shared */
        qs_class_profile *old = &work->profile.class_[i], *new = &slowed.class_[i];
        qs_kernel_cost *kernel = old->kernel;
        qs_conversion_cost *conversion = old->conversion;
        old->kernel = new->kernel;
        old->conversion = new->conversion;
        new->kernel = kernel;
        new->conversion = conversion;
    }
    qs_profile_at_pace_release(&slowed);
done:
    free(pace);
    qs_prediction_release(&prediction);
    return status;
}

/* What is left of the errors, the corrections in: they say how far the next plan can be trusted. */
static qs_status checks_keep(run_work *work, const qs_plan *const *timed, const qs_profile_check *row) {
    qs_profile_check *check = NULL;
    QS_TRY(qs_allocate(TIMED, sizeof *check, &check));
    for (int i = 0; i < TIMED; i++) {
        qs_prediction prediction = {0};
        const qs_status status = plan_predict(work, timed[i], &prediction);
        check[i] = row[i];
        check[i].predicted_us = check[i].no_casts_us = prediction.iteration_us;
        qs_prediction_release(&prediction);
        if (status == QS_OK) continue;
        free(check);
        return status;
    }
    free(work->profile.check);
    work->profile.check = check;
    work->profile.checks = TIMED;
    return QS_OK;
}

/* ---- Rounds -------------------------------------------------------------------------------------------------------------------------- */

typedef struct verifying {
    run_work *work;
    const qs_profile_options *options;
    qs_plan uniform;
    double *factor;     /* (classes) so far */
    double *kernels_us; /* (TIMED x classes) of the round */
    qs_profile_check row[TIMED];
    int rounds;
    qs_verification *round;
    size_t capacity;
} verifying;

/* All ranks. */
static qs_status round_time(verifying *one) {
    run_work *work = one->work;
    qs_comm *comm = work->here->comm;
    static const char *const names[TIMED] = {"plan", "uniform"};
    qs_plan timed[TIMED];
    qs_profile_options options = *one->options;
    qs_status status = QS_OK;
    memset(timed, 0, sizeof timed);
    QS_GOTO(run_plan_share(comm, &work->plan, &timed[PLAN]));
    QS_GOTO(run_plan_share(comm, &one->uniform, &timed[UNIFORM]));
    options.repetitions = options.repetitions < 4 ? options.repetitions : 4;
    options.checks = TIMED;
    options.check = timed;
    options.check_name = names;
    status = qs_profile_time_plans(&options, work->here->device, comm, one->row, one->kernels_us);
done:
    for (int i = 0; i < TIMED; i++)
        qs_plan_release(&timed[i]);
    return status;
}

/* Two medians are known to so much each; so is their quotient. */
static qs_status round_judge(verifying *one, bool *kept) {
    const qs_profile_check *plan = &one->row[PLAN], *uniform = &one->row[UNIFORM];
    const double confidence = hypot(plan->confidence, uniform->confidence), tolerance = one->work->options.tolerance;
    *kept = plan->measured_us <= uniform->measured_us / (1 - tolerance) * (1 + confidence);
    QS_TRY(qs_grow(&one->round, &one->capacity, (size_t)one->rounds + 1, sizeof *one->round));
    one->round[one->rounds++] = (qs_verification){.measured_us = plan->measured_us,
                                                  .uniform_us = uniform->measured_us,
                                                  .predicted_us = one->work->plan.class_[0].predicted.iteration_us,
                                                  .confidence = confidence,
                                                  .kept = *kept};
    return QS_OK;
}

/* Rank 0: another plan by the corrected profile; *another false: there is none. */
static qs_status plan_again(verifying *one, bool *another) {
    run_work *work = one->work;
    const qs_plan *timed[TIMED] = {&work->plan, &one->uniform};
    qs_plan next = {0};
    qs_status status = QS_OK;
    QS_GOTO(profile_correct(work, &work->plan, one->kernels_us, one->factor));
    QS_GOTO(checks_keep(work, timed, one->row));
    QS_GOTO(plan_make(work, work->planner, &next));
    *another = !qs_plans_alike(&next, &work->plan);
    qs_plan_release(&work->plan);
    work->plan = next;
    next = (qs_plan){0};
    qs_plan_release(&one->uniform);
    status = plan_make(work, "uniform", &one->uniform);
done:
    qs_plan_release(&next);
    return status;
}

/* What rank 0 makes of a round; *on: there is a plan to be timed. */
static qs_status round_end(verifying *one, bool *on) {
    run_work *work = one->work;
    bool kept = false, another = false;
    *on = false;
    QS_TRY(round_judge(one, &kept));
    if (kept) return QS_OK;
    QS_TRY(plan_again(one, &another));
    *on = another && one->rounds < work->rounds && !qs_plans_alike(&work->plan, &one->uniform);
    if (*on) return QS_OK;
    qs_plan_release(&work->plan);
    work->plan = one->uniform;
    one->uniform = (qs_plan){0};
    return QS_OK;
}

static void plan_note(verifying *one) {
    qs_plan *plan = &one->work->plan;
    plan->verifications = one->rounds;
    plan->verification = one->round;
    one->round = NULL;
    for (int c = 0; c < plan->classes; c++)
        if (one->factor[c] != 1) plan->class_[c].predicted.factor = one->factor[c];
}

qs_status run_verify(run_work *work, const qs_profile_options *options, bool *corrected) {
    const int classes = work->here->cluster.classes;
    const bool first = worker_is_first(work->here);
    qs_comm *comm = work->here->comm;
    verifying one = {.work = work, .options = options};
    bool on = false;
    qs_status status = QS_OK;
    *corrected = false;
    QS_GOTO(qs_comm_agree(comm, qs_allocate((size_t)classes, sizeof *one.factor, &one.factor)));
    QS_GOTO(qs_comm_agree(comm, qs_allocate((size_t)(TIMED * classes), sizeof *one.kernels_us, &one.kernels_us)));
    for (int c = 0; c < classes; c++)
        one.factor[c] = 1;
    if (first) status = plan_make(work, "uniform", &one.uniform);
    QS_GOTO(qs_comm_agree(comm, status));
    if (first) on = !qs_plans_alike(&work->plan, &one.uniform); /* nothing was chosen beyond it */
    QS_GOTO(qs_comm_broadcast(comm, &on, sizeof on, 0));
    while (on) {
        QS_GOTO(round_time(&one));
        if (first) status = round_end(&one, &on);
        QS_GOTO(qs_comm_agree(comm, status));
        QS_GOTO(qs_comm_broadcast(comm, &on, sizeof on, 0));
    }
    for (int c = 0; c < classes; c++)
        *corrected = *corrected || one.factor[c] != 1;
    if (first && one.rounds > 0) plan_note(&one);
done:
    qs_plan_release(&one.uniform);
    free(one.factor);
    free(one.kernels_us);
    free(one.round);
    return status;
}
