// SPDX-License-Identifier: Apache-2.0
// labels: short
/* What own kernels of the device cuda make of formats, rounding, draws, fixed point, statistics and updates has the reference's bits: on
 * the operators' own cases and on harder ones, on ordinary values and on those that rounding trips over, with small counters and with
 * such as pass 2^32. */
#include "device_support.h"

static const char *const operators[] = {"cast",       "round", "absmax",   "quantize", "dequantize", "finite_check", "clip_norm",
                                        "statistics", "sgd",   "nesterov", "adagrad",  "adam",       "adam_l2"};

#define CAST(F, G, S) "cast/forward src=" F S " dst=" G S
#define ROUND(S, A) "round/forward src=fp32" S " dst=fp32" S " counts=fp32[4]" A
#define PACK(S, F, A) "round/pack src=fp32" S " dst=fp32" S " packed=" F S " counts=fp32[4]" A " to=" F
#define CODES(F, S, I, A) "quantize/forward src=" F S " absmax=fp32[1] dst=" I S " dst_step=fp32[1]" A

static const char *const harder[] = {
    /* Every format that has arithmetic of its own, nearest-even and stochastic, and odd lengths. */
    CAST("fp32", "e4m3fn", "[3001]"), CAST("fp32", "e5m2", "[3001]"), CAST("fp32", "fp16", "[3001]"), CAST("fp32", "bf16", "[3001]"),
    CAST("fp32", "e4m3fn", "[3001]") " rounding=stochastic", CAST("fp32", "e5m2", "[3001]") " rounding=stochastic",
    CAST("fp32", "fp16", "[3001]") " rounding=stochastic", CAST("fp32", "bf16", "[3001]") " rounding=stochastic",
    CAST("e4m3fn", "fp32", "[515]"), CAST("e5m2", "bf16", "[515]"), CAST("fp16", "e4m3fn", "[515]"), CAST("bf16", "fp(6,9,0)", "[515]"),
    /* Draws of rows of odd length, and the other policies. */
    CAST("fp32", "e4m3fn", "[33,7,5,3]") " rounding=stochastic batched", CAST("fp16", "e5m2", "[33,16,5,3]") " rounding=stochastic batched",
    CAST("fp32", "e5m2", "[1003]") " rounding=floor", CAST("fp32", "e4m3fn", "[1003]") " rounding=nearest-away",
    CAST("fp32", "e5m2", "[1003]") " rounding=stochastic overflow=saturate", CAST("fp32", "fp32", "[77]") " overflow=saturate",
    CAST("fp32", "fp(8,7,0)", "[1003]"), CAST("fp32", "tf32", "[1003]"), CAST("tf32", "bf16", "[1003]") " rounding=stochastic",
    CAST("fp32", "fp(8,0,0)", "[1003]") " rounding=stochastic",
    /* Strings of bits. */
    CAST("fp32", "fp(4,2,1)", "[1003]"), CAST("fp(4,2,1)", "fp(3,7,0)", "[1003]") " rounding=stochastic",
    CAST("fp(7,16,0)", "fp32", "[99]"), CAST("fp32", "fp(1,0,0)", "[1003]"),
    /* Simulated rounding. */
    ROUND("[1003]", " to=fp(4,3,4)"), ROUND("[1003]", " rounding=stochastic to=fp(6,9,0)"), ROUND("[1003]", " rounding=floor to=fp(5,2,0)"),
    ROUND("[1003]", " rounding=toward-zero overflow=saturate to=fp16"), ROUND("[1003]", " rounding=nearest-away overflow=inf to=e4m3fn"),
    ROUND("[1003]", " to=fp32"), PACK("[1003]", "tf32", " rounding=stochastic"),
    ROUND("[33,7,5,3]", " rounding=stochastic to=e5m2 batched"), PACK("[1003]", "e4m3fn", ""), PACK("[1003]", "fp(4,2,1)", ""),
    PACK("[1003]", "fp(7,16,0)", " rounding=stochastic"), PACK("[1003]", "fp16", " rounding=stochastic"),
    /* Fixed point. */
    CODES("fp32", "[5003]", "int8", " rounding=stochastic"), CODES("bf16", "[5003]", "int4", " rounding=nearest-away"),
    CODES("e4m3fn", "[5003]", "uint7", " rounding=toward-zero"), CODES("fp32", "[5003]", "int8", " rounding=floor"),
    CODES("fp(6,9,0)", "[33,7,5,3]", "int2", " rounding=stochastic batched"),
    "quantize/forward src=fp32[40,7,3,3] dst=int8[40,7,3,3] dst_step=fp32[40] column_absmax=fp32[7] rounding=stochastic per_channel",
    "quantize/forward src=fp32[3,3] dst=int8[3,3] dst_step=fp32[3] rounding=stochastic per_channel",
    "quantize/forward src=fp32[9,1200] dst=int6[9,1200] dst_step=fp32[9] column_absmax=fp32[1200] rounding=floor per_channel",
    "quantize/forward src=fp32[60,1,2] absmax=fp32[1] dst=int8[60,1,2] dst_step=fp32[1] axis=1 per_channel",
    "quantize/forward src=fp16[9,1200] absmax=fp32[1200] dst=int4[9,1200] dst_step=fp32[1] dst_group=int8[1200] axis=1 rounding=stochastic "
    "shifts=8 batched per_channel",
    "quantize/forward src=fp32[9,13,3] absmax=fp32[13] dst=uint7[9,13,3] dst_step=fp32[1] dst_group=int8[13] axis=1 rounding=nearest-away "
    "shifts=3 batched per_channel",
    CODES("fp32", "[5003]", "log4", " rounding=stochastic"), CODES("bf16", "[5003]", "log4", ""),
    CODES("fp32", "[5003]", "log3", " rounding=floor"), CODES("e5m2", "[5003]", "log2", " rounding=nearest-away"),
    CODES("fp32", "[5003]", "log4", " rounding=toward-zero"),
    "quantize/forward src=bf16[9,13,3] absmax=fp32[13] dst=log4[9,13,3] dst_step=fp32[1] dst_group=int8[13] axis=1 rounding=stochastic "
    "shifts=3 batched per_channel",
    CODES("fp32", "[50021]", "int4", " mse"), CODES("bf16", "[90021]", "uint4", " mse"),
    CODES("fp16", "[33,7,5,3]", "int8", " mse batched"),
    "quantize/forward src=fp32[40,7,3,3] dst=int4[40,7,3,3] dst_step=fp32[40] column_absmax=fp32[7] mse per_channel",
    "quantize/forward src=fp32[600,70] absmax=fp32[70] dst=int4[600,70] dst_step=fp32[70] axis=1 mse per_channel",
    "quantize/forward src=bf16[40,1200,3] absmax=fp32[1200] dst=uint4[40,1200,3] dst_step=fp32[1] dst_group=int8[1200] axis=1 shifts=8 "
    "batched mse per_channel",
    CODES("fp32", "[128,5,3,3]", "int4", " hadamard=64 rounding=stochastic batched"),
    CODES("bf16", "[5,6,3,3]", "int8", " axis=1 hadamard=2 rounding=floor batched"),
    "dequantize/forward src=int4[33,77] src_step=fp32[33] dst=fp(4,2,1)[33,77] per_channel",
    "dequantize/forward src=uint7[5,300] src_step=fp32[1] src_group=int8[300] dst=e4m3fn[5,300]",
    "absmax/forward src=bf16[40,64,3,3] absmax=fp32[64] axis=1 per_channel",
    "absmax/forward src=fp32[7,4096] absmax=fp32[4096] axis=1 per_channel",
    "absmax/forward src=fp32[300,257] absmax=fp32[257] axis=1 per_channel",
    "absmax/forward src=e5m2[300,255] absmax=fp32[255] axis=1 per_channel",
    "absmax/forward src=fp(4,2,1)[3,5000] absmax=fp32[5000] axis=1 per_channel", "absmax/forward src=fp(6,9,0)[50021] absmax=fp32[1]",
    "absmax/forward src=fp32[640,3,2] absmax=fp32[1] hadamard=64", "finite_check/forward src=e4m3fn[20003] flag=fp32[1]",
    /* Sums of many pieces, and of rows with pieces of their own. */
    "clip_norm/forward src=fp32[1100003] clip_norm=0.5", "statistics/forward src=fp32[3,5,4099] statistics=fp32[550]",
    "statistics/forward src=fp32[3,8209] statistics=fp32[542] per_channel", "statistics/forward src=e4m3fn[700,3] statistics=fp32[542]",
    "sgd/forward src=fp32[20003] weights=fp32[20003] momentum=fp32[20003] momentum=0.9 weight_decay=0.0005",
    "adam/forward src=fp32[20003] weights=fp32[20003] momentum=fp32[20003] second_moment=fp32[20003] beta1=0.9 beta2=0.999 epsilon=1e-08"};

