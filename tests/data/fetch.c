// SPDX-License-Identifier: Apache-2.0
// labels: short
/* tools/fetch-data.sh: arguments, a local mirror, wrong sums, taking up a partial download, texts. Nothing here touches a network. */
#include "files.h"

#include <sys/wait.h>

static char script[1024];

static int setup(void **state) {
    const char *source = getenv("QS_SOURCE");
    if (!source) return -1;
    snprintf(script, sizeof script, "%s/tools/fetch-data.sh", source);
    return folder_setup(state);
}

/* Exit code of the script run with `arguments` and the mirror (NULL: none); *output gets what it says. */
static int run(const char *mirror, const char *arguments, char output[16384]) {
    char command[4096];
    snprintf(command, sizeof command, "QSYNC_DATA_MIRROR='%s' sh '%s' %s 2>&1", mirror ? mirror : "", script, arguments);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t got = fread(output, 1, 16383, pipe);
    output[got] = '\0';
    int status = pclose(pipe);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void expect_output(const char *output, const char *part) {
    if (!strstr(output, part)) fail_msg("output lacks '%s': %s", part, output);
}

static bool exists(const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", test_folder, name);
    return access(path, F_OK) == 0;
}

TEST(explains_itself) {
    char output[16384];
    assert_int_equal(run(NULL, "--help", output), 0);
    expect_output(output, "Usage: fetch-data.sh");
    expect_output(output, "QSYNC_DATA_MIRROR");
}

TEST(refuses_wrong_usage) {
    char output[16384];
    assert_int_equal(run(NULL, "", output), 2);
    expect_output(output, "FOLDER is missing");
    assert_int_equal(run(NULL, "--fast folder", output), 2);
    expect_output(output, "unknown option '--fast'");
    assert_int_equal(run(NULL, "folder mnist emnist", output), 2);
    expect_output(output, "unknown set 'emnist'; there are: images texts mnist fashion-mnist cifar10 cifar100 sst2 ag_news ");
}

/* What has another sum is dropped: neither the file nor a part of it stays. */
TEST(drops_wrong_sums) {
    char output[16384], mirror[300], arguments[400];
    unsigned char wrong[] = "not the digits";
    subfolder_make("mirror");
    file_write("mirror/train-images-idx3-ubyte.gz", (bytes){wrong, sizeof wrong});
    snprintf(mirror, sizeof mirror, "file://%s/mirror", test_folder);
    snprintf(arguments, sizeof arguments, "'%s/wrong' mnist", test_folder);
    assert_int_equal(run(mirror, arguments, output), 1);
    expect_output(output, "mnist: train-images-idx3-ubyte.gz has sum ");
    expect_output(output, "must be 440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609; dropped");
    expect_output(output, "could not fetch file://");
    expect_output(output, "not complete: mnist");
    assert_false(exists("wrong/mnist/train-images-idx3-ubyte.gz"));
    assert_false(exists("wrong/mnist/train-images-idx3-ubyte.gz.part"));
    file_write("mirror/vocab.txt", (bytes){wrong, sizeof wrong});
    snprintf(arguments, sizeof arguments, "'%s/wrong' minilm", test_folder);
    assert_int_equal(run(mirror, arguments, output), 1);
    expect_output(output, "minilm: vocab.txt has sum ");
    expect_output(output, "not complete: minilm");
    assert_false(exists("wrong/minilm/vocab.txt"));
}

/* A whole mirror of MNIST; what has come is loadable and not fetched again, what is damaged is. */
TEST(fetches_and_repairs) {
    char output[16384], mirror[600], arguments[400], folder[300];
    const char *shared = getenv("QS_TEST_SHARED");
    qs_dataset set;
    snprintf(mirror, sizeof mirror, "%s/data", shared ? shared : "");
    if (!shared || access(mirror, F_OK) != 0) skip();
    snprintf(folder, sizeof folder, "%s/sets", test_folder);
    snprintf(arguments, sizeof arguments, "'%s' mnist", folder);
    if (run(mirror, arguments, output) != 0) fail_msg("%s", output);
    assert_ok(qs_dataset_load("mnist", folder, QS_PART_TEST, 0, &set));
    assert_int_equal(set.count, 10000);
    qs_dataset_release(&set);

    unsigned char damage[] = "damage";
    file_write("sets/mnist/t10k-labels-idx1-ubyte.gz", (bytes){damage, sizeof damage});
    assert_int_equal(qs_dataset_load("mnist", folder, QS_PART_TEST, 0, &set), QS_BAD_FILE);
    assert_int_equal(run(mirror, arguments, output), 0);
    expect_output(output, "train-images-idx3-ubyte.gz is there");
    expect_output(output, "/t10k-labels-idx1-ubyte.gz\n");
    assert_ok(qs_dataset_load("mnist", folder, QS_PART_TEST, 0, &set));
    qs_dataset_release(&set);
}

/* Every set of texts, out of a mirror that has one of the files gzipped, is laid out as the loaders find it, vocabularies included. */
TEST(fetches_texts) {
    static const struct {
        const char *name;
        int64_t count; /* of its test part: docs/data.md; 0: running text, cut as the vocabulary says */
    } sets[] = {{"sst2", 872}, {"ag_news", 7600}, {"mr", 0},   {"banking77", 3080}, {"clinc150", 4500},
                {"squad", 0},  {"wnut17", 1287},  {"piqa", 0}, {"wikitext2", 0},    {"tinyshakespeare", 0}};
    char output[16384], mirror[600], arguments[400], folder[300];
    const char *shared = getenv("QS_TEST_SHARED");
    snprintf(mirror, sizeof mirror, "%s/data", shared ? shared : "");
    if (!shared || access(mirror, F_OK) != 0) skip();
    snprintf(folder, sizeof folder, "%s/texts", test_folder);
    snprintf(arguments, sizeof arguments, "'%s' texts models/stories260K", folder);
    if (run(mirror, arguments, output) != 0) fail_msg("%s", output);
    for (size_t i = 0; i < COUNT_OF(sets); i++) {
        for (int part = 0; part < 2; part++) {
            qs_dataset set;
            assert_ok(qs_dataset_load(sets[i].name, folder, part ? QS_PART_TEST : QS_PART_TRAINING, 0, &set));
            assert_true(set.count > 0);
            if (part && sets[i].count) assert_int_equal(set.count, sets[i].count);
            qs_dataset_release(&set);
        }
    }
    assert_true(exists("texts/models/stories260K/tok512.bin"));
}

TEST_MAIN_WITH(setup, folder_teardown, explains_itself, refuses_wrong_usage, drops_wrong_sums, fetches_and_repairs, fetches_texts)
