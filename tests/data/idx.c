// SPDX-License-Identifier: Apache-2.0
// labels: short
/* IDX files: what is accepted, and that every way of breaking a file is told from the others by file, offset and rule. */
#include "files.h"

enum { count = 6, item = 28 * 28, images_bytes = 16 + count * item, labels_bytes = 8 + count };

static unsigned char images_memory[images_bytes], labels_memory[labels_bytes];
static const bytes images = {images_memory, images_bytes}, labels = {labels_memory, labels_bytes};
static const char images_name[] = "t10k-images-idx3-ubyte", labels_name[] = "t10k-labels-idx1-ubyte";

static void big_endian(unsigned char *at, uint32_t value) {
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(value >> (24 - 8 * i));
}

static int setup(void **state) {
    big_endian(images_memory, 2051);
    big_endian(images_memory + 4, count);
    big_endian(images_memory + 8, 28);
    big_endian(images_memory + 12, 28);
    big_endian(labels_memory, 2049);
    big_endian(labels_memory + 4, count);
    for (int i = 0; i < count * item; i++)
        images_memory[16 + i] = (unsigned char)(i % item % 28 < 14 ? 0 : i * 7 + i / item);
    for (int i = 0; i < count; i++)
        labels_memory[8 + i] = (unsigned char)((i * 3) % 10);
    return folder_setup(state);
}

static int reset(void **state) {
    (void)state;
    file_remove("t10k-images-idx3-ubyte.gz");
    file_remove("t10k-labels-idx1-ubyte.gz");
    file_write(images_name, images);
    file_write(labels_name, labels);
    return 0;
}

/* Replaces the images by their gzip form `packed`. */
static void use_packed_images(bytes packed) {
    file_remove(images_name);
    file_write("t10k-images-idx3-ubyte.gz", packed);
}

TEST(loads_exactly) {
    qs_dataset set;
    assert_ok(qs_dataset_load("mnist", test_folder, QS_PART_TEST, 0, &set));
    assert_int_equal(set.count, count);
    assert_string_equal(set.description.name, "mnist");
    assert_memory_equal(set.input[0], images_memory + 16, count * item);
    for (int i = 0; i < count; i++)
        assert_int_equal(classes_of(&set)[i], labels_memory[8 + i]);
    qs_dataset_release(&set);
    assert_null(set.input[0]);
}

TEST(limit_keeps_first) {
    qs_dataset set;
    assert_ok(qs_dataset_load("mnist", test_folder, QS_PART_TEST, 2, &set));
    assert_int_equal(set.count, 2);
    assert_memory_equal(set.input[0], images_memory + 16, 2 * item);
    qs_dataset_release(&set);
    assert_ok(qs_dataset_load("mnist", test_folder, QS_PART_TEST, 1000, &set));
    assert_int_equal(set.count, count);
    qs_dataset_release(&set);
}

TEST(limit_hides_no_fault) {
    qs_dataset set;
    bytes longer = copied(images, 1);
    longer.count++;
    file_write(images_name, longer);
    assert_int_equal(qs_dataset_load("mnist", test_folder, QS_PART_TEST, 2, &set), QS_BAD_FILE);
    free(longer.data);
}

TEST(gzip_equals_plain) {
    qs_dataset plain, packed;
    assert_ok(qs_dataset_load("mnist", test_folder, QS_PART_TEST, 0, &plain));
    bytes gz_images = gzipped(images), gz_labels = gzipped(labels);
    use_packed_images(gz_images);
    file_remove(labels_name);
    file_write("t10k-labels-idx1-ubyte.gz", gz_labels);
    assert_ok(qs_dataset_load("mnist", test_folder, QS_PART_TEST, 0, &packed));
    expect_equal_sets(&plain, &packed);
    qs_dataset_release(&packed);
    /* gzip allows members in a row: the file cut in two and packed piece by piece is the same data. */
    bytes first = gzipped((bytes){images_memory, 1000}), second = gzipped((bytes){images_memory + 1000, images_bytes - 1000});
    bytes joined = copied(first, second.count);
    memcpy(joined.data + first.count, second.data, second.count);
    joined.count += second.count;
    use_packed_images(joined);
    assert_ok(qs_dataset_load("mnist", test_folder, QS_PART_TEST, 0, &packed));
    expect_equal_sets(&plain, &packed);
    qs_dataset_release(&packed);
    qs_dataset_release(&plain);
    free(gz_images.data);
    free(gz_labels.data);
    free(first.data);
    free(second.data);
    free(joined.data);
}

