// SPDX-License-Identifier: Apache-2.0
/* Column sums, see reduce.h. Threads take columns, so that no sum is split between them. */
#include "cpu/library/reduce.h"

enum { WIDTH = 16 };

typedef struct columns_job {
    const qs_format *format;
    int64_t rows, columns;
    const char *src;
    float *sum;
} columns_job;

static void sum_width(const columns_job *job, int64_t first, int64_t width) {
    double total[WIDTH] = {0};
    float values[WIDTH];
    for (int64_t r = 0; r < job->rows; r++) {
        qs_convert_to_fp32(job->format, width, job->src + qs_format_bytes(job->format, r * job->columns + first), values);
        for (int64_t c = 0; c < width; c++) {
            total[c] += values[c];
        }
    }
    for (int64_t c = 0; c < width; c++) {
        job->sum[first + c] = (float)total[c];
    }
}

static void sum_range(void *context, int64_t begin, int64_t end) {
    const columns_job *job = context;
    for (int64_t first = begin; first < end; first += WIDTH) {
        sum_width(job, first, end - first < WIDTH ? end - first : WIDTH);
    }
}

void qs__sum_columns(const qs__cpu *cpu, const qs_format *format, int64_t rows, int64_t columns, const void *src, float *sum) {
    columns_job job = {.format = format, .rows = rows, .columns = columns, .src = src, .sum = sum};
    (void)cpu;
    qs_parallel(columns, WIDTH, sum_range, &job);
}
