# SPDX-License-Identifier: Apache-2.0
# results.csv (raw text) -> picture of ranks over iterations; an operator has the color of its place at the end, where its name stands.
include "csv";

def hex: [. / 16 | floor, . % 16] | map("0123456789abcdef"[.:. + 1]) | join("");
# 0 .. 1 -> a color from violet over green to yellow.
def palette: [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [212, 177, 6]] as $stops
    | (. * 4) as $at | ([$at | floor, 3] | min) as $i
    | "#" + ([range(3) as $k | ($stops[$i][$k] + ($at - $i) * ($stops[$i + 1][$k] - $stops[$i][$k])) | round | hex] | join(""));

csv_rows as $rows | ($rows | first_seen(.model)) as $models
| {width: 1080, height: (420 * ($models | length)), panels: [$models[] as $model | ($rows | map(select(.model == $model))) as $mine
   | ($mine | first_seen(.operator)) as $operators
   | {title: "\($model): ranks of operators by omega in \($mine[0].recipe)", legend: "none",
      x: {label: "iteration"}, y: {label: "rank (1: most sensitive)", low: (($operators | length) + 0.5), high: 0.5},
      series: [$operators[] as $operator | ($mine | map(select(.operator == $operator) | [(.iteration | tonumber), (.rank
          | tonumber)])) as $data
               | {title: $operator, at_end: true, color: (($data[-1][1] - 1) / ([($operators | length) - 1, 1] | max) | palette), $data}]}]}
