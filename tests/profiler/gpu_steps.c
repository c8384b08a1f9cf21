// SPDX-License-Identifier: Apache-2.0
// labels: short
/* A GPU has a kernel for every case of the steps that bench/cuda-step.sh and bench/cuda-accuracy.sh run, in each of their recipes, at their
 * extents: nothing is run. Without a double of a GPU nothing is looked at. */
#include "kit/device.h"
#include "kit/kit.h"

#include "qsync/profiler.h"

static const char *const recipes[] = {"fp32", "tf32", "bf16", "fp16", "int8/bf16", "int8:tensor", "int4:shift4", "e4m3fn"};

static void step_count(void *context, const qs_step *step, int places, bool tuned) {
    (void)tuned;
    assert_true(step->kernel[0] && places > 0);
    ++*(int *)context;
}

static void check_steps(const char *model, int64_t batch, const char *optimizer) {
    const char *where = getenv("QSYNC_TEST_DEVICE");
    const qs_device_options options = device_options("ref", NULL, 1, 1);
    qs_device *device = NULL;
    if (!where || strcmp(where, "cuda") != 0) skip();
    assert_ok(qs_device_open(&options, &device));
    for (size_t i = 0; i < COUNT_OF(recipes); i++) {
        const qs_bench_question question = {.model = model,
                                            .recipe = recipes[i],
                                            .optimizer = optimizer,
                                            .batch = batch,
                                            .loss_scaling = !strcmp(recipes[i], "fp16"),
                                            .steps = 1};
        int cases = 0;
        if (qs_bench_kernels(&question, device, step_count, &cases) != QS_OK) fail_msg("%s in %s: %s", model, recipes[i], qs_message());
        assert_true(cases > 10);
    }
    qs_device_close(device);
}

TEST(of_resnet20) {
    check_steps("resnet20", 128, NULL);
}

TEST(of_resnet50) {
    check_steps("resnet50", 256, NULL);
}

TEST(of_bert) {
    check_steps("bert:base,length=128", 64, "adam");
}

TEST_MAIN(of_resnet20, of_resnet50, of_bert)
