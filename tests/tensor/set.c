// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Tensor sets: what is written comes back; truncated, damaged and inconsistent files are refused; the layout is the safetensors one. */
#include "kit/kit.h"
#include "kit/folder.h"

#include <inttypes.h>
#include <unistd.h>
#include <jansson.h>

#include "qsync/tensor.h"

static char folder[FOLDER_PATH], path[FOLDER_PATH + 16];

static int make_folder(void **state) {
    (void)state;
    folder_make(folder);
    snprintf(path, sizeof path, "%s/weights", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    unlink(path);
    return rmdir(folder); /* fails when a temporary file was left */
}

static float weights[6] = {1, -2, 3.5f, 0, 1e-40f, -1e30f};
static uint16_t half[3] = {0x3F80, 0xBF80, 0x0001};
static int8_t codes[5] = {-127, -1, 0, 1, 127};
static float scalar = 42;

static qs_named_tensor entries[4];

/* An odd number of bytes stands before fp32 data: the reader aligns all the same. */
static qs_tensor_set usual_set(void) {
    const qs_named_tensor list[4] = {
        {"conv1.codes", {qs_shape_of(1, 5), qs_format_of("int8"), codes}},
        {"conv1.weights", {qs_shape_of(4, 3, 2, 1, 1), qs_format_of("fp32"), weights}},
        {"odd \"name\" ä", {qs_shape_of(2, 1, 3), qs_format_of("bf16"), half}},
        {"scalar", {qs_shape_of(0), qs_format_of("fp32"), &scalar}},
    };
    memcpy(entries, list, sizeof list);
    return (qs_tensor_set){.count = 4, .tensors = entries, .model = "resnet8:width=0.5"};
}

TEST(round_trip) {
    qs_tensor_set set = usual_set(), back;
    assert_ok(qs_tensor_set_write(path, &set));
    assert_ok(qs_tensor_set_read(path, &back));
    assert_string_equal(back.model, set.model);
    assert_int_equal(back.count, set.count);
    for (size_t i = 0; i < set.count; i++) {
        assert_string_equal(back.tensors[i].name, set.tensors[i].name);
        const qs_tensor *is = &back.tensors[i].tensor, *was = &set.tensors[i].tensor;
        assert_true(qs_shape_equal(&is->shape, &was->shape));
        assert_ptr_equal(is->format, was->format);
        assert_int_equal((uintptr_t)is->data % 64, 0);
        assert_memory_equal(is->data, was->data, qs_tensor_bytes(&was->shape, was->format));
        assert_ptr_equal(qs_tensor_set_find(&back, set.tensors[i].name), is);
    }
    assert_null(qs_tensor_set_find(&back, "conv2.weights"));
    qs_tensor_set_release(&back);
    assert_true(back.count == 0 && !back.memory);
    qs_tensor_set_release(&back);
}

TEST(empty_set) {
    qs_tensor_set set = {.model = "mlp"}, back;
    assert_ok(qs_tensor_set_write(path, &set));
    assert_ok(qs_tensor_set_read(path, &back));
    assert_int_equal(back.count, 0);
    qs_tensor_set_release(&back);
}

/* What any safetensors reader relies on: prefix, JSON object, offsets from the end of the header, data without gaps. */
TEST(layout) {
    qs_tensor_set set = usual_set();
    assert_ok(qs_tensor_set_write(path, &set));
    char *file;
    size_t bytes;
    uint64_t length;
    assert_ok(qs_file_read(path, 1 << 20, &file, &bytes));
    memcpy(&length, file, 8);
    assert_int_equal((8 + length) % 64, 0);
    assert_int_equal(bytes, 8 + length + 5 + 24 + 6 + 4);
    json_t *header = json_loadb(file + 8, length, 0, NULL), *entry = json_object_get(header, "conv1.weights");
    assert_string_equal(json_string_value(json_object_get(entry, "dtype")), "F32");
    assert_int_equal(json_integer_value(json_array_get(json_object_get(entry, "data_offsets"), 0)), 5);
    assert_int_equal(json_integer_value(json_array_get(json_object_get(entry, "data_offsets"), 1)), 29);
    assert_memory_equal(file + 8 + length + 5, weights, sizeof weights);
    json_t *metadata = json_object_get(header, "__metadata__"), *value;
    const char *key;
    json_object_foreach(metadata, key, value) assert_true(json_is_string(value));
    json_decref(header);
    free(file);
}

/* Without the waits for the disk of qs_file_write. */
static void put_file(const char *data, size_t bytes) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static void expect_refused(const char *data, size_t bytes, const char *says) {
    qs_tensor_set back = {.count = 77};
    put_file(data, bytes);
    if (qs_tensor_set_read(path, &back) != QS_BAD_FILE) fail_msg("accepted, %s expected", says ? says : "a refusal");
    assert_int_equal(back.count, 77);
    assert_message(path);
    if (says && !strstr(qs_message(), says)) fail_msg("message lacks \"%s\": %s", says, qs_message());
}

/* Every prefix of a good file, and a good file with any byte changed in any of three ways, is refused. */
TEST(truncated_and_damaged) {
    qs_tensor_set set = usual_set();
    assert_ok(qs_tensor_set_write(path, &set));
    char *file;
    size_t bytes;
    assert_ok(qs_file_read(path, 1 << 20, &file, &bytes));
    for (size_t i = 0; i < bytes; i++) {
        if (i < 20 || i % 16 == 0 || i + 20 > bytes) expect_refused(file, i, NULL);
        const char was = file[i], flips[3] = {1, 16, (char)0x80};
        for (int f = 0; f < 3 && (f == 0 || i % 16 == 0); f++) {
            file[i] = (char)(was ^ flips[f]);
            expect_refused(file, bytes, NULL);
        }
        file[i] = was;
    }
    file = realloc(file, bytes + 1);
    assert_non_null(file);
    file[bytes] = 0;
    expect_refused(file, bytes + 1, "behind the last tensor");
    free(file);
}

static void expect_header_refused(const char *header, size_t data_bytes, const char *says) {
    char file[2048] = {0};
    uint64_t length = strlen(header);
    memcpy(file, &length, 8);
    memcpy(file + 8, header, length);
    assert_true(8 + length + data_bytes <= sizeof file);
    expect_refused(file, 8 + length + data_bytes, says);
}

#define META "\"__metadata__\":{\"schema\":\"qsync/weights/1\",\"model\":\"mlp\",\"hash\":\"xxh64:0000000000000000\"}"
TEST(inconsistent_headers) {
    expect_header_refused("[]", 0, "JSON object");
    expect_header_refused("{", 0, "no JSON");
    expect_header_refused("{}", 0, "schema");
    expect_header_refused("{" META "," META "}", 0, "no JSON");
    expect_header_refused("{" META "}", 0, "damaged");
    expect_header_refused("{\"__metadata__\":{\"schema\":\"qsync/weights/2\",\"model\":\"mlp\",\"hash\":\"\"}}", 0, "qsync/weights/1");
    expect_header_refused("{\"__metadata__\":{\"schema\":\"qsync/weights/1\",\"model\":\"mlp\"}}", 0, "hash");
    expect_header_refused("{" META ",\"a\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8, "dtype");
    expect_header_refused("{" META ",\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "[0, 4]");
    expect_header_refused("{" META ",\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8, "[0, 4]");
    expect_header_refused("{" META ",\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "at least 1");
    expect_header_refused("{" META ",\"a\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]}}", 4, "at least 1");
    expect_header_refused("{" META ",\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1],\"data_offsets\":[0,4]}}", 4, "at most 4");
    expect_header_refused("{" META ",\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "shape");
    expect_header_refused("{" META ",\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 7, "the file ends within a");
    expect_header_refused("{" META ",\"a\":{\"dtype\":\"F32\",\"shape\":[1099511627776,2],\"data_offsets\":[0,8]}}", 8, "2^40");
    expect_header_refused("{" META ",\"\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "name");
    expect_header_refused("{" META ",\"a\":3}", 0, "dtype");
    char large[16] = {(char)0xFF, (char)0xFF, (char)0xFF, (char)0xFF, (char)0xFF, (char)0xFF, (char)0xFF, (char)0xFF};
    expect_refused(large, sizeof large, "header");
}

TEST(sets_that_cannot_be_written) {
    unlink(path);
    qs_tensor_set set = usual_set();
    memcpy(entries[2].name, entries[0].name, sizeof entries[2].name);
    assert_refused(qs_tensor_set_write(path, &set), QS_USAGE, "conv1.codes");
    set = usual_set();
    entries[1].tensor.format = qs_format_of("e5m2");
    assert_int_equal(qs_tensor_set_write(path, &set), QS_UNSUPPORTED);
    set = usual_set();
    entries[1].name[0] = '\0';
    assert_int_equal(qs_tensor_set_write(path, &set), QS_USAGE);
    set = usual_set();
    memset(entries[1].name, 'x', sizeof entries[1].name);
    assert_int_equal(qs_tensor_set_write(path, &set), QS_USAGE);
    set = usual_set();
    entries[1].tensor.shape.dim[2] = 0;
    assert_int_equal(qs_tensor_set_write(path, &set), QS_USAGE);
    assert_int_equal(access(path, F_OK), -1);
    set = usual_set();
    assert_int_equal(qs_tensor_set_write("/nowhere/weights", &set), QS_BAD_FILE);
    qs_tensor_set back;
    assert_int_equal(qs_tensor_set_read(path, &back), QS_BAD_FILE);
}

TEST_MAIN_WITH(make_folder, remove_folder, round_trip, empty_set, layout, truncated_and_damaged, inconsistent_headers,
               sets_that_cannot_be_written)
