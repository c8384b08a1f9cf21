// SPDX-License-Identifier: Apache-2.0
/* Cases that another model's profile has measured. Models of a family have most of their cases in common, and a kernel that has the same
 * operands in the same class on the same machine takes the same time, wherever its cold bytes are the same: so samples are kept as they
 * are, place by place with cold bytes, and join those of a later profile. Its uniform plans are measured anew in any case: what both
 * have tells how the machine's pace has changed, and taken times are multiplied by that. A kind of conversion is fitted over sizes that
 * are no model's, so its fit is taken, where a step holds about as much. */
#include "shared.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Kept places of a case, evenly over its plans. */
enum { MOST_PLACES = 48, MOST_LISTED = 4096 };
/* A time known less well than this is measured again. */
static const double most_doubt = 0.05;
/* A class that fewer cases compare has no pace of its own. */
enum { LEAST_COMPARED = 3 };
/* Steps of half as many bytes, or twice as many, leave other caches to conversions. */
static const double most_bytes_apart = 2;

/* ---- Circumstances --------------------------------------------------------------------------------------------------------------- */

/* What times depend on beside device, kernel and case: the machine, the speed that rests emulate, and who computes beside this rank. */
static qs_status circumstances_make(const qs__setting *setting, char **out) {
    const qs_cluster *cluster = setting->options->cluster;
    char host[256] = "";
    (void)gethostname(host, sizeof host - 1);
    QS_TRY(qs_format_text(out, "%s %d of %d%s, %s", host, qs_comm_local_size(setting->comm), setting->ranks,
                          setting->options->pinned ? ", pinned" : "", setting->class_->name));
    for (int c = 0; c < cluster->classes; c++) {
        const qs_class *one = &cluster->class_[c];
        char *more = NULL, speed[QS_SPEEDS_TEXT];
        QS_TRY(qs_format_text(&more, "%s; %s: %d of %s, %d threads, isa %s, speed %s, %d multiprocessors", *out, one->name, one->count,
                              one->backend, one->threads, one->isa, qs_speeds_text(one->speed, &one->products, speed),
                              one->cuda_multiprocessors));
        free(*out);
        *out = more;
    }
    return QS_OK;
}

/* ---- Samples as text ------------------------------------------------------------------------------------------------------------- */

/* "places plans alone", then of every place its time and cold bytes, of every plan half an interval, and the ratios. Halves are of as many
 * places as are kept. */
static qs_status samples_text(const qs__entry *entry, char **out) {
    const int all = entry->own.places, kept = all < MOST_PLACES ? all : MOST_PLACES;
    const int ratios = entry->own.alone < MOST_PLACES ? entry->own.alone : MOST_PLACES;
    size_t bytes = 0;
    FILE *stream = open_memstream(out, &bytes);
    if (!stream) return qs_fail(QS_OUT_OF_MEMORY, "samples of a case as text");
    fprintf(stream, "%d %d %d", kept, entry->own.plans, ratios);
    for (int i = 0; i < kept; i++) {
        const int place = (int)((int64_t)i * all / kept);
        fprintf(stream, " %.6g", entry->kernel_us.value[place]);
        for (int c = 0; c < QS__CACHES; c++)
            fprintf(stream, " %.0f", entry->cold[c].value[place]);
    }
    for (int i = 0; i < entry->own.plans; i++)
        fprintf(stream, " %.4g", entry->half_us.value[i] * kept / all);
    for (int i = 0; i < ratios; i++)
        fprintf(stream, " %.4g", entry->alone.value[(int)((int64_t)i * entry->own.alone / ratios)]);
    if (fclose(stream) == 0) return QS_OK;
    free(*out);
    *out = NULL;
    return qs_fail(QS_OUT_OF_MEMORY, "samples of a case as text");
}

/* A finite number of at least 0. */
static bool number_read(const char **at, double *out) {
    char *end = NULL;
    *out = strtod(*at, &end);
    const bool there = end != *at && isfinite(*out) && *out >= 0;
    *at = end;
    return there;
}

static bool numbers_read(const char **at, int count, qs__samples *out, qs_status *status) {
    for (int i = 0; i < count && *status == QS_OK; i++) {
        double value;
        if (!number_read(at, &value)) return false;
        *status = qs__samples_add(out, value);
    }
    return true;
}

