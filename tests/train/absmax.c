// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Kernels that deliver the largest magnitude of what they write: in a training step of each device, with one thread and two, every
 * quantizer finds the very bits that an absmax of its source gives, so that it makes no difference to a run where they come from. */
#include "kit/job_model.h"
#include "train_support.h"

typedef struct watch {
    const qs_executor *executor;
    int quantized, searched;
} watch;

/* Neither source nor absmax is written while it is quantized. */
static void step_check(void *context, const qs_schedule *schedule, int index, double seconds) {
    watch *here = context;
    const qs_step *step = &schedule->step[index];
    (void)seconds;
    if (step->kind != QS_STEP_KERNEL || step->case_.attributes.per_channel) return;
    if (strcmp(step->case_.op->name, "absmax") == 0) here->searched++;
    if (strcmp(step->case_.op->name, "quantize") != 0) return;
    const qs_operand *src = &step->case_.operand[qs_case_position(&step->case_, QS_SRC)];
    void *data = operand_read(here->executor, step, QS_SRC);
    float *absmax = operand_read(here->executor, step, QS_ABSMAX);
    const int64_t count = qs_shape_count(&src->shape);
    float *values = malloc((size_t)count * sizeof *values);
    assert_non_null(values);
    qs_convert_to_fp32(src->format, count, data, values);
    const float expected = qs_absmax_array(count, values);
    free(values);
    free(data);
    if (memcmp(absmax, &expected, sizeof expected))
        fail_msg("step %d, %s: absmax is %.9g, of its source %.9g", index, step->case_text, (double)*absmax, (double)expected);
    free(absmax);
    here->quantized++;
}

static qs_schedule *lowered(const bench *here, const qs_graph *graph, qs_device *device, const char *recipe_name) {
    qs_recipe recipe;
    qs_schedule *schedule = NULL;
    const qs_recipe **list = calloc((size_t)graph->nodes, sizeof *list);
    assert_non_null(list);
    assert_ok(qs_recipe_builtin(recipe_name, &recipe));
    for (int n = graph->samples.inputs; n < graph->nodes; n++)
        list[n] = &recipe;
    const qs_lowering lowering = {.graph = graph,
                                  .batch = here->job.batch,
                                  .mode = QS_MODE_TRAIN,
                                  .job = &here->job,
                                  .recipe = list,
                                  .half = qs_format_of("bf16"),
                                  .lookup = qs_lookup_device,
                                  .context = device};
    assert_ok(qs_schedule_lower(&lowering, &schedule));
    free(list);
    return schedule;
}

static void step_watch(const bench *here, const qs_graph *graph, qs_device *device, const char *recipe) {
    const qs_run run = {.samples = here->job.batch, .global_samples = here->job.batch, .loss_scale = 1, .learning_rate = 0.01};
    qs_schedule *schedule = lowered(here, graph, device, recipe);
    qs_memory *memory;
    qs_executor *executor = NULL;
    assert_ok(qs_memory_reserve(device, schedule->arena_bytes, &memory));
    assert_ok(qs_executor_create(schedule, device, here->comm, memory, &executor));
    assert_ok(qs_executor_initialize(executor, graph, 3));
    assert_ok(qs_executor_clear(executor, schedule->state[0]));
    inputs_draw(executor, schedule);
    watch note = {.executor = executor};
    qs_executor_observe(executor, step_check, &note);
    assert_ok(qs_executor_run(executor, &run));
    assert_true(note.quantized > note.searched); /* some came from where they were written */
    qs_executor_release(executor);
    qs_memory_release(memory);
    qs_schedule_release(schedule);
}

static void device_check(const char *backend, const char *model, int threads, int64_t batch) {
    bench here;
    qs_graph *graph = NULL;
    qs_device *device = NULL;
    if (!backend_exists(backend)) skip();
    bench_open(&here, backend, "self", model, batch);
    assert_ok(job_model(&here.job, &graph));
    const qs_device_options options = device_options(backend, NULL, threads, 1);
    assert_ok(qs_device_open(&options, &device));
    step_watch(&here, graph, device, "int8:tensor");
    qs_device_close(device);
    qs_graph_release(graph);
    bench_close(&here);
}

TEST(on_ref) {
    device_check("ref", "resnet8:width=0.25", 1, 2);
}
TEST(on_cpu) {
    device_check("cpu", "resnet8", 1, 7);
    device_check("cpu", "vgg11_bn:width=0.25", 1, 5);
}
TEST(on_two_threads) {
    device_check("cpu", "resnet8", 2, 16);
    device_check("cpu", "mobilenet_v2:width=0.25", 2, 8);
}

TEST_MAIN(on_ref, on_cpu, on_two_threads)
