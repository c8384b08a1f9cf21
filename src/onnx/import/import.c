// SPDX-License-Identifier: Apache-2.0
/* The import from end to end: which output is learned, what a sample is, a node at a time, what is left at the end. */
#include <stdlib.h>
#include <string.h>

#include "family.h"
#include "fuse.h"
#include "lengths.h"
#include "options.h"

enum { MOST_INPUTS = 2 * QS_SAMPLES_MOST_INPUTS }; /* some are joined, and go */

/* ---- Values and nodes ----------------------------------------------------------------------------------------------------- */

/* What may cost much memory: few bytes can say of a value that it is huge, or filled with one number. Products of extents stay far below
 * what an integer holds. */
static qs_status size_check(qs__import *one, int v) {
    const qs_onnx_value *is = &one->model->graph.value[v];
    const qs_onnx_tensor *numbers = is->constant ? is->constant : is->extents;
    int64_t extent[QS__MOST_RANK];
    const int rank = qs__extents_of(one, v, extent);
    double count = 1;
    for (int a = 0; a < rank; a++)
        count *= (double)extent[a];
    if (count > 0x1p40) return qs_fail(QS_UNSUPPORTED, "value \"%s\" has %g elements a sample: at most 2^40", is->name, count);
    if (numbers && numbers->uniform && numbers->count > INT64_C(1) << 28)
        return qs_fail(QS_UNSUPPORTED, "value \"%s\" is filled with %lld equal numbers: at most 2^28", is->name, (long long)numbers->count);
    return QS_OK;
}

/* Integers that depend on the batch or the length, for a batch of one. */
static const qs_onnx_tensor *extents_fix(qs__import *one, const qs_onnx_tensor *symbols) {
    qs_onnx_tensor *out = qs__keep_memory(one, 1, sizeof *out);
    int64_t *data = out ? qs__keep_memory(one, (size_t)symbols->count, sizeof *data) : NULL;
    if (!data) return NULL;
    for (int64_t i = 0; i < symbols->count; i++)
        data[i] = qs_onnx_extent_at(qs_onnx_tensor_extent(symbols, i), 1, one->length);
    *out = *symbols;
    out->type = QS_ONNX_INT64;
    out->data = data;
    out->uniform = false;
    return out;
}

static void value_load(qs__import *one, int v) {
    const qs_onnx_value *is = &one->model->graph.value[v];
    qs__value *out = &one->value[v];
    *out = (qs__value){.name = is->name, .producer = is->producer, .reader = -1, .input = -1};
    const qs_onnx_tensor *tensor = is->constant ? is->constant : is->extents ? extents_fix(one, is->extents) : NULL;
    if (!tensor) return;
    out->kind = QS__NUMBERS;
    out->tensor = tensor;
    out->from = is->codes ? is->codes : is->name;
    out->parameter = is->is_parameter;
    for (int64_t i = 0; !is->constant && i < is->extents->count; i++)
        out->of_batch = out->of_batch || qs_onnx_extent_has_batch(qs_onnx_tensor_extent(is->extents, i));
    out->number = is->is_number;
    out->layout = qs__layout_rows(tensor->rank, tensor->dim, false);
    if (out->parameter) qs__stored_name(one, out, out->from);
}

static qs_status graph_load(qs__import *one) {
    const qs_onnx_graph *graph = &one->model->graph;
    QS_TRY(qs_allocate((size_t)graph->values, sizeof *one->value, &one->value));
    QS_TRY(qs_allocate((size_t)graph->nodes, sizeof *one->node, &one->node));
    one->values = graph->values;
    one->nodes = graph->nodes;
    for (int v = 0; v < graph->values; v++) {
        QS_TRY(size_check(one, v));
        value_load(one, v);
    }
    for (int n = 0; n < graph->nodes; n++) {
        const qs_onnx_node *from = &graph->node[n];
        one->node[n] = (qs__node){
            .op = from->op, .from = from, .inputs = from->inputs, .outputs = from->outputs, .input = from->input, .output = from->output};
    }
    return one->status;
}

