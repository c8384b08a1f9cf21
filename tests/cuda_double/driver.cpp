// SPDX-License-Identifier: Apache-2.0
/* A double of libcuda.so.1: the functions that driver.h names, on a machine without a GPU.
 *
 * Memory of the device is memory of this process, at addresses that it sees, so that kernels made by the shim run on it; what is new holds
 * 0xa5 in every byte. Work is put off: a stream does what was put into it when somebody waits for it, or asks again whether it is done. So a
 * wait that is missing shows in wrong results. QSYNC_DOUBLE_EAGER=1 does everything at once, QSYNC_DOUBLE_ORDER=reverse runs the last threads
 * first, QSYNC_DOUBLE_MEMORY is how many bytes the device has, QSYNC_DOUBLE_CAPABILITY its capability (90), QSYNC_DOUBLE_DEVICES how many
 * there are (1), QSYNC_DOUBLE_DRIVER the CUDA version that it speaks (13000), QSYNC_DOUBLE_LOG=1 tells on stderr what is done;
 * QSYNC_DOUBLE_GRAPHS=none: no stream captures, =fixed: graphs cannot be changed.
 *
 * What CUDA answers with an error where a program can go on is an error here (no memory, an event that is not reached); misuse, which there
 * is often left undefined, ends the process and says what it was. */
#include "inside.h"

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <fcntl.h>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

using namespace inside;

enum { MOST_THREADS = 1024, MOST_SHARED = 227 << 10, PLAIN_SHARED = 48 << 10 };

#undef cuEventElapsedTime /* the header names a later one */

std::recursive_mutex inside::mutex;
bool inside::initialised;
CUctx_st inside::contexts[MOST_DEVICES];
thread_local CUcontext inside::current;

int64_t inside::setting(const char *name, int64_t otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtoll(text, nullptr, 10) : otherwise;
}

int inside::device_count() {
    static const int count = (int)setting("QSYNC_DOUBLE_DEVICES", 1);
    return count;
}

size_t inside::device_bytes() {
    static const size_t bytes = (size_t)setting("QSYNC_DOUBLE_MEMORY", (int64_t)8 << 30) / GRANULARITY * GRANULARITY;
    return bytes;
}

int qs_double_capability() {
    static const int capability = (int)setting("QSYNC_DOUBLE_CAPABILITY", 90);
    return capability;
}

/* ---- Devices and contexts ------------------------------------------------------------------------------------------------------- */

void inside::check_device(const char *function, CUdevice device) {
    if (device < 0 || device >= device_count()) qs_shim_fail("%s: there is no device %d", function, device);
}

void qs_double_check_current(const char *what) {
    if (!current) qs_shim_fail("%s: no context is current in this thread", what);
    if (current->retained == 0) qs_shim_fail("%s: the current context was released", what);
}

API CUresult cuInit(unsigned flags) {
    std::lock_guard<std::recursive_mutex> lock(mutex);
    if (flags) qs_shim_fail("cuInit: flags %u", flags);
    initialised = true;
    return CUDA_SUCCESS;
}

API CUresult cuGetErrorString(CUresult result, const char **text) {
    *text = result == CUDA_SUCCESS               ? "no error"
            : result == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory"
            : result == CUDA_ERROR_NOT_READY     ? "device not ready"
            : result == CUDA_ERROR_NOT_FOUND     ? "named symbol not found"
            : result == CUDA_ERROR_INVALID_VALUE ? "invalid argument"
                                                 : nullptr;
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuDriverGetVersion(int *version) {
    *version = (int)setting("QSYNC_DOUBLE_DRIVER", CUDA_VERSION);
    return CUDA_SUCCESS;
}

API CUresult cuDeviceGetCount(int *count) {
    ENTER("cuDeviceGetCount");
    *count = device_count();
    return CUDA_SUCCESS;
}

API CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    ENTER("cuDeviceGet");
    if (ordinal < 0 || ordinal >= device_count()) return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

API CUresult cuDeviceGetName(char *name, int bytes, CUdevice device) {
    ENTER("cuDeviceGetName");
    check_device(function, device);
    snprintf(name, (size_t)bytes, "double of a GPU");
    return CUDA_SUCCESS;
}

API CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
    ENTER("cuDeviceGetUuid");
    check_device(function, device);
    for (int i = 0; i < 16; i++)
        uuid->bytes[i] = (char)(0xd0 + i);
    uuid->bytes[15] = (char)device;
    return CUDA_SUCCESS;
}

