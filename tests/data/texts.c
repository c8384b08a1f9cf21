// SPDX-License-Identifier: Apache-2.0
// labels: short
// covers: sst2 ag_news mr banking77 clinc150 tinyshakespeare wikitext2 text
/* Sets of texts: what samples are, without and with their files; options; samples of small files by hand; files that break the rules; and
 * the published sets, where they are at hand. */
#include "texts.h"

static void expect_sample(const qs_dataset *set, int64_t sample, int32_t class, int count, const int32_t *ids) {
    const int32_t *id = (const int32_t *)set->input[0] + sample * length, *type = (const int32_t *)set->input[1] + sample * length,
                  *keep = (const int32_t *)set->input[2] + sample * length;
    assert_int_equal(set->length[sample], count);
    assert_int_equal(classes_of(set)[sample], class);
    for (int i = 0; i < length; i++) {
        assert_int_equal(id[i], i < count ? ids[i] : PAD);
        assert_int_equal(type[i], 0);
        assert_int_equal(keep[i], i < count);
    }
}

#define expect_ids(set, sample, class, ...) \
    expect_sample(set, sample, class, (int)(sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t)), (const int32_t[]){__VA_ARGS__})

/* ---- What samples are ---- */

TEST(is_described_without_files) {
    qs_data_description is;
    assert_ok(qs_dataset_describe("sst2", "/nowhere", &is));
    assert_string_equal(is.samples.unit, "sentences");
    assert_int_equal(is.samples.inputs, 3);
    static const char *const names[] = {"ids", "types", "keep"};
    for (int i = 0; i < 3; i++) {
        const qs_input *input = &is.samples.input[i];
        assert_string_equal(input->name, names[i]);
        assert_int_equal(input->type, QS_INPUT_I32);
        assert_int_equal(input->rank, 1);
        assert_int_equal(input->extent[0], 128);
        assert_true(input->varies);
        assert_int_equal(input->bound, i == 0 ? 30522 : 2);
    }
    assert_int_equal(is.samples.target.kind, QS_TARGET_CLASS);
    assert_int_equal(is.samples.target.classes, 2);
    assert_ok(qs_dataset_describe("clinc150:length=32", NULL, &is));
    assert_int_equal(is.samples.input[0].extent[0], 32);
    assert_int_equal(is.samples.target.classes, 150);
    assert_ok(qs_dataset_describe("tinyshakespeare:vocab=bytes,length=64", NULL, &is));
    assert_int_equal(is.samples.inputs, 1);
    assert_false(is.samples.input[0].varies);
    assert_int_equal(is.samples.target.kind, QS_TARGET_CLASS_PER_POSITION);
    assert_int_equal(is.samples.target.extent, 64);
    assert_int_equal(is.samples.target.classes, 256);
    assert_true(is.samples.target.ignored < 0);
    assert_ok(qs_dataset_describe("wikitext2", NULL, &is));
    assert_int_equal(is.samples.target.classes, 50257);
    assert_int_equal(is.samples.target.extent, 256);
}

TEST(options_are_checked) {
    static const struct {
        const char *name, *part;
    } wrong[] = {{"sst2:length=7", "length=7, must be 8 to 65536"},
                 {"sst2:length=12x", "length=12x"},
                 {"sst2:size=3", "option 'size=3'"},
                 {"sst2:stride=64", "option 'stride=64'"},
                 {"sst2:vocab=bytes,vocab=bytes", "'vocab=bytes'"},
                 {"text", "must be text:FILE"},
                 {"text:length=64", "must be text:FILE"},
                 {"mnist:length=64", "mnist takes no options"},
                 {"sst3", "sst2, ag_news, mr, banking77, clinc150"}};
    qs_data_description is;
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        assert_refused(qs_dataset_describe(wrong[i].name, test_folder, &is), QS_USAGE, wrong[i].part);
    assert_refused(qs_dataset_describe("sst2:vocab=nothing.txt", test_folder, &is), QS_BAD_FILE, "nothing.txt");
    qs_dataset set;
    subfolder_make("vocab");
    subfolder_make("vocab/bert-uncased");
    write_text("vocab/bert-uncased/vocab.txt", vocabulary);
    assert_refused(qs_dataset_load("sst2", test_folder, QS_PART_TEST, 0, &set), QS_BAD_FILE,
                   "11 pieces, the vocabulary of that name has 30522");
}

