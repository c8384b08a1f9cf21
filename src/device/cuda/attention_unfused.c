// SPDX-License-Identifier: Apache-2.0
/* Attention in steps, by cuBLASLt's products: scores of all heads into scratch, their softmax by a kernel of ours, the sum of values;
 * backward likewise with five products. Scratch grows with queries × keys. It is there to be measured beside fused attention, and for the
 * cases that has not. */
#include "cuda/attention_unfused_jobs.h"
#include "cuda/product.h"
#include "qsync/attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PRODUCTS = 5, ROW_UNIT = 8 };

typedef struct attention {
    qs_attention size;
    bool backward;
    int64_t next; /* elements of a row of scores, filled up */
    /* Scores and gradients of probabilities, fp32; and what the softmax makes of them, factors of the products behind it, which lies in the
     * same place where that is fp32, too. */
    qs__place scores, diff, probabilities, diff_scores;
    const qs_format *format; /* of factors */
    int rows;                /* the softmax */
    int products;
    qs__product product[MOST_PRODUCTS];
} attention;

static void release(qs__cuda_kernel *kernel) {
    free(kernel->own);
}

/* ---- How matrices lie ---------------------------------------------------------------------------------------------------------------- */

/* An operand: rows are positions, heads lie side by side. */
static qs_matrices of_operand(int64_t positions, int64_t heads, int64_t width, int64_t shared) {
    return (qs_matrices){.sample = positions * heads * width, .head = width, .row = heads * width, .column = 1, .shared = shared};
}

/* Scores and the like. */
static qs_matrices of_scores(const attention *own) {
    const int64_t head = own->size.queries * own->next;
    return (qs_matrices){.sample = own->size.heads * head, .head = head, .row = own->next, .column = 1, .shared = 1};
}

static qs_matrices turned(qs_matrices of) {
    const int64_t row = of.row;
    of.row = of.column;
    of.column = row;
    return of;
}

/* A factor or a result, and where it lies. */
typedef struct piece {
    qs_matrices lie;
    qs__place place;
    const qs_format *format;
} piece;

static piece piece_of(const qs_case *one, qs_role role, qs_matrices lie) {
    return (piece){lie, qs__operand_place(one, role), qs__case_format(one, role)};
}

/* ---- Products ------------------------------------------------------------------------------------------------------------------------ */

/* The next product: extents as qs_matmul has them. */
static qs_status product_add(qs__cuda_kernel *kernel, attention *own, qs_matmul of, const piece part[3], double alpha) {
    of.samples = own->size.samples;
    of.left = part[QS__LEFT].lie, of.right = part[QS__RIGHT].lie, of.result = part[QS__RESULT].lie;
    qs__product_request request = qs__product_start(&of);
    request.alpha = (float)alpha;
    for (int i = 0; i < 3; i++) {
        request.place[i] = part[i].place;
        request.format[i] = part[i].format;
    }
    return qs__product_build(kernel, &request, 0, &own->product[own->products++]);
}

static qs_status products_build(qs__cuda_kernel *kernel, attention *own) {
    const qs_case *one = &kernel->one;
    const qs_attention *size = &own->size;
    const int64_t m = size->queries, k = size->keys, d = size->width, e = size->value_width, shared = size->heads / size->key_heads;
    const qs_format *fp32 = qs_format_of("fp32");
    const qs_matrices q = of_operand(m, size->heads, d, 1), keys = of_operand(k, size->key_heads, d, shared),
                      values = of_operand(k, size->key_heads, e, shared), result = of_operand(m, size->heads, e, 1), s = of_scores(own);
    const piece queries = piece_of(one, QS_SRC, q), scores = {s, own->scores, fp32}, probabilities = {s, own->probabilities, own->format};
    const double scale = 1 / sqrt((double)d);
    const qs_matmul by_query = {.heads = size->heads, .summed = 1, .rows = m};
    qs_matmul of = by_query;
    of.inner = d, of.columns = k;
    QS_TRY(product_add(kernel, own, of, (piece[]){queries, piece_of(one, QS_SRC2, turned(keys)), scores}, scale));
    if (!own->backward) {
        of.inner = k, of.columns = e;
        return product_add(kernel, own, of, (piece[]){probabilities, piece_of(one, QS_SRC3, values), piece_of(one, QS_DST, result)}, 1);
    }
    const piece diff_dst = piece_of(one, QS_DIFF_DST, result), diff = {s, own->diff, fp32},
                diff_scores = {s, own->diff_scores, own->format}, diff_turned = {turned(s), own->diff_scores, own->format},
                turned_probabilities = {turned(s), own->probabilities, own->format};
    of.inner = e, of.columns = k;
    QS_TRY(product_add(kernel, own, of, (piece[]){diff_dst, piece_of(one, QS_SRC3, turned(values)), diff}, 1));
    of.inner = k, of.columns = d;
    QS_TRY(product_add(kernel, own, of, (piece[]){diff_scores, piece_of(one, QS_SRC2, keys), piece_of(one, QS_DIFF_SRC, q)}, 1));
    /* Of keys and values: sums over the queries, and over the heads that read them. */
    const qs_matrices diff_keys = of_operand(k, size->key_heads, d, 1), diff_values = of_operand(k, size->key_heads, e, 1);
    of = (qs_matmul){.heads = size->key_heads, .summed = shared, .rows = k, .inner = m, .columns = d};
    QS_TRY(product_add(kernel, own, of, (piece[]){diff_turned, queries, piece_of(one, QS_DIFF_SRC2, diff_keys)}, 1));
    of.columns = e;
    return product_add(kernel, own, of, (piece[]){turned_probabilities, diff_dst, piece_of(one, QS_DIFF_SRC3, diff_values)}, 1);
}

