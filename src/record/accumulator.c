// SPDX-License-Identifier: Apache-2.0
/* What GEMMs add in: of a recipe, and of one operator that differs from its recipe. */
#include "record_internal.h"

#include <string.h>

static const char of_integers[] = "int32";

const char *qs_gemm_name(qs_gemm gemm) {
    static const char *const names[QS_GEMMS] = {"forward", "input_gradient", "weight_gradient"};
    return gemm < QS_GEMMS ? names[gemm] : NULL;
}

void qs_recipe_operands(const qs_recipe *recipe, qs_gemm gemm, const qs_format **a, const qs_format **b) {
    *a = gemm == QS_GEMM_WEIGHT_GRADIENT  ? recipe->weight_gradient.src.format
         : gemm == QS_GEMM_INPUT_GRADIENT ? recipe->input_gradient.weights.format
                                          : recipe->forward.src.format;
    *b = gemm == QS_GEMM_WEIGHT_GRADIENT  ? recipe->weight_gradient.diff_dst.format
         : gemm == QS_GEMM_INPUT_GRADIENT ? recipe->input_gradient.diff_dst.format
                                          : recipe->forward.weights.format;
}

static qs_status parse(const qs__place *field, const qs_format *operand, qs_narrow *out) {
    char text[QS_NARROW_TEXT];
    QS_TRY(qs__take_text(field, text, sizeof text));
    if (operand->kind == QS_KIND_INTEGER) {
        if (strcmp(text, of_integers) == 0) return QS_OK;
        return qs__refuse_field(field, "must be \"%s\", is \"%s\": products of %s are summed exactly", of_integers, text, operand->name);
    }
    return qs_narrow_find(text, out) == QS_OK ? QS_OK : qs__refuse_field(field, "%s", qs_message());
}

qs_status qs__accumulator_read(const qs__place *gemm, const qs_format *operand, qs_narrow *out) {
    qs__place field = qs__field(gemm, "accumulator");
    return field.value ? parse(&field, operand, out) : QS_OK;
}

void qs__accumulator_write(qs__writer *writer, const qs_format *operand, const qs_narrow *narrow) {
    char text[QS_NARROW_TEXT];
    qs__put_text(writer, "accumulator", operand->kind == QS_KIND_INTEGER ? of_integers : qs_narrow_text(narrow, text));
}

qs_status qs__accumulators_read(const qs__place *choice, const qs_recipe *recipe, qs_operator_choice *out) {
    qs__place object = qs__field(choice, "accumulator");
    if (!object.value) return QS_OK;
    QS_TRY(qs__expect_fields(&object, "", "forward input_gradient weight_gradient"));
    for (qs_gemm gemm = 0; gemm < QS_GEMMS; gemm++) {
        const qs_format *a, *b;
        qs__place field = qs__field(&object, qs_gemm_name(gemm));
        if (!field.value) continue;
        qs_recipe_operands(recipe, gemm, &a, &b);
        QS_TRY(parse(&field, a, &out->accumulator[gemm]));
        out->adds[gemm] = a->kind == QS_KIND_FLOAT;
    }
    return QS_OK;
}

void qs__accumulators_write(qs__writer *writer, const qs_operator_choice *choice) {
    char text[QS_NARROW_TEXT];
    qs__open_object(writer, "accumulator", QS__ONE_LINE);
    for (qs_gemm gemm = 0; gemm < QS_GEMMS; gemm++)
        if (choice->adds[gemm]) qs__put_text(writer, qs_gemm_name(gemm), qs_narrow_text(&choice->accumulator[gemm], text));
    qs__close(writer);
}

qs_status qs_choice_recipe(const qs_plan *plan, const qs_operator_choice *choice, qs_recipe *out) {
    const qs_recipe *recipe = qs_plan_recipe(plan, choice->recipe);
    if (!recipe)
        return qs_fail(QS_MISMATCH, "the plan gives operator %s recipe %s, which is not among its recipes", choice->name, choice->recipe);
    *out = *recipe;
    for (qs_gemm gemm = 0; gemm < QS_GEMMS; gemm++)
        if (choice->adds[gemm]) out->accumulator[gemm] = choice->accumulator[gemm];
    return QS_OK;
}

void qs_choice_accumulate(qs_operator_choice *choice, const qs_recipe *recipe, const qs_narrow wanted[QS_GEMMS]) {
    for (qs_gemm gemm = 0; gemm < QS_GEMMS; gemm++) {
        choice->adds[gemm] = !qs_narrow_equal(&wanted[gemm], &recipe->accumulator[gemm]);
        choice->accumulator[gemm] = choice->adds[gemm] ? wanted[gemm] : (qs_narrow){0};
    }
}
