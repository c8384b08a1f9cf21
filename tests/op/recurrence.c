// SPDX-License-Identifier: Apache-2.0
// labels: short
/* recurrence: values by hand, both directions, both GRUs where they agree, gradients by differences, what it refuses. PyTorch's values and
 * gradients are those of imported models (onnx.import, onnx.gradients). */
#include "kit/cases.h"

TEST(cases) {
    check_cases("recurrence");
}

TEST(gradients) {
    check_gradients("recurrence");
}

static void set(bound *b, qs_role role, const float *values) {
    memcpy(bound_fp32(b, role), values, tensor_bytes(bound_tensor(b, role)));
}

/* h = tanh(x + 2 h' - 1/2) of 1, 0; fp32 rounds what is below 1 by at most 2^-25. */
TEST(by_hand) {
    bound b;
    bound_parse(&b, "recurrence/forward src=fp32[1,1,2] weights=fp32[1,1] bias=fp32[1] dst=fp32[1,1,2]", 71);
    set(&b, QS_SRC, (float[]){1, 0});
    set(&b, QS_WEIGHTS, (float[]){2});
    set(&b, QS_BIAS, (float[]){-0.5f});
    bound_run(&b);
    assert_true(fabs((double)bound_fp32(&b, QS_DST)[0] - tanh(0.5)) < 0x1p-24);
    assert_true(fabs((double)bound_fp32(&b, QS_DST)[1] - tanh(2 * tanh(0.5) - 0.5)) < 0x1p-24);
    bound_release(&b);
}

/* relu: 1, then 1 - 2 is cut to 0, then 3. Only what was not cut hands gradients on: 8 to the last, its 8 · -2 ends at the one that was
 * cut, which has none, and so the first has its own 2 alone. */
TEST(relu_by_hand) {
    const char *shapes = "src=fp32[1,1,3] weights=fp32[1,1] bias=fp32[1]";
    char text[QS_CASE_TEXT];
    bound b;
    snprintf(text, sizeof text,
             "recurrence/backward %s diff_dst=fp32[1,1,3] diff_src=fp32[1,1,3] diff_weights=fp32[1,1] diff_bias=fp32[1] cell=1", shapes);
    bound_parse(&b, text, 72);
    set(&b, QS_SRC, (float[]){1, 1, 3});
    set(&b, QS_WEIGHTS, (float[]){-2});
    set(&b, QS_BIAS, (float[]){0});
    set(&b, QS_DIFF_DST, (float[]){2, 4, 8});
    bound_run(&b);
    assert_close(3, bound_fp32(&b, QS_DIFF_SRC), (float[]){2, 0, 8}, 0, 0, "relu");
    assert_true(bound_fp32(&b, QS_DIFF_WEIGHTS)[0] == 0 && bound_fp32(&b, QS_DIFF_BIAS)[0] == 10);
    bound_release(&b);
}

/* A reversed sequence, in reverse, gives the states in reverse, bit for bit. */
TEST(both_directions) {
    enum { CELLS = 5, LENGTH = 4, HIDDEN = 3 };
    static const int gates[CELLS] = {1, 1, 4, 3, 3};
    for (int cell = 0; cell < CELLS; cell++) {
        char text[QS_CASE_TEXT];
        bound on, back;
        const int width = gates[cell] * HIDDEN;
        for (int reverse = 0; reverse < 2; reverse++) {
            snprintf(text, sizeof text,
                     "recurrence/forward src=fp32[1,%d,%d] weights=fp32[%d,%d] bias=fp32[%d] dst=fp32[1,%d,%d] cell=%d direction=%d", width,
                     LENGTH, width, HIDDEN, width, HIDDEN, LENGTH, cell, reverse);
            bound_parse(reverse ? &back : &on, text, 73);
        }
        for (int l = 0; l < LENGTH; l++)
            memcpy(bound_fp32(&back, QS_SRC) + l * width, bound_fp32(&on, QS_SRC) + (LENGTH - 1 - l) * width,
                   (size_t)width * sizeof(float));
        bound_run(&on);
        bound_run(&back);
        for (int l = 0; l < LENGTH; l++)
            assert_memory_equal(bound_fp32(&back, QS_DST) + l * HIDDEN, bound_fp32(&on, QS_DST) + (LENGTH - 1 - l) * HIDDEN,
                                HIDDEN * sizeof(float));
        bound_release(&on);
        bound_release(&back);
    }
}

