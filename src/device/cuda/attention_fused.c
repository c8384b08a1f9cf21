// SPDX-License-Identifier: Apache-2.0
/* Attention by cuDNN's fused kernels: products, softmax and mask as one graph, of which no matrix of scores is ever in memory. Heads lie
 * side by side in the channels of a position, which strides say. Backward passes are given neither the result nor the statistics of the
 * softmax: a forward plan makes both anew, in scratch. Statistics are always made: the library has no engine for the graph without.
 *
 * For bf16 and fp16: probabilities, and gradients of scores, are rounded to the operands' format before they are multiplied. Padding is a
 * bias of the scores; with windows, padding of each query, or in a backward plan, that of each query. Dropout multiplies by what our own
 * draws keep, which a kernel of ours writes into scratch, as large as the scores in 16 bits. Queries that see nothing are put right behind
 * the forward plan. Backward plans are those whose results repeat, which keep gradients of scores in scratch. */
#include "cuda/attention_fused_jobs.h"
#include "cuda/cudnn.h"
#include "qsync/attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Tensors in memory; those behind FREE are virtual, numbered as they come. */
enum { Q = 1, K, V, O, STATS, SCALE, ONE, FACTOR, LEAST, SHIFT, BIAS, KEPT, SUM, DIFF_O, DIFF_Q, DIFF_K, DIFF_V, FREE };

typedef struct fused {
    qs_attention all;
    cudnnDataType_t type;
    bool backward;
    qs__cudnn_plans *forward_plans, *backward_plans;
    qs__cudnn_pack forward_pack, backward_pack;
    bool biased, by_query, drops;    /* scores have a bias, of each query; dropout */
    float scale, one, factor, least; /* numbers that graphs are given; of dropout: 1 / (1 - probability) */
    int32_t shift;
    size_t result, stats, sum, bias, kept, workspace; /* offsets in scratch */
    int make_bias, make_kept, blind;                  /* functions of ours */
} fused;

/* ---- Graphs -------------------------------------------------------------------------------------------------------------------------- */

/* A graph in the making, and the number of its next virtual tensor. */
typedef struct flow {
    qs__cudnn_graph *graph;
    const fused *own;
    int64_t uid;
} flow;

/* [samples, heads, positions, width], as it lies in memory; `turned`: its last two axes exchanged. */
static cudnnBackendDescriptor_t heads(flow *f, int64_t uid, int64_t count, int64_t positions, int64_t width, bool turned) {
    qs__cudnn_tensor made = {.uid = uid, .type = f->own->type, .dim = {f->own->all.samples, count, positions, width}};
    const int64_t stride[] = {positions * count * width, width, count * width, 1};
    memcpy(made.stride, stride, sizeof stride);
    if (turned) made.dim[2] = width, made.dim[3] = positions, made.stride[2] = 1, made.stride[3] = count * width;
    return qs__cudnn_tensor_add(f->graph, &made);
}

/* [samples, heads, rows, columns] one behind the other. uid 0: a virtual one. */
static cudnnBackendDescriptor_t matrix(flow *f, int64_t uid, cudnnDataType_t type, int64_t rows, int64_t columns) {
    const int64_t count = f->own->all.heads;
    const qs__cudnn_tensor made = {.uid = uid ? uid : f->uid++,
                                   .type = type,
                                   .dim = {f->own->all.samples, count, rows, columns},
                                   .stride = {count * rows * columns, rows * columns, columns, 1},
                                   .is_virtual = uid == 0};
    return qs__cudnn_tensor_add(f->graph, &made);
}

static cudnnBackendDescriptor_t scores(flow *f, cudnnDataType_t type) {
    return matrix(f, 0, type, f->own->all.queries, f->own->all.keys);
}

static cudnnBackendDescriptor_t column(flow *f) {
    return matrix(f, 0, CUDNN_DATA_FLOAT, f->own->all.queries, 1);
}

static cudnnBackendDescriptor_t number(flow *f, int64_t uid, cudnnDataType_t type) {
    const qs__cudnn_tensor made = {.uid = uid, .type = type, .dim = {1, 1, 1, 1}, .stride = {1, 1, 1, 1}, .by_value = true};
    return qs__cudnn_tensor_add(f->graph, &made);
}

