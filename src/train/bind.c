// SPDX-License-Identifier: Apache-2.0
/* From a job to its graph. */
#include "train_internal.h"

#include <string.h>

/* The model at the set's own image size; where it is too small for the model, at the model's standard size (images are then centred in
 * padding). The first refusal is the one worth reading. */
qs_status qs_job_model(const qs_job *job, qs_graph **out) {
    qs_model_input input, standard;
    QS_TRY(qs_dataset_shape(job->dataset, &input.channels, &input.height, &input.width, &input.classes));
    QS_TRY(qs_model_input_of(job->model, &standard));
    qs_status status = qs_model_build(job->model, &input, out);
    if (status != QS_USAGE || standard.height <= input.height || standard.width <= input.width) return status;
    qs_model_input padded = {input.channels, standard.height, standard.width, input.classes};
    if (qs_model_build(job->model, &padded, out) == QS_OK) return QS_OK;
    return qs_model_build(job->model, &input, out);
}