/* False where the text is not what samples_text writes: of a file that somebody else has changed nothing is taken. */
static bool samples_read(const char *text, qs__elsewhere *out, qs_status *status) {
    int places, plans, ratios, length = 0;
    if (sscanf(text, "%d %d %d%n", &places, &plans, &ratios, &length) != 3) return false;
    if (places < 1 || places > MOST_PLACES || plans < 1 || plans > MOST_LISTED || ratios < 0 || ratios > MOST_PLACES) return false;
    text += length;
    for (int i = 0; i < places; i++) {
        if (!numbers_read(&text, 1, &out->kernel_us, status)) return false;
        for (int c = 0; c < QS__CACHES; c++)
            if (!numbers_read(&text, 1, &out->cold[c], status)) return false;
    }
    return numbers_read(&text, plans, &out->half_us, status) && numbers_read(&text, ratios, &out->alone, status);
}

static double doubt_of(const qs__samples *us, const qs__samples *half_us) {
    double squares = 0;
    for (int i = 0; i < half_us->count; i++)
        squares += half_us->value[i] * half_us->value[i];
    return us->count > 0 ? sqrt(squares) / us->count / qs__mean_of(us) : INFINITY;
}

/* ---- Finding ------------------------------------------------------------------------------------------------------------------------- */

static qs_status entry_find(const qs_timings *known, qs__entry *entry) {
    const qs_timing *timing = qs_timings_find(known, entry->text, entry->row.kernel);
    qs__elsewhere *found = &entry->elsewhere;
    qs_status status = QS_OK;
    if (!timing || !entry->as_kernel) return QS_OK;
    const bool whole = samples_read(timing->samples, found, &status);
    if (status == QS_OK && whole && doubt_of(&found->kernel_us, &found->half_us) <= most_doubt) return QS_OK;
    qs__elsewhere_release(found);
    return status;
}

qs_status qs__shared_open(const qs__setting *setting, qs__cases *cases) {
    const qs_profile_options *options = setting->options;
    qs__shared *shared = setting->shared;
    qs_device_info info;
    if (!options->cache || options->context != QS_CONTEXT_STEPS) return QS_OK;
    qs_device_describe(setting->device, &info);
    QS_TRY(circumstances_make(setting, &shared->circumstances));
    if (options->fresh || !(options->taken_days > 0)) return QS_OK;
    const int64_t since = (int64_t)time(NULL) - (int64_t)(options->taken_days * QS_DAY_SECONDS);
    QS_TRY(qs_timings_read(options->cache, &info, shared->circumstances, since, &shared->known));
    for (int i = 0; i < cases->count; i++)
        QS_TRY(entry_find(&shared->known, &cases->entry[i]));
    return QS_OK;
}

void qs__shared_close(qs__shared *shared) {
    qs_timings_release(&shared->known);
    qs_timings_release(&shared->found);
    free(shared->circumstances);
    *shared = (qs__shared){0};
}

/* ---- Joining ------------------------------------------------------------------------------------------------------------------------- */

/* By cases that were measured here and elsewhere: the median of how many times as long they take now. */
static qs_status pace_find(const qs__cases *cases, double *pace) {
    qs__samples ratio = {0};
    qs_status status = QS_OK;
    for (int i = 0; i < cases->count && status == QS_OK; i++) {
        const qs__entry *entry = &cases->entry[i];
        const double before = qs__mean_of(&entry->elsewhere.kernel_us), now = qs__mean_of(&entry->kernel_us);
        if (before > 0 && now > 0) status = qs__samples_add(&ratio, now / before);
    }
    *pace = ratio.count >= LEAST_COMPARED ? qs__quartiles_of(ratio.count, ratio.value).median : 1;
    free(ratio.value);
    return status;
}

static qs_status samples_join(qs__samples *to, const qs__samples *from, double factor) {
    for (int i = 0; i < from->count; i++)
        QS_TRY(qs__samples_add(to, factor * from->value[i]));
    return QS_OK;
}

qs_status qs__shared_join(const qs__setting *setting, qs__cases *cases, qs_quality *quality) {
    double pace;
    QS_TRY(pace_find(cases, &pace));
    for (int i = 0; i < cases->count; i++) {
        qs__entry *entry = &cases->entry[i];
        const qs__elsewhere *other = &entry->elsewhere;
        entry->own = (qs__own){entry->kernel_us.count, entry->half_us.count, entry->alone.count};
        quality->measured += entry->as_kernel && entry->own.places > 0;
        if (other->kernel_us.count == 0) continue;
        quality->taken += entry->own.places == 0;
        quality->taken_pace = pace;
        QS_TRY(samples_join(&entry->kernel_us, &other->kernel_us, pace));
        for (int c = 0; c < QS__CACHES; c++)
            QS_TRY(samples_join(&entry->cold[c], &other->cold[c], 1));
        QS_TRY(samples_join(&entry->half_us, &other->half_us, pace));
        QS_TRY(samples_join(&entry->alone, &other->alone, 1));
    }
    if (quality->taken > 0 && setting->rank == 0)
        qs_log(QS_LOG_INFO, "profile: %d cases from profiles of other models, at %.2f times what they took there", quality->taken, pace);
    return QS_OK;
}

