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
    char shape[96], signature[32];
    printf("%-26s %-22s %-10s %-18s %5s %10s %10s %10s %10s %10s\n", "node", "operator", "class", "output", "depth", "parameters",
           "forward", "saved fp32", "bf16", "int8");
    for (int n = 0; n < one->graph->nodes; n++) {
        const qs_node *node = &one->graph->node[n];
        const qs_node_summary *s = &one->summary[0][n];
        printf("%-26s %-22s %-10s %-18s %5d %10lld %10s %10s %10s %10s\n", node->name, node->op ? node->op->name : "", s->kind,
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

qs_status verb_inspect(int argc, char **argv) {
    const verb_usage usage = {
        "inspect", "MODEL",
        "Operators of a built-in model: class, output shape for the batch, depth, parameters, forward FLOPs, and the bytes each\n"
        "saves for backward when computing in fp32, bf16 or int8. --memory: what the arena of a training step holds at its peak.\n"
        "--blocks: the parts that planners decide together, and which are copies of each other. --groups: the tensors between two\n"
        "matrix multiplications, which assignments of formats (plan --planner demote) change together, and their sizes at the batch.",
        "  qsync inspect resnet20 --batch 128\n  qsync inspect resnet50 --input 3x160x160 --json\n"
        "  qsync inspect resnet20 --memory --batch 128 --recipe int8/bf16\n  qsync inspect resnet20 --blocks\n"
        "  qsync inspect resnet20 --groups --batch 128\n"};
    inspection one = {.batch = 1};
    const char *input = NULL;
    int classes = 0;
    bool memory = false, blocks = false, groups = false, json = false, done = false;
    int first = 0;
    char optimizer_help[80];
    memory_question question = {.recipe = "fp32", .optimizer = "sgd", .wire = "fp32"};
    option_table table = {0};
    snprintf(optimizer_help, sizeof optimizer_help, "with --memory: %s", optimizer_names());
    options_add(&table, (option_row){"batch", OPTION_INTEGER, &one.batch, "N", "batch (1)", 1});
    options_add(&table, (option_row){"input", OPTION_TEXT, &input, "CxHxW", "input shape (the model's own)", 0});
    options_add(&table, (option_row){"classes", OPTION_INT, &classes, "N", "classes (the model's own)", 1});
    options_add(&table, (option_row){"memory", OPTION_FLAG, &memory, NULL, "what a training step keeps in memory, and when", 0});
    options_add(&table, (option_row){"blocks", OPTION_FLAG, &blocks, NULL, "repeating parts of the model instead", 0});
    options_add(&table, (option_row){"groups", OPTION_FLAG, &groups, NULL, "tensors that change format together, and their sizes", 0});
    options_add(&table,
                (option_row){"recipe", OPTION_TEXT, &question.recipe, "NAME", "with --memory: of every adjustable operator (fp32)", 0});
    options_add(&table, (option_row){"plan", OPTION_TEXT, &question.plan, "FILE", "with --memory: recipes of a plan instead", 0});
    options_add(&table, (option_row){"class", OPTION_TEXT, &question.class_name, "NAME", "with --plan: device class (the first)", 0});
    options_add(&table, (option_row){"optimizer", OPTION_TEXT, &question.optimizer, "NAME", optimizer_help, 0});
    options_add(&table, (option_row){"wire", OPTION_TEXT, &question.wire, "NAME",
                                     "with --memory: in which gradients travel: fp32, bf16 or int8 (fp32)", 0});
    options_add(&table, (option_row){"backend", OPTION_TEXT, &question.backend, "NAME",
                                     "with --memory: whose kernels (cpu, or ref in builds without it)", 0});
    options_add(&table, (option_row){"json", OPTION_FLAG, &json, NULL, "print JSON", 0});
    QS_TRY(options_parse(&table, &usage, argc, argv, &first, &done));
    if (done) return QS_OK;
    QS_TRY(arguments_check(&usage, argc, argv, first, 1));
    if (first == argc) return qs_fail(QS_USAGE, "inspect needs a model name; see qsync inspect --help");
    qs_model_input shape;
    qs_status status = QS_OK;
    QS_TRY(memory_options_check(&table, memory));
    if (memory + blocks + groups > 1) return qs_fail(QS_USAGE, "--memory, --blocks and --groups are different questions: give one of them");
    QS_TRY(model_input_parse(input, classes, argv[first], &shape));
    QS_TRY(qs_model_build(argv[first], &shape, &one.graph));
    if (memory) {
        question.graph = one.graph;
        question.own_input = input != NULL || classes > 0;
        question.batch = option_given(&table, "batch") ? one.batch : 0;
        status = memory_inspect(&question, json);
        goto done;
    }
    if (blocks) {
        status = blocks_inspect(one.graph, json);
        goto done;
    }
    if (groups) {
        status = groups_inspect(one.graph, one.batch, json);
        goto done;
    }
    QS_GOTO(summaries_make(&one));
    if (json)
        QS_GOTO(json_out(&one));
    else
        text_print(&one);
done:
    for (int f = 0; f < SAVED_FORMATS; f++)
        free(one.summary[f]);
    qs_graph_release(one.graph);
    return status;
}
