// SPDX-License-Identifier: Apache-2.0
/* Where the noise of ranks meets. A rank's time is normal around its median, its variance proportional to its busy time since it last
 * waited for the others. As max(max_i ready_i, end) = max_i max(ready_i, end_i), every rank has an end of its own for each all-reduce, as if
 * it were alone: ranks stay independent, and what an end shares with its own rank's later time is its covariance. */
#include <math.h>

#include "replayer_internal.h"

double qs__actor_variance(const qs__actor *actor) {
    return actor->kept + actor->rate * (actor->busy - actor->met_busy);
}

static void end_extend(qs__replay *one, int actor, int bucket) {
    qs__ready *ready = qs__ready_of(one, actor, bucket);
    const qs__normal now = {ready->time, ready->variance};
    ready->end = now;
    ready->covariance = now.variance;
    if (bucket == 0) return;
    const qs__ready *before = qs__ready_of(one, actor, bucket - 1);
    const double covariance = fmin(before->covariance, now.variance);
    const double p = qs__greater_of(now, before->end, covariance, &ready->end);
    ready->covariance = p * now.variance + (1 - p) * covariance;
}

double qs__expected_start(qs__replay *one, int bucket, double duration, double *deviation) {
    for (int a = 0; a < one->actors; a++) {
        end_extend(one, a, bucket);
        one->normal[a] = qs__ready_of(one, a, bucket)->end;
        one->times[a] = one->actor[a].ranks;
    }
    const qs__normal start = qs__greatest_of(one->actors, one->normal, one->times);
    for (int a = 0; a < one->actors; a++)
        qs__ready_of(one, a, bucket)->end.mean += duration;
    *deviation = sqrt(start.variance);
    return start.mean;
}

static void met(qs__actor *actor, double p) {
    actor->kept = p * p * qs__actor_variance(actor);
    actor->met_busy = actor->busy;
    if (p < 0.5) actor->met = true;
}

/* A rank that has met the others knows their common clock: only its own noise since then counts. */
static double release_after_meeting(qs__replay *one, qs__actor *actor, double end) {
    qs__normal later;
    const double p = qs__greater_of((qs__normal){one->now, qs__actor_variance(actor)}, (qs__normal){end, 0}, 0, &later);
    met(actor, p);
    return later.mean;
}

static double release_first(qs__replay *one, int index, int bucket) {
    qs__actor *actor = &one->actor[index];
    const qs__ready *ready = qs__ready_of(one, index, bucket);
    const qs__normal now = {one->now, qs__actor_variance(actor)};
    qs__normal own, later;
    const double ahead = qs__greater_of(now, ready->end, fmin(ready->covariance, now.variance), &own);
    for (int a = 0; a < one->actors; a++) {
        one->normal[a] = qs__ready_of(one, a, bucket)->end;
        one->times[a] = one->actor[a].ranks - (a == index);
    }
    const qs__normal others = qs__greatest_of(one->actors, one->normal, one->times);
    const double p = others.mean > -INFINITY ? qs__greater_of(own, others, 0, &later) : 1;
    if (!(others.mean > -INFINITY)) later = own;
    met(actor, ahead * p);
    return later.mean;
}

double qs__expected_release(qs__replay *one, int index, int bucket) {
    qs__actor *actor = &one->actor[index];
    const qs__window *window = &one->window[bucket];
    const double sooner = fmax(one->now, window->end);
    if (!one->noisy) return sooner;
    const double certain = 8 * (sqrt(qs__actor_variance(actor)) + window->deviation);
    if (one->now - window->end > certain) return one->now;
    if (actor->met) return fmax(sooner, release_after_meeting(one, actor, window->end));
    return fmax(sooner, release_first(one, index, bucket));
}

double qs__expected_iteration(qs__replay *one) {
    double last = 0;
    for (int a = 0; a < one->actors; a++) {
        const qs__actor *actor = &one->actor[a];
        last = fmax(last, actor->begin);
        one->normal[a] = (qs__normal){actor->begin, qs__actor_variance(actor)};
        one->times[a] = actor->ranks;
    }
    return one->noisy ? fmax(last, qs__greatest_of(one->actors, one->normal, one->times).mean) : last;
}
