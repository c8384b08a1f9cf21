// SPDX-License-Identifier: Apache-2.0
/* The list of operators (ops.def) and of the optimisers among them: look-up by name, what they declare, names of roles, settings. */
#include "internal.h"

#include <assert.h>
#include <string.h>

#define QS_OP(name) extern const qs_op qs__op_##name;
#include "ops.def"
#undef QS_OP

static const qs_op *const list[] = {
#define QS_OP(name) &qs__op_##name,
#include "ops.def"
#undef QS_OP
};
enum { LISTED = sizeof list / sizeof list[0] };

const qs_op *qs_op_at(size_t index) {
    return index < LISTED ? list[index] : NULL;
}

static const qs_op *look_up(const char *name) {
    for (size_t i = 0; i < LISTED; i++) {
        if (strcmp(list[i]->name, name) == 0) return list[i];
    }
    return NULL;
}

static const char *name_at(size_t index) {
    return list[index]->name;
}

qs_status qs_op_find(const char *name, const qs_op **out) {
    const qs_op *op = look_up(name);
    if (!op) return qs_fail(QS_USAGE, "no operator \"%s\": there are %s", name, qs_names_join(LISTED, name_at));
    *out = op;
    return QS_OK;
}

const qs_op *qs_op_of(const char *name) {
    const qs_op *op = look_up(name);
    assert(op && "unknown operator");
    return op;
}

const qs_pass *qs_op_pass(const qs_op *op, const char *name) {
    for (int i = 0; i < op->passes; i++) {
        if (strcmp(op->pass[i].name, name) == 0) return &op->pass[i];
    }
    return NULL;
}

int qs_pass_position(const qs_pass *pass, qs_role role) {
    for (int i = 0; pass && i < pass->operands; i++)
        if (pass->operand[i].role == role) return i;
    return -1;
}

bool qs_pass_writes(const qs_pass *pass, int operand) {
    return pass->operand[operand].source >= QS_MADE;
}

/* Beside the forward pass and inference all passes are backward passes. */
static bool is_backward(const qs_pass *pass) {
    for (int i = 0; i < pass->operands; i++)
        if (pass->operand[i].source == QS_TO_OUTPUT || pass->operand[i].source == QS_TO_LOSS) return false;
    return true;
}

bool qs_op_saves(const qs_op *op, int input) {
    for (int p = 0; p < op->passes; p++)
        for (int i = 0; is_backward(&op->pass[p]) && i < op->pass[p].operands; i++)
            if (op->pass[p].operand[i].source == QS_FROM_INPUT && op->pass[p].operand[i].of == input) return true;
    return false;
}

bool qs_op_keeps(const qs_op *op, const qs_attributes *attributes, const qs_pass_operand *operand) {
    bool needed = !operand->optional || attributes->relu;
    for (int p = 0; p < op->passes && !needed; p++) {
        const int i = is_backward(&op->pass[p]) ? qs_pass_position(&op->pass[p], operand->role) : -1;
        needed = i >= 0 && !op->pass[p].operand[i].optional;
    }
    return needed;
}

const char *qs_role_name(qs_role role) {
#define QS_ROLE_TEXT(id, text) text,
    static const char *const names[] = {QS_ROLE_LIST(QS_ROLE_TEXT)};
#undef QS_ROLE_TEXT
    assert((unsigned)role < QS_ROLE_COUNT);
    return names[role];
}

/* ---- Optimisers ---- */

const char *qs_optimizer_name_at(size_t index) {
    for (size_t i = 0; i < LISTED; i++)
        if (list[i]->optimizer && index-- == 0) return list[i]->name;
    return NULL;
}

qs_status qs_optimizer_find(const char *name, const qs_op **out) {
    size_t known = 0;
    for (; qs_optimizer_name_at(known); known++) {
        if (strcmp(qs_optimizer_name_at(known), name) != 0) continue;
        *out = qs_op_of(name);
        return QS_OK;
    }
    return qs_fail(QS_USAGE, "%s is no optimiser: there are %s", name, qs_names_join(known, qs_optimizer_name_at));
}

qs_role qs_optimizer_state(const qs_op *op, int index) {
    return op->pass[0].operand[QS__FIRST_STATE + index].role;
}

qs_update_kernel qs_optimizer_kernel(const qs_optimizer *optimizer, const char *isa) {
    enum { KERNELS = sizeof optimizer->kernel / sizeof *optimizer->kernel };
    for (int i = 0; i < KERNELS && optimizer->kernel[i].isa; i++)
        if (strcmp(optimizer->kernel[i].isa, isa) == 0) return optimizer->kernel[i].run;
    assert(false && "no such instruction set");
    return NULL;
}

/* ---- Settings ---- */

static double *field_of(const qs_setting *setting, qs_attributes *attributes) {
    return (double *)(void *)((char *)attributes + setting->field);
}

int qs_op_settings(const qs_op *op) {
    int count = 0;
    while (count < QS_MOST_SETTINGS && op->setting[count].name)
        count++;
    return count;
}

int qs_op_setting(const qs_op *op, const char *name) {
    for (int i = 0; i < qs_op_settings(op); i++)
        if (strcmp(op->setting[i].name, name) == 0) return i;
    return -1;
}

double qs_op_value(const qs_op *op, const qs_attributes *attributes, int place) {
    return place < qs_op_settings(op) ? *(const double *)(const void *)((const char *)attributes + op->setting[place].field) : 0;
}

qs_attributes qs_op_attributes(const qs_op *op, const double *setting) {
    qs_attributes attributes = {.rounding = QS_NEAREST_EVEN};
    for (int i = 0; i < qs_op_settings(op); i++)
        *field_of(&op->setting[i], &attributes) = setting[i];
    return attributes;
}

void qs_attributes_complete(const qs_op *op, qs_attributes *attributes) {
    for (int i = 0; i < 2; i++) {
        if (attributes->stride[i] == 0) attributes->stride[i] = 1;
        if (attributes->dilation[i] == 0) attributes->dilation[i] = 1;
    }
    if (attributes->groups == 0) attributes->groups = 1;
    for (int i = 0; i < qs_op_settings(op) && !op->optimizer; i++) {
        double *value = field_of(&op->setting[i], attributes);
        if (*value == 0) *value = op->setting[i].standard;
    }
}

qs_status qs_op_infer(const qs_op *op, const qs_attributes *attributes, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    if (op->infer) return op->infer(attributes, src, outputs, dst);
    *dst = src[0];
    return QS_OK;
}
