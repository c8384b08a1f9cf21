// SPDX-License-Identifier: Apache-2.0
/* What a job changes of a model that it did not make: another head, dropout where an exported model has none, another loss. Changes stand
 * behind the model in the text that opens it, so profiles, plans and runs that name a model name them too. They are made in the model's
 * record, whose operators are then built as those of any file. */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "graph_internal.h"
#include "qsync/record.h"

/* ---- Texts ------------------------------------------------------------------------------------------------------------------- */

enum { HEAD, LOSS, DROPOUT, CHANGES };
static const char *const marks[CHANGES] = {"+head=", "+loss=", "+dropout="};

/* Losses by the names that people know, and the target that each is of. */
static const struct loss {
    const char *name;
    qs_target_kind kind;
} losses[] = {
    {"cross-entropy", QS_TARGET_CLASS}, {"token", QS_TARGET_CLASS_PER_POSITION}, {"span", QS_TARGET_SPAN}, {"mse", QS_TARGET_REAL}};
enum { LOSSES = sizeof losses / sizeof *losses };

static const char *loss_name_at(size_t index) {
    return index < LOSSES ? losses[index].name : NULL;
}

const char *qs_model_changes(const char *text) {
    const char *first = text + strlen(text);
    for (int i = 0; i < CHANGES; i++) {
        const char *at = strstr(text, marks[i]);
        if (at && at < first) first = at;
    }
    return first;
}

/* The value of a change, up to the next one, and its length; NULL: it is not among them. */
static const char *value_of(const char *changes, int which, int *length) {
    const char *at = strstr(changes, marks[which]);
    if (!at) return NULL;
    at += strlen(marks[which]);
    *length = (int)(qs_model_changes(at) - at);
    return at;
}

/* Each change once: of two the program could not know which is meant. */
static qs_status changes_check(const char *changes) {
    int first, second;
    for (int i = 0; i < CHANGES; i++) {
        const char *one = value_of(changes, i, &first), *other = one ? value_of(one, i, &second) : NULL;
        if (other)
            return qs_fail(QS_USAGE, "%.*s%.*s and %.*s%.*s: a model is changed so once, leave one of them out", (int)strlen(marks[i]),
                           marks[i], first, one, (int)strlen(marks[i]), marks[i], second, other);
    }
    return QS_OK;
}

qs_status qs_model_change(const char *text, const char *what, const char *value, size_t capacity, char *out) {
    const char *changes = qs_model_changes(text);
    int which = 0, length = 0;
    while (which < CHANGES && (strncmp(marks[which] + 1, what, strlen(what)) != 0 || marks[which][1 + strlen(what)] != '='))
        which++;
    if (which == CHANGES) return qs_fail(QS_USAGE, "no change \"%s\" of a model: there are head, loss and dropout", what);
    if (*qs_model_changes(value)) return qs_fail(QS_USAGE, "%s %s: another change stands in it", what, value);
    QS_TRY(qs_fail_within(changes_check(changes), "model %s", text));
    size_t used = (size_t)snprintf(out, capacity, "%.*s", (int)(changes - text), text);
    for (int i = 0; i < CHANGES; i++) {
        const char *had = value_of(changes, i, &length);
        if (used >= capacity || (i != which && !had)) continue;
        used += (size_t)snprintf(out + used, capacity - used, "%s%.*s", marks[i], i == which ? (int)strlen(value) : length,
                                 i == which ? value : had);
    }
    if (used < capacity) return QS_OK;
    return qs_fail(QS_USAGE, "model %s with %s %s: longer than %zu characters", text, what, value, capacity - 1);
}

bool qs_model_has_new_head(const char *text) {
    int length;
    return value_of(qs_model_changes(text), HEAD, &length) != NULL;
}

/* ---- Operators of a record --------------------------------------------------------------------------------------------------- */

static bool makes_outputs(const char *op) {
    const qs_op *one = NULL;
    return qs_op_find(op, &one) == QS_OK && one->kind == QS_ADJUSTABLE && (one->takes & QS_TAKES_OUTPUTS);
}

int qs_graph_head(const qs_graph *graph) {
    for (int n = graph->nodes - 1; n >= graph->samples.inputs; n--)
        if (makes_outputs(graph->node[n].op->name)) return n;
    return -1;
}

/* Place of the same in a record; -1: there is none. */
static int head_of(const qs_graph_record *record) {
    int i = record->operators - 1;
    while (i >= 0 && !makes_outputs(record->operator_[i].op))
        i--;
    return i;
}

