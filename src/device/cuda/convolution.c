// SPDX-License-Identifier: Apache-2.0
/* Convolutions by cuDNN: forward, input gradient and weight gradient; and linear layers of integers, forward. Tensors lie as they are,
 * channels last; a group has its channels side by side, which the library reads off the extents. There are four ways:
 *   direct  operands as they are. fp32 is multiplied in fp32, never in TF32, and tf32, whose storage is the same, on tensor cores; results
 *           are rounded to tf32 where they lie. In a forward pass steps and bias are part of the graph.
 *   short   weight gradients of bf16 and fp16: engines write them in that format only, so they are rounded to it, then widened: an error of
 *           half a spacing of the factors' format, which kernels named "cudnn:short:..." alone have
 *   wide    factors of any float format, as fp32 in scratch: formats of up to 10 bits behind the point on tensor cores, whose TF32 holds
 *           them as they are, so that products are exact; sums and the result are fp32
 *   padded  integers whose channels come in no fours, with zeros behind them in scratch: engines of tensor cores read words
 * Integers are scaled in the graph: asked for int32 results, cuDNN 9 left most of them unwritten (seen on an H100). That is also the
 * quickest: sums are never in memory (there, 256 to 64 channels at 56 × 56 in a quarter of the time that cuBLASLt and a kernel behind it
 * take).
 * Results that the library does not write are made from what it does write by a kernel of ours (convolution.cu). */
#include "cuda/convolution_jobs.h"
#include "cuda/cudnn.h"
#include "cuda/product.h"

#include <stdlib.h>
#include <string.h>

typedef enum way { DIRECT, SHORT, WIDE, PADDED, WAYS } way;
static const char *const prefixes[WAYS] = {"", "short:", "wide:", "padded:"};

/* Tensors of the graphs: images, weights, results of a forward pass, and what forward has beside them. */
enum { X = 1, W, Y, BIAS, X_STEP, W_STEP, SUM, SCALED, SCALED_TWICE };

typedef struct convolution {
    way way;
    qs__pass pass;
    qs__geometry shape;
    qs_role left, right, result;
    cudnnDataType_t factors, written; /* of the library's tensors */
    bool exact;                       /* tensor cores would round the factors */
    qs__cudnn_plans *plans;
    const qs__cudnn_plan *plan;
    qs__cudnn_pack pack;
    int64_t channels;                  /* of a group, as the library sees them */
    int convert, pad;                  /* functions of ours; -1: not used */
    bool made[2], elsewhere, converts; /* factors are made in scratch; the result is written there; is converted, there or in place */
    size_t made_at[2], written_at, workspace; /* offsets in scratch */
    qs__bias_sums bias;                       /* sums of diff_dst; where rows is 0, none */
} convolution;

/* ---- Graphs ------------------------------------------------------------------------------------------------------------------------ */

static cudnnBackendDescriptor_t tensor(qs__cudnn_graph *graph, int64_t uid, cudnnDataType_t type, const int64_t *dim, bool is_virtual) {
    qs__cudnn_tensor made = {.uid = uid, .type = type, .dim = {dim[0], dim[1], dim[2], dim[3]}, .is_virtual = is_virtual};
    qs__cudnn_channels_last(&made);
    return qs__cudnn_tensor_add(graph, &made);
}

static cudnnBackendDescriptor_t vector(qs__cudnn_graph *graph, int64_t uid, int64_t count) {
    const int64_t dim[] = {1, count, 1, 1};
    return tensor(graph, uid, CUDNN_DATA_FLOAT, dim, false);
}

static void point(qs__cudnn_graph *graph, cudnnPointwiseMode_t mode, cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t b,
                  cudnnBackendDescriptor_t y) {
    const qs__cudnn_point one = {.mode = mode, .x = x, .b = b, .y = y};
    qs__cudnn_pointwise(graph, &one);
}

