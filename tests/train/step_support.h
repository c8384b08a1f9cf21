// SPDX-License-Identifier: Apache-2.0
/* One training step of a model in fp32, on images of any size and on a communicator of the test's choice. */
#ifndef QSYNC_TRAIN_STEP_SUPPORT_H
#define QSYNC_TRAIN_STEP_SUPPORT_H

#include "train_support.h"

typedef struct one_step {
    qs_graph *graph;
    qs_schedule *schedule;
    qs_memory *memory;
    qs_executor *executor;
} one_step;

/* Weights and inputs are the caller's to fill. Images are side × side, of three channels and ten classes; side 0: the model's own
 * samples. */
static inline void step_open(one_step *out, bench *here, qs_comm *comm, const char *model, int side, int64_t batch) {
    const qs_model_input input = {3, side, side, 10};
    assert_ok(qs_model_build(model, side ? &input : NULL, &out->graph));
    const qs_lowering lowering = {.graph = out->graph,
                                  .batch = batch,
                                  .mode = QS_MODE_TRAIN,
                                  .job = &here->job,
                                  .half = qs_format_of("fp32"),
                                  .lookup = qs_lookup_device,
                                  .context = here->device};
    assert_ok(qs_schedule_lower(&lowering, &out->schedule));
    assert_ok(qs_memory_reserve(here->device, out->schedule->arena_bytes, &out->memory));
    assert_ok(qs_executor_create(out->schedule, here->device, comm, out->memory, &out->executor));
}

static inline void step_close(one_step *here) {
    qs_executor_release(here->executor);
    qs_memory_release(here->memory);
    qs_schedule_release(here->schedule);
    qs_graph_release(here->graph);
}

#endif
