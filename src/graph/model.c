// SPDX-License-Identifier: Apache-2.0
/* The list of built-in models (models.def): look-up, options behind the colon, canonical names, building. */
#include "graph_internal.h"
#include "layers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What samples a model takes. */
typedef enum kind { CONVOLUTIONAL, IMAGES, TOKENS } kind;

typedef struct model {
    const char *name;
    void (*build)(qs__builder *builder);
    kind kind;
    int depth;
    const char *norm;          /* of norms.def, where nothing is said */
    qs_model_input standard;   /* of models of images */
    qs__transformer_size size; /* of transformers */
} model;

static const model models[] = {
#define QS_MODEL(name, family, depth, channels, size, classes) \
    {#name, qs__build_##family, CONVOLUTIONAL, depth, "l2bn", {channels, size, size, classes}, {0}},
#define QS_TRANSFORMER(name, family, takes, norm, ...) {#name, qs__build_##family, takes, 0, norm, {3, 32, 32, 10}, {__VA_ARGS__}},
#define QS_SIZE(model, name, layers, hidden, heads, inner)
#include "models.def"
#undef QS_MODEL
#undef QS_TRANSFORMER
#undef QS_SIZE
};
enum { MODELS = sizeof models / sizeof models[0] };

/* "bert:mini" */
static const struct size {
    const char *model, *name;
    int layers, hidden, heads, inner;
} sizes[] = {
#define QS_MODEL(name, family, depth, channels, size, classes)
#define QS_TRANSFORMER(name, family, takes, norm, ...)
#define QS_SIZE(model, name, layers, hidden, heads, inner) {#model, #name, layers, hidden, heads, inner},
#include "models.def"
#undef QS_MODEL
#undef QS_TRANSFORMER
#undef QS_SIZE
};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

/* Channels grow to 16 × 4096 at most, the parameters of one layer to 2^32. */
static const double widest = 16;

const char *qs_model_name_at(size_t index) {
    return index < MODELS ? models[index].name : NULL;
}

static bool is_word(const char *word, const char *text, size_t length) {
    return strlen(word) == length && strncmp(word, text, length) == 0;
}

static qs_status look_up(const char *name, const model **out) {
    size_t length = strcspn(name, ":");
    for (size_t i = 0; i < MODELS; i++) {
        if (is_word(models[i].name, name, length)) {
            *out = &models[i];
            return QS_OK;
        }
    }
    return qs_fail(QS_USAGE, "no model \"%.*s\": there are %s", (int)length, name, qs_names_join(MODELS, qs_model_name_at));
}

/* ---- Options ------------------------------------------------------------------------------------------------------------- */

/* A normalisation that models can be built with. */
typedef struct norm {
    const char *name, *op;
} norm;

static const norm norms[] = {
#define QS_NORM(name, op) {name, op},
#include "norms.def"
#undef QS_NORM
};
enum { NORMS = sizeof norms / sizeof norms[0] };

typedef struct options {
    double width;
    const norm *norm;
    const struct size *sized; /* NULL: the model's standard size */
    qs__transformer_size size;
} options;

/* The numbers of a transformer's size that options set. */
static const struct number {
    const char *name;
    size_t field;
    double least, most;
    bool whole;
} numbers[] = {
#define WHOLE(name, field, least, most) \
    { name, offsetof(qs__transformer_size, field), least, most, true }
    WHOLE("layers", layers, 1, 1024),
    WHOLE("hidden", hidden, 1, 65536),
    WHOLE("heads", heads, 1, 1024),
    WHOLE("kv", key_heads, 0, 1024),
    WHOLE("inner", inner, 1, 262144),
    WHOLE("vocab", vocabulary, 2, 16777216),
    WHOLE("positions", positions, 1, 1048576),
    WHOLE("length", length, 1, 1048576),
    WHOLE("choices", choices, 0, 64),
    WHOLE("patch", patch, 0, 1024),
    WHOLE("tied", tied, 0, 1),
#undef WHOLE
    {"dropout", offsetof(qs__transformer_size, dropout), 0, 0.99, false},
    {"epsilon", offsetof(qs__transformer_size, epsilon), 1e-20, 1, false},
    {"base", offsetof(qs__transformer_size, rotary_base), 1, 1e12, false},
};
enum { NUMBERS = sizeof numbers / sizeof numbers[0] };

static double number_get(const qs__transformer_size *size, const struct number *one) {
    const char *at = (const char *)size + one->field;
    return one->whole ? *(const int *)(const void *)at : *(const double *)(const void *)at;
}

const char *qs_norm_name_at(size_t index) {
    return index < NORMS ? norms[index].name : NULL;
}

/* The value used is the one that its printed form reads back as, so equal names mean equal models. */
static bool parse_number(const char *text, size_t length, double *out) {
    char copy[32], *end = copy;
    if (length == 0 || length >= sizeof copy) return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    double value = strtod(copy, &end);
    if (*end != '\0' || !isfinite(value)) return false;
    snprintf(copy, sizeof copy, "%.15g", value);
    *out = strtod(copy, NULL);
    return true;
}

static qs_status parse_width(const char *text, size_t length, double *out) {
    double value;
    if (!parse_number(text, length, &value) || !(value > 0 && value <= widest))
        return qs_fail(QS_USAGE, "width \"%.*s\": it must be a number above 0 and at most %g", (int)length, text, widest);
    *out = value;
    return QS_OK;
}

static qs_status parse_norm(const char *text, size_t length, const norm **out) {
    for (size_t i = 0; i < NORMS; i++) {
        if (is_word(norms[i].name, text, length)) {
            *out = &norms[i];
            return QS_OK;
        }
    }
    return qs_fail(QS_USAGE, "no normalisation \"%.*s\": there are %s", (int)length, text, qs_names_join(NORMS, qs_norm_name_at));
}

/* "layers=4", or the name of a size */
static qs_status parse_size(const model *chosen, const char *text, size_t length, options *out) {
    const size_t name = (size_t)(strcspn(text, "=") < length ? strcspn(text, "=") : length);
    for (size_t i = 0; name == length && i < SIZES; i++) {
        const struct size *one = &sizes[i];
        if (strcmp(one->model, chosen->name) != 0 || !is_word(one->name, text, length)) continue;
        out->sized = one;
        out->size.layers = one->layers, out->size.hidden = one->hidden, out->size.heads = one->heads, out->size.inner = one->inner;
        out->size.key_heads = 0;
        return QS_OK;
    }
    for (size_t i = 0; i < NUMBERS; i++) {
        const struct number *one = &numbers[i];
        double value;
        if (name == length || !is_word(one->name, text, name)) continue;
        if (!parse_number(text + name + 1, length - name - 1, &value) || !(value >= one->least && value <= one->most) ||
            (one->whole && value != floor(value)))
            return qs_fail(QS_USAGE, "%.*s: must be a %snumber from %.15g to %.15g", (int)length, text, one->whole ? "whole " : "",
                           one->least, one->most);
        if (one->whole)
            *(int *)(void *)((char *)&out->size + one->field) = (int)value;
        else
            *(double *)(void *)((char *)&out->size + one->field) = value;
        return QS_OK;
    }
    char there[256] = "";
    for (size_t i = 0, used = 0; i < SIZES; i++)
        if (strcmp(sizes[i].model, chosen->name) == 0)
            used += (size_t)snprintf(there + used, sizeof there - used, "%s%s", used ? ", " : "", sizes[i].name);
    return qs_fail(QS_USAGE,
                   "unknown option \"%.*s\"; there are layers, hidden, heads, kv, inner, vocab, positions, length, choices, patch, tied, "
                   "dropout, epsilon and base, each =NUMBER, norm=NAME%s%s",
                   (int)length, text, *there ? ", and the sizes " : "", there);
}

/* "width=0.5" */
static qs_status parse_option(const model *chosen, const char *text, size_t length, options *out) {
    if (length >= 5 && strncmp(text, "norm=", 5) == 0) return parse_norm(text + 5, length - 5, &out->norm);
    if (chosen->kind != CONVOLUTIONAL) return parse_size(chosen, text, length, out);
    if (length >= 6 && strncmp(text, "width=", 6) == 0) return parse_width(text + 6, length - 6, &out->width);
    return qs_fail(QS_USAGE, "unknown option \"%.*s\"; there are width=FACTOR and norm=NAME", (int)length, text);
}

static qs_status size_check(const qs__transformer_size *size) {
    if (size->hidden % size->heads) return qs_fail(QS_USAGE, "hidden %d does not divide among %d heads", size->hidden, size->heads);
    if (size->key_heads && size->heads % size->key_heads)
        return qs_fail(QS_USAGE, "%d heads do not divide among kv=%d heads of keys and values", size->heads, size->key_heads);
    if (size->rotary_base > 0 && size->hidden / size->heads % 2)
        return qs_fail(QS_USAGE, "heads of %d channels: rotary positions turn pairs, so that they must be even",
                       size->hidden / size->heads);
    return QS_OK;
}

static qs_status parse_options(const model *chosen, const char *name, options *out) {
    const char *text = strchr(name, ':');
    *out = (options){.width = 1, .size = chosen->size};
    QS_TRY(parse_norm(chosen->norm, strlen(chosen->norm), &out->norm));
    while (text) {
        const char *option = text + 1;
        size_t length = strcspn(option, ",");
        QS_TRY(qs_fail_within(parse_option(chosen, option, length, out), "model \"%s\"", name));
        text = option[length] ? option + length : NULL;
    }
    if (chosen->kind != CONVOLUTIONAL) QS_TRY(qs_fail_within(size_check(&out->size), "model \"%s\"", name));
    return QS_OK;
}

/* Options in a fixed order, those that change nothing left out. */
static qs_status canonical_name(const model *chosen, const options *with, char *text, size_t bytes) {
    qs__transformer_size standard = chosen->size;
    size_t used = (size_t)snprintf(text, bytes, "%s", chosen->name);
    char separator = ':';
#define PUT(...)                                                                                                                    \
    do {                                                                                                                            \
        used += (size_t)snprintf(text + used, bytes - used, "%c", separator);                                                       \
        if (used < bytes) used += (size_t)snprintf(text + used, bytes - used, __VA_ARGS__);                                         \
        if (used >= bytes)                                                                                                          \
            return qs_fail(QS_USAGE, "model %s: its name with all options is longer than %zu characters", chosen->name, bytes - 1); \
        separator = ',';                                                                                                            \
    } while (0)
    if (with->sized) {
        PUT("%s", with->sized->name);
        standard.layers = with->sized->layers, standard.hidden = with->sized->hidden, standard.heads = with->sized->heads;
        standard.inner = with->sized->inner, standard.key_heads = 0;
    }
    if (with->width != 1) PUT("width=%.15g", with->width);
    for (size_t i = 0; chosen->kind != CONVOLUTIONAL && i < NUMBERS; i++) {
        const double value = number_get(&with->size, &numbers[i]);
        if (value != number_get(&standard, &numbers[i])) PUT("%s=%.15g", numbers[i].name, value);
    }
    if (strcmp(with->norm->name, chosen->norm) != 0) PUT("norm=%s", with->norm->name);
#undef PUT
    return QS_OK;
}

/* A model without normalisations takes no other kind of them. */
static qs_status norm_check(const qs_graph *graph, const model *chosen, const options *with) {
    for (int i = 0; i < graph->nodes; i++) {
        if (graph->node[i].op && graph->node[i].op == qs_op_of(with->norm->op)) return QS_OK;
    }
    if (strcmp(with->norm->name, chosen->norm) == 0) return QS_OK;
    return qs_fail(QS_USAGE, "norm=%s: the model has no batch norms", with->norm->name);
}

/* ---- Building ------------------------------------------------------------------------------------------------------------- */

qs_status qs_model_input_of(const char *name, qs_model_input *out) {
    const model *chosen = NULL;
    options with;
    QS_TRY(look_up(name, &chosen));
    QS_TRY(parse_options(chosen, name, &with));
    if (chosen->kind == TOKENS) return qs_fail(QS_USAGE, "model %s takes tokens, not images", chosen->name);
    *out = chosen->standard;
    return QS_OK;
}

qs_status qs_model_positions(const char *name, int64_t *out) {
    const model *chosen = NULL;
    options with;
    QS_TRY(look_up(name, &chosen));
    QS_TRY(parse_options(chosen, name, &with));
    if (chosen->kind != TOKENS) return qs_fail(QS_USAGE, "model %s takes images, not tokens", chosen->name);
    *out = with.size.positions > 0 ? with.size.positions : with.size.length;
    return QS_OK;
}

/* What a model of tokens takes by itself: one class of two, or of language models the next token at each position. */
static qs_samples samples_standard(const model *chosen, const qs__transformer_size *size) {
    static const char *const names[] = {"ids", "types", "keep"};
    const bool language = chosen->size.tied;
    const int length = size->positions > 0 && size->positions < size->length ? size->positions : size->length;
    qs_samples out = {.unit = "sequences", .inputs = language ? 1 : 3};
    for (int i = 0; i < out.inputs; i++) {
        out.input[i] = (qs_input){.type = QS_INPUT_I32, .rank = 1, .extent = {length}, .bound = i ? 2 : size->vocabulary};
        if (size->choices > 0) out.input[i].rank = 2, out.input[i].extent[0] = size->choices, out.input[i].extent[1] = length;
        snprintf(out.input[i].name, sizeof out.input[i].name, "%s", names[i]);
    }
    out.target = (qs_target){.kind = QS_TARGET_CLASS, .classes = size->choices > 0 ? size->choices : 2, .extent = 1};
    if (language)
        out.target = (qs_target){.kind = QS_TARGET_CLASS_PER_POSITION, .classes = size->vocabulary, .extent = length, .ignored = -1};
    return out;
}

/* Of samples that are several sequences the model scores each, and the target is which one it is. */
static qs_status sequences_find(const model *chosen, const qs_samples *is, const qs_input *ids, qs__builder *builder) {
    if (ids->rank == 1) return QS_OK;
    if (ids->rank != 2 || is->target.kind != QS_TARGET_CLASS || is->target.classes != ids->extent[0] || ids->extent[0] > 65536)
        return qs_fail(QS_MISMATCH, "the ids of a sample are one sequence, or as many as there are classes, of which one is chosen");
    if (chosen->size.tied)
        return qs_fail(QS_MISMATCH, "it reads one sequence a sample, the samples are %lld; encoders (bert) choose among several",
                       (long long)ids->extent[0]);
    builder->sequences = (int)ids->extent[0];
    return QS_OK;
}

/* What the graph takes: the samples, with the bound of the model's own table; language models tell all of its tokens apart. */
static qs_status tokens_start(const model *chosen, const qs_samples *samples, qs__builder *builder) {
    const qs__transformer_size *size = &builder->size;
    const qs_samples standard = samples_standard(chosen, size);
    qs_samples is = samples ? *samples : standard;
    for (int i = 0; i < is.inputs; i++) {
        if (is.input[i].type != QS_INPUT_I32)
            return qs_fail(QS_MISMATCH, "it takes tokens, the input \"%s\" of the samples holds something else", is.input[i].name);
        if (strcmp(is.input[i].name, "ids") != 0) continue;
        if (is.input[i].bound > size->vocabulary)
            return qs_fail(QS_MISMATCH, "it has a vocabulary of %d, ids of the samples go up to %lld: vocab=%lld makes it larger",
                           size->vocabulary, (long long)is.input[i].bound - 1, (long long)is.input[i].bound);
        const int64_t length = is.input[i].extent[is.input[i].rank - 1];
        if (size->positions && length > size->positions)
            return qs_fail(QS_MISMATCH, "it has %d positions, the samples %lld: shorter samples, or positions=%lld", size->positions,
                           (long long)length, (long long)length);
        QS_TRY(sequences_find(chosen, &is, &is.input[i], builder));
        is.input[i].bound = size->vocabulary;
    }
    if (is.target.kind == QS_TARGET_CLASS_PER_POSITION) {
        is.target.ignored = -1;
        if (chosen->size.tied) is.target.classes = size->vocabulary;
    }
    builder->target = is.target;
    return qs_graph_create(builder->model, is.unit, is.inputs, is.input, &builder->graph);
}

static qs_status images_start(const qs_model_input *input, qs__builder *builder) {
    builder->input = *input;
    if (input->classes < 2) return qs_fail(QS_USAGE, "%d classes: there must be at least 2", input->classes);
    builder->target = (qs_target){.kind = QS_TARGET_CLASS, .classes = input->classes, .extent = 1};
    return qs_graph_of_images(builder->model, input->channels, input->height, input->width, &builder->graph);
}

/* Parameters of transformers that are drawn: normal with a deviation of 0.02 (Radford et al. 2019, Devlin et al. 2019). */
static void starts_set(qs_graph *graph) {
    for (int i = 0; i < graph->parameters; i++)
        graph->parameter[i].gain = (float)(0.02 * 0.02 * (double)graph->parameter[i].fan_in);
}

/* Of images where `input` says so, or of samples of tokens; both NULL: the standard ones. */
static qs_status build(const char *name, const qs_model_input *input, const qs_samples *samples, qs_graph **out) {
    const model *chosen = NULL;
    options with;
    char canonical[sizeof(*out)->name];
    QS_TRY(look_up(name, &chosen));
    QS_TRY(parse_options(chosen, name, &with));
    QS_TRY(canonical_name(chosen, &with, canonical, sizeof canonical));
    if (chosen->kind == TOKENS && input) return qs_fail(QS_USAGE, "model %s takes tokens, not images", canonical);
    qs__builder builder = {.model = canonical, .depth = chosen->depth, .width = with.width, .norm = with.norm->op, .size = with.size};
    if (builder.size.key_heads == 0) builder.size.key_heads = builder.size.heads;
    qs_status status =
        chosen->kind == TOKENS ? tokens_start(chosen, samples, &builder) : images_start(input ? input : &chosen->standard, &builder);
    if (status == QS_OK) chosen->build(&builder);
    if (status == QS_OK) status = builder.status;
    if (status == QS_OK) status = qs_graph_finish(builder.graph, builder.at, &builder.target);
    if (status == QS_OK) status = norm_check(builder.graph, chosen, &with);
    if (status != QS_OK) {
        qs_graph_release(builder.graph);
        return qs_fail_within(status, "model %s", canonical);
    }
    if (chosen->kind != CONVOLUTIONAL) starts_set(builder.graph);
    *out = builder.graph;
    return QS_OK;
}

qs_status qs_model_build(const char *name, const qs_model_input *input, qs_graph **out) {
    return build(name, input, NULL, out);
}

/* ---- Sources --------------------------------------------------------------------------------------------------------------- */

/* At the samples' own image size; where that is too small for the model, at the model's standard size (images are then centred in padding).
 * The first refusal is the one worth reading. */
static qs_status builtin_open(const char *text, const qs_samples *samples, qs_graph **out) {
    qs_model_input standard;
    const model *chosen = NULL;
    if (!samples) return qs_model_build(text, NULL, out);
    QS_TRY(look_up(text, &chosen));
    if (chosen->kind == TOKENS) return build(text, NULL, samples, out);
    QS_TRY(qs_model_input_of(text, &standard));
    const int64_t *extent = samples->input[0].extent;
    const bool images = samples->inputs == 1 && samples->input[0].rank == 3 && samples->input[0].type != QS_INPUT_I32;
    if (!images || samples->target.kind != QS_TARGET_CLASS || extent[0] > INT32_MAX || extent[1] > INT32_MAX || extent[2] > INT32_MAX ||
        samples->target.classes > INT32_MAX)
        return qs_fail(QS_MISMATCH,
                       "model %s takes one image and learns one class, the data are of another kind; a graph.json can say more", text);
    const qs_model_input input = {(int)extent[2], (int)extent[0], (int)extent[1], (int)samples->target.classes};
    const qs_status status = qs_model_build(text, &input, out);
    if (status != QS_USAGE || standard.height <= input.height || standard.width <= input.width) return status;
    const qs_model_input padded = {input.channels, standard.height, standard.width, input.classes};
    if (qs_model_build(text, &padded, out) == QS_OK) return QS_OK;
    return qs_model_build(text, &input, out);
}

static qs_status file_open(const char *text, const qs_samples *samples, qs_graph **out) {
    (void)samples; /* it has the size that it has */
    return qs_graph_read(text, out);
}

static bool is_json(const char *text) {
    const size_t length = strlen(text);
    return length >= 5 && strcmp(text + length - 5, ".json") == 0;
}

static bool is_name(const char *text) {
    return text != NULL;
}

/* Where models come from: the first that a text is one of. */
typedef struct source {
    bool (*is)(const char *text);
    bool file, weights;
    qs_status (*open)(const char *text, const qs_samples *samples, qs_graph **out);
} source;
static const source sources[] = {
    {is_json, true, false, file_open}, {qs__is_onnx, true, true, qs__onnx_open}, {is_name, false, false, builtin_open}};

/* Of a text without changes. */
static const source *source_of(const char *text) {
    const source *one = sources;
    while (!one->is(text))
        one++;
    return one;
}

/* The text without changes, cut to the room that there is for it. */
typedef struct plain {
    char text[1024];
} plain;

static plain plain_of(const char *text) {
    plain out;
    snprintf(out.text, sizeof out.text, "%.*s", (int)(qs_model_changes(text) - text), text);
    return out;
}

bool qs_model_is_file(const char *text) {
    return source_of(plain_of(text).text)->file;
}

/* What a built-in model of images is built for that gets another head or loss: as many classes as it likes. */
static qs_samples unlearned(const qs_samples *samples) {
    qs_samples is = *samples;
    if (is.input[0].type != QS_INPUT_I32) is.target = (qs_target){.kind = QS_TARGET_CLASS, .classes = 2, .extent = 1};
    return is;
}

bool qs_model_has_weights(const char *text) {
    return source_of(plain_of(text).text)->weights;
}

qs_status qs_model_open(const char *text, const qs_samples *samples, qs_graph **out) {
    const plain bare = plain_of(text);
    const source *from = source_of(bare.text);
    const char *changes = qs_model_changes(text);
    qs_graph *graph = NULL;
    qs_status status = QS_OK;
    if (!*changes && !from->file) return from->open(text, samples, out);
    if (!from->file && strlen(text) >= QS_MODEL_NAME)
        return qs_fail(QS_USAGE, "model %s: longer than %d characters, which names of built-in models are", text, QS_MODEL_NAME - 1);
    const qs_samples *shaping = samples;
    qs_samples any;
    if (samples && !from->file && qs_model_has_new_head(text)) {
        any = unlearned(shaping);
        shaping = &any;
    }
    QS_TRY(from->open(bare.text, shaping, &graph));
    if (*changes) {
        qs_graph *before = graph;
        status = qs_fail_within(qs__graph_change(before, changes, &graph), "model %s", bare.text);
        qs_graph_release(before);
        QS_TRY(status);
    }
    if (samples) status = qs_fail_within(qs_samples_fit("the data set", samples, &graph->samples), "model %s", text);
    if (status == QS_OK)
        *out = graph;
    else
        qs_graph_release(graph);
    return status;
}

qs_status qs_model_open_frozen(const char *text, const char *freeze, const qs_samples *samples, qs_graph **out) {
    qs_graph *graph = NULL;
    QS_TRY(qs_model_open(text, samples, &graph));
    const qs_status status = qs_graph_freeze(graph, freeze);
    if (status == QS_OK)
        *out = graph;
    else
        qs_graph_release(graph);
    return status;
}
