// SPDX-License-Identifier: Apache-2.0
/* Agreement between two or more ranks. */
#ifndef QSYNC_TESTS_COMM_AGREEMENT_H
#define QSYNC_TESTS_COMM_AGREEMENT_H

#include "comm_test.h"

/* One rank fails: all get its status and its message. */
static void one_fails(void **state) {
    (void)state;
    int rank = qs_comm_rank(comm), size = qs_comm_size(comm);
    for (int bad = 0; bad < size; bad++) {
        char expected[64];
        snprintf(expected, sizeof expected, "rank %d: no room for %d", bad, 100 + bad);
        (void)qs_fail(QS_FAILED, "something old");
        qs_status mine = rank == bad ? qs_fail(QS_OUT_OF_MEMORY, "no room for %d", 100 + rank) : QS_OK;
        assert_int_equal(qs_comm_agree(comm, mine), QS_OUT_OF_MEMORY);
        assert_string_equal(qs_message(), expected);
    }
}

static void expect(qs_status mine, qs_status agreed, const char *message) {
    if (mine != QS_OK) (void)qs_fail(mine, "%s", qs_status_text(mine));
    assert_int_equal(qs_comm_agree(comm, mine), agreed);
    assert_string_equal(qs_message(), message);
}

/* All fail: the worst status wins and brings its own message; alike, the lowest rank speaks. */
static void worst_wins(void **state) {
    (void)state;
    int rank = qs_comm_rank(comm);
    expect(rank == 0 ? QS_FAILED : QS_NUMERIC, QS_NUMERIC, "rank 1: numeric failure");
    expect(rank == 1 ? QS_FAILED : QS_NUMERIC, QS_NUMERIC, "rank 0: numeric failure");
    expect(rank == 1 ? QS_FAILED : QS_PEER_LOST, QS_FAILED, "rank 1: failure");
    expect(rank == 1 ? QS_INFEASIBLE : QS_PREEMPTED, QS_INFEASIBLE, "rank 1: infeasible plan");
    expect(QS_PREEMPTED, QS_PREEMPTED, "rank 0: pre-empted, resumable");
    expect(rank == 1 ? QS_PREEMPTED : QS_OK, QS_PREEMPTED, "rank 1: pre-empted, resumable");
    for (int status = 1; status < QS_STATUS_COUNT; status++) {
        char message[64];
        snprintf(message, sizeof message, "rank 1: %s", qs_status_text((qs_status)status));
        expect(rank == 1 ? (qs_status)status : QS_OK, (qs_status)status, message);
    }
}

/* A message of the longest kind stays one text of bounded length. */
static void long_message(void **state) {
    (void)state;
    char text[4000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    qs_status mine = qs_comm_rank(comm) == 1 ? qs_fail(QS_FAILED, "%s", text) : QS_OK;
    assert_int_equal(qs_comm_agree(comm, mine), QS_FAILED);
    assert_true(strncmp(qs_message(), "rank 1: xxx", 11) == 0);
    expect_equal_everywhere((const float[]){(float)strlen(qs_message())}, 1);
}

static void values_compared(void **state) {
    (void)state;
    assert_ok(qs_comm_compare(comm, "plan", (uint64_t)1 << 63));
    assert_int_equal(qs_comm_compare(comm, "plan", qs_comm_rank(comm) == 1 ? 7 : 8), QS_MISMATCH);
    assert_string_equal(qs_message(), "rank 1: its plan is not that of rank 0; start all ranks alike");
}

#define AGREEMENT \
    cmocka_unit_test(one_fails), cmocka_unit_test(worst_wins), cmocka_unit_test(long_message), cmocka_unit_test(values_compared)

#endif
