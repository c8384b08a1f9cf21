// SPDX-License-Identifier: Apache-2.0
/* qsync-bench norm: how fast the normalisations are beside batch_norm: by turns, so that a machine that drifts drifts under all of them
 * alike. */
#include "bench.h"
#include "timed.h"
#include "qsync/norm.h"

#include <math.h>
#include <string.h>

enum { KINDS = 6, PASSES = 2, CODES = 2, KERNELS = KINDS * PASSES + CODES };
enum { OF_L2, OF_L1, OF_L1Q, OF_LN, OF_L1LN, OF_L1LNQ };
static const char *const kinds[KINDS] = {"batch_norm", "l1_batch_norm", "l1_batch_norm_int8",
                                         "layer_norm", "l1_layer_norm", "l1_layer_norm_int8"};
static const char *const passes[PASSES] = {"forward", "backward"};
static const char *const codes[CODES] = {"absmax", "quantize"};

typedef struct shape {
    const char *name;
    int64_t batch, channels, size;
} shape;
static const shape shapes[] = {{"resnet20.stage1", 128, 16, 32},
                               {"resnet20.stage3", 128, 64, 8},
                               {"vgg11_bn.block1", 128, 64, 32},
                               {"resnet18.stage2", 16, 128, 16},
                               {"mobilenet_v2.head", 128, 1280, 4}};
enum { SHAPES = sizeof shapes / sizeof *shapes };
static const char *const formats[] = {"fp32", "bf16"};
enum { FORMATS = sizeof formats / sizeof *formats };

typedef struct figures {
    const shape *shape;
    const char *format;
    double us[KERNELS], copy_us_per_byte, bytes[KERNELS];
} figures;

/* ---- Cases ---- */

static qs_shape operand_shape(const shape *of, const qs_norm *norm, qs_role role) {
    const qs_shape values = qs_shape_of(4, of->batch, of->channels, of->size, of->size);
    switch (role) {
    case QS_SRC:
    case QS_DST:
    case QS_DIFF_DST:
    case QS_DIFF_SRC:
        return values;
    case QS_MEAN:
    case QS_VARIANCE:
    case QS_DEVIATION:
        return qs_norm_vector(norm, &values);
    case QS_SRC_STEP:
    case QS_DST_STEP:
    case QS_ABSMAX:
        return qs_shape_of(1, (int64_t)1);
    default:
        return qs_shape_of(1, of->channels);
    }
}

static bool is_value(qs_role role) {
    return role == QS_SRC || role == QS_DST || role == QS_DIFF_DST || role == QS_DIFF_SRC;
}

static const qs_format *operand_format(const qs_case *one, qs_role role, const qs_format *format) {
    const bool fixed = one->op->norm && one->op->norm->quantized && role == QS_SRC;
    if (fixed || (role == QS_DST && one->op->converts)) return qs_format_of("int8");
    return is_value(role) ? format : qs_format_of("fp32");
}

static qs_case case_of(const shape *of, const char *op, const char *pass, const char *format) {
    qs_case one = qs_case_make(op, pass, &(qs_attributes){.batched = qs_op_of(op)->converts});
    const bool quantized = one.op->norm && one.op->norm->quantized;
    for (int i = 0; i < one.operands; i++) {
        const qs_role role = one.operand[i].role;
        const bool asked = (role == QS_SRC_STEP && quantized) || (role == QS_ABSMAX && one.op->kind == QS_AUXILIARY);
        if (one.pass->operand[i].optional && !asked) continue;
        qs_case_bind(&one, role, operand_shape(of, one.op->norm, role), operand_format(&one, role, qs_format_of(format)));
    }
    return one;
}

/* ---- Timing ---- */

/* Microseconds a byte moved, by copying as much as batch_norm's forward pass holds. */
static qs_status copy_time(qs_device *device, const timed *like, int rounds, double *us_per_byte) {
    const size_t bytes = qs_tensor_bytes(&like->one.operand[0].shape, like->one.operand[0].format);
    QS_TRY(timed_copy(device, like->data[0], like->data[qs_case_position(&like->one, QS_DST)], bytes, rounds, us_per_byte));
    *us_per_byte /= 2 * (double)bytes;
    return QS_OK;
}

