// SPDX-License-Identifier: Apache-2.0
/* See cudnn.h. */
#include "cuda/cudnn.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 1024, CONFIGS = 16, LEAST_VERSION = 90000 };
/* Weight gradients of depthwise convolutions: on an H100 a sum of 30 products was off by 27 units of fp32, though no note says so. */
enum { SHORT_ENGINE = 17 };

typedef struct entry entry;
struct entry {
    qs__cudnn_plans plans;
    entry *next;
};

struct qs__cudnn {
    const qs__cudnn_functions *call;
    cudnnHandle_t handle;
    int32_t fill; /* multiprocessors that kernels may fill; 0: all */
    entry *bucket[BUCKETS];
};

static const char cudnn_file[] = "libcudnn.so.9";

/* ---- The library ------------------------------------------------------------------------------------------------------------------ */

/* What the library says of a call that failed: the status, and what it noted about it. */
static qs_status complain(const qs__cudnn_functions *call, qs_status status, cudnnStatus_t result, const char *what) {
    char note[400] = "";
    call->last_error(note, sizeof note);
    note[strcspn(note, "\n")] = 0;
    return qs_fail(status, "%s: cuDNN says %s (%d)%s%s", what, call->error_string(result), (int)result, note[0] ? ": " : "", note);
}

static qs_status functions_find(const qs__cudnn_functions **out) {
    static const char *const symbols[] = {
#define QS__CUDNN_SYMBOL(result, member, symbol, parameters) #symbol,
        QS__CUDNN_LIST(QS__CUDNN_SYMBOL)
#undef QS__CUDNN_SYMBOL
    };
    static qs__cudnn_functions functions;
    static bool found;
    *out = &functions;
    if (found) return QS_OK;
    QS_TRY(qs__functions_find(cudnn_file, sizeof symbols / sizeof symbols[0], symbols, &functions));
    if (functions.version() < LEAST_VERSION)
        return qs_fail(QS_UNSUPPORTED, "%s is version %zu: %d is the least", cudnn_file, functions.version(), LEAST_VERSION);
    found = true;
    return QS_OK;
}

static qs_status start(qs__cuda *cuda, qs__cudnn *library) {
    cudnnStatus_t result;
    QS_TRY(functions_find(&library->call));
    const qs__cudnn_functions *call = library->call;
    library->fill = cuda->part ? cuda->multiprocessors : 0;
    result = call->create(&library->handle);
    if (result != CUDNN_STATUS_SUCCESS) return complain(call, QS_UNSUPPORTED, result, "opening cuDNN");
    result = call->stream(library->handle, (cudaStream_t)cuda->stream[QS_QUEUE_KERNELS]);
    return result == CUDNN_STATUS_SUCCESS ? QS_OK : complain(call, QS_UNSUPPORTED, result, "giving cuDNN the queue of kernels");
}

qs_status qs__cudnn_open(qs__cuda *cuda) {
    if (cuda->cudnn) return QS_OK;
    QS_TRY(qs_allocate(1, sizeof *cuda->cudnn, &cuda->cudnn));
    const qs_status status = start(cuda, cuda->cudnn);
    if (status != QS_OK) qs__cudnn_close(cuda);
    return status;
}

static void entry_free(const qs__cudnn *library, entry *old) {
    for (int i = 0; i < old->plans.count; i++)
        library->call->descriptor_destroy(old->plans.plan[i].descriptor);
    free(old->plans.key);
    free(old->plans.reason);
    free(old);
}

void qs__cudnn_trim(qs__cuda *cuda) {
    qs__cudnn *library = cuda->cudnn;
    for (int i = 0; library && i < BUCKETS; i++)
        for (entry **at = &library->bucket[i]; *at;) {
            entry *one = *at;
            if (one->plans.users > 0) {
                at = &one->next;
                continue;
            }
            *at = one->next;
            entry_free(library, one);
        }
}

void qs__cudnn_close(qs__cuda *cuda) {
    qs__cudnn *library = cuda->cudnn;
    if (!library) return;
    qs__cudnn_trim(cuda);
    if (library->handle) library->call->destroy(library->handle);
    free(library);
    cuda->cudnn = NULL;
}

/* ---- Graphs ------------------------------------------------------------------------------------------------------------------------ */

