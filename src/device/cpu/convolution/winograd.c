// SPDX-License-Identifier: Apache-2.0
/* Convolutions 3 × 3 of fp32 or bf16 with stride 1 and their gradients by Winograd's tiles (winograd.h). The input gradient is a
 * forward convolution of diff_dst with the weights turned around and input and output channels exchanged. Weights are transformed once a
 * run; tiles some at a time: the source's transform, 36 products of matrices, the results' transform. Weight gradients add up products of
 * the transforms of source and diff_dst over all tiles, in their order for any threads. Where there are few tiles and large weights all
 * tiles are transformed at once and weights in panels, each of some channels of the tiles of 4 × 4. */
#include "cpu/library/gemm.h"
#include "qsync/base.h"

#include <string.h>

enum {
    LANES = QS__WINOGRAD_LANES,
    POINTS = QS__WINOGRAD_POINTS,
    TAPS = QS__WINOGRAD_TAPS,
    TILE_BYTES = 3 << 18,    /* that transformed tiles take at a time, where that are not too few for the weights' sake */
    PANEL_BYTES = 8 << 20,   /* of transformed weights */
    MOST_WEIGHTS = 20 << 20, /* bytes, where panels would need the source's tiles again and again */
    MOST_SOURCE = 16 << 20,  /* bytes of all tiles of the source at once */
    FEWEST_TILES = 96,
    MOST_TILES = 384
};

/* What a pass reads and writes: the source's tiles of 6 × 6; weights, or tiles of 4 × 4 of gradients. */
static const struct {
    qs_role source, other, result;
} roles[] = {{QS_SRC, QS_WEIGHTS, QS_DST}, {QS_DIFF_DST, QS_WEIGHTS, QS_DIFF_SRC}, {QS_SRC, QS_DIFF_DST, QS_DIFF_WEIGHTS}};

typedef struct job {
    const qs__winograd *kernels;
    const qs__direct *turns;
    qs__pass pass;
    qs__geometry size;       /* source to tiles of 4 × 4, also in gradients */
    int64_t depth, channels; /* of the source; of the tiles of 4 × 4 */
    int64_t tiles[2];
    int64_t most;  /* tiles at a time, a multiple of QS__WINOGRAD_ROWS */
    int64_t panel; /* channels of one at most; 0: weights are too large */
    qs__in source, other;
    qs__out result;
    /* scratch */
    float *transformed;  /* weights: [point][vector][depth][16] */
    float *totals;       /* of weight gradients in the place of transformed: [point][panel][depth] */
    float *input, *sums; /* [point][most][depth], [point][most][panel]: results, or transforms of gradients */
    float *zeros, *bias; /* for pixels outside; of channels, NULL: none */
    /* of this moment */
    int64_t first, count;  /* tiles */
    int64_t channel, wide; /* the panel */
} job;

/* ---- Sizes ---- */

static int64_t tiles_of(const job *j) {
    return j->tiles[0] * j->tiles[1];
}

/* From one point to the next, in floats: a line of the cache more than what is there, as powers of two would all fall into the same few
 * lines of a cache. */
static int64_t point_of(int64_t floats) {
    return floats + LANES;
}

/* From one transformed tile to the next: so for these. */
static int64_t pitch_of(int64_t channels) {
    return channels < 128 ? channels : channels + LANES;
}

static int64_t source_point(const job *j) {
    return point_of(j->most * pitch_of(j->depth));
}

static int64_t sums_point(const job *j) {
    return point_of(j->most * pitch_of(j->panel));
}

static int64_t weights_point(const job *j) {
    return point_of(j->depth * j->panel);
}

static int64_t all_tiles(const job *j) {
    return j->size.batch * tiles_of(j);
}

static int64_t bytes_of_points(int64_t floats) {
    return POINTS * (int64_t)sizeof(float) * floats;
}

