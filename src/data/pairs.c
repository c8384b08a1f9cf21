// SPDX-License-Identifier: Apache-2.0
/* "npz:FILE" and "npy:FILE,FILE": sets of a user's own arrays, inputs and a target, as NumPy stores them. What samples are follows from
 * types and shapes, or is said behind a name. Arrays that lie in a file as samples are held are mapped; others are converted when a part is
 * loaded. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "numpy.h"
#include "source.h"

enum { MOST_ARRAYS = QS_SAMPLES_MOST_INPUTS + 1, most_extent = 1 << 16 };
static const double usual_share = 0.1;

/* ---- What was asked for ------------------------------------------------------------------------------------------------------ */

/* What an array is: of inputs what follows from the type, images with channels last or first, integers, floats; of targets a kind. */
typedef enum form_kind { FORM_FOLLOWS, FORM_HWC, FORM_CHW, FORM_IDS, FORM_REAL, FORM_CLASS, FORM_POSITIONS, FORM_SPAN, FORMS } form_kind;
static const char *const forms[FORMS] = {"", "hwc", "chw", "ids", "real", "class", "positions", "span"};

/* A file, or an array of one, and its form. */
typedef struct wish {
    const char *name;
    form_kind form;
} wish;

typedef struct pair_request {
    char *text;                                /* what names point into */
    bool archive;                              /* npz */
    wish array[QS_PART_TEST + 1][MOST_ARRAYS]; /* npy: files by part, the target last; npz: names of arrays, of both parts */
    int arrays[QS_PART_TEST + 1];
    const char *file[QS_PART_TEST + 1]; /* npz; NULL: no file of its own */
    wish target;                        /* npz; name NULL: by its usual names */
    double share;                       /* of the samples, from the end, that test; 0: not said */
    int64_t classes, ignored;           /* 0 (ignored: 1): not said */
} pair_request;

/* "x:chw" */
static wish wish_take(char *text) {
    wish one = {text, FORM_FOLLOWS};
    char *colon = strrchr(text, ':');
    for (int i = 1; colon && i < FORMS; i++) {
        if (strcmp(colon + 1, forms[i]) != 0) continue;
        one.form = (form_kind)i;
        *colon = '\0';
    }
    return one;
}

static qs_status wish_add(const qs__request *request, qs_part part, char *text, pair_request *out) {
    if (out->arrays[part] == MOST_ARRAYS)
        return qs_fail(QS_USAGE, "data set '%s': at most %d inputs", request->name, QS_SAMPLES_MOST_INPUTS);
    out->array[part][out->arrays[part]++] = wish_take(text);
    return QS_OK;
}

static qs_status whole_take(const qs__request *request, const char *name, const char *value, int64_t low, int64_t high, int64_t *out) {
    char *end = NULL;
    *out = strtoll(value, &end, 10);
    if (end != value && *end == '\0' && *out >= low && *out <= high) return QS_OK;
    return qs_fail(QS_USAGE, "data set '%s': %s=%s, must be a whole number from %lld to %lld", request->name, name, value, (long long)low,
                   (long long)high);
}

/* "test=0.2" or "test=FILE"; a number between 0 and 1 is a share. */
static qs_status test_take(const qs__request *request, char *value, pair_request *out) {
    char *end = NULL;
    const double share = strtod(value, &end);
    if (end != value && *end == '\0') {
        if (!(share > 0 && share < 1))
            return qs_fail(QS_USAGE, "data set '%s': test=%s, a part of the samples lies between 0 and 1", request->name, value);
        out->share = share;
        return QS_OK;
    }
    if (!out->archive) return wish_add(request, QS_PART_TEST, value, out);
    out->file[QS_PART_TEST] = value;
    return QS_OK;
}

static qs_status option_take(const qs__request *request, char *text, char *value, pair_request *out) {
    *value++ = '\0';
    if (strcmp(text, "test") == 0) return test_take(request, value, out);
    if (strcmp(text, "classes") == 0) return whole_take(request, text, value, 2, INT32_MAX, &out->classes);
    if (strcmp(text, "ignored") == 0) return whole_take(request, text, value, INT32_MIN, -1, &out->ignored);
    if (out->archive && strcmp(text, "input") == 0) return wish_add(request, QS_PART_TRAINING, value, out);
    if (out->archive && strcmp(text, "target") == 0) {
        out->target = wish_take(value);
        return QS_OK;
    }
    return qs_fail(QS_USAGE, "data set '%s': no option %s=; there are test=, classes=, ignored=%s", request->name, text,
                   out->archive ? ", input= and target=" : "");
}

