// SPDX-License-Identifier: Apache-2.0
/* The one lowering: a draft with all its segments, numbered and packed. */
#include <stdlib.h>

#include "schedule_internal.h"

static const char *const phase_names[QS_PHASE_COUNT] = {"forward", "backward", "update"};
const char *qs_phase_name(qs_phase phase) {
    return phase_names[phase];
}

#define CATEGORY_TEXT(id, text) text,
static const char *const category_names[] = {QS_CATEGORY_LIST(CATEGORY_TEXT)};
const char *qs_category_name(qs_category category) {
    return category_names[category];
}

qs_status qs_schedule_lower(const qs_lowering *in, qs_schedule **out) {
    qs_schedule_draft *draft = NULL;
    QS_TRY(qs__draft_make(in, false, &draft));
    const qs_status status = qs_schedule_finish(draft, out, NULL);
    qs_schedule_draft_release(draft);
    return status;
}

void qs_schedule_release(qs_schedule *schedule) {
    if (!schedule) return;
    for (int s = 0; s < schedule->steps; s++)
        free(schedule->step[s].case_text);
    free(schedule->step);
    free(schedule->buffer);
    free(schedule->bucket);
    free(schedule->statistics_buffer);
    free(schedule->value_format);
    free(schedule);
}
