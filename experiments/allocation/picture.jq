# SPDX-License-Identifier: Apache-2.0
# $accuracy and $speed (raw text of CSV files) -> blocks of gnuplot data, one for each planner that has runs: x, accuracy in points above the first
# planner's mean with the first limit (mean, lowest, highest seed), throughput in per cent of uniform, round by round (median, lowest, highest).
include "csv";

def cell_of: [.model, .dataset, .limit];

($accuracy | csv_rows) as $runs | ($speed | csv_rows) as $rounds | ($runs | first_seen(cell_of)) as $cells | ($runs | first_seen(.planner)) as $planners
| $planners[] as $planner
| "\"\($planner)\"",
  (range($cells | length) as $c | $cells[$c] as $cell
   | ($runs | map(select(cell_of == $cell and .planner == $planner))) as $mine
   | ($runs | map(select(.model == $cell[0] and .dataset == $cell[1] and .planner == $planners[0]))
      | .[0].limit as $limit | map(select(.limit == $limit)) | numbers("test_accuracy") | mean) as $reference
   | ($rounds | map(select(cell_of == $cell and .planner == "uniform"))) as $uniform
   | ($mine | map(100 * ((.test_accuracy | tonumber) - ($reference // 0)))) as $accuracy
   | ($rounds | map(select(cell_of == $cell and .planner == $planner) | . as $one | $uniform[] | select(.round == $one.round)
        | 100 * ($one.images_per_second | tonumber) / (.images_per_second | tonumber))) as $pace
   | select(($accuracy | length) > 0 and ($pace | length) > 0)
   | [$c * (($planners | length) + 1) + ($planners | index($planner)), ($accuracy | mean), ($accuracy | min), ($accuracy | max),
      ($pace | median), ($pace | min), ($pace | max)] | map(tostring) | join(" ")),
  "\n"
