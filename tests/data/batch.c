// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Batches: normalisation, padding, crops and flips, and that an image's augmentation depends on nothing but seed, epoch and index. */
#include "kit/kit.h"

#include <float.h>

#include "qsync/data.h"

enum { count = 40, side = 8, channels = 3, values = side * side * channels };

static uint8_t images[count * values];
static int32_t labels[count];
static qs_dataset set;

/* No byte normalises to zero (no mean is a multiple of 1/255), so that zeros mark padding. */
static int setup(void **state) {
    (void)state;
    const qs_data_description is = {.name = "test",
                                    .samples = {.unit = "images",
                                                .inputs = 1,
                                                .input = {qs_input_image(side, side, channels)},
                                                .target = {.kind = QS_TARGET_CLASS, .classes = 1000, .extent = 1}},
                                    .mean = {0.501f, 0.2501f, 0.401f},
                                    .deviation = {0.25f, 0.5f, 0.3f},
                                    .flips = true};
    for (int i = 0; i < count * values; i++)
        images[i] = (uint8_t)(qs_random_bits(1, (uint64_t)i) >> 24);
    for (int i = 0; i < count; i++)
        labels[i] = (i * 37) % 1000; /* more than a byte holds */
    if (qs_dataset_of_arrays(&is, count, (const void *const[]){images}, NULL, labels, &set) != QS_OK) return -1;
    return qs_threads_set(1);
}

static int teardown(void **state) {
    (void)state;
    qs_dataset_release(&set);
    return 0;
}

static void fill(const qs_dataset *from, const qs_augmentation *augmentation, const int64_t *indices, int64_t samples, int height,
                 int width, float *out, int32_t *out_labels) {
    const qs_batch batch = {.input = {out}, .extent = {{height, width}}, .target = out_labels};
    assert_ok(qs_batch_fill(from, augmentation, indices, samples, &batch));
}

static float expected(int64_t index, int row, int column, int channel) {
    int byte = images[index * values + (row * side + column) * channels + channel];
    return ((float)byte / 255.0f - set.description.mean[channel]) / set.description.deviation[channel];
}

TEST(normalises) {
    const int64_t indices[] = {3, 0, 39};
    float out[3 * values];
    int32_t out_labels[3];
    fill(&set, NULL, indices, 3, side, side, out, out_labels);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(out_labels[i], labels[indices[i]]);
        for (int j = 0; j < values; j++) {
            float want = expected(indices[i], j / channels / side, j / channels % side, j % channels);
            /* Three roundings, of a quotient, a difference and a quotient. */
            assert_true(fabsf(out[i * values + j] - want) <= 3 * FLT_EPSILON * fabsf(want));
        }
    }
}

TEST(smaller_images_are_centred) {
    enum { frame = side + 4 };
    const int64_t index = 5;
    float out[frame * frame * channels];
    int32_t label;
    fill(&set, NULL, &index, 1, frame, frame, out, &label);
    for (int i = 0; i < frame * frame * channels; i++) {
        int row = i / channels / frame - 2, column = i / channels % frame - 2;
        bool inside = row >= 0 && row < side && column >= 0 && column < side;
        if (inside) {
            assert_true(out[i] != 0.0f);
        } else {
            assert_true(out[i] == 0.0f);
        }
    }
}

/* The placement (shift and mirror) that turns image `index` into `out`; fails when there is none within ±pad. */
static void find_placement(const float *out, int64_t index, int pad, int *down, int *right, bool *mirrored) {
    for (int code = 0; code < 2 * (2 * pad + 1) * (2 * pad + 1); code++) {
        *mirrored = code % 2;
        *down = code / 2 % (2 * pad + 1) - pad;
        *right = code / 2 / (2 * pad + 1) - pad;
        bool same = true;
        for (int i = 0; i < values && same; i++) {
            int row = i / channels / side - *down, column = i / channels % side - *right;
            bool inside = row >= 0 && row < side && column >= 0 && column < side;
            float want = inside ? expected(index, row, *mirrored ? side - 1 - column : column, i % channels) : 0.0f;
            same = fabsf(out[i] - want) <= 3 * FLT_EPSILON * fabsf(want);
        }
        if (same) return;
    }
    fail_msg("image %lld is no crop of its padded self", (long long)index);
}

