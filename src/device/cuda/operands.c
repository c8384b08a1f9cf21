// SPDX-License-Identifier: Apache-2.0
/* See operands.h. */
#include "cuda/operands.h"
#include "cuda/own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

qs_status qs__cuda_own(qs__cuda_kernel *kernel, const char *function) {
    int index;
    snprintf(kernel->name, sizeof kernel->name, "own:%s", kernel->one.op->name);
    return qs__cuda_function(kernel, function, &index);
}

bool qs__cuda_is_forward(const qs__cuda_kernel *kernel) {
    return strcmp(kernel->one.pass->name, "forward") == 0;
}

qs_status qs__cuda_absmax_clear(const qs__cuda_kernel *kernel, uint64_t *at) {
    *at = qs__cuda_at(kernel, QS_ABSMAX);
    return *at == 0 ? QS_OK : qs__cuda_clear(kernel, *at, sizeof(float));
}

qs_status qs__cuda_each(const qs__cuda_kernel *kernel, int64_t channels, int *each) {
    *each = channels % 8 == 0 ? 8 : 1;
    for (int i = 0; i < kernel->one.operands && *each == 1; i++) {
        const qs_format *format = kernel->one.operand[i].format;
        if (format && format->bits % 8 && format->kind == QS_KIND_FLOAT)
            return qs_fail(QS_UNSUPPORTED, "rows of %lld values of %s do not begin at whole bytes: take channels in eights",
                           (long long)channels, format->name);
    }
    return QS_OK;
}

qs_status qs__cuda_ids_complain(const qs__cuda_kernel *kernel, const qs__cuda_complaint *complaint) {
    int32_t *ids; /* all right but for this one */
    qs_status status;
    QS_TRY(qs_allocate((size_t)qs__case_count(&kernel->one, QS_IDS), sizeof *ids, &ids));
    ids[complaint->index] = complaint->value;
    status = qs_ids_check(&kernel->one, ids);
    free(ids);
    return status;
}
