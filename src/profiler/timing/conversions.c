// SPDX-License-Identifier: Apache-2.0
/* Fits of conversions (docs/method.md §4.4): casts, absolute maxima, quantization, dequantization and gradient sums, over sizes from 2^10
 * to 2^24 that are not the model's own.
 *
 * Memory as a step leaves it. A conversion follows the kernel that made its source; its destination is memory that the arena gave away
 * some kernels ago. So sources are copied from elsewhere before each run, as by a kernel that reads and writes, and between two runs as
 * much is moved as kernels move between two uses of the same memory: a part of what a whole step holds, which is how small batches come to
 * run in caches. Layers come in rows of equal ones: sizes of activations are run a few times in a row and the last run counts.
 * Quantization comes behind absmax, which has just read the source, or behind the kernel that delivered its maximum: whole steps show the
 * same time. What was left long before is not made fresh: saved codes, weights with a step per channel, the older one of two gradients.
 * `in_steps` of a profile tells how well that holds.
 *
 * Time. All sizes are run once, then all again, so that a machine that drifts drifts under all of them, and small operands have left the
 * caches when their turn comes again. A size is done when its median is known (samples.c), a kind when its sizes are or its time is up. */
#include "timing/kinds.h"

#include "qsync/costmodel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_BITS = 10, LAST_BITS = 24, HALVES_FROM = 18, MOST_SIZES = 2 * (LAST_BITS - FIRST_BITS), LEAST_SIZES = 4, WHOLE = 3 };
enum { COLUMNS = 64 };
enum { LEAST_SWEEPS = 3, WARM_UPS = 2, MOST_SWEEPS = 25, COPY_BYTES = 4096 };
static const double off_powers = 1.15, off_halves = 1.6; /* sizes lie beside the products of small numbers that models use */
static const double last_share = 0.97;                   /* of 2^24 */
static const double tolerance = 0.02;                    /* of a median, with the confidence of qs__median_is_known */
/* Sizes up to `own` elements have memory of their own; larger ones, no two of which fit into caches, share it. */
static const int64_t own_elements = 1 << 20;
static const size_t own_bytes = (size_t)20 << 20, shared_bytes = (size_t)80 << 20, input_bytes = (size_t)66 << 20;
/* What other kernels move between two uses of the same memory: a part of all that a step holds; between two uses of weights, all of it. */
static const size_t least_traffic = (size_t)4 << 20, most_traffic = (size_t)32 << 20, traffic_part = 8;
static const double row_from = 1 << 17, row_to = 1 << 22;

typedef struct size_bench {
    qs_case one;
    double elements;
    qs_location data[QS_MAX_OPERANDS];
    qs_kernel *kernel;
    qs__samples us;
    bool done;
} size_bench;

typedef struct bench {
    qs_device *device;
    qs_queue *queue;
    int64_t batch;
    const qs_case *pattern;
    int sizes;
    size_bench size[MOST_SIZES];
    qs_location region[WHOLE];      /* src, src2, dst */
    const qs_format *filled[WHOLE]; /* what the regions hold */
    qs_location input;              /* what the kernel before reads, and its format */
    const qs_format *input_filled;
    qs_location small, scratch, traffic; /* steps and maxima; of all kernels; what other kernels move */
    size_t traffic_bytes, step_bytes;    /* between two uses of a value's memory; of weights */
} bench;

/* ---- A case of a size ------------------------------------------------------------------------------------------------------------- */