/* ---- Values ------------------------------------------------------------------------------------------------------------------------ */

/* ORDINARY: those of bound_make. WIDE: every exponent, subnormal numbers, zeros and what is nearly a tie. SPECIAL: infinities and NaNs too.
 * ZERO: nothing else. */
typedef enum kind_of_values { ORDINARY, WIDE, SPECIAL, ZERO, KINDS } kind_of_values;
static const char *const kinds[] = {"ordinary", "wide", "special", "zero"};

static float odd_value(kind_of_values kind, uint64_t i) {
    const uint32_t bits = qs_random_bits(99, i), pick = qs_random_bits(98, i) % 16;
    uint32_t made = bits;
    if (pick < 4) made &= 0xFFF00000u | 1u << (bits & 7);
    if (pick == 4) made &= 0x80000000u;
    if (pick == 5) made &= 0x807FFFFFu;
    if (pick >= 6 && pick < 12) made = (made & 0x87FFFFFFu) | 0x38000000u; /* near 1 */
    if (kind == ZERO) made &= 0x80000000u;
    if ((made & 0x7F800000u) == 0x7F800000u || (kind == SPECIAL && pick == 12)) {
        if (kind == SPECIAL)
            made = i % 3 == 0 ? (made & 0x80000000u) | 0x7FC00000u : (made & 0x80000000u) | 0x7F800000u;
        else
            made &= 0xBFFFFFFFu;
    }
    float value;
    memcpy(&value, &made, sizeof value);
    return value;
}

