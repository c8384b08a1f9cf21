// SPDX-License-Identifier: Apache-2.0
/* What kernels of any device ask about cases. */
#ifndef QSYNC_DEVICE_CASES_H
#define QSYNC_DEVICE_CASES_H

#include "geometry.h"
#include "qsync/op.h"

/* The operand of a role; its format is NULL when absent. Asserts that the pass has it. */
const qs_operand *qs__case_operand(const qs_case *one, qs_role role);
const qs_format *qs__case_format(const qs_case *one, qs_role role);
bool qs__case_has(const qs_case *one, qs_role role);
int64_t qs__case_count(const qs_case *one, qs_role role);
/* Which pass of a convolution or linear operator the case is. */
qs__pass qs__case_pass(const qs_case *one);
/* Extents of a convolution, pool or linear operator: those of forward, whatever the pass. */
qs__geometry qs__case_geometry(const qs_case *one);

#endif
