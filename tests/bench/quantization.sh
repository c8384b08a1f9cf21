#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: short
# qsync-bench quantization: shares follow from the times beside them.
program=$QSYNC_BENCH
. "$(dirname "$0")/../cli/check.inc"

# holds WHAT PROGRAM: jq says true about what was printed.
holds() {
    jq -e 'def near($b): (. - $b) | fabs < 1e-6 * (($b | fabs) + 1e-9);'"$2" "$work/figures" > "$work/said" || {
        echo "$1 does not hold in:"
        cat "$work/figures"
        failures=$((failures + 1))
    }
}
"$program" quantization --models lenet5 --batches 2,4 --steps 2 --backend ref --json > "$work/figures" || failures=$((failures + 1))
holds 'quantization' '.recipe == "int8/bf16" and .half == "bf16" and (.models.lenet5 | keys == ["2", "4"])'
holds 'shares' '.models.lenet5[] | . as $f
    | (.share | near($f.conversions_us / $f.step_us)) and (.half_share | near($f.half_conversions_us / $f.half_step_us))
    and (.extra_over_half | near(($f.conversions_us - $f.half_conversions_us) / $f.step_us))
    and (.saved | near($f.dequantize_us / ($f.conversions_us + $f.dequantize_us)))
    and .dequantize_us > 0 and .extra_in_three_passes > .extra_over_half'


refuse 2 "'x' is no batch" quantization --batches x --backend ref
refuse 2 'unknown benchmark quantisation: there are accum, attention' quantisation
finish
