// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Cluster files: the round trip, sizes and defaults, ranks, the shipped examples, and what is refused. */
#include "record_samples.h"

TEST(round_trip) {
    qs_cluster cluster;
    char *text;
    assert_ok(qs_cluster_parse(cluster_sample, "sample", &cluster));
    assert_ok(qs_cluster_text(&cluster, &text));
    assert_string_equal(text, cluster_sample);
    free(text);
    qs_cluster_release(&cluster);
}

TEST(fields) {
    qs_cluster cluster;
    assert_ok(qs_cluster_parse(cluster_sample, "sample", &cluster));
    assert_int_equal(cluster.classes, 2);
    const qs_class *one = &cluster.class_[1];
    assert_string_equal(one->name, "alpha");
    assert_true(one->inference);
    assert_string_equal(one->isa, "avx2_vnni");
    assert_true(one->speed == 0.8);
    assert_int_equal(one->memory_capacity, INT64_C(2) << 30);
    assert_int_equal(one->memory_limit, 644245094);
    assert_ptr_equal(one->format[1], qs_format_of("int8"));
    assert_int_equal(one->storages, 3);
    assert_string_equal(qs_class_half(one)->name, "bf16");
    assert_true(qs_class_allows_host(one, "edge17"));
    assert_true(qs_class_allows_host(one, "lab-3"));
    assert_false(qs_class_allows_host(one, "lab-33"));
    assert_true(qs_class_allows_host(&cluster.class_[0], "anything"));
    assert_int_equal(cluster.class_[0].memory_limit, 0);
    assert_string_equal(one->device, "t4");
    assert_string_equal(cluster.link[0].between[1], "alpha");
    assert_int_equal(cluster.link[0].bytes_per_second, INT64_C(12500000000));
    assert_true(cluster.link[0].latency_us == 7.5);
    qs_cluster_release(&cluster);
}

TEST(ranks) {
    static const int expected[] = {0, 0, 1, 1, 1};
    qs_cluster cluster;
    int found;
    assert_ok(qs_cluster_parse(cluster_sample, "sample", &cluster));
    assert_int_equal(qs_cluster_ranks(&cluster), 5);
    for (int rank = 0; rank < 5; rank++)
        assert_int_equal(qs_cluster_class_of(&cluster, rank), expected[rank]);
    assert_int_equal(qs_cluster_class_of(&cluster, 5), -1);
    assert_int_equal(qs_cluster_class_of(&cluster, -1), -1);
    assert_ok(qs_cluster_find(&cluster, "alpha", &found));
    assert_int_equal(found, 1);
    assert_refused(qs_cluster_find(&cluster, "beta", &found), QS_USAGE, "zeta, alpha");
    qs_cluster_release(&cluster);
}

TEST(minimal) {
    qs_cluster cluster;
    assert_ok(qs_cluster_parse("{\"schema\":\"qsync/cluster/2\",\"classes\":{\"a\":{\"role\":\"training\",\"backend\":\"ref\","
                               "\"formats\":[\"fp16\",\"fp32\",\"int8\"]}}}",
                               "minimal", &cluster));
    const qs_class *one = &cluster.class_[0];
    assert_int_equal(one->count, 1);
    assert_int_equal(one->threads, 1);
    assert_string_equal(one->isa, "all");
    assert_int_equal(one->storages, 2);
    assert_ptr_equal(qs_class_half(one), qs_format_of("fp16"));
    qs_cluster_release(&cluster);
}

TEST(single) {
    qs_cluster cluster, again;
    char *text;
    assert_ok(qs_cluster_single("ref", 3, &cluster));
    assert_int_equal(qs_cluster_ranks(&cluster), 1);
    assert_int_equal(cluster.class_[0].threads, 3);
    assert_int_equal(cluster.class_[0].memory_limit, 0);
    assert_ok(qs_cluster_text(&cluster, &text));
    assert_ok(qs_cluster_parse(text, "single", &again));
    assert_int_equal(again.class_[0].formats, 3);
    free(text);
    qs_cluster_release(&cluster);
    qs_cluster_release(&again);
    assert_int_equal(qs_cluster_single("ref", 0, &cluster), QS_USAGE);
}

TEST(copies) {
    qs_cluster cluster, copy;
    char *text;
    assert_ok(qs_cluster_parse(cluster_sample, "sample", &cluster));
    assert_ok(qs_cluster_copy(&cluster, &copy));
    cluster.class_[0].count = 7;
    cluster.link[0].latency_us = 1;
    qs_cluster_release(&cluster);
    assert_ok(qs_cluster_text(&copy, &text));
    assert_string_equal(text, cluster_sample);
    free(text);
    qs_cluster_release(&copy);
}

