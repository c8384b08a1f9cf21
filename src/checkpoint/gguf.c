// SPDX-License-Identifier: Apache-2.0
/* GGUF files, versions 2 and 3 (the format of ggml-org/ggml): metadata, a list of tensors, then their data. Models are read of the
 * architecture "llama"; every tensor becomes fp32 under the name that Hugging Face's transformers give it. Whatever the file says is
 * checked against its size before it is believed. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint_internal.h"

/* More tensors than any model has; and the alignment of data where the file says none. */
enum { MOST_TENSORS = 1 << 13, MOST_AXES = 4, USUAL_ALIGNMENT = 32 };

/* ---- Blocks of values ------------------------------------------------------------------------------------------------------------- */

static float half(const char *at) {
    uint16_t code;
    memcpy(&code, at, sizeof code);
    return qs_decode_value(qs_format_of("fp16"), code);
}

/* 32 codes of 4 bits with a step: the low halves of 16 bytes are the first 16. Q4_0: from -8; Q4_1: from a minimum behind it. */
static void nibbles(const char *codes, float step, float lowest, int offset, float *out) {
    for (int i = 0; i < 16; i++) {
        const int code = (unsigned char)codes[i];
        const float low = (float)((code & 15) - offset) * step, high = (float)((code >> 4) - offset) * step;
        out[i] = low + lowest;
        out[i + 16] = high + lowest;
    }
}

static void block_f32(const char *block, float *out) {
    memcpy(out, block, sizeof *out);
}

static void block_f16(const char *block, float *out) {
    *out = half(block);
}

static void block_bf16(const char *block, float *out) {
    uint16_t code;
    memcpy(&code, block, sizeof code);
    *out = qs_decode_value(qs_format_of("bf16"), code);
}

static void block_q4_0(const char *block, float *out) {
    nibbles(block + 2, half(block), 0, 8, out);
}

static void block_q4_1(const char *block, float *out) {
    nibbles(block + 4, half(block), half(block + 2), 0, out);
}

static void block_q8_0(const char *block, float *out) {
    const float step = half(block);
    for (int i = 0; i < 32; i++)
        out[i] = (float)(signed char)block[2 + i] * step;
}

static const struct block {
    uint32_t number;
    const char *name;
    int values, bytes;
    void (*widen)(const char *block, float *out);
} blocks[] = {{0, "F32", 1, 4, block_f32},     {1, "F16", 1, 2, block_f16},     {2, "Q4_0", 32, 18, block_q4_0},
              {3, "Q4_1", 32, 20, block_q4_1}, {8, "Q8_0", 32, 34, block_q8_0}, {30, "BF16", 1, 2, block_bf16}};

static const struct block *block_of(uint32_t number) {
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        if (blocks[i].number == number) return &blocks[i];
    return NULL;
}

/* ---- Reading ---------------------------------------------------------------------------------------------------------------------- */

/* A file in memory, and how far it has been read. */
typedef struct cursor {
    const char *path, *file;
    size_t bytes, at;
} cursor;

static qs_status bad(const cursor *from, const char *format, ...) QS_PRINTF(2, 3);
static qs_status bad(const cursor *from, const char *format, ...) {
    char text[320];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return qs_fail(QS_BAD_FILE, "%s: offset %zu: %s", from->path, from->at, text);
}

static qs_status skip(cursor *from, uint64_t bytes) {
    if (bytes > from->bytes - from->at) return bad(from, "the file ends here, where %" PRIu64 " bytes more were said to be", bytes);
    from->at += (size_t)bytes;
    return QS_OK;
}

static qs_status take(cursor *from, void *out, size_t bytes) {
    const size_t at = from->at;
    QS_TRY(skip(from, bytes));
    memcpy(out, from->file + at, bytes);
    return QS_OK;
}

/* A text, which has a length and no end, into text[size]; what does not fit is cut. */
static qs_status take_text(cursor *from, char *text, size_t size) {
    uint64_t length;
    QS_TRY(take(from, &length, sizeof length));
    const size_t at = from->at;
    QS_TRY(skip(from, length));
    snprintf(text, size, "%.*s", (int)(length < size ? length : size - 1), from->file + at);
    return QS_OK;
}

