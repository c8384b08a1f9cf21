// SPDX-License-Identifier: Apache-2.0
/* A device for a program of one process. */
#include <stdlib.h>

#include "program.h"
#include "qsync/tuning.h"

void threads_pin(int threads) {
    qs_cores mine;
    int core[QS_MOST_CORES];
    qs_cores_read(threads, &mine);
    if (qs_cores_deal(1, &mine, 0, core)) (void)qs_threads_pin(threads, core);
}

qs_status tuned_take(qs_device *device) {
    qs_device_info info;
    qs_tuning tuning = {0};
    char *path = NULL;
    qs_device_describe(device, &info);
    QS_TRY(qs_tuning_path(&path));
    qs_status status = qs_tuning_read(path, &info, &tuning);
    if (status == QS_OK && tuning.choices > 0) qs_log(QS_LOG_DEBUG, "%d choices of kernels from %s", tuning.choices, path);
    free(path);
    if (status == QS_OK) status = qs_device_prefer(device, tuning.choices, tuning.choice);
    qs_tuning_release(&tuning);
    return status;
}

qs_status device_start(const char *backend, int threads, const char *isa, qs_device **out) {
    const qs_device_options options = {.backend = backend, .threads = threads, .isa = isa, .speed = 1};
    threads_pin(threads);
    QS_TRY(qs_device_open(&options, out));
    const qs_status status = tuned_take(*out);
    if (status != QS_OK) qs_device_close(*out);
    return status;
}
