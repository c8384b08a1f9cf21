// SPDX-License-Identifier: Apache-2.0
/* qsync-bench formats: how fast arrays are rounded, packed, unpacked and quantized, beside a plain copy. Values spread evenly over the
 * binades of the format, from half its smallest to twice its largest: every block of them has normal, subnormal, vanishing and
 * overflowing elements, so no short way for kind data can flatter the figures. Integers: binades from half a step to twice the largest.
 * */
#include "bench.h"

#include "qsync/blocks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { COUNT = 1 << 24, MOST_ROUNDS = 64 };

static const char *const formats[] = {"fp16", "bf16", "e5m2", "e4m3fn", "fp(6,9,0)", "fp(4,3,4)", "fp(5,2,0)", "fp(3,2,0)"};
enum { FORMATS = sizeof formats / sizeof formats[0] };

typedef struct rounder {
    const qs_format *format;
    int rounds;
    float *source, *values;
    void *packed;
    json_t *groups[5]; /* rounding, packing, unpacking, quantizing, blocks: one object each */
    qs_block_rounding blocks;
    bool json;
} rounder;

static void copy_piece(void *context, int64_t begin, int64_t end) {
    const rounder *one = context;
    memcpy(one->values + begin, one->source + begin, (size_t)(end - begin) * sizeof(float));
}

