// SPDX-License-Identifier: Apache-2.0
// labels: medium
// ranks: 2
/* Promotion on two unlike ranks: both take the higher format in the same step or neither does; gradients that overflow to infinity make
 * both skip; a loss that is not finite names rank, step, operator and tensor, and leaves complete records. */
#include "kit/job_model.h"
#include "train_support.h"

typedef struct pair {
    bench bench;
    qs_cluster cluster;
    qs_plan plan;
    warnings heard;
} pair;

static const char *const class_names[2] = {"big", "weak"};

/* The tensors of both classes. */
static void pair_open_both(pair *here, const char *big, const char *weak) {
    char *text = NULL;
    memset(here, 0, sizeof *here);
    bench_open(&here->bench, "ref", NULL, "lenet5", 4);
    assert_int_equal(qs_comm_size(here->bench.comm), 2);
    here->cluster.classes = 2;
    assert_ok(qs_allocate(2, sizeof *here->cluster.class_, &here->cluster.class_));
    for (int i = 0; i < 2; i++) {
        here->cluster.class_[i] = here->bench.cluster.class_[0];
        here->cluster.class_[i].count = 1;
        snprintf(here->cluster.class_[i].name, sizeof here->cluster.class_[i].name, "%s", class_names[i]);
    }
    assert_ok(qs_format_text(&text,
                             "{\"schema\":\"qsync/plan/2\",\"classes\":{\"big\":{\"operators\":{},\"tensors\":{%s}},"
                             "\"weak\":{\"operators\":{},\"tensors\":{%s}}}}",
                             big, weak));
    assert_ok(qs_plan_parse(text, "plan", &here->plan));
    free(text);
    here->bench.options.cluster = &here->cluster;
    here->bench.options.hash_every = 1;
    here->bench.options.test_limit = 20;
    here->bench.options.max_steps = 12;
    here->bench.options.plan = &here->plan;
    here->bench.options.run_folder = here->bench.folder;
    qs_log_set(warnings_hear, &here->heard);
}

static void pair_open(pair *here, const char *weak) {
    pair_open_both(here, "", weak);
}

static void pair_close(pair *here) {
    qs_log_set(NULL, NULL);
    qs_plan_release(&here->plan);
    qs_cluster_release(&here->cluster);
    bench_close(&here->bench);
}

static bool is_first(const pair *here) {
    return qs_comm_rank(here->bench.comm) == 0;
}

/* Lines of metrics.jsonl that hold `part`; 0 on the other rank. */
static int metrics_count(const pair *here, const char *part) {
    char *text = NULL;
    int count = 0;
    if (!is_first(here)) return 0;
    file_text(here->bench.folder, "metrics.jsonl", &text);
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++)
        count++;
    free(text);
    return count;
}

static void expect_metrics(const pair *here, int count, const char *part) {
    if (is_first(here) && metrics_count(here, part) != count)
        fail_msg("%d lines of %s, expected %d", metrics_count(here, part), part, count);
}

static size_t arena_of(pair *here) {
    qs_train_result result;
    const int64_t steps = here->bench.options.max_steps;
    here->bench.options.max_steps = 1;
    assert_ok(qs_train(&here->bench.options, here->bench.device, here->bench.comm, &result));
    const size_t bytes = (size_t)result.reserved_bytes[1];
    here->bench.options.max_steps = steps;
    result_release(&result);
    return bytes;
}

/* fp(2,1,8) holds magnitudes up to 2^-5 × 1.5: nearly all images and half of the activations overflow. */
#define NARROW "{\"value\":\"fp(2,1,8)\",\"saved\":\"fp(2,1,8)\",\"promote_at\":%s}"

/* input and conv2 grow from 4 to 16 bits. */
static double share_expected(const pair *here) {
    qs_graph *graph = NULL;
    qs_groups groups;
    assert_ok(job_model(&here->bench.job, &graph));
    assert_ok(qs_graph_groups(graph, 4, &groups));
    const qs_shape input = qs_graph_shape(graph, 0, 4), conv2 = qs_graph_shape(graph, qs_graph_find(graph, "conv2"), 4);
    const double share = 1.5 * (double)(qs_shape_count(&input) + qs_shape_count(&conv2)) / (2.0 * (double)groups.elements);
    qs_groups_release(&groups);
    qs_graph_release(graph);
    return share;
}

