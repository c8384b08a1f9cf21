// SPDX-License-Identifier: Apache-2.0
// labels: short
/* States of runs: what is written comes back bit for bit; those of another graph, with a part too few, too many or of another size, and
 * damaged files are refused and leave the buffers alone. */
#include "kit/folder.h"

#include "qsync/checkpoint.h"

enum { WEIGHTS = 48, STATES = 48, MOST = 48 };

typedef struct fixture {
    char folder[FOLDER_PATH], path[FOLDER_PATH + 32];
    qs_graph *graph;
    float weights[WEIGHTS], states[STATES];
    qs_progress progress;
} fixture;

static qs_graph *graph_of(int classes) {
    qs_graph *graph = NULL;
    const qs_model_input input = {1, 28, 28, classes};
    assert_ok(qs_model_build("mlp", &input, &graph));
    return graph;
}

static int set_up(void **state) {
    fixture *here = calloc(1, sizeof *here);
    folder_make(here->folder);
    snprintf(here->path, sizeof here->path, "%s/state.qsync", here->folder);
    here->graph = graph_of(10);
    for (int i = 0; i < MOST; i++) {
        here->weights[i] = (float)i / 7;
        here->states[i] = -(float)i / 3;
    }
    here->progress = (qs_progress){INT64_C(1) << 60, 391, 17, 0x1.8p-3, 5, 2};
    const qs_state_part part[] = {{"weights", WEIGHTS, here->weights}, {"adam.momentum", STATES, here->states}};
    assert_ok(qs_state_write(here->path, here->graph, &here->progress, 2, part));
    *state = here;
    return 0;
}

static int tear_down(void **state) {
    fixture *here = *state;
    folder_remove(here->folder);
    qs_graph_release(here->graph);
    free(here);
    return 0;
}

static void round_trip(void **state) {
    fixture *here = *state;
    float weights[WEIGHTS];
    qs_progress progress;
    const qs_state_part part[] = {{"adam.momentum", STATES, NULL}, {"weights", WEIGHTS, weights}};
    assert_ok(qs_state_read(here->path, here->graph, 2, part, &progress));
    assert_memory_equal(weights, here->weights, sizeof weights);
    assert_memory_equal(&progress, &here->progress, sizeof progress);
}

/* One part of it, the others unasked for. */
static void part_alone(void **state) {
    fixture *here = *state;
    qs_graph *other = graph_of(100);
    float states[STATES] = {0};
    qs_state_part part = {"adam.momentum", STATES, states};
    assert_int_equal(qs_state_read_part(here->path, other, &part), QS_MISMATCH);
    assert_true(states[1] == 0);
    assert_ok(qs_state_read_part(here->path, here->graph, &part));
    assert_memory_equal(states, here->states, sizeof states);
    snprintf(part.name, sizeof part.name, "promotions");
    assert_refused(qs_state_read_part(here->path, here->graph, &part), QS_MISMATCH, "promotions is missing");
    assert_message(here->path);
    qs_graph_release(other);
}

static void refuse(const fixture *here, const qs_graph *graph, int parts, const char *name, int64_t elements, qs_status status,
                   const char *why) {
    float weights[MOST] = {0}, states[MOST] = {0};
    qs_state_part part[2] = {{"weights", WEIGHTS, weights}, {"", elements, states}};
    qs_progress progress = {.step = 3};
    snprintf(part[1].name, sizeof part[1].name, "%s", name);
    assert_refused(qs_state_read(here->path, graph, parts, part, &progress), status, why);
    for (int i = 0; i < MOST; i++)
        assert_true(weights[i] == 0 && states[i] == 0);
    assert_int_equal(progress.step, 3);
}

static void others(void **state) {
    fixture *here = *state;
    qs_graph *other = graph_of(100);
    refuse(here, other, 2, "adam.momentum", STATES, QS_MISMATCH, "inputs or classes of another shape");
    refuse(here, here->graph, 1, "", 0, QS_MISMATCH, "adam.momentum is superfluous");
    refuse(here, here->graph, 2, "sgd.momentum", STATES, QS_MISMATCH, "sgd.momentum is missing");
    refuse(here, here->graph, 2, "adam.momentum", STATES - 1, QS_MISMATCH, "adam.momentum is fp32[48], this run has fp32[47]");
    qs_graph_release(other);
}

/* One bit anywhere. */
static void damage(void **state) {
    fixture *here = *state;
    char *text = NULL;
    size_t bytes = 0;
    assert_ok(qs_file_read(here->path, 1 << 20, &text, &bytes));
    for (size_t at = 0; at < bytes; at += 13) {
        text[at] ^= 1;
        assert_ok(qs_file_write(here->path, text, bytes));
        qs_progress progress;
        float weights[WEIGHTS], states[STATES];
        const qs_state_part part[] = {{"weights", WEIGHTS, weights}, {"adam.momentum", STATES, states}};
        assert_true(qs_state_read(here->path, here->graph, 2, part, &progress) != QS_OK);
        text[at] ^= 1;
    }
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(round_trip, set_up, tear_down), cmocka_unit_test_setup_teardown(part_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(others, set_up, tear_down), cmocka_unit_test_setup_teardown(damage, set_up, tear_down)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
