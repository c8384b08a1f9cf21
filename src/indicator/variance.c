// SPDX-License-Identifier: Apache-2.0
/* Variance that quantizing one tensor adds (docs/method.md §3.1): from a bound on its steps, or exact sums, measured or estimated from the
 * histogram of binary exponents, of even grids and of powers of two. */
#include <math.h>

#include "qsync/blocks.h"
#include "qsync/indicator.h"

/* Stochastic rounding has variance q²/6 of a uniform remainder; nearest's error q²/12 taken as uniform; floor and toward-zero q²/12 and
 * the square of a bias of q/2. */
static double rounding_factor(qs_rounding rounding) {
    switch (rounding) {
    case QS_STOCHASTIC:
        return 1.0;
    case QS_FLOOR:
    case QS_TOWARD_ZERO:
        return 2.0;
    default:
        return 0.5;
    }
}

static bool per_channel(const qs_quantizer *quantizer) {
    return quantizer->granularity == QS_PER_CHANNEL && !quantizer->channel_is_input;
}

/* Σ range² over the elements in shift groups (docs/method.md §9.4). The range of a group is 1 to 2 times a channel's own, whose logarithm
 * is taken as uniform: the mean of its square is 3 / (2 ln 2); channels below all groups have that of the last one, 2^-(G-1) of the
 * tensor's. No channel has more than the tensor's. */
static double shifted_range2(double channels2, double range2, int groups) {
    const double doubled = 3 / (2 * log(2));
    return fmin(range2, doubled * channels2 + ldexp(range2, -2 * (groups - 1)));
}

/* Σ q² over the elements: of an integer format. */
static double integer_step2(const qs_spread *tensor, const qs_quantizer *quantizer, bool asymmetric) {
    const double levels = asymmetric ? ldexp(1, quantizer->format->bits) - 1 : quantizer->format->max;
    const double range = asymmetric ? tensor->maximum - tensor->minimum : tensor->absmax;
    double range2 = range * range * tensor->count;
    if (quantizer->granularity == QS_SHIFT_GROUPS)
        range2 = shifted_range2(asymmetric ? tensor->channel_range2 : tensor->channel_absmax2, range2, quantizer->shift_groups);
    if (per_channel(quantizer)) range2 = asymmetric ? tensor->channel_range2 : tensor->channel_absmax2;
    return range2 / (levels * levels);
}

/* Σ q² over the elements: of a float format, all with the step of the largest. */
static double float_step2(const qs_spread *tensor, const qs_format *format) {
    const double q = ldexp(format->epsilon, qs_effective_exponent((float)tensor->absmax));
    return q * q * tensor->count;
}

/* ∫ f (1 - f) from 0 to u, f the fractional part. */
static double spread_integral(double u) {
    const double whole = floor(u), f = u - whole;
    return whole / 6 + f * f * (0.5 - f / 3);
}

/* Mean of q² f (1 - f) over values uniform from `low` to 2 low. */
static double binade_variance(double low, double q) {
    const double u = low / q;
    return q * q * (spread_integral(2 * u) - spread_integral(u)) / u;
}

/* Σ q² f (1 - f) by the histogram: floats (step 0) with a step per binary exponent. False when there is no histogram. */
static bool histogram_variance(const qs_spread *tensor, const qs_format *format, double step, double *out) {
    double sum = 0, elements = 0;
    for (int i = 0; tensor->range_histogram && i < QS_EXPONENTS; i++) {
        const double count = tensor->range_histogram[i];
        if (count == 0) continue;
        const double low = ldexp(1, i + QS_LOWEST_EXPONENT + tensor->histogram_shift);
        sum += count * binade_variance(low, step > 0 ? step : fmax(low, format->min_normal) * format->epsilon);
        elements += count;
    }
    *out = sum * tensor->histogram_factor;
    return elements > 0;
}

/* ---- Codes that are no even grid, and ranges that are no largest magnitude ---- */

enum { SLICES = 16 };

/* The upper end of the part of a binade that the tensor has. */
static double binade_end(const qs_spread *tensor, double low) {
    return fmin(2 * low, fmax(tensor->absmax, 1.001 * low));
}