TEST(crops_and_flips) {
    enum { epochs = 40, pad = 3, choices = 2 * pad + 1 };
    int shifts[2][choices] = {{0}}, flips = 0;
    int64_t indices[count];
    float *out = malloc(sizeof *out * count * values);
    int32_t out_labels[count];
    for (int i = 0; i < count; i++)
        indices[i] = i;
    for (int epoch = 0; epoch < epochs; epoch++) {
        qs_augmentation augmentation = {.enabled = true, .pad = pad, .seed = 9, .epoch = epoch};
        fill(&set, &augmentation, indices, count, side, side, out, out_labels);
        for (int i = 0; i < count; i++) {
            int down, right;
            bool mirrored;
            find_placement(out + i * values, i, pad, &down, &right, &mirrored);
            shifts[0][down + pad]++;
            shifts[1][right + pad]++;
            flips += mirrored;
        }
    }
    /* 1600 draws: five deviations of the binomial around each expectation. */
    double draws = epochs * count, each = draws / choices;
    assert_true(fabs(flips - draws / 2) < 5 * sqrt(draws / 4));
    for (int i = 0; i < 2 * choices; i++)
        assert_true(fabs(shifts[i / choices][i % choices] - each) < 5 * sqrt(each * (1 - 1.0 / choices)));
    free(out);
}

TEST(flips_only_where_allowed) {
    qs_dataset signs = set;
    signs.description.flips = false;
    float out[values];
    int32_t label;
    for (int64_t index = 0; index < count; index++) {
        qs_augmentation augmentation = {.enabled = true, .pad = 1, .seed = 9};
        int down, right;
        bool mirrored;
        fill(&signs, &augmentation, &index, 1, side, side, out, &label);
        find_placement(out, index, 1, &down, &right, &mirrored);
        assert_false(mirrored);
    }
}

/* An image comes out the same alone, in any batch, at any place and with any thread count. */
TEST(independent_of_the_batch) {
    qs_augmentation augmentation = {.enabled = true, .pad = 2, .seed = 4, .epoch = 11};
    int64_t indices[count];
    float *whole = malloc(sizeof *whole * count * values), *threaded = malloc(sizeof *whole * count * values), alone[values];
    int32_t out_labels[count];
    for (int i = 0; i < count; i++)
        indices[i] = (i * 7) % count;
    fill(&set, &augmentation, indices, count, side, side, whole, out_labels);
    assert_ok(qs_threads_set(3));
    fill(&set, &augmentation, indices, count, side, side, threaded, out_labels);
    assert_ok(qs_threads_set(1));
    assert_memory_equal(whole, threaded, sizeof *whole * count * values);
    for (int i = 0; i < count; i++) {
        fill(&set, &augmentation, &indices[i], 1, side, side, alone, out_labels);
        assert_memory_equal(alone, whole + i * values, sizeof alone);
    }
    augmentation.epoch++;
    fill(&set, &augmentation, indices, count, side, side, threaded, out_labels);
    assert_memory_not_equal(whole, threaded, sizeof *whole * count * values);
    augmentation.enabled = false;
    fill(&set, &augmentation, indices, count, side, side, threaded, out_labels);
    fill(&set, NULL, indices, count, side, side, whole, out_labels);
    assert_memory_equal(whole, threaded, sizeof *whole * count * values);
    free(whole);
    free(threaded);
}

/* Padding beyond the image's own size may show nothing of it, and must write nothing outside the frame. */
TEST(huge_padding_stays_in_bounds) {
    for (int64_t index = 0; index < count; index++) {
        qs_augmentation augmentation = {.enabled = true, .pad = 3 * side, .seed = 2};
        float out[values + 2];
        int32_t label;
        out[0] = out[values + 1] = 77.0f;
        fill(&set, &augmentation, &index, 1, side, side, out + 1, &label);
        assert_true(out[0] == 77.0f && out[values + 1] == 77.0f);
    }
}

TEST(one_channel) {
    qs_dataset grey = set;
    grey.description.samples.input[0].extent[2] = 1;
    const int64_t index = 4;
    float out[side * side];
    int32_t label;
    fill(&grey, NULL, &index, 1, side, side, out, &label);
    for (int i = 0; i < side * side; i++) {
        float want = ((float)images[index * side * side + i] / 255.0f - set.description.mean[0]) / set.description.deviation[0];
        assert_true(fabsf(out[i] - want) <= 3 * FLT_EPSILON * fabsf(want));
    }
}

static qs_status fit(int64_t model_channels, int64_t height, int64_t width, int64_t classes) {
    const qs_samples model = {.inputs = 1,
                              .input = {qs_input_image(height, width, model_channels)},
                              .target = {.kind = QS_TARGET_CLASS, .classes = classes, .extent = 1}};
    return qs_samples_fit(set.description.name, &set.description.samples, &model);
}

TEST(fit_names_the_figure) {
    assert_ok(fit(channels, side, side, 1000));
    assert_ok(fit(channels, side + 4, side, 2000));
    assert_refused(fit(1, side, side, 1000), QS_MISMATCH, "1 channels");
    assert_refused(fit(channels, side - 1, side, 1000), QS_MISMATCH, "7x8");
    assert_refused(fit(channels, side, side, 999), QS_MISMATCH, "999 classes");
}

TEST_MAIN_WITH(setup, teardown, normalises, smaller_images_are_centred, crops_and_flips, flips_only_where_allowed, independent_of_the_batch,
               huge_padding_stays_in_bounds, one_channel, fit_names_the_figure)
