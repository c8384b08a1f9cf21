// SPDX-License-Identifier: Apache-2.0
/* Our own depthwise 3 × 3 convolutions (one group and one filter a channel, stride 1 or 2, no dilation): forward and the gradient of the
 * input in fp32, bf16 and codes, the gradient of weights in codes. They are bound by memory; oneDNN has such kernels of floats too, see
 * is_behind. Threads take lines of results or pixels, or channels. */
#include "cpu/library/gemm.h"
#include "cpu/staging.h"

#include <math.h>
#include <string.h>

enum { TAPS = 9, LINE_GRAIN = 4096, CHANNEL_GRAIN = 64, PLACES = 1 << 17 };

typedef struct job {
    const qs__cpu_kernels *kernels;
    qs__geometry size;
    qs__in src, diff;
    qs__out dst;
    const float *weights, *factor, *shift;
} job;

static bool is_depthwise(const qs_case *one, qs_role weights) {
    const qs_shape *shape = &qs__case_operand(one, weights)->shape;
    const qs_attributes *with = &one->attributes;
    for (int axis = 0; axis < 2; axis++) {
        const int behind = with->padding[axis] + with->padding_more[axis];
        if (with->dilation[axis] > 1 || with->padding[axis] > 2 || behind < 0 || behind > 2) return false;
    }
    return with->groups > 1 && shape->dim[0] == with->groups && shape->dim[1] == 1 && with->kernel[0] == 3 && with->kernel[1] == 3 &&
           with->stride[0] == with->stride[1] && with->stride[0] <= 2;
}

/* ---- Weights: [channels][9] of any type to fp32 [9][channels], turned around for the input gradient ---- */

typedef struct turning {
    const qs_format *format;
    const char *weights;
    float *turned;
    int64_t channels;
    bool around;
} turning;

static void turn_range(void *context, int64_t begin, int64_t end) {
    const turning *t = context;
    float taps[TAPS];
    for (int64_t c = begin; c < end; c++) {
        if (t->format->kind == QS_KIND_INTEGER) {
            qs_dequantize_array(1, TAPS, (const int8_t *)t->weights + c * TAPS, taps);
        } else {
            qs_convert_to_fp32(t->format, TAPS, t->weights + qs_format_bytes(t->format, c * TAPS), taps);
        }
        for (int k = 0; k < TAPS; k++) {
            t->turned[(t->around ? TAPS - 1 - k : k) * t->channels + c] = taps[k];
        }
    }
}

static const float *turn_weights(const qs__chain *chain, bool around) {
    const qs_operand *weights = qs__case_operand(&chain->one, QS_WEIGHTS);
    turning t = {.format = weights->format,
                 .weights = qs__cpu_data(chain, QS_WEIGHTS),
                 .turned = (float *)(chain->scratch + chain->offset[0]),
                 .channels = weights->shape.dim[0],
                 .around = around};
    qs_parallel(t.channels, LINE_GRAIN / TAPS, turn_range, &t);
    return t.turned;
}

/* ---- Forward and input gradient ---- */

static int shift_of(const qs__chain *chain, qs_role group, int64_t channel) {
    if (group == QS_ROLE_COUNT || !qs__case_has(&chain->one, group)) return 0;
    return ((const uint8_t *)qs__cpu_data(chain, group))[channel];
}

/* What sums of codes are multiplied by (docs/method.md, eq. (9.3)): steps of both factors and, since a sum is of one channel, their shifts;
 * NULL for floats. */
static const float *factors(const qs__chain *chain) {
    static const qs_role all[3][4] = {{QS_SRC_STEP, QS_SRC_GROUP, QS_WEIGHTS_STEP, QS_ROLE_COUNT},
                                      {QS_DIFF_DST_STEP, QS_DIFF_DST_GROUP, QS_WEIGHTS_STEP, QS_ROLE_COUNT},
                                      {QS_DIFF_DST_STEP, QS_DIFF_DST_GROUP, QS_SRC_STEP, QS_SRC_GROUP}};
    const qs_role *role = all[qs__case_pass(&chain->one)];
    if (!qs__case_has(&chain->one, role[0])) return NULL;
    const float *first = qs__cpu_data(chain, role[0]), *second = qs__cpu_data(chain, role[2]);
    float *factor = (float *)(chain->scratch + chain->offset[1]);
    const bool many = qs__case_count(&chain->one, role[2]) > 1;
    for (int64_t c = 0; c < chain->one.attributes.groups; c++)
        factor[c] = ldexpf(first[0] * second[many ? c : 0], -shift_of(chain, role[1], c) - shift_of(chain, role[3], c));
    return factor;
}

