// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Decoders against whole sequences at once: one by one, in blocks, taken back, of models by name and of files; what is refused. */
#include "whole.h"

#include "kit/compare.h"

enum { POSITIONS = 40, CONTEXT = 40 };

/* A model with start weights of a seed in a file. */
typedef struct drawn {
    char folder[FOLDER_PATH];
    char *weights;
    qs_graph *graph;
} drawn;

static void drawn_make(drawn *one, const char *model) {
    folder_make(one->folder);
    one->weights = folder_path(one->folder, "weights.safetensors");
    assert_ok(qs_model_open(model, NULL, &one->graph));
    float *trained = calloc((size_t)one->graph->trained_elements, sizeof(float));
    qs_graph_initialize(one->graph, 5, trained, NULL);
    for (int64_t i = 0; i < one->graph->trained_elements; i++)
        trained[i] *= 8; /* start weights have a deviation of 0.02: attention would hardly tell positions apart */
    assert_ok(qs_weights_write(one->weights, one->graph, trained, NULL));
    free(trained);
}

static void drawn_release(drawn *one) {
    qs_graph_release(one->graph);
    free(one->weights);
    folder_remove(one->folder);
}

static void ids_draw(int64_t vocabulary, int32_t *id) {
    for (int i = 0; i < POSITIONS; i++)
        id[i] = (int32_t)(qs_random_bits(7, (uint64_t)i) % (uint64_t)vocabulary);
}

/* Both compute the same formula in fp32, with sums in other orders. A sum of n numbers is off by sqrt(n) 2^-24 of their magnitudes
 * together, as a random walk; n is 192 at most, 20 products follow each other, and what one is off by goes through all that follow, whose
 * normalisations keep its size: 20 sqrt(192) 2^-24 = 1.7e-5 of the largest logit, beside which others are small. Each of the two may be
 * off by that, and their difference by twice as much. */
static const double tolerance = 2 * 20 * 14 * 0x1p-24;

static double largest(const float *values, int64_t count) {
    double most = 0;
    for (int64_t i = 0; i < count; i++)
        most = fmax(most, fabs((double)values[i]));
    return most;
}

static void check_model(const char *model) {
    static const int64_t lengths[] = {1, 15, 16, 17, 32, 39, 40};
    drawn one;
    whole all;
    int32_t id[POSITIONS];
    qs_decoder *decoder = NULL;
    qs_device *device = whole_device();
    drawn_make(&one, model);
    whole_open(&all, one.graph, one.weights, 1, device);
    assert_ok(qs_decoder_open(one.graph, one.weights, NULL, CONTEXT, device, &decoder));
    const int64_t vocabulary = qs_decoder_vocabulary(decoder);
    float *logits = malloc((size_t)vocabulary * sizeof *logits);
    ids_draw(vocabulary, id);
    whole_run(&all, id);
    const float *expected = whole_logits(&all);
    const double allowed = tolerance * largest(expected, POSITIONS * vocabulary);
    for (int64_t i = 0; i < POSITIONS; i++) {
        assert_ok(qs_decoder_take(decoder, 1, id + i, logits));
        assert_close(vocabulary, logits, expected + i * vocabulary, allowed, 0, model);
    }
    assert_int_equal(qs_decoder_place(decoder), POSITIONS);
    for (size_t k = 0; k < COUNT_OF(lengths); k++) { /* anew, over what is there, in blocks and what is left */
        assert_ok(qs_decoder_rewind(decoder, k % 2 ? 0 : lengths[k] / 2));
        assert_ok(qs_decoder_take(decoder, lengths[k] - qs_decoder_place(decoder), id + qs_decoder_place(decoder), logits));
        assert_close(vocabulary, logits, expected + (lengths[k] - 1) * vocabulary, allowed, 0, model);
    }
    /* Another beginning tells: what is compared is not the last id alone. */
    assert_ok(qs_decoder_rewind(decoder, 0));
    id[3] = (id[3] + 1) % (int32_t)vocabulary;
    assert_ok(qs_decoder_take(decoder, POSITIONS, id, logits));
    double apart = 0;
    for (int64_t i = 0; i < vocabulary; i++)
        apart = fmax(apart, fabs((double)logits[i] - (double)expected[(POSITIONS - 1) * vocabulary + i]));
    if (!(apart > 20 * allowed)) fail_msg("%s: another id at position 3 moves the logits of position 39 by %g only", model, apart);
    qs_decoder_close(decoder);
    whole_close(&all);
    drawn_release(&one);
    qs_device_close(device);
    free(logits);
}

