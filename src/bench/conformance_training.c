// SPDX-License-Identifier: Apache-2.0
/* The operators of ai.onnx.preview.training. Adagrad, Adam and Momentum are one update of our optimisers with the settings that make the
 * two rules the same; Gradient is taken by training steps of the imported graph, in which what it is taken by is a weight. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "conformance_run.h"

/* ---- Updates --------------------------------------------------------------------------------------------------------------------- */

/* An update of one tensor: what ONNX's attributes are for us. */
typedef struct update {
    const char *optimizer;
    qs_attributes settings;
    double rate;
    int64_t updates; /* before this one */
} update;

static double of(const qs_onnx_node *node, const char *name, double otherwise, qs_status *status) {
    float value = (float)otherwise;
    if (*status == QS_OK) *status = qs_onnx_attribute_float(node, name, (float)otherwise, &value);
    return (double)value;
}

/* R is the rate, T how many updates there were. Where T is 0 ONNX's Adam corrects nothing for the start, which ours always does: rate and
 * epsilon take that back. Its epsilon is added before the correction of the second moment, ours behind it. */
static qs_status adam_map(const qs_onnx_node *node, double rate, int64_t t, update *out) {
    qs_status status = QS_OK;
    const double alpha = of(node, "alpha", 0.9, &status), beta = of(node, "beta", 0.999, &status),
                 epsilon = of(node, "epsilon", 1e-6, &status), norm = of(node, "norm_coefficient", 0, &status),
                 post = of(node, "norm_coefficient_post", 0, &status);
    QS_TRY(status);
    if (post != 0) return qs_fail(QS_UNSUPPORTED, "norm_coefficient_post %g: weights are not shrunk behind an update", post);
    const int64_t ours = t > 0 ? t : 1;
    const double root = sqrt(1 - pow(beta, (double)ours));
    *out = (update){.optimizer = "adam_l2", .rate = t > 0 ? rate : rate * (1 - alpha) / root, .updates = ours - 1};
    out->settings = (qs_attributes){.beta1 = alpha, .beta2 = beta, .epsilon = epsilon / root, .weight_decay = norm};
    return QS_OK;
}

/* The rate that falls with T is a matter of our schedules of rates. */
static qs_status adagrad_map(const qs_onnx_node *node, double rate, int64_t t, update *out) {
    qs_status status = QS_OK;
    const double decay = of(node, "decay_factor", 0, &status);
    *out = (update){.optimizer = "adagrad", .rate = rate / (1 + (double)t * decay), .updates = t};
    out->settings =
        (qs_attributes){.epsilon = of(node, "epsilon", 1e-6, &status), .weight_decay = of(node, "norm_coefficient", 0, &status)};
    return status;
}

/* Beta is how much of a gradient goes into the momentum, but for the first one, all of which does; with us all of each. */
static qs_status momentum_map(const qs_onnx_node *node, double rate, int64_t t, update *out) {
    const char *mode;
    qs_status status = qs_onnx_attribute_string(node, "mode", "standard", &mode);
    const double beta = of(node, "beta", 1, &status);
    *out = (update){.rate = rate, .updates = t};
    out->settings = (qs_attributes){.momentum = of(node, "alpha", 0, &status), .weight_decay = of(node, "norm_coefficient", 0, &status)};
    QS_TRY(status);
    if (t > 0 && beta != 1) return qs_fail(QS_UNSUPPORTED, "beta %g behind the first update: gradients are taken whole", beta);
    const bool ahead = strcmp(mode, "standard") != 0; /* by Nesterov */
    out->optimizer = ahead ? "nesterov" : "sgd";
    return QS_OK;
}

