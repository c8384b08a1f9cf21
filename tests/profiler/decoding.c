// SPDX-License-Identifier: Apache-2.0
// labels: short
// links: replayer data
/* Folders of images: a profile decodes the job's own set while it times steps, as training does, and what that takes is in the predicted
 * iteration. */
#include "profiler_support.h"

#include "kit/folder.h"
#include "qsync/replayer.h"

#include <png.h>

enum { HEIGHT = 40, WIDTH = 56, IMAGES = 12, BATCH = 8 };

/* folder/part/class/number.png, of noise. */
static void image_write(const char *folder, const char *part, const char *class_name, int number) {
    static uint8_t pixels[HEIGHT * WIDTH * 3];
    png_image image = {.version = PNG_IMAGE_VERSION, .width = WIDTH, .height = HEIGHT, .format = PNG_FORMAT_RGB};
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, part);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/%s", folder, part, class_name);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/%s/%d.png", folder, part, class_name, number);
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)qs_random_bits((uint64_t)number, i);
    assert_true(png_image_write_to_file(&image, path, 0, pixels, 0, NULL));
}

static double iteration_of(const bench *b) {
    const qs_recipe **plain = calloc((size_t)b->graph->nodes, sizeof *plain);
    qs_recipe fp32;
    assert_ok(qs_recipe_builtin("fp32", &fp32));
    for (int n = b->graph->samples.inputs; n < b->graph->nodes; n++)
        if (b->graph->node[n].op->kind == QS_ADJUSTABLE) plain[n] = &fp32;
    qs_prediction prediction;
    assert_ok(qs_predict(b->graph, &b->cluster, &b->profile, &b->job, (const qs_recipe *const *const[]){plain}, NULL, &prediction));
    const double iteration_us = prediction.iteration_us;
    assert_true(prediction.class_[0].phases.data_us >= b->profile.class_[0].data_us_per_sample * BATCH);
    qs_prediction_release(&prediction);
    free(plain);
    return iteration_us;
}

TEST(decoding_is_measured_and_priced) {
    bench b;
    char folder[FOLDER_PATH], path[256];
    folder_make(folder);
    for (int i = 0; i < IMAGES; i++) {
        image_write(folder, "train", i % 2 ? "odd" : "even", i);
        image_write(folder, "val", i % 2 ? "odd" : "even", IMAGES + i);
    }
    bench_open(&b, NULL, fast_backend(), "lenet5", BATCH);
    assert_true(snprintf(b.job.dataset, sizeof b.job.dataset, "folder:%s,size=32", folder) < (int)sizeof b.job.dataset);
    b.options.statistics_iterations = 0;
    qs_graph_release(b.graph);
    assert_ok(job_model(&b.job, &b.graph));
    assert_ok(qs_profile_measure(&b.options, b.device, b.comm, &b.profile));

    /* 1000 µs more a sample are that much more an iteration, and some more: what a step varies by grows with it (docs/method.md §4.6). */
    qs_class_profile *one = &b.profile.class_[0];
    assert_true(one->data_us_per_sample > 0);
    const double before = iteration_of(&b);
    one->data_us_per_sample += 1000;
    const double more = iteration_of(&b) - before;
    assert_true(more >= 1000.0 * BATCH && more < 1.01 * 1000.0 * BATCH);
    qs_profile_release(&b.profile);

    /* Every training image is decoded while steps are timed: a broken one shows. */
    snprintf(path, sizeof path, "%s/train/odd/%d.png", folder, 7);
    assert_ok(qs_file_write(path, "no image", 8));
    assert_refused(qs_profile_measure(&b.options, b.device, b.comm, &b.profile), QS_BAD_FILE, "train/odd/7.png");
    bench_close(&b);
    folder_remove(folder);
}

TEST_MAIN(decoding_is_measured_and_priced)
