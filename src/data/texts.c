// SPDX-License-Identifier: Apache-2.0
/* What sets of texts share: options and vocabulary, what samples are, and making samples of ids. */
#include "texts.h"

#include <stdlib.h>
#include <string.h>

enum {
    most_length = 1 << 16,
    split_key = 0x73706c69, /* tells the draws of fixed splits apart */
};

/* The vocabularies that sets use where no option names one, below the folder of sets. What is known of them stands here, so that plans can
 * be made where they are not. */
typedef struct usual_vocabulary {
    const char *path;
    int32_t size, padding;
} usual_vocabulary;
static const usual_vocabulary of_sentences = {"vocab/bert-uncased/vocab.txt", 30522, 0}, of_language = {"vocab/gpt2", 50257, 50256};

/* ---- Options ------------------------------------------------------------------------------------------------------------------- */

typedef struct text_options {
    char *file, *vocabulary; /* heap; NULL where not said */
    int64_t length, stride;
} text_options;

static void options_release(text_options *options) {
    free(options->file);
    free(options->vocabulary);
}

static qs_status number_parse(const qs__request *request, const char *option, const char *text, int64_t *out) {
    char *end = NULL;
    *out = strtoll(text, &end, 10);
    if (end == text || *end || *out < 8 || *out > most_length)
        return qs_fail(QS_USAGE, "data set '%s': %s=%s, must be 8 to %d", request->name, option, text, most_length);
    return QS_OK;
}

/* "FILE,vocab=PATH,length=N,stride=N", FILE where the set takes one. */
static qs_status options_parse(const qs__source *source, const qs__request *request, text_options *out) {
    const qs__text_facts *facts = source->text;
    char *copy = NULL, *rest = NULL;
    qs_status status = QS_OK;
    *out = (text_options){.length = facts->length};
    QS_GOTO(qs_format_text(&copy, "%s", request->options ? request->options : ""));
    char *option = strtok_r(copy, ",", &rest);
    if (facts->named) {
        if (!option || strncmp(option, "vocab=", 6) == 0 || strncmp(option, "length=", 7) == 0)
            QS_GOTO(qs_fail(QS_USAGE, "data set '%s': must be %s", request->name, source->form));
        QS_GOTO(qs__path_below(option, request->folder, &out->file));
        option = strtok_r(NULL, ",", &rest);
    }
    for (; option; option = strtok_r(NULL, ",", &rest)) {
        if (strncmp(option, "vocab=", 6) == 0 && option[6] && !out->vocabulary)
            QS_GOTO(strcmp(option + 6, "bytes") == 0 ? qs_format_text(&out->vocabulary, "bytes")
                                                     : qs__path_below(option + 6, request->folder, &out->vocabulary));
        else if (strncmp(option, "length=", 7) == 0)
            QS_GOTO(number_parse(request, "length", option + 7, &out->length));
        else if (strncmp(option, "stride=", 7) == 0 && facts->strides)
            QS_GOTO(number_parse(request, "stride", option + 7, &out->stride));
        else
            QS_GOTO(qs_fail(QS_USAGE, "data set '%s': option '%s', must be vocab=PATH%s or length=N", request->name, option,
                            facts->strides ? ", stride=N" : ""));
    }
    if (out->stride == 0) out->stride = out->length / 3;
done:
    free(copy);
    if (status != QS_OK) options_release(out);
    return status;
}

/* ---- What samples are ------------------------------------------------------------------------------------------------------------ */

static void description_fill(const qs__source *source, const qs__request *request, int64_t length, int32_t size, int32_t padding,
                             qs_data_description *out) {
    const qs__text_facts *facts = source->text;
    static const char *const names[] = {"ids", "types", "keep"};
    *out = (qs_data_description){.samples = {.inputs = facts->language ? 1 : 3, .target = facts->target}, .tag = facts->tag};
    snprintf(out->name, sizeof out->name, "%s", request->name);
    snprintf(out->samples.unit, sizeof out->samples.unit, "%s", facts->unit);
    for (int i = 0; i < out->samples.inputs; i++) {
        qs_input *input = &out->samples.input[i];
        *input = (qs_input){.type = QS_INPUT_I32,
                            .rank = 1,
                            .extent = {length},
                            .varies = !facts->language && facts->sequences == 0,
                            .padding = i == 0 ? padding : 0,
                            .bound = i == 0 ? size : 2};
        snprintf(input->name, sizeof input->name, "%s", names[i]);
        if (facts->sequences > 0) input->rank = 2, input->extent[0] = facts->sequences, input->extent[1] = length;
    }
    if (out->samples.target.extent == 0) out->samples.target.extent = length;
    if (facts->language) out->samples.target.classes = size;
}

