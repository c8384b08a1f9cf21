// SPDX-License-Identifier: Apache-2.0
/* Ranks that run the same schedule at the same costs, beside the same company on their host, behave alike: one actor stands for all of
 * them, so that the cost of a replay does not grow with the number of ranks. */
#include <stdlib.h>
#include <string.h>

#include "replayer_internal.h"

typedef struct grouping {
    int kinds, hosts;
    int *kind_of;  /* (ranks) */
    int *first_of; /* (kinds) lowest rank */
    int *count;    /* (hosts x kinds) ranks */
    int *node_of;  /* (hosts) */
    int *actor_of; /* (nodes x kinds) -1: none yet */
} grouping;

static bool is_alike(const qs_replay_rank *a, const qs_replay_rank *b) {
    return a->schedule == b->schedule && a->step_us == b->step_us && a->step_alone_us == b->step_alone_us && a->data_us == b->data_us &&
           a->overhead_us == b->overhead_us && a->slow == b->slow && a->jitter == b->jitter && a->class_name == b->class_name;
}

static int kind_find(const grouping *all, const qs_replay_rank *rank, int r) {
    if (r > 0 && is_alike(&rank[r], &rank[r - 1])) return all->kind_of[r - 1];
    for (int k = 0; k < all->kinds; k++)
        if (is_alike(&rank[r], &rank[all->first_of[k]])) return k;
    return -1;
}

static qs_status kinds_find(const qs_replay_case *in, grouping *all) {
    const size_t ranks = (size_t)in->ranks;
    QS_TRY(qs_allocate(ranks, sizeof *all->kind_of, &all->kind_of));
    QS_TRY(qs_allocate(ranks, sizeof *all->first_of, &all->first_of));
    for (int r = 0; r < in->ranks; r++) {
        const int kind = kind_find(all, in->rank, r);
        if (kind < 0) all->first_of[all->kinds] = r;
        all->kind_of[r] = kind < 0 ? all->kinds++ : kind;
        if (in->rank[r].host < 0 || in->rank[r].host >= in->ranks)
            return qs_fail(QS_USAGE, "replay: rank %d is on host %d; hosts are counted from 0 to ranks - 1", r, in->rank[r].host);
        if (in->rank[r].host >= all->hosts) all->hosts = in->rank[r].host + 1;
    }
    return QS_OK;
}

/* Hosts with equal company are one node. */
static qs_status nodes_find(const qs_replay_case *in, grouping *all, qs__replay *one) {
    const size_t row = (size_t)all->kinds;
    QS_TRY(qs_allocate((size_t)all->hosts * row, sizeof *all->count, &all->count));
    QS_TRY(qs_allocate((size_t)all->hosts, sizeof *all->node_of, &all->node_of));
    QS_TRY(qs_allocate((size_t)all->hosts, sizeof *one->present, &one->present));
    QS_TRY(qs_allocate((size_t)all->hosts, sizeof *one->active, &one->active));
    for (int r = 0; r < in->ranks; r++)
        all->count[(size_t)in->rank[r].host * row + (size_t)all->kind_of[r]]++;
    for (int h = 0; h < all->hosts; h++) {
        const int *company = &all->count[(size_t)h * row];
        int like = 0;
        while (memcmp(company, &all->count[(size_t)like * row], row * sizeof *company) != 0)
            like++;
        all->node_of[h] = like < h ? all->node_of[like] : one->nodes++;
        if (like < h) continue;
        for (int k = 0; k < all->kinds; k++)
            one->present[all->node_of[h]] += company[k];
    }
    memcpy(one->active, one->present, (size_t)one->nodes * sizeof *one->active);
    return QS_OK;
}

static qs_status actors_deal(const qs_replay_case *in, grouping *all, qs__replay *one) {
    const size_t cells = (size_t)one->nodes * (size_t)all->kinds;
    QS_TRY(qs_allocate(cells, sizeof *all->actor_of, &all->actor_of));
    QS_TRY(qs_allocate((size_t)in->ranks, sizeof *one->actor_of, &one->actor_of));
    QS_TRY(qs_allocate(cells < (size_t)in->ranks ? cells : (size_t)in->ranks, sizeof *one->actor, &one->actor));
    for (size_t i = 0; i < cells; i++)
        all->actor_of[i] = -1;
    for (int r = 0; r < in->ranks; r++) {
        const int host = in->rank[r].host, kind = all->kind_of[r], node = all->node_of[host];
        int *actor = &all->actor_of[(size_t)node * (size_t)all->kinds + (size_t)kind];
        if (*actor < 0) {
            *actor = one->actors++;
            one->actor[*actor] = (qs__actor){
                .what = &in->rank[r], .first = r, .node = node, .here = all->count[(size_t)host * (size_t)all->kinds + (size_t)kind]};
        }
        one->actor[*actor].ranks++;
        one->actor_of[r] = *actor;
    }
    return QS_OK;
}

qs_status qs__actors_make(qs__replay *one) {
    grouping all = {0};
    qs_status status = QS_OK;
    QS_GOTO(kinds_find(one->in, &all));
    QS_GOTO(nodes_find(one->in, &all, one));
    QS_GOTO(actors_deal(one->in, &all, one));
done:
    free(all.kind_of);
    free(all.first_of);
    free(all.count);
    free(all.node_of);
    free(all.actor_of);
    return status;
}
