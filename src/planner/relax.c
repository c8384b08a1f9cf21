// SPDX-License-Identifier: Apache-2.0
/* Making a relaxation: formats that values may have, recipes that are allowed, then time and memory. */
#include <math.h>
#include <stdlib.h>

#include "relax.h"
#include "session.h"

static qs_status format_add(qs__relaxation *one, const qs_format *format) {
    if (!format || format->kind != QS_KIND_FLOAT) return QS_OK;
    for (int f = 0; f < one->formats; f++)
        if (one->format[f] == format) return QS_OK;
    if (one->formats == QS__FORMATS)
        return qs_fail(QS_UNSUPPORTED, "class %s stores values in more than %d formats; name fewer",
                       one->draft->cluster->class_[one->class_index].name, QS__FORMATS);
    one->format[one->formats++] = format;
    return QS_OK;
}

static int format_index(const qs__relaxation *one, const qs_format *format) {
    int f = 0;
    while (one->format[f] != format)
        f++;
    return f;
}

static void needs_find(qs__relaxation *one) {
    const qs_format *half = qs_class_half(&one->draft->cluster->class_[one->class_index]);
    for (int r = 0; r < one->one->recipes; r++) {
        const qs_recipe *recipe = &one->one->recipe[r];
        const bool integer = recipe->forward.src.format->kind == QS_KIND_INTEGER;
        one->need[r] = format_index(one, integer ? half : recipe->forward.src.format);
        one->follows[r] = integer && !recipe->forward.dst;
    }
}

static qs_status formats_find(qs__relaxation *one) {
    QS_TRY(format_add(one, qs_format_of("fp32")));
    QS_TRY(format_add(one, qs_class_half(&one->draft->cluster->class_[one->class_index])));
    for (int r = 0; r < one->one->recipes; r++) {
        QS_TRY(format_add(one, one->one->recipe[r].forward.src.format));
        QS_TRY(format_add(one, one->one->recipe[r].forward.dst));
    }
    for (int a = 0; a < one->formats; a++)
        for (int b = 0; b < one->formats; b++)
            one->widest[a][b] = qs_format_at_least(one->format[a], one->format[b]) ? a : b;
    needs_find(one);
    one->cells = (one->formats + 1) * one->one->recipes * one->formats;
    return QS_OK;
}

static void allowed_find(qs__relaxation *one) {
    for (int n = 0; n < one->graph->nodes; n++) {
        one->allowed[n] = 1;
        if (!qs__is_adjustable(one->draft, n)) continue;
        one->allowed[n] = 0;
        for (int r = 0; r < one->one->recipes; r++)
            if (one->one->pinned[n] ? r == one->one->choice[n] : !isinf(one->one->omega[n * one->one->recipes + r]))
                one->allowed[n] |= 1u << r;
    }
}

/* What depends on class profile, half format, batch and recipes alone. */
static qs_status tables_make(qs__relaxation *one) {
    QS_TRY(formats_find(one));
    QS_TRY(qs_allocate((size_t)one->graph->nodes, sizeof *one->allowed, &one->allowed));
    QS_TRY(qs__relax_time(one));
    return qs__relax_memory(one);
}

qs_status qs__relax_create(const qs_draft_plan *draft, int class_index, qs__relaxation *out) {
    const qs__mapper_key key = qs__mapper_key_of(draft, class_index);
    const qs_draft_class *class_ = &draft->class_[class_index];
    qs__relaxation one = {0};
    qs_status status = QS_OK;
    const bool kept = draft->session && qs__session_take_tables(draft->session, &key, class_, &one);
    one.draft = draft;
    one.graph = draft->graph;
    one.one = class_;
    one.class_index = class_index;
    if (!kept) QS_GOTO(tables_make(&one));
    QS_GOTO(qs__relax_reduces(&one));
    allowed_find(&one);
    *out = one;
    one = (qs__relaxation){0};
done:
    qs__relax_free(&one);
    return status;
}

void qs__relax_release(qs__relaxation *one) {
    if (one->draft && one->draft->session) {
        const qs__mapper_key key = qs__mapper_key_of(one->draft, one->class_index);
        qs__session_give_tables(one->draft->session, &key, one);
    }
    qs__relax_free(one);
}

void qs__relax_free(qs__relaxation *one) {
    for (int b = 0; one->bucket && b < one->buckets; b++)
        free(one->bucket[b].until_us);
    free(one->bucket);
    free(one->forward_us);
    free(one->backward_us);
    free(one->readers);
    free(one->cast_us);
    free(one->needed);
    free(one->root);
    free(one->last);
    free(one->saved);
    free(one->saved_next);
    free(one->saved_bytes);
    free(one->inside_bytes);
    free(one->value_bytes);
    free(one->fixed_bytes);
    free(one->gradient);
    free(one->allowed);
    *one = (qs__relaxation){0};
}
