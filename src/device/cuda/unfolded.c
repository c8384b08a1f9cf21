// SPDX-License-Identifier: Apache-2.0
/* conv2d by products of cuBLASLt. Windows of images are rows of a matrix: as they lie where the kernel is 1 × 1 and no stride leaves any
 * out; else a kernel of ours writes them into scratch, images part by part. Groups are a batch of products, like heads. Taken for what
 * cuDNN has not or rounds: integers and formats of 8 bits in every pass, weight gradients of 16-bit floats in fp32; for what it may not
 * have (takes); and wherever nothing has to be written. */
#include "cuda/product.h"
#include "cuda/unfolded_jobs.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 24 << 20, /* of windows: they stay in the cache until they are multiplied */ THREADS = 256, VECTOR = 16 };

typedef struct unfolded {
    qs__geometry shape;
    qs__pass pass;
    qs__product product;
    qs__bias_sums bias;    /* sums of diff_dst; where rows is 0, none */
    int unfold;            /* function of ours; -1: windows lie as they are */
    qs__place image;       /* what has windows */
    size_t windows;        /* offset in scratch */
    int width;             /* bytes of a value */
    bool turned;           /* kernel positions of a window lie one behind another */
    int64_t parts, images; /* parts of the batch, images of each */
    int64_t step[3];       /* bytes from part to part */
} unfolded;

static void release(qs__cuda_kernel *kernel) {
    free(kernel->own);
}

static qs_status unfold_run(const qs__cuda_kernel *kernel, const unfolded *own, int64_t part) {
    const qs__geometry *g = &own->shape;
    const bool spread = own->pass == QS__INPUT_GRADIENT;
    const int64_t height = spread ? g->out_height : g->height, width = spread ? g->out_width : g->width,
                  channels = (spread ? g->outputs : g->channels) / g->groups;
    const int64_t image_bytes = height * width * g->groups * channels * own->width;
    const bool vectors = !own->turned && channels * own->width % VECTOR == 0 && part * own->images * image_bytes % VECTOR == 0;
    const qs__cuda_unfold_job job = {.from = qs__place_at(kernel, own->image) + (CUdeviceptr)(part * own->images * image_bytes),
                                     .to = kernel->scratch + own->windows,
                                     .bytes = vectors ? VECTOR : own->width,
                                     .images = own->images,
                                     .down = spread ? g->height : g->out_height,
                                     .across = spread ? g->width : g->out_width,
                                     .height = height,
                                     .width = width,
                                     .groups = g->groups,
                                     .channels = vectors ? channels * own->width / VECTOR : channels,
                                     .kernel = {g->kernel[0], g->kernel[1]},
                                     .stride = {g->stride[0], g->stride[1]},
                                     .dilation = {g->dilation[0], g->dilation[1]},
                                     .padding = {g->padding[0], g->padding[1]},
                                     .spread = spread,
                                     .turned = own->turned};
    const int64_t count = job.images * job.down * job.across * job.groups * job.kernel[0] * job.kernel[1] * job.channels;
    return qs__cuda_launch(kernel, own->unfold, qs__cuda_blocks(kernel->cuda, count, THREADS, 1), THREADS, 0, &job);
}

static qs_status run(qs__cuda_kernel *kernel, const qs_run *run) {
    const unfolded *own = kernel->own;
    (void)run;
    for (int64_t part = 0; part < own->parts; part++) {
        int64_t moved[3];
        for (int i = 0; i < 3; i++)
            moved[i] = part * own->step[i];
        if (own->unfold >= 0) QS_TRY(unfold_run(kernel, own, part));
        QS_TRY(qs__product_part(kernel, &own->product, part, moved));
    }
    return own->bias.rows > 0 ? qs__bias_sums_run(kernel, &own->bias) : QS_OK;
}

/* ---- The product --------------------------------------------------------------------------------------------------------------------- */

static qs_matrices matrices(qs_role role, int64_t head, int64_t row, int64_t column) {
    return (qs_matrices){.role = role, .head = head, .row = row, .column = column, .shared = 1};
}