/* y = x `mode` b; returns y. */
static cudnnBackendDescriptor_t point(flow *f, cudnnPointwiseMode_t mode, cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t b,
                                      cudnnBackendDescriptor_t y) {
    const qs__cudnn_point one = {.mode = mode, .x = x, .b = b, .y = y};
    qs__cudnn_pointwise(f->graph, &one);
    return y;
}

static cudnnBackendDescriptor_t product(flow *f, cudnnBackendDescriptor_t a, cudnnBackendDescriptor_t b, cudnnBackendDescriptor_t c) {
    const cudnnDataType_t sums = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t how = QS__CUDNN_CREATE(f->graph, MATMUL);
    QS__CUDNN_SET(f->graph, how, MATMUL_COMP_TYPE, DATA_TYPE, 1, &sums);
    qs__cudnn_finish(f->graph, how, "MATMUL");
    cudnnBackendDescriptor_t operation = QS__CUDNN_CREATE(f->graph, OPERATION_MATMUL);
    QS__CUDNN_SET(f->graph, operation, OPERATION_MATMUL_ADESC, BACKEND_DESCRIPTOR, 1, &a);
    QS__CUDNN_SET(f->graph, operation, OPERATION_MATMUL_BDESC, BACKEND_DESCRIPTOR, 1, &b);
    QS__CUDNN_SET(f->graph, operation, OPERATION_MATMUL_CDESC, BACKEND_DESCRIPTOR, 1, &c);
    QS__CUDNN_SET(f->graph, operation, OPERATION_MATMUL_DESC, BACKEND_DESCRIPTOR, 1, &how);
    qs__cudnn_operation_finish(f->graph, operation, "OPERATION_MATMUL");
    return c;
}

static cudnnBackendDescriptor_t reduced(flow *f, cudnnReduceTensorOp_t by, cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t y) {
    const cudnnDataType_t sums = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t how = QS__CUDNN_CREATE(f->graph, REDUCTION);
    QS__CUDNN_SET(f->graph, how, REDUCTION_OPERATOR, REDUCTION_OPERATOR_TYPE, 1, &by);
    QS__CUDNN_SET(f->graph, how, REDUCTION_COMP_TYPE, DATA_TYPE, 1, &sums);
    qs__cudnn_finish(f->graph, how, "REDUCTION");
    cudnnBackendDescriptor_t operation = QS__CUDNN_CREATE(f->graph, OPERATION_REDUCTION);
    QS__CUDNN_SET(f->graph, operation, OPERATION_REDUCTION_XDESC, BACKEND_DESCRIPTOR, 1, &x);
    QS__CUDNN_SET(f->graph, operation, OPERATION_REDUCTION_YDESC, BACKEND_DESCRIPTOR, 1, &y);
    QS__CUDNN_SET(f->graph, operation, OPERATION_REDUCTION_DESC, BACKEND_DESCRIPTOR, 1, &how);
    qs__cudnn_operation_finish(f->graph, operation, "OPERATION_REDUCTION");
    return y;
}

static cudnnBackendDescriptor_t reshaped(flow *f, cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t y) {
    cudnnBackendDescriptor_t operation = QS__CUDNN_CREATE(f->graph, OPERATION_RESHAPE);
    QS__CUDNN_SET(f->graph, operation, OPERATION_RESHAPE_XDESC, BACKEND_DESCRIPTOR, 1, &x);
    QS__CUDNN_SET(f->graph, operation, OPERATION_RESHAPE_YDESC, BACKEND_DESCRIPTOR, 1, &y);
    qs__cudnn_operation_finish(f->graph, operation, "OPERATION_RESHAPE");
    return y;
}

/* Where causal, unless a bias of each query says so, what it does not see becomes minus infinity: query r sees key c where r + keys -
 * queries >= c. */
static bool graph_masks(const fused *own) {
    return own->all.causal && !own->by_query;
}

