// SPDX-License-Identifier: Apache-2.0
/* WordPiece as BERT uncased: text is cleaned, decomposed (NFD), freed of accents (Mn), lower-cased and cut into words at white space,
 * punctuation and ideographs; a word is covered by the longest pieces from the left, those behind its beginning written "##piece", or is
 * [UNK]. Devlin et al. 2019 and the tokenizer published with it. */
#include "text_internal.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { most_characters = 100 }; /* a longer word is unknown */
static const size_t most_file_bytes = (size_t)1 << 28;

/* A character of a normalised word and where it came from. */
typedef struct letter {
    int32_t character;
    int order;    /* canonical combining class */
    size_t place; /* within the word */
    size_t begin, end;
} letter;

typedef struct letter_list {
    letter *letter;
    size_t count, room;
} letter_list;

/* ---- Characters ------------------------------------------------------------------------------------------------------------------ */

/* Characters that the cleaning drops: NUL, U+FFFD, and categories C* (controls, formats, unassigned) but tab and line ends. */
static bool is_dropped(int32_t character) {
    if (character == '\t' || character == '\n' || character == '\r') return false;
    if (character == 0 || character == QS__REPLACEMENT) return true;
    const utf8proc_category_t category = utf8proc_category(character);
    return category == UTF8PROC_CATEGORY_CN || category >= UTF8PROC_CATEGORY_CC;
}

