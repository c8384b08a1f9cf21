// SPDX-License-Identifier: Apache-2.0
/* Two ways to multiply codes in shift groups, `integer` (shifts inside one product) and `grouped_gemm` (a product for each group, shifted
 * and added), beside the scalar reference and what the device chooses by itself: the same bits at every instruction-set ceiling and for any
 * threads. */
// labels: short
#include "device_support.h"

/* The ways; NULL: the device's own choice. */
static const char *const ways[] = {"grouped_gemm", "integer", NULL};
enum { GATHERED, INTEGER, CHOSEN, WAYS };

static qs_device *open_way(int way, int threads) {
    qs_device *device = NULL;
    const qs_device_options options = {.backend = "cpu", .threads = threads, .isa = test_ceiling, .speed = 1, .family = ways[way]};
    assert_ok(qs_device_open(&options, &device));
    return device;
}

/* ---- Cases: L the format of the codes in groups, R of the weights, G the number of groups, F of the result ---- */

static const char *const shapes[] = {
    "linear/forward src=L[13,37] src_step=fp32[1] src_group=int8[37] weights=R[19,37] weights_step=fp32[19] dst=F[13,19] shifts=G",
    "linear/forward src=L[50,130] src_step=fp32[1] src_group=int8[130] weights=R[70,130] weights_step=fp32[1] bias=fp32[70] dst=F[50,70] "
    "shifts=G",
    "linear/forward src=L[3,5] src_step=fp32[1] src_group=int8[5] weights=R[600,5] weights_step=fp32[600] bias=fp32[600] dst=F[3,600] "
    "shifts=G",
    "linear/input_gradient weights=R[45,21] weights_step=fp32[21] diff_dst=L[11,45] diff_dst_step=fp32[1] diff_dst_group=int8[45] "
    "diff_src=F[11,21] shifts=G",
    "conv2d/forward src=L[2,5,7,9] src_step=fp32[1] src_group=int8[5] weights=R[7,5,3,3] weights_step=fp32[7] bias=fp32[7] "
    "dst=F[2,7,4,5] kernel=3x3 stride=2x2 padding=1x1 shifts=G",
    "conv2d/forward src=L[1,67,6,5] src_step=fp32[1] src_group=int8[67] weights=R[18,67,3,2] weights_step=fp32[18] dst=F[1,18,6,6] "
    "kernel=3x2 padding=1x1 shifts=G",
    "conv2d/forward src=L[2,10,6,5] src_step=fp32[1] src_group=int8[10] weights=R[6,5,3,3] weights_step=fp32[6] dst=F[2,6,6,5] "
    "kernel=3x3 padding=1x1 groups=2 shifts=G",
    "conv2d/input_gradient weights=R[22,19,3,3] weights_step=fp32[19] diff_dst=L[2,22,6,7] diff_dst_step=fp32[1] diff_dst_group=int8[22] "
    "diff_src=F[2,19,6,7] kernel=3x3 padding=1x1 shifts=G",
    "conv2d/input_gradient weights=R[9,33,3,3] weights_step=fp32[1] diff_dst=L[1,9,4,3] diff_dst_step=fp32[1] diff_dst_group=int8[9] "
    "diff_src=F[1,33,7,6] kernel=3x3 stride=2x2 padding=1x1 shifts=G",
    "conv2d/input_gradient weights=R[6,4,1,1] weights_step=fp32[4] diff_dst=L[2,6,3,3] diff_dst_step=fp32[1] diff_dst_group=int8[6] "
    "diff_src=F[2,4,7,7] kernel=1x1 stride=3x3 shifts=G",
    "conv2d/forward src=L[2,21,7,5] src_step=fp32[1] src_group=int8[21] weights=R[21,1,3,3] weights_step=fp32[21] bias=fp32[21] "
    "dst=F[2,21,7,5] kernel=3x3 padding=1x1 groups=21 shifts=G",
    "conv2d/input_gradient weights=R[33,1,3,3] weights_step=fp32[1] diff_dst=L[2,33,6,7] diff_dst_step=fp32[1] diff_dst_group=int8[33] "
    "diff_src=F[2,33,6,7] kernel=3x3 padding=1x1 groups=33 shifts=G",
    "conv2d/input_gradient weights=R[33,1,3,3] weights_step=fp32[1] diff_dst=L[1,33,4,3] diff_dst_step=fp32[1] diff_dst_group=int8[33] "
    "diff_src=F[1,33,7,6] kernel=3x3 stride=2x2 padding=1x1 groups=33 shifts=G",
};
enum { SHAPES = COUNT_OF(shapes) };

