// SPDX-License-Identifier: Apache-2.0
/* Planner `uniform-fp` (docs/method.md §7.3): every tensor in low precision. */
#include "../assign.h"

static void mark(qs__assignment *one) {
    for (int g = 0; g < one->groups.groups; g++)
        qs__lower_group(one, g);
}

qs_status qs__planner_uniform_fp(qs_candidate *candidate) {
    return qs__assign(candidate, mark);
}
