// SPDX-License-Identifier: Apache-2.0
/* Looking up in a profile. A kernel's row is its case's own, or that of a case that differs in nothing but data of its kernel. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "qsync/record.h"

const qs_class_profile *qs_profile_class(const qs_profile *profile, const char *name) {
    for (int i = 0; i < profile->classes; i++)
        if (strcmp(profile->class_[i].class_name, name) == 0) return &profile->class_[i];
    return NULL;
}

const qs_profile_batch *qs_profile_batch_find(const qs_profile *profile, int64_t samples) {
    for (int i = 0; i < profile->batches; i++)
        if (profile->batch_row[i].samples == samples) return &profile->batch_row[i];
    return NULL;
}

static int compare_case(const void *key, const void *row) {
    return strcmp(key, ((const qs_kernel_cost *)row)->case_text);
}

/* A case's text around the widths of its narrow accumulator, "... accumulator=fp(8,9)/chunk64/align-truncate". */
typedef struct narrow_case {
    size_t head;      /* characters up to the widths */
    const char *tail; /* what follows them */
    int exponent_bits, mantissa_bits;
} narrow_case;

static bool narrow_find(const char *case_text, narrow_case *out) {
    static const char mark[] = " accumulator=fp(";
    const char *at = strstr(case_text, mark);
    int used = 0;
    if (!at) return false;
    out->head = (size_t)(at - case_text) + sizeof mark - 1;
    if (sscanf(case_text + out->head, "%d,%d%n", &out->exponent_bits, &out->mantissa_bits, &used) != 2) return false;
    out->tail = case_text + out->head + used;
    return true;
}

/* The row of the same case whose accumulator is nearest in mantissa bits, then in exponent bits: widths are data to a kernel, which takes
 * its time whatever they are. */
static const qs_kernel_cost *other_width(const qs_class_profile *profile, const char *case_text) {
    const qs_kernel_cost *best = NULL;
    narrow_case wanted, one;
    int least = INT_MAX;
    if (!narrow_find(case_text, &wanted)) return NULL;
    for (int k = 0; k < profile->kernels; k++) {
        const char *text = profile->kernel[k].case_text;
        if (strncmp(text, case_text, wanted.head) != 0 || !narrow_find(text, &one) || strcmp(one.tail, wanted.tail) != 0) continue;
        const int distance = 64 * abs(one.mantissa_bits - wanted.mantissa_bits) + abs(one.exponent_bits - wanted.exponent_bits);
        if (distance < least) best = &profile->kernel[k];
        if (distance < least) least = distance;
    }
    return best;
}

/* Where settings that are data to kernels begin in the text of a case: those of optimisers and of clip_norm; 0: it has none. They are the
 * only attributes there, so they begin behind the last operand, and zeros are left out. */
static size_t settings_find(const char *case_text) {
    const size_t length = strcspn(case_text, "/");
    const char *operand = strrchr(case_text, ']');
    const qs_op *op;
    for (size_t i = 0; operand && (op = qs_op_at(i)) != NULL; i++)
        if ((op->optimizer || op->updates) && strlen(op->name) == length && strncmp(op->name, case_text, length) == 0)
            return (size_t)(operand + 1 - case_text);
    return 0;
}

/* The row of the same update by other settings, which are data to its kernel. */
static const qs_kernel_cost *other_settings(const qs_class_profile *profile, const char *case_text) {
    const size_t head = settings_find(case_text);
    for (int k = 0; head > 0 && k < profile->kernels; k++) {
        const char *text = profile->kernel[k].case_text;
        if (strncmp(text, case_text, head) == 0 && settings_find(text) == head) return &profile->kernel[k];
    }
    return NULL;
}

const qs_kernel_cost *qs_class_profile_kernel(const qs_class_profile *profile, const char *case_text) {
    if (profile->kernels == 0) return NULL;
    const qs_kernel_cost *exact = bsearch(case_text, profile->kernel, (size_t)profile->kernels, sizeof *profile->kernel, compare_case);
    if (!exact) exact = other_width(profile, case_text);
    return exact ? exact : other_settings(profile, case_text);
}