/* ---- Sentences ---- */

TEST(sst2_by_hand) {
    qs_dataset set;
    subfolder_make("sst2");
    write_text("sst2/dev.tsv", "label\tsentence\r\n1\tA good film\r\n\r\n0\tbad\xFF, bad\r\n1\t\x01\r\n0\ta a a a a a a a a a a a a bad");
    assert_ok(load_small("sst2", QS_PART_TEST, &set));
    assert_int_equal(set.count, 3); /* a line without pieces is left out, as an empty one is */
    expect_ids(&set, 0, 1, CLS, A, GOOD, FILM, SEP);
    expect_ids(&set, 1, 0, CLS, BAD, COMMA, BAD, SEP);
    expect_ids(&set, 2, 0, CLS, A, A, A, A, A, A, A, A, A, A, SEP); /* cut to the length */
    qs_dataset_release(&set);
    write_text("sst2/dev.tsv", "label\tsentence\n2\tgood\n");
    refused("sst2", QS_PART_TEST, "sst2/dev.tsv: line 2: '2\tgood'");
    write_text("sst2/dev.tsv", "label\tsentence\n1 good\n");
    refused("sst2", QS_PART_TEST, "line 2: '1 good'");
    write_text("sst2/dev.tsv", "label\tsentence\n");
    refused("sst2", QS_PART_TEST, "no sentences");
    refused("sst2", QS_PART_TRAINING, "no file train.tsv");
}

static char last_line[512];

static void line_keep(void *context, qs_log_level level, const char *line) {
    (void)context, (void)level;
    snprintf(last_line, sizeof last_line, "%s", line);
}

/* What was cut, left out or no UTF-8 is not refused, and is said. In the folder that sst2_by_hand made. */
TEST(what_does_not_fit_is_counted) {
    qs_dataset set;
    write_text("sst2/dev.tsv", "label\tsentence\n1\tgood\n\n0\tbad \xFF\xFE film\n1\t \n0\ta a a a a a a a a a a a\n");
    qs_log_set(line_keep, NULL);
    const qs_status status = load_small("sst2", QS_PART_TEST, &set);
    qs_log_set(NULL, NULL);
    assert_ok(status);
    assert_int_equal(set.count, 3);
    if (!strstr(last_line, "sst2, test part: 1 of 3 sentences cut to 12 pieces, 2 empty lines left out, 2 bytes were no UTF-8"))
        fail_msg("%s", last_line);
    qs_dataset_release(&set);
}

TEST(ag_news_by_hand) {
    qs_dataset set;
    subfolder_make("ag_news");
    write_text("ag_news/dev-from-train.tsv", "good film\tSports\n\"a \"\"bad\"\" film\"\tWorld\n");
    write_text("ag_news/test.csv", "\"4\",\"a\nfilm\",\"good, \"\"bad\"\"\"\r\n1,a,bad\n\n\"3\",\"\",\"film\"");
    assert_ok(load_small("ag_news", QS_PART_TRAINING, &set));
    assert_int_equal(set.count, 2);
    expect_ids(&set, 0, 1, CLS, GOOD, FILM, SEP);
    expect_ids(&set, 1, 0, CLS, A, QUOTE, BAD, QUOTE, FILM, SEP);
    qs_dataset_release(&set);
    assert_ok(load_small("ag_news", QS_PART_TEST, &set));
    assert_int_equal(set.count, 3);
    expect_ids(&set, 0, 3, CLS, GOOD, COMMA, QUOTE, BAD, QUOTE, SEP);
    expect_ids(&set, 1, 0, CLS, BAD, SEP);
    expect_ids(&set, 2, 2, CLS, FILM, SEP);
    qs_dataset_release(&set);
    write_text("ag_news/test.csv", "1,\"a\nb\",c\n2,a,b,c\n");
    refused("ag_news", QS_PART_TEST, "ag_news/test.csv: line 3: more than 3 fields");
    write_text("ag_news/test.csv", "1,a,\"b\n\n");
    refused("ag_news", QS_PART_TEST, "line 1: a quote is opened");
    write_text("ag_news/test.csv", "1,\"a\"b,c\n");
    refused("ag_news", QS_PART_TEST, "'b' behind a closing quote");
    write_text("ag_news/test.csv", "5,a,b\n");
    refused("ag_news", QS_PART_TEST, "the first '5'");
    write_text("ag_news/dev-from-train.tsv", "good\tSport\n");
    refused("ag_news", QS_PART_TRAINING, "line 1: 'Sport'");
}

