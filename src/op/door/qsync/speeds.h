// SPDX-License-Identifier: Apache-2.0
/* speeds: how fast a device multiplies, format by format. Parts are of its pace, in (0, 1]. */
#ifndef QSYNC_SPEEDS_H
#define QSYNC_SPEEDS_H

#include "qsync/op.h"

/* At which part of its pace a device multiplies in each format: one that is made for few bits, or emulates such a one. */
enum { QS_MOST_SPEEDS = 8 };
typedef struct qs_speeds {
    int formats; /* fp32 among them; 0: products are as fast as everything else */
    const qs_format *format[QS_MOST_SPEEDS];
    double part[QS_MOST_SPEEDS]; /* (0, 1] */
} qs_speeds;
/* "0.8", or "fp32 0.2, int8 1": of `speed` where no format is named. text[QS_SPEEDS_TEXT]; returns it. */
#define QS_SPEEDS_TEXT 256
QS_API const char *qs_speeds_text(double speed, const qs_speeds *products, char *text);
/* The part at which it multiplies in a format; `speed` where none is named. A format that is not named is computed as the narrowest named
 * one of its kind that is as wide; where there is none, as fp32. */
QS_API double qs_format_speed(const qs_format *format, double speed, const qs_speeds *products);
/* The part of a device's pace at which a case runs: `speed`, but for products of operands that of the slower factor's format. */
QS_API double qs_case_speed(const qs_case *one, double speed, const qs_speeds *products);

#endif
