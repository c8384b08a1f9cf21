// SPDX-License-Identifier: Apache-2.0
/* The functions that write operators, by subject, and what they share. */
#ifndef QSYNC_EXPORT_OPERATORS_H
#define QSYNC_EXPORT_OPERATORS_H

#include "formats.h"

typedef void qs__write(qs__writer *w);

/* products.c */
qs__write qs__write_conv2d, qs__write_linear, qs__write_matmul, qs__write_attention, qs__write_softmax;
/* elementwise.c */
qs__write qs__write_norm, qs__write_rms_norm, qs__write_relu, qs__write_gelu, qs__write_silu, qs__write_tanh, qs__write_add,
    qs__write_multiply, qs__write_subtract, qs__write_divide, qs__write_minimum, qs__write_maximum, qs__write_dropout;
/* functions.c */
qs__write qs__write_sigmoid, qs__write_hard_sigmoid, qs__write_hard_swish, qs__write_leaky_relu, qs__write_elu, qs__write_celu,
    qs__write_selu, qs__write_softplus, qs__write_softsign, qs__write_mish, qs__write_exp, qs__write_log, qs__write_sqrt, qs__write_abs,
    qs__write_erf, qs__write_reciprocal, qs__write_power, qs__write_clip, qs__write_affine, qs__write_gate, qs__write_expand,
    qs__write_gain, qs__write_offset, qs__write_prelu, qs__write_reduce_sum, qs__write_reduce_mean, qs__write_reduce_max, qs__write_reshape,
    qs__write_permute;
/* shapes.c */
qs__write qs__write_concat, qs__write_slice, qs__write_channel_shuffle, qs__write_max_pool, qs__write_average_pool,
    qs__write_global_average_pool, qs__write_flatten, qs__write_sequence;
/* images.c */
qs__write qs__write_conv_transpose, qs__write_group_norm, qs__write_instance_norm, qs__write_local_response_norm, qs__write_pad,
    qs__write_resize;
/* positions.c */
qs__write qs__write_embedding, qs__write_positions, qs__write_rotary, qs__write_position, qs__write_gather, qs__write_class_token;

/* recurrent.c */
qs__write qs__write_recurrence;

/* In training form elements are dropped with this probability; else x itself. */
const char *qs__onnx_dropped(qs__writer *w, const char *x, double probability);
/* kernel, stride and padding of an operator as attributes. */
void qs__window_attributes(const qs_attributes *of, qs_protobuf *with);

#endif
