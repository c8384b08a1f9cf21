// SPDX-License-Identifier: Apache-2.0
/* A temporary folder for the files of a test, and whole files. */
#ifndef QSYNC_TESTS_KIT_FOLDER
#define QSYNC_TESTS_KIT_FOLDER

#include "kit.h"

#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FOLDER_PATH = 64 };

/* Makes an empty folder of a name of its own below $TMPDIR where that is a short path, else /tmp. It is removed by folder_remove; or by
 * rmdir, which fails when anything is left in it, where a test is to notice that. */
static inline void folder_make(char folder[FOLDER_PATH]) {
    const char *base = getenv("TMPDIR");
    snprintf(folder, FOLDER_PATH, "%s/qsync-test-XXXXXX", base && strlen(base) < 40 ? base : "/tmp");
    assert_non_null(mkdtemp(folder));
}

static inline int folder_remove_entry(const char *path, const struct stat *facts, int type, struct FTW *place) {
    (void)facts;
    (void)type;
    (void)place;
    return remove(path);
}

/* With all that is in it. 0, or not when something could not be removed. */
static inline int folder_remove(const char *folder) {
    return nftw(folder, folder_remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* The path of `name` in a folder, in memory that the caller frees. */
static inline char *folder_path(const char *folder, const char *name) {
    char *path = NULL;
    assert_ok(qs_path_join(folder, name, &path));
    return path;
}

/* The file `name` of a folder as text, which the caller frees. It must be there. */
static inline char *folder_text(const char *folder, const char *name) {
    char *path = folder_path(folder, name), *text = NULL;
    size_t bytes = 0;
    assert_ok(qs_file_read(path, 1 << 24, &text, &bytes));
    free(path);
    return text;
}

#endif
