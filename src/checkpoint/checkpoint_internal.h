// SPDX-License-Identifier: Apache-2.0
/* What the files of checkpoint share: where a parameter stands in a weights file, and in which order its values. */
#ifndef QSYNC_CHECKPOINT_INTERNAL_H
#define QSYNC_CHECKPOINT_INTERNAL_H

#include "qsync/checkpoint.h"

/* ---- Names (names.c) -------------------------------------------------------------------------------------------------------- */

/* How the files of a family of models differ from its nodes: rules for nodes whose names end alike. */
typedef struct qs__layout qs__layout;

/* A parameter as a file has it. */
typedef struct qs__place {
    char name[96];   /* of the tensor */
    bool transposed; /* a matrix [in, out], where ours is [out, in] */
    int part, parts; /* it is so many equal pieces along the outputs, and the parameter is this one */
} qs__place;

/* The layout that files of such a graph are written in; that of the tensors of a file. NULL: one tensor a parameter. */
const qs__layout *qs__layout_of_graph(const qs_graph *graph);
const qs__layout *qs__layout_of_file(const qs_tensor_set *set);
qs__place qs__place_of(const qs__layout *layout, const qs_graph *graph, const qs_parameter *parameter);
/* Shape of the tensor that holds the parameter there. */
qs_shape qs__place_shape(const qs__place *place, const qs_parameter *parameter);
/* A tensor that files of other programs hold beside the weights, and that is computed: masks, positions, counts. */
bool qs__is_computed(const char *name);
/* ---- Values (values.c) ------------------------------------------------------------------------------------------------------ */

/* From a tensor of a file, of any float format, to the parameter in memory. */
qs_status qs__values_read(const qs_graph *graph, const qs_parameter *parameter, const qs__place *place, const qs_tensor *tensor,
                          float *out);
/* The way back, into the values of the file's fp32 tensor: all of them, or the part that is this parameter's. */
qs_status qs__values_write(const qs_graph *graph, const qs_parameter *parameter, const qs__place *place, const float *values, float *out);

#endif