static const usual_vocabulary *usual_of(const qs__text_facts *facts) {
    return facts->language ? &of_language : &of_sentences;
}

qs_status qs__texts_describe(const qs__source *source, const qs__request *request, qs_data_description *out) {
    const usual_vocabulary *usual = usual_of(source->text);
    text_options options;
    qs_tokenizer *tokenizer = NULL;
    int32_t size = usual->size, padding = usual->padding;
    qs_status status = QS_OK;
    QS_TRY(options_parse(source, request, &options));
    if (options.vocabulary) {
        QS_GOTO(qs_tokenizer_open(options.vocabulary, &tokenizer));
        size = qs_tokenizer_size(tokenizer);
        padding = qs_tokenizer_special(tokenizer, QS_SPECIAL_PADDING);
    }
    description_fill(source, request, options.length, size, padding, out);
done:
    qs_tokenizer_close(tokenizer);
    options_release(&options);
    return status;
}

/* ---- Loading --------------------------------------------------------------------------------------------------------------------- */

/* The vocabulary that an option names, or the usual one, which must be what is known of it. */
static qs_status vocabulary_open(const qs__source *source, const qs__request *request, const text_options *options, qs_tokenizer **out) {
    const usual_vocabulary *usual = usual_of(source->text);
    char *path = NULL;
    qs_status status = QS_OK;
    if (options->vocabulary) return qs_tokenizer_open(options->vocabulary, out);
    QS_TRY(qs__path_below(usual->path, request->folder, &path));
    QS_GOTO(qs_fail_within(qs_tokenizer_open(path, out), "%s: the usual vocabulary (another one: '%s:...vocab=PATH')", source->name,
                           source->name));
    if (qs_tokenizer_size(*out) != usual->size || qs_tokenizer_special(*out, QS_SPECIAL_PADDING) != usual->padding)
        status = qs_fail(QS_BAD_FILE, "%s: %d pieces, the vocabulary of that name has %d; name it by the option vocab=PATH", path,
                         qs_tokenizer_size(*out), usual->size);
done:
    free(path);
    return status;
}

static void counts_log(const qs__texts *texts) {
    if (texts->truncated + texts->empty + texts->invalid == 0) return;
    qs_log(QS_LOG_INFO, "%s, %s part: %lld of %lld %s cut to %lld pieces, %lld empty lines left out, %lld bytes were no UTF-8",
           texts->source->name, texts->part == QS_PART_TRAINING ? "training" : "test", (long long)texts->truncated,
           (long long)texts->out->count, texts->source->text->unit, (long long)texts->length, (long long)texts->empty,
           (long long)texts->invalid);
}

qs_status qs__texts_load(const qs__source *source, const qs__request *request, qs_part part, int64_t limit, qs_dataset *out) {
    text_options options;
    QS_TRY(options_parse(source, request, &options));
    qs__texts texts = {.source = source,
                       .folder = request->folder,
                       .file = options.file,
                       .length = options.length,
                       .stride = options.stride,
                       .part = part,
                       .limit = limit,
                       .out = out};
    qs_status status = QS_OK;
    QS_GOTO(vocabulary_open(source, request, &options, &texts.tokenizer));
    description_fill(source, request, options.length, qs_tokenizer_size(texts.tokenizer),
                     qs_tokenizer_special(texts.tokenizer, QS_SPECIAL_PADDING), &out->description);
    const size_t scratch = (size_t)((source->text->sequences + 1) * options.length) + 3;
    QS_GOTO(qs_allocate(scratch, sizeof *texts.id, &texts.id));
    QS_GOTO(qs_allocate(scratch, sizeof *texts.type, &texts.type));
    QS_GOTO(source->text->read(&texts));
    if (out->count == 0) QS_GOTO(qs_fail(QS_BAD_FILE, "%s: no %s in the part's files", request->name, source->text->unit));
    counts_log(&texts);
done:
    qs_tokens_release(&texts.first);
    qs_tokens_release(&texts.second);
    free(texts.id);
    free(texts.type);
    qs_tokenizer_close(texts.tokenizer);
    options_release(&options);
    return status;
}

