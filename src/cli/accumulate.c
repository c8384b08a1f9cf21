// SPDX-License-Identifier: Apache-2.0
/* The options by which a model's GEMMs get narrow accumulators. */
#include <string.h>

#include "cli.h"

static const option_row option_rows[] = {
    {OPTION(accumulate_options, rule, "accumulate", "RULE",
            "narrow accumulators: \"fp(8,auto)/chunk64/align-truncate\", widths from each GEMM's length; or a number")},
    {OPTION(accumulate_options, bits_off, "accumulator-bits-off", "K", "so many mantissa bits more than auto says, or fewer: -1"),
     .standard = "0", .minimum = -QS_WIDEST_ADDER, .needs = "accumulate"},
    {OPTION(accumulate_options, widths, "accumulator-widths", "BY",
            "auto by the formula of variance retention, or by what the adder retains: adder"),
     .usual = "formula", .needs = "accumulate"},
};

void accumulate_options_add(accumulate_options *options, option_table *table) {
    OPTIONS_ADD(table, option_rows, options);
}

qs_status accumulate_options_read(const accumulate_options *options, qs_accumulation_rule *out) {
    QS_TRY(qs_fail_within(qs_accumulation_rule_find(options->rule, out), "--accumulate"));
    out->bits_more = options->bits_off;
    out->by_adder = options->widths && strcmp(options->widths, "adder") == 0;
    if (options->widths && !out->by_adder && strcmp(options->widths, "formula") != 0)
        return qs_fail(QS_USAGE, "--accumulator-widths %s: formula or adder", options->widths);
    if ((options->widths || options->bits_off) && !out->by_length)
        return qs_fail(QS_USAGE, "--accumulate %s: one width for all; --accumulator-bits-off and --accumulator-widths go with fp(e,auto)",
                       options->rule);
    return QS_OK;
}
