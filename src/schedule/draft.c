// SPDX-License-Identifier: Apache-2.0
/* Drafts: made from a lowering by emitting every segment once. */
#include <stdlib.h>

#include "schedule_internal.h"

enum { MOST_BATCH = 1 << 24 }; /* no extent overflows before the shapes of cases are checked */

static qs_status job_check(const qs_lowering *in) {
    if (in->batch < 1 || in->batch > MOST_BATCH) return qs_fail(QS_USAGE, "batch %lld: must be 1 to %d", (long long)in->batch, MOST_BATCH);
    if (in->job->bucket_bytes < 1) return qs_fail(QS_USAGE, "bucket bytes %lld: must be at least 1", (long long)in->job->bucket_bytes);
    if (in->job->clip_norm > 0) return qs_fail(QS_UNSUPPORTED, "clip_norm %g: norm clipping is not built yet; use 0", in->job->clip_norm);
    return qs_job_check(in->job);
}

static qs_auxiliary auxiliary_pass(const char *name, const char *pass) {
    const qs_op *op = qs_op_of(name);
    return (qs_auxiliary){op, qs_op_pass(op, pass)};
}

static qs_auxiliary auxiliary_of(const char *name) {
    return auxiliary_pass(name, "forward");
}

static void operators_find(qs_schedule_draft *draft) {
    draft->cast = auxiliary_of("cast");
    draft->absmax = auxiliary_of("absmax");
    draft->quantize = auxiliary_of("quantize");
    draft->dequantize = auxiliary_of("dequantize");
    draft->sum = auxiliary_of("add");
    draft->statistics = auxiliary_of("statistics");
    draft->check = auxiliary_of("finite_check");
    draft->round = auxiliary_pass("round", "forward");
    draft->pack = auxiliary_pass("round", "pack");
    draft->optimizer = auxiliary_of(draft->in.job->optimizer.name);
}

static qs_status recipes_copy(qs_schedule_draft *draft) {
    const size_t nodes = (size_t)draft->graph->nodes;
    QS_TRY(qs_allocate(nodes, sizeof *draft->recipe, &draft->recipe));
    qs__recipes_start(draft);
    for (size_t n = 0; n < nodes; n++)
        QS_TRY(qs__recipe_keep(draft, draft->in.recipe ? draft->in.recipe[n] : NULL, &draft->recipe[n]));
    draft->in.recipe = NULL;
    return QS_OK;
}

static qs_status lists_allocate(qs_schedule_draft *draft) {
    const int nodes = draft->graph->nodes;
    draft->segments = 2 * nodes + 1;
    QS_TRY(qs_allocate((size_t)nodes, sizeof *draft->facts, &draft->facts));
    QS_TRY(qs_allocate((size_t)draft->segments, sizeof(qs_segment *), &draft->segment));
    QS_TRY(qs_allocate((size_t)draft->segments, sizeof *draft->report, &draft->report));
    QS_TRY(qs__marks_make(draft->segments, &draft->dirty));
    QS_TRY(qs__marks_make(nodes, &draft->need_dirty));
    QS_TRY(qs__marks_make(nodes, &draft->value_dirty));
    return qs__marks_make(nodes, &draft->changed);
}

static void all_dirty(qs_schedule_draft *draft) {
    for (int n = 0; n < draft->graph->nodes; n++) {
        qs__mark(&draft->need_dirty, n);
        qs__mark(&draft->value_dirty, n);
        qs__mark(&draft->changed, n);
    }
    for (int s = 0; s < draft->segments; s++)
        qs__mark(&draft->dirty, s);
}

static qs_status draft_fill(qs_schedule_draft *draft, bool with_live) {
    QS_TRY(qs__frame_make(&draft->in, &draft->frame));
    QS_TRY(qs__topology_make(&draft->in, &draft->topology));
    if (draft->in.mode != QS_MODE_EVALUATION) QS_TRY(qs__buckets_make(&draft->in, draft->frame, draft->topology.bucket_of));
    QS_TRY(recipes_copy(draft));
    QS_TRY(lists_allocate(draft));
    if (with_live) QS_TRY(qs__live_start(draft));
    all_dirty(draft);
    QS_TRY(qs__facts_update(draft));
    QS_TRY(qs__segments_emit(draft));
    if (with_live) qs__live_settle(draft);
    return QS_OK;
}

static void formats_find(qs_schedule_draft *draft) {
    draft->fp32 = qs_format_of("fp32");
    draft->int8 = qs_format_of("int8");
    for (int bits = 2; bits <= 7; bits++) {
        char name[8];
        snprintf(name, sizeof name, "uint%d", bits);
        draft->unsigned_of[bits] = qs_format_of(name);
    }
}

qs_status qs__draft_make(const qs_lowering *in, bool with_live, qs_schedule_draft **out) {
    qs_schedule_draft *draft = NULL;
    QS_TRY(job_check(in));
    QS_TRY(qs_allocate(1, sizeof *draft, &draft));
    draft->in = *in;
    draft->graph = in->graph;
    formats_find(draft);
    operators_find(draft);
    const qs_status status = draft_fill(draft, with_live);
    if (status == QS_OK)
        *out = draft;
    else
        qs_schedule_draft_release(draft);
    return status;
}

qs_status qs_schedule_draft_create(const qs_lowering *lowering, qs_schedule_draft **out) {
    return qs__draft_make(lowering, true, out);
}

static void lists_free(qs_schedule_draft *draft) {
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
}

void qs_schedule_draft_release(qs_schedule_draft *draft) {
    if (!draft) return;
    qs__journal_forget(draft);
    qs__retired_free(draft);
    free(draft->journal.entry);
    free(draft->journal.change);
    free(draft->build.step);
    free(draft->build.made);
    qs__live_release(draft->live);
    qs__topology_release(&draft->topology);
    qs__case_table_release(&draft->cases);
    qs_schedule_release(draft->frame);
    lists_free(draft);
    free(draft);
}

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