/* Samples × features, or channels × what feeds one of them; rows are whole vectors long, as in models. Columns are channels of images. */
static qs_shape shape_of(const qs_case *pattern, double elements, int64_t batch) {
    const qs_conversion_steps steps = qs_conversion_steps_of(pattern);
    int64_t rows = batch;
    if (steps == QS_STEPS_CHANNEL || steps == QS_STEPS_CHANNEL_AND_COLUMN) rows = (int64_t)fmin(fmax(sqrt(elements) / 4, 8), 1024);
    while (rows > 1 && elements / (double)rows < 64)
        rows /= 2;
    const int64_t block = pattern->attributes.hadamard;
    if (steps == QS_STEPS_HADAMARD_ROWS) rows = rows < block ? block : rows / block * block;
    const int64_t columns = (int64_t)(elements / (double)rows) / 16 * 16;
    if (steps == QS_STEPS_TENSOR || steps == QS_STEPS_CHANNEL || steps == QS_STEPS_HADAMARD_ROWS) return qs_shape_of(2, rows, columns);
    const int64_t pixels = columns < COLUMNS ? 1 : columns / COLUMNS;
    return qs_shape_of(4, rows, (int64_t)COLUMNS, (int64_t)1, pixels);
}

static int whole_index(qs_role role) {
    return role == QS_SRC ? 0 : role == QS_SRC2 || role == QS_PACKED ? 1 : role == QS_DST ? 2 : -1; /* none has both of the middle ones */
}

static qs_case case_of(const qs_case *pattern, qs_shape shape) {
    qs_case one = *pattern;
    const qs_shape single = qs_shape_of(1, (int64_t)1),
                   steps = pattern->attributes.per_channel ? qs_shape_of(1, shape.dim[pattern->attributes.axis]) : single,
                   groups = qs_shape_of(1, shape.dim[1]);
    const bool shifts = qs_conversion_steps_of(pattern) == QS_STEPS_SHIFT;
    for (int i = 0; i < one.operands; i++) {
        const qs_role role = one.operand[i].role;
        one.operand[i].shape = whole_index(role) >= 0 ? shape : steps;
        if (role == QS_DST_STEP && shifts) one.operand[i].shape = single;
        if (role == QS_SRC_GROUP || role == QS_COLUMN_ABSMAX) one.operand[i].shape = groups;
    }
    return one;
}

/* Ascending: one size an octave, two where caches end. 0 past the end. */
static double size_at(int index) {
    const int whole = HALVES_FROM - FIRST_BITS;
    if (index < whole) return ldexp(off_powers, FIRST_BITS + index);
    const int bits = HALVES_FROM + (index - whole) / 2;
    if (bits < LAST_BITS) return ldexp((index - whole) % 2 ? off_halves : off_powers, bits);
    return bits == LAST_BITS && (index - whole) % 2 == 0 ? ldexp(last_share, LAST_BITS) : 0;
}

/* ---- Memory ------------------------------------------------------------------------------------------------------------------------ */

static size_t bytes_of(const qs_operand *operand) {
    return qs_tensor_bytes(&operand->shape, operand->format);
}

/* Where a size's whole operands begin in their regions: behind those of smaller ones, or at one end of the shared part. */
static size_t place_of(const bench *here, int index, size_t bytes) {
    size_t at = 0;
    if (size_at(index) > (double)own_elements) return own_bytes + (index % 2 ? 0 : (shared_bytes - bytes) / COPY_BYTES * COPY_BYTES);
    for (int i = 0; i < index; i++)
        at += ((size_t)here->size[i].elements * sizeof(float) + COPY_BYTES) / COPY_BYTES * COPY_BYTES;
    return at;
}

static qs_location moved(qs_location at, size_t bytes) {
    return qs_location_of(at.memory, at.offset + bytes);
}

static void operands_place(bench *here, int index) {
    size_bench *one = &here->size[index];
    qs_location small = here->small;
    for (int i = 0; i < one->one.operands; i++) {
        const qs_operand *operand = &one->one.operand[i];
        const int whole = whole_index(operand->role);
        if (!operand->format) continue;
        one->data[i] = whole >= 0 ? moved(here->region[whole], place_of(here, index, bytes_of(operand))) : small;
        if (whole < 0) small = moved(small, COPY_BYTES);
    }
}

/* Codes take a byte each, whatever their bits. */
static int64_t elements_in(const qs_format *format, size_t bytes) {
    return (int64_t)(format->kind == QS_KIND_INTEGER ? bytes : bytes * 8 / (size_t)format->bits);
}