/* A reset gate that is open to within fp32 (σ(40) = 1 - 4e-18) is the same before the product and behind it; one that is not is another. */
TEST(two_grus) {
    for (int open = 0; open < 2; open++) {
        bound early, late;
        bound_parse(&early, "recurrence/forward src=fp32[2,9,4] weights=fp32[9,3] bias=fp32[9] dst=fp32[2,3,4] cell=3", 74);
        bound_parse(&late, "recurrence/forward src=fp32[2,9,4] weights=fp32[9,3] bias=fp32[9] dst=fp32[2,3,4] cell=4", 74);
        for (int i = 0; i < 8 * 9; i++)
            if (open && i % 9 / 3 == 1) bound_fp32(&early, QS_SRC)[i] = 40;
        for (int i = 0; i < 9 * 3; i++)
            if (open && i / 9 == 1) bound_fp32(&early, QS_WEIGHTS)[i] = 0;
        bound_share(&late, &early);
        bound_run(&early);
        bound_run(&late);
        double furthest = 0;
        for (int i = 0; i < 24; i++)
            furthest = fmax(furthest, fabs((double)bound_fp32(&early, QS_DST)[i] - (double)bound_fp32(&late, QS_DST)[i]));
        assert_true(open ? furthest < 0x1p-22 : furthest > 0x1p-10);
        bound_release(&early);
        bound_release(&late);
    }
}

/* Codes, nearest-even. h = tanh(x + 2 h' - 1/2) of 1, 0: R has the code 127, h' = tanh(1/2) = 0.46212 of steps of 1/127 the code 59. */
TEST(codes_by_hand) {
    bound b;
    bound_parse(&b, "recurrence/forward src=fp32[1,1,2] weights=fp32[1,1] bias=fp32[1] dst=fp32[1,1,2] to=int8", 75);
    set(&b, QS_SRC, (float[]){1, 0});
    set(&b, QS_WEIGHTS, (float[]){2});
    set(&b, QS_BIAS, (float[]){-0.5f});
    bound_run(&b);
    assert_true(fabs((double)bound_fp32(&b, QS_DST)[0] - tanh(0.5)) < 0x1p-24);
    assert_true(fabs((double)bound_fp32(&b, QS_DST)[1] - tanh(2 * 59.0 / 127 - 0.5)) < 0x1p-22); /* steps are fp32 */
    bound_release(&b);
}

/* Two hidden values whose states are tanh of 1/2 and of -1, at the second of two positions, and R = (1 1/2; 0 -1/4). The gradients of the
 * sums there, p, have a step of their own for the gradient of h', and one of both positions for that of R, whose factor h' has the codes
 * that forward met. By hand, with R's codes by column: 127 and 0; 127 and -63.5, which goes to the even -64. */
