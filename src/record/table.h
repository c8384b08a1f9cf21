// SPDX-License-Identifier: Apache-2.0
/* Inside the room: a record is a table of its fields. A row says everything about one field once: its name, the C member that holds it,
 * type, range, what its absence means, and one text. The table drives the strict reader (table_read.c), the canonical writer
 * (table_write.c), release and copy (table.c), and what manuals say (describe.c: --help, docs/records.md).
 *
 * Order matters: fields are written in the order of the table and read in it too, so a field may use what stands before it. */
#ifndef QSYNC_RECORD_TABLE_H
#define QSYNC_RECORD_TABLE_H

#include "json.h"

/* What a field holds, and the type of its C member. */
typedef enum qs__type {
    QS__TEXT,        /* char[] */
    QS__NAME,        /* char[], not empty */
    QS__STRING,      /* char *, not empty, owned by the record */
    QS__FLAG,        /* bool */
    QS__COUNT,       /* int */
    QS__INTEGER,     /* int64_t */
    QS__SEED,        /* uint64_t; files end at 2^63 - 1 */
    QS__NUMBER,      /* double */
    QS__SIZE,        /* int64_t, bytes: an integer, "644MiB", or "30%" of `related`, another int64_t of the struct */
    QS__PART,        /* double: a number or "30%" */
    QS__CHOICE,      /* an enumeration, or a bool: one of `names` */
    QS__ROUNDING,    /* qs_rounding by name */
    QS__FORMAT,      /* const qs_format * by name; `standard_text` is NULL */
    QS__QUANTIZER,   /* qs_quantizer by its text and `suffix` */
    QS__WORD,        /* no member: always `standard_text` */
    QS__ACCUMULATOR, /* qs_narrow by its text; "int32" where `related`, a quantizer of the struct, has integers */
    QS__OBJECT       /* a struct of its own, or more members of the same one (OWN): fields of `of` */
} qs__type;

/* How many: the member at `offset` is one value; an array in the struct; or the pointer to an array that the record owns. `count` is the
 * offset of the array's length, an int (QS__FIXED: always `most`). */
typedef enum qs__many {
    QS__ONE,
    QS__LIST,    /* in the struct, room for `most`: JSON array */
    QS__ROWS,    /* owned: JSON array */
    QS__MEMBERS, /* owned: JSON object; the name of an element is its struct's first member, char[of->key] or, key 0, an owned char * */
    QS__SERIES   /* owned doubles: JSON array of as many numbers as the enclosing QS__MEMBERS says (its `related`, an int); or `most` */
} qs__many;
#define QS__FIXED SIZE_MAX

/* Whether a file must have the field, and when the writer leaves it out. */
typedef enum qs__presence {
    QS__REQUIRED,
    QS__OPTIONAL, /* absent: `standard`. Always written */
    QS__LEFT_OUT, /* absent: `standard`. Not written when it is that; with `with`: not written when that sibling is not */
    QS__DERIVED,  /* absent: what fields before it made of the member, or what the record's check makes of it. Always written */
    QS__INPUT     /* absent: `standard`. Never written: what it stands for is */
} qs__presence;

struct qs__field;
struct qs__record;
/* The few fields whose file form follows no type. Absent values are handed to `read` as well (place->value NULL). */
typedef struct qs__hook {
    qs_status (*read)(const qs__place *place, void *object); /* NULL: the record's check reads it */
    void (*write)(qs__writer *writer, const char *name, const void *object);
    bool (*is_standard)(const void *object); /* NULL: never left out */
    /* For manuals: the index-th table that may stand there, its fields in field[QS__MOST_FIELDS]. NULL: `of`, or none. */
    bool (*table)(size_t index, struct qs__field *field, struct qs__record *out);
} qs__hook;

enum { QS__MOST_FIELDS = 10 };
typedef struct qs__record qs__record;
typedef struct qs__field {
    const char *name;
    qs__type type;
    qs__presence presence;
    size_t offset, size; /* of the member, or of one element of an array */
    qs__many many;
    size_t count;
    int least, most;  /* elements; most 0: no bound */
    double low, high; /* of numbers; high 0: no bound */
    double standard;  /* of numbers, flags and choices; NaN: not said */
    const char *standard_text, *suffix;
    const char *const *names; /* of a choice, NULL behind the last */
    const char *noun;         /* what a choice is called where a name is none of them */
    size_t related;           /* 0: none */
    size_t known;             /* of an object: the struct's bool that says whether it is there; 0: it is when a field is not standard */
    const char *with;
    size_t selector; /* of an object: the struct has it only where the text there, which is read before, is the object's name; 0: always */
    bool null_is_standard; /* written, and read, as null */
    const qs__record *of;
    const qs__hook *hook;
    bool (*left_out)(const void *object);                /* in place of the rule of QS__LEFT_OUT */
    int (*compare)(const void *left, const void *right); /* of rows: they are sorted, each once; written so whatever order they are in */
    /* For people, in Markdown but where the field is an option of the program. */
    const char *unit; /* before the range; or `values` in place of both */
    const char *values;
    const char *absent;                                   /* what its absence means, where `standard` does not say it */
    void (*describe_absent)(char *text, size_t capacity); /* the same, where others declare it */
    const char *text;
    const char *more; /* for docs/records.md only */
} qs__field;