/* ---- What is learned ------------------------------------------------------------------------------------------------------ */

/* The value that both outputs are columns of, where they are two of positions: starts and ends; -1: they are not. */
static int span_of(qs__import *one) {
    const qs_onnx_graph *graph = &one->model->graph;
    int from[2], rank[2];
    int64_t extent[2][QS__MOST_RANK];
    if (graph->outputs < 2) return -1;
    for (int i = 0; i < 2; i++) {
        int value = graph->output[i];
        rank[i] = qs__extents_of(one, value, extent[i]);
        for (int at = one->value[value].producer; at >= 0; at = one->value[value].producer) {
            const char *op = one->node[at].op;
            value = one->node[at].inputs > 0 ? one->node[at].input[0] : -1;
            if (value < 0) return -1;
            if (strcmp(op, "Split") == 0 || strcmp(op, "Gather") == 0 || strcmp(op, "Slice") == 0) break;
            if (strcmp(op, "Squeeze") != 0 && strcmp(op, "Identity") != 0 && strcmp(op, "Reshape") != 0) return -1;
        }
        from[i] = value;
    }
    int64_t whole[QS__MOST_RANK];
    if (from[0] != from[1] || rank[0] != 2 || rank[1] != 2 || extent[0][1] != extent[1][1]) return -1;
    return qs__extents_of(one, from[0], whole) == 3 && whole[2] == 2 && whole[1] == extent[0][1] ? from[0] : -1;
}

static qs_status output_choose(qs__import *one, const char *wanted, bool *span) {
    const qs_onnx_graph *graph = &one->model->graph;
    char names[512] = "";
    one->learned = -1;
    *span = false;
    for (int i = 0; i < graph->outputs; i++) {
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", one->value[graph->output[i]].name);
        if (wanted && strcmp(one->value[graph->output[i]].name, wanted) == 0) one->learned = graph->output[i];
    }
    if (wanted && one->learned < 0) return qs_fail(QS_USAGE, "output=%s: the model's outputs are %s", wanted, names);
    if (graph->outputs == 0) return qs_fail(QS_BAD_FILE, "the model has no outputs");
    if (!wanted) one->learned = span_of(one);
    *span = !wanted && one->learned >= 0;
    if (one->learned < 0) one->learned = graph->output[0];
    if (!wanted && !*span && graph->outputs > 1)
        qs__note(one, "of its outputs (%s) %s is learned: output=NAME chooses another", names, one->value[one->learned].name);
    if (*span) qs__note(one, "its outputs %s are one: the first and the last position of a span", names);
    one->value[one->learned].is_output = true;
    return one->status;
}

/* ---- Inputs --------------------------------------------------------------------------------------------------------------- */

/* The table that a node reads rows of by ids of an input, and that input; NULL: it is no such node. */
static const qs__value *table_of_ids(const qs__import *one, const qs__node *node, int *ids) {
    if (node->dead || strcmp(node->op, "Gather") != 0 || node->inputs < 2 || node->input[0] < 0 || node->input[1] < 0) return NULL;
    const qs__value *table = &one->value[node->input[0]];
    *ids = node->input[1];
    for (int at = one->value[*ids].producer; at >= 0 && strcmp(one->node[at].op, "Cast") == 0; at = one->value[*ids].producer) {
        if (one->node[at].inputs < 1 || one->node[at].input[0] < 0) return NULL;
        *ids = one->node[at].input[0];
    }
    return table->kind == QS__NUMBERS && table->tensor->rank == 2 && one->value[*ids].producer < 0 ? table : NULL;
}

