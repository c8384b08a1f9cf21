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

static qs_tensor_set usual_set(void) {
    const qs_named_tensor list[4] = {
        {"conv1.weight", {qs_shape_of(4, 3, 2, 1, 1), qs_format_of("fp32"), weights}, ""},
        {"scalar", {qs_shape_of(0), qs_format_of("fp32"), &scalar}, ""},
        {"odd \"name\" ä", {qs_shape_of(2, 1, 3), qs_format_of("bf16"), half}, ""},
        {"conv1.codes", {qs_shape_of(1, 5), qs_format_of("int8"), codes}, ""},
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
        assert_int_equal((uintptr_t)is->data % qs_format_bytes(was->format, 1), 0);
        assert_memory_equal(is->data, was->data, qs_tensor_bytes(&was->shape, was->format));
        assert_ptr_equal(qs_tensor_set_find(&back, set.tensors[i].name), is);
    }
    assert_null(qs_tensor_set_find(&back, "conv2.weight"));
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

/* What any safetensors reader relies on: prefix, JSON object, offsets from the end of the header, data without gaps, larger types first
 * whatever the order of the set. */
TEST(layout) {
    qs_tensor_set set = usual_set();
    const qs_named_tensor first = entries[0];
    entries[0] = entries[3];
    entries[3] = first;
    assert_ok(qs_tensor_set_write(path, &set));
    char *file;
    size_t bytes;
    uint64_t length;
    assert_ok(qs_file_read(path, 1 << 20, &file, &bytes));
    memcpy(&length, file, 8);
    assert_int_equal((8 + length) % 64, 0);
    assert_int_equal(bytes, 8 + length + 4 + 24 + 6 + 5);
    json_t *header = json_loadb(file + 8, length, 0, NULL), *entry = json_object_get(header, "conv1.weight");
    assert_string_equal(json_string_value(json_object_get(entry, "dtype")), "F32");
    assert_int_equal(json_integer_value(json_array_get(json_object_get(entry, "data_offsets"), 0)), 4);
    assert_int_equal(json_integer_value(json_array_get(json_object_get(entry, "data_offsets"), 1)), 28);
    assert_memory_equal(file + 8 + length + 4, weights, sizeof weights);
    assert_memory_equal(file + 8 + length + 34, codes, sizeof codes);
    json_t *metadata = json_object_get(header, "__metadata__"), *value;
    const char *key;
    json_object_foreach(metadata, key, value) assert_true(json_is_string(value));
    assert_string_equal(json_string_value(json_object_get(metadata, "format")), "pt");
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

/* Writes a file of this header and so many bytes of data; returns its size. */
static size_t file_fill(const char *header, size_t data_bytes, char file[4096]) {
    const uint64_t length = strlen(header);
    assert_true(8 + length + data_bytes <= 4096);
    memset(file, 0, 4096);
    memcpy(file, &length, 8);
    memcpy(file + 8, header, length);
    return 8 + length + data_bytes;
}

static void expect_header_refused(const char *header, size_t data_bytes, const char *says) {
    char file[4096];
    expect_refused(file, file_fill(header, data_bytes, file), says);
}

#define META "\"__metadata__\":{\"schema\":\"qsync/weights/2\",\"model\":\"mlp\",\"hash\":\"xxh64:0000000000000000\"}"
#define ENTRY(name, dtype, shape, offsets) "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
TEST(inconsistent_headers) {
    expect_header_refused("[]", 0, "JSON object");
    expect_header_refused("{", 0, "no JSON");
    expect_header_refused("{" META "," META "}", 0, "no JSON");
    expect_header_refused("{" META "}", 0, "damaged");
    expect_header_refused("{\"__metadata__\":{\"schema\":\"qsync/weights/1\",\"model\":\"mlp\",\"hash\":\"\"}}", 0, "of an older qsync");
    expect_header_refused("{\"__metadata__\":{\"schema\":\"qsync/weights/3\"}}", 0, "qsync/weights/2");
    expect_header_refused("{\"__metadata__\":{\"schema\":\"qsync/weights/2\"}}", 0, "damaged");
    expect_header_refused("{\"__metadata__\":{\"epoch\":3}}", 0, "\"epoch\" in __metadata__ must be a text");
    expect_header_refused("{\"__metadata__\":[]}", 0, "must be an object of texts");
    expect_header_refused("{" ENTRY("a", "F12", "[1]", "[0,8]") "}", 8, "a: \"dtype\" F12 is none");
    expect_header_refused("{" ENTRY("a", "F32", "[1]", "[4,8]") "}", 8, "4 bytes before a are no tensor's");
    expect_header_refused("{" ENTRY("a", "F32", "[1]", "[0,8]") "}", 8, "a: \"data_offsets\" [0, 8] for 4 bytes");
    expect_header_refused("{" ENTRY("a", "F32", "[1]", "[4,0]") "}", 8, "a: \"data_offsets\" [4, 0] for 4 bytes");
    expect_header_refused("{" ENTRY("a", "F32", "[1]", "[-4,0]") "}", 8, "two whole numbers");
    expect_header_refused("{" ENTRY("a", "F32", "[1]", "[0,4.0]") "}", 8, "two whole numbers");
    expect_header_refused("{" ENTRY("a", "F32", "[1]", "[0,9223372036854775808]") "}", 8, "no JSON");
    expect_header_refused("{" ENTRY("a", "F32", "[1]", "[9223372036854775804,9223372036854775807]") "}", 8, "for 4 bytes");
    expect_header_refused("{" ENTRY("a", "F32", "[-1]", "[0,4]") "}", 4, "whole numbers");
    expect_header_refused("{" ENTRY("a", "F32", "[0]", "[0,0]") "}", 0, "at least 1");
    expect_header_refused("{" ENTRY("a", "F32", "[1.5]", "[0,4]") "}", 4, "whole numbers");
    expect_header_refused("{" ENTRY("a", "F32", "[1,1,1,1,1]", "[0,4]") "}", 4, "at most 4");
    expect_header_refused("{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "a must hold");
    expect_header_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"more\":[[]]}}", 4, "nothing else");
    expect_header_refused("{" ENTRY("a", "F32", "[2]", "[0,8]") "}", 7, "the file ends within a");
    expect_header_refused("{" ENTRY("a", "F32", "[1099511627776,2]", "[0,8]") "}", 8, "2^40");
    expect_header_refused("{" ENTRY("", "F32", "[1]", "[0,4]") "}", 4, "name");
    expect_header_refused("{\"a\":3}", 0, "a must hold");
    expect_header_refused("{" ENTRY("a", "F32", "[2]", "[0,8]") "," ENTRY("b", "F32", "[2]", "[4,12]") "}", 12,
                          "the data of b overlap those of a");
    expect_header_refused("{" ENTRY("a", "F32", "[1]", "[0,4]") "," ENTRY("b", "F32", "[1]", "[8,12]") "}", 12, "4 bytes before b");
    expect_header_refused("{" ENTRY("a", "I8", "[2]", "[0,2]") "," ENTRY("b", "F32", "[1]", "[2,6]") "}", 6,
                          "no multiples of the 4 bytes of F32");
    expect_header_refused("{" ENTRY("a", "F32", "[1]", "[0,4]") "," ENTRY("a", "F32", "[1]", "[4,8]") "}", 8, "no JSON");
    char large[16] = {(char)0xFF, (char)0xFF, (char)0xFF, (char)0xFF, (char)0xFF, (char)0xFF, (char)0xFF, (char)0xFF};
    expect_refused(large, sizeof large, "a header of 18446744073709551615 bytes");
    memcpy(large, (const unsigned char[8]){0, 0, 0, 0, 0, 0, 0, 0x80}, 8); /* 2^63 */
    expect_refused(large, sizeof large, "a header of 9223372036854775808 bytes");
    memset(large, 0xFF, 7);
    large[7] = 0;
    expect_refused(large, sizeof large, "the format allows 100000000");
    const char too_long[16] = {40};
    expect_refused(too_long, sizeof too_long, "the header has 40 bytes, the file only 8 more");
    char *deep = malloc(8 + 100000);
    const uint64_t length = 100000;
    memcpy(deep, &length, 8);
    memset(deep + 8, '[', 100000);
    expect_refused(deep, 8 + 100000, "no JSON: maximum parsing depth");
    free(deep);
}

/* A file as other programs write it: no metadata of ours, entries in any order, types that have no format here, a short header. */
TEST(files_of_others) {
    char file[4096];
    qs_tensor_set set;
    put_file(file, file_fill("{" ENTRY("b", "F16", "[3]", "[12,18]") "," ENTRY(
                                 "ids", "I64", "[1]", "[0,8]") ",\"__metadata__\":{\"by\":\"x\"}," ENTRY("a", "F32", "[]", "[8,12]") "}",
                             18, file));
    assert_ok(qs_tensor_set_read(path, &set));
    assert_int_equal(set.count, 3);
    assert_string_equal(set.model, "");
    assert_string_equal(set.tensors[0].name, "ids");
    assert_string_equal(set.tensors[0].dtype, "I64");
    assert_null(set.tensors[0].tensor.format);
    assert_string_equal(set.tensors[1].name, "a");
    assert_ptr_equal(qs_tensor_set_find(&set, "b")->format, qs_format_of("fp16"));
    assert_true(set.hash != 0);
    qs_tensor_set_release(&set);
    put_file(file, file_fill("{}", 0, file));
    assert_ok(qs_tensor_set_read(path, &set));
    assert_int_equal(set.count, 0);
    qs_tensor_set_release(&set);
}

/* No hash tells of damage in files of others: whatever a header says is refused or stays within the file. The sanitizers' build sees
 * what is read beside it. */
TEST(damaged_files_of_others) {
    char whole[4096], file[4096];
    const size_t bytes = file_fill("{" ENTRY("a", "F32", "[2,1]", "[0,8]") "," ENTRY("b", "BF16", "[3]", "[8,14]") "}", 14, whole);
    int taken = 0;
    for (size_t i = 0; i < bytes; i++) {
        expect_refused(whole, i, NULL);
        for (int bit = 0; bit < 8; bit++) {
            qs_tensor_set set = {0};
            memcpy(file, whole, bytes);
            file[i] = (char)(file[i] ^ (1 << bit));
            put_file(file, bytes);
            if (qs_tensor_set_read(path, &set) != QS_OK) continue;
            taken++;
            for (size_t t = 0; t < set.count; t++) {
                const qs_named_tensor *one = &set.tensors[t];
                const size_t size = one->tensor.format ? qs_tensor_bytes(&one->tensor.shape, one->tensor.format) : 0;
                const char *data = one->tensor.data;
                assert_true(data >= set.memory && data + size <= set.memory + bytes);
                (void)qs_hash(data, size, 0);
            }
            qs_tensor_set_release(&set);
        }
    }
    assert_true(taken >= 14 * 8); /* what is changed in values only */
}

TEST(sets_that_cannot_be_written) {
    unlink(path);
    qs_tensor_set set = usual_set();
    memcpy(entries[2].name, entries[0].name, sizeof entries[2].name);
    assert_refused(qs_tensor_set_write(path, &set), QS_USAGE, "conv1.weight");
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
    entries[0].tensor.shape.dim[2] = 0;
    assert_int_equal(qs_tensor_set_write(path, &set), QS_USAGE);
    assert_int_equal(access(path, F_OK), -1);
    set = usual_set();
    assert_int_equal(qs_tensor_set_write("/nowhere/weights", &set), QS_BAD_FILE);
    qs_tensor_set back;
    assert_int_equal(qs_tensor_set_read(path, &back), QS_BAD_FILE);
}

TEST_MAIN_WITH(make_folder, remove_folder, round_trip, empty_set, layout, truncated_and_damaged, inconsistent_headers, files_of_others,
               damaged_files_of_others, sets_that_cannot_be_written)
