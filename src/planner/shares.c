// SPDX-License-Identifier: Apache-2.0
/* Shares of the global batch: the table of what classes take for them, the balanced ones, exchanges between classes. */
#include "shares.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* An exchange has to gain more than sums of floating-point numbers differ by. */
static const double least_gain = 1e-9;
/* Sums that balancing may tell apart; far beyond any cluster whose counts have something in common. */
enum { MOST_SUMS = 1 << 20 };

static int classes_of(const qs__shares *shares) {
    return shares->candidate->cluster->classes;
}

static int64_t count_of(const qs__shares *shares, int c) {
    return shares->candidate->cluster->class_[c].count;
}

static qs__share *share_of(const qs__shares *shares, int c, int place) {
    return &shares->share[c * shares->batches + place];
}

/* ---- The table ------------------------------------------------------------------------------------------------------------------- */

/* Recipes within the tolerance of the fastest count as equally fast: they are tried from the highest precision on, and only a real gain
 * replaces one. */
static qs_status recipe_try(qs__shares *shares, int c, int recipe, qs__share *out) {
    qs_prediction prediction;
    qs__candidate_set_uniform(shares->candidate, c, recipe);
    QS_TRY(qs__candidate_predict(shares->candidate, &prediction));
    const qs_prediction_class *one = &prediction.class_[c];
    if (one->fits && (!out->fits || qs__candidate_time_allowed(shares->candidate, one->compute_us) < out->compute_us))
        *out = (qs__share){true, recipe, one->compute_us};
    qs_prediction_release(&prediction);
    return QS_OK;
}

static qs_status class_fill(qs__shares *shares, int c, bool precisions) {
    qs_candidate *candidate = shares->candidate;
    const int recipes = precisions && qs__class_is_lowered(candidate, c) ? candidate->class_[c].recipes : 1;
    for (int b = 0; b < shares->batches; b++) {
        if (shares->batch[b] == 0 && !candidate->cluster->class_[c].inference) continue;
        QS_TRY(qs__candidate_batch_set(candidate, c, shares->batch[b]));
        for (int r = 0; r < recipes; r++)
            QS_TRY(recipe_try(shares, c, r, share_of(shares, c, b)));
        if (shares->batch[b] == candidate->job->batch) shares->place[c] = b;
    }
    qs__candidate_set_uniform(candidate, c, 0);
    return qs__candidate_batch_set(candidate, c, candidate->job->batch);
}

static qs_status batches_check(const qs_candidate *candidate) {
    const qs_profile *profile = candidate->profile;
    if (profile->batches > 1 && qs_profile_batch_find(profile, candidate->job->batch)) return QS_OK;
    return qs_fail(QS_MISMATCH,
                   "unequal batches need kernel times at other batches than %lld, which the profile lacks: profile with --batches auto",
                   (long long)candidate->job->batch);
}

qs_status qs__shares_create(qs_candidate *candidate, bool precisions, qs__shares *out) {
    const size_t classes = (size_t)candidate->cluster->classes;
    QS_TRY(batches_check(candidate));
    *out = (qs__shares){.candidate = candidate, .batches = candidate->options->idle ? 1 : 0};
    QS_TRY(qs_allocate((size_t)(candidate->profile->batches + out->batches), sizeof *out->batch, &out->batch));
    for (int b = 0; b < candidate->profile->batches; b++)
        out->batch[out->batches++] = candidate->profile->batch_row[b].samples;
    QS_TRY(qs_allocate(classes * (size_t)out->batches, sizeof *out->share, &out->share));
    QS_TRY(qs_allocate(classes, sizeof *out->place, &out->place));
    for (int c = 0; c < candidate->cluster->classes; c++)
        qs__candidate_set_uniform(candidate, c, 0);
    for (int c = 0; c < candidate->cluster->classes; c++)
        QS_TRY(class_fill(out, c, precisions));
    return QS_OK;
}

void qs__shares_release(qs__shares *shares) {
    free(shares->batch);
    free(shares->share);
    free(shares->place);
    *shares = (qs__shares){0};
}

/* ---- Balance ----------------------------------------------------------------------------------------------------------------------- */

/* Sums over classes of count × (batch - least batch), in units of what they all are multiples of. */
typedef struct balance {
    int64_t unit, sums; /* sums: of interest, 0 .. the one wanted */
    double *worst;      /* (classes × sums) slowest class so far; INFINITY: cannot be */
    double *total;      /* (classes × sums) ties: compute time of all devices */
    int *chosen;        /* (classes × sums) place of the last class */
} balance;