static int64_t tiles_at_a_time(const job *j) {
    const int64_t all = all_tiles(j), fitting = TILE_BYTES / bytes_of_points(j->depth + j->channels);
    const int64_t most = fitting < FEWEST_TILES ? FEWEST_TILES : fitting > MOST_TILES ? MOST_TILES : fitting;
    return most < all ? most : all;
}

static void set_parts(job *j) {
    const int64_t whole = bytes_of_points(j->depth * j->channels), vectors = PANEL_BYTES / bytes_of_points(j->depth * LANES);
    const bool at_once = bytes_of_points(all_tiles(j) * j->depth) <= MOST_SOURCE;
    j->panel = whole <= MOST_WEIGHTS ? j->channels : 0;
    j->most = tiles_at_a_time(j);
    if (whole > PANEL_BYTES && at_once && vectors) {
        j->panel = vectors * LANES;
        j->most = all_tiles(j);
    }
    j->most = (j->most + QS__WINOGRAD_ROWS - 1) / QS__WINOGRAD_ROWS * QS__WINOGRAD_ROWS;
}

static qs__type type_of(const qs_case *one, qs_role role) {
    return qs__cpu_type(qs__case_format(one, role));
}

static job job_of(const qs_case *one, qs__pass pass) {
    const qs__geometry forward = qs__case_geometry(one);
    job j = {.pass = pass,
             .size = pass == QS__INPUT_GRADIENT ? qs__geometry_turned(&forward) : forward,
             .source.type = type_of(one, roles[pass].source),
             .other.type = type_of(one, roles[pass].other),
             .result.type = type_of(one, roles[pass].result)};
    j.depth = j.size.channels;
    j.channels = j.size.outputs;
    j.tiles[0] = (j.size.out_height + QS__WINOGRAD_EDGE - 1) / QS__WINOGRAD_EDGE;
    j.tiles[1] = (j.size.out_width + QS__WINOGRAD_EDGE - 1) / QS__WINOGRAD_EDGE;
    set_parts(&j);
    return j;
}

/* ---- Weights ---- */

/* The points of one vector of transformed weights, [depth][16] each, have room for what they are made of until they are written. */
enum { ROWS_AT = 18, TURNED_AT = 27 };

static void widen(int64_t count, const uint16_t *src, float *dst) {
    for (int64_t i = 0; i < count; i++) {
        const uint32_t bits = (uint32_t)src[i] << 16;
        memcpy(dst + i, &bits, sizeof bits);
    }
}

/* Forward: lanes are rows of weights, so these change places with channels first. */
static void turn_vector(const job *j, int64_t vector, float *points) {
    for (int64_t tap = 0; tap < TAPS; tap++) {
        const char *row[LANES];
        for (int64_t i = 0; i < LANES; i++) {
            const int64_t at = ((j->channel + vector * LANES + i) * TAPS + tap) * j->depth;
            float *wide = points + (ROWS_AT + tap) * weights_point(j) + i * j->depth;
            if (j->other.type == QS__BF16) widen(j->depth, (const uint16_t *)j->other.at + at, wide);
            row[i] = (const char *)(j->other.type == QS__BF16 ? wide : (const float *)j->other.at + at);
        }
        j->turns->turn(j->depth * (int64_t)sizeof(float), row, (char *)(points + (TURNED_AT + tap) * weights_point(j)));
    }
}

static void transform_vectors(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const bool turned = j->pass == QS__FORWARD;
    const int64_t bytes = (int64_t)qs__type_bytes(j->other.type);
    for (int64_t v = begin; v < end; v++) {
        float *points = j->transformed + v * j->depth * LANES;
        const char *tap[TAPS];
        if (turned) turn_vector(j, v, points);
        for (int64_t t = 0; t < TAPS; t++)
            tap[t] = turned ? (const char *)(points + (TURNED_AT + t) * weights_point(j))
                            : (const char *)j->other.at + ((TAPS - 1 - t) * j->channels + j->channel + v * LANES) * bytes;
        j->kernels->weights[turned ? QS__FP32 : j->other.type](tap, turned ? LANES : TAPS * j->channels, j->depth, weights_point(j),
                                                               points);
    }
}

