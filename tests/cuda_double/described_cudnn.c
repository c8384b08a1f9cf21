// SPDX-License-Identifier: Apache-2.0
/* libcudnn.so.9 where there is no GPU: the library itself, but that a handle's device is one that a file of JSON describes
 * (QSYNC_DESCRIBED_DEVICE), and that nothing can be run. Graphs, heuristics and plans are the library's own, for that GPU: what it would
 * refuse there it refuses here. QSYNC_CUDNN names the library. */
#include <cudnn_graph.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *real(const char *symbol) {
    static void *library;
    const char *path = getenv("QSYNC_CUDNN");
    if (!library) library = dlopen(path ? path : "libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    void *found = library ? dlsym(library, symbol) : NULL;
    if (!found) {
        fprintf(stderr, "described_cudnn: %s\n", dlerror());
        exit(1);
    }
    return found;
}

/* A function of the library, of its own type. */
#define REAL(function) (*(__typeof__(&function)){(__typeof__(&function))(uintptr_t)real(#function)})

size_t cudnnGetVersion(void) {
    return REAL(cudnnGetVersion)();
}

const char *cudnnGetErrorString(cudnnStatus_t status) {
    return REAL(cudnnGetErrorString)(status);
}

void cudnnGetLastErrorString(char *message, size_t bytes) {
    REAL(cudnnGetLastErrorString)(message, bytes);
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
    *handle = (cudnnHandle_t)(uintptr_t)1;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
    (void)handle;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
    (void)handle, (void)stream;
    return CUDNN_STATUS_SUCCESS;
}

/* The described device, for all time. */
static cudnnBackendDescriptor_t device(void) {
    static cudnnBackendDescriptor_t made;
    static char text[4096];
    const char *path = getenv("QSYNC_DESCRIBED_DEVICE");
    FILE *file = made || !path ? NULL : fopen(path, "r");
    if (!file) return made;
    const size_t bytes = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    cudnnBackendDescriptor_t one = NULL;
    if (REAL(cudnnBackendCreateDescriptor)(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &one) == CUDNN_STATUS_SUCCESS &&
        REAL(cudnnBackendSetAttribute)(one, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, (int64_t)bytes, text) ==
            CUDNN_STATUS_SUCCESS &&
        REAL(cudnnBackendFinalize)(one) == CUDNN_STATUS_SUCCESS)
        made = one;
    return made;
}

/* What is made for a handle is made for the device. */
cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *descriptor) {
    const cudnnStatus_t status = REAL(cudnnBackendCreateDescriptor)(type, descriptor);
    const cudnnBackendDescriptor_t described = device();
    if (status != CUDNN_STATUS_SUCCESS) return status;
    if (!described) return CUDNN_STATUS_NOT_INITIALIZED;
    if (type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
        return REAL(cudnnBackendSetAttribute)(*descriptor, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &described);
    if (type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
        return REAL(cudnnBackendSetAttribute)(*descriptor, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                              &described);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
    return REAL(cudnnBackendDestroyDescriptor)(descriptor);
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
    return REAL(cudnnBackendFinalize)(descriptor);
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void *values) {
    if (name == CUDNN_ATTR_OPERATIONGRAPH_HANDLE || name == CUDNN_ATTR_EXECUTION_PLAN_HANDLE) return CUDNN_STATUS_SUCCESS;
    return REAL(cudnnBackendSetAttribute)(descriptor, name, type, count, values);
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t wanted, int64_t *count, void *values) {
    return REAL(cudnnBackendGetAttribute)(descriptor, name, type, wanted, count, values);
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
    (void)handle, (void)plan, (void)pack;
    return CUDNN_STATUS_EXECUTION_FAILED;
}
