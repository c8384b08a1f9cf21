// SPDX-License-Identifier: Apache-2.0
/* Where the element of the part lies that goes with one of the value (broadcast_jobs.h). */
#ifndef QSYNC_DEVICE_CUDA_BROADCAST_CUH
#define QSYNC_DEVICE_CUDA_BROADCAST_CUH

#include "cuda/broadcast_jobs.h"

#include "cuda/values.cuh"

/* Of the first element of row `row` of the axes before `axes`. */
QS_CUDA_DEVICE int64_t part_of_row(const qs__view &view, int axes, int64_t row) {
    int64_t place = 0;
    QS_CUDA_UNROLL
    for (int a = QS__VIEW_AXES - 1; a > 0; a--) { /* the slowest needs no division */
        if (a >= axes) continue;
        const int64_t slower = row / view.extent[a];
        place += (row - slower * view.extent[a]) * view.step[a];
        row = slower;
    }
    return axes > 0 ? place + row * view.step[0] : 0;
}

#endif
