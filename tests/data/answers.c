// SPDX-License-Identifier: Apache-2.0
// labels: short
/* How right a text is beside the answers of a question: words as SQuAD 1.1 counts them, the best answer of each measure. */
#include "kit/kit.h"

#include "qsync/data.h"

static void score(const char *guess, int answers, const char *const *answer, double exact, double f1) {
    int64_t first[] = {0, 0, answers};
    double is_exact, is_f1;
    const qs_answers set = {.questions = 2, .first_answer = first, .answer = (const char **)(uintptr_t)answer};
    assert_ok(qs_answers_score(&set, 1, guess, strlen(guess), &is_exact, &is_f1));
    if (is_exact != exact || fabs(is_f1 - f1) > 1e-15) fail_msg("\"%s\": exact %g, f1 %g", guess, is_exact, is_f1);
    assert_ok(qs_answers_score(&set, 0, guess, strlen(guess), &is_exact, &is_f1));
    assert_true(is_exact == 0 && is_f1 == 0); /* a question without answers */
}
#define SCORE(guess, exact, f1, ...) \
    score(guess, (int)(sizeof(const char *[]){__VA_ARGS__} / sizeof(char *)), (const char *const[]){__VA_ARGS__}, exact, f1)

/* Capitals, punctuation, articles and spaces do not matter. */
TEST(words) {
    SCORE("Denver Broncos", 1, 1, "The Denver  Broncos!");
    SCORE("the", 1, 0, "A"); /* nothing is left of either: equal, but no word in common */
    SCORE("a theatre, an antenna", 1, 1, "theatre antenna");
    SCORE("U.S.", 1, 1, "us");
    SCORE("2\t\n3", 1, 1, "2 3");
    SCORE("", 0, 0, "word");
    SCORE("caf\xc3\xa9", 1, 1, "Caf\xc3\xa9");
}

/* Words count as often as both have them. */
TEST(overlap) {
    SCORE("cat sat", 0, 0.8, "cat sat on");
    SCORE("to be or not to be", 0, 2 * 3.0 / (6 + 3), "to be to");
    SCORE("be be be", 0, 2 * 1.0 / (3 + 2), "be not");
    SCORE("sat cat", 0, 1, "cat sat");
    SCORE("dog", 0, 0, "cat");
}

/* Each measure takes its own best answer. */
TEST(best_answer) {
    SCORE("cat", 1, 1, "dog", "cat", "cat sat");
    SCORE("cat sat", 0, 0.8, "dog", "cat sat on", "cat");
}

TEST_MAIN(words, overlap, best_answer)
