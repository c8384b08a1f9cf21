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

typedef struct phase {
    int64_t begin[2], count[2]; /* results: row and column of the first; how many */
    int runs;
    qs__direct_run run[MOST_RUNS];
    int tap[MOST_RUNS];    /* row of the filter that a run belongs to */
    int first, step, taps; /* its columns, in the order of the run */
    int64_t words;         /* of all runs */
    int64_t weights;       /* bytes: where its packed weights begin */
} phase;

typedef struct job {
    const qs__direct *kernels;
    const qs__taps *rows; /* packs what instructions add up from rows of weights */
    qs__type type;
    bool gradient;
    int side;                                                    /* channels in a word */
    int64_t batch, src_channels, src_size[2], channels, size[2]; /* of source and result: rows, columns */
    int kernel[2], stride[2], padding[2];
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

/* Taps of the filter that reach results with a remainder, along one axis: the first one's index, how many, and the places of the source
 * that they read, counted from the result's own: the least; one more for each tap after the last. */
typedef struct reach {
    int last, count;
    int64_t least;
} reach;

static reach reach_of(const job *j, int axis, int remainder) {
    reach r = {.last = -1};
    if (!j->gradient) return (reach){.last = j->kernel[axis] - 1, .count = j->kernel[axis], .least = -j->padding[axis]};
    for (int k = 0; k < j->kernel[axis]; k++)
        if ((remainder + j->padding[axis] - k) % j->stride[axis] == 0) {
            r.last = k;
            r.count++;
        }
    if (r.count) r.least = (remainder + j->padding[axis] - r.last) / j->stride[axis];
    return r;
}

/* Zeros before the source, and rows and columns of all, that every window is inside. */
static void set_frame(job *j) {
    const int64_t words = (j->src_channels + j->side - 1) / j->side;
    j->pitch = 4 * words;
    for (int axis = 0; axis < 2; axis++) {
        const int step = j->gradient ? j->stride[axis] : 1, move = j->gradient ? 1 : j->stride[axis];
        int64_t low = 0, high = 0;
        for (int remainder = 0; remainder < step && remainder < j->size[axis]; remainder++) {
            const reach r = reach_of(j, axis, remainder);
            const int64_t results = (j->size[axis] - remainder + step - 1) / step;
            if (!r.count) continue;
            low = least(low, r.least);
            if (r.least + r.count + (results - 1) * move > high) high = r.least + r.count + (results - 1) * move;
        }
        j->before[axis] = -low;
        j->framed[axis] = high - low;
    }
}

static void set_phase(job *j, int down, int across, phase *p) {
    const int step[2] = {j->gradient ? j->stride[0] : 1, j->gradient ? j->stride[1] : 1}, remainder[2] = {down, across};
    const reach rows = reach_of(j, 0, down), columns = reach_of(j, 1, across);
    *p = (phase){.first = j->gradient ? columns.last : 0, .step = j->gradient ? -j->stride[1] : 1, .taps = columns.count};
    for (int axis = 0; axis < 2; axis++) {
        p->begin[axis] = remainder[axis];
        p->count[axis] = (j->size[axis] - remainder[axis] + step[axis] - 1) / step[axis];
    }
    if (!rows.count || !columns.count) return;
    p->runs = rows.count;
    for (int r = 0; r < rows.count; r++) {
        p->tap[r] = j->gradient ? rows.last - r * j->stride[0] : r;
        p->run[r].offset = ((rows.least + r + j->before[0]) * j->framed[1] + columns.least + j->before[1]) * j->pitch;
        p->run[r].words = columns.count * j->pitch / 4;
        p->words += p->run[r].words;
    }
}

static void set_phases(job *j) {
    const int steps[2] = {j->gradient ? j->stride[0] : 1, j->gradient ? j->stride[1] : 1};
    for (int down = 0; down < steps[0] && down < j->size[0]; down++)
        for (int across = 0; across < steps[1] && across < j->size[1]; across++) {
            phase *p = &j->phase[j->phases++];
            set_phase(j, down, across, p);
            p->weights = j->packed_bytes;
            j->packed_bytes += j->vectors * p->words * QS__DIRECT_BYTES;
            if (p->count[0] * p->count[1] > j->places) j->places = p->count[0] * p->count[1];
        }
}

static job job_of(const qs_case *one) {
    const bool gradient = strcmp(one->pass->name, "forward") != 0;
    const qs_shape *src = &qs__cpu_operand(one, gradient ? QS_DIFF_DST : QS_SRC)->shape;
    const qs_shape *dst = &qs__cpu_operand(one, gradient ? QS_DIFF_SRC : QS_DST)->shape;
    const qs_format *format = qs__cpu_format(one, gradient ? QS_DIFF_DST : QS_SRC);
    job j = {
        .type = qs__cpu_type(format), .gradient = gradient, .batch = src->dim[0], .src_channels = src->dim[1], .channels = dst->dim[1]};
    j.side = j.type == QS__FP32 ? 1 : 2;
    j.vectors = (j.channels + QS__DIRECT_LANES - 1) / QS__DIRECT_LANES;
    for (int axis = 0; axis < 2; axis++) {
        j.src_size[axis] = src->dim[2 + axis];
        j.size[axis] = dst->dim[2 + axis];
        j.kernel[axis] = one->attributes.kernel[axis];
        j.stride[axis] = one->attributes.stride[axis];
        j.padding[axis] = one->attributes.padding[axis];
    }
    set_frame(&j);
    set_phases(&j);
    j.images = COPIED_BYTES / (image_bytes(&j) + 1);
    j.images = j.images < 1 ? 1 : least(j.images, j.batch);
    return j;
}

/* ---- Weights ---- */

static char *packed_at(const job *j, const phase *p, int64_t vector, int64_t word) {
    return j->packed + p->weights + (vector * p->words + word) * QS__DIRECT_BYTES;
}

/* Forward: rows of weights are those of the result's channels, words lie in them. */
static void pack_vector(const job *j, int64_t vector) {
    const phase *p = &j->phase[0];
    const int64_t taps = (int64_t)j->kernel[0] * j->kernel[1], bytes = j->src_channels * bytes_of(j);
    const bool whole = bytes == j->pitch;
    for (int64_t tap = 0; tap < (whole ? 1 : taps); tap++) {
        const char *row[QS__DIRECT_LANES];
        for (int i = 0; i < QS__DIRECT_LANES; i++) {
            const int64_t o = vector * QS__DIRECT_LANES + i;
            row[i] = o < j->channels ? j->weights + (o * taps + tap) * bytes : NULL;
        }
        j->kernels->turn(whole ? taps * bytes : bytes, row, packed_at(j, p, vector, tap * j->pitch / 4));
    }
}

/* Input gradient: rows of weights are the source's channels, of which a word has one of each. */
static void pack_word(const job *j, const phase *p, int64_t word) {
    const int64_t bytes = bytes_of(j), taps = (int64_t)j->kernel[0] * j->kernel[1];
    int64_t at = 0;
    for (int r = 0; r < p->runs; r++)
        for (int t = 0; t < p->taps; t++, at += j->pitch / 4) {
            const int64_t tap = (int64_t)p->tap[r] * j->kernel[1] + p->first + t * p->step;
            qs__taps_line line = {.pitch = j->channels,
                                  .elements = j->channels,
                                  .places = 1,
                                  .lanes = j->channels,
                                  .block = p->words * QS__DIRECT_BYTES,
                                  .dst = packed_at(j, p, 0, at + word)};
            for (int i = 0; i < j->side; i++) {
                const int64_t o = word * j->side + i;
                line.row[i] = o < j->src_channels ? j->weights + (o * taps + tap) * j->channels * bytes : NULL;
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
    const int64_t bytes = j->src_channels * bytes_of(j), room = j->framed[1] - j->before[1];
    const int64_t columns = least(j->src_size[1], room);
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
    const int64_t bytes = j->framed[1] * j->pitch, row_bytes = j->src_size[1] * j->src_channels * bytes_of(j);
    for (int64_t k = begin; k < end; k++) {
        const int64_t image = k / j->framed[0], row = k % j->framed[0] - j->before[0];
        char *dst = j->frame + k * bytes;
        if (row < 0 || row >= j->src_size[0])
            memset(dst, 0, (size_t)bytes);
        else
            copy_row(j, j->src + ((j->first_image + image) * j->src_size[0] + row) * row_bytes, dst);
    }
}

/* ---- Tiles ---- */

static int64_t places_of(const phase *p) {
    return p->count[0] * p->count[1];
}

static void fill_places(const job *j) {
    const phase *p = j->now;
    const int64_t step[2] = {j->gradient ? j->stride[0] : 1, j->gradient ? j->stride[1] : 1};
    const int64_t move[2] = {j->gradient ? 1 : j->stride[0], j->gradient ? 1 : j->stride[1]};
    for (int64_t r = 0; r < p->count[0]; r++)
        for (int64_t c = 0; c < p->count[1]; c++) {
            const int64_t row = p->begin[0] + r * step[0], column = p->begin[1] + c * step[1], place = r * p->count[1] + c;
            j->window[place] = (r * move[0] * j->framed[1] + c * move[1]) * j->pitch;
            j->written[place] = (row * j->size[1] + column) * j->channels * (int64_t)qs__type_bytes(j->result.type);
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
    const int64_t result_bytes = j->size[0] * j->size[1] * j->channels * (int64_t)qs__type_bytes(j->result.type);
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
    tile.channels = (int)least(j->channels - channel, tile.vectors * QS__DIRECT_LANES);
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
    for (j->first_image = 0; j->first_image < j->batch; j->first_image += j->images) {
        j->count = least(j->images, j->batch - j->first_image);
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
    size_t at = 0;
    const int64_t lanes = j->vectors * QS__DIRECT_LANES;
    const struct {
        void **piece;
        int64_t bytes;
    } pieces[] = {{(void **)&j->frame, j->images * image_bytes(j)},
                  {(void **)&j->packed, j->packed_bytes},
                  {(void **)&j->bias, lanes * (int64_t)sizeof(float)},
                  {(void **)&j->window, j->places * (int64_t)sizeof(int64_t)},
                  {(void **)&j->written, j->places * (int64_t)sizeof(int64_t)}};
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        if (base) *pieces[i].piece = base + at;
        at += (size_t)(pieces[i].bytes + 63) / 64 * 64;
    }
    return at;
}

static void fill_bias(const qs__chain *chain, job *j) {
    if (j->gradient || !qs__cpu_has(&chain->one, QS_BIAS)) {
        j->bias = NULL;
        return;
    }
    memset(j->bias, 0, (size_t)(j->vectors * QS__DIRECT_LANES) * sizeof *j->bias);
    memcpy(j->bias, qs__cpu_data(chain, QS_BIAS), (size_t)j->channels * sizeof *j->bias);
}

static qs_status run(const qs__chain *chain, const qs_run *step) {
    (void)step;
    const qs_case *one = &chain->one;
    job j = job_of(one);
    lay_out(&j, chain->scratch + chain->offset[0]);
    j.kernels = chain->cpu->direct;
    j.rows = chain->cpu->taps;
    j.src = qs__cpu_data(chain, j.gradient ? QS_DIFF_DST : QS_SRC);
    j.weights = qs__cpu_data(chain, QS_WEIGHTS);
    j.result.at = qs__cpu_data(chain, j.gradient ? QS_DIFF_SRC : QS_DST);
    j.result.type = qs__cpu_type(qs__cpu_format(one, j.gradient ? QS_DIFF_SRC : QS_DST));
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
    const qs__type result = qs__cpu_type(qs__cpu_format(one, gradient ? QS_DIFF_SRC : QS_DST));
    if (result != QS__FP32 && result != QS__BF16) return qs_fail(QS_UNSUPPORTED, "direct convolutions write fp32 or bf16");
    if (types.operands == QS__INT8) return qs_fail(QS_UNSUPPORTED, "direct convolutions are of fp32 or bf16");
    return QS_OK;
}

/* Measured on Zen 5 (qsync bench --tune) beside oneDNN's, which pack weights slowly: a result of few places waits for that. Words of few
 * channels are mostly empty. */
static bool is_behind(const job *j) {
    const bool strided = j->stride[0] > 1 || j->stride[1] > 1, single = j->kernel[0] * j->kernel[1] == 1;
    const int64_t places = j->batch * (j->gradient ? j->src_size[0] * j->src_size[1] : j->size[0] * j->size[1]);
    return j->src_channels < 16 || places > (single && !j->gradient ? 256 : strided && !single ? 1024 : 128);
}

qs_status qs__build_direct(qs__chain *chain) {
    const qs_case *one = &chain->one;
    const qs_attributes *with = &one->attributes;
    const bool gradient = !strcmp(one->pass->name, "input_gradient");
    if (!gradient && strcmp(one->pass->name, "forward")) return qs_fail(QS_UNSUPPORTED, "direct convolutions have no weight gradient");
    QS_TRY(check_formats(chain, gradient));
    if (!chain->cpu->direct || with->groups > 1 || with->kernel[0] > MOST_RUNS ||
        (gradient && with->stride[0] * with->stride[1] > MOST_PHASES))
        return qs_fail(QS_UNSUPPORTED, "direct convolutions need AVX-512, one group, and gradients a stride of 4 at most");
    job j = job_of(one);
    chain->behind = is_behind(&j);
    chain->offset[0] = qs__chain_reserve(chain, lay_out(&j, NULL));
    qs__chain_call(chain, run);
    snprintf(chain->name, sizeof chain->name, "own:direct:%s", chain->cpu->direct->name);
    return QS_OK;
}