static void graph_check(qs__cudnn_graph *graph, cudnnStatus_t result, const char *verb, const char *what) {
    char text[128];
    if (result == CUDNN_STATUS_SUCCESS) return;
    snprintf(text, sizeof text, "%s %s", verb, what);
    graph->status = complain(graph->library->call, QS_UNSUPPORTED, result, text);
}

cudnnBackendDescriptor_t qs__cudnn_create(qs__cudnn_graph *graph, cudnnBackendDescriptorType_t type, const char *name) {
    cudnnBackendDescriptor_t descriptor = NULL;
    if (graph->status != QS_OK) return NULL;
    if (graph->descriptors == QS__CUDNN_DESCRIPTORS) {
        graph->status = qs_fail(QS_FAILED, "a cuDNN graph of more than %d descriptors", QS__CUDNN_DESCRIPTORS);
        return NULL;
    }
    graph_check(graph, graph->library->call->descriptor_create(type, &descriptor), "making", name);
    if (graph->status == QS_OK) graph->descriptor[graph->descriptors++] = descriptor;
    return descriptor;
}

void qs__cudnn_set(qs__cudnn_graph *graph, cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name, const char *text,
                   cudnnBackendAttributeType_t type, int64_t count, const void *values) {
    if (graph->status == QS_OK) graph_check(graph, graph->library->call->set(descriptor, name, type, count, values), "setting", text);
}

void qs__cudnn_finish(qs__cudnn_graph *graph, cudnnBackendDescriptor_t descriptor, const char *name) {
    if (graph->status == QS_OK) graph_check(graph, graph->library->call->finalize(descriptor), "finishing", name);
}

void qs__cudnn_operation_finish(qs__cudnn_graph *graph, cudnnBackendDescriptor_t operation, const char *name) {
    qs__cudnn_finish(graph, operation, name);
    if (graph->status != QS_OK) return;
    if (graph->operations == QS__CUDNN_OPERATIONS)
        graph->status = qs_fail(QS_FAILED, "a cuDNN graph of more than %d operations", QS__CUDNN_OPERATIONS);
    else
        graph->operation[graph->operations++] = operation;
}

void qs__cudnn_channels_last(qs__cudnn_tensor *tensor) {
    tensor->stride[1] = 1;
    tensor->stride[3] = tensor->dim[1];
    tensor->stride[2] = tensor->stride[3] * tensor->dim[3];
    tensor->stride[0] = tensor->stride[2] * tensor->dim[2];
}

cudnnBackendDescriptor_t qs__cudnn_tensor_add(qs__cudnn_graph *graph, const qs__cudnn_tensor *tensor) {
    const int64_t alignment = 16; /* operands and scratch begin at more */
    cudnnBackendDescriptor_t out = QS__CUDNN_CREATE(graph, TENSOR);
    QS__CUDNN_SET(graph, out, TENSOR_UNIQUE_ID, INT64, 1, &tensor->uid);
    QS__CUDNN_SET(graph, out, TENSOR_DATA_TYPE, DATA_TYPE, 1, &tensor->type);
    QS__CUDNN_SET(graph, out, TENSOR_DIMENSIONS, INT64, QS__CUDNN_DIMS, tensor->dim);
    QS__CUDNN_SET(graph, out, TENSOR_STRIDES, INT64, QS__CUDNN_DIMS, tensor->stride);
    QS__CUDNN_SET(graph, out, TENSOR_BYTE_ALIGNMENT, INT64, 1, &alignment);
    if (tensor->is_virtual) QS__CUDNN_SET(graph, out, TENSOR_IS_VIRTUAL, BOOLEAN, 1, &tensor->is_virtual);
    if (tensor->by_value) QS__CUDNN_SET(graph, out, TENSOR_IS_BY_VALUE, BOOLEAN, 1, &tensor->by_value);
    qs__cudnn_finish(graph, out, "TENSOR");
    return out;
}

