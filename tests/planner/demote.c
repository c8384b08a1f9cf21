// SPDX-License-Identifier: Apache-2.0
// covers: uniform_fp op op_io demote
/* Planners that assign formats to tensors: which tensors each baseline lowers, shares, orders and limits of demotion, and that plans lower
 * to the schedules that they state. */
#include "kit/random_graph.h"
#include "setting.h"

enum { BATCH = 8 };
static const char *const stored[] = {"fp(6,9,0)", "fp(4,3,4)", "fp(5,2,0)"};

static setting setting_of(qs_graph *graph) {
    setting one = {.graph = graph, .device = {SYNTHETIC_STRONG}, .job = stub_job(BATCH)};
    one.job.dynamic_loss_scaling = true;
    one.job.loss_scale = 65536;
    one.cluster = synthetic_cluster(1, one.device);
    one.profile = synthetic_profile(graph, &one.cluster, one.device, &one.job);
    synthetic_simulates(graph, &one.job, &one.cluster.class_[0], one.device, 3, stored, &one.profile.class_[0]);
    qs_plan_options_default(&one.options);
    return one;
}

static setting model_setting(const char *name) {
    qs_graph *graph = NULL;
    assert_ok(qs_model_build(name, NULL, &graph));
    setting one = setting_of(graph);
    snprintf(one.job.model, sizeof one.job.model, "%s", name);
    return one;
}

static qs_plan demoted(setting *one, double ratio) {
    one->options.assignment.ratio = ratio;
    return setting_plan(one, "demote");
}

static qs_groups groups_of(const setting *one) {
    qs_groups groups;
    assert_ok(qs_graph_groups(one->graph, BATCH, &groups));
    return groups;
}

static const qs_tensor_choice *choice_of(const setting *one, const qs_plan *plan, const qs_graph_tensor *tensor) {
    const qs_tensor_choice *choice = qs_class_plan_tensor(&plan->class_[0], qs_graph_tensor_name(one->graph, tensor));
    assert_non_null(choice);
    return choice;
}

static bool value_is_low(const qs_tensor_choice *choice) {
    return choice->value.format == qs_format_of("fp(4,3,4)");
}

static bool gradient_is_low(const qs_tensor_choice *choice) {
    return choice->gradient.format == qs_format_of("fp(5,2,0)");
}

/* ---- What every plan keeps ---- */

/* Shares and bytes counted here; values saved in their format; gradients overflow to infinity, those of parameters are high. */
static void tensors_check(const setting *one, const qs_plan *plan) {
    const qs_format *high = qs_format_of("fp(6,9,0)");
    const qs_assignment *sum = &plan->class_[0].assignment;
    qs_groups groups = groups_of(one);
    double low = 0, all = 0, bytes = 0;
    assert_int_equal(plan->class_[0].tensors, groups.tensors);
    for (int i = 0; i < groups.tensors; i++) {
        const qs_graph_tensor *tensor = &groups.tensor[i];
        const qs_tensor_choice *choice = choice_of(one, plan, tensor);
        const double count = (double)tensor->elements;
        assert_true(value_is_low(choice) || choice->value.format == high);
        assert_ptr_equal(choice->saved, tensor->parameter < 0 ? choice->value.format : NULL);
        assert_int_equal(choice->value.overflow, QS_OVERFLOW_DEFAULT);
        low += value_is_low(choice) ? count : 0;
        bytes += count * choice->value.format->bits / 8;
        all += count;
        if (!tensor->gradient) continue;
        assert_true(gradient_is_low(choice) || choice->gradient.format == high);
        assert_false(gradient_is_low(choice) && tensor->parameter >= 0);
        assert_int_equal(choice->gradient.overflow, QS_OVERFLOW_INFINITY);
        low += gradient_is_low(choice) ? count : 0;
        bytes += count * choice->gradient.format->bits / 8;
        all += count;
    }
    assert_true(sum->ratio_low == low / all);
    assert_true((double)sum->bytes == bytes && (double)sum->high_bytes == 2 * all);
    assert_true(sum->low_bytes <= sum->bytes && sum->bytes <= sum->high_bytes);
    qs_groups_release(&groups);
}

