// SPDX-License-Identifier: Apache-2.0
/* Appending buffers and steps to a schedule. Every kernel step asks the kernel table for its row here, so a case that no kernel takes stops
 * the lowering with the operator's name, and scratch becomes a buffer that lives for one step. */
#include <stdlib.h>
#include <string.h>

#include "schedule_internal.h"

qs_status qs__buffer_add(qs_lowerer *lowerer, qs_category category, size_t bytes, int *out, const char *format, ...) {
    qs_schedule *schedule = lowerer->out;
    QS_TRY(qs_grow(&schedule->buffer, &lowerer->buffer_capacity, (size_t)schedule->buffers + 1, sizeof *schedule->buffer));
    qs_buffer *buffer = &schedule->buffer[schedule->buffers];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(buffer->name, sizeof buffer->name, format, arguments);
    va_end(arguments);
    buffer->bytes = bytes;
    buffer->category = category;
    buffer->first = buffer->last = -2;
    *out = schedule->buffers++;
    return QS_OK;
}

qs_draft qs__draft_make(int node, const char *op, const char *pass, const qs_attributes *attributes) {
    qs_draft draft = {.node = node, .bucket = -1, .case_ = qs_case_make(op, pass, attributes)};
    for (int i = 0; i < QS_MAX_OPERANDS; i++)
        draft.place[i].buffer = -1;
    return draft;
}

void qs__draft_bind(qs_draft *draft, qs_role role, qs_shape shape, const qs_format *format, int buffer, size_t offset) {
    qs_case_bind(&draft->case_, role, shape, format);
    draft->place[qs_case_position(&draft->case_, role)] = (qs_place){buffer, offset};
}

static qs_status step_append(qs_lowerer *lowerer, qs_step **out) {
    qs_schedule *schedule = lowerer->out;
    QS_TRY(qs_grow(&schedule->step, &lowerer->step_capacity, (size_t)schedule->steps + 1, sizeof *schedule->step));
    qs_step *step = &schedule->step[schedule->steps++];
    step->phase = lowerer->phase;
    step->node = step->bucket = step->scratch.buffer = -1;
    for (int i = 0; i < QS_MAX_OPERANDS; i++)
        step->place[i].buffer = -1;
    *out = step;
    return QS_OK;
}

static qs_status kernel_choose(qs_lowerer *lowerer, const qs_draft *draft, const char *text, qs_kernel_row *row) {
    const qs_status status = qs_case_check(&draft->case_);
    const char *name = draft->node >= 0 ? lowerer->graph->node[draft->node].name : "update";
    return qs_fail_within(status == QS_OK ? lowerer->in->lookup(lowerer->in->context, &draft->case_, text, row) : status, "operator %s",
                          name);
}

/* Only steps of one operator and phase are looked at: whatever re-emits these needs to know nothing else. */
static bool is_behind(const qs_schedule *schedule, const qs_draft *draft, qs_phase phase) {
    const qs_step *before = schedule->steps > 0 ? &schedule->step[schedule->steps - 1] : NULL;
    return before && before->conversion && !draft->conversion && before->node == draft->node && before->phase == phase;
}

qs_status qs__step_emit(qs_lowerer *lowerer, const qs_draft *draft) {
    char text[QS_CASE_TEXT];
    qs_kernel_row row = {0};
    qs_case_text(&draft->case_, text);
    QS_TRY(kernel_choose(lowerer, draft, text, &row));
    const bool behind = is_behind(lowerer->out, draft, lowerer->phase);
    int scratch = -1;
    if (row.scratch_bytes > 0) QS_TRY(qs__buffer_add(lowerer, QS_SCRATCH, row.scratch_bytes, &scratch, "scratch:%d", lowerer->out->steps));
    qs_step *step = NULL;
    QS_TRY(step_append(lowerer, &step));
    step->kind = QS_STEP_KERNEL;
    step->node = draft->node;
    step->stream = draft->stream;
    step->bucket = draft->bucket;
    step->conversion = draft->conversion;
    step->behind = behind;
    step->case_ = draft->case_;
    memcpy(step->kernel, row.kernel, sizeof step->kernel);
    memcpy(step->place, draft->place, sizeof step->place);
    step->scratch = (qs_place){scratch, 0};
    return qs_format_text(&step->case_text, "%s", text);
}

qs_status qs__reduce_emit(qs_lowerer *lowerer, qs_step_kind kind, int bucket) {
    qs_step *step = NULL;
    QS_TRY(step_append(lowerer, &step));
    step->kind = kind;
    step->bucket = bucket;
    /* The gradients must stay where they are while the library reads and writes them. */
    step->place[0] = (qs_place){lowerer->out->gradients, (size_t)lowerer->out->bucket[bucket].first * sizeof(float)};
    qs_bucket *one = &lowerer->out->bucket[bucket];
    if (kind == QS_STEP_REDUCE_START)
        one->ready_step = lowerer->out->steps - 1;
    else
        one->wait_step = lowerer->out->steps - 1;
    return QS_OK;
}

const qs_parameter *qs__parameter_find(const qs_lowerer *lowerer, int node, qs_role role) {
    const qs_node *one = &lowerer->graph->node[node];
    for (int i = 0; i < one->parameters; i++) {
        const qs_parameter *parameter = &lowerer->graph->parameter[one->first_parameter + i];
        if (parameter->role == role) return parameter;
    }
    return NULL;
}

const qs_recipe *qs__recipe_of(const qs_lowerer *lowerer, int node) {
    static const char fp32_name[] = "fp32";
    static _Thread_local qs_recipe fp32;
    const qs_recipe *recipe = lowerer->in->recipe ? lowerer->in->recipe[node] : NULL;
    if (recipe) return recipe;
    if (!fp32.name[0]) {
        const qs_quantizer plain = {.format = qs_format_of("fp32"), .rounding = QS_NEAREST_EVEN};
        fp32.forward.src = fp32.forward.weights = plain;
        fp32.input_gradient.diff_dst = fp32.input_gradient.weights = plain;
        fp32.weight_gradient.src = fp32.weight_gradient.diff_dst = plain;
        memcpy(fp32.name, fp32_name, sizeof fp32_name);
    }
    return &fp32;
}