static qs_status kernels_make(qs_device *device, const shape *of, const char *format, timed *all) {
    for (int k = 0; k < KERNELS; k++) {
        const bool norm = k < KINDS * PASSES;
        const qs_case one =
            case_of(of, norm ? kinds[k / PASSES] : codes[k - KINDS * PASSES], norm ? passes[k % PASSES] : "forward", format);
        QS_TRY(timed_make(device, &one, NULL, &all[k]));
    }
    return QS_OK;
}

static qs_status shape_time(qs_device *device, int rounds, figures *out) {
    timed all[KERNELS] = {0};
    qs_status status = kernels_make(device, out->shape, out->format, all);
    for (int r = 0; r <= rounds && status == QS_OK; r++)
        for (int k = 0; k < KERNELS && status == QS_OK; k++)
            status = timed_run(&all[k]);
    for (int k = 0; k < KERNELS && status == QS_OK; k++) {
        out->us[k] = all[k].us;
        out->bytes[k] = qs_case_bytes(&all[k].one);
    }
    if (status == QS_OK) status = copy_time(device, &all[0], rounds, &out->copy_us_per_byte);
    for (int k = 0; k < KERNELS; k++)
        timed_release(&all[k]);
    return status;
}

/* ---- Figures ---- */

/* Speed over batch_norm's; pass PASSES: both together. */
static double ratio(const figures *one, int kind, int pass, bool with_codes) {
    double mine = 0, usual = 0;
    for (int p = 0; p < PASSES; p++) {
        if (pass != PASSES && p != pass) continue;
        mine += one->us[kind * PASSES + p];
        usual += one->us[OF_L2 * PASSES + p];
        if (with_codes && p == 0) mine += one->us[KINDS * PASSES] + one->us[KINDS * PASSES + 1];
    }
    return usual / mine;
}

static double geometric_mean(const figures *all, int count, int kind, int pass, bool with_codes) {
    double logs = 0;
    for (int i = 0; i < count; i++)
        logs += log(ratio(&all[i], kind, pass, with_codes));
    return exp(logs / count);
}

static json_t *ratios(const figures *all, int count, int kind, bool with_codes) {
    static const char *const names[] = {"forward", "backward", "both"};
    json_t *out = json_object();
    for (int pass = 0; pass <= PASSES; pass++)
        json_object_set_new(out, names[pass], json_real(geometric_mean(all, count, kind, pass, with_codes)));
    return out;
}

static json_t *times(const figures *one) {
    json_t *out = json_object();
    for (int k = 0; k < KINDS * PASSES; k++) {
        json_t *row = json_object_get(out, kinds[k / PASSES]);
        if (!row) json_object_set_new(out, kinds[k / PASSES], row = json_object());
        const double floor_us = one->bytes[k] * one->copy_us_per_byte;
        json_object_set_new(row, passes[k % PASSES], json_pack("{s:f,s:f}", "us", one->us[k], "roofline", floor_us / one->us[k]));
    }
    json_object_set_new(out, "codes_us", json_real(one->us[KINDS * PASSES] + one->us[KINDS * PASSES + 1]));
    return out;
}

static json_t *figures_json(const figures *all, int count) {
    return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o}", "l1_over_l2", ratios(all, count, OF_L1, false), "l1q_over_l2",
                     ratios(all, count, OF_L1Q, false), "l1q_with_codes_over_l2", ratios(all, count, OF_L1Q, true), "ln_over_l2",
                     ratios(all, count, OF_LN, false), "l1ln_over_l2", ratios(all, count, OF_L1LN, false), "l1lnq_over_l2",
                     ratios(all, count, OF_L1LNQ, false));
}

static qs_status json_write(const figures *all, int count) {
    json_t *out = figures_json(all, count), *rows = json_object();
    for (int i = 0; i < count; i++) {
        char name[64];
        json_t *row = figures_json(&all[i], 1);
        snprintf(name, sizeof name, "%s.%s", all[i].shape->name, all[i].format);
        json_object_set_new(row, "times", times(&all[i]));
        json_object_set_new(rows, name, row);
    }
    json_object_set_new(out, "shapes", rows);
    return json_print(out);
}

