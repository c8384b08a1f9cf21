// SPDX-License-Identifier: Apache-2.0
/* Inside the device `cpu`: what it can do, and chains. A *chain* is the kernel of one case: steps (work of the library and calls of our
 * own) over *slots* (operands and pieces of the scratch block). A kernel family builds the chain; its fact and its prepared form come from
 * the same building, so the two cannot differ. */
#ifndef QSYNC_DEVICE_CPU_H
#define QSYNC_DEVICE_CPU_H

#include "cases.h"
#include "cpu/library/library.h"
#include "cpu/convolution/direct.h"
#include "cpu/vector/kernels.h"
#include "cpu/integer/products.h"
#include "cpu/convolution/weight_gradient.h"
#include "cpu/convolution/winograd.h"
#include "qsync/device.h"

typedef struct qs__cpu {
    qs__library *library;
    char isa[32];    /* the ceiling's name */
    char family[32]; /* of kernels, tried before all others; "" for none */
    bool bf16, vnni; /* products of bf16 pairs, of exact 8-bit quadruples */
    bool tiles;      /* both in tile registers (AMX) */
    const qs__cpu_kernels *kernels;
    const qs__products *products;
    const qs__direct *direct; /* NULL, as the next two: none for this instruction set */
    const qs__weight_gradient_kernels *weight_gradient;
    const qs__winograd *winograd;
} qs__cpu;

/* ---- Chains (chain.c) ---- */

enum { QS__SLOTS = 24, QS__STEPS = 10 };

typedef struct qs__slot {
    qs__layout layout;
    bool described; /* has a layout */
    int operand;    /* position in the case, or -1: scratch at `offset` */
    size_t offset;
} qs__slot;

struct qs__chain;
typedef qs_status (*qs__call)(const struct qs__chain *chain, const qs_run *run);

typedef struct qs__step {
    qs__work *work;               /* NULL for a call */
    int slot[QS__ARGUMENT_COUNT]; /* -1: the work lacks the argument */
    qs__call call;
} qs__step;

typedef struct qs__chain {
    const qs__cpu *cpu;
    qs_case one;
    char name[64];  /* among the candidates of a case, its own */
    bool allocates; /* while it runs */
    bool behind;    /* another family is known to be faster at it: taken by itself only where there is none */
    size_t scratch_bytes;
    int slots, steps;
    qs__slot slot[QS__SLOTS];
    qs__step step[QS__STEPS];
    qs__work *planned;
    struct {
        int from, to; /* slots */
    } result[2];
    int results;
    size_t offset[4];             /* scratch places of the family's own calls */
    size_t wide[QS_MAX_OPERANDS]; /* fp32 copies of operands, for our own kernels */
    void *data[QS_MAX_OPERANDS];
    char *scratch;
} qs__chain;

/* A slot for an operand of the case, seen by the library as `layout`. */
int qs__chain_operand(qs__chain *chain, qs_role role, const qs__layout *layout);
/* A slot in the scratch block for `layout`. */
int qs__chain_scratch(qs__chain *chain, const qs__layout *layout);
/* 64-byte aligned bytes of the scratch block; returns their offset. */
size_t qs__chain_reserve(qs__chain *chain, size_t bytes);
/* Plans the main work of the chain, to be placed by qs__chain_place: its layouts are known before the reorders that precede it are added.
 * QS_UNSUPPORTED when oneDNN has only its plain reference code; marks the chain when the implementation allocates. It names a chain without
 * a name. */
