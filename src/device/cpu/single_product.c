// SPDX-License-Identifier: Apache-2.0
/* One product by itself, see qsync/single_product.h: weights in the layout that the library asks for, results scaled and stored as in a
 * training step. */
#include "cpu/convert/hadamard.h"
#include "cpu/integer/product.h"
#include "backend.h"
#include "qsync/single_product.h"

#include <stdlib.h>
#include <string.h>

enum { SHIFTS = 4, HADAMARD = 16, KEY = 11 };

struct qs_single_product {
    qs__cpu *cpu;
    qs_single_product_shape shape;
    const qs_format *format;
    bool integer;
    int shifts, hadamard; /* hadamard: block of the transform; 1: none */
    qs__product own;      /* by our own kernels; shifts 0: not this kind */
    qs__chain *taken;     /* what the device chooses; NULL: not this kind */
    int64_t input_count, weights_count;
    qs__work *product, *pack;
    qs__work *direct; /* of matrices: takes weights as they lie, which is faster than packing them for one product */
    float *weights, *range, *factors;
    uint16_t *input; /* bf16 */
    void *operand, *codes, *packed, *result, *scratch, *direct_scratch;
    uint8_t *group, *lift;
    uint8_t *power; /* of a row of weights: what it is multiplied by, where the input has no room for all shifts */
    char name[64];
};

static int64_t padding_of(const qs_single_product_shape *s) {
    return s->stride == s->kernel ? 0 : s->kernel / 2;
}

static int64_t out_extent(const qs_single_product_shape *s, int64_t extent) {
    return (extent + 2 * padding_of(s) - s->kernel) / s->stride + 1;
}

static bool is_matrix(const qs_single_product_shape *s) {
    return s->height * s->width * s->kernel == 1;
}

/* ---- Layouts ---- */

typedef struct layouts {
    qs__layout src, plain, free, dst, factors;
} layouts;

static layouts matrix_layouts(const qs_single_product_shape *s, qs__type type, qs__type dst) {
    const int64_t k = s->channels, n = s->outputs;
    return (layouts){.src = qs__layout_of(2, (int64_t[]){s->batch, k}, type, (int64_t[]){k, 1}),
                     .plain = qs__layout_of(2, (int64_t[]){k, n}, type, (int64_t[]){1, k}),
                     .free = qs__layout_of(2, (int64_t[]){k, n}, type, NULL),
                     .dst = qs__layout_of(2, (int64_t[]){s->batch, n}, dst, (int64_t[]){n, 1}),
                     .factors = qs__layout_of(2, (int64_t[]){1, n}, QS__FP32, (int64_t[]){n, 1})};
}

static layouts image_layouts(const qs_single_product_shape *s, qs__type type, qs__type dst) {
    const qs_shape src = qs_shape_of(4, s->batch, s->channels, s->height, s->width),
                   one = qs_shape_of(4, (int64_t)1, s->outputs, (int64_t)1, (int64_t)1);
    const qs_shape out = qs_shape_of(4, s->batch, s->outputs, out_extent(s, s->height), out_extent(s, s->width));
    const qs_shape weights = qs_shape_of(4, s->outputs, s->channels, s->kernel, s->kernel);
    return (layouts){.src = qs__cpu_activation(&src, type),
                     .plain = qs__cpu_weights(&weights, 1, type, false),
                     .free = qs__cpu_weights(&weights, 1, type, true),
                     .dst = qs__cpu_activation(&out, dst),
                     .factors = qs__cpu_activation(&one, QS__FP32)};
}

