// SPDX-License-Identifier: Apache-2.0
/* accumulator: how wide the accumulators of a model's GEMMs must be (variance retention ratio; Sakr et al., Accumulation
 * Bit-Width Scaling, ICLR 2019).
 *
 * n products with m_p mantissa bits are summed in an accumulator with m_acc mantissa bits. Small addends are swamped by a large sum: the
 * variance of the result falls to VRR(m_acc, m_p, n) of what exact sums would have. Widths count mantissa bits without the leading one.
 * Nothing here runs on a device. */
#ifndef QSYNC_ACCUMULATOR_H
#define QSYNC_ACCUMULATOR_H

#include "qsync/graph.h"
#include "qsync/record.h"

/* ---- The formula ------------------------------------------------------------------------------------------------------- */

enum { QS_MOST_ACCUMULATOR_BITS = 60 };
#define QS_LONGEST_ACCUMULATION ((int64_t)1 << 40)

/* A sum of `length` products. Only a share `nonzero` of them counts: n = ceil(length × nonzero). chunk 0: one after the other. Else in
 * chunks of that many, whose sums are summed then: the first stage has n1 = ceil(chunk × nonzero) products of product_bits bits, the second
 * n2 = ceil(length / chunk) addends of min(m_acc, product_bits + log2 n1) bits, log2 rounded up. A length of at most one chunk has one
 * stage. */
typedef struct qs_accumulation {
    int product_bits; /* m_p: 1 .. 30; of the products of two formats with k mantissa bits, 2k + 1 */
    int64_t length;   /* 1 .. QS_LONGEST_ACCUMULATION */
    int64_t chunk;    /* 0, or 2 and more */
    double nonzero;   /* in (0, 1] */
} qs_accumulation;

/* 1 - VRR, the lost share of the variance: computed as a quotient of sums of positive terms, so that it keeps its digits where VRR is
 * nearly 1 (relative error below 1e-6). QS_USAGE names what is out of range, m_acc below product_bits or above QS_MOST_ACCUMULATOR_BITS
 * included. */
QS_API qs_status qs_accumulation_loss(const qs_accumulation *sum, int accumulator_bits, double *out);
/* The exponent n (1 - VRR) of the variance lost, v = exp(n (1 - VRR)); of a chunked sum the larger of the stages'. A width is enough while
 * v stays below 50, each stage on its own. By the formula itself it may rise a little with the width where it is small. */
QS_API qs_status qs_accumulation_exponent(const qs_accumulation *sum, int accumulator_bits, double *out);
#define QS_ACCUMULATION_EXPONENT 3.912023005428146 /* ln 50: from here on a width is too small */
/* The smallest width, from product_bits on, that is enough. */
QS_API qs_status qs_accumulation_bits(const qs_accumulation *sum, int *out);

/* ---- Monte Carlo ----------------------------------------------------------------------------------------------------------- */

/* What the formula predicts, measured: addends, rounded to product_bits (nearest-even), are summed `trials` times by every
 * simulated accumulator and exactly (in doubles, far finer than what is compared). Trial t's products depend on (seed, t) alone, so
 * all cases, and all runs with the same seed, see the same ones; results do not depend on the pool's threads, over which trials run. */
#define QS_LONGEST_SIMULATION ((int64_t)1 << 30)
#define QS_MOST_SIMULATED_PRODUCTS ((int64_t)1 << 38) /* length × trials: hours */
/* Products of two independent standard normals, as GEMMs sum them: many are small. Or single standard normals, nearer to the formula's
 * picture of addends that are all about as large. */
typedef enum qs_addends { QS_ADDENDS_PRODUCTS, QS_ADDENDS_NORMAL } qs_addends;
typedef struct qs_simulation {
    qs_addends addends;
    int product_bits; /* 1 .. QS_WIDEST_ADDER */
    int64_t length;   /* 2 .. QS_LONGEST_SIMULATION */
    int64_t trials;   /* 2 and more */
    uint64_t seed;
    double zeros; /* share of the products that is zero, here and there by chance: in [0, 1) */
} qs_simulation;
typedef struct qs_simulated {
    const qs_adder *adder;
    int accumulator_bits; /* 1 .. QS_WIDEST_ADDER; exponents are wide enough for everything */
    int64_t chunk;        /* as in qs_narrow */
} qs_simulated;
typedef struct qs_retention {
    double ratio; /* measured VRR: variance of the narrow sums over that of the exact ones; above 1 where rounding adds more than is lost */
    double interval; /* 95 % of repetitions lie within ± this of the true ratio (normal approximation over trials) */
    double error;    /* mean square of (narrow - exact) over the exact sums' variance: noise counts here, which the ratio may hide */
} qs_retention;
/* Addends first .. first + count - 1 of a trial into every step-th element of out, and the key of its stochastic draws (counted as in
 * qs_narrow_dot): so that accumulators other than these can be measured on the same ones. A valid simulation is assumed. */
