// SPDX-License-Identifier: Apache-2.0
/* Batches. Images: augmentation and normalisation in one pass from bytes to floats, channels last. It stands in the training step, so
 * pixels go through a table of 256 normalised values per channel and are written row by row. Other inputs and targets are copied and
 * padded. */
#include "source.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    augmentation_stream = 0x6175676d, /* tells these draws apart from all others under the same seed */
    grain_samples = 8,
};

typedef struct batch_job {
    const qs_dataset *dataset;
    const qs_augmentation *augmentation; /* NULL: none */
    uint64_t key;
    const int64_t *indices;
    const qs_batch *batch;
    float values[QS_DATA_MOST_CHANNELS][256];
    bool floats;            /* they are normalised, for there are no images */
    _Atomic int64_t failed; /* the first place of the batch whose image could not be read */
} batch_job;

/* ---- Images ------------------------------------------------------------------------------------------------------------------ */

/* An image of bytes on its way to a frame of floats; both channels last. */
typedef struct image_copy {
    const float (*values)[256]; /* per channel */
    const uint8_t *from;
    int height, width, channels;
    int frame_height, frame_width;
    int down, right; /* where the image's corner lies in the frame; may be negative */
    bool mirrored;
} image_copy;

/* Uniform in -pad .. pad. */
static int draw_shift(uint64_t key, uint64_t counter, int pad) {
    uint64_t choices = 2 * (uint64_t)pad + 1;
    return (int)(qs_random_bits(key, counter) * choices >> 32) - pad;
}

/* `count` pixels from `from` on, stepping `stride` bytes from pixel to pixel (negative when mirrored). */
static void write_pixels(const image_copy *copy, const uint8_t *from, int count, int stride, float *to) {
    const float(*values)[256] = copy->values;
    if (copy->channels == 3) {
        for (int x = 0; x < count; x++, from += stride, to += 3) {
            to[0] = values[0][from[0]];
            to[1] = values[1][from[1]];
            to[2] = values[2][from[2]];
        }
        return;
    }
    for (int x = 0; x < count; x++, from += stride, to += copy->channels) {
        for (int channel = 0; channel < copy->channels; channel++)
            to[channel] = values[channel][from[channel]];
    }
}

/* One row of the frame that the image's row `from` reaches: zeros, pixels, zeros. */
static void write_row(const image_copy *copy, const uint8_t *from, float *to) {
    const int channels = copy->channels, width = copy->width;
    int begin = copy->right > 0 ? copy->right : 0;
    int end = copy->right + width < copy->frame_width ? copy->right + width : copy->frame_width;
    if (end < begin) end = begin = 0;
    memset(to, 0, (size_t)begin * (size_t)channels * sizeof *to);
    if (end > begin) {
        int skipped = begin - copy->right, first = copy->mirrored ? width - 1 - skipped : skipped;
        write_pixels(copy, from + first * channels, end - begin, copy->mirrored ? -channels : channels, to + begin * channels);
    }
    memset(to + end * channels, 0, (size_t)(copy->frame_width - end) * (size_t)channels * sizeof *to);
}

static void write_frame(const image_copy *copy, float *to) {
    const size_t row_values = (size_t)copy->frame_width * (size_t)copy->channels, row_bytes = (size_t)copy->width * (size_t)copy->channels;
    for (int y = 0; y < copy->frame_height; y++, to += row_values) {
        const int row = y - copy->down;
        if (row < 0 || row >= copy->height) {
            memset(to, 0, row_values * sizeof *to);
        } else {
            write_row(copy, copy->from + (size_t)row * row_bytes, to);
        }
    }
}

