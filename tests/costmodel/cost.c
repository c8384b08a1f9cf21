// SPDX-License-Identifier: Apache-2.0
/* Costs of steps: rows for kernels, fits for conversions, the overhead of a step on both; nothing is free because it is unknown. */
#include "kit/synthetic.h"

static const synthetic_device devices[] = {SYNTHETIC_WEAK};
static qs_graph *graph;
static qs_cluster cluster;
static qs_job job;
static qs_profile profile;
static qs_schedule *schedule; /* int8/bf16, from the profile's rows */

static qs_status lower_by(qs_kernel_lookup lookup, void *context, const char *recipe_name, qs_schedule **out) {
    const qs_recipe recipe = recipe_of(recipe_name);
    const qs_recipe **list = recipes_uniform(graph, &recipe);
    qs_lowering lowering = lowering_of(graph, &job, QS_MODE_TRAIN, list);
    lowering.lookup = lookup;
    lowering.context = context;
    const qs_status status = qs_schedule_lower(&lowering, out);
    free(list);
    return status;
}

static int setup(void **state) {
    (void)state;
    if (qs_model_build("resnet8:width=0.5", NULL, &graph) != QS_OK) return 1;
    job = stub_job(4);
    cluster = synthetic_cluster(1, devices);
    profile = synthetic_profile(graph, &cluster, devices, &job);
    return lower_by(qs_lookup_profile, &profile.class_[0], "int8/bf16", &schedule) != QS_OK;
}

static int teardown(void **state) {
    (void)state;
    qs_schedule_release(schedule);
    qs_profile_release(&profile);
    qs_cluster_release(&cluster);
    qs_graph_release(graph);
    return 0;
}

/* The price the profile was made from: a conversion's line is its roofline by construction. */
static double price(const qs_step *step) {
    if (step->kind != QS_STEP_KERNEL) return 0;
    return synthetic_us(&devices[0], &step->case_) + profile.class_[0].step_overhead_us;
}

TEST(every_step_has_its_price) {
    double *us = calloc((size_t)schedule->steps, sizeof *us);
    int conversions = 0, reduces = 0;
    assert_ok(qs_cost_schedule(&profile.class_[0], schedule, NULL, us));
    for (int s = 0; s < schedule->steps; s++) {
        const qs_step *step = &schedule->step[s];
        conversions += step->conversion;
        reduces += step->kind != QS_STEP_KERNEL;
        /* Conversions: steps and maxima are a few values, which the line, made from another size, counts by the element. */
        const double allowed = step->conversion ? 0.05 * price(step) : 1e-9;
        if (!(fabs(us[s] - price(step)) <= allowed)) fail_msg("step %d (%s): %g us, expected %g", s, step->case_text, us[s], price(step));
    }
    assert_true(conversions > 20 && reduces >= 2);
    free(us);
}

TEST(casts_can_be_left_out) {
    double *us = calloc((size_t)schedule->steps, sizeof *us), *all = calloc((size_t)schedule->steps, sizeof *all);
    const qs_cost_options options = {.no_casts = true};
    assert_ok(qs_cost_schedule(&profile.class_[0], schedule, NULL, all));
    assert_ok(qs_cost_schedule(&profile.class_[0], schedule, &options, us));
    for (int s = 0; s < schedule->steps; s++)
        assert_true(us[s] == (schedule->step[s].conversion ? 0 : all[s]));
    free(us);
    free(all);
}

/* A class with a cache: kernels move from their mean by what their place finds cold, conversions and unknown slopes stay, and however hot a
 * place is, the arithmetic remains. */
