// SPDX-License-Identifier: Apache-2.0
/* qsync-bench attention: how near the roof attention in blocks is, and what it takes beside attention in three steps: by turns, so that a
 * machine that drifts drifts under both alike. */
#include "bench.h"
#include "timed.h"

#include <math.h>
#include <string.h>

enum { WAYS = 2, PASSES = 2 };
static const char *const ways[WAYS] = {"fused", "unfused"};
static const char *const passes[PASSES] = {"forward", "backward"};

typedef struct shape {
    const char *name;
    int64_t batch, heads, width, length;
    bool causal;
} shape;
static const shape shapes[] = {{"minilm.128", 16, 12, 32, 128, false},
                               {"base.256", 4, 12, 64, 256, false},
                               {"base.512", 2, 12, 64, 512, false},
                               {"base.1024", 1, 12, 64, 1024, false},
                               {"gpt2.1024", 1, 12, 64, 1024, true}};
enum { SHAPES = sizeof shapes / sizeof *shapes };
static const char *const formats[] = {"fp32", "bf16"};
enum { FORMATS = sizeof formats / sizeof *formats };

typedef struct figures {
    const shape *shape;
    const char *format;
    timed at[PASSES][WAYS];     /* us 0: the device has no such kernel */
    double flops[PASSES], peak; /* peak: multiply-adds a second of all threads */
} figures;

static qs_case case_of(const shape *of, const char *pass, const char *format) {
    const qs_attributes with = {.heads = (double)of->heads, .causal = of->causal};
    const qs_shape values = qs_shape_of(3, of->batch, of->heads * of->width, of->length);
    qs_case one = qs_case_make("attention", pass, &with);
    for (int i = 0; i < one.operands; i++)
        if (!one.pass->operand[i].optional) qs_case_bind(&one, one.operand[i].role, values, qs_format_of(format));
    return one;
}

/* The candidate of each way, where the device has it. */
static qs_status ways_make(qs_device *device, const qs_case *one, timed *at) {
    qs_kernel_fact all[QS_MOST_CANDIDATES];
    int count = 0;
    QS_TRY(qs_device_candidates(device, one, all, &count));
    for (int i = 0; i < count; i++) {
        const int way = strstr(all[i].kernel, "unfused") != NULL;
        if (!at[way].kernel) QS_TRY(timed_make(device, one, all[i].kernel, &at[way]));
    }
    return QS_OK;
}

static qs_status shape_time(qs_device *device, int rounds, figures *out) {
    out->peak = qs_device_peak(device, qs_format_of(out->format));
    for (int p = 0; p < PASSES; p++) {
        const qs_case one = case_of(out->shape, passes[p], out->format);
        out->flops[p] = qs_case_flops(&one);
        QS_TRY(ways_make(device, &one, out->at[p]));
    }
    for (int r = 0; r <= rounds; r++)
        for (int i = 0; i < PASSES * WAYS; i++) {
            timed *one = &out->at[i / WAYS][i % WAYS];
            if (one->kernel) QS_TRY(timed_run(one));
        }
    return QS_OK;
}

static void figures_release(figures *all) {
    for (int i = 0; i < PASSES * WAYS; i++)
        timed_release(&all->at[i / WAYS][i % WAYS]);
}

/* ---- Figures ---- */

/* Of a pass, or of both; 0: the device has no such way. */
static double time_of(const figures *one, int pass, int way) {
    if (pass < PASSES) return one->at[pass][way].us;
    return one->at[0][way].us > 0 && one->at[1][way].us > 0 ? one->at[0][way].us + one->at[1][way].us : 0;
}

static double fraction(const figures *one, int pass, int way) {
    const double flops = pass < PASSES ? one->flops[pass] : one->flops[0] + one->flops[1], us = time_of(one, pass, way);
    return us > 0 && one->peak > 0 ? flops / 2 / (us * 1e-6) / one->peak : 0;
}

