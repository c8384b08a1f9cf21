// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Texts, paths, joined names, log lines and the hash. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "qsync/base.h"

static void format_text(void **state) {
    (void)state;
    char *text = NULL;
    assert_int_equal(qs_format_text(&text, "%s:%d", "channel", 3), QS_OK);
    assert_string_equal(text, "channel:3");
    free(text);
}

static void expect_path(const char *folder, const char *name, const char *expected) {
    char *path = NULL;
    assert_int_equal(qs_path_join(folder, name, &path), QS_OK);
    assert_string_equal(path, expected);
    free(path);
}

static void path_join(void **state) {
    (void)state;
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

static void names_join(void **state) {
    (void)state;
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

static void log_goes_to_the_sink(void **state) {
    (void)state;
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

static void hash_is_xxh64(void **state) {
    (void)state;
    /* Published values of XXH64: the empty input and "abc", seed 0. */
    assert_true(qs_hash("", 0, 0) == 0xEF46DB3751D8E999u);
    assert_true(qs_hash("abc", 3, 0) == 0x44BC2CF5AD770999u);
    assert_true(qs_hash("abc", 3, 1) != qs_hash("abc", 3, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(format_text),          cmocka_unit_test(path_join),     cmocka_unit_test(names_join),
        cmocka_unit_test(log_goes_to_the_sink), cmocka_unit_test(hash_is_xxh64),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
