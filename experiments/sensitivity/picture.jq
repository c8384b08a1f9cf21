# SPDX-License-Identifier: Apache-2.0
# results.csv (raw text) -> picture of accuracy over the sum of omega, a panel a model, a point a seed; behind them the range of fp32.
include "csv";

csv_rows as $rows | ($rows | first_seen(.model)) as $models
| [["qsync", "#7570b3"], ["random", "#969696"], ["hess", "#54278f"]] as $indicators
| {width: (540 * ($models | length)), height: 420, columns: ($models | length), panels: [$models[] as $model
   | ($rows | map(select(.model == $model))) as $mine
   | ($mine | map(select(.indicator == "fp32")) | numbers("test_accuracy") | map(. * 100)) as $fp32
   | ($mine | map(select(.indicator != "fp32")) | numbers("sum_omega") | max) as $right
   | ($mine | numbers("test_accuracy") | map(. * 100) | [min, max]) as $all | (($all[1] - $all[0]) / 8 + 0.1) as $room
   | {title: "\($model): two ranks in part of fp32's memory",
      x: {label: "sum of omega by the qsync indicator", low: 0, high: ($right * 1.15)},
      y: {label: "test accuracy, per cent", low: ($all[0] - 2 * $room), high: ($all[1] + $room)},
      marks: [{y: ($fp32 | min), to: ($fp32 | max), color: "#cfe8df"}],
      series: ([$indicators[] as [$name, $color] | ($mine | map(select(.indicator == $name) | [(.sum_omega | tonumber),
          100 * (.test_accuracy | tonumber)])) as $data
                | select($data != []) | {title: $name, $color, draw: "points", $data}]
               + [{title: "fp32, no limit: range over seeds", color: "#cfe8df", draw: "boxes", data: []}])}]}
