// SPDX-License-Identifier: Apache-2.0
/* The initial plan of the paper (qsync.md §5.1). */
#ifndef QSYNC_PLANNER_INITIAL_H
#define QSYNC_PLANNER_INITIAL_H

#include "planner_internal.h"

/* Sets the draft to the fastest plan that fits the memory, block by block: every block of the model (qs_graph_blocks) has a share of the
 * memory in proportion to what lowering it saves, the fastest of all mixes of its recipes within that is taken, casts at its borders
 * included, and its copies get the same. Blocks of more than 6 operators are improved operator by operator instead (the first 64; others
 * stay). The full prediction judges the whole: where it does not fit, the shares shrink; where no share will do, the plan is the fastest
 * uniform one, which also is where neighbours stand while a block is decided. QS_INFEASIBLE with the figures where not even that fits.
 * *limit_us as in qs__uniform_choose. */
qs_status qs__initial_choose(qs_draft_plan *draft, double *limit_us);

#endif
