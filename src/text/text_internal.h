// SPDX-License-Identifier: Apache-2.0
/* Inside the room: a tokenizer and the table of functions of its kind; pieces and their ids; characters. */
#ifndef QSYNC_TEXT_INTERNAL_H
#define QSYNC_TEXT_INTERNAL_H

#include "qsync/text.h"

/* ---- Pieces ------------------------------------------------------------------------------------------------------------------ */

/* Pieces by id, and ids by piece. */
typedef struct qs__vocabulary {
    int32_t count;
    char *bytes; /* all pieces one behind the other */
    size_t bytes_used, bytes_room;
    size_t *at; /* (count + 1) where each begins */
    size_t at_room;
    int32_t *slot; /* open addressing: id, or -1; a power of two of them, at least twice as many as pieces */
    size_t slots;
} qs__vocabulary;

enum { QS__MOST_PIECE_BYTES = 1024, QS__MOST_PIECES = 1 << 24 };

/* Adds a piece under the next id; *before is the id it already has, which then stays its only one, or -1. */
qs_status qs__vocabulary_add(qs__vocabulary *vocabulary, const char *piece, size_t bytes, int32_t *before);
/* The id of a piece, or -1. */
int32_t qs__vocabulary_find(const qs__vocabulary *vocabulary, const char *piece, size_t bytes);
const char *qs__vocabulary_piece(const qs__vocabulary *vocabulary, int32_t id, size_t *bytes);
void qs__vocabulary_release(qs__vocabulary *vocabulary);

/* ---- Tokenizers ---------------------------------------------------------------------------------------------------------------- */

typedef struct qs__tokenizer_kind {
    qs_status (*encode)(const qs_tokenizer *tokenizer, const char *text, size_t bytes, qs_tokens *out);
    /* The bytes of an id behind another, see qs_tokenizer_piece; ids are within bounds. */
    void (*piece)(const qs_tokenizer *tokenizer, int32_t previous, int32_t id, const char **bytes, size_t *count, bool *separated);
} qs__tokenizer_kind;

struct qs_tokenizer {
    const qs__tokenizer_kind *kind;
    qs__vocabulary pieces;
    int32_t special[QS_SPECIAL_COUNT]; /* -1 where there is none */
    int32_t byte_id[256];              /* pieces that are one byte: where encoding begins, or falls back to */
    char byte[256];                    /* all bytes: what pieces that are one byte are decoded to */
    struct qs__rule *rules;            /* of byte-level pair encoding: hash table of merges, see pairs.c; its slots are a power of two */
    size_t rule_slots;
    float *score; /* of pieces with scores, (count) */
};

/* Loaders: fill a tokenizer that holds nothing but -1 as specials. Releasing after a failure is the caller's. */
qs_status qs__wordpiece_load(const char *path, qs_tokenizer *out);
qs_status qs__pairs_load(const char *pieces_path, const char *merges_path, qs_tokenizer *out);
qs_status qs__scored_load(const char *path, qs_tokenizer *out);

/* Appends one id. */
qs_status qs__tokens_add(qs_tokens *tokens, int32_t id, size_t begin, size_t end);

/* ---- Merging ----------------------------------------------------------------------------------------------------------------- */

/* A stretch of text that is one piece so far. */
typedef struct qs__symbol {
    int32_t id; /* -1: merged into the one before */
    size_t begin, end;
    size_t previous, next; /* places in the list; QS__NOWHERE at its ends */
} qs__symbol;
#define QS__NOWHERE SIZE_MAX

/* A list of symbols and the room to merge them in, for word after word. */
typedef struct qs__symbols {
    qs__symbol *symbol;
    size_t count, room;
    struct qs__candidate *heap;
    size_t heap_count, heap_room;
} qs__symbols;

/* The piece that two neighbours may become, or -1; of all pairs in a text the one with the smallest *order is merged first. */
typedef int32_t (*qs__pair_rule)(const qs_tokenizer *tokenizer, int32_t left, int32_t right, float *order);

qs_status qs__symbols_add(qs__symbols *symbols, int32_t id, size_t begin, size_t end);
/* Merges neighbours, the pair with the smallest order first, of equal ones the leftmost, until no rule fits; appends what is left to
 * `out` and empties the list. */
qs_status qs__symbols_merge(qs__symbols *symbols, const qs_tokenizer *tokenizer, qs__pair_rule rule, qs_tokens *out);
void qs__symbols_release(qs__symbols *symbols);

/* ---- Lines ---------------------------------------------------------------------------------------------------------------------- */

/* The lines of a file that was read whole. */
typedef struct qs__lines {
    const char *path, *next, *end;
    int64_t number; /* of the line at hand, from 1 */
} qs__lines;
/* The next line without its end (LF or CR LF); false behind the last one. */
bool qs__lines_next(qs__lines *lines, const char **line, size_t *bytes);
/* QS_BAD_FILE "path: line N: <rule>". */
qs_status qs__lines_fail(const qs__lines *lines, const char *format, ...) QS_PRINTF(2, 3);

/* ---- Characters --------------------------------------------------------------------------------------------------------------- */

enum { QS__REPLACEMENT = 0xFFFD };
/* The character at the front of `bytes` > 0 bytes, and how many it takes; what is no UTF-8 is U+FFFD of one byte, and *valid false. */
int32_t qs__character_at(const char *text, size_t bytes, size_t *length, bool *valid);
bool qs__is_white(int32_t character);  /* Unicode's White_Space */
bool qs__is_letter(int32_t character); /* general categories L* */
bool qs__is_number(int32_t character); /* N* */

#endif
