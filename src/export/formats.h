// SPDX-License-Identifier: Apache-2.0
/* Factors of products in the formats of a plan's class: what an adjustable operator reads, its weights and its bias (docs/export.md).
 *   fp32, tf32     as they are
 *   bf16, fp16     rounded by a Cast there and back; weights are stored in 16 bits
 *   integers       QuantizeLinear and DequantizeLinear: weights as codes with a step for each output channel, activations with one step,
 *                  which the calibration found, in shift groups with one for each channel; a bias as int32 codes of the product's steps
 *   float8         weights are stored as such, activations rounded by a Cast there and back
 *   other floats   weights are stored in fp32, rounded */
#ifndef QSYNC_EXPORT_FORMATS_H
#define QSYNC_EXPORT_FORMATS_H

#include "writer.h"

/* The least opset that holds the types of a recipe's forward part; and the type of a format. */
int qs__opset_of(const qs_recipe *recipe);
int qs__opset_of_tensor(const qs_tensor_choice *tensor);
/* Formats that a plan assigns to tensors: the values of parameters, all at once; the value of the node at hand, where ONNX has its type. */
void qs__parameters_round(qs__writer *w);
void qs__output_round(qs__writer *w);
/* QS_UNSUPPORTED where a file can not hold what the recipe of a node does forward. */
qs_status qs__recipe_check(const qs__writer *w, int node);
/* They give the output or the weights of the node at hand one that stands in the file. */
bool qs__tensors_assigned(const qs__writer *w);
/* The node at hand multiplies transformed values (hadamard): those are no values of the model, and it stands in fp32. */
bool qs__is_transformed(const qs__writer *w);
/* The recipe of the node at hand where its forward part is written in other formats than fp32; NULL: it is not. */
const qs_recipe *qs__reduced(const qs__writer *w);
/* Its weights are stored in other than fp32. */
bool qs__weights_narrow(const qs__writer *w);

/* A factor that is a value. */
typedef struct qs__factor {
    const char *name;
    double step;    /* of its codes; 0: it has none, or one for each channel */
    uint8_t *group; /* (channels, heap) it was multiplied by 2^group, which the weights take back; NULL: it was not */
} qs__factor;
/* An input, by its number and its name in an order of axes, rounded as the recipe says. `second`: the second factor of a product of two
 * values. */
qs__factor qs__factor_of(qs__writer *w, int input, qs__layout layout, const char *x, bool second);

/* A value that becomes a part of the node at hand, which keeps values as they are: in the codes that all who read the node put it into,
 * where these have one step; else as it is. Codes of codes are the same, so nothing changes but that what computed the value sees a
 * QuantizeLinear behind it, without which runtimes do not compute in integers. */
const char *qs__as_read(qs__writer *w, const char *x);

/* Weights [outputs, inner ...] and bias in the file's order of values. */
typedef struct qs__weights {
    const qs_weights_place *place;
    int axes;
    int64_t dim[4];
    bool turned;          /* a matrix is wanted as [inner, outputs]; windows stand in the file as [inputs, outputs, ...] */
    float *values, *bias; /* of the heap; values NULL: those of the file as they are; bias NULL: that of the file, or none */
    bool bare;            /* the bias meets the product by an Add of its own: it stays fp32 */
} qs__weights;
/* The values that folding, formats or a part of a packed tensor need: own copies in `one`. */
void qs__weights_own(qs__writer *w, qs__weights *one);
/* Writes them in the recipe's formats, and what they hold of the factor and of the heap is released; *bias is NULL where there is none. */
const char *qs__weights_write(qs__writer *w, qs__weights *one, qs__factor *factor, const char **bias);

#endif
