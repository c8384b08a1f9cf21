// SPDX-License-Identifier: Apache-2.0
/* Fits of what lowering converts (qsync.md §4.4): casts, absolute maxima, quantization, dequantization and gradient sums, over sizes from
 * 2^10 to 2^24 that are not the model's own.
 *
 * A conversion follows the kernel that made its source, in memory that this kernel has not seen for long; its destination is memory that
 * the arena gave away a few steps ago. So sources go round in a region beyond the last-level cache's share and are copied from elsewhere
 * before each run, as by a kernel that reads and writes; the destination stays in place. Quantization comes behind absmax, which has just
 * read the source. Dequantization and weights read what was left long before: nothing of theirs is made fresh. */
#include "profiler_internal.h"

#include "qsync/costmodel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_BITS = 10, LAST_BITS = 24, SIZES = LAST_BITS - FIRST_BITS + 1, PLACES = 2, MOST_RUNS = 9, LEAST_RUNS = 3, LEAST_SIZES = 4 };
static const size_t region_bytes = (size_t)64 << 20, flush_bytes = (size_t)4 << 20;
static const double off_powers = 1.15;  /* sizes lie beside the powers of two that models use */
static const double budget_us = 25000;  /* of timed runs per size */
static const double longest_us = 10000; /* no larger size after a run of this length: slow kernels are linear long before */

typedef const qs_case *kind; /* a case of the model that stands for all with the same fit */

static const qs_format *format_of(const qs_case *one, qs_role role) {
    const int position = qs_case_position(one, role);
    return position >= 0 ? one->operand[position].format : NULL;
}

/* What tells fits apart, as the cost model looks them up. */
static bool same_kind(const qs_case *a, const qs_case *b) {
    return a->op == b->op && format_of(a, QS_SRC) == format_of(b, QS_SRC) && format_of(a, QS_DST) == format_of(b, QS_DST) &&
           a->attributes.per_channel == b->attributes.per_channel && a->attributes.rounding == b->attributes.rounding;
}

/* Samples carry most of the elements: a batched case stands for its kind where there is one. */
static qs_status kinds_find(const qs__cases *cases, kind **out, int *count) {
    kind *kinds = NULL;
    *count = 0;
    QS_TRY(qs_allocate((size_t)cases->count, sizeof *kinds, &kinds));
    for (int i = 0; i < cases->count; i++) {
        const qs_case *one = &cases->entry[i].case_;
        if (!cases->entry[i].as_conversion) continue;
        int k = 0;
        while (k < *count && !same_kind(kinds[k], one))
            k++;
        if (k == *count) (*count)++;
        if (!kinds[k] || (one->attributes.batched && !kinds[k]->attributes.batched)) kinds[k] = one;
    }
    *out = kinds;
    return QS_OK;
}

/* ---- A case of a size ------------------------------------------------------------------------------------------------------------- */

/* Samples × features, or channels × what feeds one of them; rows are whole vectors long, as in models. */
static qs_shape shape_of(const qs_case *pattern, double elements, int64_t batch) {
    int64_t rows = batch;
    if (pattern->attributes.per_channel) rows = (int64_t)fmin(fmax(sqrt(elements) / 4, 8), 1024);
    while (rows > 1 && elements / (double)rows < 64)
        rows /= 2;
    const int64_t columns = (int64_t)(elements / (double)rows) / 16 * 16;
    return qs_shape_of(2, rows, columns);
}

static qs_case case_of(const qs_case *pattern, qs_shape shape) {
    qs_case one = *pattern;
    const qs_shape steps = qs_shape_of(1, pattern->attributes.per_channel ? shape.dim[0] : (int64_t)1);
    for (int i = 0; i < one.operands; i++) {
        const qs_role role = one.operand[i].role;
        one.operand[i].shape = role == QS_SRC || role == QS_SRC2 || role == QS_DST ? shape : steps;
    }
    return one;
}

/* ---- Timing ------------------------------------------------------------------------------------------------------------------------ */

