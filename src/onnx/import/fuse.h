// SPDX-License-Identifier: Apache-2.0
#ifndef QSYNC_ONNX_FUSE_H
#define QSYNC_ONNX_FUSE_H

#include "import.h"

/* Puts one node where exporters wrote an operator as several: layer normalisation, root mean square normalisation, GELU, hard swish, SiLU,
 * group normalisation. What then is read by nobody is dead. */
void qs__fuse(qs__import *one);
/* Puts an operator with these inputs in a node's place. */
void qs__node_replace(qs__node *node, const char *op, int inputs, const int *input, double setting);
/* Counts who reads what, and marks nodes dead whose outputs nobody reads. */
void qs__readers_count(qs__import *one);
/* Joins matmul, softmax and matmul to attention, where the softmax is that of attention. */
void qs__attention_join(qs__import *one);

#endif
