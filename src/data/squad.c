// SPDX-License-Identifier: Apache-2.0
/* SQuAD v1.1 (Rajpurkar et al. 2016): questions whose answer is a span of a text. A sample is START question SEPARATOR part of the text
 * SEPARATOR; a text that does not fit is shown in windows, `stride` pieces from one to the next. Texts and true answers are kept
 * (qs_answers), so that what a model points at becomes a text again. */
#include "texts.h"

#include <stdlib.h>
#include <string.h>

enum { most_question = 64 };

/* Answers being gathered. Texts lie one behind the other in a block that moves as it grows: until it is whole they are known by their
 * places in it. */
typedef struct gathering {
    qs_answers *answers;
    size_t bytes, text_room;
    size_t *text_at, *answer_at; /* places of texts by question, and of answers */
    size_t answer_count, question_room, answer_room, first_room, sample_room, begin_room, end_room;
    size_t context_at; /* of the paragraph at hand */
} gathering;

static qs_status text_keep(gathering *on, const char *text, size_t *at) {
    const size_t bytes = strlen(text) + 1;
    QS_TRY(qs_grow(&on->answers->texts, &on->text_room, on->bytes + bytes, 1));
    memcpy(on->answers->texts + on->bytes, text, bytes);
    *at = on->bytes;
    on->bytes += bytes;
    return QS_OK;
}

/* The block is whole: places become texts. */
static qs_status gathering_finish(gathering *on) {
    qs_answers *answers = on->answers;
    QS_TRY(qs_allocate((size_t)answers->questions, sizeof *answers->text, &answers->text));
    QS_TRY(qs_allocate(on->answer_count, sizeof *answers->answer, &answers->answer));
    QS_TRY(qs_grow(&answers->first_answer, &on->first_room, (size_t)answers->questions + 1, sizeof *answers->first_answer));
    for (int64_t i = 0; i < answers->questions; i++)
        answers->text[i] = answers->texts + on->text_at[i];
    for (size_t i = 0; i < on->answer_count; i++)
        answers->answer[i] = answers->texts + on->answer_at[i];
    answers->first_answer[answers->questions] = (int64_t)on->answer_count;
    return QS_OK;
}

/* Where a reader stands, for messages. */
typedef struct place {
    const char *path;
    size_t article, paragraph, question;
} place;

static qs_status place_fail(const place *at, const char *rule) {
    return qs_fail(QS_BAD_FILE, "%s: data[%zu].paragraphs[%zu].qas[%zu]: %s", at->path, at->article, at->paragraph, at->question, rule);
}

/* The byte where the character of that number begins; SIZE_MAX behind the end. */
static size_t byte_of(const char *text, json_int_t character) {
    size_t at = 0;
    if (character < 0) return SIZE_MAX;
    for (; text[at] && character > 0; character--)
        for (at++; ((unsigned char)text[at] & 0xC0) == 0x80;)
            at++;
    return character > 0 ? SIZE_MAX : at;
}

/* Keeps a question's text and true answers; the bytes of the first one. */
static qs_status answers_add(gathering *on, const char *context, const json_t *list, const place *at, size_t *begin, size_t *end) {
    qs_answers *answers = on->answers;
    const size_t count = json_array_size(list), asked = (size_t)answers->questions;
    if (count == 0) return place_fail(at, "no answers, must be a list of at least one");
    QS_TRY(qs_grow(&on->text_at, &on->question_room, asked + 1, sizeof *on->text_at));
    QS_TRY(qs_grow(&answers->first_answer, &on->first_room, asked + 1, sizeof *answers->first_answer));
    on->text_at[asked] = on->context_at;
    answers->first_answer[asked] = (int64_t)on->answer_count;
    answers->questions++;
    for (size_t i = 0; i < count; i++) {
        const json_t *one = json_array_get(list, i);
        const char *text = json_string_value(json_object_get(one, "text"));
        const size_t from = byte_of(context, json_integer_value(json_object_get(one, "answer_start")));
        if (!text || !*text || from == SIZE_MAX || strncmp(context + from, text, strlen(text)) != 0)
            return place_fail(at, "the context does not have the answer's text at answer_start");
        QS_TRY(qs_grow(&on->answer_at, &on->answer_room, on->answer_count + 1, sizeof *on->answer_at));
        QS_TRY(text_keep(on, text, &on->answer_at[on->answer_count]));
        on->answer_count++;
        if (i > 0) continue;
        *begin = from;
        *end = from + strlen(text);
    }
    return QS_OK;
}

/* What the positions of the next sample stand for: `count` pieces of the text from `first` on, at position `at`. */
static qs_status window_keep(gathering *on, const qs__texts *texts, size_t first, size_t count, size_t at) {
    qs_answers *answers = on->answers;
    const size_t sample = (size_t)texts->out->count, row = (size_t)texts->length;
    QS_TRY(qs_grow(&answers->question, &on->sample_room, sample + 1, sizeof *answers->question));
    QS_TRY(qs_grow(&answers->begin, &on->begin_room, sample + 1, row * sizeof *answers->begin));
    QS_TRY(qs_grow(&answers->end, &on->end_room, sample + 1, row * sizeof *answers->end));
    answers->question[sample] = answers->questions - 1;
    for (size_t i = 0; i < count; i++) {
        answers->begin[sample * row + at + i] = (int32_t)texts->second.begin[first + i];
        answers->end[sample * row + at + i] = (int32_t)texts->second.end[first + i];
    }
    return QS_OK;
}

