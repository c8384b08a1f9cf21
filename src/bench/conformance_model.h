// SPDX-License-Identifier: Apache-2.0
#ifndef QSYNC_BENCH_CONFORMANCE_MODEL_H
#define QSYNC_BENCH_CONFORMANCE_MODEL_H

#include "conformance.h"

/* Names of what flows in and out of the model, by the number of the case's input. */
#define CASE_INPUT "case_input_%d"
#define CASE_OUTPUT "case_output"

/* Which axis of an input that flows, or of an output, is the samples: the first, but of recurrent networks whose first is positions. */
int case_samples_axis(const onnx_case *one, const qs_onnx_tensor *tensor, bool output);
/* Numbers in the tensor's order of axes with that axis in front; or, `back`, the other way around. */
void case_samples_move(const qs_onnx_tensor *tensor, int axis, bool back, const float *from, float *to);
/* Writes the case as a model file of one output: inputs that flow are (batch, numbers), or integers as they are; the others are bound to
 * the case's values. The output has its sign changed. */
qs_status case_model_write(const onnx_case *one, const bool *flows, int output, const char *path);

#endif
