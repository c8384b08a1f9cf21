// SPDX-License-Identifier: Apache-2.0
/* Our own kernels for the positions of sequences: learned ones that are added, rotary ones, one or several that are taken, one that is put
 * in front.
 * Gradients of tables are sums over samples in their order, whatever the threads, which take pieces of a sample. */
#include "cpu/staging.h"
#include "qsync/attention.h"

#include <math.h>
#include <string.h>

enum { PIECE = 2048 }; /* elements that stay in the first cache while the samples go by */

typedef struct job {
    const qs__cpu_kernels *kernels;
    int64_t samples, sample; /* elements of a sample */
    qs__in src, table;
    qs__out dst;
    float *sums; /* of the table's gradient */
} job;

/* Of a sample: each lies where a sample of its length would. */
static int64_t sequences_of(const qs__chain *chain) {
    return chain->one.attributes.sequences > 0 ? (int64_t)chain->one.attributes.sequences : 1;
}

/* Of the first position at hand; 0 where the case does not say. */
static int32_t place_of(const qs__chain *chain) {
    const int32_t *place = qs__cpu_data(chain, QS_PLACE);
    return place ? *place : 0;
}

/* ---- positions ---- */

static void add_range(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    while (begin < end) {
        const int64_t at = begin % j->sample, left = j->sample - at, count = end - begin < left ? end - begin : left;
        j->kernels->add(count, qs__in_at(j->src, begin), qs__in_at(j->table, at), qs__out_at(j->dst, begin), NULL);
        begin += count;
    }
}

static void sum_range(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const size_t bytes = qs__type_bytes(j->dst.type);
    for (int64_t first = begin; first < end; first += PIECE) {
        const int64_t count = end - first < PIECE ? end - first : PIECE;
        float *sum = j->sums + first;
        memset(sum, 0, (size_t)count * sizeof *sum);
        for (int64_t n = 0; n < j->samples; n++) {
            const qs__in diff = qs__in_at(j->src, n * j->sample + first);
            memcpy(qs__out_at(j->dst, n * j->sample + first).at, diff.at, (size_t)count * bytes);
            j->kernels->add(count, (qs__in){QS__FP32, sum}, diff, (qs__out){QS__FP32, sum}, NULL);
        }
    }
}

static qs_status run_positions(const qs__chain *chain, const qs_run *run) {
    (void)run;
    const bool forward = qs_case_position(&chain->one, QS_DST) >= 0;
    const qs_shape *shape = &qs__case_operand(&chain->one, forward ? QS_SRC : QS_DIFF_DST)->shape;
    job j = {.kernels = chain->cpu->kernels,
             .samples = shape->dim[0] * sequences_of(chain),
             .sample = shape->dim[1] * shape->dim[2] / sequences_of(chain),
             .src = qs__staged_in(chain, forward ? QS_SRC : QS_DIFF_DST),
             .dst = qs__staged_out(chain, forward ? QS_DST : QS_DIFF_SRC)};
    const int64_t rows = qs__case_operand(&chain->one, forward ? QS_WEIGHTS : QS_DIFF_WEIGHTS)->shape.dim[0];
    const int first = chain->one.attributes.offset;
    const int64_t before = (first + place_of(chain)) * shape->dim[1]; /* elements of the table */
    QS_TRY(qs_place_check(&chain->one, place_of(chain), j.sample / shape->dim[1], rows - first));
    if (forward) {
        j.table = qs__in_at(qs__staged_in(chain, QS_WEIGHTS), before);
        qs_parallel(j.samples * j.sample, QS__GRAIN, add_range, &j);
        return QS_OK;
    }
    float *sums = qs__cpu_data(chain, QS_DIFF_WEIGHTS);
    j.sums = sums + before;
    memset(sums, 0, (size_t)before * sizeof *sums);
    memset(j.sums + j.sample, 0, (size_t)(rows * shape->dim[1] - before - j.sample) * sizeof *sums);
    qs_parallel(j.sample, PIECE, sum_range, &j);
    return QS_OK;
}

qs_status qs__build_positions(qs__chain *chain) {
    return qs__staged_build(chain, "positions", run_positions);
}

/* ---- rotary ---- */

