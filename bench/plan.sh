#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Milliseconds to plan for 32 devices on graphs of the size of resnet50 and BERT-base with synthetic costs, and for a decoder of 96 layers
# (1,057 adjustable operators) on 1,024 devices of eight classes: from scratch (plan_ms), again for another memory budget (replan_ms) or
# other devices (replan_devices_ms), and for one full prediction of the plan (predict_ms). Several runs, the median of each figure is kept.
# BENCH_ROUNDS (5). And per cent of sum of Omega by which planner qsync lies above the proven optimum on random models of up to 12 operators
# (gap.median, gap.worst), beside qsync-heap (gap.heap_median, gap.heap_worst) and uniform (gap.uniform_median, gap.uniform_worst), over the
# gap.nontrivial of gap.scenes in which uniform is not optimal; the same in every run.
set -eu
cd "$(dirname "$0")/.."
bench_name=plan
. bench/common.sh
: "${BENCH_ROUNDS:=5}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for round in $(seq "$BENCH_ROUNDS"); do
    "$QSYNC_BENCH" plan --json >> "$work/rows"
    echo "bench: round $round of $BENCH_ROUNDS done" >&2
done

"$QSYNC_BENCH" gap --json > "$work/gap"
jq -s 'def median: sort | .[length / 2 | floor];
    . as $runs | .[0] | [paths(numbers)] as $keys
    | reduce $keys[] as $key ({}; setpath($key; [$runs[] | getpath($key)] | median)) + $gap[0]' --slurpfile gap "$work/gap" "$work/rows" > "$work/figures.json"
bench_write "$work/figures.json"
jq .figures bench/results/plan.json
