// SPDX-License-Identifier: Apache-2.0
/* Conventions by name (docs/method.md §3.3 and §3.4). */
#include <string.h>

#include "qsync/indicator.h"

static const struct {
    const char *name;
    qs_convention convention;
} conventions[] = {
    {"paper", {QS_DEPTH_PAPER, QS_PLAIN}},
    {"paper-contracted", {QS_DEPTH_PAPER, QS_CONTRACTED}},
    {"paper-counted", {QS_DEPTH_PAPER, QS_COUNTED}},
    {"influence", {QS_DEPTH_INFLUENCE, QS_PLAIN}},
    {"influence-contracted", {QS_DEPTH_INFLUENCE, QS_CONTRACTED}},
    {"influence-counted", {QS_DEPTH_INFLUENCE, QS_COUNTED}},
    {"flat", {QS_DEPTH_FLAT, QS_PLAIN}},
    {"flat-contracted", {QS_DEPTH_FLAT, QS_CONTRACTED}},
    {"flat-counted", {QS_DEPTH_FLAT, QS_COUNTED}},
};
#define CONVENTIONS (sizeof conventions / sizeof *conventions)

const char *qs_convention_name_at(size_t index) {
    return index < CONVENTIONS ? conventions[index].name : NULL;
}

qs_status qs_convention_parse(const char *name, qs_convention *out) {
    for (size_t i = 0; i < CONVENTIONS; i++) {
        if (strcmp(conventions[i].name, name) != 0) continue;
        *out = conventions[i].convention;
        return QS_OK;
    }
    return qs_fail(QS_USAGE, "unknown convention %s: there are %s", name, qs_names_join(CONVENTIONS, qs_convention_name_at));
}

const char *qs_convention_name(qs_convention convention) {
    size_t i = 0;
    while (conventions[i].convention.depth != convention.depth || conventions[i].convention.contraction != convention.contraction)
        i++;
    return conventions[i].name;
}
