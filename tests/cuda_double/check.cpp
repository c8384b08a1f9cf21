// SPDX-License-Identifier: Apache-2.0
/* The driver's double and the shim themselves: work is put off until somebody waits, streams follow events, threads of a block meet; and
 * misuse ends the process with its message. */
#include "cuda_shim.h"
#include "double.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                  \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                                      \
        }                                                                                 \
    } while (0)

/* ---- Kernels ------------------------------------------------------------------------------------------------------------------------ */

enum { THREADS = 96, BYTES = 2 << 20 };

struct check_job {
    uint64_t from, to;
    int count, way;
};

/* Sums of blocks: every lane, then every warp, brings its part. */
QS_CUDA_GLOBAL(check_sum, check_job) {
    __shared__ float parts[32];
    QS_CUDA_SHARED(float, all);
    const float *from = (const float *)job.from;
    float sum = 0;
    for (int i = (int)(blockIdx.x * blockDim.x + threadIdx.x); i < job.count; i += (int)(gridDim.x * blockDim.x))
        sum += from[i];
    if (job.way == 1 && threadIdx.x == 3) return;
    if (job.way == 2 && threadIdx.x < 32) __syncthreads();
    if (job.way == 3 && threadIdx.x == 0) __syncwarp();
    for (int by = 16; by > 0; by /= 2)
        sum += __shfl_down_sync(job.way == 4 ? 0xffffu : 0xffffffffu, sum, (unsigned)by);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
    all[threadIdx.x + (job.way == 5 ? THREADS : 0)] = sum;
    __syncthreads();
    const int warps = __syncthreads_count(threadIdx.x % 32 == 0);
    if (threadIdx.x > 0) return;
    float total = 0;
    for (int i = 0; i < warps; i++)
        total += parts[i];
    ((float *)job.to)[blockIdx.x] = total;
}

/* ---- A device ----------------------------------------------------------------------------------------------------------------------- */

static CUcontext context;
static CUstream stream[2];
static CUdeviceptr memory;
static CUmemGenericAllocationHandle piece;
static CUmodule module;
static CUfunction function;
static float *pinned;
static CUmemAllocationProp kind;

static void start() {
    CUmemAccessDesc access = {};
    kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    kind.location.type = access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CHECK(cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS && cuCtxSetCurrent(context) == CUDA_SUCCESS);
    for (CUstream &one : stream)
        CHECK(cuStreamCreateWithPriority(&one, CU_STREAM_NON_BLOCKING, 0) == CUDA_SUCCESS);
    CHECK(cuMemAddressReserve(&memory, 4 * BYTES, 0, 0, 0) == CUDA_SUCCESS);
    CHECK(cuMemCreate(&piece, BYTES, &kind, 0) == CUDA_SUCCESS && cuMemMap(memory, BYTES, 0, piece, 0) == CUDA_SUCCESS);
    CHECK(cuMemSetAccess(memory, BYTES, &access, 1) == CUDA_SUCCESS);
    CHECK(cuMemHostAlloc((void **)&pinned, BYTES, 0) == CUDA_SUCCESS);
    CHECK(cuModuleLoadData(&module, "") == CUDA_SUCCESS && cuModuleGetFunction(&function, module, "check_sum") == CUDA_SUCCESS);
}

static CUresult launch(int way, unsigned threads, unsigned shared, CUstream where) {
    check_job job = {memory, memory + BYTES / 2, 1000, way};
    void *parameters[] = {&job};
    const CUresult result = cuLaunchKernel(function, 2, 1, 1, threads, 1, 1, shared, where, parameters, nullptr);
    job.to = 0; /* it was copied */
    return result;
}

/* A part of the device with so many multiprocessors at least. */
static CUgreenCtx part_make(unsigned least, unsigned given) {
    CUdevResource whole, part;
    CUdevResourceDesc description;
    CUgreenCtx green;
    unsigned groups = 1;
    CHECK(cuDeviceGetDevResource(0, &whole, CU_DEV_RESOURCE_TYPE_SM) == CUDA_SUCCESS);
    CHECK(cuDevSmResourceSplitByCount(&part, &groups, &whole, nullptr, 0, least) == CUDA_SUCCESS);
    CHECK(groups == 1 && part.sm.smCount == given);
    CHECK(cuDevResourceGenerateDesc(&description, &part, 1) == CUDA_SUCCESS);
    CHECK(cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM) == CUDA_SUCCESS);
    return green;
}

static CUcontext context_of(CUgreenCtx green) {
    CUcontext own;
    CHECK(cuCtxFromGreenCtx(&own, green) == CUDA_SUCCESS);
    return own;
}

