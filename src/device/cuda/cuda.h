// SPDX-License-Identifier: Apache-2.0
/* Inside the device `cuda`: an open GPU, and the kernel of one case on it.
 *
 * A *family* (kernels.def) is a way to run cases of an operator: by our own kernels, or by cuBLASLt or cuDNN. It *builds* a kernel from a
 * case: name, scratch, and the functions that prepare and run it. A fact and a prepared kernel come from the same building, so the two
 * cannot differ. All families that can are candidates, in the list's order.
 *
 * Our own kernels (*.cu) are compiled for every architecture, kept in the program as modules, and found by name. Each takes one struct, its
 * job (jobs.h), and is launched by qs__cuda_launch into the queue of kernels. */
#ifndef QSYNC_DEVICE_CUDA_H
#define QSYNC_DEVICE_CUDA_H

#include "backend.h"
#include "cases.h"
#include "cuda/driver.h"
#include "cuda/jobs.h"

struct qs__cublaslt;
struct qs__nccl;
struct qs__cudnn;
struct qs__transfers;
struct qs__recording;

typedef struct qs__cuda_kernel qs__cuda_kernel;

typedef struct qs__cuda {
    const qs__driver *driver;
    CUdevice device;
    CUcontext context;
    CUgreenCtx part;     /* of the GPU, all that its queues run on; NULL: they have the whole */
    int capability;      /* 90: 9.0 */
    int multiprocessors; /* that kernels may fill */
    int whole;           /* that the GPU has */
    int clock_khz;
    int shared_bytes; /* of a block, at most */
    char name[96];
    CUstream stream[QS_QUEUES];
    struct qs__transfers *transfers; /* copies between host and device on their way (transfers.c) */
    double speed;
    qs_speeds products;
    char family[32]; /* of kernels, tried before all others; "" for none */
    size_t capacity; /* bytes that can be reserved */
    size_t reserved;
    int modules;
    CUmodule *module;              /* (modules) NULL: not loaded yet */
    struct qs__cublaslt *cublaslt; /* NULL: not opened yet (cublaslt.c, cudnn.c) */
    struct qs__nccl *nccl;         /* the group that it adds up with; NULL: none (nccl.c) */
    struct qs__cudnn *cudnn;
    qs__cuda_complaint *complaint; /* where kernels write what is wrong with their data: memory of the host that the GPU sees */
    CUdeviceptr complaint_address;
    int complainers;
    const qs__cuda_kernel **complainer; /* (complainers) by number - 1; NULL: free */
    CUdeviceptr clock;                  /* 8 bytes: when the kernel at hand began, of a device that rests */
    qs_records records;
    struct qs__recording *recording; /* that is being made, or run again; NULL: none (recording.c) */
} qs__cuda;

/* ---- Which GPUs there are (gpus.c) --------------------------------------------------------------------------------------------- */

qs_status qs__cuda_gpu_find(const qs__driver *driver, const qs_cuda_options *options, CUdevice *out);
/* QS_UNSUPPORTED says why it cannot be used. */
qs_status qs__cuda_gpu_check(const qs__driver *driver, CUdevice device);
int qs__cuda_capability(const qs__driver *driver, CUdevice device); /* 90: 9.0 */
/* Names of the formats that a GPU multiplies at full speed, into formats[8], NULL behind the last. */
void qs__cuda_formats(int capability, const char **formats);
qs_status qs__cuda_list(int capacity, qs_device_listing *out, int *count);

/* ---- The kernel of a case --------------------------------------------------------------------------------------------------- */

enum { QS__CUDA_FUNCTIONS = 12 };

