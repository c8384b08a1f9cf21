# SPDX-License-Identifier: Apache-2.0
# results.csv (raw text) -> picture of timelines: lane k of rank r lies at -(8 r + k), an empty one below each rank.
include "csv";

["forward", "backward", "cast", "communication", "idle", "update", "data"] as $lanes
| ["#1b9e77", "#7570b3", "#d95f02", "#e6ab02", "#bdbdbd", "#66a61e", "#a6cee3"] as $colors
| csv_rows as $rows | ($rows | first_seen(.planner)) as $planners
| ($rows | map({key: .rank, value: .class}) | from_entries) as $class | ($rows | numbers("rank") | max + 1) as $ranks
| ($rows | numbers("iteration_us") | max / 1000) as $last
| {width: 1080, height: (310 * ($planners | length)), panels: [$planners[] as $planner | ($rows
    | map(select(.planner == $planner))) as $mine
   | ($mine[0].iteration_us | tonumber / 1000) as $iteration
   | {title: "\($planner): \($iteration * 10 | round / 10) ms an iteration", legend: "none", x: {label: "milliseconds", low: 0,
       high: ($last * 1.01)},
      y: {low: (0.5 - 8 * $ranks + 1), high: 0.6, ticks: [range($ranks) as $r | range($lanes | length) as $k | [0 - 8 * $r - $k,
          "\($class[$r | tostring]): \($lanes[$k])"]]},
      marks: [{x: $iteration, color: "#444444"}],
      series: [range($lanes | length) as $k | ($mine | map(select(.lane == $lanes[$k]) | (0 - 8 * (.rank | tonumber) - $k) as $y
               | [(.start_us | tonumber / 1000), $y - 0.4, (.end_us | tonumber / 1000), $y + 0.4])) as $data
               | select($data != []) | {title: $lanes[$k], color: $colors[$k], draw: "boxes", $data}]}]}
