// SPDX-License-Identifier: Apache-2.0
/* Inside the graph room: what several of its files say about a node. */
#ifndef QSYNC_GRAPH_INTERNAL_H
#define QSYNC_GRAPH_INTERNAL_H

#include "qsync/graph.h"

/* describe.c: hashes over text, chained through `seed`, so that they do not depend on padding, byte order or ordinals. */
uint64_t qs__attributes_hash(const qs_node *node, uint64_t seed);
/* Roles and shapes of a node's parameters. */
uint64_t qs__parameters_hash(const qs_graph *graph, int node, uint64_t seed);

#endif
