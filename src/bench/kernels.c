// SPDX-License-Identifier: Apache-2.0
/* qsync-bench kernels: the kernels of a device one by one, on tensors that no cache holds: those that move bytes beside a copy, products by
 * their operations. */
#include "bench.h"
#include "timed.h"

#include <math.h>
#include <stdio.h>

/* In a text, # stands for the number of values that was asked for, $ for an eighth of it, & for a 1024th, @ for a 65536th and % for a
 * quarter of that. */
static const struct {
    char sign;
    int64_t part;
} signs[] = {{'#', 1}, {'$', 8}, {'&', 1 << 10}, {'@', 1 << 16}, {'%', 1 << 18}};
enum { SIGNS = sizeof signs / sizeof *signs };

#define VALUES "[@,64,32,32]"
#define CHANNELS "=fp32[64] "
#define ROUND(F, MODE) "round/forward src=fp32" VALUES " dst=fp32" VALUES " " MODE "to=" F
#define ROUNDS(F) ROUND(F, ""), ROUND(F, "rounding=stochastic ")
#define CAST(FROM, TO) "cast/forward src=" FROM VALUES " dst=" TO VALUES
#define NORM(F)                                                                                                                       \
    "batch_norm/forward src=" F VALUES " scale" CHANNELS "shift" CHANNELS "mean" CHANNELS "variance" CHANNELS "running_mean" CHANNELS \
    "running_variance" CHANNELS "mask=int8[$] dst=" F VALUES " epsilon=1e-05 momentum=0.1 relu",                                      \
        "batch_norm/backward src=" F VALUES " scale" CHANNELS "mean" CHANNELS "variance" CHANNELS "mask=int8[$] diff_dst=" F VALUES   \
        " diff_src=" F VALUES " diff_scale" CHANNELS "diff_shift=fp32[64] epsilon=1e-05 momentum=0.1 relu"

/* And the sum behind it. */
#define NORM_SUM(F)                                                                                                                   \
    "batch_norm/forward src=" F VALUES " scale" CHANNELS "shift" CHANNELS "mean" CHANNELS "variance" CHANNELS "running_mean" CHANNELS \
    "running_variance" CHANNELS "src2=" F VALUES " mask=int8[$] dst=" F VALUES " epsilon=1e-05 momentum=0.1 relu"

/* What moves bytes: rounding of every mode and of formats of every kind, what makes and reads codes, updates, and what stands between
 * products in training. */
