// SPDX-License-Identifier: Apache-2.0
/* What the programs qsync and qsync-bench share: a list of commands, tables of options, output, and a device for one process. */
#ifndef QSYNC_PROGRAM_H
#define QSYNC_PROGRAM_H

#include <jansson.h>

#include "qsync/device.h"
#include "qsync/graph.h"

/* ---- A program: a list of commands (program.c) --------------------------------------------------------------------------- */

typedef struct program_command {
    const char *name, *summary;
    qs_status (*run)(int argc, char **argv); /* argv[0] is the command's name */
} program_command;

typedef struct program {
    const char *name, *purpose; /* "qsync", "trains one model ..." */
    const char *kind;           /* what a command is called: "VERB" */
    const char *closing;        /* last lines of --help */
    size_t commands;
    const program_command *command;
} program;

/* Finds argv[1] among the commands and runs it; messages go to stderr. Returns the exit code. */
int program_run(const program *one, int argc, char **argv);
/* The name of the program that runs. */
const char *program_name(void);

/* Under a launcher rank 0 speaks for all, until a session knows better: true when the failure at hand has been told, or is another rank's
 * to tell. */
bool failure_is_told(void);
void failure_told_set(void);

/* ---- Options (options.c) ------------------------------------------------------------------------------------------------- */

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

/* ---- Output (output.c) --------------------------------------------------------------------------------------------------- */

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
/* The number below which this share of them lies, and the middle one; sorts the numbers. */
double quantile(double *numbers, int count, double share);
double median(double *numbers, int count);

/* Progress on stderr: a bar on a terminal, otherwise a line every few seconds. fraction in 0..1; text follows it. */
void progress_show(double fraction, const char *format, ...) QS_PRINTF(2, 3);
/* Clears the bar: before any other line on stderr. */
void progress_end(void);

/* ---- A device of one process (device.c) ------------------------------------------------------------------------------------ */

/* Each thread gets a core of its own, as far as there are any. */
void threads_pin(int threads);
/* The kernels that `qsync bench --tune` found to be the fastest, from the user's cache. */
qs_status tuned_take(qs_device *device);
/* Pins the threads, opens the device at full speed, and takes the kernels of the cache. */
qs_status device_start(const char *backend, int threads, const char *isa, qs_device **out);

#endif
