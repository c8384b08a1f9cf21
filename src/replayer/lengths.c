// SPDX-License-Identifier: Apache-2.0
/* The predictor of a job: of one length as predict.c has it; of several, each length is lowered, priced and replayed by itself, times are
 * means over lengths by how many samples have each (docs/method.md eq. (4.13)), memory is that of the one that needs most. */
#include "replayer_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct qs_predictor {
    const qs_cluster *cluster;
    qs_graph_lengths lengths;
    double share[QS_MOST_LENGTHS];
    qs__predictor *at[QS_MOST_LENGTHS]; /* (lengths.count) */
};

/* ---- Making ---- */

/* Shares of the job's lengths among the samples that were profiled. The longest alone is what all samples can be padded to. */
static qs_status shares_find(const qs_profile *profile, const qs_lengths *wanted, double *share) {
    char has[QS_LENGTHS_TEXT], asked[QS_LENGTHS_TEXT];
    qs_lengths there = {.count = profile->lengths};
    int64_t all = 0;
    share[0] = 1;
    if (wanted->count == 0) return QS_OK;
    for (int k = 0; k < profile->lengths && k < QS_MOST_LENGTHS; k++) {
        there.at[k] = profile->length_row[k].length;
        all += profile->length_row[k].samples;
    }
    if (wanted->count == 1 && there.count > 0 && wanted->at[0] == there.at[there.count - 1]) return QS_OK;
    if (!qs_lengths_equal(&there, wanted))
        return qs_fail(QS_MISMATCH, "the job has lengths %s, the profile knows %s: profile with --lengths %s",
                       qs_lengths_text(wanted, asked), there.count ? qs_lengths_text(&there, has) : "one alone", asked);
    if (all < 1) return qs_fail(QS_MISMATCH, "the profile does not say how many samples have each of its lengths: profile again");
    for (int k = 0; k < wanted->count; k++)
        share[k] = (double)profile->length_row[k].samples / (double)all;
    return QS_OK;
}

qs_status qs_predictor_create(const qs_graph *graph, const qs_cluster *cluster, const qs_profile *profile, const qs_job *job,
                              const qs_cost_options *options, qs_predictor **out) {
    qs_predictor *one = NULL;
    qs_status status = QS_OK;
    QS_TRY(qs_allocate(1, sizeof *one, &one));
    one->cluster = cluster;
    QS_GOTO(qs_graph_lengths_make(graph, &job->lengths, &one->lengths));
    QS_GOTO(shares_find(profile, &job->lengths, one->share));
    for (int k = 0; k < one->lengths.count; k++)
        QS_GOTO(qs__predictor_create(one->lengths.graph[k], cluster, profile, job, options, &one->at[k]));
    *out = one;
    one = NULL;
done:
    qs_predictor_release(one);
    return status;
}

void qs_predictor_release(qs_predictor *one) {
    if (!one) return;
    for (int k = 0; k < QS_MOST_LENGTHS; k++)
        qs__predictor_release(one->at[k]);
    qs_graph_lengths_release(&one->lengths);
    free(one);
}

qs_status qs_predictor_batches(qs_predictor *one, const int64_t *batch) {
    for (int k = 0; k < one->lengths.count; k++) /* what one refuses the first does */
        QS_TRY(qs__predictor_batches(one->at[k], batch));
    return QS_OK;
}

void qs_predictor_tensors(qs_predictor *one, const qs_tensor_table *const *tensors) {
    for (int k = 0; k < one->lengths.count; k++)
        qs__predictor_tensors(one->at[k], tensors);
}

void qs_predictor_draft(qs_predictor *one, int class_index, const qs_schedule_draft *draft) {
    qs__predictor_draft(one->at[one->lengths.count - 1], class_index, draft);
}

/* ---- Several lengths as one ---- */

static void times_add(qs_phase_times *sum, const qs_phase_times *more, double share) {
    sum->forward_us += share * more->forward_us;
    sum->backward_us += share * more->backward_us;
    sum->cast_us += share * more->cast_us;
    sum->communication_us += share * more->communication_us;
    sum->waiting_us += share * more->waiting_us;
    sum->optimizer_us += share * more->optimizer_us;
    sum->data_us += share * more->data_us;
}

/* A class over all lengths: batch, hash and what all-reduces hold are those of the longest. */
static void class_mean(const qs_predictor *one, const qs_prediction *part, int c, qs_prediction_class *out) {
    const qs_prediction_class *longest = &part[one->lengths.count - 1].class_[c];
    *out = *longest;
    out->compute_us = out->waiting_us = out->recompute_us = out->alone = 0;
    out->phases = (qs_phase_times){0};
    out->program_bytes = 0;
    for (int k = 0; k < one->lengths.count; k++) {
        const qs_prediction_class *from = &part[k].class_[c];
        out->compute_us += one->share[k] * from->compute_us;
        out->waiting_us += one->share[k] * from->waiting_us;
        out->recompute_us += one->share[k] * from->recompute_us;
        out->alone += one->share[k] * from->alone;
        times_add(&out->phases, &from->phases, one->share[k]);
        out->program_bytes += from->program_bytes;
        if (from->base_bytes > out->base_bytes) out->base_bytes = from->base_bytes;
        out->fits = out->fits && from->fits;
        if (from->arena_bytes <= out->arena_bytes) continue;
        out->arena_bytes = from->arena_bytes;
        memcpy(out->category_bytes, from->category_bytes, sizeof out->category_bytes);
    }
}

