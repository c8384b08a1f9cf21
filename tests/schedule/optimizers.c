// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Updates by any optimiser: a flat buffer for each state, at the same place in every mode; one kernel call a bucket, on the same range of
 * elements of gradients, weights and states, in whole lines of the cache; memory exactly so many bytes a parameter. */
#include "kit/schedule.h"

static qs_schedule *lowered(const qs_graph *graph, const char *optimizer, qs_mode mode, bool scaled) {
    qs_job job = stub_job(8);
    assert_ok(qs_job_optimizer_set(&job, optimizer));
    job.bucket_bytes = 16384;
    job.dynamic_loss_scaling = scaled;
    return lower_uniform(graph, &job, mode, "int8/bf16");
}

static const qs_place *place_of(const qs_step *step, qs_role role) {
    const int position = qs_case_position(&step->case_, role);
    assert_true(position >= 0 && step->case_.operand[position].format);
    return &step->place[position];
}

static void at_range(const qs_schedule *schedule, const qs_step *step, qs_role role, int buffer, const qs_bucket *bucket) {
    const qs_place *place = place_of(step, role);
    assert_int_equal(place->buffer, buffer);
    assert_true(place->offset == (size_t)bucket->first * sizeof(float));
    assert_int_equal((schedule->buffer[buffer].offset + place->offset) % 64, 0);
    assert_int_equal(step->case_.operand[qs_case_position(&step->case_, role)].shape.dim[0], bucket->count);
}

/* One update a bucket; together they cover every element once, since buckets do. */
static void updates_are_flat(const qs_graph *graph, const qs_op *op, bool scaled) {
    qs_schedule *schedule = lowered(graph, op->name, QS_MODE_TRAIN, scaled);
    int updates = 0;
    int64_t elements = 0;
    assert_true(schedule->buckets > 2);
    for (int s = 0; s < schedule->steps; s++) {
        const qs_step *step = &schedule->step[s];
        if (step->kind != QS_STEP_KERNEL || step->case_.op != op) continue;
        const qs_bucket *bucket = &schedule->bucket[step->bucket];
        assert_int_equal(step->bucket, updates++);
        assert_int_equal(step->phase, QS_UPDATE);
        assert_true(s > bucket->wait_step);
        at_range(schedule, step, QS_SRC, schedule->gradients, bucket);
        at_range(schedule, step, QS_WEIGHTS, schedule->masters, bucket);
        for (int i = 0; i < schedule->states; i++)
            at_range(schedule, step, qs_optimizer_state(op, i), schedule->state[i], bucket);
        assert_int_equal(step->case_.operand[qs_case_position(&step->case_, QS_FLAG)].format != NULL, scaled);
        elements += bucket->count;
    }
    assert_int_equal(updates, schedule->buckets);
    assert_true(elements == graph->trained_elements);
    qs_schedule_release(schedule);
}

static void states_are_persistent(const qs_graph *graph, const qs_op *op) {
    qs_schedule *train = lowered(graph, op->name, QS_MODE_TRAIN, false);
    qs_schedule *evaluation = lowered(graph, op->name, QS_MODE_EVALUATION, false);
    const size_t bytes = (size_t)graph->trained_elements * sizeof(float), aligned = (bytes + 63) / 64 * 64;
    assert_int_equal(train->states, op->optimizer->states);
    for (int i = 0; i < train->states; i++) {
        const qs_buffer *one = &train->buffer[train->state[i]], *same = &evaluation->buffer[evaluation->state[i]];
        assert_true(one->bytes == bytes && one->persistent && one->category == QS_OPTIMIZER_STATE);
        assert_true(same->offset == one->offset && same->bytes == bytes);
    }
    assert_true(train->category_bytes[QS_OPTIMIZER_STATE] == (size_t)train->states * aligned);
    qs_schedule_release(train);
    qs_schedule_release(evaluation);
}

TEST(every_optimizer) {
    const char *name;
    qs_graph *graph = NULL;
    assert_ok(qs_model_build("resnet8", NULL, &graph));
    for (size_t i = 0; (name = qs_optimizer_name_at(i)) != NULL; i++) {
        updates_are_flat(graph, qs_op_of(name), false);
        updates_are_flat(graph, qs_op_of(name), true);
        states_are_persistent(graph, qs_op_of(name));
    }
    qs_graph_release(graph);
}

/* Adam's second state is all that it adds to the arena; settings are part of what schedules are told apart by. */
TEST(second_state_alone) {
    char hash[2][32];
    qs_graph *graph = NULL;
    assert_ok(qs_model_build("lenet5", NULL, &graph));
    qs_schedule *sgd = lowered(graph, "sgd", QS_MODE_TRAIN, false), *adam = lowered(graph, "adam", QS_MODE_TRAIN, false);
    const size_t aligned = ((size_t)graph->trained_elements * sizeof(float) + 63) / 64 * 64;
    assert_true(adam->arena_bytes == sgd->arena_bytes + aligned);
    qs_job job = stub_job(8);
    assert_ok(qs_job_optimizer_set(&job, "adam"));
    job.bucket_bytes = 16384;
    *qs_job_setting(&job, "epsilon") = 1e-6;
    qs_schedule *other = lower_uniform(graph, &job, QS_MODE_TRAIN, "int8/bf16");
    assert_string_not_equal(qs_schedule_hash(adam, hash[0]), qs_schedule_hash(other, hash[1]));
    qs_schedule_release(sgd);
    qs_schedule_release(adam);
    qs_schedule_release(other);
    qs_graph_release(graph);
}

TEST_MAIN(every_optimizer, second_state_alone)