/* Ordinary values wherever a kernel may read, whichever size has written there. */
static qs_status regions_fill(bench *here) {
    for (int i = 0; i < here->pattern->operands; i++) {
        qs_operand operand = here->pattern->operand[i];
        const int whole = whole_index(operand.role);
        if (whole < 0 || whole == 2 || operand.role == QS_PACKED || here->filled[whole] == operand.format) continue;
        operand.shape = qs_shape_of(1, elements_in(operand.format, own_bytes + shared_bytes));
        QS_TRY(qs__operand_fill(here->queue, &operand, here->region[whole]));
        here->filled[whole] = operand.format;
        if (here->input_filled == operand.format) continue;
        operand.shape = qs_shape_of(1, elements_in(operand.format, input_bytes));
        QS_TRY(qs__operand_fill(here->queue, &operand, here->input));
        here->input_filled = operand.format;
    }
    here->filled[2] = NULL;
    if (qs_case_position(here->pattern, QS_PACKED) >= 0) here->filled[1] = NULL;
    return QS_OK;
}

/* ---- Timing ------------------------------------------------------------------------------------------------------------------------ */

/* Does the step before leave this operand in the caches, as far as it fits? Weights are quantized after their maxima were looked for. */
static bool is_fresh(const qs_case *one, qs_role role) {
    if (qs_case_position(one, QS_SRC_STEP) >= 0) return false;
    if (qs_conversion_of_weights(one) && qs_case_position(one, QS_DST_STEP) < 0) return false;
    return role == (qs_case_position(one, QS_SRC2) >= 0 ? QS_SRC2 : QS_SRC);
}

/* What the steps before leave in the caches. */
static qs_status caches_prepare(const bench *here, const size_bench *one) {
    const size_t traffic = qs_conversion_of_weights(&one->one) ? here->step_bytes : here->traffic_bytes;
    QS_TRY(qs_memory_touch(here->queue, here->traffic, traffic, true));
    for (int i = 0; i < one->one.operands; i++) {
        const qs_operand *operand = &one->one.operand[i];
        if (whole_index(operand->role) < 0 || !is_fresh(&one->one, operand->role)) continue;
        QS_TRY(qs_memory_copy(here->queue, here->input, one->data[i], bytes_of(operand)));
        if (qs_case_position(&one->one, QS_DST_STEP) >= 0) QS_TRY(qs_memory_touch(here->queue, one->data[i], bytes_of(operand), false));
    }
    return QS_OK;
}

/* Weights are cold: they were used a step ago. Activations come in rows of equal ones, so that their neighbours' memory is warm. */
static qs_status size_run(const bench *here, size_bench *one) {
    const bool row = !qs_conversion_of_weights(&one->one) && one->elements >= row_from && one->elements <= row_to;
    const qs_run run = {
        .seed = 1, .step = (uint64_t)one->us.count, .samples = one->one.operand[0].shape.dim[0], .global_samples = 1, .loss_scale = 1};
    double us = 0;
    for (int i = 0; i < (row ? 1 + WARM_UPS : 1); i++) {
        QS_TRY(caches_prepare(here, one));
        QS_TRY(qs_kernel_time(one->kernel, &run, &us));
        us *= 1e6;
    }
    QS_TRY(qs__samples_add(&one->us, us));
    one->done = one->us.count >= LEAST_SWEEPS && qs__median_is_known(&one->us, tolerance);
    return QS_OK;
}

