// SPDX-License-Identifier: Apache-2.0
/* Where the files of sets are looked for. */
#include "source.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define QS_DATASET(identifier) &qs__source_##identifier,
static const qs__source *const sources[] = {
#include "datasets.def"
};
#undef QS_DATASET
enum { source_count = sizeof sources / sizeof sources[0] };

/* Length of the first alternative of "a|b c". */
static size_t alternative_length(const char *names) {
    return strcspn(names, "| ");
}

/* The alternative after this one; NULL when it was the last of its group. */
static const char *next_alternative(const char *names) {
    names += alternative_length(names);
    return *names == '|' ? names + 1 : NULL;
}

static bool contains_name(const char *names, const char *name, size_t length) {
    for (; names; names = next_alternative(names)) {
        if (alternative_length(names) == length && memcmp(names, name, length) == 0) return true;
    }
    return false;
}

/* MNIST's and Fashion-MNIST's files bear the same names: a folder called after another set does not hold this one's files. */
static bool belongs_to_other(const qs__source *source, const char *folder) {
    size_t end = strlen(folder);
    while (end > 0 && folder[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && folder[begin - 1] != '/')
        begin--;
    for (size_t i = 0; i < source_count; i++) {
        if (sources[i] != source && contains_name(sources[i]->folders, folder + begin, end - begin)) return true;
    }
    return false;
}

static bool is_file(const char *path) {
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISREG(facts.st_mode);
}

/* folder[/subfolder]/name, plain before .gz; subfolder may be empty. */
static qs_status probe(const char *folder, const char *subfolder, size_t subfolder_length, const char *name, size_t length, char **path) {
    static const char *const endings[] = {"", ".gz"};
    for (size_t i = 0; i < 2; i++) {
        char *candidate = NULL;
        QS_TRY(qs_format_text(&candidate, "%s/%.*s%s%.*s%s", folder, (int)subfolder_length, subfolder, subfolder_length > 0 ? "/" : "",
                              (int)length, name, endings[i]));
        if (is_file(candidate)) {
            *path = candidate;
            return QS_OK;
        }
        free(candidate);
    }
    *path = NULL;
    return QS_OK;
}

qs_status qs__file_find(const qs__source *source, const char *folder, const char *names, char **path) {
    bool flat = !belongs_to_other(source, folder);
    *path = NULL;
    for (const char *name = names; name && !*path; name = next_alternative(name)) {
        size_t length = alternative_length(name);
        for (const char *sub = source->folders; sub && !*path; sub = next_alternative(sub)) {
            QS_TRY(probe(folder, sub, alternative_length(sub), name, length, path));
        }
        if (flat && !*path) QS_TRY(probe(folder, "", 0, name, length, path));
    }
    return QS_OK;
}

qs_status qs__path_below(const char *path, const char *folder, char **out) {
    struct stat facts;
    if (!folder) folder = getenv("QSYNC_DATA");
    if (*path == '/' || stat(path, &facts) == 0 || !folder || !*folder) return qs_format_text(out, "%s", path);
    return qs_path_join(folder, path, out);
}

qs_status qs__file_missing(const qs__source *source, const char *folder, const char *names) {
    if (source->text)
        return qs_fail(QS_BAD_FILE, "%s: no file %.*s[.gz] in %s/%s or %s; name the folder of sets that has it (--data DIR or QSYNC_DATA)",
                       source->name, (int)alternative_length(names), names, folder, source->name, folder);
    return qs_fail(QS_BAD_FILE,
                   "%s: no file %.*s[.gz] in %s/%s or %s; fetch it with tools/fetch-data.sh, or name the folder that has it "
                   "(--data DIR or QSYNC_DATA)",
                   source->name, (int)alternative_length(names), names, folder, source->name, folder);
}
