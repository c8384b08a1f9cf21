// SPDX-License-Identifier: Apache-2.0
// labels: short
// covers: mnist fashion_mnist cifar10 cifar100
/* The published sets, where QS_TEST_SHARED/data has them: counts, balance of classes, and the constants of normalisation. */
#include "kit/kit.h"

#include <sys/stat.h>

#include "qsync/data.h"

static char folder[512];

static int setup(void **state) {
    (void)state;
    const char *shared = getenv("QS_TEST_SHARED");
    if (shared) snprintf(folder, sizeof folder, "%s/data", shared);
    return 0;
}

static void load(const char *name, qs_part part, qs_dataset *set) {
    char path[600];
    struct stat facts;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (!folder[0] || stat(path, &facts) != 0) skip();
    assert_ok(qs_dataset_load(name, folder, part, 0, set));
}

static void expect_balance(const qs_dataset *set) {
    int64_t each[256] = {0};
    for (int64_t i = 0; i < set->count; i++)
        each[((const int32_t *)set->target)[i]]++;
    const int64_t classes = set->description.samples.target.classes;
    for (int64_t class = 0; class < classes; class ++)
        assert_int_equal(each[class], set->count / classes);
}

static double channel_mean(const qs_dataset *set, int64_t index, int channel) {
    const int64_t *extent = set->description.samples.input[0].extent, pixels = extent[0] * extent[1];
    const uint8_t *image = (const uint8_t *)set->input[0] + index * pixels * extent[2];
    int64_t sum = 0;
    for (int64_t i = 0; i < pixels; i++)
        sum += image[i * extent[2] + channel];
    return (double)sum / (255.0 * (double)pixels);
}

/* Mean and deviation of the pixels of one channel, and the deviation of the images' own means: that, over the root of the count, is how
 * far the mean of a part of the set strays from that of the whole. */
static void measure(const qs_dataset *set, int channel, double *mean, double *deviation, double *spread) {
    const int64_t *extent = set->description.samples.input[0].extent;
    int64_t counts[256] = {0};
    const int64_t total = set->count * extent[0] * extent[1];
    const uint8_t *bytes = set->input[0];
    double squares = 0, image_squares = 0;
    for (int64_t i = 0; i < total; i++)
        counts[bytes[i * extent[2] + channel]]++;
    *mean = 0;
    for (int byte = 0; byte < 256; byte++) {
        *mean += (double)counts[byte] * byte / 255.0;
        squares += (double)counts[byte] * (byte / 255.0) * (byte / 255.0);
    }
    *mean /= (double)total;
    *deviation = sqrt(squares / (double)total - *mean * *mean);
    for (int64_t i = 0; i < set->count; i++) {
        double off = channel_mean(set, i, channel) - *mean;
        image_squares += off * off;
    }
    *spread = sqrt(image_squares / (double)set->count);
}

/* The constants belong to the whole training part: 1e-3 when it is all there, else four standard errors of the sample more. */
static void expect_constants(const qs_dataset *set, int64_t whole) {
    for (int channel = 0; channel < set->description.samples.input[0].extent[2]; channel++) {
        double mean, deviation, spread;
        measure(set, channel, &mean, &deviation, &spread);
        double tolerance = 1e-3 + (set->count < whole ? 4 * spread / sqrt((double)set->count) : 0);
        if (fabs(mean - set->description.mean[channel]) > tolerance || fabs(deviation - set->description.deviation[channel]) > tolerance) {
            fail_msg("%s channel %d: mean %.5f, deviation %.5f", set->description.name, channel, mean, deviation);
        }
    }
}

static void check_idx(const char *name, bool balanced) {
    qs_dataset set;
    load(name, QS_PART_TRAINING, &set);
    assert_int_equal(set.count, 60000);
    if (balanced) expect_balance(&set);
    expect_constants(&set, 60000);
    qs_dataset_release(&set);
    load(name, QS_PART_TEST, &set);
    assert_int_equal(set.count, 10000);
    if (balanced) expect_balance(&set);
    qs_dataset_release(&set);
}

TEST(mnist) {
    check_idx("mnist", false);
}

TEST(fashion_mnist) {
    check_idx("fashion-mnist", true);
}

/* Whole batches of 10,000, as many as are there. */
TEST(cifar10) {
    qs_dataset set;
    load("cifar10", QS_PART_TRAINING, &set);
    assert_true(set.count > 0 && set.count % 10000 == 0);
    expect_constants(&set, 50000);
    qs_dataset_release(&set);
    load("cifar10", QS_PART_TEST, &set);
    assert_int_equal(set.count, 10000);
    expect_balance(&set);
    qs_dataset_release(&set);
}

/* The whole set, or the subset with equally many images of each class. */
TEST(cifar100) {
    qs_dataset set;
    load("cifar100", QS_PART_TRAINING, &set);
    assert_true(set.count == 50000 || set.count == 4000);
    expect_balance(&set);
    expect_constants(&set, 50000);
    qs_dataset_release(&set);
    load("cifar100", QS_PART_TEST, &set);
    assert_true(set.count == 10000 || set.count == 1000);
    expect_balance(&set);
    qs_dataset_release(&set);
}

TEST_MAIN_WITH(setup, NULL, mnist, fashion_mnist, cifar10, cifar100)
