#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Microseconds of a change of one operator in the cost mapper (median and 95th percentile over 2000 random changes, and of taking them
# back), beside lowering from scratch and packing the arena. Several runs, the median of each figure is kept.
# BENCH_OPERATORS (100 1000 4000), BENCH_ROUNDS (5).
set -eu
cd "$(dirname "$0")/.."
bench_name=mapper
. bench/common.sh
: "${BENCH_OPERATORS:=100 1000 4000}" "${BENCH_ROUNDS:=5}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for round in $(seq "$BENCH_ROUNDS"); do
    for operators in $BENCH_OPERATORS; do
        "$QSYNC_BENCH" mapper --operators "$operators" --json | jq -c --arg size "$operators" '{size: $size, figures: .}' >> "$work/rows"
    done
    echo "bench: round $round of $BENCH_ROUNDS done" >&2
done

jq -s 'def median: sort | .[length / 2 | floor];
    group_by(.size)
    | map({key: .[0].size, value: ([.[].figures] | . as $runs | .[0] | with_entries(.key as $key | .value = ([$runs[][$key]] | median)))})
    | from_entries' "$work/rows" > "$work/figures.json"
bench_write "$work/figures.json"
jq .figures bench/results/mapper.json