API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    ENTER("cuDeviceTotalMem");
    check_device(function, device);
    *bytes = device_bytes();
    return CUDA_SUCCESS;
}

API CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    static const struct {
        CUdevice_attribute attribute;
        int value;
    } known[] = {
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, MULTIPROCESSORS},
        {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000},
        {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 2619000},
        {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 5120},
        {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 50 << 20},
        {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, MOST_THREADS},
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, PLAIN_SHARED},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, MOST_SHARED},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 228 << 10},
        {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
        {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
        {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
        {CU_DEVICE_ATTRIBUTE_INTEGRATED, 0},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, CU_COMPUTEMODE_DEFAULT},
        {CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 1},
        {CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 0},
        {CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 0},
    };
    ENTER("cuDeviceGetAttribute");
    check_device(function, device);
    if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR || attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) {
        const int capability = qs_double_capability();
        *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? capability / 10 : capability % 10;
        return CUDA_SUCCESS;
    }
    for (const auto &one : known) {
        if (one.attribute != attribute) continue;
        *value = one.value;
        return CUDA_SUCCESS;
    }
    qs_shim_fail("%s: attribute %d is not known to the double", function, (int)attribute);
}

API CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    ENTER("cuDevicePrimaryCtxRetain");
    check_device(function, device);
    contexts[device].device = device;
    contexts[device].multiprocessors = MULTIPROCESSORS;
    contexts[device].retained++;
    *context = &contexts[device];
    return CUDA_SUCCESS;
}

API CUresult cuCtxSetCurrent(CUcontext context) {
    ENTER("cuCtxSetCurrent");
    const bool primary = context >= contexts && context < contexts + MOST_DEVICES && context->retained > 0;
    if (context && !primary && !is_green(context)) qs_shim_fail("%s: no context", function);
    current = context;
    return CUDA_SUCCESS;
}

/* ---- Streams and events --------------------------------------------------------------------------------------------------------- */

struct inside::mark {
    CUstream stream;
    bool reached;
    double seconds;
};

struct CUevent_st {
    CUcontext context;
    bool timed;
    std::shared_ptr<mark> last;
};

static std::set<CUstream> streams;
static std::set<CUevent> events;
static const char *running = "nothing"; /* for messages about faults */

static double now() {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

void qs_double_check_stream(const char *what, CUstream stream) {
    if (!stream) qs_shim_fail("%s: the default stream", what);
    if (!streams.count(stream)) qs_shim_fail("%s: %p is no stream", what, (void *)stream);
    if (stream->context != current) qs_shim_fail("%s: a stream of another context", what);
}

/* What a graph cannot be made of, or what ends capturing. */
static void check_plain(const char *what, CUstream stream) {
    if (stream->captures) qs_shim_fail("%s: the stream captures", what);
}

static void check_event(const char *what, CUevent event) {
    if (!events.count(event)) qs_shim_fail("%s: %p is no event", what, (void *)event);
    if (event->context != current) qs_shim_fail("%s: an event of another context", what);
}

static void fault(int) {
    static const char head[] = "cuda double: a fault of memory in ";
    ssize_t written = write(2, head, sizeof head - 1);
    written += write(2, running, strlen(running));
    written += write(2, "\n", 1);
    (void)written;
    abort();
}

static void reach(const std::shared_ptr<mark> &wanted);

/* The first thing in a stream is done. */
static void step(CUstream stream) {
    static const bool tells = setting("QSYNC_DOUBLE_LOG", 0) != 0;
    item one = std::move(stream->queue.front());
    stream->queue.pop_front();
    if (tells) fprintf(stderr, "cuda double: %p: %s\n", (void *)stream, one.what.c_str());
    if (stream->runs) qs_shim_fail("%s: a stream waits for itself", one.what.c_str());
    stream->runs = true;
    if (one.follows) reach(one.follows);
    if (one.work) {
        struct sigaction action = {}, before;
        action.sa_handler = fault;
        sigaction(SIGSEGV, &action, &before);
        running = one.what.c_str();
        one.work();
        running = "nothing";
        sigaction(SIGSEGV, &before, nullptr);
    }
    if (one.reaches) {
        one.reaches->seconds = now();
        one.reaches->reached = true;
    }
    stream->runs = false;
}

static void reach(const std::shared_ptr<mark> &wanted) {
    while (!wanted->reached) {
        if (!streams.count(wanted->stream) || wanted->stream->queue.empty()) qs_shim_fail("an event is never reached");
        step(wanted->stream);
    }
}

static void drain(CUstream stream) {
    while (!stream->queue.empty())
        step(stream);
}

void inside::put(CUstream stream, item one) {
    static const bool eager = setting("QSYNC_DOUBLE_EAGER", 0) != 0;
    if (stream->captures) {
        capture(stream->captures, std::move(one));
        return;
    }
    stream->queue.push_back(std::move(one));
    if (eager) drain(stream);
}

void qs_double_put(CUstream stream, const char *what, std::function<void()> work) {
    std::lock_guard<std::recursive_mutex> lock(mutex);
    qs_double_check_current(what);
    qs_double_check_stream(what, stream);
    put(stream, {what, std::move(work), nullptr, nullptr, nullptr});
}

void inside::check_idle(const char *function) {
    for (CUstream stream : streams)
        if (!stream->queue.empty())
            qs_shim_fail("%s while work is queued that may need it: %s", function, stream->queue.front().what.c_str());
}

CUstream inside::stream_make(CUcontext context) {
    CUstream stream = new CUstream_st{context, {}, false, nullptr};
    streams.insert(stream);
    context->streams.insert(stream);
    return stream;
}

API CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int) {
    ENTER_CONTEXT("cuStreamCreateWithPriority");
    if (flags != CU_STREAM_NON_BLOCKING) qs_shim_fail("%s: a stream that waits for the default stream", function);
    *stream = stream_make(current);
    return CUDA_SUCCESS;
}

