// SPDX-License-Identifier: Apache-2.0
/* export: a model with its weights as an ONNX file (https://github.com/onnx/onnx), for ONNX Runtime and other programs that run such
 * files (docs/export.md).
 *
 * The file takes the model's inputs under their names with a batch of any size ("batch"): images as float [batch, C, H, W], sequences as
 * int64 [batch, L]; and gives what the loss reads, "logits": [batch, classes], or [batch, L, classes]. The loss is left out. Initializers
 * have the names, shapes and order of values that weights files have (checkpoint.h).
 *
 * Every operator has a function that writes its ONNX nodes; operators without one are told all at once. Values that qsync keeps
 * channels-last stand as the ONNX operators want them, images [N,C,H,W] and sequences [N,L,C]; transposes stand where neighbours disagree
 * only. */
#ifndef QSYNC_EXPORT_H
#define QSYNC_EXPORT_H

#include "qsync/checkpoint.h"
#include "qsync/record.h"

typedef enum qs_export_form {
    QS_EXPORT_INFERENCE, /* batch norms by running statistics, no dropout */
    QS_EXPORT_TRAINING   /* batch norms by the batch, dropout that drops: what other trainers go on from */
} qs_export_form;

enum { QS_EXPORT_LEAST_OPSET = 17, QS_EXPORT_MOST_OPSET = 23 };

/* Magnitudes of each channel (axis 1) of every node's output over the samples of a calibration. Where codes have room beyond their format
 * (docs/export.md) a step is made from the typical ones, else from the largest. */
typedef struct qs_export_ranges {
    int nodes;
    float **largest; /* (nodes) of each as many as its output has channels; NULL: not known */
    float **typical; /* the largest of a batch, the mean over batches; NULL: as `largest` */
} qs_export_ranges;

typedef struct qs_export_options {
    qs_export_form form;
    bool fold;     /* batch norms go into the convolutions before them; inference only */
    bool external; /* values lie in a file of their own, PATH.data, as they must from 2 GB on */
    int opset;     /* 0: the lowest from 17 on that holds the types used */
    const float *mean,
        *deviation; /* of each channel: images then come as 0 ... 255, and x becomes (x / 255 - mean) / deviation; NULL: images
                                      come normalised */
    const qs_recipe *const *recipe; /* (nodes) operators in the formats that their forward part has there (qs_plan_bind); NULL: fp32 */
    const qs_tensor_choice *const *value;     /* (nodes) formats of tensors, where a plan assigns them (qs_tensors_bind); NULL: fp32 */
    const qs_tensor_choice *const *parameter; /* (parameters) the same; NULL: fp32 */
    const qs_export_ranges *ranges;           /* needed where a recipe has activations in integers */
} qs_export_options;

typedef struct qs_export_summary {
    int opset, ir_version, nodes;
    int64_t bytes;                                /* of the file, and of that of values */
    int integer, half, float8, int4, transformed; /* operators whose forward part is in such a format; `transformed`: see docs/export.md */
    int shift_groups;                             /* of those in integers: with a step for each channel of what they read */
} qs_export_summary;

/* Writes atomically. trained and statistics are the flat buffers of the graph. QS_UNSUPPORTED names the operators that have no ONNX nodes,
 * all of them; QS_USAGE options that contradict each other, an opset that does not hold what is used; QS_MISMATCH ranges that lack a
 * value. */
QS_API qs_status qs_export_onnx(const qs_graph *graph, const float *trained, const float *statistics, const qs_export_options *options,
                                const char *path, qs_export_summary *out);

#endif
