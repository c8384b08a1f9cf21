// SPDX-License-Identifier: Apache-2.0
/* Our own attention (attention.cu): in any float formats, with scratch that grows with queries alone. */
#include "cuda/attention_jobs.h"
#include "cuda/cuda.h"
#include "qsync/attention.h"

#include <math.h>

enum { TILE = QS__ATTENTION_TILE, WARP = 32, ROW_VECTORS = 3 };

/* Functions of a kernel: forward, or queries and then keys. */
enum { FIRST, SECOND };

static bool is_backward(const qs_case *one) {
    return qs_case_position(one, QS_DIFF_DST) >= 0;
}

/* Parts of 32 channels that kernels are compiled for: 1, 2 or 4. */
static int parts_of(const qs_attention *size) {
    const int64_t width = size->width > size->value_width ? size->width : size->value_width;
    return width <= WARP ? 1 : width <= (int64_t)2 * WARP ? 2 : 4;
}

/* Shared memory of a block: three tiles and the powers of one, or four and two. */
static int shared_bytes(const qs_case *one, int parts) {
    const int tiles = is_backward(one) ? 4 : 3, scores = is_backward(one) ? 2 : 1;
    return (tiles * TILE * (parts * WARP + 4) + scores * TILE * TILE) * (int)sizeof(float);
}

static qs_status run(qs__cuda_kernel *kernel, const qs_run *step) {
    const qs_attention size = qs_case_attention(&kernel->one);
    const qs_random_stream draws = qs_attention_draws(&size, step, 0, 0, 0);
    const uint64_t scratch = kernel->scratch + (uint64_t)kernel->plan[0];
    const int64_t rows = size.samples * size.heads * size.queries, query_tiles = (size.queries + TILE - 1) / TILE;
    const int shared = (int)kernel->plan[1];
    qs__attention_job job = {.samples = size.samples,
                             .heads = size.heads,
                             .key_heads = size.key_heads,
                             .queries = size.queries,
                             .keys = size.keys,
                             .width = (int)size.width,
                             .value_width = (int)size.value_width,
                             .window = size.window,
                             .causal = size.causal,
                             .masked = size.masked,
                             .keep = qs__cuda_at(kernel, QS_KEEP),
                             .scale = (float)(1 / sqrt((double)size.width)),
                             .probability = (float)size.probability,
                             .factor = (float)(1 / (1 - size.probability)),
                             .key = draws.key,
                             .first_row = draws.first >> 32,
                             .src = qs__cuda_values_of(kernel, QS_SRC),
                             .src2 = qs__cuda_values_of(kernel, QS_SRC2),
                             .src3 = qs__cuda_values_of(kernel, QS_SRC3)};
    if (!is_backward(&kernel->one)) {
        job.dst = qs__cuda_values_of(kernel, QS_DST);
        return qs__cuda_launch(kernel, FIRST, size.samples * size.heads * query_tiles, QS__ATTENTION_BLOCK, shared, &job);
    }
    job.diff_dst = qs__cuda_values_of(kernel, QS_DIFF_DST);
    job.diff_src = qs__cuda_values_of(kernel, QS_DIFF_SRC);
    job.diff_src2 = qs__cuda_values_of(kernel, QS_DIFF_SRC2);
    job.diff_src3 = qs__cuda_values_of(kernel, QS_DIFF_SRC3);
    job.maxima = scratch;
    job.inverses = scratch + (uint64_t)rows * sizeof(float);
    job.means = job.inverses + (uint64_t)rows * sizeof(float);
    QS_TRY(qs__cuda_launch(kernel, FIRST, size.samples * size.heads * query_tiles, QS__ATTENTION_BLOCK, shared, &job));
    const int64_t key_tiles = (size.keys + TILE - 1) / TILE;
    return qs__cuda_launch(kernel, SECOND, size.samples * size.key_heads * key_tiles, QS__ATTENTION_BLOCK, shared, &job);
}

qs_status qs__cuda_build_attention(qs__cuda_kernel *kernel) {
    const qs_attention size = qs_case_attention(&kernel->one);
    const bool backward = is_backward(&kernel->one);
    const int parts = parts_of(&size), shared = shared_bytes(&kernel->one, parts);
    char name[32];
    int index;
    if (size.width > QS__ATTENTION_MOST || size.value_width > QS__ATTENTION_MOST)
        return qs_fail(QS_UNSUPPORTED, "own attention takes heads of at most %d channels, not %lld and %lld", QS__ATTENTION_MOST,
                       (long long)size.width, (long long)size.value_width);
    if (shared > kernel->cuda->shared_bytes)
        return qs_fail(QS_UNSUPPORTED, "own attention needs %d bytes of shared memory for these heads, this GPU has %d", shared,
                       kernel->cuda->shared_bytes);
    snprintf(name, sizeof name, "attention_%s_%d", backward ? "queries" : "forward", parts);
    QS_TRY(qs__cuda_function(kernel, name, &index));
    snprintf(name, sizeof name, "attention_keys_%d", parts);
    QS_TRY(qs__cuda_function(kernel, name, &index));
    if (backward)
        kernel->plan[0] =
            (int64_t)qs__cuda_scratch(kernel, ROW_VECTORS * (size_t)(size.samples * size.heads * size.queries) * sizeof(float));
    kernel->plan[1] = shared;
    kernel->run = run;
    snprintf(kernel->name, sizeof kernel->name, "own:attention");
    return QS_OK;
}
