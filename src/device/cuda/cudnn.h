// SPDX-License-Identifier: Apache-2.0
/* cuDNN's graphs, inside the device `cuda`: the library found at run time, graphs of operations built and planned, plans kept.
 *
 * A graph is written operation by operation; its plans are what the library's heuristics (mode A, then its fallbacks) offer and its engines
 * accept, without those whose numbers a *rule* forbids. Plans of a case are made once and kept until the device is trimmed or closed: a
 * fact and a prepared kernel come from the same ones. cuDNN 9.0 or later.
 *
 * What is used of the library, for those who write a double of it:
 *   descriptors  TENSOR, CONVOLUTION, POINTWISE, MATMUL, REDUCTION, OPERATION_CONVOLUTION_FORWARD, ..._BACKWARD_DATA,
 *                ..._BACKWARD_FILTER, OPERATION_POINTWISE, OPERATION_MATMUL, OPERATION_REDUCTION, OPERATION_RESHAPE, OPERATIONGRAPH,
 *                ENGINEHEUR, ENGINECFG, ENGINE, KNOB_CHOICE, EXECUTION_PLAN, VARIANT_PACK
 *   set          TENSOR_UNIQUE_ID, _DATA_TYPE, _DIMENSIONS, _STRIDES, _BYTE_ALIGNMENT, _IS_VIRTUAL, _IS_BY_VALUE;
 *                CONVOLUTION_COMP_TYPE, _CONV_MODE, _SPATIAL_DIMS, _DILATIONS, _FILTER_STRIDES, _PRE_PADDINGS, _POST_PADDINGS;
 *                POINTWISE_MODE, _MATH_PREC, _AXIS; MATMUL_COMP_TYPE; REDUCTION_OPERATOR, _COMP_TYPE; each operation's descriptor and
 *                tensors, ALPHA and BETA of convolutions (float 1 and 0); OPERATIONGRAPH_HANDLE, _OPS; ENGINEHEUR_OPERATION_GRAPH,
 *                _MODE; EXECUTION_PLAN_HANDLE, _ENGINE_CONFIG; VARIANT_PACK_UNIQUE_IDS, _DATA_POINTERS, _WORKSPACE
 *   asked        ENGINEHEUR_RESULTS; ENGINECFG_ENGINE, _KNOB_CHOICES; ENGINE_GLOBAL_INDEX, _NUMERICAL_NOTE, _BEHAVIOR_NOTE;
 *                KNOB_CHOICE_KNOB_TYPE, _KNOB_VALUE; EXECUTION_PLAN_WORKSPACE_SIZE */
#ifndef QSYNC_DEVICE_CUDA_CUDNN_H
#define QSYNC_DEVICE_CUDA_CUDNN_H

#include "cuda/cuda.h"

#include <cudnn_graph.h>

/* Functions of libcudnn.so.9: X(result, member, symbol, parameters). */
#define QS__CUDNN_LIST(X)                                                                                                       \
    X(size_t, version, cudnnGetVersion, (void))                                                                                 \
    X(const char *, error_string, cudnnGetErrorString, (cudnnStatus_t status))                                                  \
    X(void, last_error, cudnnGetLastErrorString, (char *message, size_t bytes))                                                 \
    X(cudnnStatus_t, create, cudnnCreate, (cudnnHandle_t * handle))                                                             \
    X(cudnnStatus_t, destroy, cudnnDestroy, (cudnnHandle_t handle))                                                             \
    X(cudnnStatus_t, stream, cudnnSetStream, (cudnnHandle_t handle, cudaStream_t stream))                                       \
    X(cudnnStatus_t, descriptor_create, cudnnBackendCreateDescriptor,                                                           \
      (cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t * descriptor))                                               \
    X(cudnnStatus_t, descriptor_destroy, cudnnBackendDestroyDescriptor, (cudnnBackendDescriptor_t descriptor))                  \
    X(cudnnStatus_t, finalize, cudnnBackendFinalize, (cudnnBackendDescriptor_t descriptor))                                     \
    X(cudnnStatus_t, set, cudnnBackendSetAttribute,                                                                             \
      (cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,  \
       const void *values))                                                                                                     \
    X(cudnnStatus_t, get, cudnnBackendGetAttribute,                                                                             \
      (cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t wanted, \
       int64_t * count, void *values))                                                                                          \
    X(cudnnStatus_t, execute, cudnnBackendExecute, (cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack))

typedef struct qs__cudnn_functions {
#define QS__CUDNN_MEMBER(result, member, symbol, parameters) result(*member) parameters;
    QS__CUDNN_LIST(QS__CUDNN_MEMBER)
#undef QS__CUDNN_MEMBER
} qs__cudnn_functions;

typedef struct qs__cudnn qs__cudnn;

/* The library, opened for the device when something first asks for it; QS_UNSUPPORTED says why there is none. */
qs_status qs__cudnn_open(qs__cuda *cuda);
void qs__cudnn_close(qs__cuda *cuda);
/* Gives plans back that no kernel uses. */
void qs__cudnn_trim(qs__cuda *cuda);

/* ---- Graphs ---------------------------------------------------------------------------------------------------------------------- */

enum { QS__CUDNN_DIMS = 4, QS__CUDNN_DESCRIPTORS = 256, QS__CUDNN_OPERATIONS = 32, QS__CUDNN_BOUND = 24 };

/* A graph in the making. Once a call fails, those behind it do nothing, and `status` stays what it was: the message names the descriptor,
 * the attribute and the library's reason. */
