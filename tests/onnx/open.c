// SPDX-License-Identifier: Apache-2.0
/* The model files at hand open, and hold what is known of them. */
#include "kit/kit.h"
#include "qsync/onnx.h"

#include <dirent.h>

/* The path of a file below data/onnx/models of the data folder, which the caller frees; skips where there is none. */
static char *model_path(const char *name) {
    char *folder = NULL, *path = NULL;
    assert_ok(qs_path_join(getenv("QS_TEST_SHARED"), "data/onnx/models", &folder));
    assert_ok(qs_path_join(folder, name, &path));
    free(folder);
    FILE *file = fopen(path, "rb");
    if (!file) {
        free(path);
        skip();
    }
    fclose(file);
    return path;
}

static void model_open(const char *name, qs_onnx_model *model) {
    char *path = model_path(name);
    assert_ok(qs_onnx_open(path, model));
    free(path);
}

TEST(every_model_opens) {
    const char *const folders[] = {"", "light", "mnist-cntk-opset8"};
    int opened = 0;
    for (size_t i = 0; i < COUNT_OF(folders); i++) {
        char *folder = model_path(folders[i]);
        DIR *list = opendir(folder);
        assert_non_null(list);
        for (const struct dirent *entry; (entry = readdir(list));) {
            const char *end = strrchr(entry->d_name, '.');
            if (!end || strcmp(end, ".onnx") != 0) continue;
            char *path = NULL;
            qs_onnx_model model;
            assert_ok(qs_path_join(folder, entry->d_name, &path));
            assert_ok(qs_onnx_open(path, &model));
            assert_true(model.graph.nodes > 0 && model.graph.inputs > 0 && model.graph.outputs > 0);
            for (int n = 0; n < model.graph.nodes; n++) /* each reads what those before it write */
                for (int k = 0; k < model.graph.node[n].inputs; k++) {
                    const int value = model.graph.node[n].input[k];
                    assert_true(value < model.graph.values);
                    if (value >= 0) assert_true(model.graph.value[value].producer < n);
                }
            qs_onnx_release(&model);
            free(path);
            opened++;
        }
        closedir(list);
        free(folder);
    }
    assert_int_equal(opened, 15);
}

TEST(a_small_network_is_read_as_it_is) {
    qs_onnx_model model;
    model_open("mnist-cntk-opset8/mnist.onnx", &model);
    const qs_onnx_graph *graph = &model.graph;
    assert_string_equal(model.producer_name, "CNTK");
    assert_int_equal(model.opset[0].version, 8);
    assert_int_equal(graph->inputs, 1); /* initializers, which the file lists as inputs too, are not among them */
    const qs_onnx_value *input = &graph->value[graph->input[0]];
    assert_string_equal(input->name, "Input3");
    assert_int_equal(input->declared_type, QS_ONNX_FLOAT);
    assert_int_equal(input->declared_rank, 4);
    assert_int_equal(input->declared[2].value, 28);
    const qs_onnx_node *convolution = NULL;
    for (int i = 0; i < graph->nodes && !convolution; i++)
        if (strcmp(graph->node[i].op, "Conv") == 0) convolution = &graph->node[i];
    assert_non_null(convolution);
    const int64_t *kernel;
    size_t count;
    assert_ok(qs_onnx_attribute_ints(convolution, "kernel_shape", &kernel, &count));
    assert_int_equal(count, 2);
    assert_int_equal(kernel[0], 5);
    const qs_onnx_tensor *weights = graph->value[convolution->input[1]].constant;
    assert_non_null(weights);
    assert_int_equal(weights->count, 8 * 25);
    float value[200];
    assert_ok(qs_onnx_tensor_floats(weights, 0, 200, value));
    for (int i = 0; i < 200; i++)
        assert_true(fabsf(value[i]) < 2 && value[i] != 0);
    assert_refused(qs_onnx_attribute_ints(convolution, "auto_pad", &kernel, &count), QS_BAD_FILE, "auto_pad");
    qs_onnx_release(&model);
}

TEST(branches_see_the_values_around_them) {
    qs_onnx_model model;
    model_open("silero-vad-16k-opset15.onnx", &model);
    int captured = 0, branches = 0;
    for (int i = 0; i < model.graph.nodes; i++) {
        const qs_onnx_node *node = &model.graph.node[i];
        if (strcmp(node->op, "If") != 0) continue;
        const qs_onnx_attribute *branch = qs_onnx_attribute_find(node, "then_branch");
        assert_non_null(branch);
        branches++;
        const qs_onnx_graph *graph = branch->graphs[0];
        for (int k = 0; k < graph->values; k++)
            if (graph->value[k].captured >= 0) {
                assert_string_equal(graph->value[k].name, model.graph.value[graph->value[k].captured].name);
                captured++;
            }
    }
    assert_true(branches > 0 && captured > 0);
    qs_onnx_release(&model);
}

TEST_MAIN(every_model_opens, a_small_network_is_read_as_it_is, branches_see_the_values_around_them)
