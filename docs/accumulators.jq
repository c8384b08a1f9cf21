# SPDX-License-Identifier: Apache-2.0
# Rows of the models' table in accumulators.md, from `qsync accum MODEL --json`: per stage and GEMM the longest sum, and its widths.
def cell: if length == 0 then "-" else max_by(.length) | "\(.length) (\(.normal), \(.chunked))" end;
.model as $model
| [.operators | to_entries | group_by(.value.operator | split(".")[0]) | sort_by(.[0].key)[] | map(.value)][]
| "| \($model) | \(.[0].operator | split(".")[0]) | \([.[].forward | values] | cell) | \([.[].input_gradient | values] | cell)"
  + " | \([.[].weight_gradient | values] | cell) |"
