#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# choose-r.sh MODEL WIDTH DROP [RATE [RESULTS]]: the largest ratio of demotion (decreasing sizes) up to which the mean test accuracy over seeds stays
# within DROP points of fp32's at every measured ratio, and what it saves. RATE: learning rate (0.1); RESULTS: results.csv of this folder. Fails where no ratio does.
set -eu
experiment=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 3 ] || { sed -n '3,4s/^# //p' "$0" >&2; exit 2; }
jq -Rsr -L "$experiment/.." --arg model "$1" --arg width "$2" --argjson drop "$3" --arg rate "${4:-0.1}" '
    include "csv";
    def lost($fp32): if any(.[]; .diverged == "true") then 100 else 100 * ($fp32 - (numbers("test_accuracy") | mean)) end;
    csv_rows | map(select(.model == $model and .width == $width and .rate == $rate)) as $mine
    | ($mine | map(select(.planner == "fp32")) | numbers("test_accuracy") | mean) as $fp32
    | if $fp32 == null then "no run of fp32 for \($model), width \($width), learning rate \($rate)" | halt_error(1) else . end
    | $mine | map(select(.planner == "demote" and .order == "decreasing")) | group_by(.ratio | tonumber)
    | map({ratio: .[0].ratio, seeds: length, drop: lost($fp32), saved: ((.[0].counted_high_bytes | tonumber) - (.[0].counted_bytes | tonumber)),
           arena: ((.[0].arena_high_bytes | tonumber) - (numbers("arena_last_bytes") | mean))})
    | (map(.drop <= $drop) | index(false) // length) as $kept
    | if $kept == 0 then "no measured ratio stays within \($drop) points of fp32" | halt_error(1) else .[$kept - 1]
      | "r = \(.ratio): accuracy \(.drop | fixed(2)) points below fp32 (\(.seeds) seeds), \(.saved / 1048576 | fixed(1)) MiB counted and \(.arena / 1048576 | fixed(1)) MiB allocated saved against all high" end' \
    "${5:-$experiment/results.csv}"
