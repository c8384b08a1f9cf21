# SPDX-License-Identifier: Apache-2.0
# results.csv (raw text), $width, $rate -> picture: accuracy (mean, lowest, highest of the seeds; diverged runs count as 0) against the
# mean share of low elements, below it against allocated bytes; a column a model.
include "csv";

def accuracies: map(if .diverged == "true" then 0 else .test_accuracy | tonumber | . * 100 end);
def style($title): {demote: {color: "#7570b3"}, "demote, increasing": {color: "#e7298a"}, "demote, random": {color: "#e6ab02"},
    fp32: {color: "#1b9e77"}}[$title]
    // {color: (if $title | startswith("uniform-fp") then "#d95f02" elif $title | startswith("op-io") then "#66a61e" else "#666666" end)};
# Rows of one title -> a series; figure: of a list of rows.
def series($title; figure): select(length > 0)
    | style($title) + {$title, draw: (if $title | startswith("demote") then "both" else "points" end), hollow: ($title
        | endswith("promoted")),
       data: (group_by(.ratio | if . == "" then 0 else tonumber end) | map(accuracies as $all | [figure, ($all | mean), ($all | min),
           ($all | max)]) | sort)};

csv_rows | map(select(.width == $width and .rate == $rate)) as $rows | ($rows | first_seen(.model)) as $models
| def panel($model; $axis; figure): ($rows | map(select(.model == $model))) as $mine
    | {title: "\($model), width \($width)", x: {label: $axis}, y: {label: "test accuracy, %"}, series: [
       ($mine | map(select(.planner == "demote" and .order == "decreasing")) | series("demote"; figure)),
       (("increasing", "random") as $order | $mine | map(select(.planner == "demote" and .order == $order))
           | series("demote, \($order)"; figure)),
       (("fp32", "uniform-fp", "op", "op-io") as $planner | ("0", "0.01") as $promote | $mine
        | map(select(.planner == $planner and .promote_at == $promote))
            | series($planner + (if $promote == "0" then "" else ", promoted" end); figure))]};
  {width: (420 * ($models | length)), height: 860, columns: ($models | length), panels: [
   (range($models | length) as $m | panel($models[$m]; "share of elements in low precision, mean over steps"; numbers("ratio_mean")
       | mean // 0)),
   (range($models | length) as $m | panel($models[$m]; "allocated, MiB"; numbers("arena_last_bytes") | mean / 1048576))]}