void qs__cudnn_pointwise(qs__cudnn_graph *graph, const qs__cudnn_point *point) {
    cudnnBackendDescriptor_t what = QS__CUDNN_CREATE(graph, POINTWISE);
    QS__CUDNN_SET(graph, what, POINTWISE_MODE, POINTWISE_MODE, 1, &point->mode);
    QS__CUDNN_SET(graph, what, POINTWISE_MATH_PREC, DATA_TYPE, 1, &point->precision);
    if (point->mode == CUDNN_POINTWISE_GEN_INDEX) QS__CUDNN_SET(graph, what, POINTWISE_AXIS, INT64, 1, &point->axis);
    qs__cudnn_finish(graph, what, "POINTWISE");
    cudnnBackendDescriptor_t operation = QS__CUDNN_CREATE(graph, OPERATION_POINTWISE);
    QS__CUDNN_SET(graph, operation, OPERATION_POINTWISE_PW_DESCRIPTOR, BACKEND_DESCRIPTOR, 1, &what);
    QS__CUDNN_SET(graph, operation, OPERATION_POINTWISE_XDESC, BACKEND_DESCRIPTOR, 1, &point->x);
    if (point->b) QS__CUDNN_SET(graph, operation, OPERATION_POINTWISE_BDESC, BACKEND_DESCRIPTOR, 1, &point->b);
    if (point->t) QS__CUDNN_SET(graph, operation, OPERATION_POINTWISE_TDESC, BACKEND_DESCRIPTOR, 1, &point->t);
    QS__CUDNN_SET(graph, operation, OPERATION_POINTWISE_YDESC, BACKEND_DESCRIPTOR, 1, &point->y);
    qs__cudnn_operation_finish(graph, operation, "OPERATION_POINTWISE");
}

static void graph_release(qs__cudnn_graph *graph) {
    while (graph->descriptors > 0)
        graph->library->call->descriptor_destroy(graph->descriptor[--graph->descriptors]);
}

/* ---- Plans ------------------------------------------------------------------------------------------------------------------------- */

