// SPDX-License-Identifier: Apache-2.0
/* What only the devices of one backend have: the object of a class that is named after its backend, in cluster.json ("how it is to be run")
 * and in profile.json ("how it was run"). A backend is a row of backends.def and two tables here; their members are those of qs_class and
 * qs_class_profile, which stay zero for classes of other backends. */
#include "table.h"

/* ---- Kernels on threads of a processor: cpu, ref, far ---------------------------------------------------------------------------- */

static const qs__field processor_class_fields[] = {
    {"threads", QS__COUNT, QS__OPTIONAL, QS__AT(qs_class, threads), .low = 1, .high = QS__MOST_THREADS, .standard = 1,
     .text = "threads of each process"},
    {"isa", QS__NAME, QS__OPTIONAL, QS__AT(qs_class, isa), .standard_text = "all",
     .text = "the highest instruction set that kernels may use: `avx2`, `avx2_vnni`, `avx512_core`, ..."},
};
const qs__record qs__cpu_class_record = {QS__FIELDS(processor_class_fields), .layout = QS__ONE_LINE};
const qs__record qs__ref_class_record = {QS__FIELDS(processor_class_fields), .layout = QS__ONE_LINE};

static const qs__field far_class_fields[] = {
    {"runs", QS__NAME, QS__LEFT_OUT, QS__AT(qs_class, far_runs), .absent = "`cpu`, or `ref` in builds without it",
     .text = "the backend that the device's own process runs"},
    {"threads", QS__COUNT, QS__OPTIONAL, QS__AT(qs_class, threads), .low = 1, .high = QS__MOST_THREADS, .standard = 1,
     .text = "threads of that process"},
    {"isa", QS__NAME, QS__OPTIONAL, QS__AT(qs_class, isa), .standard_text = "all",
     .text = "the highest instruction set that kernels may use, as for `cpu`"},
    {"bytes_per_second", QS__NUMBER, QS__LEFT_OUT, QS__AT(qs_class, far_bytes_per_second), .low = 1, .high = 1e15, .unit = "bytes/s",
     .absent = "as fast as they go", .text = "of copies between host and device"},
    {"latency_us", QS__NUMBER, QS__LEFT_OUT, QS__AT(qs_class, far_latency_us), .high = 1e6, .unit = "µs", .absent = "0",
     .text = "of each of them"},
};
const qs__record qs__far_class_record = {QS__FIELDS(far_class_fields), .layout = QS__ONE_LINE};

static const qs__field processor_profile_fields[] = {
    {"threads", QS__COUNT, QS__REQUIRED, QS__AT(qs_class_profile, threads), .low = 1, .text = "as in the cluster file"},
    {"isa", QS__TEXT, QS__REQUIRED, QS__AT(qs_class_profile, isa), .text = "instruction set, as in the cluster file"},
    {"cache_bytes", QS__INTEGER, QS__LEFT_OUT, QS__AT(qs_class_profile, cache_bytes), .unit = "bytes", .absent = "no such model",
     .text = "of the least-recently-used cache that explains best how kernel times differ from place to place"},
};
const qs__record qs__cpu_profile_record = {QS__FIELDS(processor_profile_fields), .layout = QS__ONE_LINE};
const qs__record qs__ref_profile_record = {QS__FIELDS(processor_profile_fields), .layout = QS__ONE_LINE};
const qs__record qs__far_profile_record = {QS__FIELDS(processor_profile_fields), .layout = QS__ONE_LINE};

/* ---- Kernels on a GPU: cuda ---------------------------------------------------------------------------------------------------------- */

enum { MOST_MULTIPROCESSORS = 4096 };

enum { RECORD_FASTER };
static const char *const records[] = {"faster", "no", "always", NULL};

static bool records_where_faster(const void *object) {
    return ((const qs_class *)object)->cuda_record == RECORD_FASTER;
}

static const qs__field cuda_class_fields[] = {
    {"device", QS__NAME, QS__LEFT_OUT, QS__AT(qs_class, cuda_device), .values = "index or UUID", .absent = "by turns",
     .text = "the GPU, by its index (`0`) or UUID (`GPU-...`) as `qsync devices` lists them; all ranks of the class on a host share it. By "
             "turns: ranks of a host whose classes name none take its GPUs one after the other"},
    {"threads", QS__COUNT, QS__OPTIONAL, QS__AT(qs_class, threads), .low = 1, .high = QS__MOST_THREADS, .standard = 1,
     .text = "threads of the process beside the GPU, which load samples and add up gradients"},
    {"multiprocessors", QS__COUNT, QS__LEFT_OUT, QS__AT(qs_class, cuda_multiprocessors), .low = 1, .high = MOST_MULTIPROCESSORS,
     .absent = "all", .text = "of the GPU that everything runs on, so that it plays a smaller one; only numbers that the chip gives"},
    {"record", QS__CHOICE, QS__LEFT_OUT, QS__AT(qs_class, cuda_record), .standard = RECORD_FASTER, .names = records, .noun = "record",
     .left_out = records_where_faster,
     .text = "whether kernels of a step are started as CUDA graphs: where a step of its own takes less time so, never, or always. Bits are "
             "the same"},
};
const qs__record qs__cuda_class_record = {QS__FIELDS(cuda_class_fields), .layout = QS__ONE_LINE};

static const qs__field cuda_profile_fields[] = {
    {"threads", QS__COUNT, QS__REQUIRED, QS__AT(qs_class_profile, threads), .low = 1, .text = "as in the cluster file"},
    {"architecture", QS__NAME, QS__REQUIRED, QS__AT(qs_class_profile, isa),
     .text = "of the GPU (`sm_90`), or `published` where it was estimated"},
    {"multiprocessors", QS__COUNT, QS__LEFT_OUT, QS__AT(qs_class_profile, multiprocessors), .low = 1, .high = MOST_MULTIPROCESSORS,
     .absent = "all", .text = "as in the cluster file"},
    {"cache_bytes", QS__INTEGER, QS__LEFT_OUT, QS__AT(qs_class_profile, cache_bytes), .unit = "bytes", .absent = "no such model",
     .text = "of the least-recently-used cache that explains best how kernel times differ from place to place"},
};
const qs__record qs__cuda_profile_record = {QS__FIELDS(cuda_profile_fields), .layout = QS__ONE_LINE};