/* Where an input stands among the record's: values, ids, token types, which positions count. */
static int place_of(const qs__import *one, int v) {
    const qs_onnx_value *is = &one->model->graph.value[v];
    if (!qs_onnx_type_is_integer(is->type)) return 0;
    if (!one->value[v].is_ids) return 1 << 30;
    int64_t rows = INT32_MAX;
    for (int n = 0; n < one->nodes; n++) {
        int ids = -1;
        const qs__value *table = table_of_ids(one, &one->node[n], &ids);
        if (table && ids == v) rows = table->tensor->dim[0];
    }
    return rows > 1 << 20 ? 1 : (1 << 20) - (int)rows + 1;
}

static void ids_find(qs__import *one) {
    for (int n = 0; n < one->nodes; n++) {
        int ids = -1;
        if (table_of_ids(one, &one->node[n], &ids)) one->value[ids].is_ids = true;
    }
}

static bool is_colour(int64_t channels) {
    return channels == 1 || channels == 3 || channels == 4;
}

static void input_load(qs__import *one, int v) {
    const qs_onnx_value *is = &one->model->graph.value[v];
    qs__value *value = &one->value[v];
    qs_graph_input *row = &one->out->graph.input[one->out->graph.inputs];
    int64_t extent[QS__MOST_RANK], again;
    const int rank = qs__extents_of(one, v, extent), number = one->out->graph.inputs;
    if (rank < 1) {
        qs__refuse_node(one, "input \"%s\" has %s", value->name, rank < 0 ? "no known extents" : "no axis of samples");
        return;
    }
    if (strlen(value->name) < sizeof row->name)
        snprintf(row->name, sizeof row->name, "%s", value->name);
    else
        snprintf(row->name, sizeof row->name, "%.20s~%d", value->name, number);
    for (char *c = row->name; *c; c++)
        if (*c == ':' || *c == '/' || *c == ',' || *c == ' ') *c = '_';
    qs__name_take(one, &one->operators, row->name, &again);
    value->layout = qs__layout_rows(rank, extent, true);
    value->shape = (qs_shape){.axes = 2, .dim = {1, 1}};
    if (qs_onnx_type_is_integer(is->type)) {
        row->type = QS_INPUT_I32;
        row->shape = qs_shape_of(1, qs__layout_count(&value->layout));
        row->bound = value->is_ids ? 0 : 2;
        value->kind = QS__INTEGERS;
        value->input = number;
    } else {
        const bool image = rank == 4 && is_colour(extent[1]), last = rank == 4 && !image && is_colour(extent[3]);
        int axes = 0;
        row->type = image || last ? QS_INPUT_U8 : QS_INPUT_F32;
        int64_t all[3] = {1, 1, 1};
        for (int a = rank > 4 ? rank - 3 : 1; a < rank; a++)
            all[axes++] = extent[a];
        for (int a = 1; a < rank - 3; a++)
            all[0] *= extent[a];
        if (axes == 0) axes = 1;
        if (image) {
            value->layout = qs__image_like(value, extent[1], 2, extent + 2);
            all[0] = extent[2], all[1] = extent[3], all[2] = extent[1];
        }
        row->shape = (qs_shape){.axes = axes, .dim = {all[0], all[1], all[2]}};
        value->shape = axes == 1   ? qs_shape_of(2, (int64_t)1, all[0])
                       : axes == 2 ? qs_shape_of(3, (int64_t)1, all[1], all[0])
                                   : qs_shape_of(4, (int64_t)1, all[2], all[0], all[1]);
        qs__flow(value, -1 - number, value->shape, &value->layout);
    }
    one->out->graph.inputs++;
}

