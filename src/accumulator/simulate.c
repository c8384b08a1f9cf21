// SPDX-License-Identifier: Apache-2.0
/* Monte Carlo: the variance that narrow sums retain of that of exact sums of the same random products. QS_NARROW_LANES trials run side by
 * side, a tile of products at a time, through all cases: products are drawn once, and memory does not grow with the length. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "accumulator_internal.h"

enum { TILE = 128 };

/* Sums over trials of powers of the narrow sum s and the exact sum x. */
typedef struct moments {
    double s2, x2, s4, s2x2, x4, error2;
} moments;

typedef struct simulation {
    const qs_simulation *what;
    int cases;
    const qs_simulated *one;
    moments *block; /* [blocks][cases] */
    bool failed;
} simulation;

typedef struct lanes {
    double total[QS_NARROW_LANES], part[QS_NARROW_LANES];
} lanes;

/* The product of two standard normals: of Box and Muller's pair r cos θ, r sin θ it is r² / 2 · sin 2θ, with r² / 2 = -ln u. */
static double product_draw(uint64_t radius_key, uint64_t angle_key, uint32_t i) {
    const double two_pi = 6.283185307179586;
    const double u = ((double)qs_random_bits(radius_key, i) + 0.5) * 0x1p-32, v = ((double)qs_random_bits(angle_key, i) + 0.5) * 0x1p-32;
    return -log(u) * sin(two_pi * v);
}

void qs_simulation_addends(const qs_simulation *what, int64_t trial, int64_t first, int64_t count, double *out, int64_t step) {
    const uint64_t radius = qs_random_key(what->seed, 0, (uint64_t)trial, 0), angle = qs_random_key(what->seed, 0, (uint64_t)trial, 1);
    const uint64_t zero = qs_random_key(what->seed, 0, (uint64_t)trial, 3);
    for (int64_t i = 0; i < count; i++) {
        const uint32_t at = (uint32_t)(first + i);
        const double addend = what->addends == QS_ADDENDS_NORMAL ? (double)qs_random_normal(radius, at) : product_draw(radius, angle, at);
        const bool is_zero = what->zeros > 0 && (double)qs_random_bits(zero, at) < what->zeros * 0x1p32;
        out[i * step] = is_zero ? 0 : qs_product_round(addend, what->product_bits);
    }
}

uint64_t qs_simulation_key(const qs_simulation *what, int64_t trial) {
    return qs_random_key(what->seed, 0, (uint64_t)trial, 2);
}

/* Products first .. first + count - 1 into the sums of one case. A chunk's sum goes into the total where the chunk ends. */
static void case_advance(const simulation *all, const qs_simulated *one, int64_t first, int64_t count, const double *products,
                         const uint64_t *keys, lanes *state) {
    const int64_t length = all->what->length, chunk = one->chunk && one->chunk < length ? one->chunk : 0;
    for (int64_t at = first, end = first + count, next; at < end; at = next) {
        next = chunk && (at / chunk + 1) * chunk < end ? (at / chunk + 1) * chunk : end;
        double *sums = chunk ? state->part : state->total;
        qs_narrow_lanes(one->adder, one->accumulator_bits, next - at, products + (at - first) * QS_NARROW_LANES, sums, keys, (uint32_t)at);
        if (!chunk || (next % chunk != 0 && next != length)) continue;
        qs_narrow_lanes(one->adder, one->accumulator_bits, 1, state->part, state->total, keys, (uint32_t)(length + (next - 1) / chunk));
        memset(state->part, 0, sizeof state->part);
    }
}

static void exact_advance(int64_t count, const double *products, double *sums) {
    for (int64_t i = 0; i < count; i++, products += QS_NARROW_LANES)
        for (int l = 0; l < QS_NARROW_LANES; l++)
            sums[l] += products[l];
}

static moments moments_of(int64_t trials, const double *narrow, const double *exact) {
    moments sum = {0};
    for (int64_t t = 0; t < trials; t++) {
        const double s2 = narrow[t] * narrow[t], x2 = exact[t] * exact[t], error = narrow[t] - exact[t];
        sum.s2 += s2, sum.x2 += x2, sum.s4 += s2 * s2, sum.s2x2 += s2 * x2, sum.x4 += x2 * x2, sum.error2 += error * error;
    }
    return sum;
}

