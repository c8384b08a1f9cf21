// SPDX-License-Identifier: Apache-2.0
/* Gradient buckets and the update phase. Buckets are consecutive pieces of the flat gradient buffer, closed when they reach the job's
 * bucket size, counted from the last parameter: they depend on graph and job only. */
#include <stdlib.h>

#include "schedule_internal.h"

static bool is_trained(const qs_parameter *parameter) {
    return parameter->gradient != QS_ROLE_COUNT;
}

static qs_status bucket_close(qs_lowerer *lowerer, size_t *capacity, int64_t first, int64_t end) {
    qs_schedule *schedule = lowerer->out;
    QS_TRY(qs_grow(&schedule->bucket, capacity, (size_t)schedule->buckets + 1, sizeof *schedule->bucket));
    schedule->bucket[schedule->buckets++] = (qs_bucket){first, end - first, -1, -1};
    return QS_OK;
}

qs_status qs__buckets_make(qs_lowerer *lowerer) {
    const qs_graph *graph = lowerer->graph;
    size_t capacity = 0;
    int64_t end = graph->trained_elements, first = end;
    QS_TRY(qs_allocate((size_t)graph->parameters, sizeof *lowerer->bucket_of, &lowerer->bucket_of));
    for (int i = graph->parameters - 1; i >= 0; i--) {
        if (!is_trained(&graph->parameter[i])) continue;
        lowerer->bucket_of[i] = lowerer->out->buckets;
        first = graph->parameter[i].offset;
        if ((end - first) * (int64_t)sizeof(float) < lowerer->in->job->bucket_bytes) continue;
        QS_TRY(bucket_close(lowerer, &capacity, first, end));
        end = first;
    }
    if (first < end) QS_TRY(bucket_close(lowerer, &capacity, first, end));
    QS_TRY(qs_allocate((size_t)lowerer->out->buckets, sizeof *lowerer->bucket_missing, &lowerer->bucket_missing));
    for (int i = 0; i < graph->parameters; i++)
        if (is_trained(&graph->parameter[i])) lowerer->bucket_missing[lowerer->bucket_of[i]]++;
    return QS_OK;
}

qs_status qs__bucket_gradient_done(qs_lowerer *lowerer, const qs_parameter *parameter) {
    const int bucket = lowerer->bucket_of[parameter - lowerer->graph->parameter];
    if (--lowerer->bucket_missing[bucket] > 0) return QS_OK;
    return qs__reduce_emit(lowerer, QS_STEP_REDUCE_START, bucket);
}

static void flat_bind(qs_lowerer *lowerer, qs_draft *draft, qs_role role, int buffer, const qs_bucket *bucket) {
    qs__draft_bind(draft, role, qs_shape_of(1, bucket->count), lowerer->fp32, buffer, (size_t)bucket->first * sizeof(float));
}

static void flag_bind(qs_lowerer *lowerer, qs_draft *draft) {
    qs__draft_bind(draft, QS_FLAG, qs_shape_of(1, (int64_t)1), lowerer->fp32, lowerer->out->flag, 0);
}

static qs_status check_emit(qs_lowerer *lowerer, int bucket) {
    qs_draft draft = qs__draft_make(-1, "finite_check", "forward", NULL);
    draft.bucket = bucket;
    flat_bind(lowerer, &draft, QS_SRC, lowerer->out->gradients, &lowerer->out->bucket[bucket]);
    flag_bind(lowerer, &draft);
    return qs__step_emit(lowerer, &draft);
}

static qs_status optimizer_emit(qs_lowerer *lowerer, int bucket) {
    const qs_job *job = lowerer->in->job;
    const qs_bucket *one = &lowerer->out->bucket[bucket];
    const qs_attributes attributes = {.value = job->optimizer.momentum, .value2 = job->optimizer.weight_decay};
    qs_draft draft = qs__draft_make(-1, job->optimizer.name, "forward", &attributes);
    draft.bucket = bucket;
    flat_bind(lowerer, &draft, QS_SRC, lowerer->out->gradients, one);
    flat_bind(lowerer, &draft, QS_WEIGHTS, lowerer->out->masters, one);
    flat_bind(lowerer, &draft, QS_MOMENTUM, lowerer->out->momentum, one);
    if (lowerer->out->flag >= 0) flag_bind(lowerer, &draft);
    return qs__step_emit(lowerer, &draft);
}

/* With loss scaling no optimiser step may run before the last bucket is known to be finite; without, each follows its own bucket. */
qs_status qs__update_emit(qs_lowerer *lowerer) {
    const int buckets = lowerer->out->buckets;
    if (lowerer->out->flag >= 0) {
        for (int b = 0; b < buckets; b++) {
            QS_TRY(qs__reduce_emit(lowerer, QS_STEP_REDUCE_WAIT, b));
            QS_TRY(check_emit(lowerer, b));
        }
        for (int b = 0; b < buckets; b++)
            QS_TRY(optimizer_emit(lowerer, b));
        return QS_OK;
    }
    for (int b = 0; b < buckets; b++) {
        QS_TRY(qs__reduce_emit(lowerer, QS_STEP_REDUCE_WAIT, b));
        QS_TRY(optimizer_emit(lowerer, b));
    }
    return QS_OK;
}