TEST(every_truncation_fails) {
    for (size_t cut = 0; cut < images_bytes; cut += cut < 20 ? 1 : 97) {
        file_write(images_name, (bytes){images_memory, cut});
        expect_bad_file("mnist", test_folder, QS_PART_TEST, images_name, ": offset ");
    }
    file_write(images_name, images);
    for (size_t cut = 0; cut < labels_bytes; cut++) {
        file_write(labels_name, (bytes){labels_memory, cut});
        expect_bad_file("mnist", test_folder, QS_PART_TEST, labels_name, ": offset ");
    }
}

TEST(every_gzip_truncation_fails) {
    bytes packed = gzipped(images);
    for (size_t cut = 0; cut < packed.count; cut += cut < 20 || cut + 20 > packed.count ? 1 : 31) {
        use_packed_images((bytes){packed.data, cut});
        expect_bad_file("mnist", test_folder, QS_PART_TEST, "t10k-images-idx3-ubyte.gz: offset ");
    }
    free(packed.data);
}

/* Past the 10 bytes of gzip header the code, the sum and the length cover every bit. */
TEST(every_gzip_corruption_fails) {
    bytes packed = gzipped(images);
    for (size_t at = 10; at<packed.count; at += at + 10> packed.count ? 1 : 17) {
        packed.data[at] ^= (unsigned char)(1u << at % 8);
        use_packed_images(packed);
        expect_bad_file("mnist", test_folder, QS_PART_TEST, "t10k-images-idx3-ubyte.gz: offset ");
        packed.data[at] ^= (unsigned char)(1u << at % 8);
    }
    free(packed.data);
}

TEST(every_header_byte_counts) {
    for (size_t at = 0; at < 16; at++) {
        bytes wrong = copied(images, 0);
        wrong.data[at] ^= 0x10;
        file_write(images_name, wrong);
        expect_bad_file("mnist", test_folder, QS_PART_TEST, ": offset ");
        free(wrong.data);
    }
}

TEST(names_magic_and_size) {
    file_write(images_name, labels);
    expect_bad_file("mnist", test_folder, QS_PART_TEST, "offset 0: magic number is 2049, must be 2051");
    bytes wide = copied(images, 0);
    big_endian(wide.data + 12, 32);
    file_write(images_name, wide);
    expect_bad_file("mnist", test_folder, QS_PART_TEST, "offset 8: images are 28x32, must be 28x28");
    free(wide.data);
}

TEST(refuses_absurd_counts) {
    bytes huge = copied(images, 0);
    big_endian(huge.data + 4, UINT32_MAX);
    file_write(images_name, huge);
    expect_bad_file("mnist", test_folder, QS_PART_TEST, "offset 4: the header counts 4294967295 items of 784 bytes");
    bytes packed = gzipped(huge);
    use_packed_images(packed);
    expect_bad_file("mnist", test_folder, QS_PART_TEST, "offset 4: the header counts 4294967295 items of 784 bytes");
    big_endian(huge.data + 4, 0);
    reset(NULL);
    file_write(images_name, huge);
    expect_bad_file("mnist", test_folder, QS_PART_TEST, "offset 4: the header counts 0 items");
    free(packed.data);
    free(huge.data);
}

TEST(refuses_mismatched_counts) {
    bytes fewer = copied(labels, 0);
    big_endian(fewer.data + 4, count - 1);
    fewer.count--;
    file_write(labels_name, fewer);
    expect_bad_file("mnist", test_folder, QS_PART_TEST, labels_name, "offset 4: the header counts 5 labels, must equal the 6 images of");
    free(fewer.data);
}

TEST(refuses_trailing_bytes) {
    bytes longer = copied(images, 1);
    longer.count++;
    file_write(images_name, longer);
    expect_bad_file("mnist", test_folder, QS_PART_TEST, images_name, "offset 4720: bytes follow");
    bytes packed = gzipped(longer);
    use_packed_images(packed);
    expect_bad_file("mnist", test_folder, QS_PART_TEST, "offset 4720: bytes follow");
    bytes clean = gzipped(images), dirty = copied(clean, 3);
    dirty.count += 3;
    use_packed_images(dirty);
    expect_bad_file("mnist", test_folder, QS_PART_TEST, "bytes follow the gzip data (at compressed offset");
    free(longer.data);
    free(packed.data);
    free(clean.data);
    free(dirty.data);
}