typedef struct rotary {
    const qs__cpu_kernels *kernels;
    int64_t channels, positions, heads, half, place;
    double base, sign;
    float *cosine, *sine; /* [positions][half] */
    qs__in src;
    qs__out dst;
} rotary;

/* The first position at hand, and of each block, by the C library, the others by turning that one on, in double. */
static void angles_range(void *context, int64_t begin, int64_t end) {
    enum { BLOCK = 16 };
    const rotary *r = context;
    for (int64_t i = begin; i < end; i++) {
        const double angle = pow(r->base, -(double)i / (double)r->half), turn_x = cos(angle), turn_y = sin(angle);
        double x = 1, y = 0;
        for (int64_t l = 0; l < r->positions; l++) {
            const int64_t at = r->place + l;
            if (l == 0 || at % BLOCK == 0) x = cos((double)at * angle), y = sin((double)at * angle);
            r->cosine[l * r->half + i] = (float)x;
            r->sine[l * r->half + i] = (float)(r->sign * y);
            const double next = x * turn_x - y * turn_y;
            y = x * turn_y + y * turn_x;
            x = next;
        }
    }
}

static void rotate_range(void *context, int64_t begin, int64_t end) {
    const rotary *r = context;
    for (int64_t row = begin; row < end; row++) {
        const int64_t at = row % r->positions * r->half;
        r->kernels->rotate(r->heads, r->half, r->cosine + at, r->sine + at, qs__in_at(r->src, row * r->channels),
                           qs__out_at(r->dst, row * r->channels));
    }
}

static qs_status run_rotary(const qs__chain *chain, const qs_run *run) {
    (void)run;
    const qs_case *one = &chain->one;
    const bool forward = qs_case_position(one, QS_DST) >= 0;
    const qs_shape *shape = &qs__case_operand(one, forward ? QS_SRC : QS_DIFF_DST)->shape;
    rotary r = {.kernels = chain->cpu->kernels,
                .channels = shape->dim[1],
                .positions = shape->dim[2],
                .heads = (int64_t)one->attributes.heads,
                .place = place_of(chain),
                .base = one->attributes.base,
                .sign = forward ? 1 : -1,
                .cosine = (float *)(chain->scratch + chain->offset[0]),
                .sine = (float *)(chain->scratch + chain->offset[1]),
                .src = qs__staged_in(chain, forward ? QS_SRC : QS_DIFF_DST),
                .dst = qs__staged_out(chain, forward ? QS_DST : QS_DIFF_SRC)};
    r.half = r.channels / r.heads / 2;
    qs_parallel(r.half, 1 + QS__GRAIN / 16 / r.positions, angles_range, &r);
    qs_parallel(shape->dim[0] * r.positions, 1 + QS__GRAIN / r.channels, rotate_range, &r);
    return QS_OK;
}

qs_status qs__build_rotary(qs__chain *chain) {
    const qs_case *one = &chain->one;
    const qs_shape *shape = &one->operand[0].shape;
    const size_t angles = (size_t)(shape->dim[1] / (int64_t)one->attributes.heads / 2 * shape->dim[2]);
    chain->offset[0] = qs__chain_reserve(chain, angles * sizeof(float));
    chain->offset[1] = qs__chain_reserve(chain, angles * sizeof(float));
    return qs__staged_build(chain, "rotary", run_rotary);
}

/* ---- gather: backward, threads take samples, whose positions get their sums in order ---- */

typedef struct gathering {
    const qs__cpu_kernels *kernels;
    const int32_t *ids;
    int64_t channels, positions, taken; /* of a sample: of src, and of dst */
    const char *from;
    char *to;
    size_t row; /* bytes of a position */
    qs__in diff;
    qs__out dst;
    float *sums; /* [samples][positions][channels] */
} gathering;

static void gather_range(void *context, int64_t begin, int64_t end) {
    const gathering *g = context;
    for (int64_t i = begin; i < end; i++)
        memcpy(g->to + (size_t)i * g->row, g->from + (size_t)(i / g->taken * g->positions + g->ids[i]) * g->row, g->row);
}

