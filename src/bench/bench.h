// SPDX-License-Identifier: Apache-2.0
/* The benchmarks of qsync-bench: each is one file, and prints its figures as a table or, with --json, for programs. */
#ifndef QSYNC_BENCH_H
#define QSYNC_BENCH_H

#include "program.h"

#define QS_BENCH(name, summary) qs_status bench_##name(int argc, char **argv);
#include "benches.def"
#undef QS_BENCH

/* Reads the command line of a benchmark, which takes no plain arguments. */
static inline qs_status bench_options(option_table *table, const verb_usage *usage, int argc, char **argv, bool *done) {
    int first = 0;
    return options_parse(table, usage, argc, argv, &first, done);
}

#endif
