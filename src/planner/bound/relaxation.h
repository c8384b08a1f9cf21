// SPDX-License-Identifier: Apache-2.0
/* A plan's time and memory on one class, taken apart by operator: what every operator certainly costs under a recipe, for any recipes of
 * the others. Sums of these parts bound the full prediction from below, and their least weighted sum is found by dynamic programming over
 * the graph: together a Lagrangian relaxation of the planning problem (docs/method.md §5.4, bound.c).
 *
 * A node's *cell* is what lowering lets it see of its neighbours: the format of its input (`mixed` where inputs differ), its recipe, the
 * format of its own value. What a fixed-point recipe writes has at least the format that its adjustable readers ask for, and may have a
 * wider one; and a copy that several readers may share is paid in equal parts by each that wants it (sums of unlike inputs add their casts
 * to their cell).
 *
 * Time. A kernel counts as if all it reads were in the cache, beside busy ranks where the host has others (qs_cost_step_least). The
 * iteration is no shorter than data, loop and steps of a rank; nor, for every bucket, than what comes before its all-reduce, that and all
 * all-reduces behind it, and the update behind the last: overlap is granted in full.
 *
 * Memory. An arena is no smaller than what is live at one moment. The moments looked at are those in which the backward part of a node
 * begins: what the nodes up to it have saved, and the gradients of their values that later ones have left. */
#ifndef QSYNC_PLANNER_RELAX_H
#define QSYNC_PLANNER_RELAX_H

#include "../planner_internal.h"

enum { QS__FORMATS = 6 };

typedef struct qs__relax_bucket {
    int node;         /* its all-reduce may start within this node's backward part */
    int64_t bytes;    /* of its all-reduce */
    double fixed_us;  /* what is there whatever the plan: data, loop, all-reduces from this one on, update behind the last */
    double *until_us; /* (cells) of the node's backward part, up to there */
    double reduce_us, cpu_share, update_us; /* its all-reduce; and the part of the update behind it, up to the next */
} qs__relax_bucket;

/* A gradient that is live when the backward part of node `moment` begins, in the format of `value`. */
typedef struct qs__relax_gradient {
    int moment, value;
    bool ends; /* within that part, or may */
} qs__relax_gradient;

typedef struct qs__relaxation {
    const qs_candidate *candidate;
    const qs_graph *graph;
    const qs_candidate_class *class_;
    int class_index;
    bool together; /* times are those beside busy ranks: the class's ranks are not alone on their hosts */
    bool joins;    /* qs_device_joins of the class's device */
    bool *joined;  /* (nodes) a normalisation that the sum behind it may do: its value is in no memory */
    int formats;
    const qs_format *format[QS__FORMATS]; /* that values may have; fp32 first */
    int widest[QS__FORMATS][QS__FORMATS];
    int need[QS_MAX_RECIPES];    /* format that a recipe asks of its input where that can follow */
    int follows[QS_MAX_RECIPES]; /* 1: its output has the format that its readers need */
    int cells;                   /* of a node: (formats + 1) x recipes x formats */

    /* Time; INFINITY where lowering never gives a cell. */
    double *forward_us, *backward_us; /* (nodes x cells) */
    int *readers, *products;          /* (nodes) of a value, and the adjustable ones among them: that may share a copy */
    double *cast_us;                  /* (nodes x formats x formats) of a value that a sum reads */
    double begin_us;                  /* data and loop */
    double fixed_us;                  /* these and the update */
    double behind_last_us;            /* the update behind the last all-reduce */
    int buckets;
    qs__relax_bucket *bucket;

    /* Memory. */
    bool *needed;                   /* (nodes) a gradient of the value is wanted */
    int *root;                      /* (nodes) the value whose memory it is: flatten moves nothing */
    int *last;                      /* (nodes) last reader of a root */
    int *saved;                     /* (nodes) how many nodes up to it keep the value that it keeps for backward; 0: it keeps none */
    int *saved_next;                /* (nodes) the next node that keeps the same; nodes: none */
    double *saved_bytes;            /* (nodes x recipes x formats) of what it keeps, by recipe and format of its value */
    double *inside_bytes;           /* (nodes x recipes x formats) what its own backward part adds to what is live when it begins */
    double *value_bytes;            /* (nodes x formats) */
    double *masks_bytes;            /* (nodes) masks, means and variances that a node keeps */
    double *fixed_bytes;            /* (nodes) at each moment, whatever the plan: the persistent part, masks, means and variances */
    int gradients, *first_gradient; /* of all moments, the last node's first; (nodes) where a moment's begin */
    qs__relax_gradient *gradient;
    size_t gradient_capacity;

    /* Choices: recipes that are allowed, as bits. */
    uint32_t *allowed; /* (nodes) */
} qs__relaxation;

