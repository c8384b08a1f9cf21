// SPDX-License-Identifier: Apache-2.0
// labels: medium
// ranks: 3
/* Three ranks: no power of two, where recursive doubling pairs the odd ones first. */
#include "agreement.h"
#include "collectives.h"

int main(void) {
    const struct CMUnitTest tests[] = {COLLECTIVES, AGREEMENT, LEFT_UNDER_WAY};
    return run_ranks(NULL, tests, COUNT_OF(tests));
}
