// SPDX-License-Identifier: Apache-2.0
/* The frame of a schedule: the buffers that belong to no operator. Weights, running statistics, what the optimiser keeps and residuals
 * lie at the same place in every mode, so that evaluation may run over the memory of training; it has no use for gradients, which come
 * last: what it computes may lie where they were. */
#include <string.h>

#include "schedule_internal.h"

static qs_status buffer_add(qs_schedule *frame, size_t *capacity, qs_category category, size_t bytes, const char *name, int *out) {
    QS_TRY(qs_grow(&frame->buffer, capacity, (size_t)frame->buffers + 1, sizeof *frame->buffer));
    qs_buffer *buffer = &frame->buffer[frame->buffers];
    snprintf(buffer->name, sizeof buffer->name, "%s", name);
    buffer->bytes = bytes;
    buffer->category = category;
    buffer->first = buffer->last = -2;
    *out = frame->buffers++;
    return QS_OK;
}

static qs_status persistent_add(qs_schedule *frame, size_t *capacity, qs_category category, int64_t elements, const char *name, int *out) {
    QS_TRY(buffer_add(frame, capacity, category, (size_t)elements * sizeof(float), name, out));
    frame->buffer[*out].persistent = true;
    return QS_OK;
}

/* One flat buffer a state, in the order of the weights: an update works on the same range of all. */
static qs_status states_add(const qs_lowering *in, qs_schedule *frame, size_t *capacity) {
    const qs_op *op = NULL;
    QS_TRY(qs_optimizer_find(in->job->optimizer.name, &op));
    for (; frame->states < op->optimizer->states; frame->states++)
        QS_TRY(persistent_add(frame, capacity, QS_OPTIMIZER_STATE, in->graph->trained_elements,
                              qs_role_name(qs_optimizer_state(op, frame->states)), &frame->state[frame->states]));
    return QS_OK;
}

static qs_status buffers_add(const qs_lowering *in, qs_schedule *frame) {
    const qs_graph *graph = in->graph;
    const qs_shape images = qs_graph_shape(graph, 0, in->batch);
    const bool evaluation = in->mode == QS_MODE_EVALUATION;
    size_t capacity = 0;
    QS_TRY(persistent_add(frame, &capacity, QS_MASTER_WEIGHTS, graph->trained_elements, "masters", &frame->masters));
    QS_TRY(persistent_add(frame, &capacity, QS_RUNNING_STATISTICS, graph->statistics_elements, "running statistics", &frame->running));
    QS_TRY(states_add(in, frame, &capacity));
    if (strcmp(in->job->wire, "fp32") != 0)
        QS_TRY(persistent_add(frame, &capacity, QS_WIRE_RESIDUALS, graph->trained_elements, "wire residuals", &frame->residuals));
    if (!evaluation) QS_TRY(persistent_add(frame, &capacity, QS_GRADIENTS, graph->trained_elements, "gradients", &frame->gradients));
    QS_TRY(buffer_add(frame, &capacity, QS_INPUT_BATCH, qs_tensor_bytes(&images, qs_format_of("fp32")), "images", &frame->images));
    QS_TRY(buffer_add(frame, &capacity, QS_INPUT_BATCH, (size_t)in->batch * sizeof(int32_t), "labels", &frame->labels));
    QS_TRY(buffer_add(frame, &capacity, QS_INPUT_BATCH, 2 * sizeof(float), "loss", &frame->loss));
    if (!evaluation && in->tensors && in->tensors->value) {
        const size_t places = 2 * (size_t)graph->nodes + (size_t)graph->parameters;
        QS_TRY(buffer_add(frame, &capacity, QS_STATISTICS_OUT, places * QS_COUNTS_PITCH, "rounding counts", &frame->counts));
    }
    if (evaluation || !in->job->dynamic_loss_scaling) return QS_OK;
    return buffer_add(frame, &capacity, QS_GRADIENTS, sizeof(float), "finite flag", &frame->flag);
}

qs_status qs__frame_make(const qs_lowering *in, qs_schedule **out) {
    qs_schedule *frame = NULL;
    QS_TRY(qs_allocate(1, sizeof *frame, &frame));
    frame->batch = in->batch;
    frame->mode = in->mode;
    frame->nodes = in->graph->nodes;
    frame->masters = frame->running = frame->gradients = frame->images = -1;
    frame->labels = frame->loss = frame->flag = frame->counts = frame->residuals = -1;
    snprintf(frame->wire, sizeof frame->wire, "%s", in->job->wire);
    const qs_status status = buffers_add(in, frame);
    if (status == QS_OK)
        *out = frame;
    else
        qs_schedule_release(frame);
    return status;
}
