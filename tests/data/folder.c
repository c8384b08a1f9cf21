// SPDX-License-Identifier: Apache-2.0
// labels: short
// links: data
/* "folder:PATH": what is listed and in which order, decoding of JPEG and PNG of every sort, scaling against a direct sum in double,
 * cuts, and files that are broken. */
#include <stdio.h>

#include <jpeglib.h>
#include <png.h>

#include "files.h"

#include <math.h>

enum { size = 16, values = size * size * 3 };

/* ---- Writing images ---------------------------------------------------------------------------------------------------------- */

static void path_of(const char *name, char path[512]) {
    snprintf(path, 512, "%s/%s", test_folder, name);
}

/* `pixels`: (height, width, channels); 3 channels, 1 (grey) or 4 (ink, as the file holds it). */
static void jpeg_write(const char *name, int height, int width, int channels, const uint8_t *pixels, int quality) {
    struct jpeg_compress_struct writer;
    struct jpeg_error_mgr errors;
    char path[512];
    path_of(name, path);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    writer.err = jpeg_std_error(&errors);
    jpeg_create_compress(&writer);
    jpeg_stdio_dest(&writer, file);
    writer.image_height = (JDIMENSION)height;
    writer.image_width = (JDIMENSION)width;
    writer.input_components = channels;
    writer.in_color_space = channels == 3 ? JCS_RGB : channels == 1 ? JCS_GRAYSCALE : JCS_CMYK;
    jpeg_set_defaults(&writer);
    if (channels == 4) {
        jpeg_set_colorspace(&writer, JCS_CMYK);
        writer.write_Adobe_marker = TRUE;
    }
    jpeg_set_quality(&writer, quality, TRUE);
    writer.comp_info[0].h_samp_factor = writer.comp_info[0].v_samp_factor = 1;
    jpeg_start_compress(&writer, TRUE);
    while (writer.next_scanline < writer.image_height) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(pixels + (size_t)writer.next_scanline * (size_t)(width * channels));
        jpeg_write_scanlines(&writer, &row, 1);
    }
    jpeg_finish_compress(&writer);
    jpeg_destroy_compress(&writer);
    assert_int_equal(fclose(file), 0);
}

