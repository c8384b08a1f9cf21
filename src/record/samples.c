// SPDX-License-Identifier: Apache-2.0
/* What samples are (qsync/samples.h), as a part of other records: the inputs of a model, its target, and the unit that people count in. */
#include "table.h"

static const char *const types[] = {[QS_INPUT_U8] = "u8", [QS_INPUT_I32] = "i32", [QS_INPUT_F32] = "f32", NULL};
static const char *const kinds[] = {[QS_TARGET_CLASS] = "class",
                                    [QS_TARGET_CLASS_PER_POSITION] = "class_per_position",
                                    [QS_TARGET_SPAN] = "span",
                                    [QS_TARGET_REAL] = "real",
                                    NULL};

static const qs__field input_fields[] = {
    {"name", QS__NAME, QS__REQUIRED, QS__AT(qs_input, name), .text = "of the input"},
    {"type", QS__CHOICE, QS__REQUIRED, QS__AT(qs_input, type), .names = types, .text = "in which a sample stores it"},
    {"extents", QS__INTEGER, QS__REQUIRED, QS__IN(qs_input, extent, rank), .least = 1, .most = QS_SAMPLES_MOST_RANK, .low = 1,
     .high = INT32_MAX, .values = "1 to 4 extents", .text = "of one sample, channels last; an image: height, width, channels"},
    {"varies", QS__FLAG, QS__LEFT_OUT, QS__AT(qs_input, varies),
     .text = "whether the first extent is a bound: samples may be shorter, each by its own length"},
    {"bound", QS__INTEGER, QS__LEFT_OUT, QS__AT(qs_input, bound), .high = INT32_MAX, .absent = "not said",
     .text = "of `i32`: values are below it"},
    {"padding", QS__COUNT, QS__LEFT_OUT, QS__AT(qs_input, padding), .low = -INFINITY, .values = "integer",
     .text = "of `i32`: the value behind the end of a shorter sample"},
};
static const qs__record input_record = {QS__FIELDS(input_fields), .title = "An input: `samples.inputs[]`", .layout = QS__ONE_LINE};

static const qs__field target_fields[] = {
    {"kind", QS__CHOICE, QS__REQUIRED, QS__AT(qs_target, kind), .names = kinds,
     .text = "one class; a class for each of `extent` positions; first and last of `extent` positions; `extent` real numbers"},
    {"classes", QS__INTEGER, QS__LEFT_OUT, QS__AT(qs_target, classes), .high = INT32_MAX, .absent = "of kinds without classes: none",
     .text = "classes that the model tells apart"},
    {"extent", QS__INTEGER, QS__OPTIONAL, QS__AT(qs_target, extent), .low = 1, .high = INT32_MAX, .standard = 1,
     .text = "positions or numbers"},
    {"ignored", QS__COUNT, QS__LEFT_OUT, QS__AT(qs_target, ignored), .low = -INFINITY, .values = "integer",
     .text = "of `class_per_position`: the value of positions that do not count"},
};

static qs_status target_check(const qs__place *place, void *object, void *root) {
    (void)root;
    const qs_target *one = object;
    const bool wants = one->kind == QS_TARGET_CLASS || one->kind == QS_TARGET_CLASS_PER_POSITION;
    const qs__place classes = qs__member(place, "classes");
    if (wants == (one->classes > 0)) return QS_OK;
    return qs__refuse_value(&classes, "a target of kind \"%s\" has %s", kinds[one->kind], wants ? "at least one" : "none");
}
const qs__record qs__target_record = {QS__FIELDS(target_fields), .layout = QS__ONE_LINE, .check = target_check};

static const qs__field samples_fields[] = {
    {"unit", QS__NAME, QS__REQUIRED, QS__AT(qs_samples, unit), .text = "in which people count samples, in the plural: `images`"},
    {"inputs", QS__OBJECT, QS__REQUIRED, QS__IN(qs_samples, input, inputs), .least = 1, .most = QS_SAMPLES_MOST_INPUTS, .of = &input_record,
     .values = "1 to 4 rows", .text = "what a sample gives"},
    {"target", QS__OBJECT, QS__REQUIRED, QS__AT(qs_samples, target), .of = &qs__target_record, .text = "what is learned of it"},
};
const qs__record qs__samples_record = {QS__FIELDS(samples_fields)};
