// SPDX-License-Identifier: Apache-2.0
// labels: short
// covers: cpu ref far cuda
/* Fields of backends: the object of a class that is named after its backend; that of another one is refused; a backend without fields has
 * none. */
#include "record_samples.h"

static const char *const backends[] = {"cpu", "ref", "far"};

static char *cluster_of(const char *backend, const char *fields) {
    char *text;
    assert_ok(qs_format_text(&text,
                             "{\"schema\":\"qsync/cluster/2\",\"classes\":{\"a\":{\"role\":\"training\",\"backend\":\"%s\",%s"
                             "\"formats\":[\"fp32\"]}}}",
                             backend, fields));
    return text;
}

TEST(own_object) {
    for (size_t b = 0; b < COUNT_OF(backends); b++) {
        char object[64], written[80], *text, *again;
        qs_cluster cluster;
        snprintf(object, sizeof object, "\"%s\": {\"threads\": 3, \"isa\": \"avx2\"},", backends[b]);
        snprintf(written, sizeof written, "\n      %s\n", object);
        text = cluster_of(backends[b], object);
        assert_ok(qs_cluster_parse(text, "own", &cluster));
        assert_int_equal(cluster.class_[0].threads, 3);
        assert_string_equal(cluster.class_[0].isa, "avx2");
        assert_ok(qs_cluster_text(&cluster, &again));
        assert_non_null(strstr(again, written));
        qs_cluster_release(&cluster);
        free(text);
        free(again);
    }
}

/* What is absent is the default, field by field or as a whole, and is written. */
TEST(defaults) {
    static const char *const fields[] = {"", "\"cpu\": {}, ", "\"cpu\": {\"isa\": \"all\"}, ", "\"cpu\": {\"threads\": 1}, "};
    for (size_t f = 0; f < COUNT_OF(fields); f++) {
        char *text = cluster_of("cpu", fields[f]), *again;
        qs_cluster cluster;
        assert_ok(qs_cluster_parse(text, "defaults", &cluster));
        assert_ok(qs_cluster_text(&cluster, &again));
        assert_non_null(strstr(again, "\"cpu\": {\"threads\": 1, \"isa\": \"all\"},"));
        assert_null(strstr(again, "\"ref\""));
        qs_cluster_release(&cluster);
        free(text);
        free(again);
    }
}

/* What only a far device has comes back; what is absent is left out. */
TEST(far_fields) {
    const char *object = "\"far\": {\"runs\": \"ref\", \"threads\": 2, \"isa\": \"all\", \"bytes_per_second\": 4e9, \"latency_us\": 25.5},";
    char *text = cluster_of("far", object), *again;
    qs_cluster cluster;
    assert_ok(qs_cluster_parse(text, "far", &cluster));
    assert_string_equal(cluster.class_[0].far_runs, "ref");
    assert_true(cluster.class_[0].far_bytes_per_second == 4e9 && cluster.class_[0].far_latency_us == 25.5);
    assert_ok(qs_cluster_text(&cluster, &again));
    assert_non_null(strstr(again, "\"runs\": \"ref\"") && strstr(again, "\"latency_us\": 25.5") ? again : NULL);
    qs_cluster_release(&cluster);
    free(text);
    free(again);
}

/* A GPU is named or not; it has no instruction-set ceiling. */
TEST(cuda_fields) {
    static const char uuid[] = "GPU-3ee2ab50-1c88-4a53-8e8f-5f0a5e0b7d11";
    char object[160], *text, *again;
    qs_cluster cluster;
    snprintf(object, sizeof object, "\"cuda\": {\"device\": \"%s\", \"threads\": 4, \"multiprocessors\": 64},", uuid);
    text = cluster_of("cuda", object);
    assert_ok(qs_cluster_parse(text, "cuda", &cluster));
    assert_string_equal(cluster.class_[0].cuda_device, uuid);
    assert_int_equal(cluster.class_[0].threads, 4);
    assert_int_equal(cluster.class_[0].cuda_multiprocessors, 64);
    assert_ok(qs_cluster_text(&cluster, &again));
    assert_non_null(strstr(again, object));
    qs_cluster_release(&cluster);
    free(text);
    free(again);
    text = cluster_of("cuda", "");
    assert_ok(qs_cluster_parse(text, "cuda", &cluster));
    assert_string_equal(cluster.class_[0].cuda_device, "");
    assert_ok(qs_cluster_text(&cluster, &again));
    assert_non_null(strstr(again, "\"cuda\": {\"threads\": 1},"));
    assert_int_equal(cluster.class_[0].cuda_record, 0);
    qs_cluster_release(&cluster);
    free(text);
    free(again);
    text = cluster_of("cuda", "\"cuda\": {\"threads\": 1, \"record\": \"no\"},");
    assert_ok(qs_cluster_parse(text, "cuda", &cluster));
    assert_int_equal(cluster.class_[0].cuda_record, 1);
    assert_ok(qs_cluster_text(&cluster, &again));
    assert_non_null(strstr(again, "\"cuda\": {\"threads\": 1, \"record\": \"no\"},"));
    qs_cluster_release(&cluster);
    free(text);
    free(again);
}

TEST(backend_without_fields) {
    char *text = cluster_of("npu", ""), *again;
    qs_cluster cluster;
    assert_ok(qs_cluster_parse(text, "npu", &cluster));
    assert_int_equal(cluster.class_[0].threads, 0);
    assert_string_equal(cluster.class_[0].isa, "");
    assert_ok(qs_cluster_text(&cluster, &again));
    assert_null(strstr(again, "threads"));
    qs_cluster_release(&cluster);
    free(text);
    free(again);
}

