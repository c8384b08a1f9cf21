// SPDX-License-Identifier: Apache-2.0
/* Best-first branch and bound over the recipes of operators, with the bounds of bound.h. */
#ifndef QSYNC_PLANNER_BEST_FIRST_H
#define QSYNC_PLANNER_BEST_FIRST_H

#include "bound.h"

typedef struct qs__best_first {
    int classes;
    qs__bound *const *bound; /* (classes) */
    const int *weight;       /* (classes) times that a class's ΣΩ counts */
    double reached;          /* weighted ΣΩ of a known plan; what is not below is not looked at */
    int most_minima;         /* relaxations that may be solved */
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
