// SPDX-License-Identifier: Apache-2.0
/* The CUDA driver, found at run time: a program that was built with this device starts on machines without one. */
#ifndef QSYNC_DEVICE_CUDA_DRIVER_H
#define QSYNC_DEVICE_CUDA_DRIVER_H

#include "qsync/base.h"

#include <cuda.h>

/* Functions of libcuda.so.1: X(member, symbol, parameters). Symbols carry the version whose parameters stand here. */
#define QS__DRIVER_LIST(X)                                                                                                           \
    X(init, cuInit, (unsigned flags))                                                                                                \
    X(error_string, cuGetErrorString, (CUresult result, const char **text))                                                          \
    X(driver_version, cuDriverGetVersion, (int *version))                                                                            \
    X(device_count, cuDeviceGetCount, (int *count))                                                                                  \
    X(device_get, cuDeviceGet, (CUdevice * device, int ordinal))                                                                     \
    X(device_name, cuDeviceGetName, (char *name, int bytes, CUdevice device))                                                        \
    X(device_uuid, cuDeviceGetUuid_v2, (CUuuid * uuid, CUdevice device))                                                             \
    X(device_bytes, cuDeviceTotalMem_v2, (size_t * bytes, CUdevice device))                                                          \
    X(device_attribute, cuDeviceGetAttribute, (int *value, CUdevice_attribute attribute, CUdevice device))                           \
    X(context_retain, cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))                                              \
    X(context_release, cuDevicePrimaryCtxRelease_v2, (CUdevice device))                                                              \
    X(context_set, cuCtxSetCurrent, (CUcontext context))                                                                             \
    X(resource_of, cuDeviceGetDevResource, (CUdevice device, CUdevResource * resource, CUdevResourceType type))                      \
    X(resource_split, cuDevSmResourceSplitByCount,                                                                                   \
      (CUdevResource * part, unsigned *parts, const CUdevResource *whole, CUdevResource *rest, unsigned flags, unsigned least))      \
    X(resource_describe, cuDevResourceGenerateDesc, (CUdevResourceDesc * description, CUdevResource * resource, unsigned count))     \
    X(green_create, cuGreenCtxCreate, (CUgreenCtx * green, CUdevResourceDesc description, CUdevice device, unsigned flags))          \
    X(green_destroy, cuGreenCtxDestroy, (CUgreenCtx green))                                                                          \
    X(green_context, cuCtxFromGreenCtx, (CUcontext * context, CUgreenCtx green))                                                     \
    X(green_stream, cuGreenCtxStreamCreate, (CUstream * stream, CUgreenCtx green, unsigned flags, int priority))                     \
    X(memory_info, cuMemGetInfo_v2, (size_t * available, size_t * total))                                                            \
    X(granularity, cuMemGetAllocationGranularity,                                                                                    \
      (size_t * bytes, const CUmemAllocationProp *kind, CUmemAllocationGranularity_flags flags))                                     \
    X(address_reserve, cuMemAddressReserve,                                                                                          \
      (CUdeviceptr * address, size_t bytes, size_t alignment, CUdeviceptr wanted, unsigned long long flags))                         \
    X(address_free, cuMemAddressFree, (CUdeviceptr address, size_t bytes))                                                           \
    X(memory_create, cuMemCreate,                                                                                                    \
      (CUmemGenericAllocationHandle * handle, size_t bytes, const CUmemAllocationProp *kind, unsigned long long flags))              \
    X(memory_release, cuMemRelease, (CUmemGenericAllocationHandle handle))                                                           \
    X(memory_map, cuMemMap,                                                                                                          \
      (CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags))             \
    X(memory_unmap, cuMemUnmap, (CUdeviceptr address, size_t bytes))                                                                 \
    X(memory_access, cuMemSetAccess, (CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count))               \
    X(host_allocate, cuMemHostAlloc, (void **memory, size_t bytes, unsigned flags))                                                  \
    X(host_free, cuMemFreeHost, (void *memory))                                                                                      \
    X(host_address, cuMemHostGetDevicePointer_v2, (CUdeviceptr * address, void *memory, unsigned flags))                             \
    X(copy_in, cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))                              \
    X(copy_out, cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream))                                   \
    X(copy_within, cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))                          \
    X(fill, cuMemsetD8Async, (CUdeviceptr at, unsigned char value, size_t bytes, CUstream stream))                                   \
    X(stream_create, cuStreamCreateWithPriority, (CUstream * stream, unsigned flags, int priority))                                  \
    X(stream_destroy, cuStreamDestroy_v2, (CUstream stream))                                                                         \
    X(stream_wait, cuStreamSynchronize, (CUstream stream))                                                                           \
    X(stream_follow, cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))                                            \
    X(event_create, cuEventCreate, (CUevent * event, unsigned flags))                                                                \
    X(event_destroy, cuEventDestroy_v2, (CUevent event))                                                                             \
    X(event_record, cuEventRecord, (CUevent event, CUstream stream))                                                                 \
    X(event_query, cuEventQuery, (CUevent event))                                                                                    \
    X(event_wait, cuEventSynchronize, (CUevent event))                                                                               \
    X(event_elapsed, cuEventElapsedTime, (float *milliseconds, CUevent from, CUevent to))                                            \
    X(module_load, cuModuleLoadData, (CUmodule * module, const void *image))                                                         \
    X(module_unload, cuModuleUnload, (CUmodule module))                                                                              \
    X(module_function, cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name))                              \
    X(function_attribute, cuFuncSetAttribute, (CUfunction function, CUfunction_attribute attribute, int value))                      \
    X(launch, cuLaunchKernel,                                                                                                        \
      (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, \
       unsigned shared_bytes, CUstream stream, void **parameters, void **extra))                                                     \
    X(parameter, cuFuncGetParamInfo, (CUfunction function, size_t index, size_t * offset, size_t * bytes))                           \
    X(capture_begin, cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode))                                           \
    X(capture_info, cuStreamGetCaptureInfo_v3,                                                                                       \
      (CUstream stream, CUstreamCaptureStatus * status, cuuint64_t * id, CUgraph * graph, const CUgraphNode **node,                  \
       const CUgraphEdgeData **edge, size_t *nodes))                                                                                 \
    X(capture_end, cuStreamEndCapture, (CUstream stream, CUgraph * graph))                                                           \
    X(graph_instantiate, cuGraphInstantiateWithFlags, (CUgraphExec * made, CUgraph graph, unsigned long long flags))                 \
    X(graph_launch, cuGraphLaunch, (CUgraphExec graph, CUstream stream))                                                             \
    X(graph_kernel_set, cuGraphExecKernelNodeSetParams_v2,                                                                           \
      (CUgraphExec graph, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *parameters))                                              \
    X(graph_forget, cuGraphExecDestroy, (CUgraphExec graph))                                                                         \
    X(graph_destroy, cuGraphDestroy, (CUgraph graph))

typedef struct qs__driver {
#define QS__DRIVER_MEMBER(member, symbol, parameters) CUresult(*member) parameters;
    QS__DRIVER_LIST(QS__DRIVER_MEMBER)
#undef QS__DRIVER_MEMBER
} qs__driver;

/* Fills `functions`, `count` pointers, with the functions of a library that are so named. The library, by its file's name, is looked for in
 * the folders that QSYNC_CUDA_LIBRARIES lists (separated by ':'), in their order, else where the system finds it, and stays open until the
 * process ends. QS_UNSUPPORTED says that there is none, or names the first function that it lacks. */
qs_status qs__functions_find(const char *file, int count, const char *const *symbol, void *functions);

/* The process's driver, initialised; QS_UNSUPPORTED says why there is none. */
qs_status qs__driver_open(const qs__driver **out);
/* QS_OK, or QS_FAILED (QS_OUT_OF_MEMORY for want of memory) with what was tried and the driver's reason. */
qs_status qs__driver_check(const qs__driver *driver, CUresult result, const char *what);

#endif
