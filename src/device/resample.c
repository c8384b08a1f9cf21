// SPDX-License-Identifier: Apache-2.0
/* Tables of pad and resize. */
#include "resample.h"

#include "cases.h"
#include "qsync/resample.h"

#include <string.h>

static bool is_forward(const qs_case *one) {
    return qs_case_position(one, QS_SRC) >= 0;
}

qs__resample_table qs__resample_table_of(const qs_case *one, int axis) {
    const bool forward = is_forward(one);
    qs__resample_table out = {.written = qs_resample_extent(&qs__case_operand(one, forward ? QS_DST : QS_DIFF_SRC)->shape, axis),
                              .read = qs_resample_extent(&qs__case_operand(one, forward ? QS_SRC : QS_DIFF_DST)->shape, axis)};
    out.entries = qs_resample_terms(one, axis) * (forward ? out.written : out.read);
    return out;
}

static void fill_forward(const qs_case *one, int axis, qs__resample_table *t) {
    int32_t entries = 0;
    for (int64_t result = 0; result < t->written; result++) {
        const qs_resample at = qs_resample_at(one, axis, result);
        t->begin[result] = entries;
        for (int i = 0; i < at.terms; i++, entries++) {
            t->place[entries] = (int32_t)at.place[i];
            t->weight[entries] = at.weight[i];
        }
    }
    t->begin[t->written] = entries;
}

/* Results that have a place as a term, in their order. */
static void fill_backward(const qs_case *one, int axis, qs__resample_table *t) {
    memset(t->begin, 0, (size_t)(t->written + 1) * sizeof *t->begin);
    for (int64_t result = 0; result < t->read; result++) {
        const qs_resample at = qs_resample_at(one, axis, result);
        for (int i = 0; i < at.terms; i++)
            t->begin[at.place[i] + 1]++;
    }
    for (int64_t place = 0; place < t->written; place++)
        t->begin[place + 1] += t->begin[place];
    for (int64_t result = 0; result < t->read; result++) {
        const qs_resample at = qs_resample_at(one, axis, result);
        for (int i = 0; i < at.terms; i++) {
            const int32_t entry = t->begin[at.place[i]]++;
            t->place[entry] = (int32_t)result;
            t->weight[entry] = at.weight[i];
        }
    }
    for (int64_t place = t->written; place > 0; place--) /* where each begins, not where it ended */
        t->begin[place] = t->begin[place - 1];
    t->begin[0] = 0;
}

void qs__resample_table_fill(const qs_case *one, int axis, qs__resample_table *table) {
    if (is_forward(one))
        fill_forward(one, axis, table);
    else
        fill_backward(one, axis, table);
}
