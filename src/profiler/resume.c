// SPDX-License-Identifier: Apache-2.0
/* Resuming: after each finished stage a rank keeps what it has in a file of its own, which a later measurement with the same options takes
 * over. The file is a line that says whose it is, lines of samples, and a profile record with the fits, all-reduces and statistics so far.
 * Lines are written and read by one walk over the state, so a field is one line here. A file that is not as expected is left aside. */
#include "resume.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char kind_line[] = QS_SCHEMA("partial");
static const size_t most_bytes = (size_t)1 << 30;

/* ---- Whose it is ------------------------------------------------------------------------------------------------------------------- */

static qs_status checks_hash(const qs_profile_options *options, uint64_t *hash) {
    *hash = 0;
    for (int i = 0; i < options->checks; i++) {
        char *text = NULL;
        QS_TRY(qs_plan_text(&options->check[i], &text));
        *hash = qs_hash(text, strlen(text), *hash);
        *hash = qs_hash(options->check_name[i], strlen(options->check_name[i]), *hash);
        free(text);
    }
    for (int i = 0; i < options->recipes; i++)
        *hash = qs_hash(options->recipe[i].name, strlen(options->recipe[i].name), *hash);
    for (int i = 0; i < options->wires; i++)
        *hash = qs_hash(options->wire[i], strlen(options->wire[i]), *hash);
    return QS_OK;
}

/* Everything that a figure depends on: a file of other options is of no use. */
static qs_status signature_of(const qs__found *found, uint64_t *out) {
    const qs__setting *setting = found->setting;
    const qs_profile_options *options = setting->options;
    qs_device_info info;
    char cluster[32], job[32], graph[32], *text = NULL;
    uint64_t checks = 0;
    qs_device_describe(setting->device, &info);
    QS_TRY(checks_hash(options, &checks));
    QS_TRY(qs_format_text(&text, "%s %s %s %s %s %s %s %d %d %d %d %d %a %a %a %d %d %zu %" PRIx64,
                          qs_cluster_signature(options->cluster, cluster), qs_job_signature(setting->job, job),
                          qs_graph_signature(setting->graph, graph), info.cpu, info.isa, info.library, __VERSION__, info.threads,
                          options->repetitions, (int)options->context, options->statistics_iterations, options->noise_runs,
                          options->conversion_seconds, options->minutes, options->cache ? options->taken_days : 0, setting->rank,
                          found->cases->count, sizeof(qs_quality), checks));
    *out = qs_hash(text, strlen(text), 0);
    free(text);
    return QS_OK;
}

/* ---- The walk ---------------------------------------------------------------------------------------------------------------------- */

typedef struct walk {
    FILE *out;      /* writing; NULL when reading */
    const char *at; /* reading: the rest of the text */
    bool wrong;
} walk;

static bool word_read(walk *one, const char *word) {
    const size_t length = strlen(word);
    if (strncmp(one->at, word, length) != 0)
        one->wrong = true;
    else
        one->at += length;
    return !one->wrong;
}

static double number_read(walk *one) {
    char *end = NULL;
    const double value = strtod(one->at, &end);
    one->wrong = one->wrong || end == one->at;
    one->at = end;
    return value;
}

static void samples_write(walk *one, const char *name, const qs__samples *samples) {
    fprintf(one->out, "%s %d", name, samples->count);
    for (int i = 0; i < samples->count; i++)
        fprintf(one->out, " %a", samples->value[i]);
    fputc('\n', one->out);
}

static qs_status samples_walk(walk *one, const char *name, qs__samples *samples) {
    if (one->out) samples_write(one, name, samples);
    if (one->out || !word_read(one, name)) return QS_OK;
    const double count = number_read(one);
    if (!(count >= 0 && count < INT32_MAX)) one->wrong = true;
    samples->count = 0;
    for (int i = 0; !one->wrong && i < (int)count; i++)
        QS_TRY(qs__samples_add(samples, number_read(one)));
    (void)word_read(one, "\n");
    return QS_OK;
}

static void bytes_walk(walk *one, const char *name, void *data, size_t bytes) {
    unsigned char *byte = data;
    if (one->out)
        fprintf(one->out, "%s", name);
    else
        (void)word_read(one, name);
    for (size_t i = 0; i < bytes && !one->wrong; i++) {
        if (one->out)
            fprintf(one->out, " %d", byte[i]);
        else
            byte[i] = (unsigned char)number_read(one);
    }
    if (one->out)
        fputc('\n', one->out);
    else
        (void)word_read(one, "\n");
}

