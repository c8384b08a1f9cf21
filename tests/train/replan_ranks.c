// SPDX-License-Identifier: Apache-2.0
// labels: medium
// ranks: 2
/* Another plan in a running job of two unlike ranks: all take it or none does. */
#include "kit/job_model.h"
#include "train_support.h"

/* Two classes of one rank each; a run of 32 steps that finds plan.next in a file after the first. */
typedef struct pair {
    bench bench;
    qs_cluster cluster;
    qs_plan start, next;
    char file[96];
    warnings heard;
} pair;

static const char *const class_names[2] = {"big", "weak"};

static void step_note(void *context, int64_t step, double seconds) {
    pair *here = context;
    (void)seconds;
    if (step == 0 && qs_comm_rank(here->bench.comm) == 0) assert_ok(qs_plan_write(here->file, &here->next));
}

/* All adjustable operators of a class under one recipe, as written by hand: no schedule to compare with. */
static void class_fill(const qs_graph *graph, const char *name, const char *recipe, int64_t batch, qs_class_plan *out) {
    snprintf(out->class_name, sizeof out->class_name, "%s", name);
    out->batch = batch;
    out->idle = batch == 0;
    assert_ok(qs_allocate((size_t)graph->nodes, sizeof *out->operator_, &out->operator_));
    for (int n = graph->samples.inputs; n < graph->nodes; n++) {
        if (graph->node[n].op->kind != QS_ADJUSTABLE) continue;
        qs_operator_choice *choice = &out->operator_[out->operators++];
        snprintf(choice->name, sizeof choice->name, "%s", graph->node[n].name);
        snprintf(choice->recipe, sizeof choice->recipe, "%s", recipe);
    }
}

static void plan_pair_fill(pair *here, const char *planner, const char *const recipe[2], const int64_t batch[2], qs_plan *out) {
    static const char *const known[] = {"fp32", "bf16", "int8/bf16"};
    qs_graph *graph = NULL;
    memset(out, 0, sizeof *out);
    assert_ok(job_model(&here->bench.job, &graph));
    snprintf(out->planner, sizeof out->planner, "%s", planner);
    out->job = here->bench.job;
    assert_ok(qs_allocate(3, sizeof *out->recipe, &out->recipe));
    for (; out->recipes < 3; out->recipes++)
        assert_ok(qs_recipe_builtin(known[out->recipes], &out->recipe[out->recipes]));
    assert_ok(qs_allocate(2, sizeof *out->class_, &out->class_));
    for (; out->classes < 2; out->classes++)
        class_fill(graph, class_names[out->classes], recipe[out->classes], batch[out->classes], &out->class_[out->classes]);
    qs_graph_release(graph);
}

static size_t arena_of(const pair *here, const char *recipe_name) {
    qs_graph *graph = NULL;
    qs_schedule *schedule = NULL;
    qs_recipe recipe;
    const qs_recipe **bound = NULL;
    assert_ok(job_model(&here->bench.job, &graph));
    assert_ok(qs_allocate((size_t)graph->nodes, sizeof *bound, &bound));
    assert_ok(qs_recipe_builtin(recipe_name, &recipe));
    for (int n = graph->samples.inputs; n < graph->nodes; n++)
        if (graph->node[n].op->kind == QS_ADJUSTABLE) bound[n] = &recipe;
    const qs_lowering lowering = {.graph = graph,
                                  .batch = here->bench.job.batch,
                                  .mode = QS_MODE_TRAIN,
                                  .job = &here->bench.job,
                                  .recipe = bound,
                                  .half = qs_format_of("bf16"),
                                  .lookup = qs_lookup_device,
                                  .context = here->bench.device};
    assert_ok(qs_schedule_lower(&lowering, &schedule));
    const size_t bytes = schedule->arena_bytes;
    qs_schedule_release(schedule);
    qs_graph_release(graph);
    free(bound);
    return bytes;
}

static void pair_open(pair *here) {
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
    here->bench.job.rate.base = 0.01;
    here->bench.options.cluster = &here->cluster;
    here->bench.options.hash_every = 1;
    here->bench.options.test_limit = 20;
    here->bench.options.max_steps = 12;
    here->bench.options.step_done = step_note;
    here->bench.options.step_context = here;
    here->bench.options.plan = &here->start;
    snprintf(here->file, sizeof here->file, "%s/next.json", here->bench.folder);
    /* As when all ranks are started alike; only the first one looks. */
    here->bench.options.watch_plan = here->file;
    here->bench.options.run_folder = here->bench.folder;
    qs_log_set(warnings_hear, &here->heard);
}

