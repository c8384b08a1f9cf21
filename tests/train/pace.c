// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Decisions about paces on made-up looks: what lasts is told from what passes, paces that come and go wear the run's trust down, and a plan
 * is changed where that pays. */
#include "kit/kit.h"

#include "../../src/train/pace.h"

enum { EVERY = 10 };

/* Looks of one class at a list of paces; the changes that they come to, in letters: - steady, n new, a again, p passed, L lasts. Where
 * they last the run switches. */
static char *looks(int count, const double *compute, qs__pace_changes *changes) {
    static char said[64];
    assert_ok(qs__pace_create(1, EVERY, changes));
    for (int i = 0; i < count; i++) {
        const qs_pace seen = {compute[i], 1, 1};
        const int64_t step = EVERY * (i + 1);
        const qs__change change = qs__pace_look(changes, &seen, step);
        said[i] = "-napL"[change];
        if (change == QS__LASTS) qs__pace_settle(changes, true);
    }
    said[count] = '\0';
    return said;
}

TEST(a_change_that_lasts_is_told_from_one_that_passes) {
    static const struct {
        int count;
        double compute[8];
        const char *said;
    } row[] = {
        {3, {1, 0.95, 1.05}, "---"},                       /* within a tenth */
        {4, {1, 0.5, 1, 1}, "-np-"},                       /* one look is no change */
        {4, {1, 0.5, 0.5, 0.5}, "-nL-"},                   /* two are */
        {5, {1, 0.7, 0.5, 0.52, 0.5}, "-nnL-"},            /* the window in which it changed agrees with neither */
        {3, {1.3, 1.3, 1.3}, "nL-"},                       /* faster than profiled */
        {4, {0.895, 0.89, 0.9, 0.9}, "nL--"},              /* the edge: 1 / 1.1 */
        {8, {0.5, 0.5, 1, 1, 1, 1, 0.5, 0.5}, "nLnaaLna"}, /* soon after a switch four have to agree, then eight */
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        qs__pace_changes changes;
        assert_string_equal(looks(row[i].count, row[i].compute, &changes), row[i].said);
        qs__pace_release(&changes);
    }
}

/* A pace that comes and goes every four looks for ever: no flapping; one that lasts long is followed at once again. */
TEST(a_pace_that_flaps_is_not_followed) {
    double compute[48];
    qs__pace_changes changes;
    for (int i = 0; i < 48; i++)
        compute[i] = i / 4 % 2 ? 0.5 : 1;
    const char *said = looks(48, compute, &changes);
    int switches = 0;
    for (int i = 0; i < 48; i++)
        switches += said[i] == 'L';
    if (switches > 2) fail_msg("%d switches: %s", switches, said);
    qs__pace_release(&changes);
    for (int i = 0; i < 48; i++)
        compute[i] = i < 12 || i >= 36 ? 1 : 0.5;
    said = looks(48, compute, &changes);
    assert_true(said[13] == 'L' && said[37] == 'L');
    qs__pace_release(&changes);
}

TEST(kinds_and_classes_are_looked_at_apart) {
    qs__pace_changes changes;
    const qs_pace before[2] = {{1, 1, 1}, {1, 1, 1}}, memory[2] = {{1, 1, 1}, {1, 0.5, 1}}, sums[2] = {{1, 1, 0.7}, {1, 1, 0.7}},
                  slow_sums[2] = {{1, 1, 0.5}, {1, 1, 0.5}};
    assert_ok(qs__pace_create(2, EVERY, &changes));
    assert_int_equal(qs__pace_look(&changes, before, 10), QS__STEADY);
    assert_int_equal(qs__pace_look(&changes, sums, 20), QS__STEADY); /* all-reduces say less */
    assert_int_equal(qs__pace_look(&changes, slow_sums, 30), QS__NEW);
    assert_int_equal(changes.what.kind, QS__ALL_REDUCE);
    assert_int_equal(qs__pace_look(&changes, memory, 40), QS__NEW);
    assert_true(changes.what.class_index == 1 && changes.what.kind == QS__MEMORY && changes.what.from == 1 && changes.what.to == 0.5);
    assert_int_equal(qs__pace_look(&changes, memory, 50), QS__LASTS);
    assert_int_equal(qs__pace_expected(&changes, 50, 1000), 4 * 20); /* seen for two looks */
    assert_int_equal(qs__pace_expected(&changes, 50, 60), 10);       /* that are left */
    qs__pace_settle(&changes, false);
    assert_int_equal(qs__pace_look(&changes, memory, 60), QS__STEADY); /* what was turned down is not asked again */
    qs__pace_release(&changes);
}

TEST(a_switch_has_to_pay) {
    static const struct {
        qs__bargain bargain;
        bool take;
        const char *reason;
    } row[] = {
        {{1000, 800, 1, 2, 1e4, 100, false}, true, "saves time"},
        {{1000, 800, 1, 2, 1e4, 40, false}, false, "saves less time than the switch costs"},
        {{1000, 800, 1, 2, 1e4, 100, true}, false, "the plan would be the same"},
        {{1000, 990, 1, 2, 0, 100, false}, false, "gains too little"},
        {{1000, 1005, 2, 1, 1e3, 100, false}, true, "recovers precision"},
        {{1000, 1005, 2, 1.98, 1e3, 100, false}, false, "gains too little"},
        {{1000, 1020, 2, 1, 1e3, 100, false}, false, "gains too little"},
        {{1000, 1005, 2, 1, 1e4, 100, false}, false, "recovers precision for too few steps"},
        {{1000, 1000, 0, 0, 0, 100, false}, false, "gains too little"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const qs__verdict verdict = qs__plan_weigh(&row[i].bargain);
        if (verdict.take != row[i].take || strcmp(verdict.reason, row[i].reason) != 0) fail_msg("row %zu: %s", i, verdict.reason);
    }
}

TEST_MAIN(a_change_that_lasts_is_told_from_one_that_passes, a_pace_that_flaps_is_not_followed, kinds_and_classes_are_looked_at_apart,
          a_switch_has_to_pay)
