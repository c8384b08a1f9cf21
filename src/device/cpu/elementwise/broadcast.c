// SPDX-License-Identifier: Apache-2.0
/* Our own kernels of operators one operand of which is repeated: gate, gain, offset, prelu, expand, and the reductions, whose backward pass
 * repeats and whose forward pass sums, as the gradient of what is repeated does. Sums run over what an element stands for from the first to
 * the last; threads take elements, or columns of them, so that no sum depends on their number. */
#include "views.h"

#include "cpu/staging.h"
#include "qsync/views.h"

#include <math.h>
#include <string.h>

static int64_t count_of(const qs__view *v) {
    int64_t count = 1;
    for (int i = 0; i < v->axes; i++)
        count *= v->extent[i];
    return count;
}

/* ---- The repeated operand, element by element of the value ---- */

enum { PIECE = 512 };

/* Where the operand's element lies that goes with the first element of row `row` of the fastest axis. */
static int64_t row_place(const qs__view *v, int64_t row) {
    int64_t place = 0;
    for (int a = v->axes - 2; a >= 0; a--) {
        place += row % v->extent[a] * v->step[a];
        row /= v->extent[a];
    }
    return place;
}

/* Its elements for those of the value from `at` on, at most `most` and PIECE: where they lie, or copied to `room`; *count: how many. */
static const float *each_of(const qs__view *v, const float *each, int64_t at, int64_t most, float *room, int64_t *count) {
    const int64_t run = v->extent[v->axes - 1];
    int64_t row = at / run, first = at % run, filled = 0;
    if (most > PIECE) most = PIECE;
    if (v->step[v->axes - 1] != 0 && (run - first >= most || run - first >= PIECE / 4)) {
        *count = run - first < most ? run - first : most;
        return each + row_place(v, row) + first;
    }
    for (; filled < most; row++, first = 0) {
        const float *from = each + row_place(v, row);
        const int64_t left = run - first < most - filled ? run - first : most - filled;
        if (v->step[v->axes - 1] != 0)
            memcpy(room + filled, from + first, (size_t)left * sizeof *room);
        else
            for (int64_t i = 0; i < left; i++)
                room[filled + i] = *from;
        filled += left;
    }
    *count = most;
    return room;
}

typedef enum using { PRODUCT, SUM, BENT, COPY } using;

typedef struct job {
    const qs__cpu_kernels *kernels;
    qs__view view;
    using how;
    const float *each; /* the repeated operand */
    qs__in src, diff;  /* diff: gradients of BENT */
    qs__out dst;
    float *absmax;
    const qs_format *format; /* of dst, for COPY */
} job;

static void apply_range(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    float room[PIECE], unused[PIECE];
    uint32_t largest = 0, *seen = j->absmax ? &largest : NULL;
    int64_t count;
    for (; begin < end; begin += count) {
        const qs__in each = {QS__FP32, each_of(&j->view, j->each, begin, end - begin, room, &count)}, src = qs__in_at(j->src, begin);
        const qs__out dst = qs__out_at(j->dst, begin);
        if (j->how == PRODUCT)
            j->kernels->multiply(count, src, each, dst, seen);
        else if (j->how == SUM)
            j->kernels->add(count, src, each, dst, seen);
        else if (j->how == COPY)
            qs_convert_from_fp32(j->format, QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, (qs_random_stream){0}, count, each.at, dst.at);
        else if (!j->diff.at)
            j->kernels->pair(QS__BEND, count, src, each, dst, seen);
        else
            j->kernels->pair_gradient(QS__BEND, count, src, each, qs__in_at(j->diff, begin), dst, (qs__out){QS__FP32, unused});
    }
    qs__staged_absmax_raise(j->absmax, largest);
}

static void copy_range(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    memcpy(qs__out_at(j->dst, begin).at, qs__in_at(j->src, begin).at, (size_t)(end - begin) * qs__type_bytes(j->dst.type));
}

/* The repeated operand in fp32, divided; in the chain's first scratch unless it is that already. */
static const float *each_read(const qs__chain *chain, qs_role role, float divisor) {
    const qs__in in = qs__staged_in(chain, role);
    const int64_t count = qs__case_count(&chain->one, role);
    float *wide = (float *)(chain->scratch + chain->offset[0]);
    if (in.type == QS__FP32 && divisor == 1) return in.at;
    qs_convert_to_fp32(qs_format_of(in.type == QS__BF16 ? "bf16" : "fp32"), count, in.at, wide);
    for (int64_t i = 0; divisor != 1 && i < count; i++)
        wide[i] /= divisor;
    return wide;
}

