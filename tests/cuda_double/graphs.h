// SPDX-License-Identifier: Apache-2.0
/* Descriptors of the double of cuDNN, and graphs of operations that are run. */
#ifndef QSYNC_TESTS_GRAPHS_H
#define QSYNC_TESTS_GRAPHS_H

#include "double.h"

#include <cudnn_graph.h>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

struct object;

struct attribute {
    cudnnBackendAttributeType_t type;
    int64_t count;
    std::string bytes;                            /* of plain values */
    std::vector<std::shared_ptr<object>> objects; /* of descriptors: as they were when they were set, whatever becomes of their handles */
};

/* What a descriptor stands for. */
struct object {
    cudnnBackendDescriptorType_t type;
    bool finished;
    std::map<int, attribute> attributes;
    std::shared_ptr<object> graph; /* of heuristics' results and plans */
    int engine;                    /* place in the list of engines */

    bool has(int name) const {
        return attributes.count(name) > 0;
    }
    const attribute &of(int name) const {
        const auto found = attributes.find(name);
        if (found == attributes.end()) qs_shim_fail("a cuDNN descriptor of type %d without attribute %d", (int)type, name);
        return found->second;
    }
    template <typename T> T value(int name, size_t index = 0) const {
        const attribute &from = of(name);
        T out;
        if (from.bytes.size() < (index + 1) * sizeof out) qs_shim_fail("cuDNN's attribute %d has too few values", name);
        memcpy(&out, from.bytes.data() + index * sizeof out, sizeof out);
        return out;
    }
    const object &other(int name, size_t index = 0) const {
        return *of(name).objects.at(index);
    }
};

/* NULL, or why no engine takes the graph. */
const char *graph_refusal(const object &graph);
/* The largest extent of the filters whose fp32 gradient it makes; 0: it makes none. */
int64_t graph_filter_gradient(const object &graph);
/* Runs it: where each tensor of memory lies, by its number. For work that runs in a stream. Tensor cores multiply fp32 as tf32. */
void graph_run(const object &graph, const std::map<int64_t, void *> &at, bool tensor_cores);
/* Tensors of memory that it needs, or makes: by number. */
std::map<int64_t, const object *> graph_tensors(const object &graph);
/* Bytes from the first to the last element. */
size_t tensor_extent(const object &tensor);

#endif