/* `decoded`: room for one image where the set holds files. */
static qs_status image_write(const batch_job *job, int number, int64_t index, uint8_t *decoded, float *to) {
    const qs_dataset *dataset = job->dataset;
    const int64_t *has = dataset->description.samples.input[number].extent, *frame = job->batch->extent[number];
    image_copy copy = {.values = job->values, .height = (int)has[0], .width = (int)has[1], .channels = (int)has[2]};
    copy.frame_height = (int)frame[0];
    copy.frame_width = (int)frame[1];
    copy.down = (copy.frame_height - copy.height) / 2;
    copy.right = (copy.frame_width - copy.width) / 2;
    if (dataset->files) {
        QS_TRY(qs__folder_read(dataset, index, job->augmentation, decoded));
        copy.from = decoded;
    } else {
        copy.from = (const uint8_t *)dataset->input[number] + index * has[0] * has[1] * has[2];
        if (job->augmentation) {
            const uint64_t counter = 3 * (uint64_t)index;
            copy.down += draw_shift(job->key, counter, job->augmentation->pad);
            copy.right += draw_shift(job->key, counter + 1, job->augmentation->pad);
            copy.mirrored = dataset->description.flips && qs_random_bits(job->key, counter + 2) >> 31;
        }
    }
    write_frame(&copy, to);
    return QS_OK;
}

/* ---- Other inputs and targets ------------------------------------------------------------------------------------------------- */

/* Floats normalised: as many channels as there are, or all alike. */
static void floats_normalize(const qs_data_description *is, int64_t channels, int64_t values, float *at) {
    const float scale = is->scale > 0 ? is->scale : 1;
    for (int64_t i = 0; i < values; i++) {
        const int64_t channel = channels <= QS_DATA_MOST_CHANNELS ? i % channels : 0;
        at[i] = (at[i] / scale - is->mean[channel]) / is->deviation[channel];
    }
}

/* `rows` of `values` numbers of four bytes each, and `padding` behind them up to `frame_rows`. */
static void rows_copy(const uint32_t *from, int64_t rows, int64_t values, int64_t frame_rows, uint32_t padding, uint32_t *to) {
    memcpy(to, from, (size_t)(rows * values) * sizeof *to);
    for (int64_t i = rows * values; i < frame_rows * values; i++)
        to[i] = padding;
}

static void numbers_write(const batch_job *job, int number, int64_t index, int64_t place) {
    const qs_input *input = &job->dataset->description.samples.input[number];
    int64_t values = 1;
    for (int axis = 1; axis < input->rank; axis++)
        values *= input->extent[axis];
    const int64_t rows = input->varies ? job->dataset->length[index] : input->extent[0], frame_rows = job->batch->extent[number][0];
    rows_copy((const uint32_t *)job->dataset->input[number] + index * input->extent[0] * values, rows, values, frame_rows,
              input->type == QS_INPUT_I32 ? (uint32_t)input->padding : 0,
              (uint32_t *)job->batch->input[number] + place * frame_rows * values);
    if (job->floats && input->type == QS_INPUT_F32)
        floats_normalize(&job->dataset->description, input->extent[input->rank - 1], rows * values,
                         (float *)job->batch->input[number] + place * frame_rows * values);
}

static void target_write(const batch_job *job, int64_t index, int64_t place) {
    const qs_target *target = &job->dataset->description.samples.target;
    const int64_t values = qs_target_values(target);
    const bool positions = target->kind == QS_TARGET_CLASS_PER_POSITION;
    const int64_t frame = positions ? job->batch->positions : values;
    int64_t rows = values;
    if (positions && job->dataset->length && job->dataset->length[index] < rows) rows = job->dataset->length[index];
    int32_t *to = (int32_t *)job->batch->target + place * frame;
    rows_copy((const uint32_t *)job->dataset->target + index * values, rows, 1, frame, (uint32_t)job->batch->ignored, (uint32_t *)to);
    for (int64_t i = 0; positions && target->ignored != job->batch->ignored && i < rows; i++)
        if (to[i] == target->ignored) to[i] = job->batch->ignored;
}

/* ---- The batch ----------------------------------------------------------------------------------------------------------------- */

