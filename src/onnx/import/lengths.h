// SPDX-License-Identifier: Apache-2.0
/* Inside the import: a model whose length stays open. */
#ifndef QSYNC_ONNX_LENGTHS_H
#define QSYNC_ONNX_LENGTHS_H

#include "qsync/onnx_import.h"

enum { QS__WHY = 160 };
/* Opens the length of a model that was imported with `length` in its place, by the same import with `others`. False where that cannot be:
 * the model is untouched, and `why` says what depends on the length otherwise. */
bool qs__length_open(qs_graph_record *graph, int64_t length, const qs_graph_record *other, int64_t others, char why[QS__WHY]);

#endif
