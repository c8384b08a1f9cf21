// SPDX-License-Identifier: Apache-2.0
/* Convolutions by our own tiles, direct ones of floats, Winograd's and weight gradients by taps, of codes as well: beside the scalar
 * reference for shapes that fill neither lanes nor words nor tiles, and for those that take several parts; bits for any threads; codes bit
 * for bit as by the other products of ours. */
// labels: short
#include "device_support.h"
#include "kit/processor.h"

typedef struct size {
    int batch, channels, height, width, outputs, kernel[2], stride, padding;
} size;

static const size sizes[] = {
    {5, 16, 9, 7, 8, {3, 3}, 1, 1},    {3, 3, 11, 10, 16, {3, 3}, 1, 1},  {2, 3, 17, 19, 20, {7, 7}, 2, 3}, {6, 24, 6, 5, 40, {3, 3}, 2, 1},
    {4, 64, 4, 4, 10, {1, 1}, 1, 0},   {7, 40, 5, 8, 33, {1, 1}, 2, 0},   {1, 17, 8, 8, 1, {5, 5}, 1, 2},   {9, 48, 3, 3, 12, {3, 3}, 1, 0},
    {2, 1, 9, 9, 3, {3, 2}, 1, 1},     {3, 128, 2, 2, 24, {3, 3}, 1, 1},  {2, 16, 7, 7, 16, {1, 3}, 3, 0},  {4, 5, 6, 6, 9, {2, 4}, 2, 2},
    {3, 16, 64, 60, 16, {3, 3}, 1, 1}, {1, 20, 130, 70, 8, {3, 3}, 1, 1}, {1, 4, 140, 90, 9, {5, 5}, 2, 2},
};
enum { SIZES = COUNT_OF(sizes) };

/* For Winograd's tiles: results in whole ones and not, more than are transformed at a time, weights by panels, every number of
 * vectors in one's rows. */
static const size tiled[] = {
    {2, 16, 8, 8, 16, {3, 3}, 1, 1}, {3, 32, 9, 7, 48, {3, 3}, 1, 1},    {5, 48, 6, 11, 32, {3, 3}, 1, 0},
    {1, 16, 5, 4, 80, {3, 3}, 1, 2}, {2, 64, 12, 13, 112, {3, 3}, 1, 1}, {9, 16, 34, 30, 64, {3, 3}, 1, 1},
    {7, 64, 1, 1, 32, {3, 3}, 1, 1}, {3, 16, 2, 3, 48, {3, 3}, 1, 1},
};
enum { TILED = COUNT_OF(tiled) };

static int out_of(int extent, int kernel, const size *s) {
    return (extent + 2 * s->padding - kernel) / s->stride + 1;
}

/* Passes, and the families of kernels that have them. */
enum { FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, PASSES };
static const qs_role results[PASSES] = {QS_DST, QS_DIFF_SRC, QS_DIFF_WEIGHTS};
static const struct {
    const char *name;
    int pass, sizes;
    const size *size;
} families[] = {
    {"direct", FORWARD, SIZES, sizes},   {"direct", INPUT_GRADIENT, SIZES, sizes},   {"weight_gradient", WEIGHT_GRADIENT, SIZES, sizes},
    {"winograd", FORWARD, TILED, tiled}, {"winograd", INPUT_GRADIENT, TILED, tiled}, {"winograd", WEIGHT_GRADIENT, TILED, tiled}};
enum { FAMILIES = COUNT_OF(families) };

/* Codes with a step for all, or with as many as there can be; shapes in four numbers. */
static int put_codes(const char *role, const char *format, const int shape[4], const char *steps, char *text) {
    int used = sprintf(text, " %s=%s[%d,%d,%d,%d]", role, format, shape[0], shape[1], shape[2], shape[3]);
    if (strstr(format, "int")) used += sprintf(text + used, " %s_step=fp32%s", role, steps);
    return used;
}

/* many: steps of each channel of the weights; in weight gradients channels whose steps differ by powers of two. result: of the other
 * passes, whose bias is there with bf16. */
