// SPDX-License-Identifier: Apache-2.0
/* text: tokenizers, from text to the ids that a model's table of words is read by, and back.
 *
 * Which vocabulary a file or folder holds is told by its name:
 *
 *   vocab.txt (any .txt)                       WordPiece as BERT uncased (Devlin et al. 2019), one piece a line, the line is the id
 *   encoder.json + vocab.bpe, or               byte-level pair encoding as GPT-2 (Radford et al. 2019): pieces and their ids, and
 *   vocab.json + merges.txt                    the merges, best first; RoBERTa's has the second form
 *   any .bin                                   llama2.c's pieces with scores (sentencepiece's pair encoding, byte fallback)
 *   "bytes"                                    no file: the 256 bytes are the ids
 *
 * A folder is searched for these in this order; of a pair either file may be named. A vocabulary is checked when it is opened: a piece
 * that is there twice, a special piece that is missing, a merge of pieces that are not there, damaged JSON, an empty file, an overlong
 * line are QS_BAD_FILE with file and line (of binary files the offset).
 *
 * Text is UTF-8. What is none is counted. WordPiece, which works on characters, sees U+FFFD in its place and drops it, as BERT does;
 * the other three work on bytes and keep it: decoding what they encoded gives back any bytes whatever (for llama2.c's, behind the space
 * that it puts before a text).
 *
 * White space, letters, numbers, punctuation, decomposition and case are libutf8proc's, of Unicode 15 with version 2.8: characters that
 * only a later version assigns are none of these.
 *
 * A tokenizer is not changed by its use: threads may share one. */
#ifndef QSYNC_TEXT_H
#define QSYNC_TEXT_H

#include "qsync/base.h"

typedef struct qs_tokenizer qs_tokenizer;

/* Opens the vocabulary at `path` ("bytes": none). The caller closes it. */
QS_API qs_status qs_tokenizer_open(const char *path, qs_tokenizer **out);
QS_API void qs_tokenizer_close(qs_tokenizer *tokenizer);

/* Number of ids: they are 0 .. size - 1. */
QS_API int32_t qs_tokenizer_size(const qs_tokenizer *tokenizer);

/* Ids with a role. GPT-2 has one such piece, <|endoftext|>, which then starts, separates, ends and pads; RoBERTa's <s>, </s>, <pad> are
 * taken where a vocabulary has them. */
typedef enum qs_special {
    QS_SPECIAL_UNKNOWN,   /* [UNK], <unk> */
    QS_SPECIAL_PADDING,   /* [PAD], <pad>, <|endoftext|>; 0 where a vocabulary has none */
    QS_SPECIAL_START,     /* [CLS], <s>, <|endoftext|> */
    QS_SPECIAL_SEPARATOR, /* [SEP], </s>, <|endoftext|> */
    QS_SPECIAL_END,       /* of a text: </s>, <|endoftext|> */
    QS_SPECIAL_MASK,      /* [MASK], <mask> */
    QS_SPECIAL_COUNT
} qs_special;
/* The id, or -1 where the vocabulary has none. */
QS_API int32_t qs_tokenizer_special(const qs_tokenizer *tokenizer, qs_special special);

/* A text as ids, each with the place it was read from: bytes begin .. end - 1 of the text as it was given, before normalisation. Of
 * byte-level kinds a space that belongs to a piece belongs to its place, and a place may begin or end within a character. */
typedef struct qs_tokens {
    size_t count;
    int32_t *id;          /* (count), heap */
    int64_t *begin, *end; /* (count), heap */
    int64_t invalid;      /* bytes of the text that were no UTF-8 */
    size_t id_room, begin_room, end_room;
} qs_tokens;
/* Appends the ids of a text (any bytes, also NUL) to `out`, which begins as {0}; special pieces are neither added nor recognised in the
 * text. After a failure `out` is still to be released. */
QS_API qs_status qs_tokenizer_encode(const qs_tokenizer *tokenizer, const char *text, size_t bytes, qs_tokens *out);
/* Forgets the ids and keeps the memory. */
QS_API void qs_tokens_clear(qs_tokens *tokens);
QS_API void qs_tokens_release(qs_tokens *tokens);

/* A model's sequence of one text or two: START first SEPARATOR [second SEPARATOR], roles without an id left out. Writes `id` and, unless
 * NULL, `type` (0, and 1 from the second text on), returns how many: at most first_count + second_count + 3. `second` NULL: one text.
 * The second text begins at place qs_tokenizer_second. */
QS_API size_t qs_tokenizer_frame(const qs_tokenizer *tokenizer, const int32_t *first, size_t first_count, const int32_t *second,
                                 size_t second_count, int32_t *id, int32_t *type);
/* How many roles qs_tokenizer_frame writes around one text or two. */
QS_API size_t qs_tokenizer_frame_extra(const qs_tokenizer *tokenizer, bool two);
/* Where in a frame the second text begins, behind a first one of first_count ids. */
QS_API size_t qs_tokenizer_second(const qs_tokenizer *tokenizer, size_t first_count);

/* The bytes that an id stands for behind the id `previous` (-1: nothing before it). WordPiece: pieces that begin a word have a space before
 * them. llama2.c: the space that begins a text is dropped behind START. *bytes lives as long as the tokenizer, `separated` says that a
 * space goes before it. QS_USAGE for an id that is none. */
QS_API qs_status qs_tokenizer_piece(const qs_tokenizer *tokenizer, int32_t previous, int32_t id, const char **bytes, size_t *count,
                                    bool *separated);
/* The text of ids, on the heap with a NUL behind it. Not the text that was encoded where encoding normalised it (WordPiece). */
QS_API qs_status qs_tokenizer_decode(const qs_tokenizer *tokenizer, const int32_t *id, size_t count, char **text, size_t *bytes);

/* Text that comes in pieces, whose ends may lie within characters: puts what of `text` is settled into `out` (3 × bytes), characters as
 * they are, each byte that is no UTF-8 as U+FFFD; *written bytes. Returns how many bytes of `text` that took: the others, three at most,
 * may be the beginning of a character, and stand before the next piece. last: nothing comes any more. */
QS_API size_t qs_text_settle(const char *text, size_t bytes, bool last, char *out, size_t *written);

#endif
