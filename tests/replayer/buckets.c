// SPDX-License-Identifier: Apache-2.0
// labels: short vectors
/* Eqs. (4.6) and (4.7) of docs/method.md against reference cases. */
#include "replay_support.h"
#include "kit/vectors.h"

#define MOST_DEVICES 64
#define MOST_BUCKETS 256

static int numbers(const json_t *object, const char *key, double *out) {
    const json_t *list = json_object_get(object, key);
    const int count = (int)json_array_size(list);
    assert_true(count <= MOST_BUCKETS);
    for (int i = 0; i < count; i++)
        out[i] = json_number_value(json_array_get(list, (size_t)i));
    return count;
}

static void case_check(const json_t *one) {
    static double ready[MOST_DEVICES][MOST_BUCKETS], duration[MOST_DEVICES][MOST_BUCKETS], optimizer[MOST_DEVICES][MOST_BUCKETS];
    static double start[MOST_BUCKETS], end[MOST_BUCKETS], expected[MOST_BUCKETS];
    qs_replay_device device[MOST_DEVICES];
    const json_t *devices = json_object_get(one, "devices");
    const int count = (int)json_array_size(devices);
    int buckets = 0;
    double iteration = 0;
    assert_true(count > 0 && count <= MOST_DEVICES);
    for (int i = 0; i < count; i++) {
        const json_t *what = json_array_get(devices, (size_t)i);
        buckets = numbers(what, "ready", ready[i]);
        numbers(what, "dur", duration[i]);
        numbers(what, "optimizer", optimizer[i]);
        device[i] = (qs_replay_device){ready[i], duration[i], optimizer[i], vectors_number(what, "compute_end")};
    }
    qs_replay_buckets(count, device, buckets, start, end, &iteration);
    assert_int_equal(numbers(one, "start", expected), buckets);
    for (int b = 0; b < buckets; b++)
        near(start[b], expected[b]);
    numbers(one, "end", expected);
    for (int b = 0; b < buckets; b++)
        near(end[b], expected[b]);
    near(iteration, vectors_number(one, "iteration"));
}

TEST(vectors_agree) {
    json_t *root = vectors_load("replay.json");
    if (!root) skip();
    size_t i;
    json_t *one;
    assert_true(json_array_size(root) > 0);
    json_array_foreach(root, i, one) case_check(one);
    json_decref(root);
}

TEST(one_device_waits_for_nobody) {
    const double ready[] = {1, 2}, duration[] = {0, 0}, optimizer[] = {0.5, 0.25};
    const qs_replay_device device = {ready, duration, optimizer, 3};
    double start[2], end[2], iteration;
    qs_replay_buckets(1, &device, 2, start, end, &iteration);
    near(iteration, 3.75);
}

TEST_MAIN(vectors_agree, one_device_waits_for_nobody)
