// SPDX-License-Identifier: Apache-2.0
/* Our own depthwise 3 × 3 convolutions (one group and one filter a channel, stride 1 or 2), forward in fp32, bf16 and int8, and the
 * gradient of the input. They are bound by memory; oneDNN has such kernels too, see is_behind. Threads take lines of results or pixels. */
#include "gemm.h"
#include "own.h"

#include <string.h>

enum { TAPS = 9, LINE_GRAIN = 4096 };

typedef struct job {
    const qs__cpu_kernels *kernels;
    qs__depthwise size;
    qs__in src, diff;
    qs__out dst;
    const float *weights, *factor, *shift;
} job;

static bool is_depthwise(const qs_case *one) {
    const qs_shape *shape = &qs__cpu_operand(one, QS_WEIGHTS)->shape;
    const qs_attributes *with = &one->attributes;
    return with->groups > 1 && shape->dim[0] == with->groups && shape->dim[1] == 1 && with->kernel[0] == 3 && with->kernel[1] == 3 &&
           with->stride[0] == with->stride[1] && with->stride[0] <= 2 && with->padding[0] <= 2 && with->padding[1] <= 2;
}

static qs__depthwise geometry(const qs_case *one, qs_role image, qs_role result) {
    const qs_shape *src = &qs__cpu_operand(one, image)->shape, *dst = &qs__cpu_operand(one, result)->shape;
    const qs_attributes *with = &one->attributes;
    return (qs__depthwise){.channels = src->dim[1],
                           .height = src->dim[2],
                           .width = src->dim[3],
                           .out_height = dst->dim[2],
                           .out_width = dst->dim[3],
                           .stride = with->stride[0],
                           .padding = {with->padding[0], with->padding[1]}};
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
    const qs_operand *weights = qs__cpu_operand(&chain->one, QS_WEIGHTS);
    turning t = {.format = weights->format,
                 .weights = qs__cpu_data(chain, QS_WEIGHTS),
                 .turned = (float *)(chain->scratch + chain->offset[0]),
                 .channels = weights->shape.dim[0],
                 .around = around};
    qs_parallel(t.channels, LINE_GRAIN / TAPS, turn_range, &t);
    return t.turned;
}

/* ---- Forward and input gradient ---- */

/* Eq. of op.h: sums of codes × src_step × weights_step[o]; NULL for floats. */
static const float *factors(const qs__chain *chain) {
    const float *src_step = qs__cpu_data(chain, QS_SRC_STEP), *weights_step = qs__cpu_data(chain, QS_WEIGHTS_STEP);
    if (!src_step) return NULL;
    float *factor = (float *)(chain->scratch + chain->offset[1]);
    int64_t channels = qs__cpu_operand(&chain->one, QS_WEIGHTS)->shape.dim[0];
    bool many = qs__cpu_count(&chain->one, QS_WEIGHTS_STEP) > 1;
    for (int64_t c = 0; c < channels; c++) {
        factor[c] = src_step[0] * weights_step[many ? c : 0];
    }
    return factor;
}

/* Lines of results that one call takes: a filter is loaded once for about 16 pixels. */
static int64_t strip_lines(const qs__depthwise *g) {
    return g->out_width < 16 ? 16 / g->out_width : 1;
}

static int64_t strips_of(const qs__depthwise *g) {
    return (g->out_height + strip_lines(g) - 1) / strip_lines(g);
}

static void strip_range(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const qs__depthwise *g = &j->size;
    int64_t strips = strips_of(g), lines = strip_lines(g);
    for (int64_t strip = begin; strip < end; strip++) {
        int64_t image = strip / strips, first = strip % strips * lines;
        qs__in src = qs__own_shift_in(j->src, image * g->height * g->width * g->channels);
        qs__out dst = qs__own_shift_out(j->dst, image * g->out_height * g->out_width * g->channels);
        int64_t stop = first + lines < g->out_height ? first + lines : g->out_height;
        j->kernels->depthwise_lines(g, first, stop, src, j->weights, j->factor, j->shift, dst);
    }
}

static void convolve(job *j, int64_t images) {
    const qs__depthwise *g = &j->size;
    int64_t grain = LINE_GRAIN / (strip_lines(g) * g->out_width * g->channels) + 1;
    qs_parallel(images * strips_of(g), grain, strip_range, j);
}

static void gradient_range(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const qs__depthwise *g = &j->size;
    for (int64_t line = begin; line < end; line++) {
        qs__in image = qs__own_shift_in(j->diff, line / g->height * g->out_height * g->out_width * g->channels);
        qs__out dst = qs__own_shift_out(j->dst, line * g->width * g->channels);
        j->kernels->depthwise_gradient_line(g, line % g->height, image, j->weights, dst);
    }
}