static cudnnBackendDescriptor_t masked(flow *f, cudnnBackendDescriptor_t x) {
    if (!graph_masks(f->own)) return x;
    qs__cudnn_point row = {.mode = CUDNN_POINTWISE_GEN_INDEX, .axis = 2, .x = x, .y = scores(f, CUDNN_DATA_INT32)};
    qs__cudnn_point col = {.mode = CUDNN_POINTWISE_GEN_INDEX, .axis = 3, .x = x, .y = scores(f, CUDNN_DATA_INT32)};
    qs__cudnn_pointwise(f->graph, &row);
    qs__cudnn_pointwise(f->graph, &col);
    if (f->own->shift > 0) {
        qs__cudnn_point moved = {
            .mode = CUDNN_POINTWISE_ADD, .precision = CUDNN_DATA_INT32, .x = row.y, .b = number(f, SHIFT, CUDNN_DATA_INT32)};
        row.y = moved.y = scores(f, CUDNN_DATA_INT32);
        qs__cudnn_pointwise(f->graph, &moved);
    }
    qs__cudnn_point sees = {.mode = CUDNN_POINTWISE_CMP_GE, .precision = CUDNN_DATA_BOOLEAN, .x = row.y, .b = col.y};
    sees.y = scores(f, CUDNN_DATA_BOOLEAN);
    qs__cudnn_pointwise(f->graph, &sees);
    qs__cudnn_point taken = {.mode = CUDNN_POINTWISE_BINARY_SELECT, .x = x, .b = number(f, LEAST, CUDNN_DATA_FLOAT), .t = sees.y};
    taken.y = scores(f, CUDNN_DATA_FLOAT);
    qs__cudnn_pointwise(f->graph, &taken);
    return taken.y;
}

/* The scores, scaled, and their bias. */
static cudnnBackendDescriptor_t scored(flow *f, cudnnBackendDescriptor_t queries, cudnnBackendDescriptor_t keys,
                                       cudnnBackendDescriptor_t scale) {
    const cudnnBackendDescriptor_t raw = product(f, queries, keys, scores(f, CUDNN_DATA_FLOAT));
    const cudnnBackendDescriptor_t scaled = point(f, CUDNN_POINTWISE_MUL, raw, scale, scores(f, CUDNN_DATA_FLOAT));
    const int64_t rows = f->own->by_query ? f->own->all.queries : 1, columns = f->own->all.keys;
    const qs__cudnn_tensor bias = {.uid = BIAS,
                                   .type = CUDNN_DATA_FLOAT,
                                   .dim = {f->own->all.samples, 1, rows, columns},
                                   .stride = {rows * columns, rows * columns, columns, 1}};
    if (!f->own->biased) return scaled;
    return point(f, CUDNN_POINTWISE_ADD, scaled, qs__cudnn_tensor_add(f->graph, &bias), scores(f, CUDNN_DATA_FLOAT));
}

static cudnnBackendDescriptor_t kept_of(flow *f) {
    return matrix(f, KEPT, f->own->type, f->own->all.queries, f->own->all.keys);
}

static qs_status describe_forward(const qs__cuda_kernel *kernel, qs__cudnn_graph *graph, qs__cudnn_rule *rule, void *context) {
    const fused *own = context;
    const qs_attention *all = &own->all;
    flow f = {.graph = graph, .own = own, .uid = FREE};
    (void)kernel, (void)rule;
    const cudnnBackendDescriptor_t queries = heads(&f, Q, all->heads, all->queries, all->width, false);
    const cudnnBackendDescriptor_t keys = heads(&f, K, all->key_heads, all->keys, all->width, true);
    const cudnnBackendDescriptor_t x = masked(&f, scored(&f, queries, keys, number(&f, SCALE, CUDNN_DATA_FLOAT)));
    const cudnnBackendDescriptor_t largest = reduced(&f, CUDNN_REDUCE_TENSOR_MAX, x, column(&f));
    const cudnnBackendDescriptor_t below = point(&f, CUDNN_POINTWISE_SUB, x, largest, scores(&f, CUDNN_DATA_FLOAT));
    const cudnnBackendDescriptor_t power = point(&f, CUDNN_POINTWISE_EXP, below, NULL, scores(&f, CUDNN_DATA_FLOAT));
    const cudnnBackendDescriptor_t sum = reduced(&f, CUDNN_REDUCE_TENSOR_ADD, power, column(&f));
    const cudnnBackendDescriptor_t log = point(&f, CUDNN_POINTWISE_LOG, sum, NULL, column(&f));
    point(&f, CUDNN_POINTWISE_ADD, largest, log, matrix(&f, STATS, CUDNN_DATA_FLOAT, all->queries, 1));
    const cudnnDataType_t type = own->drops ? CUDNN_DATA_FLOAT : own->type; /* the product's operand has the others' */
    cudnnBackendDescriptor_t share = point(&f, CUDNN_POINTWISE_DIV, power, sum, scores(&f, type));
    if (own->drops) {
        share = point(&f, CUDNN_POINTWISE_MUL, share, number(&f, FACTOR, CUDNN_DATA_FLOAT), scores(&f, CUDNN_DATA_FLOAT));
        share = point(&f, CUDNN_POINTWISE_MUL, share, kept_of(&f), scores(&f, own->type));
    }
    product(&f, share, heads(&f, V, all->key_heads, all->keys, all->value_width, false),
            heads(&f, O, all->heads, all->queries, all->value_width, false));
    return QS_OK;
}