/* Of all images. */
static qs_matmul extents(const qs__geometry *g, qs__pass pass) {
    const int64_t taps = g->kernel[0] * g->kernel[1], inputs = g->channels / g->groups, outputs = g->outputs / g->groups,
                  results = g->batch * g->out_height * g->out_width, window = taps * inputs, readers = taps * outputs;
    qs_matmul out = {.samples = 1, .heads = g->groups, .summed = 1};
    switch (pass) {
    case QS__FORWARD:
        out.rows = results, out.inner = window, out.columns = outputs;
        out.left = matrices(QS_SRC, window, g->groups * window, 1);
        out.right = matrices(QS_WEIGHTS, outputs * window, 1, window);
        out.result = matrices(QS_DST, outputs, g->outputs, 1);
        return out;
    case QS__INPUT_GRADIENT:
        out.rows = g->batch * g->height * g->width, out.inner = readers, out.columns = inputs;
        out.left = matrices(QS_DIFF_DST, readers, g->groups * readers, 1);
        out.right = matrices(QS_WEIGHTS, outputs * window, window, 1);
        out.result = matrices(QS_DIFF_SRC, inputs, g->channels, 1);
        return out;
    default:
        out.rows = outputs, out.inner = results, out.columns = window;
        out.left = matrices(QS_DIFF_DST, outputs, 1, g->outputs);
        out.right = matrices(QS_SRC, window, g->groups * window, 1);
        out.result = matrices(QS_DIFF_WEIGHTS, outputs * window, window, 1);
        return out;
    }
}

/* turned: of an input gradient, by output and tap, as the weights lie; rows of right that lie otherwise are put in order where values are
 * of one byte alone. */
static qs__product_request request_of(const qs_case *one, const qs__geometry *g, qs__pass pass, bool turned) {
    qs_matmul of = extents(g, pass);
    if (turned) of.right.row = g->channels / g->groups;
    const int64_t inputs = g->channels / g->groups, outputs = g->outputs / g->groups;
    qs__product_request out = qs__product_of_pass(one, &of);
    out.by_head.bias = outputs;
    if (pass == QS__FORWARD) {
        out.by_head.step = out.right_steps > 1 ? outputs : 0;
        out.by_head.group = out.group_period = inputs;
        out.right_steps = out.right_steps > 1 ? outputs : 1;
    } else if (pass == QS__INPUT_GRADIENT) {
        if (!turned) out.period = outputs, out.far = inputs; /* weights [o][tap][i], rows by tap and output */
        out.by_head.group = out.group_period = outputs;
    } else {
        out.by_head.row_group = outputs;
        out.by_head.column_group = out.column_period = inputs;
    }
    if (g->groups > 1 && out.bias.operand >= 0) out.wide = true; /* the library has one bias for a batch */
    return out;
}

/* Windows of a part of the batch at a time: as many images as divide it and keep them within bounds. */
static void parts_find(unfolded *own, qs__product_request *request) {
    const qs__geometry *g = &own->shape;
    const bool backward = own->pass == QS__WEIGHT_GRADIENT;
    const int which = backward ? QS__RIGHT : QS__LEFT, along = backward ? QS__LEFT : QS__RESULT;
    const int64_t row = request->of.heads * (which == QS__LEFT ? request->of.inner : request->of.columns),
                  rows = which == QS__LEFT ? request->of.rows : request->of.inner, image = rows / g->batch;
    own->image = request->place[which];
    const bool whole = request->format[along]->bits % 8 == 0 || request->format[along]->kind == QS_KIND_INTEGER;
    for (own->parts = 1; own->parts < g->batch && whole; own->parts++) /* parts of results begin at whole bytes */
        if (g->batch % own->parts == 0 && rows / own->parts * row * own->width <= MOST_BYTES) break;
    own->images = g->batch / own->parts;
    if (backward)
        request->of.inner = own->images * image;
    else
        request->of.rows = own->images * image;
    if (own->parts == 1) return;
    const int64_t wide = request->format[along]->bits / 8 > 0 ? request->format[along]->bits / 8 : 1;
    own->step[along] = own->images * image * request->of.heads * (backward ? request->of.rows : request->of.columns) * wide;
    request->moves[which] = VECTOR;
    request->moves[along] = own->step[along];
    request->repeats = backward ? own->parts : 0;
}

