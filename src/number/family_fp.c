// SPDX-License-Identifier: Apache-2.0
/* The family fp(e,m) and fp(e,m,bias): every code a number, no infinities, saturating (docs/method.md §2.2). */
#include "number_room.h"

#include <stdio.h>
#include <stdlib.h>

enum { EXPONENT_LIMIT = 8, MANTISSA_LIMIT = 23, BIAS_LIMIT = 300 };

static bool claims(const char *name) {
    return strncmp(name, "fp(", 3) == 0;
}

/* Reads one decimal number without blanks and steps over the character behind it, which is returned; 0 when there is no number. */
static char read_number(const char **text, long *out) {
    const char *start = *text;
    char *end = NULL;
    if (*start != '-' && (*start < '0' || *start > '9')) return 0;
    *out = strtol(start, &end, 10);
    if (end == start || *end == '\0') return 0;
    *text = end + 1;
    return *end;
}

static qs_status parse(const char *name, qs_format *out) {
    static const char form[] = "written fp(e,m) or fp(e,m,bias), whole numbers without blanks, for example fp(4,3,4)";
    const char *text = name + 3;
    long exponent_bits = 0;
    long mantissa_bits = 0;
    long bias = 0;
    if (read_number(&text, &exponent_bits) != ',') return qs_fail(QS_USAGE, form);
    char behind = read_number(&text, &mantissa_bits);
    if (behind == ',') behind = read_number(&text, &bias);
    if (behind != ')' || *text != '\0') return qs_fail(QS_USAGE, form);
    if (exponent_bits < 1 || exponent_bits > EXPONENT_LIMIT) {
        return qs_fail(QS_USAGE, "%ld exponent bits: 1 to %d are allowed", exponent_bits, EXPONENT_LIMIT);
    }
    if (mantissa_bits < 0 || mantissa_bits > MANTISSA_LIMIT) {
        return qs_fail(QS_USAGE, "%ld mantissa bits: 0 to %d are allowed", mantissa_bits, MANTISSA_LIMIT);
    }
    if (bias < -BIAS_LIMIT || bias > BIAS_LIMIT) {
        return qs_fail(QS_USAGE, "bias %ld: -%d to %d are allowed", bias, BIAS_LIMIT, BIAS_LIMIT);
    }
    QS_TRY(qs__format_fill_float(QS_SPECIALS_NONE, (int)exponent_bits, (int)mantissa_bits, (int)bias, out));
    snprintf(out->name, sizeof out->name, "fp(%ld,%ld,%ld)", exponent_bits, mantissa_bits, bias);
    return QS_OK;
}

static const char *plain_name(size_t index) {
    (void)index;
    return NULL;
}

const qs__format_family qs__format_family_fp = {claims, parse, plain_name};
