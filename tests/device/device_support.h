// SPDX-License-Identifier: Apache-2.0
/* Kernels of devices under test: a case bound to guarded operands and guarded scratch; tolerances from the formats and the lengths of sums;
 * test programs that run once per instruction-set ceiling, each in a process of its own because a ceiling cannot change. */
#ifndef QSYNC_TESTS_DEVICE_SUPPORT_H
#define QSYNC_TESTS_DEVICE_SUPPORT_H

#include "kit/kit.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit/cases.h"
#include "kit/device.h"

static const char *const ceilings[] = {"all", "avx512_core_bf16", "avx512_core_vnni", "avx512_core", "avx2_vnni", "avx2", "portable"};
enum { CEILINGS = COUNT_OF(ceilings) };

/* ---- A device and its kernels ---- */

static inline qs_device *open_device(const char *backend, const char *isa, int threads, double speed) {
    qs_device *device = NULL;
    const qs_device_options options = device_options(backend, isa, threads, speed);
    assert_ok(qs_device_open(&options, &device));
    return device;
}

/* A kernel bound to memory of its device: copies of the operands of a `bound`, and scratch, guarded on both sides. With QSYNC_TEST_APART=1
 * each lies in memory of its own, as near to its end as alignment lets it: a GPU has nothing behind that, so that a kernel which reads too
 * far is found as well. */
typedef struct bound_kernel {
    qs_kernel_fact fact;
    qs_kernel *kernel;
    qs_queue *queue;
    qs_memory *memory[QS_MAX_OPERANDS + 1]; /* of each operand and of scratch; where they are not apart [0], of all */
    qs_location operand[QS_MAX_OPERANDS], scratch;
    bound *data;
} bound_kernel;

static inline size_t guarded(size_t bytes) {
    return (bytes + 3 * GUARD) / GUARD * GUARD;
}

static inline qs_memory *memory_of_guards(bound_kernel *k, qs_device *device, int number, size_t bytes) {
    assert_ok(qs_memory_reserve(device, bytes, &k->memory[number]));
    assert_ok(qs_memory_fill(k->queue, qs_location_of(k->memory[number], 0), GUARD_BYTE, bytes));
    return k->memory[number];
}

static inline void places_together(bound_kernel *k, qs_device *device, const bound *b) {
    size_t bytes = 0, at = GUARD;
    for (int i = 0; i < b->one.operands; i++)
        bytes += b->one.operand[i].format ? guarded(tensor_bytes(&b->operands[i])) : 0;
    qs_memory *memory = memory_of_guards(k, device, 0, bytes + guarded(k->fact.scratch_bytes));
    k->scratch = qs_location_of(memory, bytes + GUARD);
    for (int i = 0; i < b->one.operands; i++) {
        if (!b->one.operand[i].format) continue;
        k->operand[i] = qs_location_of(memory, at);
        at += guarded(tensor_bytes(&b->operands[i]));
    }
}

static inline qs_location place_apart(bound_kernel *k, qs_device *device, int number, size_t bytes) {
    enum { PAGE = 2 << 20 }; /* what a GPU maps at least */
    const size_t taken = (bytes + GUARD - 1) / GUARD * GUARD, whole = taken > 0 ? (taken + PAGE - 1) / PAGE * PAGE : PAGE;
    return qs_location_of(memory_of_guards(k, device, number, whole), whole - taken);
}

static inline void places_apart(bound_kernel *k, qs_device *device, const bound *b) {
    for (int i = 0; i < b->one.operands; i++)
        if (b->one.operand[i].format) k->operand[i] = place_apart(k, device, i, tensor_bytes(&b->operands[i]));
    k->scratch = place_apart(k, device, QS_MAX_OPERANDS, k->fact.scratch_bytes);
}

