// SPDX-License-Identifier: Apache-2.0
/* What a session keeps from one plan to the next: cost mappers, which know the lowered draft and the prices of all cases met so far. They
 * depend on class profile, half format and local batch, not on budgets, counts or the other classes. */
#include "session.h"

#include <stdlib.h>
#include <string.h>

qs_status qs_plan_session_create(const qs_graph *graph, const qs_profile *profile, const qs_job *job, qs_plan_session **out) {
    QS_TRY(qs_allocate(1, sizeof **out, out));
    **out = (qs_plan_session){.graph = graph, .profile = profile, .job = job};
    return QS_OK;
}

void qs__session_clear(qs_plan_session *session) {
    for (int i = 0; i < session->mappers; i++)
        qs_cost_mapper_release(session->mapper[i].mapper);
    free(session->mapper);
    session->mapper = NULL;
    session->mappers = 0;
    session->capacity = 0;
}

void qs_plan_session_release(qs_plan_session *session) {
    if (session) qs__session_clear(session);
    free(session);
}

const char *qs__session_profile_signature(qs_plan_session *session) {
    if (!session->profile_signature[0]) qs_profile_signature(session->profile, session->profile_signature);
    return session->profile_signature;
}

static bool is_same(const qs__mapper_key *a, const qs__mapper_key *b) {
    return a->profile == b->profile && a->half == b->half && a->batch == b->batch && a->no_casts == b->no_casts;
}

qs_cost_mapper *qs__session_take(qs_plan_session *session, const qs__mapper_key *key) {
    for (int i = 0; i < session->mappers; i++) {
        if (!is_same(&session->mapper[i].key, key)) continue;
        qs_cost_mapper *found = session->mapper[i].mapper;
        session->mapper[i] = session->mapper[--session->mappers];
        return found;
    }
    return NULL;
}

/* Where there is no memory to keep it, it is released: that costs time later, and nothing else. */
void qs__session_give(qs_plan_session *session, const qs__mapper_key *key, qs_cost_mapper *mapper) {
    if (qs_grow(&session->mapper, &session->capacity, (size_t)session->mappers + 1, sizeof *session->mapper) != QS_OK)
        qs_cost_mapper_release(mapper);
    else
        session->mapper[session->mappers++] = (qs__kept_mapper){*key, mapper};
}
