// SPDX-License-Identifier: Apache-2.0
/* What the convolutional models are lowered to, as text: `schedules BACKEND ISA` prints for each model, recipe and mode the steps with
 * their cases, kernels and places, and the buffers with their names, bytes and offsets. same_bits.sh hashes it; one device per process,
 * since the ceiling of the kernel library is set once. Lines "# model recipe mode" begin a schedule. A combination that the device refuses
 * is printed as such: what is refused stays refused.
 *
 * links: none; built by tests/CMakeLists.txt as a tool of the house tests. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qsync/train.h"

/* In this order, by which they get their optimiser. */
static const char *const models[] = {"mlp",      "lenet5",       "resnet8",    "resnet20",     "resnet32", "resnet18_cifar",
                                     "resnet18", "resnet50",     "vgg11",      "vgg11_bn",     "vgg16",    "vgg16_bn",
                                     "alexnet",  "mobilenet_v2", "squeezenet", "shufflenet_v2"};
static const char *const recipes[] = {"fp32",        "bf16",        "int8/bf16",     "int8/fp32",
                                      "int8:tensor", "int4:shift4", "int4:hadamard", "int6:shift4/bf16"};
static const struct {
    const char *options;
    const char *recipe; /* of all operators; NULL: every one of the list */
} norms[] = {{"resnet8:norm=l1bn", "bf16"},      {"resnet8:norm=l1bnq", "int8/bf16"}, {"resnet8:norm=l2bnq", "int4:shift4"},
             {"resnet8:norm=l2bnq-std", "fp32"}, {"resnet8:norm=ln", "bf16"},         {"resnet8:norm=l1lnq", "int8:tensor"},
             {"resnet8:norm=l1ln", "fp32"}};
static const struct {
    qs_mode mode;
    const char *name;
} modes[] = {{QS_MODE_TRAIN, "train"}, {QS_MODE_EVALUATION, "evaluation"}, {QS_MODE_STATISTICS, "statistics"}};

static void place_print(const qs_place *place) {
    printf(" %d+%zu", place->buffer, place->offset);
}

/* What passes have only where a device joins them, and did not have when rows were recorded: printed where it is there. */
static bool is_left_out(const qs_case *one, int i) {
    const qs_source source = one->pass->operand[i].source;
    if (one->operand[i].format) return false;
    return source == QS_FROM_RESIDUAL || source == QS_FROM_SECOND_GRADIENT || (one->op->does_relu && one->operand[i].role == QS_MASK);
}

static void schedule_print(const qs_schedule *schedule) {
    static const char *const kinds[] = {"kernel", "reduce-start", "reduce-wait"};
    for (int s = 0; s < schedule->steps; s++) {
        const qs_step *step = &schedule->step[s];
        printf("%s %s node=%d stream=%llu bucket=%d conversion=%d %s by %s at", kinds[step->kind], qs_phase_name(step->phase), step->node,
               (unsigned long long)step->stream, step->bucket, step->conversion, step->case_text ? step->case_text : "-",
               step->kernel[0] ? step->kernel : "-");
        for (int i = 0; i < (step->kind == QS_STEP_KERNEL ? step->case_.operands : 1); i++)
            if (step->kind != QS_STEP_KERNEL || !is_left_out(&step->case_, i)) place_print(&step->place[i]);
        printf(" scratch");
        place_print(&step->scratch);
        printf("\n");
    }
    for (int b = 0; b < schedule->buffers; b++) {
        const qs_buffer *buffer = &schedule->buffer[b];
        printf("buffer %s bytes=%zu offset=%zu %s %d..%d\n", buffer->name, buffer->bytes, buffer->offset,
               qs_category_name(buffer->category), buffer->first, buffer->last);
    }
    printf("arena %zu persistent %zu live %zu peak %d\n", schedule->arena_bytes, schedule->persistent_bytes, schedule->live_bytes,
           schedule->peak_step);
}

static qs_status lower(qs_device *device, const qs_graph *graph, const qs_job *job, const qs_recipe *recipe, qs_mode mode) {
    const qs_recipe **list = NULL;
    qs_schedule *schedule = NULL;
    QS_TRY(qs_allocate((size_t)graph->nodes, sizeof *list, &list));
    for (int n = graph->samples.inputs; n < graph->nodes; n++)
        list[n] = recipe;
    const qs_lowering lowering = {.graph = graph,
                                  .batch = job->batch,
                                  .mode = mode,
                                  .job = job,
                                  .recipe = list,
                                  .half = qs_format_of("bf16"),
                                  .lookup = qs_lookup_device,
                                  .context = device};
    const qs_status status = qs_schedule_lower(&lowering, &schedule);
    if (status == QS_OK)
        schedule_print(schedule);
    else
        printf("refused: %s\n", qs_status_text(status));
    qs_schedule_release(schedule);
    free(list);
    return QS_OK;
}

static qs_status model_lower(qs_device *device, const char *model, const char *only, const char *optimizer) {
    qs_graph *graph = NULL;
    qs_job job;
    qs_status status = QS_OK;
    qs_job_default(&job);
    job.batch = 4;
    job.dynamic_loss_scaling = strcmp(optimizer, "adam") == 0;
    QS_TRY(qs_job_optimizer_set(&job, optimizer));
    QS_TRY(qs_model_build(model, NULL, &graph));
    for (size_t r = 0; r < sizeof recipes / sizeof *recipes; r++) {
        qs_recipe recipe;
        if (only && strcmp(only, recipes[r]) != 0) continue;
        QS_GOTO(qs_recipe_builtin(recipes[r], &recipe));
        for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
            if (m > 0 && r > 2) continue; /* evaluation is fp32 whatever the recipe, and statistics are taken in fp32 */
            printf("# %s %s %s\n", model, recipes[r], modes[m].name);
            QS_GOTO(lower(device, graph, &job, &recipe, modes[m].mode));
        }
    }
done:
    qs_graph_release(graph);
    return status;
}

static qs_status run(const char *backend, const char *isa) {
    qs_device *device = NULL;
    qs_status status = QS_OK;
    QS_TRY(qs_device_open(&(qs_device_options){.backend = backend, .isa = isa, .threads = 1, .speed = 1}, &device));
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        QS_GOTO(model_lower(device, models[i], NULL, i % 2 ? "adam" : "sgd"));
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
        QS_GOTO(model_lower(device, norms[i].options, norms[i].recipe, "sgd"));
done:
    qs_device_close(device);
    return status;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: schedules BACKEND ISA\n");
        return 2;
    }
    if (run(argv[1], argv[2]) == QS_OK) return 0;
    fprintf(stderr, "%s\n", qs_message());
    return 1;
}
