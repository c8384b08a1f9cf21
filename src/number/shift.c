// SPDX-License-Identifier: Apache-2.0
/* ShiftQuant between its two passes: groups of channels and their steps. */
#include "number_room.h"

#include <assert.h>
#include <math.h>

enum { LEAST_STEP_EXPONENT = -100 };

/* Steps from the lowest code to the highest, or from 0 where there is no zero point. */
static float code_span(const qs_format *format, bool zero_point) {
    return (float)(format->max - (zero_point ? qs_format_lowest(format) : 0.0));
}

/* r 2^g <= r_max: the scaling is exact, or infinite where r is too large anyway. */
static uint8_t group_of(float range, float largest, int groups) {
    int group = 0;
    while (group < groups - 1 && ldexpf(range, group + 1) <= largest)
        group++;
    return (uint8_t)group;
}

float qs_shift_groups(const qs_format *format, bool zero_point, int groups, int64_t channels, const float *range, uint8_t *group) {
    assert(format->kind == QS_KIND_INTEGER && groups >= 1 && groups <= QS_MOST_SHIFT_GROUPS);
    float largest = 0.0f;
    for (int64_t c = 0; c < channels; c++) {
        if (!(range[c] <= largest)) largest = range[c]; /* a NaN too, which ends the search */
        if (!isfinite(largest)) break;
    }
    if (!isfinite(largest) || largest <= 0.0f) {
        memset(group, 0, (size_t)channels);
        return 1.0f;
    }
    for (int64_t c = 0; c < channels; c++)
        group[c] = group_of(range[c], largest, groups);
    return fmaxf(largest / code_span(format, zero_point), ldexpf(1.0f, LEAST_STEP_EXPONENT + groups - 1));
}

float qs__group_step(const qs_shift_codes *codes, int64_t channel) {
    return ldexpf(codes->step, -codes->group[channel]);
}
