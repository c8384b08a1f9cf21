// SPDX-License-Identifier: Apache-2.0
/* Cores are dealt once each, launchers' bindings are kept, too few are said to be so; pinned workers stay on their core. */
#include "kit/kit.h"

#include <sched.h>

static qs_cores process_of(uint64_t machine, int threads, uint64_t allowed, int current) {
    return (qs_cores){.machine = machine, .threads = threads, .current = current, .allowed = {allowed}};
}

static void each_gets_its_own(void **state) {
    const qs_cores all[] = {process_of(1, 2, 0xff, 3), process_of(1, 3, 0xff, 3), process_of(2, 1, 0xff, 3), process_of(1, 3, 0xff, 0)};
    uint64_t taken = 0;
    int core[8];
    (void)state;
    for (int p = 0; p < 4; p++) {
        assert_true(qs_cores_deal(4, all, p, core));
        for (int t = 0; t < all[p].threads; t++) {
            assert_in_range(core[t], 0, 7);
            if (p == 2) continue; /* another machine has its own core 3 */
            assert_false(taken >> core[t] & 1);
            taken |= UINT64_C(1) << core[t];
        }
    }
    assert_true(qs_cores_deal(4, all, 0, core) && core[0] == 3); /* stays where it is */
    assert_true(qs_cores_deal(4, all, 2, core) && core[0] == 3);
}

static void too_few_is_said(void **state) {
    const qs_cores all[] = {process_of(1, 1, 0x3, 0), process_of(1, 2, 0x3, 1), process_of(2, 2, 0x3, 1)};
    int core[2] = {-1, -1};
    (void)state;
    assert_false(qs_cores_deal(3, all, 0, core)); /* nobody on an oversubscribed machine */
    assert_false(qs_cores_deal(3, all, 1, core));
    assert_int_equal(core[0], -1);
    assert_true(qs_cores_deal(3, all, 2, core));
    const qs_cores none = process_of(1, 1, 0, 0);
    assert_false(qs_cores_deal(1, &none, 0, core));
}

/* The first process could take any core, and runs on the one that the second is bound to. */
static void bindings_are_kept(void **state) {
    const qs_cores all[] = {process_of(1, 1, 0x3, 0), process_of(1, 1, 0x1, 0)};
    int core = -1;
    (void)state;
    assert_true(qs_cores_deal(2, all, 1, &core));
    assert_int_equal(core, 0);
    assert_true(qs_cores_deal(2, all, 0, &core));
    assert_int_equal(core, 1);
}

#define WORKERS 2
static int cores_of[WORKERS], only[WORKERS];

/* One element a worker: each tells how many cores it may use and one of them. */
static void look(void *context, int64_t begin, int64_t end) {
    cpu_set_t set;
    (void)context;
    for (int64_t i = begin; i < end; i++) {
        assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
        cores_of[i] = CPU_COUNT(&set);
        for (int core = 0; core < CPU_SETSIZE; core++)
            if (CPU_ISSET(core, &set)) only[i] = core;
    }
}

static void workers_stay(void **state) {
    qs_cores here;
    int core[WORKERS];
    (void)state;
    qs_cores_read(WORKERS, &here);
    if (!qs_cores_deal(1, &here, 0, core)) skip();
    assert_ok(qs_threads_set(WORKERS));
    assert_ok(qs_threads_pin(WORKERS, core));
    qs_parallel(WORKERS, 1, look, NULL);
    assert_int_equal(cores_of[0], WORKERS); /* the first thread roams over the process's cores */
#ifdef _OPENMP
    assert_int_equal(cores_of[1], 1);
    assert_int_equal(only[1], core[1]);
#endif
    assert_ok(qs_threads_set(1));
    assert_ok(qs_threads_pin(1, &core[1]));
    qs_parallel(1, 1, look, NULL);
    assert_int_equal(cores_of[0], 1);
    assert_int_equal(only[0], core[1]);
}

static void nonsense_is_refused(void **state) {
    const int core = -1;
    (void)state;
    assert_int_equal(qs_threads_pin(0, &core), QS_USAGE);
    assert_int_equal(qs_threads_pin(1, &core), QS_USAGE);
}

TEST_MAIN(each_gets_its_own, too_few_is_said, bindings_are_kept, workers_stay, nonsense_is_refused)
