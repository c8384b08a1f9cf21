// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Statuses: every one has a text and the exit code of the manual; messages are one line, kept per thread. */
#include "kit/kit.h"

#include <pthread.h>

TEST(texts_and_exit_codes) {
    for (int status = 0; status < QS_STATUS_COUNT; status++) {
        assert_true(strlen(qs_status_text((qs_status)status)) > 0);
    }
    assert_string_equal(qs_status_text((qs_status)999), "unknown status");
    assert_int_equal(qs_status_exit_code((qs_status)999), 1);
    assert_int_equal(qs_status_exit_code(QS_OK), 0);
    assert_int_equal(qs_status_exit_code(QS_FAILED), 1);
    assert_int_equal(qs_status_exit_code(QS_BAD_FILE), 1);
    assert_int_equal(qs_status_exit_code(QS_USAGE), 2);
    assert_int_equal(qs_status_exit_code(QS_INFEASIBLE), 3);
    assert_int_equal(qs_status_exit_code(QS_NUMERIC), 4);
    assert_int_equal(qs_status_exit_code(QS_PEER_LOST), 5);
    assert_int_equal(qs_status_exit_code(QS_PREEMPTED), 75);
}

TEST(messages) {
    assert_int_equal(qs_fail(QS_USAGE, "batch %d: at least %d", 0, 1), QS_USAGE);
    assert_string_equal(qs_message(), "batch 0: at least 1");
    assert_ok(qs_fail_within(QS_OK, "never"));
    assert_string_equal(qs_message(), "batch 0: at least 1");
    assert_int_equal(qs_fail_within(QS_USAGE, "class %s", "weak"), QS_USAGE);
    assert_string_equal(qs_message(), "class weak: batch 0: at least 1");
    qs_fail(QS_FAILED, "again: %s", qs_message());
    assert_string_equal(qs_message(), "again: class weak: batch 0: at least 1");
    qs_fail(QS_FAILED, "two\nlines");
    assert_string_equal(qs_message(), "two lines");
}

TEST(long_messages_are_cut) {
    qs_fail(QS_FAILED, "%05000d", 7);
    size_t longest = strlen(qs_message());
    assert_in_range(longest, 1000, 4999);
    qs_fail_within(QS_FAILED, "prefix");
    assert_int_equal(strlen(qs_message()), longest);
    assert_memory_equal(qs_message(), "prefix: 000", 11);
    qs_fail_within(QS_FAILED, "%05000d", 8);
    assert_int_equal(strlen(qs_message()), longest);
}

static void *fail_elsewhere(void *seen) {
    *(bool *)seen = qs_message()[0] == '\0';
    qs_fail(QS_FAILED, "elsewhere");
    return NULL;
}

TEST(messages_belong_to_threads) {
    qs_fail(QS_FAILED, "here");
    bool empty = false;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &empty), 0);
    pthread_join(thread, NULL);
    assert_true(empty);
    assert_string_equal(qs_message(), "here");
}

static qs_status forward(qs_status inner) {
    QS_TRY(inner);
    return QS_NUMERIC;
}

TEST(try_forwards) {
    assert_int_equal(forward(QS_INFEASIBLE), QS_INFEASIBLE);
    assert_int_equal(forward(QS_OK), QS_NUMERIC);
}

TEST_MAIN(texts_and_exit_codes, messages, long_messages_are_cut, messages_belong_to_threads, try_forwards)
