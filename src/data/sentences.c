// SPDX-License-Identifier: Apache-2.0
/* Sets of sentences and their classes: SST-2, AG News, MR, Banking77, CLINC150, PIQA. */
#include "texts.h"

#include <stdlib.h>
#include <string.h>

#define QS_SENTENCES(count) .unit = "sentences", .target = {.kind = QS_TARGET_CLASS, .classes = (count), .extent = 1}, .length = 128

/* ---- SST-2: a header, then "label<tab>sentence" ------------------------------------------------------------------------------------ */

static qs_status sst2_read(qs__texts *texts) {
    qs__text_file file;
    char *line;
    size_t bytes;
    qs_status status = QS_OK;
    QS_TRY(qs__text_file_open(texts->source, texts->folder, texts->source->text->file[texts->part], &file));
    for (bool header = true; qs__text_line(&file, &line, &bytes); header = false) {
        if (header) continue;
        texts->empty += bytes == 0;
        if (bytes == 0) continue;
        if (bytes < 2 || (line[0] != '0' && line[0] != '1') || line[1] != '\t')
            QS_GOTO(qs__text_fail(&file, "'%.40s', must be 0 or 1, a tab, a sentence", line));
        if (!qs__texts_full(texts)) QS_GOTO(qs__texts_add_sentence(texts, line + 2, bytes - 2, line[0] - '0'));
    }
done:
    qs__text_file_close(&file);
    return status;
}

const qs__source qs__source_sst2 = {
    .name = "sst2",
    .form = "sst2",
    .folders = "sst2|text/sst2|SST-2",
    .takes_options = true,
    .describe = qs__texts_describe,
    .load = qs__texts_load,
    .text = &(const qs__text_facts){QS_SENTENCES(2), .file = {"train.tsv", "dev.tsv"}, .read = sst2_read},
};

/* ---- AG News ----------------------------------------------------------------------------------------------------------------------- */

static const char *const ag_classes[] = {"World", "Sports", "Business", "Sci/Tech"};
enum { ag_count = sizeof ag_classes / sizeof *ag_classes };

/* "description<tab>class name"; a description in quotes has them from the file it was taken from. */
static qs_status ag_train_line(qs__texts *texts, const qs__text_file *file, char *line, size_t bytes) {
    char *tab = strrchr(line, '\t');
    int32_t class = 0;
    while (tab && class < ag_count && strcmp(tab + 1, ag_classes[class]) != 0)
        class ++;
    if (!tab || class == ag_count)
        return qs__text_fail(file, "'%.40s', must be a text, a tab and one of World, Sports, Business, Sci/Tech", tab ? tab + 1 : line);
    size_t length = (size_t)(tab - line);
    (void)bytes;
    if (length >= 2 && line[0] == '"' && line[length - 1] == '"') {
        size_t to = 0;
        for (size_t i = 1; i + 1 < length; i++) {
            line[to++] = line[i];
            if (line[i] == '"' && line[i + 1] == '"') i++;
        }
        length = to;
    }
    return qs__texts_full(texts) ? QS_OK : qs__texts_add_sentence(texts, line, length, class);
}

/* The description alone, also in the test part, whose rows have a title: what is trained on has none. */
static qs_status ag_news_read(qs__texts *texts) {
    qs__text_file file;
    char *line, *field[3];
    size_t bytes, count;
    qs_status status = QS_OK;
    QS_TRY(qs__text_file_open(texts->source, texts->folder, texts->source->text->file[texts->part], &file));
    if (texts->part == QS_PART_TRAINING) {
        while (qs__text_line(&file, &line, &bytes)) {
            texts->empty += bytes == 0;
            if (bytes > 0) QS_GOTO(ag_train_line(texts, &file, line, bytes));
        }
        goto done;
    }
    for (;;) {
        QS_GOTO(qs__text_row(&file, field, 3, &count));
        if (count == 0) break;
        const bool blank = count == 1 && !*field[0];
        texts->empty += blank;
        if (blank) continue;
        if (count != 3 || strlen(field[0]) != 1 || field[0][0] < '1' || field[0][0] > '4')
            QS_GOTO(qs__text_fail(&file, "%zu fields, the first '%.40s', must be 3: class 1 to 4, title, description", count, field[0]));
        if (!qs__texts_full(texts)) QS_GOTO(qs__texts_add_sentence(texts, field[2], strlen(field[2]), field[0][0] - '1'));
    }
done:
    qs__text_file_close(&file);
    return status;
}

