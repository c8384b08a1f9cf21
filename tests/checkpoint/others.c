// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Weights of llama2.c and GGUF files: every value under its name, queries and keys with rotated halves; what is damaged is refused. */
#include "kit/folder.h"

#include "qsync/checkpoint.h"

static char folder[FOLDER_PATH], path[FOLDER_PATH + 16];

static int make_folder(void **state) {
    (void)state;
    folder_make(folder);
    snprintf(path, sizeof path, "%s/weights", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    folder_remove(folder);
    return 0;
}

static void put_file(const void *data, size_t bytes) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static const float *values_of(const qs_tensor_set *set, const char *name, qs_shape shape) {
    const qs_tensor *tensor = qs_tensor_set_find(set, name);
    if (!tensor) fail_msg("there is no %s", name);
    if (!qs_shape_equal(&tensor->shape, &shape)) fail_msg("%s has another shape", name);
    return tensor->data;
}

/* ---- llama2.c --------------------------------------------------------------------------------------------------------------------- */

/* Heads of 4 values: pairs of neighbours (0,1), (2,3) become halves (0,2), (1,3). */
enum {
    WIDTH = 8,
    HIDDEN = 3,
    LAYERS = 2,
    HEADS = 2,
    KEY_HEADS = 1,
    WORDS = 5,
    POSITIONS = 6,
    HEAD = WIDTH / HEADS,
    KEYS = HEAD * KEY_HEADS
};
static const int halves[HEAD] = {0, 2, 1, 3};

typedef struct llama2c {
    int32_t said[7];
    float values[WORDS * WIDTH * 2 + LAYERS * (2 * WIDTH + 2 * WIDTH * WIDTH + 2 * KEYS * WIDTH + 3 * HIDDEN * WIDTH) + WIDTH +
                 POSITIONS * HEAD];
} llama2c;

/* Value i of the file is i; returns its bytes. */
static size_t llama2c_fill(bool output, llama2c *file) {
    const int32_t said[7] = {WIDTH, HIDDEN, LAYERS, HEADS, KEY_HEADS, output ? -WORDS : WORDS, POSITIONS};
    memcpy(file->said, said, sizeof said);
    for (size_t i = 0; i < sizeof file->values / sizeof *file->values; i++)
        file->values[i] = (float)i;
    return sizeof *file - (output ? 0 : WORDS * WIDTH * sizeof(float));
}

TEST(llama2c_files) {
    llama2c file;
    qs_tensor_set set;
    for (int output = 0; output < 2; output++) {
        put_file(&file, llama2c_fill(output, &file));
        assert_ok(qs_weights_open(path, 0, &set));
        assert_int_equal(set.count, 2 + 9 * LAYERS + output);
        int at = 0;
        assert_true(values_of(&set, "model.embed_tokens.weight", qs_shape_of(2, WORDS, WIDTH))[0] == (float)at);
        at += WORDS * WIDTH;
        assert_true(values_of(&set, "model.layers.1.input_layernorm.weight", qs_shape_of(1, WIDTH))[0] == (float)(at + WIDTH));
        at += LAYERS * WIDTH;
        const float *queries = values_of(&set, "model.layers.1.self_attn.q_proj.weight", qs_shape_of(2, WIDTH, WIDTH));
        for (int head = 0; head < HEADS; head++)
            for (int row = 0; row < HEAD; row++)
                for (int i = 0; i < WIDTH; i++)
                    assert_true(queries[(head * HEAD + row) * WIDTH + i] ==
                                (float)(at + WIDTH * WIDTH + (head * HEAD + halves[row]) * WIDTH + i));
        at += LAYERS * WIDTH * WIDTH;
        const float *keys = values_of(&set, "model.layers.0.self_attn.k_proj.weight", qs_shape_of(2, KEYS, WIDTH));
        for (int row = 0; row < KEYS; row++)
            assert_true(keys[row * WIDTH] == (float)(at + halves[row] * WIDTH));
        at += LAYERS * KEYS * WIDTH;
        assert_true(values_of(&set, "model.layers.1.self_attn.v_proj.weight", qs_shape_of(2, KEYS, WIDTH))[1] ==
                    (float)(at + KEYS * WIDTH + 1));
        at += LAYERS * KEYS * WIDTH;
        assert_true(values_of(&set, "model.layers.0.self_attn.o_proj.weight", qs_shape_of(2, WIDTH, WIDTH))[9] == (float)(at + 9));
        at += LAYERS * WIDTH * WIDTH;
        assert_true(values_of(&set, "model.layers.0.post_attention_layernorm.weight", qs_shape_of(1, WIDTH))[0] == (float)at);
        at += LAYERS * WIDTH;
        assert_true(values_of(&set, "model.layers.0.mlp.gate_proj.weight", qs_shape_of(2, HIDDEN, WIDTH))[0] == (float)at);
        at += LAYERS * HIDDEN * WIDTH;
        assert_true(values_of(&set, "model.layers.0.mlp.down_proj.weight", qs_shape_of(2, WIDTH, HIDDEN))[0] == (float)at);
        at += LAYERS * HIDDEN * WIDTH;
        assert_true(values_of(&set, "model.layers.0.mlp.up_proj.weight", qs_shape_of(2, HIDDEN, WIDTH))[0] == (float)at);
        at += LAYERS * HIDDEN * WIDTH;
        assert_true(values_of(&set, "model.norm.weight", qs_shape_of(1, WIDTH))[7] == (float)(at + 7));
        at += WIDTH + POSITIONS * HEAD;
        if (output) assert_true(values_of(&set, "lm_head.weight", qs_shape_of(2, WORDS, WIDTH))[3] == (float)(at + 3));
        qs_tensor_set_release(&set);
    }
    char name[QS_MODEL_NAME];
    assert_ok(qs_weights_model(path, name));
    assert_string_equal(name, "llama:layers=2,hidden=8,heads=2,kv=1,inner=3,vocab=5,positions=6,tied=0");
}

TEST(llama2c_files_that_are_damaged) {
    llama2c file;
    qs_tensor_set set;
    const size_t bytes = llama2c_fill(true, &file);
    for (size_t i = 0; i < bytes; i += i < 40 ? 1 : 37) {
        put_file(&file, i);
        assert_refused(qs_weights_open(path, 0, &set), QS_BAD_FILE, path);
    }
    for (int i = 0; i < 7; i++)
        for (int bit = 0; bit < 32; bit++) {
            llama2c_fill(true, &file);
            file.said[i] = (int32_t)((uint32_t)file.said[i] ^ (uint32_t)1 << bit);
            put_file(&file, bytes);
            if (qs_weights_open(path, 0, &set) == QS_OK) qs_tensor_set_release(&set);
        }
}

/* The model itself, where the folder of shared data is there. */
TEST(stories260K) {
    const char *shared = getenv("QS_TEST_SHARED");
    char file[4096], name[QS_MODEL_NAME];
    qs_tensor_set set;
    snprintf(file, sizeof file, "%s/data/models/stories260K/stories260K.bin", shared ? shared : "");
    FILE *there = fopen(file, "rb");
    if (!there) skip();
    fclose(there);
    assert_ok(qs_weights_open(file, 0, &set));
    assert_int_equal(set.count, 2 + 9 * 5);
    (void)values_of(&set, "model.layers.4.self_attn.k_proj.weight", qs_shape_of(2, 32, 64));
    qs_tensor_set_release(&set);
    qs_graph *graph;
    assert_ok(qs_weights_model(file, name));
    assert_string_equal(name, "llama:layers=5,hidden=64,heads=8,kv=4,inner=172,vocab=512,positions=512,tied=1");
    assert_ok(qs_model_build(name, NULL, &graph));
    float *trained = calloc((size_t)graph->trained_elements, sizeof *trained);
    assert_ok(qs_weights_read(file, graph, trained, NULL));
    free(trained);
    qs_graph_release(graph);
}

/* ---- GGUF ------------------------------------------------------------------------------------------------------------------------- */

typedef struct writer {
    size_t bytes;
    char data[8192];
} writer;

static void put(writer *to, const void *data, size_t bytes) {
    assert_true(to->bytes + bytes <= sizeof to->data);
    memcpy(to->data + to->bytes, data, bytes);
    to->bytes += bytes;
}

static void put32(writer *to, uint32_t value) {
    put(to, &value, sizeof value);
}

static void put64(writer *to, uint64_t value) {
    put(to, &value, sizeof value);
}

static void put_text(writer *to, const char *text) {
    put64(to, strlen(text));
    put(to, text, strlen(text));
}

static void put_half(writer *to, const char *format, float value) {
    const uint16_t code = (uint16_t)qs_encode_value(qs_format_of(format), value);
    put(to, &code, sizeof code);
}

static void put_number(writer *to, const char *key, uint32_t value) {
    put_text(to, key);
    put32(to, 4);
    put32(to, value);
}

static void put_real(writer *to, const char *key, float value) {
    put_text(to, key);
    put32(to, 6);
    put(to, &value, 4);
}

static void put_tensor(writer *to, const char *name, uint64_t columns, uint64_t rows, uint32_t type, uint64_t offset) {
    put_text(to, name);
    put32(to, rows ? 2 : 1);
    put64(to, columns);
    if (rows) put64(to, rows);
    put32(to, type);
    put64(to, offset);
}

/* Metadata of many kinds; a tensor of each type, 32 columns; queries of two heads of four rows. */
static void gguf_fill(writer *to) {
    to->bytes = 0;
    put(to, "GGUF", 4);
    put32(to, 3);
    put64(to, 7);
    put64(to, 11);
    put_text(to, "general.architecture");
    put32(to, 8);
    put_text(to, "llama");
    put_number(to, "llama.attention.head_count", 2);
    put_number(to, "llama.attention.head_count_kv", 1);
    put_number(to, "llama.embedding_length", 32);
    put_number(to, "llama.rope.dimension_count", 16);
    put_real(to, "llama.rope.scale_linear", 1);
    put_text(to, "llama.rope.scaling.type");
    put32(to, 8);
    put_text(to, "none");
    put_text(to, "tokenizer.ggml.tokens");
    put32(to, 9);
    put32(to, 8);
    put64(to, 2);
    put_text(to, "a");
    put_text(to, "");
    put_text(to, "scores");
    put32(to, 9);
    put32(to, 6);
    put64(to, 3);
    put64(to, 0);
    put32(to, 0);
    put_text(to, "flag");
    put32(to, 7);
    put(to, "", 1);
    put_text(to, "large");
    put32(to, 10);
    put64(to, 1);
    put_tensor(to, "token_embd.weight", 32, 1, 8, 0);
    put_tensor(to, "blk.0.attn_q.weight", 1, 8, 0, 64);
    put_tensor(to, "blk.0.attn_k.weight", 1, 4, 1, 96);
    put_tensor(to, "blk.11.ffn_down.weight", 32, 1, 2, 128);
    put_tensor(to, "blk.11.ffn_up.weight", 32, 1, 3, 160);
    put_tensor(to, "output_norm.weight", 2, 0, 30, 192);
    put_tensor(to, "output.weight", 1, 1, 0, 224);
    put(to, (char[32]){0}, (32 - to->bytes % 32) % 32);
    const size_t data = to->bytes;
    put_half(to, "fp16", 0.25f); /* Q8_0 */
    for (int i = 0; i < 32; i++)
        put(to, &(signed char){(signed char)(i - 16)}, 1);
    put(to, (char[64]){0}, data + 64 - to->bytes);
    for (int i = 0; i < 8; i++) /* F32 */
        put(to, &(float){(float)i}, 4);
    for (int i = 0; i < 4; i++) /* F16 */
        put_half(to, "fp16", (float)i / 2);
    put(to, (char[64]){0}, data + 128 - to->bytes);
    put_half(to, "fp16", 0.5f); /* Q4_0 */
    for (int i = 0; i < 16; i++)
        put(to, &(char){(char)(i | (15 - i) << 4)}, 1);
    put(to, (char[64]){0}, data + 160 - to->bytes);
    put_half(to, "fp16", 0.5f); /* Q4_1 */
    put_half(to, "fp16", -3);
    for (int i = 0; i < 16; i++)
        put(to, &(char){(char)(i | (15 - i) << 4)}, 1);
    put(to, (char[64]){0}, data + 192 - to->bytes);
    put_half(to, "bf16", 1.5f); /* BF16 */
    put_half(to, "bf16", -2);
    put(to, (char[64]){0}, data + 224 - to->bytes);
    put(to, &(float){77}, 4);
}

TEST(gguf_files) {
    writer file;
    qs_tensor_set set;
    gguf_fill(&file);
    put_file(file.data, file.bytes);
    assert_ok(qs_weights_open(path, 0, &set));
    assert_int_equal(set.count, 7);
    const float *bytes = values_of(&set, "model.embed_tokens.weight", qs_shape_of(2, 1, 32));
    const float *q4_0 = values_of(&set, "model.layers.11.mlp.down_proj.weight", qs_shape_of(2, 1, 32));
    const float *q4_1 = values_of(&set, "model.layers.11.mlp.up_proj.weight", qs_shape_of(2, 1, 32));
    for (int i = 0; i < 32; i++) {
        const int code = i < 16 ? i : 31 - i;
        assert_true(bytes[i] == (float)(i - 16) * 0.25f);
        assert_true(q4_0[i] == (float)(code - 8) * 0.5f);
        assert_true(q4_1[i] == (float)code * 0.5f - 3);
    }
    const float *queries = values_of(&set, "model.layers.0.self_attn.q_proj.weight", qs_shape_of(2, 8, 1));
    const float *keys = values_of(&set, "model.layers.0.self_attn.k_proj.weight", qs_shape_of(2, 4, 1));
    for (int i = 0; i < 8; i++)
        assert_true(queries[i] == (float)(i / 4 * 4 + halves[i % 4]));
    for (int i = 0; i < 4; i++)
        assert_true(keys[i] == (float)halves[i] / 2);
    assert_true(values_of(&set, "model.norm.weight", qs_shape_of(1, 2))[1] == -2);
    assert_true(values_of(&set, "lm_head.weight", qs_shape_of(2, 1, 1))[0] == 77);
    qs_tensor_set_release(&set);
}

/* Metadata that say all of a model name it: a base of rotary positions of more than six digits, an epsilon that is not the usual one. */
TEST(gguf_files_name_their_model) {
    writer file = {0};
    char name[QS_MODEL_NAME];
    qs_graph *graph = NULL;
    for (int said = 0; said < 2; said++) {
        file.bytes = 0;
        put(&file, "GGUF", 4);
        put32(&file, 3);
        put64(&file, 1);
        put64(&file, 8 + (uint64_t)said);
        put_text(&file, "general.architecture");
        put32(&file, 8);
        put_text(&file, "llama");
        put_number(&file, "llama.attention.head_count", 4);
        put_number(&file, "llama.attention.head_count_kv", 2);
        put_number(&file, "llama.block_count", 3);
        put_number(&file, "llama.embedding_length", 32);
        put_number(&file, "llama.feed_forward_length", 48);
        put_real(&file, "llama.rope.freq_base", 1234567.5f);
        put_real(&file, "llama.attention.layer_norm_rms_epsilon", 1e-6f);
        if (said) put_number(&file, "llama.context_length", 99);
        put_tensor(&file, "token_embd.weight", 32, 7, 0, 0);
        put(&file, (char[32]){0}, (32 - file.bytes % 32) % 32);
        put(&file, (char[32 * 7 * 4]){0}, 32 * 7 * 4);
        put_file(file.data, file.bytes);
        if (said == 0) assert_refused(qs_weights_model(path, name), QS_MISMATCH, "does not say of which model it is");
    }
    assert_ok(qs_weights_model(path, name));
    assert_string_equal(name, "llama:layers=3,hidden=32,heads=4,kv=2,inner=48,vocab=7,positions=99,tied=1,epsilon=1e-06,base=1234567.5");
    assert_ok(qs_model_open(name, NULL, &graph));
    const qs_node *rotary = &graph->node[qs_graph_find(graph, "model.layers.0.self_attn.k_proj.rotary")];
    const qs_node *norm = &graph->node[qs_graph_find(graph, "model.norm")];
    assert_true(rotary->attributes.base == 1234567.5 && rotary->attributes.heads == 2 && norm->attributes.epsilon == 1e-6);
    qs_graph_release(graph);
}

/* Attention otherwise than it is computed here: each of these keys alone says it. */
TEST(gguf_files_of_other_attention) {
    writer whole, file;
    qs_tensor_set set;
    gguf_fill(&whole);
    const struct {
        const char *key; /* its type is behind it, then its value */
        const void *value;
        size_t from, bytes;
        const char *says;
    } changes[] = {
        {"llama.rope.scaling.type", "yarn", 12, 4, "llama.rope.scaling.type \"yarn\""},
        {"llama.rope.scale_linear", &(float){4}, 4, 4, "llama.rope.scale_linear 4"},
        {"llama.rope.scale_linear", &(float){NAN}, 4, 4, "llama.rope.scale_linear nan"},
        {"llama.rope.dimension_count", &(uint32_t){8}, 4, 4, "llama.rope.dimension_count 8 of 2 heads, hidden 32"},
        {"llama.rope.scaling.type", &(uint32_t){4}, 0, 4, "must be a text"},
    };
    for (size_t i = 0; i < COUNT_OF(changes); i++) {
        file = whole;
        char *at = memmem(file.data, file.bytes, changes[i].key, strlen(changes[i].key));
        assert_non_null(at);
        memcpy(at + strlen(changes[i].key) + changes[i].from, changes[i].value, changes[i].bytes);
        put_file(file.data, file.bytes);
        assert_refused(qs_weights_open(path, 0, &set), QS_BAD_FILE, changes[i].says);
    }
}

/* Every prefix is refused; whatever a flipped bit says is refused or read within the file. */
TEST(gguf_files_that_are_damaged) {
    writer whole, file;
    qs_tensor_set set;
    gguf_fill(&whole);
    for (size_t i = 0; i < whole.bytes; i++) {
        put_file(whole.data, i);
        assert_refused(qs_weights_open(path, 0, &set), QS_BAD_FILE, path);
        for (int bit = (int)i % 7; bit < 8; bit += 7 - (int)i % 7) { /* one that changes from byte to byte, and the highest */
            file = whole;
            file.data[i] = (char)(file.data[i] ^ 1 << bit);
            put_file(file.data, file.bytes);
            if (qs_weights_open(path, 0, &set) == QS_OK) qs_tensor_set_release(&set);
        }
    }
    static const struct {
        size_t at;
        uint64_t value;
        const char *says;
    } changes[] = {
        {4, 1, "version 1 of GGUF"},
        {8, UINT64_MAX, "tensors, at most"},
        {24, UINT64_MAX, "the file ends here"},
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        file = whole;
        memcpy(file.data + changes[i].at, &changes[i].value, i == 0 ? 4 : 8);
        put_file(file.data, file.bytes);
        assert_refused(qs_weights_open(path, 0, &set), QS_BAD_FILE, changes[i].says);
    }
}

TEST_MAIN_WITH(make_folder, remove_folder, llama2c_files, llama2c_files_that_are_damaged, stories260K, gguf_files,
               gguf_files_name_their_model, gguf_files_of_other_attention, gguf_files_that_are_damaged)
