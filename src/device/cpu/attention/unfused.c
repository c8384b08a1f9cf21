// SPDX-License-Identifier: Apache-2.0
/* Attention in three steps, by the kernel library's products: scores of all heads into scratch, their softmax, the sum of values; backward
 * likewise with five products. Scratch grows with queries × keys. It is there to be measured beside attention in blocks, and where that is
 * slower. */
#include "cpu/attention/attention.h"
#include "cpu/cpu.h"

#include <math.h>
#include <string.h>

enum { CODES = 0, DIFF_CODES = 1, BIAS = 2 }; /* what offset[] of the chain holds */

/* Matrices of all heads: [sample][head][row][column]. */
static qs__layout matrices(const qs_attention *size, int64_t rows, int64_t columns, qs__type type, const int64_t stride[4]) {
    return qs__cpu_matrices((const int64_t[]){size->samples, size->heads, rows, columns}, type, stride);
}

/* An operand, whose heads lie side by side, with positions as rows; turned: as columns. */
static qs__layout of_operand(const qs_attention *size, int64_t positions, int64_t width, qs__type type, bool turned) {
    const int64_t row = size->heads * width, sample = positions * row;
    if (turned) return matrices(size, width, positions, type, (const int64_t[]){sample, width, 1, row});
    return matrices(size, positions, width, type, (const int64_t[]){sample, width, row, 1});
}

/* Scores, whose rows are padded. */
static qs__layout of_scores(const qs_attention *size, qs__type type, bool turned) {
    const int64_t row = qs__attention_next(size), head = size->queries * row, sample = size->heads * head;
    if (turned) return matrices(size, size->keys, size->queries, type, (const int64_t[]){sample, head, 1, row});
    return matrices(size, size->queries, size->keys, type, (const int64_t[]){sample, head, row, 1});
}

/* A place for scores, with the padding of the last row, which the layout does not count. */
static int scores_slot(qs__chain *chain, const qs__layout *layout, const qs_attention *size) {
    const int slot = qs__chain_scratch(chain, layout);
    qs__chain_reserve(chain, (size_t)qs__attention_next(size) * sizeof(float));
    return slot;
}

/* The memory of a slot, seen otherwise. */
static int seen_as(qs__chain *chain, int slot, const qs__layout *layout) {
    const int other = qs__chain_operand(chain, QS_SRC, layout);
    chain->slot[other].operand = -1;
    chain->slot[other].offset = chain->slot[slot].offset;
    return other;
}

static qs_status product(qs__chain *chain, int left, int right, int result) {
    const qs__work_request request = {
        .kind = QS__MATMUL, .src = &chain->slot[left].layout, .weights = &chain->slot[right].layout, .dst = &chain->slot[result].layout};
    QS_TRY(qs__chain_plan(chain, &request));
    qs__chain_place(chain);
    qs__chain_bind(chain, QS__ARGUMENT_SRC, left);
    qs__chain_bind(chain, QS__ARGUMENT_WEIGHTS, right);
    qs__chain_bind(chain, QS__ARGUMENT_DST, result);
    return QS_OK;
}

static int operand(qs__chain *chain, qs_role role, int64_t positions, int64_t width, bool turned) {
    const qs_attention size = qs_case_attention(&chain->one);
    const qs__layout layout = of_operand(&size, positions, width, qs__cpu_type(qs__case_format(&chain->one, role)), turned);
    return qs__chain_operand(chain, role, &layout);
}

/* ---- The softmax between products ---- */

typedef struct job {
    qs__attention_job work;
    qs__attention_rows rows;
    const qs__attention_kernels *kernels;
} job;

static void rows_range(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    j->kernels->softmax(&j->work, &j->rows, begin, end);
}

static float *scratch_at(const qs__chain *chain, size_t offset) {
    return (float *)(void *)(chain->scratch + offset);
}

/* Rows of keep: of samples, or of their queries. */
static int64_t kept_rows(const qs_attention *size) {
    return size->masked ? size->samples * size->queries : size->samples;
}

