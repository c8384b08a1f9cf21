// SPDX-License-Identifier: Apache-2.0
/* qsync-bench mapper: how long a change of one operator takes in the cost mapper: a long chain of residual blocks under random changes,
 * against lowering from scratch. Costs are synthetic, since only the time of finding them counts; the changes are made twice, so that
 * the second time no case is new. */
#include "bench.h"

#include <stdlib.h>

#include "synthetic.h"

enum { CHANGES = 2000, LOWERINGS = 5, BATCH = 32, STAGES = 3, BLOCK_OPERATORS = 7 };

static const char *const recipe_names[] = {"fp32", "bf16", "fp16", "int8/bf16", "int8/fp32"};
enum { RECIPES = sizeof recipe_names / sizeof *recipe_names };

static const synthetic_device device = {.name = "synthetic", .fp32 = 100e3, .half = 200e3, .int8 = 400e3, .bytes = 30e3};

typedef struct timing {
    double us[CHANGES], undo_us[CHANGES], removed_and_added[CHANGES];
} timing;

typedef struct mapper_bench {
    qs_graph *graph;
    int adjustable, *node; /* the adjustable ones */
    qs_job job;
    qs_recipe recipe[RECIPES];
    qs_lowering lowering;
    qs_class_profile profile;
    timing timing;
    double full_us, packing_us;
    int steps;
    size_t live_bytes, arena_bytes;
} mapper_bench;

/* ---- The graph ---- */

static qs_status node_add(qs_graph *graph, const char *op, const qs_attributes *attributes, int second, int64_t outputs, int *at) {
    const int input[2] = {*at, second};
    char name[32];
    snprintf(name, sizeof name, "n%d", graph->nodes);
    return qs_graph_add(graph, name, op, attributes, second < 0 ? 1 : 2, input, outputs, false, at);
}

static qs_status conv_add(qs_graph *graph, int stride, int64_t outputs, int *at) {
    const qs_attributes attributes = {.kernel = {3, 3}, .stride = {stride, stride}, .padding = {1, 1}};
    QS_TRY(node_add(graph, "conv2d", &attributes, -1, outputs, at));
    return node_add(graph, "batch_norm", NULL, -1, 0, at);
}

static qs_status block_add(qs_graph *graph, int64_t channels, int *at) {
    const int before = *at;
    QS_TRY(conv_add(graph, 1, channels, at));
    QS_TRY(node_add(graph, "relu", NULL, -1, 0, at));
    QS_TRY(conv_add(graph, 1, channels, at));
    QS_TRY(node_add(graph, "add", NULL, before, 0, at));
    return node_add(graph, "relu", NULL, -1, 0, at);
}

static qs_status chain_fill(qs_graph *graph, int operators) {
    int at = 0;
    int64_t channels = 16;
    for (int stage = 0; stage < STAGES; stage++, channels *= 2) {
        QS_TRY(conv_add(graph, stage ? 2 : 1, channels, &at));
        QS_TRY(node_add(graph, "relu", NULL, -1, 0, &at));
        while (graph->nodes + BLOCK_OPERATORS <= operators * (stage + 1) / STAGES)
            QS_TRY(block_add(graph, channels, &at));
    }
    QS_TRY(node_add(graph, "global_average_pool", NULL, -1, 0, &at));
    QS_TRY(node_add(graph, "flatten", NULL, -1, 0, &at));
    QS_TRY(node_add(graph, "linear", NULL, -1, 10, &at));
    return qs_graph_finish(graph, at, NULL);
}

/* ---- The changes ---- */

static int change_node(const mapper_bench *one, int i) {
    return one->node[qs_random_bits(1, (uint64_t)i) % (uint32_t)one->adjustable];
}

static const qs_recipe *change_recipe(const mapper_bench *one, int i) {
    return &one->recipe[qs_random_bits(2, (uint64_t)i) % RECIPES];
}

