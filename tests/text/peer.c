// SPDX-License-Identifier: Apache-2.0
// labels: long
/* 100,000 random strings have the ids that the Python package tokenizers gives them, by BERT's and by GPT-2's vocabulary; peer.py says of
 * which characters they are made.
 * QSYNC_PYTHON names the Python that has it (python3). Skipped where there is none. */
#include "cases.h"

#include <sys/wait.h>

enum { strings = 100000, most_bytes = 1 << 12, most_ids = 1 << 12 };

static uint32_t number_read(FILE *file) {
    uint32_t number = 0;
    assert_int_equal(fread(&number, sizeof number, 1, file), 1);
    return number;
}

/* Whether the ids that come next in the file are those of the text. */
static bool ids_agree(FILE *file, const qs_tokenizer *tokenizer, const char *text, size_t bytes) {
    static uint32_t expected[most_ids];
    const uint32_t count = number_read(file);
    assert_true(count <= most_ids);
    assert_int_equal(fread(expected, sizeof *expected, count, file), count);
    qs_tokens tokens = {0};
    assert_ok(qs_tokenizer_encode(tokenizer, text, bytes, &tokens));
    bool agree = tokens.count == count && tokens.invalid == 0;
    for (size_t i = 0; agree && i < count; i++)
        agree = tokens.id[i] == (int32_t)expected[i];
    qs_tokens_release(&tokens);
    return agree;
}

TEST(random_strings_have_the_ids_of_tokenizers) {
    char *bert = strdup(shared_path("vocab/bert-uncased/vocab.txt")), *gpt2 = strdup(shared_path("vocab/gpt2"));
    static char command[2048], text[most_bytes];
    const char *python = getenv("QSYNC_PYTHON"), *source = getenv("QS_SOURCE");
    if (!source) skip();
    snprintf(command, sizeof command, "'%s' '%s/tests/text/peer.py' %d '%s' '%s' > '%s/ids'", python ? python : "python3", source, strings,
             bert, gpt2, test_folder);
    const int ended = system(command);
    if (WIFEXITED(ended) && (WEXITSTATUS(ended) == 77 || WEXITSTATUS(ended) == 127)) skip();
    assert_int_equal(ended, 0);
    qs_tokenizer *word = tokenizer_open(bert), *pair = tokenizer_open(gpt2);
    snprintf(command, sizeof command, "%s/ids", test_folder);
    FILE *file = fopen(command, "rb");
    assert_non_null(file);
    int wrong = 0;
    for (int i = 0; i < strings; i++) {
        const uint32_t bytes = number_read(file);
        assert_true(bytes <= most_bytes);
        assert_int_equal(fread(text, 1, bytes, file), bytes);
        const bool by_words = ids_agree(file, word, text, bytes), by_pairs = ids_agree(file, pair, text, bytes);
        wrong += !by_words || !by_pairs;
        if (!by_words && wrong < 4) print_message("WordPiece, string %d: %.*s\n", i, (int)bytes, text);
        if (!by_pairs && wrong < 4) print_message("pairs, string %d: %.*s\n", i, (int)bytes, text);
    }
    assert_int_equal(wrong, 0);
    fclose(file);
    qs_tokenizer_close(word);
    qs_tokenizer_close(pair);
    free(bert);
    free(gpt2);
}

TEST_MAIN_WITH(text_setup, text_teardown, random_strings_have_the_ids_of_tokenizers)
