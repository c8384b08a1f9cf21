// SPDX-License-Identifier: Apache-2.0
/* "folder:PATH[,size=N]": a set of image files, a sub-folder a class. Loading lists names; images are decoded, cut and scaled when a batch
 * asks for them, because a set of this kind is larger than memory. */
#include "source.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum {
    usual_size = 224,
    most_size = 1 << 12,
    cut_stream = 0x63757473, /* tells these draws apart from all others under the same seed */
    cut_tries = 10,
    cut_draws = 4, /* a try: area, shape, down, right */
};
static const size_t most_file_bytes = (size_t)1 << 30;
static const char size_option[] = ",size=";

/* ---- Names ------------------------------------------------------------------------------------------------------------------ */

/* Names on the heap, in one block. */
typedef struct name_list {
    size_t count, room;
    char **name;
} name_list;

static void names_release(name_list *names) {
    for (size_t i = 0; i < names->count; i++)
        free(names->name[i]);
    free(names->name);
    *names = (name_list){0};
}

static int names_order(const void *left, const void *right) {
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static bool is_folder(const char *path) {
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
}

static bool is_image_name(const char *name) {
    static const char *const endings[] = {".jpg", ".jpeg", ".png"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++)
        if (strcasecmp(dot, endings[i]) == 0) return true;
    return false;
}

/* The entries of a folder that are folders, or image files, sorted by name; hidden ones left out. */
static qs_status names_list(const char *path, bool folders, name_list *out) {
    DIR *folder = opendir(path);
    if (!folder) return qs_fail(QS_BAD_FILE, "%s: %s", path, strerror(errno));
    qs_status status = QS_OK;
    for (struct dirent *entry; status == QS_OK && (entry = readdir(folder));) {
        char *whole = NULL;
        if (entry->d_name[0] == '.') continue;
        if (folders) {
            QS_GOTO(qs_path_join(path, entry->d_name, &whole));
            const bool kept = is_folder(whole);
            free(whole);
            if (!kept) continue;
        } else if (!is_image_name(entry->d_name)) {
            continue;
        }
        QS_GOTO(qs_grow(&out->name, &out->room, out->count + 1, sizeof *out->name));
        QS_GOTO(qs_format_text(&out->name[out->count], "%s", entry->d_name));
        out->count++;
    }
    if (out->count > 0) qsort(out->name, out->count, sizeof *out->name, names_order);
done:
    closedir(folder);
    return status;
}

/* *root: the set's folder, on the heap. */
static qs_status request_parse(const qs__request *request, char **root, int64_t *size) {
    const char *path = request->options ? request->options : "", *option = strstr(path, size_option);
    const int length = (int)(option ? option - path : (ptrdiff_t)strlen(path));
    char *end = NULL, *written = NULL;
    *size = option ? strtoll(option + sizeof size_option - 1, &end, 10) : usual_size;
    if (length == 0 || (option && (*end || end == option + sizeof size_option - 1)) || *size < 8 || *size > most_size)
        return qs_fail(QS_USAGE, "data set '%s': must be folder:PATH or folder:PATH,size=N with N from 8 to %d pixels", request->name,
                       most_size);
    QS_TRY(qs_format_text(&written, "%.*s", length, path));
    qs_status status = qs__path_below(written, request->folder, root);
    free(written);
    return status;
}

/* Path of a part's folder; the test part has one of several names. */
static qs_status part_find(const char *root, qs_part part, char **path) {
    static const char *const names[2][3] = {{"train"}, {"val", "test", "validation"}};
    for (size_t i = 0; i < 3 && names[part][i]; i++) {
        QS_TRY(qs_path_join(root, names[part][i], path));
        if (is_folder(*path)) return QS_OK;
        free(*path);
        *path = NULL;
    }
    return qs_fail(QS_BAD_FILE, "%s: no folder %s; a set of images has train/CLASS/ and val/CLASS/ with .jpg, .jpeg or .png files", root,
                   part == QS_PART_TRAINING ? "train" : "val (or test, validation)");
}

static qs_status classes_list(const char *root, name_list *out) {
    char *training = NULL;
    QS_TRY(part_find(root, QS_PART_TRAINING, &training));
    qs_status status = names_list(training, true, out);
    if (status == QS_OK && out->count < 2)
        status = qs_fail(QS_BAD_FILE, "%s: %zu classes (sub-folders), must be at least 2", training, out->count);
    free(training);
    return status;
}

static void description_fill(const char *name, int64_t size, size_t classes, qs_data_description *out) {
    /* Of ImageNet's training part: what networks that were trained on photographs expect. */
    *out = (qs_data_description){.samples = {.unit = "images",
                                             .inputs = 1,
                                             .input = {qs_input_image(size, size, 3)},
                                             .target = {.kind = QS_TARGET_CLASS, .classes = (int64_t)classes, .extent = 1}},
                                 .mean = {0.485f, 0.456f, 0.406f},
                                 .deviation = {0.229f, 0.224f, 0.225f},
                                 .flips = true};
    snprintf(out->name, sizeof out->name, "%s", name);
}

static qs_status folder_describe(const qs__source *source, const qs__request *request, qs_data_description *out) {
    (void)source;
    char *root = NULL;
    int64_t size = 0;
    name_list classes = {0};
    qs_status status = QS_OK;
    QS_GOTO(request_parse(request, &root, &size));
    QS_GOTO(classes_list(root, &classes));
    description_fill(request->name, size, classes.count, out);
done:
    names_release(&classes);
    free(root);
    return status;
}

/* ---- Loading ---------------------------------------------------------------------------------------------------------------- */

struct qs__image_files {
    char *root;  /* of the part */
    char **name; /* (count) "CLASS/FILE", heap */
    int64_t count, size;
};

void qs__folder_release(struct qs__image_files *files) {
    if (!files) return;
    for (int64_t i = 0; i < files->count; i++)
        free(files->name[i]);
    free(files->name);
    free(files->root);
    free(files);
}

/* The first image of each class, the second of each, ...: so that the first few hold all classes. */
static qs_status samples_deal(const name_list *classes, const name_list *images, int64_t limit, qs_dataset *out) {
    struct qs__image_files *files = out->files;
    int64_t whole = 0;
    size_t longest = 0;
    for (size_t class = 0; class < classes->count; class ++) {
        whole += (int64_t)images[class].count;
        if (images[class].count > longest) longest = images[class].count;
    }
    const int64_t count = whole < limit ? whole : limit;
    int32_t *target = NULL;
    QS_TRY(qs_allocate((size_t)count, sizeof *files->name, &files->name));
    QS_TRY(qs_allocate((size_t)count, sizeof *target, &target));
    out->target = target;
    for (size_t i = 0; i < longest; i++)
        for (size_t class = 0; class < classes->count && files->count < count; class ++) {
            if (i >= images[class].count) continue;
            QS_TRY(qs_path_join(classes->name[class], images[class].name[i], &files->name[files->count]));
            target[files->count++] = (int32_t) class;
        }
    out->count = count;
    return QS_OK;
}

/* The files of each class of the part; what the part has beyond the training part's classes is refused. */
static qs_status images_list(const char *root, const name_list *classes, name_list *images) {
    name_list there = {0};
    char *path = NULL;
    qs_status status = QS_OK;
    QS_GOTO(names_list(root, true, &there));
    for (size_t i = 0; i < there.count; i++)
        if (!bsearch(&there.name[i], classes->name, classes->count, sizeof *classes->name, names_order))
            QS_GOTO(qs_fail(QS_BAD_FILE, "%s/%s: a class that the training part does not have", root, there.name[i]));
    for (size_t class = 0; class < classes->count; class ++) {
        QS_GOTO(qs_path_join(root, classes->name[class], &path));
        QS_GOTO(names_list(path, false, &images[class]));
        if (images[class].count == 0) QS_GOTO(qs_fail(QS_BAD_FILE, "%s: no .jpg, .jpeg or .png file, must hold at least 1", path));
        free(path);
        path = NULL;
    }
done:
    free(path);
    names_release(&there);
    return status;
}

static qs_status folder_load(const qs__source *source, const qs__request *request, qs_part part, int64_t limit, qs_dataset *out) {
    (void)source;
    char *root = NULL;
    int64_t size = 0;
    name_list classes = {0}, *images = NULL;
    qs_status status = QS_OK;
    QS_GOTO(request_parse(request, &root, &size));
    QS_GOTO(classes_list(root, &classes));
    QS_GOTO(qs_allocate(classes.count, sizeof *images, &images));
    QS_GOTO(qs_allocate(1, sizeof *out->files, &out->files));
    out->files->size = size;
    QS_GOTO(part_find(root, part, &out->files->root));
    QS_GOTO(images_list(out->files->root, &classes, images));
    QS_GOTO(samples_deal(&classes, images, limit, out));
    description_fill(request->name, size, classes.count, &out->description);
done:
    for (size_t class = 0; images && class < classes.count; class ++)
        names_release(&images[class]);
    free(images);
    names_release(&classes);
    free(root);
    return status;
}

/* ---- Reading one image ------------------------------------------------------------------------------------------------------ */

/* A square in the middle: what is left of the short side when it is scaled to 8/7 of the size and cut to the size. */
static qs__rectangle middle(int64_t height, int64_t width) {
    const double side = (double)(height < width ? height : width) * 7 / 8;
    return (qs__rectangle){((double)height - side) / 2, ((double)width - side) / 2, side, side};
}

/* 8 to 100 % of the area, shapes from 3:4 to 4:3 equally likely on a logarithmic scale, anywhere; the middle where ten tries did not
 * fit. */
static qs__rectangle random_part(int64_t height, int64_t width, uint64_t key, uint64_t counter) {
    for (int i = 0; i < cut_tries; i++, counter += cut_draws) {
        const double area = (double)(height * width) * (0.08 + 0.92 * (double)qs_random_uniform(key, counter));
        const double shape = exp(log(4.0 / 3) * (2 * (double)qs_random_uniform(key, counter + 1) - 1));
        const double wide = round(sqrt(area * shape)), high = round(sqrt(area / shape));
        if (wide < 1 || high < 1 || wide > (double)width || high > (double)height) continue;
        return (qs__rectangle){floor(((double)height - high + 1) * (double)qs_random_uniform(key, counter + 2)),
                               floor(((double)width - wide + 1) * (double)qs_random_uniform(key, counter + 3)), high, wide};
    }
    return middle(height, width);
}

static void mirror(uint8_t *pixels, int64_t size) {
    for (int64_t y = 0; y < size; y++, pixels += 3 * size)
        for (int64_t left = 0, right = size - 1; left < right; left++, right--)
            for (int colour = 0; colour < 3; colour++) {
                const uint8_t kept = pixels[3 * left + colour];
                pixels[3 * left + colour] = pixels[3 * right + colour];
                pixels[3 * right + colour] = kept;
            }
}

/* The largest shrinkage that leaves the part at least as large as what is made of it. */
static int shrink_of(const qs__rectangle *part, int64_t size) {
    const double shorter = fmin(part->height, part->width);
    int shrink = 1;
    while (shrink < 8 && shorter >= (double)(2 * shrink * size))
        shrink *= 2;
    return shrink;
}

qs_status qs__folder_read(const qs_dataset *dataset, int64_t index, const qs_augmentation *augmentation, uint8_t *pixels) {
    const struct qs__image_files *files = dataset->files;
    char *path = NULL, *bytes = NULL;
    qs__image image = {0};
    int64_t height = 0, width = 0;
    uint64_t key = 0;
    qs_status status = QS_OK;
    QS_GOTO(qs_path_join(files->root, files->name[index], &path));
    qs__image_file file = {.path = path};
    QS_GOTO(qs_file_read(path, most_file_bytes, &bytes, &file.count));
    file.bytes = (const unsigned char *)bytes;
    QS_GOTO(qs__image_size(&file, &height, &width));
    qs__rectangle part = middle(height, width);
    if (augmentation) {
        key = qs_random_key(augmentation->seed, (uint64_t)augmentation->epoch, (uint64_t)index, cut_stream);
        part = random_part(height, width, key, 1);
    }
    const int shrink = shrink_of(&part, files->size);
    QS_GOTO(qs__image_decode(&file, shrink, &image));
    const double scale = image.height < height ? 1.0 / shrink : 1; /* PNG files come in full */
    part = (qs__rectangle){part.top * scale, part.left * scale, part.height * scale, part.width * scale};
    QS_GOTO(qs__image_scale(&image, &part, files->size, pixels));
    if (augmentation && dataset->description.flips && qs_random_bits(key, 0) >> 31) mirror(pixels, files->size);
done:
    free(image.pixels);
    free(bytes);
    free(path);
    return status;
}

const qs__source qs__source_folder = {
    .name = "folder",
    .form = "folder:PATH[,size=N]",
    .alone = true,
    .takes_options = true,
    .describe = folder_describe,
    .load = folder_load,
};
