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
    {"paper", {QS_WEIGHTING_PAPER, QS_PLAIN}},
    {"paper-contracted", {QS_WEIGHTING_PAPER, QS_CONTRACTED}},
    {"paper-counted", {QS_WEIGHTING_PAPER, QS_COUNTED}},
    {"influence", {QS_WEIGHTING_INFLUENCE, QS_PLAIN}},
    {"influence-contracted", {QS_WEIGHTING_INFLUENCE, QS_CONTRACTED}},
    {"influence-counted", {QS_WEIGHTING_INFLUENCE, QS_COUNTED}},
    {"flat", {QS_WEIGHTING_FLAT, QS_PLAIN}},
    {"flat-contracted", {QS_WEIGHTING_FLAT, QS_CONTRACTED}},
    {"flat-counted", {QS_WEIGHTING_FLAT, QS_COUNTED}},
    {"gain", {QS_WEIGHTING_GAIN, QS_PLAIN}},
    {"gain-contracted", {QS_WEIGHTING_GAIN, QS_CONTRACTED}},
    {"gain-counted", {QS_WEIGHTING_GAIN, QS_COUNTED}},
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
    while (conventions[i].convention.weighting != convention.weighting || conventions[i].convention.contraction != convention.contraction)
        i++;
    return conventions[i].name;
}

/* ---- Ω ------------------------------------------------------------------------------------------------------------------------------ */

/* docs/method.md eqs. (3.7) and (3.8). */
static void weighting_factors(const qs_sensitivity *one, qs_weighting weighting, double *forward, double *backward) {
    const double rest = one->model_depth - one->depth;
    const double ahead[] = {[QS_WEIGHTING_PAPER] = one->depth,
                            [QS_WEIGHTING_INFLUENCE] = rest,
                            [QS_WEIGHTING_FLAT] = one->model_depth,
                            [QS_WEIGHTING_GAIN] = one->gain};
    const double behind[] = {
        [QS_WEIGHTING_PAPER] = rest, [QS_WEIGHTING_INFLUENCE] = one->depth, [QS_WEIGHTING_FLAT] = one->depth, [QS_WEIGHTING_GAIN] = 1};
    *forward = one->gamma * one->gamma * ahead[weighting];
    *backward = behind[weighting];
}

/* Where all products are integer, a value that is never negative has unsigned codes, as lowering does it: its step is about half. A factor
 * of a product of two activations has one step, and so has one of a product inside a pass, but for weights. */
static qs_quantizer form_of(const qs_sensitivity *one, const qs_recipe *recipe, const qs_quantizer *quantizer, const qs_spread *input) {
    qs_quantizer form = *quantizer;
    char name[sizeof form.format->name + 1];
    const qs_format *other;
    if (one->activations || (one->inner && form.granularity != QS_PER_CHANNEL)) {
        form.granularity = QS_PER_TENSOR;
        form.blocks = NULL;
    }
    if (one->inner && (!one->codes || form.format->kind == QS_KIND_FLOAT)) form.format = qs_format_of("fp32"); /* as it is multiplied */
    if (one->inner) return form;
    if (!input || form.format->kind != QS_KIND_INTEGER || recipe->weight_gradient.diff_dst.format->kind != QS_KIND_INTEGER) return form;
    snprintf(name, sizeof name, "u%s", form.format->name);
    if (input->minimum >= 0 && qs_format_find(name, &other) == QS_OK) form.format = other;
    return form;
}

/* Noise by the product that makes it. */
typedef struct noise {
    double forward, backward; /* σ_fp; σ_bp of weights, or of the second activation's gradient */
    double first;             /* of the first one's gradient; 0: there are weights */
} noise;

static qs_status rounding(const qs_sensitivity *one, const qs_recipe *recipe, const qs_quantizer *quantizer, const qs_spread *tensor,
                          bool input, bool exact, const char *what, double *out) {
    const qs_quantizer form = form_of(one, recipe, quantizer, input ? tensor : NULL);
    return qs_rounding_variance(tensor, &form, false, exact, what, out);
}

/* docs/method.md eq. (3.6), and below it the sum for products of two activations. */
static qs_status sigmas(const qs_sensitivity *one, const qs_recipe *recipe, bool exact, noise *out) {
    double v, x, gv;
    QS_TRY(rounding(one, recipe, &recipe->forward.src, &one->v, true, exact, "input activation", &v));
    *out = (noise){.forward = v};
    if (one->x.count == 0) return QS_OK;
    QS_TRY(rounding(one, recipe, &recipe->forward.weights, &one->x, one->activations, exact,
                    one->activations ? "second activation" : "weights", &x));
    QS_TRY(rounding(one, recipe, &recipe->weight_gradient.diff_dst, &one->gv, false, exact, "output gradient", &gv));
    out->forward = one->x.norm2 * v + one->v.norm2 * x;
    out->backward = one->gv.norm2 * v + one->v.norm2 * gv;
    if (!one->activations) return QS_OK;
    QS_TRY(rounding(one, recipe, &recipe->input_gradient.weights, &one->x, true, exact, "second activation", &x));
    QS_TRY(rounding(one, recipe, &recipe->input_gradient.diff_dst, &one->gv, false, exact, "output gradient", &gv));
    out->first = one->gv.norm2 * x + one->x.norm2 * gv;
    return QS_OK;
}

/* In a matrix product both ways of counting are the same. */
static void contract(const qs_sensitivity *one, qs_contraction contraction, noise *to) {
    if (contraction != QS_PLAIN && one->activations) to->first *= one->products / (one->x.count * one->gv.count);
    switch (contraction) {
    case QS_CONTRACTED:
        to->forward /= one->inner_forward;
        to->backward /= one->inner_backward;
        break;
    case QS_COUNTED:
        to->forward *= one->products / (one->x.count * one->v.count);
        to->backward *= one->products / (one->v.count * one->gv.count);
        break;
    case QS_PLAIN:
        break;
    }
}

double qs_omega_accumulators(const qs_sensitivity *one, const double loss[QS_GEMMS], qs_convention convention) {
    double forward, backward;
    const double of_input = loss[QS_GEMM_INPUT_GRADIENT], of_weights = loss[QS_GEMM_WEIGHT_GRADIENT];
    noise sigma = {.forward = loss[QS_GEMM_FORWARD] * one->x.norm2 * one->v.norm2,
                   .backward = (of_weights + (one->activations ? 0 : of_input)) * one->v.norm2 * one->gv.norm2};
    if (one->activations) sigma.first = of_input * one->x.norm2 * one->gv.norm2;
    weighting_factors(one, convention.weighting, &forward, &backward);
    if (one->x.count > 0) contract(one, convention.contraction, &sigma);
    return forward * sigma.forward + backward * (sigma.backward + sigma.first);
}

qs_status qs_omega(const qs_sensitivity *one, const qs_recipe *recipe, qs_convention convention, double *out) {
    double forward, backward;
    noise sigma;
    weighting_factors(one, convention.weighting, &forward, &backward);
    QS_TRY(sigmas(one, recipe, convention.contraction != QS_PLAIN, &sigma));
    if (one->x.count > 0) contract(one, convention.contraction, &sigma);
    *out = forward * sigma.forward + backward * (sigma.backward + sigma.first);
    return QS_OK;
}
