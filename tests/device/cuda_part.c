// SPDX-License-Identifier: Apache-2.0
// labels: short
/* A device on a part of a GPU's multiprocessors (QSYNC_TEST_CUDA_PART): what it says of itself, numbers that no part has, and that it adds
 * up with no other. Everything else that it does is tested as part.<room>.<name>. Without a double of a GPU nothing is looked at. */
#include "device_support.h"

enum { PART = 64, WHOLE = 132 }; /* of an H100 or H200, and of the double */

static qs_status part_open(int multiprocessors, qs_device **out) {
    qs_device_options options = device_options("ref", NULL, 1, 1);
    options.cuda.multiprocessors = multiprocessors;
    return qs_device_open(&options, out);
}

TEST(it_says_so) {
    qs_device *part = NULL, *whole = NULL;
    qs_device_info of_part, of_whole;
    if (!getenv("QSYNC_TEST_CUDA_PART")) skip();
    assert_ok(part_open(PART, &part));
    qs_device_describe(part, &of_part);
    qs_device_close(part);
    assert_ok(part_open(0, &whole));
    qs_device_describe(whole, &of_whole);
    qs_device_close(whole);
    assert_int_equal(of_part.multiprocessors, PART);
    assert_int_equal(of_whole.multiprocessors, 0);
    assert_non_null(strstr(of_part.isa, ", 64 of 132 multiprocessors"));
    assert_int_equal(strncmp(of_part.isa, of_whole.isa, strlen(of_whole.isa)), 0);
}

TEST(numbers_that_no_part_has) {
    qs_device *device = NULL;
    if (!getenv("QSYNC_TEST_CUDA_PART")) skip();
    assert_refused(part_open(60, &device), QS_USAGE, "in multiples of 8, of its 132; it would be 64");
    assert_refused(part_open(1, &device), QS_USAGE, "it would be 8");
    assert_refused(part_open(131, &device), QS_USAGE, "131 multiprocessors"); /* a double has none as large */
    assert_refused(part_open(WHOLE + 1, &device), QS_USAGE, "it has 132");
    assert_refused(part_open(-8, &device), QS_USAGE, "-8 multiprocessors");
    assert_null(device);
}

TEST(it_adds_up_with_no_other) {
    qs_device *device = NULL;
    if (!getenv("QSYNC_TEST_CUDA_PART")) skip();
    assert_ok(part_open(PART, &device));
    assert_refused(qs_device_key(device, NULL), QS_UNSUPPORTED, "a part of a GPU");
    qs_device_close(device);
}

TEST_MAIN(it_says_so, numbers_that_no_part_has, it_adds_up_with_no_other)