/* The plan's kernel rows and tensors lower to the schedule whose hash and arena it states, and predicting it again gives the same. */
static void schedule_check(const setting *one, const qs_plan *plan) {
    const qs_class_plan *mine = &plan->class_[0];
    const qs_recipe **list = calloc((size_t)one->graph->nodes, sizeof *list);
    qs_tensor_table tensors;
    qs_prediction prediction;
    char hash[32];
    assert_ok(qs_tensors_bind(mine, one->graph, &tensors));
    qs_lowering lowering = lowering_of(one->graph, &one->job, QS_MODE_TRAIN, list);
    lowering.half = qs_class_half(&one->cluster.class_[0]);
    lowering.tensors = &tensors;
    lowering.lookup = qs_lookup_plan;
    lowering.context = (void *)mine;
    qs_schedule *schedule = lower(&lowering);
    assert_string_equal(qs_schedule_hash(schedule, hash), mine->schedule);
    assert_int_equal(schedule->arena_bytes, mine->predicted.arena_bytes);
    assert_ok(qs_plan_predict(plan, one->graph, &one->cluster, &one->profile, NULL, NULL, &prediction));
    assert_string_equal(prediction.class_[0].schedule, mine->schedule);
    assert_true(prediction.iteration_us == mine->predicted.iteration_us);
    qs_prediction_release(&prediction);
    qs_schedule_release(schedule);
    qs_tensor_table_release(&tensors);
    free(list);
}

static void plan_check(const setting *one, const qs_plan *plan) {
    tensors_check(one, plan);
    schedule_check(one, plan);
    plan_round_trip_check(plan);
}

/* ---- Demotion ---- */

static bool group_is_low(const setting *one, const qs_plan *plan, const qs_groups *groups, int group) {
    int low = 0, count = 0;
    for (int i = 0; i < groups->tensors; i++) {
        const qs_graph_tensor *tensor = &groups->tensor[i];
        if (tensor->group != group) continue;
        const qs_tensor_choice *choice = choice_of(one, plan, tensor);
        low += value_is_low(choice) && (tensor->parameter >= 0 || !tensor->gradient || gradient_is_low(choice));
        count++;
    }
    assert_true(low == 0 || low == count); /* groups change as a whole */
    return low > 0;
}

/* The ratio is reached, and no demoted group could have been left out from the end of the order: the last one is the smallest. */
static void least_demotion_check(const setting *one, const qs_plan *plan, double ratio, double most) {
    qs_groups groups = groups_of(one);
    int64_t demotable = 0, smallest = INT64_MAX, its_demotable = 0;
    for (int g = 0; g < groups.groups; g++) {
        if (!group_is_low(one, plan, &groups, g)) continue;
        demotable += groups.group[g].demotable;
        if (groups.group[g].elements > smallest) continue;
        smallest = groups.group[g].elements;
        its_demotable = groups.group[g].demotable;
    }
    for (int g = 0; g < groups.groups; g++)
        if (!group_is_low(one, plan, &groups, g)) assert_true(groups.group[g].elements <= smallest);
    const double reached = (double)demotable / (double)groups.elements;
    assert_true(fabs(reached - plan->class_[0].assignment.ratio_low) < 1e-12);
    assert_true(reached >= fmin(ratio, most) - 1e-12);
    if (demotable > 0) assert_true(ratio >= most || (double)(demotable - its_demotable) / (double)groups.elements < ratio);
    qs_groups_release(&groups);
}

static void ratios_check(setting *one) {
    qs_groups groups = groups_of(one);
    const double most = (double)groups.demotable / (double)groups.elements;
    double before = -1;
    int64_t bytes = INT64_MAX;
    for (int i = 0; i <= 10; i++) {
        const double ratio = i / 10.0;
        qs_plan plan = demoted(one, ratio);
        const qs_assignment *sum = &plan.class_[0].assignment;
        plan_check(one, &plan);
        least_demotion_check(one, &plan, ratio, most);
        assert_true(sum->ratio_low >= before && sum->bytes <= bytes);
        before = sum->ratio_low;
        bytes = sum->bytes;
        if (i == 0) assert_true(sum->ratio_low == 0 && sum->bytes == sum->high_bytes);
        if (i == 0) assert_int_equal(sum->high_arena_bytes, plan.class_[0].predicted.arena_bytes);
        if (i == 10) assert_true(fabs(sum->ratio_low - most) < 1e-12 && sum->bytes == sum->low_bytes);
        if (i == 10) assert_int_equal(sum->low_arena_bytes, plan.class_[0].predicted.arena_bytes);
        qs_plan_release(&plan);
    }
    qs_groups_release(&groups);
}

TEST(ratios) {
    setting one = model_setting("lenet5");
    ratios_check(&one);
    setting_end(&one);
    for (uint64_t number = 0; number < 6; number++) {
        setting other = setting_of(random_graph(number));
        ratios_check(&other);
        setting_end(&other);
    }
}