qs_status qs__chain_plan(qs__chain *chain, const qs__work_request *request);
/* The planned work's layout of an argument. */
qs__layout qs__chain_layout(const qs__chain *chain, qs__argument argument);
/* Adds the planned work as the next step, with its scratch. */
void qs__chain_place(qs__chain *chain);
/* Binds an argument of the last step. */
void qs__chain_bind(qs__chain *chain, qs__argument argument, int slot);
/* Adds a step that copies between the layouts of two slots; names nothing. */
qs_status qs__chain_reorder(qs__chain *chain, int from, int to);
/* Adds a call of our own. */
void qs__chain_call(qs__chain *chain, qs__call call);
/* A slot that holds `from` as `wanted`: from itself when the layouts agree, else scratch filled by a reorder step. */
qs_status qs__chain_as(qs__chain *chain, int from, const qs__layout *wanted, int *out);
/* A slot for a written operand in the layout `given`: the operand's own memory, or scratch from where qs__chain_finish copies. */
int qs__chain_result(qs__chain *chain, qs_role role, const qs__layout *own, const qs__layout *given);
/* Adds the steps that bring results from scratch into their operands; after the last work. */
qs_status qs__chain_finish(qs__chain *chain);

/* Pieces of a place in scratch, handed out in order, 64-byte aligned. With `at` NULL only their bytes are counted: what is laid out by one
 * function is so measured and found alike. */
typedef struct qs__pieces {
    char *at;
    size_t used;
} qs__pieces;
void *qs__piece(qs__pieces *pieces, int64_t bytes);

qs_status qs__chain_prepare(qs__chain *chain, void *const *data, void *scratch);
qs_status qs__chain_run(const qs__chain *chain, const qs_run *run);
void qs__chain_release(qs__chain *chain);

/* ---- Which kernel runs a case (choice.c) ---- */

/* QS_USAGE: there is no such family. From then on it is tried before all others. */
qs_status qs__family_ask(qs__cpu *cpu, const char *name);
/* Builds, into a zeroed or used chain, the candidate of this name (QS_MISMATCH: there is none), or, with NULL, the device's own choice
 * (QS_UNSUPPORTED: there is none). */
qs_status qs__choose(const qs__cpu *cpu, const qs_case *one, const char *name, qs__chain *chain);
/* Facts of all candidates, best first; `chain` is for building them one after the other. */
qs_status qs__candidates(const qs__cpu *cpu, const qs_case *one, qs__chain *chain, qs_kernel_fact *out, int *count);
void qs__chain_fact(const qs__chain *chain, qs_kernel_fact *out);

/* ---- Cases as kernels ask about them (cases.c) ---- */

/* Memory of a role in a prepared chain (NULL when absent). */
void *qs__cpu_data(const qs__chain *chain, qs_role role);
/* The kernels' type of a format; QS__OTHER when they have none. */
qs__type qs__cpu_type(const qs_format *format);
/* The device computes products of this format exactly and at speed; QS_UNSUPPORTED with the reason else. */
qs_status qs__cpu_multiplies(const qs__cpu *cpu, const qs_format *format);
/* Both factors of a case's product; a case without one, or with a narrow accumulator, whose kernels decode, has no such limit. */
qs_status qs__cpu_multiplies_factors(const qs__cpu *cpu, const qs_case *one);

/* Dense layout of a shape over logical axes: activations channels-last, matrices row-major. */
qs__layout qs__cpu_activation(const qs_shape *shape, qs__type type);
/* Weights [O, I/groups, kh, kw] stored O,H,W,I, as the library's (groups,) O, I, H, W; `any` leaves the layout to it. */
qs__layout qs__cpu_weights(const qs_shape *shape, int groups, qs__type type, bool any);
qs__layout qs__cpu_vector(int64_t count);
/* Matrices of all samples and heads, [samples, heads, rows, columns], as they lie. */
qs__layout qs__cpu_matrices(const int64_t extent[4], qs__type type, const int64_t stride[4]);

/* ---- The roof (peak.c): qs_device_peak of the device ---- */

double qs__peak(void *state, const qs_format *format);

/* ---- Kernel families (kernels.def): one file each. What the parallel bodies of a family receive is its `job` ---- */

/* Fills a chain that holds cpu and case; QS_UNSUPPORTED with the reason when the family has no kernel. Steps it added are released by the
 * caller. What a family could do but is slower at it does, `behind`. */
typedef qs_status (*qs__build)(qs__chain *chain);
#define QS_KERNEL(name, op) qs_status qs__build_##name(qs__chain *chain);
#include "cpu/kernels.def"
#undef QS_KERNEL

#endif
