// SPDX-License-Identifier: Apache-2.0
/* Cases at work, for tests of operators and devices: a case bound to memory with guard bytes around each operand and values that suit
 * the operand's role; and the properties every operator's own case list must have. */
#ifndef QSYNC_TESTS_KIT_CASES
#define QSYNC_TESTS_KIT_CASES

#include "kit.h"
#include "compare.h"
#include "hadamard.h"
#include "qsync/op.h"

enum { GUARD = 64 }; /* bytes before and behind each operand, filled with GUARD_BYTE */
#define GUARD_BYTE 0xA5

typedef struct bound {
    qs_case one;
    qs_tensor operands[QS_MAX_OPERANDS];
    qs_run run;
} bound;

static inline int64_t bound_count(const bound *b, qs_role role) {
    return qs_shape_count(&b->one.operand[qs_case_position(&b->one, role)].shape);
}
static inline qs_tensor *bound_tensor(bound *b, qs_role role) {
    int position = qs_case_position(&b->one, role);
    return position >= 0 && b->one.operand[position].format ? &b->operands[position] : NULL;
}
static inline float *bound_fp32(bound *b, qs_role role) {
    qs_tensor *tensor = bound_tensor(b, role);
    assert_non_null(tensor);
    assert_string_equal(tensor->format->name, "fp32");
    return tensor->data;
}
static inline size_t tensor_bytes(const qs_tensor *tensor) {
    return qs_tensor_bytes(&tensor->shape, tensor->format);
}

/* Decoded copy of a tensor (integers as integers); caller frees. */
static inline float *tensor_values(const qs_tensor *tensor) {
    int64_t count = qs_shape_count(&tensor->shape);
    float *values = malloc((size_t)count * sizeof *values);
    assert_non_null(values);
    if (tensor->format->kind == QS_KIND_INTEGER) {
        for (int64_t i = 0; i < count; i++)
            values[i] = (float)((const int8_t *)tensor->data)[i];
    } else {
        qs_convert_to_fp32(tensor->format, count, tensor->data, values);
    }
    return values;
}
/* The same of a factor of a product: codes × 2^-group of their channel, where it has groups. */
static inline float *factor_values(bound *b, qs_role factor, qs_role group) {
    qs_tensor *tensor = bound_tensor(b, factor), *groups = bound_tensor(b, group);
    float *values = tensor_values(tensor);
    const int64_t channels = groups ? tensor->shape.dim[1] : 0, count = qs_shape_count(&tensor->shape);
    for (int64_t i = 0; groups && i < count; i++)
        values[i] = ldexpf(values[i], -((const int8_t *)groups->data)[i % channels]);
    return values;
}
/* Stores fp32 values, nearest-even (integers: as they are). */
static inline void tensor_store(qs_tensor *tensor, const float *values) {
    int64_t count = qs_shape_count(&tensor->shape);
    if (tensor->format->kind == QS_KIND_INTEGER) {
        for (int64_t i = 0; i < count; i++)
            ((int8_t *)tensor->data)[i] = (int8_t)values[i];
    } else {
        qs_convert_from_fp32(tensor->format, QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, (qs_random_stream){0}, count, values, tensor->data);
    }
}

/* Decoded values as a case with the attribute hadamard transforms them, by definition; how far fp32 may be from that. 0 without it. */
static inline double transform_values(const bound *b, qs_role role, float *values) {
    const qs_attributes *with = &b->one.attributes;
    const int64_t count = bound_count(b, role), rows = b->one.operand[qs_case_position(&b->one, role)].shape.dim[0];
    return with->hadamard > 0 ? hadamard_by_definition(with->hadamard, with->axis == 1 ? 1 : count / rows, count, values) : 0;
}

/* ---- Filling ---- */