static void refuse_cluster(const char *backend, const char *fields, const char *message) {
    char *text = cluster_of(backend, fields);
    qs_cluster cluster;
    assert_refused(qs_cluster_parse(text, "cluster.json", &cluster), QS_BAD_FILE, message);
    free(text);
}

TEST(refusals) {
    refuse_cluster("cpu", "\"ref\": {\"threads\": 1},", "classes.a.ref: fields of backend \"ref\", but this class has backend \"cpu\"");
    refuse_cluster("ref", "\"cpu\": {},", "classes.a.cpu: fields of backend \"cpu\", but this class has backend \"ref\"");
    refuse_cluster("cuda", "\"cpu\": {},", "classes.a.cpu: fields of backend \"cpu\", but this class has backend \"cuda\"");
    refuse_cluster("cuda", "\"cuda\": {\"isa\": \"all\"},", "classes.a.cuda: unknown field \"isa\"");
    refuse_cluster("cuda", "\"cuda\": {\"device\": 0},", "classes.a.cuda.device");
    refuse_cluster("cuda", "\"cuda\": {\"multiprocessors\": 0},", "classes.a.cuda.multiprocessors");
    refuse_cluster("cuda", "\"cuda\": {\"record\": \"yes\"},", "classes.a.cuda.record");
    refuse_cluster("npu", "\"npu\": {},", "unknown field \"npu\"");
    refuse_cluster("cpu", "\"threads\": 1,", "unknown field \"threads\"");
    refuse_cluster("cpu", "\"cpu\": {\"threads\": 0},", "classes.a.cpu.threads: 0 is outside 1 .. 4096");
    refuse_cluster("cpu", "\"cpu\": {\"cores\": 1},", "classes.a.cpu: unknown field \"cores\"");
    refuse_cluster("far", "\"far\": {\"latency_us\": -1},", "classes.a.far.latency_us");
    refuse_cluster("far", "\"far\": {\"bytes_per_second\": 0.5},", "classes.a.far.bytes_per_second");
    refuse_cluster("cpu", "\"cpu\": 2,", "classes.a.cpu: must be an object, is an integer");
}

static void refuse_profile(const char *from, const char *to, const char *message) {
    char *text = replaced(profile_sample, from, to);
    qs_profile profile;
    assert_refused(qs_profile_parse(text, "profile.json", &profile), QS_BAD_FILE, message);
    free(text);
}

/* A profile says what a class was measured with: nothing there has a default. */
TEST(profiles) {
    char *text = replaced(profile_sample, "      \"cpu\": {\"threads\": 1, \"isa\": \"all\", \"cache_bytes\": 128},\n", ""), *other, *again;
    qs_profile profile;
    assert_refused(qs_profile_parse(text, "p", &profile), QS_BAD_FILE, "classes.weak: field \"cpu\" is missing");
    other = replaced(text, "\"backend\": \"cpu\"", "\"backend\": \"npu\"");
    assert_ok(qs_profile_parse(other, "p", &profile));
    assert_int_equal(profile.class_[0].threads, 0);
    assert_ok(qs_profile_text(&profile, &again));
    assert_string_equal(again, other);
    qs_profile_release(&profile);
    free(text);
    free(other);
    free(again);
    text = replaced(profile_sample, "\"backend\": \"cpu\"", "\"backend\": \"cuda\"");
    other = replaced(text, "\"cpu\": {\"threads\": 1, \"isa\": \"all\",",
                     "\"cuda\": {\"threads\": 2, \"architecture\": \"sm_90\", \"multiprocessors\": 64,");
    assert_ok(qs_profile_parse(other, "p", &profile));
    assert_string_equal(profile.class_[0].isa, "sm_90");
    assert_int_equal(profile.class_[0].threads, 2);
    assert_int_equal(profile.class_[0].multiprocessors, 64);
    assert_int_equal(profile.class_[0].cache_bytes, 128);
    assert_ok(qs_profile_text(&profile, &again));
    assert_string_equal(again, other);
    qs_profile_release(&profile);
    free(text);
    free(other);
    free(again);
    refuse_profile("\"backend\": \"cpu\"", "\"backend\": \"ref\"", "classes.weak.cpu: fields of backend \"cpu\"");
    refuse_profile("\"threads\": 1, ", "", "classes.weak.cpu: field \"threads\" is missing");
    refuse_profile("\"isa\": \"all\", \"cache", "\"cache", "classes.weak.cpu: field \"isa\" is missing");
}

/* What an older program wrote is refused with the way out. */
TEST(older_schema) {
    char *text = replaced(profile_sample, "qsync/profile/2", "qsync/profile/1");
    qs_profile profile;
    assert_refused(qs_profile_parse(text, "old.json", &profile), QS_BAD_FILE,
                   "old.json: schema: \"qsync/profile/1\" is of an older qsync, in which names and fields were others: convert the file by "
                   "tools/convert-records.py, or make it anew");
    free(text);
    refuse_profile("qsync/profile/2", "qsync/plan/1", "schema: must be \"qsync/profile/2\", is \"qsync/plan/1\"");
    refuse_profile("qsync/profile/2", "qsync/profile/3", "schema: must be \"qsync/profile/2\", is \"qsync/profile/3\"");
}

TEST_MAIN(own_object, defaults, far_fields, cuda_fields, backend_without_fields, refusals, profiles, older_schema)