static const char *const moving[] = {
    ROUNDS("bf16"),
    ROUND("bf16", "rounding=nearest-away "),
    ROUND("bf16", "rounding=toward-zero "),
    ROUND("bf16", "rounding=floor "),
    ROUNDS("fp16"),
    ROUNDS("e4m3fn"),
    ROUNDS("e5m2"),
    ROUNDS("fp(6,9,0)"),
    ROUNDS("fp(4,3,4)"),
    "round/pack src=fp32" VALUES " dst=fp32" VALUES " packed=fp(4,3,4)" VALUES " to=fp(4,3,4)",
    "round/pack src=fp32" VALUES " dst=fp32" VALUES " packed=fp(6,9,0)" VALUES " to=fp(6,9,0)",
    CAST("fp32", "bf16"),
    CAST("bf16", "fp32"),
    CAST("fp32", "fp16"),
    CAST("fp32", "bf16") " rounding=stochastic batched",
    CAST("fp32", "fp(4,3,4)"),
    CAST("fp(4,3,4)", "fp32"),
    "absmax/forward src=fp32" VALUES " absmax=fp32[1]",
    "absmax/forward src=bf16" VALUES " absmax=fp32[1]",
    "quantize/forward src=fp32" VALUES " absmax=fp32[1] dst=int8" VALUES " dst_step=fp32[1] rounding=stochastic batched",
    "quantize/forward src=bf16" VALUES " absmax=fp32[1] dst=int8" VALUES " dst_step=fp32[1] rounding=stochastic batched",
    "dequantize/forward src=int8" VALUES " src_step=fp32[1] dst=fp32" VALUES,
    "dequantize/forward src=int8" VALUES " src_step=fp32[1] dst=bf16" VALUES,
    "finite_check/forward src=fp32[#] flag=fp32[1]",
    "sgd/forward src=fp32[#] weights=fp32[#] momentum=fp32[#] momentum=0.9 weight_decay=0.0005",
    "adam/forward src=fp32[#] weights=fp32[#] momentum=fp32[#] second_moment=fp32[#] beta1=0.9 beta2=0.999 epsilon=1e-08 weight_decay=0.01",
    "add/forward src=bf16" VALUES " src2=bf16" VALUES " dst=bf16" VALUES,
    "relu/forward src=bf16" VALUES " mask=int8[$] dst=bf16" VALUES,
    "relu/backward mask=int8[$] diff_dst=bf16" VALUES " diff_src=bf16" VALUES,
    "add/forward src=bf16" VALUES " src2=bf16" VALUES " mask=int8[$] dst=bf16" VALUES " relu",
    "relu/backward mask=int8[$] diff_dst=bf16" VALUES " diff_dst2=bf16" VALUES " diff_src=bf16" VALUES,
    "gelu/forward src=bf16[@,1024,64] dst=bf16[@,1024,64]",
    "dropout/forward src=bf16[@,1024,64] dst=bf16[@,1024,64] probability=0.1 batched",
    "max_pool/forward src=bf16[%,64,112,112] mask=int8[%,64,56,56] dst=bf16[%,64,56,56] kernel=3x3 stride=2x2 padding=1x1",
    "max_pool/backward mask=int8[%,64,56,56] diff_dst=bf16[%,64,56,56] diff_src=bf16[%,64,112,112] kernel=3x3 stride=2x2 padding=1x1",
    "global_average_pool/forward src=bf16[@,2048,7,7] dst=bf16[@,2048,1,1]",
    "concat/forward src=bf16[@,512,64] src2=bf16[@,512,64] dst=bf16[@,1024,64]",
    "permute/forward src=fp32[@,1024,64] dst=fp32[@,64,1024] extent1=64 extent2=1024 order=21",
    "permute/forward src=bf16[@,1024,64] dst=bf16[@,64,1024] extent1=64 extent2=1024 order=21",
    "permute/forward src=bf16[@,1024,64] dst=bf16[@,64,16,64] extent1=64 extent2=16 extent3=64 order=213",
    "gate/forward src=bf16[@,1024,64] src2=bf16[@,1024,1] dst=bf16[@,1024,64]",
    "gain/backward src=bf16[@,1024,64] scale=fp32[1024] diff_dst=bf16[@,1024,64] diff_src=bf16[@,1024,64] diff_scale=fp32[1024]",
    "rotary/forward src=bf16[@,1024,64] dst=bf16[@,1024,64] heads=16 base=10000",
    "positions/backward diff_dst=bf16[@,1024,64] diff_src=bf16[@,1024,64] diff_weights=fp32[64,1024]",
    "embedding/backward ids=fp32[@,64] diff_dst=bf16[@,768,64] diff_weights=fp32[30522,768] vocabulary=30522",
    "embedding/backward ids=fp32[@,64] diff_dst=bf16[@,768,64] diff_weights=fp32[2,768] vocabulary=2",
    NORM("bf16"),
    NORM("fp32"),
    NORM_SUM("bf16"),
    "layer_norm/forward src=bf16[@,1024,64] scale=fp32[1024] shift=fp32[1024] mean=fp32[&] variance=fp32[&] dst=bf16[@,1024,64] "
    "epsilon=1e-05",
    "layer_norm/backward src=bf16[@,1024,64] scale=fp32[1024] mean=fp32[&] variance=fp32[&] diff_dst=bf16[@,1024,64] "
    "diff_src=bf16[@,1024,64] diff_scale=fp32[1024] diff_shift=fp32[1024] epsilon=1e-05",
    "group_norm/forward src=bf16[@,1024,64] scale=fp32[1024] shift=fp32[1024] dst=bf16[@,1024,64] groups=32 epsilon=1e-05",
    "group_norm/backward src=bf16[@,1024,64] scale=fp32[1024] diff_dst=bf16[@,1024,64] diff_src=bf16[@,1024,64] diff_scale=fp32[1024] "
    "diff_shift=fp32[1024] groups=32 epsilon=1e-05",
    "local_response_norm/forward src=bf16[@,1024,64] dst=bf16[@,1024,64] size=5 alpha=0.0001 beta=0.75 bias=1",
    "local_response_norm/backward src=bf16[@,1024,64] diff_dst=bf16[@,1024,64] diff_src=bf16[@,1024,64] size=5 alpha=0.0001 beta=0.75 "
    "bias=1",
    "resize/forward src=bf16[%,64,56,56] dst=bf16[%,64,112,112] scale_height=2 scale_width=2",
    "resize/backward diff_dst=bf16[%,64,112,112] diff_src=bf16[%,64,56,56] mode=1 scale_height=2 scale_width=2",
};
enum { MOVING = sizeof moving / sizeof *moving };

