// SPDX-License-Identifier: Apache-2.0
/* Shared by the tests of this folder: a temporary folder with small files in it, plain or gzipped, and checks of failures. */
#ifndef TESTS_DATA_FILES_H
#define TESTS_DATA_FILES_H

#include "kit/folder.h"

#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "qsync/data.h"

typedef struct bytes {
    unsigned char *data;
    size_t count;
} bytes;

static char test_folder[FOLDER_PATH];

static inline int folder_setup(void **state) {
    (void)state;
    folder_make(test_folder);
    return 0;
}

static inline int folder_teardown(void **state) {
    (void)state;
    return folder_remove(test_folder);
}

static inline void file_write(const char *name, bytes content) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", test_folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(content.data, 1, content.count, file), content.count);
    assert_int_equal(fclose(file), 0);
}

static inline void file_remove(const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", test_folder, name);
    remove(path);
}

static inline void subfolder_make(const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", test_folder, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

/* Bytes of the images and classes of a set. */
static inline const uint8_t *image_bytes_of(const qs_dataset *set) {
    return set->input[0];
}

static inline const int32_t *classes_of(const qs_dataset *set) {
    return set->target;
}

/* The gzip form of `content`; the caller frees. */
static inline bytes gzipped(bytes content) {
    z_stream stream = {0};
    assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    size_t room = deflateBound(&stream, content.count) + 64;
    bytes packed = {malloc(room), 0};
    assert_non_null(packed.data);
    stream.next_in = content.data;
    stream.avail_in = (unsigned)content.count;
    stream.next_out = packed.data;
    stream.avail_out = (unsigned)room;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    packed.count = room - stream.avail_out;
    deflateEnd(&stream);
    return packed;
}

static inline bytes copied(bytes content, size_t more) {
    bytes copy = {malloc(content.count + more + 1), content.count};
    assert_non_null(copy.data);
    memcpy(copy.data, content.data, content.count);
    memset(copy.data + content.count, 0, more + 1);
    return copy;
}

/* Loading fails with `status`, a message that holds every part given (NULL ends them), and an untouched output. */
static inline void expect_failure(const char *name, const char *folder, qs_part part, qs_status status, const char *const *parts) {
    qs_dataset dataset, untouched;
    memset(&dataset, 0x5a, sizeof dataset);
    memcpy(&untouched, &dataset, sizeof untouched);
    qs_status got = qs_dataset_load(name, folder, part, 0, &dataset);
    if (got != status) fail_msg("status %d instead of %d: %s", got, status, qs_message());
    assert_memory_equal(&dataset, &untouched, sizeof dataset);
    for (; *parts; parts++) {
        assert_message(*parts);
    }
}

#define expect_bad_file(name, folder, part, ...) expect_failure(name, folder, part, QS_BAD_FILE, (const char *const[]){__VA_ARGS__, NULL})

/* Two sets hold the same images and labels. */
static inline void expect_equal_sets(const qs_dataset *a, const qs_dataset *b) {
    assert_int_equal(a->count, b->count);
    const int64_t *extent = a->description.samples.input[0].extent;
    assert_memory_equal(a->target, b->target, (size_t)a->count * sizeof(int32_t));
    assert_memory_equal(a->input[0], b->input[0], (size_t)(a->count * extent[0] * extent[1] * extent[2]));
}

#endif