static qs_status plan(qs_single_product *p, const layouts *l) {
    const int64_t padding = padding_of(&p->shape);
    const qs__work_request request = {.kind = is_matrix(&p->shape) ? QS__MATMUL : QS__CONVOLUTION,
                                      .src = &l->src,
                                      .weights = &l->free,
                                      .dst = &l->dst,
                                      .factors = p->integer ? &l->factors : NULL,
                                      .step = {p->shape.stride, p->shape.stride},
                                      .padding = {padding, padding},
                                      .padding_behind = {padding, padding}};
    QS_TRY(qs__work_plan(p->cpu->library, &request, &p->product));
    const qs__layout wanted = qs__work_layout(p->product, QS__ARGUMENT_WEIGHTS);
    QS_TRY(qs__work_plan_reorder(p->cpu->library, &l->plain, &wanted, &p->pack));
    snprintf(p->name, sizeof p->name, "%s", qs__work_name(p->product));
    if (!is_matrix(&p->shape)) return QS_OK;
    qs__work_request plain = request;
    plain.weights = &l->plain;
    return qs__work_plan(p->cpu->library, &plain, &p->direct);
}

/* ---- Memory ---- */

static qs_status room(size_t bytes, void **out) {
    *out = aligned_alloc(64, (bytes + 127) / 64 * 64);
    if (!*out) return qs_fail(QS_OUT_OF_MEMORY, "%zu bytes for a product by itself", bytes);
    memset(*out, 1, bytes);
    return QS_OK;
}

/* The same operands but for the weights and the scratch. */
static qs_status reserve_direct(qs_single_product *p, const layouts *l, const qs__work_memory *product) {
    const qs__layout scratch = qs__work_layout(p->direct, QS__ARGUMENT_SCRATCH);
    qs__work_memory memory[QS__ARGUMENT_COUNT];
    memcpy(memory, product, sizeof memory);
    QS_TRY(room(qs__layout_bytes(&scratch), &p->direct_scratch));
    memory[QS__ARGUMENT_WEIGHTS] = (qs__work_memory){&l->plain, p->codes};
    memory[QS__ARGUMENT_SCRATCH] = (qs__work_memory){qs__layout_bytes(&scratch) ? &scratch : NULL, p->direct_scratch};
    return qs__work_prepare(p->direct, memory);
}

static qs_status reserve(qs_single_product *p, const layouts *l) {
    const qs__layout wanted = qs__work_layout(p->product, QS__ARGUMENT_WEIGHTS),
                     scratch = qs__work_layout(p->product, QS__ARGUMENT_SCRATCH);
    const qs__layout room_of_pack = qs__work_layout(p->pack, QS__ARGUMENT_SCRATCH);
    size_t bytes = qs__layout_bytes(&scratch), more = qs__layout_bytes(&room_of_pack);
    QS_TRY(room(qs__layout_bytes(&l->src), &p->operand));
    QS_TRY(room(qs__layout_bytes(&l->plain), &p->codes));
    QS_TRY(room(qs__layout_bytes(&wanted), &p->packed));
    QS_TRY(room(qs__layout_bytes(&l->dst), &p->result));
    QS_TRY(room(bytes > more ? bytes : more, &p->scratch));
    const qs__work_memory product[QS__ARGUMENT_COUNT] = {[QS__ARGUMENT_SRC] = {&l->src, p->operand},
                                                         [QS__ARGUMENT_WEIGHTS] = {&wanted, p->packed},
                                                         [QS__ARGUMENT_DST] = {&l->dst, p->result},
                                                         [QS__ARGUMENT_FACTORS] = {p->integer ? &l->factors : NULL, p->factors},
                                                         [QS__ARGUMENT_SCRATCH] = {bytes ? &scratch : NULL, p->scratch}};
    const qs__work_memory pack[QS__ARGUMENT_COUNT] = {[QS__ARGUMENT_SRC] = {&l->plain, p->codes},
                                                      [QS__ARGUMENT_DST] = {&wanted, p->packed},
                                                      [QS__ARGUMENT_SCRATCH] = {more ? &room_of_pack : NULL, p->scratch}};
    QS_TRY(qs__work_prepare(p->product, product));
    QS_TRY(qs__work_prepare(p->pack, pack));
    return p->direct ? reserve_direct(p, l, product) : QS_OK;
}

