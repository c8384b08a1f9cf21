// SPDX-License-Identifier: Apache-2.0
/* Drawing of pictures: ranges and ticks of axes, then panel by panel. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plot.h"

/* Sizes in pixels; a letter is about CHARACTER wide at the font's size. */
enum { FONT = 12, LINE = 16, MARGIN = 10, SIDE = 64, MOST_TICKS = 64, TITLE = 26, MOST_END_LABELS = 128 };
static const double character = 7;

static const char *const colors[] = {"#1b9e77", "#d95f02", "#7570b3", "#e7298a", "#66a61e", "#e6ab02", "#a6761d", "#1f78b4", "#666666"};
enum { COLORS = sizeof colors / sizeof *colors };

/* A panel under the pen: its frame in pixels and the ranges of its axes, as logarithms where an axis is logarithmic. */
typedef struct canvas {
    FILE *file;
    const plot_panel *panel;
    double left, right, top, bottom;
    double x_low, x_high, y_low, y_high;
    int number; /* of the panel: names its clip */
} canvas;

static double axis_value(const plot_axis *axis, double value) {
    return axis->logarithmic ? log10(fmax(value, 1e-300)) : value;
}

static double x_of(const canvas *one, double value) {
    return one->left + (axis_value(&one->panel->x, value) - one->x_low) / (one->x_high - one->x_low) * (one->right - one->left);
}

static double y_of(const canvas *one, double value) {
    return one->bottom - (axis_value(&one->panel->y, value) - one->y_low) / (one->y_high - one->y_low) * (one->bottom - one->top);
}

static const char *color_of(const plot_series *series, int index) {
    return series->color ? series->color : colors[index % COLORS];
}

/* ---- Building ---- */

qs_status plot_series_add(plot_panel *panel, plot_series head, plot_series **out) {
    QS_TRY(qs_grow(&panel->one, &panel->capacity[0], (size_t)panel->series + 1, sizeof *panel->one));
    *out = &panel->one[panel->series++];
    **out = head;
    return QS_OK;
}

qs_status plot_point_add(plot_series *series, plot_point point) {
    QS_TRY(qs_grow(&series->point, &series->capacity, (size_t)series->points + 1, sizeof *series->point));
    series->point[series->points++] = point;
    return QS_OK;
}

qs_status plot_mark_add(plot_panel *panel, plot_mark mark) {
    QS_TRY(qs_grow(&panel->mark, &panel->capacity[1], (size_t)panel->marks + 1, sizeof *panel->mark));
    panel->mark[panel->marks++] = mark;
    return QS_OK;
}

void plot_panel_release(plot_panel *panel) {
    for (int s = 0; s < panel->series; s++)
        free(panel->one[s].point);
    free(panel->one);
    free(panel->mark);
    free(panel->x.tick);
    free(panel->y.tick);
    *panel = (plot_panel){0};
}

/* ---- Texts ---- */

static void letters_write(FILE *file, const char *text) {
    for (; *text; text++) {
        if (*text == '&')
            fputs("&amp;", file);
        else if (*text == '<')
            fputs("&lt;", file);
        else
            fputc(*text, file);
    }
}

static int letters_count(const char *text) {
    int count = 0;
    for (; *text; text++)
        count += (*text & 0xc0) != 0x80;
    return count;
}

typedef struct text_style {
    const char *anchor, *color; /* NULL: "start", black */
    int size;                   /* 0: FONT */
    bool upright;
} text_style;

/* Lines of a text stand below each other. */
static void text_write(FILE *file, double x, double y, const char *text, text_style how) {
    char line[256];
    for (int row = 0; text; row++) {
        const char *end = strchr(text, '\n');
        snprintf(line, sizeof line, "%.*s", end ? (int)(end - text) : (int)strlen(text), text);
        fprintf(file, "<text x=\"%.1f\" y=\"%.1f\"", x, y + row * LINE);
        if (how.anchor) fprintf(file, " text-anchor=\"%s\"", how.anchor);
        if (how.color) fprintf(file, " fill=\"%s\"", how.color);
        if (how.size) fprintf(file, " font-size=\"%d\"", how.size);
        if (how.upright) fprintf(file, " transform=\"rotate(-90 %.1f %.1f)\"", x, y + row * LINE);
        fputc('>', file);
        letters_write(file, line);
        fputs("</text>\n", file);
        text = end ? end + 1 : NULL;
    }
}

/* ---- Ranges ---- */

typedef struct range {
    double low, high;
} range;

static void range_extend(range *all, const plot_axis *axis, double value) {
    if (!isfinite(value) || (axis->logarithmic && value <= 0)) return;
    value = axis_value(axis, value);
    all->low = fmin(all->low, value);
    all->high = fmax(all->high, value);
}

