// SPDX-License-Identifier: Apache-2.0
/* Opening a vocabulary by its name; what all kinds share: frames of one text or two, decoding; and the kind without a file,
 * bytes. */
#include "text_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- Bytes as ids ------------------------------------------------------------------------------------------------------------------- */

static qs_status bytes_encode(const qs_tokenizer *tokenizer, const char *text, size_t bytes, qs_tokens *out) {
    (void)tokenizer;
    for (size_t at = 0, length; at < bytes; at += length) {
        bool valid;
        qs__character_at(text + at, bytes - at, &length, &valid);
        out->invalid += !valid;
        for (size_t i = at; i < at + length; i++)
            QS_TRY(qs__tokens_add(out, (unsigned char)text[i], i, i + 1));
    }
    return QS_OK;
}

static void bytes_piece(const qs_tokenizer *tokenizer, int32_t previous, int32_t id, const char **bytes, size_t *count, bool *separated) {
    (void)previous;
    *bytes = qs__vocabulary_piece(&tokenizer->pieces, id, count);
    *separated = false;
}

static qs_status bytes_make(qs_tokenizer *out) {
    static const qs__tokenizer_kind kind = {bytes_encode, bytes_piece};
    out->kind = &kind;
    for (int i = 0; i < 256; i++) {
        const char byte = (char)i;
        int32_t before;
        QS_TRY(qs__vocabulary_add(&out->pieces, &byte, 1, &before));
    }
    return QS_OK;
}

/* ---- Opening ------------------------------------------------------------------------------------------------------------------------ */

/* The two files of a byte-level vocabulary. */
static const char *const pair_names[][2] = {{"encoder.json", "vocab.bpe"}, {"vocab.json", "merges.txt"}};
enum { pair_count = sizeof pair_names / sizeof *pair_names };

static bool is_file(const char *path) {
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISREG(facts.st_mode);
}

static bool is_folder(const char *path) {
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
}

static bool ends_in(const char *path, const char *ending) {
    const size_t length = strlen(path), tail = strlen(ending);
    return length >= tail && strcmp(path + length - tail, ending) == 0;
}

/* The pair of files called pair_names[pair] in the folder that is the first `length` bytes of `path`. */
static qs_status pair_load(const char *path, int length, int pair, qs_tokenizer *out) {
    char *pieces = NULL, *merges = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs_format_text(&pieces, "%.*s%s", length, path, pair_names[pair][0]));
    QS_GOTO(qs_format_text(&merges, "%.*s%s", length, path, pair_names[pair][1]));
    QS_GOTO(qs__pairs_load(pieces, merges, out));
done:
    free(pieces);
    free(merges);
    return status;
}

static qs_status file_load(const char *path, qs_tokenizer *out) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (int pair = 0; pair < pair_count; pair++)
        if (strcmp(name, pair_names[pair][0]) == 0 || strcmp(name, pair_names[pair][1]) == 0)
            return pair_load(path, (int)(name - path), pair, out);
    if (ends_in(name, ".txt")) return qs__wordpiece_load(path, out);
    if (ends_in(name, ".bin")) return qs__scored_load(path, out);
    return qs_fail(QS_USAGE,
                   "vocabulary %s: must be a folder, vocab.txt, encoder.json beside vocab.bpe, vocab.json beside merges.txt, a .bin of "
                   "llama2.c, or 'bytes'",
                   path);
}

static qs_status folder_load(const char *path, qs_tokenizer *out) {
    char *file = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs_path_join(path, "vocab.txt", &file));
    bool found = is_file(file);
    if (found) QS_GOTO(qs__wordpiece_load(file, out));
    for (int pair = 0; pair < pair_count && !found; pair++) {
        free(file);
        file = NULL;
        QS_GOTO(qs_path_join(path, pair_names[pair][0], &file));
        found = is_file(file);
        if (found) QS_GOTO(file_load(file, out));
    }
    if (!found) status = qs_fail(QS_BAD_FILE, "%s: no vocab.txt, encoder.json or vocab.json in this folder", path);
done:
    free(file);
    return status;
}

qs_status qs_tokenizer_open(const char *path, qs_tokenizer **out) {
    qs_tokenizer *tokenizer = NULL;
    QS_TRY(qs_allocate(1, sizeof *tokenizer, &tokenizer));
    memset(tokenizer->special, 0xff, sizeof tokenizer->special);
    qs_status status = strcmp(path, "bytes") == 0 ? bytes_make(tokenizer)
                       : is_folder(path)          ? folder_load(path, tokenizer)
                                                  : file_load(path, tokenizer);
    if (status != QS_OK) {
        qs_tokenizer_close(tokenizer);
        return status;
    }
    if (tokenizer->special[QS_SPECIAL_PADDING] < 0) tokenizer->special[QS_SPECIAL_PADDING] = 0;
    *out = tokenizer;
    return QS_OK;
}