/* The signature says what the cluster is, not how its file is written. */
TEST(signature) {
    qs_cluster one, other;
    char first[32], second[32];
    char *per_cent = replaced(cluster_sample, "\"limit\": 644245094", "\"limit\":\"30%\"");
    char *slower = replaced(cluster_sample, "0.8", "0.7");
    assert_ok(qs_cluster_parse(cluster_sample, "a", &one));
    assert_ok(qs_cluster_parse(per_cent, "b", &other));
    assert_string_equal(qs_cluster_signature(&one, first), qs_cluster_signature(&other, second));
    assert_int_equal(strlen(first), strlen("xxh64:") + 16);
    qs_cluster_release(&other);
    assert_ok(qs_cluster_parse(slower, "c", &other));
    assert_string_not_equal(first, qs_cluster_signature(&other, second));
    qs_cluster_release(&one);
    qs_cluster_release(&other);
    free(per_cent);
    free(slower);
}

static void expect_limit(const char *capacity, const char *limit, int64_t expected) {
    char memory[128];
    snprintf(memory, sizeof memory, "\"capacity\": %s, \"limit\": %s", capacity, limit);
    char *text = replaced(cluster_sample, "\"capacity\": 2147483648, \"limit\": 644245094", memory);
    qs_cluster cluster;
    assert_ok(qs_cluster_parse(text, "sizes", &cluster));
    assert_int_equal(cluster.class_[1].memory_limit, expected);
    qs_cluster_release(&cluster);
    free(text);
}

TEST(sizes) {
    expect_limit("1000", "\"100%\"", 1000);
    expect_limit("1001", "\"12.5%\"", 125);
    expect_limit("\"2GiB\"", "\"644MiB\"", INT64_C(644) << 20);
    expect_limit("\"2 GB\"", "\"1.5 kB\"", 1500);
    expect_limit("\"4096\"", "\"2KiB\"", 2048);
    expect_limit("\"1TiB\"", "1", 1);
}

/* A part that is lent is the speed and the limit that it stands for; either may say otherwise. */
static void expect_share(const char *fields, double speed, int64_t limit) {
    char *text = replaced(cluster_sample, "\"speed\": 0.8,\n      \"memory\": {\"capacity\": 2147483648, \"limit\": 644245094}", fields);
    qs_cluster cluster;
    assert_ok(qs_cluster_parse(text, "share", &cluster));
    assert_true(cluster.class_[1].speed == speed);
    assert_int_equal(cluster.class_[1].memory_limit, limit);
    qs_cluster_release(&cluster);
    free(text);
}

TEST(shares) {
    expect_share("\"memory\": {\"capacity\": 1000}", 1, 1000);
    expect_share("\"share\": \"30%\", \"memory\": {\"capacity\": 1000}", 0.3, 300);
    expect_share("\"share\": 0.25", 0.25, 0);
    expect_share("\"share\": 0.25, \"speed\": \"50%\", \"memory\": {\"capacity\": 1000}", 0.5, 250);
    expect_share("\"share\": 0.25, \"memory\": {\"capacity\": 1000, \"limit\": \"100%\"}", 0.25, 1000);
    expect_share("\"share\": 0.001, \"memory\": {\"capacity\": 10}", 0.001, 1);
}

/* By formats: of products, the greatest of all else. Text and signature know them. */
TEST(speeds_by_format) {
    char *text = replaced(cluster_sample, "\"speed\": 0.8", "\"speed\": {\"fp32\": \"20%\", \"int8\": 0.5}"), *again, *third;
    char one[32], other[32];
    qs_cluster cluster, copy, plain;
    assert_ok(qs_cluster_parse(text, "speeds", &cluster));
    const qs_class *class_ = &cluster.class_[1];
    assert_true(class_->speed == 0.5);
    assert_int_equal(class_->products.formats, 2);
    assert_string_equal(class_->products.format[1]->name, "int8");
    assert_true(class_->products.part[0] == 0.2 && class_->products.part[1] == 0.5);
    assert_int_equal(cluster.class_[0].products.formats, 0);
    assert_ok(qs_cluster_text(&cluster, &again));
    assert_ok(qs_cluster_parse(again, "again", &copy));
    assert_ok(qs_cluster_text(&copy, &third));
    assert_string_equal(again, third);
    assert_non_null(strstr(again, "\"speed\": {\"fp32\": 0.2, \"int8\": 0.5}"));
    assert_ok(qs_cluster_parse(cluster_sample, "plain", &plain));
    assert_string_not_equal(qs_cluster_signature(&cluster, one), qs_cluster_signature(&plain, other));
    qs_cluster_release(&plain);
    qs_cluster_release(&copy);
    qs_cluster_release(&cluster);
    free(third);
    free(again);
    free(text);
}

