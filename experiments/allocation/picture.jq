# SPDX-License-Identifier: Apache-2.0
# $accuracy and $speed (raw text of CSV files) -> picture: accuracy in points above the first planner's mean with the first limit (mean,
# lowest, highest seed), and throughput in per cent of uniform, round by round (median, lowest, highest).
include "csv";

def cell_of: [.model, .dataset, .limit];
{fp32: "#1b9e77", uniform: "#d95f02", dbs: "#e7298a", qsync: "#7570b3", "qsync-heap": "#a6761d", joint: "#66a61e",
    dpro: "#e6ab02"} as $colors
| ($accuracy | csv_rows) as $runs | ($speed | csv_rows) as $rounds | ($runs | first_seen(cell_of)) as $cells
| ($runs | first_seen(.planner)) as $planners | (($planners | length) + 1) as $group
| [range($cells | length) as $c | [$c * $group + ($group - 2) / 2, "\($cells[$c][0])\n\($cells[$c][1])\n\($cells[$c][2])"]] as $ticks
| def place($planner): . * $group + ($planners | index($planner));
  def accuracies($planner): [range($cells | length) as $c | $cells[$c] as $cell
    | ($runs | map(select(.model == $cell[0] and .dataset == $cell[1] and .planner == $planners[0]))
       | .[0].limit as $limit | map(select(.limit == $limit)) | numbers("test_accuracy") | mean) as $reference
    | ($runs | map(select(cell_of == $cell and .planner == $planner)) | numbers("test_accuracy")
        | map(100 * (. - ($reference // 0)))) as $all
    | select($all != []) | [($c | place($planner)), ($all | mean), ($all | min), ($all | max)]];
  def paces($planner): [range($cells | length) as $c | $cells[$c] as $cell
    | ($rounds | map(select(cell_of == $cell and .planner == "uniform"))) as $uniform
    | ($rounds | map(select(cell_of == $cell and .planner == $planner) | . as $one | $uniform[] | select(.round == $one.round)
        | 100 * ($one.samples_per_second | tonumber) / (.samples_per_second | tonumber))) as $all
    | select($all != []) | [($c | place($planner)), ($all | median), ($all | min), ($all | max)]];
  {width: 1080, height: 700, panels: [
    {title: "Test accuracy less the mean of \($planners[0]) (mean and range over seeds)", legend: "right", x: {$ticks},
        y: {label: "points"},
     marks: [{y: 0}], series: [$planners[] as $one | {title: $one, color: ($colors[$one] // "#666666"), draw: "points",
         data: accuracies($one)}]},
    {title: "Throughput against uniform, round by round (median and range)", legend: "right", x: {$ticks}, y: {label: "per cent"},
     series: [$planners[] as $one | {title: $one, color: ($colors[$one] // "#666666"), draw: "bars", data: paces($one)}]}]}