/* Beside formats, what cuDNN has few engines for, or none: dilation, padding that is not alike, and, on a part of a GPU, anything. */
static qs_status takes(const qs__cuda_kernel *kernel, const qs__product_request *request, bool plain, qs__pass pass) {
    const qs_format *format = request->format[QS__LEFT];
    const int *dilation = kernel->one.attributes.dilation, *more = kernel->one.attributes.padding_more;
    const bool alone = dilation[0] > 1 || dilation[1] > 1 || more[0] || more[1] || kernel->cuda->part;
    if (plain || alone || format->bits <= 8 || (pass == QS__WEIGHT_GRADIENT && format->bits == 16)) return QS_OK;
    return qs_fail(QS_UNSUPPORTED, "windows of %s are not written out for cuBLASLt", format->name);
}

static qs_status build(qs__cuda_kernel *kernel, bool unfolds, int algorithm) {
    const qs_case *one = &kernel->one;
    unfolded *own;
    if (one->attributes.accumulator.adder) return qs_fail(QS_UNSUPPORTED, "cuBLASLt adds in no narrow accumulator");
    QS_TRY(qs_allocate(1, sizeof *own, &own));
    kernel->own = own;
    kernel->release = release;
    kernel->run = run;
    *own = (unfolded){.shape = qs__case_geometry(one), .pass = qs__case_pass(one), .unfold = -1, .parts = 1};
    const qs__geometry *g = &own->shape;
    const bool plain = g->kernel[0] * g->kernel[1] * g->stride[0] * g->stride[1] == 1 && g->padding[0] + g->padding[1] == 0 &&
                       g->height == g->out_height && g->width == g->out_width;
    own->turned = !plain && own->pass == QS__INPUT_GRADIENT && qs__case_format(one, QS_WEIGHTS)->bits > 8;
    qs__product_request request = request_of(one, g, own->pass, own->turned);
    if (plain == unfolds) return qs_fail(QS_UNSUPPORTED, "windows %s", plain ? "lie as they are" : "have to be written out");
    QS_TRY(takes(kernel, &request, plain, own->pass));
    if (!plain) {
        const int which = own->pass == QS__WEIGHT_GRADIENT ? QS__RIGHT : QS__LEFT;
        own->width = request.format[which]->bits > 8 ? request.format[which]->bits / 8 : 1;
        parts_find(own, &request);
        const int64_t rows = which == QS__LEFT ? request.of.rows : request.of.inner,
                      row = request.of.heads * (which == QS__LEFT ? request.of.inner : request.of.columns);
        own->windows = qs__cuda_scratch(kernel, (size_t)(rows * row * own->width));
        request.place[which] = (qs__place){.operand = QS__SCRATCH, .offset = own->windows};
        QS_TRY(qs__cuda_function(kernel, "unfold", &own->unfold));
    }
    QS_TRY(qs__product_build(kernel, &request, algorithm, &own->product));
    qs__products_workspace(kernel, 1, &own->product);
    if (qs__case_has(one, QS_DIFF_BIAS)) {
        own->bias = qs__bias_sums_of(one);
        QS_TRY(qs__bias_sums_build(kernel, &own->bias));
    }
    snprintf(kernel->name, sizeof kernel->name, "cublaslt:%s%s", own->product.plan->algorithm[algorithm].tag, plain ? "" : ":unfolded");
    return QS_OK;
}

qs_status qs__cuda_build_cublaslt_conv2d(qs__cuda_kernel *kernel) {
    return build(kernel, false, 0);
}

qs_status qs__cuda_build_cublaslt_conv2d_second(qs__cuda_kernel *kernel) {
    return build(kernel, false, 1);
}

qs_status qs__cuda_build_unfolded(qs__cuda_kernel *kernel) {
    return build(kernel, true, 0);
}

qs_status qs__cuda_build_unfolded_second(qs__cuda_kernel *kernel) {
    return build(kernel, true, 1);
}
