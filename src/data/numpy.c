// SPDX-License-Identifier: Apache-2.0
/* NumPy's files: a header that is a Python dictionary of three keys, then the values. Nothing is allocated because a header says so before
 * it is held against the size of the file. */
#include "numpy.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "qsync/number.h"

enum { magic_bytes = 6, longest_header = 1 << 16, most_arrays = 1024, most_ratio = 1032 /* of deflate */ };

static const qs__array_type types[] = {{"b1", 1, false, false}, {"u1", 1, false, false}, {"i1", 1, false, true}, {"u2", 2, false, false},
                                       {"i2", 2, false, true},  {"u4", 4, false, false}, {"i4", 4, false, true}, {"u8", 8, false, false},
                                       {"i8", 8, false, true},  {"f2", 2, true, true},   {"f4", 4, true, true},  {"f8", 8, true, true}};

void qs__numpy_release(qs__array *array) {
    free(array->name);
    free(array->label);
    free(array->block);
    if (array->map) munmap(array->map, array->mapped);
    *array = (qs__array){0};
}

/* ---- The header ------------------------------------------------------------------------------------------------------------- */

/* The dictionary while it is read: a text that ends with NUL. */
typedef struct dictionary {
    const char *label, *start, *at;
    int64_t offset; /* of `start` in the file */
} dictionary;

static qs_status dictionary_fail(const dictionary *in, const char *rule) {
    return qs_fail(QS_BAD_FILE, "%s: offset %lld: %s", in->label, (long long)(in->offset + (in->at - in->start)), rule);
}

static void blanks_skip(dictionary *in) {
    while (*in->at == ' ' || *in->at == '\n')
        in->at++;
}

static bool take(dictionary *in, const char *text) {
    blanks_skip(in);
    if (strncmp(in->at, text, strlen(text)) != 0) return false;
    in->at += strlen(text);
    return true;
}

/* "'<f4'": what is between quotes. */
static qs_status string_take(dictionary *in, const char **text, size_t *length) {
    blanks_skip(in);
    const char quote = *in->at;
    if (quote != '\'' && quote != '"') return dictionary_fail(in, "a text in quotes must stand here: arrays of structures are not read");
    const char *end = strchr(in->at + 1, quote);
    if (!end) return dictionary_fail(in, "the text has no end");
    *text = in->at + 1;
    *length = (size_t)(end - *text);
    in->at = end + 1;
    return QS_OK;
}

static qs_status type_take(dictionary *in, const qs__array_type **out) {
    const char *text = NULL;
    size_t length = 0;
    QS_TRY(string_take(in, &text, &length));
    if (length == 3 && *text == '>' && text[2] != '1') return dictionary_fail(in, "the values are big endian; save them little endian");
    for (size_t i = 0; length == 3 && i < sizeof types / sizeof *types; i++) {
        if (strncmp(text + 1, types[i].name, 2) != 0) continue;
        *out = &types[i];
        return QS_OK;
    }
    return qs_fail(QS_BAD_FILE, "%s: values of type '%.*s': read are bool, integers of 8 to 64 bits, and floats of 16, 32 and 64 bits",
                   in->label, length < 32 ? (int)length : 32, text);
}

/* "(60000, 28, 28)"; "()" is a single value. */
static qs_status shape_take(dictionary *in, qs__array *out) {
    if (!take(in, "(")) return dictionary_fail(in, "a shape in brackets must stand here");
    out->rank = 0;
    out->row = 1;
    while (!take(in, ")")) {
        char *end = NULL;
        blanks_skip(in);
        const long long extent = *in->at >= '0' && *in->at <= '9' ? strtoll(in->at, &end, 10) : -1;
        if (extent < 0 || extent > INT32_MAX) return dictionary_fail(in, "an extent must be a number from 0 to 2^31 - 1");
        if (out->rank == QS__MOST_RANK) return dictionary_fail(in, "more than 8 axes");
        if (out->rank > 0 && extent > 0 && out->row > (INT64_C(1) << 40) / extent)
            return dictionary_fail(in, "rows of more than 2^40 values");
        if (out->rank > 0) out->row *= extent;
        out->extent[out->rank++] = extent;
        in->at = end;
        if (!take(in, ",") && *in->at != ')') return dictionary_fail(in, "a comma or the end of the shape must stand here");
    }
    if (out->rank == 0) out->extent[out->rank++] = 1;
    return QS_OK;
}

