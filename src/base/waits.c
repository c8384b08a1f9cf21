// SPDX-License-Identifier: Apache-2.0
/* How long threads waited for a core: /proc/self/task/ID/schedstat of Linux, read only when some thread was switched since. */
#include "qsync/base.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* Seconds that a thread was ready and did not run; 0 when it has ended meanwhile. */
static double waiting_of(int id) {
    char path[64];
    double running = 0, waiting = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", id);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    if (fscanf(file, "%lf %lf", &running, &waiting) != 2) waiting = 0; /* nanoseconds */
    fclose(file);
    return 1e-9 * waiting;
}

/* The 39th field of its stat; the second one, its name in parentheses, may hold anything. */
static int core_of(int id) {
    char path[64], line[1024];
    int core = -1;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", id);
    FILE *file = fopen(path, "r");
    if (!file) return -1;
    const char *at = fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
    fclose(file);
    for (int field = 2; at && field < 39; field++)
        at = strchr(at + 1, ' ');
    return at && sscanf(at, "%d", &core) == 1 ? core : -1;
}

static double waited_before(const qs_waits *last, int id) {
    for (int t = 0; t < last->threads; t++)
        if (last->thread[t].id == id) return last->thread[t].seconds;
    return 0;
}

double qs_waited(qs_waits *last) {
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
    qs_waits now = {.switches = (int64_t)usage.ru_nvcsw + usage.ru_nivcsw, .core = -1};
    last->core = -1;
    if (last->threads > 0 && now.switches == last->switches) return 0;
    DIR *tasks = opendir("/proc/self/task");
    if (!tasks) return 0;
    double longest = 0;
    int waiter = 0;
    for (const struct dirent *task; now.threads < QS_MOST_WAITING && (task = readdir(tasks)) != NULL;) {
        const int id = atoi(task->d_name); /* 0: "." and ".." */
        if (id == 0) continue;
        const double seconds = waiting_of(id), since = seconds - waited_before(last, id);
        now.thread[now.threads].id = id;
        now.thread[now.threads++].seconds = seconds;
        if (since <= longest) continue;
        longest = since;
        waiter = id;
    }
    closedir(tasks);
    if (waiter) now.core = core_of(waiter);
    *last = now;
    return longest;
}
