// SPDX-License-Identifier: Apache-2.0
/* What an adder retains of the variance, from what it does to one addition (docs/accumulators.md has the derivation).
 *
 * The sum s before an addition is taken as normal with variance V, its last place as u, a power of two that follows from the power of two
 * below |s|; the addend p as uniform on its lattice within each power of two. With p rounded to whole u as the adder does, V grows by
 *
 *   E[rounded p²] - E[|s| u] · (share of p that lies between places)   the second for toward-zero: p cut off towards s = 0 pulls |s| down
 *                                                                      by half a place
 *   + 2 Σ c f(c) edge(u_c)                                             over the powers of two c = 2^k, f the density of |s|
 *
 * where `edge` is what additions around c do that whole u do not: below c the places are half as wide, so that a sum that crosses upwards
 * loses its lowest bit (align-truncate), and values above c are left sooner than those below (nearest-even). */
#include <math.h>
#include <string.h>

#include "accumulator_internal.h"

enum { LOWEST = -45, HIGHEST = 8, BINADES = HIGHEST - LOWEST, NARROWEST = -60, WIDEST = 28, PLACES = WIDEST - NARROWEST };

typedef enum adding { ALIGNED, NEAREST, CUT, BY_CHANCE, KINDS } adding;
static const char *const kind_names[KINDS] = {"align-truncate", "nearest-even", "toward-zero", "stochastic"};

/* Addends of a standard deviation near 1, by powers of two. */
typedef struct addends {
    int bits;
    double share[BINADES]; /* of those with 2^(LOWEST + i) <= |p| < twice that; together 1 */
    double square;         /* mean */
} addends;

/* For sums whose last place is 2^(NARROWEST + i). */
typedef struct place {
    double square, between; /* mean square of rounded addends; share of them that lie between two places */
    double edge;            /* of sums at the lowest value with this last place, in places */
} place;

typedef struct model {
    adding kind;
    addends of;
    place place[PLACES];
} model;

/* ---- Addends --------------------------------------------------------------------------------------------------------------- */

static double below_normal(double value) {
    return erf(value * sqrt(0.5));
}

/* Of the product of two: the mean of below_normal(value / |x|) over a normal x, by equal steps of log |x|. */
static double below_product(double value) {
    const double pi = 3.141592653589793, low = -14, high = 2.2;
    const int steps = 400;
    double sum = 0;
    for (int i = 0; i < steps; i++) {
        const double x = exp(low + (high - low) * (i + 0.5) / steps);
        sum += 2 / sqrt(2 * pi) * exp(-x * x / 2) * x * below_normal(value / x);
    }
    return sum * (high - low) / steps;
}

/* Mean and mean square of k, uniform over the integers first .. 2 first - 1. */
static double mean_of(double first) {
    return (3 * first - 1) / 2;
}
static double square_of(double first) {
    return (14 * first * first - 9 * first + 1) / 6;
}

/* Mean square of addends from 2^exponent on, on their own lattice. */
static double lattice_square(int exponent, int bits) {
    return ldexp(square_of(ldexp(1, bits)), 2 * (exponent - bits));
}

static addends addends_make(qs_addends what, int bits) {
    addends out = {.bits = bits};
    double before = 0, sum = 0;
    for (int i = 0; i <= BINADES; i++) {
        const double limit = ldexp(1, LOWEST + i), below = what == QS_ADDENDS_NORMAL ? below_normal(limit) : below_product(limit);
        if (i > 0) out.share[i - 1] = fmax(0, below - before);
        before = below;
    }
    for (int i = 0; i < BINADES; i++)
        sum += out.share[i];
    for (int i = 0; i < BINADES; i++) {
        out.share[i] /= sum;
        out.square += out.share[i] * lattice_square(LOWEST + i, bits);
    }
    return out;
}

/* ---- Addends in whole places -------------------------------------------------------------------------------------------------- */

/* Share of the addends from 2^exponent on that go to the place above the one below them; `away`: those whose magnitude falls with s. */
static double up_share(adding kind, int exponent, int bits, int last, bool away) {
    const double positions = ldexp(1, last - exponent + bits), lowest = ldexp(1, -bits);
    switch (kind) {
    case CUT:
        return away ? last <= exponent ? 1 - 1 / positions : 1 : 0;
    case NEAREST:
        return last <= exponent ? 0.5 - 0.5 / positions : last == exponent + 1 ? 1 - lowest / 2 : 0;
    case BY_CHANCE:
        return last <= exponent ? 0.5 - 0.5 / positions : ldexp(1.5 - lowest / 2, exponent - last);
    default:
        return 0;
    }
}

