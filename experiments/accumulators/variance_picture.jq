# SPDX-License-Identifier: Apache-2.0
# variances.csv (raw text) -> picture: a row an adder, a column a step of training; operators along the axis, in the order of the model.
include "csv";

def setting: [.model, .dataset, .batch, .rate, .chunk];
def title: if .[0] == "formula" then "PP = " + (.[1]
    | sub("-"; "−")) elif .[0] == "adder" then "derived for the adder" else "\(.[0]) bits" end;

csv_rows as $all | ($all[0] | setting) as $first | ($all | map(select(setting == $first))) as $rows
| ($rows | map(.step | tonumber) | unique) as $steps | ($rows | map(select(.widths != "baseline") | .adder) | unique) as $adders
| def data($step; $widths; $adder): [$rows | map(select((.step | tonumber) == $step and [.widths,
    .bits_off] == $widths and .adder == $adder))
    | to_entries[] | [.key, (.value.variance | tonumber | if . > 0 then . else null end)]];
  {title: "\($first | join(",")): variance of the weight gradient, operators in the order of the model", width: 1100,
   height: (60 + 260 * ($adders | length)), columns: ($steps | length), panels: [$adders[] as $adder | $steps[] as $step
   | ($rows | map(select((.step | tonumber) == $step and .adder == $adder and .widths != "baseline") | [.widths, .bits_off])
       | unique) as $tried
   | {title: "\($adder), step \($step)", x: {label: "operator"}, y: {log: true},
      series: ([{title: "wide", color: "#bbbbbb", width: 5, data: data($step; ["baseline", "0"]; "nearest-even")}]
               + [$tried[] as $one | {title: ($one | title), draw: "both", data: data($step; $one; $adder)}])}]}
