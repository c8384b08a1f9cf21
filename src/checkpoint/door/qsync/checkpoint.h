// SPDX-License-Identifier: Apache-2.0
/* checkpoint: a model's parameters to and from files of named tensors (tensor.h).
 *
 * Weights files hold every trained parameter and the running statistics under their names, fp32, logical O,I,H,W shapes with data in memory
 * order (channels last). Reading checks model name, every name and shape before anything is touched. */
#ifndef QSYNC_CHECKPOINT_H
#define QSYNC_CHECKPOINT_H

#include "qsync/graph.h"

/* Writes atomically. trained and statistics are the flat buffers of the graph (trained_elements, statistics_elements). */
QS_API qs_status qs_weights_write(const char *path, const qs_graph *graph, const float *trained, const float *statistics);
/* Fills the flat buffers; QS_MISMATCH names the first tensor that is missing, superfluous or of another shape. */
QS_API qs_status qs_weights_read(const char *path, const qs_graph *graph, float *trained, float *statistics);
/* Model name (with options) stored in a weights file, into name[64]. */
QS_API qs_status qs_weights_model(const char *path, char *name);

#endif
