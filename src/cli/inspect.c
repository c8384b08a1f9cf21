// SPDX-License-Identifier: Apache-2.0
/* qsync inspect: a model on paper. */
#include <stdlib.h>
#include <string.h>

#include "inspect.h"

#define SAVED_FORMATS 3
static const char *const saved_names[SAVED_FORMATS] = {"fp32", "bf16", "int8"};

typedef struct inspection {
    qs_graph *graph;
    int64_t batch;
    qs_node_summary *summary[SAVED_FORMATS]; /* saved bytes under each compute format */
    const char *input;
    int classes;
    bool memory, blocks, groups, json;
    const char *file;         /* of --graph */
    memory_question question; /* of --memory */
} inspection;

/* Values of an int8 plan are stored in the half format. */
static qs_status summaries_make(inspection *one) {
    for (int f = 0; f < SAVED_FORMATS; f++) {
        const qs_format *compute = qs_format_of(saved_names[f]);
        const qs_format *storage = compute->kind == QS_KIND_INTEGER ? qs_format_of("bf16") : compute;
        QS_TRY(qs_allocate((size_t)one->graph->nodes, sizeof **one->summary, &one->summary[f]));
        QS_TRY(qs_graph_summarize(one->graph, one->batch, compute, storage, one->summary[f]));
    }
    return QS_OK;
}

typedef struct totals {
    int64_t parameters, saved[SAVED_FORMATS];
    double forward, total;
    int adjustable;
} totals;

static totals totals_of(const inspection *one) {
    totals sum = {0};
    for (int n = 0; n < one->graph->nodes; n++) {
        const qs_node_summary *node = &one->summary[0][n];
        sum.parameters += node->parameters;
        sum.forward += node->forward_flops;
        sum.total += node->total_flops;
        sum.adjustable += strcmp(node->kind, "adjustable") == 0;
        for (int f = 0; f < SAVED_FORMATS; f++)
            sum.saved[f] += one->summary[f][n].saved_bytes;
    }
    return sum;
}

static void text_print(const inspection *one) {
    const totals sum = totals_of(one);
    const int columns = node_columns(one->graph);
    char shape[96], signature[32];
    printf("%-*s %-22s %-10s %-18s %5s %10s %10s %10s %10s %10s\n", columns, "node", "operator", "class", "output", "depth", "parameters",
           "forward", "saved fp32", "bf16", "int8");
    for (int n = 0; n < one->graph->nodes; n++) {
        const qs_node *node = &one->graph->node[n];
        const qs_node_summary *s = &one->summary[0][n];
        printf("%-*s %-22s %-10s %-18s %5d %10lld %10s %10s %10s %10s\n", columns, node->name, node->op ? node->op->name : "", s->kind,
               qs_shape_text(&s->shape, shape), s->depth, (long long)s->parameters, count_text(s->forward_flops),
               bytes_text((double)s->saved_bytes), bytes_text((double)one->summary[1][n].saved_bytes),
               bytes_text((double)one->summary[2][n].saved_bytes));
    }
    printf("\n%s, batch %lld, %s\n%d nodes, %d adjustable, %lld parameters, forward %sFLOP, training step %sFLOP\n"
           "saved for backward: fp32 %s, bf16 %s, int8 %s\n",
           one->graph->name, (long long)one->batch, qs_graph_signature(one->graph, signature), one->graph->nodes, sum.adjustable,
           (long long)sum.parameters, count_text(sum.forward), count_text(sum.total), bytes_text((double)sum.saved[0]),
           bytes_text((double)sum.saved[1]), bytes_text((double)sum.saved[2]));
}

static json_t *node_json(const inspection *one, int n) {
    const qs_node *node = &one->graph->node[n];
    const qs_node_summary *s = &one->summary[0][n];
    json_t *shape = json_array(), *inputs = json_array();
    for (int i = 0; i < s->shape.axes; i++)
        json_array_append_new(shape, json_integer(s->shape.dim[i]));
    for (int i = 0; n > 0 && i < node->inputs; i++)
        json_array_append_new(inputs, json_string(one->graph->node[node->input[i]].name));
    return json_pack("{s:s,s:s,s:s,s:o,s:o,s:i,s:I,s:f,s:f,s:{s:I,s:I,s:I}}", "name", node->name, "operator",
                     node->op ? node->op->name : "input", "class", s->kind, "inputs", inputs, "shape", shape, "depth", s->depth,
                     "parameters", (json_int_t)s->parameters, "forward_flops", s->forward_flops, "total_flops", s->total_flops,
                     "saved_bytes", "fp32", (json_int_t)s->saved_bytes, "bf16", (json_int_t)one->summary[1][n].saved_bytes, "int8",
                     (json_int_t)one->summary[2][n].saved_bytes);
}

static qs_status json_out(const inspection *one) {
    const totals sum = totals_of(one);
    char signature[32];
    json_t *nodes = json_array();
    for (int n = 0; n < one->graph->nodes; n++)
        json_array_append_new(nodes, node_json(one, n));
    return json_print(json_pack("{s:s,s:s,s:I,s:i,s:I,s:f,s:f,s:{s:I,s:I,s:I},s:o}", "model", one->graph->name, "signature",
                                qs_graph_signature(one->graph, signature), "batch", (json_int_t)one->batch, "adjustable", sum.adjustable,
                                "parameters", (json_int_t)sum.parameters, "forward_flops", sum.forward, "total_flops", sum.total,
                                "saved_bytes", "fp32", (json_int_t)sum.saved[0], "bf16", (json_int_t)sum.saved[1], "int8",
                                (json_int_t)sum.saved[2], "nodes", nodes));
}