static qs_status size_start(bench *here, int index) {
    size_bench *one = &here->size[index];
    qs_kernel_row row;
    char text[QS_CASE_TEXT];
    const qs_shape shape = shape_of(here->pattern, size_at(index), here->batch);
    *one = (size_bench){.one = case_of(here->pattern, shape), .elements = (double)qs_shape_count(&shape)};
    here->sizes = index + 1;
    QS_TRY(qs_lookup_device(here->device, &one->one, qs_case_text(&one->one, text), &row));
    if (row.scratch_bytes > QS__CONVERSION_SCRATCH)
        return qs_fail(QS_UNSUPPORTED, "%s wants %zu bytes of scratch memory; conversions have at most %d", text, row.scratch_bytes,
                       QS__CONVERSION_SCRATCH);
    operands_place(here, index);
    for (int i = 0; i < one->one.operands; i++)
        if (one->one.operand[i].format && whole_index(one->one.operand[i].role) < 0)
            QS_TRY(qs__operand_fill(here->queue, &one->one.operand[i], one->data[i]));
    return qs_device_prepare(here->device, &one->one, row.kernel, one->data, here->scratch, &one->kernel);
}

/* The first sweep warms up and finds the sizes: those beyond a quarter of the kind's time are left out, since slow kernels are linear. */
static qs_status sweeps_run(bench *here, double until) {
    const double begin = qs_clock(), enough = begin + (until - begin) / 4;
    for (int i = 0; size_at(i) > 0 && (i < LEAST_SIZES || qs_clock() < enough); i++) {
        QS_TRY(size_start(here, i));
        QS_TRY(size_run(here, &here->size[i]));
        here->size[i].us.count = 0;
    }
    bool done = false;
    for (int sweep = 0; sweep < MOST_SWEEPS && !done && (sweep < LEAST_SWEEPS || qs_clock() < until); sweep++) {
        done = true;
        for (int i = here->sizes - 1; i >= 0; i--) {
            if (here->size[i].done) continue;
            QS_TRY(size_run(here, &here->size[i]));
            done = done && here->size[i].done;
        }
    }
    return QS_OK;
}

static qs_conversion_cost row_of(const qs_case *kind) {
    qs_conversion_cost row = {.from = kind->operand[qs_case_position(kind, QS_SRC)].format,
                              .to = qs_conversion_target(kind),
                              .steps = qs_conversion_steps_of(kind),
                              .rounding = kind->attributes.rounding,
                              .least_squares = kind->attributes.least_squares,
                              .weights = qs_conversion_of_weights(kind)};
    snprintf(row.kind, sizeof row.kind, "%s", kind->op->name);
    return row;
}

static qs_status fit_make(bench *here, qs_conversion_cost *out) {
    double elements[MOST_SIZES], us[MOST_SIZES];
    qs_fit fit;
    for (int i = 0; i < here->sizes; i++) {
        elements[i] = here->size[i].elements;
        us[i] = qs__quartiles_of(here->size[i].us.count, here->size[i].us.value).median;
    }
    QS_TRY(qs_fit_make(here->sizes, elements, us, &fit));
    *out = row_of(&here->size[0].one);
    out->pieces = fit.pieces;
    memcpy(out->piece, fit.piece, sizeof out->piece);
    return QS_OK;
}

static qs_status kind_fit(bench *here, const qs_case *pattern, double seconds, qs_conversion_cost *out) {
    const double until = qs_clock() + seconds;
    here->pattern = pattern;
    qs_status status = regions_fill(here);
    if (status == QS_OK) status = sweeps_run(here, until);
    if (status == QS_OK) status = fit_make(here, out);
    for (int i = 0; i < here->sizes; i++) {
        qs_kernel_release(here->size[i].kernel);
        free(here->size[i].us.value);
    }
    here->sizes = 0;
    return status;
}

/* ---- All kinds ---------------------------------------------------------------------------------------------------------------------- */

static size_t arena_bytes(void) {
    return WHOLE * (own_bytes + shared_bytes) + input_bytes + most_traffic + QS__CONVERSION_SCRATCH + (size_t)QS_MAX_OPERANDS * COPY_BYTES;
}

static void regions_place(bench *here, qs_memory *memory) {
    for (int i = 0; i < WHOLE; i++)
        here->region[i] = qs_location_of(memory, (size_t)i * (own_bytes + shared_bytes));
    here->input = qs_location_of(memory, WHOLE * (own_bytes + shared_bytes));
    here->traffic = moved(here->input, input_bytes);
    here->scratch = moved(here->traffic, most_traffic);
    here->small = moved(here->scratch, QS__CONVERSION_SCRATCH);
}