/* Each key once, in any order, and no other. */
static qs_status dictionary_read(dictionary *in, qs__array *out) {
    bool fortran = false, shaped = false, ordered = false;
    if (!take(in, "{")) return dictionary_fail(in, "a dictionary must stand here");
    while (!take(in, "}")) {
        if (!out->type && take(in, "'descr':"))
            QS_TRY(type_take(in, &out->type));
        else if (!ordered && (take(in, "'fortran_order': False") || (fortran = take(in, "'fortran_order': True"))))
            ordered = true;
        else if (!shaped && take(in, "'shape':")) {
            QS_TRY(shape_take(in, out));
            shaped = true;
        } else
            return dictionary_fail(in, "one of the keys descr, fortran_order and shape must stand here, each once");
        if (!take(in, ",") && *in->at != '}') return dictionary_fail(in, "a comma or the end of the dictionary must stand here");
    }
    if (!out->type || !shaped || !ordered) return dictionary_fail(in, "descr, fortran_order and shape must all be said");
    if (fortran && out->rank > 1)
        return qs_fail(QS_BAD_FILE, "%s: values are in Fortran order; save numpy.ascontiguousarray of them", out->label);
    return QS_OK;
}

/* Bytes up to the values: magic, version, length of the dictionary; of the first 12 bytes, of which `got` are there. */
static qs_status prologue_read(const char *label, const unsigned char *bytes, size_t got, size_t *prologue, size_t *header) {
    if (got < 12 || memcmp(bytes, "\x93NUMPY", magic_bytes) != 0)
        return qs_fail(QS_BAD_FILE, "%s: offset 0: no array of NumPy, which begins with \\x93NUMPY", label);
    if (bytes[6] < 1 || bytes[6] > 3 || bytes[7] != 0)
        return qs_fail(QS_BAD_FILE, "%s: offset 6: version %d.%d of the format, known are 1.0, 2.0 and 3.0", label, bytes[6], bytes[7]);
    *prologue = bytes[6] == 1 ? 10 : 12;
    *header = (size_t)bytes[8] | (size_t)bytes[9] << 8;
    if (bytes[6] > 1) *header |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    if (*header <= longest_header) return QS_OK;
    return qs_fail(QS_BAD_FILE, "%s: offset 8: a header of %zu bytes, must be at most %d", label, *header, longest_header);
}

/* The dictionary from its bytes, and the values that it speaks of against those that there are. */
static qs_status header_read(const char *bytes, size_t prologue, size_t header, int64_t left, qs__array *out) {
    char *text = NULL;
    QS_TRY(qs_format_text(&text, "%.*s", (int)header, bytes));
    dictionary in = {out->label, text, text, (int64_t)prologue};
    const qs_status status = dictionary_read(&in, out);
    free(text);
    QS_TRY(status);
    const int64_t wanted =
        out->extent[0] > 0 && out->row > (INT64_C(1) << 50) / out->extent[0] ? INT64_MAX : out->extent[0] * out->row * out->type->bytes;
    if (wanted == left) return QS_OK;
    return qs_fail(QS_BAD_FILE, "%s: offset %zu: %lld bytes of values, its shape and type ask for %lld", out->label, prologue + header,
                   (long long)left, (long long)wanted);
}

/* ---- .npy ------------------------------------------------------------------------------------------------------------------- */

static qs_status file_map(const char *path, qs__array *out) {
    struct stat facts;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return qs_fail(QS_BAD_FILE, "%s: %s", path, strerror(errno));
    qs_status status = QS_OK;
    if (fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_size < 12)
        QS_GOTO(qs_fail(QS_BAD_FILE, "%s: no array of NumPy: it is no file of 12 bytes or more", path));
    void *map = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (map == MAP_FAILED) QS_GOTO(qs_fail(QS_BAD_FILE, "%s: cannot be mapped: %s", path, strerror(errno)));
    out->map = map;
    out->mapped = (size_t)facts.st_size;
done:
    close(file);
    return status;
}