/* Words with commas between: files of the part at hand, the training part up to test=FILE, and options. */
static qs_status request_parse(const qs__source *source, const qs__request *request, pair_request *out) {
    *out = (pair_request){.archive = source == &qs__source_npz, .ignored = 1};
    QS_TRY(qs_format_text(&out->text, "%s", request->options ? request->options : ""));
    for (char *at = out->text; at && *at;) {
        char *comma = strchr(at, ','), *value;
        if (comma) *comma = '\0';
        value = strchr(at, '=');
        if (value && strspn(at, "abcdefghijklmnopqrstuvwxyz") == (size_t)(value - at))
            QS_TRY(option_take(request, at, value, out));
        else if (out->archive && !out->file[QS_PART_TRAINING])
            out->file[QS_PART_TRAINING] = at;
        else if (!out->archive)
            QS_TRY(wish_add(request, out->arrays[QS_PART_TEST] > 0 ? QS_PART_TEST : QS_PART_TRAINING, at, out));
        else
            return qs_fail(QS_USAGE, "data set '%s': \"%s\" is no option", request->name, at);
        at = comma ? comma + 1 : NULL;
    }
    const int files = out->arrays[QS_PART_TRAINING], tests = out->arrays[QS_PART_TEST];
    if (out->archive ? !out->file[QS_PART_TRAINING] : files < 2)
        return qs_fail(QS_USAGE, "data set '%s': must be %s", request->name, source->form);
    if (!out->archive && tests > 0 && tests != files)
        return qs_fail(QS_USAGE, "data set '%s': %d files to train on and %d to test, must be as many, the target last", request->name,
                       files, tests);
    return QS_OK;
}

/* ---- Arrays of a part --------------------------------------------------------------------------------------------------------- */

/* Inputs and then the target, and which of their rows are the part's. */
typedef struct part_arrays {
    qs__array array[MOST_ARRAYS];
    form_kind form[MOST_ARRAYS];
    int arrays;
    int64_t first, count;
} part_arrays;

static void part_release(part_arrays *part) {
    for (int i = 0; i < MOST_ARRAYS; i++)
        qs__numpy_release(&part->array[i]);
}

static bool is_bytes(const qs__array *array) {
    return array->type->bytes == 1 && !array->type->is_signed && array->rank > 2;
}

/* What describing reads: integers, whose largest counts, but for bytes that are images. */
static bool integers_wanted(const qs__array *array, const void *context) {
    const pair_request *request = context;
    bool said = false;
    for (int i = 0; i < MOST_ARRAYS; i++)
        said |= request->array[QS_PART_TRAINING][i].form == FORM_IDS;
    return !array->type->real && (said || !is_bytes(array));
}

static bool all_wanted(const qs__array *array, const void *context) {
    (void)array, (void)context;
    return true;
}

static const char *const target_names[] = {"target", "targets", "label", "labels", "y"};

/* The length of a name without "_train" or "_test". */
static size_t stem(const char *name, const char *ending) {
    const size_t length = strlen(name), end = strlen(ending);
    return length > end && strcmp(name + length - end, ending) == 0 ? length - end : length;
}

static bool is_target(const char *name) {
    const size_t length = stem(name, "_train");
    for (size_t i = 0; i < sizeof target_names / sizeof *target_names; i++)
        if (strlen(target_names[i]) == length && strncmp(name, target_names[i], length) == 0) return true;
    return false;
}

static int array_named(const qs__array *array, int count, const char *name) {
    int i = 0;
    while (i < count && (!array[i].name || strcmp(array[i].name, name) != 0))
        i++;
    return i < count ? i : -1;
}

