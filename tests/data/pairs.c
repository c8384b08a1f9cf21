// SPDX-License-Identifier: Apache-2.0
// labels: short
// covers: npz npy
/* Sets of NumPy's arrays: every type of input and kind of target comes out as it went in, whatever the layout, the version of the format
 * and the archive; the test part is a file's, an array's or the end; and broken files are refused with file, place and rule. */
#include "files.h"

#include <archive.h>
#include <archive_entry.h>

enum { count = 20, height = 5, width = 6, channels = 3, tokens = 4 };

/* A .npy file in memory; the caller frees. Text of shape as Python writes it. */
static bytes npy(int version, const char *type, const char *order, const char *shape, const void *values, size_t size) {
    char header[256];
    const size_t prologue = version == 1 ? 10 : 12;
    const int length = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }", type, order, shape);
    const size_t whole = (prologue + (size_t)length + 64) / 64 * 64;
    bytes out = {malloc(whole + size), whole + size};
    assert_non_null(out.data);
    memset(out.data, ' ', whole);
    memcpy(out.data, "\x93NUMPY", 6);
    out.data[6] = (unsigned char)version, out.data[7] = 0;
    out.data[8] = (unsigned char)((whole - prologue) & 255), out.data[9] = (unsigned char)((whole - prologue) >> 8);
    if (version > 1) out.data[10] = out.data[11] = 0;
    memcpy(out.data + prologue, header, (size_t)length);
    out.data[whole - 1] = '\n';
    memcpy(out.data + whole, values, size);
    return out;
}

static void npy_write(const char *name, int version, const char *type, const char *shape, const void *values, size_t size) {
    bytes one = npy(version, type, "False", shape, values, size);
    file_write(name, one);
    free(one.data);
}

/* A .npz of arrays in their order; deflated unless `stored`. */
static void npz_write(const char *name, bool stored, int arrays, const char *const *names, const bytes *array) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", test_folder, name);
    struct archive *out = archive_write_new();
    assert_int_equal(archive_write_set_format_zip(out), ARCHIVE_OK);
    if (stored) assert_int_equal(archive_write_zip_set_compression_store(out), ARCHIVE_OK);
    assert_int_equal(archive_write_open_filename(out, path), ARCHIVE_OK);
    for (int i = 0; i < arrays; i++) {
        char member[64];
        struct archive_entry *entry = archive_entry_new();
        snprintf(member, sizeof member, "%s.npy", names[i]);
        archive_entry_set_pathname(entry, member);
        archive_entry_set_size(entry, (la_int64_t)array[i].count);
        archive_entry_set_filetype(entry, AE_IFREG);
        assert_int_equal(archive_write_header(out, entry), ARCHIVE_OK);
        assert_int_equal(archive_write_data(out, array[i].data, array[i].count), (la_ssize_t)array[i].count);
        archive_entry_free(entry);
    }
    assert_int_equal(archive_write_close(out), ARCHIVE_OK);
    archive_write_free(out);
}

static uint8_t hwc[count][height][width][channels], chw[count][channels][height][width];
static int64_t classes[count], ids[count][tokens];
static float real[count][2];

static void arrays_fill(void) {
    for (int i = 0; i < count; i++) {
        for (int y = 0; y < height; y++)
            for (int x = 0; x < width; x++)
                for (int c = 0; c < channels; c++)
                    hwc[i][y][x][c] = chw[i][c][y][x] = (uint8_t)(7 * i + 31 * y + 5 * x + 101 * c);
        for (int t = 0; t < tokens; t++)
            ids[i][t] = 3 * i + t;
        classes[i] = i % 7;
        real[i][0] = (float)i - 3.5f, real[i][1] = 0.125f * (float)i;
    }
}

static void load(const char *name, qs_part part, qs_dataset *set) {
    if (qs_dataset_load(name, test_folder, part, 0, set) != QS_OK) fail_msg("%s: %s", name, qs_message());
}

static const char images_shape[] = "(20, 5, 6, 3)", first_shape[] = "(20, 3, 5, 6)", labels_shape[] = "(20,)";

