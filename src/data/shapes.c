// SPDX-License-Identifier: Apache-2.0
/* `shapes`: a generated set, always there. Ten figures of strokes, each drawn once at random place, size, slant and stroke width, lighter
 * or darker than a shaded background, between distracting strokes and under noise. Because neither place nor polarity tells the class,
 * a linear classifier of pixels fails where a small convolutional network succeeds.
 *
 * Every image is a function of (part, index) alone: counter-based draws, and only + - * / and square roots, which IEEE 754 fixes to the
 * bit. So the set is the same on every machine, and its first images are the same whatever their count. */
#include "source.h"

#include <math.h>
#include <string.h>

enum {
    side = 32,
    channels = 3,
    image_values = side * side * channels,
    training_images = 12000,
    test_images = 2000,
    strokes_most = 16,
    shapes_seed = 0x5eed,
    shapes_stream = 0x73686170,
};

typedef struct stroke {
    float x0, y0, x1, y1;
} stroke;

typedef struct figure {
    int count;
    stroke strokes[strokes_most];
} figure;

/* Cosines of multiples of 22.5 degrees for the circle, and points of the regular pentagon. */
#define C1 0.92388f
#define C2 0.70711f
#define C3 0.38268f
#define P1 0.95106f
#define P2 0.30902f
#define P3 0.58779f
#define P4 0.80902f

/* In a square of ±1, y down. The class is the index. */
static const figure figures[] = {
    {16,
     {{1, 0, C1, C3},
      {C1, C3, C2, C2},
      {C2, C2, C3, C1},
      {C3, C1, 0, 1},
      {0, 1, -C3, C1},
      {-C3, C1, -C2, C2},
      {-C2, C2, -C1, C3},
      {-C1, C3, -1, 0},
      {-1, 0, -C1, -C3},
      {-C1, -C3, -C2, -C2},
      {-C2, -C2, -C3, -C1},
      {-C3, -C1, 0, -1},
      {0, -1, C3, -C1},
      {C3, -C1, C2, -C2},
      {C2, -C2, C1, -C3},
      {C1, -C3, 1, 0}}},                                                 /* circle */
    {3, {{0, -1, P1, 0.8f}, {P1, 0.8f, -P1, 0.8f}, {-P1, 0.8f, 0, -1}}}, /* triangle */
    {4,
     {{-0.85f, -0.85f, 0.85f, -0.85f},
      {0.85f, -0.85f, 0.85f, 0.85f},
      {0.85f, 0.85f, -0.85f, 0.85f},
      {-0.85f, 0.85f, -0.85f, -0.85f}}},                                                                   /* square */
    {2, {{-1, 0, 1, 0}, {0, -1, 0, 1}}},                                                                   /* plus */
    {5, {{0, -1, P3, P4}, {P3, P4, -P1, -P2}, {-P1, -P2, P1, -P2}, {P1, -P2, -P3, P4}, {-P3, P4, 0, -1}}}, /* star */
    {3, {{-0.8f, -1, -0.8f, 0.9f}, {-0.8f, 0.9f, 0.8f, 0.9f}, {0.8f, 0.9f, 0.8f, -1}}},                    /* cup */
    {3, {{-0.9f, -0.9f, 0.9f, -0.9f}, {0.9f, -0.9f, -0.9f, 0.9f}, {-0.9f, 0.9f, 0.9f, 0.9f}}},             /* zigzag */
    {2, {{-0.95f, -0.9f, 0.95f, -0.9f}, {0, -0.9f, 0, 1}}},                                                /* T */
    {2, {{-1, -0.5f, 1, -0.5f}, {-1, 0.5f, 1, 0.5f}}},                                                     /* two bars */
    {3, {{0, 1, 0, -1}, {0, -1, 0.75f, -0.15f}, {0, -1, -0.75f, -0.15f}}},                                 /* arrow */
};
enum { classes = sizeof figures / sizeof figures[0] };

/* ---- Draws ------------------------------------------------------------------------------------------------------------------ */

typedef struct draws {
    uint64_t key, counter;
} draws;

