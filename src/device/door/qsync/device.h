// SPDX-License-Identifier: Apache-2.0
/* device: who runs cases. One folder per backend (devices.def): `ref` runs the reference kernels, `cpu` runs oneDNN and our own kernels.
 *
 * Life of a kernel: facts (can this device run the case, with which kernel, how much scratch) -> prepare (bind memory, create primitives)
 * -> run, many times. Only run is in the training step; it allocates nothing. Devices are driven by one thread; kernels use the pool of
 * base, set by `threads`. One process opens one device, before any kernel exists (oneDNN's instruction-set ceiling cannot change later);
 * opening it again with the same `isa` is fine, with another it is QS_USAGE.
 *
 * Which kernel runs a case? Those that can are its candidates, and their names tell them apart. By itself a device takes the first; one
 * that measurement found faster where it was told of it (qs_device_prefer); and the one that is named where one is: a lowered schedule
 * names its kernels, so what was priced is what is prepared.
 *
 * What `cpu` promises beyond the cases' own definitions: products (conv2d, linear) only in the formats it lists, both operands in one
 * format, results in any float format (those that oneDNN does not write pass through fp32 scratch); integer products exact, with
 * dequantization and bias fused; all other operators by our own kernels, in every float format, with bits that depend neither on threads
 * nor on the ceiling. Elementwise ones (relu, add, dropout, cast, quantize, dequantize, optimisers), absmax, finite_check and max_pool
 * forward equal the reference bit for bit. A kernel named "reference" is the costed last resort. */
#ifndef QSYNC_DEVICE_H
#define QSYNC_DEVICE_H

#include "qsync/op.h"

typedef struct qs_device_options {
    const char *backend; /* "cpu", "ref" */
    int threads;         /* >= 1 */
    const char *isa;     /* ceiling: "all", "avx512_core_bf16", "avx512_core_vnni", "avx512_core", "avx2_vnni", "avx2", ...; NULL = "all" */
    double speed;        /* (0, 1]: after each kernel the device rests kernel time × (1/speed - 1) */
    const char *family;  /* NULL, or a family of kernels (cpu: device/cpu/kernels.def) that is taken wherever it has one, also where others
                            are better: to compare them. "integer" and "gathered" are the two ways to multiply shift groups */
} qs_device_options;

typedef struct qs_device qs_device;
typedef struct qs_kernel qs_kernel;

/* What lowering needs to know about the kernel a device runs for a case: plain data, kept in profiles and plans. */
typedef struct qs_kernel_fact {
    char kernel[64];      /* "brgconv:avx512_core_vnni", "own:relu:avx512", "reference" */
    size_t scratch_bytes; /* includes packed weights and reorders; may depend on the number of threads */
    bool allocates;       /* allocates memory of its own while running (never chosen while another exists) */
    bool tuned;           /* qs_device_prefer names it for this case */
} qs_kernel_fact;

/* What measurement found the fastest for a case. */
typedef struct qs_kernel_choice {
    char *case_text; /* qs_case_text */
    char kernel[64];
} qs_kernel_choice;
enum { QS_MOST_CANDIDATES = 8 };

typedef struct qs_device_info {
    char backend[16], cpu[96], isa[64], library[64]; /* "onednn 2.6.3" */
    char kernels[48];                                /* of our own kernels: changes when they do; "" where nothing is chosen among them */
    int threads;
    double speed;
    const char *formats[8]; /* compute formats it has kernels for, NULL-terminated */
} qs_device_info;

QS_API qs_status qs_device_open(const qs_device_options *options, qs_device **out);
QS_API void qs_device_close(qs_device *device);
QS_API void qs_device_describe(const qs_device *device, qs_device_info *out);
/* Names of backends in this build, NULL past the end. */
QS_API const char *qs_device_backend_at(size_t index);

/* The kernel for a case: QS_UNSUPPORTED with the reason when there is none. Facts are deterministic for a device and what it prefers. */
QS_API qs_status qs_device_fact(qs_device *device, const qs_case *one, qs_kernel_fact *out);
/* The same of the candidate with this name; QS_MISMATCH, naming those that there are, when it is none of them. */
QS_API qs_status qs_device_fact_of(qs_device *device, const qs_case *one, const char *kernel, qs_kernel_fact *out);
/* All candidates, at most QS_MOST_CANDIDATES; the first is what the device takes by itself. Kernels that allocate are candidates where
 * there is nothing else; the reference where it is alone. */
QS_API qs_status qs_device_candidates(qs_device *device, const qs_case *one, qs_kernel_fact *out, int *count);
/* From now on these kernels are taken for their cases, in the place of all earlier ones; copied. What is no candidate of its case (any
 * more) is passed over. */
QS_API qs_status qs_device_prefer(qs_device *device, int choices, const qs_kernel_choice *choice);
/* Binds a kernel to memory: data[i] belongs to case operand i (NULL where absent), scratch has fact.scratch_bytes, 64-byte aligned (as all
 * data are). The memory must outlive the kernel. `kernel` is a candidate's name, as for qs_device_fact_of; NULL: that of qs_device_fact. */
QS_API qs_status qs_device_prepare(qs_device *device, const qs_case *one, const char *kernel, void *const *data, void *scratch,
                                   qs_kernel **out);
/* Runs; includes the device's rest. run may differ from call to call. */
QS_API qs_status qs_kernel_run(qs_kernel *kernel, const qs_run *run);
QS_API void qs_kernel_release(qs_kernel *kernel);
/* Gives back what is kept of kernels that were released, in case the same are prepared again (oneDNN's cache of generated code). */
QS_API void qs_device_trim(qs_device *device);

/* ---- The roof ----------------------------------------------------------------------------------------------------------- */

/* Multiply-adds a second of all threads of the device together, of operands in this format that never leave registers: what no product can
 * pass. Rests are counted, time that others are given is not. Narrower codes are multiplied as bytes. 0 where it is not known. Measured
 * at every call, in about a tenth of a second. */
QS_API double qs_device_peak(qs_device *device, const qs_format *format);

#endif
