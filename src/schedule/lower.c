// SPDX-License-Identifier: Apache-2.0
/* The one lowering: formats, then forward, backward and update steps, then memory. */
#include <stdlib.h>
#include <string.h>

#include "schedule_internal.h"

enum { MOST_BATCH = 1 << 24 }; /* no extent overflows before the shapes of cases are checked */

static const char *const phase_names[QS_PHASE_COUNT] = {"forward", "backward", "update"};
const char *qs_phase_name(qs_phase phase) {
    return phase_names[phase];
}

#define CATEGORY_TEXT(id, text) text,
static const char *const category_names[] = {QS_CATEGORY_LIST(CATEGORY_TEXT)};
const char *qs_category_name(qs_category category) {
    return category_names[category];
}

/* An optimiser is what updates weights with a state of its own. */
static qs_status optimizer_check(const char *name) {
    const qs_op *op = NULL;
    QS_TRY(qs_op_find(name, &op));
    const qs_pass *pass = qs_op_pass(op, "forward");
    for (int i = 0; pass && i < pass->roles; i++)
        if (pass->role[i] == QS_MOMENTUM) return QS_OK;
    return qs_fail(QS_USAGE, "operator %s is no optimiser; use sgd", name);
}

static qs_status job_check(const qs_lowering *in) {
    if (in->batch < 1 || in->batch > MOST_BATCH) return qs_fail(QS_USAGE, "batch %lld: must be 1 to %d", (long long)in->batch, MOST_BATCH);
    if (in->job->bucket_bytes < 1) return qs_fail(QS_USAGE, "bucket bytes %lld: must be at least 1", (long long)in->job->bucket_bytes);
    if (in->job->clip_norm > 0) return qs_fail(QS_UNSUPPORTED, "clip_norm %g: norm clipping is not built yet; use 0", in->job->clip_norm);
    return optimizer_check(in->job->optimizer.name);
}

static qs_status persistent_add(qs_lowerer *lowerer, qs_category category, int64_t elements, const char *name, int *out) {
    QS_TRY(qs__buffer_add(lowerer, category, (size_t)elements * sizeof(float), out, "%s", name));
    lowerer->out->buffer[*out].persistent = true;
    return QS_OK;
}

/* Weights, running statistics and momentum lie at the same place in every mode, so that evaluation may run over the memory of training; it
 * has no use for gradients, which come last: what it computes may lie where they were. */
static qs_status host_buffers_add(qs_lowerer *lowerer) {
    qs_schedule *schedule = lowerer->out;
    const qs_graph *graph = lowerer->graph;
    const qs_shape images = qs_graph_shape(graph, 0, lowerer->in->batch);
    QS_TRY(persistent_add(lowerer, QS_MASTER_WEIGHTS, graph->trained_elements, "masters", &schedule->masters));
    QS_TRY(persistent_add(lowerer, QS_RUNNING_STATISTICS, graph->statistics_elements, "running statistics", &schedule->running));
    QS_TRY(persistent_add(lowerer, QS_OPTIMIZER_STATE, graph->trained_elements, "momentum", &schedule->momentum));
    if (lowerer->in->mode != QS_MODE_EVALUATION)
        QS_TRY(persistent_add(lowerer, QS_GRADIENTS, graph->trained_elements, "gradients", &schedule->gradients));
    QS_TRY(qs__buffer_add(lowerer, QS_INPUT_BATCH, qs_tensor_bytes(&images, lowerer->fp32), &schedule->images, "images"));
    QS_TRY(qs__buffer_add(lowerer, QS_INPUT_BATCH, (size_t)lowerer->in->batch * sizeof(int32_t), &schedule->labels, "labels"));
    QS_TRY(qs__buffer_add(lowerer, QS_INPUT_BATCH, 2 * sizeof(float), &schedule->loss, "loss"));
    if (lowerer->in->mode != QS_MODE_EVALUATION && lowerer->in->job->dynamic_loss_scaling)
        QS_TRY(qs__buffer_add(lowerer, QS_GRADIENTS, sizeof(float), &schedule->flag, "finite flag"));
    return QS_OK;
}

static void states_start(qs_lowerer *lowerer) {
    const qs_graph *graph = lowerer->graph;
    for (int n = 0; n < graph->nodes; n++) {
        qs_node_state *state = &lowerer->node[n];
        state->value = state->mask = state->mean = state->variance = state->gradient = -1;
        if (n > 0 && graph->node[n].parameters > 0) state->needs_gradient = true;
        for (int i = 0; n > 0 && i < graph->node[n].inputs; i++)
            if (lowerer->node[graph->node[n].input[i]].needs_gradient) state->needs_gradient = true;
    }
    lowerer->node[0].value = lowerer->out->images;
}

static qs_status steps_emit(qs_lowerer *lowerer) {
    lowerer->phase = QS_FORWARD;
    QS_TRY(qs__forward_emit(lowerer));
    if (lowerer->in->mode == QS_MODE_EVALUATION) return QS_OK;
    lowerer->phase = QS_BACKWARD;
    QS_TRY(qs__backward_emit(lowerer));
    lowerer->phase = QS_UPDATE;
    return qs__update_emit(lowerer);
}

static qs_status schedule_start(qs_lowerer *lowerer) {
    qs_schedule *schedule = lowerer->out;
    const int nodes = lowerer->graph->nodes;
    schedule->batch = lowerer->in->batch;
    schedule->mode = lowerer->in->mode;
    schedule->nodes = nodes;
    schedule->masters = schedule->momentum = schedule->running = schedule->gradients = schedule->images = -1;
    schedule->labels = schedule->loss = schedule->flag = -1;
    if (lowerer->in->mode == QS_MODE_STATISTICS) {
        QS_TRY(qs_allocate((size_t)nodes * 3, sizeof *schedule->statistics_buffer, &schedule->statistics_buffer));
        for (int i = 0; i < nodes * 3; i++)
            schedule->statistics_buffer[i] = -1;
    }
    QS_TRY(host_buffers_add(lowerer));
    QS_TRY(qs_allocate((size_t)nodes, sizeof *lowerer->node, &lowerer->node));
    states_start(lowerer);
    return QS_OK;
}

qs_status qs_schedule_lower(const qs_lowering *in, qs_schedule **out) {
    qs_lowerer lowerer = {.in = in, .graph = in->graph, .fp32 = qs_format_of("fp32"), .int8 = qs_format_of("int8")};
    qs_status status = QS_OK;
    QS_TRY(job_check(in));
    QS_GOTO(qs_allocate(1, sizeof *lowerer.out, &lowerer.out));
    QS_GOTO(schedule_start(&lowerer));
    QS_GOTO(qs__formats_assign(&lowerer));
    if (in->mode != QS_MODE_EVALUATION) QS_GOTO(qs__buckets_make(&lowerer));
    QS_GOTO(steps_emit(&lowerer));
    QS_GOTO(qs__memory_pack(&lowerer));
    *out = lowerer.out;
    lowerer.out = NULL;
done:
    qs_schedule_release(lowerer.out);
    free(lowerer.node);
    free(lowerer.bucket_of);
    free(lowerer.bucket_missing);
    return status;
}

void qs_schedule_release(qs_schedule *schedule) {
    if (!schedule) return;
    for (int s = 0; s < schedule->steps; s++)
        free(schedule->step[s].case_text);
    free(schedule->step);
    free(schedule->buffer);
    free(schedule->bucket);
    free(schedule->statistics_buffer);
    free(schedule->value_format);
    free(schedule);
}
