// SPDX-License-Identifier: Apache-2.0
/* matmul: the product of two activations, head by head: dst = src · src2, or src · src2ᵀ with the setting `transposed`.
 *
 * An operand [N,C,L] is h matrices a sample, side by side in the channels: head i has L rows and the columns i·C/h, i·C/h + 1, ... An
 * operand [N,C,H,W] is H matrices a sample, of W rows and C columns. src has `heads` matrices, src2 `key_heads` (0: as many), each of which
 * meets heads / key_heads of src's, one behind the other (grouped queries). dst is [N, columns, heads, rows], or with `merged` the sequence
 * [N, heads · columns, rows]. So of attention, scores are matmul(q, k, heads, transposed) and the context is matmul(p, v, heads, merged).
 *
 * Passes: forward src src_step? src2 src2_step? dst; input_gradient (of src) src2 src2_step? diff_dst diff_dst_step? diff_src;
 * weight_gradient (of src2) src src_step? diff_dst diff_dst_step? diff_src2. Both factors are integer, with one step each, or both float.
 * Integer sums are exact. A narrow accumulator adds k = (head of those summed) · inner + place along the inner dimension, and draws for the
 * element of the result that lies at row · channels + c as a linear operator's result of that row and channel would. */
#include "internal.h"
#include "qsync/matmul.h"

#include <math.h>
#include <stdlib.h>

/* ---- Shapes ---- */

static int64_t heads_of(const qs_attributes *with, bool second) {
    return (int64_t)(second && with->key_heads > 0 ? with->key_heads : with->heads);
}

/* Rows and columns of the matrices of one operand. */
static qs_status matrix_of(const qs_shape *shape, int64_t heads, const char *name, int64_t *rows, int64_t *columns) {
    char text[96];
    if (shape->axes != 3 && shape->axes != 4)
        return qs_fail(QS_USAGE, "matmul: %s %s needs the axes N,C,L or N,C,H,W", name, qs_shape_text(shape, text));
    if (shape->axes == 3 && shape->dim[1] % heads != 0)
        return qs_fail(QS_USAGE, "matmul: %s %s: %lld heads do not divide its channels", name, qs_shape_text(shape, text),
                       (long long)heads);
    if (shape->axes == 4 && shape->dim[2] != heads)
        return qs_fail(QS_USAGE, "matmul: %s %s has %lld matrices a sample, not %lld", name, qs_shape_text(shape, text),
                       (long long)shape->dim[2], (long long)heads);
    *rows = shape->dim[shape->axes - 1];
    *columns = shape->axes == 3 ? shape->dim[1] / heads : shape->dim[1];
    return QS_OK;
}

static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)outputs;
    char first[96], second[96];
    const int64_t heads = heads_of(with, false), key_heads = heads_of(with, true);
    int64_t rows[2], columns[2];
    const double most = 1 << 20;
    if (!(with->heads >= 1 && with->heads <= most && with->heads == floor(with->heads) && with->key_heads >= 0 &&
          with->key_heads == floor(with->key_heads) && with->key_heads <= with->heads))
        return qs_fail(QS_USAGE, "matmul: %.17g heads and %.17g key heads: whole numbers, of which there are no more than heads",
                       with->heads, with->key_heads);
    if (heads % key_heads != 0)
        return qs_fail(QS_USAGE, "matmul: %lld heads do not share %lld key heads evenly", (long long)heads, (long long)key_heads);
    QS_TRY(matrix_of(&src[0], heads, "src", &rows[0], &columns[0]));
    QS_TRY(matrix_of(&src[1], key_heads, "src2", &rows[1], &columns[1]));
    if (src[0].dim[0] != src[1].dim[0])
        return qs_fail(QS_USAGE, "matmul: src %s and src2 %s have other numbers of samples", qs_shape_text(&src[0], first),
                       qs_shape_text(&src[1], second));
    if (columns[0] != (with->transposed != 0 ? columns[1] : rows[1]))
        return qs_fail(QS_USAGE, "matmul: src %s has rows of %lld in each head, src2 %s %s of %lld", qs_shape_text(&src[0], first),
                       (long long)columns[0], qs_shape_text(&src[1], second), with->transposed != 0 ? "rows" : "columns",
                       (long long)(with->transposed != 0 ? columns[1] : rows[1]));
    const int64_t wide = with->transposed != 0 ? rows[1] : columns[1];
    const qs_shape result =
        with->merged != 0 ? qs_shape_of(3, src[0].dim[0], heads * wide, rows[0]) : qs_shape_of(4, src[0].dim[0], wide, heads, rows[0]);
    QS_TRY(qs_shape_check(&result, "matmul output"));
    *dst = result;
    return QS_OK;
}