/* The arrays of a file that are inputs, and the target, by what was said or by their names; wish[*wishes - 1] is the target. */
static qs_status wishes_choose(const pair_request *request, const qs__array *array, int count, wish *out, int *wishes) {
    *wishes = 0;
    for (int i = 0; i < request->arrays[QS_PART_TRAINING]; i++)
        out[(*wishes)++] = request->array[QS_PART_TRAINING][i];
    for (int i = 0; request->arrays[QS_PART_TRAINING] == 0 && i < count; i++) {
        if (stem(array[i].name, "_test") < strlen(array[i].name)) continue;
        if (request->target.name ? strcmp(array[i].name, request->target.name) == 0 : is_target(array[i].name)) continue;
        if (*wishes == QS_SAMPLES_MOST_INPUTS)
            return qs_fail(QS_BAD_FILE, "%s: more than %d arrays that may be inputs: name them, input=NAME for each", request->file[0],
                           QS_SAMPLES_MOST_INPUTS);
        out[(*wishes)++] = (wish){array[i].name, FORM_FOLLOWS};
    }
    wish target = request->target;
    for (int i = 0; !target.name && i < count; i++)
        if (is_target(array[i].name)) target.name = array[i].name;
    if (!target.name || *wishes == 0 || *wishes == MOST_ARRAYS)
        return qs_fail(QS_BAD_FILE, "%s: %s: name inputs and target, as in input=x,target=y", request->file[0],
                       target.name ? "no array, or too many, that may be inputs" : "no array is called target, label or y");
    out[(*wishes)++] = target;
    return QS_OK;
}

/* Takes an array out of a file's. The test part's of the same file ends in "_test" where that of training ends in "_train", or in nothing.
 * */
static qs_status array_take(const char *path, qs__array *array, int count, const char *name, bool tests, qs__array *out) {
    char other[160];
    int at = tests ? -1 : array_named(array, count, name);
    snprintf(other, sizeof other, "%.*s_test", (int)stem(name, "_train"), name);
    if (tests) at = array_named(array, count, other);
    if (at < 0) return qs_fail(QS_BAD_FILE, "%s: no array \"%s\" in it, or it was named twice", path, tests ? other : name);
    *out = array[at];
    array[at] = (qs__array){0}; /* it has no name any more */
    return QS_OK;
}

static void rest_release(qs__array *array, int count) {
    for (int i = 0; i < count; i++)
        qs__numpy_release(&array[i]);
    free(array);
}

static qs_status npz_open(const qs__request *ask, const pair_request *request, qs_part part, qs__array_wanted wanted, part_arrays *out,
                          bool *split) {
    const bool own = part == QS_PART_TEST && request->file[QS_PART_TEST];
    char *path = NULL;
    qs__array *array = NULL;
    int count = 0, wishes = 0;
    wish one[MOST_ARRAYS + 1];
    qs_status status;
    QS_GOTO(qs__path_below(request->file[own ? QS_PART_TEST : QS_PART_TRAINING], ask->folder, &path));
    QS_GOTO(qs__npz_read(path, wanted, request, &array, &count));
    QS_GOTO(wishes_choose(request, array, count, one, &wishes));
    bool beside = !request->file[QS_PART_TEST] && request->share == 0;
    for (int i = 0; i < wishes && beside; i++) {
        char other[160];
        snprintf(other, sizeof other, "%.*s_test", (int)stem(one[i].name, "_train"), one[i].name);
        beside = array_named(array, count, other) >= 0;
    }
    for (int i = 0; i < wishes; i++) {
        QS_GOTO(array_take(path, array, count, one[i].name, beside && part == QS_PART_TEST, &out->array[i]));
        out->form[i] = one[i].form;
        out->arrays++;
    }
    *split = !request->file[QS_PART_TEST] && !beside;
done:
    rest_release(array, count);
    free(path);
    return status;
}

static qs_status npy_open(const qs__request *ask, const pair_request *request, qs_part part, part_arrays *out, bool *split) {
    const qs_part from = request->arrays[QS_PART_TEST] > 0 ? part : QS_PART_TRAINING;
    *split = request->arrays[QS_PART_TEST] == 0;
    for (int i = 0; i < request->arrays[from]; i++) {
        char *path = NULL;
        QS_TRY(qs__path_below(request->array[from][i].name, ask->folder, &path));
        const qs_status status = qs__npy_read(path, &out->array[i]);
        free(path);
        QS_TRY(status);
        out->form[i] = request->array[QS_PART_TRAINING][i].form;
        out->arrays++;
    }
    return QS_OK;
}