/* Slots 0 and 1 are scores and, backward, the gradients of the probabilities. */
static qs_status run_softmax(const qs__chain *chain, const qs_run *run) {
    job j = {.work = qs__attention_work(chain), .kernels = qs__attention_of(chain->cpu)};
    const qs_attention *size = &j.work.size;
    j.work.run = run;
    j.work.keep = qs__cpu_data(chain, QS_KEEP);
    j.rows = (qs__attention_rows){.next = qs__attention_next(size),
                                  .scores = scratch_at(chain, chain->slot[0].offset),
                                  .diff = j.work.backward ? scratch_at(chain, chain->slot[1].offset) : NULL,
                                  .bias = scratch_at(chain, chain->offset[BIAS])};
    if (j.work.pairs) j.rows.codes = (uint16_t *)(void *)(chain->scratch + chain->offset[CODES]);
    if (j.work.pairs && j.work.backward) j.rows.diff_codes = (uint16_t *)(void *)(chain->scratch + chain->offset[DIFF_CODES]);
    for (int64_t i = 0; j.work.keep && i < kept_rows(size) * j.rows.next; i++) {
        const int64_t row = i / j.rows.next, key = i % j.rows.next;
        j.rows.bias[i] = key < size->keys && j.work.keep[row * size->keys + key] != 0 ? 0 : -HUGE_VALF;
    }
    qs_parallel(size->samples * size->heads * size->queries, 16, rows_range, &j);
    return QS_OK;
}

/* ---- Chains ---- */

/* What the softmax wrote, as a factor: the scores themselves, or their codes at a place of their own. */
static int factor(qs__chain *chain, const qs__attention_job *work, int scores, int codes) {
    const qs__layout layout = of_scores(&work->size, QS__BF16, false);
    if (!work->pairs) return scores;
    const int slot = scores_slot(chain, &layout, &work->size);
    chain->offset[codes] = chain->slot[slot].offset;
    return slot;
}

static qs_status forward(qs__chain *chain, const qs__attention_job *work, int scores) {
    const qs_attention *size = &work->size;
    const int probabilities = factor(chain, work, scores, CODES);
    QS_TRY(product(chain, operand(chain, QS_SRC, size->queries, size->width, false), operand(chain, QS_SRC2, size->keys, size->width, true),
                   scores));
    qs__chain_call(chain, run_softmax);
    return product(chain, probabilities, operand(chain, QS_SRC3, size->keys, size->value_width, false),
                   operand(chain, QS_DST, size->queries, size->value_width, false));
}

static qs_status backward(qs__chain *chain, const qs__attention_job *work, int scores) {
    const qs_attention *size = &work->size;
    const qs__layout layout = of_scores(size, QS__FP32, false), turned = of_scores(size, work->pairs ? QS__BF16 : QS__FP32, true);
    const int diff = scores_slot(chain, &layout, size);
    const int queries = operand(chain, QS_SRC, size->queries, size->width, false),
              diff_dst = operand(chain, QS_DIFF_DST, size->queries, size->value_width, false);
    const int probabilities = factor(chain, work, scores, CODES), diff_scores = factor(chain, work, diff, DIFF_CODES);
    QS_TRY(product(chain, queries, operand(chain, QS_SRC2, size->keys, size->width, true), scores));
    QS_TRY(product(chain, diff_dst, operand(chain, QS_SRC3, size->keys, size->value_width, true), diff));
    qs__chain_call(chain, run_softmax);
    QS_TRY(product(chain, diff_scores, operand(chain, QS_SRC2, size->keys, size->width, false),
                   operand(chain, QS_DIFF_SRC, size->queries, size->width, false)));
    QS_TRY(product(chain, seen_as(chain, diff_scores, &turned), queries, operand(chain, QS_DIFF_SRC2, size->keys, size->width, false)));
    return product(chain, seen_as(chain, probabilities, &turned), diff_dst,
                   operand(chain, QS_DIFF_SRC3, size->keys, size->value_width, false));
}

qs_status qs__build_attention_unfused(qs__chain *chain) {
    const qs__attention_job work = qs__attention_work(chain);
    const qs_attention *size = &work.size;
    const qs__layout layout = of_scores(size, QS__FP32, false);
    if (size->heads != size->key_heads) return qs_fail(QS_UNSUPPORTED, "the library's products do not share key heads");
    for (int i = 0; i < chain->one.operands; i++) {
        const qs_format *format = chain->one.operand[i].format;
        const bool value = format && chain->one.operand[i].role != QS_KEEP;
        if (value && qs__cpu_type(format) != (work.pairs ? QS__BF16 : QS__FP32))
            return qs_fail(QS_UNSUPPORTED, "the library's products take operands of one format, fp32 or, where the processor has it, bf16");
    }
    snprintf(chain->name, sizeof chain->name, "attention_unfused:%s%s", qs__attention_of(chain->cpu)->name, work.pairs ? "_bf16" : "");
    const int scores = scores_slot(chain, &layout, size);
    chain->offset[BIAS] = qs__chain_reserve(
        chain, qs__case_has(&chain->one, QS_KEEP) ? (size_t)(kept_rows(size) * qs__attention_next(size)) * sizeof(float) : 0);
    return work.backward ? backward(chain, &work, scores) : forward(chain, &work, scores);
}
