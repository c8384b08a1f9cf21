// SPDX-License-Identifier: Apache-2.0
/* Factors of axes, and what Reshape, Transpose and broadcasting make of them. */
#include "layout.h"

#include <string.h>

qs__layout qs__layout_rows(int rank, const int64_t *extent, bool batched) {
    qs__layout out = {.axes = rank};
    for (int a = 0; a < rank; a++) {
        const bool batch = batched && a == 0;
        if (extent[a] == 1 && !batch) continue;
        out.axis[a].at[out.axis[a].count++] = (signed char)out.factors;
        out.factor[out.factors++] = (qs__factor){extent[a], batch};
    }
    return out;
}

int64_t qs__axis_extent(const qs__layout *layout, int axis) {
    int64_t extent = 1;
    for (int i = 0; i < layout->axis[axis].count; i++)
        extent *= layout->factor[layout->axis[axis].at[i]].extent;
    return extent;
}

int64_t qs__layout_span(const qs__layout *layout, int first, int end) {
    int64_t count = 1;
    for (int f = first; f < end; f++)
        count *= layout->factor[f].batch ? 1 : layout->factor[f].extent;
    return count;
}

int64_t qs__layout_count(const qs__layout *layout) {
    return qs__layout_span(layout, 0, layout->factors);
}

bool qs__axis_is_batched(const qs__layout *layout, int axis) {
    for (int i = 0; i < layout->axis[axis].count; i++)
        if (layout->factor[layout->axis[axis].at[i]].batch) return true;
    return false;
}

bool qs__layout_in_order(const qs__layout *layout, bool transposed) {
    int next = 0;
    for (int a = 0; a < layout->axes; a++) {
        const qs__axis_parts *axis = &layout->axis[transposed ? layout->axes - 1 - a : a];
        for (int i = 0; i < axis->count; i++)
            if (axis->at[i] != next++) return false;
    }
    return true;
}

int64_t qs__layout_place(const qs__layout *layout, int64_t index) {
    int64_t stride[QS__MOST_FACTORS], place = 0;
    for (int f = layout->factors - 1; f >= 0; f--)
        stride[f] = f + 1 < layout->factors ? stride[f + 1] * layout->factor[f + 1].extent : 1;
    for (int a = layout->axes - 1; a >= 0; a--)
        for (int i = layout->axis[a].count - 1; i >= 0; i--) {
            const int f = layout->axis[a].at[i];
            place += index % layout->factor[f].extent * stride[f];
            index /= layout->factor[f].extent;
        }
    return place;
}

void qs__layout_transpose(qs__layout *layout, int rank, const int *order) {
    qs__axis_parts axis[QS__MOST_RANK];
    for (int a = 0; a < rank; a++)
        axis[a] = layout->axis[order[a]];
    memcpy(layout->axis, axis, (size_t)rank * sizeof *axis);
}

void qs__layout_insert(qs__layout *layout, int at) {
    memmove(&layout->axis[at + 1], &layout->axis[at], (size_t)(layout->axes - at) * sizeof *layout->axis);
    layout->axis[at].count = 0;
    layout->axes++;
}

void qs__layout_remove(qs__layout *layout, int at) {
    layout->axes--;
    memmove(&layout->axis[at], &layout->axis[at + 1], (size_t)(layout->axes - at) * sizeof *layout->axis);
}

/* Cuts a factor: `outer` of it, and the rest right behind. */
static bool split(qs__layout *layout, int factor, int64_t outer) {
    if (layout->factors >= QS__MOST_FACTORS - 4 || /* some are left to those who add one */ layout->factor[factor].batch) return false;
    memmove(&layout->factor[factor + 1], &layout->factor[factor], (size_t)(layout->factors - factor) * sizeof *layout->factor);
    layout->factors++;
    layout->factor[factor].extent = outer;
    layout->factor[factor + 1].extent /= outer;
    for (int a = 0; a < layout->axes; a++) {
        qs__axis_parts *axis = &layout->axis[a];
        for (int i = 0; i < axis->count; i++) {
            if (axis->at[i] > factor) axis->at[i]++;
            if (axis->at[i] != factor) continue;
            memmove(&axis->at[i + 2], &axis->at[i + 1], (size_t)(axis->count - i - 1) * sizeof *axis->at);
            axis->at[++i] = (signed char)(factor + 1);
            axis->count++;
        }
    }
    return true;
}

bool qs__layout_reshape(qs__layout *layout, int rank, const int64_t *extent, int batch) {
    qs__layout out = *layout;
    /* All factors as one axis, which cuts lengthen. */
    out.axes = 1;
    out.axis[0].count = 0;
    for (int a = 0; a < layout->axes; a++)
        for (int i = 0; i < layout->axis[a].count; i++)
            out.axis[0].at[out.axis[0].count++] = layout->axis[a].at[i];
    int place = 0, ends[QS__MOST_RANK];
    for (int a = 0; a < rank; a++) {
        int64_t left = extent[a];
        for (; place < out.axis[0].count; place++) {
            const int f = out.axis[0].at[place];
            const int64_t has = out.factor[f].extent;
            if (has < 1) return false;
            if (out.factor[f].batch && a != batch && left == 1) break;
            if (out.factor[f].batch && (a != batch || left % has != 0)) return false;
            if (left == 1 && has > 1) break;
            if (left % has == 0)
                left /= has;
            else if (has % left != 0 || !split(&out, f, left))
                return false;
            else
                left = 1;
        }
        if (left != 1) return false;
        ends[a] = place;
    }
    if (place < out.axis[0].count) return false;
    const qs__axis_parts all = out.axis[0];
    out.axes = rank;
    for (int a = 0, from = 0; a < rank; from = ends[a++]) {
        out.axis[a].count = ends[a] - from;
        memcpy(out.axis[a].at, &all.at[from], (size_t)out.axis[a].count * sizeof *all.at);
    }
    *layout = out;
    return true;
}

