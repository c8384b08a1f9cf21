// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Pieces with scores, llama2.c's file: merging by the best score, bytes where nothing fits, decoding; damaged files; the published 512
 * pieces. */
#include "cases.h"

enum { FIRST_BYTE = 3, SPACE = 259, A, B, C, AB, BC, ABC, SPACE_A, LETTERS };

static unsigned char file[1 << 13];
static size_t file_bytes;

static void put(const void *data, size_t bytes) {
    memcpy(file + file_bytes, data, bytes);
    file_bytes += bytes;
}

static void piece_put(float score, const char *piece) {
    const int32_t length = (int32_t)strlen(piece);
    put(&score, sizeof score);
    put(&length, sizeof length);
    put(piece, strlen(piece));
}

static const char *small_write(void) {
    static const struct {
        float score;
        const char *piece;
    } letters[] = {{-9, " "}, {-9, "a"}, {-9, "b"}, {-9, "c"}, {-2, "ab"}, {-1, "bc"}, {-3, "abc"}, {-0.5f, " a"}};
    char name[8];
    file_bytes = 0;
    put(&(int32_t){6}, 4);
    piece_put(0, "<unk>");
    piece_put(0, "<s>");
    piece_put(0, "</s>");
    for (unsigned i = 0; i < 256; i++) {
        snprintf(name, sizeof name, "<0x%02X>", i);
        piece_put(0, name);
    }
    for (size_t i = 0; i < COUNT_OF(letters); i++)
        piece_put(letters[i].score, letters[i].piece);
    return vocabulary_write("small.bin", file, file_bytes);
}

TEST(the_best_score_is_merged_first) {
    qs_tokenizer *tokenizer = tokenizer_open(small_write());
    assert_int_equal(qs_tokenizer_size(tokenizer), LETTERS);
    assert_ids(tokenizer, "", "");
    assert_ids(tokenizer, "b", "259 261");
    assert_ids(tokenizer, "ab", "266 261");                /* the space before a text takes the a: -0.5 before -2 */
    assert_ids(tokenizer, "babc", "259 261 265");          /* bc, then abc */
    assert_ids(tokenizer, "x\xC3\xA9", "259 123 198 172"); /* no pieces: their bytes, 3 on */
    qs_tokenizer_close(tokenizer);
}

TEST(decoding_gives_the_text_back) {
    static const char text[] = "abc\n\xC3\xA9 \xFF";
    qs_tokenizer *tokenizer = tokenizer_open(small_write());
    qs_tokens tokens = {0};
    int32_t id[64] = {qs_tokenizer_special(tokenizer, QS_SPECIAL_START)};
    char *again = NULL;
    size_t bytes = 0;
    assert_ok(qs_tokenizer_encode(tokenizer, text, sizeof text - 1, &tokens));
    assert_int_equal(tokens.invalid, 1);
    memcpy(id + 1, tokens.id, tokens.count * sizeof *id);
    assert_ok(qs_tokenizer_decode(tokenizer, tokens.id, tokens.count, &again, &bytes));
    assert_int_equal(bytes, sizeof text); /* with the space before a text */
    assert_memory_equal(again + 1, text, sizeof text - 1);
    free(again);
    const char *piece;
    size_t count;
    bool separated;
    assert_ok(qs_tokenizer_piece(tokenizer, 1, SPACE_A, &piece, &count, &separated));
    assert_int_equal(count, 1); /* behind <s> without its space */
    assert_int_equal(*piece, 'a');
    assert_false(separated);
    qs_tokens_release(&tokens);
    qs_tokenizer_close(tokenizer);
}

TEST(damaged_files_are_refused) {
    small_write();
    const size_t whole = file_bytes;
    open_refused(vocabulary_write("small.bin", file, 0), QS_BAD_FILE, "0 bytes");
    open_refused(vocabulary_write("small.bin", file, whole - 1), QS_BAD_FILE, "in the file");
    open_refused(vocabulary_write("small.bin", file, whole - 8), QS_BAD_FILE, "ends within a score");
    open_refused(vocabulary_write("small.bin", file, 28), QS_BAD_FILE, "2 pieces, must be at least 259");
    file[12] = 'x'; /* the first piece begins here: its length stays */
    memcpy(file + 8, &(int32_t){1 << 30}, 4);
    open_refused(vocabulary_write("small.bin", file, whole), QS_BAD_FILE, "offset 4: piece 0");
    small_write();
    memcpy(file, &(int32_t){-1}, 4);
    open_refused(vocabulary_write("small.bin", file, whole), QS_BAD_FILE, "offset 0: the longest piece");
    small_write();
    char *byte = memmem(file, whole, "<0x41>", 6);
    byte[4] = '2';
    open_refused(vocabulary_write("small.bin", file, whole), QS_BAD_FILE, "must be <0x41>");
}

/* The ids of the first story's beginning, as llama2.c's encoder gives them. */
TEST(published_pieces) {
    qs_tokenizer *tokenizer = tokenizer_open(shared_path("models/stories260K/tok512.bin"));
    assert_int_equal(qs_tokenizer_size(tokenizer), 512);
    assert_ids(tokenizer, "Once upon a time, there was a little girl named Lily.",
               "403 407 261 378 432 383 286 261 376 298 315 421 395 317 426");
    qs_tokenizer_close(tokenizer);
}

TEST_MAIN_WITH(text_setup, text_teardown, the_best_score_is_merged_first, decoding_gives_the_text_back, damaged_files_are_refused,
               published_pieces)
