// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Profiles: the round trip by text and by file, look-up of kernels, and what is refused. */
#include "kit/kit.h"

#include <unistd.h>

#include "record_samples.h"

static qs_profile sample(void) {
    qs_profile profile;
    assert_ok(qs_profile_parse(profile_sample, "sample", &profile));
    return profile;
}

TEST(round_trip) {
    qs_profile profile = sample();
    char *text;
    assert_ok(qs_profile_text(&profile, &text));
    assert_string_equal(text, profile_sample);
    free(text);
    qs_profile_release(&profile);
}

TEST(fields) {
    qs_profile profile = sample();
    const qs_class_profile *weak = qs_profile_class(&profile, "weak");
    assert_non_null(weak);
    assert_null(qs_profile_class(&profile, "big"));
    assert_int_equal(weak->base_bytes, 19000000);
    assert_int_equal(profile.batches, 3);
    assert_true(qs_profile_batch_find(&profile, 32)->measured && !qs_profile_batch_find(&profile, 48)->measured);
    assert_null(qs_profile_batch_find(&profile, 40));
    assert_int_equal(weak->conversions, 2);
    assert_null(weak->conversion[0].to);
    assert_int_equal(weak->conversion[1].rounding, QS_STOCHASTIC);
    assert_int_equal(weak->conversion[1].steps, QS_STEPS_CHANNEL);
    assert_true(weak->conversion[1].weights && !weak->conversion[0].weights);
    assert_int_equal(weak->conversion[1].pieces, 2);
    assert_true(weak->conversion[1].piece[1].us == 3);
    assert_true(profile.collective[0].temporary_per_byte == 0.5 && profile.collective[0].window_bytes == 4194304);
    assert_true(profile.collective[1].window_bytes == 0);
    assert_string_equal(profile.collective[0].wire, ""); /* fp32 */
    assert_int_equal(profile.checks, 1);
    assert_string_equal(profile.check[0].plan, "a");
    assert_true(profile.check[0].steps == 54 && profile.check[0].measured_us == 2000 && profile.check[0].predicted_us == 2020);
    assert_int_equal(profile.statistics.iterations, 2);
    assert_string_equal(profile.statistics.operator_[0].name, "stage1.block0.conv1");
    assert_true(profile.statistics.operator_[0].src.maximum[1] == 1e20);
    assert_int_equal(profile.statistics.operator_[0].weights.count, 288);
    const qs_operator_statistics *one = &profile.statistics.operator_[0];
    assert_true(one->src.range_histogram[-3 - QS_LOWEST_EXPONENT] == 12.5 && one->src.range_histogram[-1 - QS_LOWEST_EXPONENT] == 1000);
    assert_true(one->weights.range_histogram[0] == 0);
    assert_true(one->src.channel_range2[1] == 10 && isnan(one->weights.channel_range2[1]));
    assert_true(one->weights.variance_int8_channel[0] == 0.25 && isnan(one->src.variance_int8_channel[0]));
    assert_true(one->hessian_top == -1.5);
    const qs_noise *noise = &profile.statistics.noise;
    assert_true(noise->batch == 16 && noise->iteration == 50 && noise->runs == 7 && noise->gradient_norm2 == 2.5);
    assert_int_equal(noise->rows, 2);
    assert_int_equal(noise->groups, 1);
    assert_true(noise->group[0].operators == 2 && noise->group[0].error2 == 0.375 && noise->group[0].sum == 0.25);
    assert_string_equal(noise->group[0].recipe, "bf16");
    assert_string_equal(noise->row[0].name, "stage1.block0.conv1");
    assert_string_equal(noise->row[1].recipe, "fp16");
    assert_true(noise->row[0].runs == 3 && noise->row[0].error2 == 0.125 && noise->row[0].standard_error == 0.01);
    assert_true(noise->row[1].overflow && !noise->row[0].overflow);
    qs_profile_release(&profile);
}

TEST(look_up) {
    qs_profile profile = sample();
    const qs_class_profile *weak = &profile.class_[0];
    assert_ptr_equal(qs_class_profile_kernel(weak, "add/forward a"), &weak->kernel[0]);
    assert_ptr_equal(qs_class_profile_kernel(weak, "conv2d/forward b"), &weak->kernel[1]);
    assert_null(qs_class_profile_kernel(weak, "conv2d"));
    assert_null(qs_class_profile_kernel(&(qs_class_profile){0}, "conv2d"));
    qs_profile_release(&profile);
}

