// SPDX-License-Identifier: Apache-2.0
/* Sums over the rows of a profile that a schedule meets. */
#include "process.h"

#include <stdlib.h>
#include <string.h>

static int first_with(const qs_class_profile *profile, const char *kernel) {
    int i = 0;
    while (strcmp(profile->kernel[i].kernel, kernel) != 0)
        i++;
    return i;
}

qs_status qs__process_create(const qs_class_profile *profile, qs__process *out) {
    qs__process process = {.profile = profile};
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)profile->kernels, sizeof *process.first_of_kernel, &process.first_of_kernel));
    QS_GOTO(qs_allocate((size_t)profile->kernels, sizeof *process.met, &process.met));
    QS_GOTO(qs_allocate((size_t)profile->kernels, sizeof *process.counted, &process.counted));
    for (int i = 0; i < profile->kernels; i++)
        process.first_of_kernel[i] = first_with(profile, profile->kernel[i].kernel);
    *out = process;
    return QS_OK;
done:
    qs__process_release(&process);
    return status;
}

void qs__process_release(qs__process *process) {
    free(process->first_of_kernel);
    free(process->met);
    free(process->counted);
    *process = (qs__process){0};
}

void qs__process_bytes(qs__process *process, const qs_schedule *schedule, int64_t *program, int64_t *shared) {
    const qs_class_profile *profile = process->profile;
    *program = *shared = 0;
    memset(process->met, 0, (size_t)profile->kernels * sizeof *process->met);
    for (int s = 0; s < schedule->steps; s++) {
        if (schedule->step[s].kind != QS_STEP_KERNEL) continue;
        const qs_kernel_cost *row = qs_class_profile_kernel(profile, schedule->step[s].case_text);
        if (!row) continue;
        *program += row->held_bytes;
        process->met[row - profile->kernel] = true;
    }
    memset(process->counted, 0, (size_t)profile->kernels * sizeof *process->counted);
    for (int i = 0; i < profile->kernels; i++) {
        if (!process->met[i]) continue;
        bool *counted = &process->counted[process->first_of_kernel[i]];
        *program += profile->kernel[i].shared_bytes;
        if (!*counted) *shared += profile->kernel[i].code_bytes;
        *counted = true;
    }
}
