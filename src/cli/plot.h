// SPDX-License-Identifier: Apache-2.0
/* Pictures: panels with axes, lines, points with intervals, bars and boxes, and a legend, as a self-contained SVG file. `qsync plot` draws
 * them from a description in JSON, accum from its own figures. Texts and arrays are the caller's and outlive the call. */
#ifndef QSYNC_CLI_PLOT_H
#define QSYNC_CLI_PLOT_H

#include "cli.h"

/* A point (x, y), with an interval from low to high unless they are NAN; y NAN: a gap in a line. A box goes from (x, y) to (to_x, to_y). */
typedef struct plot_point {
    double x, y, low, high, to_x, to_y;
    const char *text, *tip; /* beside the point, and where a pointer rests on it; NULL: none */
} plot_point;

enum { PLOT_LINE = 1, PLOT_POINTS = 2, PLOT_BARS = 4, PLOT_BOXES = 8 };
typedef struct plot_series {
    const char *title; /* in the legend; NULL: none */
    const char *color; /* NULL: one by its place among the panel's series */
    unsigned draw;     /* of PLOT_ */
    bool dash, hollow; /* dashed lines; points that are circles */
    bool at_end;       /* the title stands at the end of the line, not in the legend */
    double width;      /* of lines in pixels, of bars on the axis; 0: 1.5 and 0.85 */
    int points;
    plot_point *point;
    size_t capacity;
} plot_series;

typedef struct plot_tick {
    double at;
    const char *text; /* "\n" begins another line */
} plot_tick;
typedef struct plot_axis {
    const char *label;
    double low, high; /* NAN: by the data, with some room; low > high: the axis runs backwards */
    bool logarithmic;
    bool upright; /* tick texts of the x axis stand upright */
    int ticks;    /* 0: chosen */
    plot_tick *tick;
} plot_axis;

/* A line across the panel at `at`, or a band to `to` unless that is NAN. */
typedef struct plot_mark {
    bool vertical;
    double at, to;
    const char *color, *text; /* NULL: grey; no text */
} plot_mark;

typedef enum plot_legend { PLOT_BELOW, PLOT_RIGHT, PLOT_NOWHERE } plot_legend;
typedef struct plot_panel {
    const char *title;
    plot_axis x, y;
    plot_legend legend;
    int series, marks;
    plot_series *one;
    plot_mark *mark;
    size_t capacity[2]; /* of series, of marks */
} plot_panel;

typedef struct plot_picture {
    const char *title, *note; /* note: a line at the foot; NULL: none */
    int width, height;        /* of the whole, in pixels */
    int columns;              /* of panels, which fill rows from the left */
    int panels;
    plot_panel *panel;
} plot_picture;

/* Add to a panel or a series. *out is good until the next series comes. */
qs_status plot_series_add(plot_panel *panel, plot_series head, plot_series **out);
qs_status plot_point_add(plot_series *series, plot_point point);
qs_status plot_mark_add(plot_panel *panel, plot_mark mark);
/* Releases points, series, marks and ticks. */
void plot_panel_release(plot_panel *panel);

/* Writes the file whole or not at all. */
qs_status plot_write(const char *path, const plot_picture *picture);

#endif