/* name NULL: the device's own choice. */
static inline void kernel_make_named(bound_kernel *k, qs_device *device, const char *name, bound *b) {
    const char *apart = getenv("QSYNC_TEST_APART");
    *k = (bound_kernel){.queue = qs_device_queue(device, QS_QUEUE_KERNELS), .data = b};
    assert_ok(name ? qs_device_fact_of(device, &b->one, name, &k->fact) : qs_device_fact(device, &b->one, &k->fact));
    if (apart && !strcmp(apart, "1"))
        places_apart(k, device, b);
    else
        places_together(k, device, b);
    assert_ok(qs_device_prepare(device, &b->one, name, k->operand, k->scratch, &k->kernel));
}

/* How many of the GUARD bytes before and behind `bytes` there are. */
static inline size_t guards_before(qs_location place) {
    return place.offset < GUARD ? place.offset : GUARD;
}
static inline size_t guards_behind(qs_location place, size_t bytes) {
    const size_t rest = qs_memory_bytes(place.memory) - place.offset - bytes;
    return rest < GUARD ? rest : GUARD;
}

/* The operands to the device, or back with the lines on both sides: where a kernel wrote too far, bound_release sees it. */
static inline void kernel_write(bound_kernel *k) {
    for (int i = 0; i < k->data->one.operands; i++)
        if (k->operand[i].memory)
            assert_ok(qs_memory_write(k->queue, k->operand[i], k->data->operands[i].data, tensor_bytes(&k->data->operands[i])));
}

static inline void kernel_read(bound_kernel *k) {
    for (int i = 0; i < k->data->one.operands; i++) {
        const qs_location place = k->operand[i];
        if (!place.memory) continue;
        const size_t bytes = tensor_bytes(&k->data->operands[i]), before = guards_before(place);
        assert_ok(qs_memory_read(k->queue, qs_location_of(place.memory, place.offset - before), (char *)k->data->operands[i].data - before,
                                 before + bytes + guards_behind(place, bytes)));
    }
    assert_ok(qs_queue_wait(k->queue));
}

/* On the values that `bound` has now, which its results replace. */
static inline qs_status kernel_run(bound_kernel *k, const qs_run *run) {
    kernel_write(k);
    QS_TRY(qs_kernel_run(k->kernel, run));
    QS_TRY(qs_queue_wait(k->queue));
    kernel_read(k);
    return QS_OK;
}

static inline void kernel_make(bound_kernel *k, qs_device *device, bound *b) {
    kernel_make_named(k, device, NULL, b);
}

static inline void kernel_release(bound_kernel *k) {
    const size_t bytes = k->fact.scratch_bytes, before = guards_before(k->scratch), behind = guards_behind(k->scratch, bytes);
    unsigned char guard[2 * GUARD];
    memset(guard, GUARD_BYTE, sizeof guard);
    assert_ok(qs_memory_read(k->queue, qs_location_of(k->scratch.memory, k->scratch.offset - before), guard, before));
    assert_ok(qs_memory_read(k->queue, qs_location_of(k->scratch.memory, k->scratch.offset + bytes), guard + GUARD, behind));
    assert_ok(qs_queue_wait(k->queue));
    for (int g = 0; g < 2 * GUARD; g++)
        if (guard[g] != GUARD_BYTE) fail_msg("%s wrote outside its scratch of %zu bytes", k->fact.kernel, bytes);
    qs_kernel_release(k->kernel);
    for (size_t i = 0; i < COUNT_OF(k->memory); i++)
        qs_memory_release(k->memory[i]);
}

/* ---- Copies, much cheaper than drawing values again ---- */

/* `one` on guarded memory, with the values that `from` has under the same roles; formats may differ. */
static inline void bound_copy(bound *to, const qs_case *one, bound *from) {
    memset(to, 0, sizeof *to);
    to->one = *one;
    to->run = from->run;
    for (int i = 0; i < one->operands; i++) {
        const qs_operand *operand = &one->operand[i];
        if (!operand->format) continue;
        size_t bytes = (qs_tensor_bytes(&operand->shape, operand->format) + 3 * GUARD) / GUARD * GUARD;
        unsigned char *block = aligned_alloc(GUARD, bytes);
        assert_non_null(block);
        memset(block, GUARD_BYTE, bytes);
        to->operands[i] = (qs_tensor){.shape = operand->shape, .format = operand->format, .data = block + GUARD};
    }
    bound_share(to, from);
}

