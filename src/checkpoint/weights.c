// SPDX-License-Identifier: Apache-2.0
/* Weights files: the flat buffers of a graph as named tensors, under PyTorch's names and in its order of values. Reading finds and compares
 * everything before it copies anything, so a refused file leaves the buffers as they were. */
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint_internal.h"
#include "qsync/onnx_import.h"

/* Bytes above which a file is none of weights. */
static const size_t largest_file = (size_t)1 << 36;

static bool is_trained(const qs_parameter *parameter) {
    return parameter->gradient != QS_ROLE_COUNT;
}

/* ---- Writing ---------------------------------------------------------------------------------------------------------------------- */

/* The tensor of that place, which is appended when its first part comes; *used counts the values of those there are. */
static qs_named_tensor *tensor_at(qs_tensor_set *set, const qs__place *place, const qs_parameter *parameter, float *values, int64_t *used) {
    for (size_t i = 0; i < set->count; i++)
        if (strcmp(set->tensors[i].name, place->name) == 0) return &set->tensors[i];
    qs_named_tensor *one = &set->tensors[set->count++];
    memcpy(one->name, place->name, sizeof one->name);
    one->tensor = (qs_tensor){qs__place_shape(place, parameter), qs_format_of("fp32"), values + *used};
    *used += qs_shape_count(&one->tensor.shape);
    return one;
}

qs_status qs_weights_tensors(const qs_graph *graph, const float *trained, const float *statistics, qs_tensor_set *out) {
    const qs__layout *layout = qs__layout_of_graph(graph);
    qs_tensor_set set = {0};
    float *values = NULL;
    int64_t needed = 0, used = 0;
    qs_status status;
    for (int i = 0; i < graph->parameters; i++) {
        const qs__place place = qs__place_of(layout, graph, &graph->parameter[i]);
        needed += qs_shape_count(&graph->parameter[i].shape) * (place.part == 0 ? place.parts : 0);
    }
    QS_GOTO(qs_allocate((size_t)graph->parameters, sizeof *set.tensors, &set.tensors));
    QS_GOTO(qs_allocate((size_t)needed, sizeof *values, &values));
    set.memory = (char *)values;
    memcpy(set.model, graph->name, sizeof set.model);
    qs_graph_signature(graph, set.graph);
    for (int i = 0; i < graph->parameters; i++) {
        const qs_parameter *parameter = &graph->parameter[i];
        const qs__place place = qs__place_of(layout, graph, parameter);
        const float *from = (is_trained(parameter) ? trained : statistics) + parameter->offset;
        QS_GOTO(qs__values_write(graph, parameter, &place, from, tensor_at(&set, &place, parameter, values, &used)->tensor.data));
    }
    *out = set;
done:
    if (status != QS_OK) {
        free(set.tensors);
        free(values);
    }
    return status;
}

qs_weights_place qs_weights_place_of(const qs_graph *graph, int parameter) {
    const qs_parameter *one = &graph->parameter[parameter];
    const qs__place place = qs__place_of(qs__layout_of_graph(graph), graph, one);
    qs_weights_place out = {
        .transposed = place.transposed, .part = place.part, .parts = place.parts, .image = qs__values_image(graph, one)};
    memcpy(out.name, place.name, sizeof out.name);
    return out;
}

qs_status qs_weights_write(const char *path, const qs_graph *graph, const float *trained, const float *statistics) {
    qs_tensor_set set;
    QS_TRY(qs_weights_tensors(graph, trained, statistics, &set));
    const qs_status status = qs_tensor_set_write(path, &set);
    qs_tensor_set_release(&set);
    return status;
}

/* ---- Patterns --------------------------------------------------------------------------------------------------------------------- */

/* The next of comma-separated patterns into pattern[96], from *rest on; false behind the last. */
static bool pattern_next(const char **rest, char *pattern) {
    if (!*rest || !**rest) return false;
    const size_t length = strcspn(*rest, ",");
    snprintf(pattern, 96, "%.*s", (int)length, *rest);
    *rest += length + ((*rest)[length] == ',');
    return true;
}

static bool fits(const char *patterns, const char *name) {
    char pattern[96];
    while (pattern_next(&patterns, pattern))
        if (fnmatch(pattern, name, 0) == 0) return true;
    return false;
}

/* ---- Which tensor is which parameter ------------------------------------------------------------------------------------------------ */

typedef struct matching {
    const qs_tensor_set *set;
    const qs_graph *graph;
    const qs_weights_choice *choice;
    const qs__layout *layout;
    char prefix[96]; /* that names of the file have and the model's lack, or the other way round */
    bool in_model;
    int *tensor; /* (parameters) in the set; -1: it starts fresh */
    bool *used;  /* (tensors of the set) */
} matching;