const qs__source qs__source_ag_news = {
    .name = "ag_news",
    .form = "ag_news",
    .folders = "ag_news|text/ag_news|ag_news_csv",
    .takes_options = true,
    .describe = qs__texts_describe,
    .load = qs__texts_load,
    .text = &(const qs__text_facts){QS_SENTENCES(ag_count), .file = {"dev-from-train.tsv", "test.csv"}, .read = ag_news_read},
};

/* ---- MR: a file of sentences for each class, ISO-8859-1 ---------------------------------------------------------------------------- */

/* The UTF-8 of ISO-8859-1; `out` has room for twice the bytes. */
static size_t utf8_of_latin1(const char *text, size_t bytes, char *out) {
    size_t count = 0;
    for (size_t i = 0; i < bytes; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c >= 0x80) out[count++] = (char)(0xC0 | c >> 6);
        out[count++] = (char)(c >= 0x80 ? 0x80 | (c & 0x3F) : c);
    }
    return count;
}

/* Line by line from both files in turn, so that the first few samples hold both classes. */
static qs_status mr_read(qs__texts *texts) {
    static const char *const names[] = {"rt-polarity.neg", "rt-polarity.pos"};
    enum { most_lines = 1 << 20 };
    qs__text_file file[2] = {{0}};
    bool *member = NULL, more[2] = {true, true};
    char *line, *converted = NULL;
    size_t bytes, room = 0;
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate(most_lines, sizeof *member, &member));
    qs__texts_split(texts, most_lines, member);
    for (int class = 0; class < 2; class ++)
        QS_GOTO(qs__text_file_open(texts->source, texts->folder, names[class], &file[class]));
    for (int64_t i = 0; more[0] || more[1]; i++) {
        const int class = (int)(i & 1);
        more[class] = more[class] && qs__text_line(&file[class], &line, &bytes);
        if (!more[class]) continue;
        if (i == most_lines) QS_GOTO(qs__text_fail(&file[class], "more than %d lines", most_lines / 2));
        texts->empty += bytes == 0;
        if (bytes == 0 || !member[i] || qs__texts_full(texts)) continue;
        QS_GOTO(qs_grow(&converted, &room, 2 * bytes, 1));
        QS_GOTO(qs__texts_add_sentence(texts, converted, utf8_of_latin1(line, bytes, converted), class));
    }
done:
    qs__text_file_close(&file[0]);
    qs__text_file_close(&file[1]);
    free(member);
    free(converted);
    return status;
}

const qs__source qs__source_mr = {
    .name = "mr",
    .form = "mr",
    .folders = "mr|text/mr",
    .takes_options = true,
    .describe = qs__texts_describe,
    .load = qs__texts_load,
    .text = &(const qs__text_facts){QS_SENTENCES(2), .read = mr_read},
};

/* ---- Banking77: "text,category" with a header; the categories' order is that of a file ---------------------------------------------- */

enum { banking_count = 77, clinc_count = 150 };

