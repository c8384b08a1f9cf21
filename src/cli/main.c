// SPDX-License-Identifier: Apache-2.0
/* The program qsync: finds the verb, turns its status into message and exit code. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#ifndef QS_VERSION
#define QS_VERSION "0.1.0"
#endif

static const verb verbs[] = {
#define QS_VERB(name, summary) {#name, summary, verb_##name},
#include "verbs.def"
#undef QS_VERB
};
#define VERBS (sizeof verbs / sizeof *verbs)

static const char *verb_name_at(size_t index) {
    return index < VERBS ? verbs[index].name : NULL;
}

static void help_print(void) {
    printf("qsync %s: trains one model over unlike devices, quantizing only what memory or pace force it to.\n\nusage: qsync VERB "
           "[options]\n\n",
           QS_VERSION);
    for (size_t i = 0; i < VERBS; i++)
        printf("  %-10s %s\n", verbs[i].name, verbs[i].summary);
    printf("\nqsync VERB --help explains a verb. Several ranks: mpirun -n RANKS qsync VERB --cluster FILE ...\n"
           "Exit codes: 0 ok, 1 failure, 2 usage, 3 infeasible plan, 4 numeric failure, 5 peer lost.\n");
}

static void log_line(void *context, qs_log_level level, const char *line) {
    const int *lowest = context;
    if ((int)level < *lowest || (level == QS_LOG_INFO && failure_is_told())) return;
    progress_end();
    fprintf(stderr, "qsync: %s%s\n", level == QS_LOG_WARNING ? "warning: " : "", line);
}

static qs_status verb_run(int argc, char **argv) {
    for (size_t i = 0; i < VERBS; i++)
        if (strcmp(argv[1], verbs[i].name) == 0) return verbs[i].run(argc - 1, argv + 1);
    return qs_fail(QS_USAGE, "unknown verb %s: there are %s", argv[1], qs_names_join(VERBS, verb_name_at));
}

static qs_status run(int argc, char **argv) {
    const char *first = argc < 2 ? "--help" : argv[1];
    if (strcmp(first, "--version") == 0) {
        printf("qsync %s\n", QS_VERSION);
        return QS_OK;
    }
    if (strcmp(first, "--help") != 0 && strcmp(first, "-h") != 0 && strcmp(first, "help") != 0) return verb_run(argc, argv);
    help_print();
    return argc < 2 ? qs_fail(QS_USAGE, "a verb is missing") : QS_OK;
}

/* An earlier flush may have failed: the stream remembers. */
static qs_status output_end(void) {
    const bool failed = fflush(stdout) != 0;
    return failed || ferror(stdout) ? qs_fail(QS_FAILED, "standard output could not be written") : QS_OK;
}

int main(int argc, char **argv) {
    static int lowest = QS_LOG_INFO;
    if (getenv("QSYNC_DEBUG")) lowest = QS_LOG_DEBUG;
    signal(SIGXFSZ, SIG_IGN); /* a file at its size limit is a failed write like any other */
    launcher_rank_read();
    qs_log_set(log_line, &lowest);
    qs_status status = run(argc, argv);
    if (status == QS_OK) status = output_end();
    if (status != QS_OK) progress_end();
    if (status != QS_OK && !failure_is_told()) fprintf(stderr, "qsync: %s\n", qs_message());
    return qs_status_exit_code(status);
}
