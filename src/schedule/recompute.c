// SPDX-License-Identifier: Apache-2.0
/* Blocks that are computed again for backward (docs/method.md §4.9; Chen et al. 2016). Nothing here knows an operator: the forward part of
 * the block is emitted once more by the functions that emitted it first, into buffers with numbers of their own; the backward part is
 * emitted to see which of these it reads, and thrown away; then the steps stay that lead to them. */
#include <stdlib.h>
#include <string.h>

#include "schedule_internal.h"

/* ---- Which values ---- */

qs_status qs__recompute_make(qs_schedule_draft *draft) {
    const qs_graph *graph = draft->graph;
    const qs_topology *topology = &draft->topology;
    const size_t nodes = (size_t)graph->nodes;
    qs_recompute *out = &draft->recompute;
    if (draft->in.mode == QS_MODE_EVALUATION || !draft->in.tensors || !draft->in.tensors->recomputed) return QS_OK;
    QS_TRY(qs_allocate(nodes, sizeof *out->last, &out->last));
    QS_TRY(qs_allocate(nodes, sizeof *out->value, &out->value));
    QS_TRY(qs_allocate(nodes, sizeof *out->copies, &out->copies));
    QS_TRY(qs_allocate(nodes * QS_SLOTS, sizeof *out->needed, &out->needed));
    memcpy(out->last, draft->in.tensors->recomputed, nodes * sizeof *out->last);
    for (int n = 0; n < graph->nodes; n++)
        out->value[n] = out->last[n] >= 0;
    for (int n = 0; n < graph->nodes; n++) {
        const int first = topology->first_reader[n], end = topology->first_reader[n + 1], root = topology->root[n];
        const int block = first < end ? out->last[topology->reader[first] / QS_MAX_INPUTS] : -1;
        out->copies[n] = block >= 0;
        for (int i = first; i < end; i++) {
            const int reader = topology->reader[i] / QS_MAX_INPUTS;
            if (out->last[reader] != block) out->copies[n] = false;
            if (out->last[reader] != out->last[root]) out->value[root] = false;
        }
    }
    return QS_OK;
}

void qs__recompute_release(qs_recompute *recompute) {
    free(recompute->last);
    free(recompute->value);
    free(recompute->copies);
    free(recompute->needed);
}

/* ---- Which steps ---- */

/* The place of a buffer that is made again among `needed`; -1: it is none. */
static int again_index(const qs_schedule_draft *draft, int number) {
    return number - qs__number_again(draft, 0, 0);
}

static void operands_need(qs_schedule_draft *draft, const qs_draft_step *step) {
    for (int i = 0; i < QS_MAX_OPERANDS; i++)
        if (again_index(draft, step->place[i].buffer) >= 0) draft->recompute.needed[again_index(draft, step->place[i].buffer)] = true;
}

static bool is_needed(const qs_schedule_draft *draft, const qs_draft_step *step) {
    const qs_case *one = &step->case_->case_;
    for (int i = 0; i < one->operands; i++) {
        const int index = again_index(draft, step->place[i].buffer);
        if (index >= 0 && draft->recompute.needed[index] && one->operand[i].format && qs_pass_writes(one->pass, i)) return true;
    }
    return false;
}

/* Leaves those of the first `steps` steps that lead to what the others read, and these others out. */
static void steps_choose(qs_schedule_draft *draft, int steps, int mades) {
    qs_build *build = &draft->build;
    int kept = 0, made = 0;
    for (int s = steps; s < build->steps; s++)
        operands_need(draft, &build->step[s]);
    for (int s = steps - 1; s >= 0; s--) {
        qs_draft_step *step = &build->step[s];
        if (is_needed(draft, step))
            operands_need(draft, step);
        else
            step->recomputed = false;
    }
    build->steps = build->mades = 0;
    for (int s = 0; s <= steps; s++) { /* a step knows how many buffers are made before it */
        for (; made < (s < steps ? build->step[s].made : mades); made++)
            if (draft->recompute.needed[again_index(draft, build->made[made].number)]) build->made[build->mades++] = build->made[made];
        if (s == steps || !build->step[s].recomputed) continue;
        build->step[kept] = build->step[s];
        build->step[kept++].made = build->mades;
    }
    build->steps = kept;
}

static void node_start(qs_build *build, int node, qs_phase phase) {
    build->node = node;
    build->phase = phase;
    build->gradient_copies = 0;
    build->rounded = qs__no_gradient();
    for (int i = 0; i < QS_MAX_INPUTS; i++)
        build->gradient[i] = qs__no_gradient();
}

qs_status qs__recompute_emit(qs_schedule_draft *draft, int node) {
    qs_build *build = &draft->build;
    const int *last = draft->recompute.last;
    int first = node;
    if (!last || last[node] != node) return QS_OK;
    while (first > 0 && last[first - 1] == node)
        first--;
    memset(&draft->recompute.needed[first * QS_SLOTS], 0, (size_t)(node + 1 - first) * QS_SLOTS * sizeof *draft->recompute.needed);
    build->again = true;
    for (int n = first; n <= node; n++) {
        node_start(build, n, QS_FORWARD);
        QS_TRY(qs__forward_emit(draft, n));
    }
    build->again = false;
    build->reading = true;
    const int steps = build->steps, mades = build->mades;
    for (int n = node; n >= first; n--) {
        node_start(build, n, QS_BACKWARD);
        QS_TRY(qs__backward_emit(draft, n));
    }
    build->reading = false;
    steps_choose(draft, steps, mades);
    node_start(build, node, QS_BACKWARD);
    return QS_OK;
}
