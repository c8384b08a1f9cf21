// SPDX-License-Identifier: Apache-2.0
/* Axes that move as one, joined. */
#include "views.h"

#include "cases.h"
#include "qsync/views.h"

qs__view qs__case_view(const qs_case *one) {
    const qs_broadcast all = qs_case_broadcast(one);
    qs__view v = {.axes = 0};
    for (int i = 0; i < QS__VIEW_AXES; i++) {
        const int last = v.axes - 1;
        if (all.extent[i] == 1) continue;
        if (last >= 0 && v.step[last] == all.step[i] * all.extent[i]) {
            v.extent[last] *= all.extent[i];
            v.step[last] = all.step[i];
        } else {
            v.extent[v.axes] = all.extent[i];
            v.step[v.axes++] = all.step[i];
        }
    }
    if (v.axes == 0) v = (qs__view){.axes = 1, .extent = {1}, .step = {1}};
    return v;
}

/* Puts an axis behind the others, into the last one where both move as one. */
static void axis_add(qs__permuted *p, int64_t extent, int64_t from_step) {
    const int last = p->axes - 1;
    if (extent == 1) return;
    if (last >= 0 && p->from_step[last] == extent * from_step) {
        p->extent[last] *= extent;
        p->from_step[last] = from_step;
        return;
    }
    p->extent[p->axes] = extent;
    p->from_step[p->axes++] = from_step;
}

qs__permuted qs__case_permuted(const qs_case *one) {
    const qs_shape *shape = &one->operand[0].shape;
    const int64_t count = qs_shape_count(shape) / shape->dim[0];
    const bool forward = qs__case_pass(one) == QS__FORWARD;
    int64_t extent[QS__PERMUTE_AXES - 1], step[QS__PERMUTE_AXES - 1], moved[QS__PERMUTE_AXES - 1];
    int order[QS__PERMUTE_AXES - 1];
    const int axes = qs_permute_axes(&one->attributes, count, extent, order);
    for (int64_t a = axes - 1, whole = 1, other = 1; a >= 0; a--) {
        step[a] = whole, moved[order[a]] = other;
        whole *= extent[a], other *= extent[order[a]];
    }
    qs__permuted p = {.fast = -1};
    axis_add(&p, shape->dim[0], count);
    for (int a = 0; a < axes; a++) {
        const int axis = forward ? order[a] : a;
        axis_add(&p, extent[axis], forward ? step[axis] : moved[axis]);
    }
    if (p.axes == 0) p.axes = 1, p.extent[0] = 1, p.from_step[0] = 1; /* one element */
    int64_t to_step = 1;
    for (int a = p.axes - 1; a >= 0; a--) {
        p.to_step[a] = to_step;
        to_step *= p.extent[a];
        if (p.from_step[a] == 1 && a < p.axes - 1) p.fast = a;
    }
    return p;
}
