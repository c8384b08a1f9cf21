// SPDX-License-Identifier: Apache-2.0
/* qsync plot: a picture from its description in JSON. */
#include "plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Reading: texts stay those of the JSON value ---- */

/* A value of an object, known by its name to be of a kind; NULL: it is not there. */
static qs_status member(json_t *object, const char *where, const char *name, json_type type, json_t **out) {
    *out = json_object_get(object, name);
    if (!*out || json_typeof(*out) == type) return QS_OK;
    if (type == JSON_REAL && json_is_number(*out)) return QS_OK;
    if (type == JSON_TRUE && json_is_boolean(*out)) return QS_OK;
    return qs_fail(QS_BAD_FILE, "%s: \"%s\" is no %s", where, name,
                   type == JSON_STRING  ? "text"
                   : type == JSON_REAL  ? "number"
                   : type == JSON_TRUE  ? "true or false"
                   : type == JSON_ARRAY ? "list"
                                        : "object");
}

static qs_status text_read(json_t *object, const char *where, const char *name, const char **out) {
    json_t *value;
    QS_TRY(member(object, where, name, JSON_STRING, &value));
    if (value) *out = json_string_value(value);
    return QS_OK;
}

static qs_status number_read(json_t *object, const char *where, const char *name, double *out) {
    json_t *value;
    QS_TRY(member(object, where, name, JSON_REAL, &value));
    if (value) *out = json_number_value(value);
    return QS_OK;
}

static qs_status flag_read(json_t *object, const char *where, const char *name, bool *out) {
    json_t *value;
    QS_TRY(member(object, where, name, JSON_TRUE, &value));
    if (value) *out = json_is_true(value);
    return QS_OK;
}

/* Refuses names that nobody reads: a mistyped one would change the picture in silence. */
static qs_status names_check(json_t *object, const char *where, const char *known) {
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value) {
        char padded[64];
        snprintf(padded, sizeof padded, " %s ", name);
        if (!strstr(known, padded)) return qs_fail(QS_BAD_FILE, "%s: unknown name \"%s\"; there are%s", where, name, known);
    }
    return QS_OK;
}

static qs_status axis_read(json_t *panel, const char *where, const char *name, plot_axis *out) {
    json_t *axis, *ticks;
    *out = (plot_axis){.low = NAN, .high = NAN};
    QS_TRY(member(panel, where, name, JSON_OBJECT, &axis));
    if (!axis) return QS_OK;
    QS_TRY(names_check(axis, where, " label low high log upright ticks "));
    QS_TRY(text_read(axis, where, "label", &out->label));
    QS_TRY(number_read(axis, where, "low", &out->low));
    QS_TRY(number_read(axis, where, "high", &out->high));
    QS_TRY(flag_read(axis, where, "log", &out->logarithmic));
    QS_TRY(flag_read(axis, where, "upright", &out->upright));
    QS_TRY(member(axis, where, "ticks", JSON_ARRAY, &ticks));
    if (!ticks || json_array_size(ticks) == 0) return QS_OK;
    QS_TRY(qs_allocate(json_array_size(ticks), sizeof *out->tick, &out->tick));
    for (size_t i = 0; i < json_array_size(ticks); i++) {
        json_t *tick = json_array_get(ticks, i);
        plot_tick *to = &out->tick[out->ticks++];
        to->at = json_number_value(json_array_get(tick, 0));
        to->text = json_string_value(json_array_get(tick, 1));
        if (!to->text) return qs_fail(QS_BAD_FILE, "%s: a tick of \"%s\" is no [number, text]", where, name);
    }
    return QS_OK;
}

