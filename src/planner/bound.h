// SPDX-License-Identifier: Apache-2.0
/* Lower bounds on ΣΩ of a class over all its plans that keep a time and the memory: the Lagrangian dual of relax.h. What its relaxation
 * grants a plan (overlap in full, warm caches, idle neighbours, live bytes instead of packed ones) makes the bound lower, never wrong. */
#ifndef QSYNC_PLANNER_BOUND_H
#define QSYNC_PLANNER_BOUND_H

#include "relax.h"

typedef struct qs__bound {
    qs__relaxation relaxation;
    qs__relax_minimum *minimum;
    double limit_us, limit_bytes; /* bytes 0: none */
    qs__relax_price price;        /* the best known */
    double value;                 /* of the bound at these prices; INFINITY: no plan can be */
    /* Work space. */
    qs__relax_price trial;
    qs__relax_use use;
} qs__bound;

/* Of the class at its draft's batch and pins; the draft outlives the bound. Release with qs__bound_release. */
qs_status qs__bound_create(const qs_draft_plan *draft, int class_index, double limit_us, qs__bound **out);
void qs__bound_release(qs__bound *bound);
/* Raises the bound by better prices; `reached` is ΣΩ of a known plan, which the bound will not exceed. */
qs_status qs__bound_raise(qs__bound *bound, double reached);
/* From the present prices a few steps towards `reached` for the recipes that relaxation.allowed leaves, into *value; the bound and its
 * prices stay. *minima counts relaxations solved. */
qs_status qs__bound_try(qs__bound *bound, double reached, int steps, double *value, int *minima);
/* The bound at the present prices for the recipes that relaxation.allowed leaves: INFINITY when none are. */
qs_status qs__bound_at_prices(qs__bound *bound, double *value);

/* All at once, for one class of a finished draft, with as much branching as its size lets pass unnoticed: small models get their optimum
 * but for what the relaxation grants. */
qs_status qs__bound_of_class(const qs_draft_plan *draft, int class_index, double limit_us, double *value);

#endif