static qs_status entry_walk(walk *one, qs__entry *entry) {
    uint64_t text = qs_hash(entry->row.kernel, strlen(entry->row.kernel), qs_hash(entry->text, strlen(entry->text), 0));
    const uint64_t expected = text;
    bytes_walk(one, "case", &text, sizeof text);
    one->wrong = one->wrong || text != expected;
    QS_TRY(samples_walk(one, "kernel_us", &entry->kernel_us));
    QS_TRY(samples_walk(one, "conversion_us", &entry->conversion_us));
    for (int i = 0; i < QS__CACHES; i++)
        QS_TRY(samples_walk(one, "cold", &entry->cold[i]));
    QS_TRY(samples_walk(one, "half_us", &entry->half_us));
    bytes_walk(one, "own", &entry->own, sizeof entry->own);
    return samples_walk(one, "alone", &entry->alone);
}

static qs_status state_walk(walk *one, qs__found *found) {
    qs__step_figures *figures = found->figures;
    QS_TRY(samples_walk(one, "whole_us", &figures->whole_us));
    QS_TRY(samples_walk(one, "overhead_us", &figures->overhead_us));
    QS_TRY(samples_walk(one, "data_us", &figures->data_us));
    QS_TRY(samples_walk(one, "jitter", &figures->jitter));
    QS_TRY(samples_walk(one, "recorded_us", &figures->recorded_us));
    QS_TRY(samples_walk(one, "recorded_loop_us", &figures->recorded_loop_us));
    QS_TRY(samples_walk(one, "checked", &figures->checked));
    if (!one->wrong && !figures->measured)
        QS_TRY(qs_allocate((size_t)figures->whole_us.count, sizeof *figures->measured, &figures->measured));
    bytes_walk(one, "measured", figures->measured, (size_t)figures->whole_us.count * sizeof *figures->measured);
    bytes_walk(one, "rounds", &found->kinds_done, sizeof found->kinds_done);
    bytes_walk(one, "quality", &figures->quality, sizeof figures->quality);
    for (int i = 0; i < found->cases->count && !one->wrong; i++)
        QS_TRY(entry_walk(one, &found->cases->entry[i]));
    return QS_OK;
}

static void state_drop(qs__found *found) {
    qs__step_figures_release(found->figures);
    found->kinds_done = 0;
    for (int i = 0; i < found->cases->count; i++) {
        qs__entry *entry = &found->cases->entry[i];
        entry->kernel_us.count = entry->conversion_us.count = entry->half_us.count = entry->alone.count = 0;
        for (int c = 0; c < QS__CACHES; c++)
            entry->cold[c].count = 0;
    }
}

/* ---- Saving ------------------------------------------------------------------------------------------------------------------------ */

/* A record of what the other stages gave: the class without its kernels, borrowed. */
static qs_status record_text(const qs__found *found, char **json) {
    qs_profile record = *found->mine;
    record.collectives = found->all->collectives;
    record.collective = found->all->collective;
    record.statistics = found->all->statistics;
    return qs_profile_text(&record, json);
}

static qs_status text_make(const qs__found *found, qs__stage stage, char **text, size_t *bytes) {
    uint64_t signature = 0;
    char *json = NULL;
    QS_TRY(signature_of(found, &signature));
    QS_TRY(record_text(found, &json));
    walk one = {.out = open_memstream(text, bytes)};
    qs_status status = one.out ? QS_OK : qs_fail(QS_OUT_OF_MEMORY, "a partial profile: out of memory");
    if (one.out) {
        fprintf(one.out, "%s %016" PRIx64 " %d\n", kind_line, signature, (int)stage);
        status = state_walk(&one, (qs__found *)found);
        fprintf(one.out, "%s", json);
        if (fclose(one.out) != 0 && status == QS_OK) status = qs_fail(QS_OUT_OF_MEMORY, "a partial profile: out of memory");
    }
    free(json);
    return status;
}

