// SPDX-License-Identifier: Apache-2.0
/* Emitting segments: those that are marked dirty, in order. A segment that comes out as it was stays; one that hands on another gradient
 * than before makes the segment dirty that goes on from it. Everything a segment depends on stands in earlier ones, so one pass is enough.
 */
#include <stdlib.h>
#include <string.h>

#include "schedule_internal.h"

static qs_status segment_build(qs_schedule_draft *draft, int index) {
    qs_build *build = &draft->build;
    const int nodes = draft->graph->nodes;
    build->phase = index < nodes ? QS_FORWARD : index < 2 * nodes ? QS_BACKWARD : QS_UPDATE;
    build->node = build->phase == QS_FORWARD ? index : build->phase == QS_BACKWARD ? 2 * nodes - 1 - index : -1;
    build->steps = build->mades = build->gradient_copies = 0;
    build->rounded = (qs_gradient){.buffer = -1};
    for (int i = 0; i < QS_MAX_INPUTS; i++)
        build->gradient[i] = (qs_gradient){.buffer = -1};
    if (build->phase == QS_FORWARD) return qs__forward_emit(draft, build->node);
    if (draft->in.mode == QS_MODE_EVALUATION) return QS_OK;
    return build->phase == QS_BACKWARD ? qs__backward_emit(draft, build->node) : qs__update_emit(draft);
}

bool qs__step_same(const qs_draft_step *a, const qs_draft_step *b) {
    if (a->kind != b->kind || a->case_ != b->case_ || a->node != b->node || a->stream != b->stream || a->bucket != b->bucket ||
        a->conversion != b->conversion || a->made != b->made)
        return false;
    for (int i = 0; i < QS_MAX_OPERANDS; i++)
        if (a->place[i].buffer != b->place[i].buffer || a->place[i].offset != b->place[i].offset) return false;
    return true;
}

static bool gradient_same(qs_gradient a, qs_gradient b) {
    return a.buffer == b.buffer && a.owned == b.owned && a.rounded == b.rounded;
}

static bool segment_same(const qs_segment *one, const qs_build *build) {
    if (!one || one->steps != build->steps || one->mades != build->mades) return false;
    for (int s = 0; s < one->steps; s++)
        if (!qs__step_same(&one->step[s], &build->step[s])) return false;
    for (int i = 0; i < one->mades; i++) {
        const qs_made *a = &one->made[i], *b = &build->made[i];
        if (a->number != b->number || a->node != b->node || a->what != b->what || a->kind != b->kind || a->bytes != b->bytes ||
            a->category != b->category)
            return false;
    }
    for (int i = 0; i < QS_MAX_INPUTS; i++)
        if (!gradient_same(one->gradient[i], build->gradient[i])) return false;
    return true;
}

/* One block holds the segment and its three lists. */
static qs_status segment_make(qs_schedule_draft *draft, int index, qs_segment **out) {
    const qs_build *build = &draft->build;
    const qs_touch *touch = NULL;
    int touches = 0;
    if (draft->listener) QS_TRY(draft->listener->touches(draft->live, build->steps, build->step, index, &touch, &touches));
    const size_t steps = (size_t)build->steps * sizeof *build->step, mades = (size_t)build->mades * sizeof *build->made,
                 uses = (size_t)touches * sizeof *touch;
    char *block = NULL;
    QS_TRY(qs_allocate(1, sizeof(qs_segment) + steps + mades + uses, &block));
    qs_segment *one = (qs_segment *)(void *)block;
    one->steps = build->steps;
    one->mades = build->mades;
    one->touches = touches;
    one->step = (qs_draft_step *)(void *)(block + sizeof *one);
    one->made = (qs_made *)(void *)(block + sizeof *one + steps);
    one->touch = (qs_touch *)(void *)(block + sizeof *one + steps + mades);
    if (steps) memcpy(one->step, build->step, steps);
    if (mades) memcpy(one->made, build->made, mades);
    if (uses) memcpy(one->touch, touch, uses);
    memcpy(one->gradient, build->gradient, sizeof one->gradient);
    *out = one;
    return QS_OK;
}

qs_segment *qs__segment_swap(qs_schedule_draft *draft, int index, qs_segment *segment) {
    qs_segment *old = draft->segment[index];
    if (draft->listener) draft->listener->swapped(draft->live, index, old, segment);
    draft->segment[index] = segment;
    return old;
}

static qs_status segment_renew(qs_schedule_draft *draft, int index) {
    const qs_build *build = &draft->build;
    qs_segment *old = draft->segment[index], *renewed = NULL;
    QS_TRY(segment_build(draft, index));
    if (segment_same(old, build)) return QS_OK;
    QS_TRY(segment_make(draft, index, &renewed));
    const qs_status status = qs__journal_add(draft, (qs_entry){.kind = QS_ENTRY_SEGMENT, .index = index, .old.segment = old});
    if (status != QS_OK) {
        free(renewed);
        return status;
    }
    /* Who goes on from a gradient that is another one now. */
    for (int i = 0; old && build->node > 0 && i < draft->graph->node[build->node].inputs; i++) {
        if (gradient_same(old->gradient[i], build->gradient[i])) continue;
        const int after = draft->topology.after[qs__edge(build->node, i)];
        const int follower = qs__backward_segment(draft, after < 0 ? draft->graph->node[build->node].input[i] : after / QS_MAX_INPUTS);
        if (follower > index) qs__mark(&draft->dirty, follower);
    }
    qs__segment_swap(draft, index, renewed);
    return QS_OK;
}

qs_status qs__segments_emit(qs_schedule_draft *draft) {
    for (int s; (s = qs__mark_first(&draft->dirty)) >= 0;)
        QS_TRY(segment_renew(draft, s));
    return QS_OK;
}