/* The arrays of a part; all have as many rows. */
static qs_status part_open(const qs__request *ask, const pair_request *request, qs_part part, qs__array_wanted wanted, part_arrays *out) {
    bool split = false;
    QS_TRY(request->archive ? npz_open(ask, request, part, wanted, out, &split) : npy_open(ask, request, part, out, &split));
    const int64_t rows = out->array[0].extent[0];
    for (int i = 1; i < out->arrays; i++)
        if (out->array[i].extent[0] != rows)
            return qs_fail(QS_BAD_FILE, "%s has %lld samples, %s %lld: they must have as many", out->array[i].label,
                           (long long)out->array[i].extent[0], out->array[0].label, (long long)rows);
    const double share = request->share > 0 ? request->share : usual_share;
    const int64_t tests = split ? (int64_t)llround((double)rows * share) : 0;
    out->first = split && part == QS_PART_TEST ? rows - tests : 0;
    out->count = !split ? rows : part == QS_PART_TEST ? tests : rows - tests;
    if (out->count > 0) return QS_OK;
    return qs_fail(QS_BAD_FILE, "%s: %lld samples leave none to %s", out->array[0].label, (long long)rows,
                   part == QS_PART_TEST ? "test" : "train on");
}

/* ---- What samples are --------------------------------------------------------------------------------------------------------- */

static bool few(int64_t channels) {
    return channels >= 1 && channels <= QS_DATA_MOST_CHANNELS;
}

/* Which axis of images holds the channels is said, or the only one that may. A third axis alone is grey. */
static qs_status image_form(const qs__array *array, form_kind *form) {
    const bool last = array->rank == 4 && few(array->extent[3]), first = array->rank == 4 && few(array->extent[1]);
    if (*form == FORM_HWC || *form == FORM_CHW) {
        if (*form == FORM_HWC ? last : first) return QS_OK;
        return qs_fail(QS_BAD_FILE, "%s: no images with %s, which are 1 to %d", array->label,
                       *form == FORM_HWC ? "channels last" : "channels first", QS_DATA_MOST_CHANNELS);
    }
    if (array->rank == 3) *form = FORM_HWC;
    if (array->rank == 3) return QS_OK;
    if (last && first)
        return qs_fail(QS_BAD_FILE, "%s: its second and its last axis may both be channels: say NAME:chw or NAME:hwc", array->label);
    if (!last && !first)
        return qs_fail(QS_BAD_FILE, "%s: bytes of images have three axes, or four and 1 to %d channels on the second or last", array->label,
                       QS_DATA_MOST_CHANNELS);
    *form = last ? FORM_HWC : FORM_CHW;
    return QS_OK;
}

static qs_status largest_of(const qs__array *array, int64_t *least, int64_t *most) {
    int32_t *row = NULL;
    QS_TRY(qs_allocate((size_t)array->row, sizeof *row, &row));
    qs_status status = QS_OK;
    *least = INT32_MAX, *most = INT32_MIN;
    for (int64_t i = 0; i < array->extent[0] && status == QS_OK; i++) {
        status = qs__numpy_integers(array, i, 1, row);
        for (int64_t k = 0; k < array->row && status == QS_OK; k++) {
            if (row[k] < *least) *least = row[k];
            if (row[k] > *most) *most = row[k];
        }
    }
    free(row);
    return status;
}

