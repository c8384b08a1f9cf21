// SPDX-License-Identifier: Apache-2.0
/* Profiles without the hardware, and statistics that one profile lends another. */
#include <string.h>

#include "cli.h"

qs_status profile_estimate(const char *cluster_file, const qs_job *job, int64_t least, int64_t most, qs_profile *out) {
    qs_cluster cluster = {0};
    qs_graph *graph = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs_cluster_read(cluster_file, &cluster));
    QS_GOTO(qs_job_model(job, &graph));
    QS_GOTO(qs_profile_estimate(graph, &cluster, job, least, most, out));
done:
    qs_graph_release(graph);
    qs_cluster_release(&cluster);
    return status;
}

qs_status statistics_take(const char *file, qs_profile *profile) {
    qs_profile other = {0};
    qs_status status = QS_OK;
    QS_TRY(qs_profile_read(file, &other));
    if (strcmp(other.graph, profile->graph) != 0)
        QS_GOTO(qs_fail(QS_MISMATCH, "%s is of %s (%s), not of %s (%s): statistics come from a profile of the same model and image size",
                        file, other.model, other.graph, profile->model, profile->graph));
    if (other.statistics.iterations == 0) QS_GOTO(qs_fail(QS_MISMATCH, "%s has no statistics either", file));
    const qs_statistics own = profile->statistics;
    profile->statistics = other.statistics;
    other.statistics = own;
done:
    qs_profile_release(&other);
    return status;
}

qs_status statistics_check(const qs_profile *profile, const char *indicator) {
    if (profile->statistics.iterations > 0 || strcmp(indicator, "random") == 0) return QS_OK;
    return qs_fail(QS_MISMATCH,
                   "the profile has no tensor statistics, which indicator %s needs: take those of a measured profile of the same model "
                   "(--statistics-from FILE), of any batch and device",
                   indicator);
}
