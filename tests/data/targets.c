// SPDX-License-Identifier: Apache-2.0
// labels: short
// covers: wnut17 squad piqa
/* Sets of texts with other targets: tags of words, spans of texts, choices; small files by hand, files that break the
 * rules, and the published sets, where they are at hand. */
#include "texts.h"

static const int32_t *ids_at(const qs_dataset *set, int64_t sample) {
    return (const int32_t *)set->input[0] + sample * length;
}

static void expect_values(const int32_t *got, const int32_t *expected, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (got[i] != expected[i]) fail_msg("value %zu is %d, expected %d", i, got[i], expected[i]);
}

#define expect(got, ...) expect_values(got, (const int32_t[]){__VA_ARGS__}, sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

/* ---- Tags ---- */

TEST(tags_stand_at_the_first_pieces_of_words) {
    qs_dataset set;
    subfolder_make("wnut17");
    write_text("wnut17/wnut17train.conll", "good\tO\n\"a\"\tB-person\nfilm\tI-person\n\t\n\nbad\tI-corporation\n\x01\tB-product");
    assert_ok(load_small("wnut17", QS_PART_TRAINING, &set));
    assert_int_equal(set.count, 2);
    assert_int_equal(set.description.samples.target.classes, 13);
    assert_string_equal(set.description.tag[9], "B-person");
    assert_int_equal(set.length[0], 7);
    expect(ids_at(&set, 0), CLS, GOOD, QUOTE, A, QUOTE, FILM, SEP, PAD);
    expect(classes_of(&set), -1, 0, 9, -1, -1, 10, -1, -1, -1, -1, -1, -1);
    expect(ids_at(&set, 1), CLS, BAD, UNK, SEP, PAD); /* a word without pieces is unknown: it keeps its tag */
    expect(classes_of(&set) + length, -1, 2, 11, -1);
    const int64_t both[] = {0, 1};
    assert_int_equal(qs_dataset_counted(&set, both, 2), 5);
    qs_dataset_release(&set);
    write_text("wnut17/wnut17train.conll", "good\tO\nbad\tB-food\n");
    refused("wnut17", QS_PART_TRAINING, "wnut17train.conll: line 2: 'bad\tB-food'");
    write_text("wnut17/wnut17train.conll", "good O\n");
    refused("wnut17", QS_PART_TRAINING, "line 1: 'good O'");
}

/* ---- Spans ---- */

/* Two articles, one a part. The training text has eight pieces, of which five fit beside a question of three and three roles... */
static const char articles[] =
    "{\"version\": \"1.1\", \"data\": [{\"title\": \"t\", \"paragraphs\": [{\"context\": \"a \\u00c9 bad, a film \\\"good\\\"\", \"qas\": "
    "[{\"id\": \"1\", \"question\": \"a bad film\", \"answers\": [{\"text\": \"film\", \"answer_start\": 11}, {\"text\": \"a film\", "
    "\"answer_start\": 9}]}]}]},"
    "{\"title\": \"u\", \"paragraphs\": [{\"context\": \"The good, bad film\", \"qas\": [{\"id\": \"2\", \"question\": \"bad\", "
    "\"answers\": "
    "[{\"text\": \"good, bad\", \"answer_start\": 4}]}]}]}]}";

TEST(long_texts_are_shown_in_windows) {
    qs_dataset set;
    subfolder_make("squad");
    write_text("squad/dev-v1.1.json", articles);
    assert_ok(load_small("squad", QS_PART_TRAINING, &set));
    /* Pieces of the text: a e bad , a film " good ". Beside three of the question and three roles there is room for six; stride 12 / 3. */
    assert_int_equal(set.count, 2);
    expect(ids_at(&set, 0), CLS, A, BAD, FILM, SEP, A, UNK, BAD, COMMA, A, FILM, SEP);
    expect((const int32_t *)set.input[1], 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1);
    expect(ids_at(&set, 1), CLS, A, BAD, FILM, SEP, A, FILM, QUOTE, GOOD, QUOTE, SEP, PAD);
    expect(set.target, 10, 10, 6, 6);
    qs_dataset_release(&set);
    char name[800];
    snprintf(name, sizeof name, "squad:%s,stride=8", small);
    assert_ok(qs_dataset_load(name, test_folder, QS_PART_TRAINING, 0, &set));
    expect(ids_at(&set, 1), CLS, A, BAD, FILM, SEP, QUOTE, GOOD, QUOTE, SEP); /* no farther than what was shown */
    expect(set.target, 10, 10, 0, 0);                                         /* the second window lacks the answer */
    qs_dataset_release(&set);
}

