// SPDX-License-Identifier: Apache-2.0
/* What the pictures of accum have in common: the frame of a self-contained SVG file, written whole or not at all. */
#include <stdio.h>
#include <stdlib.h>

#include "accum.h"

static qs_status picture_draw(FILE *file, int width, int height, qs_status (*draw)(FILE *file, const void *context), const void *context) {
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" font-size=\"12\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            width, height);
    QS_TRY(draw(file, context));
    fprintf(file, "</svg>\n");
    return QS_OK;
}

qs_status accum_picture_write(const char *path, int width, int height, qs_status (*draw)(FILE *file, const void *context),
                              const void *context) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    if (!file) return qs_fail(QS_OUT_OF_MEMORY, "the picture %s", path);
    qs_status status = picture_draw(file, width, height, draw, context);
    if (fclose(file) != 0 && status == QS_OK) status = qs_fail(QS_OUT_OF_MEMORY, "the picture %s", path);
    if (status == QS_OK) status = qs_file_write(path, text, bytes);
    free(text);
    return status;
}