/* ---- Conversions --------------------------------------------------------------------------------------------------------------------- */

/* A fit has no case: what it is of stands in its place. */
static void kind_text(const qs_case *kind, int64_t batch, char text[160]) {
    const qs_format *to = qs_conversion_target(kind);
    snprintf(text, 160, "fit %s %s from %s to %s, steps %d, rounding %d%s, weights %d, batch %" PRId64, kind->op->name, kind->pass->name,
             kind->operand[qs_case_position(kind, QS_SRC)].format->name, to ? to->name : "none", (int)qs_conversion_steps_of(kind),
             (int)kind->attributes.rounding, kind->attributes.least_squares ? " mse" : "", qs_conversion_of_weights(kind), batch);
}

bool qs__shared_fit(const qs__setting *setting, const qs_case *kind, size_t step_bytes, qs_conversion_cost *out) {
    char text[160];
    double bytes, pieces;
    kind_text(kind, setting->job->batch, text);
    const qs_timing *timing = qs_timings_find(&setting->shared->known, text, "");
    if (!timing) return false;
    const char *at = timing->samples;
    if (!number_read(&at, &bytes) || bytes > most_bytes_apart * (double)step_bytes || (double)step_bytes > most_bytes_apart * bytes)
        return false;
    if (!number_read(&at, &pieces) || pieces < 1 || pieces > 3) return false;
    out->pieces = (int)pieces;
    for (int p = 0; p < out->pieces; p++) {
        qs_fit_piece *piece = &out->piece[p];
        double to;
        if (!number_read(&at, &to) || !number_read(&at, &piece->us_per_element) || !number_read(&at, &piece->us) ||
            !number_read(&at, &piece->r2) || !number_read(&at, &piece->worst_residual) || !number_read(&at, &piece->mean_residual) ||
            to < (p > 0 ? (double)piece[-1].to_elements : 1) || to > 0x1p62 || piece->r2 > 1)
            return false;
        piece->to_elements = (int64_t)to;
        piece->us_per_element *= setting->shared->pace;
        piece->us *= setting->shared->pace;
    }
    return true;
}

qs_status qs__shared_fit_found(const qs__setting *setting, const qs_case *kind, size_t step_bytes, const qs_conversion_cost *row) {
    char text[160], samples[512];
    if (!setting->shared->circumstances) return QS_OK;
    kind_text(kind, setting->job->batch, text);
    int length = snprintf(samples, sizeof samples, "%zu %d", step_bytes, row->pieces);
    for (int p = 0; p < row->pieces; p++)
        length += snprintf(samples + length, sizeof samples - (size_t)length, " %" PRId64 " %.9g %.9g %.6g %.6g %.6g",
                           row->piece[p].to_elements, row->piece[p].us_per_element, row->piece[p].us, fmax(row->piece[p].r2, 0),
                           row->piece[p].worst_residual, row->piece[p].mean_residual);
    return qs_timings_add(&setting->shared->found, text, "", (int64_t)time(NULL), samples);
}

/* ---- Keeping ------------------------------------------------------------------------------------------------------------------------- */

/* What was taken from elsewhere stays as old as it is there; what is known too little helps nobody. */
static qs_status cases_add(const qs__cases *cases, qs_timings *found) {
    for (int i = 0; i < cases->count; i++) {
        const qs__entry *entry = &cases->entry[i];
        char *text = NULL;
        if (!entry->as_kernel || entry->own.places == 0 || entry->own.plans == 0 || entry->elsewhere.kernel_us.count > 0) continue;
        if (doubt_of(&entry->kernel_us, &entry->half_us) > most_doubt) continue;
        QS_TRY(samples_text(entry, &text));
        const qs_status status = qs_timings_add(found, entry->text, entry->row.kernel, (int64_t)time(NULL), text);
        free(text);
        QS_TRY(status);
    }
    return QS_OK;
}

void qs__shared_keep(const qs__setting *setting, const qs__cases *cases) {
    qs__shared *shared = setting->shared;
    qs_device_info info;
    if (!shared->circumstances) return;
    qs_device_describe(setting->device, &info);
    qs_status status = cases_add(cases, &shared->found);
    if (status == QS_OK && shared->found.count > 0)
        status = qs_timings_write(setting->options->cache, &info, shared->circumstances, &shared->found);
    if (status != QS_OK && status != QS_UNSUPPORTED)
        qs_log(QS_LOG_WARNING, "profile: other models' profiles will not find its cases: %s", qs_message());
}