/* Channels last, mapped, or first, turned; the last tenth or another part tests; and what the samples are is known without values. */
TEST(images_and_classes) {
    qs_dataset set, other;
    qs_data_description is;
    npy_write("x.npy", 1, "|u1", images_shape, hwc, sizeof hwc);
    npy_write("first.npy", 2, "|u1", first_shape, chw, sizeof chw);
    npy_write("y.npy", 3, "<i8", labels_shape, classes, sizeof classes);
    load("npy:x.npy,y.npy", QS_PART_TRAINING, &set);
    assert_int_equal(set.count, 18);
    assert_true(qs_input_is_image(&set.description.samples.input[0]));
    assert_string_equal(set.description.samples.unit, "images");
    assert_int_equal(set.description.samples.target.classes, 7);
    assert_memory_equal(set.input[0], hwc, 18 * sizeof hwc[0]);
    assert_non_null(set.mapping[0].memory);
    for (int i = 0; i < 18; i++)
        assert_int_equal(classes_of(&set)[i], classes[i]);
    load("npy:first.npy,y.npy,classes=9", QS_PART_TRAINING, &other);
    assert_int_equal(other.description.samples.target.classes, 9);
    expect_equal_sets(&set, &other);
    qs_dataset_release(&set);
    qs_dataset_release(&other);
    load("npy:x.npy,y.npy,test=0.25", QS_PART_TEST, &set);
    assert_int_equal(set.count, 5);
    assert_memory_equal(set.input[0], hwc[15], 5 * sizeof hwc[0]);
    assert_int_equal(classes_of(&set)[0], classes[15]);
    qs_dataset_release(&set);
    load("npy:x.npy,y.npy,test=first.npy:chw,y.npy", QS_PART_TEST, &set);
    assert_int_equal(set.count, 20);
    qs_dataset_release(&set);
    assert_ok(qs_dataset_describe("npy:x.npy,y.npy", test_folder, &is));
    assert_int_equal(is.samples.target.classes, 7);
    assert_true(is.deviation[2] == 1 && is.mean[2] == 0);
    npy_write("ids.npy", 1, "<i8", "(20, 4)", ids, sizeof ids);
    assert_ok(qs_dataset_describe("npy:ids.npy,x.npy,y.npy", test_folder, &is));
    assert_true(is.deviation[2] == 1 && is.mean[2] == 0); /* wherever the images stand */
}

/* Names say which array is what; arrays of the test part may lie in the same file; ids have a bound, flags too. */
TEST(archives) {
    uint8_t keep[count][tokens];
    memset(keep, 1, sizeof keep);
    qs_dataset set, stored;
    bytes array[] = {npy(1, "<i8", "False", "(20, 4)", ids, sizeof ids),
                     npy(1, "|b1", "False", "(20, 4)", keep, sizeof keep),
                     npy(1, "<i8", "False", labels_shape, classes, sizeof classes),
                     npy(1, "<i8", "False", "(3, 4)", ids[5], 3 * sizeof ids[0]),
                     npy(1, "|b1", "False", "(3, 4)", keep, 3 * sizeof keep[0]),
                     npy(1, "<i8", "False", "(3,)", classes + 5, 3 * sizeof *classes)};
    static const char *const names[] = {"ids", "keep", "y", "ids_test", "keep_test", "y_test"};
    npz_write("set.npz", false, 6, names, array);
    npz_write("stored.npz", true, 3, names, array);
    npz_write("turned.npz", true, 3, (const char *const[]){"keep", "ids", "y"}, (const bytes[]){array[1], array[0], array[2]});
    expect_bad_file("npz:stored.npz,test=turned.npz", test_folder, QS_PART_TRAINING, "input 1 to train on is \"ids\", to test \"keep\"");
    for (int i = 0; i < 6; i++)
        free(array[i].data);
    load("npz:set.npz", QS_PART_TRAINING, &set);
    load("npz:stored.npz,input=ids,input=keep,target=y,test=set.npz", QS_PART_TRAINING, &stored);
    assert_int_equal(set.count, count);
    assert_int_equal(stored.count, count);
    assert_int_equal(set.description.samples.inputs, 2);
    assert_string_equal(set.description.samples.input[1].name, "keep");
    assert_int_equal(set.description.samples.input[0].bound, 3 * 19 + 3 + 1);
    assert_int_equal(set.description.samples.input[1].bound, 2);
    assert_string_equal(set.description.samples.unit, "samples");
    for (int i = 0; i < count * tokens; i++) {
        assert_int_equal(((const int32_t *)set.input[0])[i], ids[i / tokens][i % tokens]);
        assert_int_equal(((const int32_t *)stored.input[1])[i], 1);
    }
    qs_dataset_release(&set);
    qs_dataset_release(&stored);
    load("npz:set.npz", QS_PART_TEST, &set);
    assert_int_equal(set.count, 3);
    assert_int_equal(((const int32_t *)set.input[0])[0], ids[5][0]);
    assert_int_equal(classes_of(&set)[2], classes[7]);
    qs_dataset_release(&set);
}

