// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Memory, queues and events of a device: copies, what is refused, growing and shrinking, and the device's clock. */
#include "device_support.h"

#include <float.h>

enum { BYTES = 3 << 20 };

typedef struct scene {
    qs_device *device;
    qs_queue *kernels, *copies;
    qs_memory *memory;
} scene;

static scene scene_open(size_t bytes) {
    scene here = {.device = open_device("ref", NULL, 1, 1)};
    here.kernels = qs_device_queue(here.device, QS_QUEUE_KERNELS);
    here.copies = qs_device_queue(here.device, QS_QUEUE_COPIES);
    assert_ok(qs_memory_reserve(here.device, bytes, &here.memory));
    return here;
}

static void scene_close(scene *here) {
    qs_memory_release(here->memory);
    qs_device_close(here->device);
}

static uint8_t byte_at(const scene *here, size_t offset) {
    uint8_t found = 0;
    assert_ok(qs_memory_read(here->kernels, qs_location_of(here->memory, offset), &found, 1));
    assert_ok(qs_queue_wait(here->kernels));
    return found;
}

/* A pattern goes in, to another place, and out again; all else stays zero. */
TEST(bytes_are_moved) {
    scene here = scene_open(BYTES);
    uint8_t *pattern = malloc(BYTES / 3), *back = malloc(BYTES / 3);
    assert_true(pattern && back);
    for (size_t i = 0; i < BYTES / 3; i++)
        pattern[i] = (uint8_t)qs_random_bits(5, i);
    assert_ok(qs_memory_write(here.kernels, qs_location_of(here.memory, 64), pattern, BYTES / 3 - 64));
    assert_ok(qs_memory_copy(here.kernels, qs_location_of(here.memory, 64), qs_location_of(here.memory, BYTES / 2), BYTES / 3 - 64));
    assert_ok(qs_memory_read(here.kernels, qs_location_of(here.memory, BYTES / 2), back, BYTES / 3 - 64));
    assert_ok(qs_queue_wait(here.kernels));
    assert_memory_equal(pattern, back, BYTES / 3 - 64);
    assert_int_equal(byte_at(&here, 63), 0);
    assert_int_equal(byte_at(&here, BYTES / 3), 0);
    assert_ok(qs_memory_fill(here.kernels, qs_location_of(here.memory, 0), 7, BYTES));
    assert_ok(qs_memory_touch(here.kernels, qs_location_of(here.memory, 0), BYTES, false));
    assert_int_equal(byte_at(&here, 0), 7);
    assert_int_equal(byte_at(&here, BYTES - 1), 7);
    assert_ok(qs_memory_touch(here.kernels, qs_location_of(here.memory, 0), BYTES, true));
    assert_int_equal(byte_at(&here, 1), 7); /* the first byte of each line changes */
    assert_int_equal(byte_at(&here, 64), 8);
    free(pattern);
    free(back);
    scene_close(&here);
}

/* Answers come behind what is queued, each of its own values alone; so many may be on their way. */
TEST(values_are_looked_at) {
    enum { COUNT = 5003, LOOKS = 1100 };
    static const float odd[] = {INFINITY, -INFINITY, NAN, -NAN, FLT_MAX, -FLT_TRUE_MIN};
    static bool many[LOOKS];
    scene here = scene_open(BYTES);
    float *values = calloc(COUNT, sizeof *values);
    bool all, before, behind, none;
    assert_non_null(values);
    for (int i = 0; i < COUNT; i++)
        values[i] = qs_random_normal(3, (uint64_t)i);
    for (int queue = 0; queue < QS_QUEUES; queue++)
        for (size_t o = 0; o < sizeof odd / sizeof *odd; o++)
            for (int at = 0; at < COUNT; at += COUNT / 2) {
                qs_queue *into = queue == QS_QUEUE_KERNELS ? here.kernels : here.copies;
                const float kept = values[at];
                values[at] = odd[o];
                assert_ok(qs_memory_write(into, qs_location_of(here.memory, 64), values, COUNT * sizeof *values));
                assert_ok(qs_memory_finite(into, qs_location_of(here.memory, 64), COUNT, &all));
                assert_ok(qs_memory_finite(into, qs_location_of(here.memory, 64), at, &before));
                assert_ok(qs_memory_finite(into, qs_location_of(here.memory, 64 + 4 * ((size_t)at + 1)), COUNT - at - 1, &behind));
                assert_ok(qs_memory_finite(into, qs_location_of(here.memory, 64 + 4 * (size_t)at), 0, &none));
                assert_ok(qs_memory_fill(into, qs_location_of(here.memory, 0), 0xff, BYTES)); /* NaNs, too late */
                assert_ok(qs_queue_wait(into));
                assert_int_equal(all, isfinite(odd[o]) != 0);
                assert_true(before && behind && none);
                values[at] = kept;
            }
    for (int i = 0; i < LOOKS; i++)
        assert_ok(qs_memory_finite(here.copies, qs_location_of(here.memory, 4 * (size_t)i), 1, &many[i]));
    assert_ok(qs_queue_wait(here.copies));
    for (int i = 0; i < LOOKS; i++)
        assert_false(many[i]);
    assert_refused(qs_memory_finite(here.copies, qs_location_of(here.memory, BYTES - 4), 2, &all), QS_USAGE, "has no 8 bytes");
    free(values);
    scene_close(&here);
}