/* An interruption waits until the file is whole, so that no temporary file stays behind. */
static qs_status text_write(const char *path, const char *text, size_t bytes) {
    sigset_t interruptions, before;
    sigemptyset(&interruptions);
    sigaddset(&interruptions, SIGINT);
    sigaddset(&interruptions, SIGTERM);
    const bool held = pthread_sigmask(SIG_BLOCK, &interruptions, &before) == 0;
    const qs_status status = qs_file_write(path, text, bytes);
    if (held) pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

void qs__resume_save(const qs__found *found, qs__stage stage) {
    const char *path = found->setting->options->partial;
    char *text = NULL;
    size_t bytes = 0;
    if (!path) return;
    qs_status status = text_make(found, stage, &text, &bytes);
    if (status == QS_OK) status = text_write(path, text, bytes);
    if (status != QS_OK) qs_log(QS_LOG_WARNING, "profile: cannot be resumed from here: %s", qs_message());
    free(text);
}

void qs_profile_partial_remove(const qs_profile_options *options) {
    if (options->partial) (void)unlink(options->partial);
}

/* ---- Loading ----------------------------------------------------------------------------------------------------------------------- */

static qs_status record_take(const char *json, qs_profile *mine, qs_profile *all) {
    qs_profile record;
    QS_TRY(qs_profile_parse(json, "partial profile", &record));
    if (record.classes == 1) {
        mine->class_[0].conversion = record.class_[0].conversion;
        mine->class_[0].conversions = record.class_[0].conversions;
        record.class_[0].conversion = NULL;
    }
    all->collective = record.collective;
    all->collectives = record.collectives;
    all->statistics = record.statistics;
    record.collective = NULL;
    record.statistics = (qs_statistics){0};
    qs_profile_release(&record);
    return QS_OK;
}

/* QS_MISMATCH when it belongs to other options, QS_BAD_FILE when it is not what was written. */
static qs_status text_take(qs__found *found, const char *text, qs__stage *stage) {
    uint64_t signature = 0, theirs = 0;
    int last = 0, length = 0;
    QS_TRY(signature_of(found, &signature));
    if (strncmp(text, kind_line, strlen(kind_line)) != 0 ||
        sscanf(text + strlen(kind_line), " %" SCNx64 " %d%n", &theirs, &last, &length) != 2)
        return qs_fail(QS_BAD_FILE, "it is no partial profile");
    if (theirs != signature) return qs_fail(QS_MISMATCH, "it was measured with other options");
    walk one = {.at = text + strlen(kind_line) + length};
    (void)word_read(&one, "\n");
    const qs_status status = state_walk(&one, found);
    if (status == QS_OK && (one.wrong || last < QS__STAGE_PLANS || last > QS__STAGE_STATISTICS))
        (void)qs_fail(QS_BAD_FILE, "it is damaged");
    else if (status == QS_OK && record_take(one.at, found->mine, found->all) == QS_OK)
        *stage = (qs__stage)last;
    if (*stage == QS__STAGE_NONE) state_drop(found);
    return *stage == QS__STAGE_NONE ? QS_BAD_FILE : QS_OK;
}

static void file_take(qs__found *found, qs__stage *stage) {
    const char *path = found->setting->options->partial;
    char *text = NULL;
    size_t bytes = 0;
    if (access(path, F_OK) != 0) return;
    qs_status status = qs_file_read(path, most_bytes, &text, &bytes);
    if (status == QS_OK) status = text_take(found, text, stage);
    if (status != QS_OK && found->setting->rank == 0) qs_log(QS_LOG_WARNING, "profile: %s is left aside: %s", path, qs_message());
    free(text);
}

/* Ranks that have more than the others forget it: they measure together. */
static void stage_cut(qs__found *found, qs__stage stage, int kinds_done) {
    qs_profile *all = found->all;
    qs_class_profile *mine = &found->mine->class_[0];
    if (stage < QS__STAGE_PLANS) state_drop(found);
    if (kinds_done < found->kinds_done) found->kinds_done = kinds_done;
    if (mine->conversions > found->kinds_done) mine->conversions = found->kinds_done;
    if (stage < QS__STAGE_STATISTICS) {
        qs_profile statistics = {.statistics = all->statistics};
        qs_profile_release(&statistics);
        all->statistics = (qs_statistics){0};
    }
    if (stage < QS__STAGE_COLLECTIVES) {
        free(all->collective);
        all->collective = NULL;
        all->collectives = 0;
    }
}

qs_status qs__resume_load(qs__found *found, qs__stage *stage) {
    const qs_profile_options *options = found->setting->options;
    *stage = QS__STAGE_NONE;
    if (!options->partial) return QS_OK;
    if (!options->fresh) file_take(found, stage);
    double least[2] = {-(double)*stage, -(double)found->kinds_done};
    QS_TRY(qs_comm_max(found->setting->comm, least, 2)); /* the least of all ranks */
    *stage = (qs__stage)-least[0];
    stage_cut(found, *stage, (int)-least[1]);
    if (*stage > QS__STAGE_NONE && found->setting->rank == 0)
        qs_log(QS_LOG_INFO, "profile: resumed from %s: %d of 4 stages were done", options->partial, (int)*stage);
    return QS_OK;
}
