// SPDX-License-Identifier: Apache-2.0
/* attention: softmax(q kᵀ / sqrt(d)) v of every head (Vaswani et al., 2017), with the probabilities never stored.
 *
 * Inputs: queries [N, heads·d, M], keys [N, key_heads·d, K], values [N, key_heads·e, K] and, where positions are padded,
 * keep [N,K]; or keep [N,M·K], any mask, which tells for each query by itself what it sees. Heads lie side by side in the channels; query
 * head h reads the key head h / (heads / key_heads) (grouped queries: Ainslie et al., 2023). dst [N, heads·e, M]. Passes: forward and
 * inference src src2 src3 keep? dst; backward src src2 src3 keep? diff_dst diff_src diff_src2 diff_src3, which forms the probabilities anew
 * and reads nothing else that forward made.
 *
 * Position m of the queries stands at m + K - M among the keys. It sees those that keep does not leave out, where causal up to its own
 * place, and with a `window` w those less than w away from it. One that sees none gives 0, and no gradient to anything. Keys and values
 * that nobody sees must be finite numbers: devices may multiply them by 0.
 *
 * With `sequences` S a sample is S sequences of equal length, one behind the other, and each attends to itself alone: the same as S
 * samples.
 *
 * In training a probability is dropped with the setting `probability` and otherwise divided by 1 - probability, after it was normalised.
 * Key k of row r = (global sequence · heads + head) · M + m draws with counter 2^32 r + k: draws depend on no ranks, threads or blocks. */
#include "internal.h"

#include "qsync/attention.h"

#include <math.h>
#include <stdlib.h>

static qs_status extents(const qs_attributes *with, const qs_shape *src, qs_attention *out) {
    const qs_shape *queries = &src[0], *keys = &src[1], *values = &src[2], *keep = &src[3];
    const double heads = with->heads, key_heads = with->key_heads == 0 ? heads : with->key_heads;
    const char *const names[] = {"queries", "keys", "values"};
    char text[96];
    for (int i = 0; i < 3; i++)
        if (src[i].axes != 3) return qs_fail(QS_USAGE, "attention: %s %s need the axes N,C,L", names[i], qs_shape_text(&src[i], text));
    if (heads != floor(heads) || key_heads != floor(key_heads) || !(heads >= 1 && key_heads >= 1) || fmod(heads, key_heads) != 0)
        return qs_fail(QS_USAGE, "attention: %g heads read %g key heads: whole numbers, the second of which divides the first", heads,
                       key_heads);
    if (with->window != floor(with->window) || with->sequences != floor(with->sequences) || !(with->window >= 0 && with->sequences >= 0))
        return qs_fail(QS_USAGE, "attention: a window of %g and %g sequences: whole numbers", with->window, with->sequences);
    qs_attention all = {.samples = queries->dim[0],
                        .heads = (int64_t)heads,
                        .key_heads = (int64_t)key_heads,
                        .queries = queries->dim[2],
                        .keys = keys->dim[2],
                        .sequences = with->sequences > 0 ? (int64_t)with->sequences : 1,
                        .causal = with->causal != 0,
                        .window = (int64_t)with->window};
    all.width = queries->dim[1] / all.heads;
    all.value_width = values->dim[1] / all.key_heads;
    for (int i = 0; i < 3; i++) {
        const int64_t parts = i == 0 ? all.heads : all.key_heads;
        if (src[i].dim[1] % parts != 0)
            return qs_fail(QS_USAGE, "attention: %lld heads do not divide the %lld channels of the %s", (long long)parts,
                           (long long)src[i].dim[1], names[i]);
    }
    if (keys->dim[1] / all.key_heads != all.width)
        return qs_fail(QS_USAGE, "attention: a head of the queries has %lld channels, one of the keys %lld: as many are needed",
                       (long long)all.width, (long long)(keys->dim[1] / all.key_heads));
    if (keys->dim[0] != all.samples || values->dim[0] != all.samples || values->dim[2] != all.keys)
        return qs_fail(QS_USAGE, "attention: %lld samples of queries, %lld with %lld keys, %lld with %lld values: as many are needed",
                       (long long)all.samples, (long long)keys->dim[0], (long long)all.keys, (long long)values->dim[0],
                       (long long)values->dim[2]);
    if (all.queries % all.sequences != 0 || all.keys % all.sequences != 0)
        return qs_fail(QS_USAGE, "attention: %lld sequences do not divide %lld queries and %lld keys", (long long)all.sequences,
                       (long long)all.queries, (long long)all.keys);
    const int64_t pairs = all.queries / all.sequences * all.keys;
    if (keep->axes && (keep->axes != 2 || keep->dim[0] != all.samples || (keep->dim[1] != all.keys && keep->dim[1] != pairs)))
        return qs_fail(QS_USAGE, "attention: keep is %s, the keys need [%lld,%lld], or for each query [%lld,%lld]",
                       qs_shape_text(keep, text), (long long)all.samples, (long long)all.keys, (long long)all.samples, (long long)pairs);
    all.masked = keep->axes && keep->dim[1] != all.keys;
    *out = all;
    return QS_OK;
}

