// SPDX-License-Identifier: Apache-2.0
/* Families that move values: concat, slice, channel_shuffle, position (layout.cu); and what class_token, gather and embedding move. What a
 * pass moves is said once, in elements of rows; from that follow the unit, when the kernel is built, and the job, when it runs. */
#include "cuda/layout_jobs.h"

#include "cuda/layout.h"
#include "cuda/operands.h"

#include <string.h>

enum { THREADS = 256, WIDEST = 16 };

/* ---- Moves ---- */

static int64_t common(int64_t a, int64_t b) {
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The largest number that divides all extents of the job, `bytes` times them. */
static int64_t common_of(const qs__move_job *job, int64_t bytes, int64_t most) {
    int64_t all = common(most, bytes * job->width);
    for (int p = 0; p < job->parts; p++) {
        const qs__move_part *part = &job->part[p];
        all = common(common(all, bytes * part->begin), bytes * part->run);
        all = common(common(all, bytes * part->at), bytes * part->row);
    }
    return all;
}

/* From elements to units of divide / multiply of them. */
static void rescale(qs__move_job *job, int64_t multiply, int64_t divide) {
    job->width = job->width * multiply / divide;
    job->count = job->count * multiply / divide;
    for (int p = 0; p < job->parts; p++) {
        qs__move_part *part = &job->part[p];
        part->begin = part->begin * multiply / divide;
        part->run = part->run * multiply / divide;
        part->at = part->at * multiply / divide;
        part->row = part->row * multiply / divide;
    }
}

static bool one_format(const qs__move_job *job) {
    for (int p = 0; p < job->parts; p++)
        if (memcmp(&job->part[p].from.format, &job->to.format, sizeof job->to.format) != 0) return false;
    return true;
}

/* The job in units; the unit's bytes, 0: values. Codes of no whole bytes are moved by eights. */
static int64_t units_of(qs__move_job *job) {
    const int bits = job->to.format.bits;
    const int64_t eights = common_of(job, 1, 8) == 8 ? 8 : 1;
    if (one_format(job) && (bits % 8 == 0 || eights == 8)) {
        const int64_t unit = bits % 8 == 0 ? common_of(job, bits / 8, WIDEST) : common(WIDEST, common_of(job, 1, 8 * WIDEST) * bits / 8);
        rescale(job, bits, 8 * unit);
        return unit;
    }
    job->each = (int)eights;
    rescale(job, 1, eights);
    return 0;
}

static qs_status move_function(qs__cuda_kernel *kernel, const qs__move_job *job) {
    qs__move_job units = *job;
    char name[32] = "qs__move_values";
    const int64_t unit = units_of(&units);
    int index;
    if (unit > 0) snprintf(name, sizeof name, "qs__move_%lld", (long long)unit);
    if (unit == 0 && units.each == 1 && job->to.format.bits % 8)
        return qs_fail(QS_UNSUPPORTED, "rows of values of %d bits that do not begin at whole bytes are not moved", job->to.format.bits);
    return qs__cuda_function(kernel, name, &index);
}

static qs_status move_run(const qs__cuda_kernel *kernel, int index, const qs__move_job *job) {
    qs__move_job units = *job;
    (void)units_of(&units);
    units.complaint = kernel->cuda->complaint_address;
    units.number = kernel->number;
    return qs__cuda_launch(kernel, index, qs__cuda_blocks(kernel->cuda, units.count, THREADS, 1), THREADS, 0, &units);
}

/* ---- What passes move ---- */

static const qs_shape *shape_of(const qs__cuda_kernel *kernel, qs_role role) {
    return &qs__case_operand(&kernel->one, role)->shape;
}

/* Elements of a tensor that lie behind each other: a row of channels, or of positions of a sample. */
static int64_t run_of(const qs__cuda_kernel *kernel, qs_role role) {
    const qs_shape *shape = shape_of(kernel, role);
    return kernel->one.attributes.along != 0 ? shape->dim[1] * shape->dim[2] : shape->dim[1];
}

static qs__move_job move_to(const qs__cuda_kernel *kernel, qs_role role, int64_t width) {
    return (qs__move_job){.to = qs__cuda_values_of(kernel, role), .count = qs__case_count(&kernel->one, role), .width = width};
}

static void move_from(const qs__cuda_kernel *kernel, qs__move_job *job, qs_role role, qs__move_part part) {
    part.from = qs__cuda_values_of(kernel, role);
    job->part[job->parts++] = part;
}

/* How many sequences lie one behind the other in a sample. */
static int64_t sequences_of(const qs__cuda_kernel *kernel) {
    const double sequences = kernel->one.attributes.sequences;
    return sequences > 0 ? (int64_t)sequences : 1;
}

/* Fills the moves of the kernel's pass; returns how many they are. */
enum { MOST_MOVES = 2 };

static int concat_moves(const qs__cuda_kernel *kernel, qs__move_job *out) {
    if (qs__cuda_is_forward(kernel)) {
        const int64_t left = run_of(kernel, QS_SRC), right = run_of(kernel, QS_SRC2);
        out[0] = move_to(kernel, QS_DST, left + right);
        move_from(kernel, &out[0], QS_SRC, (qs__move_part){.run = left, .row = left});
        move_from(kernel, &out[0], QS_SRC2, (qs__move_part){.begin = left, .run = right, .row = right});
        return 1;
    }
    const int64_t left = run_of(kernel, QS_DIFF_SRC), right = run_of(kernel, QS_DIFF_SRC2);
    out[0] = move_to(kernel, QS_DIFF_SRC, left);
    move_from(kernel, &out[0], QS_DIFF_DST, (qs__move_part){.run = left, .row = left + right});
    out[1] = move_to(kernel, QS_DIFF_SRC2, right);
    move_from(kernel, &out[1], QS_DIFF_DST, (qs__move_part){.run = right, .at = left, .row = left + right});
    return 2;
}

/* A part of every row of the whole is taken, or put among zeros. */
static int part_moves(const qs__cuda_kernel *kernel, int64_t whole, int64_t part, int64_t before, qs__move_job *out) {
    if (qs__cuda_is_forward(kernel)) {
        out[0] = move_to(kernel, QS_DST, part);
        move_from(kernel, &out[0], QS_SRC, (qs__move_part){.run = part, .at = before, .row = whole});
    } else {
        out[0] = move_to(kernel, QS_DIFF_SRC, whole);
        move_from(kernel, &out[0], QS_DIFF_DST, (qs__move_part){.begin = before, .run = part, .row = part});
    }
    return 1;
}

static int slice_moves(const qs__cuda_kernel *kernel, qs__move_job *out) {
    const bool forward = qs__cuda_is_forward(kernel);
    const qs_role whole = forward ? QS_SRC : QS_DIFF_SRC, part = forward ? QS_DST : QS_DIFF_DST;
    const int64_t channels = kernel->one.attributes.along != 0 ? shape_of(kernel, whole)->dim[1] : 1;
    return part_moves(kernel, run_of(kernel, whole), run_of(kernel, part), kernel->one.attributes.offset * channels, out);
}

static int position_moves(const qs__cuda_kernel *kernel, qs__move_job *out) {
    const qs_shape *whole = shape_of(kernel, qs__cuda_is_forward(kernel) ? QS_SRC : QS_DIFF_SRC);
    const int64_t channels = whole->dim[1], length = whole->dim[2] / sequences_of(kernel);
    const int64_t wanted = (int64_t)kernel->one.attributes.position, taken = wanted + (wanted < 0 ? length : 0);
    return part_moves(kernel, channels * length, channels, channels * taken, out);
}

/* Backward without the sum of the token's gradients. */
static int class_token_moves(const qs__cuda_kernel *kernel, qs__move_job *out) {
    const qs_shape *part = shape_of(kernel, qs__cuda_is_forward(kernel) ? QS_SRC : QS_DIFF_SRC);
    const int64_t channels = part->dim[1], rest = channels * part->dim[2];
    if (qs__cuda_is_forward(kernel)) {
        out[0] = move_to(kernel, QS_DST, channels + rest);
        move_from(kernel, &out[0], QS_WEIGHTS, (qs__move_part){.run = channels});
        move_from(kernel, &out[0], QS_SRC, (qs__move_part){.begin = channels, .run = rest, .row = rest});
    } else {
        out[0] = move_to(kernel, QS_DIFF_SRC, rest);
        move_from(kernel, &out[0], QS_DIFF_DST, (qs__move_part){.run = rest, .at = channels, .row = channels + rest});
    }
    return 1;
}

/* Rows by their numbers: of a table, or of the sample's own positions. */
static int gather_moves(const qs__cuda_kernel *kernel, qs__move_job *out) {
    const bool table = qs_case_position(&kernel->one, QS_WEIGHTS) >= 0;
    const qs_role from = table ? QS_WEIGHTS : QS_SRC;
    const int64_t channels = shape_of(kernel, from)->dim[1], ids = qs__case_count(&kernel->one, QS_IDS);
    out[0] = move_to(kernel, QS_DST, channels);
    move_from(kernel, &out[0], from,
              (qs__move_part){.ids = qs__cuda_at(kernel, QS_IDS),
                              .run = channels,
                              .row = channels,
                              .group = table ? ids : shape_of(kernel, QS_IDS)->dim[1],
                              .rows = table ? shape_of(kernel, from)->dim[0] : shape_of(kernel, from)->dim[2]});
    return 1;
}

typedef int (*moves_of)(const qs__cuda_kernel *kernel, qs__move_job *out);
static const struct {
    const char *op;
    moves_of moves;
} movers[] = {{"concat", concat_moves},           {"slice", slice_moves},   {"position", position_moves},
              {"class_token", class_token_moves}, {"gather", gather_moves}, {"embedding", gather_moves}};

static int moves(const qs__cuda_kernel *kernel, qs__move_job *out) {
    size_t i = 0;
    while (strcmp(movers[i].op, kernel->one.op->name) != 0)
        i++;
    return movers[i].moves(kernel, out);
}

qs_status qs__cuda_moves_build(qs__cuda_kernel *kernel) {
    qs__move_job move[MOST_MOVES];
    const int count = moves(kernel, move);
    snprintf(kernel->name, sizeof kernel->name, "own:%s", kernel->one.op->name);
    for (int i = 0; i < count; i++)
        QS_TRY(move_function(kernel, &move[i]));
    return QS_OK;
}

qs_status qs__cuda_moves_run(qs__cuda_kernel *kernel, const qs_run *run) {
    (void)run;
    qs__move_job move[MOST_MOVES];
    const int count = moves(kernel, move);
    for (int i = 0; i < count; i++)
        QS_TRY(move_run(kernel, i, &move[i]));
    return QS_OK;
}

qs_status qs__cuda_build_layout(qs__cuda_kernel *kernel) {
    kernel->run = qs__cuda_moves_run;
    return qs__cuda_moves_build(kernel);
}

/* ---- channel_shuffle: back, the other way round ---- */

static qs__shuffle_job shuffle_of(const qs__cuda_kernel *kernel) {
    const bool forward = qs__cuda_is_forward(kernel);
    const qs_role from = forward ? QS_SRC : QS_DIFF_DST, to = forward ? QS_DST : QS_DIFF_SRC;
    const int64_t channels = shape_of(kernel, from)->dim[1], groups = kernel->one.attributes.groups, members = channels / groups;
    const int64_t bytes = qs__case_format(&kernel->one, from)->bits / 8;
    return (qs__shuffle_job){.from = qs__cuda_at(kernel, from),
                             .to = qs__cuda_at(kernel, to),
                             .count = qs__case_count(&kernel->one, from),
                             .channels = channels,
                             .groups = forward ? groups : members,
                             .members = forward ? members : groups,
                             .each = channels * bytes % WIDEST == 0 ? (int)(WIDEST / bytes) : 1};
}

static qs_status run_shuffle(qs__cuda_kernel *kernel, const qs_run *run) {
    (void)run;
    const qs__shuffle_job job = shuffle_of(kernel);
    return qs__cuda_launch(kernel, 0, qs__cuda_blocks(kernel->cuda, job.count, THREADS, job.each), THREADS, 0, &job);
}

qs_status qs__cuda_build_channel_shuffle(qs__cuda_kernel *kernel) {
    const qs_format *format = kernel->one.operand[0].format;
    char name[32];
    if (format->bits != 8 && format->bits != 16 && format->bits != 32)
        return qs_fail(QS_UNSUPPORTED, "channels of %s, of %d bits each, are not moved one by one", format->name, format->bits);
    snprintf(name, sizeof name, "qs__shuffle_%d", format->bits / 8);
    kernel->run = run_shuffle;
    return qs__cuda_own(kernel, name);
}