#define LINEAR(F, TO)                                                                                        \
    "linear/forward src=" F "[@,1024,8] weights=" F "[4096,1024] dst=" TO "[@,4096,8]",                      \
        "linear/input_gradient weights=" F "[4096,1024] diff_dst=" F "[@,4096,8] diff_src=" TO "[@,1024,8]", \
        "linear/weight_gradient src=" F "[@,1024,8] diff_dst=" F "[@,4096,8] diff_weights=fp32[4096,1024]"
#define CONVOLUTION(F, TO, S, W, D, A)                                                                                                   \
    "conv2d/forward src=" F S " weights=" F W " dst=" TO D A, "conv2d/input_gradient weights=" F W " diff_dst=" F D " diff_src=" TO S A, \
        "conv2d/weight_gradient src=" F S " diff_dst=" F D " diff_weights=fp32" W A
#define CONVOLUTIONS(F, TO)                                                                           \
    CONVOLUTION(F, TO, "[%,128,28,28]", "[128,128,3,3]", "[%,128,28,28]", " kernel=3x3 padding=1x1"), \
        CONVOLUTION(F, TO, "[%,256,56,56]", "[64,256,1,1]", "[%,64,56,56]", " kernel=1x1"),           \
        CONVOLUTION(F, TO, "[%,64,56,56]", "[256,64,1,1]", "[%,256,56,56]", " kernel=1x1")
#define ATTENTION(F)                                                                                                                \
    "attention/forward src=" F "[%,768,128] src2=" F "[%,768,128] src3=" F "[%,768,128] dst=" F "[%,768,128] heads=12",             \
        "attention/backward src=" F "[%,768,128] src2=" F "[%,768,128] src3=" F "[%,768,128] diff_dst=" F "[%,768,128] diff_src=" F \
        "[%,768,128] diff_src2=" F "[%,768,128] diff_src3=" F "[%,768,128] heads=12"
#define STEPS(F, S, W) "src=" F S " src_step=fp32[1] weights=" F W " weights_step=fp32"

/* Of bert:base, with a bias: forward in int8 beside bf16, and the weight gradient, which sums up the bias gradient as well. */
#define BERT_LINEAR(I, O)                                                                                               \
    "linear/forward src=bf16[@," I ",8] weights=bf16[" O "," I "] bias=fp32[" O "] dst=bf16[@," O ",8]",                \
        "linear/forward " STEPS("int8", "[@," I ",8]", "[" O "," I "]") "[" O "] bias=fp32[" O "] dst=bf16[@," O ",8]", \
        "linear/weight_gradient src=bf16[@," I ",8] diff_dst=bf16[@," O ",8] diff_weights=fp32[" O "," I "] diff_bias=fp32[" O "]"

/* Products of transformers and of resnet50, in every format that some GPU multiplies; and an LSTM, which is a product a step. */
static const char *const products[] = {
    LINEAR("fp32", "fp32"),
    LINEAR("tf32", "fp32"),
    LINEAR("bf16", "bf16"),
    LINEAR("fp16", "fp16"),
    LINEAR("e4m3fn", "bf16"),
    "linear/forward " STEPS("int8", "[@,1024,8]", "[4096,1024]") "[4096] dst=bf16[@,4096,8]",
    "linear/forward " STEPS("int8", "[@,1024,8]", "[4096,1024]") "[4096] dst=fp32[@,4096,8]",
    BERT_LINEAR("768", "768"),
    BERT_LINEAR("768", "3072"),
    BERT_LINEAR("3072", "768"),
    CONVOLUTIONS("fp32", "fp32"),
    CONVOLUTIONS("tf32", "fp32"),
    CONVOLUTIONS("bf16", "bf16"),
    CONVOLUTIONS("fp16", "fp16"),
    "conv2d/forward " STEPS("int8", "[%,128,28,28]", "[128,128,3,3]") "[128] dst=bf16[%,128,28,28] kernel=3x3 padding=1x1",
    "conv2d/forward " STEPS("int8", "[%,256,56,56]", "[64,256,1,1]") "[64] dst=bf16[%,64,56,56] kernel=1x1",
    "conv2d/forward " STEPS("int8", "[%,3,224,224]", "[64,3,7,7]") "[64] dst=bf16[%,64,112,112] kernel=7x7 stride=2x2 padding=3x3",
    CONVOLUTION("bf16", "bf16", "[%,3,224,224]", "[64,3,7,7]", "[%,64,112,112]", " kernel=7x7 stride=2x2 padding=3x3"),
    ATTENTION("bf16"),
    ATTENTION("fp16"),
    ATTENTION("fp32"),
    "recurrence/forward src=bf16[64,2048,128] weights=fp32[2048,512] bias=fp32[2048] dst=bf16[64,512,128] cell=2",
    ("recurrence/backward src=bf16[64,2048,128] weights=fp32[2048,512] bias=fp32[2048] diff_dst=bf16[64,512,128] "
     "diff_src=bf16[64,2048,128] diff_weights=fp32[2048,512] diff_bias=fp32[2048] cell=2"),
    "recurrence/forward src=bf16[64,2048,128] weights=fp32[2048,512] bias=fp32[2048] dst=bf16[64,512,128] cell=2 rounding=stochastic "
    "to=int8",
    ("recurrence/backward src=bf16[64,2048,128] weights=fp32[2048,512] bias=fp32[2048] diff_dst=bf16[64,512,128] "
     "diff_src=bf16[64,2048,128] diff_weights=fp32[2048,512] diff_bias=fp32[2048] cell=2 rounding=stochastic to=int8 gradients=int8"),
};
enum { PRODUCTS = sizeof products / sizeof *products };

