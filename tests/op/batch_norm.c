// SPDX-License-Identifier: Apache-2.0
// labels: short
/* batch_norm: normalised output, what is added to it, running statistics, inference, gradients, defaults. */
#include "norm_support.h"

TEST(cases) {
    check_cases("batch_norm");
}

TEST(gradients) {
    check_gradients("batch_norm");
}

static const char forward[] = "batch_norm/forward src=fp32[4,3,5,5] scale=fp32[3] shift=fp32[3] mean=fp32[3] variance=fp32[3] "
                              "running_mean=fp32[3] running_variance=fp32[3] dst=fp32[4,3,5,5] epsilon=1e-05 momentum=0.1";

/* The output of a channel has mean `shift` and variance scale² v/(v + ε); R = 100 values rounded to half an ulp of |y| < 8 move the mean
 * by less than 2^-22 and the variance by less than 2^-20. */
TEST(output_is_normalized) {
    bound b;
    bound_parse(&b, forward, 31);
    bound_run(&b);
    const float *y = bound_fp32(&b, QS_DST);
    for (int c = 0; c < 3; c++) {
        double mean = 0, variance = 0, scale = (double)bound_fp32(&b, QS_SCALE)[c], v = (double)bound_fp32(&b, QS_VARIANCE)[c];
        for (int i = 0; i < 100; i++)
            mean += (double)y[i * 3 + c] / 100;
        for (int i = 0; i < 100; i++)
            variance += pow((double)y[i * 3 + c] - mean, 2) / 100;
        assert_true(fabs(mean - (double)bound_fp32(&b, QS_SHIFT)[c]) < 0x1p-22);
        assert_true(fabs(variance - scale * scale * v / (v + 1e-5)) < 0x1p-20);
    }
    bound_release(&b);
}

/* x = 1, 2, 3, 4: mean 2.5, biased variance 1.25, unbiased 5/3. Running values move a tenth of the way, from 0 and 1. */
TEST(running_statistics) {
    bound b;
    bound_parse(&b,
                "batch_norm/forward src=fp32[4,1] scale=fp32[1] shift=fp32[1] mean=fp32[1] variance=fp32[1] running_mean=fp32[1] "
                "running_variance=fp32[1] dst=fp32[4,1] epsilon=1e-05 momentum=0.1",
                32);
    for (int i = 0; i < 4; i++)
        bound_fp32(&b, QS_SRC)[i] = (float)(i + 1);
    bound_fp32(&b, QS_RUNNING_MEAN)[0] = 0;
    bound_fp32(&b, QS_RUNNING_VARIANCE)[0] = 1;
    bound_run(&b);
    assert_true(bound_fp32(&b, QS_MEAN)[0] == 2.5f);
    assert_true(bound_fp32(&b, QS_VARIANCE)[0] == 1.25f);
    assert_true(bound_fp32(&b, QS_RUNNING_MEAN)[0] == 0.25f);
    assert_true(fabs((double)bound_fp32(&b, QS_RUNNING_VARIANCE)[0] - (0.9 + 0.1 * 5 / 3)) < 0x1p-23);
    bound_release(&b);
}

/* With the batch's own (biased) statistics as running ones, inference is the training forward but for their rounding to fp32. */
TEST(inference_with_batch_statistics) {
    bound training, inference;
    bound_parse(&training, forward, 33);
    bound_run(&training);
    bound_parse(&inference,
                "batch_norm/inference src=fp32[4,3,5,5] scale=fp32[3] shift=fp32[3] running_mean=fp32[3] running_variance=fp32[3] "
                "dst=fp32[4,3,5,5] epsilon=1e-05 momentum=0.1",
                34);
    bound_share(&inference, &training);
    memcpy(bound_fp32(&inference, QS_RUNNING_MEAN), bound_fp32(&training, QS_MEAN), 3 * sizeof(float));
    memcpy(bound_fp32(&inference, QS_RUNNING_VARIANCE), bound_fp32(&training, QS_VARIANCE), 3 * sizeof(float));
    bound_run(&inference);
    assert_close(300, bound_fp32(&inference, QS_DST), bound_fp32(&training, QS_DST), 0x1p-21, 0x1p-21, "inference");
    bound_release(&training);
    bound_release(&inference);
}