static void refuse(const char *from, const char *to, const char *message) {
    char *text = replaced(cluster_sample, from, to);
    qs_cluster untouched = {.classes = 77};
    assert_refused(qs_cluster_parse(text, "cluster.json", &untouched), QS_BAD_FILE, message);
    assert_int_equal(untouched.classes, 77);
    free(text);
}

TEST(refusals) {
    refuse("\"speed\": 0.8", "\"speed\": {\"int8\": 1}", "classes.alpha.speed: must name \"fp32\"");
    refuse("\"speed\": 0.8", "\"speed\": {\"fp32\": 0}", "classes.alpha.speed.fp32: 0 is outside 0.001 .. 1");
    refuse("\"speed\": 0.8", "\"speed\": {\"fp32\": 1, \"int99\": 1}", "classes.alpha.speed.int99: ");
    refuse("\"speed\": 0.8", "\"speed\": [1]", "classes.alpha.speed: must be");
    refuse("qsync/cluster/2", "qsync/cluster/3", "cluster.json: schema: must be \"qsync/cluster/2\", is \"qsync/cluster/3\"");
    refuse("\"role\": \"training\"", "\"role\": \"boss\"", "cluster.json: classes.zeta.role: must be \"training\" or \"inference\"");
    refuse("\"role\": \"training\",", "", "cluster.json: classes.zeta: field \"role\" is missing");
    refuse("\"isa\"", "\"iza\"", "unknown field \"iza\"");
    refuse("\"count\": 3", "\"count\": 0", "classes.alpha.count: 0 is outside 1 ..");
    refuse("\"count\": 3", "\"count\": 1.5", "classes.alpha.count: must be an integer, is a number");
    refuse("0.8", "1.2", "classes.alpha.speed: 1.2 is outside 0.001 .. 1");
    refuse("0.8", "0", "classes.alpha.speed");
    refuse("0.8", "\"80\"", "classes.alpha.speed: \"80\" is no part");
    refuse("0.8", "\"-3%\"", "is no part");
    refuse("0.8", "\"101%\"", "\"101%\" is outside 0.1% .. 100%");
    refuse("\"speed\": 0.8", "\"share\": 2", "classes.alpha.share: 2 is outside 0.001 .. 1");
    refuse("12500000000", "\"fast\"", "links[0].bytes_per_second: \"fast\" is no size");
    refuse("7.5", "-1", "links[0].latency_us");
    refuse("0.8", "1e999", "cluster.json:20:"); /* beyond double: the parser's refusal, with its line */
    refuse("[\"fp32\", \"int8\"]", "[\"fp32\", \"int88\"]", "classes.alpha.formats[1]: ");
    refuse("[\"fp32\", \"int8\"]", "[\"int8\"]", "classes.alpha.formats: must contain \"fp32\"");
    refuse("[\"fp32\", \"int8\"]", "[\"fp32\", \"fp32\"]", "classes.alpha.formats[1]: \"fp32\" stands there twice");
    refuse("[\"fp32\", \"int8\"]", "[]", "classes.alpha.formats: has 0 elements");
    refuse("644245094", "\"101%\"", "classes.alpha.memory.limit: \"101%\" is above 100%");
    refuse("644245094", "\"30 percent\"", "is no size");
    refuse("644245094", "\"-3MiB\"", "is no size");
    refuse("644245094", "\"0x10\"", "is no size");
    refuse("644245094", "\"nan\"", "is no size");
    refuse("644245094", "2147483649", "above the capacity");
    refuse("2147483648", "\"30%\"", "needs a capacity");
    refuse("\"alpha\"], \"kind\"", "\"beta\"], \"kind\"", "links[0].between[1]: \"beta\" is not in classes (zeta, alpha)");
    refuse("\"alpha\": {", "\"zeta\": {", "duplicate object key");
    refuse("\"alpha\": {", "\"\": {", "must not be empty");
    refuse("\"backend\": \"cpu\"", "\"backend\": \"0123456789abcdef\"", "has 16 bytes, may have 15");
    refuse("\"backend\": \"cpu\",", "\"backend\": \"cpu\"", "cluster.json:7:");
}

TEST(missing_file) {
    qs_cluster cluster;
    assert_refused(qs_cluster_read("no/such/cluster.json", &cluster), QS_BAD_FILE, "no/such/cluster.json");
}

