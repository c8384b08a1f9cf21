// SPDX-License-Identifier: Apache-2.0
/* Codes in shift groups as the factors of a plain integer product of the kernel library: the shifts fit into the codes' own bytes, see
 * product.h. The left factor is copied with its channels shifted; the right one as well where the left has no room for all of them. */
#include "cpu/integer/shift_groups.h"
#include "cpu/integer/product.h"

#include <string.h>

enum { ROW = 2048 }; /* narrow rows are joined until they are about so long */

/* Which shifts go where; the case's own figures. */
typedef struct shares {
    const qs_format *left, *right;
    int shifts, left_spare;
    const int8_t *group; /* NULL while planning */
} shares;

static bool is_gradient(const qs_case *one) {
    return qs_case_position(one, QS_DIFF_SRC) >= 0;
}

static qs_role left_role(const qs_case *one) {
    return is_gradient(one) ? QS_DIFF_DST : QS_SRC;
}

static shares shares_of(const qs_case *one) {
    shares s = {.left = qs__case_format(one, left_role(one)), .right = qs__case_format(one, QS_WEIGHTS)};
    s.shifts = one->attributes.shifts > 0 ? one->attributes.shifts : 1;
    s.left_spare = qs__spare_bits(s.left);
    return s;
}

qs_status qs__shift_groups_check(const qs__chain *chain) {
    const qs_case *one = &chain->one;
    shares s = shares_of(one);
    const qs_shape *weights = &qs__case_operand(one, QS_WEIGHTS)->shape;
    int right_spare = qs__spare_bits(s.right);
    double terms = (double)qs_shape_count(weights) / (double)weights->dim[is_gradient(one) ? 1 : 0];
    /* With groups of the convolution channels differ in what the right factor takes; and depthwise sums of oneDNN 2.6.3 are wrong under
     * avx2_vnni (depthwise.c). */
    if (s.shifts > 1 && one->attributes.groups > 1) return qs_fail(QS_UNSUPPORTED, "shift groups in a convolution with groups");
    if (s.shifts - 1 > s.left_spare + right_spare)
        return qs_fail(QS_UNSUPPORTED, "%d groups of %s times %s do not fit into bytes", s.shifts, s.left->name, s.right->name);
    if (terms * s.left->max * s.right->max * (1 << (s.shifts - 1)) > INT32_MAX)
        return qs_fail(QS_UNSUPPORTED, "%g products of %s and %s may leave 32 bits", terms, s.left->name, s.right->name);
    return QS_OK;
}

/* Shift of a channel in one of the factors, as the power of two that it multiplies by. */
static uint8_t power_of(const shares *s, bool right, int64_t channel) {
    int shift = s->group ? s->shifts - 1 - s->group[channel] : 0, left = shift < s->left_spare ? shift : s->left_spare;
    return (uint8_t)(1 << (right ? shift - left : left));
}

static shares shares_now(const qs__chain *chain) {
    shares s = shares_of(&chain->one);
    qs_role role = is_gradient(&chain->one) ? QS_DIFF_DST_GROUP : QS_SRC_GROUP;
    if (qs__case_has(&chain->one, role)) s.group = qs__cpu_data(chain, role);
    return s;
}

typedef struct lift_job {
    const qs__products *kernels;
    const uint8_t *power;
    int64_t row, count;
    const int8_t *src;
    int8_t *dst;
} lift_job;

static void lift_rows(void *context, int64_t begin, int64_t end) {
    const lift_job *job = context;
    for (int64_t row = begin; row < end; row++) {
        int64_t at = row * job->row, rest = job->count - at;
        job->kernels->lift(rest < job->row ? rest : job->row, false, job->power, job->src + at, (uint8_t *)job->dst + at);
    }
}

/* Channels-last codes; `power` has room for a row. */
static void lift_channels(const qs__chain *chain, const shares *s, bool right, int64_t channels, int64_t count, const int8_t *src,
                          int8_t *dst, uint8_t *power) {
    int64_t joined = channels < ROW ? ROW / channels : 1;
    lift_job job = {chain->cpu->products, power, channels * joined, count, src, dst};
    for (int64_t c = 0; c < channels * joined; c++)
        power[c] = c < channels ? power_of(s, right, c) : power[c - channels];
    qs_parallel((count + job.row - 1) / job.row, 8, lift_rows, &job);
}

static qs_status lift_left(const qs__chain *chain, const qs_run *run) {
    (void)run;
    qs_role role = left_role(&chain->one);
    const qs_operand *operand = qs__case_operand(&chain->one, role);
    shares s = shares_now(chain);
    int8_t *dst = (int8_t *)chain->scratch + chain->offset[2];
    int64_t count = qs_shape_count(&operand->shape);
    lift_channels(chain, &s, false, operand->shape.dim[1], count, qs__cpu_data(chain, role), dst, (uint8_t *)dst + count);
    return QS_OK;
}