/* ---- Tiles ---- */

/* Row and column of a tile's first result, and its image. */
typedef struct place {
    int64_t image, begin[2];
} place;

static place place_of(const job *j, int64_t tile) {
    const int64_t in_image = tile % tiles_of(j);
    return (place){.image = tile / tiles_of(j),
                   .begin = {in_image / j->tiles[1] * QS__WINOGRAD_EDGE, in_image % j->tiles[1] * QS__WINOGRAD_EDGE}};
}

static void transform_sources(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    for (int64_t i = begin; i < end; i++) {
        const place at = place_of(j, j->first + i);
        const int64_t row = at.begin[0] - j->size.padding[0], column = at.begin[1] - j->size.padding[1];
        const int64_t bytes = j->depth * (int64_t)qs__type_bytes(j->source.type);
        const char *image = (const char *)j->source.at + at.image * j->size.height * j->size.width * bytes, *pixel[POINTS];
        for (int64_t y = 0; y < QS__WINOGRAD_SPAN; y++)
            for (int64_t x = 0; x < QS__WINOGRAD_SPAN; x++) {
                const bool inside = row + y >= 0 && row + y < j->size.height && column + x >= 0 && column + x < j->size.width;
                pixel[QS__WINOGRAD_SPAN * y + x] =
                    inside ? image + ((row + y) * j->size.width + column + x) * bytes : (const char *)j->zeros;
            }
        j->kernels->source[j->source.type](pixel, j->depth, source_point(j), j->input + i * pitch_of(j->depth));
    }
}

static void multiply_points(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    for (int64_t point = begin; point < end; point++) {
        const qs__winograd_product product = {.rows = (j->count + QS__WINOGRAD_ROWS - 1) / QS__WINOGRAD_ROWS * QS__WINOGRAD_ROWS,
                                              .depth = j->depth,
                                              .vectors = j->wide / LANES,
                                              .source_pitch = pitch_of(j->depth),
                                              .pitch = pitch_of(j->panel),
                                              .source = j->input + point * source_point(j),
                                              .weights = j->transformed + point * weights_point(j),
                                              .result = j->sums + point * sums_point(j)};
        j->kernels->multiply(&product);
    }
}

/* Where the panel's channels of the pixels of a tile of 4 × 4 begin, in bytes of an array; -1: outside its image. */
static void find_pixels(const job *j, int64_t tile, qs__type type, int64_t *at) {
    const place first = place_of(j, tile);
    const int64_t element = (int64_t)qs__type_bytes(type), step = j->channels * element;
    const int64_t image = first.image * j->size.out_height * j->size.out_width * step + j->channel * element;
    for (int64_t y = 0; y < QS__WINOGRAD_EDGE; y++)
        for (int64_t x = 0; x < QS__WINOGRAD_EDGE; x++) {
            const int64_t row = first.begin[0] + y, column = first.begin[1] + x;
            const bool inside = row < j->size.out_height && column < j->size.out_width;
            at[QS__WINOGRAD_EDGE * y + x] = inside ? image + (row * j->size.out_width + column) * step : -1;
        }
}

static void transform_results(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    for (int64_t i = begin; i < end; i++) {
        int64_t at[QS__WINOGRAD_RESULTS];
        char *result[QS__WINOGRAD_RESULTS];
        find_pixels(j, j->first + i, j->result.type, at);
        for (int k = 0; k < QS__WINOGRAD_RESULTS; k++)
            result[k] = at[k] < 0 ? NULL : (char *)j->result.at + at[k];
        j->kernels->result[j->result.type](j->sums + i * pitch_of(j->panel), j->wide, sums_point(j), j->bias ? j->bias + j->channel : NULL,
                                           result);
    }
}

