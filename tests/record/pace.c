// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Traces of paces: what a line says, from which step on; what is wrong is told with file and line. */
#include "kit/kit.h"

#include "qsync/pace.h"

static qs_class classes[2] = {{.name = "big"}, {.name = "weak"}};
static const qs_cluster cluster = {.classes = 2, .class_ = classes};

TEST(points_hold_until_the_next) {
    qs_pace_trace trace;
    assert_ok(qs_pace_trace_parse("# recorded\n\n3 weak 0.6\n 3\tbig 0.5 0.25 # both\r\n10 weak 1\n", "trace", &cluster, &trace));
    assert_int_equal(trace.points, 3);
    const struct {
        int64_t step;
        double weak, big, big_memory;
    } at[] = {{0, 1, 1, 1}, {1, 1, 1, 1}, {2, 0.6, 0.5, 0.25}, {8, 0.6, 0.5, 0.25}, {9, 1, 0.5, 0.25}, {1000, 1, 0.5, 0.25}};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        const qs_pace weak = qs_pace_trace_at(&trace, 1, at[i].step), big = qs_pace_trace_at(&trace, 0, at[i].step);
        assert_true(weak.compute == at[i].weak && weak.memory == at[i].weak && weak.all_reduce == 1);
        assert_true(big.compute == at[i].big && big.memory == at[i].big_memory && big.all_reduce == 1);
    }
    qs_pace_trace_release(&trace);
}

TEST(what_is_wrong_is_told_with_its_line) {
    static const struct {
        const char *text, *told;
    } bad[] = {
        {"1 weak\n", "trace:1: a point is a line of STEP CLASS COMPUTE [MEMORY]"},
        {"1 weak 1 1 1\n", "trace:1: a point is a line"},
        {"# one\n1 weak 1\n5 strong 0.5", "trace:3: no class \"strong\"; classes: big, weak"},
        {"0 weak 1\n", "trace:1: step 0: a whole number, at least 1"},
        {"1.5 weak 1\n", "trace:1: step 1.5: a whole number"},
        {"9 weak 1\n8 big 1\n", "trace:2: step 8: not before 9"},
        {"1 weak 1.2\n", "trace:1: compute 1.2: a pace from 0.01 to 1"},
        {"1 weak 0\n", "trace:1: compute 0: a pace"},
        {"1 weak nan\n", "trace:1: compute nan: a pace"},
        {"1 weak 1 half\n", "trace:1: memory half: a pace"},
        {"# nothing\n", "trace:2: no line has a point"},
        {"", "trace:1: no line has a point"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        qs_pace_trace trace;
        assert_refused(qs_pace_trace_parse(bad[i].text, "trace", &cluster, &trace), QS_BAD_FILE, bad[i].told);
        assert_true(trace.points == 0 && trace.point == NULL);
    }
}

TEST_MAIN(points_hold_until_the_next, what_is_wrong_is_told_with_its_line)