/* to = `how` of the value `from` (QS_ROLE_COUNT: it has none) and the repeated operand; diff: gradients, or QS_ROLE_COUNT. */
static void apply(const qs__chain *chain, using how, qs_role from, qs_role diff, qs_role to, const float *each) {
    job j = {
        .kernels = chain->cpu->kernels, .view = qs__case_view(&chain->one), .how = how, .each = each, .dst = qs__staged_out(chain, to)};
    j.src = from == QS_ROLE_COUNT ? (qs__in){QS__FP32, each} : qs__staged_in(chain, from);
    if (diff != QS_ROLE_COUNT) j.diff = qs__staged_in(chain, diff);
    if (qs_case_position(&chain->one, QS_ABSMAX) >= 0) j.absmax = qs__staged_absmax(chain, to);
    j.format = qs_format_of(j.dst.type == QS__BF16 ? "bf16" : "fp32");
    qs_parallel(count_of(&j.view), QS__GRAIN, apply_range, &j);
}

/* ---- Sums ---- */

enum { COLUMNS = 64 }; /* that one thread takes at least: whole vectors */

typedef struct sums {
    const qs__cpu_kernels *kernels;
    qs__sum_of what;
    qs__in a, b;
    float *to;
    int64_t rows, columns; /* of a block: each column is a sum, or with one column the block is */
} sums;

static void blocks_range(void *context, int64_t begin, int64_t end) {
    const sums *s = context;
    s->kernels->product_rows(s->what, end - begin, s->rows, qs__in_at(s->a, begin * s->rows), qs__in_at(s->b, begin * s->rows),
                             s->to + begin);
}

static void columns_range(void *context, int64_t begin, int64_t end) {
    const sums *s = context;
    const int64_t bands = (s->columns + COLUMNS - 1) / COLUMNS;
    for (int64_t i = begin; i < end; i++) {
        const int64_t first = i % bands * COLUMNS, at = i / bands * s->rows * s->columns + first;
        const int64_t count = s->columns - first < COLUMNS ? s->columns - first : COLUMNS;
        s->kernels->product_columns(s->what, s->rows, s->columns, count, qs__in_at(s->a, at), qs__in_at(s->b, at),
                                    s->to + i / bands * s->columns + first);
    }
}

/* Over one axis along which the operand is repeated after the other, the fastest first; there are two at most, and `room` holds what lies
 * between. */
static void sum(const qs__chain *chain, qs__sum_of what, qs_role a, qs_role b, float *result) {
    qs__view v = qs__case_view(&chain->one);
    sums s = {.kernels = chain->cpu->kernels, .what = what, .a = qs__staged_in(chain, a)};
    s.b = b == QS_ROLE_COUNT ? s.a : qs__staged_in(chain, b);
    for (;;) {
        int axis = v.axes - 1, repeated = 0;
        s.columns = 1;
        for (int i = 0; i < v.axes; i++)
            repeated += v.step[i] == 0;
        for (; axis >= 0 && v.step[axis] != 0; axis--)
            s.columns *= v.extent[axis];
        s.rows = axis >= 0 ? v.extent[axis] : 1;
        s.to = repeated > 1 ? (float *)(chain->scratch + chain->offset[1]) : result;
        const int64_t blocks = count_of(&v) / (s.rows * s.columns), bands = (s.columns + COLUMNS - 1) / COLUMNS;
        if (s.columns == 1)
            qs_parallel(blocks, 1 + QS__GRAIN / s.rows, blocks_range, &s);
        else
            qs_parallel(blocks * bands, 1 + QS__GRAIN / (s.rows * COLUMNS), columns_range, &s);
        if (repeated <= 1) return;
        v.axes--;
        for (int i = axis; i < v.axes; i++)
            v.extent[i] = v.extent[i + 1], v.step[i] = v.step[i + 1];
        s.what = QS__SUM_OF_VALUES;
        s.a = s.b = (qs__in){QS__FP32, s.to};
    }
}

