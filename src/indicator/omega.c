// SPDX-License-Identifier: Apache-2.0
/* Ω of one operator (docs/method.md §3.2): variance of the quantization of every operand, carried to the gradients by the squared norms of
 * the others. */
#include <stdio.h>
#include <string.h>

#include "indicator_internal.h"

/* ---- Conventions (docs/method.md §3.3 and §3.4) ------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    qs_convention convention;
} conventions[] = {
    {"paper", {QS_DEPTH_PAPER, QS_PLAIN}},
    {"paper-contracted", {QS_DEPTH_PAPER, QS_CONTRACTED}},
    {"paper-counted", {QS_DEPTH_PAPER, QS_COUNTED}},
    {"influence", {QS_DEPTH_INFLUENCE, QS_PLAIN}},
    {"influence-contracted", {QS_DEPTH_INFLUENCE, QS_CONTRACTED}},
    {"influence-counted", {QS_DEPTH_INFLUENCE, QS_COUNTED}},
    {"flat", {QS_DEPTH_FLAT, QS_PLAIN}},
    {"flat-contracted", {QS_DEPTH_FLAT, QS_CONTRACTED}},
    {"flat-counted", {QS_DEPTH_FLAT, QS_COUNTED}},
};
#define CONVENTIONS (sizeof conventions / sizeof *conventions)

const char *qs_convention_name_at(size_t index) {
    return index < CONVENTIONS ? conventions[index].name : NULL;
}

qs_status qs_convention_parse(const char *name, qs_convention *out) {
    for (size_t i = 0; i < CONVENTIONS; i++) {
        if (strcmp(conventions[i].name, name) != 0) continue;
        *out = conventions[i].convention;
        return QS_OK;
    }
    return qs_fail(QS_USAGE, "unknown convention %s: there are %s", name, qs_names_join(CONVENTIONS, qs_convention_name_at));
}

const char *qs_convention_name(qs_convention convention) {
    size_t i = 0;
    while (conventions[i].convention.depth != convention.depth || conventions[i].convention.contraction != convention.contraction)
        i++;
    return conventions[i].name;
}

/* ---- Ω ------------------------------------------------------------------------------------------------------------------------------ */

static void depth_factors(const qs_sensitivity *one, qs_depth depth, double *forward, double *backward) {
    const double gamma2 = one->gamma * one->gamma, rest = one->model_depth - one->depth;
    *forward = gamma2 * (depth == QS_DEPTH_PAPER ? one->depth : depth == QS_DEPTH_INFLUENCE ? rest : one->model_depth);
    *backward = depth == QS_DEPTH_PAPER ? rest : one->depth;
}

/* Where all products are integer, a value that is never negative has unsigned codes, as lowering does it: its step is about half. */
static qs_quantizer input_form(const qs_sensitivity *one, const qs_recipe *recipe) {
    qs_quantizer form = recipe->forward.src;
    char name[sizeof form.format->name + 1];
    const qs_format *other;
    if (form.format->kind != QS_KIND_INTEGER || recipe->weight_gradient.diff_dst.format->kind != QS_KIND_INTEGER) return form;
    snprintf(name, sizeof name, "u%s", form.format->name);
    if (one->v.minimum >= 0 && qs_format_find(name, &other) == QS_OK) form.format = other;
    return form;
}

/* σ_fp and σ_bp, eq. (3.6). */
static qs_status sigmas(const qs_sensitivity *one, const qs_recipe *recipe, bool exact, double *forward, double *backward) {
    double v, x, gv;
    const qs_quantizer src = input_form(one, recipe);
    QS_TRY(qs_rounding_variance(&one->v, &src, false, exact, "input activation", &v));
    *forward = v;
    *backward = 0;
    if (one->x.count == 0) return QS_OK;
    QS_TRY(qs_rounding_variance(&one->x, &recipe->forward.weights, false, exact, "weights", &x));
    QS_TRY(qs_rounding_variance(&one->gv, &recipe->weight_gradient.diff_dst, false, exact, "output gradient", &gv));
    *forward = one->x.norm2 * v + one->v.norm2 * x;
    *backward = one->gv.norm2 * v + one->v.norm2 * gv;
    return QS_OK;
}

static void contract(const qs_sensitivity *one, qs_contraction contraction, double *forward, double *backward) {
    switch (contraction) {
    case QS_CONTRACTED:
        *forward /= one->inner_forward;
        *backward /= one->inner_backward;
        break;
    case QS_COUNTED:
        *forward *= one->products / (one->x.count * one->v.count);
        *backward *= one->products / (one->v.count * one->gv.count);
        break;
    case QS_PLAIN:
        break;
    }
}

double qs_omega_accumulators(const qs_sensitivity *one, const double loss[QS_GEMMS], qs_convention convention) {
    double forward, backward;
    double sigma_forward = loss[QS_GEMM_FORWARD] * one->x.norm2 * one->v.norm2;
    double sigma_backward = (loss[QS_GEMM_WEIGHT_GRADIENT] + loss[QS_GEMM_INPUT_GRADIENT]) * one->v.norm2 * one->gv.norm2;
    depth_factors(one, convention.depth, &forward, &backward);
    if (one->x.count > 0) contract(one, convention.contraction, &sigma_forward, &sigma_backward);
    return forward * sigma_forward + backward * sigma_backward;
}

qs_status qs_omega(const qs_sensitivity *one, const qs_recipe *recipe, qs_convention convention, double *out) {
    double forward, backward, sigma_forward, sigma_backward;
    depth_factors(one, convention.depth, &forward, &backward);
    QS_TRY(sigmas(one, recipe, convention.contraction != QS_PLAIN, &sigma_forward, &sigma_backward));
    if (one->x.count > 0) contract(one, convention.contraction, &sigma_forward, &sigma_backward);
    *out = forward * sigma_forward + backward * sigma_backward;
    return QS_OK;
}
