// SPDX-License-Identifier: Apache-2.0
/* A double of libcudnn.so.9: descriptors and their attributes, engines and plans, as far as cudnn.h of the device names them. A descriptor
 * takes the attributes that are its own, of their types; it is finished once, with all that it must have; what refers to another takes a
 * finished one. Misuse ends the process; graphs that the library's engines do not take are refused with a status.
 *
 * The heuristics offer an engine with tensor cores in two configurations, one whose results differ from run to run, which nobody may take,
 * one that needs a workspace, one that is compiled when it is planned, and behind them a fallback. */
#include "graphs.h"

#include <cinttypes>
#include <set>

#define API extern "C" QS_DOUBLE_API

/* ---- What descriptors have ------------------------------------------------------------------------------------------------------------ */

enum { ANY_OPERATION = -1, NOTHING = -2 };

struct rule {
    cudnnBackendDescriptorType_t of;
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t least, most; /* values */
    bool needed;
    int refers; /* to descriptors of this type */
};

#define RULE(of, name, type, least, most, needed) \
    { CUDNN_BACKEND_##of##_DESCRIPTOR, CUDNN_ATTR_##name, CUDNN_TYPE_##type, least, most, needed, NOTHING }
#define REFERS(of, name, least, most, needed, to) \
    { CUDNN_BACKEND_##of##_DESCRIPTOR, CUDNN_ATTR_##name, CUDNN_TYPE_BACKEND_DESCRIPTOR, least, most, needed, (to) }
#define TENSOR CUDNN_BACKEND_TENSOR_DESCRIPTOR
#define CONVOLUTION(of, name, x, w, y)                                                                      \
    REFERS(of, OPERATION_CONVOLUTION_##name##_CONV_DESC, 1, 1, true, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR), \
        REFERS(of, OPERATION_CONVOLUTION_##name##_##x, 1, 1, true, TENSOR),                                 \
        REFERS(of, OPERATION_CONVOLUTION_##name##_##w, 1, 1, true, TENSOR),                                 \
        REFERS(of, OPERATION_CONVOLUTION_##name##_##y, 1, 1, true, TENSOR),                                 \
        RULE(of, OPERATION_CONVOLUTION_##name##_ALPHA, FLOAT, 1, 1, true),                                  \
        RULE(of, OPERATION_CONVOLUTION_##name##_BETA, FLOAT, 1, 1, true)

static const rule rules[] = {
    RULE(TENSOR, TENSOR_UNIQUE_ID, INT64, 1, 1, true),
    RULE(TENSOR, TENSOR_DATA_TYPE, DATA_TYPE, 1, 1, true),
    RULE(TENSOR, TENSOR_DIMENSIONS, INT64, 4, 4, true),
    RULE(TENSOR, TENSOR_STRIDES, INT64, 4, 4, true),
    RULE(TENSOR, TENSOR_BYTE_ALIGNMENT, INT64, 1, 1, true),
    RULE(TENSOR, TENSOR_IS_VIRTUAL, BOOLEAN, 1, 1, false),
    RULE(TENSOR, TENSOR_IS_BY_VALUE, BOOLEAN, 1, 1, false),
    RULE(CONVOLUTION, CONVOLUTION_COMP_TYPE, DATA_TYPE, 1, 1, true),
    RULE(CONVOLUTION, CONVOLUTION_CONV_MODE, CONVOLUTION_MODE, 1, 1, true),
    RULE(CONVOLUTION, CONVOLUTION_SPATIAL_DIMS, INT64, 1, 1, true),
    RULE(CONVOLUTION, CONVOLUTION_DILATIONS, INT64, 2, 2, true),
    RULE(CONVOLUTION, CONVOLUTION_FILTER_STRIDES, INT64, 2, 2, true),
    RULE(CONVOLUTION, CONVOLUTION_PRE_PADDINGS, INT64, 2, 2, true),
    RULE(CONVOLUTION, CONVOLUTION_POST_PADDINGS, INT64, 2, 2, true),
    CONVOLUTION(OPERATION_CONVOLUTION_FORWARD, FORWARD, X, W, Y),
    CONVOLUTION(OPERATION_CONVOLUTION_BACKWARD_DATA, BWD_DATA, DX, W, DY),
    CONVOLUTION(OPERATION_CONVOLUTION_BACKWARD_FILTER, BWD_FILTER, X, DW, DY),
    RULE(POINTWISE, POINTWISE_MODE, POINTWISE_MODE, 1, 1, true),
    RULE(POINTWISE, POINTWISE_MATH_PREC, DATA_TYPE, 1, 1, true),
    RULE(POINTWISE, POINTWISE_AXIS, INT64, 1, 1, false),
    REFERS(OPERATION_POINTWISE, OPERATION_POINTWISE_PW_DESCRIPTOR, 1, 1, true, CUDNN_BACKEND_POINTWISE_DESCRIPTOR),
    REFERS(OPERATION_POINTWISE, OPERATION_POINTWISE_XDESC, 1, 1, true, TENSOR),
    REFERS(OPERATION_POINTWISE, OPERATION_POINTWISE_BDESC, 1, 1, false, TENSOR),
    REFERS(OPERATION_POINTWISE, OPERATION_POINTWISE_TDESC, 1, 1, false, TENSOR),
    REFERS(OPERATION_POINTWISE, OPERATION_POINTWISE_YDESC, 1, 1, true, TENSOR),
    RULE(MATMUL, MATMUL_COMP_TYPE, DATA_TYPE, 1, 1, true),
    REFERS(OPERATION_MATMUL, OPERATION_MATMUL_DESC, 1, 1, true, CUDNN_BACKEND_MATMUL_DESCRIPTOR),
    REFERS(OPERATION_MATMUL, OPERATION_MATMUL_ADESC, 1, 1, true, TENSOR),
    REFERS(OPERATION_MATMUL, OPERATION_MATMUL_BDESC, 1, 1, true, TENSOR),
    REFERS(OPERATION_MATMUL, OPERATION_MATMUL_CDESC, 1, 1, true, TENSOR),
    RULE(REDUCTION, REDUCTION_OPERATOR, REDUCTION_OPERATOR_TYPE, 1, 1, true),
    RULE(REDUCTION, REDUCTION_COMP_TYPE, DATA_TYPE, 1, 1, true),
    REFERS(OPERATION_REDUCTION, OPERATION_REDUCTION_DESC, 1, 1, true, CUDNN_BACKEND_REDUCTION_DESCRIPTOR),
    REFERS(OPERATION_REDUCTION, OPERATION_REDUCTION_XDESC, 1, 1, true, TENSOR),
    REFERS(OPERATION_REDUCTION, OPERATION_REDUCTION_YDESC, 1, 1, true, TENSOR),
    REFERS(OPERATION_RESHAPE, OPERATION_RESHAPE_XDESC, 1, 1, true, TENSOR),
    REFERS(OPERATION_RESHAPE, OPERATION_RESHAPE_YDESC, 1, 1, true, TENSOR),
    RULE(OPERATIONGRAPH, OPERATIONGRAPH_HANDLE, HANDLE, 1, 1, true),
    REFERS(OPERATIONGRAPH, OPERATIONGRAPH_OPS, 1, 64, true, ANY_OPERATION),
    REFERS(ENGINEHEUR, ENGINEHEUR_OPERATION_GRAPH, 1, 1, true, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR),
    RULE(ENGINEHEUR, ENGINEHEUR_MODE, HEUR_MODE, 1, 1, true),
    RULE(ENGINEHEUR, ENGINEHEUR_SM_COUNT_TARGET, INT32, 1, 1, false),
    REFERS(EXECUTION_PLAN, EXECUTION_PLAN_ENGINE_CONFIG, 1, 1, true, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR),
    RULE(EXECUTION_PLAN, EXECUTION_PLAN_HANDLE, HANDLE, 1, 1, true),
    RULE(VARIANT_PACK, VARIANT_PACK_UNIQUE_IDS, INT64, 1, 64, true),
    RULE(VARIANT_PACK, VARIANT_PACK_DATA_POINTERS, VOID_PTR, 1, 64, true),
    RULE(VARIANT_PACK, VARIANT_PACK_WORKSPACE, VOID_PTR, 1, 1, false),
};

static bool refers_to(int wanted, cudnnBackendDescriptorType_t type) {
    if (wanted != ANY_OPERATION) return (int)type == wanted;
    return type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ||
           type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ||
           type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR || type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR ||
           type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR || type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR ||
           type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR;
}

static size_t type_bytes(cudnnBackendAttributeType_t type) {
    switch (type) {
    case CUDNN_TYPE_BOOLEAN:
        return sizeof(bool);
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
        return 8;
    default:
        return 4;
    }
}

/* ---- The library and its handle ---------------------------------------------------------------------------------------------------------- */

struct cudnnContext {
    CUstream stream;
};

static std::set<cudnnHandle_t> handles;
static char last_error[256];

static cudnnStatus_t refuse(cudnnStatus_t status, const char *why) {
    snprintf(last_error, sizeof last_error, "%s", why);
    return status;
}

API size_t cudnnGetVersion(void) {
    return CUDNN_VERSION;
}

API const char *cudnnGetErrorString(cudnnStatus_t status) {
    return status == CUDNN_STATUS_SUCCESS         ? "CUDNN_STATUS_SUCCESS"
           : status == CUDNN_STATUS_NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED"
                                                  : "a status of the double";
}

API void cudnnGetLastErrorString(char *message, size_t bytes) {
    snprintf(message, bytes, "%s", last_error);
}

API cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
    qs_double_check_current("cudnnCreate");
    *handle = new cudnnContext{nullptr};
    handles.insert(*handle);
    return CUDNN_STATUS_SUCCESS;
}

static void check_handle(const char *function, cudnnHandle_t handle) {
    if (!handles.count(handle)) qs_shim_fail("%s: %p is no handle", function, (void *)handle);
}

API cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
    check_handle("cudnnDestroy", handle);
    handles.erase(handle);
    delete handle;
    return CUDNN_STATUS_SUCCESS;
}

API cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
    check_handle("cudnnSetStream", handle);
    handle->stream = reinterpret_cast<CUstream>(stream);
    qs_double_check_stream("cudnnSetStream", handle->stream);
    return CUDNN_STATUS_SUCCESS;
}

/* ---- Descriptors --------------------------------------------------------------------------------------------------------------------------- */

struct holder {
    std::shared_ptr<object> to;
};

static std::set<void *> live;

static std::shared_ptr<object> &object_of(const char *function, void *descriptor) {
    if (!live.count(descriptor)) qs_shim_fail("%s: %p is no descriptor", function, descriptor);
    return static_cast<holder *>(descriptor)->to;
}

API cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *descriptor) {
    bool known = type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR || type == CUDNN_BACKEND_ENGINE_DESCRIPTOR ||
                 type == CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR;
    for (const rule &one : rules)
        known |= one.of == type;
    if (!known) qs_shim_fail("cudnnBackendCreateDescriptor: type %d is not known to the double", (int)type);
    *descriptor = new holder{std::make_shared<object>(object{type, false, {}, nullptr, 0})};
    live.insert(*descriptor);
    return CUDNN_STATUS_SUCCESS;
}

API cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
    object_of("cudnnBackendDestroyDescriptor", descriptor);
    live.erase(descriptor);
    delete static_cast<holder *>(descriptor);
    return CUDNN_STATUS_SUCCESS;
}

API cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                           cudnnBackendAttributeType_t type, int64_t count, const void *values) {
    static const char function[] = "cudnnBackendSetAttribute";
    object &to = *object_of(function, descriptor);
    const rule *found = nullptr;
    for (const rule &one : rules)
        if (one.of == to.type && one.name == name) found = &one;
    if (!found) qs_shim_fail("%s: attribute %d of descriptors of type %d is not known to the double", function, (int)name, (int)to.type);
    if (to.finished) qs_shim_fail("%s: attribute %d of a finished descriptor", function, (int)name);
    if (type != found->type || count < found->least || count > found->most || !values)
        qs_shim_fail("%s: attribute %d takes %" PRId64 " to %" PRId64 " values of type %d, not %" PRId64 " of type %d", function, (int)name,
                     found->least, found->most, (int)found->type, count, (int)type);
    attribute set = {type, count, {}, {}};
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
        for (int64_t i = 0; i < count; i++) {
            const std::shared_ptr<object> &other = object_of(function, static_cast<void *const *>(values)[i]);
            if (!other->finished || !refers_to(found->refers, other->type))
                qs_shim_fail("%s: attribute %d with an unfinished descriptor, or one of type %d", function, (int)name, (int)other->type);
            set.objects.push_back(other);
        }
    } else {
        set.bytes.assign(static_cast<const char *>(values), (size_t)count * type_bytes(type));
    }
    to.attributes[name] = set;
    return CUDNN_STATUS_SUCCESS;
}

/* ---- Engines -------------------------------------------------------------------------------------------------------------------------------- */

struct engine {
    int64_t index;
    cudnnBackendHeurMode_t mode; /* that offers it */
    int note, behavior;          /* -1: none */
    int64_t tile;                /* its knob; 0: it has none */
    int64_t workspace;
};
static const engine engines[] = {
    {20, CUDNN_HEUR_MODE_A, CUDNN_NUMERICAL_NOTE_TENSOR_CORE, -1, 3, 0},
    {20, CUDNN_HEUR_MODE_A, CUDNN_NUMERICAL_NOTE_TENSOR_CORE, -1, 5, 1000},
    {7, CUDNN_HEUR_MODE_A, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, -1, 0, 0},
    {4, CUDNN_HEUR_MODE_A, -1, -1, 7, 4096},
    {31, CUDNN_HEUR_MODE_A, -1, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION, 0, 64},
    {0, CUDNN_HEUR_MODE_FALLBACK, -1, -1, 0, 128},
};
enum { ENGINES = sizeof engines / sizeof engines[0] };

/* On a part of a GPU a real one had nothing that may be taken for some gradients of filters in fp32: here for none when it is told of the
 * part, else for those of 3 × 3 and less. */
static bool offers(const object &heuristics, const engine &one) {
    if (one.mode != heuristics.value<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE)) return false;
    const int64_t extent = qs_double_on_a_part() ? graph_filter_gradient(*heuristics.graph) : 0;
    const bool fails = extent > 3 || (extent > 0 && heuristics.has(CUDNN_ATTR_ENGINEHEUR_SM_COUNT_TARGET));
    return !fails || one.note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
}

API cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
    static const char function[] = "cudnnBackendFinalize";
    object &to = *object_of(function, descriptor);
    if (to.finished) qs_shim_fail("%s: a descriptor that is finished", function);
    for (const rule &one : rules)
        if (one.of == to.type && one.needed && !to.has(one.name))
            qs_shim_fail("%s: a descriptor of type %d without attribute %d", function, (int)to.type, (int)one.name);
    if (to.type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) graph_refusal(to);
    if (to.type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) {
        to.graph = to.of(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH).objects[0];
        static bool was_told; /* heuristics that offered nothing are asked again without */
        const bool told = to.has(CUDNN_ATTR_ENGINEHEUR_SM_COUNT_TARGET);
        if (told || !was_told)
            qs_double_check_multiprocessors(function, told ? to.value<int32_t>(CUDNN_ATTR_ENGINEHEUR_SM_COUNT_TARGET) : 0);
        was_told |= told;
        if (const char *reason = graph_refusal(*to.graph)) return refuse(CUDNN_STATUS_NOT_SUPPORTED, reason);
    }
    if (to.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
        const object &config = to.other(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
        to.graph = config.graph;
        to.engine = config.engine;
    }
    if (to.type == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR &&
        to.of(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS).count != to.of(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).count)
        qs_shim_fail("%s: as many pointers as numbers of tensors are needed", function);
    to.finished = true;
    return CUDNN_STATUS_SUCCESS;
}

