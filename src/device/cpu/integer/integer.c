// SPDX-License-Identifier: Apache-2.0
/* Convolutions and linear operators whose factors are codes, in every pass, with or without shift groups: our own products. What oneDNN
 * multiplies faster it is taken for (is_behind). Family `integer` is shiftmm; `grouped_gemm`, a product for each shift group, is there to
 * be compared with, for whoever asks for it (device.h). */
#include "cpu/staging.h"
#include "cpu/integer/product.h"

#include <math.h>
#include <string.h>

typedef struct factors {
    qs_role left, right, left_step, right_step, left_group, right_group, result; /* QS_ROLE_COUNT: none */
} factors;

static factors factors_of(qs__pass pass) {
    static const factors all[] = {
        [QS__FORWARD] = {QS_SRC, QS_WEIGHTS, QS_SRC_STEP, QS_WEIGHTS_STEP, QS_SRC_GROUP, QS_ROLE_COUNT, QS_DST},
        [QS__INPUT_GRADIENT] = {QS_DIFF_DST, QS_WEIGHTS, QS_DIFF_DST_STEP, QS_WEIGHTS_STEP, QS_DIFF_DST_GROUP, QS_ROLE_COUNT, QS_DIFF_SRC},
        [QS__WEIGHT_GRADIENT] = {QS_DIFF_DST, QS_SRC, QS_DIFF_DST_STEP, QS_SRC_STEP, QS_DIFF_DST_GROUP, QS_SRC_GROUP, QS_DIFF_WEIGHTS}};
    return all[pass];
}

static qs__product product_of(const qs_case *one, bool gathered) {
    qs__product product = {.pass = qs__case_pass(one), .gathered = gathered, .size = qs__case_geometry(one)};
    factors roles = factors_of(product.pass);
    product.left = qs__case_format(one, roles.left);
    product.right = qs__case_format(one, roles.right);
    product.shifts = one->attributes.shifts > 0 ? one->attributes.shifts : 1;
    product.result = qs__cpu_type(qs__case_format(one, roles.result)) == QS__BF16 ? QS__TILE_BF16 : QS__TILE_FP32;
    return product;
}

static const uint8_t *groups_of(const qs__chain *chain, qs_role role) {
    if (role == QS_ROLE_COUNT || !qs__case_has(&chain->one, role)) return NULL;
    return qs__cpu_data(chain, role);
}

/* diff_bias[o] = Σ codes × step 2^-group[o]; exact sums. Of samples that were transformed in blocks, the first of each tells its sum. */
static void sum_bias(const qs__chain *chain, const qs__product_run *run) {
    qs__rows size = qs__rows_of(&chain->one, QS_DIFF_DST);
    const int block = chain->one.attributes.hadamard > 0 ? chain->one.attributes.hadamard : 1;
    const int64_t pixels = size.rows / qs__case_operand(&chain->one, QS_DIFF_DST)->shape.dim[0];
    int64_t *sum = (int64_t *)(void *)(chain->scratch + chain->offset[1]);
    float *bias = qs__cpu_data(chain, QS_DIFF_BIAS);
    memset(sum, 0, (size_t)size.channels * sizeof *sum);
    for (int64_t row = 0; row < size.rows; row++) {
        if (row / pixels % block) continue;
        for (int64_t o = 0; o < size.channels; o++)
            sum[o] += run->left[row * size.channels + o];
    }
    for (int64_t o = 0; o < size.channels; o++)
        bias[o] = (float)((double)sum[o] * (double)ldexpf(run->left_step, run->left_group ? -run->left_group[o] : 0) * sqrt(block));
}