static qs_status banking77_read(qs__texts *texts) {
    qs__text_file file = {0}, categories = {0};
    json_t *names = NULL;
    const char *name[banking_count];
    char *field[2];
    size_t count;
    qs_status status = QS_OK;
    QS_GOTO(qs__text_file_open(texts->source, texts->folder, "categories.json", &categories));
    QS_GOTO(qs__text_json(&categories, &names));
    if (json_array_size(names) != banking_count)
        QS_GOTO(qs_fail(QS_BAD_FILE, "%s: %zu names, must be a list of %d", categories.path, json_array_size(names), banking_count));
    for (size_t i = 0; i < banking_count; i++) {
        name[i] = json_string_value(json_array_get(names, i));
        if (!name[i]) QS_GOTO(qs_fail(QS_BAD_FILE, "%s: item %zu must be a name in quotes", categories.path, i));
    }
    QS_GOTO(qs__text_file_open(texts->source, texts->folder, texts->source->text->file[texts->part], &file));
    for (bool header = true;; header = false) {
        int32_t class = 0;
        QS_GOTO(qs__text_row(&file, field, 2, &count));
        if (count == 0) break;
        const bool blank = count == 1 && !*field[0];
        texts->empty += blank;
        if (header || blank) continue;
        if (count != 2) QS_GOTO(qs__text_fail(&file, "1 field, must be 2: text, category"));
        while (class < banking_count && strcmp(name[class], field[1]) != 0)
            class ++;
        if (class == banking_count) QS_GOTO(qs__text_fail(&file, "category '%.80s' is not in %s", field[1], categories.path));
        if (!qs__texts_full(texts)) QS_GOTO(qs__texts_add_sentence(texts, field[0], strlen(field[0]), class));
    }
done:
    json_decref(names);
    qs__text_file_close(&categories);
    qs__text_file_close(&file);
    return status;
}

const qs__source qs__source_banking77 = {
    .name = "banking77",
    .form = "banking77",
    .folders = "banking77|text/banking77|banking_data",
    .takes_options = true,
    .describe = qs__texts_describe,
    .load = qs__texts_load,
    .text = &(const qs__text_facts){QS_SENTENCES(banking_count), .file = {"train.csv", "test.csv"}, .read = banking77_read},
};

/* ---- CLINC150: one JSON object, {"train": [[text, intent], ...], "test": ...}; classes are the intents sorted by name -------------- */

static int names_order(const void *left, const void *right) {
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* The text and intent of a row; its number is named where it is none. */
static qs_status clinc_row(const qs__text_file *file, const char *part, const json_t *rows, size_t i, const char **text,
                           const char **intent) {
    const json_t *row = json_array_get(rows, i);
    *text = json_string_value(json_array_get(row, 0));
    *intent = json_string_value(json_array_get(row, 1));
    if (*text && *intent) return QS_OK;
    return qs_fail(QS_BAD_FILE, "%s: %s[%zu]: must be [text, intent]", file->path, part, i);
}

static qs_status clinc150_read(qs__texts *texts) {
    const char *part = texts->part == QS_PART_TRAINING ? "train" : "test", *text, *intent, *name[clinc_count];
    qs__text_file file = {0};
    json_t *root = NULL;
    size_t names = 0;
    qs_status status = QS_OK;
    QS_GOTO(qs__text_file_open(texts->source, texts->folder, "data_full.json", &file));
    QS_GOTO(qs__text_json(&file, &root));
    const json_t *train = json_object_get(root, "train"), *rows = json_object_get(root, part);
    for (size_t i = 0; i < json_array_size(train); i++) {
        size_t at = 0;
        QS_GOTO(clinc_row(&file, "train", train, i, &text, &intent));
        while (at < names && strcmp(name[at], intent) != 0)
            at++;
        if (at == clinc_count) QS_GOTO(qs_fail(QS_BAD_FILE, "%s: train[%zu]: more than %d intents", file.path, i, clinc_count));
        if (at == names) name[names++] = intent;
    }
    if (names != clinc_count) QS_GOTO(qs_fail(QS_BAD_FILE, "%s: %zu intents in \"train\", must be %d", file.path, names, clinc_count));
    qsort(name, names, sizeof *name, names_order);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        QS_GOTO(clinc_row(&file, part, rows, i, &text, &intent));
        const char **at = bsearch(&intent, name, names, sizeof *name, names_order);
        if (!at) QS_GOTO(qs_fail(QS_BAD_FILE, "%s: %s[%zu]: intent '%.80s' is not in \"train\"", file.path, part, i, intent));
        if (!qs__texts_full(texts)) QS_GOTO(qs__texts_add_sentence(texts, text, strlen(text), (int32_t)(at - name)));
    }
done:
    json_decref(root);
    qs__text_file_close(&file);
    return status;
}