/* ---- Where matrices lie ---- */

static qs_matrices matrices_of(const qs_case *one, qs_role role, int64_t heads, bool turned) {
    const qs_shape *shape = qs__shape(one, role);
    const int64_t channels = shape->dim[1], positions = shape->dim[shape->axes - 1], row = channels;
    qs_matrices out = {.role = role, .sample = qs_shape_count(shape) / shape->dim[0], .shared = 1};
    out.head = shape->axes == 3 ? channels / heads : positions * channels;
    out.row = turned ? 1 : row;
    out.column = turned ? row : 1;
    return out;
}

qs_matmul qs_case_matmul(const qs_case *one) {
    const qs_attributes *with = &one->attributes;
    const int64_t heads = heads_of(with, false), key_heads = heads_of(with, true), shared = heads / key_heads;
    const bool transposed = with->transposed != 0, forward = qs_case_position(one, QS_DST) >= 0,
               second = qs_case_position(one, QS_DIFF_SRC2) >= 0;
    const qs_role src = qs_case_position(one, QS_SRC) >= 0 ? QS_SRC : QS_DIFF_SRC, src2 = second ? QS_DIFF_SRC2 : QS_SRC2,
                  dst = forward ? QS_DST : QS_DIFF_DST;
    const qs_shape *a = qs__shape(one, src), *b = qs__shape(one, src2);
    const int64_t rows = a->dim[a->axes - 1], inner = a->axes == 3 ? a->dim[1] / heads : a->dim[1];
    const int64_t columns = transposed ? b->dim[b->axes - 1] : b->axes == 3 ? b->dim[1] / key_heads : b->dim[1];
    qs_matmul out = {.samples = a->dim[0], .heads = heads, .summed = 1};
    if (forward) {
        out.rows = rows, out.inner = inner, out.columns = columns;
        out.left = matrices_of(one, src, heads, false);
        out.right = matrices_of(one, src2, key_heads, transposed);
        out.right.shared = shared;
        out.result = matrices_of(one, dst, heads, false);
    } else if (!second) {
        out.rows = rows, out.inner = columns, out.columns = inner;
        out.left = matrices_of(one, dst, heads, false);
        out.right = matrices_of(one, src2, key_heads, !transposed);
        out.right.shared = shared;
        out.result = matrices_of(one, src, heads, false);
    } else { /* src2 lies as it is: its rows are the columns of dst where it is taken transposed, those of src else */
        out.heads = key_heads, out.summed = shared;
        out.rows = transposed ? columns : inner, out.inner = rows, out.columns = transposed ? inner : columns;
        out.left = matrices_of(one, transposed ? dst : src, heads, true);
        out.right = matrices_of(one, transposed ? src : dst, heads, false);
        out.result = matrices_of(one, src2, key_heads, false);
    }
    return out;
}

static double flops(const qs_case *one) {
    const qs_matmul m = qs_case_matmul(one);
    return 2.0 * (double)(m.samples * m.heads * m.summed) * (double)(m.rows * m.columns) * (double)m.inner;
}

/* ---- The reference kernel ---- */

typedef struct job {
    const qs_case *one;
    const qs_run *run;
    qs_matmul of;
    float *left, *right;
    double *sum;
    bool failed;
} job;

static int64_t matrix_at(const qs_matrices *of, int64_t sample, int64_t head) {
    return sample * of->sample + head / of->shared * of->head;
}

