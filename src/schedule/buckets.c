// SPDX-License-Identifier: Apache-2.0
/* Gradient buckets and the update phase. Buckets are consecutive pieces of the flat gradient buffer, closed when they reach the job's
 * bucket size, counted from the last parameter: they depend on graph and job only. */
#include <stdlib.h>

#include "schedule_internal.h"

/* Gradients are written node by node in reverse order; an adjustable node's bias comes before its weights, others keep their order. */
static bool is_written_later(const qs_graph *graph, int one, int other) {
    const qs_parameter *a = &graph->parameter[one], *b = &graph->parameter[other];
    if (a->node != b->node) return a->node < b->node;
    return graph->node[a->node].op->kind == QS_ADJUSTABLE ? a->role == QS_WEIGHTS : one > other;
}

static qs_status bucket_close(qs_schedule *frame, size_t *capacity, int64_t first, int64_t end) {
    QS_TRY(qs_grow(&frame->bucket, capacity, (size_t)frame->buckets + 1, sizeof *frame->bucket));
    frame->bucket[frame->buckets++] = (qs_bucket){first, end - first, -1, -1};
    return QS_OK;
}

qs_status qs__buckets_make(const qs_lowering *in, qs_schedule *frame, int *bucket_of) {
    const qs_graph *graph = in->graph;
    size_t capacity = 0;
    int64_t end = graph->trained_elements, first = end;
    for (int i = graph->parameters - 1, last = -1; i >= 0; i--) {
        bucket_of[i] = -1;
        if (graph->parameter[i].gradient == QS_ROLE_COUNT) continue;
        if (last < 0 || is_written_later(graph, i, last)) {
            if (last >= 0) bucket_of[last] = -1;
            last = i;
            bucket_of[last] = frame->buckets;
        }
        first = graph->parameter[i].offset;
        if ((end - first) * (int64_t)sizeof(float) < in->job->bucket_bytes) continue;
        QS_TRY(bucket_close(frame, &capacity, first, end));
        end = first;
        last = -1;
    }
    return first < end ? bucket_close(frame, &capacity, first, end) : QS_OK;
}

qs_status qs__bucket_gradient_done(qs_schedule_draft *draft, const qs_parameter *parameter) {
    const int bucket = draft->topology.bucket_of[parameter - draft->graph->parameter];
    return bucket < 0 ? QS_OK : qs__reduce_emit(draft, QS_STEP_REDUCE_START, bucket);
}

static void flat_bind(const qs_schedule_draft *draft, qs_pending *pending, qs_role role, int buffer, const qs_bucket *bucket) {
    qs__pending_bind(pending, role, qs_shape_of(1, bucket->count), draft->fp32, buffer, (size_t)bucket->first * sizeof(float));
}

static void flag_bind(const qs_schedule_draft *draft, qs_pending *pending) {
    qs__pending_bind(pending, QS_FLAG, qs_shape_of(1, (int64_t)1), draft->fp32, draft->frame->flag, 0);
}

static qs_status check_emit(qs_schedule_draft *draft, int bucket) {
    qs_pending pending = qs__pending_make(-1, draft->check.op, draft->check.pass, NULL);
    pending.bucket = bucket;
    flat_bind(draft, &pending, QS_SRC, draft->frame->gradients, &draft->frame->bucket[bucket]);
    flag_bind(draft, &pending);
    return qs__step_emit(draft, &pending);
}

static qs_status optimizer_emit(qs_schedule_draft *draft, int bucket) {
    const qs_job *job = draft->in.job;
    const qs_schedule *frame = draft->frame;
    const qs_bucket *one = &frame->bucket[bucket];
    const qs_attributes attributes = qs_op_attributes(draft->optimizer.op, job->optimizer.setting);
    qs_pending pending = qs__pending_make(-1, draft->optimizer.op, draft->optimizer.pass, &attributes);
    pending.bucket = bucket;
    flat_bind(draft, &pending, QS_SRC, frame->gradients, one);
    flat_bind(draft, &pending, QS_WEIGHTS, frame->masters, one);
    for (int i = 0; i < frame->states; i++)
        flat_bind(draft, &pending, qs_optimizer_state(draft->optimizer.op, i), frame->state[i], one);
    if (frame->flag >= 0) flag_bind(draft, &pending);
    return qs__step_emit(draft, &pending);
}

/* With loss scaling no optimiser step may run before the last bucket is known to be finite; without, each follows its own bucket. */
qs_status qs__update_emit(qs_schedule_draft *draft) {
    const int buckets = draft->frame->buckets;
    if (draft->frame->flag >= 0) {
        for (int b = 0; b < buckets; b++) {
            QS_TRY(qs__reduce_emit(draft, QS_STEP_REDUCE_WAIT, b));
            QS_TRY(check_emit(draft, b));
        }
        for (int b = 0; b < buckets; b++)
            QS_TRY(optimizer_emit(draft, b));
        return QS_OK;
    }
    for (int b = 0; b < buckets; b++) {
        QS_TRY(qs__reduce_emit(draft, QS_STEP_REDUCE_WAIT, b));
        QS_TRY(optimizer_emit(draft, b));
    }
    return QS_OK;
}
