// SPDX-License-Identifier: Apache-2.0
/* Convolutions of floats and their input gradients by our own tiles (direct.h): the source is copied into a frame of zeros, as many
 * images at a time as the second cache holds, and weights are packed once a run. With stride s the gradient of the input is s × s
 * convolutions, one for the results of each remainder of row and column by s: these are the *phases*; a forward pass is one. */
#include "cpu/library/gemm.h"
#include "qsync/base.h"

#include <string.h>

enum {
    COPIED_BYTES = 3 << 17, /* three eighths of a second cache of 1 MiB: the weights of a tile are there as well */
    MOST_RUNS = 16,
    MOST_PHASES = 16,
    CHUNK = 64 /* tiles that a thread takes at least */
};

/* Results of one phase of rows and one of columns, and the packed weights of the taps that reach them. */
typedef struct phase {
    qs__phase rows, columns;
    int runs; /* one for each row of taps, or, where a row has gaps, for each tap */
    qs__direct_run run[MOST_RUNS];
    int64_t words;   /* of all runs */
    int64_t weights; /* bytes: where its packed weights begin */
} phase;

typedef struct job {
    const qs__direct *kernels;
    const qs__weight_gradient_kernels *rows; /* packs what instructions add up from rows of weights */
    qs__type type;
    bool gradient;
    int side;                            /* channels in a word */
    qs__geometry view;                   /* what the pass reads, and what it writes */
    int64_t before[2], framed[2], pitch; /* frame: zeros before; rows, columns; bytes of a place */
    int64_t images;                      /* at a time */
    int phases;
    phase phase[MOST_PHASES];
    int64_t vectors, packed_bytes, places; /* places: of the largest phase */
    const char *src, *weights;
    qs__out result;
    /* scratch */
    char *frame, *packed;
    float *bias;               /* NULL: none */
    int64_t *window, *written; /* of the phase's places: bytes from an image's begin */
    /* of this moment */
    const phase *now;
    int64_t first_image, count;
} job;

/* ---- Sizes ---- */

static int64_t bytes_of(const job *j) {
    return (int64_t)qs__type_bytes(j->type);
}