static void scatter_range(void *context, int64_t begin, int64_t end) {
    const gathering *g = context;
    const int64_t sample = g->positions * g->channels;
    for (int64_t n = begin; n < end; n++) {
        float *sums = g->sums + n * sample;
        memset(sums, 0, (size_t)sample * sizeof *sums);
        for (int64_t i = n * g->taken; i < (n + 1) * g->taken; i++) {
            float *sum = sums + g->ids[i] * g->channels;
            g->kernels->add(g->channels, (qs__in){QS__FP32, sum}, qs__in_at(g->diff, i * g->channels), (qs__out){QS__FP32, sum}, NULL);
        }
        for (int64_t i = 0; i < sample; i += PIECE) {
            const int64_t count = sample - i < PIECE ? sample - i : PIECE;
            qs_convert_from_fp32(qs_format_of(g->dst.type == QS__BF16 ? "bf16" : "fp32"), QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT,
                                 (qs_random_stream){0}, count, sums + i, qs__out_at(g->dst, n * sample + i).at);
        }
    }
}

static qs_status run_gather(const qs__chain *chain, const qs_run *run) {
    (void)run;
    const qs_case *one = &chain->one;
    const bool forward = qs_case_position(one, QS_SRC) >= 0;
    const qs_shape *whole = &qs__case_operand(one, forward ? QS_SRC : QS_DIFF_SRC)->shape;
    gathering g = {.kernels = chain->cpu->kernels,
                   .ids = qs__cpu_data(chain, QS_IDS),
                   .channels = whole->dim[1],
                   .positions = whole->dim[2],
                   .taken = qs__case_operand(one, QS_IDS)->shape.dim[1]};
    QS_TRY(qs_ids_check(one, g.ids));
    if (forward) {
        g.from = qs__cpu_data(chain, QS_SRC), g.to = qs__cpu_data(chain, QS_DST);
        g.row = (size_t)g.channels * (size_t)qs__case_format(one, QS_SRC)->bits / 8;
        qs_parallel(whole->dim[0] * g.taken, 1 + QS__GRAIN / g.channels, gather_range, &g);
        return QS_OK;
    }
    g.sums = (float *)(chain->scratch + chain->offset[0]);
    g.diff = qs__staged_in(chain, QS_DIFF_DST), g.dst = qs__staged_out(chain, QS_DIFF_SRC);
    qs_parallel(whole->dim[0], 1 + QS__GRAIN / (g.channels * g.positions), scatter_range, &g);
    return QS_OK;
}

/* ---- position, class_token: codes are moved as they are, whatever their format ---- */

typedef struct moving {
    char *whole, *part, *token; /* whole: with the position that is taken or put in front */
    size_t row, whole_sample;   /* bytes of a position, and of a sample of the whole */
    size_t before;              /* bytes in front of that position */
    bool taking;
} moving;

static void position_range(void *context, int64_t begin, int64_t end) {
    const moving *m = context;
    for (int64_t n = begin; n < end; n++) {
        char *sample = m->whole + (size_t)n * m->whole_sample, *one = m->part + (size_t)n * m->row;
        if (m->taking) {
            memcpy(one, sample + m->before, m->row);
            continue;
        }
        memset(sample, 0, m->whole_sample);
        memcpy(sample + m->before, one, m->row);
    }
}

static moving moving_of(const qs__chain *chain, qs_role whole, qs_role part) {
    const qs_shape *shape = &qs__case_operand(&chain->one, whole)->shape;
    const size_t bytes = (size_t)qs__case_format(&chain->one, whole)->bits / 8;
    return (moving){.whole = qs__cpu_data(chain, whole),
                    .part = qs__cpu_data(chain, part),
                    .row = (size_t)shape->dim[1] * bytes,
                    .whole_sample = (size_t)(shape->dim[1] * shape->dim[2]) * bytes};
}

static qs_status run_position(const qs__chain *chain, const qs_run *run) {
    (void)run;
    const bool forward = qs_case_position(&chain->one, QS_SRC) >= 0;
    const qs_role whole = forward ? QS_SRC : QS_DIFF_SRC;
    const qs_shape *shape = &qs__case_operand(&chain->one, whole)->shape;
    const double wanted = chain->one.attributes.position;
    moving m = moving_of(chain, whole, forward ? QS_DST : QS_DIFF_DST);
    const int64_t sequences = sequences_of(chain);
    m.whole_sample /= (size_t)sequences;
    m.before = (size_t)((int64_t)wanted + (wanted < 0 ? shape->dim[2] / sequences : 0)) * m.row;
    m.taking = forward;
    qs_parallel(shape->dim[0] * sequences, 1 + QS__GRAIN / (int64_t)m.whole_sample, position_range, &m);
    return QS_OK;
}

