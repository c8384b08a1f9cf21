// SPDX-License-Identifier: Apache-2.0
/* The cases of all plans: on small random models, and some of several inputs, exactly those that lowering every plan gives, as kernels and
 * as conversions; on built-in models none that random plans contain is missing. The lookup is asked for each case once. */
#include "kit/random_graph.h"
#include "qsync/recurrence.h"

#define GRAPHS 60
#define SEVERAL 10   /* graphs of several inputs */
#define ATTENTIVE 12 /* graphs with attention */
#define MOST_PLANS 1000
#define MOST_CASES 4096
#define RANDOM_PLANS 40

/* ---- Sets of cases ---- */

typedef struct case_set {
    int cases;
    char *text[MOST_CASES]; /* "conversion cast..." or "kernel conv2d..." */
} case_set;

static bool set_has(const case_set *set, const char *text) {
    for (int i = 0; i < set->cases; i++)
        if (strcmp(set->text[i], text) == 0) return true;
    return false;
}

static void set_add(case_set *set, const char *case_text, bool conversion) {
    char text[QS_CASE_TEXT + 16];
    snprintf(text, sizeof text, "%s %s", conversion ? "conversion" : "kernel", case_text);
    if (set_has(set, text)) return;
    assert_true(set->cases < MOST_CASES);
    set->text[set->cases++] = strdup(text);
}

static void set_release(case_set *set) {
    for (int i = 0; i < set->cases; i++)
        free(set->text[i]);
    set->cases = 0;
}

static qs_status visit(void *context, const qs_draft_case *one, bool conversion) {
    set_add(context, one->text, conversion);
    return QS_OK;
}

static void plan_add(case_set *set, const qs_lowering *lowering) {
    qs_schedule *schedule = lower(lowering);
    for (int s = 0; s < schedule->steps; s++)
        if (schedule->step[s].kind == QS_STEP_KERNEL) set_add(set, schedule->step[s].case_text, schedule->step[s].conversion);
    qs_schedule_release(schedule);
}

static void is_within(const case_set *part, const case_set *whole, const char *what, int graph) {
    for (int i = 0; i < part->cases; i++)
        if (!set_has(whole, part->text[i])) fail_msg("graph %d: %s: %s", graph, what, part->text[i]);
}

/* ---- Random models: every plan ---- */

static int adjustable_list(const qs_graph *graph, int *node) {
    int count = 0;
    for (int n = graph->samples.inputs; n < graph->nodes; n++)
        if (graph->node[n].op->kind == QS_ADJUSTABLE) node[count++] = n;
    return count;
}

/* Ids, a vector and a sequence of numbers: looked up, attended to, pooled, joined, behind products and before them. */
static qs_graph *several_inputs(uint64_t number) {
    const qs_input input[] = {{.name = "ids", .type = QS_INPUT_I32, .rank = 1, .extent = {6}},
                              {.name = "vector", .type = QS_INPUT_F32, .rank = 1, .extent = {4}},
                              {.name = "sequence", .type = QS_INPUT_F32, .rank = 2, .extent = {6, 8}}};
    qs_graph *graph = NULL;
    assert_ok(qs_graph_create("several inputs", "tokens", 3, input, &graph));
    int at = random_add(graph, "embedding", &(qs_attributes){.vocabulary = 20}, 1, (int[]){0}, 8, false);
    if (number & 1) at = random_add(graph, "gelu", NULL, 1, &at, 0, false);
    at = random_add(graph, "add", NULL, 2, (int[]){at, 2}, 0, false);
    if (number & 4) { /* attention whose keys and values are the sequence itself: three readers of one value */
        const qs_attributes pairs = {.heads = 2, .transposed = 1}, context = {.heads = 2, .merged = 1};
        const int query = random_add(graph, "linear", NULL, 1, &at, 8, true);
        int scores = random_add(graph, "matmul", &pairs, 2, (int[]){query, at}, 0, false);
        scores = random_add(graph, "softmax", NULL, 1, &scores, 0, false);
        at = random_add(graph, "matmul", &context, 2, (int[]){scores, at}, 0, false);
    }
    if (number & 2) { /* a recurrence, which takes a recipe, reads its input in the format of its output */
        at = random_add(graph, number & 1 ? "linear" : "concat", NULL, number & 1 ? 1 : 2, (int[]){at, at}, 16, false);
        at = random_add(graph, "recurrence", &(qs_attributes){.mode = number & 1 ? QS_CELL_LSTM : QS_CELL_TANH}, 1, &at, 0, true);
    }
    at = random_add(graph, "global_average_pool", NULL, 1, &at, 0, false);
    at = random_add(graph, "flatten", NULL, 1, &at, 0, false);
    const int vector = number & 2 ? random_add(graph, "linear", NULL, 1, (int[]){1}, 4, true) : 1;
    at = random_add(graph, "concat", NULL, 2, (int[]){vector, at}, 0, false);
    at = random_add(graph, "linear", NULL, 1, &at, 12, true);
    at = random_add(graph, "relu", NULL, 1, &at, 0, false);
    assert_ok(qs_graph_finish(graph, random_add(graph, "linear", NULL, 1, &at, 10, true), NULL));
    return graph;
}