/* Types of metadata by number; texts and lists have bytes of their own. */
enum { TYPE_U32 = 4, TYPE_F32 = 6, TYPE_TEXT = 8, TYPE_LIST = 9, TYPES = 13 };
static const int type_bytes[TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

static qs_status value_skip(cursor *from, uint32_t type, bool in_list) {
    char text[1];
    if (type >= TYPES || (type == TYPE_LIST && in_list)) return bad(from, "metadata of type %" PRIu32 " cannot be read", type);
    if (type == TYPE_TEXT) return take_text(from, text, sizeof text);
    if (type != TYPE_LIST) return skip(from, (uint64_t)type_bytes[type]);
    uint32_t element;
    uint64_t count;
    QS_TRY(take(from, &element, sizeof element));
    QS_TRY(take(from, &count, sizeof count));
    if (element >= TYPES || element == TYPE_LIST) return bad(from, "a list of type %" PRIu32 " cannot be read", element);
    if (element != TYPE_TEXT && count > from->bytes) return skip(from, count);
    if (element != TYPE_TEXT) return skip(from, count * (uint64_t)type_bytes[element]);
    for (uint64_t i = 0; i < count; i++)
        QS_TRY(value_skip(from, element, true));
    return QS_OK;
}

/* What of the metadata the weights depend on, and what else names a model of llama; 0 or "": not said. */
typedef struct facts {
    char architecture[32], scaling[32]; /* of rotary positions */
    uint32_t heads, key_heads, alignment;
    uint32_t layers, hidden, inner, positions, rotated; /* channels of a head */
    float epsilon, base, scale;
} facts;

/* Where a number of the metadata goes; NULL: nowhere. */
static void *number_of(facts *about, const char *key, uint32_t *type) {
    const struct {
        const char *key;
        void *to;
        uint32_t type;
    } numbers[] = {{"general.alignment", &about->alignment, TYPE_U32},
                   {"llama.attention.head_count", &about->heads, TYPE_U32},
                   {"llama.attention.head_count_kv", &about->key_heads, TYPE_U32},
                   {"llama.block_count", &about->layers, TYPE_U32},
                   {"llama.embedding_length", &about->hidden, TYPE_U32},
                   {"llama.feed_forward_length", &about->inner, TYPE_U32},
                   {"llama.context_length", &about->positions, TYPE_U32},
                   {"llama.attention.layer_norm_rms_epsilon", &about->epsilon, TYPE_F32},
                   {"llama.rope.dimension_count", &about->rotated, TYPE_U32},
                   {"llama.rope.scale_linear", &about->scale, TYPE_F32},
                   {"llama.rope.freq_base", &about->base, TYPE_F32}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(key, numbers[i].key) == 0) {
            *type = numbers[i].type;
            return numbers[i].to;
        }
    return NULL;
}

/* The attention that they describe must be one that is built here: rotary positions turn all channels, and are not scaled. */
static qs_status attention_check(const cursor *from, const facts *about) {
    if (about->heads == 0 || about->heads % about->key_heads != 0)
        return bad(from, "%" PRIu32 " heads with %" PRIu32 " of keys are no attention", about->heads, about->key_heads);
    if (about->scaling[0] && strcmp(about->scaling, "none") != 0)
        return bad(from, "llama.rope.scaling.type \"%s\": only rotary positions without scaling are read", about->scaling);
    if (about->scale != 0 && about->scale != 1)
        return bad(from, "llama.rope.scale_linear %g: only rotary positions without scaling are read", (double)about->scale);
    if (about->rotated && about->hidden && (uint64_t)about->rotated * about->heads != about->hidden)
        return bad(from, "llama.rope.dimension_count %" PRIu32 " of %" PRIu32 " heads, hidden %" PRIu32 ": all channels must be rotated",
                   about->rotated, about->heads, about->hidden);
    return QS_OK;
}

static qs_status facts_read(cursor *from, uint64_t count, facts *out) {
    *out = (facts){.alignment = USUAL_ALIGNMENT};
    for (uint64_t i = 0; i < count; i++) {
        char key[64];
        uint32_t type, wanted = TYPE_U32;
        QS_TRY(take_text(from, key, sizeof key));
        QS_TRY(take(from, &type, sizeof type));
        void *number = number_of(out, key, &wanted);
        char *text = strcmp(key, "general.architecture") == 0      ? out->architecture
                     : strcmp(key, "llama.rope.scaling.type") == 0 ? out->scaling
                                                                   : NULL;
        if ((number && type != wanted) || (text && type != TYPE_TEXT))
            return bad(from, "%s of the type %" PRIu32 ", must be %s", key, type, text ? "a text" : "a number of 32 bits");
        if (number)
            QS_TRY(take(from, number, (size_t)type_bytes[type]));
        else if (text)
            QS_TRY(take_text(from, text, sizeof out->architecture));
        else
            QS_TRY(value_skip(from, type, false));
    }
    if (strcmp(out->architecture, "llama") != 0)
        return bad(from, "a model of the architecture \"%s\": only those of \"llama\" are read", out->architecture);
    if (out->key_heads == 0) out->key_heads = out->heads;
    QS_TRY(attention_check(from, out));
    if (out->alignment == 0 || out->alignment % 8 != 0)
        return bad(from, "general.alignment %" PRIu32 ", must be a multiple of 8", out->alignment);
    return QS_OK;
}

/* The name that Hugging Face's transformers give a tensor; one that is not known stays. */
static void name_of(const char *said, char *out, size_t size) {
    static const char *const names[][2] = {{"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};
    static const char *const parts[][2] = {
        {"attn_norm", "input_layernorm"}, {"attn_q", "self_attn.q_proj"},      {"attn_k", "self_attn.k_proj"},
        {"attn_v", "self_attn.v_proj"},   {"attn_output", "self_attn.o_proj"}, {"ffn_norm", "post_attention_layernorm"},
        {"ffn_gate", "mlp.gate_proj"},    {"ffn_up", "mlp.up_proj"},           {"ffn_down", "mlp.down_proj"}};
    char name[96];
    int layer, used = 0;
    snprintf(name, sizeof name, "%s", said);
    char *kind = strrchr(name, '.');
    snprintf(out, size, "%s", said);
    if (!kind) return;
    *kind++ = '\0';
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i][0]) == 0) snprintf(out, size, "%s.%s", names[i][1], kind);
    if (sscanf(name, "blk.%d.%n", &layer, &used) != 1 || used == 0) return;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcmp(name + used, parts[i][0]) == 0) snprintf(out, size, "model.layers.%d.%s.%s", layer, parts[i][1], kind);
}

