// SPDX-License-Identifier: Apache-2.0
/* Sums in one stage or in chunks, and the width that is enough for them. */
#include <math.h>

#include "accumulator_internal.h"

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
        const double loss = qs__vrr_loss(accumulator_bits, all.product_bits[s], all.length[s]);
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
        *out = fmax(*out, all.length[s] * qs__vrr_loss(accumulator_bits, all.product_bits[s], all.length[s]));
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
