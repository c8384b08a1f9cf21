# SPDX-License-Identifier: Apache-2.0
# landscape.csv (raw text) -> picture of the loss along directions; all panels have one range.
include "csv";

csv_rows as $rows | ($rows | first_seen(.variant)) as $variants
| ($rows | numbers("loss") | [min, max]) as $all | (0.05 * ($all[1] - $all[0])) as $edge
| {title: "Training loss along random directions through the trained weights, filters normalised", width: (60 + 250 * ($variants | length)),
   height: 340, columns: ($variants | length), panels: [$variants[] as $variant | ($rows | map(select(.variant == $variant))) as $mine
   | {title: "\($mine[0].recipe), \($mine[0].norm)", legend: "none", x: {label: "along the direction"},
      y: {label: (if $variant == $variants[0] then "loss" else "" end), low: ($all[0] - $edge), high: ($all[1] + $edge)},
      series: ($mine | group_by([.seed, .direction]) | map({width: 2, data: map([(.alpha | tonumber),
          (if .loss == "" then null else .loss | tonumber end)])}))}]}
