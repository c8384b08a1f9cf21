// SPDX-License-Identifier: Apache-2.0
// labels: short
// ranks: 2
/* What is measured of predictions beside loss and accuracy: perplexity, named things of tags, spans and their texts; each against figures
 * that were counted by hand, on one rank and on two. The model is a table: an id says the logits of its position. */
#include "train_support.h"

enum { WORDS = 5, SAMPLES = 4, CLASSES = 5 };

typedef struct task {
    qs_target target;
    const char *const *tag;
    float table[CLASSES][CLASSES]; /* (ids, logits) */
    int32_t ids[SAMPLES][WORDS], label[SAMPLES][WORDS], length[SAMPLES];
    qs_answers *(*answers)(void);
} task;

static qs_graph *graph_of(const qs_samples *samples, int64_t logits) {
    const qs_attributes table = {.vocabulary = CLASSES};
    const int input = 0;
    qs_graph *graph = NULL;
    int node = -1;
    assert_ok(qs_graph_create("table", samples->unit, 1, samples->input, &graph));
    assert_ok(qs_graph_add(graph, "table", "embedding", &table, 1, &input, logits, false, &node));
    assert_ok(qs_graph_finish(graph, node, &samples->target));
    return graph;
}

/* One step at no rate, and the measures behind it. */
static void measured(const task *one, bool alone, qs_evaluation *out) {
    const int64_t logits = one->target.kind == QS_TARGET_SPAN ? 2 : CLASSES, values = qs_target_values(&one->target);
    qs_data_description is = {.name = "table", .samples = {.unit = "tokens", .inputs = 1}, .tag = one->tag};
    int32_t label[SAMPLES * WORDS];
    float weights[64] = {0};
    char path[128];
    bench here;
    qs_dataset set;
    qs_train_result result;
    is.samples.target = one->target;
    is.samples.input[0] = (qs_input){.name = "ids", .type = QS_INPUT_I32, .rank = 1, .extent = {WORDS}, .varies = true, .bound = CLASSES};
    for (int n = 0; n < SAMPLES; n++)
        memcpy(label + n * values, one->label[n], (size_t)values * sizeof *label);
    assert_ok(qs_dataset_of_arrays(&is, SAMPLES, (const void *const[]){one->ids}, one->length, label, &set));
    if (one->answers) set.answers = one->answers();
    qs_graph *graph = graph_of(&is.samples, logits);
    for (int id = 0; id < CLASSES; id++)
        memcpy(weights + id * logits, one->table[id], (size_t)logits * sizeof *weights);
    bench_open(&here, "ref", alone ? "self" : NULL, "table", alone ? SAMPLES : SAMPLES / 2);
    snprintf(path, sizeof path, "%s-%d.start", here.folder, qs_comm_rank(here.comm));
    assert_ok(qs_weights_write(path, graph, weights, weights));
    here.job.rate.base = 0;
    here.options.graph = graph;
    here.options.training = here.options.test = &set;
    here.options.training_limit = here.options.test_limit = 0;
    here.options.start_weights = path;
    assert_ok(qs_train(&here.options, here.device, here.comm, &result));
    *out = result.test;
    result_release(&result);
    remove(path);
    bench_close(&here);
    qs_graph_release(graph);
    qs_dataset_release(&set);
}

static void expect(const task *one, int measures, const qs_measure *expected) {
    for (int alone = 0; alone < 2; alone++) {
        qs_evaluation test;
        measured(one, alone, &test);
        assert_int_equal(test.measures, measures);
        for (int i = 0; i < measures; i++) {
            assert_string_equal(test.measure[i].name, expected[i].name);
            if (!(fabs(test.measure[i].value - expected[i].value) <= 1e-15))
                fail_msg("%s: %.17g, expected %.17g", expected[i].name, test.measure[i].value, expected[i].value);
        }
    }
}

static const char *const tags[] = {"O", "B-a", "I-a", "B-b", "I-b"};
enum { O, BA, IA, BB, IB, NONE = -1 };

