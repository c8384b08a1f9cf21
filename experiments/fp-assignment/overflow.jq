# SPDX-License-Identifier: Apache-2.0
# $results, $overflows, $curves (raw text of CSV files) -> picture of the run of uniform-fp without promotion that ended in numbers that
# are not finite, else of that which overflowed most: the accuracy beside that of other assignments of the same model and seed, and its
# worst tensors. Nothing where no run overflowed.
include "csv";

def named: [.model, .width, .rate, .planner, .ratio, .order, .promote_at, .seed];
def bare: select(.planner == "uniform-fp" and .promote_at == "0");
($results | csv_rows) as $runs | ($overflows | csv_rows) as $rows | ($curves | csv_rows) as $lines
| ($runs | map(bare | select(.diverged == "true") | named)) as $diverged
| ($rows | map(bare)) as $candidates | select($candidates != [])
| ($candidates | max_by(named as $name | [(if $diverged | index([$name]) then 1 else 0 end), (.worst_overflow_ratio | tonumber)])
    | named) as $worst
| ($candidates | map(select(named == $worst))) as $mine
| ([["fp32", "", "", "0"], ["uniform-fp", "", "", "0"], ["uniform-fp", "", "", "0.01"], ["demote", "1", "decreasing", "0.01"]]) as $cells
| [{title: "fp32", color: "#1b9e77"}, {title: "uniform-fp", color: "#d95f02"}, {title: "uniform-fp, promoted", color: "#d95f02",
    hollow: true},
   {title: "demote", color: "#7570b3"}] as $styles
| {width: 1100, height: 440, columns: 2, panels: [
   {title: "\($worst[0]), width \($worst[1]), learning rate \($worst[2])", x: {label: "epoch"}, y: {label: "test accuracy, %"},
       series: [range($cells | length) as $c
    | ($lines | map(select(named == $worst[0:3] + $cells[$c] + [$worst[7]]) | [(.epoch | tonumber), 100 * (.test_accuracy
        | tonumber)])) as $data
    | select($data != []) | $styles[$c] + {draw: "both", $data}]},
   {title: "its worst tensors under uniform-fp without promotion (line: 0.01)",
    x: {label: "epoch", ticks: ($mine | map(.epoch | tonumber) | unique | map([., tostring]))},
    y: {label: "overflows / elements, mean of the epoch", log: true}, marks: [{y: 0.01}],
    series: [($mine | map(.tensor) | unique)[] as $tensor | {title: $tensor, draw: "both",
       data: ($mine | map(select(.tensor == $tensor) | [(.epoch | tonumber), (.overflow_ratio | tonumber
           | if . > 0 then . else null end)]))}]}]}
