// SPDX-License-Identifier: Apache-2.0
/* Choices of kernels in memory, and as text; timings in memory. */
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

/* ---- Timings ---- */

void qs_timings_release(qs_timings *timings) {
    for (int i = 0; i < timings->count; i++) {
        free(timings->timing[i].case_text);
        free(timings->timing[i].samples);
    }
    free(timings->timing);
    *timings = (qs_timings){0};
}

qs_status qs_timings_add(qs_timings *timings, const char *case_text, const char *kernel, int64_t measured, const char *samples) {
    QS_TRY(qs_grow(&timings->timing, &timings->capacity, (size_t)timings->count + 1, sizeof *timings->timing));
    qs_timing *timing = &timings->timing[timings->count];
    *timing = (qs_timing){.measured = measured};
    QS_TRY(qs_format_text(&timing->case_text, "%s", case_text));
    const qs_status status = qs_format_text(&timing->samples, "%s", samples);
    if (status != QS_OK) free(timing->case_text);
    QS_TRY(status);
    snprintf(timing->kernel, sizeof timing->kernel, "%s", kernel);
    timings->count++;
    return QS_OK;
}

static int by_case(const void *left, const void *right) {
    const qs_timing *a = left, *b = right;
    const int order = strcmp(a->case_text, b->case_text);
    return order ? order : strcmp(a->kernel, b->kernel);
}

const qs_timing *qs_timings_find(const qs_timings *timings, const char *case_text, const char *kernel) {
    qs_timing key = {.case_text = (char *)case_text};
    snprintf(key.kernel, sizeof key.kernel, "%s", kernel);
    return timings->count ? bsearch(&key, timings->timing, (size_t)timings->count, sizeof key, by_case) : NULL;
}
