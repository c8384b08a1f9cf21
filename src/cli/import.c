// SPDX-License-Identifier: Apache-2.0
/* qsync import: a model of an ONNX file as graph.json and weights, and what became of its nodes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "qsync/onnx_import.h"

typedef struct import_work {
    const char *out;
    bool json;
    qs_onnx_imported imported;
    qs_graph *graph;
    float *trained, *statistics;
} import_work;

static const option_row option_rows[] = {
    {OPTION(import_work, out, "out", "FOLDER", "where graph.json and weights.safetensors are written; made where it is not there"),
     .usual = "nothing is written"},
    {OPTION_JSON(import_work)},
};

/* Numbers that a parameter holds, in the sums of trained ones, constants and running statistics. */
typedef struct sums {
    int64_t trained, constant, statistics;
    int trained_tensors, constants;
} sums;

static sums sums_of(const qs_graph *graph) {
    sums out = {0};
    for (int i = 0; i < graph->parameters; i++) {
        const qs_parameter *one = &graph->parameter[i];
        const int64_t count = qs_shape_count(&one->shape);
        if (one->gradient == QS_ROLE_COUNT)
            out.statistics += count;
        else if (one->origin.constant)
            out.constant += count, out.constants++;
        else
            out.trained += count, out.trained_tensors++;
    }
    return out;
}

static json_t *tensors_json(const qs_graph *graph) {
    json_t *list = json_array();
    for (int i = 0; i < graph->parameters; i++) {
        const qs_parameter *one = &graph->parameter[i];
        const char *kind = one->gradient == QS_ROLE_COUNT ? "statistics" : one->origin.constant ? "constant" : "trained";
        json_array_append_new(list, json_pack("{s:s,s:s,s:I,s:s}", "name", one->name, "file", one->origin.file, "elements",
                                              (json_int_t)qs_shape_count(&one->shape), "kind", kind));
    }
    return list;
}

static qs_status summary_json(const import_work *work) {
    const qs_onnx_imported *imported = &work->imported;
    const sums all = sums_of(work->graph);
    char signature[32];
    json_t *rows = json_array(), *notes = json_array();
    for (int i = 0; i < imported->rows; i++)
        json_array_append_new(rows, json_pack("{s:s,s:i,s:s}", "op", imported->row[i].op, "nodes", imported->row[i].nodes, "became",
                                              imported->row[i].became));
    for (int i = 0; i < imported->notes; i++)
        json_array_append_new(notes, json_string(imported->note[i]));
    return json_print(json_pack(
        "{s:s,s:s,s:i,s:o,s:I,s:I,s:I,s:o,s:o}", "name", work->graph->name, "graph", qs_graph_signature(work->graph, signature),
        "operators", work->graph->nodes - 1 - work->graph->samples.inputs, "nodes", rows, "trained", (json_int_t)all.trained, "constant",
        (json_int_t)all.constant, "statistics", (json_int_t)all.statistics, "tensors", tensors_json(work->graph), "notes", notes));
}

static void summary_text(const import_work *work) {
    const qs_onnx_imported *imported = &work->imported;
    const qs_graph *graph = work->graph;
    const sums all = sums_of(graph);
    char text[96];
    printf("%5s  %-24s %s\n", "nodes", "operator", "became");
    for (int i = 0; i < imported->rows; i++)
        printf("%5d  %-24s %s\n", imported->row[i].nodes, imported->row[i].op,
               imported->row[i].became[0] ? imported->row[i].became : "(no operator of its own)");
    printf("\n%s: %d operators; it takes", graph->name, graph->nodes - 1 - graph->samples.inputs);
    for (int i = 0; i < graph->samples.inputs; i++)
        printf("%s %s %s", i ? "," : "", graph->node[i].name, qs_shape_text(&graph->node[i].shape, text));
    const qs_node *last = &graph->node[graph->node[graph->nodes - 1].input[0]];
    printf(" and gives %s, for the loss %s\n", qs_shape_text(&last->shape, text), graph->node[graph->nodes - 1].op->name);
    printf("trained: %lld numbers in %d tensors; constant: %lld in %d; running statistics: %lld\n", (long long)all.trained,
           all.trained_tensors, (long long)all.constant, all.constants, (long long)all.statistics);
    for (int i = 0, said = 0; i < graph->parameters && said < 20; i++) {
        const qs_parameter *one = &graph->parameter[i];
        if (!one->origin.constant || one->gradient == QS_ROLE_COUNT) continue;
        printf("  constant %s: the file has it as no parameter\n", one->name);
        said++;
    }
    for (int i = 0; i < imported->notes; i++)
        printf("note: %s\n", imported->note[i]);
}

/* Both files or none that was not there before. */
static qs_status files_write(const import_work *work, const char *text) {
    char *graph = NULL, *weights = NULL;
    qs_status status;
    QS_GOTO(qs_folder_make(work->out));
    QS_GOTO(qs_path_join(work->out, "graph.json", &graph));
    QS_GOTO(qs_path_join(work->out, "weights.safetensors", &weights));
    QS_GOTO(qs_weights_start(text, work->graph, NULL, work->trained, work->statistics, NULL));
    QS_GOTO(qs_weights_write(weights, work->graph, work->trained, work->statistics));
    status = qs_graph_write(work->graph, graph);
    if (status != QS_OK) unlink(weights);
done:
    free(graph);
    free(weights);
    return status;
}

qs_status verb_import(int argc, char **argv) {
    const verb_usage usage = {
        .verb = "import",
        .arguments = "FILE.onnx",
        .purpose =
            "A model of an ONNX file: what became of its nodes, what is trained and what is constant. --out writes it as graph.json and\n"
            "weights.safetensors, whose tensors have the names of the file. Every verb takes the file itself as a model, too.\n"
            "Options of the import stand behind the file: output=NAME of the model's outputs, length=N of sequences, and extents that\n"
            "the file leaves open, by their names: model.onnx:length=64,output=logits.",
        .examples = "  qsync import model.onnx --out model\n  qsync import model.onnx:length=64 --json\n  qsync train --model model.onnx "
                    "--dataset cifar10\n",
        .least = 1,
        .most = 1};
    import_work work = {0};
    option_table table = {0};
    bool done = false;
    int first = 0;
    qs_status status;
    OPTIONS_ADD(&table, option_rows, &work);
    QS_TRY(options_parse(&table, &usage, argc, argv, &first, &done));
    if (done) return QS_OK;
    QS_GOTO(qs_onnx_import(argv[first], 0, false, &work.imported));
    QS_GOTO(qs_fail_within(qs_graph_of_record(&work.imported.graph, &work.graph), "%s", argv[first]));
    QS_GOTO(qs_allocate((size_t)(work.graph->trained_elements + work.graph->frozen_elements), sizeof *work.trained, &work.trained));
    QS_GOTO(qs_allocate((size_t)work.graph->statistics_elements, sizeof *work.statistics, &work.statistics));
    if (work.out) QS_GOTO(files_write(&work, argv[first]));
    if (work.json)
        status = summary_json(&work);
    else
        summary_text(&work);
done:
    free(work.trained);
    free(work.statistics);
    qs_graph_release(work.graph);
    qs_onnx_imported_release(&work.imported);
    return status;
}
