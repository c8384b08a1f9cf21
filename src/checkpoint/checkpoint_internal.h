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
    bool bare;       /* [1, ...], ours is [...] of two axes */
    int part, parts; /* it is so many equal pieces along the outputs, and the parameter is this one */
    qs_shape shape;  /* that the file gives it; axes 0: what follows from the above */
} qs__place;

/* The layout that files of such a graph are written in; the one by which a file is read for it. NULL: each parameter is a
 * tensor, without a prefix. */
const qs__layout *qs__layout_of_graph(const qs_graph *graph);
const qs__layout *qs__layout_of_file(const qs_tensor_set *set, const qs_graph *graph);
qs__place qs__place_of(const qs__layout *layout, const qs_graph *graph, const qs_parameter *parameter);
/* Shape of the tensor that holds the parameter there. */
qs_shape qs__place_shape(const qs__place *place, const qs_parameter *parameter);
/* A tensor that files of other programs hold beside the weights, and that is computed: masks, positions, counts. */
bool qs__is_computed(const char *name);
/* ---- Files of other programs ------------------------------------------------------------------------------------------------- */

/* Whether a file is one of llama2.c's, by its first `bytes` and its length; by its first bytes a GGUF file. */
bool qs__llama2c_is(const char *file, size_t bytes, size_t all_bytes);
bool qs__gguf_is(const char *file, size_t bytes);
/* Tensors of a file in memory under Hugging Face's names. The first one takes the memory over where it succeeds. */
qs_status qs__llama2c_read(const char *path, char *file, size_t bytes, qs_tensor_set *out);
qs_status qs__gguf_read(const char *path, const char *file, size_t bytes, qs_tensor_set *out);
/* Rows of queries or keys of which each head's neighbours are rotated in pairs (llama2.c, GGUF) into the order of those whose halves are
 * (Hugging Face): in each head rows 0, 2, 4 ..., then 1, 3, 5 ... */
qs_status qs__rotary_halves(float *matrix, int64_t heads, int64_t rows, int64_t columns);

/* ---- Values (values.c) ------------------------------------------------------------------------------------------------------ */

/* From a tensor of a file, of any float format, to the parameter in memory. */
qs_status qs__values_read(const qs_graph *graph, const qs_parameter *parameter, const qs__place *place, const qs_tensor *tensor,
                          float *out);
/* The image [1,C,H,W] whose flattened features are the last axis of a parameter; axes 0: it has none. */
qs_shape qs__values_image(const qs_graph *graph, const qs_parameter *parameter);
/* The way back, into the values of the file's fp32 tensor: all of them, or the part that is this parameter's. */
qs_status qs__values_write(const qs_graph *graph, const qs_parameter *parameter, const qs__place *place, const float *values, float *out);

#endif