/* sum[c] += Σ_k left[r][k] right[k][c]. */
static void row_sum(const job *j, int64_t sample, int64_t head, int64_t r, double *sum) {
    const qs_matmul *of = &j->of;
    for (int64_t g = 0; g < of->summed; g++) {
        const float *left = j->left + matrix_at(&of->left, sample, head * of->summed + g) + r * of->left.row;
        const float *right = j->right + matrix_at(&of->right, sample, head * of->summed + g);
        for (int64_t k = 0; k < of->inner; k++) {
            const double value = left[k * of->left.column];
            for (int64_t c = 0; c < of->columns; c++)
                sum[c] += value * (double)right[k * of->right.row + c * of->right.column];
        }
    }
}

/* The products of one element, gathered into x and y, in the accumulator. */
static double narrow_sum(const job *j, int64_t sample, int64_t head, int64_t r, int64_t c, float *x, float *y) {
    const qs_matmul *of = &j->of;
    const int64_t channels = qs__shape(j->one, of->result.role)->dim[1], at = matrix_at(&of->result, sample, head) + r * of->result.row + c;
    for (int64_t g = 0; g < of->summed; g++)
        for (int64_t k = 0; k < of->inner; k++) {
            x[g * of->inner + k] = j->left[matrix_at(&of->left, sample, head * of->summed + g) + r * of->left.row + k * of->left.column];
            y[g * of->inner + k] =
                j->right[matrix_at(&of->right, sample, head * of->summed + g) + k * of->right.row + c * of->right.column];
        }
    qs_narrow_draws draws = qs_op_narrow_draws(j->one, j->run, at / channels);
    draws.first += (uint64_t)(at % channels);
    return qs_narrow_dot(&j->one->attributes.accumulator, of->summed * of->inner, x, 1, y, 1, &draws);
}

static void rows_range(void *context, int64_t begin, int64_t end) {
    job *j = context;
    const qs_matmul *of = &j->of;
    const bool narrow = j->one->attributes.accumulator.adder;
    double *sum = NULL;
    float *x = NULL, *y = NULL;
    qs_status status;
    QS_GOTO(qs_allocate((size_t)of->columns, sizeof *sum, &sum));
    QS_GOTO(qs_allocate((size_t)(of->summed * of->inner), sizeof *x, &x));
    QS_GOTO(qs_allocate((size_t)(of->summed * of->inner), sizeof *y, &y));
    for (int64_t row = begin; row < end; row++) {
        const int64_t r = row % of->rows, head = row / of->rows % of->heads, sample = row / of->rows / of->heads;
        double *to = j->sum + matrix_at(&of->result, sample, head) + r * of->result.row;
        for (int64_t c = 0; c < of->columns; c++)
            sum[c] = narrow ? narrow_sum(j, sample, head, r, c, x, y) : 0;
        if (!narrow) row_sum(j, sample, head, r, sum);
        for (int64_t c = 0; c < of->columns; c++)
            to[c] = sum[c];
    }
done:
    if (status != QS_OK) j->failed = true;
    free(sum);
    free(x);
    free(y);
}

static qs_status multiply(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    job j = {.one = one, .run = run, .of = qs_case_matmul(one)};
    const qs_tensor *result = qs__operand(one, operands, j.of.result.role);
    const int64_t count = qs_shape_count(&result->shape);
    const double scale = qs__factor_step(one, operands, j.of.left.role, 0) * qs__factor_step(one, operands, j.of.right.role, 0);
    qs_status status;
    QS_GOTO(qs__read_factor(one, operands, j.of.left.role, &j.left));
    QS_GOTO(qs__read_factor(one, operands, j.of.right.role, &j.right));
    QS_GOTO(qs_allocate((size_t)count, sizeof *j.sum, &j.sum));
    qs_parallel(j.of.samples * j.of.heads * j.of.rows, 1, rows_range, &j);
    if (j.failed) status = qs_fail(QS_OUT_OF_MEMORY, "a row of %lld sums for each thread", (long long)j.of.columns);
    for (int64_t i = 0; i < count; i++)
        j.sum[i] *= scale;
    if (status == QS_OK) status = qs__write_double(result, j.sum);
done:
    free(j.left);
    free(j.right);
    free(j.sum);
    return status;
}

