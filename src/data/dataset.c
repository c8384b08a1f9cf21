// SPDX-License-Identifier: Apache-2.0
/* The list of sets, where their files are looked for, and loading by name. */
#include "source.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define QS_DATASET(identifier) &qs__source_##identifier,
static const qs__source *const sources[] = {
#include "datasets.def"
};
#undef QS_DATASET
enum { most_extent = 1 << 16 };
enum { source_count = sizeof sources / sizeof sources[0] };

const char *qs_dataset_name_at(size_t index) {
    return index < source_count ? sources[index]->name : NULL;
}

static qs_status find_source(const char *name, const qs__source **source) {
    for (size_t i = 0; i < source_count; i++) {
        if (strcmp(sources[i]->name, name) == 0) {
            *source = sources[i];
            return QS_OK;
        }
    }
    return qs_fail(QS_USAGE, "unknown data set '%s'; there are: %s, folder:PATH", name, qs_names_join(source_count, qs_dataset_name_at));
}

/* "3x224x224:1000", spelt just so: channels, height, width, classes of a set that nobody has to have. */
static bool parse_shape(const char *name, int shape[4]) {
    char again[64];
    if (sscanf(name, "%dx%dx%d:%d", &shape[0], &shape[1], &shape[2], &shape[3]) != 4) return false;
    for (int i = 0; i < 4; i++)
        if (shape[i] < 1 || shape[i] > most_extent) return false;
    snprintf(again, sizeof again, "%dx%dx%d:%d", shape[0], shape[1], shape[2], shape[3]);
    return strcmp(again, name) == 0;
}

/* ---- Files ---------------------------------------------------------------------------------------------------------------- */

/* Length of the first alternative of "a|b c". */
static size_t alternative_length(const char *names) {
    return strcspn(names, "| ");
}

/* The alternative after this one; NULL when it was the last of its group. */
static const char *next_alternative(const char *names) {
    names += alternative_length(names);
    return *names == '|' ? names + 1 : NULL;
}

static bool contains_name(const char *names, const char *name, size_t length) {
    for (; names; names = next_alternative(names)) {
        if (alternative_length(names) == length && memcmp(names, name, length) == 0) return true;
    }
    return false;
}

