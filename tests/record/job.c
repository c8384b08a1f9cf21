// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Jobs: defaults, the round trip, the spellings of loss scaling, and what is refused. */
#include "record_samples.h"

TEST(round_trip) {
    qs_job job;
    char *text;
    assert_ok(qs_job_parse(job_sample, "sample", &job));
    assert_true(job.dynamic_loss_scaling);
    assert_true(job.loss_scale == 1024);
    assert_int_equal(job.rate.schedule, QS_RATE_STEP);
    assert_true(job.seed == INT64_MAX);
    assert_ok(qs_job_text(&job, &text));
    assert_string_equal(text, job_sample);
    free(text);
}

TEST(defaults) {
    qs_job job, read;
    char *text, first[32], second[32];
    qs_job_default(&job);
    assert_true(*qs_job_setting(&job, "momentum") == 0.9 && *qs_job_setting(&job, "weight_decay") == 5e-4 && job.rate.base == 0.1);
    assert_int_equal(job.bucket_bytes, 1 << 20);
    assert_ok(qs_job_parse("{\"schema\":\"qsync/job/2\"}", "empty", &read));
    assert_string_equal(qs_job_signature(&job, first), qs_job_signature(&read, second));
    job.epochs++;
    assert_string_not_equal(first, qs_job_signature(&job, second));
    assert_ok(qs_job_text(&read, &text));
    assert_non_null(strstr(text, "\"loss_scaling\": \"off\""));
    assert_non_null(strstr(text, "\"clip_norm\": null"));
    assert_null(strstr(text, "label_smoothing"));
    assert_null(strstr(text, "layer_decay"));
    assert_null(strstr(text, "\"decay\""));
    assert_null(strstr(text, "freeze"));
    free(text);
}

/* Settings are those of the optimiser that is named, wherever its name stands; what is not said is its standard, the rate included. */
TEST(other_optimizer) {
    char *json =
        replaced(job_sample, "{\"name\": \"sgd\", \"momentum\": 0.85, \"weight_decay\": 0.0001}", "{\"beta2\": 0.99, \"name\": \"adam\"}");
    char *alone = replaced(json, "\"base\": 0.3, ", ""), *text, *again;
    qs_job job;
    assert_ok(qs_job_parse(alone, "adam", &job));
    assert_true(*qs_job_setting(&job, "beta2") == 0.99 && *qs_job_setting(&job, "beta1") == 0.9 && job.rate.base == 1e-3);
    assert_ok(qs_job_text(&job, &text));
    assert_non_null(strstr(text, "\"optimizer\": {\"name\": \"adam\", \"beta1\": 0.9, \"beta2\": 0.99, \"epsilon\": 1e-08, "));
    assert_ok(qs_job_parse(text, "again", &job));
    assert_ok(qs_job_text(&job, &again));
    assert_string_equal(again, text);
    free(json), free(alone), free(text), free(again);
}

static void expect_scaling(const char *value, bool dynamic, double scale, const char *written) {
    char *json = replaced(job_sample, "{\"dynamic\": 1024}", value), *text, line[64];
    qs_job job;
    assert_ok(qs_job_parse(json, "scaling", &job));
    assert_int_equal(job.dynamic_loss_scaling, dynamic);
    assert_true(job.loss_scale == scale);
    assert_ok(qs_job_text(&job, &text));
    snprintf(line, sizeof line, "\"loss_scaling\": %s,", written);
    assert_non_null(strstr(text, line));
    free(json);
    free(text);
}

TEST(loss_scaling) {
    expect_scaling("\"off\"", false, 1, "\"off\"");
    expect_scaling("1", false, 1, "\"off\"");
    expect_scaling("512", false, 512, "512");
    expect_scaling("\"dynamic\"", true, 65536, "\"dynamic\"");
    expect_scaling("{\"dynamic\": 65536}", true, 65536, "\"dynamic\"");
    expect_scaling("{\"dynamic\": 2}", true, 2, "{\"dynamic\": 2}");
}

static void refuse(const char *from, const char *to, const char *message) {
    char *text = replaced(job_sample, from, to);
    qs_job job;
    assert_refused(qs_job_parse(text, "job.json", &job), QS_BAD_FILE, message);
    free(text);
}

TEST(refusals) {
    refuse("{\"dynamic\": 1024}", "\"sometimes\"", "job.json: loss_scaling: must be \"off\"");
    refuse("{\"dynamic\": 1024}", "0", "loss_scaling");
    refuse("\"step\"", "\"stairs\"", "rate.schedule: \"stairs\" is no schedule: constant, step, cosine");
    refuse("0.85", "1.1", "optimizer.momentum: 1.1 is outside 0 .. 1");
    refuse("\"sgd\"", "\"adam\"", "optimizer: unknown field \"momentum\"; fields are: name beta1 beta2 epsilon weight_decay");
    refuse("\"sgd\"", "\"relu\"", "optimizer.name: relu is no optimiser: there are sgd, nesterov, adagrad, adam, adam_l2");
    refuse("\"sgd\"", "7", "optimizer.name: must be a text, is an integer");
    refuse("0.75", "1.5", "rate.layer_decay: 1.5 is outside 1e-06 .. 1");
    refuse("0.125", "1.25", "label_smoothing: 1.25 is outside 0 .. 1");
    refuse("\"matrices\"", "\"none\"", "decay: \"none\" is no decay: all, matrices");
    refuse("2.5", "-1", "clip_norm: -1 must be at least 0");
    refuse("9223372036854775807", "9223372036854775808", "job.json:17:");
    refuse("9223372036854775807", "-1", "seed: -1 must be at least 0");
    refuse("\"batch\": 96", "\"batch\": \"96\"", "batch: must be an integer, is a text");
    refuse("[16, 48]", "[16, 16]", "lengths: length 16 stands behind 16: each must be larger than the one before it");
    refuse("[16, 48]", "[0, 48]", "lengths[0]: 0 is outside 1 ..");
    refuse("[16, 48]", "[]", "lengths: ");
    refuse("[16, 48]", "[1,2,3,4,5,6,7,8,9]", "lengths: ");
    refuse("false", "0", "augmentation: must be true or false, is an integer");
}

TEST(unwritable) {
    qs_job job;
    char *text, signature[32];
    qs_job_default(&job);
    job.seed = (uint64_t)INT64_MAX + 1;
    assert_refused(qs_job_text(&job, &text), QS_USAGE, "seed");
    assert_string_equal(qs_job_signature(&job, signature), "");
    qs_job_default(&job);
    job.rate.base = NAN;
    assert_refused(qs_job_text(&job, &text), QS_NUMERIC, "job: rate.base: nan is not finite");
}

TEST_MAIN(round_trip, defaults, loss_scaling, refusals, unwritable, other_optimizer)