static inline double role_value(const qs_operand *operand, uint64_t key, uint64_t i) {
    double normal = (double)qs_random_normal(key, i), uniform = (double)qs_random_uniform(key, i);
    if (operand->format->kind == QS_KIND_INTEGER) {
        const double lowest = qs_format_lowest(operand->format);
        return floor(uniform * (operand->format->max - lowest + 1)) + lowest;
    }
    switch (operand->role) {
    case QS_SRC_STEP:
    case QS_SRC2_STEP:
    case QS_WEIGHTS_STEP:
    case QS_DST_STEP:
    case QS_DIFF_DST_STEP:
        return 0.01 * (0.5 + uniform);
    case QS_VARIANCE:
    case QS_DEVIATION:
    case QS_RUNNING_VARIANCE:
    case QS_RUNNING_DEVIATION:
        return 0.5 + uniform;
    case QS_SCALE:
        return 1 + 0.25 * normal;
    case QS_ABSMAX:
        return 2 + uniform; /* some normal values lie beyond: they clamp */
    case QS_SECOND_MOMENT:
        return normal * normal;
    case QS_FLAG:
        return 1;
    default:
        return normal;
    }
}

/* A max_pool mask that points into the image: places as a forward pass could have found them. */
static inline void fill_pool_mask(bound *b, int8_t *mask, uint64_t key) {
    const qs_attributes *with = &b->one.attributes;
    int image = qs_case_position(&b->one, QS_DIFF_SRC), result = qs_case_position(&b->one, QS_DIFF_DST);
    const qs_shape *src = &b->one.operand[image].shape, *dst = &b->one.operand[result].shape;
    int64_t channels = src->dim[1];
    for (int64_t i = 0; i < qs_shape_count(dst); i++) {
        int64_t ow = i / channels % dst->dim[3], oh = i / channels / dst->dim[3] % dst->dim[2];
        for (uint64_t draw = 0;; draw++) {
            int64_t place = qs_random_bits(key + draw, (uint64_t)i) % (uint32_t)(with->kernel[0] * with->kernel[1]);
            int64_t h = oh * with->stride[0] - with->padding[0] + place / with->kernel[1] * with->dilation[0];
            int64_t w = ow * with->stride[1] - with->padding[1] + place % with->kernel[1] * with->dilation[1];
            if (h < 0 || w < 0 || h >= src->dim[2] || w >= src->dim[3]) continue;
            mask[i] = (int8_t)place;
            break;
        }
    }
}

static inline bool is_one_of(const char *name, const char *const *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!strcmp(name, list[i])) return true;
    return false;
}

/* A value that the operator is defined at, and not close to where it is not: positive where it takes a root or a logarithm, no small
 * divisor. */
static inline double value_within(const qs_op *op, qs_role role, double value) {
    static const char *const positive[] = {"log", "sqrt", "power", "reciprocal"};
    if (role == QS_SRC && is_one_of(op->name, positive, COUNT_OF(positive))) return 0.5 + fabs(value);
    return role == QS_SRC2 && !strcmp(op->name, "divide") ? copysign(0.5 + fabs(value), value) : value;
}

