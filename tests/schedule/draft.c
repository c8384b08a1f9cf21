// SPDX-License-Identifier: Apache-2.0
/* Drafts: after any sequence of changes and undos of any model a draft is what lowering its recipes from scratch gives, in steps, memory
 * and live bytes; what it reports is the difference; what fails changes nothing. */
#include "kit/random_graph.h"

#define GRAPHS 60
#define CHANGES 14
#define DEEPEST 6 /* changes that may be taken back at once */

/* ---- A draft beside what it should be ---- */

typedef struct twin {
    const qs_graph *graph;
    const qs_job *job;
    qs_lowering lowering;
    qs_recipe *own; /* (nodes) */
    const qs_recipe **list;
    qs_tensor_table *tensors; /* blocks that are computed again, of every model but each third */
    qs_schedule_draft *draft;
} twin;

static twin twin_make(const qs_graph *graph, const qs_job *job, qs_mode mode, uint64_t number) {
    twin one = {.graph = graph, .job = job};
    one.list = random_recipes(graph, number, &one.own);
    one.lowering = lowering_of(graph, job, mode, one.list);
    one.lowering.half = qs_format_of(number % 2 ? "bf16" : "fp32");
    one.lowering.joins = number % 4 < 2;
    one.lowering.tensors = one.tensors = number % 3 ? random_recompute(graph, number) : NULL;
    assert_ok(qs_schedule_draft_create(&one.lowering, &one.draft));
    return one;
}

static void twin_release(twin *one) {
    qs_schedule_draft_release(one->draft);
    random_recompute_release(one->tensors);
    free(one->list);
    free(one->own);
}

static void schedules_equal(const qs_schedule *a, const qs_schedule *b) {
    char left[32], right[32];
    assert_ok(qs_schedule_compare(a, b));
    assert_string_equal(qs_schedule_hash(a, left), qs_schedule_hash(b, right));
    assert_true(a->persistent_bytes == b->persistent_bytes && a->arena_bytes == b->arena_bytes && a->live_bytes == b->live_bytes);
    assert_int_equal(a->peak_step, b->peak_step);
    assert_memory_equal(a->category_bytes, b->category_bytes, sizeof a->category_bytes);
    for (int i = 0; i < a->buckets; i++)
        assert_true(a->bucket[i].ready_step == b->bucket[i].ready_step && a->bucket[i].wait_step == b->bucket[i].wait_step);
    for (int s = 0; s < a->steps; s++)
        assert_true(a->step[s].phase == b->step[s].phase && a->step[s].conversion == b->step[s].conversion &&
                    a->step[s].recomputed == b->step[s].recomputed);
    for (int n = 0; n < a->nodes; n++)
        assert_ptr_equal(a->value_format[n], b->value_format[n]);
    for (int i = 0; a->statistics_buffer && i < a->nodes * 3; i++)
        assert_int_equal(a->statistics_buffer[i], b->statistics_buffer[i]);
}

/* Steps in order, as the segments list them. */
static void segments_match(const qs_schedule_draft *draft, const qs_schedule *schedule) {
    int at = 0;
    for (int s = 0; s < qs_schedule_draft_segments(draft); s++) {
        const qs_draft_step *step = NULL;
        const int steps = qs_schedule_draft_steps(draft, s, &step);
        for (int i = 0; i < steps; i++, at++) {
            assert_true(at < schedule->steps);
            assert_true(step[i].kind == schedule->step[at].kind && step[i].phase == schedule->step[at].phase);
            assert_true(step[i].node == schedule->step[at].node && step[i].conversion == schedule->step[at].conversion);
            assert_true(step[i].recomputed == schedule->step[at].recomputed);
            if (step[i].case_) assert_string_equal(step[i].case_->text, schedule->step[at].case_text);
        }
    }
    assert_int_equal(at, schedule->steps);
}

static void twin_check(const twin *one) {
    qs_schedule *full = lower(&one->lowering), *draft = NULL;
    double packing_us = -1;
    assert_ok(qs_schedule_finish(one->draft, &draft, &packing_us));
    assert_true(packing_us >= 0);
    schedules_equal(full, draft);
    if (qs_schedule_draft_live_bytes(one->draft) != full->live_bytes)
        fail_msg("live bytes of the draft: %zu, of the schedule: %zu", qs_schedule_draft_live_bytes(one->draft), full->live_bytes);
    segments_match(one->draft, full);
    qs_schedule_release(full);
    qs_schedule_release(draft);
}