static void make_case(const size *s, int pass, const char *format, bool many, const char *result, uint64_t seed, bound *out) {
    const int src[4] = {s->batch, s->channels, s->height, s->width}, weights[4] = {s->outputs, s->channels, s->kernel[0], s->kernel[1]};
    const int dst[4] = {s->batch, s->outputs, out_of(s->height, s->kernel[0], s), out_of(s->width, s->kernel[1], s)};
    char text[QS_CASE_TEXT], steps[2][40] = {"[1]", "[1]"}, *at = text;
    if (many && pass != WEIGHT_GRADIENT) snprintf(steps[0], sizeof steps[0], "[%d]", pass == FORWARD ? s->outputs : s->channels);
    if (many && pass == WEIGHT_GRADIENT) snprintf(steps[0], sizeof steps[0], "[1] src_group=int8[%d]", s->channels);
    if (many && pass == WEIGHT_GRADIENT) snprintf(steps[1], sizeof steps[1], "[1] diff_dst_group=int8[%d]", s->outputs);
    if (pass == FORWARD) {
        at += sprintf(at, "conv2d/forward");
        at += put_codes("src", format, src, "[1]", at);
        at += put_codes("weights", format, weights, steps[0], at);
        if (strcmp(result, "fp32")) at += sprintf(at, " bias=fp32[%d]", s->outputs);
        at += put_codes("dst", result, dst, "", at);
    } else if (pass == INPUT_GRADIENT) {
        at += sprintf(at, "conv2d/input_gradient");
        at += put_codes("weights", format, weights, steps[0], at);
        at += put_codes("diff_dst", format, dst, "[1]", at);
        at += put_codes("diff_src", result, src, "", at);
    } else {
        at += sprintf(at, "conv2d/weight_gradient");
        at += put_codes("src", format, src, steps[0], at);
        at += put_codes("diff_dst", format, dst, steps[1], at);
        at += put_codes("diff_weights", "fp32", weights, "", at);
    }
    sprintf(at, " kernel=%dx%d stride=%dx%d padding=%dx%d", s->kernel[0], s->kernel[1], s->stride, s->stride, s->padding, s->padding);
    bound_parse(out, text, seed);
}

static qs_device *open_family(const char *family, int threads) {
    qs_device *device = NULL;
    assert_ok(qs_device_open(&(qs_device_options){.backend = "cpu", .threads = threads, .isa = test_ceiling, .speed = 1, .family = family},
                             &device));
    return device;
}

/* Operands that our tiles must be there for: as the processor says, below the ceiling. Without a kernel library the device has no products
 * of bf16. */
typedef struct tiles_there {
    bool fp32, bf16, codes;
} tiles_there;

static bool under(const char *ceiling) {
    int lowest = 0, here = 0;
    while (strcmp(ceilings[lowest], ceiling))
        lowest++;
    while (strcmp(ceilings[here], test_ceiling))
        here++;
    return here <= lowest;
}

static tiles_there tiles_of(const qs_device *device) {
    const processor here = processor_here();
    qs_device_info info;
    qs_device_describe(device, &info);
    const bool library = strcmp(info.library, "own kernels") != 0;
    return (tiles_there){.fp32 = here.wide && under("avx512_core"),
                         .bf16 = here.bf16 && library && under("avx512_core_bf16"),
                         .codes = here.codes && under("avx512_core_vnni")};
}

static qs_tensor *result_of(bound *b) {
    for (int pass = 0; pass < PASSES; pass++)
        if (bound_tensor(b, results[pass])) return bound_tensor(b, results[pass]);
    return NULL;
}

/* Twice in the same scratch: nothing is left over. False where the device has no such kernel. */
static bool run_by(qs_device *device, const char *family, bound *from, bound *out) {
    bound_kernel kernel;
    const qs_tensor *result = NULL;
    bound_copy(out, &from->one, from);
    kernel_make(&kernel, device, out);
    result = result_of(out);
    const bool ours = strstr(kernel.fact.kernel, family) != NULL;
    for (int turn = 0; turn < 2; turn++) {
        memset(result->data, 0x55, tensor_bytes(result));
        assert_ok(kernel_run(&kernel, &out->run));
    }
    kernel_release(&kernel);
    return ours;
}