/* One thread: its processor time, which other programs do not lengthen. More: time as it passes. */
static double time_now(void) {
    struct timespec now;
    clock_gettime(qs_threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* One piece a thread, so that copying is at its best. */
static double copy_time(rounder *one) {
    const double start = time_now();
    qs_parallel(COUNT, COUNT / qs_threads(), copy_piece, one);
    return time_now() - start;
}

static void source_fill(rounder *one) {
    const double least = one->format->kind == QS_KIND_INTEGER ? 1 : one->format->min_subnormal;
    const double low = log2(least) - 1, high = fmin(log2(one->format->max) + 1, 127.99);
    for (int64_t i = 0; i < COUNT; i++) {
        const float x = exp2f((float)(low + (high - low) * (double)qs_random_uniform(1, (uint64_t)i)));
        one->source[i] = qs_random_bits(2, (uint64_t)i) & 1 ? -x : x;
    }
}

/* The least of several times is what the operation takes when nothing else runs. */
static double best_of(const double *seconds, int count) {
    double best = INFINITY;
    for (int i = 0; i < count; i++)
        best = fmin(best, seconds[i]);
    return best;
}

typedef void (*operation)(rounder *one, qs_rounding rounding);

static void round_in_place(rounder *one, qs_rounding rounding) {
    qs_round_array(one->format, rounding, QS_OVERFLOW_DEFAULT, (qs_random_stream){3, 0}, COUNT, one->values, one->values);
}

static void round_and_pack(rounder *one, qs_rounding rounding) {
    qs_round_pack_array(one->format, rounding, QS_OVERFLOW_DEFAULT, (qs_random_stream){3, 0}, COUNT, one->values, one->values, one->packed);
}

static void unpack(rounder *one, qs_rounding rounding) {
    (void)rounding;
    qs_convert_to_fp32(one->format, COUNT, one->packed, one->values);
}

/* In one step, 1. */
static void quantize(rounder *one, qs_rounding rounding) {
    qs_quantize_array(one->format, rounding, (qs_random_stream){3, 0}, 1, COUNT, one->values, one->packed);
}

static void quantize_bf16(rounder *one, qs_rounding rounding) {
    qs_quantize_bf16_array(one->format, rounding, (qs_random_stream){3, 0}, 1, COUNT, one->packed, (int8_t *)one->values);
}

static void blocks_piece(void *context, int64_t begin, int64_t end) {
    qs_block_round(context, begin, end);
}

/* From fp32 to the format's container, blocks along rows of ROW values, or across as many rows. */
static void round_blocks(rounder *one, qs_rounding rounding) {
    one->blocks.rounding = rounding;
    one->blocks.src = one->source;
    one->blocks.dst = one->values;
    const int64_t units = qs_block_units(&one->blocks);
    qs_parallel(units, units / qs_threads() / 8 + 1, blocks_piece, &one->blocks);
}

/* `bytes` of an element are moved by the operation, 8 by the copy. */
static void operation_time(rounder *one, operation run, qs_rounding rounding, double bytes, const char *what, int group) {
    double copies[MOST_ROUNDS], runs[MOST_ROUNDS];
    for (int r = 0; r < one->rounds; r++) {
        copies[r] = copy_time(one);
        const double start = time_now();
        run(one, rounding);
        runs[r] = time_now() - start;
    }
    const double speed = bytes * COUNT / best_of(runs, one->rounds) / 1e9;
    const double copying = 8.0 * COUNT / best_of(copies, one->rounds) / 1e9;
    if (one->json)
        json_object_set_new(one->groups[group], what, json_pack("{s:f,s:f}", "gb_per_s", speed, "fraction", speed / copying));
    else
        printf("%-12s %-17s %8.2f GB/s %6.2f of a copy\n", one->format->name, what, speed, speed / copying);
    fflush(stdout);
}

static void format_run(rounder *one) {
    const double width = one->format->bits / 8.0;
    source_fill(one);
    for (int r = 0; r < QS_ROUNDING_COUNT; r++)
        operation_time(one, round_in_place, (qs_rounding)r, 8, qs_rounding_name((qs_rounding)r), 0);
    if (one->json) {
        operation_time(one, round_and_pack, QS_NEAREST_EVEN, 8 + width, one->format->name, 1);
        operation_time(one, unpack, QS_NEAREST_EVEN, 4 + width, one->format->name, 2);
    } else {
        operation_time(one, round_and_pack, QS_NEAREST_EVEN, 8 + width, "and packed", 1);
        operation_time(one, unpack, QS_NEAREST_EVEN, 4 + width, "unpacked", 2);
    }
}

/* As training does it: stochastically. */
static void integer_run(rounder *one) {
    one->format = qs_format_of("int8");
    source_fill(one);
    operation_time(one, quantize, QS_STOCHASTIC, 4 + 1, one->json ? "fp32" : "from fp32", 3);
    qs_convert_from_fp32(qs_format_of("bf16"), QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, (qs_random_stream){3, 0}, COUNT, one->source,
                         one->packed);
    operation_time(one, quantize_bf16, QS_STOCHASTIC, 2 + 1, one->json ? "bf16" : "from bf16", 3);
}

static qs_status blocks_run(rounder *one) {
    enum { ROW = 1 << 10 };
    one->format = qs_format_of("bf16");
    source_fill(one);
    for (size_t i = 0; qs_block_format_name_at(i); i++) {
        for (int across = 0; across < 2; across++) {
            const qs_block_format *format = NULL;
            char what[64];
            QS_TRY(qs_block_format_find(qs_block_format_name_at(i), &format));
            one->blocks = (qs_block_rounding){.format = format, .random = {3, 0}, .tensor = qs_tensor_scale(format, 1)};
            one->blocks.layout = across ? (qs_block_layout){.outer = 1, .length = COUNT / ROW, .inner = ROW}
                                        : (qs_block_layout){.outer = COUNT / ROW, .length = ROW, .inner = 1};
            one->blocks.bfloat[1] = format->container == qs_format_of("bf16");
            snprintf(what, sizeof what, "%s%s", format->name, across ? " across" : "");
            operation_time(one, round_blocks, QS_NEAREST_EVEN, one->blocks.bfloat[1] ? 6 : 8, what, 4);
        }
    }
    return QS_OK;
}

static qs_status formats_run(rounder *one) {
    json_t *rounding = json_object();
    for (int g = 1; g < 5; g++)
        one->groups[g] = json_object();
    double copies[MOST_ROUNDS];
    for (int r = 0; r < one->rounds; r++)
        copies[r] = copy_time(one);
    const double copying = 8.0 * COUNT / best_of(copies, one->rounds) / 1e9;
    if (!one->json) printf("copy of 64 MiB, %d threads, %s: %.2f GB/s\n", qs_threads(), qs_number_isa(), copying);
    for (int f = 0; f < FORMATS; f++) {
        one->format = qs_format_of(formats[f]);
        one->groups[0] = json_object();
        json_object_set_new(rounding, one->format->name, one->groups[0]);
        format_run(one);
    }
    integer_run(one);
    QS_TRY(blocks_run(one));
    json_t *all = json_pack("{s:i,s:i,s:s,s:f,s:o,s:o,s:o,s:o,s:o}", "bytes", (int)(COUNT * sizeof(float)), "threads", qs_threads(), "isa",
                            qs_number_isa(), "copy_gb_per_s", copying, "rounding", rounding, "packing", one->groups[1], "unpacking",
                            one->groups[2], "quantizing", one->groups[3], "blocks", one->groups[4]);
    if (one->json) return json_print(all);
    json_decref(all);
    return QS_OK;
}

static const option_row option_rows[] = {
    {OPTION_ROUNDS(bench_request, 12, "measurements of each, at most 64")},
    {OPTION_THREADS(bench_request)},
    {OPTION_ISA(bench_request)},
    {OPTION_JSON(bench_request)},
};

qs_status bench_formats(int argc, char **argv) {
    const verb_usage usage = {
        .verb = "formats",
        .arguments = "",
        .purpose = "64 MiB of fp32 values, again and again: rounding in place (per format and rounding), rounding in place with packing, "
                   "unpacking\n"
                   "(per format), and stochastic codes of int8 in one step, from those values and from as many of bf16; and\n"
                   "blocks that share scales, along rows and across them, from fp32 to the format that they are kept in. Gigabytes moved a "
                   "second at\n"
                   "best, and their fraction of what a copy of the same array moves at best. One thread is timed by its processor time.",
        .examples = "  qsync-bench formats --threads 2\n"};
    bench_request asked = {0};
    bool done = false;
    rounder one = {0};
    option_table table = {0};
    qs_status status = QS_OK;
    OPTIONS_ADD(&table, option_rows, &asked);
    QS_TRY(bench_options(&table, &usage, argc, argv, &done));
    if (done) return QS_OK;
    one.json = asked.json;
    one.rounds = asked.rounds < MOST_ROUNDS ? asked.rounds : MOST_ROUNDS;
    threads_pin(asked.threads);
    QS_TRY(qs_threads_set(asked.threads));
    QS_TRY(qs_number_isa_set(asked.isa));
    QS_GOTO(qs_allocate(COUNT, sizeof(float), &one.source));
    QS_GOTO(qs_allocate(COUNT, sizeof(float), &one.values));
    QS_GOTO(qs_allocate(COUNT, sizeof(float), &one.packed));
    memset(one.packed, 0, COUNT * sizeof(float));
    one.format = qs_format_of("fp32");
    source_fill(&one);
    QS_GOTO(formats_run(&one));
done:
    free(one.source), free(one.values), free(one.packed);
    return status;
}