static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)outputs;
    qs_attention all;
    QS_TRY(extents(with, src, &all));
    *dst = qs_shape_of(3, all.samples, all.heads * all.value_width, all.queries);
    return QS_OK;
}

static qs_status case_extents(const qs_case *one, qs_attention *out) {
    qs_shape src[4] = {*qs__shape(one, QS_SRC), *qs__shape(one, QS_SRC2), *qs__shape(one, QS_SRC3)};
    if (qs__present(one, QS_KEEP)) src[3] = *qs__shape(one, QS_KEEP);
    return extents(&one->attributes, src, out);
}

qs_attention qs_case_attention(const qs_case *one) {
    qs_attention all = {0};
    (void)case_extents(one, &all);                                                         /* the case was checked */
    all.samples *= all.sequences, all.queries /= all.sequences, all.keys /= all.sequences; /* they lie in memory as samples do */
    all.probability = one->pass == qs_op_pass(one->op, "inference") ? 0 : one->attributes.probability;
    return all;
}

static int64_t among_keys(const qs_attention *all, int64_t key) {
    return key < 0 ? 0 : key < all->keys ? key : all->keys;
}

int64_t qs_attention_seen(const qs_attention *all, int64_t query) {
    const int64_t place = query + all->keys - all->queries;
    if (all->causal) return among_keys(all, place + 1);
    return all->window == 0 ? all->keys : among_keys(all, place + all->window);
}

int64_t qs_attention_unseen(const qs_attention *all, int64_t query) {
    return all->window == 0 ? 0 : among_keys(all, query + all->keys - all->queries - all->window + 1);
}

qs_random_stream qs_attention_draws(const qs_attention *all, const qs_run *run, int64_t sample, int64_t head, int64_t query) {
    const uint64_t row =
        ((uint64_t)(run->first_sample * all->sequences + sample) * (uint64_t)all->heads + (uint64_t)head) * (uint64_t)all->queries +
        (uint64_t)query;
    return (qs_random_stream){.key = qs_random_key(run->seed, run->step, run->operator_id, run->stream), .first = row << 32};
}

static qs_status check_forward(const qs_case *one) {
    qs_attention all;
    QS_TRY(case_extents(one, &all));
    return qs__need_shape(one, QS_DST, qs_shape_of(3, all.samples, all.heads * all.value_width, all.queries));
}

static qs_status check_backward(const qs_case *one) {
    qs_attention all;
    QS_TRY(case_extents(one, &all));
    QS_TRY(qs__need_shape(one, QS_DIFF_DST, qs_shape_of(3, all.samples, all.heads * all.value_width, all.queries)));
    QS_TRY(qs__need_same(one, QS_DIFF_SRC, QS_SRC));
    QS_TRY(qs__need_same(one, QS_DIFF_SRC2, QS_SRC2));
    return qs__need_same(one, QS_DIFF_SRC3, QS_SRC3);
}

