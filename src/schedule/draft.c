// SPDX-License-Identifier: Apache-2.0
/* Drafts: made from a lowering by emitting every segment once; then one operator's recipe is changed at a time, and changes are taken back.
 * A change notes what it replaces as it goes; when it fails half-way, what it noted is put back. Segments that are marked dirty are emitted
 * in order: everything a segment depends on stands in earlier ones, so one pass is enough. */
#include <stdlib.h>
#include <string.h>

#include "schedule_internal.h"

enum { MOST_BATCH = 1 << 24 }; /* no extent overflows before the shapes of cases are checked */

/* ---- Recipes ---- */

/* What lowering reads of two recipes is the same. */
static bool recipe_same(const qs_recipe *a, const qs_recipe *b) {
    for (qs_gemm gemm = 0; gemm < QS_GEMMS; gemm++) {
        if (!qs_narrow_equal(&a->accumulator[gemm], &b->accumulator[gemm])) return false;
        for (int f = 0; f < 2; f++)
            if (!qs__quantizer_same(qs__factor_quantizer(a, gemm, f), qs__factor_quantizer(b, gemm, f))) return false;
    }
    return a->forward.dst == b->forward.dst;
}

/* The draft's own copy of a recipe (NULL: fp32); equal ones are one. */
static qs_status recipe_keep(qs_schedule_draft *draft, const qs_recipe *recipe, const qs_recipe **out) {
    const qs_quantizer fp32 = {.format = draft->fp32, .rounding = QS_NEAREST_EVEN};
    const qs_recipe plain = {
        .name = "fp32", .forward = {.src = fp32, .weights = fp32}, .input_gradient = {fp32, fp32}, .weight_gradient = {fp32, fp32}};
    if (!recipe) recipe = &plain;
    for (int i = 0; i < draft->recipes; i++)
        if (recipe_same(draft->recipe_known[i], recipe)) {
            *out = draft->recipe_known[i];
            return QS_OK;
        }
    QS_TRY(qs_grow(&draft->recipe_known, &draft->recipe_capacity, (size_t)draft->recipes + 1, sizeof(qs_recipe *)));
    qs_recipe *own = NULL;
    QS_TRY(qs_allocate(1, sizeof *own, &own));
    *own = *recipe;
    draft->recipe_known[draft->recipes++] = own;
    *out = own;
    return QS_OK;
}

/* ---- Segments ----
 *
 * A segment that comes out as it was stays; one that hands on another gradient than before makes the segment dirty that goes on from it. */

static qs_status segment_build(qs_schedule_draft *draft, int index) {
    qs_build *build = &draft->build;
    const int nodes = draft->graph->nodes;
    build->phase = index < nodes ? QS_FORWARD : index < 2 * nodes ? QS_BACKWARD : QS_UPDATE;
    build->node = build->phase == QS_FORWARD ? index : build->phase == QS_BACKWARD ? 2 * nodes - 1 - index : -1;
    build->steps = build->mades = build->gradient_copies = 0;
    build->again = build->reading = false;
    build->rounded = qs__no_gradient();
    for (int i = 0; i < QS_MAX_INPUTS; i++)
        build->gradient[i] = qs__no_gradient();
    if (build->phase == QS_FORWARD) return qs__forward_emit(draft, build->node);
    if (draft->in.mode == QS_MODE_EVALUATION) return QS_OK;
    if (build->phase == QS_UPDATE) return qs__update_emit(draft);
    QS_TRY(qs__recompute_emit(draft, build->node));
    return qs__backward_emit(draft, build->node);
}

static bool step_same(const qs_draft_step *a, const qs_draft_step *b) {
    if (a->kind != b->kind || a->case_ != b->case_ || a->node != b->node || a->stream != b->stream || a->bucket != b->bucket ||
        a->rate != b->rate || a->conversion != b->conversion || a->recomputed != b->recomputed || a->made != b->made)
        return false;
    for (int i = 0; i < QS_MAX_OPERANDS; i++)
        if (a->place[i].buffer != b->place[i].buffer || a->place[i].offset != b->place[i].offset) return false;
    return true;
}

static bool gradient_same(qs_gradient a, qs_gradient b) {
    return a.buffer == b.buffer && a.second == b.second && a.owned == b.owned && a.rounded == b.rounded;
}