/* What is asked for, else the data's with some room; bars stand on 0. */
static range range_of(const plot_panel *panel, bool vertical) {
    const plot_axis *axis = vertical ? &panel->y : &panel->x;
    range all = {INFINITY, -INFINITY};
    bool bars = false;
    for (int s = 0; s < panel->series; s++) {
        const plot_series *series = &panel->one[s];
        bars = bars || series->draw & PLOT_BARS;
        for (int i = 0; i < series->points; i++) {
            const plot_point *point = &series->point[i];
            range_extend(&all, axis, vertical ? point->y : point->x);
            if (series->draw & PLOT_BOXES) range_extend(&all, axis, vertical ? point->to_y : point->to_x);
            if (vertical) range_extend(&all, axis, point->low);
            if (vertical) range_extend(&all, axis, point->high);
        }
    }
    for (int i = 0; i < panel->marks; i++) {
        if (panel->mark[i].vertical == vertical) continue;
        range_extend(&all, axis, panel->mark[i].at);
        range_extend(&all, axis, panel->mark[i].to);
    }
    if (bars && vertical) range_extend(&all, axis, 0);
    if (!(all.low <= all.high)) all = (range){0, 1};
    const double room = all.high > all.low ? 0.04 * (all.high - all.low) : fmax(fabs(all.high), 1) * 0.05;
    if (!(bars && vertical && all.low == 0)) all.low -= room;
    all.high += room;
    if (bars && !vertical) all = (range){all.low - 0.6, all.high + 0.6};
    if (!isnan(axis->low)) all.low = axis_value(axis, axis->low);
    if (!isnan(axis->high)) all.high = axis_value(axis, axis->high);
    return all;
}

/* Powers of ten, or 1, 2 and 5 of each where the range is short. */
static int powers_choose(double low, double high, int wanted, double *at) {
    static const double parts[] = {1, 2, 5};
    const int few = high - low < 2 ? 3 : 1, step = (int)fmax(1, ceil((high - low) / (wanted + 1)));
    int count = 0;
    for (int power = (int)floor(low / step) * step; power <= high; power += step)
        for (int i = 0; i < few; i++) {
            const double value = power + log10(parts[i]);
            if (value >= low - 1e-9 && value <= high + 1e-9 && count < MOST_TICKS) at[count++] = parts[i] * pow(10, power);
        }
    return count;
}

/* Where an axis has ticks, ascending, for about `wanted` of them: the caller's, powers of ten, or multiples of 1, 2 or 5 of one. */
static int ticks_choose(const plot_axis *axis, range shown, int wanted, double *at) {
    const double low = fmin(shown.low, shown.high), high = fmax(shown.low, shown.high);
    int count = 0;
    for (; count < axis->ticks && count < MOST_TICKS; count++)
        at[count] = axis->tick[count].at;
    if (axis->ticks > 0) return count;
    if (axis->logarithmic) return powers_choose(low, high, wanted, at);
    double step = pow(10, floor(log10((high - low) / wanted)));
    const double over = (high - low) / wanted / step;
    step *= over > 5 ? 10 : over > 2 ? 5 : over > 1 ? 2 : 1;
    for (double value = ceil(low / step - 1e-9) * step; value <= high + 1e-9 * step && count < MOST_TICKS; value += step)
        at[count++] = fabs(value) < 1e-9 * step ? 0 : value;
    return count;
}

static void tick_text(const plot_axis *axis, int index, double at, char *out, size_t size) {
    const double power = floor(log10(fabs(at)) + 1e-9);
    if (axis->ticks > 0)
        snprintf(out, size, "%s", axis->tick[index].text);
    else if (axis->logarithmic && (power < -3 || power > 4))
        snprintf(out, size, "%.0fe%.0f", at / pow(10, power), power);
    else
        snprintf(out, size, "%.6g", at);
}

/* ---- A panel ---- */

