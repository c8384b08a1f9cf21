// SPDX-License-Identifier: Apache-2.0
/* probe: the gradient of one fixed batch under any weights and recipes, what the ground truth and the Hessian ask for again and again. A
 * short fp32 training at the statistics' batch comes first; its weights are kept aside, and learning rate 0 leaves them alone afterwards.
 * Dropout is switched off: its masks are drawn with the seeds that rounding varies. */
#ifndef QSYNC_PROFILER_PROBE_H
#define QSYNC_PROFILER_PROBE_H

#include "qsync/profiler.h"

typedef struct qs__probe {
    qs_job job; /* without dynamic loss scaling: the scale is the same in all runs */
    qs_device *device;
    qs_comm *self;
    const qs_format *half;
    qs_graph *graph;
    qs_dataset training;
    int64_t batch;            /* samples of a run */
    int64_t *order, *indices; /* (training.count), (batch) */
    int64_t at;               /* the fixed batch: the one behind the training */
    qs_recipe fp32;
    const qs_recipe **recipe; /* (nodes) of the next program; all fp32 at first */
    float *weights;           /* (trained elements) as the training left them */
    float *statistics;        /* (statistics elements) running ones, as every program begins with */
    float *gradient;          /* (trained elements) of the last run */
    qs_memory *memory;
    qs_schedule *schedule; /* the program at hand */
    qs_executor *executor;
} qs__probe;

/* Samples of a run for a job's local batch: half of it, as in statistics. */
int64_t qs__probe_batch(int64_t batch);
/* Trains for so many iterations from `weights` on (trained elements; NULL: those of the job's seed), a copy of `model`, which other ranks
 * may have opened, with nothing frozen; NULL: the job's. Release also after a failure. */
qs_status qs__probe_start(const qs_job *job, const qs_graph *model, const qs_format *half, const char *data_folder, int warm_up,
                          const float *weights, qs_device *device, qs__probe *out);
void qs__probe_release(qs__probe *probe);
/* Lowers with probe->recipe and puts the trained weights in. */
qs_status qs__probe_program(qs__probe *probe);
/* Sets `count` master weights of the program at hand from `first` on: the next gradient is taken there. */
qs_status qs__probe_weights_set(const qs__probe *probe, int64_t first, int64_t count, const float *values);
/* Gradient of the mean loss at a batch of the training's order (probe->at: the fixed one), flat, scaled by the job's loss scale, until the
 * next call; QS_NUMERIC when the loss is not finite. `seed` keys the rounding. */
qs_status qs__probe_gradient(qs__probe *probe, uint64_t seed, int64_t batch, const float **out);

#endif
