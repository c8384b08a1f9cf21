// SPDX-License-Identifier: Apache-2.0
/* Our own elementwise kernels: relu, add, dropout. Bit for bit the reference's results, whatever threads and instruction set. */
#include "cpu/staging.h"

#include <string.h>

typedef struct job {
    const qs__cpu_kernels *kernels;
    qs__in src, src2;
    qs__out dst;
    float *absmax; /* of dst; NULL: not wanted */
    uint8_t *mask;
    uint64_t key, first;
    float threshold, ceiling;
    double scale;
} job;

static void relu_range(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    uint32_t largest = 0;
    j->kernels->relu(end - begin, qs__in_at(j->src, begin), j->ceiling, j->mask ? j->mask + begin / 8 : NULL, qs__out_at(j->dst, begin),
                     j->absmax ? &largest : NULL);
    qs__staged_absmax_raise(j->absmax, largest);
}

static void relu_gradient_range(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    uint32_t largest = 0;
    j->kernels->relu_gradient(end - begin, j->mask + begin / 8, qs__in_at(j->src, begin), qs__out_at(j->dst, begin),
                              j->absmax ? &largest : NULL);
    qs__staged_absmax_raise(j->absmax, largest);
}

static void add_range(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    uint32_t largest = 0;
    j->kernels->add(end - begin, qs__in_at(j->src, begin), qs__in_at(j->src2, begin), qs__out_at(j->dst, begin),
                    j->absmax ? &largest : NULL);
    qs__staged_absmax_raise(j->absmax, largest);
}

/* The high half of a counter is part of the key: a range is cut where it changes. */
static void dropout_range(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    while (begin < end) {
        uint64_t counter = j->first + (uint64_t)begin, left = (UINT64_C(1) << 32) - (uint32_t)counter;
        int64_t count = (uint64_t)(end - begin) < left ? end - begin : (int64_t)left;
        j->kernels->dropout(count, qs_random_key_for(j->key, counter), (uint32_t)counter, j->threshold, j->scale, qs__in_at(j->src, begin),
                            qs__out_at(j->dst, begin));
        begin += count;
    }
}

static qs_status run_relu(const qs__chain *chain, const qs_run *run) {
    (void)run;
    job j = {.kernels = chain->cpu->kernels,
             .src = qs__staged_in(chain, QS_SRC),
             .ceiling = (float)chain->one.attributes.ceiling,
             .mask = qs__cpu_data(chain, QS_MASK),
             .dst = qs__staged_out(chain, QS_DST),
             .absmax = qs__staged_absmax(chain, QS_DST)};
    qs_parallel(qs__case_count(&chain->one, QS_SRC), QS__GRAIN, relu_range, &j);
    return QS_OK;
}

static qs_status run_relu_gradient(const qs__chain *chain, const qs_run *run) {
    (void)run;
    job j = {.kernels = chain->cpu->kernels,
             .src = qs__staged_in(chain, QS_DIFF_DST),
             .mask = qs__cpu_data(chain, QS_MASK),
             .dst = qs__staged_out(chain, QS_DIFF_SRC),
             .absmax = qs__staged_absmax(chain, QS_DIFF_SRC)};
    qs_parallel(qs__case_count(&chain->one, QS_DIFF_DST), QS__GRAIN, relu_gradient_range, &j);
    return QS_OK;
}

static qs_status run_add(const qs__chain *chain, const qs_run *run) {
    (void)run;
    job j = {.kernels = chain->cpu->kernels,
             .src = qs__staged_in(chain, QS_SRC),
             .src2 = qs__staged_in(chain, QS_SRC2),
             .dst = qs__staged_out(chain, QS_DST),
             .absmax = qs__staged_absmax(chain, QS_DST)};
    qs_parallel(qs__case_count(&chain->one, QS_SRC), QS__GRAIN, add_range, &j);
    return QS_OK;
}

static qs_status run_dropout(const qs__chain *chain, const qs_run *run) {
    const qs_case *one = &chain->one;
    bool forward = !strcmp(one->pass->name, "forward");
    qs_random_rows rows = qs_op_random_rows(one, run);
    job j = {.kernels = chain->cpu->kernels,
             .src = qs__staged_in(chain, forward ? QS_SRC : QS_DIFF_DST),
             .dst = qs__staged_out(chain, forward ? QS_DST : QS_DIFF_SRC),
             .key = rows.key,
             .first = rows.first,
             .threshold = (float)one->attributes.probability,
             .scale = 1 / (1 - one->attributes.probability)};
    qs_parallel(rows.rows * rows.per_row, QS__GRAIN, dropout_range, &j);
    return QS_OK;
}

qs_status qs__build_relu(qs__chain *chain) {
    bool forward = !strcmp(chain->one.pass->name, "forward");
    if (!forward && qs__case_has(&chain->one, QS_DIFF_DST2))
        return qs_fail(QS_UNSUPPORTED, "own kernels take gradients that are added up: this one comes in two parts, diff_dst and diff_dst2");
    return qs__staged_build(chain, "relu", forward ? run_relu : run_relu_gradient);
}

qs_status qs__build_add(qs__chain *chain) {
    if (chain->one.attributes.relu) return qs_fail(QS_UNSUPPORTED, "own kernels of sums have no relu behind");
    return qs__staged_build(chain, "add", run_add);
}

qs_status qs__build_dropout(qs__chain *chain) {
    return qs__staged_build(chain, "dropout", run_dropout);
}