static qs_status inputs_load(qs__import *one) {
    const qs_onnx_graph *graph = &one->model->graph;
    int order[QS_SAMPLES_MOST_INPUTS], count = 0;
    ids_find(one);
    for (int i = 0; i < graph->inputs; i++) {
        const int v = graph->input[i];
        if (one->value[v].readers == 0 || one->value[v].kind == QS__NUMBERS) continue;
        if (count == QS_SAMPLES_MOST_INPUTS) return qs_fail(QS_UNSUPPORTED, "more than %d inputs are read", QS_SAMPLES_MOST_INPUTS);
        int at = count++;
        for (; at > 0 && place_of(one, order[at - 1]) > place_of(one, v); at--)
            order[at] = order[at - 1];
        order[at] = v;
    }
    if (count == 0) return qs_fail(QS_UNSUPPORTED, "what is learned, %s, depends on no input", one->value[one->learned].name);
    QS_TRY(qs_allocate(MOST_INPUTS, sizeof *one->out->graph.input, &one->out->graph.input));
    for (int i = 0; i < count; i++)
        input_load(one, order[i]);
    const qs_input_type first = one->out->graph.input[0].type;
    snprintf(one->out->graph.unit, sizeof one->out->graph.unit, "%s",
             first == QS_INPUT_U8    ? "images"
             : first == QS_INPUT_I32 ? "sequences"
                                     : "samples");
    return one->status;
}

/* ---- Nodes ---------------------------------------------------------------------------------------------------------------- */

static const struct family {
    const char *op;
    qs__on_numbers numbers;
    void (*import)(qs__import *one, const qs__node *node);
} families[] = {
#define QS__ONNX(op, numbers) {#op, QS__##numbers, qs__import_##op},
#include "table.def"
#undef QS__ONNX
};

static const struct family *family_of(const char *op) {
    for (size_t f = 0; f < sizeof families / sizeof *families; f++)
        if (strcmp(families[f].op, op) == 0) return &families[f];
    return NULL;
}

bool qs_onnx_imports(const char *op) {
    return family_of(op) != NULL;
}

static void row_note(qs__import *one, const qs__node *node, int before) {
    qs_onnx_imported *out = one->out;
    int at = 0;
    while (at < out->rows && strcmp(out->row[at].op, node->op) < 0)
        at++;
    if (at == out->rows || strcmp(out->row[at].op, node->op) != 0) {
        qs__stick(one, qs_grow(&out->row, &one->row_capacity, (size_t)out->rows + 1, sizeof *out->row));
        if (one->status != QS_OK) return;
        memmove(&out->row[at + 1], &out->row[at], (size_t)(out->rows++ - at) * sizeof *out->row);
        out->row[at] = (qs_onnx_row){.nodes = 0};
        snprintf(out->row[at].op, sizeof out->row->op, "%s", node->op);
    }
    qs_onnx_row *row = &out->row[at];
    row->nodes++;
    for (int i = before; i < out->graph.operators; i++) {
        const char *op = out->graph.operator_[i].op;
        const char *had = strstr(row->became, op);
        const size_t used = strlen(row->became), length = strlen(op);
        if (had && (had == row->became || had[-1] == ' ') && (had[length] == '\0' || had[length] == ',')) continue;
        if (used + length + 3 < sizeof row->became) snprintf(row->became + used, sizeof row->became - used, "%s%s", used ? ", " : "", op);
    }
}

/* Sums and products of inputs of integers are an input by themselves: what feeds the model computes them. */
static bool integers_join(qs__import *one, const qs__node *node) {
    qs_graph_record *graph = &one->out->graph;
    qs__value *out = qs__made_by(one, node, 0);
    const bool is = strcmp(node->op, "Add") == 0 || strcmp(node->op, "Mul") == 0 || strcmp(node->op, "Sub") == 0;
    for (int i = 0; i < node->inputs; i++)
        if (!is || !qs__read_by(one, node, i) || qs__read_by(one, node, i)->kind != QS__INTEGERS) return false;
    if (!is || !out || graph->inputs == MOST_INPUTS) return false;
    qs_graph_input *row = &graph->input[graph->inputs];
    const qs__value *first = qs__read_by(one, node, 0);
    int64_t again;
    *row = (qs_graph_input){.type = QS_INPUT_I32, .shape = qs_shape_of(1, qs__layout_count(&first->layout))};
    snprintf(row->name, sizeof row->name, "integers.%.20s", out->name);
    qs__name_take(one, &one->operators, row->name, &again);
    out->kind = QS__INTEGERS;
    out->is_ids = true;
    out->layout = first->layout;
    out->input = graph->inputs++;
    qs__note(one, "%s of inputs of integers is an input by itself, %s", node->op, row->name);
    return true;
}

