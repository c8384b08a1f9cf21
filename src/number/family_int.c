// SPDX-License-Identifier: Apache-2.0
/* The family int2 ... int8, also written int(b): fixed point of b bits, used symmetrically, so that -2^(b-1) is never produced. */
#include "number_room.h"

#include <stdio.h>

enum { BITS_HIGHEST = 8 };

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

bool qs__family_claims(const char *name, const char *prefix) {
    size_t length = strlen(prefix);
    return strncmp(name, prefix, length) == 0 && (name[length] == '(' || is_digit(name[length]));
}

int qs__family_bits(const char *text, int highest) {
    bool bracket = text[0] == '(';
    const char *digits = text + bracket;
    int bits = digits[0] - '0';
    if (!is_digit(digits[0]) || strcmp(digits + 1, bracket ? ")" : "") != 0 || bits < QS_INTEGER_LEAST_BITS || bits > highest) return 0;
    return bits;
}

static bool claims(const char *name) {
    return qs__family_claims(name, "int");
}

static qs_status parse(const char *name, qs_format *out) {
    int bits = qs__family_bits(name + 3, BITS_HIGHEST);
    if (!bits) return qs_fail(QS_USAGE, "integers have %d to %d bits, written int8 or int(8)", QS_INTEGER_LEAST_BITS, BITS_HIGHEST);
    *out = (qs_format){.kind = QS_KIND_INTEGER, .bits = bits, .specials = QS_SPECIALS_NONE, .max = (1 << (bits - 1)) - 1};
    snprintf(out->name, sizeof out->name, "int%d", bits);
    return QS_OK;
}

static const char *plain_name(size_t index) {
    static const char *const names[] = {"int8", "int7", "int6", "int5", "int4", "int3", "int2"};
    return index < sizeof names / sizeof names[0] ? names[index] : NULL;
}

const qs__format_family qs__format_family_int = {claims, parse, plain_name};