static int random_adjustable(const qs_graph *graph, dice *one) {
    for (;;) {
        const int first = graph->samples.inputs, n = first + dice_roll(one, graph->nodes - first);
        if (graph->node[n].op->kind == QS_ADJUSTABLE) return n;
    }
}

static int segment_steps(const qs_schedule_draft *draft) {
    const qs_draft_step *step;
    int steps = 0;
    for (int s = 0; s < qs_schedule_draft_segments(draft); s++)
        steps += qs_schedule_draft_steps(draft, s, &step);
    return steps;
}

/* ---- Properties ---- */

/* The report is the difference: as many steps go and come as the list shrinks and grows, and the added ones stand where it says. */
static void report_check(const qs_schedule_draft *draft, int before, const qs_draft_change *change) {
    int removed = 0, added = 0;
    assert_int_equal(segment_steps(draft) - before, change->added - change->removed);
    for (int i = 0; i < change->segments; i++) {
        const qs_segment_change *one = &change->segment[i];
        const qs_draft_step *step;
        const int steps = qs_schedule_draft_steps(draft, one->segment, &step);
        assert_true(one->removed + one->added > 0 && one->first + one->added <= steps);
        for (int k = 0; k < one->added; k++)
            assert_true(one->added_step[k].case_ == step[one->first + k].case_ && one->added_step[k].node == step[one->first + k].node);
        if (i) assert_true(change->segment[i - 1].segment < one->segment);
        removed += one->removed;
        added += one->added;
    }
    assert_true(removed == change->removed && added == change->added);
}

/* One random step: a change, or one to DEEPEST changes taken back. `past` keeps the recipes that were replaced. */
typedef struct past_change {
    int node;
    qs_recipe recipe;
} past_change;

static void change_random(twin *one, dice *random, past_change *past, int *changes) {
    qs_draft_change change;
    const int before = segment_steps(one->draft);
    const int node = random_adjustable(one->graph, random);
    past[*changes] = (past_change){node, one->own[node]};
    (*changes)++;
    random_recipe(random, &one->own[node]);
    assert_ok(qs_schedule_change(one->draft, node, &one->own[node], &change));
    report_check(one->draft, before, &change);
}

static void undo_random(twin *one, dice *random, past_change *past, int *changes) {
    for (int back = 1 + dice_roll(random, DEEPEST); back > 0 && *changes > 0; back--) {
        qs_draft_change change;
        const int before = segment_steps(one->draft);
        (*changes)--;
        one->own[past[*changes].node] = past[*changes].recipe;
        assert_ok(qs_schedule_undo(one->draft, &change));
        report_check(one->draft, before, &change);
    }
}

static void drafts_follow(const qs_graph *graph, const qs_job *job, qs_mode mode, uint64_t number, int rounds) {
    past_change past[4 * CHANGES];
    int changes = 0;
    dice random = {qs_random_key(number, 2, 0, 0), 0};
    twin one = twin_make(graph, job, mode, number);
    twin_check(&one);
    for (int round = 0; round < rounds; round++) {
        if (dice_roll(&random, 3))
            change_random(&one, &random, past, &changes);
        else
            undo_random(&one, &random, past, &changes);
        if (dice_roll(&random, 10) == 0) {
            qs_schedule_keep(one.draft);
            changes = 0;
        }
        twin_check(&one);
    }
    while (changes > 0)
        undo_random(&one, &random, past, &changes);
    assert_int_equal(qs_schedule_undo(one.draft, NULL), QS_USAGE);
    twin_check(&one);
    twin_release(&one);
}

TEST(random_models_follow) {
    for (uint64_t number = 0; number < GRAPHS; number++) {
        qs_graph *graph = random_graph(number + 1000);
        qs_job job = stub_job(1 + (int64_t)(number % 5) * 3);
        job.dynamic_loss_scaling = number % 3 == 0;
        job.clip_norm = number % 5 == 0 ? 0.5 : 0;
        job.bucket_bytes = (int64_t)(number % 4) * 2000 + 1;
        drafts_follow(graph, &job, number % 4 ? QS_MODE_TRAIN : (qs_mode)(number / 4 % 3), number, CHANGES);
        qs_graph_release(graph);
    }
}

TEST(models_with_attention_follow) {
    for (uint64_t number = 0; number < GRAPHS / 4; number++) {
        qs_graph *graph = random_attentive(number);
        const qs_job job = stub_job(1 + (int64_t)(number % 3));
        drafts_follow(graph, &job, number % 4 ? QS_MODE_TRAIN : (qs_mode)(number / 4 % 3), number, CHANGES);
        qs_graph_release(graph);
    }
}

