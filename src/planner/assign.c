// SPDX-License-Identifier: Apache-2.0
/* Formats of tensors: from what is marked as low to the tensors of a class's plan. */
#include "assign.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Start ------------------------------------------------------------------------------------------------------------------------- */

static qs_status storage_check(const qs_class *one, const qs_format *format) {
    if (format->kind != QS_KIND_FLOAT)
        return qs_fail(QS_USAGE, "format %s: tensors are rounded to float formats; fixed point is for planners of recipes", format->name);
    for (int i = 0; i < one->storages; i++)
        if (one->storage[i] == format) return QS_OK;
    return qs_fail(QS_MISMATCH, "class %s does not store %s: name it in the class's \"storage\" and profile again", one->name,
                   format->name);
}

static qs_status options_check(const qs_candidate *candidate) {
    const qs_assignment_options *with = &candidate->options->assignment;
    for (int c = 0; c < candidate->cluster->classes; c++) {
        const qs_class *one = &candidate->cluster->class_[c];
        QS_TRY(storage_check(one, with->high));
        QS_TRY(storage_check(one, with->low));
        QS_TRY(storage_check(one, with->low_gradient));
    }
    if (isnan(with->promote_at) || (with->promote_at >= 0 && with->promote_at <= 1)) return QS_OK;
    return qs_fail(QS_USAGE, "promotion at %g: a share of overflows lies in [0, 1], 0: never", with->promote_at);
}

static qs_status recipes_set(qs_candidate *candidate) {
    for (int c = 0; c < candidate->cluster->classes; c++) {
        const qs_candidate_class *one = &candidate->class_[c];
        qs__candidate_set_uniform(candidate, c, 0);
        for (int n = candidate->graph->samples.inputs; n < candidate->graph->nodes; n++)
            if (qs__is_adjustable(candidate, n) && one->choice[n] != 0)
                return qs_fail(QS_USAGE, "pinned operator %s: its recipe is %s, but operators compute in fp32 where tensors have formats",
                               candidate->graph->node[n].name, one->recipe[one->choice[n]].name);
    }
    return QS_OK;
}

static void outputs_find(qs__assignment *one) {
    const qs_graph *graph = one->candidate->graph;
    for (int n = 0; n < graph->nodes; n++)
        one->output[n] = -1;
    for (int i = 0; i < one->groups.tensors; i++)
        if (one->groups.tensor[i].parameter < 0) one->output[one->groups.tensor[i].node] = i;
    for (int n = 0; n < graph->nodes; n++)
        if (graph->node[n].op && graph->node[n].op->alias) one->output[n] = one->output[graph->node[n].input[0]];
}

qs_status qs__assignment_create(qs_candidate *candidate, double promote_at, qs__assignment *out) {
    const double wanted = candidate->options->assignment.promote_at;
    *out = (qs__assignment){.candidate = candidate, .promote_at = isnan(wanted) ? promote_at : wanted};
    QS_TRY(options_check(candidate));
    QS_TRY(recipes_set(candidate));
    QS_TRY(qs_graph_groups(candidate->graph, candidate->job->batch, &out->groups));
    QS_TRY(qs_allocate((size_t)out->groups.tensors, sizeof *out->low, &out->low));
    QS_TRY(qs_allocate((size_t)candidate->graph->nodes, sizeof *out->output, &out->output));
    outputs_find(out);
    return QS_OK;
}

void qs__assignment_release(qs__assignment *one) {
    qs_groups_release(&one->groups);
    free(one->low);
    free(one->output);
}

/* ---- Marking ------------------------------------------------------------------------------------------------------------------------ */

/* Gradients of parameters are never in low precision. */
static void lower(qs__assignment *one, int tensor, unsigned side) {
    const qs_graph_tensor *what = &one->groups.tensor[tensor];
    if (what->parameter >= 0 || !what->gradient) side &= QS__VALUE;
    one->low[tensor] |= (unsigned char)side;
}

void qs__lower_output(qs__assignment *one, int node, unsigned side) {
    if (one->output[node] >= 0) lower(one, one->output[node], side);
}

void qs__lower_parameters(qs__assignment *one, int node) {
    for (int i = 0; i < one->groups.tensors; i++)
        if (one->groups.tensor[i].parameter >= 0 && one->groups.tensor[i].node == node) lower(one, i, QS__VALUE);
}

void qs__lower_group(qs__assignment *one, int group) {
    for (int i = 0; i < one->groups.tensors; i++)
        if (one->groups.tensor[i].group == group) lower(one, i, QS__BOTH);
}

double qs__ratio_low(const qs__assignment *one) {
    int64_t low = 0;
    for (int i = 0; i < one->groups.tensors; i++)
        low += one->groups.tensor[i].elements * ((one->low[i] & QS__VALUE) / QS__VALUE + (one->low[i] & QS__GRADIENT) / QS__GRADIENT);
    return (double)low / (double)one->groups.elements;
}

