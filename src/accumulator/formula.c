// SPDX-License-Identifier: Apache-2.0
/* The formula of variance retention (docs/method.md §8.2 and §8.3): 1 - VRR of one stage, sums in one stage or in chunks, and the width
 * that is enough for them. With VRR = (Σ (i - α) q_i + Σ (n - α_r) q'_r + n k3) / (k n) and k the sum of all weights,
 *
 *   1 - VRR = (Σ (n - i + α) q_i + Σ α_r q'_r) / (k n),
 *
 * where every term is positive: nothing cancels. */
#include <math.h>

#include "accumulator_internal.h"

/* ---- Full swamping: the sums over i ------------------------------------------------------------------------------------- */

typedef struct stage {
    double width; /* 2^m_acc / √2 */
    double alpha, length;
} stage;

/* q_i for any real i: full swamping at the i-th addition and not before. 1 - 2Q(x) is erf(x / √2). */
static double swamping(const stage *one, double i) {
    return erfc(one->width / sqrt(i)) * erf(one->width / sqrt(i - 1));
}

typedef struct pair {
    double weight, loss; /* Σ q_i, Σ (n - i + α) q_i */
} pair;

static pair term_at(const stage *one, double i) {
    const double weight = swamping(one, i);
    return (pair){weight, weight * (one->length - i + one->alpha)};
}

static void add(pair *sum, double factor, pair what) {
    sum->weight += factor * what.weight;
    sum->loss += factor * what.loss;
}

/* ∫ over [from, to] by the eight-point rule of Gauss and Legendre. */
static pair panel(const stage *one, double from, double to) {
    static const double place[] = {0.1834346424956498, 0.5255324099163290, 0.7966664774136267, 0.9602898564975363};
    static const double share[] = {0.3626837833783620, 0.3137066458778873, 0.2223810344533745, 0.1012285362903763};
    const double middle = (from + to) / 2, half = (to - from) / 2;
    pair sum = {0};
    for (int p = 0; p < 4; p++) {
        add(&sum, half * share[p], term_at(one, middle - half * place[p]));
        add(&sum, half * share[p], term_at(one, middle + half * place[p]));
    }
    return sum;
}

/* Σ over the integers from .. end - 1, both far from 1: the integral between the half-integers around them and Euler and Maclaurin's first
 * correction, -1/24 of the derivative's change. The terms go like exp(-width² / i), so a panel is as wide as leaves that factor near
 * constant, and never more than a part of i. */
static pair smooth_sum(const stage *one, double from, double end) {
    pair sum = {0};
    for (double at = from - 0.5, next; at < end - 0.5; at = next) {
        next = fmin(end - 0.5, at + fmin(at / 8, 2 * at * at / (one->width * one->width)));
        add(&sum, 1, panel(one, at, next));
    }
    add(&sum, -1.0 / 24, term_at(one, end));
    add(&sum, 1.0 / 24, term_at(one, end - 1));
    add(&sum, 1.0 / 24, term_at(one, from));
    add(&sum, -1.0 / 24, term_at(one, from - 1));
    return sum;
}

/* Terms below where exp(-width² / i) underflows are 0; below `smooth` they are summed one by one. */
static pair full_swamping(const stage *one) {
    const double smooth = 16384, underflow = 745;
    const double first = fmax(fmax(2, floor(one->alpha) + 1), floor(one->width * one->width / underflow));
    const double end = one->length; /* i ends at n - 1 */
    const double middle = fmin(end, fmax(first, smooth));
    pair sum = {0};
    for (double i = first; i < middle; i++)
        add(&sum, 1, term_at(one, i));
    if (fmax(first, middle) < end) add(&sum, 1, smooth_sum(one, fmax(first, middle), end));
    return sum;
}

/* ---- Partial swamping: the sums over r ------------------------------------------------------------------------------------- */

static pair partial_swamping(int accumulator_bits, int product_bits, double length) {
    const double scale = ldexp(1.0 / 3, accumulator_bits - 3 * product_bits), root = sqrt(2 * length);
    double alpha = 0;
    pair sum = {0};
    for (int r = 2; r <= product_bits; r++) {
        const double low = ldexp(1, r - 1);
        alpha += scale * low * (low - 1) * (2 * low - 1);
        if (length <= alpha) break;
        const double below = ldexp(1, accumulator_bits - product_bits + r - 1) / root;
        const double weight = ldexp(1, accumulator_bits - product_bits + r) * erfc(below) * erf(2 * below);
        add(&sum, 1, (pair){weight, weight * alpha});
    }
    return sum;
}