/* ---- Samples ----------------------------------------------------------------------------------------------------------------------- */

bool qs__texts_full(const qs__texts *texts) {
    return texts->out->count >= texts->limit;
}

/* Room for one more sample of so many numbers an input, and its target. New room is zeros. */
static qs_status room_make(qs__texts *texts, size_t row, const int32_t *target) {
    qs_dataset *out = texts->out;
    const size_t at = (size_t)out->count, values = (size_t)qs_target_values(&out->description.samples.target);
    for (int i = 0; i < out->description.samples.inputs; i++)
        QS_TRY(qs_grow(&out->input[i], &texts->room[i], at + 1, row * sizeof(int32_t)));
    QS_TRY(qs_grow(&out->target, &texts->target_room, at + 1, values * sizeof(int32_t)));
    memcpy((int32_t *)out->target + at * values, target, values * sizeof *target);
    return QS_OK;
}

/* One sequence, padded, `place` numbers from the beginning of the inputs. */
static void sequence_write(qs__texts *texts, size_t place, const int32_t *id, const int32_t *type, int64_t count) {
    const qs_dataset *out = texts->out;
    const qs_samples *samples = &out->description.samples;
    int32_t *ids = (int32_t *)out->input[0] + place;
    memcpy(ids, id, (size_t)count * sizeof *id);
    for (int64_t i = count; i < texts->length; i++)
        ids[i] = samples->input[0].padding;
    if (samples->inputs != 3) return;
    if (type) memcpy((int32_t *)out->input[1] + place, type, (size_t)count * sizeof *type);
    for (int64_t i = 0; i < count; i++)
        ((int32_t *)out->input[2] + place)[i] = 1;
}

qs_status qs__texts_add(qs__texts *texts, const int32_t *id, const int32_t *type, int64_t count, const int32_t *target) {
    qs_dataset *out = texts->out;
    const size_t at = (size_t)out->count, row = (size_t)texts->length;
    QS_TRY(room_make(texts, row, target));
    if (out->description.samples.inputs == 3) {
        QS_TRY(qs_grow(&out->length, &texts->length_room, at + 1, sizeof *out->length));
        out->length[at] = (int32_t)count;
    }
    sequence_write(texts, at * row, id, type, count);
    out->count++;
    return QS_OK;
}

qs_status qs__texts_add_sequences(qs__texts *texts, const int64_t *count, const int32_t *target) {
    const size_t sequences = (size_t)texts->source->text->sequences, length = (size_t)texts->length;
    QS_TRY(room_make(texts, sequences * length, target));
    for (size_t s = 0; s < sequences; s++)
        sequence_write(texts, ((size_t)texts->out->count * sequences + s) * length, texts->id + s * length, texts->type + s * length,
                       count[s]);
    texts->out->count++;
    return QS_OK;
}

qs_status qs__texts_add_sentence(qs__texts *texts, const char *text, size_t bytes, int32_t class) {
    const size_t room = (size_t)texts->length - qs_tokenizer_frame_extra(texts->tokenizer, false);
    qs_tokens_clear(&texts->first);
    QS_TRY(qs_tokenizer_encode(texts->tokenizer, text, bytes, &texts->first));
    texts->invalid += texts->first.invalid;
    texts->empty += texts->first.count == 0;
    if (texts->first.count == 0) return QS_OK;
    texts->truncated += texts->first.count > room;
    const size_t count = qs_tokenizer_frame(texts->tokenizer, texts->first.id, texts->first.count < room ? texts->first.count : room, NULL,
                                            0, texts->id, NULL);
    return qs__texts_add(texts, texts->id, NULL, (int64_t)count, &class);
}

void qs__texts_split(const qs__texts *texts, int64_t count, bool *member) {
    for (int64_t i = 0; i < count; i++)
        member[i] = (qs_random_bits(split_key, (uint64_t)i) % 10 == 0) == (texts->part == QS_PART_TEST);
}