static void pair_close(pair *here) {
    qs_log_set(NULL, NULL);
    unlink(here->file);
    qs_plan_release(&here->start);
    qs_plan_release(&here->next);
    qs_cluster_release(&here->cluster);
    bench_close(&here->bench);
}

static bool is_first(const pair *here) {
    return qs_comm_rank(here->bench.comm) == 0;
}

static uint64_t pair_run(pair *here, int replans, char **metrics) {
    qs_train_result result;
    here->heard.count = 0;
    assert_ok(qs_train(&here->bench.options, here->bench.device, here->bench.comm, &result));
    assert_int_equal(result.replans, replans);
    const uint64_t hash = result.weights_hash;
    result_release(&result);
    *metrics = NULL;
    if (is_first(here)) file_text(here->bench.folder, "metrics.jsonl", metrics);
    return hash;
}

static const char *const fp32_int8[2] = {"fp32", "int8/bf16"}, *const bf16_fp32[2] = {"bf16", "fp32"};
static const int64_t even[2] = {4, 4}, uneven[2] = {5, 3};

/* Rank 0 could; rank 1 lacks one byte. */
TEST(none_switches_when_one_cannot) {
    pair here;
    char figure[64], *metrics = NULL, *alone_metrics = NULL;
    pair_open(&here);
    plan_pair_fill(&here, "", fp32_int8, even, &here.start);
    plan_pair_fill(&here, "next", bf16_fp32, even, &here.next);
    here.cluster.class_[1].memory_limit = (int64_t)arena_of(&here, "fp32") - 1;
    const uint64_t hash = pair_run(&here, 0, &metrics);
    assert_int_equal(here.heard.count, is_first(&here) ? 1 : 0);
    if (is_first(&here)) {
        snprintf(figure, sizeof figure, "%lld bytes", (long long)here.cluster.class_[1].memory_limit);
        if (!strstr(here.heard.last, "rank 1: ") || !strstr(here.heard.last, "weak") || !strstr(here.heard.last, figure))
            fail_msg("the warning \"%s\" does not say rank, class and limit", here.heard.last);
    }
    here.bench.options.watch_plan = NULL;
    assert_true(pair_run(&here, 0, &alone_metrics) == hash);
    if (is_first(&here)) assert_string_equal(metrics, alone_metrics);
    free(metrics);
    free(alone_metrics);
    pair_close(&here);
}

/* Each rank to its own class's part; weights are compared after every step. */
TEST(all_switch) {
    pair here;
    char *metrics = NULL, figure[64];
    pair_open(&here);
    plan_pair_fill(&here, "", fp32_int8, even, &here.start);
    plan_pair_fill(&here, "next", bf16_fp32, even, &here.next);
    (void)pair_run(&here, 1, &metrics);
    assert_int_equal(here.heard.count, 0);
    if (is_first(&here)) {
        assert_non_null(strstr(metrics, "\"type\":\"replan\",\"epoch\":1,\"step\":11,\"planner\":\"next\""));
        snprintf(figure, sizeof figure, "\"arena_bytes_before.1\":%zu,\"arena_bytes.1\":%zu", arena_of(&here, "int8/bf16"),
                 arena_of(&here, "fp32"));
        assert_non_null(strstr(metrics, figure));
    }
    free(metrics);
    pair_close(&here);
}

/* Loss of the report behind the switch, which stands on the weights of before; NaN on the other rank. */
static double loss_behind(const char *metrics) {
    const char *line = metrics ? strstr(metrics, "\"step\":11,\"samples\":8,\"loss\":") : NULL;
    if (!metrics) return NAN;
    assert_non_null(line);
    return strtod(strstr(line, "\"loss\":") + 7, NULL);
}

