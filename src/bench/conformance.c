// SPDX-License-Identifier: Apache-2.0
/* Which of ONNX's official cases qsync computes as they say: passed, runnable and all, by operator, and why the others do not run. */
#include <dirent.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "conformance.h"
#include "qsync/onnx_import.h"

/* Suites as the archive has them; the cases of training are a suite of their own, wherever they lie. */
static const char *const suites[] = {"node", "pytorch-converted", "pytorch-operator", "simple", "training"};
enum { SUITES = sizeof suites / sizeof *suites, TRAINING = SUITES - 1 };

/* Operators that the models of docs/models.md are exported with: torchvision's CNNs, BERT, RoBERTa, DistilBERT, GPT-2, ViT and Swin. */
static const char *const named[] = {"Conv",
                                    "ConvTranspose",
                                    "BatchNormalization",
                                    "Relu",
                                    "Clip",
                                    "Sigmoid",
                                    "HardSigmoid",
                                    "HardSwish",
                                    "LeakyRelu",
                                    "PRelu",
                                    "Elu",
                                    "MaxPool",
                                    "AveragePool",
                                    "GlobalAveragePool",
                                    "ReduceMean",
                                    "Concat",
                                    "Flatten",
                                    "Gemm",
                                    "Dropout",
                                    "Pad",
                                    "Constant",
                                    "Identity",
                                    "Mul",
                                    "Add",
                                    "Shape",
                                    "Gather",
                                    "Unsqueeze",
                                    "Slice",
                                    "Cast",
                                    "Div",
                                    "Reshape",
                                    "Transpose",
                                    "MatMul",
                                    "Erf",
                                    "Pow",
                                    "Sqrt",
                                    "Sub",
                                    "Resize",
                                    "GroupNormalization",
                                    "InstanceNormalization",
                                    "LayerNormalization",
                                    "LRN",
                                    "LSTM",
                                    "GRU",
                                    "RNN",
                                    "Softmax",
                                    "Tanh",
                                    "Split",
                                    "Squeeze",
                                    "ConstantOfShape",
                                    "Expand",
                                    "Equal",
                                    "Where",
                                    "Not",
                                    "CumSum",
                                    "Range",
                                    "Mod",
                                    "ScatterND",
                                    "IsNaN",
                                    "And",
                                    "GreaterOrEqual",
                                    "Max",
                                    "GatherND",
                                    "Gelu"};

static bool is_named(const char *op) {
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (strcmp(op, named[i]) == 0) return true;
    return false;
}

/* ---- Results -------------------------------------------------------------------------------------------------------------------- */

typedef struct outcome {
    char name[96], op[48];
    int suite;
    char outside[200]; /* why it is not runnable; "": it is */
    way kernels, folded;
    bool passed;
} outcome;

typedef struct run {
    const char *folder, *pattern; /* pattern NULL: all */
    bool json;
    qs_device *device[2];
    int devices, count;
    size_t capacity;
    outcome *outcome;
} run;

/* An operator that neither folds nor is imported is not there: its cases are not runnable. One that models need is, whatever becomes of
 * it. */
static void known_check(const onnx_case *one, outcome *out) {
    for (int n = 0; n < one->model.graph.nodes && !out->outside[0]; n++) {
        const qs_onnx_node *node = &one->model.graph.node[n];
        if (!qs_onnx_evaluates(node) && !qs_onnx_imports(node->op) && !is_named(node->op))
            snprintf(out->outside, sizeof out->outside, "no operator %s here", node->op);
    }
}

static int case_opset(const onnx_case *one) {
    return one->model.graph.nodes > 0 ? one->model.graph.node[0].opset : 0;
}

static void case_run(const run *all, const onnx_case *one, outcome *out) {
    if (out->suite == TRAINING) {
        out->folded = (way){.result = WAY_REFUSED, .why = "constants are not trained"};
        case_train(one, all->devices, all->device, all->folder, &out->kernels);
        out->passed = out->kernels.result == WAY_PASSED;
        return;
    }
    known_check(one, out);
    if (out->outside[0]) return;
    case_fold(one, &out->folded);
    case_kernels(one, all->devices, all->device, all->folder, &out->kernels);
    /* earlier operators broadcast, for example, in another way: qsync reads files from opset 7 on */
    if (out->folded.result == WAY_REFUSED && out->kernels.result == WAY_REFUSED && case_opset(one) < 7)
        snprintf(out->outside, sizeof out->outside, "opset %d", case_opset(one));
    /* both ways are qsync's: one that gives other values is wrong, whatever the other gives */
    out->passed = (out->folded.result == WAY_PASSED || out->kernels.result == WAY_PASSED) && out->folded.result != WAY_FAILED &&
                  out->kernels.result != WAY_FAILED;
}

