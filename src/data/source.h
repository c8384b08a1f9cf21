// SPDX-License-Identifier: Apache-2.0
/* Inside the room: what a set is (its descriptor), how its files are found, and the checked byte stream that loaders read them through. */
#ifndef QSYNC_DATA_SOURCE_H
#define QSYNC_DATA_SOURCE_H

#include <zlib.h>

#include "qsync/data.h"

/* What was asked for: "name" or "name:options", and where the sets are. */
typedef struct qs__request {
    const char *name;    /* all of it */
    const char *options; /* behind the ':', or NULL */
    const char *folder;  /* of the sets; NULL where none was said */
} qs__request;

/* What image sets are. */
typedef struct qs__image_facts {
    int channels, height, width, classes;
    bool flips;
    int label_bytes;             /* CIFAR: bytes before the pixels; the last one is the label */
    const char *images[2];       /* by part: file names, "a|b" are alternatives, blanks separate files of which any may be there */
    const char *labels[2];       /* by part: likewise, when labels have a file of their own */
    float mean[4], deviation[4]; /* over the whole training part, of bytes/255 */
} qs__image_facts;

/* A set, or sets that differ by options. */
typedef struct qs__source qs__source;
struct qs__source {
    const char *name; /* what stands before a ':' */
    const char *form; /* as lists show it: the name, and the options that there must be */
    const char
        *folders; /* names of its folder, "a|b": the first is ours, others as unpacked from the published archive; NULL: it has none */
    bool alone;   /* needs no folder of sets: it is generated, or its options say where it is */
    bool takes_options;
    /* What its samples are, without reading more than that takes. */
    qs_status (*describe)(const qs__source *source, const qs__request *request, qs_data_description *out);
    /* Fills what a loaded part has, the description too. Releasing after a failure is the caller's. */
    qs_status (*load)(const qs__source *source, const qs__request *request, qs_part part, int64_t limit, qs_dataset *out);
    qs__image_facts image;
    const struct qs__text_facts *text; /* texts.h */
};

#define QS_DATASET(identifier) extern const qs__source qs__source_##identifier;
#include "datasets.def"
#undef QS_DATASET

/* The `describe` of sets that are image facts and nothing else. */
qs_status qs__images_describe(const qs__source *source, const qs__request *request, qs_data_description *out);

/* ---- Finding files ------------------------------------------------------------------------------------------------------ */

/* Path (heap) of the first alternative in `names` ("a|b", ended by NUL or blank) that exists as folder/<set>/<name>, folder/<name>, plain
 * or .gz; *path is NULL when none does. */
qs_status qs__file_find(const qs__source *source, const char *folder, const char *names, char **path);
/* *out (heap): PATH as it stands where it is absolute or there, else below `folder` (or QSYNC_DATA). */
qs_status qs__path_below(const char *path, const char *folder, char **out);
/* The failure for missing files. */
qs_status qs__file_missing(const qs__source *source, const char *folder, const char *names);

/* ---- Folders of images ------------------------------------------------------------------------------------------------------ */

void qs__folder_release(struct qs__image_files *files);
/* One image as a batch holds it: (size, size, 3) bytes. `augmentation` NULL: the middle of the image. */
qs_status qs__folder_read(const qs_dataset *dataset, int64_t index, const qs_augmentation *augmentation, uint8_t *pixels);

/* ---- Image files ------------------------------------------------------------------------------------------------------------ */

/* The bytes of a JPEG or PNG file; its first bytes tell which. `path` is for messages. */
typedef struct qs__image_file {
    const char *path;
    const unsigned char *bytes;
    size_t count;
} qs__image_file;

/* Rows of red, green and blue bytes. */
typedef struct qs__image {
    int64_t height, width;
    uint8_t *pixels; /* (height, width, 3), heap */
} qs__image;

/* A part of an image, in pixels, also fractions of them. */
typedef struct qs__rectangle {
    double top, left, height, width;
} qs__rectangle;

/* Height and width, without decoding. QS_BAD_FILE for what is neither JPEG nor PNG, is broken, or has more than 2^27 pixels. */
qs_status qs__image_size(const qs__image_file *file, int64_t *height, int64_t *width);
/* Decodes; a JPEG file at 1/shrink of its size (1, 2, 4 or 8, rounded up), which takes less time than decoding and scaling it. A file that
 * ends early is QS_BAD_FILE. shrink 0: only the size, without pixels. */
qs_status qs__image_decode(const qs__image_file *file, int shrink, qs__image *out);
/* A part of an image as size × size × 3 bytes, by a triangle filter as wide as the step between the new pixels, at least one pixel. */
qs_status qs__image_scale(const qs__image *image, const qs__rectangle *part, int64_t size, uint8_t *out);

/* ---- Streams -------------------------------------------------------------------------------------------------------------- */

/* Bytes of a plain or gzip file. Offsets in messages count uncompressed bytes, unless they say "compressed". */
typedef struct qs__stream {
    char *path;
    FILE *file;
    unsigned char *input; /* block read from the file */
    bool compressed, ended;
    z_stream inflater;
    int64_t file_bytes, input_bytes; /* size of the file, bytes read of it */
    int64_t position;                /* bytes delivered */
} qs__stream;

/* Opens; QS_BAD_FILE for what is no readable regular file, is empty, or is called .gz and is none. *out may not be moved afterwards. */
qs_status qs__stream_open(const char *path, qs__stream *out);
void qs__stream_close(qs__stream *stream);
/* Up to `bytes` bytes; fewer only at the end of the data. */
qs_status qs__stream_read(qs__stream *stream, void *data, size_t bytes, size_t *got);
/* Exactly `bytes` bytes of `what`. */
qs_status qs__stream_take(qs__stream *stream, void *data, size_t bytes, const char *what);
/* Reads `bytes` bytes of `what` and drops them. */
qs_status qs__stream_skip(qs__stream *stream, int64_t bytes, const char *what);
/* Nothing may follow; checks the sums of a gzip file as well. */
qs_status qs__stream_finish(qs__stream *stream);
/* The most bytes the file can hold: its size, for gzip 1032 times as many (the highest ratio deflate can reach). Nothing larger is ever
 * allocated because a header says so. */
int64_t qs__stream_bound(const qs__stream *stream);
/* QS_BAD_FILE "path: offset N: <rule>". */
qs_status qs__stream_fail(const qs__stream *stream, int64_t offset, const char *format, ...) QS_PRINTF(3, 4);

#endif