/* Losses over an odd number of classes are taken with label smoothing. */
static inline void smooth(bound *b) {
    const int axis = b->one.op->class_axis;
    if (axis > 0 && b->one.operand[qs_case_position(&b->one, QS_SRC)].shape.dim[axis] % 2) b->run.label_smoothing = 0.1;
}

/* ---- Comparing with the reference ---- */

/* Operators whose results must equal the reference bit for bit: elementwise, or independent of any order. */
static inline bool exact_operator(const qs_case *one) {
    static const char *const exact[] = {"relu",      "add",       "concat",   "slice",     "channel_shuffle", "max_pool",
                                        "dropout",   "cast",      "absmax",   "quantize",  "dequantize",      "finite_check",
                                        "clip_norm", "embedding", "multiply", "positions", "position",        "class_token",
                                        "subtract",  "minimum",   "maximum",  "abs",       "permute",         "reduce_max"};
    const char *name = one->op->name;
    if (one->op->optimizer) return true;
    if (!strcmp(name, "max_pool") && !strcmp(one->pass->name, "backward")) return false; /* sums of overlapping windows */
    for (size_t i = 0; i < COUNT_OF(exact); i++) {
        if (!strcmp(exact[i], name)) return true;
    }
    return false;
}

/* What of other operators no sum of several goes into. */
static inline bool exact_operand(const qs_case *one, int position) {
    static const struct {
        const char *op;
        qs_role role;
    } exact[] = {{"gate", QS_DST},      {"gain", QS_DST},      {"offset", QS_DST},          {"prelu", QS_DST},
                 {"gate", QS_DIFF_SRC}, {"gain", QS_DIFF_SRC}, {"offset", QS_DIFF_SRC},     {"prelu", QS_DIFF_SRC},
                 {"expand", QS_DST},    {"pad", QS_DST},       {"reduce_sum", QS_DIFF_SRC}, {"reduce_mean", QS_DIFF_SRC}};
    for (size_t i = 0; i < COUNT_OF(exact); i++)
        if (!strcmp(exact[i].op, one->op->name) && exact[i].role == one->operand[position].role) return true;
    return exact_operator(one);
}

static inline bool has_integers(const qs_case *one) {
    int src = qs_case_position(one, QS_SRC), factor = src >= 0 ? src : qs_case_position(one, QS_DIFF_DST);
    return one->op->kind == QS_ADJUSTABLE && one->operand[factor].format->kind == QS_KIND_INTEGER;
}

/* Σ|a·b| behind every element of operand `position`: the same pass over absolute values, all in fp32. Caller frees. */
static inline float *absolute_terms(bound *b, int position) {
    const qs_format *fp32 = qs_format_of("fp32");
    qs_case twin = b->one;
    bound terms;
    for (int i = 0; i < twin.operands; i++) {
        if (twin.operand[i].format && twin.operand[i].role != QS_MASK) twin.operand[i].format = fp32;
    }
    bound_copy(&terms, &twin, b);
    for (int i = 0; i < twin.operands; i++) {
        if (!twin.operand[i].format || twin.operand[i].role == QS_MASK) continue;
        float *values = terms.operands[i].data;
        for (int64_t k = 0; k < qs_shape_count(&twin.operand[i].shape); k++)
            values[k] = fabsf(values[k]);
    }
    bound_run(&terms);
    float *values = tensor_values(&terms.operands[position]);
    bound_release(&terms);
    return values;
}

/* Largest magnitude of each channel (most[C]) among the 6 × 6 pixels of an image from `top`, `left` on, where it has them. */
static inline void largest_of_span(const qs_shape *shape, const float *pixel, int64_t image, int64_t top, int64_t left, double *most) {
    enum { SPAN = 6 };
    const int64_t *dim = shape->dim;
    memset(most, 0, (size_t)dim[1] * sizeof *most);
    for (int64_t at = 0; at < SPAN * SPAN; at++) {
        const int64_t row = top + at / SPAN, column = left + at % SPAN;
        if (row < 0 || column < 0 || row >= dim[2] || column >= dim[3]) continue;
        for (int64_t c = 0; c < dim[1]; c++)
            most[c] = fmax(most[c], fabs((double)pixel[((image * dim[2] + row) * dim[3] + column) * dim[1] + c]));
    }
}

