// SPDX-License-Identifier: Apache-2.0
// labels: short
// links: replayer
/* A profile answers every question that a planner may put: whatever mix of the class's recipes, every kernel has its row and every
 * conversion its fit. */
#include "profiler_support.h"
#include "kit/schedule.h"

#include "qsync/replayer.h"

enum { MIXES = 100 };

static void figures_check(const qs_class_profile *one) {
    for (int i = 0; i < one->kernels; i++) {
        const qs_kernel_cost *row = &one->kernel[i];
        assert_true(isfinite(row->us) && row->us > 0);
        assert_true(row->us_low > 0 && row->us_low <= row->us_high);
        assert_true(row->scratch_bytes >= 0 && row->kernel[0]);
        if (i) assert_true(strcmp(one->kernel[i - 1].case_text, row->case_text) < 0);
    }
    for (int i = 0; i < one->conversions; i++) {
        const qs_conversion_cost *row = &one->conversion[i];
        for (double n = 1024; n < 1e8; n *= 3) {
            const double us = qs_fit_value(row->pieces, row->piece, n);
            assert_true(isfinite(us) && us > 0);
        }
    }
    /* What samples take is what is left beside their copies, which took longer by themselves where others were at work: then nothing. */
    assert_true(one->data_us_per_sample > 0 || (one->copies.known && one->data_us_per_sample == 0));
    assert_true(one->iteration_overhead_us >= 0 && one->base_bytes > 0);
    assert_true(one->threads == 1 && one->speed == 1 && one->backend[0] && one->device[0] && one->library[0] && one->build[0] &&
                one->date[0]);
}

/* Mixes that the profiler did not draw itself. */
static void mixes_predict(bench *b) {
    qs_recipe recipe[QS_MAX_FORMATS];
    int recipes;
    const qs_recipe **choice = calloc((size_t)b->graph->nodes, sizeof *choice);
    const qs_recipe *const *by_class[] = {choice};
    assert_ok(qs_class_recipes(&b->cluster.class_[0], QS_MAX_FORMATS, recipe, &recipes));
    assert_int_equal(recipes, 3);
    for (int mix = 0; mix < MIXES; mix++) {
        qs_prediction prediction;
        for (int n = b->graph->samples.inputs; n < b->graph->nodes; n++)
            if (b->graph->node[n].op->kind == QS_ADJUSTABLE)
                choice[n] = &recipe[qs_random_bits(qs_random_key(77, (uint64_t)mix, 5, 0), (uint64_t)n) % (unsigned)recipes];
        assert_ok(qs_predict(b->graph, &b->cluster, &b->profile, &b->job, by_class, NULL, &prediction));
        assert_true(prediction.iteration_us > 0 && isfinite(prediction.iteration_us));
        qs_prediction_release(&prediction);
    }
    free(choice);
}

static void text_round_trips(const qs_profile *profile) {
    char *text, *again;
    qs_profile copy;
    assert_ok(qs_profile_text(profile, &text));
    assert_ok(qs_profile_parse(text, "again", &copy));
    assert_ok(qs_profile_text(&copy, &again));
    assert_string_equal(text, again);
    qs_profile_release(&copy);
    free(text);
    free(again);
}

static void profile_and_ask(const char *backend, const char *model, int64_t batch) {
    bench b;
    if (!backend_exists(backend)) skip();
    bench_open(&b, NULL, backend, model, batch);
    if (!device_multiplies(b.device, "bf16") || !device_multiplies(b.device, "int8")) {
        bench_close(&b);
        skip();
    }
    assert_ok(qs_profile_measure(&b.options, b.device, b.comm, &b.profile));
    char signature[32];
    assert_string_equal(b.profile.graph, qs_graph_signature(b.graph, signature));
    assert_int_equal(b.profile.batch, batch);
    assert_int_equal(b.profile.classes, 1);
    assert_int_equal(b.profile.collectives, 0);
    figures_check(&b.profile.class_[0]);
    mixes_predict(&b);
    text_round_trips(&b.profile);
    bench_close(&b);
}

TEST(mlp_on_ref) {
    profile_and_ask("ref", "mlp:width=0.125", 4);
}

/* Residuals bring gradient sums and casts of what one of two readers needs. */
TEST(residual_net_on_cpu) {
    profile_and_ask("cpu", "resnet8:width=0.5", 4);
}

typedef struct heard {
    double last;
    int count;
} heard;

static void hear(void *context, const char *what, double fraction) {
    heard *all = context;
    assert_true(what[0] && fraction >= all->last && fraction <= 1);
    all->last = fraction;
    all->count++;
}

