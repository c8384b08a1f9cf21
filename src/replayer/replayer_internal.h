// SPDX-License-Identifier: Apache-2.0
/* Inside the replayer: ranks that behave alike are one actor with a multiplicity; the state of a replay; noise as independent normals. */
#ifndef QSYNC_REPLAYER_INTERNAL_H
#define QSYNC_REPLAYER_INTERNAL_H

#include "qsync/replayer.h"

/* quick.c: eq. (4.8) of docs/method.md. Work a microsecond of a rank where 1 is the speed that was measured, with all ranks of the host at
 * work: `active` of the host's ranks, this one among them, compute now; alone_us: what takes together_us when all do, while the others
 * wait; 0: not known. */
double qs__speed_beside(int ranks, int active, double together_us, double alone_us);

/* ---- predict.c: a predictor of one length, as the public one of several ----------------------------------------------------------- */

/* `graph` is the model at that length, the profile has rows for it; job->lengths do not matter. qs__predictor_ask fails as the public one
 * does, and then gives nothing. */
typedef struct qs__predictor qs__predictor;
qs_status qs__predictor_create(const qs_graph *graph, const qs_cluster *cluster, const qs_profile *profile, const qs_job *job,
                               const qs_cost_options *options, qs__predictor **out);
qs_status qs__predictor_batches(qs__predictor *one, const int64_t *batch);
void qs__predictor_tensors(qs__predictor *one, const qs_tensor_table *const *tensors);
void qs__predictor_draft(qs__predictor *one, int class_index, const qs_schedule_draft *draft);
qs_status qs__predictor_ask(qs__predictor *one, const qs_recipe *const *const *recipe, char **trace, qs_prediction *out);
void qs__predictor_release(qs__predictor *one);

/* ---- The state of a replay (replay.c, noise.c) ------------------------------------------------------------------------------------ */

typedef struct qs__normal {
    double mean, variance;
} qs__normal;

typedef enum qs__activity { QS__BUSY, QS__WAITING, QS__DONE } qs__activity;

typedef struct qs__actor {
    const qs_replay_rank *what;
    int first, ranks; /* lowest rank; how many there are */
    int node, here;   /* kind of host; how many stand on each of these */

    qs__activity activity;
    int step;              /* -1: batch loading and the loop */
    double begin;          /* of the present step or wait */
    double since, left;    /* busy: microseconds of work that were left at `since` */
    double speed, taken;   /* work a microsecond; share of the time that an all-reduce takes */
    double stolen;         /* of the present step so far, by all-reduces */
    double until;          /* end of the step or wait; INFINITY: not known yet */
    double busy, reducing; /* sums: busy; waiting while an all-reduce was under way */
    int window;            /* first all-reduce that does not lie wholly before the last wait */
    qs_phase_times phases;

    double rate, kept, met_busy; /* noise: the variance of its own clock is kept + rate * (busy - met_busy) */
} qs__actor;

typedef struct qs__window {
    double start, end, deviation; /* of the end */
    double cpu_share;
    int last; /* the actor that was ready last */
} qs__window;

typedef struct qs__replay {
    const qs_replay_case *in;
    int actors;
    qs__actor *actor;
    int *actor_of; /* (ranks) */
    int nodes;
    int *present, *active; /* (nodes) ranks on such a host; those that compute */
    bool noisy;
    const qs_all_reduce_cost *reduce; /* (buckets) */

    double now;
    int buckets, placed;
    enum { QS__NOTHING, QS__PLANNED, QS__UNDER_WAY } communication;
    double *ready;      /* (actors x buckets) when each was ready; < 0: is not yet */
    int *waited;        /* (buckets) actors that are ready */
    qs__window *window; /* (buckets) in the order in which they are placed: by bucket */
    double *late;       /* (actors x actors) waiting of one for another */

    qs__normal *clock;      /* (actors x (actors + 1)) see noise.c */
    qs__normal *source_end; /* (actors x buckets) */
    qs__normal *normal;     /* (actors + 1) for one question */
    int *times;             /* (actors + 1) */

    qs_replay_result *result;
    size_t capacity;
} qs__replay;

/* ---- noise.c ----------------------------------------------------------------------------------------------------------------------- */

/* The greater of two jointly normal variables by its first two moments (eq. 4.9); returns the probability that it is `a`. */
double qs__greater_of(qs__normal a, qs__normal b, double covariance, qs__normal *out);
/* Moments of the greatest of independent normals, one[i] being there times[i] times; times 0: not there. */
qs__normal qs__greatest_of(int count, const qs__normal *one, const int *times);

/* Where ranks depend on each other, expected times count. */
void qs__noise_start(qs__replay *one);
void qs__bucket_ready(qs__replay *one, int actor, int bucket);
/* Expected start of a bucket's all-reduce for which all are ready; once for each bucket. */
double qs__expected_start(qs__replay *one, int bucket, double duration, double *deviation);
/* When an actor that comes to a wait at one->now goes on; once for each wait, after the all-reduce has been placed. */
double qs__expected_release(qs__replay *one, int actor, int bucket);
double qs__expected_iteration(qs__replay *one);

#endif
