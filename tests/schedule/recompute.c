// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Blocks that are computed again: what stands in the backward phase beside them is what stood there without; they are steps of the forward
 * phase, drawn and priced alike; memory is written before it is read, and every gradient has the bits that it had. */
#include "kit/random_graph.h"
#include "schedule_check.h"

#define GRAPHS 60

/* ---- Steps ---- */

static bool same_work(const qs_step *a, const qs_step *b) {
    if (a->kind != b->kind || a->node != b->node || a->stream != b->stream || a->bucket != b->bucket || a->rate != b->rate) return false;
    return a->kind != QS_STEP_KERNEL || (a->conversion == b->conversion && strcmp(a->case_text, b->case_text) == 0);
}

/* Without its recomputed steps the schedule is the other one, and each of them is a forward step, once. */
static int steps_check(const qs_schedule *kept, const qs_schedule *again) {
    int at = 0, recomputed = 0, forward = 0;
    bool *used = calloc((size_t)again->steps, sizeof *used);
    assert_non_null(used);
    while (again->step[forward].phase == QS_FORWARD)
        forward++;
    for (int s = 0; s < again->steps; s++) {
        const qs_step *step = &again->step[s];
        if (!step->recomputed) {
            assert_true(at < kept->steps);
            assert_true(same_work(step, &kept->step[at]) && step->phase == kept->step[at].phase);
            at++;
            continue;
        }
        int twin = 0;
        while (twin < forward && (used[twin] || !same_work(step, &again->step[twin])))
            twin++;
        if (twin == forward) fail_msg("step %d (%s) stands nowhere in the forward phase", s, step->case_text);
        assert_int_equal(step->phase, QS_BACKWARD);
        used[twin] = true;
        recomputed++;
    }
    assert_int_equal(at, kept->steps);
    free(used);
    return recomputed;
}

/* ---- Bits ---- */

/* Of one step's forward and backward part: gradients, running statistics, loss. */
static void step_play_all(const qs_schedule *schedule, const qs_graph *graph, runner *out) {
    *out = runner_make(schedule, graph);
    runner_fill(out, 10);
    for (int i = 0; i < schedule->inputs; i++) {
        const qs_input *input = &graph->samples.input[i];
        int32_t *integer = runner_buffer(out, schedule->input[i]);
        for (size_t k = 0; input->type == QS_INPUT_I32 && k < schedule->buffer[schedule->input[i]].bytes / sizeof *integer; k++)
            integer[k] = (int32_t)((k * 7 + 3) % (size_t)input->bound);
    }
    for (int s = 0; s < schedule->steps && schedule->step[s].phase <= QS_BACKWARD; s++)
        if (schedule->step[s].kind == QS_STEP_KERNEL) step_run(out, &schedule->step[s]);
}

static void buffer_equal(const runner *a, int buffer, const runner *b, int other, const char *what) {
    const size_t bytes = a->schedule->buffer[buffer].bytes;
    assert_true(bytes == b->schedule->buffer[other].bytes);
    if (memcmp(runner_buffer(a, buffer), runner_buffer(b, other), bytes) != 0) fail_msg("%s differ", what);
}

static void bits_check(const qs_schedule *kept, const qs_schedule *again, const qs_graph *graph) {
    runner a, b;
    step_play_all(kept, graph, &a);
    step_play_all(again, graph, &b);
    buffer_equal(&a, kept->gradients, &b, again->gradients, "gradients");
    buffer_equal(&a, kept->running, &b, again->running, "running statistics");
    buffer_equal(&a, kept->loss, &b, again->loss, "losses");
    free(a.memory);
    free(b.memory);
}

/* ---- Properties ---- */

static int graph_check(const qs_graph *graph, uint64_t number, bool with_bits) {
    qs_job job = stub_job(1 + (int64_t)(number % 3));
    job.bucket_bytes = (int64_t)(number % 4) * 2000 + 1;
    qs_recipe *own = NULL;
    const qs_recipe **list = random_recipes(graph, number, &own);
    qs_lowering lowering = lowering_of(graph, &job, QS_MODE_TRAIN, list);
    qs_schedule *kept = lower(&lowering);
    qs_tensor_table *table = random_recompute(graph, number);
    lowering.tensors = table;
    qs_schedule *again = lower(&lowering);
    schedule_check(again, graph, &job);
    const int recomputed = steps_check(kept, again);
    if (with_bits) bits_check(kept, again, graph);
    lowering.mode = QS_MODE_STATISTICS;
    qs_schedule *statistics = lower(&lowering);
    schedule_check(statistics, graph, &job);
    random_recompute_release(table);
    qs_schedule_release(statistics);
    qs_schedule_release(kept);
    qs_schedule_release(again);
    free(list);
    free(own);
    return recomputed;
}