static void expect_bits(bound *got, bound *expected, const char *what) {
    const qs_tensor *a = result_of(got), *b = result_of(expected);
    char text[QS_CASE_TEXT];
    if (memcmp(a->data, b->data, tensor_bytes(a))) fail_msg("%s: %s: other bits", qs_case_text(&got->one, text), what);
}

/* Every size of every family in every format; what is found is for `look`. Returns how many by Winograd's tiles, *others of all others. */
static int every_size(void (*look)(const char *family, bound *from), int *others) {
    static const char *const formats[] = {"fp32", "bf16", "int8", "int4"};
    int by_tiles = 0;
    *others = 0;
    for (int i = 0; i < FAMILIES; i++) {
        const char *family = families[i].name;
        qs_device *device = open_family(family, 1);
        for (size_t f = 0; f < COUNT_OF(formats); f++)
            for (int s = 0; s < families[i].sizes; s++) {
                bound from, out;
                make_case(&families[i].size[s], families[i].pass, formats[f], s % 2, s % 3 ? "fp32" : "bf16", 90 + (uint64_t)s, &from);
                qs_kernel_fact fact;
                if (qs_device_fact(device, &from.one, &fact) == QS_OK) {
                    const bool ours = run_by(device, family, &from, &out);
                    bound_release(&out);
                    if (ours) look(family, &from);
                    *(families[i].size == tiled ? &by_tiles : others) += ours;
                }
                bound_release(&from);
            }
        qs_device_close(device);
    }
    return by_tiles;
}

static void against_reference(const char *family, bound *from) {
    bound got, expected;
    char text[QS_CASE_TEXT];
    qs_device *device = open_family(family, 1);
    assert_true(run_by(device, family, from, &got));
    bound_copy(&expected, &from->one, from);
    bound_run(&expected);
    compare_written(&got, &expected, family, qs_case_text(&from->one, text));
    bound_release(&got);
    bound_release(&expected);
    qs_device_close(device);
}

static void with_threads(const char *family, bound *from) {
    bound one, many;
    for (int threads = 2; threads <= 3; threads++) {
        qs_device *single = open_family(family, 1);
        assert_true(run_by(single, family, from, &one));
        qs_device_close(single);
        qs_device *device = open_family(family, threads);
        assert_true(run_by(device, family, from, &many));
        expect_bits(&many, &one, "more threads");
        bound_release(&one);
        bound_release(&many);
        qs_device_close(device);
    }
}

static void as_other_products(const char *family, bound *from) {
    bound got, expected;
    const qs_tensor *factor = bound_tensor(from, QS_SRC) ? bound_tensor(from, QS_SRC) : bound_tensor(from, QS_DIFF_DST);
    if (!strstr(factor->format->name, "int")) return;
    qs_device *device = open_family(family, 1), *other = open_family("integer", 1);
    assert_true(run_by(device, family, from, &got) && run_by(other, "integer", from, &expected));
    expect_bits(&got, &expected, "beside the other products of codes");
    bound_release(&got);
    bound_release(&expected);
    qs_device_close(device);
    qs_device_close(other);
}

/* Every size that the processor has tiles for: floats in all passes, by both ways; weight gradients of codes, in two formats. */
static void expect_all(void (*look)(const char *family, bound *from)) {
    int others;
    qs_device *device = open_family("direct", 1);
    const tiles_there there = tiles_of(device);
    qs_device_close(device);
    const int floats = PASSES * (there.fp32 + there.bf16), codes = 2 * there.codes, by_tiles = every_size(look, &others);
    if (others != (floats + codes) * SIZES || by_tiles != floats * TILED)
        fail_msg("%s: %d cases, expected %d; %d by Winograd's tiles, expected %d", test_ceiling, others, (floats + codes) * SIZES, by_tiles,
                 floats * TILED);
}

