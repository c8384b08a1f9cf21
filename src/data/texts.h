// SPDX-License-Identifier: Apache-2.0
/* Inside the room: sets of texts. What they share (options, vocabulary, samples from ids) is texts.c; files of text are text_files.c; each
 * reader of files is one function. */
#ifndef QSYNC_DATA_TEXTS_H
#define QSYNC_DATA_TEXTS_H

#include <jansson.h>

#include "qsync/text.h"
#include "source.h"

/* ---- Sets ---------------------------------------------------------------------------------------------------------------------- */

/* A part being made. */
typedef struct qs__texts {
    const qs__source *source;
    const char *folder; /* of the sets */
    const char *file;   /* of "text:FILE" */
    qs_tokenizer *tokenizer;
    int64_t length, stride; /* positions of a sample; step between windows of one text */
    qs_part part;
    int64_t limit; /* samples */
    qs_dataset *out;
    size_t room[QS_SAMPLES_MOST_INPUTS], length_room, target_room;
    qs_tokens first, second; /* scratch */
    int32_t *id, *type;      /* scratch, (sequences, length) */
    int64_t truncated, empty, invalid;
} qs__texts;

typedef struct qs__text_facts {
    const char *unit;
    qs_target target;       /* classes 0: the vocabulary's; extent: 1, or 0 for `length` positions */
    int64_t length;         /* where no option says it */
    int64_t sequences;      /* of a sample, among which the target's class is one; 0: a sample is one */
    const char *const *tag; /* by class, where classes are tags; else NULL */
    bool language;          /* ids alone, by GPT-2's vocabulary; else ids, types and keep, by BERT's */
    bool named;             /* options begin with a file */
    bool strides;           /* takes the option stride */
    const char *file[2];    /* by part: names as qs__file_find takes them */
    qs_status (*read)(qs__texts *texts);
} qs__text_facts;

/* describe and load of all sets of texts. */
qs_status qs__texts_describe(const qs__source *source, const qs__request *request, qs_data_description *out);
qs_status qs__texts_load(const qs__source *source, const qs__request *request, qs_part part, int64_t limit, qs_dataset *out);

/* True when the part has as many samples as were asked for. */
bool qs__texts_full(const qs__texts *texts);
/* A sample of `count` ids, at most `length`; types NULL: 0. `target` has as many values as the set's targets. */
qs_status qs__texts_add(qs__texts *texts, const int32_t *id, const int32_t *type, int64_t count, const int32_t *target);
/* A sample of several sequences that stand in the scratch, sequence s from s · length on, of count[s] ids. */
qs_status qs__texts_add_sequences(qs__texts *texts, const int64_t *count, const int32_t *target);
/* A sample of one text and its class. A text without pieces is counted and left out, a longer one is cut and counted. */
qs_status qs__texts_add_sentence(qs__texts *texts, const char *text, size_t bytes, int32_t class);
/* Which of `count` samples are the part's where a set comes in one piece: one in ten, drawn by a fixed key, is for testing. */
void qs__texts_split(const qs__texts *texts, int64_t count, bool *member);

/* ---- Files of text ---------------------------------------------------------------------------------------------------------------- */

/* A file, read whole. */
typedef struct qs__text_file {
    char *path, *data;
    size_t bytes, at;
    int64_t line; /* of the row at hand, from 1 */
    int64_t next_line;
} qs__text_file;

/* The first of `names` (qs__file_find), plain or .gz. */
qs_status qs__text_file_open(const qs__source *source, const char *folder, const char *names, qs__text_file *out);
/* The file at `path`. */
qs_status qs__text_file_open_path(const char *path, qs__text_file *out);
void qs__text_file_close(qs__text_file *file);
/* The next line, without LF or CR LF; false behind the last. The text may be changed; NUL stands behind it. */
bool qs__text_line(qs__text_file *file, char **line, size_t *bytes);
/* The next row of comma-separated values (RFC 4180: fields in quotes may hold commas, line ends and doubled quotes); *count 0 behind the
 * last. A row of more than `most` fields, or a quote that is not closed, is QS_BAD_FILE. */
qs_status qs__text_row(qs__text_file *file, char **field, size_t most, size_t *count);
/* QS_BAD_FILE "path: line N: <rule>". */
qs_status qs__text_fail(const qs__text_file *file, const char *format, ...) QS_PRINTF(2, 3);
/* A whole file of JSON. */
qs_status qs__text_json(const qs__text_file *file, json_t **out);

#endif