/* Only rank 1's class rounds; both switch before step 2, for good, and never again. */
TEST(both_promote_in_one_step) {
    pair here;
    qs_train_result result;
    char *text = NULL, *plan = NULL;
    assert_ok(qs_format_text(&text, "\"input\":" NARROW ",\"conv2\":" NARROW ",\"fc1\":" NARROW, "0.3", "0.01", "1"));
    pair_open(&here, text);
    const size_t before = arena_of(&here);
    assert_ok(qs_train(&here.bench.options, here.bench.device, here.bench.comm, &result));
    assert_int_equal(result.promotions, 2);
    assert_int_equal(result.promotions_refused, 0);
    assert_int_equal(result.replans, 0);
    assert_int_equal(result.promotion_bytes, result.reserved_bytes[1] - (int64_t)before); /* nothing grows on rank 0 */
    assert_true(fabs(result.promotion_share - share_expected(&here)) < 1e-12);
    expect_metrics(&here, 2, "\"type\":\"promotion\"");
    expect_metrics(&here, 1,
                   "\"type\":\"promotion\",\"epoch\":1,\"step\":2,\"tensor\":\"input\",\"from\":\"fp(2,1,8)\",\"to\":\"fp(6,9,0)\"");
    expect_metrics(&here, 1, "\"type\":\"promotion\",\"epoch\":1,\"step\":2,\"tensor\":\"conv2\"");
    expect_metrics(&here, 2, "\"rank\":1,\"rank_overflow_ratio\":");
    expect_metrics(&here, 1, "\"type\":\"rounding\",\"epoch\":1,\"tensor\":\"fc1\",\"part\":\"value\",\"format\":\"fp(2,1,8)\"");
    if (is_first(&here)) {
        file_text(here.bench.folder, "plan.json", &plan);
        assert_non_null(strstr(plan, "\"conv2\": {\"value\": \"fp(6,9,0)\", \"saved\": \"fp(6,9,0)\", \"promote_at\": 0.01}"));
        assert_non_null(strstr(plan, "\"fc1\": {\"value\": \"fp(2,1,8)\""));
        free(plan);
    }
    result_release(&result);
    pair_close(&here);
    free(text);
}

/* More than nine tenths of rank 1's images overflow, so less than 0.7 of all: where they are in the higher format already they neither thin
 * the share nor change. */
static void high_ranks_do_not_dilute(const char *high) {
    pair here;
    qs_train_result result;
    char *big = NULL, *weak = NULL, *metrics = NULL, *plan = NULL;
    assert_ok(qs_format_text(&big, "\"input\": {\"value\": \"%s\", \"saved\": \"%s\", \"promote_to\": \"%s\"}", high, high, high));
    assert_ok(qs_format_text(&weak, "\"input\":" NARROW, "0.7"));
    pair_open_both(&here, big, weak);
    assert_ok(qs_train(&here.bench.options, here.bench.device, here.bench.comm, &result));
    assert_int_equal(result.promotions, 1);
    if (is_first(&here)) {
        double all = 0, own = 0;
        file_text(here.bench.folder, "metrics.jsonl", &metrics);
        const char *line = strstr(metrics, "\"type\":\"promotion\",\"epoch\":1,\"step\":2,\"tensor\":\"input\"");
        assert_non_null(line);
        assert_int_equal(sscanf(strstr(line, "\"overflow_ratio\":"), "\"overflow_ratio\":%lf", &all), 1);
        assert_int_equal(sscanf(strstr(line, "\"rank\":1,"), "\"rank\":1,\"rank_overflow_ratio\":%lf", &own), 1);
        assert_true(all > 0.7 && all == own);
        file_text(here.bench.folder, "plan.json", &plan);
        assert_non_null(strstr(strstr(plan, "\"big\""), big));
        free(metrics);
        free(plan);
    }
    result_release(&result);
    pair_close(&here);
    free(big);
    free(weak);
}

TEST(shares_are_of_low_ranks) {
    high_ranks_do_not_dilute("fp(6,9,0)");
    high_ranks_do_not_dilute("bf16");
}

/* The options' threshold goes before the plan's. */
TEST(never_promoted) {
    pair here;
    qs_train_result result;
    char *text = NULL;
    assert_ok(qs_format_text(&text, "\"input\":" NARROW, "0.01"));
    pair_open(&here, text);
    here.bench.options.promote_at = -1;
    assert_ok(qs_train(&here.bench.options, here.bench.device, here.bench.comm, &result));
    assert_int_equal(result.promotions, 0);
    expect_metrics(&here, 0, "promotion");
    result_release(&result);
    pair_close(&here);
    free(text);
}

