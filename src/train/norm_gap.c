// SPDX-License-Identifier: Apache-2.0
/* How far 8 bits move the values of normalisations. The forward part of a step runs once before it, kernel by kernel, and every quantized
 * normalisation is held against its input as that was before it became codes. Nothing of this stays: running statistics are put back, and
 * whatever else forward kernels write, the step itself writes again. */
#include "train_internal.h"
#include "qsync/norm.h"

#include <stdlib.h>

_Static_assert(sizeof(qs_norm_gap) == 3 * sizeof(double), "gaps are summed over ranks as so many doubles");

static bool is_quantized(const qs_op *op) {
    return op && op->norm && op->norm->quantized;
}

qs_status qs__norm_gap_check(const qs_graph *graph) {
    for (int n = graph->samples.inputs; n < graph->nodes; n++)
        if (is_quantized(graph->node[n].op)) return QS_OK;
    return qs_fail(QS_USAGE, "model %s has no normalisation in 8 bits whose gap could be measured; build it with one, as with norm=l1bnq",
                   graph->name);
}

/* ---- One forward part ------------------------------------------------------------------------------------------------------------- */

static int buffer_of(const qs_step *step, qs_role role) {
    return step->place[qs_case_position(&step->case_, role)].buffer;
}

/* The forward step of a quantized normalisation that reads codes from this buffer, behind step `from`; -1: there is none. */
static int reader_find(const qs_schedule *schedule, int buffer, int from) {
    for (int s = from + 1; s < qs__phase_end(schedule, QS_FORWARD); s++)
        if (is_quantized(schedule->step[s].case_.op) && buffer_of(&schedule->step[s], QS_SRC) == buffer) return s;
    return -1;
}

/* What a step of quantization reads, for the normalisations that read what it writes; else nothing. */
static qs_status unrounded_keep(const qs__program *program, int index, float **unrounded) {
    const qs_step *step = &program->schedule->step[index];
    if (step->case_.op != qs_op_of("quantize")) return QS_OK;
    const int made = buffer_of(step, QS_DST), position = qs_case_position(&step->case_, QS_SRC);
    if (reader_find(program->schedule, made, index) < 0) return QS_OK;
    const qs_operand *src = &step->case_.operand[position];
    const int64_t count = qs_shape_count(&src->shape);
    QS_TRY(qs_allocate((size_t)count, sizeof **unrounded, &unrounded[made]));
    void *data = NULL;
    const qs_status status = qs__executor_operand(program->executor, step, position, &data);
    if (status == QS_OK) qs_convert_to_fp32(src->format, count, data, unrounded[made]);
    free(data);
    return status;
}

static qs_status gap_add(const qs__program *program, int index, float **unrounded, qs_norm_gap *sum) {
    const qs_step *step = &program->schedule->step[index];
    qs_tensor operand[QS_MAX_OPERANDS] = {0};
    if (!is_quantized(step->case_.op)) return QS_OK;
    const int codes = buffer_of(step, QS_SRC);
    qs_status status = QS_OK;
    for (int i = 0; i < step->case_.operands; i++) {
        const qs_operand *one = &step->case_.operand[i];
        if (!one->format) continue;
        operand[i] = (qs_tensor){.shape = one->shape, .format = one->format};
        QS_GOTO(qs__executor_operand(program->executor, step, i, &operand[i].data));
    }
    QS_GOTO(qs_norm_gap_add(&step->case_, operand, unrounded[codes], &sum[step->node]));
    if (reader_find(program->schedule, codes, index) < 0) {
        free(unrounded[codes]);
        unrounded[codes] = NULL;
    }
done:
    for (int i = 0; i < step->case_.operands; i++)
        free(operand[i].data);
    return status;
}

static qs_status forward_look(const qs__sample_step *one, float **unrounded, qs_norm_gap *sum) {
    for (int s = 0; s < qs__phase_end(one->program->schedule, QS_FORWARD); s++) {
        if (one->program->schedule->step[s].kind != QS_STEP_KERNEL) continue;
        QS_TRY(unrounded_keep(one->program, s, unrounded));
        QS_TRY(qs__executor_step(one->program->executor, s, &one->run));
        QS_TRY(gap_add(one->program, s, unrounded, sum));
    }
    return QS_OK;
}

/* With the samples loaded; running statistics are those from before when it is done. */
static qs_status gaps_find(const qs__sample_step *one, qs_norm_gap *sum) {
    const qs_schedule *schedule = one->program->schedule;
    qs_executor *executor = one->program->executor;
    void *kept = NULL;
    float **unrounded = NULL; /* (buffers) */
    qs_status status = QS_OK;
    QS_GOTO(qs__executor_copy(executor, schedule->running, &kept));
    QS_GOTO(qs_allocate((size_t)schedule->buffers, sizeof *unrounded, &unrounded));
    status = forward_look(one, unrounded, sum);
    if (status == QS_OK) status = qs_executor_write(executor, schedule->running, 0, schedule->buffer[schedule->running].bytes, kept);
    for (int b = 0; b < schedule->buffers; b++)
        free(unrounded[b]);
done:
    free(unrounded);
    free(kept);
    return status;
}

/* ---- Of all ranks and operators ------------------------------------------------------------------------------------------------------ */

/* A constant value has no distance to take its gap from. */
static double relative(double distance2, double norm2) {
    return distance2 > 0 ? distance2 / norm2 : distance2;
}

static void summary_make(const qs_graph *graph, const qs_norm_gap *sum, qs__norm_gap_summary *out) {
    int operators = 0;
    *out = (qs__norm_gap_summary){0};
    for (int n = graph->samples.inputs; n < graph->nodes; n++) {
        if (!is_quantized(graph->node[n].op)) continue;
        const double gap = relative(sum[n].distance2, sum[n].norm2);
        out->mean += gap;
        out->statistics_mean += relative(sum[n].statistics2, sum[n].norm2);
        if (operators++ == 0 || !(gap <= out->worst)) {
            out->worst = gap;
            out->worst_node = n;
        }
    }
    out->mean /= operators;
    out->statistics_mean /= operators;
}

qs_status qs__norm_gap_report(const qs__setting *setting, qs__plans *plans, const qs__counters *counters, int64_t epoch,
                              int64_t step_in_epoch) {
    const int nodes = setting->graph->nodes;
    qs_norm_gap *sum = NULL; /* (nodes) */
    qs__norm_gap_summary summary;
    qs__sample_step one;
    qs_status status = QS_OK;
    QS_TRY(qs__sample_step_find(setting, plans, counters, epoch, step_in_epoch, &one));
    QS_TRY(qs_allocate((size_t)nodes, sizeof *sum, &sum));
    if (one.run.samples > 0) {
        status = qs__sample_step_load(setting, &one);
        if (status == QS_OK) status = gaps_find(&one, sum);
    }
    QS_GOTO(qs_comm_agree(setting->comm, status));
    QS_GOTO(qs_comm_sum(setting->comm, (double *)sum, 3 * (int64_t)nodes));
    summary_make(setting->graph, sum, &summary);
    QS_GOTO(qs__metrics_norm_gap(setting, epoch, counters->step, &summary));
done:
    free(sum);
    qs_heap_trim(); /* what a process holds is measured */
    return status;
}