API CUresult cuStreamDestroy_v2(CUstream stream) {
    ENTER_CONTEXT("cuStreamDestroy");
    qs_double_check_stream(function, stream);
    check_plain(function, stream);
    drain(stream);
    streams.erase(stream);
    stream->context->streams.erase(stream);
    delete stream;
    return CUDA_SUCCESS;
}

API CUresult cuStreamSynchronize(CUstream stream) {
    ENTER_CONTEXT("cuStreamSynchronize");
    qs_double_check_stream(function, stream);
    check_plain(function, stream);
    drain(stream);
    return CUDA_SUCCESS;
}

API CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    ENTER_CONTEXT("cuStreamWaitEvent");
    qs_double_check_stream(function, stream);
    check_plain(function, stream);
    check_event(function, event);
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    if (event->last && !event->last->reached) put(stream, {"wait for an event", nullptr, nullptr, event->last, nullptr});
    return CUDA_SUCCESS;
}

API CUresult cuEventCreate(CUevent *event, unsigned flags) {
    ENTER_CONTEXT("cuEventCreate");
    if (flags & ~(unsigned)(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING)) return CUDA_ERROR_INVALID_VALUE;
    *event = new CUevent_st{current, !(flags & CU_EVENT_DISABLE_TIMING), nullptr};
    events.insert(*event);
    current->events.insert(*event);
    return CUDA_SUCCESS;
}

API CUresult cuEventDestroy_v2(CUevent event) {
    ENTER_CONTEXT("cuEventDestroy");
    check_event(function, event);
    events.erase(event);
    event->context->events.erase(event);
    delete event;
    return CUDA_SUCCESS;
}

API CUresult cuEventRecord(CUevent event, CUstream stream) {
    ENTER_CONTEXT("cuEventRecord");
    check_event(function, event);
    qs_double_check_stream(function, stream);
    check_plain(function, stream);
    event->last = std::make_shared<mark>(mark{stream, false, 0});
    put(stream, {"record of an event", nullptr, event->last, nullptr, nullptr});
    return CUDA_SUCCESS;
}

/* Who asks again and again sees the work go on, one piece each time. */
API CUresult cuEventQuery(CUevent event) {
    ENTER_CONTEXT("cuEventQuery");
    check_event(function, event);
    if (!event->last || event->last->reached) return CUDA_SUCCESS;
    step(event->last->stream);
    return CUDA_ERROR_NOT_READY;
}

API CUresult cuEventSynchronize(CUevent event) {
    ENTER_CONTEXT("cuEventSynchronize");
    check_event(function, event);
    if (event->last) reach(event->last);
    return CUDA_SUCCESS;
}

API CUresult cuEventElapsedTime(float *milliseconds, CUevent from, CUevent to) {
    ENTER_CONTEXT("cuEventElapsedTime");
    check_event(function, from);
    check_event(function, to);
    if (!from->timed || !to->timed) qs_shim_fail("%s: an event without times", function);
    if (!from->last || !to->last) qs_shim_fail("%s: an event that was never recorded", function);
    if (!from->last->reached || !to->last->reached) return CUDA_ERROR_NOT_READY;
    *milliseconds = (float)(1e3 * (to->last->seconds - from->last->seconds));
    return CUDA_SUCCESS;
}

