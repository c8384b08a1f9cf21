// SPDX-License-Identifier: Apache-2.0
// labels: medium
/* ONNX's own conformance cases of what the evaluator computes: models of one node, or of the nodes that a function stands for. A case is
 * runnable where the evaluator knows all its operators; all runnable ones must agree, but for those that a list below names with the
 * reason. */
#include "kit/kit.h"
#include "kit/folder.h"
#include "qsync/onnx.h"

#include <dirent.h>

/* Cases that the evaluator does not agree with, and why. */
static const struct exception {
    const char *name, *reason;
} exceptions[] = {
    {"test_cast_FLOAT_to_STRING", "texts are not computed"},
    {"test_cast_STRING_to_FLOAT", "texts are not computed"},
    {"test_castlike_FLOAT_to_STRING", "texts are not computed"},
    {"test_castlike_FLOAT_to_STRING_expanded", "texts are not computed"},
    {"test_equal_string", "texts are not computed"},
    {"test_cast_FLOAT_to_BFLOAT16", "the expected output is a file of uint16 that hold bits of bfloat16"},
    {"test_identity_sequence", "a sequence of tensors is no tensor"},
    {"test_training_dropout_mask", "what Dropout of training draws is not computed"},
};

static bool is_exception(const char *name) {
    for (size_t i = 0; i < COUNT_OF(exceptions); i++)
        if (strcmp(exceptions[i].name, name) == 0) return true;
    return false;
}

static bool graph_is_runnable(const qs_onnx_graph *graph) {
    for (int i = 0; i < graph->nodes; i++) {
        const qs_onnx_node *node = &graph->node[i];
        if (strcmp(node->op, "If") == 0) {
            for (int a = 0; a < node->attributes; a++)
                if (node->attribute[a].graphs && !graph_is_runnable(node->attribute[a].graphs[0])) return false;
            continue;
        }
        if (!qs_onnx_evaluates(node)) return false;
    }
    return graph->nodes > 0;
}

/* The format that an element was rounded to last: half a unit of it, and as much again for what the case itself was rounded to; functions
 * and sums of the cases are those of numpy in that format, which may be off by some units. */
static double tolerance(qs_onnx_type type, double expected) {
    const double units = 16, magnitude = fabs(expected);
    switch (type) {
    case QS_ONNX_DOUBLE:
        return units * 0x1p-53 * magnitude + 1e-12;
    case QS_ONNX_FLOAT:
        return units * 0x1p-24 * magnitude + 1e-6;
    case QS_ONNX_FLOAT16:
        return 2 * 0x1p-11 * magnitude + 0x1p-24;
    case QS_ONNX_BFLOAT16:
        return 2 * 0x1p-8 * magnitude;
    default:
        return 0;
    }
}

/* What differs, or NULL. */
static const char *difference(const qs_onnx_tensor *got, const qs_onnx_tensor *expected) {
    static char text[600];
    char a[QS_ONNX_SHAPE_TEXT], b[QS_ONNX_SHAPE_TEXT];
    bool same = got->type == expected->type && got->rank == expected->rank;
    for (int i = 0; same && i < got->rank; i++)
        same = got->dim[i] == expected->dim[i];
    snprintf(text, sizeof text, "%s, expected %s", qs_onnx_tensor_text(got, a), qs_onnx_tensor_text(expected, b));
    if (!same) return text;
    for (int64_t i = 0; i < got->count; i++) {
        double x, y;
        if (qs_onnx_tensor_doubles(got, i, 1, &x) != QS_OK || qs_onnx_tensor_doubles(expected, i, 1, &y) != QS_OK) return qs_message();
        if (x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= tolerance(got->type, y)) continue;
        snprintf(text, sizeof text, "element %lld is %.9g, expected %.9g", (long long)i, x, y);
        return text;
    }
    return NULL;
}

/* Runs a data set of a case; what is wrong, or NULL. */
static const char *data_set_run(const qs_onnx_model *model, const char *folder, int set) {
    enum { MOST = 16 };
    static char text[700];
    qs_onnx_memory *memory;
    qs_onnx_tensor input[MOST], output[MOST], expected;
    const qs_onnx_tensor *in[MOST] = {NULL};
    char path[400];
    const char *wrong = NULL;
    if (model->graph.inputs > MOST || model->graph.outputs > MOST) return "too many inputs";
    assert_ok(qs_onnx_memory_make(&memory));
    for (int i = 0; i < model->graph.inputs && !wrong; i++) {
        snprintf(path, sizeof path, "%s/test_data_set_%d/input_%d.pb", folder, set, i);
        if (qs_onnx_tensor_read(path, memory, &input[i]) != QS_OK) wrong = qs_message();
        in[i] = &input[i];
    }
    if (!wrong && qs_onnx_run(model, in, memory, output) != QS_OK) wrong = qs_message();
    for (int i = 0; i < model->graph.outputs && !wrong; i++) {
        snprintf(path, sizeof path, "%s/test_data_set_%d/output_%d.pb", folder, set, i);
        wrong = qs_onnx_tensor_read(path, memory, &expected) != QS_OK ? qs_message() : difference(&output[i], &expected);
    }
    if (wrong) snprintf(text, sizeof text, "%s", wrong);
    qs_onnx_memory_release(memory);
    return wrong ? text : NULL;
}

static int all, runnable, passed, failed;

static void case_run(const char *folder, const char *name) {
    char path[400];
    qs_onnx_model model;
    struct stat facts;
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    all++;
    if (qs_onnx_open(path, &model) != QS_OK) {
        if (getenv("QS_SHOW")) print_message("%s: %s\n", name, qs_message());
        return;
    }
    if (graph_is_runnable(&model.graph) && !is_exception(name)) {
        runnable++;
        const char *wrong = NULL;
        for (int set = 0; !wrong; set++) {
            snprintf(path, sizeof path, "%s/test_data_set_%d", folder, set);
            if (stat(path, &facts) != 0) break;
            wrong = data_set_run(&model, folder, set);
        }
        if (wrong) print_error("%s: %s\n", name, wrong);
        failed += wrong != NULL;
        passed += wrong == NULL;
    }
    qs_onnx_release(&model);
}

TEST(what_is_computed_agrees_with_the_cases) {
    char folder[FOLDER_PATH], command[600];
    const char *shared = getenv("QS_TEST_SHARED");
    snprintf(command, sizeof command, "%s/data/onnx/onnx-v1.17.0-backend-tests.tar.gz", shared ? shared : "");
    FILE *archive = fopen(command, "rb");
    if (!archive) skip();
    fclose(archive);
    folder_make(folder);
    snprintf(command, sizeof command, "tar xzf '%s/data/onnx/onnx-v1.17.0-backend-tests.tar.gz' -C '%s' node", shared, folder);
    assert_int_equal(system(command), 0);
    char *cases = folder_path(folder, "node");
    DIR *list = opendir(cases);
    assert_non_null(list);
    for (const struct dirent *entry; (entry = readdir(list));) {
        if (strncmp(entry->d_name, "test_", 5) != 0) continue;
        char *path = folder_path(cases, entry->d_name);
        case_run(path, entry->d_name);
        free(path);
    }
    closedir(list);
    free(cases);
    folder_remove(folder);
    print_message("node cases: %d passed, %d runnable, %d in all\n", passed, runnable, all);
    assert_int_equal(failed, 0);
    assert_true(passed >= 443);
}

TEST_MAIN(what_is_computed_agrees_with_the_cases)