/* The gradient of keys or values: scores, turned, times what they were multiplied by; where heads share keys, summed over them. */
static void key_gradient(flow *f, cudnnBackendDescriptor_t of_scores, cudnnBackendDescriptor_t by, int64_t uid, int64_t width) {
    const qs_attention *all = &f->own->all;
    qs__cudnn_tensor turned = {.uid = f->uid++,
                               .type = f->own->type,
                               .dim = {all->samples, all->heads, all->keys, all->queries},
                               .stride = {all->heads * all->keys * all->queries, all->keys * all->queries, 1, all->keys},
                               .is_virtual = true};
    const cudnnBackendDescriptor_t left = reshaped(f, of_scores, qs__cudnn_tensor_add(f->graph, &turned));
    const cudnnBackendDescriptor_t result = heads(f, uid, all->key_heads, all->keys, width, false);
    if (all->heads == all->key_heads)
        product(f, left, by, result);
    else
        reduced(f, CUDNN_REDUCE_TENSOR_ADD, product(f, left, by, matrix(f, 0, f->own->type, all->keys, width)), result);
}

/* With p the probabilities, f the factors of dropout, and D = Σ diff_dst · dst of a row: gradients of scores are p (f diff_dst · value -
 * D), those of a value f p diff_dst. The library's pattern has the factor outside: factor · p (kept diff_dst · value - D / factor). Its
 * engines do not multiply D by a number they are given, on an H100: so the forward plan makes dst without the factor, and that number is
 * 1. */
