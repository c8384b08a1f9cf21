// SPDX-License-Identifier: Apache-2.0
// labels: short
/* statistics: every field against sums over the decoded values. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("statistics");
}

/* Sums of n positive doubles in another order differ by at most n ulps. */
static void close_sum(double got, double expected, int64_t count) {
    assert_true(fabs(got - expected) <= (double)count * 0x1p-52 * fabs(expected));
}

static double rounding_variance(const float *x, int64_t count, const qs_format *format, float step) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        double q = format->kind == QS_KIND_INTEGER ? (double)step : 0;
        if (q == 0) {
            int exponent;
            frexp((double)x[i], &exponent);
            q = fmax(x[i] == 0 ? 0 : ldexp(1, exponent - 1), format->min_normal) * format->epsilon;
        }
        double f = fabs((double)x[i]) / q;
        f -= floor(f);
        sum += q * q * f * (1 - f);
    }
    return sum;
}

static void check_exponents(const float *x, int64_t count, const double *exponents) {
    double expected[QS_EXPONENTS] = {0};
    for (int64_t i = 0; i < count; i++)
        if (x[i] != 0) expected[ilogbf(x[i]) - QS_LOWEST_EXPONENT]++;
    assert_memory_equal(exponents, expected, sizeof expected);
}

static void one_case(const char *text) {
    bound b;
    bound_parse(&b, text, 161);
    bound_run(&b);
    float *x = tensor_values(&b.operands[0]);
    int64_t count = bound_count(&b, QS_SRC);
    bool rows = b.one.attributes.per_channel;
    qs_statistics_head head;
    const char *raw = b.operands[1].data;
    memcpy(&head, raw, sizeof head);
    double norm2 = 0, minimum = INFINITY, maximum = -INFINITY;
    for (int64_t i = 0; i < count; i++) {
        norm2 += (double)x[i] * (double)x[i];
        minimum = fmin(minimum, (double)x[i]);
        maximum = fmax(maximum, (double)x[i]);
    }
    int64_t channels = b.operands[0].shape.dim[rows ? 0 : 1];
    assert_true(head.count == (double)count && head.channels == (double)channels);
    assert_true(head.minimum == minimum && head.maximum == maximum && head.absmax == fmax(-minimum, maximum));
    close_sum(head.norm2, norm2, count);
    float step = qs_step_of_absmax(qs_format_of("int8"), (float)head.absmax);
    /* f comes from x/q in double at best; 2^-40 of q² a term is far above that and far below a wrong f */
    double allowed = (double)count * 0x1p-20 * (double)step * (double)step;
    assert_true(fabs(head.variance_int8 - rounding_variance(x, count, qs_format_of("int8"), step)) <= allowed);
    close_sum(head.variance_bf16, rounding_variance(x, count, qs_format_of("bf16"), 0), 4 * count);
    close_sum(head.variance_fp16, rounding_variance(x, count, qs_format_of("fp16"), 0), 4 * count);
    double row_variance = 0;
    for (int64_t c = 0; c < channels; c++) {
        double stored[2], low = INFINITY, high = -INFINITY;
        memcpy(stored, raw + sizeof head + (size_t)c * sizeof stored, sizeof stored);
        for (int64_t i = 0; i < count; i++) {
            if ((rows ? i / (count / channels) : i % channels) != c) continue;
            low = fmin(low, (double)x[i]);
            high = fmax(high, (double)x[i]);
        }
        assert_true(stored[0] == low && stored[1] == high);
        if (rows) {
            const float row_step = qs_step_of_absmax(qs_format_of("int8"), (float)fmax(-low, high));
            row_variance += rounding_variance(x + c * (count / channels), count / channels, qs_format_of("int8"), row_step);
        }
    }
    assert_true(fabs(head.variance_int8_channel - row_variance) <= (rows ? allowed : 0));
    check_exponents(x, count, head.exponents);
    free(x);
    bound_release(&b);
}

TEST(fields) {
    assert_true(sizeof(qs_statistics_head) == 2120 && qs_statistics_bytes(16) == 2120 + 256);
    for (const char *const *text = qs_op_of("statistics")->cases; *text; text++)
        one_case(*text);
}

TEST_MAIN(cases, fields)
