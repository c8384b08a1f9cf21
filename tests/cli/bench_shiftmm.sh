#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: medium
# qsync bench --shiftmm: every shape has a figure of every kind that a machine can have, and the summary their geometric means.
. "$(dirname "$0")/check.inc"

"$QSYNC" bench --shiftmm --json > "$work/figures" || failures=$((failures + 1))
jq -e 'def mean: map(log) | add / length | exp;
    def near($b): . / $b | . > 0.999999 and . < 1.000001;
    (.shapes | length == 15)
    and ([.shapes[].gop_per_s | .fp32, .["own int4"], .gathered] | all(. > 0))
    and ([.shapes[].speedup_end_to_end | .int4, .int6, .hadamard] | all(. == null or . > 0))
    and ([.shapes[].gemm_over_shiftmm.own, .shapes[].share_gathering] | all(. > 0))
    and (.gemm_over_shiftmm.own | near($f[0].shapes | map(.gop_per_s["own int4"] / .gop_per_s.gathered) | mean))
    and (.share_gathering | near($f[0].shapes | map(.share_gathering) | mean))' --slurpfile f "$work/figures" "$work/figures" > "$work/said" || {
    echo "figures are missing, or are not those of the shapes, in:"
    cat "$work/figures"
    failures=$((failures + 1))
}
refuse 2 'one thread' bench --shiftmm --threads 2
finish
