// SPDX-License-Identifier: Apache-2.0
/* What a session keeps from one plan to the next: cost mappers, which know the lowered candidate and the prices of all cases met so far,
 * and the tables of relaxations. They depend on class profile, half format and local batch, the tables also on the recipes; not on budgets,
 * counts or the other classes. Every wire that gradients may travel in has a session of its own. */
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
    for (int i = 0; i < session->tables; i++)
        qs__relax_release(&session->table[i].tables);
    free(session->table);
    session->table = NULL;
    session->tables = 0;
    session->tables_capacity = 0;
    for (int i = 0; i < session->wires; i++) {
        qs__session_clear(&session->wire[i]->session);
        free(session->wire[i]);
    }
    free(session->wire);
    session->wire = NULL;
    session->wires = 0;
    session->wires_capacity = 0;
}

void qs_plan_session_release(qs_plan_session *session) {
    if (session) qs__session_clear(session);
    free(session);
}

qs_status qs__session_on_wire(qs_plan_session *session, const char *wire, qs_plan_session **out) {
    qs__wire_session *added = NULL;
    *out = session;
    if (strcmp(session->job->wire, wire) == 0) return QS_OK;
    for (int i = 0; i < session->wires; i++) {
        *out = &session->wire[i]->session;
        if (strcmp(session->wire[i]->job.wire, wire) == 0) return QS_OK;
    }
    QS_TRY(qs_grow(&session->wire, &session->wires_capacity, (size_t)session->wires + 1, sizeof *session->wire));
    QS_TRY(qs_allocate(1, sizeof *added, &added));
    added->job = *session->job;
    snprintf(added->job.wire, sizeof added->job.wire, "%s", wire);
    added->session = (qs_plan_session){.graph = session->graph, .profile = session->profile, .job = &added->job};
    session->wire[session->wires++] = added;
    *out = &added->session;
    return QS_OK;
}

const char *qs__session_profile_signature(qs_plan_session *session) {
    if (!session->profile_signature[0]) qs_profile_signature(session->profile, session->profile_signature);
    return session->profile_signature;
}

qs__mapper_key qs__mapper_key_of(const qs_candidate *candidate, int class_index) {
    const qs_class *class_ = &candidate->cluster->class_[class_index];
    return (qs__mapper_key){qs_profile_class(candidate->profile, class_->name),
                            qs_class_half(class_),
                            candidate->batch[class_index],
                            candidate->costs.no_casts,
                            class_->cuda_record,
                            candidate->class_[class_index].adds,
                            candidate->class_[class_index].recomputed};
}

static bool is_same(const qs__mapper_key *a, const qs__mapper_key *b) {
    return a->profile == b->profile && a->half == b->half && a->batch == b->batch && a->no_casts == b->no_casts && a->record == b->record &&
           a->adds == b->adds && a->recomputed == b->recomputed;
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

static bool same_recipes(const qs__kept_tables *kept, const qs_candidate_class *class_) {
    if (kept->recipes != class_->recipes) return false;
    for (int r = 0; r < kept->recipes; r++)
        if (strcmp(kept->recipe[r], class_->recipe[r].name) != 0) return false;
    return true;
}

bool qs__session_take_tables(qs_plan_session *session, const qs__mapper_key *key, const qs_candidate_class *class_, qs__relaxation *out) {
    for (int i = 0; i < session->tables; i++) {
        if (!is_same(&session->table[i].key, key) || !same_recipes(&session->table[i], class_)) continue;
        *out = session->table[i].tables;
        session->table[i] = session->table[--session->tables];
        return true;
    }
    return false;
}

void qs__session_give_tables(qs_plan_session *session, const qs__mapper_key *key, qs__relaxation *from) {
    if (qs_grow(&session->table, &session->tables_capacity, (size_t)session->tables + 1, sizeof *session->table) != QS_OK) return;
    qs__kept_tables *kept = &session->table[session->tables++];
    *kept = (qs__kept_tables){.key = *key, .recipes = from->class_->recipes, .tables = *from};
    for (int r = 0; r < kept->recipes; r++)
        snprintf(kept->recipe[r], sizeof kept->recipe[r], "%s", from->class_->recipe[r].name);
    *from = (qs__relaxation){0};
}