/* Whatever order the kernels have in the struct, the file is the same, and reading sorts. */
TEST(order) {
    qs_profile profile = sample();
    char *text;
    qs_kernel_cost first = profile.class_[0].kernel[0];
    profile.class_[0].kernel[0] = profile.class_[0].kernel[1];
    profile.class_[0].kernel[1] = first;
    assert_ok(qs_profile_text(&profile, &text));
    assert_string_equal(text, profile_sample);
    qs_class_profile_sort(&profile.class_[0]);
    assert_string_equal(profile.class_[0].kernel[0].case_text, "add/forward a");
    free(text);
    qs_profile_release(&profile);
}

TEST(by_file) {
    char path[] = "/tmp/qsync-profile-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    qs_profile profile = sample(), again;
    char first[32], second[32];
    assert_ok(qs_profile_write(path, &profile));
    assert_ok(qs_profile_read(path, &again));
    assert_string_equal(qs_profile_signature(&profile, first), qs_profile_signature(&again, second));
    unlink(path);
    qs_profile_release(&profile);
    qs_profile_release(&again);
}

TEST(non_finite) {
    qs_profile profile = sample();
    char *text;
    profile.statistics.operator_[0].src.norm2[1] = INFINITY;
    assert_refused(qs_profile_text(&profile, &text), QS_NUMERIC,
                   "profile: statistics.operators.stage1.block0.conv1.src.norm2.element: inf is not finite");
    qs_profile_release(&profile);
}

TEST(created) {
    qs_profile profile = {
        .batch = 1,
        .model = "m",
        .samples = {.unit = "images", .inputs = 1, .input = {qs_input_image(2, 3, 1)}, .target = {.classes = 2, .extent = 1}}};
    qs_operator_statistics *one = calloc(1, sizeof *one);
    assert_non_null(one);
    assert_ok(qs_operator_statistics_create(3, one));
    for (int i = 0; i < 3; i++)
        assert_true(one->diff_dst.variance_fp16[i] == 0);
    snprintf(one->name, sizeof one->name, "fc");
    profile.statistics = (qs_statistics){.batch = 1, .iterations = 3, .ranks = 1, .operators = 1, .operator_ = one};
    char *text;
    qs_profile again;
    assert_ok(qs_profile_text(&profile, &text));
    assert_ok(qs_profile_parse(text, "created", &again));
    free(text);
    qs_profile_release(&profile);
    qs_profile_release(&again);
    assert_int_equal(qs_operator_statistics_create(-1, &(qs_operator_statistics){0}), QS_USAGE);
}

/* A narrow wire stands in the file. */
TEST(wire_of_a_row) {
    char *text = replaced(profile_sample, "\"algorithm\": \"library\", ", "\"algorithm\": \"library\", \"wire\": \"int8\", "), *again;
    qs_profile profile;
    assert_ok(qs_profile_parse(text, "sample", &profile));
    assert_string_equal(profile.collective[0].wire, "int8");
    assert_ok(qs_profile_text(&profile, &again));
    assert_string_equal(again, text);
    free(text);
    free(again);
    qs_profile_release(&profile);
}

static void refuse(const char *from, const char *to, const char *message) {
    char *text = replaced(profile_sample, from, to);
    qs_profile profile;
    assert_refused(qs_profile_parse(text, "profile.json", &profile), QS_BAD_FILE, message);
    free(text);
}

TEST(refusals) {
    refuse("\"allocates\": true", "\"allocates\": 1", "profile.json: classes.weak.kernels[1].allocates: must be true or false");
    refuse("add/forward a", "conv2d/forward b", "stands there twice");
    refuse("\"kernel\": \"own:add\", ", "", "classes.weak.kernels[0]: field \"kernel\" is missing");
    refuse("\"granularity\": \"tensor\"", "\"granularity\": \"row\"",
           "conversions[0].granularity: must be \"tensor\", \"channel\", \"column\", \"shift\", \"hadamard\", \"hadamard-rows\", "
           "\"channel+column\", "
           "\"blocks\" or \"block-rows\"");
    refuse("\"weights\": true", "\"weights\": 1", "conversions[1].weights: ");
    refuse("\"rounding\": \"stochastic\"", "\"rounding\": \"up\"", "conversions[1].rounding: ");
    refuse("\"to_elements\": 16777216", "\"to_elements\": 7", "conversions[1].pieces[1].to_elements: 7 must be at least 1024");
    refuse("\"from\": \"bf16\"", "\"from\": \"bf18\"", "conversions[1].from: ");
    refuse("[1.5, 2]", "[1.5]", "statistics.operators[\"stage1.block0.conv1\"].src.norm2: has 1 elements, must have 2");
    refuse("[1.5, 2]", "[1.5, null]", "src.norm2[1]: must be a number, is null");
    refuse("[1.5, 2]", "[1.5, -2]", "src.norm2[1]: -2 must be at least 0");
    refuse("\"iterations\": 2", "\"iterations\": 2147483647", "src.norm2: has 2 elements, must have 2147483647");
    refuse("\"cpu_share\": 0.3", "\"cpu_share\": 3", "collectives[0].cpu_share: 3 is outside 0 .. 1");
    refuse("\"median\": 1.5", "\"median\": -1.5", "us.median: -1.5 is outside 0 ..");
    refuse("\"window_bytes\": 4194304", "\"window_bytes\": -1", "collectives[0].window_bytes: -1 must be at least 0");
    refuse("\"steps\": 54", "\"steps\": -1", "checks[0].steps: -1 is outside 0 ..");
    refuse("\"collectives\": [", "\"collectives\": {}, \"x\": [", "unknown field \"x\"");
}