/* ---- The passes ---- */

static qs_status check_product(const qs_case *one, qs_role src, qs_role src2, qs_role dst) {
    const qs_shape both[2] = {*qs__shape(one, src), *qs__shape(one, src2)};
    const qs_narrow *narrow = &one->attributes.accumulator;
    qs_shape result;
    QS_TRY(infer(&one->attributes, both, 0, &result));
    QS_TRY(qs__need_shape(one, dst, result));
    QS_TRY(qs__check_factors(one, one->pass->product->factor, QS_ROLE_COUNT));
    if (!narrow->adder) return QS_OK;
    QS_TRY(qs_fail_within(qs_narrow_check(narrow), "%s/%s", one->op->name, one->pass->name));
    if (qs__is_integer(one, one->pass->product->factor[0])) return qs__refuse(one, "narrow accumulators add products of floats");
    return QS_OK;
}

static qs_status check_forward(const qs_case *one) {
    return check_product(one, QS_SRC, QS_SRC2, QS_DST);
}

static qs_status check_input_gradient(const qs_case *one) {
    return check_product(one, QS_DIFF_SRC, QS_SRC2, QS_DIFF_DST);
}

static qs_status check_weight_gradient(const qs_case *one) {
    return check_product(one, QS_SRC, QS_DIFF_SRC2, QS_DIFF_DST);
}

static const qs_pass passes[] = {
    {.name = "forward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT, .integer = true},
                 {.role = QS_SRC_STEP, .source = QS_STEP_OF, .of = QS_SRC, .optional = true},
                 {.role = QS_SRC2, .source = QS_FROM_INPUT, .of = 1, .integer = true},
                 {.role = QS_SRC2_STEP, .source = QS_STEP_OF, .of = QS_SRC2, .optional = true}, {.role = QS_DST, .source = QS_TO_OUTPUT}),
     .product = &(const qs_product){QS_GEMM_FORWARD, {QS_SRC, QS_SRC2}},
     .reference = multiply,
     .flops = flops,
     .check = check_forward},
    {.name = "input_gradient",
     QS_OPERANDS({.role = QS_SRC2, .source = QS_FROM_INPUT, .of = 1, .integer = true},
                 {.role = QS_SRC2_STEP, .source = QS_STEP_OF, .of = QS_SRC2, .optional = true},
                 {.role = QS_DIFF_DST, .source = QS_FROM_GRADIENT, .integer = true},
                 {.role = QS_DIFF_DST_STEP, .source = QS_STEP_OF, .of = QS_DIFF_DST, .optional = true},
                 {.role = QS_DIFF_SRC, .source = QS_TO_INPUT_GRADIENT}),
     .product = &(const qs_product){QS_GEMM_INPUT_GRADIENT, {QS_DIFF_DST, QS_SRC2}},
     .reference = multiply,
     .flops = flops,
     .check = check_input_gradient},
    {.name = "weight_gradient",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT, .integer = true},
                 {.role = QS_SRC_STEP, .source = QS_STEP_OF, .of = QS_SRC, .optional = true},
                 {.role = QS_DIFF_DST, .source = QS_FROM_GRADIENT, .integer = true},
                 {.role = QS_DIFF_DST_STEP, .source = QS_STEP_OF, .of = QS_DIFF_DST, .optional = true},
                 {.role = QS_DIFF_SRC2, .source = QS_TO_INPUT_GRADIENT, .of = 1}),
     .product = &(const qs_product){QS_GEMM_WEIGHT_GRADIENT, {QS_SRC, QS_DIFF_DST}},
     .reference = multiply,
     .flops = flops,
     .check = check_weight_gradient},
};

/* A, B and D are src, src2 and dst. */
#define EVERY(F, A, B, D, S)                                                                                                     \
    "matmul/forward src=" F A " src2=" F B " dst=" F D S, "matmul/input_gradient src2=" F B " diff_dst=" F D " diff_src=" F A S, \
        "matmul/weight_gradient src=" F A " diff_dst=" F D " diff_src2=" F B S