static inline void bound_fill_operand(bound *b, int position, uint64_t seed) {
    const qs_operand *operand = &b->one.operand[position];
    qs_tensor *tensor = &b->operands[position];
    uint64_t key = qs_random_key(seed, 0, (uint64_t)position, 77);
    int64_t count = qs_shape_count(&operand->shape);
    if (operand->role == QS_LABELS) {
        const qs_logits logits = qs_case_logits(&b->one);
        for (int64_t i = 0; i < count; i++) {
            const int32_t label = (int32_t)(qs_random_bits(key, (uint64_t)i) % (uint32_t)logits.classes);
            ((int32_t *)tensor->data)[i] = logits.ignores && i % 5 == 4 ? -1 : label;
        }
        return;
    }
    if (operand->role == QS_IDS) { /* rows of a table, or positions of a sequence */
        const double table = b->one.attributes.vocabulary;
        const int whole = qs_case_position(&b->one, qs_case_position(&b->one, QS_SRC) >= 0 ? QS_SRC : QS_DIFF_SRC);
        const int64_t rows = table > 0 ? (int64_t)table : b->one.operand[whole].shape.dim[2];
        for (int64_t i = 0; i < count; i++)
            ((int32_t *)tensor->data)[i] = (int32_t)(qs_random_bits(key, (uint64_t)i) % (uint32_t)rows);
        return;
    }
    if (operand->role == QS_KEEP) { /* most positions; of a third sample none */
        for (int64_t i = 0; i < count; i++)
            ((int32_t *)tensor->data)[i] = i / operand->shape.dim[1] != 2 && qs_random_bits(key, (uint64_t)i) % 4 != 0;
        return;
    }
    if (operand->role == QS_PLACE) { /* so that the positions at hand, those of src or diff_dst, are the last ones */
        const int64_t positions = b->one.operand[0].shape.dim[2];
        const double rows = b->one.attributes.context + b->one.attributes.vocabulary - b->one.attributes.offset;
        *(int32_t *)tensor->data = rows > 0 ? (int32_t)rows - (int32_t)positions : 1000;
        return;
    }
    if (operand->role == QS_MASK && strcmp(b->one.op->name, "max_pool") == 0 && qs_case_position(&b->one, QS_DIFF_SRC) >= 0) {
        fill_pool_mask(b, tensor->data, key);
        return;
    }
    if (operand->role == QS_SRC_GROUP || operand->role == QS_DIFF_DST_GROUP || operand->role == QS_DST_GROUP) {
        const uint32_t groups = b->one.attributes.shifts > 0 ? (uint32_t)b->one.attributes.shifts : 4;
        for (int64_t i = 0; i < count; i++)
            ((int8_t *)tensor->data)[i] = (int8_t)(qs_random_bits(key, (uint64_t)i) % groups);
        return;
    }
    float *values = malloc((size_t)count * sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < count; i++)
        values[i] = (float)value_within(b->one.op, operand->role, role_value(operand, key, (uint64_t)i));
    tensor_store(tensor, values);
    free(values);
}

/* Fills every operand, also those the pass will write. */
static inline void bound_fill(bound *b, uint64_t seed) {
    for (int i = 0; i < b->one.operands; i++) {
        if (b->one.operand[i].format) bound_fill_operand(b, i, seed);
    }
}

/* ---- Life ---- */

static inline qs_run usual_run(int64_t samples) {
    return (qs_run){.seed = 1,
                    .step = 2,
                    .operator_id = 3,
                    .stream = 4,
                    .first_sample = 0,
                    .samples = samples,
                    .global_samples = samples,
                    .loss_scale = 1,
                    .learning_rate = 0.1};
}

static inline void bound_make(bound *b, const qs_case *one, uint64_t seed) {
    assert_ok(qs_case_check(one));
    memset(b, 0, sizeof *b);
    b->one = *one;
    b->run = usual_run(one->operand[0].shape.dim[0]);
    for (int i = 0; i < one->operands; i++) {
        const qs_operand *operand = &one->operand[i];
        if (!operand->format) continue;
        size_t bytes = qs_tensor_bytes(&operand->shape, operand->format);
        unsigned char *block = aligned_alloc(GUARD, (bytes + 3 * GUARD) / GUARD * GUARD);
        assert_non_null(block);
        memset(block, GUARD_BYTE, (bytes + 3 * GUARD) / GUARD * GUARD);
        b->operands[i] = (qs_tensor){.shape = operand->shape, .format = operand->format, .data = block + GUARD};
    }
    bound_fill(b, seed);
}

static inline void bound_parse(bound *b, const char *text, uint64_t seed) {
    qs_case one;
    assert_ok(qs_case_parse(text, &one));
    bound_make(b, &one, seed);
}

static inline void bound_check_guards(const bound *b) {
    for (int i = 0; i < b->one.operands; i++) {
        if (!b->one.operand[i].format) continue;
        const unsigned char *data = b->operands[i].data, *behind = data + tensor_bytes(&b->operands[i]);
        for (int g = 1; g <= GUARD; g++) {
            if (data[-g] == GUARD_BYTE && behind[g - 1] == GUARD_BYTE) continue;
            fail_msg("%s/%s wrote outside operand %s", b->one.op->name, b->one.pass->name, qs_role_name(b->one.operand[i].role));
        }
    }
}

static inline void bound_release(bound *b) {
    bound_check_guards(b);
    for (int i = 0; i < b->one.operands; i++) {
        if (b->one.operand[i].format) free((unsigned char *)b->operands[i].data - GUARD);
    }
}