/* ---- Weight gradients ---- */

static void transform_gradients(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    for (int64_t i = begin; i < end; i++) {
        int64_t at[QS__WINOGRAD_RESULTS];
        const char *pixel[QS__WINOGRAD_RESULTS];
        find_pixels(j, j->first + i, j->other.type, at);
        for (int k = 0; k < QS__WINOGRAD_RESULTS; k++)
            pixel[k] = at[k] < 0 ? (const char *)j->zeros : (const char *)j->other.at + at[k];
        j->kernels->gradient[j->other.type](pixel, j->wide, sums_point(j), j->sums + i * pitch_of(j->panel));
    }
}

static void accumulate_points(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    for (int64_t point = begin; point < end; point++) {
        float *totals = j->totals + point * weights_point(j);
        const qs__winograd_product product = {.rows = j->wide,
                                              .depth = j->count,
                                              .vectors = j->depth / LANES,
                                              .source_pitch = pitch_of(j->panel),
                                              .pitch = pitch_of(j->depth),
                                              .source = j->sums + point * sums_point(j),
                                              .weights = j->input + point * source_point(j),
                                              .result = totals};
        if (j->first == 0) memset(totals, 0, (size_t)(j->wide * j->depth) * sizeof(float));
        j->kernels->accumulate(&product);
    }
}

static void transform_totals(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    for (int64_t o = begin; o < end; o++) {
        float *tap[TAPS];
        for (int64_t t = 0; t < TAPS; t++)
            tap[t] = (float *)j->result.at + ((j->channel + o) * TAPS + t) * j->depth;
        j->kernels->taps(j->totals + o * j->depth, j->depth, weights_point(j), tap);
    }
}

/* ---- Building ---- */

static size_t lay_out(job *j, char *base) {
    qs__pieces pieces = {base, 0};
    const int64_t bytes = sizeof(float), pixel = j->depth > j->channels ? j->depth : j->channels;
    j->transformed = j->totals = qs__piece(&pieces, POINTS * weights_point(j) * bytes);
    j->input = qs__piece(&pieces, POINTS * source_point(j) * bytes);
    j->sums = qs__piece(&pieces, POINTS * sums_point(j) * bytes);
    j->zeros = qs__piece(&pieces, pixel * bytes);
    return pieces.used;
}

/* Of several panels each has all tiles, of which only the first transforms the source. */
static void run_tiles(job *j) {
    if (j->channel == 0) qs_parallel(j->count, 8, transform_sources, j);
    if (j->pass == QS__WEIGHT_GRADIENT) {
        qs_parallel(j->count, 8, transform_gradients, j);
        qs_parallel(POINTS, 1, accumulate_points, j);
    } else {
        qs_parallel(POINTS, 1, multiply_points, j);
        qs_parallel(j->count, 8, transform_results, j);
    }
}

static void run_panel(job *j) {
    const int64_t all = all_tiles(j);
    if (j->pass != QS__WEIGHT_GRADIENT) qs_parallel(j->wide / LANES, 1, transform_vectors, j);
    for (j->first = 0; j->first < all; j->first += j->most) {
        j->count = all - j->first < j->most ? all - j->first : j->most;
        run_tiles(j);
    }
    if (j->pass == QS__WEIGHT_GRADIENT) qs_parallel(j->wide, 8, transform_totals, j);
}

