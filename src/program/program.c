// SPDX-License-Identifier: Apache-2.0
/* The frame of a program: finds the command, turns its status into message and exit code. */
#include "program.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#ifndef QS_VERSION
#define QS_VERSION "0.1.0"
#endif

static const program *running;

static bool is_silent_rank(void) {
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *rank = getenv(names[i]);
        if (rank) return strcmp(rank, "0") != 0;
    }
    return false;
}

static const char *command_name_at(size_t index) {
    return index < running->commands ? running->command[index].name : NULL;
}

static void help_print(void) {
    printf("%s %s: %s\n\nusage: %s %s [options]\n\n", running->name, QS_VERSION, running->purpose, running->name, running->kind);
    for (size_t i = 0; i < running->commands; i++)
        printf("  %-13s %s\n", running->command[i].name, running->command[i].summary);
    printf("\n%s %s --help explains one of them.%s\n", running->name, running->kind, running->closing);
}

static void log_line(void *context, qs_log_level level, const char *line) {
    const int *lowest = context;
    if ((int)level < *lowest || (level == QS_LOG_INFO && failure_is_told())) return;
    progress_end();
    fprintf(stderr, "%s: %s%s\n", running->name, level == QS_LOG_WARNING ? "warning: " : "", line);
}

static qs_status command_run(int argc, char **argv) {
    const char *first = argc < 2 ? "--help" : argv[1];
    if (strcmp(first, "--version") == 0) {
        printf("%s %s\n", running->name, QS_VERSION);
        return QS_OK;
    }
    if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0 || strcmp(first, "help") == 0) {
        help_print();
        return argc < 2 ? qs_fail(QS_USAGE, "a %s is missing", running->kind) : QS_OK;
    }
    for (size_t i = 0; i < running->commands; i++)
        if (strcmp(first, running->command[i].name) == 0) return running->command[i].run(argc - 1, argv + 1);
    return qs_fail(QS_USAGE, "unknown %s %s: there are %s", running->kind, first, qs_names_join(running->commands, command_name_at));
}

int program_run(const program *one, int argc, char **argv) {
    static int lowest = QS_LOG_INFO;
    running = one;
    program_name_set(one->name);
    if (is_silent_rank()) failure_told_set();
    if (getenv("QSYNC_DEBUG")) lowest = QS_LOG_DEBUG;
    signal(SIGXFSZ, SIG_IGN); /* a file at its size limit is a failed write like any other */
    qs_log_set(log_line, &lowest);
    qs_status status = command_run(argc, argv);
    /* An earlier flush may have failed: the stream remembers. */
    if (status == QS_OK && (fflush(stdout) != 0 || ferror(stdout))) status = qs_fail(QS_FAILED, "standard output could not be written");
    if (status != QS_OK) progress_end();
    if (status != QS_OK && !failure_is_told()) fprintf(stderr, "%s: %s\n", running->name, qs_message());
    return qs_status_exit_code(status);
}
