// SPDX-License-Identifier: Apache-2.0
/* samples: what one sample of a data set is, and what one sample is that a model takes: typed inputs, a target, and the unit in which
 * people count samples. Data sets, models, profiles and programs say it by the same type, so that they can be compared. Plain values:
 * nothing here owns memory. */
#ifndef QSYNC_SAMPLES_H
#define QSYNC_SAMPLES_H

#include "qsync/base.h"

/* Bytes of a model's name with its options, the end included: "bert:mini,layers=2". */
#define QS_MODEL_NAME 128

enum { QS_SAMPLES_MOST_INPUTS = 4, QS_SAMPLES_MOST_RANK = 4, QS_MOST_LENGTHS = 8 };

/* How the values of an input are stored. Models take bytes as normalised fp32, the others as they are. */
typedef enum qs_input_type { QS_INPUT_U8, QS_INPUT_I32, QS_INPUT_F32 } qs_input_type;

/* One tensor that every sample has. */
typedef struct qs_input {
    char name[32];
    qs_input_type type;
    int rank;                             /* 1 .. QS_SAMPLES_MOST_RANK */
    int64_t extent[QS_SAMPLES_MOST_RANK]; /* of one sample, channels last; images are QS_INPUT_U8 of rank 3: height, width, channels;
                                           * sequences among which one is chosen QS_INPUT_I32 of rank 2: how many, length */
    bool varies;                          /* the first extent, "length", is a bound: samples may be shorter, each by its own length */
    int32_t padding;                      /* of QS_INPUT_I32: the value behind the end of a shorter sample */
    int64_t bound;                        /* of QS_INPUT_I32: values are 0 .. bound - 1; 0: any */
} qs_input;

typedef enum qs_target_kind {
    QS_TARGET_CLASS,              /* one class */
    QS_TARGET_CLASS_PER_POSITION, /* a class for each of `extent` positions, `ignored` where none counts */
    QS_TARGET_SPAN,               /* first and last of `extent` positions */
    QS_TARGET_REAL,               /* `extent` real numbers */
} qs_target_kind;

typedef struct qs_target {
    qs_target_kind kind;
    int64_t classes; /* of the two kinds with classes: 0 .. classes - 1 */
    int64_t extent;  /* positions or numbers; 1 for QS_TARGET_CLASS */
    int32_t
        ignored; /* of QS_TARGET_CLASS_PER_POSITION: a value that is no class, of models a negative one; where a sample is shorter, too */
} qs_target;

typedef struct qs_samples {
    char unit[16]; /* plural, for texts: "images", "tokens" */
    int inputs;
    qs_input input[QS_SAMPLES_MOST_INPUTS];
    qs_target target;
} qs_samples;

/* Lengths to which samples that vary are padded: each to the smallest one that holds it. Ascending; none: all samples have the extents that
 * their inputs say. */
typedef struct qs_lengths {
    int count;
    int64_t at[QS_MOST_LENGTHS];
} qs_lengths;
/* QS_USAGE unless each is at least 1 and larger than the one before it. */
QS_API qs_status qs_lengths_check(const qs_lengths *lengths);
/* The place in the list of the smallest length that holds so many values; the last one's where none does. */
QS_API int qs_lengths_find(const qs_lengths *lengths, int64_t values);
/* "32,64,128"; "" of none. */
#define QS_LENGTHS_TEXT 168
QS_API const char *qs_lengths_text(const qs_lengths *lengths, char text[QS_LENGTHS_TEXT]);
QS_API bool qs_lengths_equal(const qs_lengths *a, const qs_lengths *b);
/* The extent by which samples vary, the same for every input that varies; 0: none does. */
QS_API int64_t qs_samples_length(const qs_samples *samples);
/* The same samples at another extent of the inputs that vary, and of targets with a class for each position or a span of as many. QS_USAGE
 * where no input varies, where those that do have different extents, and for a length that is not 1 to that extent. */
QS_API qs_status qs_samples_of_length(const qs_samples *samples, int64_t length, qs_samples *out);

/* A name that stands for one sort of input: images of one size, channels last. */
QS_API qs_input qs_input_image(int64_t height, int64_t width, int64_t channels);
/* Whether it is one. */
QS_API bool qs_input_is_image(const qs_input *input);
/* Numbers that a sample's target takes in memory: i32, or fp32 for QS_TARGET_REAL. */
QS_API int64_t qs_target_values(const qs_target *target);
/* Checks that a model that takes `model` can be fed from the set called `name`: as many inputs of the same types; images of the same
 * channels and no larger (smaller ones are centred in zero padding), or floats of just their extents; other inputs no longer and equal
 * beyond the first extent (integers of rank 2 equal in both), integers within the model's bound; a target of the same kind, with at least
 * as many classes or positions, with just as many numbers. QS_MISMATCH says which figure is wrong. */
QS_API qs_status qs_samples_fit(const char *name, const qs_samples *set, const qs_samples *model);

#endif
