// SPDX-License-Identifier: Apache-2.0
/* qsync bench: whole training steps, and what of them goes into changing formats. */
#ifndef QSYNC_CLI_BENCH_STEP_H
#define QSYNC_CLI_BENCH_STEP_H

#include "cli.h"

typedef struct step_bench {
    const char *models, *recipes, *batches; /* comma-separated */
    const char *input;                      /* "3x64x64"; NULL: the model's own, as its classes where 0 */
    const char *optimizer;                  /* NULL: sgd */
    int classes;
    int64_t batch;
    int steps, threads;
    bool breakdown, kernels, json;
} step_bench;

/* Images per second and fraction of the roof, per model and recipe; with `breakdown` what each operator's passes take of the
 * step, with `kernels` its kernels by name. */
qs_status bench_step(const step_bench *options, qs_device *device);

/* Per model and batch, of a step in int8/bf16 and one in bf16: the share of kernels that change formats, and what int8's are more than
 * bf16's (extra_over_half, of the int8 step). Beside them the same in three passes: absolute maximum and codes, as here, and dequantizing
 * by itself (qs_bench_figure.dequantize_us), which our products do as they write: what int8 would cost more then (extra_in_three_passes, of
 * the longer step), and how much less changing formats takes than that (saved). */
qs_status bench_quantization(const step_bench *options, qs_device *device);

#endif
