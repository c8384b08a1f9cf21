// SPDX-License-Identifier: Apache-2.0
/* Maxima and codes of values that are transformed on the way (qs_hadamard_array): the kernels of absmax and quantize with the attribute
 * hadamard (built in convert.c), and the same on plain arrays. Nothing is kept in between. */
#ifndef QSYNC_DEVICE_CPU_HADAMARD_H
#define QSYNC_DEVICE_CPU_HADAMARD_H

#include "qsync/quantizing.h"
#include "cpu/staging.h"

/* Rows of values with their draws; blocks lie along the rows, or (down) one below the other in as many rows, whose number they divide. */
typedef struct qs__transformed {
    qs__in src;
    qs_random_rows rows;
    int block;
    bool down;
} qs__transformed;

float qs__transformed_absmax(const qs__transformed *values);
void qs__transformed_quantize(const qs__transformed *values, const qs_quantizing *quantizing, int8_t *dst);

qs_status qs__hadamard_absmax(const qs__chain *chain, const qs_run *run);
qs_status qs__hadamard_quantize(const qs__chain *chain, const qs_run *run);

#endif
