// SPDX-License-Identifier: Apache-2.0
/* Pieces with scores, in the file of karpathy/llama2.c: an int32 (the longest piece), then for each piece a float32 score, an int32 length
 * and its bytes, little-endian, up to the end of the file. Encoding puts a space before the text, begins with characters (bytes where a
 * character is no piece) and merges the neighbours whose union has the highest score. Ids 0, 1, 2 are <unk>, <s>, </s>, ids 3 to 258 the
 * bytes, written <0x00> to <0xFF>. */
#include "text_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { unknown_id, start_id, end_id, first_byte_id };
static const size_t most_file_bytes = (size_t)1 << 28;

static int32_t scored_rule(const qs_tokenizer *tokenizer, int32_t left, int32_t right, float *order) {
    char both[2 * QS__MOST_PIECE_BYTES];
    size_t left_bytes, right_bytes;
    const char *left_piece = qs__vocabulary_piece(&tokenizer->pieces, left, &left_bytes);
    const char *right_piece = qs__vocabulary_piece(&tokenizer->pieces, right, &right_bytes);
    memcpy(both, left_piece, left_bytes);
    memcpy(both + left_bytes, right_piece, right_bytes);
    const int32_t merged = qs__vocabulary_find(&tokenizer->pieces, both, left_bytes + right_bytes);
    if (merged >= 0) *order = -tokenizer->score[merged];
    return merged;
}

static qs_status scored_encode(const qs_tokenizer *tokenizer, const char *text, size_t bytes, qs_tokens *out) {
    qs__symbols symbols = {0};
    qs_status status = QS_OK;
    const int32_t space = qs__vocabulary_find(&tokenizer->pieces, " ", 1);
    if (bytes > 0) QS_GOTO(qs__symbols_add(&symbols, space >= 0 ? space : tokenizer->byte_id[' '], 0, 0));
    for (size_t at = 0, length; at < bytes; at += length) {
        bool valid;
        qs__character_at(text + at, bytes - at, &length, &valid);
        out->invalid += !valid;
        const int32_t id = valid ? qs__vocabulary_find(&tokenizer->pieces, text + at, length) : -1;
        if (id >= 0) QS_GOTO(qs__symbols_add(&symbols, id, at, at + length));
        for (size_t i = 0; id < 0 && i < length; i++)
            QS_GOTO(qs__symbols_add(&symbols, tokenizer->byte_id[(unsigned char)text[at + i]], at + i, at + i + 1));
    }
    QS_GOTO(qs__symbols_merge(&symbols, tokenizer, scored_rule, out));
done:
    qs__symbols_release(&symbols);
    return status;
}

static void scored_piece(const qs_tokenizer *tokenizer, int32_t previous, int32_t id, const char **bytes, size_t *count, bool *separated) {
    *separated = false;
    *bytes = qs__vocabulary_piece(&tokenizer->pieces, id, count);
    if (id >= first_byte_id && id < first_byte_id + 256) {
        *bytes = &tokenizer->byte[id - first_byte_id];
        *count = 1;
    } else if (previous == start_id && *count > 0 && (*bytes)[0] == ' ') {
        ++*bytes;
        --*count;
    }
}

static uint32_t little_endian(const char *data) {
    const unsigned char *byte = (const unsigned char *)data;
    return (uint32_t)byte[0] | (uint32_t)byte[1] << 8 | (uint32_t)byte[2] << 16 | (uint32_t)byte[3] << 24;
}

qs_status qs__scored_load(const char *path, qs_tokenizer *out) {
    static const qs__tokenizer_kind kind = {scored_encode, scored_piece};
    char *data = NULL;
    size_t bytes = 0, at = 4, score_room = 0;
    qs_status status = QS_OK;
    out->kind = &kind;
    QS_GOTO(qs_file_read(path, most_file_bytes, &data, &bytes));
    if (bytes < 4) QS_GOTO(qs_fail(QS_BAD_FILE, "%s: %zu bytes, must begin with the length of the longest piece", path, bytes));
    const uint32_t longest = little_endian(data);
    if (longest < 1 || longest > QS__MOST_PIECE_BYTES)
        QS_GOTO(qs_fail(QS_BAD_FILE, "%s: offset 0: the longest piece has %u bytes, must be 1 to %d", path, longest, QS__MOST_PIECE_BYTES));
    while (at < bytes) {
        if (bytes - at < 8) QS_GOTO(qs_fail(QS_BAD_FILE, "%s: offset %zu: the file ends within a score and a length", path, at));
        const uint32_t score_bits = little_endian(data + at), length = little_endian(data + at + 4);
        float score;
        memcpy(&score, &score_bits, sizeof score);
        if (!isfinite(score) || length > longest || length > bytes - at - 8)
            QS_GOTO(qs_fail(QS_BAD_FILE,
                            "%s: offset %zu: piece %d has score %g and %u bytes, must be finite and at most %u, and in the file", path, at,
                            out->pieces.count, (double)score, length, longest));
        QS_GOTO(qs_grow(&out->score, &score_room, (size_t)out->pieces.count + 1, sizeof *out->score));
        out->score[out->pieces.count] = score;
        int32_t before; /* a piece may be there again, as the bytes' characters are: the first one is found */
        QS_GOTO(qs_fail_within(qs__vocabulary_add(&out->pieces, data + at + 8, length, &before), "%s", path));
        at += 8 + length;
    }
    if (out->pieces.count < first_byte_id + 256)
        QS_GOTO(qs_fail(QS_BAD_FILE, "%s: %d pieces, must be at least %d: <unk>, <s>, </s> and 256 bytes", path, out->pieces.count,
                        first_byte_id + 256));
    for (int i = 0; i < 256; i++) {
        char written[8];
        snprintf(written, sizeof written, "<0x%02X>", (unsigned)i);
        size_t length;
        const char *piece = qs__vocabulary_piece(&out->pieces, first_byte_id + i, &length);
        if (length != 6 || memcmp(piece, written, 6) != 0)
            QS_GOTO(qs_fail(QS_BAD_FILE, "%s: piece %d is '%.*s', must be %s", path, first_byte_id + i, (int)length, piece, written));
        out->byte[i] = (char)i;
        out->byte_id[i] = first_byte_id + i;
    }
    out->special[QS_SPECIAL_UNKNOWN] = unknown_id;
    out->special[QS_SPECIAL_START] = start_id;
    out->special[QS_SPECIAL_END] = out->special[QS_SPECIAL_SEPARATOR] = end_id;
done:
    free(data);
    return status;
}
