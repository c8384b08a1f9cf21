// SPDX-License-Identifier: Apache-2.0
/* data: sets of samples, exact sharding, batches.
 *
 * A sample has one or more inputs and one target; a set says in its description what they are (samples.h). Sets are found by name
 * (datasets.def): mnist, fashion-mnist, cifar10, cifar100 read from a folder in their published binary forms, plain or .gz; `shapes` is
 * generated and always there; "folder:PATH" is a folder of JPEG and PNG images, a sub-folder a class; sst2, ag_news, mr, banking77 and
 * clinc150 are sentences with classes, piqa questions with two answers, wnut17 words with tags, squad questions whose answer is a span,
 * tinyshakespeare, wikitext2 and "text:FILE" running text (docs/data.md says which files train and which test); "npz:FILE" and
 * "npy:FILE,FILE" are a user's own arrays; and a program makes a set of arrays in memory with qs_dataset_of_arrays. Wrong files get an
 * error that names file, place and rule; nothing is ever half loaded.
 *
 * `shapes` has 12,000 training and 2,000 test images of 10 figures, 32×32×3: the same bytes everywhere, hopeless for a linear classifier
 * (about 14 %), easy for a small convolutional network (resnet8: 95 % after 2 epochs). */
#ifndef QSYNC_DATA_H
#define QSYNC_DATA_H

#include "qsync/base.h"
#include "qsync/samples.h"

/* ---- What samples are -------------------------------------------------------------------------------------------------------------- */

enum { QS_DATA_MOST_CHANNELS = 4, QS_DATA_MOST_TARGET = 1 << 24 }; /* values that a sample's target has: an image's may be learned */

typedef struct qs_data_description {
    char name[64];
    qs_samples samples;
    /* Of images: normalisation, (byte / 255 - mean) / deviation per channel, constants taken from the training part; and whether a
     * horizontal flip keeps the label. */
    float mean[QS_DATA_MOST_CHANNELS], deviation[QS_DATA_MOST_CHANNELS];
    float scale; /* in place of 255; 0: 255. Floats are divided by it, and normalised, where deviations are not 0; 0: 1 */
    bool flips;
    /* (classes) Where positions are labelled with parts of named things: "O", "B-person", "I-person" for outside, beginning, inside.
     * Constant texts that outlive the set; NULL: classes are no such tags. */
    const char *const *tag;
} qs_data_description;

/* ---- Sets --------------------------------------------------------------------------------------------------------------------------- */

typedef enum qs_part { QS_PART_TRAINING, QS_PART_TEST } qs_part;

/* Of a set of questions (QS_TARGET_SPAN): the texts that spans stand for, and the answers that are right. A question about a long text is
 * several samples, one window of the text each, which stand one after the other. */
typedef struct qs_answers {
    int64_t questions;
    int64_t *question;     /* (count) the question of each sample, ascending */
    int32_t *begin, *end;  /* (count, positions) the bytes of the text for which a position stands; as many: none, no answer is there */
    const char **text;     /* (questions) */
    int64_t *first_answer; /* (questions + 1) into answer[] */
    const char **answer;   /* those of a question: each of them is right */
    char *texts;           /* what `text` and `answer` point into */
} qs_answers;
QS_API void qs_answers_release(qs_answers *answers);
/* How right a text of so many bytes is: the best of the question's answers, `exact` 0 or 1 and `f1` each by itself, as the script of
 * SQuAD 1.1 counts (Rajpurkar et al. 2016): capitals, punctuation and the words a, an, the do not matter; f1 is of the words in common.
 * Letters and punctuation beyond ASCII are compared as they are written. */
QS_API qs_status qs_answers_score(const qs_answers *answers, int64_t question, const char *text, size_t bytes, double *exact, double *f1);

/* A part of a set. The arrays are the set's own; read them, do not change them. */
typedef struct qs_dataset {
    qs_data_description description;
    int64_t count;
    void *input[QS_SAMPLES_MOST_INPUTS]; /* (count, extents) of the input's type; NULL where samples are decoded as they are read */
    int32_t *length;                     /* (count) values along the first extent of inputs that vary; NULL where none does */
    void *target;                        /* (count, qs_target_values) int32_t, or float for QS_TARGET_REAL */
    struct qs_mapping {
        void *memory;
        size_t bytes;
    } mapping[QS_SAMPLES_MOST_INPUTS]; /* where an input lies in a mapped file */
    qs_part part;
    struct qs__image_files *files; /* of "folder:PATH" */
    qs_answers *answers;           /* of questions; NULL: a span is right where its positions are */
} qs_dataset;

/* Names of the sets, with the options that there must be, for lists; NULL past the end. */
QS_API const char *qs_dataset_name_at(size_t index);
/* What a set's samples are, without reading them. `folder` as below; needed only by "folder:PATH", whose sub-folders are counted, and
 * where an option names a vocabulary, which is read.
 * "3x224x224:1000" (channels, height, width, classes) is a set of which only that is known: for plans and predictions; loading it is
 * QS_USAGE. */
