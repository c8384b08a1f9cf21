// SPDX-License-Identifier: Apache-2.0
/* What of a model is trained, and how fast: parameters that are frozen, and the layers by which rates fall. */
#include "graph_internal.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

bool qs_parameter_learns(const qs_parameter *parameter) {
    return parameter->gradient != QS_ROLE_COUNT && !parameter->frozen;
}

/* ---- Freezing --------------------------------------------------------------------------------------------------------------- */

/* Frozen parameters behind the trained ones. */
static void offsets_settle(qs_graph *graph, const bool *frozen) {
    graph->trained_elements = graph->frozen_elements = 0;
    for (int behind = 0; behind < 2; behind++)
        for (int i = 0; i < graph->parameters; i++) {
            qs_parameter *one = &graph->parameter[i];
            const bool freezes = frozen[i] || one->origin.constant;
            if (one->gradient == QS_ROLE_COUNT || freezes != (behind == 1)) continue;
            one->frozen = freezes;
            one->offset = graph->trained_elements + graph->frozen_elements;
            *(behind ? &graph->frozen_elements : &graph->trained_elements) += qs__parameter_room(qs_shape_count(&one->shape));
        }
}

qs_status qs_graph_origin_set(qs_graph *graph, int parameter, const qs_parameter_origin *origin) {
    qs_parameter *one = &graph->parameter[parameter];
    char own[96], file[96];
    bool *frozen = NULL;
    if (origin->transposed && one->shape.axes != 2)
        return qs_fail(QS_USAGE, "%s is %s: only matrices are transposed", one->name, qs_shape_text(&one->shape, own));
    if (origin->shape.axes > 0 && qs_shape_count(&origin->shape) != qs_shape_count(&one->shape))
        return qs_fail(QS_USAGE, "%s is %s, in files %s: they must have as many values", one->name, qs_shape_text(&one->shape, own),
                       qs_shape_text(&origin->shape, file));
    const bool moves = origin->constant != one->origin.constant;
    one->origin = *origin;
    const qs_shape turned = qs_shape_of(2, one->shape.dim[1], one->shape.dim[0]);
    if (qs_shape_equal(&origin->shape, origin->transposed ? &turned : &one->shape)) one->origin.shape = (qs_shape){.axes = 0};
    if (!moves) return QS_OK; /* of thousands of parameters each comes here */
    QS_TRY(qs_allocate((size_t)graph->parameters, sizeof *frozen, &frozen));
    offsets_settle(graph, frozen);
    free(frozen);
    return QS_OK;
}

/* Marks in *matched, for every parameter, whether one of the patterns is of it. */
static qs_status patterns_match(const qs_graph *graph, const char *patterns, bool *matched) {
    for (const char *at = patterns; *at;) {
        char pattern[sizeof graph->parameter->name];
        const size_t length = strcspn(at, ",");
        bool found = false;
        if (length >= sizeof pattern)
            return qs_fail(QS_USAGE, "freeze %s: a pattern of %zu characters; names have %zu at most", patterns, length,
                           sizeof pattern - 1);
        memcpy(pattern, at, length);
        pattern[length] = '\0';
        for (int i = 0; i < graph->parameters; i++) {
            if (graph->parameter[i].gradient == QS_ROLE_COUNT || fnmatch(pattern, graph->parameter[i].name, 0) != 0) continue;
            matched[i] = found = true;
        }
        if (!found)
            return qs_fail(QS_USAGE, "freeze \"%s\": no trained parameter of %s has such a name; names are as in \"%s\"", pattern,
                           graph->name, graph->parameters > 0 ? graph->parameter[0].name : "conv1.weights");
        at += length + (at[length] == ',');
    }
    return QS_OK;
}

qs_status qs_graph_freeze(qs_graph *graph, const char *patterns) {
    bool *frozen = NULL;
    int trained = 0;
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)graph->parameters + 1, sizeof *frozen, &frozen));
    QS_GOTO(patterns_match(graph, patterns, frozen));
    for (int i = 0; i < graph->parameters; i++)
        trained += graph->parameter[i].gradient != QS_ROLE_COUNT && !frozen[i] && !graph->parameter[i].origin.constant;
    if (trained == 0 && *patterns) {
        status = qs_fail(QS_USAGE, "freeze \"%s\": all parameters of %s match, so nothing is left to train", patterns, graph->name);
        goto done;
    }
    offsets_settle(graph, frozen);
done:
    free(frozen);
    return status;
}

/* ---- Layers ----------------------------------------------------------------------------------------------------------------- */

qs_status qs_graph_layers(const qs_graph *graph, int *layer) {
    int *last = NULL, *ending = NULL; /* last reader of each value; how many values are read last at each node */
    int layers = 0, live = 0, first = graph->samples.inputs;
    bool product = false, begun = false; /* of the piece at hand; some layer holds parameters */
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)graph->nodes, sizeof *last, &last));
    QS_GOTO(qs_allocate((size_t)graph->nodes, sizeof *ending, &ending));
    for (int n = 0; n < graph->nodes; n++) {
        last[n] = n;
        for (int i = 0; i < graph->node[n].inputs; i++)
            last[graph->node[n].input[i]] = n;
    }
    for (int n = 0; n < graph->nodes; n++)
        if (qs__flows(graph, n)) ending[last[n]]++;
    for (int n = 0; n < graph->nodes; n++) {
        live += qs__flows(graph, n) - ending[n];
        layer[n] = layers;
        if (!graph->node[n].op) continue;
        product |= qs_op_multiplies(graph->node[n].op); /* a recurrence is of the layer before it */
        begun |= !product && graph->node[n].parameters > 0;
        if (live > 1 && n + 1 < graph->nodes) continue;
        if (product && begun) layers++;
        for (int k = first; k <= n; k++)
            layer[k] = layers;
        begun |= product;
        product = false;
        first = n + 1;
    }
    for (int n = 0; n < graph->nodes; n++)
        layer[n] = layers - layer[n];
done:
    free(last);
    free(ending);
    return status;
}
