// SPDX-License-Identifier: Apache-2.0
/* The program qsync-bench: what bench/NAME.sh measures piece by piece, for those who work on qsync. */
#include "bench.h"

static const program_command benches[] = {
#define QS_BENCH(name, summary) {#name, summary, bench_##name},
#include "benches.def"
#undef QS_BENCH
};

int main(int argc, char **argv) {
    static const program bench = {
        .name = "qsync-bench",
        .purpose = "measures pieces of qsync by themselves. Whole training steps: qsync bench.",
        .kind = "benchmark",
        .closing = "",
        .commands = sizeof benches / sizeof *benches,
        .command = benches,
    };
    return program_run(&bench, argc, argv);
}