static void exactly_those_of_all_plans(void **state) {
    static const char *const names[][3] = {{"fp32", "bf16", "int8/bf16"},     {"fp32", "int8/bf16", "int8:tensor"},
                                           {"fp16", "int8:tensor", "bf16"},   {"fp32", "int4:shift4", "int8/fp16"},
                                           {"bf16", "int4:hadamard", "fp32"}, {"mxfp8", "bf16", "nvfp4/mxfp6"}};
    static case_set all, listed;
    int graphs = 0;
    (void)state;
    for (int number = 0; number < GRAPHS + SEVERAL + ATTENTIVE; number++) {
        qs_graph *graph = number < GRAPHS             ? random_graph((uint64_t)number)
                          : number < GRAPHS + SEVERAL ? several_inputs((uint64_t)number)
                                                      : random_attentive((uint64_t)number);
        int node[64], plans = 1;
        const int adjustable = adjustable_list(graph, node);
        for (int i = 0; i < adjustable; i++)
            plans *= plans > MOST_PLANS ? 1 : 3;
        if (plans > MOST_PLANS) {
            qs_graph_release(graph);
            continue;
        }
        graphs++;
        const qs_job job = stub_job(2 + 2 * (number % 3));
        const qs_recipe **list = calloc((size_t)graph->nodes, sizeof *list);
        qs_recipe recipe[3];
        for (int r = 0; r < 3; r++)
            recipe[r] = recipe_of(names[number % 5][r]);
        if (number % 4 == 0) recipe[2].forward.dst = qs_format_of("fp32");
        qs_lowering lowering = lowering_of(graph, &job, (qs_mode)(number % 7 % 3), list);
        lowering.half = qs_format_of(number % 3 ? "bf16" : "fp16");
        lowering.joins = number % 2;
        for (int p = 0; p < plans; p++) {
            for (int i = 0, left = p; i < adjustable; i++, left /= 3)
                list[node[i]] = &recipe[left % 3];
            plan_add(&all, &lowering);
        }
        assert_ok(qs_schedule_cases(&lowering, 3, recipe, visit, &listed));
        is_within(&all, &listed, "a plan has what was not listed", number);
        is_within(&listed, &all, "no plan has what was listed", number);
        set_release(&all);
        set_release(&listed);
        free(list);
        qs_graph_release(graph);
    }
    assert_true(graphs >= 10);
}

/* ---- Built-in models ---- */

static qs_status count(void *context, const qs_case *one, const char *case_text, qs_kernel_row *out) {
    case_set *asked = context;
    (void)one;
    if (set_has(asked, case_text)) fail_msg("asked twice: %s", case_text);
    assert_true(asked->cases < MOST_CASES);
    asked->text[asked->cases++] = strdup(case_text);
    *out = (qs_kernel_row){.kernel = "stub"};
    return QS_OK;
}

static void none_of_a_random_plan_is_missing(void **state) {
    static const char *const models[] = {"mlp", "resnet20", "vgg11_bn", "mobilenet_v2", "squeezenet", "shufflenet_v2"};
    static case_set random, listed, asked;
    (void)state;
    for (size_t m = 0; m < COUNT_OF(models); m++) {
        qs_graph *graph = NULL;
        assert_ok(qs_model_build(models[m], NULL, &graph));
        const qs_recipe recipe[3] = {recipe_of("fp32"), recipe_of("bf16"), recipe_of("int8:tensor")};
        const qs_recipe **list = calloc((size_t)graph->nodes, sizeof *list);
        const qs_job job = stub_job(4);
        qs_lowering lowering = lowering_of(graph, &job, QS_MODE_TRAIN, list);
        lowering.joins = m % 2;
        for (uint64_t p = 0; p < RANDOM_PLANS; p++) {
            for (int n = graph->samples.inputs; n < graph->nodes; n++)
                list[n] = &recipe[qs_random_bits(p, (uint64_t)n) % 3];
            plan_add(&random, &lowering);
        }
        lowering.lookup = count;
        lowering.context = &asked;
        assert_ok(qs_schedule_cases(&lowering, 3, recipe, visit, &listed));
        is_within(&random, &listed, models[m], (int)m);
        set_release(&random);
        set_release(&listed);
        set_release(&asked);
        free(list);
        qs_graph_release(graph);
    }
}

TEST_MAIN(exactly_those_of_all_plans, none_of_a_random_plan_is_missing)
