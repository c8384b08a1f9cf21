// SPDX-License-Identifier: Apache-2.0
/* Two ranks that take unlike parts of a global batch of 32, and how far what they learn may be from what one rank learns. */
#ifndef QSYNC_TESTS_UNEQUAL_SUPPORT_H
#define QSYNC_TESTS_UNEQUAL_SUPPORT_H

#include "train_support.h"

/* fp32 sums of another order, behind that many steps of a smooth loss: a few thousand ulps. */
static const double tolerance = 1e-3;

static const char cluster_two[] = "{\"schema\":\"qsync/cluster/2\",\"classes\":{"
                                  "\"strong\":{\"role\":\"training\",\"backend\":\"%s\",\"formats\":[\"fp32\"]},"
                                  "\"weak\":{\"role\":\"inference\",\"backend\":\"%s\",\"formats\":[\"fp32\"]}}}";
static const char plan_two[] = "{\"schema\":\"qsync/plan/2\",\"classes\":{\"strong\":{\"batch\":25,\"operators\":{}},"
                               "\"weak\":{\"batch\":7,\"operators\":{}}}}";

static void unequal_ranks(bench *here, qs_plan *plan) {
    char cluster[512];
    snprintf(cluster, sizeof cluster, cluster_two, here->backend, here->backend);
    qs_cluster_release(&here->cluster);
    assert_ok(qs_cluster_parse(cluster, "test", &here->cluster));
    assert_ok(qs_plan_parse(plan_two, "test", plan));
    here->options.plan = plan;
}

#endif
