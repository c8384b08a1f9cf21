// SPDX-License-Identifier: Apache-2.0
/* What pad and resize share (qsync/resample.h): of which places a result is made, and the reference passes. */
#include "internal.h"

#include "qsync/resample.h"

#include <math.h>
#include <stdlib.h>

int64_t qs_resample_extent(const qs_shape *shape, int axis) {
    return axis + 2 < shape->axes ? shape->dim[axis + 2] : 1;
}

/* ---- Places ---- */

enum { CONSTANT, REFLECT, EDGE, RING };                                                      /* modes of pad */
enum { HALF_PIXEL, ASYMMETRIC, ALIGN_CORNERS, HALF_PIXEL_UNLESS_ONE, HALF_PIXEL_SYMMETRIC }; /* coordinates of resize */
enum { HALF_DOWN, HALF_UP, DOWN, UP };                                                       /* nearest of resize */
enum { NEAREST, LINEAR, CUBIC, WIDE_LINEAR, WIDE_CUBIC, CLOSED, EDGES = CLOSED - CUBIC };    /* modes of resize */

static int64_t limit(int64_t place, int64_t extent) {
    return place < 0 ? 0 : place < extent ? place : extent - 1;
}

static qs_resample padded_at(const qs_attributes *with, int axis, int64_t extent, int64_t result) {
    qs_resample out = {.terms = 1, .weight = {1}};
    int64_t place = result - with->padding[axis];
    const bool outside = place < 0 || place >= extent;
    switch ((int)with->mode) {
    case CONSTANT:
        if (outside) out.terms = 0;
        break;
    case REFLECT:
        if (place < 0) place = -place;
        if (place >= extent) place = 2 * (extent - 1) - place;
        break;
    case EDGE:
        place = limit(place, extent);
        break;
    default:
        place = (place + extent) % extent;
    }
    out.place[0] = place;
    return out;
}

static double scale_of(const qs_attributes *with, int axis, int64_t extent, int64_t results) {
    const double given = axis ? with->scale_width : with->scale_height;
    return given > 0 ? given : (double)results / (double)extent;
}

static double coordinate_of(const qs_attributes *with, int axis, int64_t extent, int64_t results, int64_t result) {
    const double scale = scale_of(with, axis, extent, results);
    const double half = ((double)result + 0.5) / scale - 0.5;
    switch ((int)with->coordinates) {
    case ASYMMETRIC:
        return (double)result / scale;
    case ALIGN_CORNERS:
        return results > 1 ? (double)result * (double)(extent - 1) / (double)(results - 1) : 0;
    case HALF_PIXEL_UNLESS_ONE:
        return results > 1 ? half : 0;
    case HALF_PIXEL_SYMMETRIC:
        return half + (double)extent / 2 * (1 - (double)results / (scale * (double)extent));
    default:
        return half;
    }
}

static double rounded(const qs_attributes *with, double place) {
    switch ((int)with->nearest) {
    case HALF_UP:
        return floor(place + 0.5);
    case DOWN:
        return floor(place);
    case UP:
        return ceil(place);
    default:
        return ceil(place - 0.5);
    }
}

/* Modes from CLOSED on are those from CUBIC on with nothing outside. */
static int curve_of(const qs_attributes *with) {
    return with->mode < CLOSED ? (int)with->mode : (int)with->mode - EDGES;
}

/* How far a place counts, and what it counts at a distance. */
static double reach_of(const qs_attributes *with) {
    return curve_of(with) == CUBIC || curve_of(with) == WIDE_CUBIC ? 2 : 1;
}