/* The same 8 samples, dealt 5 and 3 instead of 4 and 4: one step behind the switch their loss is a sum of 8 numbers in another order. */
TEST(batches_shift_between_ranks) {
    pair here;
    char *metrics = NULL, *even_metrics = NULL;
    static const char *const fp32[2] = {"fp32", "fp32"};
    pair_open(&here);
    here.bench.options.max_steps = 11;
    plan_pair_fill(&here, "", fp32, even, &here.start);
    plan_pair_fill(&here, "next", fp32, uneven, &here.next);
    (void)pair_run(&here, 1, &metrics);
    here.bench.options.watch_plan = NULL;
    (void)pair_run(&here, 0, &even_metrics);
    const double shifted = loss_behind(metrics), still = loss_behind(even_metrics);
    if (is_first(&here) && !(fabs(shifted - still) <= 8 * 0x1p-24 * still + 1e-8 * still)) /* 9 digits are printed */
        fail_msg("loss %.9g, with equal batches %.9g", shifted, still);
    free(metrics);
    free(even_metrics);
    here.bench.options.watch_plan = here.file;
    here.next.class_[1].batch = 4; /* 9 samples instead of 8 */
    (void)pair_run(&here, 0, &metrics);
    assert_int_equal(here.heard.count, is_first(&here) ? 1 : 0);
    if (is_first(&here)) assert_non_null(strstr(here.heard.last, "sum to 9 samples"));
    free(metrics);
    pair_close(&here);
}

/* Half-way one rank takes all samples and the other none; one step behind that their loss is a sum in another order. */
TEST(a_class_goes_idle) {
    static const char *const fp32[2] = {"fp32", "fp32"};
    static const int64_t all[2] = {8, 0};
    pair here;
    char *metrics = NULL, *even_metrics = NULL;
    pair_open(&here);
    here.bench.options.max_steps = 11;
    plan_pair_fill(&here, "", fp32, even, &here.start);
    plan_pair_fill(&here, "next", fp32, all, &here.next);
    (void)pair_run(&here, 1, &metrics);
    here.bench.options.watch_plan = NULL;
    (void)pair_run(&here, 0, &even_metrics);
    const double idle = loss_behind(metrics), still = loss_behind(even_metrics);
    if (is_first(&here)) assert_non_null(strstr(metrics, "\"batch.big\":8,\"batch.weak\":0"));
    if (is_first(&here) && !(fabs(idle - still) <= 8 * 0x1p-24 * still + 1e-8 * still))
        fail_msg("loss %.9g, with equal batches %.9g", idle, still);
    free(metrics);
    free(even_metrics);
    pair_close(&here);
}

/* The settings of a short run of a model with batch norms. */
static void short_run_fill(bench *one) {
    snprintf(one->job.model, sizeof one->job.model, "resnet8:width=0.5");
    one->job.rate.base = 0.01;
    one->options.training_limit = 20;
    one->options.test_limit = 20;
    one->options.max_steps = 4;
    one->options.hash_every = 1;
    one->options.run_folder = one->folder;
}

/* Whichever of two ranks is idle, the bits are learned that a rank by itself learns, statistics of batch norms among them: zeros and shares
 * of 0 leave no trace. A smaller last step is dealt likewise. */
TEST(an_idle_rank_leaves_no_trace) {
    static const char *const fp32[2] = {"fp32", "fp32"};
    static const int64_t batch[2][2] = {{8, 0}, {0, 8}};
    uint64_t hash[2];
    char *metrics[2] = {NULL};
    for (int i = 0; i < 2; i++) {
        pair here;
        pair_open(&here);
        short_run_fill(&here.bench);
        here.bench.options.watch_plan = NULL;
        here.bench.options.step_done = NULL;
        plan_pair_fill(&here, "", fp32, batch[i], &here.start);
        hash[i] = pair_run(&here, 0, &metrics[i]);
        pair_close(&here);
    }
    assert_true(hash[0] == hash[1]);
    if (metrics[0]) { /* on the first rank */
        bench alone;
        qs_train_result result;
        char *alone_metrics = NULL;
        bench_open(&alone, "ref", "self", "lenet5", 8);
        short_run_fill(&alone);
        assert_ok(qs_train(&alone.options, alone.device, alone.comm, &result));
        file_text(alone.folder, "metrics.jsonl", &alone_metrics);
        assert_string_equal(metrics[0], metrics[1]);
        assert_string_equal(metrics[0], alone_metrics);
        assert_non_null(strstr(metrics[0], "\"samples\":20,"));
        free(alone_metrics);
        result_release(&result);
        bench_close(&alone);
    }
    free(metrics[0]);
    free(metrics[1]);
}

TEST_MAIN_RANKS(none_switches_when_one_cannot, all_switch, batches_shift_between_ranks, a_class_goes_idle, an_idle_rank_leaves_no_trace)