static void target_of(const char *options, qs_target_kind kind, int64_t extent, int64_t kinds) {
    char name[128];
    qs_dataset set;
    snprintf(name, sizeof name, "npy:ids.npy,%s", options);
    load(name, QS_PART_TRAINING, &set);
    const qs_target *target = &set.description.samples.target;
    assert_int_equal(target->kind, kind);
    assert_int_equal(target->extent, extent);
    assert_int_equal(target->classes, kinds);
    qs_dataset_release(&set);
}

/* A target's kind follows from type and shape, or is said. */
TEST(targets) {
    int32_t span[count][2], tags[count][tokens];
    for (int i = 0; i < count; i++) {
        span[i][0] = i % 3, span[i][1] = 3;
        for (int t = 0; t < tokens; t++)
            tags[i][t] = t == i % tokens ? -5 : t + i % 2;
    }
    npy_write("ids.npy", 1, "<i8", "(20, 4)", ids, sizeof ids);
    npy_write("span.npy", 1, "<i4", "(20, 2)", span, sizeof span);
    npy_write("tags.npy", 1, "<i4", "(20, 4)", tags, sizeof tags);
    npy_write("real.npy", 1, "<f4", "(20, 2)", real, sizeof real);
    npy_write("classes.npy", 1, "<i8", "(20, 1)", classes, sizeof classes);
    target_of("span.npy", QS_TARGET_SPAN, tokens, 0);
    target_of("span.npy:positions", QS_TARGET_CLASS_PER_POSITION, 2, 4);
    target_of("tags.npy", QS_TARGET_CLASS_PER_POSITION, tokens, 5);
    target_of("real.npy", QS_TARGET_REAL, 2, 0);
    target_of("classes.npy", QS_TARGET_CLASS, 1, 7);
    target_of("classes.npy:real", QS_TARGET_REAL, 1, 0);
    enum { pixels = 3 << 16 }; /* an image is learned */
    static float image[count][pixels];
    npy_write("image.npy", 1, "<f4", "(20, 196608)", image, sizeof image);
    target_of("image.npy", QS_TARGET_REAL, pixels, 0);
    qs_dataset set;
    load("npy:ids.npy,tags.npy", QS_PART_TRAINING, &set);
    assert_int_equal(set.description.samples.target.ignored, -5);
    qs_dataset_release(&set);
    expect_bad_file("npy:ids.npy,tags.npy,ignored=-1", test_folder, QS_PART_TRAINING, "tags.npy", "sample 0 has the target -5",
                    "ignored=N");
    expect_bad_file("npy:ids.npy,classes.npy,classes=4", test_folder, QS_PART_TRAINING, "classes.npy", "has the target 4, must be 0 to 3");
    expect_bad_file("npy:ids.npy,tags.npy:class", test_folder, QS_PART_TRAINING, "tags.npy", "4 values a sample");
}

