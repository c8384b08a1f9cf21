// SPDX-License-Identifier: Apache-2.0
#ifndef QSYNC_PLANNER_SESSION_H
#define QSYNC_PLANNER_SESSION_H

#include "bound/relaxation.h"

/* All that a cost mapper depends on beside graph and job. */
typedef struct qs__mapper_key {
    const qs_class_profile *profile;
    const qs_format *half;
    int64_t batch;
    bool no_casts;
    int record;          /* how the class starts its steps */
    uint64_t adds;       /* the class's accumulators */
    uint64_t recomputed; /* and the blocks that it computes again */
} qs__mapper_key;

typedef struct qs__kept_mapper {
    qs__mapper_key key;
    qs_cost_mapper *mapper;
} qs__kept_mapper;

/* Of the relaxation all but what the candidate says: its pointers, `allowed`, times of all-reduces. */
typedef struct qs__kept_tables {
    qs__mapper_key key;
    int recipes;
    char recipe[QS_MAX_RECIPES][QS_NAME]; /* names */
    qs__relaxation tables;
} qs__kept_tables;

struct qs__wire_session; /* of the same job on another wire: what is kept depends on it */

struct qs_plan_session {
    const qs_graph *graph;
    const qs_profile *profile;
    const qs_job *job;
    int wires;
    size_t wires_capacity;
    struct qs__wire_session **wire;
    char profile_signature[32]; /* "": not asked for yet; it takes the text of the whole profile */
    int mappers;
    size_t capacity;
    qs__kept_mapper *mapper;
    int tables;
    size_t tables_capacity;
    qs__kept_tables *table;
};

typedef struct qs__wire_session {
    qs_job job;
    qs_plan_session session;
} qs__wire_session;

qs__mapper_key qs__mapper_key_of(const qs_candidate *candidate, int class_index);

/* A mapper that was given back under this key, at whatever choices it stood then; it is the caller's. NULL: there is none. */
qs_cost_mapper *qs__session_take(qs_plan_session *session, const qs__mapper_key *key);
/* Hands a mapper over, with nothing to take back in it. */
void qs__session_give(qs_plan_session *session, const qs__mapper_key *key, qs_cost_mapper *mapper);
/* The same for the tables of a relaxation over the class's recipes; true: *out has them, and owns them. Giving takes them out of *from, or
 * leaves them there. */
bool qs__session_take_tables(qs_plan_session *session, const qs__mapper_key *key, const qs_candidate_class *class_, qs__relaxation *out);
void qs__session_give_tables(qs_plan_session *session, const qs__mapper_key *key, qs__relaxation *from);
/* The session of the same job on a wire: this one, or one that it owns. */
qs_status qs__session_on_wire(qs_plan_session *session, const char *wire, qs_plan_session **out);
/* Signature of its profile; lives as long as the session. */
const char *qs__session_profile_signature(qs_plan_session *session);
void qs__session_clear(qs_plan_session *session);

#endif
