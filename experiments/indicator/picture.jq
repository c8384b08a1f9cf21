# SPDX-License-Identifier: Apache-2.0
# results.csv (raw text) -> picture of bars, a group a model, in it a bar an indicator and convention.
include "csv";

["#c6dbef", "#6baed6", "#2171b5", "#fdd0a2", "#fd8d3c", "#a63603", "#c7e9c0", "#74c476", "#238b45", "#dadaeb", "#9e9ac8", "#54278f", "#969696", "#252525"] as $colors
| def model_of: .model | split(":")[0];
  def bar_of: .indicator + (if .convention == "" then "" else " " + .convention end);
  csv_rows | map(select(.warm_up == "20" and .over == "pooled")) as $rows
| ($rows | first_seen(model_of)) as $models | ($rows | first_seen(bar_of)) as $bars
| {title: "Rank correlation of indicators with the measured gradient noise, all operators and recipes", width: 1280, height: 440,
   panels: [{y: {label: "Spearman", low: 0, high: 1}, legend: "right",
             x: {ticks: [range($models | length) as $m | [$m * (($bars | length) + 1.5) + (($bars | length) - 1) / 2, $models[$m]]]},
             series: [range($bars | length) as $b | {title: $bars[$b], color: $colors[$b % ($colors | length)], draw: "bars", width: 1,
                 data:
                [range($models | length) as $m | ($rows | map(select(model_of == $models[$m] and bar_of == $bars[$b]))
                    | numbers("spearman") | mean) as $mean
                 | select($mean != null) | [$m * (($bars | length) + 1.5) + $b, $mean]]}]}]}