TEST(built_in_models_follow) {
    static const char *const names[] = {"resnet8:width=0.5",       "mlp", "lenet5", "alexnet", "mobilenet_v2", "squeezenet:width=0.25",
                                        "shufflenet_v2:width=0.25"};
    for (size_t m = 0; m < COUNT_OF(names); m++) {
        qs_graph *graph = NULL;
        assert_ok(qs_model_build(names[m], NULL, &graph));
        const qs_job job = stub_job(4);
        drafts_follow(graph, &job, QS_MODE_TRAIN, m, 10);
        qs_graph_release(graph);
    }
}

/* Many readers of one value in different forms, and a chain of dependent operators behind each: the first reader makes a copy for the
 * others, and gives it up again. */
static qs_graph *fan_graph(void) {
    qs_graph *graph = NULL;
    assert_ok(qs_graph_of_images("fan", 3, 8, 8, &graph));
    dice one = {1, 0};
    const int trunk = random_conv(graph, &one, 0, 1);
    int sum = -1;
    for (int branch = 0; branch < 6; branch++) {
        int at = random_conv(graph, &one, branch % 2 ? trunk : random_add(graph, "relu", NULL, 1, &trunk, 0, false), 1);
        at = random_add(graph, "batch_norm", NULL, 1, &at, 0, false);
        at = random_add(graph, "dropout", &(qs_attributes){.probability = 0.5}, 1, &at, 0, false);
        const int pair[2] = {sum, at};
        sum = branch ? random_add(graph, "add", NULL, 2, pair, 0, false) : at;
    }
    const int twice[2] = {sum, sum};
    sum = random_add(graph, "add", NULL, 2, twice, 0, false);
    int at = random_add(graph, "flatten", NULL, 1, &sum, 0, false);
    at = random_add(graph, "linear", NULL, 1, &at, 10, true);
    assert_ok(qs_graph_finish(graph, at, NULL));
    return graph;
}

TEST(shared_copies_follow) {
    qs_graph *graph = fan_graph();
    const qs_job job = stub_job(3);
    for (uint64_t number = 0; number < 8; number++)
        drafts_follow(graph, &job, QS_MODE_TRAIN, number, 2 * CHANGES);
    qs_graph_release(graph);
}

/* A change emits again what it touches, not the model. */
TEST(changes_are_local) {
    qs_graph *graph = NULL;
    assert_ok(qs_model_build("resnet20", NULL, &graph));
    const qs_job job = stub_job(8);
    const qs_recipe fp32 = recipe_of("fp32"), bf16 = recipe_of("bf16");
    const qs_recipe **list = recipes_uniform(graph, &fp32);
    const qs_lowering lowering = lowering_of(graph, &job, QS_MODE_TRAIN, list);
    qs_schedule_draft *draft = NULL;
    qs_draft_change change;
    assert_ok(qs_schedule_draft_create(&lowering, &draft));
    for (int n = graph->samples.inputs; n < graph->nodes; n++) {
        if (graph->node[n].op->kind != QS_ADJUSTABLE) continue;
        assert_ok(qs_schedule_change(draft, n, &bf16, &change));
        /* The operator, its batch norm, ReLU and the sums around them, forward and backward: of 2 × 71 segments. */
        assert_true(change.segments > 0 && change.segments <= 16);
        assert_ok(qs_schedule_change(draft, n, &bf16, &change));
        assert_int_equal(change.removed + change.added, 0);
        assert_ok(qs_schedule_undo(draft, NULL));
        assert_ok(qs_schedule_undo(draft, &change));
        assert_true(change.segments > 0);
    }
    qs_schedule_draft_release(draft);
    qs_graph_release(graph);
    free(list);
}

/* ---- Failure ---- */

/* No kernel for what the context's text stands in. */
static qs_status refusing_lookup(void *context, const qs_case *one, const char *case_text, qs_kernel_row *out) {
    const char *const *refused = context;
    if (*refused && strstr(case_text, *refused)) return qs_fail(QS_UNSUPPORTED, "no kernel for %s", case_text);
    return stub_lookup(NULL, one, case_text, out);
}