/* Symmetric and unsigned codes; bytes with room for all shifts, for some and for none. */
static const struct {
    const char *left, *right;
} factors[] = {{"int4", "int4"}, {"uint4", "int4"}, {"int6", "int6"}, {"uint6", "int6"}, {"int6", "int8"}, {"int8", "int8"}};
enum { FACTORS = COUNT_OF(factors) };

static void case_text(size_t shape, size_t factor, int groups, const char *result, char text[QS_CASE_TEXT]) {
    size_t used = 0;
    char number[12];
    snprintf(number, sizeof number, "%d", groups);
    for (const char *at = shapes[shape]; *at; at++) {
        const char *word = *at == 'L' ? factors[factor].left : *at == 'R' ? factors[factor].right : *at == 'G' ? number : result;
        if (strchr("LRGF", *at))
            used += (size_t)snprintf(text + used, QS_CASE_TEXT - used, "%s", word);
        else
            text[used++] = *at;
    }
    text[used] = 0;
}

static bool is_gradient(const bound *b) {
    return qs_case_position(&b->one, QS_DIFF_SRC) >= 0;
}

/* Who is in which group: anything; all in the first; all in the last; none in those between; one alone in the first. */
enum { OCCUPANCIES = 5 };

static int group_of(int occupancy, int groups, int64_t channel, int drawn) {
    switch (occupancy) {
    case 0:
        return drawn;
    case 1:
        return 0;
    case 2:
        return groups - 1;
    case 3:
        return channel % 3 ? groups - 1 : 0;
    default:
        return channel == 2 || groups == 1 ? 0 : 1 + (int)(channel % (groups - 1));
    }
}

static void occupy(bound *b, int occupancy) {
    qs_tensor *groups = bound_tensor(b, is_gradient(b) ? QS_DIFF_DST_GROUP : QS_SRC_GROUP);
    int8_t *group = groups->data;
    for (int64_t c = 0; c < qs_shape_count(&groups->shape); c++)
        group[c] = (int8_t)group_of(occupancy, b->one.attributes.shifts, c, group[c]);
}

/* Steps that are powers of two and no bias: a result is its integer sum, rounded once. */
static void steps_set(bound *b) {
    static const qs_role steps[] = {QS_SRC_STEP, QS_WEIGHTS_STEP, QS_DIFF_DST_STEP};
    for (size_t s = 0; s < COUNT_OF(steps); s++)
        for (int64_t i = 0; bound_tensor(b, steps[s]) && i < bound_count(b, steps[s]); i++)
            bound_fp32(b, steps[s])[i] = ldexpf(1, -(int)(i % 5) - (int)s);
    if (bound_tensor(b, QS_BIAS)) memset(bound_fp32(b, QS_BIAS), 0, (size_t)bound_count(b, QS_BIAS) * sizeof(float));
}

/* ---- Comparing ---- */

static qs_tensor *result_of(bound *b) {
    return bound_tensor(b, is_gradient(b) ? QS_DIFF_SRC : QS_DST);
}

/* Runs `from` on a device, twice in the same scratch. */
static void run_on(qs_device *device, bound *from, int way, bound *out) {
    bound_kernel kernel;
    bound_copy(out, &from->one, from);
    kernel_make(&kernel, device, out);
    const bool asked = ways[way] && strstr(kernel.fact.kernel, ways[way]) && !kernel.fact.allocates;
    if (ways[way] ? !asked : strstr(kernel.fact.kernel, "grouped_gemm") != NULL)
        fail_msg("%s was asked for, %s came", ways[way] ? ways[way] : "nothing", kernel.fact.kernel);
    for (int turn = 0; turn < 2; turn++) {
        memset(result_of(out)->data, 0x55, tensor_bytes(result_of(out)));
        assert_ok(kernel_run(&kernel, &out->run));
    }
    kernel_release(&kernel);
}

