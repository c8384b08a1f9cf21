# SPDX-License-Identifier: Apache-2.0
# Rows of table.md from the answers of `qsync accum MODEL --adder NAME --json`, one an adder: a stage is what operators' names begin with.
def pair: "(\(map(.normal) | max), \(map(.chunked) | max))";
def stage: .operator | split(".")[0];
. as $answers
| (.[0].operators | map(stage) | reduce .[] as $one ([]; if index($one) then . else . + [$one] end))[] as $stage
| ("forward", "input_gradient", "weight_gradient") as $gemm
| [$answers[] | [.operators[] | select(stage == $stage)[$gemm] | values]] as $sums
| select($sums[0] | length > 0)
| "| \($stage) | \($gemm | sub("_"; " ")) | \($sums[0] | map(.length) | max) | \($sums[0] | pair) | \($sums[0] | map(.["align-truncate"]) | pair)"
  + " | \($sums[1] | map(.["nearest-even"]) | pair) | \($sums[2] | map(.["toward-zero"]) | pair) |"
