# SPDX-License-Identifier: Apache-2.0
# $plans, $accuracy, $speed (raw text of CSV files) -> tables in Markdown, one for each model and memory limit, planners in the order of $plans.
include "csv";

def same($one): select(.model == $one.model and .dataset == $one.dataset and .batch == $one.batch and .limit == $one.limit);

# Throughput against that of `uniform` in the same round, which ran next to it: the median of the rounds.
def against($uniform): map(. as $one | $uniform[] | select(.round == $one.round) | ($one.samples_per_second | tonumber) / (.samples_per_second | tonumber))
    | median | if . == null then "" else . * 100 | fixed(1) end;

# Accuracy against that of `uniform` with the same seed, in points: the mean ± its standard error.
def paired($uniform): map(. as $one | $uniform[] | select(.seed == $one.seed) | (($one.test_accuracy | tonumber) - (.test_accuracy | tonumber)) * 100)
    | if length < 2 or all(. == 0) then "" else "\(mean | fixed(2)) ± \(deviation / (length | sqrt) | fixed(2))" end;

# What a set of questions tells besides: "; F1 12.3 ± 0.4", nothing for others.
def besides($name; $column): map(select(.[$column])) | numbers($column) | if . == [] then "" else "; \($name) \(spread(100; 2))" end;

def line($runs; $rounds; $uniform): .planner as $planner | if .fits == "false" then [$planner, "does not fit", "", "", "", "", "", "", "", ""]
    else $runs as $all | ($runs | map(select(.planner == $planner))) as $runs | ($rounds | map(select(.planner == $planner))) as $rounds | $runs[0] as $one
      | [$planner, ($one.weak_operators // ""), (if $one then "\($one.big_batch) + \($one.weak_batch)" else "" end),
         ($runs | (numbers("test_accuracy") | spread(100; 2)) + besides("exact"; "test_exact_match") + besides("F1"; "test_f1")),
         ($runs | paired($all | map(select(.planner == "uniform")))), ($rounds | numbers("samples_per_second") | median | if . == null then "" else fixed(0) end),
         ($rounds | against($uniform)), ($runs | numbers("sum_omega") | mean | brief),
         (if $rounds == [] then "" else "\($rounds | numbers("big_waiting_us") | median / 1000 | fixed(1)) / \($rounds | numbers("weak_waiting_us") | median / 1000 | fixed(1))" end),
         ($runs | numbers("weak_arena_bytes") | mean | if . == null then "" else . / 1048576 | fixed(1) end)] end | row;

def table($runs; $rounds): .[0] as $one | ($runs | map(same($one))) as $runs | ($rounds | map(same($one))) as $rounds
    | "\n## \($one.model), \($one.dataset), batch 2 x \($one.batch), \($runs[0].epochs // "-") epochs, memory of weak: \(
        if $one.limit_bytes | endswith("%") then "ample" else "\($one.limit_bytes | rtrimstr("B") | tonumber / 1048576 | fixed(1)) MiB" end)\n",
      (["plan", "operators of weak", "batch big + weak", "test accuracy, %", "less uniform's, points", "samples/s", "of uniform, %", "ΣΩ", "waiting big / weak, ms", "arena of weak, MiB"] | row),
      ([range(10) | "---"] | row),
      (.[] | line($runs; $rounds; $rounds | map(select(.planner == "uniform"))));

($plans | csv_rows) as $plans | ($accuracy | csv_rows) as $runs | ($speed | csv_rows) as $rounds
| "Accuracy: means over \($runs | map(.seed) | unique | length) seeds ± standard deviation, less that of uniform with the same seeds ± standard error; speed: medians of \($rounds | map(.round) | unique | length) rounds of short runs. Written by run.sh.",
  ($plans | first_seen([.model, .dataset, .batch, .limit])[] as $cell | $plans | map(select([.model, .dataset, .batch, .limit] == $cell)) | table($runs; $rounds))
