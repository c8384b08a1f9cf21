// SPDX-License-Identifier: Apache-2.0
// labels: medium
// links: schedule
/* A file in reduced formats comes back by import as the float model of the numbers that it holds: parameters under their names with the
 * bits of (code - zero point) · step, no further from the exported ones than half a step, and the logits that the exported graph gives
 * with them. */
#include "export_folder.h"
#include "export_models.h"

#include "qsync/onnx.h"

/* The same operators in the same order of sums; a norm that comes back as another one rounds at other places. */
static const double allowed = 1e-5;

static const qs_onnx_tensor *tensor_read_by(const qs_onnx_graph *graph, const qs_onnx_node *node, int input) {
    return input < node->inputs && node->input[input] >= 0 ? graph->value[node->input[input]].constant : NULL;
}

static bool cut(char *name, const char *end) {
    const size_t length = strlen(name), tail = strlen(end);
    if (length <= tail || strcmp(name + length - tail, end) != 0) return false;
    name[length - tail] = '\0';
    return true;
}

/* Every tensor that the file stores in codes, computed here from codes and steps, beside the one of that name that came back and the one
 * that was exported. Returns how many are wrong; *tensors are there. */
static int codes_compare(const char *path, const qs_tensor_set *back, const qs_tensor_set *exported, int *tensors) {
    qs_onnx_model model;
    int failures = 0;
    assert_ok(qs_onnx_open(path, &model));
    *tensors = 0;
    for (int n = 0; n < model.graph.nodes; n++) {
        const qs_onnx_node *node = &model.graph.node[n];
        const qs_onnx_tensor *codes = strcmp(node->op, "DequantizeLinear") == 0 ? tensor_read_by(&model.graph, node, 0) : NULL;
        const qs_onnx_tensor *scale = codes ? tensor_read_by(&model.graph, node, 1) : NULL;
        char name[256];
        int64_t axis, inner = 1;
        if (!codes) continue;
        snprintf(name, sizeof name, "%s", codes->name);
        assert_true(cut(name, "_quantized") || cut(name, "_float8"));
        const bool turned = cut(name, "_transposed");
        const qs_tensor *is = qs_tensor_set_find(back, name), *was = qs_tensor_set_find(exported, name);
        assert_ok(qs_onnx_attribute_int(node, "axis", 1, &axis));
        for (int a = (int)axis + 1; a < codes->rank; a++)
            inner *= codes->dim[a];
        if (!is || !was || qs_shape_count(&is->shape) != codes->count) {
            print_error("%s: %s\n", name, is ? "has other extents" : "is not there");
            failures++;
            continue;
        }
        int64_t wrong = 0;
        for (int64_t i = 0; i < codes->count; i++) {
            float code, step;
            const int64_t channel = scale->count > 1 ? i / inner % scale->count : 0;
            const int64_t at = turned ? i % codes->dim[1] * codes->dim[0] + i / codes->dim[1] : i;
            assert_ok(qs_onnx_tensor_floats(codes, i, 1, &code));
            assert_ok(qs_onnx_tensor_floats(scale, channel, 1, &step));
            const float expected = code * step, found = ((const float *)is->data)[at];
            wrong += memcmp(&expected, &found, sizeof found) != 0;
            if (!qs_onnx_type_is_float(codes->type)) /* half a step, and what fp32 makes of the quotient */
                wrong += !(fabs((double)found - (double)((const float *)was->data)[at]) <= 0.5001 * (double)step);
        }
        if (wrong > 0) print_error("%s: %lld numbers are not those of the file\n", name, (long long)wrong);
        failures += wrong > 0;
        ++*tensors;
    }
    qs_onnx_release(&model);
    return failures;
}

/* The numbers of one set under the names of another. */
static void values_take(qs_tensor_set *to, const qs_tensor_set *from) {
    for (size_t i = 0; i < to->count; i++) {
        const qs_tensor *found = qs_tensor_set_find(from, to->tensors[i].name);
        if (!found) print_error("%s did not come back\n", to->tensors[i].name);
        assert_non_null(found);
        assert_int_equal(qs_shape_count(&found->shape), qs_shape_count(&to->tensors[i].tensor.shape));
        memcpy(to->tensors[i].tensor.data, found->data, qs_tensor_bytes(&found->shape, found->format));
    }
}

/* The exported graph with the numbers of a weights file. */
static void run_with(exported_model *one, const char *weights) {
    const int64_t count = one->graph->trained_elements + one->graph->frozen_elements;
    assert_ok(qs_weights_read(weights, one->graph, one->trained, one->statistics));
    memcpy(exported_place(one, (qs_place){one->schedule->masters, 0}), one->trained, (size_t)count * sizeof(float));
    exported_inputs_draw(one);
    free(one->logits);
    exported_logits_find(one);
}