TEST(positions_are_those_of_whole_sequences) {
    check_model("gpt2:layers=2,hidden=48,heads=3,inner=192,vocab=97,positions=64,length=40");
    check_model("gpt2:layers=2,hidden=48,heads=3,inner=192,vocab=97,positions=64,length=40,tied=0,norm=l1ln");
    check_model("llama:layers=2,hidden=48,heads=6,kv=2,inner=128,vocab=97,length=40");
    check_model("llama:layers=2,hidden=48,heads=3,kv=3,inner=128,vocab=97,length=40,tied=0");
}

/* The same bits from a file's graph, and again; another context changes none either. */
TEST(models_of_files) {
    drawn one;
    int32_t id[POSITIONS];
    float logits[3][97];
    qs_graph *read = NULL;
    qs_device *device = whole_device();
    drawn_make(&one, "llama:layers=2,hidden=48,heads=6,kv=2,inner=128,vocab=97,length=40");
    char *path = folder_path(one.folder, "graph.json");
    assert_ok(qs_graph_write(one.graph, path));
    assert_ok(qs_graph_read(path, &read));
    ids_draw(97, id);
    for (int i = 0; i < 3; i++) {
        qs_decoder *decoder = NULL;
        assert_ok(qs_decoder_open(i ? read : one.graph, one.weights, NULL, i < 2 ? CONTEXT : 300, device, &decoder));
        assert_ok(qs_decoder_take(decoder, 37, id, logits[i]));
        qs_decoder_close(decoder);
    }
    assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
    assert_memory_equal(logits[0], logits[2], sizeof logits[0]);
    free(path);
    qs_graph_release(read);
    drawn_release(&one);
    qs_device_close(device);
}

/* Caches are for evaluation: nothing trains through them. */
TEST(no_training) {
    qs_job job;
    qs_graph *model = NULL, *decoder = NULL;
    qs_schedule *schedule = NULL;
    qs_device *device = whole_device();
    qs_job_default(&job);
    assert_ok(qs_model_open("llama:layers=1,length=8", NULL, &model));
    assert_ok(qs_graph_decoder(model, 1, 8, &decoder));
    const qs_lowering lowering = {.graph = decoder,
                                  .batch = 1,
                                  .mode = QS_MODE_TRAIN,
                                  .job = &job,
                                  .half = qs_format_of("fp32"),
                                  .lookup = qs_lookup_device,
                                  .context = device};
    assert_refused(qs_schedule_lower(&lowering, &schedule), QS_UNSUPPORTED, "a cached_attention is there for evaluation only");
    qs_lowering two = lowering;
    two.mode = QS_MODE_EVALUATION;
    two.batch = 2;
    assert_refused(qs_schedule_lower(&two, &schedule), QS_USAGE, "place is [2,1]");
    qs_graph_release(model);
    qs_graph_release(decoder);
    qs_device_close(device);
}

TEST(refusals) {
    drawn one;
    int32_t id[POSITIONS] = {0};
    float logits[97], before[97];
    qs_decoder *decoder = NULL;
    qs_device *device = whole_device();
    drawn_make(&one, "gpt2:layers=1,hidden=32,heads=2,inner=64,vocab=97,positions=40,length=16");
    assert_refused(qs_decoder_open(one.graph, one.weights, NULL, 41, device, &decoder), QS_USAGE, "\"wpe\" has rows for 40");
    assert_refused(qs_decoder_open(one.graph, one.weights, NULL, 0, device, &decoder), QS_USAGE, "at least 1");
    assert_refused(qs_decoder_open(one.graph, "/nowhere/weights.safetensors", NULL, 40, device, &decoder), QS_BAD_FILE, "/nowhere/");
    assert_ok(qs_decoder_open(one.graph, one.weights, NULL, 40, device, &decoder));
    assert_ok(qs_decoder_take(decoder, 39, id, before));
    id[1] = 97;
    assert_refused(qs_decoder_take(decoder, 2, id, logits), QS_USAGE, "2 ids behind 39");
    assert_refused(qs_decoder_take(decoder, 1, id + 1, logits), QS_USAGE, "id 97 at position 39: the model has ids 0 to 96");
    id[1] = -1;
    assert_refused(qs_decoder_take(decoder, 1, id + 1, logits), QS_USAGE, "id -1 at position 39");
    assert_refused(qs_decoder_take(decoder, 0, id, logits), QS_USAGE, "0 ids");
    assert_refused(qs_decoder_rewind(decoder, 40), QS_USAGE, "it holds 39");
    assert_ok(qs_decoder_rewind(decoder, 38)); /* nothing of that was taken */
    assert_ok(qs_decoder_take(decoder, 1, id, logits));
    assert_memory_equal(logits, before, sizeof logits);
    qs_decoder_close(decoder);
    drawn_release(&one);
    qs_device_close(device);
}

TEST_MAIN(positions_are_those_of_whole_sequences, models_of_files, no_training, refusals)