/* Winograd's tiles of 4 × 4 results come from products of sums of 6 × 6 pixels with sums of 3 × 3 taps, and the taps of a weight gradient
 * from such of 6 × 6 pixels with sums of 4 × 4 gradients. A rounding there is relative to those sums, also where a tap meets no pixel of
 * the image, or all own terms of a result are 0. So what stands for each result of a tile is the largest magnitude of the pixels times the
 * sum of magnitudes of what they are multiplied by, Σ over channels, of weight gradients Σ over tiles. `terms`: of operand `position`,
 * raised to that. */
static inline void terms_of_tiles(bound *b, int position, float *terms) {
    enum { EDGE = 4, TAPS = 9 };
    const qs_role role = b->one.operand[position].role;
    const qs_tensor *source = bound_tensor(b, role == QS_DIFF_SRC ? QS_DIFF_DST : QS_SRC);
    const qs_tensor *other = bound_tensor(b, role == QS_DIFF_WEIGHTS ? QS_DIFF_DST : QS_WEIGHTS);
    const qs_shape *tiled = role == QS_DIFF_WEIGHTS ? &other->shape : &b->operands[position].shape;
    const int64_t depth = source->shape.dim[1], channels = tiled->dim[1], height = tiled->dim[2], width = tiled->dim[3];
    const int64_t down = (height + EDGE - 1) / EDGE, across = (width + EDGE - 1) / EDGE;
    float *pixel = tensor_values(source), *factor = tensor_values(other);
    double *most = calloc((size_t)depth, sizeof *most), *sum = calloc((size_t)channels, sizeof *sum);
    double *taps = calloc((size_t)(depth * channels), sizeof *taps); /* Σ of taps, or of weight gradients what they come to */
    assert_true(most && sum && taps);
    for (int64_t o = 0; o < channels; o++) /* in memory weights are O, 3, 3, I; an input gradient goes from O to I */
        for (int64_t c = 0; c < depth && role != QS_DIFF_WEIGHTS; c++)
            for (int64_t k = 0; k < TAPS; k++)
                taps[o * depth + c] += fabs((double)factor[role == QS_DST ? (o * TAPS + k) * depth + c : (c * TAPS + k) * channels + o]);
    for (int64_t tile = 0; tile < tiled->dim[0] * down * across; tile++) {
        const int64_t n = tile / across / down, y = tile / across % down * EDGE, x = tile % across * EDGE;
        const int *padding = b->one.attributes.padding;
        largest_of_span(&source->shape, pixel, n, y - (role == QS_DIFF_SRC ? 2 - padding[0] : padding[0]),
                        x - (role == QS_DIFF_SRC ? 2 - padding[1] : padding[1]), most);
        memset(sum, 0, (size_t)channels * sizeof *sum);
        for (int64_t o = 0; o < channels && role != QS_DIFF_WEIGHTS; o++)
            for (int64_t c = 0; c < depth; c++)
                sum[o] += most[c] * taps[o * depth + c];
        for (int64_t at = 0; at < EDGE * EDGE; at++) {
            if (y + at / EDGE >= height || x + at % EDGE >= width) continue;
            const int64_t first = ((n * height + y + at / EDGE) * width + x + at % EDGE) * channels;
            for (int64_t o = 0; o < channels; o++) {
                if (role == QS_DIFF_WEIGHTS)
                    sum[o] += fabs((double)factor[first + o]);
                else
                    terms[first + o] = fmaxf(terms[first + o], (float)sum[o]);
            }
        }
        for (int64_t o = 0; o < channels && role == QS_DIFF_WEIGHTS; o++)
            for (int64_t c = 0; c < depth; c++)
                taps[o * depth + c] += most[c] * sum[o];
    }
    for (int64_t i = 0; i < channels * TAPS * depth && role == QS_DIFF_WEIGHTS; i++)
        terms[i] = fmaxf(terms[i], (float)taps[i / TAPS / depth * depth + i % depth]);
    free(pixel);
    free(factor);
    free(most);
    free(sum);
    free(taps);
}