TEST(mr_by_hand) {
    enum { lines = 40 };
    qs_dataset set[2];
    char text[2000] = "";
    subfolder_make("mr");
    for (int i = 0; i < lines; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "bad \xE9 \n");
    write_text("mr/rt-polarity.neg", text);
    write_text("mr/rt-polarity.pos", "good\ngood\n");
    for (int part = 0; part < 2; part++)
        assert_ok(load_small("mr", (qs_part)part, &set[part]));
    assert_int_equal(set[0].count + set[1].count, lines + 2); /* every sentence is in one part */
    assert_true(set[1].count >= 1 && set[1].count < lines / 3);
    const int64_t last = set[0].count - 1;
    expect_ids(&set[0], last, 0, CLS, BAD, 1, SEP); /* e with an accent, in UTF-8: a piece e, which is unknown */
    for (int part = 0; part < 2; part++)
        qs_dataset_release(&set[part]);
}

TEST(banking77_by_hand) {
    qs_dataset set;
    char names[2000] = "[\"first\"";
    subfolder_make("banking77");
    for (int i = 1; i < 77; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), ", \"name %d\"", i);
    write_text("banking77/categories.json", strcat(names, "]"));
    write_text("banking77/test.csv", "text,category\n\"a, film\",name 76\ngood,first\n");
    assert_ok(load_small("banking77", QS_PART_TEST, &set));
    expect_ids(&set, 0, 76, CLS, A, COMMA, FILM, SEP);
    expect_ids(&set, 1, 0, CLS, GOOD, SEP);
    qs_dataset_release(&set);
    write_text("banking77/test.csv", "text,category\n\"a\nb\",name 77\n");
    refused("banking77", QS_PART_TEST, "test.csv: line 2: category 'name 77' is not in");
    write_text("banking77/categories.json", "[\"first\"]");
    refused("banking77", QS_PART_TEST, "1 names, must be a list of 77");
    write_text("banking77/categories.json", "[\"first\"");
    refused("banking77", QS_PART_TEST, "categories.json: line 1");
}

TEST(clinc150_by_hand) {
    qs_dataset set;
    static char json[20000] = "{\"train\": [";
    subfolder_make("clinc150");
    for (int i = 0; i < 150; i++)
        snprintf(json + strlen(json), sizeof json - strlen(json), "%s[\"good\", \"i%03d\"]", i ? ", " : "", 149 - i);
    const size_t train = strlen(json);
    snprintf(json + train, sizeof json - train, "], \"test\": [[\"bad film\", \"i007\"]], \"oos_test\": [[\"a\", \"oos\"]]}");
    write_text("clinc150/data_full.json", json);
    assert_ok(load_small("clinc150", QS_PART_TRAINING, &set));
    assert_int_equal(set.count, 150);
    assert_int_equal(classes_of(&set)[0], 149);
    qs_dataset_release(&set);
    assert_ok(load_small("clinc150", QS_PART_TEST, &set));
    assert_int_equal(set.count, 1);
    expect_ids(&set, 0, 7, CLS, BAD, FILM, SEP);
    qs_dataset_release(&set);
    snprintf(json + train, sizeof json - train, "], \"test\": [[\"bad film\", \"oos\"]]}");
    write_text("clinc150/data_full.json", json);
    refused("clinc150", QS_PART_TEST, "test[0]: intent 'oos'");
    snprintf(json + train, sizeof json - train, ", [\"a\"]], \"test\": []}");
    write_text("clinc150/data_full.json", json);
    refused("clinc150", QS_PART_TEST, "train[150]: must be [text, intent]");
}