/* The same into an operand, divided. */
static void sum_into(const qs__chain *chain, qs__sum_of what, qs_role a, qs_role b, qs_role to, float divisor) {
    const qs__out out = qs__staged_out(chain, to);
    const int64_t count = qs__case_count(&chain->one, to);
    float *result = out.type == QS__FP32 ? out.at : (float *)(chain->scratch + chain->offset[0]);
    sum(chain, what, a, b, result);
    for (int64_t i = 0; divisor != 1 && i < count; i++)
        result[i] /= divisor;
    qs__staged_row_write(count, result, out);
}

/* ---- The operators ---- */

static bool is_forward(const qs__chain *chain) {
    return qs_case_position(&chain->one, QS_DST) >= 0;
}

static qs_status run_gain(const qs__chain *chain, const qs_run *run) {
    (void)run;
    const qs_role part = qs_case_position(&chain->one, QS_SCALE) >= 0 ? QS_SCALE : QS_SRC2;
    const bool forward = is_forward(chain);
    apply(chain, PRODUCT, forward ? QS_SRC : QS_DIFF_DST, QS_ROLE_COUNT, forward ? QS_DST : QS_DIFF_SRC, each_read(chain, part, 1));
    if (!forward) sum_into(chain, QS__SUM_OF_PRODUCTS, QS_DIFF_DST, QS_SRC, part == QS_SCALE ? QS_DIFF_SCALE : QS_DIFF_SRC2, 1);
    return QS_OK;
}

static qs_status run_offset(const qs__chain *chain, const qs_run *run) {
    (void)run;
    if (is_forward(chain)) {
        apply(chain, SUM, QS_SRC, QS_ROLE_COUNT, QS_DST, each_read(chain, QS_SHIFT, 1));
        return QS_OK;
    }
    job j = {.src = qs__staged_in(chain, QS_DIFF_DST), .dst = qs__staged_out(chain, QS_DIFF_SRC)};
    qs_parallel(qs__case_count(&chain->one, QS_DIFF_DST), QS__GRAIN, copy_range, &j);
    sum_into(chain, QS__SUM_OF_VALUES, QS_DIFF_DST, QS_ROLE_COUNT, QS_DIFF_SHIFT, 1);
    return QS_OK;
}

static qs_status run_prelu(const qs__chain *chain, const qs_run *run) {
    (void)run;
    const bool forward = is_forward(chain);
    apply(chain, BENT, QS_SRC, forward ? QS_ROLE_COUNT : QS_DIFF_DST, forward ? QS_DST : QS_DIFF_SRC, each_read(chain, QS_SCALE, 1));
    if (!forward) sum_into(chain, QS__SUM_OF_PRODUCTS_BELOW, QS_DIFF_DST, QS_SRC, QS_DIFF_SCALE, 1);
    return QS_OK;
}

static qs_status run_expand(const qs__chain *chain, const qs_run *run) {
    (void)run;
    if (is_forward(chain))
        apply(chain, COPY, QS_ROLE_COUNT, QS_ROLE_COUNT, QS_DST, each_read(chain, QS_SRC, 1));
    else
        sum_into(chain, QS__SUM_OF_VALUES, QS_DIFF_DST, QS_ROLE_COUNT, QS_DIFF_SRC, 1);
    return QS_OK;
}

static void reduce(const qs__chain *chain, bool mean) {
    const bool forward = is_forward(chain);
    const int64_t whole = qs__case_count(&chain->one, forward ? QS_SRC : QS_DIFF_SRC),
                  part = qs__case_count(&chain->one, forward ? QS_DST : QS_DIFF_DST);
    const float divisor = mean ? (float)(whole / part) : 1;
    if (forward)
        sum_into(chain, QS__SUM_OF_VALUES, QS_SRC, QS_ROLE_COUNT, QS_DST, divisor);
    else
        apply(chain, COPY, QS_ROLE_COUNT, QS_ROLE_COUNT, QS_DIFF_SRC, each_read(chain, QS_DIFF_DST, divisor));
}

static qs_status run_reduce_sum(const qs__chain *chain, const qs_run *run) {
    (void)run;
    reduce(chain, false);
    return QS_OK;
}

static qs_status run_reduce_mean(const qs__chain *chain, const qs_run *run) {
    (void)run;
    reduce(chain, true);
    return QS_OK;
}

/* ---- reduce_max: threads take samples, each of which is gone through in memory order ---- */