TEST(places_in_the_schedule_count) {
    enum { CACHE = 64 << 10 };
    double *us = calloc((size_t)schedule->steps, sizeof *us), *plain = calloc((size_t)schedule->steps, sizeof *plain);
    int64_t *cold = calloc((size_t)schedule->steps, sizeof *cold);
    qs_class_profile *one = &profile.class_[0];
    assert_ok(qs_cost_schedule(one, schedule, NULL, plain));
    for (int i = 0; i < one->kernels; i++) {
        one->kernel[i].cold_bytes = i % 3 == 2 ? 1e12 : 1000;
        one->kernel[i].us_per_cold_byte = i % 3 ? 1e-4 : 0;
    }
    one->cache_bytes = CACHE;
    assert_ok(qs_schedule_cold_bytes(schedule, CACHE, cold));
    assert_ok(qs_cost_schedule(one, schedule, NULL, us));
    int moved = 0, least = 0;
    for (int s = 0; s < schedule->steps; s++) {
        const qs_step *step = &schedule->step[s];
        const qs_kernel_cost *row = step->kind == QS_STEP_KERNEL ? qs_class_profile_kernel(one, step->case_text) : NULL;
        const double added = row && !step->conversion ? row->us_per_cold_byte * ((double)cold[s] - row->cold_bytes) : 0;
        const double expected = fmax(plain[s] + added, 0.3 * plain[s]);
        assert_true(fabs(us[s] - expected) <= 1e-9 * (1 + expected));
        moved += us[s] != plain[s];
        least += added < -plain[s];
    }
    assert_true(moved > 10 && least > 5);
    one->cache_bytes = 0;
    free(us);
    free(plain);
    free(cold);
}

/* A case tells what lowering knows: it reads the master weights, or it does not. */
static int weights_check(const char *recipe) {
    qs_schedule *one = NULL;
    int weights = 0;
    assert_ok(lower_by(qs_lookup_profile, &profile.class_[0], recipe, &one));
    for (int s = 0; s < one->steps; s++) {
        const qs_step *step = &one->step[s];
        if (!step->conversion) continue;
        const bool told = qs_conversion_of_weights(&step->case_);
        const bool reads = step->place[qs_case_position(&step->case_, QS_SRC)].buffer == one->masters;
        if (told != reads) fail_msg("%s: %s", recipe, step->case_text);
        weights += told;
    }
    qs_schedule_release(one);
    return weights;
}

TEST(cases_tell_weights) {
    const int bf16 = weights_check("bf16");
    assert_true(bf16 > 0);
    assert_int_equal(weights_check("fp32"), 0);
    assert_true(weights_check("int8/bf16") > bf16); /* maxima first */
}

static void prices(const qs_class_profile *from, const qs_schedule *of, double *us) {
    for (int s = 0; s < of->steps; s++)
        assert_ok(qs_cost_step(from, &of->step[s], &us[s]));
}

/* Rows of weights, twice as dear, price weights alone; a kind that has one row of either sort is priced by it. */
TEST(weights_have_rows_of_their_own) {
    qs_class_profile both = profile.class_[0];
    const int kinds = both.conversions;
    qs_schedule *one = NULL;
    int weights = 0;
    assert_ok(lower_by(qs_lookup_profile, &profile.class_[0], "bf16", &one));
    double *plain = calloc((size_t)one->steps, sizeof *plain), *us = calloc((size_t)one->steps, sizeof *us);
    both.step_overhead_us = 0;
    prices(&both, one, plain);
    both.conversion = calloc(2 * (size_t)kinds, sizeof *both.conversion);
    both.conversions = 2 * kinds;
    for (int i = 0; i < both.conversions; i++) {
        qs_conversion_cost *row = &both.conversion[i];
        *row = profile.class_[0].conversion[i % kinds];
        row->weights = i < kinds;
        for (int p = 0; row->weights && p < row->pieces; p++) {
            row->piece[p].us *= 2;
            row->piece[p].us_per_element *= 2;
        }
    }
    prices(&both, one, us);
    for (int s = 0; s < one->steps; s++) {
        const bool doubled = one->step[s].conversion && qs_conversion_of_weights(&one->step[s].case_);
        assert_true(us[s] == (doubled ? 2 : 1) * plain[s]);
        weights += doubled;
    }
    assert_true(weights > 0);
    both.conversions = kinds; /* of weights only */
    prices(&both, one, us);
    for (int s = 0; s < one->steps; s++)
        assert_true(us[s] == (one->step[s].conversion ? 2 : 1) * plain[s]);
    free(both.conversion);
    free(plain);
    free(us);
    qs_schedule_release(one);
}