TEST(random_models) {
    int recomputed = 0;
    for (uint64_t number = 0; number < GRAPHS; number++) {
        qs_graph *graph = number % 3 ? random_graph(number + 500) : random_attentive(number);
        recomputed += graph_check(graph, number, true);
        qs_graph_release(graph);
    }
    assert_true(recomputed > 5 * GRAPHS);
}

TEST(built_in_models) {
    static const char *const names[] = {"resnet8:width=0.5",        "mlp",  "lenet5", "alexnet", "mobilenet_v2", "squeezenet:width=0.25",
                                        "shufflenet_v2:width=0.25", "vgg11"};
    int recomputed = 0;
    for (size_t m = 0; m < COUNT_OF(names); m++) {
        qs_graph *graph = NULL;
        assert_ok(qs_model_build(names[m], NULL, &graph));
        recomputed += graph_check(graph, m, false);
        qs_graph_release(graph);
    }
    assert_true(recomputed > 200);
}

/* ---- Shared weights, frozen ones, and tensors with formats of their own ---- */

static void blocks_check(const qs_graph *graph, const qs_recipe *recipe, qs_class_plan *plan) {
    const qs_job job = stub_job(2);
    const qs_recipe **list = recipes_uniform(graph, recipe);
    qs_lowering lowering = lowering_of(graph, &job, QS_MODE_TRAIN, list);
    qs_tensor_table table, without;
    assert_ok(qs_tensors_bind(plan, graph, &without));
    lowering.tensors = &without;
    qs_schedule *kept = lower(&lowering);
    assert_ok(qs_recompute_list("all", graph, plan));
    assert_ok(qs_tensors_bind(plan, graph, &table));
    lowering.tensors = &table;
    qs_schedule *again = lower(&lowering);
    assert_true(steps_check(kept, again) > 0);
    bits_check(kept, again, graph);
    qs_schedule_release(kept);
    qs_schedule_release(again);
    qs_tensor_table_release(&table);
    qs_tensor_table_release(&without);
    free(list);
    free(plan->recompute);
    plan->recompute = NULL;
    plan->recomputes = 0;
}

/* The table's gradient, in whose place converted weights lie until it is written, is the output layer's when the first block comes. */
TEST(tied_and_frozen_weights) {
    static const char *const recipes[] = {"fp32", "int8/bf16", "int8:tensor"};
    for (int frozen = 0; frozen < 2; frozen++) {
        qs_graph *graph = NULL;
        assert_ok(qs_model_build("gpt2:layers=2,hidden=16,heads=2,length=8,vocab=30,dropout=0.1", NULL, &graph));
        if (frozen) assert_ok(qs_graph_freeze(graph, "h.1.attn.*,h.0.mlp.c_fc.*,h.0.ln_1.*"));
        for (size_t r = 0; r < COUNT_OF(recipes); r++) {
            qs_recipe recipe = recipe_of(recipes[r]);
            qs_class_plan plan = {.class_name = "one"};
            blocks_check(graph, &recipe, &plan);
            recipe.forward.weights.rounding = QS_STOCHASTIC;
            if (r) blocks_check(graph, &recipe, &plan);
        }
        qs_graph_release(graph);
    }
}

static qs_tensor_choice *tensor_next(qs_class_plan *plan, const char *name) {
    qs_tensor_choice *one = &plan->tensor[plan->tensors++];
    snprintf(one->name, sizeof one->name, "%s", name);
    one->value = one->gradient = (qs_quantizer){.format = qs_format_of("fp(4,3,4)"), .rounding = QS_STOCHASTIC};
    return one;
}

TEST(rounded_tensors) {
    static const char *const models[] = {"resnet8:width=0.5", "gpt2:layers=2,hidden=16,heads=2,length=8,vocab=30,dropout=0.1"};
    for (size_t m = 0; m < COUNT_OF(models); m++)
        for (int frozen = 0; frozen < 2; frozen++) {
            qs_graph *graph = NULL;
            const qs_recipe fp32 = recipe_of("fp32");
            assert_ok(qs_model_build(models[m], NULL, &graph));
            if (frozen) assert_ok(qs_graph_freeze(graph, m ? "h.1.attn.*" : "stage2.*"));
            qs_class_plan plan = {.class_name = "one"};
            plan.tensor = calloc((size_t)(graph->nodes + graph->parameters), sizeof *plan.tensor);
            assert_non_null(plan.tensor);
            for (int n = graph->samples.inputs; n < graph->nodes; n++)
                if (graph->node[n].op->kind != QS_FIXED && !graph->node[n].op->alias)
                    tensor_next(&plan, graph->node[n].name)->saved = qs_format_of(n % 2 ? "fp(4,3,4)" : "bf16");
            for (int i = 0; i < graph->parameters; i++)
                if (graph->parameter[i].gradient != QS_ROLE_COUNT) tensor_next(&plan, graph->parameter[i].name);
            blocks_check(graph, &fp32, &plan);
            free(plan.tensor);
            qs_graph_release(graph);
        }
}

