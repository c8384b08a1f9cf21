// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Block formats: names, scales by their definition, and arrays against the nearest of all elements times the scale, in double arithmetic.
 * */
#include "number_test.h"
#include "qsync/blocks.h"

static const qs_block_format *format_of(const char *name) {
    const qs_block_format *out = NULL;
    assert_ok(qs_block_format_find(name, &out));
    return out;
}

TEST(names) {
    static const char *const same[][2] = {{"mx(e4m3,32)", "mxfp8"},
                                          {"mx(e4m3fn,32,e8m0)", "mxfp8"},
                                          {"mx(e4m3,32,e8m0,floor)", "mxfp8"},
                                          {"mx(fp(2,1,0),32)", "mxfp4"},
                                          {"mx(int8,32)", "mxint8"},
                                          {"mx(fp(1,6,1),32)", "mxint8"},
                                          {"mx(e2m1,16,e4m3,tensor)", "nvfp4"},
                                          {"mx(e2m1,16,e4m3fn)", "mx(e2m1,16,e4m3)"},
                                          {"mx(e4m3,128,fp32)", "mx(e4m3,128,fp32)"},
                                          {"mx(fp(4,3,4),8,e8m0,up)", "mx(fp(4,3,4),8,e8m0,up)"}};
    static const char *const wrong[] = {"mx(e4m3)",
                                        "mx(e4m3,31)",
                                        "mx(e4m3,4)",
                                        "mx(e4m3,512)",
                                        "mx(bf16,32)",
                                        "mx(e4m3,32,int8)",
                                        "mx(uint4,32)",
                                        "mx(log4,32)",
                                        "mx(e4m3,32,e8m0,down)",
                                        "mx(e4m3,32,fp32,up)",
                                        "mx(e4m3,32,e8m0,up,1)",
                                        "mx(e4m3,32",
                                        "mx()",
                                        "mx(,32)",
                                        "mx(e4m3,32)x"};
    for (size_t i = 0; i < COUNT_OF(same); i++) {
        assert_string_equal(format_of(same[i][0])->name, same[i][1]);
        assert_ptr_equal(format_of(same[i][0]), format_of(same[i][1]));
    }
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        const qs_block_format *out = NULL;
        assert_refused(qs_block_format_find(wrong[i], &out), QS_USAGE, "block format");
        assert_null(out);
    }
    for (size_t i = 0; qs_block_format_name_at(i); i++) {
        assert_true(qs_block_format_claims(qs_block_format_name_at(i)));
        assert_string_equal(format_of(qs_block_format_name_at(i))->name, qs_block_format_name_at(i));
    }
    assert_true(qs_block_format_claims("mx(") && !qs_block_format_claims("bf16") && !qs_block_format_claims("e4m3fn"));
}

/* What the Microscaling text and NVIDIA's say of a value's bits and of largest elements. */
TEST(facts) {
    static const struct {
        const char *name;
        double most, bits;
        size_t bytes; /* of two rows of 48 */
        const char *container;
    } all[] = {{"mxfp8", 448, 8.25, 96 + 4, "bf16"},  {"mxfp8-e5m2", 57344, 8.25, 96 + 4, "bf16"},
               {"mxfp6", 7.5, 6.25, 72 + 4, "bf16"},  {"mxfp6-e3m2", 28, 6.25, 72 + 4, "bf16"},
               {"mxfp4", 6, 4.25, 48 + 4, "bf16"},    {"mxint8", 127.0 / 64, 8.25, 96 + 4, "bf16"},
               {"nvfp4", 6, 4.5, 48 + 6 + 4, "fp32"}, {"mx(e4m3,128,fp32)", 448, 8.25, 96 + 8, "fp32"}};
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        const qs_block_format *format = format_of(all[i].name);
        assert_true(format->element->max == all[i].most && format->bits == all[i].bits);
        assert_int_equal(qs_block_format_bytes(format, 2, 48), all[i].bytes);
        assert_string_equal(format->container->name, all[i].container);
    }
}

/* A magnitude of any binade, often a power of two or next to one. */
static float magnitude(uint64_t i) {
    const int exponent = (int)(qs_random_bits(1, i) % 250) - 125;
    const double mantissa = i % 4 == 0 ? 1 : i % 4 == 1 ? 2 - 0x1p-23 : i % 4 == 2 ? 1.75 : 1 + (double)qs_random_uniform(2, i);
    return (float)ldexp(mantissa, exponent);
}