/* The blocks of ideographs that BERT cuts into words of one character. */
static bool is_ideograph(int32_t c) {
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
           (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B820 && c <= 0x2CEAF) ||
           (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

/* Categories P*, and all of ASCII that is neither letter, number, white space nor control. */
static bool is_punctuation(int32_t c) {
    if (c < 0x80) return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
    const utf8proc_category_t category = utf8proc_category(c);
    return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

static int letters_order(const void *left, const void *right) {
    const letter *a = left, *b = right;
    if (a->order != b->order) return a->order < b->order ? -1 : 1;
    return a->place < b->place ? -1 : 1;
}

/* Appends the canonical decomposition of a character. */
static qs_status word_add(letter_list *word, int32_t character, size_t begin, size_t end) {
    utf8proc_int32_t part[16];
    int boundary = 0;
    utf8proc_ssize_t parts = 1;
    part[0] = character;
    if (character >= 0x80) parts = utf8proc_decompose_char(character, part, 16, UTF8PROC_DECOMPOSE, &boundary);
    if (parts < 0 || parts > 16) parts = 0;
    QS_TRY(qs_grow(&word->letter, &word->room, word->count + (size_t)parts, sizeof *word->letter));
    for (utf8proc_ssize_t i = 0; i < parts; i++, word->count++)
        word->letter[word->count] = (letter){.character = part[i],
                                             .order = part[i] < 0x80 ? 0 : utf8proc_get_property(part[i])->combining_class,
                                             .place = word->count,
                                             .begin = begin,
                                             .end = end};
    return QS_OK;
}

/* Canonical order of combining characters, no accents, lower case. */
static void word_normalize(letter_list *word) {
    size_t kept = 0;
    for (size_t begin = 0, end; begin < word->count; begin = end) {
        for (end = begin + 1; end < word->count && word->letter[end].order != 0;)
            end++; /* a character and what combines with it; before it, what combines with nothing */
        const size_t combining = word->letter[begin].order == 0 ? begin + 1 : begin;
        if (end - combining > 1) qsort(word->letter + combining, end - combining, sizeof *word->letter, letters_order);
        for (size_t i = begin; i < end; i++) {
            if (utf8proc_category(word->letter[i].character) == UTF8PROC_CATEGORY_MN) continue;
            word->letter[kept] = word->letter[i];
            word->letter[kept++].character = utf8proc_tolower(word->letter[i].character);
        }
    }
    word->count = kept;
}

/* ---- Pieces ---------------------------------------------------------------------------------------------------------------------- */

/* One word: between white space, without punctuation or all of it one such character. */
static qs_status word_encode(const qs_tokenizer *tokenizer, const letter *letters, size_t count, qs_tokens *out) {
    char spelt[2 + 4 * most_characters] = "##";
    size_t at[most_characters + 1], first = out->count;
    const int32_t unknown = tokenizer->special[QS_SPECIAL_UNKNOWN];
    if (count == 0) return QS_OK;
    if (count > most_characters) return qs__tokens_add(out, unknown, letters[0].begin, letters[count - 1].end);
    at[0] = 2;
    for (size_t i = 0; i < count; i++)
        at[i + 1] = at[i] + (size_t)utf8proc_encode_char(letters[i].character, (utf8proc_uint8_t *)spelt + at[i]);
    for (size_t begin = 0; begin < count;) {
        int32_t id = -1;
        size_t end = count;
        if (begin > 0) memcpy(spelt + at[begin] - 2, "##", 2); /* over characters that are covered already */
        const char *from = spelt + at[begin] - (begin > 0 ? 2 : 0);
        while (end > begin && (id = qs__vocabulary_find(&tokenizer->pieces, from, (size_t)(spelt + at[end] - from))) < 0)
            end--;
        if (id < 0) {
            out->count = first;
            return qs__tokens_add(out, unknown, letters[0].begin, letters[count - 1].end);
        }
        QS_TRY(qs__tokens_add(out, id, letters[begin].begin, letters[end - 1].end));
        begin = end;
    }
    return QS_OK;
}

/* What stood between white space or ideographs: normalised, cut at punctuation, encoded, emptied. */
static qs_status word_finish(const qs_tokenizer *tokenizer, letter_list *word, qs_tokens *out) {
    size_t begin = 0;
    word_normalize(word);
    for (size_t i = 0; i < word->count; i++) {
        if (!is_punctuation(word->letter[i].character)) continue;
        QS_TRY(word_encode(tokenizer, word->letter + begin, i - begin, out));
        QS_TRY(word_encode(tokenizer, word->letter + i, 1, out));
        begin = i + 1;
    }
    QS_TRY(word_encode(tokenizer, word->letter + begin, word->count - begin, out));
    word->count = 0;
    return QS_OK;
}

static qs_status wordpiece_encode(const qs_tokenizer *tokenizer, const char *text, size_t bytes, qs_tokens *out) {
    letter_list word = {0};
    qs_status status = QS_OK;
    for (size_t at = 0, length; at < bytes; at += length) {
        bool valid;
        const int32_t character = qs__character_at(text + at, bytes - at, &length, &valid);
        out->invalid += !valid;
        if (is_dropped(character)) continue;
        const bool white = qs__is_white(character), ideograph = is_ideograph(character);
        if (white || ideograph) QS_GOTO(word_finish(tokenizer, &word, out));
        if (white) continue;
        QS_GOTO(word_add(&word, character, at, at + length));
        if (ideograph) QS_GOTO(word_finish(tokenizer, &word, out));
    }
    QS_GOTO(word_finish(tokenizer, &word, out));
done:
    free(word.letter);
    return status;
}

static void wordpiece_piece(const qs_tokenizer *tokenizer, int32_t previous, int32_t id, const char **bytes, size_t *count,
                            bool *separated) {
    *bytes = qs__vocabulary_piece(&tokenizer->pieces, id, count);
    const bool inside = *count > 2 && memcmp(*bytes, "##", 2) == 0;
    *separated = previous >= 0 && !inside;
    if (!inside || previous < 0) return;
    *bytes += 2;
    *count -= 2;
}

/* ---- Loading --------------------------------------------------------------------------------------------------------------------- */

qs_status qs__wordpiece_load(const char *path, qs_tokenizer *out) {
    static const qs__tokenizer_kind kind = {wordpiece_encode, wordpiece_piece};
    static const struct {
        qs_special special;
        const char *piece;
        bool needed;
    } specials[] = {{QS_SPECIAL_UNKNOWN, "[UNK]", true},
                    {QS_SPECIAL_PADDING, "[PAD]", true},
                    {QS_SPECIAL_START, "[CLS]", true},
                    {QS_SPECIAL_SEPARATOR, "[SEP]", true},
                    {QS_SPECIAL_MASK, "[MASK]", false}};
    char *data = NULL;
    const char *line;
    size_t bytes = 0;
    qs_status status = QS_OK;
    out->kind = &kind;
    QS_GOTO(qs_file_read(path, most_file_bytes, &data, &bytes));
    if (bytes == 0) QS_GOTO(qs_fail(QS_BAD_FILE, "%s: the file is empty, must hold a piece a line", path));
    for (qs__lines lines = {path, data, data + bytes, 0}; qs__lines_next(&lines, &line, &bytes);) {
        int32_t before;
        if (bytes == 0) QS_GOTO(qs__lines_fail(&lines, "empty, must be a piece"));
        if (bytes > QS__MOST_PIECE_BYTES) QS_GOTO(qs__lines_fail(&lines, "%zu bytes, a piece has at most %d", bytes, QS__MOST_PIECE_BYTES));
        QS_GOTO(qs__vocabulary_add(&out->pieces, line, bytes, &before));
        if (before >= 0) QS_GOTO(qs__lines_fail(&lines, "piece '%.*s' is on line %d already", (int)bytes, line, before + 1));
    }
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
        const int32_t id = qs__vocabulary_find(&out->pieces, specials[i].piece, strlen(specials[i].piece));
        out->special[specials[i].special] = id;
        if (id < 0 && specials[i].needed)
            QS_GOTO(qs_fail(QS_BAD_FILE, "%s: no piece %s in %d lines, must be there: a vocabulary of BERT has [UNK], [PAD], [CLS], [SEP]",
                            path, specials[i].piece, out->pieces.count));
    }
done:
    free(data);
    return status;
}
