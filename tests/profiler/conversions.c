// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Every kind of conversion that a class's formats allow has a fit, each once; a kind that is missing is an error that names it. */
#include "profiler_support.h"

static const char *const reals[] = {"fp32", "bf16"};

static const qs_conversion_cost *find(const qs_class_profile *one, const char *kind, const char *from, const char *to, bool channel,
                                      qs_rounding rounding, bool weights) {
    const qs_conversion_cost *found = NULL;
    for (int i = 0; i < one->conversions; i++) {
        const qs_conversion_cost *row = &one->conversion[i];
        const bool same_to = to ? row->to && strcmp(row->to->name, to) == 0 : !row->to;
        if (strcmp(row->kind, kind) != 0 || strcmp(row->from->name, from) != 0 || !same_to ||
            row->steps != (channel ? QS_STEPS_CHANNEL : QS_STEPS_TENSOR) || row->rounding != rounding || row->weights != weights)
            continue;
        assert_null(found);
        found = row;
    }
    return found;
}

static void kinds_of_a_float(const qs_class_profile *one, const char *real) {
    assert_non_null(find(one, "add", real, real, false, QS_NEAREST_EVEN, false));
    assert_non_null(find(one, "dequantize", "int8", real, false, QS_NEAREST_EVEN, false));
    assert_non_null(find(one, "absmax", real, NULL, false, QS_NEAREST_EVEN, false));
    assert_null(find(one, "absmax", real, NULL, true, QS_NEAREST_EVEN, true)); /* rows find their own */
    for (int channel = 0; channel < 2; channel++) {
        assert_non_null(find(one, "quantize", real, "int8", channel, QS_NEAREST_EVEN, channel));
        assert_non_null(find(one, "quantize", real, "int8", channel, QS_STOCHASTIC, channel));
    }
}

static void quality_of(const qs_conversion_cost *row) {
    assert_in_range(row->pieces, 1, 3);
    for (int p = 0; p < row->pieces; p++) {
        const qs_fit_piece *piece = &row->piece[p];
        assert_true(piece->us >= 0 && piece->us_per_element >= 0 && piece->r2 <= 1);
        assert_true(piece->mean_residual >= 0 && piece->mean_residual <= piece->worst_residual);
        if (p) assert_true(piece->to_elements >= row->piece[p - 1].to_elements);
    }
}

/* A model without residuals places no sum, and recipes place no nearest rounding to fixed point: they have fits all the same. */
static void every_kind_has_a_fit(void **state) {
    const qs_class_profile *one = &((bench *)*state)->profile.class_[0];
    for (size_t i = 0; i < COUNT_OF(reals); i++) {
        kinds_of_a_float(one, reals[i]);
        assert_non_null(find(one, "cast", reals[i], reals[1 - i], false, QS_NEAREST_EVEN, false));
        assert_null(find(one, "cast", reals[i], reals[i], false, QS_NEAREST_EVEN, false));
    }
    /* Weights are kept in fp32, and steps per channel are for weights alone. */
    assert_non_null(find(one, "cast", "fp32", "bf16", false, QS_NEAREST_EVEN, true));
    assert_null(find(one, "cast", "bf16", "fp32", false, QS_NEAREST_EVEN, true));
    for (int i = 0; i < one->conversions; i++) {
        quality_of(&one->conversion[i]);
        assert_true(one->conversion[i].steps <= QS_STEPS_CHANNEL); /* others are for integers below 8 bits */
    }
}

static qs_step cast_step(const char *from, const char *to, char text[QS_CASE_TEXT]) {
    const qs_attributes attributes = {.rounding = QS_NEAREST_EVEN, .batched = true};
    const qs_shape shape = qs_shape_of(2, (int64_t)8, (int64_t)1024);
    qs_step step = {.kind = QS_STEP_KERNEL, .conversion = true, .case_ = qs_case_make("cast", "forward", &attributes)};
    qs_case_bind(&step.case_, QS_SRC, shape, qs_format_of(from));
    qs_case_bind(&step.case_, QS_DST, shape, qs_format_of(to));
    (void)qs_case_text(&step.case_, text);
    step.case_text = text;
    return step;
}

static void a_missing_kind_is_named(void **state) {
    const qs_class_profile *one = &((bench *)*state)->profile.class_[0];
    char text[QS_CASE_TEXT];
    double us = -1;
    qs_step step = cast_step("fp32", "bf16", text);
    assert_ok(qs_cost_step(one, &step, &us));
    assert_true(us > 0);
    us = -1;
    step = cast_step("fp32", "fp16", text);
    assert_refused(qs_cost_step(one, &step, &us), QS_MISMATCH, "cast/forward src=fp32");
    assert_true(us == -1);
}

/* What whole steps showed is held against the fits, kind by kind. */
static void ratios_are_there(void **state) {
    const qs_class_profile *one = &((bench *)*state)->profile.class_[0];
    int seen = 0;
    for (int i = 0; i < one->conversions; i++) {
        assert_true(isfinite(one->conversion[i].in_steps) && one->conversion[i].in_steps >= 0);
        seen += one->conversion[i].in_steps > 0;
    }
    assert_true(seen > 0 && seen < one->conversions); /* no plan shows them all */
    assert_true(one->conditions.known && !one->conditions.pinned);
    assert_true(one->conditions.waited >= 0 && one->conditions.waited <= 1 && one->conditions.stolen >= 0 && one->conditions.stolen <= 1);
}

static bench opened;

static int open_bench(void **state) {
    bench_open(&opened, NULL, "ref", "mlp:width=0.125", 4);
    opened.options.statistics_iterations = 0;
    assert_ok(qs_profile_measure(&opened.options, opened.device, opened.comm, &opened.profile));
    *state = &opened;
    return 0;
}

static int close_bench(void **state) {
    (void)state;
    bench_close(&opened);
    return 0;
}

TEST_MAIN_WITH(open_bench, close_bench, every_kind_has_a_fit, a_missing_kind_is_named, ratios_are_there)
