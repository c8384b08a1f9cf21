// SPDX-License-Identifier: Apache-2.0
/* Inside the room: what the pool asks of affinity.c. */
#ifndef QSYNC_BASE_INTERNAL_H
#define QSYNC_BASE_INTERNAL_H

#include "qsync/base.h"

/* Called by every worker of the pool at the start of its share: goes to its core if it is not there yet. */
void qs__thread_place(int worker);

#endif
