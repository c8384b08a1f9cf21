// SPDX-License-Identifier: Apache-2.0
/* The list of built-in models (models.def): look-up, options behind the colon, canonical names, building. */
#include "layers.h"

#include <stdlib.h>
#include <string.h>

typedef struct model {
    const char *name;
    void (*build)(qs__builder *builder);
    int depth;
    qs_model_input standard;
} model;

static const model models[] = {
#define QS_MODEL(name, family, depth, channels, size, classes) {#name, qs__build_##family, depth, {channels, size, size, classes}},
#include "models.def"
#undef QS_MODEL
};
enum { MODELS = sizeof models / sizeof models[0] };

/* Channels grow to 16 × 4096 at most, the parameters of one layer to 2^32. */
static const double widest = 16;

const char *qs_model_name_at(size_t index) {
    return index < MODELS ? models[index].name : NULL;
}

static qs_status look_up(const char *name, const model **out) {
    size_t length = strcspn(name, ":");
    for (size_t i = 0; i < MODELS; i++) {
        if (strlen(models[i].name) == length && strncmp(models[i].name, name, length) == 0) {
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
} options;

const char *qs_norm_name_at(size_t index) {
    return index < NORMS ? norms[index].name : NULL;
}

/* The value used is the one that its printed form reads back as, so equal names mean equal models. */
static qs_status parse_width(const char *text, size_t length, double *out) {
    char copy[32], *end = copy;
    if (length > 0 && length < sizeof copy) {
        memcpy(copy, text, length);
        copy[length] = '\0';
        double value = strtod(copy, &end);
        if (*end == '\0' && value > 0 && value <= widest) {
            snprintf(copy, sizeof copy, "%g", value);
            *out = strtod(copy, NULL);
            return QS_OK;
        }
    }
    return qs_fail(QS_USAGE, "width \"%.*s\": it must be a number above 0 and at most %g", (int)length, text, widest);
}

static qs_status parse_norm(const char *text, size_t length, const norm **out) {
    for (size_t i = 0; i < NORMS; i++) {
        if (strlen(norms[i].name) == length && strncmp(norms[i].name, text, length) == 0) {
            *out = &norms[i];
            return QS_OK;
        }
    }
    return qs_fail(QS_USAGE, "no normalisation \"%.*s\": there are %s", (int)length, text, qs_names_join(NORMS, qs_norm_name_at));
}

/* "width=0.5" */
static qs_status parse_option(const char *text, size_t length, options *out) {
    if (length >= 6 && strncmp(text, "width=", 6) == 0) return parse_width(text + 6, length - 6, &out->width);
    if (length >= 5 && strncmp(text, "norm=", 5) == 0) return parse_norm(text + 5, length - 5, &out->norm);
    return qs_fail(QS_USAGE, "unknown option \"%.*s\"; there are width=FACTOR and norm=NAME", (int)length, text);
}

static qs_status parse_options(const char *name, options *out) {
    const char *text = strchr(name, ':');
    *out = (options){.width = 1, .norm = norms};
    while (text) {
        const char *option = text + 1;
        size_t length = strcspn(option, ",");
        QS_TRY(qs_fail_within(parse_option(option, length, out), "model \"%s\"", name));
        text = option[length] ? option + length : NULL;
    }
    return QS_OK;
}

/* Options in a fixed order, those that change nothing left out. */
static void canonical_name(const model *chosen, const options *with, char *text, size_t bytes) {
    char width[32] = "", normal[32] = "";
    if (with->width != 1) snprintf(width, sizeof width, ":width=%g", with->width);
    if (with->norm != norms) snprintf(normal, sizeof normal, "%cnorm=%s", *width ? ',' : ':', with->norm->name);
    snprintf(text, bytes, "%s%s%s", chosen->name, width, normal);
}

/* A model without normalisations takes no other kind of them. */
static qs_status norm_check(const qs_graph *graph, const options *with) {
    for (int i = 0; i < graph->nodes; i++) {
        if (graph->node[i].op && graph->node[i].op->norm) return QS_OK;
    }
    if (with->norm == norms) return QS_OK;
    return qs_fail(QS_USAGE, "norm=%s: the model has no batch norms", with->norm->name);
}

/* ---- Building ------------------------------------------------------------------------------------------------------------- */

qs_status qs_model_input_of(const char *name, qs_model_input *out) {
    const model *chosen = NULL;
    options with;
    QS_TRY(look_up(name, &chosen));
    QS_TRY(parse_options(name, &with));
    *out = chosen->standard;
    return QS_OK;
}

static qs_status build(const model *chosen, qs__builder *builder) {
    const qs_model_input *input = &builder->input;
    if (input->classes < 2) return qs_fail(QS_USAGE, "%d classes: there must be at least 2", input->classes);
    QS_TRY(qs_graph_of_images(builder->model, input->channels, input->height, input->width, &builder->graph));
    chosen->build(builder);
    QS_TRY(builder->status);
    return qs_graph_finish(builder->graph, builder->at, NULL);
}

qs_status qs_model_build(const char *name, const qs_model_input *input, qs_graph **out) {
    const model *chosen = NULL;
    options with;
    QS_TRY(look_up(name, &chosen));
    QS_TRY(parse_options(name, &with));
    char canonical[sizeof(*out)->name];
    canonical_name(chosen, &with, canonical, sizeof canonical);
    qs__builder builder = {
        .input = input ? *input : chosen->standard, .model = canonical, .depth = chosen->depth, .width = with.width, .norm = with.norm->op};
    qs_status status = build(chosen, &builder);
    if (status == QS_OK) status = norm_check(builder.graph, &with);
    if (status != QS_OK) {
        qs_graph_release(builder.graph);
        return qs_fail_within(status, "model %s", canonical);
    }
    *out = builder.graph;
    return QS_OK;
}

/* ---- Sources --------------------------------------------------------------------------------------------------------------- */

/* At the samples' own image size; where that is too small for the model, at the model's standard size (images are then centred in padding).
 * The first refusal is the one worth reading. */
static qs_status builtin_open(const char *text, const qs_samples *samples, qs_graph **out) {
    qs_model_input standard;
    if (!samples) return qs_model_build(text, NULL, out);
    QS_TRY(qs_model_input_of(text, &standard));
    const int64_t *extent = samples->input[0].extent;
    const bool images = samples->inputs == 1 && qs_input_is_image(&samples->input[0]);
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

/* A file has the size that it has. */
static qs_status file_open(const char *text, const qs_samples *samples, qs_graph **out) {
    qs_graph *graph = NULL;
    QS_TRY(qs_graph_read(text, &graph));
    const qs_status status = samples ? qs_samples_fit("the data set", samples, &graph->samples) : QS_OK;
    if (status != QS_OK) {
        qs_graph_release(graph);
        return qs_fail_within(status, "model %s", text);
    }
    *out = graph;
    return QS_OK;
}

/* Where models come from: the first whose texts end so. */
typedef struct source {
    const char *ending;
    bool file;
    qs_status (*open)(const char *text, const qs_samples *samples, qs_graph **out);
} source;
static const source sources[] = {{".json", true, file_open}, {"", false, builtin_open}};

static const source *source_of(const char *text) {
    const source *one = sources;
    while (strlen(text) < strlen(one->ending) || strcmp(text + strlen(text) - strlen(one->ending), one->ending) != 0)
        one++;
    return one;
}

bool qs_model_is_file(const char *text) {
    return source_of(text)->file;
}

qs_status qs_model_open(const char *text, const qs_samples *samples, qs_graph **out) {
    return source_of(text)->open(text, samples, out);
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
