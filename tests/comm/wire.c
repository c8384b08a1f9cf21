// SPDX-License-Identifier: Apache-2.0
// labels: short
// ranks: 2
/* Compressed wires between two ranks: all send all. */
#include "wire.h"

/* One rank sends nothing: values and residuals stay. */
TEST(alone) {
    qs_comm *self;
    qs_request *request;
    float value = 0.3f, residual = 0.1f;
    assert_ok(qs_comm_split(comm, qs_comm_rank(comm), &self));
    assert_ok(qs_comm_all_reduce_wire_start(self, "int8", &value, &residual, 1, 1, &request));
    assert_ok(qs_comm_wait(self, request));
    assert_true(value == 0.3f && residual == 0.1f);
    qs_comm_close(self);
}

int main(void) {
    const struct CMUnitTest tests[] = {WIRE_TESTS, cmocka_unit_test(alone)};
    return run_ranks(NULL, tests, COUNT_OF(tests));
}