static inline bool is_tiled(const char *kernel) {
    return strstr(kernel, "winograd") != NULL;
}

/* What a kernel rounds to before it writes fp32, and says so by its name: weight gradients of cuDNN, in the format of their factors. */
static inline const qs_format *rounded_first(const qs_case *one, int position, const char *kernel) {
    return strstr(kernel, ":short:") && one->operand[position].role == QS_DIFF_WEIGHTS ? one->operand[0].format : NULL;
}

/* GPUs align products of formats of 8 bits to the largest of a few dozen, and of the sum so far, and cut them off 13 bits behind its first:
 * where the largest is some four times the mean, as among normal values, that costs up to about 4 · 2^-13 of Σ|a·b|; twice that is
 * allowed. */
static inline double short_sums(const qs_case *one, const char *kernel) {
    const int src = qs_case_position(one, QS_SRC), factor = src >= 0 ? src : qs_case_position(one, QS_DIFF_DST);
    const qs_format *format = one->operand[factor].format;
    return format->kind == QS_KIND_FLOAT && format->bits == 8 && strncmp(kernel, "cublaslt", 8) == 0 ? 8 * 0x1p-13 : 0;
}

/* Sums of K products in fp32, in any order, differ from the exact one by about sqrt(K) roundings of 2^-24 of Σ|a·b| (4 standard deviations
 * allowed); storing costs one spacing of the format, because a value near a boundary may fall to either side. */
static inline void compare_sums(const bound *got, bound *expected, int position, const char *kernel, const char *what) {
    const qs_tensor *tensor = &got->operands[position];
    int64_t count = qs_shape_count(&tensor->shape);
    double length = qs_case_flops(&got->one) / 2 / (double)count;
    float *values = tensor_values(tensor), *right = tensor_values(&expected->operands[position]),
          *terms = absolute_terms(expected, position);
    const qs_format *first = rounded_first(&got->one, position, kernel);
    if (is_tiled(kernel)) {
        terms_of_tiles(expected, position, terms);
        length += 2 * 36; /* pixels that a product's factors are sums of, and products that a result is a sum of */
    }
    const double roundings = 4 * sqrt(length + 1) * 0x1p-24 + short_sums(&got->one, kernel);
    for (int64_t i = 0; i < count; i++) {
        double allowed = tensor->format->epsilon * fabs((double)right[i]) + roundings * (double)terms[i];
        if (first) allowed += first->epsilon / 2 * (fabs((double)right[i]) + allowed) + first->min_subnormal / 2;
        if (fabs((double)values[i] - (double)right[i]) <= allowed) continue;
        fail_msg("%s: %s[%" PRId64 "] is %.9g, expected %.9g (allowed %.3g)", what, qs_role_name(got->one.operand[position].role), i,
                 (double)values[i], (double)right[i], allowed);
    }
    free(values);
    free(right);
    free(terms);
}

/* Largest magnitude of an array. */
static inline double magnitude(int64_t count, const float *values) {
    double largest = 0;
    for (int64_t i = 0; i < count; i++)
        largest = fmax(largest, fabs((double)values[i]));
    return largest;
}

/* Integer sums are exact; what follows is one conversion, two products and a sum in fp32: 4 roundings of the terms, and the storage. */
static inline void compare_integer(const bound *got, bound *expected, int position, const char *what) {
    const qs_tensor *tensor = &got->operands[position];
    int64_t count = qs_shape_count(&tensor->shape);
    int bias = qs_case_position(&got->one, QS_BIAS);
    double shift =
        bias >= 0 && got->one.operand[bias].format ? magnitude(qs_shape_count(&got->operands[bias].shape), got->operands[bias].data) : 0;
    float *values = tensor_values(tensor), *right = tensor_values(&expected->operands[position]);
    assert_close(count, values, right, 8 * 0x1p-24 * shift, tensor->format->epsilon + 4 * 0x1p-24, what);
    free(values);
    free(right);
}

