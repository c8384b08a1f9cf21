// SPDX-License-Identifier: Apache-2.0
/* Products of codes, in all passes, with and without shift groups: what op checks by its definition and devices against the reference. */
#ifndef QSYNC_TESTS_KIT_INTEGER_CASES
#define QSYNC_TESTS_KIT_INTEGER_CASES

#include "kit.h"

/* All passes in codes of format C, K steps of weights forward, J in the input gradient. */
#define CODES(F, X, C, S, W, D, K, J, O, A)                                                                                      \
    "conv2d/forward src=" X S " src_step=fp32[1] weights=" C W " weights_step=fp32[" K "] dst=" F D A,                           \
        "conv2d/input_gradient weights=" C W " weights_step=fp32[" J "] diff_dst=" C D " diff_dst_step=fp32[1] diff_src=" F S A, \
        "conv2d/weight_gradient src=" X S " src_step=fp32[1] diff_dst=" C D " diff_dst_step=fp32[1] diff_weights=fp32" W         \
        " diff_bias=fp32[" O "]" A
/* The same with G shift groups of I input and O output channels. */
#define SHIFTS(F, X, C, G, S, W, D, J, I, O, A)                                                                                        \
    "conv2d/forward src=" X S " src_step=fp32[1] src_group=int8[" I "] weights=" C W " weights_step=fp32[" O "] bias=fp32[" O          \
    "] dst=" F D A " shifts=" G,                                                                                                       \
        "conv2d/input_gradient weights=" C W " weights_step=fp32[" J "] diff_dst=" C D " diff_dst_step=fp32[1] diff_dst_group=int8[" O \
        "] diff_src=" F S A " shifts=" G,                                                                                              \
        "conv2d/weight_gradient src=" X S " src_step=fp32[1] src_group=int8[" I "] diff_dst=" C D                                      \
        " diff_dst_step=fp32[1] diff_dst_group=int8[" O "] diff_weights=fp32" W A

/* All passes in codes with G shift groups of channels. */
#define LINEAR_SHIFTS(F, X, C, G, N, I, O)                                                                                         \
    "linear/forward src=" X "[" N "," I "] src_step=fp32[1] src_group=int8[" I "] weights=" C "[" O "," I "] weights_step=fp32[" O \
    "] bias=fp32[" O "] dst=" F "[" N "," O "] shifts=" G,                                                                         \
        "linear/input_gradient weights=" C "[" O "," I "] weights_step=fp32[" I "] diff_dst=" C "[" N "," O                        \
        "] diff_dst_step=fp32[1] diff_dst_group=int8[" O "] diff_src=" F "[" N "," I "] shifts=" G,                                \
        "linear/weight_gradient src=" X "[" N "," I "] src_step=fp32[1] src_group=int8[" I "] diff_dst=" C "[" N "," O             \
        "] diff_dst_step=fp32[1] diff_dst_group=int8[" O "] diff_weights=fp32[" O "," I "] diff_bias=fp32[" O "]"

static const char *const integer_cases[] = {
    CODES("fp32", "int8", "int8", "[2,16,8,8]", "[16,16,3,3]", "[2,16,8,8]", "16", "16", "16", " kernel=3x3 padding=1x1"),
    CODES("bf16", "int8", "int8", "[2,16,8,8]", "[32,16,3,3]", "[2,32,4,4]", "1", "1", "32", " kernel=3x3 stride=2x2 padding=1x1"),
    CODES("fp32", "uint4", "int4", "[1,5,7,9]", "[7,5,3,3]", "[1,7,4,5]", "7", "5", "7", " kernel=3x3 stride=2x2 padding=1x1"),
    SHIFTS("bf16", "uint4", "int4", "4", "[4,32,8,8]", "[32,32,3,3]", "[4,32,8,8]", "32", "32", "32", " kernel=3x3 padding=1x1"),
    SHIFTS("fp32", "uint4", "int4", "6", "[2,16,8,8]", "[32,16,3,3]", "[2,32,4,4]", "16", "16", "32", " kernel=3x3 stride=2x2 padding=1x1"),
    SHIFTS("fp32", "int4", "int4", "4", "[2,3,9,9]", "[16,3,3,3]", "[2,16,9,9]", "3", "3", "16", " kernel=3x3 padding=1x1"),
    SHIFTS("bf16", "uint6", "int6", "4", "[2,16,8,8]", "[32,16,1,1]", "[2,32,4,4]", "16", "16", "32", " kernel=1x1 stride=2x2"),
    SHIFTS("fp32", "int6", "int6", "5", "[1,5,7,9]", "[7,5,3,3]", "[1,7,4,5]", "5", "5", "7", " kernel=3x3 stride=2x2 padding=1x1"),
    SHIFTS("fp32", "int8", "int8", "4", "[2,16,6,6]", "[24,16,3,3]", "[2,24,6,6]", "16", "16", "24", " kernel=3x3 padding=1x1"),
    SHIFTS("fp32", "uint4", "int4", "4", "[2,16,6,6]", "[24,8,3,3]", "[2,24,6,6]", "8", "16", "24", " kernel=3x3 padding=1x1 groups=2"),
    SHIFTS("fp32", "uint4", "int4", "3", "[2,16,7,7]", "[16,1,3,3]", "[2,16,4,4]", "1", "16", "16",
           " kernel=3x3 stride=2x2 padding=1x1 groups=16"),
    "linear/input_gradient weights=int8[12,20] weights_step=fp32[20] diff_dst=int8[4,12] diff_dst_step=fp32[1] diff_src=fp32[4,20]",
    "linear/weight_gradient src=int8[4,20] src_step=fp32[1] diff_dst=int8[4,12] diff_dst_step=fp32[1] diff_weights=fp32[12,20]",
    LINEAR_SHIFTS("fp32", "uint4", "int4", "4", "8", "64", "10"),
    LINEAR_SHIFTS("bf16", "int6", "int6", "5", "16", "128", "96"),
    LINEAR_SHIFTS("fp32", "int8", "int8", "4", "5", "33", "7"),
    NULL};

#endif
