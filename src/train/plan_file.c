// SPDX-License-Identifier: Apache-2.0
/* The file that a running job watches for another plan. Files count by what stands in them: the present plan, written again, changes
 * nothing. What may not run here is told once. */
#include "train_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A file that replaced another has another inode; one written over, another time or size. */
static uint64_t identity_of(const struct stat *facts) {
    const int64_t all[] = {(int64_t)facts->st_dev, (int64_t)facts->st_ino, (int64_t)facts->st_size, (int64_t)facts->st_mtim.tv_sec,
                           (int64_t)facts->st_mtim.tv_nsec};
    return qs_hash(all, sizeof all, 0) | 1; /* never 0 */
}

bool qs__plan_file_changed(qs__trainer *trainer) {
    const qs_train_options *options = trainer->options;
    const int64_t done = trainer->step + 1; /* the step at hand included */
    struct stat facts;
    if (!options->watch_plan || trainer->rank != 0 || done < options->watch_after || done == trainer->steps) return false;
    const uint64_t there = stat(options->watch_plan, &facts) == 0 ? identity_of(&facts) : 0;
    const bool changed = there != 0 && there != trainer->plan_file;
    trainer->plan_file = there;
    return changed;
}

/* A pipe would block the run. */
static qs_status regular_check(const char *path) {
    struct stat facts;
    if (stat(path, &facts) != 0 || S_ISREG(facts.st_mode)) return QS_OK; /* reading tells what is wrong */
    return qs_fail(QS_BAD_FILE, "%s: is not a regular file", path);
}

/* The cluster's signature becomes the run's: who takes memory back plans with a cluster file of other limits. What a schedule depends on is
 * checked piece by piece: classes, formats, kernels, hash. */
static qs_status plan_check(const qs__trainer *trainer, qs_plan *plan) {
    const qs_cluster *cluster = trainer->options->cluster;
    if (plan->cluster[0]) qs_cluster_signature(cluster, plan->cluster);
    return qs_fail_within(qs__plan_check(plan, trainer->job, cluster, trainer->graph), "%s", trainer->options->watch_plan);
}

static qs_status offer_read(const qs__trainer *trainer, char **text) {
    qs_plan plan = {0};
    QS_TRY(regular_check(trainer->options->watch_plan));
    QS_TRY(qs_plan_read(trainer->options->watch_plan, &plan));
    qs_status status = plan_check(trainer, &plan);
    if (status == QS_OK) status = qs_plan_text(&plan, text);
    qs_plan_release(&plan);
    return status;
}

static qs_status present_drop(const qs__trainer *trainer, char **text) {
    char *present = NULL;
    if (!trainer->plan) return QS_OK;
    QS_TRY(qs_plan_text(trainer->plan, &present));
    if (strcmp(present, *text) == 0) {
        free(*text);
        *text = NULL;
    }
    free(present);
    return QS_OK;
}

char *qs__plan_file_read(const qs__trainer *trainer) {
    char *text = NULL;
    qs_status status = offer_read(trainer, &text);
    if (status == QS_OK) status = present_drop(trainer, &text);
    if (status == QS_OK) return text;
    free(text);
    qs_log(QS_LOG_WARNING, "new plan refused: %s; training goes on with the present one", qs_message());
    return NULL;
}
