# SPDX-License-Identifier: Apache-2.0
# $curves and $results (raw text of CSV files) -> picture of losses of the runs of the first seed: a row of panels for each model and way of
# training, a panel an adder with the baseline in each. A color means the same widths in every panel.
include "csv";

def setting: [.model, .dataset, .batch, .steps, .rate, .chunk];
def widths: [.widths, .bits_off];
# Mean loss of 5 lines of metrics each, so that curves can be told apart.
def smooth: . as $all | [range(0; length - 4; 5) as $i | [($all[$i + 4].step | tonumber), ([$all[$i:$i + 5][] | .loss | tonumber] | mean)]];
def style: if .[0] == "formula" then {"0": {title: "PP = 0", color: "#1b9e77"}, "-1": {title: "PP = −1", color: "#d95f02"},
                                      "-2": {title: "PP = −2", color: "#7570b3"}}[.[1]]
    elif .[0] == "adder" then {title: "derived for the adder", color: "#e7298a"} else {title: "\(.[0]) bits", color: "#e6ab02"} end;

($curves | csv_rows) as $lines | ($results | csv_rows) as $runs
| ($runs | first_seen(setting)) as $settings | ($runs | map(.adder) | unique) as $adders
| def series($of; $how; $by): $lines | map(select(setting == $of and widths == $how and .adder == $by))
    | .[0].seed as $seed | map(select(.seed == $seed)) | smooth;
  {title: "training loss, first seed; what leaves the picture diverges", width: 1100, height: (360 * ($settings | length) + 30),
   columns: ($adders | length), panels: [$settings[] as $setting | series($setting; ["baseline", "0"]; "nearest-even") as $baseline
   | $adders[] as $adder | ($runs | map(select(setting == $setting and .adder == $adder and .widths != "baseline") | widths)
       | unique) as $tried
   | if $tried == [] then {} else
     {title: "\($setting[0]), \($setting[2]) images: \($adder)", x: {label: "step"},
      y: {low: (0.94 * ($baseline | map(.[1]) | min)), high: (1.2 * $baseline[0][1])},
      series: ([{title: "baseline", color: "#999999", width: 3, data: $baseline}]
               + [$tried[] as $one | series($setting; $one; $adder) as $data | select($data != []) | ($one | style) + {width: 2,
                   $data}])} end]}
