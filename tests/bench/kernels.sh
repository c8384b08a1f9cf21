#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: short
# qsync-bench kernels: figures hang together, the list is of cases, every candidate is timed, and what a device has no kernel for is told.
program=$QSYNC_BENCH
. "$(dirname "$0")/../cli/check.inc"

holds() { # WHAT PROGRAM
    jq -e 'def near($b): (. - $b) | fabs < 1e-6 * (($b | fabs) + 1e-9);'"$2" "$work/figures" > "$work/said" || {
        echo "$1 does not hold in:"
        cat "$work/figures"
        failures=$((failures + 1))
    }
}
run() {
    "$program" kernels --rounds 1 --json "$@" > "$work/figures" || failures=$((failures + 1))
}

run --values 262144
holds 'what moves bytes' '.backend == "cpu" and .values == 262144 and .refused == [] and (.kernels | length) >= 40
    and (.copy_gb_per_s as $copy | .kernels | all(. as $row | (.gb_per_s * .us * 1e3 | near($row.bytes))
        and (.fraction_of_copy * $copy | near($row.gb_per_s))))
    and ([.kernels[] | select(.case | startswith("cast/forward src=fp32[4,64,32,32] dst=bf16[4,64,32,32]")) | .bytes] | all(. == 6 * 262144))'
run --candidates --case 'linear/forward src=fp32[64,64] weights=fp32[64,64] dst=fp32[64,64]'
holds 'candidates' '([.kernels[].kernel] | length >= 1 and length == (unique | length)) and .refused == []'
for options in '--case nonsense' '--case conv2d/forward --products'; do
    # shellcheck disable=SC2086
    "$program" kernels --rounds 1 $options > "$work/out" 2> "$work/err" && fail "$options is taken"
done
finish
