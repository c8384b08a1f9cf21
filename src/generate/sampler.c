// SPDX-License-Identifier: Apache-2.0
/* Which id comes next. All in double; a draw is one uniform number of 53 bits, keyed by the seed and counted by the caller. */
#include <math.h>
#include <stdlib.h>

#include "qsync/generate.h"

typedef struct candidate {
    double power; /* proportional to its probability */
    int32_t id;
} candidate;

struct qs_sampler {
    qs_sampling with;
    int64_t count;
    candidate *candidate; /* (count) */
};

qs_status qs_sampler_create(const qs_sampling *sampling, int64_t count, qs_sampler **out) {
    if (!(sampling->temperature >= 0 && sampling->temperature <= 1e6))
        return qs_fail(QS_USAGE, "temperature %g: from 0 to 1e6", sampling->temperature);
    if (!(sampling->top_p > 0 && sampling->top_p <= 1)) return qs_fail(QS_USAGE, "top-p %g: above 0 and at most 1", sampling->top_p);
    if (count < 1 || count > INT32_MAX) return qs_fail(QS_USAGE, "%lld ids to choose from: 1 to %d", (long long)count, INT32_MAX);
    qs_sampler *sampler = NULL;
    QS_TRY(qs_allocate(1, sizeof *sampler, &sampler));
    sampler->with = *sampling;
    sampler->count = count;
    const qs_status status = qs_allocate((size_t)count, sizeof *sampler->candidate, &sampler->candidate);
    if (status == QS_OK)
        *out = sampler;
    else
        qs_sampler_release(sampler);
    return status;
}

void qs_sampler_release(qs_sampler *sampler) {
    if (!sampler) return;
    free(sampler->candidate);
    free(sampler);
}

static int more_probable_first(const void *left, const void *right) {
    const candidate *a = left, *b = right;
    if (a->power != b->power) return a->power > b->power ? -1 : 1;
    return a->id < b->id ? -1 : 1;
}

/* The fewest of `count` candidates with the largest powers, at least `share` of `sum` together, to the front; returns how many. Those below
 * an equal part of what may be left out are never among them: all of them together are less than that. Most need not be sorted so. */
static int64_t nucleus(candidate *list, int64_t count, double sum, double share) {
    const double least = (1 - share) * sum / (double)count;
    double reached = 0;
    int64_t kept = 0, taken = 0;
    for (int64_t i = 0; i < count; i++)
        if (list[i].power >= least) list[kept++] = list[i];
    qsort(list, (size_t)kept, sizeof *list, more_probable_first);
    while (taken < kept && reached < share * sum)
        reached += list[taken++].power;
    return taken;
}

qs_status qs_sampler_draw(qs_sampler *sampler, const float *logits, uint64_t draw, int32_t *id) {
    const int64_t count = sampler->count;
    candidate *list = sampler->candidate;
    int64_t best = 0, taken = count;
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(logits[i]))
            return qs_fail(QS_NUMERIC, "the logit of id %lld is %g: the weights overflow", (long long)i, (double)logits[i]);
        if (logits[i] > logits[best]) best = i;
    }
    *id = (int32_t)best;
    if (sampler->with.temperature == 0) return QS_OK;
    for (int64_t i = 0; i < count; i++) {
        list[i] = (candidate){exp(((double)logits[i] - (double)logits[best]) / sampler->with.temperature), (int32_t)i};
        sum += list[i].power;
    }
    if (sampler->with.top_p < 1) taken = nucleus(list, count, sum, sampler->with.top_p);
    sum = 0;
    for (int64_t i = 0; i < taken; i++)
        sum += list[i].power;
    const uint64_t key = qs_random_key(sampler->with.seed, 0, 0, 0);
    const uint64_t bits = (uint64_t)qs_random_bits(key, 2 * draw) << 21 ^ qs_random_bits(key, 2 * draw + 1) >> 11;
    double left = (double)bits * 0x1p-53 * sum; /* powers before the one that is drawn */
    int64_t at = 0;
    while (at + 1 < taken && left >= list[at].power)
        left -= list[at++].power;
    *id = list[at].id;
    return QS_OK;
}