/* Lines of results that one call takes: a filter is loaded once for about 16 pixels. */
static int64_t strip_lines(const qs__geometry *g) {
    return g->out_width < 16 ? 16 / g->out_width : 1;
}

static int64_t strips_of(const qs__geometry *g) {
    return (g->out_height + strip_lines(g) - 1) / strip_lines(g);
}

static void strip_range(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const qs__geometry *g = &j->size;
    int64_t strips = strips_of(g), lines = strip_lines(g);
    for (int64_t strip = begin; strip < end; strip++) {
        int64_t image = strip / strips, first = strip % strips * lines;
        qs__in src = qs__in_at(j->src, image * g->height * g->width * g->channels);
        qs__out dst = qs__out_at(j->dst, image * g->out_height * g->out_width * g->channels);
        int64_t stop = first + lines < g->out_height ? first + lines : g->out_height;
        j->kernels->depthwise_lines(g, first, stop, src, j->weights, j->factor, j->shift, dst);
    }
}

static void convolve(job *j) {
    const qs__geometry *g = &j->size;
    int64_t grain = LINE_GRAIN / (strip_lines(g) * g->out_width * g->channels) + 1;
    qs_parallel(g->batch * strips_of(g), grain, strip_range, j);
}

static void gradient_range(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const qs__geometry *g = &j->size;
    for (int64_t line = begin; line < end; line++) {
        qs__in image = qs__in_at(j->diff, line / g->height * g->out_height * g->out_width * g->channels);
        qs__out dst = qs__out_at(j->dst, line * g->width * g->channels);
        j->kernels->depthwise_gradient_line(g, line % g->height, image, j->weights, j->factor, dst);
    }
}

static qs_status run_forward(const qs__chain *chain, const qs_run *run) {
    (void)run;
    const qs_case *one = &chain->one;
    job j = {.kernels = chain->cpu->kernels,
             .size = qs__case_geometry(one),
             .src = qs__staged_in(chain, QS_SRC),
             .dst = qs__staged_out(chain, QS_DST),
             .weights = turn_weights(chain, false),
             .factor = factors(chain),
             .shift = qs__cpu_data(chain, QS_BIAS)};
    convolve(&j);
    return QS_OK;
}

/* With stride 1 the gradient of the input is the convolution of the gradient of the output with the filter turned around. */
static qs_status run_input_gradient(const qs__chain *chain, const qs_run *run) {
    (void)run;
    const qs_case *one = &chain->one;
    const qs__geometry size = qs__case_geometry(one);
    const bool same = size.stride[0] == 1;
    job j = {.kernels = chain->cpu->kernels,
             .size = same ? qs__geometry_turned(&size) : size,
             .src = qs__staged_in(chain, QS_DIFF_DST),
             .diff = qs__staged_in(chain, QS_DIFF_DST),
             .dst = qs__staged_out(chain, QS_DIFF_SRC),
             .weights = turn_weights(chain, same),
             .factor = factors(chain)};
    if (same) {
        convolve(&j);
    } else {
        qs_parallel(size.batch * size.height, LINE_GRAIN / (size.width * size.channels) + 1, gradient_range, &j);
    }
    return QS_OK;
}

/* ---- Weight gradient of codes ---- */

typedef struct weights_job {
    const qs__cpu_kernels *kernels;
    qs__geometry size;
    const int8_t *src, *diff;
    int64_t (*sum)[TAPS];
    const float *factor;
    float *weights;
} weights_job;

static void weights_range(void *context, int64_t begin, int64_t end) {
    const weights_job *j = context;
    const qs__geometry *g = &j->size;
    memset(j->sum + begin, 0, (size_t)(end - begin) * sizeof *j->sum);
    for (int64_t image = 0; image < g->batch; image++)
        j->kernels->depthwise_weights(g, begin, end, j->src + image * g->height * g->width * g->channels,
                                      j->diff + image * g->out_height * g->out_width * g->channels, j->sum);
    for (int64_t c = begin; c < end; c++)
        for (int k = 0; k < TAPS; k++)
            j->weights[c * TAPS + k] = (float)j->sum[c][k] * j->factor[c];
}