/* With one group demoted it is the largest, the smallest, or by the seed any. */
static int single_group(setting *one, const char *order, uint64_t seed) {
    one->options.assignment.order = order;
    one->job.seed = seed;
    qs_plan plan = demoted(one, 1e-9);
    qs_groups groups = groups_of(one);
    int found = -1;
    for (int g = 0; g < groups.groups; g++)
        if (group_is_low(one, &plan, &groups, g)) {
            assert_int_equal(found, -1);
            found = g;
        }
    qs_groups_release(&groups);
    qs_plan_release(&plan);
    return found;
}

TEST(orders) {
    setting one = model_setting("resnet8");
    qs_groups groups = groups_of(&one);
    const int largest = single_group(&one, "decreasing", 1), smallest = single_group(&one, "increasing", 1);
    int differ = 0;
    for (int g = 0; g < groups.groups; g++) {
        assert_true(groups.group[g].elements <= groups.group[largest].elements);
        assert_true(groups.group[g].elements >= groups.group[smallest].elements);
    }
    const int first = single_group(&one, "random", 1);
    assert_int_equal(single_group(&one, "random", 1), first);
    for (uint64_t seed = 2; seed < 12; seed++)
        differ += single_group(&one, "random", seed) != first;
    assert_true(differ > 0); /* all ten alike: less than once in 10^9 */
    qs_groups_release(&groups);
    setting_end(&one);
}

/* ---- Baselines ---- */

static const qs_tensor_choice *named(const qs_plan *plan, const char *name) {
    const qs_tensor_choice *choice = qs_class_plan_tensor(&plan->class_[0], name);
    if (!choice) fail_msg("there is no tensor %s", name);
    return choice;
}

/* Letters by tensor of lenet5, whose relu1 feeds pool1 feeds conv2, and fc1 reads pool2 through a flatten: v a low value, g a gradient. */
static void low_check(const qs_plan *plan, const char *const (*expected)[2]) {
    for (; (*expected)[0]; expected++) {
        const qs_tensor_choice *choice = named(plan, (*expected)[0]);
        if (value_is_low(choice) != (strchr((*expected)[1], 'v') != NULL) ||
            gradient_is_low(choice) != (strchr((*expected)[1], 'g') != NULL))
            fail_msg("%s by %s is not \"%s\"", (*expected)[0], plan->planner, (*expected)[1]);
    }
}

TEST(baselines) {
    setting one = model_setting("lenet5");
    qs_plan uniform = setting_plan(&one, "uniform-fp"), op = setting_plan(&one, "op"), op_io = setting_plan(&one, "op-io"),
            all = demoted(&one, 1), none = demoted(&one, 0);
    low_check(&uniform, (const char *const[][2]){
                            {"input", "v"}, {"conv1", "vg"}, {"relu1", "vg"}, {"pool2", "vg"}, {"fc", "vg"}, {"fc.bias", "v"}, {NULL, ""}});
    low_check(&op, (const char *const[][2]){{"input", "v"},
                                            {"conv1.weights", "v"},
                                            {"conv1", "g"},
                                            {"relu1", ""},
                                            {"pool1", "v"},
                                            {"conv2", "g"},
                                            {"pool2", "v"},
                                            {"fc1", "g"},
                                            {"fc", "g"},
                                            {NULL, ""}});
    low_check(&op_io, (const char *const[][2]){{"input", "v"},
                                               {"conv1.bias", "v"},
                                               {"conv1", "vg"},
                                               {"relu1", ""},
                                               {"pool1", "vg"},
                                               {"pool2", "vg"},
                                               {"fc", "vg"},
                                               {NULL, ""}});
    assert_true(op.class_[0].assignment.ratio_low < op_io.class_[0].assignment.ratio_low);
    assert_true(op_io.class_[0].assignment.ratio_low < uniform.class_[0].assignment.ratio_low);
    assert_int_equal(uniform.class_[0].assignment.bytes, all.class_[0].assignment.bytes);
    const qs_plan *const plans[] = {&uniform, &op, &op_io, &all};
    for (int i = 0; i < 4; i++) {
        plan_check(&one, plans[i]);
        assert_int_equal(plans[i]->class_[0].assignment.high_arena_bytes, uniform.class_[0].assignment.high_arena_bytes);
    }
    assert_true(named(&uniform, "relu1")->promote_at == 0 && named(&all, "relu1")->promote_at == 0.01);
    assert_ptr_equal(named(&all, "relu1")->promote_to.format, qs_format_of("fp(6,9,0)"));
    assert_ptr_equal(named(&none, "relu1")->promote_to.format, named(&none, "relu1")->value.format);
    assert_true(named(&none, "relu1")->promote_at == 0);
    qs_plan_release(&uniform);
    qs_plan_release(&op);
    qs_plan_release(&op_io);
    qs_plan_release(&all);
    qs_plan_release(&none);
    setting_end(&one);
}

/* ---- Limits ---- */