/* Channels of unlike ranges, so that there are groups. */
static qs_status draw(qs_single_product *p) {
    const qs_single_product_shape *s = &p->shape;
    float *values = NULL;
    QS_TRY(room((size_t)p->weights_count * sizeof(float), (void **)&p->weights));
    QS_TRY(room((size_t)p->input_count * sizeof(uint16_t), (void **)&p->input));
    QS_TRY(room((size_t)s->channels * sizeof(float), (void **)&p->range));
    QS_TRY(room((size_t)s->outputs * sizeof(float), (void **)&p->factors));
    QS_TRY(room((size_t)s->channels, (void **)&p->group));
    QS_TRY(room((size_t)s->channels, (void **)&p->lift));
    QS_TRY(room((size_t)(p->weights_count / s->outputs), (void **)&p->power));
    QS_TRY(room((size_t)p->input_count * sizeof(float), (void **)&values));
    for (int64_t i = 0; i < p->weights_count; i++)
        p->weights[i] = (float)qs_random_uniform(KEY, (uint64_t)i) - 0.5f;
    for (int64_t i = 0; i < p->input_count; i++)
        values[i] = ((float)qs_random_uniform(KEY + 1, (uint64_t)i) - 0.5f) / (float)(1 << (i % s->channels % SHIFTS));
    qs_convert_from_fp32(qs_format_of("bf16"), QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, (qs_random_stream){0}, p->input_count, values,
                         p->input);
    free(values);
    return QS_OK;
}

/* ---- Stages ---- */

static qs_channel_layout input_layout(const qs_single_product *p) {
    return (qs_channel_layout){p->input_count / p->shape.channels, p->shape.channels, 1};
}

/* Values in blocks along the channels, which are last in memory. */
static qs__transformed transformed_of(const qs_single_product *p, qs__type type, const void *values, int64_t count) {
    return (qs__transformed){.src = {type, values}, .rows = {.rows = 1, .per_row = count, .key = KEY}, .block = p->hadamard};
}

static void transformed_quantize(const qs_single_product *p, const qs__transformed *values, float step, int8_t *dst) {
    const qs_quantizing quantizing = {.rounding = QS_STOCHASTIC, .channels = 1, .steps = &step, .codes = {.format = p->format}};
    qs__transformed_quantize(values, &quantizing, dst);
}

/* What the input's codes have no room for goes to the weights, whose last axis in memory is the input's channel. */
static void share_shifts(qs_single_product *p) {
    const int64_t row = p->weights_count / p->shape.outputs, channels = p->shape.channels;
    const int spare = qs__spare_bits(p->format);
    for (int64_t c = 0; c < channels; c++) {
        const int shift = p->shifts - 1 - p->group[c];
        p->lift[c] = (uint8_t)(shift < spare ? shift : spare);
        p->power[c] = (uint8_t)(1 << (shift - p->lift[c]));
    }
    for (int64_t k = channels; k < row; k++)
        p->power[k] = p->power[k - channels];
}

static void find_groups(qs_single_product *p) {
    if (p->shifts == 1) {
        for (int64_t c = 0; c < p->shape.channels; c++)
            p->range[c] = 0;
        const qs__transformed values = transformed_of(p, QS__BF16, p->input, p->input_count);
        p->range[0] = p->hadamard == 1 ? qs_absmax_bf16_array(p->input_count, p->input) : qs__transformed_absmax(&values);
    } else {
        qs_channel_ranges_bf16(p->format, input_layout(p), p->input, p->range, NULL);
    }
    (void)qs_shift_groups(p->format, false, p->shifts, p->shape.channels, p->range, p->group);
    if (p->own.shifts) {
        memset(p->lift, 0, (size_t)p->shape.channels); /* our own kernels lift for themselves */
    } else {
        share_shifts(p);
    }
}