static void axes_draw(const canvas *one) {
    const plot_panel *panel = one->panel;
    FILE *file = one->file;
    double at[MOST_TICKS];
    char text[256];
    int count = ticks_choose(&panel->y, (range){one->y_low, one->y_high}, (int)fmax(2, (one->bottom - one->top) / 45), at);
    for (int i = 0; i < count; i++) {
        const double y = y_of(one, at[i]);
        tick_text(&panel->y, i, at[i], text, sizeof text);
        if (panel->y.ticks == 0) fprintf(file, "<path d=\"M%.1f %.1fH%.1f\" stroke=\"#ddd\"/>\n", one->left, y, one->right);
        text_write(file, one->left - 6, y + 4, text, (text_style){.anchor = "end"});
    }
    count = ticks_choose(&panel->x, (range){one->x_low, one->x_high}, (int)fmax(2, (one->right - one->left) / 55), at);
    for (int i = 0; i < count; i++) {
        const double x = x_of(one, at[i]);
        tick_text(&panel->x, i, at[i], text, sizeof text);
        if (panel->x.ticks == 0) fprintf(file, "<path d=\"M%.1f %.1fV%.1f\" stroke=\"#eee\"/>\n", x, one->top, one->bottom);
        if (panel->x.upright)
            text_write(file, x + 4, one->bottom + 8, text, (text_style){.anchor = "end", .upright = true});
        else
            text_write(file, x, one->bottom + LINE, text, (text_style){.anchor = "middle"});
    }
    fprintf(file, "<path d=\"M%.1f %.1fV%.1fH%.1f\" fill=\"none\" stroke=\"#666\"/>\n", one->left, one->top, one->bottom, one->right);
    if (panel->title) {
        const double needed = character * letters_count(panel->title), there = one->right - one->left + SIDE;
        const int size = needed > there ? (int)fmax(7, FONT * there / needed) : FONT;
        text_write(file, (one->left + one->right) / 2, one->top - 9, panel->title, (text_style){.anchor = "middle", .size = size});
    }
}

static void marks_draw(const canvas *one) {
    for (int i = 0; i < one->panel->marks; i++) {
        const plot_mark *mark = &one->panel->mark[i];
        const char *color = mark->color ? mark->color : "#666";
        const double at = mark->vertical ? x_of(one, mark->at) : y_of(one, mark->at);
        if (!isnan(mark->to)) {
            const double to = mark->vertical ? x_of(one, mark->to) : y_of(one, mark->to);
            const double x = mark->vertical ? fmin(at, to) : one->left, width = mark->vertical ? fabs(to - at) : one->right - one->left;
            const double y = mark->vertical ? one->top : fmin(at, to), height = mark->vertical ? one->bottom - one->top : fabs(to - at);
            fprintf(one->file, "<path d=\"M%.1f %.1fh%.1fv%.1fh%.1fz\" fill=\"%s\"/>\n", x, y, width, fmax(height, 1), -width, color);
        } else if (mark->vertical) {
            fprintf(one->file, "<path d=\"M%.1f %.1fV%.1f\" stroke=\"%s\" stroke-dasharray=\"5 4\"/>\n", at, one->top, one->bottom, color);
        } else {
            fprintf(one->file, "<path d=\"M%.1f %.1fH%.1f\" stroke=\"%s\" stroke-dasharray=\"5 4\"/>\n", one->left, at, one->right, color);
        }
        if (mark->text && mark->vertical)
            text_write(one->file, at + 4, one->top + LINE, mark->text, (text_style){.color = color});
        else if (mark->text)
            text_write(one->file, one->right - 4, at - 6, mark->text, (text_style){.anchor = "end", .color = color});
    }
}

/* Points lie far outside at most once its height away, so that no reader of SVG stumbles over huge numbers. */
static double y_near(const canvas *one, double value) {
    const double height = one->bottom - one->top;
    return fmin(fmax(y_of(one, value), one->top - height), one->bottom + height);
}

static void line_draw(const canvas *one, const plot_series *series, const char *color) {
    bool pen = false;
    fprintf(one->file, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"%g\" stroke-linejoin=\"round\"%s d=\"", color,
            series->width > 0 ? series->width : 1.5, series->dash ? " stroke-dasharray=\"6 4\"" : "");
    for (int i = 0; i < series->points; i++) {
        const plot_point *point = &series->point[i];
        if (isfinite(point->y)) fprintf(one->file, "%c%.1f %.1f", pen ? 'L' : 'M', x_of(one, point->x), y_near(one, point->y));
        pen = isfinite(point->y);
    }
    fprintf(one->file, "\"/>\n");
}

