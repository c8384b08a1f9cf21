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

static void compare(const char *name, qs_export_options options, const char *what) {
    char command[1024], folder[FOLDER_PATH];
    const char *python = getenv("QSYNC_PYTHON"), *source = getenv("QS_SOURCE");
    exported_model one = exported_model_make(name);
    folder_make(folder);
    char *file = folder_path(folder, "model.onnx"), *data = folder_path(folder, "data");
    qs_export_summary summary;
    assert_ok(qs_export_onnx(one.graph, one.trained, one.statistics, &options, file, &summary));
    exported_model_write(&one, data);
    snprintf(command, sizeof command, "'%s' '%s/tests/export/onnxruntime.py' '%s' '%s' %.3g '%s %s'", python ? python : "python3", source,
             file, data, allowed, one.graph->name, what);
    const int ended = system(command);
    assert_true(WIFEXITED(ended));
    assert_int_equal(WEXITSTATUS(ended), 0);
    free(file);
    free(data);
    folder_remove(folder);
    exported_model_release(&one);
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
        compare(image_models[i], plain, "");
        compare(image_models[i], folded, "folded");
        compare(image_models[i], later, "opset 20, values apart");
    }
}

TEST(models_of_windows) {
    if (there_is_none()) skip();
    const qs_export_options plain = {0}, later = {.opset = 21};
    for (size_t i = 0; i < COUNT_OF(window_models); i++) {
        compare(window_models[i], plain, "");
        compare(window_models[i], later, "opset 21");
    }
}

TEST(models_of_sequences) {
    if (there_is_none()) skip();
    const qs_export_options plain = {0}, later = {.opset = 23};
    const char *only = getenv("QSYNC_TEST_MODEL");
    for (size_t i = 0; i < COUNT_OF(sequence_models); i++) {
        if (only && strcmp(only, sequence_models[i]) != 0) continue;
        compare(sequence_models[i], plain, "");
        compare(sequence_models[i], later, "opset 23");
    }
}

TEST_MAIN(models_of_images, models_of_windows, models_of_sequences)
