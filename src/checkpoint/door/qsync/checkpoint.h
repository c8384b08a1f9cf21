// SPDX-License-Identifier: Apache-2.0
/* checkpoint: a model's parameters, and whole training runs, to and from files of named tensors (tensor.h).
 *
 * Weights files hold every trained parameter and the running statistics under their names, fp32, logical O,I,H,W shapes with data in memory
 * order (channels last), and name the graph they are of. Reading checks that it is this graph, by its signature, or one of the same name
 * for images of another size, then every name and shape, before anything is touched. */
#ifndef QSYNC_CHECKPOINT_H
#define QSYNC_CHECKPOINT_H

#include "qsync/graph.h"

/* Writes atomically. trained and statistics are the flat buffers of the graph (trained_elements, statistics_elements). */
QS_API qs_status qs_weights_write(const char *path, const qs_graph *graph, const float *trained, const float *statistics);
/* Fills the flat buffers; QS_MISMATCH names the first tensor that is missing, superfluous or of another shape. */
QS_API qs_status qs_weights_read(const char *path, const qs_graph *graph, float *trained, float *statistics);
/* Model name (with options) stored in a weights file, into name[64]. */
QS_API qs_status qs_weights_model(const char *path, char *name);

/* ---- The state of a run ----------------------------------------------------------------------------------------------------- */
/* All that a run needs to go on with the same bits: flat fp32 buffers under their names, and how far it is. */
typedef struct qs_progress {
    int64_t step, steps_per_epoch; /* steps done, over all epochs */
    int64_t skipped;               /* of them skipped by loss scaling: the others updated the weights */
    double loss_scale;             /* of the next step */
    int64_t good_steps, bad_steps; /* since the last change of the scale; skipped in a row, up to now */
} qs_progress;

typedef struct qs_state_part {
    char name[64];
    int64_t elements;
    float *data; /* reading: NULL where it only has to be there */
} qs_state_part;

/* Writes atomically. */
QS_API qs_status qs_state_write(const char *path, const qs_graph *graph, const qs_progress *progress, int parts, const qs_state_part *part);
/* Fills the parts' data. QS_MISMATCH, with nothing touched, when it is the state of another model (name or graph), or has other parts. */
QS_API qs_status qs_state_read(const char *path, const qs_graph *graph, int parts, const qs_state_part *part, qs_progress *out);
/* One part, whatever others there are. */
QS_API qs_status qs_state_read_part(const char *path, const qs_graph *graph, const qs_state_part *part);

#endif