/* What a type holds is read exactly: small values of each stand for themselves. */
TEST(types_are_widened) {
    static const struct {
        const char *type;
        uint64_t one; /* the bits of 1 */
        size_t bytes;
    } kinds[] = {{"|i1", 1, 1},
                 {"|u1", 1, 1},
                 {"<u2", 1, 2},
                 {"<i2", 1, 2},
                 {"<u4", 1, 4},
                 {"<i4", 1, 4},
                 {"<u8", 1, 8},
                 {"<i8", 1, 8},
                 {"<f2", 0x3c00, 2},
                 {"<f4", 0x3f800000, 4},
                 {"<f8", UINT64_C(0x3ff0000000000000), 8}};
    npy_write("labels.npy", 1, "<i8", labels_shape, classes, sizeof classes);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        uint8_t values[count * 2 * 8] = {0};
        qs_dataset set;
        for (size_t i = 1; i < count * 2; i += 2) /* every row is 0, 1 */
            memcpy(values + i * kinds[k].bytes, &kinds[k].one, kinds[k].bytes);
        npy_write("v.npy", 1, kinds[k].type, "(20, 2)", values, count * 2 * kinds[k].bytes);
        load("npy:v.npy:real,labels.npy", QS_PART_TRAINING, &set);
        assert_int_equal(set.description.samples.input[0].type, QS_INPUT_F32);
        for (int i = 0; i < 36; i++)
            assert_true(((const float *)set.input[0])[i] == (float)(i % 2));
        qs_dataset_release(&set);
        if (kinds[k].type[1] == 'f') continue;
        load("npy:v.npy:ids,labels.npy", QS_PART_TRAINING, &set);
        assert_int_equal(set.description.samples.input[0].bound, 2);
        for (int i = 0; i < 36; i++)
            assert_int_equal(((const int32_t *)set.input[0])[i], i % 2);
        qs_dataset_release(&set);
    }
}

TEST(values_beyond_32_bits) {
    static const uint64_t wrong[] = {UINT64_C(1) << 31, UINT64_C(1) << 63, UINT64_MAX};
    npy_write("labels.npy", 1, "<i8", labels_shape, classes, sizeof classes);
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        uint64_t values[count] = {0};
        values[7] = wrong[k];
        npy_write("v.npy", 1, "<u8", labels_shape, values, sizeof values);
        expect_bad_file("npy:v.npy,labels.npy", test_folder, QS_PART_TRAINING, "v.npy", "sample 7 has a value that does not fit 32 bits");
    }
    npy_write("v.npy", 1, "<i8", labels_shape, wrong + 0, sizeof *wrong);
    expect_bad_file("npy:v.npy,labels.npy", test_folder, QS_PART_TRAINING, "8 bytes of values");
}

static float batch_value(qs_dataset *set, const int64_t *extent) {
    float *input = calloc((size_t)(extent[0] * extent[1] * extent[2]), sizeof *input);
    int32_t target[2];
    const int64_t index = 2;
    assert_non_null(input);
    qs_batch batch = {.input = {input}, .target = target};
    memcpy(batch.extent[0], extent, 3 * sizeof *extent);
    assert_ok(qs_batch_fill(set, NULL, &index, 1, &batch));
    const float value = input[channels * 2 + 1]; /* pixel 2 of the first row, channel 1 */
    free(input);
    return value;
}

