// SPDX-License-Identifier: Apache-2.0
/* Byte-level pair encoding as GPT-2 (Radford et al. 2019): text is cut into words, each begins as its bytes, and the neighbours that the
 * list of merges names first are merged first. The vocabulary's files write bytes as characters that can be seen. */
#include "text_internal.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const size_t most_file_bytes = (size_t)1 << 28;
enum { written_bytes = 324 }; /* the characters that stand for bytes are below this */

struct qs__rule {
    int32_t left, right, merged; /* left -1: a free slot */
    int32_t rank;
};

/* ---- Cutting text into words ------------------------------------------------------------------------------------------------------- */

/* Classes of characters that GPT-2's expression tells apart; what is no UTF-8 is of the last one. */
typedef enum sort { SORT_WHITE, SORT_LETTER, SORT_NUMBER, SORT_OTHER } sort;

static sort sort_at(const char *text, size_t bytes, size_t *length, int64_t *invalid) {
    bool valid;
    const int32_t character = qs__character_at(text, bytes, length, &valid);
    *invalid += !valid;
    if (!valid) return SORT_OTHER;
    if (qs__is_white(character)) return SORT_WHITE;
    return qs__is_letter(character) ? SORT_LETTER : qs__is_number(character) ? SORT_NUMBER : SORT_OTHER;
}

/* Bytes of 's 't 're 've 'm 'll 'd at the front, or 0. */
static size_t contraction(const char *text, size_t bytes) {
    static const char *const endings[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const size_t length = strlen(endings[i]);
        if (bytes >= length && memcmp(text, endings[i], length) == 0) return length;
    }
    return 0;
}

/* Bytes of the word at the front, by GPT-2's expression: a contraction; a run of letters, of numbers or of other characters, with one
 * space before it if there is one; or white space, without its last character where a word follows. */
static size_t word_length(const char *text, size_t bytes, int64_t *invalid) {
    size_t length = contraction(text, bytes), step, last = 0;
    int64_t ignored = 0;
    if (length > 0) return length;
    const size_t space = text[0] == ' ' ? 1 : 0;
    if (bytes > space) {
        const sort first = sort_at(text + space, bytes - space, &step, &ignored);
        for (length = space; first != SORT_WHITE && length < bytes; length += step) {
            int64_t wrong = 0;
            if (sort_at(text + length, bytes - length, &step, &wrong) != first) return length;
            *invalid += wrong;
        }
        if (first != SORT_WHITE) return length;
    }
    for (length = 0; length < bytes; length += step) {
        if (sort_at(text + length, bytes - length, &step, &ignored) != SORT_WHITE) return length > last ? length - last : length;
        last = step;
    }
    return length;
}

/* ---- Encoding ------------------------------------------------------------------------------------------------------------------------ */

static size_t slot_of(const struct qs__rule *rules, size_t slots, int32_t left, int32_t right) {
    const int32_t pair[] = {left, right};
    size_t slot = (size_t)qs_hash(pair, sizeof pair, 0) & (slots - 1);
    while (rules[slot].left >= 0 && (rules[slot].left != left || rules[slot].right != right))
        slot = (slot + 1) & (slots - 1);
    return slot;
}

static int32_t pair_rule(const qs_tokenizer *tokenizer, int32_t left, int32_t right, float *order) {
    const struct qs__rule *rule = &tokenizer->rules[slot_of(tokenizer->rules, tokenizer->rule_slots, left, right)];
    if (rule->left < 0) return -1;
    *order = (float)rule->rank; /* below 2^24: exact */
    return rule->merged;
}

static qs_status pairs_encode(const qs_tokenizer *tokenizer, const char *text, size_t bytes, qs_tokens *out) {
    qs__symbols symbols = {0};
    qs_status status = QS_OK;
    for (size_t begin = 0, length; begin < bytes; begin += length) {
        length = word_length(text + begin, bytes - begin, &out->invalid);
        for (size_t i = begin; i < begin + length; i++)
            QS_GOTO(qs__symbols_add(&symbols, tokenizer->byte_id[(unsigned char)text[i]], i, i + 1));
        QS_GOTO(qs__symbols_merge(&symbols, tokenizer, pair_rule, out));
    }
done:
    qs__symbols_release(&symbols);
    return status;
}

static void pairs_piece(const qs_tokenizer *tokenizer, int32_t previous, int32_t id, const char **bytes, size_t *count, bool *separated) {
    (void)previous;
    *bytes = qs__vocabulary_piece(&tokenizer->pieces, id, count);
    *separated = false;
}