static const double most_seconds = 0.5; /* for the runs of one kernel, but two of them */

typedef struct bench {
    const char *isa, *backend;
    const char *one; /* a case of the user's, in place of the lists; NULL: the lists */
    int threads, rounds;
    int64_t values;
    bool products, candidates, json;
    qs_device *device;
    double copy_us_per_byte; /* moved: read or written */
    json_t *rows, *refused;
} bench;

/* ---- Cases ---- */

/* The text with numbers in the place of its signs. */
static void text_fill(const char *text, int64_t values, char *out, size_t room) {
    size_t at = 0;
    for (; *text && at < room; text++) {
        int sign = 0;
        while (sign < SIGNS && signs[sign].sign != *text)
            sign++;
        if (sign < SIGNS)
            at += (size_t)snprintf(out + at, room - at, "%lld", (long long)(values / signs[sign].part));
        else
            at += (size_t)snprintf(out + at, room - at, "%c", *text);
    }
}

/* ---- Rows ---- */

static void row_show(const bench *one, const char *text, const timed *run) {
    const double bytes = qs_case_bytes(&run->one), flops = qs_case_flops(&run->one);
    const double share = bytes * one->copy_us_per_byte / run->us;
    if (one->json)
        json_array_append_new(one->rows,
                              json_pack("{s:s,s:s,s:I,s:f,s:f,s:f,s:f,s:f}", "case", text, "kernel", run->fact.kernel, "scratch_bytes",
                                        (json_int_t)run->fact.scratch_bytes, "us", run->us, "bytes", bytes, "gb_per_s",
                                        bytes / run->us / 1e3, "fraction_of_copy", share, "gflop_per_s", flops / run->us / 1e3));
    else
        printf("%12s %8.1f GB/s %7.2f of a copy %9.1f GFLOP/s  %-36s %s\n", time_text(run->us), bytes / run->us / 1e3, share,
               flops / run->us / 1e3, run->fact.kernel, text);
    fflush(stdout);
}

/* What the device has no kernel for, or what is no case, is told and passed over. */
static void refusal_show(const bench *one, const char *text) {
    if (one->json)
        json_array_append_new(one->refused, json_pack("{s:s,s:s}", "case", text, "reason", qs_message()));
    else
        printf("%12s %s: %s\n", "refused", text, qs_message());
    fflush(stdout);
}

static qs_status kernel_run(const bench *one, const qs_case *what, const char *text, const char *kernel) {
    timed run;
    qs_status status = timed_make(one->device, what, kernel, &run);
    const double begin = qs_clock();
    for (int r = 0; r <= one->rounds && status == QS_OK && (r < 2 || qs_clock() < begin + most_seconds); r++)
        status = timed_run(&run);
    if (status == QS_OK) row_show(one, text, &run);
    timed_release(&run);
    return status;
}

