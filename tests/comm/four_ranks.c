// SPDX-License-Identifier: Apache-2.0
// labels: medium
// ranks: 4
/* Four ranks: the same collectives, where sums have more than one order. */
#include "agreement.h"
#include "collectives.h"

int main(void) {
    const struct CMUnitTest tests[] = {COLLECTIVES, AGREEMENT, LEFT_UNDER_WAY};
    return run_ranks(NULL, tests, COUNT_OF(tests));
}
