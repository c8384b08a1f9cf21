// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Plans: the round trip, hand-written plans with little in them, recipes by name, and what is refused. */
#include "kit/kit.h"

#include <unistd.h>

#include "record_samples.h"

static qs_plan parsed(const char *text) {
    qs_plan plan;
    assert_ok(qs_plan_parse(text, "sample", &plan));
    return plan;
}

static qs_plan sample(void) {
    char *text = plan_sample();
    qs_plan plan = parsed(text);
    free(text);
    return plan;
}

TEST(round_trip) {
    char *sampled = plan_sample(), *text;
    qs_plan plan = parsed(sampled);
    assert_ok(qs_plan_text(&plan, &text));
    assert_string_equal(text, sampled);
    free(text);
    free(sampled);
    qs_plan_release(&plan);
}

TEST(fields) {
    qs_plan plan = sample();
    const qs_class_plan *weak = qs_plan_class(&plan, "weak");
    assert_non_null(weak);
    assert_null(qs_plan_class(&plan, "big"));
    assert_string_equal(plan.profile, "xxh64:03");
    assert_int_equal(weak->batch, 96);
    assert_string_equal(qs_class_plan_recipe(weak, "stage1.block0.conv1"), "mine");
    assert_string_equal(qs_class_plan_recipe(weak, "fc"), "bf16");
    assert_string_equal(qs_class_plan_recipe(weak, "stem"), "fp32");
    assert_true(weak->operator_[1].pin);
    assert_false(weak->operator_[0].pin);
    assert_ptr_equal(qs_plan_recipe(&plan, "mine")->forward.dst, qs_format_of("bf16"));
    assert_null(qs_plan_recipe(&plan, "int8/bf16"));
    assert_false(weak->operator_[0].adds[QS_GEMM_INPUT_GRADIENT]);
    assert_true(weak->operator_[1].adds[QS_GEMM_FORWARD] && weak->operator_[1].adds[QS_GEMM_WEIGHT_GRADIENT]);
    assert_false(weak->operator_[1].adds[QS_GEMM_INPUT_GRADIENT]);
    const qs_tensor_choice *fc = qs_class_plan_tensor(weak, "fc");
    assert_int_equal(weak->tensors, 2);
    assert_ptr_equal(fc->value.format, qs_format_of("fp(4,3,4)"));
    assert_int_equal(fc->value.rounding, QS_FLOOR);
    assert_ptr_equal(fc->saved, fc->value.format);
    assert_ptr_equal(fc->gradient.format, qs_format_of("fp(5,2,0)"));
    assert_true(fc->promote_at == 0.01);
    assert_ptr_equal(fc->promote_to.format, qs_format_of("fp(6,9,0)"));
    assert_null(qs_class_plan_tensor(weak, "fc.weights")->saved);
    assert_null(qs_class_plan_tensor(weak, "stem"));
    assert_true(weak->assignment.ratio_low == 0.25 && weak->assignment.high_bytes == 4000 && weak->assignment.bytes == 3500 &&
                weak->assignment.low_bytes == 2100);
    assert_true(weak->assignment.high_arena_bytes == 83886144 && weak->assignment.low_arena_bytes == 83886016);
    assert_int_equal(weak->kernel[0].scratch_bytes, 512);
    assert_int_equal(weak->predicted.arena_bytes, 83886080);
    assert_int_equal(weak->reason[0].bytes, -524288);
    assert_string_equal(weak->reason[1].next, "");
    assert_true(plan.samples_per_second == 812.5);
    assert_int_equal(plan.withouts, 2);
    assert_string_equal(plan.without[1].class_name, "big");
    assert_true(plan.without[0].samples_per_second == 640.25 && plan.without[1].samples_per_second == 0);
    assert_int_equal(plan.wires, 3);
    assert_string_equal(plan.wire[1].why, "taken");
    assert_true(plan.wire[0].iteration_us == 60000 && plan.wire[0].exposed_us == 21000.5 && plan.wire[0].residual_bytes == 0);
    assert_true(plan.wire[2].iteration_us == 0 && plan.wire[2].residual_bytes == 1024);
    assert_int_equal(plan.left_outs, 1);
    assert_string_equal(plan.left_out[0].class_name, "old");
    qs_plan_release(&plan);
}

