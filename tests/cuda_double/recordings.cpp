// SPDX-License-Identifier: Apache-2.0
/* Graphs of the driver's double: a stream that captures puts its work into one, in order; what is made of it to be launched does that work
 * again at every launch, with the jobs that its kernels had when it was launched. */
#include "inside.h"

#include <cstdlib>
#include <cstring>
#include <vector>

using namespace inside;

struct CUgraphNode_st {
    CUgraph graph;
    item one;
};
struct CUgraph_st {
    CUcontext context;
    std::vector<std::unique_ptr<CUgraphNode_st>> nodes; /* in order */
    CUgraphNode last;
};
struct CUgraphExec_st {
    CUcontext context;
    CUgraph graph;
    std::vector<CUgraphNode> nodes;
    std::vector<item> items; /* as they are launched next */
};

static std::set<CUgraph> graphs;
static std::set<CUgraphExec> ready;

static bool is_set(const char *value) {
    const char *text = getenv("QSYNC_DOUBLE_GRAPHS");
    return text && !strcmp(text, value);
}

void inside::capture(CUgraph graph, item one) {
    graph->nodes.emplace_back(new CUgraphNode_st{graph, std::move(one)});
    graph->last = graph->nodes.back().get();
}

bool inside::is_in_graphs(CUmodule module) {
    for (CUgraphExec one : ready)
        for (const item &part : one->items)
            if (part.module == module) return true;
    return false;
}

API CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
    ENTER_CONTEXT("cuStreamBeginCapture");
    qs_double_check_stream(function, stream);
    if (is_set("none")) return CUDA_ERROR_NOT_SUPPORTED;
    if (mode != CU_STREAM_CAPTURE_MODE_RELAXED && mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && mode != CU_STREAM_CAPTURE_MODE_GLOBAL)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->captures) qs_shim_fail("%s: the stream captures already", function);
    stream->captures = new CUgraph_st{current, {}, nullptr};
    return CUDA_SUCCESS;
}

/* What is captured next depends on the last node: a stream is in order. */
API CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                                       const CUgraphNode **node, const CUgraphEdgeData **edge, size_t *nodes) {
    static const CUgraphEdgeData plain = {};
    ENTER_CONTEXT("cuStreamGetCaptureInfo");
    qs_double_check_stream(function, stream);
    *status = stream->captures ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    if (!stream->captures) return CUDA_SUCCESS;
    if (id) *id = 1;
    if (graph) *graph = stream->captures;
    if (node) *node = &stream->captures->last;
    if (edge) *edge = &plain;
    if (nodes) *nodes = stream->captures->last ? 1 : 0;
    return CUDA_SUCCESS;
}

API CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
    ENTER_CONTEXT("cuStreamEndCapture");
    qs_double_check_stream(function, stream);
    if (!stream->captures) qs_shim_fail("%s: the stream does not capture", function);
    *graph = stream->captures;
    stream->captures = nullptr;
    graphs.insert(*graph);
    current->graphs++;
    return CUDA_SUCCESS;
}

static void check_graph(const char *function, CUgraph graph) {
    if (!graphs.count(graph)) qs_shim_fail("%s: %p is no graph", function, (void *)graph);
}

static void check_ready(const char *function, CUgraphExec one) {
    if (!ready.count(one)) qs_shim_fail("%s: %p is no graph that can be launched", function, (void *)one);
    if (one->context != current) qs_shim_fail("%s: a graph of another context", function);
}

API CUresult cuGraphInstantiateWithFlags(CUgraphExec *made, CUgraph graph, unsigned long long flags) {
    ENTER_CONTEXT("cuGraphInstantiate");
    check_graph(function, graph);
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    *made = new CUgraphExec_st{current, graph, {}, {}};
    for (const auto &node : graph->nodes) {
        (*made)->nodes.push_back(node.get());
        (*made)->items.push_back(node->one);
    }
    ready.insert(*made);
    current->graphs++;
    return CUDA_SUCCESS;
}

API CUresult cuGraphLaunch(CUgraphExec one, CUstream stream) {
    ENTER_CONTEXT("cuGraphLaunch");
    check_ready(function, one);
    qs_double_check_stream(function, stream);
    if (stream->captures) qs_shim_fail("%s: the stream captures", function);
    put(stream, {"start of a graph", nullptr, nullptr, nullptr, nullptr});
    for (const item &part : one->items)
        put(stream, part);
    return CUDA_SUCCESS;
}

/* Launches that are queued keep the job that they had. */
API CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec one, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *to) {
    ENTER_CONTEXT("cuGraphExecKernelNodeSetParams");
    check_ready(function, one);
    check_graph(function, one->graph); /* it has the nodes */
    size_t at = 0;
    while (at < one->nodes.size() && one->nodes[at] != node)
        at++;
    if (at == one->nodes.size()) qs_shim_fail("%s: a node of another graph", function);
    if (!one->items[at].module) qs_shim_fail("%s: %s is no kernel of ours", function, one->items[at].what.c_str());
    if (is_set("fixed")) return CUDA_ERROR_NOT_SUPPORTED;
    const unsigned grid[3] = {to->gridDimX, to->gridDimY, to->gridDimZ}, block[3] = {to->blockDimX, to->blockDimY, to->blockDimZ};
    one->items[at] = kernel_item(function, to->func, grid, block, to->sharedMemBytes, to->kernelParams, to->extra);
    return CUDA_SUCCESS;
}

API CUresult cuGraphExecDestroy(CUgraphExec one) {
    ENTER_CONTEXT("cuGraphExecDestroy");
    check_ready(function, one);
    ready.erase(one);
    one->context->graphs--;
    delete one;
    return CUDA_SUCCESS;
}

API CUresult cuGraphDestroy(CUgraph graph) {
    ENTER_CONTEXT("cuGraphDestroy");
    check_graph(function, graph);
    graphs.erase(graph);
    graph->context->graphs--;
    delete graph;
    return CUDA_SUCCESS;
}