/* (value / scale - mean) / deviation, of bytes and of floats alike. */
TEST(normalisation) {
    static const double mean[] = {0.5, 0.25, 0.125}, deviation[] = {0.5, 0.2, 0.1}, half = 0.5;
    const int64_t frame[] = {height, width, channels};
    static float floats[count][channels][height][width];
    qs_dataset set;
    npy_write("x.npy", 1, "|u1", images_shape, hwc, sizeof hwc);
    npy_write("y.npy", 1, "<i8", labels_shape, classes, sizeof classes);
    for (int i = 0; i < count * channels * height * width; i++)
        (&floats[0][0][0][0])[i] = (float)(&chw[0][0][0][0])[i];
    npy_write("f.npy", 1, "<f4", first_shape, floats, sizeof floats);
    for (int as_floats = 0; as_floats < 2; as_floats++) {
        const float byte = hwc[2][0][2][1];
        load(as_floats ? "npy:f.npy,y.npy" : "npy:x.npy,y.npy", QS_PART_TRAINING, &set);
        assert_true(batch_value(&set, frame) == (as_floats ? byte : byte / 255.0f));
        assert_ok(qs_data_normalize(&set.description, 0, NULL, 0, NULL, 0));
        assert_true(batch_value(&set, frame) == (as_floats ? byte : byte / 255.0f));
        assert_ok(qs_data_normalize(&set.description, 3, mean, 3, deviation, 255));
        assert_true(batch_value(&set, frame) == (byte / 255.0f - 0.25f) / 0.2f);
        assert_ok(qs_data_normalize(&set.description, 1, &half, 0, NULL, 0));
        assert_true(batch_value(&set, frame) == (as_floats ? byte : byte / 255.0f) - 0.5f);
        assert_ok(qs_data_normalize(&set.description, 0, NULL, 0, NULL, 1));
        assert_true(batch_value(&set, frame) == byte);
        assert_refused(qs_data_normalize(&set.description, 2, mean, 0, NULL, 0), QS_USAGE, "2 means and 0 deviations");
        assert_refused(qs_data_normalize(&set.description, 0, NULL, 1, (const double[]){0}, 0), QS_USAGE, "deviation 0, must be above 0");
        qs_dataset_release(&set);
    }
    npy_write("ids.npy", 1, "<i8", "(20, 4)", ids, sizeof ids);
    load("npy:ids.npy,y.npy", QS_PART_TRAINING, &set);
    assert_refused(qs_data_normalize(&set.description, 0, NULL, 0, NULL, 1), QS_USAGE, "neither images nor floats");
    qs_dataset_release(&set);
}

static void refuse(const char *type, const char *order, const char *shape, size_t size, const char *part) {
    static const uint8_t values[8192];
    bytes one = npy(1, type, order, shape, values, size);
    file_write("bad.npy", one);
    free(one.data);
    expect_bad_file("npy:bad.npy,y.npy", test_folder, QS_PART_TRAINING, "bad.npy", part);
}

TEST(broken_files) {
    npy_write("y.npy", 1, "<i8", labels_shape, classes, sizeof classes);
    refuse(">f4", "False", "(20, 2)", 160, "big endian");
    refuse("<f4", "True", "(20, 2)", 160, "Fortran order");
    refuse("<c8", "False", "(20, 2)", 320, "values of type '<c8'");
    refuse("|O", "False", "(20, 2)", 320, "values of type '|O'");
    refuse("<f4", "False", "(20, 2)", 159, "159 bytes of values, its shape and type ask for 160");
    refuse("<f4", "False", "(20, 2)", 161, "ask for 160");
    refuse("<f4", "False", "(20, -2)", 160, "an extent must be a number");
    refuse("<f4", "False", "(2000000000, 2000000000, 2000000000)", 160, "rows of more than 2^40 values");
    refuse("<f4", "False", "(2000000000, 500000000)", 160, "bytes of values");
    refuse("<f4", "False", "(1,1,1,1,1,1,1,1,1)", 4, "more than 8 axes");
    refuse("<f4", "Maybe", "(20, 2)", 160, "one of the keys");
    refuse("<f4", "False", "(20, 2", 160, "an extent must be a number");
    refuse("<f4", "False", "(20 2)", 160, "a comma or the end of the shape");
    refuse("<f4', 'more': '1", "False", "(20, 2)", 160, "one of the keys");
    refuse("<f4", "False", "(0, 2)", 0, "0: they must have as many");
    refuse("<f4", "False", "(19, 2)", 152, "they must have as many");
    refuse("|u1", "False", "(20, 6, 6, 6)", 20 * 216, "bytes of images");
    refuse("|u1", "False", "(20, 3, 6, 3)", 20 * 54, "may both be channels");
    file_write("bad.npy", (bytes){(unsigned char *)"\x93NUMPY\x04\x00\x10\x00{ ", 12});
    expect_bad_file("npy:bad.npy,y.npy", test_folder, QS_PART_TRAINING, "bad.npy", "version 4.0");
    file_write("bad.npy", (bytes){(unsigned char *)"\x93NUMPY\x01\x00\x10\x40{ ", 12});
    expect_bad_file("npy:bad.npy,y.npy", test_folder, QS_PART_TRAINING, "bad.npy", "offset 8");
    file_write("bad.npy", (bytes){(unsigned char *)"no array", 8});
    expect_bad_file("npy:bad.npy,y.npy", test_folder, QS_PART_TRAINING, "bad.npy", "12 bytes or more");
    expect_bad_file("npy:none.npy,y.npy", test_folder, QS_PART_TRAINING, "none.npy");
}