/* ---- Loading ------------------------------------------------------------------------------------------------------------------------*/

/* Bytes by the character that stands for them: those that can be seen in Latin-1 by themselves, the others in order by the characters
 * from 256 on; -1 for characters that stand for none. */
static void bytes_by_character(int byte[written_bytes]) {
    int other = 256;
    memset(byte, 0xff, written_bytes * sizeof *byte);
    for (int i = 0; i < 256; i++) {
        const bool seen = (i >= '!' && i <= '~') || (i >= 0xA1 && i <= 0xAC) || i >= 0xAE;
        byte[seen ? i : other++] = i;
    }
}

/* A written piece as the bytes it stands for; pieces with other characters (roles, as "<|\u2026|>") stand for themselves. */
static size_t piece_bytes(const int byte[written_bytes], const char *written, size_t bytes, char *out) {
    size_t count = 0, length;
    for (size_t at = 0; at < bytes; at += length) {
        bool valid;
        const int32_t character = qs__character_at(written + at, bytes - at, &length, &valid);
        if (!valid || character >= written_bytes || byte[character] < 0) {
            memcpy(out, written, bytes);
            return bytes;
        }
        out[count++] = (char)byte[character];
    }
    return count;
}

/* The pieces of a JSON object in the order of their ids, checked: 0 .. size - 1, each once. */
static qs_status pieces_order(const char *path, json_t *object, const char ***written) {
    const size_t count = json_object_size(object);
    const char *key;
    json_t *value;
    if (count == 0 || count > QS__MOST_PIECES)
        return qs_fail(QS_BAD_FILE, "%s: %zu pieces, must be 1 to %d: {\"piece\": id, ...}", path, count, QS__MOST_PIECES);
    QS_TRY(qs_allocate(count, sizeof **written, written));
    json_object_foreach(object, key, value) {
        const json_int_t id = json_integer_value(value);
        if (!json_is_integer(value) || id < 0 || id >= (json_int_t)count)
            return qs_fail(QS_BAD_FILE, "%s: the id of piece '%.80s' must be an integer from 0 to %zu", path, key, count - 1);
        if ((*written)[id])
            return qs_fail(QS_BAD_FILE, "%s: pieces '%.80s' and '%.80s' both have id %lld", path, (*written)[id], key, (long long)id);
        if (strlen(key) > QS__MOST_PIECE_BYTES)
            return qs_fail(QS_BAD_FILE, "%s: piece %lld has %zu bytes, must be at most %d", path, (long long)id, strlen(key),
                           QS__MOST_PIECE_BYTES);
        (*written)[id] = key;
    }
    return QS_OK;
}

static qs_status pieces_read(const char *path, const int byte[written_bytes], qs_tokenizer *out) {
    char *data = NULL, piece[QS__MOST_PIECE_BYTES];
    const char **written = NULL;
    size_t bytes = 0;
    json_error_t error;
    json_t *root = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs_file_read(path, most_file_bytes, &data, &bytes));
    root = json_loadb(data, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        QS_GOTO(qs_fail(QS_BAD_FILE, "%s: line %d, column %d: %s", path, error.line > 0 ? error.line : 1,
                        error.column > 0 ? error.column : 0, bytes ? error.text : "the file is empty"));
    if (!json_is_object(root)) QS_GOTO(qs_fail(QS_BAD_FILE, "%s: line 1: must be an object {\"piece\": id, ...}", path));
    QS_GOTO(pieces_order(path, root, &written));
    for (size_t id = 0; id < json_object_size(root); id++) {
        int32_t before;
        QS_GOTO(qs__vocabulary_add(&out->pieces, piece, piece_bytes(byte, written[id], strlen(written[id]), piece), &before));
        if (before >= 0) QS_GOTO(qs_fail(QS_BAD_FILE, "%s: piece '%.80s' is there twice, as %d and %zu", path, written[id], before, id));
    }
    for (int i = 0; i < 256; i++) {
        const char one = (char)i;
        out->byte[i] = one;
        out->byte_id[i] = qs__vocabulary_find(&out->pieces, &one, 1);
        if (out->byte_id[i] < 0) QS_GOTO(qs_fail(QS_BAD_FILE, "%s: no piece for byte %d, must have one for each of 256", path, i));
    }
done:
    free(written);
    json_decref(root);
    free(data);
    return status;
}