static void write_operand(qs_single_product *p) {
    if (p->integer && p->shifts == 1) {
        const float step = qs_step_of_absmax(p->format, p->range[0]);
        const qs__transformed values = transformed_of(p, QS__BF16, p->input, p->input_count);
        if (p->hadamard > 1)
            transformed_quantize(p, &values, step, p->operand);
        else
            qs_quantize_bf16_array(p->format, QS_STOCHASTIC, (qs_random_stream){KEY, 0}, step, p->input_count, p->input, p->operand);
    } else if (p->integer) {
        float step = qs_shift_groups(p->format, false, p->shifts, p->shape.channels, p->range, p->group);
        const qs_shift_codes codes = {.format = p->format, .step = step, .group = p->group, .lift = p->lift};
        qs_shift_quantize_bf16(&codes, QS_STOCHASTIC, (qs_random_stream){KEY, 0}, input_layout(p), p->input, p->operand);
    }
}

static qs_status pack_weights(const qs_single_product *p) {
    return p->pack && !p->direct ? qs__work_run(p->cpu->library, p->pack) : QS_OK;
}

/* One step for all, as the recipe has it. */
static void write_transformed_weights(qs_single_product *p) {
    const qs__transformed values = transformed_of(p, QS__FP32, p->weights, p->weights_count);
    const float step = qs_step_of_absmax(p->format, qs__transformed_absmax(&values));
    for (int64_t o = 0; o < p->shape.outputs; o++)
        p->factors[o] = step;
    transformed_quantize(p, &values, step, p->codes);
}

static qs_status write_weights(qs_single_product *p) {
    const int64_t row = p->weights_count / p->shape.outputs;
    const bool lifts = !p->own.shifts && p->shifts - 1 > qs__spare_bits(p->format);
    if (!p->integer) {
        qs_convert_from_fp32(p->format, QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, (qs_random_stream){0}, p->weights_count, p->weights,
                             p->codes);
        return pack_weights(p);
    }
    if (p->hadamard > 1) {
        write_transformed_weights(p);
        return pack_weights(p);
    }
    for (int64_t o = 0; o < p->shape.outputs; o++) {
        const float step = qs_step_of_absmax(p->format, qs_absmax_array(row, p->weights + o * row));
        int8_t *codes = (int8_t *)p->codes + o * row;
        p->factors[o] = step;
        qs_quantize_array(p->format, QS_STOCHASTIC, (qs_random_stream){KEY, 0}, step, row, p->weights + o * row, codes);
        if (lifts) p->cpu->products->lift(row, false, p->power, codes, (uint8_t *)codes);
    }
    return pack_weights(p);
}

/* Lifting belongs to quantizing, as with the library's products, whose codes are written lifted; gathering to the product. */
static void run_own(qs_single_product *p, int stages) {
    const int staging = p->own.gathered ? QS_SINGLE_PRODUCT | QS_SINGLE_GATHER : QS_SINGLE_QUANTIZE;
    const qs__product_run run = {
        .stages = (stages & staging ? QS__STAGE : 0) | (stages & QS_SINGLE_WEIGHTS ? QS__PACK : 0) |
                  (stages & QS_SINGLE_PRODUCT ? QS__MULTIPLY : 0),
        .kernels = p->cpu->products,
        .left = p->operand,
        .right = p->codes,
        .left_group = p->shifts > 1 ? p->group : NULL,
        .left_step = 1,
        .right_step = p->factors,
        .right_steps = p->shape.outputs,
        .result = p->result,
        .scratch = p->scratch,
    };
    if (run.stages) qs__product_rows(&p->own, &run);
}

qs_status qs_single_product_run(qs_single_product *p, int stages) {
    if (stages & QS_SINGLE_GROUPS && p->integer) find_groups(p);
    if (stages & QS_SINGLE_QUANTIZE) write_operand(p);
    if (stages & QS_SINGLE_WEIGHTS) QS_TRY(write_weights(p));
    if (p->own.shifts) {
        run_own(p, stages);
        return QS_OK;
    }
    if (p->taken) { /* as in a training step: weights are packed, or transformed, inside */
        const qs_run run = {.samples = p->shape.batch, .global_samples = p->shape.batch, .loss_scale = 1};
        return stages & QS_SINGLE_PRODUCT ? qs__chain_run(p->taken, &run) : QS_OK;
    }
    const bool fresh = stages & QS_SINGLE_WEIGHTS && p->direct;
    return stages & QS_SINGLE_PRODUCT ? qs__work_run(p->cpu->library, fresh ? p->direct : p->product) : QS_OK;
}