TEST(powers_by_definition) {
    static const char *const elements[] = {"e4m3", "e5m2", "e2m1", "e3m2", "int8", "int4"};
    for (size_t e = 0; e < COUNT_OF(elements); e++) {
        char name[3][48];
        for (int r = 0; r < 3; r++)
            snprintf(name[r], sizeof name[r], "mx(%s,32,e8m0,%s)", elements[e], (const char *[]){"floor", "up", "nearest"}[r]);
        const qs_block_format *down = format_of(name[0]), *up = format_of(name[1]), *near = format_of(name[2]);
        const double most = down->element->max;
        for (uint64_t i = 0; i < 4096; i++) {
            const float m = magnitude(i);
            const double scale = (double)qs_block_scale(down, m, 1), up_scale = (double)qs_block_scale(up, m, 1);
            /* the largest lies in the binade of the element's largest, once scaled */
            assert_true(scale == 0x1p-127 || ilogb((double)m / scale) == ilogb(most));
            assert_true(up_scale == 0x1p-127 || ((double)m <= most * up_scale && (double)m > most * up_scale / 2));
            const double unit = ldexp(1, ilogb((double)m) - down->element->mantissa_bits), to = nearbyint((double)m / unit) * unit;
            assert_true(qs_block_scale(near, m, 1) == qs_block_scale(down, (float)to, 1));
        }
        assert_true(qs_block_scale(down, 0, 1) == 0x1p-127f && isnan(qs_block_scale(down, INFINITY, 1)) &&
                    isnan(qs_block_scale(down, NAN, 1)));
    }
}

TEST(float_scales) {
    const qs_block_format *exact = format_of("mx(e4m3,128,fp32)"), *small = format_of("mx(e2m1,16,e4m3)"), *two = format_of("nvfp4");
    assert_true(qs_block_scale(exact, 448, 1) == 1 && qs_block_scale(exact, 100, 1) == 100.0f / 448);
    assert_true(qs_block_scale(small, 6, 1) == 1 && qs_block_scale(small, 6.3f, 1) == 1 && qs_block_scale(small, 1e9f, 1) == 448);
    assert_true(qs_block_scale(small, 1e-9f, 1) == 0x1p-9f); /* the least scale there is */
    assert_true(qs_tensor_scale(exact, 5) == 1 && qs_tensor_scale(small, 5) == 1);
    assert_true(qs_tensor_scale(two, 6 * 448) == 1 && qs_tensor_scale(two, 0) == 1 && qs_tensor_scale(two, INFINITY) == 1);
    const float tensor = qs_tensor_scale(two, 100);
    assert_true(qs_block_scale(two, 100, tensor) == 448 * tensor);
}

/* ---- Arrays ---- */

enum { ROWS = 70, COLUMNS = 90, COUNT = ROWS * COLUMNS };

static double nearest_element(const qs_format *element, double x) {
    double best = 0, distance = INFINITY;
    uint32_t best_code = 0;
    for (uint32_t code = 0; code < 1u << (element->bits - 1); code++) {
        const double value = (double)qs_decode_value(element, code), away = fabs(fabs(x) - value);
        if (!isfinite(value) || away > distance || (away == distance && (best_code & 1) == 0)) continue;
        best = value, distance = away, best_code = code;
    }
    return copysign(best, x);
}

static void source_fill(float *src) {
    for (uint64_t i = 0; i < COUNT; i++)
        src[i] = ldexpf(qs_random_normal(5, i), (int)(qs_random_bits(6, i / 7) % 9) - 4);
    for (int i = 0; i < 40; i++)
        src[i * 3] = 0;
}

/* `down`: blocks go down the columns. */
static void against_definition(const char *name, bool down) {
    static float src[COUNT], dst[COUNT];
    const qs_block_format *format = format_of(name);
    source_fill(src);
    qs_block_rounding job = {.format = format, .tensor = qs_tensor_scale(format, qs_absmax_array(COUNT, src)), .src = src, .dst = dst};
    job.layout = down ? (qs_block_layout){.outer = 1, .length = ROWS, .inner = COLUMNS}
                      : (qs_block_layout){.outer = ROWS, .length = COLUMNS, .inner = 1};
    qs_block_round(&job, 0, qs_block_units(&job));
    const int64_t lines = down ? COLUMNS : ROWS, length = down ? ROWS : COLUMNS, step = down ? COLUMNS : 1;
    for (int64_t line = 0; line < lines; line++)
        for (int64_t first = 0; first < length; first += format->block) {
            const int64_t end = first + format->block < length ? first + format->block : length, from = down ? line : line * COLUMNS;
            float most = 0;
            for (int64_t i = first; i < end; i++)
                most = fmaxf(most, fabsf(src[from + i * step]));
            const float scale = qs_block_scale(format, most, job.tensor);
            for (int64_t i = first; i < end; i++) {
                const float x = src[from + i * step],
                            wanted = (float)(nearest_element(format->element, (double)(x / scale)) * (double)scale);
                if (dst[from + i * step] != wanted)
                    fail_msg("%s: %g became %g, nearest is %g at scale %g", name, (double)x, (double)dst[from + i * step], (double)wanted,
                             (double)scale);
            }
        }
}

static const char *const names_of[] = {"mxfp8",
                                       "mxfp8-e5m2",
                                       "mxfp6",
                                       "mxfp6-e3m2",
                                       "mxfp4",
                                       "mxint8",
                                       "nvfp4",
                                       "mx(int4,16,e8m0,nearest)",
                                       "mx(e4m3,64,fp32)",
                                       "mx(e4m3,32,e8m0,up)"};

TEST(arrays_by_definition) {
    for (size_t i = 0; i < COUNT_OF(names_of); i++) {
        against_definition(names_of[i], false);
        against_definition(names_of[i], true);
    }
}