static qs_status merge_read(const qs__lines *lines, const int byte[written_bytes], const char *line, size_t bytes, int32_t rank,
                            qs_tokenizer *out) {
    char piece[2 * QS__MOST_PIECE_BYTES];
    if (bytes > QS__MOST_PIECE_BYTES) return qs__lines_fail(lines, "%zu bytes, a merge has at most %d", bytes, QS__MOST_PIECE_BYTES);
    const char *space = memchr(line, ' ', bytes), *end = line + bytes;
    if (!space || space == line || space + 1 == end || memchr(space + 1, ' ', (size_t)(end - space - 1)))
        return qs__lines_fail(lines, "'%.*s' must be two pieces with one space between them", (int)bytes, line);
    const size_t left_bytes = piece_bytes(byte, line, (size_t)(space - line), piece);
    const size_t right_bytes = piece_bytes(byte, space + 1, (size_t)(end - space - 1), piece + left_bytes);
    const int32_t left = qs__vocabulary_find(&out->pieces, piece, left_bytes);
    const int32_t right = qs__vocabulary_find(&out->pieces, piece + left_bytes, right_bytes);
    const int32_t merged = qs__vocabulary_find(&out->pieces, piece, left_bytes + right_bytes);
    if (left < 0 || right < 0 || merged < 0)
        return qs__lines_fail(lines, "merge '%.*s': %s is no piece of the vocabulary", (int)bytes, line,
                              left < 0    ? "the first"
                              : right < 0 ? "the second"
                                          : "what they make");
    struct qs__rule *rule = &out->rules[slot_of(out->rules, out->rule_slots, left, right)];
    if (rule->left >= 0) return qs__lines_fail(lines, "merge '%.*s' is there already", (int)bytes, line);
    *rule = (struct qs__rule){left, right, merged, rank};
    return QS_OK;
}

static qs_status merges_read(const char *path, const int byte[written_bytes], qs_tokenizer *out) {
    char *data = NULL;
    const char *line;
    size_t bytes = 0, count = 1;
    int32_t rank = 0;
    qs_status status = QS_OK;
    QS_GOTO(qs_file_read(path, most_file_bytes, &data, &bytes));
    if (bytes == 0) QS_GOTO(qs_fail(QS_BAD_FILE, "%s: the file is empty, must hold a merge a line", path));
    for (size_t i = 0; i < bytes; i++)
        count += data[i] == '\n';
    for (out->rule_slots = 1024; out->rule_slots < 2 * count;)
        out->rule_slots *= 2;
    if (count > QS__MOST_PIECES) QS_GOTO(qs_fail(QS_BAD_FILE, "%s: %zu lines, must be at most %d", path, count, QS__MOST_PIECES));
    QS_GOTO(qs_allocate(out->rule_slots, sizeof *out->rules, &out->rules));
    for (size_t i = 0; i < out->rule_slots; i++)
        out->rules[i].left = -1;
    for (qs__lines lines = {path, data, data + bytes, 0}; qs__lines_next(&lines, &line, &bytes);) {
        const bool version = lines.number == 1 && bytes >= 8 && memcmp(line, "#version", 8) == 0;
        const bool last = bytes == 0 && lines.next == lines.end;
        if (!version && !last) QS_GOTO(merge_read(&lines, byte, line, bytes, rank++, out));
    }
done:
    free(data);
    return status;
}

qs_status qs__pairs_load(const char *pieces_path, const char *merges_path, qs_tokenizer *out) {
    static const qs__tokenizer_kind kind = {pairs_encode, pairs_piece};
    static const struct {
        qs_special special;
        const char *piece[2]; /* the second where the first is not there */
    } specials[] = {{QS_SPECIAL_UNKNOWN, {"<unk>", "<|endoftext|>"}}, {QS_SPECIAL_PADDING, {"<pad>", "<|endoftext|>"}},
                    {QS_SPECIAL_START, {"<s>", "<|endoftext|>"}},     {QS_SPECIAL_SEPARATOR, {"</s>", "<|endoftext|>"}},
                    {QS_SPECIAL_END, {"</s>", "<|endoftext|>"}},      {QS_SPECIAL_MASK, {"<mask>", "<mask>"}}};
    int byte[written_bytes];
    out->kind = &kind;
    bytes_by_character(byte);
    QS_TRY(pieces_read(pieces_path, byte, out));
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)
        for (int choice = 0; choice < 2 && out->special[specials[i].special] < 0; choice++)
            out->special[specials[i].special] =
                qs__vocabulary_find(&out->pieces, specials[i].piece[choice], strlen(specials[i].piece[choice]));
    if (out->special[QS_SPECIAL_END] < 0)
        return qs_fail(QS_BAD_FILE, "%s: neither a piece <|endoftext|> nor </s>, one must be there", pieces_path);
    return merges_read(merges_path, byte, out);
}
