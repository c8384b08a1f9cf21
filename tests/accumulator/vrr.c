// SPDX-License-Identifier: Apache-2.0
// labels: short
/* 1 - VRR against sums in long double: term by term for lengths that can be counted through, by a fine Simpson rule for others; and what
 * follows for chunks, sparsity and widths. */
#include "kit/kit.h"
#include "qsync/accumulator.h"
#include "kit/compare.h"
#include "kit/vectors.h"

static double loss_of(int accumulator_bits, int product_bits, int64_t length) {
    const qs_accumulation sum = {product_bits, length, 0, 1};
    double loss = NAN;
    assert_ok(qs_accumulation_loss(&sum, accumulator_bits, &loss));
    return loss;
}

/* ---- The reference ----------------------------------------------------------------------------------------------------- */

static long double alpha_up_to(int accumulator_bits, int product_bits, int last) {
    long double sum = 0;
    for (int j = 1; j <= last; j++)
        sum += ldexpl(1, j) * (ldexpl(1, j) - 1) * (ldexpl(1, j + 1) - 1);
    return ldexpl(sum / 3, accumulator_bits - 3 * product_bits);
}

static long double weight_at(int accumulator_bits, long double i) {
    const long double power = ldexpl(1, accumulator_bits);
    return erfcl(power / sqrtl(2 * i)) * erfl(power / sqrtl(2 * (i - 1)));
}

/* Σ over first .. end - 1 of q_i and q_i (n - i + α). Beyond `counted` terms: Simpson's rule over log i on a grid fine enough that it does
 * not matter, with the half terms of Euler and Maclaurin at both ends (the next correction is below 1e-10 of the sum there). */
static void reference_sums(int accumulator_bits, long double alpha, int64_t first, int64_t end, long double *weight, long double *loss) {
    const int64_t counted = first + 100000 < end ? first + 100000 : end;
    *weight = *loss = 0;
    for (int64_t i = first; i < counted; i++) {
        const long double q = weight_at(accumulator_bits, i);
        *weight += q;
        *loss += q * ((long double)(end - i) + alpha);
    }
    if (counted == end) return;
    const int panels = 40000;
    /* Where terms grow steeply towards the end, the last ones are all: those before end exp(-80 / slope) are below exp(-80) of them. */
    const long double slope = ldexpl(1, 2 * accumulator_bits) / (2 * (long double)end), last = logl((long double)end);
    const long double from = fmaxl(logl((long double)counted), last - 80 / slope), step = (last - from) / panels;
    for (int p = 0; p <= panels; p++) {
        const long double i = expl(from + p * step), q = weight_at(accumulator_bits, i);
        const long double simpson = (p == 0 || p == panels ? 1 : p % 2 ? 4 : 2) * step / 3 * i;
        const long double half = p == 0 ? 0.5L : p == panels ? -0.5L : 0;
        *weight += (simpson + half) * q;
        *loss += (simpson + half) * q * ((long double)end - i + alpha);
    }
}

static double reference(int accumulator_bits, int product_bits, int64_t length) {
    const long double alpha = alpha_up_to(accumulator_bits, product_bits, product_bits), n = length, root = sqrtl(2 * n);
    long double weight, loss;
    reference_sums(accumulator_bits, alpha, alpha < 1 ? 2 : (int64_t)floorl(alpha) + 1, length, &weight, &loss);
    for (int r = 2; r <= product_bits; r++) {
        const long double part = alpha_up_to(accumulator_bits, product_bits, r - 1);
        if (!(n > part)) continue;
        const long double low = ldexpl(1, accumulator_bits - product_bits + r - 1);
        const long double q = 2 * low * erfcl(low / root) * erfl(2 * low / root);
        weight += q;
        loss += q * part;
    }
    weight += erfl(ldexpl(1, accumulator_bits - product_bits + 1) / root);
    return (double)(loss / (weight * n));
}

TEST(agrees_with_the_reference) {
    static const int64_t lengths[] = {2, 3, 27, 1152, 20000, 262144, 1000000000, QS_LONGEST_ACCUMULATION};
    static const int products[] = {1, 5, 10};
    for (size_t n = 0; n < COUNT_OF(lengths); n++)
        for (size_t p = 0; p < COUNT_OF(products); p++)
            for (int bits = products[p]; bits <= 40; bits++) {
                const double expected = reference(bits, products[p], lengths[n]), loss = loss_of(bits, products[p], lengths[n]);
                /* Below what doubles can hold, 0 is as good an answer. */
                const double tolerance = expected < 1e-290 ? 1e-289 : 1e-6 * expected;
                if (!(fabs(loss - expected) <= tolerance && loss >= 0))
                    fail_msg("m_acc %d, m_p %d, n %lld: %.12g, expected %.12g", bits, products[p], (long long)lengths[n], loss, expected);
            }
}

TEST(agrees_with_the_vectors) {
    json_t *root = vectors_load("vrr.json");
    if (!root) skip();
    size_t index;
    json_t *row, *value;
    const char *key;
    json_array_foreach(root, index, row) {
        qs_accumulation sum = {(int)vectors_number(row, "m_p"), (int64_t)vectors_number(row, "n"), 0, 1};
        int bits = 0;
        json_object_foreach(json_object_get(row, "vrr"), key, value) {
            if (atoi(key) < sum.product_bits) continue;
            /* The vectors hold VRR in doubles. */
            assert_true(fabs(1 - loss_of(atoi(key), sum.product_bits, sum.length) - json_number_value(value)) < 1e-9);
        }
        assert_ok(qs_accumulation_bits(&sum, &bits));
        assert_int_equal(bits, (int)vectors_number(row, "m_acc_normal"));
        sum.chunk = 64;
        assert_ok(qs_accumulation_bits(&sum, &bits));
        assert_int_equal(bits, (int)vectors_number(row, "m_acc_chunk64"));
    }
    json_decref(root);
}