static void table_write(const figures *all, int count) {
    printf("%-24s %12s %12s %17s %17s %17s %17s %17s %17s\n", "speed over batch_norm", "forward", "backward", "l1bn fwd  bwd",
           "l1bnq fwd  bwd", "l1bnq, codes made", "ln fwd  bwd", "l1ln fwd  bwd", "l1lnq fwd  bwd");
    for (int i = 0; i < count; i++) {
        const figures *one = &all[i];
        char name[64];
        snprintf(name, sizeof name, "%s %s", one->shape->name, one->format);
        printf("%-24s %12s", name, time_text(one->us[0]));
        printf(" %12s %8.2f %8.2f %8.2f %8.2f %17.2f", time_text(one->us[1]), ratio(one, OF_L1, 0, false), ratio(one, OF_L1, 1, false),
               ratio(one, OF_L1Q, 0, false), ratio(one, OF_L1Q, 1, false), ratio(one, OF_L1Q, PASSES, true));
        printf(" %8.2f %8.2f %8.2f %8.2f %8.2f %8.2f\n", ratio(one, OF_LN, 0, false), ratio(one, OF_LN, 1, false),
               ratio(one, OF_L1LN, 0, false), ratio(one, OF_L1LN, 1, false), ratio(one, OF_L1LNQ, 0, false),
               ratio(one, OF_L1LNQ, 1, false));
    }
    printf("geometric means, both passes: l1bn %.2f, l1bnq %.2f, with its codes made %.2f, ln %.2f, l1ln %.2f, l1lnq %.2f\n",
           geometric_mean(all, count, OF_L1, PASSES, false), geometric_mean(all, count, OF_L1Q, PASSES, false),
           geometric_mean(all, count, OF_L1Q, PASSES, true), geometric_mean(all, count, OF_LN, PASSES, false),
           geometric_mean(all, count, OF_L1LN, PASSES, false), geometric_mean(all, count, OF_L1LNQ, PASSES, false));
}

static const option_row option_rows[] = {
    {OPTION_ROUNDS(bench_request, 12, "runs of each kernel, in turn")},
    {OPTION_THREADS(bench_request)},
    {OPTION_ISA(bench_request)},
    {OPTION_BACKEND(bench_request)},
    {OPTION_JSON(bench_request)},
};

qs_status bench_norm(int argc, char **argv) {
    const verb_usage usage = {
        .verb = "norm",
        .arguments = "",
        .purpose =
            "Forward and backward passes of the normalisations that models take, over shapes of built-in models in fp32 and bf16, in turn; "
            "of\n"
            "each the least time counts. l1_over_l2 is the speed of l1bn over that of l2bn, l1q_over_l2 that of l1bnq, whose codes are "
            "there;\n"
            "l1q_with_codes_over_l2 counts finding the maximum of the values and making codes of them as well; ln_over_l2 and l1ln_over_l2 "
            "are\n"
            "those of layer norms. The fraction of the roofline is the time that the bytes of the pass, each operand once, take to be "
            "copied,\n"
            "over the pass's time.",
        .examples = "  qsync-bench norm --rounds 40\n"};
    bench_request asked = {0};
    bool done = false;
    option_table table = {0};
    OPTIONS_ADD(&table, option_rows, &asked);
    QS_TRY(bench_options(&table, &usage, argc, argv, &done));
    if (done) return QS_OK;
    figures all[SHAPES * FORMATS] = {0};
    qs_device *device = NULL;
    qs_status status = device_start(asked.backend, asked.threads, asked.isa, &device);
    for (int i = 0; i < SHAPES * FORMATS && status == QS_OK; i++) {
        all[i].shape = &shapes[i / FORMATS];
        all[i].format = formats[i % FORMATS];
        status = shape_time(device, asked.rounds, &all[i]);
    }
    qs_device_close(device);
    QS_TRY(status);
    if (asked.json) return json_write(all, SHAPES * FORMATS);
    table_write(all, SHAPES * FORMATS);
    return QS_OK;
}