/* Times hold for accumulators of any width, but not of another adder or chunk. */
TEST(other_widths) {
    char text[4][96] = {"linear/forward src=a accumulator=fp(8,10)/nearest-even", "linear/forward src=a accumulator=fp(8,5)/nearest-even",
                        "linear/forward src=a accumulator=fp(8,9)/chunk64/nearest-even", "linear/forward src=b"};
    qs_kernel_cost kernel[4] = {{0}};
    for (int k = 0; k < 4; k++)
        kernel[k].case_text = text[k];
    qs_class_profile profile = {.kernels = 4, .kernel = kernel};
    qs_class_profile_sort(&profile);
    static const struct {
        const char *asked, *found;
    } rows[] = {{"linear/forward src=a accumulator=fp(8,5)/nearest-even", "linear/forward src=a accumulator=fp(8,5)/nearest-even"},
                {"linear/forward src=a accumulator=fp(6,7)/nearest-even", "linear/forward src=a accumulator=fp(8,5)/nearest-even"},
                {"linear/forward src=a accumulator=fp(8,12)/nearest-even", "linear/forward src=a accumulator=fp(8,10)/nearest-even"},
                {"linear/forward src=a accumulator=fp(8,12)/chunk64/nearest-even",
                 "linear/forward src=a accumulator=fp(8,9)/chunk64/nearest-even"}};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_string_equal(qs_class_profile_kernel(&profile, rows[i].asked)->case_text, rows[i].found);
    assert_null(qs_class_profile_kernel(&profile, "linear/forward src=a accumulator=fp(8,5)/toward-zero"));
    assert_null(qs_class_profile_kernel(&profile, "linear/forward src=b accumulator=fp(8,5)/nearest-even"));
    assert_null(qs_class_profile_kernel(&profile, "linear/forward src=a"));
}

/* Times of updates hold for all settings of their optimiser, but not for another size or optimiser, nor for other operators' values. */
TEST(other_settings) {
    qs_kernel_cost rows[] = {{.case_text = (char[]){"adam/forward src=fp32[64] beta1=0.9 beta2=0.999"}},
                             {.case_text = (char[]){"dropout/forward src=fp32[64] probability=0.5"}},
                             {.case_text = (char[]){"sgd/forward src=fp32[640] weight_decay=0.1"}}};
    const qs_class_profile profile = {.kernels = 3, .kernel = rows};
    assert_ptr_equal(qs_class_profile_kernel(&profile, "adam/forward src=fp32[64] beta1=0.9 beta2=0.99 weight_decay=0.1"), &rows[0]);
    assert_ptr_equal(qs_class_profile_kernel(&profile, "adam/forward src=fp32[64]"), &rows[0]);
    assert_ptr_equal(qs_class_profile_kernel(&profile, "sgd/forward src=fp32[640] momentum=0.9 weight_decay=0.1"), &rows[2]);
    assert_null(qs_class_profile_kernel(&profile, "sgd/forward src=fp32[64] momentum=0.9 weight_decay=0.1"));
    assert_null(qs_class_profile_kernel(&profile, "adam/forward src=fp32[640] beta1=0.9"));
    assert_null(qs_class_profile_kernel(&profile, "dropout/forward src=fp32[64] probability=0.25"));
}

TEST_MAIN(other_widths, other_settings, round_trip, fields, look_up, order, by_file, non_finite, wire_of_a_row, created, refusals)
