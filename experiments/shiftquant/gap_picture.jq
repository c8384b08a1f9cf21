# SPDX-License-Identifier: Apache-2.0
# gap.csv (raw text) -> picture of the gap over steps.
include "csv";

["#7570b3", "#1b9e77", "#1f78b4", "#d95f02", "#e6ab02", "#e7298a"] as $colors
| csv_rows as $rows | ($rows | first_seen(.variant)) as $variants
| {title: "What 8 bits do to normalised values: ‖rounded - exact‖² / ‖exact‖², mean over operators", width: 800, height: 520,
   panels: [{x: {label: "training step"}, y: {label: "relative squared distance", log: true}, series: [range($variants | length) as $v
     | ($rows | map(select(.variant == $variants[$v]))) as $mine
     | ("gap", "statistics_gap") as $what
     | {title: ($mine[0].norm + (if $what == "gap" then "" else ", statistics alone" end)), color: $colors[$v % ($colors | length)],
        width: (if $what == "gap" then 2 else 1.5 end), dash: ($what != "gap"),
        data: ($mine | group_by(.step | tonumber) | map([(.[0].step | tonumber), (numbers($what) | mean)]))}]}]}
