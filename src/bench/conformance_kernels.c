// SPDX-License-Identifier: Apache-2.0
/* A case by the operators that models are trained with: imported, lowered and run by the executor, as `qsync eval` and `qsync train` do. */
#include "conformance_run.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conformance_model.h"
#include "qsync/checkpoint.h"
#include "qsync/onnx_import.h"
#include "qsync/train.h"

/* ---- A case, imported ------------------------------------------------------------------------------------------------------------ */

qs_status imported_open(const onnx_case *one, const bool *flows, int64_t batch, int output, const char *folder, case_graph *out) {
    char model[512], weights[512], *text = NULL;
    qs_onnx_imported imported = {.rows = 0};
    qs_status status;
    *out = (case_graph){.graph = NULL};
    snprintf(model, sizeof model, "%s/case.onnx", folder);
    snprintf(weights, sizeof weights, "%s/case.safetensors", folder);
    QS_GOTO(case_model_write(one, flows, output, model));
    QS_GOTO(qs_onnx_import(model, 0, true, &imported));
    imported.graph.target = (qs_target){.kind = QS_TARGET_REAL, .extent = one->output[output].count / batch}; /* whatever the numbers are */
    QS_GOTO(qs_graph_record_text(&imported.graph, &text));
    QS_GOTO(qs_graph_parse(text, one->name, &out->graph));
    QS_GOTO(qs_allocate((size_t)(out->graph->trained_elements + out->graph->frozen_elements) + 1, sizeof(float), &out->weights));
    QS_GOTO(qs_allocate((size_t)out->graph->statistics_elements + 1, sizeof(float), &out->statistics));
    if (out->graph->parameters > 0) {
        QS_GOTO(qs_tensor_set_write(weights, &imported.weights));
        QS_GOTO(qs_weights_read(weights, out->graph, out->weights, out->statistics));
    }
done:
    unlink(model);
    unlink(weights);
    free(text);
    qs_onnx_imported_release(&imported);
    return status;
}

void imported_close(case_graph *one) {
    if (one->graph) qs_graph_release(one->graph);
    free(one->weights);
    free(one->statistics);
    *one = (case_graph){.graph = NULL};
}

/* ---- Running it ------------------------------------------------------------------------------------------------------------------ */

/* What the loss reads, copied where it is about to be. */
typedef struct reading {
    const case_run *run;
    qs_executor *executor;
    qs_status status;
} reading;

static void output_read(void *context, const qs_schedule *schedule, int at, double seconds) {
    reading *one = context;
    const qs_step *step = &schedule->step[at];
    (void)seconds;
    if (step->kind != QS_STEP_KERNEL || step->phase != QS_FORWARD || step->case_.op->kind != QS_FIXED) return;
    const int src = qs_case_position(&step->case_, QS_SRC);
    if (qs_shape_count(&step->case_.operand[src].shape) != one->run->outputs)
        one->status = qs_fail(QS_MISMATCH, "the output has %lld values, not %lld",
                              (long long)qs_shape_count(&step->case_.operand[src].shape), (long long)one->run->outputs);
    else
        one->status = qs_executor_read(one->executor, step->place[src].buffer, step->place[src].offset,
                                       (size_t)one->run->outputs * sizeof(float), one->run->output);
}

/* Real numbers of an input, a sample behind the other. */
static qs_status numbers_read(const onnx_case *one, const qs_onnx_tensor *tensor, float *out) {
    float *values = NULL;
    qs_status status;
    QS_GOTO(qs_allocate((size_t)tensor->count, sizeof *values, &values));
    QS_GOTO(qs_onnx_tensor_floats(tensor, 0, tensor->count, values));
    case_samples_move(tensor, case_samples_axis(one, tensor, false), false, values, out);
done:
    free(values);
    return status;
}