/* The input that an array is; its form becomes what it was found to be. */
static qs_status input_describe(const qs__array *array, form_kind *form, qs_input *out) {
    int64_t least = 0, most = 0;
    const bool bytes = is_bytes(array), follows = *form == FORM_FOLLOWS;
    const bool floats = array->type->real && array->rank == 4 && few(array->extent[1]) != few(array->extent[3]);
    const bool images = *form == FORM_HWC || *form == FORM_CHW || (follows && (bytes || floats));
    const bool integers = *form == FORM_IDS || (follows && !array->type->real && !bytes);
    if (*form > FORM_REAL) return qs_fail(QS_USAGE, "%s: an input is hwc, chw, ids or real, not %s", array->label, forms[*form]);
    if (images) QS_TRY(image_form(array, form));
    *out = (qs_input){.type = images && bytes ? QS_INPUT_U8 : integers ? QS_INPUT_I32 : QS_INPUT_F32, .rank = array->rank - 1};
    snprintf(out->name, sizeof out->name, "%.*s", (int)stem(array->name, "_train"), array->name);
    if (out->rank > (integers ? 2 : QS_SAMPLES_MOST_RANK))
        return qs_fail(QS_BAD_FILE, "%s: %d axes behind the samples, must be at most %d", array->label, out->rank,
                       integers ? 2 : QS_SAMPLES_MOST_RANK);
    for (int i = 0; i < out->rank; i++)
        out->extent[i] = array->extent[1 + i];
    if (out->rank == 0) out->extent[out->rank++] = 1;
    if (*form == FORM_CHW) out->extent[0] = array->extent[2], out->extent[1] = array->extent[3], out->extent[2] = array->extent[1];
    if (images && array->rank == 3) out->extent[out->rank++] = 1;
    for (int i = 0; i < out->rank; i++)
        if (out->extent[i] < 1 || out->extent[i] > most_extent)
            return qs_fail(QS_BAD_FILE, "%s: %lld values along an axis of a sample, must be 1 to %d", array->label,
                           (long long)out->extent[i], most_extent);
    *form = images ? *form : integers ? FORM_IDS : FORM_REAL;
    if (!integers) return QS_OK;
    QS_TRY(largest_of(array, &least, &most));
    if (least < 0)
        return qs_fail(QS_BAD_FILE, "%s: it holds %lld; integers of inputs are rows of a table or flags, at least 0 (or say NAME:real)",
                       array->label, (long long)least);
    out->bound = most + 1;
    return QS_OK;
}

static qs_status target_describe(const pair_request *request, const qs__array *array, form_kind *form, int64_t length, qs_target *out) {
    int64_t least = 0, most = 0;
    const bool one = array->row == 1;
    if (*form == FORM_FOLLOWS) *form = array->type->real ? FORM_REAL : one ? FORM_CLASS : array->row == 2 ? FORM_SPAN : FORM_POSITIONS;
    if (*form < FORM_REAL) return qs_fail(QS_USAGE, "%s: a target is class, positions, span or real, not %s", array->label, forms[*form]);
    if (array->rank > 2 || array->row < 1 || array->row > QS_DATA_MOST_TARGET || (*form == FORM_CLASS && !one) ||
        (*form == FORM_SPAN && array->row != 2))
        return qs_fail(QS_BAD_FILE,
                       "%s: %lld values a sample on %d axes: a target has (samples), or (samples, 1 to %d values); spans have 2",
                       array->label, (long long)array->row, array->rank - 1, QS_DATA_MOST_TARGET);
    *out = (qs_target){.kind = *form == FORM_REAL        ? QS_TARGET_REAL
                               : *form == FORM_CLASS     ? QS_TARGET_CLASS
                               : *form == FORM_POSITIONS ? QS_TARGET_CLASS_PER_POSITION
                                                         : QS_TARGET_SPAN,
                       .extent = array->row};
    if (*form == FORM_REAL) return QS_OK;
    QS_TRY(largest_of(array, &least, &most));
    out->ignored = *form != FORM_POSITIONS ? 0 : request->ignored < 0 ? (int32_t)request->ignored : least < 0 ? (int32_t)least : -100;
    if (*form == FORM_SPAN) out->extent = length > most ? length : most + 1;
    if (*form != FORM_SPAN) out->classes = request->classes > 0 ? request->classes : most > 0 ? most + 1 : 2;
    return QS_OK;
}

/* What the arrays of a part say; forms are settled by it. */
static qs_status part_describe(const pair_request *request, part_arrays *part, qs_data_description *out) {
    const int inputs = part->arrays - 1;
    bool images = false, bytes = false;
    int64_t length = 0;
    out->samples.inputs = inputs;
    for (int i = 0; i < inputs; i++) {
        qs_input *input = &out->samples.input[i];
        QS_TRY(input_describe(&part->array[i], &part->form[i], input));
        images |= part->form[i] <= FORM_CHW;
        bytes |= input->type == QS_INPUT_U8;
        if (length == 0 && input->rank < 3) length = input->extent[0];
    }
    QS_TRY(target_describe(request, &part->array[inputs], &part->form[inputs], length, &out->samples.target));
    snprintf(out->samples.unit, sizeof out->samples.unit, "%s", images ? "images" : "samples");
    for (int i = 0; i < QS_DATA_MOST_CHANNELS && bytes; i++)
        out->deviation[i] = 1;
    return QS_OK;
}

