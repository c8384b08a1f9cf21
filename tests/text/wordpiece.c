// SPDX-License-Identifier: Apache-2.0
// labels: short
/* WordPiece: normalisation, cutting and covering on a small vocabulary; the published strings with BERT's; damaged vocabularies. */
#include "cases.h"

/* Ids by line: [PAD] 0 ... */
static const char small[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nhe\n##llo\nhello\n##l\n##o\ncafe\n,\n\xE4\xB8\xAD\na\n##a\n\xE2\x80\x94\n";
enum { PAD, UNK, CLS, SEP, HE, LLO_, HELLO, L_, O_, CAFE, COMMA, MIDDLE, A, A_, DASH };

static qs_tokenizer *small_open(void) {
    return tokenizer_open(vocabulary_write("vocab.txt", small, sizeof small - 1));
}

TEST(words_are_covered_from_the_left_by_the_longest_pieces) {
    qs_tokenizer *tokenizer = small_open();
    assert_int_equal(qs_tokenizer_size(tokenizer), DASH + 1);
    assert_ids(tokenizer, "hello", "6");
    assert_ids(tokenizer, "hellol", "6 7");
    assert_ids(tokenizer, "hellllo he", "4 7 7 5 4");
    assert_ids(tokenizer, "hellox", "1"); /* one character that nothing covers makes the word unknown */
    assert_ids(tokenizer, "", "");
    assert_ids(tokenizer, " \t\r\n", "");
    qs_tokenizer_close(tokenizer);
}

TEST(text_is_normalized) {
    qs_tokenizer *tokenizer = small_open();
    assert_ids(tokenizer, "HELLO", "6");
    assert_ids(tokenizer, "CAF\xC3\x89", "9");       /* composed */
    assert_ids(tokenizer, "cafe\xCC\x81", "9");      /* decomposed */
    assert_ids(tokenizer, "he\xE2\x80\x8Bllo", "6"); /* U+200B is dropped */
    assert_ids(tokenizer, "he\xC2\xA0he", "4 4");    /* no-break space */
    assert_ids(tokenizer, "hello,he\xE2\x80\x94", "6 10 4 14");
    assert_ids(tokenizer, "he\xE4\xB8\xAD\xE4\xB8\xADhe", "4 11 11 4");
    assert_ids(tokenizer, "he\xEF\xBC\x8Che", "4 1 4"); /* a fullwidth comma is punctuation that this vocabulary lacks */
    qs_tokenizer_close(tokenizer);
}

TEST(a_word_of_more_than_100_characters_is_unknown) {
    qs_tokenizer *tokenizer = small_open();
    char word[102];
    memset(word, 'a', sizeof word);
    qs_tokens tokens = {0};
    assert_ok(qs_tokenizer_encode(tokenizer, word, 100, &tokens));
    assert_int_equal(tokens.count, 100);
    qs_tokens_clear(&tokens);
    assert_ok(qs_tokenizer_encode(tokenizer, word, 101, &tokens));
    assert_int_equal(tokens.count, 1);
    assert_int_equal(tokens.id[0], UNK);
    assert_int_equal(tokens.end[0], 101);
    qs_tokens_release(&tokens);
    qs_tokenizer_close(tokenizer);
}

TEST(what_is_no_utf8_is_dropped_and_counted) {
    qs_tokenizer *tokenizer = small_open();
    int64_t invalid = 0;
    assert_string_equal(ids_of(tokenizer, "he\xFFllo \xC3(", 9, &invalid), "6 1");
    assert_int_equal(invalid, 2);
    assert_string_equal(ids_of(tokenizer, "he\0llo \xED\xA0\x80", 10, &invalid), "6"); /* NUL; a surrogate */
    assert_int_equal(invalid, 3);
    qs_tokenizer_close(tokenizer);
}

TEST(places_are_those_of_the_text_as_given) {
    static const char text[] = " Caf\xC3\x89, hellOL\xE4\xB8\xAD";
    static const int64_t places[][3] = {{CAFE, 1, 6}, {COMMA, 6, 7}, {HELLO, 8, 13}, {L_, 13, 14}, {MIDDLE, 14, 17}};
    qs_tokenizer *tokenizer = small_open();
    qs_tokens tokens = {0};
    assert_ok(qs_tokenizer_encode(tokenizer, text, sizeof text - 1, &tokens));
    assert_int_equal(tokens.count, COUNT_OF(places));
    for (size_t i = 0; i < tokens.count; i++) {
        assert_int_equal(tokens.id[i], places[i][0]);
        assert_int_equal(tokens.begin[i], places[i][1]);
        assert_int_equal(tokens.end[i], places[i][2]);
    }
    qs_tokens_release(&tokens);
    qs_tokenizer_close(tokenizer);
}

TEST(frames_and_decoding) {
    static const int32_t first[] = {HE, LLO_}, second[] = {COMMA}, one[] = {CLS, HE, LLO_, SEP}, two[] = {CLS, HE, LLO_, SEP, COMMA, SEP};
    qs_tokenizer *tokenizer = small_open();
    int32_t id[8], type[8];
    char *text = NULL;
    size_t bytes = 0;
    assert_int_equal(qs_tokenizer_frame(tokenizer, first, 2, NULL, 0, id, NULL), 4);
    assert_memory_equal(id, one, sizeof one);
    assert_int_equal(qs_tokenizer_frame(tokenizer, first, 2, second, 1, id, type), 6);
    assert_memory_equal(id, two, sizeof two);
    for (int i = 0; i < 6; i++)
        assert_int_equal(type[i], i >= 4);
    assert_int_equal(qs_tokenizer_second(tokenizer, 2), 4);
    assert_int_equal(qs_tokenizer_frame_extra(tokenizer, false), 2);
    assert_int_equal(qs_tokenizer_frame_extra(tokenizer, true), 3);
    assert_ok(qs_tokenizer_decode(tokenizer, id, 6, &text, &bytes));
    assert_string_equal(text, "[CLS] hello [SEP] , [SEP]");
    assert_int_equal(bytes, strlen(text));
    free(text);
    id[3] = DASH + 1;
    assert_refused(qs_tokenizer_decode(tokenizer, id, 6, &text, &bytes), QS_USAGE, "id 15");
    assert_int_equal(qs_tokenizer_special(tokenizer, QS_SPECIAL_PADDING), PAD);
    assert_int_equal(qs_tokenizer_special(tokenizer, QS_SPECIAL_MASK), -1);
    qs_tokenizer_close(tokenizer);
}

TEST(damaged_vocabularies_are_refused) {
    static char text[4096];
    open_refused(vocabulary_write("twice.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n[UNK]\n", 31), QS_BAD_FILE,
                 "twice.txt: line 6: piece '[UNK]' is on line 2");
    open_refused(vocabulary_write("lacking.txt", "[PAD]\n[UNK]\n[CLS]\na\n", 20), QS_BAD_FILE, "no piece [SEP]");
    open_refused(vocabulary_write("blank.txt", "[PAD]\n\n", 7), QS_BAD_FILE, "line 2: empty");
    open_refused(vocabulary_write("empty.txt", "", 0), QS_BAD_FILE, "empty");
    memset(text, 'x', sizeof text);
    open_refused(vocabulary_write("long.txt", text, sizeof text), QS_BAD_FILE, "line 1: 4096 bytes");
    open_refused("/nowhere/vocab.txt", QS_BAD_FILE, "/nowhere/vocab.txt");
    open_refused("/nowhere/vocab.xml", QS_USAGE, "vocab.xml");
    open_refused("/", QS_BAD_FILE, "no vocab.txt");
}

TEST(published_strings) {
    qs_tokenizer *tokenizer = tokenizer_open(shared_path("vocab/bert-uncased/vocab.txt"));
    assert_int_equal(qs_tokenizer_size(tokenizer), 30522);
    assert_int_equal(qs_tokenizer_special(tokenizer, QS_SPECIAL_START), 101);
    assert_int_equal(qs_tokenizer_special(tokenizer, QS_SPECIAL_SEPARATOR), 102);
    assert_int_equal(qs_tokenizer_special(tokenizer, QS_SPECIAL_MASK), 103);
    cases_check(tokenizer, "vocab/cases/ggml-vocab-bert-bge.gguf.inp", "vocab/cases/ggml-vocab-bert-bge.gguf.out");
    qs_tokenizer_close(tokenizer);
}

TEST_MAIN_WITH(text_setup, text_teardown, words_are_covered_from_the_left_by_the_longest_pieces, text_is_normalized,
               a_word_of_more_than_100_characters_is_unknown, what_is_no_utf8_is_dropped_and_counted, places_are_those_of_the_text_as_given,
               frames_and_decoding, damaged_vocabularies_are_refused, published_strings)
