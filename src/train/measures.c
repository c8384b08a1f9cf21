// SPDX-License-Identifier: Apache-2.0
/* Measures of predictions beside loss and accuracy: perplexity, named things of tags, spans and the texts they stand for. Predictions are
 * read from the logits of an evaluation's last run. Every sample is one rank's, so what ranks found is summed. */
#include "train_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SPAN = 3 }; /* score, first, last */

qs_status qs__measuring_start(const qs_dataset *dataset, qs__measuring *out) {
    const qs_target *target = &dataset->description.samples.target;
    *out = (qs__measuring){.dataset = dataset};
    if (target->kind == QS_TARGET_CLASS_PER_POSITION) out->kind = dataset->description.tag ? QS__TAGS : QS__PERPLEXITY;
    if (target->kind == QS_TARGET_SPAN) out->kind = QS__SPANS;
    if (out->kind == QS__TAGS) return qs_allocate(2 * (size_t)target->extent, sizeof *out->tag, &out->tag);
    return out->kind == QS__SPANS ? qs_allocate((size_t)dataset->count * SPAN, sizeof *out->span, &out->span) : QS_OK;
}

void qs__measuring_release(qs__measuring *measuring) {
    free(measuring->tag);
    free(measuring->span);
    *measuring = (qs__measuring){0};
}

/* ---- Tags ---- */

/* A named thing: positions begin .. end - 1, of the type that the text behind "B-" says. */
typedef struct thing {
    int64_t begin, end;
    const char *type;
} thing;

/* The next thing that begins at *at or behind; false: there is none. One ends before every tag that is not an "I-" of its type, and an "I-"
 * that continues nothing begins one. */
static bool thing_next(const char *const *name, const int32_t *tag, int64_t count, int64_t *at, thing *out) {
    while (*at < count && name[tag[*at]][0] == 'O')
        ++*at;
    if (*at == count) return false;
    *out = (thing){.begin = *at, .type = name[tag[*at]] + 1};
    for (++*at; *at < count && name[tag[*at]][0] == 'I' && strcmp(name[tag[*at]] + 1, out->type) == 0;)
        ++*at;
    out->end = *at;
    return true;
}

static int64_t things_count(const char *const *name, const int32_t *tag, int64_t count) {
    int64_t things = 0, at = 0;
    for (thing one; thing_next(name, tag, count, &at, &one);)
        things++;
    return things;
}

/* Things that both have, of one type from one beginning to one end. */
static int64_t things_common(const char *const *name, const int32_t *a, const int32_t *b, int64_t count) {
    int64_t common = 0, at = 0, beside = 0;
    thing one, other;
    bool more = thing_next(name, a, count, &at, &one) && thing_next(name, b, count, &beside, &other);
    while (more) {
        if (one.begin == other.begin) common += one.end == other.end && strcmp(one.type, other.type) == 0;
        more = one.begin <= other.begin ? thing_next(name, a, count, &at, &one) : thing_next(name, b, count, &beside, &other);
    }
    return common;
}

/* The first largest logit of a row, among the classes of the set: the model may have more. */
static int32_t best_class(const qs_logits *logits, int64_t classes, const float *row) {
    int64_t best = 0;
    for (int64_t c = 1; c < classes; c++)
        if (row[c * logits->next_class] > row[best * logits->next_class]) best = c;
    return (int32_t)best;
}

static void tags_add(qs__measuring *one, const qs_logits *logits, const float *sample, int64_t index) {
    const qs_dataset *set = one->dataset;
    const qs_target *target = &set->description.samples.target;
    const int32_t *label = (const int32_t *)set->target + index * target->extent;
    const int64_t length = set->length && set->length[index] < target->extent ? set->length[index] : target->extent;
    const char *const *name = set->description.tag;
    int32_t *truth = one->tag, *guess = one->tag + target->extent;
    int64_t count = 0;
    for (int64_t k = 0; k < length; k++) {
        if (label[k] == target->ignored) continue;
        truth[count] = label[k];
        guess[count++] = best_class(logits, target->classes, sample + k * logits->next_row);
    }
    one->right += (double)things_common(name, truth, guess, count);
    one->guessed += (double)things_count(name, guess, count);
    one->true_ones += (double)things_count(name, truth, count);
}

/* ---- Spans ---- */

/* The best span of a sample, by the sum of its two logits; of a set with answers among positions that stand for some of the text. The
 * first of equal ones; its score is -infinity where no position may be one. */
static void span_add(qs__measuring *one, const qs_logits *logits, const float *sample, int64_t index) {
    const qs_dataset *set = one->dataset;
    const qs_answers *answers = set->answers;
    const int64_t extent = set->description.samples.target.extent;
    const int64_t length = set->length && set->length[index] < extent ? set->length[index] : extent;
    double *best = one->span + index * SPAN;
    best[0] = -INFINITY;
    for (int64_t first = 0; first < length; first++) {
        if (answers && answers->begin[index * extent + first] == answers->end[index * extent + first]) continue;
        for (int64_t last = first; last < length && last < first + QS_LONGEST_SPAN; last++) {
            const double score = (double)sample[first * logits->next_class] + (double)sample[last * logits->next_class + logits->next_row];
            if (answers && answers->begin[index * extent + last] == answers->end[index * extent + last]) break;
            if (!(score > best[0])) continue;
            best[0] = score;
            best[1] = (double)first;
            best[2] = (double)last;
        }
    }
}

