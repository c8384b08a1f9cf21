// SPDX-License-Identifier: Apache-2.0
// labels: short
/* An output layer that reads the table of the embedding as its weights: one parameter, whose gradient is the sum of both readers'; files
 * say it; what cannot be shared is refused. */
#include "inputs_support.h"
#include "kit/schedule.h"

enum { WIDTH = 20, BATCH = 6 };

static const qs_attributes table_rows = {.vocabulary = IDS};

/* ids -> table -> pool -> flatten -> output, tied to the table or not. */
static qs_graph *model_of(bool tied) {
    const qs_input ids = {.name = "ids", .type = QS_INPUT_I32, .rank = 1, .extent = {LENGTH}};
    qs_graph *graph = NULL;
    int output = -1;
    assert_ok(qs_graph_create("tied", "tokens", 1, &ids, &graph));
    const int table = node_add(graph, "table", "embedding", &table_rows, 0, -1, WIDTH);
    int at = node_add(graph, "pool", "global_average_pool", NULL, table, -1, 0);
    at = node_add(graph, "flatten", "flatten", NULL, at, -1, 0);
    assert_ok(tied ? qs_graph_add_tied(graph, "output", "linear", NULL, 1, &at, IDS, true, table, &output)
                   : qs_graph_add(graph, "output", "linear", NULL, 1, &at, IDS, true, &output));
    assert_ok(qs_graph_finish(graph, output, NULL));
    return graph;
}

/* The gradients of one step; every table and matrix of the model holds the same values. */
static float *gradients_of(const qs_graph *graph, const char *backend, const char *recipe) {
    bench here;
    qs_schedule *schedule = NULL;
    qs_memory *memory = NULL;
    qs_executor *executor = NULL;
    const qs_recipe chosen = recipe_of(recipe), *list[8] = {NULL};
    int32_t ids[BATCH * LENGTH], labels[BATCH];
    bench_open(&here, backend, "self", "tied", BATCH);
    list[qs_graph_find(graph, "output")] = &chosen;
    const qs_lowering lowering = {.graph = graph,
                                  .batch = BATCH,
                                  .mode = QS_MODE_TRAIN,
                                  .job = &here.job,
                                  .recipe = list,
                                  .half = qs_format_of("bf16"),
                                  .lookup = qs_lookup_device,
                                  .context = here.device};
    assert_ok(qs_schedule_lower(&lowering, &schedule));
    assert_ok(qs_memory_reserve(here.device, schedule->arena_bytes, &memory));
    assert_ok(qs_executor_create(schedule, here.device, here.comm, memory, &executor));
    assert_ok(qs_executor_initialize(executor, graph, 3));
    for (int i = 0; i < graph->parameters; i++) {
        float values[IDS * WIDTH];
        const qs_parameter *one = &graph->parameter[i];
        const size_t count = (size_t)qs_shape_count(&one->shape);
        for (size_t k = 0; k < count; k++)
            values[k] = 0.5f * qs_random_normal(11, k);
        assert_ok(qs_executor_write(executor, schedule->masters, (size_t)one->offset * sizeof(float), count * sizeof(float), values));
    }
    for (int i = 0; i < BATCH * LENGTH; i++)
        ids[i] = draw(5, i, IDS);
    for (int i = 0; i < BATCH; i++)
        labels[i] = draw(6, i, IDS);
    assert_ok(qs_executor_write(executor, schedule->input[0], 0, sizeof ids, ids));
    assert_ok(qs_executor_write(executor, schedule->target, 0, sizeof labels, labels));
    assert_ok(qs_executor_run(executor, &(qs_run){.samples = BATCH, .global_samples = BATCH, .loss_scale = 1}));
    float *gradients = buffer_read(executor, schedule, schedule->gradients);
    qs_executor_release(executor);
    qs_memory_release(memory);
    qs_schedule_release(schedule);
    bench_close(&here);
    return gradients;
}

/* Sums of the positions that read a row start from the output layer's gradient, not from 0: at most BATCH * LENGTH + 1 additions are
 * rounded in another order. */