/* Puts them into what the pass reads; maxima of channels become finite ones of all sizes, or not. */
static void values_put(bound *b, kind_of_values kind) {
    for (int i = 0; kind != ORDINARY && i < b->one.operands; i++) {
        const qs_role role = b->one.operand[i].role;
        qs_tensor *tensor = &b->operands[i];
        if (!tensor->format || tensor->format->kind == QS_KIND_INTEGER || role == QS_FLAG || role == QS_SRC_STEP) continue;
        const int64_t count = qs_shape_count(&tensor->shape);
        float *values = malloc((size_t)count * sizeof *values);
        assert_non_null(values);
        for (int64_t k = 0; k < count; k++) {
            values[k] = odd_value(kind, (uint64_t)(k + 1000 * i));
            if (role == QS_ABSMAX || role == QS_SECOND_MOMENT) values[k] = fabsf(values[k]);
        }
        tensor_store(tensor, values);
        free(values);
    }
}

/* ---- Comparing ---------------------------------------------------------------------------------------------------------------------- */

/* All bytes; but NaNs that optimisers and sums before a maximum make are equal whatever their bits, and zeros among extremes whatever their
 * sign. */
static bool slots_equal(const qs_case *one, int position, const void *got, const void *right, size_t bytes) {
    const float *a = got, *b = right;
    const double *c = got, *d = right;
    if (!memcmp(got, right, bytes)) return true;
    if (one->operand[position].role == QS_STATISTICS) {
        for (size_t i = 0; i < bytes / sizeof *c; i++)
            if (c[i] != d[i] && !(isnan(c[i]) && isnan(d[i]))) return false;
        return true;
    }
    if (!one->op->optimizer && !one->op->updates && one->operand[position].role != QS_ABSMAX) return false;
    for (size_t i = 0; i < bytes / sizeof *a; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i]))) return false;
    return true;
}

