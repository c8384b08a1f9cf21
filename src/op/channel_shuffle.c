// SPDX-License-Identifier: Apache-2.0
/* channel_shuffle: Zhang et al. 2018. Channels stand in `groups` equal groups; the result takes the first of every group, then the second
 * of every group, and so on: seen as a groups × members matrix, the transpose. Passes: forward src dst; backward diff_dst diff_src; values
 * are moved as they are. */
#include "internal.h"

static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)outputs;
    char text[96];
    if (src->axes < 2 || with->groups < 1 || src->dim[1] % with->groups) {
        return qs_fail(QS_USAGE, "channel_shuffle: the channels of %s are not %d equal groups", qs_shape_text(src, text), with->groups);
    }
    *dst = *src;
    return QS_OK;
}

/* Where the result's element i lies in the input: its channel c is the input's c mod g · C/g + c div g. */
static int64_t place_of(const qs_attributes *with, const qs_shape *src, const qs_shape *dst, int64_t i) {
    (void)dst;
    const int64_t channels = src->dim[1], c = i % channels;
    return i - c + c % with->groups * (channels / with->groups) + c / with->groups;
}

QS__MOVING_KERNELS(place_of)

static const qs_pass passes[] = {QS__MOVING_PASSES(NULL, qs__moving_forward_check, qs__moving_backward_check)};

#define EVERY(F, S, G) \
    "channel_shuffle/forward src=" F S " dst=" F S " groups=" G, "channel_shuffle/backward diff_dst=" F S " diff_src=" F S " groups=" G

static const char *const cases[] = {EVERY("fp32", "[4,32,8,8]", "2"),
                                    EVERY("fp32", "[2,15,5,7]", "3"),
                                    EVERY("fp32", "[3,12]", "4"),
                                    EVERY("bf16", "[4,24,8,8]", "2"),
                                    EVERY("bf16", "[1,58,5,7]", "29"),
                                    EVERY("fp16", "[2,12,4,4]", "3"),
                                    NULL};

const qs_op qs__op_channel_shuffle = {.name = "channel_shuffle",
                                      .takes = QS_TAKES_GROUPS,
                                      .kind = QS_DEPENDENT,
                                      .decoding = QS_ONE_POSITION,
                                      .sign = QS_SIGN_KEPT,
                                      .inputs = 1,
                                      .infer = infer,
                                      .passes = 2,
                                      .pass = passes,
                                      .cases = cases};