TEST(the_gradient_is_the_sum_of_both_readers) {
    static const char *const recipes[] = {"fp32", "bf16", "int8/bf16"};
    for (int r = 0; r < 6; r++) {
        qs_graph *tied = model_of(true), *apart = model_of(false);
        float *together = gradients_of(tied, r & 1 ? "ref" : fast_backend(), recipes[r / 2]);
        float *separate = gradients_of(apart, r & 1 ? "ref" : fast_backend(), recipes[r / 2]);
        const int table = qs_graph_find(tied, "table"), output = qs_graph_find(tied, "output");
        assert_int_equal(tied->parameters, 2);
        assert_int_equal(apart->parameters, 3);
        assert_ptr_equal(qs_graph_parameter(tied, output, QS_WEIGHTS), qs_graph_parameter(tied, table, QS_WEIGHTS));
        const float *sum = together + qs_graph_parameter(tied, table, QS_WEIGHTS)->offset,
                    *first = separate + qs_graph_parameter(apart, table, QS_WEIGHTS)->offset,
                    *second = separate + qs_graph_parameter(apart, output, QS_WEIGHTS)->offset;
        double most = 0;
        for (int i = 0; i < IDS * WIDTH; i++)
            most = fmax(most, fabs((double)first[i]) + fabs((double)second[i]));
        assert_true(most > 0.01);
        for (int i = 0; i < IDS * WIDTH; i++) {
            const double wanted = (double)first[i] + (double)second[i];
            if (!(fabs((double)sum[i] - wanted) <= (BATCH * LENGTH + 1) * 0x1p-24 * most))
                fail_msg("%s: element %d is %.9g, both are %.9g", recipes[r / 2], i, (double)sum[i], wanted);
        }
        const int64_t bias = qs_graph_parameter(tied, output, QS_BIAS)->offset, other = qs_graph_parameter(apart, output, QS_BIAS)->offset;
        assert_memory_equal(together + bias, separate + other, IDS * sizeof(float));
        free(together);
        free(separate);
        qs_graph_release(tied);
        qs_graph_release(apart);
    }
}

TEST(a_file_says_whose_weights_they_are) {
    char signature[32], other[32], *json = NULL;
    qs_graph *tied = model_of(true), *apart = model_of(false), *again = NULL;
    assert_ok(qs_graph_text(tied, &json));
    assert_non_null(strstr(json, "\"weights_of\": \"table\""));
    assert_ok(qs_graph_parse(json, "here", &again));
    assert_string_equal(qs_graph_signature(tied, signature), qs_graph_signature(again, other));
    assert_string_not_equal(qs_graph_signature(tied, signature), qs_graph_signature(apart, other));
    qs_graph_release(tied);
    qs_graph_release(apart);
    qs_graph_release(again);
    free(json);
}

TEST(what_cannot_be_shared_is_refused) {
    const qs_input ids = {.name = "ids", .type = QS_INPUT_I32, .rank = 1, .extent = {LENGTH}};
    qs_graph *graph = NULL;
    int node = -1;
    assert_ok(qs_graph_create("tied", "tokens", 1, &ids, &graph));
    const int table = node_add(graph, "table", "embedding", &table_rows, 0, -1, WIDTH);
    const int pool = node_add(graph, "pool", "global_average_pool", NULL, table, -1, 0);
    const int flat = node_add(graph, "flatten", "flatten", NULL, pool, -1, 0);
    assert_refused(qs_graph_add_tied(graph, "a", "linear", NULL, 1, &flat, IDS, true, pool, &node), QS_USAGE,
                   "cannot share the weights of pool");
    assert_refused(qs_graph_add_tied(graph, "a", "linear", NULL, 1, &flat, IDS, true, -3, &node), QS_USAGE, "a node that is not there");
    assert_refused(qs_graph_add_tied(graph, "a", "linear", NULL, 1, &flat, IDS + 1, true, table, &node), QS_USAGE,
                   "its weights are [41,20], those of \"table\" are [40,20]");
    assert_refused(qs_graph_add_tied(graph, "a", "relu", NULL, 1, &flat, 0, false, table, &node), QS_USAGE, "relu has no weights");
    assert_int_equal(graph->parameters, 1);
    assert_ok(qs_graph_add_tied(graph, "a", "linear", NULL, 1, &flat, IDS, false, table, &node));
    assert_refused(qs_graph_add_tied(graph, "b", "linear", NULL, 1, &flat, IDS, false, table, &node), QS_USAGE, "shared with another");
    qs_graph_release(graph);
}

TEST_MAIN(the_gradient_is_the_sum_of_both_readers, a_file_says_whose_weights_they_are, what_cannot_be_shared_is_refused)
