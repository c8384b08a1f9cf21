// SPDX-License-Identifier: Apache-2.0
/* Lower bounds on ΣΩ of a class over all its plans that keep a time and the memory: the Lagrangian dual of relaxation.h (docs/method.md
 * §5.4). What the relaxation grants a plan (overlap in full, warm caches, idle neighbours, live bytes instead of packed ones) makes the
 * bound lower, never wrong. */
#ifndef QSYNC_PLANNER_BOUND_H
#define QSYNC_PLANNER_BOUND_H

#include "relaxation.h"

/* ---- One class ---- */

typedef struct qs__bound {
    qs__relaxation relaxation;
    qs__relax_minimum *minimum;
    qs__relax_room room;
    double limit_bytes;    /* 0: none */
    qs__relax_price price; /* the best known */
    double value;          /* of the bound at these prices; INFINITY: no plan can be */
    /* Work space. */
    qs__relax_price trial;
    qs__relax_use use;
} qs__bound;

/* Of the class at its candidate's batch and pins; the candidate outlives the bound. Tables come from the candidate's session where it has
 * them, and go back there. Release with qs__bound_release. */
qs_status qs__bound_create(const qs_candidate *candidate, int class_index, double limit_us, qs__bound **out);
void qs__bound_release(qs__bound *bound);
/* Raises the bound by better prices; `reached` is ΣΩ of a known plan, which the bound will not exceed. */
qs_status qs__bound_raise(qs__bound *bound, double reached);

/* The recipes (nodes) of a minimum at the best prices, or at higher ones where it then keeps the limits: a good plan lies near them. */
qs_status qs__bound_recipes(qs__bound *bound, int *recipe);

/* How many more relaxations may be solved beside a plan without being noticed: many of small models. */
int qs__bound_minima(const qs__bound *bound);

/* All at once, for one class of a finished candidate, with as much branching as its size lets pass unnoticed: small models get their
 * optimum but for what the relaxation grants. */
qs_status qs__bound_of_class(const qs_candidate *candidate, int class_index, double limit_us, double *value);

/* ---- Best-first branch and bound over the recipes of operators ---- */

typedef struct qs__best_first {
    int classes;
    qs__bound *const *bound; /* (classes) */
    const int *weight;       /* (classes) times that a class's ΣΩ counts */
    double reached;          /* weighted ΣΩ of a known plan; what is not below is not looked at */
    int most_minima;         /* relaxations that may be solved */
    int most_judged;         /* leaves that may be judged */
    int steps;               /* prices tried at a node of the tree */
    /* Whether a plan, recipe[class][node], keeps its limits; NULL: leaves are not judged, and the search ends at the first. */
    qs_status (*judge)(void *context, int *const *recipe, bool *feasible);
    void *context;
    /* Answers. */
    double least; /* no plan below `reached` has a weighted ΣΩ below this; `reached` where there is none below it */
    bool proven;  /* least is the optimum: a plan that was judged feasible, or `reached` */
    int minima, judged;
    int **recipe; /* (classes) the caller's lists over nodes: the leaf judged last */
} qs__best_first;

/* The pins and ranges of the bounds stay; their prices may have moved. */
qs_status qs__best_first_run(qs__best_first *search);

#endif
