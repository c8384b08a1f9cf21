// SPDX-License-Identifier: Apache-2.0
/* Which kernel runs a case: every family of kernels.def that can is a candidate, in the list's order; a family that was asked for comes
 * first. */
#include "cuda/cuda.h"

#include <string.h>

typedef struct family {
    const char *name, *op;
    qs__cuda_build build;
    bool special;
} family;

static const family families[] = {
#define QS_CUDA_KERNEL(name, op) {#name, op, qs__cuda_build_##name, false},
#define QS_CUDA_SPECIAL(name, op) {#name, op, qs__cuda_build_##name, true},
#include "cuda/kernels.def"
#undef QS_CUDA_KERNEL
#undef QS_CUDA_SPECIAL
    {NULL, NULL, NULL, false},
};

qs_status qs__cuda_family_ask(qs__cuda *cuda, const char *name) {
    const family *some = families;
    while (some->name && strcmp(some->name, name))
        some++;
    if (!some->name) return qs_fail(QS_USAGE, "kernel family '%s' is unknown: name one of device/cuda/kernels.def, or none", name);
    snprintf(cuda->family, sizeof cuda->family, "%s", name);
    return QS_OK;
}

static bool serves(const family *some, const qs_case *one) {
    return !strcmp(some->op, one->op->name) || (one->op->optimizer && !strcmp(some->op, "optimizers"));
}

void qs__cuda_kernel_clear(qs__cuda_kernel *kernel) {
    if (kernel->release) kernel->release(kernel);
    memset(kernel, 0, sizeof *kernel);
}

static qs_status family_build(const family *some, qs__cuda *cuda, const qs_case *one, qs__cuda_kernel *kernel) {
    qs__cuda_kernel_clear(kernel);
    kernel->cuda = cuda;
    kernel->one = *one;
    return some->build(kernel);
}

/* What candidates are taken in: the family asked for, then the others, each time in the list's order. */
enum { PASSES = 2 };
static bool in_pass(const family *some, const qs__cuda *cuda, int pass) {
    return (strcmp(some->name, cuda->family) == 0) == (pass == 0);
}

/* Where no family has a kernel, the reason of the first that is not special is reported. */
qs_status qs__cuda_choose(qs__cuda *cuda, const qs_case *one, const char *name, qs__cuda_kernel *kernel) {
    char reason[512] = "", others[256] = "";
    for (int pass = 0; pass < PASSES; pass++) {
        for (const family *some = families; some->name; some++) {
            if (!serves(some, one) || !in_pass(some, cuda, pass)) continue;
            const qs_status status = family_build(some, cuda, one, kernel);
            if (status != QS_OK && status != QS_UNSUPPORTED) return status;
            if (status == QS_UNSUPPORTED && !reason[0] && !some->special) snprintf(reason, sizeof reason, "%s", qs_message());
            if (status == QS_UNSUPPORTED) continue;
            if (!name || !strcmp(kernel->name, name)) return QS_OK;
            const size_t used = strlen(others);
            snprintf(others + used, sizeof others - used, "%s%s", used ? ", " : "", kernel->name);
        }
    }
    if (others[0]) return qs_fail(QS_MISMATCH, "this device has no kernel %s for it, but: %s", name, others);
    return qs_fail(QS_UNSUPPORTED, "%s", reason[0] ? reason : "the cuda device has no kernel for this operator");
}

qs_status qs__cuda_candidates(qs__cuda *cuda, const qs_case *one, qs_kernel_fact *out, int *count) {
    qs__cuda_kernel kernel = {0};
    qs_status status = QS_OK;
    int found = 0;
    for (int pass = 0; pass < PASSES; pass++) {
        for (const family *some = families; some->name && found < QS_MOST_CANDIDATES; some++) {
            if (!serves(some, one) || !in_pass(some, cuda, pass)) continue;
            status = family_build(some, cuda, one, &kernel);
            if (status == QS_UNSUPPORTED) continue;
            QS_GOTO(status);
            out[found].scratch_bytes = qs__cuda_scratch_whole(&kernel);
            snprintf(out[found++].kernel, sizeof out->kernel, "%s", kernel.name);
        }
    }
    *count = found;
    status = found > 0 ? QS_OK : qs__cuda_choose(cuda, one, NULL, &kernel); /* tells why there is none */
done:
    qs__cuda_kernel_clear(&kernel);
    return status;
}