static size_t traffic_within(size_t bytes) {
    return bytes < least_traffic ? least_traffic : bytes > most_traffic ? most_traffic : bytes;
}

/* A fit that a profile of another model has left, or one of now. */
static qs_status kind_take(const qs__setting *setting, bench *here, const qs_case *kind, double seconds, qs_conversion_cost *row) {
    *row = row_of(kind);
    if (qs__shared_fit(setting, kind, here->step_bytes, row)) return QS_OK;
    QS_TRY(kind_fit(here, kind, seconds, row));
    return qs__shared_fit_found(setting, kind, here->step_bytes, row);
}

/* Ranks of a host take turns: two that stream at once slow each other down far more than a conversion and the kernels of another rank do in
 * training. What busy neighbours cost a conversion was seen in whole steps (rows.c adds it). */
static qs_status turns_run(const qs__setting *setting, const qs__kinds *kinds, bench *here, int kind, double seconds,
                           qs_conversion_cost *row) {
    double turns = qs_comm_local_size(setting->comm);
    QS_TRY(qs_comm_max(setting->comm, &turns, 1));
    for (int turn = 0; turn < (int)turns; turn++) {
        qs_status status = QS_OK;
        if (turn == qs_comm_local_rank(setting->comm) && kind < kinds->count)
            status = kind_take(setting, here, &kinds->kind[kind], seconds / turns, row);
        QS_TRY(qs_comm_agree(setting->comm, status));
    }
    return QS_OK;
}

/* Room for all, with what a resumed measurement has already. */
static qs_status rows_allocate(int count, qs_class_profile *out) {
    qs_conversion_cost *rows = NULL;
    QS_TRY(qs_allocate((size_t)count, sizeof *rows, &rows));
    if (out->conversions > count) out->conversions = count;
    if (out->conversions > 0) memcpy(rows, out->conversion, (size_t)out->conversions * sizeof *rows);
    free(out->conversion);
    out->conversion = rows;
    return QS_OK;
}

qs_status qs__conversions_measure(const qs__setting *setting, const qs__cases *cases, size_t step_bytes, int *kinds_done,
                                  void (*kind_done)(void *context), void *context, qs_class_profile *out) {
    qs__kinds kinds = {0};
    qs_memory *memory = NULL;
    bench *here = NULL;
    double rounds = 0; /* the most kinds of a rank */
    qs_status status = qs__kinds_list(setting->class_, cases, &kinds);
    if (status == QS_OK) status = qs_allocate(1, sizeof *here, &here);
    if (status == QS_OK) status = rows_allocate(kinds.count, out);
    if (status == QS_OK && kinds.count > 0) status = qs_memory_reserve(setting->device, arena_bytes(), &memory);
    QS_GOTO(qs_comm_agree(setting->comm, status));
    here->device = setting->device;
    here->queue = qs_device_queue(setting->device, QS_QUEUE_KERNELS);
    here->batch = setting->job->batch;
    here->traffic_bytes = traffic_within(step_bytes / traffic_part);
    here->step_bytes = traffic_within(step_bytes);
    regions_place(here, memory);
    rounds = kinds.count;
    QS_GOTO(qs_comm_max(setting->comm, &rounds, 1));
    while (*kinds_done < (int)rounds) {
        const int i = *kinds_done;
        qs__progress(setting, 0.47 + 0.18 * i / rounds, "conversions");
        QS_GOTO(turns_run(setting, &kinds, here, i, qs__conversion_seconds(setting) / rounds, out->conversion + i));
        if (i < kinds.count) out->conversions = i + 1;
        *kinds_done = i + 1;
        if (i + 1 < (int)rounds) kind_done(context);
    }
done:
    qs_memory_release(memory);
    free(kinds.kind);
    free(here);
    return status;
}
