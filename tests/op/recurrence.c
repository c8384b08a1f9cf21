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

TEST(refusals) {
    expect_refused("recurrence/forward src=fp32[2,10,4] weights=fp32[10,3] dst=fp32[2,3,4] cell=2", "4 gates");
    expect_refused("recurrence/forward src=fp32[2,12] weights=fp32[12,3] dst=fp32[2,3] cell=2", "N,C,L");
    expect_refused("recurrence/forward src=fp32[2,12,4] weights=fp32[12,4] dst=fp32[2,3,4] cell=2", "weights");
    expect_refused("recurrence/forward src=fp32[2,12,4] weights=fp32[12,3] bias=fp32[3] dst=fp32[2,3,4] cell=2", "bias");
    expect_refused("recurrence/forward src=fp32[2,12,4] weights=fp32[12,3] dst=fp32[2,4,4] cell=2", "dst");
    expect_refused("recurrence/forward src=fp32[2,12,4] weights=fp32[12,3] dst=fp32[2,3,4] cell=2.5", "cell 2.5");
    expect_refused("recurrence/forward src=fp32[2,12,4] weights=fp32[12,3] dst=fp32[2,3,4] cell=5", "cell");
}

TEST_MAIN(cases, gradients, by_hand, relu_by_hand, both_directions, two_grus, refusals)