static qs_status json_write(const figures *all, int count) {
    json_t *rows = json_object();
    for (int i = 0; i < count; i++) {
        char name[64];
        json_t *row = json_object();
        snprintf(name, sizeof name, "%s.%s", all[i].shape->name, all[i].format);
        for (int w = 0; w < WAYS; w++) {
            json_t *way = json_object();
            for (int p = 0; p < PASSES && all[i].at[p][w].us > 0; p++) {
                const timed *one = &all[i].at[p][w];
                json_object_set_new(way, passes[p],
                                    json_pack("{s:f,s:f,s:I,s:s}", "us", one->us, "fraction_of_peak", fraction(&all[i], p, w),
                                              "scratch_bytes", (json_int_t)one->fact.scratch_bytes, "kernel", one->fact.kernel));
            }
            json_object_set_new(row, ways[w], way);
        }
        json_object_set_new(row, "fraction_of_peak", json_real(fraction(&all[i], PASSES, 0)));
        const double unfused = time_of(&all[i], PASSES, 1);
        if (unfused > 0) json_object_set_new(row, "fused_over_unfused", json_real(unfused / time_of(&all[i], PASSES, 0)));
        json_object_set_new(rows, name, row);
    }
    return json_print(
        json_pack("{s:f,s:f,s:o}", "peak_gflops_fp32", 2 * all[0].peak * 1e-9, "peak_gflops_bf16", 2 * all[1].peak * 1e-9, "shapes", rows));
}

static void table_write(const figures *all, int count) {
    printf("%-18s %-10s %10s %8s %12s %10s %8s %12s %8s\n", "", "pass", "fused", "of peak", "scratch KiB", "unfused", "of peak",
           "scratch KiB", "speed");
    for (int i = 0; i < count; i++)
        for (int p = 0; p < PASSES; p++) {
            const timed *fused = &all[i].at[p][0], *unfused = &all[i].at[p][1];
            char name[64];
            snprintf(name, sizeof name, "%s %s", all[i].shape->name, all[i].format);
            printf("%-18s %-10s %10s %7.0f%% %12.0f", name, passes[p], time_text(fused->us), 100 * fraction(&all[i], p, 0),
                   (double)fused->fact.scratch_bytes / 1024);
            if (unfused->us > 0)
                printf(" %10s %7.0f%% %12.0f %8.2f", time_text(unfused->us), 100 * fraction(&all[i], p, 1),
                       (double)unfused->fact.scratch_bytes / 1024, unfused->us / fused->us);
            printf("\n");
        }
}

static const option_row option_rows[] = {
    {OPTION_ROUNDS(bench_request, 12, "runs of each kernel, in turn")},
    {OPTION_THREADS(bench_request)},
    {OPTION_ISA(bench_request)},
    {OPTION_BACKEND(bench_request)},
    {OPTION_JSON(bench_request)},
};

qs_status bench_attention(int argc, char **argv) {
    const verb_usage usage = {
        .verb = "attention",
        .arguments = "",
        .purpose =
            "Forward and backward passes of attention in blocks, which keeps no matrix of all queries and keys (fused), and in three\n"
            "steps by the kernel library's products, which does (unfused), in turn; of each the least time counts. The peak is what the\n"
            "device's threads can multiply in the format; a causal case counts the half of the products that it needs.\n"
            "fused_over_unfused is the ratio of speeds of both passes together.",
        .examples = "  qsync-bench attention --rounds 40\n"};
    bench_request asked = {0};
    bool done = false;
    option_table table = {0};
    OPTIONS_ADD(&table, option_rows, &asked);
    QS_TRY(bench_options(&table, &usage, argc, argv, &done));
    if (done) return QS_OK;
    figures all[SHAPES * FORMATS] = {{0}};
    qs_device *device = NULL;
    qs_status status = device_start(asked.backend, asked.threads, asked.isa, &device);
    for (int i = 0; i < SHAPES * FORMATS && status == QS_OK; i++) {
        all[i].shape = &shapes[i / FORMATS];
        all[i].format = formats[i % FORMATS];
        status = shape_time(device, asked.rounds, &all[i]);
        figures_release(&all[i]);
    }
    qs_device_close(device);
    QS_TRY(status);
    if (asked.json) return json_write(all, SHAPES * FORMATS);
    table_write(all, SHAPES * FORMATS);
    return QS_OK;
}
