// SPDX-License-Identifier: Apache-2.0
/* Choices of kernels in memory, and as text. */
#include "store/store.h"

#include <stdlib.h>
#include <string.h>

void qs_tuning_release(qs_tuning *tuning) {
    for (int i = 0; i < tuning->choices; i++)
        free(tuning->choice[i].case_text);
    free(tuning->choice);
    *tuning = (qs_tuning){0};
}

qs_status qs__choice_add(qs_tuning *tuning, const char *case_text, const char *kernel) {
    const bool full = (tuning->choices & (tuning->choices - 1)) == 0; /* there is room for a power of two, where no more follows */
    size_t capacity = (size_t)tuning->choices;
    if (full) QS_TRY(qs_grow(&tuning->choice, &capacity, 2 * capacity + 1, sizeof *tuning->choice));
    qs_kernel_choice *choice = &tuning->choice[tuning->choices];
    QS_TRY(qs_format_text(&choice->case_text, "%s", case_text));
    snprintf(choice->kernel, sizeof choice->kernel, "%s", kernel);
    tuning->choices++;
    return QS_OK;
}

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
