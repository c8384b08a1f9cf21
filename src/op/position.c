// SPDX-License-Identifier: Apache-2.0
/* position: one position of a sequence, [N,C,L] to [N,C]: that of the setting `position`, counted from the end where it is negative (-1:
 * the last). With `sequences` S > 1, of equal length, one behind the other, that of each: [N,C,S]. The gradient of the others is 0. Passes:
 * forward src dst; backward diff_dst diff_src; values are moved as they are. */
#include "internal.h"

static int64_t length_of(const qs_attributes *with, const qs_shape *src) {
    return src->dim[2] / qs__sequences(with);
}

static int64_t taken(const qs_attributes *with, const qs_shape *src) {
    return (int64_t)with->position + (with->position < 0 ? length_of(with, src) : 0);
}

static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)outputs;
    char text[96];
    if (src->axes != 3) return qs_fail(QS_USAGE, "position: input %s needs the axes N,C,L", qs_shape_text(src, text));
    QS_TRY(qs__need_sequences(with, src, "position"));
    const int64_t length = length_of(with, src), sequences = qs__sequences(with);
    if (with->position != (double)(int64_t)with->position || taken(with, src) < 0 || taken(with, src) >= length)
        return qs_fail(QS_USAGE, "position: input %s has no position %g: 0 to %lld, or -1 for the last one and so on",
                       qs_shape_text(src, text), with->position, (long long)length - 1);
    *dst = sequences == 1 ? qs_shape_of(2, src->dim[0], src->dim[1]) : qs_shape_of(3, src->dim[0], src->dim[1], sequences);
    return QS_OK;
}

static int64_t place_of(const qs_attributes *with, const qs_shape *whole, const qs_shape *part, int64_t i) {
    const int64_t channels = part->dim[1];
    return (i / channels * length_of(with, whole) + taken(with, whole)) * channels + i % channels;
}

QS__MOVING_KERNELS(place_of)

static double flops_forward(const qs_case *one) {
    return (double)qs_shape_count(qs__shape(one, QS_DST));
}

static const qs_pass passes[] = {QS__MOVING_PASSES(flops_forward, qs__moving_forward_check, qs__moving_backward_check)};

#define EVERY(F, S, D, P) "position/forward src=" F S " dst=" F D P, "position/backward diff_dst=" F D " diff_src=" F S P

static const char *const cases[] = {EVERY("fp32", "[4,16,8]", "[4,16]", ""),
                                    EVERY("fp32", "[3,7,5]", "[3,7]", " position=-1"),
                                    EVERY("fp32", "[1,1,1]", "[1,1]", ""),
                                    EVERY("bf16", "[5,33,9]", "[5,33]", " position=3"),
                                    EVERY("fp16", "[2,8,5]", "[2,8]", " position=-2"),
                                    EVERY("fp32", "[3,7,12]", "[3,7,4]", " position=1 sequences=4"),
                                    EVERY("bf16", "[2,16,10]", "[2,16,2]", " position=-1 sequences=2"),
                                    NULL};

const qs_op qs__op_position = {
    .name = "position",
    .kind = QS_DEPENDENT,
    .sign = QS_SIGN_KEPT,
    .inputs = 1,
    .infer = infer,
    .setting = {QS_SETTING(position, 0, -2147483648.0, 2147483647, "the one that is taken, from the end where it is negative"),
                QS_SETTING(sequences, 0, 0, 65536, "one behind the other: it is taken of each; 0: one")},
    .passes = 2,
    .pass = passes,
    .cases = cases};
