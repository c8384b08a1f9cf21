#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: short
# covers: narrow
# qsync-bench accum: figures of the question they name, whose answer is the one that accum gives; narrow: one for every adder and
# every shape.
program=$QSYNC_BENCH
. "$(dirname "$0")/../cli/check.inc"

"$program" accum --json > "$work/figures" || failures=$((failures + 1))
bits=$("$QSYNC" accum --m-p 5 --length 1000000000 --json | jq .normal)
jq -e --argjson bits "$bits" '.length == 1000000000 and .product_bits == 5 and .bits == $bits and .vrr_ms > 0 and .bits_ms > 0
    and .worst_width >= 5 and .worst_width <= 60' "$work/figures" > "$work/said" || {
    echo "other figures than those of a sum that needs $bits bits:"
    cat "$work/figures"
    failures=$((failures + 1))
}
"$program" accum > "$work/line" || failures=$((failures + 1))
grep -q "finding that $bits bits are enough" "$work/line" || {
    echo "no width of $bits bits in:"
    cat "$work/line"
    failures=$((failures + 1))
}
"$program" narrow --rounds 1 --json > "$work/figures" || failures=$((failures + 1))
jq -e '(.kernel_ratio | length >= 8 and has("nearest-even") and has("align-truncate/chunk64") and has("toward-zero") and has("stochastic"))
    and ([.kernel_ratio[], .taken_ratio[], .linear_ratio[]] | min > 0)
    and ([.taken_ratio, .linear_ratio | length] | unique) == [.kernel_ratio | length]
    and (.shapes | has("linear 768 to 768"))
    and (.shapes | length >= 8) and ([.shapes[][].gigaproducts_per_s] | min > 0)' "$work/figures" \
    > "$work/said" || {
    echo "missing in the figures of narrow accumulators:"
    cat "$work/figures"
    failures=$((failures + 1))
}
finish