static int tensor_named(const qs_tensor_set *set, const char *name) {
    for (size_t i = 0; i < set->count; i++)
        if (strcmp(set->tensors[i].name, name) == 0) return (int)i;
    return -1;
}

/* As it is, else with the prefix put before it or taken away. */
static int tensor_find(const matching *match, const char *name) {
    char other[200];
    const size_t length = strlen(match->prefix);
    const int exact = tensor_named(match->set, name);
    if (exact >= 0 || length == 0) return exact;
    if (match->in_model) return strncmp(name, match->prefix, length) == 0 ? tensor_named(match->set, name + length) : -1;
    snprintf(other, sizeof other, "%s%s", match->prefix, name);
    return tensor_named(match->set, other);
}

/* Files of the first BERTs call scale and shift of a normalisation gamma and beta. */
static int tensor_of(const matching *match, const qs_parameter *parameter, const qs__place *place) {
    char old[96];
    const int found = tensor_find(match, place->name);
    if (found >= 0 || (parameter->role != QS_SCALE && parameter->role != QS_SHIFT)) return found;
    if (!strrchr(place->name, '.')) return found;
    const int node = (int)(strrchr(place->name, '.') - place->name);
    snprintf(old, sizeof old, "%.*s.%s", node < 80 ? node : 80, place->name, parameter->role == QS_SCALE ? "gamma" : "beta");
    return tensor_find(match, old);
}

static int found_with(matching *match, const char *prefix, size_t length, bool in_model) {
    int found = 0;
    snprintf(match->prefix, sizeof match->prefix, "%.*s", (int)length, prefix);
    match->in_model = in_model;
    for (int i = 0; i < match->graph->parameters; i++) {
        const qs__place place = qs__place_of(match->layout, match->graph, &match->graph->parameter[i]);
        found += tensor_find(match, place.name) >= 0;
    }
    return found;
}

/* Where `longer` is `shorter` behind a prefix that ends in a dot: its length; else 0. */
static size_t prefix_between(const char *longer, const char *shorter) {
    const size_t all = strlen(longer), end = strlen(shorter);
    return all > end && longer[all - end - 1] == '.' && strcmp(longer + all - end, shorter) == 0 ? all - end : 0;
}

/* The prefix, of those that lead from a name of one side to one of the other, by which most parameters are found; none where that is not
 * more than without. */
static void prefix_choose(matching *match) {
    enum { MOST_TRIED = 16 };
    char tried[MOST_TRIED][97], best[96] = "";
    bool best_in_model = false;
    int tries = 0, most = found_with(match, "", 0, false);
    for (int i = 0; i < match->graph->parameters && most < match->graph->parameters; i++) {
        const qs__place place = qs__place_of(match->layout, match->graph, &match->graph->parameter[i]);
        for (size_t t = 0; t < match->set->count && tries < MOST_TRIED; t++) {
            const char *name = match->set->tensors[t].name;
            const bool in_model = prefix_between(name, place.name) == 0;
            const char *longer = in_model ? place.name : name;
            const size_t length = prefix_between(longer, in_model ? name : place.name);
            bool known = length == 0;
            for (int k = 0; k < tries && !known; k++)
                known = tried[k][0] == "fm"[in_model] && strlen(tried[k] + 1) == length && strncmp(tried[k] + 1, longer, length) == 0;
            if (known) continue;
            snprintf(tried[tries++], sizeof *tried, "%c%.*s", "fm"[in_model], (int)length, longer);
            const int found = found_with(match, longer, length, in_model);
            if (found <= most) continue;
            most = found;
            best_in_model = in_model;
            memcpy(best, match->prefix, sizeof best);
        }
    }
    memcpy(match->prefix, best, sizeof best);
    match->in_model = best_in_model;
}

static qs_status parameter_match(matching *match, int index) {
    char expected[96], found[96];
    const qs_parameter *parameter = &match->graph->parameter[index];
    const qs__place place = qs__place_of(match->layout, match->graph, parameter);
    const qs_shape shape = qs__place_shape(&place, parameter);
    const int at = tensor_of(match, parameter, &place);
    if (at >= 0) match->used[at] = true;
    match->tensor[index] = -1;
    if (fits(match->choice->fresh, parameter->name) || fits(match->choice->fresh, place.name)) return QS_OK;
    if (at < 0) return qs_fail(QS_MISMATCH, "tensor %s is missing", place.name);
    const qs_named_tensor *one = &match->set->tensors[at];
    if (!qs_shape_equal(&one->tensor.shape, &shape))
        return qs_fail(QS_MISMATCH, "tensor %s has shape %s, the model's is %s", one->name, qs_shape_text(&one->tensor.shape, found),
                       qs_shape_text(&shape, expected));
    if (!one->tensor.format || one->tensor.format->kind != QS_KIND_FLOAT)
        return qs_fail(QS_MISMATCH, "tensor %s is %s: weights are read from F32, BF16 and F16", one->name, one->dtype);
    match->tensor[index] = at;
    return QS_OK;
}

