// SPDX-License-Identifier: Apache-2.0
/* Answers to questions: how right a text is, as the script of SQuAD 1.1 counts. */
#include <stdlib.h>
#include <string.h>

#include "qsync/data.h"

void qs_answers_release(qs_answers *answers) {
    free(answers->question);
    free(answers->begin);
    free(answers->end);
    free(answers->text);
    free(answers->first_answer);
    free(answers->answer);
    free(answers->texts);
    *answers = (qs_answers){0};
}

static bool is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_punctuation(char c) {
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

static bool is_article(const char *word) {
    return strcmp(word, "a") == 0 || strcmp(word, "an") == 0 || strcmp(word, "the") == 0;
}

/* Small letters, no punctuation, no articles. The words stand in `words` (bytes + 1), each with its end; returns how many. */
static int64_t words_of(const char *text, size_t bytes, char *words) {
    int64_t count = 0;
    char *word = words, *to = words;
    for (size_t i = 0; i <= bytes; i++) {
        const char c = i < bytes ? text[i] : ' ';
        if (!is_space(c)) {
            if (!is_punctuation(c)) *to++ = (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
            continue;
        }
        if (to == word) continue;
        *to = '\0';
        if (is_article(word))
            to = word;
        else {
            count++;
            word = ++to;
        }
    }
    return count;
}

static const char *word_behind(const char *word) {
    return word + strlen(word) + 1;
}

/* Words that both have, each as often as in the one where it is rarer. Takes the words of `right` that were found away. */
static int64_t common_words(const char *guess, int64_t guesses, char *right, int64_t rights) {
    int64_t common = 0;
    for (int64_t i = 0; i < guesses; i++, guess = word_behind(guess)) {
        char *other = right;
        for (int64_t k = 0; k < rights; k++) {
            const size_t length = strlen(other);
            if (strcmp(guess, other) == 0) {
                common++;
                memset(other, ' ', length); /* no word has a space */
                break;
            }
            other += length + 1;
        }
    }
    return common;
}

static bool same_words(const char *a, int64_t as, const char *b, int64_t bs) {
    for (int64_t i = 0; as == bs && i < as; i++, a = word_behind(a), b = word_behind(b))
        if (strcmp(a, b) != 0) return false;
    return as == bs;
}

qs_status qs_answers_score(const qs_answers *answers, int64_t question, const char *text, size_t bytes, double *exact, double *f1) {
    const int64_t end = answers->first_answer[question + 1];
    char *guess = NULL, *right = NULL;
    qs_status status = QS_OK;
    *exact = *f1 = 0;
    QS_GOTO(qs_allocate(bytes + 1, 1, &guess));
    const int64_t guesses = words_of(text, bytes, guess);
    for (int64_t i = answers->first_answer[question]; i < end; i++) {
        const size_t length = strlen(answers->answer[i]);
        QS_GOTO(qs_allocate(length + 1, 1, &right));
        const int64_t rights = words_of(answers->answer[i], length, right);
        if (same_words(guess, guesses, right, rights)) *exact = 1;
        const double common = (double)common_words(guess, guesses, right, rights);
        const double here = common > 0 ? 2 * common / (double)(guesses + rights) : 0; /* 2 / (1/precision + 1/recall) */
        if (here > *f1) *f1 = here;
        free(right);
        right = NULL;
    }
done:
    free(guess);
    free(right);
    return status;
}
