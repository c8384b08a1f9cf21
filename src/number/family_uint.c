// SPDX-License-Identifier: Apache-2.0
/* The family uint2 ... uint7, also written uint(b): fixed point of b bits for values that cannot be negative, from 0 to 2^b - 1. A code
 * lies in one signed byte, like those of int(b): hence at most 7 bits. */
#include "number_room.h"

#include <stdio.h>

enum { BITS_HIGHEST = 7 };

static bool claims(const char *name) {
    return qs__family_claims(name, "uint");
}

static qs_status parse(const char *name, qs_format *out) {
    int bits = qs__family_bits(name + 4, BITS_HIGHEST);
    if (!bits)
        return qs_fail(QS_USAGE, "unsigned integers have %d to %d bits, written uint4 or uint(4)", QS_INTEGER_LEAST_BITS, BITS_HIGHEST);
    *out = (qs_format){.kind = QS_KIND_INTEGER, .is_unsigned = true, .bits = bits, .max = (1 << bits) - 1};
    snprintf(out->name, sizeof out->name, "uint%d", bits);
    return QS_OK;
}

static const char *plain_name(size_t index) {
    static const char *const names[] = {"uint7", "uint6", "uint5", "uint4", "uint3", "uint2"};
    return index < sizeof names / sizeof names[0] ? names[index] : NULL;
}

const qs__format_family qs__format_family_uint = {claims, parse, plain_name};