/* Does the step before leave this operand in the caches, as far as it fits? */
static bool is_fresh(const qs_case *one, int operand) {
    const qs_role role = one->operand[operand].role;
    if (strcmp(one->op->name, "dequantize") == 0 || (one->attributes.per_channel && strcmp(one->op->name, "absmax") == 0)) return false;
    return role == QS_SRC || role == QS_SRC2;
}

typedef struct bench {
    qs__profiler *profiler;
    qs_case one;
    size_t place_bytes;
    int places;
    qs_kernel *kernel[PLACES];
    char *memory; /* operands; all but the written ones have `places` places */
    char *input;  /* what the kernel before reads */
    char *flush;
    double us; /* median of the size at hand */
} bench;

static void bench_end(bench *here) {
    for (int p = 0; p < PLACES; p++) {
        qs_kernel_release(here->kernel[p]);
        here->kernel[p] = NULL;
    }
}

static void places_spread(bench *here, size_t scratch_bytes) {
    here->place_bytes = qs__operands_place(&here->one, scratch_bytes, NULL, NULL, NULL);
    here->places = here->place_bytes * PLACES <= region_bytes ? PLACES : (int)(region_bytes / here->place_bytes);
    if (here->places < 1) here->places = 1;
}

/* Operands at a place of the region; what is written stays at the first one. */
static void operands_at(const bench *here, int place, size_t scratch_bytes, void **data, void **scratch) {
    void *first[QS_MAX_OPERANDS] = {0};
    qs__operands_place(&here->one, scratch_bytes, here->memory, first, scratch);
    qs__operands_place(&here->one, scratch_bytes, here->memory + (size_t)place * (region_bytes / (size_t)here->places), data, scratch);
    for (int i = 0; i < here->one.operands; i++)
        if (here->one.pass->written >> i & 1) data[i] = first[i];
}

static qs_status bench_start(bench *here) {
    qs_kernel_row row;
    char text[QS_CASE_TEXT];
    QS_TRY(qs_lookup_device(here->profiler->device, &here->one, qs_case_text(&here->one, text), &row));
    places_spread(here, row.scratch_bytes);
    for (int p = 0; p < here->places; p++) {
        void *data[QS_MAX_OPERANDS] = {0}, *scratch = NULL;
        operands_at(here, p, row.scratch_bytes, data, &scratch);
        qs__operands_fill(&here->one, data);
        QS_TRY(qs_device_prepare(here->profiler->device, &here->one, data, scratch, &here->kernel[p]));
    }
    qs__operand_fill(&here->one.operand[qs_case_position(&here->one, QS_SRC)], here->input);
    return QS_OK;
}

/* What the steps before leave in the caches. */
static void caches_prepare(const bench *here, int place) {
    const bool read = strcmp(here->one.op->name, "quantize") == 0;
    void *data[QS_MAX_OPERANDS] = {0}, *scratch = NULL;
    operands_at(here, place, 0, data, &scratch);
    qs__cache_flush(here->flush, flush_bytes);
    for (int i = 0; i < here->one.operands; i++) {
        const qs_operand *operand = &here->one.operand[i];
        if (!is_fresh(&here->one, i)) continue;
        memcpy(data[i], here->input, qs_tensor_bytes(&operand->shape, operand->format));
        if (read) qs__cache_read(data[i], qs_tensor_bytes(&operand->shape, operand->format));
    }
}

static qs_status run_once(const bench *here, int run, double *us) {
    const int place = run % here->places;
    const qs_run one = {
        .seed = 1, .step = (uint64_t)run, .samples = here->one.operand[0].shape.dim[0], .global_samples = 1, .loss_scale = 1};
    caches_prepare(here, place);
    const double begin = qs_clock();
    QS_TRY(qs_kernel_run(here->kernel[place], &one));
    *us = (qs_clock() - begin) * 1e6;
    return QS_OK;
}

