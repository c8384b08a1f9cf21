// SPDX-License-Identifier: Apache-2.0
/* Families of operators one operand of which, the part, is repeated: gate, gain, offset, prelu, expand and the reductions. What is done
 * element by element is one kernel (broadcast.cu); what is found over the elements that one of the part stands for is one or two
 * (reduce.cu): of slabs of the axis that is repeated, or of all of it where that is enough to do at a time, and of those, or along a second
 * such axis. A gradient of the value that is a product with the part is written by the first, which reads what it is made of anyway. */
#include "cuda/broadcast_jobs.h"

#include "cuda/columns.h"
#include "cuda/operands.h"
#include "cuda/own.h"

enum { THREADS = 256, WARP = 32, EIGHT = 8, FILL = 6 }; /* FILL: blocks for each multiprocessor */
enum { FIRST, LAST, BESIDE };                           /* functions of a kernel */
enum { PARTIAL, PLACES, MEAN };                         /* of kernel->plan: offsets in scratch; whether sums are divided */

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t at_least(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* ---- Element by element --------------------------------------------------------------------------------------------------------- */

static qs__beside beside_of(const qs__view *view) {
    const int last = view->axes - 1;
    if (view->extent[last] % EIGHT != 0) return QS__BESIDE_ANY;
    return view->step[last] == 0 ? QS__BESIDE_ONE : QS__BESIDE_EIGHT;
}

/* qs_role QS_ROLE_COUNT: there is no such operand. */
static qs_status apply(qs__cuda_kernel *kernel, qs_role src, qs_role part, qs_role dst, double divisor) {
    const qs__view view = qs__case_view(&kernel->one);
    qs__broadcast_job job = {.view = view,
                             .beside = beside_of(&view),
                             .part = qs__cuda_values_of(kernel, part),
                             .dst = qs__cuda_values_of(kernel, dst),
                             .divisor = divisor};
    if (src != QS_ROLE_COUNT) job.src = qs__cuda_values_of(kernel, src);
    if (qs_case_position(&kernel->one, QS_ABSMAX) >= 0) QS_TRY(qs__cuda_absmax_clear(kernel, &job.absmax));
    return qs__cuda_launch(kernel, FIRST, qs__cuda_blocks(kernel->cuda, job.dst.count, THREADS, EIGHT), THREADS, 0, &job);
}

/* ---- Over what one stands for ------------------------------------------------------------------------------------------------------ */

/* What the first kernel does, and the second, which has nothing to do where `partial` is 0. */
typedef struct finding {
    qs__reduce_job first, last;
    int64_t results, inside;
    size_t partial; /* bytes between the two */
} finding;

/* Rows of channels, or rows alone: few threads go down a row of a slab where the rows are few, and blocks take several batches then. */
static void cut_columns(const qs__cuda *cuda, qs__reduce_job *job, int64_t rows, int64_t channels, int64_t most) {
    enum { ROWS = 4 }; /* of a thread, where threads are enough */
    job->cut = qs__columns_cut(cuda, rows, channels, most);
    job->cut.down = (int)at_least(1, least(job->cut.down, (job->cut.slab_rows + ROWS - 1) / ROWS));
    job->groups = QS__COLUMN_THREADS / (job->cut.across * job->cut.down);
}

static void cut_rows(qs__reduce_job *job, int64_t rows, int64_t most) {
    enum { SLAB = 8192, VECTORS_OF_A_LANE = 8 }; /* values of a slab at least; of a row that a warp has */
    const int64_t slabs = at_least(1, least(most, rows / SLAB)), each = (rows + slabs - 1) / slabs;
    job->cut = (qs__columns){.rows = rows, .channels = 1, .slab_rows = slabs > 1 ? (each + EIGHT - 1) / EIGHT * EIGHT : rows};
    job->cut.slabs = (rows + job->cut.slab_rows - 1) / job->cut.slab_rows;
    job->lanes = 1;
    while (job->lanes < WARP && (int64_t)job->lanes * EIGHT < job->cut.slab_rows)
        job->lanes *= 2;
    if (job->cut.slab_rows > (int64_t)WARP * EIGHT * VECTORS_OF_A_LANE) job->lanes = QS__REDUCE_THREADS;
}

static finding finding_of(const qs__cuda_kernel *kernel) {
    const qs__view view = qs__case_view(&kernel->one);
    const qs__cuda *cuda = kernel->cuda;
    finding f = {.results = 1, .inside = 1};
    int axis = view.axes - 1, repeated = 0;
    for (int i = 0; i < view.axes; i++) {
        repeated += view.step[i] == 0;
        f.results *= view.step[i] == 0 ? 1 : view.extent[i];
    }
    for (; axis >= 0 && view.step[axis] != 0; axis--)
        f.inside *= view.extent[axis];
    const int64_t rows = axis >= 0 ? view.extent[axis] : 1;
    f.first.batches = 1;
    for (int i = 0; i < axis; i++)
        f.first.batches *= view.extent[i];
    f.first.outer = view;
    f.first.outer.axes = axis > 0 ? axis : 0;
    const int64_t filling = at_least(1, (int64_t)cuda->multiprocessors * FILL / f.first.batches), most = repeated > 1 ? 1 : filling;
    if (f.inside > 1)
        cut_columns(cuda, &f.first, rows, f.inside, most);
    else
        cut_rows(&f.first, rows, most);
    f.last = f.first;
    if (repeated > 1) { /* axes that are repeated and others take turns: what the first found has another one to be repeated */
        f.last.cut = (qs__columns){.rows = 1, .channels = view.extent[axis - 1] * f.inside, .slabs = view.extent[axis - 2]};
        f.last.batches = f.first.batches * f.inside / (f.last.cut.channels * f.last.cut.slabs);
    }
    if (repeated > 1 || f.first.cut.slabs > 1) f.partial = (size_t)(f.first.batches * f.first.cut.slabs * f.inside) * sizeof(double);
    return f;
}

/* Names functions, and takes scratch: of "qs__sum", "qs__sum_products" or "qs__largest". */
static qs_status finding_build(qs__cuda_kernel *kernel, const char *first, const char *last) {
    const finding f = finding_of(kernel);
    char name[48];
    int index;
    kernel->plan[PARTIAL] = (int64_t)qs__cuda_scratch(kernel, f.partial);
    snprintf(name, sizeof name, "%s_%s", first, f.inside > 1 ? "columns" : "rows");
    QS_TRY(qs__cuda_own(kernel, name));
    return qs__cuda_function(kernel, last, &index);
}

/* What is read, and where results go, is in f->first. */
static qs_status finding_run(const qs__cuda_kernel *kernel, finding *f) {
    qs__reduce_job *job = &f->first;
    const qs__cuda *cuda = kernel->cuda;
    if (f->partial > 0) job->partial = kernel->scratch + (uint64_t)kernel->plan[PARTIAL];
    if (f->inside > 1) {
        const int64_t blocks = (job->batches + job->groups - 1) / job->groups * qs__columns_blocks(&job->cut);
        QS_TRY(qs__cuda_launch(kernel, FIRST, blocks, QS__COLUMN_THREADS, 0, job));
    } else {
        const int64_t lanes = job->batches * job->cut.slabs * job->lanes;
        QS_TRY(qs__cuda_launch(kernel, FIRST, qs__cuda_blocks(cuda, lanes, QS__REDUCE_THREADS, 1), QS__REDUCE_THREADS, 0, job));
    }
    if (f->partial == 0) return QS_OK;
    qs__reduce_job last = *job;
    last.cut = f->last.cut;
    last.batches = f->last.batches;
    const int64_t tiles = (last.cut.channels + QS__TOTAL_CHANNELS - 1) / QS__TOTAL_CHANNELS;
    const int64_t blocks = qs__cuda_blocks(cuda, last.batches * tiles * QS__TOTAL_THREADS, QS__TOTAL_THREADS, 1);
    return qs__cuda_launch(kernel, LAST, blocks, QS__TOTAL_THREADS, 0, &last);
}

static qs_status sum_run(const qs__cuda_kernel *kernel, qs_role from, qs_role to, double divisor) {
    finding f = finding_of(kernel);
    f.first.a = qs__cuda_values_of(kernel, from);
    f.first.to = qs__cuda_values_of(kernel, to);
    f.first.divisor = divisor;
    return finding_run(kernel, &f);
}

/* ---- gate, gain, offset, prelu ------------------------------------------------------------------------------------------------------- */

static qs_status run_forward(qs__cuda_kernel *kernel, const qs_run *run) {
    (void)run;
    const qs_role part = qs_case_position(&kernel->one, QS_SCALE) >= 0   ? QS_SCALE
                         : qs_case_position(&kernel->one, QS_SHIFT) >= 0 ? QS_SHIFT
                                                                         : QS_SRC2;
    return apply(kernel, QS_SRC, part, QS_DST, 1);
}

static qs_status run_gradient(qs__cuda_kernel *kernel, bool bent) {
    const bool learns = qs_case_position(&kernel->one, QS_SCALE) >= 0;
    finding f = finding_of(kernel);
    f.first.a = qs__cuda_values_of(kernel, QS_DIFF_DST);
    f.first.b = qs__cuda_values_of(kernel, QS_SRC);
    f.first.bent = bent;
    f.first.part = qs__cuda_values_of(kernel, learns ? QS_SCALE : QS_SRC2);
    f.first.diff = qs__cuda_values_of(kernel, QS_DIFF_SRC);
    f.first.to = qs__cuda_values_of(kernel, learns ? QS_DIFF_SCALE : QS_DIFF_SRC2);
    f.first.divisor = 1;
    return finding_run(kernel, &f);
}

static qs_status run_gain_gradient(qs__cuda_kernel *kernel, const qs_run *run) {
    (void)run;
    return run_gradient(kernel, false);
}

static qs_status run_prelu_gradient(qs__cuda_kernel *kernel, const qs_run *run) {
    (void)run;
    return run_gradient(kernel, true);
}

static qs_status build_product(qs__cuda_kernel *kernel, const char *forward, qs_status (*backward)(qs__cuda_kernel *, const qs_run *)) {
    kernel->run = qs__cuda_is_forward(kernel) ? run_forward : backward;
    return qs__cuda_is_forward(kernel) ? qs__cuda_own(kernel, forward) : finding_build(kernel, "qs__sum_products", "qs__sum_last");
}

qs_status qs__cuda_build_gain(qs__cuda_kernel *kernel) {
    return build_product(kernel, "qs__gate", run_gain_gradient);
}

qs_status qs__cuda_build_prelu(qs__cuda_kernel *kernel) {
    return build_product(kernel, "qs__prelu", run_prelu_gradient);
}

/* diff_dst is handed on as it is. */
static qs_status run_offset_gradient(qs__cuda_kernel *kernel, const qs_run *run) {
    (void)run;
    const size_t bytes = qs_format_bytes(qs__case_format(&kernel->one, QS_DIFF_DST), qs__case_count(&kernel->one, QS_DIFF_DST));
    QS_TRY(qs__cuda_copy(kernel, qs__cuda_at(kernel, QS_DIFF_DST), qs__cuda_at(kernel, QS_DIFF_SRC), bytes));
    return sum_run(kernel, QS_DIFF_DST, QS_DIFF_SHIFT, 1);
}

qs_status qs__cuda_build_offset(qs__cuda_kernel *kernel) {
    const bool forward = qs__cuda_is_forward(kernel);
    kernel->run = forward ? run_forward : run_offset_gradient;
    return forward ? qs__cuda_own(kernel, "qs__offset") : finding_build(kernel, "qs__sum", "qs__sum_last");
}

/* ---- expand, and its mirror, reduce_sum and reduce_mean ------------------------------------------------------------------------------ */

/* How many values a mean is of; of sums 1. */
static double divisor_of(const qs__cuda_kernel *kernel) {
    const bool forward = qs__cuda_is_forward(kernel);
    const int64_t whole = qs__case_count(&kernel->one, forward ? QS_SRC : QS_DIFF_SRC);
    return kernel->plan[MEAN] ? (double)(whole / qs__case_count(&kernel->one, forward ? QS_DST : QS_DIFF_DST)) : 1;
}

static qs_status run_repeat(qs__cuda_kernel *kernel, const qs_run *run) {
    (void)run;
    const bool forward = qs__cuda_is_forward(kernel);
    return apply(kernel, QS_ROLE_COUNT, forward ? QS_SRC : QS_DIFF_DST, forward ? QS_DST : QS_DIFF_SRC, divisor_of(kernel));
}

static qs_status run_sum(qs__cuda_kernel *kernel, const qs_run *run) {
    (void)run;
    const bool forward = qs__cuda_is_forward(kernel);
    return sum_run(kernel, forward ? QS_SRC : QS_DIFF_DST, forward ? QS_DST : QS_DIFF_SRC, divisor_of(kernel));
}

static qs_status build_repeat(qs__cuda_kernel *kernel, bool repeats) {
    kernel->run = repeats ? run_repeat : run_sum;
    return repeats ? qs__cuda_own(kernel, "qs__repeat") : finding_build(kernel, "qs__sum", "qs__sum_last");
}

qs_status qs__cuda_build_expand(qs__cuda_kernel *kernel) {
    return build_repeat(kernel, qs__cuda_is_forward(kernel));
}

qs_status qs__cuda_build_reduce_sum(qs__cuda_kernel *kernel) {
    return build_repeat(kernel, !qs__cuda_is_forward(kernel));
}

qs_status qs__cuda_build_reduce_mean(qs__cuda_kernel *kernel) {
    kernel->plan[MEAN] = 1;
    return qs__cuda_build_reduce_sum(kernel);
}

/* ---- reduce_max ---------------------------------------------------------------------------------------------------------------------- */

/* One axis at most is repeated; backward finds where the largest ones stand, and goes through the gradient in memory order. */
static qs_status run_reduce_max(qs__cuda_kernel *kernel, const qs_run *run) {
    (void)run;
    finding f = finding_of(kernel);
    f.first.a = qs__cuda_values_of(kernel, QS_SRC);
    if (qs__cuda_is_forward(kernel)) {
        f.first.to = qs__cuda_values_of(kernel, QS_DST);
        return finding_run(kernel, &f);
    }
    f.first.place = kernel->scratch + (uint64_t)kernel->plan[PLACES];
    QS_TRY(finding_run(kernel, &f));
    const qs__broadcast_job job = {.beside = f.inside % EIGHT == 0 ? QS__BESIDE_EIGHT : QS__BESIDE_ANY,
                                   .part = qs__cuda_values_of(kernel, QS_DIFF_DST),
                                   .dst = qs__cuda_values_of(kernel, QS_DIFF_SRC),
                                   .place = f.first.place,
                                   .repeated = f.first.cut.rows,
                                   .inside = f.inside};
    return qs__cuda_launch(kernel, BESIDE, qs__cuda_blocks(kernel->cuda, job.dst.count, THREADS, EIGHT), THREADS, 0, &job);
}

qs_status qs__cuda_build_reduce_max(qs__cuda_kernel *kernel) {
    const finding f = finding_of(kernel);
    int index;
    if (f.first.cut.rows > UINT32_MAX)
        return qs_fail(QS_UNSUPPORTED, "the largest of %lld values is not sought: of 2^32 at most", (long long)f.first.cut.rows);
    kernel->run = run_reduce_max;
    QS_TRY(finding_build(kernel, "qs__largest", "qs__largest_last"));
    if (qs__cuda_is_forward(kernel)) return QS_OK;
    kernel->plan[PLACES] = (int64_t)qs__cuda_scratch(kernel, (size_t)f.results * sizeof(uint32_t));
    return qs__cuda_function(kernel, "qs__largest_gradient", &index);
}
