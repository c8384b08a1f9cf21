// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Weights files: what is written comes back bit for bit; files of another model, with a tensor too few, too many or of another shape are
 * refused by name and leave the buffers alone. */
#include "kit/folder.h"

#include "qsync/checkpoint.h"

typedef struct fixture {
    char folder[FOLDER_PATH], path[FOLDER_PATH + 32];
    qs_graph *graph;
    float *trained, *statistics;
} fixture;

static int set_up(void **state) {
    fixture *here = calloc(1, sizeof *here);
    folder_make(here->folder);
    snprintf(here->path, sizeof here->path, "%s/weights.qsync", here->folder);
    const qs_model_input input = {3, 16, 16, 10};
    assert_ok(qs_model_build("resnet8:width=0.5", &input, &here->graph));
    here->trained = calloc((size_t)here->graph->trained_elements, sizeof(float));
    here->statistics = calloc((size_t)here->graph->statistics_elements, sizeof(float));
    qs_graph_initialize(here->graph, 7, here->trained, here->statistics);
    *state = here;
    return 0;
}

static int tear_down(void **state) {
    fixture *here = *state;
    folder_remove(here->folder);
    qs_graph_release(here->graph);
    free(here->trained);
    free(here->statistics);
    free(here);
    return 0;
}

static void round_trip(void **state) {
    fixture *here = *state;
    const size_t trained_bytes = (size_t)here->graph->trained_elements * sizeof(float);
    const size_t statistics_bytes = (size_t)here->graph->statistics_elements * sizeof(float);
    here->statistics[3] = 0.125f;
    assert_ok(qs_weights_write(here->path, here->graph, here->trained, here->statistics));
    float *trained = calloc(1, trained_bytes), *statistics = calloc(1, statistics_bytes);
    assert_ok(qs_weights_read(here->path, here->graph, trained, statistics));
    assert_memory_equal(trained, here->trained, trained_bytes);
    assert_memory_equal(statistics, here->statistics, statistics_bytes);
    char name[64];
    assert_ok(qs_weights_model(here->path, name));
    assert_string_equal(name, here->graph->name);
    free(trained);
    free(statistics);
}

/* Reads for `graph` what was written for the fixture's; nothing may be touched. */
static void refuse(fixture *here, const qs_graph *graph, const char *why) {
    float *trained = calloc((size_t)graph->trained_elements, sizeof(float));
    float *statistics = calloc((size_t)graph->statistics_elements, sizeof(float));
    assert_refused(qs_weights_read(here->path, graph, trained, statistics), QS_MISMATCH, why);
    for (int64_t i = 0; i < graph->trained_elements; i++)
        assert_true(trained[i] == 0);
    free(trained);
    free(statistics);
}

static void other_models(void **state) {
    fixture *here = *state;
    assert_ok(qs_weights_write(here->path, here->graph, here->trained, here->statistics));
    qs_graph *other = NULL;
    const qs_model_input input = {3, 16, 16, 10}, classes = {3, 16, 16, 11};
    assert_ok(qs_model_build("resnet8", &input, &other));
    refuse(here, other, "weights of model \"resnet8:width=0.5\", not of \"resnet8\"");
    qs_graph_release(other);
    assert_ok(qs_model_build("resnet8:width=0.5", &classes, &other));
    refuse(here, other, "tensor fc.weights has shape [10,32], the model's is [11,32]");
    qs_graph_release(other);
}

/* Writes the fixture's weights as a set of `count` tensors, the last one renamed to `last`. */
static void write_set(fixture *here, int count, const char *last) {
    qs_named_tensor *tensors = calloc((size_t)count, sizeof *tensors);
    for (int i = 0; i < count; i++) {
        const qs_parameter *parameter = &here->graph->parameter[i < here->graph->parameters ? i : 0];
        strcpy(tensors[i].name, i == count - 1 && last ? last : parameter->name);
        tensors[i].tensor = (qs_tensor){parameter->shape, qs_format_of("fp32"), here->trained};
    }
    qs_tensor_set set = {.count = (size_t)count, .tensors = tensors};
    strcpy(set.model, here->graph->name);
    assert_ok(qs_tensor_set_write(here->path, &set));
    free(tensors);
}

static void missing_and_superfluous(void **state) {
    fixture *here = *state;
    char missing[160];
    snprintf(missing, sizeof missing, "tensor %s is missing", here->graph->parameter[here->graph->parameters - 1].name);
    write_set(here, here->graph->parameters - 1, NULL);
    refuse(here, here->graph, missing);
    write_set(here, here->graph->parameters + 1, "stranger");
    refuse(here, here->graph, "tensor stranger is superfluous");
}

static void no_file(void **state) {
    fixture *here = *state;
    char name[64];
    assert_int_not_equal(qs_weights_read(here->path, here->graph, here->trained, here->statistics), QS_OK);
    assert_int_not_equal(qs_weights_model(here->path, name), QS_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(round_trip, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_models, set_up, tear_down),
        cmocka_unit_test_setup_teardown(missing_and_superfluous, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_file, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
