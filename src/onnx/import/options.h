// SPDX-License-Identifier: Apache-2.0
/* Inside the import: what stands behind a file in a model's text. */
#ifndef QSYNC_ONNX_OPTIONS_H
#define QSYNC_ONNX_OPTIONS_H

#include "qsync/onnx_import.h"

enum { QS__MOST_BINDINGS = 16 };
typedef struct qs__options {
    char *text; /* a copy, cut into pieces */
    const char *path, *output;
    int64_t length; /* 0: not said */
    bool open;      /* the file leaves it open */
    size_t bindings;
    qs_onnx_binding binding[QS__MOST_BINDINGS];
    char name[QS__MOST_BINDINGS][64]; /* of bindings that are made here */
} qs__options;

/* Reads "model.onnx:output=logits,length=64"; out->text is to be freed, also after a failure. */
qs_status qs__options_read(const char *text, qs__options *out);
/* Binds the extent of sequences that the file leaves open, where it does: to the length that was said, the rows of a table of positions, or
 * 128. */
qs_status qs__length_bind(const qs_onnx_model *model, qs__options *with);
/* What the model is called: its file without folder and ending. */
void qs__model_name(const char *path, char name[QS_MODEL_NAME]);

#endif