TEST(what_is_not_known_is_an_error) {
    qs_class_profile poor = profile.class_[0];
    double us = -1;
    int kernel = -1, conversion = -1;
    for (int s = 0; s < schedule->steps; s++) {
        if (schedule->step[s].conversion)
            conversion = s;
        else if (schedule->step[s].kind == QS_STEP_KERNEL)
            kernel = s;
    }
    poor.kernels = 0;
    assert_refused(qs_cost_step(&poor, &schedule->step[kernel], &us), QS_MISMATCH, schedule->step[kernel].case_text);
    assert_message("weak");
    poor = profile.class_[0];
    poor.conversions = 0;
    assert_refused(qs_cost_step(&poor, &schedule->step[conversion], &us), QS_MISMATCH, schedule->step[conversion].case_text);
    assert_true(us == -1);
    /* Lowering names the operator as well. */
    qs_schedule *none = NULL;
    poor = profile.class_[0];
    poor.kernels = 0;
    assert_refused(lower_by(qs_lookup_profile, &poor, "bf16", &none), QS_MISMATCH, "operator input"); /* whose cast is the first step */
}

/* A plan's rows lower to the very schedule of the profile's; another plan's do not serve. */
TEST(plans_hold_kernel_rows) {
    qs_class_plan plan = {.class_name = "weak", .kernels = profile.class_[0].kernels};
    plan.kernel = calloc((size_t)plan.kernels, sizeof *plan.kernel);
    for (int i = 0; i < plan.kernels; i++) {
        const qs_kernel_cost *row = &profile.class_[0].kernel[i];
        plan.kernel[i] = (qs_plan_kernel){.case_text = row->case_text, .scratch_bytes = row->scratch_bytes, .allocates = row->allocates};
        snprintf(plan.kernel[i].kernel, sizeof plan.kernel[i].kernel, "%s", row->kernel);
    }
    qs_schedule *again = NULL;
    assert_ok(lower_by(qs_lookup_plan, &plan, "int8/bf16", &again));
    assert_ok(qs_schedule_compare(schedule, again));
    qs_schedule_release(again);
    plan.kernels = 3;
    again = NULL;
    assert_refused(lower_by(qs_lookup_plan, &plan, "int8/bf16", &again), QS_MISMATCH, "plan of class weak");
    free(plan.kernel);
}

/* Caches that hold everything, ranks that are quicker alone: no schedule's step is below the least. */
TEST(nothing_is_below_the_least) {
    qs_class_profile *one = &profile.class_[0];
    double *us = calloc((size_t)schedule->steps, sizeof *us), *alone = calloc((size_t)schedule->steps, sizeof *alone);
    int below = 0;
    one->cache_bytes = 64 << 10;
    for (int i = 0; i < one->kernels; i++) {
        one->kernel[i].cold_bytes = 1e4 * (i % 7);
        one->kernel[i].us_per_cold_byte = 1e-4 * (i % 3);
        one->kernel[i].us_alone = one->kernel[i].us * (0.8 + 0.1 * (i % 4));
    }
    assert_ok(qs_cost_schedule(one, schedule, NULL, us));
    assert_true(qs_cost_schedule_alone(one, schedule, us, alone));
    for (int s = 0; s < schedule->steps; s++) {
        double least, least_alone, mean;
        assert_ok(qs_cost_step_least(one, &schedule->step[s], schedule->arena_bytes, true, &least));
        assert_ok(qs_cost_step_least(one, &schedule->step[s], schedule->arena_bytes, false, &least_alone));
        assert_ok(qs_cost_step(one, &schedule->step[s], &mean));
        assert_true(least <= us[s] && least_alone <= alone[s] && least <= mean);
        assert_true(us[s] <= alone[s] * qs_cost_most_speed(one) * (1 + 1e-12));
        below += least < mean;
    }
    assert_true(below > 0);
    for (int i = 0; i < one->kernels; i++)
        one->kernel[i].cold_bytes = one->kernel[i].us_per_cold_byte = one->kernel[i].us_alone = 0;
    one->cache_bytes = 0;
    free(us);
    free(alone);
}

/* ---- Recordings ---- */

