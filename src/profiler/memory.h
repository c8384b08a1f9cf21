// SPDX-License-Identifier: Apache-2.0
/* What kernels hold of a process: what memory.c measured, by case. */
#ifndef QSYNC_PROFILER_MEMORY_H
#define QSYNC_PROFILER_MEMORY_H

#include "qsync/profiler.h"

typedef struct qs__held {
    char *text; /* of the case */
    double held_bytes, shared_bytes;
} qs__held;

typedef struct qs__code {
    char kernel[64];
    double bytes;
} qs__code;

typedef struct qs__memory {
    double data_bytes; /* that the process grew by when it read its sample sets; what the heap rounds up included */
    double base_bytes; /* of a process that evaluates in fp32, without arena and data */
    qs__held *held;    /* cases of the uniform plans */
    int count;
    size_t capacity;
    qs__code *code; /* kernels by name */
    int codes;
    size_t code_capacity;
    double files;  /* resident pages of files when they were last looked at */
    qs__held mean; /* of all of them: what other cases are taken for */
} qs__memory;

/* Never NULL. */
const qs__held *qs__held_of(const qs__memory *memory, const char *text);
/* Resident pages of code that a kernel brings, whatever its case; 0 for a kernel that no uniform plan has. */
double qs__code_of(const qs__memory *memory, const char *kernel);
void qs__memory_release(qs__memory *memory);

#endif
