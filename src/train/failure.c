// SPDX-License-Identifier: Apache-2.0
/* How a run ends by its numbers: where a loss or a gradient that is not finite comes from, whether training diverged, and what all ranks
 * tell of it alike. It stands in the last line of the metrics. */
#include "train_internal.h"

#include <math.h>
#include <stdlib.h>

/* ---- The first tensor that is not finite ---- */

/* A part of the step runs once more, kernel by kernel. What one reads that none wrote (inputs, parameters) is looked at before, what it
 * writes behind. Steps that are computed again only run: they have the bits of forward's, and statistics that nobody reads. */
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
    return operand->format && operand->format->kind == QS_KIND_FLOAT && !qs_role_is_integers(operand->role) && operand->role != QS_COUNTS &&
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
    const int input = role == QS_SRC2 || role == QS_DIFF_SRC2 ? 1 : role == QS_SRC3 || role == QS_DIFF_SRC3 ? 2 : 0;
    const bool source = input > 0 || role == QS_SRC || role == QS_DIFF_SRC;
    if (input >= node->inputs && !step->conversion) return NULL; /* what a sum that is joined to the operator adds */
    if (source && !step->conversion && (!written || role == QS_DIFF_SRC || input > 0)) return graph->node[node->input[input]].name;
    return source || role == QS_DST || role == QS_DIFF_DST || role == QS_DIFF_DST2 || role == QS_PACKED ? node->name : NULL;
}

