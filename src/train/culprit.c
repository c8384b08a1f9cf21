// SPDX-License-Identifier: Apache-2.0
/* Where a loss or a gradient that is not finite comes from. A part of the step runs once more, kernel by kernel: what one reads that none
 * wrote (images, parameters) is looked at before, what it writes behind; the first tensor with an infinity or a NaN is the one. */
#include "train_internal.h"

#include <math.h>
#include <stdlib.h>

static qs_status is_finite(const qs_executor *executor, const qs_step *step, int index, bool *out) {
    const qs_operand *operand = &step->case_.operand[index];
    const int64_t count = qs_shape_count(&operand->shape);
    void *data = NULL;
    float *values = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs__executor_operand(executor, step, index, &data));
    QS_GOTO(qs_allocate((size_t)count, sizeof *values, &values));
    qs_convert_to_fp32(operand->format, count, data, values);
    *out = isfinite(qs_absmax_array(count, values));
done:
    free(data);
    free(values);
    return status;
}

/* Operands that carry something else in fp32 slots, and integers, are always finite. */
static bool is_looked_at(const qs_operand *operand) {
    return operand->format && operand->format->kind == QS_KIND_FLOAT && operand->role != QS_LABELS && operand->role != QS_COUNTS &&
           operand->role != QS_STATISTICS;
}

/* Masters, and rounded or converted forms of them, which lie in the place of the gradient; NULL: it is none. */
static const qs_parameter *parameter_at(const qs_schedule *schedule, const qs_graph *graph, const qs_place *place) {
    if (place->buffer != schedule->masters && place->buffer != schedule->gradients) return NULL;
    for (int i = 0; i < graph->parameters; i++) {
        const qs_parameter *parameter = &graph->parameter[i];
        if (parameter->gradient != QS_ROLE_COUNT && (size_t)parameter->offset * sizeof(float) == place->offset) return parameter;
    }
    return NULL;
}

/* The value that an operand is, or whose gradient; NULL: another vector of the operator. */
static const char *value_name(const qs_graph *graph, const qs_step *step, qs_role role, bool written) {
    const qs_node *node = &graph->node[step->node];
    const bool second = role == QS_SRC2 || role == QS_DIFF_SRC2;
    const bool source = second || role == QS_SRC || role == QS_DIFF_SRC;
    if (source && !step->conversion && (!written || role == QS_DIFF_SRC || second)) return graph->node[node->input[second]].name;
    return source || role == QS_DST || role == QS_DIFF_DST || role == QS_PACKED ? node->name : NULL;
}

/* Rounding counts of gradients stand behind those of values. */
static bool is_gradient(const qs_graph *graph, const qs_step *step, qs_role role) {
    const int counts = qs_case_position(&step->case_, QS_COUNTS);
    if (counts >= 0 && step->case_.operand[counts].format) return step->place[counts].offset >= qs_counts_offset_gradient(graph, 0);
    return (role >= QS_DIFF_DST && role <= QS_DIFF_SHIFT);
}

static void culprit_name(const qs_schedule *schedule, const qs_graph *graph, const qs_step *step, int operand, bool written,
                         qs__culprit *out) {
    const qs_role role = step->case_.operand[operand].role;
    const qs_parameter *parameter = parameter_at(schedule, graph, &step->place[operand]);
    const char *value = parameter ? parameter->name : value_name(graph, step, role, written);
    const char *name = graph->node[step->node].name, *of = is_gradient(graph, step, role) ? "gradient of " : "";
    snprintf(out->operator_name, sizeof out->operator_name, "%s", name);
    if (value)
        snprintf(out->tensor, sizeof out->tensor, "%s%s", of, value);
    else
        snprintf(out->tensor, sizeof out->tensor, "%s.%s", name, qs_role_name(role));
}

static qs_status operands_search(const qs__program *program, const qs_graph *graph, int index, bool written, qs__culprit *out) {
    const qs_step *step = &program->schedule->step[index];
    for (int i = 0; i < step->case_.operands; i++) {
        const qs_operand *operand = &step->case_.operand[i];
        if (!is_looked_at(operand) || qs_pass_writes(step->case_.pass, i) != written) continue;
        bool finite;
        QS_TRY(is_finite(program->executor, step, i, &finite));
        if (finite) continue;
        culprit_name(program->schedule, graph, step, i, written, out);
        return QS_OK;
    }
    return QS_OK;
}

static qs_status steps_search(const qs__program *program, const qs_graph *graph, const qs_run *run, int end, qs__culprit *out) {
    for (int s = 0; s < end; s++) {
        if (program->schedule->step[s].kind != QS_STEP_KERNEL) continue;
        QS_TRY(operands_search(program, graph, s, false, out));
        if (out->tensor[0]) return QS_OK;
        QS_TRY(qs__executor_step(program->executor, s, run));
        QS_TRY(operands_search(program, graph, s, true, out));
        if (out->tensor[0]) return QS_OK;
    }
    return QS_OK;
}

qs_status qs__culprit_find(const qs__program *program, const qs_graph *graph, const qs_run *run, int end, qs__culprit *out) {
    const qs_schedule *schedule = program->schedule;
    if (schedule->gradients < 0) return steps_search(program, graph, run, end, out);
    void *kept = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs__executor_copy(program->executor, schedule->gradients, &kept));
    QS_GOTO(steps_search(program, graph, run, end, out));
    QS_GOTO(qs_executor_write(program->executor, schedule->gradients, 0, schedule->buffer[schedule->gradients].bytes, kept));
done:
    free(kept);
    return status;
}