/* What an operator adds in: its own accumulators, else its recipe's. */
TEST(accumulators) {
    qs_plan plan = sample();
    qs_recipe recipe;
    qs_narrow narrow, stochastic;
    qs_operator_choice *conv1 = &plan.class_[0].operator_[0], *fc = &plan.class_[0].operator_[1];
    assert_ok(qs_narrow_find("fp(6,9)/chunk64/align-truncate", &narrow));
    assert_ok(qs_narrow_find("fp(8,10)/stochastic", &stochastic));
    assert_ok(qs_choice_recipe(&plan, conv1, &recipe));
    assert_null(recipe.accumulator[QS_GEMM_FORWARD].adder);
    assert_true(qs_narrow_equal(&recipe.accumulator[QS_GEMM_INPUT_GRADIENT], &narrow));
    assert_ok(qs_choice_recipe(&plan, fc, &recipe));
    assert_true(qs_narrow_equal(&recipe.accumulator[QS_GEMM_WEIGHT_GRADIENT], &stochastic));
    /* Only what differs from the recipe is the operator's own. */
    const qs_narrow wanted[QS_GEMMS] = {{0}, narrow, stochastic};
    qs_choice_accumulate(conv1, qs_plan_recipe(&plan, "mine"), wanted);
    assert_false(conv1->adds[QS_GEMM_FORWARD] || conv1->adds[QS_GEMM_INPUT_GRADIENT]);
    assert_true(conv1->adds[QS_GEMM_WEIGHT_GRADIENT]);
    assert_ok(qs_choice_recipe(&plan, conv1, &recipe));
    assert_true(qs_narrow_equal(&recipe.accumulator[QS_GEMM_WEIGHT_GRADIENT], &stochastic));
    snprintf(fc->recipe, sizeof fc->recipe, "nothing");
    assert_refused(qs_choice_recipe(&plan, fc, &recipe), QS_MISMATCH, "operator fc recipe nothing");
    qs_plan_release(&plan);
}

TEST(by_hand) {
    qs_plan plan = parsed("{\"schema\":\"qsync/plan/2\",\"classes\":{\"single\":{\"operators\":{\"conv1\":\"int8/bf16\","
                          "\"fc\":{\"recipe\":\"bf16\"},\"out\":{\"recipe\":\"int8/fp32\",\"pin\":true}}}}}");
    static const char *const names[] = {"int8/bf16", "bf16", "int8/fp32", "fp32"};
    assert_int_equal(plan.recipes, 4);
    for (int i = 0; i < 4; i++)
        assert_string_equal(qs_plan_recipe(&plan, names[i])->name, names[i]);
    assert_string_equal(plan.graph, "");
    assert_string_equal(plan.class_[0].schedule, "");
    assert_int_equal(plan.class_[0].batch, 0);
    assert_int_equal(plan.job.batch, 64);
    assert_true(plan.without_job);
    /* Its canonical text holds the built-in recipes and is stable from there on. */
    char *once, *twice;
    assert_ok(qs_plan_text(&plan, &once));
    qs_plan_release(&plan);
    plan = parsed(once);
    assert_true(plan.without_job);
    assert_ok(qs_plan_text(&plan, &twice));
    assert_string_equal(once, twice);
    free(once);
    free(twice);
    qs_plan_release(&plan);
}

/* A plan that uses its own recipes and never fp32 still holds fp32: operators that it does not name run in it. */
TEST(fp32_is_there) {
    qs_recipe bf16;
    qs_operator_choice choice = {.name = "fc", .recipe = "bf16"};
    qs_class_plan weak = {.class_name = "weak", .operators = 1, .operator_ = &choice};
    qs_plan plan = {.recipes = 1, .recipe = &bf16, .classes = 1, .class_ = &weak}, again;
    char *text;
    qs_job_default(&plan.job);
    assert_ok(qs_recipe_builtin("bf16", &bf16));
    assert_ok(qs_plan_text(&plan, &text));
    assert_ok(qs_plan_parse(text, "bf16", &again));
    assert_non_null(qs_plan_recipe(&again, "fp32"));
    free(text);
    qs_plan_release(&again);
}

TEST(by_file) {
    char path[] = "/tmp/qsync-plan-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    qs_plan plan = sample(), again;
    assert_ok(qs_plan_write(path, &plan));
    assert_ok(qs_plan_read(path, &again));
    assert_string_equal(again.planner, "qsync");
    unlink(path);
    qs_plan_release(&plan);
    qs_plan_release(&again);
}

/* A copy says the same and shares nothing: it outlives its original, and may be changed beside it. */
TEST(copies) {
    qs_plan plan = sample(), copy, again, empty = {0};
    char *text, *changed, *sampled = plan_sample();
    assert_ok(qs_plan_copy(&plan, &copy));
    copy.class_[0].operator_[1].pin = false;
    copy.class_[0].kernel[0].case_text[0] = 'C';
    copy.recipe[0].name[0] = 'F';
    copy.left_out[0].samples_per_second = 1;
    assert_ok(qs_plan_text(&plan, &text));
    assert_string_equal(text, sampled);
    qs_plan_release(&plan);
    assert_ok(qs_plan_text(&copy, &changed));
    assert_string_not_equal(changed, sampled);
    assert_ok(qs_plan_copy(&copy, &again));
    qs_plan_release(&copy);
    free(text);
    assert_ok(qs_plan_text(&again, &text));
    assert_string_equal(text, changed);
    qs_plan_release(&again);
    assert_ok(qs_plan_copy(&empty, &copy));
    assert_int_equal(copy.classes, 0);
    qs_plan_release(&copy);
    free(text);
    free(changed);
    free(sampled);
}

