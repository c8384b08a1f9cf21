// SPDX-License-Identifier: Apache-2.0
/* Sets of words with tags, a class for each: WNUT-17. A line is "word<tab>tag", an empty one ends a sentence. The first piece of a word
 * has its tag; the others, and the roles around the sentence, have none that counts. */
#include "texts.h"

#include <stdlib.h>
#include <string.h>

enum { ignored = -1 };

/* The tags of WNUT-17, in the order of classes. */
static const char *const tags[] = {"O",        "B-corporation", "I-corporation", "B-creative-work", "I-creative-work",
                                   "B-group",  "I-group",       "B-location",    "I-location",      "B-person",
                                   "I-person", "B-product",     "I-product"};
enum { class_count = sizeof tags / sizeof *tags };

static int32_t class_of(const char *tag) {
    for (int32_t i = 0; i < class_count; i++)
        if (strcmp(tag, tags[i]) == 0) return i;
    return -1;
}

/* A sentence being gathered. */
typedef struct sentence {
    size_t count, id_room, class_room;
    int32_t *id, *class; /* (count) of pieces */
    int32_t *target;     /* (length) scratch */
} sentence;

/* A word that gives no piece is the unknown one: each has its tag. */
static qs_status word_add(qs__texts *texts, sentence *on, const char *word, size_t bytes, int32_t class) {
    qs_tokens *pieces = &texts->first;
    char *spaced = NULL;
    qs_tokens_clear(pieces);
    /* Vocabularies that keep spaces have words with one before them. */
    QS_TRY(qs_format_text(&spaced, "%s%.*s", on->count ? " " : "", (int)bytes, word));
    qs_status status = qs_tokenizer_encode(texts->tokenizer, spaced, strlen(spaced), pieces);
    free(spaced);
    QS_TRY(status);
    texts->invalid += pieces->invalid;
    const int32_t unknown = qs_tokenizer_special(texts->tokenizer, QS_SPECIAL_UNKNOWN), *id = pieces->count ? pieces->id : &unknown;
    const size_t count = pieces->count ? pieces->count : unknown >= 0;
    QS_TRY(qs_grow(&on->id, &on->id_room, on->count + count, sizeof *on->id));
    QS_TRY(qs_grow(&on->class, &on->class_room, on->count + count, sizeof *on->class));
    for (size_t i = 0; i < count; i++, on->count++) {
        on->id[on->count] = id[i];
        on->class[on->count] = i == 0 ? class : ignored;
    }
    return QS_OK;
}

static qs_status sentence_finish(qs__texts *texts, sentence *on) {
    const size_t room = (size_t)texts->length - qs_tokenizer_frame_extra(texts->tokenizer, false);
    const size_t before = qs_tokenizer_special(texts->tokenizer, QS_SPECIAL_START) >= 0, count = on->count < room ? on->count : room;
    if (on->count == 0 || qs__texts_full(texts)) {
        on->count = 0;
        return QS_OK;
    }
    texts->truncated += on->count > room;
    on->count = 0;
    for (int64_t i = 0; i < texts->length; i++)
        on->target[i] = (size_t)i >= before && (size_t)i < before + count ? on->class[(size_t)i - before] : ignored;
    const size_t whole = qs_tokenizer_frame(texts->tokenizer, on->id, count, NULL, 0, texts->id, NULL);
    return qs__texts_add(texts, texts->id, NULL, (int64_t)whole, on->target);
}

static qs_status wnut17_read(qs__texts *texts) {
    qs__text_file file = {0};
    sentence on = {0};
    char *line;
    size_t bytes;
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)texts->length, sizeof *on.target, &on.target));
    QS_GOTO(qs__text_file_open(texts->source, texts->folder, texts->source->text->file[texts->part], &file));
    while (qs__text_line(&file, &line, &bytes)) {
        if (line[strspn(line, "\t ")] == '\0') {
            QS_GOTO(sentence_finish(texts, &on));
            continue;
        }
        const char *tab = strchr(line, '\t');
        const int32_t class = tab && tab > line ? class_of(tab + 1) : -1;
        if (class < 0) QS_GOTO(qs__text_fail(&file, "'%.80s', must be a word, a tab, and O or B- or I- of an entity: person, ...", line));
        QS_GOTO(word_add(texts, &on, line, (size_t)(tab - line), class));
    }
    QS_GOTO(sentence_finish(texts, &on));
done:
    qs__text_file_close(&file);
    free(on.id);
    free(on.class);
    free(on.target);
    return status;
}

const qs__source qs__source_wnut17 = {
    .name = "wnut17",
    .form = "wnut17",
    .folders = "wnut17|text/wnut17",
    .takes_options = true,
    .describe = qs__texts_describe,
    .load = qs__texts_load,
    .text = &(const qs__text_facts){.unit = "sentences",
                                    .target = {.kind = QS_TARGET_CLASS_PER_POSITION, .classes = class_count, .ignored = ignored},
                                    .length = 128,
                                    .tag = tags,
                                    .file = {"wnut17train.conll", "emerging.test.annotated"},
                                    .read = wnut17_read},
};