static qs_status case_add(run *all, int suite, const char *name) {
    onnx_case one;
    QS_TRY(qs_grow(&all->outcome, &all->capacity, (size_t)all->count + 1, sizeof *all->outcome));
    outcome *out = &all->outcome[all->count];
    *out = (outcome){.suite = suite, .kernels.result = WAY_REFUSED, .folded.result = WAY_REFUSED};
    const qs_status status = case_open(all->folder, suites[suite], name, &one);
    if (status == QS_OK) {
        memcpy(out->name, one.name, sizeof out->name);
        memcpy(out->op, one.op, sizeof out->op);
        memcpy(out->outside, one.outside, sizeof out->outside);
        for (int n = 0; n < one.model.graph.nodes; n++)
            if (strcmp(one.model.graph.node[n].domain, "ai.onnx.preview.training") == 0) {
                out->suite = TRAINING;
                snprintf(out->op, sizeof out->op, "%s", one.model.graph.node[n].op);
            }
        if (!out->outside[0]) case_run(all, &one, out);
        all->count++;
    }
    case_close(&one);
    return qs_fail_within(status, "case %s/%s", suites[suite], name);
}

static int by_name(const struct dirent **left, const struct dirent **right) {
    return strcmp((*left)->d_name, (*right)->d_name);
}

static qs_status suite_run(run *all, int suite) {
    char folder[512];
    struct dirent **entry = NULL;
    snprintf(folder, sizeof folder, "%s/%s", all->folder, suites[suite]);
    const int entries = scandir(folder, &entry, NULL, by_name);
    qs_status status = entries < 0 ? qs_fail(QS_USAGE, "%s: no folder %s of cases", all->folder, suites[suite]) : QS_OK;
    for (int i = 0; i < entries; i++) {
        const char *name = entry[i]->d_name;
        if (status == QS_OK && strncmp(name, "test_", 5) == 0 && (!all->pattern || fnmatch(all->pattern, name + 5, 0) == 0))
            status = case_add(all, suite, name);
        free(entry[i]);
    }
    free(entry);
    return status;
}

/* ---- Counts ----------------------------------------------------------------------------------------------------------------------- */

typedef struct counts {
    int all, runnable, passed, kernels, folded, differ;
} counts;

static void count(counts *to, const outcome *one) {
    to->all++;
    to->runnable += !one->outside[0];
    to->passed += one->passed;
    to->kernels += one->kernels.result == WAY_PASSED;
    to->folded += one->folded.result == WAY_PASSED;
    to->differ += one->kernels.result == WAY_FAILED || one->folded.result == WAY_FAILED;
}

static json_t *counts_json(const counts *one) {
    return json_pack("{s:i,s:i,s:i,s:i,s:i,s:i}", "passed", one->passed, "runnable", one->runnable, "all", one->all, "passed_by_kernels",
                     one->kernels, "passed_by_folding", one->folded, "differ", one->differ);
}

/* What a case is counted as: of a suite, or of an operator among the nodes (suite -1). */
static counts counts_of(const run *all, int suite, const char *op) {
    counts out = {0};
    for (int i = 0; i < all->count; i++)
        if ((suite < 0 || all->outcome[i].suite == suite) && (!op || strcmp(all->outcome[i].op, op) == 0)) count(&out, &all->outcome[i]);
    return out;
}

/* ---- Report ------------------------------------------------------------------------------------------------------------------ */

static const char *key_of(const outcome *one, char text[128]) {
    snprintf(text, 128, "%s/%s", suites[one->suite], one->name);
    return text;
}

/* Why a runnable case did not pass. */
static json_t *reason_json(const outcome *one) {
    return json_pack("{s:s,s:s}", "kernels", one->kernels.result == WAY_PASSED ? "passed" : one->kernels.why, "folding",
                     one->folded.result == WAY_PASSED ? "passed" : one->folded.why);
}

static json_t *report(const run *all) {
    char key[128];
    json_t *out = json_object(), *operators = json_object(), *outside = json_object(), *failed = json_object(), *only = json_array(),
           *bound = json_object(), *rest = json_array();
    counts of_models = {0};
    for (int s = 0; s < SUITES; s++) {
        const counts suite = counts_of(all, s, NULL);
        json_object_set_new(out, suites[s], counts_json(&suite));
    }
    for (int i = 0; i < all->count; i++) {
        const outcome *one = &all->outcome[i];
        key_of(one, key);
        if (!json_object_get(operators, one->op)) {
            const counts op = counts_of(all, -1, one->op);
            json_object_set_new(operators, one->op, counts_json(&op));
        }
        if (one->outside[0])
            json_object_set_new(outside, key, json_string(one->outside));
        else if (!one->passed)
            json_object_set_new(failed, key, reason_json(one));
        if (one->suite == 0 && is_named(one->op) && !one->outside[0]) {
            count(&of_models, one);
            if (!one->passed) json_array_append_new(rest, json_string(one->name));
        }
        if (one->passed && one->kernels.result != WAY_PASSED && qs_onnx_imports(one->op)) json_array_append_new(only, json_string(key));
        if (one->kernels.result == WAY_PASSED && one->kernels.bound[0]) json_object_set_new(bound, key, json_string(one->kernels.bound));
    }
    json_t *models = counts_json(&of_models);
    json_object_set_new(models, "rest", rest);
    json_object_set_new(out, "of_models", models);
    json_object_set_new(out, "operators", operators);
    json_object_set_new(out, "passed_by_folding_only", only);
    json_object_set_new(out, "bound_as_weights", bound);
    json_object_set_new(out, "failed", failed);
    json_object_set_new(out, "not_runnable", outside);
    return out;
}