/* The text that positions first .. last of a sample stand for, beside the true answers. */
static void expect_scores(const qs_dataset *set, int64_t sample, int64_t first, int64_t last, double exact, double f1) {
    const qs_answers *answers = set->answers;
    const int64_t row = set->description.samples.target.extent, question = answers->question[sample];
    const int32_t begin = answers->begin[sample * row + first], end = answers->end[sample * row + last];
    double is_exact, is_f1;
    assert_true(end > begin);
    assert_ok(qs_answers_score(answers, question, answers->text[question] + begin, (size_t)(end - begin), &is_exact, &is_f1));
    assert_true(is_exact == exact);
    assert_within(is_f1, f1, 1e-12); /* quotients of small integers */
}

TEST(positions_stand_for_bytes_of_the_text) {
    qs_dataset set;
    write_text("squad/dev-v1.1.json", articles);
    assert_ok(load_small("squad", QS_PART_TEST, &set));
    assert_int_equal(set.count, 1);
    /* CLS bad SEP [UNK] good , bad film SEP: the answer "good, bad" is positions 4 to 6. */
    expect(set.target, 4, 6);
    expect_scores(&set, 0, 4, 6, 1, 1);
    expect_scores(&set, 0, 3, 6, 1, 1); /* "The" does not count */
    expect_scores(&set, 0, 4, 4, 0, 2.0 / 3);
    expect_scores(&set, 0, 7, 7, 0, 0);
    for (int i = 0; i < length; i++)
        assert_int_equal(set.answers->begin[i] < set.answers->end[i], i >= 3 && i <= 7); /* the others stand for none */
    qs_dataset_release(&set);
    assert_ok(load_small("squad", QS_PART_TRAINING, &set));
    assert_int_equal(set.answers->questions, 1);
    assert_int_equal(set.answers->question[1], 0);
    expect_scores(&set, 0, 10, 10, 1, 1);
    expect_scores(&set, 1, 6, 6, 1, 1);
    expect_scores(&set, 1, 5, 6, 1, 1); /* the other true answer */
    expect_scores(&set, 1, 8, 8, 0, 0);
    qs_dataset_release(&set);
}

TEST(broken_answers_are_refused) {
    static const struct {
        const char *from, *to, *part;
    } wrong[] = {{"\"answer_start\": 11", "\"answer_start\": 12", "data[0].paragraphs[0].qas[0]: the context does not have the answer"},
                 {"\"answer_start\": 11", "\"answer_start\": 4000", "the context does not have"},
                 {"\"answer_start\": 11", "\"answer_start\": -1", "the context does not have"},
                 {"\"question\"", "\"Question\"", "no question"},
                 {"\"context\"", "\"Context\"", "no context"},
                 {"\"data\"", "\"Data\"", "must be {\"data\""},
                 {"\"qas\"", "\"qas", "dev-v1.1.json: line 1, column"}};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        char *text = replaced(articles, wrong[i].from, wrong[i].to);
        write_text("squad/dev-v1.1.json", text);
        refused("squad", QS_PART_TRAINING, wrong[i].part);
        free(text);
    }
}

/* ---- Choices ---- */

