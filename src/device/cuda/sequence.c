// SPDX-License-Identifier: Apache-2.0
/* Families for the positions of sequences: positions, rotary, cached_attention, gather, class_token. What only moves is layout.c's. */
#include "cuda/sequence_jobs.h"

#include "cuda/layout.h"
#include "cuda/operands.h"
#include "cuda/own.h"
#include "cuda/table_jobs.h"
#include "qsync/attention.h"

#include <math.h>

enum { THREADS = 256 };

static const qs_shape *shape_of(const qs__cuda_kernel *kernel, qs_role role) {
    return &qs__case_operand(&kernel->one, role)->shape;
}

/* Positions at hand, and rows that they may stand at. */
typedef struct placed {
    int64_t positions, rows;
} placed;

static placed placed_of(const qs__cuda_kernel *kernel) {
    const double sequences = kernel->one.attributes.sequences;
    const qs_shape *values = &kernel->one.operand[0].shape;
    placed out = {.positions = values->dim[2] / (sequences > 0 ? (int64_t)sequences : 1)};
    const qs_role rows = qs_case_position(&kernel->one, QS_KEY_CACHE) >= 0 ? QS_KEY_CACHE
                         : qs__cuda_is_forward(kernel)                     ? QS_WEIGHTS
                                                                           : QS_DIFF_WEIGHTS;
    out.rows = shape_of(kernel, rows)->dim[0] - kernel->one.attributes.offset;
    return out;
}

static qs_status place_complain(const qs__cuda_kernel *kernel, const qs__cuda_complaint *complaint) {
    const placed at = placed_of(kernel);
    return qs_place_check(&kernel->one, complaint->value, at.positions, at.rows);
}

/* ---- Sums over samples: the gradients of a table of positions, and of a class token ---- */

enum { EACH }; /* of kernel->plan: channels that a thread takes */

static qs_status row_sum(const qs__cuda_kernel *kernel, int index, qs__row_sum_job *job) {
    job->diff = qs__cuda_values_of(kernel, QS_DIFF_DST);
    job->sums = qs__cuda_at(kernel, QS_DIFF_WEIGHTS) + (uint64_t)(kernel->one.attributes.offset * job->channels) * sizeof(float);
    job->place = qs__cuda_at(kernel, QS_PLACE);
    job->each = (int)kernel->plan[EACH];
    job->complaint = kernel->cuda->complaint_address;
    job->number = kernel->number;
    const int64_t pieces = (job->columns - 1) / QS__SUM_COLUMNS + 1;
    return qs__cuda_launch(kernel, index, qs__cuda_blocks(kernel->cuda, pieces * QS__SUM_THREADS, QS__SUM_THREADS, 1), QS__SUM_THREADS, 0,
                           job);
}

/* ---- positions ---- */

static qs_status run_positions(qs__cuda_kernel *kernel, const qs_run *run) {
    (void)run;
    const int64_t channels = shape_of(kernel, QS_SRC)->dim[1];
    const placed at = placed_of(kernel);
    const qs_format *format = qs__case_format(&kernel->one, QS_WEIGHTS);
    qs__positions_job job = {.src = qs__cuda_values_of(kernel, QS_SRC),
                             .table = qs__cuda_values_of(kernel, QS_WEIGHTS),
                             .dst = qs__cuda_values_of(kernel, QS_DST),
                             .sequence = at.positions * channels,
                             .channels = channels,
                             .place = qs__cuda_at(kernel, QS_PLACE),
                             .last = (int)(at.rows - at.positions),
                             .complaint = kernel->cuda->complaint_address,
                             .number = kernel->number};
    job.table.at += qs_format_bytes(format, kernel->one.attributes.offset * channels);
    return qs__cuda_launch(kernel, 0, qs__cuda_blocks(kernel->cuda, job.src.count, THREADS, 8), THREADS, 0, &job);
}

/* diff_dst is handed on as it is; rows that no position reads have zeros. */
static qs_status run_positions_gradient(qs__cuda_kernel *kernel, const qs_run *run) {
    (void)run;
    const qs_shape *diff = shape_of(kernel, QS_DIFF_DST);
    const placed at = placed_of(kernel);
    const int64_t sequence = at.positions * diff->dim[1], count = qs_shape_count(diff);
    qs__row_sum_job job = {
        .rows = count / sequence, .step = sequence, .columns = sequence, .channels = diff->dim[1], .last = (int)(at.rows - at.positions)};
    QS_TRY(qs__cuda_copy(kernel, qs__cuda_at(kernel, QS_DIFF_DST), qs__cuda_at(kernel, QS_DIFF_SRC),
                         qs_format_bytes(qs__case_format(&kernel->one, QS_DIFF_DST), count)));
    const int64_t rows = shape_of(kernel, QS_DIFF_WEIGHTS)->dim[0];
    if (rows > at.positions)
        QS_TRY(qs__cuda_clear(kernel, qs__cuda_at(kernel, QS_DIFF_WEIGHTS), (size_t)(rows * diff->dim[1]) * sizeof(float)));
    return row_sum(kernel, 0, &job);
}