static const option_row option_rows[] = {
    {OPTION(inspection, batch, "batch", "N", "samples"), .standard = "1", .minimum = 1},
    {OPTION(inspection, input, "input", "CxHxW", "input shape"), .usual = "the model's own"},
    {OPTION(inspection, classes, "classes", "N", "classes"), .usual = "the model's own", .minimum = 1},
    {OPTION(inspection, memory, "memory", NULL, "what a training step keeps in memory, and when"), .excludes = "blocks,groups"},
    {OPTION(inspection, blocks, "blocks", NULL, "repeating parts of the model instead"), .excludes = "groups"},
    {OPTION(inspection, groups, "groups", NULL, "tensors that change format together, and their sizes")},
    {OPTION(inspection, question.recipe, "recipe", "NAME", "of every adjustable operator"), .standard = "fp32", .needs = "memory"},
    {OPTION(inspection, question.recompute, "recompute", "BLOCKS",
            "with these computed again for backward: no, all, or blocks by the name of their first operator with commas between"),
     .standard = "no", .needs = "memory"},
    {OPTION(inspection, question.plan, "plan", "FILE", "recipes of a plan instead"), .needs = "memory",
     .excludes = "recipe,wire,recompute"},
    {OPTION(inspection, question.class_name, "class", "NAME", "device class"), .usual = "the first", .needs = "plan"},
    {OPTION(inspection, question.optimizer, "optimizer", "NAME", NULL), .describe = optimizer_names, .standard = "sgd", .needs = "memory"},
    {OPTION(inspection, question.wire, "wire", "NAME", "in which gradients travel: fp32, bf16 or int8"), .standard = "fp32",
     .needs = "memory"},
    {OPTION(inspection, question.backend, "backend", "NAME", "whose kernels"), .usual = "cpu, or ref in builds without it",
     .needs = "memory"},
    {OPTION(inspection, file, "graph", "FILE", "write the model as graph.json instead"), .excludes = "memory,blocks,groups,json"},
    {OPTION_JSON(inspection)},
};

qs_status verb_inspect(int argc, char **argv) {
    const verb_usage usage = {
        .verb = "inspect",
        .arguments = "MODEL",
        .purpose =
            "Operators of a model, built in or of a graph.json: class, output shape for the batch, depth, parameters, forward FLOPs, and "
            "the bytes each\n"
            "saves for backward when computing in fp32, bf16 or int8. --memory: what the arena of a training step holds at its peak.\n"
            "--blocks: the parts that planners decide together, and which are copies of each other. --groups: the tensors between two\n"
            "matrix multiplications, which assignments of formats (plan --planner demote) change together, and their sizes at the batch.\n"
            "Of a weights file (.safetensors, .bin of llama2.c, .gguf): its tensors.",
        .examples = "  qsync inspect resnet20 --batch 128\n  qsync inspect resnet50 --input 3x160x160 --json\n"
                    "  qsync inspect resnet20 --memory --batch 128 --recipe int8/bf16\n  qsync inspect resnet20 --blocks\n"
                    "  qsync inspect bert:mini --memory --batch 32 --recompute all\n"
                    "  qsync inspect resnet20 --groups --batch 128\n"
                    "  qsync inspect resnet20:width=0.5 --graph mine.json\n"
                    "  qsync inspect run/weights.safetensors\n",
        .least = 1,
        .most = 1};
    inspection one = {0};
    bool done = false;
    int first = 0;
    option_table table = {0};
    qs_samples shape;
    qs_status status = QS_OK;
    OPTIONS_ADD(&table, option_rows, &one);
    QS_TRY(options_parse(&table, &usage, argc, argv, &first, &done));
    if (done) return QS_OK;
    if (is_weights_file(argv[first])) return weights_inspect(argv[first], one.json);
    QS_TRY(model_samples_parse(one.input, one.classes, argv[first], &shape));
    QS_TRY(qs_model_open(argv[first], &shape, &one.graph));
    if (one.file) {
        status = qs_graph_write(one.graph, one.file);
        goto done;
    }
    if (one.memory) {
        one.question.graph = one.graph;
        one.question.own_input = one.input != NULL || one.classes > 0 || qs_model_is_file(argv[first]);
        one.question.batch = option_given(&table, "batch") ? one.batch : 0;
        status = memory_inspect(&one.question, one.json);
        goto done;
    }
    if (one.blocks) {
        status = blocks_inspect(one.graph, one.json);
        goto done;
    }
    if (one.groups) {
        status = groups_inspect(one.graph, one.batch, one.json);
        goto done;
    }
    QS_GOTO(summaries_make(&one));
    if (one.json)
        QS_GOTO(json_out(&one));
    else
        text_print(&one);
done:
    for (int f = 0; f < SAVED_FORMATS; f++)
        free(one.summary[f]);
    qs_graph_release(one.graph);
    return status;
}