static inline void bound_run(bound *b) {
    assert_ok(qs_case_reference(&b->one, b->operands, &b->run));
}

/* Copies the operands of `from` that `to` has under the same role; shapes must agree, values are converted. */
static inline void bound_share(bound *to, bound *from) {
    for (int i = 0; i < to->one.operands; i++) {
        qs_tensor *source = to->one.operand[i].format ? bound_tensor(from, to->one.operand[i].role) : NULL;
        if (!source) continue;
        assert_true(qs_shape_equal(&source->shape, &to->operands[i].shape));
        if (source->format == to->operands[i].format) {
            memcpy(to->operands[i].data, source->data, tensor_bytes(source));
            continue;
        }
        float *values = tensor_values(source);
        tensor_store(&to->operands[i], values);
        free(values);
    }
}

/* ---- The absmax that passes write beside a result ---- */

static inline bool is_absmax_beside(const qs_case *one, int position) {
    return one->operand[position].role == QS_ABSMAX && one->op->kind != QS_AUXILIARY;
}

/* Where a case has it, it must be the largest magnitude of what the pass stored, whatever that is. */
static inline void check_absmax_beside(const qs_case *one, const qs_tensor *operands, const char *what) {
    const int absmax = qs_case_position(one, QS_ABSMAX), dst = qs_case_position(one, QS_DST);
    if (absmax < 0 || !one->operand[absmax].format || !is_absmax_beside(one, absmax)) return;
    const qs_tensor *stored = &operands[dst >= 0 ? dst : qs_case_position(one, QS_DIFF_SRC)];
    const int64_t count = qs_shape_count(&stored->shape);
    float *values = malloc((size_t)count * sizeof *values), largest = 0;
    assert_non_null(values);
    qs_convert_to_fp32(stored->format, count, stored->data, values);
    for (int64_t i = 0; i < count; i++)
        largest = fmaxf(largest, fabsf(values[i]));
    free(values);
    const float found = *(const float *)operands[absmax].data;
    if (found != largest) fail_msg("%s: absmax is %.9g, of what is stored %.9g", what, (double)found, (double)largest);
}

/* ---- Values by hand ---- */

/* The case, of fp32 alone, makes of the values `from` of one operand the values `to` of another, bit for bit. */
static inline void check_by_hand(const char *text, qs_role source, const float *from, qs_role result, const float *to) {
    bound b;
    bound_parse(&b, text, 61);
    memcpy(bound_fp32(&b, source), from, tensor_bytes(bound_tensor(&b, source)));
    bound_run(&b);
    assert_memory_equal(bound_fp32(&b, result), to, tensor_bytes(bound_tensor(&b, result)));
    bound_release(&b);
}

/* ---- Properties of a case list ---- */

/* Text and back, checks, guards, operands that may only be read, equal bits in a second run and with other threads. */
static inline void check_one_case(const char *text) {
    char printed[QS_CASE_TEXT];
    bound b, again;
    bound_parse(&b, text, 5);
    assert_string_equal(qs_case_text(&b.one, printed), text);
    assert_true(qs_case_flops(&b.one) > 0);
    assert_true(qs_case_bytes(&b.one) > 0);
    bound_parse(&again, text, 5);
    bound_run(&b);
    check_absmax_beside(&b.one, b.operands, text);
    assert_ok(qs_threads_set(3));
    bound_run(&again);
    assert_ok(qs_threads_set(1));
    bound fresh;
    bound_parse(&fresh, text, 5);
    for (int i = 0; i < b.one.operands; i++) {
        if (!b.one.operand[i].format) continue;
        size_t bytes = tensor_bytes(&b.operands[i]);
        assert_memory_equal(b.operands[i].data, again.operands[i].data, bytes);
        if (!qs_pass_writes(b.one.pass, i)) assert_memory_equal(b.operands[i].data, fresh.operands[i].data, bytes);
    }
    bound_release(&b);
    bound_release(&again);
    bound_release(&fresh);
}

