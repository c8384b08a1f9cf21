// SPDX-License-Identifier: Apache-2.0
/* CIFAR binary files: records of one label byte (CIFAR-10) or coarse and fine label byte (CIFAR-100), then 3072 bytes of red, green and
 * blue planes, which become channels last. There is no header: the rule is whole records with labels in range. */
#include "source.h"

#include <stdlib.h>

enum {
    pixels = 32 * 32,
    channels = 3,
    image_bytes = pixels * channels,
    record_bytes_most = 2 + image_bytes,
    block_records = 16,
    file_records_most = 1 << 20, /* 17 times the largest published part: a file with more is none of these sets */
};

/* A set being read: how much room it has, in images and in labels. */
typedef struct gathering {
    const qs__source *source;
    int64_t limit;
    size_t image_room, label_room;
    qs_dataset *out;
} gathering;

/* Planes to channels last. */
static void interleave(const unsigned char *planes, uint8_t *image) {
    for (size_t i = 0; i < pixels; i++) {
        image[channels * i] = planes[i];
        image[channels * i + 1] = planes[pixels + i];
        image[channels * i + 2] = planes[2 * pixels + i];
    }
}

static qs_status make_room(gathering *set, int64_t records) {
    size_t needed = (size_t)(set->out->count + records);
    QS_TRY(qs_grow(&set->out->input[0], &set->image_room, needed, image_bytes));
    return qs_grow(&set->out->target, &set->label_room, needed, sizeof(int32_t));
}

/* Checks one record at `offset` and keeps it unless the set is full already. */
static qs_status add_record(gathering *set, const qs__stream *stream, int64_t offset, const unsigned char *record) {
    int label_bytes = set->source->image.label_bytes, label = record[label_bytes - 1];
    qs_dataset *out = set->out;
    if (label >= set->source->image.classes) {
        return qs__stream_fail(stream, offset + label_bytes - 1, "label is %d, must be below %d", label, set->source->image.classes);
    }
    if (out->count == set->limit) return QS_OK;
    ((int32_t *)out->target)[out->count] = label;
    interleave(record + label_bytes, (uint8_t *)out->input[0] + out->count * image_bytes);
    out->count++;
    return QS_OK;
}

/* Adds one block of records; *last when it was the end of the file. */
static qs_status read_block(gathering *set, qs__stream *stream, unsigned char *block, bool *last) {
    size_t record_bytes = (size_t)set->source->image.label_bytes + image_bytes, got = 0;
    int64_t offset = stream->position;
    QS_TRY(qs__stream_read(stream, block, block_records * record_bytes, &got));
    size_t records = got / record_bytes;
    if (got % record_bytes != 0) {
        return qs__stream_fail(stream, offset + (int64_t)(records * record_bytes), "the last record has %zu bytes, must have %zu",
                               got % record_bytes, record_bytes);
    }
    if (stream->position > (int64_t)file_records_most * (int64_t)record_bytes) {
        return qs__stream_fail(stream, stream->position, "the file holds more than %d records: no file of %s", file_records_most,
                               set->source->name);
    }
    if (set->out->count < set->limit) QS_TRY(make_room(set, (int64_t)records));
    for (size_t i = 0; i < records; i++) {
        QS_TRY(add_record(set, stream, offset + (int64_t)(i * record_bytes), block + i * record_bytes));
    }
    *last = got < block_records * record_bytes;
    return QS_OK;
}

/* The whole file is read and checked, even where the limit falls within it. */
static qs_status read_file(gathering *set, const char *path) {
    unsigned char block[block_records * record_bytes_most];
    qs__stream stream;
    QS_TRY(qs__stream_open(path, &stream));
    bool last = false;
    qs_status status = QS_OK;
    while (status == QS_OK && !last)
        status = read_block(set, &stream, block, &last);
    if (status == QS_OK && stream.position == 0) status = qs__stream_fail(&stream, 0, "the file holds no record, must hold at least 1");
    qs__stream_close(&stream);
    return status;
}

/* The next blank-separated group of names; NULL past the end. */
static const char *next_group(const char *names) {
    while (*names && *names != ' ')
        names++;
    return *names ? names + 1 : NULL;
}

static qs_status cifar_load(const qs__source *source, const qs__request *request, qs_part part, int64_t limit, qs_dataset *out) {
    gathering set = {.source = source, .limit = limit, .out = out};
    int files = 0, groups = 0;
    QS_TRY(qs__images_describe(source, request, &out->description));
    for (const char *names = source->image.images[part]; names && out->count < limit; names = next_group(names)) {
        char *path = NULL;
        groups++;
        QS_TRY(qs__file_find(source, request->folder, names, &path));
        if (!path) continue;
        qs_status status = read_file(&set, path);
        free(path);
        QS_TRY(status);
        files++;
    }
    if (files == 0) return qs__file_missing(source, request->folder, source->image.images[part]);
    if (files < groups) {
        qs_log(QS_LOG_INFO, "%s: %d of the part's files are there (%lld images); tools/fetch-data.sh fetches all", source->name, files,
               (long long)out->count);
    }
    return QS_OK;
}

const qs__source qs__source_cifar10 = {
    .name = "cifar10",
    .form = "cifar10",
    .folders = "cifar10|cifar-10-batches-bin",
    .describe = qs__images_describe,
    .load = cifar_load,
    .image =
        {
            .channels = channels,
            .height = 32,
            .width = 32,
            .classes = 10,
            .flips = true,
            .label_bytes = 1,
            .images = {"data_batch_1.bin data_batch_2.bin data_batch_3.bin data_batch_4.bin data_batch_5.bin", "test_batch.bin"},
            .mean = {0.49140f, 0.48216f, 0.44653f},
            .deviation = {0.24703f, 0.24349f, 0.26159f},
        },
};

/* The subset files are what a smaller copy of the set may hold, 40 training and 10 test images a class. */
const qs__source qs__source_cifar100 = {
    .name = "cifar100",
    .form = "cifar100",
    .folders = "cifar100|cifar-100-binary",
    .describe = qs__images_describe,
    .load = cifar_load,
    .image =
        {
            .channels = channels,
            .height = 32,
            .width = 32,
            .classes = 100,
            .flips = true,
            .label_bytes = 2,
            .images = {"train.bin|train-subset4000.bin", "test.bin|test-subset1000.bin"},
            .mean = {0.50707f, 0.48655f, 0.44092f},
            .deviation = {0.26733f, 0.25644f, 0.27615f},
        },
};
