// SPDX-License-Identifier: Apache-2.0
// labels: short
/* CIFAR binary files: planes become channels last, fine labels are used, parts are joined in order, broken files are refused. */
#include "files.h"

enum { planes = 3072, records = 40, ten_record = 1 + planes, hundred_record = 2 + planes };

static unsigned char ten_memory[records * ten_record], hundred_memory[records * hundred_record];
static const bytes ten = {ten_memory, sizeof ten_memory}, hundred = {hundred_memory, sizeof hundred_memory};

static unsigned char plane_value(int record, int channel, int pixel) {
    return (unsigned char)(record * 5 + channel * 80 + pixel * (pixel % 3 == 0));
}

static int setup(void **state) {
    for (int record = 0; record < records; record++) {
        ten_memory[record * ten_record] = (unsigned char)(record % 10);
        hundred_memory[record * hundred_record] = (unsigned char)(record % 20);
        hundred_memory[record * hundred_record + 1] = (unsigned char)(99 - record);
        for (int i = 0; i < planes; i++) {
            ten_memory[record * ten_record + 1 + i] = plane_value(record, i / 1024, i % 1024);
            hundred_memory[record * hundred_record + 2 + i] = plane_value(record, i / 1024, i % 1024);
        }
    }
    return folder_setup(state);
}

static int reset(void **state) {
    (void)state;
    const char *const names[] = {"data_batch_1.bin", "data_batch_1.bin.gz", "data_batch_4.bin",       "data_batch_4.bin.gz",
                                 "test_batch.bin",   "train.bin",           "train-subset4000.bin.gz"};
    for (size_t i = 0; i < COUNT_OF(names); i++)
        file_remove(names[i]);
    return 0;
}

TEST(planes_become_channels_last) {
    qs_dataset set;
    file_write("test_batch.bin", ten);
    assert_ok(qs_dataset_load("cifar10", test_folder, QS_PART_TEST, 0, &set));
    assert_int_equal(set.count, records);
    for (int record = 0; record < records; record++) {
        assert_int_equal(classes_of(&set)[record], record % 10);
        for (int i = 0; i < planes; i++)
            assert_int_equal(image_bytes_of(&set)[record * planes + i], plane_value(record, i % 3, i / 3));
    }
    qs_dataset_release(&set);
}

TEST(fine_label_is_used) {
    qs_dataset set;
    bytes packed = gzipped(hundred);
    file_write("train-subset4000.bin.gz", packed);
    assert_ok(qs_dataset_load("cifar100", test_folder, QS_PART_TRAINING, 0, &set));
    assert_int_equal(set.count, records);
    for (int record = 0; record < records; record++)
        assert_int_equal(classes_of(&set)[record], 99 - record);
    assert_int_equal(image_bytes_of(&set)[planes + 1], plane_value(1, 1, 0));
    qs_dataset_release(&set);
    free(packed.data);
}

/* The whole file wins over the subset: the two are never joined, the subset's images are among the others. */
TEST(whole_file_before_subset) {
    qs_dataset set;
    bytes packed = gzipped(hundred);
    file_write("train-subset4000.bin.gz", packed);
    file_write("train.bin", (bytes){hundred_memory, 3 * hundred_record});
    assert_ok(qs_dataset_load("cifar100", test_folder, QS_PART_TRAINING, 0, &set));
    assert_int_equal(set.count, 3);
    qs_dataset_release(&set);
    free(packed.data);
}

TEST(joins_the_batches_there_are) {
    qs_dataset set;
    bytes packed = gzipped((bytes){ten_memory + 7 * ten_record, 5 * ten_record});
    file_write("data_batch_1.bin", (bytes){ten_memory, 20 * ten_record});
    file_write("data_batch_4.bin.gz", packed);
    assert_ok(qs_dataset_load("cifar10", test_folder, QS_PART_TRAINING, 0, &set));
    assert_int_equal(set.count, 25);
    assert_int_equal(classes_of(&set)[19], 9);
    assert_int_equal(classes_of(&set)[20], 7);
    assert_int_equal(image_bytes_of(&set)[20 * planes], plane_value(7, 0, 0));
    qs_dataset_release(&set);
    assert_ok(qs_dataset_load("cifar10", test_folder, QS_PART_TRAINING, 22, &set));
    assert_int_equal(set.count, 22);
    qs_dataset_release(&set);
    free(packed.data);
}

