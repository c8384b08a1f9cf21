// SPDX-License-Identifier: Apache-2.0
/* Kernel facts for lowering without a device: from a profile's rows or from a plan's. */
#include <string.h>

#include "qsync/costmodel.h"

static qs_status row_fill(const char *kernel, int64_t scratch_bytes, bool allocates, qs_kernel_row *out) {
    *out = (qs_kernel_row){.scratch_bytes = (size_t)scratch_bytes, .allocates = allocates};
    snprintf(out->kernel, sizeof out->kernel, "%s", kernel);
    return QS_OK;
}

bool qs_case_of_any_size(const qs_case *one, qs_case *out) {
    if (!one->op->any_size) return false;
    const qs_attributes attributes = {.to = one->attributes.to};
    *out = qs_case_make(one->op->name, one->pass->name, &attributes);
    for (int i = 0; i < one->operands; i++)
        if (one->operand[i].role != QS_COUNTS) qs_case_bind(out, one->operand[i].role, qs_shape_of(1, (int64_t)64), one->operand[i].format);
    return true;
}

static const qs_kernel_cost *row_of_any_size(const qs_class_profile *profile, const qs_case *one) {
    qs_case like;
    char text[QS_CASE_TEXT];
    return qs_case_of_any_size(one, &like) ? qs_class_profile_kernel(profile, qs_case_text(&like, text)) : NULL;
}

qs_status qs_lookup_profile(void *class_profile, const qs_case *one, const char *case_text, qs_kernel_row *out) {
    const qs_class_profile *profile = class_profile;
    const qs_kernel_cost *row = qs_class_profile_kernel(profile, case_text);
    if (!row) row = row_of_any_size(profile, one);
    if (!row && one->attributes.to)
        return qs_fail(QS_MISMATCH, "the profile of class %s knows nothing of %s: name it in the class's \"storage\" and profile again",
                       profile->class_name, one->attributes.to->name);
    if (!row && one->op->optimizer)
        return qs_fail(QS_MISMATCH,
                       "the profile of class %s has no kernel for %s: give the optimizer and the bucket bytes that "
                       "it was measured with, or profile again",
                       profile->class_name, case_text);
    if (!row)
        return qs_fail(QS_MISMATCH,
                       "the profile of class %s has no kernel for %s: profile this model at this batch again, "
                       "with --recipes where the plan is by hand",
                       profile->class_name, case_text);
    return row_fill(row->kernel, row->scratch_bytes, row->allocates, out);
}

qs_status qs_lookup_plan(void *class_plan, const qs_case *one, const char *case_text, qs_kernel_row *out) {
    const qs_class_plan *plan = class_plan;
    (void)one;
    for (int i = 0; i < plan->kernels; i++)
        if (strcmp(plan->kernel[i].case_text, case_text) == 0)
            return row_fill(plan->kernel[i].kernel, plan->kernel[i].scratch_bytes, plan->kernel[i].allocates, out);
    return qs_fail(QS_MISMATCH, "the plan of class %s has no kernel for %s: make the plan again", plan->class_name, case_text);
}
