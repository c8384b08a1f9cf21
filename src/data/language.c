// SPDX-License-Identifier: Apache-2.0
/* Sets of running text for language models: Tiny Shakespeare, WikiText-2, any file. A sample is `length` ids in a row, its target at each
 * position the id that follows. */
#include "texts.h"

#include <string.h>

#define QS_LANGUAGE .unit = "sequences", .target = {.kind = QS_TARGET_CLASS_PER_POSITION, .ignored = -1}, .length = 256, .language = true

/* The samples of a text; what is left at its end and does not fill one is dropped. */
static qs_status blocks_add(qs__texts *texts, const char *text, size_t bytes) {
    qs_tokens *tokens = &texts->first;
    QS_TRY(qs_tokenizer_encode(texts->tokenizer, text, bytes, tokens));
    texts->invalid += tokens->invalid;
    const int64_t count = (int64_t)tokens->count;
    if (count <= texts->length)
        return qs_fail(QS_BAD_FILE, "%s: the part has %lld pieces, must be more than length=%lld: a sample and what follows it",
                       texts->source->name, (long long)count, (long long)texts->length);
    for (int64_t at = 0; at + texts->length < count && !qs__texts_full(texts); at += texts->length)
        QS_TRY(qs__texts_add(texts, tokens->id + at, NULL, texts->length, tokens->id + at + 1));
    return QS_OK;
}

/* A text in one piece: nine tenths of its bytes train, the rest tests. */
static qs_status tenth_read(qs__texts *texts) {
    qs__text_file file;
    QS_TRY(texts->file ? qs__text_file_open_path(texts->file, &file)
                       : qs__text_file_open(texts->source, texts->folder, texts->source->text->file[0], &file));
    size_t cut = file.bytes / 10 * 9 + file.bytes % 10 * 9 / 10;
    while (cut < file.bytes && ((unsigned char)file.data[cut] & 0xC0) == 0x80)
        cut++; /* not within a character */
    const qs_status status =
        texts->part == QS_PART_TRAINING ? blocks_add(texts, file.data, cut) : blocks_add(texts, file.data + cut, file.bytes - cut);
    qs__text_file_close(&file);
    return status;
}

static qs_status whole_read(qs__texts *texts) {
    qs__text_file file;
    QS_TRY(qs__text_file_open(texts->source, texts->folder, texts->source->text->file[texts->part], &file));
    const qs_status status = blocks_add(texts, file.data, file.bytes);
    qs__text_file_close(&file);
    return status;
}

const qs__source qs__source_tinyshakespeare = {
    .name = "tinyshakespeare",
    .form = "tinyshakespeare",
    .folders = "tinyshakespeare|text/tinyshakespeare",
    .takes_options = true,
    .describe = qs__texts_describe,
    .load = qs__texts_load,
    .text = &(const qs__text_facts){QS_LANGUAGE, .file = {"input.txt"}, .read = tenth_read},
};

/* The training text is not at hand: the validation text trains. */
const qs__source qs__source_wikitext2 = {
    .name = "wikitext2",
    .form = "wikitext2",
    .folders = "wikitext2|wikitext-2|text/wikitext-2",
    .takes_options = true,
    .describe = qs__texts_describe,
    .load = qs__texts_load,
    .text = &(const qs__text_facts){QS_LANGUAGE, .file = {"valid.txt|wiki.valid.tokens", "test.txt|wiki.test.tokens"}, .read = whole_read},
};

const qs__source qs__source_text = {
    .name = "text",
    .form = "text:FILE",
    .alone = true,
    .takes_options = true,
    .describe = qs__texts_describe,
    .load = qs__texts_load,
    .text = &(const qs__text_facts){QS_LANGUAGE, .named = true, .read = tenth_read},
};