TEST(ranges_are_checked) {
    scene here = scene_open(1000);
    qs_device *other = open_device("ref", NULL, 1, 1);
    char byte = 0;
    const qs_location nothing = {0};
    assert_ok(qs_memory_write(here.kernels, qs_location_of(here.memory, 1000), &byte, 0));
    assert_refused(qs_memory_write(here.kernels, qs_location_of(here.memory, 1000), &byte, 1), QS_USAGE, "no 1 bytes from byte 1000");
    assert_refused(qs_memory_read(here.kernels, qs_location_of(here.memory, 1), &byte, SIZE_MAX), QS_USAGE, "from byte 1 on");
    assert_refused(qs_memory_fill(here.kernels, nothing, 0, 1), QS_USAGE, "no memory");
    assert_refused(qs_memory_fill(qs_device_queue(other, QS_QUEUE_COPIES), qs_location_of(here.memory, 0), 0, 1), QS_USAGE,
                   "another device");
    qs_device_close(other);
    scene_close(&here);
}

TEST(memory_grows_and_shrinks) {
    scene here = scene_open(BYTES);
    assert_ok(qs_memory_fill(here.kernels, qs_location_of(here.memory, 0), 9, BYTES));
    assert_ok(qs_memory_resize(here.memory, BYTES / 3));
    assert_int_equal(qs_memory_bytes(here.memory), BYTES / 3);
    assert_refused(qs_memory_fill(here.kernels, qs_location_of(here.memory, 0), 9, BYTES), QS_USAGE, "has no");
    assert_ok(qs_memory_resize(here.memory, 2 * BYTES));
    assert_int_equal(byte_at(&here, BYTES / 3 - 1), 9);
    assert_int_equal(byte_at(&here, 2 * BYTES - 1), 0);
    assert_refused(qs_memory_resize(here.memory, (size_t)1 << 46), QS_OUT_OF_MEMORY, "70368744177664");
    assert_int_equal(qs_memory_bytes(here.memory), 2 * BYTES);
    scene_close(&here);
}

/* An event is reached when what is before it is done; the other queue follows it. */
TEST(events_order_and_time) {
    scene here = scene_open(BYTES);
    qs_event *first = NULL, *second = NULL;
    uint8_t found = 0;
    bool done = false;
    assert_ok(qs_event_create(here.device, &first));
    assert_ok(qs_event_create(here.device, &second));
    assert_ok(qs_event_done(first, &done));
    assert_true(done); /* never recorded */
    for (int i = 1; i <= 20; i++) {
        assert_ok(qs_event_record(first, here.kernels));
        assert_ok(qs_memory_fill(here.kernels, qs_location_of(here.memory, 0), i, BYTES));
        assert_ok(qs_event_record(second, here.kernels));
        assert_ok(qs_queue_follow(here.copies, second));
        assert_ok(qs_memory_read(here.copies, qs_location_of(here.memory, BYTES - 1), &found, 1));
        assert_ok(qs_queue_wait(here.copies));
        assert_int_equal(found, i);
        assert_ok(qs_event_done(second, &done));
        assert_true(done);
        assert_true(qs_event_elapsed(first, second) > 0);
    }
    qs_event_release(first);
    qs_event_release(second);
    scene_close(&here);
}

TEST_MAIN(bytes_are_moved, values_are_looked_at, ranges_are_checked, memory_grows_and_shrinks, events_order_and_time)
