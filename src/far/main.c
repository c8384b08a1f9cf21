// SPDX-License-Identifier: Apache-2.0
/* qsync-far: the child process of the device `far`, started by it with a socket as its standard input. It does what comes over that socket
 * until it closes, and does not outlive who started it. */
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "qsync/far.h"

int main(int argc, char **argv) {
    int type;
    socklen_t bytes = sizeof type;
    (void)argv;
    if (argc > 1 || getsockopt(STDIN_FILENO, SOL_SOCKET, SO_TYPE, &type, &bytes) != 0) {
        fputs("qsync-far is the other half of the device far: qsync starts it by itself, with a socket as its standard input\n", stderr);
        return qs_status_exit_code(QS_USAGE);
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* the closed socket says it as well; this also ends a kernel that is running */
    (void)signal(SIGINT, SIG_IGN);          /* from a terminal it reaches all: who started this one decides */
    const qs_status status = qs_far_serve(STDIN_FILENO);
    if (status != QS_OK) fprintf(stderr, "qsync-far: %s\n", qs_message());
    return qs_status_exit_code(status);
}