/* Inputs by their names, which carry the case's numbers. */
static qs_status inputs_write(const onnx_case *one, const qs_graph *graph, const qs_schedule *schedule, qs_executor *executor) {
    for (int i = 0; i < graph->samples.inputs; i++) {
        int index;
        if (sscanf(graph->samples.input[i].name, CASE_INPUT, &index) != 1 || index < 0 || index >= one->inputs)
            return qs_fail(QS_MISMATCH, "input %s of the import is none of the case", graph->samples.input[i].name);
        const qs_onnx_tensor *tensor = &one->input[index];
        const size_t bytes = (size_t)tensor->count * sizeof(float);
        void *values = NULL;
        if (schedule->buffer[schedule->input[i]].bytes < bytes || graph->samples.input[i].varies)
            return qs_fail(QS_MISMATCH, "input %d of the import has %zu bytes, the case %zu", index,
                           schedule->buffer[schedule->input[i]].bytes, bytes);
        QS_TRY(qs_allocate((size_t)tensor->count, sizeof(float), &values));
        qs_status status = QS_OK;
        if (qs_onnx_type_is_integer(tensor->type))
            for (int64_t k = 0; k < tensor->count && status == QS_OK; k++) {
                int64_t value = 0;
                status = qs_onnx_tensor_integers(tensor, k, 1, &value);
                ((int32_t *)values)[k] = (int32_t)value;
            }
        else
            status = numbers_read(one, tensor, values);
        if (status == QS_OK) status = qs_executor_write(executor, schedule->input[i], 0, bytes, values);
        free(values);
        QS_TRY(status);
    }
    return QS_OK;
}

qs_status imported_run(const onnx_case *one, const case_graph *imported, qs_device *device, const case_run *run) {
    const qs_graph *graph = imported->graph;
    const int64_t masters = graph->trained_elements + graph->frozen_elements;
    qs_job job;
    qs_comm *self = NULL;
    qs_schedule *schedule = NULL;
    qs_memory *memory = NULL;
    qs_executor *executor = NULL;
    reading read = {.run = run, .status = QS_OK};
    qs_status status;
    qs_job_default(&job);
    job.batch = run->batch;
    const qs_lowering lowering = {.graph = graph,
                                  .batch = run->batch,
                                  .mode = run->gradients ? QS_MODE_TRAIN : QS_MODE_EVALUATION,
                                  .job = &job,
                                  .half = qs_format_of("fp32"),
                                  .lookup = qs_lookup_device,
                                  .context = device};
    QS_GOTO(qs_schedule_lower(&lowering, &schedule));
    QS_GOTO(qs_comm_open("self", &self));
    QS_GOTO(qs_memory_reserve(device, schedule->arena_bytes, &memory));
    QS_GOTO(qs_executor_create(schedule, device, self, memory, &executor));
    if (masters > 0) QS_GOTO(qs_executor_write(executor, schedule->masters, 0, (size_t)masters * sizeof(float), imported->weights));
    if (graph->statistics_elements > 0)
        QS_GOTO(
            qs_executor_write(executor, schedule->running, 0, (size_t)graph->statistics_elements * sizeof(float), imported->statistics));
    QS_GOTO(qs_executor_clear(executor, schedule->target));
    if (run->target) QS_GOTO(qs_executor_write(executor, schedule->target, 0, (size_t)run->outputs * sizeof(float), run->target));
    QS_GOTO(inputs_write(one, graph, schedule, executor));
    read.executor = executor;
    qs_executor_observe(executor, output_read, &read);
    const qs_run step = {.seed = 1, .samples = run->batch, .global_samples = run->batch, .loss_scale = 1};
    QS_GOTO(qs_executor_run(executor, &step));
    QS_GOTO(read.status);
    for (int64_t i = 0; i < run->outputs; i++)
        run->output[i] = -run->output[i];
    if (run->gradients)
        QS_GOTO(qs_executor_read(executor, schedule->gradients, 0, (size_t)graph->trained_elements * sizeof(float), run->gradients));
done:
    qs_executor_release(executor);
    qs_memory_release(memory);
    qs_schedule_release(schedule);
    qs_comm_close(self);
    return status;
}

/* ---- What is bound ------------------------------------------------------------------------------------------------------------------ */

/* Operators of which all inputs but the first are weights or settings in models, also where their extents are those of the first. */
static bool has_weights(const char *op) {
    static const char *const list[] = {"Conv",
                                       "ConvTranspose",
                                       "Gemm",
                                       "BatchNormalization",
                                       "InstanceNormalization",
                                       "LayerNormalization",
                                       "GroupNormalization",
                                       "RMSNormalization",
                                       "PRelu",
                                       "LSTM",
                                       "GRU",
                                       "RNN",
                                       "Clip",
                                       "Pad",
                                       "Resize",
                                       "Dropout"};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (strcmp(op, list[i]) == 0) return true;
    return false;
}

/* The ways to take a case as a model, one after the other: first input and what has its extents flow (ALIKE); all real numbers of as many
 * samples do (BATCHED); ids do, into a table (IDS). */