/* Rank 1 has not a byte more than the low formats take: refused on both, once, and training goes on as without promotion. */
TEST(refused_for_want_of_memory) {
    pair here;
    qs_train_result result, still;
    char *text = NULL;
    assert_ok(qs_format_text(&text, "\"input\":" NARROW, "0.01"));
    pair_open(&here, text);
    here.cluster.class_[1].memory_limit = (int64_t)arena_of(&here);
    assert_ok(qs_train(&here.bench.options, here.bench.device, here.bench.comm, &result));
    here.bench.options.promote_at = -1;
    assert_ok(qs_train(&here.bench.options, here.bench.device, here.bench.comm, &still));
    assert_int_equal(result.promotions, 0);
    assert_int_equal(result.promotions_refused, 1);
    assert_int_equal(here.heard.count, is_first(&here) ? 1 : 0);
    if (is_first(&here) && (!strstr(here.heard.last, "tensor input stays in fp(2,1,8)") || !strstr(here.heard.last, "rank 1: ")))
        fail_msg("the warning \"%s\" does not say tensor and rank", here.heard.last);
    assert_true(result.weights_hash == still.weights_hash);
    result_release(&result);
    result_release(&still);
    pair_close(&here);
    free(text);
}

/* fp(2,3,-4) has no magnitude between 0 and 2: most images underflow, none overflows. What refuses it tells of underflows, too. */
TEST(underflows_promote_where_asked) {
    pair here;
    qs_train_result result, refused;
    pair_open(&here, "\"input\":{\"value\":\"fp(2,3,-4)\",\"saved\":\"fp(2,3,-4)\",\"promote_at\":0.01}");
    const size_t low = arena_of(&here);
    here.bench.options.promote_underflow = 0.3;
    assert_ok(qs_train(&here.bench.options, here.bench.device, here.bench.comm, &result));
    assert_int_equal(result.promotions, 1);
    expect_metrics(&here, 1, "\"type\":\"promotion\",\"epoch\":1,\"step\":2,\"tensor\":\"input\"");
    expect_metrics(&here, 1, "\"rank\":1,\"rank_underflow_ratio\":0.");
    here.cluster.class_[1].memory_limit = (int64_t)low;
    assert_ok(qs_train(&here.bench.options, here.bench.device, here.bench.comm, &refused));
    assert_int_equal(refused.promotions_refused, 1);
    if (is_first(&here) && !strstr(here.heard.last, "of its elements underflowed in step 1, most on rank 1): rank 1: "))
        fail_msg("the warning \"%s\" does not say why", here.heard.last);
    here.bench.options.promote_underflow = 0;
    here.cluster.class_[1].memory_limit = 0;
    result_release(&result);
    assert_ok(qs_train(&here.bench.options, here.bench.device, here.bench.comm, &result));
    assert_int_equal(result.promotions + result.promotions_refused, 0);
    result_release(&result);
    result_release(&refused);
    pair_close(&here);
}

/* At a scale of 2^16 the gradients of rank 1's loss are beyond fp(4,3,4)'s 30 only in one layer: rank 0's are finite, both skip. */
TEST(both_skip) {
    pair here;
    qs_train_result result;
    pair_open(&here, "\"fc1\":{\"gradient\":\"fp(4,3,4):overflow=inf\"}");
    here.bench.job.dynamic_loss_scaling = true;
    here.bench.job.loss_scale = 65536;
    assert_ok(qs_train(&here.bench.options, here.bench.device, here.bench.comm, &result)); /* hash_every 1: weights agree */
    if (is_first(&here)) {
        char *text = NULL;
        file_text(here.bench.folder, "metrics.jsonl", &text);
        const char *skipped = strstr(text, "\"skipped_steps\":");
        assert_non_null(skipped);
        assert_true(strtol(skipped + 16, NULL, 10) >= 1);
        free(text);
    }
    result_release(&result);
    pair_close(&here);
}

static void file_there(const pair *here, const char *name, bool there) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", here->bench.folder, name);
    if ((access(path, F_OK) == 0) != there) fail_msg("%s %s", name, there ? "is missing" : "is there");
}