/* Archives that are cut, changed, or hold something else. */
TEST(broken_archives) {
    static const char *const names[] = {"x", "y"};
    bytes array[] = {npy(1, "<f4", "False", "(20, 2)", real, sizeof real), npy(1, "<i8", "False", labels_shape, classes, sizeof classes)};
    char path[512];
    npz_write("set.npz", true, 2, names, array);
    npz_write("text.npz", false, 1, names, &(bytes){(unsigned char *)"this is no array of anything", 28});
    snprintf(path, sizeof path, "%s/set.npz", test_folder);
    char *whole = NULL;
    size_t size = 0;
    assert_ok(qs_file_read(path, 1 << 20, &whole, &size));
    qs_dataset set;
    load("npz:set.npz", QS_PART_TRAINING, &set);
    qs_dataset_release(&set);
    for (size_t cut = 0; cut < size; cut += 37) {
        file_write("cut.npz", (bytes){(unsigned char *)whole, cut});
        expect_bad_file("npz:cut.npz", test_folder, QS_PART_TRAINING, "cut.npz");
    }
    whole[200] ^= 0x40; /* within the values of x: the archive's sum says so */
    file_write("changed.npz", (bytes){(unsigned char *)whole, size});
    expect_bad_file("npz:changed.npz", test_folder, QS_PART_TRAINING, "changed.npz");
    expect_bad_file("npz:text.npz", test_folder, QS_PART_TRAINING, "text.npz: x", "no array of NumPy");
    expect_bad_file("npz:set.npz,input=z,target=y", test_folder, QS_PART_TRAINING, "no array \"z\"");
    expect_bad_file("npz:set.npz,input=x,target=x", test_folder, QS_PART_TRAINING, "named twice");
    npz_write("nameless.npz", false, 1, names, array);
    expect_bad_file("npz:nameless.npz", test_folder, QS_PART_TRAINING, "no array is called target");
    free(whole);
    free(array[0].data);
    free(array[1].data);
}

TEST(wrong_names) {
    static const char *const wrong[][2] = {{"npy:x.npy", "must be npy:"},
                                           {"npy:x.npy,y.npy,test=1.5", "between 0 and 1"},
                                           {"npy:x.npy,y.npy,test=a.npy", "2 files to train on and 1 to test"},
                                           {"npy:x.npy,y.npy,size=3", "no option size="},
                                           {"npz:", "must be npz:"},
                                           {"npz:a.npz,b.npz", "no option"},
                                           {"npz:a.npz,classes=1", "classes=1"},
                                           {"npy:a,b,c,d,e,f", "at most 4 inputs"}};
    qs_data_description is;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_refused(qs_dataset_describe(wrong[i][0], test_folder, &is), QS_USAGE, wrong[i][1]);
}

static int setup(void **state) {
    arrays_fill();
    assert_int_equal(qs_threads_set(1), QS_OK);
    return folder_setup(state);
}

TEST_MAIN_WITH(setup, folder_teardown, images_and_classes, archives, targets, types_are_widened, values_beyond_32_bits, normalisation,
               broken_files, broken_archives, wrong_names)