/* ---- Copies ---------------------------------------------------------------------------------------------------------------------- */

static void *host(CUdeviceptr at) {
    return reinterpret_cast<void *>(at);
}

/* From memory that is not pinned a copy takes its bytes when it is called. */
API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    ENTER_CONTEXT("cuMemcpyHtoDAsync");
    qs_double_check_stream(function, stream);
    check_plain(function, stream);
    qs_double_check_memory(function, to, bytes);
    if (lies_in_pinned(reinterpret_cast<CUdeviceptr>(from), bytes)) {
        put(stream, {function, [=] { memcpy(host(to), from, bytes); }, nullptr, nullptr, nullptr});
    } else {
        const std::string kept(static_cast<const char *>(from), bytes);
        put(stream, {function, [=] { memcpy(host(to), kept.data(), bytes); }, nullptr, nullptr, nullptr});
    }
    return CUDA_SUCCESS;
}

/* Into memory that is not pinned it is done when the call returns. */
API CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    ENTER_CONTEXT("cuMemcpyDtoHAsync");
    qs_double_check_stream(function, stream);
    check_plain(function, stream);
    qs_double_check_memory(function, from, bytes);
    const std::string what = std::string(function) + " of " + std::to_string(bytes) + " bytes";
    put(stream, {what, [=] { memcpy(to, host(from), bytes); }, nullptr, nullptr, nullptr});
    if (!lies_in_pinned(reinterpret_cast<CUdeviceptr>(to), bytes)) drain(stream);
    return CUDA_SUCCESS;
}

API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    ENTER_CONTEXT("cuMemcpyDtoDAsync");
    qs_double_check_stream(function, stream);
    qs_double_check_memory(function, to, bytes);
    qs_double_check_memory(function, from, bytes);
    if (to < from + bytes && from < to + bytes) qs_shim_fail("%s: the two places overlap", function);
    put(stream, {function, [=] { memcpy(host(to), host(from), bytes); }, nullptr, nullptr, nullptr});
    return CUDA_SUCCESS;
}

API CUresult cuMemsetD8Async(CUdeviceptr at, unsigned char value, size_t bytes, CUstream stream) {
    ENTER_CONTEXT("cuMemsetD8Async");
    qs_double_check_stream(function, stream);
    qs_double_check_memory(function, at, bytes);
    put(stream, {function, [=] { memset(host(at), value, bytes); }, nullptr, nullptr, nullptr});
    return CUDA_SUCCESS;
}

/* ---- Modules and kernels ----------------------------------------------------------------------------------------------------------- */

struct CUfunc_st {
    CUmodule module;
    const qs_shim_kernel *kernel;
    std::string name;
    int most_shared;
};
struct CUmod_st {
    CUcontext context;
    std::map<std::string, std::unique_ptr<CUfunc_st>> functions;
};

static std::set<CUmodule> modules;
static std::set<CUfunction> functions;

API CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    ENTER_CONTEXT("cuModuleLoadData");
    if (!image) return CUDA_ERROR_INVALID_VALUE;
    *module = new CUmod_st{current, {}};
    modules.insert(*module);
    current->modules.insert(*module);
    return CUDA_SUCCESS;
}

API CUresult cuModuleUnload(CUmodule module) {
    ENTER_CONTEXT("cuModuleUnload");
    if (!modules.count(module)) qs_shim_fail("%s: %p is no module", function, (void *)module);
    for (CUstream stream : streams)
        for (const item &one : stream->queue)
            if (one.module == module) qs_shim_fail("%s: %s of it is queued", function, one.what.c_str());
    if (is_in_graphs(module)) qs_shim_fail("%s: a graph has kernels of it", function);
    for (const auto &one : module->functions)
        functions.erase(one.second.get());
    modules.erase(module);
    module->context->modules.erase(module);
    delete module;
    return CUDA_SUCCESS;
}

API CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name) {
    ENTER_CONTEXT("cuModuleGetFunction");
    if (!modules.count(module)) qs_shim_fail("%s: %p is no module", function, (void *)module);
    const qs_shim_kernel *kernel = qs_shim_find(name);
    if (!kernel) return CUDA_ERROR_NOT_FOUND;
    auto &made = module->functions[name];
    if (!made) made.reset(new CUfunc_st{module, kernel, name, PLAIN_SHARED});
    functions.insert(made.get());
    *out = made.get();
    return CUDA_SUCCESS;
}