typedef struct maxima {
    int64_t positions, channels;        /* of a sample */
    int64_t results, position, channel; /* the same of results: how many, and their steps */
    qs__in src, diff;                   /* diff: backward */
    qs__out dst;
    int64_t *place; /* of each result in its sample */
} maxima;

static float value_at(qs__in array, int64_t i) {
    uint32_t bits;
    float value;
    if (array.type == QS__FP32) return ((const float *)array.at)[i];
    bits = (uint32_t)((const uint16_t *)array.at)[i] << 16;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void value_put(qs__out array, int64_t i, float value) {
    qs_convert_from_fp32(qs_format_of(array.type == QS__BF16 ? "bf16" : "fp32"), QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT,
                         (qs_random_stream){0}, 1, &value, qs__out_at(array, i).at);
}

static void maxima_range(void *context, int64_t begin, int64_t end) {
    const maxima *m = context;
    const int64_t sample = m->positions * m->channels;
    for (int64_t n = begin; n < end; n++) {
        int64_t *place = m->place + n * m->results;
        for (int64_t r = 0; r < m->results; r++)
            place[r] = -1;
        for (int64_t i = 0; i < sample; i++) {
            int64_t *at = &place[i / m->channels * m->position + i % m->channels * m->channel];
            const float x = value_at(m->src, n * sample + i), largest = *at < 0 ? 0 : value_at(m->src, n * sample + *at);
            if (*at < 0 || x > largest || (isnan(x) && !isnan(largest))) *at = i;
        }
        if (m->diff.at) memset(qs__out_at(m->dst, n * sample).at, 0, (size_t)sample * qs__type_bytes(m->dst.type));
        for (int64_t r = 0; r < m->results; r++)
            if (m->diff.at)
                value_put(m->dst, n * sample + place[r], value_at(m->diff, n * m->results + r));
            else
                value_put(m->dst, n * m->results + r, value_at(m->src, n * sample + place[r]));
    }
}

static qs_status run_reduce_max(const qs__chain *chain, const qs_run *run) {
    (void)run;
    const qs_broadcast all = qs_case_broadcast(&chain->one);
    maxima m = {.positions = all.extent[1] * all.extent[2],
                .channels = all.extent[3],
                .channel = all.step[3],
                .position = all.step[2] != 0 ? all.step[2] : all.step[1],
                .src = qs__staged_in(chain, QS_SRC),
                .place = (int64_t *)(void *)(chain->scratch + chain->offset[0])};
    m.results = (m.position != 0 ? m.positions : 1) * (m.channel != 0 ? m.channels : 1);
    if (!is_forward(chain)) m.diff = qs__staged_in(chain, QS_DIFF_DST);
    m.dst = qs__staged_out(chain, is_forward(chain) ? QS_DST : QS_DIFF_SRC);
    qs_parallel(all.extent[0], 1 + QS__GRAIN / (m.positions * m.channels), maxima_range, &m);
    return QS_OK;
}

/* ---- Chains ---- */

/* Scratch for `each` elements of the repeated operand, and for what lies between two sums. */
static qs_status build(qs__chain *chain, const char *family, qs__call call) {
    const qs__view v = qs__case_view(&chain->one);
    int64_t whole = count_of(&v), part = 1, fastest = 1, repeated = 0;
    for (int i = 0; i < v.axes; i++) {
        if (v.step[i] == 0) fastest = v.extent[i], repeated++;
        if (v.step[i] != 0) part *= v.extent[i];
    }
    chain->offset[0] = qs__chain_reserve(chain, (size_t)part * sizeof(int64_t));
    if (repeated > 1) chain->offset[1] = qs__chain_reserve(chain, (size_t)(whole / fastest) * sizeof(float));
    return qs__staged_build(chain, family, call);
}

#define BROADCAST(name)                            \
    qs_status qs__build_##name(qs__chain *chain) { \
        return build(chain, #name, run_##name);    \
    }
BROADCAST(gain)
BROADCAST(offset)
BROADCAST(prelu)
BROADCAST(expand)
BROADCAST(reduce_sum)
BROADCAST(reduce_mean)
BROADCAST(reduce_max)
#undef BROADCAST

/* A gain whose factors come from a value. */
qs_status qs__build_gate(qs__chain *chain) {
    return build(chain, "gate", run_gain);
}
