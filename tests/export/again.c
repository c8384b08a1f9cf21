// SPDX-License-Identifier: Apache-2.0
// labels: medium
// links: schedule
/* Our own import is a second reader of what is exported: the same inputs, the same parameters under the same names with the same bits, and,
 * by the reference kernels, the same logits. So are models that came from an ONNX file of PyTorch's, with weights that training has moved:
 * they go out under the names by which they came in. */
#include "export_folder.h"
#include "export_models.h"

#include <dirent.h>

/* The reference kernels add up in double and round each result to fp32. Where import finds the operators that export wrote, the bits are
 * the same; where it finds others (a norm of several nodes), each result is rounded at other places, which in some tens of layers is a few
 * 2^-24 of the largest logit each. */
static const double allowed = 1e-5;

static int number_order(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Every tensor of the first, but for single numbers, which become settings, is one of the second, with its values; `anyhow`: in any
 * order. */
static int tensors_compare(const char *name, const exported_model *one, const exported_model *back, bool anyhow) {
    qs_tensor_set set, other;
    int failures = 0;
    assert_ok(qs_weights_tensors(one->graph, one->trained, one->statistics, &set));
    assert_ok(qs_weights_tensors(back->graph, back->trained, back->statistics, &other));
    for (size_t i = 0; i < set.count; i++) {
        const qs_tensor *tensor = &set.tensors[i].tensor, *found = qs_tensor_set_find(&other, set.tensors[i].name);
        const size_t bytes = qs_tensor_bytes(&tensor->shape, tensor->format), count = (size_t)qs_shape_count(&tensor->shape);
        if (count == 1) continue;
        if (anyhow && found && qs_shape_count(&found->shape) == (int64_t)count) {
            qsort(tensor->data, count, sizeof(float), number_order);
            qsort(found->data, count, sizeof(float), number_order);
        }
        const bool same =
            found && qs_shape_count(&found->shape) == qs_shape_count(&tensor->shape) && memcmp(found->data, tensor->data, bytes) == 0;
        if (!same) print_error("%s: %s %s\n", name, set.tensors[i].name, found ? "has other values" : "is not there");
        failures += !same;
    }
    qs_tensor_set_release(&set);
    qs_tensor_set_release(&other);
    return failures;
}

/* Whether parameters must come back under their names: not those that were folded, and in another order where an import says that it keeps
 * them in one of its own (numbers of each feature behind a flatten). */
typedef enum names_kept { NO_NAMES, NAMES_ALONE, NAMES_AND_ORDER } names_kept;

/* Writes, reads, compares. Returns how much is wrong, -1: it has operators that are not exported; the model is released. */
static int goes_round(exported_model one, qs_export_options options, names_kept names) {
    char *path = folder_path(test_folder, "model.onnx");
    const char *name = one.graph->name;
    qs_export_summary summary;
    int failures = 0;
    const qs_status status = qs_export_onnx(one.graph, one.trained, one.statistics, &options, path, &summary);
    if (status != QS_OK) {
        print_error("%s: %s\n", name, qs_message());
        exported_model_release(&one);
        free(path);
        return status == QS_UNSUPPORTED ? -1 : 1;
    }
    exported_model back = exported_model_read(path, false);
    assert_int_equal(one.graph->samples.inputs, back.graph->samples.inputs);
    for (int i = 0; i < one.graph->samples.inputs; i++)
        assert_string_equal(one.graph->node[i].name, back.graph->node[i].name);
    if (names != NO_NAMES) failures += tensors_compare(name, &one, &back, names == NAMES_ALONE);
    double worst = 0, largest = 0;
    assert_int_equal(qs_shape_count(&one.shape), qs_shape_count(&back.shape));
    for (int64_t i = 0; i < qs_shape_count(&one.shape); i++) {
        worst = fmax(worst, fabs((double)(one.logits[i] - back.logits[i])));
        largest = fmax(largest, fabs((double)one.logits[i]));
    }
    print_message("%s: %d nodes became %d, %.2g of the largest logit\n", name, one.graph->nodes, back.graph->nodes, worst / largest);
    if (!(worst <= allowed * largest)) print_error("%s: differs by %.3g of the largest logit\n", name, worst / largest);
    failures += !(worst <= allowed * largest);
    exported_model_release(&back);
    exported_model_release(&one);
    free(path);
    return failures;
}

static void all_go_round(size_t count, const char *const *name, names_kept names) {
    const qs_export_options plain = {0}, later = {.opset = 23, .external = true};
    int failures = 0;
    for (size_t i = 0; i < count; i++) {
        failures += goes_round(exported_model_make(name[i]), plain, names) != 0;
        failures += goes_round(exported_model_make(name[i]), later, names) != 0;
    }
    assert_int_equal(failures, 0);
}

TEST(models_of_images) {
    static const char *const names[] = {"lenet5",          "resnet8",          "mobilenet_v2",     "squeezenet",       "shufflenet_v2",
                                        "resnet8:norm=ln", "resnet8:norm=rms", "vgg11:width=0.25", "vit:tiny,layers=2"};
    const qs_export_options folded = {.fold = true};
    all_go_round(COUNT_OF(names), names, NAMES_AND_ORDER);
    assert_int_equal(goes_round(exported_model_make("resnet8"), folded, NO_NAMES), 0);
}

TEST(models_of_sequences) {
    all_go_round(COUNT_OF(sequence_models), sequence_models, NAMES_AND_ORDER);
}

TEST(models_of_windows) {
    all_go_round(COUNT_OF(window_models), window_models, NAMES_AND_ORDER);
}

TEST(models_of_functions) {
    all_go_round(COUNT_OF(function_models), function_models, NAMES_ALONE);
}

/* All of tests/golden/onnx but those of operators that are not exported (recurrent ones). */
TEST(models_of_pytorch) {
    char folder[1024];
    int failures = 0, models = 0;
    snprintf(folder, sizeof folder, "%s/tests/golden/onnx", getenv("QS_SOURCE"));
    DIR *all = opendir(folder);
    assert_non_null(all);
    for (struct dirent *entry = readdir(all); entry; entry = readdir(all)) {
        char path[2048];
        const size_t length = strlen(entry->d_name);
        if (length < 5 || strcmp(entry->d_name + length - 5, ".onnx") != 0) continue;
        snprintf(path, sizeof path, "%s/%s%s", folder, entry->d_name, strstr(entry->d_name, "roberta") ? ":length=12" : "");
        const int wrong = goes_round(exported_model_read(path, true), (qs_export_options){0}, NAMES_AND_ORDER);
        failures += wrong > 0 ? wrong : 0;
        models += wrong >= 0;
    }
    closedir(all);
    assert_int_equal(failures, 0);
    assert_true(models >= 10);
}

TEST_MAIN_WITH(set_up, tear_down, models_of_images, models_of_sequences, models_of_windows, models_of_functions, models_of_pytorch)
