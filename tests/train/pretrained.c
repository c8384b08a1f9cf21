// SPDX-License-Identifier: Apache-2.0
// labels: short
// links: text
/* Real weights: all-MiniLM-L6-v2 as it was published. Its vocabulary gives the ids, one training step its sentence embeddings, which agree
 * with an encoder written in NumPy (tests/golden/make_minilm.py), and the step learns. The folder is `minilm` below QSYNC_DATA, or below
 * the user's cache (XDG_CACHE_HOME or ~/.cache, qsync), where `tools/fetch-data.sh FOLDER minilm` puts it; without it this is skipped. */
#include "train_support.h"

#include "qsync/checkpoint.h"
#include "qsync/text.h"

#include <unistd.h>

enum { LENGTH = 16, HIDDEN = 384, KEPT = 8, SENTENCES = 3 };

static const struct {
    const char *text;
    int pieces;
    int32_t id[LENGTH];
    double norm, first[KEPT], cosine[SENTENCES];
} sentence[SENTENCES] = {
#include "golden/minilm.inc"
};

/* Where the weights are; skips the test where they are not. */
static void folder_find(char out[4096]) {
    const char *data = getenv("QSYNC_DATA"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const char *base[] = {data, cache && *cache ? cache : home};
    const char *below[] = {"minilm", cache && *cache ? "qsync/minilm" : ".cache/qsync/minilm"};
    for (size_t i = 0; i < COUNT_OF(base); i++) {
        char file[4200];
        if (!base[i]) continue;
        snprintf(out, 4096, "%s/%s", base[i], below[i]);
        snprintf(file, sizeof file, "%s/model.safetensors", out);
        if (access(file, R_OK) == 0) return;
    }
    print_message("no weights: sh tools/fetch-data.sh \"${XDG_CACHE_HOME:-$HOME/.cache}/qsync\" minilm\n");
    skip();
}

TEST(vocabulary_gives_the_ids) {
    char folder[4096], path[4200];
    qs_tokenizer *tokenizer = NULL;
    folder_find(folder);
    snprintf(path, sizeof path, "%s/vocab.txt", folder);
    assert_ok(qs_tokenizer_open(path, &tokenizer));
    for (int i = 0; i < SENTENCES; i++) {
        qs_tokens tokens = {0};
        int32_t id[LENGTH];
        assert_ok(qs_tokenizer_encode(tokenizer, sentence[i].text, strlen(sentence[i].text), &tokens));
        assert_int_equal(tokens.count, sentence[i].pieces - 2);
        assert_int_equal(qs_tokenizer_frame(tokenizer, tokens.id, tokens.count, NULL, 0, id, NULL), sentence[i].pieces);
        assert_memory_equal(id, sentence[i].id, (size_t)sentence[i].pieces * sizeof *id);
        qs_tokens_release(&tokens);
    }
    qs_tokenizer_close(tokenizer);
}

/* A model of two tags for each piece, whose classifier is zero: probabilities are 1/2 everywhere, and where all pieces have tag 0, the
 * loss is ln 2 and the gradient of the classifier's first row the mean over pieces of (1/2 - 1) times the last layer: minus half the
 * embedding. */
static void embed(qs_executor *executor, const qs_graph *graph, const qs_schedule *schedule, int which, double *embedding) {
    int32_t label[SENTENCES * LENGTH];
    const qs_parameter *weights = NULL;
    for (int i = 0; i < graph->parameters; i++)
        if (strcmp(graph->parameter[i].name, "classifier.weights") == 0) weights = &graph->parameter[i];
    assert_non_null(weights);
    for (int i = 0; i < SENTENCES * LENGTH; i++)
        label[i] = i / LENGTH == which && i % LENGTH < sentence[which].pieces ? 0 : -1;
    assert_ok(qs_executor_write(executor, schedule->target, 0, sizeof label, label));
    assert_ok(qs_executor_run(executor, &(qs_run){.samples = SENTENCES, .global_samples = sentence[which].pieces, .loss_scale = 1}));
    assert_within(loss_read(executor, schedule) / sentence[which].pieces, log(2), 1e-6);
    float *gradients = buffer_read(executor, schedule, schedule->gradients);
    for (int k = 0; k < HIDDEN; k++)
        embedding[k] = -2 * gradients[weights->offset + k];
    free(gradients);
}

static double product(const double *a, const double *b) {
    double sum = 0;
    for (int k = 0; k < HIDDEN; k++)
        sum += a[k] * b[k];
    return sum;
}

TEST(embeddings_are_the_published_models) {
    char folder[4096], path[4200];
    bench here;
    qs_graph *graph = NULL;
    qs_schedule *schedule = NULL;
    qs_memory *memory = NULL;
    qs_executor *executor = NULL;
    static double embedding[SENTENCES][HIDDEN];
    folder_find(folder);
    bench_open(&here, "cpu", "self", "minilm:dropout=0", SENTENCES);
    qs_samples samples = {.unit = "tokens", .inputs = 3};
    for (int i = 0; i < 3; i++) {
        samples.input[i] = (qs_input){.type = QS_INPUT_I32, .rank = 1, .extent = {LENGTH}, .varies = true, .bound = i ? 2 : 30522};
        snprintf(samples.input[i].name, sizeof samples.input[i].name, "%s", (const char *[]){"ids", "types", "keep"}[i]);
    }
    samples.target = (qs_target){.kind = QS_TARGET_CLASS_PER_POSITION, .classes = 2, .extent = LENGTH, .ignored = -1};
    assert_ok(qs_model_open("minilm:dropout=0", &samples, &graph));
    const qs_lowering lowering = {.graph = graph,
                                  .batch = SENTENCES,
                                  .mode = QS_MODE_TRAIN,
                                  .job = &here.job,
                                  .half = qs_format_of("fp32"),
                                  .lookup = qs_lookup_device,
                                  .context = here.device};
    assert_ok(qs_schedule_lower(&lowering, &schedule));
    assert_ok(qs_memory_reserve(here.device, schedule->arena_bytes, &memory));
    assert_ok(qs_executor_create(schedule, here.device, here.comm, memory, &executor));

    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    float *masters = calloc(1, schedule->buffer[schedule->masters].bytes);
    assert_non_null(masters);
    assert_ok(qs_weights_start(path, graph, &(qs_weights_choice){"classifier.*", "pooler.*"}, masters, NULL, NULL));
    assert_ok(qs_executor_write(executor, schedule->masters, 0, schedule->buffer[schedule->masters].bytes, masters));
    free(masters);
    int32_t inputs[3][SENTENCES * LENGTH] = {{0}};
    for (int i = 0; i < SENTENCES; i++)
        for (int k = 0; k < sentence[i].pieces; k++) {
            inputs[0][i * LENGTH + k] = sentence[i].id[k];
            inputs[2][i * LENGTH + k] = 1;
        }
    for (int i = 0; i < 3; i++)
        assert_ok(qs_executor_write(executor, schedule->input[i], 0, sizeof inputs[i], inputs[i]));

    for (int i = 0; i < SENTENCES; i++)
        embed(executor, graph, schedule, i, embedding[i]);
    for (int i = 0; i < SENTENCES; i++) {
        /* As in train.golden: 2^-24 for each of some 60 layers on the way, of sums of up to 1536 terms of random sign. */
        const double norm = sqrt(product(embedding[i], embedding[i])), allowed = 0x1p-24 * 60 * sqrt(1536);
        assert_near(norm, sentence[i].norm, allowed);
        for (int k = 0; k < KEPT; k++)
            assert_within(embedding[i][k], sentence[i].first[k], allowed * norm / sqrt(HIDDEN) * 4);
        for (int k = 0; k < SENTENCES; k++)
            assert_within(product(embedding[i], embedding[k]) / norm / sqrt(product(embedding[k], embedding[k])), sentence[i].cosine[k],
                          2 * allowed);
    }

    /* The last target stays: a step with a rate lowers its loss. */
    const qs_run step = {.samples = SENTENCES, .global_samples = sentence[SENTENCES - 1].pieces, .loss_scale = 1, .learning_rate = 0.01};
    assert_ok(qs_executor_run(executor, &step));
    const float before = loss_read(executor, schedule);
    assert_ok(qs_executor_run(executor, &step));
    assert_true(loss_read(executor, schedule) < 0.99F * before);

    qs_executor_release(executor);
    qs_memory_release(memory);
    qs_schedule_release(schedule);
    qs_graph_release(graph);
    bench_close(&here);
}

TEST_MAIN(vocabulary_gives_the_ids, embeddings_are_the_published_models)
