// SPDX-License-Identifier: Apache-2.0
// labels: short
/* The generated set: the same bytes everywhere, balanced, training and test parts apart, and beyond a linear classifier. */
#include "files.h"

enum { values = 32 * 32 * 3, classes = 10 };

static qs_dataset training, test;

static int setup(void **state) {
    (void)state;
    if (qs_dataset_load("shapes", NULL, QS_PART_TRAINING, 0, &training) != QS_OK) return -1;
    return qs_dataset_load("shapes", NULL, QS_PART_TEST, 0, &test) == QS_OK ? 0 : -1;
}

static int teardown(void **state) {
    (void)state;
    qs_dataset_release(&training);
    qs_dataset_release(&test);
    return 0;
}

TEST(has_its_counts) {
    int64_t each[classes] = {0};
    assert_int_equal(training.count, 12000);
    assert_int_equal(test.count, 2000);
    for (int64_t i = 0; i < training.count; i++)
        each[classes_of(&training)[i]]++;
    for (int class = 0; class < classes; class ++)
        assert_int_equal(each[class], 1200);
}

TEST(same_for_any_limit_and_threads) {
    qs_dataset few;
    assert_ok(qs_threads_set(3));
    assert_ok(qs_dataset_load("shapes", "/nowhere", QS_PART_TRAINING, 100, &few));
    assert_ok(qs_threads_set(1));
    assert_int_equal(few.count, 100);
    assert_memory_equal(few.input[0], training.input[0], (size_t)few.count * values);
    qs_dataset_release(&few);
}

/* A published figure rests on these bytes: they may only change together with this number, and knowingly. */
TEST(same_on_every_machine) {
    assert_int_equal(qs_hash(training.input[0], 200 * values, 0), UINT64_C(0x48c46a242e57b289));
    assert_memory_not_equal(training.input[0], test.input[0], values);
}

TEST(constants_are_measured) {
    for (int channel = 0; channel < 3; channel++) {
        double sum = 0, squares = 0, count = (double)training.count * values / 3;
        for (int64_t i = channel; i < training.count * values; i += 3) {
            double value = image_bytes_of(&training)[i] / 255.0;
            sum += value;
            squares += value * value;
        }
        double mean = sum / count;
        assert_true(fabs(mean - training.description.mean[channel]) < 1e-3);
        assert_true(fabs(sqrt(squares / count - mean * mean) - training.description.deviation[channel]) < 1e-3);
    }
}

static void normalised(const qs_dataset *set, int64_t index, float *image) {
    int32_t label;
    const qs_batch batch = {.input = {image}, .extent = {{32, 32}}, .target = &label};
    assert_ok(qs_batch_fill(set, NULL, &index, 1, &batch));
}

/* Scores of a linear classifier, weights (values + 1, classes), the last row being the bias. */
static void linear_scores(const float *weights, const float *image, float scores[classes]) {
    memcpy(scores, weights + values * classes, sizeof(float) * classes);
    for (int i = 0; i < values; i++) {
        for (int class = 0; class < classes; class ++)
            scores[class] += image[i] * weights[i * classes + class];
    }
}

static int largest(const float scores[classes]) {
    int best = 0;
    for (int class = 1; class < classes; class ++)
        best = scores[class] > scores[best] ? class : best;
    return best;
}

/* One sample's step of softmax regression. */
static void linear_step(float *weights, const float *image, int label, float rate) {
    float scores[classes], sum = 0;
    linear_scores(weights, image, scores);
    float top = scores[largest(scores)];
    for (int class = 0; class < classes; class ++)
        sum += scores[class] = expf(scores[class] - top);
    for (int class = 0; class < classes; class ++)
        scores[class] = rate * (scores[class] / sum - (class == label ? 1.0f : 0.0f));
    for (int i = 0; i < values; i++) {
        for (int class = 0; class < classes; class ++)
            weights[i * classes + class] -= image[i] * scores[class];
    }
    for (int class = 0; class < classes; class ++)
        weights[values * classes + class] -= scores[class];
}

static double linear_accuracy(const float *weights, const qs_dataset *set, int64_t count) {
    float image[values], scores[classes];
    int64_t right = 0;
    for (int64_t i = 0; i < count; i++) {
        normalised(set, i, image);
        linear_scores(weights, image, scores);
        right += largest(scores) == classes_of(set)[i];
    }
    return (double)right / (double)count;
}

/* Softmax regression by SGD learns part of the training images by heart and next to nothing of the test images: it stays below 80 % by
 * far. That it has learnt at all (training images above 25 %, chance being 10 %) shows that the classifier works. */
TEST(beyond_a_linear_classifier) {
    const int64_t count = 3000;
    float *weights = calloc((values + 1) * classes, sizeof *weights), image[values];
    for (int epoch = 0; epoch < 4; epoch++) {
        for (int64_t i = 0; i < count; i++) {
            normalised(&training, i, image);
            linear_step(weights, image, classes_of(&training)[i], 3e-4f);
        }
    }
    double seen = linear_accuracy(weights, &training, 1000), unseen = linear_accuracy(weights, &test, 1000);
    free(weights);
    print_message("softmax regression: %.1f %% of training images, %.1f %% of test images\n", 100 * seen, 100 * unseen);
    assert_true(seen > 0.25);
    assert_true(unseen < 0.80);
}

/* A shape stands for a set that nobody has. */
TEST(shape_alone) {
    static const char *const wrong[] = {"3x224x224", "3x224x224:0", "3x-2x3:4", "3x224x224:10 ", "03x2x2:2", "3x2x70000:2", "x"};
    qs_data_description is;
    qs_dataset set;
    assert_ok(qs_dataset_describe("3x224x160:1000", NULL, &is));
    assert_true(is.samples.inputs == 1 && is.samples.input[0].extent[0] == 224 && is.samples.input[0].extent[1] == 160 &&
                is.samples.input[0].extent[2] == 3);
    assert_true(is.samples.target.kind == QS_TARGET_CLASS && is.samples.target.classes == 1000);
    assert_refused(qs_dataset_load("3x224x160:1000", NULL, QS_PART_TRAINING, 0, &set), QS_USAGE, "shape without images");
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        assert_int_equal(qs_dataset_describe(wrong[i], NULL, &is), QS_USAGE);
}

TEST_MAIN_WITH(setup, teardown, has_its_counts, same_for_any_limit_and_threads, same_on_every_machine, constants_are_measured,
               beyond_a_linear_classifier, shape_alone)
