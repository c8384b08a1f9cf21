// SPDX-License-Identifier: Apache-2.0
/* A planner's session behind a training run (train --adapt): paces in, the text of a plan out. Neither the planner nor the trainer knows
 * of the other. */
#include "adapt.h"

#include <string.h>

qs_status adapt_read(const char *profile_file, const qs_plan *plan, adapt_session *out) {
    char signature[32];
    QS_TRY(qs_profile_read(profile_file, &out->profile));
    qs_plan_options_default(&out->options);
    out->options.pins = plan;
    out->options.idle = true;
    out->planner = plan->planner[0] ? plan->planner : "qsync";
    qs_profile_signature(&out->profile, signature);
    if (plan->profile[0] && strcmp(plan->profile, signature) != 0)
        return qs_fail(QS_MISMATCH, "--adapt %s: the plan was made from another profile (signature %s, this one has %s)", profile_file,
                       plan->profile, signature);
    QS_TRY(statistics_check(&out->profile, NULL));
    if (qs_planner_assigns(out->planner))
        return qs_fail(QS_USAGE, "--adapt: planner %s assigns formats to tensors, which do not follow a pace; plan with qsync or joint",
                       out->planner);
    for (int c = 0; c < plan->classes; c++) {
        const qs_class_plan *one = &plan->class_[c];
        if (one->recomputes > 0) out->options.recompute = "auto";
        for (int i = 0; i < one->operators; i++)
            for (int g = 0; g < QS_GEMMS; g++)
                if (one->operator_[i].adds[g])
                    return qs_fail(QS_USAGE, "--adapt: operator %s has accumulators of its own, which planning again would not keep",
                                   one->operator_[i].name);
    }
    return QS_OK;
}

/* ---- What train calls --------------------------------------------------------------------------------------------------------------- */

static qs_status expect(void *context, const qs_schedule *schedule, double *us) {
    const adapt_session *session = context;
    return qs_cost_schedule(qs_profile_class(&session->profile, session->class_name), schedule, NULL, us);
}

static qs_status iteration_us(const adapt_session *session, const qs_profile *profile, const qs_plan *plan, double *us) {
    qs_prediction prediction = {0};
    const qs_status status = qs_plan_predict(plan, session->graph, session->cluster, profile, NULL, NULL, &prediction);
    *us = prediction.iteration_us;
    qs_prediction_release(&prediction);
    return status;
}

/* The plan names the profile as it was measured: paces are the run's, not the profile's. */
static qs_status plan_make(const adapt_session *session, const qs_profile *paced, const qs_plan *present, qs_plan *plan, qs_offer *out) {
    QS_TRY(qs_plan_make(session->planner, session->graph, session->cluster, paced, session->job, &session->options, plan));
    qs_profile_signature(&session->profile, plan->profile);
    QS_TRY(iteration_us(session, paced, present, &out->present_us));
    QS_TRY(iteration_us(session, paced, plan, &out->next_us));
    return qs_plan_text(plan, &out->plan);
}

static qs_status offer(void *context, const qs_pace *pace, const qs_plan *present, qs_offer *out) {
    const adapt_session *session = context;
    qs_profile paced;
    qs_plan plan = {0};
    QS_TRY(qs_profile_at_pace(&session->profile, session->cluster, pace, &paced));
    const qs_status status = plan_make(session, &paced, present, &plan, out);
    qs_plan_release(&plan);
    qs_profile_at_pace_release(&paced);
    return status;
}

/* ---- Beginning and end -------------------------------------------------------------------------------------------------------------- */

qs_status adapt_begin(adapt_session *session, const worker *here, const qs_job *job, int64_t every, qs_adaptation *out) {
    session->cluster = &here->cluster;
    session->job = job;
    session->class_name = here->cluster.class_[here->class_index].name;
    for (int c = 0; c < here->cluster.classes; c++)
        if (!qs_profile_class(&session->profile, here->cluster.class_[c].name))
            return qs_fail(QS_MISMATCH, "--adapt: the profile knows nothing of class %s: profile the cluster again",
                           here->cluster.class_[c].name);
    if (worker_is_first(here)) QS_TRY(job_model_open(job, &session->graph));
    *out = (qs_adaptation){.every = every, .context = session, .expect = expect, .plan = offer};
    return QS_OK;
}

void adapt_release(adapt_session *session) {
    qs_graph_release(session->graph);
    qs_profile_release(&session->profile);
    *session = (adapt_session){0};
}