static void goes_round(const char *name, const char *recipe_name, bool all_in_codes) {
    exported_model one = exported_model_make(name);
    const qs_recipe recipe = recipe_of(recipe_name);
    const qs_recipe **recipes = recipes_uniform(one.graph, &recipe);
    const qs_export_ranges ranges = {one.graph->nodes, one.channel, NULL};
    char *path = folder_path(test_folder, "model.onnx"), *again = folder_path(test_folder, "again.safetensors");
    qs_export_summary summary;
    qs_tensor_set set, other;
    int tensors = 0;
    assert_ok(
        qs_export_onnx(one.graph, one.trained, one.statistics, &(qs_export_options){.recipe = recipes, .ranges = &ranges}, path, &summary));
    exported_model back = exported_model_read(path, false);
    assert_ok(qs_weights_tensors(one.graph, one.trained, one.statistics, &set));
    assert_ok(qs_weights_tensors(back.graph, back.trained, back.statistics, &other));
    const int failures = codes_compare(path, &other, &set, &tensors);
    values_take(&set, &other);
    assert_ok(qs_tensor_set_write(again, &set));
    run_with(&one, again);
    double worst = 0, largest = 0;
    for (int64_t i = 0; i < qs_shape_count(&one.shape); i++) {
        worst = fmax(worst, fabs((double)(one.logits[i] - back.logits[i])));
        largest = fmax(largest, fabs((double)one.logits[i]));
    }
    print_message("%s in %s: %d tensors in codes, %d nodes became %d, %.2g of the largest logit\n", one.graph->name, recipe_name, tensors,
                  one.graph->nodes, back.graph->nodes, worst / largest);
    assert_true(worst <= allowed * largest);
    assert_int_equal(failures, 0);
    assert_true(all_in_codes ? tensors > 0 : tensors == 0);
    qs_tensor_set_release(&set);
    qs_tensor_set_release(&other);
    exported_model_release(&back);
    exported_model_release(&one);
    free(recipes);
    free(path);
    free(again);
}

TEST(integers_come_back) {
    static const char *const names[] = {"lenet5", "resnet8", "squeezenet", "shufflenet_v2"};
    for (size_t i = 0; i < COUNT_OF(names); i++)
        goes_round(names[i], "int8/bf16", true);
    goes_round("resnet8", "int4:shift4", true);
}

/* Matrices that MatMul reads lie the other way round in the file, and come back as they were. */
TEST(sequences_come_back) {
    goes_round(sequence_models[0], "int8/bf16", true);
    goes_round(sequence_models[1], "int8/bf16", true);
    goes_round("llama:layers=2,length=24,tied=0", "int8/bf16", true); /* a tied matrix in codes is one of its own */
}

TEST(floats_come_back) {
    goes_round("lenet5", "e4m3fn", true);
    goes_round("lenet5", "bf16", false);
    goes_round(sequence_models[0], "bf16", false);
}

/* What a file has no form for is refused, whichever factor has it; of gradients it is no matter. */
TEST(recipes_without_a_form_are_refused) {
    static const char *const parts[] = {"forward src has steps of least squared error (mse)", "forward src has powers of two (log4)",
                                        "forward weights has steps of least squared error (mse)",
                                        "forward weights has powers of two (log4)"};
    exported_model one = exported_model_make("lenet5");
    const qs_export_ranges ranges = {one.graph->nodes, one.channel, NULL};
    char *path = folder_path(test_folder, "refused.onnx");
    for (size_t i = 0; i <= COUNT_OF(parts); i++) {
        qs_recipe recipe = recipe_of("int8/log4");
        qs_quantizer *changed = i < 2 ? &recipe.forward.src : &recipe.forward.weights;
        const qs_recipe **recipes = recipes_uniform(one.graph, &recipe);
        qs_export_summary summary;
        if (i < COUNT_OF(parts) && i % 2 == 0) changed->least_squares = true;
        if (i < COUNT_OF(parts) && i % 2 == 1) changed->format = qs_format_of("log4");
        const qs_status status = qs_export_onnx(one.graph, one.trained, one.statistics,
                                                &(qs_export_options){.recipe = recipes, .ranges = &ranges}, path, &summary);
        if (i < COUNT_OF(parts))
            assert_refused(status, QS_UNSUPPORTED, parts[i]);
        else
            assert_ok(status);
        free(recipes);
    }
    exported_model_release(&one);
    free(path);
}

TEST_MAIN_WITH(set_up, tear_down, integers_come_back, sequences_come_back, floats_come_back, recipes_without_a_form_are_refused)
