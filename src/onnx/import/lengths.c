// SPDX-License-Identifier: Apache-2.0
/* Models at several lengths. A file that leaves the extent of sequences open is imported with a number in its place. What of the model
 * depends on that number is found by importing it with another one: where extents of views alone differ, of each view one, they are left
 * open (-1), the inputs say that they vary, and one model runs at every length up to the bound. */
#include "lengths.h"

#include "qsync/op.h"

#include <string.h>

/* The setting that differs between two lengths and may be left open: an extent of a view, or which position is taken, where that is the
 * last; -1: none differs; -2: that cannot be. */
static int open_setting(const qs_graph_operator *one, const qs_graph_operator *other, int64_t length, int64_t others) {
    const qs_op *op = NULL;
    int found = -1;
    const bool view = qs_op_find(one->op, &op) == QS_OK && (op == qs_op_of("reshape") || op == qs_op_of("permute"));
    if (one->settings != other->settings) return -2;
    for (int i = 0; i < one->settings; i++) {
        const bool extent = view && strcmp(one->setting[i].name, "order") != 0;
        const bool last = op == qs_op_of("position") && one->setting[i].value == (double)(length - 1) &&
                          other->setting[i].value == (double)(others - 1) && strcmp(one->setting[i].name, "position") == 0;
        if (strcmp(one->setting[i].name, other->setting[i].name) != 0) return -2;
        if (one->setting[i].value == other->setting[i].value) continue;
        if (!(extent || last) || found >= 0) return -2;
        found = i;
    }
    return found;
}

static bool origins_equal(const qs_graph_operator *one, const qs_graph_operator *other) {
    if (one->origins != other->origins) return false;
    for (int i = 0; i < one->origins; i++) {
        const qs_graph_origin *a = &one->origin[i], *b = &other->origin[i];
        if (strcmp(a->parameter, b->parameter) != 0 || strcmp(a->file, b->file) != 0 || a->transposed != b->transposed ||
            a->constant != b->constant || a->axes != b->axes || memcmp(a->extent, b->extent, sizeof a->extent) != 0)
            return false;
    }
    return true;
}

/* All but settings, parameters and the shape. */
static bool operators_equal(const qs_graph_operator *one, const qs_graph_operator *other) {
    bool equal = strcmp(one->name, other->name) == 0 && strcmp(one->op, other->op) == 0 &&
                 strcmp(one->weights_of, other->weights_of) == 0 && one->inputs == other->inputs && one->outputs == other->outputs &&
                 one->bias == other->bias && one->groups == other->groups && one->offset == other->offset &&
                 one->batched == other->batched && one->count_padding == other->count_padding;
    for (int i = 0; i < one->inputs && equal; i++)
        equal = strcmp(one->input[i], other->input[i]) == 0;
    for (int i = 0; i < 2; i++)
        equal = equal && one->kernel[i] == other->kernel[i] && one->stride[i] == other->stride[i] &&
                one->dilation[i] == other->dilation[i] && one->padding[i] == other->padding[i] &&
                one->padding_more[i] == other->padding_more[i];
    return equal;
}

/* Whether the input has the length as its first extent, or does not depend on it. */
static bool input_follows(const qs_graph_input *one, const qs_graph_input *other, int64_t length, int64_t others) {
    if (strcmp(one->name, other->name) != 0 || one->type != other->type || one->bound != other->bound ||
        one->shape.axes != other->shape.axes)
        return false;
    for (int i = 1; i < one->shape.axes; i++)
        if (one->shape.dim[i] != other->shape.dim[i]) return false;
    return one->shape.dim[0] == other->shape.dim[0] || (one->shape.dim[0] == length && other->shape.dim[0] == others);
}

static bool target_follows(const qs_target *one, const qs_target *other, int64_t length, int64_t others) {
    const bool positions = one->kind == QS_TARGET_CLASS_PER_POSITION || one->kind == QS_TARGET_SPAN;
    return one->kind == other->kind && one->classes == other->classes &&
           (positions ? one->extent == length && other->extent == others : one->extent == other->extent);
}

bool qs__length_open(qs_graph_record *graph, int64_t length, const qs_graph_record *other, int64_t others, char why[QS__WHY]) {
    snprintf(why, QS__WHY, "it becomes other operators at another length");
    if (graph->operators != other->operators || graph->inputs != other->inputs || strcmp(graph->output, other->output) != 0) return false;
    for (int i = 0; i < graph->operators; i++) {
        const qs_graph_operator *one = &graph->operator_[i], *that = &other->operator_[i];
        if (!operators_equal(one, that)) return false;
        if (open_setting(one, that, length, others) != -2 && origins_equal(one, that)) continue;
        snprintf(why, QS__WHY, "parameters of %s, or more than an extent, depend on it", one->name);
        return false;
    }
    for (int i = 0; i < graph->inputs; i++) {
        snprintf(why, QS__WHY, "input %s has it in another place than along its first axis", graph->input[i].name);
        if (!input_follows(&graph->input[i], &other->input[i], length, others)) return false;
    }
    snprintf(why, QS__WHY, "how much is learned depends on it");
    if (!target_follows(&graph->target, &other->target, length, others)) return false;
    for (int i = 0; i < graph->operators; i++) {
        const int setting = open_setting(&graph->operator_[i], &other->operator_[i], length, others);
        if (setting >= 0) graph->operator_[i].setting[setting].value = -1;
        graph->operator_[i].shape.axes = 0; /* that of one length: it follows from the inputs */
    }
    for (int i = 0; i < graph->inputs; i++) {
        if (graph->input[i].shape.dim[0] == other->input[i].shape.dim[0]) continue;
        graph->input[i].length = length;
        graph->input[i].shape.dim[0] = QS_GRAPH_LENGTH;
    }
    return true;
}