qs_status qs__cuda_build_positions(qs__cuda_kernel *kernel) {
    const bool forward = qs__cuda_is_forward(kernel);
    int each = 8;
    if (!forward) QS_TRY(qs__cuda_each(kernel, shape_of(kernel, QS_DIFF_DST)->dim[1], &each));
    kernel->plan[EACH] = each;
    kernel->complain = place_complain;
    kernel->run = forward ? run_positions : run_positions_gradient;
    return qs__cuda_own(kernel, forward ? "qs__positions" : "qs__row_sum");
}

/* ---- class_token ---- */

static qs_status run_class_token_gradient(qs__cuda_kernel *kernel, const qs_run *run) {
    const qs_shape *diff = shape_of(kernel, QS_DIFF_DST);
    qs__row_sum_job job = {.rows = diff->dim[0], .step = diff->dim[1] * diff->dim[2], .columns = diff->dim[1]};
    QS_TRY(qs__cuda_moves_run(kernel, run));
    return row_sum(kernel, kernel->functions - 1, &job);
}

qs_status qs__cuda_build_class_token(qs__cuda_kernel *kernel) {
    int index, each;
    QS_TRY(qs__cuda_moves_build(kernel));
    kernel->run = qs__cuda_moves_run;
    if (qs__cuda_is_forward(kernel)) return QS_OK;
    QS_TRY(qs__cuda_each(kernel, shape_of(kernel, QS_DIFF_DST)->dim[1], &each));
    kernel->plan[EACH] = each;
    kernel->run = run_class_token_gradient;
    return qs__cuda_function(kernel, "qs__row_sum", &index);
}

/* ---- gather ---- */

static qs_status run_scatter(qs__cuda_kernel *kernel, const qs_run *run) {
    (void)run;
    const qs_shape *whole = shape_of(kernel, QS_DIFF_SRC);
    const qs__scatter_job job = {.diff = qs__cuda_values_of(kernel, QS_DIFF_DST),
                                 .to = qs__cuda_values_of(kernel, QS_DIFF_SRC),
                                 .ids = qs__cuda_at(kernel, QS_IDS),
                                 .samples = whole->dim[0],
                                 .positions = whole->dim[2],
                                 .taken = shape_of(kernel, QS_IDS)->dim[1],
                                 .channels = whole->dim[1],
                                 .each = (int)kernel->plan[EACH],
                                 .complaint = kernel->cuda->complaint_address,
                                 .number = kernel->number};
    return qs__cuda_launch(kernel, 0, qs__cuda_blocks(kernel->cuda, job.samples * job.positions * 32, THREADS, 1), THREADS, 0, &job);
}

qs_status qs__cuda_build_gather(qs__cuda_kernel *kernel) {
    int each;
    kernel->complain = qs__cuda_ids_complain;
    kernel->run = qs__cuda_moves_run;
    if (qs__cuda_is_forward(kernel)) return qs__cuda_moves_build(kernel);
    QS_TRY(qs__cuda_each(kernel, shape_of(kernel, QS_DIFF_SRC)->dim[1], &each));
    kernel->plan[EACH] = each;
    kernel->run = run_scatter;
    return qs__cuda_own(kernel, "qs__scatter");
}

/* ---- rotary ---- */

enum { COSINE = EACH + 1, SINE }; /* offsets in scratch */
enum { ANGLES, ROTATE };          /* functions */

