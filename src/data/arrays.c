// SPDX-License-Identifier: Apache-2.0
/* Sets of a program's own arrays: the description and what the arrays say of it are checked, then all is copied. */
#include "qsync/data.h"

#include <stdlib.h>
#include <string.h>

enum { most_extent = 1 << 16 };

static size_t type_bytes(qs_input_type type) {
    return type == QS_INPUT_U8 ? 1 : 4;
}

static int64_t sample_values(const qs_input *input) {
    int64_t values = 1;
    for (int i = 0; i < input->rank; i++)
        values *= input->extent[i];
    return values;
}

static qs_status description_check(const qs_data_description *is) {
    if (is->samples.inputs < 1 || is->samples.inputs > QS_SAMPLES_MOST_INPUTS)
        return qs_fail(QS_USAGE, "data set %s: %d inputs, must be 1 to %d", is->name, is->samples.inputs, QS_SAMPLES_MOST_INPUTS);
    for (int i = 0; i < is->samples.inputs; i++) {
        const qs_input *input = &is->samples.input[i];
        if (input->rank < 1 || input->rank > QS_SAMPLES_MOST_RANK)
            return qs_fail(QS_USAGE, "data set %s: input %s has rank %d, must be 1 to %d", is->name, input->name, input->rank,
                           QS_SAMPLES_MOST_RANK);
        for (int axis = 0; axis < input->rank; axis++)
            if (input->extent[axis] < 1 || input->extent[axis] > most_extent)
                return qs_fail(QS_USAGE, "data set %s: input %s has %lld values along axis %d, must be 1 to %d", is->name, input->name,
                               (long long)input->extent[axis], axis, most_extent);
        if (input->type == QS_INPUT_U8 && (input->rank != 3 || input->extent[2] > QS_DATA_MOST_CHANNELS || input->varies))
            return qs_fail(QS_USAGE, "data set %s: input %s holds bytes, must be images: height, width, at most %d channels, of one size",
                           is->name, input->name, QS_DATA_MOST_CHANNELS);
    }
    for (int channel = 0; is->samples.input[0].type == QS_INPUT_U8 && channel < is->samples.input[0].extent[2]; channel++)
        if (!(is->deviation[channel] > 0))
            return qs_fail(QS_USAGE, "data set %s: deviation %g of channel %d, must be above 0", is->name, (double)is->deviation[channel],
                           channel);
    const qs_target *target = &is->samples.target;
    if (target->extent < 1 || target->extent > QS_DATA_MOST_TARGET || (target->kind == QS_TARGET_CLASS && target->extent != 1))
        return qs_fail(QS_USAGE, "data set %s: a target of %lld positions or numbers, must be 1 to %d (one class: 1)", is->name,
                       (long long)target->extent, QS_DATA_MOST_TARGET);
    if (target->kind <= QS_TARGET_CLASS_PER_POSITION && (target->classes < 1 || target->classes > INT32_MAX))
        return qs_fail(QS_USAGE, "data set %s: %lld classes, must be 1 to %d", is->name, (long long)target->classes, INT32_MAX);
    return QS_OK;
}

/* Integers within their bound, padding included. */
static qs_status integers_check(const qs_data_description *is, const qs_input *input, int64_t count, const int32_t *value) {
    const int64_t values = sample_values(input);
    if (input->type != QS_INPUT_I32 || input->bound == 0) return QS_OK;
    if (input->padding < 0 || input->padding >= input->bound)
        return qs_fail(QS_USAGE, "data set %s: input %s is padded with %d, must be 0 to %lld", is->name, input->name, input->padding,
                       (long long)input->bound - 1);
    for (int64_t i = 0; i < count * values; i++)
        if (value[i] < 0 || value[i] >= input->bound)
            return qs_fail(QS_USAGE, "data set %s: input %s of sample %lld holds %d, must be 0 to %lld", is->name, input->name,
                           (long long)(i / values), value[i], (long long)input->bound - 1);
    return QS_OK;
}

static qs_status lengths_check(const qs_data_description *is, int64_t count, const int32_t *length) {
    for (int i = 0; i < is->samples.inputs; i++) {
        if (!is->samples.input[i].varies) continue;
        if (!length) return qs_fail(QS_USAGE, "data set %s: input %s varies, lengths must be given", is->name, is->samples.input[i].name);
        for (int64_t sample = 0; sample < count; sample++)
            if (length[sample] < 1 || length[sample] > is->samples.input[i].extent[0])
                return qs_fail(QS_USAGE, "data set %s: sample %lld has length %d, input %s takes 1 to %lld", is->name, (long long)sample,
                               length[sample], is->samples.input[i].name, (long long)is->samples.input[i].extent[0]);
    }
    return QS_OK;
}

/* Classes, and spans within their sample. length: NULL where samples have none. */
static qs_status targets_check(const qs_data_description *is, int64_t count, const int32_t *length, const int32_t *value) {
    const qs_target *target = &is->samples.target;
    if (target->kind == QS_TARGET_REAL) return QS_OK;
    const bool spans = target->kind == QS_TARGET_SPAN, varies = qs_samples_length(&is->samples) > 0;
    const int64_t values = qs_target_values(target);
    int64_t counted = 0;
    for (int64_t i = 0; i < count * values; i++) {
        const int64_t end = !spans ? target->classes : varies && length[i / values] < target->extent ? length[i / values] : target->extent;
        if (target->kind == QS_TARGET_CLASS_PER_POSITION && value[i] == target->ignored) continue;
        counted++;
        if (value[i] >= 0 && value[i] < end) continue;
        return qs_fail(QS_USAGE, "data set %s: target of sample %lld is %d, must be 0 to %lld", is->name, (long long)(i / values), value[i],
                       (long long)end - 1);
    }
    if (counted > 0) return QS_OK;
    return qs_fail(QS_USAGE, "data set %s: every label is the ignored value %d, so there is nothing to learn", is->name, target->ignored);
}

static qs_status array_copy(const void *from, size_t count, size_t bytes, void *out) {
    QS_TRY(qs_allocate(count, bytes, out));
    memcpy(*(void **)out, from, count * bytes);
    return QS_OK;
}

qs_status qs_dataset_of_arrays(const qs_data_description *description, int64_t count, const void *const *input, const int32_t *length,
                               const void *target, qs_dataset *out) {
    qs_dataset set = {.description = *description, .count = count};
    qs_status status = QS_OK;
    if (count < 1) return qs_fail(QS_USAGE, "data set %s: %lld samples, must be at least 1", description->name, (long long)count);
    QS_TRY(description_check(description));
    QS_TRY(lengths_check(description, count, length));
    QS_TRY(targets_check(description, count, length, target));
    for (int i = 0; i < description->samples.inputs; i++)
        QS_TRY(integers_check(description, &description->samples.input[i], count, input[i]));
    for (int i = 0; i < description->samples.inputs; i++) {
        const qs_input *one = &description->samples.input[i];
        QS_GOTO(array_copy(input[i], (size_t)count, (size_t)sample_values(one) * type_bytes(one->type), &set.input[i]));
    }
    if (length) QS_GOTO(array_copy(length, (size_t)count, sizeof *length, &set.length));
    QS_GOTO(array_copy(target, (size_t)count, (size_t)qs_target_values(&description->samples.target) * 4, &set.target));
done:
    if (status != QS_OK) qs_dataset_release(&set);
    if (status == QS_OK) *out = set;
    return status;
}
