// SPDX-License-Identifier: Apache-2.0
/* Our own kernels: found in the modules that the program carries, and launched. */
#include "cuda/cuda.h"

#include <string.h>

/* Modules are loaded when something in them is first looked for. */
static qs_status module_load(qs__cuda *cuda, int index) {
    const CUresult result = cuda->driver->module_load(&cuda->module[index], qs__cuda_modules[index].image);
    if (result == CUDA_ERROR_NO_BINARY_FOR_GPU || result == CUDA_ERROR_INVALID_PTX)
        return qs_fail(QS_UNSUPPORTED, "the kernels of %s are not compiled for compute capability %d.%d: add it to QS_CUDA_ARCHITECTURES",
                       qs__cuda_modules[index].name, cuda->capability / 10, cuda->capability % 10);
    return qs__cuda_check(cuda, result, qs__cuda_modules[index].name);
}

qs_status qs__cuda_function_find(qs__cuda *cuda, const char *name, CUfunction *out) {
    for (int i = 0; i < qs__cuda_module_count; i++) {
        if (!cuda->module[i]) QS_TRY(module_load(cuda, i));
        if (cuda->driver->module_function(out, cuda->module[i], name) == CUDA_SUCCESS) return QS_OK;
    }
    return qs_fail(QS_UNSUPPORTED, "this build has no CUDA kernel %s", name);
}

qs_status qs__cuda_function(qs__cuda_kernel *kernel, const char *name, int *index) {
    if (kernel->functions == QS__CUDA_FUNCTIONS) return qs_fail(QS_FAILED, "a case with more than %d CUDA kernels", QS__CUDA_FUNCTIONS);
    QS_TRY(qs__cuda_function_find(kernel->cuda, name, &kernel->function[kernel->functions]));
    *index = kernel->functions++;
    return QS_OK;
}

qs_status qs__cuda_put(const qs__cuda *cuda, CUstream stream, CUfunction function, int64_t blocks, int threads, int shared,
                       const void *job) {
    const qs__start start = {.function = function, .blocks = blocks, .threads = threads, .shared = shared, .job = job};
    void *parameters[] = {(void *)(uintptr_t)job};
    if (blocks <= 0 || qs__recording_has(cuda, &start)) return QS_OK;
    QS_TRY(qs__cuda_check(
        cuda, cuda->driver->launch(function, (unsigned)blocks, 1, 1, (unsigned)threads, 1, 1, (unsigned)shared, stream, parameters, NULL),
        "starting a kernel"));
    qs__recording_note(cuda, &start);
    return QS_OK;
}

/* More than what blocks have by themselves must be asked for. */
enum { PLAIN_SHARED_BYTES = 48 << 10 };

qs_status qs__cuda_launch(const qs__cuda_kernel *kernel, int index, int64_t blocks, int threads, int shared, const void *job) {
    const qs__cuda *cuda = kernel->cuda;
    const CUfunction function = kernel->function[index];
    if (shared > PLAIN_SHARED_BYTES)
        QS_TRY(qs__cuda_check(cuda, cuda->driver->function_attribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared),
                              "shared memory of a kernel"));
    return qs__cuda_put(cuda, cuda->stream[QS_QUEUE_KERNELS], function, blocks, threads, shared, job);
}

/* Eight times as many threads as run at a time. */
int64_t qs__cuda_blocks(const qs__cuda *cuda, int64_t count, int threads, int each) {
    enum { RESIDENT = 2048, WAVES = 8 };
    const int64_t wanted = (count + (int64_t)threads * each - 1) / ((int64_t)threads * each);
    const int64_t most = (int64_t)cuda->multiprocessors * (RESIDENT / threads > 0 ? RESIDENT / threads : 1) * WAVES;
    return wanted < most ? wanted : most;
}