typedef enum binding { ALIKE, BATCHED, IDS, BINDINGS } binding;

static bool flows_choose(const onnx_case *one, binding how, bool *flows, int64_t *batch) {
    int first = -1, count = 0;
    for (int i = 0; i < one->inputs; i++) {
        const qs_onnx_tensor *tensor = &one->input[i];
        const bool kind = how == IDS ? tensor->type == QS_ONNX_INT64 || tensor->type == QS_ONNX_INT32 : tensor->type == QS_ONNX_FLOAT;
        flows[i] = false;
        if (!kind || tensor->rank == 0 || tensor->count == 0) continue;
        if (first >= 0 && (how == IDS || has_weights(one->op) || tensor->dim[0] != one->input[first].dim[0])) continue;
        bool alike = first < 0 || tensor->rank == one->input[first].rank;
        for (int a = 0; a < tensor->rank && alike && first >= 0; a++)
            alike = tensor->dim[a] == one->input[first].dim[a];
        flows[i] = alike || how == BATCHED;
        if (flows[i]) count++;
        if (first < 0) first = i;
    }
    if (first >= 0) *batch = one->input[first].dim[case_samples_axis(one, &one->input[first], false)];
    return count > 0 && (how != IDS || strcmp(one->op, "Gather") == 0);
}

static void bound_say(const onnx_case *one, const bool *flows, char *text, size_t capacity) {
    *text = '\0';
    for (int i = 0; i < one->inputs; i++) {
        const size_t used = strlen(text);
        if (!flows[i])
            snprintf(text + used, capacity - used, "%s%s", used ? ", " : "", one->model.graph.value[one->model.graph.input[i]].name);
    }
}

/* ---- The way ---------------------------------------------------------------------------------------------------------------------- */

static qs_status output_run(const onnx_case *one, const bool *flows, int64_t batch, int output, int devices, qs_device *const *device,
                            const char *folder, bool *ran) {
    const qs_onnx_tensor *expected = &one->output[output];
    case_graph imported = {.graph = NULL};
    const int axis = case_samples_axis(one, expected, true);
    float *values = NULL, *moved = NULL;
    qs_status status;
    *ran = false;
    if (expected->type != QS_ONNX_FLOAT) return qs_fail(QS_UNSUPPORTED, "output %d is of %s", output, qs_onnx_type_name(expected->type));
    if (expected->rank == 0 || expected->dim[axis] != batch || expected->count == 0)
        return qs_fail(QS_UNSUPPORTED, "output %d has no axis %d of the batch's extent", output, axis);
    QS_GOTO(qs_allocate((size_t)expected->count, sizeof *values, &values));
    QS_GOTO(qs_allocate((size_t)expected->count, sizeof *moved, &moved));
    QS_GOTO(imported_open(one, flows, batch, output, folder, &imported));
    for (int d = 0; d < devices && status == QS_OK; d++) {
        QS_GOTO(imported_run(one, &imported, device[d], &(case_run){.batch = batch, .outputs = expected->count, .output = values}));
        qs_onnx_tensor result = *expected;
        case_samples_move(expected, axis, true, values, moved);
        result.data = moved;
        *ran = true;
        status = case_compare(one, output, &result);
    }
done:
    imported_close(&imported);
    free(values);
    free(moved);
    return status;
}

void case_kernels(const onnx_case *one, int devices, qs_device *const *device, const char *folder, way *out) {
    bool tried[BINDINGS][CASE_MOST] = {{false}};
    *out = (way){.result = WAY_REFUSED, .why = "it reads no real numbers of float with an axis of samples"};
    for (int how = 0, attempts = 0; how < BINDINGS; how++) {
        bool *flows = tried[attempts], ran = false;
        int64_t batch = 0;
        if (!flows_choose(one, (binding)how, flows, &batch) || (attempts > 0 && memcmp(flows, tried[attempts - 1], sizeof *tried) == 0))
            continue;
        qs_status status = QS_OK;
        for (int o = 0; o < one->outputs && status == QS_OK; o++)
            status = output_run(one, flows, batch, o, devices, device, folder, &ran);
        if (attempts++ > 0 && status != QS_OK && !ran) continue; /* the first reason is that of the usual way to have it in a model */
        bound_say(one, flows, out->bound, sizeof out->bound);
        way_end(out, status == QS_OK ? WAY_PASSED : ran ? WAY_FAILED : WAY_REFUSED, one);
        if (out->result != WAY_REFUSED) return;
    }
}