/* The case with fp32 in place of every other float format; false when nothing changes or an operand is integer (masks aside). */
static inline bool fp32_twin(const qs_case *one, qs_case *twin) {
    const qs_format *fp32 = qs_format_of("fp32");
    bool differs = false;
    *twin = *one;
    for (int i = 0; i < one->operands; i++) {
        qs_operand *operand = &twin->operand[i];
        if (!operand->format || operand->role == QS_MASK) continue;
        if (operand->format->kind == QS_KIND_INTEGER) return false;
        differs |= operand->format != fp32;
        operand->format = fp32;
    }
    return differs;
}

/* With 16-bit storage the result is the fp32 result of the same (decoded) operands, rounded once: bit for bit, since sums are double. */
static inline void check_one_storage(const char *text) {
    qs_case twin;
    bound narrow, wide;
    bound_parse(&narrow, text, 6);
    if (!fp32_twin(&narrow.one, &twin)) {
        bound_release(&narrow);
        return;
    }
    bound_make(&wide, &twin, 6);
    bound_share(&wide, &narrow);
    bound_run(&narrow);
    bound_run(&wide);
    for (int i = 0; i < twin.operands; i++) {
        const qs_format *format = narrow.one.operand[i].format;
        if (!qs_pass_writes(twin.pass, i) || !format || is_absmax_beside(&twin, i)) continue;
        if (twin.operand[i].role == QS_MASK && twin.attributes.relu) continue; /* of rounded values: roundings to the ceiling differ */
        float *expected = tensor_values(&wide.operands[i]), *got = tensor_values(&narrow.operands[i]);
        int64_t count = qs_shape_count(&wide.operands[i].shape);
        if (format->kind == QS_KIND_FLOAT) {
            qs_round_array(format, QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, (qs_random_stream){0}, count, expected, expected);
        }
        assert_close(count, got, expected, 0, 0, text);
        free(expected);
        free(got);
    }
    bound_release(&narrow);
    bound_release(&wide);
}

static inline void check_cases(const char *name) {
    const qs_op *op = qs_op_of(name);
    for (const char *const *text = op->cases; *text; text++) {
        check_one_case(*text);
        if (op->kind != QS_AUXILIARY) check_one_storage(*text);
    }
}

/* ---- Finite differences ---- */

static inline qs_role differentiated(qs_role role) {
    switch (role) {
    case QS_DIFF_SRC:
        return QS_SRC;
    case QS_DIFF_SRC2:
        return QS_SRC2;
    case QS_DIFF_SRC3:
        return QS_SRC3;
    case QS_DIFF_DST:
        return QS_DST;
    case QS_DIFF_WEIGHTS:
        return QS_WEIGHTS;
    case QS_DIFF_BIAS:
        return QS_BIAS;
    case QS_DIFF_SCALE:
        return QS_SCALE;
    case QS_DIFF_SHIFT:
        return QS_SHIFT;
    default:
        return role;
    }
}

/* The forward case whose gradient a backward case is. */
static inline qs_case forward_of(const qs_case *backward) {
    const qs_format *fp32 = qs_format_of("fp32");
    qs_case forward = qs_case_make(backward->op->name, "forward", &backward->attributes);
    for (int i = 0; i < backward->operands; i++) {
        const qs_operand *operand = &backward->operand[i];
        qs_role role = differentiated(operand->role);
        if (operand->format && qs_case_position(&forward, role) >= 0) qs_case_bind(&forward, role, operand->shape, operand->format);
    }
    for (int i = 0; i < forward.operands; i++) {
        qs_role role = forward.operand[i].role;
        if (role != QS_RUNNING_MEAN && role != QS_RUNNING_VARIANCE && role != QS_RUNNING_DEVIATION) continue;
        qs_case_bind(&forward, role, forward.operand[qs_case_position(&forward, QS_MEAN)].shape, fp32);
    }
    if (qs_case_position(&forward, QS_LOSS) >= 0) qs_case_bind(&forward, QS_LOSS, qs_shape_of(1, 2), fp32);
    return forward;
}

/* Values whose order and sign survive a step of ±1/32: `different` multiples of 1/8, none of them 0, in random order. */
static inline void fill_far_from_kinks(float *values, int64_t count, int64_t different) {
    int64_t *order = malloc((size_t)count * sizeof *order);
    assert_non_null(order);
    qs_random_permutation(12, count, order);
    for (int64_t i = 0; i < count; i++)
        values[i] = 0.125f * ((float)(order[i] % different - different / 2) + 0.5f);
    free(order);
}

