#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# labels: short
# qsync bench on whole steps: figures hang together, kernels of a breakdown add up to the step, other images are other work.
. "$(dirname "$0")/check.inc"

# holds WHAT PROGRAM: jq says true about what was printed.
holds() {
    jq -e 'def near($b): (. - $b) | fabs < 1e-6 * (($b | fabs) + 1e-9);'"$2" "$work/figures" > "$work/said" || {
        echo "$1 does not hold in:"
        cat "$work/figures"
        failures=$((failures + 1))
    }
}
run() {
    "$QSYNC" bench "$@" --json > "$work/figures" || failures=$((failures + 1))
}

run --models lenet5 --recipes fp32,int8/bf16 --batch 4 --steps 3 --breakdown --backend ref
holds 'a step' '.batch == 4 and .threads == 1 and .input == null
    and (.models.lenet5 | keys == ["fp32", "int8/bf16"])
    and (.models.lenet5[] | (.samples_per_s * .step_us | near(4e6)) and .gflop_per_s > 0 and .fraction_of_roof == null)'
holds 'a breakdown' '.models.lenet5[] | .step_us as $us
    | (([.breakdown[].us] | add) + .rest_us | near($us)) and ([.breakdown[] | .share * $us / .us] | all(near(1)))'
holds 'kernels' '.models.lenet5
    | ([.fp32.breakdown[] | select(.conversion)] == [])
    and ([.["int8/bf16"].breakdown[] | select(.conversion) | .pass] | index("quantize/forward") and index("absmax/forward"))
    and ([.fp32.breakdown[] | select(.pass | startswith("conv2d")) | {key: .pass, value: .count}] | from_entries
        == {"conv2d/forward": 2, "conv2d/weight_gradient": 2, "conv2d/input_gradient": 1})'
run --models lenet5 --recipes fp32 --batch 4 --steps 1 --breakdown --loss-scaling --backend ref
holds 'loss scaling' '.models.lenet5.fp32 | .arena_bytes > 0 and ([.breakdown[].pass] | index("finite_check/forward"))'
work_of() {
    jq '.models.resnet8.fp32 | .step_us * .gflop_per_s' "$work/figures"
}
run --models resnet8 --recipes fp32 --batch 1 --steps 1
whole=$(work_of)
run --models resnet8 --recipes fp32 --batch 1 --steps 1 --input 3x16x16
holds 'the input' '.input == "3x16x16"'
jq -en "$(work_of) / $whole | . > 0.24 and . < 0.27" > "$work/said" || {
    echo "images of 16x16 are not about a quarter of the work of 32x32"
    failures=$((failures + 1))
}

"$QSYNC" devices --peaks --json > "$work/figures" || failures=$((failures + 1))
holds 'peaks' '[.devices[] | (.formats | sort) == (.peak_gop_per_s | keys) and (.peak_gop_per_s | all(.[]; . == null or . > 0))] | all'

refuse 2 '3x64' bench --input 3x64
refuse 2 'classes' bench --classes 0
refuse 2 'resnet18' bench --models resnet18 --input 3x16x16 --backend ref
refuse 2 'do not go together: leave one out' bench --breakdown --tune
refuse 2 'unknown option --norm' bench --norm
refuse 2 '--dataset needs --tune' bench --dataset shapes
finish