static qs_status run_forward(const qs__chain *chain, const qs_run *run) {
    (void)run;
    const qs_case *one = &chain->one;
    job j = {.kernels = chain->cpu->own,
             .size = geometry(one, QS_SRC, QS_DST),
             .src = qs__own_in(chain, QS_SRC),
             .dst = qs__own_out(chain, QS_DST),
             .weights = turn_weights(chain, false),
             .factor = factors(chain),
             .shift = qs__cpu_data(chain, QS_BIAS)};
    convolve(&j, qs__cpu_operand(one, QS_DST)->shape.dim[0]);
    return QS_OK;
}

/* With stride 1 the gradient of the input is the convolution of the gradient of the output with the filter turned around. */
static qs_status run_input_gradient(const qs__chain *chain, const qs_run *run) {
    (void)run;
    const qs_case *one = &chain->one;
    bool same = one->attributes.stride[0] == 1;
    job j = {.kernels = chain->cpu->own,
             .size = geometry(one, same ? QS_DIFF_DST : QS_DIFF_SRC, same ? QS_DIFF_SRC : QS_DIFF_DST),
             .src = qs__own_in(chain, QS_DIFF_DST),
             .diff = qs__own_in(chain, QS_DIFF_DST),
             .dst = qs__own_out(chain, QS_DIFF_SRC),
             .weights = turn_weights(chain, same)};
    const qs_shape *shape = &qs__cpu_operand(one, QS_DIFF_SRC)->shape;
    if (same) {
        j.size.padding[0] = 2 - j.size.padding[0];
        j.size.padding[1] = 2 - j.size.padding[1];
        convolve(&j, shape->dim[0]);
    } else {
        qs_parallel(shape->dim[0] * shape->dim[2], LINE_GRAIN / (shape->dim[3] * shape->dim[1]) + 1, gradient_range, &j);
    }
    return QS_OK;
}

/* ---- Building ---- */

static bool is_pass(const qs__chain *chain, const char *pass) {
    return !strcmp(chain->one.pass->name, pass);
}

/* Formats come first: what a plan lacks is told by the first family's refusal. */
static qs_status check_formats(const qs__chain *chain) {
    qs__gemm_types types;
    if (is_pass(chain, "forward")) return qs__gemm_forward_types(chain, &types);
    bool weights = is_pass(chain, "weight_gradient");
    return qs__gemm_gradient_types(chain, weights ? QS_SRC : QS_WEIGHTS, QS_DIFF_DST, weights ? QS_DIFF_WEIGHTS : QS_DIFF_SRC, &types);
}

static bool is_ours(const qs__chain *chain) {
    const qs_case *one = &chain->one;
    if (is_pass(chain, "weight_gradient") || !is_depthwise(one)) return false;
    return qs__cpu_type(qs__cpu_format(one, QS_WEIGHTS)) != QS__INT8 || (is_pass(chain, "forward") && one->attributes.shifts == 0);
}

/* Codes are ours alone. Floats were measured on Zen 5: below AVX-512 oneDNN is ahead; so are its bf16 kernels with stride 2 and for maps
 * below 8 × 8. */
static bool is_behind(const qs__chain *chain) {
    const qs_case *one = &chain->one;
    bool gradient = is_pass(chain, "input_gradient"), same = one->attributes.stride[0] == 1;
    qs__type type = qs__cpu_type(qs__cpu_format(one, QS_WEIGHTS));
    if (type == QS__INT8) return false;
    if (strcmp(chain->cpu->own->name, "avx512")) return true;
    if (type == QS__FP32) return !same && !gradient;
    return !same || qs__cpu_operand(one, gradient ? QS_DIFF_DST : QS_DST)->shape.dim[3] < 8;
}

qs_status qs__build_depthwise(qs__chain *chain) {
    QS_TRY(check_formats(chain));
    if (!is_ours(chain)) return qs_fail(QS_UNSUPPORTED, "no depthwise 3x3 convolution, or a pass of one that is left to oneDNN");
    chain->behind = is_behind(chain);
    chain->offset[0] = qs__chain_reserve(chain, (size_t)(chain->one.attributes.groups * TAPS) * sizeof(float));
    chain->offset[1] = qs__chain_reserve(chain, (size_t)chain->one.attributes.groups * sizeof(float));
    return qs__own_build(chain, "depthwise", is_pass(chain, "forward") ? run_forward : run_input_gradient);
}
