// SPDX-License-Identifier: Apache-2.0
/* Test cases that normalisations share, by their names and the names of their spreads. */
#ifndef QSYNC_OP_NORM_CASES_H
#define QSYNC_OP_NORM_CASES_H

/* Text of cases: F format, S shape, C channels, X how src is given, D the spread's name, M mask (or nothing), E absmax (or nothing), A
 * further attributes. */
#define QS__NORM_ABSMAX " absmax=fp32[1]"
#define QS__NORM_VECTOR(C) "=fp32[" C "] "
#define QS__NORM_WITH " epsilon=1e-05 momentum=0.1"
#define QS__NORM_INFERENCE(NAME, X, D, F, S, C, A)                                                                                 \
    NAME "/inference src=" X " scale" QS__NORM_VECTOR(C) "shift" QS__NORM_VECTOR(C) "running_mean" QS__NORM_VECTOR(C) "running_" D \
    QS__NORM_VECTOR(C) "dst=" F S QS__NORM_WITH A
#define QS__NORM_TRAINING_WITH(NAME, X, D, F, S, C, M, E, A)                                                                   \
    NAME "/forward src=" X " scale" QS__NORM_VECTOR(C) "shift" QS__NORM_VECTOR(C) "mean" QS__NORM_VECTOR(C) D QS__NORM_VECTOR( \
        C) "running_mean" QS__NORM_VECTOR(C) "running_" D                                                                      \
    QS__NORM_VECTOR(C) M "dst=" F S E QS__NORM_WITH A,                                                                         \
        NAME "/backward src=" X " scale" QS__NORM_VECTOR(C) "mean" QS__NORM_VECTOR(C) D QS__NORM_VECTOR(C) M                   \
        "diff_dst=" F S " diff_src=" F S " diff_scale" QS__NORM_VECTOR(C) "diff_shift=fp32[" C "]" E QS__NORM_WITH A
/* With something added to what is normalised, of format G, in training and inference: a format and mask of each, as above. */
#define QS__NORM_RESIDUAL(NAME, D, F, G, S, C, M, E, A)                                                                                  \
    NAME "/forward src=" F S " scale" QS__NORM_VECTOR(C) "shift" QS__NORM_VECTOR(C) "mean" QS__NORM_VECTOR(C) D QS__NORM_VECTOR(         \
        C) "running_mean" QS__NORM_VECTOR(C) "running_" D                                                                                \
    QS__NORM_VECTOR(C) "src2=" G S " " M "dst=" F S E QS__NORM_WITH A,                                                                   \
        NAME "/inference src=" F S " scale" QS__NORM_VECTOR(C) "shift" QS__NORM_VECTOR(C) "running_mean" QS__NORM_VECTOR(C) "running_" D \
        QS__NORM_VECTOR(C) "src2=" G S " dst=" F S QS__NORM_WITH A
#define QS__NORM_TRAINING(NAME, X, D, F, S, C, M, A) QS__NORM_TRAINING_WITH(NAME, X, D, F, S, C, M, "", A)

/* The same of layer norms; P positions. */
#define QS__LAYER_INFERENCE(NAME, X, F, S, C, A) \
    NAME "/inference src=" X " scale" QS__NORM_VECTOR(C) "shift" QS__NORM_VECTOR(C) "dst=" F S " epsilon=1e-05" A
#define QS__LAYER_TRAINING_WITH(NAME, X, D, F, S, C, P, M, E, A)                                                                   \
    NAME "/forward src=" X " scale" QS__NORM_VECTOR(C) "shift" QS__NORM_VECTOR(C) "mean" QS__NORM_VECTOR(P) D QS__NORM_VECTOR(P) M \
        "dst=" F S E " epsilon=1e-05" A,                                                                                           \
        NAME "/backward src=" X " scale" QS__NORM_VECTOR(C) "mean" QS__NORM_VECTOR(P) D QS__NORM_VECTOR(P) M                       \
        "diff_dst=" F S " diff_src=" F S " diff_scale" QS__NORM_VECTOR(C) "diff_shift=fp32[" C "]" E " epsilon=1e-05" A
#define QS__LAYER_TRAINING(NAME, X, D, F, S, C, P, M, A) QS__LAYER_TRAINING_WITH(NAME, X, D, F, S, C, P, M, "", A)

/* In 8 bits. */
#define QS__INT8_SRC(S) "int8" S " src_step=fp32[1]"
#define QS__INT8_INFERENCE(NAME, D, F, S, C, A) QS__NORM_INFERENCE(NAME, QS__INT8_SRC(S), D, F, S, C, A)
#define QS__INT8_EVERY(NAME, D, F, S, C) \
    QS__NORM_TRAINING(NAME, QS__INT8_SRC(S), D, F, S, C, "", ""), QS__INT8_INFERENCE(NAME, D, F, S, C, "")
#define QS__INT8_RELU(NAME, D, F, S, C, M, A) \
    QS__NORM_TRAINING(NAME, QS__INT8_SRC(S), D, F, S, C, "mask=int8[" M "] ", A " relu"), QS__INT8_INFERENCE(NAME, D, F, S, C, A " relu")
