# SPDX-License-Identifier: Apache-2.0
# retention.csv (raw text) -> retention.md: of each adder the worst errors of VRR, as derived for it and by the formula.
include "csv";

def error(name): (.vrr | tonumber) - (.[name] | tonumber) | fabs;
def worst(name): map(select(.[name] != "") | error(name)) | max | fixed(3);
def at(name): max_by(error(name)) | "\(.bits) bits, \(.length) \(.addends) of \(.product_bits)";

csv_rows | group_by(.adder) as $adders
| "Written by retention.sh: |VRR measured - VRR said|, the worst over \(map([.addends, .product_bits, .length]) | unique | length) settings and all widths in retention.csv.\n",
  (["adder", "measured", "widest interval", "derived: worst error", "at", "where VRR is within 0.05 of 1", "formula: worst error"] | row), ([range(7) | "---"] | row),
  ($adders[] | [.[0].adder, "\(length) widths", "± " + (numbers("interval") | max | fixed(3)), worst("derived_vrr"), at("derived_vrr"),
                (map(select((.vrr | tonumber) - 1 | fabs < 0.05)) | worst("derived_vrr")), worst("formula_vrr")] | row)