static cudnnBackendDescriptor_t window(qs__cudnn_graph *graph, const convolution *own) {
    const int64_t axes = 2;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const cudnnDataType_t sums = own->factors == CUDNN_DATA_INT8 ? CUDNN_DATA_INT32 : CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t out = QS__CUDNN_CREATE(graph, CONVOLUTION);
    QS__CUDNN_SET(graph, out, CONVOLUTION_COMP_TYPE, DATA_TYPE, 1, &sums);
    QS__CUDNN_SET(graph, out, CONVOLUTION_CONV_MODE, CONVOLUTION_MODE, 1, &mode);
    QS__CUDNN_SET(graph, out, CONVOLUTION_SPATIAL_DIMS, INT64, 1, &axes);
    QS__CUDNN_SET(graph, out, CONVOLUTION_DILATIONS, INT64, axes, own->shape.dilation);
    QS__CUDNN_SET(graph, out, CONVOLUTION_FILTER_STRIDES, INT64, axes, own->shape.stride);
    QS__CUDNN_SET(graph, out, CONVOLUTION_PRE_PADDINGS, INT64, axes, own->shape.padding);
    QS__CUDNN_SET(graph, out, CONVOLUTION_POST_PADDINGS, INT64, axes, own->shape.padding);
    qs__cudnn_finish(graph, out, "CONVOLUTION");
    return out;
}

