// SPDX-License-Identifier: Apache-2.0
/* What the verbs share beside program.h: job and cluster options, and the worker: one rank with its communicator and device. */
#ifndef QSYNC_CLI_H
#define QSYNC_CLI_H

#include "program.h"
#include "qsync/accumulator.h"
#include "qsync/planner.h"
#include "qsync/profiler.h"

/* ---- Job, cluster, worker ------------------------------------------------------------------------------------------------ */

enum { MOST_SETTINGS = 12 }; /* of all optimisers, equal names once */

typedef struct job_options {
    qs_job job;
    const char *model, *dataset, *optimizer, *schedule, *loss_scaling, *all_reduce, *wire, *data_folder, *decay;
    const char *freeze, *lengths;        /* NULL: nothing */
    const char *loss, *dropout;          /* NULL: as the model has it */
    int64_t head;                        /* 0: the model's own */
    const char *mean, *deviation;        /* NULL: as the data set has it */
    double rate, setting[MOST_SETTINGS]; /* NaN: not said */
    int64_t seed;
    bool no_augmentation;
} job_options;
/* What of a job a verb asks for. */
enum {
    JOB_SET = 1,       /* --dataset, --batch */
    JOB_FOLDER = 2,    /* --data */
    JOB_STEP = 4,      /* model, seed and what a step depends on */
    JOB_EPOCHS = 8,    /* epochs, rates, augmentation */
    JOB_PROFILED = 16, /* no options: model, batch and lengths are a profile's by default */
    JOB_LENGTHS = 32   /* --lengths */
};
void job_options_start(job_options *options);
void job_options_add(job_options *options, option_table *table, unsigned groups);
qs_status job_options_finish(job_options *options);
/* The model that a job trains, as its data set shapes it. */
qs_status job_model_open(const qs_job *job, qs_graph **out);
/* Columns that a table needs for names: `least`, or as many as `name` has. */
int name_columns(int least, const char *name);
/* The same for the names of all nodes; at least 26. */
int node_columns(const qs_graph *graph);
/* model[QS_MODEL] becomes the graph.json in a file's folder, where one is: what a run was is there, by whatever name. */
qs_status job_model_beside(const char *file, char *model);
/* The plan of the run whose folder a file of this model lies in: its plan.json, whose path goes to path[QS_MODEL]. false: there is none,
 * none that can be read, or one that is not the run's: it says nothing of a job, or (where no graph.json tells a run's folder) its job has
 * another model. */
bool run_plan_beside(const char *file, const char *model, char *path, qs_plan *out);
const char *optimizer_names(void); /* "sgd, adam" */
/* The job of a plan in place of the table's defaults. A plan written by hand may say nothing of the job: then it is the command line's.
 * Otherwise the plan's job decides what its schedule depends on. What stands on the command line all the same is kept, so that the trainer
 * refuses a contradiction instead of ignoring it. */
void job_from_plan(const qs_plan *plan, const option_table *table, qs_job *job);
/* Before job_options_finish, which holds the model against the data set: what a plan's job names in place of the table's defaults. The plan
 * must live as long as the options. */
void job_names_from_plan(const qs_plan *plan, const option_table *table, job_options *options);

/* Whether operators or tensors of a class have other formats than fp32. */
bool plan_class_is_reduced(const qs_plan *plan, const qs_class_plan *one);
/* The class of a plan whose formats are meant where one class computes alone, as in eval and export: that of the name, or (name NULL) the
 * only one that has others than fp32; *out NULL: none has. QS_USAGE where the plan lacks it, or where several have. */
qs_status plan_class_choose(const qs_plan *plan, const char *file, const char *name, const qs_class_plan **out);

/* What an evaluation measured beside loss and accuracy, for people (", f1 0.8125"; "": nothing; until the next call); and as members of an
 * object, their names behind `prefix`. */
const char *measures_text(const qs_evaluation *evaluation);
void measures_put(json_t *object, const char *prefix, const qs_evaluation *evaluation);

