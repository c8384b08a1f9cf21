// SPDX-License-Identifier: Apache-2.0
#ifndef QSYNC_ONNX_FUSE_H
#define QSYNC_ONNX_FUSE_H

#include "import.h"

/* Puts one node where exporters wrote an operator as several: layer normalisation, root mean square normalisation, GELU, hard swish, SiLU,
 * group normalisation. What then is read by nobody is dead. */
void qs__fuse(qs__import *one);
/* Puts an operator with these inputs in a node's place. */
void qs__node_replace(qs__node *node, const char *op, int inputs, const int *input, double setting);
/* The node that makes a value, if it is of that operator; NULL else. */
qs__node *qs__maker(qs__import *one, int value, const char *op);
/* Products of halves of heads with cosines and sines of their positions are a rotation (rotary.c). */
void qs__rotary_find(qs__import *one);
/* Counts who reads what, and marks nodes dead whose outputs nobody reads. */
void qs__readers_count(qs__import *one);
/* Takes pairs of QuantizeLinear and DequantizeLinear out of the graph, before anything else is asked of it (codes.c). */
void qs__codes_drop(qs__import *one);
/* Whether a node's operator, of ai.onnx or of ONNX Runtime, is one of codes or makes them, and what one may do who has it in a file. */
bool qs__is_of_codes(const qs__node *node);
extern const char *const qs__codes_advice;
/* Joins matmul, softmax and matmul to attention, where the softmax is that of attention. */
void qs__attention_join(qs__import *one);

#endif
