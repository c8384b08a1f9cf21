// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Texts, paths, joined names, log lines and the hash. */
#include "kit/kit.h"

TEST(format_text) {
    char *text = NULL;
    assert_ok(qs_format_text(&text, "%s:%d", "channel", 3));
    assert_string_equal(text, "channel:3");
    free(text);
}

static void expect_path(const char *folder, const char *name, const char *expected) {
    char *path = NULL;
    assert_ok(qs_path_join(folder, name, &path));
    assert_string_equal(path, expected);
    free(path);
}

TEST(path_join) {
    expect_path("run", "plan.json", "run/plan.json");
    expect_path("run/", "plan.json", "run/plan.json");
    expect_path("/", "plan.json", "/plan.json");
    expect_path("", "plan.json", "plan.json");
}

static const char *number_name(size_t index) {
    static const char *const list[] = {"fp32", "bf16", "int8"};
    return list[index];
}

static const char *long_name(size_t index) {
    (void)index;
    return "a-name-of-some-length-that-fills-the-list-quickly";
}

TEST(names_join) {
    assert_string_equal(qs_names_join(0, number_name), "");
    assert_string_equal(qs_names_join(1, number_name), "fp32");
    assert_string_equal(qs_names_join(3, number_name), "fp32, bf16, int8");
    const char *cut = qs_names_join(10000, long_name);
    size_t length = strlen(cut);
    assert_true(length > 100);
    assert_string_equal(cut + length - 9, "ckly, ...");
}

typedef struct seen_line {
    int count;
    qs_log_level level;
    char text[64];
} seen_line;

static void keep_line(void *context, qs_log_level level, const char *line) {
    seen_line *seen = context;
    seen->count++;
    seen->level = level;
    snprintf(seen->text, sizeof seen->text, "%s", line);
}

TEST(log_goes_to_the_sink) {
    seen_line seen = {0};
    qs_log(QS_LOG_WARNING, "dropped");
    qs_log_set(keep_line, &seen);
    qs_log(QS_LOG_INFO, "epoch %d", 3);
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.level, QS_LOG_INFO);
    assert_string_equal(seen.text, "epoch 3");
    qs_log_set(NULL, NULL);
    qs_log(QS_LOG_INFO, "dropped");
    assert_int_equal(seen.count, 1);
}

TEST(hash_is_xxh64) {
    /* Published values of XXH64: the empty input and "abc", seed 0. */
    assert_true(qs_hash("", 0, 0) == 0xEF46DB3751D8E999u);
    assert_true(qs_hash("abc", 3, 0) == 0x44BC2CF5AD770999u);
    assert_true(qs_hash("abc", 3, 1) != qs_hash("abc", 3, 0));
}

TEST_MAIN(format_text, path_join, names_join, log_goes_to_the_sink, hash_is_xxh64)
