// SPDX-License-Identifier: Apache-2.0
// labels: short
/* What manuals are told of records: every field with its values and words, ranges and defaults as the reader has them. */
#include "record_samples.h"

/* Looks for a field by table and name; counts all. */
typedef struct search {
    const char *table, *name, *more; /* more: "" for any */
    int fields, found;
    char values[128], standard[128], text[512];
} search;

static void look(const qs_field_manual *field, void *context) {
    search *one = context;
    one->fields++;
    assert_true(*field->name && *field->values && *field->text);
    if (strcmp(field->table ? field->table : "", one->table) != 0 || strcmp(field->name, one->name) != 0) return;
    if (!strstr(field->more, one->more)) return;
    one->found++;
    snprintf(one->values, sizeof one->values, "%s", field->values);
    snprintf(one->standard, sizeof one->standard, "%s", field->standard);
    snprintf(one->text, sizeof one->text, "%s", field->text);
}

static search told(const char *kind, const char *table, const char *name, const char *more) {
    search one = {.table = table, .name = name, .more = more};
    assert_ok(qs_record_describe(kind, look, &one));
    if (one.found != 1) fail_msg("%s: %s stands there %d times", kind, name, one.found);
    return one;
}

TEST(ranges) {
    assert_string_equal(told("job", "", "batch", "").values, "samples, ≥ 1");
    assert_string_equal(told("job", "", "batch", "").standard, "64");
    assert_string_equal(told("job", "", "rate.schedule", "").values, "`constant`, `step`, `cosine`, `linear`");
    assert_string_equal(told("job", "", "rate.schedule", "").standard, "`cosine`");
    assert_string_equal(told("job", "", "augmentation", "").standard, "true");
    assert_string_equal(told("cluster", "A device class: `classes.*`", "cpu.threads", "").values, "1 .. 4096");
    assert_string_equal(told("cluster", "A device class: `classes.*`", "role", "").standard, ""); /* it must be there */
    assert_string_equal(told("cluster", "A device class: `classes.*`", "formats", "").values, "1 to 8 formats");
    assert_string_equal(told("cluster", "A device class: `classes.*`", "memory.capacity", "").values, "bytes, or `\"2GiB\"`");
    assert_string_equal(told("profile", "A straight line: `classes.*.conversions[].pieces[]`", "r2", "").values, "≤ 1");
    assert_string_equal(told("profile", "A kernel: `classes.*.kernels[]`", "us.median", "").values, "µs, ≥ 0");
    assert_string_equal(told("plan", "A reason: `classes.*.why.*`", "bytes", "").values, "bytes");
}

/* Optimisers tell their settings themselves, and their rates. */
TEST(optimizers) {
    const char *name;
    char field[64], owner[32], number[32];
    const search rate = told("job", "", "rate.base", "");
    for (size_t i = 0; (name = qs_optimizer_name_at(i)) != NULL; i++) {
        const qs_op *one = qs_op_of(name);
        snprintf(owner, sizeof owner, "(%s)", name);
        snprintf(number, sizeof number, "%s %g", name, one->optimizer->rate);
        assert_non_null(strstr(rate.standard, number));
        for (int s = 0; s < qs_op_settings(one); s++) {
            snprintf(field, sizeof field, "optimizer.%s", one->setting[s].name);
            snprintf(number, sizeof number, "%.9g", one->setting[s].standard);
            const search setting = told("job", "", field, owner);
            assert_string_equal(setting.standard, number);
            assert_string_equal(setting.text, one->setting[s].text);
        }
    }
}

/* A job stands in a plan, and is told as a record of its own; tensors of an operator are alike, and told once. */
TEST(once) {
    search one = {.table = "", .name = "batch", .more = ""};
    assert_ok(qs_record_describe("plan", look, &one));
    assert_int_equal(one.found, 0);
    (void)told("plan", "", "job", "");
    (void)told("profile", "A tensor: `src`, `weights`, `diff_dst` of `statistics.operators.*`", "norm2", "");
}

/* The samples of this room's tests have every field, so round trips see all; but for `share`, which is written as what it stands for, and
 * the settings of optimisers, of which a job has one, and the objects of backends, of which a class has one. */
static void in_samples(const qs_field_manual *field, void *context) {
    const char *last = strrchr(field->name, '.');
    static const char *const backends[] = {"ref", "far", "cuda"}; /* tests/record/backends.c */
    char quoted[80];
    for (size_t i = 0; i < COUNT_OF(backends); i++) {
        const size_t length = strlen(backends[i]);
        if (strncmp(field->name, backends[i], length) == 0 && (field->name[length] == 0 || field->name[length] == '.')) return;
    }
    snprintf(quoted, sizeof quoted, "\"%s\":", last ? last + 1 : field->name);
    if (strcmp(field->name, "share") == 0 || strncmp(field->name, "optimizer.", strlen("optimizer.")) == 0) return;
    if (!strstr(context, quoted)) fail_msg("no sample has %s", field->name);
}

TEST(sampled) {
    char *plan = plan_sample();
    assert_ok(qs_record_describe("cluster", in_samples, (void *)(uintptr_t)cluster_sample));
    assert_ok(qs_record_describe("job", in_samples, (void *)(uintptr_t)job_sample));
    assert_ok(qs_record_describe("profile", in_samples, (void *)(uintptr_t)profile_sample));
    assert_ok(qs_record_describe("plan", in_samples, plan));
    free(plan);
}

TEST(unknown) {
    search one = {.table = "", .name = "", .more = ""};
    assert_refused(qs_record_describe("plans", look, &one), QS_USAGE, "no record \"plans\": there are cluster, job, graph, profile, plan");
    assert_int_equal(one.fields, 0);
}

TEST_MAIN(ranges, optimizers, once, sampled, unknown)