/* ---- Reference ---- */

/* Decoded operands, and the probabilities of one row. */
typedef struct inputs {
    qs_attention all;
    const qs_run *run;
    float *queries, *keys, *values;
    const int32_t *keep; /* NULL: all count */
    double *row;         /* [keys] */
    double *factor;      /* [keys]: 0 where the probability is dropped, else 1 / (1 - probability) */
} inputs;

static void inputs_release(inputs *in) {
    free(in->queries);
    free(in->keys);
    free(in->values);
    free(in->row);
    free(in->factor);
}

static qs_status inputs_read(const qs_case *one, const qs_tensor *operands, const qs_run *run, inputs *in) {
    *in = (inputs){.all = qs_case_attention(one), .run = run};
    if (qs__present(one, QS_KEEP)) in->keep = qs__operand(one, operands, QS_KEEP)->data;
    QS_TRY(qs__read(qs__operand(one, operands, QS_SRC), &in->queries));
    QS_TRY(qs__read(qs__operand(one, operands, QS_SRC2), &in->keys));
    QS_TRY(qs__read(qs__operand(one, operands, QS_SRC3), &in->values));
    QS_TRY(qs_allocate((size_t)in->all.keys, sizeof *in->row, &in->row));
    return qs_allocate((size_t)in->all.keys, sizeof *in->factor, &in->factor);
}

/* One row of the scores: a query, and where its head and its key head begin in a position's channels. */
typedef struct row {
    int64_t sample, head, query;
    int64_t at, value_at;               /* element of the first channel in queries; in dst */
    int64_t key_channel, value_channel; /* first channel of the key head in keys; in values */
} row;

static row row_of(const qs_attention *all, int64_t index) {
    const int64_t position = index / all->heads, head = index % all->heads, key_head = head / (all->heads / all->key_heads);
    return (row){.sample = position / all->queries,
                 .head = head,
                 .query = position % all->queries,
                 .at = index * all->width,
                 .value_at = index * all->value_width,
                 .key_channel = key_head * all->width,
                 .value_channel = key_head * all->value_width};
}

static const float *key_of(const inputs *in, const row *r, int64_t k) {
    return in->keys + (r->sample * in->all.keys + k) * in->all.key_heads * in->all.width + r->key_channel;
}

static const float *value_of(const inputs *in, const row *r, int64_t k) {
    return in->values + (r->sample * in->all.keys + k) * in->all.key_heads * in->all.value_width + r->value_channel;
}

/* softmax of the row's scores into in->row, 0 where a key is not seen; and the factors of dropout. */
static void probabilities(const inputs *in, const row *r) {
    const qs_attention *all = &in->all;
    const int64_t seen = qs_attention_seen(all, r->query), unseen = qs_attention_unseen(all, r->query);
    const qs_random_stream draws = qs_attention_draws(all, in->run, r->sample, r->head, r->query);
    double largest = -HUGE_VAL, sum = 0;
    for (int64_t k = 0; k < all->keys; k++) {
        const int64_t line = all->masked ? r->sample * all->queries + r->query : r->sample;
        const bool sees = k >= unseen && k < seen && (!in->keep || in->keep[line * all->keys + k] != 0);
        const float *query = in->queries + r->at, *key = key_of(in, r, k);
        double score = 0;
        for (int64_t i = 0; i < all->width; i++)
            score += (double)query[i] * (double)key[i];
        in->row[k] = sees ? score / sqrt((double)all->width) : -HUGE_VAL;
        if (sees) largest = fmax(largest, in->row[k]);
    }
    for (int64_t k = 0; k < all->keys; k++) {
        in->row[k] = in->row[k] == -HUGE_VAL ? 0 : exp(in->row[k] - largest);
        sum += in->row[k];
        const bool kept = qs_random_uniform(draws.key, draws.first + (uint64_t)k) >= (float)all->probability;
        in->factor[k] = kept ? 1 / (1 - all->probability) : 0;
    }
    for (int64_t k = 0; k < all->keys && sum > 0; k++)
        in->row[k] /= sum;
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    inputs in;
    double *result = NULL;
    qs_status status;
    QS_GOTO(inputs_read(one, operands, run, &in));
    const qs_attention *all = &in.all;
    const int64_t rows = all->samples * all->queries * all->heads;
    QS_GOTO(qs_allocate((size_t)(rows * all->value_width), sizeof *result, &result)); /* zeros */
    for (int64_t i = 0; i < rows; i++) {
        const row r = row_of(all, i);
        probabilities(&in, &r);
        for (int64_t k = 0; k < all->keys; k++)
            for (int64_t e = 0; e < all->value_width && in.row[k] > 0; e++)
                result[r.value_at + e] += in.row[k] * in.factor[k] * (double)value_of(&in, &r, k)[e];
    }
    status = qs__write_double(qs__operand(one, operands, QS_DST), result);
done:
    inputs_release(&in);
    free(result);
    return status;
}