static void operand_equal(const bound *got, const bound *right, int position, const char *what) {
    const size_t bytes = tensor_bytes(&got->operands[position]);
    const unsigned char *a = got->operands[position].data, *b = right->operands[position].data;
    size_t at = 0;
    if (slots_equal(&got->one, position, a, b, bytes)) return;
    while (a[at] == b[at])
        at++;
    fail_msg("%s: byte %zu of %zu of %s is %02x, must be %02x", what, at, bytes, qs_role_name(got->one.operand[position].role), a[at],
             b[at]);
}

static void case_equal(qs_device *device, const char *text, kind_of_values kind, int64_t first_sample) {
    bound got, right;
    bound_kernel kernel;
    char what[QS_CASE_TEXT + 64];
    snprintf(what, sizeof what, "%s, %s values", text, kinds[kind]);
    bound_parse(&got, text, 8);
    bound_parse(&right, text, 8);
    values_put(&got, kind);
    values_put(&right, kind);
    got.run.first_sample = right.run.first_sample = first_sample;
    got.run.loss_scale = right.run.loss_scale = 8;
    got.run.updates = right.run.updates = 3;
    kernel_make(&kernel, device, &got);
    assert_ok(kernel_run(&kernel, &got.run));
    bound_run(&right);
    for (int i = 0; i < got.one.operands; i++)
        if (got.one.operand[i].format) operand_equal(&got, &right, i, what);
    kernel_release(&kernel);
    bound_release(&got);
    bound_release(&right);
}

/* ---- Tests ------------------------------------------------------------------------------------------------------------------- */

/* Only where a GPU or its double is asked for: test `cuda.device.cuda_number`. */
static int open_gpu(void **state) {
    const qs_device_options options = device_options("ref", NULL, 1, 1);
    qs_device *device = NULL;
    if (!strcmp(options.backend, "cuda")) assert_ok(qs_device_open(&options, &device));
    *state = device;
    return 0;
}

static int close_gpu(void **state) {
    qs_device_close(*state);
    return 0;
}

static void test_own_cases(void **state) {
    if (!*state) skip();
    for (size_t i = 0; i < COUNT_OF(operators); i++)
        for (const char *const *text = qs_op_of(operators[i])->cases; *text; text++)
            for (int kind = 0; kind < KINDS; kind++)
                case_equal(*state, *text, (kind_of_values)kind, 5);
}

static void test_harder_cases(void **state) {
    if (!*state) skip();
    for (size_t i = 0; i < COUNT_OF(harder); i++)
        for (int kind = 0; kind < KINDS; kind++)
            case_equal(*state, harder[i], (kind_of_values)kind, kind == WIDE ? 4 : 0);
}

/* Rows of 106 or 105 draws (stride 106): the run of counters crosses 2^32, of pairs 2^33, within the first rows. */
static void test_counters_beyond_32_bits(void **state) {
    static const char *const drawing[] = {CAST("fp32", "e4m3fn", "[33,7,5,3]") " rounding=stochastic batched",
                                          CAST("fp32", "bf16", "[33,53,2]") " rounding=stochastic batched",
                                          CODES("fp32", "[33,53,2]", "int8", " rounding=stochastic batched"),
                                          CODES("fp32", "[33,7,5,3]", "int8", " rounding=stochastic batched"),
                                          ROUND("[33,53,2]", " rounding=stochastic to=fp(4,3,4) batched")};
    if (!*state) skip();
    for (size_t i = 0; i < COUNT_OF(drawing); i++) {
        case_equal(*state, drawing[i], ORDINARY, (INT64_C(1) << 32) / 106 - 3);
        case_equal(*state, drawing[i], ORDINARY, (INT64_C(1) << 33) / 106 - 3);
        case_equal(*state, drawing[i], ORDINARY, (INT64_C(5) << 40) / 106);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_cases),
        cmocka_unit_test(test_harder_cases),
        cmocka_unit_test(test_counters_beyond_32_bits),
    };
    return cmocka_run_group_tests(tests, open_gpu, close_gpu);
}