/* Descriptors that are given get the objects that are asked for. */
static int64_t give(void *values, int64_t wanted, int64_t at, const object &made) {
    static const char function[] = "cudnnBackendGetAttribute";
    if (at < wanted) {
        std::shared_ptr<object> &to = object_of(function, static_cast<void **>(values)[at]);
        if (to->type != made.type || to->finished) qs_shim_fail("%s: into a descriptor of type %d", function, (int)to->type);
        to = std::make_shared<object>(made);
    }
    return at + 1;
}

template <typename T> static int64_t give_value(void *values, int64_t wanted, T value) {
    if (wanted > 0) memcpy(values, &value, sizeof value);
    return 1;
}

API cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                           cudnnBackendAttributeType_t type, int64_t wanted, int64_t *count, void *values) {
    static const char function[] = "cudnnBackendGetAttribute";
    const object &from = *object_of(function, descriptor);
    const engine &by = engines[from.engine];
    cudnnBackendAttributeType_t right = CUDNN_TYPE_BACKEND_DESCRIPTOR;
    int64_t given = 0;
    if (!from.finished) qs_shim_fail("%s: attribute %d of an unfinished descriptor", function, (int)name);
    switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
        for (int i = 0; i < ENGINES; i++)
            if (offers(from, engines[i]))
                given = give(values, wanted, given, {CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, true, {}, from.graph, i});
        if (given > wanted) given = wanted;
        break;
    case CUDNN_ATTR_ENGINECFG_ENGINE:
        given = give(values, wanted, 0, {CUDNN_BACKEND_ENGINE_DESCRIPTOR, true, {}, from.graph, from.engine});
        break;
    case CUDNN_ATTR_ENGINECFG_KNOB_CHOICES:
        if (by.tile) given = give(values, wanted, 0, {CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, true, {}, from.graph, from.engine});
        break;
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE:
        right = CUDNN_TYPE_KNOB_TYPE;
        given = give_value(values, wanted, CUDNN_KNOB_TYPE_TILE_SIZE);
        break;
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE:
        right = CUDNN_TYPE_INT64;
        given = give_value(values, wanted, by.tile);
        break;
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
        right = CUDNN_TYPE_INT64;
        given = give_value(values, wanted, by.index);
        break;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
        right = CUDNN_TYPE_NUMERICAL_NOTE;
        if (by.note >= 0) given = give_value(values, wanted, (cudnnBackendNumericalNote_t)by.note);
        break;
    case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE:
        right = CUDNN_TYPE_BEHAVIOR_NOTE;
        if (by.behavior >= 0) given = give_value(values, wanted, (cudnnBackendBehaviorNote_t)by.behavior);
        break;
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
        right = CUDNN_TYPE_INT64;
        given = give_value(values, wanted, by.workspace);
        break;
    default:
        qs_shim_fail("%s: attribute %d is not known to the double", function, (int)name);
    }
    if (type != right) qs_shim_fail("%s: attribute %d is of type %d, not %d", function, (int)name, (int)right, (int)type);
    if (count) *count = given;
    return CUDNN_STATUS_SUCCESS;
}

