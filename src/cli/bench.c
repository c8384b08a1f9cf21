// SPDX-License-Identifier: Apache-2.0
/* qsync bench: images per second of whole training steps, per model and recipe, and what of them changes formats; which kernels are the
 * fastest; or the speed of the cost mapper, of planning, of rounding, of normalisations, of the formula for accumulators or of products in
 * narrow ones, of all-reduces on narrow wires, or how far planners are from the optimum. */
#include "bench_mapper.h"
#include "bench_accum.h"
#include "bench_formats.h"
#include "bench_gap.h"
#include "bench_narrow.h"
#include "bench_norm.h"
#include "bench_plan.h"
#include "bench_shiftmm.h"
#include "bench_step.h"
#include "bench_tune.h"
#include "bench_wires.h"

/* What the command line asks for. */
typedef struct request {
    step_bench steps;
    qs_device *device;
    const char *isa, *backend, *dataset;
    bool plan, gap, accum, formats, norm, narrow, shiftmm, tune, quantization, wires;
    int operators;
    int64_t message_bytes;
} request;

static void options_fill(request *asked, option_table *table) {
    step_bench *steps = &asked->steps;
    *asked = (request){.steps = {.models = "resnet20",
                                 .recipes = "fp32,bf16,int8/bf16",
                                 .batches = "16,32,64,128,256",
                                 .batch = 128,
                                 .steps = 12,
                                 .threads = 1},
                       .isa = "all",
                       .backend = "cpu",
                       .dataset = "",
                       .message_bytes = 11 << 20};
    options_add(table, (option_row){"models", OPTION_TEXT, &steps->models, "LIST", "comma-separated (resnet20)", 0});
    options_add(table, (option_row){"recipes", OPTION_TEXT, &steps->recipes, "LIST",
                                    "comma-separated (fp32,bf16,int8/bf16; --tune: all that the device offers)", 0});
    options_add(table, (option_row){"batch", OPTION_INTEGER, &steps->batch, "N", "batch (128)", 1});
    options_add(table, (option_row){"optimizer", OPTION_TEXT, &steps->optimizer, "NAME", optimizer_names(), 0});
    options_add(table, (option_row){"input", OPTION_TEXT, &steps->input, "CxHxW", "input shape (each model's own)", 0});
    options_add(table, (option_row){"classes", OPTION_INT, &steps->classes, "N", "classes (each model's own)", 1});
    options_add(table, (option_row){"steps", OPTION_INT, &steps->steps, "N",
                                    "timed steps, or rounds of --tune, --formats, --norm, --narrow and --wires (12)", 1});
    options_add(table, (option_row){"threads", OPTION_INT, &steps->threads, "N", "threads (1)", 1});
    options_add(table, (option_row){"isa", OPTION_TEXT, &asked->isa, "NAME", "instruction-set ceiling (all)", 0});
    options_add(table, (option_row){"backend", OPTION_TEXT, &asked->backend, "NAME", "cpu or ref (cpu)", 0});
    options_add(table, (option_row){"kernels", OPTION_FLAG, &steps->kernels, NULL, "also every kernel by name", 0});
    options_add(table,
                (option_row){"breakdown", OPTION_FLAG, &steps->breakdown, NULL, "also what each operator's passes take of a step", 0});
    options_add(table, (option_row){"quantization", OPTION_FLAG, &asked->quantization, NULL,
                                    "instead: what changing formats takes of steps, over batches", 0});
    options_add(table, (option_row){"batches", OPTION_TEXT, &steps->batches, "LIST", "--quantization: (16,32,64,128,256)", 0});
    options_add(table, (option_row){"tune", OPTION_FLAG, &asked->tune, NULL, "instead: which kernels are the fastest, for later runs", 0});
    options_add(table,
                (option_row){"dataset", OPTION_TEXT, &asked->dataset, "NAME", "--tune: images as of this set (each model's own)", 0});
    options_add(table,
                (option_row){"mapper", OPTION_INT, &asked->operators, "N", "instead: changes of one among N operators, made-up costs", 20});
    options_add(table, (option_row){"plan", OPTION_FLAG, &asked->plan, NULL, "instead: planning for 32 devices, made-up costs", 0});
    options_add(table, (option_row){"gap", OPTION_FLAG, &asked->gap, NULL, "instead: plans of small random models above the optimum", 0});
    options_add(table, (option_row){"accum", OPTION_FLAG, &asked->accum, NULL, "instead: the width of an accumulator, by the formula", 0});
    options_add(table, (option_row){"formats", OPTION_FLAG, &asked->formats, NULL, "instead: rounding to formats, beside a copy", 0});
    options_add(table, (option_row){"norm", OPTION_FLAG, &asked->norm, NULL, "instead: normalisations, beside batch_norm", 0});
    options_add(table,
                (option_row){"narrow", OPTION_FLAG, &asked->narrow, NULL, "instead: products in narrow accumulators, beside fp32's", 0});
    options_add(table,
                (option_row){"shiftmm", OPTION_FLAG, &asked->shiftmm, NULL, "instead: products of 4 and 6 bits beside int8 and bf16", 0});
    options_add(table, (option_row){"wires", OPTION_FLAG, &asked->wires, NULL, "instead: all-reduces of ranks by wire, under mpirun", 0});
    options_add(table,
                (option_row){"message-bytes", OPTION_INTEGER, &asked->message_bytes, "N", "--wires: gradients summed (11534336)", 4});
    options_add(table, (option_row){"json", OPTION_FLAG, &steps->json, NULL, "print JSON", 0});
}