TEST(diverges) {
    pair here;
    qs_train_result result;
    pair_open(&here, "");
    here.bench.job.rate.base = 1e30;
    here.bench.job.rate.warmup_epochs = 0;
    assert_refused(qs_train(&here.bench.options, here.bench.device, here.bench.comm, &result), QS_NUMERIC,
                   "rank 0: the training loss is not finite in step ");
    assert_message("operator ");
    assert_message("tensor ");
    expect_metrics(&here, 1, "\"type\":\"failure\",\"epoch\":1,\"step\":");
    if (is_first(&here)) {
        file_there(&here, "audit.json", true);
        file_there(&here, "timing.json", true);
        file_there(&here, "config.json", true);
        file_there(&here, "weights.safetensors", false);
    }
    pair_close(&here);
}

/* Rank 1's class overflows in the gradient of one output, whose loss nothing spoils: told of the step where it arose, though rank 0's
 * gradients are finite, and before a weight is. */
TEST(gradient_is_named) {
    pair here;
    qs_train_result result;
    pair_open(&here, "\"fc1\":{\"gradient\":\"fp(2,1,8):overflow=inf\"}");
    here.bench.job.loss_scale = 65536;
    assert_refused(qs_train(&here.bench.options, here.bench.device, here.bench.comm, &result), QS_NUMERIC,
                   "rank 1: a gradient is not finite in step 1: operator fc1, tensor gradient of fc1 is the first that is not");
    expect_metrics(&here, 1,
                   "\"type\":\"failure\",\"epoch\":1,\"step\":1,\"reason\":\"gradient\",\"rank\":1,\"operator\":\"fc1\","
                   "\"tensor\":\"gradient of fc1\"");
    pair_close(&here);
}

/* The largest magnitude is 2^-27 × 1.5: halving down to 1 does not help, and the third skipped step ends the run. */
TEST(endless_skipping_is_named) {
    pair here;
    qs_train_result result;
    pair_open(&here, "\"fc1\":{\"gradient\":\"fp(2,1,30):overflow=inf\"}");
    here.bench.job.dynamic_loss_scaling = true;
    here.bench.job.loss_scale = 2;
    here.bench.options.skip_limit = 3;
    assert_refused(qs_train(&here.bench.options, here.bench.device, here.bench.comm, &result), QS_NUMERIC,
                   "rank 1: gradients were not finite in 3 steps in a row, up to step 3; loss scaling skipped them all: operator fc1, "
                   "tensor gradient of fc1");
    expect_metrics(&here, 1, "\"type\":\"failure\",\"epoch\":1,\"step\":3,\"reason\":\"skipping\",\"rank\":1");
    if (is_first(&here)) file_there(&here, "audit.json", true);
    pair_close(&here);
}

/* One weight that is not a number: the first step says whose. */
TEST(planted_nan) {
    pair here;
    qs_train_result result;
    qs_graph *graph = NULL;
    char path[128];
    float *trained = NULL, *statistics = NULL;
    pair_open(&here, "");
    assert_ok(job_model(&here.bench.job, &graph));
    assert_ok(qs_allocate((size_t)graph->trained_elements, sizeof *trained, &trained));
    assert_ok(qs_allocate((size_t)graph->statistics_elements + 1, sizeof *statistics, &statistics));
    qs_graph_initialize(graph, 1, trained, statistics);
    trained[qs_graph_parameter(graph, qs_graph_find(graph, "conv2"), QS_WEIGHTS)->offset + 7] = NAN;
    snprintf(path, sizeof path, "%s/start.qsync", here.bench.folder);
    assert_ok(qs_weights_write(path, graph, trained, statistics));
    here.bench.options.start_weights = path;
    assert_refused(qs_train(&here.bench.options, here.bench.device, here.bench.comm, &result), QS_NUMERIC,
                   "the training loss is not finite in step 1: operator conv2, tensor conv2.weights is the first that is not");
    expect_metrics(&here, 1,
                   "\"type\":\"failure\",\"epoch\":1,\"step\":1,\"reason\":\"loss\",\"rank\":0,"
                   "\"operator\":\"conv2\",\"tensor\":\"conv2.weights\"");
    unlink(path);
    qs_graph_release(graph);
    free(trained);
    free(statistics);
    pair_close(&here);
}

TEST_MAIN_RANKS(both_promote_in_one_step, shares_are_of_low_ranks, never_promoted, refused_for_want_of_memory,
                underflows_promote_where_asked, both_skip, diverges, gradient_is_named, endless_skipping_is_named, planted_nan)
