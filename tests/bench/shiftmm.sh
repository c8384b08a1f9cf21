#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# qsync-bench shiftmm: every shape has a figure of every kind that a machine can have, and the summary their geometric means; the bf16
# kernel that the device takes never makes a speedup larger.
program=$QSYNC_BENCH
. "$(dirname "$0")/../cli/check.inc"

"$program" shiftmm --rounds 1 --json > "$work/figures" || failures=$((failures + 1))
jq -e 'def mean: map(log) | add / length | exp;
    def near($b): . / $b | . > 0.999999 and . < 1.000001;
    (.shapes | length == 15)
    and ([.shapes[].gop_per_s | .fp32, .["own int4"], .["own int8:shift4"], .["grouped int4"], .["grouped int8:shift4"]] | all(. > 0))
    and ([.shapes[] | .speedup_end_to_end, .taken_speedup_end_to_end | .int4, .int6, .hadamard] | all(. == null or . > 0))
    and ([.shapes[] | select(.gop_per_s["taken bf16"]) | .taken_speedup.int4 <= .speedup_over_bf16.int4] | all)
    and ([.shapes[] | .gemm_over_shiftmm.own, .gemm_over_shiftmm["int8:shift4"], .share_gathering] | all(. > 0))
    and (.gemm_over_shiftmm.own | near($f[0].shapes | map(.gop_per_s["own int4"] / .gop_per_s["grouped int4"]) | mean))
    and (.gemm_over_shiftmm["int8:shift4"]
        | near($f[0].shapes | map(.gop_per_s["own int8:shift4"] / .gop_per_s["grouped int8:shift4"]) | mean))
    and (.share_gathering | near($f[0].shapes | map(.share_gathering) | mean))' --slurpfile f "$work/figures" "$work/figures" > "$work/said" || {
    echo "figures are missing, or are not those of the shapes, in:"
    cat "$work/figures"
    failures=$((failures + 1))
}
refuse 2 'unknown option --threads' shiftmm --threads 2
finish