TEST(gzip_equals_plain) {
    qs_dataset plain, packed_set;
    file_write("data_batch_1.bin", ten);
    assert_ok(qs_dataset_load("cifar10", test_folder, QS_PART_TRAINING, 0, &plain));
    reset(NULL);
    bytes packed = gzipped(ten);
    file_write("data_batch_1.bin.gz", packed);
    assert_ok(qs_dataset_load("cifar10", test_folder, QS_PART_TRAINING, 0, &packed_set));
    expect_equal_sets(&plain, &packed_set);
    qs_dataset_release(&plain);
    qs_dataset_release(&packed_set);
    free(packed.data);
}

TEST(refuses_partial_records) {
    file_write("test_batch.bin", (bytes){ten_memory, 17 * ten_record + 5});
    expect_bad_file("cifar10", test_folder, QS_PART_TEST, "test_batch.bin: offset 52241: the last record has 5 bytes, must have 3073");
    file_write("test_batch.bin", (bytes){ten_memory, ten.count - 1});
    expect_bad_file("cifar10", test_folder, QS_PART_TEST, "offset 119847: the last record has 3072 bytes");
}

TEST(refuses_labels_out_of_range) {
    bytes wrong = copied(ten, 0);
    wrong.data[33 * ten_record] = 10;
    file_write("test_batch.bin", wrong);
    expect_bad_file("cifar10", test_folder, QS_PART_TEST, "test_batch.bin: offset 101409: label is 10, must be below 10");
    free(wrong.data);
    wrong = copied(hundred, 0);
    wrong.data[2 * hundred_record + 1] = 100;
    file_write("train.bin", wrong);
    expect_bad_file("cifar100", test_folder, QS_PART_TRAINING, "train.bin: offset 6149: label is 100, must be below 100");
    free(wrong.data);
}

/* A file of the other CIFAR set has labels where pixels should be: whole records do not come out. */
TEST(refuses_the_other_set) {
    file_write("test_batch.bin", hundred);
    expect_bad_file("cifar10", test_folder, QS_PART_TEST, "test_batch.bin: offset ");
}

TEST(refuses_broken_gzip) {
    bytes packed = gzipped(ten);
    for (size_t cut = 0; cut < packed.count; cut += cut < 20 || cut + 20 > packed.count ? 1 : 997) {
        file_write("data_batch_1.bin.gz", (bytes){packed.data, cut});
        expect_bad_file("cifar10", test_folder, QS_PART_TRAINING, "data_batch_1.bin.gz: offset ");
    }
    for (size_t at = 10; at < packed.count; at += 1009) {
        packed.data[at] ^= 0x20;
        file_write("data_batch_1.bin.gz", packed);
        expect_bad_file("cifar10", test_folder, QS_PART_TRAINING, "data_batch_1.bin.gz: offset ");
        packed.data[at] ^= 0x20;
    }
    free(packed.data);
}

TEST(refuses_empty_and_missing) {
    expect_bad_file("cifar10", test_folder, QS_PART_TRAINING, "data_batch_1.bin", "tools/fetch-data.sh");
    file_write("data_batch_1.bin", (bytes){ten_memory, 0});
    expect_bad_file("cifar10", test_folder, QS_PART_TRAINING, "data_batch_1.bin: offset 0: the file is empty");
    reset(NULL);
    bytes nothing = gzipped((bytes){ten_memory, 0});
    file_write("data_batch_1.bin.gz", nothing);
    expect_bad_file("cifar10", test_folder, QS_PART_TRAINING, "offset 0: the file holds no record");
    free(nothing.data);
}

#define each(test) cmocka_unit_test_setup(test, reset)

int main(void) {
    const struct CMUnitTest tests[] = {
        each(planes_become_channels_last), each(fine_label_is_used),    each(whole_file_before_subset),
        each(joins_the_batches_there_are), each(gzip_equals_plain),     each(refuses_partial_records),
        each(refuses_labels_out_of_range), each(refuses_the_other_set), each(refuses_broken_gzip),
        each(refuses_empty_and_missing),
    };
    return cmocka_run_group_tests_name("data.cifar", tests, setup, folder_teardown);
}
