// SPDX-License-Identifier: Apache-2.0
/* cached_attention: attention of the positions of one sequence as they come one after the other, as when a decoder writes text. Keys and
 * values of the positions before were put into caches by earlier runs, so that a run costs what its own positions do.
 *
 * Inputs: queries [1, heads·d, L], keys [1, key_heads·d, L], values [1, key_heads·e, L] of the L positions at hand, and place [1,1],
 * where the first of them stands in the sequence. Caches: key_cache [context, key_heads·d] and value_cache [context, key_heads·e], fp32,
 * `context` the setting: they are no weights, start with 0 and lie among the running statistics. dst [1, heads·e, L].
 * Pass: forward src src2 src3 place key_cache value_cache dst.
 *
 * Keys and values of the positions at hand go into rows place, place + 1, ... of the caches; then position m is what causal attention over
 * rows 0 ... place + m gives (op/attention.c; heads and the setting `window` as there). Rows behind are not looked at, so a sequence is
 * begun anew, or taken back, by a smaller place. Places without a row are refused. There is no backward pass. */
#include "internal.h"

#include "qsync/attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t context_of(const qs_attributes *with) {
    return (int64_t)with->context;
}

/* src: queries, keys, values. */
static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    const qs_shape all[4] = {src[0], src[1], src[2]};
    char text[96];
    QS_TRY(qs_fail_within(qs_op_of("attention")->infer(with, all, outputs, dst), "cached_attention"));
    if (src[0].dim[2] != src[1].dim[2])
        return qs_fail(QS_USAGE, "cached_attention: %lld queries and %lld keys: as many are needed", (long long)src[0].dim[2],
                       (long long)src[1].dim[2]);
    if (src[0].dim[0] != 1)
        return qs_fail(QS_USAGE, "cached_attention: queries are %s, and its caches are those of one sample", qs_shape_text(src, text));
    if (with->context != (double)context_of(with) || context_of(with) < src[0].dim[2])
        return qs_fail(QS_USAGE, "cached_attention: caches of %.17g places for %lld positions: a whole number, at least as many",
                       with->context, (long long)src[0].dim[2]);
    return QS_OK;
}

static int parameters(const qs_attributes *with, const qs_shape *src, int64_t outputs, bool bias, qs_parameter_rule *out) {
    (void)outputs, (void)bias;
    out[0] = (qs_parameter_rule){
        .name = "key_cache", .role = QS_KEY_CACHE, .gradient = QS_ROLE_COUNT, .shape = qs_shape_of(2, context_of(with), src[1].dim[1])};
    out[1] = (qs_parameter_rule){
        .name = "value_cache", .role = QS_VALUE_CACHE, .gradient = QS_ROLE_COUNT, .shape = qs_shape_of(2, context_of(with), src[2].dim[1])};
    return 2;
}

static qs_status check(const qs_case *one) {
    const qs_shape src[3] = {*qs__shape(one, QS_SRC), *qs__shape(one, QS_SRC2), *qs__shape(one, QS_SRC3)};
    qs_shape dst;
    QS_TRY(infer(&one->attributes, src, 0, &dst));
    QS_TRY(qs__check_place(one));
    QS_TRY(qs__need_shape(one, QS_KEY_CACHE, qs_shape_of(2, context_of(&one->attributes), src[1].dim[1])));
    QS_TRY(qs__need_shape(one, QS_VALUE_CACHE, qs_shape_of(2, context_of(&one->attributes), src[2].dim[1])));
    return qs__need_shape(one, QS_DST, dst);
}

qs_attention qs_case_cached_attention(const qs_case *one) {
    const qs_attributes *with = &one->attributes;
    const int64_t heads = (int64_t)with->heads, key_heads = with->key_heads == 0 ? heads : (int64_t)with->key_heads;
    return (qs_attention){.samples = 1,
                          .heads = heads,
                          .key_heads = key_heads,
                          .queries = qs__shape(one, QS_SRC)->dim[2],
                          .keys = context_of(with),
                          .width = qs__shape(one, QS_SRC)->dim[1] / heads,
                          .value_width = qs__shape(one, QS_SRC3)->dim[1] / key_heads,
                          .sequences = 1,
                          .causal = true,
                          .window = (int64_t)with->window};
}

/* ---- Reference ---- */

