// SPDX-License-Identifier: Apache-2.0
/* The kernel library under the device: oneDNN. Its C interface describes operations and memory by value in 2.x and by handles in 3.x; what
 * differs is in v2.c and v3.c, of which the build takes the one that fits the library found, every other call is in library.c; none.c
 * stands in where there is no library. The rest of the device sees this header only.
 *
 * Work is planned first (which implementation, which layouts it asks for, how much scratch), then prepared once its memory is known, then
 * run any number of times. Planning and preparing allocate, running does not; scratch is the caller's. */
#ifndef QSYNC_DEVICE_CPU_LIBRARY_H
#define QSYNC_DEVICE_CPU_LIBRARY_H

#include "cpu/vector/kernels.h"
#include "qsync/base.h"

/* ---- The library ---- */

typedef struct qs__library qs__library;

/* Caps the instruction sets of the whole process; only before the first work is planned. `name` as in qs_device_options. QS_UNSUPPORTED
 * when it is too late. */
qs_status qs__library_isa_set(const char *name);
/* Whether the library (in builds without one: our own products of codes), under its cap and on this machine, uses the instruction sets of a
 * cap of that name. */
bool qs__library_has(const char *name);
/* "onednn 2.6.3" into a caller buffer; returns it. */
const char *qs__library_version(char *buffer, size_t size);
/* Gives back what the library remembers of kernels that nobody holds. */
void qs__library_forget(void);

/* `threads`: for its kernels, of the whole process. */
qs_status qs__library_open(int threads, qs__library **out);
void qs__library_close(qs__library *library); /* NULL is fine */

/* ---- Layouts ---- */

enum { QS__LAYOUT_AXES = 12 }; /* the library's functions take arrays of so many */

/* How elements lie in memory. Three kinds: by strides; free (the library is asked to choose); chosen by the library, which is valid as long
 * as the work that it came from. A plain value: copy it as you like. */
typedef struct qs__layout {
    int axes;
    int64_t extent[QS__LAYOUT_AXES], stride[QS__LAYOUT_AXES]; /* in elements */
    qs__type type;
    bool free;
    const void *chosen; /* the library's own description; the other fields are not set then */
} qs__layout;

/* Logical axes; stride NULL: free. */
qs__layout qs__layout_of(int axes, const int64_t *extent, qs__type type, const int64_t *stride);
bool qs__layout_equal(const qs__layout *a, const qs__layout *b);
size_t qs__layout_bytes(const qs__layout *layout);

/* ---- Work ---- */

typedef enum qs__work_kind { QS__CONVOLUTION, QS__CONVOLUTION_INPUT_GRADIENT, QS__CONVOLUTION_WEIGHT_GRADIENT, QS__MATMUL } qs__work_kind;

/* Convolutions: src [N, C, H, W], weights [(groups,) O, I, kh, kw], dst [N, O, OH, OW]; gradients stand in the place of what they are
 * gradients of. Matmul: src [M, K], weights [K, N], dst [M, N]. */
typedef struct qs__work_request {
    qs__work_kind kind;
    const qs__layout *src, *weights, *dst;
    const qs__layout *bias;            /* or its gradient: fp32 [O], matmul [1, N]; NULL: none */
    const qs__layout *factors, *terms; /* dst × factors + terms, fp32, axes of extent 1 repeated; NULL: none. Terms need factors */
    /* Of convolutions: height, width. Gap: places left out between two taps; padding: before and behind. */
    int64_t step[QS__LAYOUT_AXES], gap[QS__LAYOUT_AXES], padding[QS__LAYOUT_AXES], padding_behind[QS__LAYOUT_AXES];
} qs__work_request;

/* Operands of work; gradients go by the name of what they are gradients of. A reorder reads SRC and writes DST. */
typedef enum qs__argument {
    QS__ARGUMENT_SRC,
    QS__ARGUMENT_WEIGHTS,
    QS__ARGUMENT_BIAS,
    QS__ARGUMENT_DST,
    QS__ARGUMENT_FACTORS,
    QS__ARGUMENT_TERMS,
    QS__ARGUMENT_SCRATCH,
    QS__ARGUMENT_COUNT
} qs__argument;

typedef struct qs__work qs__work;

/* QS_UNSUPPORTED with the reason when the library has no kernel. */
qs_status qs__work_plan(const qs__library *library, const qs__work_request *request, qs__work **out);
/* Copies between two layouts of the same extents, converting types. */
qs_status qs__work_plan_reorder(const qs__library *library, const qs__layout *from, const qs__layout *to, qs__work **out);
/* Name of the implementation: "brgconv:avx512_core". Lives as long as the work. */
const char *qs__work_name(const qs__work *work);
/* What the work asks for; of scratch, extent 0 when it needs none. */
qs__layout qs__work_layout(const qs__work *work, qs__argument argument);
/* Memory of each argument bound, NULL for those that the work lacks. */
typedef struct qs__work_memory {
    const qs__layout *layout;
    void *at;
} qs__work_memory;
qs_status qs__work_prepare(qs__work *work, const qs__work_memory memory[QS__ARGUMENT_COUNT]);
qs_status qs__work_run(const qs__library *library, const qs__work *work);
void qs__work_release(qs__work *work); /* NULL is fine */

#endif
