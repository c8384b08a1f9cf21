// SPDX-License-Identifier: Apache-2.0
/* What the verbs share: option tables, job and cluster options, the session (communicator and device), output. */
#ifndef QSYNC_CLI_H
#define QSYNC_CLI_H

#include <jansson.h>

#include "qsync/accumulator.h"
#include "qsync/planner.h"
#include "qsync/profiler.h"

/* ---- Options ----------------------------------------------------------------------------------------------------------- */

typedef enum option_kind { OPTION_TEXT, OPTION_INT, OPTION_INTEGER, OPTION_REAL, OPTION_FLAG } option_kind;
typedef struct option_row {
    const char *name; /* "batch" for --batch */
    option_kind kind;
    void *target;         /* const char **, int *, int64_t *, double *, bool * */
    const char *argument; /* "N", "FILE"; NULL for flags */
    const char *help;     /* one line; the default is part of it */
    double minimum;       /* of numbers */
} option_row;

typedef struct verb_usage {
    const char *verb;
    const char *arguments; /* "MODEL", "[VALUE ...]" or "" */
    const char *purpose;   /* a few lines */
    const char *examples;  /* lines, or NULL */
} verb_usage;

#define MOST_OPTIONS 56
typedef struct option_table {
    int rows;
    option_row row[MOST_OPTIONS];
    bool given[MOST_OPTIONS]; /* set by options_parse */
} option_table;

void options_add(option_table *table, option_row row);
/* Parses argv[1..]; *first receives the index of the first non-option argument. `done` becomes true after --help. QS_USAGE names the
 * option, the value and the rule. */
qs_status options_parse(option_table *table, const verb_usage *usage, int argc, char **argv, int *first, bool *done);
/* True when the option stood on the command line. */
bool option_given(const option_table *table, const char *name);
/* QS_USAGE when there are more than `most` plain arguments. */
qs_status arguments_check(const verb_usage *usage, int argc, char **argv, int first, int most);
/* The input of a model: its own, with the shape "3x32x32" unless text is NULL, and other classes unless 0. */
qs_status model_input_parse(const char *text, int classes, const char *model, qs_model_input *out);
/* Calls `visit` for each name of a comma-separated list, up to the first failure. */
qs_status names_each(const char *list, qs_status (*visit)(void *context, const char *name), void *context);

/* ---- Job, cluster, session ------------------------------------------------------------------------------------------------ */

enum { MOST_SETTINGS = 12 }; /* of all optimisers, equal names once */

typedef struct job_options {
    qs_job job;
    const char *model, *dataset, *optimizer, *schedule, *loss_scaling, *all_reduce, *wire, *data_folder;
    double rate, setting[MOST_SETTINGS]; /* NaN: not said */
    int64_t seed;
    bool no_augmentation;
} job_options;
/* What of a job a verb asks for. */
enum {
    JOB_SET = 1,      /* --dataset, --batch */
    JOB_FOLDER = 2,   /* --data */
    JOB_STEP = 4,     /* model, seed and what a step depends on */
    JOB_EPOCHS = 8,   /* epochs, rates, augmentation */
    JOB_PROFILED = 16 /* no options: model and batch are a profile's by default */
};
void job_options_start(job_options *options);
void job_options_add(job_options *options, option_table *table, unsigned groups);
qs_status job_options_finish(job_options *options);
/* optimizer.c: the options of job_options that come from the list of optimisers. */
const char *optimizer_names(void); /* "sgd or adam (sgd)" */
void optimizer_options_start(job_options *options);
void optimizer_options_add(job_options *options, option_table *table);
qs_status optimizer_options_finish(job_options *options);
/* What was not said is the plan's; a plan for another optimiser than was said changes nothing. */
void optimizer_from_plan(const qs_job *planned, const option_table *table, qs_job *job);
/* The job of a plan in place of the table's defaults. A plan written by hand may say nothing of the job: then it is the command line's.
 * Otherwise the plan's job decides what its schedule depends on. What stands on the command line all the same is kept, so that the trainer
 * refuses a contradiction instead of ignoring it. */