/* Whether a tensor is a second copy of the table that an output layer reads as its weights; where it is one, it must be the same. */
static qs_status tied_match(matching *match) {
    const qs_graph *graph = match->graph;
    for (int n = 0; n < graph->nodes; n++) {
        char name[96];
        if (graph->node[n].table == 0) continue;
        snprintf(name, sizeof name, "%s.weight", graph->node[n].name);
        const int copy = tensor_find(match, name), table = match->tensor[graph->node[graph->node[n].table].first_parameter];
        if (copy < 0) continue;
        match->used[copy] = true;
        if (table < 0) continue;
        const qs_named_tensor *a = &match->set->tensors[copy], *b = &match->set->tensors[table];
        if (a->tensor.format != b->tensor.format || !qs_shape_equal(&a->tensor.shape, &b->tensor.shape) ||
            memcmp(a->tensor.data, b->tensor.data, qs_tensor_bytes(&a->tensor.shape, a->tensor.format)) != 0)
            return qs_fail(QS_MISMATCH, "tensor %s is not %s, which the model has in its place: they are tied", a->name, b->name);
    }
    return QS_OK;
}

/* What is left over must be said to be, or be nothing that is trained. */
static qs_status rest_match(const matching *match) {
    for (size_t i = 0; i < match->set->count; i++) {
        const char *name = match->set->tensors[i].name;
        if (match->used[i] || qs__is_computed(name) || fits(match->choice->unused, name)) continue;
        return qs_fail(QS_MISMATCH, "tensor %s is superfluous: the model has no such parameter", name);
    }
    return QS_OK;
}

/* A pattern that fits nothing is a slip of the pen. */
static qs_status patterns_match(const matching *match) {
    char pattern[96];
    for (const char *rest = match->choice->fresh; pattern_next(&rest, pattern);) {
        bool any = false;
        for (int i = 0; i < match->graph->parameters && !any; i++) {
            const qs__place place = qs__place_of(match->layout, match->graph, &match->graph->parameter[i]);
            any = fnmatch(pattern, match->graph->parameter[i].name, 0) == 0 || fnmatch(pattern, place.name, 0) == 0;
        }
        if (!any) return qs_fail(QS_USAGE, "\"%s\" fits no parameter of the model that could start anew", pattern);
    }
    for (const char *rest = match->choice->unused; pattern_next(&rest, pattern);) {
        bool any = false;
        for (size_t i = 0; i < match->set->count && !any; i++)
            any = fnmatch(pattern, match->set->tensors[i].name, 0) == 0;
        if (!any) return qs_fail(QS_USAGE, "\"%s\" fits no tensor of the file that could be left unused", pattern);
    }
    return QS_OK;
}

/* Files of ours say of which model they are; where a choice was made, names alone decide. */
static qs_status model_match(const matching *match) {
    char signature[32];
    const qs_tensor_set *set = match->set;
    const bool same_graph = strcmp(set->graph, qs_graph_signature(match->graph, signature)) == 0; /* whatever it is called */
    if (same_graph || set->graph[0] == '\0' || match->choice->fresh || match->choice->unused) return QS_OK;
    if (strcmp(set->model, match->graph->name) == 0) return QS_OK;
    return qs_fail(QS_MISMATCH, "these are weights of model \"%s\", not of \"%s\" (signatures %s and %s)", set->model, match->graph->name,
                   set->graph[0] ? set->graph : "not said", signature);
}

static qs_status match_all(matching *match) {
    QS_TRY(model_match(match));
    QS_TRY(patterns_match(match));
    prefix_choose(match);
    for (int i = 0; i < match->graph->parameters; i++)
        QS_TRY(parameter_match(match, i));
    QS_TRY(tied_match(match));
    return rest_match(match);
}

/* ---- Files of any kind ------------------------------------------------------------------------------------------------------------ */