static double number_at(json_t *row, size_t index) {
    json_t *value = json_array_get(row, index);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* [x, y], [x, y, low, high], of boxes [x, y, to_x, to_y]. */
static qs_status points_read(json_t *data, const char *where, plot_series *out) {
    QS_TRY(qs_allocate(json_array_size(data), sizeof *out->point, &out->point));
    for (size_t i = 0; i < json_array_size(data); i++) {
        json_t *row = json_array_get(data, i);
        plot_point *to = &out->point[out->points++];
        const size_t length = json_array_size(row);
        if (length != 4 && (length != 2 || out->draw & PLOT_BOXES))
            return qs_fail(QS_BAD_FILE, "%s: row %zu of \"%s\" is no [x, y] or [x, y, low, high]", where, i + 1,
                           out->title ? out->title : "");
        *to = (plot_point){number_at(row, 0), number_at(row, 1), number_at(row, 2), number_at(row, 3), NAN, NAN, NULL, NULL};
        if (isnan(to->x)) return qs_fail(QS_BAD_FILE, "%s: row %zu of \"%s\" has no x", where, i + 1, out->title ? out->title : "");
        if (out->draw & PLOT_BOXES) *to = (plot_point){to->x, to->y, NAN, NAN, to->low, to->high, NULL, NULL};
    }
    return QS_OK;
}

static qs_status series_read(json_t *from, const char *where, plot_series *out) {
    static const char *const names[] = {"line", "points", "both", "bars", "boxes"};
    static const unsigned draws[] = {PLOT_LINE, PLOT_POINTS, PLOT_LINE | PLOT_POINTS, PLOT_BARS, PLOT_BOXES};
    const char *draw = "line";
    json_t *data;
    QS_TRY(names_check(from, where, " title color draw dash hollow at_end width data "));
    QS_TRY(text_read(from, where, "title", &out->title));
    QS_TRY(text_read(from, where, "color", &out->color));
    QS_TRY(text_read(from, where, "draw", &draw));
    QS_TRY(flag_read(from, where, "dash", &out->dash));
    QS_TRY(flag_read(from, where, "hollow", &out->hollow));
    QS_TRY(flag_read(from, where, "at_end", &out->at_end));
    QS_TRY(number_read(from, where, "width", &out->width));
    QS_TRY(member(from, where, "data", JSON_ARRAY, &data));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(draw, names[i]) == 0) out->draw = draws[i];
    if (!out->draw) return qs_fail(QS_BAD_FILE, "%s: draw \"%s\": there are line, points, both, bars, boxes", where, draw);
    if (!data) return qs_fail(QS_BAD_FILE, "%s: a series has no \"data\"", where);
    return json_array_size(data) > 0 ? points_read(data, where, out) : QS_OK;
}

static qs_status mark_read(json_t *from, const char *where, plot_mark *out) {
    *out = (plot_mark){.at = NAN, .to = NAN};
    QS_TRY(names_check(from, where, " x y to color text "));
    QS_TRY(number_read(from, where, "x", &out->at));
    out->vertical = !isnan(out->at);
    QS_TRY(number_read(from, where, "y", &out->at));
    QS_TRY(number_read(from, where, "to", &out->to));
    QS_TRY(text_read(from, where, "color", &out->color));
    QS_TRY(text_read(from, where, "text", &out->text));
    return isnan(out->at) ? qs_fail(QS_BAD_FILE, "%s: a mark has neither x nor y", where) : QS_OK;
}

static qs_status panel_read(json_t *from, const char *where, plot_panel *out) {
    static const char *const places[] = {"below", "right", "none"};
    const char *legend = "below";
    json_t *series, *marks;
    QS_TRY(names_check(from, where, " title x y legend series marks "));
    QS_TRY(text_read(from, where, "title", &out->title));
    QS_TRY(axis_read(from, where, "x", &out->x));
    QS_TRY(axis_read(from, where, "y", &out->y));
    QS_TRY(text_read(from, where, "legend", &legend));
    QS_TRY(member(from, where, "series", JSON_ARRAY, &series));
    QS_TRY(member(from, where, "marks", JSON_ARRAY, &marks));
    int place = 0;
    while (place < 3 && strcmp(legend, places[place]) != 0)
        place++;
    if (place == 3) return qs_fail(QS_BAD_FILE, "%s: legend \"%s\": there are below, right, none", where, legend);
    out->legend = (plot_legend)place;
    if (series) QS_TRY(qs_allocate(json_array_size(series) + 1, sizeof *out->one, &out->one));
    for (size_t i = 0; i < json_array_size(series); i++)
        QS_TRY(series_read(json_array_get(series, i), where, &out->one[out->series++]));
    if (marks) QS_TRY(qs_allocate(json_array_size(marks) + 1, sizeof *out->mark, &out->mark));
    for (size_t i = 0; i < json_array_size(marks); i++)
        QS_TRY(mark_read(json_array_get(marks, i), where, &out->mark[out->marks++]));
    return QS_OK;
}