/* Forward: the summed channel is the weights' last axis in memory. */
static qs_status lift_right(const qs__chain *chain, const qs_run *run) {
    (void)run;
    const qs_shape *shape = &qs__case_operand(&chain->one, QS_WEIGHTS)->shape;
    shares s = shares_now(chain);
    int8_t *dst = (int8_t *)chain->scratch + chain->offset[3];
    int64_t count = qs_shape_count(shape);
    lift_channels(chain, &s, true, shape->dim[1], count, qs__cpu_data(chain, QS_WEIGHTS), dst, (uint8_t *)dst + count);
    return QS_OK;
}

/* Input gradient of a linear operator: the summed channel is the weights' row. */
static qs_status lift_right_rows(const qs__chain *chain, const qs_run *run) {
    (void)run;
    const qs_shape *shape = &qs__case_operand(&chain->one, QS_WEIGHTS)->shape;
    shares s = shares_now(chain);
    int64_t row = qs_shape_count(shape) / shape->dim[0];
    int8_t *dst = (int8_t *)chain->scratch + chain->offset[3];
    uint8_t *power = (uint8_t *)dst + qs_shape_count(shape);
    for (int64_t o = 0; o < shape->dim[0]; o++) {
        memset(power, power_of(&s, true, o), (size_t)row);
        chain->cpu->products->lift(row, false, power, (const int8_t *)qs__cpu_data(chain, QS_WEIGHTS) + o * row, (uint8_t *)dst + o * row);
    }
    return QS_OK;
}

/* Input gradient: weights [O][taps][I] become [I][taps][O], the taps from last to first, so that a forward convolution with them is the
 * gradient. */
typedef struct turn_job {
    const int8_t *src;
    int8_t *dst;
    int64_t outputs, taps, inputs;
    shares shares;
} turn_job;

static void turn_rows(void *context, int64_t begin, int64_t end) {
    const turn_job *job = context;
    for (int64_t row = begin; row < end; row++) {
        int64_t i = row / job->taps, tap = job->taps - 1 - row % job->taps;
        for (int64_t o = 0; o < job->outputs; o++)
            job->dst[row * job->outputs + o] =
                (int8_t)(job->src[(o * job->taps + tap) * job->inputs + i] * power_of(&job->shares, true, o));
    }
}

static qs_status turn_right(const qs__chain *chain, const qs_run *run) {
    (void)run;
    const qs_shape *shape = &qs__case_operand(&chain->one, QS_WEIGHTS)->shape;
    turn_job job = {.src = qs__cpu_data(chain, QS_WEIGHTS),
                    .dst = (int8_t *)chain->scratch + chain->offset[3],
                    .outputs = shape->dim[0],
                    .inputs = shape->dim[1],
                    .shares = shares_now(chain)};
    job.taps = qs_shape_count(shape) / job.outputs / job.inputs;
    qs_parallel(job.inputs * job.taps, 1 + 4096 / job.outputs, turn_rows, &job);
    return QS_OK;
}

/* Scratch for the codes and, behind them, a row of powers. */
static int scratch_for(qs__chain *chain, const qs__layout *layout, int64_t channels, int place) {
    int slot = qs__chain_scratch(chain, layout);
    (void)qs__chain_reserve(chain, (size_t)(channels > ROW ? channels : ROW));
    chain->offset[place] = chain->slot[slot].offset;
    return slot;
}

int qs__shift_groups_left(qs__chain *chain, const qs__layout *layout) {
    qs_role role = left_role(&chain->one);
    if (chain->one.attributes.shifts <= 1) return qs__chain_operand(chain, role, layout);
    int slot = scratch_for(chain, layout, qs__case_operand(&chain->one, role)->shape.dim[1], 2);
    qs__chain_call(chain, lift_left);
    return slot;
}

static bool right_moves(const qs_case *one) {
    shares s = shares_of(one);
    return s.shifts - 1 > s.left_spare;
}

int qs__shift_groups_right(qs__chain *chain, const qs__layout *layout) {
    if (!right_moves(&chain->one)) return qs__chain_operand(chain, QS_WEIGHTS, layout);
    int slot = scratch_for(chain, layout, qs__case_operand(&chain->one, QS_WEIGHTS)->shape.dim[1], 3);
    qs__chain_call(chain, is_gradient(&chain->one) ? lift_right_rows : lift_right);
    return slot;
}

int qs__shift_groups_turned(qs__chain *chain, const qs__layout *layout) {
    int slot = scratch_for(chain, layout, 0, 3);
    qs__chain_call(chain, turn_right);
    return slot;
}