/* The tensors of an ONNX file, copied out of it. */
static qs_status onnx_read(const char *path, int64_t length, qs_tensor_set *out) {
    qs_onnx_imported imported;
    qs_tensor_set set = {0};
    size_t bytes = 0;
    qs_status status;
    QS_GOTO(qs_onnx_import(path, length, true, &imported));
    const qs_tensor_set *from = &imported.weights;
    for (size_t i = 0; i < from->count; i++)
        bytes += (qs_tensor_bytes(&from->tensors[i].tensor.shape, from->tensors[i].tensor.format) + 63) / 64 * 64;
    QS_GOTO(qs_allocate(bytes, 1, &set.memory));
    QS_GOTO(qs_allocate(from->count, sizeof *set.tensors, &set.tensors));
    char *at = set.memory;
    for (; set.count < from->count; set.count++) {
        qs_named_tensor *one = &set.tensors[set.count];
        *one = from->tensors[set.count];
        const size_t size = qs_tensor_bytes(&one->tensor.shape, one->tensor.format);
        snprintf(one->dtype, sizeof one->dtype, "%.15s", one->tensor.format->name);
        memcpy(at, one->tensor.data, size);
        one->tensor.data = at;
        at += (size + 63) / 64 * 64;
    }
    set.hash = qs_hash(set.memory, bytes, 0);
    *out = set;
    set = (qs_tensor_set){0};
done:
    qs_tensor_set_release(&set);
    qs_onnx_imported_release(&imported);
    return status;
}

qs_status qs_weights_open(const char *path, int64_t length, qs_tensor_set *out) {
    char head[64] = "", *file = NULL;
    size_t bytes;
    if (qs_onnx_is_path(path, &bytes)) return onnx_read(path, length, out);
    FILE *stream = fopen(path, "rb");
    if (!stream) return qs_fail(QS_BAD_FILE, "%s: %s", path, strerror(errno));
    const size_t first = fread(head, 1, sizeof head, stream);
    const long all = fseek(stream, 0, SEEK_END) == 0 ? ftell(stream) : 0;
    fclose(stream);
    const bool gguf = qs__gguf_is(head, first);
    if (!gguf && !qs__llama2c_is(head, first, (size_t)all)) return qs_tensor_set_read(path, out);
    QS_TRY(qs_file_read(path, largest_file, &file, &bytes));
    const qs_status status = gguf ? qs__gguf_read(path, file, bytes, out) : qs__llama2c_read(path, file, bytes, out);
    if (gguf || status != QS_OK) free(file);
    return status;
}

/* ---- Reading ---------------------------------------------------------------------------------------------------------------------- */

qs_status qs_weights_start(const char *path, const qs_graph *graph, const qs_weights_choice *choice, float *trained, float *statistics,
                           uint64_t *hash) {
    static const qs_weights_choice none;
    qs_tensor_set set = {0};
    char signature[32];
    qs_status status;
    QS_TRY(qs_weights_open(path, qs_samples_length(&graph->samples), &set));
    matching match = {.set = &set, .graph = graph, .choice = choice ? choice : &none, .layout = qs__layout_of_file(&set, graph)};
    QS_GOTO(qs_allocate((size_t)graph->parameters, sizeof *match.tensor, &match.tensor));
    QS_GOTO(qs_allocate(set.count, sizeof *match.used, &match.used));
    QS_GOTO(qs_fail_within(match_all(&match), "%s", path));
    if (!choice && set.graph[0] && strcmp(set.graph, qs_graph_signature(graph, signature)) != 0)
        qs_log(QS_LOG_WARNING, "%s: weights of graph %s go into %s of the same name and parameters", path, set.graph, signature);
    for (int i = 0; i < graph->parameters; i++) {
        const qs_parameter *parameter = &graph->parameter[i];
        const qs__place place = qs__place_of(match.layout, graph, parameter);
        if (match.tensor[i] < 0) continue;
        QS_GOTO(qs__values_read(graph, parameter, &place, &set.tensors[match.tensor[i]].tensor,
                                (is_trained(parameter) ? trained : statistics) + parameter->offset));
    }
    if (hash) *hash = set.hash;
done:
    free(match.tensor);
    free(match.used);
    qs_tensor_set_release(&set);
    return status;
}

qs_status qs_weights_read(const char *path, const qs_graph *graph, float *trained, float *statistics) {
    return qs_weights_start(path, graph, NULL, trained, statistics, NULL);
}

qs_status qs_weights_model(const char *path, char *name) {
    qs_tensor_set set = {0};
    QS_TRY(qs_weights_open(path, 0, &set));
    const qs_status status =
        set.model[0] ? QS_OK : qs_fail(QS_MISMATCH, "%s does not say of which model it is: another program wrote it", path);
    if (status == QS_OK) memcpy(name, set.model, sizeof set.model);
    qs_tensor_set_release(&set);
    return status;
}
