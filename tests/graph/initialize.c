// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Start values: constants, variance of the normal ones, the same for any thread count, different by seed, parameter and element. */
#include "kit/kit.h"
#include "qsync/graph.h"

typedef struct start {
    qs_graph *graph;
    float *trained, *statistics;
} start;

static start begin(const char *name, uint64_t seed) {
    start one = {0};
    assert_ok(qs_model_build(name, NULL, &one.graph));
    one.trained = malloc((size_t)one.graph->trained_elements * sizeof(float) + 1);
    one.statistics = malloc((size_t)one.graph->statistics_elements * sizeof(float) + 1);
    memset(one.trained, 0xff, (size_t)one.graph->trained_elements * sizeof(float));
    memset(one.statistics, 0xff, (size_t)one.graph->statistics_elements * sizeof(float));
    qs_graph_initialize(one.graph, seed, one.trained, one.statistics);
    return one;
}

static void end(start *one) {
    qs_graph_release(one->graph);
    free(one->trained);
    free(one->statistics);
}

static const float *values(const start *one, const qs_parameter *parameter) {
    return (parameter->gradient == QS_ROLE_COUNT ? one->statistics : one->trained) + parameter->offset;
}

/* n normal draws: the mean has deviation s/sqrt(n), the sample variance s² sqrt(2/n). With 5 deviations a false alarm among the 25
 * arrays here has probability 3e-5, and the draws are fixed by the seed. */
static void check_normal(const qs_parameter *parameter, const float *array) {
    int64_t count = qs_shape_count(&parameter->shape);
    double variance = (double)parameter->gain / (double)parameter->fan_in, sum = 0, squares = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += (double)array[i];
        squares += (double)array[i] * (double)array[i];
    }
    double n = (double)count;
    if (fabs(sum / n) > 5 * sqrt(variance / n)) fail_msg("%s: mean %g", parameter->name, sum / n);
    if (fabs(squares / n / variance - 1) > 5 * sqrt(2 / n)) fail_msg("%s: variance %g for %g", parameter->name, squares / n, variance);
}

TEST(test_values) {
    start one = begin("resnet20", 7);
    for (int i = 0; i < one.graph->parameters; i++) {
        const qs_parameter *parameter = &one.graph->parameter[i];
        const float *array = values(&one, parameter);
        if (parameter->fan_in > 0) {
            check_normal(parameter, array);
            continue;
        }
        bool ones = parameter->role == QS_SCALE || parameter->role == QS_RUNNING_VARIANCE || parameter->role == QS_RUNNING_DEVIATION;
        for (int64_t k = 0; k < qs_shape_count(&parameter->shape); k++) {
            assert_true(array[k] == (ones ? 1.0f : 0.0f));
        }
    }
    end(&one);
}

/* He: 2/fan_in with fan_in = inputs × kernel area; 1/fan_in for the classifier. */
TEST(test_fan_in) {
    start one = begin("resnet8", 1);
    const qs_parameter *conv = qs_graph_parameter(one.graph, qs_graph_find(one.graph, "stage2.block0.conv2"), QS_WEIGHTS);
    const qs_parameter *fc = qs_graph_parameter(one.graph, qs_graph_find(one.graph, "fc"), QS_WEIGHTS);
    assert_int_equal(conv->fan_in, 32 * 9);
    assert_true(conv->gain == 2);
    assert_int_equal(fc->fan_in, 64);
    assert_true(fc->gain == 1);
    end(&one);
}

TEST(test_gaps_are_zero) {
    start one = begin("resnet8", 3);
    const qs_parameter *bias = qs_graph_parameter(one.graph, qs_graph_find(one.graph, "fc"), QS_BIAS);
    assert_int_equal(qs_shape_count(&bias->shape), 10);
    for (int i = 0; i < 16; i++) {
        assert_true(one.trained[bias->offset + i] == 0);
    }
    assert_int_equal(bias->offset + 16, one.graph->trained_elements);
    end(&one);
}

TEST(test_same_for_any_thread_count) {
    start one = begin("resnet8", 11);
    assert_ok(qs_threads_set(3));
    start three = begin("resnet8", 11);
    assert_ok(qs_threads_set(1));
    assert_memory_equal(one.trained, three.trained, (size_t)one.graph->trained_elements * sizeof(float));
    assert_memory_equal(one.statistics, three.statistics, (size_t)one.graph->statistics_elements * sizeof(float));
    end(&one);
    end(&three);
}

TEST(test_draws_differ) {
    start one = begin("resnet8", 11), other = begin("resnet8", 12);
    const qs_parameter *first = qs_graph_parameter(one.graph, qs_graph_find(one.graph, "stage1.block0.conv1"), QS_WEIGHTS);
    const qs_parameter *second = qs_graph_parameter(one.graph, qs_graph_find(one.graph, "stage1.block0.conv2"), QS_WEIGHTS);
    int equal = 0;
    for (int64_t i = 0; i < qs_shape_count(&first->shape); i++) {
        float value = values(&one, first)[i];
        equal += (value == values(&one, second)[i]) + (value == values(&other, first)[i]);
    }
    /* 2 × 2304 comparisons of 24-bit values: an equal pair by chance has probability below 1e-3, a repeated stream makes thousands. */
    assert_true(equal <= 1);
    end(&one);
    end(&other);
}

TEST_MAIN(test_values, test_fan_in, test_gaps_are_zero, test_same_for_any_thread_count, test_draws_differ)
