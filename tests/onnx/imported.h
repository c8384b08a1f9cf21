// SPDX-License-Identifier: Apache-2.0
/* Models that tests import: those of tests/golden/onnx, and those that they write byte by byte; and what they ask of the result. */
#ifndef QSYNC_TESTS_ONNX_IMPORTED
#define QSYNC_TESTS_ONNX_IMPORTED

#include "onnx/bytes.h"
#include "qsync/onnx_import.h"

#include <stdlib.h>
#include <unistd.h>

/* Opens a small model of tests/golden/onnx. */
static inline qs_onnx_imported imported(const char *name) {
    char path[1024];
    qs_onnx_imported out;
    snprintf(path, sizeof path, "%s/tests/golden/onnx/%s", getenv("QS_SOURCE"), name);
    if (qs_onnx_import(path, 0, false, &out) != QS_OK) fail_msg("%s", qs_message());
    return out;
}

static inline int operators_of(const qs_onnx_imported *one, const char *op) {
    int count = 0;
    for (int i = 0; i < one->graph.operators; i++)
        count += strcmp(one->graph.operator_[i].op, op) == 0;
    return count;
}

static inline bool has_tensor(const qs_onnx_imported *one, const char *name) {
    for (size_t i = 0; i < one->weights.count; i++)
        if (strcmp(one->weights.tensors[i].name, name) == 0) return true;
    return false;
}

/* The tensor whose name ends so. */
static inline const qs_named_tensor *tensor_that(const qs_onnx_imported *one, const char *end) {
    for (size_t i = 0; i < one->weights.count; i++) {
        const char *name = one->weights.tensors[i].name;
        if (strlen(name) >= strlen(end) && strcmp(name + strlen(name) - strlen(end), end) == 0) return &one->weights.tensors[i];
    }
    fail_msg("no tensor ends in %s", end);
    return NULL;
}

static inline bool has_note(const qs_onnx_imported *one, const char *part) {
    for (int i = 0; i < one->notes; i++)
        if (strstr(one->note[i], part)) return true;
    return false;
}

/* Writes bytes to a file whose name ends in XXXXXX.onnx, and imports it. */
static inline qs_status imported_bytes(bytes model, qs_onnx_imported *out) {
    char path[] = "written-XXXXXX.onnx";
    const int file = mkstemps(path, 5);
    assert_true(file >= 0 && write(file, model.data, model.count) == (ssize_t)model.count && close(file) == 0);
    const qs_status status = qs_onnx_import(path, 0, true, out);
    unlink(path);
    free(model.data);
    return status;
}

#endif