/* The operation of a pass: names of its attributes differ, and what they mean does not. */
#define OPERATION(graph, type, prefix, x_name, w_name, y_name)                                                    \
    do {                                                                                                          \
        cudnnBackendDescriptor_t operation = QS__CUDNN_CREATE(graph, type);                                       \
        QS__CUDNN_SET(graph, operation, OPERATION_CONVOLUTION_##prefix##_CONV_DESC, BACKEND_DESCRIPTOR, 1, &how); \
        QS__CUDNN_SET(graph, operation, OPERATION_CONVOLUTION_##prefix##_##x_name, BACKEND_DESCRIPTOR, 1, &x);    \
        QS__CUDNN_SET(graph, operation, OPERATION_CONVOLUTION_##prefix##_##w_name, BACKEND_DESCRIPTOR, 1, &w);    \
        QS__CUDNN_SET(graph, operation, OPERATION_CONVOLUTION_##prefix##_##y_name, BACKEND_DESCRIPTOR, 1, &y);    \
        QS__CUDNN_SET(graph, operation, OPERATION_CONVOLUTION_##prefix##_ALPHA, FLOAT, 1, &alpha);                \
        QS__CUDNN_SET(graph, operation, OPERATION_CONVOLUTION_##prefix##_BETA, FLOAT, 1, &beta);                  \
        qs__cudnn_operation_finish(graph, operation, #type);                                                      \
    } while (0)

static bool graph_scales(const convolution *own) {
    return own->factors == CUDNN_DATA_INT8;
}

static bool graph_adds(const qs_case *one, const convolution *own) {
    return own->way != WIDE && own->pass == QS__FORWARD && qs__case_has(one, QS_BIAS);
}

static qs_status describe(const qs__cuda_kernel *kernel, qs__cudnn_graph *graph, qs__cudnn_rule *rule, void *context) {
    const convolution *own = context;
    const qs__geometry *shape = &own->shape;
    const int64_t of_x[] = {shape->batch, own->channels * shape->groups, shape->height, shape->width},
                  of_y[] = {shape->batch, shape->outputs, shape->out_height, shape->out_width},
                  of_w[] = {shape->outputs, own->channels, shape->kernel[0], shape->kernel[1]};
    const float alpha = 1, beta = 0;
    const bool scales = graph_scales(own), adds = graph_adds(&kernel->one, own);
    const cudnnDataType_t sum = scales ? CUDNN_DATA_INT32 : adds ? CUDNN_DATA_FLOAT : own->written;
    const cudnnBackendDescriptor_t how = window(graph, own);
    const cudnnBackendDescriptor_t x = tensor(graph, X, own->pass == QS__INPUT_GRADIENT ? own->written : own->factors, of_x, false);
    const cudnnBackendDescriptor_t w = tensor(graph, W, own->pass == QS__WEIGHT_GRADIENT ? own->written : own->factors, of_w, false);
    cudnnBackendDescriptor_t y =
        tensor(graph, scales || adds ? SUM : Y, own->pass == QS__FORWARD ? sum : own->factors, of_y, scales || adds);
    *rule = (qs__cudnn_rule){.no_tensor_cores = own->exact};
    switch (own->pass) {
    case QS__FORWARD:
        OPERATION(graph, OPERATION_CONVOLUTION_FORWARD, FORWARD, X, W, Y);
        break;
    case QS__INPUT_GRADIENT:
        OPERATION(graph, OPERATION_CONVOLUTION_BACKWARD_DATA, BWD_DATA, DX, W, DY);
        break;
    default:
        OPERATION(graph, OPERATION_CONVOLUTION_BACKWARD_FILTER, BWD_FILTER, X, DW, DY);
    }
    if (scales) {
        const cudnnBackendDescriptor_t once = tensor(graph, SCALED, CUDNN_DATA_FLOAT, of_y, true);
        const cudnnBackendDescriptor_t twice = tensor(graph, adds ? SCALED_TWICE : Y, adds ? CUDNN_DATA_FLOAT : own->written, of_y, adds);
        point(graph, CUDNN_POINTWISE_MUL, y, vector(graph, X_STEP, 1), once);
        point(graph, CUDNN_POINTWISE_MUL, once, vector(graph, W_STEP, qs__case_count(&kernel->one, QS_WEIGHTS_STEP)), twice);
        y = twice;
    }
    if (adds) point(graph, CUDNN_POINTWISE_ADD, y, vector(graph, BIAS, shape->outputs), tensor(graph, Y, own->written, of_y, false));
    return QS_OK;
}

/* A linear layer is a convolution of windows of one pixel; positions are rows of an image. */
static qs__geometry shape_of(const qs_case *one) {
    qs__geometry out = qs__case_geometry(one);
    const qs_shape *src = &one->operand[0].shape;
    if (src->axes != 3) return out;
    out.batch = src->dim[0];
    out.height = out.out_height = src->dim[2];
    return out;
}

/* ---- Ways ---------------------------------------------------------------------------------------------------------------------------- */

/* *out is fp32 where there is none. */
static bool type_of(const qs_format *format, cudnnDataType_t *out) {
    static const struct {
        const char *name;
        cudnnDataType_t type;
    } types[] = {{"fp32", CUDNN_DATA_FLOAT}, {"tf32", CUDNN_DATA_FLOAT},      {"bf16", CUDNN_DATA_BFLOAT16},
                 {"fp16", CUDNN_DATA_HALF},  {"e4m3fn", CUDNN_DATA_FP8_E4M3}, {"e5m2", CUDNN_DATA_FP8_E5M2}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (!strcmp(format->name, types[i].name)) {
            *out = types[i].type;
            return true;
        }
    *out = CUDNN_DATA_FLOAT;
    return false;
}

/* Values that the library reads and writes as fp32: of fp32 itself, and of tf32, which has the same storage. */
static bool is_word(const qs_format *format) {
    cudnnDataType_t type;
    return type_of(format, &type) && type == CUDNN_DATA_FLOAT;
}

static bool is_float8(cudnnDataType_t type) {
    return type == CUDNN_DATA_FP8_E4M3 || type == CUDNN_DATA_FP8_E5M2;
}

enum { WORD = 4 }; /* channels of one byte that engines of tensor cores read at least */

/* What the library's tensors are in a way; false where the case has not this way. */
static bool way_fits(const qs__cuda_kernel *kernel, way taken, convolution *own) {
    const qs_case *one = &kernel->one;
    const qs_format *left = qs__case_format(one, own->left), *right = qs__case_format(one, own->right);
    const qs_format *result = qs__case_format(one, own->result), *fp32 = qs_format_of("fp32");
    cudnnDataType_t of_left, of_right, of_result;
    const bool writes = type_of(result, &of_result) && !is_float8(of_result), forward = own->pass == QS__FORWARD;
    const bool reads = type_of(left, &of_left) && type_of(right, &of_right) && of_left == of_right;
    const int64_t channels = own->shape.channels / own->shape.groups;
    own->way = taken;
    own->exact = false;
    own->channels = taken == PADDED ? (channels + WORD - 1) / WORD * WORD : channels;
    if (left->kind == QS_KIND_INTEGER) {
        own->factors = CUDNN_DATA_INT8;
        own->written = of_result;
        return writes && (taken == DIRECT || (taken == PADDED && own->channels > channels && own->shape.groups == 1));
    }
    switch (taken) {
    case DIRECT:
        own->factors = of_left;
        own->written = of_result;
        own->exact = left == fp32 || right == fp32;
        if (!reads || !writes) return false;
        if (is_float8(of_left)) return forward && kernel->cuda->capability >= 89;
        return of_result == of_left || (forward && result == fp32);
    case SHORT:
        own->factors = own->written = of_left;
        return reads && own->pass == QS__WEIGHT_GRADIENT && (of_left == CUDNN_DATA_BFLOAT16 || of_left == CUDNN_DATA_HALF);
    case WIDE:
        own->factors = own->written = CUDNN_DATA_FLOAT;
        own->exact = left->mantissa_bits > 10 || right->mantissa_bits > 10;
        return !reads || !writes || of_left != CUDNN_DATA_FLOAT || of_result != CUDNN_DATA_FLOAT;
    default:
        return false;
    }
}

/* What none of the ways can do. */
static qs_status limits_check(const qs_case *one, const convolution *own) {
    const qs_format *left = qs__case_format(one, own->left), *right = qs__case_format(one, own->right);
    if (one->attributes.accumulator.adder) return qs_fail(QS_UNSUPPORTED, "cuDNN adds in no narrow accumulator");
    if (one->attributes.padding_more[0] || one->attributes.padding_more[1])
        return qs_fail(QS_UNSUPPORTED, "cuDNN's engines pad alike before and behind an image");
    if (left->kind != QS_KIND_INTEGER) return QS_OK;
    if (own->pass != QS__FORWARD) return qs_fail(QS_UNSUPPORTED, "cuDNN has no gradients of integers");
    if (qs__case_has(one, QS_SRC_GROUP)) return qs_fail(QS_UNSUPPORTED, "cuDNN knows no shift groups");
    if (left->is_unsigned || right->is_unsigned) return qs_fail(QS_UNSUPPORTED, "cuDNN multiplies signed integers, not %s", left->name);
    const double inner = (double)(own->shape.channels / own->shape.groups * own->shape.kernel[0] * own->shape.kernel[1]);
    if (inner * left->max * right->max > (double)INT32_MAX)
        return qs_fail(QS_UNSUPPORTED, "cuDNN sums integers in 32 bits, which %.0f products may overflow", inner);
    return QS_OK;
}

static qs_status way_plan(qs__cuda_kernel *kernel, convolution *own) {
    char key[QS_CASE_TEXT + 16], text[QS_CASE_TEXT];
    snprintf(key, sizeof key, "%s%s", prefixes[own->way], qs_case_text(&kernel->one, text));
    return qs__cudnn_plans_take(kernel, key, describe, own, &own->plans);
}

/* ---- Kernels ------------------------------------------------------------------------------------------------------------------------- */

static void release(qs__cuda_kernel *kernel) {
    convolution *own = kernel->own;
    qs__cudnn_pack_release(kernel->cuda, &own->pack);
    qs__cudnn_plans_leave(own->plans);
    free(own);
}

static CUdeviceptr at_scratch(const qs__cuda_kernel *kernel, size_t offset) {
    return kernel->scratch + offset;
}

/* Where the library finds one of its three tensors. */
static CUdeviceptr tensor_at(const qs__cuda_kernel *kernel, const convolution *own, qs_role role) {
    const int factor = role == own->right;
    if (role == own->result) return own->elsewhere ? at_scratch(kernel, own->written_at) : qs__cuda_at(kernel, role);
    return own->made[factor] ? at_scratch(kernel, own->made_at[factor]) : qs__cuda_at(kernel, role);
}

static qs_status prepare(qs__cuda_kernel *kernel) {
    convolution *own = kernel->own;
    const bool forward = own->pass == QS__FORWARD, weights = own->pass == QS__WEIGHT_GRADIENT;
    qs__cudnn_pack_add(&own->pack, X, tensor_at(kernel, own, own->pass == QS__INPUT_GRADIENT ? QS_DIFF_SRC : QS_SRC));
    qs__cudnn_pack_add(&own->pack, W, tensor_at(kernel, own, weights ? QS_DIFF_WEIGHTS : QS_WEIGHTS));
    qs__cudnn_pack_add(&own->pack, Y, tensor_at(kernel, own, forward ? QS_DST : QS_DIFF_DST));
    if (graph_scales(own)) {
        qs__cudnn_pack_add(&own->pack, X_STEP, qs__cuda_at(kernel, QS_SRC_STEP));
        qs__cudnn_pack_add(&own->pack, W_STEP, qs__cuda_at(kernel, QS_WEIGHTS_STEP));
    }
    if (graph_adds(&kernel->one, own)) qs__cudnn_pack_add(&own->pack, BIAS, qs__cuda_at(kernel, QS_BIAS));
    return qs__cudnn_pack_bind(kernel->cuda, &own->pack, at_scratch(kernel, own->workspace));
}

static qs_status convert(const qs__cuda_kernel *kernel, const convolution *own, const qs__cuda_convolution_job *job) {
    enum { THREADS = 256, EACH = 8 };
    return qs__cuda_launch(kernel, own->convert, qs__cuda_blocks(kernel->cuda, job->to.count, THREADS, EACH), THREADS, 0, job);
}

static qs_status factor_widen(const qs__cuda_kernel *kernel, const convolution *own, qs_role role) {
    qs__cuda_convolution_job job = {.from = qs__cuda_values_of(kernel, role), .columns = 1};
    job.to =
        (qs__cuda_values){.at = tensor_at(kernel, own, role), .count = job.from.count, .format = qs__cuda_format_of(qs_format_of("fp32"))};
    return convert(kernel, own, &job);
}

static qs_status factor_pad(const qs__cuda_kernel *kernel, const convolution *own, qs_role role) {
    enum { THREADS = 256 };
    const int64_t channels = own->shape.channels, words = own->channels / WORD;
    const qs__cuda_pad_job job = {.from = qs__cuda_at(kernel, role),
                                  .to = tensor_at(kernel, own, role),
                                  .rows = qs__case_count(&kernel->one, role) / channels,
                                  .channels = channels,
                                  .words = words};
    return qs__cuda_launch(kernel, own->pad, qs__cuda_blocks(kernel->cuda, job.rows * words, THREADS, 1), THREADS, 0, &job);
}

static qs_status result_make(const qs__cuda_kernel *kernel, const convolution *own) {
    const qs_case *one = &kernel->one;
    const qs_format *written = own->way == SHORT ? qs__case_format(one, own->left) : qs_format_of("fp32");
    const bool forward = own->pass == QS__FORWARD;
    const qs__cuda_values to = qs__cuda_values_of(kernel, own->result);
    const qs__cuda_convolution_job job = {
        .from = {.at = tensor_at(kernel, own, own->result), .count = to.count, .format = qs__cuda_format_of(written)},
        .to = to,
        .columns = own->shape.outputs,
        .bias = forward && !graph_adds(one, own) && qs__case_has(one, QS_BIAS) ? qs__cuda_at(kernel, QS_BIAS) : 0};
    return convert(kernel, own, &job);
}

static qs_status run(qs__cuda_kernel *kernel, const qs_run *run) {
    const convolution *own = kernel->own;
    const qs_role factor[2] = {own->left, own->right};
    (void)run;
    for (int i = 0; i < 2; i++)
        if (own->made[i]) QS_TRY(own->way == PADDED ? factor_pad(kernel, own, factor[i]) : factor_widen(kernel, own, factor[i]));
    QS_TRY(qs__cudnn_run(kernel, own->plan, &own->pack));
    if (own->converts) QS_TRY(result_make(kernel, own));
    return own->bias.rows > 0 ? qs__bias_sums_run(kernel, &own->bias) : QS_OK;
}

/* Scratch and functions of a way whose plan is known. */
static qs_status kernel_make(qs__cuda_kernel *kernel, convolution *own) {
    const qs_case *one = &kernel->one;
    const size_t word = own->way == SHORT ? 2 : 4;
    const qs_role factor[2] = {own->left, own->right};
    const qs_format *result = qs__case_format(one, own->result);
    own->elsewhere = own->way == SHORT || (own->way == WIDE && !is_word(result));
    own->converts =
        own->elsewhere || result == qs_format_of("tf32") || (own->way == WIDE && own->pass == QS__FORWARD && qs__case_has(one, QS_BIAS));
    own->convert = own->pad = -1;
    if (own->converts || own->way == WIDE) QS_TRY(qs__cuda_function(kernel, "convolution_values", &own->convert));
    if (own->way == PADDED) QS_TRY(qs__cuda_function(kernel, "convolution_pad", &own->pad));
    for (int i = 0; i < 2; i++) {
        const size_t count = (size_t)qs__case_count(one, factor[i]);
        own->made[i] = own->way == PADDED || (own->way == WIDE && !is_word(qs__case_format(one, factor[i])));
        if (!own->made[i]) continue;
        own->made_at[i] =
            qs__cuda_scratch(kernel, own->way == PADDED ? count / (size_t)own->shape.channels * (size_t)own->channels : count * word);
    }
    if (own->elsewhere) own->written_at = qs__cuda_scratch(kernel, (size_t)qs__case_count(one, own->result) * word);
    own->workspace = qs__cuda_scratch(kernel, own->plan->workspace);
    if (own->pass == QS__WEIGHT_GRADIENT && qs__case_has(one, QS_DIFF_BIAS)) {
        const int64_t pixels = own->shape.out_height * own->shape.out_width;
        own->bias = (qs__bias_sums){.from = qs__operand_place(one, QS_DIFF_DST),
                                    .step = qs__operand_place(one, QS_DIFF_DST_STEP),
                                    .group = qs__operand_place(one, QS_DIFF_DST_GROUP),
                                    .to = qs__operand_place(one, QS_DIFF_BIAS),
                                    .format = qs__case_format(one, QS_DIFF_DST),
                                    .rows = own->shape.batch * pixels,
                                    .columns = own->shape.outputs,
                                    .pixels = pixels,
                                    .factor = 1};
        QS_TRY(qs__bias_sums_build(kernel, &own->bias));
    }
    snprintf(kernel->name, sizeof kernel->name, "cudnn:%s%s", prefixes[own->way], own->plan->name);
    kernel->prepare = prepare;
    kernel->run = run;
    return QS_OK;
}

/* The case's ways, best first: the first that the library has a plan for is taken. Two have another behind them: what is short is
 * exact when it is wide, and what is padded may go as it is. What the library says tells more than that a way is none. */
static qs_status way_choose(qs__cuda_kernel *kernel, bool other, convolution *own) {
    static const way order[] = {PADDED, DIRECT, SHORT, WIDE};
    char reason[512] = "cuDNN has one way to compute it";
    bool asked = other;
    QS_TRY(qs__cudnn_open(kernel->cuda));
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        const qs_status status = way_fits(kernel, order[i], own) ? way_plan(kernel, own) : QS_USAGE;
        if (status == QS_UNSUPPORTED && !asked) {
            snprintf(reason, sizeof reason, "%s", qs_message());
            asked = true;
        }
        if (status == QS_UNSUPPORTED || status == QS_USAGE) continue;
        if (status != QS_OK || !other) return status;
        if (own->way != SHORT && own->way != PADDED) break;
        other = false;
        qs__cudnn_plans_leave(own->plans);
        own->plans = NULL;
    }
    return qs_fail(QS_UNSUPPORTED, "%s", reason);
}

/* The plan of this number of the case's way, or of the way behind it. Integers have one plan (plans_make in cudnn.c), which families of
 * their own take. */
static qs_status build(qs__cuda_kernel *kernel, int number, bool other, qs_format_kind kind) {
    const qs_case *one = &kernel->one;
    convolution *own = NULL;
    QS_TRY(qs_allocate(1, sizeof *own, &own));
    kernel->own = own;
    kernel->release = release;
    own->pass = qs__case_pass(one);
    own->shape = shape_of(one);
    own->left = own->pass == QS__INPUT_GRADIENT ? QS_DIFF_DST : QS_SRC;
    own->right = own->pass == QS__WEIGHT_GRADIENT ? QS_DIFF_DST : QS_WEIGHTS;
    own->result = own->pass == QS__FORWARD ? QS_DST : own->pass == QS__INPUT_GRADIENT ? QS_DIFF_SRC : QS_DIFF_WEIGHTS;
    QS_TRY(limits_check(one, own));
    if (!other && qs__case_format(one, own->left)->kind != kind)
        return qs_fail(QS_UNSUPPORTED, "this family takes %s alone", kind == QS_KIND_INTEGER ? "integers" : "floats");
    QS_TRY(way_choose(kernel, other, own));
    if (number >= own->plans->count)
        return qs_fail(QS_UNSUPPORTED, "cuDNN has %d plan%s for it", own->plans->count, own->plans->count == 1 ? "" : "s");
    own->plan = &own->plans->plan[number];
    return kernel_make(kernel, own);
}

qs_status qs__cuda_build_cudnn_conv2d(qs__cuda_kernel *kernel) {
    return build(kernel, 0, false, QS_KIND_FLOAT);
}

qs_status qs__cuda_build_cudnn_conv2d_second(qs__cuda_kernel *kernel) {
    return build(kernel, 1, false, QS_KIND_FLOAT);
}

qs_status qs__cuda_build_cudnn_conv2d_third(qs__cuda_kernel *kernel) {
    return build(kernel, 2, false, QS_KIND_FLOAT);
}

qs_status qs__cuda_build_cudnn_conv2d_other(qs__cuda_kernel *kernel) {
    return build(kernel, 0, true, QS_KIND_FLOAT);
}

qs_status qs__cuda_build_cudnn_conv2d_integers(qs__cuda_kernel *kernel) {
    return build(kernel, 0, false, QS_KIND_INTEGER);
}

qs_status qs__cuda_build_cudnn_linear(qs__cuda_kernel *kernel) {
    return build(kernel, 0, false, QS_KIND_INTEGER);
}
