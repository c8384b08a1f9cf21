// SPDX-License-Identifier: Apache-2.0
// labels: short
/* A model with attention and padding learns what it only can where padded positions are left out; dropout of probabilities is off in
 * evaluation; in fp32 and with integer products; the same bits for any threads. */
#include "inputs_support.h"

enum { HEADS = 3, CLASSES = 10 };

static int projected(qs_graph *graph, const char *name, int from) {
    return node_add(graph, name, "linear", NULL, from, -1, FEATURES);
}

/* Every position asks all that count; their mean is classified. */
static qs_graph *model_of(const qs_samples *samples) {
    qs_graph *graph = NULL;
    int node = -1;
    assert_ok(qs_graph_create("attentive", samples->unit, samples->inputs, samples->input, &graph));
    const int table = node_add(graph, "table", "embedding", &(qs_attributes){.vocabulary = IDS}, 0, -1, FEATURES);
    const int query = projected(graph, "query", table), key = projected(graph, "key", table), value = projected(graph, "value", table);
    assert_ok(qs_graph_add(graph, "self", "attention", &(qs_attributes){.heads = HEADS, .probability = 0.1}, 4,
                           (int[]){query, key, value, 1}, 0, false, &node));
    node = projected(graph, "output", node);
    node = node_add(graph, "pool", "global_average_pool", NULL, node, -1, 0);
    node = node_add(graph, "flatten", "flatten", NULL, node, -1, 0);
    node = node_add(graph, "last", "linear", NULL, node, -1, CLASSES);
    assert_ok(qs_graph_finish(graph, node, &samples->target));
    return graph;
}

/* Positions that count hold one id, whose class is asked; the others hold ids of other classes. */
static void set_of(const qs_samples *samples, int64_t count, uint64_t seed, qs_dataset *out) {
    const qs_data_description is = {.name = "two inputs", .samples = *samples};
    int32_t *id = calloc((size_t)(count * LENGTH), sizeof *id), *keep = calloc((size_t)(count * LENGTH), sizeof *keep),
            *length = calloc((size_t)count, sizeof *length), *label = calloc((size_t)count, sizeof *label);
    assert_true(id && keep && length && label);
    for (int64_t n = 0; n < count; n++) {
        const int32_t same = draw(seed, n, IDS), one = draw(seed + 1, n, LENGTH);
        length[n] = LENGTH;
        label[n] = same % CLASSES;
        for (int64_t k = 0; k < LENGTH; k++) {
            keep[n * LENGTH + k] = k == one || draw(seed + 2, n * LENGTH + k, 4) == 0;
            id[n * LENGTH + k] = keep[n * LENGTH + k] ? same : draw(seed + 3, n * LENGTH + k, IDS);
        }
    }
    assert_ok(qs_dataset_of_arrays(&is, count, (const void *const[]){id, keep}, length, label, out));
    free(id), free(keep), free(length), free(label);
}

static void attentive_open(two_inputs *out) {
    qs_samples samples = {.unit = "tokens", .inputs = 2};
    samples.input[0] = (qs_input){.name = "ids", .type = QS_INPUT_I32, .rank = 1, .extent = {LENGTH}, .varies = true, .bound = IDS};
    samples.input[1] = (qs_input){.name = "keep", .type = QS_INPUT_I32, .rank = 1, .extent = {LENGTH}, .varies = true, .bound = 2};
    samples.target = (qs_target){.kind = QS_TARGET_CLASS, .classes = CLASSES, .extent = 1};
    out->graph = model_of(&samples);
    set_of(&samples, TRAINING, 300, &out->training);
    set_of(&samples, TEST_SAMPLES, 400, &out->test);
}

static double trained(const char *backend, int threads, int epochs) {
    bench here;
    two_inputs own;
    qs_train_result result;
    assert_ok(qs_threads_set(threads));
    bench_open(&here, backend, "self", "two inputs", 32);
    attentive_open(&own);
    two_job(&here, &own, epochs);
    assert_ok(qs_train(&here.options, here.device, here.comm, &result));
    const double loss = result.test_loss;
    result_release(&result);
    two_close(&own);
    bench_close(&here);
    assert_ok(qs_threads_set(1));
    return loss;
}

/* Two thirds of the positions say nothing: with them the loss would stay near log(10). */
TEST(padding_is_left_out) {
    for (int b = 0; b < 2; b++) {
        const char *backend = b ? "ref" : fast_backend();
        const double loss = trained(backend, 1, 15);
        if (!(loss < log(CLASSES) / 4)) fail_msg("on %s: loss %g, by guessing %g", backend, loss, log(CLASSES));
    }
}

TEST(bits_know_no_threads) {
    const double one = trained(fast_backend(), 1, 2);
    assert_true(one == trained(fast_backend(), 1, 2));
    assert_true(one == trained(fast_backend(), 3, 2));
}

TEST_MAIN(padding_is_left_out, bits_know_no_threads)
