// SPDX-License-Identifier: Apache-2.0
/* The test kit: what the tests of several rooms share. This file brings cmocka and the standard headers that nearly every test needs. Each
 * other file of the folder serves one subject and brings this one with it; a test includes those that it uses, first of all.
 *
 *   kit/kit.h            the shape of a test program; status and message of a call; scalars with a tolerance; small tools
 *   kit/compare.h        arrays with a tolerance: absolute + relative × |expected|
 *   kit/vectors.h        reference values from JSON files, where they are at hand
 *   kit/folder.h         a temporary folder, and files as text
 *   kit/cases.h          a case on guarded memory with values that suit it; what every operator's list of cases must keep
 *   kit/integer_cases.h  cases of products of integers
 *   kit/hadamard.h       the Hadamard transform by its definition
 *   kit/device.h         which devices this build has
 *   kit/run.h            a small job, warnings heard, programs of several ranks
 *   kit/schedule.h       lowering without a device; a schedule run by the reference kernels
 *   kit/random_graph.h   random models and recipes for them
 *   kit/synthetic.h      clusters and profiles that nobody measured
 *   kit/processor.h      what the processor can do
 *   kit/allocations.h    counts what the program allocates
 *
 * Helpers that one room's tests alone need stand in tests/<room>/.
 *
 * A test program:
 *
 *   // SPDX-License-Identifier: Apache-2.0
 *   // labels: short
 *   ... what holds, in a sentence or two ...
 *   #include "kit/kit.h"
 *   #include "qsync/number.h"
 *
 *   TEST(ties_go_to_even) {
 *       assert_true(...);
 *   }
 *
 *   TEST_MAIN(ties_go_to_even)
 *
 * Assertions are cmocka's, and those below. All of them end the test; they may stand in set-up functions as well. */
#ifndef QSYNC_TESTS_KIT_H
#define QSYNC_TESTS_KIT_H

/* What cmocka needs before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qsync/base.h"

/* ---- The shape of a test program ---- */

/* A test that needs nothing from a set-up function. One that does is written out, `static void name(void **state)`, and takes *state. */
#define TEST(name) static void name(__attribute__((unused)) void **state)

/* The program that runs these tests in this order, up to 17 of them; TEST_MAIN_WITH: between setup(void **state) and
 * teardown(void **state), which return 0 when all went well; either may be NULL. Both stand at the end of the file, without a semicolon. */
#define TEST_MAIN(...) TEST_MAIN_WITH(NULL, NULL, __VA_ARGS__)
#define TEST_MAIN_WITH(setup, teardown, ...)                       \
    int main(void) {                                               \
        const struct CMUnitTest tests[] = {KIT_EACH(__VA_ARGS__)}; \
        return cmocka_run_group_tests(tests, setup, teardown);     \
    }

/* cmocka_unit_test(a), cmocka_unit_test(b), ... */
#define KIT_EACH(...)                                                                                                                      \
    KIT_PICK(__VA_ARGS__, KIT_17, KIT_16, KIT_15, KIT_14, KIT_13, KIT_12, KIT_11, KIT_10, KIT_9, KIT_8, KIT_7, KIT_6, KIT_5, KIT_4, KIT_3, \
             KIT_2, KIT_1, )                                                                                                               \
    (__VA_ARGS__)
#define KIT_PICK(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, picked, ...) picked
#define KIT_1(a) cmocka_unit_test(a)
#define KIT_2(a, ...) cmocka_unit_test(a), KIT_1(__VA_ARGS__)
#define KIT_3(a, ...) cmocka_unit_test(a), KIT_2(__VA_ARGS__)
#define KIT_4(a, ...) cmocka_unit_test(a), KIT_3(__VA_ARGS__)
#define KIT_5(a, ...) cmocka_unit_test(a), KIT_4(__VA_ARGS__)
#define KIT_6(a, ...) cmocka_unit_test(a), KIT_5(__VA_ARGS__)
#define KIT_7(a, ...) cmocka_unit_test(a), KIT_6(__VA_ARGS__)
#define KIT_8(a, ...) cmocka_unit_test(a), KIT_7(__VA_ARGS__)
#define KIT_9(a, ...) cmocka_unit_test(a), KIT_8(__VA_ARGS__)
#define KIT_10(a, ...) cmocka_unit_test(a), KIT_9(__VA_ARGS__)
#define KIT_11(a, ...) cmocka_unit_test(a), KIT_10(__VA_ARGS__)
#define KIT_12(a, ...) cmocka_unit_test(a), KIT_11(__VA_ARGS__)
#define KIT_13(a, ...) cmocka_unit_test(a), KIT_12(__VA_ARGS__)
#define KIT_14(a, ...) cmocka_unit_test(a), KIT_13(__VA_ARGS__)
#define KIT_15(a, ...) cmocka_unit_test(a), KIT_14(__VA_ARGS__)
#define KIT_16(a, ...) cmocka_unit_test(a), KIT_15(__VA_ARGS__)
#define KIT_17(a, ...) cmocka_unit_test(a), KIT_16(__VA_ARGS__)

/* ---- Status and message of a call ---- */

/* The call succeeds; otherwise the test fails with the library's message. */
#define assert_ok(call)                                               \
    do {                                                              \
        if ((call) != QS_OK) fail_msg("%s: %s", #call, qs_message()); \
    } while (0)

/* The library's last message holds `part`. */
#define assert_message(part) kit_message_check(part, __FILE__, __LINE__)

/* The call fails with `status`, and its message holds `part`. */
#define assert_refused(call, status, part)  \
    do {                                    \
        assert_int_equal((call), (status)); \
        assert_message(part);               \
    } while (0)

static inline void kit_message_check(const char *part, const char *file, int line) {
    if (strstr(qs_message(), part)) return;
    print_error("message \"%s\" does not say \"%s\"\n", qs_message(), part);
    _fail(file, line);
}

/* ---- Scalars with a tolerance ---- */

/* |got - expected| <= allowed; a NaN on either side fails. The caller says in a comment where `allowed` comes from: the format's epsilon
 * times what the length of a sum makes of it. */
#define assert_within(got, expected, allowed) kit_within_check(got, expected, allowed, #got, __FILE__, __LINE__)

/* The same with `allowed` relative to |expected|. */
#define assert_near(got, expected, relative) kit_within_check(got, expected, (relative)*fabs(expected), #got, __FILE__, __LINE__)

static inline void kit_within_check(double got, double expected, double allowed, const char *what, const char *file, int line) {
    if (fabs(got - expected) <= allowed) return;
    print_error("%s is %.17g, expected %.17g within %.3g\n", what, got, expected, allowed);
    _fail(file, line);
}

/* ---- Small tools ---- */

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

static inline uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* `text` with the first `from`, which must be there, replaced by `to`. The caller frees. */
static inline char *replaced(const char *text, const char *from, const char *to) {
    const char *at = strstr(text, from);
    assert_non_null(at);
    const size_t bytes = strlen(text) + strlen(to) + 1;
    char *out = malloc(bytes);
    assert_non_null(out);
    snprintf(out, bytes, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return out;
}

#endif
