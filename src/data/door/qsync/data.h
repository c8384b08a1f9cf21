// SPDX-License-Identifier: Apache-2.0
/* data: image sets, exact sharding, augmentation.
 *
 * A set holds all its images in memory as unsigned bytes (N, H, W, C) with one label each. Sets are found by name (datasets.def): mnist,
 * fashion-mnist, cifar10, cifar100 read from a folder in their published binary forms, plain or .gz; `shapes` is generated and always
 * there. Wrong files get an error that names file, byte offset (of the uncompressed data) and rule; nothing is ever half loaded. `shapes`
 * has 12,000 training and 2,000 test images of 10 figures, 32×32×3: the same bytes everywhere, hopeless for a linear classifier (about 14
 * %), easy for a small convolutional network (resnet8: 95 % after 2 epochs). */
#ifndef QSYNC_DATA_H
#define QSYNC_DATA_H

#include "qsync/base.h"

typedef struct qs_dataset {
    char name[32];
    int64_t count;
    int channels, height, width, classes;
    uint8_t *images;             /* (count, height, width, channels) */
    uint8_t *labels;             /* (count) 0 .. classes-1 */
    float mean[4], deviation[4]; /* per channel of images/255, for normalisation: constants of the set, taken from its training part */
    bool flips;                  /* horizontal flips keep the label: used by the standard augmentation */
} qs_dataset;

typedef enum qs_part { QS_PART_TRAINING, QS_PART_TEST } qs_part;

/* Names of the sets, for lists; NULL past the end. */
QS_API const char *qs_dataset_name_at(size_t index);
/* Loads a part of a set. `folder` holds the sets' folders or files (folder/fashion-mnist/train-images-idx3-ubyte.gz ...; the CIFAR-10
 * training part is whatever data_batch_N.bin[.gz] are there); NULL means the environment's QSYNC_DATA. `limit` > 0 keeps the first images
 * only (the file it falls in is still checked to its end). QS_USAGE for an unknown name (lists the names), QS_BAD_FILE otherwise, with a
 * hint at tools/fetch-data.sh when files are missing. Release with qs_dataset_release. */
QS_API qs_status qs_dataset_load(const char *name, const char *folder, qs_part part, int64_t limit, qs_dataset *out);
QS_API void qs_dataset_release(qs_dataset *dataset);
/* Shape and classes of a set by name without reading it. "3x224x224:1000" (channels, height, width, classes) is a set of which only that is
 * known: for plans and predictions; loading it is QS_USAGE. */
QS_API qs_status qs_dataset_shape(const char *name, int *channels, int *height, int *width, int *classes);

/* ---- Sharding ------------------------------------------------------------------------------------------------------- */
/* One epoch is one permutation of the set (keyed by seed and epoch), cut into global steps of Σ batch[rank] samples; in each step the ranks
 * take consecutive pieces in rank order. Every sample is used exactly once an epoch; the last step may be smaller: its samples are dealt so
 * that ranks differ from their share by less than one sample. */
typedef struct qs_sharding {
    int64_t count; /* samples of the set */
    int ranks;
    const int64_t *batch; /* (ranks) local batch sizes; caller keeps it alive */
    uint64_t seed;
    bool shuffle;   /* false: the set's own order */
    int64_t epoch;  /* the epoch `order` belongs to, -1 before the first */
    int64_t *order; /* (count) owned */
} qs_sharding;
QS_API qs_status qs_sharding_create(int64_t count, int ranks, const int64_t *batch, uint64_t seed, bool shuffle, qs_sharding *out);
QS_API void qs_sharding_release(qs_sharding *sharding);
/* Steps of one epoch. */
QS_API int64_t qs_sharding_steps(const qs_sharding *sharding);
/* The samples of (epoch, step, rank): *indices points into the sharding (valid until another epoch is asked for), *count of them;
 * *first is the global position of the first one within the epoch, *global_count the samples of all ranks in this step. */
QS_API qs_status qs_sharding_step(qs_sharding *sharding, int64_t epoch, int64_t step, int rank, const int64_t **indices, int64_t *count,
                                  int64_t *first, int64_t *global_count);

/* ---- Batches ----------------------------------------------------------------------------------------------------------- */
typedef struct qs_augmentation {
    bool enabled;  /* zero-pad by `pad`, crop back at a random place, flip with probability 1/2 where the set allows */
    int pad;       /* 4 by default for 32×32, 2 for 28×28 */
    uint64_t seed; /* draws are keyed by (seed, epoch, sample index): the same for any rank or thread count */
    int64_t epoch;
} qs_augmentation;
/* Writes normalised images, fp32 (count, height, width, channels) channels last, and labels (count). When the set's images are smaller than
 * height×width they are centred in zero (mean) padding; larger ones are refused by qs_dataset_fit. */
QS_API void qs_batch_fill(const qs_dataset *dataset, const qs_augmentation *augmentation, const int64_t *indices, int64_t count, int height,
                          int width, float *images, int32_t *labels);
/* Checks that a model input (channels, height, width, classes) can be fed from the set; QS_MISMATCH says which figure is wrong. */
QS_API qs_status qs_dataset_fit(const qs_dataset *dataset, int channels, int height, int width, int classes);

#endif