/* ---- Language ---- */

TEST(running_text_by_hand) {
    qs_dataset set;
    char name[300], text[101];
    for (int i = 0; i < 100; i++)
        text[i] = (char)(i % 90 + 33);
    text[100] = '\0';
    write_text("running.txt", text);
    snprintf(name, sizeof name, "text:%s/running.txt,vocab=bytes,length=8", test_folder);
    assert_ok(qs_dataset_load(name, NULL, QS_PART_TRAINING, 0, &set));
    assert_int_equal(set.count, (90 - 1) / 8);
    assert_null(set.length);
    for (int64_t i = 0; i < set.count * 8; i++) {
        assert_int_equal(((const int32_t *)set.input[0])[i], text[i]);
        assert_int_equal(((const int32_t *)set.target)[i], text[i + 1]);
    }
    qs_dataset_release(&set);
    assert_ok(qs_dataset_load(name, NULL, QS_PART_TEST, 0, &set));
    assert_int_equal(set.count, 1); /* ten bytes: eight, and one that follows */
    assert_int_equal(((const int32_t *)set.input[0])[0], text[90]);
    qs_dataset_release(&set);
    assert_ok(qs_dataset_load(name, NULL, QS_PART_TRAINING, 3, &set));
    assert_int_equal(set.count, 3);
    qs_dataset_release(&set);
    snprintf(name, sizeof name, "text:%s/running.txt,vocab=bytes,length=16", test_folder);
    expect_bad_file(name, NULL, QS_PART_TEST, "10 pieces", "length=16");
    snprintf(name, sizeof name, "text:%s/nothing.txt,vocab=bytes", test_folder);
    expect_bad_file(name, NULL, QS_PART_TEST, "nothing.txt");
}

/* ---- The published sets ---- */

TEST(published_sets) {
    static const struct {
        const char *name;
        int64_t count[2];
    } sets[] = {{"sst2:length=32", {67349, 872}}, {"ag_news", {10001, 7600}}, {"banking77", {10003, 3080}},
                {"clinc150", {15000, 4500}},      {"mr", {-1, -1}},           {"wikitext2:vocab=bytes", {4381, 4908}},
                {"tinyshakespeare", {-1, -1}}};
    char folder[512];
    struct stat facts;
    const char *shared = getenv("QS_TEST_SHARED");
    snprintf(folder, sizeof folder, "%s/data/text", shared ? shared : "");
    if (!shared || stat(folder, &facts) != 0) skip();
    snprintf(folder, sizeof folder, "%s/data", shared);
    for (size_t i = 0; i < COUNT_OF(sets); i++) {
        int64_t both = 0;
        for (int part = 0; part < 2; part++) {
            qs_dataset set;
            assert_ok(qs_dataset_load(sets[i].name, folder, (qs_part)part, 0, &set));
            if (sets[i].count[part] >= 0 && set.count != sets[i].count[part])
                fail_msg("%s, part %d: %lld samples", sets[i].name, part, (long long)set.count);
            both += set.count;
            const qs_target *target = &set.description.samples.target;
            for (int64_t k = 0; k < set.count * target->extent; k++)
                assert_in_range(((const int32_t *)set.target)[k], 0, target->classes - 1);
            qs_dataset_release(&set);
        }
        if (strcmp(sets[i].name, "mr") == 0) assert_int_equal(both, 10662);
    }
}

TEST_MAIN_WITH(texts_setup, folder_teardown, is_described_without_files, options_are_checked, sst2_by_hand, what_does_not_fit_is_counted,
               ag_news_by_hand, mr_by_hand, banking77_by_hand, clinc150_by_hand, running_text_by_hand, published_sets)