static void culprit_name(const qs_schedule *schedule, const qs_graph *graph, const qs_step *step, int operand, bool written,
                         qs__culprit *out) {
    const qs_role role = step->case_.operand[operand].role;
    const qs_parameter *parameter = parameter_at(schedule, graph, &step->place[operand]);
    const char *value = parameter ? parameter->name : value_name(graph, step, role, written);
    /* Rounding counts of gradients stand behind those of values. */
    const int counts = qs_case_position(&step->case_, QS_COUNTS);
    const bool counted = counts >= 0 && step->case_.operand[counts].format;
    const bool gradient =
        counted ? step->place[counts].offset >= qs_counts_offset_gradient(graph, 0) : role >= QS_DIFF_DST && role <= QS_DIFF_SHIFT;
    const char *name = graph->node[step->node].name, *of = gradient ? "gradient of " : "";
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

qs_status qs__culprit_find(const qs__program *program, const qs_graph *graph, const qs_run *run, int end, qs__culprit *out) {
    const int gradients = program->schedule->gradients;
    void *kept = NULL; /* NULL in evaluation */
    qs_status status = qs__executor_copy(program->executor, gradients, &kept);
    for (int s = 0; s < end && status == QS_OK && !out->tensor[0]; s++) {
        const qs_step *step = &program->schedule->step[s];
        if (step->kind != QS_STEP_KERNEL) continue;
        if (!step->recomputed) QS_GOTO(operands_search(program, graph, s, false, out));
        if (out->tensor[0]) break;
        QS_GOTO(qs__executor_step(program->executor, s, run));
        if (!step->recomputed) status = operands_search(program, graph, s, true, out);
    }
    if (kept && status == QS_OK)
        status = qs_executor_write(program->executor, gradients, 0, program->schedule->buffer[gradients].bytes, kept);
done:
    free(kept);
    return status;
}

/* ---- What ranks found --------------------------------------------------------------------------------------------------------------- */

int64_t qs__skip_limit(const qs_train_options *options) {
    return options->skip_limit > 0 ? options->skip_limit : QS_SKIP_LIMIT;
}

/* The earliest step in which a rank found something, the lowest such rank, and what it found: the same on all. False: none did. */
static qs_status failure_agree(const qs__setting *setting, const qs__failure *own, qs__failure *out, bool *found) {
    const double mine = -(double)own->step;
    double earliest = own->step >= 0 ? mine : -INFINITY;
    QS_TRY(qs_comm_max(setting->comm, &earliest, 1));
    *found = isfinite(earliest);
    if (!*found) return QS_OK;
    double lowest = own->step >= 0 && earliest == mine ? -setting->rank : -INFINITY;
    QS_TRY(qs_comm_max(setting->comm, &lowest, 1));
    *out = *own;
    out->rank = (int)-lowest;
    return qs_comm_broadcast(setting->comm, out, sizeof *out, (int)-lowest);
}

/* What is wrong, and the way out of it. */
static void failure_texts(const qs_train_options *options, const qs__failure *failure, char what[160], const char **way) {
    const long long step = (long long)failure->step + 1;
    *way = "lower the learning rate or train with more precision";
    if (failure->reason == QS__GRADIENT) {
        snprintf(what, 160, "a gradient is not finite in step %lld", step);
        *way = "lower the learning rate, let the loss be scaled (--loss-scaling dynamic) or train with more precision";
    } else if (failure->reason == QS__SKIPPING) {
        snprintf(what, 160, "gradients were not finite in %lld steps in a row, up to step %lld; loss scaling skipped them all",
                 (long long)qs__skip_limit(options), step);
    } else if (failure->reason == QS__TEST_LOSS) {
        snprintf(what, 160, "the test loss is not finite after step %lld", step);
    } else {
        snprintf(what, 160, "the training loss is not finite in step %lld", step);
    }
}

/* Records what all ranks see alike, and ends the run. */
static qs_status failure_end(const qs__setting *setting, int64_t epoch, const qs__failure *failure, const char *text) {
    QS_TRY(qs_comm_agree(setting->comm, qs__metrics_failure(setting, epoch, failure)));
    return qs_fail(QS_NUMERIC, "%s", text);
}

/* The sums of gradients, which are the same on all ranks. */
static qs_status sums_search(const qs__program *main, const qs_graph *graph, qs__culprit *out) {
    float *sums = NULL;
    const qs_status status = qs__executor_copy(main->executor, main->schedule->gradients, &sums);
    for (int i = 0; status == QS_OK && i < graph->parameters; i++) {
        const qs_parameter *parameter = &graph->parameter[i];
        if (!qs_parameter_learns(parameter)) continue;
        if (isfinite(qs_absmax_array(qs_shape_count(&parameter->shape), sums + parameter->offset))) continue;
        snprintf(out->operator_name, sizeof out->operator_name, "%s", graph->node[parameter->node].name);
        snprintf(out->tensor, sizeof out->tensor, "gradient of %s", parameter->name);
        break;
    }
    free(sums);
    return status;
}

qs_status qs__failure_tell(const qs__setting *setting, const qs__program *main, const qs__failure *own, int64_t epoch, int64_t step,
                           qs__reason reason) {
    qs__failure failure;
    bool found;
    char who[32] = "", what[160], text[640];
    const char *way;
    QS_TRY(failure_agree(setting, own, &failure, &found));
    if (found) {
        failure_texts(setting->options, &failure, what, &way);
        if (setting->ranks > 1) snprintf(who, sizeof who, "rank %d: ", failure.rank);
        snprintf(text, sizeof text, "%s%s: operator %s, tensor %s is the first that is not; %s", who, what, failure.culprit.operator_name,
                 failure.culprit.tensor, way);
        return failure_end(setting, epoch, &failure, text);
    }
    failure = (qs__failure){.step = step, .rank = -1, .reason = reason};
    if (reason != QS__SKIPPING)
        return failure_end(setting, epoch, &failure, "the sum of the ranks' losses is not finite; lower the learning rate");
    QS_TRY(sums_search(main, setting->graph, &failure.culprit));
    snprintf(text, sizeof text,
             "each rank's gradients are finite, their sum is not: operator %s, tensor %s is the first; lower the learning rate",
             failure.culprit.operator_name, failure.culprit.tensor);
    return failure_end(setting, epoch, &failure, text);
}

/* ---- Divergence ---- */

/* A loss that is finite and has grown too far. No tensor is wrong by itself then, so the rank is named whose loss is the largest, and the
 * tensor that overflowed most, or else the gradient that is the largest beside its weights; biases and the like may begin at 0, beside
 * which all is large. Counts and sums of gradients are the same on all ranks: so is what is found in them. */
static double squares(const float *values, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)values[i] * (double)values[i];
    return sum;
}