/* Means over R values in fp32 or better, then a few operations: 8 sqrt(R) roundings of the largest result, and the storage. */
static inline void compare_means(const bound *got, bound *expected, int position, const char *what) {
    const qs_tensor *tensor = &got->operands[position];
    int64_t count = qs_shape_count(&tensor->shape);
    double length = qs_case_flops(&got->one) / (double)count;
    float *values = tensor_values(tensor), *right = tensor_values(&expected->operands[position]);
    double scale = fmax(1, magnitude(count, right));
    assert_close(count, values, right, 8 * sqrt(length + 1) * 0x1p-24 * scale, tensor->format->epsilon, what);
    free(values);
    free(right);
}

/* As means, of products of codes inside a pass. A device's values before rounding differ in their last bits from the reference's: where a
 * draw lies as near to the remainder, and that is once in some ten thousand values, a code is its neighbour, and what depends on it differs
 * by a part of a step. All codes drawn wrongly make an rms of a hundredth and more. */
static inline void compare_codes(const bound *got, bound *expected, int position, const char *what) {
    const qs_tensor *tensor = &got->operands[position];
    const int64_t count = qs_shape_count(&tensor->shape);
    const double length = qs_case_flops(&got->one) / (double)count;
    float *values = tensor_values(tensor), *right = tensor_values(&expected->operands[position]);
    const double allowed = 8 * sqrt(length + 1) * 0x1p-24 * fmax(1, magnitude(count, right));
    const comparison all = compare_values(count, values, right);
    if (!(all.rms <= all.rms_expected / 200)) assert_close(count, values, right, allowed, tensor->format->epsilon, what);
    free(values);
    free(right);
}

/* Attention multiplies probabilities and gradients of scores as bf16 where its operands are, and in products of CUDA's libraries as fp16:
 * each term of a sum is off by up to half an epsilon of its own, at random, so the sum by about that of the root of the sum of their
 * squares, for which the largest result stands: 4 standard deviations. */
static inline bool narrow_attention(const qs_case *one, const char *kernel) {
    const char *format = one->operand[0].format->name;
    return strcmp(one->op->name, "attention") == 0 &&
           (strcmp(format, "bf16") == 0 || (strcmp(format, "fp16") == 0 && strncmp(kernel, "cu", 2) == 0));
}

static inline void compare_attention(const bound *got, bound *expected, int position, const char *what) {
    const qs_tensor *tensor = &got->operands[position];
    const int64_t count = qs_shape_count(&tensor->shape);
    const double epsilon = got->one.operand[0].format->epsilon;
    float *values = tensor_values(tensor), *right = tensor_values(&expected->operands[position]);
    assert_close(count, values, right, 4 * epsilon / 2 * magnitude(count, right), tensor->format->epsilon, what);
    free(values);
    free(right);
}

/* fp64 values: sums of squares and variances in any order of pieces, 2^-24 for the fp32 operations inside. */
static inline void compare_statistics(const bound *got, const bound *expected, int position, const char *what) {
    const double *values = got->operands[position].data, *right = expected->operands[position].data;
    for (int64_t i = 0; i < qs_shape_count(&got->operands[position].shape) / 2; i++) {
        if (fabs(values[i] - right[i]) <= 0x1p-22 * fabs(right[i])) continue;
        fail_msg("%s: statistic %" PRId64 " is %.17g, expected %.17g", what, i, values[i], right[i]);
    }
}

/* The mask of a relu behind a normalisation says which stored results lie between 0 and the ceiling. */
static inline void compare_mask(const bound *got, int position, const char *what) {
    const qs_tensor *dst = &got->operands[qs_case_position(&got->one, QS_DST)];
    const uint8_t *mask = got->operands[position].data;
    const double ceiling = got->one.attributes.ceiling > 0 ? got->one.attributes.ceiling : HUGE_VAL;
    float *values = tensor_values(dst);
    for (int64_t i = 0; i < qs_shape_count(&dst->shape); i++) {
        const bool inside = values[i] > 0 && (double)values[i] < ceiling;
        if ((mask[i >> 3] >> (i & 7) & 1) != inside || values[i] < 0 || (double)values[i] > ceiling)
            fail_msg("%s: the mask at %" PRId64 " does not fit %g", what, i, (double)values[i]);
    }
    free(values);
}

