// SPDX-License-Identifier: Apache-2.0
/* The device `cuda`: opening a GPU, and kernels from what families build. */
#include "cuda/cublaslt.h"
#include "cuda/cudnn.h"
#include "cuda_digest.h"

#include <stdlib.h>
#include <string.h>

enum { CLOCK_BYTES = 256, SCRATCH_UNIT = 256 };

/* ---- Opening ------------------------------------------------------------------------------------------------------------------- */

static int attribute_of(const qs__cuda *cuda, CUdevice_attribute attribute) {
    int value = 0;
    return cuda->driver->device_attribute(&value, attribute, cuda->device) == CUDA_SUCCESS ? value : 0;
}

static qs_status facts_read(qs__cuda *cuda) {
    QS_TRY(qs__cuda_check(cuda, cuda->driver->device_name(cuda->name, sizeof cuda->name, cuda->device), "the GPU's name"));
    QS_TRY(qs_fail_within(qs__cuda_gpu_check(cuda->driver, cuda->device), "the GPU %s", cuda->name));
    cuda->capability = qs__cuda_capability(cuda->driver, cuda->device);
    cuda->whole = cuda->multiprocessors = attribute_of(cuda, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    cuda->clock_khz = attribute_of(cuda, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
    cuda->shared_bytes = attribute_of(cuda, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    return QS_OK;
}

/* A part of its multiprocessors, as a green context that is current from now on. The driver rounds numbers up to what the chip can part:
 * such a number is refused, so that a class that says 64 was measured on 64. */
static qs_status part_take(qs__cuda *cuda, int wanted) {
    const qs__driver *driver = cuda->driver;
    CUdevResource whole, part = {0};
    CUdevResourceDesc description;
    CUcontext context;
    unsigned parts = 1;
    if (wanted < 1 || wanted > cuda->whole)
        return qs_fail(QS_USAGE, "%d multiprocessors of the GPU %s: it has %d", wanted, cuda->name, cuda->whole);
    QS_TRY(qs__cuda_check(cuda, driver->resource_of(cuda->device, &whole, CU_DEV_RESOURCE_TYPE_SM), "the GPU's multiprocessors"));
    const CUresult split = driver->resource_split(&part, &parts, &whole, NULL, 0, (unsigned)wanted);
    const int given = split == CUDA_SUCCESS && parts == 1 ? (int)part.sm.smCount : 0;
    char nearest[32] = "none is as large";
    if (given > 0) snprintf(nearest, sizeof nearest, "it would be %d", given);
    if (given != wanted)
        return qs_fail(QS_USAGE,
                       "%d multiprocessors of the GPU %s: it gives at least %u, in multiples of %u, of its %d; %s: name a number that it "
                       "gives, or none for all",
                       wanted, cuda->name, whole.sm.minSmPartitionSize, whole.sm.smCoscheduledAlignment, cuda->whole, nearest);
    QS_TRY(qs__cuda_check(cuda, driver->resource_describe(&description, &part, 1), "a part of the GPU"));
    QS_TRY(qs__cuda_check(cuda, driver->green_create(&cuda->part, description, cuda->device, CU_GREEN_CTX_DEFAULT_STREAM),
                          "a part of the GPU"));
    QS_TRY(qs__cuda_check(cuda, driver->green_context(&context, cuda->part), "a part of the GPU"));
    cuda->multiprocessors = given;
    return qs__cuda_check(cuda, driver->context_set(context), "a part of the GPU");
}

static CUresult queue_create(const qs__cuda *cuda, CUstream *stream) {
    return cuda->part ? cuda->driver->green_stream(stream, cuda->part, CU_STREAM_NON_BLOCKING, 0)
                      : cuda->driver->stream_create(stream, CU_STREAM_NON_BLOCKING, 0);
}

/* What kernels write to beside operands: complaints, which the host reads without asking, and the clock of rests. */
static qs_status notes_make(qs__cuda *cuda) {
    void *memory = NULL;
    QS_TRY(qs__cuda_check(cuda, cuda->driver->host_allocate(&memory, CLOCK_BYTES + sizeof *cuda->complaint, CU_MEMHOSTALLOC_DEVICEMAP),
                          "memory that host and GPU share"));
    memset(memory, 0, CLOCK_BYTES + sizeof *cuda->complaint);
    cuda->complaint = (qs__cuda_complaint *)((char *)memory + CLOCK_BYTES);
    QS_TRY(qs__cuda_check(cuda, cuda->driver->host_address(&cuda->clock, memory, 0), "memory that host and GPU share"));
    cuda->complaint_address = cuda->clock + CLOCK_BYTES;
    return QS_OK;
}

static qs_status start(const qs_device_options *options, qs__cuda *cuda) {
    size_t total = 0;
    QS_TRY(qs__driver_open(&cuda->driver));
    QS_TRY(qs__cuda_gpu_find(cuda->driver, &options->cuda, &cuda->device));
    QS_TRY(facts_read(cuda));
    if (options->isa) QS_TRY(qs_number_isa_set(options->isa));
    if (options->family) QS_TRY(qs__cuda_family_ask(cuda, options->family));
    QS_TRY(qs__cuda_check(cuda, cuda->driver->context_retain(&cuda->context, cuda->device), "opening the GPU"));
    QS_TRY(qs__cuda_check(cuda, cuda->driver->context_set(cuda->context), "opening the GPU"));
    if (options->cuda.multiprocessors != 0) QS_TRY(part_take(cuda, options->cuda.multiprocessors));
    for (int queue = 0; queue < QS_QUEUES; queue++)
        QS_TRY(qs__cuda_check(cuda, queue_create(cuda, &cuda->stream[queue]), "a queue of the GPU"));
    QS_TRY(qs__cuda_check(cuda, cuda->driver->device_bytes(&total, cuda->device), "the GPU's memory"));
    const size_t limit = (size_t)options->cuda.memory_bytes;
    cuda->capacity = limit > 0 && limit < total ? limit : total;
    cuda->speed = options->speed;
    cuda->products = options->products;
    cuda->records = cuda->part ? QS_RECORDS_NEVER : options->cuda.records; /* no graphs of a green context's kernels (docs/cuda.md) */
    QS_TRY(qs_allocate((size_t)qs__cuda_module_count, sizeof *cuda->module, &cuda->module));
    QS_TRY(notes_make(cuda));
    return qs__transfers_open(cuda);
}

static void cuda_close(void *state) {
    qs__cuda *cuda = state;
    const qs__driver *driver = cuda->driver;
    if (cuda->transfers) qs__transfers_close(cuda);
    qs__nccl_close(cuda);
    qs__cublaslt_close(cuda);
    qs__cudnn_close(cuda);
    if (cuda->complaint) driver->host_free((char *)cuda->complaint - CLOCK_BYTES);
    for (int i = 0; cuda->module && i < qs__cuda_module_count; i++)
        if (cuda->module[i]) driver->module_unload(cuda->module[i]);
    for (int queue = 0; queue < QS_QUEUES; queue++)
        if (cuda->stream[queue]) driver->stream_destroy(cuda->stream[queue]);
    if (cuda->part) {
        driver->context_set(cuda->context);
        driver->green_destroy(cuda->part);
    }
    if (cuda->context) driver->context_release(cuda->device);
    free(cuda->module);
    free(cuda->complainer);
    free(cuda);
}

static qs_status cuda_open(const qs_device_options *options, void **state) {
    qs__cuda *cuda = NULL;
    QS_TRY(qs_allocate(1, sizeof *cuda, &cuda));
    const qs_status status = start(options, cuda);
    if (status != QS_OK) {
        cuda_close(cuda);
        return status;
    }
    *state = cuda;
    return QS_OK;
}

static void cuda_describe(const void *state, qs_device_info *out) {
    const qs__cuda *cuda = state;
    int version = 0;
    snprintf(out->cpu, sizeof out->cpu, "%s", cuda->name);
    const int used = snprintf(out->isa, sizeof out->isa, "compute capability %d.%d", cuda->capability / 10, cuda->capability % 10);
    if (cuda->part) {
        out->multiprocessors = cuda->multiprocessors;
        snprintf(out->isa + used, sizeof out->isa - (size_t)used, ", %d of %d multiprocessors", cuda->multiprocessors, cuda->whole);
    }
    if (cuda->driver->driver_version(&version) != CUDA_SUCCESS) version = 0;
    snprintf(out->library, sizeof out->library, "CUDA driver %d.%d", version / 1000, version % 1000 / 10);
    snprintf(out->kernels, sizeof out->kernels, "%s", QS_CUDA_DIGEST);
    qs__cuda_formats(cuda->capability, out->formats);
}

/* ---- Complaints ----------------------------------------------------------------------------------------------------------------- */

/* Kernels that may complain have a number: their place in the list, from 1. */
qs_status qs__cuda_complaints_enter(qs__cuda *cuda, qs__cuda_kernel *kernel) {
    int at = 0;
    if (!kernel->complain) return QS_OK;
    while (at < cuda->complainers && cuda->complainer[at])
        at++;
    if (at == cuda->complainers) {
        const qs__cuda_kernel **larger = realloc(cuda->complainer, (size_t)(2 * at + 8) * sizeof *larger);
        if (!larger) return qs_fail(QS_OUT_OF_MEMORY, "no memory for a list of kernels");
        memset(larger + at, 0, (size_t)(at + 8) * sizeof *larger);
        cuda->complainer = larger;
        cuda->complainers = 2 * at + 8;
    }
    cuda->complainer[at] = kernel;
    kernel->number = at + 1;
    return QS_OK;
}

void qs__cuda_complaints_leave(qs__cuda *cuda, const qs__cuda_kernel *kernel) {
    if (kernel->number > 0) cuda->complainer[kernel->number - 1] = NULL;
}

qs_status qs__cuda_complaints_take(qs__cuda *cuda) {
    const qs__cuda_complaint found = *(volatile qs__cuda_complaint *)cuda->complaint;
    char text[QS_CASE_TEXT];
    if (found.number == 0) return QS_OK;
    memset(cuda->complaint, 0, sizeof *cuda->complaint);
    const qs__cuda_kernel *kernel = found.number <= cuda->complainers ? cuda->complainer[found.number - 1] : NULL;
    if (!kernel) return qs_fail(QS_FAILED, "a kernel that was released found value %d at %lld", found.value, (long long)found.index);
    return qs_fail_within(kernel->complain(kernel, &found), "%s", qs_case_text(&kernel->one, text));
}

/* ---- Kernels --------------------------------------------------------------------------------------------------------------------- */

static void kernel_release(void *state) {
    qs__cuda_kernel *kernel = state;
    qs__cuda *cuda = kernel->cuda;
    if (cuda && kernel->ready) {
        (void)cuda->driver->stream_wait(cuda->stream[QS_QUEUE_KERNELS]); /* it may be queued */
        qs__cuda_complaints_leave(cuda, kernel);
    }
    qs__cuda_kernel_clear(kernel);
    free(kernel);
}

static qs_status cuda_fact(void *state, const qs_case *one, const char *name, qs_kernel_fact *out) {
    qs__cuda_kernel *kernel = NULL;
    QS_TRY(qs_allocate(1, sizeof *kernel, &kernel));
    const qs_status status = qs__cuda_choose(state, one, name, kernel);
    if (status == QS_OK) {
        *out = (qs_kernel_fact){.scratch_bytes = qs__cuda_scratch_whole(kernel)};
        snprintf(out->kernel, sizeof out->kernel, "%s", kernel->name);
    }
    kernel_release(kernel);
    return status;
}

static qs_status cuda_candidates(void *state, const qs_case *one, qs_kernel_fact *out, int *count) {
    return qs__cuda_candidates(state, one, out, count);
}

static qs_status kernel_bind(qs__cuda_kernel *kernel, const qs_location *operand, qs_location scratch) {
    qs__cuda *cuda = kernel->cuda;
    for (int i = 0; i < kernel->one.operands; i++)
        if (kernel->one.operand[i].format) kernel->operand[i] = qs__cuda_address(operand[i]);
    kernel->scratch = scratch.memory ? (qs__cuda_address(scratch) + SCRATCH_UNIT - 1) / SCRATCH_UNIT * SCRATCH_UNIT : 0;
    QS_TRY(qs__cuda_complaints_enter(cuda, kernel));
    kernel->ready = true;
    kernel->speed = qs_case_speed(&kernel->one, cuda->speed, &cuda->products);
    if (kernel->speed < 1) {
        QS_TRY(qs__cuda_function_find(cuda, "rest_begin", &kernel->rest[0]));
        QS_TRY(qs__cuda_function_find(cuda, "rest_end", &kernel->rest[1]));
    }
    return kernel->prepare ? kernel->prepare(kernel) : QS_OK;
}

static qs_status cuda_prepare(void *state, const qs_case *one, const char *name, const qs_location *operand, qs_location scratch,
                              void **out) {
    qs__cuda_kernel *kernel = NULL;
    QS_TRY(qs_allocate(1, sizeof *kernel, &kernel));
    qs_status status = qs__cuda_choose(state, one, name, kernel);
    if (status == QS_OK) status = kernel_bind(kernel, operand, scratch);
    if (status != QS_OK) {
        kernel_release(kernel);
        return status;
    }
    *out = kernel;
    return QS_OK;
}

qs_status qs__cuda_run(void *state, const qs_run *run) {
    qs__cuda_kernel *kernel = state;
    const qs__cuda *cuda = kernel->cuda;
    if (kernel->speed >= 1) return kernel->run(kernel, run);
    const qs__cuda_rest_job rest = {.clock = cuda->clock, .factor = 1 / kernel->speed - 1};
    const CUstream stream = cuda->stream[QS_QUEUE_KERNELS];
    QS_TRY(qs__cuda_put(cuda, stream, kernel->rest[0], 1, 1, 0, &rest));
    QS_TRY(kernel->run(kernel, run));
    return qs__cuda_put(cuda, stream, kernel->rest[1], 1, 1, 0, &rest);
}

static void cuda_trim(void *state) {
    qs__cudnn_trim(state);
}

/* ---- What families ask -------------------------------------------------------------------------------------------------------------- */

CUdeviceptr qs__cuda_at(const qs__cuda_kernel *kernel, qs_role role) {
    return qs__case_has(&kernel->one, role) ? kernel->operand[qs_case_position(&kernel->one, role)] : 0;
}

qs__cuda_format qs__cuda_format_of(const qs_format *format) {
    static const struct {
        const char *name;
        qs__cuda_kind kind;
    } plain[] = {
        {"fp32", QS__CUDA_FP32}, {"bf16", QS__CUDA_BF16}, {"fp16", QS__CUDA_FP16}, {"e5m2", QS__CUDA_E5M2}, {"e4m3fn", QS__CUDA_E4M3}};
    qs__cuda_format out = {.kind = format->kind == QS_KIND_INTEGER ? QS__CUDA_INTEGER : QS__CUDA_FLOAT,
                           .bits = format->bits,
                           .exponent_bits = format->exponent_bits,
                           .mantissa_bits = format->mantissa_bits,
                           .bias = format->bias,
                           .specials = (int)format->specials,
                           .is_unsigned = format->is_unsigned,
                           .is_logarithmic = format->is_logarithmic,
                           .max = (float)format->max,
                           .min_normal = (float)format->min_normal,
                           .min_subnormal = (float)format->min_subnormal};
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        if (!strcmp(format->name, plain[i].name)) out.kind = plain[i].kind;
    return out;
}

qs__cuda_values qs__cuda_values_of(const qs__cuda_kernel *kernel, qs_role role) {
    const qs_case *one = &kernel->one;
    if (!qs__case_has(one, role)) return (qs__cuda_values){0};
    return (qs__cuda_values){
        .at = qs__cuda_at(kernel, role), .count = qs__case_count(one, role), .format = qs__cuda_format_of(qs__case_format(one, role))};
}

size_t qs__cuda_scratch(qs__cuda_kernel *kernel, size_t bytes) {
    const size_t at = kernel->scratch_bytes;
    kernel->scratch_bytes = (at + bytes + SCRATCH_UNIT - 1) / SCRATCH_UNIT * SCRATCH_UNIT;
    return at;
}

size_t qs__cuda_scratch_whole(const qs__cuda_kernel *kernel) {
    enum { GIVEN = 64 }; /* where scratch begins, at least (qs_device_prepare) */
    return kernel->scratch_bytes > 0 ? kernel->scratch_bytes + SCRATCH_UNIT - GIVEN : 0;
}

const qs__backend qs__device_cuda = {
    .name = "cuda",
    .open = cuda_open,
    .close = cuda_close,
    .describe = cuda_describe,
    .fact = cuda_fact,
    .candidates = cuda_candidates,
    .prepare = cuda_prepare,
    .run = qs__cuda_run,
    .release = kernel_release,
    .trim = cuda_trim,
    .list = qs__cuda_list,
    .peak = qs__cuda_peak,
    .stage = &qs__cuda_stage,
    .group = &qs__cuda_group,
    .joins = true,
    .recorder = &qs__cuda_recorder,
};