static bool find_overflow(const qs__rounding *rounding, const qs_graph *graph, qs__culprit *out) {
    double worst = 0;
    int at = -1;
    for (int i = 0; i < rounding->places; i++) {
        const double share = qs__rounding_share(rounding->step[i].overflows, rounding->step[i].elements);
        if (share > worst) worst = share, at = i;
    }
    if (at < 0) return false;
    const int behind = at - rounding->values; /* gradients of outputs */
    const int node = behind >= 0 ? behind : at < graph->nodes ? at : graph->parameter[at - graph->nodes].node;
    snprintf(out->operator_name, sizeof out->operator_name, "%s", graph->node[node].name);
    snprintf(out->tensor, sizeof out->tensor, "%s%s", behind >= 0 ? "gradient of " : "", qs__rounding_name(graph, at));
    return true;
}

static qs_status find_gradient(const qs__program *main, const qs_graph *graph, qs__culprit *out) {
    float *weights = NULL, *gradients = NULL;
    double worst = -1;
    qs_status status = QS_OK;
    QS_GOTO(qs__executor_copy(main->executor, main->schedule->masters, &weights));
    QS_GOTO(qs__executor_copy(main->executor, main->schedule->gradients, &gradients));
    for (int i = 0; i < graph->parameters; i++) {
        const qs_parameter *parameter = &graph->parameter[i];
        if (parameter->role != QS_WEIGHTS || !qs_parameter_learns(parameter)) continue;
        const int64_t count = qs_shape_count(&parameter->shape);
        const double ratio = squares(gradients + parameter->offset, count) / (squares(weights + parameter->offset, count) + 1e-30);
        if (!(ratio > worst)) continue;
        worst = ratio;
        snprintf(out->operator_name, sizeof out->operator_name, "%s", graph->node[parameter->node].name);
        snprintf(out->tensor, sizeof out->tensor, "gradient of %s", parameter->name);
    }
done:
    free(weights);
    free(gradients);
    return status;
}

/* The lowest rank of those whose mean loss is the largest. */
static qs_status find_rank(const qs__setting *setting, const qs__sums *mine, int *out) {
    const double loss = mine->samples > 0 ? mine->loss / mine->samples : -INFINITY;
    double largest = loss, lowest;
    QS_TRY(qs_comm_max(setting->comm, &largest, 1));
    lowest = loss == largest ? -setting->rank : -INFINITY;
    QS_TRY(qs_comm_max(setting->comm, &lowest, 1));
    *out = (int)-lowest;
    return QS_OK;
}

qs_status qs__divergence_check(const qs__setting *setting, const qs__program *main, const qs__rounding *rounding,
                               const qs__divergence *at) {
    const double bound = setting->options->diverged_at;
    char text[640], who[48] = "";
    if (bound <= 0 || !(at->loss > bound * at->first)) return QS_OK;
    qs__failure failure = {.step = at->step, .reason = QS__DIVERGENCE};
    QS_TRY(find_rank(setting, at->mine, &failure.rank));
    const bool overflowed = find_overflow(rounding, setting->graph, &failure.culprit);
    if (!overflowed) QS_TRY(find_gradient(main, setting->graph, &failure.culprit));
    if (setting->ranks > 1) snprintf(who, sizeof who, ", and most on rank %d", failure.rank);
    snprintf(text, sizeof text,
             "training diverged: its loss is %.4g in the steps up to %lld, more than %g times the %.4g of the first step%s; look first at "
             "operator %s, tensor %s, %s; lower the learning rate or train with more precision",
             at->loss, (long long)at->step + 1, bound, at->first, who, failure.culprit.operator_name, failure.culprit.tensor,
             overflowed ? "which overflows most" : "the largest beside its weights");
    return failure_end(setting, at->epoch, &failure, text);
}