TEST(defaults_and_rules) {
    qs_case one = qs_case_make("batch_norm", "forward", NULL);
    assert_true(one.attributes.epsilon == 1e-5 && one.attributes.momentum == 0.1);
    assert_ok(qs_case_parse("batch_norm/forward src=fp32[1,2] scale=fp32[2] shift=fp32[2] mean=fp32[2] variance=fp32[2] "
                            "running_mean=fp32[2] running_variance=fp32[2] dst=fp32[1,2]",
                            &one));
    assert_refused(qs_case_check(&one), QS_USAGE, "no variance");
    qs_parameter_rule rules[QS_MAX_PARAMETERS];
    qs_shape src = qs_shape_of(4, 1, 12, 3, 3);
    assert_int_equal(qs_op_of("batch_norm")->parameters(&one.attributes, &src, 0, false, rules), 4);
    assert_true(rules[0].initial == 1 && rules[3].initial == 1 && rules[3].gradient == QS_ROLE_COUNT);
    assert_true(qs_shape_count(&rules[2].shape) == 12);
}

TEST(relu_behind) {
    check_relu_behind("batch_norm");
}

/* What is added is added to the normalised values, which are not rounded before: of two results that are rounded once each the sum is off
 * by an ulp of both at most; statistics are those of src alone. */
static void residual_added(const char *pass, const char *plain_text) {
    bound plain, fused;
    bound_parse(&plain, plain_text, 35);
    qs_case one = plain.one;
    qs_case_bind(&one, QS_SRC2, bound_tensor(&plain, QS_SRC)->shape, qs_format_of("fp32"));
    bound_make(&fused, &one, 36);
    bound_share(&fused, &plain);
    bound_run(&plain);
    bound_run(&fused);
    const float *y = bound_fp32(&plain, QS_DST), *more = bound_fp32(&fused, QS_SRC2), *got = bound_fp32(&fused, QS_DST);
    for (int64_t i = 0; i < bound_count(&plain, QS_DST); i++) {
        const double sum = (double)y[i] + (double)more[i], allowed = 0x1p-24 * (fabs((double)y[i]) + fabs(sum));
        if (!(fabs((double)got[i] - sum) <= allowed)) fail_msg("%s: %.9g is not %.9g", pass, (double)got[i], sum);
    }
    same_operand(&plain, QS_RUNNING_MEAN, &fused, QS_RUNNING_MEAN, pass);
    same_operand(&plain, QS_RUNNING_VARIANCE, &fused, QS_RUNNING_VARIANCE, pass);
    bound_release(&plain);
    bound_release(&fused);
}

TEST(residual) {
    residual_added("forward", forward);
    residual_added("inference", "batch_norm/inference src=fp32[4,3,5,5] scale=fp32[3] shift=fp32[3] running_mean=fp32[3] "
                                "running_variance=fp32[3] dst=fp32[4,3,5,5] epsilon=1e-05 momentum=0.1");
    expect_refused("batch_norm/inference src=fp32[4,2] scale=fp32[2] shift=fp32[2] running_mean=fp32[2] running_variance=fp32[2] "
                   "src2=fp32[4,3] dst=fp32[4,2]",
                   "src2 is [4,3]");
    expect_refused("l2_batch_norm_int8/inference src=int8[4,2] src_step=fp32[1] scale=fp32[2] shift=fp32[2] running_mean=fp32[2] "
                   "running_variance=fp32[2] src2=fp32[4,2] dst=fp32[4,2]",
                   "in floating point only");
}

TEST_MAIN(cases, gradients, relu_behind, residual, output_is_normalized, running_statistics, inference_with_batch_statistics,
          defaults_and_rules)