static qs_status request_check(const request *asked, const option_table *table) {
    const int others = asked->plan + asked->gap + asked->accum + asked->formats + asked->norm + asked->narrow + asked->shiftmm +
                       asked->tune + asked->quantization + asked->wires + (asked->operators > 0);
    if (others > 1)
        return qs_fail(QS_USAGE,
                       "--mapper, --plan, --gap, --accum, --formats, --norm, --narrow, --shiftmm, --quantization, --tune, --wires are "
                       "benchmarks of their own: give one");
    if (asked->steps.kernels && others) return qs_fail(QS_USAGE, "--kernels lists those of whole steps: leave out the other benchmark");
    if (asked->steps.breakdown && others)
        return qs_fail(QS_USAGE, "--breakdown is of whole steps in one recipe: leave out the other benchmark");
    if (asked->steps.optimizer && others) return qs_fail(QS_USAGE, "--optimizer is of whole steps: leave out the other benchmark");
    if ((asked->steps.input || asked->steps.classes) && others && !asked->quantization && !asked->tune)
        return qs_fail(QS_USAGE, "--input and --classes are of whole steps, --quantization and --tune: leave out the other benchmark");
    if (option_given(table, "batches") && !asked->quantization)
        return qs_fail(QS_USAGE, "--batches is of --quantization; a step has one --batch");
    if (option_given(table, "message-bytes") && !asked->wires) return qs_fail(QS_USAGE, "--message-bytes goes with --wires");
    if (option_given(table, "dataset") && !asked->tune) return qs_fail(QS_USAGE, "--dataset goes with --tune");
    if (option_given(table, "dataset") && (asked->steps.input || asked->steps.classes))
        return qs_fail(QS_USAGE, "--dataset says input and classes: leave out --input and --classes");
    return QS_OK;
}

static qs_status tune(request *asked, const option_table *table) {
    const tune_request one = {.models = asked->steps.models,
                              .recipes = option_given(table, "recipes") ? asked->steps.recipes : NULL,
                              .dataset = asked->dataset,
                              .input = asked->steps.input,
                              .classes = asked->steps.classes,
                              .backend = asked->backend,
                              .isa = asked->isa,
                              .batch = asked->steps.batch,
                              .threads = asked->steps.threads,
                              .rounds = asked->steps.steps,
                              .json = asked->steps.json};
    return bench_tune(asked->device, &one);
}

static qs_status device_run(request *asked, const option_table *table) {
    const step_bench *steps = &asked->steps;
    const qs_device_options options = {.backend = asked->backend, .threads = steps->threads, .isa = asked->isa, .speed = 1};
    QS_TRY(qs_device_open(&options, &asked->device));
    qs_status status = tuned_take(asked->device);
    if (status == QS_OK)
        status = asked->tune           ? tune(asked, table)
                 : asked->norm         ? bench_norm(asked->device, steps->steps, steps->json)
                 : asked->shiftmm      ? bench_shiftmm(asked->device, steps->threads, steps->json)
                 : asked->quantization ? bench_quantization(steps, asked->device)
                                       : bench_step(steps, asked->device);
    qs_device_close(asked->device);
    return status;
}

static qs_status request_run(request *asked, const option_table *table) {
    const step_bench *steps = &asked->steps;
    if (asked->operators > 0) return bench_mapper(asked->operators, steps->json);
    if (asked->plan) return bench_plan(steps->json);
    if (asked->gap) return bench_gap(steps->json);
    if (asked->accum) return bench_accum(steps->json);
    if (asked->wires) return bench_wires(asked->message_bytes, steps->steps, steps->json);
    threads_pin(steps->threads);
    if (asked->narrow) return bench_narrow(steps->threads, asked->isa, steps->steps, steps->json);
    if (asked->formats) return bench_formats(steps->threads, asked->isa, steps->steps, steps->json);
    return device_run(asked, table);
}

qs_status verb_bench(int argc, char **argv) {
    const verb_usage usage = {
        "bench", "",
        "Images per second of whole training steps (forward, backward, update) on generated data: the median over steps, per model\n"
        "and recipe, on this machine. \"Of the roof\": the time that the step's products would take at the peak of the processor,\n"
        "measured in the same run, each in its format and all else for nothing, over the time of the step.\n"
        "--tune times every kernel that can run a case of the models in such steps, and remembers the fastest in the file QSYNC_CACHE\n"
        "(~/.cache/qsync/tuning.sqlite; QSYNC_CACHE=off: nowhere) for this processor, isa and threads: profiles measured later take them,\n"
        "plans name them.",
        "  qsync bench --models resnet20,vgg11_bn --recipes fp32,bf16 --threads 2\n"
        "  qsync bench --models resnet18,resnet50 --input 3x64x64 --batch 16 --breakdown\n"
        "  qsync bench --quantization --models resnet20 --batches 16,64,256\n"
        "  qsync bench --tune --models resnet20 --isa avx2_vnni\n"
        "  qsync bench --mapper 1000\n"
        "  qsync bench --plan\n  qsync bench --gap\n  qsync bench --accum\n  qsync bench --narrow\n  qsync bench --formats --threads 2\n"
        "  qsync bench --norm --steps 40\n  qsync bench --shiftmm\n"
        "  mpirun -n 2 qsync bench --wires --message-bytes 1048576 --steps 40\n"};
    request asked;
    bool done = false;
    int first = 0;
    option_table table = {0};
    options_fill(&asked, &table);
    QS_TRY(options_parse(&table, &usage, argc, argv, &first, &done));
    if (done) return QS_OK;
    QS_TRY(arguments_check(&usage, argc, argv, first, 0));
    QS_TRY(request_check(&asked, &table));
    return request_run(&asked, &table);
}