static void expect_same(bound *got, bound *expected, const char *what) {
    qs_tensor *a = result_of(got), *b = result_of(expected);
    if (!memcmp(a->data, b->data, tensor_bytes(a))) return;
    float *left = tensor_values(a), *right = tensor_values(b);
    char text[QS_CASE_TEXT];
    for (int64_t i = 0; i < qs_shape_count(&a->shape); i++)
        if (memcmp(&left[i], &right[i], sizeof *left))
            fail_msg("%s of %s: result %" PRId64 " is %.9g, expected %.9g", what, qs_case_text(&got->one, text), i, (double)left[i],
                     (double)right[i]);
    fail_msg("%s of %s: other bits", what, qs_case_text(&got->one, text));
}

/* All ways on one case, against `expected`; returns what the hash becomes. */
static uint64_t compare_ways(qs_device *const *devices, bound *from, bound *expected, int count, uint64_t hash) {
    for (int way = 0; way < count; way++) {
        bound got;
        run_on(devices[way], from, way, &got);
        expect_same(&got, expected, ways[way] ? ways[way] : "the device's choice");
        hash = qs_hash(result_of(&got)->data, tensor_bytes(result_of(&got)), hash);
        bound_release(&got);
    }
    return hash;
}

/* ---- Tests ---- */

/* Integer sums themselves: all ways equal the reference, which adds in double. */
TEST(sums_equal_reference) {
    uint64_t hash = 0;
    qs_device *devices[WAYS];
    for (int way = 0; way < WAYS; way++)
        devices[way] = open_way(way, 1);
    for (size_t shape = 0; shape < SHAPES; shape++)
        for (size_t factor = 0; factor < FACTORS; factor++)
            for (int groups = 1; groups <= 6; groups++) {
                char text[QS_CASE_TEXT];
                bound from, expected;
                case_text(shape, factor, groups, "fp32", text);
                bound_parse(&from, text, 40 + shape);
                occupy(&from, (int)(shape + factor + (size_t)groups) % OCCUPANCIES);
                steps_set(&from);
                bound_copy(&expected, &from.one, &from);
                bound_run(&expected);
                hash = compare_ways(devices, &from, &expected, WAYS, hash);
                bound_release(&expected);
                bound_release(&from);
            }
    for (int way = 0; way < WAYS; way++)
        qs_device_close(devices[way]);
    if (*shared_bits == 0) *shared_bits = hash;
    assert_true(*shared_bits == hash);
}

/* Every way that groups can be occupied, any steps, biases, results in bf16, more threads: the two ways of our own have equal bits, also
 * where floats round. */
TEST(results_equal) {
    for (int threads = 1; threads <= 3; threads += 2) {
        qs_device *devices[] = {open_way(GATHERED, threads), open_way(INTEGER, threads)};
        for (size_t shape = 0; shape < SHAPES; shape++)
            for (int occupancy = 0; occupancy < OCCUPANCIES; occupancy++) {
                char text[QS_CASE_TEXT];
                bound from, expected;
                case_text(shape, (shape + (size_t)occupancy) % FACTORS, occupancy == 4 ? 8 : 2 + occupancy, shape % 2 ? "bf16" : "fp32",
                          text);
                bound_parse(&from, text, 70 + shape);
                occupy(&from, occupancy);
                run_on(devices[1], &from, INTEGER, &expected);
                (void)compare_ways(devices, &from, &expected, 1, 0);
                bound_release(&expected);
                bound_release(&from);
            }
        qs_device_close(devices[0]);
        qs_device_close(devices[1]);
    }
}

