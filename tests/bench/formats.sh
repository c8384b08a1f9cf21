#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# qsync-bench formats: a positive figure for every format and rounding and for stochastic codes of int8, under a ceiling that it names.
program=$QSYNC_BENCH
. "$(dirname "$0")/../cli/check.inc"

"$program" formats --rounds 1 --isa portable --json > "$work/figures" || failures=$((failures + 1))
jq -e '.isa == "portable" and .threads == 1 and .bytes == 67108864 and .copy_gb_per_s > 0
    and (.rounding | has("fp16") and has("bf16") and has("e4m3fn") and has("fp(4,3,4)"))
    and (.rounding | all(.[]; keys == ["floor", "nearest-away", "nearest-even", "stochastic", "toward-zero"]))
    and ((.packing | keys) == (.rounding | keys)) and ((.unpacking | keys) == (.rounding | keys))
    and (.quantizing | keys == ["bf16", "fp32"])
    and ([.rounding[][], .packing[], .unpacking[], .quantizing[]] | all(.gb_per_s > 0 and .fraction > 0))' "$work/figures" > "$work/said" || {
    echo "figures are missing in:"
    cat "$work/figures"
    failures=$((failures + 1))
}
refuse 2 'instruction set' formats --isa avx1024
finish