static bool is_dropout(const qs_graph_operator *row) {
    const qs_op *one = NULL;
    return qs_op_find(row->op, &one) == QS_OK && one == qs_op_of("dropout");
}

static qs_status probability_set(double probability, qs_graph_operator *row) {
    qs_graph_setting *setting = NULL;
    QS_TRY(qs_allocate(1, sizeof *setting, &setting));
    snprintf(setting->name, sizeof setting->name, "probability");
    setting->value = probability;
    free(row->setting);
    row->setting = setting;
    row->settings = 1;
    return QS_OK;
}

/* A dropout behind the operator at a place, between it and all who read it. */
static qs_status dropout_insert(double probability, int place, qs_graph_record *record) {
    qs_graph_operator one = {.inputs = 1, .batched = true}, *row = NULL;
    const char *name = record->operator_[place].name;
    snprintf(one.name, sizeof one.name, "%.*s.dropout", (int)sizeof one.name - 9, name);
    snprintf(one.op, sizeof one.op, "dropout");
    memcpy(one.input[0], name, sizeof one.input[0]);
    QS_TRY(qs_allocate((size_t)record->operators + 1, sizeof *row, &row));
    const qs_status status = probability_set(probability, &one);
    if (status != QS_OK) {
        free(row);
        return status;
    }
    for (int i = place + 1; i < record->operators; i++)
        for (int k = 0; k < record->operator_[i].inputs; k++)
            if (strcmp(record->operator_[i].input[k], one.input[0]) == 0) memcpy(record->operator_[i].input[k], one.name, sizeof one.name);
    if (strcmp(record->output, one.input[0]) == 0) memcpy(record->output, one.name, sizeof record->output);
    memcpy(row, record->operator_, (size_t)(place + 1) * sizeof *row);
    row[place + 1] = one;
    memcpy(row + place + 2, record->operator_ + place + 1, (size_t)(record->operators - place - 1) * sizeof *row);
    free(record->operator_);
    record->operator_ = row;
    record->operators++;
    return QS_OK;
}

/* Before the head: behind what it reads, unless that is an input of the model. */
static qs_status dropout_before_head(double probability, qs_graph_record *record) {
    const int head = head_of(record);
    if (head < 0) return qs_fail(QS_USAGE, "the model has no linear layer that it could stand before: say where, as in 0.1@PATTERN");
    for (int i = head - 1; i >= 0; i--) {
        if (strcmp(record->operator_[i].name, record->operator_[head].input[0]) != 0) continue;
        return is_dropout(&record->operator_[i]) ? probability_set(probability, &record->operator_[i])
                                                 : dropout_insert(probability, i, record);
    }
    return qs_fail(QS_USAGE, "the last layer, \"%s\", reads an input of the model: say where, as in 0.1@PATTERN",
                   record->operator_[head].name);
}

/* Which operators' names match one of the patterns between commas: every pattern some, and none of them stands there twice. */
static qs_status patterns_match(const char *first, const char *end, const qs_graph_record *record, bool *matched) {
    char pattern[QS_NAME], before[QS_NAME];
    for (const char *at = first;; at++) {
        const int left = (int)(end - at), some = (int)strcspn(at, ","), count = some < left ? some : left;
        bool found = false;
        if (count >= QS_NAME) return qs_fail(QS_USAGE, "a pattern of %d characters; names have %d at most", count, QS_NAME - 1);
        snprintf(pattern, sizeof pattern, "%.*s", count, at);
        for (const char *had = first; had < at; had += strcspn(had, ",") + 1) {
            snprintf(before, sizeof before, "%.*s", (int)strcspn(had, ","), had);
            if (strcmp(before, pattern) == 0) return qs_fail(QS_USAGE, "the pattern \"%s\" stands there twice", pattern);
        }
        for (int i = 0; i < record->operators; i++)
            if (fnmatch(pattern, record->operator_[i].name, 0) == 0) found = matched[i] = true;
        if (!found)
            return qs_fail(QS_USAGE, "no operator has a name like \"%s\"; names are as in \"%s\"", pattern, record->operator_[0].name);
        at += count;
        if (at == end) return QS_OK;
    }
}