QS_API qs_status qs_dataset_describe(const char *name, const char *folder, qs_data_description *out);
/* Loads a part of a set. `folder` holds the sets' folders or files (folder/fashion-mnist/train-images-idx3-ubyte.gz ...; the CIFAR-10
 * training part is whatever data_batch_N.bin[.gz] are there); NULL means the environment's QSYNC_DATA. `limit` > 0 keeps the first samples
 * only (the file it falls in is still checked to its end). QS_USAGE for an unknown name (lists the names), QS_BAD_FILE otherwise, with a
 * hint at tools/fetch-data.sh when files are missing. Release with qs_dataset_release.
 *
 * "folder:PATH[,size=N]": PATH/train/CLASS/ and PATH/val/CLASS/ (or test/), each with .jpg, .jpeg or .png files; PATH is absolute, or below
 * the working folder, or below `folder`. The class is the place of its folder among the training part's, sorted by name. Only names are
 * read at once (samples in order: the first image of each class, the second of each, ...); qs_batch_fill decodes on the threads of the
 * pool. Images come out as N×N×3, N = 224: greys are repeated, transparency is dropped, CMYK is converted, 16 bits are cut to 8, no more
 * than 2^27 pixels are taken. With augmentation a rectangle of 8 to 100 % of the area and 3:4 to 4:3 is cut at random, scaled, and mirrored
 * with probability 1/2; without it the short side is scaled to 8/7 N and the middle cut out. Scaling is by a triangle as wide as the step
 * between the new pixels (bilinear where it enlarges).
 *
 * Sets of texts take options: "sst2:vocab=PATH,length=N", "text:FILE,vocab=PATH,length=N". A vocabulary (text.h) is otherwise
 * `folder`/vocab/bert-uncased/vocab.txt, for running text `folder`/vocab/gpt2; N is 128, for running text 256. Sentences have the inputs
 * "ids", "types" (0) and "keep" (1, padded with 0), each int32 (N), varying; running text has "ids" (N) and as target at each position the
 * id that follows. Longer sentences are cut, those without pieces left out, bytes that are no UTF-8 dropped or kept as the vocabulary does;
 * how many is logged.
 *
 * "npz:FILE[,input=NAME...,target=NAME][,test=FILE|PART][,classes=N][,ignored=N]" and "npy:INPUT,...,TARGET[,test=INPUT,...,TARGET|PART]":
 * arrays of NumPy (versions 1 to 3, row-major, little endian), samples along the first axis. Bytes of three axes and more are images, other
 * integers ids, floats as they are; integers with one value a sample are classes, with two spans, with more a class for each position,
 * floats real numbers. NAME:FORM says it otherwise: hwc, chw, ids, real; class, positions, span, real. Without a test part of its own
 * (test=FILE, or arrays NAME_test in a .npz) the last tenth of the samples is it, or the PART. Bytes come out as 0 .. 1. Inputs of a .npy
 * file that are held as they lie in it are mapped. */
QS_API qs_status qs_dataset_load(const char *name, const char *folder, qs_part part, int64_t limit, qs_dataset *out);
/* Replaces the normalisation that a description says of a set's inputs of bytes, or, where it has none, of floats: (value / scale - mean) /
 * deviation, for each channel (along the last extent); one number stands for all, none for a mean of 0 and a deviation of 1, scale 0 for
 * 255 (of floats 1). All absent: the set keeps its own. QS_USAGE for another number of them than channels, deviations that are not above 0,
 * and sets of integers alone. */
QS_API qs_status qs_data_normalize(qs_data_description *is, int means, const double *mean, int deviations, const double *deviation,
                                   double scale);
/* A set of a program's own arrays, which are copied: `count` samples, one array an input, lengths where an input varies (NULL otherwise).
 * Checked: description, lengths, classes and positions. */
QS_API qs_status qs_dataset_of_arrays(const qs_data_description *description, int64_t count, const void *const *input,
                                      const int32_t *length, const void *target, qs_dataset *out);
QS_API void qs_dataset_release(qs_dataset *dataset);
/* Of `count` samples how many labels count in a mean loss: all of them; where positions have labels, those that are not ignored. */
QS_API int64_t qs_dataset_counted(const qs_dataset *dataset, const int64_t *indices, int64_t count);
/* How many of its samples are padded to each of some lengths, into samples[lengths->count]. */
QS_API void qs_dataset_lengths(const qs_dataset *dataset, const qs_lengths *lengths, int64_t *samples);
/* A hash of the targets, and of the samples' lengths where they have some: what ranks compare to know that they hold the same set. */
QS_API uint64_t qs_dataset_hash(const qs_dataset *dataset, uint64_t seed);

