// SPDX-License-Identifier: Apache-2.0
/* Image files: JPEG (libjpeg) and PNG (libpng) to rows of red, green and blue, and scaling. Both libraries leave a failure by longjmp,
 * so what must survive one lies in a struct outside the function that called setjmp. */
#include <setjmp.h>
#include <stdio.h> /* before jpeglib.h, which needs FILE */

#include <jerror.h>
#include <jpeglib.h>
#include <png.h>

#include "source.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { colours = 3, png_signature_bytes = 8 };
static const int64_t most_pixels = INT64_C(1) << 27;

static qs_status refuse(const qs__image_file *file, const char *rule) {
    return qs_fail(QS_BAD_FILE, "%s: %s", file->path, rule);
}

static qs_status check_size(const qs__image_file *file, int64_t height, int64_t width) {
    if (height >= 1 && width >= 1 && height <= most_pixels / width) return QS_OK;
    return qs_fail(QS_BAD_FILE, "%s: %lld x %lld pixels, must be 1 to %lld in all", file->path, (long long)width, (long long)height,
                   (long long)most_pixels);
}

/* ---- JPEG ------------------------------------------------------------------------------------------------------------------- */

typedef struct jpeg_reader {
    struct jpeg_error_mgr errors; /* first: the library hands back a pointer to it */
    jmp_buf back;
    char message[JMSG_LENGTH_MAX];
    struct jpeg_decompress_struct library;
    unsigned char *row; /* one line of four colours, heap */
} jpeg_reader;

static void jpeg_leave(j_common_ptr library) {
    jpeg_reader *reader = (jpeg_reader *)library->err;
    library->err->format_message(library, reader->message);
    longjmp(reader->back, 1);
}

/* The library warns about a file that ends early and fills in grey; here that is a failure. */
static void jpeg_warn(j_common_ptr library, int level) {
    if (level < 0 && (library->err->msg_code == JWRN_JPEG_EOF || library->err->msg_code == JWRN_HIT_MARKER)) jpeg_leave(library);
}

static void jpeg_start(jpeg_reader *reader, const qs__image_file *file) {
    jpeg_create_decompress(&reader->library);
    jpeg_mem_src(&reader->library, file->bytes, (unsigned long)file->count);
    jpeg_read_header(&reader->library, TRUE);
}

/* Ink to light. Files by Adobe's programs, which is nearly all there are, hold light already. */
static void cmyk_to_rgb(const unsigned char *ink, int64_t width, bool inverted, uint8_t *out) {
    for (int64_t x = 0; x < width; x++, ink += 4, out += colours) {
        const int black = inverted ? ink[3] : 255 - ink[3];
        for (int colour = 0; colour < colours; colour++)
            out[colour] = (uint8_t)((inverted ? ink[colour] : 255 - ink[colour]) * black / 255);
    }
}

static qs_status jpeg_read(jpeg_reader *reader, const qs__image_file *file, int shrink, qs__image *out) {
    struct jpeg_decompress_struct *library = &reader->library;
    library->err = jpeg_std_error(&reader->errors);
    reader->errors.error_exit = jpeg_leave;
    reader->errors.emit_message = jpeg_warn;
    if (setjmp(reader->back)) return refuse(file, reader->message);
    jpeg_start(reader, file);
    out->height = library->image_height;
    out->width = library->image_width;
    QS_TRY(check_size(file, out->height, out->width));
    if (shrink == 0) return QS_OK; /* only the size was asked for */
    const bool ink = library->num_components == 4;
    library->out_color_space = ink ? JCS_CMYK : JCS_RGB;
    library->dct_method = JDCT_ISLOW; /* the same bits with every instruction set */
    library->scale_num = 1;
    library->scale_denom = (unsigned)shrink;
    jpeg_start_decompress(library);
    out->height = library->output_height;
    out->width = library->output_width;
    QS_TRY(qs_allocate((size_t)out->height * (size_t)out->width, colours, &out->pixels));
    if (ink) QS_TRY(qs_allocate((size_t)out->width, 4, &reader->row));
    while (library->output_scanline < library->output_height) {
        uint8_t *to = out->pixels + (int64_t)library->output_scanline * out->width * colours;
        JSAMPROW line = ink ? reader->row : to;
        jpeg_read_scanlines(library, &line, 1);
        if (ink) cmyk_to_rgb(line, out->width, library->saw_Adobe_marker, to);
    }
    return QS_OK;
}