QS_API void qs_simulation_addends(const qs_simulation *what, int64_t trial, int64_t first, int64_t count, double *out, int64_t step);
QS_API uint64_t qs_simulation_key(const qs_simulation *what, int64_t trial);
/* Measures `cases` accumulators into out[cases]. QS_USAGE names what is out of range. */
QS_API qs_status qs_accumulation_simulate(const qs_simulation *what, int cases, const qs_simulated *one, qs_retention *out);

/* ---- Adders, predicted --------------------------------------------------------------------------------------------------------- */

/* The retention that qs_accumulation_simulate measures, derived from what an adder does to one addition (docs/method.md §8.7). Below 1
 * where variance is lost, above where rounding adds some. Beside measurements (docs/accumulators.md) it is off by 0.086 at most, by 0.020
 * where it is within 0.05 of 1, as it is at the widths that are chosen; for `stochastic` by up to 1.4 where rounding adds more variance
 * than the exact sums have. Any accumulator_bits from 1 on, `sum` as for the formula; addends of the second stage are sums, so normal.
 * QS_UNSUPPORTED for an adder that nobody derived it for. Takes some 0.01 s. */
QS_API qs_status qs_adder_retention(const qs_adder *adder, qs_addends addends, const qs_accumulation *sum, int accumulator_bits,
                                    double *out);
/* n (1 - that); in chunks that of the stage which changes the variance more. */
QS_API qs_status qs_adder_exponent(const qs_adder *adder, qs_addends addends, const qs_accumulation *sum, int accumulator_bits,
                                   double *out);
/* The smallest width, from product_bits on, whose exponent's magnitude is below QS_ACCUMULATION_EXPONENT: variance that is added counts
 * like lost one. */
QS_API qs_status qs_adder_bits(const qs_adder *adder, qs_addends addends, const qs_accumulation *sum, int *out);

/* ---- A model ------------------------------------------------------------------------------------------------------------ */

/* How many products each output element of an adjustable operator's GEMM sums, for a local batch: convolutions C_in / groups · kh · kw,
 * C_out / groups · kh · kw and batch · H_out · W_out; linear layers in, out and batch. 0: the GEMM does not run (the input gradient of the
 * first operators). */
QS_API int64_t qs_gemm_length(const qs_graph *graph, int node, qs_gemm gemm, int64_t batch);

/* Share of a GEMM's products that is not zero, zeros of the two operands taken as independent; 1 where statistics (or NULL) do not say. */
QS_API double qs_gemm_nonzero(const qs_statistics *statistics, const char *operator_name, qs_gemm gemm);
/* m_p of a recipe's GEMM; 0 for integers, which are summed exactly. */
QS_API int qs_gemm_product_bits(const qs_recipe *recipe, qs_gemm gemm);

/* Which accumulators GEMMs get: like `like`, but as wide as each asks for. */
typedef struct qs_accumulation_rule {
    qs_narrow like;
    bool by_length; /* mantissa bits from each GEMM's length, products and zeros: by the formula, or */
    bool by_adder;  /* by what like.adder retains (qs_adder_bits); else like.mantissa_bits everywhere */
    int bits_more;  /* added to widths by length: 0, or -1, -2 for accumulators that are known to be too narrow */
} qs_accumulation_rule;
/* "fp(8,auto)/chunk64/align-truncate": the text of an accumulator with `auto` in place of its mantissa bits, or a number for one width
 * everywhere. The exponent bits stand in it: 8 are those of fp32. by_adder and bits_more are left 0. QS_USAGE says what is wrong. */
QS_API qs_status qs_accumulation_rule_find(const char *text, qs_accumulation_rule *out);
/* Sets the recipe's accumulators for an operator and a local batch. GEMMs of integers are left alone; those that need as many bits as fp32
 * has (with fp32 operands all do) add in fp32. statistics NULL: no zeros. */
QS_API qs_status qs_accumulators_choose(const qs_accumulation_rule *rule, const qs_graph *graph, int node, int64_t batch,
                                        const qs_statistics *statistics, qs_recipe *recipe);
/* The same for all operators of a plan, at its classes' batches, else `batch`. What it predicted holds no longer and is dropped
 * (qs_plan_forget). */
QS_API qs_status qs_plan_accumulate(const qs_accumulation_rule *rule, const qs_graph *graph, int64_t batch, const qs_statistics *statistics,
                                    qs_plan *plan);
/* |1 - VRR| of a GEMM in its recipe's accumulator, by qs_adder_retention; 0 where that is not narrow. */
QS_API qs_status qs_gemm_loss(const qs_graph *graph, int node, qs_gemm gemm, int64_t batch, const qs_statistics *statistics,
                              const qs_recipe *recipe, double *out);

#endif