/* α: what the partial stages lose in all, in additions. */
static double alpha_of(int accumulator_bits, int product_bits) {
    double sum = 0;
    for (int j = 1; j <= product_bits; j++) {
        const double power = ldexp(1, j);
        sum += power * (power - 1) * (2 * power - 1);
    }
    return ldexp(sum / 3, accumulator_bits - 3 * product_bits);
}

/* 1 - VRR of `length` additions one after the other, product_bits <= accumulator_bits. */
static double stage_loss(int accumulator_bits, int product_bits, double length) {
    if (length < 2) return 0;
    const stage one = {ldexp(sqrt(0.5), accumulator_bits), alpha_of(accumulator_bits, product_bits), length};
    pair sum = {.weight = erf(ldexp(1, accumulator_bits - product_bits + 1) / sqrt(2 * length))};
    add(&sum, 1, full_swamping(&one));
    add(&sum, 1, partial_swamping(accumulator_bits, product_bits, length));
    return sum.loss / (sum.weight * length);
}

/* ---- Sums in stages ------------------------------------------------------------------------------------------------------------- */

static qs_status sum_check(const qs_accumulation *sum) {
    if (sum->product_bits < 1 || sum->product_bits > 30)
        return qs_fail(QS_USAGE, "products of %d bits: mantissas of products have 1 to 30", sum->product_bits);
    if (sum->length < 1 || sum->length > QS_LONGEST_ACCUMULATION)
        return qs_fail(QS_USAGE, "a sum of %lld products: lengths lie between 1 and 2^40", (long long)sum->length);
    if (sum->chunk != 0 && sum->chunk < 2)
        return qs_fail(QS_USAGE, "chunks of %lld: 2 and more, or 0 for a sum without chunks", (long long)sum->chunk);
    if (!(sum->nonzero > 0 && sum->nonzero <= 1))
        return qs_fail(QS_USAGE, "a non-zero share of %g: it lies above 0 and is at most 1", sum->nonzero);
    return QS_OK;
}

qs_status qs__stages_make(const qs_accumulation *sum, int accumulator_bits, qs__stages *out) {
    QS_TRY(sum_check(sum));
    *out = (qs__stages){1, {sum->product_bits}, {ceil((double)sum->length * sum->nonzero)}};
    if (sum->chunk == 0 || sum->length <= sum->chunk) return QS_OK;
    out->stages = 2;
    out->length[0] = ceil((double)sum->chunk * sum->nonzero);
    out->length[1] = ceil((double)sum->length / (double)sum->chunk);
    out->product_bits[1] = (int)fmin(accumulator_bits, sum->product_bits + ceil(log2(out->length[0])));
    return QS_OK;
}

/* The stages of an accumulator of a width of which the formula speaks. */
static qs_status stages_check(const qs_accumulation *sum, int accumulator_bits, qs__stages *out) {
    QS_TRY(qs__stages_make(sum, accumulator_bits, out));
    if (accumulator_bits >= sum->product_bits && accumulator_bits <= QS_MOST_ACCUMULATOR_BITS) return QS_OK;
    return qs_fail(QS_USAGE, "an accumulator of %d bits: from the products' %d bits to %d", accumulator_bits, sum->product_bits,
                   QS_MOST_ACCUMULATOR_BITS);
}

qs_status qs_accumulation_loss(const qs_accumulation *sum, int accumulator_bits, double *out) {
    qs__stages all;
    QS_TRY(stages_check(sum, accumulator_bits, &all));
    double kept_less_one = 0; /* of the stages so far: Π (1 - loss) - 1, without cancellation */
    for (int s = 0; s < all.stages; s++) {
        const double loss = stage_loss(accumulator_bits, all.product_bits[s], all.length[s]);
        kept_less_one -= loss * (1 + kept_less_one);
    }
    *out = -kept_less_one;
    return QS_OK;
}

qs_status qs_accumulation_exponent(const qs_accumulation *sum, int accumulator_bits, double *out) {
    qs__stages all;
    QS_TRY(stages_check(sum, accumulator_bits, &all));
    *out = 0;
    for (int s = 0; s < all.stages; s++)
        *out = fmax(*out, all.length[s] * stage_loss(accumulator_bits, all.product_bits[s], all.length[s]));
    return QS_OK;
}

qs_status qs_accumulation_bits(const qs_accumulation *sum, int *out) {
    QS_TRY(sum_check(sum));
    for (*out = sum->product_bits; *out < QS_MOST_ACCUMULATOR_BITS; ++*out) {
        double exponent;
        QS_TRY(qs_accumulation_exponent(sum, *out, &exponent));
        if (exponent < QS_ACCUMULATION_EXPONENT) break;
    }
    return QS_OK;
}
