// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Damaged files: every truncation is refused with a one-line message, every changed byte is refused or read as a record that can be written
 * again; nothing crashes and (under the sanitizers) nothing leaks. */
#include "record_samples.h"

/* Parses; when the text is a record, writes it, reads that and writes again: equal. True when it was one. */
typedef bool (*reader)(const char *text);

#define READER(kind)                                                            \
    static bool read_##kind(const char *text) {                                 \
        qs_##kind record, again;                                                \
        char *once, *twice;                                                     \
        if (qs_##kind##_parse(text, "damaged", &record) != QS_OK) return false; \
        assert_ok(qs_##kind##_text(&record, &once));                            \
        assert_ok(qs_##kind##_parse(once, "written", &again));                  \
        assert_ok(qs_##kind##_text(&again, &twice));                            \
        assert_string_equal(once, twice);                                       \
        free(once);                                                             \
        free(twice);                                                            \
        RELEASE_##kind(&record);                                                \
        RELEASE_##kind(&again);                                                 \
        return true;                                                            \
    }
#define RELEASE_cluster qs_cluster_release
#define RELEASE_plan qs_plan_release
#define RELEASE_profile qs_profile_release
#define RELEASE_job(record) (void)(record)
READER(cluster)
READER(job)
READER(plan)
READER(profile)

static void expect_one_line(void) {
    const char *message = qs_message();
    assert_true(strncmp(message, "damaged", 7) == 0);
    assert_null(strchr(message, '\n'));
}

static void truncate_everywhere(const char *text, reader read) {
    size_t length = strlen(text);
    char *copy = strdup(text);
    assert_non_null(copy);
    for (size_t cut = 0; cut + 1 < length; cut++) { /* the last byte is a newline that nobody needs */
        copy[cut] = '\0';
        assert_false(read(copy));
        expect_one_line();
        copy[cut] = text[cut];
    }
    assert_true(read(copy));
    free(copy);
}

static void change_everywhere(const char *text, reader read) {
    static const char others[] = "\x01\"}[,9\xc3";
    char *copy = strdup(text);
    assert_non_null(copy);
    size_t accepted = 0, refused = 0;
    for (size_t at = 0; text[at]; at++) {
        for (size_t i = 0; i < 2; i++) { /* two of them a place, in turn */
            copy[at] = others[(2 * at + i) % (sizeof others - 1)];
            if (read(copy)) {
                accepted++;
            } else {
                refused++;
                expect_one_line();
            }
        }
        copy[at] = text[at];
    }
    /* Names and digits may change into other names and digits; most of a record is not of that kind. */
    assert_true(accepted > 0 && refused > accepted);
    free(copy);
}

static void damage(const char *text, reader read) {
    truncate_everywhere(text, read);
    change_everywhere(text, read);
}

TEST(cluster) {
    damage(cluster_sample, read_cluster);
}

TEST(job) {
    damage(job_sample, read_job);
}

TEST(profile) {
    damage(profile_sample, read_profile);
}

TEST(plan) {
    char *text = plan_sample();
    damage(text, read_plan);
    free(text);
}

/* Values of every JSON type in place of every other: "x": value for each field of the record. */
TEST(types) {
    static const char *const values[] = {"null", "true", "0", "-1", "1e308", "\"\"", "\"x\"", "[]", "{}", "[[]]", "{\"\":{}}"};
    char *text = plan_sample();
    for (const char *at = text; (at = strstr(at, "\": ")) != NULL; at++) {
        const char *value = at + 3;
        size_t length = strcspn(value, ",\n}");
        for (size_t i = 0; i < COUNT_OF(values); i++) {
            char *changed = malloc(strlen(text) + 16);
            assert_non_null(changed);
            sprintf(changed, "%.*s%s%s", (int)(value - text), text, values[i], value + length);
            (void)read_plan(changed);
            free(changed);
        }
    }
    free(text);
}

TEST(nesting) {
    enum { DEPTH = 100000 };
    char *text = malloc(2 * DEPTH + 1);
    assert_non_null(text);
    memset(text, '[', DEPTH);
    memset(text + DEPTH, ']', DEPTH);
    text[2 * DEPTH] = '\0';
    assert_false(read_plan(text));
    expect_one_line();
    free(text);
}

TEST_MAIN(cluster, job, profile, plan, types, nesting)
