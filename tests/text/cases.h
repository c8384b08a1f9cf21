// SPDX-License-Identifier: Apache-2.0
/* Shared by the tests of this folder: the vocabularies and the strings with known ids below QS_TEST_SHARED/data/vocab, and small
 * vocabularies written to a temporary folder. */
#ifndef TESTS_TEXT_CASES_H
#define TESTS_TEXT_CASES_H

#include "kit/folder.h"

#include "qsync/text.h"

static char test_folder[FOLDER_PATH];

static inline int text_setup(void **state) {
    (void)state;
    folder_make(test_folder);
    return 0;
}

static inline int text_teardown(void **state) {
    (void)state;
    return folder_remove(test_folder);
}

/* Writes test_folder/name; the path lives until the next call. */
static inline const char *vocabulary_write(const char *name, const void *data, size_t bytes) {
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", test_folder, name);
    assert_ok(qs_file_write(path, data, bytes));
    return path;
}

/* QS_TEST_SHARED/data/<name>; skips the test where it is not there. */
static inline const char *shared_path(const char *name) {
    static char path[512];
    const char *shared = getenv("QS_TEST_SHARED");
    snprintf(path, sizeof path, "%s/data/%s", shared ? shared : "", name);
    if (!shared || access(path, R_OK) != 0) skip();
    return path;
}

static inline qs_tokenizer *tokenizer_open(const char *path) {
    qs_tokenizer *tokenizer = NULL;
    assert_ok(qs_tokenizer_open(path, &tokenizer));
    return tokenizer;
}

static inline void open_refused(const char *path, qs_status status, const char *part) {
    qs_tokenizer *tokenizer = (qs_tokenizer *)test_folder; /* stays what it is */
    assert_refused(qs_tokenizer_open(path, &tokenizer), status, part);
    assert_ptr_equal(tokenizer, test_folder);
}

/* The ids of a text, as "1 2 3". */
static inline const char *ids_of(const qs_tokenizer *tokenizer, const char *text, size_t bytes, int64_t *invalid) {
    static char out[1 << 16];
    qs_tokens tokens = {0};
    size_t used = 0;
    assert_ok(qs_tokenizer_encode(tokenizer, text, bytes, &tokens));
    out[0] = '\0';
    for (size_t i = 0; i < tokens.count; i++) {
        assert_true(tokens.begin[i] >= 0 && tokens.begin[i] <= tokens.end[i] && tokens.end[i] <= (int64_t)bytes);
        used += (size_t)snprintf(out + used, sizeof out - used, i ? " %d" : "%d", tokens.id[i]);
        assert_true(used < sizeof out);
    }
    if (invalid) *invalid = tokens.invalid;
    qs_tokens_release(&tokens);
    return out;
}

#define assert_ids(tokenizer, text, ids) assert_string_equal(ids_of(tokenizer, text, strlen(text), NULL), ids)

/* The published strings of llama.cpp: as many as there are, each with its ids. */
static inline void cases_check(const qs_tokenizer *tokenizer, const char *input, const char *output) {
    static const char between[] = "\n__ggml_vocab_test__\n";
    char *text = NULL, *ids = NULL;
    size_t bytes, id_bytes;
    int cases = 0;
    assert_ok(qs_file_read(shared_path(input), 1 << 20, &text, &bytes));
    assert_ok(qs_file_read(shared_path(output), 1 << 20, &ids, &id_bytes));
    char *line = ids;
    for (const char *at = text, *end; (end = strstr(at, between)); at = end + strlen(between), cases++) {
        char *line_end = strchr(line, '\n');
        assert_non_null(line_end);
        *line_end = '\0';
        assert_string_equal(ids_of(tokenizer, at, (size_t)(end - at), NULL), line + strspn(line, " "));
        line = line_end + 1;
    }
    assert_int_equal(cases, 46);
    free(text);
    free(ids);
}

#endif
