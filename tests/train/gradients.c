// SPDX-License-Identifier: Apache-2.0
// labels: short
/* The variance of weight gradients in the metrics is that of what one step of plain descent took off the weights. */
#include "kit/job_model.h"
#include "train_support.h"

#include "qsync/checkpoint.h"

enum { STEPS = 6, EVERY = 3 };

static void job_set(bench *here, int64_t steps) {
    *qs_job_setting(&here->job, "momentum") = *qs_job_setting(&here->job, "weight_decay") = 0;
    here->job.rate.base = 0.5;
    here->job.rate.warmup_epochs = 0;
    here->job.rate.schedule = QS_RATE_CONSTANT;
    here->job.loss_scale = 1024;
    here->options.gradients_every = EVERY;
    here->options.max_steps = steps;
    here->options.test_limit = -1;
    here->options.run_folder = here->folder;
}

/* Runs so many steps: the metrics and the weights behind the last one. */
static char *run(int64_t steps, const qs_graph *graph, float *weights) {
    bench here;
    qs_train_result result;
    char path[128], *metrics = NULL;
    bench_open(&here, backend_exists("cpu") ? "cpu" : "ref", "self", "lenet5", 16);
    job_set(&here, steps);
    assert_ok(qs_train(&here.options, here.device, here.comm, &result));
    snprintf(path, sizeof path, "%s/weights.safetensors", here.folder);
    assert_ok(qs_weights_read(path, graph, weights, NULL));
    file_text(here.folder, "metrics.jsonl", &metrics);
    qs_train_result_release(&result);
    bench_close(&here);
    return metrics;
}

static double written(const char *metrics, int step, const char *name) {
    char key[128];
    snprintf(key, sizeof key, "\"step\":%d,\"operator\":\"%s\",\"variance\":", step, name);
    const char *at = strstr(metrics, key);
    if (!at) fail_msg("no line with %s", key);
    return strtod(at + strlen(key), NULL);
}

/* A difference of weights of magnitude w is off by eps w from a gradient times the rate. */
static void expect_variance(const qs_parameter *one, const float *before, const float *after, double said) {
    const int64_t count = qs_shape_count(&one->shape);
    double sum = 0, squares = 0, worst = 0;
    for (int64_t i = one->offset; i < one->offset + count; i++) {
        const double gradient = ((double)before[i] - after[i]) / 0.5;
        sum += gradient;
        squares += gradient * gradient;
        worst = fmax(worst, fabs(before[i]) * 0x1p-23 / 0.5);
    }
    const double variance = squares / (double)count - sum / (double)count * sum / (double)count;
    const double bound = 2 * sqrt(variance) * worst + worst * worst + 1e-8 * variance;
    if (!(fabs(said - variance) <= bound)) fail_msg("%s: variance %.9g, taken off %.9g +- %.2g", one->name, said, variance, bound);
}

TEST(variances_are_of_what_is_taken_off) {
    bench here;
    qs_graph *graph = NULL;
    bench_open(&here, "ref", "self", "lenet5", 16);
    assert_ok(job_model(&here.job, &graph));
    const size_t bytes = (size_t)graph->trained_elements * sizeof(float);
    float *before = malloc(bytes), *after = malloc(bytes);
    char *first = run(STEPS - 1, graph, before), *all = run(STEPS, graph, after);
    int operators = 0, lines = 0;
    for (int n = graph->samples.inputs; n < graph->nodes; n++) {
        if (graph->node[n].op->kind != QS_ADJUSTABLE) continue;
        operators++;
        expect_variance(qs_graph_parameter(graph, n, QS_WEIGHTS), before, after, written(all, STEPS, graph->node[n].name));
        assert_true(written(first, EVERY, graph->node[n].name) == written(all, EVERY, graph->node[n].name));
    }
    for (const char *at = all; (at = strstr(at, "\"type\":\"gradient\"")) != NULL; at++)
        lines++;
    assert_int_equal(lines, STEPS / EVERY * operators);
    free(first);
    free(all);
    free(before);
    free(after);
    qs_graph_release(graph);
    bench_close(&here);
}

TEST_MAIN(variances_are_of_what_is_taken_off)
