// SPDX-License-Identifier: Apache-2.0
/* Kernels at other local batches than the job's. For each of some batches the plans of the job's batch are lowered, covered and timed once
 * more; then the profile gets rows for every batch that it shall know. One and the same plan has the same kernels at all batches, only with
 * other shapes: so the plans are lowered at each batch, beside the measured ones. What the device says of a case is taken from there, times
 * from the measured batches on both sides. Conversions may differ (whether converted weights are kept depends on sizes): one without a
 * counterpart has its fit. */
#include "timing/timing.h"

#include "qsync/costmodel.h"

#include <stdlib.h>
#include <string.h>

/* The batches that a profile knows lie so close: the job's over this. */
enum { GRID = 16 };

/* The class at one more batch: a measurement of its own. */
struct qs__batch {
    qs_job job; /* the job with this batch */
    qs_profile_options options;
    qs__setting setting;
    qs__cases cases;
    qs__mixes mixes;
    qs__step_figures figures;
    qs_class_profile rows; /* of its kernels; conversions are borrowed from the class */
};

/* ---- Measuring ------------------------------------------------------------------------------------------------------------------- */

static int by_batch(const void *left, const void *right) {
    const qs__batch *a = left, *b = right;
    return (a->job.batch > b->job.batch) - (a->job.batch < b->job.batch);
}

static qs_status batch_open(const qs__setting *from, const qs__mixes *mixes, int index, qs__batch *one) {
    one->options = *from->options;
    one->options.checks = 0; /* they are of the job's batch */
    one->cases.device = from->device;
    QS_TRY(qs__setting_at_batch(from, &one->options, &one->job, index, &one->setting));
    return qs_fail_within(qs__mixes_repeat(&one->setting, mixes, &one->cases, &one->mixes), "batch %lld", (long long)one->job.batch);
}

qs_status qs__batches_measure(const qs__setting *setting, const qs__mixes *mixes, qs__batches *out) {
    const qs_profile_options *options = setting->options;
    QS_TRY(qs_comm_agree(setting->comm, qs_allocate((size_t)options->batches, sizeof *out->at, &out->at)));
    for (; out->count < options->batches; out->count++) {
        out->at[out->count].job = *setting->job;
        out->at[out->count].job.batch = options->batch[out->count];
    }
    qsort(out->at, (size_t)out->count, sizeof *out->at, by_batch);
    for (int i = 0; i < out->count; i++) {
        qs__batch *one = &out->at[i];
        QS_TRY(qs_comm_agree(setting->comm, batch_open(setting, mixes, i, one)));
        QS_TRY(qs_fail_within(qs__steps_measure(&one->setting, &one->mixes, &one->cases, &one->figures), "batch %lld",
                              (long long)one->job.batch));
        QS_TRY(qs__alone_measure(&one->setting, &one->cases));
    }
    return QS_OK;
}

void qs__batches_release(qs__batches *batches) {
    for (int i = 0; i < batches->count; i++) {
        qs__batch *one = &batches->at[i];
        for (int k = 0; k < one->rows.kernels; k++)
            free(one->rows.kernel[k].case_text);
        free(one->rows.kernel);
        qs__mixes_release(&one->mixes);
        qs__cases_release(&one->cases);
        qs__step_figures_release(&one->figures);
        free(one->setting.indices);
    }
    free(batches->at);
    *batches = (qs__batches){0};
}

/* One plan at every batch. */
typedef struct grid {
    const qs__setting *setting;
    const qs__memory *memory;
    const qs__mixes *mixes;
    qs__cases *own; /* of the job's batch */
    const qs__batches *batches;
    const qs_profile *all;
    qs_class_profile *out;
    size_t capacity;    /* of out->kernel */
    int own_rows;       /* of out, sorted: those of the job's batch */
    qs__cases *cases;   /* (all->batches) asked of the device */
    bool **made;        /* (all->batches × cases) rows that are there */
    size_t *made_size;  /* (all->batches) */
    qs_schedule **plan; /* (all->batches) the plan at hand */
    bool *seen;         /* (own cases) in a plan before */
} grid;

/* ---- Times ------------------------------------------------------------------------------------------------------------------------ */

/* The same step at another batch: all but the shapes agree. */
static bool is_like(const qs_step *a, const qs_step *b) {
    if (a->kind != b->kind || a->node != b->node || a->phase != b->phase || a->stream != b->stream || a->conversion != b->conversion)
        return false;
    if (a->case_.op != b->case_.op || a->case_.pass != b->case_.pass || a->case_.operands != b->case_.operands) return false;
    for (int i = 0; i < a->case_.operands; i++)
        if (a->case_.operand[i].format != b->case_.operand[i].format) return false;
    return a->case_.attributes.batched == b->case_.attributes.batched &&
           qs_conversion_steps_of(&a->case_) == qs_conversion_steps_of(&b->case_);
}