/* `type`: PNG_COLOR_TYPE_...; rows as the file holds them. */
static void png_write(const char *name, int height, int width, int depth, int type, int interlace, const uint8_t *rows, size_t row_bytes) {
    char path[512];
    path_of(name, path);
    FILE *file = fopen(path, "wb");
    png_structp writer = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop facts = png_create_info_struct(writer);
    assert_non_null(file);
    assert_int_equal(setjmp(png_jmpbuf(writer)), 0);
    png_init_io(writer, file);
    png_set_IHDR(writer, facts, (png_uint_32)width, (png_uint_32)height, depth, type, interlace, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    if (type == PNG_COLOR_TYPE_PALETTE) {
        const png_color palette[] = {{10, 20, 30}, {200, 100, 50}};
        png_set_PLTE(writer, facts, palette, 2);
    }
    png_write_info(writer, facts);
    const int passes = png_set_interlace_handling(writer);
    for (int pass = 0; pass < passes; pass++)
        for (int y = 0; y < height; y++)
            png_write_row(writer, rows + (size_t)y * row_bytes);
    png_write_end(writer, NULL);
    png_destroy_write_struct(&writer, &facts);
    assert_int_equal(fclose(file), 0);
}

static void png_write_plain(const char *name, int height, int width, const uint8_t *pixels) {
    png_write(name, height, width, 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE, pixels, (size_t)width * 3);
}

/* A smooth picture, so that compression loses little. */
static uint8_t shade(int y, int x, int colour) {
    return (uint8_t)(128 + 60 * sin(0.11 * y + colour) + 50 * cos(0.07 * x - 2 * colour));
}

static uint8_t *picture(int height, int width) {
    uint8_t *pixels = malloc((size_t)(height * width * 3));
    assert_non_null(pixels);
    for (int i = 0; i < height * width * 3; i++)
        pixels[i] = shade(i / 3 / width, i / 3 % width, i % 3);
    return pixels;
}

/* ---- A set of two classes ---------------------------------------------------------------------------------------------------- */

static void tree_make(void) {
    static const char *const folders[] = {"set", "set/train", "set/train/b", "set/train/a", "set/val", "set/val/a", "set/val/b"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        subfolder_make(folders[i]);
}

static int setup(void **state) {
    if (folder_setup(state)) return -1;
    tree_make();
    uint8_t *pixels = picture(40, 60);
    png_write_plain("set/train/a/2.png", 40, 60, pixels);
    png_write_plain("set/train/a/1.PNG", 40, 60, pixels);
    jpeg_write("set/train/a/3.jpeg", 40, 60, 3, pixels, 100);
    jpeg_write("set/train/b/x.jpg", 40, 60, 3, pixels, 100);
    png_write_plain("set/val/a/v.png", 40, 60, pixels);
    png_write_plain("set/val/b/w.png", 40, 60, pixels);
    file_write("set/train/a/notes.txt", (bytes){(unsigned char *)pixels, 5});
    free(pixels);
    return qs_threads_set(1);
}

static void open_part(qs_part part, int64_t limit, qs_dataset *set) {
    char name[400];
    snprintf(name, sizeof name, "folder:%s/set,size=%d", test_folder, size);
    if (qs_dataset_load(name, NULL, part, limit, set) != QS_OK) fail_msg("%s", qs_message());
}

static qs_status fill(const qs_dataset *set, const qs_augmentation *augmentation, const int64_t *indices, int64_t count, float *out,
                      int32_t *label) {
    const qs_batch batch = {.input = {out}, .extent = {{size, size}}, .target = label};
    return qs_batch_fill(set, augmentation, indices, count, &batch);
}

/* A pixel of a batch in steps of a byte. */
static double byte_of(const qs_dataset *set, const float *image, int y, int x, int colour) {
    const double value = image[(y * size + x) * 3 + colour];
    return 255 * (value * set->description.deviation[colour] + set->description.mean[colour]);
}

TEST(lists_by_class) {
    qs_dataset set;
    open_part(QS_PART_TRAINING, 0, &set);
    const int32_t *class = set.target;
    assert_int_equal(set.count, 4);
    assert_true(class[0] == 0 && class[1] == 1 && class[2] == 0 && class[3] == 0);
    assert_int_equal(set.description.samples.target.classes, 2);
    assert_int_equal(set.description.samples.input[0].extent[0], size);
    assert_string_equal(set.description.samples.unit, "images");
    qs_dataset_release(&set);
    open_part(QS_PART_TRAINING, 2, &set);
    assert_int_equal(set.count, 2);
    assert_int_equal(((const int32_t *)set.target)[1], 1);
    qs_dataset_release(&set);
    open_part(QS_PART_TEST, 0, &set);
    assert_int_equal(set.count, 2);
    qs_dataset_release(&set);
}

/* PATH is looked for below the folder of sets too, and the size is 224 where nobody says. */
TEST(below_the_folder_of_sets) {
    qs_data_description is;
    assert_ok(qs_dataset_describe("folder:set", test_folder, &is));
    assert_int_equal(is.samples.input[0].extent[1], 224);
    assert_int_equal(is.samples.target.classes, 2);
    expect_bad_file("folder:nowhere", test_folder, QS_PART_TRAINING, "nowhere", "train/CLASS/");
    static const char *const wrong[] = {"folder:", "folder:set,size=", "folder:set,size=7", "folder:set,size=5000", "folder:set,size=16x"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect_failure(wrong[i], test_folder, QS_PART_TRAINING, QS_USAGE, (const char *const[]){"folder:PATH,size=N", NULL});
}

/* ---- Scaling ----------------------------------------------------------------------------------------------------------------- */

/* The middle 35×35 of 40×60 onto 16×16: every new pixel is a sum over all old ones of the product of two triangles, normalised. */
static double direct(int y, int x, int colour) {
    const double side = 35, step = side / size, top = 2.5 + (y + 0.5) * step, left = 12.5 + (x + 0.5) * step;
    double sum = 0, weights = 0;
    for (int row = 0; row < 40; row++)
        for (int column = 0; column < 60; column++) {
            const double w = fmax(1 - fabs(row + 0.5 - top) / step, 0) * fmax(1 - fabs(column + 0.5 - left) / step, 0);
            sum += w * shade(row, column, colour);
            weights += w;
        }
    return sum / weights;
}

TEST(scaling_is_a_triangle) {
    float out[values];
    int32_t label;
    const int64_t index = 0;
    qs_dataset set;
    open_part(QS_PART_TEST, 0, &set);
    assert_ok(fill(&set, NULL, &index, 1, out, &label));
    /* Half a step of rounding to a byte, and what fp32 sums of at most 8 × 8 values below 256 and the way back from normalisation add. */
    for (int i = 0; i < values; i++)
        assert_true(fabs(byte_of(&set, out, i / 3 / size, i / 3 % size, i % 3) - direct(i / 3 / size, i / 3 % size, i % 3)) <= 0.5 + 1e-3);
    qs_dataset_release(&set);
}

/* ---- Sorts of files ---------------------------------------------------------------------------------------------------------- */

/* The first image of class b, whatever lies there. */
static void first_of_b(float *out) {
    const int64_t index = 1;
    int32_t label;
    qs_dataset set;
    open_part(QS_PART_TRAINING, 0, &set);
    if (fill(&set, NULL, &index, 1, out, &label) != QS_OK) fail_msg("%s", qs_message());
    assert_int_equal(label, 1);
    for (int i = 0; i < values; i++)
        out[i] = (float)byte_of(&set, out, i / 3 / size, i / 3 % size, i % 3);
    qs_dataset_release(&set);
}

static void expect_uniform(const char *name, double red, double green, double blue, double tolerance) {
    float out[values];
    const double colour[] = {red, green, blue};
    first_of_b(out);
    for (int i = 0; i < values; i++)
        if (fabs(out[i] - colour[i % 3]) > tolerance) fail_msg("%s: %g instead of %g", name, (double)out[i], colour[i % 3]);
    file_remove(name);
}

/* One colour everywhere: what comes out is what the file says, whatever its sort. JPEG's own rounding: two steps at quality 100. */
TEST(sorts_of_files) {
    enum { height = 40, width = 48 };
    static uint8_t rows[height * width * 8];
    file_remove("set/train/b/x.jpg");
    memset(rows, 90, sizeof rows);
    jpeg_write("set/train/b/grey.jpg", height, width, 1, rows, 100);
    expect_uniform("set/train/b/grey.jpg", 90, 90, 90, 2.001);
    for (int i = 0; i < height * width; i++)
        memcpy(rows + 4 * i, (const uint8_t[]){200, 100, 50, 204}, 4); /* Adobe's: light; times 204/255 */
    jpeg_write("set/train/b/ink.jpg", height, width, 4, rows, 100);
    expect_uniform("set/train/b/ink.jpg", 160, 80, 40, 3.001);
    png_write("set/train/b/alpha.png", height, width, 8, PNG_COLOR_TYPE_RGB_ALPHA, PNG_INTERLACE_NONE, rows, width * 4);
    expect_uniform("set/train/b/alpha.png", 200, 100, 50, 0.001);
    png_write("set/train/b/alpha.png", height, width, 8, PNG_COLOR_TYPE_RGB_ALPHA, PNG_INTERLACE_ADAM7, rows, width * 4);
    expect_uniform("set/train/b/alpha.png", 200, 100, 50, 0.001);
    memset(rows, 0xff, sizeof rows);
    png_write("set/train/b/palette.png", height, width, 1, PNG_COLOR_TYPE_PALETTE, PNG_INTERLACE_NONE, rows, width / 8);
    expect_uniform("set/train/b/palette.png", 200, 100, 50, 0.001);
    for (int i = 0; i < height * width; i++)
        memcpy(rows + 2 * i, (const uint8_t[]){77, 255}, 2); /* 16 bits: the low byte is cut off */
    png_write("set/train/b/deep.png", height, width, 16, PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE, rows, width * 2);
    expect_uniform("set/train/b/deep.png", 77, 77, 77, 0.001);
    /* 8 times too large: decoded at an eighth. */
    static uint8_t large[512 * 512 * 3];
    memset(large, 150, sizeof large);
    jpeg_write("set/train/b/large.jpg", 512, 512, 3, large, 100);
    expect_uniform("set/train/b/large.jpg", 150, 150, 150, 2.001);
    uint8_t *pixels = picture(40, 60);
    jpeg_write("set/train/b/x.jpg", 40, 60, 3, pixels, 100);
    free(pixels);
}

/* Decoding at an eighth is a mean over blocks of 8 × 8: of waves of 0.11 and 0.07 a pixel it leaves the parts sin(4 w) / (4 w), 0.968
 * and 0.987. So waves of heights 60 and 50 lose at most 1.9 and 0.7, over the image a deviation of 1.4, and rounding adds half a step. A
 * shift by half a block would be 18. */
TEST(shrinking_keeps_the_picture) {
    float shrunk[values], whole[values];
    enum { height = 300, width = 280 };
    uint8_t *pixels = picture(height, width);
    file_remove("set/train/b/x.jpg");
    jpeg_write("set/train/b/x.jpg", height, width, 3, pixels, 100);
    first_of_b(shrunk);
    file_remove("set/train/b/x.jpg");
    png_write_plain("set/train/b/x.png", height, width, pixels);
    first_of_b(whole);
    file_remove("set/train/b/x.png");
    double squares = 0;
    for (int i = 0; i < values; i++)
        squares += pow(shrunk[i] - whole[i], 2);
    if (sqrt(squares / values) > 2) fail_msg("%g steps", sqrt(squares / values));
    uint8_t *again = picture(40, 60);
    jpeg_write("set/train/b/x.jpg", 40, 60, 3, again, 100);
    free(again);
    free(pixels);
}

/* ---- Cuts -------------------------------------------------------------------------------------------------------------------- */

/* Draws are keyed by seed, epoch and sample: the same alone, in any batch and with any thread count; others in another epoch. */
TEST(cuts_depend_on_the_sample_only) {
    const int64_t indices[] = {3, 1, 0, 2};
    float whole[4 * values], alone[values], other[4 * values];
    int32_t label[4];
    qs_dataset set;
    open_part(QS_PART_TRAINING, 0, &set);
    qs_augmentation augmentation = qs_augmentation_standard(&set, true, 5, 3);
    assert_ok(fill(&set, &augmentation, indices, 4, whole, label));
    assert_ok(qs_threads_set(3));
    assert_ok(fill(&set, &augmentation, indices, 4, other, label));
    assert_ok(qs_threads_set(1));
    assert_memory_equal(whole, other, sizeof whole);
    for (int i = 0; i < 4; i++) {
        assert_ok(fill(&set, &augmentation, &indices[i], 1, alone, label));
        assert_memory_equal(alone, whole + i * values, sizeof alone);
    }
    augmentation.epoch++;
    assert_ok(fill(&set, &augmentation, indices, 4, other, label));
    for (int i = 0; i < 4; i++)
        assert_memory_not_equal(whole + i * values, other + i * values, sizeof alone);
    qs_dataset_release(&set);
}

/* Of a picture that grows from left to right, half of 400 cuts come out falling: the mirrored ones. Five deviations of the binomial. */
TEST(half_are_mirrored) {
    enum { epochs = 400, width = 60, height = 40 };
    static uint8_t ramp[height * width * 3];
    for (int i = 0; i < height * width * 3; i++)
        ramp[i] = (uint8_t)(4 * (i / 3 % width));
    file_remove("set/train/b/x.jpg");
    png_write_plain("set/train/b/x.png", height, width, ramp);
    const int64_t index = 1;
    float out[values];
    int32_t label;
    int mirrored = 0;
    qs_dataset set;
    open_part(QS_PART_TRAINING, 0, &set);
    for (int epoch = 0; epoch < epochs; epoch++) {
        const qs_augmentation augmentation = qs_augmentation_standard(&set, true, 8, epoch);
        assert_ok(fill(&set, &augmentation, &index, 1, out, &label));
        mirrored += out[0] > out[3 * (size - 1)];
    }
    assert_true(fabs(mirrored - epochs / 2.0) < 5 * sqrt(epochs / 4.0));
    qs_dataset_release(&set);
    file_remove("set/train/b/x.png");
    uint8_t *pixels = picture(40, 60);
    jpeg_write("set/train/b/x.jpg", 40, 60, 3, pixels, 100);
    free(pixels);
}

/* ---- Broken trees and files --------------------------------------------------------------------------------------------------- */

static void copy_cut(const char *from, const char *to, size_t keep) {
    char path[512];
    path_of(from, path);
    FILE *file = fopen(path, "rb");
    static unsigned char content[1 << 16];
    assert_non_null(file);
    const size_t got = fread(content, 1, sizeof content, file);
    fclose(file);
    file_write(to, (bytes){content, keep < got ? keep : got});
}

static void expect_unreadable(const char *part) {
    float out[4 * values];
    int32_t label[4];
    const int64_t indices[] = {0, 1, 2, 3};
    qs_dataset set;
    open_part(QS_PART_TRAINING, 0, &set);
    for (int threads = 1; threads <= 3; threads += 2) {
        assert_ok(qs_threads_set(threads));
        assert_int_equal(fill(&set, NULL, indices, 4, out, label), QS_BAD_FILE);
        if (!strstr(qs_message(), part) || !strstr(qs_message(), "train/b/broken")) fail_msg("message lacks '%s': %s", part, qs_message());
    }
    assert_ok(qs_threads_set(1));
    qs_dataset_release(&set);
}

TEST(broken_files_are_named) {
    static const size_t cuts[] = {0, 1, 3, 20, 200, 700};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        copy_cut("set/train/a/3.jpeg", "set/train/b/broken.jpg", cuts[i]);
        expect_unreadable("");
    }
    file_remove("set/train/b/broken.jpg");
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        copy_cut("set/train/a/2.png", "set/train/b/broken.png", cuts[i]);
        expect_unreadable("");
    }
    file_write("set/train/b/broken.png", (bytes){(unsigned char[]){'G', 'I', 'F', '8', '9', 'a', 0, 0, 0, 0}, 10});
    expect_unreadable("neither a JPEG nor a PNG file");
    /* A header that promises 4 G pixels: nothing is allocated for it. */
    unsigned char bomb[] = {0x89, 'P', 'N', 'G', 13, 10, 26, 10, 0, 0, 0, 13, 'I', 'H', 'D', 'R', 0,
                            1,    0,   0,   0,   1,  0,  0,  8,  2, 0, 0, 0,  0,   0,   0,   0};
    const unsigned long sum = crc32(0, bomb + 12, 17);
    for (int i = 0; i < 4; i++)
        bomb[29 + i] = (unsigned char)(sum >> (24 - 8 * i));
    unsigned char whole[sizeof bomb + 12];
    memcpy(whole, bomb, sizeof bomb);
    const unsigned char data[] = {0, 0, 0, 0, 'I', 'D', 'A', 'T', 0x35, 0xaf, 0x06, 0x1e};
    memcpy(whole + sizeof bomb, data, sizeof data);
    file_write("set/train/b/broken.png", (bytes){whole, sizeof whole});
    expect_unreadable("65536 x 65536 pixels, must be 1 to 134217728");
    file_remove("set/train/b/broken.png");
}

TEST(broken_trees_are_refused) {
    char name[400];
    snprintf(name, sizeof name, "folder:%s/set", test_folder);
    subfolder_make("set/val/c");
    expect_bad_file(name, NULL, QS_PART_TEST, "val/c: a class that the training part does not have");
    file_remove("set/val/c");
    subfolder_make("set/train/c");
    expect_bad_file(name, NULL, QS_PART_TRAINING, "train/c: no .jpg, .jpeg or .png file");
    expect_bad_file(name, NULL, QS_PART_TEST, "val/c: ");
    file_remove("set/train/c");
    subfolder_make("empty");
    snprintf(name, sizeof name, "folder:%s/empty", test_folder);
    expect_bad_file(name, NULL, QS_PART_TRAINING, "empty: no folder train");
    subfolder_make("empty/train");
    expect_bad_file(name, NULL, QS_PART_TRAINING, "0 classes (sub-folders), must be at least 2");
}

TEST_MAIN_WITH(setup, folder_teardown, lists_by_class, below_the_folder_of_sets, scaling_is_a_triangle, sorts_of_files,
               shrinking_keeps_the_picture, cuts_depend_on_the_sample_only, half_are_mirrored, broken_files_are_named,
               broken_trees_are_refused)