static qs_status block_run(const simulation *all, int64_t block) {
    const int64_t first_trial = block * QS_NARROW_LANES, length = all->what->length;
    const int64_t trials = all->what->trials - first_trial < QS_NARROW_LANES ? all->what->trials - first_trial : QS_NARROW_LANES;
    double *products = NULL, exact[QS_NARROW_LANES] = {0};
    lanes *state = NULL;
    uint64_t keys[QS_NARROW_LANES];
    qs_status status = qs_allocate(TILE * QS_NARROW_LANES, sizeof *products, &products);
    if (status == QS_OK) status = qs_allocate((size_t)all->cases, sizeof *state, &state);
    for (int l = 0; l < QS_NARROW_LANES; l++)
        keys[l] = qs_simulation_key(all->what, first_trial + l);
    for (int64_t at = 0; at < length && status == QS_OK; at += TILE) {
        const int64_t count = length - at < TILE ? length - at : TILE;
        for (int l = 0; l < QS_NARROW_LANES; l++)
            qs_simulation_addends(all->what, first_trial + l, at, count, products + l, QS_NARROW_LANES);
        exact_advance(count, products, exact);
        for (int c = 0; c < all->cases; c++)
            case_advance(all, &all->one[c], at, count, products, keys, &state[c]);
    }
    for (int c = 0; c < all->cases && status == QS_OK; c++)
        all->block[block * all->cases + c] = moments_of(trials, state[c].total, exact);
    free(state);
    free(products);
    return status;
}

static void blocks_run(void *context, int64_t begin, int64_t end) {
    simulation *all = context;
    for (int64_t b = begin; b < end; b++)
        if (block_run(all, b) != QS_OK) all->failed = true;
}

/* Sums of products that are symmetric about 0, by adders that are too, have mean 0: their variance is the mean square. The interval is that
 * of a ratio of two means over the same trials. */
static qs_retention retention_of(const simulation *all, int64_t blocks, int index) {
    moments sum = {0};
    for (int64_t b = 0; b < blocks; b++) {
        const moments *one = &all->block[b * all->cases + index];
        sum.s2 += one->s2, sum.x2 += one->x2, sum.s4 += one->s4, sum.s2x2 += one->s2x2, sum.x4 += one->x4, sum.error2 += one->error2;
    }
    const double trials = (double)all->what->trials, ratio = sum.s2 / sum.x2;
    const double residual = fmax(0, sum.s4 - 2 * ratio * sum.s2x2 + ratio * ratio * sum.x4) * trials / (trials - 1);
    return (qs_retention){ratio, 1.959963984540054 * sqrt(residual) / sum.x2, sum.error2 / sum.x2};
}

static qs_status simulation_check(const simulation *all) {
    const qs_simulation *what = all->what;
    if (what->length < 2 || what->length > QS_LONGEST_SIMULATION)
        return qs_fail(QS_USAGE, "a simulated sum of %lld products: lengths lie between 2 and 2^30", (long long)what->length);
    if (what->trials < 2 || what->trials > QS_MOST_SIMULATED_PRODUCTS / what->length)
        return qs_fail(QS_USAGE, "%lld trials of %lld products: 2 trials and more, and at most 2^38 products in all",
                       (long long)what->trials, (long long)what->length);
    if (what->product_bits < 1) return qs_fail(QS_USAGE, "products of %d mantissa bits: 1 to %d", what->product_bits, QS_WIDEST_ADDER);
    if (!(what->zeros >= 0 && what->zeros < 1)) return qs_fail(QS_USAGE, "a share of zeros of %g: it lies in [0, 1)", what->zeros);
    for (int c = 0; c < all->cases; c++) {
        const qs_simulated *one = &all->one[c];
        QS_TRY(qs_narrow_check(&(qs_narrow){one->adder, 8, one->accumulator_bits, what->product_bits, one->chunk}));
    }
    return QS_OK;
}

qs_status qs_accumulation_simulate(const qs_simulation *what, int cases, const qs_simulated *one, qs_retention *out) {
    simulation all = {what, cases, one, NULL, false};
    QS_TRY(simulation_check(&all));
    const int64_t blocks = (what->trials + QS_NARROW_LANES - 1) / QS_NARROW_LANES;
    QS_TRY(qs_allocate((size_t)blocks * (size_t)cases, sizeof *all.block, &all.block));
    qs_parallel(blocks, 1, blocks_run, &all);
    for (int c = 0; c < cases && !all.failed; c++)
        out[c] = retention_of(&all, blocks, c);
    free(all.block);
    return all.failed ? qs_fail(QS_OUT_OF_MEMORY, "tiles of %d products for each thread of a simulation", TILE * QS_NARROW_LANES) : QS_OK;
}