/* Gradients, zeros at the start. */
typedef struct sums {
    double *queries, *keys, *values;
} sums;

/* With p the probabilities and f the factors of dropout: the gradient of p is g = f · (diff_dst · value), that of the scores
 * p (g - Σ p g), that of a value f p diff_dst. */
static void row_gradient(const inputs *in, const row *r, const float *diff, double *g, const sums *to) {
    const qs_attention *all = &in->all;
    const double scale = 1 / sqrt((double)all->width);
    double mean = 0;
    probabilities(in, r);
    for (int64_t k = 0; k < all->keys; k++) {
        const float *value = value_of(in, r, k);
        g[k] = 0;
        for (int64_t e = 0; e < all->value_width; e++)
            g[k] += in->factor[k] * (double)diff[e] * (double)value[e];
        if (in->row[k] > 0) mean += in->row[k] * g[k];
    }
    for (int64_t k = 0; k < all->keys; k++) {
        if (in->row[k] == 0) continue;
        const float *key = key_of(in, r, k), *query = in->queries + r->at;
        const double of_score = in->row[k] * (g[k] - mean) * scale;
        for (int64_t i = 0; i < all->width; i++) {
            to->queries[r->at + i] += of_score * (double)key[i];
            to->keys[key - in->keys + i] += of_score * (double)query[i];
        }
        for (int64_t e = 0; e < all->value_width; e++)
            to->values[value_of(in, r, k) - in->values + e] += in->row[k] * in->factor[k] * (double)diff[e];
    }
}

static qs_status backward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    inputs in;
    float *diff = NULL;
    double *g = NULL;
    sums to = {0};
    qs_status status;
    QS_GOTO(inputs_read(one, operands, run, &in));
    QS_GOTO(qs__read(qs__operand(one, operands, QS_DIFF_DST), &diff));
    QS_GOTO(qs_allocate((size_t)in.all.keys, sizeof *g, &g));
    QS_GOTO(qs_allocate((size_t)qs_shape_count(qs__shape(one, QS_SRC)), sizeof *to.queries, &to.queries));
    QS_GOTO(qs_allocate((size_t)qs_shape_count(qs__shape(one, QS_SRC2)), sizeof *to.keys, &to.keys));
    QS_GOTO(qs_allocate((size_t)qs_shape_count(qs__shape(one, QS_SRC3)), sizeof *to.values, &to.values));
    for (int64_t i = 0; i < in.all.samples * in.all.queries * in.all.heads; i++) {
        const row r = row_of(&in.all, i);
        row_gradient(&in, &r, diff + r.value_at, g, &to);
    }
    QS_GOTO(qs__write_double(qs__operand(one, operands, QS_DIFF_SRC), to.queries));
    QS_GOTO(qs__write_double(qs__operand(one, operands, QS_DIFF_SRC2), to.keys));
    status = qs__write_double(qs__operand(one, operands, QS_DIFF_SRC3), to.values);