/* What a softmax of scores has to know must reach it. */
static void hidden_check(qs__import *one, const qs__node *node) {
    const qs__value *out = qs__made_by(one, node, 0);
    for (int i = 0; i < node->inputs; i++) {
        const qs__value *in = qs__read_by(one, node, i);
        if (!in || in->kind != QS__FLOW || (in->input < 0 && !in->causal) || strcmp(node->op, "Softmax") == 0) continue;
        if (!out || (in->causal && !out->causal) || (in->input >= 0 && out->input < 0)) {
            qs__refuse_node(one, "of scores that a mask hides, before their softmax");
            return;
        }
    }
}

static void node_import(qs__import *one, qs__node *node) {
    const int before = one->out->graph.operators, problems = one->problems;
    one->at = node;
    if (node->known) return;
    for (int i = 0; i < node->inputs; i++) /* what was refused is said where it was */
        if (node->input[i] >= 0 && one->value[node->input[i]].kind == QS__UNKNOWN) return;
    const struct family *family = qs__is_standard(node) ? family_of(node->op) : NULL;
    bool numbers = true;
    for (int i = 0; i < node->inputs; i++)
        numbers = numbers && (node->input[i] < 0 || one->value[node->input[i]].kind == QS__NUMBERS);
    const bool seen = numbers && family && family->numbers != QS__COMPUTED;
    if (!seen && qs__evaluate(one, node))
        ;
    else if (family && family->numbers == QS__PICKED)
        family->import(one, node);
    else if (integers_join(one, node) || qs__mask_node(one, node))
        ;
    else if (family)
        family->import(one, node);
    else if (qs__is_of_codes(node))
        qs__refuse_node(one, "it computes on codes or finds steps at run time: %s", qs__codes_advice);
    else
        qs__refuse_node(one, *node->from->domain ? "no such operator of %s" : "no such operator", node->from->domain);
    if (one->problems == problems && one->status == QS_OK) {
        hidden_check(one, node);
        row_note(one, node, before);
    }
}

/* All that cannot be imported, in one line. */
static qs_status problems_say(const qs__import *one) {
    char text[900] = "";
    int nodes = 0;
    if (one->problems == 0) return QS_OK;
    for (int i = 0; i < one->problems; i++) {
        const qs__problem *is = &one->problem[i];
        const size_t used = strlen(text);
        nodes += is->nodes;
        snprintf(text + used, sizeof text - used, "%s%s", used ? "; " : "", is->op);
        const size_t more = strlen(text);
        if (is->nodes > 1) snprintf(text + more, sizeof text - more, " x%d", is->nodes);
        const size_t rest = strlen(text);
        snprintf(text + rest, sizeof text - rest, ": %s", is->why);
    }
    return qs_fail(QS_UNSUPPORTED, "%d node%s cannot be imported: %s", nodes, nodes == 1 ? "" : "s", text);
}

/* ---- The end -------------------------------------------------------------------------------------------------------------- */

