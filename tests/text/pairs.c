// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Byte-level pair encoding: cutting into words, merging in the order of the list, any bytes there and back, on a small vocabulary; the
 * published strings with GPT-2's; damaged vocabularies. */
#include "cases.h"

/* A vocabulary of the 256 bytes in their own order, then `more` pieces, as JSON. Returns how many bytes it takes. */
static size_t pieces_write(char *out, size_t room, const char *const *more, size_t count) {
    size_t used = 0, other = 256;
    out[used++] = '{';
    for (int i = 0; i < 256; i++) {
        const bool seen = (i >= '!' && i <= '~') || (i >= 0xA1 && i <= 0xAC) || i >= 0xAE;
        used += (size_t)snprintf(out + used, room - used, "%s\"\\u%04x\": %d", i ? ", " : "", (unsigned)(seen ? (size_t)i : other), i);
        other += !seen;
    }
    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(out + used, room - used, ", \"%s\": %zu", more[i], 256 + i);
    used += (size_t)snprintf(out + used, room - used, "}");
    assert_true(used < room);
    return used;
}

/* "\u0120" is the space. Ids from 256 on. */
static const char *const small[] = {"ab", "bc", "abc", "\\u0120a", "ss", "<|endoftext|>", "aa"};
enum { AB = 256, BC, ABC, SPACE_A, SS, END, AA };
static const char small_merges[] = "#version: 0.2\nb c\na b\nab c\n\xC4\xA0 a\ns s\na a\n";
static char pieces[1 << 14];

static const char *small_write(void) {
    vocabulary_write("vocab.bpe", small_merges, sizeof small_merges - 1);
    return vocabulary_write("encoder.json", pieces, pieces_write(pieces, sizeof pieces, small, COUNT_OF(small)));
}

TEST(merges_go_by_rank_then_from_the_left) {
    qs_tokenizer *tokenizer = tokenizer_open(small_write());
    assert_int_equal(qs_tokenizer_size(tokenizer), 256 + (int)COUNT_OF(small));
    assert_ids(tokenizer, "ab", "256");
    assert_ids(tokenizer, "abc", "97 257"); /* b c ranks before a b, and a bc is no merge */
    assert_ids(tokenizer, "aaa", "262 97");
    assert_ids(tokenizer, "aaaaa", "262 262 97");
    assert_ids(tokenizer, "sss", "260 115");
    assert_ids(tokenizer, "x a", "120 259");
    assert_ids(tokenizer, "<|endoftext|>", "60 124 101 110 100 111 102 116 101 120 116 124 62"); /* not recognised in a text */
    for (int role = 0; role < QS_SPECIAL_MASK; role++)
        assert_int_equal(qs_tokenizer_special(tokenizer, (qs_special)role), END);
    assert_int_equal(qs_tokenizer_special(tokenizer, QS_SPECIAL_MASK), -1);
    qs_tokenizer_close(tokenizer);
}

/* Merging stops at the ends of words: the sequences below have merges across them. */
TEST(words_are_cut_as_gpt2_does) {
    static const struct {
        const char *text, *ids;
    } cases[] = {
        {"a a", "97 259"},          /* a space belongs to the word behind it */
        {"a  a", "97 32 259"},      /* of several only the last */
        {"a \n a", "97 32 10 259"}, /* ... and other white space stays alone */
        {"a  ", "97 32 32"},        /* at the end all of it */
        {"a\xC2\xA0"
         "a",
         "97 194 160 97"},                       /* a no-break space before a word is no space */
        {"s's", "115 39 115"},                   /* a contraction */
        {"a1b", "97 49 98"},                     /* letters, numbers */
        {"!'s", "33 39 115"},                    /* others take the quote with them: !' s */
        {"\xD9\xA1\xD8\xA7", "217 161 216 167"}, /* an Arabic digit and a letter */
    };
    qs_tokenizer *tokenizer = tokenizer_open(small_write());
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        assert_ids(tokenizer, cases[i].text, cases[i].ids);
    qs_tokenizer_close(tokenizer);
}

static void round_trips(const qs_tokenizer *tokenizer, uint64_t key) {
    char text[600];
    for (uint64_t round = 0; round < 300; round++) {
        const size_t bytes = qs_random_bits(key, 4096 * round) % sizeof text;
        const uint32_t mask = round % 3 == 0 ? 0xff : round % 3 == 1 ? 0x7f : 0x03; /* any; ASCII; four letters, so that merges are long */
        for (size_t i = 0; i < bytes; i++)
            text[i] = (char)((qs_random_bits(key, 4096 * round + 1 + i) & mask) + (mask == 3 ? 'a' : 0));
        qs_tokens tokens = {0};
        char *again = NULL;
        size_t again_bytes = 0;
        assert_ok(qs_tokenizer_encode(tokenizer, text, bytes, &tokens));
        for (size_t i = 0; i < tokens.count; i++) /* places follow one another and cover the text */
            assert_int_equal(tokens.begin[i], i ? tokens.end[i - 1] : 0);
        if (tokens.count) assert_int_equal(tokens.end[tokens.count - 1], bytes);
        assert_ok(qs_tokenizer_decode(tokenizer, tokens.id, tokens.count, &again, &again_bytes));
        assert_int_equal(again_bytes, bytes);
        assert_memory_equal(again, text, bytes);
        free(again);
        qs_tokens_release(&tokens);
    }
}

TEST(any_bytes_come_back) {
    qs_tokenizer *tokenizer = tokenizer_open(small_write()), *bytes = tokenizer_open("bytes");
    round_trips(tokenizer, 1);
    round_trips(bytes, 2);
    assert_int_equal(qs_tokenizer_size(bytes), 256);
    assert_int_equal(qs_tokenizer_frame_extra(bytes, true), 0);
    qs_tokenizer_close(tokenizer);
    qs_tokenizer_close(bytes);
}