const qs__source qs__source_clinc150 = {
    .name = "clinc150",
    .form = "clinc150",
    .folders = "clinc150|text/clinc150",
    .takes_options = true,
    .describe = qs__texts_describe,
    .load = qs__texts_load,
    .text = &(const qs__text_facts){QS_SENTENCES(clinc_count), .read = clinc150_read},
};

/* ---- PIQA: a line is a JSON object of a goal and two solutions; another file has 0 or 1 a line, the better one ---------------------- */

/* The goal with each solution: [CLS] goal [SEP] solution [SEP]. The longer part of a pair is cut, its end first. */
static qs_status piqa_add(qs__texts *texts, const char *const part[3], int32_t class) {
    const size_t room = (size_t)texts->length - qs_tokenizer_frame_extra(texts->tokenizer, true);
    qs_tokens *goal = &texts->first, *solution = &texts->second;
    int64_t count[2];
    bool cut = false;
    qs_tokens_clear(goal);
    QS_TRY(qs_tokenizer_encode(texts->tokenizer, part[0], strlen(part[0]), goal));
    texts->invalid += goal->invalid;
    for (int i = 0; i < 2; i++) {
        const size_t at = (size_t)(i * texts->length);
        qs_tokens_clear(solution);
        QS_TRY(qs_tokenizer_encode(texts->tokenizer, part[1 + i], strlen(part[1 + i]), solution));
        texts->invalid += solution->invalid;
        size_t first = goal->count, second = solution->count;
        for (; first + second > room; cut = true)
            *(first > second ? &first : &second) -= 1;
        count[i] = (int64_t)qs_tokenizer_frame(texts->tokenizer, goal->id, first, second > 0 ? solution->id : texts->id, second,
                                               texts->id + at, texts->type + at);
    }
    texts->truncated += cut;
    return qs__texts_add_sequences(texts, count, &class);
}

static qs_status piqa_read(qs__texts *texts) {
    enum { most_lines = 1 << 20 };
    qs__text_file file = {0}, labels = {0};
    json_t *row = NULL;
    json_error_t error;
    bool *member = NULL;
    char *line, *label;
    size_t bytes, label_bytes;
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate(most_lines, sizeof *member, &member));
    qs__texts_split(texts, most_lines, member);
    QS_GOTO(qs__text_file_open(texts->source, texts->folder, "valid.jsonl", &file));
    QS_GOTO(qs__text_file_open(texts->source, texts->folder, "valid-labels.lst", &labels));
    for (int64_t i = 0; qs__text_line(&file, &line, &bytes); i++) {
        if (i == most_lines) QS_GOTO(qs__text_fail(&file, "more than %d lines", most_lines));
        if (!qs__text_line(&labels, &label, &label_bytes) || label_bytes != 1 || (*label != '0' && *label != '1'))
            QS_GOTO(qs__text_fail(&labels, "must be 0 or 1, for line %lld of %s", (long long)i + 1, file.path));
        json_decref(row);
        row = json_loadb(line, bytes, 0, &error);
        const char *const part[] = {json_string_value(json_object_get(row, "goal")), json_string_value(json_object_get(row, "sol1")),
                                    json_string_value(json_object_get(row, "sol2"))};
        if (!part[0] || !part[1] || !part[2]) QS_GOTO(qs__text_fail(&file, "%s", row ? "must have texts goal, sol1, sol2" : error.text));
        if (member[i] && !qs__texts_full(texts)) QS_GOTO(piqa_add(texts, part, *label - '0'));
    }
    if (qs__text_line(&labels, &label, &label_bytes)) status = qs__text_fail(&labels, "behind the last line of %s", file.path);
done:
    json_decref(row);
    free(member);
    qs__text_file_close(&file);
    qs__text_file_close(&labels);
    return status;
}

const qs__source qs__source_piqa = {
    .name = "piqa",
    .form = "piqa",
    .folders = "piqa|text/piqa",
    .takes_options = true,
    .describe = qs__texts_describe,
    .load = qs__texts_load,
    .text = &(const qs__text_facts){.unit = "questions",
                                    .target = {.kind = QS_TARGET_CLASS, .classes = 2, .extent = 1},
                                    .length = 128,
                                    .sequences = 2,
                                    .read = piqa_read},
};