static qs_status sample_write(const batch_job *job, int64_t place, uint8_t *decoded) {
    const qs_data_description *is = &job->dataset->description;
    const int64_t index = job->indices[place];
    assert(index >= 0 && index < job->dataset->count);
    for (int i = 0; i < is->samples.inputs; i++) {
        const int64_t *frame = job->batch->extent[i];
        if (is->samples.input[i].type == QS_INPUT_U8) {
            float *images = job->batch->input[i];
            QS_TRY(image_write(job, i, index, decoded, images + place * frame[0] * frame[1] * is->samples.input[i].extent[2]));
        } else {
            numbers_write(job, i, index, place);
        }
    }
    if (job->batch->length)
        job->batch->length[place] = job->dataset->length ? job->dataset->length[index] : (int32_t)is->samples.input[0].extent[0];
    target_write(job, index, place);
    return QS_OK;
}

static qs_status decoding_room(const qs_dataset *dataset, uint8_t **out) {
    const int64_t *extent = dataset->description.samples.input[0].extent;
    *out = NULL;
    return dataset->files ? qs_allocate((size_t)(extent[0] * extent[1]), (size_t)extent[2], out) : QS_OK;
}

static void samples_write(void *context, int64_t begin, int64_t end) {
    batch_job *job = context;
    uint8_t *decoded = NULL;
    qs_status status = decoding_room(job->dataset, &decoded);
    for (int64_t place = begin; place < end; place++) {
        if (status == QS_OK) status = sample_write(job, place, decoded);
        if (status == QS_OK) continue;
        int64_t first = atomic_load(&job->failed);
        while (place < first && !atomic_compare_exchange_weak(&job->failed, &first, place)) {
        }
        break;
    }
    free(decoded);
}

/* A message belongs to a thread: the first sample that failed is tried again on the caller's. */
static qs_status failure_repeat(const batch_job *job) {
    uint8_t *decoded = NULL;
    QS_TRY(decoding_room(job->dataset, &decoded));
    qs_status status = sample_write(job, atomic_load(&job->failed), decoded);
    free(decoded);
    if (status != QS_OK) return status;
    return qs_fail(QS_FAILED, "data set %s: sample %lld could not be read at first and could at once afterwards: try again",
                   job->dataset->description.name, (long long)job->indices[atomic_load(&job->failed)]);
}

qs_augmentation qs_augmentation_standard(const qs_dataset *dataset, bool enabled, uint64_t seed, int64_t epoch) {
    return (qs_augmentation){
        .enabled = enabled, .pad = dataset->description.samples.input[0].extent[0] < 32 ? 2 : 4, .seed = seed, .epoch = epoch};
}

qs_status qs_batch_fill(const qs_dataset *dataset, const qs_augmentation *augmentation, const int64_t *indices, int64_t count,
                        const qs_batch *batch) {
    const qs_data_description *is = &dataset->description;
    batch_job job = {.dataset = dataset, .indices = indices, .batch = batch, .failed = count};
    if (augmentation && augmentation->enabled) {
        job.augmentation = augmentation;
        job.key = qs_random_key(augmentation->seed, (uint64_t)augmentation->epoch, 0, augmentation_stream);
    }
    const float scale = is->scale > 0 ? is->scale : 255.0f;
    job.floats = is->deviation[0] > 0;
    for (int i = 0; i < is->samples.inputs; i++)
        job.floats &= is->samples.input[i].type != QS_INPUT_U8;
    for (int channel = 0; channel < QS_DATA_MOST_CHANNELS; channel++)
        for (int byte = 0; byte < 256 && is->deviation[channel] > 0; byte++)
            job.values[channel][byte] = ((float)byte / scale - is->mean[channel]) / is->deviation[channel];
    qs_parallel(count, dataset->files ? 1 : grain_samples, samples_write, &job);
    return atomic_load(&job.failed) < count ? failure_repeat(&job) : QS_OK;
}
