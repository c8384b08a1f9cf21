// SPDX-License-Identifier: Apache-2.0
/* Products of a case's operands (product.h). */
#include "cuda/product.h"

#include <assert.h>

/* How the matrices of a case come to batches of calls: all at once; those of a head in all samples; those of a sample. */
enum { AT_ONCE, BY_HEAD, BY_SAMPLE };

enum { BYTES_UNIT = 16, FEWEST_ROWS = 32, PIECE_LEAST = 2048, TILE_SIDE = 128, RESULT_THREADS = 128 };

static int64_t round_up(int64_t value, int64_t unit) {
    return (value + unit - 1) / unit * unit;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t largest(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* ---- Places ----------------------------------------------------------------------------------------------------------------------- */

qs__place qs__operand_place(const qs_case *one, qs_role role) {
    return (qs__place){.operand = qs__case_has(one, role) ? qs_case_position(one, role) : QS__NOWHERE};
}

CUdeviceptr qs__place_at(const qs__cuda_kernel *kernel, qs__place place) {
    if (place.operand == QS__NOWHERE) return 0;
    return (place.operand == QS__SCRATCH ? kernel->scratch : kernel->operand[place.operand]) + place.offset;
}

static bool somewhere(qs__place place) {
    return place.operand != QS__NOWHERE;
}

qs__product_request qs__product_start(const qs_matmul *of) {
    const qs__place nowhere = {.operand = QS__NOWHERE};
    return (qs__product_request){.of = *of,
                                 .place = {nowhere, nowhere, nowhere},
                                 .step = {nowhere, nowhere},
                                 .right_steps = 1,
                                 .group = nowhere,
                                 .scale_group = {nowhere, nowhere},
                                 .bias = nowhere,
                                 .row_sums = nowhere,
                                 .alpha = 1};
}

/* The step of a factor. */
static qs__place step_of(const qs_case *one, qs_role factor) {
    return qs__operand_place(one, factor == QS_SRC       ? QS_SRC_STEP
                                  : factor == QS_SRC2    ? QS_SRC2_STEP
                                  : factor == QS_WEIGHTS ? QS_WEIGHTS_STEP
                                                         : QS_DIFF_DST_STEP);
}

qs__product_request qs__product_of_pass(const qs_case *one, const qs_matmul *of) {
    const qs_role role[3] = {of->left.role, of->right.role, of->result.role};
    qs__product_request out = qs__product_start(of);
    for (int i = 0; i < 3; i++) {
        out.place[i] = qs__operand_place(one, role[i]);
        out.format[i] = qs__case_format(one, role[i]);
    }
    for (int i = 0; i < 2; i++)
        out.step[i] = step_of(one, role[i]);
    if (somewhere(out.step[QS__RIGHT])) out.right_steps = qs_shape_count(&one->operand[out.step[QS__RIGHT].operand].shape);
    out.shifts = one->attributes.shifts;
    if (role[QS__RIGHT] == QS_WEIGHTS) {
        out.group = qs__operand_place(one, role[QS__LEFT] == QS_SRC ? QS_SRC_GROUP : QS_DIFF_DST_GROUP);
        out.bias = qs__operand_place(one, QS_BIAS);
    } else if (role[QS__RESULT] == QS_DIFF_WEIGHTS) {
        out.scale_group[0] = qs__operand_place(one, QS_DIFF_DST_GROUP);
        out.scale_group[1] = qs__operand_place(one, QS_SRC_GROUP);
    }
    return out;
}

/* ---- What the library multiplies ---------------------------------------------------------------------------------------------------- */

static bool is_byte_float(const qs_format *format) {
    const int type = qs__lt_type(format);
    return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2;
}

static bool is_tf32(const qs_format *format) {
    return format == qs_format_of("tf32");
}

/* Fills integers and bytes. */
static qs_status formats_check(const qs__cuda *cuda, const qs__product_request *is, qs__product *out) {
    const qs_format *left = is->format[QS__LEFT], *right = is->format[QS__RIGHT];
    const int type[2] = {qs__lt_type(left), qs__lt_type(right)};
    for (int i = 0; i < 2; i++)
        if (type[i] < 0)
            return qs_fail(QS_UNSUPPORTED, "cuBLASLt multiplies no %s: fp32, tf32, bf16, fp16, e4m3fn, e5m2 and integers of 8 bits or less",
                           is->format[i]->name);
    out->integers = left->kind == QS_KIND_INTEGER;
    out->bytes = out->integers || is_byte_float(left);
    if (is_byte_float(left) && is_byte_float(right)) {
        if (cuda->capability < 89)
            return qs_fail(QS_UNSUPPORTED, "products of %s need compute capability 8.9, this GPU has %d.%d", left->name,
                           cuda->capability / 10, cuda->capability % 10);
        if (type[0] == CUDA_R_8F_E5M2 && type[1] == CUDA_R_8F_E5M2)
            return qs_fail(QS_UNSUPPORTED, "cuBLASLt multiplies no e5m2 by e5m2: one of them has to be e4m3fn");
        return QS_OK;
    }
    if (type[0] != type[1] || (type[0] == CUDA_R_32F && left != right))
        return qs_fail(QS_UNSUPPORTED, "cuBLASLt multiplies factors of one format, not %s by %s", left->name, right->name);
    if ((type[0] == CUDA_R_16BF || is_tf32(left)) && cuda->capability < 80)
        return qs_fail(QS_UNSUPPORTED, "products of %s need compute capability 8.0, this GPU has %d.%d", left->name, cuda->capability / 10,
                       cuda->capability % 10);
    return QS_OK;
}

/* The library writes results of these factors in the format itself. */
static bool writes(const qs__product_request *is, const qs_format *format) {
    const int type = qs__lt_type(format), of = qs__lt_type(is->format[QS__LEFT]);
    if (is_tf32(format)) return false; /* it writes fp32, which is rounded behind it */
    if (is_byte_float(is->format[QS__LEFT])) return type == CUDA_R_32F || type == CUDA_R_16BF || type == CUDA_R_16F;
    return type == of || type == CUDA_R_32F;
}

/* ---- Bytes --------------------------------------------------------------------------------------------------------------------------- */

/* Into how many pieces the inner dimension is cut: so that int32 holds sums and, where results are few, so that they fill the GPU. */
static void pieces_find(const qs__cuda *cuda, const qs__product_request *is, qs__product *out, int64_t matrices) {
    const qs_matmul *of = &is->of;
    int64_t most = 1, pieces = 1;
    for (int i = 0; i < 2 && out->integers; i++) {
        const int64_t code = (int64_t)is->format[i]->max, lifted = i == QS__LEFT && somewhere(is->group) ? code << (is->shifts - 1) : code;
        out->limbs[i] = lifted <= INT8_MAX ? 1 : 2;
        most *= lifted <= INT8_MAX ? lifted : INT8_MAX;
    }
    const int64_t longest = INT32_MAX / most / BYTES_UNIT * BYTES_UNIT;
    const int64_t tiles = (of->rows + TILE_SIDE - 1) / TILE_SIDE * ((of->columns + TILE_SIDE - 1) / TILE_SIDE) * matrices;
    if (out->integers) {
        pieces = (of->inner + longest - 1) / longest;
        if (matrices == 1) pieces = largest(pieces, least((cuda->multiprocessors + tiles - 1) / tiles, of->inner / PIECE_LEAST));
    }
    out->pieces = pieces;
    out->piece = round_up((of->inner + pieces - 1) / pieces, BYTES_UNIT);
    for (int64_t more = pieces; of->inner % BYTES_UNIT == 0 && more <= 2 * pieces; more++) { /* equal ones need no filling up */
        if (of->inner % (more * BYTES_UNIT) != 0) continue;
        out->pieces = more;
        out->piece = of->inner / more;
        break;
    }
    out->padded_inner = out->pieces * out->piece;
}

/* Extents and layouts that the library takes, and which factors are written so first. */
static qs_status bytes_build(qs__cuda_kernel *kernel, const qs__product_request *is, qs__product *out) {
    const qs_matmul *of = &is->of;
    const int64_t matrices = of->samples * of->heads * of->summed;
    const qs_matrices *lie[2] = {&of->left, &of->right};
    pieces_find(kernel->cuda, is, out, matrices);
    out->piecewise = matrices > 1;
    out->padded_rows = largest(round_up(of->rows, BYTES_UNIT), FEWEST_ROWS);
    out->padded_columns = round_up(of->columns, BYTES_UNIT);
    for (int i = 0; i < 2; i++) {
        const int64_t extent = i == QS__LEFT ? of->rows : of->columns, padded = i == QS__LEFT ? out->padded_rows : out->padded_columns,
                      along = i == QS__LEFT ? lie[i]->column : lie[i]->row, next = i == QS__LEFT ? lie[i]->row : lie[i]->column;
        out->packs[i] = matrices > 1 || along != 1 || next % BYTES_UNIT != 0 || padded != extent || out->padded_inner != of->inner ||
                        out->limbs[i] > 1 || (i == QS__LEFT ? somewhere(is->group) : is->period > 0);
        if (!out->packs[i]) continue;
        out->packed[i] = qs__cuda_scratch(kernel, (size_t)(out->limbs[i] * matrices * padded * out->padded_inner));
        if (out->pack < 0) QS_TRY(qs__cuda_function(kernel, "product_pack", &out->pack));
    }
    return QS_OK;
}

static qs_status pack_run(const qs__cuda_kernel *kernel, const qs__product *product, int which) {
    const qs__product_request *is = &product->is;
    const qs_matmul *of = &is->of;
    const qs_matrices *lie = which == QS__LEFT ? &of->left : &of->right;
    const bool left = which == QS__LEFT;
    const qs__cuda_pack_job job = {.from = qs__place_at(kernel, is->place[which]),
                                   .to = kernel->scratch + product->packed[which],
                                   .samples = of->samples,
                                   .heads = of->heads * of->summed,
                                   .sample = lie->sample,
                                   .head = lie->head,
                                   .shared = lie->shared,
                                   .row = left ? lie->row : lie->column,
                                   .column = left ? lie->column : lie->row,
                                   .period = !left && is->period > 0 ? is->period : of->inner,
                                   .far = is->far,
                                   .rows = left ? of->rows : of->columns,
                                   .inner = of->inner,
                                   .padded_rows = left ? product->padded_rows : product->padded_columns,
                                   .padded_inner = product->padded_inner,
                                   .group = left ? qs__place_at(kernel, is->group) : 0,
                                   .group_head = is->by_head.group,
                                   .group_period = is->group_period > 0 ? is->group_period : of->inner,
                                   .shifts = is->shifts,
                                   .limbs = product->limbs[which]};
    const int64_t tiles = (job.padded_rows + QS__PACK_TILE - 1) / QS__PACK_TILE * ((job.padded_inner + QS__PACK_TILE - 1) / QS__PACK_TILE);
    return qs__cuda_launch(kernel, product->pack, job.samples * job.heads * tiles, QS__PACK_THREADS, 0, &job);
}

/* ---- Calls --------------------------------------------------------------------------------------------------------------------------- */

/* Where the library's three matrices lie: operands, packed ones, sums. */
static void lie_of(const qs__product *product, qs_matrices lie[3]) {
    const qs_matmul *of = &product->is.of;
    lie[QS__LEFT] = of->left;
    lie[QS__RIGHT] = of->right;
    lie[QS__RESULT] = of->result;
    const int64_t heads = of->heads * of->summed;
    for (int i = 0; i < 2; i++) {
        const int64_t matrix = (i == QS__LEFT ? product->padded_rows : product->padded_columns) * product->padded_inner;
        if (!product->packs[i]) continue;
        lie[i] = (qs_matrices){.sample = heads * matrix, .head = matrix, .row = product->padded_inner, .column = 1, .shared = 1};
        if (i == QS__RIGHT) lie[i].row = 1, lie[i].column = product->padded_inner;
    }
    if (!product->wide) return;
    const int64_t matrix = product->padded_rows * product->padded_columns, results = product->bytes ? heads : of->heads;
    lie[QS__RESULT] = (qs_matrices){.sample = results * matrix, .head = matrix, .row = product->padded_columns, .column = 1, .shared = 1};
}

/* Matrices of one call and, from one call to the next, which sample and head it begins with. */
typedef struct batches {
    int64_t count;     /* matrices of a call */
    int64_t calls;     /* but for those over `summed`, limbs and pieces */
    int64_t stride[3]; /* elements between its matrices */
} batches;

/* Heads of the result that its batch steps by: those that share a matrix of `right` are in other calls. */
static batches batches_of(const qs__product *product, const qs_matrices lie[3]) {
    const qs_matmul *of = &product->is.of;
    const int64_t summed = product->bytes ? 1 : of->summed, heads = product->bytes ? of->heads * of->summed : of->heads,
                  shared = lie[QS__RIGHT].shared;
    batches out = {.calls = 1};
    for (int i = 0; i < 3; i++) {
        const int64_t head = i == QS__RESULT ? lie[i].head : summed * lie[i].head;
        out.stride[i] = heads == 1 || product->walk == BY_HEAD ? lie[i].sample : head;
        if (product->walk == BY_SAMPLE && i != QS__RIGHT) out.stride[i] = shared * head;
    }
    out.count = product->walk == AT_ONCE ? of->samples * heads : product->walk == BY_HEAD ? of->samples : heads / shared;
    out.calls = product->walk == AT_ONCE ? 1 : product->walk == BY_HEAD ? heads : of->samples * shared;
    return out;
}

static int walk_of(const qs__product *product, const qs_matrices lie[3]) {
    const qs_matmul *of = &product->is.of;
    const int64_t summed = product->bytes ? 1 : of->summed, heads = product->bytes ? of->heads * of->summed : of->heads,
                  shared = lie[QS__RIGHT].shared;
    bool even = shared == 1;
    for (int i = 0; i < 3 && of->samples > 1; i++)
        even = even && lie[i].sample == heads * (i == QS__RESULT ? 1 : summed) * lie[i].head;
    if (heads == 1 || even) return AT_ONCE;
    return heads <= of->samples * shared ? BY_HEAD : BY_SAMPLE;
}

/* Elements before the first matrix of a call. */
static int64_t begin_of(const qs__product *product, const qs_matrices lie[3], int which, int64_t call, int64_t g) {
    const int64_t shared = lie[QS__RIGHT].shared, summed = product->bytes ? 1 : product->is.of.summed;
    const int64_t sample = product->walk == BY_SAMPLE ? call / shared : 0;
    const int64_t head = product->walk == BY_HEAD ? call : product->walk == BY_SAMPLE ? call % shared : 0;
    const int64_t of_which = which == QS__RESULT ? head : head * summed + g;
    return sample * lie[which].sample + of_which / lie[which].shared * lie[which].head;
}

static int64_t width_of(const qs__product *product, int which) {
    if (which == QS__RESULT && product->wide) return sizeof(float);
    return product->is.format[which]->bits == 32 ? 4 : product->is.format[which]->bits == 16 ? 2 : 1;
}

/* The largest power of two that divides it. */
static int64_t power_in(int64_t value) {
    return value & -value;
}

/* The largest power of two, 64 at most, that divides all addresses of a matrix: operands and scratch begin at multiples of 64. */
static int64_t alignment_of(const qs__product *product, const qs_matrices lie[3], const batches *by, int which) {
    int64_t all = 64 | (int64_t)product->is.place[which].offset | product->is.moves[which] |
                  (by->count > 1 ? by->stride[which] * width_of(product, which) : 0);
    for (int64_t call = 0; call < by->calls; call++)
        for (int64_t g = 0; g < product->is.of.summed && !product->bytes; g++)
            all |= begin_of(product, lie, which, call, g) * width_of(product, which);
    return power_in(all);
}

/* ---- Building ------------------------------------------------------------------------------------------------------------------------ */

/* Results go to scratch first. */
static bool is_wide(const qs__product *out) {
    const qs__product_request *is = &out->is;
    const qs_format *format = is->format[QS__RESULT];
    const bool narrow = qs__lt_type(format) != CUDA_R_32F;
    if (out->integers || is->wide || !writes(is, format) || (narrow && (is->of.summed > 1 || is->repeats > 1))) return true;
    if (!out->bytes) return false;
    return somewhere(is->bias) || is->of.samples * is->of.heads * is->of.summed > 1 || out->padded_columns != is->of.columns ||
           out->padded_rows != is->of.rows || is->of.result.row % BYTES_UNIT != 0;
}

/* The library's view: its columns are our rows, so that D = rightᵀ leftᵀ, of which right is A. */
static qs__lt_shape shape_of(const qs__product *out, const qs_matrices lie[3], const batches *by) {
    const qs_matmul *of = &out->is.of;
    const bool bias = somewhere(out->is.bias) && !out->wide;
    const qs_format *format = out->is.format[QS__RESULT];
    qs__lt_shape shape = {.m = out->bytes ? out->padded_columns : of->columns,
                          .n = out->bytes ? out->padded_rows : of->rows,
                          .k = out->piece,
                          .batch = by->count,
                          .short_factors = is_tf32(out->is.format[QS__LEFT]),
                          .epilogue = somewhere(out->is.row_sums) ? CUBLASLT_EPILOGUE_BGRADB
                                      : bias                      ? CUBLASLT_EPILOGUE_BIAS
                                                                  : CUBLASLT_EPILOGUE_DEFAULT};
    const qs_matrices *right = &lie[QS__RIGHT], *left = &lie[QS__LEFT];
    shape.a = (qs__lt_matrix){.type = qs__lt_type(out->is.format[QS__RIGHT]),
                              .turned = right->row == 1 && (right->column != 1 || shape.k > 1),
                              .stride = by->stride[QS__RIGHT],
                              .alignment = alignment_of(out, lie, by, QS__RIGHT)};
    shape.a.next = largest(shape.a.turned ? right->column : right->row, shape.a.turned ? shape.k : shape.m);
    shape.b = (qs__lt_matrix){.type = qs__lt_type(out->is.format[QS__LEFT]),
                              .turned = left->column != 1,
                              .stride = by->stride[QS__LEFT],
                              .alignment = alignment_of(out, lie, by, QS__LEFT)};
    shape.b.next = largest(shape.b.turned ? left->column : left->row, shape.b.turned ? shape.n : shape.k);
    shape.d = (qs__lt_matrix){.type = out->integers ? CUDA_R_32I
                                      : out->wide   ? CUDA_R_32F
                                                    : qs__lt_type(format),
                              .next = lie[QS__RESULT].row,
                              .stride = by->stride[QS__RESULT],
                              .alignment = alignment_of(out, lie, by, QS__RESULT)};
    if (out->pieces > 1 && out->bytes) shape.a.alignment = shape.b.alignment = BYTES_UNIT;
    if (out->pieces > 1 && !out->piecewise) { /* pieces are the batch */
        shape.batch = out->pieces;
        shape.a.stride = out->piece * right->row;
        shape.b.stride = out->piece * left->column;
        shape.d.stride = out->padded_rows * out->padded_columns;
        if (!out->bytes) {
            shape.a.alignment = least(shape.a.alignment, power_in(shape.a.stride * width_of(out, QS__RIGHT)));
            shape.b.alignment = least(shape.b.alignment, power_in(shape.b.stride * width_of(out, QS__LEFT)));
            shape.d.alignment = least(shape.d.alignment, power_in(shape.d.stride * width_of(out, QS__RESULT)));
        }
    }
    shape.c = shape.d;
    if (out->rest_rows > 0) {
        shape.n = out->rest_rows;
        shape.batch = of->rows / out->rest_rows;
        shape.a.stride = 0;
        shape.b.stride = out->rest_rows * left->row;
        shape.d.stride = out->rest_rows * lie[QS__RESULT].row;
        shape.b.alignment = least(shape.b.alignment, power_in(shape.b.stride * width_of(out, QS__LEFT)));
        shape.d.alignment = least(shape.d.alignment, power_in(shape.d.stride * width_of(out, QS__RESULT)));
        shape.c = (qs__lt_matrix){.type = shape.d.type, .next = of->columns, .alignment = 64};
    }
    if (shape.batch == 1) shape.a.stride = shape.b.stride = shape.c.stride = shape.d.stride = 0;
    return shape;
}

/* Rows of C when the bias is split: as many as a tile of results has, where that divides all rows. */
static int64_t rest_rows_of(int64_t rows) {
    static const int64_t tile[] = {256, 192, 128, 96, 64};
    for (size_t i = 0; i < sizeof tile / sizeof tile[0]; i++)
        if (rows % tile[i] == 0) return tile[i];
    return rows;
}

static qs_status plan_of(qs__cuda *cuda, const qs_matrices lie[3], qs__product *out) {
    const batches by = batches_of(out, lie);
    const qs__lt_shape shape = shape_of(out, lie, &by);
    return qs__lt_plan_find(cuda, &shape, &out->plan);
}

qs_status qs__product_build(qs__cuda_kernel *kernel, const qs__product_request *request, int algorithm, qs__product *out) {
    const qs_matmul *of = &request->of;
    qs_matrices lie[3];
    *out = (qs__product){.is = *request,
                         .algorithm = algorithm,
                         .pack = -1,
                         .result = -1,
                         .bias = -1,
                         .padded_rows = of->rows,
                         .padded_columns = round_up(of->columns, 8),
                         .padded_inner = of->inner,
                         .limbs = {1, 1},
                         .pieces = largest(request->pieces, 1),
                         .piece = of->inner / largest(request->pieces, 1)};
    assert(request->pieces < 2 || (request->wide && of->samples * of->heads * of->summed == 1 && of->inner % request->pieces == 0));
    assert(of->left.shared == 1 && of->result.shared == 1 && of->result.column == 1);
    QS_TRY(formats_check(kernel->cuda, request, out));
    if (out->bytes) QS_TRY(bytes_build(kernel, request, out));
    out->wide = is_wide(out);
    lie_of(out, lie);
    if (out->wide) {
        const int64_t matrices = of->samples * of->heads * (out->bytes ? of->summed : 1);
        const int64_t parts = out->limbs[0] * out->limbs[1] * out->pieces * (out->integers ? largest(request->repeats, 1) : 1);
        const int64_t sums = parts * matrices * out->padded_rows * out->padded_columns;
        out->sums = qs__cuda_scratch(kernel, (size_t)sums * sizeof(float));
        QS_TRY(qs__cuda_function(kernel, "product_result", &out->result));
    } else if (somewhere(request->bias) && qs__lt_type(request->format[QS__RESULT]) != CUDA_R_32F) {
        const size_t width = (size_t)width_of(out, QS__RESULT);
        out->rest_rows = rest_rows_of(of->rows);
        out->nearest = qs__cuda_scratch(kernel, (size_t)of->columns * width);
        out->rest = qs__cuda_scratch(kernel, (size_t)(out->rest_rows * of->columns) * width);
        QS_TRY(qs__cuda_function(kernel, "product_bias", &out->bias));
    }
    out->walk = walk_of(out, lie);
    qs_status status = plan_of(kernel->cuda, lie, out);
    if (status == QS_UNSUPPORTED && out->walk != BY_HEAD && of->heads > 1 && !out->bytes) { /* heads side by side in a batch */
        out->walk = BY_HEAD;
        status = plan_of(kernel->cuda, lie, out);
    }
    if (status == QS_UNSUPPORTED && out->pieces > 1 && !out->piecewise && out->bytes) {
        out->piecewise = true;
        status = plan_of(kernel->cuda, lie, out);
    }
    QS_TRY(status);
    if (algorithm < out->plan->count) return QS_OK;
    return qs_fail(QS_UNSUPPORTED, "cuBLASLt has %d algorithms for it", out->plan->count);
}

void qs__products_workspace(qs__cuda_kernel *kernel, int products, qs__product *product) {
    size_t most = 0;
    for (int i = 0; i < products; i++) {
        const size_t bytes = product[i].plan ? product[i].plan->algorithm[product[i].algorithm].workspace_bytes : 0;
        most = bytes > most ? bytes : most;
    }
    const size_t at = qs__cuda_scratch(kernel, most);
    for (int i = 0; i < products; i++)
        product[i].workspace = at;
}

/* ---- Running ------------------------------------------------------------------------------------------------------------------------- */

static qs_status bias_run(const qs__cuda_kernel *kernel, const qs__product *product) {
    const qs__product_request *is = &product->is;
    const qs__cuda_format format = qs__cuda_format_of(is->format[QS__RESULT]);
    const int64_t columns = is->of.columns, count = product->rest_rows * columns;
    const qs__cuda_bias_job job = {.bias = qs__place_at(kernel, is->bias),
                                   .count = columns,
                                   .rows = product->rest_rows,
                                   .nearest = {.at = kernel->scratch + product->nearest, .count = columns, .format = format},
                                   .rest = {.at = kernel->scratch + product->rest, .count = count, .format = format}};
    return qs__cuda_launch(kernel, product->bias, qs__cuda_blocks(kernel->cuda, count, RESULT_THREADS, 1), RESULT_THREADS, 0, &job);
}

static qs_status result_run(const qs__cuda_kernel *kernel, const qs__product *product) {
    const qs__product_request *is = &product->is;
    const qs_matmul *of = &is->of;
    const int64_t span =
        (of->samples - 1) * of->result.sample + (of->heads - 1) * of->result.head + (of->rows - 1) * of->result.row + of->columns;
    const qs__cuda_result_job job = {
        .sums = kernel->scratch + product->sums,
        .integers = product->integers,
        .left_limbs = product->limbs[QS__LEFT],
        .right_limbs = product->limbs[QS__RIGHT],
        .repeats = product->integers ? largest(is->repeats, 1) : 1,
        .pieces = product->pieces,
        .samples = of->samples,
        .heads = of->heads,
        .summed = product->bytes ? of->summed : 1,
        .rows = of->rows,
        .columns = of->columns,
        .padded_rows = product->padded_rows,
        .padded_columns = product->padded_columns,
        .to = {.at = qs__place_at(kernel, is->place[QS__RESULT]), .count = span, .format = qs__cuda_format_of(is->format[QS__RESULT])},
        .sample = of->result.sample,
        .head = of->result.head,
        .row = of->result.row,
        .left_step = qs__place_at(kernel, is->step[QS__LEFT]),
        .right_step = qs__place_at(kernel, is->step[QS__RIGHT]),
        .right_steps = is->right_steps,
        .row_group = qs__place_at(kernel, is->scale_group[0]),
        .column_group = qs__place_at(kernel, is->scale_group[1]),
        .column_period = is->column_period > 0 ? is->column_period : of->columns,
        .shift = somewhere(is->group) ? is->shifts - 1 : 0,
        .bias = qs__place_at(kernel, is->bias),
        .head_bias = is->by_head.bias,
        .head_step = is->by_head.step,
        .head_row_group = is->by_head.row_group,
        .head_column_group = is->by_head.column_group};
    const int64_t items = of->samples * of->heads * of->rows * ((of->columns + 7) / 8);
    return qs__cuda_launch(kernel, product->result, qs__cuda_blocks(kernel->cuda, items, RESULT_THREADS, 1), RESULT_THREADS, 0, &job);
}

/* The calls of bytes: for each pair of limbs, and each piece where pieces are not the batch. Integers of each repeat have sums of their
 * own. */
static qs_status bytes_run(const qs__cuda_kernel *kernel, const qs__product *product, int64_t repeat, const CUdeviceptr at[3]) {
    const qs_matmul *of = &product->is.of;
    const int64_t matrices = of->samples * of->heads * of->summed, part = matrices * product->padded_rows * product->padded_columns;
    const int64_t plane[2] = {matrices * product->padded_rows * product->padded_inner,
                              matrices * product->padded_columns * product->padded_inner};
    const int64_t calls = product->piecewise ? product->pieces : 1, limbs = product->limbs[0] * product->limbs[1];
    const int64_t begin = product->integers ? repeat * limbs * product->pieces : 0;
    for (int left = 0; left < product->limbs[0]; left++)
        for (int right = 0; right < product->limbs[1]; right++)
            for (int64_t piece = 0; piece < calls; piece++) {
                const int64_t first = begin + (left * product->limbs[1] + right) * product->pieces + piece;
                qs__lt_call call = {.a = at[QS__RIGHT] + (CUdeviceptr)(right * plane[1] + piece * product->piece),
                                    .b = at[QS__LEFT] + (CUdeviceptr)(left * plane[0] + piece * product->piece),
                                    .d = at[QS__RESULT] + (CUdeviceptr)(first * part * (int64_t)sizeof(int32_t)),
                                    .workspace = kernel->scratch + product->workspace,
                                    .alpha = product->is.alpha,
                                    .beta = !product->integers && repeat > 0};
                call.c = call.d;
                QS_TRY(qs__lt_multiply(kernel->cuda, product->plan, product->algorithm, &call));
            }
    return QS_OK;
}

static qs_status floats_run(const qs__cuda_kernel *kernel, const qs__product *product, int64_t repeat, const CUdeviceptr at[3]) {
    const qs__product_request *is = &product->is;
    const bool split = product->rest_rows > 0;
    qs_matrices lie[3];
    lie_of(product, lie);
    const batches by = batches_of(product, lie);
    for (int64_t number = 0; number < by.calls; number++)
        for (int64_t g = 0; g < is->of.summed; g++) {
            CUdeviceptr begin[3];
            for (int i = 0; i < 3; i++)
                begin[i] = at[i] + (CUdeviceptr)(begin_of(product, lie, i, number, g) * width_of(product, i));
            const qs__lt_call call = {.a = begin[QS__RIGHT],
                                      .b = begin[QS__LEFT],
                                      .c = split ? kernel->scratch + product->rest : begin[QS__RESULT],
                                      .d = begin[QS__RESULT],
                                      .bias = somewhere(is->row_sums) ? qs__place_at(kernel, is->row_sums)
                                              : split                 ? kernel->scratch + product->nearest
                                                                      : qs__place_at(kernel, is->bias),
                                      .workspace = kernel->scratch + product->workspace,
                                      .alpha = is->alpha,
                                      .beta = split || g > 0 || repeat > 0};
            QS_TRY(qs__lt_multiply(kernel->cuda, product->plan, product->algorithm, &call));
        }
    return QS_OK;
}

qs_status qs__product_part(const qs__cuda_kernel *kernel, const qs__product *product, int64_t part, const int64_t moved[3]) {
    const qs__product_request *is = &product->is;
    const int64_t repeat = is->repeats > 0 ? part : 0;
    qs__product now = *product;
    CUdeviceptr at[3];
    for (int i = 0; i < 3; i++) {
        now.is.place[i].offset += (size_t)moved[i];
        at[i] = qs__place_at(kernel, now.is.place[i]);
    }
    for (int i = 0; i < 2; i++) {
        if (!product->packs[i]) continue;
        if (part == 0 || is->moves[i]) QS_TRY(pack_run(kernel, &now, i));
        at[i] = kernel->scratch + product->packed[i];
    }
    if (product->wide) at[QS__RESULT] = kernel->scratch + product->sums;
    if (product->rest_rows > 0 && part == 0) QS_TRY(bias_run(kernel, product));
    QS_TRY(product->bytes ? bytes_run(kernel, product, repeat, at) : floats_run(kernel, product, repeat, at));
    return product->wide && repeat + 1 >= is->repeats ? result_run(kernel, &now) : QS_OK;
}

qs_status qs__product_run(const qs__cuda_kernel *kernel, const qs__product *product) {
    return qs__product_part(kernel, product, 0, (const int64_t[3]){0});
}
