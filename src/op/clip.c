// SPDX-License-Identifier: Apache-2.0
/* clip: x, where it is below `least` that, above `most` that. The derivative is 1 between the two and 0 elsewhere, at the ends as well. */
#include "internal.h"

#include <float.h>

static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)outputs;
    if (!(with->constant[0] < with->constant[1]))
        return qs_fail(QS_USAGE, "clip: from %g to %g: the least must be below the most", with->constant[0], with->constant[1]);
    *dst = *src;
    return QS_OK;
}

static double function(const qs_attributes *with, double x) {
    return x < with->constant[0] ? with->constant[0] : x > with->constant[1] ? with->constant[1] : x;
}

static double derivative(const qs_attributes *with, double x) {
    return x > with->constant[0] && x < with->constant[1];
}

QS__CURVE(clip, " least=-0.5 most=1", .infer = infer,
          .setting = {QS_SETTING_AS("least", constant[0], 0, -FLT_MAX, FLT_MAX, "what is below becomes that"),
                      QS_SETTING_AS("most", constant[1], 0, -FLT_MAX, FLT_MAX, "what is above becomes that")});
