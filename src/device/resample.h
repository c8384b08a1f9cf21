// SPDX-License-Identifier: Apache-2.0
/* What the kernels of pad and resize go by: along each axis every place that is written is a weighted sum of places that are read, forward
 * a result's terms, backward the results that a place of the image is a term of. So both passes gather, and no two threads write one
 * place. */
#ifndef QSYNC_DEVICE_RESAMPLE_H
#define QSYNC_DEVICE_RESAMPLE_H

#include "qsync/op.h"

/* Number w is Σ weight[i] × place[i] of what is read, for i from begin[w] to begin[w + 1] - 1, places going up. */
typedef struct qs__resample_table {
    int64_t written, read;
    int64_t entries; /* at most */
    int32_t *begin;  /* [written + 1] */
    int32_t *place;  /* [entries] */
    float *weight;   /* [entries] */
} qs__resample_table;

/* Sizes alone, of an axis (0: lines, 1: columns) of a case. */
qs__resample_table qs__resample_table_of(const qs_case *one, int axis);
/* Fills a table whose arrays are there. */
void qs__resample_table_fill(const qs_case *one, int axis, qs__resample_table *table);

#endif