static void ask(qs__cudnn_graph *graph, cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name, const char *text,
                cudnnBackendAttributeType_t type, int64_t wanted, int64_t *count, void *values) {
    if (graph->status == QS_OK)
        graph_check(graph, graph->library->call->get(descriptor, name, type, wanted, count, values), "asking", text);
}
#define ASK(graph, descriptor, attribute, type, wanted, count, values) \
    ask(graph, descriptor, CUDNN_ATTR_##attribute, #attribute, CUDNN_TYPE_##type, wanted, count, values)

/* Why the rule forbids an engine; NULL where it does not. */
static const char *forbidden(const qs__cudnn_rule *rule, int64_t notes, const cudnnBackendNumericalNote_t *note) {
    for (int64_t i = 0; i < notes; i++) {
        if (note[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) return "its sums depend on the run";
        if (note[i] == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION) return "it sums in less than fp32";
        if (note[i] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) return "it shortens its factors";
        if (note[i] == CUDNN_NUMERICAL_NOTE_FFT) return "it goes through a Fourier transform";
        if (note[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE && rule->no_tensor_cores) return "it rounds fp32 to TF32";
        if (note[i] >= CUDNN_NUMERICAL_NOTE_WINOGRAD && note[i] <= CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13)
            return "it goes through a Winograd transform";
    }
    return NULL;
}

/* Engine and knobs as a name; one that would be too long ends in a digest of all of it. */
static void config_name(qs__cudnn_graph *asked, cudnnBackendDescriptor_t config, int64_t engine, char *name, size_t bytes) {
    cudnnBackendDescriptor_t choice[CUDNN_KNOB_TYPE_COUNTS];
    char text[1024];
    int64_t choices = 0, count = 0;
    uint32_t digest = 0;
    size_t used = (size_t)snprintf(text, sizeof text, "eng%lld", (long long)engine);
    for (int i = 0; i < CUDNN_KNOB_TYPE_COUNTS; i++)
        choice[i] = QS__CUDNN_CREATE(asked, KNOB_CHOICE);
    ASK(asked, config, ENGINECFG_KNOB_CHOICES, BACKEND_DESCRIPTOR, CUDNN_KNOB_TYPE_COUNTS, &choices, choice);
    for (int64_t i = 0; i < choices && i < CUDNN_KNOB_TYPE_COUNTS && used < sizeof text; i++) {
        cudnnBackendKnobType_t type = CUDNN_KNOB_TYPE_COUNTS;
        int64_t value = 0;
        ASK(asked, choice[i], KNOB_CHOICE_KNOB_TYPE, KNOB_TYPE, 1, &count, &type);
        ASK(asked, choice[i], KNOB_CHOICE_KNOB_VALUE, INT64, 1, &count, &value);
        used += (size_t)snprintf(text + used, sizeof text - used, "_k%d=%lld", (int)type, (long long)value);
    }
    for (const char *at = text; *at; at++)
        digest = qs_random_hash(digest, (uint32_t)(unsigned char)*at, (uint32_t)(at - text));
    if (strlen(text) < bytes)
        snprintf(name, bytes, "%s", text);
    else
        snprintf(name, bytes, "%.*s_%08x", (int)bytes - 10, text, (unsigned)digest);
}

/* A configuration's engine: whether the rule allows it, and whether its kernels are compiled when it is planned. */
static qs_status engine_ask(qs__cudnn_graph *asked, cudnnBackendDescriptor_t config, const qs__cudnn_rule *rule, int64_t *index,
                            bool *compiles) {
    cudnnBackendNumericalNote_t note[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    cudnnBackendBehaviorNote_t behavior[CUDNN_BEHAVIOR_NOTE_TYPE_COUNT];
    int64_t notes = 0, behaviors = 0, count = 0; /* of as many as were asked for at most */
    cudnnBackendDescriptor_t engine = QS__CUDNN_CREATE(asked, ENGINE);
    ASK(asked, config, ENGINECFG_ENGINE, BACKEND_DESCRIPTOR, 1, &count, &engine);
    ASK(asked, engine, ENGINE_GLOBAL_INDEX, INT64, 1, &count, index);
    ASK(asked, engine, ENGINE_NUMERICAL_NOTE, NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &notes, note);
    ASK(asked, engine, ENGINE_BEHAVIOR_NOTE, BEHAVIOR_NOTE, CUDNN_BEHAVIOR_NOTE_TYPE_COUNT, &behaviors, behavior);
    QS_TRY(asked->status);
    const char *why = forbidden(rule, notes, note);
    if (!why && rule->no_tensor_cores && *index == SHORT_ENGINE) why = "its sums of fp32 are short";
    if (why) return qs_fail(QS_UNSUPPORTED, "cuDNN's engine %lld is not taken: %s", (long long)*index, why);
    *compiles = false;
    for (int64_t i = 0; i < behaviors; i++)
        if (behavior[i] == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) *compiles = true;
    return QS_OK;
}

/* The plan of one configuration; none, its descriptor NULL, where the engine is of the other kind: compiled when it is planned, or not. */
static qs_status plan_make(qs__cudnn *library, cudnnBackendDescriptor_t config, const qs__cudnn_rule *rule, bool compiled,
                           qs__cudnn_plan *plan) {
    qs__cudnn_graph asked = {.library = library};
    int64_t index = -1, count = 0, workspace = 0;
    bool compiles = false;
    asked.status = engine_ask(&asked, config, rule, &index, &compiles);
    if (asked.status == QS_OK && compiles != compiled) {
        graph_release(&asked);
        return QS_OK;
    }
    config_name(&asked, config, index, plan->name, sizeof plan->name);
    cudnnBackendDescriptor_t made = QS__CUDNN_CREATE(&asked, EXECUTION_PLAN);
    QS__CUDNN_SET(&asked, made, EXECUTION_PLAN_HANDLE, HANDLE, 1, &library->handle);
    QS__CUDNN_SET(&asked, made, EXECUTION_PLAN_ENGINE_CONFIG, BACKEND_DESCRIPTOR, 1, &config);
    qs__cudnn_finish(&asked, made, plan->name);
    ASK(&asked, made, EXECUTION_PLAN_WORKSPACE_SIZE, INT64, 1, &count, &workspace);
    if (asked.status == QS_OK) {
        asked.descriptors--; /* the plan stays */
        plan->descriptor = made;
        plan->workspace = (size_t)workspace;
    }
    graph_release(&asked);
    return asked.status;
}

/* Configurations that one mode of the heuristics offers, into `config`; their descriptors are the graph's. `fill`: how many multiprocessors
 * they are for; 0: they are not told. */
static int configs_ask(qs__cudnn_graph *graph, cudnnBackendDescriptor_t operations, cudnnBackendHeurMode_t mode, int32_t fill,
                       cudnnBackendDescriptor_t *config) {
    int64_t count = 0;
    cudnnBackendDescriptor_t heuristics = QS__CUDNN_CREATE(graph, ENGINEHEUR);
    QS__CUDNN_SET(graph, heuristics, ENGINEHEUR_OPERATION_GRAPH, BACKEND_DESCRIPTOR, 1, &operations);
    QS__CUDNN_SET(graph, heuristics, ENGINEHEUR_MODE, HEUR_MODE, 1, &mode);
    if (fill > 0) QS__CUDNN_SET(graph, heuristics, ENGINEHEUR_SM_COUNT_TARGET, INT32, 1, &fill);
    qs__cudnn_finish(graph, heuristics, mode == CUDNN_HEUR_MODE_A ? "ENGINEHEUR of mode A" : "ENGINEHEUR of fallbacks");
    for (int i = 0; i < CONFIGS; i++)
        config[i] = QS__CUDNN_CREATE(graph, ENGINECFG);
    ASK(graph, heuristics, ENGINEHEUR_RESULTS, BACKEND_DESCRIPTOR, CONFIGS, &count, config);
    return graph->status != QS_OK ? 0 : count < CONFIGS ? (int)count : CONFIGS;
}

static bool planned(const qs__cudnn_plans *plans, const qs__cudnn_plan *plan) {
    for (int i = 0; i < plans->count; i++)
        if (!strcmp(plans->plan[i].name, plan->name)) return true;
    return false;
}

/* Adds plans of configurations; *status becomes why the last one that failed did. */
static void configs_plan(qs__cudnn_graph *graph, const cudnnBackendDescriptor_t *config, int count, const qs__cudnn_rule *rule,
                         bool compiled, qs__cudnn_plans *plans, qs_status *status) {
    const int wanted = compiled ? 1 : QS__CUDNN_PLANS;
    for (int i = 0; i < count && plans->count < wanted; i++) {
        qs__cudnn_plan plan = {0};
        const qs_status made = plan_make(graph->library, config[i], rule, compiled, &plan);
        if (made != QS_OK)
            *status = made;
        else if (plan.descriptor && !planned(plans, &plan))
            plans->plan[plans->count++] = plan;
        else if (plan.descriptor)
            graph->library->call->descriptor_destroy(plan.descriptor);
    }
}

/* What the heuristics offer first, and their fallbacks; a mode that fails offers nothing. Compiling an engine's kernel takes seconds, so
 * one is compiled where there is nothing ready, and no second. */
static qs_status plans_make(qs__cudnn_graph *graph, const qs__cudnn_rule *rule, qs__cudnn_plans *plans) {
    cudnnBackendDescriptor_t operations = QS__CUDNN_CREATE(graph, OPERATIONGRAPH), config[2 * CONFIGS];
    QS__CUDNN_SET(graph, operations, OPERATIONGRAPH_HANDLE, HANDLE, 1, &graph->library->handle);
    QS__CUDNN_SET(graph, operations, OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR, graph->operations, graph->operation);
    qs__cudnn_finish(graph, operations, "OPERATIONGRAPH");
    QS_TRY(graph->status);
    qs_status status = qs_fail(QS_UNSUPPORTED, "cuDNN has no engine for it on this GPU");
    for (int told = graph->library->fill > 0; told >= 0 && plans->count == 0; told--) { /* cuDNN 9.19 offered little on an H100 when told */
        const int32_t fill = told ? graph->library->fill : 0;
        int found = configs_ask(graph, operations, CUDNN_HEUR_MODE_A, fill, config);
        graph->status = QS_OK;
        found += configs_ask(graph, operations, CUDNN_HEUR_MODE_FALLBACK, fill, config + found);
        graph->status = QS_OK;
        for (int compiled = 0; compiled < 2 && plans->count == 0; compiled++)
            configs_plan(graph, config, found, rule, compiled, plans, &status);
    }
    return plans->count > 0 ? QS_OK : status;
}

static qs_status entry_make(qs__cudnn *library, const qs__cuda_kernel *kernel, const char *key, qs__cudnn_describe describe, void *context,
                            entry **out) {
    qs__cudnn_graph graph = {.library = library};
    qs__cudnn_rule rule = {0};
    entry *made = NULL;
    qs_status status = qs_allocate(1, sizeof *made, &made);
    QS_TRY(status);
    QS_GOTO(qs_format_text(&made->plans.key, "%s", key));
    status = describe(kernel, &graph, &rule, context);
    if (status == QS_OK) status = graph.status;
    if (status == QS_OK) status = plans_make(&graph, &rule, &made->plans);
    made->plans.status = status;
    if (status == QS_UNSUPPORTED) status = qs_format_text(&made->plans.reason, "%s", qs_message());
    *out = made;
done:
    graph_release(&graph);
    if (status != QS_OK) entry_free(library, made);
    return status;
}

qs_status qs__cudnn_plans_take(const qs__cuda_kernel *kernel, const char *key, qs__cudnn_describe describe, void *context,
                               qs__cudnn_plans **out) {
    uint32_t bucket = 0;
    QS_TRY(qs__cudnn_open(kernel->cuda));
    qs__cudnn *library = kernel->cuda->cudnn;
    for (const char *at = key; *at; at++)
        bucket = bucket * 31 + (unsigned char)*at;
    entry **head = &library->bucket[bucket % BUCKETS], *found = *head;
    while (found && strcmp(found->plans.key, key))
        found = found->next;
    if (!found) {
        QS_TRY(entry_make(library, kernel, key, describe, context, &found));
        found->next = *head;
        *head = found;
    }
    if (found->plans.status != QS_OK) return qs_fail(found->plans.status, "%s", found->plans.reason);
    found->plans.users++;
    *out = &found->plans;
    return QS_OK;
}

void qs__cudnn_plans_leave(qs__cudnn_plans *plans) {
    if (plans) plans->users--;
}

/* ---- Running ----------------------------------------------------------------------------------------------------------------------- */

void qs__cudnn_pack_add(qs__cudnn_pack *pack, int64_t uid, CUdeviceptr at) {
    pack->uid[pack->count] = uid;
    pack->at[pack->count++] = (void *)(uintptr_t)at;
}

qs_status qs__cudnn_pack_bind(const qs__cuda *cuda, qs__cudnn_pack *pack, CUdeviceptr workspace) {
    qs__cudnn_graph graph = {.library = cuda->cudnn};
    void *memory = (void *)(uintptr_t)workspace;
    cudnnBackendDescriptor_t made = QS__CUDNN_CREATE(&graph, VARIANT_PACK);
    QS__CUDNN_SET(&graph, made, VARIANT_PACK_UNIQUE_IDS, INT64, pack->count, pack->uid);
    QS__CUDNN_SET(&graph, made, VARIANT_PACK_DATA_POINTERS, VOID_PTR, pack->count, pack->at);
    QS__CUDNN_SET(&graph, made, VARIANT_PACK_WORKSPACE, VOID_PTR, 1, &memory);
    qs__cudnn_finish(&graph, made, "VARIANT_PACK");
    if (graph.status == QS_OK)
        pack->descriptor = made;
    else
        graph_release(&graph);
    return graph.status == QS_OK ? QS_OK : qs_fail_within(QS_FAILED, "what a plan of cuDNN is given");
}

void qs__cudnn_pack_release(const qs__cuda *cuda, qs__cudnn_pack *pack) {
    if (pack->descriptor) cuda->cudnn->call->descriptor_destroy(pack->descriptor);
    pack->descriptor = NULL;
}

qs_status qs__cudnn_run(const qs__cuda_kernel *kernel, const qs__cudnn_plan *plan, const qs__cudnn_pack *pack) {
    const qs__cudnn *library = kernel->cuda->cudnn;
    const cudnnBackendDescriptor_t called[] = {plan->descriptor, pack->descriptor};
    if (qs__recording_repeats(kernel->cuda, called, sizeof called)) return QS_OK;
    const cudnnStatus_t result = library->call->execute(library->handle, plan->descriptor, pack->descriptor);
    return result == CUDNN_STATUS_SUCCESS ? QS_OK : complain(library->call, QS_FAILED, result, plan->name);
}