static void row_print(const char *name, const counts *one) {
    printf("%-28s %7d %9d %5d %12d %12d\n", name, one->passed, one->runnable, one->all, one->kernels, one->folded);
}

static void table_print(const run *all) {
    char key[128];
    printf("%-28s %7s %9s %5s %12s %12s\n", "operator", "passed", "runnable", "all", "by kernels", "by folding");
    for (int i = 0; i < all->count; i++) {
        bool before = false;
        for (int k = 0; k < i; k++)
            before = before || strcmp(all->outcome[k].op, all->outcome[i].op) == 0;
        const counts op = counts_of(all, -1, all->outcome[i].op);
        if (!before) row_print(all->outcome[i].op, &op);
    }
    printf("\n");
    for (int s = 0; s < SUITES; s++) {
        const counts suite = counts_of(all, s, NULL);
        row_print(suites[s], &suite);
    }
    for (int i = 0; i < all->count; i++) {
        const outcome *one = &all->outcome[i];
        if (one->outside[0])
            printf("%s: not runnable: %s\n", key_of(one, key), one->outside);
        else if (!one->passed)
            printf("%s: kernels: %s; folding: %s\n", key_of(one, key), one->kernels.result == WAY_PASSED ? "passed" : one->kernels.why,
                   one->folded.result == WAY_PASSED ? "passed" : one->folded.why);
        else if (all->pattern)
            printf("%s: kernels: %s (weights: %s); folding: %s\n", key_of(one, key),
                   one->kernels.result == WAY_PASSED ? "passed" : one->kernels.why, one->kernels.bound,
                   one->folded.result == WAY_PASSED ? "passed" : one->folded.why);
    }
}

static const option_row option_rows[] = {
    {OPTION(run, pattern, "cases", "PATTERN", "cases whose names match, and more about each"), .usual = "all"},
    {OPTION_JSON(run)},
};

static qs_status devices_open(run *all) {
    for (size_t i = 0; qs_device_backend_at(i); i++) {
        const char *name = qs_device_backend_at(i);
        if (strcmp(name, "ref") != 0 && strcmp(name, "cpu") != 0) continue;
        QS_TRY(qs_device_open(&(qs_device_options){.backend = name, .threads = 1, .speed = 1}, &all->device[all->devices]));
        all->devices++;
    }
    return QS_OK;
}

qs_status bench_conformance(int argc, char **argv) {
    const verb_usage usage = {
        .verb = "conformance",
        .arguments = "FOLDER",
        .purpose =
            "Runs the official cases of ONNX's backend tests, unpacked in FOLDER: node, pytorch-converted, pytorch-operator, simple. A "
            "case runs\n"
            "by kernels, imported as a model whose weights are the case's values and evaluated in fp32 on the devices ref and cpu, and by\n"
            "folding, as constants of models are. It passes where one of the two gives all outputs as it says, to 1e-3 of the value and "
            "1e-7,\n"
            "and neither gives others. Cases of ai.onnx.preview.training are updates and gradients of training steps. Files come and go in "
            "FOLDER.",
        .examples = "  qsync-bench conformance cases --cases 'conv_*'\n",
        .least = 1,
        .most = 1};
    run all = {.folder = NULL};
    int first = 0;
    bool done = false;
    option_table table = {0};
    OPTIONS_ADD(&table, option_rows, &all);
    QS_TRY(options_parse(&table, &usage, argc, argv, &first, &done));
    if (done) return QS_OK;
    all.folder = argv[first];
    qs_status status = devices_open(&all);
    for (int s = 0; s < TRAINING && status == QS_OK; s++)
        status = suite_run(&all, s);
    if (status == QS_OK && all.count == 0) status = qs_fail(QS_USAGE, "no case in %s matches", all.folder);
    if (status == QS_OK && all.json) status = json_print(report(&all));
    if (status == QS_OK && !all.json) table_print(&all);
    for (int d = 0; d < all.devices; d++)
        qs_device_close(all.device[d]);
    free(all.outcome);
    return status;
}
