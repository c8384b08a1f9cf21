// SPDX-License-Identifier: Apache-2.0
/* The model that a job trains, as its data set shapes it. */
#ifndef QSYNC_KIT_JOB_MODEL_H
#define QSYNC_KIT_JOB_MODEL_H

#include "qsync/data.h"
#include "qsync/graph.h"
#include "qsync/record.h"

static inline qs_status job_model(const qs_job *job, qs_graph **out) {
    qs_data_description set;
    QS_TRY(qs_dataset_describe(job->dataset, NULL, &set));
    return qs_model_open(job->model, &set.samples, out);
}

#endif
