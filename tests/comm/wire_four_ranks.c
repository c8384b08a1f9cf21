// SPDX-License-Identifier: Apache-2.0
// labels: medium
// ranks: 4
/* Compressed wires among four ranks: all send all in int8, each adds up a part in bf16. */
#include "wire.h"

int main(void) {
    const struct CMUnitTest tests[] = {WIRE_TESTS};
    return run_ranks(NULL, tests, COUNT_OF(tests));
}
