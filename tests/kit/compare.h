// SPDX-License-Identifier: Apache-2.0
/* The one comparator of tests: differences of two arrays summed up, and an assertion that each element stays within
 * absolute + relative × |expected|. A NaN on either side always fails; equal infinities are equal. */
#ifndef QSYNC_TESTS_KIT_COMPARE
#define QSYNC_TESTS_KIT_COMPARE

#include "kit.h"

#include <inttypes.h>

typedef struct comparison {
    double max_abs;       /* largest |got - expected| */
    double max_rel;       /* largest |got - expected| / |expected| over expected != 0 */
    double rms;           /* root mean square of the differences */
    double rms_expected;  /* and of the expected values */
    int64_t worst;        /* index of max_abs, or of the first NaN */
    double got, expected; /* there */
    bool nan;
} comparison;

static inline comparison compare_values(int64_t count, const float *got, const float *expected) {
    comparison result = {.max_abs = -1};
    for (int64_t i = 0; i < count; i++) {
        double g = (double)got[i], e = (double)expected[i], distance = g == e ? 0 : fabs(g - e);
        bool nan = isnan(distance);
        if (nan ? !result.nan : !result.nan && distance > result.max_abs) {
            result.worst = i;
            result.got = g;
            result.expected = e;
        }
        result.nan |= nan;
        if (nan) continue;
        if (distance > result.max_abs) result.max_abs = distance;
        if (e != 0 && distance / fabs(e) > result.max_rel) result.max_rel = distance / fabs(e);
        result.rms += distance * distance;
        result.rms_expected += e * e;
    }
    if (result.max_abs < 0) result.max_abs = 0;
    if (count > 0) {
        result.rms = sqrt(result.rms / (double)count);
        result.rms_expected = sqrt(result.rms_expected / (double)count);
    }
    return result;
}

/* True when every |got - expected| <= absolute + relative × |expected|; otherwise *index (may be NULL) is the worst offender. */
static inline bool compare_holds(int64_t count, const float *got, const float *expected, double absolute, double relative, int64_t *index) {
    bool holds = true;
    double worst = 0;
    for (int64_t i = 0; i < count; i++) {
        double g = (double)got[i], e = (double)expected[i];
        if (g == e) continue;
        double excess = fabs(g - e) - (absolute + relative * fabs(e));
        if (excess <= 0) continue; /* a NaN goes on */
        if (index && (holds || isnan(excess) || excess > worst)) *index = i;
        if (isnan(excess)) return false;
        holds = false;
        if (excess > worst) worst = excess;
    }
    return holds;
}

/* Fails the cmocka test with figures and the worst index unless compare_holds. */
static inline void assert_close(int64_t count, const float *got, const float *expected, double absolute, double relative,
                                const char *what) {
    int64_t index = 0;
    if (compare_holds(count, got, expected, absolute, relative, &index)) return;
    comparison all = compare_values(count, got, expected);
    fail_msg("%s: element %" PRId64 " of %" PRId64 " is %.9g, expected %.9g (allowed %.3g + %.3g relative); largest difference %.3g, "
             "relative %.3g, rms %.3g of rms %.3g",
             what, index, count, (double)got[index], (double)expected[index], absolute, relative, all.max_abs, all.max_rel, all.rms,
             all.rms_expected);
}

#endif
