// SPDX-License-Identifier: Apache-2.0
// labels: long
// links: schedule
// timeout: 3600
/* What ONNX Runtime computes from an exported file is what the reference kernels compute from the graph. QSYNC_PYTHON names a Python that
 * has onnxruntime and numpy; skipped where there is none (tests/export/onnxruntime.py). */
#include <sys/wait.h>

#include "export_models.h"

/* Both compute in fp32 sums that the reference forms in double: each of the layers adds some 2^-24 sqrt(length) of its values' size, which
 * norms keep near 1. What is compared is the largest difference beside the largest logit. */
static const double allowed = 1e-5;

/* All operators in one recipe; the norms of a model stay what they are. */
static void compare_model_in(exported_model one, qs_export_options options, const char *recipe_name, double tolerance) {
    char command[1024], folder[FOLDER_PATH];
    const char *python = getenv("QSYNC_PYTHON"), *source = getenv("QS_SOURCE");
    const qs_recipe recipe = recipe_of(recipe_name);
    const qs_recipe **recipes = recipes_uniform(one.graph, &recipe);
    const qs_export_ranges ranges = {one.graph->nodes, one.channel, NULL};
    qs_export_summary summary;
    for (int n = one.graph->samples.inputs; n < one.graph->nodes; n++)
        if (one.graph->node[n].op->kind != QS_ADJUSTABLE) recipes[n] = NULL;
    options.recipe = recipes;
    options.ranges = &ranges;
    folder_make(folder);
    char *file = folder_path(folder, "model.onnx"), *data = folder_path(folder, "data");
    assert_ok(qs_export_onnx(one.graph, one.trained, one.statistics, &options, file, &summary));
    exported_model_write(&one, data);
    snprintf(command, sizeof command, "'%s' '%s/tests/export/onnxruntime.py' '%s' '%s' %.3g '%s %s, opset %d%s'",
             python ? python : "python3", source, file, data, tolerance, one.graph->name, recipe_name, summary.opset,
             options.fold ? ", folded" : "");
    const int ended = system(command);
    assert_true(WIFEXITED(ended));
    assert_int_equal(WEXITSTATUS(ended), 0);
    free(file);
    free(data);
    free(recipes);
    folder_remove(folder);
    exported_model_release(&one);
}

static void compare_in(const char *name, qs_export_options options, const char *recipe_name, double tolerance) {
    compare_model_in(exported_model_make(name), options, recipe_name, tolerance);
}

static void compare(const char *name, qs_export_options options) {
    compare_in(name, options, "fp32", allowed);
}

static bool there_is_none(void) {
    char command[512];
    const char *python = getenv("QSYNC_PYTHON");
    if (!getenv("QS_SOURCE")) return true;
    snprintf(command, sizeof command, "'%s' -c 'import onnxruntime, numpy' 2> /dev/null", python ? python : "python3");
    return system(command) != 0;
}

TEST(models_of_images) {
    if (there_is_none()) skip();
    const qs_export_options plain = {0}, folded = {.fold = true}, later = {.opset = 20, .external = true};
    const char *only = getenv("QSYNC_TEST_MODEL");
    for (size_t i = 0; i < COUNT_OF(image_models); i++) {
        if (only && strcmp(only, image_models[i]) != 0) continue;
        compare(image_models[i], plain);
        compare(image_models[i], folded);
        compare(image_models[i], later);
    }
}

TEST(models_of_windows) {
    if (there_is_none()) skip();
    const qs_export_options plain = {0}, later = {.opset = 21};
    for (size_t i = 0; i < COUNT_OF(window_models); i++) {
        compare(window_models[i], plain);
        compare(window_models[i], later);
    }
}

TEST(models_of_functions) {
    if (there_is_none()) skip();
    const qs_export_options plain = {0}, later = {.opset = 23};
    for (size_t i = 0; i < COUNT_OF(function_models); i++) {
        compare(function_models[i], plain);
        compare(function_models[i], later);
    }
}

TEST(recurrent_networks) {
    if (there_is_none()) skip();
    const qs_export_options plain = {0}, later = {.opset = 23};
    for (size_t i = 0; i < COUNT_OF(recurrent_models); i++) {
        compare(recurrent_models[i], plain);
        compare(recurrent_models[i], later);
    }
}

TEST(models_of_sequences) {
    if (there_is_none()) skip();
    const qs_export_options plain = {0}, later = {.opset = 23};
    const char *only = getenv("QSYNC_TEST_MODEL");
    for (size_t i = 0; i < COUNT_OF(sequence_models); i++) {
        if (only && strcmp(only, sequence_models[i]) != 0) continue;
        compare(sequence_models[i], plain);
        compare(sequence_models[i], later);
    }
}

/* Files of PyTorch's, with weights that training has moved. In 8 bits as below; `gated` has logits of a third, from products of small
 * values with gates, which lie as near to zero as their steps. */
TEST(models_of_files) {
    static const char *const names[] = {"vit",         "mobilenet_v3", "resnet18",         "swin",       "gated",
                                        "bert-tokens", "bert-span",    "distilbert-class", "gpt2-tokens"};
    char path[1024];
    if (there_is_none()) skip();
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        snprintf(path, sizeof path, "%s/tests/golden/onnx/%s.onnx", getenv("QS_SOURCE"), names[i]);
        compare_model_in(exported_model_read(path, true), (qs_export_options){0}, "fp32", allowed);
        compare_model_in(exported_model_read(path, true), (qs_export_options){0}, "int8/bf16", 0.4);
    }
}

/* Steps come from the very batch, so nothing is cut off, and each factor is off by half a step: of 8 bits 1/254 of the largest magnitude,
 * some 1/60 of a usual value, in each of nine layers, in ways that do not add up. bf16: 2^-9 of each factor. Operators that are written
 * wrongly are off by about 1. */
TEST(models_in_formats_of_a_plan) {
    if (there_is_none()) skip();
    const qs_export_options plain = {0}, folded = {.fold = true};
    const struct {
        const char *recipe;
        double allowed;
    } rows[] = {{"int8/bf16", 0.08}, {"int8:tensor", 0.08}, {"bf16", 0.02}, {"int6:shift4", 0.2}, {"int4:hadamard", 1e-5}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        compare_in("resnet8", plain, rows[i].recipe, rows[i].allowed);
        compare_in("resnet8", folded, rows[i].recipe, rows[i].allowed);
        compare_in("mobilenet_v2", folded, rows[i].recipe, 2 * rows[i].allowed);
        compare_in("gpt2:layers=2,hidden=96,length=24,vocab=500", plain, rows[i].recipe, rows[i].allowed);
    }
    compare_in("lenet5", plain, "int4:shift4", 0.5);
    compare_in(window_models[0], plain, "int8/bf16", 0.08);
    compare_in(window_models[0], plain, "bf16", 0.02);
    compare_in(window_models[0], plain, "int6:shift4", 0.2);
}

TEST_MAIN(models_of_images, models_of_windows, models_of_functions, recurrent_networks, models_of_sequences, models_of_files,
          models_in_formats_of_a_plan)