/* "x" of "folder/x.npy" */
static qs_status names_set(const char *path, const char *within, qs__array *out) {
    const char *slash = strrchr(within, '/'), *name = slash ? slash + 1 : within;
    const size_t length = strlen(name), ending = length > 4 && strcmp(name + length - 4, ".npy") == 0 ? 4 : 0;
    QS_TRY(qs_format_text(&out->name, "%.*s", (int)(length - ending), name));
    if (path == within) return qs_format_text(&out->label, "%s", path);
    return qs_format_text(&out->label, "%s: %s", path, out->name);
}

qs_status qs__npy_read(const char *path, qs__array *out) {
    qs__array array = {0};
    size_t prologue = 0, header = 0;
    qs_status status;
    QS_GOTO(names_set(path, path, &array));
    QS_GOTO(file_map(path, &array));
    QS_GOTO(prologue_read(path, array.map, array.mapped, &prologue, &header));
    if (prologue + header > array.mapped)
        QS_GOTO(qs_fail(QS_BAD_FILE, "%s: offset 8: a header of %zu bytes, the file ends before", path, header));
    const char *bytes = array.map;
    QS_GOTO(header_read(bytes + prologue, prologue, header, (int64_t)(array.mapped - prologue - header), &array));
    array.data = bytes + prologue + header;
    *out = array;
    return QS_OK;
done:
    qs__numpy_release(&array);
    return status;
}

/* ---- .npz ------------------------------------------------------------------------------------------------------------------- */

typedef struct zip {
    struct archive *archive;
    const char *path;
    int64_t bytes; /* of the file */
} zip;

static qs_status zip_fail(const zip *from, const char *label) {
    const char *why = archive_error_string(from->archive);
    return qs_fail(QS_BAD_FILE, "%s: %s", label, why ? why : "the archive ends early");
}

/* Exactly so many bytes. */
static qs_status zip_take(const zip *from, const char *label, void *out, size_t bytes) {
    for (size_t got = 0; got < bytes;) {
        const la_ssize_t some = archive_read_data(from->archive, (char *)out + got, bytes - got);
        if (some <= 0) return zip_fail(from, label);
        got += (size_t)some;
    }
    return QS_OK;
}

static qs_status member_read(const zip *from, struct archive_entry *entry, qs__array_wanted wanted, const void *context, qs__array *out) {
    unsigned char start[12];
    size_t prologue = 0, header = 0;
    char *text = NULL;
    const char *within = archive_entry_pathname(entry);
    const int64_t size = archive_entry_size_is_set(entry) ? archive_entry_size(entry) : -1;
    QS_TRY(names_set(from->path, within ? within : "?", out));
    if (size < 12 || size / most_ratio > from->bytes)
        return qs_fail(QS_BAD_FILE, "%s: %lld bytes, the archive of %lld cannot hold them", out->label, (long long)size,
                       (long long)from->bytes);
    QS_TRY(zip_take(from, out->label, start, sizeof start));
    QS_TRY(prologue_read(out->label, start, sizeof start, &prologue, &header));
    if ((int64_t)(prologue + header) > size) return qs_fail(QS_BAD_FILE, "%s: offset 8: the header ends behind the array", out->label);
    QS_TRY(qs_allocate(header + 2, 1, &text));
    const size_t had = sizeof start - prologue < header ? sizeof start - prologue : header; /* of version 1, two bytes of it */
    memcpy(text, start + prologue, had);
    qs_status status = zip_take(from, out->label, text + had, header - had);
    if (status == QS_OK) status = header_read(text, prologue, header, size - (int64_t)(prologue + header), out);
    free(text);
    QS_TRY(status);
    if (!wanted(out, context)) return QS_OK;
    const size_t bytes = (size_t)(size - (int64_t)(prologue + header));
    QS_TRY(qs_allocate(bytes + 1, 1, &out->block));
    QS_TRY(zip_take(from, out->label, out->block, bytes));
    if (archive_read_data(from->archive, start, 1) != 0) return zip_fail(from, out->label); /* its sum is checked at the end */
    out->data = out->block;
    return QS_OK;
}

