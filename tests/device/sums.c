// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Sums of several devices: who cannot says so; a group of one rank leaves values as they are, behind what is queued before. Groups of
 * several ranks need as many GPUs: tests/cli/cuda.sh, with doubles. */
#include "kit/device.h"

enum { COUNT = 70001 };

TEST(others_refuse) {
    const qs_device_options options = {.backend = "ref", .threads = 1, .speed = 1};
    qs_device *device;
    char key[QS_DEVICE_KEY] = {0};
    qs_memory *memory;
    assert_ok(qs_device_open(&options, &device));
    assert_ok(qs_memory_reserve(device, 64, &memory));
    assert_refused(qs_device_key(device, NULL), QS_UNSUPPORTED, "the device ref adds up with no other");
    assert_refused(qs_device_join(device, key, 0, 1), QS_UNSUPPORTED, "the device ref adds up with no other");
    assert_int_equal(qs_device_joined(device), 0);
    assert_refused(qs_memory_sum(qs_device_queue(device, QS_QUEUE_COPIES), qs_location_of(memory, 0), 1), QS_USAGE, "joined no group");
    qs_memory_release(memory);
    qs_device_close(device);
}

TEST(group_of_one) {
    const qs_device_options options = device_options("ref", NULL, 1, 1);
    static float values[COUNT], back[COUNT];
    qs_device *device;
    qs_memory *memory;
    char key[QS_DEVICE_KEY];
    if (strcmp(options.backend, "cuda") != 0) skip();
    assert_ok(qs_device_open(&options, &device));
    assert_ok(qs_memory_reserve(device, sizeof values, &memory));
    qs_queue *copies = qs_device_queue(device, QS_QUEUE_COPIES);
    const qs_location at = qs_location_of(memory, 0);
    assert_ok(qs_device_key(device, key));
    assert_refused(qs_device_join(device, key, 1, 1), QS_USAGE, "rank 1 of a group of 1");
    for (int round = 0; round < 2; round++) { /* joining again leaves the group before */
        assert_ok(qs_device_key(device, key));
        assert_ok(qs_device_join(device, key, 0, 1));
        assert_int_equal(qs_device_joined(device), 1);
        for (int i = 0; i < COUNT; i++)
            values[i] = qs_random_normal((uint64_t)round, (uint64_t)i);
        assert_ok(qs_memory_write(copies, at, values, sizeof values));
        assert_ok(qs_memory_sum(copies, at, COUNT));
        assert_ok(qs_memory_sum(copies, at, 0));
        assert_ok(qs_memory_read(copies, at, back, sizeof back));
        assert_ok(qs_queue_wait(copies));
        assert_memory_equal(back, values, sizeof back);
    }
    assert_refused(qs_memory_sum(copies, at, COUNT + 64), QS_USAGE, "has no");
    qs_memory_release(memory);
    qs_device_close(device);
}

TEST_MAIN(others_refuse, group_of_one)
