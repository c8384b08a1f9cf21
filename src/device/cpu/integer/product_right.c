// SPDX-License-Identifier: Apache-2.0
/* The right factor of forward and input gradient: weights in panels of columns, k in the order of product.h. Forward k runs along the
 * weights' rows, so that columns are copied one by one; in the input gradient it runs across them, so that four rows are interleaved. */
#include "cpu/integer/product_rows.h"
#include "qsync/base.h"

#include <string.h>

enum { CODES = 512 }; /* of a column at a time; whole quadruples */

/* A panel at work: where the next codes go, and what the codes of each column add up to under the parts so far. */
typedef struct panel {
    int64_t first, width;
    int columns;
    int8_t *at;
    int64_t sum[QS__TILE_COLUMNS];
} panel;

/* Weights of the panel's first column under a tap. */
static const int8_t *weights_at(const qs__rows_job *job, const panel *to, int64_t tap) {
    const qs__geometry *p = &job->product->size;
    const int64_t inputs = p->channels / p->groups, outputs = p->outputs / p->groups;
    const int8_t *group = job->run->right + job->group * outputs * job->window * inputs + tap * inputs;
    return group + to->first * (qs__rows_forward(job) ? job->window * inputs : 1);
}

/* ---- Forward ---- */

/* Codes of a column from place `begin` of the order on. */
static void fill_codes(const qs__rows_job *job, int64_t begin, int64_t count, const int8_t *weights, int8_t *codes) {
    const qs__shift_order *order = &job->order;
    if (order->parts == 1) {
        const int64_t some = job->inner - begin < count ? job->inner - begin : count;
        job->run->kernels->lift(some, false, order->right_power + begin, weights + begin, (uint8_t *)codes);
        memset(codes + some, 0, (size_t)(count - some));
        return;
    }
    for (int64_t k = 0; k < count; k++) {
        const int32_t channel = order->channel[begin + k];
        codes[k] = (int8_t)(channel < 0 ? 0 : weights[channel] * order->right_power[begin + k]);
    }
}

/* The codes of a column as they are needed: where they lie, if they lie so, or copied. */
static const int8_t *column_codes(const qs__rows_job *job, int64_t begin, int64_t count, const int8_t *weights, int8_t *room) {
    const bool whole = job->order.parts == 1 && begin + count <= job->inner;
    if (whole && !job->order.right_lifted) return weights + begin;
    fill_codes(job, begin, count, weights, room);
    return room;
}

static void pack_columns(const qs__rows_job *job, int part, const int8_t *weights, panel *to) {
    const int64_t begin = job->order.begin[part], length = job->order.length[part];
    const int64_t column_bytes = job->window * job->product->size.channels / job->product->size.groups;
    for (int64_t done = 0; done < length; done += CODES) {
        const int64_t count = length - done < CODES ? length - done : CODES;
        int8_t room[QS__TILE_COLUMNS][CODES];
        const int8_t *row[QS__TILE_COLUMNS];
        int32_t sum[QS__TILE_COLUMNS] = {0};
        for (int j = 0; j < to->columns; j++)
            row[j] = column_codes(job, begin + done, count, weights + j * column_bytes, room[j]);
        job->run->kernels->transpose(count, to->columns, (int)to->width, row, sum, to->at + done * to->width);
        for (int j = 0; j < to->columns; j++)
            to->sum[j] += sum[j];
    }
}

/* ---- Input gradient ---- */

/* The four rows of a quadruple; those that are shifted are copied. */
static void fill_rows(const qs__rows_job *job, int64_t k, int columns, const int8_t *weights, const int8_t **row,
                      int8_t lifted[4][QS__TILE_COLUMNS]) {
    static const int8_t zeros[QS__TILE_COLUMNS];
    const qs__shift_order *order = &job->order;
    const int64_t stride = job->window * job->product->size.channels / job->product->size.groups;
    for (int q = 0; q < 4; q++) {
        const int32_t channel = order->channel[k + q];
        row[q] = channel < 0 ? zeros : weights + channel * stride;
        if (order->right_power[k + q] == 1) continue;
        uint8_t power[QS__TILE_COLUMNS];
        memset(power, order->right_power[k + q], sizeof power);
        job->run->kernels->lift(columns, false, power, row[q], (uint8_t *)lifted[q]);
        row[q] = lifted[q];
    }
}

static void pack_rows(const qs__rows_job *job, int part, const int8_t *weights, panel *to) {
    const int64_t begin = job->order.begin[part];
    int32_t sum[QS__TILE_COLUMNS] = {0};
    for (int64_t k = 0; k < job->order.length[part]; k += 4) {
        const int8_t *row[4];
        int8_t lifted[4][QS__TILE_COLUMNS];
        fill_rows(job, begin + k, to->columns, weights, row, lifted);
        job->run->kernels->interleave(to->columns, (int)to->width, false, row, sum, to->at + k * to->width);
    }
    for (int j = 0; j < to->columns; j++)
        to->sum[j] += sum[j];
}

/* ---- Panels ---- */

static void pack_part(const qs__rows_job *job, int part, panel *to) {
    for (int64_t r = 0; r < job->phase[0].taps; r++)
        for (int64_t c = 0; c < job->phase[1].taps; c++) {
            const int8_t *weights = weights_at(job, to, qs__rows_tap(job, r, c));
            if (qs__rows_forward(job)) {
                pack_columns(job, part, weights, to);
            } else {
                pack_rows(job, part, weights, to);
            }
            to->at += job->order.length[part] * to->width;
        }
}

/* Signed codes on the left have 128 too many. */
static void put_corrections(const qs__rows_job *job, const panel *from) {
    for (int j = 0; j < from->width; j++) {
        const int64_t correction = job->product->left->is_unsigned ? 0 : 128 * from->sum[j];
        job->correction[from->first + j] = correction;
        job->correction32[from->first + j] = (int32_t)(uint32_t)(uint64_t)correction;
    }
}

static void pack_panel(const qs__rows_job *job, int64_t first) {
    panel to = {.first = first, .width = qs__panel_width(job->columns - first), .at = job->right + first * 4 * job->quads};
    to.columns = (int)(job->columns - first < to.width ? job->columns - first : to.width);
    if (to.columns < to.width) memset(to.at, 0, (size_t)(4 * job->quads * to.width));
    for (int part = 0; part < job->order.parts; part++) {
        for (int j = 0; j < to.columns; j++)
            to.sum[j] *= 2;
        pack_part(job, part, &to);
    }
    put_corrections(job, &to);
}

static void pack_panels(void *context, int64_t begin, int64_t end) {
    for (int64_t panel_index = begin; panel_index < end; panel_index++)
        pack_panel(context, panel_index * QS__TILE_COLUMNS);
}

void qs__rows_pack_right(qs__rows_job *job) {
    qs_parallel((job->columns + QS__TILE_COLUMNS - 1) / QS__TILE_COLUMNS, 1, pack_panels, job);
}