/* Sums just within 32 bits, whose 128 too many of signed codes on the left are far outside; and just beyond, where 64 bits are needed. */
TEST(headroom) {
    static const int64_t length[] = {4160, 4161, 9001};
    qs_device *devices[WAYS];
    for (int way = 0; way < WAYS; way++)
        devices[way] = open_way(way, 1);
    for (size_t l = 0; l < COUNT_OF(length); l++)
        for (int sign = -1; sign <= 1; sign += 2) {
            char text[QS_CASE_TEXT];
            const int k = (int)length[l];
            bound from, expected;
            snprintf(
                text, sizeof text,
                "linear/forward src=int8[3,%d] src_step=fp32[1] src_group=int8[%d] weights=int8[5,%d] weights_step=fp32[5] dst=fp32[3,5] "
                "shifts=6",
                k, k, k);
            bound_parse(&from, text, 3);
            steps_set(&from);
            memset(bound_tensor(&from, QS_SRC)->data, sign * 127, (size_t)(3 * k));
            memset(bound_tensor(&from, QS_WEIGHTS)->data, 127, (size_t)(5 * k));
            for (int c = 0; c < k; c++) /* the longest has some in every group, and a sum beyond 32 bits all the same */
                ((int8_t *)bound_tensor(&from, QS_SRC_GROUP)->data)[c] = (int8_t)(l == 2 && c % 2 ? c / 2 % 6 : 0);
            bound_copy(&expected, &from.one, &from);
            bound_run(&expected);
            const double sum = fabs((double)*bound_fp32(&expected, QS_DST)) / (double)*bound_fp32(&from, QS_SRC_STEP) /
                               (double)*bound_fp32(&from, QS_WEIGHTS_STEP) * 32;
            assert_true((sum > INT32_MAX) == (l > 0));
            (void)compare_ways(devices, &from, &expected, WAYS, 0);
            bound_release(&expected);
            bound_release(&from);
        }
    for (int way = 0; way < WAYS; way++)
        qs_device_close(devices[way]);
}

/* ---- Zero points ---- */

enum { ROWS = 17, CHANNELS = 43, OUTPUTS = 21 };

/* Channels of unlike ranges around unlike middles, in codes counted from an offset of each channel. */
static void quantize_with_zero_point(bound *b, float *offset, float *values) {
    const qs_tensor *src = bound_tensor(b, QS_SRC);
    const qs_channel_layout layout = {ROWS, CHANNELS, 1};
    float range[CHANNELS];
    for (int i = 0; i < ROWS * CHANNELS; i++)
        values[i] = ldexpf((float)qs_random_normal(8, (uint64_t)i), -(i % CHANNELS % 7)) + (float)(i % CHANNELS % 5) - 2;
    uint8_t *group = bound_tensor(b, QS_SRC_GROUP)->data;
    qs_channel_ranges(src->format, layout, values, range, offset);
    const float step = qs_shift_groups(src->format, true, b->one.attributes.shifts, CHANNELS, range, group);
    const qs_shift_codes codes = {.format = src->format, .step = step, .group = group, .offset = offset};
    qs_shift_quantize(&codes, QS_NEAREST_EVEN, (qs_random_stream){0}, layout, values, src->data);
    qs_shift_dequantize(&codes, layout, src->data, values);
    *bound_fp32(b, QS_SRC_STEP) = step;
}

/* The bias is the correction, step × Σ offset × code of a column: the result is the product of the real values. Rounded are each value
 * (with its offset), the correction, and a conversion, two products and a sum behind the integer sum: 8 × 2^-24 of the terms at most. */
static void check_zero_point(bound *b, const float *offset, const float *values) {
    const int8_t *weights = bound_tensor(b, QS_WEIGHTS)->data;
    for (int row = 0; row < ROWS; row++)
        for (int o = 0; o < OUTPUTS; o++) {
            double sum = 0, terms = 0;
            const double step = (double)bound_fp32(b, QS_WEIGHTS_STEP)[o];
            for (int c = 0; c < CHANNELS; c++) {
                const double value = (double)values[row * CHANNELS + c], weight = step * weights[o * CHANNELS + c];
                sum += value * weight;
                terms += (fabs(value) + 2 * fabs((double)offset[c])) * fabs(weight);
            }
            const double got = (double)bound_fp32(b, QS_DST)[row * OUTPUTS + o];
            if (fabs(got - sum) > 8 * 0x1p-24 * terms) fail_msg("row %d, column %d: %.9g, expected %.9g", row, o, got, sum);
        }
}

