// SPDX-License-Identifier: Apache-2.0
/* block_round: values whose blocks share scales (qsync/blocks.h), as one factor of a product holds them; kept in a float format that has
 * them all. dst = qs_block_round of src into the block format `blocks`, in fp32 or its container. Blocks lie along channels (axis 1), or
 * (axis 0) one position behind the other where it is `batched`, else along axis 0. */
#include "internal.h"

#include <stdlib.h>

#include "qsync/quantizing.h"

static qs_status check(const qs_case *one) {
    const qs_block_format *blocks = one->attributes.blocks;
    const qs_format *dst = one->operand[1].format;
    QS_TRY(qs__need_same(one, QS_DST, QS_SRC));
    QS_TRY(qs__need_axes(one, QS_SRC, 2, QS_MAX_AXES));
    if (!blocks) return qs__refuse(one, "blocks=FORMAT is missing");
    if (one->attributes.per_channel) return qs__refuse(one, "per_channel has no meaning here");
    if (one->operand[0].format->kind != QS_KIND_FLOAT) return qs__refuse(one, "src is of floats");
    if (dst == blocks->container || dst == qs_format_of("fp32")) return QS_OK;
    return qs__refuse(one, "dst is in fp32 or, of %s, in %s", blocks->name, blocks->container->name);
}

qs_block_rounding qs_block_rounding_of(const qs_case *one, const qs_run *run) {
    const qs_shape *shape = &one->operand[0].shape;
    const qs_random_rows rows = qs_op_random_rows(one, run);
    const int64_t count = qs_shape_count(shape), channels = shape->dim[1];
    const int64_t length = one->attributes.axis == 1 ? channels : one->attributes.batched ? count / channels : shape->dim[0];
    qs_block_rounding job = {.format = one->attributes.blocks, .rounding = one->attributes.rounding, .random = {rows.key, rows.first}};
    job.layout = (qs_block_layout){.outer = 1, .length = length, .inner = count / length, .sample = rows.per_row, .stride = rows.stride};
    if (one->attributes.axis == 1) job.layout.outer = count / channels, job.layout.inner = 1;
    return job;
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    qs_block_rounding job = qs_block_rounding_of(one, run);
    float *values;
    QS_TRY(qs__read(qs__operand(one, operands, QS_SRC), &values));
    job.tensor = qs_tensor_scale(job.format, qs_absmax_array(qs_shape_count(&one->operand[0].shape), values));
    job.src = job.dst = values;
    qs_block_round(&job, 0, qs_block_units(&job));
    qs__write(qs__operand(one, operands, QS_DST), values);
    free(values);
    return QS_OK;
}

static const qs_pass passes[] = {{.name = "forward",
                                  QS_OPERANDS({.role = QS_SRC, .source = QS_GIVEN}, {.role = QS_DST, .source = QS_MADE}),
                                  .reference = forward,
                                  .check = check}};

#define BLOCKS(F, G, S, B) "block_round/forward src=" F S " dst=" G S B

static const char *const cases[] = {BLOCKS("fp32", "bf16", "[4,64,8,8]", " axis=1 blocks=mxfp8 batched"),
                                    BLOCKS("bf16", "bf16", "[4,64,8,8]", " axis=1 blocks=mxfp4 batched"),
                                    BLOCKS("fp32", "bf16", "[4,16,8,8]", " blocks=mxfp8 batched"),
                                    BLOCKS("bf16", "bf16", "[3,40,5,3]", " blocks=mxint8 batched"),
                                    BLOCKS("fp32", "bf16", "[3,37]", " axis=1 rounding=stochastic blocks=mxfp4 batched"),
                                    BLOCKS("bf16", "bf16", "[7,5,3,3]", " rounding=stochastic blocks=mxfp6 batched"),
                                    BLOCKS("fp32", "bf16", "[48,70,3,3]", " axis=1 blocks=mxfp6-e3m2"),
                                    BLOCKS("fp32", "bf16", "[48,16,3,3]", " rounding=stochastic blocks=mxfp8-e5m2"),
                                    BLOCKS("fp32", "bf16", "[16,1200]", " axis=1 blocks=mx(e4m3,128,e8m0,up)"),
                                    BLOCKS("fp32", "bf16", "[300,33]", " blocks=mx(int4,64,e8m0,nearest)"),
                                    BLOCKS("fp32", "fp32", "[4,64,8,8]", " axis=1 blocks=nvfp4 batched"),
                                    BLOCKS("bf16", "fp32", "[4,24,8,8]", " rounding=stochastic blocks=nvfp4 batched"),
                                    BLOCKS("fp32", "fp32", "[64,256]", " axis=1 blocks=mx(e4m3,128,fp32)"),
                                    BLOCKS("fp32", "fp32", "[2,9]", " axis=1 blocks=mxfp8"),
                                    NULL};

const qs_op qs__op_block_round = {
    .name = "block_round", .kind = QS_AUXILIARY, .converts = true, .passes = 1, .pass = passes, .cases = cases};