/* ---- Memory, and plans ---- */

static void plan_take(qs_class_plan *plan, const char *text, const qs_graph *graph, qs_tensor_table *out) {
    assert_ok(qs_recompute_list(text, graph, plan));
    assert_ok(qs_tensors_bind(plan, graph, out));
}

static size_t arena_of(const qs_graph *graph, const qs_job *job, const char *recipe_name, const char *blocks, qs_mode mode, char *hash) {
    const qs_recipe recipe = recipe_of(recipe_name);
    const qs_recipe **list = recipes_uniform(graph, &recipe);
    qs_lowering lowering = lowering_of(graph, job, mode, list);
    qs_class_plan plan = {.class_name = "one"};
    qs_tensor_table table;
    plan_take(&plan, blocks, graph, &table);
    lowering.tensors = &table;
    lowering.context = NO_SCRATCH;
    qs_schedule *schedule = lower(&lowering);
    const size_t bytes = schedule->arena_bytes;
    qs_schedule_hash(schedule, hash);
    qs_schedule_release(schedule);
    qs_tensor_table_release(&table);
    free(plan.recompute);
    free(list);
    return bytes;
}

/* By an eighth of all memory at least, master weights and gradients included. */
TEST(memory_falls) {
    static const char *const recipes[] = {"fp32", "bf16", "int8/bf16", "int8:tensor"};
    static const char *const models[] = {"bert:mini,layers=6", "gpt2:layers=6,hidden=128,heads=2,length=64,vocab=500", "resnet20"};
    for (size_t m = 0; m < COUNT_OF(models); m++) {
        qs_graph *graph = NULL;
        char hash[32];
        assert_ok(qs_model_build(models[m], NULL, &graph));
        const qs_job job = stub_job(8);
        for (size_t r = 0; r < COUNT_OF(recipes); r++) {
            const size_t kept = arena_of(graph, &job, recipes[r], "no", QS_MODE_TRAIN, hash),
                         again = arena_of(graph, &job, recipes[r], "all", QS_MODE_TRAIN, hash);
            if (again > kept - kept / 8) fail_msg("%s in %s: %zu bytes, all kept %zu", models[m], recipes[r], again, kept);
        }
        qs_graph_release(graph);
    }
}

/* No block named, and evaluation whatever is named: the schedules of before. */
TEST(nothing_named_changes_nothing) {
    qs_graph *graph = NULL;
    char before[32], with[32];
    assert_ok(qs_model_build("resnet8", NULL, &graph));
    const qs_job job = stub_job(4);
    qs_schedule *plain = lower_uniform(graph, &job, QS_MODE_TRAIN, "int8/bf16");
    qs_schedule_hash(plain, before);
    qs_schedule_release(plain);
    arena_of(graph, &job, "int8/bf16", "stem.conv", QS_MODE_TRAIN, with);
    assert_string_not_equal(before, with);
    arena_of(graph, &job, "fp32", "no", QS_MODE_EVALUATION, before);
    arena_of(graph, &job, "fp32", "all", QS_MODE_EVALUATION, with);
    assert_string_equal(before, with);
    qs_graph_release(graph);
}

TEST(unknown_blocks_are_named) {
    qs_graph *graph = NULL;
    qs_tensor_table table;
    qs_class_plan plan = {.class_name = "weak"};
    assert_ok(qs_model_build("resnet8", NULL, &graph));
    assert_refused(qs_recompute_list("stem.conv,stem.bn", graph, &plan), QS_USAGE, "stem.bn");
    plan_take(&plan, "stage2.block0.conv1,stem.conv", graph, &table);
    assert_int_equal(plan.recomputes, 2);
    assert_int_equal(table.recomputed[qs_graph_find(graph, "stem.relu")], qs_graph_find(graph, "stem.relu"));
    assert_int_equal(table.recomputed[qs_graph_find(graph, "fc")], -1);
    qs_tensor_table_release(&table);
    snprintf(plan.recompute[1], sizeof plan.recompute[1], "stage9.block0.conv1");
    assert_refused(qs_tensors_bind(&plan, graph, &table), QS_MISMATCH, "stage9.block0.conv1");
    free(plan.recompute);
    qs_graph_release(graph);
}

TEST_MAIN(random_models, built_in_models, tied_and_frozen_weights, rounded_tensors, memory_falls, nothing_named_changes_nothing,
          unknown_blocks_are_named)