/* Mean density of magnitudes in a binade; 0: there is nothing. */
static double density_of(const qs_spread *tensor, int i) {
    const double low = ldexp(1, i + QS_LOWEST_EXPONENT + tensor->histogram_shift);
    return i < 0 ? 0 : tensor->range_histogram[i] / (binade_end(tensor, low) - low);
}

/* How fast the logarithm of the density falls from the middle of the binade below to that of a binade. */
static double decay_of(const qs_spread *tensor, int i) {
    const double low = ldexp(1, i + QS_LOWEST_EXPONENT + tensor->histogram_shift), below = density_of(tensor, i - 1),
                 here = density_of(tensor, i);
    return here > 0 && below > here ? log(below / here) / ((low + binade_end(tensor, low)) / 2 - 0.75 * low) : 0;
}

/* Density at x within a binade, but for a factor: its logarithm is a parabola through the decays before, as that of a normal distribution
 * is. */
static double density_at(const qs_spread *tensor, int i, double x) {
    const double low = ldexp(1, i + QS_LOWEST_EXPONENT + tensor->histogram_shift),
                 middle = ((low + binade_end(tensor, low)) / 2 + 0.75 * low) / 2;
    const double decay = decay_of(tensor, i), faster = fmax((decay - decay_of(tensor, i - 1)) / (middle - 0.5625 * low), 0);
    return exp(-(x - middle) * (decay + faster * (x - middle) / 2));
}

/* Σ f over the elements, given the integral of f from 0 to u, in units of q. The tail of a tensor is told by how few elements its last
 * binades have: density falls within a binade as it does from one to the next. */
typedef double (*integral)(double u, double end);
static double histogram_sum(const qs_spread *tensor, double q, double end, integral of) {
    double sum = 0;
    for (int i = 0; i < QS_EXPONENTS; i++) {
        const double count = tensor->range_histogram[i], low = ldexp(1, i + QS_LOWEST_EXPONENT + tensor->histogram_shift);
        if (count == 0) continue;
        const double width = (binade_end(tensor, low) - low) / SLICES;
        double weighted = 0, weights = 0;
        for (int slice = 0; slice < SLICES; slice++) {
            const double from = low + slice * width, weight = density_at(tensor, i, from + width / 2);
            weighted += weight * (of((from + width) / q, end) - of(from / q, end));
            weights += weight;
        }
        sum += count * q * q * weighted / weights * q / width;
    }
    return sum * tensor->histogram_factor;
}

static bool has_histogram(const qs_spread *tensor) {
    double elements = 0;
    for (int i = 0; tensor->range_histogram && i < QS_EXPONENTS; i++)
        elements += tensor->range_histogram[i];
    return elements > 0;
}

/* ∫ (t - a)(b - t) from 0 to u, where a and b are 0 and 1, or the powers of two around t; none beyond the largest. */
static double powers_integral(double u, double largest) {
    const double t = fmin(u, largest);
    if (t <= 1) return t * t / 2 - t * t * t / 3;
    const double a = ldexp(1, ilogb(t));
    return 1.0 / 6 + (a * a * a - 1) / 42 - (t * t * t - a * a * a) / 3 + 1.5 * a * (t * t - a * a) - 2 * a * a * (t - a);
}

/* Without a histogram all elements have the distance of the two largest codes. */
static double logarithmic_variance(const qs_spread *tensor, const qs_format *format, bool exact) {
    const double step = tensor->absmax / format->max;
    if (!exact || !has_histogram(tensor)) return pow(step * fmax(format->max / 2, 1), 2) * tensor->count / 6;
    return tensor->absmax > 0 ? histogram_sum(tensor, step, format->max, powers_integral) : 0;
}

/* ∫ of the squared distance to the nearest whole number up to the last one, from 0 to u. */
static double nearest_integral(double u, double last) {
    const double inside = fmin(u, last), whole = floor(inside), f = inside - whole, beyond = u - inside;
    const double part = f <= 0.5 ? f * f * f / 3 : 1.0 / 12 - (1 - f) * (1 - f) * (1 - f) / 3;
    return whole / 12 + part + beyond * beyond * beyond / 3;
}

