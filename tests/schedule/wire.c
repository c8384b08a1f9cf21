// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Residuals of a narrow wire: a persistent buffer of their own that lies at the same place in every mode, counted and hashed. */
#include "kit/schedule.h"

static qs_schedule *lowered(const qs_graph *graph, const char *wire, qs_mode mode) {
    qs_job job = stub_job(8);
    snprintf(job.wire, sizeof job.wire, "%s", wire);
    return lower_uniform(graph, &job, mode, "fp32");
}

TEST(residuals_are_persistent) {
    char hash[2][32];
    qs_graph *graph = NULL;
    assert_ok(qs_model_build("lenet5", NULL, &graph));
    qs_schedule *plain = lowered(graph, "fp32", QS_MODE_TRAIN), *narrow = lowered(graph, "int8", QS_MODE_TRAIN);
    qs_schedule *evaluation = lowered(graph, "int8", QS_MODE_EVALUATION);
    const size_t bytes = (size_t)graph->trained_elements * sizeof(float), aligned = (bytes + 63) / 64 * 64;
    assert_int_equal(plain->residuals, -1);
    assert_string_equal(plain->wire, "fp32");
    assert_string_equal(narrow->wire, "int8");
    const qs_buffer *one = &narrow->buffer[narrow->residuals], *same = &evaluation->buffer[evaluation->residuals];
    assert_true(one->bytes == bytes && one->persistent && one->category == QS_WIRE_RESIDUALS);
    assert_true(same->offset == one->offset && same->bytes == bytes);
    assert_true(narrow->persistent_bytes == plain->persistent_bytes + aligned && narrow->arena_bytes == plain->arena_bytes + aligned);
    assert_true(narrow->category_bytes[QS_WIRE_RESIDUALS] == aligned && plain->category_bytes[QS_WIRE_RESIDUALS] == 0);
    /* What evaluation computes lies behind them: it may take the place of gradients, not theirs. */
    assert_true(evaluation->persistent_bytes >= one->offset + bytes);
    assert_true(strcmp(qs_schedule_hash(plain, hash[0]), qs_schedule_hash(narrow, hash[1])) != 0);
    qs_schedule_release(plain);
    qs_schedule_release(narrow);
    qs_schedule_release(evaluation);
    qs_graph_release(graph);
}

TEST_MAIN(residuals_are_persistent)