/* ---- What follows ---------------------------------------------------------------------------------------------------------- */

/* Wider than enough is enough (the loss itself may rise a little with the width where it is near 0), and longer sums never ask for less. */
TEST(widths_that_are_enough) {
    int before = 0, bits = 0;
    for (int64_t length = 1; length <= QS_LONGEST_ACCUMULATION; length *= 2) {
        const qs_accumulation sum = {5, length, 0, 1};
        double exponent = 0;
        assert_ok(qs_accumulation_bits(&sum, &bits));
        assert_true(bits >= before);
        for (int wider = bits; wider < bits + 8; wider++) {
            assert_ok(qs_accumulation_exponent(&sum, wider, &exponent));
            assert_true(exponent < QS_ACCUMULATION_EXPONENT);
        }
        if (bits > 5) assert_ok(qs_accumulation_exponent(&sum, bits - 1, &exponent));
        assert_true(bits == 5 || exponent >= QS_ACCUMULATION_EXPONENT);
        before = bits;
    }
    assert_true(before > 20);
}

TEST(chunks_are_two_stages) {
    const qs_accumulation sum = {5, 1 << 17, 64, 1};
    const double first = loss_of(10, 5, 64), second = loss_of(10, 10, (1 << 17) / 64);
    double loss = 0, exponent = 0;
    assert_ok(qs_accumulation_loss(&sum, 10, &loss));
    assert_true(fabs(loss - (first + second - first * second)) <= 1e-14 * loss);
    assert_ok(qs_accumulation_exponent(&sum, 10, &exponent));
    assert_true(exponent == fmax(64 * first, 2048 * second));
    /* Up to one chunk there is one stage; beyond, chunks never ask for more. */
    for (int64_t length = 16; length < (int64_t)1 << 30; length *= 4) {
        int normal = 0, chunked = 0;
        assert_ok(qs_accumulation_bits(&(qs_accumulation){5, length, 0, 1}, &normal));
        assert_ok(qs_accumulation_bits(&(qs_accumulation){5, length, 64, 1}, &chunked));
        assert_true(length <= 64 ? chunked == normal : chunked <= normal);
    }
}

TEST(zeros_shorten_sums) {
    double sparse = 0;
    assert_ok(qs_accumulation_loss(&(qs_accumulation){5, 4000, 0, 0.25}, 8, &sparse));
    assert_true(sparse == loss_of(8, 5, 1000));
}

TEST(what_is_out_of_range_is_refused) {
    static const qs_accumulation wrong[] = {{0, 10, 0, 1},  {31, 10, 0, 1}, {5, 0, 0, 1},  {5, QS_LONGEST_ACCUMULATION + 1, 0, 1},
                                            {5, 10, 1, 1},  {5, 10, -2, 1}, {5, 10, 0, 0}, {5, 10, 0, 1.5},
                                            {5, 10, 0, NAN}};
    double loss;
    int bits;
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_int_equal(qs_accumulation_bits(&wrong[i], &bits), QS_USAGE);
        assert_int_equal(qs_accumulation_loss(&wrong[i], 10, &loss), QS_USAGE);
    }
    const qs_accumulation sum = {5, 100, 0, 1};
    assert_int_equal(qs_accumulation_loss(&sum, 4, &loss), QS_USAGE);
    assert_int_equal(qs_accumulation_exponent(&sum, QS_MOST_ACCUMULATOR_BITS + 1, &loss), QS_USAGE);
}

TEST(lengths_of_a_model) {
    qs_graph *graph;
    assert_ok(qs_model_build("resnet20", NULL, &graph));
    const int stem = qs_graph_find(graph, "stem.conv"), fc = qs_graph_find(graph, "fc");
    assert_true(stem > 0 && fc > 0);
    assert_int_equal(qs_gemm_length(graph, stem, QS_GEMM_FORWARD, 128), 3 * 9);
    assert_int_equal(qs_gemm_length(graph, stem, QS_GEMM_INPUT_GRADIENT, 128), 0);
    assert_int_equal(qs_gemm_length(graph, stem, QS_GEMM_WEIGHT_GRADIENT, 128), 128 * 32 * 32);
    assert_int_equal(qs_gemm_length(graph, fc, QS_GEMM_FORWARD, 128), 64);
    assert_int_equal(qs_gemm_length(graph, fc, QS_GEMM_INPUT_GRADIENT, 128), 10);
    assert_int_equal(qs_gemm_length(graph, fc, QS_GEMM_WEIGHT_GRADIENT, 128), 128);
    assert_int_equal(qs_gemm_length(graph, 0, QS_GEMM_FORWARD, 128), 0);
    qs_graph_release(graph);
}

TEST_MAIN(agrees_with_the_reference, agrees_with_the_vectors, widths_that_are_enough, chunks_are_two_stages, zeros_shorten_sums,
          what_is_out_of_range_is_refused, lengths_of_a_model)