/* ---- Into a plan -------------------------------------------------------------------------------------------------------------------- */

static qs_quantizer rounded_to(const qs_assignment_options *with, const qs_format *format, bool gradient) {
    return (qs_quantizer){.format = format, .rounding = with->rounding, .overflow = gradient ? QS_OVERFLOW_INFINITY : QS_OVERFLOW_DEFAULT};
}

static qs_tensor_choice choice_of(const qs__assignment *one, int tensor, unsigned low) {
    const qs_assignment_options *with = &one->candidate->options->assignment;
    const qs_graph_tensor *what = &one->groups.tensor[tensor];
    const bool is_low = low & QS__VALUE;
    qs_tensor_choice choice = {.value = rounded_to(with, is_low ? with->low : with->high, false)};
    snprintf(choice.name, sizeof choice.name, "%s", qs_graph_tensor_name(one->candidate->graph, what));
    if (what->parameter < 0) choice.saved = choice.value.format;
    if (what->gradient) choice.gradient = rounded_to(with, low & QS__GRADIENT ? with->low_gradient : with->high, true);
    if (is_low) choice.promote_at = one->promote_at;
    if (one->promote_at > 0) choice.promote_to = rounded_to(with, with->high, false); /* says of a high one that it stays */
    return choice;
}

static int64_t bytes_counted(int tensors, const qs_graph_tensor *tensor, const qs_tensor_choice *choice) {
    int64_t bytes = 0;
    for (int i = 0; i < tensors; i++) {
        bytes += (int64_t)qs_format_bytes(choice[i].value.format, tensor[i].elements);
        if (tensor[i].gradient) bytes += (int64_t)qs_format_bytes(choice[i].gradient.format, tensor[i].elements);
    }
    return bytes;
}

/* Formats of tensors by what is low of each into the class, in place of those that it had. */
static qs_status class_put(qs__assignment *one, int c, const unsigned char *low, int64_t *bytes) {
    qs_candidate_class *to = &one->candidate->class_[c];
    if (!to->assigned.tensor) QS_TRY(qs_allocate((size_t)one->groups.tensors, sizeof *to->assigned.tensor, &to->assigned.tensor));
    to->assigned.tensors = one->groups.tensors;
    for (int i = 0; i < one->groups.tensors; i++)
        to->assigned.tensor[i] = choice_of(one, i, low[i]);
    *bytes = bytes_counted(one->groups.tensors, one->groups.tensor, to->assigned.tensor);
    return qs__candidate_retable(one->candidate, c);
}

qs_status qs__assignment_put(qs__assignment *one, int class_index) {
    qs_assignment *sum = &one->candidate->class_[class_index].assigned.assignment;
    sum->ratio_low = qs__ratio_low(one);
    return class_put(one, class_index, one->low, &sum->bytes);
}

qs_status qs__assignment_put_all(qs__assignment *one) {
    for (int c = 0; c < one->candidate->cluster->classes; c++)
        QS_TRY(qs__assignment_put(one, c));
    return QS_OK;
}

/* ---- Everything high, everything low --------------------------------------------------------------------------------------------- */

static qs_status extreme_measure(qs__assignment *one, const unsigned char *low, bool is_low) {
    qs_prediction prediction;
    for (int c = 0; c < one->candidate->cluster->classes; c++) {
        qs_assignment *sum = &one->candidate->class_[c].assigned.assignment;
        QS_TRY(class_put(one, c, low, is_low ? &sum->low_bytes : &sum->high_bytes));
    }
    QS_TRY(qs__candidate_predict(one->candidate, &prediction));
    for (int c = 0; c < one->candidate->cluster->classes; c++) {
        qs_assignment *sum = &one->candidate->class_[c].assigned.assignment;
        *(is_low ? &sum->low_arena_bytes : &sum->high_arena_bytes) = (int64_t)prediction.class_[c].arena_bytes;
    }
    qs_prediction_release(&prediction);
    return QS_OK;
}

qs_status qs__assignment_extremes(qs__assignment *one) {
    unsigned char *kept = NULL;
    const size_t tensors = (size_t)one->groups.tensors;
    QS_TRY(qs_allocate(tensors, 1, &kept));
    memcpy(kept, one->low, tensors);
    memset(one->low, 0, tensors);
    qs_status status = extreme_measure(one, one->low, false);
    for (int g = 0; g < one->groups.groups; g++)
        qs__lower_group(one, g);
    if (status == QS_OK) status = extreme_measure(one, one->low, true);
    memcpy(one->low, kept, tensors);
    free(kept);
    return status;
}

qs_status qs__assign(qs_candidate *candidate, void (*mark)(qs__assignment *one)) {
    qs__assignment one;
    qs_status status = qs__assignment_create(candidate, 0, &one);
    if (status == QS_OK) status = qs__assignment_extremes(&one);
    if (status == QS_OK) {
        mark(&one);
        status = qs__assignment_put_all(&one);
    }
    qs__assignment_release(&one);
    return status;
}
