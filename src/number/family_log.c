// SPDX-License-Identifier: Apache-2.0
/* The family log2 ... log4, also written log(b): a sign and b - 1 bits of an exponent, 0 and the powers of two from 1 to 2^(2^(b-1) - 2),
 * as integers of one step (docs/method.md §9.7). A power lies in one signed byte, as codes of int(b) do: hence at most 4 bits. */
#include "number_room.h"

#include <stdio.h>

enum { BITS_HIGHEST = 4 };

static bool claims(const char *name) {
    return qs__family_claims(name, "log");
}

static qs_status parse(const char *name, qs_format *out) {
    int bits = qs__family_bits(name + 3, BITS_HIGHEST);
    if (!bits) return qs_fail(QS_USAGE, "powers of two have %d to %d bits, written log4 or log(4)", QS_INTEGER_LEAST_BITS, BITS_HIGHEST);
    *out = (qs_format){.kind = QS_KIND_INTEGER, .is_logarithmic = true, .bits = bits, .max = 1 << ((1 << (bits - 1)) - 2)};
    snprintf(out->name, sizeof out->name, "log%d", bits);
    return QS_OK;
}

static const char *plain_name(size_t index) {
    static const char *const names[] = {"log4", "log3", "log2"};
    return index < sizeof names / sizeof names[0] ? names[index] : NULL;
}

const qs__format_family qs__format_family_log = {claims, parse, plain_name};