TEST(zero_points) {
    static const char *const formats[] = {"uint4", "int4", "int6", "uint6", "int8"};
    for (size_t f = 0; f < COUNT_OF(formats); f++)
        for (int groups = 1; groups <= 6; groups++) {
            char text[QS_CASE_TEXT];
            bound from, got[WAYS];
            float offset[CHANNELS], values[ROWS * CHANNELS];
            snprintf(text, sizeof text,
                     "linear/forward src=%s[%d,%d] src_step=fp32[1] src_group=int8[%d] weights=%s[%d,%d] weights_step=fp32[%d] "
                     "bias=fp32[%d] dst=fp32[%d,%d] shifts=%d",
                     formats[f], ROWS, CHANNELS, CHANNELS, formats[f][0] == 'u' ? formats[f] + 1 : formats[f], OUTPUTS, CHANNELS, OUTPUTS,
                     OUTPUTS, ROWS, OUTPUTS, groups);
            bound_parse(&from, text, 5);
            quantize_with_zero_point(&from, offset, values);
            for (int o = 0; o < OUTPUTS; o++) {
                double correction = 0;
                for (int c = 0; c < CHANNELS; c++)
                    correction += (double)offset[c] * ((const int8_t *)bound_tensor(&from, QS_WEIGHTS)->data)[o * CHANNELS + c];
                bound_fp32(&from, QS_BIAS)[o] = (float)(correction * (double)bound_fp32(&from, QS_WEIGHTS_STEP)[o]);
            }
            for (int way = 0; way < WAYS; way++) {
                qs_device *device = open_way(way, 1);
                run_on(device, &from, way, &got[way]);
                check_zero_point(&got[way], offset, values);
                qs_device_close(device);
            }
            expect_same(&got[GATHERED], &got[INTEGER], "grouped_gemm");
            for (int way = 0; way < WAYS; way++)
                bound_release(&got[way]);
            bound_release(&from);
        }
}

/* Where no sum runs over groups nothing is gathered: another family has the case. Unknown families are refused. */
TEST(asking) {
    static const char weight_gradient[] = "linear/weight_gradient src=int4[4,20] src_step=fp32[1] src_group=int8[20] diff_dst=int4[4,12] "
                                          "diff_dst_step=fp32[1] diff_dst_group=int8[12] diff_weights=fp32[12,20]";
    static const char *const elsewhere[] = {
        weight_gradient, "linear/forward src=int8[4,20] src_step=fp32[1] weights=int8[12,20] weights_step=fp32[1] dst=fp32[4,12]",
        "relu/forward src=fp32[4,20] mask=int8[10] dst=fp32[4,20]"};
    qs_device *device = open_way(GATHERED, 1), *other = NULL;
    for (size_t i = 0; i < COUNT_OF(elsewhere); i++) {
        qs_case one;
        qs_kernel_fact fact;
        assert_ok(qs_case_parse(elsewhere[i], &one));
        assert_ok(qs_device_fact(device, &one, &fact));
        assert_null(strstr(fact.kernel, "grouped_gemm"));
    }
    qs_device_close(device);
    qs_device_options options = {.backend = "cpu", .threads = 1, .isa = test_ceiling, .speed = 1, .family = "sorted"};
    assert_refused(qs_device_open(&options, &other), QS_USAGE, "'sorted'");
    options.backend = "ref";
    options.family = "grouped_gemm";
    assert_int_equal(qs_device_open(&options, &other), QS_USAGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_equal_reference), cmocka_unit_test(results_equal), cmocka_unit_test(headroom),
                                       cmocka_unit_test(zero_points), cmocka_unit_test(asking)};
    if (!backend_exists("cpu")) return 77;
    return run_per_ceiling(tests, COUNT_OF(tests));
}