/* Runs the optimiser's case on a device: operand[0] is the gradient, then weights and states, which are updated. */
static qs_status update_run(qs_device *device, const update *with, int64_t count, int arrays, float *const *array) {
    const size_t bytes = (size_t)count * sizeof(float), room = (bytes + 63) / 64 * 64;
    qs_case one = qs_case_make(with->optimizer, "forward", &with->settings);
    qs_queue *queue = qs_device_queue(device, QS_QUEUE_KERNELS);
    qs_location at[QS_MAX_OPERANDS] = {{0}};
    qs_kernel_fact fact;
    qs_memory *memory = NULL;
    qs_kernel *kernel = NULL;
    qs_status status;
    for (int i = 0; i < arrays; i++)
        qs_case_bind(&one, one.operand[i].role, qs_shape_of(1, count), qs_format_of("fp32"));
    QS_GOTO(qs_case_check(&one));
    QS_GOTO(qs_device_fact(device, &one, &fact));
    QS_GOTO(qs_memory_reserve(device, (size_t)arrays * room + fact.scratch_bytes + 64, &memory));
    for (int i = 0; i < arrays; i++) {
        at[i] = qs_location_of(memory, (size_t)i * room);
        QS_GOTO(qs_memory_write(queue, at[i], array[i], bytes));
    }
    QS_GOTO(qs_device_prepare(device, &one, NULL, at, qs_location_of(memory, (size_t)arrays * room), &kernel));
    const qs_run run = {
        .seed = 1, .samples = 1, .global_samples = 1, .loss_scale = 1, .learning_rate = with->rate, .updates = with->updates};
    QS_GOTO(qs_kernel_run(kernel, &run));
    for (int i = 1; i < arrays; i++)
        QS_GOTO(qs_memory_read(queue, at[i], array[i], bytes));
    QS_GOTO(qs_queue_wait(queue));
done:
    if (kernel) qs_kernel_release(kernel);
    qs_memory_release(memory);
    return status;
}

/* Inputs are R, T, then so many weights, gradients and each of the states; outputs the weights and the states. */
static qs_status updates_run(const onnx_case *one, const update *with, qs_device *device) {
    enum { MOST = 2 + QS_MOST_STATES };
    const int states = qs_op_of(with->optimizer)->optimizer->states, tensors = (one->inputs - 2) / (2 + states);
    if (one->inputs != 2 + tensors * (2 + states) || one->outputs != tensors * (1 + states))
        return qs_fail(QS_MISMATCH, "%d inputs and %d outputs: not those of an update with %d states", one->inputs, one->outputs, states);
    for (int k = 0; k < tensors; k++) {
        float *array[MOST] = {NULL};
        qs_status status = QS_OK;
        const int64_t count = one->input[2 + k].count;
        for (int i = 0; i < 2 + states && status == QS_OK; i++) {
            const int from = i == 0 ? 1 : i == 1 ? 0 : i; /* of X, G, states */
            status = qs_allocate((size_t)count + 1, sizeof(float), &array[i]);
            if (status == QS_OK) status = qs_onnx_tensor_floats(&one->input[2 + from * tensors + k], 0, count, array[i]);
        }
        if (status == QS_OK) status = update_run(device, with, count, 2 + states, array);
        for (int i = 0; i < 1 + states && status == QS_OK; i++) {
            qs_onnx_tensor result = one->input[2 + k];
            result.data = array[1 + i];
            status = case_compare(one, i * tensors + k, &result);
        }
        for (int i = 0; i < MOST; i++)
            free(array[i]);
        QS_TRY(status);
    }
    return QS_OK;
}

static qs_status update_case(const onnx_case *one, const qs_onnx_node *node, int devices, qs_device *const *device) {
    double rate;
    int64_t t;
    update with;
    QS_TRY(qs_onnx_tensor_doubles(&one->input[0], 0, 1, &rate));
    QS_TRY(qs_onnx_tensor_integers(&one->input[1], 0, 1, &t));
    QS_TRY(strcmp(node->op, "Adam") == 0      ? adam_map(node, rate, t, &with)
           : strcmp(node->op, "Adagrad") == 0 ? adagrad_map(node, rate, t, &with)
                                              : momentum_map(node, rate, t, &with));
    for (int d = 0; d < devices; d++)
        QS_TRY(updates_run(one, &with, device[d]));
    return QS_OK;
}

/* ---- Gradient --------------------------------------------------------------------------------------------------------------------- */

static int place_of(const onnx_case *one, const char *name, bool output) {
    const qs_onnx_graph *graph = &one->model.graph;
    for (int i = 0; i < (output ? one->outputs : one->inputs); i++)
        if (strcmp(graph->value[output ? graph->output[i] : graph->input[i]].name, name) == 0) return i;
    return -1;
}

