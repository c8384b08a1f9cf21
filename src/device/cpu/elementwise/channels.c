// SPDX-License-Identifier: Apache-2.0
/* Our own kernels that move channels: concat, slice, channel_shuffle; the first two move positions as well, which only makes their rows
 * longer. Codes are moved as they are, whatever their format, as long as they
 * are of 1, 2 or 4 bytes. */
#include "cpu/staging.h"

#include <string.h>

typedef struct part {
    char *at;
    int64_t bytes; /* of one row: a position, or along positions a sample */
} part;

typedef struct job {
    part whole, first, second;
    int64_t offset; /* slice: bytes of a row in front of the part */
    int64_t groups; /* channel_shuffle, with the members of a group and the bytes of a code */
    int64_t members, width;
} job;

/* Rows are short: blocks that the compiler keeps in registers come cheaper than a call. */
static inline void row_copy(char *restrict to, const char *restrict from, int64_t bytes) {
    int64_t i = 0;
    for (; i + 16 <= bytes; i += 16)
        memcpy(to + i, from + i, 16);
    for (; i < bytes; i++)
        to[i] = from[i];
}

static void join_range(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    for (int64_t row = begin; row < end; row++) {
        char *to = j->whole.at + row * j->whole.bytes;
        row_copy(to, j->first.at + row * j->first.bytes, j->first.bytes);
        row_copy(to + j->first.bytes, j->second.at + row * j->second.bytes, j->second.bytes);
    }
}

static void part_range(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    for (int64_t row = begin; row < end; row++) {
        const char *from = j->whole.at + row * j->whole.bytes;
        row_copy(j->first.at + row * j->first.bytes, from, j->first.bytes);
        row_copy(j->second.at + row * j->second.bytes, from + j->first.bytes, j->second.bytes);
    }
}

static void take_range(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    for (int64_t row = begin; row < end; row++)
        row_copy(j->first.at + row * j->first.bytes, j->whole.at + row * j->whole.bytes + j->offset, j->first.bytes);
}

static void put_range(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const int64_t behind = j->offset + j->first.bytes;
    for (int64_t row = begin; row < end; row++) {
        char *to = j->whole.at + row * j->whole.bytes;
        memset(to, 0, (size_t)j->offset);
        row_copy(to + j->offset, j->first.at + row * j->first.bytes, j->first.bytes);
        memset(to + behind, 0, (size_t)(j->whole.bytes - behind));
    }
}

/* to[m · groups + g] = from[g · members + m]; codes of the usual widths, two groups or two members, without a call or a division. */
#define TRANSPOSE(type)                                                                                           \
    static void transpose_##type(type *restrict to, const type *restrict from, int64_t groups, int64_t members) { \
        if (groups == 2) {                                                                                        \
            for (int64_t m = 0; m < members; m++)                                                                 \
                to[2 * m] = from[m], to[2 * m + 1] = from[members + m];                                           \
        } else if (members == 2) {                                                                                \
            for (int64_t g = 0; g < groups; g++)                                                                  \
                to[g] = from[2 * g], to[groups + g] = from[2 * g + 1];                                            \
        } else {                                                                                                  \
            for (int64_t m = 0; m < members; m++)                                                                 \
                for (int64_t g = 0; g < groups; g++)                                                              \
                    to[m * groups + g] = from[g * members + m];                                                   \
        }                                                                                                         \
    }
TRANSPOSE(uint8_t)
TRANSPOSE(uint16_t)
TRANSPOSE(uint32_t)
#undef TRANSPOSE

static void shuffle_range(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    for (int64_t row = begin; row < end; row++) {
        void *to = j->second.at + row * j->second.bytes;
        const void *from = j->first.at + row * j->first.bytes;
        if (j->width == 4)
            transpose_uint32_t(to, from, j->groups, j->members);
        else if (j->width == 2)
            transpose_uint16_t(to, from, j->groups, j->members);
        else
            transpose_uint8_t(to, from, j->groups, j->members);
    }
}

static qs__rows rows_of(const qs_case *one, qs_role role) {
    const qs_shape *shape = &qs__case_operand(one, role)->shape;
    if (one->attributes.along != 0) return (qs__rows){.rows = shape->dim[0], .channels = qs_shape_count(shape) / shape->dim[0]};
    return qs__rows_of(one, role);
}

static part part_of(const qs__chain *chain, qs_role role) {
    return (part){qs__cpu_data(chain, role), rows_of(&chain->one, role).channels * (qs__case_format(&chain->one, role)->bits / 8)};
}

/* Rows that one thread takes at least. */
static int64_t grain_of(int64_t bytes) {
    return bytes < QS__GRAIN ? QS__GRAIN / bytes : 1;
}

static qs_status run_concat(const qs__chain *chain, const qs_run *run) {
    (void)run;
    job j = {.whole = part_of(chain, QS_DST), .first = part_of(chain, QS_SRC), .second = part_of(chain, QS_SRC2)};
    qs_parallel(rows_of(&chain->one, QS_DST).rows, grain_of(j.whole.bytes), join_range, &j);
    return QS_OK;
}

static qs_status run_concat_gradient(const qs__chain *chain, const qs_run *run) {
    (void)run;
    job j = {.whole = part_of(chain, QS_DIFF_DST), .first = part_of(chain, QS_DIFF_SRC), .second = part_of(chain, QS_DIFF_SRC2)};
    qs_parallel(rows_of(&chain->one, QS_DIFF_DST).rows, grain_of(j.whole.bytes), part_range, &j);
    return QS_OK;
}

static qs_status run_slice(const qs__chain *chain, const qs_run *run) {
    (void)run;
    const bool forward = qs_case_position(&chain->one, QS_SRC) >= 0;
    job j = {.whole = part_of(chain, forward ? QS_SRC : QS_DIFF_SRC), .first = part_of(chain, forward ? QS_DST : QS_DIFF_DST)};
    j.offset = chain->one.attributes.offset * (chain->one.operand[0].format->bits / 8);
    if (chain->one.attributes.along != 0) j.offset *= chain->one.operand[0].shape.dim[1];
    const int64_t rows = rows_of(&chain->one, forward ? QS_DST : QS_DIFF_DST).rows;
    qs_parallel(rows, grain_of(j.whole.bytes), forward ? take_range : put_range, &j);
    return QS_OK;
}

/* Backward is the transpose of the other matrix: groups and members change places. */
static qs_status run_channel_shuffle(const qs__chain *chain, const qs_run *run) {
    (void)run;
    const bool forward = qs_case_position(&chain->one, QS_SRC) >= 0;
    const qs_role from = forward ? QS_SRC : QS_DIFF_DST;
    const qs__rows rows = qs__rows_of(&chain->one, from);
    const int64_t groups = chain->one.attributes.groups, members = rows.channels / groups;
    job j = {.first = part_of(chain, from), .second = part_of(chain, forward ? QS_DST : QS_DIFF_SRC)};
    j.groups = forward ? groups : members;
    j.members = forward ? members : groups;
    j.width = chain->one.operand[0].format->bits / 8;
    qs_parallel(rows.rows, grain_of(j.first.bytes), shuffle_range, &j);
    return QS_OK;
}

qs_status qs__build_concat(qs__chain *chain) {
    const bool forward = !strcmp(chain->one.pass->name, "forward");
    return qs__moving_build(chain, forward ? run_concat : run_concat_gradient);
}

qs_status qs__build_slice(qs__chain *chain) {
    return qs__moving_build(chain, run_slice);
}

qs_status qs__build_channel_shuffle(qs__chain *chain) {
    return qs__moving_build(chain, run_channel_shuffle);
}