static qs_status run_product(const qs__chain *chain, bool gathered) {
    const qs_case *one = &chain->one;
    qs__product product = product_of(one, gathered);
    factors roles = factors_of(product.pass);
    qs__product_run run = {.stages = QS__ALL_STAGES,
                           .kernels = chain->cpu->products,
                           .left = qs__cpu_data(chain, roles.left),
                           .right = qs__cpu_data(chain, roles.right),
                           .left_group = groups_of(chain, roles.left_group),
                           .right_group = groups_of(chain, roles.right_group),
                           .left_step = *(const float *)qs__cpu_data(chain, roles.left_step),
                           .right_step = qs__cpu_data(chain, roles.right_step),
                           .right_steps = qs__case_count(one, roles.right_step),
                           .result = qs__staged_out(chain, roles.result).at,
                           .scratch = chain->scratch + chain->offset[0]};
    if (product.pass == QS__FORWARD && qs__case_has(one, QS_BIAS)) run.bias = qs__cpu_data(chain, QS_BIAS);
    if (product.pass != QS__WEIGHT_GRADIENT) {
        qs__product_rows(&product, &run);
        return QS_OK;
    }
    qs__product_weights(&product, &run);
    if (qs__case_has(one, QS_DIFF_BIAS)) sum_bias(chain, &run);
    return QS_OK;
}

static qs_status run_integer(const qs__chain *chain, const qs_run *step) {
    (void)step;
    return run_product(chain, false);
}

static qs_status run_gathered(const qs__chain *chain, const qs_run *step) {
    (void)step;
    return run_product(chain, true);
}

/* Measured on Zen 5 in training steps (qsync bench --tune): ours take 0.4 to 0.9 of the library's time up to 288 products a sum, as much
 * or up to a tenth more from 576 on, unless results of convolutions have few places: then it waits for its packing of weights, most of all
 * in gradients, and of gradients with a stride it has none. Three channels leave a fourth of every quadruple empty. Without 512-bit dot
 * products it is faster at all of them. */
static bool is_behind(const qs__chain *chain, const qs__product *product) {
    enum { SHORT = 512, FEW = 4, FEW_PLACES = 1024 };
    const bool forward = product->pass == QS__FORWARD, strided = product->size.stride[0] > 1 || product->size.stride[1] > 1;
    const int64_t channels = (forward ? product->size.channels : product->size.outputs) / product->size.groups;
    const int64_t products = product->size.kernel[0] * product->size.kernel[1] * channels;
    const int64_t places = product->size.batch * product->size.out_height * product->size.out_width;
    if (strcmp(chain->cpu->products->name, "avx512_vnni") != 0 || channels < FEW) return true;
    if (chain->one.op == qs_op_of("linear")) return products > SHORT;
    return products > SHORT && places > (forward ? FEW_PLACES : 2 * FEW_PLACES) && (forward || !strided);
}

static qs_status build(qs__chain *chain, bool gathered) {
    const qs_case *one = &chain->one;
    factors roles = factors_of(qs__case_pass(one));
    if (qs__case_format(one, roles.left)->kind != QS_KIND_INTEGER) {
        return qs_fail(QS_UNSUPPORTED, "%s is %s: our own products are of integers", qs_role_name(roles.left),
                       qs__case_format(one, roles.left)->name);
    }
    if (one->attributes.accumulator.adder) return qs_fail(QS_UNSUPPORTED, "our own products add in 32 bits, not in a narrow accumulator");
    qs__product product = product_of(one, gathered);
    const bool weights = product.pass == QS__WEIGHT_GRADIENT;
    chain->offset[0] = qs__chain_reserve(chain, weights ? qs__product_weights_scratch(&product, qs_threads())
                                                        : qs__product_rows_scratch(&product, qs_threads()));
    if (weights) chain->offset[1] = qs__chain_reserve(chain, (size_t)product.size.outputs * sizeof(int64_t));
    QS_TRY(qs__staged_build(chain, "integer", gathered ? run_gathered : run_integer));
    chain->behind = gathered || is_behind(chain, &product);
    snprintf(chain->name, sizeof chain->name, "own:%s:%s", gathered ? "grouped_gemm" : "integer", chain->cpu->products->name);
    return QS_OK;
}

qs_status qs__build_integer(qs__chain *chain) {
    return build(chain, false);
}

qs_status qs__build_grouped_gemm(qs__chain *chain) {
    if (chain->one.attributes.shifts < 1) return qs_fail(QS_UNSUPPORTED, "no shift groups inside the sum: there is nothing to gather");
    return build(chain, true);
}