bool qs__layout_align(qs__layout *left, qs__layout *right) {
    qs__layout a = *left, b = *right;
    if (a.axes != b.axes) return false;
    for (int x = 0; x < a.axes; x++) {
        if (a.axis[x].count == 0 || b.axis[x].count == 0) continue;
        for (int i = 0; i < a.axis[x].count && i < b.axis[x].count; i++) {
            const int f = a.axis[x].at[i], g = b.axis[x].at[i];
            const int64_t m = a.factor[f].extent, n = b.factor[g].extent;
            if (a.factor[f].batch != b.factor[g].batch) return false;
            if (m == n) continue;
            if (m > n ? m % n != 0 || !split(&a, f, n) : n % m != 0 || !split(&b, g, m)) return false;
        }
        if (a.axis[x].count != b.axis[x].count) return false;
    }
    *left = a;
    *right = b;
    return true;
}

bool qs__axis_run(const qs__layout *layout, int axis, int *first, int *end) {
    const qs__axis_parts *one = &layout->axis[axis];
    for (int i = 1; i < one->count; i++)
        if (one->at[i] != one->at[0] + i) return false;
    if (one->count == 0) return false;
    *first = one->at[0];
    *end = one->at[0] + one->count;
    return true;
}

int qs__layout_order(const qs__layout *layout, int axes, const int *axis, int *order) {
    int count = 0;
    for (int f = 0; f < layout->factors; f++)
        if (layout->factor[f].batch) order[count++] = f;
    for (int a = 0; a < axes; a++)
        for (int i = 0; i < layout->axis[axis[a]].count; i++)
            if (!layout->factor[layout->axis[axis[a]].at[i]].batch) order[count++] = layout->axis[axis[a]].at[i];
    return count;
}

void qs__layout_permute(qs__layout *layout, const int *order) {
    const qs__layout before = *layout;
    int place[QS__MOST_FACTORS];
    for (int f = 0; f < before.factors; f++) {
        layout->factor[f] = before.factor[order[f]];
        place[order[f]] = f;
    }
    for (int a = 0; a < layout->axes; a++)
        for (int i = 0; i < layout->axis[a].count; i++)
            layout->axis[a].at[i] = (signed char)place[(int)layout->axis[a].at[i]];
}

/* Takes factor f + 1 into f. */
static void join(qs__layout *layout, int axis, int place) {
    qs__axis_parts *one = &layout->axis[axis];
    const int f = one->at[place];
    layout->factor[f].extent *= layout->factor[f + 1].extent;
    layout->factors--;
    memmove(&layout->factor[f + 1], &layout->factor[f + 2], (size_t)(layout->factors - f - 1) * sizeof *layout->factor);
    memmove(&one->at[place + 1], &one->at[place + 2], (size_t)(one->count - place - 2) * sizeof *one->at);
    one->count--;
    for (int a = 0; a < layout->axes; a++)
        for (int i = 0; i < layout->axis[a].count; i++)
            if (layout->axis[a].at[i] > f) layout->axis[a].at[i]--;
}

void qs__layout_merge(qs__layout *layout) {
    for (int a = 0; a < layout->axes; a++)
        for (int i = 0; i + 1 < layout->axis[a].count; i++) {
            const int f = layout->axis[a].at[i], g = layout->axis[a].at[i + 1];
            if (g == f + 1 && !layout->factor[f].batch && !layout->factor[g].batch) join(layout, a, i--);
        }
}

int qs__axis_factor(const qs__layout *layout, int axis) {
    return layout->axis[axis].count == 1 ? layout->axis[axis].at[0] : -1;
}

static void take_away(qs__layout *layout, int factor) {
    layout->factors--;
    memmove(&layout->factor[factor], &layout->factor[factor + 1], (size_t)(layout->factors - factor) * sizeof *layout->factor);
    for (int a = 0; a < layout->axes; a++) {
        qs__axis_parts *axis = &layout->axis[a];
        for (int i = 0; i < axis->count; i++) {
            if (axis->at[i] == factor) {
                memmove(&axis->at[i], &axis->at[i + 1], (size_t)(axis->count - i - 1) * sizeof *axis->at);
                axis->count--;
                i--;
            } else if (axis->at[i] > factor)
                axis->at[i]--;
        }
    }
}

void qs__layout_resize(qs__layout *layout, int factor, int64_t extent) {
    layout->factor[factor].extent = extent;
    if (extent == 1 && !layout->factor[factor].batch) take_away(layout, factor);
}

void qs__layout_replace(qs__layout *layout, int axis, int64_t extent) {
    for (int i = layout->axis[axis].count - 1; i >= 0; i--)
        if (!layout->factor[(int)layout->axis[axis].at[i]].batch) {
            take_away(layout, layout->axis[axis].at[i]);
            i = layout->axis[axis].count;
        }
    if (extent == 1) return;
    layout->factor[layout->factors] = (qs__factor){extent, false};
    layout->axis[axis].at[layout->axis[axis].count++] = (signed char)layout->factors++;
}

void qs__layout_add(qs__layout *layout, int axis, int place) {
    memmove(&layout->factor[place + 1], &layout->factor[place], (size_t)(layout->factors - place) * sizeof *layout->factor);
    layout->factors++;
    layout->factor[place] = (qs__factor){1, false};
    for (int a = 0; a < layout->axes; a++)
        for (int i = 0; i < layout->axis[a].count; i++)
            if (layout->axis[a].at[i] >= place) layout->axis[a].at[i]++;
    layout->axis[axis] = (qs__axis_parts){1, {(signed char)place}};
}