/* Prices a case, as a conversion too where it may be one: sums of gradients are. */
static qs_status case_note(void *costs, const qs_case *one, const char *case_text, qs_kernel_row *out) {
    if (one->op->kind == QS_AUXILIARY || one->op == qs_op_of("add")) QS_TRY(synthetic_conversion(costs, one));
    return synthetic_lookup(costs, one, case_text, out);
}

/* Every case that the changes meet: those of changes_run. */
static qs_status costs_make(mapper_bench *one) {
    synthetic_costs costs = {.device = &device, .profile = &one->profile};
    qs_schedule_draft *draft = NULL;
    one->profile.step_overhead_us = 0.5;
    one->lowering.lookup = case_note;
    one->lowering.context = &costs;
    QS_TRY(qs_schedule_draft_create(&one->lowering, &draft));
    qs_status status = QS_OK;
    for (int i = 0; i < CHANGES && status == QS_OK; i++)
        status = qs_schedule_change(draft, change_node(one, i), change_recipe(one, i), NULL);
    qs_schedule_draft_release(draft);
    qs_class_profile_sort(&one->profile);
    return status;
}

static qs_status changes_run(mapper_bench *one, qs_cost_mapper *mapper) {
    for (int i = 0; i < CHANGES; i++) {
        qs_draft_change change;
        const double start = qs_clock();
        QS_TRY(qs_cost_mapper_change(mapper, change_node(one, i), change_recipe(one, i), &change));
        one->timing.us[i] = (qs_clock() - start) * 1e6;
        one->timing.removed_and_added[i] = change.removed + change.added;
    }
    return QS_OK;
}

static qs_status undos_run(mapper_bench *one, qs_cost_mapper *mapper) {
    for (int i = 0; i < CHANGES; i++) {
        const double start = qs_clock();
        QS_TRY(qs_cost_mapper_undo(mapper, NULL));
        one->timing.undo_us[i] = (qs_clock() - start) * 1e6;
    }
    return QS_OK;
}

/* The mixed state from scratch, with the recipes that the mapper arrived at. */
static qs_status lowerings_run(mapper_bench *one, const qs_cost_mapper *mapper) {
    const qs_schedule_draft *draft = qs_cost_mapper_draft(mapper);
    const qs_recipe **recipe = NULL;
    double full_us[LOWERINGS], packing_us[LOWERINGS];
    qs_lowering lowering = one->lowering;
    QS_TRY(qs_allocate((size_t)one->graph->nodes, sizeof *recipe, &recipe));
    for (int n = 0; n < one->graph->nodes; n++)
        recipe[n] = qs_schedule_draft_recipe(draft, n);
    lowering.recipe = recipe;
    qs_status status = QS_OK;
    for (int i = 0; i < LOWERINGS && status == QS_OK; i++) {
        qs_schedule *full = NULL, *finished = NULL;
        const double start = qs_clock();
        status = qs_schedule_lower(&lowering, &full);
        full_us[i] = (qs_clock() - start) * 1e6;
        if (status == QS_OK) status = qs_schedule_finish(draft, &finished, &packing_us[i]);
        if (status == QS_OK) status = qs_schedule_compare(full, finished);
        if (status == QS_OK) {
            one->steps = full->steps;
            one->live_bytes = full->live_bytes;
            one->arena_bytes = full->arena_bytes;
        }
        qs_schedule_release(full);
        qs_schedule_release(finished);
    }
    free(recipe);
    if (status != QS_OK) return status;
    one->full_us = quantile(full_us, LOWERINGS, 0.5);
    one->packing_us = quantile(packing_us, LOWERINGS, 0.5);
    return QS_OK;
}

static qs_status mapper_run(mapper_bench *one) {
    qs_cost_mapper *mapper = NULL;
    qs_status status = QS_OK;
    one->lowering.lookup = qs_lookup_profile;
    one->lowering.context = &one->profile;
    QS_TRY(qs_cost_mapper_create(&one->lowering, &one->profile, NULL, &mapper));
    for (int round = 0; round < 2; round++) {
        QS_GOTO(changes_run(one, mapper));
        if (round == 1) QS_GOTO(lowerings_run(one, mapper));
        QS_GOTO(undos_run(one, mapper));
    }
done:
    qs_cost_mapper_release(mapper);
    return status;
}

