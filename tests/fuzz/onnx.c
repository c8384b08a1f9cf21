// SPDX-License-Identifier: Apache-2.0
/* A fuzz target of libFuzzer over the reader of ONNX models and folding (CONTRIBUTING.md says how it is run). Whatever bytes come in: no
 * crash, no hang, no gigabytes. */
#include <stddef.h>
#include <stdint.h>

#include "qsync/onnx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    qs_onnx_model model;
    if (qs_onnx_open_bytes("fuzzed", data, bytes, &model) != QS_OK) return 0;
    const qs_onnx_fold_options options = {.parameters = bytes % 2 == 1};
    qs_onnx_fold(&model, &options);
    qs_onnx_release(&model);
    return 0;
}