void job_from_plan(const qs_plan *plan, const option_table *table, qs_job *job);

typedef struct session_options {
    const char *cluster, *backend;
    int threads;
    const char *class_name; /* of the cluster, this class alone on one rank; NULL: all of them */
    bool unpinned;          /* threads go where the system likes */
    const char *command;    /* what all ranks must have in common */
    const qs_job *job;
} session_options;
void session_options_add(session_options *options, const char *command, const qs_job *job, option_table *table);

/* One process of a run: its communicator, cluster, class and device. */
typedef struct session {
    qs_comm *comm;
    qs_cluster cluster;
    int class_index;
    qs_device *device;
    bool pinned; /* every thread of this rank has a core of its own */
} session;
/* Opens communicator, cluster (file, or a single rank), and this rank's device, and pins its threads where cores suffice; `before` is
 * what came of this rank's options and files, so that what fails on one rank alone is told and stops all. QS_USAGE when the number of
 * ranks does not match. */
qs_status session_open(const session_options *options, qs_status before, session *out);
/* Ends a session after `status`, which it returns. A failure that all ranks agreed on ("rank N: ...") is told by rank N alone; one that the
 * others cannot know of is told here and ends the whole run at once. */
qs_status session_end(session *one, qs_status status);
/* Called once at start: under a launcher, rank 0 speaks for all until a session exists. */
void launcher_rank_read(void);
/* True when what all ranks know, or the failure at hand, has been told or is another rank's to tell. */
bool failure_is_told(void);
bool session_is_first(const session *one);
/* For a verb without a session: each thread gets a core of its own, as far as there are any. */
void threads_pin(int threads);

/* Keeps of a class's formats those that the device computes in on this machine. */
void class_formats_limit(const qs_device *device, qs_class *one);

/* ---- Kernels from the user's cache (tuned.c) ---- */

/* For a device of a process by itself. */
qs_status tuned_take(qs_device *device);
/* Collective: the first rank of each class reads the cache, and all ranks of the class take what it found, so that they run alike. */
qs_status tuned_share(session *one);

/* ---- Estimated profiles --------------------------------------------------------------------------------------------------- */

/* qs_profile_estimate of a cluster file; opens no device. */
qs_status profile_estimate(const char *cluster_file, const qs_job *job, int64_t least, int64_t most, qs_profile *out);
/* The statistics of another profile of the same model, in the place of the profile's own. */
qs_status statistics_take(const char *file, qs_profile *profile);
/* QS_MISMATCH, with the way out, where an indicator lacks statistics. */
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
/* QS_USAGE where the other two stand without a rule. */
qs_status accumulate_options_check(const accumulate_options *options, const option_table *table);

/* ---- Output ------------------------------------------------------------------------------------------------------------- */

/* Prints a JSON value on stdout and releases it; a NULL value is QS_OUT_OF_MEMORY. */
qs_status json_print(json_t *value);
/* A number, or null where it is not finite (no epoch was run, nothing was measured). */
json_t *json_number(double value);
/* "1.2 MiB", "38.4 ms" into a small static ring: usable a few times in one printf; "-" for what is not finite. */
const char *bytes_text(double bytes);
const char *time_text(double us);
const char *count_text(double count);
/* A fraction as "91.25 %"; "-" when it is not finite. */
const char *percent_text(double fraction);
/* QS_BAD_FILE when no file can be made at `path`: told before long work, not behind it. */
qs_status output_check(const char *path);

/* Progress on stderr: a bar on a terminal, otherwise a line every few seconds. fraction in 0..1; text follows it. */
void progress_show(double fraction, const char *format, ...) QS_PRINTF(2, 3);
/* Clears the bar: before any other line on stderr. */
void progress_end(void);

/* ---- Verbs ------------------------------------------------------------------------------------------------------------- */
typedef struct verb {
    const char *name, *summary;
    qs_status (*run)(int argc, char **argv);
} verb;
#define QS_VERB(name, summary) qs_status verb_##name(int argc, char **argv);
#include "verbs.def"
#undef QS_VERB

#endif