static qs_status run(const qs__chain *chain, const qs_run *step) {
    (void)step;
    const qs_case *one = &chain->one;
    job j = job_of(one, qs__case_pass(one));
    lay_out(&j, chain->scratch + chain->offset[0]);
    j.kernels = chain->cpu->winograd;
    j.turns = chain->cpu->direct;
    j.source.at = qs__cpu_data(chain, roles[j.pass].source);
    j.other.at = qs__cpu_data(chain, roles[j.pass].other);
    j.result.at = qs__cpu_data(chain, roles[j.pass].result);
    if (j.pass == QS__FORWARD && qs__case_has(one, QS_BIAS)) j.bias = qs__cpu_data(chain, QS_BIAS);
    memset(j.zeros, 0, (size_t)(j.depth > j.channels ? j.depth : j.channels) * sizeof(float));
    for (j.channel = 0; j.channel < j.channels; j.channel += j.panel) {
        j.wide = j.channels - j.channel < j.panel ? j.channels - j.channel : j.panel;
        run_panel(&j);
    }
    return QS_OK;
}

static qs_status check_formats(const qs__chain *chain, qs__pass pass) {
    const qs_case *one = &chain->one;
    QS_TRY(qs__cpu_multiplies(chain->cpu, qs__case_format(one, roles[pass].source)));
    if (type_of(one, roles[pass].source) > QS__BF16 || type_of(one, roles[pass].other) > QS__BF16 ||
        type_of(one, roles[pass].result) > (pass == QS__WEIGHT_GRADIENT ? QS__FP32 : QS__BF16))
        return qs_fail(QS_UNSUPPORTED, "Winograd's convolutions are of fp32 and bf16, their weight gradients are fp32");
    if (one->attributes.accumulator.adder)
        return qs_fail(QS_UNSUPPORTED, "Winograd's convolutions add in fp32, not in a narrow accumulator");
    return QS_OK;
}

static qs_status check_sizes(const qs_case *one, const job *j) {
    const qs_attributes *with = &one->attributes;
    for (int axis = 0; axis < 2; axis++)
        if (with->kernel[axis] != 3 || with->stride[axis] != 1 || with->dilation[axis] != 1 || with->padding[axis] > 2)
            return qs_fail(QS_UNSUPPORTED, "Winograd's convolutions are 3 x 3 with stride 1 and no dilation");
    if (with->groups > 1 || j->depth % LANES || j->channels % LANES || qs__case_has(one, QS_DIFF_BIAS))
        return qs_fail(QS_UNSUPPORTED, "Winograd's convolutions have one group, channels by sixteen, and no gradient of a bias");
    if (!j->panel)
        return qs_fail(QS_UNSUPPORTED, "Winograd's weights, four times as large, would take more than %d MiB", MOST_WEIGHTS >> 20);
    return QS_OK;
}

enum { FEWEST = 16, NARROWEST_BF16 = 64 };

/* A tile's products are a quarter of a direct convolution's: with fewer than half of its results inside, that is lost again; so it is where
 * few tiles share the transformed weights. Instructions of bf16 have half of the gain themselves, and of few channels the transforms take
 * the rest. Measured on Zen 5 (qsync bench --tune). */
static bool is_behind(const qs__chain *chain, const job *j) {
    const int64_t results = j->size.out_height * j->size.out_width, room = tiles_of(j) * QS__WINOGRAD_RESULTS;
    if (all_tiles(j) < FEWEST) return true;
    if (!chain->cpu->bf16 || j->source.type == QS__FP32) return 2 * results < room;
    return 4 * results < 3 * room || j->depth < NARROWEST_BF16 || j->channels < NARROWEST_BF16;
}

qs_status qs__build_winograd(qs__chain *chain) {
    const qs_case *one = &chain->one;
    const qs__pass pass = qs__case_pass(one);
    if (!chain->cpu->winograd) return qs_fail(QS_UNSUPPORTED, "Winograd's convolutions need AVX-512");
    QS_TRY(check_formats(chain, pass));
    job j = job_of(one, pass);
    QS_TRY(check_sizes(one, &j));
    chain->behind = is_behind(chain, &j);
    chain->offset[0] = qs__chain_reserve(chain, lay_out(&j, NULL));
    qs__chain_call(chain, run);
    snprintf(chain->name, sizeof chain->name, "own:winograd:%s", chain->cpu->winograd->name);
    return QS_OK;
}
