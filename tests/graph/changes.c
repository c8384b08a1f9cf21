// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Changes behind a model's text: another head, dropout, another loss; all that they leave alone stays what it was, names say them, and a
 * file that holds a changed model is that model. */
#include "kit/folder.h"
#include "kit/kit.h"

#include "qsync/graph.h"

static qs_graph *opened(const char *text) {
    qs_graph *graph = NULL;
    if (qs_model_open(text, NULL, &graph) != QS_OK) fail_msg("%s: %s", text, qs_message());
    return graph;
}

static const qs_parameter *parameter(const qs_graph *graph, const char *name) {
    for (int i = 0; i < graph->parameters; i++)
        if (strcmp(graph->parameter[i].name, name) == 0) return &graph->parameter[i];
    fail_msg("%s has no %s", graph->name, name);
    return NULL;
}

TEST(texts) {
    char text[128], again[128];
    assert_string_equal(qs_model_changes("a+b.json+head=10+loss=span"), "+head=10+loss=span");
    assert_string_equal(qs_model_changes("resnet8:width=0.5"), "");
    assert_true(qs_model_is_file("a.json+dropout=0.1@x") && !qs_model_is_file("resnet8+head=3") && !qs_model_is_file("a.json.txt"));
    assert_ok(qs_model_change("a.json", "dropout", "0.1@b*,c", sizeof text, text));
    assert_string_equal(text, "a.json+dropout=0.1@b*,c");
    assert_ok(qs_model_change(text, "head", "7", sizeof again, again));
    assert_string_equal(again, "a.json+head=7+dropout=0.1@b*,c");
    assert_ok(qs_model_change(again, "head", "8", sizeof text, text));
    assert_string_equal(text, "a.json+head=8+dropout=0.1@b*,c");
    assert_true(qs_model_has_new_head(text) && !qs_model_has_new_head("a.json+loss=span"));
    assert_refused(qs_model_change("a.json+head=7+head=8", "head", "9", sizeof text, text), QS_USAGE, "+head=7 and +head=8");
    assert_refused(qs_model_change("a.json", "tail", "7", sizeof text, text), QS_USAGE, "head, loss and dropout");
    assert_refused(qs_model_change("a.json", "loss", "x+head=2", sizeof text, text), QS_USAGE, "another change");
    assert_refused(qs_model_change("a.json", "head", "123", 10, text), QS_USAGE, "longer than 9");
}

TEST(head) {
    qs_graph *plain = opened("resnet8"), *other = opened("resnet8+head=3");
    char first[32], second[32];
    assert_string_equal(other->name, "resnet8+head=3");
    assert_int_equal(other->samples.target.classes, 3);
    assert_int_equal(other->nodes, plain->nodes);
    assert_int_equal(qs_graph_head(other), qs_graph_find(other, "fc"));
    assert_int_equal(parameter(other, "fc.weights")->shape.dim[0], 3);
    assert_true(parameter(other, "fc.weights")->gain == 1);
    assert_string_not_equal(qs_graph_signature(plain, first), qs_graph_signature(other, second));
    float *before = calloc((size_t)plain->trained_elements, sizeof *before),
          *after = calloc((size_t)other->trained_elements, sizeof *after);
    float *statistics = calloc((size_t)plain->statistics_elements, sizeof *statistics);
    qs_graph_initialize(plain, 5, before, statistics);
    qs_graph_initialize(other, 5, after, statistics);
    for (int i = 0; i < plain->parameters; i++) {
        const qs_parameter *one = &plain->parameter[i];
        if (one->gradient == QS_ROLE_COUNT || strncmp(one->name, "fc.", 3) == 0) continue;
        assert_memory_equal(before + one->offset, after + parameter(other, one->name)->offset,
                            (size_t)qs_shape_count(&one->shape) * sizeof *before);
    }
    free(before);
    free(after);
    free(statistics);
    qs_graph_release(plain);
    qs_graph_release(other);
}

/* A tied output layer gets weights of its own; transformers keep their start values. */
TEST(tied_head) {
    qs_graph *plain = opened("gpt2:layers=1,hidden=32,heads=4,vocab=50,positions=20"),
             *other = opened("gpt2:layers=1,hidden=32,heads=4,vocab=50,positions=20+head=60");
    const int head = qs_graph_head(other);
    assert_int_equal(other->node[head].table, 0);
    assert_int_equal(other->samples.target.classes, 60);
    assert_int_equal(other->samples.target.kind, QS_TARGET_CLASS_PER_POSITION);
    assert_int_equal(other->samples.target.extent, plain->samples.target.extent);
    assert_int_equal(other->parameters, plain->parameters + 1);
    for (int i = 0; i < plain->parameters; i++)
        assert_true(plain->parameter[i].gain == parameter(other, plain->parameter[i].name)->gain);
    qs_graph_release(plain);
    qs_graph_release(other);
}