/* Most often it stands at the same place. */
static const qs_step *step_find(const qs_schedule *in, const qs_step *like, int place) {
    if (place < in->steps && is_like(&in->step[place], like)) return &in->step[place];
    for (int s = 0; s < in->steps; s++)
        if (is_like(&in->step[s], like)) return &in->step[s];
    return NULL;
}

/* The row that a step of one batch has at another, measured batch; NULL: no such step there. */
static const qs_kernel_cost *row_find(const grid *one, int measured, int batch, int step) {
    const qs_step *found = step_find(one->plan[measured], &one->plan[batch]->step[step], step);
    const int64_t samples = one->all->batch_row[measured].samples;
    const qs_class_profile own = {.kernels = one->own_rows, .kernel = one->out->kernel};
    if (!found) return NULL;
    if (samples == one->setting->job->batch) return qs_class_profile_kernel(&own, found->case_text);
    for (int i = 0; i < one->batches->count; i++)
        if (one->batches->at[i].job.batch == samples) return qs_class_profile_kernel(&one->batches->at[i].rows, found->case_text);
    return NULL;
}

/* Nearest measured batch at or beyond `batch` in a direction. */
static int measured_beside(const grid *one, int batch, int direction) {
    while (!one->all->batch_row[batch].measured)
        batch += direction;
    return batch;
}

static double between(double a, double b, double share) {
    return a + (b - a) * share;
}

/* On the straight line between the measured batches on both sides. */
static qs_status times_fill(const grid *one, int batch, int step, qs_kernel_cost *out) {
    const int low = measured_beside(one, batch, -1), high = measured_beside(one, batch, 1);
    const qs_kernel_cost *a = row_find(one, low, batch, step), *b = row_find(one, high, batch, step);
    const qs_profile_batch *row = one->all->batch_row;
    const qs_step *at = &one->plan[batch]->step[step];
    if (!a || !b) {
        if (!at->conversion) return qs_fail(QS_FAILED, "no time was measured for %s at another batch", at->case_text);
        QS_TRY(qs_cost_step(one->out, at, &out->us));
        out->us_low = out->us_high = out->us;
        return QS_OK;
    }
    const double width = (double)(row[high].samples - row[low].samples);
    const double share = width > 0 ? (double)(row[batch].samples - row[low].samples) / width : 0;
    out->us = between(a->us, b->us, share);
    out->us_low = between(a->us_low, b->us_low, share);
    out->us_high = between(a->us_high, b->us_high, share);
    out->us_alone = between(a->us_alone, b->us_alone, share);
    if (a->us_recorded > 0 && b->us_recorded > 0) out->us_recorded = between(a->us_recorded, b->us_recorded, share);
    out->cold_bytes = between(a->cold_bytes, b->cold_bytes, share);
    out->us_per_cold_byte = between(a->us_per_cold_byte, b->us_per_cold_byte, share);
    out->samples = a == b ? a->samples : 0;
    return QS_OK;
}

/* ---- Rows ------------------------------------------------------------------------------------------------------------------------- */

/* A row for the case of a step at a batch, unless it is there. Cases without a batch in their shapes are those of the job's batch, `own`.
 * What the process holds for a kernel does not depend on the batch: it is taken from the case at the job's. */
static qs_status row_add(grid *one, int batch, int own, int step) {
    const char *text = one->plan[batch]->step[step].case_text;
    const qs_class_profile own_rows = {.kernels = one->own_rows, .kernel = one->out->kernel};
    const int at = qs__cases_find(&one->cases[batch], text);
    QS_TRY(qs_grow(&one->made[batch], &one->made_size[batch], (size_t)at + 1, sizeof **one->made));
    if (one->made[batch][at] || qs_class_profile_kernel(&own_rows, text)) return QS_OK;
    one->made[batch][at] = true;
    const qs_kernel_row *fact = &one->cases[batch].entry[at].row;
    const qs_kernel_cost *like = row_find(one, own, batch, step);
    const qs__held *usual = qs__held_of(one->memory, text);
    qs_kernel_cost row = {.scratch_bytes = (int64_t)fact->scratch_bytes,
                          .allocates = fact->allocates,
                          .held_bytes = like ? like->held_bytes : (int64_t)usual->held_bytes,
                          .shared_bytes = like ? like->shared_bytes : (int64_t)usual->shared_bytes,
                          .code_bytes = (int64_t)qs__code_of(one->memory, fact->kernel)};
    memcpy(row.kernel, fact->kernel, sizeof row.kernel);
    QS_TRY(times_fill(one, batch, step, &row));
    QS_TRY(qs_grow(&one->out->kernel, &one->capacity, (size_t)one->out->kernels + 1, sizeof *one->out->kernel));
    QS_TRY(qs_format_text(&row.case_text, "%s", text));
    one->out->kernel[one->out->kernels++] = row;
    return QS_OK;
}

/* ---- Plans ------------------------------------------------------------------------------------------------------------------------ */