static qs_status describe_backward(const qs__cuda_kernel *kernel, qs__cudnn_graph *graph, qs__cudnn_rule *rule, void *context) {
    const fused *own = context;
    const qs_attention *all = &own->all;
    flow f = {.graph = graph, .own = own, .uid = FREE};
    (void)kernel, (void)rule;
    const cudnnBackendDescriptor_t queries = heads(&f, Q, all->heads, all->queries, all->width, false);
    const cudnnBackendDescriptor_t keys = heads(&f, K, all->key_heads, all->keys, all->width, true);
    const cudnnBackendDescriptor_t values = heads(&f, V, all->key_heads, all->keys, all->value_width, true);
    const cudnnBackendDescriptor_t diff = heads(&f, DIFF_O, all->heads, all->queries, all->value_width, false);
    const cudnnBackendDescriptor_t result = heads(&f, O, all->heads, all->queries, all->value_width, false);
    const cudnnBackendDescriptor_t scale = number(&f, SCALE, CUDNN_DATA_FLOAT);
    const cudnnBackendDescriptor_t stats = matrix(&f, STATS, CUDNN_DATA_FLOAT, all->queries, 1);
    const cudnnBackendDescriptor_t each =
        point(&f, CUDNN_POINTWISE_MUL, diff, result, matrix(&f, 0, CUDNN_DATA_FLOAT, all->queries, all->value_width));
    const cudnnBackendDescriptor_t sum = point(&f, CUDNN_POINTWISE_MUL, reduced(&f, CUDNN_REDUCE_TENSOR_ADD, each, column(&f)),
                                               number(&f, ONE, CUDNN_DATA_FLOAT), matrix(&f, SUM, CUDNN_DATA_FLOAT, all->queries, 1));
    const cudnnBackendDescriptor_t below =
        point(&f, CUDNN_POINTWISE_SUB, scored(&f, queries, keys, scale), stats, scores(&f, CUDNN_DATA_FLOAT));
    const cudnnBackendDescriptor_t share = point(&f, CUDNN_POINTWISE_EXP, masked(&f, below), NULL, scores(&f, CUDNN_DATA_FLOAT));
    const cudnnBackendDescriptor_t factor = own->drops ? number(&f, FACTOR, CUDNN_DATA_FLOAT) : NULL;
    const cudnnBackendDescriptor_t kept = own->drops ? kept_of(&f) : NULL;
    cudnnBackendDescriptor_t left = share;
    if (own->drops) left = point(&f, CUDNN_POINTWISE_MUL, left, kept, scores(&f, CUDNN_DATA_FLOAT));
    if (own->drops) left = point(&f, CUDNN_POINTWISE_MUL, left, factor, scores(&f, CUDNN_DATA_FLOAT));
    key_gradient(&f, left, diff, DIFF_V, all->value_width);
    cudnnBackendDescriptor_t of_share = product(&f, diff, values, scores(&f, CUDNN_DATA_FLOAT));
    if (own->drops) of_share = point(&f, CUDNN_POINTWISE_MUL, of_share, kept, scores(&f, CUDNN_DATA_FLOAT));
    const cudnnBackendDescriptor_t off = point(&f, CUDNN_POINTWISE_SUB, of_share, sum, scores(&f, CUDNN_DATA_FLOAT));
    cudnnBackendDescriptor_t of_score = point(&f, CUDNN_POINTWISE_MUL, off, share, scores(&f, CUDNN_DATA_FLOAT));
    if (own->drops) of_score = point(&f, CUDNN_POINTWISE_MUL, of_score, factor, scores(&f, CUDNN_DATA_FLOAT));
    const cudnnBackendDescriptor_t scaled = point(&f, CUDNN_POINTWISE_MUL, of_score, scale, scores(&f, own->type));
    key_gradient(&f, scaled, queries, DIFF_K, all->width);
    qs__cudnn_tensor plain = {.uid = f.uid++,
                              .type = own->type,
                              .dim = {all->samples, all->key_heads, all->keys, all->width},
                              .stride = {all->keys * all->key_heads * all->width, all->width, all->key_heads * all->width, 1},
                              .is_virtual = true};
    product(&f, scaled, reshaped(&f, keys, qs__cudnn_tensor_add(graph, &plain)),
            heads(&f, DIFF_Q, all->heads, all->queries, all->width, false));
    return QS_OK;
}

/* ---- Kernels ------------------------------------------------------------------------------------------------------------------------- */

static void release(qs__cuda_kernel *kernel) {
    fused *own = kernel->own;
    qs__cudnn_pack_release(kernel->cuda, &own->forward_pack);
    qs__cudnn_pack_release(kernel->cuda, &own->backward_pack);
    qs__cudnn_plans_leave(own->forward_plans);
    qs__cudnn_plans_leave(own->backward_plans);
    free(own);
}

static void number_add(qs__cudnn_pack *pack, int64_t uid, const void *value) {
    qs__cudnn_pack_add(pack, uid, (CUdeviceptr)(uintptr_t)value);
}

/* What both graphs read; `factor`: of what dropout keeps. */
static void inputs_add(const qs__cuda_kernel *kernel, const fused *own, const float *factor, qs__cudnn_pack *pack) {
    qs__cudnn_pack_add(pack, Q, qs__cuda_at(kernel, QS_SRC));
    qs__cudnn_pack_add(pack, K, qs__cuda_at(kernel, QS_SRC2));
    qs__cudnn_pack_add(pack, V, qs__cuda_at(kernel, QS_SRC3));
    number_add(pack, SCALE, &own->scale);
    if (own->biased) qs__cudnn_pack_add(pack, BIAS, kernel->scratch + own->bias);
    if (own->drops) {
        qs__cudnn_pack_add(pack, KEPT, kernel->scratch + own->kept);
        number_add(pack, FACTOR, factor);
    }
    if (!graph_masks(own)) return;
    number_add(pack, LEAST, &own->least);
    if (own->shift > 0) number_add(pack, SHIFT, &own->shift);
}