static void series_draw(const canvas *one, const plot_series *series, const char *color) {
    FILE *file = one->file;
    const double half = (series->width > 0 ? series->width : 0.85) / 2;
    if (series->draw & PLOT_LINE) line_draw(one, series, color);
    for (int i = 0; i < series->points; i++) {
        const plot_point *point = &series->point[i];
        const double x = x_of(one, point->x), y = y_near(one, point->y);
        if (!isfinite(point->y)) continue;
        if (series->draw & PLOT_BARS) {
            const double left = x_of(one, point->x - half), right = x_of(one, point->x + half), foot = y_near(one, 0);
            fprintf(file, "<path d=\"M%.1f %.1fH%.1fV%.1fH%.1fz\" fill=\"%s\"/>\n", left, foot, right, y, left, color);
        }
        if (series->draw & PLOT_BOXES)
            fprintf(file, "<path d=\"M%.1f %.1fH%.1fV%.1fH%.1fz\" fill=\"%s\"/>\n", x, y, x_of(one, point->to_x), y_near(one, point->to_y),
                    x, color);
        if (!isnan(point->low)) {
            const double low = y_near(one, point->low), high = y_near(one, point->high);
            fprintf(file, "<path d=\"M%.1f %.1fV%.1fM%.1f %.1fh6M%.1f %.1fh6\" stroke=\"%s\"/>\n", x, low, high, x - 3, low, x - 3, high,
                    series->draw & PLOT_BARS ? "black" : color);
        }
        if (series->draw & PLOT_POINTS) {
            fprintf(file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" %s=\"%s\"%s>", x, y, series->hollow ? "stroke" : "fill", color,
                    series->hollow ? " fill=\"white\"" : "");
            if (point->tip) fprintf(file, "<title>"), letters_write(file, point->tip), fprintf(file, "</title>");
            fprintf(file, "</circle>\n");
        }
        if (point->text) text_write(file, x - 4, y - 5, point->text, (text_style){.anchor = "end", .size = 10});
    }
}

static bool is_in_legend(const plot_series *series) {
    return series->title && !series->at_end;
}

static double legend_width(const plot_series *series) {
    return 30 + character * letters_count(series->title);
}

/* One place of the legend at a time: at x, y, the middle of its text's height. */
static void key_draw(FILE *file, const plot_series *series, const char *color, double x, double y) {
    if (series->draw & (PLOT_BARS | PLOT_BOXES)) fprintf(file, "<path d=\"M%.1f %.1fh12v10h-12z\" fill=\"%s\"/>\n", x + 2, y - 5, color);
    if (series->draw & PLOT_LINE)
        fprintf(file, "<path d=\"M%.1f %.1fh18\" stroke=\"%s\" stroke-width=\"2\"%s/>\n", x, y, color,
                series->dash ? " stroke-dasharray=\"6 4\"" : "");
    if (series->draw & PLOT_POINTS)
        fprintf(file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" %s=\"%s\"%s/>\n", x + 9, y, series->hollow ? "stroke" : "fill", color,
                series->hollow ? " fill=\"white\"" : "");
    text_write(file, x + 23, y + 4, series->title, (text_style){0});
}

/* In rows of at most `width`, or one below the other; draws them from x, y on unless file is NULL. Returns how many rows there are. */
static int legend_draw(FILE *file, const plot_panel *panel, double x, double y, double width) {
    int rows = 0;
    double used = INFINITY;
    for (int s = 0; s < panel->series; s++) {
        const plot_series *series = &panel->one[s];
        if (!is_in_legend(series)) continue;
        if (panel->legend == PLOT_RIGHT || used + legend_width(series) > width) {
            rows++;
            used = 0;
        }
        if (file) key_draw(file, series, color_of(series, s), x + used, y + (rows - 1) * LINE);
        used += legend_width(series) + 8;
    }
    return rows;
}

typedef struct end_label {
    double y;
    const char *text, *color;
} end_label;

static int end_compare(const void *left, const void *right) {
    const double a = ((const end_label *)left)->y, b = ((const end_label *)right)->y;
    return (a > b) - (a < b);
}

/* Titles at the ends of their lines, moved down where they would cover each other. */
static void ends_draw(const canvas *one) {
    end_label label[MOST_END_LABELS];
    int count = 0;
    double free_from = -INFINITY;
    for (int s = 0; s < one->panel->series && count < MOST_END_LABELS; s++) {
        const plot_series *series = &one->panel->one[s];
        if (series->at_end && series->title && series->points > 0)
            label[count++] = (end_label){y_near(one, series->point[series->points - 1].y), series->title, color_of(series, s)};
    }
    qsort(label, (size_t)count, sizeof *label, end_compare);
    for (int i = 0; i < count; i++) {
        const double y = fmax(label[i].y, free_from);
        text_write(one->file, one->right + 5, y + 4, label[i].text, (text_style){.color = label[i].color, .size = 11});
        free_from = y + 12;
    }
}