/* Classes of two axes, classes of positions of three, else real numbers; the shape that a loss of it reads. */
static void output_finish(qs__import *one, bool span) {
    qs_graph_record *graph = &one->out->graph;
    qs__value value = one->value[one->learned];
    qs_target *target = &graph->target;
    const int rank = qs__rank(&value);
    qs_shape shape;
    one->at = NULL;
    if (value.kind != QS__FLOW) {
        if (one->problems == 0) qs__refuse_node(one, "its output %s does not depend on the samples", value.name);
        return;
    }
    qs__bring_rows(one, &value);
    const int64_t all = qs__layout_count(&value.layout);
    int64_t last = rank > 0 ? qs__extent(&value, rank - 1) : 1;
    for (int a = 1; a < rank; a++) /* the others have one index */
        if (qs__extent(&value, a) == all) last = all;
    if (span) {
        *target = (qs_target){.kind = QS_TARGET_SPAN, .extent = all / 2};
        shape = qs_shape_of(3, (int64_t)1, (int64_t)2, all / 2);
    } else if (all == last && last > 1) {
        *target = (qs_target){.kind = QS_TARGET_CLASS, .classes = last, .extent = 1};
        shape = qs_shape_of(2, (int64_t)1, last);
    } else if (rank == 3 && last > 1) {
        *target = (qs_target){.kind = QS_TARGET_CLASS_PER_POSITION, .classes = last, .extent = all / last, .ignored = -1};
        shape = qs_shape_of(3, (int64_t)1, last, all / last);
    } else {
        *target = (qs_target){.kind = QS_TARGET_REAL, .extent = all};
        shape = qs_shape_of(2, (int64_t)1, all);
    }
    int source = qs__seen_as(one, &value, &shape);
    if (source < 0) source = qs__make(one, "affine", NULL, 1, &source, shape);
    if (one->status == QS_OK) memmove(graph->output, graph->operator_[source].name, sizeof graph->output);
}

static void operator_release(qs_graph_operator *row) {
    free(row->setting);
    free(row->origin);
}

/* What does not lead to the output goes, and the weights with it. */
static qs_status prune(qs__import *one) {
    qs_graph_record *graph = &one->out->graph;
    qs_tensor_set *set = &one->out->weights;
    bool *reached = NULL, *used = NULL;
    qs__names operators = {0}, tensors = {0};
    int64_t at;
    qs_status status;
    QS_GOTO(qs_allocate((size_t)graph->operators, sizeof *reached, &reached));
    QS_GOTO(qs_allocate(set->count, sizeof *used, &used));
    for (int i = 0; i < graph->operators; i++)
        QS_GOTO(qs__names_set(&operators, graph->operator_[i].name, i));
    for (size_t t = 0; t < set->count; t++)
        QS_GOTO(qs__names_set(&tensors, set->tensors[t].name, (int64_t)t));
    if (qs__names_get(&operators, graph->output, &at)) reached[at] = true;
    for (int i = graph->operators - 1; i >= 0; i--) {
        const qs_graph_operator *row = &graph->operator_[i];
        for (int k = 0; k < row->inputs && reached[i]; k++)
            if (qs__names_get(&operators, row->input[k], &at)) reached[at] = true;
        for (int k = 0; k < row->origins && reached[i]; k++)
            if (qs__names_get(&tensors, row->origin[k].file, &at)) used[at] = true;
    }
    int kept = 0;
    for (int i = 0; i < graph->operators; i++)
        if (reached[i])
            graph->operator_[kept++] = graph->operator_[i];
        else
            operator_release(&graph->operator_[i]);
    graph->operators = kept;
    size_t left = 0;
    for (size_t t = 0; t < set->count; t++)
        if (used[t]) set->tensors[left++] = set->tensors[t];
    set->count = left;
done:
    qs__names_release(&operators);
    qs__names_release(&tensors);
    free(reached);
    free(used);
    return status;
}

/* Inputs that nobody reads any more go. */
static void inputs_prune(qs__import *one) {
    qs_graph_record *graph = &one->out->graph;
    int kept = 0;
    for (int i = 0; i < graph->inputs; i++) {
        bool read = false;
        for (int n = 0; n < graph->operators && !read; n++)
            for (int k = 0; k < graph->operator_[n].inputs; k++)
                read = read || strcmp(graph->operator_[n].input[k], graph->input[i].name) == 0;
        if (read)
            graph->input[kept++] = graph->input[i];
        else
            qs__note(one, "input %s is not read", graph->input[i].name);
    }
    graph->inputs = kept;
}

/* ---- All of it ------------------------------------------------------------------------------------------------------------ */