typedef struct worker_options {
    const char *cluster, *backend;
    int threads;
    const char *class_name; /* of the cluster, this class alone on one rank; NULL: all of them */
    bool unpinned;          /* threads go where the system likes */
    bool everybody;         /* without a cluster file: all ranks are one class; else there is one rank */
    const char *command;    /* what all ranks must have in common */
    const qs_job *job;
} worker_options;
void worker_options_add(worker_options *options, const char *command, const qs_job *job, option_table *table);

/* One process of a run: its communicator, cluster, class and device. */
typedef struct worker {
    qs_comm *comm;
    qs_cluster cluster;
    int class_index;
    qs_device *device;
    bool pinned; /* every thread of this rank has a core of its own */
    char *cache; /* the user's, of kernels and cases (qs_tuning_path); NULL: none */
} worker;
/* Opens communicator, cluster (file, or a single rank), and this rank's device, pins its threads where cores suffice, and has all ranks
 * of a class take the kernels that its first one finds in the user's cache, so that they run alike; `before` is
 * what came of this rank's options and files, so that what fails on one rank alone is told and stops all. QS_USAGE when the number of
 * ranks does not match. */
qs_status worker_open(const worker_options *options, qs_status before, worker *out);
/* Closes a worker after `status`, which it returns. A failure that all ranks agreed on ("rank N: ...") is told by rank N alone; one
 * that the others cannot know of is told here and ends the whole run at once. */
qs_status worker_end(worker *one, qs_status status);
bool worker_is_first(const worker *one);
/* The device of a class, which rests as its speed says or runs at full pace; `turn` counts the ranks of a host that name no device of their
 * own. */
qs_status class_device_open(const qs_class *one, bool rests, int turn, qs_device **out);
/* Keeps of a class's formats those that the device computes in on this machine. */
void class_formats_limit(const qs_device *device, qs_class *one);

/* ---- Results of training (train.c) ---------------------------------------------------------------- */

/* result.json, which `report` reads, into a run's folder. */
qs_status train_result_write(const char *folder, const qs_cluster *cluster, const qs_train_result *result);

/* ---- Profiles: options, disturbance, statistics (profile.c) --------------------------------------- */

/* The wires of a list, "fp32,bf16,int8", that are not the job's own; QS_USAGE for one that its algorithm does not carry. NULL: none. */
qs_status profile_wires_read(const char *list, const qs_job *job, qs_profile_options *out);
/* What the job and this process's place say of a measurement; rank 0 tells how far it is. */
void profile_options_begin(const job_options *job, const worker *here, void (*tell)(void *context, const char *what, double fraction),
                           qs_profile_options *out);
/* QS_UNSUPPORTED, with the core and what to do, for a profile of cores that others used; what was measured then lies beside the file that
 * it would have been, as out.refused. accept_noise, or QSYNC_ACCEPT_NOISE=yes: it is taken. */
qs_status profile_disturbed_refuse(const char *out, bool accept_noise, const qs_profile *profile);

/* The statistics of another profile of the same model, in the place of the profile's own. */
qs_status statistics_take(const char *file, qs_profile *profile);
/* QS_MISMATCH, with the way out, where an indicator (NULL: the profile's default) lacks statistics. */
qs_status statistics_check(const qs_profile *profile, const char *indicator);

/* ---- Accumulators ----------------------------------------------------------------------------------------------------------- */

/* --accumulate, --accumulator-bits-off, --accumulator-widths. */
typedef struct accumulate_options {
    const char *rule, *widths; /* rule NULL: none */
    int bits_off;
} accumulate_options;
void accumulate_options_add(accumulate_options *options, option_table *table);
/* The rule that they say; options->rule is there. */
qs_status accumulate_options_read(const accumulate_options *options, qs_accumulation_rule *out);

/* ---- Verbs ------------------------------------------------------------------------------------------------------------- */
#define QS_VERB(name, summary) qs_status verb_##name(int argc, char **argv);
#include "verbs.def"
#undef QS_VERB

#endif
