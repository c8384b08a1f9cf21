// SPDX-License-Identifier: Apache-2.0
/* A thread that shares its core with a process that never rests has waited, and where is known; nobody has waited since just now. */
#include "kit/kit.h"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void core_only(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    assert_int_equal(sched_setaffinity(0, sizeof set, &set), 0);
}

static void spin(double seconds) {
    for (const double end = qs_clock() + seconds; qs_clock() < end;) {
    }
}

TEST(another_process_is_noticed) {
    const int core = sched_getcpu();
    qs_waits waits = {0};
    core_only(core);
    (void)qs_waited(&waits);
    const pid_t other = fork();
    if (other == 0) {
        spin(60);
        _exit(0);
    }
    assert_true(other > 0);
    spin(0.5);
    const double seconds = qs_waited(&waits);
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    if (waits.threads > 0 && access("/proc/self/schedstat", R_OK) != 0) skip();
    assert_true(seconds > 0.05 && seconds < 60); /* half a second's half, far from exactly */
    assert_int_equal(waits.core, core);
}

/* What waited before a reading does not count after it. */
TEST(readings_are_differences) {
    qs_waits waits = {0};
    spin(0.05);
    (void)qs_waited(&waits);
    const double begin = qs_clock(), waited = qs_waited(&waits), took = qs_clock() - begin;
    assert_true(waited >= 0 && waited <= took + 0.01); /* seconds; a tick of the scheduler's clock */
    assert_true(waited > 0 || waits.core == -1);
}

TEST_MAIN(another_process_is_noticed, readings_are_differences)
