# SPDX-License-Identifier: Apache-2.0
# Shared by the scripts of this experiment: the plans whose accumulators it compares, and their results. Set model, batch, folder, plan and
# ACCUMULATORS_CHUNK, ACCUMULATORS_OUT before calling.
# shellcheck shell=sh disable=SC2154

# Every operator in FP8 products; what they write stays fp32.
base_plan() {
    "$QSYNC" accum "$model" --batch "$batch" --json | jq '
        "fp(5,2,0)" as $fp8 | "fp(8,23)/nearest-even" as $wide
        | {schema: "qsync/plan/2",
           recipes: {fp8: {forward: {src: $fp8, weights: $fp8, accumulator: $wide, dst: "fp32"},
                           input_gradient: {diff_dst: $fp8, weights: $fp8, accumulator: $wide},
                           weight_gradient: {src: ($fp8 + "<saved"), diff_dst: $fp8, accumulator: $wide}}},
           classes: {lender: {operators: ([.operators[] | {key: .operator, value: "fp8"}] | from_entries)}}}'
}

# WIDTHS BITS_OFF ADDER
plan_make() {
    base_plan > "$folder/base.json"
    [ "$1" != baseline ] || { cp "$folder/base.json" "$plan"; return; }
    chunk=
    [ "$ACCUMULATORS_CHUNK" = 0 ] || chunk=/chunk$ACCUMULATORS_CHUNK
    case $1 in
    formula | adder) set -- "fp(8,auto)$chunk/$3" "--accumulator-bits-off=$2" "--accumulator-widths=$1" ;;
    *) set -- "fp(8,$1)$chunk/$3" ;;
    esac
    rule=$1
    shift
    must "$folder/log" "$QSYNC" accum "$model" --batch "$batch" --plan "$folder/base.json" --accumulate "$rule" "$@" --out "$plan"
}

cluster_make() {
    cluster "$(class lender training 1 1 100% '"fp32", "fp(5,2,0)"' | sed 's/"storage": \[[^]]*\]/"storage": ["fp32"]/')"
}

append() { # FILE COLUMNS KEY, rows on standard input, in place of those that begin with the key
    {
        flock 9
        { if [ -f "$1" ]; then awk -v key="$3," 'index($0, key) != 1' "$1"; else echo "$2"; fi; cat; } | publish "$(basename "$1")"
    } 9> "$ACCUMULATORS_OUT/lock"
}