TEST(gradients_of_codes_by_hand) {
    bound b;
    bound_parse(&b,
                "recurrence/backward src=fp32[1,2,2] weights=fp32[2,2] diff_dst=fp32[1,2,2] diff_src=fp32[1,2,2] diff_weights=fp32[2,2] "
                "to=int8 gradients=int8",
                76);
    set(&b, QS_SRC, (float[]){0.5f, -1, 0, 0.25f});
    set(&b, QS_WEIGHTS, (float[]){1, 0.5f, 0, -0.25f});
    set(&b, QS_DIFF_DST, (float[]){0, 0, 1, -0.5f});
    bound_run(&b);
    const double step = 1.0 / 127, met[2] = {rint(tanh(0.5) / step), rint(tanh(-1) / step)}, before[2] = {tanh(0.5), tanh(-1)};
    const double row[2] = {1 * step, 0.25 * step}, code[2][2] = {{127, 64}, {0, -127}}; /* 63.5 goes to the even 64 */
    const double back[2][2] = {{127, 127}, {0, -64}}, column[2] = {1 * step, 0.5 * step};
    double p[2][2], codes[2], all[2][2];
    for (int i = 0; i < 2; i++) {
        const double sum = (i ? 0.25 : 0) + row[i] * step * (code[i][0] * met[0] + code[i][1] * met[1]), h = tanh(sum);
        p[1][i] = (i ? -0.5 : 1) * (1 - h * h);
    }
    const double of_step = fmax(fabs(p[1][0]), fabs(p[1][1])) / 127;
    for (int i = 0; i < 2; i++)
        codes[i] = rint(p[1][i] / of_step);
    for (int k = 0; k < 2; k++)
        p[0][k] = of_step * column[k] * (codes[0] * back[0][k] + codes[1] * back[1][k]) * (1 - before[k] * before[k]);
    double largest = of_step * 127;
    for (int k = 0; k < 2; k++)
        largest = fmax(largest, fabs(p[0][k]));
    for (int l = 0; l < 2; l++)
        for (int i = 0; i < 2; i++) {
            all[l][i] = rint(p[l][i] / (largest / 127)) * largest / 127;
            assert_true(fabs((double)bound_fp32(&b, QS_DIFF_SRC)[2 * l + i] - p[l][i]) < 0x1p-21);
        }
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++) /* nothing was there before the first position */
            assert_true(fabs((double)bound_fp32(&b, QS_DIFF_WEIGHTS)[2 * i + k] - all[1][i] * met[k] * step) < 0x1p-21);
    bound_release(&b);
}

/* With the codes that forward met, gradients of codes are those of floats in expectation: backward is linear in what it rounds, and draws
 * are independent. The mean of their difference over many steps lies within 5.5 standard errors at each element (one in 10^7 lies beyond by
 * chance), and its square is on average that of a standard error, to within a factor that a thousand elements leave no doubt about.
 * Rounding to nearest fails the same bounds. */
TEST(unbiased) {
    enum { TRIALS = 300 };
    static const char *const shapes[] = {
        "src=fp32[2,24,4] weights=fp32[24,6] bias=fp32[24] diff_dst=fp32[2,6,4] diff_src=fp32[2,24,4] diff_weights=fp32[24,6] "
        "diff_bias=fp32[24] cell=2",
        "src=fp32[3,15,4] weights=fp32[15,5] bias=fp32[15] diff_dst=fp32[3,5,4] diff_src=fp32[3,15,4] diff_weights=fp32[15,5] "
        "diff_bias=fp32[15] cell=3",
        "src=fp32[2,30,4] weights=fp32[30,5] bias=fp32[60] diff_dst=fp32[2,10,4] diff_src=fp32[2,30,4] diff_weights=fp32[30,5] "
        "diff_bias=fp32[60] cell=4 direction=2 biases=2"};
    static const qs_role written[] = {QS_DIFF_SRC, QS_DIFF_WEIGHTS, QS_DIFF_BIAS};
    for (size_t s = 0; s < COUNT_OF(shapes); s++)
        for (int stochastic = 0; stochastic < 2; stochastic++) {
            double sum[3][512] = {{0}}, square[3][512] = {{0}}, mean2 = 0;
            char text[QS_CASE_TEXT];
            bound plain, coded;
            int elements = 0, beyond = 0;
            snprintf(text, sizeof text, "recurrence/backward %s%s to=int8", shapes[s], stochastic ? " rounding=stochastic" : "");
            bound_parse(&plain, text, 77);
            snprintf(text + strlen(text), sizeof text - strlen(text), " gradients=int4");
            bound_parse(&coded, text, 77);
            bound_share(&coded, &plain);
            for (int t = 0; t < TRIALS; t++) {
                plain.run.step = coded.run.step = (uint64_t)t;
                bound_run(&plain);
                bound_run(&coded);
                for (int w = 0; w < 3; w++)
                    for (int64_t i = 0; i < bound_count(&plain, written[w]); i++) {
                        const double off = (double)bound_fp32(&coded, written[w])[i] - (double)bound_fp32(&plain, written[w])[i];
                        sum[w][i] += off;
                        square[w][i] += off * off;
                    }
            }
            for (int w = 0; w < 3; w++)
                for (int64_t i = 0; i < bound_count(&plain, written[w]); i++) {
                    const double mean = sum[w][i] / TRIALS, variance = (square[w][i] / TRIALS - mean * mean) / (TRIALS - 1);
                    if (fabs(mean) < 0x1p-20) continue; /* the last position's gradients of x are the same */
                    const double z2 = variance > 0 ? mean * mean / variance : INFINITY;
                    beyond += z2 > 5.5 * 5.5;
                    mean2 += z2;
                    elements++;
                }
            mean2 /= elements;
            assert_true(elements > 100);
            assert_true(stochastic ? beyond == 0 && mean2 > 0.5 && mean2 < 2 : beyond > elements / 10);
            bound_release(&plain);
            bound_release(&coded);
        }
}