static double sum_of(const double *us) {
    double sum = 0;
    for (int s = 0; s < schedule->steps; s++)
        sum += us[s];
    return sum;
}

/* A device that needs `start_us` to start a kernel by itself, and `gap_us` between two kernels of a recording: what its profile says of a
 * kernel that computes for as long as the synthetic one takes. */
static void device_records(const qs_class_profile *computes, double start_us, double gap_us, qs_class_profile *out) {
    for (int i = 0; i < out->kernels; i++) {
        out->kernel[i].us = fmax(computes->kernel[i].us, start_us);
        out->kernel[i].us_recorded = computes->kernel[i].us + gap_us;
    }
    for (int i = 0; i < out->conversions; i++) {
        out->conversion[i] = computes->conversion[i];
        out->conversion[i].piece[0].us += start_us;
        out->conversion[i].recorded = start_us > gap_us ? 0.5 : 1.5;
    }
    out->recorded = 1;
}

/* Where starting takes longer than computing a step is as long as its kernels and their gaps; where it does not, as it was one by one. What
 * the class says goes before what is faster, and a profile without such times knows one way only. */
TEST(steps_are_started_in_the_faster_way) {
    qs_class_profile *one = &profile.class_[0], computes = *one;
    const qs_cost_options never = {.start = QS_START_ONE_BY_ONE}, always = {.start = QS_START_RECORDED};
    double *us = calloc((size_t)schedule->steps, sizeof *us), *plain = calloc((size_t)schedule->steps, sizeof *plain);
    computes.kernel = malloc((size_t)one->kernels * sizeof *computes.kernel);
    computes.conversion = malloc((size_t)one->conversions * sizeof *computes.conversion);
    assert_true(us && plain && computes.kernel && computes.conversion);
    memcpy(computes.kernel, one->kernel, (size_t)one->kernels * sizeof *one->kernel);
    memcpy(computes.conversion, one->conversion, (size_t)one->conversions * sizeof *one->conversion);
    for (int bound = 0; bound < 2; bound++) { /* by computing, by starting */
        device_records(&computes, bound ? 1e4 : 0, 1, one);
        assert_ok(qs_cost_schedule(one, schedule, NULL, plain));
        memcpy(us, plain, (size_t)schedule->steps * sizeof *us);
        assert_int_equal(qs_cost_schedule_recorded(one, schedule, NULL, us), bound);
        assert_true(bound ? sum_of(us) < sum_of(plain) : sum_of(us) == sum_of(plain));
        memcpy(us, plain, (size_t)schedule->steps * sizeof *us);
        assert_false(qs_cost_schedule_recorded(one, schedule, &never, us));
        assert_memory_equal(us, plain, (size_t)schedule->steps * sizeof *us);
        assert_true(qs_cost_schedule_recorded(one, schedule, &always, us));
        for (int s = 0; s < schedule->steps; s++) {
            const qs_step *step = &schedule->step[s];
            const qs_kernel_cost *row = step->kind == QS_STEP_KERNEL ? qs_class_profile_kernel(&computes, step->case_text) : NULL;
            double least, share = bound ? 0.5 : 1.5;
            if (row && !step->conversion) share = (row->us + 1) / fmax(row->us, bound ? 1e4 : 0);
            assert_true(fabs(us[s] - share * plain[s]) <= 1e-12 * plain[s]);
            assert_ok(qs_cost_step_least(one, step, schedule->arena_bytes, true, &least));
            assert_true(least <= us[s] && least <= plain[s]);
        }
        one->kernel[0].us_recorded = one->conversion[0].recorded = one->recorded = 0; /* a profile of a device that makes none */
        memcpy(us, plain, (size_t)schedule->steps * sizeof *us);
        assert_false(qs_cost_schedule_recorded(one, schedule, &always, us));
        assert_memory_equal(us, plain, (size_t)schedule->steps * sizeof *us);
    }
    memcpy(one->kernel, computes.kernel, (size_t)one->kernels * sizeof *one->kernel);
    memcpy(one->conversion, computes.conversion, (size_t)one->conversions * sizeof *one->conversion);
    free(computes.kernel);
    free(computes.conversion);
    free(us);
    free(plain);
}

