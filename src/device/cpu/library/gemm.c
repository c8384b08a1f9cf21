// SPDX-License-Identifier: Apache-2.0
/* The shared half of convolution and linear kernels, see gemm.h. */
#include "cpu/library/gemm.h"
#include "cpu/integer/shift_groups.h"

/* oneDNN writes bf16 only on devices that multiply it, and from fp32 operands writes fp32 only. */
static void choose_result(const qs__cpu *cpu, const qs_format *format, qs__gemm_types *types) {
    qs__type type = qs__cpu_type(format);
    bool direct = type == QS__FP32 || (type == QS__BF16 && cpu->bf16 && types->operands != QS__FP32);
    types->dst = direct ? type : QS__FP32;
    types->convert = !direct;
}

static qs_status choose_operands(const qs__chain *chain, qs_role a, qs_role b, qs__gemm_types *types) {
    const qs_format *first = qs__case_format(&chain->one, a), *second = qs__case_format(&chain->one, b);
    if (chain->one.attributes.accumulator.adder) return qs_fail(QS_UNSUPPORTED, "the kernel library has no narrow accumulators");
    if (qs__cpu_type(first) != qs__cpu_type(second)) {
        return qs_fail(QS_UNSUPPORTED, "the cpu device multiplies operands of one format, not %s %s with %s %s: add a cast",
                       qs_role_name(a), first->name, qs_role_name(b), second->name);
    }
    QS_TRY(qs__cpu_multiplies(chain->cpu, first));
    types->operands = qs__cpu_type(first);
    return QS_OK;
}

qs_status qs__gemm_forward_types(const qs__chain *chain, qs__gemm_types *out) {
    *out = (qs__gemm_types){0};
    QS_TRY(choose_operands(chain, QS_SRC, QS_WEIGHTS, out));
    if (out->operands == QS__INT8) QS_TRY(qs__shift_groups_check(chain));
    choose_result(chain->cpu, qs__case_format(&chain->one, QS_DST), out);
    out->bias_inside = out->operands != QS__INT8 && qs__case_has(&chain->one, QS_BIAS);
    return QS_OK;
}

qs_status qs__gemm_gradient_types(const qs__chain *chain, qs_role a, qs_role b, qs_role result, qs__gemm_types *out) {
    *out = (qs__gemm_types){0};
    QS_TRY(choose_operands(chain, a, b, out));
    if (out->operands == QS__INT8 && result != QS_DIFF_SRC) return qs_fail(QS_UNSUPPORTED, "oneDNN has no integer weight gradients");
    if (out->operands == QS__INT8) QS_TRY(qs__shift_groups_check(chain));
    choose_result(chain->cpu, qs__case_format(&chain->one, result), out);
    return QS_OK;
}

int qs__gemm_result(qs__chain *chain, qs_role role, const qs__gemm_types *types, const qs__layout *own, const qs__layout *given) {
    if (!types->convert) return qs__chain_result(chain, role, own, given);
    /* own is described with the type that oneDNN writes: first into plain fp32 scratch, from there into the operand's format. */
    int plain = qs__chain_scratch(chain, own);
    chain->offset[0] = chain->slot[plain].offset;
    if (qs__layout_equal(own, given)) return plain;
    int scratch = qs__chain_scratch(chain, given);
    chain->result[chain->results].from = scratch;
    chain->result[chain->results++].to = plain;
    return scratch;
}

typedef struct conversion {
    const qs_format *format;
    const float *src;
    char *dst;
} conversion;

static void convert_range(void *context, int64_t begin, int64_t end) {
    const conversion *job = context;
    qs_convert_from_fp32(job->format, QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, (qs_random_stream){0}, end - begin, job->src + begin,
                         job->dst + qs_format_bytes(job->format, begin));
}

static qs_status convert_result(const qs__chain *chain, const qs_run *run) {
    (void)run;
    int written = 0;
    while (!qs_pass_writes(chain->one.pass, written))
        written++;
    const qs_role role = chain->one.operand[written].role;
    conversion job = {.format = qs__case_format(&chain->one, role),
                      .src = (const float *)(chain->scratch + chain->offset[0]),
                      .dst = qs__cpu_data(chain, role)};
    qs_parallel(qs__case_count(&chain->one, role), 4096, convert_range, &job);
    return QS_OK;
}

qs_status qs__gemm_finish(qs__chain *chain, const qs__gemm_types *types) {
    QS_TRY(qs__chain_finish(chain));
    if (types->convert) qs__chain_call(chain, convert_result);
    return QS_OK;
}

/* Int32 sums × step × weights_step[column]; with G shift groups the sums are 2^(G-1) times too large (docs/method.md, eq. (9.3)). */
static qs_status compute_factors(const qs__chain *chain, const qs_run *run) {
    (void)run;
    float *factors = (float *)(chain->scratch + chain->offset[1]);
    bool gradient = qs_case_position(&chain->one, QS_DIFF_DST_STEP) >= 0;
    const float *step = qs__cpu_data(chain, gradient ? QS_DIFF_DST_STEP : QS_SRC_STEP);
    const float *weights_step = qs__cpu_data(chain, QS_WEIGHTS_STEP);
    int64_t count = qs__case_count(&chain->one, QS_WEIGHTS_STEP);
    int shifts = chain->one.attributes.shifts;
    for (int64_t i = 0; i < count; i++) {
        factors[i] = step[0] * weights_step[i] / (float)(1 << (shifts > 1 ? shifts - 1 : 0));
    }
    return QS_OK;
}

static qs__layout broadcast(int axes, int64_t channels) {
    qs_shape shape = {.axes = axes, .dim = {1, channels, 1, 1}};
    return qs__cpu_activation(&shape, QS__FP32);
}

qs_status qs__gemm_epilogue_start(qs__chain *chain, const qs__gemm_types *types, int axes, qs__gemm_epilogue *out) {
    *out = (qs__gemm_epilogue){0};
    if (types->operands != QS__INT8) return QS_OK;
    out->scales = true;
    out->bias = qs__case_has(&chain->one, QS_BIAS);
    out->factors_layout = broadcast(axes, qs__case_count(&chain->one, QS_WEIGHTS_STEP));
    if (out->bias) out->bias_layout = broadcast(axes, qs__case_operand(&chain->one, QS_DST)->shape.dim[1]);
    out->factors = qs__chain_scratch(chain, &out->factors_layout);
    chain->offset[1] = chain->slot[out->factors].offset;
    qs__chain_call(chain, compute_factors);
    return QS_OK;
}

qs_status qs__gemm_epilogue_plan(qs__chain *chain, const qs__gemm_epilogue *epilogue, qs__work_request request) {
    if (epilogue->scales) request.factors = &epilogue->factors_layout;
    if (epilogue->bias) request.terms = &epilogue->bias_layout;
    return qs__chain_plan(chain, &request);
}

qs_status qs__gemm_epilogue_finish(qs__chain *chain, const qs__gemm_types *types, const qs__gemm_epilogue *epilogue) {
    if (epilogue->scales) qs__chain_bind(chain, QS__ARGUMENT_FACTORS, epilogue->factors);
    if (epilogue->bias) {
        int bias = qs__chain_operand(chain, QS_BIAS, &epilogue->bias_layout);
        qs__chain_bind(chain, QS__ARGUMENT_TERMS, bias);
    }
    return qs__gemm_finish(chain, types);
}