/* ---- Sharding ----------------------------------------------------------------------------------------------------------------------- */
/* One epoch is one permutation of the set (keyed by seed and epoch), cut into global steps of Σ batch[rank] samples; in each step the ranks
 * take consecutive pieces in rank order. Every sample is used exactly once an epoch; the last step may be smaller: its samples are dealt so
 * that ranks differ from their share by less than one sample. */
/* Samples of several lengths (qs_sharding_lengths): each global step has samples of one length on all ranks. Samples go in the order of the
 * permutation to the step of their length; steps that are full are dealt, what is left of each length at the end makes a smaller step, and
 * all steps of the epoch are mixed, keyed by seed and epoch (unshuffled: shorter lengths first). How many steps an epoch has, and of how
 * many samples, does not depend on the epoch. */
typedef struct qs_sharding {
    int64_t count; /* samples of the set */
    int ranks;
    const int64_t *batch; /* (ranks) local batch sizes; caller keeps it alive */
    uint64_t seed;
    bool shuffle;                     /* false: the set's own order */
    int64_t epoch;                    /* the epoch `order` belongs to, -1 before the first */
    int64_t *order;                   /* (count) owned */
    qs_lengths lengths;               /* none: all samples are alike */
    int64_t samples[QS_MOST_LENGTHS]; /* of each length */
    const int32_t *length;            /* (count) of each sample; the set's, which outlives the sharding */
    int64_t *drawn, *slot;            /* (count) the permutation; (steps) which of the unmixed steps stands where: owned */
} qs_sharding;
QS_API qs_status qs_sharding_create(int64_t count, int ranks, const int64_t *batch, uint64_t seed, bool shuffle, qs_sharding *out);
QS_API void qs_sharding_release(qs_sharding *sharding);
/* Makes every step one of a single length, before the first question. length[count]: of each sample; it outlives the sharding. QS_USAGE
 * when it is NULL: the samples all have one length. Nothing changes where there are no lengths. */
QS_API qs_status qs_sharding_lengths(qs_sharding *sharding, const qs_lengths *lengths, const int32_t *length);
/* Steps of one epoch. */
QS_API int64_t qs_sharding_steps(const qs_sharding *sharding);
/* What a step is on all ranks: the place of its length in the list (0 without), and its samples. */
QS_API qs_status qs_sharding_size(qs_sharding *sharding, int64_t epoch, int64_t step, int *length, int64_t *samples);
/* The samples of (epoch, step, rank): *indices points into the sharding (valid until another epoch is asked for), *count of them;
 * *first is the global position of the first one within the epoch (with lengths: within its length's part of it, shorter ones before),
 * *global_count the samples of all ranks in this step. */
QS_API qs_status qs_sharding_step(qs_sharding *sharding, int64_t epoch, int64_t step, int rank, const int64_t **indices, int64_t *count,
                                  int64_t *first, int64_t *global_count);

/* ---- Batches ------------------------------------------------------------------------------------------------------------------------ */
typedef struct qs_augmentation {
    bool enabled;  /* images in memory: zero-pad by `pad`, crop back at a random place, flip with probability 1/2 where the set allows */
    int pad;       /* 4 by default for 32×32, 2 for 28×28 */
    uint64_t seed; /* draws are keyed by (seed, epoch, sample index): the same for any rank or thread count */
    int64_t epoch;
} qs_augmentation;
/* The augmentation that training uses for a set. */
QS_API qs_augmentation qs_augmentation_standard(const qs_dataset *dataset, bool enabled, uint64_t seed, int64_t epoch);

/* Host memory that a batch is written to. */
typedef struct qs_batch {
    void *input[QS_SAMPLES_MOST_INPUTS];                          /* (count, extents) fp32 or int32_t; images fp32, channels last */
    int64_t extent[QS_SAMPLES_MOST_INPUTS][QS_SAMPLES_MOST_RANK]; /* of one sample as the model takes it: at least the set's */
    int32_t *length;                                              /* (count), or NULL where nobody asks */
    void *target;                                                 /* (count, values) int32_t, or float for QS_TARGET_REAL */
    int64_t positions; /* of QS_TARGET_CLASS_PER_POSITION: as the model has them, at least the set's */
    int32_t ignored;   /* of the same: what stands where no class counts, as the model has it */
} qs_batch;
/* Writes samples `indices` (count of them), on the threads of the pool. Images: normalised; where they are smaller than the batch's
 * extent they are centred in zero (mean) padding. Other inputs: copied; behind a shorter sample stands the input's padding (0 for fp32).
 * A set that qs_samples_fit refuses must not come here. QS_BAD_FILE names an image that cannot be decoded. */
QS_API qs_status qs_batch_fill(const qs_dataset *dataset, const qs_augmentation *augmentation, const int64_t *indices, int64_t count,
                               const qs_batch *batch);

#endif