TEST(refuses_labels_out_of_range) {
    bytes wrong = copied(labels, 0);
    wrong.data[8 + 3] = 10;
    file_write(labels_name, wrong);
    expect_bad_file("mnist", test_folder, QS_PART_TEST, labels_name, "offset 11: label is 10, must be below 10");
    free(wrong.data);
}

TEST(refuses_empty_and_false_gzip) {
    file_write(images_name, (bytes){images_memory, 0});
    expect_bad_file("mnist", test_folder, QS_PART_TEST, images_name, "offset 0: the file is empty");
    use_packed_images(images);
    expect_bad_file("mnist", test_folder, QS_PART_TEST, "ubyte.gz: offset 0: not a gzip file (first bytes 00 00");
    bytes nothing = gzipped((bytes){images_memory, 0});
    use_packed_images(nothing);
    expect_bad_file("mnist", test_folder, QS_PART_TEST, "offset 0: the file ends within the IDX header");
    free(nothing.data);
}

TEST(names_missing_files) {
    file_remove(labels_name);
    expect_bad_file("mnist", test_folder, QS_PART_TEST, labels_name, "tools/fetch-data.sh", "QSYNC_DATA");
    expect_bad_file("mnist", test_folder, QS_PART_TRAINING, "train-images-idx3-ubyte", test_folder);
    unsetenv("QSYNC_DATA");
    expect_bad_file("mnist", NULL, QS_PART_TEST, "QSYNC_DATA", "shapes");
}

TEST(reads_the_environment) {
    qs_dataset set;
    setenv("QSYNC_DATA", test_folder, 1);
    assert_ok(qs_dataset_load("mnist", NULL, QS_PART_TEST, 0, &set));
    qs_dataset_release(&set);
    unsetenv("QSYNC_DATA");
}

TEST(lists_names) {
    expect_failure("emnist", test_folder, QS_PART_TEST, QS_USAGE,
                   (const char *const[]){"emnist", "mnist, fashion-mnist, cifar10, cifar100, shapes", NULL});
    size_t names = 0;
    while (qs_dataset_name_at(names))
        names++;
    assert_int_equal(names, 19);
}

/* MNIST and Fashion-MNIST share file names: the one's folder must not be taken for the other's. */
TEST(keeps_sets_apart) {
    char folder[300];
    qs_dataset set;
    subfolder_make("mnist");
    file_write("mnist/t10k-images-idx3-ubyte", images);
    file_write("mnist/t10k-labels-idx1-ubyte", labels);
    snprintf(folder, sizeof folder, "%s/mnist/", test_folder);
    expect_bad_file("fashion-mnist", folder, QS_PART_TEST, "no file t10k-images-idx3-ubyte");
    assert_ok(qs_dataset_load("mnist", folder, QS_PART_TEST, 0, &set));
    qs_dataset_release(&set);
    file_remove(images_name);
    assert_ok(qs_dataset_load("mnist", test_folder, QS_PART_TEST, 0, &set));
    qs_dataset_release(&set);
}

#define each(test) cmocka_unit_test_setup(test, reset)

int main(void) {
    const struct CMUnitTest tests[] = {
        each(loads_exactly),
        each(limit_keeps_first),
        each(limit_hides_no_fault),
        each(gzip_equals_plain),
        each(every_truncation_fails),
        each(every_gzip_truncation_fails),
        each(every_gzip_corruption_fails),
        each(every_header_byte_counts),
        each(names_magic_and_size),
        each(refuses_absurd_counts),
        each(refuses_mismatched_counts),
        each(refuses_trailing_bytes),
        each(refuses_labels_out_of_range),
        each(refuses_empty_and_false_gzip),
        each(names_missing_files),
        each(reads_the_environment),
        each(lists_names),
        each(keeps_sets_apart),
    };
    return cmocka_run_group_tests_name("data.idx", tests, setup, folder_teardown);
}
