// SPDX-License-Identifier: Apache-2.0
// labels: medium
// ranks: 3
/* A plan may give every class a batch of its own: what is learned, counted and saved is what one rank with the global batch would learn,
 * count and save. */
#include "kit/job_model.h"
#include "exact_support.h"

TEST(gradients_are_those_of_one_rank) {
    compare_with_one("ref", "lenet5", 8, (const int64_t[]){8, 5, 3});
    compare_with_one("ref", "mlp:width=0.25", 8, (const int64_t[]){1, 14, 1});
    if (backend_exists("cpu")) compare_with_one("cpu", "vgg11:width=0.125", 8, (const int64_t[]){9, 4, 3});
}

/* ---- Whole runs -------------------------------------------------------------------------------------------------------------------- */

typedef struct figures {
    double loss, test_loss, test_accuracy;
    int64_t steps;
    char *metrics;  /* rank 0 */
    float *running; /* of the weights file, rank 0 */
} figures;

static void weights_fill(const bench *here, figures *out) {
    qs_graph *graph = NULL;
    float *masters = NULL;
    char path[128];
    snprintf(path, sizeof path, "%s/weights.safetensors", here->folder);
    assert_ok(job_model(&here->job, &graph));
    assert_ok(qs_allocate((size_t)graph->trained_elements, sizeof *masters, &masters));
    assert_ok(qs_allocate((size_t)graph->statistics_elements, sizeof *out->running, &out->running));
    assert_ok(qs_weights_read(path, graph, masters, out->running));
    free(masters);
    qs_graph_release(graph);
}

/* Global batches of 18 samples, the last one what is left. Rate 0: every step sees the start's weights, so that losses depend on nothing
 * but which samples were counted, and how often. */
static void run(const char *model, const char *comm, const char *cluster, const char *plan_text, int64_t batch, int64_t samples,
                figures *out) {
    bench here;
    qs_plan plan = {0};
    qs_train_result result;
    bench_open(&here, fast_backend(), comm, model, batch);
    here.job.rate.base = 0;
    here.job.augmentation = true;
    here.options.training_limit = samples;
    here.options.test_limit = 50;
    here.options.hash_every = 1;
    here.options.run_folder = here.folder;
    qs_cluster_release(&here.cluster);
    assert_ok(qs_cluster_parse(cluster, "test", &here.cluster));
    if (plan_text) {
        assert_ok(qs_plan_parse(plan_text, "test", &plan));
        here.options.plan = &plan;
    }
    assert_ok(qs_train(&here.options, here.device, here.comm, &result));
    *out = (figures){
        .loss = result.training_loss, .test_loss = result.test_loss, .test_accuracy = result.test_accuracy, .steps = result.steps};
    if (qs_comm_rank(here.comm) == 0) {
        file_text(here.folder, "metrics.jsonl", &out->metrics);
        weights_fill(&here, out);
    }
    result_release(&result);
    qs_plan_release(&plan);
    bench_close(&here);
}

static void figures_release(figures *one) {
    free(one->metrics);
    free(one->running);
}

static const char cluster_one[] = "{\"schema\":\"qsync/cluster/2\",\"classes\":{\"one\":{\"role\":\"training\",\"backend\":\"%s\","
                                  "\"formats\":[\"fp32\"]}}}";
static const char cluster_three[] = "{\"schema\":\"qsync/cluster/2\",\"classes\":{\"strong\":{\"role\":\"training\",\"backend\":\"%s\","
                                    "\"formats\":[\"fp32\"]},\"weak\":{\"role\":\"inference\",\"backend\":\"%s\",\"count\":2,"
                                    "\"formats\":[\"fp32\"]}}}";
static const char plan_text[] = "{\"schema\":\"qsync/plan/2\",\"classes\":{\"strong\":{\"batch\":%d,\"operators\":{}},"
                                "\"weak\":{\"batch\":%d,\"operators\":{}}}}";

static void run_both(const char *model, int64_t samples, figures *alone, figures *shared) {
    char one[512], three[512], plan[512];
    snprintf(one, sizeof one, cluster_one, fast_backend());
    snprintf(three, sizeof three, cluster_three, fast_backend(), fast_backend());
    snprintf(plan, sizeof plan, plan_text, 8, 5);
    run(model, "self", one, NULL, 18, samples, alone);
    run(model, NULL, three, plan, 6, samples, shared);
}

/* A mean of 100 losses of at most ln(10) and some, each a sum behind layers: the bound of the gradients holds for them as well. */
TEST(every_sample_counts_once) {
    figures alone, shared;
    run_both("lenet5", 100, &alone, &shared);
    assert_int_equal(alone.steps, 6);
    assert_int_equal(shared.steps, 6);
    assert_true(fabs(alone.loss - shared.loss) <= tolerance * alone.loss);
    assert_true(fabs(alone.test_loss - shared.test_loss) <= tolerance * alone.test_loss);
    assert_true(alone.test_accuracy == shared.test_accuracy);
    if (shared.metrics) {
        assert_non_null(strstr(shared.metrics, "\"samples\":100"));
        assert_non_null(strstr(alone.metrics, "\"samples\":100"));
    }
    figures_release(&alone);
    figures_release(&shared);
}

/* Only the first batch norm: what it sees depends on samples alone, later ones follow it with their rank's own batch. */
static int first_mean(const char *model, int64_t *count) {
    qs_graph *graph = NULL;
    int64_t offset = -1;
    const qs_model_input input = {3, 32, 32, 10};
    assert_ok(qs_model_build(model, &input, &graph));
    for (int i = 0; i < graph->parameters && offset < 0; i++) {
        if (graph->parameter[i].role != QS_RUNNING_MEAN) continue;
        offset = graph->parameter[i].offset;
        *count = qs_shape_count(&graph->parameter[i].shape);
    }
    qs_graph_release(graph);
    return (int)offset;
}

/* Means of batches weighted by their samples are the mean of the global batch, but for rounding; an unweighted mean would be off by the
 * spread of batch means. */
TEST(running_statistics_are_weighted) {
    figures alone, shared;
    int64_t count = 0;
    const int offset = first_mean("resnet8:width=0.5", &count);
    run_both("resnet8:width=0.5", 90, &alone, &shared);
    double error = 0, size = 0;
    for (int64_t i = 0; shared.running && i < count; i++) {
        error = fmax(error, fabs((double)shared.running[offset + i] - (double)alone.running[offset + i]));
        size = fmax(size, fabs((double)alone.running[offset + i]));
    }
    assert_true(error <= tolerance * size);
    figures_release(&alone);
    figures_release(&shared);
}

TEST_MAIN_RANKS(gradients_are_those_of_one_rank, every_sample_counts_once, running_statistics_are_weighted)
