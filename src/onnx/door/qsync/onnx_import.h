// SPDX-License-Identifier: Apache-2.0
/* onnx_import: a model of an ONNX file as a record of operators (graph.json) and named tensors (weights), both under the names of the
 * file.
 *
 * What it does, in this order: reads and folds (qsync/onnx.h); puts single operators where exporters wrote several (layer normalisation,
 * GELU, ...); makes an operator, or a few, of each node; joins what attention was written in; drops a softmax at the end, which the loss
 * does; cuts off what does not reach the output; says what samples are and what is learned. Which operators of ONNX there are:
 * docs/models.md.
 *
 * Parameters keep their names, also where the file holds them transposed. What is trained: every initializer and every tensor of a
 * Constant node of real numbers, more than one, that an operator takes as a parameter. What is not: numbers that became settings,
 * results that were computed from others, and parameters whose values stand in for what the file lacks. */
#ifndef QSYNC_ONNX_IMPORT_DOOR_H
#define QSYNC_ONNX_IMPORT_DOOR_H

#include "qsync/onnx.h"
#include "qsync/record.h"

/* Nodes of one operator, and what they became: "conv2d, relu". */
typedef struct qs_onnx_row {
    char op[48];
    int nodes;
    char became[128];
} qs_onnx_row;

typedef struct qs_onnx_imported {
    qs_graph_record graph;
    qs_tensor_set weights; /* of all parameters, in fp32, fp16 or bf16; their data belong to what stands below */
    int rows;
    qs_onnx_row *row; /* in alphabetical order */
    int64_t length;   /* what was put for a length that the file leaves open; 0: it leaves none open */
    int joined;       /* products of scores and values that became attention */
    int notes;
    char **note;         /* lines for people: what was dropped, tied, frozen, and why */
    qs_onnx_model model; /* this and what follows owns what the weights are read from */
    qs_onnx_memory *memory;
    int arrays;
    void **values; /* arrays of those */
} qs_onnx_imported;

/* Imports a file. `text` is its path, behind which options may stand: "model.onnx:output=logits,length=64,height=224". `output` is the
 * name of the model's output that is learned; without it the first one, or two outputs of positions that are the two columns of one
 * value, as a span. `length` bounds the extent that varies, without it the argument of that name does, or (0) the rows of a table of
 * positions, or 128. Other names are symbols that the file leaves open.
 *
 * A file that leaves the length of sequences open is imported at a second one too. Where nothing but extents of views differs, the length
 * stays open: inputs vary, and one model runs at every length up to the bound. Where more does, a note says what.
 *
 * QS_UNSUPPORTED names all operators that cannot be imported, how often each occurs, and why;
 * QS_BAD_FILE and QS_USAGE as qs_onnx_open and qs_onnx_fold. Without `with_values` the weights have names and shapes alone. Release with
 * qs_onnx_imported_release, also after a failure. */
QS_API qs_status qs_onnx_import(const char *text, int64_t length, bool with_values, qs_onnx_imported *out);
QS_API void qs_onnx_imported_release(qs_onnx_imported *one);
/* Whether an operator of ONNX can be imported, in one form at least. */
QS_API bool qs_onnx_imports(const char *op);
/* Whether a model's text is of an ONNX file: ends in .onnx, or has options behind that. Without options the path: its length. */
QS_API bool qs_onnx_is_path(const char *text, size_t *length);

#endif