/* MNIST's and Fashion-MNIST's files bear the same names: a folder called after another set does not hold this one's files. */
static bool belongs_to_other(const qs__source *source, const char *folder) {
    size_t end = strlen(folder);
    while (end > 0 && folder[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && folder[begin - 1] != '/')
        begin--;
    for (size_t i = 0; i < source_count; i++) {
        if (sources[i] != source && contains_name(sources[i]->folders, folder + begin, end - begin)) return true;
    }
    return false;
}

static bool is_file(const char *path) {
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISREG(facts.st_mode);
}

/* folder[/subfolder]/name, plain before .gz; subfolder may be empty. */
static qs_status probe(const char *folder, const char *subfolder, size_t subfolder_length, const char *name, size_t length, char **path) {
    static const char *const endings[] = {"", ".gz"};
    for (size_t i = 0; i < 2; i++) {
        char *candidate = NULL;
        QS_TRY(qs_format_text(&candidate, "%s/%.*s%s%.*s%s", folder, (int)subfolder_length, subfolder, subfolder_length > 0 ? "/" : "",
                              (int)length, name, endings[i]));
        if (is_file(candidate)) {
            *path = candidate;
            return QS_OK;
        }
        free(candidate);
    }
    *path = NULL;
    return QS_OK;
}

qs_status qs__file_find(const qs__source *source, const char *folder, const char *names, char **path) {
    bool flat = !belongs_to_other(source, folder);
    *path = NULL;
    for (const char *name = names; name && !*path; name = next_alternative(name)) {
        size_t length = alternative_length(name);
        for (const char *sub = source->folders; sub && !*path; sub = next_alternative(sub)) {
            QS_TRY(probe(folder, sub, alternative_length(sub), name, length, path));
        }
        if (flat && !*path) QS_TRY(probe(folder, "", 0, name, length, path));
    }
    return QS_OK;
}

qs_status qs__file_missing(const qs__source *source, const char *folder, const char *names) {
    return qs_fail(QS_BAD_FILE,
                   "%s: no file %.*s[.gz] in %s/%s or %s; fetch it with tools/fetch-data.sh, or name the folder that has it "
                   "(--data DIR or QSYNC_DATA)",
                   source->name, (int)alternative_length(names), names, folder, source->name, folder);
}

/* ---- What samples are ------------------------------------------------------------------------------------------------------- */

static void images_describe(const char *name, const int shape[4], qs_data_description *out) {
    *out = (qs_data_description){.samples = {.unit = "images",
                                             .inputs = 1,
                                             .input = {qs_input_image(shape[1], shape[2], shape[0])},
                                             .target = {.kind = QS_TARGET_CLASS, .classes = shape[3], .extent = 1}}};
    snprintf(out->name, sizeof out->name, "%s", name);
}

static void source_describe(const qs__source *source, qs_data_description *out) {
    images_describe(source->name, (const int[]){source->channels, source->height, source->width, source->classes}, out);
    out->flips = source->flips;
    memcpy(out->mean, source->mean, sizeof out->mean);
    memcpy(out->deviation, source->deviation, sizeof out->deviation);
}

qs_status qs_dataset_describe(const char *name, const char *folder, qs_data_description *out) {
    const qs__source *source = NULL;
    int shape[4];
    if (qs__folder_named(name)) return qs__folder_describe(name, folder, out);
    if (parse_shape(name, shape)) {
        images_describe(name, shape, out);
        return QS_OK;
    }
    QS_TRY(find_source(name, &source));
    source_describe(source, out);
    return QS_OK;
}

/* ---- Loading ---------------------------------------------------------------------------------------------------------------- */

static qs_status choose_folder(const qs__source *source, const char **folder) {
    if (source->images[QS_PART_TRAINING] == NULL || *folder) return QS_OK;
    *folder = getenv("QSYNC_DATA");
    if (*folder && **folder) return QS_OK;
    return qs_fail(QS_BAD_FILE,
                   "%s: no folder to read from; name one (--data DIR or QSYNC_DATA), fill one with tools/fetch-data.sh, or use the "
                   "built-in set 'shapes'",
                   source->name);
}

static qs_status source_load(const char *name, const char *folder, qs_part part, int64_t limit, qs_dataset *out) {
    const qs__source *source = NULL;
    QS_TRY(find_source(name, &source));
    QS_TRY(choose_folder(source, &folder));
    source_describe(source, &out->description);
    return source->load(source, folder, part, limit, out);
}

qs_status qs_dataset_load(const char *name, const char *folder, qs_part part, int64_t limit, qs_dataset *out) {
    qs_dataset dataset = {.part = part};
    int shape[4];
    if (parse_shape(name, shape))
        return qs_fail(QS_USAGE, "data set %s is a shape without images: plans can be made for it, training needs one of %s", name,
                       qs_names_join(source_count, qs_dataset_name_at));
    if (limit <= 0) limit = INT64_MAX;
    qs_status status =
        qs__folder_named(name) ? qs__folder_load(name, folder, part, limit, &dataset) : source_load(name, folder, part, limit, &dataset);
    if (status != QS_OK) {
        qs_dataset_release(&dataset);
        return status;
    }
    *out = dataset;
    return QS_OK;
}

void qs_dataset_release(qs_dataset *dataset) {
    for (int i = 0; i < QS_SAMPLES_MOST_INPUTS; i++)
        free(dataset->input[i]);
    free(dataset->length);
    free(dataset->target);
    qs__folder_release(dataset->files);
    *dataset = (qs_dataset){0};
}

int64_t qs_dataset_counted(const qs_dataset *dataset, const int64_t *indices, int64_t count) {
    const qs_target *target = &dataset->description.samples.target;
    int64_t counted = 0;
    if (target->kind != QS_TARGET_CLASS_PER_POSITION) return count;
    for (int64_t i = 0; i < count; i++) {
        const int32_t *label = (const int32_t *)dataset->target + indices[i] * target->extent;
        const int64_t length =
            dataset->length && dataset->length[indices[i]] < target->extent ? dataset->length[indices[i]] : target->extent;
        for (int64_t k = 0; k < length; k++)
            counted += label[k] != target->ignored;
    }
    return counted;
}

uint64_t qs_dataset_hash(const qs_dataset *dataset, uint64_t seed) {
    if (dataset->count == 0) return seed;
    return qs_hash(dataset->target, (size_t)(dataset->count * qs_target_values(&dataset->description.samples.target)) * sizeof(int32_t),
                   seed);
}
