// SPDX-License-Identifier: Apache-2.0
/* device: who runs cases. One folder per backend (devices.def): `ref` runs the reference kernels, `cpu` runs oneDNN and our own kernels,
 * `far` one of these in a process with memory of its own.
 *
 * Life of a kernel: facts (can this device run the case, with which kernel, how much scratch) -> prepare (bind to locations in the device's
 * memory, create primitives) -> run, many times, in a queue of the device. Only run is in the training step; it allocates nothing. Memory
 * and time are the device's: what lies there is reached by copies, and how long something took is asked of events. Devices are driven by
 * one thread; kernels use the pool of base, set by `threads`. One process opens one device, before any kernel exists (oneDNN's
 * instruction-set ceiling cannot change later); opening it again with the same `isa` is fine, with another it is QS_USAGE.
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

#include "qsync/speeds.h"

/* Of the backend far alone (qsync/far.h). Zeros: copies take what they take, and there is as much memory as the machine has. */
typedef struct qs_far_options {
    const char *runs;        /* the backend that computes: "cpu", "ref"; NULL: cpu where it is built, else ref */
    double bytes_per_second; /* of copies between host and device */
    double latency_us;       /* of each of them, at most 1e6 */
    int64_t memory_bytes;    /* all that can be reserved */
} qs_far_options;

/* Whether a device makes recordings (qs_recording), and whether who runs steps is to take them. */
typedef enum qs_records {
    QS_RECORDS_TRIED, /* it does: where measurement finds them faster */
    QS_RECORDS_NEVER, /* it makes none, or is not to */
    QS_RECORDS_ALWAYS /* it does: whatever is faster, for tests and comparisons */
} qs_records;

/* Of the backend cuda alone. Zeros: the first GPU, and all the memory that is free there. */
typedef struct qs_cuda_options {
    const char *device;   /* a GPU by its index ("0") or UUID ("GPU-6ab1..."); NULL: by `turn` */
    int turn;             /* of the process among those of its host that name no GPU: they take the GPUs round, one after the other */
    int64_t memory_bytes; /* all that can be reserved */
    int multiprocessors;  /* that everything runs on; QS_USAGE for a number that the GPU does not give (docs/cuda.md). 0: all */
    qs_records records;   /* QS_RECORDS_NEVER and QS_RECORDS_ALWAYS say so; else recordings are tried (qs_device_records) */
} qs_cuda_options;

typedef struct qs_device_options {
    const char *backend; /* "cpu", "ref", "far", "cuda" */
    int threads;         /* >= 1 */
    const char *isa;     /* ceiling, a name of qs_number_isa_name_at: "avx512_core_amx", "avx2_vnni", ...; NULL = "all" */
    double speed;        /* (0, 1]: after each kernel the device rests kernel time × (1/speed - 1) */
    qs_speeds products;  /* the same of products of operands, format by format (qs_case_speed) */
    const char *family;  /* NULL, or a family of kernels (cpu: device/cpu/kernels.def) that is taken wherever it has one, also where others
                            are better: to compare them. "integer" and "grouped_gemm" are the two ways to multiply shift groups */
    qs_far_options far;
    qs_cuda_options cuda;
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
    char backend[16], cpu[96], isa[64], library[64]; /* cpu: the processor, or the GPU's name; library: "onednn 2.6.3" */
    char kernels[48];                                /* of our own kernels: changes when they do; "" where nothing is chosen among them */
    int threads;
    int multiprocessors; /* of a GPU, where the device has a part of them; else 0 */
    double speed;
    qs_speeds products;
    const char *formats[8]; /* compute formats it has kernels for, NULL-terminated */
} qs_device_info;

/* One of the devices behind a backend that has several on a machine: a GPU. */
typedef struct qs_device_listing {
    int index; /* this or `uuid` names it in options */
    char name[96], uuid[64];
    char capability[16];                        /* "9.0"; with name, UUID and memory, also of one that cannot be used */
    int64_t memory_bytes, free_bytes;           /* free: 0 where it cannot be used */
    int multiprocessors, part_least, part_step; /* a device may have all, or from part_least on in steps of part_step; 0: only all */
    const char *formats[8];                     /* that it multiplies at full speed, NULL-terminated */
    char unusable[256];                         /* why it cannot be opened; "": it can */
} qs_device_listing;
/* Up to `capacity` of them; 0 for backends that are one device. QS_UNSUPPORTED says why nothing can be listed (no driver, no GPU). Before a
 * device is opened: to know what is free, each is opened for a moment. */
QS_API qs_status qs_device_list(const char *backend, int capacity, qs_device_listing *out, int *count);

