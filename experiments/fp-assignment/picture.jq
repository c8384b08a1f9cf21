# SPDX-License-Identifier: Apache-2.0
# results.csv (raw text), $model, $width, $rate -> blocks of gnuplot data, each with a title: mean share of low elements, allocated MiB, accuracy (mean,
# lowest, highest of the seeds; diverged runs count as 0).
include "csv";

def accuracies: map(if .diverged == "true" then 0 else .test_accuracy | tonumber | . * 100 end);
def point: [(numbers("ratio_mean") | mean // 0), (numbers("arena_last_bytes") | mean / 1048576), (accuracies | mean), (accuracies | min), (accuracies | max)] | map(tostring) | join(" ");
def block($title): if length == 0 then empty else "\"\($title)\"", (group_by(.ratio | if . == "" then 0 else tonumber end)[] | point), "\n" end;

csv_rows | map(select(.model == $model and .width == $width and .rate == $rate)) as $mine
| ($mine | map(select(.planner == "demote" and .order == "decreasing")) | block("demote")),
  (("increasing", "random") as $order | $mine | map(select(.planner == "demote" and .order == $order)) | block("demote, \($order)")),
  (("fp32", "uniform-fp", "op", "op-io") as $planner | ("0", "0.01") as $promote
   | $mine | map(select(.planner == $planner and .promote_at == $promote)) | block($planner + (if $promote == "0" then "" else ", promoted" end)))