/* ---- Life ---- */

/* "hadamard" is int4 with a transform, "int8:shift4" has groups, the others are formats. Otherwise of eight bits, and behind a transform,
 * there are no groups: one step for all. */
static qs_status fill_format(qs_single_product *p, const char *kind) {
    const bool transform = strcmp(kind, "hadamard") == 0, shifted = strcmp(kind, "int8:shift4") == 0;
    QS_TRY(qs_format_find(transform ? "int4" : shifted ? "int8" : kind, &p->format));
    QS_TRY(qs__cpu_multiplies(p->cpu, p->format));
    p->integer = p->format->kind == QS_KIND_INTEGER;
    p->shifts = p->integer && (p->format->bits < 8 || shifted) && !transform ? SHIFTS : 1;
    p->hadamard = transform ? qs_hadamard_block(HADAMARD, p->shape.channels) : 1;
    return QS_OK;
}

void qs_single_product_close(qs_single_product *p) {
    if (!p) return;
    void *const rooms[] = {p->weights, p->range,   p->factors,        p->input, p->operand, p->codes, p->packed,
                           p->result,  p->scratch, p->direct_scratch, p->group, p->lift,    p->power};
    qs__work_release(p->product);
    qs__work_release(p->pack);
    qs__work_release(p->direct);
    if (p->taken) qs__chain_release(p->taken);
    free(p->taken);
    for (size_t i = 0; i < sizeof rooms / sizeof rooms[0]; i++)
        free(rooms[i]);
    free(p);
}

static qs_status fill_own(qs_single_product *p, const char *kind, bool gathered) {
    const qs_single_product_shape *s = &p->shape;
    const int64_t height = out_extent(s, s->height), width = out_extent(s, s->width), padding = padding_of(s);
    QS_TRY(fill_format(p, kind));
    p->own = (qs__product){.pass = QS__FORWARD,
                           .size = {.batch = s->batch,
                                    .channels = s->channels,
                                    .height = s->height,
                                    .width = s->width,
                                    .outputs = s->outputs,
                                    .out_height = height,
                                    .out_width = width,
                                    .kernel = {s->kernel, s->kernel},
                                    .stride = {s->stride, s->stride},
                                    .dilation = {1, 1},
                                    .padding = {padding, padding},
                                    .groups = 1},
                           .left = p->format,
                           .right = p->format,
                           .shifts = p->shifts,
                           .gathered = gathered,
                           .result = p->cpu->bf16 ? QS__TILE_BF16 : QS__TILE_FP32};
    snprintf(p->name, sizeof p->name, "own:%s:%s", gathered ? "grouped_gemm" : "integer", p->cpu->products->name);
    QS_TRY(draw(p));
    QS_TRY(room((size_t)p->input_count, &p->operand));
    QS_TRY(room((size_t)p->weights_count, &p->codes));
    QS_TRY(room((size_t)(s->batch * s->outputs * height * width) * sizeof(float), &p->result));
    QS_TRY(room(qs__product_rows_scratch(&p->own, qs_threads()), &p->scratch));
    return qs_single_product_run(p, QS_SINGLE_ALL);
}