/* Ranks behave alike at every length: classes, hosts and slowdowns decide, none of which knows of lengths. */
static void groups_mean(const qs_predictor *one, const qs_prediction *part, qs_prediction *out) {
    for (int g = 0; g < out->groups; g++) {
        qs_prediction_group *to = &out->group[g];
        to->compute_us = to->waiting_us = to->reducing_us = 0;
        to->phases = (qs_phase_times){0};
        for (int k = 0; k < one->lengths.count; k++) {
            const qs_prediction_group *from = &part[k].group[g];
            to->compute_us += one->share[k] * from->compute_us;
            to->waiting_us += one->share[k] * from->waiting_us;
            to->reducing_us += one->share[k] * from->reducing_us;
            times_add(&to->phases, &from->phases, one->share[k]);
        }
    }
    for (int i = 0; i < out->groups * out->groups; i++) {
        out->late_us[i] = 0;
        for (int k = 0; k < one->lengths.count; k++)
            out->late_us[i] += one->share[k] * part[k].late_us[i];
    }
}

/* Takes what is kept of the parts: classes of each, and all else of the longest. */
static qs_status lengths_join(const qs_predictor *one, qs_prediction *part, qs_prediction *out) {
    const int count = one->lengths.count, last = count - 1, classes = part[last].classes;
    const double samples = part[last].samples_per_second * part[last].iteration_us;
    qs_prediction_class *mean = NULL;
    qs_prediction_length *length = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)classes, sizeof *mean, &mean));
    QS_GOTO(qs_allocate((size_t)count, sizeof *length, &length));
    for (int k = 0; k < count; k++)
        if (part[k].groups != part[last].groups)
            QS_GOTO(qs_fail(QS_FAILED, "ranks fall into %d groups at one length and %d at another", part[k].groups, part[last].groups));
    for (int c = 0; c < classes; c++)
        class_mean(one, part, c, &mean[c]);
    double iteration_us = 0;
    for (int k = 0; k < count; k++) {
        iteration_us += one->share[k] * part[k].iteration_us;
        length[k] = (qs_prediction_length){.length = qs_samples_length(&one->lengths.graph[k]->samples),
                                           .share = one->share[k],
                                           .iteration_us = part[k].iteration_us,
                                           .class_ = part[k].class_};
        part[last].fits = part[last].fits && part[k].fits;
    }
    *out = part[last];
    groups_mean(one, part, out);
    for (int k = 0; k < count; k++)
        part[k].class_ = NULL;
    part[last] = (qs_prediction){0};
    out->class_ = mean;
    out->lengths = count;
    out->length = length;
    out->iteration_us = iteration_us;
    out->samples_per_second = samples / iteration_us;
    return QS_OK;
done:
    free(mean);
    free(length);
    return status;
}

/* ---- Asking ---- */

qs_status qs_predictor_ask(qs_predictor *one, const qs_recipe *const *const *recipe, char **trace, qs_prediction *out) {
    qs_prediction part[QS_MOST_LENGTHS] = {{0}};
    const int last = one->lengths.count - 1;
    qs_status status = QS_OK;
    if (last == 0) return qs__predictor_ask(one->at[0], recipe, trace, out);
    for (int k = 0; k <= last; k++)
        QS_GOTO(qs_fail_within(qs__predictor_ask(one->at[k], recipe, k == last ? trace : NULL, &part[k]), "length %lld",
                               (long long)qs_samples_length(&one->lengths.graph[k]->samples)));
    status = lengths_join(one, part, out);
done:
    for (int k = 0; k <= last; k++)
        qs_prediction_release(&part[k]);
    return status;
}

qs_status qs_predict_trace(const qs_graph *graph, const qs_cluster *cluster, const qs_profile *profile, const qs_job *job,
                           const qs_recipe *const *const *recipe, const qs_cost_options *options, char **trace, qs_prediction *out) {
    qs_predictor *predictor = NULL;
    QS_TRY(qs_predictor_create(graph, cluster, profile, job, options, &predictor));
    const qs_status status = qs_predictor_ask(predictor, recipe, trace, out);
    qs_predictor_release(predictor);
    return status;
}

qs_status qs_predict(const qs_graph *graph, const qs_cluster *cluster, const qs_profile *profile, const qs_job *job,
                     const qs_recipe *const *const *recipe, const qs_cost_options *options, qs_prediction *out) {
    return qs_predict_trace(graph, cluster, profile, job, recipe, options, NULL, out);
}