static void front_range(void *context, int64_t begin, int64_t end) {
    const moving *m = context;
    const size_t rest = m->whole_sample - m->row;
    for (int64_t n = begin; n < end; n++) {
        char *sample = m->whole + (size_t)n * m->whole_sample, *part = m->part + (size_t)n * rest;
        if (m->taking) {
            memcpy(part, sample + m->row, rest);
            continue;
        }
        memcpy(sample, m->token, m->row);
        memcpy(sample + m->row, part, rest);
    }
}

/* Σ of the first rows of the samples, in fp32. */
static void token_sum(const qs__chain *chain, const moving *m, int64_t samples) {
    const qs_format *format = qs__case_format(&chain->one, QS_DIFF_DST);
    float *sum = qs__cpu_data(chain, QS_DIFF_WEIGHTS), values[256];
    const int64_t channels = qs__case_count(&chain->one, QS_DIFF_WEIGHTS), bytes = format->bits / 8;
    memset(sum, 0, (size_t)channels * sizeof *sum);
    for (int64_t n = 0; n < samples; n++)
        for (int64_t first = 0; first < channels; first += 256) {
            const int64_t count = channels - first < 256 ? channels - first : 256;
            qs_convert_to_fp32(format, count, m->whole + (size_t)n * m->whole_sample + first * bytes, values);
            for (int64_t c = 0; c < count; c++)
                sum[first + c] += values[c];
        }
}

static qs_status run_class_token(const qs__chain *chain, const qs_run *run) {
    (void)run;
    const qs_case *one = &chain->one;
    const bool forward = qs_case_position(one, QS_SRC) >= 0;
    const qs_role whole = forward ? QS_DST : QS_DIFF_DST;
    const int64_t samples = qs__case_operand(one, whole)->shape.dim[0];
    moving m = moving_of(chain, whole, forward ? QS_SRC : QS_DIFF_SRC);
    m.taking = !forward;
    if (forward) { /* the token in the format of dst */
        const int64_t channels = qs__case_count(one, QS_WEIGHTS);
        float *wide = (float *)(chain->scratch + chain->offset[0]);
        m.token = chain->scratch + chain->offset[1];
        qs_convert_to_fp32(qs__case_format(one, QS_WEIGHTS), channels, qs__cpu_data(chain, QS_WEIGHTS), wide);
        qs_convert_from_fp32(qs__case_format(one, whole), QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, (qs_random_stream){0}, channels, wide,
                             m.token);
    } else {
        token_sum(chain, &m, samples);
    }
    qs_parallel(samples, 1 + QS__GRAIN / (int64_t)m.whole_sample, front_range, &m);
    return QS_OK;
}

/* No instruction set in the name: the kernels are the same at every ceiling. */
static qs_status moving_build(qs__chain *chain, qs__call call) {
    const int bits = chain->one.operand[0].format->bits;
    if (bits % 8) return qs_fail(QS_UNSUPPORTED, "values of %d bits are not moved one by one", bits);
    qs__chain_call(chain, call);
    snprintf(chain->name, sizeof chain->name, "own:%s", chain->one.op->name);
    return QS_OK;
}

qs_status qs__build_position(qs__chain *chain) {
    return moving_build(chain, run_position);
}

qs_status qs__build_gather(qs__chain *chain) {
    if (qs_case_position(&chain->one, QS_SRC) >= 0) return moving_build(chain, run_gather);
    chain->offset[0] = qs__chain_reserve(chain, (size_t)qs__case_count(&chain->one, QS_DIFF_SRC) * sizeof(float));
    return qs__staged_build(chain, "gather", run_gather);
}

qs_status qs__build_class_token(qs__chain *chain) {
    if (qs_case_position(&chain->one, QS_SRC) >= 0) {
        const size_t bytes = (size_t)qs__case_count(&chain->one, QS_WEIGHTS) * sizeof(float);
        chain->offset[0] = qs__chain_reserve(chain, bytes);
        chain->offset[1] = qs__chain_reserve(chain, bytes);
    }
    return moving_build(chain, run_class_token);
}