/* Values that stay on their side of the mean of their channel, or of their position: a third of them about 2, the others about -1. */
static inline void fill_far_from_means(float *values, int64_t count, int64_t channels, bool of_position) {
    for (int64_t i = 0; i < count; i++)
        values[i] = ((of_position ? i % channels : i / channels) % 3 ? -1.0f : 2.0f) + 0.5f * (qs_random_uniform(13, (uint64_t)i) - 0.5f);
}

/* Σ r y of the forward results at src role + step × direction; *rounding grows by what fp32 storage of y may contribute. */
static inline double objective(bound *forward, qs_role output, const float *r, qs_role input, const float *origin, const float *direction,
                               float step, double *rounding) {
    float *values = bound_fp32(forward, input);
    for (int64_t i = 0; i < bound_count(forward, input); i++)
        values[i] = origin[i] + step * direction[i];
    bound_run(forward);
    const float *y = bound_fp32(forward, output);
    double sum = 0;
    for (int64_t i = 0; i < bound_count(forward, output); i++) {
        sum += (double)r[i] * (double)y[i];
        *rounding += 0x1p-24 * fabs((double)r[i] * (double)y[i]);
    }
    return sum;
}

/* One gradient along one direction of ±1: central differences D(h), D(2h), extrapolated to D(h) + (D(h) - D(2h))/3. What the
 * extrapolation leaves is smaller than |D(h) - D(2h)|; storage of y adds its half ulps / h; that of the gradient, and of the fp32 mean
 * and variance it is formed from, a few ulps of each term. The sum of these is the tolerance, and must itself be small. */
static inline void check_direction(bound *forward, qs_role output, const float *r, qs_role input, const float *gradient, const char *text) {
    int64_t count = bound_count(forward, input);
    float *origin = malloc((size_t)count * sizeof *origin), *direction = malloc((size_t)count * sizeof *direction);
    assert_true(origin && direction);
    memcpy(origin, bound_fp32(forward, input), (size_t)count * sizeof *origin);
    double expected = 0, norm = 0, terms = 0, rounding = 0;
    for (int64_t i = 0; i < count; i++) {
        direction[i] = qs_random_bits(99, (uint64_t)i) & 1 ? 1 : -1;
        origin[i] = roundf(origin[i] * 0x1p16f) * 0x1p-16f; /* steps are then exact */
        expected += (double)gradient[i] * (double)direction[i];
        terms += fabs((double)gradient[i]);
        norm += (double)gradient[i] * (double)gradient[i];
    }
    const float h = 0x1p-7f;
    double once = objective(forward, output, r, input, origin, direction, h, &rounding);
    once = (once - objective(forward, output, r, input, origin, direction, -h, &rounding)) / (2 * (double)h);
    double twice = objective(forward, output, r, input, origin, direction, 2 * h, &rounding);
    twice = (twice - objective(forward, output, r, input, origin, direction, -2 * h, &rounding)) / (4 * (double)h);
    double estimate = once + (once - twice) / 3;
    double tolerance = fabs(once - twice) + rounding / (double)h + 0x1p-18 * terms;
    if (norm > 0 && !(tolerance < 0.05 * sqrt(norm))) {
        fail_msg("%s: %s: a tolerance of %.3g for a gradient of norm %.3g tells nothing", text, qs_role_name(input), tolerance, sqrt(norm));
    }
    if (!(fabs(estimate - expected) <= tolerance)) {
        fail_msg("%s: %s: derivative %.9g by differences, %.9g by the pass (allowed %.3g)", text, qs_role_name(input), estimate, expected,
                 tolerance);
    }
    memcpy(bound_fp32(forward, input), origin, (size_t)count * sizeof *origin);
    free(origin);
    free(direction);
}

