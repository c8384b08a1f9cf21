// SPDX-License-Identifier: Apache-2.0
/* The family of permute (permute.cu): which kernel, and how tiles are cut. */
#include "cuda/permute_jobs.h"

#include "cuda/operands.h"

enum { THREADS = QS__PERMUTE_THREADS, WIDEST = 16, EIGHT = 8 };

typedef enum how { ROWS, TILES, CODES } how;

/* Bytes of a code; 0: of no whole ones. */
static int bytes_of(const qs__cuda_format *format) {
    if (format->kind == QS__CUDA_INTEGER) return 1;
    return format->bits % 8 == 0 ? format->bits / 8 : 0;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* The widest unit, in bytes, that the last axis is made of; the axes in such units. */
static int units_of(qs__permute_job *job) {
    const int last = job->axes.axes - 1, bits = 8 * bytes_of(&job->to.format);
    const int64_t run = job->axes.extent[last] * (bits > 0 ? bits : job->to.format.bits);
    int unit = WIDEST;
    while (unit > 0 && run % (8 * unit) != 0)
        unit /= 2;
    if (unit == 0) return 0;
    const int64_t units = run / (8 * unit), codes = job->axes.extent[last];
    for (int a = 0; a < last; a++) /* all are made of rows */
        job->axes.from_step[a] = job->axes.from_step[a] / codes * units;
    job->axes.extent[last] = units;
    job->count = job->count / codes * units;
    return unit;
}

/* A column of `rows` codes, and a word more where that is an even number of them. */
static int pitch_of(int rows, int bytes) {
    return (rows * bytes + 3) / 4 | 1;
}

/* Lines of 128 bytes and more on both sides; where an axis is short, more of the other one. */
static void tiles_cut(qs__permute_job *job, int bytes) {
    const int64_t rows = job->axes.extent[job->axes.fast], columns = job->axes.extent[job->axes.axes - 1];
    const int most_rows = bytes == 1 ? 128 : 64, most_columns = bytes == 4 ? 64 : 128;
    job->rows = (int)least(rows, most_rows);
    job->columns = (int)least(columns, most_columns);
    if (job->rows < most_rows)
        job->columns = (int)least(columns, QS__PERMUTE_WORDS / pitch_of(job->rows, bytes) / WIDEST * WIDEST);
    else if (job->columns < most_columns)
        job->rows = (int)least(rows, (QS__PERMUTE_WORDS / job->columns - 1) * 4 / bytes / WIDEST * WIDEST);
    job->pitch = pitch_of(job->rows, bytes);
    job->row_tiles = (rows + job->rows - 1) / job->rows;
    job->column_tiles = (columns + job->columns - 1) / job->columns;
    job->packed_from = rows * bytes % WIDEST == 0;
    job->packed_to = columns * bytes % WIDEST == 0;
    job->count = job->count / (rows * columns) * job->row_tiles * job->column_tiles;
}

/* *size: of a unit, or of a code, in bytes. */
static qs__permute_job job_of(const qs__cuda_kernel *kernel, how *kind, int *size) {
    const bool forward = qs__cuda_is_forward(kernel);
    qs__permute_job job = {.from = qs__cuda_values_of(kernel, forward ? QS_SRC : QS_DIFF_DST),
                           .to = qs__cuda_values_of(kernel, forward ? QS_DST : QS_DIFF_SRC),
                           .axes = qs__case_permuted(&kernel->one)};
    const int bytes = bytes_of(&job.to.format);
    job.count = job.to.count;
    *kind = CODES;
    *size = 0;
    if (job.axes.fast < 0) {
        *size = units_of(&job);
        if (*size > 0) *kind = ROWS;
    } else if (bytes == 1 || bytes == 2 || bytes == 4) {
        *size = bytes;
        *kind = TILES;
        tiles_cut(&job, bytes);
    }
    return job;
}

static qs_status run_permute(qs__cuda_kernel *kernel, const qs_run *run) {
    (void)run;
    how kind;
    int size;
    const qs__permute_job job = job_of(kernel, &kind, &size);
    const int64_t threads = kind == TILES ? job.count * THREADS : job.count;
    return qs__cuda_launch(kernel, 0, qs__cuda_blocks(kernel->cuda, threads, THREADS, kind == CODES ? EIGHT : 1), THREADS, 0, &job);
}

qs_status qs__cuda_build_permute(qs__cuda_kernel *kernel) {
    static const char *const functions[] = {"qs__permute_rows_%d", "qs__permute_tiles_%d"};
    char name[32] = "qs__permute_codes";
    how kind;
    int size;
    (void)job_of(kernel, &kind, &size);
    if (kind != CODES) snprintf(name, sizeof name, functions[kind], size);
    kernel->run = run_permute;
    return qs__cuda_own(kernel, name);
}