static int64_t image_bytes(const job *j) {
    return j->framed[0] * j->framed[1] * j->pitch;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Zeros before the source, and rows and columns of all, that every window is inside. */
static void set_frame(job *j) {
    j->pitch = 4 * ((j->view.channels + j->side - 1) / j->side);
    for (int axis = 0; axis < 2; axis++) {
        int64_t low, high;
        qs__phases_reach(&j->view, j->gradient, axis, &low, &high);
        j->before[axis] = -low;
        j->framed[axis] = high - low;
    }
}

static int64_t places_of(const phase *p) {
    return p->rows.count * p->columns.count;
}

static void set_phases(job *j) {
    for (int64_t down = 0; down < qs__phases(&j->view, j->gradient, 0); down++)
        for (int64_t across = 0; across < qs__phases(&j->view, j->gradient, 1); across++) {
            phase *p = &j->phase[j->phases++];
            *p = (phase){.rows = qs__phase_at(&j->view, j->gradient, 0, down), .columns = qs__phase_at(&j->view, j->gradient, 1, across)};
            const int64_t pieces = p->columns.spread > 1 ? p->columns.taps : 1;
            if (p->columns.taps) p->runs = (int)(p->rows.taps * pieces);
            for (int r = 0; r < p->runs; r++) {
                const int64_t row = p->rows.offset + r / pieces * p->rows.spread + j->before[0];
                const int64_t column = p->columns.offset + r % pieces * p->columns.spread + j->before[1];
                p->run[r] =
                    (qs__direct_run){.offset = (row * j->framed[1] + column) * j->pitch, .words = p->columns.taps / pieces * j->pitch / 4};
                p->words += p->run[r].words;
            }
            p->weights = j->packed_bytes;
            j->packed_bytes += j->vectors * p->words * QS__DIRECT_BYTES;
            if (places_of(p) > j->places) j->places = places_of(p);
        }
}

static job job_of(const qs_case *one) {
    const bool gradient = qs__case_pass(one) == QS__INPUT_GRADIENT;
    const qs__geometry forward = qs__case_geometry(one);
    job j = {.type = qs__cpu_type(qs__case_format(one, gradient ? QS_DIFF_DST : QS_SRC)),
             .gradient = gradient,
             .view = gradient ? qs__geometry_reversed(&forward) : forward};
    j.side = j.type == QS__FP32 ? 1 : 2;
    j.vectors = (j.view.outputs + QS__DIRECT_LANES - 1) / QS__DIRECT_LANES;
    set_frame(&j);
    set_phases(&j);
    j.images = COPIED_BYTES / (image_bytes(&j) + 1);
    j.images = j.images < 1 ? 1 : least(j.images, j.view.batch);
    return j;
}

/* ---- Weights ---- */

static char *packed_at(const job *j, const phase *p, int64_t vector, int64_t word) {
    return j->packed + p->weights + (vector * p->words + word) * QS__DIRECT_BYTES;
}

/* Forward: rows of weights are those of the result's channels, words lie in them. */
static void pack_vector(const job *j, int64_t vector) {
    const phase *p = &j->phase[0];
    const int64_t taps = j->view.kernel[0] * j->view.kernel[1], bytes = j->view.channels * bytes_of(j);
    const bool whole = bytes == j->pitch;
    for (int64_t tap = 0; tap < (whole ? 1 : taps); tap++) {
        const char *row[QS__DIRECT_LANES];
        for (int i = 0; i < QS__DIRECT_LANES; i++) {
            const int64_t o = vector * QS__DIRECT_LANES + i;
            row[i] = o < j->view.outputs ? j->weights + (o * taps + tap) * bytes : NULL;
        }
        j->kernels->turn(whole ? taps * bytes : bytes, row, packed_at(j, p, vector, tap * j->pitch / 4));
    }
}

/* Input gradient: rows of weights are the source's channels, of which a word has one of each. */
static void pack_word(const job *j, const phase *p, int64_t word) {
    const int64_t bytes = bytes_of(j), taps = j->view.kernel[0] * j->view.kernel[1];
    int64_t at = 0;
    for (int64_t r = 0; p->runs && r < p->rows.taps; r++)
        for (int64_t t = 0; t < p->columns.taps; t++, at += j->pitch / 4) {
            const int64_t row = p->rows.tap + r * p->rows.tap_step, column = p->columns.tap + t * p->columns.tap_step;
            const int64_t tap = row * j->view.kernel[1] + column;
            qs__weight_gradient_line line = {.pitch = j->view.outputs,
                                             .elements = j->view.outputs,
                                             .places = 1,
                                             .lanes = j->view.outputs,
                                             .block = p->words * QS__DIRECT_BYTES,
                                             .dst = packed_at(j, p, 0, at + word)};
            for (int i = 0; i < j->side; i++) {
                const int64_t o = word * j->side + i;
                line.row[i] = o < j->view.channels ? j->weights + (o * taps + tap) * j->view.outputs * bytes : NULL;
            }
            j->rows->pack[j->type](&line);
        }
}

static void pack_weights(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    for (int64_t k = begin; k < end; k++) {
        if (!j->gradient) pack_vector(j, k);
        for (int i = 0; j->gradient && i < j->phases; i++)
            pack_word(j, &j->phase[i], k);
    }
}

/* ---- Source ---- */

static void copy_row(const job *j, const char *src, char *dst) {
    const int64_t bytes = j->view.channels * bytes_of(j), room = j->framed[1] - j->before[1];
    const int64_t columns = least(j->view.width, room);
    char *at = dst + j->before[1] * j->pitch;
    memset(dst, 0, (size_t)(j->before[1] * j->pitch));
    if (bytes == j->pitch) {
        memcpy(at, src, (size_t)(columns * bytes));
    } else {
        memset(at, 0, (size_t)(columns * j->pitch));
        for (int64_t c = 0; c < columns; c++)
            memcpy(at + c * j->pitch, src + c * bytes, (size_t)bytes);
    }
    memset(at + columns * j->pitch, 0, (size_t)((room - columns) * j->pitch));
}

static void copy_rows(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const int64_t bytes = j->framed[1] * j->pitch, row_bytes = j->view.width * j->view.channels * bytes_of(j);
    for (int64_t k = begin; k < end; k++) {
        const int64_t image = k / j->framed[0], row = k % j->framed[0] - j->before[0];
        char *dst = j->frame + k * bytes;
        if (row < 0 || row >= j->view.height)
            memset(dst, 0, (size_t)bytes);
        else
            copy_row(j, j->src + ((j->first_image + image) * j->view.height + row) * row_bytes, dst);
    }
}

/* ---- Tiles ---- */

static void fill_places(const job *j) {
    const phase *p = j->now;
    for (int64_t r = 0; r < p->rows.count; r++)
        for (int64_t c = 0; c < p->columns.count; c++) {
            const int64_t row = p->rows.first + r * p->rows.step, column = p->columns.first + c * p->columns.step;
            const int64_t place = r * p->columns.count + c;
            j->window[place] = (r * p->rows.move * j->framed[1] + c * p->columns.move) * j->pitch;
            j->written[place] = (row * j->view.out_width + column) * j->view.outputs * (int64_t)qs__type_bytes(j->result.type);
        }
}

static int64_t tiles_of_vectors(const job *j) {
    return (j->vectors + QS__DIRECT_VECTORS - 1) / QS__DIRECT_VECTORS;
}

static int64_t tiles_of_places(const job *j) {
    return (j->count * places_of(j->now) + QS__DIRECT_PLACES - 1) / QS__DIRECT_PLACES;
}

static int64_t chunks_of(const job *j) {
    return (tiles_of_places(j) + CHUNK - 1) / CHUNK;
}

static void set_places(const job *j, int64_t first, int64_t column_bytes, qs__direct_tile *tile) {
    const int64_t places = places_of(j->now), all = j->count * places, bytes = image_bytes(j);
    const int64_t result_bytes = j->view.out_height * j->view.out_width * j->view.outputs * (int64_t)qs__type_bytes(j->result.type);
    int64_t image = first / places, place = first % places;
    const int count = (int)least(all - first, QS__DIRECT_PLACES);
    for (int i = 0; i < count; i++) {
        tile->window[i] = j->frame + image * bytes + j->window[place];
        tile->result[i] = (char *)j->result.at + (j->first_image + image) * result_bytes + j->written[place] + column_bytes;
        if (++place == places) place = 0, image++;
    }
    for (int i = count; i < QS__DIRECT_PLACES; i++) {
        tile->window[i] = tile->window[0];
        tile->result[i] = tile->result[0];
    }
}

static void run_chunk(const job *j, int64_t panel, int64_t chunk) {
    const phase *p = j->now;
    const int64_t panels = tiles_of_vectors(j), first = j->vectors * panel / panels, channel = first * QS__DIRECT_LANES;
    const int64_t end = least((chunk + 1) * CHUNK, tiles_of_places(j));
    qs__direct_tile tile = {.vectors = (int)(j->vectors * (panel + 1) / panels - first),
                            .runs = p->runs,
                            .run = p->run,
                            .weights = packed_at(j, p, first, 0),
                            .panel = p->words * QS__DIRECT_BYTES,
                            .bias = j->bias ? j->bias + channel : NULL,
                            .type = j->result.type};
    tile.channels = (int)least(j->view.outputs - channel, tile.vectors * QS__DIRECT_LANES);
    for (int64_t k = chunk * CHUNK; k < end; k++) {
        set_places(j, k * QS__DIRECT_PLACES, channel * (int64_t)qs__type_bytes(j->result.type), &tile);
        j->kernels->tile[j->type](&tile);
    }
}

static void run_chunks(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const int64_t chunks = chunks_of(j);
    for (int64_t k = begin; k < end; k++)
        run_chunk(j, k / chunks, k % chunks);
}

static void run_images(job *j) {
    for (j->first_image = 0; j->first_image < j->view.batch; j->first_image += j->images) {
        j->count = least(j->images, j->view.batch - j->first_image);
        qs_parallel(j->count * j->framed[0], 8, copy_rows, j);
        for (int i = 0; i < j->phases; i++) {
            j->now = &j->phase[i];
            fill_places(j);
            qs_parallel(tiles_of_vectors(j) * chunks_of(j), 1, run_chunks, j);
        }
    }
}

/* ---- Building ---- */

/* Scratch, in this order. */
static size_t lay_out(job *j, char *base) {
    qs__pieces pieces = {base, 0};
    j->frame = qs__piece(&pieces, j->images * image_bytes(j));
    j->packed = qs__piece(&pieces, j->packed_bytes);
    j->bias = qs__piece(&pieces, j->vectors * QS__DIRECT_LANES * (int64_t)sizeof *j->bias);
    j->window = qs__piece(&pieces, j->places * (int64_t)sizeof *j->window);
    j->written = qs__piece(&pieces, j->places * (int64_t)sizeof *j->written);
    return pieces.used;
}

static void fill_bias(const qs__chain *chain, job *j) {
    if (j->gradient || !qs__case_has(&chain->one, QS_BIAS)) {
        j->bias = NULL;
        return;
    }
    memset(j->bias, 0, (size_t)(j->vectors * QS__DIRECT_LANES) * sizeof *j->bias);
    memcpy(j->bias, qs__cpu_data(chain, QS_BIAS), (size_t)j->view.outputs * sizeof *j->bias);
}

static qs_status run(const qs__chain *chain, const qs_run *step) {
    (void)step;
    const qs_case *one = &chain->one;
    job j = job_of(one);
    lay_out(&j, chain->scratch + chain->offset[0]);
    j.kernels = chain->cpu->direct;
    j.rows = chain->cpu->weight_gradient;
    j.src = qs__cpu_data(chain, j.gradient ? QS_DIFF_DST : QS_SRC);
    j.weights = qs__cpu_data(chain, QS_WEIGHTS);
    j.result.at = qs__cpu_data(chain, j.gradient ? QS_DIFF_SRC : QS_DST);
    j.result.type = qs__cpu_type(qs__case_format(one, j.gradient ? QS_DIFF_SRC : QS_DST));
    fill_bias(chain, &j);
    qs_parallel(j.gradient ? j.pitch / 4 : j.vectors, 1, pack_weights, &j);
    run_images(&j);
    return QS_OK;
}

static qs_status check_formats(const qs__chain *chain, bool gradient) {
    const qs_case *one = &chain->one;
    qs__gemm_types types;
    if (gradient)
        QS_TRY(qs__gemm_gradient_types(chain, QS_WEIGHTS, QS_DIFF_DST, QS_DIFF_SRC, &types));
    else
        QS_TRY(qs__gemm_forward_types(chain, &types));
    const qs__type result = qs__cpu_type(qs__case_format(one, gradient ? QS_DIFF_SRC : QS_DST));
    if (result != QS__FP32 && result != QS__BF16) return qs_fail(QS_UNSUPPORTED, "direct convolutions write fp32 or bf16");
    if (types.operands == QS__INT8) return qs_fail(QS_UNSUPPORTED, "direct convolutions are of fp32 or bf16");
    return QS_OK;
}

/* Measured on Zen 5 (qsync bench --tune) beside oneDNN's, which pack weights slowly: a result of few places waits for that. Words of few
 * channels are mostly empty. */
static bool is_behind(const job *j) {
    const bool strided = j->view.stride[0] > 1 || j->view.stride[1] > 1, single = j->view.kernel[0] * j->view.kernel[1] == 1;
    const int64_t places = j->view.batch * (j->gradient ? j->view.height * j->view.width : j->view.out_height * j->view.out_width);
    return j->view.channels < 16 || places > (single && !j->gradient ? 256 : strided && !single ? 1024 : 128);
}

qs_status qs__build_direct(qs__chain *chain) {
    const qs_case *one = &chain->one;
    const qs_attributes *with = &one->attributes;
    const bool gradient = qs__case_pass(one) == QS__INPUT_GRADIENT;
    if (qs__case_pass(one) == QS__WEIGHT_GRADIENT) return qs_fail(QS_UNSUPPORTED, "direct convolutions have no weight gradient");
    QS_TRY(check_formats(chain, gradient));
    const int runs = with->kernel[0] * (with->dilation[1] > 1 ? with->kernel[1] : 1);
    if (!chain->cpu->direct || with->groups > 1 || runs > MOST_RUNS || (gradient && with->stride[0] * with->stride[1] > MOST_PHASES))
        return qs_fail(QS_UNSUPPORTED, "direct convolutions need AVX-512, one group, and gradients a stride of 4 at most");
    job j = job_of(one);
    chain->behind = is_behind(&j);
    chain->offset[0] = qs__chain_reserve(chain, lay_out(&j, NULL));
    qs__chain_call(chain, run);
    snprintf(chain->name, sizeof chain->name, "own:direct:%s", chain->cpu->direct->name);
    return QS_OK;
}
