// SPDX-License-Identifier: Apache-2.0
// labels: short
/* sgd: the update bit for bit, loss scale, skipped steps, closed form over many steps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "op_support.h"

static void cases(void **state) {
    (void)state;
    check_cases("sgd");
}

static const char with_flag[] = "sgd/forward src=fp32[77] weights=fp32[77] momentum=fp32[77] flag=fp32[1] value=0.9 value2=0.0005";

/* The door's order of operations, each rounded to fp32 (volatile: nothing is contracted or kept wider). */
static void update(float g, float *w, float *v, double scale, float rate) {
    volatile float t = g * (float)(1 / scale), decay = 0.0005f * *w;
    t = t + decay;
    volatile float moved = 0.9f * *v;
    moved = moved + t;
    volatile float step = rate * moved;
    *v = moved;
    *w = *w - step;
}

static void bit_for_bit(void **state) {
    (void)state;
    bound b;
    bound_parse(&b, with_flag, 171);
    float w[77], v[77];
    memcpy(w, bound_fp32(&b, QS_WEIGHTS), sizeof w);
    memcpy(v, bound_fp32(&b, QS_MOMENTUM), sizeof v);
    b.run.loss_scale = 3;
    for (int i = 0; i < 77; i++)
        update(bound_fp32(&b, QS_SRC)[i], &w[i], &v[i], 3, (float)b.run.learning_rate);
    bound_run(&b);
    assert_memory_equal(bound_fp32(&b, QS_WEIGHTS), w, sizeof w);
    assert_memory_equal(bound_fp32(&b, QS_MOMENTUM), v, sizeof v);
    bound_release(&b);
}

static void loss_scale_divides_out(void **state) {
    (void)state;
    bound plain, scaled;
    bound_parse(&plain, with_flag, 172);
    bound_parse(&scaled, with_flag, 172);
    for (int i = 0; i < 77; i++)
        bound_fp32(&scaled, QS_SRC)[i] *= 1024;
    scaled.run.loss_scale = 1024;
    bound_run(&plain);
    bound_run(&scaled);
    assert_memory_equal(bound_fp32(&plain, QS_WEIGHTS), bound_fp32(&scaled, QS_WEIGHTS), 77 * 4);
    bound_release(&plain);
    bound_release(&scaled);
}

static void flag_zero_skips(void **state) {
    (void)state;
    bound b, before;
    bound_parse(&b, with_flag, 173);
    bound_parse(&before, with_flag, 173);
    bound_fp32(&b, QS_FLAG)[0] = 0;
    bound_fp32(&b, QS_SRC)[0] = NAN;
    bound_run(&b);
    assert_memory_equal(bound_fp32(&b, QS_WEIGHTS), bound_fp32(&before, QS_WEIGHTS), 77 * 4);
    assert_memory_equal(bound_fp32(&b, QS_MOMENTUM), bound_fp32(&before, QS_MOMENTUM), 77 * 4);
    bound_release(&b);
    bound_release(&before);
}

/* A constant gradient g with momentum m: after n steps v = g (1 - m^n)/(1 - m). n rounded sums of numbers below 10: n ulps of 8. */
static void momentum_sums_up(void **state) {
    (void)state;
    bound b;
    bound_parse(&b, "sgd/forward src=fp32[1] weights=fp32[1] momentum=fp32[1] value=0.9", 174);
    bound_fp32(&b, QS_SRC)[0] = 1;
    bound_fp32(&b, QS_MOMENTUM)[0] = 0;
    for (int n = 0; n < 50; n++)
        bound_run(&b);
    assert_true(fabs((double)bound_fp32(&b, QS_MOMENTUM)[0] - 10 * (1 - pow(0.9, 50))) < 50 * 0x1p-20);
    bound_release(&b);
}

/* Bytes moved in memory: 4 of the gradient, read; 8 of weights and of momentum, read and written. The flag is 4 more. */
static void bytes_are_moved(void **state) {
    (void)state;
    qs_case one;
    assert_ok(qs_case_parse(with_flag, &one));
    assert_true(qs_case_bytes(&one) == 20 * 77 + 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cases),           cmocka_unit_test(bit_for_bit),      cmocka_unit_test(loss_scale_divides_out),
        cmocka_unit_test(flag_zero_skips), cmocka_unit_test(momentum_sums_up), cmocka_unit_test(bytes_are_moved)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
