// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Which ranks share a host, from the links of a cluster file; the kinds of links and their options. */
#include "kit/kit.h"
#include "qsync/record.h"

#define CLASS(name, count) "\"" name "\": {\"role\": \"training\", \"backend\": \"cpu\", \"count\": " #count ", \"formats\": [\"fp32\"]}"

static qs_status parse(const char *classes, const char *links, qs_cluster *out) {
    char text[2048];
    snprintf(text, sizeof text, "{\"schema\": \"qsync/cluster/2\", \"classes\": {%s}, \"links\": [%s]}", classes, links);
    return qs_cluster_parse(text, "here", out);
}

/* `expected`: the host of every rank as a digit. */
static void check(const char *classes, const char *links, const char *expected) {
    qs_cluster cluster;
    int host[32], hosts = 0, most = 0;
    assert_ok(parse(classes, links, &cluster));
    assert_int_equal(qs_cluster_ranks(&cluster), strlen(expected));
    qs_cluster_hosts(&cluster, host, &hosts);
    for (size_t rank = 0; expected[rank]; rank++) {
        assert_int_equal(host[rank], expected[rank] - '0');
        if (host[rank] > most) most = host[rank];
    }
    assert_int_equal(hosts, most + 1);
    qs_cluster_release(&cluster);
}

static const char two[] = CLASS("a", 2) ", " CLASS("b", 4), three[] = CLASS("a", 2) ", " CLASS("b", 1) ", " CLASS("c", 3);

TEST(one_host) {
    check(two, "", "000000");
    check(two, "{\"between\": [\"a\", \"b\"], \"kind\": \"shared-memory\"}", "000000");
}

TEST(classes_apart) {
    check(two, "{\"between\": [\"b\", \"a\"], \"kind\": \"network\"}", "001111");
    /* What nothing separates is together. */
    check(three, "{\"between\": [\"a\", \"b\"], \"kind\": \"network\"}", "001000");
    check(three, "{\"between\": [\"a\", \"b\"], \"kind\": \"network\"}, {\"between\": [\"a\", \"c\"], \"kind\": \"infiniband\"}", "001111");
}

TEST(ranks_apart) {
    const char *b = "{\"between\": [\"b\", \"b\"], \"kind\": \"network\", \"ranks_per_host\": 2}";
    char both[512], all[640];
    snprintf(both, sizeof both, "%s, {\"between\": [\"a\", \"a\"], \"kind\": \"network\"}", b);
    snprintf(all, sizeof all, "%s, {\"between\": [\"a\", \"b\"], \"kind\": \"network\"}", both);
    check(CLASS("a", 4), "{\"between\": [\"a\", \"a\"], \"kind\": \"network\"}", "0123");
    check(CLASS("b", 5), b, "00112");
    check(two, both, "010011"); /* each host has one of a and two of b */
    check(two, all, "012233");  /* four hosts */
}

/* As where a prediction leaves a class out: it needs no host, and the others are where they were. */
TEST(classes_without_ranks) {
    static const char *const links[] = {"", "{\"between\": [\"a\", \"a\"], \"kind\": \"network\", \"ranks_per_host\": 2}"};
    for (int i = 0; i < 2; i++) {
        qs_cluster cluster;
        int host[8], hosts = -1;
        assert_ok(parse(two, links[i], &cluster));
        cluster.class_[0].count = 0;
        qs_cluster_hosts(&cluster, host, &hosts);
        assert_int_equal(hosts, 1);
        for (int rank = 0; rank < 4; rank++)
            assert_int_equal(host[rank], 0);
        cluster.class_[1].count = 0;
        qs_cluster_hosts(&cluster, host, &hosts);
        assert_int_equal(hosts, 0);
        qs_cluster_release(&cluster);
    }
}

/* The round trip keeps what was said. */
TEST(text_is_canonical) {
    qs_cluster cluster, again;
    char *text, *second;
    assert_ok(parse(two, "{\"between\": [\"b\", \"b\"], \"kind\": \"tcp\", \"ranks_per_host\": 2}", &cluster));
    assert_string_equal(qs_cluster_network(&cluster), "tcp");
    assert_ok(qs_cluster_text(&cluster, &text));
    assert_ok(qs_cluster_parse(text, "again", &again));
    assert_int_equal(again.link[0].ranks_per_host, 2);
    assert_ok(qs_cluster_text(&again, &second));
    assert_string_equal(text, second);
    free(text);
    free(second);
    qs_cluster_release(&cluster);
    qs_cluster_release(&again);
}

static void refuse(const char *link, const char *message) {
    qs_cluster cluster;
    assert_refused(parse(two, link, &cluster), QS_BAD_FILE, message);
}

TEST(refusals) {
    refuse("{\"between\": [\"a\", \"b\"], \"kind\": \"network\", \"ranks_per_host\": 2}", "links[0].ranks_per_host: holds between");
    refuse("{\"between\": [\"a\", \"a\"], \"kind\": \"shared-memory\", \"ranks_per_host\": 2}", "links[0].ranks_per_host: holds between");
    refuse("{\"between\": [\"a\", \"a\"], \"kind\": \"network\", \"ranks_per_host\": 0}", "links[0].ranks_per_host: 0 is outside");
}

TEST_MAIN(one_host, classes_apart, ranks_apart, classes_without_ranks, text_is_canonical, refusals)
