// SPDX-License-Identifier: Apache-2.0
/* The update: waits for the all-reduces, finite checks, clipping, and the optimiser on ranges of the flat buffers. Where a job has layers
 * learn at rates of their own or exempts parameters from weight decay, a bucket falls into several ranges (qs_update_span), each an update
 * by itself. */
#include <stdlib.h>

#include "schedule_internal.h"

/* ---- Ranges that learn alike ---- */

/* A layer's rate is that of the layer behind it times the job's factor. */
static double layer_rate(const qs_job *job, int layer) {
    double rate = 1;
    for (int i = 0; i < layer; i++)
        rate *= job->rate.layer_decay;
    return rate;
}

/* Where only matrices decay, vectors (biases, scales and shifts of norms) do not. Without weight decay all are alike. */
static bool decays(const qs_schedule_draft *draft, const qs_parameter *parameter) {
    const qs_job *job = draft->in.job;
    const bool none = qs_op_attributes(draft->optimizer.op, job->optimizer.setting).weight_decay == 0;
    return none || !job->decay_matrices || parameter->shape.axes > 1;
}

/* Parameters lie in their order, buckets are counted from the end. Elements that alignment leaves belong to the parameter before them. */
qs_status qs__spans_make(qs_schedule_draft *draft) {
    const qs_graph *graph = draft->graph;
    const qs_schedule *frame = draft->frame;
    int *layer = NULL, bucket = frame->buckets - 1;
    size_t capacity = 0;
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)graph->nodes, sizeof *layer, &layer));
    QS_GOTO(qs_graph_layers(graph, layer));
    for (int i = 0; i < graph->parameters; i++) {
        const qs_parameter *parameter = &graph->parameter[i];
        if (!qs_parameter_learns(parameter)) continue;
        while (parameter->offset >= frame->bucket[bucket].first + frame->bucket[bucket].count)
            bucket--;
        const qs_update_span next = {.bucket = bucket,
                                     .first = parameter->offset,
                                     .rate = layer_rate(draft->in.job, layer[parameter->node]),
                                     .decays = decays(draft, parameter)};
        qs_update_span *last = draft->spans > 0 ? &draft->span[draft->spans - 1] : NULL;
        if (last && last->bucket == next.bucket && last->rate == next.rate && last->decays == next.decays) continue;
        QS_GOTO(qs_grow(&draft->span, &capacity, (size_t)draft->spans + 1, sizeof *draft->span));
        draft->span[draft->spans++] = next;
    }
    for (int i = 0; i < draft->spans; i++)
        draft->span[i].count = (i + 1 < draft->spans ? draft->span[i + 1].first : graph->trained_elements) - draft->span[i].first;
done:
    free(layer);
    return status;
}

/* ---- Steps ---- */

/* The finite check of a bucket; the optimiser may stop at its flag. */
static qs_status check_emit(qs_schedule_draft *draft, int bucket) {
    const qs_schedule *frame = draft->frame;
    const qs_bucket *one = &frame->bucket[bucket];
    qs_pending pending;
    qs__pending_make(&pending, -1, draft->check.op, draft->check.pass, NULL);
    pending.bucket = bucket;
    qs__pending_bind(&pending, QS_SRC, qs_shape_of(1, one->count), draft->fp32, frame->gradients, (size_t)one->first * sizeof(float));
    qs__pending_bind(&pending, QS_FLAG, qs_shape_of(1, (int64_t)1), draft->fp32, frame->flag, 0);
    return qs__step_emit(draft, &pending);
}

static qs_status span_emit(qs_schedule_draft *draft, const qs_update_span *span) {
    const qs_schedule *frame = draft->frame;
    const qs_auxiliary *with = &draft->optimizer;
    const qs_shape shape = qs_shape_of(1, span->count);
    const size_t offset = (size_t)span->first * sizeof(float);
    qs_attributes settings = qs_op_attributes(with->op, draft->in.job->optimizer.setting);
    if (!span->decays) settings.weight_decay = 0;
    qs_pending pending;
    qs__pending_make(&pending, -1, with->op, with->pass, &settings);
    pending.bucket = span->bucket;
    pending.rate = span->rate;
    qs__pending_bind(&pending, QS_SRC, shape, draft->fp32, frame->gradients, offset);
    qs__pending_bind(&pending, QS_WEIGHTS, shape, draft->fp32, frame->masters, offset);
    for (int i = 0; i < frame->states; i++)
        qs__pending_bind(&pending, qs_optimizer_state(with->op, i), shape, draft->fp32, frame->state[i], offset);
    if (frame->flag >= 0) qs__pending_bind(&pending, QS_FLAG, qs_shape_of(1, (int64_t)1), draft->fp32, frame->flag, 0);
    return qs__step_emit(draft, &pending);
}

static qs_status bucket_update(qs_schedule_draft *draft, int bucket) {
    for (int i = 0; i < draft->spans; i++)
        if (draft->span[i].bucket == bucket) QS_TRY(span_emit(draft, &draft->span[i]));
    return QS_OK;
}

/* Clipping of the whole gradient by its norm; it may stop at the flag, too. */
static qs_status clip_emit(qs_schedule_draft *draft) {
    const qs_schedule *frame = draft->frame;
    const qs_attributes settings = qs_op_attributes(draft->clip.op, &draft->in.job->clip_norm);
    qs_pending pending;
    qs__pending_make(&pending, -1, draft->clip.op, draft->clip.pass, &settings);
    qs__pending_bind(&pending, QS_SRC, qs_shape_of(1, draft->graph->trained_elements), draft->fp32, frame->gradients, 0);
    if (frame->flag >= 0) qs__pending_bind(&pending, QS_FLAG, qs_shape_of(1, (int64_t)1), draft->fp32, frame->flag, 0);
    return qs__step_emit(draft, &pending);
}

/* With loss scaling no optimiser step may run before the last bucket is known to be finite, and with clipping none before the norm of all
 * buckets is known; without either, each follows its own bucket. */
qs_status qs__update_emit(qs_schedule_draft *draft) {
    const bool checks = draft->frame->flag >= 0, clips = draft->in.job->clip_norm > 0, early = !checks && !clips;
    for (int b = 0; b < draft->frame->buckets; b++) {
        QS_TRY(qs__reduce_emit(draft, QS_STEP_REDUCE_WAIT, b));
        if (checks) QS_TRY(check_emit(draft, b));
        if (early) QS_TRY(bucket_update(draft, b));
    }
    if (clips) QS_TRY(clip_emit(draft));
    for (int b = 0; !early && b < draft->frame->buckets; b++)
        QS_TRY(bucket_update(draft, b));
    return QS_OK;
}
