// SPDX-License-Identifier: Apache-2.0
/* Inside the room: arrays as NumPy stores them, one in a file (.npy) or several in a zip archive (.npz). Format: NumPy Enhancement Proposal
 * 1 with its versions 1.0 to 3.0 (numpy.lib.format). */
#ifndef QSYNC_DATA_NUMPY_H
#define QSYNC_DATA_NUMPY_H

#include "qsync/base.h"

enum { QS__MOST_RANK = 8 };

/* What an array holds: its NumPy name ("f4"), the bytes of a value, and whether that is a float. */
typedef struct qs__array_type {
    const char *name;
    int bytes;
    bool real, is_signed;
} qs__array_type;

/* Row-major, little endian. */
typedef struct qs__array {
    char *name, *label; /* "x"; for messages: "set.npz: x" */
    const qs__array_type *type;
    int rank;
    int64_t extent[QS__MOST_RANK]; /* extent[0]: rows, the samples; a single value counts as one */
    int64_t row;                   /* values of a row */
    const void *data;              /* NULL: it was not asked for */
    char *block;                   /* heap that holds it */
    void *map;                     /* or a mapped file */
    size_t mapped;
} qs__array;
void qs__numpy_release(qs__array *array);

/* Reads the array of a .npy file, which is mapped, not copied. QS_BAD_FILE names file, offset and rule: no such format, a version that is
 * not known, objects, structures and texts, big-endian or Fortran order, a shape that the data are too few or too many for. */
qs_status qs__npy_read(const char *path, qs__array *out);
/* Reads all arrays of a .npz file, in its order, into *out (heap, *count of them): their shapes and, where `wanted` says so, their data. */
typedef bool (*qs__array_wanted)(const qs__array *array, const void *context);
qs_status qs__npz_read(const char *path, qs__array_wanted wanted, const void *context, qs__array **out, int *count);

/* Rows first .. first + count - 1 as 32-bit integers (QS_BAD_FILE names a value that does not fit) or floats, `row` values each. */
qs_status qs__numpy_integers(const qs__array *array, int64_t first, int64_t count, int32_t *out);
void qs__numpy_reals(const qs__array *array, int64_t first, int64_t count, float *out);

#endif