/* Of positions: f1 of those that the spans have in common. */
static void positions_score(const qs__measuring *one, double *exact, double *f1) {
    const int32_t *label = one->dataset->target;
    for (int64_t i = 0; i < one->dataset->count; i++) {
        const double first = label[2 * i], last = label[2 * i + 1], *guess = one->span + i * SPAN;
        const double common = fmin(last, guess[2]) - fmax(first, guess[1]) + 1, both = last - first + guess[2] - guess[1] + 2;
        *exact += guess[1] == first && guess[2] == last;
        if (common > 0) *f1 += 2 * common / both;
    }
    *exact /= (double)one->dataset->count;
    *f1 /= (double)one->dataset->count;
}

/* Of texts: each question by the best of its windows. */
static qs_status texts_score(const qs__measuring *one, double *exact, double *f1) {
    const qs_answers *answers = one->dataset->answers;
    const int64_t count = one->dataset->count, extent = one->dataset->description.samples.target.extent;
    int64_t questions = 0;
    for (int64_t i = 0, best = 0; i < count; i++) {
        const int64_t question = answers->question[i];
        if (one->span[i * SPAN] > one->span[best * SPAN] || answers->question[best] != question) best = i;
        if (i + 1 < count && answers->question[i + 1] == question) continue;
        const double *span = one->span + best * SPAN;
        questions++;
        if (!(span[0] > -INFINITY)) continue;
        const int32_t begin = answers->begin[best * extent + (int64_t)span[1]], end = answers->end[best * extent + (int64_t)span[2]];
        double here_exact, here_f1;
        QS_TRY(qs_answers_score(answers, question, answers->text[question] + begin, (size_t)(end - begin), &here_exact, &here_f1));
        *exact += here_exact;
        *f1 += here_f1;
    }
    *exact /= (double)questions;
    *f1 /= (double)questions;
    return QS_OK;
}

/* ---- All of them ---- */

qs_status qs__measuring_add(qs__measuring *measuring, const qs__program *program, const int64_t *indices, int64_t count) {
    const qs_step *loss = NULL;
    float *values = NULL;
    if (measuring->kind != QS__TAGS && measuring->kind != QS__SPANS) return QS_OK;
    for (int s = qs__phase_end(program->schedule, QS_FORWARD) - 1; s >= 0 && !loss; s--)
        if (program->schedule->step[s].kind == QS_STEP_KERNEL && program->schedule->step[s].case_.op->kind == QS_FIXED)
            loss = &program->schedule->step[s];
    if (!loss) return qs_fail(QS_FAILED, "the schedule has no loss whose logits could be measured");
    const qs_logits logits = qs_case_logits(&loss->case_);
    QS_TRY(qs__executor_operand(program->executor, loss, qs_case_position(&loss->case_, QS_SRC), &values));
    for (int64_t i = 0; i < count; i++) {
        const float *sample = values + i * logits.rows * logits.classes;
        if (measuring->kind == QS__TAGS)
            tags_add(measuring, &logits, sample, indices[i]);
        else
            span_add(measuring, &logits, sample, indices[i]);
    }
    free(values);
    return QS_OK;
}

static void measure_put(qs_evaluation *out, const char *name, double value) {
    out->measure[out->measures++] = (qs_measure){name, value};
}

qs_status qs__measuring_finish(qs__measuring *measuring, qs_comm *comm, qs_evaluation *out) {
    double sums[] = {measuring->right, measuring->guessed, measuring->true_ones}, exact = 0, f1 = 0;
    switch (measuring->kind) {
    case QS__PERPLEXITY:
        measure_put(out, "perplexity", exp(out->loss));
        break;
    case QS__TAGS:
        QS_TRY(qs_comm_sum(comm, sums, 3));
        measure_put(out, "precision", sums[1] > 0 ? sums[0] / sums[1] : 0);
        measure_put(out, "recall", sums[2] > 0 ? sums[0] / sums[2] : 0);
        measure_put(out, "f1", sums[0] > 0 ? 2 * sums[0] / (sums[1] + sums[2]) : 0);
        break;
    case QS__SPANS:
        QS_TRY(qs_comm_sum(comm, measuring->span, measuring->dataset->count * SPAN));
        if (measuring->dataset->answers)
            QS_TRY(texts_score(measuring, &exact, &f1));
        else
            positions_score(measuring, &exact, &f1);
        measure_put(out, "exact_match", exact);
        measure_put(out, "f1", f1);
        break;
    default:
        break;
    }
    return QS_OK;
}