done:
    inputs_release(&in);
    free(diff);
    free(g);
    free(to.queries);
    free(to.keys);
    free(to.values);
    return status;
}

/* ---- Cost ---- */

/* Pairs of a query and a key that it sees, of all samples and heads: where causal and square about half of all. Padding is data, and does
 * not count. */
static double pairs(const qs_attention *all) {
    double seen = 0;
    for (int64_t m = 0; m < all->queries; m++)
        seen += fmax((double)(qs_attention_seen(all, m) - qs_attention_unseen(all, m)), 0);
    return seen * (double)(all->samples * all->heads);
}

/* Scores, and the sum of values; never 0: a case has a price. */
static double flops_forward(const qs_case *one) {
    const qs_attention all = qs_case_attention(one);
    return 2 * fmax(pairs(&all), 1) * (double)(all.width + all.value_width);
}

/* Scores anew, the gradient of the probabilities, then those of queries, keys and values. */
static double flops_backward(const qs_case *one) {
    const qs_attention all = qs_case_attention(one);
    return 2 * fmax(pairs(&all), 1) * (double)(3 * all.width + 2 * all.value_width);
}

#define INPUTS                                                                                      \
    {.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_SRC2, .source = QS_FROM_INPUT, .of = 1}, \
        {.role = QS_SRC3, .source = QS_FROM_INPUT, .of = 2}, {                                      \
        .role = QS_KEEP, .source = QS_FROM_INPUT, .of = 3, .optional = true                         \
    }

static const qs_pass passes[] = {
    {.name = "forward",
     QS_OPERANDS(INPUTS, {.role = QS_DST, .source = QS_TO_OUTPUT}),
     .reference = forward,
     .flops = flops_forward,
     .check = check_forward},
    {.name = "inference",
     QS_OPERANDS(INPUTS, {.role = QS_DST, .source = QS_TO_OUTPUT}),
     .reference = forward,
     .flops = flops_forward,
     .check = check_forward},
    {.name = "backward",
     QS_OPERANDS(INPUTS, {.role = QS_DIFF_DST, .source = QS_FROM_GRADIENT}, {.role = QS_DIFF_SRC, .source = QS_TO_INPUT_GRADIENT},
                 {.role = QS_DIFF_SRC2, .source = QS_TO_INPUT_GRADIENT, .of = 1},
                 {.role = QS_DIFF_SRC3, .source = QS_TO_INPUT_GRADIENT, .of = 2}),
     .reference = backward,
     .flops = flops_backward,
     .check = check_backward},
};

/* Q, K, V, D: shapes of queries, keys, values and result; W: keep, or nothing; S: settings. */
#define FORWARD(P, F, Q, K, V, W, D, S) "attention/" P " src=" F Q " src2=" F K " src3=" F V W " dst=" F D S
#define BACKWARD(F, Q, K, V, W, D, S) \
    "attention/backward src=" F Q " src2=" F K " src3=" F V W " diff_dst=" F D " diff_src=" F Q " diff_src2=" F K " diff_src3=" F V S
#define EVERY(F, Q, K, V, W, D, S) FORWARD("forward", F, Q, K, V, W, D, S), BACKWARD(F, Q, K, V, W, D, S)