static void read_example(const char *name, qs_cluster *out) {
    char path[4096];
    snprintf(path, sizeof path, "%s/examples/%s", getenv("QS_SOURCE"), name);
    assert_ok(qs_cluster_read(path, out));
}

static void expect_weak(const qs_cluster *cluster, const char *isa, double speed) {
    const qs_class *big = &cluster->class_[0], *weak = &cluster->class_[1];
    assert_int_equal(cluster->classes, 2);
    assert_string_equal(big->name, "big");
    assert_false(big->inference);
    assert_int_equal(big->formats, 1);
    assert_int_equal(big->memory_limit, INT64_C(2) << 30);
    assert_string_equal(weak->name, "weak");
    assert_true(weak->inference);
    assert_string_equal(weak->isa, isa);
    assert_true(weak->speed == speed);
    assert_int_equal(weak->memory_limit, (INT64_C(2) << 30) * 3 / 10);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(cluster->class_[i].backend, "cpu");
        assert_int_equal(cluster->class_[i].count, 1);
        assert_int_equal(cluster->class_[i].threads, 1);
        assert_int_equal(cluster->class_[i].memory_capacity, INT64_C(2) << 30);
    }
}

TEST(examples) {
    qs_cluster cluster;
    qs_recipe recipes[QS_MAX_FORMATS];
    int count;
    read_example("cluster.json", &cluster);
    expect_weak(&cluster, "all", 0.8);
    assert_ok(qs_class_recipes(&cluster.class_[1], QS_MAX_FORMATS, recipes, &count));
    assert_int_equal(count, 3);
    assert_string_equal(recipes[2].name, "int8/bf16");
    qs_cluster_release(&cluster);
    static const struct { const char *file, *low; } few[] = {{"cluster-npu4.json", "int4:shift4"}, {"cluster-npu8.json", "int8:tensor"}};
    for (size_t i = 0; i < COUNT_OF(few); i++) {
        read_example(few[i].file, &cluster);
        assert_ok(qs_class_recipes(&cluster.class_[1], QS_MAX_FORMATS, recipes, &count));
        assert_int_equal(count, 2);
        assert_string_equal(recipes[1].name, few[i].low);
        assert_true(cluster.class_[1].products.part[0] == 0.2 && cluster.class_[1].speed == 1);
        qs_cluster_release(&cluster);
    }
    read_example("cluster-avx2.json", &cluster);
    expect_weak(&cluster, "avx2_vnni", 1);
    assert_ok(qs_class_recipes(&cluster.class_[1], QS_MAX_FORMATS, recipes, &count));
    assert_int_equal(count, 2);
    assert_string_equal(recipes[1].name, "int8/fp32");
    qs_cluster_release(&cluster);
}

/* A class that adds narrowly: its recipes of floats do, and so it stands in the file. */
TEST(accumulator) {
    static const char text[] = "{\"schema\":\"qsync/cluster/2\",\"classes\":{\"a\":{\"role\":\"training\",\"backend\":\"ref\","
                               "\"formats\":[\"fp32\",\"bf16\",\"int8\"],\"accumulator\":\"fp(6,9)/chunk64/align-truncate\"}}}";
    qs_cluster cluster, again;
    qs_recipe recipes[QS_MAX_FORMATS];
    char *json = NULL, narrow[QS_NARROW_TEXT];
    int count = 0;
    assert_ok(qs_cluster_parse(text, "accumulator", &cluster));
    assert_ok(qs_class_recipes(&cluster.class_[0], QS_MAX_FORMATS, recipes, &count));
    assert_int_equal(count, 3);
    for (qs_gemm gemm = 0; gemm < QS_GEMMS; gemm++) {
        assert_string_equal(qs_narrow_text(&recipes[0].accumulator[gemm], narrow), "fp(6,9)/chunk64/align-truncate");
        if (gemm != QS_GEMM_FORWARD) assert_non_null(recipes[2].accumulator[gemm].adder);
    }
    assert_null(recipes[2].accumulator[QS_GEMM_FORWARD].adder); /* int8 sums are exact */
    assert_ok(qs_cluster_text(&cluster, &json));
    assert_ok(qs_cluster_parse(json, "again", &again));
    assert_true(qs_narrow_equal(&again.class_[0].accumulator, &cluster.class_[0].accumulator));
    free(json);
    qs_cluster_release(&cluster);
    qs_cluster_release(&again);
}

TEST_MAIN(copies, accumulator, round_trip, fields, ranks, minimal, single, signature, sizes, refusals, examples, shares, speeds_by_format,
          missing_file)