static void check_function(const char *what, CUfunction function) {
    if (!functions.count(function)) qs_shim_fail("%s: %p is no function of a loaded module", what, (void *)function);
    if (function->module->context != current) qs_shim_fail("%s: %s of another context", what, function->name.c_str());
}

API CUresult cuFuncSetAttribute(CUfunction kernel, CUfunction_attribute attribute, int value) {
    ENTER_CONTEXT("cuFuncSetAttribute");
    check_function(function, kernel);
    if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) return CUDA_SUCCESS;
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) qs_shim_fail("%s: attribute %d", function, (int)attribute);
    if (value < 0 || value > MOST_SHARED) return CUDA_ERROR_INVALID_VALUE;
    kernel->most_shared = value;
    return CUDA_SUCCESS;
}

/* Its only parameter is a job. */
API CUresult cuFuncGetParamInfo(CUfunction kernel, size_t index, size_t *offset, size_t *bytes) {
    ENTER_CONTEXT("cuFuncGetParamInfo");
    check_function(function, kernel);
    if (index > 0) return CUDA_ERROR_INVALID_VALUE;
    *offset = 0;
    if (bytes) *bytes = qs_shim_job_bytes(kernel->kernel);
    return CUDA_SUCCESS;
}

item inside::kernel_item(const char *function, CUfunction kernel, const unsigned grid[3], const unsigned block[3], unsigned shared_bytes,
                         void **parameters, void **extra) {
    check_function(function, kernel);
    const char *name = kernel->name.c_str();
    if (!parameters || !parameters[0] || extra) qs_shim_fail("%s: %s without its job", function, name);
    if (!grid[0] || !grid[1] || !grid[2] || grid[0] > 0x7fffffff || grid[1] > 65535 || grid[2] > 65535)
        qs_shim_fail("%s: %s: a grid of %u x %u x %u blocks", function, name, grid[0], grid[1], grid[2]);
    const uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    if (threads == 0 || threads > MOST_THREADS || block[2] > 64)
        qs_shim_fail("%s: %s: a block of %u x %u x %u threads", function, name, block[0], block[1], block[2]);
    if (shared_bytes > (unsigned)(kernel->most_shared > PLAIN_SHARED ? kernel->most_shared : PLAIN_SHARED))
        qs_shim_fail("%s: %s: %u bytes of shared memory, %d may be asked for", function, name, shared_bytes, kernel->most_shared);
    const std::string job(static_cast<const char *>(parameters[0]), qs_shim_job_bytes(kernel->kernel));
    const qs_shim_kernel *found = kernel->kernel;
    const unsigned extents[6] = {grid[0], grid[1], grid[2], block[0], block[1], block[2]};
    return {std::string("kernel ") + name,
            [=] {
                alignas(64) char aligned[4096];
                if (job.size() > sizeof aligned) qs_shim_fail("a job of %zu bytes: more than kernels can be given", job.size());
                memcpy(aligned, job.data(), job.size());
                qs_shim_run(found, aligned, extents, extents + 3, shared_bytes);
            },
            nullptr, nullptr, kernel->module};
}

API CUresult cuLaunchKernel(CUfunction kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                            unsigned block_z, unsigned shared_bytes, CUstream stream, void **parameters, void **extra) {
    ENTER_CONTEXT("cuLaunchKernel");
    const unsigned grid[3] = {grid_x, grid_y, grid_z}, block[3] = {block_x, block_y, block_z};
    item one = kernel_item(function, kernel, grid, block, shared_bytes, parameters, extra);
    qs_double_check_stream(function, stream);
    put(stream, std::move(one));
    return CUDA_SUCCESS;
}

/* ---- The end of a context ---------------------------------------------------------------------------------------------------------- */

API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    ENTER("cuDevicePrimaryCtxRelease");
    check_device(function, device);
    CUctx_st *context = &contexts[device];
    if (context->retained == 0) qs_shim_fail("%s: a context that nobody holds", function);
    if (--context->retained > 0) return CUDA_SUCCESS;
    check_no_green(function, device);
    size_t left_pinned = pinned_pieces();
    for (const CUctx_st &other : contexts)
        if (other.retained > 0) left_pinned = 0; /* they may be its */
    if (!context->streams.empty() || !context->events.empty() || !context->modules.empty() || context->graphs || memory_used(device) ||
        left_pinned)
        qs_shim_fail(
            "%s: left are %zu streams, %zu events, %zu modules, %d graphs, %zu bytes of the device and %zu pieces of pinned memory",
            function, context->streams.size(), context->events.size(), context->modules.size(), context->graphs, memory_used(device),
            left_pinned);
    return CUDA_SUCCESS;
}