void qs_tokenizer_close(qs_tokenizer *tokenizer) {
    if (!tokenizer) return;
    qs__vocabulary_release(&tokenizer->pieces);
    free(tokenizer->rules);
    free(tokenizer->score);
    free(tokenizer);
}

int32_t qs_tokenizer_size(const qs_tokenizer *tokenizer) {
    return tokenizer->pieces.count;
}

int32_t qs_tokenizer_special(const qs_tokenizer *tokenizer, qs_special special) {
    return tokenizer->special[special];
}

/* ---- Ids ---------------------------------------------------------------------------------------------------------------------------- */

qs_status qs_tokenizer_encode(const qs_tokenizer *tokenizer, const char *text, size_t bytes, qs_tokens *out) {
    return tokenizer->kind->encode(tokenizer, text, bytes, out);
}

size_t qs_tokenizer_second(const qs_tokenizer *tokenizer, size_t first_count) {
    return first_count + (tokenizer->special[QS_SPECIAL_START] >= 0) + (tokenizer->special[QS_SPECIAL_SEPARATOR] >= 0);
}

size_t qs_tokenizer_frame_extra(const qs_tokenizer *tokenizer, bool two) {
    return qs_tokenizer_second(tokenizer, 0) + (two && tokenizer->special[QS_SPECIAL_SEPARATOR] >= 0);
}

size_t qs_tokenizer_frame(const qs_tokenizer *tokenizer, const int32_t *first, size_t first_count, const int32_t *second,
                          size_t second_count, int32_t *id, int32_t *type) {
    const int32_t start = tokenizer->special[QS_SPECIAL_START], separator = tokenizer->special[QS_SPECIAL_SEPARATOR];
    size_t count = 0;
    if (start >= 0) id[count++] = start;
    for (size_t i = 0; i < first_count; i++)
        id[count++] = first[i];
    if (separator >= 0) id[count++] = separator;
    const size_t second_at = count;
    for (size_t i = 0; second && i < second_count; i++)
        id[count++] = second[i];
    if (second && separator >= 0) id[count++] = separator;
    for (size_t i = 0; type && i < count; i++)
        type[i] = i >= second_at;
    return count;
}

/* ---- Decoding -----------------------------------------------------------------------------------------------------------------------*/

qs_status qs_tokenizer_piece(const qs_tokenizer *tokenizer, int32_t previous, int32_t id, const char **bytes, size_t *count,
                             bool *separated) {
    if (id < 0 || id >= tokenizer->pieces.count)
        return qs_fail(QS_USAGE, "id %d: the vocabulary has ids 0 to %d", id, tokenizer->pieces.count - 1);
    tokenizer->kind->piece(tokenizer, previous, id, bytes, count, separated);
    return QS_OK;
}

qs_status qs_tokenizer_decode(const qs_tokenizer *tokenizer, const int32_t *id, size_t count, char **text, size_t *bytes) {
    char *out = NULL;
    size_t room = 0, used = 0;
    qs_status status = QS_OK;
    QS_GOTO(qs_grow(&out, &room, 1, 1));
    for (size_t i = 0; i < count; i++) {
        const char *piece;
        size_t length;
        bool separated;
        QS_GOTO(qs_tokenizer_piece(tokenizer, i ? id[i - 1] : -1, id[i], &piece, &length, &separated));
        QS_GOTO(qs_grow(&out, &room, used + length + 2, 1));
        if (separated) out[used++] = ' ';
        memcpy(out + used, piece, length);
        used += length;
    }
    out[used] = '\0';
    *text = out;
    *bytes = used;
    out = NULL;
done:
    free(out);
    return status;
}

/* Fewer bytes than a character has that they could be the beginning of. */
static bool could_begin(const char *text, size_t bytes) {
    const unsigned char lead = (unsigned char)text[0];
    const size_t whole = lead >= 0xC2 && lead <= 0xDF ? 2 : lead >= 0xE0 && lead <= 0xEF ? 3 : lead >= 0xF0 && lead <= 0xF4 ? 4 : 0;
    for (size_t i = 1; i < bytes; i++)
        if (((unsigned char)text[i] & 0xC0) != 0x80) return false;
    return bytes < whole;
}

size_t qs_text_settle(const char *text, size_t bytes, bool last, char *out, size_t *written) {
    static const char replacement[] = "\xEF\xBF\xBD";
    size_t at = 0, used = 0, length;
    for (; at < bytes; at += length) {
        bool valid;
        qs__character_at(text + at, bytes - at, &length, &valid);
        if (!valid && !last && could_begin(text + at, bytes - at)) break;
        memcpy(out + used, valid ? text + at : replacement, valid ? length : 3);
        used += valid ? length : 3;
    }
    *written = used;
    return at;
}
