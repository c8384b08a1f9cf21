// SPDX-License-Identifier: Apache-2.0
/* The `tensors` of a class's plan: in which formats each tensor of a gradient computation stands, and when it is promoted. Whether the
 * model has such tensors is asked by who lowers the plan; here every field must make sense by itself. */
#include "record_internal.h"

#include <string.h>

static qs_status check_float(const qs__place *member, const char *key, const qs_quantizer *quantizer) {
    if (!quantizer->format || (quantizer->format->kind == QS_KIND_FLOAT && quantizer->granularity == QS_PER_TENSOR)) return QS_OK;
    qs__place field = qs__field(member, key);
    return qs__refuse_field(&field, "must be a float format with one rounding for the tensor; fixed point is a matter of recipes");
}

static qs_status check_saved(const qs__place *member, const qs_tensor_choice *one) {
    if (!one->saved || one->saved->kind == QS_KIND_FLOAT) return QS_OK;
    qs__place field = qs__field(member, "saved");
    return qs__refuse_field(&field, "must be a float format, is \"%s\"", one->saved->name);
}

static qs_status check_promotion(const qs__place *member, const qs_tensor_choice *one) {
    if (one->promote_at == 0 || one->value.format) return QS_OK;
    qs__place field = qs__field(member, "promote_at");
    return qs__refuse_field(&field, "there is nothing to promote: \"value\" is absent, which is fp32");
}

qs_status qs__tensor_read(const qs__place *member, qs_class_plan *out) {
    qs_tensor_choice one = {0};
    QS_TRY(qs__take_key(member, one.name, sizeof one.name));
    QS_TRY(qs__expect_fields(member, "", "value saved gradient promote_at promote_to"));
    QS_TRY(qs__get_quantizer(member, "value", &one.value));
    QS_TRY(qs__get_format(member, "saved", &one.saved));
    QS_TRY(qs__get_quantizer(member, "gradient", &one.gradient));
    QS_TRY(qs__get_number(member, "promote_at", 0, 1, &one.promote_at));
    QS_TRY(qs__get_quantizer(member, "promote_to", &one.promote_to));
    QS_TRY(check_float(member, "value", &one.value));
    QS_TRY(check_float(member, "gradient", &one.gradient));
    QS_TRY(check_float(member, "promote_to", &one.promote_to));
    QS_TRY(check_saved(member, &one));
    QS_TRY(check_promotion(member, &one));
    out->tensor[out->tensors++] = one;
    return QS_OK;
}

void qs__tensors_write(qs__writer *writer, const qs_class_plan *one) {
    if (one->tensors == 0) return;
    qs__open_object(writer, "tensors", QS__LINES);
    for (int i = 0; i < one->tensors; i++) {
        const qs_tensor_choice *tensor = &one->tensor[i];
        qs__open_object(writer, tensor->name, QS__ONE_LINE);
        if (tensor->value.format) qs__put_quantizer(writer, "value", &tensor->value);
        if (tensor->saved) qs__put_text(writer, "saved", tensor->saved->name);
        if (tensor->gradient.format) qs__put_quantizer(writer, "gradient", &tensor->gradient);
        if (tensor->promote_at > 0) qs__put_number(writer, "promote_at", tensor->promote_at);
        if (tensor->promote_to.format) qs__put_quantizer(writer, "promote_to", &tensor->promote_to);
        qs__close(writer);
    }
    qs__close(writer);
}

/* ---- What they come to ----------------------------------------------------------------------------------------------------- */

qs_status qs__assignment_read(const qs__place *class_plan, qs_assignment *out) {
    qs__place object = qs__field(class_plan, "assignment");
    if (!object.value) return QS_OK;
    QS_TRY(qs__expect_fields(&object, "ratio_low bytes arena", ""));
    QS_TRY(qs__get_number(&object, "ratio_low", 0, 1, &out->ratio_low));
    qs__place bytes = qs__field(&object, "bytes"), arena = qs__field(&object, "arena");
    QS_TRY(qs__expect_fields(&bytes, "high plan low", ""));
    QS_TRY(qs__get_integer(&bytes, "high", 1, INT64_MAX, &out->high_bytes));
    QS_TRY(qs__get_integer(&bytes, "plan", 1, INT64_MAX, &out->bytes));
    QS_TRY(qs__get_integer(&bytes, "low", 1, INT64_MAX, &out->low_bytes));
    QS_TRY(qs__expect_fields(&arena, "high low", ""));
    QS_TRY(qs__get_integer(&arena, "high", 0, INT64_MAX, &out->high_arena_bytes));
    return qs__get_integer(&arena, "low", 0, INT64_MAX, &out->low_arena_bytes);
}

void qs__assignment_write(qs__writer *writer, const qs_assignment *one) {
    if (one->high_bytes == 0) return;
    qs__open_object(writer, "assignment", QS__ONE_LINE);
    qs__put_number(writer, "ratio_low", one->ratio_low);
    qs__open_object(writer, "bytes", QS__ONE_LINE);
    qs__put_integer(writer, "high", one->high_bytes);
    qs__put_integer(writer, "plan", one->bytes);
    qs__put_integer(writer, "low", one->low_bytes);
    qs__close(writer);
    qs__open_object(writer, "arena", QS__ONE_LINE);
    qs__put_integer(writer, "high", one->high_arena_bytes);
    qs__put_integer(writer, "low", one->low_arena_bytes);
    qs__close(writer);
    qs__close(writer);
}

const qs_tensor_choice *qs_class_plan_tensor(const qs_class_plan *plan, const char *name) {
    for (int i = 0; i < plan->tensors; i++)
        if (strcmp(plan->tensor[i].name, name) == 0) return &plan->tensor[i];
    return NULL;
}