#define CODES(F, G, A, B, D, S)                                                                                        \
    "matmul/forward src=" F A " src_step=fp32[1] src2=" F B " src2_step=fp32[1] dst=" G D S,                           \
        "matmul/input_gradient src2=" F B " src2_step=fp32[1] diff_dst=" F D " diff_dst_step=fp32[1] diff_src=" G A S, \
        "matmul/weight_gradient src=" F A " src_step=fp32[1] diff_dst=" F D " diff_dst_step=fp32[1] diff_src2=" G B S
/* Scores and context of attention, also where heads share keys and values; plain matrices. */
#define ATTENTION(F)                                                                            \
    EVERY(F, "[2,32,9]", "[2,32,7]", "[2,7,4,9]", " heads=4 transposed=1"),                     \
        EVERY(F, "[2,7,4,9]", "[2,32,7]", "[2,32,9]", " heads=4 merged=1"),                     \
        EVERY(F, "[1,48,17]", "[1,16,17]", "[1,17,6,17]", " heads=6 key_heads=2 transposed=1"), \
        EVERY(F, "[1,17,6,17]", "[1,16,17]", "[1,48,17]", " heads=6 key_heads=2 merged=1"),     \
        EVERY(F, "[2,5,3]", "[2,4,5]", "[2,4,1,3]", " heads=1")

static const char *const cases[] = {
    ATTENTION("fp32"),
    ATTENTION("bf16"),
    EVERY("fp16", "[2,12,5]", "[2,12,3]", "[2,3,2,5]", " heads=2 transposed=1"),
    EVERY("tf32", "[2,12,5]", "[2,12,3]", "[2,3,2,5]", " heads=2 transposed=1"),
    EVERY("fp32", "[2,64,40]", "[2,64,40]", "[2,40,2,40]", " heads=2 transposed=1"),
    EVERY("bf16", "[2,40,2,40]", "[2,64,40]", "[2,64,40]", " heads=2 merged=1"),
    EVERY("fp32", "[3,6,2,5]", "[3,4,2,6]", "[3,4,2,5]", " heads=2"),
    CODES("int8", "fp32", "[2,32,9]", "[2,32,7]", "[2,7,4,9]", " heads=4 transposed=1"),
    CODES("int8", "bf16", "[2,7,4,9]", "[2,32,7]", "[2,32,9]", " heads=4 merged=1"),
    CODES("int4", "fp32", "[1,48,17]", "[1,16,17]", "[1,17,6,17]", " heads=6 key_heads=2 transposed=1"),
    CODES("int8", "fp32", "[1,17,6,17]", "[1,16,17]", "[1,48,17]", " heads=6 key_heads=2 merged=1"),
    "matmul/forward src=uint6[2,40,3,40] src_step=fp32[1] src2=int6[2,60,40] src2_step=fp32[1] dst=bf16[2,60,40] heads=3 merged=1",
    "matmul/weight_gradient src=uint6[2,40,3,40] src_step=fp32[1] diff_dst=int6[2,60,40] diff_dst_step=fp32[1] diff_src2=bf16[2,60,40] "
    "heads=3 merged=1",
    "matmul/forward src=bf16[2,32,9] src2=bf16[2,32,7] dst=fp32[2,7,4,9] heads=4 transposed=1",
    NULL};

const qs_op qs__op_matmul = {
    .name = "matmul",
    .kind = QS_ADJUSTABLE,
    .inputs = 2,
    .infer = infer,
    .setting = {QS_SETTING(heads, 1, 1, 1 << 20, "matrices side by side in the channels of a sequence"),
                QS_SETTING(key_heads, 0, 0, 1 << 20, "those of the second factor, each met by heads / key_heads; 0: as many"),
                QS_SETTING(transposed, 0, 0, 1, "1: the second factor is taken transposed"),
                QS_SETTING(merged, 0, 0, 1, "1: results of heads lie side by side in the channels of a sequence")},
    .passes = 3,
    .pass = passes,
    .cases = cases};
