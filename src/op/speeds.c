// SPDX-License-Identifier: Apache-2.0
/* How fast a device multiplies, format by format. */
#include "qsync/speeds.h"

#include <stdio.h>
#include <string.h>

const char *qs_speeds_text(double speed, const qs_speeds *products, char *text) {
    if (products->formats == 0) snprintf(text, QS_SPEEDS_TEXT, "%.9g", speed);
    for (int i = 0; i < products->formats; i++) {
        const size_t used = i ? strlen(text) : 0;
        snprintf(text + used, QS_SPEEDS_TEXT - used, "%s%s %.9g", i ? ", " : "", products->format[i]->name, products->part[i]);
    }
    return text;
}

double qs_format_speed(const qs_format *format, double speed, const qs_speeds *products) {
    const qs_format *taken = NULL, *fp32 = qs_format_of("fp32");
    double part = speed;
    for (int i = 0; i < products->formats; i++) {
        const qs_format *named = products->format[i];
        const bool fits = named->kind == format->kind && named->bits >= format->bits && (!taken || named->bits < taken->bits);
        if (named == format) return products->part[i];
        if (fits || (named == fp32 && !taken)) part = products->part[i];
        if (fits) taken = named;
    }
    return part;
}

double qs_case_speed(const qs_case *one, double speed, const qs_speeds *products) {
    const qs_product *product = one->pass->product;
    if (!product) return speed;
    const qs_format *a = one->operand[qs_case_position(one, product->factor[0])].format;
    const qs_format *b = one->operand[qs_case_position(one, product->factor[1])].format;
    const double first = qs_format_speed(a, speed, products), second = qs_format_speed(b, speed, products);
    return first < second ? first : second;
}