/* Both parts have the same inputs, by their names where each has an archive, whose order nobody chooses; bounds and classes hold for
 * both. */
static qs_status parts_join(const pair_request *request, const part_arrays *test, const qs_data_description *has,
                            qs_data_description *out) {
    qs_samples *all = &out->samples;
    if (all->inputs != has->samples.inputs)
        return qs_fail(QS_BAD_FILE, "%s: its part to test has %d inputs, that to train on %d: name them, input=NAME for each",
                       test->array[0].label, has->samples.inputs, all->inputs);
    for (int i = 0; i < all->inputs; i++) {
        qs_input *a = &all->input[i];
        const qs_input *b = &has->samples.input[i];
        if (request->file[QS_PART_TEST] && all->inputs > 1 && strcmp(a->name, b->name) != 0)
            return qs_fail(QS_BAD_FILE, "%s: input %d to train on is \"%s\", to test \"%s\": name them, input=NAME for each",
                           test->array[i].label, i + 1, a->name, b->name);
        bool same = a->type == b->type && a->rank == b->rank;
        for (int k = 0; same && k < a->rank; k++)
            same = a->extent[k] == b->extent[k];
        if (!same) return qs_fail(QS_BAD_FILE, "%s: its samples have another type or shape than those to train on", test->array[i].label);
        if (a->bound < b->bound) a->bound = b->bound;
    }
    if (all->target.kind != has->samples.target.kind ||
        (all->target.kind != QS_TARGET_SPAN && all->target.extent != has->samples.target.extent))
        return qs_fail(QS_BAD_FILE, "%s: its target is of another kind or shape than that to train on", test->array[all->inputs].label);
    if (all->target.classes < has->samples.target.classes) all->target.classes = has->samples.target.classes;
    if (all->target.extent < has->samples.target.extent) all->target.extent = has->samples.target.extent;
    return QS_OK;
}

static qs_status pair_describe(const qs__source *source, const qs__request *request, qs_data_description *out) {
    pair_request ask;
    part_arrays training = {.arrays = 0}, test = {.arrays = 0};
    qs_data_description is = {.flips = false}, other = {.flips = false};
    qs_status status;
    QS_GOTO(request_parse(source, request, &ask));
    QS_GOTO(part_open(request, &ask, QS_PART_TRAINING, integers_wanted, &training));
    QS_GOTO(part_describe(&ask, &training, &is));
    QS_GOTO(part_open(request, &ask, QS_PART_TEST, integers_wanted, &test));
    QS_GOTO(part_describe(&ask, &test, &other));
    QS_GOTO(parts_join(&ask, &test, &other, &is));
    snprintf(is.name, sizeof is.name, "%s", request->name);
    *out = is;
done:
    part_release(&test);
    part_release(&training);
    free(ask.text);
    return status;
}

/* ---- Loading ------------------------------------------------------------------------------------------------------------------ */

/* (channels, pixels) to (pixels, channels), values of `size` bytes. */
static void channels_last(const char *from, int64_t channels, int64_t pixels, size_t size, char *to) {
    for (int64_t c = 0; c < channels; c++)
        for (int64_t p = 0; p < pixels; p++)
            memcpy(to + (size_t)(p * channels + c) * size, from + (size_t)(c * pixels + p) * size, size);
}

/* Whether rows lie in a mapped file as samples are held: they are then left where they are. */
static bool lies_ready(const qs__array *array, form_kind form, qs_input_type type) {
    const bool same = type == QS_INPUT_U8    ? true
                      : type == QS_INPUT_F32 ? array->type->real && array->type->bytes == 4
                                             : !array->type->real && array->type->is_signed && array->type->bytes == 4;
    return array->map && same && form != FORM_CHW && (uintptr_t)array->data % (uintptr_t)array->type->bytes == 0;
}

