// SPDX-License-Identifier: Apache-2.0
// labels: short
/* gpt-nano-sort, a trained GPT of minGPT whose values its authors published: every intermediate tensor that our graph has too, logits and
 * probabilities, of whole sequences and of a decoder, within 1e-5. Its files are JSON: name to shape and base64 of little-endian fp32. */
#include "whole.h"

#include <jansson.h>

enum { BATCH = 3, POSITIONS = 11, WIDTH = 48, HEADS = 3, LETTERS = 3 };

static json_t *published_read(const char *name) {
    char path[4096];
    const char *shared = getenv("QS_TEST_SHARED");
    json_error_t error;
    snprintf(path, sizeof path, "%s/data/models/gpt-nano-sort/%s", shared ? shared : "", name);
    FILE *file = fopen(path, "r");
    if (!file) return NULL;
    json_t *root = json_loadf(file, 0, &error);
    fclose(file);
    if (!root) fail_msg("%s: %s", path, error.text);
    return root;
}

/* The tensor of a name, which the caller frees; `shape` receives its shape unless NULL. */
static float *published_tensor(const json_t *root, const char *name, qs_shape *shape) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const json_t *tensor = json_object_get(root, name), *extents = json_object_get(tensor, "shape");
    const char *text = json_string_value(json_object_get(tensor, "data"));
    assert_non_null(text);
    qs_shape is = {.axes = (int)json_array_size(extents)};
    for (int i = 0; i < is.axes; i++)
        is.dim[i] = json_integer_value(json_array_get(extents, (size_t)i));
    const size_t bytes = (size_t)qs_shape_count(&is) * sizeof(float);
    unsigned char *out = malloc(bytes + 3);
    size_t used = 0;
    uint32_t held = 0;
    int bits = 0;
    for (; *text && *text != '='; text++) {
        const char *digit = strchr(digits, *text);
        assert_non_null(digit);
        held = held << 6 | (uint32_t)(digit - digits);
        bits += 6;
        if (bits < 8) continue;
        bits -= 8;
        assert_true(used < bytes);
        out[used++] = (unsigned char)(held >> bits);
    }
    assert_int_equal(used, bytes);
    if (shape) *shape = is;
    return (float *)(void *)out;
}

/* Its weights as a safetensors file under the names that they have; masks and settings are none. */
static void weights_write(const json_t *model, const char *path) {
    qs_named_tensor tensors[64] = {0};
    qs_tensor_set set = {.tensors = tensors};
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)model, name, value) {
        qs_named_tensor *one = &tensors[set.count];
        const bool mask = strlen(name) > 10 && strcmp(name + strlen(name) - 10, ".attn.bias") == 0;
        if (!json_object_get(value, "data") || mask) continue;
        assert_true(set.count++ < COUNT_OF(tensors));
        snprintf(one->name, sizeof one->name, "%s", name);
        one->tensor.format = qs_format_of("fp32");
        one->tensor.data = published_tensor(model, name, &one->tensor.shape);
    }
    assert_ok(qs_tensor_set_write(path, &set));
    for (size_t i = 0; i < set.count; i++)
        free(tensors[i].tensor.data);
}

typedef struct sorter {
    char folder[FOLDER_PATH];
    char *weights;
    json_t *partials;
    qs_graph *graph;
    qs_device *device;
    int32_t ids[BATCH * POSITIONS];
} sorter;

static sorter here;

static int make(void **state) {
    json_t *model = published_read("gpt-nano-sort-model.json");
    (void)state;
    here.partials = published_read("gpt-nano-sort-t0-partials.json");
    if (!model || !here.partials) return 0; /* every test skips */
    folder_make(here.folder);
    here.weights = folder_path(here.folder, "model.safetensors");
    weights_write(model, here.weights);
    json_decref(model);
    assert_ok(qs_model_open("gpt2:layers=3,hidden=48,heads=3,inner=192,vocab=3,positions=11,length=11,tied=0", NULL, &here.graph));
    here.device = whole_device();
    float *ids = published_tensor(here.partials, "idx", NULL);
    for (int i = 0; i < BATCH * POSITIONS; i++)
        here.ids[i] = (int32_t)ids[i];
    free(ids);
    return 0;
}

static int unmake(void **state) {
    (void)state;
    if (here.graph) {
        qs_graph_release(here.graph);
        qs_device_close(here.device);
        free(here.weights);
        folder_remove(here.folder);
    }
    json_decref(here.partials);
    return 0;
}

/* Ours (batch, positions, width) against theirs, which are (batch, heads, positions, width / heads) where `heads`. */
static void compare(const whole *all, const char *node, const char *tensor, int64_t width, bool heads) {
    float *theirs = published_tensor(here.partials, tensor, NULL);
    const float *ours = whole_value(all, node);
    for (int64_t i = 0; i < BATCH * POSITIONS * width; i++) {
        const int64_t sample = i / width / POSITIONS, position = i / width % POSITIONS, channel = i % width, of = width / HEADS;
        const int64_t at = heads ? ((sample * HEADS + channel / of) * POSITIONS + position) * of + channel % of : i;
        if (!(fabs((double)ours[i] - (double)theirs[at]) <= 1e-5))
            fail_msg("%s is %.9g at sample %lld, position %lld, channel %lld; %s is %.9g", node, (double)ours[i], (long long)sample,
                     (long long)position, (long long)channel, tensor, (double)theirs[at]);
    }
    free(theirs);
}