/* kernel: the name, or the family, of what wrote `got`. */
static inline void compare_written(const bound *got, bound *expected, const char *kernel, const char *what) {
    const char *op = got->one.op->name;
    for (int i = 0; i < got->one.operands; i++) {
        if (!qs_pass_writes(got->one.pass, i) || !got->one.operand[i].format) continue;
        if (is_absmax_beside(&got->one, i)) {
            check_absmax_beside(&got->one, got->operands, what);
        } else if (exact_operand(&got->one, i)) {
            if (memcmp(got->operands[i].data, expected->operands[i].data, tensor_bytes(&got->operands[i]))) {
                float *a = tensor_values(&got->operands[i]), *b = tensor_values(&expected->operands[i]);
                assert_close(qs_shape_count(&got->operands[i].shape), a, b, 0, 0, what);
                fail_msg("%s: %s differs in its bits", what, qs_role_name(got->one.operand[i].role));
            }
        } else if (got->one.operand[i].role == QS_MASK && got->one.op->norm) {
            compare_mask(got, i, what);
        } else if (got->one.operand[i].role == QS_STATISTICS) {
            compare_statistics(got, expected, i, what);
        } else if (has_integers(&got->one)) {
            compare_integer(got, expected, i, what);
        } else if ((got->one.op->kind == QS_ADJUSTABLE && !got->one.op->inner) || strstr(op, "_pool")) {
            compare_sums(got, expected, i, kernel, what);
        } else if (narrow_attention(&got->one, kernel)) {
            compare_attention(got, expected, i, what);
        } else if (got->one.op->inner && got->one.attributes.to) {
            compare_codes(got, expected, i, what);
        } else {
            compare_means(got, expected, i, what);
        }
    }
}

/* The device's kernel and the reference on the values of `b`, whose results become the reference's: dst must be the same bit for bit. */
static inline void check_dst(qs_device *device, bound *b) {
    bound got;
    bound_kernel kernel;
    bound_copy(&got, &b->one, b);
    bound_run(b);
    kernel_make(&kernel, device, &got);
    assert_ok(kernel_run(&kernel, &got.run));
    assert_memory_equal(bound_tensor(&got, QS_DST)->data, bound_tensor(b, QS_DST)->data, tensor_bytes(bound_tensor(b, QS_DST)));
    kernel_release(&kernel);
    bound_release(&got);
}

/* ---- One process per ceiling ---- */

static const char *test_ceiling; /* of this process */
static uint64_t *shared_bits;    /* one word that the processes share, 0 at first */

/* Runs the tests once per ceiling of a list, each in a child; the number of ceilings that failed. */
static inline int run_under(const char *const *names, int ceilings_count, const struct CMUnitTest *tests, size_t count) {
    int failed = 0;
    if (!getenv("OMP_WAIT_POLICY")) { /* read when the program starts: threads that spin starve each other on a busy machine */
        setenv("OMP_WAIT_POLICY", "passive", 1);
        execl("/proc/self/exe", "test", (char *)NULL);
    }
    shared_bits = mmap(NULL, sizeof *shared_bits, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared_bits == MAP_FAILED) return 1;
    for (int i = 0; i < ceilings_count; i++) {
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            test_ceiling = names[i];
            exit(_cmocka_run_group_tests(names[i], tests, count, NULL, NULL) ? 1 : 0);
        }
        int result = 1;
        if (child < 0 || waitpid(child, &result, 0) < 0 || result) failed++;
    }
    return failed;
}

static inline int run_per_ceiling(const struct CMUnitTest *tests, size_t count) {
    return run_under(ceilings, CEILINGS, tests, count);
}

#endif
