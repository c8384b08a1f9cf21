// SPDX-License-Identifier: Apache-2.0
/* From the user's cache to devices: the kernels that `bench --tune` found the fastest. */
#include <stdlib.h>

#include "cli.h"
#include "qsync/tuning.h"

static qs_status cache_read(const qs_device *device, qs_tuning *out) {
    qs_device_info info;
    char *path = NULL;
    qs_device_describe(device, &info);
    QS_TRY(qs_tuning_path(&path));
    const qs_status status = qs_tuning_read(path, &info, out);
    if (status == QS_OK && out->choices > 0) qs_log(QS_LOG_DEBUG, "%d choices of kernels from %s", out->choices, path);
    free(path);
    return status;
}

qs_status tuned_take(qs_device *device) {
    qs_tuning tuning;
    QS_TRY(cache_read(device, &tuning));
    const qs_status status = qs_device_prefer(device, tuning.choices, tuning.choice);
    qs_tuning_release(&tuning);
    return status;
}

static qs_status text_read(const qs_device *device, char **text) {
    qs_tuning tuning;
    QS_TRY(cache_read(device, &tuning));
    const qs_status status = qs_tuning_text(&tuning, text);
    qs_tuning_release(&tuning);
    return status;
}

static qs_status text_take(qs_device *device, const char *text) {
    qs_tuning tuning;
    QS_TRY(qs_tuning_parse(text, &tuning));
    const qs_status status = qs_device_prefer(device, tuning.choices, tuning.choice);
    qs_tuning_release(&tuning);
    return status;
}

static qs_status class_share(session *one, int class_index, int root) {
    char *text = NULL;
    qs_status status = qs_comm_rank(one->comm) == root ? text_read(one->device, &text) : QS_OK;
    status = qs_comm_agree(one->comm, status);
    if (status == QS_OK) status = qs_comm_broadcast_text(one->comm, &text, root);
    if (status == QS_OK && one->class_index == class_index) status = text_take(one->device, text);
    free(text);
    return qs_comm_agree(one->comm, status);
}

qs_status tuned_share(session *one) {
    for (int i = 0, root = 0; i < one->cluster.classes; root += one->cluster.class_[i++].count)
        QS_TRY(class_share(one, i, root));
    return QS_OK;
}
