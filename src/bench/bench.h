// SPDX-License-Identifier: Apache-2.0
/* The benchmarks of qsync-bench: each is one file, and prints its figures as a table or, with --json, for programs. */
#ifndef QSYNC_BENCH_H
#define QSYNC_BENCH_H

#include "program.h"

#define QS_BENCH(name, summary) qs_status bench_##name(int argc, char **argv);
#include "benches.def"
#undef QS_BENCH

/* What benchmarks are asked; each has the rows of the members that it reads. */
typedef struct bench_request {
    const char *isa, *backend;
    int threads, rounds;
    bool json;
} bench_request;

/* Rows beside those of program.h. */
#define OPTION_BACKEND(type) OPTION(type, backend, "backend", "NAME", "cpu or ref"), .standard = "cpu"
#define OPTION_ROUNDS(type, many, text) OPTION(type, rounds, "rounds", "N", text), .standard = #many, .minimum = 1

/* Reads the command line of a benchmark, which takes no plain arguments. */
static inline qs_status bench_options(option_table *table, const verb_usage *usage, int argc, char **argv, bool *done) {
    int first = 0;
    return options_parse(table, usage, argc, argv, &first, done);
}

#endif
