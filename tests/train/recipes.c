// SPDX-License-Identifier: Apache-2.0
// labels: medium
/* Every recipe trains: losses of bf16 and int8 runs stay near fp32's. Mixes of them reserve what was predicted, to the byte. */
#include "plan_support.h"

static double loss_with(const char *backend, const char *model, const char *recipe) {
    bench here;
    qs_plan plan;
    qs_train_result result;
    bench_open(&here, backend, "self", model, 16);
    here.job.rate.base = 0.01;
    here.job.epochs = 15;
    here.options.training_limit = 64;
    here.options.test_limit = 16;
    plan_fill(&here, recipe, &plan);
    here.options.plan = &plan;
    assert_ok(qs_train(&here.options, here.device, here.comm, &result));
    assert_int_equal(result.predicted_bytes[0], result.reserved_bytes[0]);
    const double loss = result.training_loss;
    result_release(&result);
    qs_plan_release(&plan);
    bench_close(&here);
    return loss;
}

/* Sixty steps on 64 images take the loss down from ln 10. Rounding noise of 2^-8 of a value (bf16) or half an int8 step in each operand may
 * cost a part of that way, but not a tenth; a gradient of wrong sign, scale or place does not come down at all. */
static void model_compare(const char *backend, const char *model) {
    static const char *const recipes[] = {"bf16",        "int8/bf16",     "int8/fp32", "int8:tensor",
                                          "int6:shift4", "int8:hadamard", "mxfp8",     "mxint8"};
    if (!backend_exists(backend)) skip();
    const double fp32 = loss_with(backend, model, "fp32"), way = log(10) - fp32;
    if (way < 0.2) fail_msg("%s on %s in fp32 does not learn: loss %g", model, backend, fp32);
    for (size_t i = 0; i < COUNT_OF(recipes); i++) {
        const double loss = loss_with(backend, model, recipes[i]);
        if (!(fabs(loss - fp32) <= 0.1 * way)) fail_msg("%s on %s in %s: loss %g, in fp32 %g", model, backend, recipes[i], loss, fp32);
    }
}

TEST(mlp_on_ref) {
    model_compare("ref", "mlp:width=0.25");
}
TEST(mlp_on_cpu) {
    model_compare("cpu", "mlp:width=0.25");
}
TEST(lenet5_on_cpu) {
    model_compare("cpu", "lenet5");
}
TEST(resnet8_on_cpu) {
    model_compare("cpu", "resnet8:width=0.5");
}

static void mix_compare(const char *backend, const char *model, int first) {
    static const char *const recipes[] = {"fp32", "bf16", "int8/bf16"};
    bench here;
    qs_plan plan;
    qs_train_result result;
    bench_open(&here, backend, "self", model, 8);
    here.options.max_steps = 2;
    here.options.training_limit = 32;
    here.options.test_limit = -1;
    plan_mix_fill(&here, recipes, 3, first, &plan);
    here.options.plan = &plan;
    if (qs_train(&here.options, here.device, here.comm, &result) != QS_OK) fail_msg("%s on %s: %s", model, backend, qs_message());
    assert_int_equal(result.predicted_bytes[0], result.reserved_bytes[0]);
    assert_int_equal(result.audit.rank[0].reserved_arena, plan.class_->predicted.arena_bytes);
    result_release(&result);
    qs_plan_release(&plan);
    bench_close(&here);
}

/* Neighbours of unlike recipes in every order: conversions between them take memory that no uniform plan has. */
static void mixes_reserve_as_predicted(void **state) {
    static const char *const models[] = {"mlp:width=0.25", "lenet5", "resnet8:width=0.5", "vgg11_bn:width=0.25"};
    const char *backend = backend_exists("cpu") ? "cpu" : "ref";
    (void)state;
    for (size_t m = 0; m < COUNT_OF(models); m++)
        for (int first = 0; first < 3; first++)
            mix_compare(backend, models[m], first);
}

TEST_MAIN(mlp_on_ref, mlp_on_cpu, lenet5_on_cpu, resnet8_on_cpu, mixes_reserve_as_predicted)