/* Passes that come late in a change: much was replaced before they fail. */
TEST(failure_changes_nothing) {
    static const char *const refused[] = {"conv2d/input_gradient weights=bf16",
                                          "conv2d/weight_gradient src=bf16",
                                          "dequantize",
                                          "absmax",
                                          "batch_norm/backward src=bf16",
                                          "quantize/forward"};
    const char *refuse = NULL;
    int failures = 0;
    for (uint64_t number = 0; number < 40; number++) {
        qs_graph *graph = random_graph(number);
        const qs_job job = stub_job(2);
        dice random = {qs_random_key(number, 3, 0, 0), 0};
        refuse = NULL;
        const qs_recipe fp32 = recipe_of("fp32"), bf16 = recipe_of("bf16"), int8 = recipe_of("int8/bf16");
        twin one = {.graph = graph, .job = &job, .list = recipes_uniform(graph, &fp32)};
        one.lowering = lowering_of(graph, &job, QS_MODE_TRAIN, one.list);
        one.lowering.lookup = refusing_lookup;
        one.lowering.context = &refuse;
        assert_ok(qs_schedule_draft_create(&one.lowering, &one.draft));
        refuse = refused[number % (COUNT_OF(refused))];
        for (int i = 0; i < 8; i++) {
            const int node = random_adjustable(graph, &random);
            const qs_recipe *wanted = number % 2 ? &bf16 : &int8, *before = one.list[node];
            one.list[node] = wanted;
            const qs_status status = qs_schedule_change(one.draft, node, wanted, NULL);
            if (status != QS_OK) {
                assert_refused(status, QS_UNSUPPORTED, refuse);
                one.list[node] = before;
                failures++;
            }
            twin_check(&one);
        }
        twin_release(&one);
        qs_graph_release(graph);
    }
    assert_true(failures > 50);
}

TEST(impossible_changes_are_refused) {
    qs_graph *graph = random_graph(5);
    const qs_job job = stub_job(2);
    twin one = twin_make(graph, &job, QS_MODE_TRAIN, 5);
    qs_recipe wrong = recipe_of("int8/bf16");
    const int last = qs_graph_find(graph, graph->node[graph->nodes - 2].name);
    wrong.forward.src.granularity = QS_PER_CHANNEL;
    assert_refused(qs_schedule_change(one.draft, last, &wrong, NULL), QS_UNSUPPORTED, "step per channel");
    wrong = recipe_of("int8/bf16");
    wrong.forward.weights.channel_is_input = true;
    assert_refused(qs_schedule_change(one.draft, last, &wrong, NULL), QS_UNSUPPORTED, "use channel(out)");
    assert_int_equal(qs_schedule_change(one.draft, 0, &wrong, NULL), QS_USAGE);
    assert_int_equal(qs_schedule_change(one.draft, graph->nodes, &wrong, NULL), QS_USAGE);
    assert_refused(qs_schedule_change(one.draft, graph->nodes - 1, &wrong, NULL), QS_USAGE, "takes no recipe");
    twin_check(&one);
    assert_int_equal(qs_schedule_undo(one.draft, NULL), QS_USAGE);
    twin_release(&one);
    qs_graph_release(graph);
}

/* ---- Cases ---- */

/* Equal exactly when their texts are, over all the cases that a model has in many mixes. */
TEST(cases_equal_as_texts) {
    qs_graph *graph = random_graph(11);
    const qs_job job = stub_job(4);
    qs_schedule *schedule[2];
    for (int i = 0; i < 2; i++) {
        qs_recipe *own = NULL;
        const qs_recipe **list = random_recipes(graph, (uint64_t)i, &own);
        const qs_lowering lowering = lowering_of(graph, &job, QS_MODE_TRAIN, list);
        schedule[i] = lower(&lowering);
        free(list);
        free(own);
    }
    for (int a = 0; a < schedule[0]->steps; a++)
        for (int b = 0; b < schedule[1]->steps; b++) {
            const qs_step *left = &schedule[0]->step[a], *right = &schedule[1]->step[b];
            if (left->kind != QS_STEP_KERNEL || right->kind != QS_STEP_KERNEL) continue;
            const bool same = strcmp(left->case_text, right->case_text) == 0;
            assert_int_equal(qs_case_equal(&left->case_, &right->case_), same);
            assert_int_equal(qs_case_hash(&left->case_) == qs_case_hash(&right->case_), same);
        }
    for (int i = 0; i < 2; i++)
        qs_schedule_release(schedule[i]);
    qs_graph_release(graph);
}

TEST_MAIN(random_models_follow, models_with_attention_follow, built_in_models_follow, shared_copies_follow, changes_are_local,
          failure_changes_nothing, impossible_changes_are_refused, cases_equal_as_texts)