static qs_status input_load(qs__array *array, form_kind form, const qs_input *input, int64_t first, int64_t count, qs_dataset *out,
                            int place) {
    const size_t size = input->type == QS_INPUT_U8 ? 1 : 4;
    const int64_t pixels = input->rank > 1 ? input->extent[0] * input->extent[1] : 0;
    char *to = NULL, *row = NULL;
    qs_status status = QS_OK;
    if (lies_ready(array, form, input->type)) {
        union {
            const void *read;
            void *hold;
        } rows = {.read = (const char *)array->data + (size_t)(first * array->row) * size}; /* never written to */
        out->input[place] = rows.hold;
        out->mapping[place] = (struct qs_mapping){array->map, array->mapped};
        array->map = NULL;
        return QS_OK;
    }
    QS_GOTO(qs_allocate((size_t)(count * array->row), size, &to));
    if (input->type == QS_INPUT_U8)
        memcpy(to, (const char *)array->data + (size_t)(first * array->row), (size_t)(count * array->row));
    else if (input->type == QS_INPUT_I32)
        QS_GOTO(qs__numpy_integers(array, first, count, (int32_t *)(void *)to));
    else
        qs__numpy_reals(array, first, count, (float *)(void *)to);
    if (form == FORM_CHW) {
        QS_GOTO(qs_allocate((size_t)array->row, size, &row));
        for (int64_t i = 0; i < count; i++) {
            char *at = to + (size_t)(i * array->row) * size;
            memcpy(row, at, (size_t)array->row * size);
            channels_last(row, input->extent[2], pixels, size, at);
        }
    }
    out->input[place] = to;
    to = NULL;
done:
    free(row);
    free(to);
    return status;
}

static qs_status target_load(const qs__array *array, const qs_target *target, int64_t first, int64_t count, qs_dataset *out) {
    QS_TRY(qs_allocate((size_t)(count * array->row), sizeof(int32_t), &out->target));
    if (target->kind == QS_TARGET_REAL) {
        qs__numpy_reals(array, first, count, out->target);
        return QS_OK;
    }
    int32_t *value = out->target;
    QS_TRY(qs__numpy_integers(array, first, count, value));
    const int64_t end = target->kind == QS_TARGET_SPAN ? target->extent : target->classes;
    for (int64_t i = 0; i < count * array->row; i++) {
        if ((value[i] >= 0 && value[i] < end) || (target->kind == QS_TARGET_CLASS_PER_POSITION && value[i] == target->ignored)) continue;
        return qs_fail(QS_BAD_FILE, "%s: sample %lld has the target %d, must be 0 to %lld%s", array->label,
                       (long long)(first + i / array->row), value[i], (long long)end - 1,
                       target->kind == QS_TARGET_CLASS_PER_POSITION ? ", or ignored=N, which does not count" : "");
    }
    return QS_OK;
}

static qs_status pair_load(const qs__source *source, const qs__request *request, qs_part part, int64_t limit, qs_dataset *out) {
    pair_request ask;
    part_arrays arrays = {.arrays = 0};
    qs_data_description own = {.flips = false};
    qs_status status;
    QS_TRY(pair_describe(source, request, &out->description));
    QS_GOTO(request_parse(source, request, &ask));
    QS_GOTO(part_open(request, &ask, part, all_wanted, &arrays));
    QS_GOTO(part_describe(&ask, &arrays, &own));
    const qs_samples *samples = &out->description.samples;
    out->count = arrays.count < limit ? arrays.count : limit;
    for (int i = 0; i < samples->inputs; i++)
        QS_GOTO(input_load(&arrays.array[i], arrays.form[i], &samples->input[i], arrays.first, out->count, out, i));
    QS_GOTO(target_load(&arrays.array[samples->inputs], &samples->target, arrays.first, out->count, out));
done:
    part_release(&arrays);
    free(ask.text);
    return status;
}

const qs__source qs__source_npz = {
    .name = "npz",
    .form = "npz:FILE[,input=NAME...,target=NAME][,test=FILE|PART]",
    .alone = true,
    .takes_options = true,
    .describe = pair_describe,
    .load = pair_load,
};

const qs__source qs__source_npy = {
    .name = "npy",
    .form = "npy:INPUT,...,TARGET[,test=INPUT,...,TARGET|PART]",
    .alone = true,
    .takes_options = true,
    .describe = pair_describe,
    .load = pair_load,
};