struct qs__cuda_kernel {
    qs__cuda *cuda;
    qs_case one;
    char name[64]; /* among the candidates of a case, its own */
    size_t scratch_bytes;
    CUdeviceptr operand[QS_MAX_OPERANDS]; /* where they lie, once it is prepared; 0: absent */
    CUdeviceptr scratch;
    CUfunction function[QS__CUDA_FUNCTIONS]; /* as qs__cuda_function numbers them */
    int functions;
    /* Once, when operands are known: makes what runs need. NULL: nothing. */
    qs_status (*prepare)(qs__cuda_kernel *kernel);
    /* Puts its work into the queue of kernels. */
    qs_status (*run)(qs__cuda_kernel *kernel, const qs_run *run);
    /* Gives `own` back; also of a kernel that was built only. NULL: nothing. */
    void (*release)(qs__cuda_kernel *kernel);
    void *own;       /* the family's */
    int64_t plan[8]; /* the family's figures, from build to run */
    /* QS_USAGE that says what is wrong with the data, from what a kernel complained of (qs__cuda_complain in jobs.h). */
    qs_status (*complain)(const qs__cuda_kernel *kernel, const qs__cuda_complaint *complaint);
    int number;         /* of its complaints */
    bool ready;         /* operands are bound */
    double speed;       /* of the GPU's pace */
    CUfunction rest[2]; /* around it, where that is below 1 */
};

/* Where the operand of a role lies (0 when absent). Asserts that the pass has it. */
CUdeviceptr qs__cuda_at(const qs__cuda_kernel *kernel, qs_role role);
/* The same as the job of a kernel of ours takes it: address, format, count. */
qs__cuda_values qs__cuda_values_of(const qs__cuda_kernel *kernel, qs_role role);
/* A format as kernels take it. */
qs__cuda_format qs__cuda_format_of(const qs_format *format);

/* Finds one of our own kernels by name, when a kernel is built; *index is what qs__cuda_launch takes. QS_UNSUPPORTED where the GPU's
 * architecture is not among those compiled for. */
qs_status qs__cuda_function(qs__cuda_kernel *kernel, const char *name, int *index);
/* The same of the device's own. */
qs_status qs__cuda_function_find(qs__cuda *cuda, const char *name, CUfunction *out);
/* Launches it: blocks × threads, `shared` bytes of dynamic shared memory, and its job. Nothing is launched for 0 blocks. */
qs_status qs__cuda_launch(const qs__cuda_kernel *kernel, int index, int64_t blocks, int threads, int shared, const void *job);
/* The same into any queue. */
qs_status qs__cuda_put(const qs__cuda *cuda, CUstream stream, CUfunction function, int64_t blocks, int threads, int shared,
                       const void *job);
/* Blocks for one thread per `each` of `count` elements, at most what fills the GPU several times: kernels stride over the rest. */
int64_t qs__cuda_blocks(const qs__cuda *cuda, int64_t count, int threads, int each);
/* 256-byte aligned bytes of scratch; returns their offset. */
size_t qs__cuda_scratch(qs__cuda_kernel *kernel, size_t bytes);
/* All of it, and what it takes to begin at a multiple of 256 bytes: cuBLASLt refuses a workspace that does not. */
size_t qs__cuda_scratch_whole(const qs__cuda_kernel *kernel);
/* QS_FAILED with what was tried. */
qs_status qs__cuda_check(const qs__cuda *cuda, CUresult result, const char *what);

/* ---- Kernel families (kernels.def) ------------------------------------------------------------------------------------------- */

/* Fills a zeroed kernel that holds cuda and case; QS_UNSUPPORTED with the reason when the family has no kernel. */
typedef qs_status (*qs__cuda_build)(qs__cuda_kernel *kernel);
#define QS_CUDA_KERNEL(name, op) qs_status qs__cuda_build_##name(qs__cuda_kernel *kernel);
#define QS_CUDA_SPECIAL(name, op) QS_CUDA_KERNEL(name, op)
#include "cuda/kernels.def"
#undef QS_CUDA_KERNEL
#undef QS_CUDA_SPECIAL

/* ---- Which kernel runs a case (choice.c) --------------------------------------------------------------------------------------- */