/* "0.1" or "0.1@encoder.*,pool": an operator that several patterns fit gets one dropout. */
static qs_status dropout_place(const char *value, int length, qs_graph_record *record) {
    char *end = NULL;
    const double probability = strtod(value, &end);
    if (end == value || end > value + length || (end < value + length && *end != '@') || !(probability >= 0 && probability < 1))
        return qs_fail(QS_USAGE, "must be P or P@PATTERNS, with 0 <= P < 1");
    if (end == value + length) return dropout_before_head(probability, record);
    bool *matched = NULL;
    QS_TRY(qs_allocate((size_t)record->operators, sizeof *matched, &matched));
    qs_status status = patterns_match(end + 1, value + length, record, matched);
    for (int i = record->operators - 1; i >= 0 && status == QS_OK; i--) { /* from behind: places before what is inserted stay */
        if (!matched[i]) continue;
        status = is_dropout(&record->operator_[i]) ? probability_set(probability, &record->operator_[i])
                                                   : dropout_insert(probability, i, record);
    }
    free(matched);
    return status;
}

static qs_status head_replace(const char *value, int length, qs_graph_record *record) {
    char *end = NULL;
    const long long outputs = strtoll(value, &end, 10);
    const int head = head_of(record);
    if (end != value + length || length == 0 || outputs < 1 || outputs > INT32_MAX)
        return qs_fail(QS_USAGE, "must be a number of outputs, 1 to %d", INT32_MAX);
    if (head < 0) return qs_fail(QS_USAGE, "the model has no linear layer that could be replaced");
    qs_graph_operator *row = &record->operator_[head];
    row->outputs = outputs;
    row->weights_of[0] = '\0'; /* a tied one gets weights of its own */
    for (int i = 0; i < row->origins; i++) {
        row->origin[i].constant = false;
        row->origin[i].axes = 0;
    }
    return QS_OK;
}

static qs_status loss_replace(const char *value, int length, qs_target *target) {
    for (int i = 0; i < LOSSES; i++) {
        if ((int)strlen(losses[i].name) != length || strncmp(losses[i].name, value, (size_t)length) != 0) continue;
        if (target->kind != losses[i].kind) target->ignored = losses[i].kind == QS_TARGET_CLASS_PER_POSITION ? -100 : 0;
        target->kind = losses[i].kind;
        return QS_OK;
    }
    return qs_fail(QS_USAGE, "there are %s", qs_names_join(LOSSES, loss_name_at));
}

/* ---- The changed graph ------------------------------------------------------------------------------------------------------- */

/* Start values follow the names: those of the model that was changed, also where a layer has other extents now. */
static void starts_copy(const qs_graph *from, qs_graph *to) {
    for (int i = 0; i < to->parameters; i++)
        for (int k = 0; k < from->parameters; k++) {
            const qs_parameter *had = &from->parameter[k];
            if (strcmp(had->name, to->parameter[i].name) != 0) continue;
            to->parameter[i].initial = had->initial;
            to->parameter[i].gain = had->gain;
            break;
        }
}

/* Names longer than there is room for end in a hash of the changes. */
static void name_change(const char *changes, qs_graph_record *record) {
    enum { hash_bytes = 18 };
    const size_t has = strlen(record->name), more = strlen(changes), room = sizeof record->name;
    if (has + more < room) {
        memcpy(record->name + has, changes, more + 1);
        return;
    }
    const size_t at = has < room - hash_bytes ? has : room - hash_bytes;
    snprintf(record->name + at, room - at, "+%016llx", (unsigned long long)qs_hash(changes, more, 0));
}

qs_status qs__graph_change(const qs_graph *graph, const char *changes, qs_graph **out) {
    qs_graph_record record = {0};
    qs_status status = qs__record_of_graph(graph, &record);
    int length = 0;
    if (status != QS_OK) goto done;
    QS_GOTO(changes_check(changes));
    const char *const head = value_of(changes, HEAD, &length);
    if (head) QS_GOTO(qs_fail_within(head_replace(head, length, &record), "--head %.*s", length, head));
    const char *const dropout = value_of(changes, DROPOUT, &length);
    if (dropout) QS_GOTO(qs_fail_within(dropout_place(dropout, length, &record), "--dropout %.*s", length, dropout));
    const char *const loss = value_of(changes, LOSS, &length);
    if (loss) QS_GOTO(qs_fail_within(loss_replace(loss, length, &record.target), "--loss %.*s", length, loss));
    name_change(changes, &record);
    for (int i = 0; i < record.operators; i++)
        record.operator_[i].shape.axes = 0;
    record.tensors = 0;
    record.signature[0] = '\0';
    record.target.extent = 0; /* it follows from the output */
    QS_GOTO(qs_graph_of_record(&record, out));
    starts_copy(graph, *out);
done:
    qs_graph_record_release(&record);
    return status;
}