qs_status qs__npz_read(const char *path, qs__array_wanted wanted, const void *context, qs__array **out, int *count) {
    struct stat facts;
    struct archive_entry *entry = NULL;
    qs__array *array = NULL;
    size_t room = 0;
    int arrays = 0, got = ARCHIVE_OK;
    qs_status status = QS_OK;
    if (stat(path, &facts) != 0) return qs_fail(QS_BAD_FILE, "%s: %s", path, strerror(errno));
    zip from = {archive_read_new(), path, (int64_t)facts.st_size};
    if (!from.archive) return qs_fail(QS_OUT_OF_MEMORY, "%s: no memory", path);
    archive_read_support_format_zip_seekable(from.archive);
    if (archive_read_open_filename(from.archive, path, 1 << 16) != ARCHIVE_OK)
        QS_GOTO(qs_fail(QS_BAD_FILE, "%s: no .npz file: %s", path, archive_error_string(from.archive)));
    while ((got = archive_read_next_header(from.archive, &entry)) == ARCHIVE_OK) {
        if (arrays == most_arrays) QS_GOTO(qs_fail(QS_BAD_FILE, "%s: more than %d arrays", path, most_arrays));
        QS_GOTO(qs_grow(&array, &room, (size_t)arrays + 1, sizeof *array));
        QS_GOTO(member_read(&from, entry, wanted, context, &array[arrays++]));
    }
    if (got != ARCHIVE_EOF) QS_GOTO(qs_fail(QS_BAD_FILE, "%s: no .npz file: %s", path, archive_error_string(from.archive)));
    if (arrays == 0) QS_GOTO(qs_fail(QS_BAD_FILE, "%s: no array in it", path));
    *out = array;
    *count = arrays;
    array = NULL;
done:
    for (int i = 0; array && i < arrays; i++)
        qs__numpy_release(&array[i]);
    free(array);
    archive_read_free(from.archive);
    return status;
}

/* ---- Values ----------------------------------------------------------------------------------------------------------------- */

/* The values of an array's type from `from` on, which may lie anywhere, one by one as `value`; `body` is what becomes of each. */
#define EACH(type, body)                                               \
    for (int64_t i = 0; i < values; i++) {                             \
        type value;                                                    \
        memcpy(&value, from + (size_t)i * sizeof value, sizeof value); \
        body;                                                          \
    }
#define INTEGERS(X)      \
    X(false, 1, uint8_t) \
    X(true, 1, int8_t)   \
    X(false, 2, uint16_t) X(true, 2, int16_t) X(false, 4, uint32_t) X(true, 4, int32_t) X(false, 8, uint64_t) X(true, 8, int64_t)

static const char *rows_at(const qs__array *array, int64_t first) {
    return (const char *)array->data + (size_t)(first * array->row) * (size_t)array->type->bytes;
}

qs_status qs__numpy_integers(const qs__array *array, int64_t first, int64_t count, int32_t *out) {
    const qs__array_type *is = array->type;
    const int64_t values = count * array->row;
    if (is->real) return qs_fail(QS_BAD_FILE, "%s: values of type %s, integers are wanted", array->label, is->name);
    const char *from = rows_at(array, first);
#define NARROW(with_sign, size, type)                                                                                                    \
    if (is->is_signed == with_sign && is->bytes == size)                                                                                 \
    EACH(type, const int64_t wide = (int64_t)value; if (wide < INT32_MIN || wide > INT32_MAX || (value > 0 && wide < 0)) return qs_fail( \
             QS_BAD_FILE, "%s: sample %lld has a value that does not fit 32 bits", array->label, (long long)(first + i / array->row));   \
         out[i] = (int32_t)wide)
    INTEGERS(NARROW)
    return QS_OK;
}

void qs__numpy_reals(const qs__array *array, int64_t first, int64_t count, float *out) {
    const qs__array_type *is = array->type;
    const int64_t values = count * array->row;
    const char *from = rows_at(array, first);
    if (is->real) {
        const qs_format *half = qs_format_of("fp16");
        if (is->bytes == 4) memcpy(out, from, (size_t)values * sizeof *out);
        if (is->bytes == 8) EACH(double, out[i] = (float)value)
        if (is->bytes == 2) EACH(uint16_t, out[i] = qs_decode_value(half, value))
        return;
    }
#define WIDEN(with_sign, size, type) \
    if (is->is_signed == with_sign && is->bytes == size) EACH(type, out[i] = (float)value)
    INTEGERS(WIDEN)
}