/* Of a class of a candidate at its batch; allowed are the recipes whose Ω is finite, the pin's for pinned operators. *relaxation is all
 * zeros, or has the tables of another candidate with the same class profile, half format, batch and recipes (session.h), which stay.
 * Release with qs__relax_release, also after a failure. */
qs_status qs__relax_fill(const qs_candidate *candidate, int class_index, qs__relaxation *relaxation);
void qs__relax_release(qs__relaxation *relaxation);

static inline int qs__cell(const qs__relaxation *one, int in, int recipe, int out) {
    return (in * one->class_->recipes + recipe) * one->formats + out;
}
/* Whether a node's value is only another name of its input's, as the value of a relu is that a device joins to the sum before it: what that
 * relu does in its backward part is left out here, which a bound from below may do. */
static inline bool qs__relax_alias(const qs__relaxation *one, int n) {
    if (n == 0) return false;
    const qs_node *node = &one->graph->node[n];
    return qs_graph_is_name(one->graph, n) || (one->joins && node->inputs == 1 && qs_graph_joined_relu(one->graph, node->input[0]) == n);
}
/* Ids, and what says which positions count: no reader converts them, and no format follows from them. */
static inline bool qs__relax_integers(const qs__relaxation *one, int n) {
    return n < one->graph->samples.inputs && one->graph->samples.input[n].type == QS_INPUT_I32;
}
/* Place in the tables by recipe and format. */
static inline size_t qs__relax_at(const qs__relaxation *one, int node, int recipe, int out) {
    return ((size_t)node * (size_t)one->class_->recipes + (size_t)recipe) * (size_t)one->formats + (size_t)out;
}

/* time.c: what operators take, read off drafts of schedules; and the part of buckets' times that depends on the cluster, all-reduces. */
qs_status qs__relax_time(qs__relaxation *one);
qs_status qs__relax_reduces(qs__relaxation *one);

/* room.c: whether ranks of the class have others on their host, in one place at least. */
qs_status qs__relax_has_neighbours(const qs_candidate *candidate, int class_index, bool *yes);
/* Limits of what the parts above may come to, for iterations of limit_us. */
typedef struct qs__relax_room {
    double limit_us; /* of buckets' chains */
    double total_us; /* of the total */
} qs__relax_room;
qs_status qs__relax_rooms(const qs__relaxation *one, double limit_us, qs__relax_room *out);

/* What an assignment of cells takes of every constraint. */
typedef struct qs__relax_use {
    double omega;
    double total_us;   /* data, loop and all steps */
    double *bucket_us; /* (buckets) */
    double *bytes;     /* (nodes) at every moment */
} qs__relax_use;
/* Prices of the constraints in Ω. */
typedef struct qs__relax_price {
    double total;   /* per microsecond */
    double *bucket; /* (buckets) per microsecond */
    double *moment; /* (nodes) per byte */
} qs__relax_price;

/* minimum.c: the least Ω plus priced use over all assignments that the relaxation allows: Ω + Σ price · use, fixed parts included.
 * `use`, unless NULL, receives the use of an assignment that reaches it, `recipe` (nodes), unless NULL, its recipes. Work space is kept
 * between calls. */
typedef struct qs__relax_minimum qs__relax_minimum;
qs_status qs__relax_minimum_create(const qs__relaxation *relaxation, qs__relax_minimum **out);
void qs__relax_minimum_release(qs__relax_minimum *minimum);
/* How many states a minimum goes through: its work. */
int qs__relax_minimum_states(const qs__relax_minimum *minimum);
qs_status qs__relax_minimize(qs__relax_minimum *minimum, const qs__relax_price *price, double *least, qs__relax_use *use, int *recipe);

#endif
