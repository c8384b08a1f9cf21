// SPDX-License-Identifier: Apache-2.0
/* What the verbs share: option tables, job and cluster options, the session (communicator and device), output. */
#ifndef QSYNC_CLI_H
#define QSYNC_CLI_H

#include <jansson.h>

#include "qsync/planner.h"
#include "qsync/profiler.h"

/* ---- Options ----------------------------------------------------------------------------------------------------------- */

typedef enum option_kind { OPTION_TEXT, OPTION_INTEGER, OPTION_REAL, OPTION_FLAG } option_kind;
typedef struct option_row {
    const char *name;     /* "batch" for --batch */
    option_kind kind;
    void *target;         /* const char **, int64_t *, double *, bool * */
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

#define MOST_OPTIONS 40
typedef struct option_table {
    int rows;
    option_row row[MOST_OPTIONS];
    bool given[MOST_OPTIONS]; /* set by options_parse */
} option_table;

void options_add(option_table *table, option_row row);
/* Parses argv[1..]; *first receives the index of the first non-option argument. `done` becomes true after --help. QS_USAGE names the option,
 * the value and the rule. */
qs_status options_parse(option_table *table, const verb_usage *usage, int argc, char **argv, int *first, bool *done);
/* True when the option stood on the command line. */
bool option_given(const option_table *table, const char *name);
/* QS_USAGE when there are more than `most` plain arguments. */
qs_status arguments_check(const verb_usage *usage, int argc, char **argv, int first, int most);

/* ---- Job, cluster, session ------------------------------------------------------------------------------------------------ */

typedef struct job_options {
    qs_job job;
    const char *model, *dataset, *optimizer, *schedule, *loss_scaling, *data_folder;
    int64_t epochs, seed, training_limit, test_limit;
    bool no_augmentation;
} job_options;
void job_options_start(job_options *options);
void job_options_add(job_options *options, option_table *table, bool training);
qs_status job_options_finish(job_options *options);

typedef struct session_options {
    const char *cluster, *backend, *class_name;
    int64_t threads;
} session_options;
void session_options_add(session_options *options, option_table *table);

/* One process of a run: its communicator, cluster, class and device. */
typedef struct session {
    qs_comm *comm;
    qs_cluster cluster;
    int class_index;
    qs_device *device;
} session;
/* Opens communicator, cluster (file, or a single rank), and this rank's device. QS_USAGE when the number of ranks does not match. */
qs_status session_open(const session_options *options, session *out);
/* Ends a session after `status`, which it returns. A failure that all ranks agreed on ("rank N: ...") is told by rank N alone; one that the
 * others cannot know of is told here and ends the whole run at once. */
qs_status session_end(session *one, qs_status status);
/* Called once at start: under a launcher, rank 0 alone tells what fails before a session exists. */
void launcher_rank_read(void);
/* True when the failure at hand is another rank's to tell. */
bool failure_is_told(void);
bool session_is_first(const session *one);

/* ---- Output ------------------------------------------------------------------------------------------------------------- */

/* Prints a JSON value on stdout and releases it; a NULL value is QS_OUT_OF_MEMORY. */
qs_status json_print(json_t *value);
/* A number, or null where it is not finite (no epoch was run, nothing was measured). */
json_t *json_number(double value);
/* "1.2 MiB", "38.4 ms" into small static rings: usable a few times in one printf. */
const char *bytes_text(double bytes);
const char *time_text(double us);
const char *count_text(double count);
/* Writes text to a file atomically, or to stdout when path is NULL or "-". */
qs_status text_write(const char *path, const char *text);

/* Progress on stderr: a bar on a terminal, otherwise a line every few seconds. fraction in 0..1; text follows it. */
void progress_show(double fraction, const char *format, ...) QS_PRINTF(2, 3);
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