/* The container holds every value, so bf16 results are the fp32 ones; bf16 sources, pieces and instruction sets change nothing. */
TEST(storage_pieces_and_instructions) {
    static float src[COUNT], wide[COUNT], again[COUNT];
    static uint16_t source[COUNT], narrow[COUNT];
    for (size_t n = 0; n < COUNT_OF(names_of) * 4; n++) {
        const qs_block_format *format = format_of(names_of[n / 4]);
        const bool down = n & 1;
        const qs_rounding rounding = n & 2 ? QS_STOCHASTIC : QS_NEAREST_EVEN;
        source_fill(src);
        qs_convert_from_fp32(qs_format_of("bf16"), QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, (qs_random_stream){0}, COUNT, src, source);
        qs_convert_to_fp32(qs_format_of("bf16"), COUNT, source, src);
        qs_block_rounding job = {.format = format,
                                 .rounding = rounding,
                                 .random = {9, 4},
                                 .tensor = qs_tensor_scale(format, qs_absmax_array(COUNT, src)),
                                 .src = src,
                                 .dst = wide};
        job.layout = down ? (qs_block_layout){.outer = 1, .length = ROWS, .inner = COLUMNS}
                          : (qs_block_layout){.outer = ROWS, .length = COLUMNS, .inner = 1};
        job.layout.sample = 7 * COLUMNS;
        job.layout.stride = 7 * COLUMNS + 2;
        qs_block_round(&job, 0, qs_block_units(&job));
        for (size_t isa = 0; isa < COUNT_OF(isa_names); isa++) {
            assert_ok(qs_number_isa_set(isa_names[isa]));
            job.src = source;
            job.bfloat[0] = true;
            job.dst = again;
            for (int64_t unit = 0; unit < qs_block_units(&job); unit++)
                qs_block_round(&job, unit, unit + 1);
            assert_memory_equal(again, wide, sizeof wide);
        }
        if (format->container != qs_format_of("bf16")) continue;
        job.dst = narrow;
        job.bfloat[1] = true;
        qs_block_round(&job, 0, qs_block_units(&job));
        qs_convert_to_fp32(qs_format_of("bf16"), COUNT, narrow, again);
        assert_memory_equal(again, wide, sizeof wide);
    }
}

/* The mean of many draws is the value, to 5 standard errors, where nothing saturates: scales are rounded up. */
TEST(stochastic_is_unbiased) {
    enum { DRAWS = 4096, BLOCK = 16 };
    static const char *const names[] = {"mx(e2m1,16,e8m0,up)", "mx(e4m3,16,e8m0,up)", "mx(int4,16,e8m0,up)", "mx(e2m1,16,fp32)"};
    for (size_t n = 0; n < COUNT_OF(names); n++) {
        const qs_block_format *format = format_of(names[n]);
        float src[BLOCK], dst[BLOCK];
        double sum[BLOCK] = {0}, squares[BLOCK] = {0};
        for (uint64_t i = 0; i < BLOCK; i++)
            src[i] = qs_random_normal(7, i);
        for (uint64_t draw = 0; draw < DRAWS; draw++) {
            const qs_block_rounding job = {.format = format,
                                           .rounding = QS_STOCHASTIC,
                                           .random = {11, draw * BLOCK},
                                           .tensor = 1,
                                           .layout = {.outer = 1, .length = BLOCK, .inner = 1},
                                           .src = src,
                                           .dst = dst};
            qs_block_round(&job, 0, 1);
            for (int i = 0; i < BLOCK; i++) {
                sum[i] += (double)dst[i] - (double)src[i];
                squares[i] += pow((double)dst[i] - (double)src[i], 2);
            }
        }
        for (int i = 0; i < BLOCK; i++)
            if (fabs(sum[i]) > 5 * sqrt(squares[i]) + 1e-12)
                fail_msg("%s: %g is off by %g in the mean", names[n], (double)src[i], sum[i] / DRAWS);
    }
}

TEST(nothing_is_nothing) {
    float untouched = 7;
    const qs_block_rounding job = {
        .format = format_of("mxfp4"), .tensor = 1, .layout = {.outer = 1, .inner = 1}, .src = &untouched, .dst = &untouched};
    qs_block_round(&job, 0, qs_block_units(&job));
    assert_true(untouched == 7);
}

/* One value that is no number takes its block with it, and no other. */
TEST(what_is_not_finite) {
    for (int at = 0; at < 2; at++) {
        float src[64], dst[64];
        for (int i = 0; i < 64; i++)
            src[i] = (float)i;
        src[40] = at ? NAN : -INFINITY;
        const qs_block_rounding job = {
            .format = format_of("mxfp4"), .tensor = 1, .layout = {.outer = 1, .length = 64, .inner = 1}, .src = src, .dst = dst};
        qs_block_round(&job, 0, 1);
        for (int i = 0; i < 64; i++)
            assert_true(i < 32 ? isfinite(dst[i]) : isnan(dst[i]));
    }
}

TEST_MAIN(names, facts, powers_by_definition, float_scales, arrays_by_definition, storage_pieces_and_instructions, stochastic_is_unbiased,
          what_is_not_finite, nothing_is_nothing)
