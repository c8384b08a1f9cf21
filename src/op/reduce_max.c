// SPDX-License-Identifier: Apache-2.0
/* reduce_max: the largest of the positions of each channel, of the channels of each position, or of all of a sample; a NaN is the largest.
 * Passes: forward src dst; backward src diff_dst diff_src: the gradient is that of the first largest one, in memory order. */
#include "reduce.h"

#include <math.h>
#include <stdlib.h>

/* Where the largest one of each result stands; caller frees. */
static qs_status places_find(const qs_case *one, const float *values, int64_t results, int64_t **out) {
    const qs_broadcast map = qs_case_broadcast(one);
    const int64_t count = qs_shape_count(qs__shape(one, QS_SRC));
    int64_t *largest;
    QS_TRY(qs_allocate((size_t)results, sizeof *largest, &largest));
    for (int64_t r = 0; r < results; r++)
        largest[r] = -1;
    for (int64_t i = 0; i < count; i++) {
        int64_t *at = &largest[qs__broadcast_place(&map, i)];
        if (*at < 0 || values[i] > values[*at] || (isnan(values[i]) && !isnan(values[*at]))) *at = i;
    }
    *out = largest;
    return QS_OK;
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    const int64_t results = qs_shape_count(qs__shape(one, QS_DST));
    float *values = NULL, *found = NULL;
    int64_t *place = NULL;
    qs_status status;
    QS_GOTO(qs__read(qs__operand(one, operands, QS_SRC), &values));
    QS_GOTO(places_find(one, values, results, &place));
    QS_GOTO(qs_allocate((size_t)results, sizeof *found, &found));
    for (int64_t r = 0; r < results; r++)
        found[r] = values[place[r]];
    qs__write(qs__operand(one, operands, QS_DST), found);
done:
    free(values);
    free(found);
    free(place);
    return status;
}

static qs_status backward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    const int64_t count = qs_shape_count(qs__shape(one, QS_SRC)), results = qs_shape_count(qs__shape(one, QS_DIFF_DST));
    float *values = NULL, *each = NULL;
    int64_t *place = NULL;
    qs_status status;
    QS_GOTO(qs__read(qs__operand(one, operands, QS_SRC), &values));
    QS_GOTO(qs__read(qs__operand(one, operands, QS_DIFF_DST), &each));
    QS_GOTO(places_find(one, values, results, &place));
    for (int64_t i = 0; i < count; i++)
        values[i] = 0;
    for (int64_t r = 0; r < results; r++)
        values[place[r]] = each[r];
    qs__write(qs__operand(one, operands, QS_DIFF_SRC), values);
done:
    free(values);
    free(each);
    free(place);
    return status;
}

static const qs_pass passes[] = {
    {.name = "forward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_DST, .source = QS_TO_OUTPUT}),
     .reference = forward,
     .check = qs__reduce_check_forward},
    {.name = "backward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_DIFF_DST, .source = QS_FROM_GRADIENT},
                 {.role = QS_DIFF_SRC, .source = QS_TO_INPUT_GRADIENT}),
     .reference = backward,
     .check = qs__reduce_check_backward},
};

#define EVERY(F, S, D, A) "reduce_max/forward src=" F S " dst=" F D A, "reduce_max/backward src=" F S " diff_dst=" F D " diff_src=" F S A

QS__REDUCE(reduce_max);