static void probabilities(const float *logits, double *out) {
    double sum = 0;
    for (int i = 0; i < LETTERS; i++)
        sum += out[i] = exp((double)logits[i]);
    for (int i = 0; i < LETTERS; i++)
        out[i] /= sum;
}

TEST(whole_sequences) {
    static const struct {
        const char *node, *tensor;
        int64_t width;
        bool heads;
    } values[] = {{"wte", "tok_emb", WIDTH, false},
                  {"wpe", "x", WIDTH, false},
                  {"h.0.ln_1", "ln1", WIDTH, false},
                  {"h.0.attn.q", "q", WIDTH, true},
                  {"h.0.attn.k", "k", WIDTH, true},
                  {"h.0.attn.v", "v", WIDTH, true},
                  {"h.0.attn", "y", WIDTH, false},
                  {"h.0.attn.c_proj", "yProj", WIDTH, false},
                  {"h.0.attn.c_proj.sum", "attnResid", WIDTH, false},
                  {"h.0.ln_2", "ln2", WIDTH, false},
                  {"h.0.mlp.c_fc", "fc", 4 * WIDTH, false},
                  {"h.0.mlp.c_fc.gelu", "gelu", 4 * WIDTH, false},
                  {"h.0.mlp.c_proj", "mlp", WIDTH, false},
                  {"h.0.mlp.c_proj.sum", "mlpResid", WIDTH, false},
                  {"h.0.mlp.c_proj.sum", "block0", WIDTH, false},
                  {"h.1.mlp.c_proj.sum", "block1", WIDTH, false},
                  {"h.2.mlp.c_proj.sum", "block2", WIDTH, false},
                  {"ln_f", "ln_f", WIDTH, false},
                  {"lm_head", "lm_head", LETTERS, false}};
    whole all;
    if (!here.graph) skip();
    whole_open(&all, here.graph, here.weights, BATCH, here.device);
    whole_run(&all, here.ids);
    for (size_t i = 0; i < COUNT_OF(values); i++)
        compare(&all, values[i].node, values[i].tensor, values[i].width, values[i].heads);
    float *probs = published_tensor(here.partials, "probs", NULL);
    for (int row = 0; row < BATCH * POSITIONS; row++) {
        double ours[LETTERS];
        probabilities(whole_logits(&all) + row * LETTERS, ours);
        for (int i = 0; i < LETTERS; i++)
            assert_within(ours[i], (double)probs[row * LETTERS + i], 1e-5);
    }
    free(probs);
    whole_close(&all);
}

TEST(a_decoder) {
    qs_decoder *decoder = NULL;
    if (!here.graph) skip();
    float *logits = published_tensor(here.partials, "lm_head", NULL), *probs = published_tensor(here.partials, "probs", NULL);
    assert_ok(qs_decoder_open(here.graph, here.weights, NULL, POSITIONS, here.device, &decoder));
    for (int row = 0; row < BATCH * POSITIONS; row++) {
        float ours[LETTERS];
        double of[LETTERS];
        if (row % POSITIONS == 0) assert_ok(qs_decoder_rewind(decoder, 0));
        assert_ok(qs_decoder_take(decoder, 1, &here.ids[row], ours));
        probabilities(ours, of);
        for (int i = 0; i < LETTERS; i++) {
            assert_within((double)ours[i], (double)logits[row * LETTERS + i], 1e-5);
            assert_within(of[i], (double)probs[row * LETTERS + i], 1e-5);
        }
    }
    free(logits);
    free(probs);
    qs_decoder_close(decoder);
}

/* What it was trained for: it goes on behind six letters with the same, sorted. */
TEST(it_sorts) {
    static const int32_t letters[5][6] = {
        {0, 0, 2, 1, 0, 1}, {2, 2, 2, 1, 0, 0}, {1, 0, 2, 0, 1, 2}, {2, 1, 0, 2, 1, 0}, {0, 2, 0, 2, 0, 2}};
    qs_decoder *decoder = NULL;
    qs_sampler *sampler = NULL;
    if (!here.graph) skip();
    assert_ok(qs_decoder_open(here.graph, here.weights, NULL, POSITIONS, here.device, &decoder));
    assert_ok(qs_sampler_create(&(qs_sampling){0, 1, 1}, LETTERS, &sampler));
    for (size_t k = 0; k < COUNT_OF(letters); k++) {
        int count[LETTERS] = {0};
        float logits[LETTERS];
        assert_ok(qs_decoder_rewind(decoder, 0));
        assert_ok(qs_decoder_take(decoder, 6, letters[k], logits));
        for (int i = 0; i < 6; i++)
            count[letters[k][i]]++;
        for (int i = 0, letter = 0; i < 6; i++) {
            int32_t id = -1;
            while (count[letter] == 0)
                letter++;
            assert_ok(qs_sampler_draw(sampler, logits, (uint64_t)i, &id));
            if (id != letter) fail_msg("sequence %zu: letter %d of the sorted ones is %d, must be %d", k, i, id, letter);
            count[letter]--;
            if (i < 5) assert_ok(qs_decoder_take(decoder, 1, &id, logits));
        }
    }
    qs_sampler_release(sampler);
    qs_decoder_close(decoder);
}

TEST_MAIN_WITH(make, unmake, whole_sequences, a_decoder, it_sorts)