static qs_status run_weight_gradient(const qs__chain *chain, const qs_run *run) {
    (void)run;
    weights_job j = {.kernels = chain->cpu->kernels,
                     .size = qs__case_geometry(&chain->one),
                     .src = qs__cpu_data(chain, QS_SRC),
                     .diff = qs__cpu_data(chain, QS_DIFF_DST),
                     .sum = (int64_t(*)[TAPS])(void *)(chain->scratch + chain->offset[0]),
                     .factor = factors(chain),
                     .weights = qs__cpu_data(chain, QS_DIFF_WEIGHTS)};
    qs_parallel(j.size.channels, CHANNEL_GRAIN, weights_range, &j);
    return QS_OK;
}

/* ---- Building ---- */

static bool is_of_codes(const qs__chain *chain) {
    return qs__case_format(&chain->one, qs__case_pass(&chain->one) == QS__FORWARD ? QS_SRC : QS_DIFF_DST)->kind == QS_KIND_INTEGER;
}

/* Formats come first: what a plan lacks is told by the first family's refusal. Codes have no other family that could lack them. */
static qs_status check_formats(const qs__chain *chain) {
    qs__gemm_types types;
    if (is_of_codes(chain)) return QS_OK;
    if (qs__case_pass(&chain->one) == QS__FORWARD) return qs__gemm_forward_types(chain, &types);
    bool weights = qs__case_pass(&chain->one) == QS__WEIGHT_GRADIENT;
    return qs__gemm_gradient_types(chain, weights ? QS_SRC : QS_WEIGHTS, QS_DIFF_DST, weights ? QS_DIFF_WEIGHTS : QS_DIFF_SRC, &types);
}

static bool is_ours(const qs__chain *chain) {
    const qs_case *one = &chain->one;
    const bool weights = qs__case_pass(&chain->one) == QS__WEIGHT_GRADIENT;
    if (!is_depthwise(one, weights ? QS_DIFF_WEIGHTS : QS_WEIGHTS) || one->attributes.accumulator.adder) return false;
    if (!is_of_codes(chain)) return !weights;
    const qs_shape *map = &qs__case_operand(one, weights ? QS_DIFF_DST : QS_WEIGHTS)->shape;
    return !weights || (!qs__case_has(one, QS_DIFF_BIAS) && one->attributes.hadamard == 0 && map->dim[2] * map->dim[3] < PLACES);
}

/* Codes are ours alone. Floats were measured on Zen 5: below AVX-512 oneDNN is ahead; so are its bf16 kernels with stride 2 and for maps
 * below 8 × 8. */
static bool is_behind(const qs__chain *chain) {
    const qs_case *one = &chain->one;
    if (is_of_codes(chain)) return false;
    bool gradient = qs__case_pass(&chain->one) == QS__INPUT_GRADIENT, same = one->attributes.stride[0] == 1;
    qs__type type = qs__cpu_type(qs__case_format(one, QS_WEIGHTS));
    if (strcmp(chain->cpu->kernels->name, "avx512")) return true;
    if (type == QS__FP32) return !same && !gradient;
    return !same || qs__case_operand(one, gradient ? QS_DIFF_DST : QS_DST)->shape.dim[3] < 8;
}

qs_status qs__build_depthwise(qs__chain *chain) {
    QS_TRY(check_formats(chain));
    if (!is_ours(chain)) return qs_fail(QS_UNSUPPORTED, "no depthwise 3x3 convolution, or a pass of one that is left to oneDNN");
    chain->behind = is_behind(chain);
    const bool weights = qs__case_pass(&chain->one) == QS__WEIGHT_GRADIENT;
    const size_t channels = (size_t)chain->one.attributes.groups;
    chain->offset[0] = qs__chain_reserve(chain, channels * TAPS * (weights ? sizeof(int64_t) : sizeof(float)));
    chain->offset[1] = qs__chain_reserve(chain, channels * sizeof(float));
    const qs__call call = weights ? run_weight_gradient : qs__case_pass(&chain->one) == QS__FORWARD ? run_forward : run_input_gradient;
    return qs__staged_build(chain, "depthwise", call);
}