/* An id predicts the tag of its number. */
static const task tagging = {
    .target = {.kind = QS_TARGET_CLASS_PER_POSITION, .classes = CLASSES, .extent = WORDS, .ignored = NONE},
    .tag = tags,
    .table = {{9}, {0, 9}, {0, 0, 9}, {0, 0, 0, 9}, {0, 0, 0, 0, 9}},
    .ids = {{BA, IA, O, BB, IB}, {IA, BA, BB, IA, O}, {O, O, BB, BA, BA}, {BA, BA, IB, IB, O}},
    .label = {{BA, IA, O, BB, O}, {O, BA, NONE, IA, O}, {O, O, O, BA, BA}, {BA, BA, IB, IB, O}},
    .length = {WORDS, WORDS, 3, WORDS},
};

/* True: a 0-2, b 3-4; a 1-3 without the ignored position; none, the rest is behind the end; a 0-1, a 1-2, b 2-4. */
TEST(things) {
    const qs_measure expected[] = {{"precision", 5.0 / 8}, {"recall", 5.0 / 6}, {"f1", 10.0 / 14}};
    expect(&tagging, 3, expected);
}

/* Cross-entropy of logits 9, 0, 0, 0, 0 where the prediction is right and where it is wrong. */
TEST(perplexity) {
    task plain = tagging;
    qs_evaluation test;
    plain.tag = NULL;
    measured(&plain, true, &test);
    const double right = log(exp(9) + 4) - 9, wrong = log(exp(9) + 4), mean = (14 * right + 3 * wrong) / 17;
    assert_int_equal(test.samples, 17);
    assert_true(test.accuracy == 14.0 / 17);
    assert_int_equal(test.measures, 1);
    assert_string_equal(test.measure[0].name, "perplexity");
    assert_near(test.measure[0].value, exp(mean), 1e-5);
}

/* Ids 1 and 2 are where a span likes to begin and to end. */
static const task spans = {
    .target = {.kind = QS_TARGET_SPAN, .extent = WORDS},
    .table = {{0, 0}, {5, 0}, {0, 4}, {-3, -3}, {0, 0}},
    .ids = {{0, 1, 2, 0, 0}, {2, 0, 1, 0, 0}, {0, 0, 0, 1, 2}, {1, 0, 0, 0, 2}},
    .label = {{1, 2}, {2, 4}, {0, 1}, {1, 3}},
    .length = {WORDS, WORDS, WORDS, WORDS},
};

/* Predicted: 1-2, 2-2 (an end before the beginning is none), 3-4, 0-4. */
TEST(positions) {
    const qs_measure expected[] = {{"exact_match", 0.25}, {"f1", (1 + 0.5 + 0 + 0.75) / 4}};
    expect(&spans, 2, expected);
}

static void *copied(const void *from, size_t bytes) {
    void *copy = malloc(bytes);
    assert_non_null(copy);
    return memcpy(copy, from, bytes);
}

/* Two questions of two windows each; the last position of the third window is no text. */
static qs_answers *two_questions(void) {
    static const char words[] = "The Cat sat on mats\0cat sat on\0dog\0the cat, sat on MATS!";
    static const int32_t begin[WORDS] = {0, 4, 8, 12, 15}, end[WORDS] = {3, 7, 11, 14, 19};
    qs_answers *out = calloc(1, sizeof *out);
    assert_non_null(out);
    int32_t begins[SAMPLES][WORDS], ends[SAMPLES][WORDS];
    for (int n = 0; n < SAMPLES; n++) {
        memcpy(begins[n], begin, sizeof begin);
        memcpy(ends[n], end, sizeof end);
    }
    ends[2][4] = begins[2][4];
    out->questions = 2;
    out->question = copied((const int64_t[]){0, 0, 1, 1}, SAMPLES * sizeof(int64_t));
    out->begin = copied(begins, sizeof begins);
    out->end = copied(ends, sizeof ends);
    out->texts = copied(words, sizeof words);
    out->text = copied((const char *[]){out->texts, out->texts}, 2 * sizeof(char *));
    out->first_answer = copied((const int64_t[]){0, 2, 3}, 3 * sizeof(int64_t));
    out->answer = copied((const char *[]){out->texts + 20, out->texts + 31, out->texts + 35}, 3 * sizeof(char *));
    return out;
}

/* "Cat sat" of the first window, beside "cat sat on"; all of the text, of the last one. */
TEST(texts) {
    task asked = spans;
    asked.answers = two_questions;
    const qs_measure expected[] = {{"exact_match", 0.5}, {"f1", (0.8 + 1) / 2}};
    expect(&asked, 2, expected);
}

TEST_MAIN_RANKS(things, perplexity, positions, texts)