qs_status qs__cuda_family_ask(qs__cuda *cuda, const char *name);
/* Builds, into a kernel that is zeroed or was built before, the candidate of this name, or with NULL the first. */
qs_status qs__cuda_choose(qs__cuda *cuda, const qs_case *one, const char *name, qs__cuda_kernel *kernel);
qs_status qs__cuda_candidates(qs__cuda *cuda, const qs_case *one, qs_kernel_fact *out, int *count);
void qs__cuda_kernel_clear(qs__cuda_kernel *kernel);
/* Puts a run of a prepared kernel (qs__cuda_kernel) into the queue of kernels, rests included. */
qs_status qs__cuda_run(void *kernel, const qs_run *run);

/* ---- Memory, queues, events (stage.c, transfers.c) ------------------------------------------------------------------------------ */

extern const qs__stage qs__cuda_stage;
extern const qs__group qs__cuda_group; /* nccl.c */
void qs__nccl_close(qs__cuda *cuda);
CUdeviceptr qs__cuda_address(qs_location place);
/* What queued kernels complained of since the last wait. */
qs_status qs__cuda_complaints_take(qs__cuda *cuda);
qs_status qs__cuda_complaints_enter(qs__cuda *cuda, qs__cuda_kernel *kernel);
void qs__cuda_complaints_leave(qs__cuda *cuda, const qs__cuda_kernel *kernel);

qs_status qs__transfers_open(qs__cuda *cuda);
void qs__transfers_close(qs__cuda *cuda);
/* `from` is read before the call returns. */
qs_status qs__transfers_write(qs__cuda *cuda, int queue, CUdeviceptr to, const void *from, size_t bytes);
/* `to` is written by the first qs__transfers_finish behind its arrival. */
qs_status qs__transfers_read(qs__cuda *cuda, int queue, CUdeviceptr from, void *to, size_t bytes);
/* A place for the answer of a look, which holds 1.0f: `to` is whether no kernel in the queue set it to 0, by the first
 * qs__transfers_finish behind that. */
qs_status qs__transfers_look(qs__cuda *cuda, int queue, bool *to, CUdeviceptr *answer);
/* The number of the last read or look that was put into the queue; all up to a number are brought to where they go: they have arrived. */
uint64_t qs__transfers_last(const qs__cuda *cuda, int queue);
void qs__transfers_finish(qs__cuda *cuda, int queue, uint64_t last);

/* ---- Recordings (recording.c) ---------------------------------------------------------------------------------------------------- */

extern const qs__recorder qs__cuda_recorder;
/* A launch of a kernel of ours: blocks × threads, `shared` bytes of dynamic shared memory, and its job. */
typedef struct qs__start {
    CUfunction function;
    int64_t blocks;
    int threads, shared;
    const void *job;
} qs__start;
/* Before it: whether nothing is to be launched, since a recording is run again, which then has the job at hand. */
bool qs__recording_has(const qs__cuda *cuda, const qs__start *start);
/* Behind it: a recording that is being made takes note. */
void qs__recording_note(const qs__cuda *cuda, const qs__start *start);
/* The same of all else that goes into the queue of kernels, before it does: true where it is not to, since a recording is run again.
 * `what`: all values that it is called with, of which none may depend on the run. */
bool qs__recording_repeats(const qs__cuda *cuda, const void *what, size_t bytes);

/* ---- The roof (peak.c): qs_device_peak of the device ------------------------------------------------------------------------------ */

double qs__cuda_peak(void *state, const qs_format *format);

/* ---- Modules of our own kernels, as CMake puts them into the program (modules.c) --------------------------------------------------- */

typedef struct qs__cuda_module {
    const char *name; /* of its .cu file */
    const void *image;
} qs__cuda_module;
extern const qs__cuda_module qs__cuda_modules[];
extern const int qs__cuda_module_count;
extern const char qs__cuda_architectures[]; /* that they are compiled for: "80 90a" */

#endif