/* Each solution stands in a sequence of its own, behind the goal. */
TEST(choices_stand_side_by_side) {
    enum { lines = 60 };
    qs_dataset set[2];
    char text[lines * 90] = "", label[2 * lines + 1] = "";
    subfolder_make("piqa");
    for (int i = 0; i < lines; i++) {
        strcat(text, "{\"goal\": \"a film\", \"sol1\": \"good\", \"sol2\": \"bad a a a a a a film film\"}\n");
        strcat(label, i % 2 ? "1\n" : "0\n");
    }
    write_text("piqa/valid.jsonl", text);
    write_text("piqa/valid-labels.lst", label);
    for (int part = 0; part < 2; part++)
        assert_ok(load_small("piqa", (qs_part)part, &set[part]));
    assert_int_equal(set[0].count + set[1].count, lines);
    assert_true(set[1].count > 0 && set[1].count < lines / 3);
    for (int i = 0; i < 3; i++) {
        const qs_input *input = &set[0].description.samples.input[i];
        assert_true(input->rank == 2 && input->extent[0] == 2 && input->extent[1] == length && !input->varies);
    }
    expect((const int32_t *)set[0].input[0], CLS, A, FILM, SEP, GOOD, SEP, PAD, PAD, PAD, PAD, PAD, PAD, CLS, A, FILM, SEP, BAD, A, A, A, A,
           A, A, SEP, CLS); /* the longer part is cut; the next sample */
    expect((const int32_t *)set[0].input[1], 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    expect((const int32_t *)set[0].input[2], 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1);
    for (int part = 0; part < 2; part++)
        qs_dataset_release(&set[part]);
    write_text("piqa/valid-labels.lst", "0\n2\n");
    refused("piqa", QS_PART_TRAINING, "valid-labels.lst: line 2: must be 0 or 1");
    label[2 * lines - 2] = '\0';
    write_text("piqa/valid-labels.lst", label);
    refused("piqa", QS_PART_TRAINING, "must be 0 or 1, for line 60");
    write_text("piqa/valid.jsonl", "{\"goal\": \"a\"}\n");
    refused("piqa", QS_PART_TRAINING, "valid.jsonl: line 1: must have texts");
    write_text("piqa/valid.jsonl", "{\"goal\"\n");
    refused("piqa", QS_PART_TRAINING, "valid.jsonl: line 1:");
}

/* ---- The published sets ---- */

/* What the targets of squad point at has full marks where the window holds the answer. */
TEST(published_sets) {
    char folder[512];
    struct stat facts;
    const char *shared = getenv("QS_TEST_SHARED");
    snprintf(folder, sizeof folder, "%s/data/text", shared ? shared : "");
    if (!shared || stat(folder, &facts) != 0) skip();
    snprintf(folder, sizeof folder, "%s/data", shared);
    static const char *const names[] = {"wnut17", "piqa"};
    static const int64_t counts[][2] = {{3394, 1287}, {-1, -1}};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        int64_t both = 0;
        for (int part = 0; part < 2; part++) {
            qs_dataset set;
            assert_ok(qs_dataset_load(names[i], folder, (qs_part)part, 0, &set));
            if (counts[i][part] >= 0) assert_int_equal(set.count, counts[i][part]);
            both += set.count;
            qs_dataset_release(&set);
        }
        if (i == 1) assert_int_equal(both, 1838);
    }
    int64_t questions = 0;
    for (int part = 0; part < 2; part++) {
        qs_dataset set;
        int64_t held = 0;
        assert_ok(qs_dataset_load("squad", folder, (qs_part)part, 0, &set));
        double exact = 0, f1 = 0;
        for (int64_t i = 0; i < set.count; i++) {
            const int32_t *target = (const int32_t *)set.target + 2 * i;
            const qs_answers *answers = set.answers;
            const int64_t row = set.description.samples.target.extent, question = answers->question[i];
            double here_exact, here_f1;
            if (target[0] == 0) continue;
            const int32_t begin = answers->begin[i * row + target[0]], end = answers->end[i * row + target[1]];
            assert_ok(qs_answers_score(answers, question, answers->text[question] + begin, (size_t)(end - begin), &here_exact, &here_f1));
            held++;
            exact += here_exact;
            f1 += here_f1;
        }
        questions += set.answers->questions;
        assert_true(f1 > 0.99 * (double)held && exact > 0.99 * (double)held && held > 4800);
        qs_dataset_release(&set);
    }
    assert_int_equal(questions, 10570);
}

TEST_MAIN_WITH(texts_setup, folder_teardown, tags_stand_at_the_first_pieces_of_words, long_texts_are_shown_in_windows,
               positions_stand_for_bytes_of_the_text, broken_answers_are_refused, choices_stand_side_by_side, published_sets)