static double rounded_square(adding kind, int exponent, int bits, int last, bool away) {
    if (last <= exponent - bits) return lattice_square(exponent, bits);
    const double first = last <= exponent ? ldexp(1, exponent - last) : 0, up = up_share(kind, exponent, bits, last, away);
    const double mean = first > 0 ? mean_of(first) : 0, square = first > 0 ? square_of(first) : 0;
    return ldexp(square + up * (2 * mean + 1), 2 * last);
}

static place place_make(adding kind, const addends *of, int last) {
    place out = {0};
    for (int i = 0; i < BINADES; i++) {
        const int exponent = LOWEST + i;
        out.square += of->share[i] / 2 *
                      (rounded_square(kind, exponent, of->bits, last, false) + rounded_square(kind, exponent, of->bits, last, true));
        if (last > exponent - of->bits) out.between += of->share[i] * up_share(CUT, exponent, of->bits, last, true);
    }
    return out;
}

/* ---- Around a power of two ------------------------------------------------------------------------------------------------------ */

/* `value`, in places of those above c, rounded to places of `width`; c is even in them. Stochastic rounding moves nothing on average. */
static double landing(adding kind, double value, double width) {
    return kind == NEAREST ? rint(value / width) * width : kind == BY_CHANCE ? value : floor(value / width) * width;
}

/* A sum that is `above` c, less an addend that takes it below: what it becomes less what whole places make of it. */
static double falling(adding kind, double above, double addend) {
    if (kind == ALIGNED) return 0; /* the larger operand's places hold, and finer ones below lose nothing */
    return landing(kind, above - addend, 0.5) - landing(kind, above - addend, 1);
}

static double rising(adding kind, double below, double addend) {
    const double aligned = floor(2 * addend) / 2 - below;
    if (kind == ALIGNED) return floor(aligned) - aligned;
    return landing(kind, addend - below, 1) - landing(kind, addend - below, 0.5);
}

/* Over sums around c, as dense as their places: at c itself three quarters of one. */
static double addend_edge(adding kind, double addend) {
    double sum = 0;
    for (int above = 0; above < addend; above++)
        sum += (above > 0 ? 1 : 0.75) * falling(kind, above, addend);
    for (int below = 1; below <= 2 * addend; below++)
        sum += 0.5 * rising(kind, 0.5 * below, addend);
    return sum / 2; /* half of the addends have each sign */
}

/* Addends of many places: nearest-even loses 1/32 of a square place; of those that align-truncate carries over the edge, in proportion to
 * their size, every second loses half a place. */
static double edge_of(adding kind, const addends *of, int last) {
    enum { MANY = 4 };
    const int steps = 1 << (of->bits < MANY ? of->bits : MANY);
    double sum = 0, finer = 0;
    for (int i = 0; i < BINADES; i++) {
        const int exponent = LOWEST + i;
        const double positions = ldexp(1, last - exponent + of->bits);
        if (positions >= 1) finer += of->share[i];
        if (positions <= 1 && kind != ALIGNED) continue;
        if (exponent - last >= MANY) {
            sum += of->share[i] * (kind == ALIGNED   ? -ldexp(1.5, exponent - last) / 8
                                   : kind == NEAREST ? (1 / (positions * positions) - 1) / 32
                                                     : 0);
            continue;
        }
        for (int m = 0; m < steps; m++)
            sum += of->share[i] / steps * addend_edge(kind, ldexp(1 + (double)m / steps, exponent - last));
    }
    return kind == ALIGNED ? sum * sqrt(finer) : sum;
}

static void model_make(adding kind, qs_addends what, int bits, model *out) {
    out->kind = kind;
    out->of = addends_make(what, bits);
    for (int i = 0; i < PLACES; i++) {
        out->place[i] = place_make(kind, &out->of, NARROWEST + i);
        out->place[i].edge = edge_of(kind, &out->of, NARROWEST + i);
    }
}

/* ---- The sum's variance -------------------------------------------------------------------------------------------------------- */