QS_API qs_status qs_device_open(const qs_device_options *options, qs_device **out);
QS_API void qs_device_close(qs_device *device);
QS_API void qs_device_describe(const qs_device *device, qs_device_info *out);
/* Holds the threads that compute to these cores, as qs_threads_pin does: of this process, or of the one that the device runs in. */
QS_API qs_status qs_device_pin(qs_device *device, int threads, const int *core);
/* Whether it has kernels for an `add` that does the relu behind it, for a batch norm that does the sum behind it, and for a relu's backward
 * pass that adds up the two parts of its gradient: training is lowered to them then (qs_lowering.joins). */
QS_API bool qs_device_joins(const qs_device *device);
/* Names of backends in this build, NULL past the end. */
QS_API const char *qs_device_backend_at(size_t index);

/* ---- Memory ------------------------------------------------------------------------------------------------------------ */

/* A device owns its memory. What lies in it is named by a location, never by a pointer: this process need not see it. All of it is put
 * there, read and moved by copies that go into a queue. */
typedef struct qs_memory qs_memory;
typedef struct qs_location {
    qs_memory *memory; /* NULL: nothing */
    size_t offset;     /* bytes */
} qs_location;
static inline qs_location qs_location_of(qs_memory *memory, size_t offset) {
    return (qs_location){memory, offset};
}

/* Reserves `bytes` (0 allowed) zeroed bytes, all of them there at once: no run waits for pages. QS_OUT_OF_MEMORY says what was asked, what
 * there is, and the way out. Release before the device closes; NULL is fine. */
QS_API qs_status qs_memory_reserve(qs_device *device, size_t bytes, qs_memory **out);
/* Grows or shrinks: contents up to the smaller size stay, and kernels stay bound. Growing is refused like a reservation, the memory
 * unchanged; shrinking gives what lies behind the new end back at once and never fails. */
QS_API qs_status qs_memory_resize(qs_memory *memory, size_t bytes);
QS_API size_t qs_memory_bytes(const qs_memory *memory);
/* Work with it that is queued is done first, as it is before a memory is resized. */
QS_API void qs_memory_release(qs_memory *memory);
/* Where this process, too, reads and writes the memory directly, its first byte, for as long as the memory lasts: a communicator then takes
 * what lies in it as it is, and samples are made in place. NULL: only copies reach it. With a device that has host memory everything is
 * done when a call returns. */
QS_API void *qs_memory_host(const qs_memory *memory);

/* ---- Queues and events --------------------------------------------------------------------------------------------------- */

/* A device has two queues. Each does what is put into it in order; the two go on beside each other, and what must not overlap is ordered by
 * events. Kernels run in the first one; copies and fills may go into either. A call returns when its work is queued (cpu, ref: done). A
 * failure of queued work comes back at the next wait for its queue, or for an event recorded behind it, with the text of the case; what
 * is behind it in the queue was not done then; a queue that follows such an event fails like it. */
typedef enum qs_queue_kind { QS_QUEUE_KERNELS, QS_QUEUE_COPIES, QS_QUEUES } qs_queue_kind;
typedef struct qs_queue qs_queue;
/* The device's own: there is nothing to release. */
QS_API qs_queue *qs_device_queue(qs_device *device, qs_queue_kind kind);
/* Until everything in it is done. */
QS_API qs_status qs_queue_wait(qs_queue *queue);
/* The same for who cleans up: failures of queued work are forgotten, the message at hand stays. Behind it no copy writes to the host. */
QS_API void qs_queue_drain(qs_queue *queue);

/* Copies of `bytes` bytes; QS_USAGE when they do not lie in their memory. `from` is read before qs_memory_write returns; `to` is written
 * until the queue, or an event behind the copy, was waited for. Copies within one memory may not overlap;
 * they go through caches as kernels do. */
QS_API qs_status qs_memory_write(qs_queue *queue, qs_location to, const void *from, size_t bytes);
QS_API qs_status qs_memory_read(qs_queue *queue, qs_location from, void *to, size_t bytes);
QS_API qs_status qs_memory_copy(qs_queue *queue, qs_location from, qs_location to, size_t bytes);
/* Sets every byte to `value`. */
QS_API qs_status qs_memory_fill(qs_queue *queue, qs_location at, int value, size_t bytes);
/* Goes through the lines of a region, as a kernel that reads it (or changes it in place) does: the device's caches hold it then, as far as
 * it fits, and what they held before is out. For measurements. */
QS_API qs_status qs_memory_touch(qs_queue *queue, qs_location at, size_t bytes, bool change);
/* Looks where they lie whether `count` fp32 values are all finite. Only the answer comes to the host: it is in *finite once the queue, or
 * an event behind the look, was waited for. */
QS_API qs_status qs_memory_finite(qs_queue *queue, qs_location at, int64_t count, bool *finite);