static qs_status run_rotary(qs__cuda_kernel *kernel, const qs_run *run) {
    (void)run;
    const bool forward = qs__cuda_is_forward(kernel);
    const qs_shape *shape = &kernel->one.operand[0].shape;
    const int64_t heads = (int64_t)kernel->one.attributes.heads;
    const qs__rotary_job job = {.from = qs__cuda_values_of(kernel, forward ? QS_SRC : QS_DIFF_DST),
                                .to = qs__cuda_values_of(kernel, forward ? QS_DST : QS_DIFF_SRC),
                                .cosine = kernel->scratch + (uint64_t)kernel->plan[COSINE],
                                .sine = kernel->scratch + (uint64_t)kernel->plan[SINE],
                                .rows = shape->dim[0] * shape->dim[2],
                                .positions = shape->dim[2],
                                .heads = heads,
                                .half = shape->dim[1] / heads / 2,
                                .base = kernel->one.attributes.base,
                                .sign = forward ? 1 : -1,
                                .place = qs__cuda_at(kernel, QS_PLACE),
                                .each = (int)kernel->plan[EACH]};
    const int64_t angles = ((job.positions - 1) / QS__ROTARY_BLOCK + 1) * job.half;
    QS_TRY(qs__cuda_launch(kernel, ANGLES, qs__cuda_blocks(kernel->cuda, angles, THREADS, 1), THREADS, 0, &job));
    return qs__cuda_launch(kernel, ROTATE, qs__cuda_blocks(kernel->cuda, job.rows * job.heads * job.half, THREADS, job.each), THREADS, 0,
                           &job);
}

qs_status qs__cuda_build_rotary(qs__cuda_kernel *kernel) {
    const qs_shape *shape = &kernel->one.operand[0].shape;
    const int64_t half = shape->dim[1] / (int64_t)kernel->one.attributes.heads / 2;
    const size_t bytes = (size_t)(shape->dim[2] * half) * sizeof(float);
    int index, each;
    QS_TRY(qs__cuda_each(kernel, half, &each));
    kernel->plan[EACH] = each;
    kernel->plan[COSINE] = (int64_t)qs__cuda_scratch(kernel, bytes);
    kernel->plan[SINE] = (int64_t)qs__cuda_scratch(kernel, bytes);
    kernel->run = run_rotary;
    QS_TRY(qs__cuda_own(kernel, "qs__rotary_angles"));
    return qs__cuda_function(kernel, "qs__rotary", &index);
}

/* ---- cached_attention ---- */

enum { KEEP, ATTEND }; /* functions */

/* Each has a row of scores in scratch: no more than run at once. */
static int64_t blocks_of(const qs__cuda_kernel *kernel, const qs_attention *size) {
    enum { ON_A_MULTIPROCESSOR = 2 };
    const int64_t most = (int64_t)kernel->cuda->multiprocessors * ON_A_MULTIPROCESSOR, rows = size->queries * size->heads;
    return rows < most ? rows : most;
}

static qs_status run_cached(qs__cuda_kernel *kernel, const qs_run *run) {
    (void)run;
    const qs_attention size = qs_case_cached_attention(&kernel->one);
    const qs__cached_job job = {.query = qs__cuda_values_of(kernel, QS_SRC),
                                .key = qs__cuda_values_of(kernel, QS_SRC2),
                                .value = qs__cuda_values_of(kernel, QS_SRC3),
                                .dst = qs__cuda_values_of(kernel, QS_DST),
                                .key_cache = qs__cuda_at(kernel, QS_KEY_CACHE),
                                .value_cache = qs__cuda_at(kernel, QS_VALUE_CACHE),
                                .scores = kernel->scratch,
                                .positions = size.queries,
                                .context = size.keys,
                                .heads = size.heads,
                                .key_heads = size.key_heads,
                                .width = size.width,
                                .value_width = size.value_width,
                                .window = size.window,
                                .scale = 1 / sqrtf((float)size.width),
                                .place = qs__cuda_at(kernel, QS_PLACE),
                                .last = (int)(size.keys - size.queries),
                                .complaint = kernel->cuda->complaint_address,
                                .number = kernel->number};
    const int64_t kept = job.key.count + job.value.count;
    QS_TRY(qs__cuda_launch(kernel, KEEP, qs__cuda_blocks(kernel->cuda, kept, THREADS, 1), THREADS, 0, &job));
    return qs__cuda_launch(kernel, ATTEND, blocks_of(kernel, &size), QS__CACHED_THREADS, 0, &job);
}

qs_status qs__cuda_build_cached_attention(qs__cuda_kernel *kernel) {
    const qs_attention size = qs_case_cached_attention(&kernel->one);
    int index;
    (void)qs__cuda_scratch(kernel, (size_t)(blocks_of(kernel, &size) * size.keys) * sizeof(float));
    kernel->complain = place_complain;
    kernel->run = run_cached;
    QS_TRY(qs__cuda_own(kernel, "qs__cached_attention_keep"));
    return qs__cuda_function(kernel, "qs__cached_attention", &index);
}