/* Of all ratios, those whose arena fits: demote takes the smallest, and says that none is left where none is. */
TEST(memory) {
    setting one = model_setting("resnet8");
    qs_plan none = demoted(&one, 0), all = demoted(&one, 1);
    int64_t high = none.class_[0].predicted.arena_bytes, low = all.class_[0].predicted.arena_bytes;
    assert_true(low < high);
    one.cluster.class_[0].memory_limit = (low + high) / 2;
    qs_plan plan = demoted(&one, 0);
    const qs_class_plan *mine = &plan.class_[0];
    plan_check(&one, &plan);
    assert_true(mine->predicted.arena_bytes <= one.cluster.class_[0].memory_limit);
    assert_true(mine->assignment.ratio_low > 0 && mine->assignment.ratio_low < all.class_[0].assignment.ratio_low);
    /* One group less, unlimited: it would not have fitted. */
    one.cluster.class_[0].memory_limit = 0;
    double ratio = 0, last = 0;
    for (qs_plan next; ratio < mine->assignment.ratio_low - 1e-12; last = ratio) {
        next = demoted(&one, ratio + 1e-9);
        ratio = next.class_[0].assignment.ratio_low;
        qs_plan_release(&next);
        if (ratio >= mine->assignment.ratio_low - 1e-12) break;
    }
    qs_plan less = demoted(&one, last);
    assert_true(less.class_[0].predicted.arena_bytes > (low + high) / 2);
    one.cluster.class_[0].memory_limit = low - 1;
    one.options.assignment.ratio = 0;
    setting_refused(&one, "demote", QS_INFEASIBLE, "with all groups demoted the plan needs");
    one.cluster.class_[0].memory_limit = 0;
    one.options.assignment.longest_us = 1;
    setting_refused(&one, "demote", QS_INFEASIBLE, "with all groups demoted an iteration takes");
    qs_plan_release(&none);
    qs_plan_release(&all);
    qs_plan_release(&plan);
    qs_plan_release(&less);
    setting_end(&one);
}

/* Packed tensors move fewer bytes, so lower is faster here: demote takes the fewest groups with which an iteration is short enough. */
TEST(longest) {
    setting one = model_setting("resnet8");
    qs_plan none = demoted(&one, 0), all = demoted(&one, 1);
    assert_true(all.class_[0].predicted.iteration_us < none.class_[0].predicted.iteration_us);
    const double wanted = (all.class_[0].predicted.iteration_us + none.class_[0].predicted.iteration_us) / 2;
    one.options.assignment.longest_us = wanted;
    qs_plan plan = demoted(&one, 0);
    const double ratio = plan.class_[0].assignment.ratio_low;
    plan_check(&one, &plan);
    assert_true(plan.class_[0].predicted.iteration_us <= wanted);
    assert_true(ratio > 0 && ratio < all.class_[0].assignment.ratio_low);
    one.options.assignment.longest_us = 0;
    for (double last = 0, next_ratio = 0; next_ratio < ratio - 1e-12; last = next_ratio) {
        qs_plan next = demoted(&one, last + 1e-9);
        next_ratio = next.class_[0].assignment.ratio_low;
        assert_true(next_ratio > last);
        assert_true((next.class_[0].predicted.iteration_us <= wanted) == (next_ratio > ratio - 1e-12));
        qs_plan_release(&next);
    }
    qs_plan_release(&none);
    qs_plan_release(&all);
    qs_plan_release(&plan);
    setting_end(&one);
}

TEST(refusals) {
    setting one = model_setting("lenet5");
    qs_assignment_options *with = &one.options.assignment, good = *with;
    with->ratio = 1.5;
    setting_refused(&one, "demote", QS_USAGE, "ratio 1.5");
    *with = good;
    with->order = "alphabetical";
    setting_refused(&one, "demote", QS_USAGE, "order alphabetical");
    *with = good;
    with->low = qs_format_of("fp(3,4,0)");
    setting_refused(&one, "op", QS_MISMATCH, "class strong does not store fp(3,4,0)");
    with->low = qs_format_of("int8");
    setting_refused(&one, "op-io", QS_USAGE, "rounded to float formats");
    *with = good;
    with->promote_at = -1;
    setting_refused(&one, "uniform-fp", QS_USAGE, "promotion at -1");
    *with = good;
    one.profile.class_[0].conversions = 0;
    setting_refused(&one, "demote", QS_MISMATCH, "profile again");
    assert_true(qs_planner_assigns("op-io") && !qs_planner_assigns("qsync") && !qs_planner_assigns("nothing"));
    setting_end(&one);
}

TEST_MAIN(ratios, orders, baselines, memory, longest, refusals)
