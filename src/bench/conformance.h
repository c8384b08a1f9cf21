// SPDX-License-Identifier: Apache-2.0
/* conformance: official cases of ONNX, and the ways to run one. A case is a folder: model.onnx, and in test_data_set_0 the files input_I.pb
 * and output_I.pb with a tensor each. */
#ifndef QSYNC_BENCH_CONFORMANCE_H
#define QSYNC_BENCH_CONFORMANCE_H

#include "qsync/device.h"
#include "qsync/onnx.h"
#include "qsync/protobuf.h"

enum { CASE_MOST = 16 }; /* inputs, or outputs */

typedef struct onnx_case {
    char folder[480], name[96], suite[24];
    char op[48];  /* that it is a case of */
    char *bytes;  /* of model.onnx */
    size_t count; /* of them */
    qs_onnx_model model;
    qs_onnx_memory *memory; /* of the tensors */
    int inputs, outputs;
    qs_onnx_tensor input[CASE_MOST], output[CASE_MOST]; /* in the order of the model's */
    char outside[200];                                  /* why it is not to be run; "": it is. Only then the rest is there */
} onnx_case;

/* Reads the case of a folder. What cannot be read because it is outside of what is run says so in `outside`; a failure is of the files. */
qs_status case_open(const char *root, const char *suite, const char *name, onnx_case *out);
void case_close(onnx_case *one);
/* The fields of its model. */
qs_wire case_wire(const onnx_case *one);
/* QS_MISMATCH says in which value a result differs from what the case expects of an output: tolerances are those of ONNX's own runner, 1e-3
 * of the value and 1e-7, NaN equals NaN. Extents and type must be equal. */
qs_status case_compare(const onnx_case *one, int output, const qs_onnx_tensor *found);

/* What became of one way. */
typedef enum way_result {
    WAY_PASSED,
    WAY_FAILED, /* it ran, and values differ */
    WAY_REFUSED /* it did not run */
} way_result;
typedef struct way {
    way_result result;
    char why[240];  /* unless it passed */
    char bound[64]; /* kernels: the inputs that were bound as weights and constants, "W, B"; "": none */
} way;

/* Notes how a way ended, with the message of a failure, which begins with no name of a file. */
void way_end(way *out, way_result result, const onnx_case *one);

/* The evaluator that folds constants: what has no gradients runs by it in real models. */
void case_fold(const onnx_case *one, way *out);
/* Imports the case as a model: inputs that models have as weights are bound to their values, the others are what flows from sample to
 * sample, axis 0 being the batch. Evaluates one batch in fp32 on each of the devices. `folder` is for files that come and go. */
void case_kernels(const onnx_case *one, int devices, qs_device *const *device, const char *folder, way *out);
/* Operators of ai.onnx.preview.training: an update by our optimiser, gradients by training steps of the imported graph. */
void case_train(const onnx_case *one, int devices, qs_device *const *device, const char *folder, way *out);

#endif
