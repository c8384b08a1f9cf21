// SPDX-License-Identifier: Apache-2.0
/* What samples are, and whether a model can be fed from a set. */
#include "qsync/samples.h"

qs_input qs_input_image(int64_t height, int64_t width, int64_t channels) {
    return (qs_input){.name = "image", .type = QS_INPUT_U8, .rank = 3, .extent = {height, width, channels}};
}

int64_t qs_target_values(const qs_target *target) {
    return target->kind == QS_TARGET_SPAN ? 2 : target->extent;
}

bool qs_input_is_image(const qs_input *input) {
    return input->type == QS_INPUT_U8 && input->rank == 3;
}

/* ---- Lengths ---- */

qs_status qs_lengths_check(const qs_lengths *lengths) {
    if (lengths->count < 0 || lengths->count > QS_MOST_LENGTHS)
        return qs_fail(QS_USAGE, "%d lengths: at most %d", lengths->count, QS_MOST_LENGTHS);
    for (int i = 0; i < lengths->count; i++) {
        if (lengths->at[i] < 1) return qs_fail(QS_USAGE, "length %lld: at least 1", (long long)lengths->at[i]);
        if (i > 0 && lengths->at[i] <= lengths->at[i - 1])
            return qs_fail(QS_USAGE, "length %lld stands behind %lld: each must be larger than the one before it",
                           (long long)lengths->at[i], (long long)lengths->at[i - 1]);
    }
    return QS_OK;
}

int qs_lengths_find(const qs_lengths *lengths, int64_t values) {
    int place = 0;
    while (place + 1 < lengths->count && lengths->at[place] < values)
        place++;
    return place;
}

const char *qs_lengths_text(const qs_lengths *lengths, char text[QS_LENGTHS_TEXT]) {
    int used = 0;
    *text = '\0';
    for (int i = 0; i < lengths->count && i < QS_MOST_LENGTHS; i++)
        used += snprintf(text + used, (size_t)(QS_LENGTHS_TEXT - used), "%s%lld", i ? "," : "", (long long)lengths->at[i]);
    return text;
}

bool qs_lengths_equal(const qs_lengths *a, const qs_lengths *b) {
    for (int i = 0; i < a->count && a->count == b->count; i++)
        if (a->at[i] != b->at[i]) return false;
    return a->count == b->count;
}

int64_t qs_samples_length(const qs_samples *samples) {
    for (int i = 0; i < samples->inputs; i++)
        if (samples->input[i].varies) return samples->input[i].extent[0];
    return 0;
}

qs_status qs_samples_of_length(const qs_samples *samples, int64_t length, qs_samples *out) {
    const int64_t whole = qs_samples_length(samples);
    qs_samples is = *samples;
    if (whole == 0) return qs_fail(QS_USAGE, "length %lld: the samples have no input of a length that varies", (long long)length);
    if (length < 1 || length > whole)
        return qs_fail(QS_USAGE, "length %lld: samples have 1 to %lld values", (long long)length, (long long)whole);
    for (int i = 0; i < is.inputs; i++) {
        qs_input *input = &is.input[i];
        if (input->varies && input->extent[0] != whole)
            return qs_fail(QS_USAGE, "length %lld: the input %s varies up to %lld values, another one up to %lld", (long long)length,
                           input->name, (long long)input->extent[0], (long long)whole);
        if (input->varies) input->extent[0] = length;
    }
    const bool positions = is.target.kind == QS_TARGET_CLASS_PER_POSITION || is.target.kind == QS_TARGET_SPAN;
    if (positions && is.target.extent != whole)
        return qs_fail(QS_USAGE, "length %lld: the target has %lld positions, samples up to %lld values", (long long)length,
                       (long long)is.target.extent, (long long)whole);
    if (positions) is.target.extent = length;
    *out = is;
    return QS_OK;
}

/* ---- Does a set fit a model? ---- */