TEST(dropout) {
    qs_graph *plain = opened("resnet8"), *before_head = opened("resnet8+dropout=0.25"),
             *behind = opened("resnet8+dropout=0.5@stage?.*.add");
    const int head = qs_graph_head(before_head), drop = before_head->node[head].input[0];
    assert_int_equal(before_head->nodes, plain->nodes + 1);
    assert_ptr_equal(before_head->node[drop].op, qs_op_of("dropout"));
    assert_true(before_head->node[drop].attributes.probability == 0.25 && before_head->node[drop].attributes.batched);
    int dropouts = 0, adds = 0;
    for (int n = behind->samples.inputs; n < behind->nodes; n++) {
        const qs_node *node = &behind->node[n];
        adds += node->op == qs_op_of("add");
        dropouts += node->op == qs_op_of("dropout");
        for (int i = 0; i < node->inputs; i++) /* nobody reads past it */
            assert_true(behind->node[node->input[i]].op != qs_op_of("add") || node->op == qs_op_of("dropout"));
    }
    assert_true(adds > 0 && adds == dropouts);
    qs_graph_release(plain);
    qs_graph_release(before_head);
    qs_graph_release(behind);
    qs_graph *had = opened("alexnet"), *set = opened("alexnet+dropout=0.125@dropout*");
    assert_int_equal(had->nodes, set->nodes);
    assert_true(set->node[qs_graph_find(set, "dropout1")].attributes.probability == 0.125);
    qs_graph_release(had);
    qs_graph_release(set);
    qs_graph *both = opened("resnet8+dropout=0.5@stem.conv,stem.c*"); /* two patterns fit it */
    const int first = qs_graph_find(both, "stem.conv.dropout");
    assert_true(first > 0);
    assert_string_equal(both->node[both->node[first].input[0]].name, "stem.conv");
    qs_graph_release(both);
}

TEST(loss) {
    qs_graph *mse = opened("resnet8+head=4+loss=mse");
    assert_int_equal(mse->samples.target.kind, QS_TARGET_REAL);
    assert_int_equal(mse->samples.target.extent, 4);
    assert_ptr_equal(mse->node[mse->nodes - 1].op, qs_op_of("squared_loss"));
    qs_graph_release(mse);
    qs_graph *span = opened("gpt2:layers=1,hidden=32,heads=4,vocab=50,positions=20+head=2+loss=span");
    assert_int_equal(span->samples.target.kind, QS_TARGET_SPAN);
    assert_int_equal(span->samples.target.extent, 20);
    qs_graph_release(span);
    const qs_samples real = {
        .unit = "images", .inputs = 1, .input = {qs_input_image(32, 32, 3)}, .target = {.kind = QS_TARGET_REAL, .extent = 4}};
    qs_graph *graph = NULL;
    assert_ok(qs_model_open("resnet8+head=4+loss=mse", &real, &graph));
    qs_graph_release(graph);
    assert_refused(qs_model_open("resnet8+head=5+loss=mse", &real, &graph), QS_MISMATCH, "5 numbers");
}

/* Written and read again it is the same; a change of it is one more. */
TEST(files) {
    char folder[FOLDER_PATH], path[FOLDER_PATH + 32], text[FOLDER_PATH + 64], first[32], second[32];
    folder_make(folder);
    qs_graph *made = opened("resnet8+head=3+dropout=0.1"), *read;
    snprintf(path, sizeof path, "%s/graph.json", folder);
    assert_ok(qs_graph_write(made, path));
    read = opened(path);
    assert_string_equal(qs_graph_signature(made, first), qs_graph_signature(read, second));
    assert_string_equal(read->name, "resnet8+head=3+dropout=0.1");
    qs_graph_release(read);
    snprintf(text, sizeof text, "%s+head=5", path);
    read = opened(text);
    assert_int_equal(read->samples.target.classes, 5);
    assert_int_equal(read->nodes, made->nodes);
    qs_graph_release(read);
    qs_graph_release(made);
    folder_remove(folder);
}

TEST(refusals) {
    static const char *const wrong[][2] = {{"resnet8+head=0", "--head 0: must be a number of outputs"},
                                           {"resnet8+head=ten", "must be a number of outputs"},
                                           {"resnet8+loss=l1", "there are cross-entropy, token, span, mse"},
                                           {"resnet8+loss=token", "the loss of the target"},
                                           {"resnet8+dropout=1", "0 <= P < 1"},
                                           {"resnet8+dropout=0.1:conv", "must be P or P@PATTERNS"},
                                           {"resnet8+dropout=0.1@", "no operator has a name like \"\""},
                                           {"resnet8+dropout=0.1@conv9*", "no operator has a name like \"conv9*\""},
                                           {"resnet8+dropout=0.1@stem.conv,fc,stem.conv", "the pattern \"stem.conv\" stands there twice"},
                                           {"resnet8+head=3+head=4", "+head=3 and +head=4: a model is changed so once"},
                                           {"resnet8+dropout=0.1+head=3+dropout=0.1", "+dropout=0.1 and +dropout=0.1: a model"}};
    qs_graph *graph = NULL;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_refused(qs_model_open(wrong[i][0], NULL, &graph), QS_USAGE, wrong[i][1]);
}

TEST_MAIN(texts, head, tied_head, dropout, loss, files, refusals)