/* One head of the position at `place`: scores of the rows that it sees, their softmax, and the sum of values into dst. */
static void head(const qs_attention *all, int64_t head, int64_t place, const float *query, const float *keys, const float *values,
                 double *row, double *dst) {
    const int64_t key_head = head / (all->heads / all->key_heads);
    const int64_t first = all->window > 0 && place >= all->window ? place - all->window + 1 : 0;
    double largest = -HUGE_VAL, sum = 0;
    for (int64_t k = first; k <= place; k++) {
        const float *key = keys + (k * all->key_heads + key_head) * all->width;
        row[k] = 0;
        for (int64_t i = 0; i < all->width; i++)
            row[k] += (double)query[i] * (double)key[i];
        row[k] /= sqrt((double)all->width);
        largest = fmax(largest, row[k]);
    }
    for (int64_t k = first; k <= place; k++)
        sum += row[k] = exp(row[k] - largest);
    for (int64_t k = first; k <= place; k++)
        for (int64_t e = 0; e < all->value_width; e++)
            dst[e] += row[k] / sum * (double)values[(k * all->key_heads + key_head) * all->value_width + e];
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    const qs_attention all = qs_case_cached_attention(one);
    const int64_t place = qs__place_read(one, operands), keys = all.key_heads * all.width, values = all.key_heads * all.value_width;
    float *key_cache = qs__fp32(one, operands, QS_KEY_CACHE), *value_cache = qs__fp32(one, operands, QS_VALUE_CACHE);
    float *query = NULL, *key = NULL, *value = NULL;
    double *row = NULL, *result = NULL;
    qs_status status;
    QS_GOTO(qs_place_check(one, (int32_t)place, all.queries, all.keys));
    QS_GOTO(qs__read(qs__operand(one, operands, QS_SRC), &query));
    QS_GOTO(qs__read(qs__operand(one, operands, QS_SRC2), &key));
    QS_GOTO(qs__read(qs__operand(one, operands, QS_SRC3), &value));
    QS_GOTO(qs_allocate((size_t)all.keys, sizeof *row, &row));
    QS_GOTO(qs_allocate((size_t)(all.queries * all.heads * all.value_width), sizeof *result, &result)); /* zeros */
    memcpy(key_cache + place * keys, key, (size_t)(all.queries * keys) * sizeof *key);
    memcpy(value_cache + place * values, value, (size_t)(all.queries * values) * sizeof *value);
    for (int64_t i = 0; i < all.queries * all.heads; i++)
        head(&all, i % all.heads, place + i / all.heads, query + i * all.width, key_cache, value_cache, row, result + i * all.value_width);
    status = qs__write_double(qs__operand(one, operands, QS_DST), result);
done:
    free(query);
    free(key);
    free(value);
    free(row);
    free(result);
    return status;
}

/* As if all places were seen: the place is data. */
static double flops(const qs_case *one) {
    const qs_attention all = qs_case_cached_attention(one);
    return 2 * (double)(all.queries * all.heads * all.keys) * (double)(all.width + all.value_width);
}

static const qs_pass passes[] = {
    {.name = "forward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_SRC2, .source = QS_FROM_INPUT, .of = 1},
                 {.role = QS_SRC3, .source = QS_FROM_INPUT, .of = 2}, {.role = QS_PLACE, .source = QS_FROM_INPUT, .of = 3},
                 {.role = QS_KEY_CACHE, .source = QS_UPDATED_PARAMETER}, {.role = QS_VALUE_CACHE, .source = QS_UPDATED_PARAMETER},
                 {.role = QS_DST, .source = QS_TO_OUTPUT}),
     .reference = forward,
     .flops = flops,
     .check = check},
};

#define EVERY(F, Q, K, V, KC, VC, D, W) \
    "cached_attention/forward src=" F Q " src2=" F K " src3=" F V " place=fp32[1,1] key_cache=fp32" KC " value_cache=fp32" VC " dst=" F D W

static const char *const cases[] = {
    EVERY("fp32", "[1,8,1]", "[1,8,1]", "[1,8,1]", "[7,8]", "[7,8]", "[1,8,1]", " heads=2 context=7"),
    EVERY("fp32", "[1,3,1]", "[1,3,1]", "[1,2,1]", "[1,3]", "[1,2]", "[1,2,1]", " heads=1 context=1"),
    EVERY("fp32", "[1,12,5]", "[1,6,5]", "[1,10,5]", "[9,6]", "[9,10]", "[1,20,5]", " heads=4 key_heads=2 context=9"),
    EVERY("fp32", "[1,96,1]", "[1,32,1]", "[1,32,1]", "[300,32]", "[300,32]", "[1,96,1]", " heads=3 key_heads=1 context=300"),
    EVERY("fp32", "[1,12,5]", "[1,6,5]", "[1,6,5]", "[19,6]", "[19,6]", "[1,12,5]", " heads=4 key_heads=2 window=3 context=19"),
    EVERY("fp32", "[1,70,16]", "[1,70,16]", "[1,70,16]", "[33,70]", "[33,70]", "[1,70,16]", " heads=2 context=33"),
    EVERY("bf16", "[1,64,3]", "[1,32,3]", "[1,32,3]", "[40,32]", "[40,32]", "[1,64,3]", " heads=4 key_heads=2 context=40"),
    EVERY("fp16", "[1,16,1]", "[1,16,1]", "[1,16,1]", "[6,16]", "[6,16]", "[1,16,1]", " heads=2 context=6"),
    NULL};

const qs_op qs__op_cached_attention = {
    .name = "cached_attention",
    .kind = QS_DEPENDENT,
    .evaluation_only = true,
    .inputs = 4,
    .infer = infer,
    .parameters = parameters,
    .setting = {QS_SETTING(heads, 1, 1, 65536, "that lie side by side in the channels of the queries"),
                QS_SETTING(key_heads, 0, 0, 65536, "of keys and values, each read by heads / key_heads of the others; 0: as many"),
                QS_SETTING(window, 0, 0, 2147483647, "a position sees those less than so many away; 0: all before it"),
                QS_SETTING(context, 1, 1, 1048576, "places of the caches")},
    .passes = 1,
    .pass = passes,
    .cases = cases};