/* What was measured beside recordings is taken with them, where it was measured. */
TEST(loops_beside_recordings_are_their_own) {
    qs_class_profile *one = &profile.class_[0];
    const double us = one->iteration_overhead_us + qs_cost_data(one, &graph->samples, 4);
    for (int known = 0; known < 3; known++) {
        one->recorded_loop_us = known == 0 ? 0 : known == 1 ? us / 4 : 2 * us;
        assert_true(qs_cost_loop(one, &graph->samples, 4, QS_START_ONE_BY_ONE) == us);
        assert_true(qs_cost_loop(one, &graph->samples, 4, QS_START_RECORDED) == (known ? one->recorded_loop_us : us));
        assert_true(qs_cost_loop(one, &graph->samples, 4, QS_START_FASTER) == (known == 1 ? us / 4 : us));
        assert_true(qs_cost_loop(one, &graph->samples, 0, QS_START_RECORDED) == fmin(one->iteration_overhead_us, known == 1 ? us / 4 : us));
    }
    one->recorded_loop_us = 0;
}

/* Rows of which nothing is known have the class's share. */
TEST(unknown_shares_are_the_class_s) {
    qs_class_profile *one = &profile.class_[0];
    double *us = calloc((size_t)schedule->steps, sizeof *us), *plain = calloc((size_t)schedule->steps, sizeof *plain);
    assert_true(us && plain);
    one->recorded = 0.75;
    assert_ok(qs_cost_schedule(one, schedule, NULL, plain));
    memcpy(us, plain, (size_t)schedule->steps * sizeof *us);
    assert_true(qs_cost_schedule_recorded(one, schedule, NULL, us));
    for (int s = 0; s < schedule->steps; s++)
        assert_true(us[s] == 0.75 * plain[s]);
    one->recorded = 0;
    free(us);
    free(plain);
}

/* Two axes, two kinds: a row of one step, or of the other axis, is not taken. */
TEST(transforms_are_kinds_of_their_own) {
    static const struct {
        const char *text;
        qs_conversion_steps steps;
    } known[] = {
        {"quantize/forward src=bf16[16,32] absmax=fp32[1] dst=int4[16,32] dst_step=fp32[1] axis=1 hadamard=16 batched", QS_STEPS_HADAMARD},
        {"quantize/forward src=bf16[16,32] absmax=fp32[1] dst=int4[16,32] dst_step=fp32[1] hadamard=8 batched", QS_STEPS_HADAMARD_ROWS},
        {"quantize/forward src=bf16[16,32] absmax=fp32[1] dst=int4[16,32] dst_step=fp32[1] batched", QS_STEPS_TENSOR}};
    qs_conversion_cost rows[3] = {{.kind = "quantize"}, {.kind = "quantize"}, {.kind = "quantize"}};
    const qs_class_profile one = {.conversions = 3, .conversion = rows};
    for (int i = 0; i < 3; i++) {
        rows[i].from = qs_format_of("bf16");
        rows[i].to = qs_format_of("int4");
        rows[i].steps = known[i].steps;
    }
    for (int i = 0; i < 3; i++) {
        qs_case parsed;
        assert_ok(qs_case_parse(known[i].text, &parsed));
        assert_ok(qs_case_check(&parsed));
        assert_int_equal(qs_conversion_steps_of(&parsed), known[i].steps);
        assert_ptr_equal(qs_cost_conversion(&one, &parsed), &rows[i]);
        rows[i].steps = QS_STEPS_SHIFT;
        assert_null(qs_cost_conversion(&one, &parsed));
        rows[i].steps = known[i].steps;
    }
}

TEST_MAIN_WITH(setup, teardown, every_step_has_its_price, casts_can_be_left_out, places_in_the_schedule_count, cases_tell_weights,
               transforms_are_kinds_of_their_own, weights_have_rows_of_their_own, what_is_not_known_is_an_error, plans_hold_kernel_rows,
               nothing_is_below_the_least, steps_are_started_in_the_faster_way, loops_beside_recordings_are_their_own,
               unknown_shares_are_the_class_s)