static float uniform(draws *from, float low, float high) {
    return low + (high - low) * qs_random_uniform(from->key, from->counter++);
}

/* ---- Painting ---------------------------------------------------------------------------------------------------------------- */

typedef struct painting {
    draws draws;
    float light;               /* of the background, 0 .. 1 */
    float image[image_values]; /* (side, side, channels) */
} painting;

/* A shade `contrast` away from the background's light, on the side where there is room for it or at random, slightly tinted. */
static void mix_colour(painting *on, float contrast, float colour[channels]) {
    bool darker = uniform(&on->draws, 0.0f, 1.0f) < 0.5f;
    if (on->light + contrast > 1.0f) darker = true;
    if (on->light - contrast < 0.0f) darker = false;
    for (int channel = 0; channel < channels; channel++) {
        colour[channel] = on->light + (darker ? -contrast : contrast) + uniform(&on->draws, -0.12f, 0.12f);
    }
}

/* A tinted plane, lighter on one side. */
static void paint_background(painting *on) {
    draws *from = &on->draws;
    on->light = uniform(from, 0.15f, 0.85f);
    for (int channel = 0; channel < channels; channel++) {
        float base = on->light + uniform(from, -0.1f, 0.1f);
        float across = uniform(from, -0.01f, 0.01f), down = uniform(from, -0.01f, 0.01f);
        for (int y = 0; y < side; y++) {
            for (int x = 0; x < side; x++) {
                on->image[(y * side + x) * channels + channel] = base + across * (float)(x - side / 2) + down * (float)(y - side / 2);
            }
        }
    }
}

/* Lowers distances[x] to the squared distance of row y's pixel centres from the stroke. */
static void near_stroke(const stroke *line, int y, float distances[side]) {
    float dx = line->x1 - line->x0, dy = line->y1 - line->y0, down = (float)y + 0.5f - line->y0;
    float inverse = 1.0f / (dx * dx + dy * dy);
    for (int x = 0; x < side; x++) {
        float right = (float)x + 0.5f - line->x0;
        float along = (right * dx + down * dy) * inverse;
        along = along < 0.0f ? 0.0f : along;
        along = along > 1.0f ? 1.0f : along;
        float off_x = right - along * dx, off_y = down - along * dy, distance = off_x * off_x + off_y * off_y;
        distances[x] = distance < distances[x] ? distance : distances[x];
    }
}

/* Strokes of half width `radius`, edges one pixel soft. */
static void paint_strokes(painting *on, int count, const stroke *strokes, float radius, const float colour[channels]) {
    float reach = (radius + 0.5f) * (radius + 0.5f);
    for (int y = 0; y < side; y++) {
        float distances[side];
        for (int x = 0; x < side; x++)
            distances[x] = (float)(4 * side * side);
        for (int i = 0; i < count; i++)
            near_stroke(&strokes[i], y, distances);
        for (int x = 0; x < side; x++) {
            if (distances[x] >= reach) continue;
            float cover = radius + 0.5f - sqrtf(distances[x]);
            cover = cover > 1.0f ? 1.0f : cover;
            float *pixel = on->image + (y * side + x) * channels;
            for (int channel = 0; channel < channels; channel++)
                pixel[channel] += cover * (colour[channel] - pixel[channel]);
        }
    }
}

static void paint_distractors(painting *on) {
    draws *from = &on->draws;
    int count = 2 + (int)uniform(from, 0.0f, 3.0f);
    for (int i = 0; i < count; i++) {
        float colour[channels], x = uniform(from, 0.0f, side), y = uniform(from, 0.0f, side);
        stroke line = {x, y, x + uniform(from, 2.0f, 6.0f), y + uniform(from, -6.0f, 6.0f)};
        mix_colour(on, uniform(from, 0.1f, 0.3f), colour);
        paint_strokes(on, 1, &line, uniform(from, 0.5f, 1.0f), colour);
    }
}

