// SPDX-License-Identifier: Apache-2.0
/* The backend's side of products by themselves (single_product.c). */
#ifndef QSYNC_DEVICE_CPU_LONE_H
#define QSYNC_DEVICE_CPU_LONE_H

#include "cpu/cpu.h"

qs_status qs__lone_open(void *state, const qs_lone_shape *shape, const char *kind, qs_lone_product **out);
qs_status qs__lone_run(qs_lone_product *product, int stages);
const char *qs__lone_kernel(const qs_lone_product *product);
void qs__lone_close(qs_lone_product *product);

#endif