TEST(what_is_no_utf8_is_counted_and_kept) {
    qs_tokenizer *tokenizer = tokenizer_open(small_write());
    int64_t invalid = 0;
    assert_string_equal(ids_of(tokenizer,
                               "\xFF"
                               "ab\xC3 \xFE!",
                               7, &invalid),
                        "255 256 195 32 254 33");
    assert_int_equal(invalid, 3);
    qs_tokenizer_close(tokenizer);
}

/* One word of 2^18 letters: merging must not take the square of that. */
TEST(a_long_word_is_merged) {
    enum { letters = 1 << 18 };
    qs_tokenizer *tokenizer = tokenizer_open(small_write());
    char *text = malloc(letters);
    qs_tokens tokens = {0};
    assert_non_null(text);
    memset(text, 'a', letters);
    assert_ok(qs_tokenizer_encode(tokenizer, text, letters, &tokens));
    assert_int_equal(tokens.count, letters / 2);
    for (size_t i = 0; i < tokens.count; i++)
        assert_int_equal(tokens.id[i], AA);
    qs_tokens_release(&tokens);
    free(text);
    qs_tokenizer_close(tokenizer);
}

TEST(the_other_pair_of_names) {
    static const char *const more[] = {"<s>", "<pad>", "</s>", "<unk>", "<mask>", "ab"};
    vocabulary_write("merges.txt", "a b", 3);
    vocabulary_write("vocab.json", pieces, pieces_write(pieces, sizeof pieces, more, COUNT_OF(more)));
    char path[128];
    snprintf(path, sizeof path, "%s/merges.txt", test_folder);
    qs_tokenizer *tokenizer = tokenizer_open(path);
    static const int32_t roles[] = {[QS_SPECIAL_UNKNOWN] = 259,   [QS_SPECIAL_PADDING] = 257, [QS_SPECIAL_START] = 256,
                                    [QS_SPECIAL_SEPARATOR] = 258, [QS_SPECIAL_END] = 258,     [QS_SPECIAL_MASK] = 260};
    for (int role = 0; role < QS_SPECIAL_COUNT; role++)
        assert_int_equal(qs_tokenizer_special(tokenizer, (qs_special)role), roles[role]);
    assert_ids(tokenizer, "ab", "261");
    qs_tokenizer_close(tokenizer);
}

static void merges_refused(const char *merges, const char *part) {
    const char *path = small_write();
    char name[256];
    snprintf(name, sizeof name, "%s", path);
    vocabulary_write("vocab.bpe", merges, strlen(merges));
    open_refused(name, QS_BAD_FILE, part);
}

static void pieces_refused(const char *from, const char *to, const char *part) {
    small_write();
    char *changed = replaced(pieces, from, to);
    open_refused(vocabulary_write("encoder.json", changed, strlen(changed)), QS_BAD_FILE, part);
    free(changed);
}

TEST(damaged_vocabularies_are_refused) {
    merges_refused("", "vocab.bpe: the file is empty");
    merges_refused("a b\na q\n", "vocab.bpe: line 2: merge 'a q': what they make is no piece");
    merges_refused("a b\nzz b\n", "line 2: merge 'zz b': the first is no piece");
    merges_refused("a b\nab\n", "line 2: 'ab' must be two pieces");
    merges_refused("a b\n\nb c\n", "line 2: '' must be two pieces");
    merges_refused("a b\nb c\na b\n", "line 3: merge 'a b' is there already");
    pieces_refused("\"ab\": 256", "\"ab\": 257", "both have id 257");
    pieces_refused("\"ab\": 256", "\"ab\": \"256\"", "piece 'ab' must be an integer");
    pieces_refused("\"ab\": 256", "\"bc\": 256", "encoder.json: line 1, column");
    pieces_refused("\"ab\": 256", "\"ab\" 256", "encoder.json: line 1, column");
    pieces_refused("\"ab\": 256", "\"ab\": 9000", "from 0 to 262");
    pieces_refused("<|endoftext|>", "<|endofword|>", "neither a piece <|endoftext|> nor </s>");
    pieces_refused("\"\\u0041\":", "\"AAA\":", "no piece for byte 65");
    open_refused(vocabulary_write("encoder.json", "", 0), QS_BAD_FILE, "the file is empty");
    open_refused(vocabulary_write("encoder.json", "[1, 2]", 6), QS_BAD_FILE, "must be an object");
    open_refused(vocabulary_write("encoder.json", "{}", 2), QS_BAD_FILE, "0 pieces");
}

TEST(published_strings) {
    qs_tokenizer *tokenizer = tokenizer_open(shared_path("vocab/gpt2"));
    assert_int_equal(qs_tokenizer_size(tokenizer), 50257);
    assert_int_equal(qs_tokenizer_special(tokenizer, QS_SPECIAL_END), 50256);
    cases_check(tokenizer, "vocab/cases/ggml-vocab-gpt-2.gguf.inp", "vocab/cases/ggml-vocab-gpt-2.gguf.out");
    round_trips(tokenizer, 3);
    qs_tokenizer_close(tokenizer);
}

TEST_MAIN_WITH(text_setup, text_teardown, merges_go_by_rank_then_from_the_left, words_are_cut_as_gpt2_does, any_bytes_come_back,
               what_is_no_utf8_is_counted_and_kept, a_long_word_is_merged, the_other_pair_of_names, damaged_vocabularies_are_refused,
               published_strings)
