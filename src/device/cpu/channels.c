// SPDX-License-Identifier: Apache-2.0
/* Our own kernels that move channels: concat. Codes are moved as they are, whatever their format, as long as they are whole bytes. */
#include "own.h"

#include <string.h>

typedef struct part {
    char *at;
    int64_t bytes; /* of one position */
} part;

typedef struct job {
    part whole, first, second;
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

static part part_of(const qs__chain *chain, qs_role role) {
    return (part){qs__cpu_data(chain, role), qs__own_rows(&chain->one, role).channels * (qs__cpu_format(&chain->one, role)->bits / 8)};
}

/* Positions that one thread takes at least. */
static int64_t grain_of(int64_t bytes) {
    return bytes < QS__GRAIN ? QS__GRAIN / bytes : 1;
}

static qs_status run_concat(const qs__chain *chain, const qs_run *run) {
    (void)run;
    job j = {part_of(chain, QS_DST), part_of(chain, QS_SRC), part_of(chain, QS_SRC2)};
    qs_parallel(qs__own_rows(&chain->one, QS_DST).rows, grain_of(j.whole.bytes), join_range, &j);
    return QS_OK;
}

static qs_status run_concat_gradient(const qs__chain *chain, const qs_run *run) {
    (void)run;
    job j = {part_of(chain, QS_DIFF_DST), part_of(chain, QS_DIFF_SRC), part_of(chain, QS_DIFF_SRC2)};
    qs_parallel(qs__own_rows(&chain->one, QS_DIFF_DST).rows, grain_of(j.whole.bytes), part_range, &j);
    return QS_OK;
}

/* No instruction set in the name: the kernels are the same at every ceiling. */
static qs_status moving_build(qs__chain *chain, qs__call call) {
    const qs_format *format = chain->one.operand[0].format;
    if (format->bits % 8) return qs_fail(QS_UNSUPPORTED, "values of %d bits are not moved one by one", format->bits);
    qs__chain_call(chain, call);
    snprintf(chain->name, sizeof chain->name, "own:%s", chain->one.op->name);
    return QS_OK;
}

qs_status qs__build_concat(qs__chain *chain) {
    const bool forward = !strcmp(chain->one.pass->name, "forward");
    return moving_build(chain, forward ? run_concat : run_concat_gradient);
}