static int64_t common_divisor(int64_t a, int64_t b) {
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static int64_t step_of(const qs__shares *shares, int c, int place) {
    return count_of(shares, c) * (shares->batch[place] - shares->batch[0]);
}

static qs_status balance_start(const qs__shares *shares, balance *out) {
    int64_t wanted = 0;
    for (int c = 0; c < classes_of(shares); c++) {
        for (int b = 1; b < shares->batches; b++)
            out->unit = common_divisor(out->unit, step_of(shares, c, b));
        wanted += count_of(shares, c) * (shares->candidate->job->batch - shares->batch[0]);
    }
    if (out->unit == 0) out->unit = 1;
    out->sums = wanted / out->unit + 1; /* the job's own batch is on the grid: wanted is a multiple */
    const size_t all = (size_t)out->sums * (size_t)classes_of(shares);
    if (out->sums > MOST_SUMS)
        return qs_fail(QS_UNSUPPORTED, "shares over ranks whose counts have so little in common: %lld sums to tell apart, at most %d",
                       (long long)out->sums, MOST_SUMS);
    QS_TRY(qs_allocate(all, sizeof *out->worst, &out->worst));
    QS_TRY(qs_allocate(all, sizeof *out->total, &out->total));
    return qs_allocate(all, sizeof *out->chosen, &out->chosen);
}

/* The best way to reach a sum with classes 0 .. c. */
static void sum_fill(const qs__shares *shares, balance *one, int c, int64_t sum) {
    const size_t at = (size_t)c * (size_t)one->sums + (size_t)sum;
    one->worst[at] = one->total[at] = INFINITY;
    for (int b = 0; b < shares->batches; b++) {
        const qs__share *share = share_of(shares, c, b);
        const int64_t before = sum - step_of(shares, c, b) / one->unit;
        if (!share->fits || before < 0 || (c == 0 && before > 0)) continue;
        if (count_of(shares, c) == 0 && shares->batch[b] != shares->candidate->job->batch) continue;
        const size_t from = c > 0 ? at - (size_t)one->sums - (size_t)(sum - before) : 0;
        const double worst = fmax(c > 0 ? one->worst[from] : 0, share->compute_us);
        const double total = (c > 0 ? one->total[from] : 0) + (double)count_of(shares, c) * share->compute_us;
        if (!(worst < one->worst[at] || (worst == one->worst[at] && total < one->total[at]))) continue;
        one->worst[at] = worst;
        one->total[at] = total;
        one->chosen[at] = b;
    }
}

static int64_t most_samples(const qs__shares *shares, int c) {
    int64_t most = 0;
    for (int b = 0; b < shares->batches; b++)
        if (share_of(shares, c, b)->fits) most = shares->batch[b];
    return most;
}

static qs_status nothing_fits(const qs__shares *shares) {
    const qs_cluster *cluster = shares->candidate->cluster;
    const int64_t least = shares->candidate->profile->batch_row[0].samples;
    int64_t all = 0, ranks = qs_cluster_ranks(cluster);
    int tightest = 0;
    for (int c = 0; c < cluster->classes; c++) {
        all += count_of(shares, c) * most_samples(shares, c);
        if (most_samples(shares, c) < most_samples(shares, tightest)) tightest = c;
    }
    const qs_class *one = &cluster->class_[tightest];
    if (most_samples(shares, tightest) == 0)
        return qs_fail(QS_INFEASIBLE,
                       "class %s: not even %lld samples a rank fit its memory limit of %.1f MiB (%lld bytes); raise the limit", one->name,
                       (long long)least, (double)one->memory_limit / 1048576.0, (long long)one->memory_limit);
    return qs_fail(QS_INFEASIBLE,
                   "the memory limits leave room for %lld samples of the global batch of %lld (class %s for %lld a rank, limit %.1f MiB); "
                   "raise a limit, lower the batch, or profile more batches",
                   (long long)all, (long long)(ranks * shares->candidate->job->batch), one->name, (long long)most_samples(shares, tightest),
                   (double)one->memory_limit / 1048576.0);
}

static void places_read(const qs__shares *shares, const balance *one, int *place) {
    int64_t sum = one->sums - 1;
    for (int c = classes_of(shares) - 1; c >= 0; c--) {
        place[c] = one->chosen[(size_t)c * (size_t)one->sums + (size_t)sum];
        sum -= step_of(shares, c, place[c]) / one->unit;
    }
}

qs_status qs__shares_balance(const qs__shares *shares, int *place) {
    balance one = {0};
    qs_status status = QS_OK;
    QS_GOTO(balance_start(shares, &one));
    for (int c = 0; c < classes_of(shares); c++)
        for (int64_t sum = 0; sum < one.sums; sum++)
            sum_fill(shares, &one, c, sum);
    if (isinf(one.worst[(size_t)classes_of(shares) * (size_t)one.sums - 1])) QS_GOTO(nothing_fits(shares));
    places_read(shares, &one, place);
done:
    free(one.worst);
    free(one.total);
    free(one.chosen);
    return status;
}

/* ---- Trying and exchanging ----------------------------------------------------------------------------------------------------------- */

qs_status qs__shares_set(qs__shares *shares, const int *place) {
    for (int c = 0; c < classes_of(shares); c++) {
        QS_TRY(qs__candidate_batch_set(shares->candidate, c, shares->batch[place[c]]));
        qs__candidate_set_uniform(shares->candidate, c, share_of(shares, c, place[c])->recipe);
        shares->place[c] = place[c];
    }
    return QS_OK;
}

qs_status qs__shares_try(qs__shares *shares, const int *place, double *iteration_us) {
    qs_prediction prediction;
    *iteration_us = INFINITY;
    for (int c = 0; c < classes_of(shares); c++)
        if (!share_of(shares, c, place[c])->fits) return QS_OK;
    QS_TRY(qs__shares_set(shares, place));
    QS_TRY(qs__candidate_predict(shares->candidate, &prediction));
    if (prediction.fits) *iteration_us = prediction.iteration_us;
    qs_prediction_release(&prediction);
    return QS_OK;
}

int qs__shares_place(const qs__shares *shares, int64_t samples) {
    for (int b = 0; b < shares->batches; b++)
        if (shares->batch[b] == samples) return b;
    return -1;
}

bool qs__shares_exchange(const qs__shares *shares, int from, int to, int *place) {
    for (int b = place[from] - 1; b >= 0 && count_of(shares, to) > 0; b--) {
        const int64_t given = count_of(shares, from) * (shares->batch[place[from]] - shares->batch[b]);
        if (given % count_of(shares, to) != 0) continue;
        const int taken = qs__shares_place(shares, shares->batch[place[to]] + given / count_of(shares, to));
        if (taken < 0) continue;
        place[from] = b;
        place[to] = taken;
        return true;
    }
    return false;
}

/* The first exchange that gains; *gained is false when there is none. */
static qs_status exchange_gain(qs__shares *shares, int *place, double *iteration_us, bool *gained) {
    int changed_from, changed_to;
    *gained = false;
    for (int pair = 0; pair < classes_of(shares) * classes_of(shares) && !*gained; pair++) {
        const int from = pair / classes_of(shares), to = pair % classes_of(shares);
        double us = 0;
        changed_from = place[from];
        changed_to = place[to];
        if (from == to || !qs__shares_exchange(shares, from, to, place)) continue;
        QS_TRY(qs__shares_try(shares, place, &us));
        *gained = us < *iteration_us * (1 - least_gain);
        if (*gained) {
            *iteration_us = us;
        } else {
            place[from] = changed_from;
            place[to] = changed_to;
        }
    }
    return QS_OK;
}

static void equal_places(const qs__shares *shares, int *place) {
    for (int c = 0; c < classes_of(shares); c++)
        place[c] = qs__shares_place(shares, shares->candidate->job->batch);
}

static qs_status fastest_find(qs__shares *shares, int *place, int *equal, double *iteration_us) {
    double equal_us = INFINITY;
    bool gained = true;
    QS_TRY(qs__shares_balance(shares, place));
    QS_TRY(qs__shares_try(shares, place, iteration_us));
    equal_places(shares, equal);
    QS_TRY(qs__shares_try(shares, equal, &equal_us));
    if (equal_us <= *iteration_us) {
        memcpy(place, equal, (size_t)classes_of(shares) * sizeof *place);
        *iteration_us = equal_us;
    }
    while (gained)
        QS_TRY(exchange_gain(shares, place, iteration_us, &gained));
    return qs__shares_set(shares, place);
}

qs_status qs__shares_fastest(qs__shares *shares, double *iteration_us) {
    int *place = NULL, *equal = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)classes_of(shares), sizeof *place, &place));
    QS_GOTO(qs_allocate((size_t)classes_of(shares), sizeof *equal, &equal));
    status = fastest_find(shares, place, equal, iteration_us);
done:
    free(place);
    free(equal);
    return status;
}