static const char *const cases[] = {
    EVERY("fp32", "[2,8,5]", "[2,8,7]", "[2,8,7]", "", "[2,8,5]", " heads=2"),
    EVERY("fp32", "[1,3,1]", "[1,3,1]", "[1,2,1]", "", "[1,2,1]", " heads=1"),
    EVERY("fp32", "[3,16,9]", "[3,16,9]", "[3,16,9]", " keep=fp32[3,9]", "[3,16,9]", " heads=4"),
    EVERY("fp32", "[2,12,11]", "[2,6,11]", "[2,10,11]", "", "[2,20,11]", " heads=4 key_heads=2 causal=1"),
    EVERY("fp32", "[2,32,20]", "[2,16,33]", "[2,16,33]", " keep=fp32[2,33]", "[2,32,20]", " heads=2 key_heads=1 causal=1 probability=0.25"),
    EVERY("fp32", "[2,6,9]", "[2,6,4]", "[2,6,4]", "", "[2,6,9]", " heads=2 causal=1 probability=0.5"),
    EVERY("bf16", "[2,64,40]", "[2,64,40]", "[2,64,40]", " keep=fp32[2,40]", "[2,64,40]", " heads=2 probability=0.1"),
    EVERY("bf16", "[3,24,17]", "[3,8,18]", "[3,8,18]", "", "[3,24,17]", " heads=3 key_heads=1 causal=1"),
    EVERY("fp16", "[2,16,6]", "[2,16,6]", "[2,16,6]", "", "[2,16,6]", " heads=2"),
    FORWARD("inference", "fp32", "[2,8,6]", "[2,8,6]", "[2,8,6]", " keep=fp32[2,6]", "[2,8,6]", " heads=2 probability=0.5"),
    FORWARD("inference", "fp32", "[3,4,7]", "[3,2,9]", "[3,2,9]", " keep=fp32[3,9]", "[3,4,7]", " heads=2 key_heads=1 causal=1"),
    FORWARD("inference", "bf16", "[2,32,70]", "[2,32,150]", "[2,32,150]", "", "[2,32,70]", " heads=1 causal=1"),
    EVERY("fp32", "[2,8,15]", "[2,8,18]", "[2,8,18]", " keep=fp32[2,18]", "[2,8,15]", " heads=2 sequences=3"),
    EVERY("bf16", "[2,16,24]", "[2,16,24]", "[2,16,24]", "", "[2,16,24]", " heads=2 probability=0.25 sequences=2"),
    EVERY("fp32", "[2,8,50]", "[2,4,50]", "[2,4,50]", "", "[2,8,50]", " heads=2 key_heads=1 causal=1 window=3"),
    EVERY("fp32", "[1,8,40]", "[1,8,170]", "[1,8,170]", " keep=fp32[1,170]", "[1,8,40]", " heads=2 probability=0.5 window=7"),
    EVERY("bf16", "[1,16,300]", "[1,16,300]", "[1,16,300]", "", "[1,16,300]", " heads=1 causal=1 window=40 sequences=2"),
    EVERY("fp32", "[3,8,37]", "[3,8,41]", "[3,8,41]", " keep=fp32[3,1517]", "[3,8,37]", " heads=2"),
    EVERY("bf16", "[2,16,70]", "[2,16,70]", "[2,16,70]", " keep=fp32[2,2450]", "[2,16,70]", " heads=1 causal=1 sequences=2"),
    NULL};

const qs_op qs__op_attention = {
    .name = "attention",
    .kind = QS_DEPENDENT,
    .decoding = QS_EARLIER_POSITIONS,
    .cached = "cached_attention",
    .inputs = 4,
    .optional = 1,
    .infer = infer,
    .setting = {QS_SETTING(heads, 1, 1, 65536, "that lie side by side in the channels of the queries"),
                QS_SETTING(key_heads, 0, 0, 65536, "of keys and values, each read by heads / key_heads of the others; 0: as many"),
                QS_SETTING(causal, 0, 0, 1, "1: position m sees the positions up to m"),
                QS_SETTING(probability, 0, 0, 0.9999999, "of a probability to be dropped in training"),
                QS_SETTING(window, 0, 0, 2147483647, "position m sees those less than so many away; 0: all"),
                QS_SETTING(sequences, 0, 0, 65536, "one behind the other in the positions, each attending to itself alone; 0: one")},
    .passes = 3,
    .pass = passes,
    .cases = cases};