TEST(test_reference) {
    expect_all(against_reference);
}

TEST(test_threads) {
    expect_all(with_threads);
}

TEST(test_codes) {
    expect_all(as_other_products);
}

/* The largest codes: sums just within 32 bits, though 128 too many of each source code are far outside; sums beyond are left to others. */
TEST(test_headroom) {
    static const struct {
        int pixels;
        bool fits;
    } cases[] = {{133143, true}, {133145, false}};
    qs_device *device = open_family("weight_gradient", 1);
    const tiles_there there = tiles_of(device);
    for (int c = 0; c < 2; c++)
        for (int sign = -1; sign <= 1; sign += 2) {
            bound from, got, expected;
            make_case(
                &(size){.batch = 1, .channels = 2, .height = 1, .width = cases[c].pixels, .outputs = 2, .kernel = {1, 1}, .stride = 1},
                WEIGHT_GRADIENT, "int8", false, "fp32", 4, &from);
            memset(bound_tensor(&from, QS_SRC)->data, sign * 127, (size_t)(2 * cases[c].pixels));
            memset(bound_tensor(&from, QS_DIFF_DST)->data, 127, (size_t)(2 * cases[c].pixels));
            const bool ours = run_by(device, "weight_gradient", &from, &got);
            assert_int_equal(ours, there.codes && cases[c].fits);
            bound_copy(&expected, &from.one, &from);
            bound_run(&expected);
            compare_written(&got, &expected, ours ? "weight_gradient" : "others", "the largest codes");
            bound_release(&got);
            bound_release(&from);
            bound_release(&expected);
        }
    qs_device_close(device);
}

/* Root mean square of a family's errors in units of 2^-24 Σ|a·b|. */
static double error_of(const char *family, bound *from, bound *expected, const float *terms) {
    bound got;
    qs_device *device = open_family(family, 1);
    double total = 0;
    const qs_tensor *right = result_of(expected);
    const int64_t count = qs_shape_count(&right->shape);
    assert_true(run_by(device, family, from, &got));
    float *values = tensor_values(result_of(&got)), *exact = tensor_values(right);
    for (int64_t i = 0; i < count; i++)
        total += pow(((double)values[i] - (double)exact[i]) / (0x1p-24 * (double)terms[i]), 2);
    free(values);
    free(exact);
    bound_release(&got);
    qs_device_close(device);
    return sqrt(total / (double)count);
}

/* Winograd's tiles beside direct sums, inside an image: the points 2 and -1/2 have a third of the error of 2 and -2, which fail here. */
TEST(test_tile_errors) {
    qs_device *device = open_family("winograd", 1);
    const tiles_there there = tiles_of(device);
    qs_device_close(device);
    if (!there.fp32) skip();
    for (int pass = FORWARD; pass <= INPUT_GRADIENT; pass++) {
        bound from, expected;
        make_case(&(size){2, 64, 16, 16, 64, {3, 3}, 1, 1}, pass, "fp32", false, "fp32", 5, &from);
        bound_copy(&expected, &from.one, &from);
        bound_run(&expected);
        float *terms = absolute_terms(&expected, qs_case_position(&from.one, results[pass]));
        terms_of_tiles(&expected, qs_case_position(&from.one, results[pass]), terms);
        const double tiles = error_of("winograd", &from, &expected, terms), direct = error_of("direct", &from, &expected, terms);
        if (tiles > 4 * direct) fail_msg("errors %.2f by tiles, %.2f direct", tiles, direct);
        free(terms);
        bound_release(&from);
        bound_release(&expected);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tile_errors), cmocka_unit_test(test_reference), cmocka_unit_test(test_threads),
                                       cmocka_unit_test(test_codes), cmocka_unit_test(test_headroom)};
    if (!backend_exists("cpu")) return 77;
    return run_per_ceiling(tests, COUNT_OF(tests));
}
