// SPDX-License-Identifier: Apache-2.0
/* Where the cache is, what becomes of a bad one, and choices as text. */
#include "qsync/tuning.h"

#include <stdlib.h>
#include <string.h>

#include "store/store.h"

void qs_tuning_release(qs_tuning *tuning) {
    for (int i = 0; i < tuning->choices; i++)
        free(tuning->choice[i].case_text);
    free(tuning->choice);
    *tuning = (qs_tuning){0};
}

/* A power of two of places: one more is needed where the count is one. */
static bool is_full(int choices) {
    return (choices & (choices - 1)) == 0;
}

qs_status qs__choice_add(qs_tuning *tuning, const char *case_text, const char *kernel) {
    size_t capacity = (size_t)tuning->choices;
    if (is_full(tuning->choices)) QS_TRY(qs_grow(&tuning->choice, &capacity, 2 * capacity + 1, sizeof *tuning->choice));
    qs_kernel_choice *choice = &tuning->choice[tuning->choices];
    QS_TRY(qs_format_text(&choice->case_text, "%s", case_text));
    snprintf(choice->kernel, sizeof choice->kernel, "%s", kernel);
    tuning->choices++;
    return QS_OK;
}

/* ---- The file ---- */

qs_status qs_tuning_path(char **out) {
    const char *chosen = getenv("QSYNC_CACHE"), *caches = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    *out = NULL;
    if (chosen && strcmp(chosen, "off") == 0) return QS_OK;
    if (chosen && chosen[0]) return qs_format_text(out, "%s", chosen);
    if (caches && caches[0] == '/') return qs_format_text(out, "%s/qsync/tuning.sqlite", caches); /* relative ones do not count */
    if (home && home[0]) return qs_format_text(out, "%s/.cache/qsync/tuning.sqlite", home);
    return QS_OK;
}

qs_status qs_tuning_read(const char *path, const qs_device_info *device, qs_tuning *out) {
    *out = (qs_tuning){0};
    if (!path || !device->kernels[0]) return QS_OK;
    const qs_status status = qs__store_read(path, device, out);
    if (status == QS_OK || status == QS_OUT_OF_MEMORY) return status;
    if (status != QS_UNSUPPORTED)
        qs_log(QS_LOG_WARNING, "%s: the cache of kernels is left aside, kernels come in the usual order", qs_message());
    return QS_OK;
}

static qs_status folder_make(const char *path) {
    char *folder = NULL;
    QS_TRY(qs_format_text(&folder, "%s", path));
    char *slash = strrchr(folder, '/');
    if (slash) *slash = '\0';
    const qs_status status = slash && slash != folder ? qs_folder_make(folder) : QS_OK;
    free(folder);
    return status;
}

qs_status qs_tuning_write(const char *path, const qs_device_info *device, const qs_tuning *tuning) {
    QS_TRY(folder_make(path));
    return qs__store_write(path, device, tuning);
}

/* ---- Text ---- */

qs_status qs_tuning_text(const qs_tuning *tuning, char **out) {
    size_t bytes = 0;
    FILE *stream = open_memstream(out, &bytes);
    if (!stream) return qs_fail(QS_OUT_OF_MEMORY, "%d choices of kernels as text", tuning->choices);
    for (int i = 0; i < tuning->choices; i++)
        fprintf(stream, "%s\t%s\n", tuning->choice[i].kernel, tuning->choice[i].case_text);
    if (fclose(stream) == 0) return QS_OK;
    free(*out);
    *out = NULL;
    return qs_fail(QS_OUT_OF_MEMORY, "%d choices of kernels as text", tuning->choices);
}

static qs_status lines_parse(char *text, qs_tuning *out) {
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) != NULL && line[0];) {
        char *one = strchr(line, '\t');
        if (!one) return qs_fail(QS_BAD_FILE, "choices of kernels: no tab in \"%.80s\"", line);
        *one++ = '\0';
        QS_TRY(qs__choice_add(out, one, line));
    }
    return QS_OK;
}

qs_status qs_tuning_parse(const char *text, qs_tuning *out) {
    char *copy = NULL;
    *out = (qs_tuning){0};
    QS_TRY(qs_format_text(&copy, "%s", text));
    const qs_status status = lines_parse(copy, out);
    free(copy);
    if (status != QS_OK) qs_tuning_release(out);
    return status;
}
