// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Text that comes in pieces: whatever the pieces, what goes out is the text, with U+FFFD where it is none, and never half a character. */
#include "kit/kit.h"

#include "qsync/text.h"

/* `text` in pieces of `size` bytes. */
static void settled(const char *text, size_t bytes, size_t size, char *out, size_t *out_bytes) {
    char pending[64];
    size_t held = 0, used = 0, written;
    for (size_t at = 0; at < bytes; at += size) {
        const size_t piece = bytes - at < size ? bytes - at : size;
        memcpy(pending + held, text + at, piece);
        held += piece;
        const size_t taken = qs_text_settle(pending, held, false, out + used, &written);
        assert_true(held - taken <= 3);
        memmove(pending, pending + taken, held -= taken);
        used += written;
    }
    assert_int_equal(qs_text_settle(pending, held, true, out + used, &written), held);
    *out_bytes = used + written;
}

TEST(pieces) {
    static const struct {
        const char *text, *expected;
    } cases[] = {{"", ""},
                 {"plain", "plain"},
                 {"\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x8C\xB3.", "\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x8C\xB3."},
                 {"a\xFFz", "a\xEF\xBF\xBDz"},                                             /* no beginning */
                 {"\xC3z", "\xEF\xBF\xBDz"},                                               /* a beginning that does not go on */
                 {"\xE2\x82", "\xEF\xBF\xBD\xEF\xBF\xBD"},                                 /* nor at the end */
                 {"\xE2\x82\xE2\x82\xAC", "\xEF\xBF\xBD\xEF\xBF\xBD\xE2\x82\xAC"},         /* which begins anew */
                 {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},                 /* a surrogate */
                 {"\xF5\x80\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"}, /* beyond Unicode */
                 {"\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD"}};                                /* longer than need be */
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        for (size_t size = 1; size <= 5; size++) {
            char out[64];
            size_t bytes;
            settled(cases[i].text, strlen(cases[i].text), size, out, &bytes);
            if (bytes != strlen(cases[i].expected) || memcmp(out, cases[i].expected, bytes) != 0)
                fail_msg("case %zu in pieces of %zu: %zu bytes \"%.*s\"", i, size, bytes, (int)bytes, out);
        }
}

/* What is whole goes out at once. */
TEST(nothing_waits_longer) {
    char out[32];
    size_t written;
    assert_int_equal(qs_text_settle("ab\xC3", 3, false, out, &written), 2);
    assert_int_equal(written, 2);
    assert_int_equal(qs_text_settle("\xC3\xA9", 2, false, out, &written), 2);
    assert_int_equal(written, 2);
    assert_int_equal(qs_text_settle("\0a", 2, false, out, &written), 2);
}

TEST_MAIN(pieces, nothing_waits_longer)