struct qs__record {
    const char *kind;  /* of a record of its own: schema QS_SCHEMA(kind) */
    const char *title; /* heading of its table in the manual; NULL: its fields stand in the table around it */
    size_t size;       /* of its struct */
    size_t key;        /* see QS__MEMBERS */
    int fields;
    const qs__field *field;
    /* QS__SHORT: stands for its first field alone where the others are standard ("fc": "bf16"). QS__ONLY_SHORT: always. */
    enum { QS__FULL, QS__SHORT, QS__ONLY_SHORT } form;
    qs__layout layout;
    /* What no single field can say, once all are read; `root` is the struct of the whole record. */
    qs_status (*check)(const qs__place *place, void *object, void *root);
};

/* The C member of a field: one value, fields of another record in the same struct, and arrays. */
#define QS__AT(type, member) offsetof(type, member), sizeof(((type *)0)->member)
#define QS__OWN 0, 0
#define QS__IN(type, member, length) offsetof(type, member), sizeof(((type *)0)->member[0]), QS__LIST, offsetof(type, length)
#define QS__PAIR(type, member) offsetof(type, member), sizeof(((type *)0)->member[0]), QS__LIST, QS__FIXED
#define QS__ARRAY(type, member, length) offsetof(type, member), sizeof(((type *)0)->member[0]), QS__ROWS, offsetof(type, length)
#define QS__TABLE(type, member, length) offsetof(type, member), sizeof(((type *)0)->member[0]), QS__MEMBERS, offsetof(type, length)
#define QS__VALUES(type, member) offsetof(type, member), sizeof(double), QS__SERIES, 0
#define QS__FIELDS(table) .fields = sizeof(table) / sizeof *(table), .field = table

/* ---- table_read.c ------------------------------------------------------------------------------------------------------------- */

/* The whole record from a text, or a file, into its struct, which stays untouched on failure. */
qs_status qs__record_parse(const qs__record *record, const char *json, size_t bytes, const char *source, void *out);
qs_status qs__record_read(const qs__record *record, const char *path, void *out);
/* One object, into a struct that holds nothing yet (zeros); place->value NULL: as if every field were absent. */
qs_status qs__object_read(const qs__place *place, const qs__record *record, void *out);
/* What an absent record means; `series`: values of every series in it. On failure *out is to be released. */
qs_status qs__record_standard(const qs__record *record, int series, void *out);
/* A number in the range of a field; one up to 1, or text like "30%"; the accumulator of products of such operands (NULL: floats). */
qs_status qs__number_take(const qs__place *place, const qs__field *field, double *out);
qs_status qs__part_take(const qs__place *place, double *out);
qs_status qs__accumulator_take(const qs__place *place, const qs_format *operand, qs_narrow *out);

/* ---- table_write.c ------------------------------------------------------------------------------------------------------------ */

void qs__object_write(qs__writer *writer, const char *key, const qs__record *record, const void *object);
/* Canonical text of a whole record (caller frees); a text as a file, whole or not at all (frees it); the signature of the canonical text
 * into buffer[32], "" on failure. */
qs_status qs__record_text(const qs__record *record, const void *object, char **json);
qs_status qs__text_save(char *json, const char *path);
const char *qs__record_signature(const qs__record *record, const void *object, char *buffer);

/* ---- table.c ------------------------------------------------------------------------------------------------------------------ */

/* Frees what the record owns and zeroes the struct. */
void qs__record_release(const qs__record *record, void *object);
qs_status qs__record_copy(const qs__record *record, const void *from, void *out);

/* ---- Tables that stand in others ------------------------------------------------------------------------------------------------ */

/* What operators run that a plan does not name; names of the built-in recipes for messages. */
qs_recipe qs__recipe_fp32(void);
extern const char *const qs__recipe_names;
/* `speed`: a part; or an object of one for each format, which are those of products, and whose greatest is that of all else (speeds.c).
 * Absent: *speed stays. */
qs_status qs__speeds_read(const qs__place *place, double *speed, qs_speeds *products);
void qs__speeds_write(qs__writer *writer, const char *name, double speed, const qs_speeds *products);
enum { QS__MOST_THREADS = 4096 }; /* only catches slips of the pen */
/* Fields of their own that backends give a class of cluster.json and of profile.json (backends.c). */
#define QS_BACKEND(name) extern const qs__record qs__##name##_class_record, qs__##name##_profile_record;
#include "backends.def"
#undef QS_BACKEND
extern const qs__record qs__samples_record, qs__target_record, qs__cluster_record, qs__job_record, qs__graph_record, qs__recipe_record,
    qs__profile_record, qs__statistics_record, qs__plan_record;

#endif
