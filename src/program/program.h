// SPDX-License-Identifier: Apache-2.0
/* What the programs qsync and qsync-bench share: a list of commands, tables of options, output, and a device for one process. */
#ifndef QSYNC_PROGRAM_H
#define QSYNC_PROGRAM_H

#include <jansson.h>
#include <stddef.h>

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

/* Under a launcher rank 0 speaks for all: true when the failure at hand has been told, or is another rank's to tell. */
bool failure_is_told(void);
void failure_told_set(void);

/* ---- Options (options.c) ------------------------------------------------------------------------------------------------- */

/* A verb declares its options as static rows and says where in a struct of its own the values go. The rows set the defaults, parse and
 * check what the command line says, and are the text of --help. */
typedef enum option_kind { OPTION_TEXT, OPTION_INT, OPTION_INTEGER, OPTION_REAL, OPTION_FLAG } option_kind;
typedef struct option_row {
    const char *name;              /* "batch" for --batch */
    option_kind kind;              /* by the type of the member: const char *, int, int64_t, double or bool */
    size_t at;                     /* of the member in the struct */
    const char *argument;          /* "N", "FILE"; NULL for flags */
    const char *help;              /* one line */
    const char *(*describe)(void); /* in place of `help`: a text that comes from a list */
    const char *field;             /* in place of `help`: what the job's record says of this field, with its default */
    const char *standard;          /* the default, as it would be given; NULL: what is in the struct */
    const char *usual;             /* said in place of the default: "the profile's" */
    double minimum;                /* of numbers */
    const char *needs;             /* an option that must stand beside this one */
    const char *excludes;          /* options, comma-separated, that must not */
} option_row;

/* {OPTION(request, batch, "batch", "N", "samples of a step"), .standard = "128", .minimum = 1} */
#define OPTION(type, member, option, value, text) \
    .name = (option),                                                                                                                    \
    .kind = _Generic(((type *)0)->member,                                                                                                \
                     const char *: OPTION_TEXT,                                                                                          \
                     int: OPTION_INT,                                                                                                    \
                     int64_t: OPTION_INTEGER,                                                                                            \
                     double: OPTION_REAL,                                                                                                \
                     bool: OPTION_FLAG),                                                                                                 \
    .at = offsetof(type, member), .argument = (value), .help = (text)

/* Rows that many commands have, for members of these names: {OPTION_JSON(request)} */
#define OPTION_JSON(type) OPTION(type, json, "json", NULL, "print JSON")
#define OPTION_THREADS(type) OPTION(type, threads, "threads", "N", "threads"), .standard = "1", .minimum = 1
#define OPTION_ISA(type) OPTION(type, isa, "isa", "NAME", "instruction-set ceiling"), .standard = "all"

typedef struct verb_usage {
    const char *verb;
    const char *arguments; /* "MODEL", "[VALUE ...]" or "" */
    const char *purpose;   /* a few lines */
    const char *examples;  /* lines, or NULL */
    int least, most;       /* plain arguments */
} verb_usage;

enum { MOST_OPTIONS = 96 };
typedef struct option_table {
    int rows;
    struct {
        const option_row *row;
        void *target;
        bool given; /* set by options_parse */
    } option[MOST_OPTIONS];
} option_table;

/* Adds the rows of a struct and sets its members to their defaults. Rows and struct outlive the table. */
#define OPTIONS_ADD(table, rows, base) options_add((table), (int)(sizeof(rows) / sizeof *(rows)), (rows), (base))
void options_add(option_table *table, int rows, const option_row *row, void *base);
/* The defaults alone. */
#define OPTIONS_START(rows, base) options_start((int)(sizeof(rows) / sizeof *(rows)), (rows), (base))
void options_start(int rows, const option_row *row, void *base);
/* Parses argv[1..]; *first receives the index of the first plain argument. `done` becomes true after --help. QS_USAGE names the option, the
 * value and the rule. */
qs_status options_parse(option_table *table, const verb_usage *usage, int argc, char **argv, int *first, bool *done);
/* True when the option stood on the command line. */
bool option_given(const option_table *table, const char *name);
/* QS_USAGE where one of these options stood on the command line: "--NAME belongs to WHERE". */
qs_status options_refuse(const option_table *table, int count, const char *const *name, const char *where);
/* QS_USAGE where one of these options did not: "VERB needs --A and --B". */
qs_status options_require(const option_table *table, const verb_usage *usage, int count, const char *const *name);
/* What a model takes: its own standard samples, with images of the shape "3x32x32" unless text is NULL, and other classes unless 0. */
qs_status model_samples_parse(const char *text, int classes, const char *model, qs_samples *out);
/* Calls `visit` for each name of a comma-separated list, up to the first failure. A name keeps its options: "bert:mini,length=128" is
 * one. */
qs_status names_each(const char *list, qs_status (*visit)(void *context, const char *name), void *context);

/* ---- Output (output.c) --------------------------------------------------------------------------------------------------- */

/* Sets the name under which the program speaks. */
void program_name_set(const char *name);
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
