// SPDX-License-Identifier: Apache-2.0
/* States of runs: flat buffers as a named tensor set, with one more tensor, "progress", whose fp32 slots carry whole numbers of 64 bits.
 * Reading compares everything before it copies anything. */
#include "qsync/checkpoint.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char progress_name[] = "progress";

typedef struct words {
    uint64_t graph; /* signature */
    qs_progress progress;
} words;
enum { SLOTS = sizeof(words) / sizeof(float) };

/* What is frozen lies elsewhere: states of other parts are states of other graphs. */
static uint64_t graph_word(const qs_graph *graph) {
    char text[32];
    uint64_t word = 0;
    sscanf(qs_graph_signature(graph, text), "xxh64:%" SCNx64, &word);
    for (int i = 0; i < graph->parameters; i++)
        if (graph->parameter[i].frozen) word = qs_hash(&i, sizeof i, word);
    return word;
}

static void tensor_fill(const char *name, int64_t elements, void *data, qs_named_tensor *out) {
    snprintf(out->name, sizeof out->name, "%s", name);
    out->tensor = (qs_tensor){qs_shape_of(1, elements), qs_format_of("fp32"), data};
}

qs_status qs_state_write(const char *path, const qs_graph *graph, const qs_progress *progress, int parts, const qs_state_part *part) {
    words word = {graph_word(graph), *progress};
    qs_tensor_set set = {.count = (size_t)parts + 1};
    QS_TRY(qs_allocate(set.count, sizeof *set.tensors, &set.tensors));
    memcpy(set.model, graph->name, sizeof set.model);
    tensor_fill(progress_name, SLOTS, &word, &set.tensors[0]);
    for (int i = 0; i < parts; i++)
        tensor_fill(part[i].name, part[i].elements, part[i].data, &set.tensors[i + 1]);
    const qs_status status = qs_tensor_set_write(path, &set);
    free(set.tensors);
    return status;
}

static qs_status part_check(const qs_tensor_set *set, const char *name, int64_t elements) {
    const qs_shape shape = qs_shape_of(1, elements);
    const qs_tensor *tensor = qs_tensor_set_find(set, name);
    char text[96];
    if (!tensor)
        return qs_fail(QS_MISMATCH,
                       "%s is missing: it was saved with another optimiser, wire, number of ranks or list of lengths, or is no state",
                       name);
    if (tensor->format == qs_format_of("fp32") && qs_shape_equal(&tensor->shape, &shape)) return QS_OK;
    return qs_fail(QS_MISMATCH, "%s is %s%s, this run has fp32[%" PRId64 "]", name, tensor->format->name,
                   qs_shape_text(&tensor->shape, text), elements);
}

static bool is_known(const char *name, int parts, const qs_state_part *part) {
    bool known = strcmp(name, progress_name) == 0;
    for (int i = 0; i < parts && !known; i++)
        known = strcmp(name, part[i].name) == 0;
    return known;
}

static qs_status head_check(const qs_tensor_set *set, const qs_graph *graph, words *out) {
    const bool same_name = strcmp(set->model, graph->name) == 0;
    qs_status status = part_check(set, progress_name, SLOTS);
    if (status != QS_OK && same_name) return status;
    if (status == QS_OK) memcpy(out, qs_tensor_set_find(set, progress_name)->data, sizeof *out);
    if (status == QS_OK && out->graph == graph_word(graph)) return QS_OK;
    if (!same_name) return qs_fail(QS_MISMATCH, "this is the state of model \"%s\", not of \"%s\"", set->model, graph->name);
    return qs_fail(
        QS_MISMATCH,
        "this is the state of another \"%s\": for inputs or classes of another shape, or of an older qsync (start from its weights)",
        set->model);
}

static qs_status set_check(const qs_tensor_set *set, const qs_graph *graph, int parts, const qs_state_part *part, words *out) {
    QS_TRY(head_check(set, graph, out));
    for (int i = 0; i < parts; i++)
        QS_TRY(part_check(set, part[i].name, part[i].elements));
    for (size_t i = 0; i < set->count; i++)
        if (!is_known(set->tensors[i].name, parts, part))
            return qs_fail(QS_MISMATCH, "%s is superfluous: it was saved with another optimiser, wire, number of ranks or list of lengths",
                           set->tensors[i].name);
    return QS_OK;
}

static void part_copy(const qs_tensor_set *set, const qs_state_part *part) {
    if (part->data) memcpy(part->data, qs_tensor_set_find(set, part->name)->data, (size_t)part->elements * sizeof(float));
}

qs_status qs_state_read(const char *path, const qs_graph *graph, int parts, const qs_state_part *part, qs_progress *out) {
    qs_tensor_set set = {0};
    words word;
    QS_TRY(qs_tensor_set_read(path, &set));
    const qs_status status = qs_fail_within(set_check(&set, graph, parts, part, &word), "%s", path);
    for (int i = 0; status == QS_OK && i < parts; i++)
        part_copy(&set, &part[i]);
    if (status == QS_OK) *out = word.progress;
    qs_tensor_set_release(&set);
    return status;
}

qs_status qs_state_read_part(const char *path, const qs_graph *graph, const qs_state_part *part) {
    qs_tensor_set set = {0};
    words word;
    QS_TRY(qs_tensor_set_read(path, &set));
    qs_status status = head_check(&set, graph, &word);
    if (status == QS_OK) status = part_check(&set, part->name, part->elements);
    if (status == QS_OK) part_copy(&set, part);
    qs_tensor_set_release(&set);
    return qs_fail_within(status, "%s", path);
}
