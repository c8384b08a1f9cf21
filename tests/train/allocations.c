// SPDX-License-Identifier: Apache-2.0
// labels: short
/* A training step takes no memory: no built-in model needs a kernel that allocates, and behind the first steps there is nothing but the
 * kernel library's book-keeping of its calls, and no page that was not there before. */
#include "kit/allocations.h"
#include "kit/processor.h"
#include "program_support.h"

#include <sys/resource.h>

static const char *const recipes[] = {"fp32", "bf16", "int8/bf16", "int8:tensor"};
enum { RECIPES = COUNT_OF(recipes) };

static bool lists(const qs_device_info *info, const char *format) {
    for (int i = 0; i < 8 && info->formats[i]; i++)
        if (!strcmp(info->formats[i], format)) return true;
    return false;
}

/* Integers stand beside bf16. */
static bool multiplies(const qs_device_info *info, const char *recipe) {
    if (!strcmp(recipe, "fp32")) return true;
    return lists(info, "bf16") && (!strcmp(recipe, "bf16") || lists(info, "int8"));
}

/* Calls `look` for each recipe that the device multiplies in. Without a kernel library the reference does, which allocates. */
static void every_recipe(void (*look)(qs_device *device, const qs_recipe *recipe)) {
    qs_device *device = NULL;
    qs_device_info info;
    if (!backend_exists("cpu")) skip();
    assert_ok(qs_device_open(&(qs_device_options){.backend = "cpu", .threads = 1, .speed = 1}, &device));
    qs_device_describe(device, &info);
    const bool library = strcmp(info.library, "own kernels") != 0;
    for (int r = 0; library && r < RECIPES; r++) {
        qs_recipe recipe;
        assert_ok(qs_recipe_builtin(recipes[r], &recipe));
        if (multiplies(&info, recipes[r])) look(device, &recipe);
    }
    qs_device_close(device);
    if (!library) skip();
}

/* ---- What is chosen: nothing runs ---- */

/* Where AVX-512 is missing, and our convolutions with it, the kernel library has some that nothing but its `gemm` runs. */
static qs_status lookup(void *device, const qs_case *one, const char *case_text, qs_kernel_row *out) {
    const qs_status status = qs_lookup_device(device, one, case_text, out);
    if (status == QS_OK && out->allocates && (processor_here().wide || !strstr(out->kernel, "gemm")))
        fail_msg("%s is run by %s, which allocates", case_text, out->kernel);
    return status;
}

static void model_lower(qs_device *device, const qs_graph *graph, const qs_recipe *recipe) {
    qs_job job;
    qs_schedule *schedule = NULL;
    qs_job_default(&job);
    const qs_recipe **all = recipe_everywhere(graph, recipe);
    const qs_lowering lowering = {.graph = graph,
                                  .batch = job.batch,
                                  .mode = QS_MODE_TRAIN,
                                  .job = &job,
                                  .recipe = all,
                                  .half = qs_format_of("bf16"),
                                  .lookup = lookup,
                                  .context = device};
    assert_ok(qs_schedule_lower(&lowering, &schedule));
    qs_schedule_release(schedule);
    free(all);
}

static void models_lower(qs_device *device, const qs_recipe *recipe) {
    for (size_t m = 0; qs_model_name_at(m); m++) {
        qs_graph *graph = NULL;
        assert_ok(qs_model_build(qs_model_name_at(m), NULL, &graph));
        model_lower(device, graph, recipe);
        qs_graph_release(graph);
    }
}

TEST(no_kernel_allocates) {
    every_recipe(models_lower);
}

/* ---- What runs ---- */

#if COUNTING

static long faults(void) {
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_minflt;
}

/* 1 KiB for each kernel of the library, nothing for ours. False where one has to allocate. */
static bool bytes_allowed(const program *here, size_t *out) {
    *out = 0;
    for (int s = 0; s < here->schedule->steps; s++) {
        const qs_step *step = &here->schedule->step[s];
        qs_kernel_fact fact;
        if (step->kind != QS_STEP_KERNEL) continue;
        assert_ok(qs_device_fact_of(here->bench.device, &step->case_, step->kernel, &fact));
        if (fact.allocates) return false;
        if (strncmp(step->kernel, "own:", 4)) *out += 1024;
    }
    return true;
}

/* In all of them together fewer faults than steps, so that no step has its own. */
static void steps_check(const program *here, size_t allowed) {
    enum { WARM_UP = 3, STEPS = 20 };
    const qs_run run = {.samples = 4, .global_samples = 4, .loss_scale = 1, .learning_rate = 0.01};
    long met = 0;
    for (int step = 0; step < WARM_UP + STEPS; step++) {
        inputs_fill(here);
        const long before = faults();
        count_begin();
        const qs_status status = qs_executor_run(here->executor, &run);
        const size_t bytes = count_end();
        if (step >= WARM_UP) met += faults() - before;
        assert_ok(status);
        if (step >= WARM_UP && bytes > allowed) fail_msg("step %d allocates %zu bytes, allowed are %zu", step, bytes, allowed);
    }
    if (met >= STEPS) fail_msg("%ld page faults in %d steps", met, STEPS);
}

static void models_run(qs_device *device, const qs_recipe *recipe) {
    static const char *const models[] = {"lenet5", "resnet8"};
    (void)device;
    for (size_t m = 0; m < COUNT_OF(models); m++) {
        void *state = NULL;
        size_t allowed;
        program_open_as(&state, "cpu", models[m], recipe, 4);
        const bool steady = bytes_allowed(state, &allowed);
        assert_true(steady || !processor_here().wide);
        if (steady) steps_check(state, allowed);
        program_close(&state);
    }
}

TEST(steps_allocate_nothing) {
    every_recipe(models_run);
}

#else

TEST(steps_allocate_nothing) {
    skip();
}

#endif

TEST_MAIN(no_kernel_allocates, steps_allocate_nothing)