TEST(refusals) {
    expect_refused("recurrence/forward src=fp32[2,10,4] weights=fp32[10,3] dst=fp32[2,3,4] cell=2", "4 gates");
    expect_refused("recurrence/forward src=fp32[2,12] weights=fp32[12,3] dst=fp32[2,3] cell=2", "N,C,L");
    expect_refused("recurrence/forward src=fp32[2,12,4] weights=fp32[12,4] dst=fp32[2,3,4] cell=2", "weights");
    expect_refused("recurrence/forward src=fp32[2,12,4] weights=fp32[12,3] bias=fp32[3] dst=fp32[2,3,4] cell=2", "bias");
    expect_refused("recurrence/forward src=fp32[2,12,4] weights=fp32[12,3] dst=fp32[2,4,4] cell=2", "dst");
    expect_refused("recurrence/forward src=fp32[2,12,4] weights=fp32[12,3] dst=fp32[2,3,4] cell=2.5", "cell 2.5");
    expect_refused("recurrence/forward src=fp32[2,12,4] weights=fp32[12,3] dst=fp32[2,3,4] cell=5", "cell");
    expect_refused("recurrence/forward src=fp32[2,12,4] weights=fp32[12,3] dst=fp32[2,3,4] cell=2 to=uint4", "signed");
    expect_refused("recurrence/forward src=fp32[2,12,4] weights=fp32[12,3] dst=fp32[2,3,4] cell=2 to=bf16", "signed");
    expect_refused("recurrence/forward src=fp32[2,12,4] weights=fp32[12,3] dst=fp32[2,3,4] cell=2 gradients=int8", "to=int8");
    expect_refused("recurrence/forward src=fp32[2,12,4] weights=fp32[12,3] dst=fp32[2,3,4] cell=2 to=int8 gradients=int8",
                   "forward has none");
    expect_refused("recurrence/forward src=fp32[2,12,4] weights=bf16[12,3] dst=fp32[2,3,4] cell=2 to=int8", "fp32 weights");
    expect_refused("recurrence/forward src=fp32[2,3,4] weights=fp32[3,3] dst=fp32[2,3,4] cell=1 to=int8", "no bound");
    expect_refused("linear/forward src=fp32[4,20] weights=fp32[12,20] dst=fp32[4,12] gradients=int8", "only a recurrence");
}

TEST_MAIN(cases, gradients, by_hand, relu_by_hand, both_directions, two_grus, codes_by_hand, gradients_of_codes_by_hand, unbiased, refusals)