/* Lowers a plan at every batch, and makes the rows of its steps. */
static qs_status plan_rows(grid *one, const unsigned char *choice, int own) {
    for (int b = 0; b < one->all->batches; b++)
        QS_TRY(qs__mix_lower(one->setting, &one->cases[b], choice, QS_MODE_TRAIN, one->all->batch_row[b].samples, &one->plan[b]));
    for (int b = 0; b < one->all->batches; b++)
        for (int s = 0; b != own && s < one->plan[b]->steps; s++)
            if (one->plan[b]->step[s].kind == QS_STEP_KERNEL) QS_TRY(row_add(one, b, own, s));
    return QS_OK;
}

/* Plans of the job's batch that contain a case which no plan before has. */
static qs_status plans_walk(grid *one) {
    int own = 0;
    while (one->all->batch_row[own].samples != one->setting->job->batch)
        own++;
    for (int m = 0; m < one->mixes->count; m++) {
        const unsigned char *choice = one->mixes->mix[m].choice;
        qs_schedule *schedule = NULL;
        bool is_needed = false;
        QS_TRY(qs__mix_lower(one->setting, one->own, choice, QS_MODE_TRAIN, one->setting->job->batch, &schedule));
        for (int s = 0; s < schedule->steps; s++) {
            if (schedule->step[s].kind != QS_STEP_KERNEL) continue;
            bool *seen = &one->seen[qs__cases_find(one->own, schedule->step[s].case_text)];
            is_needed = is_needed || !*seen;
            *seen = true;
        }
        qs_schedule_release(schedule);
        const qs_status status = is_needed ? plan_rows(one, choice, own) : QS_OK;
        for (int b = 0; b < one->all->batches; b++) {
            qs_schedule_release(one->plan[b]);
            one->plan[b] = NULL;
        }
        QS_TRY(status);
    }
    return QS_OK;
}

/* ---- All of it ---------------------------------------------------------------------------------------------------------------------- */

/* Every batch of the grid and every measured one, from the least to the greatest measured one. */
static qs_status list_fill(const qs__batches *batches, int64_t own, qs_profile *all) {
    const int64_t step = own / GRID > 0 ? own / GRID : 1;
    int64_t least = batches->at[0].job.batch, most = batches->at[batches->count - 1].job.batch;
    if (least > own) least = own;
    if (most < own) most = own;
    size_t capacity = 0;
    for (int64_t samples = least; samples <= most; samples++) {
        bool measured = samples == own;
        for (int i = 0; i < batches->count; i++)
            measured = measured || batches->at[i].job.batch == samples;
        if (!measured && (samples - own) % step != 0) continue;
        QS_TRY(qs_grow(&all->batch_row, &capacity, (size_t)all->batches + 1, sizeof *all->batch_row));
        all->batch_row[all->batches++] = (qs_profile_batch){samples, measured};
    }
    return QS_OK;
}

qs_status qs__batches_fill(const qs__setting *setting, const qs__memory *memory, const qs__mixes *mixes, qs__cases *cases,
                           qs__batches *batches, qs_class_profile *out, qs_profile *all) {
    if (batches->count == 0) return QS_OK;
    QS_TRY(list_fill(batches, setting->job->batch, all));
    for (int i = 0; i < batches->count; i++) {
        qs__batch *at = &batches->at[i];
        at->rows = *out;
        at->rows.kernels = 0;
        at->rows.kernel = NULL;
        QS_TRY(qs__kernels_fill(&at->setting, memory, &at->cases, &at->rows));
        qs__kernels_finish(&at->cases, &at->rows);
        QS_TRY(qs__recordings_fill(&at->setting, &at->mixes, &at->cases, &at->figures, &at->rows));
    }
    grid one = {.setting = setting,
                .memory = memory,
                .mixes = mixes,
                .own = cases,
                .batches = batches,
                .all = all,
                .out = out,
                .capacity = (size_t)out->kernels,
                .own_rows = out->kernels};
    const size_t count = (size_t)all->batches;
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate(count, sizeof *one.cases, &one.cases));
    QS_GOTO(qs_allocate(count, sizeof *one.made, &one.made));
    QS_GOTO(qs_allocate(count, sizeof *one.made_size, &one.made_size));
    QS_GOTO(qs_allocate(count, sizeof *one.plan, &one.plan));
    QS_GOTO(qs_allocate((size_t)cases->count, sizeof *one.seen, &one.seen));
    for (size_t b = 0; b < count; b++)
        one.cases[b].device = setting->device;
    status = plans_walk(&one);
done:
    for (size_t b = 0; one.cases && b < count; b++)
        qs__cases_release(&one.cases[b]);
    for (size_t b = 0; one.made && b < count; b++)
        free(one.made[b]);
    free(one.cases);
    free(one.made);
    free(one.made_size);
    free(one.plan);
    free(one.seen);
    qs_class_profile_sort(out);
    return status;
}
