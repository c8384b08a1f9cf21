// SPDX-License-Identifier: Apache-2.0
// labels: short
/* One process without a launcher, and how the communicator is chosen. */
#include "collectives.h"

TEST(facts) {
    assert_string_equal(qs_comm_name(comm), "self");
    assert_string_equal(qs_comm_library(comm), "self");
    assert_int_equal(qs_comm_rank(comm), 0);
    assert_int_equal(qs_comm_size(comm), 1);
    assert_int_equal(qs_comm_hosts(comm), 1);
    assert_int_equal(qs_comm_host_of(comm, 0), 0);
    assert_int_equal(qs_comm_local_rank(comm), 0);
    assert_int_equal(qs_comm_local_size(comm), 1);
    qs_comm_abort(comm, 3); /* no peers: returns */
}

TEST(agree_alone) {
    (void)qs_fail(QS_NUMERIC, "loss is nan");
    assert_int_equal(qs_comm_agree(comm, QS_NUMERIC), QS_NUMERIC);
    assert_string_equal(qs_message(), "loss is nan");
}

TEST(without_launcher) {
    static const char *const variables[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK",           "PMI_SIZE", "PMI_RANK", "MV2_COMM_WORLD_SIZE",
                                            "SLURM_PROCID",         "SLURM_STEP_NUM_TASKS"};
    for (size_t i = 0; i < COUNT_OF(variables); i++)
        unsetenv(variables[i]);
    qs_comm *chosen;
    assert_ok(qs_comm_open(NULL, &chosen));
    assert_string_equal(qs_comm_name(chosen), "self");
    qs_comm_close(chosen);
    setenv("SLURM_PROCID", "0", 1); /* a batch script, not a step of several tasks */
    assert_ok(qs_comm_open(NULL, &chosen));
    assert_string_equal(qs_comm_name(chosen), "self");
    qs_comm_close(chosen);
    unsetenv("SLURM_PROCID");
}

TEST(unknown_name) {
    qs_comm *none;
    assert_refused(qs_comm_open("carrier-pigeon", &none), QS_USAGE, "communicators: self");
    assert_string_equal(qs_comm_name_at(0), "self");
    assert_null(qs_comm_name_at(100));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        COLLECTIVES,
        cmocka_unit_test(facts),
        cmocka_unit_test(agree_alone),
        cmocka_unit_test(without_launcher),
        cmocka_unit_test(unknown_name),
        LEFT_UNDER_WAY,
    };
    return run_ranks("self", tests, COUNT_OF(tests));
}
