// SPDX-License-Identifier: Apache-2.0
/* conformance: a case as a graph of ours, and one run of it. */
#ifndef QSYNC_BENCH_CONFORMANCE_RUN_H
#define QSYNC_BENCH_CONFORMANCE_RUN_H

#include "conformance.h"
#include "qsync/graph.h"

typedef struct case_graph {
    qs_graph *graph;
    float *weights, *statistics; /* flat, as the graph has them */
} case_graph;

/* Imports the case with the inputs that flow, and what it computes for one output, real numbers to be learned; its
 * weights are those bound. Release it also after a
 * failure. */
qs_status imported_open(const onnx_case *one, const bool *flows, int64_t batch, int output, const char *folder, case_graph *out);
void imported_close(case_graph *one);

typedef struct case_run {
    int64_t batch, outputs; /* outputs: values of all samples */
    float *output;          /* [outputs] */
    const float *target;    /* [outputs] of a loss over real numbers; NULL: zeros, of whatever loss */
    float *gradients;       /* [trained elements] of the weights, by one training step; NULL: evaluation */
} case_run;
qs_status imported_run(const onnx_case *one, const case_graph *imported, qs_device *device, const case_run *run);

#endif