/* The samples of a question (in texts->first) of the paragraph (in texts->second) whose answer is bytes begin .. end - 1. Where a window
 * does not hold all of it, the target is the first position, twice. */
static qs_status windows_add(qs__texts *texts, gathering *on, size_t begin, size_t end) {
    const qs_tokens *asks = &texts->first, *context = &texts->second;
    const size_t length = (size_t)texts->length, extra = qs_tokenizer_frame_extra(texts->tokenizer, true);
    const size_t most = length / 2 - extra < most_question ? length / 2 - extra : most_question;
    const size_t asked = asks->count < most ? asks->count : most, room = length - extra - asked;
    const size_t step = (size_t)texts->stride < room ? (size_t)texts->stride : room;
    size_t first = 0, last = context->count;
    texts->empty += context->count == 0;
    if (context->count == 0) return QS_OK;
    while (first < context->count && (size_t)context->end[first] <= begin)
        first++;
    while (last > 0 && (size_t)context->begin[last - 1] >= end)
        last--;
    texts->truncated += asks->count > most;
    for (size_t at = 0;; at += step) {
        const size_t shown = context->count - at < room ? context->count - at : room;
        const size_t begins = qs_tokenizer_second(texts->tokenizer, asked);
        const bool holds = first < last && first >= at && last <= at + shown;
        const int32_t target[] = {holds ? (int32_t)(begins + first - at) : 0, holds ? (int32_t)(begins + last - 1 - at) : 0};
        if (qs__texts_full(texts)) return QS_OK;
        QS_TRY(window_keep(on, texts, at, shown, begins));
        const size_t count = qs_tokenizer_frame(texts->tokenizer, asks->id, asked, context->id + at, shown, texts->id, texts->type);
        QS_TRY(qs__texts_add(texts, texts->id, texts->type, (int64_t)count, target));
        if (at + shown >= context->count) return QS_OK;
    }
}

static qs_status paragraph_read(qs__texts *texts, gathering *on, const json_t *json, place *at) {
    const char *context = json_string_value(json_object_get(json, "context"));
    const json_t *questions = json_object_get(json, "qas");
    at->question = 0;
    if (!context) return place_fail(at, "its paragraph has no context");
    qs_tokens_clear(&texts->second);
    QS_TRY(qs_tokenizer_encode(texts->tokenizer, context, strlen(context), &texts->second));
    texts->invalid += texts->second.invalid;
    QS_TRY(text_keep(on, context, &on->context_at));
    for (; at->question < json_array_size(questions); at->question++) {
        const json_t *one = json_array_get(questions, at->question);
        const char *text = json_string_value(json_object_get(one, "question"));
        size_t begin = 0, end = 0;
        if (!text) return place_fail(at, "no question");
        qs_tokens_clear(&texts->first);
        QS_TRY(qs_tokenizer_encode(texts->tokenizer, text, strlen(text), &texts->first));
        QS_TRY(answers_add(on, context, json_object_get(one, "answers"), at, &begin, &end));
        QS_TRY(windows_add(texts, on, begin, end));
    }
    return QS_OK;
}

/* The first half of the articles trains, the second tests: only the development set is at hand. */
static qs_status squad_read(qs__texts *texts) {
    qs__text_file file = {0};
    json_t *root = NULL;
    gathering on = {0};
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate(1, sizeof *texts->out->answers, &texts->out->answers));
    on.answers = texts->out->answers;
    QS_GOTO(qs__text_file_open(texts->source, texts->folder, "dev-v1.1.json", &file));
    QS_GOTO(qs__text_json(&file, &root));
    const json_t *articles = json_object_get(root, "data");
    const size_t count = json_array_size(articles), half = (count + 1) / 2;
    const size_t end = texts->part == QS_PART_TRAINING ? half : count;
    if (count == 0) QS_GOTO(qs_fail(QS_BAD_FILE, "%s: must be {\"data\": [articles]}", file.path));
    place at = {.path = file.path, .article = texts->part == QS_PART_TRAINING ? 0 : half};
    for (; at.article < end; at.article++) {
        const json_t *paragraphs = json_object_get(json_array_get(articles, at.article), "paragraphs");
        for (at.paragraph = 0; at.paragraph < json_array_size(paragraphs) && !qs__texts_full(texts); at.paragraph++)
            QS_GOTO(paragraph_read(texts, &on, json_array_get(paragraphs, at.paragraph), &at));
    }
    QS_GOTO(gathering_finish(&on));
done:
    free(on.text_at);
    free(on.answer_at);
    json_decref(root);
    qs__text_file_close(&file);
    return status;
}

const qs__source qs__source_squad = {
    .name = "squad",
    .form = "squad",
    .folders = "squad|text/squad",
    .takes_options = true,
    .describe = qs__texts_describe,
    .load = qs__texts_load,
    .text = &(
        const qs__text_facts){.unit = "sequences", .target = {.kind = QS_TARGET_SPAN}, .length = 384, .strides = true, .read = squad_read},
};
