// SPDX-License-Identifier: Apache-2.0
/* Text for people and programs: units, JSON, files, progress. */
#include "program.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

json_t *json_number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

#define RING 16
static char *ring_next(void) {
    static char ring[RING][32];
    static int next = 0;
    next = (next + 1) % RING;
    return ring[next];
}

const char *bytes_text(double bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    char *text = ring_next();
    int unit = 0;
    if (!isfinite(bytes)) return "-";
    while (fabs(bytes) >= 1024 && unit < 4) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, 32, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return text;
}

const char *time_text(double us) {
    char *text = ring_next();
    if (!isfinite(us)) return "-";
    if (fabs(us) < 1000)
        snprintf(text, 32, "%.1f us", us);
    else if (fabs(us) < 1e6)
        snprintf(text, 32, "%.2f ms", us / 1e3);
    else
        snprintf(text, 32, "%.2f s", us / 1e6);
    return text;
}

const char *count_text(double count) {
    static const char *const units[] = {"", " k", " M", " G", " T"};
    char *text = ring_next();
    int unit = 0;
    while (fabs(count) >= 1000 && unit < 4) {
        count /= 1000;
        unit++;
    }
    snprintf(text, 32, unit ? "%.2f%s" : "%.0f%s", count, units[unit]);
    return text;
}

const char *percent_text(double fraction) {
    char *text = ring_next();
    if (!isfinite(fraction)) return "-";
    snprintf(text, 32, "%.2f %%", 100 * fraction);
    return text;
}

qs_status json_print(json_t *value) {
    char *text = value ? json_dumps(value, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) : NULL;
    json_decref(value);
    if (!text) return qs_fail(QS_FAILED, "JSON output: out of memory, or a name that is not UTF-8");
    puts(text);
    free(text);
    return QS_OK;
}

qs_status output_check(const char *path) {
    struct stat facts;
    char *folder = NULL;
    const bool there = stat(path, &facts) == 0;
    QS_TRY(qs_format_text(&folder, "%s", path));
    char *slash = strrchr(folder, '/');
    if (slash) slash[slash == folder] = 0;
    int error = 0;
    if (there && S_ISDIR(facts.st_mode))
        error = EISDIR;
    else if (there && !S_ISREG(facts.st_mode)) /* a device or a pipe is written to, a file is replaced in its folder */
        error = access(path, W_OK) == 0 ? 0 : errno;
    else
        error = access(slash ? folder : ".", W_OK | X_OK) == 0 ? 0 : errno;
    free(folder);
    return error ? qs_fail(QS_BAD_FILE, "%s: cannot write: %s", path, strerror(error)) : QS_OK;
}

static int number_compare(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double quantile(double *numbers, int count, double share) {
    qsort(numbers, (size_t)count, sizeof *numbers, number_compare);
    return numbers[(int)(share * (count - 1) + 0.5)];
}

double median(double *numbers, int count) {
    return quantile(numbers, count, 0.5);
}

static const char *name_of_program;
static bool told;
static double last_line;

void program_name_set(const char *name) {
    name_of_program = name;
}

const char *program_name(void) {
    return name_of_program;
}

bool failure_is_told(void) {
    return told;
}

void failure_told_set(void) {
    told = true;
}

void progress_show(double fraction, const char *format, ...) {
    char text[160];
    const double now = qs_clock();
    const bool terminal = isatty(STDERR_FILENO);
    if (now - last_line < (terminal ? 0.1 : 5.0) && fraction < 1) return;
    last_line = now;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (!terminal) {
        fprintf(stderr, "%s: %3.0f %% %s\n", program_name(), 100 * fraction, text);
        return;
    }
    char bar[31];
    const int filled = (int)(30 * (fraction < 0 ? 0 : fraction > 1 ? 1 : fraction));
    for (int i = 0; i < 30; i++)
        bar[i] = i < filled ? '#' : '.';
    bar[30] = 0;
    fprintf(stderr, "\r[%s] %3.0f %% %s\033[K", bar, 100 * fraction, text);
}

void progress_end(void) {
    if (last_line > 0 && isatty(STDERR_FILENO)) fprintf(stderr, "\r\033[K");
    last_line = 0;
}