static qs_status prepare(qs__cuda_kernel *kernel) {
    fused *own = kernel->own;
    const CUdeviceptr workspace = kernel->scratch + own->workspace, stats = kernel->scratch + own->stats;
    const CUdeviceptr result = own->backward ? kernel->scratch + own->result : qs__cuda_at(kernel, QS_DST);
    inputs_add(kernel, own, own->backward ? &own->one : &own->factor, &own->forward_pack);
    qs__cudnn_pack_add(&own->forward_pack, O, result);
    qs__cudnn_pack_add(&own->forward_pack, STATS, stats);
    QS_TRY(qs__cudnn_pack_bind(kernel->cuda, &own->forward_pack, workspace));
    if (!own->backward) return QS_OK;
    inputs_add(kernel, own, &own->factor, &own->backward_pack);
    qs__cudnn_pack_add(&own->backward_pack, O, result);
    qs__cudnn_pack_add(&own->backward_pack, STATS, stats);
    qs__cudnn_pack_add(&own->backward_pack, SUM, kernel->scratch + own->sum);
    number_add(&own->backward_pack, ONE, &own->one);
    qs__cudnn_pack_add(&own->backward_pack, DIFF_O, qs__cuda_at(kernel, QS_DIFF_DST));
    qs__cudnn_pack_add(&own->backward_pack, DIFF_Q, qs__cuda_at(kernel, QS_DIFF_SRC));
    qs__cudnn_pack_add(&own->backward_pack, DIFF_K, qs__cuda_at(kernel, QS_DIFF_SRC2));
    qs__cudnn_pack_add(&own->backward_pack, DIFF_V, qs__cuda_at(kernel, QS_DIFF_SRC3));
    return qs__cudnn_pack_bind(kernel->cuda, &own->backward_pack, workspace);
}

enum { THREADS = 256 };

static qs_status run(qs__cuda_kernel *kernel, const qs_run *run) {
    const fused *own = kernel->own;
    const qs_attention *all = &own->all;
    const qs_random_stream draws = qs_attention_draws(all, run, 0, 0, 0);
    const int64_t rows = all->samples * all->queries;
    qs__cuda_fused_job job = {.all = {.samples = all->samples,
                                      .heads = all->heads,
                                      .queries = all->queries,
                                      .keys = all->keys,
                                      .keep = qs__cuda_at(kernel, QS_KEEP),
                                      .masked = all->masked,
                                      .causal = all->causal,
                                      .window = all->window,
                                      .probability = (float)all->probability,
                                      .key = draws.key,
                                      .first_row = draws.first >> 32},
                              .bias = kernel->scratch + own->bias,
                              .unseen = -1e30f,
                              .kept = kernel->scratch + own->kept,
                              .one = own->type == CUDNN_DATA_BFLOAT16 ? 0x3F80 : 0x3C00,
                              .result = own->backward ? 0 : qs__cuda_at(kernel, QS_DST),
                              .width = all->value_width,
                              .stats = own->backward ? kernel->scratch + own->stats : 0};
    if (own->biased) {
        qs__cuda_fused_job of_keep = job; /* of all queries alike, where they see the same */
        if (!own->by_query) of_keep.all.queries = 1, of_keep.all.causal = 0;
        const int64_t count = all->samples * of_keep.all.queries * all->keys;
        QS_TRY(qs__cuda_launch(kernel, own->make_bias, qs__cuda_blocks(kernel->cuda, count, THREADS, 1), THREADS, 0, &of_keep));
    }
    if (own->drops)
        QS_TRY(qs__cuda_launch(kernel, own->make_kept, qs__cuda_blocks(kernel->cuda, rows * all->heads * all->keys, THREADS, 8), THREADS, 0,
                               &job));
    QS_TRY(qs__cudnn_run(kernel, &own->forward_plans->plan[0], &own->forward_pack));
    if (own->biased) QS_TRY(qs__cuda_launch(kernel, own->blind, qs__cuda_blocks(kernel->cuda, rows, THREADS, 1), THREADS, 0, &job));
    return own->backward ? qs__cudnn_run(kernel, &own->backward_plans->plan[0], &own->backward_pack) : QS_OK;
}