/* A tensor as the file lists it. */
typedef struct entry {
    const struct block *block;
    uint64_t offset; /* behind the start of the data */
    int64_t heads;   /* that its rows are rotated in pairs of; 0: they are not */
} entry;

static qs_status entry_read(cursor *from, const facts *about, qs_named_tensor *named, entry *out) {
    char said[96];
    uint32_t axes, type;
    uint64_t extent[MOST_AXES];
    QS_TRY(take_text(from, said, sizeof said));
    QS_TRY(take(from, &axes, sizeof axes));
    if (axes < 1 || axes > MOST_AXES) return bad(from, "%s has %" PRIu32 " axes, must be 1 to %d", said, axes, MOST_AXES);
    QS_TRY(take(from, extent, axes * sizeof *extent));
    QS_TRY(take(from, &type, sizeof type));
    QS_TRY(take(from, &out->offset, sizeof out->offset));
    name_of(said, named->name, sizeof named->name);
    named->tensor = (qs_tensor){.shape = {.axes = (int)axes}, .format = qs_format_of("fp32")};
    for (uint32_t i = 0; i < axes; i++) /* the innermost comes first */
        named->tensor.shape.dim[axes - 1 - i] = extent[i] > INT64_MAX ? 0 : (int64_t)extent[i];
    if (qs_shape_check(&named->tensor.shape, said) != QS_OK) return qs_fail_within(QS_BAD_FILE, "%s: offset %zu", from->path, from->at);
    out->block = block_of(type);
    if (!out->block) return bad(from, "%s is of ggml's type %" PRIu32 ": read are F32, F16, BF16, Q4_0, Q4_1 and Q8_0", said, type);
    snprintf(named->dtype, sizeof named->dtype, "%s", out->block->name);
    if (extent[0] % (uint64_t)out->block->values != 0)
        return bad(from, "%s has rows of %" PRIu64 " values, %s has blocks of %d", said, extent[0], out->block->name, out->block->values);
    if (out->offset % about->alignment != 0)
        return bad(from, "the data of %s start at %" PRIu64 ", no multiple of %" PRIu32, said, out->offset, about->alignment);
    const bool queries = strstr(said, ".attn_q.weight") != NULL, keys = strstr(said, ".attn_k.weight") != NULL;
    out->heads = queries ? about->heads : keys ? about->key_heads : 0;
    if (out->heads > 0 && (axes != 2 || named->tensor.shape.dim[0] % (2 * out->heads) != 0))
        return bad(from, "the rows of %s are not those of %" PRId64 " heads", said, out->heads);
    return QS_OK;
}

