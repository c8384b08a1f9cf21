// SPDX-License-Identifier: Apache-2.0
/* IDX files of MNIST and Fashion-MNIST: big-endian header (magic 2051: count, rows, columns; magic 2049: count), then bytes.
 * Strict: magic, sizes, counts of both files, label range and the end of the files are checked, and nothing is allocated on the word of a
 * header that the file's size contradicts. */
#include "source.h"

#include <stdlib.h>

enum { images_magic = 2051, labels_magic = 2049, images_header = 16, labels_header = 8 };

#define QS_IDX_FILES                                                                                                \
    .images = {"train-images-idx3-ubyte|train-images.idx3-ubyte", "t10k-images-idx3-ubyte|t10k-images.idx3-ubyte"}, \
    .labels = {"train-labels-idx1-ubyte|train-labels.idx1-ubyte", "t10k-labels-idx1-ubyte|t10k-labels.idx1-ubyte"}

static uint32_t big_endian(const unsigned char *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* Reads magic and count; `item` bytes an image or label must fit what the file can hold. */
static qs_status read_count(qs__stream *stream, uint32_t magic, int64_t header, int64_t item, int64_t *count) {
    unsigned char bytes[8];
    QS_TRY(qs__stream_take(stream, bytes, sizeof bytes, "the IDX header"));
    if (big_endian(bytes) != magic) {
        return qs__stream_fail(stream, 0, "magic number is %u, must be %u", big_endian(bytes), magic);
    }
    *count = big_endian(bytes + 4);
    if (*count == 0) return qs__stream_fail(stream, 4, "the header counts 0 items, must be at least 1");
    if (*count > (qs__stream_bound(stream) - header) / item) {
        return qs__stream_fail(stream, 4, "the header counts %lld items of %lld bytes, the file's %lld bytes cannot hold them",
                               (long long)*count, (long long)item, (long long)stream->file_bytes);
    }
    return QS_OK;
}

static qs_status read_size(qs__stream *stream, const qs__source *source) {
    unsigned char bytes[8];
    QS_TRY(qs__stream_take(stream, bytes, sizeof bytes, "the IDX header"));
    uint32_t rows = big_endian(bytes), columns = big_endian(bytes + 4);
    if (rows == (uint32_t)source->image.height && columns == (uint32_t)source->image.width) return QS_OK;
    return qs__stream_fail(stream, 8, "images are %ux%u, must be %dx%d", rows, columns, source->image.height, source->image.width);
}

/* Bytes to int32_t, each checked. */
static qs_status take_labels(qs__stream *stream, const qs__source *source, int64_t count, int32_t *labels) {
    uint8_t *bytes = (uint8_t *)labels + 3 * count; /* the last quarter: widening from the front never overtakes it */
    QS_TRY(qs__stream_take(stream, bytes, (size_t)count, "the labels"));
    for (int64_t i = 0; i < count; i++) {
        const int label = bytes[i];
        if (label >= source->image.classes)
            return qs__stream_fail(stream, labels_header + i, "label is %d, must be below %d", label, source->image.classes);
        labels[i] = label;
    }
    return QS_OK;
}

/* What follows the headers; items past `limit` are read too, so that a broken file never passes. */
static qs_status read_items(const qs__source *source, qs__stream *images, qs__stream *labels, int64_t count, int64_t limit,
                            qs_dataset *out) {
    size_t item = (size_t)source->image.height * (size_t)source->image.width;
    out->count = count < limit ? count : limit;
    QS_TRY(qs_allocate((size_t)out->count, item, &out->input[0]));
    QS_TRY(qs_allocate((size_t)out->count, sizeof(int32_t), &out->target));
    QS_TRY(take_labels(labels, source, out->count, out->target));
    QS_TRY(qs__stream_skip(labels, count - out->count, "the labels"));
    QS_TRY(qs__stream_finish(labels));
    QS_TRY(qs__stream_take(images, out->input[0], (size_t)out->count * item, "the images"));
    QS_TRY(qs__stream_skip(images, (count - out->count) * (int64_t)item, "the images"));
    return qs__stream_finish(images);
}

static qs_status read_pair(const qs__source *source, qs__stream *images, qs__stream *labels, int64_t limit, qs_dataset *out) {
    int64_t count = 0, label_count = 0;
    QS_TRY(read_count(images, images_magic, images_header, (int64_t)source->image.height * source->image.width, &count));
    QS_TRY(read_size(images, source));
    QS_TRY(read_count(labels, labels_magic, labels_header, 1, &label_count));
    if (count != label_count) {
        return qs__stream_fail(labels, 4, "the header counts %lld labels, must equal the %lld images of %s", (long long)label_count,
                               (long long)count, images->path);
    }
    return read_items(source, images, labels, count, limit, out);
}

static qs_status open_named(const qs__source *source, const char *folder, const char *names, qs__stream *stream) {
    char *path = NULL;
    QS_TRY(qs__file_find(source, folder, names, &path));
    if (!path) return qs__file_missing(source, folder, names);
    qs_status status = qs__stream_open(path, stream);
    free(path);
    return status;
}

static qs_status idx_load(const qs__source *source, const qs__request *request, qs_part part, int64_t limit, qs_dataset *out) {
    qs__stream images = {0}, labels = {0};
    QS_TRY(qs__images_describe(source, request, &out->description));
    qs_status status = open_named(source, request->folder, source->image.images[part], &images);
    if (status == QS_OK) status = open_named(source, request->folder, source->image.labels[part], &labels);
    if (status == QS_OK) status = read_pair(source, &images, &labels, limit, out);
    qs__stream_close(&labels);
    qs__stream_close(&images);
    return status;
}

const qs__source qs__source_mnist = {
    .name = "mnist",
    .form = "mnist",
    .folders = "mnist|MNIST",
    .describe = qs__images_describe,
    .load = idx_load,
    .image =
        {
            .channels = 1,
            .height = 28,
            .width = 28,
            .classes = 10,
            .flips = false, /* a mirrored digit is another sign or none */
            QS_IDX_FILES,
            .mean = {0.13066f},
            .deviation = {0.30811f},
        },
};

const qs__source qs__source_fashion_mnist = {
    .name = "fashion-mnist",
    .form = "fashion-mnist",
    .folders = "fashion-mnist|FashionMNIST",
    .describe = qs__images_describe,
    .load = idx_load,
    .image =
        {
            .channels = 1,
            .height = 28,
            .width = 28,
            .classes = 10,
            .flips = true,
            QS_IDX_FILES,
            .mean = {0.28604f},
            .deviation = {0.35302f},
        },
};
