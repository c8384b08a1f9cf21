// SPDX-License-Identifier: Apache-2.0
/* Inside the graph room: what several of its files say about a node. */
#ifndef QSYNC_GRAPH_INTERNAL_H
#define QSYNC_GRAPH_INTERNAL_H

#include "qsync/graph.h"

/* describe.c: hashes over text, chained through `seed`, so that they do not depend on padding, byte order or ordinals. */
uint64_t qs__attributes_hash(const qs_node *node, uint64_t seed);
/* Roles and shapes of a node's parameters. */
uint64_t qs__parameters_hash(const qs_graph *graph, int node, uint64_t seed);

/* Integers of the input (ids, which positions count) are read all along a model; what flows through it are the other values. */
static inline bool qs__flows(const qs_graph *graph, int node) {
    return graph->node[node].op || graph->samples.input[node].type != QS_INPUT_I32;
}

/* graph.c: integers go from an input of the model to who reads integers, and nowhere else: each is the number of a row, or says whether a
 * position counts. */
qs_status qs__integers_check(const qs_graph *graph, const qs_node *node);

/* file.c: the record that describes a graph; release it also after a failure. */
struct qs_graph_record;
qs_status qs__record_of_graph(const qs_graph *graph, struct qs_graph_record *out);

/* changes.c: another graph, with changes ("+head=10+loss=token"). QS_USAGE names the option that says what the graph cannot have. */
qs_status qs__graph_change(const qs_graph *graph, const char *changes, qs_graph **out);

/* file.c: whether a model's text is of an ONNX file, and its model, which has its own size. */
bool qs__is_onnx(const char *text);
qs_status qs__onnx_open(const char *text, const qs_samples *samples, qs_graph **out);

/* Elements that a parameter takes of a flat buffer, so that the next one starts on 64 bytes: a cache line and the widest vector. */
static inline int64_t qs__parameter_room(int64_t elements) {
    return (elements + 15) / 16 * 16;
}

#endif
