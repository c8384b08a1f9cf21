// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Lines of metrics: compact, one line, numbers that print the same everywhere. */
#include "kit/kit.h"

#include <jansson.h>

#include "record_samples.h"

TEST(all_kinds) {
    qs_line *line;
    char *json;
    assert_ok(qs_line_create(&line));
    qs_line_integer(line, "step", INT64_MIN);
    qs_line_number(line, "loss", 1.0 / 3);
    qs_line_number(line, "whole", 2);
    qs_line_number(line, "bad", NAN);
    qs_line_number(line, "up", INFINITY);
    qs_line_number(line, "down", -INFINITY);
    qs_line_text(line, "note", "a \"b\"\n\t\x01 ü");
    assert_ok(qs_line_finish(line, &json));
    assert_string_equal(json,
                        "{\"step\":-9223372036854775808,\"loss\":0.333333333,\"whole\":2,\"bad\":\"nan\",\"up\":\"inf\",\"down\":\"-inf\","
                        "\"note\":\"a \\\"b\\\"\\n\\t\\u0001 ü\"}");
    json_t *read = json_loads(json, 0, NULL);
    assert_non_null(read);
    json_decref(read);
    free(json);
}

TEST(empty) {
    qs_line *line;
    char *json;
    assert_ok(qs_line_create(&line));
    assert_ok(qs_line_finish(line, &json));
    assert_string_equal(json, "{}");
    free(json);
}

/* A failure in the middle sticks, and nothing leaks. */
TEST(not_text) {
    qs_line *line;
    char *json = NULL;
    assert_ok(qs_line_create(&line));
    qs_line_text(line, "note", "\xff\xfe");
    qs_line_integer(line, "step", 1);
    assert_refused(qs_line_finish(line, &json), QS_USAGE, "note: the text is not UTF-8");
    assert_null(json);
}

TEST_MAIN(all_kinds, empty, not_text)
