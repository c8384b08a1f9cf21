// SPDX-License-Identifier: Apache-2.0
/* Shared by the tests of sets of texts: a small vocabulary in the temporary folder, and sets loaded by it. */
#ifndef TESTS_DATA_TEXTS_H
#define TESTS_DATA_TEXTS_H

#include "files.h"

enum { length = 12 };

/* Ids by line: [PAD] 0, [UNK] 1, [CLS] 2, [SEP] 3, good 4, bad 5, film 6, a 7 .. */
static const char vocabulary[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\ngood\nbad\nfilm\na\n,\n\"\n\xC3\xA9\n";
enum { PAD, UNK, CLS, SEP, GOOD, BAD, FILM, A, COMMA, QUOTE };
static char small[700]; /* ",vocab=..." */

static inline void write_text(const char *name, const char *text) {
    file_write(name, (bytes){(unsigned char *)text, strlen(text)});
}

static inline int texts_setup(void **state) {
    folder_setup(state);
    write_text("vocab.txt", vocabulary);
    snprintf(small, sizeof small, "vocab=%s/vocab.txt,length=%d", test_folder, length);
    return 0;
}

/* The set `name` with the small vocabulary. */
static inline qs_status load_small(const char *name, qs_part part, qs_dataset *out) {
    char whole[800];
    snprintf(whole, sizeof whole, "%s:%s", name, small);
    return qs_dataset_load(whole, test_folder, part, 0, out);
}

static inline void refused(const char *name, qs_part part, const char *rule) {
    qs_dataset set;
    assert_refused(load_small(name, part, &set), QS_BAD_FILE, rule);
}

#endif
