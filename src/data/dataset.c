// SPDX-License-Identifier: Apache-2.0
/* The list of sets, describing and loading by name. */
#include "source.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define QS_DATASET(identifier) &qs__source_##identifier,
static const qs__source *const sources[] = {
#include "datasets.def"
};
#undef QS_DATASET
enum { most_extent = 1 << 16 };
enum { source_count = sizeof sources / sizeof sources[0] };

const char *qs_dataset_name_at(size_t index) {
    return index < source_count ? sources[index]->form : NULL;
}

/* The set that `name` begins with, and the request for it. */
static qs_status find_source(const char *name, const char *folder, const qs__source **source, qs__request *request) {
    const size_t length = strcspn(name, ":");
    for (size_t i = 0; i < source_count; i++) {
        if (strlen(sources[i]->name) != length || memcmp(sources[i]->name, name, length) != 0) continue;
        if (name[length] && !sources[i]->takes_options)
            return qs_fail(QS_USAGE, "data set '%s': %s takes no options", name, sources[i]->name);
        *source = sources[i];
        *request = (qs__request){name, name[length] ? name + length + 1 : NULL, folder};
        return QS_OK;
    }
    return qs_fail(QS_USAGE, "unknown data set '%s'; there are: %s", name, qs_names_join(source_count, qs_dataset_name_at));
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

/* ---- What samples are ------------------------------------------------------------------------------------------------------- */

static void images_describe(const char *name, const int shape[4], qs_data_description *out) {
    *out = (qs_data_description){.samples = {.unit = "images",
                                             .inputs = 1,
                                             .input = {qs_input_image(shape[1], shape[2], shape[0])},
                                             .target = {.kind = QS_TARGET_CLASS, .classes = shape[3], .extent = 1}}};
    snprintf(out->name, sizeof out->name, "%s", name);
}

qs_status qs__images_describe(const qs__source *source, const qs__request *request, qs_data_description *out) {
    const qs__image_facts *image = &source->image;
    (void)request;
    images_describe(source->name, (const int[]){image->channels, image->height, image->width, image->classes}, out);
    out->flips = image->flips;
    memcpy(out->mean, image->mean, sizeof out->mean);
    memcpy(out->deviation, image->deviation, sizeof out->deviation);
    return QS_OK;
}

qs_status qs_dataset_describe(const char *name, const char *folder, qs_data_description *out) {
    const qs__source *source = NULL;
    qs__request request;
    qs_data_description description = {0};
    int shape[4];
    if (parse_shape(name, shape)) {
        images_describe(name, shape, out);
        return QS_OK;
    }
    QS_TRY(find_source(name, folder, &source, &request));
    QS_TRY(source->describe(source, &request, &description));
    *out = description;
    return QS_OK;
}

/* ---- Loading ---------------------------------------------------------------------------------------------------------------- */

static qs_status choose_folder(const qs__source *source, const char **folder) {
    if (source->alone || *folder) return QS_OK;
    *folder = getenv("QSYNC_DATA");
    if (*folder && **folder) return QS_OK;
    return qs_fail(QS_BAD_FILE,
                   "%s: no folder to read from; name one (--data DIR or QSYNC_DATA), fill one with tools/fetch-data.sh, or use the "
                   "built-in set 'shapes'",
                   source->name);
}

qs_status qs_dataset_load(const char *name, const char *folder, qs_part part, int64_t limit, qs_dataset *out) {
    const qs__source *source = NULL;
    qs__request request;
    qs_dataset dataset = {.part = part};
    int shape[4];
    if (parse_shape(name, shape))
        return qs_fail(QS_USAGE, "data set %s is a shape without images: plans can be made for it, training needs one of %s", name,
                       qs_names_join(source_count, qs_dataset_name_at));
    QS_TRY(find_source(name, folder, &source, &request));
    QS_TRY(choose_folder(source, &request.folder));
    qs_status status = source->load(source, &request, part, limit > 0 ? limit : INT64_MAX, &dataset);
    if (status != QS_OK) {
        qs_dataset_release(&dataset);
        return status;
    }
    *out = dataset;
    return QS_OK;
}

void qs_dataset_release(qs_dataset *dataset) {
    for (int i = 0; i < QS_SAMPLES_MOST_INPUTS; i++)
        if (dataset->mapping[i].memory)
            munmap(dataset->mapping[i].memory, dataset->mapping[i].bytes);
        else
            free(dataset->input[i]);
    free(dataset->length);
    free(dataset->target);
    qs__folder_release(dataset->files);
    if (dataset->answers) qs_answers_release(dataset->answers);
    free(dataset->answers);
    *dataset = (qs_dataset){0};
}

qs_status qs_data_normalize(qs_data_description *is, int means, const double *mean, int deviations, const double *deviation, double scale) {
    const qs_input *of = NULL;
    if (means == 0 && deviations == 0 && scale == 0) return QS_OK;
    for (int i = 0; i < is->samples.inputs; i++) {
        const qs_input *input = &is->samples.input[i];
        if (input->type == QS_INPUT_U8 || (input->type == QS_INPUT_F32 && !of)) of = input;
        if (input->type == QS_INPUT_U8) break;
    }
    if (!of) return qs_fail(QS_USAGE, "data set %s: neither images nor floats, so there is nothing to normalise", is->name);
    const int64_t channels = of->extent[of->rank - 1];
    if ((means > 1 && means != channels) || (deviations > 1 && deviations != channels))
        return qs_fail(QS_USAGE, "data set %s: %d means and %d deviations, must be one, or one for each of %lld channels", is->name, means,
                       deviations, (long long)channels);
    for (int i = 0; i < deviations; i++)
        if (!(deviation[i] > 0)) return qs_fail(QS_USAGE, "data set %s: deviation %g, must be above 0", is->name, deviation[i]);
    if (!(scale >= 0)) return qs_fail(QS_USAGE, "data set %s: scale %g, must be above 0", is->name, scale);
    for (int i = 0; i < QS_DATA_MOST_CHANNELS; i++) {
        is->mean[i] = means == 0 ? 0 : (float)mean[means > 1 && i < means ? i : 0];
        is->deviation[i] = deviations == 0 ? 1 : (float)deviation[deviations > 1 && i < deviations ? i : 0];
    }
    is->scale = (float)scale;
    return QS_OK;
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

void qs_dataset_lengths(const qs_dataset *dataset, const qs_lengths *lengths, int64_t *samples) {
    const int64_t whole = qs_samples_length(&dataset->description.samples);
    memset(samples, 0, (size_t)lengths->count * sizeof *samples);
    for (int64_t i = 0; i < dataset->count && lengths->count > 0; i++)
        samples[qs_lengths_find(lengths, dataset->length ? dataset->length[i] : whole)]++;
}

uint64_t qs_dataset_hash(const qs_dataset *dataset, uint64_t seed) {
    if (dataset->count == 0) return seed;
    if (dataset->length) seed = qs_hash(dataset->length, (size_t)dataset->count * sizeof *dataset->length, seed);
    return qs_hash(dataset->target, (size_t)(dataset->count * qs_target_values(&dataset->description.samples.target)) * sizeof(int32_t),
                   seed);
}
