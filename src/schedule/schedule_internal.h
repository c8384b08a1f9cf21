// SPDX-License-Identifier: Apache-2.0
/* What the files of this room share: the lowering under construction, its buffers and steps. */
#ifndef QSYNC_SCHEDULE_INTERNAL_H
#define QSYNC_SCHEDULE_INTERNAL_H

#include "qsync/schedule.h"

/* Random streams within one node: independent draws for each converted operand; passes of the node itself (dropout) draw from stream 0. */
typedef enum qs_stream { QS_STREAM_VALUE = 1, QS_STREAM_WEIGHTS, QS_STREAM_INPUT_WEIGHTS, QS_STREAM_GRADIENT, QS_STREAM_SAVED } qs_stream;

/* A converted form of a value: made once, shared by its readers. */
typedef struct qs_copy {
    qs_quantizer quantizer;
    int buffer, step_buffer; /* step_buffer: fixed-point step, -1 for floats */
} qs_copy;
#define QS_MAX_COPIES 8

typedef struct qs_node_state {
    int value; /* buffer of the output */
    int mask, mean, variance;
    int gradient;        /* buffer of the output's gradient; -1: none yet */
    bool gradient_owned; /* no other reader: sums may be formed in place */
    bool needs_gradient;
    int copies, gradient_copies;
    qs_copy copy[QS_MAX_COPIES], gradient_copy[QS_MAX_COPIES];
    qs_copy weights; /* the converted form that lies in the place of the gradient; format NULL: none yet */
} qs_node_state;

typedef struct qs_lowerer {
    const qs_lowering *in;
    const qs_graph *graph;
    qs_schedule *out;
    size_t step_capacity, buffer_capacity;
    qs_node_state *node;
    int *bucket_of;      /* (parameters) */
    int *bucket_missing; /* (buckets) gradients still to come */
    const qs_format *fp32, *int8;
    qs_phase phase;
} qs_lowerer;

/* A step under construction: the case and where its operands lie. */
typedef struct qs_draft {
    int node;
    uint64_t stream;
    bool conversion;
    int bucket;
    qs_case case_;
    qs_place place[QS_MAX_OPERANDS];
} qs_draft;

/* builder.c */
qs_status qs__buffer_add(qs_lowerer *lowerer, qs_category category, size_t bytes, int *out, const char *format, ...) QS_PRINTF(5, 6);
qs_draft qs__draft_make(int node, const char *op, const char *pass, const qs_attributes *attributes);
void qs__draft_bind(qs_draft *draft, qs_role role, qs_shape shape, const qs_format *format, int buffer, size_t offset);
qs_status qs__step_emit(qs_lowerer *lowerer, const qs_draft *draft);
qs_status qs__reduce_emit(qs_lowerer *lowerer, qs_step_kind kind, int bucket);
/* Place of a node's parameter of a role in the masters (or, with gradients true, in the gradients); NULL when the node has none. */
const qs_parameter *qs__parameter_find(const qs_lowerer *lowerer, int node, qs_role role);
const qs_recipe *qs__recipe_of(const qs_lowerer *lowerer, int node);

/* formats.c: fills schedule->value_format (qsync.md §4.3). */
qs_status qs__formats_assign(qs_lowerer *lowerer);

/* convert.c: the buffer that holds a value (or gradient, or weights) in the format a reader needs; emits the conversion the first time. */
qs_status qs__value_as(qs_lowerer *lowerer, int node, const qs_quantizer *quantizer, qs_copy *out);
qs_status qs__gradient_as(qs_lowerer *lowerer, int node, const qs_quantizer *quantizer, qs_copy *out);
qs_status qs__saved_as(qs_lowerer *lowerer, int reader, int node, const qs_quantizer *forward, const qs_quantizer *wanted, qs_copy *out);
/* in_gradient: the copy lies in the place of the weights' gradient, until that is written; else in a buffer of its own. */
qs_status qs__weights_as(qs_lowerer *lowerer, int node, qs_stream stream, const qs_quantizer *quantizer, bool in_gradient,
                         qs_place *weights, int *step_buffer);

/* buckets.c */
qs_status qs__buckets_make(qs_lowerer *lowerer);
/* A gradient of a parameter has been written: starts its bucket's all-reduce when it was the last one. */
qs_status qs__bucket_gradient_done(qs_lowerer *lowerer, const qs_parameter *parameter);
qs_status qs__update_emit(qs_lowerer *lowerer);

/* forward.c, backward.c */
qs_status qs__forward_emit(qs_lowerer *lowerer);
qs_status qs__backward_emit(qs_lowerer *lowerer);
qs_status qs__statistics_emit(qs_lowerer *lowerer, int node, int which, qs_shape shape, const qs_format *format, qs_place place);

/* memory.c: intervals, packing, peak. */
qs_status qs__memory_pack(qs_lowerer *lowerer);

#endif