static qs_status input_fit(const char *set, const qs_input *has, const qs_input *model) {
    static const char *const type_names[] = {"bytes", "32-bit integers", "32-bit floats"};
    /* Models take bytes as fp32, so images of floats will do that have just their size. */
    if (qs_input_is_image(model) && has->type == QS_INPUT_F32 && has->rank == 3) {
        if (has->extent[0] == model->extent[0] && has->extent[1] == model->extent[1] && has->extent[2] == model->extent[2]) return QS_OK;
        return qs_fail(QS_MISMATCH,
                       "the model takes images of %lldx%lldx%lld (height, width, channels), those of %s are floats of %lldx%lldx%lld",
                       (long long)model->extent[0], (long long)model->extent[1], (long long)model->extent[2], set,
                       (long long)has->extent[0], (long long)has->extent[1], (long long)has->extent[2]);
    }
    if (has->type != model->type || has->rank != model->rank)
        return qs_fail(QS_MISMATCH, "the model's input %s takes %s of rank %d, %s has %s of rank %d", model->name, type_names[model->type],
                       model->rank, set, type_names[has->type], has->rank);
    if (!qs_input_is_image(has)) {
        const bool bound = has->rank == 1 || has->type != QS_INPUT_I32; /* sequences side by side do not end early */
        for (int i = 0; i < has->rank; i++)
            if (i == 0 && bound ? model->extent[0] < has->extent[0] : model->extent[i] != has->extent[i])
                return qs_fail(QS_MISMATCH, "the model's input %s takes %lld values along axis %d, samples of %s have %lld", model->name,
                               (long long)model->extent[i], i, set, (long long)has->extent[i]);
        if (model->bound == 0 || (has->bound > 0 && has->bound <= model->bound)) return QS_OK;
        if (has->bound == 0)
            return qs_fail(QS_MISMATCH, "the model's input %s takes 0 to %lld, %s does not say which values it has; give the input a bound",
                           model->name, (long long)model->bound - 1, set);
        return qs_fail(QS_MISMATCH, "the model's input %s takes 0 to %lld, %s has values up to %lld", model->name,
                       (long long)model->bound - 1, set, (long long)has->bound - 1);
    }
    if (model->extent[2] != has->extent[2])
        return qs_fail(QS_MISMATCH, "the model takes %lld channels, images of %s have %lld", (long long)model->extent[2], set,
                       (long long)has->extent[2]);
    if (model->extent[0] < has->extent[0] || model->extent[1] < has->extent[1])
        return qs_fail(QS_MISMATCH, "the model takes %lldx%lld pixels, images of %s are larger: %lldx%lld", (long long)model->extent[0],
                       (long long)model->extent[1], set, (long long)has->extent[0], (long long)has->extent[1]);
    return QS_OK;
}

qs_status qs_samples_fit(const char *name, const qs_samples *set, const qs_samples *model) {
    static const char *const kind_names[] = {"a class", "a class per position", "a span", "real numbers"};
    const qs_target *has = &set->target, *wanted = &model->target;
    if (set->inputs != model->inputs)
        return qs_fail(QS_MISMATCH, "the model takes %d inputs, samples of %s have %d", model->inputs, name, set->inputs);
    for (int i = 0; i < set->inputs; i++)
        QS_TRY(input_fit(name, &set->input[i], &model->input[i]));
    if (has->kind != wanted->kind)
        return qs_fail(QS_MISMATCH, "the model learns %s, the target of %s is %s", kind_names[wanted->kind], name, kind_names[has->kind]);
    if (wanted->classes < has->classes)
        return qs_fail(QS_MISMATCH, "the model tells %lld classes apart, %s has %lld", (long long)wanted->classes, name,
                       (long long)has->classes);
    if (has->kind == QS_TARGET_REAL ? wanted->extent != has->extent : wanted->extent < has->extent)
        return qs_fail(QS_MISMATCH, "the model's target has %lld %s, that of %s %lld", (long long)wanted->extent,
                       has->kind == QS_TARGET_REAL ? "numbers" : "positions", name, (long long)has->extent);
    return QS_OK;
}