/* ---- Running ------------------------------------------------------------------------------------------------------------------------- */

static qs_status softmax_run(const qs__cuda_kernel *kernel, const qs_run *run) {
    const attention *own = kernel->own;
    const qs_attention *size = &own->size;
    const int64_t rows = size->samples * size->heads * size->queries, warps = QS__ATTENTION_THREADS / 32;
    const qs_random_stream draws = qs_attention_draws(size, run, 0, 0, 0);
    const qs__cuda_format format = qs__cuda_format_of(own->format);
    const qs__cuda_attention_job job = {
        .scores = qs__place_at(kernel, own->scores),
        .diff = own->backward ? qs__place_at(kernel, own->diff) : 0,
        .result = {.at = qs__place_at(kernel, own->probabilities), .count = rows * own->next, .format = format},
        .diff_result = {.at = qs__place_at(kernel, own->diff_scores), .count = rows * own->next, .format = format},
        .samples = size->samples,
        .heads = size->heads,
        .queries = size->queries,
        .keys = size->keys,
        .next = own->next,
        .keep = qs__cuda_at(kernel, QS_KEEP),
        .masked = size->masked,
        .causal = size->causal,
        .window = size->window,
        .scale = (float)(1 / sqrt((double)size->width)),
        .probability = (float)size->probability,
        .factor = (float)(1 / (1 - size->probability)),
        .key = draws.key,
        .first_row = draws.first >> 32};
    return qs__cuda_launch(kernel, own->rows, (rows + warps - 1) / warps, QS__ATTENTION_THREADS, 0, &job);
}

static qs_status run(qs__cuda_kernel *kernel, const qs_run *run) {
    const attention *own = kernel->own;
    const int before = own->backward ? 2 : 1;
    for (int i = 0; i < before; i++)
        QS_TRY(qs__product_run(kernel, &own->product[i]));
    QS_TRY(softmax_run(kernel, run));
    for (int i = before; i < own->products; i++)
        QS_TRY(qs__product_run(kernel, &own->product[i]));
    return QS_OK;
}

/* ---- Building ------------------------------------------------------------------------------------------------------------------------ */

static qs__place scratch_of(qs__cuda_kernel *kernel, int64_t count, size_t width) {
    return (qs__place){.operand = QS__SCRATCH, .offset = qs__cuda_scratch(kernel, (size_t)count * width)};
}

qs_status qs__cuda_build_cublaslt_attention(qs__cuda_kernel *kernel) {
    const qs_case *one = &kernel->one;
    attention *own;
    QS_TRY(qs_allocate(1, sizeof *own, &own));
    kernel->own = own;
    kernel->release = release;
    kernel->run = run;
    *own =
        (attention){.size = qs_case_attention(one), .backward = qs_case_position(one, QS_DIFF_DST) >= 0, .format = one->operand[0].format};
    const bool same = !strcmp(own->format->name, "fp32");
    if (!same && own->format->bits != 16)
        return qs_fail(QS_UNSUPPORTED, "attention by cuBLASLt takes fp32, bf16 and fp16, not %s", own->format->name);
    own->next = (own->size.keys + ROW_UNIT - 1) / ROW_UNIT * ROW_UNIT;
    const int64_t count = own->size.samples * own->size.heads * own->size.queries * own->next;
    own->scores = scratch_of(kernel, count, sizeof(float));
    own->probabilities = same ? own->scores : scratch_of(kernel, count, sizeof(uint16_t));
    if (own->backward) own->diff = scratch_of(kernel, count, sizeof(float));
    if (own->backward) own->diff_scores = same ? own->diff : scratch_of(kernel, count, sizeof(uint16_t));
    QS_TRY(qs__cuda_function(kernel, "attention_rows", &own->rows));
    QS_TRY(products_build(kernel, own));
    qs__products_workspace(kernel, own->products, own->product);
    snprintf(kernel->name, sizeof kernel->name, "cublaslt:unfused:%s", own->product[0].plan->algorithm[0].tag);
    return QS_OK;
}