/* What clipping at the range of least squared error leaves of the error that codes of the whole range have. */
static double clipped_share(const qs_spread *tensor, const qs_format *format) {
    double whole = 0, least = INFINITY;
    if (!has_histogram(tensor) || !(tensor->absmax > 0)) return 1;
    for (int c = 0; c < QS_CLIPS; c++) {
        const double step = (double)qs_clip_ratio(c) * tensor->absmax / format->max;
        const double error = histogram_sum(tensor, step, format->max, nearest_integral);
        if (c == 0) whole = error;
        least = fmin(least, error);
    }
    return whole > 0 ? least / whole : 1;
}

/* The format that values of a block have where its largest magnitude is the tensor's: the elements times that block's scale. Blocks of
 * smaller values have finer grids, so it is a bound. */
static qs_format block_grid(const qs_spread *tensor, const qs_block_format *blocks) {
    const double scale = (double)qs_block_scale(blocks, (float)tensor->absmax, qs_tensor_scale(blocks, (float)tensor->absmax));
    qs_format out = *blocks->element;
    out.min_normal *= scale;
    out.min_subnormal *= scale;
    return out;
}

static double measured_variance(const qs_spread *tensor, const qs_quantizer *quantizer, bool asymmetric) {
    const qs_format *format = quantizer->format;
    if (format == qs_format_of("bf16")) return tensor->variance_bf16;
    if (format == qs_format_of("fp16")) return tensor->variance_fp16;
    if (format != qs_format_of("int8") || asymmetric || quantizer->granularity == QS_SHIFT_GROUPS) return NAN;
    return per_channel(quantizer) ? tensor->variance_int8_channel : tensor->variance_int8;
}

double qs_overflow_share(const qs_spread *tensor, const qs_format *format) {
    double beyond = 0, elements = 0;
    for (int i = 0; tensor->range_histogram && i < QS_EXPONENTS; i++) {
        const double low = ldexp(1, i + QS_LOWEST_EXPONENT + tensor->histogram_shift);
        elements += tensor->range_histogram[i];
        beyond += tensor->range_histogram[i] * fmin(1, fmax(0, 2 - format->max / low)); /* uniform from low to 2 low */
    }
    return elements > 0 ? beyond * tensor->histogram_factor / tensor->count : 0;
}

static qs_status range_check(const qs_spread *tensor, const qs_format *format, const char *what) {
    if (format->kind == QS_KIND_INTEGER || tensor->absmax <= format->max) return QS_OK;
    return qs_fail(QS_INFEASIBLE, "%s reaches %g, beyond the largest value %g of %s (%.2g %% of its elements are)", what, tensor->absmax,
                   format->max, format->name, 100 * qs_overflow_share(tensor, format));
}

qs_status qs_rounding_variance(const qs_spread *tensor, const qs_quantizer *quantizer, bool asymmetric, bool exact, const char *what,
                               double *out) {
    qs_format grid;
    const qs_format *format = quantizer->format;
    if (quantizer->blocks) {
        grid = block_grid(tensor, quantizer->blocks);
        format = &grid;
    } else {
        QS_TRY(range_check(tensor, format, what));
    }
    const bool integer = format->kind == QS_KIND_INTEGER;
    if (quantizer->granularity == QS_HADAMARD)
        return qs_fail(
            QS_UNSUPPORTED,
            "%s: the variance of codes behind a Hadamard transform needs the transformed values' maximum, which no profile holds: "
            "compare such recipes by training them, or use shift groups (int4:shift4)",
            what);
    if (format->is_logarithmic) {
        *out = rounding_factor(quantizer->rounding) * logarithmic_variance(tensor, format, exact);
        return QS_OK;
    }
    const double step2 = integer ? integer_step2(tensor, quantizer, asymmetric) : float_step2(tensor, format);
    if (!(step2 >= 0))
        return qs_fail(QS_MISMATCH, "%s: the profile lacks what the step of %s needs: profile this model again", what, format->name);
    const double step = integer ? sqrt(step2 / fmax(tensor->count, 1)) : 0;
    double sum = exact && !quantizer->blocks ? measured_variance(tensor, quantizer, asymmetric) : NAN;
    if (isnan(sum) && !(exact && (step > 0 || !integer) && histogram_variance(tensor, format, step, &sum))) sum = step2 / 6;
    if (exact && quantizer->least_squares) sum *= clipped_share(tensor, format);
    *out = rounding_factor(quantizer->rounding) * sum;
    return QS_OK;
}
