// SPDX-License-Identifier: Apache-2.0
// labels: short
// ranks: 2
/* Two ranks under the launcher, which is recognised. */
#include "agreement.h"
#include "collectives.h"

TEST(facts) {
    assert_string_equal(qs_comm_name(comm), "mpi");
    assert_non_null(strpbrk(qs_comm_library(comm), "0123456789"));
    assert_int_equal(qs_comm_size(comm), 2);
    double ranks[] = {qs_comm_rank(comm)};
    assert_ok(qs_comm_sum(comm, ranks, 1));
    assert_true(ranks[0] == 1);
    /* The launcher starts both on this machine. */
    assert_int_equal(qs_comm_hosts(comm), 1);
    assert_int_equal(qs_comm_host_of(comm, 1), 0);
    assert_int_equal(qs_comm_local_rank(comm), qs_comm_rank(comm));
    assert_int_equal(qs_comm_local_size(comm), 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(facts), COLLECTIVES, AGREEMENT, LEFT_UNDER_WAY};
    int failed = run_ranks(NULL, tests, COUNT_OF(tests));
    /* MPI starts once in a process: opening again is refused, not fatal. */
    qs_comm *again;
    if (!failed && qs_comm_open("mpi", &again) != QS_UNSUPPORTED) return 1;
    return failed;
}