static qs_status run(qs__import *one, qs__options *with) {
    qs_onnx_imported *out = one->out;
    bool span = false;
    int64_t again;
    QS_TRY(qs_onnx_open(with->path, &out->model));
    const int nodes = out->model.graph.nodes;
    QS_TRY(qs__length_bind(&out->model, with));
    QS_TRY(qs_onnx_fold(&out->model, &(qs_onnx_fold_options){.bindings = with->bindings, .binding = with->binding}));
    QS_TRY(qs_onnx_memory_make(&out->memory));
    one->model = &out->model;
    one->memory = out->memory;
    one->length = with->length;
    qs__model_name(with->path, out->graph.name);
    qs__name_take(one, &one->operators, "loss", &again); /* of every graph */
    QS_TRY(graph_load(one));
    qs__codes_drop(one);
    QS_TRY(one->status);
    QS_TRY(output_choose(one, with->output, &span));
    qs__fuse(one);
    qs__rotary_find(one);
    qs__recurrent_find(one);
    QS_TRY(one->status);
    QS_TRY(inputs_load(one));
    int read = 0;
    for (int n = 0; n < one->nodes && one->status == QS_OK; n++) {
        if (one->node[n].dead) continue;
        read++;
        node_import(one, &one->node[n]);
    }
    if (nodes > read)
        qs__note(one, "%d nodes of %d were computed while importing, joined with others, or lead to no learned output", nodes - read,
                 nodes);
    output_finish(one, span);
    QS_TRY(one->status);
    QS_TRY(problems_say(one));
    qs__attention_join(one);
    if (out->joined > 0) qs__note(one, "%d times two products and the softmax between them became attention", out->joined);
    QS_TRY(one->status);
    QS_TRY(prune(one));
    inputs_prune(one);
    qs__copies_say(one);
    return one->status;
}

/* With a number in the place of a length that the file leaves open: that of the text unless `instead`, else `length`, else (0) what the
 * file suggests. */
static qs_status imported_at(const char *text, int64_t length, bool instead, qs__import *one) {
    qs__options with;
    *one->out = (qs_onnx_imported){.rows = 0};
    qs_status status = qs__options_read(text, &with);
    if (with.length == 0 || instead) with.length = length;
    if (status == QS_OK) status = run(one, &with);
    if (status != QS_OK && with.path && !strstr(qs_message(), with.path)) qs_fail_within(status, "%s", with.path);
    one->out->length = with.open ? with.length : 0;
    free(with.text);
    free(one->value);
    free(one->node);
    free(one->problem);
    free(one->shared);
    qs__names *const names[] = {&one->named, &one->mangled, &one->operators, &one->tensors, &one->notes, &one->readers};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        qs__names_release(names[i]);
    return status;
}

qs_status qs_onnx_import(const char *text, int64_t length, bool with_values, qs_onnx_imported *out) {
    qs_onnx_imported shorter;
    qs__import one = {.out = out, .with_values = with_values}, again = {.out = &shorter};
    char why[QS__WHY] = "at a shorter one it cannot be imported";
    QS_TRY(imported_at(text, length, false, &one));
    const int64_t open = out->length;
    if (open < 3) return QS_OK;
    if (imported_at(text, open - 1, true, &again) == QS_OK && qs__length_open(&out->graph, open, &shorter.graph, open - 1, why))
        qs__note(&one, "samples have up to %lld positions; the model is the same at every length", (long long)open);
    else
        qs__note(&one, "samples have %lld positions, at no other length it is the same model: %s", (long long)open, why);
    qs_onnx_imported_release(&shorter);
    qs__names_release(&one.notes);
    return one.status;
}

void qs_onnx_imported_release(qs_onnx_imported *one) {
    qs_graph_record_release(&one->graph);
    free(one->weights.tensors);
    free(one->row);
    for (int i = 0; i < one->notes; i++)
        free(one->note[i]);
    free(one->note);
    for (int i = 0; i < one->arrays; i++)
        free(one->values[i]);
    free(one->values);
    qs_onnx_memory_release(one->memory);
    qs_onnx_release(&one->model);
    *one = (qs_onnx_imported){.rows = 0};
}
