// SPDX-License-Identifier: Apache-2.0
// labels: medium
// ranks: 6
/* Compressed wires among six ranks: each adds up a part on every wire, and in the window too. */
#include "wire.h"

int main(void) {
    const struct CMUnitTest tests[] = {WIRE_TESTS};
    return run_ranks(NULL, tests, COUNT_OF(tests));
}
