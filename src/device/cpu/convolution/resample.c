// SPDX-License-Identifier: Apache-2.0
/* Our own pad and resize, by tables (resample.h): every line that is written is a sum of some lines that are read, and each of its columns
 * a sum of some columns of that. Sums are fp32, in the tables' order, whatever the threads. */
#include "cpu/staging.h"
#include "resample.h"

typedef struct job {
    const qs__cpu_kernels *kernels;
    qs__resample_table axis[2];
    int64_t batch, channels, shares;
    qs__in from;
    qs__out to;
    float empty;  /* what stands where there are no terms */
    float *lines; /* for each share: a line that was read, the sum of lines, a line to be written */
} job;

enum { LINES = 3 };

static int64_t longer(const job *j) {
    const int64_t read = j->axis[1].read, written = j->axis[1].written;
    return (read > written ? read : written) * j->channels;
}

/* ---- Lines ---- */

/* sum = weight × values, or that added. */
static void add_weighted(int64_t count, float weight, bool first, const float *values, float *sum) {
    if (first)
        for (int64_t i = 0; i < count; i++)
            sum[i] = weight * values[i];
    else
        for (int64_t i = 0; i < count; i++)
            sum[i] += weight * values[i];
}

static const float *line_read(const job *j, int64_t image, int64_t line, float *room) {
    const int64_t count = j->axis[1].read * j->channels;
    return qs__staged_row(j->kernels, qs__in_at(j->from, (image * j->axis[0].read + line) * count), count, room);
}

static void fill(int64_t count, float value, float *out) {
    for (int64_t i = 0; i < count; i++)
        out[i] = value;
}

static void columns_sum(const job *j, const float *sum, float *out) {
    const qs__resample_table *t = &j->axis[1];
    for (int64_t w = 0; w < t->written; w++, out += j->channels) {
        if (t->begin[w] == t->begin[w + 1]) fill(j->channels, j->empty, out);
        for (int64_t i = t->begin[w]; i < t->begin[w + 1]; i++)
            add_weighted(j->channels, t->weight[i], i == t->begin[w], sum + t->place[i] * j->channels, out);
    }
}

static void line_write(const job *j, int64_t line, float *lines) {
    const qs__resample_table *t = &j->axis[0];
    const int64_t image = line / t->written, w = line % t->written, first = t->begin[w], end = t->begin[w + 1], room = longer(j);
    const int64_t count = j->axis[1].written * j->channels;
    const qs__out to = qs__out_at(j->to, line * count);
    float *sum = lines + room, *out = to.type == QS__FP32 ? to.at : lines + 2 * room;
    for (int64_t i = first; i < end; i++)
        add_weighted(j->axis[1].read * j->channels, t->weight[i], i == first, line_read(j, image, t->place[i], lines), sum);
    if (first == end)
        fill(count, j->empty, out);
    else
        columns_sum(j, sum, out);
    qs__staged_row_write(count, out, to);
}

static void write_shares(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const int64_t lines = j->batch * j->axis[0].written;
    for (int64_t share = begin; share < end; share++)
        for (int64_t line = lines * share / j->shares; line < lines * (share + 1) / j->shares; line++)
            line_write(j, line, j->lines + share * LINES * longer(j));
}

/* ---- Building ---- */

/* Sizes, and with `base` places in scratch. */
static job lay_out(const qs_case *one, char *base, size_t *bytes) {
    const bool forward = qs_case_position(one, QS_SRC) >= 0;
    const qs_shape *read = &qs__case_operand(one, forward ? QS_SRC : QS_DIFF_DST)->shape;
    job j = {.batch = read->dim[0], .channels = read->dim[1], .shares = qs_threads()};
    qs__pieces pieces = {base, 0};
    for (int axis = 0; axis < 2; axis++) {
        qs__resample_table *t = &j.axis[axis];
        *t = qs__resample_table_of(one, axis);
        t->begin = qs__piece(&pieces, (t->written + 1) * (int64_t)sizeof *t->begin);
        t->place = qs__piece(&pieces, t->entries * (int64_t)sizeof *t->place);
        t->weight = qs__piece(&pieces, t->entries * (int64_t)sizeof *t->weight);
    }
    j.lines = qs__piece(&pieces, j.shares * LINES * longer(&j) * (int64_t)sizeof *j.lines);
    *bytes = pieces.used;
    return j;
}

static qs_status run_resample(const qs__chain *chain, const qs_run *run) {
    (void)run;
    const qs_case *one = &chain->one;
    const bool forward = qs_case_position(one, QS_SRC) >= 0;
    size_t bytes;
    job j = lay_out(one, chain->scratch + chain->offset[0], &bytes);
    j.kernels = chain->cpu->kernels;
    j.from = qs__staged_in(chain, forward ? QS_SRC : QS_DIFF_DST);
    j.to = qs__staged_out(chain, forward ? QS_DST : QS_DIFF_SRC);
    j.empty = forward ? (float)one->attributes.value : 0;
    for (int axis = 0; axis < 2; axis++)
        qs__resample_table_fill(one, axis, &j.axis[axis]);
    qs_parallel(j.shares, 1, write_shares, &j);
    return QS_OK;
}

qs_status qs__build_resample(qs__chain *chain) {
    size_t bytes;
    lay_out(&chain->one, NULL, &bytes);
    chain->offset[0] = qs__chain_reserve(chain, bytes);
    return qs__staged_build(chain, chain->one.op->name, run_resample);
}