/* By how much an addition makes it grow. */
static double growth(const model *one, int accumulator_bits, double variance) {
    const double pi = 3.141592653589793, deviation = sqrt(variance);
    const int first = ilogb(deviation) - 14, end = first + 18;
    double sum = 0, below = 0;
    for (int k = first; k < end; k++) {
        const double low = ldexp(1, k) / deviation, above = erf(2 * low * sqrt(0.5)), density = 2 / sqrt(2 * pi) * exp(-low * low / 2);
        const int last = k - accumulator_bits, index = last < NARROWEST ? 0 : last >= WIDEST ? PLACES - 1 : last - NARROWEST;
        const place *at = &one->place[index];
        sum += (above - below) * at->square + 2 * low * density * at->edge * ldexp(1, 2 * last);
        if (one->kind == CUT) {
            const double inner = k > first ? density : 2 / sqrt(2 * pi);
            sum -= deviation * (inner - 2 / sqrt(2 * pi) * exp(-2 * low * low)) * ldexp(1, last) * at->between;
        }
        below = above;
    }
    return sum;
}

/* VRR of n additions: one by one at first, then in steps of 1/32 of what is done, by the midpoint rule. Where growth falls with variance,
 * steps are no longer than half the time in which it settles, and there is nothing left to do once it has. */
static double retained(const model *one, int accumulator_bits, double n) {
    const double least = 1e-6 * one->of.square, nudge = 1e-4, settled = 1e-7;
    double variance = one->of.square;
    for (double done = 1, step; done < n; done += step) {
        const double rate = growth(one, accumulator_bits, variance);
        const double slope = (growth(one, accumulator_bits, variance * (1 + nudge)) - rate) / (nudge * variance);
        if (slope < 0 && fabs(rate) < settled * variance * -slope) break;
        step = done < 64 ? 1 : fmin(fmin(done / 32, n - done), slope < 0 ? 0.5 / -slope : INFINITY);
        const double middle = fmax(variance + step / 2 * rate, least);
        variance = fmax(variance + step * growth(one, accumulator_bits, middle), least);
    }
    return variance / (n * one->of.square);
}

/* ---- The questions ---------------------------------------------------------------------------------------------------------------- */

static qs_status kind_find(const qs_adder *adder, adding *out) {
    for (int k = 0; k < KINDS; k++)
        if (strcmp(qs_adder_name(adder), kind_names[k]) == 0) {
            *out = (adding)k;
            return QS_OK;
        }
    return qs_fail(QS_UNSUPPORTED, "adder %s: nothing is derived for it, measure it with --simulate", qs_adder_name(adder));
}

static qs_status stages_retained(const qs_adder *adder, qs_addends what, const qs_accumulation *sum, int accumulator_bits,
                                 qs__stages *stages, double ratio[2]) {
    adding kind = ALIGNED;
    model one;
    QS_TRY(kind_find(adder, &kind));
    QS_TRY(qs__stages_make(sum, accumulator_bits, stages));
    for (int s = 0; s < stages->stages; s++) {
        model_make(kind, s == 0 ? what : QS_ADDENDS_NORMAL, stages->product_bits[s], &one);
        ratio[s] = retained(&one, accumulator_bits, stages->length[s]);
    }
    return QS_OK;
}

qs_status qs_adder_retention(const qs_adder *adder, qs_addends what, const qs_accumulation *sum, int accumulator_bits, double *out) {
    qs__stages stages;
    double ratio[2];
    QS_TRY(stages_retained(adder, what, sum, accumulator_bits, &stages, ratio));
    *out = ratio[0] * (stages.stages > 1 ? ratio[1] : 1);
    return QS_OK;
}

qs_status qs_adder_exponent(const qs_adder *adder, qs_addends what, const qs_accumulation *sum, int accumulator_bits, double *out) {
    qs__stages stages;
    double ratio[2];
    QS_TRY(stages_retained(adder, what, sum, accumulator_bits, &stages, ratio));
    *out = 0;
    for (int s = 0; s < stages.stages; s++) {
        const double exponent = stages.length[s] * (1 - ratio[s]);
        if (fabs(exponent) >= fabs(*out)) *out = exponent;
    }
    return QS_OK;
}

/* What is lost falls with the width, so halving finds the first that is enough. */
qs_status qs_adder_bits(const qs_adder *adder, qs_addends what, const qs_accumulation *sum, int *out) {
    int low = sum->product_bits, high = QS_MOST_ACCUMULATOR_BITS;
    while (low < high) {
        const int middle = (low + high) / 2;
        double exponent;
        QS_TRY(qs_adder_exponent(adder, what, sum, middle, &exponent));
        if (fabs(exponent) < QS_ACCUMULATION_EXPONENT)
            high = middle;
        else
            low = middle + 1;
    }
    *out = low;
    return QS_OK;
}