static bool segment_same(const qs_segment *one, const qs_build *build) {
    if (!one || one->steps != build->steps || one->mades != build->mades) return false;
    for (int s = 0; s < one->steps; s++)
        if (!step_same(&one->step[s], &build->step[s])) return false;
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

/* Puts a segment in the place of the one at hand, which it returns. */
static qs_segment *segment_swap(qs_schedule_draft *draft, int index, qs_segment *segment) {
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
    segment_swap(draft, index, renewed);
    return QS_OK;
}

static qs_status segments_emit(qs_schedule_draft *draft) {
    for (int s; (s = qs__mark_first(&draft->dirty)) >= 0;)
        QS_TRY(segment_renew(draft, s));
    return QS_OK;
}

/* ---- Making ---- */

static qs_status job_check(const qs_lowering *in) {
    if (in->batch < 1 || in->batch > MOST_BATCH) return qs_fail(QS_USAGE, "batch %lld: must be 1 to %d", (long long)in->batch, MOST_BATCH);
    if (in->job->bucket_bytes < 1) return qs_fail(QS_USAGE, "bucket bytes %lld: must be at least 1", (long long)in->job->bucket_bytes);
    const qs_op *last = in->graph->node[in->graph->nodes - 1].op;
    if (in->job->label_smoothing > 0 && last && last->kind == QS_FIXED && last->class_axis == 0)
        return qs_fail(QS_USAGE, "label smoothing %g: the loss of the model, %s, is not over classes; leave it out",
                       in->job->label_smoothing, last->name);
    return qs_job_check(in->job);
}

static qs_auxiliary auxiliary_of(const char *name, const char *pass) {
    const qs_op *op = qs_op_of(name);
    return (qs_auxiliary){op, qs_op_pass(op, pass)};
}

static void names_find(qs_schedule_draft *draft) {
    draft->fp32 = qs_format_of("fp32");
    draft->int8 = qs_format_of("int8");
    for (int role = 0; role < QS_ROLE_COUNT; role++)
        draft->role_format[role] = qs_role_format((qs_role)role);
    for (int bits = 2; bits <= 7; bits++) {
        char name[8];
        snprintf(name, sizeof name, "uint%d", bits);
        draft->unsigned_of[bits] = qs_format_of(name);
    }
    draft->cast = auxiliary_of("cast", "forward");
    draft->block_round = auxiliary_of("block_round", "forward");
    draft->absmax = auxiliary_of("absmax", "forward");
    draft->quantize = auxiliary_of("quantize", "forward");
    draft->dequantize = auxiliary_of("dequantize", "forward");
    draft->sum = auxiliary_of("add", "forward");
    draft->statistics = auxiliary_of("statistics", "forward");
    draft->check = auxiliary_of("finite_check", "forward");
    draft->clip = auxiliary_of("clip_norm", "forward");
    draft->round = auxiliary_of("round", "forward");
    draft->pack = auxiliary_of("round", "pack");
    draft->optimizer = auxiliary_of(draft->in.job->optimizer.name, "forward");
}

/* Everything about every node has to be looked at. */
static qs_status draft_fill(qs_schedule_draft *draft, qs_status (*follow)(qs_schedule_draft *draft)) {
    const int nodes = draft->graph->nodes;
    draft->segments = 2 * nodes + 1;
    QS_TRY(qs__frame_make(&draft->in, &draft->frame));
    QS_TRY(qs__topology_make(&draft->in, &draft->topology));
    QS_TRY(qs__recompute_make(draft));
    if (draft->in.tensors && !draft->in.tensors->value) draft->in.tensors = NULL; /* what it said is copied */
    if (draft->in.mode != QS_MODE_EVALUATION) QS_TRY(qs__buckets_make(&draft->in, draft->frame, draft->topology.bucket_of));
    if (draft->in.mode != QS_MODE_EVALUATION) QS_TRY(qs__spans_make(draft));
    QS_TRY(qs_allocate((size_t)nodes, sizeof *draft->facts, &draft->facts));
    QS_TRY(qs_allocate((size_t)draft->segments, sizeof(qs_segment *), &draft->segment));
    QS_TRY(qs_allocate((size_t)draft->segments, sizeof *draft->report, &draft->report));
    QS_TRY(qs__marks_make(draft->segments, &draft->dirty));
    QS_TRY(qs__marks_make(nodes, &draft->need_dirty));
    QS_TRY(qs__marks_make(nodes, &draft->value_dirty));
    QS_TRY(qs__marks_make(nodes, &draft->changed));
    QS_TRY(qs_allocate((size_t)nodes, sizeof *draft->recipe, &draft->recipe));
    for (int n = 0; n < nodes; n++) {
        QS_TRY(recipe_keep(draft, draft->in.recipe ? draft->in.recipe[n] : NULL, &draft->recipe[n]));
        qs__mark(&draft->need_dirty, n);
        qs__mark(&draft->value_dirty, n);
        qs__mark(&draft->changed, n);
    }
    draft->in.recipe = NULL;
    if (follow) QS_TRY(follow(draft));
    for (int s = 0; s < draft->segments; s++)
        qs__mark(&draft->dirty, s);
    QS_TRY(qs__facts_update(draft));
    return segments_emit(draft);
}

static void retired_free(qs_schedule_draft *draft) {
    while (draft->retired) {
        qs_segment *one = draft->retired;
        draft->retired = one->next;
        free(one);
    }
}

void qs_schedule_keep(qs_schedule_draft *draft) {
    qs_journal *journal = &draft->journal;
    for (int i = 0; i < journal->entries; i++)
        if (journal->entry[i].kind == QS_ENTRY_SEGMENT) free(journal->entry[i].old.segment);
    journal->entries = journal->changes = 0;
    retired_free(draft);
}

void qs_schedule_draft_release(qs_schedule_draft *draft) {
    if (!draft) return;
    qs_schedule_keep(draft);
    free(draft->journal.entry);
    free(draft->journal.change);
    free(draft->span);
    free(draft->build.step);
    free(draft->build.made);
    if (draft->listener) draft->listener->release(draft->live);
    qs__topology_release(&draft->topology);
    qs__recompute_release(&draft->recompute);
    qs__case_table_release(&draft->cases);
    qs_schedule_release(draft->frame);
    for (int s = 0; draft->segment && s < draft->segments; s++)
        free(draft->segment[s]);
    for (int i = 0; i < draft->recipes; i++)
        free(draft->recipe_known[i]);
    free(draft->segment);
    free(draft->report);
    free(draft->recipe_known);
    free(draft->recipe);
    free(draft->facts);
    free(draft->dirty.word);
    free(draft->need_dirty.word);
    free(draft->value_dirty.word);
    free(draft->changed.word);
    free(draft);
}

qs_status qs__draft_make(const qs_lowering *in, qs_status (*follow)(qs_schedule_draft *draft), qs_schedule_draft **out) {
    qs_schedule_draft *draft = NULL;
    QS_TRY(job_check(in));
    QS_TRY(qs_allocate(1, sizeof *draft, &draft));
    draft->in = *in;
    draft->graph = in->graph;
    names_find(draft);
    const qs_status status = draft_fill(draft, follow);
    if (status == QS_OK)
        *out = draft;
    else
        qs_schedule_draft_release(draft);
    return status;
}

qs_status qs_schedule_draft_create(const qs_lowering *lowering, qs_schedule_draft **out) {
    QS_TRY(qs__draft_make(lowering, qs__live_start, out));
    qs__live_settle(*out);
    return QS_OK;
}

qs_status qs_schedule_lower(const qs_lowering *in, qs_schedule **out) {
    qs_schedule_draft *draft = NULL;
    QS_TRY(qs__draft_make(in, NULL, &draft));
    const qs_status status = qs_schedule_finish(draft, out, NULL);
    qs_schedule_draft_release(draft);
    return status;
}

qs_status qs_schedule_kept_bytes(const qs_lowering *with, size_t *bytes) {
    qs_lowering lowering = *with;
    qs_tensor_table tensors = *with->tensors;
    qs_schedule *schedule = NULL;
    tensors.recomputed = NULL;
    lowering.tensors = &tensors;
    QS_TRY(qs_schedule_lower(&lowering, &schedule));
    *bytes = schedule->arena_bytes;
    qs_schedule_release(schedule);
    return QS_OK;
}

/* ---- Asking ---- */

const qs_recipe *qs_schedule_draft_recipe(const qs_schedule_draft *draft, int node) {
    return draft->recipe[node];
}

int qs_schedule_draft_segments(const qs_schedule_draft *draft) {
    return draft->segments;
}

int qs_schedule_draft_steps(const qs_schedule_draft *draft, int segment, const qs_draft_step **step) {
    *step = draft->segment[segment]->step;
    return draft->segment[segment]->steps;
}

int qs_schedule_draft_buckets(const qs_schedule_draft *draft) {
    return draft->frame->buckets;
}

int64_t qs_schedule_draft_bucket_elements(const qs_schedule_draft *draft, int bucket) {
    return draft->frame->bucket[bucket].count;
}

/* ---- Changing ---- */

/* The last change's segments against those that stand now; `back`: as taking it back sees them. */
static void change_report(qs_schedule_draft *draft, bool back, qs_draft_change *out) {
    const qs_journal *journal = &draft->journal;
    qs_draft_change change = {.segment = draft->report};
    if (!out) return;
    for (int i = journal->change[journal->changes - 1]; i < journal->entries; i++) {
        const qs_entry *entry = &journal->entry[i];
        if (entry->kind != QS_ENTRY_SEGMENT) continue;
        const qs_segment *replaced = entry->old.segment, *stands = draft->segment[entry->index];
        const qs_segment *old = back ? stands : replaced, *now = back ? replaced : stands;
        int first = 0, behind = 0;
        while (first < old->steps && first < now->steps && step_same(&old->step[first], &now->step[first]))
            first++;
        while (behind < old->steps - first && behind < now->steps - first &&
               step_same(&old->step[old->steps - 1 - behind], &now->step[now->steps - 1 - behind]))
            behind++;
        const int removed = old->steps - first - behind, added = now->steps - first - behind;
        if (removed == 0 && added == 0) continue;
        draft->report[change.segments++] = (qs_segment_change){entry->index, first, removed, added, old->step + first, now->step + first};
        change.removed += removed;
        change.added += added;
    }
    *out = change;
}

/* Puts back what the last change replaced and forgets the change. Cannot fail. */
static void journal_restore(qs_schedule_draft *draft) {
    qs_journal *journal = &draft->journal;
    const int first = journal->change[--journal->changes];
    while (journal->entries > first) {
        const qs_entry *entry = &journal->entry[--journal->entries];
        if (entry->kind == QS_ENTRY_RECIPE) draft->recipe[entry->index] = entry->old.recipe;
        if (entry->kind == QS_ENTRY_FACTS) draft->facts[entry->index] = entry->old.facts;
        if (entry->kind != QS_ENTRY_SEGMENT) continue;
        qs_segment *taken = segment_swap(draft, entry->index, entry->old.segment);
        taken->next = draft->retired;
        draft->retired = taken;
    }
    draft->journaling = false;
    qs__live_settle(draft);
}

static qs_status recipe_set(qs_schedule_draft *draft, int node, const qs_recipe *recipe) {
    const qs_recipe *own = NULL;
    QS_TRY(recipe_keep(draft, recipe, &own));
    if (own == draft->recipe[node]) return QS_OK;
    QS_TRY(qs__journal_add(draft, (qs_entry){.kind = QS_ENTRY_RECIPE, .index = node, .old.recipe = draft->recipe[node]}));
    draft->recipe[node] = own;
    for (int i = 0; i < draft->graph->node[node].inputs; i++)
        qs__mark(&draft->need_dirty, draft->graph->node[node].input[i]);
    qs__mark(&draft->value_dirty, node);
    qs__mark(&draft->changed, node);
    QS_TRY(qs__facts_update(draft));
    return segments_emit(draft);
}

qs_status qs_schedule_change(qs_schedule_draft *draft, int node, const qs_recipe *recipe, qs_draft_change *change) {
    qs_journal *journal = &draft->journal;
    if (node < 1 || node >= draft->graph->nodes) return qs_fail(QS_USAGE, "node %d: the graph has 1 to %d", node, draft->graph->nodes - 1);
    const qs_node *one = &draft->graph->node[node];
    if (one->op->kind != QS_ADJUSTABLE)
        return qs_fail(QS_USAGE, "operator %s (%s) takes no recipe: it follows others", one->name, one->op->name);
    retired_free(draft);
    QS_TRY(qs_grow(&journal->change, &journal->change_capacity, (size_t)journal->changes + 1, sizeof *journal->change));
    journal->change[journal->changes++] = journal->entries;
    draft->journaling = true;
    const qs_status status = recipe_set(draft, node, recipe);
    if (status != QS_OK) {
        qs_marks *const all[] = {&draft->dirty, &draft->need_dirty, &draft->value_dirty, &draft->changed};
        for (int i = 0; i < 4; i++)
            while (qs__mark_first(all[i]) >= 0)
                continue;
        journal_restore(draft);
        return status;
    }
    draft->journaling = false;
    qs__live_settle(draft);
    change_report(draft, false, change);
    return QS_OK;
}

qs_status qs_schedule_undo(qs_schedule_draft *draft, qs_draft_change *change) {
    if (draft->journal.changes == 0) return qs_fail(QS_USAGE, "no change of this draft is left to take back");
    retired_free(draft);
    change_report(draft, true, change);
    journal_restore(draft);
    return QS_OK;
}