/* ---- All of it ---- */

static qs_status bench_start(mapper_bench *one, int operators) {
    QS_TRY(qs_graph_of_images("chain", 3, 32, 32, &one->graph));
    QS_TRY(chain_fill(one->graph, operators));
    QS_TRY(qs_allocate((size_t)one->graph->nodes, sizeof *one->node, &one->node));
    for (int n = one->graph->samples.inputs; n < one->graph->nodes; n++)
        if (one->graph->node[n].op->kind == QS_ADJUSTABLE) one->node[one->adjustable++] = n;
    for (int i = 0; i < RECIPES; i++)
        QS_TRY(qs_recipe_builtin(recipe_names[i], &one->recipe[i]));
    qs_job_default(&one->job);
    one->job.batch = BATCH;
    one->lowering =
        (qs_lowering){.graph = one->graph, .batch = BATCH, .mode = QS_MODE_TRAIN, .job = &one->job, .half = qs_format_of("bf16")};
    return QS_OK;
}

static qs_status figures_print(mapper_bench *one, bool json) {
    timing *times = &one->timing;
    const double median = quantile(times->us, CHANGES, 0.5), high = quantile(times->us, CHANGES, 0.95),
                 undo = quantile(times->undo_us, CHANGES, 0.5), steps = quantile(times->removed_and_added, CHANGES, 0.5);
    if (json)
        return json_print(json_pack("{s:i,s:i,s:i,s:f,s:f,s:f,s:f,s:f,s:f,s:I,s:I}", "operators", one->graph->nodes - 1, "steps",
                                    one->steps, "changes", CHANGES, "change_us", median, "change_p95_us", high, "undo_us", undo,
                                    "steps_per_change", steps, "full_lowering_us", one->full_us, "packing_us", one->packing_us,
                                    "live_bytes", (json_int_t)one->live_bytes, "arena_bytes", (json_int_t)one->arena_bytes));
    printf("%d operators, %d steps: a change takes %s (95 of 100: %s), %.0f steps removed and added; taking it back %s\n",
           one->graph->nodes - 1, one->steps, time_text(median), time_text(high), steps, time_text(undo));
    printf("lowering from scratch takes %s, of which packing the arena %s\n", time_text(one->full_us), time_text(one->packing_us));
    return QS_OK;
}

static void bench_release(mapper_bench *one) {
    synthetic_class_release(&one->profile);
    free(one->node);
    qs_graph_release(one->graph);
    free(one);
}

typedef struct request {
    int operators;
    bool json;
} request;

static const option_row option_rows[] = {
    {OPTION(request, operators, "operators", "N", "operators of the chain, at least"), .standard = "100", .minimum = 20},
    {OPTION_JSON(request)},
};

qs_status bench_mapper(int argc, char **argv) {
    const verb_usage usage = {
        .verb = "mapper",
        .arguments = "",
        .purpose =
            "A chain of residual blocks with synthetic costs, under random changes of one operator: what a change, taking it back and\n"
            "lowering from scratch take. Fails where the mapper's schedule differs from the one lowered from scratch.",
        .examples = "  qsync-bench mapper --operators 1000\n"};
    request asked = {0};
    bool done = false;
    option_table table = {0};
    mapper_bench *one = NULL;
    qs_status status = QS_OK;
    OPTIONS_ADD(&table, option_rows, &asked);
    QS_TRY(bench_options(&table, &usage, argc, argv, &done));
    if (done) return QS_OK;
    QS_TRY(qs_allocate(1, sizeof *one, &one));
    QS_GOTO(bench_start(one, asked.operators));
    QS_GOTO(costs_make(one));
    QS_GOTO(mapper_run(one));
    QS_GOTO(figures_print(one, asked.json));
done:
    bench_release(one);
    return status;
}
