// SPDX-License-Identifier: Apache-2.0
/* The program qsync: its verbs. */
#include "cli.h"

static const program_command verbs[] = {
#define QS_VERB(name, summary) {#name, summary, verb_##name},
#include "verbs.def"
#undef QS_VERB
};

int main(int argc, char **argv) {
    static const program qsync = {
        .name = "qsync",
        .purpose = "trains one model over unlike devices, quantizing only what memory or pace force it to.",
        .kind = "verb",
        .closing = " Several ranks: mpirun -n RANKS qsync verb --cluster FILE ...\n"
                   "Exit codes: 0 ok, 1 failure, 2 usage, 3 infeasible plan, 4 numeric failure, 5 peer lost.",
        .commands = sizeof verbs / sizeof *verbs,
        .command = verbs,
    };
    return program_run(&qsync, argc, argv);
}