/* What the graphs cannot say, or the library does not take. */
static qs_status limits_check(const qs_case *one, fused *own) {
    const qs_format *format = qs__case_format(one, QS_SRC);
    const qs_attention *all = &own->all;
    if (format != qs_format_of("bf16") && format != qs_format_of("fp16"))
        return qs_fail(QS_UNSUPPORTED, "cuDNN's fused attention is for bf16 and fp16, not %s", format->name);
    own->type = format == qs_format_of("bf16") ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
    for (int i = 0; i < one->operands; i++)
        if (one->operand[i].format && one->operand[i].role != QS_KEEP && one->operand[i].format != format)
            return qs_fail(QS_UNSUPPORTED, "cuDNN's fused attention has one format: %s beside %s", one->operand[i].format->name,
                           format->name);
    if (all->causal && all->keys < all->queries)
        return qs_fail(QS_UNSUPPORTED, "cuDNN's fused attention needs a key for every query: the first %lld see none",
                       (long long)(all->queries - all->keys));
    if (all->queries == 1 && all->keys == 1) return qs_fail(QS_UNSUPPORTED, "cuDNN's fused attention needs more than one position");
    if (all->width % 8 != 0 || all->value_width % 8 != 0)
        return qs_fail(QS_UNSUPPORTED, "cuDNN's fused attention needs multiples of 8 channels a head, not %lld and %lld",
                       (long long)all->width, (long long)all->value_width);
    return QS_OK;
}

qs_status qs__cuda_build_cudnn_attention(qs__cuda_kernel *kernel) {
    const qs_case *one = &kernel->one;
    char key[QS_CASE_TEXT + 16], text[QS_CASE_TEXT];
    fused *own = NULL;
    QS_TRY(qs_allocate(1, sizeof *own, &own));
    kernel->own = own;
    kernel->release = release;
    own->all = qs_case_attention(one);
    own->backward = strcmp(one->pass->name, "backward") == 0;
    own->scale = (float)(1 / sqrt((double)own->all.width));
    own->one = 1;
    own->factor = (float)(1 / (1 - own->all.probability));
    own->least = -HUGE_VALF;
    /* A backward plan leaves a bias out that all queries share (seen on an H100: errors are those of a formula without it). */
    own->by_query = own->all.masked || own->all.window > 0 || (own->backward && qs__case_has(one, QS_KEEP));
    own->biased = own->by_query || qs__case_has(one, QS_KEEP);
    own->drops = own->all.probability > 0;
    QS_TRY(limits_check(one, own));
    own->shift = (int32_t)(own->all.keys - own->all.queries);
    const int64_t rows = own->all.samples * own->all.heads * own->all.queries;
    snprintf(key, sizeof key, "forward: %s", qs_case_text(one, text));
    QS_TRY(qs__cudnn_plans_take(kernel, key, describe_forward, own, &own->forward_plans));
    size_t workspace = own->forward_plans->plan[0].workspace;
    const char *name = own->forward_plans->plan[0].name;
    if (own->backward) {
        QS_TRY(qs__cudnn_plans_take(kernel, text, describe_backward, own, &own->backward_plans));
        const qs__cudnn_plan *plan = &own->backward_plans->plan[0];
        workspace = plan->workspace > workspace ? plan->workspace : workspace;
        name = plan->name;
        own->result = qs__cuda_scratch(kernel, (size_t)(rows * own->all.value_width) * 2);
        own->sum = qs__cuda_scratch(kernel, (size_t)rows * sizeof(float));
    }
    own->stats = qs__cuda_scratch(kernel, (size_t)rows * sizeof(float));
    if (own->biased) {
        const int64_t queries = own->by_query ? own->all.queries : 1;
        own->bias = qs__cuda_scratch(kernel, (size_t)(own->all.samples * queries * own->all.keys) * sizeof(float));
        QS_TRY(qs__cuda_function(kernel, "attention_bias", &own->make_bias));
        QS_TRY(qs__cuda_function(kernel, "attention_blind", &own->blind));
    }
    if (own->drops) {
        own->kept = qs__cuda_scratch(kernel, (size_t)(rows * own->all.keys) * 2);
        QS_TRY(qs__cuda_function(kernel, "attention_kept", &own->make_kept));
    }
    own->workspace = qs__cuda_scratch(kernel, workspace);
    snprintf(kernel->name, sizeof kernel->name, "cudnn:%s", name);
    kernel->prepare = prepare;
    kernel->run = run;
    return QS_OK;
}