/* ---- PNG -------------------------------------------------------------------------------------------------------------------- */

typedef struct png_reader {
    const qs__image_file *file;
    size_t at; /* bytes read */
    char message[128];
    jmp_buf back;
    png_structp library;
    png_infop facts;
    png_bytep *row; /* (height), heap */
} png_reader;

static void png_leave(png_structp library, png_const_charp text) {
    png_reader *reader = png_get_error_ptr(library);
    snprintf(reader->message, sizeof reader->message, "%s", text);
    longjmp(reader->back, 1);
}

static void png_ignore(png_structp library, png_const_charp text) {
    (void)library;
    (void)text;
}

static void png_take(png_structp library, png_bytep to, size_t bytes) {
    png_reader *reader = png_get_io_ptr(library);
    if (bytes > reader->file->count - reader->at) png_error(library, "the file ends early");
    memcpy(to, reader->file->bytes + reader->at, bytes);
    reader->at += bytes;
}

static qs_status png_read(png_reader *reader, const qs__image_file *file, bool whole, qs__image *out) {
    reader->file = file;
    reader->library = png_create_read_struct(PNG_LIBPNG_VER_STRING, reader, png_leave, png_ignore);
    if (reader->library) reader->facts = png_create_info_struct(reader->library);
    if (!reader->facts) return qs_fail(QS_FAILED, "%s: libpng has no memory", file->path);
    if (setjmp(reader->back)) return refuse(file, reader->message);
    png_set_read_fn(reader->library, reader, png_take);
    png_read_info(reader->library, reader->facts);
    out->height = png_get_image_height(reader->library, reader->facts);
    out->width = png_get_image_width(reader->library, reader->facts);
    QS_TRY(check_size(file, out->height, out->width));
    if (!whole) return QS_OK;
    png_set_expand(reader->library); /* palettes and fewer than 8 bits */
    png_set_strip_16(reader->library);
    png_set_strip_alpha(reader->library);
    png_set_gray_to_rgb(reader->library);
    png_set_interlace_handling(reader->library);
    png_read_update_info(reader->library, reader->facts);
    const size_t row_bytes = (size_t)out->width * colours;
    if (png_get_rowbytes(reader->library, reader->facts) != row_bytes) return refuse(file, "its pixels are not red, green and blue");
    QS_TRY(qs_allocate((size_t)out->height, row_bytes, &out->pixels));
    QS_TRY(qs_allocate((size_t)out->height, sizeof *reader->row, &reader->row));
    for (int64_t y = 0; y < out->height; y++)
        reader->row[y] = out->pixels + (size_t)y * row_bytes;
    png_read_image(reader->library, reader->row);
    png_read_end(reader->library, NULL);
    return QS_OK;
}

/* ---- Either ------------------------------------------------------------------------------------------------------------------ */

qs_status qs__image_decode(const qs__image_file *file, int shrink, qs__image *out) {
    static const unsigned char jpeg_signature[] = {0xff, 0xd8, 0xff};
    *out = (qs__image){0};
    qs_status status;
    if (file->count >= sizeof jpeg_signature && memcmp(file->bytes, jpeg_signature, sizeof jpeg_signature) == 0) {
        jpeg_reader reader = {.row = NULL};
        status = jpeg_read(&reader, file, shrink, out);
        jpeg_destroy_decompress(&reader.library);
        free(reader.row);
    } else if (file->count >= png_signature_bytes && png_sig_cmp(file->bytes, 0, png_signature_bytes) == 0) {
        png_reader reader = {.row = NULL};
        status = png_read(&reader, file, shrink > 0, out);
        png_destroy_read_struct(&reader.library, &reader.facts, NULL);
        free(reader.row);
    } else {
        status = refuse(file, "neither a JPEG nor a PNG file by its first bytes");
    }
    if (status == QS_OK) return QS_OK;
    free(out->pixels);
    *out = (qs__image){0};
    return status;
}