static qs_status picture_read(json_t *root, const char *where, plot_picture *out) {
    double width = 720, height = 440, columns = 1;
    json_t *panels;
    QS_TRY(names_check(root, where, " title note width height columns panels "));
    QS_TRY(text_read(root, where, "title", &out->title));
    QS_TRY(text_read(root, where, "note", &out->note));
    QS_TRY(number_read(root, where, "width", &width));
    QS_TRY(number_read(root, where, "height", &height));
    QS_TRY(number_read(root, where, "columns", &columns));
    QS_TRY(member(root, where, "panels", JSON_ARRAY, &panels));
    if (json_array_size(panels) == 0) return qs_fail(QS_BAD_FILE, "%s: no panels", where);
    if (!(width >= 200 && width <= 10000 && height >= 150 && height <= 20000 && columns >= 1 && columns <= 16))
        return qs_fail(QS_BAD_FILE, "%s: width 200 to 10000, height 150 to 20000, columns 1 to 16", where);
    out->width = (int)width, out->height = (int)height, out->columns = (int)columns;
    QS_TRY(qs_allocate(json_array_size(panels), sizeof *out->panel, &out->panel));
    for (size_t i = 0; i < json_array_size(panels); i++)
        QS_TRY(panel_read(json_array_get(panels, i), where, &out->panel[out->panels++]));
    return QS_OK;
}

static void picture_release(plot_picture *picture) {
    for (int p = 0; p < picture->panels; p++)
        plot_panel_release(&picture->panel[p]);
    free(picture->panel);
}

/* ---- The verb ---- */

typedef struct request {
    const char *out;
} request;

static const option_row option_rows[] = {{OPTION(request, out, "out", "FILE", "the SVG file"), .usual = "required"}};

qs_status verb_plot(int argc, char **argv) {
    const verb_usage usage = {
        .verb = "plot",
        .arguments = "FILE",
        .purpose = "Draws a picture from its description in JSON (from standard input with -), as a self-contained SVG file:\n"
                   "  {\"title\", \"note\", \"width\", \"height\", \"columns\", \"panels\": [{\"title\", \"x\", \"y\", \"legend\", "
                   "\"series\", \"marks\"}]}\n"
                   "x, y: {\"label\", \"low\", \"high\", \"log\", \"upright\", \"ticks\": [[at, text]]}; legend: below, right or none.\n"
                   "series: [{\"title\", \"color\", \"draw\", \"dash\", \"hollow\", \"at_end\", \"width\", \"data\"}]; draw: line, points, "
                   "both, bars or\n"
                   "boxes; data: [x, y] or [x, y, low, high], of boxes [x, y, to_x, to_y]; a y of null is a gap.\n"
                   "marks: [{\"x\" or \"y\", \"to\", \"color\", \"text\"}]: a line across the panel, or with \"to\" a band.\n"
                   "All but panels and data may be left out.",
        .examples = "  echo '{\"panels\": [{\"series\": [{\"data\": [[1, 1], [2, 4], [3, 9]]}]}]}' | qsync plot - --out squares.svg\n",
        .least = 1,
        .most = 1};
    request asked = {0};
    bool done = false;
    int first = 0;
    option_table table = {0};
    plot_picture picture = {0};
    json_error_t error;
    OPTIONS_ADD(&table, option_rows, &asked);
    QS_TRY(options_parse(&table, &usage, argc, argv, &first, &done));
    if (done) return QS_OK;
    QS_TRY(options_require(&table, &usage, 1, (const char *const[]){"out"}));
    QS_TRY(output_check(asked.out));
    const bool standard = strcmp(argv[first], "-") == 0;
    const char *where = standard ? "standard input" : argv[first];
    json_t *root =
        standard ? json_loadf(stdin, JSON_REJECT_DUPLICATES, &error) : json_load_file(argv[first], JSON_REJECT_DUPLICATES, &error);
    if (!root) return qs_fail(QS_BAD_FILE, "%s:%d: %s", where, error.line, error.text);
    qs_status status = picture_read(root, where, &picture);
    if (status == QS_OK) status = plot_write(asked.out, &picture);
    picture_release(&picture);
    json_decref(root);
    return status;
}