/* A mark in a queue. It is reached when everything that was in the queue before it is done. */
typedef struct qs_event qs_event;
QS_API qs_status qs_event_create(qs_device *device, qs_event **out);
QS_API void qs_event_release(qs_event *event);
/* Puts it (again) at the queue's end. */
QS_API qs_status qs_event_record(qs_event *event, qs_queue *queue);
/* What is put into the queue from now on waits for the event, as it was recorded last. */
QS_API qs_status qs_queue_follow(qs_queue *queue, const qs_event *event);
/* Until it is reached; or whether it is. An event that was never recorded is reached. */
QS_API qs_status qs_event_wait(qs_event *event);
QS_API qs_status qs_event_done(qs_event *event, bool *done);
/* Seconds between two events that are reached, by the device's clock. */
QS_API double qs_event_elapsed(const qs_event *from, const qs_event *to);

/* ---- Sums of several devices ---------------------------------------------------------------------------------------------- */

/* Devices of some backends, one a process, add up what lies in them without their hosts: GPUs by NCCL, which is looked for when this is
 * first asked for. Ranks join together: one of them makes a key, its caller brings that to all, and each joins with it and with its place
 * among them; that returns when all have. */
enum { QS_DEVICE_KEY = 128 }; /* bytes */
/* Makes a key, or with NULL only says whether this device could: QS_UNSUPPORTED with the reason. */
QS_API qs_status qs_device_key(qs_device *device, void *key);
/* Leaves the group that it was in before. Two ranks of a group do not share a GPU. */
QS_API qs_status qs_device_join(qs_device *device, const void *key, int rank, int ranks);
/* Ranks of its group; 0: it is in none. */
QS_API int qs_device_joined(const qs_device *device);
/* Puts the sum over the group of `count` fp32 values into the queue, in their place; all ranks put theirs in the same order. All get the
 * same bits. */
QS_API qs_status qs_memory_sum(qs_queue *queue, qs_location at, int64_t count);

/* ---- Kernels ------------------------------------------------------------------------------------------------------------ */

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
/* Binds a kernel to locations: operand[i] belongs to case operand i (memory NULL where absent), scratch to fact.scratch_bytes bytes. All
 * begin at multiples of 64 bytes; the memory must outlive the kernel and may not be resized under it to less than what it uses. `kernel` is
 * a candidate's name, as for qs_device_fact_of; NULL: that of qs_device_fact. */
QS_API qs_status qs_device_prepare(qs_device *device, const qs_case *one, const char *kernel, const qs_location *operand,
                                   qs_location scratch, qs_kernel **out);
/* Puts a run into the device's queue of kernels; the device's rest is part of it. run may differ from call to call, and is copied. */
QS_API qs_status qs_kernel_run(qs_kernel *kernel, const qs_run *run);
/* The same, waited for: seconds that it took, rest included, by the device's clock. */
QS_API qs_status qs_kernel_time(qs_kernel *kernel, const qs_run *run, double *seconds);
QS_API void qs_kernel_release(qs_kernel *kernel);
/* Gives back what is kept of kernels that were released, in case the same are prepared again (oneDNN's cache of generated code). */
QS_API void qs_device_trim(qs_device *device);

/* ---- Recordings --------------------------------------------------------------------------------------------------------- */

/* Runs of kernels in a row that some devices start as one, which takes less of the host's time than starting each (cuda: CUDA graphs).
 * Whoever runs the same kernels again and again records a stretch of them once and runs the recording from then on. */
typedef struct qs_recording qs_recording;
/* Where it is QS_RECORDS_NEVER qs_recording_make is QS_UNSUPPORTED. */
QS_API qs_records qs_device_records(const qs_device *device);
/* Notes what qs_kernel_run of each of these kernels (at least 1, of one device) would put into the queue, in their order, run[i] that of
 * kernel[i]; nothing is run. Each has run before, since what a first run makes ready is not recorded. QS_UNSUPPORTED says what of it cannot
 * be recorded; the kernels are as they were. They must outlive the recording. */
QS_API qs_status qs_recording_make(int kernels, qs_kernel *const *kernel, const qs_run *run, qs_recording **out);
/* Does what qs_kernel_run of each kernel with its run does: the same bits, rests and complaints. run: one of each kernel, which may differ
 * from call to call, and is copied. What does not repeat but for values that a run brings is run kernel by kernel. */
QS_API qs_status qs_recording_run(qs_recording *recording, const qs_run *run);
/* It may be queued still. NULL is fine. */
QS_API void qs_recording_release(qs_recording *recording);

/* ---- The roof ----------------------------------------------------------------------------------------------------------- */

/* Multiply-adds a second of all threads of the device together, of operands in this format that never leave registers: what no product can
 * pass. Rests are counted, time that others are given is not. Narrower codes are multiplied as bytes. 0 where it is not known. Measured
 * at every call, in about a tenth of a second. */
QS_API double qs_device_peak(qs_device *device, const qs_format *format);

#endif
