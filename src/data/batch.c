// SPDX-License-Identifier: Apache-2.0
/* Batches: augmentation and normalisation in one pass from bytes to floats, channels last. It stands in the training step, so pixels go
 * through a table of 256 normalised values per channel and are written row by row. */
#include "qsync/data.h"

#include <assert.h>
#include <string.h>

enum {
    augmentation_stream = 0x6175676d, /* tells these draws apart from all others under the same seed */
    grain_samples = 8,
    channels_most = 4,
};

typedef struct batch_job {
    const qs_dataset *dataset;
    const qs_augmentation *augmentation; /* NULL: none */
    uint64_t key;
    const int64_t *indices;
    int height, width;
    float *images;   /* (count, height, width, channels) */
    int32_t *labels; /* (count) */
    float values[channels_most][256];
} batch_job;

/* Where an image lands in its frame: rows and columns its corner is moved by, may be negative. */
typedef struct placement {
    int down, right;
    bool mirrored;
} placement;

static void fill_values(const qs_dataset *dataset, float values[channels_most][256]) {
    for (int channel = 0; channel < dataset->channels; channel++) {
        for (int byte = 0; byte < 256; byte++) {
            values[channel][byte] = ((float)byte / 255.0f - dataset->mean[channel]) / dataset->deviation[channel];
        }
    }
}

/* Uniform in -pad .. pad. */
static int draw_shift(uint64_t key, uint64_t counter, int pad) {
    uint64_t choices = 2 * (uint64_t)pad + 1;
    return (int)(qs_random_bits(key, counter) * choices >> 32) - pad;
}

static placement place(const batch_job *job, int64_t index) {
    const qs_augmentation *augmentation = job->augmentation;
    placement where = {(job->height - job->dataset->height) / 2, (job->width - job->dataset->width) / 2, false};
    if (!augmentation) return where;
    uint64_t counter = 3 * (uint64_t)index;
    where.down += draw_shift(job->key, counter, augmentation->pad);
    where.right += draw_shift(job->key, counter + 1, augmentation->pad);
    where.mirrored = job->dataset->flips && qs_random_bits(job->key, counter + 2) >> 31;
    return where;
}

/* `count` pixels from `src` on, stepping `stride` bytes from pixel to pixel (negative when mirrored). */
static void write_pixels(const batch_job *job, const uint8_t *src, int count, int stride, float *dst) {
    int channels = job->dataset->channels;
    if (channels == 3) {
        for (int x = 0; x < count; x++, src += stride, dst += 3) {
            dst[0] = job->values[0][src[0]];
            dst[1] = job->values[1][src[1]];
            dst[2] = job->values[2][src[2]];
        }
        return;
    }
    for (int x = 0; x < count; x++, src += stride, dst += channels) {
        for (int channel = 0; channel < channels; channel++)
            dst[channel] = job->values[channel][src[channel]];
    }
}

/* One row of the frame that the image's row `src` reaches: zeros, pixels, zeros. */
static void write_row(const batch_job *job, const uint8_t *src, placement where, float *dst) {
    int channels = job->dataset->channels, width = job->dataset->width;
    int begin = where.right > 0 ? where.right : 0;
    int end = where.right + width < job->width ? where.right + width : job->width;
    if (end < begin) end = begin = 0;
    memset(dst, 0, (size_t)begin * (size_t)channels * sizeof *dst);
    if (end > begin) {
        int skipped = begin - where.right, first = where.mirrored ? width - 1 - skipped : skipped;
        write_pixels(job, src + first * channels, end - begin, where.mirrored ? -channels : channels, dst + begin * channels);
    }
    memset(dst + end * channels, 0, (size_t)(job->width - end) * (size_t)channels * sizeof *dst);
}

static void write_image(const batch_job *job, int64_t index, float *dst) {
    const qs_dataset *dataset = job->dataset;
    size_t row_values = (size_t)job->width * (size_t)dataset->channels, row_bytes = (size_t)dataset->width * (size_t)dataset->channels;
    const uint8_t *image = dataset->images + (size_t)index * (size_t)dataset->height * row_bytes;
    placement where = place(job, index);
    for (int y = 0; y < job->height; y++, dst += row_values) {
        int row = y - where.down;
        if (row < 0 || row >= dataset->height) {
            memset(dst, 0, row_values * sizeof *dst);
        } else {
            write_row(job, image + (size_t)row * row_bytes, where, dst);
        }
    }
}

static void write_samples(void *context, int64_t begin, int64_t end) {
    const batch_job *job = context;
    size_t frame = (size_t)job->height * (size_t)job->width * (size_t)job->dataset->channels;
    for (int64_t i = begin; i < end; i++) {
        int64_t index = job->indices[i];
        assert(index >= 0 && index < job->dataset->count);
        write_image(job, index, job->images + (size_t)i * frame);
        job->labels[i] = job->dataset->labels[index];
    }
}

void qs_batch_fill(const qs_dataset *dataset, const qs_augmentation *augmentation, const int64_t *indices, int64_t count, int height,
                   int width, float *images, int32_t *labels) {
    assert(dataset->channels <= channels_most && height >= dataset->height && width >= dataset->width);
    batch_job job = {.dataset = dataset, .indices = indices, .height = height, .width = width, .images = images, .labels = labels};
    if (augmentation && augmentation->enabled) {
        job.augmentation = augmentation;
        job.key = qs_random_key(augmentation->seed, (uint64_t)augmentation->epoch, 0, augmentation_stream);
    }
    fill_values(dataset, job.values);
    qs_parallel(count, grain_samples, write_samples, &job);
}
