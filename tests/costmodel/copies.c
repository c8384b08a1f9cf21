// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Copies between the host and memory of a device that it does not see: what a batch, a loss and an all-reduce take with them. */
#include "kit/kit.h"

#include "qsync/costmodel.h"

static const qs_copy_cost cost = {.known = true, .in_us = 10, .in_us_per_byte = 0.5, .out_us = 20, .out_us_per_byte = 0.25};

/* Two classes, of which the second may be far; an all-reduce of two ranks takes 100 µs + 1/8 µs a byte, and half of the compute. */
typedef struct scene {
    qs_class_profile class_[2];
    qs_collective_cost row;
    qs_profile profile;
} scene;

static void scene_make(scene *out, const qs_copy_cost *first, const qs_copy_cost *second) {
    *out = (scene){
        .class_ = {{.data_us_per_sample = 3}, {.data_us_per_sample = 3}},
        .row = {
            .ranks = 2, .hosts = 1, .link = "shared-memory", .algorithm = "ring", .alpha_us = 100, .us_per_byte = 0.125, .cpu_share = 0.5}};
    if (first) out->class_[0].copies = *first;
    if (second) out->class_[1].copies = *second;
    out->profile = (qs_profile){.classes = 2, .class_ = out->class_, .collectives = 1, .collective = &out->row};
}

static qs_all_reduce_cost reduce_cost(const scene *here, const char *wire, int ranks, int64_t bytes) {
    qs_all_reduce_cost out;
    assert_ok(qs_cost_all_reduce_on(&here->profile, &(qs_all_reduce){.ranks = ranks, .wire = wire}, bytes, &out));
    return out;
}

TEST(a_batch_is_copied) {
    scene here;
    const qs_samples samples = {.inputs = 2,
                                .input = {{.rank = 2, .extent = {3, 5}}, {.rank = 1, .extent = {4}}},
                                .target = {.kind = QS_TARGET_CLASS, .classes = 10, .extent = 1}};
    scene_make(&here, NULL, &cost);
    assert_true(qs_cost_inputs(&here.class_[0], &samples, 8) == 0);
    assert_true(qs_cost_data(&here.class_[0], &samples, 8) == 24);
    /* Three copies; 15 + 4 + 1 numbers of four bytes a sample. */
    const double inputs = 3 * 10 + 0.5 * 4 * 20 * 8;
    assert_true(qs_cost_inputs(&here.class_[1], &samples, 8) == inputs);
    assert_true(qs_cost_data(&here.class_[1], &samples, 8) == 24 + inputs + 20);
}

TEST(all_reduces_are_staged) {
    scene here;
    enum { BYTES = 4096 };
    const double reduce = 100 + 0.125 * BYTES, staging = 10 + 0.5 * BYTES + 20 + 0.25 * BYTES;
    scene_make(&here, NULL, NULL);
    assert_true(reduce_cost(&here, "fp32", 2, BYTES).us == reduce && reduce_cost(&here, "fp32", 2, BYTES).cpu_share == 0.5);
    assert_true(reduce_cost(&here, "fp32", 1, BYTES).us == 0);
    /* A class that computes beside it still gives its share of the all-reduce, and no more. */
    scene_make(&here, NULL, &cost);
    const qs_all_reduce_cost mixed = reduce_cost(&here, "fp32", 2, BYTES);
    assert_true(mixed.us == reduce + staging);
    assert_true(fabs(mixed.cpu_share * mixed.us - 0.5 * reduce) < 1e-9 * reduce);
    /* One rank looks at its gradients: they come to the host, and nothing goes back. */
    assert_true(reduce_cost(&here, "fp32", 1, BYTES).us == 20 + 0.25 * BYTES);
    /* Where all are far nobody's compute stands still; of two such classes the slower counts. */
    qs_copy_cost slower = cost;
    slower.out_us = 50;
    scene_make(&here, &slower, &cost);
    const qs_all_reduce_cost far = reduce_cost(&here, "fp32", 2, BYTES);
    assert_true(far.us == reduce + staging + 30 && far.cpu_share == 0);
}

TEST_MAIN(a_batch_is_copied, all_reduces_are_staged)