qs_status qs__image_size(const qs__image_file *file, int64_t *height, int64_t *width) {
    qs__image image;
    QS_TRY(qs__image_decode(file, 0, &image));
    *height = image.height;
    *width = image.width;
    return QS_OK;
}

/* ---- Scaling ----------------------------------------------------------------------------------------------------------------- */

/* Old pixels that a new one is a mean of, along one axis. */
typedef struct filter {
    int64_t first, count;
} filter;

/* New pixel i has its centre at begin + (i + 1/2) step, where step = length / size, and reaches `reach` to either side; weights of each new
 * pixel sum to one. `weight` is (size, most). */
static void triangle(double begin, double length, int64_t extent, int64_t size, int64_t most, filter *filters, float *weight) {
    const double step = length / (double)size, reach = fmax(step, 1);
    for (int64_t i = 0; i < size; i++, weight += most) {
        const double centre = begin + ((double)i + 0.5) * step;
        int64_t first = (int64_t)fmax(floor(centre - reach + 0.5), 0), end = (int64_t)fmin(floor(centre + reach + 0.5), (double)extent);
        if (first > extent - 1) first = extent - 1;
        if (end <= first) end = first + 1;
        double sum = 0;
        for (int64_t j = first; j < end; j++)
            sum += weight[j - first] = (float)fmax(1 - fabs((double)j + 0.5 - centre) / reach, 0);
        for (int64_t j = first; j < end; j++)
            weight[j - first] = sum > 0 ? (float)(weight[j - first] / sum) : 1.0f / (float)(end - first);
        filters[i] = (filter){first, end - first};
    }
}

qs_status qs__image_scale(const qs__image *image, const qs__rectangle *part, int64_t size, uint8_t *out) {
    const int64_t most_down = (int64_t)(2 * fmax(part->height / (double)size, 1)) + 2, row = size * colours;
    const int64_t most_right = (int64_t)(2 * fmax(part->width / (double)size, 1)) + 2;
    filter *filters = NULL; /* down, then right */
    float *weight = NULL, *rows = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)(2 * size), sizeof *filters, &filters));
    QS_GOTO(qs_allocate((size_t)(size * (most_down + most_right)), sizeof *weight, &weight));
    filter *right = filters + size;
    float *weight_right = weight + size * most_down;
    triangle(part->top, part->height, image->height, size, most_down, filters, weight);
    triangle(part->left, part->width, image->width, size, most_right, right, weight_right);
    const int64_t first = filters[0].first, end = filters[size - 1].first + filters[size - 1].count;
    QS_GOTO(qs_allocate((size_t)(end - first), (size_t)row * sizeof *rows, &rows));
    for (int64_t y = first; y < end; y++) {
        const uint8_t *from = image->pixels + y * image->width * colours;
        float *to = rows + (y - first) * row;
        for (int64_t x = 0; x < size; x++, to += colours) {
            const uint8_t *pixel = from + right[x].first * colours;
            const float *w = weight_right + x * most_right;
            float sum[colours] = {0};
            for (int64_t j = 0; j < right[x].count; j++, pixel += colours)
                for (int colour = 0; colour < colours; colour++)
                    sum[colour] += w[j] * (float)pixel[colour];
            memcpy(to, sum, sizeof sum);
        }
    }
    for (int64_t y = 0; y < size; y++, out += row) {
        const float *from = rows + (filters[y].first - first) * row, *w = weight + y * most_down;
        for (int64_t x = 0; x < row; x++) {
            float sum = 0;
            for (int64_t j = 0; j < filters[y].count; j++)
                sum += w[j] * from[j * row + x];
            out[x] = (uint8_t)(fminf(fmaxf(sum, 0), 255) + 0.5f);
        }
    }
done:
    free(filters);
    free(weight);
    free(rows);
    return status;
}
