// SPDX-License-Identifier: Apache-2.0
/* Planners by name, and what they are asked. */
#include <math.h>
#include <string.h>

#include "planner_internal.h"
#include "session.h"

typedef struct entry {
    const char *name;
    qs_planner plan;
    bool assigns;
} entry;
static const entry entries[] = {
#define QS_PLANNER_NAMED(file, name) {name, qs__planner_##file, false},
#define QS_ASSIGNING_PLANNER(file, name) {name, qs__planner_##file, true},
#define QS_PLANNER(name) QS_PLANNER_NAMED(name, #name)
#include "planners.def"
#undef QS_PLANNER
#undef QS_PLANNER_NAMED
#undef QS_ASSIGNING_PLANNER
};
#define ENTRIES (sizeof entries / sizeof *entries)

const char *qs_planner_name_at(size_t index) {
    return index < ENTRIES ? entries[index].name : NULL;
}

void qs_plan_options_default(qs_plan_options *out) {
    *out = (qs_plan_options){.convention = QS_CONVENTION_DEFAULT,
                             .tolerance = 0.005,
                             .confidence = 0.95,
                             .recompute = "no",
                             .assignment = {.ratio = 1,
                                            .order = "decreasing",
                                            .high = qs_format_of("fp(6,9,0)"),
                                            .low = qs_format_of("fp(4,3,4)"),
                                            .low_gradient = qs_format_of("fp(5,2,0)"),
                                            .promote_at = NAN}};
}

static const entry *entry_find(const char *name) {
    for (size_t i = 0; i < ENTRIES; i++)
        if (strcmp(entries[i].name, name) == 0) return &entries[i];
    return NULL;
}

bool qs_planner_assigns(const char *planner) {
    const entry *found = entry_find(planner);
    return found && found->assigns;
}

qs_status qs_plan_session_make(qs_plan_session *session, const qs_cluster *cluster, const char *planner, const qs_plan_options *options,
                               qs_plan *out) {
    const entry *found = entry_find(planner);
    if (!found) return qs_fail(QS_USAGE, "unknown planner %s: there are %s", planner, qs_names_join(ENTRIES, qs_planner_name_at));
    if (!(options->tolerance >= 0 && options->tolerance < 1))
        return qs_fail(QS_USAGE, "tolerance %g: the share of throughput that may be given up lies in [0, 1)", options->tolerance);
    if (!(options->confidence >= 0.5 && options->confidence < 1))
        return qs_fail(QS_USAGE, "confidence %g: with which T_min is kept, from 0.5 (predictions are believed) to less than 1",
                       options->confidence);
    return (options->choose_wire ? qs__plan_choosing_wire : qs__plan_recomputing)(session, cluster, planner, found->plan, options, out);
}

qs_status qs_plan_make(const char *planner, const qs_graph *graph, const qs_cluster *cluster, const qs_profile *profile, const qs_job *job,
                       const qs_plan_options *options, qs_plan *out) {
    qs_plan_session session = {.graph = graph, .profile = profile, .job = job};
    const qs_status status = qs_plan_session_make(&session, cluster, planner, options, out);
    qs__session_clear(&session);
    return status;
}