static CUstream stream_of(CUgreenCtx green) {
    CUstream own;
    CHECK(cuGreenCtxStreamCreate(&own, green, CU_STREAM_NON_BLOCKING, 0) == CUDA_SUCCESS);
    return own;
}

static void run(int way) {
    CHECK(launch(way, THREADS, THREADS * sizeof(float), stream[0]) == CUDA_SUCCESS && cuStreamSynchronize(stream[0]) == CUDA_SUCCESS);
}

/* A graph of one kernel, and a copy of what it wrote. */
struct recorded {
    CUgraph graph;
    CUgraphNode node; /* of the kernel */
    CUgraphExec ready;
};

static recorded record() {
    CUstreamCaptureStatus status;
    const CUgraphNode *last = nullptr;
    const CUgraphEdgeData *edge = nullptr;
    cuuint64_t id;
    size_t count = 0;
    recorded out;
    CHECK(cuStreamBeginCapture(stream[0], CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
    CHECK(launch(0, THREADS, THREADS * sizeof(float), stream[0]) == CUDA_SUCCESS);
    CHECK(cuStreamGetCaptureInfo(stream[0], &status, &id, &out.graph, &last, &edge, &count) == CUDA_SUCCESS);
    CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && count == 1);
    out.node = *last;
    CHECK(cuMemcpyDtoDAsync_v2(memory + BYTES / 2 + 8, memory + BYTES / 2, 8, stream[0]) == CUDA_SUCCESS);
    CHECK(cuStreamEndCapture(stream[0], &out.graph) == CUDA_SUCCESS);
    CHECK(cuGraphInstantiate(&out.ready, out.graph, 0) == CUDA_SUCCESS);
    return out;
}

/* The next launches sum so many numbers. */
static CUresult count_set(CUgraphExec ready, CUgraphNode node, int count) {
    check_job job = {memory, memory + BYTES / 2, count, 0};
    void *parameters[] = {&job};
    CUDA_KERNEL_NODE_PARAMS to = {};
    to.func = function;
    to.gridDimX = 2, to.gridDimY = to.gridDimZ = 1;
    to.blockDimX = THREADS, to.blockDimY = to.blockDimZ = 1;
    to.sharedMemBytes = THREADS * sizeof(float);
    to.kernelParams = parameters;
    const CUresult result = cuGraphExecKernelNodeSetParams(ready, node, &to);
    job.count = 0; /* it was copied */
    return result;
}

static void graphs_end(const recorded &one) {
    CHECK(cuGraphExecDestroy(one.ready) == CUDA_SUCCESS && cuGraphDestroy(one.graph) == CUDA_SUCCESS);
}

/* ---- What holds ---------------------------------------------------------------------------------------------------------------------- */

static void works() {
    CUevent event;
    float pageable[1000];
    CHECK(((unsigned char *)memory)[77] == 0xa5); /* new memory holds no zeros */
    for (float &one : pageable)
        one = 1;
    CHECK(cuMemcpyHtoDAsync_v2(memory, pageable, sizeof pageable, stream[0]) == CUDA_SUCCESS);
    pageable[0] = 100; /* it was taken */
    CHECK(cuEventCreate(&event, 0) == CUDA_SUCCESS && cuEventRecord(event, stream[0]) == CUDA_SUCCESS);
    CHECK(cuEventQuery(event) == CUDA_ERROR_NOT_READY);
    CHECK(cuStreamWaitEvent(stream[1], event, 0) == CUDA_SUCCESS);
    CHECK(launch(0, THREADS, THREADS * sizeof(float), stream[1]) == CUDA_SUCCESS);
    pinned[0] = pinned[1] = -1;
    CHECK(cuMemcpyDtoHAsync_v2(pinned, memory + BYTES / 2, 2 * sizeof(float), stream[1]) == CUDA_SUCCESS);
    CHECK(pinned[0] == -1); /* nobody waited */
    CHECK(cuStreamSynchronize(stream[1]) == CUDA_SUCCESS && cuEventQuery(event) == CUDA_SUCCESS);
    CHECK(pinned[0] + pinned[1] == 1000);
    CHECK(cuEventDestroy_v2(event) == CUDA_SUCCESS);
    size_t offset = 1, bytes = 0;
    CHECK(cuFuncGetParamInfo(function, 0, &offset, &bytes) == CUDA_SUCCESS && offset == 0 && bytes == sizeof(check_job));
    CHECK(cuFuncGetParamInfo(function, 1, &offset, &bytes) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemsetD8Async(memory + BYTES / 2, 0, 16, stream[0]) == CUDA_SUCCESS);
    const recorded all = record();
    float *result = reinterpret_cast<float *>(memory + BYTES / 2);
    CHECK(cuStreamSynchronize(stream[0]) == CUDA_SUCCESS && result[0] + result[1] == 0); /* nothing was run */
    CHECK(cuGraphLaunch(all.ready, stream[0]) == CUDA_SUCCESS && result[0] + result[1] == 0);
    CHECK(count_set(all.ready, all.node, 10) == CUDA_SUCCESS); /* what is queued keeps its job */
    CHECK(cuStreamSynchronize(stream[0]) == CUDA_SUCCESS && result[0] + result[1] == 1000 && result[2] + result[3] == 1000);
    CHECK(cuGraphLaunch(all.ready, stream[0]) == CUDA_SUCCESS && cuStreamSynchronize(stream[0]) == CUDA_SUCCESS);
    CHECK(result[0] + result[1] == 10 && result[2] + result[3] == 10);
    graphs_end(all);
    CUmemGenericAllocationHandle large;
    CHECK(cuMemCreate(&large, (size_t)1 << 40, &kind, 0) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(cuModuleGetFunction(&function, module, "of another name") == CUDA_ERROR_NOT_FOUND);
}

/* Numbers are rounded up to what the chip can part; a kernel runs in a stream of the part. */
static void parts() {
    CUdevResource whole, part;
    unsigned groups = 0;
    CHECK(cuDeviceGetDevResource(0, &whole, CU_DEV_RESOURCE_TYPE_SM) == CUDA_SUCCESS && whole.sm.smCount == 132);
    CHECK(cuDevSmResourceSplitByCount(nullptr, &groups, &whole, nullptr, 0, 33) == CUDA_SUCCESS && groups == 3);
    groups = 1;
    CHECK(cuDevSmResourceSplitByCount(&part, &groups, &whole, nullptr, 0, 133) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuDevSmResourceSplitByCount(&part, &groups, &whole, nullptr, 0, 130) == CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    CUgreenCtx few = part_make(1, 8), green = part_make(60, 64);
    CHECK(cuGreenCtxDestroy(few) == CUDA_SUCCESS);
    CUstream own = stream_of(green);
    CHECK(cuCtxSetCurrent(context_of(green)) == CUDA_SUCCESS);
    qs_double_check_multiprocessors("here", 64);
    CHECK(cuMemsetD8Async(memory, 1, 8, own) == CUDA_SUCCESS && cuStreamSynchronize(own) == CUDA_SUCCESS);
    CHECK(*(unsigned char *)memory == 1);
    CHECK(cuStreamDestroy_v2(own) == CUDA_SUCCESS && cuCtxSetCurrent(context) == CUDA_SUCCESS);
    CHECK(cuGreenCtxDestroy(green) == CUDA_SUCCESS);
    qs_double_check_multiprocessors("here", 0);
}

static void split_again() {
    CUdevResource whole, part;
    unsigned groups = 1;
    cuDeviceGetDevResource(0, &whole, CU_DEV_RESOURCE_TYPE_SM);
    cuDevSmResourceSplitByCount(&part, &groups, &whole, nullptr, 0, 64);
    cuDevSmResourceSplitByCount(&whole, &groups, &part, nullptr, 0, 8);
}

static void ends() {
    CHECK(cuModuleUnload(module) == CUDA_SUCCESS && cuMemFreeHost(pinned) == CUDA_SUCCESS);
    CHECK(cuMemUnmap(memory, BYTES) == CUDA_SUCCESS && cuMemRelease(piece) == CUDA_SUCCESS);
    CHECK(cuMemAddressFree(memory, 4 * BYTES) == CUDA_SUCCESS);
    CHECK(cuStreamDestroy_v2(stream[0]) == CUDA_SUCCESS && cuStreamDestroy_v2(stream[1]) == CUDA_SUCCESS);
    CHECK(cuDevicePrimaryCtxRelease_v2(0) == CUDA_SUCCESS);
}

static void capture() {
    cuStreamBeginCapture(stream[0], CU_STREAM_CAPTURE_MODE_RELAXED);
}

/* ---- What ends the process --------------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *message;
    void (*misuse)();
} misuses[] = {
    {"wait at __shfl_down_sync for the others", [] { run(1); }},
    {"threads of a block wait at two barriers", [] { run(2); }},
    {"lanes of a warp meet at ", [] { run(3); }},
    {"__shfl_down_sync of a part of the warp", [] { run(4); }},
    {"a fault of memory in kernel check_sum", [] { run(5); }},
    {"a block of 1025 x 1 x 1 threads", [] { launch(0, 1025, 0, stream[0]); }},
    {"50000 bytes of shared memory", [] { launch(0, THREADS, 50000, stream[0]); }},
    {"the default stream", [] { launch(0, THREADS, 0, nullptr); }},
    {"memory is mapped at", [] { cuMemMap(memory, BYTES, 0, piece, 0); }},
    {"is not memory that the device sees", [] { cuMemsetD8Async(memory, 0, BYTES + 1, stream[0]); }},
    {"the two places overlap", [] { cuMemcpyDtoDAsync_v2(memory, memory + 8, 16, stream[0]); }},
    {"is no event", [] { cuEventQuery((CUevent)stream[0]); }},
    {"is no stream", [] { cuStreamDestroy_v2(stream[0]), cuStreamSynchronize(stream[0]); }},
    {"while work is queued", [] { cuMemsetD8Async(memory, 0, 1, stream[0]), cuMemUnmap(memory, BYTES); }},
    {"check_sum of it is queued", [] { launch(0, THREADS, 400, stream[0]), cuModuleUnload(module); }},
    {"what was split is split again", split_again},
    {"a stream of another context", [] { cuStreamSynchronize(stream_of(part_make(8, 8))); }},
    {"check_sum of another context",
     [] {
         CUgreenCtx green = part_make(8, 8);
         cuCtxSetCurrent(context_of(green)), launch(0, THREADS, 0, stream_of(green));
     }},
    {"cuGreenCtxDestroy: of what is current",
     [] {
         CUgreenCtx green = part_make(8, 8);
         cuCtxSetCurrent(context_of(green)), cuGreenCtxDestroy(green);
     }},
    {"cuGreenCtxDestroy: left are 1 streams",
     [] {
         CUgreenCtx green = part_make(8, 8);
         stream_of(green), cuGreenCtxDestroy(green);
     }},
    {"left is a green context", [] { part_make(8, 8), cuDevicePrimaryCtxRelease_v2(0); }},
    {"fill 132 multiprocessors, and the current context has 8",
     [] { cuCtxSetCurrent(context_of(part_make(8, 8))), qs_double_check_multiprocessors("here", 0); }},
    {"no context is current", [] { cuCtxSetCurrent(nullptr), cuStreamSynchronize(stream[0]); }},
    {"left are 2 streams, 0 events, 1 modules", [] { cuDevicePrimaryCtxRelease_v2(0); }},
    {"2 graphs", [] { record(), cuDevicePrimaryCtxRelease_v2(0); }},
    {"cuStreamSynchronize: the stream captures", [] { capture(), cuStreamSynchronize(stream[0]); }},
    {"cuStreamDestroy: the stream captures", [] { capture(), cuStreamDestroy_v2(stream[0]); }},
    {"cuMemcpyHtoDAsync: the stream captures", [] { capture(), cuMemcpyHtoDAsync_v2(memory, pinned, 4, stream[0]); }},
    {"cuMemcpyDtoHAsync: the stream captures", [] { capture(), cuMemcpyDtoHAsync_v2(pinned, memory, 4, stream[0]); }},
    {"the stream captures already", [] { capture(), capture(); }},
    {"cuGraphLaunch: the stream captures",
     [] {
         const recorded one = record();
         capture(), cuGraphLaunch(one.ready, stream[0]);
     }},
    {"the stream does not capture",
     [] {
         CUgraph graph;
         cuStreamEndCapture(stream[0], &graph);
     }},
    {"is no graph that can be launched",
     [] {
         const recorded one = record();
         graphs_end(one), cuGraphLaunch(one.ready, stream[0]);
     }},
    {"is no graph",
     [] {
         const recorded one = record();
         cuGraphDestroy(one.graph), count_set(one.ready, one.node, 1);
     }},
    {"a node of another graph",
     [] {
         const recorded one = record(), other = record();
         count_set(one.ready, other.node, 1);
     }},
    {"a graph has kernels of it", [] { record(), cuModuleUnload(module); }},
};

static bool ends_with(void (*misuse)(), const char *message) {
    int ends[2], status = 0;
    char said[4096] = "";
    size_t used = 0;
    CHECK(pipe(ends) == 0);
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        start();
        misuse();
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t got = 1; got > 0 && used<sizeof said - 1; used += got> 0 ? (size_t)got : 0)
        got = read(ends[0], said + used, sizeof said - 1 - used);
    close(ends[0]);
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && strstr(said, message)) return true;
    fprintf(stderr, "expected '%s', got (status %d): %s\n", message, status, said);
    return false;
}

int main() {
    int failed = 0;
    for (const auto &one : misuses)
        failed += !ends_with(one.misuse, one.message);
    start();
    works();
    parts();
    ends();
    printf("%d failed\n", failed);
    return failed > 0;
}