/* ---- Plans ------------------------------------------------------------------------------------------------------------------------------------- */

static CUdeviceptr address(const void *at) {
    return (CUdeviceptr) reinterpret_cast<uintptr_t>(at);
}

API cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan_descriptor,
                                      cudnnBackendDescriptor_t pack_descriptor) {
    static const char function[] = "cudnnBackendExecute";
    check_handle(function, handle);
    const std::shared_ptr<object> plan = object_of(function, plan_descriptor), pack = object_of(function, pack_descriptor);
    if (plan->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR || pack->type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR || !plan->finished ||
        !pack->finished)
        qs_shim_fail("%s: no finished plan, or no finished pack", function);
    const engine &by = engines[plan->engine];
    if (by.note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) qs_shim_fail("%s: an engine whose results differ from run to run", function);
    std::map<int64_t, void *> at;
    std::map<int64_t, std::string> by_value;
    const std::map<int64_t, const object *> tensors = graph_tensors(*plan->graph);
    for (size_t i = 0; i < (size_t)pack->of(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS).count; i++)
        at[pack->value<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, i)] = pack->value<void *>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, i);
    for (const auto &one : at)
        if (!tensors.count(one.first)) qs_shim_fail("%s: the graph has no tensor %" PRId64 " in memory", function, one.first);
    for (const auto &one : tensors) {
        const object &tensor = *one.second;
        if (!at.count(one.first) || !at[one.first]) qs_shim_fail("%s: tensor %" PRId64 " is nowhere", function, one.first);
        if (tensor.has(CUDNN_ATTR_TENSOR_IS_BY_VALUE) && tensor.value<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE)) {
            by_value[one.first].assign(static_cast<const char *>(at[one.first]), tensor_extent(tensor));
            continue;
        }
        if (address(at[one.first]) % (uint64_t)tensor.value<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT))
            qs_shim_fail("%s: tensor %" PRId64 " lies at %p", function, one.first, at[one.first]);
        qs_double_check_memory(function, address(at[one.first]), tensor_extent(tensor));
    }
    void *workspace = pack->has(CUDNN_ATTR_VARIANT_PACK_WORKSPACE) ? pack->value<void *>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE) : nullptr;
    if (by.workspace && reinterpret_cast<uintptr_t>(workspace) % 256)
        qs_shim_fail("the workspace of a plan of cuDNN lies at %p", workspace);
    if (by.workspace) qs_double_check_memory("the workspace of a plan of cuDNN", address(workspace), (size_t)by.workspace);
    qs_double_put(handle->stream, "a plan of cuDNN", [plan, at, by_value, workspace, by]() mutable {
        for (auto &one : by_value)
            at[one.first] = &one.second[0];
        if (by.workspace) memset(workspace, 0xee, (size_t)by.workspace);
        graph_run(*plan->graph, at, by.note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
    });
    return CUDNN_STATUS_SUCCESS;
}
