// SPDX-License-Identifier: Apache-2.0
/* Our own pools: max_pool, average_pool, global_average_pool (an average over the whole image). Threads take rows of results or, backward,
 * rows of pixels; a gradient is gathered from the windows that cover a pixel, so no two threads write one place. */
#include "cpu/staging.h"

#include <string.h>

typedef struct job {
    const qs__cpu_kernels *kernels;
    qs__geometry pool;
    qs__in src;  /* or diff_dst */
    qs__out dst; /* or diff_src */
    int8_t *mask;
} job;

static qs__geometry geometry_of(const qs_case *one) {
    qs__geometry out = qs__case_geometry(one);
    if (one->op != qs_op_of("global_average_pool")) return out;
    out.kernel[0] = out.height, out.kernel[1] = out.width;
    out.stride[0] = out.stride[1] = out.dilation[0] = out.dilation[1] = 1;
    out.padding[0] = out.padding[1] = 0;
    return out;
}

static qs__in image_of(const job *j, int64_t line) {
    const qs__geometry *p = &j->pool;
    return qs__in_at(j->src, line / p->out_height * p->height * p->width * p->channels);
}

static void maximum_range(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    int64_t length = j->pool.out_width * j->pool.channels;
    for (int64_t line = begin; line < end; line++) {
        j->kernels->maximum_line(&j->pool, line % j->pool.out_height, image_of(j, line), qs__out_at(j->dst, line * length),
                                 j->mask ? j->mask + line * length : NULL);
    }
}

static void mean_range(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    int64_t length = j->pool.out_width * j->pool.channels;
    for (int64_t line = begin; line < end; line++) {
        j->kernels->mean_line(&j->pool, line % j->pool.out_height, image_of(j, line), qs__out_at(j->dst, line * length));
    }
}

static void gradient_range(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const qs__geometry *p = &j->pool;
    int64_t results = p->out_height * p->out_width * p->channels;
    for (int64_t line = begin; line < end; line++) {
        int64_t first = line / p->height * results;
        j->kernels->gradient_line(p, line % p->height, qs__in_at(j->src, first), j->mask ? j->mask + first : NULL,
                                  qs__out_at(j->dst, line * p->width * p->channels));
    }
}

static qs_status run_forward(const qs__chain *chain, const qs_run *run) {
    (void)run;
    const qs_case *one = &chain->one;
    bool maximum = one->op == qs_op_of("max_pool");
    job j = {.kernels = chain->cpu->kernels,
             .pool = geometry_of(one),
             .src = qs__staged_in(chain, QS_SRC),
             .dst = qs__staged_out(chain, QS_DST),
             .mask = maximum ? qs__cpu_data(chain, QS_MASK) : NULL};
    qs_parallel(j.pool.batch * j.pool.out_height, 1, maximum ? maximum_range : mean_range, &j);
    return QS_OK;
}

static qs_status run_backward(const qs__chain *chain, const qs_run *run) {
    (void)run;
    const qs_case *one = &chain->one;
    bool maximum = one->op == qs_op_of("max_pool");
    job j = {.kernels = chain->cpu->kernels,
             .pool = geometry_of(one),
             .src = qs__staged_in(chain, QS_DIFF_DST),
             .dst = qs__staged_out(chain, QS_DIFF_SRC),
             .mask = maximum ? qs__cpu_data(chain, QS_MASK) : NULL};
    qs_parallel(j.pool.batch * j.pool.height, 1, gradient_range, &j);
    return QS_OK;
}

qs_status qs__build_pool(qs__chain *chain) {
    bool forward = !strcmp(chain->one.pass->name, "forward");
    return qs__staged_build(chain, chain->one.op->name, forward ? run_forward : run_backward);
}