static qs_status runs_time(bench *here) {
    double sample[MOST_RUNS], spent = 0;
    int runs = 0;
    QS_TRY(run_once(here, 0, &sample[0])); /* first touch of code and tables */
    for (; runs < MOST_RUNS && (runs < LEAST_RUNS || spent < budget_us); runs++) {
        QS_TRY(run_once(here, runs, &sample[runs]));
        spent += sample[runs];
    }
    here->us = qs__quartiles_of(runs, sample).median;
    return QS_OK;
}

static qs_status size_time(bench *here, const qs_case *pattern, int bits, double *elements) {
    const qs_shape shape = shape_of(pattern, ldexp(off_powers, bits), here->profiler->job->batch);
    *elements = (double)qs_shape_count(&shape);
    here->one = case_of(pattern, shape);
    qs_status status = bench_start(here);
    if (status == QS_OK) status = runs_time(here);
    bench_end(here);
    return status;
}

static qs_status kind_fit(bench *here, const qs_case *pattern, qs_conversion_cost *out) {
    double elements[SIZES], us[SIZES];
    int sizes = 0;
    while (sizes < SIZES && (sizes < LEAST_SIZES || us[sizes - 1] < longest_us)) {
        QS_TRY(size_time(here, pattern, FIRST_BITS + sizes, &elements[sizes]));
        us[sizes++] = here->us;
    }
    qs_fit fit;
    QS_TRY(qs_fit_make(sizes, elements, us, &fit));
    *out = (qs_conversion_cost){.from = format_of(pattern, QS_SRC),
                                .to = format_of(pattern, QS_DST),
                                .per_channel = pattern->attributes.per_channel,
                                .rounding = pattern->attributes.rounding,
                                .pieces = fit.pieces};
    snprintf(out->kind, sizeof out->kind, "%s", pattern->op->name);
    memcpy(out->piece, fit.piece, sizeof out->piece);
    return QS_OK;
}

/* ---- All kinds ---------------------------------------------------------------------------------------------------------------------- */

/* Operands, input and what is flushed, one behind the other. */
static size_t largest_bytes(void) {
    return (size_t)(sizeof(float) * ldexp(off_powers, LAST_BITS));
}

static size_t operands_bytes(void) {
    const size_t largest = 3 * largest_bytes() + ((size_t)1 << 20); /* three of fp32, and steps */
    return largest > region_bytes ? largest : region_bytes;
}

/* Ranks with fewer kinds than others run theirs again, so that all memory is busy for all. */
static qs_status rounds_run(qs__profiler *profiler, const kind *kinds, int count, char *memory, qs_class_profile *out) {
    bench here = {
        .profiler = profiler, .memory = memory, .input = memory + operands_bytes(), .flush = memory + operands_bytes() + largest_bytes()};
    double rounds = count;
    QS_TRY(qs_comm_max(profiler->comm, &rounds, 1));
    for (int i = 0; i < (int)rounds; i++) {
        qs_status status = QS_OK;
        qs_conversion_cost again, *row = i < count ? &out->conversion[i] : &again;
        qs__progress(profiler, 0.47 + 0.18 * i / rounds, "conversions");
        if (count > 0) status = kind_fit(&here, kinds[i % count], row);
        QS_TRY(qs_comm_agree(profiler->comm, status));
        if (i < count) out->conversions = i + 1;
    }
    return QS_OK;
}

qs_status qs__conversions_measure(qs__profiler *profiler, qs_class_profile *out) {
    kind *kinds = NULL;
    int count = 0;
    qs_arena arena = {0};
    qs_status status = kinds_find(&profiler->cases, &kinds, &count);
    if (status == QS_OK) status = qs_allocate((size_t)count, sizeof *out->conversion, &out->conversion);
    if (status == QS_OK && count > 0) status = qs_arena_reserve(operands_bytes() + largest_bytes() + flush_bytes, &arena);
    status = qs_comm_agree(profiler->comm, status);
    if (status == QS_OK) status = rounds_run(profiler, kinds, count, arena.memory, out);
    qs_arena_release(&arena);
    free(kinds);
    return status;
}