static inline void check_gradient_with(const char *text, double label_smoothing) {
    bound backward, forward;
    bound_parse(&backward, text, 7);
    qs_case one = forward_of(&backward.one);
    bound_make(&forward, &one, 8);
    forward.run.label_smoothing = backward.run.label_smoothing = label_smoothing;
    bool loss = qs_case_position(&one, QS_LOSS) >= 0;
    qs_role output = loss ? QS_LOSS : QS_DST;
    if (loss) backward.run.global_samples = 1; /* the pass then gives the gradient of the sum */
    float ones[2] = {1, 0}, *r = loss ? ones : bound_fp32(&backward, QS_DIFF_DST);
    const bool has_src = qs_case_position(&one, QS_SRC) >= 0;
    float *src = has_src ? bound_fp32(&forward, QS_SRC) : NULL;
    int64_t count = has_src ? bound_count(&forward, QS_SRC) : 0;
    static const char *const ordered[] = {"max_pool", "reduce_max"};
    static const char *const bent[] = {"relu",       "leaky_relu", "elu",   "selu",    "abs",    "hard_sigmoid",
                                       "hard_swish", "clip",       "prelu", "minimum", "maximum"};
    if (is_one_of(one.op->name, ordered, COUNT_OF(ordered))) fill_far_from_kinks(src, count, count);
    if (is_one_of(one.op->name, bent, COUNT_OF(bent))) { /* small values: y is then known closely */
        fill_far_from_kinks(src, count, 64);
        for (int64_t i = 0; i < count && qs_case_position(&one, QS_SRC2) >= 0; i++) /* between those of src */
            bound_fp32(&forward, QS_SRC2)[i] = 0.125f * roundf(8 * bound_fp32(&forward, QS_SRC2)[i]);
    }
    if (one.op->norm && one.op->norm->absolute) fill_far_from_means(src, count, one.operand[0].shape.dim[1], one.op->norm->per_position);
    for (int i = 0; i < one.operands; i++) { /* the origins check_direction will step from */
        const qs_role role = one.operand[i].role;
        if (!one.operand[i].format || qs_role_is_integers(role) || role == QS_MASK) continue;
        float *values = forward.operands[i].data;
        for (int64_t k = 0; k < qs_shape_count(&one.operand[i].shape); k++)
            values[k] = roundf(values[k] * 0x1p16f) * 0x1p-16f;
    }
    bound_run(&forward);
    bound_share(&backward, &forward);
    bound_run(&backward);
    for (int i = 0; i < backward.one.operands; i++) {
        qs_role gradient = backward.one.operand[i].role;
        if (!qs_pass_writes(backward.one.pass, i) || !backward.one.operand[i].format || gradient == QS_ABSMAX) continue;
        check_direction(&forward, output, r, differentiated(gradient), bound_fp32(&backward, gradient), text);
    }
    bound_release(&backward);
    bound_release(&forward);
}

static inline void check_one_gradient(const char *text) {
    qs_case one;
    assert_ok(qs_case_parse(text, &one));
    check_gradient_with(text, 0);
    if (one.op->class_axis > 0) check_gradient_with(text, 0.3);
}

/* Every backward case in fp32 against central differences of its forward. */
static inline void check_gradients(const char *name) {
    const qs_op *op = qs_op_of(name);
    int checked = 0;
    for (const char *const *text = op->cases; *text; text++) {
        if (strstr(*text, "/forward") || strstr(*text, "/inference") || strstr(*text, "=bf16") || strstr(*text, "=fp16") ||
            strstr(*text, "=tf32") || strstr(*text, " relu") || strstr(*text, "_step=") || strstr(*text, " diff_dst2=") ||
            strstr(*text, " to=int"))
            continue; /* relu: its kink; the operator relu's own test, also of gradients in two parts; codes have no differences */
        check_one_gradient(*text);
        checked++;
    }
    assert_true(checked > 0);
}

/* A case that keeps the grammar and breaks a rule. */
static inline void expect_refused(const char *text, const char *reason) {
    qs_case one;
    assert_ok(qs_case_parse(text, &one));
    if (qs_case_check(&one) != QS_USAGE) fail_msg("taken: %s", text);
    if (!strstr(qs_message(), reason)) fail_msg("\"%s\" is not in: %s", reason, qs_message());
}

#endif