static void progress_goes_up_to_one(void **state) {
    bench b;
    heard all = {0};
    (void)state;
    if (!backend_exists("cpu")) skip();
    bench_open(&b,
               "{\"schema\":\"qsync/cluster/2\","
               "\"classes\":{\"one\":{\"role\":\"training\",\"backend\":\"cpu\",\"count\":1,\"formats\":[\"fp32\"]}}}",
               NULL, "mlp:width=0.125", 4);
    b.options.progress = hear;
    b.options.progress_context = &all;
    assert_ok(qs_profile_measure(&b.options, b.device, b.comm, &b.profile));
    assert_true(all.count > 3 && all.last == 1);
    assert_int_equal(b.profile.class_[0].conversions, 1); /* one format: only sums of gradients */
    assert_string_equal(b.profile.class_[0].conversion[0].kind, "add");
    bench_close(&b);
}

/* A time that is over at once: every plan has the steps that it must have. One that is not: measuring ends by itself where kernels are
 * known, or with the last round. Both say how well that is, of all and of every row. */
static void a_stated_time_is_kept_to(void **state) {
    static const double minutes[] = {1e-6, 5};
    (void)state;
    for (int i = 0; i < 2; i++) {
        bench b;
        bench_open(&b, NULL, "ref", "mlp:width=0.125", 4);
        b.options.minutes = minutes[i];
        assert_ok(qs_profile_measure(&b.options, b.device, b.comm, &b.profile));
        const qs_class_profile *one = &b.profile.class_[0];
        const qs_quality *quality = &one->quality;
        assert_true(fabs(quality->budget_s - 60 * minutes[i]) < 1e-9 && quality->seconds > 0 && quality->seconds < 300);
        /* rounds that were disturbed, at most every second one, are left out */
        assert_true(quality->steps >= 2 && quality->steps <= 6);
        assert_true(quality->kernels > 0 && quality->kernels <= 1 && quality->confidence >= quality->kernels / 2);
        int known = 0;
        for (int k = 0; k < one->kernels; k++) {
            assert_true(one->kernel[k].confidence >= 0 && one->kernel[k].confidence <= 1);
            known += one->kernel[k].confidence > 0;
        }
        assert_true(known > 0);
        mixes_predict(&b);
        text_round_trips(&b.profile);
        bench_close(&b);
    }
}

static void wrong_options_are_refused(void **state) {
    bench b;
    (void)state;
    bench_open(&b, NULL, "ref", "mlp:width=0.125", 4);
    b.options.repetitions = 1;
    assert_refused(qs_profile_measure(&b.options, b.device, b.comm, &b.profile), QS_USAGE, "repetitions 1");
    b.options.repetitions = 2;
    b.options.minutes = -2;
    assert_refused(qs_profile_measure(&b.options, b.device, b.comm, &b.profile), QS_USAGE, "-2 minutes");
    b.options.minutes = 0;
    b.options.statistics_iterations = -1;
    assert_refused(qs_profile_measure(&b.options, b.device, b.comm, &b.profile), QS_USAGE, "statistics iterations -1");
    b.options.statistics_iterations = 0;
    b.cluster.class_[0].count = 2;
    assert_refused(qs_profile_measure(&b.options, b.device, b.comm, &b.profile), QS_USAGE, "2 ranks but 1");
    bench_close(&b);
}

/* Ranges that are searched for cost what the search does: a fit of its own; with them and powers of two a plan is priced like any other. */
TEST(searched_ranges_are_priced) {
    static const char *const formats[] = {"fp32", "int4", "log4"}, *const recipes[] = {"fp32", "int4:shift4:mse/log4"};
    bench b;
    qs_recipe recipe[2];
    qs_prediction prediction;
    int count, searched = 0;
    bench_open(&b, NULL, "ref", "mlp:width=0.125", 8);
    qs_class *one = &b.cluster.class_[0];
    one->formats = COUNT_OF(formats);
    for (int i = 0; i < one->formats; i++)
        one->format[i] = qs_format_of(formats[i]);
    one->recipes = COUNT_OF(recipes);
    for (int i = 0; i < one->recipes; i++)
        snprintf(one->recipe[i], sizeof one->recipe[i], "%s", recipes[i]);
    one->storages = 1;
    one->storage[0] = one->format[0];
    assert_ok(qs_profile_measure(&b.options, b.device, b.comm, &b.profile));
    const qs_class_profile *profile = &b.profile.class_[0];
    for (int i = 0; i < profile->conversions; i++) {
        const qs_conversion_cost *row = &profile->conversion[i];
        assert_true(!row->least_squares || (strcmp(row->kind, "quantize") == 0 && row->rounding == QS_NEAREST_EVEN));
        searched += row->least_squares;
    }
    assert_true(searched > 0);
    assert_ok(qs_class_recipes(one, 2, recipe, &count));
    const qs_recipe **choice = recipes_uniform(b.graph, &recipe[1]);
    const qs_recipe *const *by_class[] = {choice};
    assert_ok(qs_predict(b.graph, &b.cluster, &b.profile, &b.job, by_class, NULL, &prediction));
    qs_prediction_release(&prediction);
    text_round_trips(&b.profile);
    free(choice);
    bench_close(&b);
}

TEST_MAIN(mlp_on_ref, residual_net_on_cpu, progress_goes_up_to_one, a_stated_time_is_kept_to, wrong_options_are_refused,
          searched_ranges_are_priced)