static qs_status case_run(const bench *one, const char *pattern) {
    char text[2 * QS_CASE_TEXT];
    qs_kernel_fact all[QS_MOST_CANDIDATES];
    qs_case what;
    int count = 1;
    text_fill(pattern, one->values, text, sizeof text);
    qs_status status = qs_case_parse(text, &what);
    if (status == QS_OK) status = qs_case_check(&what);
    if (status == QS_OK && one->candidates) status = qs_device_candidates(one->device, &what, all, &count);
    for (int i = 0; i < count && status == QS_OK; i++)
        status = kernel_run(one, &what, text, one->candidates ? all[i].kernel : NULL);
    if (status == QS_OK || status == QS_FAILED) return status; /* a device that failed answers nothing more */
    if (one->one) return status;
    refusal_show(one, text);
    return QS_OK;
}

static qs_status cases_run(const bench *one) {
    const char *const *list = one->products ? products : moving;
    if (one->one) return case_run(one, one->one);
    for (int i = 0; i < (one->products ? PRODUCTS : MOVING); i++)
        QS_TRY(case_run(one, list[i]));
    return QS_OK;
}

/* As many bytes as that many fp32 values have, from one half of a memory to the other. */
static qs_status copy_measure(bench *one) {
    const size_t bytes = (size_t)one->values * sizeof(float);
    qs_memory *memory = NULL;
    double us = INFINITY;
    QS_TRY(qs_memory_reserve(one->device, 2 * bytes, &memory));
    const qs_status status = timed_copy(one->device, qs_location_of(memory, 0), qs_location_of(memory, bytes), bytes, one->rounds, &us);
    one->copy_us_per_byte = us / (2 * (double)bytes);
    qs_memory_release(memory);
    return status;
}

static qs_status kernels_run(bench *one) {
    QS_TRY(copy_measure(one));
    const double copying = 1e-3 / one->copy_us_per_byte;
    one->rows = json_array();
    one->refused = json_array();
    if (!one->json) printf("%12s %8.1f GB/s of bytes read and written: a copy\n", "", copying);
    const qs_status status = cases_run(one);
    qs_device_info info;
    qs_device_describe(one->device, &info);
    json_t *all = json_pack("{s:s,s:s,s:I,s:f,s:o,s:o}", "backend", info.backend, "device", info.cpu, "values", (json_int_t)one->values,
                            "copy_gb_per_s", copying, "kernels", one->rows, "refused", one->refused);
    if (one->json) /* also where the device failed in the middle */
        QS_TRY(json_print(all));
    else
        json_decref(all);
    return status;
}

static const option_row option_rows[] = {
    {OPTION(bench, products, "products", NULL, "products in place of what moves bytes")},
    {OPTION(bench, one, "case", "TEXT", "this case alone, such as qsync bench --kernels prints"), .excludes = "products"},
    {OPTION(bench, candidates, "candidates", NULL, "every kernel that can run a case, not the device's own choice alone")},
    {OPTION(bench, values, "values", "N", "of a tensor; a multiple of 262144 suits all cases"), .standard = "67108864", .minimum = 262144},
    {OPTION(bench, rounds, "rounds", "N", "runs of each kernel, behind one that counts as well"), .standard = "8", .minimum = 1},
    {OPTION_THREADS(bench)},
    {OPTION_ISA(bench)},
    {OPTION(bench, backend, "backend", "NAME", "of the device"), .standard = "cpu"},
    {OPTION_JSON(bench)},
};

qs_status bench_kernels(int argc, char **argv) {
    const verb_usage usage = {.verb = "kernels",
                              .arguments = "",
                              .purpose = "Kernels one by one, each on tensors of its own, the least of several times: bytes a second (each "
                                         "operand once) and their share\n"
                                         "of what a copy on the same device moves (bytes read and written), and operations a second. Cases "
                                         "that the device has no kernel\n"
                                         "for are listed with the reason.",
                              .examples = "  qsync-bench kernels --values 1048576\n"
                                          "  qsync-bench kernels --products --candidates --backend cuda\n"
                                          "  qsync-bench kernels --case \"relu/forward src=bf16[64,64,32,32] dst=bf16[64,64,32,32]\"\n"};
    bench one = {0};
    bool done = false;
    option_table table = {0};
    OPTIONS_ADD(&table, option_rows, &one);
    QS_TRY(bench_options(&table, &usage, argc, argv, &done));
    if (done) return QS_OK;
    QS_TRY(device_start(one.backend, one.threads, one.isa, &one.device));
    const qs_status status = kernels_run(&one);
    qs_device_close(one.device);
    return status;
}