static double weight_at(const qs_attributes *with, double distance) {
    const double d = fabs(distance), a = qs_resample_coefficient(with);
    if (reach_of(with) == 1) return d < 1 ? 1 - d : 0;
    return d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

/* By which distances are multiplied: below 1 more places count. */
static double narrowing_of(const qs_attributes *with, int axis, int64_t extent, int64_t results) {
    const double scale = scale_of(with, axis, extent, results);
    return curve_of(with) >= WIDE_LINEAR && scale < 1 ? scale : 1;
}

/* A sum of all places in reach, those outside at the edge or left out; places that count nothing are not looked at. */
static qs_resample weighted_at(const qs_attributes *with, int axis, int64_t extent, int64_t results, double place) {
    const double narrowing = narrowing_of(with, axis, extent, results), reach = reach_of(with) / narrowing;
    const double near = fmin(fmax(place, -reach - 1), (double)extent + reach); /* farther out all places are outside as well */
    const bool leave_out = with->mode >= CLOSED;
    double weight[QS_RESAMPLE_TERMS], sum = 0;
    qs_resample out = {.terms = 0};
    for (double at = ceil(near - reach); at <= near + reach; at++) {
        const double counts = weight_at(with, (at - near) * narrowing);
        const int64_t inside = limit((int64_t)at, extent);
        if (counts == 0 || (leave_out && (double)inside != at)) continue;
        const bool again = out.terms > 0 && out.place[out.terms - 1] == inside;
        if (!again && out.terms == QS_RESAMPLE_TERMS) break; /* the shape rule refuses it */
        if (!again) weight[out.terms] = 0, out.place[out.terms++] = inside;
        weight[out.terms - 1] += counts;
        sum += counts;
    }
    if (sum == 0) return (qs_resample){.terms = 1, .place = {limit((int64_t)near, extent)}, .weight = {1}}; /* all of it is outside */
    for (int i = 0; i < out.terms; i++)
        out.weight[i] = (float)(leave_out || narrowing < 1 ? weight[i] / sum : weight[i]);
    return out;
}

static qs_resample resized_at(const qs_attributes *with, int axis, int64_t extent, int64_t results, int64_t result) {
    const double place = coordinate_of(with, axis, extent, results, result);
    if (with->mode > LINEAR) return weighted_at(with, axis, extent, results, place);
    if (with->mode == NEAREST) return (qs_resample){.terms = 1, .place = {limit((int64_t)rounded(with, place), extent)}, .weight = {1}};
    const double inside = fmin(fmax(place, 0), (double)(extent - 1)), first = floor(inside);
    qs_resample out = {.terms = 2, .place = {(int64_t)first, (int64_t)first + 1}};
    out.weight[1] = (float)(inside - first);
    out.weight[0] = (float)(1 - (inside - first));
    if (out.weight[1] == 0) out.terms = 1; /* nor is what lies there looked at, which may be infinite */
    return out;
}

static const qs_shape *image_of(const qs_case *one) {
    return qs__shape(one, qs_case_position(one, QS_SRC) >= 0 ? QS_SRC : QS_DIFF_SRC);
}

static const qs_shape *result_of(const qs_case *one) {
    return qs__shape(one, qs_case_position(one, QS_DST) >= 0 ? QS_DST : QS_DIFF_DST);
}

double qs__resample_reach(const qs_attributes *with, int axis, int64_t extent, int64_t results) {
    return with->mode > LINEAR ? 2 * reach_of(with) / narrowing_of(with, axis, extent, results) : 2;
}

double qs_resample_coefficient(const qs_attributes *with) {
    return with->constant[0] != 0 ? with->constant[0] : -0.75;
}

int qs_resample_terms(const qs_case *one, int axis) {
    if (one->op->takes & QS_TAKES_PADDING) return 2;
    const double reach =
        qs__resample_reach(&one->attributes, axis, qs_resample_extent(image_of(one), axis), qs_resample_extent(result_of(one), axis));
    return reach < QS_RESAMPLE_TERMS ? (int)ceil(reach) : QS_RESAMPLE_TERMS;
}

qs_resample qs_resample_at(const qs_case *one, int axis, int64_t result) {
    const int64_t extent = qs_resample_extent(image_of(one), axis), results = qs_resample_extent(result_of(one), axis);
    if (one->op->takes & QS_TAKES_PADDING) return padded_at(&one->attributes, axis, extent, result);
    return resized_at(&one->attributes, axis, extent, results, result);
}

/* ---- Passes ---- */

/* Calls `visit` for every element of the result, with the elements of the image that it is made of; none: constant padding. */
typedef void (*visit)(int64_t result, int terms, const int64_t *place, const double *weight, void *context);

static void visit_all(const qs_case *one, visit each, void *context) {
    const qs_shape *image = image_of(one), *result = result_of(one);
    const int64_t height = qs_resample_extent(image, 0), width = qs_resample_extent(image, 1), channels = image->dim[1];
    const int64_t down = qs_resample_extent(result, 0), across = qs_resample_extent(result, 1);
    for (int64_t at = 0; at < qs_shape_count(result); at++) {
        const int64_t pixel = at / channels, n = pixel / across / down;
        const qs_resample line = qs_resample_at(one, 0, pixel / across % down), column = qs_resample_at(one, 1, pixel % across);
        int64_t place[QS_RESAMPLE_TERMS * QS_RESAMPLE_TERMS];
        double weight[QS_RESAMPLE_TERMS * QS_RESAMPLE_TERMS];
        int terms = 0;
        for (int i = 0; i < line.terms; i++)
            for (int j = 0; j < column.terms; j++) {
                place[terms] = ((n * height + line.place[i]) * width + column.place[j]) * channels + at % channels;
                weight[terms++] = (double)line.weight[i] * (double)column.weight[j];
            }
        each(at, terms, place, weight, context);
    }
}

typedef struct gathering {
    const float *src;
    float value, *dst;
} gathering;

static void gather(int64_t result, int terms, const int64_t *place, const double *weight, void *context) {
    const gathering *with = context;
    double sum = terms ? weight[0] * (double)with->src[place[0]] : (double)with->value;
    for (int i = 1; i < terms; i++)
        sum += weight[i] * (double)with->src[place[i]];
    with->dst[result] = (float)sum;
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    const qs_tensor *dst = qs__operand(one, operands, QS_DST);
    float *src = NULL, *values = NULL;
    qs_status status;
    QS_GOTO(qs__read(qs__operand(one, operands, QS_SRC), &src));
    QS_GOTO(qs_allocate((size_t)qs_shape_count(&dst->shape), sizeof *values, &values));
    visit_all(one, gather, &(gathering){.src = src, .value = (float)one->attributes.value, .dst = values});
    qs__write(dst, values);
done:
    free(src);
    free(values);
    return status;
}

typedef struct scattering {
    const float *diff;
    double *sum;
} scattering;

static void scatter(int64_t result, int terms, const int64_t *place, const double *weight, void *context) {
    const scattering *with = context;
    for (int i = 0; i < terms; i++)
        with->sum[place[i]] += weight[i] * (double)with->diff[result];
}

static qs_status backward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    const qs_tensor *diff_src = qs__operand(one, operands, QS_DIFF_SRC);
    float *diff = NULL;
    double *sum = NULL;
    qs_status status;
    QS_GOTO(qs__read(qs__operand(one, operands, QS_DIFF_DST), &diff));
    QS_GOTO(qs_allocate((size_t)qs_shape_count(&diff_src->shape), sizeof *sum, &sum));
    visit_all(one, scatter, &(scattering){.diff = diff, .sum = sum});
    QS_GOTO(qs__write_double(diff_src, sum));
done:
    free(diff);
    free(sum);
    return status;
}

/* A product and a sum for each term of a result. */
static double flops(const qs_case *one) {
    const bool sums = !(one->op->takes & QS_TAKES_PADDING) && one->attributes.mode != NEAREST;
    return (sums ? 2 * qs_resample_terms(one, 0) * qs_resample_terms(one, 1) : 1) * (double)qs_shape_count(result_of(one));
}

static qs_status check_forward(const qs_case *one) {
    return qs__need_inferred(one, QS_SRC, 0, QS_DST);
}

static qs_status check_backward(const qs_case *one) {
    return qs__need_inferred(one, QS_DIFF_SRC, 0, QS_DIFF_DST);
}

const qs_pass qs__resample_passes[QS__RESAMPLE_PASSES] = {
    {.name = "forward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_DST, .source = QS_TO_OUTPUT}),
     .reference = forward,
     .flops = flops,
     .check = check_forward},
    {.name = "backward",
     QS_OPERANDS({.role = QS_DIFF_DST, .source = QS_FROM_GRADIENT}, {.role = QS_DIFF_SRC, .source = QS_TO_INPUT_GRADIENT}),
     .reference = backward,
     .flops = flops,
     .check = check_backward},
};
