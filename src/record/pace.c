// SPDX-License-Identifier: Apache-2.0
/* Paces of classes, and traces of them: what a run may replay instead of measuring. */
#include <stdlib.h>
#include <string.h>

#include "qsync/pace.h"

static const double least_pace = 0.01; /* a hundred times as long: less would look like a run that hangs */
static const char blanks[] = " \t\r";

/* ---- One line ---------------------------------------------------------------------------------------------------------------------- */

/* The next word of a line, its end made one; NULL: there is none. */
static char *word_next(char **at) {
    char *word = *at + strspn(*at, blanks);
    if (*word == '\0') return NULL;
    *at = word + strcspn(word, blanks);
    if (**at) *(*at)++ = '\0';
    return word;
}

static qs_status pace_read(const char *word, const char *name, double *out) {
    char *end;
    *out = strtod(word, &end);
    if (*end == '\0' && *out >= least_pace && *out <= 1) return QS_OK;
    return qs_fail(QS_BAD_FILE, "%s %s: a pace from %g to 1, as profiled", name, word, least_pace);
}

static qs_status point_read(char *line, const qs_cluster *cluster, int64_t before, qs_pace_point *out) {
    char *step = word_next(&line), *class_name = word_next(&line), *compute = word_next(&line), *memory = word_next(&line), *end;
    if (!compute || word_next(&line)) return qs_fail(QS_BAD_FILE, "a point is a line of STEP CLASS COMPUTE [MEMORY]");
    *out = (qs_pace_point){.step = strtoll(step, &end, 10) - 1, .pace.all_reduce = 1};
    if (*end != '\0' || out->step < 0) return qs_fail(QS_BAD_FILE, "step %s: a whole number, at least 1", step);
    if (out->step < before) return qs_fail(QS_BAD_FILE, "step %s: not before %lld, the step of a line above", step, (long long)before + 1);
    if (qs_cluster_find(cluster, class_name, &out->class_index) != QS_OK) return qs_fail(QS_BAD_FILE, "%s", qs_message());
    QS_TRY(pace_read(compute, "compute", &out->pace.compute));
    return pace_read(memory ? memory : compute, "memory", &out->pace.memory);
}

/* ---- The trace --------------------------------------------------------------------------------------------------------------------- */

static qs_status line_take(char *line, const qs_cluster *cluster, qs_pace_trace *out) {
    line[strcspn(line, "#")] = '\0';
    if (line[strspn(line, blanks)] == '\0') return QS_OK;
    QS_TRY(qs_grow(&out->point, &out->room, (size_t)out->points + 1, sizeof *out->point));
    QS_TRY(point_read(line, cluster, out->points > 0 ? out->point[out->points - 1].step : 0, &out->point[out->points]));
    out->points++;
    return QS_OK;
}

qs_status qs_pace_trace_parse(const char *text, const char *source, const qs_cluster *cluster, qs_pace_trace *out) {
    char *copy = NULL, *next;
    int number = 1;
    *out = (qs_pace_trace){0};
    qs_status status = qs_format_text(&copy, "%s", text);
    for (char *line = copy; status == QS_OK && line; line = next, number++) {
        next = strchr(line, '\n');
        if (next) *next++ = '\0';
        status = qs_fail_within(line_take(line, cluster, out), "%s:%d", source, number);
    }
    free(copy);
    if (status == QS_OK && out->points == 0) status = qs_fail(QS_BAD_FILE, "%s:%d: no line has a point", source, number - 1);
    if (status != QS_OK) qs_pace_trace_release(out);
    return status;
}

qs_status qs_pace_trace_read(const char *path, const qs_cluster *cluster, qs_pace_trace *out) {
    enum { LIMIT = 1 << 24 };
    char *text = NULL;
    size_t bytes = 0;
    *out = (qs_pace_trace){0};
    QS_TRY(qs_file_read(path, LIMIT, &text, &bytes));
    const qs_status status = strlen(text) == bytes ? qs_pace_trace_parse(text, path, cluster, out)
                                                   : qs_fail(QS_BAD_FILE, "%s: has a zero byte, it is no text", path);
    free(text);
    return status;
}

void qs_pace_trace_release(qs_pace_trace *trace) {
    free(trace->point);
    *trace = (qs_pace_trace){0};
}

qs_pace qs_pace_trace_at(const qs_pace_trace *trace, int class_index, int64_t step) {
    qs_pace found = {1, 1, 1};
    for (int i = 0; i < trace->points && trace->point[i].step <= step; i++)
        if (trace->point[i].class_index == class_index) found = trace->point[i].pace;
    return found;
}
