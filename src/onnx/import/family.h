// SPDX-License-Identifier: Apache-2.0
/* Inside the import: what families of operators share, and the functions that import them. */
#ifndef QSYNC_ONNX_FAMILY_H
#define QSYNC_ONNX_FAMILY_H

#include "import.h"

/* A copy of the flow that a node reads, which may be moved; else false, refused unless it is unknown. */
bool qs__flow_in(qs__import *one, const qs__node *node, int index, qs__value *out);
/* The first output is what the value is. */
void qs__pass_on(qs__import *one, const qs__node *node, const qs__value *value);
/* An fp32 tensor of the extents of another, in the memory of the import, and its elements. NULL on failure. */
qs_onnx_tensor *qs__tensor_make(qs__import *one, const qs_onnx_tensor *like, float **values);
/* A tensor that lies as the layout of the numbers says: theirs, or a copy. NULL on failure. */
const qs_onnx_tensor *qs__tensor_of(qs__import *one, const qs__value *numbers);
/* Of a matrix [I,O] that the exporter made of the weights [O,I] of a linear layer of PyTorch and gave a name without meaning: the name
 * of the weights, as the file tells it, and that they are to be given in their own order (torch.c). */
void qs__torch_weights(qs__import *one, const qs__node *node, qs__value *matrix);
/* (sample, position, heads side by side) as (sample, position, head, channel); false, and refused, where memory has them otherwise. */
bool qs__heads_apart(qs__import *one, qs__value *x, int64_t heads);
/* How much a value grows from one sample to the next, which is the number of the sample times that, and something that is the same for
 * all; 0: it is made otherwise. */
int64_t qs__sample_step(qs__import *one, int value);
/* A parameter that the file stores under a name with an end that says how (QS_ONNX_STORED_...): without it, and in its own order. `stored`
 * is what the file calls the codes, or the numbers. */
void qs__stored_name(qs__import *one, qs__value *weights, const char *stored);
/* Computes a node of numbers alone; false: it has other inputs, or is not known to the evaluator. */
bool qs__evaluate(qs__import *one, const qs__node *node);
/* x (.., I) times a matrix [O,I], and a bias or NULL: the axis becomes O. False where extents do not fit: refused. */
bool qs__linear_by(qs__import *one, qs__value *x, int axis, qs__value *matrix, const qs__value *bias);
/* Whether an axis is all of an image in the order channels, height, width, which files give its weights: then the image, flattened. */
bool qs__flattened(qs__import *one, qs__value *value, int axis, int *source, qs_shape *shape);
/* A few indices of an axis, from `first` on, `count` of them, `step` apart. The axis stays. */
void qs__cut(qs__import *one, qs__value *value, int axis, int64_t first, int64_t count, int64_t step);
/* Scores (.., queries, keys) and a mask, or numbers, that say which of them are hidden: what a softmax of them has to know. False where the
 * mask adds numbers to scores that count as well: `rest`, which are to be added before qs__hide_by. Of numbers false where they are none of
 * a mask. */
bool qs__hide(qs__import *one, const qs__node *node, const qs__value *scores, const qs__value *mask, qs__value *rest);
void qs__hide_by(qs__import *one, const qs__node *node, const qs__value *mask);
/* The same of a mask of scores at hand, numbers or what follows from an input: added where its elements are real numbers, else true where a
 * score is seen. False where it says more than which are hidden. */
bool qs__hide_scores(qs__import *one, qs__value *scores, const qs__value *mask);
bool qs__hide_constant(qs__import *one, const qs__node *node, const qs__value *scores, const qs__value *numbers);
/* A value whose axes of one index are repeated as those of a wider one are. */
qs__value qs__repeated_as(qs__import *one, const qs__value *wide, qs__value *narrow);
/* A node of masks, integers and numbers alone, in both worlds; false: it has other inputs. */
bool qs__mask_node(qs__import *one, const qs__node *node);

/* Lets recurrent networks read parameters as PyTorch has them, where the file's are made of those, and no first states of 0. What then is
 * read by nobody is dead. */
void qs__recurrent_find(qs__import *one);

/* What becomes of a node that reads numbers of the file alone, and of one that reads integers of inputs. */
typedef enum qs__on_numbers {
    QS__COMPUTED, /* the numbers are computed; what follows from integers is found before its function is asked (qs__mask_node) */
    QS__SEEN,     /* its function says how they are seen: nothing is copied, and a parameter stays one. Of integers as above */
    QS__PICKED    /* the same, and its function also takes integers, which are ids of rows */
} qs__on_numbers;

#define QS__ONNX(op, numbers) void qs__import_##op(qs__import *one, const qs__node *node);
#include "table.def"
#undef QS__ONNX

#endif