/* The class's figure under a random affine map: slant, mirror, two scales, shift. */
static void paint_figure(painting *on, const figure *shape) {
    draws *from = &on->draws;
    stroke strokes[strokes_most];
    float colour[channels];
    /* A rational point of the circle turns by up to ±45 degrees without a sine. */
    float t = uniform(from, -0.41421f, 0.41421f), norm = 1.0f / (1.0f + t * t), cosine = (1.0f - t * t) * norm, sine = 2.0f * t * norm;
    float size = uniform(from, 7.0f, 11.0f), wide = size * uniform(from, 0.8f, 1.2f), high = size * uniform(from, 0.8f, 1.2f);
    float mirror = uniform(from, 0.0f, 1.0f) < 0.5f ? -wide : wide, room = (float)side / 2 - size;
    float centre_x = (float)side / 2 + uniform(from, -room, room), centre_y = (float)side / 2 + uniform(from, -room, room);
    for (int i = 0; i < shape->count; i++) {
        const stroke *plain = &shape->strokes[i];
        strokes[i].x0 = centre_x + (cosine * plain->x0 - sine * plain->y0) * mirror;
        strokes[i].y0 = centre_y + (sine * plain->x0 + cosine * plain->y0) * high;
        strokes[i].x1 = centre_x + (cosine * plain->x1 - sine * plain->y1) * mirror;
        strokes[i].y1 = centre_y + (sine * plain->x1 + cosine * plain->y1) * high;
    }
    mix_colour(on, uniform(from, 0.3f, 0.6f), colour);
    paint_strokes(on, shape->count, strokes, uniform(from, 0.7f, 1.5f), colour);
}

/* Adds noise, near normal (the sum of a hash's four bytes, deviation 147.8), and rounds to bytes. */
static void develop(painting *on, uint8_t *image) {
    float noise = uniform(&on->draws, 0.03f, 0.08f) / 147.8f;
    for (int i = 0; i < image_values; i++) {
        uint32_t bits = qs_random_bits(on->draws.key, on->draws.counter++);
        int sum = (int)((bits & 255) + (bits >> 8 & 255) + (bits >> 16 & 255) + (bits >> 24)) - 510;
        float value = on->image[i] + noise * (float)sum;
        value = value < 0.0f ? 0.0f : value;
        value = value > 1.0f ? 1.0f : value;
        image[i] = (uint8_t)(value * 255.0f + 0.5f);
    }
}

/* ---- The set ------------------------------------------------------------------------------------------------------------------ */

typedef struct generation {
    qs_part part;
    qs_dataset *out;
} generation;

static void paint_range(void *context, int64_t begin, int64_t end) {
    const generation *set = context;
    for (int64_t i = begin; i < end; i++) {
        painting on;
        on.draws = (draws){.key = qs_random_key(shapes_seed, (uint64_t)i, (uint64_t)set->part, shapes_stream)};
        int class = (int)(i % classes);
        paint_background(&on);
        paint_distractors(&on);
        paint_figure(&on, &figures[class]);
        develop(&on, (uint8_t *)set->out->input[0] + i * image_values);
        ((int32_t *)set->out->target)[i] = class;
    }
}

static qs_status shapes_load(const qs__source *source, const qs__request *request, qs_part part, int64_t limit, qs_dataset *out) {
    QS_TRY(qs__images_describe(source, request, &out->description));
    int64_t whole = part == QS_PART_TRAINING ? training_images : test_images;
    out->count = whole < limit ? whole : limit;
    QS_TRY(qs_allocate((size_t)out->count, image_values, &out->input[0]));
    QS_TRY(qs_allocate((size_t)out->count, sizeof(int32_t), &out->target));
    generation set = {.part = part, .out = out};
    qs_parallel(out->count, 16, paint_range, &set);
    return QS_OK;
}

const qs__source qs__source_shapes = {
    .name = "shapes",
    .form = "shapes",
    .folders = "shapes",
    .alone = true,
    .describe = qs__images_describe,
    .load = shapes_load,
    .image =
        {
            .channels = channels,
            .height = side,
            .width = side,
            .classes = classes,
            .flips = true,
            .mean = {0.50083f, 0.50077f, 0.50026f},
            .deviation = {0.23465f, 0.23456f, 0.23481f},
        },
};