/* All entries, and how many values they have together; their data lie within the file, which is behind the list then. */
static qs_status list_read(cursor *from, const facts *about, uint64_t count, qs_tensor_set *set, entry *list, int64_t *values) {
    *values = 0;
    for (uint64_t i = 0; i < count; i++) {
        qs_named_tensor *named = &set->tensors[set->count];
        QS_TRY(entry_read(from, about, named, &list[i]));
        if (qs_tensor_set_find(set, named->name)) return bad(from, "two tensors are %s", named->name);
        set->count++;
        *values += qs_shape_count(&named->tensor.shape);
    }
    QS_TRY(skip(from, (about->alignment - from->at % about->alignment) % about->alignment));
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t bytes = (uint64_t)(qs_shape_count(&set->tensors[i].tensor.shape) / list[i].block->values * list[i].block->bytes);
        const uint64_t rest = from->bytes - from->at;
        if (list[i].offset > rest || bytes > rest - list[i].offset)
            return bad(from, "the data of %s end behind the file", set->tensors[i].name);
    }
    return QS_OK;
}

static qs_status tensors_widen(const cursor *from, const entry *list, qs_tensor_set *set) {
    float *to = (float *)(void *)set->memory;
    for (size_t i = 0; i < set->count; i++) {
        qs_tensor *tensor = &set->tensors[i].tensor;
        const int64_t count = qs_shape_count(&tensor->shape);
        const char *block = from->file + from->at + list[i].offset;
        tensor->data = to;
        for (int64_t at = 0; at < count; at += list[i].block->values, block += list[i].block->bytes)
            list[i].block->widen(block, to + at);
        if (list[i].heads > 0) QS_TRY(qs__rotary_halves(to, list[i].heads, tensor->shape.dim[0], tensor->shape.dim[1]));
        to += count;
    }
    return QS_OK;
}

/* The name of the model that the metadata describe, where they say all of it and it fits; the table of tokens says how many there are. */
static void model_name(const facts *about, qs_tensor_set *set) {
    const qs_tensor *table = qs_tensor_set_find(set, "model.embed_tokens.weight");
    if (!table || about->layers == 0 || about->hidden == 0 || about->inner == 0 || about->positions == 0) return;
    const int length = snprintf(set->model, sizeof set->model,
                                "llama:layers=%" PRIu32 ",hidden=%" PRIu32 ",heads=%" PRIu32 ",kv=%" PRIu32 ",inner=%" PRIu32
                                ",vocab=%" PRId64 ",positions=%" PRIu32 ",tied=%d,epsilon=%g,base=%.9g",
                                about->layers, about->hidden, about->heads, about->key_heads, about->inner, table->shape.dim[0],
                                about->positions, !qs_tensor_set_find(set, "lm_head.weight"),
                                about->epsilon > 0 ? (double)about->epsilon : 1e-5, about->base > 0 ? (double)about->base : 10000.0);
    if (length >= (int)sizeof set->model) set->model[0] = '\0';
}

bool qs__gguf_is(const char *file, size_t bytes) {
    return bytes >= 4 && memcmp(file, "GGUF", 4) == 0;
}

qs_status qs__gguf_read(const char *path, const char *file, size_t bytes, qs_tensor_set *out) {
    struct {
        char magic[4];
        uint32_t version;
        uint64_t tensors, metadata;
    } head;
    cursor from = {.path = path, .file = file, .bytes = bytes};
    qs_tensor_set set = {.hash = qs_hash(file, bytes, 0)};
    entry *list = NULL;
    facts about;
    int64_t values;
    qs_status status;
    QS_TRY(take(&from, &head, sizeof head));
    if (head.version != 2 && head.version != 3) return bad(&from, "version %" PRIu32 " of GGUF: 2 and 3 are read", head.version);
    if (head.tensors > MOST_TENSORS) return bad(&from, "%" PRIu64 " tensors, at most %d", head.tensors, MOST_TENSORS);
    QS_GOTO(facts_read(&from, head.metadata, &about));
    QS_GOTO(qs_allocate((size_t)head.tensors, sizeof *set.tensors, &set.tensors));
    QS_GOTO(qs_allocate((size_t)head.tensors, sizeof *list, &list));
    QS_GOTO(list_read(&from, &about, head.tensors, &set, list, &values));
    QS_GOTO(qs_allocate((size_t)values, sizeof(float), &set.memory));
    QS_GOTO(tensors_widen(&from, list, &set));
    model_name(&about, &set);
    *out = set;
    set = (qs_tensor_set){0};
done:
    free(list);
    free(set.tensors);
    free(set.memory);
    return status;
}