static int lines_of(const char *text) {
    int lines = 1;
    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

/* What stands outside the frame takes its place from the panel's cell: tick texts, labels, legend. */
static void frame_place(canvas *one, double left, double top, double width, double height) {
    const plot_panel *panel = one->panel;
    double below = LINE + MARGIN, longest = 0, beside = SIDE, legend = 0;
    for (int i = 0; i < panel->x.ticks; i++) {
        const double needed = panel->x.upright ? character * letters_count(panel->x.tick[i].text) : LINE * lines_of(panel->x.tick[i].text);
        below = fmax(below, needed + MARGIN + 4);
    }
    for (int i = 0; i < panel->y.ticks; i++)
        longest = fmax(longest, character * letters_count(panel->y.tick[i].text));
    if (longest + 2 * MARGIN > beside) beside = longest + 2 * MARGIN;
    one->left = left + beside;
    one->right = left + width - 2 * MARGIN;
    for (int s = 0; s < panel->series; s++) {
        const plot_series *series = &panel->one[s];
        if (series->title && (series->at_end || panel->legend == PLOT_RIGHT))
            legend = fmax(legend, series->at_end ? 6 + character * letters_count(series->title) : MARGIN + legend_width(series));
    }
    one->right -= legend;
    one->top = top + (panel->title ? TITLE : MARGIN);
    one->bottom = top + height - below - (panel->x.label ? LINE : 0);
    if (panel->x.label)
        text_write(one->file, (one->left + one->right) / 2, one->bottom + below + 6, panel->x.label, (text_style){.anchor = "middle"});
}

static void panel_draw(canvas *one, double left, double top, double width, double height) {
    const plot_panel *panel = one->panel;
    if (panel->series == 0 && panel->marks == 0) return;
    const int rows = panel->legend == PLOT_BELOW ? legend_draw(NULL, panel, 0, 0, width - SIDE) : 0;
    const range x = range_of(panel, false), y = range_of(panel, true);
    one->x_low = x.low, one->x_high = x.high, one->y_low = y.low, one->y_high = y.high;
    frame_place(one, left, top, width, height - rows * LINE - (rows ? MARGIN : 0));
    axes_draw(one);
    if (panel->y.label)
        text_write(one->file, left + 14, (one->top + one->bottom) / 2, panel->y.label, (text_style){.anchor = "middle", .upright = true});
    fprintf(one->file, "<clipPath id=\"panel%d\"><path d=\"M%.1f %.1fH%.1fV%.1fH%.1fz\"/></clipPath>\n<g clip-path=\"url(#panel%d)\">\n",
            one->number, one->left, one->top - 4, one->right + 4, one->bottom, one->left, one->number);
    marks_draw(one);
    for (int s = 0; s < panel->series; s++)
        series_draw(one, &panel->one[s], color_of(&panel->one[s], s));
    fprintf(one->file, "</g>\n");
    ends_draw(one);
    if (panel->legend == PLOT_RIGHT) legend_draw(one->file, panel, one->right + MARGIN, one->top + 8, 0);
    if (panel->legend == PLOT_BELOW) legend_draw(one->file, panel, left + SIDE, top + height - rows * LINE + 2, width - SIDE);
}

/* ---- The picture ---- */

static void picture_draw(FILE *file, const plot_picture *picture) {
    const int columns = picture->columns > 0 ? picture->columns : 1, rows = (picture->panels + columns - 1) / columns;
    const double top = picture->title ? TITLE + 4 : 0, foot = picture->note ? LINE + MARGIN : MARGIN / 2;
    const double width = (double)picture->width / columns, height = (picture->height - top - foot) / rows;
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\" "
            "font-family=\"sans-serif\" font-size=\"%d\">\n",
            picture->width, picture->height, picture->width, picture->height, FONT);
    if (picture->title || picture->panel[0].title) {
        fprintf(file, "<title>");
        letters_write(file, picture->title ? picture->title : picture->panel[0].title);
        fprintf(file, "</title>\n");
    }
    fprintf(file, "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n");
    if (picture->title) text_write(file, picture->width / 2.0, 21, picture->title, (text_style){.anchor = "middle", .size = 14});
    for (int p = 0; p < picture->panels; p++) {
        canvas one = {.file = file, .panel = &picture->panel[p], .number = p};
        panel_draw(&one, p % columns * width, top + p / columns * height, width, height);
    }
    if (picture->note) text_write(file, SIDE, picture->height - 8, picture->note, (text_style){0});
    fprintf(file, "</svg>\n");
}

qs_status plot_write(const char *path, const plot_picture *picture) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    if (!file) return qs_fail(QS_OUT_OF_MEMORY, "the picture %s", path);
    picture_draw(file, picture);
    qs_status status = fclose(file) == 0 ? QS_OK : qs_fail(QS_OUT_OF_MEMORY, "the picture %s", path);
    if (status == QS_OK) status = qs_file_write(path, text, bytes);
    free(text);
    return status;
}