/* Forward, between operands of one format. */
static qs_case case_of(const qs_single_product *p) {
    const qs_single_product_shape *s = &p->shape;
    const int kernel = (int)s->kernel, stride = (int)s->stride, padding = (int)padding_of(s);
    const qs_attributes window = {.kernel = {kernel, kernel}, .stride = {stride, stride}, .padding = {padding, padding}};
    const bool matrix = is_matrix(s);
    const int64_t height = out_extent(s, s->height), width = out_extent(s, s->width);
    qs_case one = qs_case_make(matrix ? "linear" : "conv2d", "forward", matrix ? NULL : &window);
    const int axes = matrix ? 2 : 4;
    qs_case_bind(&one, QS_SRC, qs_shape_of(axes, s->batch, s->channels, s->height, s->width), p->format);
    qs_case_bind(&one, QS_WEIGHTS, qs_shape_of(axes, s->outputs, s->channels, s->kernel, s->kernel), p->format);
    qs_case_bind(&one, QS_DST, qs_shape_of(axes, s->batch, s->outputs, height, width), p->format);
    return one;
}

static qs_status fill_taken(qs_single_product *p) {
    QS_TRY(fill_format(p, "bf16"));
    const qs_case one = case_of(p);
    void *data[QS_MAX_OPERANDS] = {NULL};
    QS_TRY(qs_allocate(1, sizeof *p->taken, &p->taken));
    QS_TRY(qs__choose(p->cpu, &one, NULL, p->taken));
    snprintf(p->name, sizeof p->name, "%s", p->taken->name);
    QS_TRY(draw(p));
    QS_TRY(room((size_t)p->weights_count * sizeof(uint16_t), &p->codes));
    QS_TRY(room((size_t)qs__case_count(&one, QS_DST) * sizeof(uint16_t), &p->result));
    QS_TRY(room(p->taken->scratch_bytes, &p->scratch));
    data[qs_case_position(&one, QS_SRC)] = p->input;
    data[qs_case_position(&one, QS_WEIGHTS)] = p->codes;
    data[qs_case_position(&one, QS_DST)] = p->result;
    QS_TRY(qs__chain_prepare(p->taken, data, p->scratch));
    return qs_single_product_run(p, QS_SINGLE_ALL);
}

static qs_status fill(qs_single_product *p, const char *kind) {
    if (!strncmp(kind, "own ", 4)) return fill_own(p, kind + 4, false);
    if (!strncmp(kind, "grouped ", 8)) return fill_own(p, kind + 8, true);
    if (!strcmp(kind, "taken bf16")) return fill_taken(p);
    QS_TRY(fill_format(p, kind));
    if (p->shifts - 1 > 2 * qs__spare_bits(p->format))
        return qs_fail(QS_UNSUPPORTED, "%s by the kernel library: its codes fill their bytes", kind);
    qs__type type = qs__cpu_type(p->format), dst = type == QS__FP32 || !p->cpu->bf16 ? QS__FP32 : QS__BF16;
    const layouts l = is_matrix(&p->shape) ? matrix_layouts(&p->shape, type, dst) : image_layouts(&p->shape, type, dst);
    QS_TRY(draw(p));
    QS_TRY(plan(p, &l));
    QS_TRY(reserve(p, &l));
    QS_TRY(qs_single_product_run(p, QS_SINGLE_ALL));
    return qs__work_run(p->cpu->library, p->pack);
}

qs_status qs_single_product_open(qs_device *device, const qs_single_product_shape *shape, const char *kind, qs_single_product **out) {
    qs_single_product *p = NULL;
    qs__cpu *cpu = qs__device_state(device, &qs__device_cpu);
    if (!cpu) return qs_fail(QS_UNSUPPORTED, "single products are run by the device cpu only: open that");
    QS_TRY(qs_allocate(1, sizeof *p, &p));
    p->cpu = cpu;
    p->shape = *shape;
    p->input_count = shape->batch * shape->channels * shape->height * shape->width;
    p->weights_count = shape->outputs * shape->channels * shape->kernel * shape->kernel;
    const qs_status status = fill(p, kind);
    if (status != QS_OK) {
        qs_single_product_close(p);
        return qs_fail_within(status, "a product in %s", kind);
    }
    *out = p;
    return QS_OK;
}

const char *qs_single_product_kernel(const qs_single_product *p) {
    return p->name;
}