#define QS__NORM_INT8_CASES(NAME, D)                                                                                         \
    QS__INT8_EVERY(NAME, D, "fp32", "[8,16,8,8]", "16"), QS__INT8_EVERY(NAME, D, "fp32", "[2,5,7,3]", "5"),                  \
        QS__INT8_EVERY(NAME, D, "fp32", "[16,33]", "33"), QS__INT8_EVERY(NAME, D, "bf16", "[8,16,8,8]", "16"),               \
        QS__INT8_EVERY(NAME, D, "bf16", "[16,33]", "33"), QS__INT8_EVERY(NAME, D, "fp16", "[2,16,4,4]", "16"),               \
        QS__NORM_TRAINING_WITH(NAME, QS__INT8_SRC("[6,24,7,5]"), D, "bf16", "[6,24,7,5]", "24", "", QS__NORM_ABSMAX, ""),    \
        QS__INT8_INFERENCE(NAME, D, "fp32", "[1,10]", "10", ""), QS__INT8_RELU(NAME, D, "fp32", "[2,5,7,3]", "5", "27", ""), \
        QS__INT8_RELU(NAME, D, "bf16", "[8,16,8,8]", "16", "1024", " ceiling=0.5")

/* Over the channels of positions. */
#define QS__LAYER_EVERY(NAME, D, F, S, C, P) \
    QS__LAYER_TRAINING(NAME, F S, D, F, S, C, P, "", ""), QS__LAYER_INFERENCE(NAME, F S, F, S, C, "")
#define QS__LAYER_RELU(NAME, D, F, S, C, P, M, A) \
    QS__LAYER_TRAINING(NAME, F S, D, F, S, C, P, "mask=int8[" M "] ", A " relu"), QS__LAYER_INFERENCE(NAME, F S, F, S, C, A " relu")
#define QS__LAYER_CASES(NAME, D)                                                                                                         \
    QS__LAYER_EVERY(NAME, D, "fp32", "[8,16,8,8]", "16", "512"), QS__LAYER_EVERY(NAME, D, "fp32", "[2,5,7,3]", "5", "42"),               \
        QS__LAYER_EVERY(NAME, D, "fp32", "[16,33]", "33", "16"), QS__LAYER_EVERY(NAME, D, "fp32", "[3,257]", "257", "3"),                \
        QS__LAYER_EVERY(NAME, D, "bf16", "[8,16,8,8]", "16", "512"), QS__LAYER_EVERY(NAME, D, "bf16", "[16,33]", "33", "16"),            \
        QS__LAYER_EVERY(NAME, D, "fp32", "[4,24,9]", "24", "36"), QS__LAYER_EVERY(NAME, D, "bf16", "[3,40,7]", "40", "21"),              \
        QS__LAYER_EVERY(NAME, D, "fp16", "[2,16,4,4]", "16", "32"), QS__LAYER_INFERENCE(NAME, "fp32[1,10]", "fp32", "[1,10]", "10", ""), \
        QS__LAYER_RELU(NAME, D, "fp32", "[2,5,7,3]", "5", "42", "27", ""),                                                               \
        QS__LAYER_RELU(NAME, D, "bf16", "[16,33]", "33", "16", "66", ""),                                                                \
        QS__LAYER_RELU(NAME, D, "bf16", "[8,16,8,8]", "16", "512", "1024", " ceiling=0.5"),                                              \
        QS__LAYER_TRAINING_WITH(NAME, "fp32[5,37,7,5]", D, "fp32", "[5,37,7,5]", "37", "175", "", QS__NORM_ABSMAX, ""),                  \
        QS__LAYER_TRAINING_WITH(NAME, "bf16[16,33]", D, "bf16", "[16,33]", "33", "16", "mask=int8[66] ", QS__NORM_ABSMAX, " relu")

/* In 8 bits. */
#define QS__LAYER_INT8_EVERY(NAME, D, F, S, C, P) \
    QS__LAYER_TRAINING(NAME, QS__INT8_SRC(S), D, F, S, C, P, "", ""), QS__LAYER_INFERENCE(NAME, QS__INT8_SRC(S), F, S, C, "")
#define QS__LAYER_INT8_RELU(NAME, D, F, S, C, P, M, A)                                        \
    QS__LAYER_TRAINING(NAME, QS__INT8_SRC(S), D, F, S, C, P, "mask=int8[" M "] ", A " relu"), \
        QS__LAYER_INFERENCE(NAME, QS__INT8_SRC(S), F, S, C, A " relu")
#define QS__LAYER_INT8_CASES(NAME, D)                                                                                                   \
    QS__LAYER_INT8_EVERY(NAME, D, "fp32", "[8,16,8,8]", "16", "512"), QS__LAYER_INT8_EVERY(NAME, D, "fp32", "[2,5,7,3]", "5", "42"),    \
        QS__LAYER_INT8_EVERY(NAME, D, "fp32", "[3,577]", "577", "3"), QS__LAYER_INT8_EVERY(NAME, D, "bf16", "[8,16,8,8]", "16", "512"), \
        QS__LAYER_INT8_EVERY(NAME, D, "fp32", "[4,24,9]", "24", "36"), QS__LAYER_INT8_EVERY(NAME, D, "bf16", "[3,40,7]", "40", "21"),   \
        QS__LAYER_INT8_EVERY(NAME, D, "bf16", "[16,33]", "33", "16"), QS__LAYER_INT8_EVERY(NAME, D, "fp16", "[2,16,4,4]", "16", "32"),  \
        QS__LAYER_INT8_RELU(NAME, D, "fp32", "[2,5,7,3]", "5", "42", "27", ""),                                                         \
        QS__LAYER_INT8_RELU(NAME, D, "bf16", "[8,16,8,8]", "16", "512", "1024", " ceiling=0.5"),                                        \
        QS__LAYER_TRAINING_WITH(NAME, QS__INT8_SRC("[16,33]"), D, "bf16", "[16,33]", "33", "16", "", QS__NORM_ABSMAX, "")

#endif
