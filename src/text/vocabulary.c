// SPDX-License-Identifier: Apache-2.0
/* Pieces and their ids; lists of ids; the lines of a vocabulary's file; characters and their classes. */
#include "text_internal.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* ---- Pieces ---------------------------------------------------------------------------------------------------------------------- */

/* The slot that holds the piece, or the free one where it would stand. */
static size_t slot_of(const qs__vocabulary *vocabulary, const char *piece, size_t bytes) {
    size_t slot = (size_t)qs_hash(piece, bytes, 0) & (vocabulary->slots - 1);
    for (;; slot = (slot + 1) & (vocabulary->slots - 1)) {
        const int32_t id = vocabulary->slot[slot];
        if (id < 0) return slot;
        const size_t begin = vocabulary->at[id];
        if (vocabulary->at[id + 1] - begin == bytes && memcmp(vocabulary->bytes + begin, piece, bytes) == 0) return slot;
    }
}

/* Twice as many slots, or the first ones. */
static qs_status slots_grow(qs__vocabulary *vocabulary) {
    const size_t slots = vocabulary->slots ? 2 * vocabulary->slots : 1024;
    int32_t *fresh = NULL;
    QS_TRY(qs_allocate(slots, sizeof *fresh, &fresh));
    memset(fresh, 0xff, slots * sizeof *fresh);
    int32_t *old = vocabulary->slot;
    const size_t old_slots = vocabulary->slots;
    vocabulary->slot = fresh;
    vocabulary->slots = slots;
    for (size_t i = 0; i < old_slots; i++) {
        if (old[i] < 0) continue;
        size_t bytes;
        const char *piece = qs__vocabulary_piece(vocabulary, old[i], &bytes);
        fresh[slot_of(vocabulary, piece, bytes)] = old[i];
    }
    free(old);
    return QS_OK;
}

qs_status qs__vocabulary_add(qs__vocabulary *vocabulary, const char *piece, size_t bytes, int32_t *before) {
    if (vocabulary->count >= QS__MOST_PIECES) return qs_fail(QS_BAD_FILE, "more than %d pieces", QS__MOST_PIECES);
    if (2 * (size_t)(vocabulary->count + 1) > vocabulary->slots) QS_TRY(slots_grow(vocabulary));
    QS_TRY(qs_grow(&vocabulary->bytes, &vocabulary->bytes_room, vocabulary->bytes_used + bytes + 1, 1));
    QS_TRY(qs_grow(&vocabulary->at, &vocabulary->at_room, (size_t)vocabulary->count + 2, sizeof *vocabulary->at));
    const size_t slot = slot_of(vocabulary, piece, bytes);
    *before = vocabulary->slot[slot];
    memcpy(vocabulary->bytes + vocabulary->bytes_used, piece, bytes);
    vocabulary->bytes_used += bytes;
    if (*before < 0) vocabulary->slot[slot] = vocabulary->count;
    vocabulary->at[++vocabulary->count] = vocabulary->bytes_used;
    return QS_OK;
}

int32_t qs__vocabulary_find(const qs__vocabulary *vocabulary, const char *piece, size_t bytes) {
    return vocabulary->slots == 0 ? -1 : vocabulary->slot[slot_of(vocabulary, piece, bytes)];
}

const char *qs__vocabulary_piece(const qs__vocabulary *vocabulary, int32_t id, size_t *bytes) {
    *bytes = vocabulary->at[id + 1] - vocabulary->at[id];
    return vocabulary->bytes + vocabulary->at[id];
}

void qs__vocabulary_release(qs__vocabulary *vocabulary) {
    free(vocabulary->bytes);
    free(vocabulary->at);
    free(vocabulary->slot);
    *vocabulary = (qs__vocabulary){0};
}

/* ---- Ids --------------------------------------------------------------------------------------------------------------------------- */

qs_status qs__tokens_add(qs_tokens *tokens, int32_t id, size_t begin, size_t end) {
    QS_TRY(qs_grow(&tokens->id, &tokens->id_room, tokens->count + 1, sizeof *tokens->id));
    QS_TRY(qs_grow(&tokens->begin, &tokens->begin_room, tokens->count + 1, sizeof *tokens->begin));
    QS_TRY(qs_grow(&tokens->end, &tokens->end_room, tokens->count + 1, sizeof *tokens->end));
    tokens->id[tokens->count] = id;
    tokens->begin[tokens->count] = (int64_t)begin;
    tokens->end[tokens->count++] = (int64_t)end;
    return QS_OK;
}

void qs_tokens_clear(qs_tokens *tokens) {
    tokens->count = 0;
    tokens->invalid = 0;
}

void qs_tokens_release(qs_tokens *tokens) {
    free(tokens->id);
    free(tokens->begin);
    free(tokens->end);
    *tokens = (qs_tokens){0};
}

/* ---- Lines ------------------------------------------------------------------------------------------------------------------------- */

bool qs__lines_next(qs__lines *lines, const char **line, size_t *bytes) {
    if (lines->next == lines->end) return false;
    const char *end = memchr(lines->next, '\n', (size_t)(lines->end - lines->next));
    const char *stop = end ? end : lines->end;
    *line = lines->next;
    *bytes = (size_t)(stop - lines->next);
    if (*bytes > 0 && stop[-1] == '\r') --*bytes;
    lines->next = end ? end + 1 : lines->end;
    lines->number++;
    return true;
}

qs_status qs__lines_fail(const qs__lines *lines, const char *format, ...) {
    char rule[QS__MOST_PIECE_BYTES + 256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(rule, sizeof rule, format, arguments);
    va_end(arguments);
    return qs_fail(QS_BAD_FILE, "%s: line %lld: %s", lines->path, (long long)lines->number, rule);
}

/* ---- Characters -------------------------------------------------------------------------------------------------------------------- */

int32_t qs__character_at(const char *text, size_t bytes, size_t *length, bool *valid) {
    utf8proc_int32_t character;
    const utf8proc_ssize_t got = utf8proc_iterate((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)(bytes < 4 ? bytes : 4), &character);
    *valid = got > 0;
    *length = *valid ? (size_t)got : 1;
    return *valid ? character : QS__REPLACEMENT;
}

bool qs__is_white(int32_t character) {
    if (character < 0x80) return character == ' ' || (character >= '\t' && character <= '\r');
    return character == 0x85 || character == 0xA0 || character == 0x1680 || (character >= 0x2000 && character <= 0x200A) ||
           character == 0x2028 || character == 0x2029 || character == 0x202F || character == 0x205F || character == 0x3000;
}

bool qs__is_letter(int32_t character) {
    const utf8proc_category_t category = utf8proc_category(character);
    return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool qs__is_number(int32_t character) {
    const utf8proc_category_t category = utf8proc_category(character);
    return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}