static void refuse(const char *from, const char *to, const char *message) {
    char *sampled = plan_sample(), *text = replaced(sampled, from, to);
    qs_plan plan;
    assert_refused(qs_plan_parse(text, "plan.json", &plan), QS_BAD_FILE, message);
    free(text);
    free(sampled);
}

TEST(refusals) {
    refuse("\"fc\": {\"recipe\": \"bf16\"", "\"fc\": {\"recipe\": \"int3\"",
           "plan.json: classes.weak.operators.fc: recipe \"int3\" is not in recipes (fp32, bf16, mine)");
    refuse("\"stage1.block0.conv1\": \"mine\"", "\"stage1.block0.conv1\": 8",
           "classes.weak.operators[\"stage1.block0.conv1\"]: must be a text");
    refuse("\"stage1.block0.conv1\": \"mine\"", "\"fc\": \"mine\"", "duplicate object key");
    refuse("fp(4,3,4):tensor:floor", "int8", "classes.weak.tensors.fc.value: must be a float format");
    refuse("\"saved\": \"fp(4,3,4)\"", "\"saved\": \"int8\"", "classes.weak.tensors.fc.saved: must be a float format, is \"int8\"");
    refuse("\"ratio_low\": 0.25", "\"ratio_low\": 25", "classes.weak.assignment.ratio_low: 25 is outside 0 .. 1");
    refuse("\"promote_at\": 0.01", "\"promote_at\": 2", "classes.weak.tensors.fc.promote_at: 2 is outside 0 .. 1");
    refuse("{\"value\": \"fp(6,9,0)\"}", "{\"promote_at\": 0.5}", "promote_at: there is nothing to promote");
    refuse("\"promote_to\"", "\"promoted\"", "unknown field \"promoted\"");
    refuse("\"pin\": true", "\"pin\": \"yes\"", "classes.weak.operators.fc.pin: must be true or false, is a text");
    refuse("\"pin\"", "\"pins\"", "unknown field \"pins\"");
    refuse("int8:channel(out)", "int8:channel(up)", "recipes.mine.forward.weights: ");
    refuse("bf16<saved\", \"diff_dst\": \"bf16\"", "bf16\", \"diff_dst\": \"bf16\"",
           "recipes.bf16.weight_gradient.src: \"bf16\" must end in \"<saved\"");
    refuse("fp(8,10)/stochastic", "fp(8,10)/sloppy",
           "operators.fc.accumulator.weight_gradient: accumulator 'fp(8,10)/sloppy': no adder \"sloppy\"");
    refuse("fp(6,9)/chunk64", "fp(6,99)/chunk64", "recipes.mine.input_gradient.accumulator: ");
    refuse("\"accumulator\": \"int32\"", "\"accumulator\": \"fp32\"",
           "recipes.mine.forward.accumulator: must be \"int32\", is \"fp32\": products of int8 are summed exactly");
    refuse("{\"forward\": \"fp32\", ", "{\"backward\": \"fp32\", ", "operators.fc.accumulator: unknown field \"backward\"");
    refuse("\"out\": \"fp32\"", "\"out\": \"bf16\"", "recipes.fp32.weight_gradient.out: must be \"fp32\", is \"bf16\"");
    refuse("\"dst\": \"bf16\"", "\"dst\": \"whatever\"", "recipes.mine.forward.dst: ");
    refuse("640.25", "-1", "without.weak: -1 must be at least 0");
    refuse("\"iteration_us\": 60000", "\"iteration_us\": -1", "wires.fp32.iteration_us: -1 must be at least 0");
    refuse("\"left_out\": {\"old\": 790}", "\"left_out\": 3", "left_out: must be an object");
    refuse("\"epochs\": 7", "\"epochs\": 8", "signature.job: ");
    refuse("\"arena\": 83886080", "\"arena\": -1", "classes.weak.predicted.memory.arena: -1 must be at least 0");
    refuse("\"kernel\": \"brgconv:avx512_core_vnni\"", "\"kernel\": \"\"", "kernel: must not be empty");
    refuse("\"classes\": {", "\"classes\": [], \"x\": {", "unknown field \"x\"");
    refuse("\"model\": \"resnet8\"", "\"model\": 8", "job.model: must be a text");
}

/* The recipes of the file come before the built-in ones of the same name. */
TEST(own_recipe_first) {
    char *sampled = plan_sample();
    char *named = replaced(sampled, "\"mine\": {", "\"int8/bf16\": {"), *text = replaced(named, "\": \"mine\"", "\": \"int8/bf16\"");
    qs_plan plan = parsed(text);
    assert_ptr_equal(qs_plan_recipe(&plan, "int8/bf16")->forward.dst, qs_format_of("bf16"));
    free(sampled);
    free(named);
    free(text);
    qs_plan_release(&plan);
}

TEST_MAIN(round_trip, fields, by_hand, fp32_is_there, by_file, refusals, own_recipe_first, accumulators, copies)