typedef struct qs__cudnn_graph {
    qs__cudnn *library;
    qs_status status;
    int descriptors, operations;
    cudnnBackendDescriptor_t descriptor[QS__CUDNN_DESCRIPTORS]; /* all, given back with the graph */
    cudnnBackendDescriptor_t operation[QS__CUDNN_OPERATIONS];
} qs__cudnn_graph;

/* A tensor of 4 axes; strides in elements. Virtual: it is never in memory. By value: a number that the host gives when it is run. */
typedef struct qs__cudnn_tensor {
    int64_t uid; /* its own within the graph */
    cudnnDataType_t type;
    int64_t dim[QS__CUDNN_DIMS], stride[QS__CUDNN_DIMS];
    bool is_virtual, by_value;
} qs__cudnn_tensor;

cudnnBackendDescriptor_t qs__cudnn_tensor_add(qs__cudnn_graph *graph, const qs__cudnn_tensor *tensor);
/* Strides of a tensor [N,C,H,W] that lies channels-last. */
void qs__cudnn_channels_last(qs__cudnn_tensor *tensor);

cudnnBackendDescriptor_t qs__cudnn_create(qs__cudnn_graph *graph, cudnnBackendDescriptorType_t type, const char *name);
void qs__cudnn_set(qs__cudnn_graph *graph, cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name, const char *text,
                   cudnnBackendAttributeType_t type, int64_t count, const void *values);
void qs__cudnn_finish(qs__cudnn_graph *graph, cudnnBackendDescriptor_t descriptor, const char *name);
/* The same for an operation, which becomes the graph's next. */
void qs__cudnn_operation_finish(qs__cudnn_graph *graph, cudnnBackendDescriptor_t operation, const char *name);
#define QS__CUDNN_CREATE(graph, type) qs__cudnn_create(graph, CUDNN_BACKEND_##type##_DESCRIPTOR, #type)
#define QS__CUDNN_SET(graph, descriptor, attribute, type, count, values) \
    qs__cudnn_set(graph, descriptor, CUDNN_ATTR_##attribute, #attribute, CUDNN_TYPE_##type, count, values)

/* y = x `mode` b, element by element, what has one element along an axis for all of them; b, t NULL: x alone. The index along `axis` of a
 * tensor like x (GEN_INDEX); x where t, else b (BINARY_SELECT). */
typedef struct qs__cudnn_point {
    cudnnPointwiseMode_t mode;
    cudnnDataType_t precision; /* of the arithmetic; 0: fp32 */
    int64_t axis;
    cudnnBackendDescriptor_t x, b, t, y;
} qs__cudnn_point;
void qs__cudnn_pointwise(qs__cudnn_graph *graph, const qs__cudnn_point *point);

/* ---- Plans ----------------------------------------------------------------------------------------------------------------------- */

/* What an engine may not do. Never taken are those that may give other bits in another run, that sum in less than fp32, or that go through
 * transforms. */
typedef struct qs__cudnn_rule {
    bool no_tensor_cores; /* they round fp32 factors to TF32 */
} qs__cudnn_rule;

enum { QS__CUDNN_PLANS = 3 };

typedef struct qs__cudnn_plan {
    cudnnBackendDescriptor_t descriptor;
    size_t workspace;
    char name[48]; /* "eng4_k2=27_k3=0": the engine, and its knobs by type */
} qs__cudnn_plan;

/* The plans of one case, best first, as the library's heuristics have them. */
typedef struct qs__cudnn_plans {
    char *key;
    int users; /* kernels that hold them */
    qs_status status;
    char *reason; /* of a status that is not QS_OK */
    int count;
    qs__cudnn_plan plan[QS__CUDNN_PLANS];
} qs__cudnn_plans;

/* Writes a case's graph. QS_UNSUPPORTED with the reason where the library has none for it. */
typedef qs_status (*qs__cudnn_describe)(const qs__cuda_kernel *kernel, qs__cudnn_graph *graph, qs__cudnn_rule *rule, void *context);

/* Plans of the graph that `describe` writes for the kernel's case; the same `key` gives the same plans again. On success the kernel holds
 * them until qs__cudnn_plans_leave. QS_UNSUPPORTED says why there are none: what the library said of the last engine it refused. */
qs_status qs__cudnn_plans_take(const qs__cuda_kernel *kernel, const char *key, qs__cudnn_describe describe, void *context,
                               qs__cudnn_plans **out);
void qs__cudnn_plans_leave(qs__cudnn_plans *plans);

/* ---- Running --------------------------------------------------------------------------------------------------------------------- */

/* What a run of a plan is given: tensors by uid. Filled, then bound once. */
typedef struct qs__cudnn_pack {
    int count;
    int64_t uid[QS__CUDNN_BOUND];
    void *at[QS__CUDNN_BOUND];
    cudnnBackendDescriptor_t descriptor;
} qs__cudnn_pack;
void qs__cudnn_pack_add(qs__cudnn_pack *pack, int64_t uid, CUdeviceptr at);
qs_status qs__cudnn_pack_bind(const qs__cuda *cuda, qs__cudnn_pack *pack, CUdeviceptr workspace);
void qs__cudnn_pack_release(const qs__cuda *cuda, qs__cudnn_pack *pack);
qs_status qs__cudnn_run(const qs__cuda_kernel *kernel, const qs__cudnn_plan *plan, const qs__cudnn_pack *pack);

#endif