/* The case with each of its numbers twice: one sample of two, since a single number of a file is a setting and no weight. */
static qs_status doubled(const onnx_case *one, onnx_case *out, float *values) {
    *out = *one;
    for (int i = 0; i < one->inputs + one->outputs; i++) {
        qs_onnx_tensor *tensor = i < one->inputs ? &out->input[i] : &out->output[i - one->inputs];
        if (tensor->type != QS_ONNX_FLOAT || tensor->count != 1)
            return qs_fail(QS_UNSUPPORTED, "gradients of anything but single numbers are not put to the test here");
        QS_TRY(qs_onnx_tensor_floats(tensor, 0, 1, &values[2 * i]));
        values[2 * i + 1] = values[2 * i];
        tensor->data = &values[2 * i];
        tensor->rank = 2;
        tensor->dim[0] = 1;
        tensor->count = tensor->dim[1] = 2;
    }
    return QS_OK;
}

/* The gradient of output y by input x, which the Gradient node's output `result` is to be. The loss is the mean of (z - target)² over two
 * numbers of z = -y, as which y leaves, so its gradient by y is target - z: 1 where the target is z + 1. */
static qs_status gradient_check(const onnx_case *one, int x, int y, int result, qs_device *device, const char *folder) {
    bool flows[CASE_MOST];
    float values[2], target[2], gradients[64] = {0};
    case_graph imported;
    for (int i = 0; i < one->inputs; i++)
        flows[i] = i != x;
    qs_status status;
    QS_GOTO(imported_open(one, flows, 1, y, folder, &imported));
    if (imported.graph->parameters != 1 || imported.graph->trained_elements > 64) {
        status = qs_fail(QS_MISMATCH, "%d weights, not one, and %lld values of them", imported.graph->parameters,
                         (long long)imported.graph->trained_elements);
        goto done;
    }
    QS_GOTO(imported_run(one, &imported, device, &(case_run){.batch = 1, .outputs = 2, .output = values}));
    qs_onnx_tensor found = one->output[y];
    found.data = values;
    QS_GOTO(case_compare(one, y, &found));
    for (int i = 0; i < 2; i++)
        target[i] = 1 - values[i];
    QS_GOTO(imported_run(one, &imported, device,
                         &(case_run){.batch = 1, .outputs = 2, .output = values, .target = target, .gradients = gradients}));
    found.data = gradients + imported.graph->parameter[0].offset;
    status = case_compare(one, result, &found);
done:
    imported_close(&imported);
    return status;
}

static qs_status gradient_case(const onnx_case *one, const qs_onnx_node *node, int devices, qs_device *const *device, const char *folder) {
    const qs_onnx_attribute *xs = qs_onnx_attribute_find(node, "xs");
    const char *y_name;
    float values[4 * CASE_MOST];
    onnx_case twice;
    QS_TRY(qs_onnx_attribute_string(node, "y", "", &y_name));
    const int y = place_of(one, y_name, true);
    if (qs_onnx_attribute_find(node, "zs") || !xs || xs->type != QS_ONNX_ATTRIBUTE_STRINGS || y < 0)
        return qs_fail(QS_UNSUPPORTED, "Gradient of other values than of an output by inputs");
    QS_TRY(doubled(one, &twice, values));
    for (size_t k = 0; k < xs->count; k++) {
        const int x = place_of(one, xs->strings[k], false), result = place_of(one, one->model.graph.value[node->output[k]].name, true);
        if (x < 0 || result < 0) return qs_fail(QS_UNSUPPORTED, "Gradient of other values than of an output by inputs");
        for (int d = 0; d < devices; d++)
            QS_TRY(gradient_check(&twice, x, y, result, device[d], folder));
    }
    return QS_OK;
}

void case_train(const onnx_case *one, int devices, qs_device *const *device, const char *folder, way *out) {
    *out = (way){.result = WAY_PASSED};
    qs_status status = qs_fail(QS_UNSUPPORTED, "no operator of training");
    for (int n = 0; n < one->model.graph.nodes; n++) {
        const qs_onnx_node *node = &one->model.graph.node[n];
        if (strcmp(node->domain, "ai.onnx.preview.training") != 0) continue;
        status =
            strcmp(node->op, "Gradient") == 0 ? gradient_case(one, node, devices, device, folder) : update_case(one, node, devices, device);
        if (status != QS_OK) break;
    }
    way_end(out, status == QS_OK ? WAY_PASSED : status == QS_UNSUPPORTED ? WAY_REFUSED : WAY_FAILED, one);
}
